// Bytes that grow: the texts that normalization makes. Internal to src/text.
#ifndef RN_TEXT_TEXT_BUFFER_H
#define RN_TEXT_TEXT_BUFFER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct text_buffer { // zeroed at first
    uint8_t *data;
    size_t len, capacity;
};

// Room for n more bytes; false: out of memory, and nothing has changed.
static inline bool text_buffer_reserve(struct text_buffer *buffer, size_t n) {
    if (n <= buffer->capacity - buffer->len) return true;
    if (n > SIZE_MAX / 4 || buffer->len > SIZE_MAX / 4) return false;
    size_t capacity = buffer->len + n;
    if (capacity < 2 * buffer->capacity) capacity = 2 * buffer->capacity;
    if (capacity < 256) capacity = 256;
    uint8_t *const data = realloc(buffer->data, capacity);
    if (!data) return false;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

static inline bool text_buffer_put(struct text_buffer *buffer, const void *data, size_t n) {
    if (!text_buffer_reserve(buffer, n)) return false;
    if (n > 0) memcpy(buffer->data + buffer->len, data, n);
    buffer->len += n;
    return true;
}

static inline void text_buffer_deinit(struct text_buffer *buffer) {
    free(buffer->data);
    *buffer = (struct text_buffer){0};
}

#endif

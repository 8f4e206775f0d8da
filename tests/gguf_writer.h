// Builds GGUF images in memory for tests, good ones and (through the open fields and the _raw
// calls) bad ones. Use: writer_begin, any number of writer_kv_* and writer_tensor, writer_finish,
// which returns a malloc'ed image of exactly its size, so that a sanitizer sees any read past its
// end.
#ifndef RN_TESTS_GGUF_WRITER_H
#define RN_TESTS_GGUF_WRITER_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Value types of GGUF, as it numbers them.
enum {
    WRITER_U8,
    WRITER_I8,
    WRITER_U16,
    WRITER_I16,
    WRITER_U32,
    WRITER_I32,
    WRITER_F32,
    WRITER_BOOL,
    WRITER_STRING,
    WRITER_ARRAY,
    WRITER_U64,
    WRITER_I64,
    WRITER_F64
};

struct writer_buffer {
    uint8_t *data;
    size_t size, cap;
};

struct writer {
    // May be overwritten before writer_finish.
    uint32_t magic, version, alignment;
    uint64_t n_kv, n_tensors;
    struct writer_buffer kv, infos, data;
};

static inline void writer_put(struct writer_buffer *buffer, const void *bytes, size_t size) {
    if (buffer->size + size > buffer->cap) {
        buffer->cap = (buffer->size + size) * 2;
        buffer->data = realloc(buffer->data, buffer->cap);
        assert(buffer->data);
    }
    if (size) memcpy(buffer->data + buffer->size, bytes, size);
    buffer->size += size;
}

static inline void writer_put_u32(struct writer_buffer *buffer, uint32_t value) {
    writer_put(buffer, &value, sizeof value);
}

static inline void writer_put_u64(struct writer_buffer *buffer, uint64_t value) {
    writer_put(buffer, &value, sizeof value);
}

static inline void writer_put_string(struct writer_buffer *buffer, const char *text, size_t len) {
    writer_put_u64(buffer, len);
    writer_put(buffer, text, len);
}

static inline void writer_pad(struct writer_buffer *buffer, size_t alignment) {
    while (buffer->size % alignment) writer_put(buffer, "", 1);
}

static inline struct writer writer_begin(uint32_t version) {
    return (struct writer){.magic = 0x46554747, .version = version, .alignment = 32};
}

// Any key with any bytes behind the type; nothing is checked.
static inline void writer_kv_raw(struct writer *writer, const char *key, size_t key_len,
                                 uint32_t type, const void *value, size_t size) {
    writer_put_string(&writer->kv, key, key_len);
    writer_put_u32(&writer->kv, type);
    writer_put(&writer->kv, value, size);
    writer->n_kv++;
}

static inline void writer_kv(struct writer *writer, const char *key, uint32_t type,
                             const void *value, size_t size) {
    writer_kv_raw(writer, key, strlen(key), type, value, size);
}

static inline void writer_kv_u32(struct writer *writer, const char *key, uint32_t value) {
    writer_kv(writer, key, WRITER_U32, &value, sizeof value);
}

static inline void writer_kv_u64(struct writer *writer, const char *key, uint64_t value) {
    writer_kv(writer, key, WRITER_U64, &value, sizeof value);
}

static inline void writer_kv_f32(struct writer *writer, const char *key, float value) {
    writer_kv(writer, key, WRITER_F32, &value, sizeof value);
}

static inline void writer_kv_bool(struct writer *writer, const char *key, bool value) {
    const uint8_t byte = value;
    writer_kv(writer, key, WRITER_BOOL, &byte, sizeof byte);
}

static inline void writer_kv_str(struct writer *writer, const char *key, const char *value) {
    writer_kv(writer, key, WRITER_STRING, NULL, 0);
    writer_put_string(&writer->kv, value, strlen(value));
}

// Only what comes before the items, which may then be put by hand.
static inline void writer_kv_array(struct writer *writer, const char *key, uint32_t item_type,
                                   uint64_t count) {
    writer_kv(writer, key, WRITER_ARRAY, NULL, 0);
    writer_put_u32(&writer->kv, item_type);
    writer_put_u64(&writer->kv, count);
}

static inline void writer_kv_str_array(struct writer *writer, const char *key,
                                       const char *const *items, uint64_t count) {
    writer_kv_array(writer, key, WRITER_STRING, count);
    for (uint64_t i = 0; i < count; i++) {
        writer_put_string(&writer->kv, items[i], strlen(items[i]));
    }
}

static inline void writer_kv_i32_array(struct writer *writer, const char *key, const int32_t *items,
                                       uint64_t count) {
    writer_kv_array(writer, key, WRITER_I32, count);
    writer_put(&writer->kv, items, count * sizeof *items);
}

static inline void writer_kv_f32_array(struct writer *writer, const char *key, const float *items,
                                       uint64_t count) {
    writer_kv_array(writer, key, WRITER_F32, count);
    writer_put(&writer->kv, items, count * sizeof *items);
}

// An entry of the tensor table and nothing else; offset is relative to the data.
static inline void writer_tensor_raw(struct writer *writer, const char *name, size_t name_len,
                                     uint32_t n_dims, const uint64_t *dims, uint32_t type,
                                     uint64_t offset) {
    writer_put_string(&writer->infos, name, name_len);
    writer_put_u32(&writer->infos, n_dims);
    writer_put(&writer->infos, dims, n_dims * sizeof *dims);
    writer_put_u32(&writer->infos, type);
    writer_put_u64(&writer->infos, offset);
    writer->n_tensors++;
}

// dims[0] is the row length. type is GGUF's number. Copies `bytes` of data, or zeroes if NULL.
static inline void writer_tensor(struct writer *writer, const char *name, uint32_t n_dims,
                                 const uint64_t *dims, uint32_t type, const void *data,
                                 size_t bytes) {
    writer_pad(&writer->data, writer->alignment);
    writer_tensor_raw(writer, name, strlen(name), n_dims, dims, type, writer->data.size);
    if (data) {
        writer_put(&writer->data, data, bytes);
    } else {
        for (size_t i = 0; i < bytes; i++) writer_put(&writer->data, "", 1);
    }
}

// The caller frees the image; the writer's own buffers are freed.
static inline uint8_t *writer_finish(struct writer *writer, size_t *size) {
    struct writer_buffer image = {0};
    writer_put_u32(&image, writer->magic);
    writer_put_u32(&image, writer->version);
    writer_put_u64(&image, writer->n_tensors);
    writer_put_u64(&image, writer->n_kv);
    writer_put(&image, writer->kv.data, writer->kv.size);
    writer_put(&image, writer->infos.data, writer->infos.size);
    if (writer->data.size) writer_pad(&image, writer->alignment);
    writer_put(&image, writer->data.data, writer->data.size);
    free(writer->kv.data);
    free(writer->infos.data);
    free(writer->data.data);
    *size = image.size;
    uint8_t *exact = malloc(image.size);
    assert(exact);
    memcpy(exact, image.data, image.size);
    free(image.data);
    memset(writer, 0, sizeof *writer);
    return exact;
}

#endif

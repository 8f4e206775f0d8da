// Memory by lifetime: chunks in a list, the head serves small requests by moving a mark.
// Invariants: `used` is a multiple of 16 and at most `size`; memory past `used` is still zero, as
// calloc gave it. A request that would waste most of a chunk gets one of its own behind the head.
#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_ALIGN = 16, CHUNK_MIN = 16 << 10, CHUNK_MAX = 1 << 20 };

struct arena_chunk {
    struct arena_chunk *next;
    size_t size, used; // of data
    alignas(ARENA_ALIGN) unsigned char data[];
};

static struct arena_chunk *chunk_create(size_t size) {
    struct arena_chunk *chunk = calloc(1, sizeof *chunk + size);
    if (chunk) chunk->size = size;
    return chunk;
}

// Doubles from CHUNK_MIN to CHUNK_MAX, so that a small arena stays small.
static size_t chunk_next_size(const struct arena_chunk *head) {
    if (!head) return CHUNK_MIN;
    return head->size < CHUNK_MAX / 2 ? head->size * 2 : CHUNK_MAX;
}

static void *chunk_take(struct arena_chunk *chunk, size_t bytes) {
    void *taken = chunk->data + chunk->used;
    chunk->used += bytes;
    return taken;
}

void *arena_alloc(struct arena *arena, size_t bytes) {
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes = bytes ? (bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1) : ARENA_ALIGN;

    struct arena_chunk *head = arena->head;
    if (head && head->size - head->used >= bytes) return chunk_take(head, bytes);

    const size_t size = chunk_next_size(head);
    const int is_large = bytes > size / 2;
    struct arena_chunk *chunk = chunk_create(is_large ? bytes : size);
    if (!chunk) return NULL;
    if (is_large && head) { // the head still has room for small ones
        chunk->next = head->next;
        head->next = chunk;
    } else {
        chunk->next = head;
        arena->head = chunk;
    }
    return chunk_take(chunk, bytes);
}

void *arena_array(struct arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    return arena_alloc(arena, bytes);
}

char *arena_strdup(struct arena *arena, const char *text, size_t len) {
    if (len == SIZE_MAX) return NULL;
    char *copy = arena_alloc(arena, len + 1);
    if (copy && len) memcpy(copy, text, len); // the end is zero already
    return copy;
}

void arena_deinit(struct arena *arena) {
    for (struct arena_chunk *chunk = arena->head; chunk;) {
        struct arena_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    arena->head = NULL;
}

// Memory by lifetime: many allocations, one destroy. Not thread-safe.
#ifndef RN_BASE_ARENA_H
#define RN_BASE_ARENA_H

#include <stddef.h>

struct arena_chunk;
struct arena {
    struct arena_chunk *head; // the chunk that allocations come from; older ones behind it
};

// Zeroed memory aligned to 16 bytes, or NULL when the system has none (the arena stays valid).
void *arena_alloc(struct arena *arena, size_t bytes);
// count * size with the overflow checked.
void *arena_array(struct arena *arena, size_t count, size_t size);
// Copies len bytes and ends them with a NUL.
char *arena_strdup(struct arena *arena, const char *text, size_t len);
void arena_deinit(struct arena *arena);

#endif

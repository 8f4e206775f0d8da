// An allocator for tests that let each allocation fail once: `fail_at` allocations succeed and the
// next one fails, `live` counts what is not freed, a thread that is `spared` never fails. For one
// test program each, without a sanitizer, which would bring its own.
#ifndef RN_TESTS_FAILING_MALLOC_H
#define RN_TESTS_FAILING_MALLOC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void __libc_free(void *memory);

static _Atomic long fail_at = -1; // allocations until the one that fails; below 0: none does
static _Atomic long live;         // blocks that are not freed yet
static _Thread_local bool spared;

static bool fails(void) { return !spared && fail_at >= 0 && fail_at-- == 0; }

void *malloc(size_t bytes) {
    void *const memory = fails() ? NULL : __libc_malloc(bytes);
    live += memory != NULL;
    return memory;
}

void *calloc(size_t count, size_t bytes) {
    void *const memory = fails() ? NULL : __libc_calloc(count, bytes);
    live += memory != NULL;
    return memory;
}

void *realloc(void *memory, size_t bytes) {
    void *const moved = fails() ? NULL : __libc_realloc(memory, bytes);
    live += moved != NULL && memory == NULL;
    return moved;
}

void *aligned_alloc(size_t align, size_t bytes) {
    void *const memory = fails() ? NULL : __libc_memalign(align, bytes);
    live += memory != NULL;
    return memory;
}

void free(void *memory) {
    live -= memory != NULL;
    __libc_free(memory);
}

#endif

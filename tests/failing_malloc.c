// The allocator of failing_malloc.h: `fail_at` allocations succeed and the next one fails. `live`
// is the number of blocks that are not freed. A thread that is `spared` never fails. Under a
// sanitizer, which brings its own allocator, only the variables are here.
#include "failing_malloc.h"

#include <stdlib.h>

_Atomic long fail_at = -1;
_Atomic long live;
_Thread_local bool spared;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void __libc_free(void *memory);

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

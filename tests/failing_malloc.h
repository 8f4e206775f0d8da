// An allocator for tests that let each allocation fail once (failing_malloc.c). A file that
// includes this is linked into its module's second runner, where this allocator replaces libc's.
// Sanitizers bring their own allocators: a file has to do without this one there.
#ifndef RN_TESTS_FAILING_MALLOC_H
#define RN_TESTS_FAILING_MALLOC_H

#include <stdatomic.h>
#include <stdbool.h>

extern _Atomic long fail_at;      // allocations before the failing one; below 0: none fails
extern _Atomic long live;         // blocks that are not freed yet
extern _Thread_local bool spared; // allocations of this thread never fail

#endif

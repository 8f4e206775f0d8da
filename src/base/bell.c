// See bell.h. A sleeper announces itself, then the kernel compares the word; a ringer moves the
// word, then looks for sleepers. Both in one total order (seq_cst): one sees the other.
#define _GNU_SOURCE 1
#include "base/bell.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void bell_ring(struct bell *bell) {
    atomic_fetch_add(&bell->rings, 1);
    if (atomic_load(&bell->sleepers) > 0)
        syscall(SYS_futex, &bell->rings, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void bell_wait(struct bell *bell, uint32_t seen, uint64_t timeout_ns) {
    const struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                                     .tv_nsec = (long)(timeout_ns % 1000000000u)};
    atomic_fetch_add(&bell->sleepers, 1);
    syscall(SYS_futex, &bell->rings, FUTEX_WAIT_PRIVATE, seen,
            timeout_ns == UINT64_MAX ? NULL : &timeout, NULL, 0);
    atomic_fetch_sub(&bell->sleepers, 1);
}

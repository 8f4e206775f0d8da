// Checked arithmetic on sizes that come from files. Every size computed from a file goes through
// these.
#ifndef RN_BASE_CHECKED_H
#define RN_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool ck_add(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}
static inline bool ck_mul(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

// Rounds a up to a multiple of align, a power of two.
static inline bool ck_pad(uint64_t a, uint64_t align, uint64_t *out) {
    if (!ck_add(a, align - 1, out)) return false;
    *out &= ~(align - 1);
    return true;
}

#endif

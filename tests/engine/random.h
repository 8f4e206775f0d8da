// Random numbers for the tests of the sampler: xorshift64. The including file sets RANDOM_SEED, so
// every program repeats its own numbers.
#ifndef RN_TESTS_RANDOM_H
#define RN_TESTS_RANDOM_H

#include <stdint.h>

static uint64_t random_state = RANDOM_SEED;

// In [0, 1).
static inline double uniform(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) * 0x1p-53;
}

// 0 to n - 1.
static inline int below(int n) { return (int)(uniform() * n); }

#endif

#include "base/entropy.h"

#include <sys/random.h>

#include "base/clock.h"

uint64_t entropy_u64(void) {
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, 0) == (ssize_t)sizeof bits) return bits;
    return clock_ns() * UINT64_C(0x9e3779b97f4a7c15); // early in the boot: better than a constant
}

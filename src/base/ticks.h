// A counter that advances at a constant rate and costs a few nanoseconds to read. Its unit is
// unknown: ticks give shares of a time that clock_ns() measured. Cores of a machine agree closely
// enough for that.
#ifndef RN_BASE_TICKS_H
#define RN_BASE_TICKS_H

#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>
static inline uint64_t ticks_now(void) { return __rdtsc(); }
#elif defined(__aarch64__)
static inline uint64_t ticks_now(void) {
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}
#else
#include "base/clock.h"
static inline uint64_t ticks_now(void) { return clock_ns(); }
#endif

#endif

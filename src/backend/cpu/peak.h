// Loops that only multiply and add, in registers: the machine's rate if no byte had to be moved.
// One pair per instruction set; peak.c times them.
#ifndef RN_BACKEND_CPU_PEAK_H
#define RN_BACKEND_CPU_PEAK_H

#include <stdint.h>

enum { PEAK_CHAINS = 12 }; // independent sums: enough to hide the latency of an instruction

struct peak_loop {
    uint64_t (*run)(int64_t n_rounds); // the result depends on every round
    int round_macs;                    // multiply-adds of a round
};

extern const struct peak_loop peak_scalar_int8, peak_scalar_f32;
#if defined(__x86_64__)
extern const struct peak_loop peak_avx2_int8, peak_avx2_f32;
extern const struct peak_loop peak_avxvnni_int8;
extern const struct peak_loop peak_avx512bw_int8, peak_avx512bw_f32;
extern const struct peak_loop peak_avx512_int8;
extern const struct peak_loop peak_amx_int8;
#elif defined(__aarch64__)
extern const struct peak_loop peak_neon_int8, peak_neon_f32;
#endif

#endif

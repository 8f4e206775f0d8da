// The passes as any machine of the architecture can run them, and the table that each instruction
// set of the backend takes.
#include "backend/cpu/choose_passes.h"

#include <stddef.h>

#include "backend/cpu/choose_passes_simd.h"

static bool is_here(void) { return true; }

const struct choose_passes choose_passes_base = PASSES_TABLE("base");

const struct choose_passes *const choose_passes_all[] = {
    &choose_passes_base,
#if defined(__x86_64__)
    &choose_passes_avx2,
    &choose_passes_avx512bw,
#endif
    NULL,
};

const struct choose_passes *choose_passes_for(enum cpu_isa isa) {
    switch (isa) {
#if defined(__x86_64__)
    case ISA_AVX2:
    case ISA_AVXVNNI:
        return &choose_passes_avx2;
    case ISA_AVX512BW:
    case ISA_AVX512:
    case ISA_AMX:
        return &choose_passes_avx512bw;
#endif
    default:
        return &choose_passes_base;
    }
}

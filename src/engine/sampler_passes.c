// The passes as any machine of the architecture can run them, and the choice among the tables.
#include "engine/sampler_passes.h"

#include <stddef.h>

#include "engine/sampler_passes_simd.h"

static bool is_here(void) { return true; }

const struct sampler_passes sampler_passes_base = PASSES_TABLE("base");

const struct sampler_passes *const sampler_passes_all[] = {
    &sampler_passes_base,
#if defined(__x86_64__)
    &sampler_passes_avx2,
    &sampler_passes_avx512,
#endif
    NULL,
};

const struct sampler_passes *sampler_passes_best(void) {
    const struct sampler_passes *best = &sampler_passes_base;
    for (size_t i = 0; sampler_passes_all[i]; i++)
        if (sampler_passes_all[i]->is_here()) best = sampler_passes_all[i];
    return best;
}

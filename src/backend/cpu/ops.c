// Which instruction sets this program has and which this machine has.
#include "backend/cpu/ops.h"

#include <stdio.h>
#include <string.h>

static const struct cpu_ops *const tables[ISA_COUNT] = {
    [ISA_SCALAR] = &ops_scalar,
#if defined(__x86_64__)
    [ISA_AVX2] = &ops_avx2,     [ISA_AVXVNNI] = &ops_avxvnni, [ISA_AVX512BW] = &ops_avx512bw,
    [ISA_AVX512] = &ops_avx512, [ISA_AMX] = &ops_amx,
#elif defined(__aarch64__)
    [ISA_NEON] = &ops_neon,
#endif
};

static const char *const names[ISA_COUNT] = {"scalar", "avx2", "avxvnni", "avx512bw",
                                             "avx512", "amx",  "neon"};

const char *ops_name(enum cpu_isa isa) { return names[isa]; }

const struct cpu_ops *ops_at(enum cpu_isa isa) {
    const struct cpu_ops *ops = tables[isa];
    return ops && ops->is_here() ? ops : NULL;
}

static rn_status name_unknown(const char *name, rn_error *err) {
    char known[64];
    int at = 0;
    for (int i = 0; i < ISA_COUNT; i++)
        at += snprintf(known + at, sizeof known - (size_t)at, i ? ", %s" : "%s", names[i]);
    return err_set(err, RN_ERR_ARG, "isa: '%.64s' is not known (known: %s)", name, known);
}

rn_status ops_find(const char *name, const struct cpu_ops **out, rn_error *err) {
    *out = NULL;
    for (int i = ISA_COUNT - 1; i >= 0; i--) {
        if (name && strcmp(name, names[i]) != 0) continue;
        *out = ops_at((enum cpu_isa)i);
        if (*out) return RN_OK;
        if (name) return err_set(err, RN_ERR_UNSUPPORTED, "isa: this machine has no %s", names[i]);
    }
    return name_unknown(name, err);
}

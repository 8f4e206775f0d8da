// Mixes (hybrid_mixes.h) of the models of families.def. For tests/engine/test_family_mix.c and the
// program mix_long.c.
#ifndef RN_TESTS_FAMILY_MIXES_H
#define RN_TESTS_FAMILY_MIXES_H

#include "golden_families.h"
#include "hybrid_mixes.h"

// Of the name alone, so that a new row of families.def does not change the mixes of the others.
static inline uint64_t family_seed(const char *name) {
    return data_checksum(name, strlen(name)) % 10000;
}

static inline const char *family_kv_type(const char *name) {
    static const char *const types[] = {"f16", "f32", "int8"};
    return types[family_seed(name) % 3];
}

static inline rn_model *family_open(const char *name) {
    struct golden g = golden_load(name);
    if (g.has_gguf)
        golden_open_gguf(&g);
    else
        golden_open_folder(&g);
    rn_model *model = g.model;
    g.model = NULL;
    golden_unload(&g);
    return model;
}

#endif

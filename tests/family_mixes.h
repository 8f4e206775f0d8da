// Mixes (hybrid_mixes.h) of the models of families.def. For tests/engine/test_family_mix.c and the
// program mix_long.c.
#ifndef RN_TESTS_FAMILY_MIXES_H
#define RN_TESTS_FAMILY_MIXES_H

#include "assistant_model.h"
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

// Windows and chunks of the reference models are shorter than a page. Here they span several.
static const struct family_variant {
    const char *label, *name, *key; // of config.json
    int value;
} family_variants[] = {
    {"llama4, chunks of 40", "llama4", "attention_chunk_size", 40},
    {"llama4, chunks of 64", "llama4", "attention_chunk_size", 64},
    {"llama4, chunks of 100", "llama4", "attention_chunk_size", 100},
    {"gemma4-e2b, window of 40", "gemma4-e2b", "sliding_window", 40},
};
enum { FAMILY_VARIANTS = sizeof family_variants / sizeof *family_variants };

static inline rn_model *family_open_variant(const struct family_variant *variant) {
    struct golden g = golden_load(variant->name);
    const struct data_folder folder = golden_folder_make(g.name, g.tokenizer);
    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, "%s/config.json", folder.path);
    json_t *config = data_json_read(path);
    check(json_object_get(config, variant->key), "%s: no key %s", g.name, variant->key);
    json_object_set_new(config, variant->key, json_integer(variant->value));
    assert_int_equal(json_dump_file(config, path, 0), 0);
    json_decref(config);
    golden_open(&g, folder.path);
    data_folder_remove(&folder);
    rn_model *model = g.model;
    g.model = NULL;
    golden_unload(&g);
    return model;
}

// Models with an assistant that reads their keys: one that is hardly ever right, one that always
// is.
static const struct family_assisted {
    const char *label, *name;
    bool is_echo;
    int window;
} family_assisted[] = {
    {"gemma4-e2b, window of 40, assistant", "gemma4-e2b", false, 40},
    {"gemma4-31b, assistant, echo", "gemma4-31b", true, 0},
};
enum { FAMILY_ASSISTED = sizeof family_assisted / sizeof *family_assisted };

static inline rn_model *family_open_assisted(const struct family_assisted *which) {
    struct assistant a = assistant_make_with(which->name, which->is_echo, which->window);
    rn_model *model = assistant_open(&a);
    assistant_remove(&a);
    return model;
}

#endif

// The same bits whatever the chunks of the prompt, the threads and the instruction set, with each
// KV type: 48 runs of a reference model. For the programs tests/runnel/test_golden_ways_*.c, which
// share the models among them so that they run side by side.
#ifndef RN_TESTS_GOLDEN_WAYS_H
#define RN_TESTS_GOLDEN_WAYS_H

#include "golden.h"

// One thread tells the thread sanitizer nothing, and it is slow.
#ifdef __SANITIZE_THREAD__
enum { GOLDEN_MIN_THREADS = 2 };
#else
enum { GOLDEN_MIN_THREADS = 1 };
#endif

static inline void golden_check_ways(const struct golden *g, const char *kv_type) {
    static const char *const isas[] = {"scalar", "avx2", "avxvnni", "avx512", "neon"};
    static const int chunks[] = {1, 7, 16, 512};
    struct golden_run first = {0};
    for (int isa = 0; isa < 5; isa++)
        for (int chunk = 0; chunk < 4; chunk++)
            for (int threads = GOLDEN_MIN_THREADS; threads <= 2; threads++) {
                const rn_engine_options o = {.kv_type = kv_type,
                                             .isa = isas[isa],
                                             .n_threads = threads,
                                             .batch_tokens = chunks[chunk],
                                             .logit_rows = chunks[chunk]};
                struct golden_run run;
                if (!golden_generate(g, &o, &run)) continue; // not on this machine
                if (!first.logits) {
                    first = run;
                    continue;
                }
                char what[128];
                snprintf(what, sizeof what, "%s: isa %s, %d threads, chunks of %d, KV %s", g->name,
                         o.isa, o.n_threads, o.batch_tokens, o.kv_type);
                golden_check_same_bits(&first, &run, what);
                golden_run_free(&run);
            }
    check(first.logits != NULL, "%s: the scalar code must run everywhere", g->name);
    golden_check_ids(g, &first);
    golden_run_free(&first);
}

static inline void golden_has_the_same_bits_every_way(void **state) {
    struct golden g = golden_load(*state);
    if (g.has_gguf)
        golden_open_gguf(&g);
    else
        golden_open_folder(&g);
    golden_check_ways(&g, "f32");
    golden_check_ways(&g, "f16");
    golden_unload(&g);
}

static inline bool golden_is_one_of(const json_t *entry, const char *const *names) {
    const char *name = json_string_value(json_object_get(entry, "name"));
    while (*names && strcmp(*names, name) != 0) names++;
    return *names != NULL;
}

// The two groups that have names; the third is the rest, so that no model is forgotten.
static inline bool golden_in_llama_family(const json_t *entry) {
    static const char *const names[] = {"granite",      "llama",   "llama-spm", "llama3-rope",
                                        "mistral-full", "mistral", "smollm3",   NULL};
    return golden_is_one_of(entry, names);
}

static inline bool golden_has_experts(const json_t *entry) {
    static const char *const names[] = {"gptoss", "gptoss-notrunc", "mixtral", "qwen3moe", NULL};
    return golden_is_one_of(entry, names);
}

static inline int golden_run_ways(data_filter filter) {
    return data_run_tests(GOLDEN_LIST, "has_the_same_bits_every_way",
                          golden_has_the_same_bits_every_way, filter);
}

#endif

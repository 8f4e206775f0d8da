// The bits do not depend on the chunks of the prompt, the threads, the instruction set or the KV
// type. For any two of these, each pair of values is run. For tests/runnel/test_golden_ways_*.c,
// which divide the reference models among them so that they run side by side.
#ifndef RN_TESTS_GOLDEN_WAYS_H
#define RN_TESTS_GOLDEN_WAYS_H

#include "golden.h"

// One thread tells the thread sanitizer nothing, and scalar code is slow there.
#ifdef __SANITIZE_THREAD__
enum { GOLDEN_MIN_THREADS = 2, GOLDEN_MIN_ISA = 1, GOLDEN_STRIDE = 2 };
#else
enum { GOLDEN_MIN_THREADS = 1, GOLDEN_MIN_ISA = 0, GOLDEN_STRIDE = 1 };
#endif

enum { GOLDEN_CHUNKS = 4, GOLDEN_KV_TYPES = 2 };
static const char *const golden_kv_types[GOLDEN_KV_TYPES] = {"f32", "f16"};

// One way: false where this machine lacks the instruction set. The first run of a KV type is what
// the others of that type are compared with.
static inline bool golden_check_way(const struct golden *g, const rn_engine_options *o,
                                    struct golden_run *first) {
    struct golden_run run;
    if (!golden_generate(g, o, &run)) return false;
    if (!first->logits) {
        *first = run;
        return true;
    }
    char what[128];
    snprintf(what, sizeof what, "%s: isa %s, %d threads, chunks of %d, KV %s", g->name, o->isa,
             o->n_threads, o->batch_tokens, o->kv_type);
    golden_check_same_bits(first, &run, what);
    golden_run_free(&run);
    return true;
}

// Every instruction set runs with every chunk; scalar code, which is slow, only in `make test-all`.
// Neighbouring sets differ in threads and KV types, and each set has all pairs of those two over
// four chunks.
static inline void golden_check_ways(const struct golden *g) {
    static const char *const isas[] = {"scalar", "avx2", "avxvnni", "avx512bw",
                                       "avx512", "amx",  "neon"};
    static const int chunks[GOLDEN_CHUNKS] = {512, 7, 16, 1};
    struct golden_run first[GOLDEN_KV_TYPES] = {{0}};
    int n_isas = 0;
    for (size_t isa = GOLDEN_MIN_ISA; isa < sizeof isas / sizeof *isas; isa++) {
        bool here = true;
        const int stride = isa == 0 && !test_is_whole() ? 2 : GOLDEN_STRIDE;
        for (int chunk = 0; chunk < GOLDEN_CHUNKS && here; chunk += stride) {
            const int threads = 1 + (n_isas + chunk) % 2, kv = (n_isas + chunk / 2) % 2;
            const rn_engine_options o = {.kv_type = golden_kv_types[kv],
                                         .isa = isas[isa],
                                         .n_threads = threads < GOLDEN_MIN_THREADS
                                                          ? GOLDEN_MIN_THREADS
                                                          : threads,
                                         .batch_tokens = chunks[chunk],
                                         .logit_rows = chunks[chunk]};
            here = golden_check_way(g, &o, &first[kv]);
        }
        n_isas += here;
    }
    for (int kv = 0; kv < GOLDEN_KV_TYPES; kv++) {
        check(first[kv].logits != NULL, "%s: the scalar code must run everywhere", g->name);
        if (kv == 0 || !g->f16_flips) golden_check_ids(g, &first[kv]);
        golden_run_free(&first[kv]);
    }
}

static inline void golden_has_the_same_bits_every_way(void **state) {
    struct golden g = golden_load(*state);
    if (g.has_gguf)
        golden_open_gguf(&g);
    else
        golden_open_folder(&g);
    golden_check_ways(&g);
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

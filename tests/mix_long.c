// The mixes of mix.h by hand: any number of requests, and a table of the events.
//
//   mix_long [N requests, 10000]      MIX_SEED=... chooses the seed
//   mix_long N hybrids                hybrid models with drafts of every kind, N requests each
//   mix_long N families               the models of families.def, likewise
//   mix_long N NAME                   one of these
//
// MIX_ONLY=... (hexadecimal, as a mismatch prints it) runs that mix alone. TEST_ALL=1 mix_long 1200
// finds all that test_mix finds with f16.
#include <time.h>

#include "family_mixes.h"

static const struct {
    const char *name, *path, *kv_type;
    int share; // of the requests, percent
} parts[] = {
    {"tale-1m f16", MODELS_DIR "/tale-1m-f16.gguf", "f16", 50},
    {"tale-1m f32", MODELS_DIR "/tale-1m-f16.gguf", "f32", 8},
    {"tale-1m int8", MODELS_DIR "/tale-1m-f16.gguf", "int8", 8},
    {"tale-1m int4", MODELS_DIR "/tale-1m-f16.gguf", "int4", 8},
    {"gemma2, window", TEST_DATA "/golden/gemma2/model.gguf", "f16", 9},
    {"gemma3, window", TEST_DATA "/golden/gemma3/model.gguf", "f16", 9},
    {"gptoss, experts", TEST_DATA "/golden/gptoss/model.gguf", "f16", 8},
};

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void print_line(const char *name, const struct mix_totals *t, double seconds) {
    printf("| %-16s | %8llu | %8llu | %7llu | %11llu | %6llu | %9llu | %9llu | %9d | %9llu | "
           "%10llu | %7.1f |\n",
           name, (unsigned long long)t->requests, (unsigned long long)t->tokens,
           (unsigned long long)t->steps, (unsigned long long)t->preemptions,
           (unsigned long long)t->hits, (unsigned long long)t->cached_tokens,
           (unsigned long long)t->evictions, t->running_max, (unsigned long long)t->cancelled,
           (unsigned long long)t->mismatches, seconds);
    fflush(stdout);
}

// Half as many requests are drawn: each is in about two mixes.
static struct mix_totals run_part(int part, int n, uint64_t seed, const char *only) {
    struct mix_totals totals = {0};
    struct mix_cases cases;
    rn_model *model;
    rn_error err;
    check(rn_model_open(parts[part].path, &model, &err) == RN_OK, "%s", err.message);
    mix_cases_create(&cases, model, parts[part].kv_type, seed, n / 2);
    mix_run_many(&cases, seed, n, only ? strtoull(only, NULL, 16) : 0, &totals);
    mix_cases_destroy(&cases);
    rn_model_close(model);
    return totals;
}

// ---------------------------------------------------------------- hybrids

static const struct {
    const char *name, *path; // NULL: the model with a block that drafts, in that form
    enum mtp_form form;
    const char *kv_type;
} hybrids[] = {
    {"delta", NULL, MTP_RANDOM, "f16"},
    {"delta, near", NULL, MTP_NEAR, "int8"},
    {"delta, echo", NULL, MTP_ECHO, "f16"},
    {"nemotron_h-moe", TEST_DATA "/golden/nemotron_h-moe/model.gguf", MTP_RANDOM, "f16"},
    {"granitemoehybrid", TEST_DATA "/golden/granitemoehybrid/model.gguf", MTP_RANDOM, "f32"},
    {"mamba2", TEST_DATA "/golden/mamba2/model.gguf", MTP_RANDOM, "f16"},
};

static uint64_t run_model(const char *name, const rn_model *model, bool has_states, bool has_block,
                          const char *kv_type, int first, int n, uint64_t seed, const char *only) {
    struct mix_totals totals = {0};
    const double begin = now_s();
    hybrid_run(model, has_block, kv_type, seed, first, n, only ? strtoull(only, NULL, 16) : 0,
               &totals);
    hybrid_print(name, &totals);
    printf("%s: %.1f seconds\n\n", name, now_s() - begin);
    fflush(stdout);
    if (!only && n >= 2000) hybrid_check_events(name, &totals, has_states, has_block);
    return totals.mismatches;
}

static uint64_t run_hybrid(int which, int n, uint64_t seed, const char *only) {
    struct mtp_file file;
    const bool has_block = !hybrids[which].path;
    rn_model *model;
    rn_error err;
    if (has_block) file = mtp_file_make(hybrids[which].form);
    check(rn_model_open(has_block ? file.path : hybrids[which].path, &model, &err) == RN_OK, "%s",
          err.message);
    const uint64_t mismatches = run_model(hybrids[which].name, model, true, has_block,
                                          hybrids[which].kv_type, which, n, seed, only);
    rn_model_close(model);
    if (has_block) mtp_file_remove(&file);
    return mismatches;
}

static uint64_t run_hybrids(int n, uint64_t seed, const char *only) {
    uint64_t mismatches = 0;
    for (int i = 0; i < (int)(sizeof hybrids / sizeof *hybrids); i++)
        mismatches += run_hybrid(i, n, seed * 100 + (uint64_t)i, only);
    return mismatches;
}

// Closes the model.
static uint64_t run_family(const char *name, rn_model *model, bool has_block, int n, uint64_t seed,
                           const char *only) {
    const int first = (int)family_seed(name);
    const uint64_t mismatches = run_model(name, model, false, has_block, family_kv_type(name),
                                          first, n, seed * 10000 + family_seed(name), only);
    rn_model_close(model);
    return mismatches;
}

// which: one of families.def or a variant's label; "families": all.
static uint64_t run_families(const char *which, int n, uint64_t seed, const char *only) {
    const bool all = strcmp(which, "families") == 0;
    uint64_t mismatches = 0;
    bool found = false;
    for (int i = 0; golden_families[i]; i++) {
        if (!all && strcmp(which, golden_families[i]) != 0) continue;
        mismatches +=
            run_family(golden_families[i], family_open(golden_families[i]), false, n, seed, only);
        found = true;
    }
    for (int i = 0; i < FAMILY_VARIANTS; i++) {
        const struct family_variant *variant = &family_variants[i];
        if (!all && strcmp(which, variant->label) != 0) continue;
        mismatches +=
            run_family(variant->label, family_open_variant(variant), false, n, seed, only);
        found = true;
    }
    for (int i = 0; i < FAMILY_ASSISTED; i++) {
        const struct family_assisted *assisted = &family_assisted[i];
        if (!all && strcmp(which, assisted->label) != 0) continue;
        mismatches +=
            run_family(assisted->label, family_open_assisted(assisted), true, n, seed, only);
        found = true;
    }
    check(found, "%s is not in families.def", which);
    return mismatches;
}

int main(int argc, char **argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 10000;
    const char *seed_text = getenv("MIX_SEED");
    const uint64_t seed = seed_text ? strtoull(seed_text, NULL, 0) : 1;
    if (n < 100) {
        fprintf(stderr, "usage: mix_long [N [hybrids|families|NAME]], at least 100 requests\n");
        return 2;
    }
    printf("seed %llu\n\n", (unsigned long long)seed);
    if (argc > 2 && strcmp(argv[2], "hybrids") == 0)
        return run_hybrids(n, seed, getenv("MIX_ONLY")) != 0;
    if (argc > 2) return run_families(argv[2], n, seed, getenv("MIX_ONLY")) != 0;
    printf("| model and KV     | requests |   tokens |   steps | preemptions |   hits | cached "
           "tokens | evictions | most at once | cancelled | mismatches | seconds |\n");
    printf("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    struct mix_totals sum = {0};
    const double start = now_s();
    for (int part = 0; part < (int)(sizeof parts / sizeof *parts); part++) {
        const double begin = now_s();
        const struct mix_totals totals =
            run_part(part, n * parts[part].share / 100, seed + (uint64_t)part, getenv("MIX_ONLY"));
        print_line(parts[part].name, &totals, now_s() - begin);
        mix_totals_add(&sum, &totals);
    }
    print_line("all", &sum, now_s() - start);
    printf("\n%llu choices had a shape, %llu of them a complete one\n",
           (unsigned long long)sum.shaped, (unsigned long long)sum.complete);
    return sum.mismatches != 0;
}

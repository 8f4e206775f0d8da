// The models of hybrids.def on the CUDA backend: it refuses one by the name of what it lacks, or
// its logits are near the reference, and have the same bits in every chunking of the prompt, with
// states in f32 and in bf16. Steps of up to 8 rows and larger ones have other kernels around the
// states.
#include <malloc.h>

#include "cuda_engine.h"
#include "golden_ways.h"
#include "runnel_model.h"

enum { N_NEXT = 3 };

// The 16-bit inputs of products move logits by less than a tenth. A state that is lost, or a row
// that is missed, moves them by more than one. Near a tie of two experts they choose another one,
// and the states behind it remember. So of models with experts half of the rows are near.
#define MOST_REFERENCE 0.15f

static bool is_known(const json_t *entry) {
    static const char *const names[] = {
#define HYBRID(name) name,
#include "hybrids.def"
#undef HYBRID
        NULL};
    return golden_is_one_of(entry, names);
}

static void check_chunks(const struct golden *g, const char *state_type, struct golden_run *first) {
    static const int chunks[] = {512, 7, 33, 1};
    const int n = cuda_wanted() ? (int)(sizeof chunks / sizeof *chunks) : 2; // the emulator is slow
    for (int i = 0; i < n; i++) {
        struct golden_run run;
        const rn_engine_options o = {.state_type = state_type,
                                     .batch_tokens = chunks[i],
                                     .logit_rows = chunks[i]};
        golden_generate(g, &o, i ? &run : first);
        if (i == 0) continue;
        char what[96];
        snprintf(what, sizeof what, "%s, %s, chunks of %d", g->name, state_type, chunks[i]);
        golden_check_same_bits(first, &run, what);
        golden_run_free(&run);
    }
}

// The emulator runs one model of each op with rounded states.
static bool is_rounded_too(const struct golden *g) {
    return cuda_wanted() || strcmp(g->name, "qwen3_5") == 0 || strcmp(g->name, "mamba2") == 0;
}

static float row_difference(const struct golden *g, const struct golden_run *run, int row) {
    float most = 0;
    for (int i = 0; i < g->n_vocab; i++) {
        const float *want = golden_logit(g, row, i);
        if (!want) continue;
        const float distance = fabsf(run->logits[(int64_t)row * g->n_vocab + i] - *want);
        if (!(distance <= most)) most = isnan(distance) ? INFINITY : distance;
    }
    return most;
}

static void check_reference(const struct golden *g, const struct golden_run *run) {
    int n_far = 0;
    for (int row = 0; row < run->n_rows; row++)
        n_far += row_difference(g, run, row) > MOST_REFERENCE;
    print_message("%s: largest difference %.2e; %d of %d rows are beyond %g\n", g->name,
                  (double)golden_difference(g, run), n_far, run->n_rows, (double)MOST_REFERENCE);
    bool has_experts = false;
    const struct plan *plan = &g->model->model.plan;
    for (int i = 0; i < plan->n_op; i++) has_experts |= plan->op[i].kind == OP_EXPERTS;
    check(n_far <= (has_experts ? run->n_rows / 2 : 0), "%s: %d rows are far", g->name, n_far);
}

static void is_near_the_reference_in_every_chunking(void **state) {
    struct golden g = golden_load(*state);
    struct golden_run run;
    if (g.has_gguf)
        golden_open_gguf(&g);
    else
        golden_open_folder(&g);
    g.n_next = N_NEXT;
    check_chunks(&g, "f32", &run);
    check_reference(&g, &run);
    golden_run_free(&run);
    if (is_rounded_too(&g)) {
        check_chunks(&g, "bf16", &run);
        golden_run_free(&run);
    }
    golden_unload(&g);
}

// Memory that is freed is kept for the next backend, as in test_golden.c.
TEST_PROGRAM(hybrids) {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT32_MAX);
    return data_run_tests(GOLDEN_HYBRIDS, "is_near_the_reference_in_every_chunking",
                          is_near_the_reference_in_every_chunking, is_known);
}

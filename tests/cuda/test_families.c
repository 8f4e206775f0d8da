// The models of families.def on the CUDA backend: it refuses one by the name of what it lacks, or
// its logits are near the reference. Its 16-bit numbers move logits by less than a tenth, and a
// setting that it ignored would move them by more than one.
#include <malloc.h>

#include "cuda_engine.h"
#include "evaluate64.h"
#include "golden_families.h"
#include "runnel_model.h"

enum { N_NEXT = 3 };

#define MOST_REFERENCE 0.15f
#define MOST_F64       1e-3

// Rows that may be far from the reference. Rounding changes the router's choice of a near tie, or
// whether an expert is close to another one (phimoe), and the rows behind see the changed one. A
// setting that is ignored moves all rows.
static int far_most(const struct golden *g) {
    static const struct {
        const char *name;
        int n;
    } far[] = {
        {"deepseek_v3", 5}, {"granitemoe", 10}, {"phimoe", 10}, {"llama4", 2}, {"gemma4-moe", 8}};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        if (strcmp(g->name, far[i].name) == 0) return far[i].n;
    return 0;
}

static int far_rows(const struct golden *g, const struct golden_run *run) {
    int n = 0;
    for (int row = 0; row < run->n_rows; row++)
        n += !(golden_row_difference(g, run, row) <= MOST_REFERENCE);
    return n;
}

static double distance(const double *logits, const struct golden_run *run) {
    double most = 0;
    for (int64_t i = 0; i < (int64_t)run->n_rows * run->n_vocab; i++)
        most = fmax(most, fabs(logits[i] - (double)run->logits[i]));
    return most;
}

// Logits against an evaluation in double precision with the same roundings to 16 bits, as in
// test_golden.c; the evaluation without roundings against the reference.
static void check_f64(const struct golden *g, const struct golden_run *run) {
    const struct plan *plan = &g->model->model.plan;
    double *logits = calloc((size_t)run->n_rows * (size_t)g->n_vocab, sizeof *logits), exact = 0;
    int32_t token[512];
    struct roundings device;
    assert_true(logits && run->n_rows <= 512);
    memcpy(token, g->prompt, (size_t)g->n_prompt * sizeof *token);
    memcpy(token + g->n_prompt, run->ids, (size_t)(run->n_rows - g->n_prompt) * sizeof *token);
    evaluate64(plan, EVALUATE64_EXACT, NULL, token, run->n_rows, logits, NULL);
    for (int i = 0; i < g->n_prompt * g->n_vocab; i++) {
        const float *want = golden_logit(g, i / g->n_vocab, i % g->n_vocab);
        if (want) exact = fmax(exact, fabs(logits[i] - (double)*want));
    }
    roundings_read(&device, cuda_class(), plan, "f16", token, run->n_rows);
    evaluate64(plan, EVALUATE64_F16, &device, token, run->n_rows, logits, NULL);
    roundings_free(&device);
    print_message("%s: %.2e to double precision, which has %.2e to the reference\n", g->name,
                  distance(logits, run), exact);
    check(exact <= MOST_F64, "%s: the evaluation is %g from the reference", g->name, exact);
    check(distance(logits, run) <= MOST_F64, "%s: %g from double precision", g->name,
          distance(logits, run));
    free(logits);
}

// The same bits in chunks of another size.
static void check_chunks(const struct golden *g, const struct golden_run *run) {
    struct golden_run other;
    char what[64];
    golden_generate(g, &(rn_engine_options){.batch_tokens = 7, .logit_rows = 7}, &other);
    snprintf(what, sizeof what, "%s, chunks of 7", g->name);
    golden_check_same_bits(run, &other, what);
    golden_run_free(&other);
}

// Models whose ops the evaluator knows; between them they have the options that test_golden.c's
// models lack.
static bool is_evaluated(const struct golden *g) {
    static const char *const names[] = {"apertus", "cohere2", "gemma4-e2b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(g->name, names[i]) == 0) return true;
    return false;
}

// False where the backend cannot run the model. The message names an op or a setting.
static bool runs_here(const struct golden *g) {
    rn_engine *engine;
    rn_error err = {0};
    const rn_status status = rn_engine_create(g->model, &(rn_engine_options){0}, &engine, &err);
    if (status == RN_OK) {
        rn_engine_destroy(engine);
        return true;
    }
    check(status == RN_ERR_UNSUPPORTED && err.message[0], "%s: status %d: %s", g->name, status,
          err.message);
    print_message("%s is refused: %s\n", g->name, err.message);
    return false;
}

static void is_refused_or_near_the_reference(void **state) {
    struct golden g = golden_load(*state);
    struct golden_run run;
    if (g.has_gguf)
        golden_open_gguf(&g);
    else
        golden_open_folder(&g);
    if (runs_here(&g)) {
        g.n_next = N_NEXT;
        golden_generate(&g, &(rn_engine_options){.logit_rows = 512}, &run);
        const float difference = golden_difference(&g, &run);
        const int n_far = far_rows(&g, &run);
        print_message("%s: largest difference %.2e, %d of %d rows are far\n", g.name,
                      (double)difference, n_far, run.n_rows);
        check(n_far <= far_most(&g), "%s: largest difference is %g; %d of %d rows are far", g.name,
              (double)difference, n_far, run.n_rows);
        if (is_evaluated(&g)) check_f64(&g, &run);
        check_chunks(&g, &run);
        golden_run_free(&run);
    }
    golden_unload(&g);
}

// Memory that is freed is kept for the next backend, as in test_golden.c.
TEST_PROGRAM(families) {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT32_MAX);
    return golden_run_families("is_refused_or_near_the_reference",
                               is_refused_or_near_the_reference);
}

// The reference models on the CUDA backend.
// 1. Bits do not depend on the chunks of the prompt.
// 2. Logits are within 1e-3 of an evaluation in double precision that has the same roundings to 16
//    bits (evaluate64.h). A double next to the middle of two 16-bit numbers may be on the other
//    side of it in f32. One such number changes numbers behind it, and these are rounded to other
//    numbers in turn. So the evaluation takes the device's side there (roundings.h).
// 3. The evaluation without roundings is within 1e-4 of the reference, so its ops are right.
// 4. Ids are the reference's wherever its lead is more than twice the distance to it.
// A table has the distances.
#include <malloc.h>

#include "cuda_engine.h"
#include "evaluate64.h"
#include "golden.h"
#include "runnel_model.h"

enum {
    N_CHUNKS = 5,
    MAX_TOKENS = 512,
    FEW_ROWS = 64, // that the emulator compares with double precision
};

#define MOST_F64   1e-3  // of a logit to the evaluation with the same roundings
#define MOST_EXACT 1e-4  // of the evaluation without roundings to the reference
#define MOST_TIES  0.005 // share of the roundings that the device decides

// Distances are the largest of all logits.
struct figures {
    char name[32];
    double f64;                 // to the evaluation with the same roundings
    double f64_own;             // the same where a double next to the middle keeps its own side
    double exact;               // of the evaluation without roundings to the reference
    double golden;              // to the reference
    double lead;                // the smallest of the reference's tokens
    int n_same, n_sure, n_next; // ids: equal ones, those whose lead is large enough
    struct evaluate64_ties ties;
};

static struct figures figures[DATA_MAX_TESTS];
static int n_figures;

// A NaN is the largest difference.
static double farther(double most, double a, double b) {
    const double distance = fabs(a - b);
    return distance <= most ? most : isnan(distance) ? HUGE_VAL : distance;
}

// logits: [n, n_vocab]
static double distance_f64(const struct golden_run *run, const double *logits, int n) {
    double most = 0;
    for (int64_t i = 0; i < (int64_t)n * run->n_vocab; i++)
        most = farther(most, (double)run->logits[i], logits[i]);
    return most;
}

// Ids are compared up to the first one that differs, and rows up to the one that chose it. Rows
// behind it have other tokens than the reference. exact: [n, n_vocab].
static void golden_measure(const struct golden *g, const struct golden_run *run,
                           const double *exact, int n, struct figures *f) {
    while (f->n_same < g->n_next && run->ids[f->n_same] == g->next[f->n_same]) f->n_same++;
    for (int r = 0; r < run->n_rows && r < g->n_prompt + f->n_same; r++) {
        for (int i = 0; i < g->n_vocab; i++) {
            const float *want = golden_logit(g, r, i);
            const int64_t at = (int64_t)r * g->n_vocab + i;
            if (!want) continue;
            f->golden = farther(f->golden, (double)run->logits[at], (double)*want);
            if (r < n) f->exact = farther(f->exact, exact[at], (double)*want);
        }
    }
    f->lead = HUGE_VAL;
    f->n_next = g->n_next;
    for (int i = 0; i < g->n_next; i++) {
        f->lead = fmin(f->lead, g->lead[i]);
        f->n_sure += g->lead[i] > 2 * f->golden;
    }
}

static void check_ids(const struct golden *g, const struct golden_run *run,
                      const struct figures *f) {
    const int i = f->n_same;
    if (i == g->n_next) return;
    check(g->lead[i] <= 2 * f->golden, "%s: token %d is %d, expected %d by %g, distance %g",
          g->name, i, run->ids[i], g->next[i], g->lead[i], f->golden);
}

static void check_distances(const struct golden *g, const struct golden_run *run) {
    const struct plan *plan = &g->model->model.plan;
    const bool is_whole = cuda_wanted() || run->n_rows < FEW_ROWS;
    const int n = is_whole ? run->n_rows : FEW_ROWS, n_next = run->n_rows - g->n_prompt;
    double *logits = calloc((size_t)n * (size_t)g->n_vocab, sizeof *logits);
    int32_t token[MAX_TOKENS];
    struct roundings device;
    struct figures *f = &figures[n_figures++];
    assert_true(logits && run->n_rows <= MAX_TOKENS && n_figures <= DATA_MAX_TESTS);
    snprintf(f->name, sizeof f->name, "%s", g->name);
    memcpy(token, g->prompt, (size_t)g->n_prompt * sizeof *token);
    memcpy(token + g->n_prompt, run->ids, (size_t)n_next * sizeof *token);
    roundings_read(&device, cuda_class(), plan, "f16", token, n);
    evaluate64(plan, EVALUATE64_EXACT, NULL, token, n, logits, NULL);
    golden_measure(g, run, logits, n, f);
    evaluate64(plan, EVALUATE64_F16, NULL, token, n, logits, NULL);
    f->f64_own = distance_f64(run, logits, n);
    evaluate64(plan, EVALUATE64_F16, &device, token, n, logits, &f->ties);
    f->f64 = distance_f64(run, logits, n);
    roundings_free(&device);
    free(logits);
    check(f->exact <= MOST_EXACT, "%s: the evaluation is %g from the reference", g->name, f->exact);
    check(f->f64 <= MOST_F64,
          "%s: %g from double precision; %d roundings are not explained, the first in op %d, %s",
          g->name, f->f64, (int)f->ties.n_far, f->ties.far_op,
          f->ties.n_far ? op_name(plan->op[f->ties.far_op].kind) : "none");
    check((double)f->ties.n_other <= MOST_TIES * (double)f->ties.n_rounded,
          "%s: %d of %d roundings are the device's", g->name, (int)f->ties.n_other,
          (int)f->ties.n_rounded);
    check_ids(g, run, f);
}

static void figures_print(void) {
    print_message(
        "to f64: with the same roundings, ties (of all) being the device's, others not "
        "explained; own ties: with none of the device's.\n"
        "exact: f64 without roundings to the f32 reference. sure: lead > 2 * distance.\n"
        "| %-14s | to f64  | own ties | ties, others, all  | exact   | to f32  | lead    | "
        "ids, sure, all |\n",
        "model");
    for (int i = 0; i < n_figures; i++) {
        const struct figures *f = &figures[i];
        print_message("| %-14s | %.1e | %.1e  | %4d, %4d, %6d | %.1e | %.1e | %.1e | "
                      "%d, %d, %d     |\n",
                      f->name, f->f64, f->f64_own, (int)f->ties.n_other, (int)f->ties.n_far,
                      (int)f->ties.n_rounded, f->exact, f->golden, f->lead, f->n_same, f->n_sure,
                      f->n_next);
    }
}

// The same tokens where only the last row's logits are wanted: steps of a prompt have no out rows
// then, and must append their keys and values all the same.
static void check_quiet_prompt(const struct golden *g, const struct golden_run *first) {
    const rn_engine_options o = {.batch_tokens = 7};
    rn_engine *engine;
    rn_error err;
    uint64_t id;
    int n = 0;
    check(rn_engine_create(g->model, &o, &engine, &err) == RN_OK, "%s: %s", g->name, err.message);
    const rn_request request = {.prompt = g->prompt,
                                .n_prompt = (size_t)g->n_prompt,
                                .max_tokens = g->n_next,
                                .ignore_eos = true};
    check(rn_engine_submit(engine, &request, &id, &err) == RN_OK, "%s", err.message);
    for (bool busy = true; busy;) {
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(engine, &event);) {
            if (event.token < 0) continue;
            check(n < first->n_ids && event.token == first->ids[n], "%s: token %d is %d", g->name,
                  n, event.token);
            n++;
        }
    }
    assert_int_equal(n, first->n_ids);
    rn_engine_destroy(engine);
}

// The emulator runs the slow ways with a model of each kind of attention and of products: the steps
// of single tokens behind a prompt are compared with double precision for every model anyway, and
// the mixes of requests cut the prompts of the others.
static bool is_thorough(const struct golden *g) {
    static const char *const names[] = {"gemma2", "gptoss", "llama", "qwen3moe"};
    if (cuda_wanted()) return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(g->name, names[i]) == 0) return true;
    return false;
}

static void runs_with_the_same_bits_in_every_chunking(void **state) {
    static const int chunks[N_CHUNKS] = {512, 7, 1, 8, 33};
    struct golden g = golden_load(*state);
    struct golden_run first = {0};
    if (g.has_gguf)
        golden_open_gguf(&g);
    else
        golden_open_folder(&g);
    const bool thorough = is_thorough(&g);
    const int n_chunks = cuda_wanted() ? N_CHUNKS : thorough ? 2 : 1;
    for (int i = 0; i < n_chunks; i++) {
        struct golden_run run;
        const rn_engine_options o = {.batch_tokens = chunks[i], .logit_rows = chunks[i]};
        golden_generate(&g, &o, &run);
        if (i == 0) {
            first = run;
            continue;
        }
        char what[64];
        snprintf(what, sizeof what, "%s, chunks of %d", g.name, chunks[i]);
        golden_check_same_bits(&first, &run, what);
        golden_run_free(&run);
    }
    if (thorough) check_quiet_prompt(&g, &first);
    check_distances(&g, &first);
    golden_run_free(&first);
    golden_unload(&g);
}

// A backend's memory is 160 MB, and there is one after the other: free memory is kept for the next.
TEST_PROGRAM(golden) {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT32_MAX);
    const int n_failed = data_run_tests(GOLDEN_LIST, "runs_with_the_same_bits_in_every_chunking",
                                        runs_with_the_same_bits_in_every_chunking, NULL);
    figures_print();
    return n_failed;
}

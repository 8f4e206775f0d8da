// Predicted against measured time of decode steps: a table, run by hand. The rates are measured on
// small matrices (tools_rates.c), before and after the model's steps, and never from them.
//   bench_predict SHAPE:FORMAT[,...] [BATCH,...] [CONTEXT,...]    such as 1b:Q4_0 1,4,16 128,4096
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/cost_rates.h"
#define BY_HAND "bench_predict"
#include "by_hand.h"

enum { MAX_LIST = 16, STEPS = 3, ROUNDS = 7 };

static int list_read(const char *text, int *out) {
    int n = 0;
    for (char *end; *text && n < MAX_LIST; text = *end == ',' ? end + 1 : end) {
        out[n++] = (int)strtol(text, &end, 10);
        if (end == text) exit(2);
    }
    return n;
}

static double predict(const rn_model *model, const struct predict_rates *rates,
                      const struct tools_work *work, struct prediction *out) {
    const struct plan *plan = tools_plan(model);
    const struct predict_machine machine = {.rates = rates};
    struct kv_bytes kv;
    struct batch_shape shape = {0};
    rn_error err = {0};
    if (tools_kv_bytes(model, NULL, &kv, &err)) fail(&err);
    for (int i = 0; i < work->n_seqs; i++)
        batch_shape_add(plan, &shape, work->depth + STEPS / 2, 1, 1);
    predict_step(plan, &kv, &machine, &shape, out);
    return out->ns * 1e-6;
}

// Medians of each work's time of a step; the works run in turn.
static void measure(struct tools_runner *runner, const struct tools_work *works, int n,
                    double *out) {
    double ms[MAX_LIST * MAX_LIST][ROUNDS];
    for (int round = -1; round < ROUNDS; round++) {
        for (int i = 0; i < n; i++) {
            uint64_t ns, experts;
            rn_error err = {0};
            const int most = round < 0 ? 1 : 0; // warms up
            if (tools_runner_run(runner, &works[i], most, NULL, &ns, &experts, &err)) fail(&err);
            if (round >= 0) ms[i][round] = (double)ns * 1e-6 / STEPS;
        }
    }
    for (int i = 0; i < n; i++) {
        qsort(ms[i], ROUNDS, sizeof *ms[i], compare_doubles);
        out[i] = ms[i][ROUNDS / 2];
    }
}

static void model_run(const char *spec, const int *batch, int n_batch, const int *context,
                      int n_context) {
    struct tools_work works[MAX_LIST * MAX_LIST];
    struct predict_rates before, after;
    struct tools_runner *runner;
    rn_model *model;
    rn_error err = {0};
    int n = 0;
    double measured[MAX_LIST * MAX_LIST];
    if (tools_model_open_synthetic(spec, &model, &err)) fail(&err);
    for (int c = 0; c < n_context; c++)
        for (int b = 0; b < n_batch; b++)
            works[n++] = (struct tools_work){.n_seqs = batch[b],
                                             .depth = context[c],
                                             .n_positions = STEPS,
                                             .step_tokens = 1,
                                             .advance = 1,
                                             .all_logits = true};
    const struct tools_runner_options options = {0};
    if (tools_runner_create(model, &options, works, n, &runner, &err)) fail(&err);
    rates_measure(tools_plan(model), &before);
    measure(runner, works, n, measured);
    rates_measure(tools_plan(model), &after);
    printf("%s: B %.1f and %.1f GB/s before and after\n", spec, before.bandwidth * 1e-9,
           after.bandwidth * 1e-9);
    printf("  %7s %6s %10s %10s %10s %7s  %s\n", "context", "batch", "measured", "before", "after",
           "error", "parts of the prediction: weights, KV, arithmetic, host, ms");
    for (int i = 0; i < n; i++) {
        struct prediction p, q;
        const double early = predict(model, &before, &works[i], &p);
        const double late = predict(model, &after, &works[i], &q);
        printf("  %7d %6d %7.2f ms %7.2f ms %7.2f ms %+6.1f%%  %.2f %.2f %.2f %.2f\n",
               works[i].depth, works[i].n_seqs, measured[i], early, late,
               100 * ((early + late) / 2 / measured[i] - 1), p.part_ns[BOUND_WEIGHTS] * 1e-6,
               p.part_ns[BOUND_KV] * 1e-6, p.part_ns[BOUND_MATH] * 1e-6,
               p.part_ns[BOUND_HOST] * 1e-6);
    }
    tools_runner_destroy(runner);
    rn_model_close(model);
}

int main(int argc, char **argv) {
    int batch[MAX_LIST], context[MAX_LIST];
    if (argc < 2) return 2;
    const int n_batch = list_read(argc > 2 ? argv[2] : "1,4,16", batch);
    const int n_context = list_read(argc > 3 ? argv[3] : "128,4096", context);
    for (char *rest = argv[1], *spec; (spec = strtok_r(rest, ",", &rest));)
        model_run(spec, batch, n_batch, context, n_context);
    return 0;
}

// Predicted against measured time of decode steps: a table, run by hand. The rates are measured on
// small matrices (tools_rates.c), in turn with the model's steps, and never from them. A round is
// rates, steps, rates; its error is that of the mean of both predictions. The table has the median
// round. So a phase of the machine that lasts longer than a round affects both sides.
//   bench_predict SHAPE:FORMAT[,...] [BATCH,...] [CONTEXT,...] [kinds]
// such as 1b:Q4_0 1,4,16 128,4096; with `kinds` also the times by kind of op, of the last round
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/cost_rates.h"
#define BY_HAND "bench_predict"
#include "by_hand.h"

enum { MAX_LIST = 16, MAX_WORKS = MAX_LIST * MAX_LIST, STEPS = 3, RUNS = 5, ROUNDS = 3 };

static int list_read(const char *text, int *out) {
    int n = 0;
    for (char *end; *text && n < MAX_LIST; text = *end == ',' ? end + 1 : end) {
        out[n++] = (int)strtol(text, &end, 10);
        if (end == text) exit(2);
    }
    return n;
}

static void predict(const rn_model *model, const struct predict_rates *rates,
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
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare_doubles);
    return values[n / 2];
}

// Medians of each work's time of a step; the works run in turn.
static void measure(struct tools_runner *runner, const struct tools_work *works, int n,
                    double *out) {
    static double ms[MAX_WORKS][RUNS];
    for (int run = -1; run < RUNS; run++) {
        for (int i = 0; i < n; i++) {
            uint64_t ns, experts;
            rn_error err = {0};
            const int most = run < 0 ? 1 : 0; // warms up
            if (tools_runner_run(runner, &works[i], most, NULL, &ns, &experts, &err)) fail(&err);
            if (run >= 0) ms[i][run] = (double)ns * 1e-6 / STEPS;
        }
    }
    for (int i = 0; i < n; i++) out[i] = median(ms[i], RUNS);
}

// Measured and predicted times of kinds of ops; the profile slows steps a little.
static void kinds_print(struct tools_runner *runner, const struct tools_work *work,
                        const struct prediction *p) {
    struct tools_stage *stage;
    uint64_t total;
    rn_error err = {0};
    int n;
    if (tools_runner_stages(runner, work, NULL, &stage, &n, &total, &err)) fail(&err);
    printf("  context %d, batch %d: measured and predicted us\n", work->depth, work->n_seqs);
    for (int kind = 0; kind < OP_COUNT; kind++) {
        const char *name = op_name((enum op_kind)kind);
        double ns = 0;
        for (int i = 0; i < n; i++)
            if (strcspn(stage[i].name, " ") == strlen(name) &&
                !strncmp(stage[i].name, name, strlen(name)))
                ns += (double)stage[i].ns / STEPS;
        if (ns > 0) printf("    %-12s %10.1f %10.1f\n", name, ns * 1e-3, p->kind_ns[kind] * 1e-3);
    }
    free(stage);
}

struct row {
    double measured[ROUNDS], predicted[ROUNDS], error[ROUNDS];
};

static void rows_print(const struct tools_work *works, struct row *rows, int n) {
    printf("  %7s %6s %11s %11s %8s  %s\n", "context", "batch", "measured", "predicted", "error",
           "errors of the rounds");
    for (int i = 0; i < n; i++) {
        char errors[ROUNDS * 16] = "";
        for (int r = 0; r < ROUNDS; r++)
            snprintf(errors + strlen(errors), sizeof errors - strlen(errors), " %+5.1f%%",
                     100 * rows[i].error[r]);
        printf("  %7d %6d %8.2f ms %8.2f ms %+7.1f%%  %s\n", works[i].depth, works[i].n_seqs,
               median(rows[i].measured, ROUNDS), median(rows[i].predicted, ROUNDS),
               100 * median(rows[i].error, ROUNDS), errors);
    }
}

static void model_run(const char *spec, const struct tools_work *works, int n, bool with_kinds) {
    static struct row rows[MAX_WORKS];
    static struct predict_rates rates[ROUNDS + 1];
    const struct tools_runner_options options = {0};
    struct tools_runner *runner;
    rn_model *model;
    rn_error err = {0};
    double measured[MAX_WORKS];
    if (tools_model_open_synthetic(spec, &model, &err)) fail(&err);
    if (tools_runner_create(model, &options, works, n, &runner, &err)) fail(&err);
    rates_measure(tools_plan(model), &rates[0]);
    printf("%s: B %.1f", spec, rates[0].bandwidth * 1e-9);
    for (int r = 0; r < ROUNDS; r++) {
        measure(runner, works, n, measured);
        rates_measure(tools_plan(model), &rates[r + 1]);
        printf(", %.1f", rates[r + 1].bandwidth * 1e-9);
        for (int i = 0; i < n; i++) {
            struct prediction before, after;
            predict(model, &rates[r], &works[i], &before);
            predict(model, &rates[r + 1], &works[i], &after);
            rows[i].measured[r] = measured[i];
            rows[i].predicted[r] = (before.ns + after.ns) / 2 * 1e-6;
            rows[i].error[r] = rows[i].predicted[r] / measured[i] - 1;
        }
    }
    printf(" GB/s\n");
    rows_print(works, rows, n);
    for (int i = 0; i < n && with_kinds; i++) {
        struct prediction p;
        predict(model, &rates[ROUNDS], &works[i], &p);
        kinds_print(runner, &works[i], &p);
    }
    tools_runner_destroy(runner);
    rn_model_close(model);
}

int main(int argc, char **argv) {
    static struct tools_work works[MAX_WORKS];
    int batch[MAX_LIST], context[MAX_LIST], n = 0;
    if (argc < 2) return 2;
    const int n_batch = list_read(argc > 2 ? argv[2] : "1,4,16", batch);
    const int n_context = list_read(argc > 3 ? argv[3] : "128,4096", context);
    for (int c = 0; c < n_context; c++)
        for (int b = 0; b < n_batch; b++)
            works[n++] = (struct tools_work){.n_seqs = batch[b],
                                             .depth = context[c],
                                             .n_positions = STEPS,
                                             .step_tokens = 1,
                                             .advance = 1,
                                             .all_logits = true};
    for (char *rest = argv[1], *spec; (spec = strtok_r(rest, ",", &rest));)
        model_run(spec, works, n, argc > 4 && !strcmp(argv[4], "kinds"));
    return 0;
}

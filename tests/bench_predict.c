// Predicted against measured time of decode steps: a table, run by hand. A prediction is made from
// the bandwidth B and from rates of kernels. Both are measured in turn with the model's steps and
// never from them: the rates on small matrices (tools_rates.c), B by reading memory before and
// after each run. A shared machine's B changes by a factor of two within seconds, so the prediction
// for a run uses the run's own B, the larger of both. The table has medians of all runs.
//   bench_predict SHAPE:FORMAT[,...] [BATCH,...] [CONTEXT,...] [kinds]
// such as 1b:Q4_0 1,4,16 128,4096; with `kinds` also the times by kind of op, of the last round
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/cost_rates.h"
#define BY_HAND "bench_predict"
#include "by_hand.h"

enum {
    MAX_LIST = 16,
    MAX_WORKS = MAX_LIST * MAX_LIST,
    STEPS = 3,
    RUNS = 5,
    ROUNDS = 3,
    N = RUNS * ROUNDS,
    B_MS = 40
};

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
    if (tools_kv_bytes(model, &(struct tools_place){0}, NULL, &kv, &err)) fail(&err);
    for (int i = 0; i < work->n_seqs; i++)
        batch_shape_add(plan, &shape, work->depth + STEPS / 2, 1, 1);
    predict_step(plan, &kv, &machine, &shape, out);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare_doubles);
    return values[n / 2];
}

struct row {
    double measured[N], predicted[N], error[N], bandwidth[N];
    int n;
};

// Adds runs of all works, in turn.
static void measure(const rn_model *model, const struct predict_rates *rates,
                    struct tools_runner *runner, const struct tools_work *works, int n,
                    struct row *rows) {
    struct predict_rates now = *rates;
    double before = 0;
    for (int run = -1; run < RUNS; run++) {
        for (int i = 0; i < n; i++) {
            struct prediction p;
            struct row *row = &rows[i];
            uint64_t ns, experts;
            rn_error err = {0};
            const int most = run < 0 ? 1 : 0; // warms up
            if (tools_runner_run(runner, &works[i], most, NULL, &ns, &experts, &err)) fail(&err);
            const double after = tools_runner_bandwidth(runner, 512 << 20, B_MS);
            now.bandwidth = before > after ? before : after;
            before = after;
            if (run < 0) continue;
            predict(model, &now, &works[i], &p);
            row->measured[row->n] = (double)ns * 1e-6 / STEPS;
            row->predicted[row->n] = p.ns * 1e-6;
            row->error[row->n] = row->predicted[row->n] / row->measured[row->n] - 1;
            row->bandwidth[row->n++] = now.bandwidth * 1e-9;
        }
    }
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

static void rows_print(const struct tools_work *works, struct row *rows, int n) {
    printf("  %7s %6s %11s %11s %8s %22s %15s\n", "context", "batch", "measured", "predicted",
           "error", "half of the errors", "B, GB/s");
    for (int i = 0; i < n; i++) {
        struct row *row = &rows[i];
        const double measured = median(row->measured, N), predicted = median(row->predicted, N);
        const double error = median(row->error, N);
        median(row->bandwidth, N); // sorts
        printf("  %7d %6d %8.2f ms %8.2f ms %+7.1f%% %+10.1f to %+6.1f%%  %6.1f to %5.1f\n",
               works[i].depth, works[i].n_seqs, measured, predicted, 100 * error,
               100 * row->error[N / 4], 100 * row->error[N - 1 - N / 4], row->bandwidth[0],
               row->bandwidth[N - 1]);
    }
}

static void model_run(const char *spec, const struct tools_work *works, int n, bool with_kinds) {
    static struct row rows[MAX_WORKS];
    static struct predict_rates rates;
    const struct tools_runner_options options = {0};
    struct tools_runner *runner;
    rn_model *model;
    rn_error err = {0};
    memset(rows, 0, sizeof rows);
    if (tools_model_open_synthetic(spec, &model, &err)) fail(&err);
    if (tools_runner_create(model, &options, works, n, &runner, &err)) fail(&err);
    for (int r = 0; r < ROUNDS; r++) {
        rates_measure(tools_plan(model), &rates);
        measure(model, &rates, runner, works, n, rows);
    }
    printf("%s\n", spec);
    rows_print(works, rows, n);
    for (int i = 0; i < n && with_kinds; i++) {
        struct prediction p;
        predict(model, &rates, &works[i], &p);
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

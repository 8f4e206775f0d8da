// The simulated queue of `runnel plan --replay` against the engine: random arrivals run through
// both, and a table compares their times. Run by hand. The rates are measured on small matrices,
// before and after the engine's run, and never from it.
//   bench_replay [SHAPE:FORMAT [REQUESTS [LOAD]]]    such as 135m:Q8_0 200 0.6; LOAD is the share
//   of the predicted capacity
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plan/queue.h"
#define BY_HAND "bench_replay"
#include "by_hand.h"

enum { MAX_REQUESTS = 4096, MAX_SEQS = 8, MAX_PROMPT = 96, MAX_OUTPUT = 32, N_CTX = 256 };

static uint32_t draw(uint32_t *random) {
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

// ---------------------------------------------------------------- predicted

static struct queue_totals simulate(const rn_model *model, const struct predict_rates *rates,
                                    struct queue_request *requests, int n) {
    const struct predict_machine machine = {.rates = rates};
    struct kv_bytes kv;
    struct queue_totals totals;
    rn_error err = {0};
    if (tools_kv_bytes(model, NULL, &kv, &err)) fail(&err);
    const struct queue_config config = {.plan = tools_plan(model),
                                        .kv = &kv,
                                        .machine = &machine,
                                        .max_seqs = MAX_SEQS,
                                        .batch_tokens = RN_DEFAULT_BATCH_TOKENS};
    if (!queue_run(&config, requests, n, &totals)) exit(1);
    return totals;
}

// Arrivals with exponential gaps, at a share of the rate that the simulation serves when all
// requests are there at once.
static void requests_draw(const rn_model *model, const struct predict_rates *rates, double load,
                          struct queue_request *out, int n) {
    uint32_t random = 7;
    for (int i = 0; i < n; i++)
        out[i] = (struct queue_request){.n_prompt = 8 + (int)(draw(&random) % (MAX_PROMPT - 7)),
                                        .n_output = 2 + (int)(draw(&random) % (MAX_OUTPUT - 1))};
    const double gap_ms = simulate(model, rates, out, n).end_ms / n / load;
    double now = 0;
    for (int i = 0; i < n; i++) {
        out[i].arrive_ms = now;
        now -= gap_ms * log(((double)draw(&random) + 1) / 0x1p24);
    }
}

// ---------------------------------------------------------------- measured

static void request_submit(rn_engine *engine, int n_vocab, struct queue_request *request,
                           uint32_t *random) {
    int32_t prompt[MAX_PROMPT];
    rn_error err = {0};
    uint64_t id;
    for (int i = 0; i < request->n_prompt; i++)
        prompt[i] = (int32_t)(draw(random) % (uint32_t)n_vocab);
    const rn_request wanted = {.prompt = prompt,
                               .n_prompt = (size_t)request->n_prompt,
                               .max_tokens = request->n_output,
                               .ignore_eos = true,
                               .data = request};
    if (rn_engine_submit(engine, &wanted, &id, &err)) fail(&err);
}

static int events_take(rn_engine *engine, uint64_t start) {
    int n_over = 0;
    for (rn_event event; rn_engine_next_event(engine, &event);) {
        struct queue_request *request = event.data;
        n_over += event.last;
        if (event.token < 0) continue;
        request->end_ms = (double)(event.time_ns - start) * 1e-6;
        if (event.cause == RN_CAUSE_NONE) request->first_ms = request->end_ms;
    }
    return n_over;
}

static void engine_run(rn_engine *engine, int n_vocab, struct queue_request *requests, int n) {
    const uint64_t start = clock_ns();
    uint32_t random = 3;
    bool busy = false;
    for (int next = 0, n_over = 0; n_over < n;) {
        for (; next < n && requests[next].arrive_ms <= (double)(clock_ns() - start) * 1e-6; next++)
            request_submit(engine, n_vocab, &requests[next], &random);
        if (rn_engine_step(engine, &busy)) exit(1);
        n_over += events_take(engine, start);
        const struct timespec pause = {.tv_nsec = 100000};
        if (!busy && n_over < n) nanosleep(&pause, NULL); // until the next arrival
    }
}

// ---------------------------------------------------------------- the table

struct times {
    double ttft[3], token[3]; // p50, p90, p99
};

static struct times times_of(const struct queue_request *requests, int n) {
    static double ttft[MAX_REQUESTS], token[MAX_REQUESTS];
    struct times times;
    for (int i = 0; i < n; i++) {
        ttft[i] = requests[i].first_ms - requests[i].arrive_ms;
        token[i] = (requests[i].end_ms - requests[i].first_ms) / (requests[i].n_output - 1);
    }
    qsort(ttft, (size_t)n, sizeof *ttft, compare_doubles);
    qsort(token, (size_t)n, sizeof *token, compare_doubles);
    for (int i = 0; i < 3; i++) {
        const int at = i == 0 ? n / 2 : (int)((i == 1 ? 0.9 : 0.99) * n);
        times.ttft[i] = ttft[at];
        times.token[i] = token[at];
    }
    return times;
}

static void line_print(const char *name, const double *measured, const double *before,
                       const double *after) {
    static const char *const quantiles[] = {"p50", "p90", "p99"};
    for (int i = 0; i < 3; i++)
        printf("  %-15s %s %9.2f ms %9.2f ms %9.2f ms %+6.1f%%\n", name, quantiles[i], measured[i],
               before[i], after[i], 100 * ((before[i] + after[i]) / 2 / measured[i] - 1));
}

int main(int argc, char **argv) {
    static struct queue_request requests[MAX_REQUESTS];
    static struct predict_rates before, after;
    const char *spec = argc > 1 ? argv[1] : "135m:Q8_0";
    const int n = argc > 2 ? atoi(argv[2]) : 200;
    const double load = argc > 3 ? atof(argv[3]) : 0.6;
    rn_model *model;
    rn_engine *engine;
    rn_error err = {0};
    if (n < 1 || n > MAX_REQUESTS || !(load > 0)) return 2;
    if (tools_model_open_synthetic(spec, &model, &err)) fail(&err);
    const rn_engine_options options = {.n_ctx = N_CTX, .max_seqs = MAX_SEQS, .speculate = "off"};
    if (rn_engine_create(model, &options, &engine, &err)) fail(&err);
    rates_measure(tools_plan(model), &before);
    requests_draw(model, &before, load, requests, n);
    engine_run(engine, rn_model_get_info(model)->n_vocab, requests, n);
    const struct times measured = times_of(requests, n);
    rates_measure(tools_plan(model), &after);
    const struct queue_totals first = simulate(model, &before, requests, n);
    const struct times early = times_of(requests, n);
    const struct queue_totals second = simulate(model, &after, requests, n);
    const struct times late = times_of(requests, n);
    printf("%s, %d requests in %.1f s\n  %-19s %12s %12s %12s %7s\n", spec, n,
           requests[n - 1].arrive_ms * 1e-3, "", "engine", "before", "after", "error");
    rn_engine_stats stats;
    rn_engine_get_stats(engine, &stats);
    const double other_ns = (double)(stats.schedule_ns + stats.draft_ns + stats.batch_ns +
                                     stats.sample_ns + stats.publish_ns);
    printf("  %-19s %12llu %12llu %12llu\n", "steps", (unsigned long long)stats.steps,
           (unsigned long long)first.n_steps, (unsigned long long)second.n_steps);
    printf("  %-19s %10.2f s %10.2f s %10.2f s; beside its runs the engine takes %.3f s\n", "busy",
           ((double)stats.run_ns + other_ns) * 1e-9, first.busy_ms * 1e-3, second.busy_ms * 1e-3,
           other_ns * 1e-9);
    line_print("TTFT", measured.ttft, early.ttft, late.ttft);
    line_print("time per token", measured.token, early.token, late.token);
    rn_engine_destroy(engine);
    rn_model_close(model);
    return 0;
}

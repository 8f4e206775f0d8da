// The simulated queue of `runnel plan --replay` against the engine: random arrivals run through
// both, and a table compares their times. Run by hand. The rates are measured on small matrices,
// before and after each segment of requests, and never from the engine's steps.
//   bench_replay [SHAPE:FORMAT [REQUESTS [LOAD]]]    such as 135m:Q8_0 200 0.5; LOAD is the share
//   of the predicted capacity
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plan/queue.h"
#define BY_HAND "bench_replay"
#include "by_hand.h"

enum {
    MAX_REQUESTS = 4096,
    MAX_SEQS = 8,
    MAX_PROMPT = 96,
    MAX_OUTPUT = 32,
    N_CTX = 256,
    SEGMENT = 20
};

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
    if (tools_kv_bytes(model, &(struct tools_place){0}, NULL, &kv, &err)) fail(&err);
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

// Of each request: in the engine, and in the simulation by the rates before and after.
enum { ENGINE, BEFORE, AFTER, SIDES };

struct times {
    double ttft[SIDES][MAX_REQUESTS], token[SIDES][MAX_REQUESTS];
};

static void times_take(const struct queue_request *requests, int first, int n, int side,
                       struct times *out) {
    for (int i = 0; i < n; i++) {
        const struct queue_request *r = &requests[i];
        out->ttft[side][first + i] = r->first_ms - r->arrive_ms;
        out->token[side][first + i] = (r->end_ms - r->first_ms) / (r->n_output - 1);
    }
}

static void rows_print(const char *name, double times[SIDES][MAX_REQUESTS], int n) {
    static const char *const quantiles[] = {"p50", "p90", "p99"};
    const int at[] = {n / 2, (int)(0.9 * n), (int)(0.99 * n)};
    for (int side = 0; side < SIDES; side++)
        qsort(times[side], (size_t)n, sizeof *times[side], compare_doubles);
    for (int i = 0; i < 3; i++) {
        const double before = times[BEFORE][at[i]], after = times[AFTER][at[i]];
        printf("  %-15s %s %9.2f ms %9.2f ms %9.2f ms %+6.1f%%\n", name, quantiles[i],
               times[ENGINE][at[i]], before, after,
               100 * ((before + after) / 2 / times[ENGINE][at[i]] - 1));
    }
}

int main(int argc, char **argv) {
    static struct queue_request requests[MAX_REQUESTS];
    static struct times times;
    const char *spec = argc > 1 ? argv[1] : "135m:Q8_0";
    const int n = argc > 2 ? atoi(argv[2]) : 200;
    const double load = argc > 3 ? atof(argv[3]) : 0.5;
    const rn_engine_options options = {.n_ctx = N_CTX, .max_seqs = MAX_SEQS, .speculate = "off"};
    struct predict_rates rates[2];
    struct queue_totals totals[SIDES] = {0};
    rn_model *model;
    rn_engine *engine;
    rn_error err = {0};
    if (n < 1 || n > MAX_REQUESTS || !(load > 0)) return 2;
    if (tools_model_open_synthetic(spec, &model, &err)) fail(&err);
    if (rn_engine_create(model, &options, &engine, &err)) fail(&err);
    rates_measure(tools_plan(model), &rates[0]);
    requests_draw(model, &rates[0], load, requests, n);
    for (int first = 0; first < n; first += SEGMENT) {
        struct queue_request *segment = &requests[first];
        const int count = n - first < SEGMENT ? n - first : SEGMENT;
        const double start = segment->arrive_ms;
        for (int i = 0; i < count; i++) segment[i].arrive_ms -= start;
        engine_run(engine, rn_model_get_info(model)->n_vocab, segment, count);
        times_take(segment, first, count, ENGINE, &times);
        rates_measure(tools_plan(model), &rates[1]);
        for (int side = BEFORE; side <= AFTER; side++) {
            const struct queue_totals one = simulate(model, &rates[side - 1], segment, count);
            times_take(segment, first, count, side, &times);
            totals[side].n_steps += one.n_steps;
            totals[side].busy_ms += one.busy_ms;
        }
        rates[0] = rates[1];
    }
    rn_engine_stats stats;
    rn_engine_get_stats(engine, &stats);
    const double other_ns = (double)(stats.schedule_ns + stats.draft_ns + stats.batch_ns +
                                     stats.sample_ns + stats.publish_ns);
    printf("%s, %d requests in segments of %d\n  %-19s %12s %12s %12s %7s\n", spec, n, SEGMENT, "",
           "engine", "before", "after", "error");
    printf("  %-19s %12llu %12llu %12llu\n", "steps", (unsigned long long)stats.steps,
           (unsigned long long)totals[BEFORE].n_steps, (unsigned long long)totals[AFTER].n_steps);
    printf("  %-19s %10.2f s %10.2f s %10.2f s; beside its runs the engine takes %.3f s\n", "busy",
           ((double)stats.run_ns + other_ns) * 1e-9, totals[BEFORE].busy_ms * 1e-3,
           totals[AFTER].busy_ms * 1e-3, other_ns * 1e-9);
    rows_print("TTFT", times.ttft, n);
    rows_print("time per token", times.token, n);
    rn_engine_destroy(engine);
    rn_model_close(model);
    return 0;
}

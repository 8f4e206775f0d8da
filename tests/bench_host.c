// The host's part of a step, by its calls: streams of the same length decode together, and the
// engine's own times of each step are read. Medians over the steps: a step that the system
// interrupted does not show. "rest" is the time of a step that the engine books nowhere: its
// statistics, and the reading of its events.
//   bench_host [MODEL [STREAMS [TOKENS [THREADS [SPECULATE]]]]]    a GGUF file, or tiny:Q8_0
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#define BY_HAND "bench_host"
#include "by_hand.h"

enum { MAX_STREAMS = 1024, N_PROMPT = 16, WARM_STEPS = 64 };

enum { SCHEDULE, DRAFT, BATCH, RUN, SAMPLE, PUBLISH, REST, HOST, PARTS };
static const char *const names[PARTS] = {"schedule", "draft",   "batch", "run",
                                         "sample",   "publish", "rest",  "host"};

static void submit(rn_engine *engine, int n_vocab, int index, int n_tokens) {
    int32_t prompt[N_PROMPT];
    rn_error err = {0};
    uint64_t id;
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = (index * 131 + i * 17 + 1) % n_vocab;
    const rn_request request = {.prompt = prompt,
                                .n_prompt = N_PROMPT,
                                .max_tokens = n_tokens,
                                .ignore_eos = true};
    if (rn_engine_submit(engine, &request, &id, &err)) fail(&err);
}

// A step, with its events read as a client would; false: a stream has ended.
static bool step(rn_engine *engine) {
    bool busy, all_run = true;
    if (rn_engine_step(engine, &busy)) exit(1);
    for (rn_event event; rn_engine_next_event(engine, &event);)
        all_run &= event.finish == RN_FINISH_NONE;
    return all_run;
}

// The parts of a step in ns; `host` is all but the run and the choice of tokens. False: a stream
// has ended, so the next step has fewer.
static bool measure(rn_engine *engine, double part[PARTS]) {
    rn_engine_stats a, b;
    rn_engine_get_stats(engine, &a);
    const uint64_t start = clock_ns();
    const bool all_run = step(engine);
    const uint64_t all = clock_ns() - start;
    rn_engine_get_stats(engine, &b);
    part[SCHEDULE] = (double)(b.schedule_ns - a.schedule_ns);
    part[DRAFT] = (double)(b.draft_ns - a.draft_ns);
    part[BATCH] = (double)(b.batch_ns - a.batch_ns);
    part[RUN] = (double)(b.run_ns - a.run_ns);
    part[SAMPLE] = (double)(b.sample_ns - a.sample_ns);
    part[PUBLISH] = (double)(b.publish_ns - a.publish_ns);
    part[HOST] = (double)all - part[RUN] - part[SAMPLE];
    part[REST] = part[HOST] - part[SCHEDULE] - part[DRAFT] - part[BATCH] - part[PUBLISH];
    return all_run;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(double (*part)[PARTS], int n_steps, int n_streams) {
    double *value = calloc((size_t)n_steps, sizeof *value);
    if (!value) exit(1);
    printf("us per step, %d streams:", n_streams);
    for (int p = 0; p < PARTS; p++) {
        for (int i = 0; i < n_steps; i++) value[i] = part[i][p];
        qsort(value, (size_t)n_steps, sizeof *value, by_value);
        printf("%s %s %.2f", p ? "," : "", names[p], value[n_steps / 2] * 1e-3);
    }
    printf("\n");
    free(value);
}

int main(int argc, char **argv) {
    rn_model *model = open_model(argc > 1 ? argv[1] : "tiny:Q8_0");
    const int n_streams = argc > 2 ? atoi(argv[2]) : 32, n_tokens = argc > 3 ? atoi(argv[3]) : 2000;
    if (n_streams < 1 || n_streams > MAX_STREAMS || n_tokens < 2 * WARM_STEPS) {
        fprintf(stderr, "bench_host: 1 to %d streams, %d tokens or more\n", MAX_STREAMS,
                2 * WARM_STEPS);
        return 2;
    }
    rn_error err = {0};
    rn_engine *engine;
    const rn_engine_options options = {.n_ctx = N_PROMPT + n_tokens,
                                       .max_seqs = n_streams,
                                       .n_threads = argc > 4 ? atoi(argv[4]) : 0,
                                       .speculate = argc > 5 ? argv[5] : NULL};
    if (rn_engine_create(model, &options, &engine, &err)) fail(&err);
    for (int i = 0; i < n_streams; i++)
        submit(engine, rn_model_get_info(model)->n_vocab, i, n_tokens);
    for (int i = 0; i < WARM_STEPS; i++) step(engine);
    double(*part)[PARTS] = calloc((size_t)n_tokens, sizeof *part);
    if (!part) return 1;
    int n_steps = 0; // drafts may make them fewer than the tokens
    while (n_steps < n_tokens && measure(engine, part[n_steps])) n_steps++;
    if (n_steps == 0) return 1;
    report(part, n_steps, n_streams);
    free(part);
    rn_engine_destroy(engine);
    rn_model_close(model);
    return 0;
}

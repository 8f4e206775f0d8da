// The host's part of a step, by its calls: streams of the same length decode together, and the
// engine's own times are divided by the steps. "rest" is the time of a step that the engine books
// nowhere: its statistics, and the reading of its events.
//   bench_host [MODEL [STREAMS [TOKENS [THREADS]]]]    a GGUF file, or a shape such as tiny:Q8_0
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#define BY_HAND "bench_host"
#include "by_hand.h"

enum { MAX_STREAMS = 1024, N_PROMPT = 16, WARM_STEPS = 64, SPARE = 8 };

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

// Steps, with the events read as a client would.
static void run(rn_engine *engine, int n_steps) {
    for (int i = 0; i < n_steps; i++) {
        bool busy;
        if (rn_engine_step(engine, &busy)) exit(1);
        for (rn_event event; rn_engine_next_event(engine, &event);) continue;
    }
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
                                       .n_threads = argc > 4 ? atoi(argv[4]) : 0};
    if (rn_engine_create(model, &options, &engine, &err)) fail(&err);
    for (int i = 0; i < n_streams; i++)
        submit(engine, rn_model_get_info(model)->n_vocab, i, n_tokens);
    run(engine, WARM_STEPS);
    rn_engine_stats a, b;
    const int n_steps = n_tokens - WARM_STEPS - SPARE;
    rn_engine_get_stats(engine, &a);
    const uint64_t start = clock_ns();
    run(engine, n_steps);
    const double all = (double)(clock_ns() - start) * 1e-3 / n_steps;
    rn_engine_get_stats(engine, &b);
    const double us = 1e-3 / n_steps;
    const double schedule = (double)(b.schedule_ns - a.schedule_ns) * us,
                 draft = (double)(b.draft_ns - a.draft_ns) * us,
                 batch = (double)(b.batch_ns - a.batch_ns) * us,
                 ran = (double)(b.run_ns - a.run_ns) * us,
                 sample = (double)(b.sample_ns - a.sample_ns) * us,
                 publish = (double)(b.publish_ns - a.publish_ns) * us;
    printf("us per step, %d streams: schedule %.2f, draft %.2f, batch %.2f, run %.2f, sample %.2f, "
           "publish %.2f, rest %.2f\n",
           n_streams, schedule, draft, batch, ran, sample, publish,
           all - schedule - draft - batch - ran - sample - publish);
    rn_engine_destroy(engine);
    rn_model_close(model);
    return 0;
}

// The ledger in numbers. Requests of random lengths arrive in a mixed load, and the program times
// every gap by its own clock. Printed: how far the causes of each gap are from that time, the
// shares of the causes, and the cost of the ledger's part in a step.
//   bench_ledger [MODEL [REQUESTS [STREAMS]]]    a GGUF file, or a synthetic model such as 1b:Q4_0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#define BY_HAND "bench_ledger"
#include "by_hand.h"

enum { MAX_REQUESTS = 10000, MAX_STREAMS = 64, N_CTX = 1024 };

struct seen {
    uint64_t last_ns; // by the program's clock
    uint64_t gap_sum, error_max, n_gaps, n_outside;
};

static struct seen seen[MAX_REQUESTS + 1];
static uint64_t cause_ns[2][RN_CAUSE_COUNT]; // of times to first tokens, of gaps
static uint64_t n_unequal;

static uint32_t draw(uint32_t *random, uint32_t below) {
    *random = *random * 1664525u + 1013904223u;
    return (*random >> 8) % below;
}

static void submit(rn_engine *engine, int n_vocab, uint32_t *random) {
    static int32_t prompt[N_CTX];
    rn_error err = {0};
    uint64_t id;
    const int n_prompt = 4 + (int)draw(random, draw(random, 8) == 0 ? 600 : 60);
    for (int i = 0; i < n_prompt; i++) prompt[i] = (int32_t)draw(random, (uint32_t)n_vocab);
    const rn_request request = {.prompt = prompt,
                                .n_prompt = (size_t)n_prompt,
                                .max_tokens = 2 + (int)draw(random, 80),
                                .ignore_eos = true};
    if (rn_engine_submit(engine, &request, &id, &err)) fail(&err);
}

// The sum of the causes of every gap against the program's clock, which was read after the step.
static void take(const rn_event *event, uint64_t now) {
    struct seen *s = &seen[event->request % (MAX_REQUESTS + 1)];
    if (event->token >= 0 && event->cause != RN_CAUSE_NONE && event->gap_ms > 0) {
        const uint64_t mine = now - s->last_ns, theirs = (uint64_t)(event->gap_ms * 1e6);
        const uint64_t error = mine > theirs ? mine - theirs : theirs - mine;
        s->n_gaps++;
        s->gap_sum += mine;
        if (error > s->error_max) s->error_max = error;
        s->n_outside += error > mine / 100 + 50000;
    }
    if (event->token >= 0) s->last_ns = now;
    if (!event->finish) return;
    const rn_account *a = event->account;
    uint64_t sum = 0;
    for (int i = 0; i < RN_CAUSE_COUNT; i++) {
        cause_ns[0][i] += a->first.cause_ns[i];
        cause_ns[1][i] += a->decode.cause_ns[i];
        sum += a->first.cause_ns[i] + a->decode.cause_ns[i];
    }
    n_unequal += sum != a->last_ns - a->submit_ns;
}

static void print_causes(void) {
    printf("%-12s %14s %14s\n", "cause", "first token %", "gaps %");
    uint64_t sum[2] = {0};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < RN_CAUSE_COUNT; i++) sum[k] += cause_ns[k][i];
    for (int i = 1; i < RN_CAUSE_COUNT; i++)
        printf("%-12s %14.2f %14.2f\n", rn_cause_name((rn_cause)i),
               100 * (double)cause_ns[0][i] / (double)(sum[0] + !sum[0]),
               100 * (double)cause_ns[1][i] / (double)(sum[1] + !sum[1]));
}

static void run(rn_engine *engine, int n_vocab, int n_requests, int n_streams) {
    uint32_t random = 1;
    int n_sent = 0, n_over = 0;
    while (n_over < n_requests) {
        bool busy;
        for (; n_sent < n_requests && n_sent - n_over < n_streams; n_sent++)
            submit(engine, n_vocab, &random);
        if (rn_engine_step(engine, &busy)) return;
        const uint64_t now = clock_ns();
        for (rn_event event; rn_engine_next_event(engine, &event);) {
            take(&event, now);
            n_over += event.last;
        }
    }
}

int main(int argc, char **argv) {
    rn_model *model = open_model(argc > 1 ? argv[1] : "tiny:Q8_0");
    const int n_requests = argc > 2 ? atoi(argv[2]) : 500, n_streams = argc > 3 ? atoi(argv[3]) : 8;
    if (n_requests < 1 || n_requests > MAX_REQUESTS || n_streams < 1 || n_streams > MAX_STREAMS) {
        fprintf(stderr, "bench_ledger: %d requests (1 to %d), %d streams (1 to %d)\n", n_requests,
                MAX_REQUESTS, n_streams, MAX_STREAMS);
        return 2;
    }
    rn_error err = {0};
    rn_engine *engine;
    const rn_engine_options options = {.n_ctx = N_CTX, .max_seqs = n_streams};
    if (rn_engine_create(model, &options, &engine, &err)) fail(&err);
    run(engine, rn_model_get_info(model)->n_vocab, n_requests, n_streams);
    struct seen all = {0};
    for (int i = 0; i <= MAX_REQUESTS; i++) {
        all.n_gaps += seen[i].n_gaps;
        all.n_outside += seen[i].n_outside;
        if (seen[i].error_max > all.error_max) all.error_max = seen[i].error_max;
    }
    printf("%d requests, %llu gaps: causes that do not add up %llu; beyond 1%% + 50 us of the "
           "program's clock %llu; largest difference %.1f us\n",
           n_requests, (unsigned long long)all.n_gaps, (unsigned long long)n_unequal,
           (unsigned long long)all.n_outside, (double)all.error_max * 1e-3);
    print_causes();
    rn_engine_destroy(engine);
    rn_model_close(model);
    return n_unequal > 0;
}

// Decodes on demand, for tools/compare-speed. A model is loaded once. Then each line of standard
// input is a number of streams, and each line of standard output is the tokens/s of all of them
// together. So two builds of this program can be measured in turn, with nothing but steps between.
//   bench_decode MODEL [DRAFT]    a GGUF file, or the shape of a synthetic model such as 1b:Q4_0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BY_HAND "bench_decode"
#include "by_hand.h"

enum { MAX_STREAMS = 64, N_PROMPT = 16, N_CTX = 256 };

static void submit(rn_engine *engine, int n_vocab, int n_gen, uint32_t *random) {
    int32_t prompt[N_PROMPT];
    rn_error err = {0};
    uint64_t id;
    for (int i = 0; i < N_PROMPT; i++) {
        *random = *random * 1664525u + 1013904223u;
        prompt[i] = (int32_t)((*random >> 8) % (uint32_t)n_vocab);
    }
    const rn_request request = {.prompt = prompt,
                                .n_prompt = N_PROMPT,
                                .max_tokens = n_gen,
                                .ignore_eos = true};
    if (rn_engine_submit(engine, &request, &id, &err)) fail(&err);
}

// Tokens after the first of the last stream, over their time.
static double measure(rn_engine *engine, int n_vocab, int n_streams, int n_gen, uint32_t *random) {
    int n_begun = 0, n_tokens = 0, n_over = 0;
    uint64_t begin = 0, end = 0;
    for (int i = 0; i < n_streams; i++) submit(engine, n_vocab, n_gen, random);
    while (n_over < n_streams) {
        bool busy;
        if (rn_engine_step(engine, &busy)) return 0;
        for (rn_event event; rn_engine_next_event(engine, &event);) {
            n_over += event.last;
            if (event.token < 0) continue;
            n_begun += event.cause == RN_CAUSE_NONE;
            if (begin) n_tokens++;
            end = event.time_ns;
        }
        if (!begin && n_begun == n_streams) begin = end;
    }
    return (double)n_tokens / ((double)(end - begin) * 1e-9);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    rn_model *model = open_model(argv[1]), *draft = argc > 2 ? open_model(argv[2]) : NULL;
    rn_error err = {0};
    rn_engine *engine;
    const rn_engine_options options = {.n_ctx = N_CTX,
                                       .max_seqs = MAX_STREAMS,
                                       .no_prefix_cache = true,
                                       .speculate = draft ? "auto" : "off",
                                       .draft = draft};
    if (rn_engine_create(model, &options, &engine, &err)) fail(&err);
    const int n_vocab = rn_model_get_info(model)->n_vocab, n_gen = draft ? 200 : 12;
    uint32_t random = 1;
    printf("ready\n");
    fflush(stdout);
    for (char line[32]; fgets(line, sizeof line, stdin);) {
        printf("%.6f\n", measure(engine, n_vocab, atoi(line), n_gen, &random));
        fflush(stdout);
    }
    rn_engine_destroy(engine);
    rn_model_close(draft);
    rn_model_close(model);
    return 0;
}

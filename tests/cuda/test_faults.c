// Memory that is short in the middle of a step: the step's requests end with a fault of the step,
// and later ones have the tokens that they have without it. Such a step was handed over in part,
// and the next one has its buffers. The device never is lost.
#include <stdlib.h>

#include "cuda_engine.h"
#include "cuda_runtime_api.h"
#include "streams.h"

enum { N = 3, N_PROMPT = 5, N_OUT = 6 };

// A listener makes rows of logits come to the host.
static void listen(void *ctx, int pos, const float *logits, int n_vocab) {
    (void)pos, (void)n_vocab;
    *(float *)ctx += logits[0];
}

static void run(rn_engine *engine, struct stream *streams) {
    static float heard;
    int32_t prompt[N][N_PROMPT];
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < N_PROMPT; k++) prompt[i][k] = 40 + 17 * i + 5 * k;
        const rn_request request = {.prompt = prompt[i],
                                    .n_prompt = N_PROMPT,
                                    .ignore_eos = true,
                                    .max_tokens = N_OUT,
                                    .on_logits = i == 1 ? listen : NULL,
                                    .on_logits_ctx = &heard};
        streams_submit(engine, &request, &streams[i]);
    }
    streams_drain(engine, streams, N);
    rn_engine_forget_prefixes(engine);
}

// Call after call finds no memory, until no call is left: the first ones, then some.
static void check_model(const char *name) {
    static struct stream first[N], hurt[N], again[N];
    char path[400];
    rn_model *model;
    rn_error err = {0};
    if (cuda_wanted()) return;
    snprintf(path, sizeof path, "%s/golden/%s/model.gguf", TEST_DATA, name);
    check(rn_model_open(path, &model, &err) == RN_OK, "%s", err.message);
    setenv("RUNNEL_EMULATOR_LAZY", "1", 1);
    const rn_engine_options options = {.max_seqs = N, .n_ctx = 64, .logit_rows = -1};
    const int step = test_is_whole() ? 19 : 71;
    int n_faults = 0;
    for (int at = 0, left = 0; left == 0; at += at < 8 ? 1 : step) {
        rn_engine *engine = streams_engine(model, &options);
        if (at == 0) run(engine, first);
        emulator_short_at(at);
        run(engine, hurt);
        left = at ? emulator_short_at(0) : 0;
        for (int i = 0; i < N; i++) {
            n_faults += hurt[i].status != RN_OK;
            check(hurt[i].status == RN_OK || hurt[i].status == RN_ERR_STEP, "call %d: status %d",
                  at, (int)hurt[i].status);
            if (hurt[i].status == RN_OK) streams_check_same(&first[i], &hurt[i]);
        }
        run(engine, again);
        for (int i = 0; i < N; i++) streams_check_same(&first[i], &again[i]);
        rn_engine_destroy(engine);
    }
    unsetenv("RUNNEL_EMULATOR_LAZY");
    check(n_faults > 2 * N, "%d requests had a fault", n_faults);
    rn_model_close(model);
}

CASE(full_attention) { check_model("llama"); }
CASE(states) { check_model("qwen3_5"); }

TEST_PROGRAM(faults) { return cases_run(NULL, NULL); }

// An engine on the test's own clock: a backend's step moves it by a table of times, so that gaps,
// deadlines and causes are exact. For test_gaps.c and test_causes.c.
#ifndef RN_TESTS_ENGINE_CLOCK_WORLD_H
#define RN_TESTS_ENGINE_CLOCK_WORLD_H

#include "fake_clock.h"

static rn_model *model;

static int open_model(void **state) {
    (void)state;
    bare_clock = (struct engine_clock){fake_now, NULL};
    model = bare_open(MODELS_DIR "/tale-1m-f16.gguf");
    return 0;
}

static int close_model(void **state) {
    (void)state;
    rn_model_close(model);
    return 0;
}

static rn_engine *clock_engine(const rn_engine_options *options) {
    return clock_engine_of(model, options);
}

// Without drafts, so that a step's rows are known.
static inline rn_engine *new_engine(const rn_engine_options *options) {
    rn_engine_options undrafted = *options;
    undrafted.speculate = "off";
    return clock_engine(&undrafted);
}

static int32_t prompt[1024];

static rn_request request_for(int seed, int n_prompt, int max_tokens) {
    for (int i = 0; i < n_prompt; i++) prompt[i] = (seed * 577 + i * 31 + 7) % 4096;
    return (rn_request){.prompt = prompt,
                        .n_prompt = (size_t)n_prompt,
                        .max_tokens = max_tokens,
                        .ignore_eos = true};
}

static inline uint64_t submit(rn_engine *engine, const rn_request *request) {
    uint64_t id;
    assert_int_equal(rn_engine_submit(engine, request, &id, NULL), RN_OK);
    return id;
}

#endif

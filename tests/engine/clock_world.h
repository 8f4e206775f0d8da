// An engine on the test's own clock: a backend's step moves it by a table of times, so that gaps,
// deadlines and causes are exact. For test_gaps.c and test_causes.c.
#ifndef RN_TESTS_ENGINE_CLOCK_WORLD_H
#define RN_TESTS_ENGINE_CLOCK_WORLD_H

#include "bare_engine.h"
#include "streams.h"

static const double MS = 1e6; // ns

// A clock that the backend's steps move on.
struct fake {
    uint64_t now_ns;
    double slower_ms;     // of the next step, beside the table
    double factor;        // of the table; 0: 1
    void (*during)(void); // called in the middle of the next step; NULL: nothing is
    struct backend_class cls;
    rn_status (*submit)(struct backend *backend, const struct batch *batch, rn_error *err);
};

static struct fake fake;

static uint64_t fake_now(void *ctx) {
    (void)ctx;
    return fake.now_ns;
}

static inline void pass_ms(double ms) { fake.now_ns += (uint64_t)(ms * MS); }

// The time of a step with N rows: the weights once, then more with every row.
static double rows_ms(int n_rows) {
    static const struct {
        int rows;
        double ms;
    } table[] = {{0, 1}, {8, 1}, {16, 1.5}, {64, 4}, {256, 14}, {1024, 60}};
    int i = 1;
    while (table[i].rows < n_rows) i++;
    const double part =
        (double)(n_rows - table[i - 1].rows) / (double)(table[i].rows - table[i - 1].rows);
    return table[i - 1].ms + part * (table[i].ms - table[i - 1].ms);
}

static rn_status fake_submit(struct backend *backend, const struct batch *batch, rn_error *err) {
    const rn_status status = fake.submit(backend, batch, err);
    const double ms =
        rows_ms(batch->n_tokens) * (fake.factor > 0 ? fake.factor : 1) + fake.slower_ms;
    pass_ms(ms / 2);
    if (fake.during) fake.during();
    pass_ms(ms / 2);
    fake.during = NULL;
    fake.slower_ms = 0;
    return status;
}

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
    fake.now_ns = 1000000000;
    fake.slower_ms = fake.factor = 0;
    rn_engine *engine = streams_engine(model, options);
    fake.submit = engine->engine.backend->cls->submit;
    fake.cls = *engine->engine.backend->cls;
    fake.cls.submit = fake_submit;
    engine->engine.backend->cls = &fake.cls;
    return engine;
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

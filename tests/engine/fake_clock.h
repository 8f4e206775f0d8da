// A clock of the test's own: a backend's step moves it by a table of times, so that gaps, deadlines
// and predictions are exact.
#ifndef RN_TESTS_ENGINE_FAKE_CLOCK_H
#define RN_TESTS_ENGINE_FAKE_CLOCK_H

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

static inline uint64_t fake_now(void *ctx) {
    (void)ctx;
    return fake.now_ns;
}

static inline void pass_ms(double ms) { fake.now_ns += (uint64_t)(ms * MS); }

// The time of a step with N rows: the weights once, then more with every row.
static inline double rows_ms(int n_rows) {
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

static inline rn_status fake_submit(struct backend *backend, const struct batch *batch,
                                    rn_error *err) {
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

static inline rn_engine *clock_engine_of(const rn_model *of, const rn_engine_options *options) {
    fake.now_ns = 1000000000;
    fake.slower_ms = fake.factor = 0;
    rn_engine *engine = streams_engine(of, options);
    fake.submit = engine->engine.backend->cls->submit;
    fake.cls = *engine->engine.backend->cls;
    fake.cls.submit = fake_submit;
    engine->engine.backend->cls = &fake.cls;
    return engine;
}

#endif

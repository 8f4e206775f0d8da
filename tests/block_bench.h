// Draft blocks against their definition: a backend that runs a plan's model and its block, and the
// parts that the definitions share, in double precision.
#ifndef RN_TESTS_BLOCK_BENCH_H
#define RN_TESTS_BLOCK_BENCH_H

#include <math.h>

#include "backend/backend.h"
#include "base/pool.h"
#include "check.h"
#include "plan/batch.h"

enum { BENCH_TOKENS = 70, BENCH_BLOCKS = BENCH_TOKENS / KV_PAGE_TOKENS + 1 };

struct bench {
    struct pool *pool;
    struct backend *backend;
    const struct plan *plan;
    struct batch_builder builder;
    uint32_t page[PLAN_MAX_KV_GROUPS][BENCH_BLOCKS], *table[PLAN_MAX_KV_GROUPS];
};

// The batches have tables of n_group groups, for up to BENCH_TOKENS sequences.
static inline void bench_init(struct bench *bench, const struct plan *plan, int n_group) {
    const struct backend_class *cls;
    struct backend_device device;
    assert_int_equal(pool_create_here(2, false, &bench->pool, NULL), RN_OK);
    assert_int_equal(backend_find("cpu", 0, &cls, &device, NULL), RN_OK);
    const struct backend_config config = {.kv_type = "f32",
                                          .sizes = {BENCH_TOKENS, BENCH_TOKENS, BENCH_TOKENS,
                                                    false},
                                          .n_pages = {BENCH_BLOCKS, BENCH_BLOCKS, BENCH_BLOCKS,
                                                      BENCH_BLOCKS},
                                          .pool = bench->pool};
    assert_int_equal(cls->create(plan, &config, &bench->backend, NULL), RN_OK);
    assert_int_equal(batch_builder_init(&bench->builder, n_group, BENCH_TOKENS, BENCH_TOKENS,
                                        BENCH_TOKENS, NULL),
                     RN_OK);
    bench->plan = plan;
    for (int g = 0; g < PLAN_MAX_KV_GROUPS; g++) {
        bench->table[g] = bench->page[g];
        for (uint32_t b = 0; b < BENCH_BLOCKS; b++) bench->page[g][b] = b;
    }
}

static inline void bench_deinit(struct bench *bench) {
    batch_builder_deinit(&bench->builder);
    backend_destroy(bench->backend);
    pool_destroy(bench->pool);
}

// n ids below n_vocab, without the first and the last ones, which are control tokens.
static inline void fill_tokens(int32_t *token, int n, uint32_t seed, int n_vocab) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        token[i] = (int32_t)((seed >> 12) % (uint32_t)(n_vocab - 16)) + 8;
    }
}

static inline void norm(const double *x, const float *w, int n, double *y) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    const double by = 1 / sqrt(sum / n + 1e-6);
    for (int i = 0; i < n; i++) y[i] = x[i] * by * (double)w[i];
}

static inline void product(const float *w, int rows, int cols, const double *x, double *y) {
    for (int r = 0; r < rows; r++) {
        y[r] = 0;
        for (int c = 0; c < cols; c++) y[r] += (double)w[r * cols + c] * x[c];
    }
}

#endif

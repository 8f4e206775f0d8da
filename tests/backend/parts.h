// Parts that the tests of the CPU backend share: random numbers that repeat, ops and weights of
// small plans, and tables of pages in any order.
#ifndef RN_TESTS_BACKEND_PARTS_H
#define RN_TESTS_BACKEND_PARTS_H

#include "check.h"
#include "plan/plan.h"
#include "random_blocks.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static uint64_t rng_state = 1;

static inline uint32_t rng(void) {
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng_state >> 32);
}
static inline int rng_below(int n) { return (int)(rng() % (uint32_t)n); }
static inline float rng_float(void) { return (float)(int32_t)rng() * 0x1p-31f; } // in [-1, 1)
#define PICK(list) ((list)[rng_below(COUNT(list))])

// Memory that kernels may read to the end of its last cache line, and one more. The caller frees
// it.
static inline void *lines_alloc(uint64_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    assert_non_null(memory);
    return memory;
}

// Numbers in [-2, 2). The caller frees them.
static inline float *floats(int64_t n) {
    float *x = lines_alloc((uint64_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = rng_float() * 2;
    return x;
}

// The pages 0 to n - 1, neither ordered nor dense.
static inline void table_shuffle(uint32_t *table, int n) {
    for (int i = 0; i < n; i++) table[i] = (uint32_t)i;
    for (int i = n - 1; i > 0; i--) {
        const int j = rng_below(i + 1);
        const uint32_t page = table[i];
        table[i] = table[j];
        table[j] = page;
    }
}

// An op without a weight, on the rows of its output.
static inline struct op op_of(const struct plan *plan, enum op_kind kind, int in0, int in1,
                              int out) {
    struct op op = {.kind = kind,
                    .rows = out == PLAN_NONE ? ROWS_TOKENS : plan->buffer[out].rows,
                    .layer = -1,
                    .in = {in0, in1},
                    .out = out,
                    .weight = PLAN_NONE,
                    .bias = PLAN_NONE};
    if (kind == OP_EMBED) op.embed.scale = 1;
    if (kind == OP_MATMUL) op.matmul.scale = 1;
    return op;
}

static inline void op_add(struct plan *plan, enum op_kind kind, int in0, int in1, int out,
                          int weight) {
    struct op op = op_of(plan, kind, in0, in1, out);
    op.weight = weight;
    plan_add_op(plan, &op);
}

// Returns the weight's index.
static inline int weight_add(struct plan *plan, enum format_id format, int64_t rows, int64_t cols,
                             const void *data) {
    const struct plan_weight weight = {.name = "w",
                                       .format = format,
                                       .rows = rows,
                                       .cols = cols,
                                       .data = data,
                                       .bytes = format_row_bytes(format, cols) * (uint64_t)rows};
    return plan_add_weight(plan, &weight);
}

// The same with random contents, which are the plan's.
static inline int weight_draw(struct plan *plan, enum format_id format, int64_t rows, int64_t cols,
                              uint64_t *random) {
    const uint64_t bytes = format_row_bytes(format, cols) * (uint64_t)rows;
    uint8_t *data = arena_array(&plan->arena, bytes, 1);
    assert_non_null(data);
    blocks_fill(format, data, bytes, random);
    return weight_add(plan, format, rows, cols, data);
}

// Ends a plan whose logits are copies of rows of F32 numbers, which tokens choose.
static inline void plan_end_with_rows(struct plan *plan, const float *table, int n_rows,
                                      int n_vocab) {
    const int x = plan_add_buffer(plan, "x", n_vocab, ROWS_TOKENS);
    plan->n_vocab = n_vocab;
    plan->logits = plan_add_buffer(plan, "logits", n_vocab, ROWS_LOGITS);
    op_add(plan, OP_EMBED, PLAN_NONE, PLAN_NONE, x,
           weight_add(plan, FORMAT_F32, n_rows, n_vocab, table));
    op_add(plan, OP_GATHER, x, PLAN_NONE, plan->logits, PLAN_NONE);
    assert_int_equal(plan_finish(plan, NULL), RN_OK);
}

#endif

// Predicted times against arithmetic by hand, and the worked examples of docs/PLAN.md.
#include <math.h>

#include "check.h"
#include "plan/cost_rates.h"
#include "plan/predict.h"

enum { ROWS = 16384, COLS = 4096, HEADS = 8, HEADS_KV = 2, DIM = 64, VOCAB = 32 };

// Bytes of a page: f16 keys and values of one layer.
static const struct kv_bytes kv = {{(uint64_t)KV_PAGE_TOKENS * HEADS_KV * 2 * DIM * 2}};

static struct op op_of(const struct plan *plan, enum op_kind kind, int in, int out, int weight) {
    return (struct op){.kind = kind,
                       .rows = out == PLAN_NONE ? ROWS_TOKENS : plan->buffer[out].rows,
                       .in = {in, PLAN_NONE},
                       .out = out,
                       .weight = weight,
                       .bias = PLAN_NONE};
}

static int f16_matrix(struct plan *plan, int64_t rows, int64_t cols) {
    return plan_add_weight(plan, &(struct plan_weight){.name = "w",
                                                       .format = FORMAT_F16,
                                                       .rows = rows,
                                                       .cols = cols,
                                                       .bytes = (uint64_t)(rows * cols * 2)});
}

// One product [ROWS, COLS], and where `heads` says so an attention over one group.
static void build(struct plan *plan, bool heads) {
    plan_init(plan);
    plan->n_vocab = VOCAB;
    plan->hidden = PLAN_NONE;
    const int x = plan_add_buffer(plan, "x", COLS, ROWS_TOKENS);
    const int y = plan_add_buffer(plan, "y", ROWS, ROWS_TOKENS);
    plan->logits = plan_add_buffer(plan, "logits", VOCAB, ROWS_LOGITS);
    struct op op;
    if (!heads) {
        op = op_of(plan, OP_MATMUL, x, y, f16_matrix(plan, ROWS, COLS));
        plan_add_op(plan, &op);
    } else {
        const int q = plan_add_buffer(plan, "q", HEADS * DIM, ROWS_TOKENS);
        const int a = plan_add_buffer(plan, "a", HEADS * DIM, ROWS_TOKENS);
        plan_add_kv_group(plan, &(struct plan_kv_group){.kind = KV_FULL,
                                                        .n_layer = 1,
                                                        .n_head_kv = HEADS_KV,
                                                        .dim_k = DIM,
                                                        .dim_v = DIM});
        op = op_of(plan, OP_ATTENTION, q, a, PLAN_NONE);
        op.kv.n_head = HEADS;
        plan_add_op(plan, &op);
    }
    assert_int_equal(plan_finish(plan, NULL), RN_OK);
}

static struct prediction predict(const struct plan *plan, const struct predict_machine *machine,
                                 int users, int position) {
    struct batch_shape shape = {0};
    struct prediction out;
    for (int i = 0; i < users; i++) batch_shape_add(plan, &shape, position, 1, 1);
    predict_step(plan, &kv, machine, &shape, &out);
    return out;
}

static void near(const char *what, double value, double wanted) {
    check(fabs(value - wanted) <= 1e-9 * fabs(wanted), "%s: %.12g instead of %.12g", what, value,
          wanted);
}

// 1000 GB/s and 100 TFLOP/s: arithmetic is the limit above 100 operations for each byte.
static const struct predict_machine figures = {.bandwidth = 1e12, .flops = 1e14};

CASE(a_matrix_of_16384_x_4096_in_f16) {
    struct plan plan;
    build(&plan, false);
    const struct prediction one = predict(&plan, &figures, 1, 0);
    assert_int_equal(one.cost.weight_bytes, 134217728); // 134 MB
    assert_int_equal(one.cost.flops, 134217728);        // 134 MFLOP for a token: 1 for each byte
    near("its bytes", one.ns, 134217.728);
    assert_int_equal(one.bound, BOUND_WEIGHTS);
    const struct prediction eight = predict(&plan, &figures, 8, 0);
    assert_int_equal(eight.cost.weight_bytes, one.cost.weight_bytes);
    assert_int_equal(eight.cost.flops, 8 * one.cost.flops); // so 8 times the intensity
    near("free below the balance", eight.ns, one.ns);
    const struct prediction many = predict(&plan, &figures, 200, 0);
    near("arithmetic above it", many.ns, 2 * one.ns);
    assert_int_equal(many.bound, BOUND_MATH);
    plan_deinit(&plan);
}

CASE(attention_sees_the_cached_tokens_and_its_own) {
    struct plan plan;
    build(&plan, true);
    const struct prediction at_100 = predict(&plan, &figures, 1, 100);
    // scores have 101 columns: keys 0 to 99 of the cache, and the token's own
    assert_int_equal(at_100.cost.flops, (uint64_t)101 * HEADS * 2 * DIM * 2);
    assert_int_equal(at_100.cost.kv_read_bytes, (uint64_t)101 * HEADS_KV * 2 * DIM * 2);
    assert_int_equal(at_100.bound, BOUND_KV);
    const struct prediction eight = predict(&plan, &figures, 8, 100);
    // KV is not shared: 8 users read 8 times the bytes, and the intensity stays
    assert_int_equal(eight.cost.kv_read_bytes, 8 * at_100.cost.kv_read_bytes);
    assert_int_equal(eight.cost.flops, 8 * at_100.cost.flops);
    near("8 times the time", eight.ns, 8 * at_100.ns);
    plan_deinit(&plan);
}

CASE(stages_and_steps_add_their_time) {
    struct plan plan;
    build(&plan, false);
    const struct predict_machine slow = {.bandwidth = 1e12,
                                         .flops = 1e14,
                                         .stage_ns = 1e6,
                                         .step_ns = 5};
    const struct prediction step = predict(&plan, &slow, 1, 0);
    near("one stage", step.ns, 134217.728 + 1e6 + 5);
    near("the host's part", step.part_ns[BOUND_HOST], 1e6 + 5);
    assert_int_equal(step.bound, BOUND_HOST);
    plan_deinit(&plan);
}

CASE(points_between_rows_are_in_proportion) {
    const double point[PREDICT_POINTS] = {1, 1, 2, 4, 6, 7, 8, 16, 20, 32, 128};
    near("1", predict_rate(point, 1), 1);
    near("below", predict_rate(point, 0.5), 1);
    near("3", predict_rate(point, 3), 1.5);
    near("24", predict_rate(point, 24), 12);
    near("the last of a kernel", predict_rate(point, 32), 16);
    near("the first of another", predict_rate(point, 33), 20);
    near("256", predict_rate(point, 256), 128);
    near("beyond", predict_rate(point, 512), 256);
}

// Of F16: one row at the bandwidth, computing that is 1/10 of reading for each row, all hidden.
static void rates_make(struct predict_rates *rates, double cached, double overlap) {
    struct predict_product *product = &rates->product[FORMAT_F16];
    *product = (struct predict_product){.is_known = true, .share = 1};
    for (int i = 0; i < PREDICT_POINTS; i++) {
        product->cached[i] = cached * predict_rows[i];
        product->overlap[i] = overlap;
    }
}

CASE(measured_rates_are_applied_by_format_rows_and_cache) {
    struct plan plan;
    static struct predict_rates rates;
    build(&plan, false);
    rates = (struct predict_rates){.bandwidth = 1e10, .cache_bytes = 32 << 20, .step_ns = 7};
    rates_make(&rates, 0.01, 1);
    const struct predict_machine machine = {.rates = &rates};
    const struct prediction one = predict(&plan, &machine, 1, 0);
    near("from memory", one.ns, 13421772.8 + 7);
    assert_int_equal(one.bound, BOUND_WEIGHTS); // as fast as the memory
    const struct prediction many = predict(&plan, &machine, 32, 0);
    near("32 rows", many.ns, 3.2 * 13421772.8 + 7);
    assert_int_equal(many.bound, BOUND_MATH); // slower than its bytes
    // only the whole time is known: up to 1.5 times that of its bytes, they are the limit
    rates.product[FORMAT_F16].share = 1 / 1.49;
    assert_int_equal(predict(&plan, &machine, 1, 0).bound, BOUND_WEIGHTS);
    rates.product[FORMAT_F16].share = 1 / 1.51;
    assert_int_equal(predict(&plan, &machine, 1, 0).bound, BOUND_MATH);
    rates.cache_bytes = 1 << 30;
    near("in the cache", predict(&plan, &machine, 1, 0).ns, 1342177.28 + 7);
    plan_deinit(&plan);
}

// 134217728 bytes: 1.25 times the cache, between two known shares.
CASE(a_working_set_that_fits_in_part_is_read_in_part) {
    struct plan plan;
    static struct predict_rates rates;
    build(&plan, false);
    rates = (struct predict_rates){.bandwidth = 1e10,
                                   .cache_bytes = 134217728 / 5 * 4,
                                   .memory_share = {0, 0.1, 0.4, 0.8, 0.9, 1}};
    rates_make(&rates, 0.01, 1);
    const struct predict_machine machine = {.rates = &rates};
    const double ns = predict(&plan, &machine, 1, 0).ns, wanted = 0.6 * 13421772.8;
    check(fabs(ns - wanted) <= 1e-6 * wanted, "%.9g instead of %.9g", ns, wanted);
    rates.cache_bytes = 0; // unknown
    near("all of it", predict(&plan, &machine, 1, 0).ns, 13421772.8);
    plan_deinit(&plan);
}

CASE(reading_and_computing_overlap_in_part) {
    static struct predict_rates rates;
    struct predict_product *product = &rates.product[FORMAT_F16];
    const struct predict_matrix narrow = {.bytes = 1e6, .outputs = 1000, .inputs = 512};
    rates.bandwidth = 2e10;
    *product = (struct predict_product){.is_known = true, .share = 0.5}; // 0.1 ns for each byte
    for (int i = 0; i < PREDICT_POINTS; i++) {
        product->cached[i] = 0.2;
        product->output[i] = 40;
        product->input[i] = 2;
    }
    near("one after the other", predict_product_ns(&rates, FORMAT_F16, 16, &narrow, 1e9),
         1e5 + 2e5 + 4e4 + 1024);
    product->overlap[6] = 0.5; // of 16 rows
    near("half of it", predict_product_ns(&rates, FORMAT_F16, 16, &narrow, 1e9),
         0.5e5 + 2e5 + 4e4 + 1024);
    product->overlap[6] = 1;
    near("both at once", predict_product_ns(&rates, FORMAT_F16, 16, &narrow, 1e9),
         2e5 + 4e4 + 1024);
    product->overlap[0] = 1;
    rates.bandwidth = 2e9; // the longer one is the time
    near("reading alone", predict_product_ns(&rates, FORMAT_F16, 1, &narrow, 1e9), 1e6 + 1024);
    product->overlap[10] = 0.25; // beyond the last point it stays
    near("1024 rows", predict_product_ns(&rates, FORMAT_F16, 1024, &narrow, 1e9),
         1e6 + 4 * 2.4e5 - 0.25 * 4 * 2.4e5 + 4 * 1024);
}

CASE(measured_attention_takes_the_slower_of_bytes_and_operations) {
    struct plan plan;
    static struct predict_rates rates;
    build(&plan, true);
    rates = (struct predict_rates){.bandwidth = 1e9,
                                   .attention = {.fixed_ns = 3,
                                                 .memory = {.seq_ns = 5, .byte_ns = 1},
                                                 .row_ns = 11,
                                                 .flop_ns = 0.001}};
    const struct predict_machine machine = {.rates = &rates};
    const double bytes = 101.0 * HEADS_KV * 2 * DIM * 2, flops = 101.0 * HEADS * 2 * DIM * 2;
    near("bytes", predict(&plan, &machine, 1, 100).ns, bytes + 5 + 3);
    near("of four sequences", predict(&plan, &machine, 4, 100).ns, 4 * (bytes + 5) + 3);
    rates.attention.flop_ns = 1;
    near("operations", predict(&plan, &machine, 1, 100).ns, flops + 5 + 3);
    struct batch_shape prompt = {0};
    struct prediction out;
    batch_shape_add(&plan, &prompt, 0, 20, 1); // 210 pairs
    predict_step(&plan, &kv, &machine, &prompt, &out);
    near("a prompt", out.ns, 210.0 * HEADS * 2 * DIM * 2 + 5 + 19 * 11 + 3);
    near("by kind", out.kind_ns[OP_ATTENTION], out.ns);
    plan_deinit(&plan);
}

TEST_PROGRAM(predict) { return cases_run(NULL, NULL); }

// The cost functions against sums done by hand.
#include "check.h"
#include "plan/cost_rates.h"

enum { EMBD = 64, HEADS = 4, HEADS_KV = 2, DIM = 16, VOCAB = 100 };

static const float inv_freq[DIM / 2];

// Pages of build's group, by the bytes of a token in one layer: keys and values of 2 bytes, of 4.
enum { LAYERS = 3, TOKEN_2 = HEADS_KV * 2 * DIM * 2, TOKEN_4 = HEADS_KV * 2 * DIM * 4 };
static const struct kv_bytes kv_2 = {{LAYERS * KV_PAGE_TOKENS * TOKEN_2}};
static const struct kv_bytes kv_4 = {{LAYERS * KV_PAGE_TOKENS * TOKEN_4}};

static struct op op_of(enum op_kind kind, enum row_domain rows, int in0, int in1, int out,
                       int weight) {
    return (struct op){.kind = kind,
                       .rows = rows,
                       .layer = -1,
                       .in = {in0, in1},
                       .out = out,
                       .weight = weight,
                       .bias = PLAN_NONE};
}

// embed -> k, v by matmul -> append -> gather -> attention -> logits; enough to have every kind of
// byte.
static void build(struct plan *plan, enum kv_kind kind, int window) {
    plan_init(plan);
    plan->n_vocab = VOCAB;
    const int x = plan_add_buffer(plan, "x", EMBD, ROWS_TOKENS);
    const int k = plan_add_buffer(plan, "k", HEADS_KV * DIM, ROWS_TOKENS);
    const int q = plan_add_buffer(plan, "q", HEADS * DIM, ROWS_OUT);
    const int a = plan_add_buffer(plan, "a", HEADS * DIM, ROWS_OUT);
    const int logits = plan_add_buffer(plan, "logits", VOCAB, ROWS_LOGITS);
    const struct plan_weight embd = {
        .name = "e", .format = FORMAT_Q8_0, .rows = VOCAB, .cols = EMBD, .bytes = VOCAB * 68};
    const struct plan_weight wk = {.name = "k",
                                   .format = FORMAT_F16,
                                   .rows = HEADS_KV * DIM,
                                   .cols = EMBD,
                                   .bytes = HEADS_KV * DIM * EMBD * 2};
    const int we = plan_add_weight(plan, &embd), wkv = plan_add_weight(plan, &wk);
    const struct plan_rope rope = {ROPE_HALVES, DIM, inv_freq, 1, 0};
    plan_add_rope(plan, &rope);
    const struct plan_kv_group group = {kind, LAYERS, HEADS_KV, DIM, DIM, window, 0, 0, false};
    const int g = plan_add_kv_group(plan, &group);
    struct op op = op_of(OP_EMBED, ROWS_TOKENS, PLAN_NONE, PLAN_NONE, x, we);
    op.embed.scale = 1;
    plan_add_op(plan, &op);
    op = op_of(OP_MATMUL, ROWS_TOKENS, x, PLAN_NONE, k, wkv);
    op.matmul.scale = 1;
    plan_add_op(plan, &op);
    op = op_of(OP_KV_APPEND, ROWS_TOKENS, k, k, PLAN_NONE, PLAN_NONE);
    op.kv.group = g;
    plan_add_op(plan, &op);
    op = op_of(OP_GATHER, ROWS_OUT, x, PLAN_NONE, q, PLAN_NONE);
    plan_add_op(plan, &op);
    op = op_of(OP_ATTENTION, ROWS_OUT, q, PLAN_NONE, a, PLAN_NONE);
    op.kv.group = g;
    op.kv.n_head = HEADS;
    op.kv.scale = 1;
    plan_add_op(plan, &op);
    op = op_of(OP_MATMUL, ROWS_LOGITS, a, PLAN_NONE, logits, we);
    op.matmul.scale = 1;
    plan_add_op(plan, &op);
    plan->logits = logits;
    assert_int_equal(plan_finish(plan, NULL), RN_OK);
}

CASE(decode_reads_each_weight_once_and_the_whole_context) {
    struct plan plan;
    build(&plan, KV_FULL, 0);
    struct batch_shape shape;
    batch_shape_decode(&plan, 99, &shape);
    const struct cost cost = plan_cost(&plan, &kv_2, &shape);
    assert_int_equal(cost.weight_bytes, 68 /* one row */ + HEADS_KV * DIM * EMBD * 2 + VOCAB * 68);
    assert_int_equal(cost.kv_read_bytes, 100 * TOKEN_2);
    assert_int_equal(cost.kv_write_bytes, TOKEN_2);
    assert_int_equal(cost.flops,
                     2 * HEADS_KV * DIM * EMBD + 2 * VOCAB * EMBD + 100 * HEADS * 2 * DIM * 2);
    plan_deinit(&plan);
}

CASE(windowed_layers_read_their_window_only) {
    struct plan plan;
    build(&plan, KV_WINDOW, 10);
    struct batch_shape shape;
    batch_shape_decode(&plan, 99, &shape);
    assert_int_equal(plan_cost(&plan, &kv_4, &shape).kv_read_bytes, 10 * TOKEN_4);
    batch_shape_decode(&plan, 3, &shape);
    assert_int_equal(plan_cost(&plan, &kv_4, &shape).kv_read_bytes, 4 * TOKEN_4);
    plan_deinit(&plan);
}

CASE(layers_in_chunks_read_the_chunk_only) {
    struct plan plan;
    build(&plan, KV_CHUNK, 10);
    struct batch_shape shape;
    batch_shape_decode(&plan, 99, &shape);
    assert_int_equal(plan_cost(&plan, &kv_4, &shape).kv_read_bytes, 10 * TOKEN_4);
    batch_shape_decode(&plan, 100, &shape);
    assert_int_equal(plan_cost(&plan, &kv_4, &shape).kv_read_bytes, TOKEN_4);
    batch_shape_decode(&plan, 3, &shape);
    assert_int_equal(plan_cost(&plan, &kv_4, &shape).kv_read_bytes, 4 * TOKEN_4);
    // rows of two chunks: the first one reads its own, the pairs do not cross
    shape = (struct batch_shape){0};
    batch_shape_add(&plan, &shape, 17, 5, 0);
    assert_int_equal(shape.kv_read[0][ROWS_TOKENS], 12);
    assert_int_equal(shape.kv_pairs[0][ROWS_TOKENS], 8 + 9 + 10 + 1 + 2);
    plan_deinit(&plan);
}

CASE(a_batch_of_sequences_costs_the_sum_of_their_kv_and_the_weights_once) {
    struct plan plan;
    build(&plan, KV_FULL, 0);
    // a prompt's chunk of 4 at position 8 without logits, and a decode at 20
    struct batch_shape shape = {0};
    batch_shape_add(&plan, &shape, 8, 4, 0);
    batch_shape_add(&plan, &shape, 20, 1, 1);
    assert_int_equal(shape.kv_read[0][ROWS_TOKENS], 12 + 21);
    assert_int_equal(shape.kv_pairs[0][ROWS_TOKENS], 9 + 10 + 11 + 12 + 21);
    assert_int_equal(shape.kv_read[0][ROWS_OUT], 21);
    const struct cost cost = plan_cost(&plan, &kv_2, &shape);
    assert_int_equal(cost.weight_bytes, 5 * 68 + HEADS_KV * DIM * EMBD * 2 + VOCAB * 68);
    assert_int_equal(cost.kv_read_bytes, 21 * TOKEN_2);
    plan_deinit(&plan);
}

CASE(without_logit_rows_their_ops_cost_nothing) {
    struct plan plan;
    build(&plan, KV_FULL, 0);
    struct batch_shape shape;
    batch_shape_decode(&plan, 5, &shape);
    shape.n_out = shape.n_logits = 0;
    const struct cost cost = plan_cost(&plan, &kv_2, &shape);
    assert_int_equal(cost.weight_bytes, 68 + HEADS_KV * DIM * EMBD * 2);
    plan_deinit(&plan);
}

CASE(rows_without_logits_cost_all_but_the_vocabulary) {
    struct plan plan;
    build(&plan, KV_FULL, 0);
    struct batch_shape shape;
    batch_shape_decode(&plan, 5, &shape);
    shape.n_logits = 0;
    const struct cost cost = plan_cost(&plan, &kv_2, &shape);
    assert_int_equal(cost.weight_bytes, 68 + HEADS_KV * DIM * EMBD * 2);
    assert_int_equal(cost.kv_read_bytes, 6 * TOKEN_2);
    plan_deinit(&plan);
}

// ---------------------------------------------------------------- states

static int f32_weight(struct plan *plan, int64_t rows, int64_t cols) {
    const struct plan_weight weight = {.name = "w",
                                       .format = FORMAT_F32,
                                       .rows = rows,
                                       .cols = cols,
                                       .bytes = (uint64_t)(rows * cols) * 4};
    return plan_add_weight(plan, &weight);
}

// A route reads the bias of its choice and the factors of its experts.
CASE(a_route_reads_its_vectors_once) {
    enum { EXPERTS = 8, USED = 2 };
    for (int i = 0; i < 4; i++) {
        struct plan plan;
        build(&plan, KV_FULL, 0);
        const int logits = plan_add_buffer(&plan, "router", EXPERTS, ROWS_TOKENS);
        const int route = plan_add_buffer(&plan, "route", 2 * USED, ROWS_TOKENS);
        struct op op = op_of(OP_ROUTE, ROWS_TOKENS, logits, PLAN_NONE, route, PLAN_NONE);
        op.route.n_used = USED;
        if (i & 1) op.bias = f32_weight(&plan, 1, EXPERTS);
        if (i & 2) op.weight = f32_weight(&plan, 1, EXPERTS);
        plan_add_op(&plan, &op);
        const struct batch_shape shape = {.n_tokens = 5};
        const struct cost cost = op_cost(&plan, &plan.op[plan.n_op - 1], &kv_2, &shape);
        assert_int_equal(cost.weight_bytes, ((i & 1) + (i >> 1)) * EXPERTS * 4);
        assert_int_equal(cost.flops, 5 * EXPERTS * USED);
        plan_deinit(&plan);
    }
}

// Numbers of a layer: inputs of a convolution, and a state of heads. An op has one of the parts.
enum { S_HEADS = 6, S_KEYS = 2, S_DIM_K = 5, S_DIM_V = 7 };
enum { S_IN = S_HEADS * S_DIM_V + 2 * S_KEYS * S_DIM_K, S_OUT = S_HEADS * S_DIM_V };
enum { S_STATE = S_HEADS * S_DIM_K * S_DIM_V, S_EXACT = 109, S_LAYERS = 2 };

// An op on the second layer of a new group. Its buffers are set.
static struct op state_op(struct plan *plan, enum op_kind kind, int in, int out) {
    const struct plan_kv_group group = {.kind = KV_RECURRENT,
                                        .n_layer = S_LAYERS,
                                        .state = S_EXACT + S_STATE,
                                        .exact = S_EXACT};
    struct op op = op_of(kind, ROWS_TOKENS, plan_add_buffer(plan, "in", in, ROWS_TOKENS), PLAN_NONE,
                         plan_add_buffer(plan, "out", out, ROWS_TOKENS), PLAN_NONE);
    op.state.group = plan_add_kv_group(plan, &group);
    op.state.layer = 1;
    op.state.at = kind == OP_CONV ? 3 : S_EXACT;
    return op;
}

static struct op heads_op(struct plan *plan, enum op_kind kind) {
    struct op op = state_op(plan, kind, S_IN, S_OUT);
    op.in[1] = plan_add_buffer(plan, "steps", S_HEADS, ROWS_TOKENS);
    op.weight = f32_weight(plan, 1, S_HEADS);
    op.bias = f32_weight(plan, 1, S_HEADS);
    op.state.n_head = S_HEADS;
    op.state.n_key = S_KEYS;
    op.state.dim_k = S_DIM_K;
    op.state.dim_v = S_DIM_V;
    return op;
}

// Adds the op and gives its cost: 5 rows of 2 sequences. Numbers of heads have that many bytes.
static struct cost state_cost(struct plan *plan, const struct op *op, int number_bytes) {
    plan_add_op(plan, op);
    const int g = op->state.group;
    struct batch_shape shape = {0};
    batch_shape_add(plan, &shape, 8, 4, 1);
    batch_shape_add(plan, &shape, 9, 0, 0);
    batch_shape_add(plan, &shape, 20, 1, 1);
    assert_int_equal(shape.kv_read[g][ROWS_TOKENS], 2);
    assert_int_equal(shape.kv_pairs[g][ROWS_TOKENS], 0);
    assert_int_equal(shape.kv_read[g][ROWS_OUT], 2);
    struct kv_bytes kv = kv_2;
    kv.page[g] = (uint64_t)(S_LAYERS * (S_EXACT * 4 + S_STATE * number_bytes));
    assert_int_equal(plan_kv_token_bytes(plan, &kv), LAYERS * TOKEN_2); // states do not grow
    return op_cost(plan, &plan->op[plan->n_op - 1], &kv, &shape);
}

// The op's own part of the state, once to read and once to write, for each sequence.
CASE(a_convolution_reads_and_writes_its_last_inputs) {
    enum { CHANNELS = 33, TAPS = 4 };
    for (int i = 0; i < 4; i++) {
        const int has_bias = i % 2, number_bytes = i < 2 ? 4 : 2; // of heads: not of its inputs
        struct plan plan;
        build(&plan, KV_FULL, 0);
        struct op op = state_op(&plan, OP_CONV, CHANNELS, CHANNELS);
        op.state.taps = TAPS;
        op.weight = f32_weight(&plan, CHANNELS, TAPS);
        if (has_bias) op.bias = f32_weight(&plan, 1, CHANNELS);
        const struct cost cost = state_cost(&plan, &op, number_bytes);
        assert_int_equal(cost.kv_read_bytes, 2 * 2 * (TAPS - 1) * CHANNELS * 4);
        assert_int_equal(cost.kv_write_bytes, 0); // among those read
        assert_int_equal(cost.weight_bytes, (TAPS + has_bias) * CHANNELS * 4);
        assert_int_equal(cost.act_bytes, 5 * 2 * CHANNELS * 4);
        assert_int_equal(cost.flops, 5 * CHANNELS * (2 * TAPS + 4));
        plan_deinit(&plan);
    }
}

CASE(the_delta_rule_reads_and_writes_the_state_of_its_heads) {
    for (int number_bytes = 2; number_bytes <= 4; number_bytes += 2) {
        struct plan plan;
        build(&plan, KV_FULL, 0);
        struct op op = heads_op(&plan, OP_DELTA);
        op.state.beta = plan_add_buffer(&plan, "beta", S_HEADS, ROWS_TOKENS);
        const struct cost cost = state_cost(&plan, &op, number_bytes);
        assert_int_equal(cost.kv_read_bytes, 2 * 2 * S_STATE * number_bytes);
        assert_int_equal(cost.kv_write_bytes, 0);
        assert_int_equal(cost.weight_bytes, 2 * S_HEADS * 4);
        assert_int_equal(cost.act_bytes, 5 * (S_IN + 2 * S_HEADS + S_OUT) * 4);
        assert_int_equal(cost.flops, 5 * S_STATE * 8);
        plan_deinit(&plan);
    }
}

CASE(a_scan_reads_and_writes_the_state_of_its_heads) {
    for (int number_bytes = 2; number_bytes <= 4; number_bytes += 2) {
        struct plan plan;
        build(&plan, KV_FULL, 0);
        struct op op = heads_op(&plan, OP_SCAN);
        op.state.skip = f32_weight(&plan, 1, S_HEADS);
        const struct cost cost = state_cost(&plan, &op, number_bytes);
        assert_int_equal(cost.kv_read_bytes, 2 * 2 * S_STATE * number_bytes);
        assert_int_equal(cost.kv_write_bytes, 0);
        assert_int_equal(cost.weight_bytes, 3 * S_HEADS * 4);
        assert_int_equal(cost.act_bytes, 5 * (S_IN + S_HEADS + S_OUT) * 4);
        assert_int_equal(cost.flops, 5 * S_STATE * 5);
        plan_deinit(&plan);
    }
}

// ---------------------------------------------------------------- a latent

// Products by head read every matrix, and the heads' parts of the rows. Attention reads a row once,
// for any number of heads.
CASE(a_latent_is_read_once_for_all_heads) {
    enum { N = 4, NOPE = 6, ROT = 2, RANK = 8, KEY = RANK + ROT, CONTEXT = 100 };
    const void *data[N] = {NULL};
    struct plan plan;
    plan_init(&plan);
    const int q = plan_add_buffer(&plan, "q", N * (NOPE + ROT), ROWS_TOKENS);
    const int absorbed = plan_add_buffer(&plan, "absorbed", N * KEY, ROWS_TOKENS);
    const int a = plan_add_buffer(&plan, "a", N * RANK, ROWS_TOKENS);
    const struct plan_weight weight = {.name = "k_b",
                                       .format = FORMAT_F32,
                                       .rows = RANK,
                                       .cols = NOPE,
                                       .bytes = N * RANK * NOPE * 4,
                                       .n_expert = N,
                                       .expert_data = data};
    const struct plan_kv_group group = {KV_FULL, 2, 1, KEY, RANK, 0, 0, 0, true};
    struct kv_bytes kv = {0};
    kv.page[plan_add_kv_group(&plan, &group)] = 2 * KEY * 2 * KV_PAGE_TOKENS;
    struct op op =
        op_of(OP_HEADS, ROWS_TOKENS, q, PLAN_NONE, absorbed, plan_add_weight(&plan, &weight));
    op.heads.n = N;
    op.heads.stride_from = NOPE + ROT;
    op.heads.stride_to = KEY;
    plan_add_op(&plan, &op);
    op = op_of(OP_ATTENTION, ROWS_TOKENS, absorbed, PLAN_NONE, a, PLAN_NONE);
    op.kv.n_head = N;
    plan_add_op(&plan, &op);
    struct batch_shape shape;
    batch_shape_decode(&plan, CONTEXT - 1, &shape);
    shape.n_tokens = 3;
    struct cost cost = op_cost(&plan, &plan.op[0], &kv, &shape);
    assert_int_equal(cost.weight_bytes, N * RANK * NOPE * 4);
    assert_int_equal(cost.act_bytes, 3 * N * (NOPE + RANK) * 4);
    assert_int_equal(cost.flops, 3 * N * RANK * NOPE * 2);
    cost = op_cost(&plan, &plan.op[1], &kv, &shape);
    assert_int_equal(cost.kv_read_bytes, CONTEXT * KEY * 2);
    assert_int_equal(cost.flops, CONTEXT * N * (KEY + RANK) * 2);
    assert_int_equal(plan_kv_token_bytes(&plan, &kv), 2 * KEY * 2);
    plan_deinit(&plan);
}

// ---------------------------------------------------------------- experts

CASE(experts_touched_are_expected_between_those_used_and_all) {
    assert_true(cost_experts_touched(8, 2, 1) == 2);
    assert_true(cost_experts_touched(8, 8, 5) == 8);
    // by hand: 8 (1 - (6/8)^2)
    assert_true(cost_experts_touched(8, 2, 2) == 8 * (1 - 0.5625));
    assert_true(cost_experts_touched(128, 8, 1000000) > 127.999);
}

CASE(experts_cost_what_is_touched) {
    enum { EXPERTS = 8, USED = 2, FF = 32, BYTES = FF * EMBD * 4 };
    const void *data[EXPERTS] = {NULL};
    struct plan plan;
    plan_init(&plan);
    const int x = plan_add_buffer(&plan, "x", EMBD, ROWS_TOKENS);
    const int route = plan_add_buffer(&plan, "route", 2 * USED, ROWS_TOKENS);
    const int up = plan_add_slots(&plan, "up", FF, ROWS_TOKENS, USED);
    const struct plan_weight weight = {.name = "e",
                                       .format = FORMAT_F32,
                                       .rows = FF,
                                       .cols = EMBD,
                                       .bytes = EXPERTS * BYTES,
                                       .n_expert = EXPERTS,
                                       .expert_data = data};
    const struct op op =
        op_of(OP_EXPERTS, ROWS_TOKENS, x, route, up, plan_add_weight(&plan, &weight));
    plan_add_op(&plan, &op);
    struct batch_shape shape = {.n_tokens = 1};
    struct cost cost = op_cost(&plan, &plan.op[0], &kv_2, &shape);
    assert_int_equal(cost.weight_bytes, USED * BYTES);
    assert_int_equal(cost.expert_bytes, USED * BYTES);
    assert_int_equal(cost.flops, USED * FF * EMBD * 2);
    shape.n_tokens = 2;
    cost = op_cost(&plan, &plan.op[0], &kv_2, &shape);
    assert_int_equal(cost.expert_bytes, BYTES * 7 / 2); // 3.5 experts
    plan_deinit(&plan);
}

CASE(a_token_keeps_its_part_of_a_page_of_each_group) {
    struct plan plan;
    build(&plan, KV_FULL, 0);
    assert_int_equal(plan_kv_token_bytes(&plan, &kv_2), LAYERS * TOKEN_2);
    const struct plan_kv_group group = {KV_WINDOW, 2, HEADS_KV, DIM, DIM, 10, 0, 0, false};
    struct kv_bytes kv = kv_4;
    kv.page[plan_add_kv_group(&plan, &group)] = KV_PAGE_TOKENS * 100;
    assert_int_equal(plan_kv_token_bytes(&plan, &kv), LAYERS * TOKEN_4 + 100);
    plan_deinit(&plan);
}

TEST_PROGRAM(cost) { return cases_run(NULL, NULL); }

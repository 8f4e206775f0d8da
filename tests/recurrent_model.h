// A small model of an architecture that exists for tests alone, made in memory. Recurrent layers
// are around a layer with full attention and a layer with a window, so its plan has KV groups of
// all three kinds. Weights are pseudo-random and always the same for a vocabulary size and a
// format.
//
//   layer 0      x += down(scan(conv(in(norm x)), dt(norm x)))
//   layer 1, 2   x += out(attention(q, k, v of norm x)), layer 2 with a window
//   layer 3      x += down(delta(conv(in(norm x)), a(norm x), b(norm x)))
//
// A state has a part of the convolution, which is exact, and behind it a part of the heads. In
// layer 0 neither part is as large as in layer 3. Heads decay, so states are bounded. The last
// layer's product and all later ops work on the out rows. Everything is in the plan's arena:
// recurrent_model_deinit frees all of it.
#ifndef RN_TESTS_RECURRENT_MODEL_H
#define RN_TESTS_RECURRENT_MODEL_H

#include <math.h>
#include <string.h>

#include "model/arch.h"

enum {
    RECURRENT_EMBD = 64,
    RECURRENT_HEADS = 4,
    RECURRENT_HEADS_KV = 2,
    RECURRENT_DIM = 16,
    RECURRENT_WINDOW = 40, // neither a block nor a multiple of one
    RECURRENT_CTX = 4096,
    RECURRENT_LAYERS = 4,
    RECURRENT_EXACT = 104, // numbers of a layer's state: inputs of a convolution
    RECURRENT_STATE = 267, // with those of the heads, and a few that nobody has
};

// A layer with a state, in small and odd numbers.
struct recurrent_shape {
    enum op_kind kind; // behind the convolution
    int n_head, n_key, dim_k, dim_v, taps;
};

static const struct recurrent_shape recurrent_shapes[2] = {
    {.kind = OP_SCAN, .n_head = 3, .n_key = 1, .dim_k = 5, .dim_v = 7, .taps = 4},
    {.kind = OP_DELTA, .n_head = 4, .n_key = 2, .dim_k = 5, .dim_v = 8, .taps = 3},
};

// KV groups, in the plan's order.
enum { RECURRENT_GROUP_FULL, RECURRENT_GROUP_WINDOW, RECURRENT_GROUP_STATE, RECURRENT_GROUPS };

struct recurrent_builder {
    struct plan *plan;
    enum format_id format; // of the matrices
    uint64_t random;
    int layer;
    int n_state; // layers that a page of states has room for, at least 2; two are used
};

// In [-scale, scale).
static inline float recurrent_draw(struct recurrent_builder *b, float scale) {
    b->random = b->random * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(b->random >> 32) * 0x1p-31f * scale;
}

static inline int recurrent_weight(struct recurrent_builder *b, enum format_id format,
                                   const char *name, int64_t rows, int64_t cols, float middle,
                                   float scale) {
    struct plan_weight weight = {.name = name, .format = format, .rows = rows, .cols = cols};
    const size_t row_bytes = (size_t)format_row_bytes(format, cols);
    weight.bytes = (uint64_t)rows * row_bytes;
    uint8_t *data = arena_array(&b->plan->arena, (size_t)rows, row_bytes);
    float *row = arena_array(&b->plan->arena, (size_t)cols, sizeof *row);
    if (!data || !row) {
        b->plan->failed = true;
        return 0;
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < cols; i++) row[i] = middle + recurrent_draw(b, scale);
        format_encode(format, row, data + (size_t)r * row_bytes, cols);
    }
    weight.data = data;
    return plan_add_weight(b->plan, &weight);
}

static inline struct op recurrent_op(const struct recurrent_builder *b, enum op_kind kind, int in,
                                     int out) {
    return (struct op){.kind = kind,
                       .rows = out == PLAN_NONE ? ROWS_TOKENS : b->plan->buffer[out].rows,
                       .layer = b->layer,
                       .in = {in, PLAN_NONE},
                       .out = out,
                       .weight = PLAN_NONE,
                       .bias = PLAN_NONE};
}

static inline void recurrent_norm(struct recurrent_builder *b, int in, int out) {
    if (b->plan->failed) return;
    struct op op = recurrent_op(b, OP_NORM, in, out);
    op.norm.group = b->plan->buffer[in].width;
    op.norm.eps = 1e-5f;
    op.weight = recurrent_weight(b, FORMAT_F32, "norm", 1, op.norm.group, 1, 0.25f);
    if (!b->plan->failed) plan_add_op(b->plan, &op);
}

static inline void recurrent_product(struct recurrent_builder *b, int in, int out, bool add,
                                     float scale, const char *name) {
    if (b->plan->failed) return;
    struct op op = recurrent_op(b, OP_MATMUL, in, out);
    const int rows = b->plan->buffer[out].width, cols = b->plan->buffer[in].width;
    const enum format_id format = cols % format_at(b->format)->block ? FORMAT_F32 : b->format;
    op.weight = recurrent_weight(b, format, name, rows, cols, 0, scale / sqrtf((float)cols));
    op.matmul.add = add;
    op.matmul.scale = 1;
    if (!b->plan->failed) plan_add_op(b->plan, &op);
}

static inline void recurrent_gather(struct recurrent_builder *b, int in, int out) {
    if (b->plan->failed) return;
    const struct op op = recurrent_op(b, OP_GATHER, in, out);
    plan_add_op(b->plan, &op);
}

static inline void recurrent_attention_layer(struct recurrent_builder *b, int x, int h, int group,
                                             int rope) {
    if (b->plan->failed) return;
    const int n_q = RECURRENT_HEADS * RECURRENT_DIM, n_kv = RECURRENT_HEADS_KV * RECURRENT_DIM;
    const int q = plan_add_buffer(b->plan, "q", n_q, ROWS_TOKENS);
    const int k = plan_add_buffer(b->plan, "k", n_kv, ROWS_TOKENS);
    const int v = plan_add_buffer(b->plan, "v", n_kv, ROWS_TOKENS);
    const int a = plan_add_buffer(b->plan, "a", n_q, ROWS_TOKENS);
    recurrent_norm(b, x, h);
    recurrent_product(b, h, q, false, 2, "attn_q");
    recurrent_product(b, h, k, false, 2, "attn_k");
    recurrent_product(b, h, v, false, 2, "attn_v");
    if (b->plan->failed) return;
    for (int i = 0; i < 2; i++) {
        struct op op = recurrent_op(b, OP_ROPE, PLAN_NONE, i ? k : q);
        op.rope.rope = rope;
        op.rope.n_head = i ? RECURRENT_HEADS_KV : RECURRENT_HEADS;
        op.rope.dim = RECURRENT_DIM;
        plan_add_op(b->plan, &op);
    }
    struct op op = recurrent_op(b, OP_KV_APPEND, k, PLAN_NONE);
    op.in[1] = v;
    op.kv.group = group;
    plan_add_op(b->plan, &op);
    op = recurrent_op(b, OP_ATTENTION, q, a);
    op.kv.group = group;
    op.kv.n_head = RECURRENT_HEADS;
    op.kv.scale = 0.25f;
    plan_add_op(b->plan, &op);
    recurrent_product(b, a, x, true, 2, "attn_output");
}

// Numbers of each head: the decay A, the bias of the time step, D.
static inline int recurrent_heads(struct recurrent_builder *b, const struct recurrent_shape *s,
                                  const char *name, float middle, float scale) {
    return recurrent_weight(b, FORMAT_F32, name, 1, s->n_head, middle, scale);
}

// The convolution of `in`; its part of the state begins at `at`.
static inline int recurrent_conv(struct recurrent_builder *b, const struct recurrent_shape *s,
                                 int index, int in, int at) {
    const int width = b->plan->buffer[in].width;
    const int out = plan_add_buffer(b->plan, "conv", width, ROWS_TOKENS);
    struct op op = recurrent_op(b, OP_CONV, in, out);
    op.state.group = RECURRENT_GROUP_STATE;
    op.state.layer = index;
    op.state.at = at;
    op.state.taps = s->taps;
    op.state.silu = true;
    op.weight = recurrent_weight(b, FORMAT_F32, "mix_conv", width, s->taps, 0, 1);
    if (s->kind == OP_SCAN)
        op.bias = recurrent_weight(b, FORMAT_F32, "mix_conv", 1, width, 0, 0.5f);
    if (!b->plan->failed) plan_add_op(b->plan, &op);
    return out;
}

// The heads behind the convolution `in`. h: the rows that time steps and beta are made of.
static inline int recurrent_mix(struct recurrent_builder *b, const struct recurrent_shape *s,
                                int index, int in, int h, int at) {
    const int steps = plan_add_buffer(b->plan, "steps", s->n_head, ROWS_TOKENS);
    const int out = plan_add_buffer(b->plan, "mixed", s->n_head * s->dim_v, ROWS_TOKENS);
    struct op op = recurrent_op(b, s->kind, in, out);
    op.in[1] = steps;
    op.state.group = RECURRENT_GROUP_STATE;
    op.state.layer = index;
    op.state.at = at;
    op.state.n_head = s->n_head;
    op.state.n_key = s->n_key;
    op.state.dim_k = s->dim_k;
    op.state.dim_v = s->dim_v;
    recurrent_product(b, h, steps, false, 2, "mix_steps");
    op.weight = recurrent_heads(b, s, "mix_a", -0.35f, 0.3f);
    op.bias = recurrent_heads(b, s, "mix_dt", -1, 0.5f);
    if (s->kind == OP_DELTA) {
        op.state.beta = plan_add_buffer(b->plan, "beta", s->n_head, ROWS_TOKENS);
        op.state.is_tiled = true;
        op.state.eps = 1e-6f;
        recurrent_product(b, h, op.state.beta, false, 2, "mix_beta");
    } else {
        op.state.skip = recurrent_heads(b, s, "mix_d", 0, 1);
        op.state.dt_max = INFINITY;
    }
    if (!b->plan->failed) plan_add_op(b->plan, &op);
    return out;
}

// x_out: the residual stream that the result goes to: x, or in the last layer that of the out rows.
static inline void recurrent_mix_layer(struct recurrent_builder *b, int x, int h, int index,
                                       int x_out) {
    if (b->plan->failed) return;
    const struct recurrent_shape *s = &recurrent_shapes[index];
    const int width = s->n_head * s->dim_v + 2 * s->n_key * s->dim_k;
    const int in = plan_add_buffer(b->plan, "in", width, ROWS_TOKENS);
    recurrent_norm(b, x, h);
    recurrent_product(b, h, in, false, 2, "mix_in");
    if (b->plan->failed) return;
    const int conv = recurrent_conv(b, s, index, in, RECURRENT_EXACT - (s->taps - 1) * width);
    if (b->plan->failed) return;
    int mixed = recurrent_mix(b, s, index, conv, h, RECURRENT_EXACT);
    if (b->plan->failed) return;
    if (x_out != x) {
        const int all = mixed;
        mixed = plan_add_buffer(b->plan, "mixed_out", b->plan->buffer[all].width, ROWS_OUT);
        recurrent_gather(b, x, x_out);
        recurrent_gather(b, all, mixed);
    }
    recurrent_product(b, mixed, x_out, true, 2, "mix_down");
}

static inline void recurrent_groups(struct plan *plan, int n_state) {
    struct plan_kv_group group = {.kind = KV_FULL,
                                  .n_layer = 1,
                                  .n_head_kv = RECURRENT_HEADS_KV,
                                  .dim_k = RECURRENT_DIM,
                                  .dim_v = RECURRENT_DIM};
    plan_add_kv_group(plan, &group);
    group.kind = KV_WINDOW;
    group.window = RECURRENT_WINDOW;
    plan_add_kv_group(plan, &group);
    group = (struct plan_kv_group){.kind = KV_RECURRENT,
                                   .n_layer = n_state,
                                   .state = RECURRENT_STATE,
                                   .exact = RECURRENT_EXACT};
    plan_add_kv_group(plan, &group);
}

static inline void recurrent_plan(struct recurrent_builder *b) {
    struct plan *plan = b->plan;
    float inv_freq[RECURRENT_DIM / 2];
    for (int i = 0; i < RECURRENT_DIM / 2; i++) inv_freq[i] = 1.0f / (float)(1 << i);
    const struct plan_rope angles = {ROPE_HALVES, RECURRENT_DIM, inv_freq, 1, 0};
    recurrent_groups(plan, b->n_state);
    const int rope = plan_add_rope(plan, &angles);
    const int x = plan_add_buffer(plan, "x", RECURRENT_EMBD, ROWS_TOKENS);
    const int h = plan_add_buffer(plan, "h", RECURRENT_EMBD, ROWS_TOKENS);
    const int x_out = plan_add_buffer(plan, "x_out", RECURRENT_EMBD, ROWS_OUT);
    const int h_out = plan_add_buffer(plan, "h_out", RECURRENT_EMBD, ROWS_OUT);
    const int logits = plan_add_buffer(plan, "logits", plan->n_vocab, ROWS_LOGITS);
    const int embd =
        recurrent_weight(b, b->format, "token_embd", plan->n_vocab, RECURRENT_EMBD, 0, 1);
    if (plan->failed) return;
    struct op op = recurrent_op(b, OP_EMBED, PLAN_NONE, x);
    op.weight = embd;
    op.embed.scale = 1;
    plan_add_op(plan, &op);
    b->layer = 0;
    recurrent_mix_layer(b, x, h, 0, x);
    b->layer = 1;
    recurrent_attention_layer(b, x, h, RECURRENT_GROUP_FULL, rope);
    b->layer = 2;
    recurrent_attention_layer(b, x, h, RECURRENT_GROUP_WINDOW, rope);
    b->layer = 3;
    recurrent_mix_layer(b, x, h, 1, x_out);
    b->layer = -1;
    recurrent_norm(b, x_out, h_out);
    recurrent_product(b, h_out, logits, false, 4, "output");
    plan->logits = logits;
    plan->hidden = h_out;
}

// The facts that the engine asks for; the plan is written without them.
static inline struct hparams recurrent_hparams(int n_vocab) {
    return (struct hparams){.n_layer = RECURRENT_LAYERS,
                            .n_ctx = RECURRENT_CTX,
                            .n_embd = RECURRENT_EMBD,
                            .n_vocab = n_vocab};
}

static inline void recurrent_model_deinit(struct model *model) { plan_deinit(&model->plan); }

// format: of the matrices, F32 or one of blocks of 32. Rows of other lengths are F32. n_state: as
// in struct recurrent_builder. The larger a page of states, the fewer checkpoints there are. After
// an error there is nothing to free.
static inline rn_status recurrent_model_init_large(struct model *model, int n_vocab,
                                                   enum format_id format, int n_state,
                                                   rn_error *err) {
    static const struct arch arch = {.name = "recurrent"};
    memset(model, 0, sizeof *model);
    model->arch = &arch;
    model->hp = recurrent_hparams(n_vocab);
    plan_init(&model->plan);
    model->plan.n_vocab = n_vocab;
    struct recurrent_builder b = {
        .plan = &model->plan, .format = format, .random = 11, .layer = -1, .n_state = n_state};
    recurrent_plan(&b);
    const rn_status status = plan_finish(&model->plan, err);
    if (status) {
        plan_deinit(&model->plan);
        return status;
    }
    for (int i = 0; i < model->plan.n_weight; i++)
        model->n_params += (uint64_t)(model->plan.weight[i].rows * model->plan.weight[i].cols);
    return RN_OK;
}

static inline rn_status recurrent_model_init(struct model *model, int n_vocab,
                                             enum format_id format, rn_error *err) {
    return recurrent_model_init_large(model, n_vocab, format, 2, err);
}

#endif

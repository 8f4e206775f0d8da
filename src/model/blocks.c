// Blocks of layers: attention and feed-forward in their variants, as ops over shared buffers. The
// last layer switches to the out rows behind its KV append: later ops are computed only for rows
// whose result is wanted. Called by the architectures' layer functions.
#include "model/blocks.h"

#include <assert.h>
#include <string.h>

int block_buffer(struct builder *b, const char *name, int width, int slots) {
    const struct plan *plan = b->plan;
    for (int i = 0; i < plan->n_buffer; i++) {
        const struct plan_buffer *have = &plan->buffer[i];
        if (have->width == width && have->slots == slots && have->rows == b->rows &&
            strcmp(have->name, name) == 0)
            return i;
    }
    return plan_add_slots(b->plan, name, width, b->rows, slots);
}

// Queries, and the heads' results.
static int query_buffer(struct builder *b, const struct layer *l) {
    return block_buffer(b, "q", l->n_head * l->dim_k, 1);
}

static int heads_buffer(struct builder *b, const struct layer *l) {
    return block_buffer(b, "a", l->n_head * l->dim_v, 1);
}

// Feed-forward; with experts a slot for each that a token uses.
struct ffn_buffers {
    int gate, up, router, route, expert_out;
};

static struct ffn_buffers ffn_buffers(struct builder *b, const struct layer *l) {
    const int slots = l->n_expert ? l->n_expert_used : 1;
    const int n_ff = l->n_expert ? l->n_ff_expert : l->n_ff;
    struct ffn_buffers t = {.gate = block_buffer(b, "gate", n_ff, slots),
                            .up = block_buffer(b, "up", n_ff, slots)};
    if (l->n_expert) {
        t.router = block_buffer(b, "router", l->n_expert, 1);
        t.route = block_buffer(b, "route", 2 * slots, 1);
        t.expert_out = block_buffer(b, "expert_out", b->model->hp.n_embd, slots);
    }
    return t;
}

void blocks_declare(struct builder *b, const struct layer *l) {
    block_stream(b);
    block_buffer(b, "h", b->model->hp.n_embd, 1);
    if (l->n_head_kv > 0) {
        query_buffer(b, l);
        heads_buffer(b, l);
    }
    if (l->n_expert > 0 || l->n_ff > 0) ffn_buffers(b, l);
}

// --- the residual stream ---

int block_stream(struct builder *b) { return block_buffer(b, "x", b->model->hp.n_embd, 1); }

int block_norm(struct builder *b, enum norm_kind kind, const char *name) {
    const int n_embd = b->model->hp.n_embd, h = block_buffer(b, "h", n_embd, 1);
    build_norm(b, kind, block_stream(b), h, name, n_embd, false);
    return h;
}

void block_add(struct builder *b, int in, const char *name) { block_add_scaled(b, in, name, 1); }

void block_add_scaled(struct builder *b, int in, const char *name, float scale) {
    const float all = b->model->hp.residual_scale * (scale != 0 ? scale : 1);
    build_linear(b, in, block_stream(b), (struct linear){.name = name, .scale = all, .add = true});
}

void block_add_normed(struct builder *b, int in, const char *name, const char *norm) {
    const int n_embd = b->model->hp.n_embd, h = block_buffer(b, "h", n_embd, 1);
    build_linear(b, in, h, (struct linear){.name = name});
    build_norm(b, NORM_RMS, h, block_stream(b), norm, n_embd, true);
}

// --- attention ---

static struct qkv qkv_buffers(struct builder *b, const struct layer *l) {
    return (struct qkv){.q = query_buffer(b, l),
                        .k = block_buffer(b, "k", l->n_head_kv * l->dim_k, 1),
                        .v = block_buffer(b, "v", l->n_head_kv * l->dim_v, 1)};
}

struct qkv block_qkv(struct builder *b, const struct layer *l, int in) {
    const struct qkv t = qkv_buffers(b, l);
    build_linear(b, in, t.q, (struct linear){.name = "attn_q"});
    if (l->kv_back > 0) return t;
    build_linear(b, in, t.k, (struct linear){.name = "attn_k"});
    if (!l->k_is_v) build_linear(b, in, t.v, (struct linear){.name = "attn_v"});
    return t;
}

struct qkv block_qkv_gated(struct builder *b, const struct layer *l, int in, int *gate) {
    const struct qkv t = qkv_buffers(b, l);
    const int n = l->n_head * l->dim_k, dim = l->dim_k;
    const int both = block_buffer(b, "q_gate", 2 * n, 1);
    *gate = block_buffer(b, "attn_gate", n, 1);
    build_linear(b, in, both, (struct linear){.name = "attn_q"});
    build_linear(b, in, t.k, (struct linear){.name = "attn_k"});
    build_linear(b, in, t.v, (struct linear){.name = "attn_v"});
    build_columns(b, both, t.q, l->n_head, dim, 0, 2 * dim, 0, dim);
    build_columns(b, both, *gate, l->n_head, dim, dim, 2 * dim, 0, dim);
    return t;
}

struct qkv block_qkv_fused(struct builder *b, const struct layer *l, int in) {
    const struct qkv t = qkv_buffers(b, l);
    const int64_t n_q = l->n_head * l->dim_k, n_k = l->n_head_kv * l->dim_k;
    const int64_t total = n_q + n_k + l->n_head_kv * l->dim_v;
    struct linear part = {.name = "attn_qkv", .total = total};
    build_linear(b, in, t.q, part);
    part.first = n_q;
    build_linear(b, in, t.k, part);
    part.first = n_q + n_k;
    build_linear(b, in, t.v, part);
    return t;
}

void block_norm_heads(struct builder *b, const struct layer *l, struct qkv qkv) {
    build_norm(b, NORM_RMS, qkv.q, qkv.q, "attn_q_norm", l->dim_k, false);
    if (l->kv_back > 0) return;
    build_norm(b, NORM_RMS, qkv.k, qkv.k, "attn_k_norm", l->dim_k, false);
}

void block_norm_qk(struct builder *b, const struct layer *l, struct qkv qkv) {
    build_norm(b, NORM_RMS, qkv.q, qkv.q, "attn_q_norm", l->n_head * l->dim_k, false);
    build_norm(b, NORM_RMS, qkv.k, qkv.k, "attn_k_norm", l->n_head_kv * l->dim_k, false);
}

void block_rope(struct builder *b, const struct layer *l, struct qkv qkv) {
    if (l->rope == PLAN_NONE) return;
    build_rope(b, qkv.q, b->rope[l->rope], l->n_head, l->dim_k);
    if (l->kv_back > 0) return;
    build_rope(b, qkv.k, b->rope[l->rope], l->n_head_kv, l->dim_k);
}

void block_norm_bare(struct builder *b, const struct layer *l, struct qkv qkv) {
    if (!l->has_bare_norms) return;
    build_norm(b, NORM_RMS, qkv.q, qkv.q, NULL, l->dim_k, false);
    build_norm(b, NORM_RMS, qkv.k, qkv.k, NULL, l->dim_k, false);
}

void block_temper(struct builder *b, const struct layer *l, struct qkv qkv) {
    if (l->temper.length > 0 && l->temper.factor > 0) build_temper(b, qkv.q, &l->temper);
}

// The last layer in which rows meet crosses to the out rows with the residual stream and with the
// buffers that its block works on next. The block continues with *carried and *more. A layer with
// attention and a recurrence crosses in the second of them.
void block_go_over(struct builder *b, int *carried, int *more) {
    if (b->layer != b->last_mixer || --b->mixers > 0 || b->plan->failed) return;
    const int x = block_stream(b);
    b->rows = ROWS_OUT;
    int *const each[] = {carried, more};
    struct plan_buffer from[2];
    int out[2];
    for (int i = 0; i < 2; i++) {
        if (!each[i] || *each[i] == PLAN_NONE) continue;
        from[i] = b->plan->buffer[*each[i]];
        out[i] = block_buffer(b, from[i].name, from[i].width, from[i].slots);
    }
    build_gather(b, x, block_stream(b));
    for (int i = 0; i < 2; i++) {
        if (!each[i] || *each[i] == PLAN_NONE) continue;
        build_gather(b, *each[i], out[i]);
        *each[i] = out[i];
    }
}

// more: a buffer that goes over with the queries; NULL if there is none.
static int attend(struct builder *b, const struct layer *l, struct qkv qkv, int sinks, int *more) {
    const struct kv_place place = b->place[b->layer];
    if (l->kv_back == 0) {
        build_kv_append(b, qkv.k, qkv.v, place);
        block_go_over(b, &qkv.q, more);
    }
    const int a = heads_buffer(b, l);
    build_attention(b, l, qkv.q, a, place, sinks);
    return a;
}

int block_attend(struct builder *b, const struct layer *l, struct qkv qkv, int sinks) {
    return attend(b, l, qkv, sinks, NULL);
}

int block_attend_beside(struct builder *b, const struct layer *l, struct qkv qkv, int *beside) {
    return attend(b, l, qkv, PLAN_NONE, beside);
}

int block_attend_gated(struct builder *b, const struct layer *l, struct qkv qkv, int gate) {
    const int a = attend(b, l, qkv, PLAN_NONE, &gate);
    build_gate(b, GATE_SIGMOID, gate, a, a);
    return a;
}

// --- feed-forward ---

static int gated(struct builder *b, const struct layer *l, int in, enum gate_kind gate,
                 struct linear of_gate, struct linear of_up) {
    const struct ffn_buffers t = ffn_buffers(b, l);
    build_linear(b, in, t.gate, of_gate);
    build_linear(b, in, t.up, of_up);
    build_gate(b, gate, t.gate, t.up, t.gate);
    return t.gate;
}

int block_gated(struct builder *b, const struct layer *l, int in, enum gate_kind gate) {
    return gated(b, l, in, gate, (struct linear){.name = "ffn_gate", .scale = l->gate_scale},
                 (struct linear){.name = "ffn_up"});
}

int block_gated_fused(struct builder *b, const struct layer *l, int in, enum gate_kind gate) {
    const int64_t n_ff = l->n_ff;
    return gated(b, l, in, gate, (struct linear){.name = "ffn_up", .total = 2 * n_ff},
                 (struct linear){.name = "ffn_up", .first = n_ff, .total = 2 * n_ff});
}

int block_plain(struct builder *b, const struct layer *l, int in, enum gate_kind act) {
    const struct ffn_buffers t = ffn_buffers(b, l);
    build_linear(b, in, t.up, (struct linear){.name = "ffn_up"});
    build_gate(b, act, t.up, PLAN_NONE, t.gate);
    return t.gate;
}

int block_plain_xielu(struct builder *b, const struct layer *l, int in,
                      const struct gate_xielu *xielu) {
    const struct ffn_buffers t = ffn_buffers(b, l);
    build_linear(b, in, t.up, (struct linear){.name = "ffn_up"});
    build_xielu(b, xielu, t.up, t.gate);
    return t.gate;
}

void block_shared_expert(struct builder *b, const struct layer *l, int in, enum gate_kind gate,
                         bool is_gated) {
    const int hidden = block_buffer(b, "shared", l->n_ff_shared, 1);
    if (is_gated) {
        const int up = block_buffer(b, "shared_up", l->n_ff_shared, 1);
        build_linear(b, in, hidden, (struct linear){.name = "ffn_gate_shexp"});
        build_linear(b, in, up, (struct linear){.name = "ffn_up_shexp"});
        build_gate(b, gate, hidden, up, hidden);
    } else {
        build_linear(b, in, hidden, (struct linear){.name = "ffn_up_shexp"});
        build_gate(b, gate, hidden, PLAN_NONE, hidden);
    }
    if (l->needs_shared_gate ||
        bind_present(b, "ffn_gate_inp_shexp")) { // before the product, which is linear
        const int factor = block_buffer(b, "shared_gate", 1, 1);
        build_linear(b, in, factor, (struct linear){.name = "ffn_gate_inp_shexp"});
        build_gate(b, GATE_SIGMOID, factor, hidden, hidden);
    }
    block_add(b, hidden, "ffn_down_shexp");
}

// Two matrices, or both in one, the gate's rows first.
static void experts_gated(struct builder *b, const struct layer *l, int in,
                          const struct ffn_buffers *t) {
    struct linear gate = {.name = "ffn_gate_exps"}, up = {.name = "ffn_up_exps"};
    if (bind_present(b, "ffn_gate_up_exps")) {
        const int64_t n_ff = l->n_ff_expert;
        gate = (struct linear){.name = "ffn_gate_up_exps", .total = 2 * n_ff};
        up = (struct linear){.name = "ffn_gate_up_exps", .first = n_ff, .total = 2 * n_ff};
    }
    build_experts(b, l, in, t->route, t->gate, gate);
    build_experts(b, l, in, t->route, t->up, up);
}

void block_router(struct builder *b, const struct layer *l, int in, float scale) {
    const struct ffn_buffers t = ffn_buffers(b, l);
    build_linear(b, in, t.router, (struct linear){.name = "ffn_gate_inp", .scale = scale});
    build_route(b, l, t.router, t.route);
}

// The results of a token's experts, each in its slot.
static struct ffn_buffers slots(struct builder *b, const struct layer *l, int in,
                                enum gate_kind gate, bool is_gated) {
    const struct ffn_buffers t = ffn_buffers(b, l);
    if (is_gated)
        experts_gated(b, l, in, &t);
    else
        build_experts(b, l, in, t.route, t.up, (struct linear){.name = "ffn_up_exps"});
    build_gate(b, gate, is_gated ? t.gate : t.up, is_gated ? t.up : PLAN_NONE, t.gate);
    build_experts(b, l, t.gate, t.route, t.expert_out, (struct linear){.name = "ffn_down_exps"});
    return t;
}

static void experts(struct builder *b, const struct layer *l, int in, enum gate_kind gate,
                    bool is_gated) {
    block_router(b, l, in, 1);
    const struct ffn_buffers t = slots(b, l, in, gate, is_gated);
    build_combine(b, l, t.expert_out, t.route, block_stream(b));
}

int block_experts_sum(struct builder *b, const struct layer *l, int in, enum gate_kind gate) {
    const struct ffn_buffers t = slots(b, l, in, gate, true);
    const int sum = block_buffer(b, "experts", b->model->hp.n_embd, 1);
    build_combine_set(b, l, t.expert_out, t.route, sum);
    return sum;
}

void block_experts(struct builder *b, const struct layer *l, int in, enum gate_kind gate) {
    experts(b, l, in, gate, true);
}

void block_experts_plain(struct builder *b, const struct layer *l, int in, enum gate_kind act) {
    experts(b, l, in, act, false);
}

// --- pieces that several architectures share ---

void block_feed_forward(struct builder *b, const struct layer *l, int in, enum gate_kind gate) {
    if (l->n_expert) {
        block_experts(b, l, in, gate);
    } else {
        block_add(b, block_gated(b, l, in, gate), "ffn_down");
    }
}

void block_feed_forward_shared(struct builder *b, const struct layer *l, int in,
                               enum gate_kind gate) {
    block_feed_forward(b, l, in, gate);
    if (l->n_expert > 0 && l->n_ff_shared > 0) block_shared_expert(b, l, in, gate, true);
}

void layer_llama(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_rope(b, l, qkv);
    block_temper(b, l, qkv);
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    block_feed_forward_shared(b, l, block_norm(b, NORM_RMS, "ffn_norm"), GATE_SILU);
}

void layer_qwen3(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_norm_heads(b, l, qkv);
    block_rope(b, l, qkv);
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    block_feed_forward(b, l, block_norm(b, NORM_RMS, "ffn_norm"), GATE_SILU);
}

void layer_olmoe(struct builder *b, const struct layer *l) {
    const struct qkv qkv = block_qkv(b, l, block_norm(b, NORM_RMS, "attn_norm"));
    block_norm_qk(b, l, qkv);
    block_rope(b, l, qkv);
    block_add(b, block_attend(b, l, qkv, PLAN_NONE), "attn_output");
    block_feed_forward(b, l, block_norm(b, NORM_RMS, "ffn_norm"), GATE_SILU);
}

// The stack of layers that nearly all language models are: attention and feed-forward blocks on a
// residual stream, with norms before or after them. An architecture's row says how it differs
// (struct decoder); hyper-parameters say the rest: windows, soft caps, scales, experts.
//
// Everything behind the last layer's KV append works on the out rows only, and the vocabulary's
// product on those that need logits.
#include "model/arch.h"

// Buffers of a layer: one set for all tokens, one for the out rows, which the last layer alone
// works on.
struct buffers {
    int x, h, q, a; // residual stream, normed, queries, attention's result
    int gate, up;   // feed-forward; with experts a slot for each
    int router, route, expert_out;
};

// A layer's KV group, and which of the group's layers it is.
struct place {
    int group, layer;
};

struct stack {
    struct builder *b;
    const struct decoder *d;
    const struct hparams *hp;
    struct buffers tokens, last;
    int k, v;
    int rope[2]; // without and with a window
    struct place place[MODEL_MAX_LAYER];
};

static struct buffers add_buffers(struct builder *b, enum row_domain rows) {
    const struct hparams *hp = &b->model->hp;
    const int slots = hp->n_expert ? hp->n_expert_used : 1;
    const int n_ff = hp->n_expert ? hp->n_ff_expert : hp->n_ff;
    struct buffers t = {
        .x = plan_add_buffer(b->plan, "x", hp->n_embd, rows),
        .h = plan_add_buffer(b->plan, "h", hp->n_embd, rows),
        .q = plan_add_buffer(b->plan, "q", hp->n_head * hp->dim_k, rows),
        .a = plan_add_buffer(b->plan, "a", hp->n_head * hp->dim_v, rows),
        .gate = plan_add_slots(b->plan, "gate", n_ff, rows, slots),
        .up = plan_add_slots(b->plan, "up", n_ff, rows, slots),
    };
    if (hp->n_expert) {
        t.router = plan_add_buffer(b->plan, "router", hp->n_expert, rows);
        t.route = plan_add_buffer(b->plan, "route", 2 * slots, rows);
        t.expert_out = plan_add_slots(b->plan, "expert_out", hp->n_embd, rows, slots);
    }
    return t;
}

// Layers with a window and those without have page tables of their own.
static void add_groups(struct stack *s) {
    const struct hparams *hp = s->hp;
    for (int local = 0; local < 2; local++) {
        struct plan_kv_group group = {.kind = local ? KV_WINDOW : KV_FULL,
                                      .n_head_kv = hp->n_head_kv,
                                      .dim_k = hp->dim_k,
                                      .dim_v = hp->dim_v,
                                      .window = local ? hp->window : 0};
        for (int i = 0; i < hp->n_layer; i++)
            if (hp->is_local[i] == (bool)local)
                s->place[i] = (struct place){s->b->plan->n_group, group.n_layer++};
        if (group.n_layer) plan_add_kv_group(s->b->plan, &group);
    }
}

static void add_ropes(struct stack *s) {
    bool wanted[2] = {false, false};
    for (int i = 0; i < s->hp->n_layer; i++) wanted[s->hp->is_local[i]] = true;
    for (int local = 0; local < 2; local++)
        s->rope[local] =
            wanted[local] && !s->d->learned_positions ? build_frequencies(s->b, local) : PLAN_NONE;
}

static bool has_rope(const struct stack *s, int layer) {
    const int every = s->hp->rope.skip_every;
    return !s->d->learned_positions && !(every && (layer + 1) % every == 0);
}

static void project(const struct stack *s, int in, int q) {
    struct builder *b = s->b;
    if (!s->d->fused_qkv) {
        build_linear(b, in, q, (struct linear){.name = "attn_q"});
        build_linear(b, in, s->k, (struct linear){.name = "attn_k"});
        build_linear(b, in, s->v, (struct linear){.name = "attn_v"});
        return;
    }
    const int64_t n_q = s->hp->n_head * s->hp->dim_k, n_k = s->hp->n_head_kv * s->hp->dim_k;
    const int64_t total = n_q + n_k + s->hp->n_head_kv * s->hp->dim_v;
    build_linear(b, in, q, (struct linear){.name = "attn_qkv", .total = total});
    build_linear(b, in, s->k, (struct linear){.name = "attn_qkv", .first = n_q, .total = total});
    build_linear(b, in, s->v,
                 (struct linear){.name = "attn_qkv", .first = n_q + n_k, .total = total});
}

// Up to the KV append: needed for every token.
static void build_keys(const struct stack *s) {
    struct builder *b = s->b;
    const struct hparams *hp = s->hp;
    const struct buffers *t = &s->tokens;
    const struct place place = s->place[b->layer];
    if (s->d->attn_norm) build_norm(b, s->d->norm, t->x, t->h, s->d->attn_norm, hp->n_embd, false);
    project(s, s->d->attn_norm ? t->h : t->x, t->q);
    if (s->d->qk_norm != QK_NORM_NONE) {
        const bool head = s->d->qk_norm == QK_NORM_HEAD;
        build_norm(b, NORM_RMS, t->q, t->q, "attn_q_norm",
                   head ? hp->dim_k : hp->n_head * hp->dim_k, false);
        build_norm(b, NORM_RMS, s->k, s->k, "attn_k_norm",
                   head ? hp->dim_k : hp->n_head_kv * hp->dim_k, false);
    }
    if (has_rope(s, b->layer)) {
        const int rope = s->rope[hp->is_local[b->layer]];
        build_rope(b, t->q, rope, hp->n_head, hp->dim_k);
        build_rope(b, s->k, rope, hp->n_head_kv, hp->dim_k);
    }
    build_kv_append(b, s->k, s->v, place.group, place.layer);
}

// A block's last product: onto the residual stream, or into h for the norm behind it.
static void build_out(const struct stack *s, const struct buffers *t, int in, const char *name,
                      const char *post_norm) {
    if (!post_norm) {
        build_linear(s->b, in, t->x,
                     (struct linear){.name = name, .scale = s->hp->residual_scale, .add = true});
        return;
    }
    build_linear(s->b, in, t->h, (struct linear){.name = name});
    build_norm(s->b, s->d->norm, t->h, t->x, post_norm, s->hp->n_embd, true);
}

static void build_attention_block(const struct stack *s, const struct buffers *t) {
    struct builder *b = s->b;
    const struct place place = s->place[b->layer];
    const int sinks = s->d->sinks ? bind_vector(b, "attn_sinks", s->hp->n_head) : PLAN_NONE;
    build_attention(b, t->q, t->a, place.group, place.layer, sinks);
    build_out(s, t, t->a, "attn_output", s->d->attn_post_norm);
}

static void build_dense(const struct stack *s, const struct buffers *t, int in) {
    struct builder *b = s->b;
    const int64_t n_ff = s->hp->n_ff;
    if (s->d->plain_ffn) {
        build_linear(b, in, t->up, (struct linear){.name = "ffn_up"});
        build_gate(b, s->d->gate, t->up, PLAN_NONE, t->gate);
    } else {
        const bool fused = s->d->fused_gate;
        build_linear(b, in, t->gate,
                     fused ? (struct linear){.name = "ffn_up", .total = 2 * n_ff}
                           : (struct linear){.name = "ffn_gate"});
        build_linear(b, in, t->up,
                     fused ? (struct linear){.name = "ffn_up", .first = n_ff, .total = 2 * n_ff}
                           : (struct linear){.name = "ffn_up"});
        build_gate(b, s->d->gate, t->gate, t->up, t->gate);
    }
    build_out(s, t, t->gate, "ffn_down", s->d->ffn_post_norm);
}

static void build_mixture(const struct stack *s, const struct buffers *t, int in) {
    struct builder *b = s->b;
    build_linear(b, in, t->router, (struct linear){.name = "ffn_gate_inp"});
    build_route(b, t->router, t->route);
    build_experts(b, in, t->route, t->gate, "ffn_gate_exps");
    build_experts(b, in, t->route, t->up, "ffn_up_exps");
    build_gate(b, s->d->gate, t->gate, t->up, t->gate);
    build_experts(b, t->gate, t->route, t->expert_out, "ffn_down_exps");
    build_combine(b, t->expert_out, t->route, t->x);
}

static void build_ffn_block(const struct stack *s, const struct buffers *t) {
    if (s->d->ffn_norm)
        build_norm(s->b, s->d->norm, t->x, t->h, s->d->ffn_norm, s->hp->n_embd, false);
    (s->hp->n_expert ? build_mixture : build_dense)(s, t, s->d->ffn_norm ? t->h : t->x);
}

static void build_layers(struct stack *s) {
    struct builder *b = s->b;
    for (b->layer = 0; b->layer < s->hp->n_layer; b->layer++) {
        const bool is_last = b->layer == s->hp->n_layer - 1;
        const struct buffers *t = is_last ? &s->last : &s->tokens;
        build_keys(s);
        if (is_last) {
            build_gather(b, s->tokens.x, s->last.x);
            build_gather(b, s->tokens.q, s->last.q);
        }
        build_attention_block(s, t);
        build_ffn_block(s, t);
    }
    b->layer = -1;
}

// What a file can ask for and the stack cannot do: experts add to the residual stream as they are.
static void refuse_experts(struct builder *b) {
    const struct hparams *hp = &b->model->hp;
    const struct decoder *d = &b->model->arch->decoder;
    if (hp->n_expert == 0 || (!d->ffn_post_norm && hp->residual_scale == 1)) return;
    b->status = err_set(b->err, RN_ERR_UNSUPPORTED,
                        "%s: key %s.expert_count is %d: experts are not supported here",
                        weights_name(b->weights), b->model->arch->name, hp->n_expert);
}

void decoder_build(struct builder *b) {
    const struct decoder *decoder = &b->model->arch->decoder;
    const struct hparams *hp = &b->model->hp;
    struct stack s = {.b = b, .d = decoder, .hp = hp};
    refuse_experts(b);
    if (b->status) return;
    s.tokens = add_buffers(b, ROWS_TOKENS);
    s.last = add_buffers(b, ROWS_OUT);
    s.k = plan_add_buffer(b->plan, "k", hp->n_head_kv * hp->dim_k, ROWS_TOKENS);
    s.v = plan_add_buffer(b->plan, "v", hp->n_head_kv * hp->dim_v, ROWS_TOKENS);
    const int logits = plan_add_buffer(b->plan, "logits", hp->n_vocab, ROWS_LOGITS);
    add_groups(&s);
    add_ropes(&s);
    const int embd = bind_matrix(b, "token_embd", hp->n_vocab, hp->n_embd);
    build_embed(b, s.tokens.x, embd, hp->embd_scale);
    if (decoder->learned_positions) build_positions(b, s.tokens.x, "position_embd");
    build_layers(&s);
    build_norm(b, decoder->norm, s.last.x, s.last.h, "output_norm", hp->n_embd, false);
    const bool tied = !bind_present(b, "output");
    build_head(b, s.last.h, logits, tied ? embd : bind_matrix(b, "output", hp->n_vocab, hp->n_embd),
               hp->logit_scale);
    if (hp->logit_softcap > 0) build_softcap(b, logits, hp->logit_softcap);
    b->plan->logits = logits;
    b->plan->hidden = s.last.h;
}

// Attention: the norms, ropes and appends around it that its stage takes over.
#include "backend/cuda/program.h"

// The ops around an append that attention takes over.
struct heads {
    const struct op *append, *attention, *q_norm, *k_norm, *q_rope, *k_rope;
    int n_before, n_after; // ops before and after the append that are part of it
    int q;                 // buffer of token rows
};

// A norm that attention can take over: RMS of each head, by weights that all heads share.
static bool is_head_norm(const struct plan *plan, const struct op *op, int buffer, int dim) {
    if (op->kind != OP_NORM || op->in[0] != buffer || op->out != buffer || op->norm.add)
        return false;
    return op->norm.kind == NORM_RMS && op->norm.group == dim && op->norm.scale == 0 &&
           !has_weight_per_element(plan, op);
}

// The ops right before `index` that belong to the heads of q and k: ropes, then norms, backwards.
// k: PLAN_NONE where nothing is appended.
static void before_find(const struct plan *plan, int index, int k, int dim, struct heads *h) {
    int i = index - 1;
    for (; i >= 0; i--) {
        const struct op *op = &plan->op[i];
        const bool is_rope = op->kind == OP_ROPE && op->rope.dim == dim && op->rope.from == 0;
        if (is_rope && op->out == k && !h->k_rope && !h->k_norm)
            h->k_rope = op;
        else if (is_rope && op->out == h->q && !h->q_rope && !h->q_norm)
            h->q_rope = op;
        else if (is_head_norm(plan, op, k, dim) && !h->k_norm)
            h->k_norm = op;
        else if (is_head_norm(plan, op, h->q, dim) && !h->q_norm)
            h->q_norm = op;
        else
            break;
    }
    h->n_before = index - 1 - i;
}

// The append at `index` and the attention of the same layer behind it; false: none is there.
static bool heads_find(const struct compiler *c, int index, struct heads *h) {
    const struct plan *plan = c->plan;
    const struct op *append = &plan->op[index];
    const struct plan_kv_group *group = &plan->group[append->kv.group];
    *h = (struct heads){.append = append};
    if (group->is_latent) { // its attention is a stage for itself
        h->n_before = latent_before(c, index);
        return false;
    }
    int at = index + 1, gathered = PLAN_NONE, from = PLAN_NONE;
    for (; at < c->end && plan->op[at].kind == OP_GATHER; at++) {
        gathered = plan->op[at].out; // of several the last is the queries'
        from = plan->op[at].in[0];
    }
    if (at == c->end) return false;
    const struct op *attention = &plan->op[at];
    if (attention->kind != OP_ATTENTION || attention->kv.group != append->kv.group ||
        attention->kv.layer != append->kv.layer)
        return false;
    h->attention = attention;
    h->n_after = at - index;
    h->q = attention->in[0];
    if (attention->rows == ROWS_OUT && gathered == attention->in[0]) h->q = from;
    before_find(plan, index, append->in[0], group->dim_k, h);
    const int q_rope = h->q_rope ? h->q_rope->rope.rope : PLAN_NONE;
    const int k_rope = h->k_rope ? h->k_rope->rope.rope : PLAN_NONE;
    const bool is_same = q_rope == k_rope;
    const bool q_is_tokens = plan->buffer[h->q].rows == ROWS_TOKENS;
    // a norm or rope that would be applied to more than these heads stays a stage of its own
    if (!is_same || !q_is_tokens) {
        h->n_before = 0;
        h->q_norm = h->k_norm = h->q_rope = h->k_rope = NULL;
    }
    return true;
}

// The attention at `index`, whose keys an earlier stage appended: another layer's, or this one's.
static void alone_find(const struct compiler *c, int index, struct heads *h) {
    const struct plan *plan = c->plan;
    const struct op *op = &plan->op[index];
    *h = (struct heads){.attention = op, .q = op->in[0]};
    if (plan->group[op->kv.group].is_latent)
        h->n_before = latent_before(c, index);
    else
        before_find(plan, index, PLAN_NONE, plan->group[op->kv.group].dim_k, h);
}

static struct stage_attention attention_of(const struct compiler *c, const struct heads *h) {
    const struct plan *plan = c->plan;
    const struct op *op = h->attention ? h->attention : h->append;
    const struct plan_kv_group *group = &plan->group[op->kv.group];
    const struct op *rope = h->k_rope ? h->k_rope : h->q_rope;
    struct stage_attention s = {.group = op->kv.group,
                                .n_head_kv = group->n_head_kv,
                                .ratio = op->kv.n_head / group->n_head_kv,
                                .dim_k = group->dim_k,
                                .dim_v = group->dim_v,
                                .window = op_window(plan, op),
                                .is_chunk = group->kind == KV_CHUNK,
                                .scale = op->kv.scale,
                                .softcap = op->kv.softcap,
                                .kv_type = c->b->kv_type,
                                .page_bytes = c->b->kv[op->kv.group].page_bytes};
    s.pages =
        c->b->kv[op->kv.group].at + (uint64_t)op->kv.layer * c->b->kv[op->kv.group].layer_bytes;
    s.is_latent = group->is_latent;
    s.parts_bytes = kv_parts_bytes(group, op->kv.n_head, &c->b->sizes) - ATTENTION_STATES;
    s.parts = (float *)(void *)(c->b->memory + c->b->layout.parts_at);
    s.counters = (uint32_t *)(void *)(c->b->memory + c->b->layout.counters_at);
    if (h->append) {
        s.k = buffer_f32(c, h->append->in[0]);
        s.ld_k = ld_of(c, h->append->in[0]);
    }
    if (h->append && !group->is_latent) {
        s.v = buffer_f32(c, h->append->in[1]);
        s.ld_v = ld_of(c, h->append->in[1]);
    }
    if (h->q_norm) {
        s.q_norm = 1;
        s.q_weight = norm_weight(c, h->q_norm);
        s.q_eps = h->q_norm->norm.eps;
    }
    if (h->k_norm) {
        s.k_norm = 1;
        s.k_weight = norm_weight(c, h->k_norm);
        s.k_eps = h->k_norm->norm.eps;
    }
    if (rope) {
        const struct plan_rope *r = &plan->rope[rope->rope.rope];
        s.n_rot = r->n_rot;
        s.halves = r->style == ROPE_HALVES;
        s.rope =
            (const float *)(const void *)(c->b->memory + c->b->layout.rope_at[rope->rope.rope]);
    }
    return s;
}

static void attention_output(const struct compiler *c, struct stage_attention *s, int index) {
    const struct op *op = &c->plan->op[index];
    int type = 0;
    s->sinks = vector_of(c, op->weight);
    s->ld_out = ld_of(c, op->out);
    if (is_written_as_16(c, index, &type))
        s->out16 = rows16_of(c, op->out, type);
    else
        s->out = buffer_f32(c, op->out);
}

// Fused where a sequence's rows are few; otherwise an append, then attention.
static int head_ops_add(struct compiler *c, int index, const struct heads *h) {
    const int at = (int)(h->attention - c->plan->op);
    struct stage_attention s = attention_of(c, h);
    const bool is_out = h->attention->rows == ROWS_OUT;
    const bool q_of_tokens = c->plan->buffer[h->q].rows == ROWS_TOKENS;
    for (int i = index + 1; i < at; i++) {
        const struct op *gather = &c->plan->op[i];
        const bool is_query = is_out && q_of_tokens && gather->out == h->attention->in[0];
        if (!is_query) gather_add(c, gather, gather->out == h->q);
    }
    s.q = buffer_f32(c, h->q);
    s.ld_q = ld_of(c, h->q);
    s.q_is_out = is_out && !q_of_tokens;
    attention_output(c, &s, at);
    if (c->is_small && !s.q_is_out) {
        s.fused = 1;
    } else {
        struct stage *append = stage_add(c, STAGE_APPEND, h->append, "append");
        append->attention = s;
    }
    struct stage *stage = stage_add(c, STAGE_ATTENTION, h->attention, "attention");
    stage->attention = s;
    if (s.fused) stage->flags |= STAGE_APPENDS;
    return h->n_after + 1;
}

void attention_add(struct compiler *c, int index) {
    const struct op *op = &c->plan->op[index];
    struct heads h;
    alone_find(c, index, &h);
    struct stage *s = stage_add(c, STAGE_ATTENTION, op, "attention");
    s->attention = attention_of(c, &h);
    s->attention.q = buffer_f32(c, op->in[0]);
    s->attention.ld_q = ld_of(c, op->in[0]);
    s->attention.q_is_out = op->rows == ROWS_OUT;
    s->attention.is_alone = c->is_small;
    attention_output(c, &s->attention, index);
    if (s->attention.is_latent) latent_set(c, index, &s->attention);
}

int append_add(struct compiler *c, int index) {
    const struct op *op = &c->plan->op[index];
    struct heads h;
    if (heads_find(c, index, &h)) return head_ops_add(c, index, &h);
    h = (struct heads){.append = op};
    struct stage *s = stage_add(c, STAGE_APPEND, op, "append");
    s->attention = attention_of(c, &h);
    if (s->attention.is_latent) latent_set(c, index, &s->attention);
    return 1;
}

void attention_takes(const struct compiler *c, int index, int *n_before, int *n_after) {
    struct heads h;
    if (c->plan->op[index].kind == OP_ATTENTION)
        alone_find(c, index, &h);
    else
        heads_find(c, index, &h);
    *n_before = h.n_before;
    *n_after = h.n_after;
}

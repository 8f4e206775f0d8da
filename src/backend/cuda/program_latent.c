// Attention over latents takes over the ops that make its rows. A position's row is a normed latent
// and a rotated part, which the append puts together. A query is the product of its head, beside
// which a part of the queries is copied and rotated.
#include "backend/cuda/program.h"

// Whether every op that reads the buffer as an input, or in place, is of one of both kinds.
static bool only_read_by(const struct compiler *c, int buffer, enum op_kind a, enum op_kind b) {
    const struct plan *plan = c->plan;
    if (buffer == plan->hidden || buffer == plan->logits) return false;
    for (int i = 0; i < plan->n_op_all; i++) {
        const struct op *op = &plan->op[i];
        const bool reads = op->in[0] == buffer || op->in[1] == buffer ||
                           (op->kind == OP_ROPE && op->out == buffer);
        if (reads && op->kind != a && op->kind != b) return false;
    }
    return true;
}

// The ops right before an append: norm of the latent, rope of the other part, and two copies.
static bool keys_are_here(const struct compiler *c, int index) {
    const struct plan *plan = c->plan;
    if (index - 4 < c->first) return false;
    const struct op *append = &plan->op[index], *norm = append - 4, *rope = append - 3;
    const struct op *first = append - 2, *second = append - 1;
    if (norm->kind != OP_NORM || rope->kind != OP_ROPE || first->kind != OP_COLUMNS ||
        second->kind != OP_COLUMNS)
        return false;
    const int latent = norm->out, other = rope->out, k = append->in[0];
    const int n = plan->buffer[latent].width, rest = plan->buffer[other].width;
    if (norm->in[0] != latent || norm->norm.add || norm->norm.kind != NORM_RMS ||
        norm->norm.group != n || norm->norm.scale != 0 || norm->weight == PLAN_NONE)
        return false;
    if (rope->rope.n_head != 1 || rope->rope.dim != rest || rope->rope.from != 0) return false;
    if (first->in[0] != latent || first->out != k || first->columns.n != 1 ||
        first->columns.len != n || first->columns.from != 0 || first->columns.to != 0)
        return false;
    if (second->in[0] != other || second->out != k || second->columns.n != 1 ||
        second->columns.len != rest || second->columns.from != 0 || second->columns.to != n)
        return false;
    if (plan->group[append->kv.group].n_head_kv != 1 || plan->buffer[k].width != n + rest)
        return false;
    return only_read_by(c, latent, OP_NORM, OP_COLUMNS) &&
           only_read_by(c, other, OP_ROPE, OP_COLUMNS) &&
           only_read_by(c, k, OP_KV_APPEND, OP_KV_APPEND);
}

// The ops right before an attention: a copy of each head's other part, and its rope.
static bool query_is_here(const struct compiler *c, int index) {
    const struct plan *plan = c->plan;
    if (index - 2 < c->first) return false;
    const struct op *attention = &plan->op[index], *columns = attention - 2, *rope = attention - 1;
    const int dim = plan->group[attention->kv.group].dim_k, q = attention->in[0];
    if (columns->kind != OP_COLUMNS || rope->kind != OP_ROPE || columns->out != q || rope->out != q)
        return false;
    if (columns->columns.n != attention->kv.n_head || columns->columns.stride_to != dim ||
        columns->columns.to + columns->columns.len != dim)
        return false;
    if (rope->rope.dim != dim || rope->rope.from != columns->columns.to ||
        rope->rope.n_head != attention->kv.n_head)
        return false;
    return only_read_by(c, q, OP_ATTENTION, OP_ROPE);
}

int latent_before(const struct compiler *c, int index) {
    const struct op *op = &c->plan->op[index];
    if (op->kind == OP_KV_APPEND) return keys_are_here(c, index) ? 4 : 0;
    return query_is_here(c, index) ? 2 : 0;
}

static void rope_set(const struct compiler *c, const struct op *rope, struct stage_attention *s) {
    const struct plan_rope *r = &c->plan->rope[rope->rope.rope];
    s->n_rot = r->n_rot;
    s->halves = r->style == ROPE_HALVES;
    s->rope = (const float *)(const void *)(c->b->memory + c->b->layout.rope_at[rope->rope.rope]);
}

void latent_set(const struct compiler *c, int index, struct stage_attention *s) {
    const struct op *op = &c->plan->op[index];
    s->joined_at = s->dim_k;
    if (latent_before(c, index) == 0) return;
    if (op->kind == OP_ATTENTION) {
        const struct op *columns = op - 2;
        s->joined = buffer_f32(c, columns->in[0]) + columns->columns.from;
        s->ld_joined = ld_of(c, columns->in[0]);
        s->joined_step = columns->columns.stride_from;
        s->joined_at = columns->columns.to;
        rope_set(c, op - 1, s);
        return;
    }
    const struct op *norm = op - 4, *rope = op - 3;
    s->k = buffer_f32(c, norm->out);
    s->ld_k = ld_of(c, norm->out);
    s->k_norm = 1;
    s->k_weight = vector_of(c, norm->weight);
    s->k_eps = norm->norm.eps;
    s->joined = buffer_f32(c, rope->out);
    s->ld_joined = ld_of(c, rope->out);
    s->joined_at = c->plan->buffer[norm->out].width;
    rope_set(c, rope, s);
}

// Helpers of the architectures' files: weights bound by name with their shapes checked, and ops
// added to the plan.
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "model/arch.h"

enum { NAME_MAX_BYTES = 128 };

static void tensor_name(const struct builder *b, const char *pattern, char *out) {
    // patterns are literals of the architectures' files, with at most one %d
    const char *hole = strstr(pattern, "%d");
    if (!hole) {
        snprintf(out, NAME_MAX_BYTES, "%s", pattern);
        return;
    }
    snprintf(out, NAME_MAX_BYTES, "%.*s%d%s", (int)(hole - pattern), pattern, b->layer, hole + 2);
}

bool bind_present(const struct builder *b, const char *pattern) {
    char name[NAME_MAX_BYTES];
    tensor_name(b, pattern, name);
    return weights_tensor_find(b->weights, name) != NULL;
}

static void fail_shape(struct builder *b, const struct tensor_view *tensor, int64_t rows,
                       int64_t cols) {
    char have[96], want[64];
    int at = 0;
    for (int d = 0; d < tensor->n_dims; d++)
        at += snprintf(have + at, sizeof have - (size_t)at, d ? ", %lld" : "%lld",
                       (long long)tensor->dim[d]);
    if (rows == 1)
        snprintf(want, sizeof want, "%lld", (long long)cols);
    else
        snprintf(want, sizeof want, "%lld, %lld", (long long)cols, (long long)rows);
    b->status =
        err_set(b->err, RN_ERR_MODEL, "%s: tensor %s at offset %llu: shape is [%s], expected [%s]",
                weights_name(b->weights), tensor->name, (unsigned long long)tensor->offset, have,
                want);
}

static int bind(struct builder *b, const char *pattern, int64_t rows, int64_t cols) {
    if (b->status) return PLAN_NONE;
    char name[NAME_MAX_BYTES];
    tensor_name(b, pattern, name);
    const struct tensor_view *tensor = weights_tensor_find(b->weights, name);
    if (!tensor) {
        b->status = err_set(b->err, RN_ERR_MODEL, "%s: tensor %s is missing",
                            weights_name(b->weights), name);
        return PLAN_NONE;
    }
    if (tensor->dim[0] != cols || tensor->dim[1] != rows || tensor->dim[2] != 1 ||
        tensor->dim[3] != 1) {
        fail_shape(b, tensor, rows, cols);
        return PLAN_NONE;
    }
    const struct plan_weight weight = {.name = tensor->name,
                                       .format = tensor->format,
                                       .rows = rows,
                                       .cols = cols,
                                       .data = tensor->data,
                                       .bytes = tensor->bytes};
    return plan_add_weight(b->plan, &weight);
}

int bind_matrix(struct builder *b, const char *pattern, int64_t rows, int64_t cols) {
    return bind(b, pattern, rows, cols);
}

int bind_vector(struct builder *b, const char *pattern, int64_t n) {
    const int weight = bind(b, pattern, 1, n);
    if (b->status || b->plan->failed) return PLAN_NONE;
    const struct plan_weight *bound = &b->plan->weight[weight];
    if (format_at(bound->format)->span != 0) {
        b->status =
            err_set(b->err, RN_ERR_MODEL, "%s: tensor %s: format is %s, expected a float format",
                    weights_name(b->weights), bound->name, format_at(bound->format)->name);
        return PLAN_NONE;
    }
    return weight;
}

int bind_optional_vector(struct builder *b, const char *pattern, int64_t n) {
    return bind_present(b, pattern) ? bind_vector(b, pattern, n) : PLAN_NONE;
}

static struct op new_op(const struct builder *b, enum op_kind kind, int out) {
    return (struct op){.kind = kind,
                       .rows = out == PLAN_NONE ? ROWS_TOKENS : b->plan->buffer[out].rows,
                       .layer = b->layer,
                       .in = {PLAN_NONE, PLAN_NONE},
                       .out = out,
                       .weight = PLAN_NONE,
                       .bias = PLAN_NONE};
}

static bool stopped(const struct builder *b) { return b->status || b->plan->failed; }

void build_embed(struct builder *b, int out, int weight, float scale) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_EMBED, out);
    op.weight = weight;
    op.embed.scale = scale;
    plan_add_op(b->plan, &op);
}

void build_gather(struct builder *b, int in, int out) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_GATHER, out);
    op.in[0] = in;
    plan_add_op(b->plan, &op);
}

void build_norm(struct builder *b, int in, int out, int weight, int group) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_NORM, out);
    op.in[0] = in;
    op.weight = weight;
    op.norm.kind = NORM_RMS;
    op.norm.group = group;
    op.norm.eps = b->model->hp.norm_eps;
    plan_add_op(b->plan, &op);
}

void build_matmul(struct builder *b, int in, int out, int weight, int bias, bool add) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_MATMUL, out);
    op.in[0] = in;
    op.weight = weight;
    op.bias = bias;
    op.matmul.add = add;
    op.matmul.scale = 1;
    plan_add_op(b->plan, &op);
}

void build_rope(struct builder *b, int buffer, int rope, int n_head, int dim) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_ROPE, buffer);
    op.rope.rope = rope;
    op.rope.n_head = n_head;
    op.rope.dim = dim;
    plan_add_op(b->plan, &op);
}

void build_kv_append(struct builder *b, int k, int v, int group, int layer) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_KV_APPEND, PLAN_NONE);
    op.in[0] = k;
    op.in[1] = v;
    op.kv.group = group;
    op.kv.layer = layer;
    plan_add_op(b->plan, &op);
}

void build_attention(struct builder *b, int q, int out, int group, int layer, int n_head,
                     float scale) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_ATTENTION, out);
    op.in[0] = q;
    op.kv.group = group;
    op.kv.layer = layer;
    op.kv.n_head = n_head;
    op.kv.scale = scale;
    plan_add_op(b->plan, &op);
}

void build_gate(struct builder *b, enum gate_kind kind, int gate, int up, int out) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_GATE, out);
    op.in[0] = gate;
    op.in[1] = up;
    op.gate = kind;
    plan_add_op(b->plan, &op);
}

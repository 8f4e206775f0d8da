// Helpers of the architectures' files: weights bound by name with their shapes checked, and ops
// added to the plan.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/arch.h"

enum { NAME_MAX_BYTES = 128 };

// "blk.3.attn_q.weight" in a layer, "output.weight" outside.
static void tensor_name(const struct builder *b, const char *name, const char *kind, char *out) {
    char block[24] = "";
    const char *dot = *kind ? "." : ""; // some names of recurrent layers end without a kind
    if (b->layer >= 0) snprintf(block, sizeof block, "blk.%d.", b->layer);
    snprintf(out, NAME_MAX_BYTES, "%s%.80s%s%.20s", block, name, dot, kind);
}

static const struct tensor_view *tensor_find(const struct builder *b, const char *name,
                                             const char *kind) {
    char full[NAME_MAX_BYTES];
    tensor_name(b, name, kind, full);
    return b->describe ? weights_describe_find(b->weights, full)
                       : weights_tensor_find(b->weights, full);
}

bool bind_present(const struct builder *b, const char *name) {
    return tensor_find(b, name, "weight") != NULL;
}

static void fail_shape(struct builder *b, const struct tensor_view *tensor, const int64_t want[3]) {
    char have[96], wanted[96];
    int at = 0, n = want[2] != 1 ? 3 : want[1] != 1 ? 2 : 1;
    for (int d = 0; d < tensor->n_dims; d++)
        at += snprintf(have + at, sizeof have - (size_t)at, d ? ", %lld" : "%lld",
                       (long long)tensor->dim[d]);
    at = 0;
    for (int d = 0; d < n; d++)
        at += snprintf(wanted + at, sizeof wanted - (size_t)at, d ? ", %lld" : "%lld",
                       (long long)want[d]);
    char place[160] = ""; // none where the tensor was computed at open
    if (tensor->offset)
        at = snprintf(place, sizeof place, " at offset %llu", (unsigned long long)tensor->offset);
    if (tensor->offset && weights_file_count(b->weights) > 1)
        snprintf(place + at, sizeof place - (size_t)at, " of %.100s",
                 weights_file_at(b->weights, tensor->file));
    b->status = err_set(b->err, RN_ERR_MODEL, "%s: tensor %s%s: shape is [%s], expected [%s]",
                        weights_name(b->weights), tensor->name, place, have, wanted);
}

static const struct tensor_view *tensor_describe(struct builder *b, const char *name,
                                                 const char *kind, int64_t cols, int64_t rows,
                                                 int64_t experts) {
    char full[NAME_MAX_BYTES];
    tensor_name(b, name, kind, full);
    const struct tensor_view *tensor = weights_describe_add(b->describe, full, cols, rows, experts);
    if (!tensor)
        b->status =
            err_set(b->err, RN_ERR_NOMEM, "%s: no memory for tensors", weights_name(b->weights));
    return tensor;
}

// The tensor of that name and shape; NULL after an error.
static const struct tensor_view *tensor_bind(struct builder *b, const char *name, const char *kind,
                                             int64_t cols, int64_t rows, int64_t experts) {
    if (b->status) return NULL;
    if (b->describe) return tensor_describe(b, name, kind, cols, rows, experts);
    const struct tensor_view *tensor = tensor_find(b, name, kind);
    if (!tensor) {
        char full[NAME_MAX_BYTES];
        tensor_name(b, name, kind, full);
        b->status = err_set(b->err, RN_ERR_MODEL, "%s: tensor %s is missing",
                            weights_name(b->weights), full);
        return NULL;
    }
    const int64_t want[3] = {cols, rows, experts};
    if (memcmp(tensor->dim, want, sizeof want) != 0 || tensor->dim[3] != 1) {
        fail_shape(b, tensor, want);
        return NULL;
    }
    b->used[tensor - weights_tensor_at(b->weights, 0)] = true;
    return tensor;
}

static struct plan_weight weight_of(const struct tensor_view *tensor, int64_t rows, int64_t cols) {
    return (struct plan_weight){.name = tensor->name,
                                .format = tensor->format,
                                .rows = rows,
                                .cols = cols,
                                .data = tensor->data,
                                .bytes = tensor->bytes,
                                .is_fetched = tensor->codes != CODES_NONE};
}

// Rows [first, first + n) of a matrix of `total`.
static int bind_rows(struct builder *b, const char *name, int64_t total, int64_t first, int64_t n,
                     int64_t cols) {
    const struct tensor_view *tensor = tensor_bind(b, name, "weight", cols, total, 1);
    if (!tensor) return PLAN_NONE;
    struct plan_weight weight = weight_of(tensor, n, cols);
    const uint64_t row_bytes = tensor->bytes / (uint64_t)total;
    weight.data = (const uint8_t *)tensor->data + (uint64_t)first * row_bytes;
    weight.bytes = (uint64_t)n * row_bytes;
    return plan_add_weight(b->plan, &weight);
}

int bind_matrix(struct builder *b, const char *name, int64_t rows, int64_t cols) {
    return bind_rows(b, name, rows, 0, rows, cols);
}

int bind_table(struct builder *b, const char *name, int64_t rows, int64_t cols) {
    const int table = bind_matrix(b, name, rows, cols);
    if (!b->status && !b->plan->failed) b->plan->weight[table].is_cold = true;
    return table;
}

void bind_ignore(struct builder *b, const char *name) {
    const struct tensor_view *tensor = b->describe ? NULL : tensor_find(b, name, "weight");
    if (tensor) b->used[tensor - weights_tensor_at(b->weights, 0)] = true;
}

// n values from `first` on of a vector, or of a matrix [rows, n] with first = 0; a float format.
static int bind_floats(struct builder *b, const char *name, const char *kind, int64_t total,
                       int64_t first, int64_t n, int64_t rows) {
    const struct tensor_view *tensor = tensor_bind(b, name, kind, total, rows, 1);
    if (!tensor) return PLAN_NONE;
    const struct format *format = format_at(tensor->format);
    if (format->span != 0) {
        b->status =
            err_set(b->err, RN_ERR_MODEL, "%s: tensor %s: format is %s, expected a float format",
                    weights_name(b->weights), tensor->name, format->name);
        return PLAN_NONE;
    }
    if (tensor->codes != CODES_NONE) {
        b->status =
            err_set(b->err, RN_ERR_UNSUPPORTED,
                    "%s: tensor %s: quantized tensors of a folder are supported in products alone",
                    weights_name(b->weights), tensor->name);
        return PLAN_NONE;
    }
    struct plan_weight weight = weight_of(tensor, rows, n);
    weight.data = (const uint8_t *)tensor->data + first * format->block_bytes;
    weight.bytes = (uint64_t)(n * rows * format->block_bytes);
    return plan_add_weight(b->plan, &weight);
}

int bind_vector(struct builder *b, const char *name, int64_t n) {
    return bind_floats(b, name, "weight", n, 0, n, 1);
}

bool bind_values(struct builder *b, const char *name, float *out, int64_t n) {
    if (b->status || !bind_present(b, name)) return false;
    const int weight = bind_vector(b, name, n);
    if (b->status || b->plan->failed) return false;
    const struct plan_weight *of = &b->plan->weight[weight];
    const void *at = NULL;
    uint8_t *room = malloc(of->bytes);
    if (!room) b->status = err_set(b->err, RN_ERR_NOMEM, "no memory for %s", of->name);
    if (!b->status) b->status = weights_read(b->weights, of->data, of->bytes, room, &at, b->err);
    if (at) format_decode(of->format, at, out, n);
    free(room);
    return !b->status;
}

// "ffn_gate.3" of "ffn_gate_exps": a tensor for each expert, as the first Mixtral files have.
static void separate_name(const char *name, int expert, char *out) {
    const int stem = (int)(strlen(name) - strlen("_exps"));
    snprintf(out, NAME_MAX_BYTES, "%.*s.%d", stem, name, expert);
}

static void bind_separate(struct builder *b, const char *name, const void **data,
                          struct plan_weight *weight) {
    weight->bytes = 0;
    for (int e = 0; e < weight->n_expert; e++) {
        char own[NAME_MAX_BYTES];
        separate_name(name, e, own);
        const struct tensor_view *tensor =
            tensor_bind(b, own, "weight", weight->cols, weight->rows, 1);
        if (!tensor) return;
        if (e == 0) {
            weight->name = tensor->name;
            weight->format = tensor->format;
        }
        if (tensor->format != weight->format) {
            b->status = err_set(b->err, RN_ERR_UNSUPPORTED,
                                "%s: tensor %s: format is %s, expected %s as of expert 0",
                                weights_name(b->weights), tensor->name,
                                format_at(tensor->format)->name, format_at(weight->format)->name);
            return;
        }
        data[e] = tensor->data;
        weight->bytes += tensor->bytes;
    }
}

// Of each expert's `total` rows those from `first` on.
static void bind_stacked(struct builder *b, const char *name, int64_t first, int64_t total,
                         const void **data, struct plan_weight *weight) {
    const int n = weight->n_expert;
    const struct tensor_view *tensor = tensor_bind(b, name, "weight", weight->cols, total, n);
    if (!tensor) return;
    const uint64_t bytes = tensor->bytes / (uint64_t)n, row_bytes = bytes / (uint64_t)total;
    for (int e = 0; e < n; e++) {
        const uint8_t *whole =
            tensor->parts ? tensor->parts[e] : (const uint8_t *)tensor->data + (uint64_t)e * bytes;
        data[e] = whole + (uint64_t)first * row_bytes;
    }
    weight->name = tensor->name;
    weight->format = tensor->format;
    weight->is_fetched = tensor->codes != CODES_NONE;
    weight->bytes = (uint64_t)n * (uint64_t)weight->rows * row_bytes;
}

// n matrices of one tensor, or where has_parts of a tensor each.
static int bind_stack(struct builder *b, struct linear linear, int n, int64_t rows, int64_t cols,
                      bool has_parts) {
    const void **data = arena_array(&b->plan->arena, (size_t)n, sizeof *data);
    if (!data) {
        b->plan->failed = true;
        return PLAN_NONE;
    }
    struct plan_weight weight = {.rows = rows, .cols = cols, .n_expert = n, .expert_data = data};
    if (has_parts)
        bind_separate(b, linear.name, data, &weight);
    else
        bind_stacked(b, linear.name, linear.first, linear.total ? linear.total : rows, data,
                     &weight);
    return b->status ? PLAN_NONE : plan_add_weight(b->plan, &weight);
}

static int bind_experts(struct builder *b, struct linear linear, int n, int64_t rows,
                        int64_t cols) {
    char first[NAME_MAX_BYTES];
    separate_name(linear.name, 0, first);
    return bind_stack(b, linear, n, rows, cols, bind_present(b, first));
}

static struct op new_op(const struct builder *b, enum op_kind kind, int in, int out) {
    return (struct op){.kind = kind,
                       .rows = out == PLAN_NONE ? ROWS_TOKENS : b->plan->buffer[out].rows,
                       .layer = b->layer,
                       .in = {in, PLAN_NONE},
                       .out = out,
                       .weight = PLAN_NONE,
                       .bias = PLAN_NONE};
}

static bool stopped(const struct builder *b) { return b->status || b->plan->failed; }

static void op_add(struct builder *b, const struct op *op) {
    if (!stopped(b)) plan_add_op(b->plan, op);
}

static int width_of(const struct builder *b, int buffer) {
    return stopped(b) ? 0 : b->plan->buffer[buffer].width;
}

void build_input(struct builder *b, int out) {
    if (stopped(b)) return;
    const struct op op = new_op(b, OP_INPUT, PLAN_NONE, out);
    op_add(b, &op);
}

// Rows that are looked up are read in place.
static bool can_embed(struct builder *b, int weight) {
    if (stopped(b)) return false;
    if (b->plan->weight[weight].is_fetched)
        b->status =
            err_set(b->err, RN_ERR_UNSUPPORTED,
                    "%s: tensor %s: quantized tensors of a folder are supported in products alone",
                    weights_name(b->weights), b->plan->weight[weight].name);
    return !b->status;
}

void build_embed(struct builder *b, int out, int weight, float scale) {
    if (!can_embed(b, weight)) return;
    struct op op = new_op(b, OP_EMBED, PLAN_NONE, out);
    op.weight = weight;
    op.embed.scale = scale;
    op_add(b, &op);
}

void build_embed_add(struct builder *b, int out, int weight, float scale) {
    if (!can_embed(b, weight)) return;
    struct op op = new_op(b, OP_EMBED, PLAN_NONE, out);
    op.weight = weight;
    op.embed.scale = scale;
    op.embed.add = true;
    op_add(b, &op);
}

void build_positions(struct builder *b, int out, const char *name) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_EMBED, PLAN_NONE, out);
    op.weight = bind_matrix(b, name, b->model->hp.n_ctx, width_of(b, out));
    if (!can_embed(b, op.weight)) return;
    op.embed.scale = 1;
    op.embed.positions = op.embed.add = true;
    op_add(b, &op);
}

void build_gather(struct builder *b, int in, int out) {
    if (stopped(b)) return;
    const struct op op = new_op(b, OP_GATHER, in, out);
    op_add(b, &op);
}

static void norm_add(struct builder *b, enum norm_kind kind, int in, int out, int weight, int bias,
                     int group, bool add, float scale) {
    struct op op = new_op(b, OP_NORM, in, out);
    op.weight = weight;
    op.bias = bias;
    op.norm.kind = kind;
    op.norm.group = group;
    op.norm.eps = b->model->hp.norm_eps;
    op.norm.add = add;
    op.norm.scale = scale;
    op_add(b, &op);
}

void build_norm_sum(struct builder *b, int in, int out, const char *name, float scale) {
    if (stopped(b)) return;
    const int n = width_of(b, out), weight = bind_vector(b, name, n);
    norm_add(b, NORM_RMS, in, out, weight, PLAN_NONE, n, true, scale == 1 ? 0 : scale);
}

void build_norm(struct builder *b, enum norm_kind kind, int in, int out, const char *name,
                int group, bool add) {
    if (stopped(b)) return;
    if (!name) {
        norm_add(b, kind, in, out, PLAN_NONE, PLAN_NONE, group, add, 0);
        return;
    }
    const bool is_bare = !tensor_find(b, name, "weight") && tensor_find(b, name, "");
    const int weight = bind_floats(b, name, is_bare ? "" : "weight", group, 0, group, 1);
    const int bias =
        kind == NORM_LAYER ? bind_floats(b, name, "bias", group, 0, group, 1) : PLAN_NONE;
    norm_add(b, kind, in, out, weight, bias, group, add, 0);
}

void build_norm_eps(struct builder *b, int in, int out, const char *name, float eps) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_NORM, in, out);
    op.norm.kind = NORM_RMS;
    op.norm.group = width_of(b, out);
    op.norm.eps = eps;
    op.weight = bind_vector(b, name, op.norm.group);
    op_add(b, &op);
}

void build_norm_each(struct builder *b, int in, int out, const char *name, int group) {
    if (stopped(b)) return;
    const struct tensor_view *tensor = tensor_find(b, name, "weight");
    const int n = width_of(b, out), n_group = n / group;
    const int weight = tensor && tensor->n_dims == 1
                           ? bind_floats(b, name, "weight", n, 0, n, 1)
                           : bind_floats(b, name, "weight", group, 0, group, n_group);
    norm_add(b, NORM_RMS, in, out, weight, PLAN_NONE, group, false, 0);
}

void build_linear(struct builder *b, int in, int out, struct linear linear) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_MATMUL, in, out);
    const int64_t rows = width_of(b, out), total = linear.total ? linear.total : rows;
    op.weight = bind_rows(b, linear.name, total, linear.first, rows, width_of(b, in));
    const struct tensor_view *bias = tensor_find(b, linear.name, "bias");
    if (bias) op.bias = bind_floats(b, linear.name, "bias", total, linear.first, rows, 1);
    if (bias && linear.scale != 0 && linear.scale != 1 && !b->status) // the op scales before it
        b->status = err_set(b->err, RN_ERR_UNSUPPORTED,
                            "%s: tensor %s: a bias is not supported with a scale of %g",
                            weights_name(b->weights), bias->name, (double)linear.scale);
    op.matmul.add = linear.add;
    op.matmul.scale = linear.scale != 0 ? linear.scale : 1;
    op_add(b, &op);
}

void build_head(struct builder *b, int in, int out, int weight, float scale) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_MATMUL, in, out);
    op.weight = weight;
    op.matmul.scale = scale;
    op_add(b, &op);
}

void build_head_biased(struct builder *b, int in, int out, int weight, const char *name) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_MATMUL, in, out);
    op.weight = weight;
    op.bias = bind_floats(b, name, "bias", width_of(b, out), 0, width_of(b, out), 1);
    op.matmul.scale = 1;
    op_add(b, &op);
}

void build_rope(struct builder *b, int buffer, int rope, int n_head, int dim) {
    build_rope_from(b, buffer, rope, n_head, dim, 0);
}

void build_rope_from(struct builder *b, int buffer, int rope, int n_head, int dim, int from) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_ROPE, PLAN_NONE, buffer);
    op.rope.rope = rope;
    op.rope.n_head = n_head;
    op.rope.dim = dim;
    op.rope.from = from;
    op_add(b, &op);
}

void build_temper(struct builder *b, int buffer, const struct temper *temper) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_TEMPER, PLAN_NONE, buffer);
    op.temper.length = temper->length;
    op.temper.offset = temper->offset;
    op.temper.factor = temper->factor;
    op_add(b, &op);
}

void build_kv_append(struct builder *b, int k, int v, struct kv_place place) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_KV_APPEND, k, PLAN_NONE);
    op.in[1] = v;
    op.kv.group = place.group;
    op.kv.layer = place.layer;
    op_add(b, &op);
}

void build_attention(struct builder *b, const struct layer *l, int q, int out,
                     struct kv_place place, int sinks) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_ATTENTION, q, out);
    op.weight = sinks;
    op.kv.group = place.group;
    op.kv.layer = place.layer;
    op.kv.n_head = l->n_head;
    op.kv.scale = l->attn_scale;
    op.kv.softcap = l->attn_softcap;
    op.kv.ahead = b->target != NULL;
    op_add(b, &op);
}

void build_gate(struct builder *b, enum gate_kind kind, int gate, int up, int out) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_GATE, gate, out);
    op.in[1] = up;
    op.gate = kind;
    op_add(b, &op);
}

void build_xielu(struct builder *b, const struct gate_xielu *xielu, int in, int out) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_GATE, in, out);
    op.xielu = *xielu;
    op.xielu.kind = GATE_XIELU;
    op_add(b, &op);
}

void build_route(struct builder *b, const struct layer *l, int logits, int route) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_ROUTE, logits, route);
    op.route.n_used = l->n_expert_used;
    op.route.normalize = l->normalize_experts;
    op.route.score = l->score;
    // The weights of experts have the residual's scale: combine adds as it is.
    const float scale = b->model->hp.residual_scale * (l->expert_scale != 0 ? l->expert_scale : 1);
    assert(!l->experts_weigh_input || b->model->hp.residual_scale == 1);
    op.route.scale = scale == 1 ? 0 : scale;
    op.route.least = l->expert_least;
    op.route.n_group = l->n_expert_group;
    op.route.n_group_used = l->n_expert_group_used;
    op.route.group_best = l->expert_group_best;
    op.route.jitter = l->expert_jitter;
    if (l->needs_choice_bias ||
        (l->score != ROUTE_SPARSEMIXER && tensor_find(b, "exp_probs_b", "bias")))
        op.bias = bind_floats(b, "exp_probs_b", "bias", l->n_expert, 0, l->n_expert, 1);
    // Of an expert's result, so also of its weight, if that is used behind the expert. A bias of
    // the result would not have it.
    if (tensor_find(b, "ffn_down_exps", "scale") && !tensor_find(b, "ffn_down_exps", "bias") &&
        !l->experts_weigh_input)
        op.weight = bind_floats(b, "ffn_down_exps", "scale", l->n_expert, 0, l->n_expert, 1);
    op_add(b, &op);
}

void build_experts(struct builder *b, const struct layer *l, int in, int route, int out,
                   struct linear linear) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_EXPERTS, in, out);
    const int64_t rows = width_of(b, out);
    op.in[1] = route;
    op.weight = bind_experts(b, linear, l->n_expert, rows, width_of(b, in));
    if (!linear.total && tensor_find(b, linear.name, "bias"))
        op.bias = bind_floats(b, linear.name, "bias", rows, 0, rows, l->n_expert);
    op.experts.weighs_input = l->experts_weigh_input && !b->plan->buffer[in].has_slots;
    op_add(b, &op);
}

static void combine_add(struct builder *b, const struct layer *l, int in, int route, int out,
                        bool set) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_COMBINE, in, out);
    op.in[1] = route;
    op.experts.weighs_input = l->experts_weigh_input;
    op.experts.set = set;
    op_add(b, &op);
}

void build_combine(struct builder *b, const struct layer *l, int in, int route, int out) {
    combine_add(b, l, in, route, out, false);
}

void build_combine_set(struct builder *b, const struct layer *l, int in, int route, int out) {
    combine_add(b, l, in, route, out, true);
}

void build_heads(struct builder *b, int in, int out, const char *name, int n, int rows, int cols) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_HEADS, in, out);
    op.weight = bind_stack(b, (struct linear){.name = name}, n, rows, cols, false);
    op.heads.n = n;
    op.heads.stride_from = width_of(b, in) / n;
    op.heads.stride_to = width_of(b, out) / n;
    op_add(b, &op);
}

void build_columns(struct builder *b, int in, int out, int n, int len, int from, int stride_from,
                   int to, int stride_to) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_COLUMNS, in, out);
    op.columns.n = n;
    op.columns.len = len;
    op.columns.from = from;
    op.columns.stride_from = stride_from;
    op.columns.to = to;
    op.columns.stride_to = stride_to;
    op_add(b, &op);
}

// ---------------------------------------------------------------- ops with a state

static struct op state_op(const struct builder *b, enum op_kind kind, const struct layer *l, int in,
                          int out) {
    const struct recurrence *r = &l->recurrence;
    struct op op = new_op(b, kind, in, out);
    op.state.group = b->state[b->layer].group;
    op.state.layer = b->state[b->layer].layer;
    op.state.at = kind == OP_CONV ? 0 : (r->taps - 1) * r->n_channel;
    op.state.n_head = r->n_head;
    op.state.n_key = r->n_key;
    op.state.dim_k = r->dim_k;
    op.state.dim_v = r->dim_v;
    op.state.taps = r->taps;
    op.state.is_tiled = r->is_tiled;
    op.state.eps = b->model->hp.norm_eps;
    op.state.dt_min = r->dt_min;
    op.state.dt_max = r->dt_max;
    return op;
}

void build_conv(struct builder *b, const struct layer *l, int in, int out, const char *name,
                bool silu) {
    if (stopped(b)) return;
    struct op op = state_op(b, OP_CONV, l, in, out);
    const int n = l->recurrence.n_channel, taps = l->recurrence.taps;
    op.weight = bind_floats(b, name, "weight", taps, 0, taps, n);
    if (tensor_find(b, name, "bias")) op.bias = bind_floats(b, name, "bias", n, 0, n, 1);
    op.state.silu = silu;
    op_add(b, &op);
}

// A number for each head: a vector, or a column.
static int bind_heads(struct builder *b, const char *name, const char *kind, int n) {
    const struct tensor_view *tensor = tensor_find(b, name, kind);
    const bool is_column = tensor && tensor->n_dims == 2 && tensor->dim[0] == 1;
    return is_column ? bind_floats(b, name, kind, 1, 0, 1, n)
                     : bind_floats(b, name, kind, n, 0, n, 1);
}

void build_delta(struct builder *b, const struct layer *l, int in, int a, int beta, int out) {
    if (stopped(b)) return;
    struct op op = state_op(b, OP_DELTA, l, in, out);
    op.in[1] = a;
    op.state.beta = beta;
    op.weight = bind_heads(b, "ssm_a", "", l->recurrence.n_head);
    op.bias = bind_heads(b, "ssm_dt", "bias", l->recurrence.n_head);
    op_add(b, &op);
}

void build_scan(struct builder *b, const struct layer *l, int in, int dt, int out) {
    if (stopped(b)) return;
    struct op op = state_op(b, OP_SCAN, l, in, out);
    op.in[1] = dt;
    op.weight = bind_heads(b, "ssm_a", "", l->recurrence.n_head);
    op.bias = bind_heads(b, "ssm_dt", "bias", l->recurrence.n_head);
    op.state.skip = bind_heads(b, "ssm_d", "", l->recurrence.n_head);
    op_add(b, &op);
}

void build_softcap(struct builder *b, int buffer, float cap) {
    if (stopped(b)) return;
    struct op op = new_op(b, OP_SOFTCAP, PLAN_NONE, buffer);
    op.softcap.cap = cap;
    op_add(b, &op);
}

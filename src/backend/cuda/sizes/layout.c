// Where the device stores weights, buffers and scratch. Also the questions about a plan that the
// layout and the program must answer alike: which products form a gated pair, and which buffers
// exist as 16-bit rows.
#include <string.h>

#include "backend/cuda/choose_scratch.h"
#include "backend/cuda/heads.h"
#include "backend/cuda/kv.h"
#include "backend/cuda/layout.h"
#include "backend/cuda/route.h"

enum { ALIGN = 256 };

static uint64_t take(uint64_t *at, uint64_t bytes) {
    const uint64_t begin = (*at + ALIGN - 1) / ALIGN * ALIGN;
    *at = begin + bytes;
    return begin;
}

// ---------------------------------------------------------------- questions about a plan

int cuda_part_end(const struct plan *plan, int index) {
    return index < plan->n_op ? plan->n_op : plan->n_op_all;
}

bool cuda_is_product(const struct op *op) {
    return op->kind == OP_MATMUL || op->kind == OP_EXPERTS;
}

bool cuda_weighs(const struct op *op) { return op->kind == OP_EXPERTS && op->experts.weighs_input; }

bool cuda_reads(const struct op *op, int buffer) {
    const bool reads_out =
        op->kind == OP_ROPE || op->kind == OP_SOFTCAP || op->kind == OP_TEMPER ||
        op->kind == OP_COLUMNS || op->kind == OP_HEADS ||
        (op->kind == OP_COMBINE && !op->experts.set) || (op->kind == OP_MATMUL && op->matmul.add) ||
        (op->kind == OP_NORM && op->norm.add) || (op->kind == OP_EMBED && op->embed.add);
    if (op->kind == OP_DELTA && op->state.beta == buffer) return true;
    return op->in[0] == buffer || op->in[1] == buffer || (reads_out && op->out == buffer);
}

int cuda_input_type(const struct plan *plan, const struct op *op) {
    return codec_at(codec_of(plan->weight[op->weight].format))->is_bf16;
}

bool cuda_only_products_read(const struct plan *plan, int index, int *type) {
    const int buffer = plan->op[index].out;
    bool any = false;
    if (buffer == plan->hidden || buffer == plan->logits) return false;
    const int end = cuda_part_end(plan, index);
    for (int i = index + 1; i < end; i++) {
        const struct op *op = &plan->op[i];
        if (cuda_reads(op, buffer)) {
            if (!cuda_is_product(op) || op->in[0] != buffer || op->in[1] == buffer ||
                op->out == buffer || cuda_weighs(op))
                return false;
            const int own = cuda_input_type(plan, op);
            if (any && own != *type) return false;
            *type = own;
            any = true;
        }
        if (op->out == buffer) break;
    }
    return any;
}

static int uses_of(const struct plan *plan, int weight) {
    int n = 0;
    for (int i = 0; i < plan->n_op_all; i++) n += plan->op[i].weight == weight;
    return n;
}

// Two neighbouring products of one input whose results meet in a gate that follows them, and are
// read by nothing else.
const struct op *cuda_pair_of(const struct plan *plan, int index, int *second) {
    const int end = cuda_part_end(plan, index);
    if (index + 2 >= end) return NULL;
    const struct op *a = &plan->op[index], *b = a + 1, *gate = a + 2;
    if (!cuda_is_product(a) || b->kind != a->kind || gate->kind != OP_GATE) return NULL;
    if (gate->in[0] != a->out || gate->in[1] != b->out || a->out == b->out) return NULL;
    if (a->in[0] != b->in[0] || a->in[1] != b->in[1] || a->rows != b->rows) return NULL;
    if (a->in[0] == a->out || a->in[0] == b->out || cuda_weighs(a) != cuda_weighs(b)) return NULL;
    const struct plan_weight *wa = &plan->weight[a->weight], *wb = &plan->weight[b->weight];
    if (wa->format != wb->format || wa->rows != wb->rows || wa->cols != wb->cols) return NULL;
    if (wa->n_expert != wb->n_expert || a->weight == b->weight) return NULL;
    if (uses_of(plan, a->weight) != 1 || uses_of(plan, b->weight) != 1) return NULL;
    if ((a->bias == PLAN_NONE) != (b->bias == PLAN_NONE)) return NULL;
    if (a->kind == OP_MATMUL &&
        (a->matmul.add || b->matmul.add || a->matmul.scale != b->matmul.scale))
        return NULL;
    int type;
    if (!cuda_only_products_read(plan, index + 2, &type)) return NULL;
    // the second result is the gate's alone
    for (int i = index + 3; i < end; i++) {
        if (cuda_reads(&plan->op[i], b->out) && b->out != gate->out) return NULL;
        if (plan->op[i].out == b->out) break;
    }
    *second = index + 1;
    return gate;
}

// ---------------------------------------------------------------- weights

static void place_matrix(const struct plan *plan, struct cuda_layout *l, int index, int pair) {
    const struct plan_weight *weight = &plan->weight[index];
    struct cuda_weight *w = &l->weight[index];
    if (w->use != USE_NONE) return;
    w->use = pair == PLAN_NONE ? USE_MATRIX : USE_FIRST;
    w->pair = pair;
    w->codec = codec_of(weight->format);
    w->n_units = (int)codec_units(weight->cols);
    w->n_tiles = pair == PLAN_NONE ? (weight->rows + UNIT_ROWS - 1) / UNIT_ROWS
                                   : (weight->rows + UNIT_ROWS / 2 - 1) / (UNIT_ROWS / 2);
    w->bytes = (uint64_t)w->n_tiles * codec_tile_bytes(w->codec, weight->cols);
    const uint64_t n = weight->n_expert ? (uint64_t)weight->n_expert : 1;
    w->at = take(&l->weight_bytes, w->bytes * n);
    if (weight->n_expert) w->table_at = take(&l->weight_bytes, n * sizeof(void *));
    if (pair != PLAN_NONE) {
        l->weight[pair] = *w;
        l->weight[pair].use = USE_SECOND;
    }
}

static void place_vector(const struct plan *plan, struct cuda_layout *l, int index) {
    if (index == PLAN_NONE || l->weight[index].use == USE_VECTOR) return;
    struct cuda_weight *w = &l->weight[index];
    const struct plan_weight *weight = &plan->weight[index];
    w->use = USE_VECTOR;
    w->bytes = (uint64_t)weight->rows * (uint64_t)weight->cols * sizeof(float);
    w->at = take(&l->weight_bytes, w->bytes);
}

// Weights and biases that norms do without.
static void place_constants(const struct plan *plan, struct cuda_layout *l) {
    for (int i = 0; i < plan->n_op_all; i++) {
        const struct op *op = &plan->op[i];
        if (op->kind != OP_NORM || op->norm.group <= l->n_constants) continue;
        if (op->weight == PLAN_NONE || op->norm.kind == NORM_LAYER_PLAIN)
            l->n_constants = op->norm.group;
    }
    for (int value = 0; value < 2; value++)
        l->constant_at[value] = take(&l->weight_bytes, (uint64_t)l->n_constants * sizeof(float));
}

static void place_weights(const struct plan *plan, struct cuda_layout *l) {
    uint64_t pair_bias = 0;
    for (int i = 0; i < plan->n_op_all; i++) {
        const struct op *op = &plan->op[i];
        int second;
        const bool is_pair = cuda_pair_of(plan, i, &second) != NULL;
        if (op->kind == OP_EMBED || op->kind == OP_HEADS || cuda_is_product(op))
            place_matrix(plan, l, op->weight, is_pair ? plan->op[second].weight : PLAN_NONE);
        else
            place_vector(plan, l, op->weight);
        if (op->kind != OP_EMBED) place_vector(plan, l, op->bias);
        if (op->kind == OP_SCAN) place_vector(plan, l, op->state.skip);
        if (is_pair && op->bias != PLAN_NONE) {
            const struct plan_weight *bias = &plan->weight[op->bias];
            pair_bias += (uint64_t)(bias->rows * bias->cols) * 2 * sizeof(float) + ALIGN;
        }
    }
    place_constants(plan, l);
    l->pair_bias_at = take(&l->weight_bytes, pair_bias);
    for (int r = 0; r < plan->n_rope; r++)
        l->inv_freq_at[r] = take(&l->weight_bytes, (uint64_t)plan->rope[r].n_rot / 2 * 4 + 16);
}

// ---------------------------------------------------------------- buffers

static int rows_max(const struct backend_sizes *sizes, enum row_domain rows) {
    return rows == ROWS_LOGITS ? sizes->max_logits : sizes->max_tokens;
}

// 16-bit rows of a buffer. Those of experts are padded to groups of 8 for each expert.
static int64_t rows16_max(const struct plan *plan, const struct backend_sizes *sizes, int buffer) {
    const int rows = rows_max(sizes, plan->buffer[buffer].rows);
    int64_t most = (int64_t)rows * plan->buffer[buffer].slots;
    for (int i = 0; i < plan->n_op_all; i++) {
        const struct op *op = &plan->op[i];
        if (op->kind != OP_EXPERTS || op->in[0] != buffer) continue;
        const int64_t pairs = (int64_t)rows * plan->buffer[op->out].slots;
        const int64_t n_expert = plan->weight[op->weight].n_expert;
        const int64_t all = pairs + 7 * (pairs < n_expert ? pairs : n_expert);
        most = all > most ? all : most;
    }
    return most;
}

static void place_buffers(const struct plan *plan, const struct backend_sizes *sizes,
                          struct cuda_layout *l) {
    bool wants16[2];
    for (int i = 0; i < plan->n_buffer; i++) {
        const struct plan_buffer *buffer = &plan->buffer[i];
        struct cuda_buffer *b = &l->buffer[i];
        b->n_rows = (int64_t)rows_max(sizes, buffer->rows) * buffer->slots;
        b->ld = cuda_ld(buffer->width);
        b->ld16 = b->ld;
        b->n_groups = (int)((rows16_max(plan, sizes, i) + 7) / 8);
        b->at = take(&l->step_bytes, (uint64_t)b->n_rows * (uint64_t)b->ld * sizeof(float));
        wants16[0] = wants16[1] = false;
        for (int k = 0; k < plan->n_op_all; k++)
            if (cuda_is_product(&plan->op[k]) && plan->op[k].in[0] == i)
                wants16[cuda_input_type(plan, &plan->op[k])] = true;
        for (int t = 0; t < 2; t++)
            if (wants16[t])
                b->at16[t] =
                    take(&l->step_bytes, (uint64_t)b->n_groups * 8 * (uint64_t)b->ld16 * 2);
    }
}

static void place_routes(const struct plan *plan, const struct backend_sizes *sizes,
                         struct cuda_layout *l) {
    uint64_t weighed = 0;
    for (int i = 0; i < plan->n_op_all; i++) {
        const struct op *op = &plan->op[i];
        if (op->kind != OP_ROUTE) continue;
        const int n_expert = plan->buffer[op->in[0]].width;
        if (n_expert > l->max_expert) l->max_expert = n_expert;
        if (op->route.n_used > l->max_used) l->max_used = op->route.n_used;
    }
    for (int i = 0; i < plan->n_op_all; i++) {
        const struct op *op = &plan->op[i];
        if (!cuda_weighs(op)) continue;
        const uint64_t bytes =
            (uint64_t)l->buffer[op->in[0]].n_groups * 8 * (uint64_t)l->buffer[op->in[0]].ld16 * 2;
        if (weighed < bytes) weighed = bytes;
    }
    l->weighed_at = take(&l->step_bytes, weighed);
    l->max_pairs = (int64_t)sizes->max_tokens * l->max_used;
    l->route_at =
        take(&l->step_bytes, (3 * (uint64_t)l->max_expert + 2 * (uint64_t)l->max_pairs + 16) * 4);
}

// The sums of parts of a product, of the stage with the most tiles. Neighbours that read one input
// may be a stage.
static uint64_t sums_bytes(const struct plan *plan, const struct backend_sizes *sizes,
                           const struct cuda_layout *l) {
    uint64_t most = 0;
    for (int i = 0; i < plan->n_op_all; i++) {
        const struct op *op = &plan->op[i];
        const int rows = rows_max(sizes, op->rows);
        int64_t n_tiles = 0;
        if (op->kind != OP_MATMUL || rows <= SMALL_ROWS) continue;
        for (int k = 0; k < MAX_PRODUCTS && i + k < cuda_part_end(plan, i); k++) {
            if (op[k].kind != OP_MATMUL || op[k].in[0] != op->in[0]) break;
            n_tiles += l->weight[op[k].weight].n_tiles;
        }
        const uint64_t items = (uint64_t)(n_tiles + MANY_TILES - 1) / MANY_TILES;
        for (int columns = MANY_FEW; columns <= MANY_WIDE; columns += 32) {
            const uint64_t bytes =
                items * (uint64_t)((rows + columns - 1) / columns) * many_sums_bytes(columns);
            if (most < bytes) most = bytes;
        }
    }
    return most < MANY_SUMS_MOST ? most : MANY_SUMS_MOST;
}

// The part of an op that this backend lacks; NULL: it has the op.
static const char *lacks(const struct plan *plan, const struct op *op) {
    switch (op->kind) {
    case OP_HEADS:
        return plan->weight[op->weight].cols > HEADS_COLS_MAX ? " of more than 4096 columns" : NULL;
    case OP_DELTA:
    case OP_SCAN:
        return op->state.dim_k > STATE_DIM_MAX ? " of heads with more than 256 rows of state"
                                               : NULL;
    case OP_ROUTE:
        return op->route.n_group > ROUTE_GROUPS ? " with more than 32 groups" : NULL;
    default:
        return NULL;
    }
}

static rn_status ops_check(const struct plan *plan, rn_error *err) {
    for (int i = 0; i < plan->n_op_all; i++) {
        const char *what = lacks(plan, &plan->op[i]);
        if (what)
            return err_set(err, RN_ERR_UNSUPPORTED,
                           "cuda: the op %s%s, which the model needs, is not there yet",
                           op_name(plan->op[i].kind), what);
    }
    return RN_OK;
}

rn_status cuda_layout_make(const struct plan *plan, const struct backend_sizes *sizes,
                           struct arena *arena, struct cuda_layout *out, rn_error *err) {
    *out = (struct cuda_layout){0};
    const rn_status status = ops_check(plan, err);
    if (status) return status;
    out->weight = arena_array(arena, (size_t)plan->n_weight + 1, sizeof *out->weight);
    out->buffer = arena_array(arena, (size_t)plan->n_buffer + 1, sizeof *out->buffer);
    if (!out->weight || !out->buffer)
        return err_set(err, RN_ERR_NOMEM, "no memory for the layout of %d weights", plan->n_weight);
    memset(out->weight, 0, sizeof *out->weight * ((size_t)plan->n_weight + 1));
    memset(out->buffer, 0, sizeof *out->buffer * ((size_t)plan->n_buffer + 1));
    if (plan->n_rope > CUDA_MAX_ROPE)
        return err_set(err, RN_ERR_UNSUPPORTED, "cuda: %d kinds of rope, expected at most %d",
                       plan->n_rope, CUDA_MAX_ROPE);
    take(&out->step_bytes, ALIGN); // so that 0 means none
    place_weights(plan, out);
    place_buffers(plan, sizes, out);
    place_routes(plan, sizes, out);
    for (int r = 0; r < plan->n_rope; r++)
        out->rope_at[r] = take(&out->step_bytes, (uint64_t)sizes->max_tokens *
                                                     (uint64_t)plan->rope[r].n_rot * sizeof(float));
    uint64_t parts = 0, counters = 0;
    for (int i = 0; i < plan->n_op_all; i++) {
        const struct op *op = &plan->op[i];
        if (op->kind != OP_ATTENTION) continue;
        const struct plan_kv_group *g = &plan->group[op->kv.group];
        const uint64_t p = kv_parts_bytes(g, op->kv.n_head, sizes);
        const uint64_t c = kv_counters_bytes(g, op->kv.n_head, sizes);
        parts = p > parts ? p : parts;
        counters = c > counters ? c : counters;
    }
    out->parts_at = take(&out->step_bytes, parts);
    out->counters_at = take(&out->step_bytes, counters);
    out->sums_bytes = sums_bytes(plan, sizes, out);
    out->sums_at = take(&out->step_bytes, out->sums_bytes);
    out->sums_counters_at = take(&out->step_bytes, 2 * MANY_ITEMS_MAX * sizeof(uint32_t));
    out->choose_at = take(&out->step_bytes, choose_scratch_bytes(sizes->max_logits, plan->n_vocab));
    out->chosen_at = take(&out->step_bytes, 2 * CUDA_CHOSEN_BYTES(sizes->max_logits));
    return RN_OK;
}

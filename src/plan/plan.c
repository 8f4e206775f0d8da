// Building a plan: growing arrays in the plan's arena, with every op checked against the buffers
// and weights it names. Called by model/<arch>.c at load; nothing here runs in the step.
#include "plan/plan.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/rmath.h"

static const char *const op_names[OP_COUNT] = {
#define OP(name, text, class) [OP_##name] = text,
#include "plan/ops.def"
#undef OP
};

static const enum op_class op_classes[OP_COUNT] = {
#define OP(name, text, class) [OP_##name] = OPS_##class,
#include "plan/ops.def"
#undef OP
};

const char *op_name(enum op_kind kind) { return op_names[kind]; }

enum op_class op_class_of(enum op_kind kind) { return op_classes[kind]; }

void plan_init(struct plan *plan) {
    memset(plan, 0, sizeof *plan);
    plan->logits = plan->hidden = PLAN_NONE;
}

// "blk.3.ffn_gate.weight" is "ffn_gate".
static int short_name(const char *name, const char **out) {
    const char *dot;
    if (strncmp(name, "blk.", 4) == 0 && (dot = strchr(name + 4, '.'))) name = dot + 1;
    *out = name;
    return (int)strcspn(name, ".");
}

void plan_ops_name(const struct plan *plan, int first, int n, char out[PLAN_NAME]) {
    int at = 0, kind = -1;
    bool named = false;
    for (int i = first; i < first + n && at < PLAN_NAME; i++) {
        const struct op *op = &plan->op[i];
        if ((int)op->kind != kind) {
            at += snprintf(out + at, (size_t)(PLAN_NAME - at), "%s%s", at ? " " : "",
                           op_name(op->kind));
            named = false;
        }
        kind = (int)op->kind;
        if (op->weight == PLAN_NONE || at >= PLAN_NAME) continue;
        const char *text;
        const int len = short_name(plan->weight[op->weight].name, &text);
        at += snprintf(out + at, (size_t)(PLAN_NAME - at), "%s%.*s", named ? "+" : " ", len, text);
        named = true;
    }
}

void plan_deinit(struct plan *plan) {
    arena_deinit(&plan->arena);
    plan_init(plan);
}

// Room for one more item; NULL marks the plan as failed, which plan_finish reports. Old arrays stay
// in the arena: they are small, and their sum is below the last one.
static void *grow(struct plan *plan, void *items, int count, int *capacity, size_t size) {
    if (plan->failed) return NULL;
    if (count < *capacity) return items;
    const int wanted = *capacity ? *capacity * 2 : 32;
    void *bigger = arena_array(&plan->arena, (size_t)wanted, size);
    if (!bigger) {
        plan->failed = true;
        return NULL;
    }
    if (count) memcpy(bigger, items, (size_t)count * size);
    *capacity = wanted;
    return bigger;
}

int plan_add_buffer(struct plan *plan, const char *name, int width, enum row_domain rows) {
    return plan_add_slots(plan, name, width, rows, 1);
}

int plan_add_slots(struct plan *plan, const char *name, int width, enum row_domain rows,
                   int slots) {
    assert(width > 0 && slots > 0);
    struct plan_buffer *items =
        grow(plan, plan->buffer, plan->n_buffer, &plan->cap_buffer, sizeof *items);
    if (!items) return 0;
    plan->buffer = items;
    items[plan->n_buffer] = (struct plan_buffer){name, width, rows, slots, false};
    return plan->n_buffer++;
}

int plan_add_weight(struct plan *plan, const struct plan_weight *weight) {
    struct plan_weight *items =
        grow(plan, plan->weight, plan->n_weight, &plan->cap_weight, sizeof *items);
    if (!items) return 0;
    plan->weight = items;
    items[plan->n_weight] = *weight;
    return plan->n_weight++;
}

int plan_add_rope(struct plan *plan, const struct plan_rope *rope) {
    assert(rope->n_rot > 0 && rope->n_rot % 2 == 0);
    struct plan_rope *items = grow(plan, plan->rope, plan->n_rope, &plan->cap_rope, sizeof *items);
    if (!items) return 0;
    plan->rope = items;
    const size_t n = (size_t)rope->n_rot / 2;
    float *inv_freq = arena_array(&plan->arena, n, sizeof *inv_freq);
    if (!inv_freq) {
        plan->failed = true;
        return 0;
    }
    memcpy(inv_freq, rope->inv_freq, n * sizeof *inv_freq);
    items[plan->n_rope] = *rope;
    items[plan->n_rope].inv_freq = inv_freq;
    return plan->n_rope++;
}

int plan_add_kv_group(struct plan *plan, const struct plan_kv_group *group) {
    assert(plan->n_group_all < PLAN_MAX_KV_GROUPS);
    assert((group->kind == KV_RECURRENT) == (group->state > 0));
    assert((group->kind != KV_WINDOW && group->kind != KV_CHUNK) || group->window > 0);
    assert(!group->is_latent || (group->kind == KV_FULL && group->dim_v <= group->dim_k));
    plan->group[plan->n_group_all] = *group;
    if (!plan->in_draft) plan->n_group++;
    return plan->n_group_all++;
}

static void check_matmul(const struct plan *plan, const struct op *op) {
    const struct plan_weight *weight = &plan->weight[op->weight];
    assert(op->out != op->in[0]); // kernels read the input while they write
    assert(weight->n_expert == 0 && !weight->is_cold);
    assert(weight->cols == plan->buffer[op->in[0]].width);
    assert(weight->rows == plan->buffer[op->out].width);
    assert(plan->buffer[op->in[0]].rows == op->rows ||
           (plan->buffer[op->in[0]].rows == ROWS_OUT && op->rows == ROWS_LOGITS));
    assert(op->bias == PLAN_NONE || plan->weight[op->bias].cols == weight->rows);
    (void)weight;
}

static void check_kv(const struct plan *plan, const struct op *op) {
    assert(op->kv.group >= 0 && op->kv.group < plan->n_group_all);
    const struct plan_kv_group *group = &plan->group[op->kv.group];
    assert(op->kv.layer >= 0 && op->kv.layer < group->n_layer);
    assert(group->kind != KV_RECURRENT);
    if (op->kind == OP_KV_APPEND) {
        assert(plan->buffer[op->in[0]].width == group->n_head_kv * group->dim_k);
        assert(group->is_latent == (op->in[1] == PLAN_NONE));
        assert(group->is_latent ||
               plan->buffer[op->in[1]].width == group->n_head_kv * group->dim_v);
    } else {
        assert(op->out != op->in[0] && plan->buffer[op->in[0]].rows == op->rows);
        assert(op->kv.n_head % group->n_head_kv == 0);
        assert(op->weight == PLAN_NONE || plan->weight[op->weight].cols == op->kv.n_head);
        assert(plan->buffer[op->in[0]].width == op->kv.n_head * group->dim_k);
        assert(plan->buffer[op->out].width == op->kv.n_head * group->dim_v);
        assert(op->kv.ahead == 0 || (plan->in_draft && group->kind != KV_CHUNK));
        assert(group->kind == KV_FULL || op->kv.ahead < group->window);
    }
    (void)group;
}

bool plan_on_disk(const struct plan *plan, const struct plan_weight *weight) {
    const void *data = weight->n_expert ? weight->expert_data[0] : weight->data, *at = data;
    uint8_t none;
    return plan->fetch && !plan->fetch(plan->fetch_ctx, data, 0, &none, &at, NULL) && at != data;
}

rn_status plan_check_files(const struct plan *plan, rn_error *err) {
    return plan->check ? plan->check(plan->fetch_ctx, err) : RN_OK;
}

bool op_has_state(enum op_kind kind) {
    return kind == OP_CONV || kind == OP_DELTA || kind == OP_SCAN;
}

bool op_is_product(enum op_kind kind) {
    return kind == OP_MATMUL || kind == OP_EXPERTS || kind == OP_HEADS;
}

int64_t op_state_floats(const struct plan *plan, const struct op *op) {
    if (op->kind == OP_CONV) return (int64_t)plan->buffer[op->out].width * (op->state.taps - 1);
    return (int64_t)op->state.n_head * op->state.dim_k * op->state.dim_v;
}

float op_temper_factor(const struct op *op, int pos) {
    const int64_t periods = ((int64_t)pos + op->temper.offset) / op->temper.length;
    return (float)(rmath_log((double)(periods + 1)) * (double)op->temper.factor + 1);
}

static int64_t weight_floats(const struct plan *plan, int weight) {
    return plan->weight[weight].rows * plan->weight[weight].cols;
}

// Shapes of DELTA and SCAN.
static void check_heads(const struct plan *plan, const struct op *op) {
    const int n_head = op->state.n_head, n_key = op->state.n_key;
    const int values = n_head * op->state.dim_v, keys = n_key * op->state.dim_k;
    assert(n_key > 0 && n_head % n_key == 0);
    assert(plan->buffer[op->in[0]].width == values + 2 * keys);
    assert(plan->buffer[op->in[1]].width == n_head && plan->buffer[op->in[1]].rows == op->rows);
    assert(plan->buffer[op->out].width == values);
    assert(weight_floats(plan, op->weight) == n_head && weight_floats(plan, op->bias) == n_head);
    if (op->kind == OP_DELTA) {
        assert(plan->buffer[op->state.beta].width == n_head);
        assert(plan->buffer[op->state.beta].rows == op->rows);
    } else {
        assert(weight_floats(plan, op->state.skip) == n_head);
    }
    (void)plan, (void)values, (void)keys;
}

static void check_state(const struct plan *plan, const struct op *op) {
    assert(op->rows == ROWS_TOKENS); // the state passes through every row
    assert(op->state.group >= 0 && op->state.group < plan->n_group_all);
    const struct plan_kv_group *group = &plan->group[op->state.group];
    assert(group->kind == KV_RECURRENT);
    assert(op->state.layer >= 0 && op->state.layer < group->n_layer);
    assert(op->state.at >= 0 && op->state.at + op_state_floats(plan, op) <= group->state);
    assert(plan->buffer[op->in[0]].rows == op->rows && plan->buffer[op->in[0]].slots == 1);
    assert(plan->buffer[op->out].slots == 1 && op->out != op->in[0]);
    if (op->kind == OP_CONV) {
        const struct plan_weight *weight = &plan->weight[op->weight];
        assert(op->state.taps > 1 && op->state.taps <= PLAN_MAX_TAPS);
        assert(weight->rows == plan->buffer[op->out].width && weight->cols == op->state.taps);
        assert(plan->buffer[op->in[0]].width == plan->buffer[op->out].width);
        assert(op->bias == PLAN_NONE || weight_floats(plan, op->bias) == weight->rows);
        (void)weight;
    } else {
        check_heads(plan, op);
    }
    (void)group;
}

static void check_columns(const struct plan *plan, const struct op *op) {
    const struct plan_buffer *in = &plan->buffer[op->in[0]], *out = &plan->buffer[op->out];
    assert(in->rows == op->rows && in->slots == 1 && out->slots == 1 && op->out != op->in[0]);
    assert(op->columns.n > 0 && op->columns.len > 0);
    assert(op->columns.from >= 0 && op->columns.to >= 0);
    assert(op->columns.from + (op->columns.n - 1) * op->columns.stride_from + op->columns.len <=
           in->width);
    assert(op->columns.to + (op->columns.n - 1) * op->columns.stride_to + op->columns.len <=
           out->width);
    (void)in, (void)out;
}

static void check_head_products(const struct plan *plan, const struct op *op) {
    const struct plan_buffer *in = &plan->buffer[op->in[0]], *out = &plan->buffer[op->out];
    const struct plan_weight *weight = &plan->weight[op->weight];
    const int64_t last = op->heads.n - 1;
    assert(in->rows == op->rows && in->slots == 1 && out->slots == 1 && op->out != op->in[0]);
    assert(op->heads.n > 0 && weight->n_expert == op->heads.n && op->bias == PLAN_NONE);
    assert(op->heads.from >= 0 && op->heads.to >= 0);
    assert(op->heads.from + last * op->heads.stride_from + weight->cols <= in->width);
    assert(op->heads.to + last * op->heads.stride_to + weight->rows <= out->width);
    assert(last == 0 || op->heads.stride_to >= weight->rows); // heads run side by side
    (void)in, (void)out, (void)weight, (void)last;
}

static void check_norm(const struct plan *plan, const struct op *op) {
    const struct plan_buffer *in = &plan->buffer[op->in[0]], *out = &plan->buffer[op->out];
    assert(in->rows == op->rows && in->width == out->width);
    assert(in->slots == 1 && out->slots == 1);
    assert(out->width % op->norm.group == 0);
    assert(op->weight == PLAN_NONE || weight_floats(plan, op->weight) == op->norm.group ||
           (op->norm.kind == NORM_RMS && weight_floats(plan, op->weight) == out->width));
    assert((unsigned)op->norm.kind < NORM_COUNT);
    assert(op->bias == PLAN_NONE || plan->weight[op->bias].cols == op->norm.group);
    assert((op->norm.kind == NORM_LAYER) == (op->bias != PLAN_NONE));
    (void)in, (void)out;
}

static void check_gate(const struct plan *plan, const struct op *op) {
    const struct plan_buffer *out = &plan->buffer[op->out];
    for (int i = 0; i < 2; i++) {
        if (op->in[i] == PLAN_NONE) continue;
        const struct plan_buffer *in = &plan->buffer[op->in[i]];
        const bool is_factor = i == 0 && in->width == 1 && op->in[1] != PLAN_NONE;
        assert(in->rows == op->rows && (is_factor || in->width == out->width));
        assert(in->slots == out->slots);
        (void)in, (void)is_factor;
    }
    assert(op->in[0] != PLAN_NONE && (unsigned)op->gate <= GATE_XIELU);
    assert(op->gate != GATE_XIELU || op->in[1] == PLAN_NONE);
    (void)out;
}

static void check_route(const struct plan *plan, const struct op *op) {
    const int n = plan->buffer[op->in[0]].width, used = op->route.n_used;
    const int n_group = op->route.n_group, kept = op->route.n_group_used;
    assert(plan->buffer[op->in[0]].rows == op->rows);
    assert(used > 0 && used <= PLAN_MAX_USED && used <= n && n <= PLAN_MAX_EXPERT);
    assert(plan->buffer[op->out].width == 2 * used);
    assert(op->bias == PLAN_NONE || weight_floats(plan, op->bias) == n);
    assert(op->weight == PLAN_NONE || weight_floats(plan, op->weight) == n);
    if (op->route.score == ROUTE_SPARSEMIXER)
        assert(used == 2 && op->bias == PLAN_NONE && n_group == 0 && !op->route.normalize);
    if (n_group > 0) {
        assert(n % n_group == 0 && kept > 0 && kept <= n_group && n / n_group * kept >= used);
        assert(op->route.group_best == 1 || op->route.group_best == 2);
    }
    (void)n, (void)used, (void)n_group, (void)kept;
}

static void check_experts(const struct plan *plan, const struct op *op) {
    const struct plan_buffer *in = &plan->buffer[op->in[0]], *out = &plan->buffer[op->out];
    const struct plan_buffer *route = &plan->buffer[op->in[1]];
    const struct plan_weight *weight = op->kind == OP_EXPERTS ? &plan->weight[op->weight] : NULL;
    const int used = op->kind == OP_EXPERTS ? out->slots : in->slots;
    assert(in->rows == op->rows && route->rows == op->rows && route->width == 2 * used);
    if (weight) {
        assert(weight->n_expert >= used && op->out != op->in[0]);
        assert(weight->cols == in->width && weight->rows == out->width);
        assert(in->slots == 1 || in->slots == used);
        assert(!op->experts.weighs_input || !in->has_slots);
        assert(op->bias == PLAN_NONE || (plan->weight[op->bias].cols == weight->rows &&
                                         plan->weight[op->bias].rows == weight->n_expert));
    } else {
        assert(out->slots == 1 && out->width == in->width);
    }
    (void)in, (void)out, (void)route, (void)weight, (void)used;
}

static void check_op(const struct plan *plan, const struct op *op) {
    assert(op->out == PLAN_NONE || (op->out >= 0 && op->out < plan->n_buffer));
    assert(op->out == PLAN_NONE || plan->buffer[op->out].rows == op->rows);
    switch (op->kind) {
    case OP_EMBED:
        assert(op->rows == ROWS_TOKENS);
        assert(plan->weight[op->weight].cols == plan->buffer[op->out].width);
        assert(plan->weight[op->weight].n_expert == 0);
        break;
    case OP_INPUT:
        assert(op->rows == ROWS_TOKENS && plan->in_draft);
        break;
    case OP_GATHER:
        assert(plan->buffer[op->in[0]].rows == ROWS_TOKENS && op->rows != ROWS_TOKENS);
        assert(plan->buffer[op->in[0]].width == plan->buffer[op->out].width);
        break;
    case OP_NORM:
        check_norm(plan, op);
        break;
    case OP_MATMUL:
        check_matmul(plan, op);
        break;
    case OP_ROPE:
        assert(plan->buffer[op->out].width == op->rope.n_head * op->rope.dim);
        assert(op->rope.from >= 0);
        assert(op->rope.from + plan->rope[op->rope.rope].n_rot <= op->rope.dim);
        break;
    case OP_KV_APPEND:
        assert(op->rows == ROWS_TOKENS);
        check_kv(plan, op);
        break;
    case OP_ATTENTION:
        assert(op->rows != ROWS_LOGITS);
        check_kv(plan, op);
        break;
    case OP_CONV:
    case OP_DELTA:
    case OP_SCAN:
        check_state(plan, op);
        break;
    case OP_GATE:
        check_gate(plan, op);
        break;
    case OP_COLUMNS:
        check_columns(plan, op);
        break;
    case OP_ROUTE:
        check_route(plan, op);
        break;
    case OP_EXPERTS:
    case OP_COMBINE:
        check_experts(plan, op);
        break;
    case OP_SOFTCAP:
        assert(op->softcap.cap > 0);
        break;
    case OP_TEMPER:
        assert(op->temper.length > 0 && op->temper.offset >= 0 && op->temper.factor > 0);
        assert(plan->buffer[op->out].slots == 1 && op->rows == ROWS_TOKENS);
        break;
    case OP_HEADS:
        check_head_products(plan, op);
        break;
    case OP_COUNT:
        assert(!"not an op");
        break;
    }
}

void plan_add_op(struct plan *plan, const struct op *op) {
    struct op *items = grow(plan, plan->op, plan->n_op_all, &plan->cap_op, sizeof *items);
    if (!items) return;
    plan->op = items;
    check_op(plan, op);
    items[plan->n_op_all++] = *op;
    if (!plan->in_draft) plan->n_op++;
    if (op->kind == OP_EXPERTS || (op->kind == OP_GATE && plan->buffer[op->in[0]].has_slots))
        plan->buffer[op->out].has_slots = true;
}

void plan_begin_draft(struct plan *plan) {
    assert(!plan->in_draft);
    plan->in_draft = true;
}

bool plan_has_block(const struct plan *plan) { return plan->n_op_all > plan->n_op; }

bool plan_block_reads(const struct plan *plan) {
    return plan_has_block(plan) && plan->n_group_all == plan->n_group;
}

bool plan_rope_is_used(const struct plan *plan, int rope, bool in_block) {
    return (in_block && plan_block_reads(plan)) == (plan->rope[rope].ahead > 0);
}

int op_window(const struct plan *plan, const struct op *op) {
    const struct plan_kv_group *group = &plan->group[op->kv.group];
    return group->kind == KV_FULL ? 0 : group->window - op->kv.ahead;
}

rn_status plan_finish(struct plan *plan, rn_error *err) {
    if (plan->failed) return err_set(err, RN_ERR_NOMEM, "no memory for the plan");
    assert(plan->logits >= 0 && plan->buffer[plan->logits].rows == ROWS_LOGITS);
    assert(plan->buffer[plan->logits].width == plan->n_vocab);
    assert(plan->hidden == PLAN_NONE || plan->buffer[plan->hidden].rows == ROWS_OUT);
    return RN_OK;
}

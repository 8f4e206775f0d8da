// Compiles the plan into lists of stages: `small` for steps of up to SMALL_ROWS rows, and `wide`
// for larger ones. Both perform the same operations on a row. They differ in the place of a
// product's input (shared memory, or rows that a stage prepared) and of keys (appended by attention
// itself, or by a stage before it).
//
// What is fused: a norm of whole rows into the products that read it; two products and their gate;
// a soft cap into its product; norms of heads, rope and the append into attention.
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/program.h"

struct stage *stage_add(struct compiler *c, enum stage_kind kind, const struct op *op,
                        const char *name) {
    struct cuda_list *list = c->list;
    if (list->n == list->cap) {
        const int cap = list->cap ? 2 * list->cap : 256;
        struct stage *stage = realloc(list->stage, (size_t)cap * sizeof *stage);
        if (stage) list->stage = stage;
        const char **names = realloc(list->name, (size_t)cap * sizeof *names);
        if (names) list->name = names;
        if (!stage || !names) {
            static struct stage nowhere;
            c->status = err_set(c->err, RN_ERR_NOMEM, "no memory for %d stages", cap);
            return &nowhere;
        }
        list->cap = cap;
    }
    struct stage *s = &list->stage[list->n];
    list->name[list->n++] = name;
    memset(s, 0, sizeof *s);
    s->kind = kind;
    s->rows = op ? (int)op->rows : STAGE_TOKENS;
    s->ops = op ? (int)op_class_of(op->kind) : OPS_OTHER;
    return s;
}

const char *name_of(struct compiler *c, int first, int n) {
    char text[PLAN_NAME];
    plan_ops_name(c->plan, first, n, text);
    const char *copy = arena_strdup(&c->b->arena, text, strlen(text));
    return copy ? copy : op_name(c->plan->op[first].kind);
}

// ---------------------------------------------------------------- the list

// Adds the stages of the op; the number of ops that they cover.
static int op_add(struct compiler *c, int index) {
    const struct op *op = &c->plan->op[index];
    switch (op->kind) {
    case OP_EMBED:
        embed_add(c, op);
        return 1;
    case OP_GATHER:
        gather_add(c, op, true);
        return 1;
    case OP_NORM:
        norm_add(c, op, 0);
        return 1;
    case OP_MATMUL:
    case OP_EXPERTS:
        return product_add(c, index);
    case OP_ROPE:
        rope_add(c, op);
        return 1;
    case OP_KV_APPEND:
        return append_add(c, index);
    case OP_ATTENTION:
        attention_add(c, index);
        return 1;
    case OP_GATE:
        gate_add(c, index);
        return 1;
    case OP_ROUTE:
        return route_add(c, index);
    case OP_COMBINE:
        combine_add(c, op);
        return 1;
    case OP_SOFTCAP:
        softcap_add(c, op);
        return 1;
    case OP_TEMPER:
        temper_add(c, op);
        return 1;
    case OP_INPUT:
        input_add(c, op);
        return 1;
    case OP_HEADS:
        heads_add(c, op);
        return 1;
    case OP_CONV:
    case OP_DELTA:
    case OP_SCAN:
        state_add(c, op);
        return 1;
    case OP_COLUMNS:
        columns_add(c, op);
        return 1;
    case OP_COUNT:
        break;
    }
    return 1;
}

static void begin_add(struct compiler *c) {
    struct stage *s = stage_add(c, STAGE_PAGES, NULL, "pages");
    s->flags = STAGE_JOINS;
    for (int r = 0; r < c->plan->n_rope; r++) {
        const struct plan_rope *rope = &c->plan->rope[r];
        if (!plan_rope_is_used(c->plan, r, c->first > 0)) continue;
        s = stage_add(c, STAGE_ROPE_TABLE, NULL, "rope table");
        s->flags = STAGE_JOINS;
        s->row = (struct stage_rows_op){
            .out = (float *)(void *)(c->b->memory + c->b->layout.rope_at[r]),
            .inv_freq = (const float *)(const void *)(c->b->weights + c->b->layout.inv_freq_at[r]),
            .n_rot = rope->n_rot,
            .offset = rope->ahead,
            .magnitude = rope->magnitude};
    }
}

// Marks ops that others take over, before any stage is written.
static void fold(struct compiler *c) {
    const struct plan *plan = c->plan;
    for (int i = c->first; i < c->end; i++) {
        c->norm_of[i] = PLAN_NONE;
        c->is_folded[i] = false;
    }
    for (int i = c->first; i < c->end; i++) {
        int n_before, n_after;
        if (plan->op[i].kind == OP_NORM) norm_fold(c, i);
        if (gated_norm_of(c, i + 1)) c->is_folded[i] = true;
        if (plan->op[i].kind != OP_ATTENTION && plan->op[i].kind != OP_KV_APPEND) continue;
        attention_takes(c, i, &n_before, &n_after);
        for (int k = 1; k <= n_before; k++) c->is_folded[i - k] = true;
        i += n_after; // an append has its attention with it
    }
}

// Stages of one launch are row stages. Pages and tables of rope join the first op behind them.
static void joins_check(struct compiler *c) {
    struct stage *stage = c->list->stage;
    for (int i = 0; i < c->list->n; i++) {
        const int next = i + 1 < c->list->n ? stage[i + 1].kind : STAGE_PRODUCT;
        const bool begins = stage[i].kind == STAGE_PAGES || stage[i].kind == STAGE_ROPE_TABLE;
        const bool joins =
            begins ? next == STAGE_ROPE_TABLE || next == STAGE_EMBED || next == STAGE_INPUT
                   : next == STAGE_GATHER;
        if (!joins) stage[i].flags &= ~STAGE_JOINS;
    }
}

// is_draft: of the draft block, whose biases of pairs follow the model's.
static rn_status list_make(struct compiler *c, struct cuda_list *list, bool is_small,
                           bool is_draft) {
    const struct plan *plan = c->plan;
    c->list = list;
    c->is_small = list->is_small = is_small;
    c->first = is_draft ? plan->n_op : 0;
    c->end = is_draft ? plan->n_op_all : plan->n_op;
    if (!is_draft) c->pair_bias_at = c->b->layout.pair_bias_at;
    fold(c);
    begin_add(c);
    for (int i = c->first, n; i < c->end && !c->status; i += n) {
        n = 1;
        if (c->is_folded[i]) {
            if (plan->op[i].out == plan->hidden) norm_add(c, &plan->op[i], STAGE_IF_HIDDEN);
        } else {
            n = op_add(c, i);
        }
    }
    joins_check(c);
    if (c->status) return c->status;
    const uint64_t bytes = (uint64_t)list->n * sizeof *list->stage;
    cudaError_t code = cudaMalloc((void **)&list->device, bytes);
    if (!code) code = cudaMemcpy(list->device, list->stage, bytes, cudaMemcpyHostToDevice);
    return code ? cuda_fault(code, RN_ERR_NOMEM, "uploading the program", c->err) : RN_OK;
}

// The constant parts of memory. Buffers are zero where no op writes: columns that pad rows.
static rn_status constants_upload(struct compiler *c) {
    struct cuda_backend *b = c->b;
    cudaError_t code = cudaMemset(b->memory, 0, b->layout.step_bytes);
    for (int r = 0; r < c->plan->n_rope && !code; r++)
        code =
            cudaMemcpy(b->weights + b->layout.inv_freq_at[r], c->plan->rope[r].inv_freq,
                       (size_t)c->plan->rope[r].n_rot / 2 * sizeof(float), cudaMemcpyHostToDevice);
    const size_t n = (size_t)b->layout.n_constants;
    float *values = malloc((n + 1) * sizeof *values);
    if (!values) return err_set(c->err, RN_ERR_NOMEM, "no memory for %zu constants", n);
    for (int value = 0; value < 2 && !code; value++) {
        for (size_t i = 0; i < n; i++) values[i] = (float)value;
        code = cudaMemcpy(b->weights + b->layout.constant_at[value], values, n * sizeof *values,
                          cudaMemcpyHostToDevice);
    }
    free(values);
    return code ? cuda_fault(code, RN_ERR_IO, "uploading constants", c->err) : RN_OK;
}

rn_status cuda_program_make(struct cuda_backend *b, rn_error *err) {
    const size_t n = (size_t)b->plan->n_op_all;
    struct compiler c = {.b = b, .plan = b->plan, .err = err};
    c.norm_of = calloc(n + 1, sizeof *c.norm_of);
    c.is_folded = calloc(n + 1, sizeof *c.is_folded);
    rn_status status = c.norm_of && c.is_folded
                           ? constants_upload(&c)
                           : err_set(err, RN_ERR_NOMEM, "no memory to compile %zu ops", n);
    for (int i = 0; i < 2 * CUDA_PARTS && !status; i++)
        status =
            list_make(&c, &b->list[i / CUDA_PARTS][i % CUDA_PARTS], i < CUDA_PARTS, i % CUDA_PARTS);
    if (!status) cuda_attention_kinds(b);
    free(c.norm_of);
    free(c.is_folded);
    return status;
}

void cuda_program_free(struct cuda_backend *b) {
    for (int i = 0; i < 2 * CUDA_PARTS; i++) {
        struct cuda_list *list = &b->list[i / CUDA_PARTS][i % CUDA_PARTS];
        free(list->stage);
        free(list->name);
        cudaFree(list->device);
    }
}

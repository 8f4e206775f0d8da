// Memory of the CPU backend: one region for buffers and scratch, one per KV group. The same code
// first measures and then assigns, so the two cannot disagree.
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/checked.h"

enum { PARTS_MAX_FLOATS = 64 << 20 };

static uint64_t max64(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t domain_rows(const struct cpu_backend *b, enum row_domain rows) {
    return (uint64_t)(rows == ROWS_LOGITS ? b->max_logits : b->max_tokens);
}

static void carve_buffers(struct cpu_backend *b, struct region_carver *carver) {
    for (int i = 0; i < b->plan->n_buffer; i++) {
        const struct plan_buffer *buffer = &b->plan->buffer[i];
        b->buffer[i].ld = ((int64_t)buffer->width + 15) / 16 * 16;
        uint64_t floats = 0;
        if (!ck_mul((uint64_t)b->buffer[i].ld, domain_rows(b, buffer->rows), &floats) ||
            !ck_mul(floats, (uint64_t)buffer->slots, &floats))
            carver->overflow = true;
        b->buffer[i].data = region_carve(carver, floats, sizeof(float));
    }
    for (int i = 0; i < b->plan->n_rope; i++)
        b->rope_table[i] = region_carve(carver, (uint64_t)b->max_tokens,
                                        (uint64_t)b->plan->rope[i].n_rot * sizeof(float));
}

// Rows that a product takes: one per row of its domain, or per pair of a row and an expert or head.
static uint64_t product_rows(const struct cpu_backend *b, const struct op *op) {
    if (op->kind == OP_HEADS) return domain_rows(b, op->rows) * (uint64_t)op->heads.n;
    return domain_rows(b, op->rows) * (uint64_t)b->plan->buffer[op->out].slots;
}

// Room for the widest input of a block format, and for the widest that experts gather.
static void carve_inputs(struct cpu_backend *b, struct region_carver *carver) {
    uint64_t quantized = 0, gathered = 0;
    for (int i = 0; i < b->plan->n_op_all; i++) {
        const struct op *op = &b->plan->op[i];
        if (!op_is_product(op->kind)) continue;
        const struct plan_weight *weight = &b->plan->weight[op->weight];
        uint64_t n;
        if (!ck_mul(product_rows(b, op), (uint64_t)weight->cols, &n)) carver->overflow = true;
        if (format_at(weight->format)->span != 0)
            quantized = max64(quantized, n);
        else if (op->kind == OP_EXPERTS)
            gathered = max64(gathered, n);
        if (op->kind == OP_EXPERTS && op->experts.weighs_input) gathered = max64(gathered, n);
    }
    b->xq = region_carve(carver, quantized, sizeof *b->xq);
    b->xd = region_carve(carver, quantized / 32, sizeof *b->xd);
    b->xsum = region_carve(carver, quantized / 16, sizeof *b->xsum);
    b->xg = region_carve(carver, gathered, sizeof *b->xg);
    b->matmul_scratch = region_carve(carver, (uint64_t)pool_size(b->pool), MATMUL_SCRATCH_BYTES);
}

static void carve_route(struct cpu_backend *b, struct region_carver *carver) {
    uint64_t pairs = 0, experts = 0;
    for (int i = 0; i < b->plan->n_op_all; i++) {
        const struct op *op = &b->plan->op[i];
        if (op->kind != OP_ROUTE) continue;
        pairs = max64(pairs, domain_rows(b, op->rows) * (uint64_t)op->route.n_used);
        experts = max64(experts, (uint64_t)b->plan->buffer[op->in[0]].width);
    }
    b->route.row = region_carve(carver, pairs, sizeof *b->route.row);
    b->route.pair = region_carve(carver, pairs, sizeof *b->route.pair);
    b->route.first = region_carve(carver, experts + 1, sizeof *b->route.first);
    b->route.active = region_carve(carver, experts, sizeof *b->route.active);
}

// Floats for the parts of tiles that are cut: each page of the group once, PART_ROWS rows of all
// heads on it, and the split that a sequence has begun. Sequences that share pages may want more;
// then some tiles stay whole. Only used pages take memory.
static uint64_t parts_floats(const struct cpu_backend *b, const struct op *op, uint64_t n_pages) {
    enum { PART_ROWS = 8 };
    const struct plan_kv_group *group = &b->plan->group[op->kv.group];
    const int64_t queries = (int64_t)PART_ROWS * (op->kv.n_head / group->n_head_kv);
    const uint64_t splits = n_pages / ATTENTION_SPLIT_PAGES + (uint64_t)b->max_seqs;
    uint64_t n = (uint64_t)attention_part_floats(queries, group->dim_v);
    if (!ck_mul(n, (uint64_t)group->n_head_kv, &n) || !ck_mul(n, splits, &n)) return 0;
    return n < PARTS_MAX_FLOATS ? n : PARTS_MAX_FLOATS;
}

static void carve_attention(struct cpu_backend *b, const struct backend_config *config,
                            struct region_carver *carver) {
    uint64_t parts = 0, heads = 0;
    b->attention_floats = 0;
    for (int i = 0; i < b->plan->n_op_all; i++) {
        const struct op *op = &b->plan->op[i];
        if (op->kind != OP_ATTENTION) continue;
        const struct plan_kv_group *group = &b->plan->group[op->kv.group];
        const int64_t queries =
            (int64_t)cpu_tile_rows(b->plan, op) * (op->kv.n_head / group->n_head_kv);
        const int64_t n =
            (group->is_latent ? attention_scratch_latent : attention_scratch)(queries, group->dim_k,
                                                                              group->dim_v);
        if (n > b->attention_floats) b->attention_floats = (n + 15) / 16 * 16;
        parts = max64(parts, parts_floats(b, op, config->n_pages[op->kv.group]));
        heads = max64(heads, (uint64_t)group->n_head_kv);
    }
    b->attention = region_carve(carver, (uint64_t)pool_size(b->pool),
                                (uint64_t)b->attention_floats * sizeof(float));
    b->parts_floats = pool_size(b->pool) > 1 ? (int64_t)parts : 0;
    b->parts = region_carve(carver, (uint64_t)b->parts_floats, sizeof(float));
    const uint64_t rows = (uint64_t)b->max_tokens;
    b->tile = region_carve(carver, rows, sizeof *b->tile);
    b->ranges_left = region_carve(carver, rows, heads * sizeof *b->ranges_left);
    b->row_seq = region_carve(carver, rows, sizeof *b->row_seq);
    b->out_pos = region_carve(carver, rows, sizeof *b->out_pos);
}

static void carve_vector(struct cpu_backend *b, int index, struct region_carver *carver) {
    if (index == PLAN_NONE || b->weight[index].vector) return;
    const struct plan_weight *weight = &b->plan->weight[index];
    b->weight[index].vector =
        region_carve(carver, (uint64_t)(weight->rows * weight->cols), sizeof(float));
}

// Ones and zeros stand for the weight and the bias that some norms are without.
static void carve_constants(struct cpu_backend *b, struct region_carver *carver) {
    int n = 0;
    for (int i = 0; i < b->plan->n_op_all; i++) {
        const struct op *op = &b->plan->op[i];
        const bool wanted = op->weight == PLAN_NONE || op->norm.kind == NORM_LAYER_PLAIN;
        if (op->kind == OP_NORM && wanted && op->norm.group > n) n = op->norm.group;
    }
    if (n == 0) return;
    float *ones = region_carve(carver, (uint64_t)n, sizeof(float));
    float *zeros = region_carve(carver, (uint64_t)n, sizeof(float));
    if (!ones || !zeros) return;
    for (int i = 0; i < n; i++) {
        ones[i] = 1;
        zeros[i] = 0;
    }
    b->ones = ones;
    b->zeros = zeros;
}

// A row of a cold table for each thread.
static void carve_cold(struct cpu_backend *b, struct region_carver *carver) {
    const struct plan *plan = b->plan;
    b->cold_bytes = 0;
    for (int i = 0; i < plan->n_weight; i++)
        if (plan->weight[i].is_cold && plan_on_disk(plan, &plan->weight[i]))
            b->cold_bytes = max64(b->cold_bytes,
                                  format_row_bytes(plan->weight[i].format, plan->weight[i].cols));
    b->cold_row = region_carve(carver, (uint64_t)pool_size(b->pool), b->cold_bytes);
}

// The taps of a convolution, [channels, taps] in the file: a row for each tap.
static void taps_decode(const struct plan_weight *weight, const uint8_t *data, float *vector) {
    const int64_t n = weight->rows, taps = weight->cols;
    const uint64_t row_bytes = format_row_bytes(weight->format, taps);
    for (int64_t c = 0; c < n; c++) {
        float row[PLAN_MAX_TAPS];
        format_decode(weight->format, data + (uint64_t)c * row_bytes, row, taps);
        for (int64_t t = 0; t < taps; t++) vector[t * n + c] = row[t];
    }
}

static rn_status vector_load(const struct cpu_backend *b, int index, bool is_taps, rn_error *err) {
    const struct plan *plan = b->plan;
    const struct plan_weight *weight = &plan->weight[index];
    float *vector = (float *)(uintptr_t)b->weight[index].vector;
    const void *at = weight->data;
    uint8_t *buffer = malloc(weight->bytes ? weight->bytes : 1);
    rn_status status =
        buffer ? RN_OK : err_set(err, RN_ERR_NOMEM, "no memory for %s", weight->name);
    if (!status && plan->fetch)
        status = plan->fetch(plan->fetch_ctx, weight->data, weight->bytes, buffer, &at, err);
    if (!status && is_taps)
        taps_decode(weight, at, vector);
    else if (!status)
        format_decode(weight->format, at, vector, weight->rows * weight->cols);
    free(buffer);
    return status;
}

static rn_status vectors_load(const struct cpu_backend *b, rn_error *err) {
    bool is_taps = false;
    rn_status status = RN_OK;
    for (int i = 0; i < b->plan->n_weight && !status; i++) {
        if (!b->weight[i].vector) continue;
        for (int k = 0; k < b->plan->n_op_all; k++) {
            is_taps = b->plan->op[k].kind == OP_CONV && b->plan->op[k].weight == i;
            if (is_taps) break;
        }
        status = vector_load(b, i, is_taps, err);
    }
    return status;
}

static void carve_all(struct cpu_backend *b, const struct backend_config *config,
                      struct region_carver *carver) {
    carve_buffers(b, carver);
    carve_inputs(b, carver);
    carve_route(b, carver);
    carve_attention(b, config, carver);
    carve_constants(b, carver);
    carve_cold(b, carver);
    for (int i = 0; i < b->plan->n_op_all; i++) {
        const struct op *op = &b->plan->op[i];
        if (op->kind == OP_NORM || op->kind == OP_ATTENTION || op->kind == OP_ROUTE)
            carve_vector(b, op->weight, carver);
        if (op->kind == OP_DELTA || op->kind == OP_SCAN) carve_vector(b, op->weight, carver);
        if (op->kind == OP_SCAN) carve_vector(b, op->state.skip, carver);
        if (op->kind == OP_CONV) carve_vector(b, op->weight, carver);
        carve_vector(b, op->bias, carver);
    }
}

static rn_status map_kv(struct cpu_backend *b, const struct backend_config *config, rn_error *err) {
    for (int g = 0; g < b->plan->n_group_all; g++) {
        uint64_t bytes;
        b->page_bytes[g] = kv_page_bytes(&b->plan->group[g], b->kv_type, b->bf16_states);
        if (!ck_mul(b->page_bytes[g], config->n_pages[g], &bytes)) bytes = UINT64_MAX;
        const rn_status status =
            region_map(bytes, true, "the KV pages; a smaller context needs less", &b->kv[g], err);
        if (status) return status;
    }
    return RN_OK;
}

rn_status cpu_layout(struct cpu_backend *b, const struct backend_config *config, rn_error *err) {
    b->weight = arena_array(&b->arena, (size_t)b->plan->n_weight + 1, sizeof *b->weight);
    b->buffer = arena_array(&b->arena, (size_t)b->plan->n_buffer + 1, sizeof *b->buffer);
    b->rope_table = arena_array(&b->arena, (size_t)b->plan->n_rope + 1, sizeof *b->rope_table);
    if (!b->weight || !b->buffer || !b->rope_table)
        return err_set(err, RN_ERR_NOMEM, "cannot allocate the tables of the CPU backend");
    struct region_carver carver = {0};
    carve_all(b, config, &carver);
    const uint64_t bytes = carver.overflow ? UINT64_MAX : carver.used;
    rn_status status =
        region_map(bytes, true, "the buffers of a step; fewer batch tokens need less", &b->memory,
                   err);
    if (status) return status;
    carver = (struct region_carver){.base = b->memory.base};
    carve_all(b, config, &carver);
    status = vectors_load(b, err);
    return status ? status : map_kv(b, config, err);
}

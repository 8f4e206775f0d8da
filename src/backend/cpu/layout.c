// Memory of the CPU backend: one region for buffers and scratch, one per KV group. The same code
// first measures and then assigns, so the two cannot disagree.
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

// A vector is used in place if it is f32 already (files may align tensors to a byte).
static void carve_vector(struct cpu_backend *b, int index, struct region_carver *carver) {
    if (index == PLAN_NONE || b->weight[index].vector) return;
    const struct plan_weight *weight = &b->plan->weight[index];
    if (weight->format == FORMAT_F32 && (uintptr_t)weight->data % sizeof(float) == 0) {
        b->weight[index].vector = weight->data;
        return;
    }
    float *vector = region_carve(carver, (uint64_t)(weight->rows * weight->cols), sizeof(float));
    if (!vector) return;
    format_decode(weight->format, weight->data, vector, weight->rows * weight->cols);
    b->weight[index].vector = vector;
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

// The taps of a convolution, [channels, taps] in the file: a row for each tap.
static void carve_taps(struct cpu_backend *b, int index, struct region_carver *carver) {
    const struct plan_weight *weight = &b->plan->weight[index];
    const int64_t n = weight->rows, taps = weight->cols;
    float *vector = region_carve(carver, (uint64_t)(n * taps), sizeof(float));
    if (!vector) return;
    const uint64_t row_bytes = format_row_bytes(weight->format, taps);
    for (int64_t c = 0; c < n; c++) {
        float row[PLAN_MAX_TAPS];
        format_decode(weight->format, (const uint8_t *)weight->data + (uint64_t)c * row_bytes, row,
                      taps);
        for (int64_t t = 0; t < taps; t++) vector[t * n + c] = row[t];
    }
    b->weight[index].vector = vector;
}

static void carve_all(struct cpu_backend *b, const struct backend_config *config,
                      struct region_carver *carver) {
    carve_buffers(b, carver);
    carve_inputs(b, carver);
    carve_route(b, carver);
    carve_attention(b, config, carver);
    carve_constants(b, carver);
    for (int i = 0; i < b->plan->n_op_all; i++) {
        const struct op *op = &b->plan->op[i];
        if (op->kind == OP_NORM || op->kind == OP_ATTENTION || op->kind == OP_ROUTE)
            carve_vector(b, op->weight, carver);
        if (op->kind == OP_DELTA || op->kind == OP_SCAN) carve_vector(b, op->weight, carver);
        if (op->kind == OP_SCAN) carve_vector(b, op->state.skip, carver);
        if (op->kind == OP_CONV) carve_taps(b, op->weight, carver);
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
    return map_kv(b, config, err);
}

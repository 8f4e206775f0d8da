// Products: the norms that are fused into them, their inputs, pairs and the stages that run
// several.
#include <assert.h>

#include "backend/cuda/program.h"

// ---------------------------------------------------------------- what is fused into what

void norm_fold(struct compiler *c, int index) {
    const struct plan *plan = c->plan;
    const struct op *norm = &plan->op[index];
    const int width = plan->buffer[norm->out].width;
    if (norm->norm.add || norm->norm.group != width || norm->in[0] == norm->out) return;
    if (norm->norm.scale != 0) return;
    if (plan->buffer[norm->out].slots != 1) return;
    int last = index;
    for (int i = index + 1; i < c->end; i++) {
        const struct op *op = &plan->op[i];
        if (cuda_reads(op, norm->out)) {
            if (!cuda_is_product(op) || op->in[0] != norm->out || op->in[1] == norm->out ||
                op->out == norm->out)
                return;
            last = i;
        }
        if (writes(op, norm->out)) break;
    }
    if (last == index && norm->out != plan->hidden) return;
    for (int i = index + 1; i < last; i++) // the last product may write the norm's input
        if (writes(&plan->op[i], norm->in[0])) return;
    for (int i = index + 1; i <= last; i++)
        if (cuda_is_product(&plan->op[i]) && plan->op[i].in[0] == norm->out) c->norm_of[i] = index;
    c->is_folded[index] = true;
}

// ---------------------------------------------------------------- inputs of products

// The op that wrote the rows which `index` reads from `buffer`.
static int writer_of(const struct compiler *c, int index, int buffer) {
    for (int i = index - 1; i >= c->first; i--)
        if (writes(&c->plan->op[i], buffer)) return i;
    return PLAN_NONE;
}

bool is_written_as_16(const struct compiler *c, int writer, int *type) {
    if (writer == PLAN_NONE) return false;
    const struct op *op = &c->plan->op[writer];
    if (op->kind != OP_ATTENTION && op->kind != OP_GATE) return false;
    // a larger step's rows of experts have places of their own, which a gate alone does not know
    if (!c->is_small && c->plan->buffer[op->out].slots > 1 && !c->is_folded[writer]) return false;
    return cuda_only_products_read(c->plan, writer, type);
}

// The op that wrote the route of an EXPERTS.
static const struct op *route_of(const struct compiler *c, int index) {
    const int writer = writer_of(c, index, c->plan->op[index].in[1]);
    assert(writer != PLAN_NONE && c->plan->op[writer].kind == OP_ROUTE);
    return &c->plan->op[writer];
}

struct route_table route_of_experts(const struct compiler *c, int index) {
    const struct op *route = route_of(c, index);
    return route_table_of(c, c->plan->buffer[route->in[0]].width, route->route.n_used);
}

void prepare_input(struct compiler *c, int index, bool always) {
    const struct plan *plan = c->plan;
    const struct op *op = &plan->op[index];
    const int type = cuda_input_type(plan, op), norm = c->norm_of[index];
    const int source = norm == PLAN_NONE ? op->in[0] : plan->op[norm].in[0];
    int written;
    if (norm == PLAN_NONE && is_written_as_16(c, writer_of(c, index, op->in[0]), &written)) return;
    const struct plan_buffer *buffer = &plan->buffer[source];
    struct stage *s = stage_add(c, STAGE_PREPARE, op, "input");
    if (norm != PLAN_NONE) s->rows = (int)plan->op[norm].rows;
    s->ops = OPS_OTHER;
    s->flags = c->is_small && !always ? STAGE_IF_UNFIT : 0;
    s->row = (struct stage_rows_op){.in = buffer_f32(c, source),
                                    .out16 = rows16_of(c, op->in[0], type),
                                    .ld_in = ld_of(c, source),
                                    .width = buffer->width,
                                    .slots = buffer->slots,
                                    .input = norm == PLAN_NONE ? INPUT_F32
                                                               : norm_input(&plan->op[norm])};
    if (norm != PLAN_NONE) s->row.norm = norm_by_of(c, &plan->op[norm]);
    if (op->kind != OP_EXPERTS || c->is_small) return;
    const struct route_table route = route_of_experts(c, index);
    s->row.position = route.position;
    s->row.n_position = plan->buffer[op->in[0]].has_slots ? 1 : route.n_used;
}

// ---------------------------------------------------------------- products

// The biases of a pair: gates, then factors; of experts for each one.
static const float *pair_bias(struct compiler *c, const struct op *a, const struct op *b) {
    const struct plan_weight *weight = &c->plan->weight[a->bias];
    const struct plan_weight *matrix = &c->plan->weight[a->weight];
    const uint64_t n = matrix->n_expert ? (uint64_t)matrix->n_expert : 1;
    const uint64_t part = (uint64_t)(weight->rows * weight->cols) / n * sizeof(float);
    uint8_t *to = c->b->weights + c->pair_bias_at;
    for (uint64_t e = 0; e < n && !c->status; e++) {
        const struct op *both[2] = {a, b};
        for (int i = 0; i < 2; i++) {
            const uint8_t *from = (const uint8_t *)vector_of(c, both[i]->bias) + e * part;
            const cudaError_t code =
                cudaMemcpy(to + (2 * e + (uint64_t)i) * part, from, part, cudaMemcpyDeviceToDevice);
            if (code) c->status = cuda_fault(code, RN_ERR_IO, "copying biases", c->err);
        }
    }
    c->pair_bias_at += (2 * n * part + 255) / 256 * 256;
    return (const float *)(const void *)to;
}

static void product_init(struct compiler *c, struct product *p, int index) {
    const struct plan *plan = c->plan;
    const struct op *op = &plan->op[index];
    const struct plan_weight *weight = &plan->weight[op->weight];
    const struct cuda_weight *w = &c->b->layout.weight[op->weight];
    int second;
    const struct op *gate = cuda_pair_of(plan, index, &second);
    *p = (struct product){.weight = c->b->weights + w->at,
                          .codec = (int)w->codec,
                          .n_tiles = (int)w->n_tiles,
                          .n_rows = (int)weight->rows,
                          .unit_bytes = codec_at(w->codec)->unit_bytes,
                          .scale = op->kind == OP_MATMUL ? op->matmul.scale : 1.0f,
                          .add = op->kind == OP_MATMUL && op->matmul.add};
    if (weight->n_expert)
        p->expert = (const uint8_t *const *)(const void *)(c->b->weights + w->table_at);
    if (gate) {
        int type = 0;
        cuda_only_products_read(plan, second + 1, &type);
        p->gate = 1 + (int)gate->gate;
        p->out16 = rows16_of(c, gate->out, type);
        if (op->bias != PLAN_NONE) p->bias = pair_bias(c, op, &plan->op[second]);
        c->is_folded[second] = c->is_folded[second + 1] = true;
        return;
    }
    p->out = buffer_f32(c, op->out);
    p->ld = ld_of(c, op->out);
    p->bias = vector_of(c, op->bias);
    const struct op *next = index + 1 < c->end ? op + 1 : NULL;
    if (next && next->kind == OP_SOFTCAP && next->out == op->out && !p->add) {
        p->softcap = next->softcap.cap;
        c->is_folded[index + 1] = true;
    }
}

// Whether the product at `index` can run in one stage with those from `first` on.
static bool joins(const struct compiler *c, int first, int index) {
    const struct op *a = &c->plan->op[first], *b = &c->plan->op[index];
    int second;
    if (b->kind != a->kind || b->in[0] != a->in[0] || b->in[1] != a->in[1] || b->rows != a->rows)
        return false;
    if (c->norm_of[index] != c->norm_of[first] || cuda_weighs(a) != cuda_weighs(b)) return false;
    if (cuda_input_type(c->plan, a) != cuda_input_type(c->plan, b)) return false;
    if (c->plan->weight[a->weight].n_expert != c->plan->weight[b->weight].n_expert) return false;
    if (cuda_pair_of(c->plan, index, &second) || cuda_pair_of(c->plan, first, &second))
        return false;
    for (int i = first; i < index; i++)
        if (c->plan->op[i].out == b->out || c->plan->op[i].out == b->in[0]) return false;
    const int source =
        c->norm_of[first] == PLAN_NONE ? a->in[0] : c->plan->op[c->norm_of[first]].in[0];
    for (int i = first; i <= index; i++)
        if (c->plan->op[i].out == source && i < index) return false;
    return true;
}

int product_fill(struct compiler *c, struct stage_product *p, int index) {
    const struct plan *plan = c->plan;
    const struct op *op = &plan->op[index];
    const bool weighs = cuda_weighs(op);
    const int norm = c->norm_of[index], type = cuda_input_type(plan, op);
    const struct plan_weight *weight = &plan->weight[op->weight];
    int n = 1, written;
    const int source = norm == PLAN_NONE ? op->in[0] : plan->op[norm].in[0];
    const bool is_16 =
        norm == PLAN_NONE && is_written_as_16(c, writer_of(c, index, op->in[0]), &written);
    *p = (struct stage_product){.x = buffer_f32(c, source),
                                .x16 = rows16_of(c, op->in[0], type),
                                .cols = (int)weight->cols,
                                .n_units = (int)codec_units(weight->cols),
                                .ldx = ld_of(c, source),
                                .input = is_16               ? INPUT_16
                                         : norm == PLAN_NONE ? INPUT_F32
                                                             : norm_input(&plan->op[norm])};
    if (norm != PLAN_NONE) p->norm = norm_by_of(c, &plan->op[norm]);
    if (op->kind == OP_EXPERTS) {
        p->is_routed = 1;
        p->route = route_of_experts(c, index);
        p->slots_in = plan->buffer[op->in[0]].has_slots || weighs;
        if (weighs) p->x16 = weighed_rows(c, op);
    }
    while (n < MAX_PRODUCTS && index + n < c->end && joins(c, index, index + n)) n++;
    for (int i = 0; i < n; i++) {
        product_init(c, &p->product[i], index + i);
        p->n_tiles += p->product[i].n_tiles;
    }
    p->n_products = n;
    return n;
}

int product_add(struct compiler *c, int index) {
    const struct plan *plan = c->plan;
    const struct op *op = &plan->op[index];
    const bool is_experts = op->kind == OP_EXPERTS, weighs = cuda_weighs(op);
    const int norm = c->norm_of[index], type = cuda_input_type(plan, op);
    // the first product of an input prepares it
    if (index == c->first || !cuda_is_product(op - 1) || (op - 1)->in[0] != op->in[0] ||
        cuda_input_type(plan, op - 1) != type || c->norm_of[index - 1] != norm ||
        (op - 1)->kind != op->kind || cuda_weighs(op - 1) != weighs) {
        if (weighs)
            weigh_add(c, index);
        else
            prepare_input(c, index, is_experts);
    }
    struct stage *s = stage_add(c, STAGE_PRODUCT, op, plan->weight[op->weight].name);
    const int n = product_fill(c, &s->product, index);
    int second;
    const bool is_pair = cuda_pair_of(plan, index, &second) != NULL;
    c->list->name[c->list->n - 1] = name_of(c, index, is_pair ? 2 : n);
    return n;
}

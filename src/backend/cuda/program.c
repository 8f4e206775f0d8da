// Compiles the plan into lists of stages: `small` for steps of up to SMALL_ROWS rows, and `wide`
// for larger ones. Both perform the same operations on a row. They differ in the place of a
// product's input (shared memory, or rows that a stage prepared) and of keys (appended by attention
// itself, or by a stage before it).
//
// What is fused: a norm of whole rows into the products that read it; two products and their gate;
// a soft cap into its product; norms of heads, rope and the append into attention.
#include <assert.h>
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

// ---------------------------------------------------------------- what is fused into what

// A norm of whole rows whose readers are products. Its input stays as it is until the last of them.
static void fold_norm(struct compiler *c, int index) {
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

// Whether each group of a row has weights of its own.
static bool has_weight_per_element(const struct plan *plan, const struct op *norm) {
    if (norm->weight == PLAN_NONE) return false;
    const struct plan_weight *weight = &plan->weight[norm->weight];
    return weight->rows * weight->cols > norm->norm.group;
}

// ---------------------------------------------------------------- inputs of products

// A norm without a weight has ones, so its kernels are those of other norms.
static const float *norm_weight(const struct compiler *c, const struct op *norm) {
    return norm->weight == PLAN_NONE ? constants_of(c, 1) : vector_of(c, norm->weight);
}

int norm_input(const struct op *norm) {
    return norm->norm.kind == NORM_RMS ? INPUT_RMS : INPUT_LAYER;
}

struct norm_by norm_by_of(const struct compiler *c, const struct op *norm) {
    const bool is_layer = norm->norm.kind != NORM_RMS;
    return (struct norm_by){.weight = norm_weight(c, norm),
                            .bias = !is_layer                 ? NULL
                                    : norm->bias == PLAN_NONE ? constants_of(c, 0)
                                                              : vector_of(c, norm->bias),
                            .eps = norm->norm.eps,
                            .is_layer = is_layer};
}

// The op that wrote the rows which `index` reads from `buffer`.
static int writer_of(const struct compiler *c, int index, int buffer) {
    for (int i = index - 1; i >= c->first; i--)
        if (writes(&c->plan->op[i], buffer)) return i;
    return PLAN_NONE;
}

// Attention and gates write 16-bit rows where only products of one type read them.
static bool is_written_as_16(const struct compiler *c, int writer, int *type) {
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

static int product_add(struct compiler *c, int index) {
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

// ---------------------------------------------------------------- attention

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
                                .window = group->kind == KV_FULL ? 0 : group->window,
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

static void gather_add(struct compiler *c, const struct op *op, bool waits) {
    struct stage *s = stage_add(c, STAGE_GATHER, op, "gather");
    s->flags = waits ? 0 : STAGE_JOINS;
    s->row = (struct stage_rows_op){.in = buffer_f32(c, op->in[0]),
                                    .out = buffer_f32(c, op->out),
                                    .ld_in = ld_of(c, op->in[0]),
                                    .ld_out = ld_of(c, op->out),
                                    .width = c->plan->buffer[op->out].width};
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

static void alone_add(struct compiler *c, int index) {
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

static void append_alone_add(struct compiler *c, int index) {
    const struct op *op = &c->plan->op[index];
    const struct heads h = {.append = op};
    struct stage *s = stage_add(c, STAGE_APPEND, op, "append");
    s->attention = attention_of(c, &h);
    if (s->attention.is_latent) latent_set(c, index, &s->attention);
}

// ---------------------------------------------------------------- the other ops

static void embed_add(struct compiler *c, const struct op *op) {
    const struct cuda_weight *w = &c->b->layout.weight[op->weight];
    struct stage *s = stage_add(c, STAGE_EMBED, op, "embed");
    s->row = (struct stage_rows_op){.out = buffer_f32(c, op->out),
                                    .ld_out = ld_of(c, op->out),
                                    .width = c->plan->buffer[op->out].width,
                                    .add = op->embed.add,
                                    .positions = op->embed.positions,
                                    .scale = op->embed.scale,
                                    .codec = (int)w->codec,
                                    .unit_bytes = codec_at(w->codec)->unit_bytes,
                                    .n_units = w->n_units,
                                    .n_rows_table = (int)c->plan->weight[op->weight].rows,
                                    .table = c->b->weights + w->at};
}

// Rows that the batch brings.
static void input_add(struct compiler *c, const struct op *op) {
    struct stage *s = stage_add(c, STAGE_INPUT, op, "input");
    s->row = (struct stage_rows_op){.out = buffer_f32(c, op->out),
                                    .ld_out = ld_of(c, op->out),
                                    .width = c->plan->buffer[op->out].width};
}

static void norm_add(struct compiler *c, const struct op *op, int flags) {
    struct stage *s = stage_add(c, STAGE_NORM, op, "norm");
    s->flags = flags;
    s->row = (struct stage_rows_op){.in = buffer_f32(c, op->in[0]),
                                    .out = buffer_f32(c, op->out),
                                    .ld_in = ld_of(c, op->in[0]),
                                    .ld_out = ld_of(c, op->out),
                                    .width = c->plan->buffer[op->out].width,
                                    .group = op->norm.group,
                                    .add = op->norm.add,
                                    .scale = op->norm.scale,
                                    .input = norm_input(op),
                                    .norm = norm_by_of(c, op)};
    if (has_weight_per_element(c->plan, op)) s->row.weight_step = op->norm.group;
}

static void rope_add(struct compiler *c, const struct op *op) {
    const struct plan_rope *rope = &c->plan->rope[op->rope.rope];
    struct stage *s = stage_add(c, STAGE_ROPE, op, "rope");
    s->row = (struct stage_rows_op){
        .in2 = (const float *)(const void *)(c->b->memory + c->b->layout.rope_at[op->rope.rope]),
        .out = buffer_f32(c, op->out),
        .ld_out = ld_of(c, op->out),
        .n_head = op->rope.n_head,
        .dim = op->rope.dim,
        .from = op->rope.from,
        .n_rot = rope->n_rot,
        .halves = rope->style == ROPE_HALVES};
}

static_assert((int)GATE_KIND_XIELU == (int)GATE_XIELU, "kernels have the plan's number");

static void gate_add(struct compiler *c, int index) {
    const struct op *op = &c->plan->op[index];
    struct stage *s = stage_add(c, STAGE_GATE, op, "gate");
    int type = 0;
    const bool is_16 = is_written_as_16(c, index, &type);
    const struct rows16 none = {0};
    s->row = (struct stage_rows_op){.in = buffer_f32(c, op->in[0]),
                                    .in2 = op->in[1] == PLAN_NONE ? NULL : buffer_f32(c, op->in[1]),
                                    .out = buffer_f32(c, op->out),
                                    .out16 = is_16 ? rows16_of(c, op->out, type) : none,
                                    .ld_in = ld_of(c, op->in[0]),
                                    .ld_in2 = op->in[1] == PLAN_NONE ? 0 : ld_of(c, op->in[1]),
                                    .ld_out = ld_of(c, op->out),
                                    .width = c->plan->buffer[op->out].width,
                                    .slots = c->plan->buffer[op->out].slots,
                                    .gate = (int)op->gate};
    s->row.is_factor = c->plan->buffer[op->in[0]].width < s->row.width;
    const struct op *norm = gated_norm_of(c, index);
    if (norm) {
        s->kind = STAGE_NORM_GATE;
        s->row.group = norm->norm.group;
        s->row.norm = norm_by_of(c, norm);
        c->list->name[c->list->n - 1] = "norm gate";
    }
    if (op->gate != GATE_XIELU) return;
    const float numbers[4] = {op->xielu.above, op->xielu.below, op->xielu.linear, op->xielu.eps};
    memcpy(s->row.xielu, numbers, sizeof numbers);
}

static void softcap_add(struct compiler *c, const struct op *op) {
    struct stage *s = stage_add(c, STAGE_SOFTCAP, op, "softcap");
    s->row = (struct stage_rows_op){.out = buffer_f32(c, op->out),
                                    .ld_out = ld_of(c, op->out),
                                    .width = c->plan->buffer[op->out].width,
                                    .cap = op->softcap.cap};
}

static void temper_add(struct compiler *c, const struct op *op) {
    struct stage *s = stage_add(c, STAGE_TEMPER, op, "temper");
    s->row = (struct stage_rows_op){.out = buffer_f32(c, op->out),
                                    .ld_out = ld_of(c, op->out),
                                    .width = c->plan->buffer[op->out].width,
                                    .length = op->temper.length,
                                    .offset = op->temper.offset,
                                    .scale = op->temper.factor};
}

// ---------------------------------------------------------------- the list

// Adds the stages of the op; the number of ops that they cover.
static int op_add(struct compiler *c, int index) {
    const struct op *op = &c->plan->op[index];
    struct heads h;
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
        if (heads_find(c, index, &h)) return head_ops_add(c, index, &h);
        append_alone_add(c, index);
        return 1;
    case OP_ATTENTION:
        alone_add(c, index);
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
        s = stage_add(c, STAGE_ROPE_TABLE, NULL, "rope table");
        s->flags = STAGE_JOINS;
        s->row = (struct stage_rows_op){
            .out = (float *)(void *)(c->b->memory + c->b->layout.rope_at[r]),
            .inv_freq = (const float *)(const void *)(c->b->weights + c->b->layout.inv_freq_at[r]),
            .n_rot = rope->n_rot,
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
        struct heads h;
        if (plan->op[i].kind == OP_NORM) fold_norm(c, i);
        if (gated_norm_of(c, i + 1)) c->is_folded[i] = true;
        if (plan->op[i].kind == OP_ATTENTION)
            alone_find(c, i, &h);
        else if (plan->op[i].kind == OP_KV_APPEND)
            heads_find(c, i, &h);
        else
            continue;
        for (int k = 1; k <= h.n_before; k++) c->is_folded[i - k] = true;
        i += h.n_after; // an append has its attention with it
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

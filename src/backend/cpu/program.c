// The compiled program: stages over ranges of the plan's ops, and their execution.
//
// Matrix products that share an input are one stage: one parallel run over all their row groups,
// after the input was quantized once. Stages of experts are in experts.c, products by head in
// heads.c, attention is in attention.c, ops with a state are in state.c. Other ops are stages of
// their own, over rows. The pool's price says how many threads a stage is worth; little work stays
// on the calling thread.
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/reference.h"
#include "base/clock.h"
#include "base/ticks.h"

enum {
    CHUNK_WORK = 2048,      // elements of a chunk, at least: so that taking it costs little
    TILE_BYTES = 256 << 10, // of activations that should stay in a core's cache
    CHUNKS_PER_THREAD = 8,  // so that a core that is taken away stalls little
};

// ---------------------------------------------------------------- compile

static bool is_block_format(const struct plan *plan, const struct op *op) {
    return format_at(plan->weight[op->weight].format)->span != 0;
}

// Whether op i can run beside the products [first, i): same input, and no output in common.
static bool joins(const struct plan *plan, int first, int i) {
    const struct op *a = &plan->op[first], *b = &plan->op[i];
    if (b->kind != a->kind || b->in[0] != a->in[0] || b->rows != a->rows) return false;
    if (a->kind == OP_EXPERTS && b->experts.weighs_input != a->experts.weighs_input) return false;
    if (b->kind == OP_HEADS) return false; // a head's columns are an input of their own
    for (int j = first; j < i; j++)
        if (plan->op[j].out == b->out) return false;
    return b->out != b->in[0];
}

static void matmul_init(struct cpu_backend *b, const struct op *op, struct cpu_stage *stage,
                        struct cpu_matmul *m) {
    const struct plan_weight *weight = &b->plan->weight[op->weight];
    const struct cpu_buffer *in = &b->buffer[op->in[0]], *out = &b->buffer[op->out];
    const bool experts = op->kind == OP_EXPERTS, plain = op->kind == OP_MATMUL;
    m->weight = &b->weight[op->weight];
    m->kernel = m->weight->kernel;
    m->format = weight->format;
    m->args = (struct matmul_args){
        .w = b->weight[op->weight].packed,
        .rows = weight->rows,
        .cols = weight->cols,
        .x = in->data,
        .ldx = in->ld,
        .xq = b->xq,
        .xd = b->xd,
        .xsum = b->xsum,
        .y = out->data,
        .ldy = out->ld,
        .bias = op->bias == PLAN_NONE ? NULL : b->weight[op->bias].vector,
        .scale = plain ? op->matmul.scale : 1,
        .add = plain && op->matmul.add,
    };
    if (op->kind == OP_HEADS) {
        m->args.x += op->heads.from;
        m->args.y += op->heads.to;
    }
    if (experts && !b->plan->buffer[op->in[0]].has_slots) { // gathered first
        m->args.x = b->xg;
        m->args.ldx = weight->cols;
    }
    m->group_first = stage->n_groups;
    stage->n_groups += cpu_groups(weight->rows);
    m->group_end = stage->n_groups;
}

// Notes a format that has no kernel, once.
static void slow_note(struct cpu_backend *b, enum format_id format) {
    const size_t used = strlen(b->slow), left = sizeof b->slow - used;
    if (b->is_slow[format]) return;
    b->is_slow[format] = true;
    snprintf(b->slow + used, left, "%s%s", used ? ", " : "", format_at(format)->name);
}

// Small enough to balance the threads, large enough to stream. n_heads: products of the stage that
// have the same groups.
static int64_t group_chunk(const struct cpu_backend *b, const struct cpu_stage *stage,
                           uint64_t bytes, bool plain, int64_t n_heads) {
    const uint64_t chunk_bytes = plain ? CPU_CHUNK_BYTES_FLOAT : CPU_CHUNK_BYTES;
    const int64_t most = (int64_t)(chunk_bytes / (bytes / (uint64_t)stage->n_groups + 1));
    const int64_t even = stage->n_groups * n_heads / (pool_size(b->pool) * CHUNKS_PER_THREAD);
    const int64_t chunk = even < most ? even : most;
    return chunk < 2 ? 2 : chunk / 2 * 2; // float kernels take groups in pairs
}

// The rows that xq holds: their layout depends on the number of the buffer's rows.
struct quantized {
    int buffer;
    enum row_domain rows;
};

static rn_status compile_matmul(struct cpu_backend *b, struct cpu_stage *stage,
                                struct quantized *quantized, rn_error *err) {
    const struct op *op = &b->plan->op[stage->first];
    bool needs = false, plain = false;
    uint64_t bytes = 0;
    stage->matmul = arena_array(&b->arena, (size_t)stage->n, sizeof *stage->matmul);
    if (!stage->matmul) return err_set(err, RN_ERR_NOMEM, "cannot allocate the CPU program");
    for (int i = 0; i < stage->n; i++) {
        matmul_init(b, &op[i], stage, &stage->matmul[i]);
        if (!stage->matmul[i].kernel) slow_note(b, stage->matmul[i].format);
        needs |= is_block_format(b->plan, &op[i]);
        plain |= !is_block_format(b->plan, &op[i]);
        const struct plan_weight *weight = &b->plan->weight[op[i].weight];
        bytes += weight->bytes / (uint64_t)(weight->n_expert ? weight->n_expert : 1);
    }
    stage->bytes = bytes;
    stage->n_workers = cpu_product_workers(b, bytes, 1);
    stage->in_cols = b->plan->weight[op->weight].cols;
    stage->group_chunk =
        group_chunk(b, stage, bytes, plain, op->kind == OP_HEADS ? op->heads.n : 1);
    // kernels of block formats tile by themselves
    const int64_t row_bytes = stage->in_cols * (int64_t)sizeof(float);
    const int64_t tile = TILE_BYTES / row_bytes / MATMUL_TILE * MATMUL_TILE;
    stage->token_tile = !plain ? INT_MAX : tile < MATMUL_TILE ? MATMUL_TILE : (int)tile;
    // experts quantize the rows of their pairs, heads their columns
    const bool experts = op->kind == OP_EXPERTS, own = op->kind != OP_MATMUL;
    stage->weigh = experts && op->experts.weighs_input;
    stage->gather = experts && (plain || stage->weigh) && !b->plan->buffer[op->in[0]].has_slots;
    const bool held = quantized->buffer == op->in[0] && quantized->rows == op->rows;
    stage->quantize = needs && (own || !held);
    if (needs) *quantized = (struct quantized){own ? PLAN_NONE : op->in[0], op->rows};
    return RN_OK;
}

rn_status cpu_program_compile(struct cpu_backend *b, rn_error *err) {
    const struct plan *plan = b->plan;
    struct quantized quantized = {PLAN_NONE, ROWS_TOKENS};
    b->stage = arena_array(&b->arena, (size_t)plan->n_op_all + 1, sizeof *b->stage);
    if (!b->stage) return err_set(err, RN_ERR_NOMEM, "cannot allocate the CPU program");
    for (int i = 0; i < plan->n_op_all;) {
        const int end = i < plan->n_op ? plan->n_op : plan->n_op_all;
        if (i == plan->n_op) quantized.buffer = PLAN_NONE; // of another run
        struct cpu_stage *stage = &b->stage[b->n_stage_all++];
        *stage = (struct cpu_stage){.first = i, .n = 1, .ops = op_class_of(plan->op[i].kind)};
        if (op_is_product(plan->op[i].kind)) {
            while (i + stage->n < end && joins(plan, i, i + stage->n)) stage->n++;
            const rn_status status = compile_matmul(b, stage, &quantized, err);
            if (status) return status;
        }
        for (int j = i; j < i + stage->n; j++)
            if (plan->op[j].out == quantized.buffer) quantized.buffer = PLAN_NONE; // rewritten
        i += stage->n;
        if (i == plan->n_op) b->n_stage = b->n_stage_all;
    }
    cpu_ahead_link(b);
    return RN_OK;
}

// ---------------------------------------------------------------- ops over rows

// The token row behind a row of the op's domain.
static int64_t token_row(const struct cpu_backend *b, const struct op *op, int64_t row) {
    return op->rows == ROWS_TOKENS ? row : b->batch->out_row[row];
}

// A row of a table, as a table of its own. False: it could not be fetched, and the step fails.
static bool table_row(struct cpu_backend *b, int index, int32_t row, int worker,
                      struct plan_weight *out) {
    const struct plan *plan = b->plan;
    const uint8_t *rows = b->weight[index].rows;
    rn_error err = {0};
    *out = plan->weight[index];
    assert(row >= 0 && row < out->rows);
    const uint64_t bytes = format_row_bytes(out->format, out->cols), at = (uint64_t)row * bytes;
    out->rows = 1;
    out->data = rows + at;
    if (rows) return true;
    uint8_t *buffer = b->cold_row + (uint64_t)worker * b->cold_bytes;
    const rn_status status =
        plan->fetch(plan->fetch_ctx, (const uint8_t *)plan->weight[index].data + at, bytes, buffer,
                    &out->data, &err);
    if (!status) return true;
    if (!atomic_exchange(&b->has_failed, true)) {
        b->failed = status;
        b->fault = err;
    }
    return false;
}

static void embed_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct cpu_rows_job *job = ctx;
    const struct op *op = job->op;
    const int32_t *row = op->embed.positions ? job->b->batch->pos : job->b->batch->token;
    for (int64_t r = begin; r < end; r++) {
        float *y = cpu_row_at(job->b, op->out, r);
        struct plan_weight table;
        if (!table_row(job->b, op->weight, row[r], worker, &table)) return;
        if (op->embed.add)
            reference_embed_add(&table, 0, op->embed.scale, y);
        else
            reference_embed(&table, 0, op->embed.scale, y);
    }
}

static void input_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct cpu_rows_job *job = ctx;
    const size_t bytes = (size_t)job->b->plan->buffer[job->op->out].width * sizeof(float);
    for (int64_t r = begin; r < end; r++)
        memcpy(cpu_row_at(job->b, job->op->out, r), job->b->batch->input[r], bytes);
}

static void gather_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct cpu_rows_job *job = ctx;
    const size_t bytes = (size_t)job->b->plan->buffer[job->op->out].width * sizeof(float);
    for (int64_t r = begin; r < end; r++)
        memcpy(cpu_row_at(job->b, job->op->out, r),
               cpu_row_at(job->b, job->op->in[0], token_row(job->b, job->op, r)), bytes);
}

static void norm_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct cpu_rows_job *job = ctx;
    const struct op *op = job->op;
    const int width = job->b->plan->buffer[op->out].width, group = op->norm.group;
    const struct plan_weight *weight =
        op->weight == PLAN_NONE ? NULL : &job->b->plan->weight[op->weight];
    const float *w = weight ? job->b->weight[op->weight].vector : job->b->ones;
    const float *bias = op->bias == PLAN_NONE ? job->b->zeros : job->b->weight[op->bias].vector;
    // a factor for each element
    const bool is_whole = weight && weight->rows * weight->cols == width;
    for (int64_t r = begin; r < end; r++) {
        const float *x = cpu_row_at(job->b, op->in[0], r);
        float *y = cpu_row_at(job->b, op->out, r);
        for (int i = 0; i < width; i += group) {
            if (op->norm.kind == NORM_RMS)
                job->b->ops->norm_rms(x + i, is_whole ? w + i : w, y + i, group, op->norm.eps,
                                      op->norm.add);
            else
                job->b->ops->norm_layer(x + i, w, bias, y + i, group, op->norm.eps, op->norm.add);
        }
        // one rounding each, so any order of lanes gives these bits
        for (int i = 0; op->norm.scale != 0 && i < width; i++) y[i] *= op->norm.scale;
    }
}

static void rope_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct cpu_rows_job *job = ctx;
    const struct op *op = job->op;
    const struct plan_rope *rope = &job->b->plan->rope[op->rope.rope];
    const float *tables = job->b->rope_table[op->rope.rope];
    for (int64_t r = begin; r < end; r++)
        job->b->ops->rope(rope, tables + token_row(job->b, op, r) * rope->n_rot, op->rope.n_head,
                          op->rope.dim, cpu_row_at(job->b, op->out, r) + op->rope.from);
}

static void kv_append_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct cpu_rows_job *job = ctx;
    const struct cpu_backend *b = job->b;
    const struct op *op = job->op;
    const struct plan_kv_group *group = &b->plan->group[op->kv.group];
    for (int64_t r = begin; r < end; r++) {
        const int32_t pos = b->batch->pos[r];
        const uint32_t *table = b->batch->seq[b->row_seq[r]].page_table[op->kv.group];
        const uint64_t page = table[pos / KV_PAGE_TOKENS] * b->page_bytes[op->kv.group];
        assert(page + b->page_bytes[op->kv.group] <= b->kv[op->kv.group].bytes);
        const struct kv_append_args args = {
            .k = cpu_row_at(b, op->in[0], r),
            .v = group->is_latent ? NULL : cpu_row_at(b, op->in[1], r),
            .layer = b->kv[op->kv.group].base + page + cpu_layer_at(b, op),
            .slot = pos % KV_PAGE_TOKENS,
            .n_head_kv = group->n_head_kv,
            .dim_k = group->dim_k,
            .dim_v = group->dim_v,
            .is_latent = group->is_latent,
            .type = b->kv_type,
        };
        b->ops->kv_append(&args);
    }
}

// y = act(gate) * x. The products have one rounding each, so any order of lanes gives these bits.
static void factor_row(const struct cpu_backend *b, enum gate_kind kind, float gate, const float *x,
                       float *y, int n) {
    float factor;
    b->ops->gate[kind](&gate, NULL, &factor, 1);
    for (int i = 0; i < n; i++) y[i] = factor * x[i];
}

static void gate_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct cpu_rows_job *job = ctx;
    const struct op *op = job->op;
    const int width = job->b->plan->buffer[op->out].width;
    const bool is_factor = width > 1 && job->b->plan->buffer[op->in[0]].width == 1;
    for (int64_t r = begin; r < end; r++) {
        const float *up = op->in[1] == PLAN_NONE ? NULL : cpu_row_at(job->b, op->in[1], r);
        const float *gate = cpu_row_at(job->b, op->in[0], r);
        float *y = cpu_row_at(job->b, op->out, r);
        if (op->gate == GATE_XIELU)
            job->b->ops->xielu(&op->xielu, gate, y, width);
        else if (is_factor)
            factor_row(job->b, op->gate, *gate, up, y, width);
        else
            job->b->ops->gate[op->gate](gate, up, y, width);
    }
}

static void columns_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct cpu_rows_job *job = ctx;
    const struct op *op = job->op;
    const size_t bytes = (size_t)op->columns.len * sizeof(float);
    for (int64_t r = begin; r < end; r++) {
        const float *x = cpu_row_at(job->b, op->in[0], r) + op->columns.from;
        float *y = cpu_row_at(job->b, op->out, r) + op->columns.to;
        for (int i = 0; i < op->columns.n; i++)
            memcpy(y + i * op->columns.stride_to, x + i * op->columns.stride_from, bytes);
    }
}

static void softcap_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct cpu_rows_job *job = ctx;
    const struct op *op = job->op;
    for (int64_t r = begin; r < end; r++)
        job->b->ops->softcap(cpu_row_at(job->b, op->out, r), op->softcap.cap,
                             job->b->plan->buffer[op->out].width);
}

// One rounding for each product, as factor_row's.
static void temper_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct cpu_rows_job *job = ctx;
    const struct op *op = job->op;
    const int32_t *pos = job->b->batch->pos;
    for (int64_t r = begin; r < end; r++)
        reference_temper(cpu_row_at(job->b, op->out, r), op_temper_factor(op, pos[r]),
                         job->b->plan->buffer[op->out].width);
}

static void quantize_rows(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct cpu_rows_job *job = ctx;
    const struct cpu_backend *b = job->b;
    const int64_t n = job->stage->in_cols;
    for (int64_t r = begin; r < end; r++)
        cpu_quantize(b, cpu_row_at(b, job->op->in[0], r), n,
                     matmul_x_of(job->stage->matmul[0].args.n, r, n));
}

static void rope_tables(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct cpu_rows_job *job = ctx;
    const struct cpu_backend *b = job->b;
    for (int i = 0; i < b->plan->n_rope; i++) {
        const struct plan_rope *rope = &b->plan->rope[i];
        if (!plan_rope_is_used(b->plan, i, b->batch->is_draft)) continue;
        for (int64_t r = begin; r < end; r++)
            b->ops->rope_table(rope, b->batch->pos[r] + rope->ahead,
                               b->rope_table[i] + r * rope->n_rot);
    }
}

void cpu_rows_run(struct cpu_backend *b, pool_fn fn, struct cpu_rows_job *job, int64_t n_rows,
                  int64_t row_work) {
    const int n_workers = cpu_workers(b, n_rows * row_work);
    const int64_t least = CHUNK_WORK / (row_work + 1) + 1;
    const int64_t even = n_rows / (n_workers * CHUNKS_PER_THREAD) + 1;
    pool_run_on(b->pool, n_workers, fn, job, n_rows, even > least ? even : least);
}

// ---------------------------------------------------------------- matrix products

void cpu_quantize(const struct cpu_backend *b, const float *x, int64_t n, struct matmul_x at) {
    b->ops->quantize(x, n, b->xq + at.first * MATMUL_SPAN, b->xd + at.first, b->xsum + at.first * 2,
                     at.stride);
}

struct matmul_args cpu_matmul_part(const struct matmul_args *args, int64_t first, int n) {
    struct matmul_args part = *args;
    part.n = n;
    part.x += first * args->ldx;
    part.y += first * args->ldy;
    part.xq += first * args->cols;
    part.xd += first * args->cols / 32;
    part.xsum += first * args->cols / 16;
    return part;
}

void cpu_matmul_run(const struct cpu_matmul *m, int tile, int64_t begin, int64_t end,
                    void *scratch) {
    for (int first = 0, n; first < m->args.n; first += n) {
        n = m->args.n - first < tile ? m->args.n - first : tile;
        struct matmul_args part = cpu_matmul_part(&m->args, first, n);
        part.scratch = scratch;
        if (m->kernel)
            m->kernel->run[matmul_shape_of(part.n)](&part, begin, end);
        else
            matmul_reference(m->format, &part, begin, end);
    }
}

static void matmul_groups(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct cpu_rows_job *job = ctx;
    const struct cpu_stage *stage = job->stage;
    void *scratch = cpu_matmul_scratch(job->b, worker);
    for (int i = 0; i < stage->n; i++) {
        const struct cpu_matmul *m = &stage->matmul[i];
        const int64_t a = begin > m->group_first ? begin : m->group_first;
        const int64_t z = end < m->group_end ? end : m->group_end;
        if (a < z)
            cpu_matmul_run(m, stage->token_tile, a - m->group_first, z - m->group_first, scratch);
    }
}

static void matmul_stage(struct cpu_backend *b, struct cpu_stage *stage, int n_rows) {
    struct cpu_rows_job job = {b, stage, &b->plan->op[stage->first]};
    for (int i = 0; i < stage->n; i++) stage->matmul[i].args.n = n_rows;
    if (stage->quantize) cpu_rows_run(b, quantize_rows, &job, n_rows, stage->in_cols);
    cpu_ahead_name(b, stage, n_rows);
    const int64_t chunk = stage->group_chunk, more = chunk + MATMUL_PANEL_GROUPS - 1;
    const bool panel = matmul_shape_of(n_rows) == SHAPE_PANEL;
    pool_run_on(b->pool, cpu_product_workers(b, stage->bytes, n_rows), matmul_groups, &job,
                stage->n_groups, panel ? more / MATMUL_PANEL_GROUPS * MATMUL_PANEL_GROUPS : chunk);
}

// ---------------------------------------------------------------- run

static void stage_run(struct cpu_backend *b, struct cpu_stage *stage) {
    const struct op *op = &b->plan->op[stage->first];
    const int n_rows = cpu_rows_of(b->batch, op->rows);
    const int width = op->out == PLAN_NONE ? 0 : b->plan->buffer[op->out].width;
    struct cpu_rows_job job = {b, stage, op};
    if (n_rows == 0) return;
    switch (op->kind) {
    case OP_EMBED:
        cpu_rows_run(b, embed_rows, &job, n_rows, width);
        break;
    case OP_INPUT:
        cpu_rows_run(b, input_rows, &job, n_rows, width);
        break;
    case OP_GATHER:
        cpu_rows_run(b, gather_rows, &job, n_rows, width);
        break;
    case OP_NORM:
        cpu_rows_run(b, norm_rows, &job, n_rows, width);
        break;
    case OP_MATMUL:
        matmul_stage(b, stage, n_rows);
        break;
    case OP_ROPE:
        cpu_rows_run(b, rope_rows, &job, n_rows, width);
        break;
    case OP_KV_APPEND: // every element of a key goes to a line of its own
        cpu_rows_run(b, kv_append_rows, &job, n_rows, 16 * b->plan->buffer[op->in[0]].width);
        break;
    case OP_ATTENTION:
        cpu_attention_stage(b, op);
        break;
    case OP_CONV:
    case OP_DELTA:
    case OP_SCAN:
        cpu_state_stage(b, op);
        break;
    case OP_COLUMNS:
        cpu_rows_run(b, columns_rows, &job, n_rows, width);
        break;
    case OP_GATE: // an exponential and a division each
        cpu_rows_run(b, gate_rows, &job, (int64_t)n_rows * b->plan->buffer[op->out].slots,
                     4 * (int64_t)width);
        break;
    case OP_ROUTE:
        cpu_route_stage(b, stage, n_rows);
        break;
    case OP_EXPERTS:
        cpu_experts_stage(b, stage, n_rows);
        break;
    case OP_COMBINE:
        cpu_combine_stage(b, stage, n_rows);
        break;
    case OP_SOFTCAP:
        cpu_rows_run(b, softcap_rows, &job, n_rows, 4 * (int64_t)width);
        break;
    case OP_TEMPER:
        cpu_rows_run(b, temper_rows, &job, n_rows, width);
        break;
    case OP_HEADS:
        cpu_heads_stage(b, stage, n_rows);
        break;
    case OP_COUNT:
        break;
    }
}

static void rows_index(struct cpu_backend *b) {
    const struct batch *batch = b->batch;
    for (int s = 0; s < batch->n_seqs; s++)
        for (int i = 0; i < batch->seq[s].n_tokens; i++)
            b->row_seq[batch->seq[s].first_row + i] = s;
    for (int i = 0; i < batch->n_out; i++) b->out_pos[i] = batch->pos[batch->out_row[i]];
}

void cpu_program_run(struct cpu_backend *b, const struct batch *batch) {
    assert(batch->n_tokens <= b->max_tokens && batch->n_logits <= b->max_logits);
    assert(batch->n_logits <= batch->n_out && batch->n_out <= batch->n_tokens);
    assert(batch->n_seqs <= b->max_seqs);
    cpu_pages_run(b, batch);
    for (int i = 0; i < OPS_COUNT; i++) b->ops_ticks[i] = 0;
    if (batch->n_tokens == 0) return;
    b->batch = batch;
    b->expert_bytes = 0;
    rows_index(b);
    struct cpu_rows_job job = {b, NULL, NULL};
    int64_t n_rot = 0;
    for (int i = 0; i < b->plan->n_rope; i++) n_rot += b->plan->rope[i].n_rot;
    cpu_rows_run(b, rope_tables, &job, batch->n_tokens, n_rot * 16); // a sine is worth 16 elements
    uint64_t at = ticks_now();
    const int first = batch->is_draft ? b->n_stage : 0;
    const int end = batch->is_draft ? b->n_stage_all : b->n_stage;
    for (int i = first; i < end; i++) {
        const uint64_t begin = b->profiling ? clock_ns() : 0;
        stage_run(b, &b->stage[i]);
        if (b->profiling && !batch->is_draft) b->profile[i].ns = clock_ns() - begin;
        if (i + 1 < end && b->stage[i + 1].ops == b->stage[i].ops) continue;
        const uint64_t now = ticks_now();
        if (now > at) b->ops_ticks[b->stage[i].ops] += now - at; // cores may differ a little
        at = now;
    }
    b->batch = NULL;
}

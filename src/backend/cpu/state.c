// The stages of the ops with a state: which thread takes which sequence, head and columns. Called
// by program.c; the kernels are in state_simd.h and reference_state.c.
//
// Channels and columns do not depend on each other, so an item is a sequence and a range of them,
// whose rows go in order. The state is read from the page of the position before the first row. It
// is left in the page of each block that the rows reach; neighbouring blocks may have one page. The
// state before the rows of a draft may be read beside the table, and kept beside it (batch.h).
#include <assert.h>
#include <string.h>

#include "backend/cpu/cpu.h"

enum {
    CONV_CHANNELS = 256, // of an item: few, so that one long prompt serves all threads
    HEAD_COLUMNS = 64,   // of an item: a vector block, and a state that stays in the cache
};

struct state_job {
    const struct cpu_backend *b;
    const struct op *op;
    int width;    // channels, or columns of a head
    int range;    // of an item
    int n_ranges; // of the width
    int n_heads;
    int number_bytes; // of a head's state
};

// Rows of a sequence that share the pages of their states.
struct state_rows {
    int64_t first_row;
    int n;
    const uint8_t *before; // the op's part of the layer's state; NULL: zeros
    uint8_t *after;
};

static uint8_t *state_at(const struct state_job *job, uint32_t page) {
    const struct cpu_backend *b = job->b;
    const int group = job->op->state.group;
    const uint64_t at = page * b->page_bytes[group];
    assert(at + b->page_bytes[group] <= b->kv[group].bytes);
    // parts before it are exact
    return b->kv[group].base + at + cpu_layer_at(b, job->op) +
           (uint64_t)job->op->state.at * sizeof(float);
}

// The state before a row: beside the table, or in the page of the position before.
static const uint8_t *before_of(const struct state_job *job, const struct batch_seq *seq, int row) {
    const int group = job->op->state.group, pos = seq->first_pos + row;
    if (row > 0 && row == seq->n_snapshot) return state_at(job, seq->snapshot[group]);
    if (pos == 0) return NULL;
    if (row == 0 && seq->state_from[group] != BATCH_ZERO)
        return state_at(job, seq->state_from[group]);
    return state_at(job, seq->page_table[group][(pos - 1) / KV_PAGE_TOKENS]);
}

// The rows from `row` on that end in the same page. Rows of the snapshot end there, and the others
// go on from it.
static struct state_rows rows_from(const struct state_job *job, const struct batch_seq *seq,
                                   int row) {
    const int group = job->op->state.group;
    const uint32_t *table = seq->page_table[group];
    const int pos = seq->first_pos + row, last = seq->first_pos + seq->n_tokens - 1;
    const bool is_aside = row < seq->n_snapshot;
    const uint32_t page = is_aside ? seq->snapshot[group] : table[pos / KV_PAGE_TOKENS];
    int block = pos / KV_PAGE_TOKENS;
    while (block < last / KV_PAGE_TOKENS && table[block + 1] == page) block++;
    const int end = (block + 1) * KV_PAGE_TOKENS;
    return (struct state_rows){
        .first_row = seq->first_row + row,
        .n = is_aside ? seq->n_snapshot - row : (end <= last ? end : last + 1) - pos,
        .before = before_of(job, seq, row),
        .after = state_at(job, page),
    };
}

// ---------------------------------------------------------------- items

static void conv_run(const struct state_job *job, const struct state_rows *rows, int first, int n) {
    const struct cpu_backend *b = job->b;
    const struct op *op = job->op;
    const float *bias = op->bias == PLAN_NONE ? NULL : b->weight[op->bias].vector;
    b->ops->conv(&(struct conv_args){
        .x = cpu_row_at(b, op->in[0], rows->first_row) + first,
        .y = cpu_row_at(b, op->out, rows->first_row) + first,
        .ldx = b->buffer[op->in[0]].ld,
        .ldy = b->buffer[op->out].ld,
        .n_rows = rows->n,
        .n = n,
        .taps = op->state.taps,
        .w = b->weight[op->weight].vector + first,
        .bias = bias ? bias + first : NULL,
        .before = rows->before ? (const float *)(const void *)rows->before + first : NULL,
        .after = (float *)(void *)rows->after + first,
        .ld = job->width,
        .silu = op->state.silu,
    });
}

static void delta_run(const struct state_job *job, const struct state_rows *rows, int head,
                      int first, int n) {
    const struct cpu_backend *b = job->b;
    const struct op *op = job->op;
    const int dim_k = op->state.dim_k, dim_v = op->state.dim_v, n_key = op->state.n_key;
    const int key = op->state.is_tiled ? head % n_key : head / (op->state.n_head / n_key);
    const float *in = cpu_row_at(b, op->in[0], rows->first_row);
    const int64_t at = ((int64_t)head * dim_k * dim_v + first) * job->number_bytes;
    float unit[2 * KV_DIM_MAX];
    b->ops->delta(&(struct delta_args){
        .q = in + key * dim_k,
        .k = in + (n_key + key) * dim_k,
        .v = in + 2 * n_key * dim_k + head * dim_v + first,
        .ld = b->buffer[op->in[0]].ld,
        .a = cpu_row_at(b, op->in[1], rows->first_row) + head,
        .b = cpu_row_at(b, op->state.beta, rows->first_row) + head,
        .ld_a = b->buffer[op->in[1]].ld,
        .ld_b = b->buffer[op->state.beta].ld,
        .decay = b->weight[op->weight].vector[head],
        .bias = b->weight[op->bias].vector[head],
        .y = cpu_row_at(b, op->out, rows->first_row) + head * dim_v + first,
        .ldy = b->buffer[op->out].ld,
        .n_rows = rows->n,
        .n = n,
        .dim_k = dim_k,
        .before = rows->before ? rows->before + at : NULL,
        .after = rows->after + at,
        .lds = dim_v,
        .is_bf16 = b->bf16_states,
        .eps = op->state.eps,
        .scratch = unit,
    });
}

static void scan_run(const struct state_job *job, const struct state_rows *rows, int head,
                     int first, int n) {
    const struct cpu_backend *b = job->b;
    const struct op *op = job->op;
    const int dim_k = op->state.dim_k, dim_v = op->state.dim_v;
    const int group = head / (op->state.n_head / op->state.n_key);
    const float *in = cpu_row_at(b, op->in[0], rows->first_row);
    const float *in_b = in + op->state.n_head * dim_v;
    const int64_t at = ((int64_t)head * dim_k * dim_v + first) * job->number_bytes;
    b->ops->scan(&(struct scan_args){
        .x = in + head * dim_v + first,
        .b = in_b + group * dim_k,
        .c = in_b + (op->state.n_key + group) * dim_k,
        .ld = b->buffer[op->in[0]].ld,
        .dt = cpu_row_at(b, op->in[1], rows->first_row) + head,
        .ld_dt = b->buffer[op->in[1]].ld,
        .decay = b->weight[op->weight].vector[head],
        .bias = b->weight[op->bias].vector[head],
        .skip = b->weight[op->state.skip].vector[head],
        .dt_min = op->state.dt_min,
        .dt_max = op->state.dt_max,
        .y = cpu_row_at(b, op->out, rows->first_row) + head * dim_v + first,
        .ldy = b->buffer[op->out].ld,
        .n_rows = rows->n,
        .n = n,
        .dim_k = dim_k,
        .before = rows->before ? rows->before + at : NULL,
        .after = rows->after + at,
        .lds = dim_v,
        .is_bf16 = b->bf16_states,
    });
}

static void state_items(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct state_job *job = ctx;
    for (int64_t item = begin; item < end; item++) {
        const int64_t head = item / job->n_ranges;
        const struct batch_seq *seq = &job->b->batch->seq[head / job->n_heads];
        const int h = (int)(head % job->n_heads), first = (int)(item % job->n_ranges) * job->range;
        const int n = job->width - first < job->range ? job->width - first : job->range;
        for (int row = 0; row < seq->n_tokens;) {
            const struct state_rows rows = rows_from(job, seq, row);
            if (job->op->kind == OP_CONV)
                conv_run(job, &rows, first, n);
            else if (job->op->kind == OP_DELTA)
                delta_run(job, &rows, h, first, n);
            else
                scan_run(job, &rows, h, first, n);
            row += rows.n;
        }
    }
}

void cpu_state_stage(struct cpu_backend *b, const struct op *op) {
    const bool is_conv = op->kind == OP_CONV;
    struct state_job job = {.b = b,
                            .op = op,
                            .width = is_conv ? b->plan->buffer[op->out].width : op->state.dim_v,
                            .range = is_conv ? CONV_CHANNELS : HEAD_COLUMNS,
                            .n_heads = is_conv ? 1 : op->state.n_head,
                            .number_bytes = b->bf16_states ? sizeof(uint16_t) : sizeof(float)};
    job.n_ranges = (job.width + job.range - 1) / job.range;
    const int64_t n_items = (int64_t)b->batch->n_seqs * job.n_heads * job.n_ranges;
    const int64_t depth = is_conv ? 4 * op->state.taps : op->state.dim_k;
    const int64_t work = (int64_t)b->batch->n_tokens * job.n_heads * job.width * depth;
    const int n_workers = cpu_workers(b, work);
    pool_run_on(b->pool, n_workers, state_items, &job, n_items, n_workers == 1 ? n_items : 1);
}

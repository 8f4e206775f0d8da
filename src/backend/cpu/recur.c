// The stage of recurrences: which thread takes which sequence and channels. Called by program.c;
// the kernels are in ops_simd.h and reference.c.
//
// Channels do not depend on each other, so an item is a sequence and a range of channels, whose
// rows go in order. The state is read from the page of the position before the first row, and left
// in the page of each block that the rows reach. Inside a block it stays with the kernel.
#include <assert.h>

#include "backend/cpu/cpu.h"

enum {
    RANGE_CHANNELS = 64, // of an item: few, so that one long prompt serves all threads
    CHANNEL_WORK = 8,    // elements that one is worth: an exponential, two divisions, three streams
    INLINE_WORK = 16384, // elements: about the microseconds that a parallel run costs
};

struct recur_job {
    const struct cpu_backend *b;
    const struct op *op;
    int width;
    int64_t n_ranges; // of channels
};

static float *page_at(const struct recur_job *job, uint32_t page) {
    const struct cpu_backend *b = job->b;
    const int group = job->op->kv.group;
    const uint64_t at = page * b->page_bytes[group];
    assert(at + b->page_bytes[group] <= b->kv[group].bytes);
    return (float *)(b->kv[group].base + at + cpu_layer_at(b, job->op));
}

// The layer's state in the page of a block.
static float *state_at(const struct recur_job *job, const struct batch_seq *seq, int block) {
    return page_at(job, seq->page_table[job->op->kv.group][block]);
}

static void sequence_run(const struct recur_job *job, const struct batch_seq *seq, int first,
                         int n) {
    const struct cpu_backend *b = job->b;
    const struct op *op = job->op;
    for (int row = 0, rows; row < seq->n_tokens; row += rows) {
        const int pos = seq->first_pos + row, rest = KV_PAGE_TOKENS - pos % KV_PAGE_TOKENS;
        rows = seq->n_tokens - row < rest ? seq->n_tokens - row : rest;
        const int64_t at = seq->first_row + row;
        const float *before = pos ? state_at(job, seq, (pos - 1) / KV_PAGE_TOKENS) : NULL;
        if (pos && row == 0 && seq->state_from[op->kv.group] != BATCH_ZERO)
            before = page_at(job, seq->state_from[op->kv.group]);
        const struct recur_args args = {
            .x = cpu_row_at(b, op->in[0], at) + first,
            .decay = cpu_row_at(b, op->in[1], at) + first,
            .y = cpu_row_at(b, op->out, at) + first,
            .ldx = b->buffer[op->in[0]].ld,
            .ldd = b->buffer[op->in[1]].ld,
            .ldy = b->buffer[op->out].ld,
            .n_rows = rows,
            .n = n,
            .before = before ? before + first : NULL,
            .after = state_at(job, seq, pos / KV_PAGE_TOKENS) + first,
        };
        b->ops->recur(&args);
    }
}

static void recur_items(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct recur_job *job = ctx;
    for (int64_t item = begin; item < end; item++) {
        const int first = (int)(item % job->n_ranges) * RANGE_CHANNELS, left = job->width - first;
        sequence_run(job, &job->b->batch->seq[item / job->n_ranges], first,
                     left < RANGE_CHANNELS ? left : RANGE_CHANNELS);
    }
}

void cpu_recur_stage(struct cpu_backend *b, const struct op *op) {
    struct recur_job job = {.b = b, .op = op, .width = b->plan->buffer[op->out].width};
    job.n_ranges = (job.width + RANGE_CHANNELS - 1) / RANGE_CHANNELS;
    const int64_t n_items = b->batch->n_seqs * job.n_ranges;
    const int64_t work = (int64_t)b->batch->n_tokens * job.width * CHANNEL_WORK;
    pool_run(b->pool, recur_items, &job, n_items, work < INLINE_WORK ? n_items : 1);
}

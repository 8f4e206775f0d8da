// The upload of a step: the batch, its page tables and the lists of attention in one buffer, which
// is the same on both sides. `struct step` is at its start, the choices' description behind it.
#include <assert.h>
#include <string.h>

#include "backend/cuda/cuda.h"

static_assert(sizeof(struct step) <= CUDA_CHOOSE_AT, "the step has room");

// ---------------------------------------------------------------- its size

rn_status cuda_upload_grow(struct cuda_flight *f, uint64_t bytes, rn_error *err) {
    if (bytes <= f->upload_cap) return RN_OK;
    const uint64_t cap = f->upload_cap ? bytes * 2 : bytes;
    cudaFreeHost(f->upload);
    cudaFree(f->upload_device);
    f->upload = f->upload_device = NULL;
    f->upload_cap = 0;
    cudaError_t code = cudaMallocHost((void **)&f->upload, cap);
    if (!code) code = cudaMalloc((void **)&f->upload_device, cap);
    if (code) return cuda_fault(code, RN_ERR_STEP, "memory for a batch", err);
    f->upload_cap = cap;
    return RN_OK;
}

// Rows of the draft block's op INPUT.
static uint64_t input_bytes(const struct cuda_backend *b, int n_rows) {
    return b->has_block ? (uint64_t)n_rows * (uint64_t)b->input_width * sizeof(float) : 0;
}

uint64_t cuda_upload_usual(const struct cuda_backend *b) {
    enum { LEAST = 1 << 16, MOST_TABLES = 4 << 20 };
    uint64_t tables = 0;
    for (int g = 0; g < b->plan->n_group_all; g++)
        if (b->kv[g].page_bytes) tables += b->kv[g].layer_bytes / b->kv[g].page_bytes * 4;
    const int rows = b->sizes.max_tokens < GRAPH_ROWS ? b->sizes.max_tokens : (int)GRAPH_ROWS;
    return LEAST + (uint64_t)b->sizes.max_tokens * 16 + input_bytes(b, rows) +
           (uint64_t)b->sizes.max_seqs * (sizeof(struct step_seq) + 64) +
           (uint64_t)b->sizes.max_logits * sizeof(struct choose_row) +
           (tables < MOST_TABLES ? tables : MOST_TABLES);
}

static uint64_t table_blocks(const struct batch_seq *seq) {
    return (uint64_t)(seq->first_pos + seq->n_tokens + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
}

// The page tables of the groups that the batch's ops have: the model's, or the draft block's.
static int group_first(const struct plan *plan, const struct batch *batch) {
    return batch->is_draft && !plan_block_reads(plan) ? plan->n_group : 0;
}
static int group_end(const struct plan *plan, const struct batch *batch) {
    return batch->is_draft ? plan->n_group_all : plan->n_group;
}

uint64_t cuda_upload_bytes(const struct cuda_backend *b, const struct batch *batch,
                           int n_seqs_out) {
    uint64_t bytes = 4 * ((uint64_t)batch->n_tokens * 4 + 16) + 64 +
                     (uint64_t)n_seqs_out * sizeof(struct step_seq) +
                     cuda_attention_bytes(b, n_seqs_out) + 16 +
                     (batch->is_draft ? input_bytes(b, batch->n_tokens) : 0) +
                     (uint64_t)batch->n_pages * sizeof(struct step_page);
    for (int s = 0; s < batch->n_seqs; s++)
        bytes += (table_blocks(&batch->seq[s]) * 4 + 16) * (uint64_t)b->plan->n_group_all;
    return bytes + 64;
}

// ---------------------------------------------------------------- its contents

// Takes room in the upload; offsets are the same on both sides.
struct packer {
    uint8_t *host, *device;
    uint64_t at;
};

static uint64_t room(struct packer *p, uint64_t bytes) {
    const uint64_t at = p->at;
    p->at += (bytes + 15) / 16 * 16;
    return at;
}

static const void *put(struct packer *p, const void *data, uint64_t bytes) {
    const uint64_t at = room(p, bytes);
    if (bytes) memcpy(p->host + at, data, bytes);
    return p->device + at;
}

// The first row of a sequence names it, so runs of hidden rows find the tables of theirs.
static void put_seqs(const struct cuda_backend *b, const struct batch *batch, struct packer *p,
                     struct step *step) {
    const uint64_t seqs_at = room(p, (uint64_t)step->n_seqs_out * sizeof(struct step_seq));
    const uint64_t rows_at = room(p, (uint64_t)batch->n_tokens * 4);
    struct step_seq *seqs = (struct step_seq *)(void *)(p->host + seqs_at);
    int32_t *row_seq = (int32_t *)(void *)(p->host + rows_at);
    const uint64_t tables_at = p->at;
    for (int s = 0; s < step->n_seqs_out; s++) {
        const struct batch_seq *seq = &batch->seq[s];
        seqs[s] = (struct step_seq){.first_row = seq->first_row,
                                    .n_tokens = seq->n_tokens,
                                    .first_pos = seq->first_pos,
                                    .first_out = seq->first_out,
                                    .n_out = seq->n_out,
                                    .n_snapshot = seq->n_snapshot};
        if (s >= step->n_seqs) {
            memcpy(seqs[s].table, seqs[row_seq[seq->first_row]].table, sizeof seqs[s].table);
            continue;
        }
        for (int i = 0; i < seq->n_tokens; i++) row_seq[seq->first_row + i] = s;
        for (int g = group_first(b->plan, batch); g < group_end(b->plan, batch); g++) {
            seqs[s].table[g] = (uint32_t)((p->at - tables_at) / 4);
            put(p, seq->page_table[g], table_blocks(seq) * 4);
            seqs[s].state_from[g] = seq->state_from[g];
            seqs[s].snapshot[g] = seq->snapshot[g];
        }
    }
    step->seq = (const struct step_seq *)(const void *)(p->device + seqs_at);
    step->row_seq = (const int32_t *)(const void *)(p->device + rows_at);
    step->tables = (const uint32_t *)(const void *)(p->device + tables_at);
}

static const float *put_input(const struct cuda_backend *b, const struct batch *batch,
                              struct packer *p) {
    const size_t bytes = (size_t)b->input_width * sizeof(float);
    const uint64_t at = room(p, input_bytes(b, batch->n_tokens));
    for (int i = 0; i < batch->n_tokens && bytes > 0; i++)
        memcpy(p->host + at + (uint64_t)i * bytes, batch->input[i], bytes);
    return (const float *)(const void *)(p->device + at);
}

uint64_t cuda_upload_write(const struct cuda_backend *b, const struct batch *batch, int n_seqs_out,
                           const struct cuda_flight *f, uint64_t at, struct cuda_shape *shape) {
    struct packer pack = {f->upload, f->upload_device, at}, *p = &pack;
    struct step step = {.n_tokens = batch->n_tokens,
                        .n_out = batch->n_out,
                        .n_logits = batch->n_logits,
                        .n_seqs = batch->n_seqs,
                        .n_seqs_out = n_seqs_out,
                        .n_pages = batch->n_pages};
    const uint64_t n = (uint64_t)batch->n_tokens * 4;
    step.token = put(p, batch->token, n);
    step.pos = put(p, batch->pos, n);
    step.out_row = put(p, batch->out_row, (uint64_t)batch->n_out * 4);
    step.touched = &b->chosen[b->chosen_now]->expert_bytes;
    step.before = (const int32_t *)(const void *)(b->chosen[b->chosen_now ^ 1] + 1);
    const uint64_t pages_at = room(p, (uint64_t)batch->n_pages * sizeof(struct step_page));
    struct step_page *pages = (struct step_page *)(void *)(p->host + pages_at);
    for (int i = 0; i < batch->n_pages; i++)
        pages[i] = (struct step_page){.group = batch->page[i].group,
                                      .page = batch->page[i].page,
                                      .from = batch->page[i].from};
    step.page = (const struct step_page *)(const void *)(p->device + pages_at);
    put_seqs(b, batch, p, &step);
    if (cuda_attention_has_lists(shape, batch->n_seqs)) {
        const struct step_seq *seqs =
            (const void *)(p->host + ((const uint8_t *)step.seq - p->device));
        room(p, cuda_attention_write(b, batch, seqs, p->host + p->at, p->device + p->at, &step,
                                     shape));
    }
    if (batch->is_draft) step.input = put_input(b, batch, p);
    for (int g = 0; g < b->plan->n_group_all; g++) step.kv[g] = b->kv[g];
    memcpy(p->host, &step, sizeof step);
    return p->at;
}

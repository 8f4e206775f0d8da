// Steps: a batch becomes one upload, a few launches and one copy back. A small step is one launch
// of all stages, then the choice of tokens. Nothing here waits for the device but cuda_wait.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"

// ---------------------------------------------------------------- flights

static rn_status grow_upload(struct cuda_flight *f, uint64_t bytes, rn_error *err) {
    if (bytes <= f->upload_cap) return RN_OK;
    const uint64_t cap = bytes * 2;
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

static rn_status grow_rows(struct cuda_flight *f, uint64_t floats, rn_error *err) {
    if (floats <= f->rows_cap) return RN_OK;
    cudaFreeHost(f->rows);
    f->rows = NULL;
    f->rows_cap = 0;
    const cudaError_t code = cudaMallocHost((void **)&f->rows, floats * sizeof(float));
    if (code) return cuda_fault(code, RN_ERR_STEP, "pinned memory for logits", err);
    f->rows_cap = floats;
    return RN_OK;
}

rn_status cuda_flights_make(struct cuda_backend *b, rn_error *err) {
    cudaError_t code = cudaSuccess;
    for (int i = 0; i < N_FLIGHTS && !code; i++) {
        struct cuda_flight *f = &b->flight[i];
        code = cudaMallocHost((void **)&f->result, CUDA_CHOSEN_BYTES(b->sizes.max_logits));
        if (!code) code = cudaEventCreate(&f->begin);
        if (!code) code = cudaEventCreate(&f->end);
        if (code) break;
        const rn_status status = grow_upload(f, 1 << 16, err);
        if (status) return status;
        f->wants = calloc((size_t)b->sizes.max_tokens, 1);
        if (!f->wants) return err_set(err, RN_ERR_NOMEM, "no memory for results");
    }
    b->logits = calloc((size_t)b->sizes.max_logits, sizeof *b->logits);
    b->hidden = calloc((size_t)b->sizes.max_tokens, sizeof *b->hidden);
    if (!b->logits || !b->hidden) return err_set(err, RN_ERR_NOMEM, "no memory for results");
    return code ? cuda_fault(code, RN_ERR_NOMEM, "memory for steps", err) : RN_OK;
}

void cuda_flights_free(struct cuda_backend *b) {
    for (int i = 0; i < N_FLIGHTS; i++) {
        struct cuda_flight *f = &b->flight[i];
        cudaFreeHost(f->upload);
        cudaFree(f->upload_device);
        cudaFreeHost(f->result);
        cudaFreeHost(f->rows);
        if (f->begin) cudaEventDestroy(f->begin);
        if (f->end) cudaEventDestroy(f->end);
        free(f->wants);
    }
    free(b->logits);
    free(b->hidden);
    cudaFreeHost(b->times);
    free(b->profile);
}

// A list without preparations, where each input of n rows can be staged.
static struct cuda_list *small_list(struct cuda_backend *b, int n_rows) {
    return b->small[n_rows].is_fit ? &b->fit_list : &b->small_list;
}

static bool is_small(const struct batch *batch) {
    return batch->n_tokens > 0 && batch->n_tokens <= SMALL_ROWS;
}

// ---------------------------------------------------------------- the upload

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

static uint64_t table_blocks(const struct batch_seq *seq) {
    return (uint64_t)(seq->first_pos + seq->n_tokens + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
}

static uint64_t upload_bytes(const struct cuda_backend *b, const struct batch *batch) {
    uint64_t bytes = sizeof(struct step) + 4 * ((uint64_t)batch->n_tokens * 4 + 16) + 64 +
                     (uint64_t)batch->n_seqs * sizeof(struct step_seq) +
                     (uint64_t)batch->n_pages * sizeof(struct step_page);
    for (int s = 0; s < batch->n_seqs; s++)
        bytes += (table_blocks(&batch->seq[s]) * 4 + 16) * (uint64_t)b->plan->n_group;
    return bytes + 64;
}

static void put_seqs(const struct cuda_backend *b, const struct batch *batch, struct packer *p,
                     struct step *step) {
    const uint64_t seqs_at = room(p, (uint64_t)batch->n_seqs * sizeof(struct step_seq));
    const uint64_t rows_at = room(p, (uint64_t)batch->n_tokens * 4);
    struct step_seq *seqs = (struct step_seq *)(void *)(p->host + seqs_at);
    int32_t *row_seq = (int32_t *)(void *)(p->host + rows_at);
    const uint64_t tables_at = p->at;
    for (int s = 0; s < batch->n_seqs; s++) {
        const struct batch_seq *seq = &batch->seq[s];
        seqs[s] = (struct step_seq){.first_row = seq->first_row,
                                    .n_tokens = seq->n_tokens,
                                    .first_pos = seq->first_pos,
                                    .first_out = seq->first_out,
                                    .n_out = seq->n_out};
        for (int i = 0; i < seq->n_tokens; i++) row_seq[seq->first_row + i] = s;
        for (int g = 0; g < b->plan->n_group; g++) {
            seqs[s].table[g] = (uint32_t)((p->at - tables_at) / 4);
            put(p, seq->page_table[g], table_blocks(seq) * 4);
        }
    }
    step->seq = (const struct step_seq *)(const void *)(p->device + seqs_at);
    step->row_seq = (const int32_t *)(const void *)(p->device + rows_at);
    step->tables = (const uint32_t *)(const void *)(p->device + tables_at);
    step->n_tables = (uint32_t)((p->at - tables_at) / 4);
}

static void put_batch(const struct cuda_backend *b, const struct batch *batch, uint32_t x_bytes,
                      struct packer *p) {
    const uint64_t at = room(p, sizeof(struct step));
    struct step step = {.n_tokens = batch->n_tokens,
                        .n_out = batch->n_out,
                        .n_logits = batch->n_logits,
                        .n_seqs = batch->n_seqs,
                        .n_pages = batch->n_pages,
                        .wants_hidden = batch->n_out > batch->n_logits,
                        .x_bytes = x_bytes};
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
    for (int g = 0; g < b->plan->n_group; g++) {
        step.kv[g] = b->kv[g];
        step.page_bytes[g] = b->page_bytes[g];
    }
    memcpy(p->host + at, &step, sizeof step);
}

// ---------------------------------------------------------------- launches

static int rows_of(const struct batch *batch, const struct stage *s, uint32_t x_bytes) {
    if ((s->flags & STAGE_IF_HIDDEN) && batch->n_out <= batch->n_logits) return 0;
    if (s->flags & STAGE_APPENDS) return batch->n_tokens;
    const int n = s->rows == STAGE_TOKENS ? batch->n_tokens
                  : s->rows == STAGE_OUT  ? batch->n_out
                                          : batch->n_logits;
    if ((s->flags & STAGE_IF_UNFIT) && STAGE_FITS(s->row.n_units, n, x_bytes)) return 0;
    return n;
}

static bool runs(const struct batch *batch, const struct stage *s, uint32_t x_bytes) {
    return s->kind == STAGE_PAGES ? batch->n_pages > 0 : rows_of(batch, s, x_bytes) > 0;
}

// Barriers of the grid in one launch of all stages: as step.cu counts them.
static int barriers_of(const struct batch *batch, const struct cuda_list *list, uint32_t x_bytes) {
    int n = 0;
    for (int i = 0; i + 1 < list->n; i++)
        n += runs(batch, &list->stage[i], x_bytes) && !(list->stage[i].flags & STAGE_NO_BARRIER);
    return n;
}

static cudaError_t launch(struct cuda_backend *b, const void *kernel, struct step_args *args,
                          uint32_t shared, bool is_cooperative) {
    void *pointers[] = {args};
    const dim3 grid = {(unsigned)b->n_sm, 1, 1}, block = {BLOCK_THREADS, 1, 1};
    if (is_cooperative)
        return cudaLaunchCooperativeKernel(kernel, grid, block, pointers, shared, b->stream);
    return cudaLaunchKernel(kernel, grid, block, pointers, shared, b->stream);
}

static cudaError_t launch_small(struct cuda_backend *b, struct cuda_flight *f,
                                const struct batch *batch) {
    const struct cuda_shape *shape = &b->small[batch->n_tokens];
    struct cuda_result *result = b->chosen[b->chosen_now];
    const struct cuda_list *list = small_list(b, batch->n_tokens);
    struct step_args args = {.stages = list->device,
                             .n_stages = list->n,
                             .step = (const struct step *)(const void *)f->upload_device,
                             .arrived = (uint32_t *)(void *)(b->memory + b->layout.arrived_at),
                             .epoch = b->epoch,
                             .n_slots = shape->n_slots,
                             .slot_bytes = shape->slot_bytes,
                             .times = f->list ? b->times : NULL,
                             .clock_begin = &result->clock[0],
                             .clock_end = &result->clock[1]};
    b->epoch += (uint32_t)(barriers_of(batch, list, shape->x_bytes) * b->n_sm);
    return launch(b, step_small(), &args, shape->shared, true);
}

static cudaError_t launch_wide(struct cuda_backend *b, const struct cuda_flight *f,
                               const struct batch *batch) {
    struct cuda_result *result = b->chosen[b->chosen_now];
    const struct cuda_list *list = &b->wide_list;
    cudaError_t code = cudaSuccess;
    int last = -1;
    for (int i = 0; i < list->n; i++)
        if (runs(batch, &list->stage[i], 0)) last = i;
    bool is_first = true;
    for (int i = 0; i < list->n && !code; i++) {
        if (!runs(batch, &list->stage[i], 0)) continue;
        struct step_args args = {.stages = list->device,
                                 .first = i,
                                 .n_stages = 1,
                                 .step = (const struct step *)(const void *)f->upload_device,
                                 .n_slots = b->wide.n_slots,
                                 .slot_bytes = b->wide.slot_bytes,
                                 .times = f->list ? b->times + 2 * i : NULL,
                                 .clock_begin = is_first ? &result->clock[0] : NULL,
                                 .clock_end = i == last ? &result->clock[1] : NULL};
        is_first = false;
        code = launch(b, step_wide(), &args, b->wide.shared, false);
    }
    return code;
}

// ---------------------------------------------------------------- results

static bool wants_row(const struct batch *batch, int i) {
    return i >= batch->n_logits || !batch->choice || batch->choice[i].wants_logits;
}

static const float *row_at(const struct cuda_backend *b, int buffer, int row) {
    const struct cuda_buffer *own = &b->layout.buffer[buffer];
    return (const float *)(const void *)(b->memory + own->at) + (int64_t)row * own->ld;
}

// Rows that are wanted follow each other at flight.rows.
static rn_status rows_bring(struct cuda_backend *b, struct cuda_flight *f,
                            const struct batch *batch, rn_error *err) {
    const struct plan *plan = b->plan;
    const uint64_t vocab = (uint64_t)plan->n_vocab;
    const uint64_t width =
        plan->hidden == PLAN_NONE ? 0 : (uint64_t)plan->buffer[plan->hidden].width;
    uint64_t floats = 0, at = 0;
    for (int i = 0; i < batch->n_out; i++) {
        f->wants[i] = wants_row(batch, i) && (i < batch->n_logits || width > 0);
        if (f->wants[i]) floats += i < batch->n_logits ? vocab : width;
    }
    const rn_status status = grow_rows(f, floats, err);
    if (status) return status;
    for (int i = 0; i < batch->n_out; i++) {
        if (!f->wants[i]) continue;
        const bool is_logits = i < batch->n_logits;
        const uint64_t n = is_logits ? vocab : width;
        const cudaError_t code =
            cudaMemcpyAsync(f->rows + at, row_at(b, is_logits ? plan->logits : plan->hidden, i),
                            n * sizeof(float), cudaMemcpyDeviceToHost, b->stream);
        if (code) return cuda_fault(code, RN_ERR_DEVICE, "bringing logits", err);
        at += n;
    }
    return RN_OK;
}

// ---------------------------------------------------------------- submit, wait

static bool chooses(const struct batch *batch) {
    for (int i = 0; batch->choice && i < batch->n_logits; i++)
        if (batch->choice[i].numbers) return true;
    return false;
}

static rn_status run(struct cuda_backend *b, struct cuda_flight *f, const struct batch *batch,
                     rn_error *err) {
    struct cuda_result *result = b->chosen[b->chosen_now];
    cudaError_t code = cudaSuccess;
    f->list = !b->profiling     ? NULL
              : is_small(batch) ? small_list(b, batch->n_tokens)
                                : &b->wide_list;
    if (b->has_experts) code = cudaMemsetAsync(result, 0, sizeof *result, b->stream);
    if (!code) code = is_small(batch) ? launch_small(b, f, batch) : launch_wide(b, f, batch);
    if (code) return cuda_fault(code, RN_ERR_DEVICE, "launching a step", err);
    return RN_OK;
}

static rn_status submit(struct cuda_backend *b, struct cuda_flight *f, const struct batch *batch,
                        rn_error *err) {
    const bool is_choosing = chooses(batch);
    const uint64_t own = upload_bytes(b, batch);
    const uint64_t all =
        own + (is_choosing ? choose_bytes(batch->choice, batch->n_logits) + 512 : 0);
    rn_status status = grow_upload(f, all, err);
    if (status) return status;
    struct packer p = {f->upload, f->upload_device, 0};
    struct choose_plan plan = {0};
    put_batch(b, batch, is_small(batch) ? b->small[batch->n_tokens].x_bytes : 0, &p);
    assert(p.at <= own);
    const uint64_t choose_at = (p.at + 255) / 256 * 256;
    uint64_t bytes = p.at;
    if (is_choosing) {
        choose_write(batch->choice, batch->n_logits, f->upload + choose_at, &plan);
        bytes = choose_at + plan.bytes;
    }
    cudaError_t code = cudaEventRecord(f->begin, b->stream);
    if (!code)
        code =
            cudaMemcpyAsync(f->upload_device, f->upload, bytes, cudaMemcpyHostToDevice, b->stream);
    if (code) return cuda_fault(code, RN_ERR_DEVICE, "bringing a batch to the device", err);
    f->has_run = batch->n_tokens > 0;
    f->n_logits = batch->n_logits;
    f->n_out = batch->n_out;
    if (batch->n_tokens > 0 || batch->n_pages > 0) status = run(b, f, batch, err);
    if (status) return status;
    if (is_choosing) {
        code = choose_launch(&plan, f->upload_device + choose_at, row_at(b, b->plan->logits, 0),
                             b->layout.buffer[b->plan->logits].ld, batch->n_logits, &b->choose,
                             (int32_t *)(void *)(b->chosen[b->chosen_now] + 1), b->stream);
        if (code) return cuda_fault(code, RN_ERR_DEVICE, "choosing tokens", err);
    }
    if (batch->n_tokens > 0) {
        const uint64_t n =
            sizeof(struct cuda_result) + (is_choosing ? (uint64_t)batch->n_logits * 4 : 0);
        if (!is_choosing) memset(f->result + 1, 0xff, (size_t)batch->n_logits * 4);
        code = cudaMemcpyAsync(f->result, b->chosen[b->chosen_now], n, cudaMemcpyDeviceToHost,
                               b->stream);
        if (code) return cuda_fault(code, RN_ERR_DEVICE, "bringing tokens", err);
        b->chosen_now ^= 1;
        status = rows_bring(b, f, batch, err);
    }
    if (status) return status;
    code = cudaEventRecord(f->end, b->stream);
    return code ? cuda_fault(code, RN_ERR_DEVICE, "ending a step", err) : RN_OK;
}

rn_status cuda_submit(struct backend *backend, const struct batch *batch, rn_error *err) {
    struct cuda_backend *b = (struct cuda_backend *)backend;
    assert(b->n_in_flight < N_FLIGHTS);
    assert(batch->n_tokens <= b->sizes.max_tokens && batch->n_logits <= b->sizes.max_logits);
    assert(batch->n_seqs <= b->sizes.max_seqs);
    if (b->is_lost) return err_set(err, RN_ERR_DEVICE, "the device is lost");
    cudaError_t code = cudaSetDevice(b->device);
    if (code) return cuda_fault(code, RN_ERR_DEVICE, "the device", err);
    const rn_status status = submit(b, &b->flight[b->next], batch, err);
    if (status == RN_ERR_DEVICE) b->is_lost = true;
    if (status) return status;
    b->next = (b->next + 1) % N_FLIGHTS;
    b->n_in_flight++;
    return RN_OK;
}

static void stages_report(struct cuda_backend *b, const struct cuda_flight *f,
                          struct step_result *out) {
    const struct cuda_list *list = f->list;
    const bool is_one = list != &b->wide_list;
    double scale = b->cycle_ns;
    const uint64_t cycles = b->times[list->n] - b->times[0];
    const uint64_t ns = f->result->clock[1] - f->result->clock[0];
    if (is_one && cycles > 0) scale = (double)ns / (double)cycles;
    for (int i = 0; i < list->n; i++) {
        const uint64_t *t = is_one ? b->times + i : b->times + 2 * i;
        b->profile[i] =
            (struct step_stage){list->name[i], (uint64_t)((double)(t[1] - t[0]) * scale)};
        out->ops_ns[list->stage[i].ops] += b->profile[i].ns;
    }
    out->stage = b->profile;
    out->n_stage = list->n;
}

static void results_point(struct cuda_backend *b, const struct cuda_flight *f) {
    const struct plan *plan = b->plan;
    const float *at = f->rows;
    for (int i = 0; i < f->n_out; i++) {
        const bool is_logits = i < f->n_logits;
        const float *row = f->wants[i] ? at : NULL;
        if (is_logits)
            b->logits[i] = row;
        else
            b->hidden[i] = row;
        if (row) at += is_logits ? plan->n_vocab : plan->buffer[plan->hidden].width;
    }
}

rn_status cuda_wait(struct backend *backend, struct step_result *out, rn_error *err) {
    struct cuda_backend *b = (struct cuda_backend *)backend;
    assert(b->n_in_flight > 0);
    const int index = (b->next + N_FLIGHTS - b->n_in_flight) % N_FLIGHTS;
    struct cuda_flight *f = &b->flight[index];
    *out = (struct step_result){0};
    b->n_in_flight--;
    cudaError_t code = cudaSetDevice(b->device);
    if (!code) code = cudaEventSynchronize(f->end);
    if (code) {
        b->is_lost = true;
        return cuda_fault(code, RN_ERR_DEVICE, "a step", err);
    }
    out->logits = b->logits;
    out->hidden = b->hidden;
    if (!f->has_run) return RN_OK;
    results_point(b, f);
    out->token = (const int32_t *)(const void *)(f->result + 1);
    float ms = 0;
    cudaEventElapsedTime(&ms, f->begin, f->end);
    const uint64_t all_ns = (uint64_t)((double)ms * 1e6);
    out->run_ns = f->result->clock[1] - f->result->clock[0];
    if (out->run_ns > all_ns) out->run_ns = all_ns;
    out->choose_ns = all_ns - out->run_ns;
    if (b->has_experts) out->expert_bytes = f->result->expert_bytes;
    if (f->list) stages_report(b, f, out);
    return RN_OK;
}

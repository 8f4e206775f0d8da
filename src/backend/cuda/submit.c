// Steps: a batch becomes one upload (upload.c), launches (launches.c) and copies back. Nothing here
// waits for a step but cuda_wait.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"

// ---------------------------------------------------------------- flights

rn_status cuda_flights_make(struct cuda_backend *b, rn_error *err) {
    cudaError_t code = cudaSuccess;
    for (int i = 0; i < N_FLIGHTS && !code; i++) {
        struct cuda_flight *f = &b->flight[i];
        code = cudaMallocHost((void **)&f->result, CUDA_CHOSEN_BYTES(b->sizes.max_logits));
        if (!code) code = cudaEventCreateWithFlags(&f->brought, cudaEventDisableTiming);
        if (!code) code = cudaEventCreateWithFlags(&f->ran, cudaEventDisableTiming);
        if (!code) code = cudaEventCreateWithFlags(&f->end, cudaEventDisableTiming);
        if (code) break;
        const rn_status status = cuda_upload_grow(f, cuda_upload_usual(b), err);
        if (status) return status;
        f->wants = calloc((size_t)b->sizes.max_tokens, 1);
        if (!f->wants) return err_set(err, RN_ERR_NOMEM, "no memory for results");
    }
    b->logits = calloc((size_t)b->sizes.max_logits, sizeof *b->logits);
    b->hidden = calloc((size_t)b->sizes.max_tokens, sizeof *b->hidden);
    b->seqs = calloc((size_t)(b->sizes.max_seqs + b->sizes.max_tokens), sizeof *b->seqs);
    if (!b->logits || !b->hidden || !b->seqs)
        return err_set(err, RN_ERR_NOMEM, "no memory for results");
    return code ? cuda_fault(code, RN_ERR_NOMEM, "memory for steps", err) : RN_OK;
}

void cuda_flights_free(struct cuda_backend *b) {
    for (int i = 0; i < N_FLIGHTS; i++) {
        struct cuda_flight *f = &b->flight[i];
        cudaFreeHost(f->upload);
        cudaFree(f->upload_device);
        cudaFreeHost(f->result);
        cudaFreeHost(f->rows.at);
        cudaFreeHost(f->hidden.at);
        if (f->brought) cudaEventDestroy(f->brought);
        if (f->ran) cudaEventDestroy(f->ran);
        if (f->end) cudaEventDestroy(f->end);
        free(f->wants);
    }
    cuda_graphs_free(&b->graphs);
    free(b->logits);
    free(b->hidden);
    free(b->seqs);
    cudaFree(b->times);
    cudaFreeHost(b->times_host);
    free(b->profile);
}

// ---------------------------------------------------------------- results

// Twice the room that is needed, but `most`: it is seldom taken, which lasts milliseconds.
static rn_status grow_rows(struct cuda_rows *rows, uint64_t floats, uint64_t most, rn_error *err) {
    if (floats <= rows->cap) return RN_OK;
    floats = 2 * floats < most ? 2 * floats : most;
    cudaFreeHost(rows->at);
    *rows = (struct cuda_rows){0};
    const cudaError_t code = cudaMallocHost((void **)&rows->at, floats * sizeof(float));
    if (code) return cuda_fault(code, RN_ERR_STEP, "pinned memory for logits", err);
    rows->cap = floats;
    return RN_OK;
}

static bool wants_row(const struct batch *batch, int i) {
    return i >= batch->n_logits || !batch->choice || batch->choice[i].wants_logits;
}

// Rows [first, end) of a buffer to the host, by one copy.
static cudaError_t rows_copy(struct cuda_backend *b, float *to, int buffer, uint64_t width,
                             int first, int end) {
    const uint64_t pitch = (uint64_t)b->layout.buffer[buffer].ld * sizeof(float);
    return cudaMemcpy2DAsync(to, width * sizeof(float), cuda_row_at(b, buffer, first), pitch,
                             width * sizeof(float), (size_t)(end - first), cudaMemcpyDeviceToHost,
                             b->stream);
}

static uint64_t hidden_width(const struct cuda_backend *b) {
    const struct plan *plan = b->plan;
    return plan->hidden == PLAN_NONE ? 0 : (uint64_t)plan->buffer[plan->hidden].width;
}

// The rows that are wanted, and room for them. Nothing of the step was handed over yet: the device
// writes to this memory, and a step without it never began.
static rn_status rows_room(struct cuda_backend *b, struct cuda_flight *f, const struct batch *batch,
                           rn_error *err) {
    const uint64_t vocab = (uint64_t)b->plan->n_vocab, width = hidden_width(b);
    uint64_t floats = 0;
    for (int i = 0; i < batch->n_out; i++) {
        f->wants[i] = wants_row(batch, i) && (i < batch->n_logits || (width > 0 && !b->has_block));
        if (f->wants[i]) floats += i < batch->n_logits ? vocab : width;
    }
    const uint64_t most = (uint64_t)b->sizes.max_tokens * width;
    const rn_status status =
        grow_rows(&f->rows, floats, (uint64_t)b->sizes.max_logits * vocab + most, err);
    if (status || !b->has_block) return status;
    return grow_rows(&f->hidden, (uint64_t)batch->n_out * width, most, err);
}

// Rows that are wanted follow each other at flight.rows. Neighbours come together.
static cudaError_t rows_bring(struct cuda_backend *b, struct cuda_flight *f,
                              const struct batch *batch) {
    const struct plan *plan = b->plan;
    const uint64_t vocab = (uint64_t)plan->n_vocab, width = hidden_width(b);
    uint64_t at = 0;
    cudaError_t code = cudaSuccess;
    if (b->has_block && width > 0 && batch->n_out > 0)
        code = rows_copy(b, f->hidden.at, plan->hidden, width, 0, batch->n_out);
    for (int i = 0, end; i < batch->n_out && !code; i = end) {
        const bool is_logits = i < batch->n_logits;
        const int last = is_logits ? batch->n_logits : batch->n_out;
        for (end = i + 1; f->wants[i] && end < last && f->wants[end];) end++;
        if (!f->wants[i]) continue;
        const uint64_t n = is_logits ? vocab : width;
        code = rows_copy(b, f->rows.at + at, is_logits ? plan->logits : plan->hidden, n, i, end);
        at += n * (uint64_t)(end - i);
    }
    return code;
}

// ---------------------------------------------------------------- submit, wait

static bool chooses(const struct batch *batch) {
    for (int i = 0; batch->choice && i < batch->n_logits; i++)
        if (batch->choice[i].numbers) return true;
    return false;
}

static cudaError_t run(struct cuda_backend *b, struct cuda_flight *f,
                       const struct cuda_shape *shape) {
    const struct cuda_flight *before = &b->flight[(b->next + N_FLIGHTS - 1) % N_FLIGHTS];
    f->is_late = b->n_in_flight == 0 || cudaEventQuery(before->ran) == cudaSuccess;
    f->list = b->profiling ? cuda_list_of(b, shape) : NULL;
    return f->list ? cuda_launch_step(b, shape, f->list) : cuda_graph_run(b, shape);
}

// The fault of a step of which a part may have been handed over. Where memory was short, the part
// ends first: the next step has the same buffers. Then nothing of the step is left, as far as the
// engine can tell.
static rn_status step_fault(struct cuda_backend *b, cudaError_t code, const char *what,
                            rn_error *err) {
    const bool is_short = code == cudaErrorMemoryAllocation;
    cudaError_t ended = is_short ? cudaStreamSynchronize(b->up) : code;
    if (!ended) ended = cudaStreamSynchronize(b->stream);
    if (!ended) ended = cudaStreamSynchronize(b->down);
    if (!ended) return cuda_fault(code, RN_ERR_STEP, what, err);
    cuda_fault(code, RN_ERR_STEP, what, err);
    return RN_ERR_DEVICE;
}

// What the launches of the batch depend on. The choices are added where they are written.
static void shape_of(const struct cuda_backend *b, const struct cuda_flight *f,
                     const struct batch *batch, int n_seqs_out, struct cuda_shape *out) {
    const struct backend_sizes *most = &b->sizes;
    memset(out, 0, sizeof *out); // compared as bytes
    out->upload = f->upload_device;
    out->chosen_now = b->chosen_now;
    out->n_tokens = cuda_rows_class(batch->n_tokens, most->max_tokens);
    out->n_out = cuda_rows_class(batch->n_out, most->max_tokens);
    out->n_logits = cuda_rows_class(batch->n_logits, most->max_logits);
    if (b->has_states) out->n_seqs = cuda_rows_class(batch->n_seqs, most->max_seqs);
    out->has_pages = batch->n_pages > 0;
    out->has_hidden = batch->n_out > batch->n_logits || b->has_block;
    out->is_draft = batch->is_draft;
    cuda_attention_size(batch, n_seqs_out, out);
}

// batch->seq has n_seqs_out sequences: those of the batch, and runs of hidden rows.
static rn_status submit(struct cuda_backend *b, struct cuda_flight *f, const struct batch *batch,
                        int n_seqs_out, rn_error *err) {
    const bool is_choosing = chooses(batch);
    const int n_chosen = is_choosing ? cuda_rows_class(batch->n_logits, b->sizes.max_logits) : 0;
    const uint64_t all = CUDA_CHOOSE_AT + cuda_upload_bytes(b, batch, n_seqs_out) +
                         choose_bytes(batch->choice, is_choosing ? batch->n_logits : 0, n_chosen);
    rn_status status = cuda_upload_grow(f, all, err);
    if (!status && batch->n_tokens > 0) status = rows_room(b, f, batch, err);
    if (status) return status;
    struct cuda_shape shape;
    shape_of(b, f, batch, n_seqs_out, &shape);
    shape.is_choosing = is_choosing;
    struct choose_plan choose = {0};
    if (is_choosing)
        choose_write(batch->choice, batch->n_logits, n_chosen, f->upload + CUDA_CHOOSE_AT, &choose);
    shape.choose.n_rows = choose.n_rows, shape.choose.max_vocab = choose.max_vocab;
    shape.choose.flags = choose.flags & CHOOSE_LAUNCHES;
    // the description of choices is where every step has it, whatever follows
    const uint64_t bytes =
        cuda_upload_write(b, batch, n_seqs_out, f, CUDA_CHOOSE_AT + (choose.bytes + 15) / 16 * 16,
                          &shape);
    assert(bytes <= all);
    cudaError_t code =
        cudaMemcpyAsync(f->upload_device, f->upload, bytes, cudaMemcpyHostToDevice, b->up);
    if (!code) code = cudaEventRecord(f->brought, b->up);
    // while another step runs there is time to wait here; a wait on the stream would cost more
    if (!code)
        code = b->n_in_flight > 0 ? cudaEventSynchronize(f->brought)
                                  : cudaStreamWaitEvent(b->stream, f->brought, 0);
    if (code) return step_fault(b, code, "bringing a batch to the device", err);
    f->has_run = batch->n_tokens > 0;
    f->is_choosing = is_choosing;
    f->n_logits = batch->n_logits;
    f->n_out = batch->n_out;
    if (batch->n_tokens > 0 || batch->n_pages > 0) code = run(b, f, &shape);
    if (code) return step_fault(b, code, "launching a step", err);
    if (batch->n_tokens > 0) code = rows_bring(b, f, batch);
    if (code) return step_fault(b, code, "bringing rows", err);
    code = cudaEventRecord(f->ran, b->stream);
    if (!code) code = cudaStreamWaitEvent(b->down, f->ran, 0);
    if (batch->n_tokens > 0) {
        const uint64_t n =
            sizeof(struct cuda_result) + (is_choosing ? (uint64_t)batch->n_logits * 4 : 0);
        if (!is_choosing) memset(f->result + 1, 0xff, (size_t)batch->n_logits * 4);
        if (!code)
            code = cudaMemcpyAsync(f->result, b->chosen[b->chosen_now], n, cudaMemcpyDeviceToHost,
                                   b->down);
        if (!code && f->list)
            code = cudaMemcpyAsync(b->times_host, b->times, (size_t)f->list->n * sizeof *b->times,
                                   cudaMemcpyDeviceToHost, b->down);
    }
    if (!code) code = cudaEventRecord(f->end, b->down);
    if (code) return step_fault(b, code, "ending a step", err);
    if (batch->n_tokens > 0) b->chosen_now ^= 1;
    return RN_OK;
}

rn_status cuda_submit(struct backend *backend, const struct batch *batch, rn_error *err) {
    struct cuda_backend *b = (struct cuda_backend *)backend;
    assert(b->n_in_flight < N_FLIGHTS);
    assert(batch->n_tokens <= b->sizes.max_tokens && batch->n_logits <= b->sizes.max_logits);
    assert(batch->n_seqs <= b->sizes.max_seqs);
    assert(!batch->is_draft || b->n_in_flight == 0); // its result is the next one
    if (b->is_lost) return err_set(err, RN_ERR_DEVICE, "the device is lost");
    cudaError_t code = cudaSetDevice(b->device);
    if (code) return cuda_fault(code, RN_ERR_DEVICE, "the device", err);
    struct batch all = *batch;
    const int n_seqs_out = cuda_seqs_extend(batch, b->seqs);
    all.seq = b->seqs;
    const rn_status status = submit(b, &b->flight[b->next], &all, n_seqs_out, err);
    if (status == RN_ERR_DEVICE) b->is_lost = true;
    if (status) return status;
    b->next = (b->next + 1) % N_FLIGHTS;
    b->n_in_flight++;
    return RN_OK;
}

// A stage begins where the one before it ended. Times of stages that did not run are old.
static void stages_report(struct cuda_backend *b, const struct cuda_flight *f,
                          struct step_result *out) {
    const struct cuda_list *list = f->list;
    uint64_t begin = f->result->clock[0];
    for (int i = 0; i < list->n; i++) {
        const uint64_t end = b->times_host[i];
        b->profile[i] = (struct step_stage){list->name[i], end > begin ? end - begin : 0};
        out->ops_ns[list->stage[i].ops] += b->profile[i].ns;
        if (end > begin) begin = end;
    }
    f->result->clock[1] = begin;
    out->stage = b->profile;
    out->n_stage = list->n;
}

static void results_point(struct cuda_backend *b, const struct cuda_flight *f) {
    const struct plan *plan = b->plan;
    const float *at = f->rows.at;
    const int width = plan->hidden == PLAN_NONE ? 0 : plan->buffer[plan->hidden].width;
    for (int i = 0; i < f->n_out; i++) {
        const bool is_logits = i < f->n_logits;
        const float *row = f->wants[i] ? at : NULL;
        if (is_logits)
            b->logits[i] = row;
        else
            b->hidden[i] = row;
        if (b->has_block) b->hidden[i] = f->hidden.at + (int64_t)i * width;
        if (row) at += is_logits ? plan->n_vocab : width;
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
        cuda_fault(code, RN_ERR_STEP, "a step", err);
        return RN_ERR_DEVICE;
    }
    out->logits = b->logits;
    out->hidden = b->hidden;
    if (!f->has_run) return RN_OK;
    results_point(b, f);
    out->token = (const int32_t *)(const void *)(f->result + 1);
    if (f->list) stages_report(b, f, out);
    const uint64_t *clock = f->result->clock;
    out->run_ns = clock[1] - clock[0];
    out->choose_ns = f->is_choosing && clock[2] > clock[1] ? clock[2] - clock[1] : 0;
    out->idle_ns = b->end_ns && clock[0] > b->end_ns ? clock[0] - b->end_ns : 0;
    out->is_late = f->is_late;
    b->end_ns = clock[1] + out->choose_ns;
    if (b->has_experts) out->expert_bytes = f->result->expert_bytes;
    return RN_OK;
}

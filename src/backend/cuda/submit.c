// Steps: a batch becomes one upload, a launch for each stage and one copy back. Launches depend on
// the batch's shape alone: graphs.c records them by it. Nothing here waits for a step but
// cuda_wait.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.h"

// ---------------------------------------------------------------- flights

static rn_status grow_upload(struct cuda_flight *f, uint64_t bytes, rn_error *err) {
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

// Rows of the draft block's op INPUT.
static uint64_t input_bytes(const struct cuda_backend *b, int n_rows) {
    return b->has_block ? (uint64_t)n_rows * (uint64_t)b->input_width * sizeof(float) : 0;
}

// The upload of a step with all rows, and each page in one table: a larger one is rare. Its address
// is part of recorded steps, so they are lost with it.
static uint64_t upload_usual(const struct cuda_backend *b) {
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

rn_status cuda_flights_make(struct cuda_backend *b, rn_error *err) {
    cudaError_t code = cudaSuccess;
    for (int i = 0; i < N_FLIGHTS && !code; i++) {
        struct cuda_flight *f = &b->flight[i];
        code = cudaMallocHost((void **)&f->result, CUDA_CHOSEN_BYTES(b->sizes.max_logits));
        if (!code) code = cudaEventCreateWithFlags(&f->brought, cudaEventDisableTiming);
        if (!code) code = cudaEventCreateWithFlags(&f->ran, cudaEventDisableTiming);
        if (!code) code = cudaEventCreateWithFlags(&f->end, cudaEventDisableTiming);
        if (code) break;
        const rn_status status = grow_upload(f, upload_usual(b), err);
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

static const struct cuda_list *list_of(const struct cuda_backend *b,
                                       const struct cuda_shape *shape) {
    const bool is_small = shape->n_tokens > 0 && shape->n_tokens <= SMALL_ROWS;
    return &b->list[is_small ? 0 : 1][shape->is_draft];
}

// ---------------------------------------------------------------- the upload

enum { CHOOSE_AT = 512 }; // of the choices' description: behind `struct step`
static_assert(sizeof(struct step) <= CHOOSE_AT, "the step has room");

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

// The page tables of the groups that the batch's ops have: the model's, or the draft block's.
static int group_first(const struct plan *plan, const struct batch *batch) {
    return batch->is_draft ? plan->n_group : 0;
}
static int group_end(const struct plan *plan, const struct batch *batch) {
    return batch->is_draft ? plan->n_group_all : plan->n_group;
}

static uint64_t upload_bytes(const struct cuda_backend *b, const struct batch *batch,
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

// `struct step` is at the start of the upload. batch->seq has n_seqs_out sequences.
static void put_batch(const struct cuda_backend *b, const struct batch *batch, int n_seqs_out,
                      struct packer *p, struct cuda_shape *shape) {
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
    if (batch->n_tokens > SMALL_ROWS) {
        const struct step_seq *seqs =
            (const void *)(p->host + ((const uint8_t *)step.seq - p->device));
        room(p, cuda_attention_write(b, batch, seqs, p->host + p->at, p->device + p->at, &step,
                                     shape));
    }
    if (batch->is_draft) step.input = put_input(b, batch, p);
    for (int g = 0; g < b->plan->n_group_all; g++) step.kv[g] = b->kv[g];
    memcpy(p->host, &step, sizeof step);
}

// ---------------------------------------------------------------- launches

// Tuning; no bits depend on it. docs/benchmarks/h200.md has the figures.
enum {
    // Shared memory of a product on a multiprocessor, about. The rest is for the next launch, whose
    // weights come while this one ends. Short slices of small units need more in flight
    SHARED_USUAL = 112 << 10,
    SHARED_SHORT = 160 << 10,
    SHARED_ALONE = 216 << 10,   // long units that are not staged: no third block may come in
    SHORT_UNIT = 320,           // bytes
    SHORT_UNITS = 8 * N_SLICES, // of a tile
    NORMED_COLS = 4096,         // of rows that each block of a product norms for itself: input.cuh
};

bool cuda_is_staged(const struct cuda_backend *b, int input, int cols, int n_rows) {
    const int n_units = (cols + UNIT_COLS - 1) / UNIT_COLS;
    if (n_rows > SMALL_ROWS || (uint32_t)(n_units * n_rows) * 64 > b->staged_most) return false;
    return input == INPUT_16 || (input == INPUT_RMS && cols <= NORMED_COLS && cols % 4 == 0);
}

// The rows of a stage's launch: those of the step at least; 0: it has no work.
static int rows_of(const struct cuda_backend *b, const struct cuda_shape *shape,
                   const struct stage *s) {
    if (s->kind == STAGE_PAGES) return shape->has_pages;
    if ((s->flags & STAGE_IF_HIDDEN) && !shape->has_hidden) return 0;
    if (s->flags & STAGE_APPENDS) return shape->n_tokens;
    const int n = s->rows == STAGE_TOKENS ? shape->n_tokens
                  : s->rows == STAGE_OUT  ? shape->n_out
                                          : shape->n_logits;
    if ((s->flags & STAGE_IF_UNFIT) && cuda_is_staged(b, s->row.input, s->row.width, n)) return 0;
    return n;
}

// Slots of a ring that a staged product asks for before it waits. Its input comes behind them, and
// late where they are many; the other slots follow the input. Short stages of small units wait for
// nothing but the input; those of long units have most of their weights in the rings.
static int slots_early(int unit_bytes, int n_units, bool is_short) {
    if (is_short) return 0;
    return unit_bytes > SHORT_UNIT && n_units <= SHORT_UNITS ? RING_SLOTS_MAX : 1;
}

// Products of a small step.
static cudaError_t launch_product(struct cuda_backend *b, const struct stage *stage, int n_rows,
                                  struct launch_clock clock) {
    struct product_args args = {.stage = stage->product, .n_rows = n_rows, .clock = clock};
    struct stage_product *s = &args.stage;
    int codec = s->is_routed ? (int)CODEC_COUNT : s->product[0].codec;
    // long stages of long units read rows of 16 bits from memory: the rings are worth more
    const bool reads =
        s->input == INPUT_16 && s->product[0].unit_bytes > SHORT_UNIT && s->n_tiles > b->n_sm;
    const bool stages = !s->is_routed && !reads && cuda_is_staged(b, s->input, s->cols, n_rows);
    if (!stages) s->input = INPUT_16; // written so, or prepared
    for (int i = 0; i < s->n_products; i++) {
        const int unit = s->product[i].unit_bytes, bytes = SLOT_UNITS(unit) * unit;
        if (bytes > args.slot_bytes) args.slot_bytes = bytes;
        if (s->product[i].codec != codec) codec = CODEC_COUNT;
    }
    const uint32_t x_bytes = stages ? (uint32_t)(s->n_units * n_rows * 64) : 0;
    const int tiles_each = s->is_routed ? 2 : (s->n_tiles + b->n_sm - 1) / b->n_sm;
    const int per_sm = tiles_each < PRODUCT_BLOCKS ? tiles_each : (int)PRODUCT_BLOCKS;
    const int unit = s->product[0].unit_bytes;
    const bool is_short = unit <= SHORT_UNIT && (s->n_units <= SHORT_UNITS || per_sm == 1);
    const int budget = !stages && unit > SHORT_UNIT ? SHARED_ALONE
                       : is_short                   ? SHARED_SHORT
                                                    : SHARED_USUAL;
    const int all = (int)b->prop.sharedMemPerMultiprocessor - per_sm * 1024;
    const uint32_t fixed = product_shared_bytes(0, 0, x_bytes) + 1024;
    const int left = (budget < all ? budget : all) / per_sm - (int)fixed;
    args.n_slots = left / (N_WARPS * args.slot_bytes);
    if (args.n_slots > RING_SLOTS_MAX) args.n_slots = RING_SLOTS_MAX;
    if (args.n_slots < 2) args.n_slots = 2;
    uint32_t shared = product_shared_bytes(args.n_slots, args.slot_bytes, x_bytes);
    while (args.n_slots > 1 && shared > b->shared_most) // of other GPUs
        shared = product_shared_bytes(--args.n_slots, args.slot_bytes, x_bytes);
    assert(shared <= b->shared_most);
    args.n_early = stages ? slots_early(unit, s->n_units, is_short) : args.n_slots;
    if (args.n_early > args.n_slots) args.n_early = args.n_slots;
    int blocks = b->n_sm * per_sm;
    if (!s->is_routed && s->n_tiles < blocks) blocks = s->n_tiles;
    return cuda_launch(product_small(codec, stages), (uint64_t)blocks, PRODUCT_THREADS, shared,
                       &args, b->overlaps, b->stream);
}

static cudaError_t launch_prepare(struct cuda_backend *b, const struct stage *s, int n_rows,
                                  const struct cuda_shape *shape, struct launch_clock clock) {
    struct prepare_args args = {.stage = s->row, .clock = clock, .n_rows = n_rows, .rows = s->rows};
    if (s->row.position) args.step = (const struct step *)(const void *)shape->upload;
    const int64_t rows = (int64_t)n_rows * (s->row.slots > 1 ? s->row.slots : 1);
    const int64_t most = 4 * (int64_t)b->n_sm;
    return cuda_launch(prepare_kernel(s->row.input), (uint64_t)(rows < most ? rows : most),
                       BLOCK_THREADS, 2 * N_WARPS * sizeof(float), &args, b->overlaps, b->stream);
}

// One launch: the stage at `index`, or all that join it. *n: their number.
static cudaError_t launch_stage(struct cuda_backend *b, const struct cuda_shape *shape,
                                const struct cuda_list *list, int index, struct launch_clock clock,
                                int *n) {
    const struct stage *s = &list->stage[index];
    struct rows_args args = {.stages = list->device + index,
                             .step = (const struct step *)(const void *)shape->upload,
                             .clock = clock};
    *n = 1;
    if (s->kind == STAGE_PRODUCT && !list->is_small)
        return cuda_many_launch(b, s, rows_of(b, shape, s), clock);
    if (s->kind == STAGE_PRODUCT) return launch_product(b, s, rows_of(b, shape, s), clock);
    if (s->kind == STAGE_PREPARE) return launch_prepare(b, s, rows_of(b, shape, s), shape, clock);
    if (s->kind == STAGE_UP || s->kind == STAGE_DOWN)
        return cuda_experts_launch(b, s, rows_of(b, shape, s), shape, clock);
    if (s->kind == STAGE_WEIGH) return cuda_weigh_launch(b, s, rows_of(b, shape, s), shape, clock);
    if (s->kind == STAGE_COMBINE) return cuda_combine_launch(b, s, rows_of(b, shape, s), clock);
    if (s->kind == STAGE_ROUTE) return cuda_route_launch(b, s, rows_of(b, shape, s), shape, clock);
    if (s->kind == STAGE_HEADS) return cuda_heads_launch(b, s, rows_of(b, shape, s), clock);
    if (s->kind == STAGE_ATTENTION || s->kind == STAGE_APPEND)
        return cuda_attention_launch(b, s, rows_of(b, shape, s), shape, clock);
    if (s->kind == STAGE_CONV || s->kind == STAGE_DELTA || s->kind == STAGE_SCAN)
        return cuda_state_launch(b, s, shape, clock);
    if (cuda_gate_is_alone(s, list->is_small))
        return cuda_gate_launch(b, s, rows_of(b, shape, s), shape, clock);
    for (int i = 0; i < ROWS_JOINED; i++) {
        args.n_rows[args.n_stages++] = rows_of(b, shape, s + i);
        if (!(s[i].flags & STAGE_JOINS)) break;
    }
    *n = args.n_stages;
    const uint64_t blocks = (uint64_t)b->n_sm * (list->is_small ? 1 : ROWS_BLOCKS);
    return cuda_launch(rows_kernel(), blocks, BLOCK_THREADS, ROWS_SHARED, &args, b->overlaps,
                       b->stream);
}

// Whether the launch that begins with this stage has work.
static bool has_work(const struct cuda_backend *b, const struct cuda_shape *shape,
                     const struct cuda_list *list, int index) {
    for (int i = index; i < index + ROWS_JOINED && i < list->n; i++) {
        if (rows_of(b, shape, &list->stage[i]) > 0) return true;
        if (!(list->stage[i].flags & STAGE_JOINS)) break;
    }
    return false;
}

static cudaError_t launch_stages(struct cuda_backend *b, const struct cuda_shape *shape,
                                 const struct cuda_list *times) {
    const struct cuda_list *list = list_of(b, shape);
    struct cuda_result *result = b->chosen[shape->chosen_now];
    cudaError_t code = cudaSuccess;
    bool is_first = true;
    int last = -1;
    for (int i = 0; i < list->n; i++)
        if (has_work(b, shape, list, i)) last = i;
    if (b->has_experts) code = cudaMemsetAsync(result, 0, sizeof *result, b->stream);
    for (int i = 0, n = 1; i < list->n && !code; i += n) {
        n = 1;
        if (!has_work(b, shape, list, i)) continue;
        const struct launch_clock clock = {is_first ? &result->clock[0] : NULL,
                                           times       ? &b->times[i]
                                           : i == last ? &result->clock[1]
                                                       : NULL};
        is_first = false;
        code = launch_stage(b, shape, list, i, clock, &n);
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

// Rows [first, end) of a buffer to the host, by one copy.
static cudaError_t rows_copy(struct cuda_backend *b, float *to, int buffer, uint64_t width,
                             int first, int end) {
    const uint64_t pitch = (uint64_t)b->layout.buffer[buffer].ld * sizeof(float);
    return cudaMemcpy2DAsync(to, width * sizeof(float), row_at(b, buffer, first), pitch,
                             width * sizeof(float), (size_t)(end - first), cudaMemcpyDeviceToHost,
                             b->stream);
}

// Rows that are wanted follow each other at flight.rows. Neighbours come together.
static rn_status rows_bring(struct cuda_backend *b, struct cuda_flight *f,
                            const struct batch *batch, rn_error *err) {
    const struct plan *plan = b->plan;
    const uint64_t vocab = (uint64_t)plan->n_vocab;
    const uint64_t width =
        plan->hidden == PLAN_NONE ? 0 : (uint64_t)plan->buffer[plan->hidden].width;
    uint64_t floats = 0, at = 0;
    for (int i = 0; i < batch->n_out; i++) {
        f->wants[i] = wants_row(batch, i) && (i < batch->n_logits || (width > 0 && !b->has_block));
        if (f->wants[i]) floats += i < batch->n_logits ? vocab : width;
    }
    const uint64_t most = (uint64_t)b->sizes.max_tokens * width;
    rn_status status =
        grow_rows(&f->rows, floats, (uint64_t)b->sizes.max_logits * vocab + most, err);
    if (!status && b->has_block)
        status = grow_rows(&f->hidden, (uint64_t)batch->n_out * width, most, err);
    if (status) return status;
    if (b->has_block && width > 0 && batch->n_out > 0) {
        const cudaError_t code = rows_copy(b, f->hidden.at, plan->hidden, width, 0, batch->n_out);
        if (code) return cuda_fault(code, RN_ERR_DEVICE, "bringing hidden rows", err);
    }
    for (int i = 0, end; i < batch->n_out; i = end) {
        const bool is_logits = i < batch->n_logits;
        const int last = is_logits ? batch->n_logits : batch->n_out;
        for (end = i + 1; f->wants[i] && end < last && f->wants[end];) end++;
        if (!f->wants[i]) continue;
        const uint64_t n = is_logits ? vocab : width;
        const cudaError_t code =
            rows_copy(b, f->rows.at + at, is_logits ? plan->logits : plan->hidden, n, i, end);
        if (code) return cuda_fault(code, RN_ERR_DEVICE, "bringing logits", err);
        at += n * (uint64_t)(end - i);
    }
    return RN_OK;
}

// ---------------------------------------------------------------- submit, wait

static bool chooses(const struct batch *batch) {
    for (int i = 0; batch->choice && i < batch->n_logits; i++)
        if (batch->choice[i].numbers) return true;
    return false;
}

static cudaError_t launch_choice(struct cuda_backend *b, const struct cuda_shape *shape) {
    return choose_launch(&shape->choose, shape->upload + CHOOSE_AT, row_at(b, b->plan->logits, 0),
                         b->layout.buffer[b->plan->logits].ld, shape->n_logits, &b->choose,
                         (int32_t *)(void *)(b->chosen[shape->chosen_now] + 1),
                         &b->chosen[shape->chosen_now]->clock[2], b->overlaps, b->stream);
}

cudaError_t cuda_launch_step(struct cuda_backend *b, const struct cuda_shape *shape,
                             const struct cuda_list *times) {
    cudaError_t code = launch_stages(b, shape, times);
    if (!code && shape->is_choosing) code = launch_choice(b, shape);
    return code;
}

static rn_status run(struct cuda_backend *b, struct cuda_flight *f, const struct cuda_shape *shape,
                     rn_error *err) {
    const struct cuda_flight *before = &b->flight[(b->next + N_FLIGHTS - 1) % N_FLIGHTS];
    f->is_late = b->n_in_flight == 0 || cudaEventQuery(before->ran) == cudaSuccess;
    f->list = b->profiling ? list_of(b, shape) : NULL;
    const cudaError_t code =
        f->list ? cuda_launch_step(b, shape, f->list) : cuda_graph_run(b, shape);
    return code ? cuda_fault(code, RN_ERR_DEVICE, "launching a step", err) : RN_OK;
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
    const uint64_t all = CHOOSE_AT + upload_bytes(b, batch, n_seqs_out) +
                         choose_bytes(batch->choice, is_choosing ? batch->n_logits : 0, n_chosen);
    rn_status status = grow_upload(f, all, err);
    if (status) return status;
    struct cuda_shape shape;
    shape_of(b, f, batch, n_seqs_out, &shape);
    shape.is_choosing = is_choosing;
    struct choose_plan choose = {0};
    if (is_choosing)
        choose_write(batch->choice, batch->n_logits, n_chosen, f->upload + CHOOSE_AT, &choose);
    shape.choose.n_rows = choose.n_rows, shape.choose.max_vocab = choose.max_vocab;
    shape.choose.flags = choose.flags & CHOOSE_LAUNCHES;
    // the description of choices is where every step has it, whatever follows
    struct packer p = {f->upload, f->upload_device, CHOOSE_AT + (choose.bytes + 15) / 16 * 16};
    put_batch(b, batch, n_seqs_out, &p, &shape);
    assert(p.at <= all);
    cudaError_t code =
        cudaMemcpyAsync(f->upload_device, f->upload, p.at, cudaMemcpyHostToDevice, b->up);
    if (!code) code = cudaEventRecord(f->brought, b->up);
    // while another step runs there is time to wait here; a wait on the stream would cost more
    if (!code)
        code = b->n_in_flight > 0 ? cudaEventSynchronize(f->brought)
                                  : cudaStreamWaitEvent(b->stream, f->brought, 0);
    if (code) return cuda_fault(code, RN_ERR_DEVICE, "bringing a batch to the device", err);
    f->has_run = batch->n_tokens > 0;
    f->is_choosing = is_choosing;
    f->n_logits = batch->n_logits;
    f->n_out = batch->n_out;
    if (batch->n_tokens > 0 || batch->n_pages > 0) status = run(b, f, &shape, err);
    if (status) return status;
    if (batch->n_tokens > 0) status = rows_bring(b, f, batch, err);
    if (status) return status;
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
        b->chosen_now ^= 1;
    }
    if (!code) code = cudaEventRecord(f->end, b->down);
    return code ? cuda_fault(code, RN_ERR_DEVICE, "ending a step", err) : RN_OK;
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
        return cuda_fault(code, RN_ERR_DEVICE, "a step", err);
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

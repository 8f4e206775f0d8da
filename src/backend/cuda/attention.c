// Launches of attention: which form a stage of a step takes, and what the forms need of the batch.
// The arithmetic is the same in all of them (attention.cuh). launches.c calls this.
//
// Steps of up to SMALL_ROWS rows append inside attention: "small", or "long" where contexts are. A
// layer that reads another layer's keys has the same forms without an append. Several sequences
// with contexts of some splits have the form of streams instead, and append before. Larger steps
// append before, and have a launch for each part (enum step_part).
#include <string.h>

#include "backend/cuda/attention_prompt.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.h"

// A small step has the form of streams where it has so many sequences, with so many splits each in
// the mean. Of fewer, the other forms are faster; longer contexts have a form of their own.
enum { STREAMS_LEAST = 4, STREAM_SPLITS = 3, STREAM_SPLITS_MOST = 24 };

// ---------------------------------------------------------------- the upload

int cuda_seqs_extend(const struct batch *batch, struct batch_seq *out) {
    int n = batch->n_seqs, first = 0;
    if (n > 0) memcpy(out, batch->seq, (size_t)n * sizeof *out);
    for (int s = 0; s < batch->n_seqs; s++) {
        const int end = batch->seq[s].first_out + batch->seq[s].n_out;
        if (end > first) first = end;
    }
    for (int i = first, s = 0; i < batch->n_out; i++) { // of one sequence after the other
        const int row = batch->out_row[i];
        const bool is_next = i > first && row == batch->out_row[i - 1] + 1;
        if (is_next && row < batch->seq[s].first_row + batch->seq[s].n_tokens) {
            out[n - 1].n_out++;
            continue;
        }
        for (s = 0; row >= batch->seq[s].first_row + batch->seq[s].n_tokens;) s++;
        out[n] = batch->seq[s];
        out[n].first_out = i;
        out[n++].n_out = 1;
    }
    return n;
}

// The part of a step that has n rows of a sequence; STEP_PARTS: none.
static int part_of(int n_rows) {
    return n_rows == 0 ? STEP_PARTS : n_rows <= SMALL_ROWS ? PART_FEW : PART_MANY;
}

// The kind of a stage; negative: it has none.
static int kind_of(struct cuda_backend *b, const struct stage *s, int is_draft) {
    const struct stage_attention *a = &s->attention;
    const struct stream_kind kind = {.group = a->group,
                                     .is_out = s->rows == STAGE_OUT,
                                     .n_head_kv = a->n_head_kv,
                                     .ratio = a->ratio,
                                     .dim = a->dim_k,
                                     .window = a->window,
                                     .is_chunk = a->is_chunk,
                                     .is_draft = is_draft};
    if (!stream_has(a->dim_k, a->dim_v)) return -1;
    for (int i = 0; i < b->n_kinds; i++)
        if (memcmp(&b->kind[i], &kind, sizeof kind) == 0) return i;
    if (b->n_kinds == STEP_WORKS) return -1;
    b->kind[b->n_kinds] = kind;
    return b->n_kinds++;
}

void cuda_attention_kinds(struct cuda_backend *b) {
    for (int part = 0; part < CUDA_PARTS; part++) {
        for (int large = 1; large >= 0; large--) {
            struct cuda_list *list = &b->list[large][part];
            for (int i = 0; i < list->n; i++)
                if (list->stage[i].kind == STAGE_ATTENTION)
                    list->stage[i].attention.work = kind_of(b, &list->stage[i], part);
        }
    }
}

uint64_t cuda_attention_bytes(const struct cuda_backend *b, int n_seqs_out) {
    uint64_t bytes = 2 * STEP_PARTS * (uint64_t)n_seqs_out * sizeof(int32_t) + 16;
    for (int i = 0; i < b->n_kinds; i++)
        bytes += (uint64_t)stream_plan_most(&b->kind[i], n_seqs_out, SMALL_ROWS, b->n_sm) *
                 sizeof(struct stream_entry);
    return bytes;
}

bool cuda_attention_has_lists(const struct cuda_shape *shape, int n_seqs) {
    return shape->n_tokens > SMALL_ROWS || (n_seqs >= STREAMS_LEAST && shape->has_long);
}

// The sequences of each part.
static void parts_write(const struct batch *batch, uint8_t *host, const uint8_t *device,
                        struct step *step, struct cuda_shape *shape) {
    for (int i = 0; i < 2 * STEP_PARTS; i++) {
        const int is_out = i / STEP_PARTS, part = i % STEP_PARTS;
        const int n_seqs = is_out ? step->n_seqs_out : step->n_seqs;
        const uint64_t at = (uint64_t)(i * step->n_seqs_out) * sizeof(int32_t);
        int32_t *index = (int32_t *)(void *)(host + at), n = 0;
        for (int s = 0; s < n_seqs; s++) {
            const struct batch_seq *seq = &batch->seq[s];
            const int n_rows = is_out ? seq->n_out : seq->n_tokens;
            if (part_of(n_rows) != part) continue;
            index[n++] = s;
            if (part == PART_FEW && n_rows > shape->few_rows[is_out])
                shape->few_rows[is_out] = n_rows;
        }
        step->part[is_out][part] =
            (struct step_seqs){(const int32_t *)(const void *)(device + at), n, 0};
        shape->n_part[is_out][part] = cuda_rows_class(n, batch->n_tokens);
    }
}

uint64_t cuda_attention_write(const struct cuda_backend *b, const struct batch *batch,
                              const struct step_seq *seqs, uint8_t *host, const uint8_t *device,
                              struct step *step, struct cuda_shape *shape) {
    parts_write(batch, host, device, step, shape);
    uint64_t at = (2 * STEP_PARTS * (uint64_t)step->n_seqs_out * sizeof(int32_t) + 15) / 16 * 16;
    for (int i = 0; i < b->n_kinds; i++) {
        const struct stream_kind *kind = &b->kind[i];
        const struct step_seqs *few = &step->part[kind->is_out][PART_FEW];
        const int32_t *index =
            (const int32_t *)(const void *)(host + ((const uint8_t *)few->index - device));
        step->work[i] = (struct step_work){(const void *)(device + at), 0, 0};
        if (few->n == 0 || kind->is_draft != batch->is_draft) continue;
        const int n = stream_plan(kind, seqs, index, few->n, batch->out_row,
                                  stream_tiles(kind, shape->few_rows[kind->is_out]), b->n_sm,
                                  (struct stream_entry *)(void *)(host + at));
        step->work[i].n = n;
        at += (uint64_t)n * sizeof(struct stream_entry);
    }
    return at;
}

// ---------------------------------------------------------------- launches

// The splits of all sequences, the most rows of one, and the most pages of a split. Numbers are
// rounded up to three bits, so that few shapes come of them.
void cuda_attention_size(const struct batch *batch, int n_seqs_out, struct cuda_shape *shape) {
    int n = 0, end = 0;
    for (int i = 0; i < n_seqs_out; i++) {
        const struct batch_seq *seq = &batch->seq[i];
        const int last = seq->first_pos + seq->n_tokens - 1;
        n += last / SPLIT_TOKENS + 1;
        if (last > end) end = last;
        if (seq->n_tokens > shape->seq_rows) shape->seq_rows = seq->n_tokens;
    }
    shape->has_long = end >= 2 * SPLIT_TOKENS;
    int step = 1;
    while (n > 8 * step) step *= 2;
    shape->n_splits = (n + step - 1) / step * step;
    for (shape->n_pages = 2; shape->n_pages < SPLIT_PAGES && end >= shape->n_pages * PAGE_TOKENS;)
        shape->n_pages *= 2;
}

// Slots of a warp for chunks of its pages; *shared grows by those of n_pages warps.
static int page_slots_of(const struct stage_attention *a, uint32_t most, int n_pages,
                         uint32_t *shared) {
    const uint32_t unit = a->kv_type == KV_F16 || a->kv_type == KV_BF16 ? 1024 : 512;
    const int n = ((a->dim_k + 31) / 32 * 2 + KV_CHUNK_UNITS - 1) / KV_CHUNK_UNITS +
                  ((a->dim_v + 15) / 16 + KV_CHUNK_UNITS - 1) / KV_CHUNK_UNITS;
    int slots = n <= 2 ? 2 : KV_SLOTS_MAX;
    while (slots > 1 && *shared + (uint32_t)(n_pages * slots) * KV_CHUNK_UNITS * unit > most)
        slots /= 2;
    *shared += (uint32_t)(n_pages * slots) * KV_CHUNK_UNITS * unit;
    return slots;
}

// The splits of long contexts, then their fold.
static cudaError_t launch_long(struct cuda_backend *b, struct attention_args *args, int n_tiles,
                               int n_tokens) {
    struct stage_attention *a = &args->stage;
    const struct launch_clock clock = args->clock;
    const int64_t units = (int64_t)n_tiles * a->n_head_kv * ((a->dim_v + 15) / 16) * n_tokens;
    uint32_t shared = ATTENTION_SHARED;
    a->page_slots = page_slots_of(a, LONG_SHARED, SPLIT_PAGES, &shared);
    args->clock = (struct launch_clock){0};
    const cudaError_t code =
        cuda_launch(attention_long(a->kv_type, a->dim_k, a->dim_v), (uint64_t)b->n_sm, LONG_THREADS,
                    LONG_SHARED, args, b->overlaps, b->stream);
    if (code) return code;
    args->clock = clock;
    return cuda_launch(attention_fold(), (uint64_t)(units < 2 * b->n_sm ? units : 2 * b->n_sm),
                       BLOCK_THREADS, FOLD_SHARED, args, b->overlaps, b->stream);
}

// The form for any sequences and any heads.
static cudaError_t launch_any(struct cuda_backend *b, struct attention_args *args, int part,
                              struct launch_clock clock) {
    struct stage_attention *a = &args->stage;
    const int64_t places = ATTENTION_STATES / ((a->dim_v + 15) / 16 * 4096);
    uint32_t shared = ATTENTION_SHARED;
    a->page_slots = page_slots_of(a, b->shared_most, SPLIT_PAGES, &shared);
    args->part = part;
    args->clock = clock;
    return cuda_launch(attention_any(a->kv_type), (uint64_t)(b->n_sm < places ? b->n_sm : places),
                       BLOCK_THREADS, shared, args, b->overlaps, b->stream);
}

// The form of prompts; NULL: the device or the heads have none. It needs the matrix instructions of
// warpgroups, which only this generation has.
static const void *prompt_kernel(const struct cuda_backend *b, const struct stage_attention *a) {
    if (b->prop.major != 9 || b->shared_most < PROMPT_SHARED || a->fused) return NULL;
    return attention_prompt(a->kv_type, a->dim_k, a->dim_v, a->softcap > 0.0f);
}

static cudaError_t launch_prompt(struct cuda_backend *b, const void *kernel,
                                 struct attention_args *args, struct launch_clock clock) {
    const int places = ATTENTION_STATES / PROMPT_STATE;
    args->part = PART_MANY;
    args->clock = clock;
    return cuda_launch(kernel, (uint64_t)(b->n_sm < places ? b->n_sm : places), PROMPT_THREADS,
                       PROMPT_SHARED, args, b->overlaps, b->stream);
}

// Few rows are one entry for a warp, on all multiprocessors.
static cudaError_t launch_append(struct cuda_backend *b, struct attention_args *args) {
    const int64_t n = (int64_t)args->n_rows * args->stage.n_head_kv, each = n / N_WARPS;
    const int64_t blocks = each < b->n_sm ? b->n_sm : each < 4 * b->n_sm ? each : 4 * b->n_sm;
    return cuda_launch(attention_append(args->stage.kv_type), (uint64_t)(n < blocks ? n : blocks),
                       BLOCK_THREADS, ATTENTION_SHARED, args, b->overlaps, b->stream);
}

// The form for many streams, as many teams as there is room for.
static cudaError_t launch_streams(struct cuda_backend *b, struct attention_args *args,
                                  const void *kernel, int tiles, struct launch_clock clock) {
    const int shared = STREAM_SHARED(tiles);
    int teams = (int)(b->prop.sharedMemPerMultiprocessor / (size_t)(shared + 1024));
    if (teams > STREAM_TEAMS(tiles)) teams = STREAM_TEAMS(tiles);
    if (teams < 1) teams = 1;
    args->clock = clock;
    return cuda_launch(kernel, (uint64_t)(b->n_sm * teams), STREAM_THREADS, (uint64_t)shared, args,
                       b->overlaps, b->stream);
}

// Attention of a larger step: a launch for each part. Parts without a form of their own share the
// launch of any.
static cudaError_t launch_parts(struct cuda_backend *b, struct attention_args *args,
                                const int32_t *n_part, int few_rows, struct launch_clock clock) {
    const struct stage_attention *a = &args->stage;
    const int tiles = a->work < 0 ? 0 : stream_tiles(&b->kind[a->work], few_rows);
    const bool has_few = n_part[PART_FEW] > 0, has_many = n_part[PART_MANY] > 0;
    const void *few =
        has_few && tiles ? attention_streams(a->kv_type, a->dim_k, a->dim_v, tiles) : NULL;
    const void *many = has_many ? prompt_kernel(b, a) : NULL;
    const struct launch_clock clock_many = has_few ? (struct launch_clock){0} : clock;
    cudaError_t code = cudaSuccess;
    if (!few && !many) return launch_any(b, args, STEP_PARTS, clock);
    if (has_many)
        code = many ? launch_prompt(b, many, args, clock_many)
                    : launch_any(b, args, PART_MANY, clock_many);
    if (!code && has_few)
        code =
            few ? launch_streams(b, args, few, tiles, clock) : launch_any(b, args, PART_FEW, clock);
    return code;
}

// The form of streams in a small step; NULL: another form is better. n_splits: all that the
// sequences see.
static const void *small_streams(const struct cuda_backend *b, const struct stage_attention *a,
                                 int n_seqs, int n_splits, int tiles) {
    if (!a->fused && !a->is_alone) return NULL;
    if (n_splits < STREAM_SPLITS * n_seqs || n_splits > STREAM_SPLITS_MOST * n_seqs) return NULL;
    if (b->shared_most < (uint32_t)STREAM_SHARED(tiles)) return NULL;
    return attention_streams(a->kv_type, a->dim_k, a->dim_v, tiles);
}

static cudaError_t launch_small_streams(struct cuda_backend *b, const struct attention_args *args,
                                        const void *kernel, int tiles) {
    struct attention_args append = *args, streams = *args;
    append.clock = (struct launch_clock){0};
    const cudaError_t code = args->stage.fused ? launch_append(b, &append) : cudaSuccess;
    return code ? code : launch_streams(b, &streams, kernel, tiles, args->clock);
}

cudaError_t cuda_attention_launch(struct cuda_backend *b, const struct stage *s, int n_rows,
                                  const struct cuda_shape *shape, struct launch_clock clock) {
    if (s->attention.is_latent) return cuda_latent_launch(b, s, n_rows, shape, clock);
    struct attention_args args = {.stage = s->attention,
                                  .step = (const struct step *)(const void *)shape->upload,
                                  .clock = clock,
                                  .kind = s->kind,
                                  .rows = s->rows,
                                  .n_rows = n_rows,
                                  .part = STEP_PARTS,
                                  .is_early =
                                      !shape->has_pages && !b->profiling && !s->attention.is_alone};
    if (s->kind == STAGE_APPEND) return launch_append(b, &args);
    struct stage_attention *a = &args.stage;
    const int queries = shape->seq_rows * a->ratio;
    const int n_tiles = (queries + SMALL_ROWS - 1) / SMALL_ROWS;
    int n_splits = shape->n_splits; // that are seen
    const int most = shape->n_tokens * ((a->window + shape->seq_rows - 2) / SPLIT_TOKENS + 2);
    if (a->window > 0 && n_splits > most) n_splits = most;
    const int n_seqs = shape->n_part[s->rows == STAGE_OUT][PART_FEW];
    if (shape->n_tokens <= SMALL_ROWS && n_seqs >= STREAMS_LEAST && a->work >= 0) {
        const int tiles = stream_tiles(&b->kind[a->work], shape->few_rows[s->rows == STAGE_OUT]);
        const void *kernel = small_streams(b, a, n_seqs, n_splits, tiles);
        if (kernel) return launch_small_streams(b, &args, kernel, tiles);
    }
    const int64_t items = (int64_t)n_tiles * a->n_head_kv * n_splits;
    // many queries of long contexts share what they read
    const bool is_small =
        (a->fused || a->is_alone) && (n_tiles == 1 || items <= 4 * (int64_t)b->n_sm);
    if (is_small && items > 2 * b->n_sm && b->shared_most >= LONG_SHARED &&
        attention_long(a->kv_type, a->dim_k, a->dim_v))
        return launch_long(b, &args, n_tiles, shape->n_tokens);
    if (!is_small) {
        if (shape->n_tokens <= SMALL_ROWS) return launch_any(b, &args, STEP_PARTS, clock);
        return launch_parts(b, &args, shape->n_part[s->rows == STAGE_OUT],
                            shape->few_rows[s->rows == STAGE_OUT], clock);
    }
    const int64_t places = ATTENTION_STATES / ((a->dim_v + 15) / 16 * 4096);
    uint32_t shared = ATTENTION_SHARED;
    a->page_slots = page_slots_of(a, b->shared_most, shape->n_pages, &shared);
    args.run = (int)((items + b->n_sm - 1) / b->n_sm);
    const int64_t blocks = (items + args.run - 1) / args.run;
    return cuda_launch(attention_small(a->kv_type, a->dim_k, a->dim_v),
                       (uint64_t)(blocks < places ? blocks : places), BLOCK_THREADS, shared, &args,
                       b->overlaps, b->stream);
}

// The launches of a step: one for each stage, or for stages that join, then those of the choice.
// They are made of the step's shape alone.
#include <assert.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.h"

// Tuning; no bits depend on it. docs/benchmarks/h200.md has the figures.
enum {
    // Shared memory of a product on a multiprocessor, about. The rest is for the next launch, whose
    // weights come while this one ends. Short slices of small units need more in flight, and so
    // do asked forms
    SHARED_USUAL = 112 << 10,
    SHARED_SHORT = 160 << 10,
    SHARED_ALONE = 216 << 10,   // long units that are not staged: no third block may come in
    SHORT_UNIT = 320,           // bytes
    SHORT_UNITS = 8 * N_SLICES, // of a tile
    PAIR_TILES = 32,            // of a multiprocessor, from which on a block has two at a time
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

// A stage of small units, whose blocks bring the input to shared memory.
static enum product_form form_of(const struct cuda_backend *b, const struct stage_product *s,
                                 int codec, int tiles_each, uint32_t x_bytes) {
    const int unit = s->product[0].unit_bytes;
    const uint32_t pairs = product_shared_bytes(2, 2 * SLOT_UNITS(unit) * unit, 2, x_bytes) + 1024;
    if (codec == CODEC_COUNT || unit > ASKED_UNIT_MOST) return PRODUCT_STAGED;
    if (tiles_each >= PAIR_TILES && PRODUCT_BLOCKS * pairs <= b->prop.sharedMemPerMultiprocessor)
        return PRODUCT_PAIRS;
    return s->n_units > SHORT_UNITS && tiles_each > 1 ? PRODUCT_ASKED : PRODUCT_STAGED;
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
    const enum product_form form =
        stages ? form_of(b, s, codec, tiles_each, x_bytes) : PRODUCT_READ;
    const int tiles = form == PRODUCT_PAIRS ? 2 : 1;
    const int budget = !stages && unit > SHORT_UNIT        ? SHARED_ALONE
                       : is_short || form == PRODUCT_ASKED ? SHARED_SHORT
                                                           : SHARED_USUAL;
    const int all = (int)b->prop.sharedMemPerMultiprocessor - per_sm * 1024;
    args.slot_bytes *= tiles;
    args.n_items = product_items(s, tiles);
    const uint32_t fixed = product_shared_bytes(0, 0, tiles, x_bytes) + 1024;
    const int left = (budget < all ? budget : all) / per_sm - (int)fixed;
    args.n_slots = left / (N_SLICES * args.slot_bytes);
    if (args.n_slots > RING_SLOTS_MAX) args.n_slots = RING_SLOTS_MAX;
    if (args.n_slots < 2) args.n_slots = 2;
    uint32_t shared = product_shared_bytes(args.n_slots, args.slot_bytes, tiles, x_bytes);
    while (args.n_slots > 1 && shared > b->shared_most) // of other GPUs
        shared = product_shared_bytes(--args.n_slots, args.slot_bytes, tiles, x_bytes);
    assert(shared <= b->shared_most);
    args.n_early = stages ? slots_early(unit, s->n_units, is_short) : args.n_slots;
    if (args.n_early > args.n_slots) args.n_early = args.n_slots;
    int blocks = b->n_sm * per_sm;
    if (!s->is_routed && args.n_items < blocks) blocks = args.n_items;
    return cuda_launch(product_small(codec, form), (uint64_t)blocks,
                       form >= PRODUCT_ASKED ? ASKED_THREADS : PRODUCT_THREADS, shared, &args,
                       b->overlaps, b->stream);
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

const struct cuda_list *cuda_list_of(const struct cuda_backend *b, const struct cuda_shape *shape) {
    const bool is_small = shape->n_tokens > 0 && shape->n_tokens <= SMALL_ROWS;
    return &b->list[is_small ? 0 : 1][shape->is_draft];
}

static cudaError_t launch_stages(struct cuda_backend *b, const struct cuda_shape *shape,
                                 const struct cuda_list *times) {
    const struct cuda_list *list = cuda_list_of(b, shape);
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

static cudaError_t launch_choice(struct cuda_backend *b, const struct cuda_shape *shape) {
    return choose_launch(&shape->choose, shape->upload + CUDA_CHOOSE_AT,
                         cuda_row_at(b, b->plan->logits, 0), b->layout.buffer[b->plan->logits].ld,
                         shape->n_logits, &b->choose,
                         (int32_t *)(void *)(b->chosen[shape->chosen_now] + 1),
                         &b->chosen[shape->chosen_now]->clock[2], b->overlaps, b->stream);
}

cudaError_t cuda_launch_step(struct cuda_backend *b, const struct cuda_shape *shape,
                             const struct cuda_list *times) {
    cudaError_t code = launch_stages(b, shape, times);
    if (!code && shape->is_choosing) code = launch_choice(b, shape);
    return code;
}

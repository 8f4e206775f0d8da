// Launches of products of larger steps: which form a stage takes, and how its work is cut. No bits
// depend on it (product_many.cuh).
#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.h"

// Tuning; docs/benchmarks/h200.md has the figures.
enum {
    MANY_LARGE = 64,        // rows from which on the form of more columns pays
    MANY_LARGE_ROUTED = 48, // of an expert, on average
};

// The shared memory of a block, and the stages of its ring. A multiprocessor has one block.
static uint32_t ring_size(const struct cuda_backend *b, int columns, int unit_bytes,
                          int *n_stages) {
    const uint32_t stage = many_stage_bytes(columns, unit_bytes);
    *n_stages = (int)((b->shared_most - MANY_HEAD) / stage);
    if (*n_stages > MANY_STAGES_MAX) *n_stages = MANY_STAGES_MAX;
    return MANY_HEAD + (uint32_t)*n_stages * stage;
}

// Parts of an item's slices, as a power of two: as many as one wave of blocks has places for. The
// sums of parts go through memory, so a second wave costs less than they do.
static int parts_of(const struct cuda_backend *b, int n_items, uint64_t item_bytes) {
    int log = 0;
    if ((uint64_t)n_items * item_bytes > b->layout.sums_bytes || n_items > MANY_ITEMS_MAX) return 0;
    while (log < 3 && (int64_t)n_items << (log + 1) <= b->n_sm) log++;
    return log;
}

static int columns_of(const struct cuda_backend *b, const struct stage_product *s, int n_rows) {
    int n_stages;
    const bool is_large = s->is_routed
                              ? n_rows * s->route.n_used > MANY_LARGE_ROUTED * s->route.n_expert
                              : n_rows > MANY_LARGE;
    if (!is_large) return MANY_FEW;
    ring_size(b, MANY_WIDE, s->product[0].unit_bytes, &n_stages);
    return n_stages >= 3 ? MANY_WIDE : MANY_FEW;
}

// Products of one codec.
static cudaError_t launch(struct cuda_backend *b, struct many_args *args) {
    const struct stage_product *s = &args->stage;
    const int columns = columns_of(b, s, args->n_rows), unit = s->product[0].unit_bytes;
    const uint32_t shared = ring_size(b, columns, unit, &args->n_stages);
    const int places = b->n_sm;
    const int items =
        (s->n_tiles + MANY_TILES - 1) / MANY_TILES * ((args->n_rows + columns - 1) / columns);
    args->sums = (float *)(void *)(b->memory + b->layout.sums_at);
    args->counters = (uint32_t *)(void *)(b->memory + b->layout.sums_counters_at);
    if (!s->is_routed) args->parts_log = parts_of(b, items, many_sums_bytes(columns));
    const int64_t all = (int64_t)items << args->parts_log;
    const int64_t grid = s->is_routed || all > places ? places : all;
    return cuda_launch(product_many(s->product[0].codec, columns), (uint64_t)grid, MANY_THREADS,
                       shared, args, b->overlaps, b->stream);
}

cudaError_t cuda_many_launch(struct cuda_backend *b, const struct stage *stage, int n_rows,
                             struct launch_clock clock) {
    const struct stage_product *s = &stage->product;
    for (int first = 0, n; first < s->n_products; first += n) {
        struct many_args args = {.stage = *s, .n_rows = n_rows};
        for (n = 1; first + n < s->n_products; n++)
            if (s->product[first + n].codec != s->product[first].codec) break;
        args.stage.n_products = n;
        args.stage.n_tiles = 0;
        for (int i = 0; i < n && i < MAX_PRODUCTS; i++) {
            args.stage.product[i] = s->product[first + i];
            args.stage.n_tiles += s->product[first + i].n_tiles;
        }
        if (first + n == s->n_products) args.clock = clock;
        const cudaError_t code = launch(b, &args);
        if (code) return code;
    }
    return cudaSuccess;
}

// Launches of products of larger steps: which form a stage takes, and how its work is cut. No bits
// depend on it (product_many.cuh).
#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.h"

// Tuning; docs/benchmarks/h200.md has the figures.
enum {
    MANY_LARGE = 64,        // rows from which on the forms of more columns pay
    MANY_LARGE_ROUTED = 48, // of an expert, on average
    // Times of an item, in 0.78 ns of an H200: of a unit beside its columns, of the end for each
    // column, and of sums that go through memory.
    ITEM_UNIT = 163,
    ITEM_END = 50,
    ITEM_PARTS = 13000,
};

// The shared memory of a block, and the stages of its ring. A multiprocessor has one block.
static uint32_t ring_size(const struct cuda_backend *b, int columns, int unit_bytes,
                          int *n_stages) {
    const uint32_t stage = many_stage_bytes(columns, unit_bytes);
    *n_stages = (int)((b->shared_most - MANY_HEAD) / stage);
    if (*n_stages > MANY_STAGES_MAX) *n_stages = MANY_STAGES_MAX;
    return MANY_HEAD + (uint32_t)*n_stages * stage;
}

// How a launch is cut: items of the last wave, which would leave places free, have parts of their
// slices.
struct many_cut {
    int columns, n_stages;
    uint32_t shared;
    int n_whole, n_parts, parts_log;
    int64_t time; // see ITEM_UNIT
};

static struct many_cut cut_of(const struct cuda_backend *b, const struct stage_product *s,
                              int n_rows, int columns) {
    struct many_cut c = {.columns = columns};
    c.shared = ring_size(b, columns, s->product[0].unit_bytes, &c.n_stages);
    const int n = (s->n_tiles + MANY_TILES - 1) / MANY_TILES * ((n_rows + columns - 1) / columns);
    const int64_t item = (int64_t)s->n_units * (ITEM_UNIT + columns) + ITEM_END * columns;
    const int rest = n % b->n_sm;
    const int64_t whole = (int64_t)(n - rest) / b->n_sm * item;
    c.n_whole = n;
    c.time = whole + (rest > 0 ? item : 0);
    if ((uint64_t)rest * many_sums_bytes(columns) > b->layout.sums_bytes || rest > MANY_ITEMS_MAX)
        return c;
    int log = 0;
    while (rest > 0 && log < 3 && rest << (log + 1) <= b->n_sm) log++;
    const int64_t time = whole + (item >> log) + ITEM_PARTS;
    if (log == 0 || (n > rest && time >= c.time)) return c;
    c.n_whole = n - rest, c.n_parts = rest << log, c.parts_log = log, c.time = time;
    return c;
}

// Items of experts are known to the device only.
static struct many_cut cut_routed(const struct cuda_backend *b, const struct stage_product *s,
                                  int n_rows) {
    const bool is_large = n_rows * s->route.n_used > MANY_LARGE_ROUTED * s->route.n_expert;
    struct many_cut c = {.columns = is_large ? MANY_WIDE : MANY_FEW, .n_whole = INT32_MAX};
    c.shared = ring_size(b, c.columns, s->product[0].unit_bytes, &c.n_stages);
    if (c.n_stages >= 3 || !is_large) return c;
    c.columns = MANY_FEW;
    c.shared = ring_size(b, c.columns, s->product[0].unit_bytes, &c.n_stages);
    return c;
}

static struct many_cut cut_best(const struct cuda_backend *b, const struct stage_product *s,
                                int n_rows) {
    if (s->is_routed) return cut_routed(b, s, n_rows);
    struct many_cut best = cut_of(b, s, n_rows, MANY_FEW);
    if (n_rows <= MANY_LARGE) return best;
    for (int columns = MANY_MIDDLE; columns <= MANY_WIDE; columns += MANY_WIDE - MANY_MIDDLE) {
        const struct many_cut c = cut_of(b, s, n_rows, columns);
        if (c.n_stages >= 3 && (best.columns == MANY_FEW || c.time < best.time)) best = c;
    }
    return best;
}

// Products of one codec.
static cudaError_t launch(struct cuda_backend *b, struct many_args *args) {
    const struct stage_product *s = &args->stage;
    const struct many_cut c = cut_best(b, s, args->n_rows);
    args->n_stages = c.n_stages, args->n_whole = c.n_whole, args->parts_log = c.parts_log;
    args->sums = (float *)(void *)(b->memory + b->layout.sums_at);
    args->counters = (uint32_t *)(void *)(b->memory + b->layout.sums_counters_at);
    const int64_t all = (int64_t)c.n_whole + c.n_parts;
    return cuda_launch(product_many(s->product[0].codec, c.columns),
                       (uint64_t)(all > b->n_sm ? b->n_sm : all), MANY_THREADS, c.shared, args,
                       b->overlaps, b->stream);
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

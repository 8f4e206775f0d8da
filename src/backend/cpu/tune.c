// Which way a machine reads the weights of one token fastest (matmul_ways): machines differ in
// their hardware prefetchers and in the number of cache misses that a core can have in flight. The
// ways are tried at create, with the engine's threads, on the packed weights themselves. This takes
// milliseconds, so the result is not kept. Each format has a choice of its own, because formats
// differ in instructions for each byte. Weights that caches may hold are not tried on: the default
// serves them. Bits never depend on the choice.
#include "backend/cpu/tune.h"

#include <stdio.h>
#include <stdlib.h>

#include "backend/cpu/cpu.h"
#include "base/clock.h"

enum {
    PIECE_BYTES = 128 << 10, // as the chunks of a product
    PASS_BYTES = 1 << 20,    // of a pass, for each thread
    LEAST_BYTES = 64 << 20,  // of a format's weights, and more than all caches
    TRY_PAIRS = 2,           // of passes, for each way
    CANDIDATES = 3,          // the ways that seem fastest are tried again
    GAIN_PERCENT = 95,       // of the default's time: a way that is chosen takes less
};

// ---------------------------------------------------------------- choosing

static int compare_double(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double pass_ns(tune_pass_fn pass, void *ctx, int way) {
    const uint64_t ns = pass(ctx, way);
    return ns ? (double)ns : 1;
}

// The way's time over the default's: the median of n pairs of passes. The two of a pair are
// neighbours in time, because a shared machine's speed changes, and take turns at being first.
static double duel(tune_pass_fn pass, void *ctx, int way, int n) {
    double share[TUNE_PAIRS];
    for (int i = 0; i < n; i++) {
        const double first = pass_ns(pass, ctx, i % 2 ? way : 0);
        const double second = pass_ns(pass, ctx, i % 2 ? 0 : way);
        share[i] = i % 2 ? first / second : second / first;
    }
    qsort(share, (size_t)n, sizeof *share, compare_double);
    return (share[(n - 1) / 2] + share[n / 2]) / 2;
}

struct candidate {
    double share; // first, for compare_double
    int way;
};

int tune_choose(tune_pass_fn pass, void *ctx, double *gain) {
    struct candidate candidate[MATMUL_WAYS];
    int n = 0, best = 0;
    double least = GAIN_PERCENT / 100.0;
    *gain = 1;
    pass(ctx, 0); // wakes the threads
    for (int w = 1; w < MATMUL_WAYS; w++) {
        const double share = duel(pass, ctx, w, TRY_PAIRS);
        if (share < 1) candidate[n++] = (struct candidate){share, w};
    }
    qsort(candidate, (size_t)n, sizeof *candidate, compare_double);
    for (int i = 0; i < n && i < CANDIDATES; i++) {
        const double share = duel(pass, ctx, candidate[i].way, TUNE_PAIRS);
        if (share >= least) continue;
        best = candidate[i].way;
        least = share;
        *gain = 1 / share;
    }
    return best;
}

void tune_name(const struct matmul_way *way, char *out, size_t size) {
    static const char *const caches[] = {"", "L1", "L2", "NTA", "L2+L1"};
    if (way->fetch == FETCH_NONE)
        snprintf(out, size, "%s", way->wide ? "wide" : "plain");
    else
        snprintf(out, size, "%s +%d%s", caches[way->fetch], way->ahead, way->wide ? " wide" : "");
}

// ---------------------------------------------------------------- reading

// Some groups of a matrix.
struct piece {
    const uint8_t *w;
    int64_t cols, n_groups;
};

struct tuning {
    struct pool *pool;
    uint8_t *scratch; // [threads, MATMUL_SCRATCH_BYTES]
    const struct matmul_kernel *kernel;
    struct piece *piece; // of the format's weights, in their order
    int64_t n_piece, next, n_pass;
    const struct matmul_way *way;
    float *y; // [threads, y_floats]
    int64_t y_floats;
    int64_t cols; // of the longest row
    void *zeros;  // its activations
};

static void run_pieces(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct tuning *t = ctx;
    for (int64_t i = begin; i < end; i++) {
        const struct piece *piece = &t->piece[(t->next + i) % t->n_piece];
        const struct matmul_args args = {.w = piece->w,
                                         .rows = piece->n_groups * MATMUL_GROUP,
                                         .cols = piece->cols,
                                         .n = 1,
                                         .x = t->zeros,
                                         .xq = t->zeros,
                                         .xd = t->zeros,
                                         .xsum = t->zeros,
                                         .y = t->y + worker * t->y_floats,
                                         .scale = 1,
                                         .way = *t->way,
                                         .scratch =
                                             t->scratch + (int64_t)worker * MATMUL_SCRATCH_BYTES};
        t->kernel->run[SHAPE_ONE](&args, 0, piece->n_groups);
    }
}

// A pass continues where the last one stopped, so it finds little in the caches.
static uint64_t run_pass(void *ctx, int way) {
    struct tuning *t = ctx;
    t->way = &matmul_ways[way];
    const uint64_t start = clock_ns();
    pool_run(t->pool, run_pieces, t, t->n_pass, 1);
    const uint64_t took = clock_ns() - start;
    t->next = (t->next + t->n_pass) % t->n_piece;
    return took;
}

// The pieces of a matrix: its end, where less than a piece is left, is not used.
static void cut(struct tuning *t, const void *packed, int64_t groups, int64_t cols, int64_t cap) {
    const int64_t bytes = t->kernel->group_bytes(cols);
    const int64_t fit = PIECE_BYTES / bytes / 4 * 4, n = fit < 4 ? 4 : fit;
    for (int64_t g = 0; g + n <= groups && t->n_piece < cap; g += n)
        t->piece[t->n_piece++] = (struct piece){(const uint8_t *)packed + g * bytes, cols, n};
    if (n * MATMUL_GROUP > t->y_floats) t->y_floats = n * MATMUL_GROUP;
    if (cols > t->cols) t->cols = cols;
}

// At least one for each thread; pieces of long rows are larger than others.
static int64_t pass_pieces(const struct tuning *t, int n_threads) {
    uint64_t bytes = 0;
    for (int64_t i = 0; i < t->n_piece; i++)
        bytes += (uint64_t)(t->kernel->group_bytes(t->piece[i].cols) * t->piece[i].n_groups);
    const int64_t n = (int64_t)((uint64_t)PASS_BYTES * (uint64_t)t->n_piece / (bytes + 1));
    return (n < 1 ? 1 : n) * n_threads;
}

// Of all pieces. Without memory the default stays.
static struct matmul_way tuning_run(struct tuning *t, double *gain) {
    const int n_threads = pool_size(t->pool);
    int best = 0;
    *gain = 1;
    t->zeros = calloc((size_t)t->cols + 1, sizeof(float));
    t->y = calloc((size_t)n_threads, ((size_t)t->y_floats + 1) * sizeof(float));
    t->n_pass = pass_pieces(t, n_threads);
    if (t->n_piece >= t->n_pass && t->zeros && t->y) best = tune_choose(run_pass, t, gain);
    free(t->zeros);
    free(t->y);
    return matmul_ways[best];
}

rn_status tune_region(struct pool *pool, const struct matmul_kernel *kernel,
                      const struct region *packed, struct matmul_way *out, double *gain,
                      rn_error *err) {
    enum { COLS = 4096 };
    struct tuning t = {.pool = pool, .kernel = kernel};
    const int64_t cap = (int64_t)(packed->bytes / PIECE_BYTES) + 1;
    struct region scratch;
    rn_status status = region_map((uint64_t)pool_size(pool) * MATMUL_SCRATCH_BYTES, true,
                                  "the scratch of kernels", &scratch, err);
    if (status) return status;
    t.scratch = scratch.base;
    t.piece = calloc((size_t)cap, sizeof *t.piece);
    if (t.piece) {
        cut(&t, packed->base, (int64_t)packed->bytes / kernel->group_bytes(COLS), COLS, cap);
        *out = tuning_run(&t, gain);
    } else {
        status = err_set(err, RN_ERR_NOMEM, "cannot allocate pieces of weights");
    }
    free(t.piece);
    region_unmap(&scratch);
    return status;
}

// ---------------------------------------------------------------- a backend's weights

static void cut_weights(struct tuning *t, const struct cpu_backend *b, int64_t cap) {
    for (int i = 0; i < b->plan->n_weight; i++) {
        const struct plan_weight *weight = &b->plan->weight[i];
        const struct cpu_weight *own = &b->weight[i];
        const int64_t groups = cpu_groups(weight->rows);
        if (own->kernel != t->kernel) continue;
        for (int e = 0; e < weight->n_expert; e++)
            cut(t, own->expert[e], groups, weight->cols, cap);
        if (!weight->n_expert) cut(t, own->packed, groups, weight->cols, cap);
    }
}

static struct matmul_way format_tune(struct cpu_backend *b, const struct matmul_kernel *kernel,
                                     uint64_t bytes) {
    struct tuning t = {.pool = b->pool, .kernel = kernel, .scratch = b->matmul_scratch};
    const int64_t cap = (int64_t)(bytes / PIECE_BYTES) + 1;
    struct matmul_way way = {0};
    double gain;
    t.piece = calloc((size_t)cap, sizeof *t.piece);
    if (t.piece) {
        cut_weights(&t, b, cap);
        way = tuning_run(&t, &gain);
    }
    free(t.piece);
    return way;
}

static uint64_t format_bytes(const struct cpu_backend *b, const struct matmul_kernel *kernel) {
    uint64_t bytes = 0;
    for (int i = 0; i < b->plan->n_weight; i++)
        if (b->weight[i].kernel == kernel) bytes += b->plan->weight[i].bytes;
    return bytes;
}

void cpu_tune(struct cpu_backend *b) {
    const uint64_t least = b->cache_bytes_all > LEAST_BYTES ? b->cache_bytes_all : LEAST_BYTES;
    for (int format = 0; format < FORMAT_COUNT; format++) {
        const struct matmul_kernel *kernel =
            matmul_kernel_find((enum format_id)format, b->ops->isa);
        if (!kernel || !kernel->has_ways) continue;
        const uint64_t bytes = format_bytes(b, kernel);
        if (bytes > least) b->way[format] = format_tune(b, kernel, bytes);
    }
    for (int i = 0; i < b->n_stage_all; i++)
        for (int j = 0; b->stage[i].matmul && j < b->stage[i].n; j++)
            b->stage[i].matmul[j].args.way = b->way[b->stage[i].matmul[j].format];
}

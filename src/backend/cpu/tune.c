// Which way a machine reads the weights of one token fastest (matmul_ways): machines differ in
// their hardware prefetchers and in the number of cache misses that a core can have in flight. The
// ways are tried at create, with the engine's threads, on the packed weights themselves. This takes
// some 10 ms for each format, so the result is not kept. Each format has a choice of its own,
// because formats differ in instructions for each byte. Weights that caches may hold are not tried
// on: the default serves them, or beside a format that was tried, its way. Bits never depend on the
// choice.
#include "backend/cpu/tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/cpu/cpu.h"
#include "base/clock.h"

enum {
    LENGTHS = 8,            // of rows, that are told apart
    LEAST_PIECE = 64 << 10, // bytes of a piece
    PASS_BYTES = 2 << 20,   // of a pass, for each thread
    LEAST_PASSES = 4,       // of all threads, that pieces are enough for before they come again
    LEAST_BYTES = 64 << 20, // of a format's weights, and more than all caches
    CANDIDATES = 3,         // the ways that seem fastest are tried again
    LIKE_PERCENT = 2,       // of the default's time, by which ways that are alike may differ
    GAIN_PERCENT = 1,       // of its time, which one of those has to gain
};

// ---------------------------------------------------------------- choosing

static int compare_double(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

// The way's time over the default's, in two passes that are alike and neighbours in time, because a
// shared machine's speed changes.
static double pair(const struct tune_passes *p, int way, bool alone, int turn) {
    const bool way_first = turn % 2;
    const uint64_t first = p->run(p->ctx, way_first ? way : 0, alone, turn);
    const uint64_t second = p->run(p->ctx, way_first ? 0 : way, alone, turn);
    const double a = first ? (double)first : 1, b = second ? (double)second : 1;
    return way_first ? a / b : b / a;
}

// The mean of the pairs of all turns, without the quarters at both ends: those of one turn may
// differ from those of another.
static double duel(const struct tune_passes *p, int way, bool alone) {
    enum { CUT = TUNE_TURNS / 4 };
    double share[TUNE_TURNS], sum = 0;
    for (int i = 0; i < TUNE_TURNS; i++) share[i] = pair(p, way, alone, i);
    qsort(share, TUNE_TURNS, sizeof *share, compare_double);
    for (int i = CUT; i < TUNE_TURNS - CUT; i++) sum += share[i];
    return sum / (TUNE_TURNS - 2 * CUT);
}

struct candidate {
    double share; // first, for compare_double
    int way;
};

// The ways that seem faster than the default, the fastest first: one pair with all threads and one
// with one. Where memory is slow for all threads together, one alone tells the ways apart.
static int candidates_find(const struct tune_passes *p, struct candidate *out) {
    int n = 0;
    for (int w = 1; w < MATMUL_WAYS; w++) {
        const double share = pair(p, w, false, 0) * pair(p, w, true, 0);
        if (share < 1) out[n++] = (struct candidate){share, w};
    }
    qsort(out, (size_t)n, sizeof *out, compare_double);
    return n < CANDIDATES ? n : CANDIDATES;
}

int tune_choose(const struct tune_passes *p, double *gain) {
    const double like = LIKE_PERCENT / 100.0;
    struct candidate candidate[MATMUL_WAYS];
    double least = 1, least_alone = 1 - GAIN_PERCENT / 100.0;
    int best = 0;
    *gain = 1;
    p->run(p->ctx, 0, false, 0); // wakes the threads
    const int n = candidates_find(p, candidate);
    for (int i = 0; i < n; i++) {
        candidate[i].share = duel(p, candidate[i].way, false);
        if (candidate[i].share < least) least = candidate[i].share;
    }
    // of those that are alike with all threads, the fastest with one: it is better when memory is
    // faster than now
    if (least + like < 1) least_alone = INFINITY; // the default is not among them
    for (int i = 0; i < n; i++) {
        if (candidate[i].share > least + like) continue;
        const double alone = duel(p, candidate[i].way, true);
        if (alone >= least_alone) continue;
        best = candidate[i].way;
        least_alone = alone;
        *gain = candidate[i].share < 1 ? 1 / candidate[i].share : 1;
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

// Pieces whose rows have the same length, one after the other.
struct length {
    int64_t cols, piece_bytes;
    int64_t first, n; // of tuning.piece
    int64_t next;     // of them, in the next pass
};

struct tuning {
    struct pool *pool;
    uint64_t cache_bytes; // of all caches; 0: unknown
    uint8_t *scratch;     // [threads, MATMUL_SCRATCH_BYTES]
    const struct matmul_kernel *kernel;
    struct piece *piece; // of the format's weights
    int64_t n_piece;
    struct length length[LENGTHS], *now; // now: of this pass
    int n_length;
    const struct matmul_way *way;
    float *y; // [threads, y_floats]
    int64_t y_floats;
    float *x; // of the longest row, zeros, then its xq, xd and xsum
};

static int64_t longest(const struct tuning *t) {
    int64_t cols = 0;
    for (int i = 0; i < t->n_length; i++)
        if (t->length[i].cols > cols) cols = t->length[i].cols;
    return cols;
}

static void run_pieces(void *ctx, int64_t begin, int64_t end, int worker) {
    const struct tuning *t = ctx;
    const struct length *l = t->now;
    const int64_t cols = longest(t);
    for (int64_t i = begin; i < end; i++) {
        const struct piece *piece = &t->piece[l->first + (l->next + i) % l->n];
        const struct matmul_args args = {.w = piece->w,
                                         .rows = piece->n_groups * MATMUL_GROUP,
                                         .cols = piece->cols,
                                         .n = 1,
                                         .x = t->x,
                                         .xq = (const int8_t *)(t->x + cols),
                                         .xd = t->x + 2 * cols,
                                         .xsum = (const int16_t *)(t->x + 3 * cols),
                                         .y = t->y + worker * t->y_floats,
                                         .scale = 1,
                                         .way = *t->way,
                                         .scratch =
                                             t->scratch + (int64_t)worker * MATMUL_SCRATCH_BYTES};
        t->kernel->run[SHAPE_ONE](&args, 0, piece->n_groups);
    }
}

// Each length has turns by its share of the bytes.
static struct length *length_of(struct tuning *t, int turn) {
    uint64_t all = 0, before = 0;
    for (int i = 0; i < t->n_length; i++)
        all += (uint64_t)(t->length[i].n * t->length[i].piece_bytes);
    for (int i = 0; i < t->n_length - 1; i++) {
        before += (uint64_t)(t->length[i].n * t->length[i].piece_bytes);
        if (before * 2 * TUNE_TURNS > all * (2 * (uint64_t)turn + 1)) return &t->length[i];
    }
    return &t->length[t->n_length - 1];
}

// A pass begins a piece behind the end of the last one, whose requests went beyond it; it finds
// little in the caches. The time is that of PASS_BYTES for each thread.
static uint64_t run_pass(void *ctx, int way, bool alone, int turn) {
    struct tuning *t = ctx;
    struct length *l = t->now = length_of(t, turn);
    const int64_t least = PASS_BYTES / l->piece_bytes, own = least ? least : 1;
    const int64_t n = alone ? own : own * pool_size(t->pool);
    t->way = &matmul_ways[way];
    const uint64_t start = clock_ns();
    pool_run(t->pool, run_pieces, t, n, alone ? n : 1);
    const uint64_t took = clock_ns() - start;
    l->next = (l->next + n + 1) % l->n;
    return (uint64_t)((double)took * PASS_BYTES / (double)(own * l->piece_bytes));
}

// The groups that a thread takes at a time in a product (program.c).
static int64_t piece_groups(enum format_id format, int64_t group_bytes) {
    const int64_t chunk = format_at(format)->span ? CPU_CHUNK_BYTES : CPU_CHUNK_BYTES_FLOAT;
    const int64_t n = chunk / group_bytes / 2 * 2;
    return n < 2 ? 2 : n;
}

// The pieces of a matrix with rows of that length: its end, where less than a piece is left, is not
// used.
static void cut(struct tuning *t, struct length *l, const void *packed, int64_t groups,
                int64_t cap) {
    const int64_t bytes = t->kernel->group_bytes(l->cols);
    const int64_t n = piece_groups(t->kernel->format, bytes);
    l->piece_bytes = n * bytes;
    for (int64_t g = 0; g + n <= groups && t->n_piece < cap; g += n, l->n++)
        t->piece[t->n_piece++] = (struct piece){(const uint8_t *)packed + g * bytes, l->cols, n};
    if (n * MATMUL_GROUP > t->y_floats) t->y_floats = n * MATMUL_GROUP;
}

static struct length *length_add(struct tuning *t, int64_t cols) {
    struct length *l = &t->length[t->n_length++];
    *l = (struct length){.cols = cols, .first = t->n_piece};
    return l;
}

// Whether the passes of this length find little in the caches.
static bool is_long(const struct tuning *t, const struct length *l) {
    const uint64_t least = (uint64_t)LEAST_PASSES * PASS_BYTES * (uint64_t)pool_size(t->pool);
    const uint64_t bytes = (uint64_t)(l->n * l->piece_bytes);
    return bytes > least && bytes > t->cache_bytes && l->n > 1;
}

// Of all pieces. False: the default stays, because there is little to read, or no memory.
static bool tuning_run(struct tuning *t, struct matmul_way *out, double *gain) {
    const struct tune_passes passes = {run_pass, t};
    int n = 0;
    *out = matmul_ways[0];
    *gain = 1;
    for (int i = 0; i < t->n_length; i++)
        if (is_long(t, &t->length[i])) t->length[n++] = t->length[i];
    t->n_length = n;
    t->x = calloc((size_t)longest(t) * 4 + 1, sizeof(float));
    t->y = calloc((size_t)pool_size(t->pool), ((size_t)t->y_floats + 1) * sizeof(float));
    const bool can = n > 0 && t->x && t->y;
    if (can) *out = matmul_ways[tune_choose(&passes, gain)];
    free(t->x);
    free(t->y);
    return can;
}

uint64_t tune_bytes(const struct pool *pool) {
    const uint64_t caches = 2 * pool_caches(pool).all;
    const uint64_t passes = (uint64_t)(LEAST_PASSES + 1) * PASS_BYTES * (uint64_t)pool_size(pool);
    const uint64_t most = caches > passes ? caches : passes;
    return most > LEAST_BYTES ? most : LEAST_BYTES;
}

rn_status tune_region(struct pool *pool, const struct matmul_kernel *kernel,
                      const struct region *packed, struct matmul_way *out, double *gain,
                      rn_error *err) {
    enum { COLS = 4096 };
    struct tuning t = {.pool = pool, .cache_bytes = pool_caches(pool).all, .kernel = kernel};
    const int64_t groups = (int64_t)packed->bytes / kernel->group_bytes(COLS);
    struct region scratch;
    rn_status status = region_map((uint64_t)pool_size(pool) * MATMUL_SCRATCH_BYTES, true,
                                  "the scratch of kernels", &scratch, err);
    if (status) return status;
    t.scratch = scratch.base;
    t.piece = calloc((size_t)groups, sizeof *t.piece);
    if (t.piece) {
        cut(&t, length_add(&t, COLS), packed->base, groups, groups);
        tuning_run(&t, out, gain);
    } else {
        status = err_set(err, RN_ERR_NOMEM, "cannot allocate pieces of weights");
    }
    free(t.piece);
    region_unmap(&scratch);
    return status;
}

// ---------------------------------------------------------------- a backend's weights

// The weights that the tuning is of.
static bool is_of(const struct tuning *t, const struct cpu_backend *b, int weight, int64_t cols) {
    return b->weight[weight].kernel == t->kernel && b->plan->weight[weight].cols == cols;
}

// Pieces of all weights with rows of that length.
static void cut_weights(struct tuning *t, const struct cpu_backend *b, int64_t cols, int64_t cap) {
    struct length *l = length_add(t, cols);
    for (int i = 0; i < b->plan->n_weight; i++) {
        const struct plan_weight *weight = &b->plan->weight[i];
        const struct cpu_weight *own = &b->weight[i];
        const int64_t groups = cpu_groups(weight->rows);
        if (!is_of(t, b, i, cols)) continue;
        for (int e = 0; e < weight->n_expert; e++) cut(t, l, own->expert[e], groups, cap);
        if (!weight->n_expert) cut(t, l, own->packed, groups, cap);
    }
}

static bool has_length(const struct tuning *t, int64_t cols) {
    for (int i = 0; i < t->n_length; i++)
        if (t->length[i].cols == cols) return true;
    return false;
}

// False: the default stays.
static bool format_tune(struct cpu_backend *b, const struct matmul_kernel *kernel, uint64_t bytes) {
    struct tuning t = {.pool = b->pool,
                       .cache_bytes = b->cache_bytes_all,
                       .kernel = kernel,
                       .scratch = b->matmul_scratch};
    const int64_t cap = (int64_t)(bytes / LEAST_PIECE) + 1;
    bool is_tuned = false;
    double gain;
    t.piece = calloc((size_t)cap, sizeof *t.piece);
    for (int i = 0; t.piece && i < b->plan->n_weight && t.n_length < LENGTHS; i++) {
        const int64_t cols = b->plan->weight[i].cols;
        if (is_of(&t, b, i, cols) && !has_length(&t, cols)) cut_weights(&t, b, cols, cap);
    }
    if (t.piece) is_tuned = tuning_run(&t, &b->way[kernel->format], &gain);
    free(t.piece);
    return is_tuned;
}

static uint64_t format_bytes(const struct cpu_backend *b, const struct matmul_kernel *kernel) {
    uint64_t bytes = 0;
    for (int i = 0; i < b->plan->n_weight; i++)
        if (b->weight[i].kernel == kernel) bytes += b->plan->weight[i].bytes;
    return bytes;
}

// Weights that the caches would hold alone are not held where those of another format pass through
// the caches in each step. They take the way of the format that has the most.
void cpu_tune(struct cpu_backend *b) {
    const uint64_t least = b->cache_bytes_all > LEAST_BYTES ? b->cache_bytes_all : LEAST_BYTES;
    bool is_tuned[FORMAT_COUNT] = {false};
    uint64_t most = 0;
    struct matmul_way way = matmul_ways[0];
    for (int format = 0; format < FORMAT_COUNT; format++) {
        const struct matmul_kernel *kernel =
            matmul_kernel_find((enum format_id)format, b->ops->isa);
        if (!kernel || !kernel->has_ways) continue;
        const uint64_t bytes = format_bytes(b, kernel);
        is_tuned[format] = bytes > least && format_tune(b, kernel, bytes);
        if (!is_tuned[format] || bytes <= most) continue;
        most = bytes;
        way = b->way[format];
    }
    for (int format = 0; format < FORMAT_COUNT; format++)
        if (!is_tuned[format]) b->way[format] = way;
    for (int i = 0; i < b->n_stage_all; i++)
        for (int j = 0; b->stage[i].matmul && j < b->stage[i].n; j++)
            b->stage[i].matmul[j].args.way = b->way[b->stage[i].matmul[j].format];
}

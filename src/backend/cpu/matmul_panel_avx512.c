// The matrix product for many tokens with AVX-512. The columns of two groups are decoded once into
// panels of bytes that stay in the first-level cache, and tiles of 4 tokens pass over them. One
// function serves all block formats; decoding is the format's (matmul_avx512.h). The order of float
// operations per (row, token) is that of all other kernels: blocks ascending; between panels the
// accumulators rest in memory.
#if defined(__x86_64__)

#include "backend/cpu/matmul_avx512.h"

enum {
    PANEL_TOKENS = 256, // tokens whose sums rest in the second-level cache
    PANEL_TILES = PANEL_TOKENS / MATMUL_TILE,
    TILE_PLACES = PANEL_BLOCKS * MATMUL_TILE * 2,
    SUM_FLOATS = PANEL_TOKENS * MATMUL_GROUP, // of a group
};

// The data of a call's tokens for one panel's columns.
struct columns {
    _Alignas(64) int32_t start[PANEL_TILES][TILE_PLACES];
    _Alignas(64) float offset[PANEL_TILES][TILE_PLACES];
};

// The groups share the starts and offsets of a panel's columns.
struct scratch {
    _Alignas(64) float sums[MATMUL_PANEL_GROUPS][SUM_FLOATS];
    struct columns columns;
    struct panel panel[2];
};
_Static_assert(sizeof(struct scratch) <= MATMUL_SCRATCH_BYTES, "has room");

struct work {
    const struct matmul_args *args;
    const struct panel *panel; // [2]
    int64_t first;             // block
    int count;                 // of blocks
};

static int min_int(int a, int b) { return a < b ? a : b; }

// n tokens from `token` on. sums: [n][16] of the first group, and SUM_FLOATS further of the second.
INLINE void panel_tile(const struct work *work, int token, const int32_t *start,
                       const float *offset, float *sums, const int n, const int span,
                       const bool offsets) {
    const struct matmul_args *args = work->args;
    const struct matmul_x x = matmul_x_of(args->n, token, args->cols);
    const int spans = 32 / span;
    __m512 acc[2][PAIR_TOKENS];
    for (int g = 0; g < 2; g++) {
        UNROLL for (int j = 0; j < n; j++) {
            acc[g][j] = _mm512_load_ps(sums + g * SUM_FLOATS + j * MATMUL_GROUP);
        }
    }
    start += token % MATMUL_TILE * spans, offset += token % MATMUL_TILE * spans;
    for (int i = 0; i < work->count; i++, start += x.stride * spans, offset += x.stride * spans) {
        struct pair_block pair;
        for (int g = 0; g < 2; g++) {
            const struct panel *panel = &work->panel[g];
            for (int k = 0; k < QUADS; k++) pair.q[g][k] = load(panel->q[i][k]);
            pair.scale[g] = panel->scale[i][0];
            pair.min[g] = panel->min[i][0];
        }
        pair_add(args, &pair, x.first + (work->first + i) * x.stride, start, offset, acc, n, span,
                 offsets);
    }
    for (int g = 0; g < 2; g++) {
        UNROLL for (int j = 0; j < n; j++) {
            _mm512_store_ps(sums + g * SUM_FLOATS + j * MATMUL_GROUP, acc[g][j]);
        }
    }
}

typedef void (*panel_tile_fn)(const struct work *work, int token, const int32_t *start,
                              const float *offset, float *sums);

#define PANEL_TILE(name, n, span, offsets)                                                         \
    static void name##_##n(const struct work *work, int token, const int32_t *start,               \
                           const float *offset, float *sums) {                                     \
        panel_tile(work, token, start, offset, sums, n, span, offsets);                            \
    }

// Tiles of 1 to 4 tokens.
#define PANEL(name, span, offsets)                                                                 \
    PANEL_TILE(name, 1, span, offsets)                                                             \
    PANEL_TILE(name, 2, span, offsets)                                                             \
    PANEL_TILE(name, 3, span, offsets)                                                             \
    PANEL_TILE(name, 4, span, offsets)

PANEL(plain_32, 32, false)
PANEL(offset_32, 32, true)
PANEL(plain_16, 16, false)
PANEL(offset_16, 16, true)

#define TILES(name)                                                                                \
    { name##_1, name##_2, name##_3, name##_4 }

static const panel_tile_fn panel_tiles[2][2][PAIR_TOKENS] = {
    {TILES(plain_32), TILES(offset_32)},
    {TILES(plain_16), TILES(offset_16)},
};

// The tokens of one tile of the activations.
static void tile_run(const struct work *work, const panel_tile_fn *tiles, int first, int width,
                     const int32_t *start, const float *offset, float *sums) {
    for (int token = 0; token < width; token += PAIR_TOKENS) {
        const int n = min_int(width - token, PAIR_TOKENS);
        tiles[n - 1](work, first + token, start, offset, sums + token * MATMUL_GROUP);
    }
}

// A format, as far as the product needs it.
struct shape {
    int64_t group_bytes;
    int span, zero;
    bool offsets;
    panel_decode_fn decode;
};

static void columns_make(const struct matmul_args *args, const struct work *work, int token, int n,
                         const struct shape *shape, struct columns *columns) {
    for (int t = 0; t < n; t += MATMUL_TILE) {
        const struct matmul_x x = matmul_x_of(args->n, token + t, args->cols);
        const int64_t at = x.first + work->first * x.stride;
        const int places = work->count * (int)x.stride;
        int32_t *start = columns->start[t / MATMUL_TILE];
        float *offset = columns->offset[t / MATMUL_TILE];
        if (shape->span == 32)
            starts_make(args, at, places, 32, shape->zero, shape->offsets, start, offset);
        else
            starts_make(args, at, places, 16, shape->zero, shape->offsets, start, offset);
    }
}

// Groups [g0, g0 + groups) for n tokens from `token` on. A last group alone is its own partner, and
// the partner's sums are not stored.
static void tokens_run(const struct matmul_args *args, const struct shape *shape, int64_t g0,
                       int groups, int token, int n) {
    struct scratch *scratch = args->scratch;
    struct columns *columns = &scratch->columns;
    const panel_tile_fn *tiles = panel_tiles[shape->span == 16][shape->offsets];
    const int64_t blocks = args->cols / MATMUL_SPAN;
    struct work work = {.args = args, .panel = scratch->panel};
    for (int g = 0; g < (groups + 1) / 2 * 2; g++)
        memset(scratch->sums[g], 0, (size_t)n * MATMUL_GROUP * sizeof(float));
    for (; work.first < blocks; work.first += PANEL_BLOCKS) {
        work.count = min_int((int)(blocks - work.first), PANEL_BLOCKS);
        columns_make(args, &work, token, n, shape, columns);
        for (int g = 0; g < groups; g += 2) {
            for (int i = 0; i < 2; i++)
                shape->decode((const uint8_t *)args->w +
                                  (g0 + min_int(g + i, groups - 1)) * shape->group_bytes,
                              work.first, work.count, &scratch->panel[i]);
            for (int t = 0; t < n; t += MATMUL_TILE)
                tile_run(&work, tiles, token + t, min_int(n - t, MATMUL_TILE),
                         columns->start[t / MATMUL_TILE], columns->offset[t / MATMUL_TILE],
                         scratch->sums[g] + t * MATMUL_GROUP);
        }
    }
    sums_store(args, scratch->sums[0], SUM_FLOATS, g0, groups, token, n);
}

void matmul_panel_avx512(const struct matmul_args *args, int64_t group_begin, int64_t group_end,
                         int64_t group_bytes, int span, int zero, bool offsets,
                         panel_decode_fn decode) {
    const struct shape shape = {group_bytes, span, zero, offsets, decode};
    for (int64_t g = group_begin; g < group_end; g += MATMUL_PANEL_GROUPS) {
        const int64_t left = group_end - g;
        const int groups = left < MATMUL_PANEL_GROUPS ? (int)left : MATMUL_PANEL_GROUPS;
        for (int token = 0; token < args->n; token += PANEL_TOKENS)
            tokens_run(args, &shape, g, groups, token, min_int(args->n - token, PANEL_TOKENS));
    }
}

#endif

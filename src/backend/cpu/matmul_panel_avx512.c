// The matrix product for many tokens with AVX-512. A group's columns are decoded once into a panel
// of bytes that stays in the first-level cache, and tiles of 16 tokens pass over it. One function
// serves all block formats; decoding is the format's (matmul_avx512.h). The order of float
// operations per (row, token) is that of all other kernels: blocks ascending; between panels the
// accumulators rest in memory.
#if defined(__x86_64__)

#include "backend/cpu/matmul_avx512.h"

enum {
    PANEL_TOKENS = 256, // tokens whose sums rest in the second-level cache
    PANEL_TILES = PANEL_TOKENS / MATMUL_TILE,
    TILE_PLACES = PANEL_BLOCKS * MATMUL_TILE * 2,
};

// The data of a call's tokens for one panel's columns.
struct columns {
    _Alignas(64) int32_t start[PANEL_TILES][TILE_PLACES];
    _Alignas(64) float offset[PANEL_TILES][TILE_PLACES];
};

// The groups share the starts and offsets of a panel's columns.
struct scratch {
    _Alignas(64) float sums[MATMUL_PANEL_GROUPS][PANEL_TOKENS * MATMUL_GROUP];
    struct columns columns;
    struct panel panel;
};
_Static_assert(sizeof(struct scratch) <= MATMUL_SCRATCH_BYTES, "has room");

struct work {
    const struct matmul_args *args;
    const struct panel *panel;
    int64_t first; // block
    int count;     // of blocks
};

// n tokens from `token` on; acc: [n][16].
INLINE void panel_tile(const struct work *work, int token, const int32_t *start,
                       const float *offset, float *sums, const int n, const int span,
                       const bool offsets) {
    const struct matmul_args *args = work->args;
    const struct matmul_x x = matmul_x_of(args->n, token, args->cols);
    const int64_t within = token % MATMUL_TILE;
    const int spans = 32 / span;
    __m512 acc[MATMUL_TILE];
    UNROLL for (int j = 0; j < n; j++) acc[j] = _mm512_load_ps(sums + j * MATMUL_GROUP);
    for (int i = 0; i < work->count; i++) {
        const int64_t at = x.first + (work->first + i) * x.stride, local = i * x.stride + within;
        __m512i q[QUADS];
        __m512 scale[2], min[2];
        for (int k = 0; k < QUADS; k++) q[k] = load(work->panel->q[i][k]);
        for (int s = 0; s < spans; s++) {
            scale[s] = _mm512_load_ps(work->panel->scale[i][s]);
            if (offsets) min[s] = _mm512_load_ps(work->panel->min[i][s]);
        }
        UNROLL for (int j = 0; j < n; j++) {
            acc[j] =
                block_add(acc[j], q, scale, min, args->xq + 32 * (at + j), args->xd + at + j,
                          start + (local + j) * spans, offset + (local + j) * spans, span, offsets);
        }
    }
    UNROLL for (int j = 0; j < n; j++) _mm512_store_ps(sums + j * MATMUL_GROUP, acc[j]);
}

typedef void (*panel_tile_fn)(const struct work *work, int token, const int32_t *start,
                              const float *offset, float *sums);

#define PANEL_TILE(name, n, span, offsets)                                                         \
    static void name##_##n(const struct work *work, int token, const int32_t *start,               \
                           const float *offset, float *sums) {                                     \
        panel_tile(work, token, start, offset, sums, n, span, offsets);                            \
    }

// Tiles of 1, 2, 4, 8 and 16 tokens: a remainder is put together from them.
#define PANEL(name, span, offsets)                                                                 \
    PANEL_TILE(name, 1, span, offsets)                                                             \
    PANEL_TILE(name, 2, span, offsets)                                                             \
    PANEL_TILE(name, 4, span, offsets)                                                             \
    PANEL_TILE(name, 8, span, offsets)                                                             \
    PANEL_TILE(name, 16, span, offsets)

enum { TILE_SIZES = 5 };

PANEL(plain_32, 32, false)
PANEL(offset_32, 32, true)
PANEL(plain_16, 16, false)
PANEL(offset_16, 16, true)

#define TILES(name)                                                                                \
    { name##_1, name##_2, name##_4, name##_8, name##_16 }

static const panel_tile_fn panel_tiles[2][2][TILE_SIZES] = {
    {TILES(plain_32), TILES(offset_32)},
    {TILES(plain_16), TILES(offset_16)},
};

// The tokens of one tile of the activations.
static void tile_run(const struct work *work, const panel_tile_fn *tiles, int first, int width,
                     const int32_t *start, const float *offset, float *sums) {
    for (int token = 0; token < width;) {
        int size = TILE_SIZES - 1;
        while (1 << size > width - token) size--;
        tiles[size](work, first + token, start, offset, sums + token * MATMUL_GROUP);
        token += 1 << size;
    }
}

static int min_int(int a, int b) { return a < b ? a : b; }

static void columns_make(const struct matmul_args *args, const struct work *work, int token, int n,
                         int span, int zero, bool offsets, struct columns *columns) {
    for (int t = 0; t < n; t += MATMUL_TILE) {
        const struct matmul_x x = matmul_x_of(args->n, token + t, args->cols);
        const int64_t at = x.first + work->first * x.stride;
        const int places = work->count * (int)x.stride;
        int32_t *start = columns->start[t / MATMUL_TILE];
        float *offset = columns->offset[t / MATMUL_TILE];
        if (span == 32)
            starts_make(args, at, places, 32, zero, offsets, start, offset);
        else
            starts_make(args, at, places, 16, zero, offsets, start, offset);
    }
}

static void sums_store(const struct matmul_args *args, const float *sums, int64_t row, int token,
                       int n) {
    for (int t = 0; t < n; t++)
        rows_store(args, _mm512_load_ps(sums + t * MATMUL_GROUP), row, token + t);
}

void matmul_panel_avx512(const struct matmul_args *args, int64_t group_begin, int64_t group_end,
                         int64_t group_bytes, int span, int zero, bool offsets,
                         panel_decode_fn decode) {
    struct scratch *scratch = args->scratch;
    struct columns *columns = &scratch->columns;
    struct panel *panel = &scratch->panel;
    const panel_tile_fn *tiles = panel_tiles[span == 16][offsets];
    const int64_t blocks = args->cols / MATMUL_SPAN;
    for (int64_t g0 = group_begin; g0 < group_end; g0 += MATMUL_PANEL_GROUPS) {
        const int groups =
            (int)(group_end - g0 < MATMUL_PANEL_GROUPS ? group_end - g0 : MATMUL_PANEL_GROUPS);
        for (int token = 0; token < args->n; token += PANEL_TOKENS) {
            const int n = min_int(args->n - token, PANEL_TOKENS);
            for (int g = 0; g < groups; g++)
                memset(scratch->sums[g], 0, (size_t)n * MATMUL_GROUP * sizeof(float));
            struct work work = {.args = args, .panel = panel};
            for (; work.first < blocks; work.first += PANEL_BLOCKS) {
                work.count = min_int((int)(blocks - work.first), PANEL_BLOCKS);
                columns_make(args, &work, token, n, span, zero, offsets, columns);
                for (int g = 0; g < groups; g++) {
                    decode((const uint8_t *)args->w + (g0 + g) * group_bytes, work.first,
                           work.count, panel);
                    for (int t = 0; t < n; t += MATMUL_TILE)
                        tile_run(&work, tiles, token + t, min_int(n - t, MATMUL_TILE),
                                 columns->start[t / MATMUL_TILE], columns->offset[t / MATMUL_TILE],
                                 scratch->sums[g] + t * MATMUL_GROUP);
                }
            }
            for (int g = 0; g < groups; g++)
                sums_store(args, scratch->sums[g], (g0 + g) * MATMUL_GROUP, token, n);
        }
    }
}

#endif

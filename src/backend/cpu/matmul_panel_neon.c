// The matrix product for many tokens with NEON. A group's columns are decoded once into a panel of
// signed bytes that stays in the first-level cache, and tiles of 4 tokens pass over it. To the
// template of matmul_neon.h a panel is one more format, so one function serves all of them. The
// order of float operations per (row, token) is that of all other kernels: blocks ascending;
// between panels the accumulators rest in memory. Not measured on hardware.
#if defined(__aarch64__)

#include "backend/cpu/matmul_neon.h"

enum { PANEL_TOKENS = 256 }; // tokens whose sums rest in the second-level cache

INLINE void panel_codes(const uint8_t *unit, int block, int quarter, int8x16_t *q) {
    (void)block;
    const struct panel_block *panel = (const struct panel_block *)unit;
    UNROLL for (int i = 0; i < QUADS; i++) q[i] = vld1q_s8(panel->q[quarter][i]);
}

INLINE void panel_scales_32(const uint8_t *unit, int block, rows16 *scale) {
    (void)block;
    scale[0] = vld1q_f32_x4(((const struct panel_block *)unit)->scale[0]);
}

INLINE void panel_mins_32(const uint8_t *unit, int block, rows16 *min) {
    (void)block;
    min[0] = vld1q_f32_x4(((const struct panel_block *)unit)->min[0]);
}

INLINE void panel_scales_16(const uint8_t *unit, int block, rows16 *scale) {
    panel_scales_32(unit, block, scale);
    scale[1] = vld1q_f32_x4(((const struct panel_block *)unit)->scale[1]);
}

INLINE void panel_mins_16(const uint8_t *unit, int block, rows16 *min) {
    panel_mins_32(unit, block, min);
    min[1] = vld1q_f32_x4(((const struct panel_block *)unit)->min[1]);
}

// Part of a product: blocks [first, first + count), decoded.
struct work {
    const struct matmul_args *args;
    const struct panel_block *panel;
    int64_t first;
    int count;
};

// n tokens from `token` on; sums: [n][16].
INLINE void panel_tile(const struct codec *c, const struct work *work, int token, float *sums,
                       const int n) {
    rows16 acc[TILE_MAX];
    UNROLL for (int j = 0; j < n; j++) acc[j] = vld1q_f32_x4(sums + j * MATMUL_GROUP);
    blocks_add(c, work->args, (const uint8_t *)work->panel, work->first, work->count, token, n,
               acc);
    UNROLL for (int j = 0; j < n; j++) vst1q_f32_x4(sums + j * MATMUL_GROUP, acc[j]);
}

typedef void (*panel_tile_fn)(const struct work *work, int token, float *sums);

#define PANEL_TILE(name, n)                                                                        \
    static void name##_##n(const struct work *work, int token, float *sums) {                      \
        panel_tile(&codec_##name, work, token, sums, n);                                           \
    }

#define PANEL(name, columns, has_offsets)                                                          \
    static const struct codec codec_##name##_##columns = {                                         \
        .span = columns,                                                                           \
        .offsets = has_offsets,                                                                    \
        .unit_blocks = 1,                                                                          \
        .unit_bytes = sizeof(struct panel_block),                                                  \
        .codes = panel_codes,                                                                      \
        .scales = panel_scales_##columns,                                                          \
        .mins = panel_mins_##columns,                                                              \
    };                                                                                             \
    PANEL_TILE(name##_##columns, 1)                                                                \
    PANEL_TILE(name##_##columns, 2)                                                                \
    PANEL_TILE(name##_##columns, 3)                                                                \
    PANEL_TILE(name##_##columns, 4)

PANEL(plain, 32, false)
PANEL(offset, 32, true)
PANEL(plain, 16, false)
PANEL(offset, 16, true)

#define TILES(name)                                                                                \
    { name##_1, name##_2, name##_3, name##_4 }

static const panel_tile_fn panel_tiles[2][2][TILE_MAX] = {
    {TILES(plain_32), TILES(offset_32)},
    {TILES(plain_16), TILES(offset_16)},
};

static int min_int(int a, int b) { return a < b ? a : b; }

// n tokens from `token` on, a multiple of the activations' tile; so no tile reaches over theirs.
static void panel_run(const struct work *work, const panel_tile_fn *tiles, int token, int n,
                      float *sums) {
    for (int t = 0; t < n; t += TILE_MAX)
        tiles[min_int(n - t, TILE_MAX) - 1](work, token + t, sums + t * MATMUL_GROUP);
}

void matmul_panel_neon(const struct matmul_args *args, int64_t group_begin, int64_t group_end,
                       int64_t group_bytes, int span, bool offsets, panel_decode_fn decode) {
    _Alignas(64) float sums[PANEL_TOKENS * MATMUL_GROUP];
    struct panel_block panel[PANEL_BLOCKS];
    const panel_tile_fn *tiles = panel_tiles[span == 16][offsets];
    const int64_t blocks = args->cols / MATMUL_SPAN;
    for (int64_t g = group_begin; g < group_end; g++) {
        const uint8_t *w = (const uint8_t *)args->w + g * group_bytes;
        for (int token = 0; token < args->n; token += PANEL_TOKENS) {
            const int n = min_int(args->n - token, PANEL_TOKENS);
            memset(sums, 0, (size_t)n * MATMUL_GROUP * sizeof *sums);
            struct work work = {.args = args, .panel = panel};
            for (; work.first < blocks; work.first += PANEL_BLOCKS) {
                work.count = min_int((int)(blocks - work.first), PANEL_BLOCKS);
                decode(w, work.first, work.count, panel);
                panel_run(&work, tiles, token, n, sums);
            }
            for (int t = 0; t < n; t++)
                rows_store(args, vld1q_f32_x4(sums + t * MATMUL_GROUP), g * MATMUL_GROUP,
                           token + t);
        }
    }
}

#else
typedef int matmul_panel_neon_is_empty; // ISO C wants a declaration
#endif

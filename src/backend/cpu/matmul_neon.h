// The NEON kernels of block formats, as one template. A lane is a row of the group, whose 16 rows
// are four registers. A tile is up to 4 tokens, and a weight is decoded once per tile. Formats
// differ in their codec. Integer sums are exact, so only the float operations after them are
// ordered: per lane they are matmul_reference()'s.
//
// SDOT multiplies signed bytes. Packed codes of up to 6 bits are small enough to be read as signed
// ones (q + zero); an integer sum then begins at -zero * sum(xq). 16 float accumulators leave half
// of the 32 registers to weights and activations: hence 4 tokens. None of this was measured on
// hardware; there are no prefetches, because a group is one stream of ascending addresses.
#ifndef RN_BACKEND_CPU_MATMUL_NEON_H
#define RN_BACKEND_CPU_MATMUL_NEON_H

#include <arm_neon.h>

#include "backend/cpu/matmul_tile.h"

enum {
    QUADS = 8,         // of a block of 32 columns
    QUARTERS = 4,      // of a group: registers of 4 rows
    TILE_MAX = 4,      // tokens
    PANEL_BLOCKS = 16, // of a panel, which stays in the first-level cache
};

typedef float32x4x4_t rows16; // a float for each row of a group

// How a format's packed unit becomes numbers. block: of 32 columns, inside the unit. Formats with
// spans of 16 have two scales and offsets for a block.
struct codec {
    int span, zero;
    bool offsets;
    int unit_blocks, unit_bytes;
    void (*codes)(const uint8_t *unit, int block, int quarter, int8x16_t q[QUADS]); // q + zero
    void (*scales)(const uint8_t *unit, int block, rows16 scale[2]);
    void (*mins)(const uint8_t *unit, int block, rows16 offset[2]);
};

INLINE rows16 rows_zero(void) {
    const float32x4_t zero = vdupq_n_f32(0);
    return (rows16){{zero, zero, zero, zero}};
}

INLINE rows16 rows_load_f16(const uint8_t *p) {
    rows16 rows;
    UNROLL for (int i = 0; i < QUARTERS; i++) {
        const uint16x4_t bits = vreinterpret_u16_u8(vld1_u8(p + 8 * i));
        rows.val[i] = vcvt_f32_f16(vreinterpret_f16_u16(bits));
    }
    return rows;
}

// The first n rows at p; the rest 0.
static inline rows16 rows_load_part(const float *p, int64_t n) {
    float whole[MATMUL_GROUP] = {0};
    memcpy(whole, p, (size_t)(n < MATMUL_GROUP ? n : MATMUL_GROUP) * sizeof *p);
    return vld1q_f32_x4(whole);
}

static __attribute__((noinline)) void rows_store(const struct matmul_args *args, rows16 y,
                                                 int64_t row, int token) {
    const int64_t left = args->rows - row;
    float *out = args->y + token * args->ldy + row;
    const rows16 bias = args->bias ? rows_load_part(args->bias + row, left) : rows_zero();
    const rows16 before = args->add ? rows_load_part(out, left) : rows_zero();
    for (int i = 0; i < QUARTERS; i++) {
        if (args->scale != 1.0f) y.val[i] = vmulq_n_f32(y.val[i], args->scale);
        if (args->bias) y.val[i] = vaddq_f32(y.val[i], bias.val[i]);
        if (args->add) y.val[i] = vaddq_f32(before.val[i], y.val[i]);
    }
    float whole[MATMUL_GROUP];
    vst1q_f32_x4(whole, y);
    memcpy(out, whole, (size_t)(left < MATMUL_GROUP ? left : MATMUL_GROUP) * sizeof *out);
}

// The data of n tokens for a block, a lane per token: d, and per span -zero * sum and d * sum.
struct brought {
    float32x4_t d, offset[2];
    int32x4_t start[2];
};

// n words of four bytes, in as many lanes; the other lanes do not matter.
INLINE uint32x4_t words_load(const void *p, const int n) {
    const uint8_t *at = p;
    if (n == 4) return vreinterpretq_u32_u8(vld1q_u8(at));
    if (n == 1) return vdupq_n_u32((uint32_t)word_at(at));
    const uint32x2_t two = vreinterpret_u32_u8(vld1_u8(at));
    return vcombine_u32(two, n == 3 ? vdup_n_u32((uint32_t)word_at(at + 8)) : two);
}

INLINE struct brought brought_load(const struct codec *c, const struct matmul_args *args,
                                   int64_t at, const int n) {
    struct brought b = {.d = vreinterpretq_f32_u32(words_load(args->xd + at, n))};
    if (!c->zero && !c->offsets) return b;
    const int16x8_t halves = vreinterpretq_s16_u32(words_load(args->xsum + 2 * at, n));
    int32x4_t sum[2] = {vpaddlq_s16(halves)};
    if (c->span == 16) {
        sum[0] = vmovl_s16(vget_low_s16(vuzp1q_s16(halves, halves)));
        sum[1] = vmovl_s16(vget_low_s16(vuzp2q_s16(halves, halves)));
    }
    for (int s = 0; s < 32 / c->span; s++) {
        if (c->zero) b.start[s] = vmulq_n_s32(sum[s], -c->zero);
        if (c->offsets) b.offset[s] = vmulq_f32(b.d, vcvtq_f32_s32(sum[s]));
    }
    return b;
}

INLINE int32x4_t dot_16(int32x4_t sum, const int8x16_t *q, int8x16_t x) {
    sum = vdotq_laneq_s32(sum, q[0], x, 0);
    sum = vdotq_laneq_s32(sum, q[1], x, 1);
    sum = vdotq_laneq_s32(sum, q[2], x, 2);
    return vdotq_laneq_s32(sum, q[3], x, 3);
}

// Four rows and one token, the spans in order: acc = fmaf((float)dot, scale * d, acc), then acc =
// fmaf(offset, d * sum, acc).
INLINE float32x4_t quarter_add(const struct codec *c, float32x4_t acc, const int8x16_t *q,
                               const rows16 *scale, const rows16 *min, const int8_t *xq,
                               const struct brought *b, const int quarter, const int token) {
    const int8x16_t x[2] = {vld1q_s8(xq), vld1q_s8(xq + 16)};
    for (int s = 0; s < 32 / c->span; s++) {
        int32x4_t sum = c->zero ? vdupq_n_s32(b->start[s][token]) : vdupq_n_s32(0);
        sum = dot_16(sum, q + 4 * s, x[s]);
        if (c->span == 32) sum = dot_16(sum, q + 4, x[1]);
        const float32x4_t product = vmulq_n_f32(scale[s].val[quarter], b->d[token]);
        acc = vfmaq_f32(acc, vcvtq_f32_s32(sum), product);
        if (c->offsets) acc = vfmaq_n_f32(acc, min[s].val[quarter], b->offset[s][token]);
    }
    return acc;
}

// Adds `count` blocks, which start at w, to n tokens from `token` on, all in one tile of the
// activations; the first block is number `first` there.
INLINE void blocks_add(const struct codec *c, const struct matmul_args *args, const uint8_t *w,
                       int64_t first, int64_t count, int token, const int n, rows16 *acc) {
    const struct matmul_x x = matmul_x_of(args->n, token, args->cols);
    const int8_t *xq = args->xq;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = x.first + (first + i) * x.stride;
        const uint8_t *unit = w + i / c->unit_blocks * c->unit_bytes;
        const int block = (int)(i % c->unit_blocks);
        const struct brought brought = brought_load(c, args, at, n);
        rows16 scale[2], min[2];
        c->scales(unit, block, scale);
        if (c->offsets) c->mins(unit, block, min);
        UNROLL for (int quarter = 0; quarter < QUARTERS; quarter++) {
            int8x16_t q[QUADS];
            // Activations are loaded again for each quarter: gcc would otherwise keep all of them
            // in registers, and the accumulators in memory.
            __asm__("" ::: "memory");
            c->codes(unit, block, quarter, q);
            UNROLL for (int j = 0; j < n; j++) {
                acc[j].val[quarter] =
                    quarter_add(c, acc[j].val[quarter], q, scale, min, xq + MATMUL_SPAN * (at + j),
                                &brought, quarter, j);
            }
        }
    }
}

INLINE void tile_block(const struct codec *c, const struct matmul_args *args, const uint8_t *w,
                       int64_t row, int token, const int n) {
    rows16 acc[TILE_MAX];
    UNROLL for (int j = 0; j < n; j++) acc[j] = rows_zero();
    blocks_add(c, args, w, 0, args->cols / MATMUL_SPAN, token, n, acc);
    UNROLL for (int j = 0; j < n; j++) rows_store(args, acc[j], row, token + j);
}

// A block of 32 columns of one group, decoded for many tokens; zero is taken off.
struct panel_block {
    _Alignas(64) int8_t q[QUARTERS][QUADS][16];
    float scale[2][MATMUL_GROUP], min[2][MATMUL_GROUP];
};

INLINE void panel_decode(const struct codec *c, const uint8_t *w, int64_t first, int count,
                         struct panel_block *panel) {
    for (int i = 0; i < count; i++) {
        const uint8_t *unit = w + (first + i) / c->unit_blocks * c->unit_bytes;
        const int block = (int)((first + i) % c->unit_blocks);
        rows16 scale[2], min[2];
        c->scales(unit, block, scale);
        if (c->offsets) c->mins(unit, block, min);
        for (int s = 0; s < 32 / c->span; s++) {
            vst1q_f32_x4(panel[i].scale[s], scale[s]);
            if (c->offsets) vst1q_f32_x4(panel[i].min[s], min[s]);
        }
        for (int quarter = 0; quarter < QUARTERS; quarter++) {
            int8x16_t q[QUADS];
            c->codes(unit, block, quarter, q);
            for (int j = 0; j < QUADS; j++)
                vst1q_s8(panel[i].q[quarter][j], vsubq_s8(q[j], vdupq_n_s8((int8_t)c->zero)));
        }
    }
}

// Blocks [first, first + count) of the group that begins at w.
typedef void (*panel_decode_fn)(const uint8_t *w, int64_t first, int count,
                                struct panel_block *panel);

// matmul_panel_neon.c: the product over decoded panels, which is the same for all formats.
void matmul_panel_neon(const struct matmul_args *args, int64_t group_begin, int64_t group_end,
                       int64_t group_bytes, int span, bool offsets, panel_decode_fn decode);

#define TILE_BLOCK(name, n)                                                                        \
    static void name##_tile_##n(const struct matmul_args *args, const uint8_t *w, int64_t row,     \
                                int token) {                                                       \
        tile_block(&codec_##name, args, w, row, token, n);                                         \
    }

// The functions of a format, from codec_<name> and the layout's name.
#define MATMUL_BLOCK(name, layout)                                                                 \
    TILE_BLOCK(name, 1)                                                                            \
    TILE_BLOCK(name, 2)                                                                            \
    TILE_BLOCK(name, 3)                                                                            \
    TILE_BLOCK(name, 4)                                                                            \
    void matmul_##name##_neon(const struct matmul_args *args, int64_t group_begin,                 \
                              int64_t group_end) {                                                 \
        static const tile_fn tiles[TILE_MAX] = {name##_tile_1, name##_tile_2, name##_tile_3,       \
                                                name##_tile_4};                                    \
        const int64_t bytes = matmul_group_bytes_##layout(args->cols);                             \
        for (int64_t g = group_begin; g < group_end; g++)                                          \
            tiles_run_quantized(args, (const uint8_t *)args->w + g * bytes, g * MATMUL_GROUP,      \
                                tiles, TILE_MAX);                                                  \
    }                                                                                              \
    static void name##_decode(const uint8_t *w, int64_t first, int count,                          \
                              struct panel_block *panel) {                                         \
        panel_decode(&codec_##name, w, first, count, panel);                                       \
    }                                                                                              \
    void matmul_##name##_panel_neon(const struct matmul_args *args, int64_t group_begin,           \
                                    int64_t group_end) {                                           \
        matmul_panel_neon(args, group_begin, group_end, matmul_group_bytes_##layout(args->cols),   \
                          codec_##name.span, codec_##name.offsets, name##_decode);                 \
    }

#endif

// The AVX-512 kernels of block formats, as one template. A lane is a row of the group, a tile is up
// to 16 tokens, and a weight is decoded once per tile. Formats differ in their codec. Integer sums
// are exact, so only the float operations after them are ordered: per lane they are
// matmul_reference()'s.
//
// Weights are unsigned for vpdpbusd (q + zero); an integer sum therefore begins at -zero * sum(xq),
// which is made for 8 blocks at a time from the sums that the activations carry. A block of 32
// columns then costs a token 8 vpdpbusd, a conversion, a product and an fma (and one more fma with
// offsets). That is 10 or 11 cycles on Zen 4, which does one such instruction of 512 bits per
// cycle.
#ifndef RN_BACKEND_CPU_MATMUL_AVX512_H
#define RN_BACKEND_CPU_MATMUL_AVX512_H

#include "backend/cpu/matmul_base_avx512.h"

#define MATMUL_SUFFIX avx512

enum {
    TURNS = 4,        // tokens whose integer sums take turns
    PANEL_LEAST = 96, // tokens that pay for a panel
    // Blocks of a row whose starts, two for each, fit the scratch in whole vectors.
    ONE_BLOCKS = MATMUL_SCRATCH_BYTES / 8 - 16,
};

// sum + the dot products of a quad of q with four bytes of x. With gcc 12 the broadcast becomes a
// load of its own; as the instruction's operand it is free.
INLINE __m512i dot(__m512i sum, __m512i q, const int8_t *x) {
#if defined(__SANITIZE_ADDRESS__)
    return _mm512_dpbusd_epi32(sum, q, _mm512_set1_epi32(word_at(x)));
#else
    __asm__("vpdpbusd %2%{1to16%}, %1, %0"
            : "+v"(sum)
            : "v"(q), "m"(*(const struct quad { int8_t at[4]; } *)x));
    return sum;
#endif
}

// For one token.
INLINE void one_codes(const struct codec *c, const uint8_t *unit, int block, __m512i *q) {
    (c->codes_one ? c->codes_one : c->codes)(unit, block, q);
}

// sum, which begins at start, and the products of a span of one token. A sum of 8 quads is two
// chains. Loads must stay in order, so quads that are loaded one by one alternate.
INLINE __m512i one_dot(const struct codec *c, const int32_t *start, const __m512i *q,
                       const int8_t *x) {
    __m512i sum = c->offsets ? _mm512_setzero_si512() : _mm512_set1_epi32(*start);
    __m512i more = _mm512_setzero_si512();
    if (c->span == 16) {
        for (int i = 0; i < QUADS / 2; i++) sum = dot(sum, q[i], x + 4 * i);
        return sum;
    }
    if (!c->codes_one) {
        for (int i = 0; i < QUADS; i += 2) {
            sum = dot(sum, q[i], x + 4 * i);
            more = dot(more, q[i + 1], x + 4 * i + 4);
        }
        return _mm512_add_epi32(sum, more);
    }
    for (int i = 0; i < QUADS / 2; i++) {
        sum = dot(sum, q[i], x + 4 * i);
        more = dot(more, q[i + 4], x + 4 * i + 16);
    }
    return _mm512_add_epi32(sum, _mm512_srai_epi32(more, 4));
}

// acc of n neighbouring tokens and a block, the spans in order: acc = fmaf((float)dot, scale * d,
// acc), then acc = fmaf(offset, d * sum, acc). xq, d, start and offset are those of the first
// token. The sums of several tokens take turns, so that none waits for its own last product.
INLINE void block_add(const struct codec *c, __m512 *acc, const __m512i *q, const __m512 *scale,
                      const __m512 *min, const int8_t *xq, const float *d, const int32_t *start,
                      const float *offset, const int n) {
    const int spans = 32 / c->span, quads = c->span / 4;
    const bool offsets = c->offsets;
    for (int s = 0; s < spans; s++) {
        __m512i sum[TURNS];
        for (int j = 0; j < n; j++)
            sum[j] = offsets ? _mm512_setzero_si512() : _mm512_set1_epi32(start[j * spans + s]);
        for (int i = s * quads; i < (s + 1) * quads; i++)
            for (int j = 0; j < n; j++) sum[j] = dot(sum[j], q[i], xq + 32 * j + 4 * i);
        for (int j = 0; j < n; j++) {
            const __m512 product = _mm512_mul_ps(scale[s], _mm512_set1_ps(d[j]));
            acc[j] = fma_onto(acc[j], _mm512_cvtepi32_ps(sum[j]), product);
            if (offsets)
                acc[j] = _mm512_fmadd_ps(min[s], _mm512_set1_ps(offset[j * spans + s]), acc[j]);
        }
    }
}

#include "backend/cpu/matmul_tiles_avx512.h"

// ---------------------------------------------------------------- two groups

// Two groups share each load of an activation: Zen 5 and Xeons make two products a cycle, and no
// more than two loads. A block, token and group then costs 10 or 11 products and 6 to 8 loads.
// The codes of a block of two groups, and their scales.
struct pair_block {
    __m512i q[2][QUADS];
    const float *scale[2], *min[2]; // [spans][16] of each group
};

// The block onto the float sums of n tokens. at: the place of the first token's block; start and
// offset are its own, too.
INLINE void pair_add(const struct matmul_args *args, const struct pair_block *w, int64_t at,
                     const int32_t *start, const float *offset, __m512 (*acc)[PAIR_TOKENS],
                     const int n, const int span, const bool offsets) {
    const int spans = 32 / span, quads = span / 4;
    UNROLL for (int j = 0; j < n; j++) {
        const int8_t *x = args->xq + 32 * (at + j);
        const __m512 d = _mm512_set1_ps(args->xd[at + j]);
        for (int s = 0; s < spans; s++) {
            __m512i sum[2];
            sum[0] = offsets ? _mm512_setzero_si512() : _mm512_set1_epi32(start[j * spans + s]);
            sum[1] = sum[0];
            for (int k = s * quads; k < (s + 1) * quads; k++) {
                const __m512i four = _mm512_set1_epi32(word_at(x + 4 * k));
                for (int g = 0; g < 2; g++) sum[g] = _mm512_dpbusd_epi32(sum[g], w->q[g][k], four);
            }
            for (int g = 0; g < 2; g++) {
                const __m512 scale = _mm512_load_ps(w->scale[g] + s * MATMUL_GROUP);
                acc[g][j] =
                    fma_onto(acc[g][j], _mm512_cvtepi32_ps(sum[g]), _mm512_mul_ps(scale, d));
                if (!offsets) continue;
                const __m512 min = _mm512_load_ps(w->min[g] + s * MATMUL_GROUP);
                acc[g][j] = _mm512_fmadd_ps(min, _mm512_set1_ps(offset[j * spans + s]), acc[g][j]);
            }
        }
    }
}

// The same onto sums in memory, from token `first` on.
INLINE void pair_add_memory(const struct matmul_args *args, const struct pair_block *w, int64_t at,
                            const int32_t *start, const float *offset,
                            float (*sums)[MATMUL_TILE][MATMUL_GROUP], int first, const int n,
                            const int span, const bool offsets) {
    __m512 acc[2][PAIR_TOKENS];
    for (int g = 0; g < 2; g++) {
        UNROLL for (int j = 0; j < n; j++) acc[g][j] = _mm512_load_ps(sums[g][first + j]);
    }
    pair_add(args, w, at, start, offset, acc, n, span, offsets);
    for (int g = 0; g < 2; g++) {
        UNROLL for (int j = 0; j < n; j++) _mm512_store_ps(sums[g][first + j], acc[g][j]);
    }
}

// Block b of two groups to codes in registers and scales in memory. A group is `partner` bytes
// behind the one before; what is read next are the two behind these.
INLINE void pair_decode(const struct codec *c, const uint8_t *w, int64_t partner, int64_t b,
                        struct pair_block *out, float (*scales)[2][MATMUL_GROUP],
                        float (*mins)[2][MATMUL_GROUP]) {
    const int bytes = c->unit_bytes / c->unit_blocks, block = (int)(b % c->unit_blocks);
    const int64_t coming = b * bytes + (b * bytes + AHEAD >= partner ? partner : 0);
    for (int g = 0; g < 2; g++, w += partner) {
        const uint8_t *unit = w + b / c->unit_blocks * c->unit_bytes;
        __m512 scale[2], min[2];
        prefetch(w + coming, bytes, MATMUL_TILE);
        // Hardware loses one of two streams where they are a multiple of pages apart.
        for (int i = 0; i < bytes; i += PACK_VECTOR)
            _mm_prefetch((const char *)w + (b + 2) * bytes + i, _MM_HINT_T0);
        c->codes(unit, block, out->q[g]);
        c->scales(unit, block, scale);
        if (c->offsets) c->mins(unit, block, min);
        for (int s = 0; s < 32 / c->span; s++) {
            _mm512_store_ps(scales[g][s], scale[s]);
            if (c->offsets) _mm512_store_ps(mins[g][s], min[s]);
        }
        out->scale[g] = scales[g][0];
        out->min[g] = mins[g][0];
    }
}

// n tokens from `token` on, which are a tile of the activations, for the group at w and its
// partner.
INLINE void pair_tile(const struct codec *c, const struct matmul_args *args, const uint8_t *w,
                      int64_t partner, int token, int n, float (*sums)[MATMUL_TILE][MATMUL_GROUP]) {
    _Alignas(64) int32_t start[STEP_BLOCKS * MATMUL_TILE * 2];
    _Alignas(64) float offset[STEP_BLOCKS * MATMUL_TILE * 2];
    _Alignas(64) float scales[2][2][MATMUL_GROUP], mins[2][2][MATMUL_GROUP];
    const int64_t blocks = args->cols / MATMUL_SPAN;
    const struct matmul_x x = matmul_x_of(args->n, token, args->cols);
    const int spans = 32 / c->span;
    for (int64_t b0 = 0; b0 < blocks; b0 += STEP_BLOCKS) {
        const int count = blocks - b0 < STEP_BLOCKS ? (int)(blocks - b0) : STEP_BLOCKS;
        starts_make(args, x.first + b0 * x.stride, count * (int)x.stride, c->span, c->zero,
                    c->offsets, start, offset);
        for (int i = 0; i < count; i++) {
            const int64_t at = x.first + (b0 + i) * x.stride, place = i * x.stride;
            struct pair_block pair;
            int j = 0;
            pair_decode(c, w, partner, b0 + i, &pair, scales, mins);
#define PAIR_ADD(m)                                                                                \
    pair_add_memory(args, &pair, at + j, start + (place + j) * spans,                              \
                    offset + (place + j) * spans, sums, j, m, c->span, c->offsets)
            for (; j + PAIR_TOKENS <= n; j += PAIR_TOKENS) PAIR_ADD(PAIR_TOKENS);
            if (n - j == 3) PAIR_ADD(3);
            if (n - j == 2) PAIR_ADD(2);
            if (n - j == 1) PAIR_ADD(1);
#undef PAIR_ADD
        }
    }
}

// Columns of one group decoded for many tokens.
struct panel {
    _Alignas(64) uint8_t q[PANEL_BLOCKS][QUADS][PACK_VECTOR];
    _Alignas(64) float scale[PANEL_BLOCKS][2][MATMUL_GROUP], min[PANEL_BLOCKS][2][MATMUL_GROUP];
};

// The codes less `minus`.
INLINE void panel_decode(const struct codec *c, const uint8_t *w, int64_t first, int count,
                         const int minus, struct panel *panel) {
    for (int i = 0; i < count; i++) {
        const int64_t b = first + i;
        const uint8_t *unit = w + b / c->unit_blocks * c->unit_bytes;
        const int block = (int)(b % c->unit_blocks);
        __m512i q[QUADS];
        __m512 scale[2], min[2];
        prefetch(w + b * (c->unit_bytes / c->unit_blocks), c->unit_bytes / c->unit_blocks,
                 MATMUL_TILE);
        c->codes(unit, block, q);
        for (int j = 0; j < QUADS; j++) {
            if (minus) q[j] = _mm512_sub_epi8(q[j], _mm512_set1_epi8((char)minus));
            _mm512_store_si512(panel->q[i][j], q[j]);
        }
        c->scales(unit, block, scale);
        if (c->offsets) c->mins(unit, block, min);
        for (int s = 0; s < 32 / c->span; s++) {
            _mm512_store_ps(panel->scale[i][s], scale[s]);
            if (c->offsets) _mm512_store_ps(panel->min[i][s], min[s]);
        }
    }
}

// Blocks [first, first + count) of the group that begins at w.
typedef void (*panel_decode_fn)(const uint8_t *w, int64_t first, int count, struct panel *panel);

// A format for products over panels of signed bytes (matmul_amx.c).
struct panel_format {
    const struct codec *codec;
    panel_decode_fn decode;
};
#define X(id, name, layout) extern const struct panel_format matmul_##name##_panel;
MATMUL_BLOCKS(X)
#undef X

// matmul_panel_avx512.c: the product over decoded panels, which is the same for all formats.
void matmul_panel_avx512(const struct matmul_args *args, int64_t group_begin, int64_t group_end,
                         int64_t group_bytes, int span, int zero, bool offsets,
                         panel_decode_fn decode);

// The functions of a format, from codec_<name> and the layout's name.
#define MATMUL_BLOCK(name, layout)                                                                 \
    TILE_BLOCK(name, 1)                                                                            \
    TILE_BLOCK(name, 2)                                                                            \
    TILE_BLOCK(name, 3)                                                                            \
    TILE_BLOCK(name, 4)                                                                            \
    TILE_BLOCK(name, 5)                                                                            \
    TILE_BLOCK(name, 6)                                                                            \
    TILE_BLOCK(name, 7)                                                                            \
    TILE_BLOCK(name, 8)                                                                            \
    TILE_BLOCK(name, 16)                                                                           \
    static void name##_pair(const struct matmul_args *args, const uint8_t *w, int64_t partner,     \
                            int token, int n, float(*sums)[MATMUL_TILE][MATMUL_GROUP]) {           \
        pair_tile(&codec_##name, args, w, partner, token, n, sums);                                \
    }                                                                                              \
    void matmul_##name##_avx512(const struct matmul_args *args, int64_t group_begin,               \
                                int64_t group_end) {                                               \
        static const tile_fn tiles[8] = {name##_tile_1, name##_tile_2, name##_tile_3,              \
                                         name##_tile_4, name##_tile_5, name##_tile_6,              \
                                         name##_tile_7, name##_tile_8};                            \
        tiles_run_avx512(args, group_begin, group_end, matmul_group_bytes_##layout(args->cols),    \
                         tiles, name##_tile_16, name##_pair);                                      \
    }                                                                                              \
    static void name##_decode(const uint8_t *w, int64_t first, int count, struct panel *panel) {   \
        panel_decode(&codec_##name, w, first, count, 0, panel);                                    \
    }                                                                                              \
    static void name##_decode_signed(const uint8_t *w, int64_t first, int count,                   \
                                     struct panel *panel) {                                        \
        panel_decode(&codec_##name, w, first, count, codec_##name.zero, panel);                    \
    }                                                                                              \
    const struct panel_format matmul_##name##_panel = {&codec_##name, name##_decode_signed};       \
    void matmul_##name##_panel_avx512(const struct matmul_args *args, int64_t group_begin,         \
                                      int64_t group_end) {                                         \
        if (args->n < PANEL_LEAST) {                                                               \
            matmul_##name##_avx512(args, group_begin, group_end);                                  \
            return;                                                                                \
        }                                                                                          \
        matmul_panel_avx512(args, group_begin, group_end, matmul_group_bytes_##layout(args->cols), \
                            codec_##name.span, codec_##name.zero, codec_##name.offsets,            \
                            name##_decode);                                                        \
    }

// Two groups, n tokens of a tile; the second group is `partner` bytes after the first.
typedef void (*pair_fn)(const struct matmul_args *args, const uint8_t *w, int64_t partner,
                        int token, int n, float (*sums)[MATMUL_TILE][MATMUL_GROUP]);

// Whole tiles of 16 tokens and those of up to 8 by a group at a time, others by two: so few tokens
// would need two tiles, and the weights to be decoded twice. A last group alone is its own partner,
// whose sums are not stored.
static inline void tiles_run_avx512(const struct matmul_args *args, int64_t group_begin,
                                    int64_t group_end, int64_t group_bytes, const tile_fn *tiles,
                                    tile_fn tile_16, pair_fn pair) {
    for (int64_t g = group_begin; g < group_end; g += 2) {
        const uint8_t *w = (const uint8_t *)args->w + g * group_bytes;
        const int groups = g + 1 < group_end ? 2 : 1;
        for (int token = 0; token < args->n; token += MATMUL_TILE) {
            const int n = args->n - token < MATMUL_TILE ? args->n - token : MATMUL_TILE;
            if (n > TILE_MAX && n < MATMUL_TILE) {
                _Alignas(64) float sums[2][MATMUL_TILE][MATMUL_GROUP] = {0};
                pair(args, w, groups == 2 ? group_bytes : 0, token, n, sums);
                sums_store(args, sums[0][0], MATMUL_TILE * MATMUL_GROUP, g, groups, token, n);
                continue;
            }
            for (int i = 0; i < groups; i++)
                (n == MATMUL_TILE ? tile_16 : tiles[n - 1])(args, w + i * group_bytes,
                                                            (g + i) * MATMUL_GROUP, token);
        }
    }
}

#endif

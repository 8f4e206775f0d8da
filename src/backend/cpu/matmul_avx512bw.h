// The kernels of block formats for AVX-512 without VNNI, as one template. The codecs, and the loops
// of one token, are those of matmul_avx512.h; bytes are multiplied by vpmaddubsw. It sums two
// products in 16 bits and saturates, and |xq| <= 127. Sums of as many quads as fit are added in 16
// bits, and vpmaddwd widens them once:
//   4 bits: 16 columns of at most 15 * 127 are 30480, the whole span;
//   5 bits: 8 of 31 * 127 are 31496, half of a span of 32;
//   6 bits: 4 of 63 * 127 are 32004, half of a span of 16.
// A code of 8 bits is its magnitude, and its sign goes to xq: 2 * 128 * 127 fit, and are widened at
// once. Such a sum starts at 0, others at -zero * sum(xq).
//
// Instructions of 512 bits for a block of 16 rows and 32 columns and one token, and the multiplies
// among them. Skylake's servers start two of any kind in a cycle, Zen 5 four with two multiplies:
//   Q4_0 20, 11; Q4_1, Q4_K 20, 12; Q5_0, MXFP4 21, 12; Q5_1, Q5_K 21, 13; Q3_K 24, 14;
//   Q2_K 24, 16; Q6_K 26, 16; Q8_0, IQ4 34, 18
// Zen 5 takes 15 to 25% more than the bound with 512 tokens (docs/benchmarks/cpu.md).
#ifndef RN_BACKEND_CPU_MATMUL_AVX512BW_H
#define RN_BACKEND_CPU_MATMUL_AVX512BW_H

#include "backend/cpu/matmul_base_avx512.h"

#define MATMUL_SUFFIX avx512bw

enum {
    TURNS = 1,        // tokens whose integer sums take turns
    PANEL_LEAST = 96, // tokens that pay for a panel
    // Blocks of a row whose starts, two for each, fit the scratch in whole vectors.
    ONE_BLOCKS = MATMUL_SCRATCH_BYTES / 8 - 16,
};

// Without it gcc adds in another order, which wants more registers than there are.
#define IN_ORDER(sum) __asm__("" : "+v"(sum))

// Quads whose products fit a sum of 16 bits.
INLINE int quads_fit(const int span, const int bits) {
    const int fit = bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
    return fit < span / 4 ? fit : span / 4;
}

// Four bytes in every lane.
INLINE __m512i broadcast4(const int8_t *x) { return _mm512_set1_epi32(word_at(x)); }

// The same with the signs of codes whose magnitudes they meet.
INLINE __m512i signs_give(__m512i x, __mmask64 negative) {
    return _mm512_mask_sub_epi8(x, negative, _mm512_setzero_si512(), x);
}

INLINE __m512i pairs_widen(__m512i pairs) { return _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)); }

// q + 128 to the magnitude of q, and where q is negative.
INLINE __m512i magnitudes(__m512i q, __mmask64 *negative) {
    q = _mm512_xor_si512(q, _mm512_set1_epi8((char)0x80));
    *negative = _mm512_movepi8_mask(q);
    return _mm512_abs_epi8(q);
}

// ---------------------------------------------------------------- one token

INLINE void one_codes(const struct codec *c, const uint8_t *unit, int block, __m512i *q) {
    c->codes(unit, block, q);
}

// As in matmul_avx512.h: the sum of a span of one token.
INLINE __m512i one_dot(const struct codec *c, const int32_t *start, const __m512i *q,
                       const int8_t *x) {
    const int quads = c->span / 4, fit = quads_fit(c->span, c->bits);
    __m512i sum = c->offsets || c->bits == 8 ? _mm512_setzero_si512() : _mm512_set1_epi32(*start);
    for (int i = 0; i < quads; i += fit) {
        __m512i pairs = _mm512_setzero_si512();
        for (int k = i; k < i + fit; k++) {
            __m512i code = q[k], four = broadcast4(x + 4 * k);
            __mmask64 negative;
            if (c->bits == 8) code = magnitudes(code, &negative), four = signs_give(four, negative);
            pairs = _mm512_add_epi16(pairs, _mm512_maddubs_epi16(code, four));
        }
        sum = _mm512_add_epi32(sum, pairs_widen(pairs));
    }
    return sum;
}

// ---------------------------------------------------------------- few tokens

// As in matmul_avx512.h: a block onto acc of n neighbouring tokens.
INLINE void block_add(const struct codec *c, __m512 *acc, const __m512i *q, const __m512 *scale,
                      const __m512 *min, const int8_t *xq, const float *d, const int32_t *start,
                      const float *offset, const int n) {
    const int spans = 32 / c->span;
    for (int j = 0; j < n; j++) {
        for (int s = 0; s < spans; s++) {
            const int at = j * spans + s;
            const __m512i sum =
                one_dot(c, start + at, q + s * (c->span / 4), xq + 32 * j + s * c->span);
            const __m512 product = _mm512_mul_ps(scale[s], _mm512_set1_ps(d[j]));
            acc[j] = fma_onto(acc[j], _mm512_cvtepi32_ps(sum), product);
            if (c->offsets) acc[j] = _mm512_fmadd_ps(min[s], _mm512_set1_ps(offset[at]), acc[j]);
        }
    }
}

#include "backend/cpu/matmul_tiles_avx512.h"

// ---------------------------------------------------------------- panels

// Columns of one group decoded for some tokens.
struct panel {
    _Alignas(64) uint8_t q[PANEL_BLOCKS][QUADS][PACK_VECTOR]; // of 8 bits: magnitudes
    _Alignas(64) float scale[PANEL_BLOCKS][2][MATMUL_GROUP], min[PANEL_BLOCKS][2][MATMUL_GROUP];
    __mmask64 negative[PANEL_BLOCKS][QUADS]; // of codes of 8 bits
};

// Blocks [first, first + count) of the group that begins at w.
INLINE void panel_decode(const struct codec *c, const uint8_t *w, int64_t first, int count,
                         struct panel *panel) {
    const int bytes = c->unit_bytes / c->unit_blocks;
    for (int i = 0; i < count; i++) {
        const int64_t b = first + i;
        const uint8_t *unit = w + b / c->unit_blocks * c->unit_bytes;
        const int block = (int)(b % c->unit_blocks);
        __m512i q[QUADS];
        __m512 scale[2], min[2];
        prefetch(w + b * bytes, bytes, MATMUL_TILE);
        c->codes(unit, block, q);
        for (int k = 0; k < QUADS; k++) {
            if (c->bits == 8) q[k] = magnitudes(q[k], &panel->negative[i][k]);
            _mm512_store_si512(panel->q[i][k], q[k]);
        }
        c->scales(unit, block, scale);
        if (c->offsets) c->mins(unit, block, min);
        for (int s = 0; s < 32 / c->span; s++) {
            _mm512_store_ps(panel->scale[i][s], scale[s]);
            if (c->offsets) _mm512_store_ps(panel->min[i][s], min[s]);
        }
    }
}

typedef void (*panel_decode_fn)(const uint8_t *w, int64_t first, int count, struct panel *panel);

// matmul_panel_avx512bw.c: the product over decoded panels, which is the same for all formats.
void matmul_panel_avx512bw(const struct matmul_args *args, int64_t group_begin, int64_t group_end,
                           int64_t group_bytes, const struct codec *codec, panel_decode_fn decode);

// ---------------------------------------------------------------- the functions of a format

// A tile of the activations is one of 16 tokens, one of up to 8, or two of nearly equal size.
static inline void tiles_run_avx512bw(const struct matmul_args *args, int64_t group_begin,
                                      int64_t group_end, int64_t group_bytes, const tile_fn *tiles,
                                      tile_fn tile_16) {
    for (int64_t g = group_begin; g < group_end; g++) {
        const uint8_t *w = (const uint8_t *)args->w + g * group_bytes;
        int token = 0;
        for (; args->n - token >= MATMUL_TILE; token += MATMUL_TILE)
            tile_16(args, w, g * MATMUL_GROUP, token);
        const int left = args->n - token, first = left > TILE_MAX ? (left + 1) / 2 : left;
        if (first > 0) tiles[first - 1](args, w, g * MATMUL_GROUP, token);
        if (first < left) tiles[left - first - 1](args, w, g * MATMUL_GROUP, token + first);
    }
}

// From codec_<name> and the layout's name.
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
    void matmul_##name##_avx512bw(const struct matmul_args *args, int64_t group_begin,             \
                                  int64_t group_end) {                                             \
        static const tile_fn tiles[TILE_MAX] = {name##_tile_1, name##_tile_2, name##_tile_3,       \
                                                name##_tile_4, name##_tile_5, name##_tile_6,       \
                                                name##_tile_7, name##_tile_8};                     \
        tiles_run_avx512bw(args, group_begin, group_end, matmul_group_bytes_##layout(args->cols),  \
                           tiles, name##_tile_16);                                                 \
    }                                                                                              \
    static void name##_decode(const uint8_t *w, int64_t first, int count, struct panel *panel) {   \
        panel_decode(&codec_##name, w, first, count, panel);                                       \
    }                                                                                              \
    void matmul_##name##_panel_avx512bw(const struct matmul_args *args, int64_t group_begin,       \
                                        int64_t group_end) {                                       \
        if (args->n < PANEL_LEAST) {                                                               \
            matmul_##name##_avx512bw(args, group_begin, group_end);                                \
            return;                                                                                \
        }                                                                                          \
        matmul_panel_avx512bw(args, group_begin, group_end,                                        \
                              matmul_group_bytes_##layout(args->cols), &codec_##name,              \
                              name##_decode);                                                      \
    }

#endif

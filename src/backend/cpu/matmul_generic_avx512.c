// Matrix products with AVX-512 (F, BW, VL, DQ, VNNI) on the generic layout (matmul_generic.h), one
// kernel per shape. As in matmul_avx512.c: a lane is a row, a tile is up to 8 tokens, codes become
// q + 128 once per tile, and the surplus 128 * sum(xq) is taken off through the activations' sums.
// Measured on two Zen 4 cores with 37 GB/s of memory: one token 31 to 35 GB/s, 8 tokens 150 (Q2_K),
// 170 (Q5_K) to 260 (IQ4_XS) GMAC/s.
#if defined(__x86_64__)

#include "backend/cpu/matmul_avx512.h"
#include "backend/cpu/matmul_generic.h"
#include "backend/cpu/matmul_table.h"

// The quads of a span as q + 128.
INLINE void codes_load(const uint8_t *w, __m512i header, const int bits, const int quads,
                       __m512i *q) {
    const __m512i low = _mm512_set1_epi8(15), fifth = _mm512_set1_epi8(16);
    for (int i = 0; i < quads / 2; i++) {
        const __m512i v = load(w + PACK_VECTOR * i);
        q[i] = _mm512_and_si512(v, low);
        q[i + quads / 2] = _mm512_and_si512(_mm512_srli_epi16(v, 4), low);
    }
    if (bits == 4) {
        for (int i = 0; i < quads; i++) q[i] = _mm512_shuffle_epi8(header, q[i]);
        return;
    }
    const __m512i plane = load(w + PACK_VECTOR * (quads / 2));
    for (int i = 0; i < quads; i++) {
        // bit i of each byte to bit 4
        const __m512i bit =
            i < 4 ? _mm512_slli_epi16(plane, 4 - i) : _mm512_srli_epi16(plane, i - 4);
        // a | (b & c) in one instruction
        q[i] = _mm512_add_epi8(_mm512_ternarylogic_epi32(q[i], bit, fifth, 0xf8), header);
    }
}

INLINE void tile_generic(const struct matmul_args *args, const uint8_t *w, int64_t row, int token,
                         const int n, const int bits, const int span, const int offsets) {
    const struct tile t = tile_at(args, token);
    const int quads = span / 4, lines = generic_lines(bits, span, offsets);
    const __m512i header = load(w);
    // The sums of a span among the pair that a block of activations has: both, or one of them.
    const __m512i both = _mm512_set1_epi16(1);
    const __m512i part[2] = {span == 32 ? both : _mm512_set1_epi32(1), _mm512_set1_epi32(65536)};
    const __m512i minus_128 = _mm512_set1_epi16(-128);
    __m512 acc[TILE_MAX];
    UNROLL for (int j = 0; j < n; j++) acc[j] = _mm512_setzero_ps();
    w += PACK_VECTOR;
    for (int64_t b = 0; b < t.blocks; b++) {
        for (int half = 0; half < 32 / span; half++, w += PACK_VECTOR * lines) {
            __m512i q[8];
            prefetch(w, lines, n);
            codes_load(w + PACK_VECTOR * generic_codes_at(offsets), header, bits, quads, q);
            const __m512 scale = _mm512_loadu_ps(w), offset = _mm512_loadu_ps(w + PACK_VECTOR);
            const __m512i surplus = _mm512_mullo_epi16(part[half], minus_128);
            UNROLL for (int j = 0; j < n; j++) {
                const __m512i sums = broadcast4(tile_xsum(&t, j, b));
                __m512i sum =
                    dot(_mm512_setzero_si512(), q, tile_xq(&t, j, b) + span * half, quads);
                sum = _mm512_dpwssd_epi32(sum, surplus, sums);
                acc[j] = accumulate(acc[j], sum, scale, tile_xd(&t, j, b));
                if (!offsets) continue;
                const __m512i total = _mm512_dpwssd_epi32(_mm512_setzero_si512(), part[half], sums);
                const __m512 d = _mm512_set1_ps(*tile_xd(&t, j, b));
                acc[j] =
                    _mm512_fmadd_ps(offset, _mm512_mul_ps(d, _mm512_cvtepi32_ps(total)), acc[j]);
            }
        }
    }
    UNROLL for (int j = 0; j < n; j++) rows_store(args, acc[j], row, token + j);
}

#define TILE(name, n, bits, span, offsets)                                                         \
    static void name##_##n(const struct matmul_args *args, const uint8_t *w, int64_t row,          \
                           int token) {                                                            \
        tile_generic(args, w, row, token, n, bits, span, offsets);                                 \
    }

#define MATMUL(name, bits, span, offsets)                                                          \
    TILE(name, 1, bits, span, offsets)                                                             \
    TILE(name, 2, bits, span, offsets)                                                             \
    TILE(name, 3, bits, span, offsets)                                                             \
    TILE(name, 4, bits, span, offsets)                                                             \
    TILE(name, 5, bits, span, offsets)                                                             \
    TILE(name, 6, bits, span, offsets)                                                             \
    TILE(name, 7, bits, span, offsets)                                                             \
    TILE(name, 8, bits, span, offsets)                                                             \
    void matmul_##name##_avx512(const struct matmul_args *args, int64_t group_begin,               \
                                int64_t group_end) {                                               \
        static const tile_fn tiles[TILE_MAX] = {name##_1, name##_2, name##_3, name##_4,            \
                                                name##_5, name##_6, name##_7, name##_8};           \
        const int64_t bytes = generic_group_bytes(bits, span, offsets, args->cols);                \
        for (int64_t g = group_begin; g < group_end; g++) {                                        \
            tiles_run(args, (const uint8_t *)args->w + g * bytes, g * MATMUL_GROUP, tiles,         \
                      TILE_MAX);                                                                   \
        }                                                                                          \
    }

GENERIC_SHAPES(MATMUL)

#endif

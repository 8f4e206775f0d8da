// Matrix products with AVX2 and FMA on the generic layout (matmul_generic.h), one kernel per shape.
// As in matmul_avx2.c a group is two registers and a tile is up to 4 tokens. q is kept signed: the
// product of a quad is |q| times xq with q's sign, 2 * 128 * 127 at most in 16 bits. Measured
// as there: one token 16 (Q5_0) to 32 GB/s, 8 tokens 85 to 107 GMAC/s.
#if defined(__x86_64__)

#include "backend/cpu/matmul_avx2.h"
#include "backend/cpu/matmul_generic.h"
#include "backend/cpu/matmul_table.h"

// Adds the product of one quad of q with every token of the tile; `at`: its first column in block
// b.
INLINE void quad_add(__m256i q, const struct tile *t, int64_t b, int at, const int n,
                     __m256i *dot) {
    const __m256i magnitude = _mm256_abs_epi8(q);
    UNROLL for (int j = 0; j < n; j++) {
        const __m256i x = _mm256_sign_epi8(broadcast4(tile_xq(t, j, b) + at), q);
        dot[j] = _mm256_add_epi32(dot[j], widen(_mm256_maddubs_epi16(magnitude, x)));
    }
}

// A span of half of the rows, from its column `at` of block b on. header: the levels as q.
INLINE void dot_codes(const uint8_t *w, __m256i header, const struct tile *t, int64_t b, int at,
                      const int bits, const int quads, const int n, __m256i *dot) {
    const __m256i mask = _mm256_set1_epi8(15), fifth = _mm256_set1_epi8(16);
    __m256i plane = bits == 5 ? load(w + PACK_VECTOR * (quads / 2)) : _mm256_setzero_si256();
    UNROLL for (int j = 0; j < n; j++) dot[j] = _mm256_setzero_si256();
    ROLLED for (int i = 0; i < quads / 2; i++) {
        const __m256i v = load(w + PACK_VECTOR * i);
        __m256i low = _mm256_and_si256(v, mask);
        __m256i high = _mm256_and_si256(_mm256_srli_epi16(v, 4), mask);
        if (bits == 4) {
            low = _mm256_shuffle_epi8(header, low);
            high = _mm256_shuffle_epi8(header, high);
        } else { // bits i and i + 4 of the plane, now at 0 and 4
            const __m256i first = _mm256_and_si256(_mm256_slli_epi16(plane, 4), fifth);
            low = _mm256_add_epi8(_mm256_or_si256(low, first), header);
            high = _mm256_add_epi8(_mm256_or_si256(high, _mm256_and_si256(plane, fifth)), header);
            plane = _mm256_srli_epi16(plane, 1);
        }
        quad_add(low, t, b, at + 4 * i, n, dot);
        quad_add(high, t, b, at + 4 * i + 2 * quads, n, dot);
    }
}

INLINE void tile_generic(const struct matmul_args *args, const uint8_t *w, int64_t row, int token,
                         const int n, const int bits, const int span, const int offsets) {
    const struct tile t = tile_at(args, token);
    const int lines = generic_lines(bits, span, offsets);
    const __m256i header = _mm256_xor_si256(load(w), _mm256_set1_epi8(-128));
    // The sums of a span among the pair that a block of activations has: both, or one of them.
    const __m256i part[2] = {span == 32 ? _mm256_set1_epi16(1) : _mm256_set1_epi32(1),
                             _mm256_set1_epi32(65536)};
    __m256 acc[HALVES][TILE_MAX];
    tile_clear(acc, n);
    w += PACK_VECTOR;
    for (int64_t b = 0; b < t.blocks; b++) {
        for (int s = 0; s < 32 / span; s++, w += PACK_VECTOR * lines) {
            prefetch(w, lines, n);
            ROLLED for (int h = 0; h < HALVES; h++) {
                const uint8_t *rows = w + PACK_VECTOR / 2 * h;
                __m256i dot[TILE_MAX];
                dot_codes(rows + PACK_VECTOR * generic_codes_at(offsets), header, &t, b, span * s,
                          bits, span / 4, n, dot);
                const __m256 scale = _mm256_loadu_ps((const float *)rows);
                UNROLL for (int j = 0; j < n; j++) {
                    acc[h][j] = accumulate(acc[h][j], dot[j], scale, tile_xd(&t, j, b));
                    if (!offsets) continue;
                    const __m256 offset = _mm256_loadu_ps((const float *)(rows + PACK_VECTOR));
                    const __m256i sum = _mm256_madd_epi16(broadcast4(tile_xsum(&t, j, b)), part[s]);
                    const __m256 d = _mm256_set1_ps(*tile_xd(&t, j, b));
                    acc[h][j] = _mm256_fmadd_ps(offset, _mm256_mul_ps(d, _mm256_cvtepi32_ps(sum)),
                                                acc[h][j]);
                }
            }
        }
    }
    tile_store(args, acc, row, token, n);
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
    void matmul_##name##_avx2(const struct matmul_args *args, int64_t group_begin,                 \
                              int64_t group_end) {                                                 \
        static const tile_fn tiles[TILE_MAX] = {name##_1, name##_2, name##_3, name##_4};           \
        const int64_t bytes = generic_group_bytes(bits, span, offsets, args->cols);                \
        for (int64_t g = group_begin; g < group_end; g++) {                                        \
            tiles_run(args, (const uint8_t *)args->w + g * bytes, g * MATMUL_GROUP, tiles,         \
                      TILE_MAX);                                                                   \
        }                                                                                          \
    }

GENERIC_SHAPES(MATMUL)

#endif

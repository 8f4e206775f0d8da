// Matrix products with AVX2, FMA and F16C. As in matmul_avx512.c a lane is a row, but a group of 16
// is two registers, and a tile is up to 4 tokens. Packed layouts: matmul_pack.c. Reached through
// matmul_table.c.
//
// There is no 32-bit dot product: vpmaddubsw sums two products in 16 bits and saturates, so each
// format keeps within them. |xq| <= 127. 4-bit weights: all 8 quads, 8 * 2 * 15 * 127 = 30480.
// 6-bit: two quads, 2 * 2 * 63 * 127 = 32004. 8-bit: one quad of |q| <= 128 against xq with q's
// sign, 2 * 128 * 127 = 32512. The surplus of unsigned weights is taken off through xsum.
#if defined(__x86_64__)

#include "backend/cpu/matmul_avx2.h"
#include "backend/cpu/matmul_table.h"

INLINE __m256 load_f16(const uint8_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

// 8 scales of 8 bits, times 8 floats.
INLINE __m256 scale_u8(const uint8_t *p, __m256 d) {
    const __m256i scale = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(scale));
}

INLINE __m256 scale_i8(const uint8_t *p, __m256 d) {
    const __m256i scale = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(scale));
}

// --- float formats: acc = fmaf(w[k], x[k], acc), k ascending ---

INLINE __m256 weight_f32(const uint8_t *w, int h) {
    return _mm256_loadu_ps((const float *)w + HALF_ROWS * h);
}

INLINE __m256 weight_f16(const uint8_t *w, int h) { return load_f16(w + 16 * h); }

INLINE __m256 weight_bf16(const uint8_t *w, int h) {
    const __m128i bits = _mm_loadu_si128((const __m128i *)(w + 16 * h));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

typedef __m256 (*weight_fn)(const uint8_t *w, int h);

INLINE void tile_float(const struct matmul_args *args, const uint8_t *w, int64_t row, int token,
                       const int n, weight_fn weight, const int column_bytes) {
    const float *x = args->x + token * args->ldx;
    const int64_t ldx = args->ldx, cols = args->cols;
    __m256 acc[HALVES][TILE_MAX];
    tile_clear(acc, n);
    for (int64_t k = 0; k < cols; k++, w += column_bytes) {
        prefetch(w, 1, n);
        const __m256 low = weight(w, 0), high = weight(w, 1);
        UNROLL for (int j = 0; j < n; j++) {
            const __m256 xk = _mm256_set1_ps(x[j * ldx + k]);
            acc[0][j] = _mm256_fmadd_ps(low, xk, acc[0][j]);
            acc[1][j] = _mm256_fmadd_ps(high, xk, acc[1][j]);
        }
    }
    tile_store(args, acc, row, token, n);
}

INLINE void tile_f32(const struct matmul_args *args, const uint8_t *w, int64_t row, int token,
                     const int n) {
    tile_float(args, w, row, token, n, weight_f32, PACK_F32_BYTES);
}

INLINE void tile_f16(const struct matmul_args *args, const uint8_t *w, int64_t row, int token,
                     const int n) {
    tile_float(args, w, row, token, n, weight_f16, PACK_F16_BYTES);
}

INLINE void tile_bf16(const struct matmul_args *args, const uint8_t *w, int64_t row, int token,
                      const int n) {
    tile_float(args, w, row, token, n, weight_bf16, PACK_F16_BYTES);
}

// --- block formats; each dot product is of one half of the rows with every token of the tile ---

// 32 columns of 8 bits.
INLINE void dot_bytes(const uint8_t *w, const struct tile *t, int64_t b, const int n,
                      __m256i *dot) {
    UNROLL for (int j = 0; j < n; j++) dot[j] = _mm256_setzero_si256();
    ROLLED for (int i = 0; i < 8; i++) {
        const __m256i q = _mm256_xor_si256(load(w + PACK_VECTOR * i), _mm256_set1_epi8(-128));
        const __m256i magnitude = _mm256_abs_epi8(q);
        UNROLL for (int j = 0; j < n; j++) {
            const __m256i x = _mm256_sign_epi8(broadcast4(tile_xq(t, j, b) + 4 * i), q);
            dot[j] = _mm256_add_epi32(dot[j], widen(_mm256_maddubs_epi16(magnitude, x)));
        }
    }
}

// 32 columns of 4 bits.
INLINE void dot_nibbles(const uint8_t *w, const struct tile *t, int64_t b, const int n,
                        __m256i *dot) {
    const __m256i mask = _mm256_set1_epi8(15);
    UNROLL for (int j = 0; j < n; j++) dot[j] = _mm256_setzero_si256();
    ROLLED for (int i = 0; i < 4; i++) {
        const __m256i v = load(w + PACK_VECTOR * i);
        const __m256i low = _mm256_and_si256(v, mask);
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(v, 4), mask);
        UNROLL for (int j = 0; j < n; j++) {
            const int8_t *x = tile_xq(t, j, b) + 4 * i;
            dot[j] = _mm256_add_epi16(dot[j], _mm256_maddubs_epi16(low, broadcast4(x)));
            dot[j] = _mm256_add_epi16(dot[j], _mm256_maddubs_epi16(high, broadcast4(x + 16)));
        }
    }
    UNROLL for (int j = 0; j < n; j++) dot[j] = widen(dot[j]);
}

INLINE void tile_q8_0(const struct matmul_args *args, const uint8_t *w, int64_t row, int token,
                      const int n) {
    const struct tile t = tile_at(args, token);
    __m256 acc[HALVES][TILE_MAX];
    tile_clear(acc, n);
    for (int64_t b = 0; b < t.blocks; b++) {
        const struct block block = block_at(w, b, PACK_Q8_0_BYTES, PACK_Q8_0_VECTORS);
        prefetch(block.vectors, PACK_Q8_0_VECTORS + 1, n);
        ROLLED for (int h = 0; h < HALVES; h++) {
            __m256i dot[TILE_MAX];
            dot_bytes(block.vectors + PACK_VECTOR / 2 * h, &t, b, n, dot);
            const __m256 scale = load_f16(block.scale + MATMUL_GROUP * h);
            UNROLL for (int j = 0; j < n; j++) {
                acc[h][j] = accumulate(acc[h][j], dot[j], scale, tile_xd(&t, j, b));
            }
        }
    }
    tile_store(args, acc, row, token, n);
}

INLINE void tile_q4_0(const struct matmul_args *args, const uint8_t *w, int64_t row, int token,
                      const int n) {
    const struct tile t = tile_at(args, token);
    const __m256i zero = _mm256_set1_epi16(-8);
    __m256 acc[HALVES][TILE_MAX];
    tile_clear(acc, n);
    for (int64_t b = 0; b < t.blocks; b++) {
        const struct block block = block_at(w, b, PACK_Q4_0_BYTES, PACK_Q4_0_VECTORS);
        prefetch(block.vectors, PACK_Q4_0_VECTORS + 1, n);
        ROLLED for (int h = 0; h < HALVES; h++) {
            __m256i dot[TILE_MAX];
            dot_nibbles(block.vectors + PACK_VECTOR / 2 * h, &t, b, n, dot);
            const __m256 scale = load_f16(block.scale + MATMUL_GROUP * h);
            UNROLL for (int j = 0; j < n; j++) {
                const __m256i surplus = _mm256_madd_epi16(broadcast4(tile_xsum(&t, j, b)), zero);
                acc[h][j] = accumulate(acc[h][j], _mm256_add_epi32(dot[j], surplus), scale,
                                       tile_xd(&t, j, b));
            }
        }
    }
    tile_store(args, acc, row, token, n);
}

// d * (float)sum of the 8 spans of a superblock, for each token of the tile.
INLINE void offsets_q4_k(const struct tile *t, int64_t b, const int n, float (*out)[8]) {
    UNROLL for (int j = 0; j < n; j++) {
        const __m256i sum = widen(_mm256_loadu_si256((const void *)tile_xsum(t, j, b)));
        const __m256 d = _mm256_loadu_ps(tile_xd(t, j, b));
        _mm256_storeu_ps(out[j], _mm256_mul_ps(d, _mm256_cvtepi32_ps(sum)));
    }
}

INLINE void tile_q4_k(const struct matmul_args *args, const uint8_t *w, int64_t row, int token,
                      const int n) {
    const struct tile t = tile_at(args, token);
    __m256 acc[HALVES][TILE_MAX];
    tile_clear(acc, n);
    for (int64_t b = 0; b < t.blocks; b += 8, w += PACK_Q4_K_BYTES) {
        float offsets[TILE_MAX][8];
        offsets_q4_k(&t, b, n, offsets);
        prefetch(w, 5, n);
        for (int span = 0; span < 8; span++) {
            const uint8_t *vectors = w + PACK_Q4_K_QUANT + 4 * PACK_VECTOR * span;
            prefetch(vectors, 4, n);
            ROLLED for (int h = 0; h < HALVES; h++) {
                __m256i dot[TILE_MAX];
                dot_nibbles(vectors + PACK_VECTOR / 2 * h, &t, b + span, n, dot);
                const uint8_t *scales = w + MATMUL_GROUP * span + HALF_ROWS * h;
                const __m256 d = load_f16(w + MATMUL_GROUP * h);
                const __m256 dmin = load_f16(w + PACK_Q4_K_DMIN + MATMUL_GROUP * h);
                const __m256 scale = scale_u8(scales + PACK_Q4_K_SCALE, d);
                const __m256 min = scale_u8(scales + PACK_Q4_K_MIN, dmin);
                UNROLL for (int j = 0; j < n; j++) {
                    acc[h][j] = accumulate(acc[h][j], dot[j], scale, tile_xd(&t, j, b + span));
                    acc[h][j] = _mm256_fnmadd_ps(min, _mm256_set1_ps(offsets[j][span]), acc[h][j]);
                }
            }
        }
    }
    tile_store(args, acc, row, token, n);
}

// Quads 0..3 of 16 columns from 2 vectors of nibbles and one of upper bits.
INLINE void six_bits_load(const uint8_t *w, __m256i *q) {
    const __m256i low = _mm256_set1_epi8(15), high = _mm256_set1_epi8(0x30);
    const __m256i v0 = load(w), v1 = load(w + PACK_VECTOR), v2 = load(w + 2 * PACK_VECTOR);
    const __m256i nibble[4] = {v0, v1, _mm256_srli_epi16(v0, 4), _mm256_srli_epi16(v1, 4)};
    const __m256i upper[4] = {_mm256_slli_epi16(v2, 4), _mm256_slli_epi16(v2, 2), v2,
                              _mm256_srli_epi16(v2, 2)};
    for (int i = 0; i < 4; i++) {
        q[i] = _mm256_or_si256(_mm256_and_si256(nibble[i], low), _mm256_and_si256(upper[i], high));
    }
}

// 16 columns of 6 bits, unsigned, with the 4 quads of x.
INLINE __m256i dot_six_bits(const __m256i *q, const __m256i *x) {
    const __m256i first =
        _mm256_add_epi16(_mm256_maddubs_epi16(q[0], x[0]), _mm256_maddubs_epi16(q[1], x[1]));
    const __m256i second =
        _mm256_add_epi16(_mm256_maddubs_epi16(q[2], x[2]), _mm256_maddubs_epi16(q[3], x[3]));
    return _mm256_add_epi32(widen(first), widen(second));
}

// One span of a superblock; `odd` says which half of its 32-block b it is. The halves of the rows
// are the inner loop, unlike above: a span's weights fit the registers, so x is loaded once.
INLINE void span_q6_k(const struct tile *t, const uint8_t *w, int64_t b, int span, const int odd,
                      const int n, __m256 acc[HALVES][TILE_MAX]) {
    const __m256i zero = _mm256_set1_epi32(odd ? -32 * 65536 : -32 & 0xffff);
    const uint8_t *vectors = w + PACK_Q6_K_QUANT + 3 * PACK_VECTOR * span;
    const uint8_t *scales = w + PACK_Q6_K_SCALE + MATMUL_GROUP * span;
    __m256i q[HALVES][4];
    __m256 scale[HALVES];
    prefetch(vectors, 3, n);
    for (int h = 0; h < HALVES; h++) {
        six_bits_load(vectors + PACK_VECTOR / 2 * h, q[h]);
        scale[h] = scale_i8(scales + HALF_ROWS * h, load_f16(w + MATMUL_GROUP * h));
    }
    UNROLL for (int j = 0; j < n; j++) {
        __m256i x[4];
        for (int i = 0; i < 4; i++) x[i] = broadcast4(tile_xq(t, j, b) + 16 * odd + 4 * i);
        const __m256i surplus = _mm256_madd_epi16(broadcast4(tile_xsum(t, j, b)), zero);
        for (int h = 0; h < HALVES; h++) {
            const __m256i dot = _mm256_add_epi32(dot_six_bits(q[h], x), surplus);
            acc[h][j] = accumulate(acc[h][j], dot, scale[h], tile_xd(t, j, b));
        }
    }
}

INLINE void tile_q6_k(const struct matmul_args *args, const uint8_t *w, int64_t row, int token,
                      const int n) {
    const struct tile t = tile_at(args, token);
    __m256 acc[HALVES][TILE_MAX];
    tile_clear(acc, n);
    for (int64_t b = 0; b < t.blocks; b += 8, w += PACK_Q6_K_BYTES) {
        prefetch(w, 5, n);
        for (int i = 0; i < 8; i++) {
            span_q6_k(&t, w, b + i, 2 * i, 0, n, acc);
            span_q6_k(&t, w, b + i, 2 * i + 1, 1, n, acc);
        }
    }
    tile_store(args, acc, row, token, n);
}

#define TILE(name, n)                                                                              \
    static void name##_##n(const struct matmul_args *args, const uint8_t *w, int64_t row,          \
                           int token) {                                                            \
        tile_##name(args, w, row, token, n);                                                       \
    }

#define MATMUL(name, size)                                                                         \
    TILE(name, 1)                                                                                  \
    TILE(name, 2)                                                                                  \
    TILE(name, 3)                                                                                  \
    TILE(name, 4)                                                                                  \
    void matmul_##name##_avx2(const struct matmul_args *args, int64_t group_begin,                 \
                              int64_t group_end) {                                                 \
        static const tile_fn tiles[TILE_MAX] = {name##_1, name##_2, name##_3, name##_4};           \
        const int64_t bytes = matmul_group_bytes_##size(args->cols);                               \
        for (int64_t g = group_begin; g < group_end; g++) {                                        \
            tiles_run(args, (const uint8_t *)args->w + g * bytes, g * MATMUL_GROUP, tiles,         \
                      TILE_MAX);                                                                   \
        }                                                                                          \
    }

MATMUL(f32, f32)
MATMUL(f16, f16)
MATMUL(bf16, f16)
MATMUL(q8_0, q8_0)
MATMUL(q4_0, q4_0)
MATMUL(q4_k, q4_k)
MATMUL(q6_k, q6_k)

#endif

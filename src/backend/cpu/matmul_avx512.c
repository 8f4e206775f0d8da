// Matrix products with AVX-512 (F, BW, VL, DQ, VNNI). A lane is a row of the group; a tile is up to
// 8 tokens over one group (float formats: one or two groups), and a weight is decoded once per
// tile. Integer sums are exact, so only the float operations after them are ordered: per lane they
// are matmul_reference()'s. Packed layouts: matmul_pack.c. Reached through matmul_table.c.
//
// Weights are unsigned for vpdpbusd (q + zero); the surplus zero * sum(xq) is taken off by one
// vpdpwssd on the pair of 16-element sums that the activations carry. Measured on two Zen 4 cores
// with 37 GB/s of memory: one token 35 to 37 GB/s, 8 tokens 210 (Q6_K) to 300 (Q4_0) GMAC/s.
#if defined(__x86_64__)

#include "backend/cpu/matmul_avx512.h"
#include "backend/cpu/matmul_table.h"

enum { PAIR_MAX = 4 };

INLINE __m512 load_f16(const uint8_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

// 16 scales of 8 bits, times 16 floats.
INLINE __m512 scale_u8(const uint8_t *p, __m512 d) {
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(
                                _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p))));
}

INLINE __m512 scale_i8(const uint8_t *p, __m512 d) {
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(
                                _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p))));
}

// --- float formats: acc = fmaf(w[k], x[k], acc), k ascending ---

INLINE __m512 weight_f32(const uint8_t *w) { return _mm512_loadu_ps(w); }

INLINE __m512 weight_f16(const uint8_t *w) { return load_f16(w); }

INLINE __m512 weight_bf16(const uint8_t *w) {
    const __m256i bits = _mm256_loadu_si256((const __m256i *)w);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

typedef __m512 (*weight_fn)(const uint8_t *w);

// For few tokens the kernels take two groups at once: so few chains of dependent fmas are slower
// than memory.
INLINE void tile_float(const struct matmul_args *args, const uint8_t *w, int64_t row, int token,
                       const int n, const int groups, weight_fn weight, const int column_bytes,
                       int64_t group_bytes) {
    const float *x = args->x + token * args->ldx;
    const int64_t ldx = args->ldx, cols = args->cols;
    __m512 acc[2][TILE_MAX];
    for (int g = 0; g < groups; g++) {
        UNROLL for (int j = 0; j < n; j++) acc[g][j] = _mm512_setzero_ps();
    }
    for (int64_t k = 0; k < cols; k++) {
        for (int g = 0; g < groups; g++) {
            const uint8_t *column = w + g * group_bytes + k * column_bytes;
            prefetch(column, 1, n);
            const __m512 wk = weight(column);
            UNROLL for (int j = 0; j < n; j++) {
                acc[g][j] = _mm512_fmadd_ps(wk, _mm512_set1_ps(x[j * ldx + k]), acc[g][j]);
            }
        }
    }
    for (int g = 0; g < groups; g++) {
        UNROLL for (int j = 0; j < n; j++) {
            rows_store(args, acc[g][j], row + g * MATMUL_GROUP, token + j);
        }
    }
}

#define TILE_FLOAT(name, n, groups, size, column_bytes)                                            \
    static void name##_##groups##x##n(const struct matmul_args *args, const uint8_t *w,            \
                                      int64_t row, int token) {                                    \
        tile_float(args, w, row, token, n, groups, weight_##name, column_bytes,                    \
                   matmul_group_bytes_##size(args->cols));                                         \
    }

#define MATMUL_FLOAT(name, size, column_bytes)                                                     \
    TILE_FLOAT(name, 1, 1, size, column_bytes)                                                     \
    TILE_FLOAT(name, 2, 1, size, column_bytes)                                                     \
    TILE_FLOAT(name, 3, 1, size, column_bytes)                                                     \
    TILE_FLOAT(name, 4, 1, size, column_bytes)                                                     \
    TILE_FLOAT(name, 5, 1, size, column_bytes)                                                     \
    TILE_FLOAT(name, 6, 1, size, column_bytes)                                                     \
    TILE_FLOAT(name, 7, 1, size, column_bytes)                                                     \
    TILE_FLOAT(name, 8, 1, size, column_bytes)                                                     \
    TILE_FLOAT(name, 1, 2, size, column_bytes)                                                     \
    TILE_FLOAT(name, 2, 2, size, column_bytes)                                                     \
    TILE_FLOAT(name, 3, 2, size, column_bytes)                                                     \
    TILE_FLOAT(name, 4, 2, size, column_bytes)                                                     \
    void matmul_##name##_avx512(const struct matmul_args *args, int64_t group_begin,               \
                                int64_t group_end) {                                               \
        static const tile_fn one[TILE_MAX] = {name##_1x1, name##_1x2, name##_1x3, name##_1x4,      \
                                              name##_1x5, name##_1x6, name##_1x7, name##_1x8};     \
        static const tile_fn two[PAIR_MAX] = {name##_2x1, name##_2x2, name##_2x3, name##_2x4};     \
        const int64_t bytes = matmul_group_bytes_##size(args->cols);                               \
        int64_t g = group_begin;                                                                   \
        for (; args->n <= PAIR_MAX && g + 2 <= group_end; g += 2) {                                \
            tiles_run(args, (const uint8_t *)args->w + g * bytes, g * MATMUL_GROUP, two,           \
                      PAIR_MAX);                                                                   \
        }                                                                                          \
        for (; g < group_end; g++) {                                                               \
            tiles_run(args, (const uint8_t *)args->w + g * bytes, g * MATMUL_GROUP, one,           \
                      TILE_MAX);                                                                   \
        }                                                                                          \
    }

MATMUL_FLOAT(f32, f32, PACK_F32_BYTES)
MATMUL_FLOAT(f16, f16, PACK_F16_BYTES)
MATMUL_FLOAT(bf16, f16, PACK_F16_BYTES)

// --- block formats ---

// Quads 0..7 of 32 columns from 4 vectors of nibbles.
INLINE void nibbles_load(const uint8_t *w, __m512i *q) {
    const __m512i low = _mm512_set1_epi8(15);
    for (int i = 0; i < 4; i++) {
        const __m512i v = load(w + PACK_VECTOR * i);
        q[i] = _mm512_and_si512(v, low);
        q[i + 4] = _mm512_and_si512(_mm512_srli_epi16(v, 4), low);
    }
}

INLINE void tile_q8_0(const struct matmul_args *args, const uint8_t *w, int64_t row, int token,
                      const int n) {
    const struct tile t = tile_at(args, token);
    const __m512i zero = _mm512_set1_epi16(-128);
    __m512 acc[TILE_MAX];
    UNROLL for (int j = 0; j < n; j++) acc[j] = _mm512_setzero_ps();
    for (int64_t b = 0; b < t.blocks; b++) {
        const struct block block = block_at(w, b, PACK_Q8_0_BYTES, PACK_Q8_0_VECTORS);
        __m512i q[8];
        prefetch(block.vectors, PACK_Q8_0_VECTORS + 1, n);
        for (int i = 0; i < 8; i++) q[i] = load(block.vectors + PACK_VECTOR * i);
        const __m512 scale = load_f16(block.scale);
        UNROLL for (int j = 0; j < n; j++) {
            __m512i sum = dot(_mm512_setzero_si512(), q, tile_xq(&t, j, b), 8);
            sum = _mm512_dpwssd_epi32(sum, zero, broadcast4(tile_xsum(&t, j, b)));
            acc[j] = accumulate(acc[j], sum, scale, tile_xd(&t, j, b));
        }
    }
    UNROLL for (int j = 0; j < n; j++) rows_store(args, acc[j], row, token + j);
}

INLINE void tile_q4_0(const struct matmul_args *args, const uint8_t *w, int64_t row, int token,
                      const int n) {
    const struct tile t = tile_at(args, token);
    const __m512i zero = _mm512_set1_epi16(-8);
    __m512 acc[TILE_MAX];
    UNROLL for (int j = 0; j < n; j++) acc[j] = _mm512_setzero_ps();
    for (int64_t b = 0; b < t.blocks; b++) {
        const struct block block = block_at(w, b, PACK_Q4_0_BYTES, PACK_Q4_0_VECTORS);
        __m512i q[8];
        prefetch(block.vectors, PACK_Q4_0_VECTORS + 1, n);
        nibbles_load(block.vectors, q);
        const __m512 scale = load_f16(block.scale);
        UNROLL for (int j = 0; j < n; j++) {
            __m512i sum = dot(_mm512_setzero_si512(), q, tile_xq(&t, j, b), 8);
            sum = _mm512_dpwssd_epi32(sum, zero, broadcast4(tile_xsum(&t, j, b)));
            acc[j] = accumulate(acc[j], sum, scale, tile_xd(&t, j, b));
        }
    }
    UNROLL for (int j = 0; j < n; j++) rows_store(args, acc[j], row, token + j);
}

// d * (float)sum of the 8 spans of a superblock, for each token of the tile.
INLINE void offsets_q4_k(const struct tile *t, int64_t b, const int n, float (*out)[8]) {
    UNROLL for (int j = 0; j < n; j++) {
        const __m256i halves = _mm256_loadu_si256((const void *)tile_xsum(t, j, b));
        const __m256i sum = _mm256_madd_epi16(halves, _mm256_set1_epi16(1));
        const __m256 d = _mm256_loadu_ps(tile_xd(t, j, b));
        _mm256_storeu_ps(out[j], _mm256_mul_ps(d, _mm256_cvtepi32_ps(sum)));
    }
}

INLINE void tile_q4_k(const struct matmul_args *args, const uint8_t *w, int64_t row, int token,
                      const int n) {
    const struct tile t = tile_at(args, token);
    __m512 acc[TILE_MAX];
    UNROLL for (int j = 0; j < n; j++) acc[j] = _mm512_setzero_ps();
    for (int64_t b = 0; b < t.blocks; b += 8, w += PACK_Q4_K_BYTES) {
        float offsets[TILE_MAX][8];
        offsets_q4_k(&t, b, n, offsets);
        const __m512 d = load_f16(w), dmin = load_f16(w + PACK_Q4_K_DMIN);
        prefetch(w, 5, n);
        const uint8_t *vectors = w + PACK_Q4_K_QUANT;
        for (int span = 0; span < 8; span++, vectors += 4 * PACK_VECTOR) {
            __m512i q[8];
            prefetch(vectors, 4, n);
            nibbles_load(vectors, q);
            const __m512 scale = scale_u8(w + PACK_Q4_K_SCALE + MATMUL_GROUP * span, d);
            const __m512 min = scale_u8(w + PACK_Q4_K_MIN + MATMUL_GROUP * span, dmin);
            UNROLL for (int j = 0; j < n; j++) {
                const __m512i sum = dot(_mm512_setzero_si512(), q, tile_xq(&t, j, b + span), 8);
                acc[j] = accumulate(acc[j], sum, scale, tile_xd(&t, j, b + span));
                acc[j] = _mm512_fnmadd_ps(min, _mm512_set1_ps(offsets[j][span]), acc[j]);
            }
        }
    }
    UNROLL for (int j = 0; j < n; j++) rows_store(args, acc[j], row, token + j);
}

// Quads 0..3 of 16 columns from 2 vectors of nibbles and one of upper bits.
INLINE void six_bits_load(const uint8_t *w, __m512i *q) {
    const __m512i low = _mm512_set1_epi8(15), high = _mm512_set1_epi8(0x30);
    const __m512i v0 = load(w), v1 = load(w + PACK_VECTOR), v2 = load(w + 2 * PACK_VECTOR);
    const __m512i nibble[4] = {_mm512_and_si512(v0, low), _mm512_and_si512(v1, low),
                               _mm512_and_si512(_mm512_srli_epi16(v0, 4), low),
                               _mm512_and_si512(_mm512_srli_epi16(v1, 4), low)};
    const __m512i upper[4] = {_mm512_slli_epi16(v2, 4), _mm512_slli_epi16(v2, 2), v2,
                              _mm512_srli_epi16(v2, 2)};
    // a | (b & c) in one instruction
    for (int i = 0; i < 4; i++) q[i] = _mm512_ternarylogic_epi32(nibble[i], upper[i], high, 0xf8);
}

INLINE void tile_q6_k(const struct matmul_args *args, const uint8_t *w, int64_t row, int token,
                      const int n) {
    const struct tile t = tile_at(args, token);
    // A span is one half of the pair of sums.
    const __m512i zero[2] = {_mm512_set1_epi32(-32 & 0xffff), _mm512_set1_epi32(-32 * 65536)};
    __m512 acc[TILE_MAX];
    UNROLL for (int j = 0; j < n; j++) acc[j] = _mm512_setzero_ps();
    for (int64_t b = 0; b < t.blocks; b += 8, w += PACK_Q6_K_BYTES) {
        const __m512 d = load_f16(w);
        prefetch(w, 5, n);
        const uint8_t *vectors = w + PACK_Q6_K_QUANT, *scales = w + PACK_Q6_K_SCALE;
        for (int64_t block = b; block < b + 8; block++) {
            for (int half = 0; half < 2; half++) {
                __m512i q[4];
                prefetch(vectors, 3, n);
                six_bits_load(vectors, q);
                const __m512 scale = scale_i8(scales, d);
                vectors += 3 * PACK_VECTOR, scales += MATMUL_GROUP;
                UNROLL for (int j = 0; j < n; j++) {
                    const int8_t *x = tile_xq(&t, j, block) + 16 * half;
                    __m512i sum = dot(_mm512_setzero_si512(), q, x, 4);
                    sum = _mm512_dpwssd_epi32(sum, zero[half], broadcast4(tile_xsum(&t, j, block)));
                    acc[j] = accumulate(acc[j], sum, scale, tile_xd(&t, j, block));
                }
            }
        }
    }
    UNROLL for (int j = 0; j < n; j++) rows_store(args, acc[j], row, token + j);
}

#define TILE_BLOCK(name, n)                                                                        \
    static void name##_##n(const struct matmul_args *args, const uint8_t *w, int64_t row,          \
                           int token) {                                                            \
        tile_##name(args, w, row, token, n);                                                       \
    }

#define MATMUL_BLOCK(name)                                                                         \
    TILE_BLOCK(name, 1)                                                                            \
    TILE_BLOCK(name, 2)                                                                            \
    TILE_BLOCK(name, 3)                                                                            \
    TILE_BLOCK(name, 4)                                                                            \
    TILE_BLOCK(name, 5)                                                                            \
    TILE_BLOCK(name, 6)                                                                            \
    TILE_BLOCK(name, 7)                                                                            \
    TILE_BLOCK(name, 8)                                                                            \
    void matmul_##name##_avx512(const struct matmul_args *args, int64_t group_begin,               \
                                int64_t group_end) {                                               \
        static const tile_fn tiles[TILE_MAX] = {name##_1, name##_2, name##_3, name##_4,            \
                                                name##_5, name##_6, name##_7, name##_8};           \
        const int64_t bytes = matmul_group_bytes_##name(args->cols);                               \
        for (int64_t g = group_begin; g < group_end; g++) {                                        \
            tiles_run(args, (const uint8_t *)args->w + g * bytes, g * MATMUL_GROUP, tiles,         \
                      TILE_MAX);                                                                   \
        }                                                                                          \
    }

MATMUL_BLOCK(q8_0)
MATMUL_BLOCK(q4_0)
MATMUL_BLOCK(q4_k)
MATMUL_BLOCK(q6_k)

#endif

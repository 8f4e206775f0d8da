// Matrix products of float formats with AVX-512. A lane is a row of the group; a tile is up to 8
// tokens over one group, or up to 4 over two. Per lane the operations are matmul_reference()'s. In
// prefill this runs at the rate of the fma units. Packed layouts: matmul_layout.h. Reached through
// matmul_table.c.
#if defined(__x86_64__)

#include "backend/cpu/matmul_avx512.h"
#include "backend/cpu/matmul_table.h"

enum { TILE_MAX = 8, PAIR_MAX = 4 };

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

MATMUL_FLOAT(f32, f32, UNIT_BYTES_f32)
MATMUL_FLOAT(f16, f16, UNIT_BYTES_f16)
MATMUL_FLOAT(bf16, f16, UNIT_BYTES_f16)

#endif

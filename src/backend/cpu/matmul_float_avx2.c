// Matrix products of float formats with AVX2, FMA and F16C. A lane is a row, a group of 16 is two
// registers; a tile is up to 6 tokens over one group, or up to 3 over two: 12 accumulators. Per
// lane the operations are matmul_reference()'s. Packed layouts: matmul_layout.h. Reached through
// matmul_table.c.
#if defined(__x86_64__)

#include "backend/cpu/matmul_avx2.h"
#include "backend/cpu/matmul_table.h"

enum { TILE_MAX = 6, PAIR_MAX = 3 };

// --- float formats: acc = fmaf(w[k], x[k], acc), k ascending ---

INLINE struct rows weight_f32(const uint8_t *w) { return load_rows((const float *)w); }

INLINE struct rows weight_f16(const uint8_t *w) { return load_f16(w); }

INLINE __m256 half_bf16(const uint8_t *w) {
    const __m128i bits = _mm_loadu_si128((const __m128i *)w);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

INLINE struct rows weight_bf16(const uint8_t *w) {
    return (struct rows){{half_bf16(w), half_bf16(w + 16)}};
}

typedef struct rows (*weight_fn)(const uint8_t *w);

// For few tokens the kernels take two groups at once: so few chains of dependent fmas are slower
// than memory.
INLINE void tile_float(const struct matmul_args *args, const uint8_t *w, int64_t row, int token,
                       const int n, const int groups, weight_fn weight, const int column_bytes,
                       int64_t group_bytes) {
    const float *x = args->x + token * args->ldx;
    const int64_t ldx = args->ldx, cols = args->cols;
    struct rows acc[2][TILE_MAX];
    for (int g = 0; g < groups; g++) {
        UNROLL for (int j = 0; j < n; j++) {
            acc[g][j] = (struct rows){{_mm256_setzero_ps(), _mm256_setzero_ps()}};
        }
    }
    for (int64_t k = 0; k < cols; k++) {
        for (int g = 0; g < groups; g++) {
            const uint8_t *column = w + g * group_bytes + k * column_bytes;
            if (n > 1) prefetch(column, 1);
            const struct rows wk = weight(column);
            __asm__("" : "+r"(x)); // or gcc keeps x of both groups in registers that it lacks
            UNROLL for (int j = 0; j < n; j++) {
                const __m256 xk = _mm256_set1_ps(x[j * ldx + k]);
                acc[g][j].half[0] = _mm256_fmadd_ps(wk.half[0], xk, acc[g][j].half[0]);
                acc[g][j].half[1] = _mm256_fmadd_ps(wk.half[1], xk, acc[g][j].half[1]);
            }
        }
    }
    for (int g = 0; g < groups; g++) {
        UNROLL for (int j = 0; j < n; j++) {
            float sums[MATMUL_GROUP];
            keep_rows(acc[g][j], sums);
            matmul_rows_store_avx2(args, sums, row + g * MATMUL_GROUP, token + j);
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
    TILE_FLOAT(name, 1, 2, size, column_bytes)                                                     \
    TILE_FLOAT(name, 2, 2, size, column_bytes)                                                     \
    TILE_FLOAT(name, 3, 2, size, column_bytes)                                                     \
    void matmul_##name##_avx2(const struct matmul_args *args, int64_t group_begin,                 \
                              int64_t group_end) {                                                 \
        static const tile_fn one[TILE_MAX] = {name##_1x1, name##_1x2, name##_1x3,                  \
                                              name##_1x4, name##_1x5, name##_1x6};                 \
        static const tile_fn two[PAIR_MAX] = {name##_2x1, name##_2x2, name##_2x3};                 \
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

// Matrix products of the float formats with NEON: acc = fmaf(w[k], x[k], acc), k ascending, a lane
// per row, as matmul_reference() has it. Packed layouts: matmul_layout.h. Reached through
// matmul_table.c. Not measured on hardware.
#if defined(__aarch64__)

#include "backend/cpu/matmul_neon.h"
#include "backend/cpu/matmul_table.h"

enum { PAIR_MAX = 2 };

// The weights of one column, four rows from `quarter` on.
INLINE float32x4_t weight_f32(const uint8_t *w, int quarter) {
    return vld1q_f32((const float *)w + 4 * quarter);
}

INLINE float32x4_t weight_f16(const uint8_t *w, int quarter) {
    const uint16x4_t bits = vld1_u16((const uint16_t *)w + 4 * quarter);
    return vcvt_f32_f16(vreinterpret_f16_u16(bits));
}

INLINE float32x4_t weight_bf16(const uint8_t *w, int quarter) {
    const uint16x4_t bits = vld1_u16((const uint16_t *)w + 4 * quarter);
    return vreinterpretq_f32_u32(vshll_n_u16(bits, 16));
}

typedef float32x4_t (*weight_fn)(const uint8_t *w, int quarter);

// One column of one group with n tokens; the tokens' values are x[j * ldx].
INLINE void column_add(const uint8_t *w, const float *x, int64_t ldx, const int n, weight_fn weight,
                       rows16 *acc) {
    UNROLL for (int i = 0; i < QUARTERS; i++) {
        const float32x4_t wk = weight(w, i);
        UNROLL for (int j = 0; j < n; j++) {
            acc[j].val[i] = vfmaq_f32(acc[j].val[i], wk, vdupq_n_f32(x[j * ldx]));
        }
    }
}

// Two groups at once where few tokens would leave too few chains of dependent fmas.
INLINE void tile_float(const struct matmul_args *args, const uint8_t *w, int64_t row, int token,
                       const int n, const int groups, weight_fn weight, const int column_bytes,
                       int64_t group_bytes) {
    const float *x = args->x + token * args->ldx;
    rows16 acc[2][TILE_MAX];
    for (int g = 0; g < groups; g++) {
        UNROLL for (int j = 0; j < n; j++) acc[g][j] = rows_zero();
    }
    for (int64_t k = 0; k < args->cols; k++) {
        UNROLL for (int g = 0; g < groups; g++) {
            column_add(w + g * group_bytes + k * column_bytes, x + k, args->ldx, n, weight, acc[g]);
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
    TILE_FLOAT(name, 1, 2, size, column_bytes)                                                     \
    TILE_FLOAT(name, 2, 2, size, column_bytes)                                                     \
    void matmul_##name##_neon(const struct matmul_args *args, int64_t group_begin,                 \
                              int64_t group_end) {                                                 \
        static const tile_fn one[TILE_MAX] = {name##_1x1, name##_1x2, name##_1x3, name##_1x4};     \
        static const tile_fn two[PAIR_MAX] = {name##_2x1, name##_2x2};                             \
        const int64_t bytes = matmul_group_bytes_##size(args->cols);                               \
        const uint8_t *w = args->w;                                                                \
        int64_t g = group_begin;                                                                   \
        for (; args->n <= PAIR_MAX && g + 2 <= group_end; g += 2)                                  \
            tiles_run(args, w + g * bytes, g * MATMUL_GROUP, two, PAIR_MAX);                       \
        for (; g < group_end; g++)                                                                 \
            tiles_run(args, w + g * bytes, g * MATMUL_GROUP, one, TILE_MAX);                       \
    }

MATMUL_FLOAT(f32, f32, UNIT_BYTES_f32)
MATMUL_FLOAT(f16, f16, UNIT_BYTES_f16)
MATMUL_FLOAT(bf16, f16, UNIT_BYTES_f16)

#else
typedef int matmul_float_neon_is_empty; // ISO C wants a declaration
#endif

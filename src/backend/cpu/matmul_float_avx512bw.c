// Matrix products of float formats with AVX-512, with VNNI and without. A lane is a row of the
// group; a tile is up to 8 tokens over two groups, which share each load of an activation. Per lane
// the operations are matmul_reference()'s. In prefill this runs at the rate of the fma units.
// Packed layouts: matmul_layout.h. Reached through matmul_table.c.
#if defined(__x86_64__)

#include "backend/cpu/matmul_runs_avx512.h"
#include "backend/cpu/matmul_table.h"

// --- float formats: acc = fmaf(w[k], x[k], acc), k ascending ---

INLINE __m512 weight_f32(const uint8_t *w) { return _mm512_loadu_ps(w); }

INLINE __m512 weight_f16(const uint8_t *w) { return load_f16(w); }

INLINE __m512 weight_bf16(const uint8_t *w) {
    const __m256i bits = _mm256_loadu_si256((const __m256i *)w);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

typedef __m512 (*weight_fn)(const uint8_t *w);

// A last group alone is a tile of its own.
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
        __m512 wk[2];
        for (int g = 0; g < groups; g++) {
            const uint8_t *column = w + g * group_bytes + k * column_bytes;
            prefetch(column, 1, n);
            wk[g] = weight(column);
        }
        UNROLL for (int j = 0; j < n; j++) {
            const __m512 xk = _mm512_set1_ps(x[j * ldx + k]);
            for (int g = 0; g < groups; g++) acc[g][j] = _mm512_fmadd_ps(wk[g], xk, acc[g][j]);
        }
    }
    for (int g = 0; g < groups; g++) {
        UNROLL for (int j = 0; j < n; j++) {
            rows_store(args, acc[g][j], row + g * MATMUL_GROUP, token + j);
        }
    }
}

// One token: a chain of fmas for each of the runs, whose latency more runs hide.
INLINE void one_float(const struct matmul_args *args, const uint8_t *w, int64_t row,
                      const struct runs *runs, const int streams, weight_fn weight,
                      const int column_bytes, const enum matmul_fetch kind) {
    enum { LINES = 2 };
    const int step = LINES * PACK_VECTOR / column_bytes;
    const int ahead = args->way.ahead;
    const float *x = args->x;
    const bool is_last = row == runs->last_row && streams > 1;
    const int64_t tail = is_last ? args->cols - NEXT_BYTES / column_bytes : args->cols;
    __m512 acc[ONE_STREAMS];
    int64_t k = 0;
    for (int s = 0; s < streams; s++) acc[s] = _mm512_setzero_ps();
    for (; k + step <= args->cols; k += step, w += LINES * PACK_VECTOR) {
        for (int s = 0; s < streams; s++) {
            fetch(w + s * runs->bytes, LINES, kind, ahead);
            if (k >= tail) fetch_next(w + s * runs->bytes, LINES, runs, streams);
        }
        UNROLL for (int i = 0; i < step; i++) {
            const __m512 xk = _mm512_set1_ps(x[k + i]);
            for (int s = 0; s < streams; s++)
                acc[s] =
                    _mm512_fmadd_ps(weight(w + s * runs->bytes + i * column_bytes), xk, acc[s]);
        }
    }
    for (; k < args->cols; k++, w += column_bytes) {
        for (int s = 0; s < streams; s++)
            acc[s] = _mm512_fmadd_ps(weight(w + s * runs->bytes), _mm512_set1_ps(x[k]), acc[s]);
    }
    for (int s = 0; s < streams; s++)
        rows_store(args, acc[s], row + s * runs->length * MATMUL_GROUP, 0);
}

typedef void (*one_float_fn)(const struct matmul_args *args, const uint8_t *w, int64_t row,
                             const struct runs *runs);

// Two runs side by side, or four; the groups that are left as fewer.
static void one_float_run(const struct matmul_args *args, int64_t begin, int64_t end, int64_t bytes,
                          const one_float_fn *fn) {
    const uint8_t *w = args->w;
    for (int size = args->way.wide ? 2 : 1; size >= 0; size--) {
        const struct runs runs = runs_make(begin, (end - begin) >> size, bytes);
        for (int64_t g = begin; g < begin + runs.length; g++)
            fn[size](args, w + g * bytes, g * MATMUL_GROUP, &runs);
        begin += runs.length << size;
    }
}

#define ONE_FLOAT(name, streams, column_bytes)                                                     \
    static void name##_one_##streams(const struct matmul_args *args, const uint8_t *w,             \
                                     int64_t row, const struct runs *runs) {                       \
        FETCH_SWITCH(args->way.fetch, one_float, args, w, row, runs, streams, weight_##name,       \
                     column_bytes)                                                                 \
    }

#define MATMUL_ONE_FLOAT(name, size, column_bytes)                                                 \
    ONE_FLOAT(name, 1, column_bytes)                                                               \
    ONE_FLOAT(name, 2, column_bytes)                                                               \
    ONE_FLOAT(name, 4, column_bytes)                                                               \
    void matmul_##name##_one_avx512bw(const struct matmul_args *args, int64_t group_begin,         \
                                      int64_t group_end) {                                         \
        static const one_float_fn fn[] = {name##_one_1, name##_one_2, name##_one_4};               \
        one_float_run(args, group_begin, group_end, matmul_group_bytes_##size(args->cols), fn);    \
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
    TILE_FLOAT(name, 5, 2, size, column_bytes)                                                     \
    TILE_FLOAT(name, 6, 2, size, column_bytes)                                                     \
    TILE_FLOAT(name, 7, 2, size, column_bytes)                                                     \
    TILE_FLOAT(name, 8, 2, size, column_bytes)                                                     \
    void matmul_##name##_avx512bw(const struct matmul_args *args, int64_t group_begin,             \
                                  int64_t group_end) {                                             \
        static const tile_fn one[TILE_MAX] = {name##_1x1, name##_1x2, name##_1x3, name##_1x4,      \
                                              name##_1x5, name##_1x6, name##_1x7, name##_1x8};     \
        static const tile_fn two[TILE_MAX] = {name##_2x1, name##_2x2, name##_2x3, name##_2x4,      \
                                              name##_2x5, name##_2x6, name##_2x7, name##_2x8};     \
        const int64_t bytes = matmul_group_bytes_##size(args->cols);                               \
        int64_t g = group_begin;                                                                   \
        for (; g + 2 <= group_end; g += 2) {                                                       \
            tiles_run(args, (const uint8_t *)args->w + g * bytes, g * MATMUL_GROUP, two,           \
                      TILE_MAX);                                                                   \
        }                                                                                          \
        for (; g < group_end; g++) {                                                               \
            tiles_run(args, (const uint8_t *)args->w + g * bytes, g * MATMUL_GROUP, one,           \
                      TILE_MAX);                                                                   \
        }                                                                                          \
    }

MATMUL_FLOAT(f32, f32, UNIT_BYTES_f32)
MATMUL_ONE_FLOAT(f32, f32, UNIT_BYTES_f32)
MATMUL_FLOAT(f16, f16, UNIT_BYTES_f16)
MATMUL_ONE_FLOAT(f16, f16, UNIT_BYTES_f16)
MATMUL_FLOAT(bf16, f16, UNIT_BYTES_f16)
MATMUL_ONE_FLOAT(bf16, f16, UNIT_BYTES_f16)

#endif

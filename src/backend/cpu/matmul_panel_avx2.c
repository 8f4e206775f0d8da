// The loops around the AVX2 and AVX-VNNI kernels of block formats (matmul_avx2.h), one for all
// formats. Columns are taken some blocks at a time. For few tokens the format's kernel decodes them
// as it multiplies. For more they are decoded once into a panel of bytes that stays in the
// first-level cache, and tiles of 16 tokens pass over it. The order of float operations per (row,
// token) is that of all other kernels: blocks ascending; in between the sums rest in memory.
#if defined(__x86_64__)

#include "backend/cpu/matmul_avx2.h"

enum {
    PANEL_BLOCKS = 16,
    PANEL_TOKENS = 256, // tokens whose sums rest in the second-level cache
    PANEL_TILES = PANEL_TOKENS / MATMUL_TILE,
    TILE_PLACES = PANEL_BLOCKS * MATMUL_TILE * 2,
};

// The data of one tile of tokens for a panel's columns, besides the quantized activations.
struct columns {
    _Alignas(32) int32_t start[TILE_PLACES];
    _Alignas(32) float offset[TILE_PLACES];
};

// The groups share the starts and offsets of a panel's columns.
struct scratch {
    _Alignas(32) float sums[MATMUL_PANEL_GROUPS][PANEL_TOKENS * MATMUL_GROUP];
    struct columns columns[PANEL_TILES];
    struct block panel[PANEL_BLOCKS];
};
_Static_assert(sizeof(struct scratch) <= MATMUL_SCRATCH_BYTES, "has room");

void matmul_rows_store_avx2(const struct matmul_args *args, const float *sums, int64_t row,
                            int token) {
    const int64_t left = args->rows - row;
    float *out = args->y + token * args->ldy + row;
    for (int64_t i = 0; left >= MATMUL_GROUP && i < MATMUL_GROUP; i += HALF_ROWS) {
        __m256 y = _mm256_loadu_ps(sums + i);
        if (args->scale != 1.0f) y = _mm256_mul_ps(y, _mm256_set1_ps(args->scale));
        if (args->bias) y = _mm256_add_ps(y, _mm256_loadu_ps(args->bias + row + i));
        if (args->add) y = _mm256_add_ps(_mm256_loadu_ps(out + i), y);
        _mm256_storeu_ps(out + i, y);
    }
    for (int64_t i = 0; left < MATMUL_GROUP && i < left; i++) {
        float y = sums[i];
        if (args->scale != 1.0f) y = y * args->scale;
        if (args->bias) y = y + args->bias[row + i];
        out[i] = args->add ? out[i] + y : y;
    }
}

// -zero * sum and d * sum of count (block, token) places from `at` on; with spans of 16 two each.
// Writes whole vectors.
INLINE void starts_make(const struct matmul_args *args, int64_t at, int count, const int span,
                        const int zero, const bool offsets, int32_t *start, float *offset) {
    const int *sums = (const int *)(const void *)(args->xsum + 2 * at);
    const float *d = args->xd + at;
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i twice_low = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    const __m256i twice_high = _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7);
    const __m256i minus = _mm256_set1_epi32(-zero);
    for (int i = 0; i < count; i += 8) {
        const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(count - i), lanes);
        const __m256i pairs = _mm256_maskload_epi32(sums + i, mask);
        const __m256 scale = _mm256_maskload_ps(d + i, mask);
        if (span == 32) {
            const __m256i sum = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
            const __m256 product = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sum));
            if (zero) _mm256_store_si256((__m256i *)(start + i), _mm256_mullo_epi32(sum, minus));
            if (offsets) _mm256_store_ps(offset + i, product);
            continue;
        }
        const __m256i low = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(pairs));
        const __m256i high = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(pairs, 1));
        if (zero) {
            __m256i *out = (__m256i *)(start + 2 * i);
            _mm256_store_si256(out, _mm256_mullo_epi32(low, minus));
            _mm256_store_si256(out + 1, _mm256_mullo_epi32(high, minus));
        }
        if (offsets) {
            const __m256 d0 = _mm256_permutevar8x32_ps(scale, twice_low);
            const __m256 d1 = _mm256_permutevar8x32_ps(scale, twice_high);
            _mm256_store_ps(offset + 2 * i, _mm256_mul_ps(d0, _mm256_cvtepi32_ps(low)));
            _mm256_store_ps(offset + 2 * i + 8, _mm256_mul_ps(d1, _mm256_cvtepi32_ps(high)));
        }
    }
}

static int min_int(int a, int b) { return a < b ? a : b; }

// count blocks from `first` on, of the tile of activations that begins at `token`.
static void columns_make(const struct matmul_args *args, const struct block_kernel *kernel,
                         int token, int64_t first, int count, struct columns *columns) {
    const struct matmul_x x = matmul_x_of(args->n, token, args->cols);
    const int64_t at = x.first + first * x.stride;
    const int n = count * (int)x.stride;
    if (!kernel->zero && !kernel->offsets) return;
    if (kernel->span == 32)
        starts_make(args, at, n, 32, kernel->zero, kernel->offsets, columns->start,
                    columns->offset);
    else
        starts_make(args, at, n, 16, kernel->zero, kernel->offsets, columns->start,
                    columns->offset);
}

// The tile's tokens over count blocks of weights, packed or decoded; sums: [tokens][16]. w_first:
// the number of the first block there.
static void tile_run(const struct matmul_args *args, tile_blocks_fn run, const void *w,
                     int64_t w_first, int token, int64_t first, int count,
                     const struct columns *columns, float *sums) {
    const struct matmul_x x = matmul_x_of(args->n, token, args->cols);
    const int64_t at = x.first + first * x.stride;
    const struct places places = {args->xq + MATMUL_SPAN * at, args->xd + at, columns->start,
                                  columns->offset};
    run(w, w_first, count, places, x.stride, sums, (int)x.stride);
}

void matmul_few_avx2(const struct matmul_args *args, int64_t group_begin, int64_t group_end,
                     int64_t group_bytes, const struct block_kernel *kernel) {
    _Alignas(32) float sums[MATMUL_TILE * MATMUL_GROUP];
    struct columns columns;
    const int64_t blocks = args->cols / MATMUL_SPAN;
    for (int64_t g = group_begin; g < group_end; g++) {
        const uint8_t *w = (const uint8_t *)args->w + g * group_bytes;
        for (int token = 0; token < args->n; token += MATMUL_TILE) {
            const int n = min_int(args->n - token, MATMUL_TILE);
            memset(sums, 0, (size_t)n * MATMUL_GROUP * sizeof *sums);
            for (int64_t first = 0; first < blocks; first += PANEL_BLOCKS) {
                const int count = min_int((int)(blocks - first), PANEL_BLOCKS);
                columns_make(args, kernel, token, first, count, &columns);
                tile_run(args, kernel->packed, w, first, token, first, count, &columns, sums);
            }
            for (int t = 0; t < n; t++)
                matmul_rows_store_avx2(args, sums + t * MATMUL_GROUP, g * MATMUL_GROUP, token + t);
        }
    }
}

// Tokens [token, token + n) and some groups, over one panel's columns.
static void panel_run(const struct matmul_args *args, const struct block_kernel *kernel,
                      const uint8_t *w, int64_t group_bytes, int groups, int token, int n,
                      int64_t first, int count, struct scratch *scratch) {
    struct columns *columns = scratch->columns;
    for (int t = 0; t < n; t += MATMUL_TILE)
        columns_make(args, kernel, token + t, first, count, &columns[t / MATMUL_TILE]);
    for (int g = 0; g < groups; g++) {
        kernel->decode(w + g * group_bytes, first, count, scratch->panel);
        for (int t = 0; t < n; t += MATMUL_TILE)
            tile_run(args, kernel->decoded, scratch->panel, 0, token + t, first, count,
                     &columns[t / MATMUL_TILE], scratch->sums[g] + t * MATMUL_GROUP);
    }
}

void matmul_panel_avx2(const struct matmul_args *args, int64_t group_begin, int64_t group_end,
                       int64_t group_bytes, const struct block_kernel *kernel) {
    struct scratch *scratch = args->scratch;
    const int64_t blocks = args->cols / MATMUL_SPAN;
    for (int64_t g0 = group_begin; g0 < group_end; g0 += MATMUL_PANEL_GROUPS) {
        const int groups =
            (int)(group_end - g0 < MATMUL_PANEL_GROUPS ? group_end - g0 : MATMUL_PANEL_GROUPS);
        const uint8_t *w = (const uint8_t *)args->w + g0 * group_bytes;
        for (int token = 0; token < args->n; token += PANEL_TOKENS) {
            const int n = min_int(args->n - token, PANEL_TOKENS);
            for (int g = 0; g < groups; g++)
                memset(scratch->sums[g], 0, (size_t)n * MATMUL_GROUP * sizeof(float));
            for (int64_t first = 0; first < blocks; first += PANEL_BLOCKS)
                panel_run(args, kernel, w, group_bytes, groups, token, n, first,
                          min_int((int)(blocks - first), PANEL_BLOCKS), scratch);
            for (int i = 0; i < groups * n; i++)
                matmul_rows_store_avx2(args, scratch->sums[i / n] + i % n * MATMUL_GROUP,
                                       (g0 + i / n) * MATMUL_GROUP, token + i % n);
        }
    }
}

#endif

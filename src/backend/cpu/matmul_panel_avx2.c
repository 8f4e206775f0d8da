// The loops around the AVX2 and AVX-VNNI kernels of block formats (matmul_avx2.h), one for all
// formats. Up to 4 tokens decode the weights as they multiply. With more tokens the first 4 also
// keep the decoded bytes of some columns, a panel in the first-level cache, and the others pass
// over it. Up to 16 tokens take the groups one by one, because memory is read best in one stream.
// More take some groups together, which share the numbers made of the activations. The order of
// float operations per (row, token) is that of all other kernels: blocks ascending. In between the
// sums rest in memory.
#if defined(__x86_64__)

#include "backend/cpu/matmul_avx2.h"

enum {
    PANEL_BLOCKS = 16,
    PANEL_TOKENS = 256, // tokens whose sums rest in the second-level cache
    PANEL_TILES = PANEL_TOKENS / MATMUL_TILE,
    TILE_PLACES = PANEL_BLOCKS * MATMUL_TILE * 2,
    FEW_PLACES = 2 * 4096, // two for each (block, token)
    FEW_GROUPS = 16,
};

// Where columns_make writes, one for each span of a (block, token).
struct columns {
    int32_t *start;
    float *offset;
};

// Of up to 16 tokens and all or many columns.
struct few {
    _Alignas(32) int32_t start[FEW_PLACES];
    _Alignas(32) float offset[FEW_PLACES];
    _Alignas(32) float sums[FEW_GROUPS][MATMUL_TILE * MATMUL_GROUP];
    struct block panel[PANEL_BLOCKS];
};
_Static_assert(sizeof(struct few) <= MATMUL_SCRATCH_BYTES, "has room");

// Of more tokens and a panel's columns.
struct many {
    _Alignas(32) float sums[MATMUL_PANEL_GROUPS][PANEL_TOKENS * MATMUL_GROUP];
    _Alignas(32) int32_t start[PANEL_TILES][TILE_PLACES];
    _Alignas(32) float offset[PANEL_TILES][TILE_PLACES];
    struct block panel[PANEL_BLOCKS];
};
_Static_assert(sizeof(struct many) <= MATMUL_SCRATCH_BYTES, "has room");

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

// d * sum of count places from `at` on, and with STARTS_SUMS -zero * sum; with spans of 16 two
// each. Writes whole vectors.
INLINE void sums_make(const struct matmul_args *args, int64_t at, int count, const int span,
                      const int zero, const bool offsets, struct columns columns) {
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
        __m256i *start = (__m256i *)(columns.start + 32 / span * i);
        float *offset = columns.offset + 32 / span * i;
        if (span == 32) {
            const __m256i sum = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
            if (zero) _mm256_store_si256(start, _mm256_mullo_epi32(sum, minus));
            if (offsets) _mm256_store_ps(offset, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sum)));
            continue;
        }
        const __m256i low = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(pairs));
        const __m256i high = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(pairs, 1));
        if (zero) {
            _mm256_store_si256(start, _mm256_mullo_epi32(low, minus));
            _mm256_store_si256(start + 1, _mm256_mullo_epi32(high, minus));
        }
        if (offsets) {
            const __m256 d0 = _mm256_permutevar8x32_ps(scale, twice_low);
            const __m256 d1 = _mm256_permutevar8x32_ps(scale, twice_high);
            _mm256_store_ps(offset, _mm256_mul_ps(d0, _mm256_cvtepi32_ps(low)));
            _mm256_store_ps(offset + 8, _mm256_mul_ps(d1, _mm256_cvtepi32_ps(high)));
        }
    }
}

// STARTS_PAIRS: -zero times the sums of the columns that share 16 bits of a lane.
static void pairs_make(const int8_t *xq, int count, int span, int zero, int32_t *start) {
    const __m256i zeros = _mm256_set1_epi8((char)zero);
    for (int i = 0; i < count; i++) {
        const __m256i quads = _mm256_maddubs_epi16(zeros, load(xq + 32 * i));
        const __m256i two = _mm256_add_epi16(quads, _mm256_shuffle_epi32(quads, 0x4e));
        const __m256i all = _mm256_add_epi16(two, _mm256_shuffle_epi32(two, 0xb1));
        const __m256i minus = _mm256_sub_epi16(_mm256_setzero_si256(), all);
        const __m128i low = _mm256_castsi256_si128(minus);
        const __m128i high = _mm256_extracti128_si256(minus, 1);
        if (span == 32)
            start[i] = _mm_cvtsi128_si32(_mm_add_epi16(low, high));
        else
            start[2 * i] = _mm_cvtsi128_si32(low), start[2 * i + 1] = _mm_cvtsi128_si32(high);
    }
}

// STARTS_SIGNS: the sums of |xq| where xq is negative.
static void negatives_make(const int8_t *xq, int count, int32_t *start) {
    const __m256i none = _mm256_setzero_si256();
    for (int i = 0; i < count; i++) {
        const __m256i minus = _mm256_sub_epi8(none, load(xq + 32 * i));
        const __m256i sums = _mm256_sad_epu8(_mm256_max_epi8(minus, none), none);
        const __m128i two =
            _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        start[i] = _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_unpackhi_epi64(two, two)));
    }
}

static int min_int(int a, int b) { return a < b ? a : b; }

// count blocks from `first` on, of the tile of activations that begins at `token`.
static void columns_make(const struct matmul_args *args, const struct block_kernel *kernel,
                         int token, int64_t first, int count, struct columns columns) {
    const struct matmul_x x = matmul_x_of(args->n, token, args->cols);
    const int64_t at = x.first + first * x.stride;
    const int n = count * (int)x.stride, zero = kernel->starts == STARTS_SUMS ? kernel->zero : 0;
    const int8_t *xq = args->xq + MATMUL_SPAN * at;
    if (kernel->starts == STARTS_SIGNS) negatives_make(xq, n, columns.start);
    if (kernel->starts == STARTS_PAIRS && kernel->zero)
        pairs_make(xq, n, kernel->span, kernel->zero, columns.start);
    if (!zero && !kernel->offsets) return;
    if (kernel->span == 32)
        sums_make(args, at, n, 32, zero, kernel->offsets, columns);
    else
        sums_make(args, at, n, 16, zero, kernel->offsets, columns);
}

static struct places places_at(const struct matmul_args *args, struct matmul_x x, int64_t first,
                               struct columns columns, struct matmul_way way) {
    const int64_t at = x.first + first * x.stride;
    return (struct places){
        args->xq + MATMUL_SPAN * at, args->xd + at, columns.start, columns.offset, NULL, way};
}

// The n tokens of a tile, at least CHUNK: the first ones decode the panel for the others.
static void tile_first(const struct block_kernel *kernel, const uint8_t *w, int64_t first,
                       int count, struct places x, int n, float *sums, struct block *panel) {
    const struct places next = places_after(x, MATMUL_SPAN / kernel->span, CHUNK);
    kernel->decode(w, first, count, x, n, sums, panel);
    kernel->decoded((const uint8_t *)panel, 0, count, next, n, sums + CHUNK * MATMUL_GROUP,
                    n - CHUNK);
}

// count blocks of one group, for up to 16 tokens.
static void group_run(const struct block_kernel *kernel, const uint8_t *w, int64_t first, int count,
                      struct places x, int n, float *sums, struct block *panel) {
    if (n <= CHUNK) {
        kernel->packed(w, first, count, x, n, sums, n);
        return;
    }
    for (int at = 0; at < count; at += PANEL_BLOCKS) {
        tile_first(kernel, w, first + at, min_int(count - at, PANEL_BLOCKS), x, n, sums, panel);
        x = places_after(x, MATMUL_SPAN / kernel->span, PANEL_BLOCKS * n);
    }
}

static struct matmul_way way_of(const struct matmul_args *args, const struct block_kernel *kernel) {
    if (args->way.fetch != FETCH_NONE) return args->way;
    return (struct matmul_way){.fetch = kernel->fetch, .ahead = AHEAD};
}

// Up to 16 tokens with up to FEW_GROUPS groups from `row` on.
static void few_run(const struct matmul_args *args, const uint8_t *w, int64_t row, int groups,
                    int64_t group_bytes, const struct block_kernel *kernel, struct few *few) {
    const int n = args->n;
    const int64_t blocks = args->cols / MATMUL_SPAN, most = FEW_PLACES / 2 / n;
    const int64_t size = n * MATMUL_GROUP; // of a group's sums
    const struct columns columns = {few->start, few->offset};
    float *sums = few->sums[0];
    memset(sums, 0, (size_t)(groups * size) * sizeof *sums);
    for (int64_t first = 0; first < blocks; first += most) {
        const int count = (int)(blocks - first < most ? blocks - first : most);
        columns_make(args, kernel, 0, first, count, columns);
        const struct places x =
            places_at(args, matmul_x_of(n, 0, args->cols), first, columns, way_of(args, kernel));
        for (int g = 0; g < groups; g++)
            group_run(kernel, w + g * group_bytes, first, count, x, n, sums + g * size, few->panel);
    }
    for (int i = 0; i < groups * n; i++)
        matmul_rows_store_avx2(args, sums + i * MATMUL_GROUP, row + i / n * MATMUL_GROUP, i % n);
}

void matmul_few_avx2(const struct matmul_args *args, int64_t group_begin, int64_t group_end,
                     int64_t group_bytes, const struct block_kernel *kernel) {
    for (int64_t g = group_begin; g < group_end; g += FEW_GROUPS)
        few_run(args, (const uint8_t *)args->w + g * group_bytes, g * MATMUL_GROUP,
                min_int((int)(group_end - g), FEW_GROUPS), group_bytes, kernel, args->scratch);
}

// Tokens [token, token + n) and some groups, over one panel's columns.
static void panel_run(const struct matmul_args *args, const struct block_kernel *kernel,
                      const uint8_t *w, int64_t group_bytes, int groups, int token, int n,
                      int64_t first, int count, struct many *many) {
    struct places x[PANEL_TILES];
    for (int t = 0; t < n; t += MATMUL_TILE) {
        const int i = t / MATMUL_TILE;
        const struct columns columns = {many->start[i], many->offset[i]};
        columns_make(args, kernel, token + t, first, count, columns);
        x[i] =
            places_at(args, matmul_x_of(args->n, token + t, args->cols), first, columns, args->way);
    }
    for (int g = 0; g < groups; g++) {
        float *sums = many->sums[g];
        tile_first(kernel, w + g * group_bytes, first, count, x[0], MATMUL_TILE, sums, many->panel);
        for (int t = MATMUL_TILE; t < n; t += MATMUL_TILE) {
            const int width = min_int(n - t, MATMUL_TILE);
            kernel->decoded((const uint8_t *)many->panel, 0, count, x[t / MATMUL_TILE], width,
                            sums + t * MATMUL_GROUP, width);
        }
    }
}

// Passes of nearly equal size. Each begins with a whole tile, so the last one has one, too.
static int pass_tokens(int n) {
    const int passes = (n + PANEL_TOKENS - 1) / PANEL_TOKENS, tiles = passes * MATMUL_TILE;
    int step = (n + tiles - 1) / tiles * MATMUL_TILE;
    while (n % step > 0 && n % step < MATMUL_TILE) step -= MATMUL_TILE;
    return step;
}

void matmul_panel_avx2(const struct matmul_args *args, int64_t group_begin, int64_t group_end,
                       int64_t group_bytes, const struct block_kernel *kernel) {
    if (args->n <= MATMUL_TILE) {
        matmul_few_avx2(args, group_begin, group_end, group_bytes, kernel);
        return;
    }
    struct many *many = args->scratch;
    const int step = pass_tokens(args->n);
    const int64_t blocks = args->cols / MATMUL_SPAN;
    for (int64_t g0 = group_begin; g0 < group_end; g0 += MATMUL_PANEL_GROUPS) {
        const int groups =
            (int)(group_end - g0 < MATMUL_PANEL_GROUPS ? group_end - g0 : MATMUL_PANEL_GROUPS);
        const uint8_t *w = (const uint8_t *)args->w + g0 * group_bytes;
        for (int token = 0; token < args->n; token += step) {
            const int n = min_int(args->n - token, step);
            for (int g = 0; g < groups; g++)
                memset(many->sums[g], 0, (size_t)n * MATMUL_GROUP * sizeof(float));
            for (int64_t first = 0; first < blocks; first += PANEL_BLOCKS)
                panel_run(args, kernel, w, group_bytes, groups, token, n, first,
                          min_int((int)(blocks - first), PANEL_BLOCKS), many);
            for (int i = 0; i < groups * n; i++)
                matmul_rows_store_avx2(args, many->sums[i / n] + i % n * MATMUL_GROUP,
                                       (g0 + i / n) * MATMUL_GROUP, token + i % n);
        }
    }
}

#endif

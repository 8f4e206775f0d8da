// The matrix product for many tokens with AVX-512 without VNNI. The columns of two groups are
// decoded once into panels of bytes that stay in the first-level cache, and tiles of 4 tokens pass
// over them. A few functions serve all block formats; decoding is the format's
// (matmul_avx512bw.h). The order of float operations per (row, token) is that of all other kernels:
// blocks ascending; between panels the sums rest in memory.
#if defined(__x86_64__)

#include <assert.h>

#include "backend/cpu/matmul_avx512bw.h"

enum {
    PANEL_TOKENS = 256, // tokens whose sums rest in the second-level cache
    PANEL_TILES = PANEL_TOKENS / MATMUL_TILE,
    TILE_PLACES = PANEL_BLOCKS * MATMUL_TILE * 2,
    SUM_FLOATS = PANEL_TOKENS * MATMUL_GROUP, // of a group
};

// What a span of a (block, token) starts at: -zero * sum, or with offsets d * sum.
union from {
    int32_t start;
    float offset;
};

// The groups share what is made of a panel's columns.
struct scratch {
    _Alignas(64) float sums[MATMUL_PANEL_GROUPS][SUM_FLOATS];
    _Alignas(64) union from from[PANEL_TILES][TILE_PLACES];
    struct panel panel[2];
};
_Static_assert(sizeof(struct scratch) <= MATMUL_SCRATCH_BYTES, "has room");

// A format, as far as the product needs it.
struct shape {
    const struct codec *codec;
    panel_decode_fn decode;
    int64_t group_bytes;
};

static int min_int(int a, int b) { return a < b ? a : b; }

// ---------------------------------------------------------------- products

// Some tokens of a tile of activations, over one panel's columns of two groups.
struct tile {
    const struct panel *panel[2];
    int count;      // of blocks
    int64_t stride; // places from block to block
    const int8_t *xq;
    const float *d;
    const union from *from; // per span
    float *sums[2];         // [tokens][16] of each group
};

// The sums of span s of a block, for n tokens whose activations begin at x.
INLINE void dots(const struct panel *const *panel, int block, const int s, const int8_t *x,
                 const int n, const int span, const int bits, __m512i (*sum)[2]) {
    const int quads = span / 4, fit = quads_fit(span, bits);
    __m512i pairs[PAIR_TOKENS][2];
    UNROLL for (int i = 0; i < quads; i++) {
        const int quad = s * quads + i;
        __m512i q[2];
        __mmask64 negative[2];
        for (int g = 0; g < 2; g++) {
            q[g] = load(panel[g]->q[block][quad]);
            if (bits == 8) negative[g] = panel[g]->negative[block][quad];
        }
        UNROLL for (int j = 0; j < n; j++) {
            const __m512i four = broadcast4(x + 32 * j + 4 * quad);
            for (int g = 0; g < 2; g++) {
                const __m512i with = bits == 8 ? signs_give(four, negative[g]) : four;
                const __m512i more = _mm512_maddubs_epi16(q[g], with);
                pairs[j][g] = i % fit == 0 ? more : _mm512_add_epi16(pairs[j][g], more);
                IN_ORDER(pairs[j][g]);
                if (i % fit < fit - 1) continue;
                const __m512i all = pairs_widen(pairs[j][g]);
                sum[j][g] = i < fit ? all : _mm512_add_epi32(sum[j][g], all);
                IN_ORDER(sum[j][g]);
            }
        }
    }
}

// n tokens. Spans in order: acc = fmaf((float)dot, scale * d, acc), then acc = fmaf(offset, d *
// sum, acc).
INLINE void product(const struct tile *tile, const int n, const int span, const int bits,
                    const bool offsets) {
    const int spans = 32 / span;
    const int8_t *xq = tile->xq;
    const float *d = tile->d;
    const union from *from = tile->from;
    __m512 acc[PAIR_TOKENS][2];
    UNROLL for (int j = 0; j < n; j++) {
        for (int g = 0; g < 2; g++) acc[j][g] = _mm512_load_ps(tile->sums[g] + j * MATMUL_GROUP);
    }
    for (int b = 0; b < tile->count; b++) {
        for (int s = 0; s < spans; s++) {
            __m512i sum[PAIR_TOKENS][2];
            dots(tile->panel, b, s, xq, n, span, bits, sum);
            UNROLL for (int j = 0; j < n; j++) {
                for (int g = 0; g < 2; g++) {
                    const struct panel *panel = tile->panel[g];
                    const __m512 scale = _mm512_load_ps(panel->scale[b][s]);
                    const union from *at = from + j * spans + s;
                    if (!offsets && bits < 8)
                        sum[j][g] = _mm512_add_epi32(sum[j][g], _mm512_set1_epi32(at->start));
                    acc[j][g] = fma_onto(acc[j][g], _mm512_cvtepi32_ps(sum[j][g]),
                                         _mm512_mul_ps(scale, _mm512_set1_ps(d[j])));
                    if (offsets)
                        acc[j][g] = _mm512_fmadd_ps(_mm512_load_ps(panel->min[b][s]),
                                                    _mm512_set1_ps(at->offset), acc[j][g]);
                }
            }
        }
        xq += 32 * tile->stride, d += tile->stride, from += tile->stride * spans;
    }
    UNROLL for (int j = 0; j < n; j++) {
        for (int g = 0; g < 2; g++) _mm512_store_ps(tile->sums[g] + j * MATMUL_GROUP, acc[j][g]);
    }
}

typedef void (*product_fn)(const struct tile *tile);

// X(name, columns of a span, bits of a code, offsets)
#define PRODUCTS(X)                                                                                \
    X(plain_4, 32, 4, false)                                                                       \
    X(plain_5, 32, 5, false)                                                                       \
    X(plain_8, 32, 8, false)                                                                       \
    X(offset_4, 32, 4, true)                                                                       \
    X(offset_5, 32, 5, true)                                                                       \
    X(spans_4, 16, 4, false)                                                                       \
    X(spans_6, 16, 6, false)                                                                       \
    X(spans_offset_4, 16, 4, true)

#define PRODUCT(name, n, span, bits, offsets)                                                      \
    static void name##_##n(const struct tile *tile) { product(tile, n, span, bits, offsets); }
#define X(name, span, bits, offsets)                                                               \
    PRODUCT(name, 1, span, bits, offsets)                                                          \
    PRODUCT(name, 2, span, bits, offsets)                                                          \
    PRODUCT(name, 3, span, bits, offsets)                                                          \
    PRODUCT(name, 4, span, bits, offsets)
PRODUCTS(X)
#undef X

static const struct products {
    int span, bits;
    bool offsets;
    product_fn run[PAIR_TOKENS]; // of 1 to 4 tokens
} products[] = {
#define X(name, span, bits, offsets)                                                               \
    {span, bits, offsets, {name##_1, name##_2, name##_3, name##_4}},
    PRODUCTS(X)
#undef X
};

static const product_fn *products_find(const struct codec *c) {
    const struct products *p = products, *end = products + sizeof products / sizeof *products;
    while (p < end && (p->span != c->span || p->bits != c->bits || p->offsets != c->offsets)) p++;
    assert(p < end);
    return p->run;
}

// The same for n tokens, up to 16, in tiles of nearly equal size.
static void tile_run(const product_fn *run, const struct codec *c, struct tile tile, int n) {
    int left = (n + PAIR_TOKENS - 1) / PAIR_TOKENS;
    for (; left > 0; left--) {
        const int m = (n + left - 1) / left;
        run[m - 1](&tile);
        tile.xq += 32 * m, tile.d += m, tile.from += m * (32 / c->span);
        for (int g = 0; g < 2; g++) tile.sums[g] += m * MATMUL_GROUP;
        n -= m;
    }
}

// ---------------------------------------------------------------- loops

// count blocks from `first` on, of the tile of activations that begins at `token`.
static void from_make(const struct matmul_args *args, const struct codec *c, int token,
                      int64_t first, int count, union from *from) {
    const struct matmul_x x = matmul_x_of(args->n, token, args->cols);
    const int64_t at = x.first + first * x.stride;
    const int places = count * (int)x.stride;
    if (c->bits == 8) return;
    if (c->span == 32)
        starts_make(args, at, places, 32, c->zero, c->offsets, &from->start, &from->offset);
    else
        starts_make(args, at, places, 16, c->zero, c->offsets, &from->start, &from->offset);
}

// Decodes count blocks of the group at w and of the next. A last group alone is its own partner,
// and the partner's sums are not stored.
static void panels_make(const struct shape *shape, const uint8_t *w, bool alone, int64_t first,
                        int count, struct panel *panel, struct tile *tile) {
    shape->decode(w, first, count, &panel[0]);
    if (!alone) shape->decode(w + shape->group_bytes, first, count, &panel[1]);
    tile->panel[0] = &panel[0];
    tile->panel[1] = &panel[alone ? 0 : 1];
    tile->count = count;
}

// The activations of the tile that begins at `token`, from block `first` on.
static void tile_place(const struct matmul_args *args, int token, int64_t first,
                       struct tile *tile) {
    const struct matmul_x x = matmul_x_of(args->n, token, args->cols);
    const int64_t at = x.first + first * x.stride;
    tile->stride = x.stride;
    tile->xq = args->xq + MATMUL_SPAN * at;
    tile->d = args->xd + at;
}

// Tokens [token, token + n) with groups [g0, g0 + groups).
static void tokens_run(const struct matmul_args *args, const struct shape *shape, int64_t g0,
                       int groups, int token, int n) {
    struct scratch *scratch = args->scratch;
    const product_fn *run = products_find(shape->codec);
    const int64_t blocks = args->cols / MATMUL_SPAN;
    for (int g = 0; g < (groups + 1) / 2 * 2; g++)
        memset(scratch->sums[g], 0, (size_t)n * MATMUL_GROUP * sizeof(float));
    for (int64_t first = 0; first < blocks; first += PANEL_BLOCKS) {
        const int count = min_int((int)(blocks - first), PANEL_BLOCKS);
        for (int t = 0; t < n; t += MATMUL_TILE)
            from_make(args, shape->codec, token + t, first, count, scratch->from[t / MATMUL_TILE]);
        for (int g = 0; g < groups; g += 2) {
            struct tile tile;
            panels_make(shape, (const uint8_t *)args->w + (g0 + g) * shape->group_bytes,
                        g + 1 == groups, first, count, scratch->panel, &tile);
            for (int t = 0; t < n; t += MATMUL_TILE) {
                tile_place(args, token + t, first, &tile);
                tile.from = scratch->from[t / MATMUL_TILE];
                for (int i = 0; i < 2; i++) tile.sums[i] = scratch->sums[g + i] + t * MATMUL_GROUP;
                tile_run(run, shape->codec, tile, min_int(n - t, MATMUL_TILE));
            }
        }
    }
    sums_store(args, scratch->sums[0], SUM_FLOATS, g0, groups, token, n);
}

void matmul_panel_avx512bw(const struct matmul_args *args, int64_t group_begin, int64_t group_end,
                           int64_t group_bytes, const struct codec *codec, panel_decode_fn decode) {
    const struct shape shape = {codec, decode, group_bytes};
    for (int64_t g = group_begin; g < group_end; g += MATMUL_PANEL_GROUPS) {
        const int groups =
            (int)(group_end - g < MATMUL_PANEL_GROUPS ? group_end - g : MATMUL_PANEL_GROUPS);
        for (int token = 0; token < args->n; token += PANEL_TOKENS)
            tokens_run(args, &shape, g, groups, token, min_int(args->n - token, PANEL_TOKENS));
    }
}

#endif

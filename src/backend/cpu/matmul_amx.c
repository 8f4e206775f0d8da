// The matrix product for 12 tokens and more with AMX. The packed layout is the second operand of
// the tile product: a line is 4 columns of 16 rows, and a span's lines are a tile. The first
// operand is a tile of 16 tokens of the quantized activations, as they are stored. So a product is
// the integer sums of 16 tokens x 16 rows of a span. Decoding is the format's, to signed bytes, so
// a sum begins at zero. Sums are exact, and the float operations after them are those of all other
// kernels in their order: spans ascending.
//
// Two groups share an activation tile. A pass makes the products of four spans, which go through
// memory, and adds those of the pass before it to the float sums. The sums of 8 tokens x 2 groups
// stay in registers for the four spans. The cost of a span, 16 tokens and a group on Sapphire
// Rapids, by Intel's tables (vpdpbusd: 88 cycles for a span of 32 columns):
//   vector ports  16 conversions, 16 products, 16 fmas, at 2 per cycle: 24 cycles; offsets: 32
//   loads         16 sums, 8 d, 2 scales, 8 + 8 rows of tiles, 4 float sums, at 2: 23; offsets: 28
//   stores        16 sums, 4 float sums, at 1 per cycle: 20
//   tile product  16
#if defined(__x86_64__)

#include "backend/cpu/amx.h"
#include "backend/cpu/matmul_avx512.h"

enum {
    AMX_BLOCKS = 8,   // of a panel: two groups' fit the first-level cache, with a pass's products
    AMX_LEAST = 12,   // tokens of a tile
    AMX_TOKENS = 256, // tokens whose float sums rest in the second-level cache
    TOKEN_TILES = AMX_TOKENS / MATMUL_TILE,
    PASS_SPANS = 4,
    HALF = MATMUL_TILE / 2,
    TILE_WORDS = MATMUL_TILE * MATMUL_GROUP,
    TILE_STRIDE = MATMUL_GROUP * 4,          // from token to token of a product
    BLOCK_BYTES = MATMUL_TILE * MATMUL_SPAN, // of a tile's activations
};
_Static_assert((int)AMX_BLOCKS <= (int)PANEL_BLOCKS, "a panel has room");

// The data of a call's tokens for one panel's columns. A tile always has 16 tokens here: those past
// the last are zeros, and their sums are never stored.
struct columns {
    _Alignas(64) float offset[TOKEN_TILES][AMX_BLOCKS][MATMUL_TILE]; // d * sum; of spans of 32
    // the activations of the last tile, where it is narrower than 16 tokens; others stay in place
    _Alignas(64) int8_t xq[AMX_BLOCKS][MATMUL_TILE][MATMUL_SPAN];
    _Alignas(64) float xd[AMX_BLOCKS][MATMUL_TILE];
};

struct scratch {
    _Alignas(64) float sums[MATMUL_PANEL_GROUPS][AMX_TOKENS][MATMUL_GROUP];
    _Alignas(64) int32_t products[2][PASS_SPANS][2][TILE_WORDS];
    struct columns columns;
    struct panel panel[2];
};
_Static_assert(sizeof(struct scratch) <= MATMUL_SCRATCH_BYTES, "has room");

// Two groups with the tokens of a call, over one panel's columns.
struct pair {
    const struct matmul_args *args;
    struct scratch *scratch;
    int group;     // the first, of the scratch's sums
    int64_t first; // block
    int spans;
    int token, n; // of the tokens
};

// Up to four spans of one tile of tokens. The second group's data have constant distances from the
// first's (GROUP_BYTES, GROUP_FLOATS, SUM_FLOATS): each pointer more would cost the loop a
// register.
struct pass {
    int n, width;            // spans; tokens
    const int8_t *x;         // the activations of the first span
    const uint8_t *q;        // the weights of the first span
    const float *scale;      // [n, span]: of the first 16
    const float *d, *offset; // of the first span
    float *sums;             // [16, 16]
    int32_t *products;       // [4, 2, 16, 16]
};

enum {
    GROUP_BYTES = sizeof(struct panel),
    GROUP_FLOATS = sizeof(struct panel) / sizeof(float),
    MIN_FLOATS = (offsetof(struct panel, min) - offsetof(struct panel, scale)) / sizeof(float),
    SUM_FLOATS = AMX_TOKENS * MATMUL_GROUP,
};

// --- one pass ---

INLINE const int8_t *pass_x(const struct pass *pass, int i, const int span) {
    return pass->x + i * span / MATMUL_SPAN * BLOCK_BYTES + i * span % MATMUL_SPAN;
}

INLINE const uint8_t *pass_q(const struct pass *pass, int i, int group, const int span) {
    return pass->q + group * GROUP_BYTES + i * (span / 4 * PACK_VECTOR);
}

// Tiles 0 to 3 are sums, 4 and 5 activations, 6 and 7 weights.
static void config_make(int span, struct amx_config *config) {
    *config = (struct amx_config){.palette = 1};
    for (int i = 0; i < AMX_TILES; i++) {
        const bool activations = i == 4 || i == 5, weights = i >= 6;
        config->rows[i] = (uint8_t)(weights ? span / 4 : MATMUL_TILE);
        config->row_bytes[i] = (uint16_t)(activations ? span : PACK_VECTOR);
    }
}

#define PRODUCT_FIRST(pass, i, sum, a, span)                                                       \
    if ((i) < (pass)->n) {                                                                         \
        tile_load(a, pass_x(pass, i, span), MATMUL_SPAN);                                          \
        tile_load(6, pass_q(pass, i, 0, span), PACK_VECTOR);                                       \
        tile_zero(sum);                                                                            \
        tile_dot(sum, a, 6);                                                                       \
    }
#define PRODUCT_SECOND(pass, i, sum, a, span)                                                      \
    if ((i) < (pass)->n) {                                                                         \
        tile_load(7, pass_q(pass, i, 1, span), PACK_VECTOR);                                       \
        tile_zero(sum);                                                                            \
        tile_dot(sum, a, 7);                                                                       \
    }
#define PRODUCT_STORE(pass, i, group, sum)                                                         \
    if ((i) < (pass)->n)                                                                           \
    tile_store(sum, (pass)->products + ((i)*2 + (group)) * TILE_WORDS, TILE_STRIDE)

// Two of a pass's four spans.
INLINE void half_multiply(const struct pass *pass, int half, const int span) {
    const int i = 2 * half;
    PRODUCT_FIRST(pass, i, 0, 4, span);
    PRODUCT_SECOND(pass, i, 1, 4, span);
    PRODUCT_FIRST(pass, i + 1, 2, 5, span);
    PRODUCT_SECOND(pass, i + 1, 3, 5, span);
    PRODUCT_STORE(pass, i, 0, 0);
    PRODUCT_STORE(pass, i, 1, 1);
    PRODUCT_STORE(pass, i + 1, 0, 2);
    PRODUCT_STORE(pass, i + 1, 1, 3);
}

// One span of 8 tokens and both groups: acc = fmaf((float)dot, scale * d, acc), then acc =
// fmaf(offset, d * sum, acc).
INLINE void span_add(const struct pass *pass, const int i, int half, __m512 acc[HALF][2],
                     const int span, const bool offsets) {
    const int32_t *dots = pass->products + i * 2 * TILE_WORDS + half * HALF * MATMUL_GROUP;
    const float *d = pass->d + i * span / MATMUL_SPAN * MATMUL_TILE + half * HALF;
    const float *offset = pass->offset + i * MATMUL_TILE + half * HALF;
    __m512 scale[2], min[2];
    for (int g = 0; g < 2; g++) {
        scale[g] = _mm512_load_ps(pass->scale + g * GROUP_FLOATS + i * span);
        if (offsets)
            min[g] = _mm512_load_ps(pass->scale + g * GROUP_FLOATS + MIN_FLOATS + i * span);
    }
    UNROLL for (int j = 0; j < HALF; j++) {
        const __m512 factor = _mm512_set1_ps(d[j]);
        for (int g = 0; g < 2; g++) {
            const __m512i dot = _mm512_load_si512(dots + g * TILE_WORDS + j * MATMUL_GROUP);
            const __m512 product = _mm512_mul_ps(scale[g], factor);
            acc[j][g] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), product, acc[j][g]);
        }
        if (!offsets) continue;
        const __m512 sum = _mm512_set1_ps(offset[j]);
        for (int g = 0; g < 2; g++) acc[j][g] = _mm512_fmadd_ps(min[g], sum, acc[j][g]);
    }
}

// Adds all of a pass's spans for 8 tokens, and between them multiplies two spans of the next. A
// product is stored late, so that its latency (52 cycles) passes during the additions.
INLINE void half_run(const struct pass *now, const struct pass *next, int half, const int span,
                     const bool offsets) {
    const int i = 2 * half;
    float *sums = now->sums + half * HALF * MATMUL_GROUP;
    __m512 acc[HALF][2];
    for (int g = 0; g < 2; g++)
        UNROLL for (int j = 0; j < HALF; j++) acc[j][g] =
            _mm512_load_ps(sums + g * SUM_FLOATS + j * MATMUL_GROUP);
    PRODUCT_FIRST(next, i, 0, 4, span);
    span_add(now, 0, half, acc, span, offsets);
    PRODUCT_SECOND(next, i, 1, 4, span);
    if (now->n > 1) span_add(now, 1, half, acc, span, offsets);
    PRODUCT_FIRST(next, i + 1, 2, 5, span);
    PRODUCT_STORE(next, i, 0, 0);
    if (now->n > 2) span_add(now, 2, half, acc, span, offsets);
    PRODUCT_SECOND(next, i + 1, 3, 5, span);
    PRODUCT_STORE(next, i, 1, 1);
    if (now->n > 3) span_add(now, 3, half, acc, span, offsets);
    PRODUCT_STORE(next, i + 1, 0, 2);
    PRODUCT_STORE(next, i + 1, 1, 3);
    for (int g = 0; g < 2; g++)
        UNROLL for (int j = 0; j < HALF; j++)
            _mm512_store_ps(sums + g * SUM_FLOATS + j * MATMUL_GROUP, acc[j][g]);
}

// --- the passes of a pair of groups ---

// Spans from `first` on of a tile of tokens; past the last tile: none.
INLINE struct pass pass_of(const struct pair *pair, int tile, int first, int number,
                           const int span) {
    const struct matmul_args *args = pair->args;
    struct scratch *scratch = pair->scratch;
    const int token = tile * MATMUL_TILE;
    if (token >= pair->n) return (struct pass){.n = 0};
    const int block = first * span / MATMUL_SPAN, left = pair->spans - first;
    const int width = pair->n - token < MATMUL_TILE ? pair->n - token : MATMUL_TILE;
    const bool narrow = width < MATMUL_TILE;
    const int64_t at = matmul_x_of(args->n, pair->token + token, args->cols).first +
                       (pair->first + block) * MATMUL_TILE;
    return (struct pass){
        .n = left < PASS_SPANS ? left : PASS_SPANS,
        .width = width,
        .x = narrow ? scratch->columns.xq[block][0] : args->xq + at * MATMUL_SPAN,
        .d = narrow ? scratch->columns.xd[block] : args->xd + at,
        .q = scratch->panel[0].q[0][0] + first * (span / 4 * PACK_VECTOR),
        .scale = scratch->panel[0].scale[0][0] + first * span,
        .offset = scratch->columns.offset[tile][block],
        .sums = scratch->sums[pair->group][token],
        .products = scratch->products[number % 2][0][0],
    };
}

INLINE void pair_run(const struct pair *pair, const int span, const bool offsets) {
    int number = 0;
    struct pass next = pass_of(pair, 0, 0, number, span);
    half_multiply(&next, 0, span);
    half_multiply(&next, 1, span);
    for (int tile = 0, first = 0; next.n > 0;) {
        const struct pass now = next;
        first += PASS_SPANS;
        if (first >= pair->spans) first = 0, tile++;
        next = pass_of(pair, tile, first, ++number, span);
        for (int half = 0; half < 2; half++) {
            if (half * HALF < now.width)
                half_run(&now, &next, half, span, offsets);
            else
                half_multiply(&next, half, span);
        }
    }
}

static void run_plain_32(const struct pair *pair) { pair_run(pair, 32, false); }
static void run_offset_32(const struct pair *pair) { pair_run(pair, 32, true); }
static void run_plain_16(const struct pair *pair) { pair_run(pair, 16, false); }

// --- all groups ---

static int min_int(int a, int b) { return a < b ? a : b; }

// d * sum of one block, which is a span; the tokens are those of the mask. at: the block's place.
INLINE void offsets_make(const struct matmul_args *args, int64_t at, __mmask16 mask,
                         float *offset) {
    const __m512 d = _mm512_maskz_loadu_ps(mask, args->xd + at);
    const __m512i pairs = _mm512_maskz_loadu_epi32(mask, args->xsum + 2 * at);
    const __m512i sum = _mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
    _mm512_store_ps(offset, _mm512_mul_ps(d, _mm512_cvtepi32_ps(sum)));
}

// In whole vectors: the copy is made again for every panel.
INLINE void narrow_copy(const struct matmul_args *args, int64_t at, __mmask16 mask, int block,
                        struct columns *columns) {
    const int8_t *x = args->xq + at * MATMUL_SPAN;
    int8_t *out = columns->xq[block][0];
    for (int pair = 0; pair < MATMUL_TILE / 2; pair++) { // a vector has two tokens
        const unsigned two = mask >> 2 * pair & 3;
        const __mmask16 words = (__mmask16)(two == 3 ? 0xffff : two == 1 ? 0xff : 0);
        _mm512_store_si512(out + pair * PACK_VECTOR,
                           _mm512_maskz_loadu_epi32(words, x + pair * PACK_VECTOR));
    }
    _mm512_store_ps(columns->xd[block], _mm512_maskz_loadu_ps(mask, args->xd + at));
}

// The columns of blocks [first, first + count) for n tokens from `token` on.
static void columns_make(const struct matmul_args *args, int64_t first, int count, int token, int n,
                         const struct codec *codec, struct columns *columns) {
    for (int t = 0; t < n; t += MATMUL_TILE) {
        const int width = min_int(n - t, MATMUL_TILE);
        if (width == MATMUL_TILE && !codec->offsets) continue;
        const struct matmul_x x = matmul_x_of(args->n, token + t, args->cols);
        const __mmask16 mask = (__mmask16)((1u << width) - 1);
        for (int i = 0; i < count; i++) {
            const int64_t at = x.first + (first + i) * x.stride;
            if (codec->offsets) offsets_make(args, at, mask, columns->offset[t / MATMUL_TILE][i]);
            if (width < MATMUL_TILE) narrow_copy(args, at, mask, i, columns);
        }
    }
}

// Groups [g0, g0 + groups) for n tokens from `token` on. A last group alone is its own partner, and
// the partner's sums are not stored.
static void tokens_run(const struct matmul_args *args, const struct panel_format *format,
                       int64_t group_bytes, int64_t g0, int groups, int token, int n) {
    const struct codec *codec = format->codec;
    void (*const run)(const struct pair *pair) = codec->span == 16 ? run_plain_16
                                                 : codec->offsets  ? run_offset_32
                                                                   : run_plain_32;
    struct scratch *scratch = args->scratch;
    const int64_t blocks = args->cols / MATMUL_SPAN;
    struct pair pair = {.args = args, .scratch = scratch, .token = token, .n = n};
    const int sums = (groups + 1) / 2 * 2, rows = (n + MATMUL_TILE - 1) / MATMUL_TILE * MATMUL_TILE;
    for (int g = 0; g < sums; g++)
        memset(scratch->sums[g], 0, (size_t)rows * sizeof *scratch->sums[g]);
    for (; pair.first < blocks; pair.first += AMX_BLOCKS) {
        const int count = min_int((int)(blocks - pair.first), AMX_BLOCKS);
        pair.spans = count * (MATMUL_SPAN / codec->span);
        columns_make(args, pair.first, count, token, n, codec, &scratch->columns);
        for (pair.group = 0; pair.group < groups; pair.group += 2) {
            for (int i = 0; i < 2; i++) {
                const int g = min_int(pair.group + i, groups - 1);
                format->decode((const uint8_t *)args->w + (g0 + g) * group_bytes, pair.first, count,
                               &scratch->panel[i]);
            }
            run(&pair);
        }
    }
    sums_store(args, scratch->sums[0][0], SUM_FLOATS, g0, groups, token, n);
}

static void groups_run(const struct matmul_args *args, const struct panel_format *format,
                       int64_t group_bytes, int64_t group_begin, int64_t group_end) {
    struct amx_config config;
    config_make(format->codec->span, &config);
    tile_configure(&config);
    for (int64_t g = group_begin; g < group_end; g += MATMUL_PANEL_GROUPS) {
        const int64_t left = group_end - g;
        const int groups = left < MATMUL_PANEL_GROUPS ? (int)left : MATMUL_PANEL_GROUPS;
        for (int token = 0; token < args->n; token += AMX_TOKENS)
            tokens_run(args, format, group_bytes, g, groups, token,
                       min_int(args->n - token, AMX_TOKENS));
    }
    tile_release();
}

// A tile takes as long for one token as for 16. So the last tokens are AVX-512's where they are
// few.
static void tokens_divide(const struct matmul_args *args, struct matmul_args *tiles,
                          struct matmul_args *rest) {
    const int width = args->n % MATMUL_TILE;
    const int64_t first = args->n - (width < AMX_LEAST ? width : 0);
    *tiles = *rest = *args;
    tiles->n = (int)first;
    rest->n = args->n - tiles->n;
    rest->xq += first * args->cols;
    rest->xd += first * args->cols / 32;
    rest->xsum += first * args->cols / 16;
    rest->y += first * args->ldy;
}

#if defined(RUNNEL_AMX_MODEL)
#define SUFFIXED(name) matmul_##name##_amx_model // tests only
#else
#define SUFFIXED(name) matmul_##name##_amx
#endif

#define X(id, name, layout)                                                                        \
    void SUFFIXED(name)(const struct matmul_args *args, int64_t group_begin, int64_t group_end) {  \
        struct matmul_args tiles, rest;                                                            \
        tokens_divide(args, &tiles, &rest);                                                        \
        if (tiles.n)                                                                               \
            groups_run(&tiles, &matmul_##name##_panel, matmul_group_bytes_##layout(args->cols),    \
                       group_begin, group_end);                                                    \
        if (rest.n) matmul_##name##_avx512(&rest, group_begin, group_end);                         \
    }
MATMUL_TILED(X)

#endif

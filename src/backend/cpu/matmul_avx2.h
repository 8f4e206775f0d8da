// The AVX2 and AVX-VNNI kernels of block formats, as one template. A lane is a row, a group of 16
// is two registers (halves), and up to 4 tokens are computed together: 8 sums, 4 vectors of weights
// and 2 of activations fill the 16 registers. Formats differ in their codec; MATMUL_VNNI says how
// bytes are multiplied. Integer sums are exact, so only the float operations after them are
// ordered: per lane they are matmul_reference()'s.
//
// The weights' bytes are unsigned (q + zero), so an integer sum does not begin at 0 (enum starts).
// For up to 4 tokens weights are decoded as they are used; for more tokens blocks are decoded into
// bytes first. The loops around both are in matmul_panel_avx2.c.
//
// Cycles of a block of 16 rows and 32 columns for one token, at two multiplies and four
// instructions each: Q4_0, Q5_0, MXFP4 11, Q4_1, Q4_K 12, Q5_1, Q5_K 13, Q6_K, Q3_K 14, Q2_K 16,
// Q8_0, IQ4 18. Measured with 512 tokens: 14.4, 14.8, 15.5, 18.2, 18.5, 23.8
// (docs/benchmarks/cpu.md says why).
#ifndef RN_BACKEND_CPU_MATMUL_AVX2_H
#define RN_BACKEND_CPU_MATMUL_AVX2_H

#include <immintrin.h>

#include "backend/cpu/matmul_tile.h"

// A file that wants vpdpbusd defines MATMUL_VNNI and MATMUL_SUFFIX (matmul_avxvnni.c).
#if !defined(MATMUL_VNNI)
#define MATMUL_VNNI   0
#define MATMUL_SUFFIX avx2
#endif

// Without it gcc adds in another order, which wants more registers than there are.
#define IN_ORDER(sum) __asm__("" : "+x"(sum))

#define PASTE_3(a, b, c)  a##b##_##c
#define PASTE(a, b, c)    PASTE_3(a, b, c)
#define MATMUL_NAME(name) PASTE(matmul_, name, MATMUL_SUFFIX)

enum {
    QUADS = 8, // of a block of 32 columns
    PARTS = 4, // pairs of quads that are decoded together
    HALVES = 2,
    HALF_ROWS = 8,
    HALF_VECTOR = PACK_VECTOR / 2,
    CHUNK = 4, // tokens
};

// Floats of the 16 rows.
struct rows {
    __m256 half[HALVES];
};

// How a format's packed unit becomes numbers. block: of 32 columns, inside the unit; span: inside
// the block, which has one of 32 columns or two of 16.
struct codec {
    int span, zero;
    int bits; // of a code
    bool offsets;
    int unit_blocks, unit_bytes;
    // The two quads of a part (quad_first and quad_next) of half of the rows, q + zero.
    void (*codes)(const uint8_t *unit, int block, int half, int part, __m256i q[2]);
    struct rows (*scale)(const uint8_t *unit, int block, int span);
    struct rows (*offset)(const uint8_t *unit, int block, int span);
};

// Spans of 32: quads i and i + 4. Of 16: i and i + 2, the first span in the first two parts.
INLINE int quad_first(const int span, const int part) {
    return span == 32 ? part : part / 2 * 4 + part % 2;
}
INLINE int quad_next(const int span) { return span / 8; }

INLINE __m256i load(const void *p) { return _mm256_loadu_si256(p); }

// Four bytes in every lane.
INLINE __m256i broadcast4(const void *p) { return _mm256_set1_epi32(word_at(p)); }

INLINE struct rows load_f16(const uint8_t *p) {
    return (struct rows){{_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                          _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 16)))}};
}

INLINE struct rows load_rows(const float *p) {
    return (struct rows){{_mm256_loadu_ps(p), _mm256_loadu_ps(p + HALF_ROWS)}};
}

INLINE void keep_rows(struct rows rows, float *out) {
    _mm256_storeu_ps(out, rows.half[0]);
    _mm256_storeu_ps(out + HALF_ROWS, rows.half[1]);
}

// Ends the product of 16 rows with one token (matmul_panel_avx2.c).
void matmul_rows_store_avx2(const struct matmul_args *args, const float *sums, int64_t row,
                            int token);

enum { AHEAD = 8192 };

// Prefetches the bytes AHEAD into the second-level cache: the buffers of the first are too few for
// memory's latency. Addresses past the end of the weights do no harm.
INLINE void prefetch(const uint8_t *w, int bytes) {
    for (int i = 0; i < bytes; i += PACK_VECTOR)
        _mm_prefetch((const char *)w + AHEAD + i, _MM_HINT_T1);
}

// The same for one token.
INLINE void prefetch_way(const uint8_t *w, int bytes, struct matmul_way way) {
    const char *p = (const char *)w + way.ahead;
    if (way.fetch == FETCH_NONE) return;
    for (int i = 0; way.fetch == FETCH_L1 && i < bytes; i += PACK_VECTOR)
        _mm_prefetch(p + i, _MM_HINT_T0);
    for (int i = 0; way.fetch == FETCH_BOTH && i < bytes; i += PACK_VECTOR)
        _mm_prefetch((const char *)w + way.ahead / FETCH_NEAR + i, _MM_HINT_T0);
    for (int i = 0; (way.fetch == FETCH_L2 || way.fetch == FETCH_BOTH) && i < bytes;
         i += PACK_VECTOR)
        _mm_prefetch(p + i, _MM_HINT_T1);
    for (int i = 0; way.fetch == FETCH_NTA && i < bytes; i += PACK_VECTOR)
        _mm_prefetch(p + i, _MM_HINT_NTA);
}

// Where the integer sum of a span starts.
enum starts {
    STARTS_SUMS,  // vpdpbusd, and codes of 4 bits or less: -zero * sum(xq)
    STARTS_PAIRS, // codes of 5 and 6 bits without vpdpbusd: two of 16 bits, for columns 0 and 1,
                  // and 2 and 3, of each quad
    STARTS_SIGNS, // codes of 8 bits without vpdpbusd: the sum of |xq| where xq is negative
};

// Activations of a block for codes of 8 bits: |xq|, and the bits to turn in q + 128, which leave q
// or ~q.
struct signs {
    _Alignas(32) int32_t magnitude[QUADS], flip[QUADS];
};

INLINE void signs_make(const int8_t *xq, const int n, struct signs *out) {
    UNROLL for (int j = 0; j < n; j++) {
        const __m256i x = load(xq + 32 * j),
                      negative = _mm256_cmpgt_epi8(_mm256_setzero_si256(), x);
        const __m256i flip = _mm256_xor_si256(negative, _mm256_set1_epi8((char)0x80));
        _mm256_store_si256((__m256i *)out[j].magnitude, _mm256_abs_epi8(x));
        _mm256_store_si256((__m256i *)out[j].flip, flip);
    }
    __asm__("" : : "r"(out) : "memory"); // or gcc broadcasts from registers, which costs more
}

// The data of n tokens for one block: each pointer is to the first token's.
struct places {
    const int8_t *xq;
    const float *d;
    const int32_t *start;      // per span
    const float *offset;       // per span
    const struct signs *signs; // of one block only
    struct matmul_way way;     // of one token
};

// The places of n blocks further, or of one block's n tokens further.
INLINE struct places places_after(struct places x, const int spans, int64_t n) {
    return (struct places){x.xq + 32 * n,        x.d + n, x.start + spans * n,
                           x.offset + spans * n, NULL,    x.way};
}

// --- a block decoded into bytes ---

struct block {
    _Alignas(64) uint8_t q[QUADS][HALVES][HALF_VECTOR];
    float scale[2][MATMUL_GROUP], offset[2][MATMUL_GROUP];
};

INLINE void part_keep(const int span, const int part, const int half, const __m256i q[2],
                      struct block *out) {
    const int quad = quad_first(span, part);
    _mm256_store_si256((__m256i *)out->q[quad][half], q[0]);
    _mm256_store_si256((__m256i *)out->q[quad + quad_next(span)][half], q[1]);
}

// --- dot products of a span of both halves with n tokens ---
// The codes are kept in out, if it is not NULL. vpmaddubsw sums two products in 16 bits and
// saturates; |xq| <= 127. Additions in 16 bits wrap, so only their end has to fit, and vpmaddwd
// widens it once for a span:
//   4 bits: 16 columns of at most 15 * 127 are 30480.
//   5 and 6 bits with a zero: the end is a sum of (code - zero) * xq, because it begins at -zero
//   times the columns of its own lane; 16 of 16 * 127 (Q5_0) or 8 of 32 * 127 (Q6_K) are 32512.
//   5 bits without a zero: 8 columns of 31 * 127 are 31496, so twice a span.
// Codes of 8 bits are multiplied with |xq|, their own sign turned where xq is negative: 2 * 127 *
// 128 fit, and are widened at once. -q would not fit a byte, but ~q = -q - 1 does; sums begin at
// the missing sum of |xq|.

#if MATMUL_VNNI

#if defined(__AVXVNNI__)
#define DPBUSD _mm256_dpbusd_avx_epi32
#else
#define DPBUSD _mm256_dpbusd_epi32
#endif

INLINE void dots(const struct codec *c, const uint8_t *unit, int block, const int span,
                 const struct places *x, const int n, __m256i (*sum)[HALVES], struct block *out) {
    const int spans = 32 / c->span, parts = PARTS / spans, next = quad_next(c->span);
    UNROLL for (int j = 0; j < n; j++) {
        sum[j][0] = c->zero ? broadcast4(x->start + spans * j + span) : _mm256_setzero_si256();
        sum[j][1] = sum[j][0];
    }
    UNROLL for (int p = span * parts; p < (span + 1) * parts; p++) {
        const int8_t *xq = x->xq + 4 * quad_first(c->span, p);
        __m256i q[HALVES][2];
        for (int h = 0; h < HALVES; h++) {
            c->codes(unit, block, h, p, q[h]);
            if (out) part_keep(c->span, p, h, q[h], out);
        }
        UNROLL for (int j = 0; j < n; j++) {
            const __m256i x0 = broadcast4(xq + 32 * j), x1 = broadcast4(xq + 32 * j + 4 * next);
            for (int h = 0; h < HALVES; h++) {
                sum[j][h] = DPBUSD(sum[j][h], q[h][0], x0);
                sum[j][h] = DPBUSD(sum[j][h], q[h][1], x1);
            }
        }
    }
}

#else

INLINE __m256i sum_add(__m256i sum, __m256i more) {
    sum = _mm256_add_epi32(sum, more);
    IN_ORDER(sum);
    return sum;
}

INLINE __m256i pairs_add(__m256i pairs, __m256i more, const bool first) {
    pairs = first ? more : _mm256_add_epi16(pairs, more);
    IN_ORDER(pairs);
    return pairs;
}

INLINE void dots_bytes(const struct codec *c, const uint8_t *unit, int block,
                       const struct places *x, const int n, __m256i (*sum)[HALVES],
                       struct block *out) {
    UNROLL for (int j = 0; j < n; j++) sum[j][0] = sum[j][1] = broadcast4(x->start + j);
    UNROLL for (int i = 0; i < QUADS; i++) {
        __m256i u[HALVES];
        for (int h = 0; h < HALVES; h++) {
            __m256i q[2];
            c->codes(unit, block, h, i % PARTS, q);
            u[h] = q[i / PARTS];
            if (out) _mm256_store_si256((__m256i *)out->q[i][h], u[h]);
        }
        UNROLL for (int j = 0; j < n; j++) {
            const __m256i magnitude = broadcast4(x->signs[j].magnitude + i);
            const __m256i flip = broadcast4(x->signs[j].flip + i);
            for (int h = 0; h < HALVES; h++) {
                const __m256i v = _mm256_xor_si256(u[h], flip);
                const __m256i pairs = _mm256_maddubs_epi16(magnitude, v);
                sum[j][h] = sum_add(sum[j][h], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
            }
        }
    }
}

INLINE void dots(const struct codec *c, const uint8_t *unit, int block, const int span,
                 const struct places *x, const int n, __m256i (*sum)[HALVES], struct block *out) {
    if (c->bits == 8) {
        dots_bytes(c, unit, block, x, n, sum, out);
        return;
    }
    const int spans = 32 / c->span, parts = PARTS / spans, next = quad_next(c->span);
    const bool wraps = c->zero && c->bits > 4;
    const int fit = wraps || c->bits <= 4 ? parts : 2;
    __m256i pairs[CHUNK][HALVES];
    UNROLL for (int j = 0; j < n; j++) {
        if (wraps) pairs[j][0] = pairs[j][1] = broadcast4(x->start + spans * j + span);
    }
    UNROLL for (int i = 0; i < parts; i++) {
        const int p = span * parts + i;
        const int8_t *xq = x->xq + 4 * quad_first(c->span, p);
        const bool first = !wraps && i % fit == 0;
        __m256i q[HALVES][2];
        for (int h = 0; h < HALVES; h++) {
            c->codes(unit, block, h, p, q[h]);
            if (out) part_keep(c->span, p, h, q[h], out);
        }
        UNROLL for (int j = 0; j < n; j++) {
            const __m256i x0 = broadcast4(xq + 32 * j), x1 = broadcast4(xq + 32 * j + 4 * next);
            for (int h = 0; h < HALVES; h++) {
                pairs[j][h] = pairs_add(pairs[j][h], _mm256_maddubs_epi16(q[h][0], x0), first);
                pairs[j][h] = pairs_add(pairs[j][h], _mm256_maddubs_epi16(q[h][1], x1), false);
            }
        }
        if (i % fit != fit - 1) continue;
        UNROLL for (int j = 0; j < n; j++) {
            for (int h = 0; h < HALVES; h++) {
                const __m256i all = _mm256_madd_epi16(pairs[j][h], _mm256_set1_epi16(1));
                sum[j][h] = i < fit ? all : sum_add(sum[j][h], all);
            }
        }
    }
    if (wraps || c->zero == 0) return;
    UNROLL for (int j = 0; j < n; j++) {
        const __m256i start = broadcast4(x->start + spans * j + span);
        for (int h = 0; h < HALVES; h++) sum[j][h] = sum_add(sum[j][h], start);
    }
}

#endif

// --- blocks ---

// One block of a group for n tokens, the spans in order: acc = fmaf((float)dot, scale * d, acc),
// then acc = fmaf(offset, d * sum, acc).
INLINE void chunk_add(const struct codec *c, const uint8_t *unit, int block, const struct places *x,
                      struct rows *acc, const int n, struct block *out) {
    const int spans = 32 / c->span;
    UNROLL for (int s = 0; s < spans; s++) {
        __m256i sum[CHUNK][HALVES];
        dots(c, unit, block, s, x, n, sum, out);
        const struct rows scale = c->scale(unit, block, s);
        if (out) keep_rows(scale, out->scale[s]);
        UNROLL for (int j = 0; j < n; j++) {
            const __m256 d = _mm256_set1_ps(x->d[j]);
            for (int h = 0; h < HALVES; h++) {
                const __m256 product = _mm256_mul_ps(d, scale.half[h]);
                acc[j].half[h] =
                    _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[j][h]), product, acc[j].half[h]);
            }
        }
        if (!c->offsets) continue;
        const struct rows offset = c->offset(unit, block, s);
        if (out) keep_rows(offset, out->offset[s]);
        UNROLL for (int j = 0; j < n; j++) {
            const __m256 dsum = _mm256_set1_ps(x->offset[spans * j + s]);
            for (int h = 0; h < HALVES; h++)
                acc[j].half[h] = _mm256_fmadd_ps(dsum, offset.half[h], acc[j].half[h]);
        }
    }
}

// Blocks [first, first + count) of the group at w, for n tokens whose blocks are `stride` places
// apart; sums: [n][16]. out: NULL, or where the decoded blocks are kept.
INLINE void chunk_blocks(const struct codec *c, const uint8_t *w, int64_t first, int count,
                         struct places x, int64_t stride, float *sums, const int n,
                         struct block *out) {
    const int64_t block_bytes = c->unit_bytes / c->unit_blocks;
    const bool is_signed = c->bits == 8 && !MATMUL_VNNI;
    struct rows acc[CHUNK];
    struct signs signs[2][CHUNK]; // of this block and the next, whose stores so have time
    UNROLL for (int j = 0; j < n; j++) acc[j] = load_rows(sums + MATMUL_GROUP * j);
    if (is_signed) signs_make(x.xq, n, signs[0]);
    for (int b = 0; b < count; b++) {
        const int64_t at = first + b;
        x.signs = signs[b % 2];
        if (is_signed && b + 1 < count) signs_make(x.xq + 32 * stride, n, signs[(b + 1) % 2]);
        if (c->unit_blocks == 1) // a panel, in the cache
            ;
        else if (n > 1)
            prefetch(w + at * block_bytes, (int)block_bytes);
        else
            prefetch_way(w + at * block_bytes, (int)block_bytes, x.way);
        chunk_add(c, w + at / c->unit_blocks * c->unit_bytes, (int)(at % c->unit_blocks), &x, acc,
                  n, out);
        x = places_after(x, 32 / c->span, stride);
        if (out) out++;
    }
    UNROLL for (int j = 0; j < n; j++) keep_rows(acc[j], sums + MATMUL_GROUP * j);
}

// The same for a tile of tokens.
INLINE void tile_blocks(const struct codec *c, const uint8_t *w, int64_t first, int count,
                        struct places x, int64_t stride, float *sums, int n) {
    for (; n >= CHUNK; n -= CHUNK, sums += CHUNK * MATMUL_GROUP) {
        chunk_blocks(c, w, first, count, x, stride, sums, CHUNK, NULL);
        x = places_after(x, 32 / c->span, CHUNK);
    }
    if (n == 3) chunk_blocks(c, w, first, count, x, stride, sums, 3, NULL);
    if (n == 2) chunk_blocks(c, w, first, count, x, stride, sums, 2, NULL);
    if (n == 1) chunk_blocks(c, w, first, count, x, stride, sums, 1, NULL);
}

// --- a decoded block as a format of its own ---

INLINE void block_codes_32(const uint8_t *unit, int block, int half, int part, __m256i *q) {
    const struct block *from = (const void *)unit;
    (void)block;
    q[0] = load(from->q[quad_first(32, part)][half]);
    q[1] = load(from->q[quad_first(32, part) + quad_next(32)][half]);
}

INLINE void block_codes_16(const uint8_t *unit, int block, int half, int part, __m256i *q) {
    const struct block *from = (const void *)unit;
    (void)block;
    q[0] = load(from->q[quad_first(16, part)][half]);
    q[1] = load(from->q[quad_first(16, part) + quad_next(16)][half]);
}

INLINE struct rows block_scale(const uint8_t *unit, int block, int span) {
    (void)block;
    return load_rows(((const struct block *)(const void *)unit)->scale[span]);
}

INLINE struct rows block_offset(const uint8_t *unit, int block, int span) {
    (void)block;
    return load_rows(((const struct block *)(const void *)unit)->offset[span]);
}

// --- the functions of a format ---

// As chunk_blocks, for a tile of tokens.
typedef void (*tile_blocks_fn)(const uint8_t *w, int64_t first, int count, struct places x,
                               int64_t stride, float *sums, int n);

// What matmul_panel_avx2.c needs of a format.
struct block_kernel {
    int span, zero;
    bool offsets;
    enum starts starts;
    // For one token in the default way. The hardware's prefetchers lose formats whose lines are not
    // read in their order, or that compute for long; with others they are better alone.
    enum matmul_fetch fetch;
    tile_blocks_fn packed, decoded;
    // The first CHUNK tokens of a tile; keeps the decoded blocks for the others.
    void (*decode)(const uint8_t *w, int64_t first, int count, struct places x, int64_t stride,
                   float *sums, struct block *out);
};

// Few tokens: decodes as it multiplies. More: decodes for all tokens first.
void matmul_few_avx2(const struct matmul_args *args, int64_t group_begin, int64_t group_end,
                     int64_t group_bytes, const struct block_kernel *kernel);
void matmul_panel_avx2(const struct matmul_args *args, int64_t group_begin, int64_t group_end,
                       int64_t group_bytes, const struct block_kernel *kernel);

#define STARTS_OF(bits)                                                                            \
    (MATMUL_VNNI || (bits) <= 4 ? STARTS_SUMS : (bits) == 8 ? STARTS_SIGNS : STARTS_PAIRS)

// From the layout's name, the functions of its codec, the columns of a span (without offsets).
#define CODEC(name, layout, span_cols, code_bits, zero_point, fetch_id, scale_fn, offset_fn)       \
    static const struct codec codec_##name = {.span = span_cols,                                   \
                                              .zero = zero_point,                                  \
                                              .bits = code_bits,                                   \
                                              .offsets = offset_fn != NULL,                        \
                                              .unit_blocks = UNIT_COLS_##layout / 32,              \
                                              .unit_bytes = UNIT_BYTES_##layout,                   \
                                              .codes = codes_##name,                               \
                                              .scale = scale_fn,                                   \
                                              .offset = offset_fn};                                \
    static const struct codec codec_##name##_decoded = {.span = span_cols,                         \
                                                        .zero = zero_point,                        \
                                                        .bits = code_bits,                         \
                                                        .offsets = offset_fn != NULL,              \
                                                        .unit_blocks = 1,                          \
                                                        .unit_bytes = sizeof(struct block),        \
                                                        .codes = block_codes_##span_cols,          \
                                                        .scale = block_scale,                      \
                                                        .offset = block_offset};                   \
    static void name##_packed(const uint8_t *w, int64_t first, int count, struct places x,         \
                              int64_t stride, float *sums, int n) {                                \
        tile_blocks(&codec_##name, w, first, count, x, stride, sums, n);                           \
    }                                                                                              \
    static void name##_decoded(const uint8_t *w, int64_t first, int count, struct places x,        \
                               int64_t stride, float *sums, int n) {                               \
        tile_blocks(&codec_##name##_decoded, w, first, count, x, stride, sums, n);                 \
    }                                                                                              \
    static void name##_decode(const uint8_t *w, int64_t first, int count, struct places x,         \
                              int64_t stride, float *sums, struct block *out) {                    \
        chunk_blocks(&codec_##name, w, first, count, x, stride, sums, CHUNK, out);                 \
    }                                                                                              \
    static const struct block_kernel kernel_##name = {.span = span_cols,                           \
                                                      .zero = zero_point,                          \
                                                      .offsets = offset_fn != NULL,                \
                                                      .starts = STARTS_OF(code_bits),              \
                                                      .fetch = FETCH_##fetch_id,                   \
                                                      .packed = name##_packed,                     \
                                                      .decoded = name##_decoded,                   \
                                                      .decode = name##_decode};                    \
    void MATMUL_NAME(name)(const struct matmul_args *args, int64_t group_begin,                    \
                           int64_t group_end) {                                                    \
        matmul_few_avx2(args, group_begin, group_end, matmul_group_bytes_##layout(args->cols),     \
                        &kernel_##name);                                                           \
    }                                                                                              \
    void MATMUL_NAME(name##_panel)(const struct matmul_args *args, int64_t group_begin,            \
                                   int64_t group_end) {                                            \
        matmul_panel_avx2(args, group_begin, group_end, matmul_group_bytes_##layout(args->cols),   \
                          &kernel_##name);                                                         \
    }

#endif

// The AVX2 and AVX-VNNI kernels of block formats, as one template. A lane is a row, a group of 16
// is two registers (halves), and up to 4 tokens are computed together: 8 sums, 4 vectors of weights
// and 2 of activations fill the 16 registers. Formats differ in their codec; MATMUL_VNNI says how
// bytes are multiplied. Integer sums are exact, so only the float operations after them are
// ordered: per lane they are matmul_reference()'s.
//
// The weights' bytes are unsigned (q + zero); an integer sum therefore begins at -zero * sum(xq).
// For few tokens weights are decoded as they are used; for more tokens blocks are decoded into
// bytes first. The loops around both are in matmul_panel_avx2.c.
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

// Prefetches the bytes 8 KiB ahead into the second-level cache: the buffers of the first are too
// few for memory's latency. Addresses past the end of the weights do no harm.
INLINE void prefetch(const uint8_t *w, int bytes) {
    for (int i = 0; i < bytes; i += PACK_VECTOR)
        _mm_prefetch((const char *)w + 8192 + i, _MM_HINT_T1);
}

// The data of n tokens for one block: each pointer is to the first token's.
struct places {
    const int8_t *xq;
    const float *d;
    const int32_t *start; // per span
    const float *offset;  // per span
};

// --- dot products of a span of both halves with n tokens ---
// vpmaddubsw sums two products in 16 bits and saturates, so without vpdpbusd each format keeps
// within them; |xq| <= 127. Codes of 4 bits: 8 quads of 2 * 15 * 127 are 30480 at most. 5 bits: 4
// quads, 31496. 6 bits: 2 quads, 32004. 8 bits are widened to 16 first.

#if MATMUL_VNNI

#if defined(__AVXVNNI__)
#define DPBUSD _mm256_dpbusd_avx_epi32
#else
#define DPBUSD _mm256_dpbusd_epi32
#endif

INLINE void dots(const struct codec *c, const uint8_t *unit, int block, const int span,
                 const struct places *x, const int n, __m256i (*sum)[HALVES]) {
    const int spans = 32 / c->span, parts = PARTS / spans, next = quad_next(c->span);
    UNROLL for (int j = 0; j < n; j++) {
        sum[j][0] = c->zero ? broadcast4(x->start + spans * j + span) : _mm256_setzero_si256();
        sum[j][1] = sum[j][0];
    }
    UNROLL for (int p = span * parts; p < (span + 1) * parts; p++) {
        const int8_t *xq = x->xq + 4 * quad_first(c->span, p);
        __m256i q[HALVES][2];
        for (int h = 0; h < HALVES; h++) c->codes(unit, block, h, p, q[h]);
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

// Activations in 16 bits: columns 0 and 2 of each quad, and 1 and 3.
struct wide {
    _Alignas(32) int32_t even[QUADS], odd[QUADS];
};

INLINE void wide_make(const int8_t *xq, struct wide *out) {
    const __m256i x = load(xq);
    const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8);
    _mm256_store_si256((__m256i *)out->even, even);
    _mm256_store_si256((__m256i *)out->odd, _mm256_srai_epi16(x, 8));
    __asm__("" : : "r"(out) : "memory"); // or gcc broadcasts from registers, which costs more
}

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
                       const struct places *x, const int n, __m256i (*sum)[HALVES]) {
    struct wide wide[CHUNK];
    UNROLL for (int j = 0; j < n; j++) {
        wide_make(x->xq + 32 * j, &wide[j]);
        sum[j][0] = sum[j][1] = broadcast4(x->start + j);
    }
    UNROLL for (int i = 0; i < QUADS; i++) {
        __m256i even[HALVES], odd[HALVES];
        for (int h = 0; h < HALVES; h++) {
            __m256i q[2];
            c->codes(unit, block, h, i % PARTS, q);
            even[h] = _mm256_and_si256(q[i / PARTS], _mm256_set1_epi16(255));
            odd[h] = _mm256_srli_epi16(q[i / PARTS], 8);
        }
        UNROLL for (int j = 0; j < n; j++) {
            const __m256i x0 = broadcast4(wide[j].even + i), x1 = broadcast4(wide[j].odd + i);
            for (int h = 0; h < HALVES; h++) {
                sum[j][h] = sum_add(sum[j][h], _mm256_madd_epi16(even[h], x0));
                sum[j][h] = sum_add(sum[j][h], _mm256_madd_epi16(odd[h], x1));
            }
        }
    }
}

INLINE void dots(const struct codec *c, const uint8_t *unit, int block, const int span,
                 const struct places *x, const int n, __m256i (*sum)[HALVES]) {
    if (c->bits == 8) {
        dots_bytes(c, unit, block, x, n, sum);
        return;
    }
    const int spans = 32 / c->span, parts = PARTS / spans, next = quad_next(c->span);
    const int most = c->bits <= 4 ? 4 : c->bits == 5 ? 2 : 1, fit = most < parts ? most : parts;
    __m256i pairs[CHUNK][HALVES];
    UNROLL for (int i = 0; i < parts; i++) {
        const int p = span * parts + i;
        const int8_t *xq = x->xq + 4 * quad_first(c->span, p);
        __m256i q[HALVES][2];
        for (int h = 0; h < HALVES; h++) c->codes(unit, block, h, p, q[h]);
        UNROLL for (int j = 0; j < n; j++) {
            const __m256i x0 = broadcast4(xq + 32 * j), x1 = broadcast4(xq + 32 * j + 4 * next);
            for (int h = 0; h < HALVES; h++) {
                pairs[j][h] =
                    pairs_add(pairs[j][h], _mm256_maddubs_epi16(q[h][0], x0), i % fit == 0);
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
    if (c->zero == 0) return;
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
                      struct rows *acc, const int n) {
    const int spans = 32 / c->span;
    UNROLL for (int s = 0; s < spans; s++) {
        __m256i sum[CHUNK][HALVES];
        dots(c, unit, block, s, x, n, sum);
        const struct rows scale = c->scale(unit, block, s);
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
        UNROLL for (int j = 0; j < n; j++) {
            const __m256 dsum = _mm256_set1_ps(x->offset[spans * j + s]);
            for (int h = 0; h < HALVES; h++)
                acc[j].half[h] = _mm256_fmadd_ps(dsum, offset.half[h], acc[j].half[h]);
        }
    }
}

// Blocks [first, first + count) of the group at w, for n tokens whose blocks are `stride` places
// apart; sums: [n][16].
INLINE void chunk_blocks(const struct codec *c, const uint8_t *w, int64_t first, int count,
                         struct places x, int64_t stride, float *sums, const int n) {
    const int64_t spans = 32 / c->span, block_bytes = c->unit_bytes / c->unit_blocks;
    struct rows acc[CHUNK];
    UNROLL for (int j = 0; j < n; j++) acc[j] = load_rows(sums + MATMUL_GROUP * j);
    for (int64_t b = first; b < first + count; b++) {
        // One token alone is better left to the hardware.
        if (n > 1 && c->unit_blocks > 1) prefetch(w + b * block_bytes, (int)block_bytes);
        chunk_add(c, w + b / c->unit_blocks * c->unit_bytes, (int)(b % c->unit_blocks), &x, acc, n);
        x.xq += 32 * stride, x.d += stride;
        x.start += spans * stride, x.offset += spans * stride;
    }
    UNROLL for (int j = 0; j < n; j++) keep_rows(acc[j], sums + MATMUL_GROUP * j);
}

// The same for a tile of tokens.
INLINE void tile_blocks(const struct codec *c, const uint8_t *w, int64_t first, int count,
                        struct places x, int64_t stride, float *sums, int n) {
    const int spans = 32 / c->span;
    for (; n >= CHUNK; n -= CHUNK, sums += CHUNK * MATMUL_GROUP) {
        chunk_blocks(c, w, first, count, x, stride, sums, CHUNK);
        x.xq += 32 * CHUNK, x.d += CHUNK, x.start += spans * CHUNK, x.offset += spans * CHUNK;
    }
    if (n == 3) chunk_blocks(c, w, first, count, x, stride, sums, 3);
    if (n == 2) chunk_blocks(c, w, first, count, x, stride, sums, 2);
    if (n == 1) chunk_blocks(c, w, first, count, x, stride, sums, 1);
}

// --- a block decoded into bytes: a format of its own ---

struct block {
    _Alignas(64) uint8_t q[QUADS][HALVES][HALF_VECTOR];
    float scale[2][MATMUL_GROUP], offset[2][MATMUL_GROUP];
};

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

// Blocks [first, first + count) of the group that begins at w.
INLINE void blocks_decode(const struct codec *c, const uint8_t *w, int64_t first, int count,
                          struct block *out) {
    const int64_t block_bytes = c->unit_bytes / c->unit_blocks;
    const int spans = 32 / c->span;
    for (int64_t b = first; b < first + count; b++, out++) {
        const uint8_t *unit = w + b / c->unit_blocks * c->unit_bytes;
        const int block = (int)(b % c->unit_blocks);
        prefetch(w + b * block_bytes, (int)block_bytes);
        UNROLL for (int p = 0; p < PARTS; p++) {
            uint8_t(*quad)[HALVES][HALF_VECTOR] = &out->q[quad_first(c->span, p)];
            for (int h = 0; h < HALVES; h++) {
                __m256i q[2];
                c->codes(unit, block, h, p, q);
                _mm256_store_si256((__m256i *)quad[0][h], q[0]);
                _mm256_store_si256((__m256i *)quad[quad_next(c->span)][h], q[1]);
            }
        }
        UNROLL for (int s = 0; s < spans; s++) {
            keep_rows(c->scale(unit, block, s), out->scale[s]);
            if (c->offsets) keep_rows(c->offset(unit, block, s), out->offset[s]);
        }
    }
}

// --- the functions of a format ---

// As chunk_blocks, for a tile of tokens.
typedef void (*tile_blocks_fn)(const uint8_t *w, int64_t first, int count, struct places x,
                               int64_t stride, float *sums, int n);

// What matmul_panel_avx2.c needs of a format.
struct block_kernel {
    int span, zero;
    bool offsets;
    tile_blocks_fn packed, decoded;
    void (*decode)(const uint8_t *w, int64_t first, int count, struct block *out);
};

// Few tokens: decodes as it multiplies. More: decodes for all tokens first.
void matmul_few_avx2(const struct matmul_args *args, int64_t group_begin, int64_t group_end,
                     int64_t group_bytes, const struct block_kernel *kernel);
void matmul_panel_avx2(const struct matmul_args *args, int64_t group_begin, int64_t group_end,
                       int64_t group_bytes, const struct block_kernel *kernel);

// From the layout's name, the functions of its codec, the columns of a span (without offsets).
#define CODEC(name, layout, span_cols, code_bits, zero_point, scale_fn, offset_fn)                 \
    static const struct codec codec_##name = {                                                     \
        span_cols,           zero_point,   code_bits, offset_fn != NULL, UNIT_COLS_##layout / 32,  \
        UNIT_BYTES_##layout, codes_##name, scale_fn,  offset_fn};                                  \
    static const struct codec codec_##name##_decoded = {span_cols,                                 \
                                                        zero_point,                                \
                                                        code_bits,                                 \
                                                        offset_fn != NULL,                         \
                                                        1,                                         \
                                                        sizeof(struct block),                      \
                                                        block_codes_##span_cols,                   \
                                                        block_scale,                               \
                                                        block_offset};                             \
    static void name##_packed(const uint8_t *w, int64_t first, int count, struct places x,         \
                              int64_t stride, float *sums, int n) {                                \
        tile_blocks(&codec_##name, w, first, count, x, stride, sums, n);                           \
    }                                                                                              \
    static void name##_decoded(const uint8_t *w, int64_t first, int count, struct places x,        \
                               int64_t stride, float *sums, int n) {                               \
        tile_blocks(&codec_##name##_decoded, w, first, count, x, stride, sums, n);                 \
    }                                                                                              \
    static void name##_decode(const uint8_t *w, int64_t first, int count, struct block *out) {     \
        blocks_decode(&codec_##name, w, first, count, out);                                        \
    }                                                                                              \
    static const struct block_kernel kernel_##name = {span_cols,         zero_point,               \
                                                      offset_fn != NULL, name##_packed,            \
                                                      name##_decoded,    name##_decode};           \
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

// The AVX-512 kernels of block formats for one token. Memory is the limit, so a kernel's
// instructions must hide behind it, and its loads must come in an order that prefetchers follow:
// line after line. Hence the small scales at the start of a unit of 256 columns are decoded for all
// its blocks first.
//
// Per lane the operations are matmul_reference()'s for every way of reading. Included after
// matmul_avx512.h or matmul_avx512bw.h, which have the products of a span.
#ifndef RN_BACKEND_CPU_MATMUL_ONE_AVX512_H
#define RN_BACKEND_CPU_MATMUL_ONE_AVX512_H

#include "backend/cpu/matmul_runs_avx512.h"

enum { HEADER_STEP = 2 }; // blocks whose loads are different instructions

// start and offset: [cols / span] of the token; see starts_make.
struct one {
    const struct matmul_args *args;
    const int32_t *start;
    const float *offset;
};

// Small integers times d, the scales of a block.
INLINE void header_times(const int8_t (*bytes)[MATMUL_GROUP], __m512 d, const int spans,
                         __m512 *out) {
    for (int s = 0; s < spans; s++) {
        const __m512i wide = _mm512_cvtepi8_epi32(_mm_load_si128((const __m128i *)bytes[s]));
        out[s] = _mm512_mul_ps(d, _mm512_cvtepi32_ps(wide));
    }
}

// acc, after block `block` of a unit, which is number b of the row.
INLINE __m512 one_block(const struct codec *c, const struct one *one, __m512 acc,
                        const uint8_t *unit, const struct header *header, const int block,
                        int64_t b) {
    const int spans = 32 / c->span, quads = c->span / 4;
    const int8_t *x = one->args->xq + 32 * b;
    __m512i q[QUADS];
    __m512 scale[2], min[2];
    one_codes(c, unit, block, q);
    if (c->header) {
        header_times(&header->scale[spans * block], header->d, spans, scale);
        if (c->offsets) header_times(&header->min[spans * block], header->dmin, spans, min);
    } else {
        c->scales(unit, block, scale);
        if (c->offsets) c->mins(unit, block, min);
    }
    for (int s = 0; s < spans; s++) {
        const int64_t at = b * spans + s;
        const __m512i sum = one_dot(c, one->start + at, q + s * quads, x + s * c->span);
        const __m512 product = _mm512_mul_ps(scale[s], _mm512_set1_ps(one->args->xd[b]));
        acc = fma_onto(acc, _mm512_cvtepi32_ps(sum), product);
        if (c->offsets) acc = _mm512_fmadd_ps(min[s], _mm512_set1_ps(one->offset[at]), acc);
    }
    return acc;
}

// Lines of a unit that the blocks before `block` requested.
INLINE int lines_before(const struct codec *c, const int block) {
    return block * (c->unit_bytes / PACK_VECTOR) / c->unit_blocks;
}

// Blocks of the last NEXT_BYTES of a group.
INLINE int tail_blocks(const struct codec *c) {
    return NEXT_BYTES * c->unit_blocks / c->unit_bytes;
}

// A group of each run; w and row are those of the first run's.
INLINE void one_groups(const struct codec *c, const struct one *one, const uint8_t *w, int64_t row,
                       const struct runs *runs, const int streams, const enum matmul_fetch kind) {
    const int64_t blocks = one->args->cols / MATMUL_SPAN;
    const int ahead = one->args->way.ahead;
    const int step = c->header ? HEADER_STEP : c->unit_blocks;
    const int64_t tail = row == runs->last_row && streams > 1 ? blocks - tail_blocks(c) : blocks;
    struct header header[ONE_STREAMS];
    __m512 acc[ONE_STREAMS];
    int64_t b = 0;
    for (int s = 0; s < streams; s++) acc[s] = _mm512_setzero_ps();
    for (; b + c->unit_blocks <= blocks; b += c->unit_blocks, w += c->unit_bytes) {
        for (int s = 0; c->header && s < streams; s++) c->header(w + s * runs->bytes, &header[s]);
        // Not unrolled further: prefetchers follow few load instructions at a time.
        _Pragma("GCC unroll 1") for (int i0 = 0; i0 < c->unit_blocks; i0 += step) {
            for (int s = 0; s < streams; s++) {
                const uint8_t *unit = w + s * runs->bytes;
                const uint8_t *line = unit + lines_before(c, i0) * PACK_VECTOR;
                fetch(line, lines_before(c, step), kind, ahead);
                if (b + i0 >= tail) fetch_next(line, lines_before(c, step), runs, streams);
                UNROLL for (int i = 0; i < step; i++) {
                    acc[s] = one_block(c, one, acc[s], unit, &header[s], i0 + i, b + i0 + i);
                }
            }
        }
    }
    for (int i = 0; !c->header && b < blocks; i++, b++) {
        for (int s = 0; s < streams; s++)
            acc[s] = one_block(c, one, acc[s], w + s * runs->bytes, NULL, i, b);
    }
    for (int s = 0; s < streams; s++)
        rows_store(one->args, acc[s], row + s * runs->length * MATMUL_GROUP, 0);
}

typedef void (*one_fn)(const struct one *one, const uint8_t *w, int64_t row,
                       const struct runs *runs);

static inline void one_run(const struct one *one, int64_t begin, int64_t end, int64_t bytes,
                           one_fn alone, one_fn pair) {
    const uint8_t *w = one->args->w;
    if (one->args->way.wide) {
        const struct runs runs = runs_make(begin, (end - begin) / 2, bytes);
        for (int64_t i = 0; i < runs.length; i++, begin++)
            pair(one, w + begin * bytes, begin * MATMUL_GROUP, &runs);
        begin += runs.length;
    }
    const struct runs runs = runs_make(begin, end - begin, bytes);
    for (; begin < end; begin++) alone(one, w + begin * bytes, begin * MATMUL_GROUP, &runs);
}

// The function of a format, from codec_<name> and the layout's name. Rows whose starts would not
// fit the scratch are a case for the tiles.
#define MATMUL_ONE(name, layout)                                                                   \
    static void name##_one_1(const struct one *one, const uint8_t *w, int64_t row,                 \
                             const struct runs *runs) {                                            \
        FETCH_SWITCH(one->args->way.fetch, one_groups, &codec_##name, one, w, row, runs, 1)        \
    }                                                                                              \
    static void name##_one_2(const struct one *one, const uint8_t *w, int64_t row,                 \
                             const struct runs *runs) {                                            \
        FETCH_SWITCH(one->args->way.fetch, one_groups, &codec_##name, one, w, row, runs, 2)        \
    }                                                                                              \
    void MATMUL_NAME(name##_one)(const struct matmul_args *args, int64_t begin, int64_t end) {     \
        const int64_t blocks = args->cols / MATMUL_SPAN;                                           \
        const struct one one = {args, args->scratch, args->scratch};                               \
        if (blocks > ONE_BLOCKS) {                                                                 \
            MATMUL_NAME(name)(args, begin, end);                                                   \
            return;                                                                                \
        }                                                                                          \
        starts_make(args, 0, (int)blocks, codec_##name.span, codec_##name.zero,                    \
                    codec_##name.offsets, args->scratch, args->scratch);                           \
        one_run(&one, begin, end, matmul_group_bytes_##layout(args->cols), name##_one_1,           \
                name##_one_2);                                                                     \
    }

#endif

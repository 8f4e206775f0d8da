// The AVX-512 kernels for one token. Memory is the limit, so a kernel's instructions must hide
// behind it, and its loads must come in an order that prefetchers follow: line after line. Hence
// the small scales at the start of a unit of 256 columns are decoded for all its blocks first.
//
// A way (matmul.h) says how far ahead lines are requested, and how many runs of groups are read
// side by side. The choice is the machine's (tune.c). Per lane the operations are
// matmul_reference()'s for every way. Used by matmul_{blocks,k,float}_avx512.c.
#ifndef RN_BACKEND_CPU_MATMUL_ONE_AVX512_H
#define RN_BACKEND_CPU_MATMUL_ONE_AVX512_H

#include "backend/cpu/matmul_avx512.h"

enum {
    ONE_STREAMS = 4,
    HEADER_STEP = 2,   // blocks whose loads are different instructions
    NEXT_BYTES = 2048, // of a run that are requested before it begins
};

// Requests `lines` lines; `at` is the address that is read now.
INLINE void fetch(const uint8_t *at, const int lines, const struct matmul_way *way) {
    const char *p = (const char *)at + way->ahead;
    if (way->fetch == FETCH_NONE) return;
    if (way->fetch == FETCH_L1) {
        for (int i = 0; i < lines; i++) _mm_prefetch(p + PACK_VECTOR * i, _MM_HINT_T0);
    } else if (way->fetch == FETCH_L2) {
        for (int i = 0; i < lines; i++) _mm_prefetch(p + PACK_VECTOR * i, _MM_HINT_T1);
    } else if (way->fetch == FETCH_BOTH) {
        const char *near = (const char *)at + way->ahead / FETCH_NEAR;
        for (int i = 0; i < lines; i++) _mm_prefetch(near + PACK_VECTOR * i, _MM_HINT_T0);
        for (int i = 0; i < lines; i++) _mm_prefetch(p + PACK_VECTOR * i, _MM_HINT_T1);
    } else {
        for (int i = 0; i < lines; i++) _mm_prefetch(p + PACK_VECTOR * i, _MM_HINT_NTA);
    }
}

// A call cuts its groups into runs of equal length, which are read side by side.
struct runs {
    int64_t length, bytes; // of a run, in groups and in bytes
    int64_t last_row;      // of the first run's last group
};

INLINE struct runs runs_make(int64_t begin, int64_t n, int64_t group_bytes) {
    return (struct runs){n, n * group_bytes, (begin + n - 1) * MATMUL_GROUP};
}

// Requests the lines that continue the run in the thread's next call. Prefetchers are of no help
// there: the lines behind this run are those of the call's next run.
INLINE void fetch_next(const uint8_t *at, const int lines, const struct runs *runs,
                       const int streams) {
    const uint8_t *next = at + NEXT_BYTES + (streams - 1) * runs->bytes;
    for (int i = 0; i < lines; i++) _mm_prefetch((const char *)next + PACK_VECTOR * i, _MM_HINT_T1);
}

// ---------------------------------------------------------------- block formats

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

// A sum of 8 quads is two chains. Loads must stay in order, so quads that are loaded one by one
// alternate.
INLINE __m512i one_dot(const struct codec *c, __m512i sum, const __m512i *q, const int8_t *x) {
    __m512i more = _mm512_setzero_si512();
    if (c->span == 16) {
        for (int i = 0; i < QUADS / 2; i++) sum = dot(sum, q[i], x + 4 * i);
        return sum;
    }
    if (!c->codes_one) {
        for (int i = 0; i < QUADS; i += 2) {
            sum = dot(sum, q[i], x + 4 * i);
            more = dot(more, q[i + 1], x + 4 * i + 4);
        }
        return _mm512_add_epi32(sum, more);
    }
    for (int i = 0; i < QUADS / 2; i++) {
        sum = dot(sum, q[i], x + 4 * i);
        more = dot(more, q[i + 4], x + 4 * i + 16);
    }
    return _mm512_add_epi32(sum, _mm512_srai_epi32(more, 4));
}

// acc, after block `block` of a unit, which is number b of the row.
INLINE __m512 one_block(const struct codec *c, const struct one *one, __m512 acc,
                        const uint8_t *unit, const struct header *header, const int block,
                        int64_t b) {
    const int spans = 32 / c->span, quads = c->span / 4;
    const int8_t *x = one->args->xq + 32 * b;
    __m512i q[QUADS];
    __m512 scale[2], min[2];
    (c->codes_one ? c->codes_one : c->codes)(unit, block, q);
    if (c->header) {
        header_times(&header->scale[spans * block], header->d, spans, scale);
        if (c->offsets) header_times(&header->min[spans * block], header->dmin, spans, min);
    } else {
        c->scales(unit, block, scale);
        if (c->offsets) c->mins(unit, block, min);
    }
    for (int s = 0; s < spans; s++) {
        const int64_t at = b * spans + s;
        __m512i sum = c->offsets ? _mm512_setzero_si512() : _mm512_set1_epi32(one->start[at]);
        sum = one_dot(c, sum, q + s * quads, x + s * c->span);
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
                       const struct runs *runs, const int streams) {
    const int64_t blocks = one->args->cols / MATMUL_SPAN;
    const struct matmul_way way = one->args->way;
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
                fetch(line, lines_before(c, step), &way);
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
        one_groups(&codec_##name, one, w, row, runs, 1);                                           \
    }                                                                                              \
    static void name##_one_2(const struct one *one, const uint8_t *w, int64_t row,                 \
                             const struct runs *runs) {                                            \
        one_groups(&codec_##name, one, w, row, runs, 2);                                           \
    }                                                                                              \
    void matmul_##name##_one_avx512(const struct matmul_args *args, int64_t begin, int64_t end) {  \
        const int64_t blocks = args->cols / MATMUL_SPAN;                                           \
        const struct one one = {args, args->scratch, args->scratch};                               \
        if (blocks > ONE_BLOCKS) {                                                                 \
            matmul_##name##_avx512(args, begin, end);                                              \
            return;                                                                                \
        }                                                                                          \
        starts_make(args, 0, (int)blocks, codec_##name.span, codec_##name.zero,                    \
                    codec_##name.offsets, args->scratch, args->scratch);                           \
        one_run(&one, begin, end, matmul_group_bytes_##layout(args->cols), name##_one_1,           \
                name##_one_2);                                                                     \
    }

// Blocks of a row whose starts, two for each, fit the scratch in whole vectors.
enum { ONE_BLOCKS = MATMUL_SCRATCH_BYTES / 8 - 16 };

#endif

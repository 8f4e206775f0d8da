// What the AVX-512 kernels with and without VNNI share: codecs, starts, results, and requests for
// memory. A lane is a row of the group. Included by matmul_avx512.h, matmul_avx512bw.h and
// matmul_runs_avx512.h; nothing here needs VNNI.
#ifndef RN_BACKEND_CPU_MATMUL_BASE_AVX512_H
#define RN_BACKEND_CPU_MATMUL_BASE_AVX512_H

#include <immintrin.h>

#include "backend/cpu/matmul_table.h"
#include "backend/cpu/matmul_tile.h"

// A template defines MATMUL_SUFFIX.
#define PASTE_3(a, b, c)  a##b##_##c
#define PASTE(a, b, c)    PASTE_3(a, b, c)
#define MATMUL_NAME(name) PASTE(matmul_, name, MATMUL_SUFFIX)

enum {
    QUADS = 8,         // of a block of 32 columns
    AHEAD_NEAR = 4096, // bytes from the line that is read to the line that is requested
    AHEAD = 8192,      // the same where a token has few bytes: reading waits for arithmetic
    TOKEN_BYTES = 72,  // of a block for each token, at most, for that
    TILE_MAX = 8,      // tokens of a tile whose weights are one group
    PANEL_BLOCKS = 16, // of a panel: those of two groups stay in the first-level cache
    PAIR_TOKENS = 4    // whose sums are in registers where two groups share activations
};

// The scales of a unit of 256 columns: scale * d and min * dmin, span after span.
struct header {
    _Alignas(64) int8_t scale[16][MATMUL_GROUP], min[16][MATMUL_GROUP];
    __m512 d, dmin;
};

// How a format's packed unit becomes numbers. block: of 32 columns, inside the unit. Formats with
// spans of 16 have two scales and offsets for a block.
struct codec {
    int span, zero;
    int bits;     // of a code: 4 or fewer, 5, 6 or 8
    bool offsets; // then zero is 0
    int unit_blocks, unit_bytes;
    void (*codes)(const uint8_t *unit, int block, __m512i q[QUADS]); // q + zero
    void (*scales)(const uint8_t *unit, int block, __m512 scale[2]);
    void (*mins)(const uint8_t *unit, int block, __m512 offset[2]);
    // For one token with VNNI. NULL: codes. Else the second half of the quads, and their sum, is 16
    // times too large.
    void (*codes_one)(const uint8_t *unit, int block, __m512i q[QUADS]);
    void (*header)(const uint8_t *unit, struct header *out); // NULL: scales, mins
};

INLINE __m512i load(const uint8_t *p) { return _mm512_loadu_si512(p); }

INLINE __m512 load_f16(const uint8_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

static __attribute__((noinline, unused)) void rows_store(const struct matmul_args *args, __m512 y,
                                                         int64_t row, int token) {
    const int64_t left = args->rows - row;
    const __mmask16 mask = left >= MATMUL_GROUP ? 0xffff : (__mmask16)((1u << left) - 1);
    float *out = args->y + token * args->ldy + row;
    if (args->scale != 1.0f) y = _mm512_mul_ps(y, _mm512_set1_ps(args->scale));
    if (args->bias) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, args->bias + row));
    if (args->add) y = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, out), y);
    _mm512_mask_storeu_ps(out, mask, y);
    _mm256_zeroupper(); // gcc leaves out its own where a function takes a wide register
}

// Prefetches the bytes ahead into the second-level cache, for n tokens: the buffers of the first
// are too few for memory's latency. One token alone is better left to the hardware. Addresses past
// the end of the weights do no harm.
INLINE void prefetch(const uint8_t *w, int bytes, const int n) {
    const int ahead = bytes > n * TOKEN_BYTES ? AHEAD_NEAR : AHEAD;
    for (int i = 0; n > 1 && i < bytes; i += PACK_VECTOR)
        _mm_prefetch((const char *)w + ahead + i, _MM_HINT_T1);
}

// Of count (block, token) places from `at` on, with spans of 16 two each: -zero * sum, or, where
// the format has offsets (and no zero), d * sum.
INLINE void starts_make(const struct matmul_args *args, int64_t at, int count, const int span,
                        const int zero, const bool offsets, int32_t *start, float *offset) {
    const int16_t *sums = args->xsum + 2 * at;
    const float *d = args->xd + at;
    for (int i = 0; i < count; i += 16) {
        const int left = count - i;
        const __mmask16 mask = left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1);
        const __m512i pairs = _mm512_maskz_loadu_epi32(mask, sums + 2 * i);
        const __m512 scale = _mm512_maskz_loadu_ps(mask, d + i);
        if (span == 32) {
            const __m512i sum = _mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
            const __m512i from = _mm512_madd_epi16(pairs, _mm512_set1_epi16((short)-zero));
            if (offsets)
                _mm512_store_ps(offset + i, _mm512_mul_ps(scale, _mm512_cvtepi32_ps(sum)));
            else
                _mm512_store_si512(start + i, from);
            continue;
        }
        const __m512i twice_low = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
        const __m512i twice_high = _mm512_add_epi32(twice_low, _mm512_set1_epi32(8));
        const __m512i low = _mm512_cvtepi16_epi32(_mm512_castsi512_si256(pairs));
        const __m512i high = _mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64(pairs, 1));
        const __m512i minus = _mm512_set1_epi32(-zero);
        if (!offsets) {
            _mm512_store_si512(start + 2 * i, _mm512_mullo_epi32(low, minus));
            _mm512_store_si512(start + 2 * i + 16, _mm512_mullo_epi32(high, minus));
        } else {
            const __m512 d0 = _mm512_permutexvar_ps(twice_low, scale);
            const __m512 d1 = _mm512_permutexvar_ps(twice_high, scale);
            _mm512_store_ps(offset + 2 * i, _mm512_mul_ps(d0, _mm512_cvtepi32_ps(low)));
            _mm512_store_ps(offset + 2 * i + 16, _mm512_mul_ps(d1, _mm512_cvtepi32_ps(high)));
        }
    }
}

INLINE __m512 fma_onto(__m512 acc, __m512 a, __m512 b) {
    __asm__("vfmadd231ps %1, %2, %0" : "+v"(acc) : "v"(a), "v"(b));
    return acc;
}

// As rows_store of groups [g0, g0 + groups) and n tokens from `token` on. A token's groups are
// neighbours in memory. sums: of the first group, [n][16]; the others are `stride` apart.
static inline __attribute__((unused)) void sums_store(const struct matmul_args *args,
                                                      const float *sums, int64_t stride, int64_t g0,
                                                      int groups, int token, int n) {
    __mmask16 mask[MATMUL_PANEL_GROUPS];
    __m512 bias[MATMUL_PANEL_GROUPS];
    const __m512 scale = _mm512_set1_ps(args->scale);
    for (int g = 0; g < groups; g++) {
        const int64_t row = (g0 + g) * MATMUL_GROUP, left = args->rows - row;
        mask[g] = left >= MATMUL_GROUP ? 0xffff : (__mmask16)((1u << left) - 1);
        if (args->bias) bias[g] = _mm512_maskz_loadu_ps(mask[g], args->bias + row);
    }
    for (int t = 0; t < n; t++) {
        float *out = args->y + (token + t) * args->ldy + g0 * MATMUL_GROUP;
        for (int g = 0; g < groups; g++, out += MATMUL_GROUP) {
            __m512 y = _mm512_load_ps(sums + g * stride + t * MATMUL_GROUP);
            if (args->scale != 1.0f) y = _mm512_mul_ps(y, scale);
            if (args->bias) y = _mm512_add_ps(y, bias[g]);
            if (args->add) y = _mm512_add_ps(_mm512_maskz_loadu_ps(mask[g], out), y);
            _mm512_mask_storeu_ps(out, mask[g], y);
        }
    }
}

#endif

// The AVX-512 kernels of block formats for a few tokens, whose float sums stay in registers: a
// block of one group is decoded once for all of them. Included by matmul_avx512.h and
// matmul_avx512bw.h, which define block_add and TURNS.
#ifndef RN_BACKEND_CPU_MATMUL_TILES_AVX512_H
#define RN_BACKEND_CPU_MATMUL_TILES_AVX512_H

#include "backend/cpu/matmul_base_avx512.h"

enum { STEP_BLOCKS = 8 }; // blocks between two preparations of starts and offsets

// n tokens from `token` on, all in one tile of the activations.
INLINE void tile_block(const struct codec *c, const struct matmul_args *args, const uint8_t *w,
                       int64_t row, int token, const int n) {
    _Alignas(64) int32_t start[STEP_BLOCKS * MATMUL_TILE * 2];
    _Alignas(64) float offset[STEP_BLOCKS * MATMUL_TILE * 2];
    const int64_t blocks = args->cols / MATMUL_SPAN;
    const struct matmul_x x = matmul_x_of(args->n, token, args->cols);
    const int64_t stride = x.stride, within = token % MATMUL_TILE;
    const int spans = 32 / c->span;
    const int turns = c->span == 32 ? TURNS : 1; // two scales leave too few registers
    __m512 acc[MATMUL_TILE];
    UNROLL for (int j = 0; j < n; j++) acc[j] = _mm512_setzero_ps();
    for (int64_t b0 = 0; b0 < blocks; b0 += STEP_BLOCKS) {
        const int count = blocks - b0 < STEP_BLOCKS ? (int)(blocks - b0) : STEP_BLOCKS;
        starts_make(args, x.first - within + b0 * stride, count * (int)stride, c->span, c->zero,
                    c->offsets, start, offset);
        for (int i = 0; i < count; i++) {
            const int64_t b = b0 + i, at = x.first + b * stride, local = i * stride + within;
            const uint8_t *unit = w + b / c->unit_blocks * c->unit_bytes;
            const int block = (int)(b % c->unit_blocks);
            __m512i q[QUADS];
            __m512 scale[2], min[2];
            prefetch(w + b * (c->unit_bytes / c->unit_blocks), c->unit_bytes / c->unit_blocks, n);
            c->codes(unit, block, q);
            c->scales(unit, block, scale);
            if (c->offsets) c->mins(unit, block, min);
            UNROLL for (int j = 0; j < n; j += turns) {
                block_add(c, acc + j, q, scale, min, args->xq + 32 * (at + j), args->xd + at + j,
                          start + (local + j) * spans, offset + (local + j) * spans,
                          n - j < turns ? n - j : turns);
            }
        }
    }
    UNROLL for (int j = 0; j < n; j++) rows_store(args, acc[j], row, token + j);
}

#define TILE_BLOCK(name, n)                                                                        \
    static void name##_tile_##n(const struct matmul_args *args, const uint8_t *w, int64_t row,     \
                                int token) {                                                       \
        tile_block(&codec_##name, args, w, row, token, n);                                         \
    }

#endif

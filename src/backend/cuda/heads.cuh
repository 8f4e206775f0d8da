// Products of heads: each head multiplies its part of a row by a matrix of its own. The matrices
// are stored in units, as those of experts are (codec.h).
//
// Arithmetic. An output is one chain of mma.m16n8k16 over the units of its tile in order, from 0.
// The input is rounded to the weights' type. A row is a column of the mma, which never depends on
// the others: a row has the same bits alone and in any batch.
//
// A block has an item: a head, up to 64 rows of the batch, and some tiles. It brings the head's
// part of the rows to shared memory as 16-bit numbers. A warp has a tile at a time and reads its
// units from memory, several at once: so 4 KB of a warp are on their way.
#ifndef RN_BACKEND_CUDA_HEADS_CUH
#define RN_BACKEND_CUDA_HEADS_CUH

#include "clock.cuh"
#include "codec.cuh"
#include "heads.h"

enum { HEADS_UNITS = 4 }; // that a warp loads at once

struct heads_item {
    int head, first_row, n, tile, tile_end; // n: rows
};

DEV struct heads_item heads_item_at(const struct heads_args &args, int index) {
    struct heads_item w;
    const int chunk = index % args.n_chunks, rest = index / args.n_chunks;
    w.head = rest / args.n_groups;
    w.first_row = rest % args.n_groups * args.group_rows;
    w.n = args.n_rows - w.first_row < args.group_rows ? args.n_rows - w.first_row : args.group_rows;
    w.tile = chunk * args.tiles_each;
    w.tile_end = w.tile + args.tiles_each;
    if (w.tile_end > args.stage.n_tiles) w.tile_end = args.stage.n_tiles;
    return w;
}

// The item's input in shared memory: [unit][row] of 32 columns, padded with zeros.
template <bool IS_BF16>
DEV void heads_input(const struct stage_heads &s, const struct heads_item &w, uint8_t *x) {
    const float *in = s.in + (int64_t)w.first_row * s.ld_in + s.from + w.head * s.stride_from;
    const int n_pairs = s.n_units * (UNIT_COLS / 2);
    for (int i = (int)threadIdx.x; i < w.n * n_pairs; i += HEADS_THREADS) {
        const int row = i / n_pairs, c = i % n_pairs * 2;
        const float *at = in + (int64_t)row * s.ld_in + c;
        const float low = c < s.cols ? load_l2(at) : 0.0f;
        const float high = c + 1 < s.cols ? load_l2(at + 1) : 0.0f;
        const uint32_t a = IS_BF16 ? bf16_of(low) : f16_of(low);
        const uint32_t b = IS_BF16 ? bf16_of(high) : f16_of(high);
        *(uint32_t *)(x + (c / UNIT_COLS * w.n + row) * 64 + c % UNIT_COLS * 2) = a | b << 16;
    }
}

// Units [unit, unit + N) of a tile.
template <int CODEC, int NT, int N>
DEV void heads_units(float (&acc)[NT][4], const uint8_t *tile, int unit, uint32_t x, int n,
                     int lane) {
    uint32_t a[N][2][4];
    UNROLL for (int i = 0; i < N; i++)
        codec_fragments<CODEC>(global_unit{tile + (unit + i) * codec_unit_bytes<CODEC>()}, lane,
                               a[i]);
    UNROLL for (int i = 0; i < N; i++) {
        const uint32_t at = x + (uint32_t)((unit + i) * n * 64 + lane % 4 * 16);
        UNROLL for (int k = 0; k < NT; k++) {
            if (NT > 1 && 8 * k >= n) break;
            const int row = 8 * k + lane / 4;
            const uint4 b = shared_u128(at + (uint32_t)(row < n ? row : n - 1) * 64);
            if (codec_is_bf16<CODEC>()) {
                mma_bf16(acc[k], a[i][0], b.x, b.y);
                mma_bf16(acc[k], a[i][1], b.z, b.w);
            } else {
                mma_f16(acc[k], a[i][0], b.x, b.y);
                mma_f16(acc[k], a[i][1], b.z, b.w);
            }
        }
    }
}

template <int NT>
DEV void heads_store(const struct stage_heads &s, const struct heads_item &w, int tile,
                     const float (&acc)[NT][4], int lane) {
    const int first = tile * UNIT_ROWS + lane / 4;
    float *out = s.out + (int64_t)w.first_row * s.ld_out + s.to + w.head * s.stride_to;
    UNROLL for (int k = 0; k < NT; k++) {
        UNROLL for (int j = 0; j < 4; j++) {
            const int row = 8 * k + 2 * (lane % 4) + j % 2, d = first + 8 * (j / 2);
            if (row < w.n && d < s.n_rows) out[(int64_t)row * s.ld_out + d] = acc[k][j];
        }
    }
}

// NT: groups of 8 rows.
template <int CODEC, int NT> DEV void heads_run(const struct heads_args &args, uint8_t *x) {
    const struct stage_heads &s = args.stage;
    const struct heads_item w = heads_item_at(args, (int)blockIdx.x);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const uint32_t tile_bytes = (uint32_t)(s.n_units * codec_unit_bytes<CODEC>());
    const uint8_t *matrix = s.weight[w.head];
    // weights never change: the first ones are asked for before the launch waits
    if (w.tile + warp < w.tile_end)
        for (uint32_t i = (uint32_t)lane * 128; i < tile_bytes; i += 32 * 128)
            prefetch_l2(matrix + (uint64_t)(w.tile + warp) * tile_bytes + i);
    dependency_wait();
    heads_input<codec_is_bf16<CODEC>()>(s, w, x);
    __syncthreads();
    for (int tile = w.tile + warp; tile < w.tile_end; tile += HEADS_WARPS) {
        const uint8_t *at = matrix + (uint64_t)tile * tile_bytes;
        float acc[NT][4];
        UNROLL for (int k = 0; k < NT; k++) UNROLL for (int j = 0; j < 4; j++) acc[k][j] = 0.0f;
        int unit = 0;
        for (; unit + HEADS_UNITS <= s.n_units; unit += HEADS_UNITS)
            heads_units<CODEC, NT, HEADS_UNITS>(acc, at, unit, shared_address(x), w.n, lane);
        for (; unit < s.n_units; unit++)
            heads_units<CODEC, NT, 1>(acc, at, unit, shared_address(x), w.n, lane);
        heads_store<NT>(s, w, tile, acc, lane);
    }
}

#endif

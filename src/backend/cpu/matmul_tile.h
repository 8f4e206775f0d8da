// What the tuned matmul kernels share whatever their instruction set: the cut of n tokens into
// tiles, where a tile's activations and a group's blocks lie, prefetch. Included by
// matmul_<isa>.h only; nothing here computes.
#ifndef RN_BACKEND_CPU_MATMUL_TILE_H
#define RN_BACKEND_CPU_MATMUL_TILE_H

#include <immintrin.h>
#include <string.h>

#include "backend/cpu/matmul_pack.h"

#define INLINE static inline __attribute__((always_inline))
// Without it gcc keeps the accumulators of the widest tiles in memory.
#define UNROLL _Pragma("GCC unroll 8")

// Computes some tokens, from `token` on, of the group that begins at w and row.
typedef void (*tile_fn)(const struct matmul_args *args, const uint8_t *w, int64_t row, int token);

// tiles[i] takes i + 1 tokens. As few tiles as n allows, of nearly equal size.
static inline void tiles_run(const struct matmul_args *args, const uint8_t *w, int64_t row,
                             const tile_fn *tiles, int tile_max) {
    int left = (args->n + tile_max - 1) / tile_max;
    for (int token = 0; token < args->n; left--) {
        const int n = (args->n - token + left - 1) / left;
        tiles[n - 1](args, w, row, token);
        token += n;
    }
}

// The activations of a tile. Block b of its token j is number j * blocks + b of all three arrays.
struct tile {
    const int8_t *xq;    // 32 per block
    const float *xd;     // 1
    const int16_t *xsum; // 2
    int64_t blocks;      // per token
};

INLINE struct tile tile_at(const struct matmul_args *args, int token) {
    const int64_t blocks = args->cols / 32, first = token * blocks;
    return (struct tile){args->xq + 32 * first, args->xd + first, args->xsum + 2 * first, blocks};
}

INLINE const int8_t *tile_xq(const struct tile *t, int j, int64_t b) {
    return t->xq + 32 * (j * t->blocks + b);
}

INLINE const float *tile_xd(const struct tile *t, int j, int64_t b) {
    return t->xd + j * t->blocks + b;
}

INLINE const int16_t *tile_xsum(const struct tile *t, int j, int64_t b) {
    return t->xsum + 2 * (j * t->blocks + b);
}

INLINE int word_at(const void *p) {
    int word;
    memcpy(&word, p, sizeof word);
    return word;
}

// Where block b of a group that is packed by pairs lies.
struct block {
    const uint8_t *vectors, *scale;
};

INLINE struct block block_at(const uint8_t *w, int64_t b, const int pair_bytes, const int vectors) {
    const uint8_t *pair = w + (b >> 1) * pair_bytes;
    const int64_t half = b & 1;
    return (struct block){pair + PACK_PAIR_QUANT + half * vectors * PACK_VECTOR,
                          pair + half * 2 * MATMUL_GROUP};
}

// Asks for what follows 8 KiB later, into the second-level cache: the buffers of the first are too
// few for memory's latency (4 tokens of Q8_0 ran at half the speed with them). One token alone is
// better left to the hardware. Addresses past the end of the weights do no harm.
INLINE void prefetch(const uint8_t *w, int vectors, const int n) {
    for (int i = 0; n > 1 && i < vectors; i++) {
        _mm_prefetch((const char *)w + 8192 + PACK_VECTOR * i, _MM_HINT_T1);
    }
}

#endif

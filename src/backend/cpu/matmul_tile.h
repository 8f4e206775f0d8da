// Shared by the tuned matmul kernels of all instruction sets: how a group's tokens are cut into
// tiles, and words. Included by matmul_<isa>.h only; nothing here computes.
#ifndef RN_BACKEND_CPU_MATMUL_TILE_H
#define RN_BACKEND_CPU_MATMUL_TILE_H

#include <string.h>

#include "backend/cpu/matmul_layout.h"

#define INLINE static inline __attribute__((always_inline))
// Without it gcc keeps the accumulators of the widest tiles in memory.
#define UNROLL _Pragma("GCC unroll 16")

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

// The same where tiles may not reach over the quantized activations' own tiles of 16.
static inline void tiles_run_quantized(const struct matmul_args *args, const uint8_t *w,
                                       int64_t row, const tile_fn *tiles, int tile_max) {
    for (int first = 0; first < args->n; first += MATMUL_TILE) {
        const int width = args->n - first < MATMUL_TILE ? args->n - first : MATMUL_TILE;
        int left = (width + tile_max - 1) / tile_max;
        for (int token = 0; token < width; left--) {
            const int n = (width - token + left - 1) / left;
            tiles[n - 1](args, w, row, first + token);
            token += n;
        }
    }
}

INLINE int word_at(const void *p) {
    int word;
    memcpy(&word, p, sizeof word);
    return word;
}

#endif

// Attention over latents, for the host: its launches, the division of a block's shared memory, and
// its kernels. attention_latent.cuh has the arithmetic.
#ifndef RN_BACKEND_CUDA_ATTENTION_LATENT_H
#define RN_BACKEND_CUDA_ATTENTION_LATENT_H

#include "step.h"

enum {
    LATENT_DIM_K = 576, // at most; the form of these two has kernels of its own
    LATENT_DIM_V = 512,
    LATENT_THREADS = 256,
    LATENT_FOLD_THREADS = 128,
    LATENT_QUERIES = 32,       // of a tile
    LATENT_SEQS = 256,         // that are planned at a time
    LATENT_SLOTS_MAX = 4,      // pages that are in shared memory or on their way
    LATENT_SPLITS_MOST = 1024, // that a sequence's parts have room for, about
    LATENT_SCALED = 64,        // elements of int8 that share a scale
    // a block's memory
    LATENT_TABLE_AT = 64,
    LATENT_TABLE_BYTES = 4 * 4 * LATENT_SEQS + 64,
    LATENT_ITEM_AT = LATENT_TABLE_AT + LATENT_TABLE_BYTES,
    LATENT_ITEM_BYTES = 128,
    LATENT_ROWS_AT = LATENT_ITEM_AT + LATENT_ITEM_BYTES, // struct item_query of each query
    LATENT_STATS_AT = LATENT_ROWS_AT + LATENT_QUERIES * 16,
    LATENT_STATS_BYTES = 16 * LATENT_QUERIES * 4,
    LATENT_SUMS_AT = LATENT_STATS_AT + LATENT_STATS_BYTES, // of a warp for its neighbour
    LATENT_SUMS_BYTES = 8 * 512,
    LATENT_P_AT = LATENT_SUMS_AT + LATENT_SUMS_BYTES,
    LATENT_P_BYTES = 2 * PAGE_TOKENS * LATENT_QUERIES,
    LATENT_HEAD = (LATENT_P_AT + LATENT_P_BYTES + 127) / 128 * 128,
};

// Bytes of a page of a head whose keys have n blocks of 32 elements: those behind the keys, and
// all. type: enum kv_type.
#define LATENT_MARKS(n, type)                                                                      \
    ((uint32_t)((type) == KV_INT8 ? (64 * (1 + ((n) + 1) / 2) + 127) / 128 * 128 : 128))
#define LATENT_PAGE_BYTES(n, type)                                                                 \
    ((uint32_t)((n)*32 * PAGE_TOKENS * ((type) == KV_F16 || (type) == KV_BF16 ? 2 : 1)) +          \
     LATENT_MARKS(n, type))

struct latent_args {
    struct stage_attention stage;
    const struct step *step;
    struct launch_clock clock;
    int32_t rows;      // enum stage_rows
    int32_t n_workers; // blocks of the launch that reads pages
    int32_t is_early;  // no stage of the step clears or copies pages
    int32_t run;       // splits of an item at least
    // of the launch that reads pages: its shared memory, by offsets
    uint32_t kept_at; // running results; 0: they are in `parts`
    uint32_t wide_at; // pages of 8 bits: two pages of 16 bits
    uint32_t slots_at;
    int32_t n_slots;
    uint64_t n_parts; // room for parts, in units of 8 floats
};

#ifdef __cplusplus
extern "C" {
#endif
// sizes/latent_room.c: the division of a block's memory of up to `most` bytes, by the stage's
// dimensions and type. The bytes, or 0 where two pages do not fit.
uint32_t cuda_latent_divide(struct latent_args *args, uint32_t most);

// Kernels, for cudaLaunchKernel.
const void *latent_append(int kv_type);
const void *latent_attention(int kv_type, int dim_k, int dim_v);
const void *latent_fold(void);
#ifdef __cplusplus
}
#endif

#endif

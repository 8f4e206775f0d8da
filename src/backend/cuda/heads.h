// Products of heads (OP_HEADS), for the host: the stage's launch and its kernels.
#ifndef RN_BACKEND_CUDA_HEADS_H
#define RN_BACKEND_CUDA_HEADS_H

#include "step.h"

enum {
    HEADS_THREADS = 128,
    HEADS_WARPS = HEADS_THREADS / 32,
    HEADS_ROWS = 64,       // of the batch that an item has at most
    HEADS_COLS_MAX = 4096, // of a head's matrix
    HEADS_TILES_FEW = 4,   // tiles of an item of up to SMALL_ROWS rows
    HEADS_TILES_MANY = 16, // and of more
};

struct heads_args {
    struct stage_heads stage;
    struct launch_clock clock;
    int32_t n_rows;     // of the batch
    int32_t group_rows; // of an item: a multiple of 8
    int32_t n_groups;   // of rows
    int32_t tiles_each; // of an item
    int32_t n_chunks;   // of tiles of a head
};

#ifdef __cplusplus
extern "C" {
#endif
// codec: enum codec_id. is_few: of up to SMALL_ROWS rows.
const void *heads_kernel(int codec, int is_few);
#ifdef __cplusplus
}
#endif

#endif

// Attention of prompts, for the host and the kernels: sizes of a block (attention_prompt.cuh).
#ifndef RN_BACKEND_CUDA_ATTENTION_PROMPT_H
#define RN_BACKEND_CUDA_ATTENTION_PROMPT_H

#include "stage.h"

enum {
    PROMPT_TEAM = 64, // queries of a warpgroup
    PROMPT_QUERIES = 2 * PROMPT_TEAM,
    PROMPT_THREADS = 384,
    PROMPT_PAGES = 4,        // of a stage
    PROMPT_STAGE = 32 << 10, // bytes
    PROMPT_SLOTS = 4,        // of the ring
    PROMPT_HEAD = 1152,      // bytes: barriers, then a flag, then items
    PROMPT_FLAG_AT = 64,
    PROMPT_ITEMS_AT = 128,
    // of the queries' first 128 elements, and of the next ones: 8 instructions of each team
    PROMPT_KEY_BYTES = 2 * 8 * (2048 + 32),
    PROMPT_SCRATCH = 8 << 10, // where running results are not in shared memory
    PROMPT_DIM_MAX = 256,
    // running results of a block where they are not in shared memory
    PROMPT_STATE = PROMPT_QUERIES * PROMPT_DIM_MAX * 4,
    PROMPT_SHARED =
        PROMPT_HEAD + PROMPT_KEY_BYTES + PROMPT_QUERIES * 128 * 4 + PROMPT_SLOTS * PROMPT_STAGE,
};

#ifdef __cplusplus
extern "C" {
#endif
// The kernel, for cudaLaunchKernel; NULL: none for these heads. has_cap: scores have a soft cap.
const void *attention_prompt(int kv_type, int dim_k, int dim_v, bool has_cap);
#ifdef __cplusplus
}
#endif

#endif

// Routers and the rows around experts, for the host: kernels and the size of their shared memory.
#ifndef RN_BACKEND_CUDA_ROUTE_H
#define RN_BACKEND_CUDA_ROUTE_H

#include "step.h"

enum {
    ROUTE_THREADS = 512, // of a block at most; small steps have one block of BLOCK_THREADS
    ROUTE_WARPS_MAX = ROUTE_THREADS / 32,
    ROUTE_COUNTS = 80 << 10, // bytes of counts at most
    ROUTE_EXPERTS = 4096,    // PLAN_MAX_EXPERT
    ROUTE_GROUPS = 32,       // a bit each
    COMBINE_THREADS = 128,
};

// Rows of an expert begin at a multiple of 8 where they are padded.
#define ROUTE_PADDED(n) (((n) + 7) / 8 * 8)

struct router_args {
    struct stage_route stage;
    const struct step *step;
    struct launch_clock clock;
    int32_t rows, n_rows; // rows: enum stage_rows
    int32_t n_counting;   // warps that make the table
};

// Warps of a block that count pairs, each with counts of its own.
static inline int route_counting(int n_expert, int n_pairs, int n_threads) {
    const int room = ROUTE_COUNTS / 4 / n_expert - 1, most = n_threads / 32;
    int n = (n_pairs + 31) / 32;
    if (n > most) n = most;
    if (n > room) n = room;
    return n > 1 ? n : 1;
}

static inline uint32_t route_shared_bytes(int n_expert, int n_counting) {
    return ROUTE_WARPS_MAX * 12 + (uint32_t)(n_counting + 1) * (uint32_t)n_expert * 4;
}

#ifdef __cplusplus
extern "C" {
#endif
// For that many experts.
const void *route_kernel(int n_expert);
// STAGE_WEIGH and STAGE_COMBINE. input: enum input_kind, but INPUT_16.
const void *weigh_kernel(int input);
const void *combine_kernel(void);
#ifdef __cplusplus
}
#endif

#endif

// The step's kernels, for the host: their arguments and the division of a block's shared memory.
#ifndef RN_BACKEND_CUDA_STEP_H
#define RN_BACKEND_CUDA_STEP_H

#include "stage.h"

enum {
    SLOT_SMALL = 2304,   // bytes of a slot of a ring: 8 units of 4 bits, 2 of 16 bits
    SLOT_LARGE = 4608,   // 16 units of 4 bits, 4 of 16 bits
    SHARED_HEAD = 15360, // descriptions, barriers, sums of norms
    STEP_TABLES = 512,   // numbers of page tables that a small step copies to shared memory
    RING_SLOTS_MAX = 6,  // of a warp
};

struct step_args {
    const struct stage *stages; // the list
    int32_t first, n_stages;    // those of this launch
    const struct step *step;
    uint32_t *arrived; // of the grid's barrier: blocks that came to one, in all launches together
    uint32_t epoch;    // the same before this launch
    int32_t n_slots, slot_bytes;       // of a warp's ring
    uint64_t *times;                   // [n_stages + 1] cycles; NULL: not wanted
    uint64_t *clock_begin, *clock_end; // nanoseconds of the device; NULL: not wanted
};

// Bytes of shared memory: the head, rings, sums of slices, x.
static inline uint32_t step_shared_bytes(int n_slots, int slot_bytes, int n_tiles,
                                         uint32_t x_bytes) {
    return SHARED_HEAD + (uint32_t)(N_WARPS * n_slots * slot_bytes) +
           (uint32_t)(N_TEAMS * 2 * N_SLICES * n_tiles * 512) + x_bytes;
}

#ifdef __cplusplus
extern "C" {
#endif
const void *step_small(void); // kernels, for cudaLaunchKernel; both take a struct step_args
const void *step_wide(void);
const void *read_kernel(void);
#ifdef __cplusplus
}
#endif

#endif

// The kernels of ops with a state, for the host: their arguments and launches. state.c has the
// layout of pages of states too.
#ifndef RN_BACKEND_CUDA_STATE_H
#define RN_BACKEND_CUDA_STATE_H

#include "step.h"

struct state_args {
    struct stage_state stage;
    const struct step *step;
    struct launch_clock clock;
    int32_t n_each;         // CONV: rows of a thread
    int32_t n_parts;        // blocks of all channels, or of a head's columns
    int32_t chunk, n_slots; // DELTA, SCAN: rows of a slot, slots
    int32_t is_early;       // no launch that still runs writes a state that is read
};

// Bytes of a slot: of each row k, q and the block's columns of v; then three numbers of each row.
#define STATE_SLOT_BYTES(units, chunk)                                                             \
    ((uint32_t)((chunk) * (2 * (units)*STATE_UNIT + STATE_BLOCK_COLS) + 4 * STATE_CHUNK) * 4)

#ifdef __cplusplus
extern "C" {
#endif
const void *conv_kernel(int taps);
// kind: STAGE_DELTA or STAGE_SCAN.
const void *state_kernel(int kind, int units, int is_bf16);
#ifdef __cplusplus
}
#endif

#endif

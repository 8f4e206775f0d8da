// The kernels of gates, for the host.
#ifndef RN_BACKEND_CUDA_GATE_H
#define RN_BACKEND_CUDA_GATE_H

#include "step.h"

enum { NORM_GATE_MOST = 256 }; // elements that are normed together

// STAGE_GATE, and STAGE_NORM_GATE: in is the gate, in2 is normed.
struct gate_args {
    struct stage_rows_op stage;
    const struct step *step;
    struct launch_clock clock;
    int32_t rows; // enum stage_rows
};

#ifdef __cplusplus
extern "C" {
#endif
// Of larger steps. The row stages have others: gates with numbers of their own, and factors of
// whole rows.
const void *gate_kernel(void);
const void *norm_gate_kernel(int group);
#ifdef __cplusplus
}
#endif

#endif

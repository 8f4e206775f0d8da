// The step of a launch.
#ifndef RN_BACKEND_CUDA_STEP_CUH
#define RN_BACKEND_CUDA_STEP_CUH

#include "device.cuh"
#include "stage.h"

// The rows of the step in that domain (enum stage_rows); a launch may have more.
DEV int step_rows(const struct step &step, int rows) {
    return rows == STAGE_TOKENS ? step.n_tokens : rows == STAGE_OUT ? step.n_out : step.n_logits;
}

#endif

// The step of a launch.
#ifndef RN_BACKEND_CUDA_STEP_CUH
#define RN_BACKEND_CUDA_STEP_CUH

#include "device.cuh"
#include "step.h"

// The rows of the step in that domain (enum stage_rows); a launch may have more.
DEV int step_rows(const struct step &step, int rows) {
    return rows == STAGE_TOKENS ? step.n_tokens : rows == STAGE_OUT ? step.n_out : step.n_logits;
}

// The rows of a launch that prepares them.
DEV int prepared_rows(const struct prepare_args &args) {
    if (!args.step) return args.n_rows;
    const int n = step_rows(*args.step, args.rows);
    return n < args.n_rows ? n : args.n_rows;
}

#endif

// The numbers that a row of a head with a state has, the same for every instruction set. Included
// by the reference and by the kernels.
#ifndef RN_BACKEND_CPU_STATE_H
#define RN_BACKEND_CPU_STATE_H

#include "backend/cpu/ops.h"
#include "base/rmath.h"

// Numbers of a state that is f32 or bf16.
static inline float state_get(const void *state, int64_t at, bool is_bf16) {
    if (!state) return 0.0f;
    return is_bf16 ? bf16_to_f32(((const uint16_t *)state)[at]) : ((const float *)state)[at];
}

static inline void state_put(void *state, int64_t at, float value, bool is_bf16) {
    if (is_bf16)
        ((uint16_t *)state)[at] = f32_to_bf16(value);
    else
        ((float *)state)[at] = value;
}

struct delta_gates {
    float decay, beta; // the share of the state that stays; of the correction that is written
};

static inline struct delta_gates delta_gates_of(const struct delta_args *args, int row) {
    const float step = rmath_softplus(args->a[row * args->ld_a] + args->bias);
    return (struct delta_gates){.decay = rmath_exp(args->decay * step),
                                .beta = rmath_sigmoid(args->b[row * args->ld_b])};
}

struct scan_gates {
    float decay, dt;
};

static inline struct scan_gates scan_gates_of(const struct scan_args *args, int row) {
    float dt = rmath_softplus(args->dt[row * args->ld_dt] + args->bias);
    dt = dt < args->dt_min ? args->dt_min : dt;
    dt = dt > args->dt_max ? args->dt_max : dt;
    return (struct scan_gates){.decay = rmath_exp(dt * args->decay), .dt = dt};
}

#endif

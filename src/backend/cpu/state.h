// The numbers that a row of a head with a state has, the same for every instruction set. Included
// by the reference and by the kernels.
#ifndef RN_BACKEND_CPU_STATE_H
#define RN_BACKEND_CPU_STATE_H

#include "backend/cpu/ops.h"
#include "base/rmath.h"

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

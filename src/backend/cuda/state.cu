// The kernels of ops with a state. step.cu has the others.
#include "state_conv.cuh"
#include "state_heads.cuh"

template <int TAPS, bool IS_EXACT, int N>
__global__ void __launch_bounds__(CONV_THREADS, IS_EXACT ? 4 : 1)
    conv_kernel_of(const __grid_constant__ struct state_args args) {
    dependents_launch();
    conv_run<TAPS, IS_EXACT, N>(args);
    clock_end(args.clock);
}

// Four blocks share a multiprocessor: their states come while others compute.
template <bool IS_DELTA, int UNITS, bool IS_BF16>
__global__ void __launch_bounds__(STATE_THREADS, UNITS <= 4 ? 4 : 3)
    state_kernel_of(const __grid_constant__ struct state_args args) {
    SHARED_MEMORY(shared);
    dependents_launch();
    state_heads_run<IS_DELTA, UNITS, IS_BF16>(args, shared);
    clock_end(args.clock);
}

KERNEL_ENTRY(conv_3, (conv_kernel_of<3, true, 4>), (struct state_args))
KERNEL_ENTRY(conv_4, (conv_kernel_of<4, true, 4>), (struct state_args))
KERNEL_ENTRY(conv_any, (conv_kernel_of<16, false, 1>), (struct state_args))
#define UNITS_LIST(X) X(1) X(2) X(4) X(8)
#define X(units)                                                                                   \
    KERNEL_ENTRY(delta_f32_##units, (state_kernel_of<true, units, false>), (struct state_args))    \
    KERNEL_ENTRY(delta_bf16_##units, (state_kernel_of<true, units, true>), (struct state_args))    \
    KERNEL_ENTRY(scan_f32_##units, (state_kernel_of<false, units, false>), (struct state_args))    \
    KERNEL_ENTRY(scan_bf16_##units, (state_kernel_of<false, units, true>), (struct state_args))
UNITS_LIST(X)
#undef X

extern "C" const void *conv_kernel(int taps) {
    return taps == 3 ? conv_3() : taps == 4 ? conv_4() : conv_any();
}

extern "C" const void *state_kernel(int kind, int units, int is_bf16) {
    const bool is_delta = kind == STAGE_DELTA;
    switch (units) {
#define X(n)                                                                                       \
    case n:                                                                                        \
        return is_delta ? (is_bf16 ? delta_bf16_##n() : delta_f32_##n())                           \
                        : (is_bf16 ? scan_bf16_##n() : scan_f32_##n());
        UNITS_LIST(X)
#undef X
    }
    return nullptr;
}

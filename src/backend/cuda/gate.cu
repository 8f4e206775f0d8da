// The kernels of gates that are launches of their own.
#include "gate.cuh"

__global__ void __launch_bounds__(BLOCK_THREADS)
    gate_kernel_many(const __grid_constant__ struct gate_args args) {
    dependents_launch();
    gate_many_run(args);
    clock_end(args.clock);
}

template <int HELD>
__global__ void __launch_bounds__(BLOCK_THREADS)
    norm_gate_kernel_of(const __grid_constant__ struct gate_args args) {
    dependents_launch();
    norm_gate_run<HELD>(args);
    clock_end(args.clock);
}

KERNEL_ENTRY(gate_kernel, gate_kernel_many, (struct gate_args))
KERNEL_ENTRY(norm_gate_4, norm_gate_kernel_of<4>, (struct gate_args))
KERNEL_ENTRY(norm_gate_8, norm_gate_kernel_of<8>, (struct gate_args))

extern "C" const void *norm_gate_kernel(int group) {
    return group <= 128 ? norm_gate_4() : norm_gate_8();
}

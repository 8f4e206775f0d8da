// The kernels of routers, and of the rows before and behind experts.
#include "route.h"

#include "clock.cuh"
#include "combine.cuh"
#include "route.cuh"

// PER: experts of a lane, at most.
template <int PER>
__global__ void __launch_bounds__(ROUTE_THREADS, 1)
    route_kernel_of(const __grid_constant__ struct router_args args) {
    SHARED_MEMORY(shared);
    dependents_launch();
    dependency_wait();
    route_run<PER>(args, shared);
    clock_end(args.clock);
}

template <int INPUT>
__global__ void __launch_bounds__(BLOCK_THREADS)
    weigh_kernel_of(const __grid_constant__ struct prepare_args args) {
    SHARED_MEMORY(shared);
    dependents_launch();
    weigh_run<INPUT>(args.stage, prepared_rows(args), (float *)shared);
    clock_end(args.clock);
}

__global__ void __launch_bounds__(COMBINE_THREADS)
    combine_kernel_any(const __grid_constant__ struct prepare_args args) {
    dependents_launch();
    dependency_wait();
    combine_run(args.stage, args.n_rows);
    clock_end(args.clock);
}

KERNEL_ENTRY(route_32, route_kernel_of<1>, (struct router_args))
KERNEL_ENTRY(route_128, route_kernel_of<4>, (struct router_args))
KERNEL_ENTRY(route_256, route_kernel_of<8>, (struct router_args))
KERNEL_ENTRY(route_512, route_kernel_of<16>, (struct router_args))
KERNEL_ENTRY(route_many, route_kernel_of<ROUTE_EXPERTS / 32>, (struct router_args))
KERNEL_ENTRY(weigh_f32, weigh_kernel_of<INPUT_F32>, (struct prepare_args))
KERNEL_ENTRY(weigh_rms, weigh_kernel_of<INPUT_RMS>, (struct prepare_args))
KERNEL_ENTRY(weigh_layer, weigh_kernel_of<INPUT_LAYER>, (struct prepare_args))
KERNEL_ENTRY(combine_kernel, combine_kernel_any, (struct prepare_args))

extern "C" const void *weigh_kernel(int input) {
    return input == INPUT_RMS ? weigh_rms() : input == INPUT_LAYER ? weigh_layer() : weigh_f32();
}

extern "C" const void *route_kernel(int n_expert) {
    return n_expert <= 32    ? route_32()
           : n_expert <= 128 ? route_128()
           : n_expert <= 256 ? route_256()
           : n_expert <= 512 ? route_512()
                             : route_many();
}

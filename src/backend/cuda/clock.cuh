// The times of a launch, by the device's clock.
#ifndef RN_BACKEND_CUDA_CLOCK_CUH
#define RN_BACKEND_CUDA_CLOCK_CUH

#include "device.cuh"
#include "step.h"

DEV void clock_begin(const struct launch_clock &clock) {
    if (clock.begin && blockIdx.x == 0 && threadIdx.x == 0) *clock.begin = device_ns();
}
// The last block's time stays.
DEV void clock_end(const struct launch_clock &clock) {
    if (!clock.end) return;
    __syncthreads();
    if (threadIdx.x == 0) atomicMax((unsigned long long *)clock.end, device_ns());
}

#endif

// One launch.
#ifndef RN_BACKEND_CUDA_LAUNCH_H
#define RN_BACKEND_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

// args: the kernel's only argument. overlaps: it may begin before the launch before it has ended;
// it waits by itself (dependency_wait).
static inline cudaError_t cuda_launch(const void *kernel, uint64_t blocks, int threads,
                                      uint64_t shared, void *args, bool overlaps,
                                      cudaStream_t stream) {
    void *pointers[] = {args};
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeProgrammaticStreamSerialization};
    attribute.val.programmaticStreamSerializationAllowed = 1;
    const cudaLaunchConfig_t config = {.gridDim = {(unsigned)blocks, 1, 1},
                                       .blockDim = {(unsigned)threads, 1, 1},
                                       .dynamicSmemBytes = shared,
                                       .stream = stream,
                                       .attrs = &attribute,
                                       .numAttrs = overlaps ? 1 : 0};
    return cudaLaunchKernelExC(&config, kernel, pointers);
}

#endif

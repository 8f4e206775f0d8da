// The kernels of heads.cuh: two for each codec.
#include "heads.cuh"
#include "kernels.h"

template <int CODEC, int NT>
__global__ void __launch_bounds__(HEADS_THREADS, 4)
    heads_kernel_of(const __grid_constant__ struct heads_args args) {
    SHARED_MEMORY(shared);
    dependents_launch();
    heads_run<CODEC, NT>(args, shared);
    clock_end(args.clock);
}

#define X(id, unit_bytes, is_bf16)                                                                 \
    KERNEL_ENTRY(heads_few_##id, (heads_kernel_of<CODEC_##id, 1>), (struct heads_args))            \
    KERNEL_ENTRY(heads_many_##id, (heads_kernel_of<CODEC_##id, HEADS_ROWS / 8>),                   \
                 (struct heads_args))
KERNEL_CODECS(X)
#undef X

extern "C" const void *heads_kernel(int codec, int is_few) {
    switch (codec) {
#define X(id, unit_bytes, is_bf16)                                                                 \
    case CODEC_##id:                                                                               \
        return is_few ? heads_few_##id() : heads_many_##id();
        KERNEL_CODECS(X)
#undef X
    }
    return nullptr;
}

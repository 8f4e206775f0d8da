// The kernels of experts in small steps.
#include "experts.cuh"
#include "kernels.h"

template <int CODEC, bool IS_DOWN>
__global__ void __launch_bounds__(PRODUCT_THREADS, PRODUCT_BLOCKS)
    experts_kernel_of(const __grid_constant__ struct experts_args args) {
    experts_run<CODEC, IS_DOWN>(args);
}

#define X(id, unit_bytes, is_bf16)                                                                 \
    KERNEL_ENTRY(experts_up_##id, (experts_kernel_of<CODEC_##id, false>), (struct experts_args))   \
    KERNEL_ENTRY(experts_down_##id, (experts_kernel_of<CODEC_##id, true>), (struct experts_args))
KERNEL_CODECS(X)
#undef X

extern "C" const void *experts_kernel(int codec, int is_down) {
    switch (codec) {
#define X(id, unit_bytes, is_bf16)                                                                 \
    case CODEC_##id:                                                                               \
        return is_down ? experts_down_##id() : experts_up_##id();
        KERNEL_CODECS(X)
#undef X
    }
    return nullptr;
}

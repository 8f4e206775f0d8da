// The kernels of experts in steps of one row.
#include "experts_one.cuh"
#include "kernels.h"

template <int CODEC, bool IS_DOWN>
__global__ void __launch_bounds__(PRODUCT_THREADS, PRODUCT_BLOCKS)
    experts_one_of(const __grid_constant__ struct experts_args args) {
    one_run<CODEC, IS_DOWN>(args);
}

#define X(id, unit_bytes, is_bf16)                                                                 \
    KERNEL_ENTRY(experts_one_up_##id, (experts_one_of<CODEC_##id, false>), (struct experts_args))  \
    KERNEL_ENTRY(experts_one_down_##id, (experts_one_of<CODEC_##id, true>), (struct experts_args))
KERNEL_CODECS(X)
#undef X

extern "C" const void *experts_one_kernel(int codec, int is_down) {
    switch (codec) {
#define X(id, unit_bytes, is_bf16)                                                                 \
    case CODEC_##id:                                                                               \
        return is_down ? experts_one_down_##id() : experts_one_up_##id();
        KERNEL_CODECS(X)
#undef X
    }
    return nullptr;
}

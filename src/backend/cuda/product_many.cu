// The kernels of product_many.cuh, for each codec and form.
#include "kernels.h"
#include "product_many.cuh"

template <int CODEC, int COLUMNS>
__global__ void __launch_bounds__(MANY_THREADS, 1)
    product_kernel(const __grid_constant__ struct many_args args) {
    product_many_run<many_form<CODEC, COLUMNS>, 40, 232>(args);
}

#define X(id, unit_bytes, is_bf16)                                                                 \
    KERNEL_ENTRY(product_few_##id, (product_kernel<CODEC_##id, MANY_FEW>), (struct many_args))     \
    KERNEL_ENTRY(product_middle_##id, (product_kernel<CODEC_##id, MANY_MIDDLE>),                   \
                 (struct many_args))                                                               \
    KERNEL_ENTRY(product_wide_##id, (product_kernel<CODEC_##id, MANY_WIDE>), (struct many_args))
KERNEL_CODECS(X)
#undef X

extern "C" const void *product_many(int codec, int columns) {
    switch (codec) {
#define X(id, unit_bytes, is_bf16)                                                                 \
    case CODEC_##id:                                                                               \
        return columns == MANY_FEW      ? product_few_##id()                                       \
               : columns == MANY_MIDDLE ? product_middle_##id()                                    \
                                        : product_wide_##id();
        KERNEL_CODECS(X)
#undef X
    }
    return nullptr;
}

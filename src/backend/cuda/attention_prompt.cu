// The kernels of attention_prompt.cuh: for heads of up to 64, 128 and 256 elements.
#include "attention_prompt.cuh"
#include "clock.cuh"
#include "kernels.h"
#include "step.h"

template <int TYPE, int BLOCKS, int KEYS, int GROUPS, int PASSES>
__global__ void __launch_bounds__(PROMPT_THREADS, 1)
    attention_kernel_prompt(const __grid_constant__ struct attention_args args) {
    SHARED_MEMORY(shared);
    typedef prompt_form<kv_form<TYPE, 0>, BLOCKS, KEYS, GROUPS, PASSES> form;
    static_assert(form::RING_AT + PROMPT_SLOTS * PROMPT_STAGE <= PROMPT_SHARED, "a block has room");
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900 // the host launches it there alone
    dependents_launch();
    dependency_wait();
    attention_prompt_run<form>(args.stage, *args.step, args.rows, args.part, shared);
    clock_end(args.clock);
#else
    (void)args, (void)shared;
    give_up();
#endif
}

#define X(type)                                                                                    \
    KERNEL_ENTRY(prompt_64_##type, (attention_kernel_prompt<KV_##type, 2, 1, 1, 1>),               \
                 (struct attention_args))                                                          \
    KERNEL_ENTRY(prompt_128_##type, (attention_kernel_prompt<KV_##type, 4, 1, 2, 1>),              \
                 (struct attention_args))                                                          \
    KERNEL_ENTRY(prompt_256_##type, (attention_kernel_prompt<KV_##type, 4, 2, 2, 2>),              \
                 (struct attention_args))
KERNEL_TYPES(X)
#undef X

extern "C" const void *attention_prompt(int kv_type, int dim_k, int dim_v) {
    if (dim_k > PROMPT_DIM_MAX || dim_v > PROMPT_DIM_MAX) return nullptr;
    const bool is_long = dim_k > 128 || dim_v > 128;
    switch (kv_type) {
#define X(type)                                                                                    \
    case KV_##type:                                                                                \
        return is_long                    ? prompt_256_##type()                                    \
               : dim_k > 64 || dim_v > 64 ? prompt_128_##type()                                    \
                                          : prompt_64_##type();
        KERNEL_TYPES(X)
#undef X
    }
    return nullptr;
}

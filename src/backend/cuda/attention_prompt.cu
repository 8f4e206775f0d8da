// The kernels of attention_prompt.cuh: for heads of up to 64, 128 and 256 elements, with and
// without a soft cap.
#include "attention_prompt.cuh"
#include "clock.cuh"
#include "kernels.h"
#include "step.h"

template <int TYPE, int BLOCKS, int KEYS, int GROUPS, int PASSES, bool HAS_CAP>
__global__ void __launch_bounds__(PROMPT_THREADS, 1)
    attention_kernel_prompt(const __grid_constant__ struct attention_args args) {
    SHARED_MEMORY(shared);
    typedef prompt_form<kv_form<TYPE, 0>, BLOCKS, KEYS, GROUPS, PASSES, HAS_CAP> form;
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

#define ENTRY(name, type, has_cap, ...)                                                            \
    KERNEL_ENTRY(name, (attention_kernel_prompt<KV_##type, __VA_ARGS__, has_cap>),                 \
                 (struct attention_args))
#define X(type)                                                                                    \
    ENTRY(prompt_64_##type, type, false, 2, 1, 1, 1)                                               \
    ENTRY(prompt_128_##type, type, false, 4, 1, 2, 1)                                              \
    ENTRY(prompt_256_##type, type, false, 4, 2, 2, 2)                                              \
    ENTRY(prompt_64_cap_##type, type, true, 2, 1, 1, 1)                                            \
    ENTRY(prompt_128_cap_##type, type, true, 4, 1, 2, 1)                                           \
    ENTRY(prompt_256_cap_##type, type, true, 4, 2, 2, 2)
KERNEL_TYPES(X)
#undef X

extern "C" const void *attention_prompt(int kv_type, int dim_k, int dim_v, bool has_cap) {
    if (dim_k > PROMPT_DIM_MAX || dim_v > PROMPT_DIM_MAX) return nullptr;
    const int dim = dim_k > dim_v ? dim_k : dim_v;
    switch (kv_type) {
#define X(type)                                                                                    \
    case KV_##type:                                                                                \
        if (dim > 128) return has_cap ? prompt_256_cap_##type() : prompt_256_##type();             \
        if (dim > 64) return has_cap ? prompt_128_cap_##type() : prompt_128_##type();              \
        return has_cap ? prompt_64_cap_##type() : prompt_64_##type();
        KERNEL_TYPES(X)
#undef X
    }
    return nullptr;
}

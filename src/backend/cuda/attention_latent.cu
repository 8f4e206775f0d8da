// The kernels of attention_latent.cuh.
#include "attention_latent.cuh"
#include "kernels.h"

template <int TYPE, int BLOCKS>
__global__ void __launch_bounds__(LATENT_THREADS, 1)
    latent_kernel_of(const __grid_constant__ struct latent_args args) {
    SHARED_MEMORY(shared);
    dependents_launch();
    latent_run<latent_form<TYPE, BLOCKS>>(args, shared);
    clock_end(args.clock);
}

template <int TYPE>
__global__ void __launch_bounds__(BLOCK_THREADS)
    latent_append_of(const __grid_constant__ struct latent_args args) {
    dependents_launch();
    latent_append_run<latent_form<TYPE, 0>>(args);
    clock_end(args.clock);
}

__global__ void __launch_bounds__(LATENT_FOLD_THREADS)
    latent_fold_of(const __grid_constant__ struct latent_args args) {
    SHARED_MEMORY(shared);
    dependents_launch();
    latent_fold_run(args, shared);
    clock_end(args.clock);
}

#define X(type)                                                                                    \
    KERNEL_ENTRY(latent_576_##type, (latent_kernel_of<KV_##type, LATENT_DIM_K / 32>),              \
                 (struct latent_args))                                                             \
    KERNEL_ENTRY(latent_any_##type, (latent_kernel_of<KV_##type, 0>), (struct latent_args))        \
    KERNEL_ENTRY(latent_append_##type, latent_append_of<KV_##type>, (struct latent_args))
KERNEL_TYPES(X)
#undef X
KERNEL_ENTRY(latent_fold, latent_fold_of, (struct latent_args))

extern "C" const void *latent_attention(int kv_type, int dim_k, int dim_v) {
    const bool is_usual = dim_k == LATENT_DIM_K && dim_v == LATENT_DIM_V;
    switch (kv_type) {
#define X(type)                                                                                    \
    case KV_##type:                                                                                \
        return is_usual ? latent_576_##type() : latent_any_##type();
        KERNEL_TYPES(X)
#undef X
    }
    return nullptr;
}

extern "C" const void *latent_append(int kv_type) {
    switch (kv_type) {
#define X(type)                                                                                    \
    case KV_##type:                                                                                \
        return latent_append_##type();
        KERNEL_TYPES(X)
#undef X
    }
    return nullptr;
}

// The kernels of attention of many streams (attention_streams.cuh), and of the append before it.
#include "attention_streams.cuh"

#include "clock.cuh"
#include "kernels.h"
#include "step.h"

// TILES: 1, or what STREAM_TILES has for the heads.
template <int TYPE, int DIM, int TILES>
__global__ void __launch_bounds__(STREAM_THREADS, STREAM_TEAMS(TILES))
    streams_kernel(const __grid_constant__ struct attention_args args) {
    SHARED_MEMORY(shared);
    dependents_launch();
    attention_streams_run<kv_form<TYPE, DIM>, TILES>(args.stage, *args.step, args.rows,
                                                     args.is_early != 0, shared);
    clock_end(args.clock);
}

template <int TYPE>
__global__ void __launch_bounds__(BLOCK_THREADS)
    append_kernel(const __grid_constant__ struct attention_args args) {
    SHARED_MEMORY(shared);
    dependents_launch();
    append_run<kv_form<TYPE, 0>>(args.stage, *args.step, args.step->n_tokens, shared);
    clock_end(args.clock);
}

#define STREAMS_ENTRY(dim, type)                                                                   \
    KERNEL_ENTRY(streams_##dim##_##type, (streams_kernel<KV_##type, dim, 1>),                      \
                 (struct attention_args))                                                          \
    KERNEL_ENTRY(streams_##dim##_tiles_##type,                                                     \
                 (streams_kernel<KV_##type, dim, STREAM_TILES(dim)>), (struct attention_args))
#define X(type)                                                                                    \
    STREAMS_ENTRY(64, type)                                                                        \
    STREAMS_ENTRY(128, type)                                                                       \
    STREAMS_ENTRY(256, type)                                                                       \
    KERNEL_ENTRY(append_##type, append_kernel<KV_##type>, (struct attention_args))
KERNEL_TYPES(X)
#undef X

extern "C" const void *attention_streams(int kv_type, int dim_k, int dim_v, int tiles) {
    if (!stream_has(dim_k, dim_v)) return nullptr;
    switch (kv_type) {
#define X(type)                                                                                    \
    case KV_##type:                                                                                \
        if (dim_k == 64) return tiles == 1 ? streams_64_##type() : streams_64_tiles_##type();      \
        if (dim_k == 128) return tiles == 1 ? streams_128_##type() : streams_128_tiles_##type();   \
        return tiles == 1 ? streams_256_##type() : streams_256_tiles_##type();
        KERNEL_TYPES(X)
#undef X
    }
    return nullptr;
}

extern "C" const void *attention_append(int kv_type) {
    switch (kv_type) {
#define X(type)                                                                                    \
    case KV_##type:                                                                                \
        return append_##type();
        KERNEL_TYPES(X)
#undef X
    }
    return nullptr;
}

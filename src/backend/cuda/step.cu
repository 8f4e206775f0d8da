// The kernels of a step: a launch runs one stage, or some row stages that read nothing of each
// other. A launch begins while the one before it still runs; it reads what earlier launches wrote
// only behind dependency_wait. What the host brought for the step is there from the start.
#include "step.h"

#include "attention_long.cuh"
#include "kernels.h"
#include "pages.cuh"
#include "product.cuh"
#include "rows.cuh"
#include "step.cuh"

template <int CODEC, int FORM>
__global__ void __launch_bounds__(FORM >= PRODUCT_ASKED ? ASKED_THREADS : PRODUCT_THREADS,
                                  PRODUCT_BLOCKS)
    product_kernel_small(const __grid_constant__ struct product_args args) {
    product_run<CODEC, FORM>(args);
}

// Two blocks share a multiprocessor, or one and blocks of a product.
template <int TYPE, int DIM>
__global__ void __launch_bounds__(BLOCK_THREADS, 2)
    attention_kernel_small(const __grid_constant__ struct attention_args args) {
    SHARED_MEMORY(shared);
    dependents_launch();
    attention_small_run<kv_form<TYPE, DIM>>(args.stage, *args.step, args.rows, args.run,
                                            args.is_early != 0, shared);
    clock_end(args.clock);
}

template <int TYPE, int DIM>
__global__ void __launch_bounds__(LONG_THREADS, 1)
    attention_kernel_long(const __grid_constant__ struct attention_args args) {
    SHARED_MEMORY(shared);
    dependents_launch();
    attention_long_run<kv_form<TYPE, DIM>>(args.stage, *args.step, args.rows, shared,
                                           args.is_early != 0);
}

__global__ void __launch_bounds__(BLOCK_THREADS)
    attention_kernel_fold(const __grid_constant__ struct attention_args args) {
    SHARED_MEMORY(shared);
    dependents_launch();
    attention_fold_run(args.stage, *args.step, args.rows, shared);
    clock_end(args.clock);
}

template <int TYPE>
__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    attention_kernel_any(const __grid_constant__ struct attention_args args) {
    SHARED_MEMORY(shared);
    dependents_launch();
    dependency_wait();
    attention_run<kv_form<TYPE, 0>>(args.stage, *args.step, args.rows, args.part, shared);
    clock_end(args.clock);
}

// A block has a row.
template <int INPUT>
__global__ void __launch_bounds__(BLOCK_THREADS)
    prepare_kernel_of(const __grid_constant__ struct prepare_args args) {
    SHARED_MEMORY(shared);
    dependents_launch();
    prepare_run<INPUT>(args.stage, prepared_rows(args), (float *)shared);
    clock_end(args.clock);
}

DEV void row_stage_run(const struct stage &s, const struct step &step, int n_rows, float *norm) {
    switch (s.kind) {
    case STAGE_PAGES:
        pages_run(step);
        break;
    case STAGE_EMBED:
        embed_run(s.row, step, n_rows);
        break;
    case STAGE_GATHER:
        gather_run(s.row, step, n_rows);
        break;
    case STAGE_NORM:
        norm_run(s.row, n_rows, norm);
        break;
    case STAGE_ROPE_TABLE:
        rope_table_run(s.row, step, n_rows);
        break;
    case STAGE_ROPE:
        rope_run(s.row, step, s.rows, n_rows);
        break;
    case STAGE_GATE:
        gate_run(s.row, n_rows);
        break;
    case STAGE_COLUMNS:
        columns_run(s.row, n_rows);
        break;
    case STAGE_SOFTCAP:
        softcap_run(s.row, n_rows);
        break;
    case STAGE_TEMPER:
        temper_run(s.row, step, n_rows);
        break;
    case STAGE_INPUT:
        input_run(s.row, step, n_rows);
        break;
    default:
        break;
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS)
    rows_kernel_any(const __grid_constant__ struct rows_args args) {
    SHARED_MEMORY(shared);
    static_assert(sizeof(struct stage) % 16 == 0, "descriptions are copied 16 bytes at a time");
    static_assert(ROWS_JOINED * sizeof(struct stage) + sizeof(struct step) + 2 * N_WARPS * 4 <=
                      ROWS_SHARED,
                  "descriptions have room");
    struct stage *stages = (struct stage *)shared;
    struct step *step = (struct step *)(stages + ROWS_JOINED);
    float *norm = (float *)(step + 1);
    const int thread = (int)threadIdx.x;
    for (int i = thread; i < args.n_stages * (int)(sizeof(struct stage) / 16); i += BLOCK_THREADS)
        ((uint4 *)stages)[i] = ((const uint4 *)args.stages)[i];
    for (int i = thread; i < (int)(sizeof(struct step) / 8); i += BLOCK_THREADS)
        ((uint64_t *)step)[i] = ((const uint64_t *)args.step)[i];
    __syncthreads();
    dependents_launch();
    dependency_wait();
    clock_begin(args.clock);
    for (int i = 0; i < args.n_stages; i++)
        if (args.n_rows[i] > 0)
            row_stage_run(stages[i], *step, min(args.n_rows[i], step_rows(*step, stages[i].rows)),
                          norm);
    clock_end(args.clock);
}

// Reads memory, for its bandwidth: 16 bytes a thread, eight of them in flight.
__global__ void __launch_bounds__(1024) read_all(const uint4 *from, uint64_t n, uint32_t *out) {
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t sum = 0;
    for (; i + 7 * step < n; i += 8 * step) {
        uint4 v[8];
        UNROLL for (int j = 0; j < 8; j++) v[j] = load_once(from + i + j * step);
        UNROLL for (int j = 0; j < 8; j++) sum ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
    }
    for (; i < n; i += step) {
        const uint4 v = load_once(from + i);
        sum ^= v.x ^ v.y ^ v.z ^ v.w;
    }
    if (sum == 0x12345678u) *out = sum; // so that the loads stay
}

// Asked forms of longer units are the staged one.
#define ASKED_FORM(unit_bytes, form) ((unit_bytes) <= ASKED_UNIT_MOST ? (form) : PRODUCT_STAGED)
#define PRODUCT_ENTRY(name, codec, form)                                                           \
    KERNEL_ENTRY(product_##name, (product_kernel_small<codec, form>), (struct product_args))
#define X(id, unit_bytes, is_bf16)                                                                 \
    PRODUCT_ENTRY(read_##id, CODEC_##id, PRODUCT_READ)                                             \
    PRODUCT_ENTRY(staged_##id, CODEC_##id, PRODUCT_STAGED)                                         \
    PRODUCT_ENTRY(asked_##id, CODEC_##id, ASKED_FORM(unit_bytes, PRODUCT_ASKED))                   \
    PRODUCT_ENTRY(pairs_##id, CODEC_##id, ASKED_FORM(unit_bytes, PRODUCT_PAIRS))
KERNEL_CODECS(X)
#undef X
PRODUCT_ENTRY(read_any, CODEC_ANY, PRODUCT_READ)
PRODUCT_ENTRY(staged_any, CODEC_ANY, PRODUCT_STAGED)
#define ATTENTION_ENTRY(name, kernel, dim, type)                                                   \
    KERNEL_ENTRY(name##_##type, (kernel<KV_##type, dim>), (struct attention_args))
#define X(type)                                                                                    \
    ATTENTION_ENTRY(attention_64, attention_kernel_small, 64, type)                                \
    ATTENTION_ENTRY(attention_128, attention_kernel_small, 128, type)                              \
    ATTENTION_ENTRY(attention_other, attention_kernel_small, 0, type)                              \
    ATTENTION_ENTRY(attention_long_64, attention_kernel_long, 64, type)                            \
    ATTENTION_ENTRY(attention_long_128, attention_kernel_long, 128, type)                          \
    KERNEL_ENTRY(attention_any_##type, attention_kernel_any<KV_##type>, (struct attention_args))
KERNEL_TYPES(X)
#undef X
KERNEL_ENTRY(attention_fold, attention_kernel_fold, (struct attention_args))
KERNEL_ENTRY(prepare_f32, prepare_kernel_of<INPUT_F32>, (struct prepare_args))
KERNEL_ENTRY(prepare_rms, prepare_kernel_of<INPUT_RMS>, (struct prepare_args))
KERNEL_ENTRY(prepare_layer, prepare_kernel_of<INPUT_LAYER>, (struct prepare_args))
KERNEL_ENTRY(rows_kernel, rows_kernel_any, (struct rows_args))
KERNEL_ENTRY(read_kernel, read_all, (const uint4 *, uint64_t, uint32_t *))

extern "C" const void *product_small(int codec, int form) {
    switch (codec) {
#define X(id, unit_bytes, is_bf16)                                                                 \
    case CODEC_##id:                                                                               \
        return form == PRODUCT_READ     ? product_read_##id()                                      \
               : form == PRODUCT_STAGED ? product_staged_##id()                                    \
               : form == PRODUCT_ASKED  ? product_asked_##id()                                     \
                                        : product_pairs_##id();
        KERNEL_CODECS(X)
#undef X
    }
    return form == PRODUCT_READ ? product_read_any() : product_staged_any();
}

extern "C" const void *prepare_kernel(int input) {
    return input == INPUT_RMS     ? prepare_rms()
           : input == INPUT_LAYER ? prepare_layer()
                                  : prepare_f32();
}

extern "C" const void *attention_small(int kv_type, int dim_k, int dim_v) {
    const int dim = dim_k == dim_v ? dim_k : 0;
    switch (kv_type) {
#define X(type)                                                                                    \
    case KV_##type:                                                                                \
        return dim == 64    ? attention_64_##type()                                                \
               : dim == 128 ? attention_128_##type()                                               \
                            : attention_other_##type();
        KERNEL_TYPES(X)
#undef X
    }
    return nullptr;
}

extern "C" const void *attention_long(int kv_type, int dim_k, int dim_v) {
    if (dim_k != dim_v || (dim_k != 64 && dim_k != 128)) return nullptr;
    switch (kv_type) {
#define X(type)                                                                                    \
    case KV_##type:                                                                                \
        return dim_k == 64 ? attention_long_64_##type() : attention_long_128_##type();
        KERNEL_TYPES(X)
#undef X
    }
    return nullptr;
}

extern "C" const void *attention_any(int kv_type) {
    switch (kv_type) {
#define X(type)                                                                                    \
    case KV_##type:                                                                                \
        return attention_any_##type();
        KERNEL_TYPES(X)
#undef X
    }
    return nullptr;
}

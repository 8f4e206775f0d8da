// The CUDA backend behind backend.h: device, need, create, destroy, and measuring. The runtime is
// linked statically and opens the driver itself. So the plug-in loads on every machine, and
// device() says whether there is a driver and a GPU.
#include "backend/cuda/cuda.h"
#include "backend/cuda/attention_prompt.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/plugin.h"
#include "base/clock.h"

static const struct backend_class backend_cuda;

rn_status cuda_fault(cudaError_t code, rn_status status, const char *what, rn_error *err) {
    cudaGetLastError(); // a later call must not report it again
    if (code == cudaErrorMemoryAllocation && status != RN_ERR_STEP) status = RN_ERR_NOMEM;
    return err_set(err, status, "cuda: %s: %s", what, cudaGetErrorString(code));
}

// ---------------------------------------------------------------- before there is one

enum {
    LEAST_MAJOR = 8,     // of the compute capability: mma of 16-bit floats, copies to shared memory
    STEP_TOKENS_SM = 16, // of a step, for each multiprocessor
};

static rn_status device_check(int index, rn_error *err) {
    int n = 0;
    const cudaError_t code = cudaGetDeviceCount(&n);
    if (code || n == 0) {
        cudaGetLastError();
        return err_set(err, RN_ERR_UNSUPPORTED, "%s",
                       code ? cudaGetErrorString(code) : "there is no GPU");
    }
    if (index < 0 || index >= n)
        return err_set(err, RN_ERR_ARG, "device %d is not there, expected 0 to %d", index, n - 1);
    return RN_OK;
}

// A prompt's products reach their rate with a few tiles of 128 columns for each multiprocessor. A
// smaller device takes longer for a token, so its streams would wait longer for a step. The number
// is a power of two: large GPUs have 2,048.
static int step_tokens_of(int n_multiprocessors) {
    int tokens = STEP_TOKENS_SM;
    while (2 * tokens <= STEP_TOKENS_SM * n_multiprocessors) tokens *= 2;
    return tokens;
}

static rn_status cuda_device(int index, struct backend_device *out, rn_error *err) {
    struct cudaDeviceProp prop;
    size_t free_bytes, total_bytes;
    const rn_status status = device_check(index, err);
    if (status) return status;
    cudaError_t code = cudaGetDeviceProperties(&prop, index);
    if (!code) code = cudaSetDevice(index);
    if (!code) code = cudaMemGetInfo(&free_bytes, &total_bytes);
    if (code) return cuda_fault(code, RN_ERR_DEVICE, "asking the device", err);
    if (prop.major < LEAST_MAJOR)
        return err_set(err, RN_ERR_UNSUPPORTED, "%s has compute capability %d.%d, expected %d.0",
                       prop.name, prop.major, prop.minor, LEAST_MAJOR);
    cuda_traits(out);
    out->memory_total = total_bytes;
    out->memory_free = free_bytes;
    out->step_tokens = step_tokens_of(prop.multiProcessorCount);
    snprintf(out->name, sizeof out->name, "%.63s", prop.name);
    return RN_OK;
}

// A plan that this backend refuses runs on the CPU's, which has every op.
static rn_status refuse(rn_status status, const rn_error *why, rn_error *err) {
    const bool has_advice = status == RN_ERR_UNSUPPORTED;
    return err_set(err, status, "%s%s", why->message, has_advice ? "; --backend cpu runs it" : "");
}

static rn_status need(const struct plan *plan, const struct backend_sizes *sizes,
                      const char *kv_type, struct backend_need *out, rn_error *err) {
    rn_error why = {0};
    const rn_status status = cuda_need(plan, sizes, kv_type, out, &why);
    return status ? refuse(status, &why, err) : RN_OK;
}

// The layout of a plan that this device runs.
static rn_status layout_find(struct cuda_backend *b, rn_error *err) {
    rn_error why = {0};
    rn_status s = cuda_layout_check(b->plan, &b->sizes, b->kv_name, &b->arena, &b->layout, &why);
    if (!s)
        s = cuda_block_check(b->plan, b->kv_name, (uint32_t)b->prop.sharedMemPerBlockOptin,
                             b->prop.name, &why);
    return s ? refuse(s, &why, err) : RN_OK;
}

// ---------------------------------------------------------------- create, destroy

static void cuda_destroy(struct backend *backend) {
    struct cuda_backend *b = (struct cuda_backend *)backend;
    cudaSetDevice(b->device);
    cudaDeviceSynchronize();
    cuda_flights_free(b);
    cuda_program_free(b);
    for (int g = 0; g < PLAN_MAX_KV_GROUPS; g++) cudaFree(b->kv[g].at);
    cudaFree(b->weights);
    cudaFree(b->memory);
    if (b->stream) cudaStreamDestroy(b->stream);
    if (b->up) cudaStreamDestroy(b->up);
    if (b->down) cudaStreamDestroy(b->down);
    if (b->page_up) cudaStreamDestroy(b->page_up);
    if (b->page_down) cudaStreamDestroy(b->page_down);
    arena_deinit(&b->arena);
    cudaGetLastError();
    free(b);
}

static rn_status memory_take(struct cuda_backend *b, const struct backend_config *config,
                             rn_error *err) {
    const uint64_t weights = b->layout.weight_bytes, step = b->layout.step_bytes;
    uint64_t kv = 0;
    for (int g = 0; g < b->plan->n_group_all; g++) {
        const uint64_t n_layer = (uint64_t)b->plan->group[g].n_layer;
        const uint64_t bytes = cuda_group_bytes(b->plan, g, &b->sizes, b->kv_type);
        b->kv[g].n_layer = n_layer;
        b->kv[g].page_bytes = bytes / n_layer;
        b->kv[g].layer_bytes = bytes / n_layer * config->n_pages[g];
        kv += bytes * config->n_pages[g];
    }
    cudaError_t code = cudaMalloc((void **)&b->weights, weights + 256);
    if (!code) code = cudaMalloc((void **)&b->memory, step + 256);
    for (int g = 0; g < b->plan->n_group_all && !code; g++)
        code = cudaMalloc((void **)&b->kv[g].at, b->kv[g].layer_bytes * b->kv[g].n_layer + 256);
    if (!code) return RN_OK;
    size_t free_bytes = 0, total_bytes = 0;
    cudaGetLastError();
    cudaMemGetInfo(&free_bytes, &total_bytes);
    return err_set(
        err, RN_ERR_NOMEM,
        "%s: weights of %.1f GiB, a step of %.1f GiB and KV pages of %.1f GiB do not fit "
        "(%s)",
        b->prop.name, (double)weights / 0x1p30, (double)step / 0x1p30, (double)kv / 0x1p30,
        cudaGetErrorString(code));
}

// Lets blocks of the kernel have that much shared memory. NULL: this build has no such kernel.
static cudaError_t shared_allow(const void *kernel, int bytes) {
    return kernel ? cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)
                  : cudaSuccess;
}

// The kernels may take as much shared memory as a block can have.
static rn_status kernels_prepare(struct cuda_backend *b, rn_error *err) {
    // LEAST: sm_89 and sm_120 have 99 KB; RINGS: of a product beside its input
    enum { LEAST = 96 << 10, RINGS = 80 << 10, STAGED = 32 << 10 };
    b->shared_most = (uint32_t)b->prop.sharedMemPerBlockOptin;
    b->overlaps = b->prop.major >= 9;
    if (b->shared_most < LEAST)
        return err_set(err, RN_ERR_UNSUPPORTED,
                       "%s: a block has %u bytes of shared memory, expected %d", b->prop.name,
                       b->shared_most, (int)LEAST);
    b->staged_most = b->shared_most - RINGS < STAGED ? b->shared_most - RINGS : STAGED;
    cudaError_t code = cudaSuccess;
    const int most = (int)b->shared_most;
    for (int i = 0; i < PRODUCT_FORMS * (CODEC_COUNT + 1) && !code; i++)
        code = shared_allow(product_small(i / PRODUCT_FORMS, i % PRODUCT_FORMS), most);
    static const int columns[] = {MANY_FEW, MANY_MIDDLE, MANY_WIDE};
    for (int i = 0; i < 3 * CODEC_COUNT && !code; i++)
        code = shared_allow(product_many(i / 3, columns[i % 3]), most);
    if (!code) code = shared_allow(attention_any(b->kv_type), most);
    for (int i = 0; i < 6 * b->plan->n_group_all && !code; i++) {
        const struct plan_kv_group *group = &b->plan->group[i / 6];
        const int k = group->dim_k, v = group->dim_v, form = i % 6;
        if (group->kind == KV_RECURRENT) continue;
        code = shared_allow(form == 0   ? attention_small(b->kv_type, k, v)
                            : form == 1 ? attention_long(b->kv_type, k, v)
                            : form <= 3 ? attention_prompt(b->kv_type, k, v, form == 3)
                                        : attention_streams(b->kv_type, k, v, form - 3),
                            most);
    }
    for (int i = 0; i < 4 * CODEC_COUNT && !code; i++)
        code = shared_allow(i % 4 < 2 ? experts_kernel(i / 4, i % 2)
                                      : experts_one_kernel(i / 4, i % 2),
                            most);
    for (int i = 0; i < b->plan->n_op_all && !code; i++)
        if (b->plan->op[i].kind == OP_ROUTE)
            code = shared_allow(route_kernel(b->plan->buffer[b->plan->op[i].in[0]].width), most);
    if (!code && b->shared_most >= LONG_SHARED) code = shared_allow(attention_fold(), FOLD_SHARED);
    if (!code) code = cuda_state_prepare(b);
    return code ? cuda_fault(code, RN_ERR_UNSUPPORTED, "shared memory", err) : RN_OK;
}

static void scratch_point(struct cuda_backend *b) {
    choose_scratch_init(&b->choose, b->sizes.max_logits, b->plan->n_vocab,
                        b->memory + b->layout.choose_at);
    for (int i = 0; i < 2; i++)
        b->chosen[i] =
            (struct cuda_result *)(void *)(b->memory + b->layout.chosen_at +
                                           (uint64_t)i * CUDA_CHOSEN_BYTES(b->sizes.max_logits));
}

// Whether matrices in F32 were rounded.
static bool has_rounded(const struct cuda_backend *b) {
    for (int i = 0; i < b->plan->n_weight; i++) {
        const enum weight_use use = b->layout.weight[i].use;
        if (use != USE_VECTOR && use != USE_NONE && b->plan->weight[i].format == FORMAT_F32)
            return true;
    }
    return false;
}

static rn_status cuda_init(struct cuda_backend *b, const struct backend_config *config,
                           rn_error *err) {
    rn_status s = device_check(b->device, err);
    if (s) return s;
    cudaError_t code = cudaSetDevice(b->device);
    if (!code) code = cudaGetDeviceProperties(&b->prop, b->device);
    if (!code) code = cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking);
    if (!code) code = cudaStreamCreateWithFlags(&b->up, cudaStreamNonBlocking);
    if (!code) code = cudaStreamCreateWithFlags(&b->down, cudaStreamNonBlocking);
    if (!code) code = cudaStreamCreateWithFlags(&b->page_up, cudaStreamNonBlocking);
    if (!code) code = cudaStreamCreateWithFlags(&b->page_down, cudaStreamNonBlocking);
    if (code) return cuda_fault(code, RN_ERR_DEVICE, "opening the device", err);
    b->n_sm = b->prop.multiProcessorCount;
    snprintf(b->variant, sizeof b->variant, "sm_%d%d", b->prop.major, b->prop.minor);
    if (config->variant && strcmp(config->variant, b->variant) != 0)
        return err_set(err, RN_ERR_ARG, "cuda: kernels '%.32s' are unknown (known here: %s)",
                       config->variant, b->variant);
    if ((s = layout_find(b, err))) return s;
    if ((s = kernels_prepare(b, err))) return s;
    if ((s = cuda_heads_prepare(b, err))) return s;
    if ((s = cuda_latent_prepare(b, err))) return s;
    if ((s = memory_take(b, config, err))) return s;
    b->has_experts = b->layout.max_expert > 0;
    for (int g = 0; g < b->plan->n_group; g++)
        b->has_states |= b->plan->group[g].kind == KV_RECURRENT;
    const int block = b->plan->n_group; // its group of pages, where it has one
    b->has_block = b->plan->n_op_all > b->plan->n_op &&
                   (b->plan->n_group_all == block || config->n_pages[block] > 0);
    for (int i = b->plan->n_op; i < b->plan->n_op_all; i++)
        if (b->plan->op[i].kind == OP_INPUT)
            b->input_width = b->plan->buffer[b->plan->op[i].out].width;
    scratch_point(b);
    if ((s = cuda_weights_load(b, config, err))) return s;
    if ((s = plan_check_files(b->plan, err))) return s;
    if ((s = cuda_program_make(b, err))) return s;
    return cuda_flights_make(b, err);
}

static rn_status cuda_create(const struct plan *plan, const struct backend_config *config,
                             struct backend **out, rn_error *err) {
    *out = NULL;
    if (config->sizes.max_tokens < 1 || config->sizes.max_logits < 1 || config->sizes.max_seqs < 1)
        return err_set(err, RN_ERR_ARG,
                       "max_tokens %d, max_logits %d, max_seqs %d: expected 1 or more",
                       config->sizes.max_tokens, config->sizes.max_logits, config->sizes.max_seqs);
    const char *kv_name = config->kv_type ? config->kv_type : CUDA_KV_DEFAULT;
    if (kv_type_of(kv_name) < 0)
        return err_set(err, RN_ERR_ARG, "cuda: KV type '%.32s' is unknown", kv_name);
    struct cuda_backend *b = calloc(1, sizeof *b);
    if (!b) return err_set(err, RN_ERR_NOMEM, "no memory for a backend of %zu bytes", sizeof *b);
    b->base.cls = &backend_cuda;
    b->plan = plan;
    b->device = config->device;
    b->sizes = config->sizes;
    b->kv_type = kv_type_of(kv_name);
    b->kv_name = cuda_kv_names[b->kv_type];
    const rn_status status = cuda_init(b, config, err);
    if (status) {
        cuda_destroy(&b->base);
        return status;
    }
    *out = &b->base;
    return RN_OK;
}

static void cuda_describe(const struct backend *backend, struct backend_info *out) {
    const struct cuda_backend *b = (const struct cuda_backend *)backend;
    *out = (struct backend_info){.variant = b->variant,
                                 .kv_type = b->kv_name,
                                 .slow_formats = "",
                                 .note = has_rounded(b) ? "cuda: weights in F32 were rounded to F16"
                                                        : NULL,
                                 .cache_bytes = (uint64_t)b->prop.l2CacheSize};
}

// ---------------------------------------------------------------- measuring

static int compare_floats(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// The median time of reading n bytes with that grid, in ms; 0: it failed.
static float read_ms(struct cuda_backend *b, const uint8_t *from, uint64_t n, int blocks,
                     int threads, cudaEvent_t begin, cudaEvent_t end) {
    enum { RUNS = 7 };
    float ms[RUNS];
    uint64_t count = n / 16;
    uint32_t *out = (uint32_t *)(void *)(b->memory + b->layout.chosen_at);
    void *args[] = {&from, &count, &out};
    const dim3 grid = {(unsigned)(b->n_sm * blocks), 1, 1}, block = {(unsigned)threads, 1, 1};
    for (int i = 0; i < RUNS; i++) {
        cudaError_t code = cudaEventRecord(begin, b->stream);
        if (!code) code = cudaLaunchKernel(read_kernel(), grid, block, args, 0, b->stream);
        if (!code) code = cudaEventRecord(end, b->stream);
        if (!code) code = cudaEventSynchronize(end);
        if (!code) code = cudaEventElapsedTime(&ms[i], begin, end);
        if (code) {
            cudaGetLastError();
            return 0;
        }
    }
    qsort(ms, RUNS, sizeof *ms, compare_floats);
    return ms[RUNS / 2];
}

// The weights themselves are read where they are large enough.
static double cuda_bandwidth(struct backend *backend, uint64_t working_set, int budget_ms) {
    static const int blocks[] = {1, 2, 4, 8}, threads[] = {256, 512, 1024};
    struct cuda_backend *b = (struct cuda_backend *)backend;
    const uint64_t most = UINT64_C(4) << 30;
    uint64_t n = working_set < most ? working_set : most;
    uint8_t *own = NULL;
    double best = 0;
    cudaEvent_t begin = NULL, end = NULL;
    const uint64_t deadline = clock_ns() + (uint64_t)budget_ms * 1000000u;
    n = n / 4096 * 4096;
    if (budget_ms <= 0 || n == 0 || cudaSetDevice(b->device)) return 0;
    const uint8_t *from = b->weights;
    if (b->layout.weight_bytes < n) {
        if (cudaMalloc((void **)&own, n) || cudaMemset(own, 1, n)) {
            cudaGetLastError();
            cudaFree(own);
            return 0;
        }
        from = own;
    }
    if (!cudaEventCreate(&begin) && !cudaEventCreate(&end)) {
        for (int i = 3; i >= 0; i--) {
            for (int k = 2; k >= 0; k--) {
                if (best > 0 && clock_ns() > deadline) break;
                const float ms = read_ms(b, from, n, blocks[i], threads[k], begin, end);
                if (ms > 0 && (double)n / (double)ms * 1e3 > best)
                    best = (double)n / (double)ms * 1e3;
            }
        }
    }
    if (begin) cudaEventDestroy(begin);
    if (end) cudaEventDestroy(end);
    cudaFree(own);
    return best;
}

static void cuda_profile(struct backend *backend, bool on) {
    struct cuda_backend *b = (struct cuda_backend *)backend;
    int n = 0;
    for (int i = 0; i < 2 * CUDA_PARTS; i++) {
        const int own = b->list[i / CUDA_PARTS][i % CUDA_PARTS].n;
        if (own > n) n = own;
    }
    if (on && !b->times) {
        const size_t bytes = (size_t)n * sizeof *b->times;
        if (cudaMalloc((void **)&b->times, bytes) || cudaMemset(b->times, 0, bytes) ||
            cudaMallocHost((void **)&b->times_host, bytes)) {
            cudaGetLastError();
            cudaFree(b->times);
            b->times = NULL;
        }
        b->profile = calloc((size_t)n, sizeof *b->profile);
    }
    b->profiling = on && b->times && b->profile;
}

static const struct backend_class backend_cuda = {
    .name = "cuda",
    .kv_types = cuda_kv_names,
    .kv_default = CUDA_KV_DEFAULT,
    .device = cuda_device,
    .need = need,
    .stored = cuda_stored,
    .block_check = cuda_block_check,
    .create = cuda_create,
    .destroy = cuda_destroy,
    .submit = cuda_submit,
    .wait = cuda_wait,
    .page_read = cuda_page_read,
    .page_write = cuda_page_write,
    .page_identity = cuda_page_identity,
    .describe = cuda_describe,
    .bandwidth = cuda_bandwidth,
    .profile = cuda_profile,
};

#ifdef RN_EMULATED
const struct backend_class *cuda_emulated(void);
const struct backend_class *cuda_emulated(void) { return &backend_cuda; }
#else
BACKEND_PLUGIN(backend_cuda);
#endif

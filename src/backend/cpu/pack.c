// Packs the weights of matrix products into the layout of their kernels, at create. Slices of a
// matrix are packed by all threads; progress is reported between slices, from the caller's thread,
// in bytes of the file's format.
#include "backend/cpu/cpu.h"
#include "base/checked.h"

enum { PROGRESS_STEPS = 64 };

struct slice {
    const struct matmul_kernel *kernel;
    const struct plan_weight *weight;
    int64_t first; // group
    uint8_t *dst;
};

static void pack_groups(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct slice *s = ctx;
    s->kernel->pack(s->weight, s->first + begin, s->first + end, s->dst);
}

// Matrices of a weight: its experts, or itself.
static int matrix_count(const struct plan_weight *weight) {
    return weight->n_expert ? weight->n_expert : 1;
}

// One of them as a weight of its own.
static struct plan_weight matrix_at(const struct plan_weight *weight, int index) {
    struct plan_weight one = *weight;
    one.bytes /= (uint64_t)matrix_count(weight);
    if (weight->n_expert) one.data = weight->expert_data[index];
    return one;
}

static int64_t matrix_bytes(const struct matmul_kernel *kernel, const struct plan_weight *weight) {
    return kernel->group_bytes(weight->cols) * cpu_groups(weight->rows);
}

// Where the kernel finds the matrices; of experts one by one.
static bool weight_init(struct cpu_backend *b, const struct plan_weight *weight,
                        struct cpu_weight *own) {
    own->kernel = matmul_kernel_find(weight->format, b->ops->isa);
    own->packed = weight->data;
    if (weight->n_expert == 0) return true;
    own->expert = arena_array(&b->arena, (size_t)weight->n_expert, sizeof *own->expert);
    if (!own->expert) return false;
    for (int e = 0; e < weight->n_expert; e++) own->expert[e] = weight->expert_data[e];
    return true;
}

// Chooses the kernels; sums the packed bytes and those of the file.
static bool measure(struct cpu_backend *b, uint64_t *packed, uint64_t *total) {
    bool ok = true;
    for (int i = 0; i < b->plan->n_op; i++) {
        const struct op *op = &b->plan->op[i];
        if (op->kind != OP_MATMUL && op->kind != OP_EXPERTS) continue;
        const struct plan_weight *weight = &b->plan->weight[op->weight];
        struct cpu_weight *own = &b->weight[op->weight];
        if (own->kernel || own->packed || own->expert) continue; // shared by two products
        if (!weight_init(b, weight, own)) return false;
        uint64_t bytes;
        if (!own->kernel) continue;
        ok &= ck_mul((uint64_t)matrix_bytes(own->kernel, weight), (uint64_t)matrix_count(weight),
                     &bytes) &&
              ck_add(*packed, bytes, packed);
        *total += weight->bytes;
    }
    return ok;
}

// Packs one matrix to dst; *done counts bytes of the file over all matrices.
static void pack_matrix(struct cpu_backend *b, const struct backend_config *config,
                        const struct matmul_kernel *kernel, const struct plan_weight *weight,
                        uint8_t *dst, uint64_t *done, uint64_t total) {
    const int64_t n_groups = cpu_groups(weight->rows), threads = pool_size(b->pool);
    const uint64_t group_bytes = weight->bytes / (uint64_t)n_groups + 1;
    int64_t step = (int64_t)(total / PROGRESS_STEPS / group_bytes);
    if (step < threads) step = threads;
    struct slice slice = {kernel, weight, 0, dst};
    for (; slice.first < n_groups; slice.first += step) {
        const int64_t rest = n_groups - slice.first, n = rest < step ? rest : step;
        pool_run(b->pool, pack_groups, &slice, n, n / (threads * 4) + 1);
        const uint64_t before = weight->bytes / (uint64_t)n_groups * (uint64_t)(slice.first + n);
        const uint64_t at = *done + (n == rest ? weight->bytes : before);
        if (config->progress) config->progress(config->progress_ctx, at, total);
    }
    *done += weight->bytes;
}

rn_status cpu_pack(struct cpu_backend *b, const struct backend_config *config, rn_error *err) {
    uint64_t packed = 0, total = 0, done = 0;
    if (!measure(b, &packed, &total)) packed = UINT64_MAX;
    const rn_status status = region_map(packed, false, "the packed weights", &b->packed, err);
    if (status) return status;
    uint8_t *dst = b->packed.base;
    for (int i = 0; i < b->plan->n_weight; i++) {
        struct cpu_weight *own = &b->weight[i];
        const struct plan_weight *weight = &b->plan->weight[i];
        if (!own->kernel) continue;
        for (int e = 0; e < matrix_count(weight); e++) {
            const struct plan_weight one = matrix_at(weight, e);
            pack_matrix(b, config, own->kernel, &one, dst, &done, total);
            *(weight->n_expert ? &own->expert[e] : &own->packed) = dst;
            dst += matrix_bytes(own->kernel, weight);
        }
    }
    return RN_OK;
}

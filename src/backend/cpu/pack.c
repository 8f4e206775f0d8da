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

// Chooses the kernels; sums the packed bytes and those of the file.
static bool measure(struct cpu_backend *b, uint64_t *packed, uint64_t *total) {
    bool ok = true;
    for (int i = 0; i < b->plan->n_op; i++) {
        const struct op *op = &b->plan->op[i];
        if (op->kind != OP_MATMUL) continue;
        const struct plan_weight *weight = &b->plan->weight[op->weight];
        struct cpu_weight *own = &b->weight[op->weight];
        if (own->kernel || own->packed) continue; // a matrix that two products share
        own->kernel = matmul_kernel_find(weight->format, b->ops->isa);
        own->packed = weight->data;
        uint64_t bytes;
        if (!own->kernel) continue;
        ok &= ck_mul((uint64_t)own->kernel->group_bytes(weight->cols),
                     (uint64_t)cpu_groups(weight->rows), &bytes) &&
              ck_add(*packed, bytes, packed);
        *total += weight->bytes;
    }
    return ok;
}

// Packs one matrix to dst; *done counts bytes of the file over all matrices.
static void pack_weight(struct cpu_backend *b, const struct backend_config *config, int index,
                        uint8_t *dst, uint64_t *done, uint64_t total) {
    const struct plan_weight *weight = &b->plan->weight[index];
    const int64_t n_groups = cpu_groups(weight->rows), threads = pool_size(b->pool);
    const uint64_t group_bytes = weight->bytes / (uint64_t)n_groups + 1;
    int64_t step = (int64_t)(total / PROGRESS_STEPS / group_bytes);
    if (step < threads) step = threads;
    struct slice slice = {b->weight[index].kernel, weight, 0, dst};
    for (; slice.first < n_groups; slice.first += step) {
        const int64_t rest = n_groups - slice.first, n = rest < step ? rest : step;
        pool_run(b->pool, pack_groups, &slice, n, n / (threads * 4) + 1);
        const uint64_t before = weight->bytes / (uint64_t)n_groups * (uint64_t)(slice.first + n);
        const uint64_t at = *done + (n == rest ? weight->bytes : before);
        if (config->progress) config->progress(config->progress_ctx, at, total);
    }
    *done += weight->bytes;
    b->weight[index].packed = dst;
}

rn_status cpu_pack(struct cpu_backend *b, const struct backend_config *config, rn_error *err) {
    uint64_t packed = 0, total = 0, done = 0;
    if (!measure(b, &packed, &total)) packed = UINT64_MAX;
    const rn_status status = region_map(packed, false, "the packed weights", &b->packed, err);
    if (status) return status;
    uint8_t *dst = b->packed.base;
    for (int i = 0; i < b->plan->n_weight; i++) {
        const struct cpu_weight *own = &b->weight[i];
        if (!own->kernel) continue;
        const struct plan_weight *weight = &b->plan->weight[i];
        pack_weight(b, config, i, dst, &done, total);
        dst += own->kernel->group_bytes(weight->cols) * cpu_groups(weight->rows);
    }
    return RN_OK;
}

// Packs the weights of matrix products into the layout of their kernels, and copies tables, at
// create: as fast as the files can be read, with bounded memory beside the packed bytes. All
// matrices are cut into slices of whole row groups, in their order in memory or file. Threads take
// one slice after the other, fetch its bytes and pack them. So reading, packing and the page faults
// of the packed region happen side by side. Each byte is fetched once, and each group is packed
// once, into bytes of its own. Afterwards no step needs a file, but for cold tables. Progress is
// reported from the caller's thread, in bytes of the file's format.
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/checked.h"

enum {
    SLICE_BYTES = 512 << 10, // so that it stays in the core's cache from the fetch to the packing
    SLICES_TAKEN = 4,        // in a row, so that threads seldom fault in the same huge page
    PROGRESS_STEPS = 64,
    FETCH_ALIGN = 4096,
    ROWS_ALIGN = 64,
};

// Groups [0, n_groups) of `part`, which is some rows of a matrix.
struct slice {
    const struct matmul_kernel *kernel; // NULL: it is not packed
    struct plan_weight part;
    uint8_t *dst;
    uint8_t *rows; // where its rows are copied; NULL: nowhere
};

struct packing {
    const struct plan *plan;
    const struct backend_config *config;
    struct slice *slice;
    int64_t n_slice, cap_slice;
    uint64_t slice_bytes;  // of a slice of more than a group, at most
    uint64_t total;        // bytes of the file
    uint64_t reported;     // of the caller's thread
    _Atomic int64_t next;  // slice that no thread has taken
    _Atomic uint64_t done; // bytes of the file
    struct region fetched; // [threads, fetched_bytes]
    uint64_t fetched_bytes;
    _Atomic bool failed; // the thread that sets it first sets the status and err
    rn_status status;
    rn_error *err;
};

// Matrices of a weight: its experts (of HEADS: heads), or itself.
static int matrix_count(const struct plan_weight *weight) {
    return weight->n_expert ? weight->n_expert : 1;
}

// One of them as a weight of its own.
static struct plan_weight matrix_at(const struct plan_weight *weight, int index) {
    struct plan_weight one = *weight;
    one.bytes /= (uint64_t)matrix_count(weight);
    if (weight->n_expert) one.data = weight->expert_data[index];
    one.n_expert = 0;
    one.expert_data = NULL;
    return one;
}

static int64_t matrix_bytes(const struct matmul_kernel *kernel, const struct plan_weight *weight) {
    return kernel->group_bytes(weight->cols) * cpu_groups(weight->rows);
}

// Row groups of a slice.
static int64_t slice_groups(const struct packing *p, const struct plan_weight *weight) {
    const uint64_t group_bytes = format_row_bytes(weight->format, weight->cols) * MATMUL_GROUP;
    return group_bytes < p->slice_bytes ? (int64_t)(p->slice_bytes / group_bytes) : 1;
}

static int64_t slice_count(const struct packing *p, const struct plan_weight *weight) {
    const int64_t n = slice_groups(p, weight);
    return (cpu_groups(weight->rows) + n - 1) / n * matrix_count(weight);
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

// Rows that are read as the file has them: those of a table, and of a matrix without a kernel. In
// memory they are read in place.
static void rows_init(const struct plan *plan, const struct plan_weight *weight,
                      struct cpu_weight *own) {
    if (!plan_on_disk(plan, weight))
        own->rows = weight->data;
    else
        own->has_rows = !weight->is_cold;
}

static uint64_t rows_bytes(const struct plan_weight *weight) {
    uint64_t bytes;
    return ck_pad(weight->bytes, ROWS_ALIGN, &bytes) ? bytes : UINT64_MAX;
}

// Chooses the kernels; sums the bytes of packed weights, of copied rows, and of the file.
static bool measure(struct cpu_backend *b, struct packing *p, uint64_t *packed, uint64_t *copied) {
    bool ok = true;
    for (int i = 0; i < b->plan->n_op_all; i++) {
        const struct op *op = &b->plan->op[i];
        const bool is_product = op_is_product(op->kind);
        if (!is_product && op->kind != OP_EMBED) continue;
        const struct plan_weight *weight = &b->plan->weight[op->weight];
        struct cpu_weight *own = &b->weight[op->weight];
        const bool is_known = own->kernel || own->packed || own->expert;
        if (is_product && !is_known && !weight_init(b, weight, own)) return false;
        if (!is_product || !own->kernel) rows_init(b->plan, weight, own);
    }
    for (int i = 0; i < b->plan->n_weight; i++) {
        const struct plan_weight *weight = &b->plan->weight[i];
        const struct cpu_weight *own = &b->weight[i];
        uint64_t bytes = 0;
        if (own->kernel)
            ok &= ck_mul((uint64_t)matrix_bytes(own->kernel, weight),
                         (uint64_t)matrix_count(weight), &bytes) &&
                  ck_add(*packed, bytes, packed);
        if (own->has_rows) ok &= ck_add(*copied, rows_bytes(weight), copied);
        if (own->kernel || own->has_rows) p->total += weight->bytes;
    }
    return ok;
}

static void cut_matrix(struct packing *p, const struct matmul_kernel *kernel,
                       const struct plan_weight *matrix, uint8_t *dst, uint8_t *rows) {
    const uint64_t row_bytes = format_row_bytes(matrix->format, matrix->cols);
    const int64_t step = slice_groups(p, matrix) * MATMUL_GROUP;
    for (int64_t row = 0; row < matrix->rows; row += step) {
        const int64_t rest = matrix->rows - row;
        struct slice *slice = &p->slice[p->n_slice++];
        *slice = (struct slice){.kernel = kernel, .part = *matrix};
        slice->part.rows = rest < step ? rest : step;
        slice->part.data = (const uint8_t *)matrix->data + (uint64_t)row * row_bytes;
        slice->part.bytes = (uint64_t)slice->part.rows * row_bytes;
        if (kernel) slice->dst = dst + row / MATMUL_GROUP * kernel->group_bytes(matrix->cols);
        if (rows) slice->rows = rows + (uint64_t)row * row_bytes;
        if (slice->part.bytes > p->fetched_bytes) p->fetched_bytes = slice->part.bytes;
    }
}

// Gives each matrix its place in the packed region, and in that of rows.
static void cut_all(struct cpu_backend *b, struct packing *p) {
    uint8_t *dst = b->packed.base, *rows = b->rows.base;
    for (int i = 0; i < b->plan->n_weight; i++) {
        struct cpu_weight *own = &b->weight[i];
        const struct plan_weight *weight = &b->plan->weight[i];
        if (!own->kernel && !own->has_rows) continue;
        if (own->has_rows) own->rows = rows;
        for (int m = 0; m < matrix_count(weight); m++) {
            const struct plan_weight matrix = matrix_at(weight, m);
            uint8_t *copy = own->has_rows ? rows + (uint64_t)m * matrix.bytes : NULL;
            cut_matrix(p, own->kernel, &matrix, dst, copy);
            if (own->expert || own->packed)
                *(own->expert ? &own->expert[m] : &own->packed) = own->kernel ? dst : copy;
            if (own->kernel) dst += matrix_bytes(own->kernel, weight);
        }
        if (own->has_rows) rows += rows_bytes(weight);
    }
    assert(p->n_slice == p->cap_slice);
}

static int slices_compare(const void *a, const void *b) {
    const struct slice *left = a, *right = b;
    const uintptr_t at = (uintptr_t)left->part.data, other = (uintptr_t)right->part.data;
    return (at > other) - (at < other);
}

static rn_status prepare(struct cpu_backend *b, struct packing *p) {
    uint64_t packed = 0, copied = 0, bytes;
    if (!measure(b, p, &packed, &copied)) packed = UINT64_MAX;
    rn_status status = region_map(packed, false, "the packed weights", &b->packed, p->err);
    if (!status) status = region_map(copied, false, "tables", &b->rows, p->err);
    if (status || p->total == 0) return status;
    p->slice_bytes =
        p->total / PROGRESS_STEPS < SLICE_BYTES ? p->total / PROGRESS_STEPS : SLICE_BYTES;
    for (int i = 0; i < b->plan->n_weight; i++)
        if (b->weight[i].kernel || b->weight[i].has_rows)
            p->cap_slice += slice_count(p, &b->plan->weight[i]);
    p->slice = calloc((size_t)p->cap_slice, sizeof *p->slice);
    if (!p->slice)
        return err_set(p->err, RN_ERR_NOMEM, "cannot allocate %lld slices of weights",
                       (long long)p->cap_slice);
    cut_all(b, p);
    // Disks are fastest in order, and the bytes that are read ahead are then the next ones.
    qsort(p->slice, (size_t)p->n_slice, sizeof *p->slice, slices_compare);
    if (!p->plan->fetch) return RN_OK;
    if (!ck_pad(p->fetched_bytes, FETCH_ALIGN, &p->fetched_bytes) ||
        !ck_mul(p->fetched_bytes, (uint64_t)pool_size(b->pool), &bytes))
        bytes = UINT64_MAX;
    return region_map(bytes, true, "weights being read", &p->fetched, p->err);
}

static rn_status slice_pack(struct packing *p, const struct slice *slice, int worker,
                            rn_error *err) {
    struct plan_weight part = slice->part;
    if (p->plan->fetch) {
        uint8_t *buffer = p->fetched.base + (uint64_t)worker * p->fetched_bytes;
        const rn_status status =
            p->plan->fetch(p->plan->fetch_ctx, part.data, part.bytes,
                           slice->rows ? slice->rows : buffer, &part.data, err);
        if (status) return status;
    }
    if (slice->rows && part.data != slice->rows) memcpy(slice->rows, part.data, part.bytes);
    if (slice->kernel) slice->kernel->pack(&part, 0, cpu_groups(part.rows), slice->dst);
    return RN_OK;
}

static void report(struct packing *p) {
    const uint64_t done = atomic_load(&p->done);
    if (!p->config->progress || done == p->reported) return;
    if (done < p->total && done - p->reported < p->total / PROGRESS_STEPS) return;
    p->reported = done;
    p->config->progress(p->config->progress_ctx, done, p->total);
}

static void pack_some(struct packing *p, int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end && !atomic_load(&p->failed); i++) {
        rn_error err = {0};
        const rn_status status = slice_pack(p, &p->slice[i], worker, &err);
        if (status && !atomic_exchange(&p->failed, true)) {
            p->status = status;
            if (p->err) *p->err = err;
        }
        if (status) return;
        atomic_fetch_add(&p->done, p->slice[i].part.bytes);
        if (worker == 0) report(p);
    }
}

// An item is a thread that packs until nothing is left. The pool's own shares would be as many
// places of the file at once.
static void pack_slices(void *ctx, int64_t begin, int64_t end, int worker) {
    struct packing *p = ctx;
    (void)begin, (void)end;
    while (!atomic_load(&p->failed)) {
        const int64_t first = atomic_fetch_add(&p->next, SLICES_TAKEN);
        if (first >= p->n_slice) return;
        const int64_t rest = p->n_slice - first;
        pack_some(p, first, first + (rest < SLICES_TAKEN ? rest : SLICES_TAKEN), worker);
    }
}

rn_status cpu_pack(struct cpu_backend *b, const struct backend_config *config, rn_error *err) {
    struct packing p = {.plan = b->plan, .config = config, .err = err};
    p.status = prepare(b, &p);
    // The program knows which thread will read what, and this is the first touch of the memory.
    if (!p.status) p.status = cpu_program_compile(b, err);
    if (p.status == RN_OK) {
        cpu_place_weights(b);
        pool_run(b->pool, pack_slices, &p, pool_size(b->pool), 1);
        if (!p.status) report(&p);
    }
    region_unmap(&p.fetched);
    free(p.slice);
    return p.status;
}

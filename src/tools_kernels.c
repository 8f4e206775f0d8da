// Tables as lists for people. Kernels: for every format and every instruction set of this build,
// the kernel of each number of tokens. Called by `runnel bench --kernels`. Architectures: called by
// `runnel inspect --architectures`.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/ops.h"
#include "backend/cpu/tune.h"
#include "base/memory.h"
#include "model/arch.h"
#include "tools.h"

bool tools_arch_at(int index, struct tools_arch *out) {
    struct hf_arch archs[ARCH_COUNT + 1];
    if (index < 0 || index >= ARCH_COUNT) return false;
    arch_folders(archs);
    *out = (struct tools_arch){.name = archs[index].name};
    int n = 0;
    for (const struct hf_class *class = archs[index].classes; class->name; class ++) {
        bool is_new = true; // a class may have a row for each form of its config
        for (int i = 0; i < n; i++) is_new = is_new && strcmp(out->classes[i], class->name) != 0;
        if (!is_new) continue;
        assert(n < TOOLS_ARCH_CLASSES);
        out->classes[n++] = class->name;
    }
    return true;
}

// Columns long enough that the padding of a group's last unit does not show.
enum { PROBE_COLS = 1 << 16 };

static double bits_of(uint64_t bytes, double weights) { return (double)bytes * 8 / weights; }

bool tools_kernel_at(int index, struct tools_kernel *out) {
    if (index < 0 || index >= FORMAT_COUNT * ISA_COUNT) return false;
    const enum format_id format = (enum format_id)(index / ISA_COUNT);
    const enum cpu_isa isa = (enum cpu_isa)(index % ISA_COUNT);
    const struct matmul_kernel *kernel = matmul_kernel_find(format, isa);
    const bool scalar = isa == ISA_SCALAR;
    *out = (struct tools_kernel){.format = format_at(format)->name,
                                 .isa = ops_name(isa),
                                 .built = scalar || kernel,
                                 .here = ops_at(isa) != NULL,
                                 .file_bits =
                                     bits_of(format_row_bytes(format, PROBE_COLS), PROBE_COLS)};
    out->packed_bits = out->file_bits;
    for (int shape = 0; shape < SHAPE_COUNT; shape++)
        out->name[shape] = kernel ? kernel->name[shape] : "reference, slow";
    if (kernel)
        out->packed_bits =
            bits_of((uint64_t)kernel->group_bytes(PROBE_COLS), (double)PROBE_COLS * MATMUL_GROUP);
    return true;
}

// ---------------------------------------------------------------- ways

struct tools_ways {
    struct pool *pool;
    enum cpu_isa isa;     // the best one here
    struct region packed; // larger than the caches
};

// Ordinary numbers as scales: some formats' zeros are too small for a product at full speed.
static void touch(void *ctx, int64_t begin, int64_t end, int worker) {
    enum { ORDINARY = 0x35 };
    (void)worker;
    memset((uint8_t *)ctx + begin, ORDINARY, (size_t)(end - begin));
}

static rn_status ways_init(struct tools_ways *ways, int n_threads, rn_error *err) {
    enum { TOUCH_BYTES = 2 << 20 };
    const struct cpu_ops *ops;
    rn_status status = ops_find(NULL, &ops, err);
    if (!status) status = pool_create_here(n_threads, false, &ways->pool, err);
    if (status) return status;
    ways->isa = ops->isa;
    const uint64_t wanted = tune_bytes(ways->pool), most = memory_available() / 4;
    status = region_map(wanted < most ? wanted : most, false, "a test of the kernels",
                        &ways->packed, err);
    if (!status)
        pool_run(ways->pool, touch, ways->packed.base, (int64_t)ways->packed.bytes, TOUCH_BYTES);
    return status;
}

rn_status tools_ways_create(int n_threads, struct tools_ways **out, rn_error *err) {
    *out = NULL;
    struct tools_ways *ways = calloc(1, sizeof *ways);
    if (!ways) return err_set(err, RN_ERR_NOMEM, "cannot allocate the test of the kernels");
    const rn_status status = ways_init(ways, n_threads, err);
    if (status)
        tools_ways_destroy(ways);
    else
        *out = ways;
    return status;
}

void tools_ways_destroy(struct tools_ways *ways) {
    if (!ways) return;
    region_unmap(&ways->packed);
    pool_destroy(ways->pool);
    free(ways);
}

rn_status tools_ways_find(struct tools_ways *ways, int index, char out[TOOLS_WAY_TEXT],
                          rn_error *err) {
    const enum cpu_isa isa = (enum cpu_isa)(index % ISA_COUNT);
    const struct matmul_kernel *kernel =
        matmul_kernel_find((enum format_id)(index / ISA_COUNT), isa);
    struct matmul_way way;
    double gain;
    *out = 0;
    if (isa != ways->isa || !kernel || !kernel->has_ways) return RN_OK;
    const rn_status status = tune_region(ways->pool, kernel, &ways->packed, &way, &gain, err);
    if (status) return status;
    char name[TOOLS_WAY_TEXT / 2];
    tune_name(&way, name, sizeof name);
    snprintf(out, TOOLS_WAY_TEXT, gain > 1 ? "%s, %.2fx" : "%s", name, gain);
    return RN_OK;
}

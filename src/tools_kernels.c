// Tables as lists for people. Kernels: for every format and every instruction set of this build,
// the kernel of each number of tokens. Called by `runnel bench --kernels`. Architectures: called by
// `runnel inspect --architectures`.
#include <assert.h>
#include <string.h>

#include "backend/cpu/ops.h"
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

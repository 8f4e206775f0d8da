// `runnel bench --kernels`: a row for each format and instruction set that this program was built
// with, and the kernels that serve it. Nothing is measured.
#include <stdlib.h>

#include "bench/bench.h"

static void row_fill(const struct tools_kernel *kernel, struct row *row) {
    *row = (struct row){.table = TABLE_KERNELS};
    row_text(row, COLUMN_FORMAT, kernel->format);
    row_text(row, COLUMN_ISA, kernel->isa);
    row_bool(row, COLUMN_HERE, kernel->here);
    for (unsigned i = 0; i < 4; i++) row_text(row, COLUMN_ONE + i, kernel->name[i]);
    row_real(row, COLUMN_FILE_BITS, kernel->file_bits);
    row_real(row, COLUMN_PACKED_BITS, kernel->packed_bits);
}

int kernels_print(const char *output, const struct term *term) {
    const struct bench_config config = {.output = output};
    struct bench bench = {.config = &config, .term = term};
    struct tools_kernel kernel;
    int code = APP_OK;
    for (int i = 0; !code && tools_kernel_at(i, &kernel); i++) {
        struct row row;
        if (!kernel.built) continue;
        row_fill(&kernel, &row);
        code = bench_row_add(&bench, &row);
    }
    if (!code) code = rows_print(&bench);
    for (int i = 0; i < bench.n_rows; i++) row_deinit(&bench.rows[i]);
    free(bench.rows);
    return code;
}

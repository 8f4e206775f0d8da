// `runnel bench --kernels`: a row for each format and instruction set that this program was built
// with, and the kernels that serve it. Only the way of reading is measured: where a kernel has a
// choice, the fastest one here.
#include <stdlib.h>

#include "bench/bench.h"

static void row_fill(const struct tools_kernel *kernel, const char *way, struct row *row) {
    *row = (struct row){.table = TABLE_KERNELS};
    row_text(row, COLUMN_FORMAT, kernel->format);
    row_text(row, COLUMN_ISA, kernel->isa);
    row_bool(row, COLUMN_HERE, kernel->here);
    for (unsigned i = 0; i < 4; i++) row_text(row, COLUMN_ONE + i, kernel->name[i]);
    row_text(row, COLUMN_WAY, way);
    row_real(row, COLUMN_FILE_BITS, kernel->file_bits);
    row_real(row, COLUMN_PACKED_BITS, kernel->packed_bits);
}

static int rows_fill(struct bench *bench, struct tools_ways *ways) {
    struct tools_kernel kernel;
    rn_error err = {0};
    int code = APP_OK;
    for (int i = 0; !code && tools_kernel_at(i, &kernel); i++) {
        struct row row;
        char way[TOOLS_WAY_TEXT];
        if (!kernel.built) continue;
        if (tools_ways_find(ways, i, way, &err)) return app_fail_error(&err);
        row_fill(&kernel, way, &row);
        code = bench_row_add(bench, &row);
    }
    return code;
}

int kernels_print(const char *output, int n_threads, const struct term *term) {
    const struct bench_config config = {.output = output};
    struct bench bench = {.config = &config, .term = term};
    struct tools_ways *ways;
    rn_error err = {0};
    if (tools_ways_create(n_threads, &ways, &err)) return app_fail_error(&err);
    int code = rows_fill(&bench, ways);
    tools_ways_destroy(ways);
    if (!code) code = rows_print(&bench);
    for (int i = 0; i < bench.n_rows; i++) row_deinit(&bench.rows[i]);
    free(bench.rows);
    return code;
}

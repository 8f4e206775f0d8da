// `runnel bench --kernels`: the table of kernels, one line per format and instruction set that this
// program was built with; those that this machine lacks are marked.
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"

// NULL: out of memory.
static json_t *kernels_make(void) {
    json_t *rows = json_array();
    struct tools_kernel k;
    for (int i = 0; rows && tools_kernel_at(i, &k); i++) {
        if (!k.built) continue;
        json_t *row =
            json_pack("{ss ss sb ss ss ss ss sf sf}", "format", k.format, "isa", k.isa, "here",
                      (int)k.here, "one", k.name[0], "few", k.name[1], "many", k.name[2], "panel",
                      k.name[3], "file_bits", k.file_bits, "packed_bits", k.packed_bits);
        rows = json_append(rows, row, true);
    }
    return rows;
}

static void table_print(void) {
    struct tools_kernel k;
    printf("| %-6s | %-7s | %-4s | %-15s | %-15s | %-17s | %-17s | %11s | %6s |\n", "format", "isa",
           "here", "1 token", "2 to 8", "9 to 32", "more", "bits/weight", "packed");
    puts("| ------ | ------- | ---- | --------------- | --------------- | ----------------- | "
         "----------------- | ----------: | -----: |");
    for (int i = 0; tools_kernel_at(i, &k); i++) {
        if (!k.built) continue;
        printf("| %-6s | %-7s | %-4s | %-15s | %-15s | %-17s | %-17s | %11.4g | %6.4g |\n",
               k.format, k.isa, k.here ? "yes" : "no", k.name[0], k.name[1], k.name[2], k.name[3],
               k.file_bits, k.packed_bits);
    }
}

int bench_kernels_print(const char *output) {
    if (!strcmp(output, "json")) return json_print(kernels_make(), JSON_INDENT(2));
    if (!strcmp(output, "csv")) return json_csv_print(kernels_make(), 0);
    table_print();
    return APP_OK;
}

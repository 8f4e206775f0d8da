// `runnel bench --kernels`: the table of kernels, one line per format and instruction set that this
// program was built with; those that this machine lacks are marked.
#include <stdio.h>

#include "app.h"
#include "bench.h"
#include "json.h"
#include "tools.h"

static int kernels_json(void) {
    json_t *rows = json_array();
    struct tools_kernel k;
    for (int i = 0; tools_kernel_at(i, &k); i++) {
        if (!k.built) continue;
        json_array_append_new(rows,
                              json_pack("{ss ss sb ss ss ss ss sf sf}", "format", k.format, "isa",
                                        k.isa, "here", (int)k.here, "one", k.name[0], "few",
                                        k.name[1], "many", k.name[2], "panel", k.name[3],
                                        "file_bits", k.file_bits, "packed_bits", k.packed_bits));
    }
    return json_print(rows, JSON_INDENT(2));
}

int bench_kernels_print(bool as_json) {
    if (as_json) return kernels_json();
    printf(
        "| format | isa     | here | 1 token | 2 to 8 | 9 to 32 | more | bits/weight | packed |\n"
        "| ------ | ------- | ---- | ------- | ------ | ------- | ---- | ----------: | -----: |\n");
    struct tools_kernel k;
    for (int i = 0; tools_kernel_at(i, &k); i++) {
        if (!k.built) continue;
        printf("| %-6s | %-7s | %-4s | %s | %s | %s | %s | %.4g | %.4g |\n", k.format, k.isa,
               k.here ? "yes" : "no", k.name[0], k.name[1], k.name[2], k.name[3], k.file_bits,
               k.packed_bits);
    }
    return APP_OK;
}

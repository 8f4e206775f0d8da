// `runnel plan --matrix`: one matrix on the roofline. A product with n tokens reads the matrix once
// and takes two operations for each weight and token.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "plan/outline.h"

enum { MAX_SIDE = 1 << 24 };
static const int token_counts[] = {1, 8, 64, 512};
enum { N_COUNTS = sizeof token_counts / sizeof *token_counts };

struct matrix {
    int64_t rows, cols;
    enum format_id format;
    uint64_t bytes;
};

struct matrix_row {
    int tokens;
    double flops, intensity;
    double ns;
    bool is_math;
};

static bool format_read(const char *name, enum format_id *out) {
    for (int i = 0; i < FORMAT_COUNT; i++) {
        *out = (enum format_id)i;
        if (!strcasecmp(format_at(*out)->name, name)) return true;
    }
    return false;
}

static int format_unknown(const char *option, const char *name) {
    char known[256] = "";
    size_t len = 0;
    for (int i = 0; i < FORMAT_COUNT; i++)
        len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", i ? ", " : "",
                                format_at((enum format_id)i)->name);
    return app_fail(APP_USAGE, "%s: format '%s' is unknown (known: %s)", option,
                    app_short(name).text, known);
}

static bool side_read(const char **text, char end, int64_t *out) {
    char *stop = NULL;
    if (**text < '1' || **text > '9') return false;
    *out = strtoll(*text, &stop, 10);
    if (*stop != end || *out > MAX_SIDE) return false;
    *text = stop + 1;
    return true;
}

static int matrix_read(const struct options *options, const char *spec, struct matrix *out) {
    char name[OPTION_NAME_SIZE];
    const char *at = spec;
    option_name(options, OPT_MATRIX, name);
    if (!side_read(&at, 'x', &out->rows) || !side_read(&at, ':', &out->cols))
        return app_fail(APP_USAGE, "%s: '%s' is not a matrix such as 4096x4096:F16", name,
                        app_short(spec).text);
    if (!format_read(at, &out->format)) return format_unknown(name, at);
    const struct format *format = format_at(out->format);
    if (out->cols % format->block != 0)
        return app_fail(APP_USAGE,
                        "%s: '%s': %s has blocks of %d weights, %" PRId64
                        " columns are not whole ones",
                        name, app_short(spec).text, format->name, format->block, out->cols);
    out->bytes = format_row_bytes(out->format, out->cols) * (uint64_t)out->rows;
    return APP_OK;
}

// A measured machine has the curve of the format, other machines their two figures.
static double time_ns(const struct machine *machine, const struct matrix *matrix, int tokens,
                      bool *is_math) {
    const double bytes = (double)matrix->bytes;
    const double flops = 2.0 * (double)matrix->rows * (double)matrix->cols * tokens;
    const double bytes_ns = bytes / machine->predict.bandwidth * 1e9;
    const double math_ns = flops / machine->predict.flops * 1e9;
    if (machine->kind == MACHINE_HERE) {
        const struct predict_matrix one = {bytes, (double)matrix->rows, (double)matrix->cols};
        const double ns = predict_product_ns(machine->rates, matrix->format, tokens, &one, bytes);
        *is_math = predict_is_math(bytes / machine->rates->bandwidth * 1e9, ns);
        return ns;
    }
    *is_math = math_ns > bytes_ns;
    return *is_math ? math_ns : bytes_ns;
}

static struct matrix_row row_make(const struct outline *outline, const struct matrix *matrix,
                                  int tokens) {
    struct matrix_row row = {.tokens = tokens,
                             .flops = 2.0 * (double)matrix->rows * (double)matrix->cols * tokens};
    row.intensity = row.flops / (double)matrix->bytes;
    row.ns = time_ns(&outline->machine, matrix, tokens, &row.is_math);
    return row;
}

static const char *millions_text(double value, char out[32]) {
    snprintf(out, 32, value >= 1e5 ? "%.1f" : "%.3g", value * 1e-6);
    return out;
}

static void text_print(const struct outline *outline, const struct matrix *matrix) {
    const double weights = (double)matrix->rows * (double)matrix->cols;
    char bytes[32], flops[32];
    printf("matrix   %" PRId64 " x %" PRId64 " %s: %s MB, %s MFLOP per token, %.2f FLOP/byte\n",
           matrix->rows, matrix->cols, format_at(matrix->format)->name,
           millions_text((double)matrix->bytes, bytes), millions_text(2 * weights, flops),
           2 * weights / (double)matrix->bytes);
    outline_machine(outline);
    outline_section(outline, "roofline");
    printf("  %6s %10s %10s %12s %12s  %s\n", "tokens", "MFLOP", "FLOP/byte", "time", "GFLOP/s",
           "bound by");
    for (int i = 0; i < N_COUNTS; i++) {
        const struct matrix_row row = row_make(outline, matrix, token_counts[i]);
        printf("  %6d %10.1f %10.2f %9.2f us %12.1f  %s\n", row.tokens, row.flops * 1e-6,
               row.intensity, row.ns * 1e-3, row.flops / row.ns,
               row.is_math ? "arithmetic" : "bandwidth");
    }
}

static bool json_make(const struct outline *outline, const struct matrix *matrix) {
    json_t *rows = json_array();
    for (int i = 0; rows && i < N_COUNTS; i++) {
        const struct matrix_row row = row_make(outline, matrix, token_counts[i]);
        json_t *object = json_pack("{s:i, s:f, s:f}", "tokens", row.tokens, "flops", row.flops,
                                   "flop_per_byte", row.intensity);
        bool ok = object != NULL;
        ok = ok && json_put(object, "time_us", json_number(row.ns * 1e-3)) &&
             json_put(object, "bound", json_string(row.is_math ? "arithmetic" : "bandwidth"));
        rows = json_append(rows, object, ok);
    }
    json_t *object =
        json_pack("{s:I, s:I, s:s, s:I, s:f}", "rows", (json_int_t)matrix->rows, "cols",
                  (json_int_t)matrix->cols, "format", format_at(matrix->format)->name, "bytes",
                  (json_int_t)matrix->bytes, "flops_per_token",
                  2.0 * (double)matrix->rows * (double)matrix->cols);
    return json_put(object, "roofline", rows) && json_put(outline->json, "matrix", object) &&
           outline_machine(outline) == APP_OK;
}

int matrix_measure(struct outline *outline) {
    struct matrix matrix;
    const int code =
        matrix_read(outline->options, option_text(outline->options, OPT_MATRIX), &matrix);
    struct plan_weight weight = {.format = matrix.format};
    struct op op = {.kind = OP_MATMUL};
    const struct plan plan = {.op = &op, .n_op = 1, .weight = &weight, .n_weight = 1};
    if (code) return code;
    return machine_measure(outline->options, &plan, NULL, outline->term, &outline->machine);
}

int matrix_report(const struct outline *outline, const char *spec) {
    struct matrix matrix;
    const int code = matrix_read(outline->options, spec, &matrix);
    if (code) return code;
    if (outline->json)
        return json_make(outline, &matrix) ? APP_OK : app_fail(APP_FAILED, "out of memory");
    text_print(outline, &matrix);
    return APP_OK;
}

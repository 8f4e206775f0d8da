// Rows for programs: llama-bench's keys, then ours.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

// The processor's name, or "".
static void cpu_name(char *out, size_t size) {
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");
    *out = '\0';
    while (file && !*out && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(out, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
    }
    if (file) fclose(file);
}

static json_t *numbers(const struct bench_row *row, double (*f)(const struct bench_row *, int)) {
    json_t *array = json_array();
    for (int i = 0; array && i < row->n_samples; i++) {
        if (json_array_append_new(array, json_number(f(row, i))) == 0) continue;
        json_decref(array);
        array = NULL;
    }
    return array;
}

static double sample_bandwidth(const struct bench_row *row, int i) {
    return row->samples[i].bandwidth > 0 ? row->samples[i].bandwidth / 1e9 : (double)NAN;
}
static double sample_peer(const struct bench_row *row, int i) { return row->samples[i].peer_ts; }

static json_t *samples_ns(const struct bench_row *row) {
    json_t *array = json_array();
    for (int i = 0; array && i < row->n_samples; i++)
        json_array_append_new(array, json_integer((json_int_t)row->samples[i].ns));
    return array;
}

static json_t *whole(double value) {
    return isfinite(value) ? json_integer((json_int_t)llround(value)) : json_null();
}

static json_t *above_zero(double value) { return value > 0 ? json_number(value) : json_null(); }

// What was run.
static json_t *row_head(const struct bench_row *row, const char *cpu) {
    const struct bench_test *test = &row->test;
    const char *kv = row->kv_type;
    const int n_ubatch = row->n_batch;
    return json_pack(
        "{s:s, s:i, s:o, s:s, s:s, s:o, s:o, s:I, s:I, s:i, s:i, s:i, s:s, s:s, s:i, s:i, s:i, "
        "s:i, s:i, s:s, s:s}",
        "build_commit", RN_VERSION, "build_number", 0, "cpu_info", json_text(cpu, strlen(cpu)),
        "gpu_info", "", "backends", row->backend, "model_filename",
        json_text(row->filename, strlen(row->filename)), "model_type",
        json_text(row->type, strlen(row->type)), "model_size", (json_int_t)row->model_size,
        "model_n_params", (json_int_t)row->n_params, "n_batch", row->n_batch, "n_ubatch", n_ubatch,
        "n_threads", row->n_threads, "type_k", kv, "type_v", kv, "n_prompt", test->n_prompt,
        "n_gen", test->n_gen, "n_depth", test->n_depth, "n_seqs", test->n_seqs, "n_verify",
        test->n_verify, "isa", row->isa, "test_time", row->time);
}

// What came out.
static json_t *row_figures(const struct bench_row *row) {
    struct bench_figures f;
    bench_figures(row, &f);
    const bool peer = row->peer_name != NULL;
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, "
        "s:o, s:o, s:o, s:o}",
        "avg_ns", whole(f.avg_ns), "stddev_ns", whole(f.stddev_ns), "avg_ts", json_number(f.avg_ts),
        "stddev_ts", json_number(f.stddev_ts), "samples_ns", samples_ns(row), "samples_ts",
        numbers(row, bench_sample_rate), "bytes_per_token", json_number(f.bytes_per_token),
        "read_gbs", json_number(f.read_rate / 1e9), "bandwidth_gbs", above_zero(f.bandwidth / 1e9),
        "bandwidth_share", json_number(f.share), "samples_bandwidth_gbs",
        numbers(row, sample_bandwidth), "in_cache", row->in_cache, "peak_share",
        json_number(f.peak_share), "peak_int8_gmacs", above_zero(row->int_peak / 1e9),
        "peak_f32_gmacs", above_zero(row->float_peak / 1e9), "cost", json_number(f.verify_cost),
        "samples_share", numbers(row, bench_sample_share), "peer_name",
        peer ? json_text(row->peer_name, strlen(row->peer_name)) : json_null(), "peer_ts",
        json_number(f.peer_ts), "peer_samples_ts", peer ? numbers(row, sample_peer) : json_null(),
        "peer_ratio", json_number(f.peer_ratio));
}

static json_t *row_stages(const struct bench_row *row) {
    json_t *array = json_array();
    for (int i = 0; array && i < row->n_stages; i++)
        json_array_append_new(array, json_pack("{s:s, s:I, s:I, s:o}", "name", row->stages[i].name,
                                               "ns", (json_int_t)row->stages[i].ns, "runs",
                                               (json_int_t)row->stages[i].runs, "share",
                                               json_number((double)row->stages[i].ns /
                                                           (double)row->stages_ns)));
    return array;
}

// NULL: out of memory.
static json_t *rows_make(const struct bench *bench) {
    char cpu[128];
    cpu_name(cpu, sizeof cpu);
    json_t *rows = json_array();
    for (int i = 0; rows && i < bench->n_rows; i++) {
        const struct bench_row *row = &bench->rows[i];
        json_t *object = row_head(row, cpu);
        bool ok = json_merge(object, row_figures(row));
        if (ok && bench->config->stages) ok = json_put(object, "stages", row_stages(row));
        rows = json_append(rows, object, ok);
    }
    return rows;
}

int bench_json_print(const struct bench *bench) {
    return json_print(rows_make(bench), JSON_INDENT(2) | JSON_REAL_PRECISION(10));
}

int bench_csv_print(const struct bench *bench) {
    return json_csv_print(rows_make(bench), JSON_REAL_PRECISION(10));
}

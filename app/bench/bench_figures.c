// From samples to figures: means, medians, shares. Nothing here measures.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

static double ratio(double a, double b) { return b > 0 ? a / b : (double)NAN; }

double bench_sample_rate(const struct bench_row *row, int index) {
    return ratio((double)row->cost.tokens * 1e9, (double)row->samples[index].ns);
}

static double read_rate(const struct bench_row *row, int index) {
    return ratio(row->samples[index].bytes * 1e9, (double)row->samples[index].ns);
}

double bench_sample_share(const struct bench_row *row, int index) {
    return ratio(read_rate(row, index), row->samples[index].bandwidth);
}

// Mean and sample deviation of f over the samples.
static void spread(const struct bench_row *row, double (*f)(const struct bench_row *, int),
                   double *mean, double *deviation) {
    const int n = row->n_samples;
    double sum = 0, square = 0;
    for (int i = 0; i < n; i++) sum += f(row, i);
    *mean = sum / n;
    for (int i = 0; i < n; i++) square += (f(row, i) - *mean) * (f(row, i) - *mean);
    *deviation = n > 1 ? sqrt(square / (n - 1)) : 0;
}

static double sample_ns(const struct bench_row *row, int i) { return (double)row->samples[i].ns; }
static double sample_bytes(const struct bench_row *row, int i) { return row->samples[i].bytes; }
static double sample_bandwidth(const struct bench_row *row, int i) {
    return row->samples[i].bandwidth;
}
static double sample_cost(const struct bench_row *row, int i) { return row->samples[i].cost; }
static double sample_peer(const struct bench_row *row, int i) { return row->samples[i].peer_ts; }

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// NaN where memory runs out.
static double median(const struct bench_row *row, double (*f)(const struct bench_row *, int)) {
    const int n = row->n_samples;
    double *sorted = malloc((size_t)n * sizeof *sorted);
    if (!sorted) return (double)NAN;
    for (int i = 0; i < n; i++) sorted[i] = f(row, i);
    const double middle = bench_median(sorted, n);
    free(sorted);
    return middle;
}

// The time that the multiply-adds would take at the peak, each kind at its own.
static double peak_share(const struct bench_row *row, double avg_ns) {
    const double least = ratio((double)row->cost.int_macs, row->int_peak) +
                         ratio((double)row->cost.float_macs, row->float_peak);
    return ratio(least * 1e9, avg_ns);
}

void bench_figures(const struct bench_row *row, struct bench_figures *out) {
    double ignored, bytes;
    spread(row, sample_ns, &out->avg_ns, &out->stddev_ns);
    spread(row, bench_sample_rate, &out->avg_ts, &out->stddev_ts);
    spread(row, sample_bytes, &bytes, &ignored);
    spread(row, sample_bandwidth, &out->bandwidth, &ignored);
    spread(row, bench_sample_share, &out->share, &ignored);
    out->bytes_per_token = ratio(bytes, (double)row->cost.tokens);
    out->read_rate = ratio(bytes * 1e9, out->avg_ns);
    out->peak_share = row->test.kind == BENCH_PREFILL ? peak_share(row, out->avg_ns) : (double)NAN;
    out->verify_cost = row->test.kind == BENCH_VERIFY ? median(row, sample_cost) : (double)NAN;
    out->peer_ts = row->peer_name ? median(row, sample_peer) : (double)NAN;
    out->peer_ratio =
        row->peer_name ? ratio(median(row, bench_sample_rate), out->peer_ts) : (double)NAN;
}

const char *bench_test_name(const struct bench_test *test, char buffer[64]) {
    int at = 0;
    if (test->kind == BENCH_PREFILL)
        at = snprintf(buffer, 64, "pp%d", test->n_prompt);
    else if (test->kind == BENCH_VERIFY)
        at = snprintf(buffer, 64, "verify%d", test->n_verify);
    else
        at = snprintf(buffer, 64, "tg%d", test->n_gen);
    if (test->n_seqs > 1) at += snprintf(buffer + at, 64 - (size_t)at, " x%d", test->n_seqs);
    if (test->n_depth) snprintf(buffer + at, 64 - (size_t)at, " @ d%d", test->n_depth);
    return buffer;
}

void bench_row_deinit(struct bench_row *row) {
    free(row->filename);
    free(row->type);
    free(row->samples);
    free(row->peer_name);
    free(row->stages);
}

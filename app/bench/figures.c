// Rates, shares, medians and spreads.
#include "bench/figures.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

double figure_ratio(double a, double b) { return b > 0 ? a / b : (double)NAN; }

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double figure_median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double figure_mean(const double *values, int n, double *deviation) {
    double sum = 0, square = 0;
    for (int i = 0; i < n; i++) sum += values[i];
    const double mean = sum / n;
    for (int i = 0; i < n; i++) square += (values[i] - mean) * (values[i] - mean);
    if (deviation) *deviation = n > 1 ? sqrt(square / (n - 1)) : 0;
    return mean;
}

const char *figure_type(const rn_model_info *info, char out[96]) {
    const double params = (double)info->n_params;
    const bool billions = params >= 1e9;
    snprintf(out, 96, "%.32s %.*f%c %.16s", info->architecture, billions,
             params / (billions ? 1e9 : 1e6), billions ? 'B' : 'M', info->format);
    return out;
}

struct app_place figure_place(const struct row *row, bool with_threads) {
    return app_place(row_text_at(row, COLUMN_BACKENDS), row_text_at(row, COLUMN_ISA),
                     row_text_at(row, COLUMN_DEVICE),
                     with_threads ? row_whole_at(row, COLUMN_N_THREADS) : 0,
                     row_text_at(row, COLUMN_TYPE_KV));
}

const char *figure_test(const struct row *row, int n_seqs, int n_depth, char out[64]) {
    const int n_verify = row_whole_at(row, COLUMN_N_VERIFY);
    const int n_prompt = row->table == TABLE_STEPS ? row_whole_at(row, COLUMN_N_PROMPT) : 0;
    const int n_gen = row_whole_at(row, COLUMN_N_GEN);
    int at = snprintf(out, 64, "%s%d",
                      n_verify   ? "verify"
                      : n_prompt ? "pp"
                                 : "tg",
                      n_verify   ? n_verify
                      : n_prompt ? n_prompt
                                 : n_gen);
    if (n_prompt && n_gen) at += snprintf(out + at, 64 - (size_t)at, "+tg%d", n_gen);
    if (n_seqs > 1) at += snprintf(out + at, 64 - (size_t)at, " x%d", n_seqs);
    if (n_depth) snprintf(out + at, 64 - (size_t)at, " @ d%d", n_depth);
    return out;
}

// ---------------------------------------------------------------- steps

static double above_zero(double value) { return value > 0 ? value : (double)NAN; }

// Seconds that multiply-adds would take at the peak; NaN: there are some, and the peak is unknown.
static double peak_seconds(uint64_t macs, double peak) {
    return macs ? figure_ratio((double)macs, peak) : 0;
}

// The time that the multiply-adds would take at the peak, each kind at its own.
static double peak_share(const struct samples *samples, double avg_ns) {
    const double least = peak_seconds(samples->cost.int_macs, samples->int_peak) +
                         peak_seconds(samples->cost.float_macs, samples->float_peak);
    return figure_ratio(least * 1e9, avg_ns);
}

// The samples' times and rates.
static double times_set(const struct samples *samples, struct row *row) {
    double ns[SAMPLES_MAX] = {0}, ts[SAMPLES_MAX] = {0}, stddev_ns, stddev_ts;
    const int n = samples->n;
    for (int i = 0; i < n; i++) {
        ns[i] = (double)samples->sample[i].ns;
        ts[i] = figure_ratio((double)samples->cost.tokens * 1e9, ns[i]);
    }
    const double avg_ns = figure_mean(ns, n, &stddev_ns), avg_ts = figure_mean(ts, n, &stddev_ts);
    row_whole(row, COLUMN_AVG_NS, llround(avg_ns));
    row_whole(row, COLUMN_STDDEV_NS, llround(stddev_ns));
    row_real(row, COLUMN_AVG_TS, avg_ts);
    row_real(row, COLUMN_STDDEV_TS, stddev_ts);
    double idle_us[SAMPLES_MAX] = {0};
    for (int i = 0; i < n; i++) idle_us[i] = above_zero(samples->sample[i].idle_ns * 1e-3);
    row_real(row, COLUMN_IDLE_US, figure_mean(idle_us, n, NULL));
    row_list(row, COLUMN_SAMPLES_NS, VALUE_WHOLES, ns, n);
    row_list(row, COLUMN_SAMPLES_TS, VALUE_REALS, ts, n);
    return avg_ns;
}

// The bytes that were read, and their rate over the bandwidth of the same second.
static void reads_set(const struct samples *samples, double avg_ns, struct row *row) {
    double bytes[SAMPLES_MAX], bandwidth[SAMPLES_MAX], share[SAMPLES_MAX];
    const int n = samples->n;
    for (int i = 0; i < n; i++) {
        const struct sample *sample = &samples->sample[i];
        const double rate = figure_ratio(sample->bytes * 1e9, (double)sample->ns);
        bytes[i] = sample->bytes;
        bandwidth[i] = above_zero(sample->bandwidth / 1e9);
        share[i] = figure_ratio(rate, sample->bandwidth);
    }
    const double avg_bytes = figure_mean(bytes, n, NULL);
    row_real(row, COLUMN_BYTES_PER_TOKEN, figure_ratio(avg_bytes, (double)samples->cost.tokens));
    row_real(row, COLUMN_READ_GBS, figure_ratio(avg_bytes, avg_ns));
    row_real(row, COLUMN_BANDWIDTH_GBS, figure_mean(bandwidth, n, NULL));
    row_real(row, COLUMN_BANDWIDTH_SHARE, figure_mean(share, n, NULL));
    row_list(row, COLUMN_SAMPLES_BANDWIDTH_GBS, VALUE_REALS, bandwidth, n);
    row_list(row, COLUMN_SAMPLES_SHARE, VALUE_REALS, share, n);
}

static void peer_set(const struct samples *samples, struct row *row) {
    double ours[SAMPLES_MAX], theirs[SAMPLES_MAX];
    const int n = samples->n;
    for (int i = 0; i < n; i++) {
        ours[i] = figure_ratio((double)samples->cost.tokens * 1e9, (double)samples->sample[i].ns);
        theirs[i] = samples->sample[i].peer_ts;
    }
    row_list(row, COLUMN_PEER_SAMPLES_TS, VALUE_REALS, theirs, n);
    const double peer_ts = figure_median(theirs, n);
    row_real(row, COLUMN_PEER_TS, peer_ts);
    row_real(row, COLUMN_PEER_RATIO, figure_ratio(figure_median(ours, n), peer_ts));
}

// A token's part of the costs, and the time between two tokens of one sequence.
static void token_set(const struct samples *samples, double avg_ns, struct row *row) {
    const struct tools_cost *cost = &samples->cost;
    const double tokens = (double)cost->tokens;
    const double n_seqs = fmax(row_whole_at(row, COLUMN_N_SEQS), 1);
    const double flops = figure_ratio(2.0 * (double)(cost->int_macs + cost->float_macs), tokens);
    row_real(row, COLUMN_MS_PER_TOKEN, figure_ratio(avg_ns * 1e-6 * n_seqs, tokens));
    row_real(row, COLUMN_TOTAL_TS, row_number_at(row, COLUMN_AVG_TS));
    row_real(row, COLUMN_STREAM_TS, row_number_at(row, COLUMN_AVG_TS) / n_seqs);
    row_real(row, COLUMN_KV_BYTES_PER_TOKEN, figure_ratio((double)cost->kv_bytes, tokens));
    row_real(row, COLUMN_FLOPS_PER_TOKEN, flops);
    row_real(row, COLUMN_TFLOPS, figure_ratio(above_zero(flops * tokens * 1e-3), avg_ns));
    row_real(row, COLUMN_FLOP_PER_BYTE,
             figure_ratio(flops, row_number_at(row, COLUMN_BYTES_PER_TOKEN)));
}

static void peak_set(const struct samples *samples, double avg_ns, struct row *row) {
    const double share = peak_share(samples, avg_ns);
    const double read_share = row_number_at(row, COLUMN_BANDWIDTH_SHARE);
    row_real(row, COLUMN_PEAK_SHARE, share);
    row_real(row, COLUMN_PEAK_INT8_GMACS, above_zero(samples->int_peak / 1e9));
    row_real(row, COLUMN_PEAK_F32_GMACS, above_zero(samples->float_peak / 1e9));
    if (isfinite(share) && isfinite(read_share))
        row_text(row, COLUMN_BOUND, share > read_share ? "arithmetic" : "memory");
}

void figures_steps(const struct samples *samples, struct row *row) {
    assert(samples->n >= 1 && samples->n <= SAMPLES_MAX);
    const double avg_ns = times_set(samples, row);
    reads_set(samples, avg_ns, row);
    token_set(samples, avg_ns, row);
    if (samples->int_peak > 0 || samples->float_peak > 0) peak_set(samples, avg_ns, row);
    if (row_whole_at(row, COLUMN_N_VERIFY)) {
        double cost[SAMPLES_MAX];
        for (int i = 0; i < samples->n; i++) cost[i] = samples->sample[i].cost;
        row_real(row, COLUMN_COST, figure_median(cost, samples->n));
    }
    if (*row_text_at(row, COLUMN_PEER_NAME)) peer_set(samples, row);
}

// ---------------------------------------------------------------- streams

void figures_moments(const struct crowd_mark *from, const struct crowd_mark *to, struct row *row) {
    const rn_engine_stats *a = &from->stats, *b = &to->stats;
    const double steps = (double)(b->steps - a->steps);
    const uint64_t host_a = a->schedule_ns + a->batch_ns + a->publish_ns;
    const uint64_t host_b = b->schedule_ns + b->batch_ns + b->publish_ns;
    const uint64_t bytes = b->weight_bytes + b->kv_bytes - a->weight_bytes - a->kv_bytes;
    row_real(row, COLUMN_GEN_TS, crowd_rate(from, to));
    row_whole(row, COLUMN_STEPS, (int64_t)(b->steps - a->steps));
    row_real(row, COLUMN_HOST_US, figure_ratio((double)(host_b - host_a) * 1e-3, steps));
    row_real(row, COLUMN_SAMPLE_US,
             figure_ratio((double)(b->sample_ns - a->sample_ns) * 1e-3, steps));
    const double idle_ns = (double)(b->idle_ns - a->idle_ns);
    row_real(row, COLUMN_IDLE_US, figure_ratio(above_zero(idle_ns) * 1e-3, steps));
    row_real(row, COLUMN_LATE_SHARE,
             idle_ns > 0 ? figure_ratio((double)(b->late_steps - a->late_steps), steps)
                         : (double)NAN);
    row_real(row, COLUMN_READ_GBS, figure_ratio((double)bytes, (double)(b->run_ns - a->run_ns)));
}

void figures_totals(const rn_engine_stats *from, const rn_engine_stats *to, struct row *row) {
    const uint64_t prompt = to->prompt_tokens - from->prompt_tokens;
    const uint64_t cached = to->cached_tokens - from->cached_tokens;
    row_whole(row, COLUMN_PROMPT_TOKENS, (int64_t)prompt);
    row_whole(row, COLUMN_CACHED_TOKENS, (int64_t)cached);
    row_real(row, COLUMN_SAVED, figure_ratio((double)cached, (double)prompt));
    row_whole(row, COLUMN_OUTPUT_TOKENS, (int64_t)(to->output_tokens - from->output_tokens));
    row_whole(row, COLUMN_PREEMPTIONS, (int64_t)(to->preemptions - from->preemptions));
}

// The median, the 99th percentile and the longest, in three columns from id on; null: no values. A
// percentile is the smallest value such that this many percent of the values are not above it.
// Sorts the values.
static void spread_set(double *ms, size_t n, enum column_id id, struct row *row) {
    qsort(ms, n, sizeof *ms, compare);
    row_real(row, id, n ? ms[(n * 50 + 99) / 100 - 1] : (double)NAN);
    row_real(row, id + 1, n ? ms[(n * 99 + 99) / 100 - 1] : (double)NAN);
    row_real(row, id + 2, n ? ms[n - 1] : (double)NAN);
}

void figures_gaps(double *ms, size_t n, struct row *row) {
    const int bound = row_whole_at(row, COLUMN_ITL_MS);
    size_t over = 0;
    for (size_t i = 0; i < n; i++) over += ms[i] > bound;
    spread_set(ms, n, COLUMN_GAP_MS_P50, row);
    row_real(row, COLUMN_OVER_BOUND, bound ? figure_ratio((double)over, (double)n) : (double)NAN);
}

void figures_ttft(double *ms, size_t n, struct row *row) {
    spread_set(ms, n, COLUMN_TTFT_MS_P50, row);
}

void figures_bandwidth(double bytes_per_second, struct row *row) {
    const double read = row_number_at(row, COLUMN_READ_GBS);
    const double measured = above_zero(bytes_per_second / 1e9);
    const double bandwidth = measured < read ? read : measured;
    const double share = figure_ratio(read, bandwidth);
    const bool decode_only = row_number_at(row, COLUMN_DECODE_ONLY) > 0;
    row_real(row, COLUMN_BANDWIDTH_GBS, bandwidth);
    row_real(row, COLUMN_BANDWIDTH_SHARE, share);
    row_real(row, COLUMN_DECODE_SHARE, decode_only ? share : (double)NAN);
}

void figures_serial(double first_ms, double next_ms, struct row *row) {
    const double serial = first_ms + (row_whole_at(row, COLUMN_N_STREAMS) - 1) * next_ms;
    row_real(row, COLUMN_SERIAL_MS, serial);
    row_real(row, COLUMN_GAIN_SERIAL, serial / row_number_at(row, COLUMN_WALL_MS));
}

// ---------------------------------------------------------------- drafts

static double share_of(uint64_t a, uint64_t b) { return figure_ratio((double)a, (double)b); }

// The engine reports a ratio to its clients where it drafted at all.
static double said_ratio(const struct crowd_sums *sums) {
    return sums->drafted ? figure_ratio(sums->undrafted_ms, sums->decode_ms) : (double)NAN;
}

static void rates_set(const struct pairs *pairs, struct row *row) {
    double none[SAMPLES_MAX], gen[SAMPLES_MAX], ratio[SAMPLES_MAX];
    const int n = pairs->n;
    for (int i = 0; i < n; i++) {
        none[i] = pairs->none_ts[i];
        gen[i] = pairs->gen_ts[i];
        ratio[i] = gen[i] / none[i];
    }
    row_list(row, COLUMN_SAMPLES_RATIO, VALUE_REALS, ratio, n);
    row_real(row, COLUMN_NONE_TS, figure_median(none, n));
    row_real(row, COLUMN_GEN_TS, figure_median(gen, n));
    row_real(row, COLUMN_RATIO, figure_median(ratio, n));
}

void figures_drafts(const struct pairs *pairs, struct row *row) {
    const struct crowd_sums *sums = &pairs->sums, *none = &pairs->none;
    assert(pairs->n >= 1 && pairs->n <= SAMPLES_MAX);
    rates_set(pairs, row);
    row_real(row, COLUMN_SAID_RATIO, said_ratio(sums));
    row_whole(row, COLUMN_DECODE_TOKENS, (int64_t)sums->tokens);
    row_whole(row, COLUMN_DECODE_STEPS, (int64_t)sums->steps);
    row_whole(row, COLUMN_DRAFT_STEPS, (int64_t)sums->draft_steps);
    row_whole(row, COLUMN_DRAFT_TOKENS, (int64_t)sums->drafted);
    row_whole(row, COLUMN_ACCEPTED_TOKENS, (int64_t)sums->accepted);
    row_real(row, COLUMN_ACCEPTED_SHARE, share_of(sums->accepted, sums->drafted));
    row_real(row, COLUMN_TOKENS_PER_STEP, share_of(sums->tokens, sums->steps));
    row_real(row, COLUMN_DRAFTED_PER_STEP, share_of(sums->drafted, sums->steps));
    row_real(row, COLUMN_BYTES_PER_TOKEN, share_of(sums->bytes, sums->tokens));
    row_real(row, COLUMN_NONE_BYTES_PER_TOKEN, share_of(none->bytes, none->tokens));
}

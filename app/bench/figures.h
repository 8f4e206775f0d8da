// The arithmetic of `runnel bench`: from samples, moments and sums to the columns of a row. Nothing
// here measures or prints, so tests can call it with plain numbers.
#ifndef RN_APP_BENCH_FIGURES_H
#define RN_APP_BENCH_FIGURES_H

#include "app.h"
#include "bench/crowd.h"
#include "bench/row.h"

enum { SAMPLES_MAX = 1000 }; // repetitions of a test, as --repetitions bounds them

double figure_ratio(double a, double b);                            // NaN: b is not above 0
double figure_median(double *values, int n);                        // sorts them; n is at least 1
double figure_mean(const double *values, int n, double *deviation); // of a sample; NULL: not wanted

// "llama 1.2B Q4_0".
const char *figure_type(const rn_model_info *info, char out[96]);
// The row's place: "cpu avx512, 2 threads, kv f16". See app_place().
struct app_place figure_place(const struct row *row, bool with_threads);
// "pp512", "pp512+tg128", "verify4 @ d64" or "tg128 x4", from the row's columns n_prompt, n_gen and
// n_verify.
const char *figure_test(const struct row *row, int n_seqs, int n_depth, char out[64]);

// ---------------------------------------------------------------- steps

// One repetition. Bandwidths are bytes/s; 0: not measured.
struct sample {
    uint64_t ns;
    double bytes;     // weights and KV that had to be read
    double bandwidth; // the larger of the one before and the one after
    double cost;      // of a verify test: a step's time over that of one token
    double idle_ns;   // of the device between two steps; 0: it does not say
    double peer_ts;   // the peer's tokens/s; 0: none
};

struct samples {
    const struct sample *sample; // [n]
    int n;                       // 1 to SAMPLES_MAX
    struct tools_cost cost;      // of a repetition
    double int_peak, float_peak; // multiply-adds/s; 0: not measured
};

// A row has a share of the peak where a peak was measured, a cost where it has n_verify, and
// figures of the peer where it has the peer's name.
void figures_steps(const struct samples *samples, struct row *row);

// ---------------------------------------------------------------- streams

// Rates and steps between two moments.
void figures_moments(const struct crowd_mark *from, const struct crowd_mark *to, struct row *row);
void figures_totals(const rn_engine_stats *from, const rn_engine_stats *to, struct row *row);
void figures_gaps(double *ms, size_t n, struct row *row); // sorts them; the bound is the row's
void figures_ttft(double *ms, size_t n, struct row *row); // sorts them
// The bytes that were read could be read, so the bandwidth is at least their rate.
void figures_bandwidth(double bytes_per_second, struct row *row);
// The requests one after the other: the time of the first, and of each of the others.
void figures_serial(double first_ms, double next_ms, struct row *row);

// ---------------------------------------------------------------- drafts

// Runs in pairs, without drafts and with.
struct pairs {
    double none_ts[SAMPLES_MAX], gen_ts[SAMPLES_MAX]; // [n]
    int n;
    struct crowd_sums none, sums; // of all runs
};

void figures_drafts(const struct pairs *pairs, struct row *row);

#endif

// `runnel bench`: what is to be measured, and what was found. bench_options.c makes the config of
// the command line, bench.c measures, bench_peer.c runs the peer, bench_print.c and bench_json.c
// show rows, plot.c draws them. bench_batch.c and bench_spec.c measure the engine instead.
#ifndef RN_APP_BENCH_H
#define RN_APP_BENCH_H

#include "terminal/json.h"
#include "terminal/term.h"
#include "tools.h"

enum { BENCH_MAX_LIST = 64, BENCH_MAX_CPUS = 1024, BENCH_MAX_COLUMNS = 16 };

struct bench_list {
    int value[BENCH_MAX_LIST];
    int count;
};

struct bench_reals {
    double value[BENCH_MAX_LIST];
    int count;
};

enum bench_drafter {
    BENCH_DRAFTER_NONE,
    BENCH_DRAFTER_MODEL,
    BENCH_DRAFTER_LOOKUP,
    BENCH_DRAFTER_SHARED,
    BENCH_DRAFTER_AUTO, // all that the engine has
    BENCH_DRAFTER_SYNTHETIC,
    BENCH_DRAFTER_COUNT
};

// Of --speculate.
struct bench_spec_config {
    bool on;
    struct bench_list drafters; // enum bench_drafter; none: all that the model has
    struct bench_list lengths;  // 0: the engine chooses
    struct bench_reals temperatures, acceptances;
    const char *draft;  // the draft model's path; NULL: none was given
    bool no_draft;      // not even the embedded one's
    const char *forced; // what the requests have to write, or how many tokens; NULL: nothing
    int n_prompt;       // tokens of any kind; 0: stories are asked for
};

enum bench_source { SOURCE_EMBEDDED, SOURCE_FILE, SOURCE_SYNTHETIC };

struct bench_model {
    enum bench_source source;
    char *name; // path or shape; owned. NULL: embedded
};

struct bench_config {
    struct bench_model model[2 * BENCH_MAX_LIST];
    int n_models;
    struct bench_list n_prompt, n_gen, n_depth, threads, streams, verify;
    struct bench_list batch; // requests at a time; none: the engine is not measured
    struct bench_list itl_ms;
    int shared_prefix; // tokens; -1: three quarters of the prompt
    int arrive;        // tokens of the prompt that arrives; 0: none does
    bool sample;       // as the model's file says; otherwise greedy
    struct bench_spec_config spec;
    rn_engine_options memory; // its kv_bytes or kv_pages: the engine's
    int repetitions, batch_tokens;
    const char *isa; // NULL: the best
    const char *kv_type;
    const char *peer, *peer_args; // NULL: none
    const char *output, *plot;    // plot NULL: none
    bool stages, quiet, no_pin;
    // the cores that this process had at its start, for the peer; a runner may bind threads
    uint8_t cpus[BENCH_MAX_CPUS / 8];
    bool cpus_known;
};

enum bench_kind { BENCH_PREFILL, BENCH_DECODE, BENCH_VERIFY };

struct bench_test {
    enum bench_kind kind;
    int n_prompt, n_gen; // tokens of a sequence; of VERIFY: n_gen steps
    int n_depth, n_seqs, n_verify;
    struct tools_work work;
};

// One repetition. Bandwidths are bytes/s; 0: not measured.
struct bench_sample {
    uint64_t ns;
    double bytes;     // weights and KV that had to be read
    double bandwidth; // the larger of the one before and the one after
    double cost;      // VERIFY: a step's time over that of one token
    double peer_ts;   // the peer's tokens/s; 0: none
};

struct bench_row {
    char *filename, *type; // owned, like all pointers here but the next line's
    const char *backend, *isa;
    uint64_t model_size, n_params;
    int n_threads;
    const char *kv_type;
    int n_batch;
    struct bench_test test;
    struct tools_cost cost;
    bool in_cache;
    double int_peak, float_peak;  // multiply-adds/s; 0: not measured
    struct bench_sample *samples; // [n_samples]
    int n_samples;
    char *peer_name; // NULL: no peer for this test
    struct tools_stage *stages;
    int n_stages;
    uint64_t stages_ns;
    char time[32]; // of the test, ISO 8601
};

// What the samples come to.
struct bench_figures {
    double avg_ns, stddev_ns, avg_ts, stddev_ts;
    double bytes_per_token;
    double read_rate;   // bytes/s
    double bandwidth;   // bytes/s, the mean over samples
    double share;       // of it, the mean over samples of each one's own; NaN: not measured
    double peak_share;  // PREFILL; otherwise NaN
    double verify_cost; // VERIFY, the median; otherwise NaN
    double peer_ts;     // the median; NaN: none
    double peer_ratio;  // our median over it; NaN: none
};

struct bench {
    const struct bench_config *config;
    const struct term *term;
    const struct bench_test *tests; // [n_tests] of each model and thread count
    const struct tools_work *works; // [n_tests] theirs
    int n_tests;
    struct bench_row *rows; // [n_rows]
    int n_rows;
    bool ratios;                    // for a plot: the rows' rates are those of drafts over none
    bool column[BENCH_MAX_COLUMNS]; // of the table: which are shown
    char slow_formats[64];          // that were warned of last
    struct progress progress;
    uint64_t done, total; // repetitions
};

// bench.c: "llama 1.2B Q4_0", to be freed. NULL: out of memory.
char *bench_type_make(const rn_model_info *info);
// On failure the error has been printed and the exit code is returned.
int bench_model_open(const struct bench_model *source, rn_model **out);

// bench_options.c: on failure the error has been printed and the exit code is returned.
int bench_config_init(const struct options *options, struct bench_config *out);
void bench_config_deinit(struct bench_config *config);
// The numbers of a list option, added to out; where it was not given the fallback, unless that is
// below 0.
int bench_numbers_read(const struct options *options, enum option_id id, int min, int max,
                       int fallback, struct bench_list *out);
// The item that begins at *at, without its comma; *at moves on. False: no more.
bool bench_item_next(const char **at, char *out, size_t size, size_t *len);
int bench_list_largest(const struct bench_list *list); // 0: empty
// The tests of a model, in the order of the rows, to be freed. NULL: out of memory.
struct bench_test *bench_tests_make(const struct bench_config *config, int *count);

// bench_figures.c
void bench_figures(const struct bench_row *row, struct bench_figures *out);
double bench_sample_rate(const struct bench_row *row, int index); // tokens/s
double bench_sample_share(const struct bench_row *row, int index);
double bench_median(double *values, int n); // sorts them; n is at least 1
const char *bench_test_name(const struct bench_test *test, char buffer[64]);
void bench_row_deinit(struct bench_row *row);

// bench_spec_options.c: the options of --speculate, after all others.
int bench_spec_read(const struct options *options, struct bench_config *out);

// bench_peer.c: one run of the peer on the test. *ts is its tokens/s; *name, where it was NULL, is
// set to what it calls itself (to be freed). On failure as above.
void bench_peer_prepare(struct bench_config *config); // before any runner
bool bench_peer_can(const struct bench_test *test);
int bench_peer_run(const struct bench_config *config, const char *file, int n_threads,
                   const struct bench_test *test, double *ts, char **name);

// bench_print.c: the table, row by row, and the stages behind it.
void bench_table_head(struct bench *bench); // chooses the columns
void bench_table_row(const struct bench *bench, const struct bench_row *row);
void bench_stages_print(const struct bench *bench);

// bench_kernels.c: output is "md", "json" or "csv"; the exit code as above.
int bench_kernels_print(const char *output);

// bench_json.c: all rows; the exit code as above.
int bench_json_print(const struct bench *bench);
int bench_csv_print(const struct bench *bench);

#endif

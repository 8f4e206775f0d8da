// `runnel bench --speculate`: the engine with drafts against the engine without.
// bench_spec_options.c reads the options, bench_spec_text.c makes what is asked for (prompts,
// forced texts, the drafter that knows the text), bench_spec.c measures, bench_spec_print.c shows.
#ifndef RN_APP_BENCH_SPEC_H
#define RN_APP_BENCH_SPEC_H

#include "bench/bench_crowd.h"
#include "terminal/table.h"

// A row's drafter and how long its drafts are.
struct spec_variant {
    enum bench_drafter drafter;
    int length;        // of every draft; 0: the engine chooses
    double acceptance; // of BENCH_DRAFTER_SYNTHETIC
};

struct spec_row {
    char *filename, *type, *draft; // owned; draft NULL: no draft model
    const char *backend, *isa;
    int n_threads;
    const char *kv_type;
    struct spec_variant variant;
    double temperature;
    int n_streams, n_gen;
    bool forced;
    double none_ts, gen_ts; // tokens/s of all streams, medians
    double ratio;           // the median of the pairs'
    double *samples_ratio;  // [n_samples] owned
    int n_samples;
    struct crowd_sums none, sums; // of all runs
    bool same;                    // every text was that of the first run without drafts
    char time[32];
};

struct spec_bench {
    const struct bench_config *config;
    const struct term *term;
    struct spec_row *rows; // [n_rows], complete ones
    int n_rows;
    struct table table; // at hand
    struct progress progress;
    uint64_t done, total; // pairs of runs
};

// What the rows of a model have in common: the requests, and what each writes without drafts.
struct spec_text {
    const rn_model *model;
    int n_streams;    // most at a time; there are as many prompts again, for others' requests
    int32_t **prompt; // [2 * n_streams]
    int *n_prompt;
    int32_t *forced; // [n_forced] what is written over and over; NULL: the model writes
    int n_forced;
    int n_gen;
    int n_temperatures;
    int32_t *known; // [n_temperatures][n_streams][n_gen]
    bool *is_known; // [n_temperatures]
};

// Like bench_config's: on failure the error has been printed and the exit code is returned.
int bench_spec_run(const struct bench_config *config, const struct term *term);
void spec_row_deinit(struct spec_row *row);
const char *spec_drafter_name(enum bench_drafter drafter);
// Whether there is a model that drafts for this one.
bool spec_has_draft(const struct bench_config *config, const struct bench_model *model);

// bench_spec_text.c
int spec_text_init(struct spec_text *text, const struct bench_config *config,
                   const struct bench_model *source, const rn_model *model);
void spec_text_deinit(struct spec_text *text);
int spec_text_positions(const struct spec_text *text); // of the longest request
int32_t *spec_text_known(const struct spec_text *text, int temperature, int stream);

// How far a request's forced text is.
struct spec_forced {
    const int32_t *token; // [n]
    int n, at;
};
rn_constraint spec_forced_constraint(struct spec_forced *forced);

// A drafter that has read the texts: right with a probability, else wrong; it costs nothing.
struct spec_oracle {
    const struct spec_text *text;
    const struct crowd_stream *first; // of the streams at hand
    int temperature;                  // index of theirs
    double acceptance;
    uint64_t round; // other tokens are wrong in another one
};
int spec_oracle_draft(void *oracle, void *stream, int choice, const int32_t *token, int n_token,
                      int32_t *out, int most); // an rn_draft_fn

// bench_spec_print.c
void spec_table_row(struct spec_bench *bench, const struct spec_row *row); // with its head
double spec_accepted_share(const struct spec_row *row);                    // NaN: nothing drafted
double spec_tokens_per_step(const struct spec_row *row);                   // of a stream
double spec_mean_length(const struct spec_row *row); // steps without drafts included
int spec_json_print(const struct spec_bench *bench);
int spec_csv_print(const struct spec_bench *bench);
int spec_plot(const struct spec_bench *bench, const char *path); // ratios over lengths

#endif

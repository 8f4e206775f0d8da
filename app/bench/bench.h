// `runnel bench`: the configuration of a run, and the run. bench_options.c makes the configuration.
// bench.c opens the models and calls one measurement (measure_*.c, tour.c) on each. A measurement
// fills rows (row.h) with the arithmetic of figures.c. print.c shows the rows; chart.c and plot.c
// draw them. A function that fails has printed the error, and returns the exit code.
#ifndef RN_APP_BENCH_H
#define RN_APP_BENCH_H

#include "bench/row.h"
#include "terminal/term.h"

enum { BENCH_MAX_LIST = 64, BENCH_MAX_CPUS = 1024 };

struct bench_list {
    double value[BENCH_MAX_LIST];
    int count;
};

enum bench_drafter {
    DRAFTER_NONE,
    DRAFTER_MODEL,
    DRAFTER_LOOKUP,
    DRAFTER_SHARED,
    DRAFTER_MTP,  // the block of the model that drafts
    DRAFTER_AUTO, // all that the engine has
    DRAFTER_SYNTHETIC,
    DRAFTER_COUNT
};

enum bench_source { SOURCE_EMBEDDED, SOURCE_FILE, SOURCE_SYNTHETIC };

struct bench_model {
    enum bench_source source;
    char *name; // path or shape; owned. NULL: embedded
};

enum bench_measure { MEASURE_STEPS, MEASURE_STREAMS, MEASURE_DRAFTS, MEASURE_TOUR };

struct bench_config {
    enum bench_measure measure;
    struct bench_model model[2 * BENCH_MAX_LIST];
    int n_models;
    struct bench_list n_prompt, n_gen, threads; // threads 0: all cores
    struct bench_list n_depth, streams, verify; // steps; streams: drafts too
    struct bench_list prompt_gen;               // pairs: a prompt, and the tokens behind it
    struct bench_list batch, itl_ms;            // streams: requests at a time, bounds of gaps
    struct bench_list drafters, lengths; // drafts: none: all there are; 0: the engine chooses
    struct bench_list temperatures, acceptances;
    int shared_prefix;         // tokens; -1: three quarters of the prompt
    int arrive;                // tokens of the prompt that arrives; 0: none does
    bool sample;               // as the model's file says; otherwise greedy
    bool has_prompt;           // --n-prompt was given
    const char *draft;         // the draft model's path; NULL: none was given
    const char *block;         // of a draft block, which is attached to the models; draft is NULL
    bool no_draft;             // not even the embedded one's
    const char *draft_backend; // where it runs; NULL: where the model does
    int draft_device;
    const char *forced;       // a text that the requests have to write, or N tokens; NULL: none
    rn_engine_options memory; // its kv_bytes or kv_pages: the engine's
    int repetitions, batch_tokens;
    int bandwidth_ms;             // for each measurement of B
    bool peaks;                   // steps: decoding is compared with the arithmetic peak too
    struct tools_place place;     // where the models run,
    struct tools_device device;   // and the device there
    const char *isa;              // NULL: the best
    const char *kv_type;          // NULL: the device's default
    const char *peer, *peer_args; // NULL: none
    const char *output, *plot;    // plot NULL: none
    bool stages, quiet, no_pin;
    // the cores that this process had at its start, for the peer; a runner may bind threads
    uint8_t cpus[BENCH_MAX_CPUS / 8];
    bool cpus_known;
};

// Invariant: rows[0 .. n_rows) are complete; Ctrl-C leaves them to be shown.
struct bench {
    const struct bench_config *config;
    const struct term *term;
    struct row *rows; // [n_rows]
    int n_rows;
    bool shown[COLUMN_COUNT]; // columns of the terminal's table at hand
    int label_width;          // of the tests' names; 0: the column's
    char slow_formats[64];    // that were warned of last
    struct progress progress;
    uint64_t done, total; // measurements
    double busy_share;    // that other programs took, at most
};

// A model that is being measured, and the machine: the backend of the runner or engine at hand, or
// of the last one.
struct bench_place {
    struct bench *bench;
    const struct bench_model *source;
    const rn_model *model;
    const rn_model_info *info;
    const char *backend;
    char isa[48], kv_type[32]; // copies: the runner's or engine's own end with it
    int n_threads;
};

// A kind of measurement.
struct measure {
    uint64_t (*count)(const struct bench_config *config); // of measurements, for the progress bar
    int (*run)(struct bench_place *place);                // every row of a model
    // whether the model could be measured, asked of all before the first is; may be NULL
    rn_status (*check)(const struct bench_config *config, const rn_model_info *info, rn_error *err);
};
extern const struct measure measure_steps, measure_streams, measure_drafts, measure_tour;

// bench.c
void bench_place_set(struct bench_place *place, const char *backend, const char *isa,
                     const char *kv_type, int n_threads);
int bench_run(const struct bench_config *config, const struct term *term); // all models
int bench_model_open(enum bench_source source, const char *name, rn_model **out);
// A row with the columns that all rows have: model, machine, time.
void bench_row_init(const struct bench_place *place, enum table_id table, struct row *row);
// The row is the bench's from then on, or freed. A table shows it at once, but for the tour's.
int bench_row_add(struct bench *bench, struct row *row);
// The bar appears, moves on by one measurement, and disappears.
void bench_progress_begin(struct bench *bench);
void bench_progress_step(struct bench *bench);
void bench_progress_end(struct bench *bench);
void bench_warn_slow(struct bench *bench, const char *formats, const char *isa); // once for a model

// bench_options.c
int bench_config_init(const struct options *options, struct bench_config *out);
void bench_config_deinit(struct bench_config *config);
int bench_list_at(const struct bench_list *list, int index);
int bench_list_largest(const struct bench_list *list); // 0: empty
const char *bench_drafter_name(enum bench_drafter drafter);
// Whether there is a model that drafts for this one.
bool bench_has_draft(const struct bench_config *config, const struct bench_model *model);

// print.c
// The columns of the table for which a line of `room` characters has room.
void table_fit(const struct bench_config *config, enum table_id table, int label_width, int room,
               bool shown[COLUMN_COUNT]);
const char *cell_text(const struct row *row, enum column_id id, char out[64]);
// The bench's last row as a line of the table; title and head first, where another table begins.
void table_row_print(struct bench *bench);
// "llama 1.2B Q4_0, cpu avx512, 2 threads, kv f16", and an empty line. See app_place().
void table_title_print(const struct bench *bench, const struct row *row);
// The rows, where they were not printed as they came: JSON, CSV, stages.
int rows_print(const struct bench *bench);

// chart.c
// Bars of each decoding test's share of the bandwidth. If depths, streams or threads vary, lines of
// tokens/s over the first of these instead. Without decoding, prompts and their share of the
// arithmetic peak. Drafts: their ratio over their length, the engine's choice dashed.
int chart_write(const struct bench *bench, const char *path);

// measure_kernels.c
// The CPU's; output: as --output. n_threads: 0: as many as cores.
int kernels_print(const char *output, int n_threads, const struct term *term);

// tour.c: the complete sections, as --tour shows them at the end
int tour_print(const struct bench *bench);                  // JSON
int tour_plot(const struct bench *bench, const char *path); // tokens/s over streams

// peer.c: one run of the peer on the row's test. *ts is its tokens/s; the row gets its name.
void peer_prepare(struct bench_config *config); // before any runner
int peer_run(const struct bench_config *config, const char *file, struct row *row, double *ts);

#endif

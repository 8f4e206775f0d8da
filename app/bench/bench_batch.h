// `runnel bench --batch` and `--arrive`: requests through the engine, with all that it does besides
// computing. bench_batch.c measures, bench_batch_print.c shows.
#ifndef RN_APP_BENCH_BATCH_H
#define RN_APP_BENCH_BATCH_H

#include "bench/bench.h"
#include "terminal/table.h"

enum batch_kind {
    BATCH_DISTINCT, // requests that have nothing in common
    BATCH_SHARED,   // requests whose prompts begin alike
    BATCH_BEFORE,   // streams that run, before a long prompt arrives
    BATCH_ARRIVE,   // the same until that prompt has its first token
};

// Milliseconds; NaN: there were none.
struct batch_spread {
    double p50, p99, max;
};

struct batch_row {
    char *filename, *type; // owned
    const char *backend, *isa;
    int n_threads, n_batch;
    const char *kv_type;
    enum batch_kind kind;
    int n_streams, n_prompt, n_gen, n_shared, n_arrive;
    int itl_ms; // 0: no bound
    double wall_ms;
    // the requests one after the other: what the first takes, and each of the others
    double first_ms, next_ms;
    double prompt_ts, gen_ts; // tokens/s of all requests together; NaN: none
    bool decode_only;         // gen_ts and what follows are of steps without prompts
    double gain_stream;       // gen_ts over that of one stream; NaN: it was not measured
    struct batch_spread gap, ttft;
    double over_bound; // share of the gaps that are longer than itl_ms; NaN: no bound
    uint64_t steps;
    double host_us, sample_us;         // per step
    double read_rate, bandwidth;       // bytes/s
    uint32_t pages_held, pages_shared; // when all streams ran
    uint64_t prompt_tokens, cached_tokens, output_tokens, preemptions;
    char time[32];
};

struct batch_bench {
    const struct bench_config *config;
    const struct term *term;
    struct batch_row *rows; // [n_rows], complete ones
    int n_rows;
    struct table table; // at hand
    struct progress progress;
    uint64_t done, total; // measurements
};

// Like bench_config's: on failure the error has been printed and the exit code is returned.
int bench_batch_run(const struct bench_config *config, const struct term *term);

// bench_batch_print.c
double batch_serial_ms(const struct batch_row *row); // all its requests, one after the other
void batch_table_row(struct batch_bench *bench, const struct batch_row *row); // with its head
int batch_json_print(const struct batch_bench *bench);
int batch_csv_print(const struct batch_bench *bench);
int batch_plot(const struct batch_bench *bench, const char *path);

#endif

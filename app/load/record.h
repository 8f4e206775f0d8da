// The result of each request of a load, and the figures of all of them. Times are as vllm bench
// serve defines them: TTFT from sending to the first piece of text, ITL between pieces, E2EL to the
// last event, TPOT = (E2EL - TTFT) / (tokens - 1). Percentiles interpolate linearly, std is that of
// a population, as numpy does. Nothing here measures or prints.
#ifndef RN_APP_LOAD_RECORD_H
#define RN_APP_LOAD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct load_record {
    bool ok;
    uint64_t start_ns, first_ns, last_ns; // sent, first piece, last event
    int n_pieces;
    float *gap_ms;                    // [n_pieces - 1], owned
    int input_tokens, output_tokens;  // of the usage; -1: the server did not say
    int cached_tokens;                // of the input; -1
    int draft_tokens, draft_accepted; // -1
    int planned_input;                // tokens that the prompt was made for
};

// A failure, by its text.
enum { LOAD_FAULT_SIZE = 120, LOAD_FAULT_READ = 512, LOAD_FAULTS = 8 }; // READ: before it is cut
struct load_fault {
    char text[LOAD_FAULT_SIZE];
    int count;
};

// Invariant: items and faults only grow during a level.
struct load_records {
    struct load_record *item; // [n]
    int n, capacity, n_failed;
    struct load_fault fault[LOAD_FAULTS]; // the last one: all others
    int n_faults;
    double duration_s; // from the first request's start to the last event
};

// A copy of the record is added, which takes its gaps over. False: out of memory.
bool load_records_add(struct load_records *records, struct load_record *record);
void load_records_fault(struct load_records *records, const char *text);
void load_records_free(struct load_records *records);

// ---------------------------------------------------------------- figures

// The percentiles, in this order.
#define LOAD_PERCENTILES(X) X(1) X(5) X(10) X(25) X(50) X(75) X(90) X(95) X(99)
enum load_percentile {
#define X(p) LOAD_P##p,
    LOAD_PERCENTILES(X)
#undef X
        LOAD_PERCENTILE_COUNT
};

// Of n values; all 0 where there are none.
struct spread {
    int n;
    double mean, std, min, max;
    double p[LOAD_PERCENTILE_COUNT];
};

void spread_of(double *values, size_t n, struct spread *out); // sorts them
double percentile_of(const double *sorted, size_t n, double p);

// Bounds in ms for a request to be good; 0: none.
struct load_slo {
    double ttft_ms, tpot_ms, e2el_ms;
    bool any;
};

struct load_figures {
    int completed, failed;
    double duration_s;
    int64_t input_tokens, output_tokens;
    int by_pieces;                        // requests whose tokens were taken to be the pieces
    int by_plan;                          // requests whose input is the planned number
    double request_rate, request_goodput; // a second
    int good;                             // requests within all bounds
    double output_rate, total_rate;       // tokens a second
    double output_rate_max;               // pieces in the busiest second
    int concurrent_max;                   // requests in the busiest second
    struct spread ttft_ms, tpot_ms, itl_ms, e2el_ms;
    double arrival_gap_ms;   // mean of the ITL above 0: pieces that arrive together are of one step
    struct spread ttst_ms;   // from the first piece to the second
    struct spread user_rate; // 1000 / TPOT: tokens a second of one request; only TPOT above 0
    struct spread input_len, output_len;  // tokens
    int64_t cached_tokens;                // -1: nobody said
    int64_t draft_tokens, draft_accepted; // -1: nobody said
};

// False: out of memory.
bool load_figures_of(const struct load_records *records, const struct load_slo *slo,
                     struct load_figures *out);

// ---------------------------------------------------------------- two sides

// The mean difference of pairs b - a with its 95 % interval (Student's t): mean - error to mean +
// error. n is at least 2.
struct difference {
    double a, b; // means
    double mean, error;
};
struct difference difference_of(const double *a, const double *b, int n);

#endif

// Requests that run on an engine together, for the measurements of the engine: the engine, the
// requests, the loop over its steps, and the figures noted on the way. Times are a client's: from
// submit to an event, or between two events.
#ifndef RN_APP_BENCH_CROWD_H
#define RN_APP_BENCH_CROWD_H

#include "bench/bench.h"

// A request that runs.
struct crowd_stream {
    uint64_t submit_ns, first_ns, last_ns;
    int n_out;
    bool done;
    int32_t *token; // the first `kept` that it wrote; NULL: not kept
};

// The steps after the first token, added up over the requests that have ended.
struct crowd_sums {
    uint64_t tokens, steps, bytes;
    uint64_t drafted, accepted, draft_steps;
    double decode_ms, undrafted_ms; // as in rn_timings
};

struct crowd {
    rn_engine *engine;
    struct crowd_stream *stream; // [n]
    int n;
    int32_t *token; // [n][kept] of all streams; NULL: not kept
    int kept;
    double *gap_ms; // [n_gaps] between tokens of a stream, at most max_gaps
    size_t n_gaps, max_gaps;
    struct crowd_sums *sums; // are added to; NULL: not wanted
    uint64_t now_ns;         // end of the last step
    uint64_t n_out;          // tokens of all
    int n_started, n_done;
};

// A moment of a run.
struct crowd_mark {
    uint64_t ns, n_out;
    rn_engine_stats stats;
};

// The moments of a run. crowd_window_ends() chooses two of them. The window is from the step after
// which all streams have started to the step in which the first stream ends. If no step is between
// them, it is from the first token of any stream to the end.
struct crowd_window {
    struct crowd_mark start, first, all, ended, end;
};

// On failure the error has been printed and the exit code is returned, here and below.

// The engine that the config asks for; the place gets its machine. options has what the
// measurement decides: n_ctx, max_seqs, and so on. From then on Ctrl-C is noted instead of ending
// the program.
int crowd_engine_create(struct bench_place *place, const rn_engine_options *options,
                        rn_engine **out);

uint64_t crowd_hash(uint64_t value); // a random-looking number, the same every time
// The id at a position of a request's prompt: any of the vocabulary, the same every time.
int32_t crowd_prompt_id(int request, int position, int n_vocab);
// Greedy, or as the model's file says.
rn_sampling crowd_sampling(const rn_model_info *info, bool sample, int request);

// kept: tokens that are kept of each stream; 0: none.
int crowd_init(struct crowd *crowd, rn_engine *engine, int n, size_t max_gaps, int kept);
void crowd_deinit(struct crowd *crowd);
// Submits a request as the stream; it runs to its full length.
int crowd_submit(struct crowd *crowd, int index, const rn_request *request);
int crowd_step(struct crowd *crowd);

void crowd_mark_set(const struct crowd *crowd, struct crowd_mark *out);
void crowd_window_begin(struct crowd *crowd, struct crowd_window *out); // before the first submit
// Steps until all have ended.
int crowd_finish(struct crowd *crowd, struct crowd_window *window);
// The window as two moments; whether no prompt was evaluated between them.
bool crowd_window_ends(const struct crowd_window *window, const struct crowd_mark **from,
                       const struct crowd_mark **to);
double crowd_rate(const struct crowd_mark *from, const struct crowd_mark *to); // tokens/s

#endif

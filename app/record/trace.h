// Chrome's trace format (JSON with "traceEvents"), which Perfetto and chrome://tracing show. Two
// uses: the trace of one record, and a file that grows while an engine runs. Lanes: the steps with
// their stages and kinds of operations inside; one for each stream, its time by cause, its tokens.
// Slices of a lane nest and never overlap. Times are microseconds of CLOCK_MONOTONIC with three
// digits, so they are exact.
#ifndef RN_RECORD_TRACE_H
#define RN_RECORD_TRACE_H

#include "record/record.h"

// The whole trace of one request.
void trace_record(struct jbuf *out, const struct record *record);

// Gets whole events; pieces may be lost, and the rest is still valid. False: they are lost.
typedef bool trace_write_fn(void *ctx, const char *data, size_t len);

enum { TRACE_STEP_LANES = 2 }; // steps in flight overlap

// The end of the document: with it behind them, the pieces so far are a whole document.
#define TRACE_TAIL "\n]}\n"

// A trace that is being written. One thread at a time.
struct trace {
    trace_write_fn *write;
    void (*on_full)(void *ctx); // told once when it stops; NULL: nobody
    void *ctx;
    uint64_t limit; // bytes after which it stops
    uint64_t bytes;
    uint64_t lost;     // pieces
    bool full;         // it has stopped
    uint64_t step;     // the last that was written
    uint64_t steps_ns; // when steps were last asked for
    uint64_t lane_end_ns[TRACE_STEP_LANES];
    struct jbuf piece;
    rn_step *steps; // room for some
};

// False: out of memory, or the head could not be written.
bool trace_open(struct trace *trace, trace_write_fn *write, void *ctx, uint64_t limit);
// The engine's steps since the last call, and its counters. They are asked for at most every
// interval_ns.
void trace_steps(struct trace *trace, const rn_engine *engine, uint64_t interval_ns);
// A token, and with a finish the account of the choice. id: of the response; "": none.
void trace_event(struct trace *trace, const char *id, const rn_event *event);
// Ends the document. A trace that was never opened is fine.
void trace_close(struct trace *trace);

#endif

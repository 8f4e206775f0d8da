// From an ended call to its spans in OTLP's JSON: a SERVER span and a child for each phase. The
// attributes are those of OpenTelemetry's conventions for HTTP and GenAI, and vLLM's. No text of
// prompts or answers is in them. Callers: streams.c at a call's end, tests.
#ifndef RN_SERVER_OTLP_SPAN_H
#define RN_SERVER_OTLP_SPAN_H

#include "generation.h"

// The same moment on both clocks.
struct otlp_moment {
    uint64_t monotonic_ns, unix_ns;
};
struct otlp_moment otlp_now(void);

// Whether requests of a route have spans: health, metrics and the page's files have none.
bool otlp_is_traced(const struct route *route);
// "chat", "text_completion" or "embeddings"; NULL: the route generates nothing.
const char *otlp_operation(const struct route *route);
// The spans of a call that ended at `now`, separated by commas. Returns their number.
int otlp_spans_write(const struct call *call, bool gone, struct otlp_moment now, struct jbuf *out);
// Hands the spans of a call over to the server's exporter, if its trace is sampled.
void otlp_call_end(const struct call *call, bool gone);

// --- parts of a span ---

// Attributes of the span or event that is being written.
void otlp_put_text(struct jbuf *out, const char *key, const char *value);
void otlp_put_int(struct jbuf *out, const char *key, int64_t value);
void otlp_put_real(struct jbuf *out, const char *key, double value);
void otlp_put_bool(struct jbuf *out, const char *key, bool value);

// A part of a gap.
struct otlp_cause {
    const char *name;
    uint64_t ns;
};
// A long gap as an event of the decode span. `cause` is the main one; parts say how the time is
// divided where that is known, n_parts 0 where it is not.
struct otlp_gap_event {
    uint64_t end_ns, ns; // CLOCK_MONOTONIC; how long
    int token;           // its index in the output
    const char *cause;
    const struct otlp_cause *part; // [n_parts]
    int n_parts;
};
void otlp_gap_event(struct jbuf *out, struct otlp_moment now, const struct otlp_gap_event *gap);

#endif

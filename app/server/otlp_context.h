// The trace that a request belongs to, from its headers (W3C Trace Context, levels 1 and 2). A
// traceparent that breaks the rules starts a new trace, as if there were none. Callers: request.c
// when a head was read; the spans and the access log read the ids.
#ifndef RN_SERVER_OTLP_CONTEXT_H
#define RN_SERVER_OTLP_CONTEXT_H

#include "reader.h"

enum { OTLP_TRACE_ID_SIZE = 33, OTLP_SPAN_ID_SIZE = 17, OTLP_STATE_BYTES = 512 };

// Ids are lower-case hex, NUL-terminated.
struct otlp_context {
    bool known;   // it has ids
    bool sampled; // the trace's start wants spans
    bool remote;  // the parent came with the request
    char trace_id[OTLP_TRACE_ID_SIZE];
    char span_id[OTLP_SPAN_ID_SIZE];   // of the request's own span
    char parent_id[OTLP_SPAN_ID_SIZE]; // "": none
};

// The trace of a request. Without a valid traceparent a new trace is started where `starts` is set;
// otherwise the context stays unknown.
void otlp_context_read(const struct head *head, bool starts, struct otlp_context *out);
// trace id, parent id and flag of a traceparent. False: it breaks the rules.
bool otlp_traceparent_parse(const char *text, struct otlp_context *out);
// All tracestate fields, joined. "": there is none, or it breaks the rules.
void otlp_tracestate_read(const struct head *head, char out[OTLP_STATE_BYTES + 1]);
// A random id that is not all zeros.
void otlp_span_id_draw(char out[OTLP_SPAN_ID_SIZE]);

#endif

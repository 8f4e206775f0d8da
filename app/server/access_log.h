// The access log: a line of JSON for each request, when it has ended. Sizes, times and how it
// ended; never texts of prompts, answers or errors (an error's message quotes the request).
#ifndef RN_SERVER_ACCESS_LOG_H
#define RN_SERVER_ACCESS_LOG_H

#include "generation.h"
#include "log_sink.h"

// line is the caller's, to be used again. A line that finds no memory is left out.
void access_log_write(struct log_sink *log, struct jbuf *line, const struct call *call, bool gone);
// The same for people: "10:21:03 POST /v1/completions 200 in 12.1 ms, 18 + 64 tokens, ...".
void access_log_write_line(struct log_sink *log, struct jbuf *line, const struct call *call,
                           bool gone);

#endif

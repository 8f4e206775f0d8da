// The line of the access log, and the line of --verbose. The sink takes it or drops it, and never
// waits. Caller: metrics.c, on the I/O thread.
#include "access_log.h"

#include <string.h>
#include <time.h>

#include "helpers.h"
#include "metrics_state.h"
#include "routes.h"

enum { LOGGED_USER_BYTES = 128, MODEL_BYTES_MAX = 256 };

static void put_time(struct jbuf *line) {
    struct timespec now;
    struct tm tm;
    char text[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    jbuf_printf(line, "{\"time\":\"%s.%03ldZ\"", text, now.tv_nsec / 1000000);
}

static void put_bounded(struct jbuf *line, const char *key, const char *text, size_t max) {
    jbuf_key(line, key);
    jbuf_string(line, text, strnlen(text, max));
}

static double ms_between(uint64_t from_ns, uint64_t to_ns) {
    return (double)(int64_t)(to_ns - from_ns) * 1e-6;
}

// Percentiles over the tokens of all choices.
static void put_gaps(struct jbuf *line, const struct generation *generation) {
    uint32_t count[GAPS_BUCKETS] = {0};
    struct gaps all = {.count = count};
    for (int i = 0; i < generation->n_choices; i++) {
        const struct gaps *gaps = &generation->choice[i].gaps;
        if (!gaps->count) continue;
        all.total += gaps->total;
        for (int bucket = 0; bucket < GAPS_BUCKETS; bucket++) count[bucket] += gaps->count[bucket];
    }
    jbuf_put_real(line, "itl_ms_p50", gaps_percentile(&all, 0.5), 3);
    jbuf_put_real(line, "itl_ms_p99", gaps_percentile(&all, 0.99), 3);
}

// Where the times between tokens went, all choices together.
static void put_gap_causes(struct jbuf *line, const struct generation *generation) {
    jbuf_key(line, "gap_ms");
    jbuf_text(line, "{");
    for (int cause = RN_CAUSE_NONE + 1; cause < RN_CAUSE_COUNT; cause++) {
        double ms = 0;
        for (int i = 0; i < generation->n_choices; i++) ms += generation->choice[i].gap_ms[cause];
        if (ms > 0) jbuf_put_real(line, rn_cause_name((rn_cause)cause), ms, 3);
    }
    jbuf_text(line, "}");
}

static void put_finishes(struct jbuf *line, const struct generation *generation) {
    uint64_t count[RN_FINISH_COUNT] = {0};
    for (int i = 0; i < generation->n_choices; i++) count[generation->choice[i].finish]++;
    jbuf_key(line, "finish");
    jbuf_text(line, "{");
    for (int i = RN_FINISH_NONE + 1; i < RN_FINISH_COUNT; i++)
        if (count[i]) jbuf_put_uint(line, rn_finish_text((rn_finish)i), count[i]);
    jbuf_text(line, "}");
}

static void put_generation(struct jbuf *line, const struct call *call) {
    const struct generation *generation = call->generation;
    const struct usage usage = generation_usage(generation);
    uint64_t preemptions = 0, output_tokens = 0, draft_tokens = 0, accepted_tokens = 0;
    double queue_ms = 0;
    for (int i = 0; i < generation->n_choices; i++) {
        const rn_timings *timings = &generation->choice[i].timings;
        preemptions += (uint64_t)timings->preemptions;
        draft_tokens += (uint64_t)timings->draft_tokens;
        accepted_tokens += (uint64_t)timings->accepted_tokens;
        output_tokens += (uint64_t)generation->choice[i].n_output; // also of unended choices
        if (timings->queue_ms > queue_ms) queue_ms = timings->queue_ms;
    }
    jbuf_key(line, "stream");
    jbuf_bool(line, generation->params.stream);
    if (generation->params.user)
        put_bounded(line, "user", generation->params.user, LOGGED_USER_BYTES);
    jbuf_put_uint(line, "prompts", (uint64_t)generation->n_prompts);
    jbuf_put_uint(line, "choices", (uint64_t)generation->n_choices);
    jbuf_put_uint(line, "prompt_tokens", (uint64_t)usage.prompt_tokens);
    jbuf_put_uint(line, "cached_tokens", (uint64_t)usage.cached_tokens);
    jbuf_put_uint(line, "output_tokens", output_tokens);
    jbuf_put_uint(line, "draft_tokens", draft_tokens);
    jbuf_put_uint(line, "accepted_tokens", accepted_tokens);
    jbuf_put_uint(line, "preemptions", preemptions);
    jbuf_put_real(line, "queue_ms", queue_ms, 3);
    if (generation->first_ns)
        jbuf_put_real(line, "ttft_ms", ms_between(call->start_ns, generation->first_ns), 3);
    put_gaps(line, generation);
    put_gap_causes(line, generation);
    put_finishes(line, generation);
}

// As the client named it; NULL: the request's line could not be read.
static const char *method_of(const struct call *call) {
    return call->head.text ? head_method(&call->head) : NULL;
}

// The route, also one that does not take the method; NULL: there is none. An unknown path is text
// of the client.
static const char *route_of(const struct call *call) {
    if (call->route) return call->route->path;
    return call->path ? route_path(call->path) : NULL;
}

void access_log_write(struct log_sink *log, struct jbuf *line, const struct call *call, bool gone) {
    jbuf_clear(line);
    put_time(line);
    put_bounded(line, "id", call->id, sizeof call->id);
    if (*call->request_id)
        put_bounded(line, "x_request_id", call->request_id, sizeof call->request_id);
    if (call->trace.known) {
        put_bounded(line, "trace_id", call->trace.trace_id, sizeof call->trace.trace_id);
        put_bounded(line, "span_id", call->trace.span_id, sizeof call->trace.span_id);
    }
    jbuf_key(line, "method");
    jbuf_cstring(line, method_of(call));
    jbuf_key(line, "route");
    jbuf_cstring(line, route_of(call));
    jbuf_put_uint(line, "status", (uint64_t)metrics_status(call));
    jbuf_key(line, "gone");
    jbuf_bool(line, gone);
    jbuf_put_real(line, "total_ms", ms_between(call->start_ns, clock_ns()), 3);
    jbuf_put_uint(line, "bytes_in", call->body_len);
    jbuf_put_uint(line, "bytes_out", call->sent);
    put_bounded(line, "model", call->served->name, MODEL_BYTES_MAX);
    if (call->generation) put_generation(line, call);
    jbuf_text(line, "}\n");
    if (!line->failed) sink_write(log, line->data, line->len);
}

// ---------------------------------------------------------------- for people

static void put_clock(struct jbuf *line) {
    const time_t now = time(NULL);
    struct tm tm;
    char text[16];
    localtime_r(&now, &tm);
    strftime(text, sizeof text, "%H:%M:%S", &tm);
    jbuf_text(line, text);
}

// Tokens of the prompt and the output, the time to the first token, and the rate after it.
static void put_tokens(struct jbuf *line, const struct call *call) {
    const struct generation *generation = call->generation;
    const struct usage usage = generation_usage(generation);
    uint64_t output = 0;
    for (int i = 0; i < generation->n_choices; i++)
        output += (uint64_t)generation->choice[i].n_output;
    jbuf_printf(line, ", %d", usage.prompt_tokens);
    if (usage.cached_tokens) jbuf_printf(line, " (%d cached)", usage.cached_tokens);
    jbuf_printf(line, " + %llu token%s", (unsigned long long)output, output == 1 ? "" : "s");
    if (!generation->first_ns) return;
    const double ms = ms_between(generation->first_ns, clock_ns());
    jbuf_printf(line, ", first after %.1f ms", ms_between(call->start_ns, generation->first_ns));
    if (output > 1 && ms > 0) jbuf_printf(line, ", %.1f tokens/s", 1e3 * (double)(output - 1) / ms);
}

void access_log_write_line(struct log_sink *log, struct jbuf *line, const struct call *call,
                           bool gone) {
    jbuf_clear(line);
    put_clock(line);
    const char *method = method_of(call), *route = route_of(call);
    jbuf_printf(line, " %s %s %d in %.1f ms", method ? method : "?", route ? route : "(no route)",
                metrics_status(call), ms_between(call->start_ns, clock_ns()));
    if (call->generation) put_tokens(line, call);
    jbuf_text(line, gone ? ", the client has gone\n" : "\n");
    if (!line->failed) sink_write(log, line->data, line->len);
}

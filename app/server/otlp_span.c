// Writing spans. Times of the engine are CLOCK_MONOTONIC; one offset per request turns them into
// times since 1970, so that they stay in order. A child's times are cut to its parent's.
#include "otlp_span.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "helpers.h"
#include "otlp.h"
#include "routes.h"
#include "routing.h"

enum { CHOICES_MAX = 8 }; // choices whose phases get spans

enum span_kind { SPAN_INTERNAL = 1, SPAN_SERVER = 2 };
enum { FLAG_SAMPLED = 1, FLAG_KNOWS_REMOTE = 0x100, FLAG_REMOTE = 0x200 };

// A call's spans while they are written.
struct spans {
    struct jbuf *out;
    const struct call *call;
    struct otlp_moment now;
    char state[OTLP_STATE_BYTES + 1];
    int n;
};

struct otlp_moment otlp_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (struct otlp_moment){.monotonic_ns = clock_ns(),
                                .unix_ns =
                                    (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec};
}

static uint64_t unix_of(struct otlp_moment now, uint64_t monotonic_ns) {
    return now.unix_ns - (now.monotonic_ns - monotonic_ns);
}

// ---------------------------------------------------------------- attributes

// A comma, except behind an opening bracket.
static void put_comma(struct jbuf *out) {
    if (out->len && out->data[out->len - 1] != '[') jbuf_bytes(out, ",", 1);
}

static void put_key(struct jbuf *out, const char *key) {
    put_comma(out);
    jbuf_text(out, "{\"key\":");
    jbuf_cstring(out, key);
    jbuf_text(out, ",\"value\":");
}

static void put_string_value(struct jbuf *out, const char *value) {
    jbuf_text(out, "{\"stringValue\":");
    jbuf_cstring(out, value);
    jbuf_text(out, "}");
}

void otlp_put_text(struct jbuf *out, const char *key, const char *value) {
    put_key(out, key);
    put_string_value(out, value);
    jbuf_text(out, "}");
}

void otlp_put_int(struct jbuf *out, const char *key, int64_t value) {
    put_key(out, key);
    jbuf_text(out, "{\"intValue\":\"");
    jbuf_int(out, value);
    jbuf_text(out, "\"}}");
}

// Nine digits: a float keeps its value, and a time its nanoseconds.
void otlp_put_real(struct jbuf *out, const char *key, double value) {
    if (!isfinite(value)) return;
    put_key(out, key);
    jbuf_printf(out, "{\"doubleValue\":%.9g}}", value);
}

void otlp_put_bool(struct jbuf *out, const char *key, bool value) {
    put_key(out, key);
    jbuf_printf(out, "{\"boolValue\":%s}}", value ? "true" : "false");
}

// A float as the shortest text that a reader of decimals expects: 0.8, not 0.800000012.
static void put_float(struct jbuf *out, const char *key, float value) {
    if (!isfinite(value)) return;
    put_key(out, key);
    jbuf_printf(out, "{\"doubleValue\":%.7g}}", (double)value);
}

// ---------------------------------------------------------------- spans

static void put_time(struct jbuf *out, const char *key, uint64_t unix_ns) {
    jbuf_printf(out, ",\"%s\":\"%llu\"", key, (unsigned long long)unix_ns);
}

// From the opening brace to the opening bracket of its attributes.
static void span_open(struct spans *spans, const char *span_id, const char *parent_id,
                      enum span_kind kind, bool remote, const char *name, uint64_t begin_ns,
                      uint64_t end_ns) {
    struct jbuf *out = spans->out;
    if (spans->n++) jbuf_text(out, ",");
    jbuf_printf(out, "{\"traceId\":\"%s\",\"spanId\":\"%s\"", spans->call->trace.trace_id, span_id);
    if (*parent_id) jbuf_printf(out, ",\"parentSpanId\":\"%s\"", parent_id);
    if (*spans->state) {
        jbuf_key(out, "traceState");
        jbuf_cstring(out, spans->state);
    }
    jbuf_printf(out, ",\"flags\":%d,\"kind\":%d,\"name\":",
                FLAG_SAMPLED | FLAG_KNOWS_REMOTE | (remote ? FLAG_REMOTE : 0), (int)kind);
    jbuf_cstring(out, name);
    put_time(out, "startTimeUnixNano", unix_of(spans->now, begin_ns));
    put_time(out, "endTimeUnixNano", unix_of(spans->now, end_ns));
    jbuf_text(out, ",\"attributes\":[");
}

// ---------------------------------------------------------------- gaps

void otlp_gaps_add(struct otlp_gaps *gaps, const rn_event *event, int token) {
    const uint64_t ns = (uint64_t)(event->gap_ms > 0 ? event->gap_ms * 1e6 + 0.5 : 0);
    if (!ns) return;
    if (gaps->n == OTLP_GAPS_KEPT) { // the shortest makes room
        int at = 0;
        for (int i = 1; i < gaps->n; i++)
            if (gaps->gap[i].ns < gaps->gap[at].ns) at = i;
        if (gaps->gap[at].ns >= ns) return;
        gaps->n--;
        memmove(&gaps->gap[at], &gaps->gap[at + 1], (size_t)(gaps->n - at) * sizeof *gaps->gap);
    }
    gaps->gap[gaps->n++] = (struct otlp_gap){.end_ns = event->time_ns,
                                             .ns = ns,
                                             .token = token,
                                             .cause = event->cause};
}

static rn_cause largest(const uint64_t *cause_ns) {
    int at = RN_CAUSE_NONE;
    for (int i = 0; i < RN_CAUSE_COUNT; i++)
        if (cause_ns[i] > cause_ns[at]) at = i;
    return (rn_cause)at;
}

// The account has the longest gap first; spans have their events in the order of time.
void otlp_gaps_end(struct otlp_gaps *gaps, const rn_account *account) {
    gaps->n = 0;
    memcpy(gaps->first_ns, account->first.cause_ns, sizeof gaps->first_ns);
    for (int i = 0; i < account->n_slow && gaps->n < OTLP_GAPS_KEPT; i++) {
        const rn_slow_gap *slow = &account->slow[i];
        int to = gaps->n++;
        for (; to > 0 && gaps->gap[to - 1].end_ns > slow->end_ns; to--)
            gaps->gap[to] = gaps->gap[to - 1];
        struct otlp_gap *gap = &gaps->gap[to];
        *gap = (struct otlp_gap){.end_ns = slow->end_ns,
                                 .ns = slow->share.ns,
                                 .token = slow->token,
                                 .cause = largest(slow->share.cause_ns)};
        memcpy(gap->cause_ns, slow->share.cause_ns, sizeof gap->cause_ns);
    }
}

void otlp_gap_event(struct jbuf *out, struct otlp_moment now, const struct otlp_gap_event *gap) {
    put_comma(out);
    jbuf_printf(out, "{\"timeUnixNano\":\"%llu\",\"name\":\"runnel.gap\",\"attributes\":[",
                (unsigned long long)unix_of(now, gap->end_ns));
    otlp_put_text(out, "runnel.gap.cause", gap->cause);
    otlp_put_real(out, "runnel.gap.duration", (double)gap->ns * 1e-9);
    otlp_put_int(out, "runnel.gap.token", gap->token);
    for (int i = 0; i < gap->n_parts; i++) {
        char key[64];
        snprintf(key, sizeof key, "runnel.gap.part.%s", gap->part[i].name);
        otlp_put_real(out, key, (double)gap->part[i].ns * 1e-9);
    }
    jbuf_text(out, "]}");
}

static void put_gap_events(const struct spans *spans, const struct generation_choice *choice) {
    struct jbuf *out = spans->out;
    if (!choice->slow.n) return;
    jbuf_text(out, ",\"events\":[");
    for (int i = 0; i < choice->slow.n; i++) {
        const struct otlp_gap *gap = &choice->slow.gap[i];
        struct otlp_cause part[RN_CAUSE_COUNT];
        int n = 0;
        for (int cause = 0; cause < RN_CAUSE_COUNT; cause++)
            if (gap->cause_ns[cause])
                part[n++] =
                    (struct otlp_cause){rn_cause_name((rn_cause)cause), gap->cause_ns[cause]};
        otlp_gap_event(out, spans->now,
                       &(struct otlp_gap_event){.end_ns = gap->end_ns,
                                                .ns = gap->ns,
                                                .token = gap->token,
                                                .cause = rn_cause_name(gap->cause),
                                                .part = part,
                                                .n_parts = n});
    }
    jbuf_text(out, "]");
}

// "PREFIX.CAUSE", in seconds.
static void put_cause(struct jbuf *out, const char *prefix, int cause, double seconds) {
    char key[64];
    if (!(seconds > 0)) return;
    snprintf(key, sizeof key, "%s.%s", prefix, rn_cause_name((rn_cause)cause));
    otlp_put_real(out, key, seconds);
}

// ---------------------------------------------------------------- phases

static uint64_t later(uint64_t ns, double ms) { return ns + (uint64_t)(ms > 0 ? ms * 1e6 : 0); }

static uint64_t no_later(uint64_t ns, uint64_t most) { return ns < most ? ns : most; }

// A child of the call's span, up to its attributes.
static void phase_open(struct spans *spans, const char *name, int choice, uint64_t begin_ns,
                       uint64_t end_ns) {
    const uint64_t last = spans->now.monotonic_ns;
    const uint64_t begin = no_later(begin_ns, last), end = no_later(end_ns, last);
    char id[OTLP_SPAN_ID_SIZE];
    otlp_span_id_draw(id);
    span_open(spans, id, spans->call->trace.span_id, SPAN_INTERNAL, false, name, begin,
              end > begin ? end : begin);
    if (choice >= 0) otlp_put_int(spans->out, "runnel.choice.index", choice);
}

static void phase_close(struct spans *spans) { jbuf_text(spans->out, "]}"); }

static void put_prompt(struct spans *spans, const struct generation_choice *choice,
                       uint64_t begin_ns, uint64_t end_ns) {
    phase_open(spans, "prompt", choice->index, begin_ns, end_ns);
    otlp_put_int(spans->out, "runnel.prompt.tokens", choice->timings.prompt_tokens);
    otlp_put_int(spans->out, "runnel.prompt.cached_tokens", choice->timings.cached_tokens);
    for (int cause = 0; cause < RN_CAUSE_COUNT; cause++)
        put_cause(spans->out, "runnel.first_token", cause,
                  (double)choice->slow.first_ns[cause] * 1e-9);
    phase_close(spans);
}

static void put_decode(struct spans *spans, const struct generation_choice *choice) {
    struct jbuf *out = spans->out;
    const rn_timings *timings = &choice->timings;
    phase_open(spans, "decode", choice->index, choice->first_ns, choice->last_ns);
    otlp_put_int(out, "runnel.decode.tokens", choice->n_output);
    if (choice->ended) {
        otlp_put_int(out, "runnel.decode.steps", (int64_t)timings->decode_steps);
        otlp_put_int(out, "runnel.decode.read_bytes", (int64_t)timings->decode_bytes);
        otlp_put_int(out, "runnel.decode.drafted_tokens", timings->draft_tokens);
        otlp_put_int(out, "runnel.decode.accepted_tokens", timings->accepted_tokens);
        otlp_put_int(out, "runnel.decode.preemptions", timings->preemptions);
    }
    for (int cause = 0; cause < RN_CAUSE_COUNT; cause++)
        put_cause(out, "runnel.gap", cause, choice->gap_ms[cause] * 1e-3);
    jbuf_text(out, "]");
    put_gap_events(spans, choice);
    jbuf_text(out, "}");
}

// The engine tells a choice's times with its end. Of a choice that was given up only its tokens are
// known, so its waiting and its prompt are one span.
static void put_choice(struct spans *spans, const struct generation_choice *choice) {
    const uint64_t submit_ns = spans->call->generation->submit_ns;
    const uint64_t last_ns = spans->now.monotonic_ns;
    if (choice->ended) {
        const uint64_t start_ns = later(submit_ns, choice->timings.queue_ms);
        const uint64_t prompt_ns = later(start_ns, choice->timings.prompt_ms);
        phase_open(spans, "queue", choice->index, submit_ns,
                   no_later(start_ns, choice->first_ns ? choice->first_ns : last_ns));
        phase_close(spans);
        if (choice->timings.prompt_ms > 0)
            put_prompt(spans, choice, start_ns, choice->first_ns ? choice->first_ns : prompt_ns);
    } else {
        phase_open(spans, "queue and prompt", choice->index, submit_ns,
                   choice->first_ns ? choice->first_ns : last_ns);
        phase_close(spans);
    }
    if (choice->first_ns) put_decode(spans, choice);
}

static void put_phases(struct spans *spans) {
    const struct generation *generation = spans->call->generation;
    if (!generation || !generation->submit_ns) return;
    phase_open(spans, "prepare", -1, spans->call->start_ns, generation->submit_ns);
    phase_close(spans);
    for (int i = 0; i < generation->n_choices && i < CHOICES_MAX; i++)
        put_choice(spans, &generation->choice[i]);
}

// ---------------------------------------------------------------- the call's own span

const char *otlp_operation(const struct route *route) {
    static const struct {
        void (*prepare)(struct call *call);
        const char *operation;
    } known[] = {{chat_prepare, "chat"},
                 {responses_prepare, "chat"},
                 {messages_prepare, "chat"},
                 {ollama_chat, "chat"},
                 {ollama_generate, "text_completion"},
                 {completions_prepare, "text_completion"},
                 {native_prepare, "text_completion"},
                 {native_infill, "text_completion"},
                 {generate_prepare, "text_completion"},
                 {embeddings_prepare, "embeddings"},
                 {embeddings_native, "embeddings"},
                 {ollama_embed, "embeddings"},
                 {ollama_embeddings, "embeddings"}};
    for (size_t i = 0; route && i < sizeof known / sizeof *known; i++)
        if (known[i].prepare == route->prepare) return known[i].operation;
    return NULL;
}

static void put_http(struct jbuf *out, const struct call *call) {
    const struct server *server = call->server;
    otlp_put_text(out, "http.request.method", call->route->method);
    otlp_put_text(out, "http.route", call->route->path);
    otlp_put_text(out, "url.path", call_path(call));
    otlp_put_text(out, "url.scheme", server->config.tls_cert ? "https" : "http");
    otlp_put_text(out, "network.protocol.version", call->head.minor ? "1.1" : "1.0");
    otlp_put_text(out, "server.address", server->config.host);
    otlp_put_int(out, "server.port", server->port);
    if (call->status) otlp_put_int(out, "http.response.status_code", call->status);
    otlp_put_int(out, "http.request.body.size", (int64_t)call->body_len);
    otlp_put_int(out, "http.response.body.size", (int64_t)call->sent);
}

// The client's name of the model where the model has it, else the model's: a server of one model
// takes any text as a name, and labels are few.
static const char *asked_model(const struct call *call) {
    const char *name = json_string_value(json_object_get(call->json, "model"));
    return name && served_is_named(call->served, name) ? name : call->served->name;
}

static void put_request(struct jbuf *out, const struct call *call) {
    const struct generation *generation = call->generation;
    const struct params *params = &generation->params;
    const rn_sampling *sampling = &params->sampling;
    if (generation->pooling) return;
    otlp_put_bool(out, "gen_ai.request.stream", params->stream);
    if (params->max_tokens >= 0) otlp_put_int(out, "gen_ai.request.max_tokens", params->max_tokens);
    put_float(out, "gen_ai.request.temperature", sampling->temperature);
    put_float(out, "gen_ai.request.top_p", sampling->top_p);
    put_float(out, "gen_ai.request.top_k", (float)sampling->top_k);
    put_float(out, "gen_ai.request.frequency_penalty", sampling->frequency_penalty);
    put_float(out, "gen_ai.request.presence_penalty", sampling->presence_penalty);
    if (sampling->has_seed && sampling->seed <= INT64_MAX)
        otlp_put_int(out, "gen_ai.request.seed", (int64_t)sampling->seed);
    if (params->n != 1) otlp_put_int(out, "gen_ai.request.choice.count", params->n);
    otlp_put_int(out, "gen_ai.request.n", params->n); // vLLM's
}

static const char *finish_reason(const struct generation_choice *choice) {
    if (!choice->ended) return "cancelled";
    return choice->n_tools && choice->finish == RN_FINISH_STOP ? "tool_calls"
                                                               : rn_finish_text(choice->finish);
}

static void put_finishes(struct jbuf *out, const struct generation *generation) {
    put_key(out, "gen_ai.response.finish_reasons");
    jbuf_text(out, "{\"arrayValue\":{\"values\":[");
    for (int i = 0; i < generation->n_choices; i++) {
        put_comma(out);
        put_string_value(out, finish_reason(&generation->choice[i]));
    }
    jbuf_text(out, "]}}}");
}

static void put_usage(struct jbuf *out, const struct generation *generation) {
    const struct usage usage = generation_usage(generation);
    int n_output = 0, n_reasoning = 0;
    for (int i = 0; i < generation->n_choices; i++) {
        n_output += generation->choice[i].n_output;
        n_reasoning += generation->choice[i].n_reasoning;
    }
    otlp_put_int(out, "gen_ai.usage.input_tokens", usage.prompt_tokens);
    otlp_put_int(out, "gen_ai.usage.output_tokens", n_output);
    otlp_put_int(out, "gen_ai.usage.cache_read.input_tokens", usage.cached_tokens);
    if (n_reasoning) otlp_put_int(out, "gen_ai.usage.reasoning.output_tokens", n_reasoning);
    otlp_put_int(out, "gen_ai.usage.prompt_tokens", usage.prompt_tokens); // vLLM's names
    otlp_put_int(out, "gen_ai.usage.completion_tokens", n_output);
}

static double larger(double a, double b) { return a > b ? a : b; }

// vLLM's latencies, in seconds; of several choices the longest.
static void put_latencies(struct jbuf *out, const struct call *call, struct otlp_moment now) {
    const struct generation *generation = call->generation;
    double queue_ms = 0, prompt_ms = 0, decode_ms = 0, inference_ms = 0;
    bool ended = true;
    for (int i = 0; i < generation->n_choices; i++) {
        const rn_timings *t = &generation->choice[i].timings;
        queue_ms = larger(queue_ms, t->queue_ms);
        prompt_ms = larger(prompt_ms, t->prompt_ms);
        decode_ms = larger(decode_ms, t->decode_ms);
        inference_ms = larger(inference_ms, t->prompt_ms + t->decode_ms);
        ended &= generation->choice[i].ended;
    }
    if (generation->first_ns) {
        const double ttft_s = (double)(generation->first_ns - call->start_ns) * 1e-9;
        otlp_put_real(out, "gen_ai.latency.time_to_first_token", ttft_s);
        if (generation->params.stream)
            otlp_put_real(out, "gen_ai.response.time_to_first_chunk", ttft_s);
    }
    otlp_put_real(out, "gen_ai.latency.e2e", (double)(now.monotonic_ns - call->start_ns) * 1e-9);
    if (!ended) return;
    otlp_put_real(out, "gen_ai.latency.time_in_queue", queue_ms * 1e-3);
    otlp_put_real(out, "gen_ai.latency.time_in_model_prefill", prompt_ms * 1e-3);
    otlp_put_real(out, "gen_ai.latency.time_in_model_decode", decode_ms * 1e-3);
    otlp_put_real(out, "gen_ai.latency.time_in_model_inference", inference_ms * 1e-3);
}

static void put_gen_ai(struct jbuf *out, const struct call *call, struct otlp_moment now) {
    const struct generation *generation = call->generation;
    otlp_put_text(out, "gen_ai.operation.name", otlp_operation(call->route));
    otlp_put_text(out, "gen_ai.provider.name", "runnel");
    otlp_put_text(out, "gen_ai.request.model", asked_model(call));
    otlp_put_text(out, "gen_ai.request.id", routing_id(call)); // vLLM's, and X-Request-Id
    if (!generation) return;
    put_request(out, call);
    if (!generation->began) return;
    char id[CALL_ID_BYTES];
    call_answer_id(call, id);
    otlp_put_text(out, "gen_ai.response.id", id);
    otlp_put_text(out, "gen_ai.response.model", call->served->name);
    if (!generation->pooling) put_finishes(out, generation);
    put_usage(out, generation);
    put_latencies(out, call, now);
}

// A hang-up is an error of the request, not of the server: the status stays unset.
static void put_status(struct jbuf *out, const struct call *call, bool gone) {
    char text[GENERATION_ERROR_SIZE];
    const char *error = generation_error(call, gone, text);
    if (error) otlp_put_text(out, "error.type", error);
    jbuf_text(out, error && !gone ? "],\"status\":{\"code\":2}}" : "],\"status\":{}}");
}

int otlp_spans_write(const struct call *call, bool gone, struct otlp_moment now, struct jbuf *out) {
    struct spans spans = {.out = out, .call = call, .now = now};
    const struct otlp_context *trace = &call->trace;
    const char *operation = otlp_operation(call->route);
    char name[320];
    snprintf(name, sizeof name, "%s %s", operation ? operation : call->route->method,
             operation ? asked_model(call) : call->route->path);
    if (trace->remote) otlp_tracestate_read(&call->head, spans.state);
    span_open(&spans, trace->span_id, trace->parent_id, SPAN_SERVER, trace->remote, name,
              call->start_ns, now.monotonic_ns);
    put_http(out, call);
    if (operation) put_gen_ai(out, call, now);
    put_status(out, call, gone);
    put_phases(&spans);
    return spans.n;
}

bool otlp_is_traced(const struct route *route) { return route && route->prepare; }

void otlp_call_end(const struct call *call, bool gone) {
    struct otlp *otlp = call->server->config.otlp;
    if (!otlp || !call->trace.known || !call->trace.sampled || !otlp_is_traced(call->route)) return;
    struct jbuf spans = {0};
    const int n = otlp_spans_write(call, gone, otlp_now(), &spans);
    if (spans.failed) {
        otlp_drop(otlp, n, OTLP_DROP_MEMORY);
    } else {
        otlp_push(otlp, spans.data, spans.len, n);
    }
    jbuf_deinit(&spans);
}

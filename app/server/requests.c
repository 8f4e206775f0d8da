// A kept request is answered at once. The account of a running one is in a picture that the step's
// thread takes, as for the live view; one request is followed at a time, the others wait in order.
// No thread waits for a step: a picture is asked for, and written at a later tick.
#include "requests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "helpers.h"
#include "kept.h"
#include "record/trace.h"
#include "routes.h"
#include "streams.h"

enum {
    WAITERS_MAX = 16,
    POLL_NS = 2000000,
    OVER_NS = 250000000,       // until a request that is over has to be among the kept ones
    PATIENCE_NS = 5000000000u, // for a step
    ID_BYTES = CALL_REQUEST_ID_BYTES,
};

struct waiter {
    struct call *call;
    uint64_t request, number; // the engine's, and the one for clients
    bool perfetto;
};

struct requests {
    struct served *served;
    rn_watcher *engine; // made with the first waiter
    struct waiter waiter[WAITERS_MAX];
    int n_waiters;
    bool asked;        // a picture for the first waiter
    uint64_t since_ns; // when it became the first
};

struct requests *requests_create(struct served *served) {
    struct requests *requests = calloc(1, sizeof *requests);
    if (requests) requests->served = served;
    return requests;
}

void requests_destroy(struct requests *requests) {
    if (!requests) return;
    while (requests->n_waiters) { // its model is unloaded: no request of it runs
        struct call *call = requests->waiter[--requests->n_waiters].call;
        call->on_gone = NULL;
        call_refuse(call, 404, NULL, "request_not_found", "The request is over");
        call_end(call);
    }
    if (requests->engine) rn_watcher_destroy(requests->engine);
    free(requests);
}

// ---------------------------------------------------------------- the list

struct row {
    const char *id, *x_request_id, *state;
    const char *model; // NULL: the server's only one
    uint64_t request, start_ns;
    int choices, prompt_tokens, output_tokens;
    double ttft_ms, decode_ms;
    uint64_t decoded; // tokens after the first of each choice
    double cause_ms[RN_CAUSE_COUNT];
};

static rn_cause largest_cause(const double *ms) {
    int largest = RN_CAUSE_NONE;
    for (int i = RN_CAUSE_NONE + 1; i < RN_CAUSE_COUNT; i++)
        if (ms[i] > (largest ? ms[largest] : 0)) largest = i;
    return (rn_cause)largest;
}

static void put_row(struct jbuf *out, const struct row *row, uint64_t now_ns) {
    const rn_cause cause = largest_cause(row->cause_ms);
    const uint64_t age_ns = now_ns > row->start_ns ? now_ns - row->start_ns : 0;
    if (out->len && out->data[out->len - 1] != '[') jbuf_text(out, ",");
    jbuf_text(out, "{");
    jbuf_put_uint(out, "request", row->request);
    jbuf_key(out, "id");
    jbuf_cstring(out, row->id);
    jbuf_key(out, "x_request_id");
    jbuf_cstring(out, *row->x_request_id ? row->x_request_id : NULL);
    jbuf_key(out, "state");
    jbuf_cstring(out, row->state);
    if (row->model) {
        jbuf_key(out, "model");
        jbuf_cstring(out, row->model);
    }
    jbuf_put_real(out, "age_s", (double)age_ns * 1e-9, 3);
    jbuf_put_int(out, "choices", row->choices);
    jbuf_put_int(out, "prompt_tokens", row->prompt_tokens);
    jbuf_put_int(out, "output_tokens", row->output_tokens);
    // null: an embedding has no token, and one token has no time between tokens
    jbuf_put_real(out, "ttft_ms", row->output_tokens ? row->ttft_ms : (double)NAN, 3);
    jbuf_put_real(out, "tpot_ms",
                  row->decoded ? row->decode_ms / (double)row->decoded : (double)NAN, 3);
    jbuf_key(out, "cause");
    jbuf_cstring(out, cause == RN_CAUSE_NONE ? NULL : rn_cause_name(cause));
    jbuf_key(out, "cause_text");
    jbuf_cstring(out, cause == RN_CAUSE_NONE ? NULL : rn_cause_text(cause));
    jbuf_text(out, "}");
}

// Of a running request only events are known here: its times between tokens.
static void put_running(struct jbuf *out, const struct call *call, const struct stream *stream,
                        uint64_t now_ns) {
    const struct generation *generation = call->generation;
    struct row row = {.id = stream->id,
                      .x_request_id = stream->request_id,
                      .model = call->served->source ? call->served->name : NULL,
                      .request = stream->number,
                      .start_ns = call->start_ns,
                      .choices = stream->n_choices};
    for (int i = 0; i < stream->n_choices; i++) {
        const struct generation_choice *choice = &generation->choice[stream->first_choice + i];
        row.prompt_tokens = (int)generation->prompt[choice->prompt].n_ids;
        row.output_tokens += choice->n_output;
        if (choice->n_output > 1) row.decoded += (uint64_t)choice->n_output - 1;
        for (int cause = 0; cause < RN_CAUSE_COUNT; cause++) {
            row.cause_ms[cause] += choice->gap_ms[cause];
            row.decode_ms += choice->gap_ms[cause];
        }
    }
    const uint64_t first_ns = generation->choice[stream->first_choice].first_ns;
    if (first_ns > generation->submit_ns)
        row.ttft_ms = (double)(first_ns - generation->submit_ns) * 1e-6;
    row.state = row.output_tokens ? "decode" : "waiting";
    put_row(out, &row, now_ns);
}

static void put_calls(struct jbuf *out, const struct server *server, struct owner owner,
                      uint64_t now_ns) {
    for (const struct call *call = server->calls; call; call = call->next) {
        if (call->state != CALL_RUNNING && call->state != CALL_STREAMING) continue;
        if (!owner_is(call->owner, owner)) continue;
        const struct generation *generation = call->generation;
        for (int i = 0; generation && generation->stream && i < generation->n_prompts; i++) {
            if (generation->stream[i]) put_running(out, call, generation->stream[i], now_ns);
        }
    }
}

static void put_kept(struct jbuf *out, const struct kept_request *kept, bool names_model,
                     uint64_t now_ns) {
    const struct record *record = &kept->record;
    struct row row = {.id = record->id,
                      .x_request_id = record->x_request_id,
                      .model = names_model ? record->model : NULL,
                      .state = "finished",
                      .request = record->request,
                      .start_ns = kept->submit_ns,
                      .choices = record->n};
    for (int i = 0; i < record->n_choices; i++) {
        const struct record_choice *choice = &record->choice[i];
        row.prompt_tokens = choice->timings.prompt_tokens;
        row.output_tokens += choice->timings.output_tokens;
        row.decode_ms += choice->timings.decode_ms;
        if (choice->timings.output_tokens > 1)
            row.decoded += (uint64_t)choice->timings.output_tokens - 1;
        if (!i) row.ttft_ms = choice->timings.ttft_ms;
        for (int cause = 0; cause < RN_CAUSE_COUNT; cause++)
            row.cause_ms[cause] += (double)(choice->account.first.cause_ns[cause] +
                                            choice->account.decode.cause_ns[cause]) *
                                   1e-6;
    }
    put_row(out, &row, now_ns);
}

void requests_list(struct call *call) {
    const struct server *server = call->server;
    const uint64_t now_ns = clock_ns();
    struct jbuf *out = &call->out;
    jbuf_text(out, "{\"requests\":[");
    put_calls(out, server, call->owner, now_ns);
    for (const struct kept_request *at = kept_newest(server->kept); at; at = at->next)
        if (at->ended && owner_is(at->owner, call->owner))
            put_kept(out, at, server->loader != NULL, now_ns);
    jbuf_text(out, "]}");
    call_answer(call);
}

// ---------------------------------------------------------------- one request

static void put_record(struct call *call, const struct record *record, bool perfetto) {
    (perfetto ? trace_record : record_write)(&call->out, record);
    call_answer(call);
}

static void unknown_refuse(struct call *call, const char *id) {
    call_refuse(call, 404, NULL, "request_not_found",
                "No request '%.64s' is running or among the last %d; GET /requests lists them", id,
                call->server->config.keep_requests);
}

// The id in "/requests/ID/trace". False: the path is another one.
static bool id_take(const char *path, char out[ID_BYTES]) {
    static const char before[] = "/requests/", behind[] = "/trace";
    const char *id = path + sizeof before - 1;
    const size_t len = strcspn(id, "/");
    if (!len || len >= ID_BYTES || strcmp(id + len, behind) != 0) return false;
    memcpy(out, id, len);
    out[len] = '\0';
    return true;
}

// The number that the whole text is; 0: it is none.
static uint64_t number_of(const char *text) {
    if (!*text || strlen(text) > 18 || text[strspn(text, "0123456789")]) return 0;
    return strtoull(text, NULL, 10);
}

static bool format_take(struct call *call, bool *perfetto) {
    char value[32];
    const char *format = call_query(call, "format", value, sizeof value);
    *perfetto = format && !strcmp(format, "perfetto");
    if (!format || *perfetto || !strcmp(format, "json")) return true;
    return call_refuse(call, 400, "format", "invalid_value",
                       "format: '%s' is not one of json, perfetto", value);
}

// ---------------------------------------------------------------- running requests

static void leave(struct call *call) {
    struct requests *requests = call->served->requests;
    for (int i = 0; i < requests->n_waiters; i++) {
        if (requests->waiter[i].call != call) continue;
        requests->n_waiters--;
        memmove(requests->waiter + i, requests->waiter + i + 1,
                (size_t)(requests->n_waiters - i) * sizeof *requests->waiter);
        if (!i) requests->since_ns = 0; // the next one asks again
        return;
    }
}

static void wait_for(struct call *call, const struct stream *stream, bool perfetto) {
    call->served = stream->served;
    struct requests *requests = call->served->requests;
    rn_error err;
    if (requests->n_waiters == WAITERS_MAX) {
        call_refuse(call, 429, NULL, NULL, "%d others wait for a running request already",
                    WAITERS_MAX);
    } else if (!requests->engine &&
               rn_watcher_create(call->served->engine, &requests->engine, &err)) {
        call_refuse_memory(call);
    } else {
        requests->waiter[requests->n_waiters++] = (struct waiter){.call = call,
                                                                  .request = stream->request,
                                                                  .number = stream->number,
                                                                  .perfetto = perfetto};
        call->on_gone = leave;
        call_state_set(call, CALL_RUNNING);
    }
}

void requests_trace(struct call *call) {
    const struct server *server = call->server;
    char id[ID_BYTES];
    bool perfetto;
    if (!id_take(call_path(call), id)) {
        call_refuse(call, 404, NULL, NULL, "There is no %s; a record is at /requests/ID/trace",
                    call_path(call));
        return;
    }
    if (!format_take(call, &perfetto)) return;
    const uint64_t number = number_of(id);
    const struct kept_request *kept = kept_find(server->kept, call->owner, number, id);
    const struct stream *stream = kept ? NULL : streams_lookup(server, call->owner, number, id);
    if (kept)
        put_record(call, &kept->record, perfetto);
    else if (stream)
        wait_for(call, stream, perfetto);
    else
        unknown_refuse(call, id);
}

// The picture of a running request becomes its record.
static void view_answer(const struct waiter *waiter, const rn_view *view) {
    struct call *call = waiter->call;
    const struct served *served = call->served;
    const uint64_t number = waiter->number;
    const struct stream *stream = streams_lookup(call->server, call->owner, number, "");
    struct record record;
    struct record_choice *choice = calloc(1, sizeof *choice);
    if (!choice) {
        call_refuse_memory(call);
        return;
    }
    record_init(&record, stream ? stream->id : "", number, served->name, &served->engine_info,
                served->bandwidth, served->peak);
    if (stream) memcpy(record.x_request_id, stream->request_id, sizeof stream->request_id);
    choice->account = *view->account;
    for (size_t i = 0; i < view->n_streams; i++) {
        const rn_stream_view *at = &view->stream[i];
        if (at->request != view->account_request || at->choice) continue;
        choice->timings = (rn_timings){.prompt_tokens = at->prompt_tokens,
                                       .cached_tokens = at->cached_tokens,
                                       .output_tokens = at->output_tokens,
                                       .draft_tokens = at->draft_tokens,
                                       .accepted_tokens = at->accepted_tokens};
    }
    record_running(choice, view->time_ns);
    record.n = stream ? stream->n_choices : 1;
    record.choice = choice;
    record.n_choices = 1;
    put_record(call, &record, waiter->perfetto);
    record_free(&record);
}

// A view does not have a request that came while its step ran.
static bool is_running(const struct waiter *waiter) {
    const struct call *call = waiter->call;
    return streams_lookup(call->server, call->owner, waiter->number, "") != NULL;
}

// Answers the first waiter, where that is possible.
static bool first_answer(struct requests *requests, const rn_view *view, uint64_t now_ns) {
    const struct waiter *waiter = &requests->waiter[0];
    const uint64_t waited_ns = now_ns - requests->since_ns;
    struct call *call = waiter->call;
    const struct kept_request *kept =
        kept_find(call->server->kept, call->owner, waiter->number, "");
    char id[24];
    snprintf(id, sizeof id, "%llu", (unsigned long long)waiter->number);
    if (kept) {
        put_record(call, &kept->record, waiter->perfetto);
    } else if (view && view->account && view->account_request == waiter->request) {
        view_answer(waiter, view);
    } else if (view && waited_ns > OVER_NS && !is_running(waiter)) {
        // its last event is collected by now
        unknown_refuse(call, id);
    } else if (waited_ns > PATIENCE_NS) {
        call_refuse(call, 503, NULL, NULL, "The step takes too long");
    } else {
        return false;
    }
    return true;
}

uint64_t requests_tick(struct requests *requests, uint64_t now_ns) {
    if (!requests || !requests->n_waiters) return 0;
    if (!requests->since_ns) {
        requests->since_ns = now_ns;
        requests->asked = false;
    }
    const rn_view *view = requests->asked ? rn_watcher_view(requests->engine) : NULL;
    if (first_answer(requests, view, now_ns)) {
        struct call *call = requests->waiter[0].call;
        call->on_gone = NULL;
        leave(call);
        call_end(call);
        return requests->n_waiters ? now_ns : 0;
    }
    if (view || !requests->asked) {
        rn_watcher_follow(requests->engine, requests->waiter[0].request);
        rn_watcher_ask(requests->engine);
        requests->asked = true;
    }
    return now_ns + POLL_NS;
}

// Engine requests from their submission to their end; stream_events.c has what comes in between.
// Invariant: a stream's pointer is the engine's `data` until its last event.
#include "streams.h"

#include <stdlib.h>
#include <string.h>

#include "allowed_tokens.h"
#include "helpers.h"
#include "metrics.h"
#include "otlp_span.h"
#include "waiting.h"
#include "workers.h"

enum { LARGE_BYTES = 1 << 20 }; // of a call: its memory is given back to the system

// ---------------------------------------------------------------- submission

// A model that may think can write blanks before its reasoning. If it does not think, they are no
// part of the shape.
static bool drops_blanks(const struct generation *generation) {
    return generation->compiled && generation->marks && generation->marks->reasoning.open &&
           !generation->has_reasoned;
}

bool streams_choices_create(const struct call *call) {
    struct generation *generation = call->generation;
    const int n = generation->params.n;
    generation->stream = calloc((size_t)generation->n_prompts, sizeof(struct stream *));
    generation->choice =
        calloc((size_t)generation->n_prompts * (size_t)n, sizeof(struct generation_choice));
    if (!generation->stream || !generation->choice) return false;
    generation->n_choices = generation->n_live = generation->n_prompts * n;
    for (int i = 0; i < generation->n_choices; i++) {
        struct generation_choice *choice = &generation->choice[i];
        choice->index = i;
        choice->prompt = i / n;
        choice->in_reasoning = generation->in_reasoning;
        choice->start_ns = call->start_ns;
        parts_init(&choice->parts,
                   generation->marks ? *generation->marks : (struct answer_marks){0},
                   generation->tools, generation->types, generation->in_reasoning);
        if (drops_blanks(generation)) choice->parts.is_blank = true;
    }
    return true;
}

// A budget of its own, or that of the effort. A template that knows efforts has told the model.
static rn_reasoning reasoning_of(const struct generation *generation) {
    const struct params *params = &generation->params;
    const struct answer_marks *marks = generation->marks;
    rn_reasoning reasoning = {0};
    if (!marks || generation->has_reasoned ||
        !answer_marks_bound(marks, generation->in_reasoning, generation->tools, &reasoning))
        return (rn_reasoning){0};
    if (generation->compiled) reasoning.last = NULL; // the shape has the text behind the mark
    reasoning.budget = params->thinking_budget;
    if (reasoning.budget < 0 && !marks->knows_effort)
        reasoning.budget = params_effort_budget(params->effort);
    reasoning.has_budget = reasoning.budget >= 0;
    return reasoning;
}

static void stream_free(struct stream *stream) {
    free(stream->allowed);
    free(stream);
}

// A key's users are its own: a request of another key with the same name takes nothing from the
// share of this user. Requests of a key without a user share one.
struct user_name {
    char text[OWNER_NAME + USER_BYTES_MAX + 1];
};

static const char *user_of(const struct call *call, struct user_name *out) {
    const char *user = call->generation->params.user;
    char name[OWNER_NAME];
    const char *owner = owner_name(call->owner, name);
    if (!owner) return user;
    snprintf(out->text, sizeof out->text, "%s %s", owner, user ? user : "");
    return out->text;
}

// Times so far need the time of the prompt, too.
static bool wants_progress(const struct generation *generation) {
    const struct params *params = &generation->params;
    return params->stream && generation->writer->progress &&
           (params->return_progress || params->timings_per_token);
}

static rn_request request_of(const struct call *call, int index, const char *user) {
    const struct generation *generation = call->generation;
    const struct params *params = &generation->params;
    const double limit_ms = call->server->config.request_s * 1e3;
    return (rn_request){
        .prompt = generation->prompt[index].ids,
        .n_prompt = generation->prompt[index].n_ids,
        .n = params->n,
        .data = generation->stream[index],
        .sampling = params->sampling,
        .max_tokens = params->max_tokens,
        .prompt_only = params->max_tokens == 0,
        .stop = params->stop,
        .n_stop = params->n_stop,
        .min_tokens = params->min_tokens,
        .stop_tokens = params->stop_token,
        .n_stop_tokens = params->n_stop_token,
        .include_stop = params->include_stop,
        .bad_words = params->bad_words,
        .n_bad_words = params->n_bad_words,
        .reasoning = reasoning_of(generation),
        .ignore_eos = params->ignore_eos,
        .special_text = generation->special_text,
        .logprobs = params->logprobs,
        .top_logprobs = params_tops(params->top_logprobs),
        .ttft_ms = params->ttft_ms,
        .tpot_ms = params->tpot_ms,
        .cache_share = params->cache_share,
        .indent_min = params->indent_min,
        .line_ms_max = params->line_ms_max > 0 ? params->line_ms_max : 0,
        .prompt_logprobs = generation->scores,
        .top_prompt_logprobs = params_tops(generation->top_prompt),
        .draft_max = params->draft_max,
        .shape = generation->compiled,
        .constraint = allowed_constraint(generation->stream[index]->allowed),
        .priority = -params->priority, // the engine's are higher first
        .user = user,
        .timeout_ms = params->timeout_ms > 0 ? params->timeout_ms : limit_ms,
        .cache_salt = params->cache_salt,
        .pooling = generation->pooling,
        .normalize = generation->normalize,
        .prompt_progress = wants_progress(generation),
    };
}

static bool submit_refuse(struct call *call, rn_status status, const rn_error *err) {
    switch (status) {
    case RN_ERR_FULL:
        return call_refuse_full(call);
    case RN_ERR_CANCELLED:
        return call_refuse(call, 503, NULL, NULL, "Draining");
    case RN_ERR_NOMEM:
        return call_refuse_memory(call);
    case RN_ERR_DEVICE:
    case RN_ERR_IO:
        return served_refuse_lost(call);
    default:
        return call_refuse(call, 400, NULL, NULL, "%s", err->message);
    }
}

static void list_enter(struct stream *stream) {
    struct stream **list = &stream->served->streams;
    stream->next = *list;
    if (stream->next) stream->next->prev = stream;
    *list = stream;
}

static void list_leave(const struct stream *stream) {
    if (stream->next) stream->next->prev = stream->prev;
    *(stream->prev ? &stream->prev->next : &stream->served->streams) = stream->next;
}

void streams_forget(struct stream *stream) {
    list_leave(stream);
    stream_free(stream);
}

static bool submit_one(struct call *call, int index) {
    struct generation *generation = call->generation;
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream) return submit_refuse(call, RN_ERR_NOMEM, NULL);
    *stream = (struct stream){.generation = generation,
                              .call = call,
                              .served = call->served,
                              .owner = call->owner,
                              .first_choice = index * generation->params.n,
                              .n_choices = generation->params.n};
    call_answer_id(call, stream->id);
    memcpy(stream->request_id, call->request_id, sizeof stream->request_id);
    if (!allowed_make(call, &stream->allowed)) {
        stream_free(stream);
        return submit_refuse(call, RN_ERR_NOMEM, NULL);
    }
    generation->stream[index] = stream;
    struct user_name user;
    const rn_request request = request_of(call, index, user_of(call, &user));
    rn_error err = {0};
    const rn_status status =
        rn_engine_submit(call->served->engine, &request, &stream->request, &err);
    if (status == RN_OK) {
        struct server *server = call->server;
        stream->number = server->loader ? ++server->n_requests : stream->request;
        call->served->load += stream->n_choices;
        list_enter(stream);
        return true;
    }
    generation->stream[index] = NULL;
    stream_free(stream);
    return submit_refuse(call, status, &err);
}

void streams_leave(struct generation *generation) {
    for (int i = 0; generation->stream && i < generation->n_prompts; i++) {
        struct stream *stream = generation->stream[i];
        if (!stream) continue;
        stream->generation = NULL;
        stream->call = NULL;
        rn_engine_cancel(stream->served->engine, stream->request);
        generation->stream[i] = NULL;
    }
}

// About the memory of a token of a whole answer until its choice is written.
static size_t token_kept(const struct generation *generation) {
    enum { TEXT_BYTES = 8 };
    const struct params *params = &generation->params;
    return TEXT_BYTES + (generation->keep_tokens ? sizeof(int32_t) : 0) +
           (params->logprobs ? sizeof(struct token_logprob) : 0) +
           (params->logprobs ? (size_t)params->top_logprobs * sizeof(rn_logprob) : 0);
}

// And when it is, which is one choice at a time.
enum { LOGPROB_BYTES = 80 };
static size_t token_written(const struct generation *generation) {
    enum { TEXT_BYTES = 16 };
    const struct params *params = &generation->params;
    return TEXT_BYTES + (params->logprobs ? LOGPROB_BYTES * (1 + (size_t)params->top_logprobs) : 0);
}

// Logprobs of the whole vocabulary take memory in the engine, too: a row of each choice, which a
// stream copies and writes.
static size_t rows_cost(const struct generation *generation) {
    const struct params *params = &generation->params;
    if (!params->logprobs || params->top_logprobs <= TOP_LOGPROBS_MAX) return 0;
    const size_t rows = 2 * (size_t)generation->n_prompts * (size_t)params->n;
    return rows * (1 + (size_t)params->top_logprobs) * sizeof(rn_logprob) +
           token_written(generation);
}

// The memory of prompts' logprobs, which the engine and the answer keep to the end, and of the
// longest one when it is written.
static size_t scores_cost(const struct generation *generation) {
    const size_t n = 1 + (size_t)generation->top_prompt;
    size_t cost = 0, longest = 0;
    for (int i = 0; generation->scores && i < generation->n_prompts; i++) {
        const size_t tokens = generation->prompt[i].n_ids;
        cost += 2 * tokens * (n * sizeof(rn_logprob) + sizeof(int32_t));
        longest = tokens > longest ? tokens : longest;
    }
    return cost + longest * n * LOGPROB_BYTES;
}

// A whole answer is kept until it is complete. Memory for logprobs is reserved beforehand, so that
// no answer is refused after the engine's work. Text takes little; each piece is added when it
// comes.
static bool answer_check(struct call *call) {
    const struct generation *generation = call->generation;
    const size_t most = call->server->config.answer_bytes_max;
    const bool kept = !generation->params.stream && generation->params.logprobs;
    size_t cost = scores_cost(generation) + rows_cost(generation), longest = 0;
    if (!kept && !cost) return true;
    for (int i = 0; kept && i < generation->n_prompts; i++) {
        const size_t left = (size_t)call->served->engine_info.n_ctx - generation->prompt[i].n_ids;
        const int asked = generation->params.max_tokens;
        const size_t tokens = asked < 0 || (size_t)asked > left ? left : (size_t)asked;
        cost += tokens * (size_t)generation->params.n * token_kept(generation);
        longest = tokens > longest ? tokens : longest;
    }
    cost += longest * token_written(generation);
    if (cost > most) {
        return call_refuse(call, 413, "max_tokens", "answer_too_large",
                           "The answer may take %zu bytes, at most %zu are kept; ask for fewer "
                           "tokens, choices or logprobs, or for a stream",
                           cost, most);
    }
    return call_reserve(call, cost) || call_refuse_answers(call);
}

// False: refused, and nothing is running.
static bool submit(struct call *call) {
    if (!answer_check(call)) return false;
    if (!streams_choices_create(call)) return submit_refuse(call, RN_ERR_NOMEM, NULL);
    call->generation->submit_ns = clock_ns();
    for (int i = 0; i < call->generation->n_prompts; i++) {
        if (submit_one(call, i)) continue;
        streams_leave(call->generation);
        return false;
    }
    return true;
}

// A stream with a bound may end in the turn in which it starts, so its head cannot go by its state.
void streams_begin(struct call *call) {
    const char *type = call->generation->writer->type;
    call->content_type = type ? type : "text/event-stream; charset=utf-8";
    call_stream(call, NULL);
    if (call->generation->writer->begin) call->generation->writer->begin(call);
}

void streams_start(struct call *call) {
    struct generation *generation = call->generation;
    if (call->status || !generation || !submit(call)) {
        if (!call->status) call_refuse(call, 500, NULL, NULL, "The request was not understood");
        if (!call_count_out(call)) call_refuse_answers(call);
        call_state_set(call, CALL_ENDED);
        return;
    }
    generation->began = true;
    // a bound on time may be refused by the engine: then the status is 429
    const bool is_bound = generation->params.ttft_ms > 0 || generation->params.tpot_ms > 0;
    if (generation->params.stream && !is_bound)
        streams_begin(call);
    else
        call_state_set(call, CALL_RUNNING);
}

static void answer_time_learn(struct served *served, const struct call *call) {
    const double seconds = (double)(clock_ns() - call->start_ns) * 1e-9;
    served->answer_s += (seconds - served->answer_s) * 0.1;
}

void streams_finish(struct call *call, bool gone) {
    struct generation *generation = call->generation;
    if (generation) streams_leave(generation);
    if (generation && generation->began && !gone) answer_time_learn(call->served, call);
    metrics_call_end(call->server->metrics, call, gone);
    otlp_call_end(call, gone);
    const bool large = call->answer_cost_max > LARGE_BYTES || call->body_cost > LARGE_BYTES;
    if (large) workers_tidy(call->server->workers);
    generation_destroy(generation);
    call->generation = NULL;
    waiting_end(call);
    call_destroy(call);
}

// The generation of a call that no worker has; NULL: none.
static struct generation *generation_of(const struct call *call) {
    return call->state == CALL_WORKING ? NULL : call->generation;
}

void streams_cancel(const struct call *call) {
    const struct generation *generation = generation_of(call);
    for (int i = 0; generation && generation->stream && i < generation->n_prompts; i++) {
        const struct stream *stream = generation->stream[i];
        if (stream) rn_engine_cancel(stream->served->engine, stream->request);
    }
}

const struct stream *streams_find(const struct served *served, uint64_t request) {
    for (const struct call *call = served->server->calls; call; call = call->next) {
        const struct generation *generation = generation_of(call); // whose model is known
        for (int i = 0; generation && generation->stream && i < generation->n_prompts; i++) {
            const struct stream *stream = generation->stream[i];
            if (stream && stream->served == served && stream->request == request) return stream;
        }
    }
    return NULL;
}

const struct stream *streams_lookup(const struct server *server, struct owner owner,
                                    uint64_t number, const char *id) {
    const struct stream *found = NULL;
    for (int i = 0; i < server->n_served && !found; i++) {
        for (const struct stream *at = server->served[i].streams; at; at = at->next) {
            if (!owner_is(at->owner, owner)) continue;
            // the list starts with the newest: the first of an answer is its last here
            if (number ? at->number == number : !strcmp(at->id, id) || !strcmp(at->request_id, id))
                found = at;
        }
    }
    return found;
}

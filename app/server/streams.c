// From engine events to choices. Invariants: a stream's pointer is the engine's `data` until its
// last event. generation->n_live is the number of choices that have not ended. A call whose
// generation has ended gets exactly one call_end.
#include "streams.h"

#include <stdlib.h>
#include <string.h>

#include "allowed_tokens.h"
#include "helpers.h"
#include "kept.h"
#include "live.h"
#include "metrics.h"
#include "otlp_span.h"
#include "record/trace.h"
#include "slots.h"
#include "waiting.h"
#include "workers.h"

enum { LARGE_BYTES = 1 << 20 }; // of a call: its memory is given back to the system
enum { TRACE_NS = 50000000 };   // between two looks at the steps, for the trace

// ---------------------------------------------------------------- submission

// A model that may think can write blanks before its reasoning. If it does not think, they are no
// part of the shape.
static bool drops_blanks(const struct generation *generation) {
    return generation->compiled && generation->marks && generation->marks->reasoning.open &&
           !generation->has_reasoned;
}

static bool choices_create(const struct call *call) {
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
        !answer_marks_bound(marks, generation->in_reasoning, &reasoning))
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

static rn_request request_of(const struct call *call, int index) {
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
        .top_logprobs = params->top_logprobs,
        .ttft_ms = params->ttft_ms,
        .tpot_ms = params->tpot_ms,
        .cache_share = params->cache_share,
        .prompt_logprobs = generation->scores,
        .top_prompt_logprobs = generation->top_prompt,
        .draft_max = params->draft_max,
        .shape = generation->compiled,
        .constraint = allowed_constraint(generation->stream[index]->allowed),
        .priority = params->priority,
        .user = params->user,
        .timeout_ms = params->timeout_ms > 0 ? params->timeout_ms : limit_ms,
        .cache_salt = params->cache_salt,
        .pooling = generation->pooling,
        .normalize = generation->normalize,
    };
}

static bool submit_refuse(struct call *call, rn_status status, const rn_error *err) {
    switch (status) {
    case RN_ERR_FULL:
        return call_refuse_full(call);
    case RN_ERR_CANCELLED:
        return call_refuse(call, 503, NULL, NULL, "Draining");
    case RN_ERR_NOMEM:
        return call_refuse(call, 503, NULL, "out_of_memory", "out of memory");
    case RN_ERR_DEVICE:
        return call_refuse(call, 503, NULL, "device_lost", "The device was lost");
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

static bool submit_one(struct call *call, int index) {
    struct generation *generation = call->generation;
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream) return submit_refuse(call, RN_ERR_NOMEM, NULL);
    *stream = (struct stream){.generation = generation,
                              .call = call,
                              .served = call->served,
                              .first_choice = index * generation->params.n,
                              .n_choices = generation->params.n};
    call_answer_id(call, stream->id);
    memcpy(stream->request_id, call->request_id, sizeof stream->request_id);
    if (!allowed_make(call, &stream->allowed)) {
        stream_free(stream);
        return submit_refuse(call, RN_ERR_NOMEM, NULL);
    }
    generation->stream[index] = stream;
    const rn_request request = request_of(call, index);
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

// Cancels the call's requests. The engine's last events free the streams.
static void leave(struct generation *generation) {
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

// The memory of prompts' logprobs, which are kept to the end, and of the longest one when it is
// written.
static size_t scores_cost(const struct generation *generation) {
    const size_t n = 1 + (size_t)generation->top_prompt;
    size_t cost = 0, longest = 0;
    for (int i = 0; generation->scores && i < generation->n_prompts; i++) {
        const size_t tokens = generation->prompt[i].n_ids;
        cost += tokens * (n * sizeof(rn_logprob) + sizeof(int32_t));
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
    if (!kept && !generation->scores) return true;
    size_t cost = scores_cost(generation), longest = 0;
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
    if (!choices_create(call)) return submit_refuse(call, RN_ERR_NOMEM, NULL);
    call->generation->submit_ns = clock_ns();
    for (int i = 0; i < call->generation->n_prompts; i++) {
        if (submit_one(call, i)) continue;
        leave(call->generation);
        return false;
    }
    return true;
}

static void stream_begin(struct call *call) {
    call->content_type = call->generation->writer->type;
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
        stream_begin(call);
    else
        call_state_set(call, CALL_RUNNING);
}

static void answer_time_learn(struct served *served, const struct call *call) {
    const double seconds = (double)(clock_ns() - call->start_ns) * 1e-9;
    served->answer_s += (seconds - served->answer_s) * 0.1;
}

void streams_finish(struct call *call, bool gone) {
    struct generation *generation = call->generation;
    if (generation) leave(generation);
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

const struct stream *streams_lookup(const struct server *server, uint64_t number, const char *id) {
    const struct stream *found = NULL;
    for (int i = 0; i < server->n_served && !found; i++) {
        for (const struct stream *at = server->served[i].streams; at; at = at->next) {
            // the list starts with the newest: the first of an answer is its last here
            if (number ? at->number == number : !strcmp(at->id, id) || !strcmp(at->request_id, id))
                found = at;
        }
    }
    return found;
}

// ---------------------------------------------------------------- readers

static void pause_set(struct generation *generation, bool pause) {
    generation->paused = pause;
    for (int i = 0; generation->stream && i < generation->n_prompts; i++) {
        const struct stream *stream = generation->stream[i];
        if (stream) rn_engine_pause(stream->served->engine, stream->request, pause);
    }
}

// A stream has new bytes; where too many wait for its reader its requests are paused.
static void wake(struct call *call) {
    struct generation *generation = call->generation;
    if (!call_unsent(call)) return;
    call->written_ns = clock_ns();
    if (!generation->paused && call_unsent(call) > call->server->config.stream_bytes_max)
        pause_set(generation, true);
    call_wake(call);
}

void streams_taken(struct call *call) {
    struct generation *generation = call->generation;
    if (generation && generation->paused &&
        call_unsent(call) <= call->server->config.stream_bytes_max / 4)
        pause_set(generation, false);
}

// ---------------------------------------------------------------- events

// Makes room for one more item of a growing array. False: out of memory.
static bool grow(void **items, int count, int *capacity, size_t size) {
    if (count < *capacity) return true;
    const int more = *capacity ? *capacity * 2 : 16;
    void *grown = realloc(*items, (size_t)more * size);
    if (!grown) return false;
    *items = grown;
    *capacity = more;
    return true;
}

static bool token_keep(struct generation_choice *choice, int32_t token) {
    if (!grow((void **)&choice->token, choice->n_tokens, &choice->token_capacity,
              sizeof *choice->token))
        return false;
    choice->token[choice->n_tokens++] = token;
    return true;
}

static bool logprobs_keep(struct generation_choice *choice, const rn_event *event) {
    if (!event->n_logprobs) return true;
    if (!grow((void **)&choice->logprob, choice->n_logprob, &choice->logprob_capacity,
              sizeof *choice->logprob))
        return false;
    const int n_top = event->n_logprobs - 1;
    choice->logprob[choice->n_logprob++] =
        (struct token_logprob){.token = event->logprob[0].token,
                               .logprob = event->logprob[0].logprob,
                               .first_top = choice->n_top,
                               .n_top = n_top};
    for (int i = 0; i < n_top; i++) {
        if (!grow((void **)&choice->top, choice->n_top, &choice->top_capacity, sizeof *choice->top))
            return false;
        choice->top[choice->n_top++] = event->logprob[1 + i];
    }
    return true;
}

// Copies the logprobs of a prompt.
static bool scores_keep(struct generation *generation, const struct generation_choice *choice,
                        const rn_event *event) {
    struct generation_prompt *prompt = &generation->prompt[choice->prompt];
    const size_t n = (size_t)event->n_prompt_logprobs;
    if (n == 0 || prompt->logprob) return true;
    const size_t bytes = n * (1 + (size_t)generation->top_prompt) * sizeof *prompt->logprob;
    prompt->logprob = malloc(bytes);
    prompt->rank = malloc(n * sizeof *prompt->rank);
    if (!prompt->logprob || !prompt->rank) return false;
    memcpy(prompt->logprob, event->prompt_logprob, bytes);
    memcpy(prompt->rank, event->prompt_rank, n * sizeof *prompt->rank);
    return true;
}

struct part_ctx {
    struct call *call;
    struct generation_choice *choice;
    bool failed;
};

static bool tool_begin(struct generation_choice *choice, const struct call *call, const char *name,
                       size_t len) {
    struct tool_call *tool =
        realloc(choice->tool, ((size_t)choice->n_tools + 1) * sizeof *choice->tool);
    if (!tool) return false;
    choice->tool = tool;
    tool += choice->n_tools++;
    *tool = (struct tool_call){0};
    snprintf(tool->id, sizeof tool->id, "call_%.12s%dx%d", call->id, choice->index,
             choice->n_tools - 1);
    tool->is_custom = custom_tool_is(call->generation->custom, name, len);
    jbuf_bytes(&tool->name, name, len);
    return true;
}

static void part_put(struct part_ctx *at, enum answer_part part, int tool, const char *text,
                     size_t len) {
    struct generation_choice *choice = at->choice;
    const struct generation *generation = at->call->generation;
    if (generation->params.stream) {
        generation->writer->delta(at->call, &(struct delta){.choice = choice,
                                                            .part = part,
                                                            .tool = tool,
                                                            .text = text,
                                                            .len = len});
    } else if (part == PART_CONTENT) {
        jbuf_bytes(&choice->text, text, len);
    } else if (part == PART_REASONING) {
        jbuf_bytes(&choice->reasoning, text, len);
    } else if (part == PART_TOOL_ARGUMENTS) {
        jbuf_bytes(&choice->tool[tool].arguments, text, len);
        if (choice->tool[tool].arguments.failed) at->failed = true;
    }
}

// The arguments of a custom tool's call become its input.
static void input_put(struct part_ctx *at, int tool, const char *json, size_t len, bool is_end) {
    struct jbuf text = {0};
    custom_input_read(&at->choice->tool[tool].input, json, len, is_end, &text);
    if (text.failed) at->failed = true;
    if (text.len) part_put(at, PART_TOOL_ARGUMENTS, tool, text.data, text.len);
    jbuf_deinit(&text);
}

// The names of tool calls are collected for streams too: writers tell them with their ids.
static void on_part(void *ctx, enum answer_part part, int tool, const char *text, size_t len) {
    struct part_ctx *at = ctx;
    struct generation_choice *choice = at->choice;
    if (at->failed) return;
    choice->in_reasoning = part == PART_REASONING;
    if (part == PART_TOOL && !tool_begin(choice, at->call, text, len)) {
        at->failed = true;
        return;
    }
    const bool is_input = part > PART_TOOL && choice->tool[tool].is_custom;
    if (part == PART_TOOL_END) choice->tool[tool].is_complete = true;
    if (is_input) input_put(at, tool, text, len, part == PART_TOOL_END);
    if (!is_input || part == PART_TOOL_END) part_put(at, part, tool, text, len);
}

static bool feed(struct call *call, struct generation_choice *choice, const rn_event *event) {
    struct part_ctx ctx = {.call = call, .choice = choice};
    const bool final = event->finish != RN_FINISH_NONE;
    if (call->generation->marks) {
        if (event->text_len || final)
            parts_feed(&choice->parts, event->text, event->text_len, final, on_part, &ctx);
    } else if (event->text_len) {
        on_part(&ctx, PART_CONTENT, 0, event->text, event->text_len);
    }
    if (event->token >= 0 && choice->in_reasoning) choice->n_reasoning++;
    return !ctx.failed && !choice->text.failed && !choice->reasoning.failed && !call->out.failed;
}

static bool choice_end(struct call *call, struct generation_choice *choice, const rn_event *event) {
    struct generation *generation = call->generation;
    const int n_embd = call->served->info->n_embd;
    choice->ended = true;
    choice->finish = event->finish;
    choice->status = event->status;
    choice->seed = event->seed;
    choice->is_token_stop = event->stop_token >= 0;
    choice->stop_token = event->stop_token;
    if (event->timings) choice->timings = *event->timings;
    generation->n_live--;
    for (int i = 0; i < RN_CAUSE_COUNT; i++)
        choice->gap_ms[i] = (double)event->account->decode.cause_ns[i] * 1e-6;
    otlp_gaps_end(&choice->slow, event->account);
    metrics_choice_end(call->served->metrics, choice);
    if (event->stop && !(choice->stop = strdup(event->stop))) return false;
    if (event->embedding) {
        choice->embedding = malloc((size_t)n_embd * sizeof(float));
        if (!choice->embedding) return false;
        memcpy(choice->embedding, event->embedding, (size_t)n_embd * sizeof(float));
    }
    return true;
}

static void token_count(struct call *call, struct generation_choice *choice,
                        const rn_event *event) {
    struct generation *generation = call->generation;
    if (!generation->first_ns) generation->first_ns = event->time_ns;
    if (!choice->first_ns) choice->first_ns = event->time_ns;
    choice->last_ns = event->time_ns;
    if (event->gap_ms > 0) gaps_add(&choice->gaps, event->gap_ms);
    choice->gap_ms[event->cause] += event->gap_ms;
    otlp_gaps_add(&choice->slow, event, choice->n_output);
    choice->n_output++;
    metrics_token(call->served, choice, event);
    live_token(call->served->live, call, choice, event);
}

// Nothing can be made of the call any more: a stream says so, otherwise it is the answer.
static void fail(struct call *call, const struct failure *failure) {
    struct generation *generation = call->generation;
    leave(generation);
    if (!generation->params.stream || call->state == CALL_RUNNING) {
        call_refuse(call, failure->status, failure->param, failure->code, "%s", failure->message);
    } else if (!call->out.failed) {
        generation->writer->error(call, failure);
        call->close_after = true;
    }
    if (call->out.failed) {
        call_fail(call); // its bytes may end in the middle of an event
    } else {
        call_end(call);
    }
}

static const struct failure out_of_memory = {503, NULL, "out_of_memory", "out of memory"};
static const struct failure answers_full = {503, NULL, "answers_full",
                                            "The answers of all requests take too much memory"};

static void fail_with(struct call *call, const rn_event *event) {
    const struct generation *generation = call->generation;
    struct failure failure = generation_failure(event->status);
    if (event->reason) failure.message = event->reason;
    if (failure.status == 400)
        failure.param = generation->shape.kind ? generation->shape.field : "tools";
    fail(call, &failure);
}

static void generation_end(struct call *call) {
    struct generation *generation = call->generation;
    generation_write_end(call);
    if (call->out.failed) {
        fail(call, &out_of_memory);
        return;
    }
    if (!generation->params.stream) call_answer(call);
    call_end(call);
}

// False: the answers of all calls take more than they may.
static bool choice_count(struct call *call, struct generation_choice *choice) {
    const size_t before = choice->counted;
    choice->counted = choice_bytes(choice);
    return call_count(call, before, choice->counted);
}

static void on_event(struct call *call, struct generation_choice *choice, const rn_event *event) {
    struct generation *generation = call->generation;
    if (event->token >= 0) token_count(call, choice, event);
    const bool kept = event->token < 0
                          ? scores_keep(generation, choice, event)
                          : (!generation->keep_tokens || token_keep(choice, event->token)) &&
                                logprobs_keep(choice, event);
    const bool fine = event->finish != RN_FINISH_ERROR && event->finish != RN_FINISH_CANCELLED;
    const bool ended = event->finish == RN_FINISH_NONE || choice_end(call, choice, event);
    if (fine && generation->params.stream && call->state == CALL_RUNNING) stream_begin(call);
    if (!fine) {
        fail_with(call, event);
    } else if (!kept || !ended || !feed(call, choice, event)) {
        fail(call, &out_of_memory);
    } else if (!generation->params.stream && !choice_count(call, choice)) {
        fail(call, &answers_full);
    } else {
        if (event->token >= 0 && generation->params.stream && generation->writer->token)
            generation->writer->token(call, choice);
        if (choice->ended) slots_take(call, choice);
        if (choice->ended && generation->params.stream)
            generation->writer->choice_end(call, choice);
        if (generation->n_live == 0)
            generation_end(call);
        else if (generation->params.stream)
            wake(call);
    }
}

static void dispatch(const rn_event *event) {
    struct stream *stream = event->data;
    struct call *call = stream->call;
    struct generation *generation = stream->generation;
    struct server *server = stream->served->server;
    if (server->config.trace) trace_event(server->config.trace, stream->id, event);
    if (event->finish != RN_FINISH_NONE) {
        stream->served->load--;
        kept_take(server->kept, stream, event);
    }
    if (event->last && generation) {
        for (int i = 0; i < generation->n_prompts; i++) {
            if (generation->stream[i] == stream) generation->stream[i] = NULL;
        }
    }
    if (call) on_event(call, &generation->choice[stream->first_choice + event->choice], event);
    if (event->last) {
        list_leave(stream);
        stream_free(stream);
    }
}

void streams_collect(struct served *served) {
    const struct server *server = served->server;
    enum { BATCH = 128 };
    rn_event event[BATCH];
    int n;
    do {
        n = rn_engine_wait(served->engine, event, BATCH, 0);
        for (int i = 0; i < n; i++) dispatch(&event[i]);
    } while (n > 0);
    if (server->config.trace) trace_steps(server->config.trace, served->engine, TRACE_NS);
}

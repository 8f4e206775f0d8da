// From engine events to choices, and through writers into calls; and readers that are too slow.
// Invariants: generation->n_live is the number of choices that have not ended. A call whose
// generation has ended gets exactly one call_end.
#include <stdlib.h>
#include <string.h>

#include "helpers.h"
#include "kept.h"
#include "live.h"
#include "metrics.h"
#include "record/trace.h"
#include "slots.h"
#include "streams.h"

enum { TRACE_NS = 50000000 }; // between two looks at the steps, for the trace

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

static void progress_take(struct call *call, const struct generation_choice *choice,
                          const rn_event *event) {
    const struct generation *generation = call->generation;
    struct generation_prompt *prompt = &generation->prompt[choice->prompt];
    prompt->done = event->prompt_done;
    prompt->cached = event->prompt_cached;
    prompt->prompt_ms = event->prompt_ms;
    if (generation->params.return_progress) generation->writer->progress(call, choice, event);
}

struct part_ctx {
    struct call *call;
    struct generation_choice *choice;
    int n_parts;
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

// Held tokens belong to the part that comes. Marks stay apart.
static void logprobs_place(struct generation_choice *choice, enum answer_part part) {
    const bool is_apart = part != PART_CONTENT;
    if (choice->n_placed > choice->n_logprob) choice->n_placed = 0; // a writer took them
    for (int i = choice->n_placed; i < choice->n_logprob; i++)
        if (is_apart || i + 1 == choice->n_logprob) choice->logprob[i].is_apart = is_apart;
    choice->n_placed = choice->n_logprob;
}

// The names of tool calls are collected for streams too: writers tell them with their ids.
static void on_part(void *ctx, enum answer_part part, int tool, const char *text, size_t len) {
    struct part_ctx *at = ctx;
    struct generation_choice *choice = at->choice;
    if (at->failed) return;
    choice->in_reasoning = part == PART_REASONING;
    at->n_parts++;
    logprobs_place(choice, part);
    if (part == PART_TOOL && !tool_begin(choice, at->call, text, len)) {
        at->failed = true;
        return;
    }
    const bool is_input = part > PART_TOOL && choice->tool[tool].is_custom;
    if (part == PART_TOOL_END) choice->tool[tool].is_complete = true;
    if (is_input) input_put(at, tool, text, len, part == PART_TOOL_END);
    if (!is_input || part == PART_TOOL_END) part_put(at, part, tool, text, len);
}

// A token was fed. Tokens of a call or of content are no reasoning, unless they turn out to be text
// of it.
static void token_place(const struct call *call, struct generation_choice *choice, bool has_text,
                        bool has_parts) {
    const struct answer_parts *const parts = call->generation->marks ? &choice->parts : NULL;
    const bool in_content = !parts || parts_in_content(parts, has_text);
    if (!choice->in_reasoning) {
        choice->n_undecided = 0;
    } else if (in_content || parts_in_call(parts)) {
        choice->n_undecided++;
    } else {
        choice->n_reasoning += choice->n_undecided + 1;
        choice->n_undecided = 0;
    }
    if (!has_parts && choice->n_logprob)
        choice->logprob[choice->n_logprob - 1].is_apart = !in_content;
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
    if (event->token >= 0) token_place(call, choice, event->text_len > 0, ctx.n_parts > 0);
    return !ctx.failed && !choice->text.failed && !choice->reasoning.failed && !call->out.failed;
}

bool streams_feed(struct call *call, struct generation_choice *choice, const char *text,
                  size_t len) {
    return feed(call, choice,
                &(rn_event){.token = -1, .text = text, .text_len = len, .finish = RN_FINISH_STOP});
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
    streams_leave(generation);
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

// The engine has no status of its own for a constraint that leaves nothing.
static bool allowed_failed(const struct call *call, const rn_event *event) {
    return event->status == RN_ERR_NUMERIC && call->generation->params.allowed;
}

static void fail_with(struct call *call, const rn_event *event) {
    const struct generation *generation = call->generation;
    struct failure failure = generation_failure(event->status);
    char message[JSON_SHOWN_BYTES + 80], shown[JSON_SHOWN_BYTES];
    if (event->reason) failure.message = event->reason;
    if (allowed_failed(call, event)) {
        snprintf(message, sizeof message, "allowed_token_ids: none of %s may come next",
                 json_shown(generation->params.allowed, shown));
        failure = (struct failure){400, "allowed_token_ids", "invalid_value", message};
    } else if (failure.status == 400)
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
    if (fine && generation->params.stream && call->state == CALL_RUNNING) streams_begin(call);
    if (!fine) {
        fail_with(call, event);
    } else if (!kept || !ended || !feed(call, choice, event)) {
        fail(call, &out_of_memory);
    } else if (!generation->params.stream && !choice_count(call, choice)) {
        fail(call, &answers_full);
    } else {
        if (event->progress) progress_take(call, choice, event);
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
    if (event->last) streams_forget(stream);
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

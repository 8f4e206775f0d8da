// Ollama's /api/chat and /api/generate: handlers and writer. A stream is a row of lines, each a
// JSON object; the last one has "done":true and the figures. Tool calls come whole, their arguments
// as objects. A call has one prompt and one choice.
#include "ollama.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "generation_shape.h"
#include "helpers.h"
#include "openai.h"
#include "routes.h"

struct state {
    struct jbuf head;      // {"model":"NAME","created_at":" which all lines start with
    struct jbuf arguments; // of a stream's open tool call
    bool is_chat;
    bool has_context; // the end has the ids of the conversation
};

static void state_free(void *own) {
    struct state *state = own;
    jbuf_deinit(&state->head);
    jbuf_deinit(&state->arguments);
    free(state);
}

// ---------------------------------------------------------------- parts of a line

void ollama_time_put(int64_t seconds, long ns, struct jbuf *out) {
    const time_t at = (time_t)seconds;
    struct tm tm;
    gmtime_r(&at, &tm);
    jbuf_printf(out, "%04d-%02d-%02dT%02d:%02d:%02d.%09ldZ", tm.tm_year + 1900, tm.tm_mon + 1,
                tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, ns);
}

void ollama_model_put(struct call *call, struct jbuf *out) {
    const char *name = json_string_value(json_object_get(call_json(call), "model"));
    jbuf_text(out, "{\"model\":");
    jbuf_cstring(out, name && *name ? name : call->served->name);
}

static void head_put(struct call *call, struct jbuf *out) {
    ollama_model_put(call, out);
    jbuf_text(out, ",\"created_at\":\"");
}

struct text {
    const char *data;
    size_t len;
};

// A line from its brace on. That of its message stays open.
static void line_open(const struct state *state, struct text content, struct text thinking,
                      struct jbuf *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    jbuf_bytes(out, state->head.data, state->head.len);
    ollama_time_put(now.tv_sec, now.tv_nsec, out);
    jbuf_text(out, state->is_chat ? "\",\"message\":{\"role\":\"assistant\",\"content\":"
                                  : "\",\"response\":");
    jbuf_string(out, content.data, content.len);
    if (!thinking.len) return;
    jbuf_text(out, ",\"thinking\":");
    jbuf_string(out, thinking.data, thinking.len);
}

// Closes the message; the logprobs that came since the last line go with it.
static void line_rest(const struct call *call, const struct state *state,
                      struct generation_choice *choice, struct jbuf *out) {
    if (state->is_chat) jbuf_text(out, "}");
    if (!choice->n_logprob) return;
    jbuf_text(out, ",\"logprobs\":[");
    openai_logprobs_take(call, choice, false, out);
    jbuf_text(out, "]");
}

// Clients want an object, on one line. A line end in valid JSON is a blank between tokens. Text
// that is no object is kept as the only member of one.
static void arguments_put(const struct jbuf *arguments, struct jbuf *out) {
    struct jread reader;
    jread_init(&reader, arguments->data, arguments->len);
    const bool is_object = jread_peek(&reader) == JREAD_OBJECT && jread_skip(&reader);
    if (!arguments->len) {
        jbuf_text(out, "{}");
    } else if (is_object && jread_finish(&reader)) {
        const size_t from = out->len;
        jbuf_bytes(out, arguments->data, arguments->len);
        for (size_t i = from; i < out->len; i++)
            if (out->data[i] == '\n' || out->data[i] == '\r') out->data[i] = ' ';
    } else {
        jbuf_text(out, "{\"arguments\":");
        jbuf_string(out, arguments->data, arguments->len);
        jbuf_text(out, "}");
    }
}

static void tool_put(const struct tool_call *tool, int index, const struct jbuf *arguments,
                     struct jbuf *out) {
    jbuf_text(out, "{\"id\":");
    jbuf_cstring(out, tool->id);
    jbuf_text(out, ",\"function\":{\"index\":");
    jbuf_int(out, index);
    jbuf_text(out, ",\"name\":");
    jbuf_string(out, tool->name.data, tool->name.len);
    jbuf_text(out, ",\"arguments\":");
    arguments_put(arguments, out);
    jbuf_text(out, "}}");
}

// A call that was cut has no complete arguments: it is left out, done_reason says "length".
static void tools_put(const struct generation_choice *choice, struct jbuf *out) {
    const char *open = ",\"tool_calls\":[";
    for (int i = 0; i < choice->n_tools; i++) {
        if (!choice->tool[i].is_complete) continue;
        jbuf_text(out, open);
        tool_put(&choice->tool[i], i, &choice->tool[i].arguments, out);
        open = ",";
    }
    if (*open == ',' && !open[1]) jbuf_text(out, "]");
}

// ---------------------------------------------------------------- the end

static uint64_t ns_of(double ms) { return ms > 0 ? (uint64_t)(ms * 1e6) : 0; }

void ollama_durations_put(const struct call *call, struct jbuf *out) {
    jbuf_put_uint(out, "total_duration", clock_ns() - call->start_ns);
    jbuf_put_uint(out, "load_duration", call->load_ns);
}

static void context_put(const struct generation *generation, const struct generation_choice *choice,
                        struct jbuf *out) {
    const struct generation_prompt *prompt = &generation->prompt[0];
    jbuf_text(out, ",\"context\":[");
    for (size_t i = 0; i < prompt->n_ids; i++) {
        if (i) jbuf_bytes(out, ",", 1);
        jbuf_int(out, prompt->ids[i]);
    }
    for (int i = 0; i < choice->n_tokens; i++) {
        jbuf_bytes(out, ",", 1);
        jbuf_int(out, choice->token[i]);
    }
    jbuf_text(out, "]");
}

// Clients divide the number of tokens by the time, so that is never 0.
static void done_put(const struct call *call, const struct generation_choice *choice,
                     struct jbuf *out) {
    const struct generation *generation = call->generation;
    const struct state *state = generation->own;
    const uint64_t eval_ns = ns_of(choice->timings.decode_ms);
    jbuf_text(out, ",\"done\":true,\"done_reason\":");
    jbuf_cstring(out, choice->finish == RN_FINISH_LENGTH ? "length" : "stop");
    ollama_durations_put(call, out);
    jbuf_put_int(out, "prompt_eval_count", (int64_t)generation->prompt[0].n_ids);
    jbuf_put_uint(out, "prompt_eval_duration", ns_of(choice->timings.prompt_ms));
    jbuf_put_int(out, "eval_count", choice->timings.output_tokens);
    jbuf_put_uint(out, "eval_duration", eval_ns ? eval_ns : 1);
    if (state->has_context) context_put(generation, choice, out);
    jbuf_text(out, ",");
    generation_timings(call, out);
    jbuf_text(out, "}");
}

static void whole_write(struct call *call, int i) {
    struct generation_choice *choice = &call->generation->choice[i];
    const struct state *state = call->generation->own;
    struct jbuf *out = &call->out;
    line_open(state, (struct text){choice->text.data, choice->text.len},
              (struct text){choice->reasoning.data, choice->reasoning.len}, out);
    tools_put(choice, out);
    line_rest(call, state, choice, out);
    done_put(call, choice, out);
}

// ---------------------------------------------------------------- stream

static void stream_tool(struct call *call, const struct delta *delta) {
    struct state *state = call->generation->own;
    struct jbuf *out = &call->out;
    if (delta->part == PART_TOOL) jbuf_clear(&state->arguments);
    if (delta->part == PART_TOOL_ARGUMENTS) jbuf_bytes(&state->arguments, delta->text, delta->len);
    if (state->arguments.failed) out->failed = true;
    if (delta->part != PART_TOOL_END || out->failed) return;
    line_open(state, (struct text){0}, (struct text){0}, out);
    jbuf_text(out, ",\"tool_calls\":[");
    tool_put(&delta->choice->tool[delta->tool], delta->tool, &state->arguments, out);
    jbuf_text(out, "]");
    line_rest(call, state, delta->choice, out);
    jbuf_text(out, ",\"done\":false}\n");
}

static void stream_delta(struct call *call, const struct delta *delta) {
    const struct state *state = call->generation->own;
    const struct text text = {delta->text, delta->len}, none = {0};
    const bool is_content = delta->part == PART_CONTENT;
    if (!is_content && delta->part != PART_REASONING) {
        stream_tool(call, delta);
        return;
    }
    if (!delta->len) return;
    line_open(state, is_content ? text : none, is_content ? none : text, &call->out);
    line_rest(call, state, delta->choice, &call->out);
    jbuf_text(&call->out, ",\"done\":false}\n");
}

static void stream_choice_end(struct call *call, struct generation_choice *choice) {
    const struct state *state = call->generation->own;
    line_open(state, (struct text){0}, (struct text){0}, &call->out);
    line_rest(call, state, choice, &call->out);
    done_put(call, choice, &call->out);
    jbuf_text(&call->out, "\n");
}

static void stream_error(struct call *call, const struct failure *failure) {
    call_error_object(API_OLLAMA, failure->status, failure->param, failure->code, failure->message,
                      &call->out);
    jbuf_text(&call->out, "\n");
}

// Lines have no comments, and clients fail at an empty line. A blank before the next object is part
// of that line.
static const struct writer writer = {
    .whole = whole_write,
    .delta = stream_delta,
    .choice_end = stream_choice_end,
    .error = stream_error,
    .type = "application/x-ndjson",
    .ping = " ",
};

// ---------------------------------------------------------------- handlers

static bool state_make(struct call *call, struct generation *generation, bool is_chat) {
    struct state *state = calloc(1, sizeof *state);
    if (state) head_put(call, &state->head);
    if (!state || state->head.failed) {
        if (state) state_free(state);
        return call_refuse_memory(call);
    }
    state->is_chat = is_chat;
    generation->own = state;
    generation->own_free = state_free;
    return true;
}

static void empty_put(const struct state *state, const char *reason, struct jbuf *out) {
    line_open(state, (struct text){0}, (struct text){0}, out);
    jbuf_text(out, state->is_chat ? "},\"done\":true" : ",\"done\":true");
    jbuf_text(out, ",\"done_reason\":");
    jbuf_cstring(out, reason);
    jbuf_text(out, "}");
}

static bool is_empty(const json_t *value) {
    return !value || json_is_null(value) || (json_is_array(value) && !json_array_size(value)) ||
           (json_is_string(value) && !json_string_length(value));
}

bool ollama_dismisses(const struct call *call, const json_t *body) {
    const bool is_chat = call->route->prepare == ollama_chat;
    if (!is_chat && call->route->prepare != ollama_generate) return false;
    return is_empty(json_object_get(body, is_chat ? "messages" : "prompt")) && ollama_unloads(body);
}

void ollama_dismissed(struct call *call) {
    struct state state = {.is_chat = call->route->prepare == ollama_chat};
    head_put(call, &state.head);
    empty_put(&state, "unload", &call->out);
    if (state.head.failed) call->out.failed = true;
    jbuf_deinit(&state.head);
}

// A request without a prompt has the model loaded, which it is where a handler runs.
static void answer_empty(struct call *call, const json_t *body) {
    struct generation *generation = call->generation;
    if (ollama_unloads(body)) {
        call_refuse(call, 400, "keep_alive", "unsupported_value",
                    "keep_alive: 0 would unload the model, but this server keeps it");
        return;
    }
    empty_put(generation->own, "load", &call->out);
    call_answer(call);
    generation_destroy(generation);
    call->generation = NULL;
}

// The fields of both routes. False: refused.
static bool common_read(struct call *call, const json_t *body, bool is_chat) {
    struct generation *generation = generation_create(call, &writer);
    return generation && params_read(call, body, FAMILY_OLLAMA, &generation->params) &&
           ollama_fields(call, body) && state_make(call, generation, is_chat);
}

void ollama_chat(struct call *call) {
    const json_t *body = call_json(call);
    if (!body || !common_read(call, body, true)) return;
    if (is_empty(json_object_get(body, "messages"))) {
        answer_empty(call, body);
        return;
    }
    struct generation *generation = call->generation;
    struct chat_messages chat;
    if (!generation_shape_read(call, generation, body, FAMILY_OLLAMA)) return;
    if (!ollama_messages(call, body, &chat)) return;
    if (generation_chat(call, generation, chat.messages, chat.tools, chat.variables,
                        chat.add_generation_prompt, chat.continue_final))
        generation_check(call, generation, "messages");
    chat_messages_deinit(&chat);
}

void ollama_generate(struct call *call) {
    const json_t *body = call_json(call);
    bool raw = false;
    if (!body || !common_read(call, body, false)) return;
    if (is_empty(json_object_get(body, "prompt"))) {
        answer_empty(call, body);
        return;
    }
    struct generation *generation = call->generation;
    struct state *state = generation->own;
    const struct fields fields = fields_of(call, body, "");
    if (!field_bool(&fields, "raw", &raw)) return;
    if (!generation_shape_read(call, generation, body, FAMILY_OLLAMA)) return;
    if (!ollama_prompt(call, body, generation, raw)) return;
    generation->keep_tokens = state->has_context = !raw;
    generation_check(call, generation, "prompt");
}

// Anthropic's Messages API, /v1/messages and /v1/messages/count_tokens: handlers and writer. A
// stream is a row of content blocks, one open at a time: a piece of another kind closes the open
// one. A call has one prompt and one choice.
#include "messages.h"

#include <stdlib.h>
#include <string.h>

#include "generation_shape.h"
#include "helpers.h"
#include "routes.h"
#include "threads.h"

// generation->own. Apart from the thread it is for streams.
struct state {
    struct thread thread;
    bool open;             // a content block:
    enum answer_part part; // PART_TOOL for a tool's arguments too
    int tool;
    int index;           // of the open block, or of the next one
    struct jbuf text;    // of the open block, where the thread is kept
    struct jbuf content; // blocks that are done, the same
};

static void state_free(void *own) {
    struct state *state = own;
    thread_deinit(&state->thread);
    jbuf_deinit(&state->text);
    jbuf_deinit(&state->content);
    free(state);
}

// ---------------------------------------------------------------- pieces of both forms

static void id_put(const struct call *call, struct jbuf *out) {
    jbuf_key(out, "id");
    jbuf_printf(out, "\"msg_%s\"", call->id);
}

// Ids come as "call_...", which is OpenAI's way.
static void tool_id_put(const struct tool_call *tool, struct jbuf *out) {
    const char *id = strncmp(tool->id, "call_", 5) ? tool->id : tool->id + 5;
    jbuf_key(out, "id");
    jbuf_printf(out, "\"toolu_%s\"", id);
}

// A tool_use block but for its input.
static void tool_put(const struct tool_call *tool, struct jbuf *out) {
    jbuf_text(out, "{\"type\":\"tool_use\"");
    tool_id_put(tool, out);
    jbuf_text(out, ",\"caller\":{\"type\":\"direct\"}");
    jbuf_key(out, "name");
    jbuf_string(out, tool->name.data, tool->name.len);
    jbuf_key(out, "input");
}

// The arguments as JSON. A call that was cut has the start of an object. It is written as a string:
// no client takes it for arguments, and nothing is lost.
static void input_put(const struct jbuf *arguments, struct jbuf *out) {
    if (!arguments->len) {
        jbuf_text(out, "{}");
        return;
    }
    struct jread reader;
    jread_init(&reader, arguments->data, arguments->len);
    if (jread_skip(&reader) && jread_finish(&reader)) {
        jbuf_bytes(out, arguments->data, arguments->len);
    } else {
        jbuf_string(out, arguments->data, arguments->len);
    }
}

// Writes a content block, and a comma before it unless it is the first. `tool` is set for PART_TOOL
// alone.
static void block_put(enum answer_part part, const struct tool_call *tool, const struct jbuf *text,
                      struct jbuf *out) {
    if (out->len && out->data[out->len - 1] == '}') jbuf_text(out, ",");
    if (part == PART_TOOL) {
        tool_put(tool, out);
        input_put(text, out);
    } else if (part == PART_REASONING) {
        jbuf_text(out, "{\"type\":\"thinking\",\"thinking\":");
        jbuf_string(out, text->data, text->len);
        jbuf_text(out, ",\"signature\":\"\"");
    } else {
        jbuf_text(out, "{\"type\":\"text\",\"text\":");
        jbuf_string(out, text->data, text->len);
    }
    jbuf_text(out, "}");
}

static const char *stop_reason(const struct generation_choice *choice) {
    if (choice->finish == RN_FINISH_LENGTH) return "max_tokens";
    if (choice->stop) return "stop_sequence";
    return choice->n_tools ? "tool_use" : "end_turn";
}

// choice NULL: it has not ended.
static void stop_put(const struct generation_choice *choice, struct jbuf *out) {
    jbuf_key(out, "stop_reason");
    jbuf_cstring(out, choice ? stop_reason(choice) : NULL);
    jbuf_key(out, "stop_sequence");
    jbuf_cstring(out, choice ? choice->stop : NULL);
    jbuf_text(out, ",\"stop_details\":null,\"container\":null");
}

// Cached tokens are not part of the input tokens, as in Anthropic's API.
static void usage_put(const struct usage *usage, struct jbuf *out) {
    jbuf_key(out, "usage");
    jbuf_printf(out,
                "{\"input_tokens\":%d,\"cache_creation_input_tokens\":0,"
                "\"cache_read_input_tokens\":%d,\"output_tokens\":%d,"
                "\"output_tokens_details\":{\"thinking_tokens\":%d},\"server_tool_use\":null",
                usage->prompt_tokens - usage->cached_tokens, usage->cached_tokens,
                usage->completion_tokens, usage->reasoning_tokens);
}

// A message from its brace to its content's key.
static void head_put(const struct call *call, struct jbuf *out) {
    jbuf_text(out, "{");
    id_put(call, out);
    jbuf_text(out, ",\"type\":\"message\",\"role\":\"assistant\"");
    jbuf_key(out, "model");
    jbuf_cstring(out, call->served->name);
    jbuf_key(out, "content");
}

// And from behind its content to its usage, which is left open for more.
static void tail_put(const struct generation_choice *choice, const struct usage *usage,
                     struct jbuf *out) {
    stop_put(choice, out);
    jbuf_text(out, ",\"diagnostics\":null");
    usage_put(usage, out);
    jbuf_text(out, ",\"cache_creation\":null,\"inference_geo\":null,"
                   "\"service_tier\":\"standard\",\"speed\":null}");
}

// ---------------------------------------------------------------- whole

static void content_put(const struct generation_choice *choice, struct jbuf *out) {
    jbuf_text(out, "[");
    if (choice->reasoning.len) block_put(PART_REASONING, NULL, &choice->reasoning, out);
    if (choice->text.len) block_put(PART_CONTENT, NULL, &choice->text, out);
    for (int i = 0; i < choice->n_tools; i++)
        block_put(PART_TOOL, &choice->tool[i], &choice->tool[i].arguments, out);
    jbuf_text(out, "]");
}

static void whole_write(struct call *call, int i) {
    const struct generation *generation = call->generation;
    const struct usage usage = generation_usage(generation);
    struct state *state = generation->own;
    head_put(call, &call->out);
    const size_t from = call->out.len;
    content_put(&generation->choice[i], &call->out);
    if (!call->out.failed)
        thread_keep(call, &state->thread, call->out.data + from, call->out.len - from);
    tail_put(&generation->choice[i], &usage, &call->out);
    jbuf_text(&call->out, ",");
    generation_timings(call, &call->out);
    jbuf_text(&call->out, "}");
}

// ---------------------------------------------------------------- stream

// An event from its name to its type; the rest of its object follows, and event_end.
static void event_begin(const char *name, struct jbuf *out) {
    jbuf_text(out, "event: ");
    jbuf_text(out, name);
    jbuf_text(out, "\ndata: {\"type\":\"");
    jbuf_text(out, name);
    jbuf_text(out, "\"");
}

static void event_end(struct jbuf *out) { jbuf_text(out, "}\n\n"); }

static void stream_begin(struct call *call) {
    const struct generation *generation = call->generation;
    const struct usage usage = {.prompt_tokens = (int)generation->prompt[0].n_ids};
    event_begin("message_start", &call->out);
    jbuf_key(&call->out, "message");
    head_put(call, &call->out);
    jbuf_text(&call->out, "[]");
    tail_put(NULL, &usage, &call->out);
    jbuf_text(&call->out, "}");
    event_end(&call->out);
}

// The open block is whole: the thread has it.
static void block_keep(const struct call *call, struct state *state) {
    if (!state->thread.is_kept) return;
    const struct tool_call *tool =
        state->part == PART_TOOL ? &call->generation->choice[0].tool[state->tool] : NULL;
    block_put(state->part, tool, &state->text, &state->content);
    if (state->text.failed) state->content.failed = true;
    jbuf_clear(&state->text);
}

static void block_close(struct call *call, struct state *state) {
    if (!state->open) return;
    event_begin("content_block_stop", &call->out);
    jbuf_key(&call->out, "index");
    jbuf_int(&call->out, state->index++);
    event_end(&call->out);
    block_keep(call, state);
    state->open = false;
}

static void block_open(struct call *call, struct state *state, const struct delta *delta) {
    struct jbuf *out = &call->out;
    const enum answer_part part = delta->part == PART_TOOL_ARGUMENTS ? PART_TOOL : delta->part;
    if (state->open && state->part == part && (part != PART_TOOL || state->tool == delta->tool)) {
        return;
    }
    block_close(call, state);
    state->open = true;
    state->part = part;
    state->tool = delta->tool;
    event_begin("content_block_start", out);
    jbuf_key(out, "index");
    jbuf_int(out, state->index);
    jbuf_key(out, "content_block");
    if (part == PART_CONTENT) {
        jbuf_text(out, "{\"type\":\"text\",\"text\":\"\"}");
    } else if (part == PART_REASONING) {
        jbuf_text(out, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
    } else {
        tool_put(&delta->choice->tool[delta->tool], out);
        jbuf_text(out, "{}}");
    }
    event_end(out);
}

static void stream_delta(struct call *call, const struct delta *delta) {
    static const char *const heads[] = {
        [PART_CONTENT] = ",\"delta\":{\"type\":\"text_delta\",\"text\":",
        [PART_REASONING] = ",\"delta\":{\"type\":\"thinking_delta\",\"thinking\":",
        [PART_TOOL_ARGUMENTS] = ",\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":",
    };
    struct state *state = call->generation->own;
    struct jbuf *out = &call->out;
    if (delta->part == PART_TOOL_END) block_close(call, state);
    if (delta->part != PART_TOOL && !delta->len) return;
    block_open(call, state, delta);
    if (delta->part == PART_TOOL) return;
    event_begin("content_block_delta", out);
    jbuf_key(out, "index");
    jbuf_int(out, state->index);
    jbuf_text(out, heads[delta->part]);
    jbuf_string(out, delta->text, delta->len);
    jbuf_text(out, "}");
    event_end(out);
    if (state->thread.is_kept) jbuf_bytes(&state->text, delta->text, delta->len);
}

static void stream_choice_end(struct call *call, struct generation_choice *choice) {
    (void)choice;
    block_close(call, call->generation->own);
}

static void stream_keep(struct call *call) {
    struct state *state = call->generation->own;
    struct jbuf whole = {0};
    if (!state->thread.is_kept) return;
    jbuf_text(&whole, "[");
    jbuf_bytes(&whole, state->content.data, state->content.len);
    jbuf_text(&whole, "]");
    if (!whole.failed && !state->content.failed)
        thread_keep(call, &state->thread, whole.data, whole.len);
    jbuf_deinit(&whole);
}

static void stream_end(struct call *call) {
    const struct generation *generation = call->generation;
    const struct usage usage = generation_usage(generation);
    struct jbuf *out = &call->out;
    event_begin("message_delta", out);
    jbuf_key(out, "delta");
    jbuf_text(out, "{");
    stop_put(&generation->choice[0], out);
    jbuf_text(out, "}");
    usage_put(&usage, out);
    jbuf_text(out, "},");
    generation_timings(call, out);
    event_end(out);
    stream_keep(call);
    event_begin("message_stop", out);
    event_end(out);
}

static void stream_error(struct call *call, const struct failure *failure) {
    struct state *state = call->generation->own;
    thread_deinit(&state->thread);
    jbuf_text(&call->out, "event: error\ndata: ");
    call_error_object(API_ANTHROPIC, failure->status, NULL, NULL, failure->message, &call->out);
    jbuf_text(&call->out, "\n\n");
}

static const struct writer writer = {
    .whole = whole_write,
    .begin = stream_begin,
    .delta = stream_delta,
    .choice_end = stream_choice_end,
    .end = stream_end,
    .error = stream_error,
    .ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
};

// ---------------------------------------------------------------- handlers

// The prompt of a body, and of the messages before it; NULL if there are none.
static bool prompt_make(struct call *call, const json_t *body, const json_t *before,
                        struct generation *generation) {
    struct conversation conversation;
    bool ok = messages_input(call, body, before, &conversation);
    if (ok) {
        const bool prefill = messages_prefill(&conversation);
        ok = generation_chat(call, generation, conversation.messages, conversation.tools,
                             conversation.variables, !prefill, prefill);
    }
    conversation_deinit(&conversation);
    return ok;
}

static bool prompt_of_thread(struct call *call, const json_t *body, struct generation *generation) {
    struct state *state = generation->own;
    json_t *before;
    const bool ok = thread_messages(call, &state->thread, &before) &&
                    prompt_make(call, body, before, generation) &&
                    thread_take(call, &state->thread, body);
    json_decref(before);
    return ok;
}

static struct state *state_make(struct call *call, struct generation *generation) {
    generation->own = calloc(1, sizeof(struct state));
    if (!generation->own) {
        call_refuse_memory(call);
        return NULL;
    }
    generation->own_free = state_free;
    return generation->own;
}

void messages_prepare(struct call *call) {
    json_t *body = call_json(call);
    struct generation *generation = body ? generation_create(call, &writer) : NULL;
    struct state *state = generation ? state_make(call, generation) : NULL;
    if (!state) return;
    const bool ok = thread_read(call, body, &state->thread) &&
                    params_read(call, body, FAMILY_MESSAGES, &generation->params) &&
                    generation_shape_read(call, generation, body, FAMILY_MESSAGES) &&
                    prompt_of_thread(call, body, generation) &&
                    generation_check(call, generation, "messages");
    if (!ok) thread_deinit(&state->thread); // the client may try again at once
}

void messages_count(struct call *call) {
    const json_t *body = call_json(call);
    struct generation *generation = body ? generation_create(call, &writer) : NULL;
    if (!generation) return;
    const struct fields fields = fields_of(call, body, "");
    if (params_model(call, body) &&
        field_unsupported(&fields, "thread", false, "is not supported: count all messages") &&
        prompt_make(call, body, NULL, generation)) {
        jbuf_printf(&call->out, "{\"input_tokens\":%zu}", generation->prompt[0].n_ids);
        call_answer(call);
    }
    generation_destroy(generation); // nothing is left for the engine to do
    call->generation = NULL;
}

// Anthropic's Messages API, /v1/messages and /v1/messages/count_tokens: handlers and writer. A
// stream is a row of content blocks, one open at a time: a piece of another kind closes the open
// one. A call has one prompt and one choice.
#include "messages.h"

#include <stdlib.h>
#include <string.h>

#include "generation_shape.h"
#include "helpers.h"
#include "routes.h"

// The content block that a stream has open.
struct blocks {
    bool open;
    enum answer_part part; // PART_TOOL for a tool's arguments too
    int tool;
    int index; // of the open block, or of the next one
};

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
    if (choice->reasoning.len) {
        jbuf_text(out, "{\"type\":\"thinking\",\"thinking\":");
        jbuf_string(out, choice->reasoning.data, choice->reasoning.len);
        jbuf_text(out, ",\"signature\":\"\"}");
    }
    if (choice->text.len) {
        jbuf_text(out, choice->reasoning.len ? "," : "");
        jbuf_text(out, "{\"type\":\"text\",\"text\":");
        jbuf_string(out, choice->text.data, choice->text.len);
        jbuf_text(out, "}");
    }
    for (int i = 0; i < choice->n_tools; i++) {
        jbuf_text(out, choice->reasoning.len || choice->text.len || i ? "," : "");
        tool_put(&choice->tool[i], out);
        input_put(&choice->tool[i].arguments, out);
        jbuf_text(out, "}");
    }
    jbuf_text(out, "]");
}

static void whole_write(struct call *call, int i) {
    const struct generation *generation = call->generation;
    const struct usage usage = generation_usage(generation);
    head_put(call, &call->out);
    content_put(&generation->choice[i], &call->out);
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

static void block_close(struct call *call, struct blocks *blocks) {
    if (!blocks->open) return;
    event_begin("content_block_stop", &call->out);
    jbuf_key(&call->out, "index");
    jbuf_int(&call->out, blocks->index++);
    event_end(&call->out);
    blocks->open = false;
}

static void block_open(struct call *call, struct blocks *blocks, const struct delta *delta) {
    struct jbuf *out = &call->out;
    const enum answer_part part = delta->part == PART_TOOL_ARGUMENTS ? PART_TOOL : delta->part;
    if (blocks->open && blocks->part == part &&
        (part != PART_TOOL || blocks->tool == delta->tool)) {
        return;
    }
    block_close(call, blocks);
    *blocks =
        (struct blocks){.open = true, .part = part, .tool = delta->tool, .index = blocks->index};
    event_begin("content_block_start", out);
    jbuf_key(out, "index");
    jbuf_int(out, blocks->index);
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
    struct blocks *blocks = call->generation->own;
    struct jbuf *out = &call->out;
    if (delta->part == PART_TOOL_END) block_close(call, blocks);
    if (delta->part != PART_TOOL && !delta->len) return;
    block_open(call, blocks, delta);
    if (delta->part == PART_TOOL) return;
    event_begin("content_block_delta", out);
    jbuf_key(out, "index");
    jbuf_int(out, blocks->index);
    jbuf_text(out, heads[delta->part]);
    jbuf_string(out, delta->text, delta->len);
    jbuf_text(out, "}");
    event_end(out);
}

static void stream_choice_end(struct call *call, struct generation_choice *choice) {
    (void)choice;
    block_close(call, call->generation->own);
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
    event_begin("message_stop", out);
    event_end(out);
}

static void stream_error(struct call *call, const struct failure *failure) {
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

// The prompt of a body.
static bool prompt_make(struct call *call, const json_t *body, struct generation *generation) {
    struct conversation conversation;
    bool ok = messages_input(call, body, &conversation);
    if (ok) {
        const bool prefill = messages_prefill(&conversation);
        ok = generation_chat(call, generation, conversation.messages, conversation.tools,
                             conversation.variables, !prefill, prefill);
    }
    conversation_deinit(&conversation);
    return ok;
}

void messages_prepare(struct call *call) {
    const json_t *body = call_json(call);
    struct generation *generation = body ? generation_create(call, &writer) : NULL;
    if (!generation) return;
    if (!params_read(call, body, FAMILY_MESSAGES, &generation->params)) return;
    if (!generation_shape_read(call, generation, body, FAMILY_MESSAGES)) return;
    if (!prompt_make(call, body, generation)) return;
    if (!generation_check(call, generation, "messages")) return;
    generation->own = calloc(1, sizeof(struct blocks));
    generation->own_free = free;
    if (!generation->own) call_refuse_memory(call);
}

void messages_count(struct call *call) {
    const json_t *body = call_json(call);
    struct generation *generation = body ? generation_create(call, &writer) : NULL;
    if (!generation) return;
    if (params_model(call, body) && prompt_make(call, body, generation)) {
        jbuf_printf(&call->out, "{\"input_tokens\":%zu}", generation->prompt[0].n_ids);
        call_answer(call);
    }
    generation_destroy(generation); // nothing is left for the engine to do
    call->generation = NULL;
}

// POST /v1/chat/completions: a conversation in, an assistant's message out, whole or in chunks.
// A chunk is written for each token of each stream; openai.h explains why that is cheap.
#include <string.h>

#include "chat_messages.h"
#include "fields.h"
#include "generation_shape.h"
#include "openai.h"
#include "routes.h"

// ---------------------------------------------------------------- logprobs

// ,"logprobs":... and the choice's are taken.
static void logprobs_take(const struct call *call, struct generation_choice *choice,
                          struct jbuf *out) {
    if (!call->generation->params.logprobs) {
        jbuf_text(out, ",\"logprobs\":null");
        return;
    }
    jbuf_text(out, ",\"logprobs\":{\"content\":[");
    openai_logprobs_take(call, choice, false, out);
    jbuf_text(out, "],\"refusal\":null}");
}

// ---------------------------------------------------------------- stream

// The first chunk of a choice says whose text it is. It goes out with the first piece of text, so
// the first chunk that a client sees has a token.
static void choice_begin(struct call *call, const struct generation_choice *choice) {
    struct openai_choice *state = &openai_state_of(call)->choice[choice->index];
    const json_t *echoed = call->generation->echoed;
    if (state->began) return;
    state->began = true;
    openai_chunk_open(call, choice);
    jbuf_text(&call->out, ",\"delta\":{\"role\":\"assistant\",\"content\":");
    jbuf_string(&call->out, echoed ? json_string_value(echoed) : "", json_string_length(echoed));
    jbuf_text(&call->out, "}");
    openai_head_close(call, choice, true);
}

#define FUNCTION_OPEN ",\"type\":\"function\",\"function\":{\"name\":"
#define CUSTOM_OPEN   ",\"type\":\"custom\",\"custom\":{\"name\":"

static void tool_open(const struct delta *delta, struct jbuf *out) {
    const struct tool_call *const tool = &delta->choice->tool[delta->tool];
    jbuf_text(out, ",\"delta\":{\"tool_calls\":[{\"index\":");
    jbuf_int(out, delta->tool);
    if (delta->part == PART_TOOL) {
        jbuf_text(out, ",\"id\":");
        jbuf_cstring(out, tool->id);
        jbuf_text(out, tool->is_custom ? CUSTOM_OPEN : FUNCTION_OPEN);
    } else {
        jbuf_text(out,
                  tool->is_custom ? ",\"custom\":{\"input\":" : ",\"function\":{\"arguments\":");
    }
}

static void stream_delta(struct call *call, const struct delta *delta) {
    struct jbuf *out = &call->out;
    const bool is_tool = delta->part == PART_TOOL || delta->part == PART_TOOL_ARGUMENTS;
    if (!delta->len && delta->part != PART_TOOL) return;
    if (delta->part == PART_REASONING && !call->generation->params.include_reasoning) return;
    choice_begin(call, delta->choice);
    openai_chunk_open(call, delta->choice);
    if (is_tool) {
        tool_open(delta, out);
    } else if (delta->part == PART_CONTENT) {
        jbuf_text(out, ",\"delta\":{\"content\":");
    } else {
        jbuf_text(out, ",\"delta\":{\"reasoning_content\":");
    }
    jbuf_string(out, delta->text, delta->len);
    if (delta->part == PART_TOOL)
        jbuf_text(out, delta->choice->tool[delta->tool].is_custom ? ",\"input\":\"\""
                                                                  : ",\"arguments\":\"\"");
    jbuf_text(out, is_tool ? "}}]}" : "}");
    const bool bare = !call->generation->params.logprobs;
    if (!bare) logprobs_take(call, delta->choice, out);
    openai_chunk_close(call, delta->choice, bare);
}

static void stream_progress(struct call *call, const struct generation_choice *choice,
                            const rn_event *event) {
    openai_chunk_open(call, choice);
    jbuf_text(&call->out, ",\"delta\":{}");
    openai_chunk_progress(call, choice, event);
}

static void stream_choice_end(struct call *call, struct generation_choice *choice) {
    choice_begin(call, choice);
    openai_chunk_open(call, choice);
    jbuf_text(&call->out, ",\"delta\":{}");
    logprobs_take(call, choice, &call->out);
    openai_finish(choice, &call->out);
    openai_choice_close(call, choice);
}

// ---------------------------------------------------------------- whole

static void tools_write(const struct generation_choice *choice, struct jbuf *out) {
    jbuf_text(out, ",\"tool_calls\":[");
    for (int i = 0; i < choice->n_tools; i++) {
        const struct tool_call *tool = &choice->tool[i];
        jbuf_text(out, i ? ",{\"id\":" : "{\"id\":");
        jbuf_cstring(out, tool->id);
        jbuf_text(out, tool->is_custom ? CUSTOM_OPEN : FUNCTION_OPEN);
        jbuf_string(out, tool->name.data, tool->name.len);
        jbuf_text(out, tool->is_custom ? ",\"input\":" : ",\"arguments\":");
        jbuf_string(out, tool->arguments.data, tool->arguments.len);
        jbuf_text(out, "}}");
    }
    jbuf_text(out, "]");
}

// One string: the text that is echoed, and the choice's.
static void content_write(const struct generation_choice *choice, const json_t *echoed,
                          struct jbuf *out) {
    struct jbuf joined = {0};
    if (echoed) jbuf_bytes(&joined, json_string_value(echoed), json_string_length(echoed));
    jbuf_bytes(&joined, choice->text.data, choice->text.len);
    jbuf_string(out, joined.data, joined.len);
    if (joined.failed) out->failed = true;
    jbuf_deinit(&joined);
}

static void message_write(const struct generation *generation,
                          const struct generation_choice *choice, struct jbuf *out) {
    const json_t *echoed = generation->echoed;
    jbuf_text(out, ",\"message\":{\"role\":\"assistant\",\"content\":");
    if (choice->n_tools && !choice->text.len && !echoed)
        jbuf_text(out, "null");
    else if (echoed)
        content_write(choice, echoed, out);
    else
        jbuf_string(out, choice->text.data, choice->text.len);
    jbuf_text(out, ",\"refusal\":null");
    if (choice->reasoning.len && generation->params.include_reasoning) {
        jbuf_text(out, ",\"reasoning_content\":");
        jbuf_string(out, choice->reasoning.data, choice->reasoning.len);
    }
    if (choice->n_tools) tools_write(choice, out);
    jbuf_text(out, "}");
}

static void whole_write(struct call *call, int i) {
    struct generation_choice *choice = &call->generation->choice[i];
    struct jbuf *out = &call->out;
    openai_whole_open(call, choice);
    message_write(call->generation, choice, out);
    logprobs_take(call, choice, out);
    openai_whole_close(call, choice);
}

// ---------------------------------------------------------------- the handler

const struct writer chat_writer = {.whole = whole_write,
                                   .delta = stream_delta,
                                   .progress = stream_progress,
                                   .choice_end = stream_choice_end,
                                   .end = openai_stream_end,
                                   .error = openai_error};

// As vLLM has it where a prompt was evaluated elsewhere: its ids are taken as they are.
static bool ids_given(struct call *call, const json_t *body, const json_t **out) {
    const struct fields fields = fields_of(call, body, "");
    const json_t *params = NULL;
    if (!field_object(&fields, "kv_transfer_params", &params)) return false;
    const json_t *ids = json_object_get(params, "prompt_token_ids");
    const bool is_absent =
        !ids || json_is_null(ids) || (json_is_array(ids) && !json_array_size(ids));
    *out = is_absent ? NULL : ids;
    return true;
}

// vLLM's echo: the answer starts with the last message, if that is an assistant's too. NULL if it
// is not.
static json_t *echoed_of(const struct chat_messages *chat) {
    const json_t *last = json_array_get(chat->messages, json_array_size(chat->messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    json_t *content = json_object_get(last, "content");
    const bool is_same = role && !strcmp(role, "assistant") && json_is_string(content);
    return is_same ? json_incref(content) : NULL;
}

bool chat_prompt(struct call *call, const json_t *body, struct generation *generation) {
    const struct fields fields = fields_of(call, body, "");
    struct chat_messages chat;
    bool echo = false;
    if (!ids_given(call, body, &generation->given_ids)) return false;
    if (!params_read(call, body, FAMILY_CHAT, &generation->params)) return false;
    if (!generation_shape_read(call, generation, body, FAMILY_CHAT)) return false;
    if (!field_bool(&fields, "echo", &echo)) return false;
    if (!chat_messages_read(call, body, &chat)) return false;
    generation->custom = json_incref(chat.custom);
    const bool ok = generation_chat(call, generation, chat.messages, chat.tools, chat.variables,
                                    chat.add_generation_prompt, chat.continue_final);
    if (ok && echo) generation->echoed = echoed_of(&chat);
    chat_messages_deinit(&chat);
    return ok;
}

void chat_prepare(struct call *call) {
    const json_t *body = call_json(call);
    struct generation *generation = body ? generation_create(call, &chat_writer) : NULL;
    if (!generation || !chat_prompt(call, body, generation)) return;
    generation->scores = generation->params.prompt_logprobs;
    generation->top_prompt = generation->params.top_prompt_logprobs;
    if (generation_check(call, generation, "messages") &&
        openai_state_create(call, "chatcmpl-",
                            generation->params.stream ? "chat.completion.chunk"
                                                      : "chat.completion"))
        openai_state_of(call)->is_chat = true;
}

// POST /v1/chat/completions/input_tokens: the length of the prompt, which may exceed the context.
void chat_count(struct call *call) {
    const json_t *body = call_json(call);
    struct generation *generation = body ? generation_create(call, &chat_writer) : NULL;
    if (!generation) return;
    if (chat_prompt(call, body, generation)) {
        jbuf_printf(&call->out, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}",
                    generation->prompt[0].n_ids);
        call_answer(call);
    }
    generation_destroy(generation); // nothing is left for the engine to do
    call->generation = NULL;
}

// Reads events of OpenAI's chat completions and completions, with the additions of vLLM, llama.cpp
// and runnel. Servers are not trusted: any member may be missing or of another kind.
#include "load/event.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static int count_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    const json_int_t n = json_is_integer(value) ? json_integer_value(value) : -1;
    return n >= 0 && n <= INT_MAX ? (int)n : -1;
}

static void text_take(const json_t *value, struct jbuf *text, struct load_event *out) {
    if (!json_is_string(value) || !json_string_length(value)) return;
    out->has_text = true;
    if (text) jbuf_bytes(text, json_string_value(value), json_string_length(value));
}

static void choice_take(const json_t *choice, struct jbuf *text, struct load_event *out) {
    const json_t *delta = json_object_get(choice, "delta");
    text_take(json_object_get(choice, "text"), text, out);
    text_take(json_object_get(delta, "content"), text, out);
    // reasoning and calls are text of the model, but no part of the next turn's message
    text_take(json_object_get(delta, "reasoning_content"), NULL, out);
    text_take(json_object_get(delta, "reasoning"), NULL, out);
    if (json_array_size(json_object_get(delta, "tool_calls"))) out->has_text = true;
    out->finished |= json_is_string(json_object_get(choice, "finish_reason"));
}

static void numbers_take(const json_t *event, struct load_event *out) {
    const json_t *usage = json_object_get(event, "usage");
    const json_t *timings = json_object_get(event, "timings");
    const json_t *details = json_object_get(usage, "prompt_tokens_details");
    out->input_tokens = count_of(usage, "prompt_tokens");
    out->output_tokens = count_of(usage, "completion_tokens");
    out->cached_tokens = count_of(details, "cached_tokens");
    if (out->cached_tokens < 0) out->cached_tokens = count_of(timings, "cache_n");
    out->draft_tokens = count_of(timings, "draft_n");
    out->draft_accepted = count_of(timings, "draft_n_accepted");
}

static void plain_copy(const char *text, size_t len, char *out, size_t size) {
    size_t n = 0;
    for (; n < len && n + 1 < size && text[n]; n++)
        out[n] = (char)((unsigned char)text[n] < 0x20 ? ' ' : text[n]);
    out[n] = '\0';
}

// {"error":{"message":...}}, {"error":"..."} or {"message":...}.
static const char *message_of(const json_t *root) {
    const json_t *error = json_object_get(root, "error");
    const json_t *message = json_object_get(json_is_object(error) ? error : root, "message");
    if (json_is_string(error)) return json_string_value(error);
    return json_is_string(message) ? json_string_value(message) : NULL;
}

void load_fault_text(const char *body, size_t len, char *out, size_t size) {
    json_error_t problem;
    json_t *root = json_loadb(body, len, 0, &problem);
    const char *message = message_of(root);
    plain_copy(message ? message : body, message ? strlen(message) : len, out, size);
    json_decref(root);
}

bool load_event_read(const char *data, size_t len, struct jbuf *text, struct load_event *out) {
    *out = (struct load_event){.input_tokens = -1,
                               .output_tokens = -1,
                               .cached_tokens = -1,
                               .draft_tokens = -1,
                               .draft_accepted = -1};
    if (len == 6 && !memcmp(data, "[DONE]", 6)) {
        out->done = true;
        return true;
    }
    json_error_t problem;
    json_t *event = json_loadb(data, len, JSON_ALLOW_NUL, &problem); // a model may write one
    if (!json_is_object(event)) {
        json_decref(event);
        snprintf(out->fault, sizeof out->fault, "an event of the stream is not a JSON object");
        return false;
    }
    const json_t *error = json_object_get(event, "error");
    if (error && !json_is_null(error)) {
        const char *message = message_of(event);
        snprintf(out->fault, sizeof out->fault, "error event: %.480s", message ? message : "");
    }
    choice_take(json_array_get(json_object_get(event, "choices"), 0), text, out);
    numbers_take(event, out);
    json_decref(event);
    return true;
}

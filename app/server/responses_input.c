// From the body of a Responses request to a conversation for the template, and back: a response
// repeats its request.
#include <stdio.h>
#include <string.h>

#include "custom_tools.h"
#include "responses.h"

// ---------------------------------------------------------------- items

static bool message_read(struct conversation *conversation, const struct fields *item) {
    enum { USER, ASSISTANT, SYSTEM, DEVELOPER };
    static const char roles[] = "user|assistant|system|developer";
    static const char *const names[] = {"user", "assistant", "system", "system"};
    int role = -1;
    if (!field_choice(item, "role", roles, &role)) return false;
    if (role < 0) return field_refuse(item, "role", "is required: one of %s", roles);
    conversation_open(conversation, names[role]);
    return conversation_parts(conversation, item, "content",
                              role == ASSISTANT ? "output_text|input_text" : "input_text");
}

// Templates want the arguments as an object. The model may have written something else.
static json_t *arguments_of(const char *text, size_t len) {
    json_t *value = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    if (json_is_object(value)) return value;
    json_decref(value);
    return len ? json_stringn(text, len) : json_object();
}

static bool call_read(struct conversation *conversation, const struct fields *item) {
    const char *id, *name, *text;
    size_t len;
    if (!conversation_string(item, "call_id", INPUT_ID_BYTES_MAX, &id, &len)) return false;
    if (!conversation_string(item, "name", INPUT_NAME_BYTES_MAX, &name, &len)) return false;
    if (!conversation_field(item, "arguments", &text, &len)) return false;
    json_t *arguments = arguments_of(text, len);
    conversation_open(conversation, "assistant");
    conversation_call(conversation, id, name, arguments);
    json_decref(arguments);
    return true;
}

// The call of a custom tool, as the model wrote it.
static bool custom_call_read(struct conversation *conversation, const struct fields *item) {
    const char *id, *name, *text;
    size_t len;
    if (!conversation_string(item, "call_id", INPUT_ID_BYTES_MAX, &id, &len)) return false;
    if (!conversation_string(item, "name", INPUT_NAME_BYTES_MAX, &name, &len)) return false;
    if (!conversation_field(item, "input", &text, &len)) return false;
    json_t *arguments = custom_tool_arguments(text, len);
    if (!arguments) conversation->failed = true;
    conversation_open(conversation, "assistant");
    conversation_call(conversation, id, name, arguments);
    json_decref(arguments);
    return true;
}

static bool output_read(struct conversation *conversation, const struct fields *item) {
    return conversation_open_result(conversation, item, "call_id") &&
           conversation_parts(conversation, item, "output", "input_text|output_text");
}

// One of the lists of texts that a reasoning item has.
static bool reasoning_list_read(struct conversation *conversation, const struct fields *item,
                                const char *name, const char *types) {
    const json_t *parts = NULL;
    if (!field_array(item, name, SIZE_MAX, &parts)) return false;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        char path[FIELD_PATH_BYTES];
        struct fields part;
        const char *type, *text;
        size_t len;
        if (!conversation_item(item, name, parts, i, path, &part)) return false;
        if (!conversation_type(&part, types, NULL, &type)) return false;
        if (!conversation_field(&part, "text", &text, &len)) return false;
        conversation_reasoning(conversation, text, len);
    }
    return true;
}

// The reasoning itself where it is there, otherwise its summary.
static bool reasoning_read(struct conversation *conversation, const struct fields *item) {
    const bool whole = json_array_size(json_object_get(item->object, "content")) > 0;
    conversation_open(conversation, "assistant");
    return whole ? reasoning_list_read(conversation, item, "content", "reasoning_text")
                 : reasoning_list_read(conversation, item, "summary", "summary_text");
}

static bool item_read(struct conversation *conversation, const struct fields *item) {
    static const char types[] = "message|function_call|function_call_output|custom_tool_call|"
                                "custom_tool_call_output|reasoning";
    static const struct {
        const char *type;
        bool (*read)(struct conversation *conversation, const struct fields *item);
    } kinds[] = {
        {"message", message_read},
        {"function_call", call_read},
        {"function_call_output", output_read},
        {"custom_tool_call", custom_call_read},
        {"custom_tool_call_output", output_read},
        {"reasoning", reasoning_read},
    };
    const char *type;
    size_t i = 0;
    if (!conversation_type(item, types, "message", &type)) return false;
    while (strcmp(kinds[i].type, type) != 0) i++;
    return kinds[i].read(conversation, item);
}

static bool items_read(struct conversation *conversation, const struct fields *body,
                       const char *name, const json_t *items) {
    for (size_t i = 0; i < json_array_size(items); i++) {
        char path[FIELD_PATH_BYTES];
        struct fields item;
        if (!conversation_item(body, name, items, i, path, &item)) return false;
        if (!item_read(conversation, &item)) return false;
    }
    return true;
}

static bool input_read(struct conversation *conversation, const struct fields *body) {
    const json_t *input = json_object_get(body->object, "input");
    if (json_is_string(input)) {
        conversation_open(conversation, "user");
        conversation_text(conversation, json_string_value(input), json_string_length(input));
        return true;
    }
    if (!json_is_array(input)) return conversation_refuse(body, "input", "a string or an array");
    if (!field_array(body, "input", INPUT_ITEMS_MAX, &input)) return false;
    if (json_array_size(input) == 0) return field_refuse(body, "input", "[] is empty");
    return items_read(conversation, body, "input", input);
}

// ---------------------------------------------------------------- tools

static bool tool_read(struct conversation *conversation, const struct fields *tool) {
    const char *type, *name, *description = NULL;
    const json_t *parameters = NULL;
    bool strict;
    size_t len;
    if (!conversation_type(tool, "function|custom", NULL, &type)) return false;
    if (!strcmp(type, "custom")) {
        json_t *function = custom_tool_function(tool, INPUT_NAME_BYTES_MAX);
        if (function) conversation_custom(conversation, function);
        return function != NULL;
    }
    if (!conversation_string(tool, "name", INPUT_NAME_BYTES_MAX, &name, &len)) return false;
    if (!field_string(tool, "description", SIZE_MAX, &description, &len)) return false;
    if (!field_object(tool, "parameters", &parameters)) return false;
    if (!field_bool(tool, "strict", &strict)) return false;
    conversation_tool(conversation, name, description,
                      parameters ? json_object_get(tool->object, "parameters") : NULL);
    return true;
}

static bool is_string(const json_t *body, const char *name, const char *value) {
    const char *text = json_string_value(json_object_get(body, name));
    return text && !strcmp(text, value);
}

static bool tools_read(struct conversation *conversation, const struct fields *body) {
    if (!conversation_tools(conversation, body, tool_read)) return false;
    if (is_string(body->object, "tool_choice", "none")) {
        json_decref(conversation->tools);
        conversation->tools = NULL;
    }
    return true;
}

bool responses_input(struct call *call, const json_t *body, const json_t *before,
                     struct conversation *out) {
    const struct fields fields = fields_of(call, body, "");
    const char *instructions = NULL;
    size_t len;
    conversation_init(out);
    if (!field_text(&fields, "instructions", &instructions, &len)) return false;
    if (instructions) {
        conversation_open(out, "system");
        conversation_text(out, instructions, len);
    }
    conversation_effort(out, &fields, "reasoning");
    return items_read(out, &fields, "previous_response_id", before) && input_read(out, &fields) &&
           tools_read(out, &fields) && conversation_close(out, call);
}

// ---------------------------------------------------------------- options

static bool include_read(const struct fields *fields, bool *logprobs) {
    enum { INCLUDES_MAX = 16, INCLUDE_BYTES_MAX = 64 };
    const char *include[INCLUDES_MAX];
    size_t n = 0;
    *logprobs = false;
    if (!field_strings(fields, "include", INCLUDES_MAX, INCLUDE_BYTES_MAX, include, &n)) {
        return false;
    }
    // The other names refer to built-in tools and encryption, which the server does not have.
    for (size_t i = 0; i < n; i++) *logprobs |= !strcmp(include[i], "message.output_text.logprobs");
    return true;
}

static bool metadata_read(const struct fields *fields) {
    enum { PAIRS_MAX = 16, KEY_BYTES_MAX = 64 * 4, VALUE_BYTES_MAX = 512 * 4 };
    const json_t *metadata = NULL;
    const char *key;
    json_t *value;
    if (!field_object(fields, "metadata", &metadata)) return false;
    if (json_object_size(metadata) > PAIRS_MAX) {
        return field_refuse(fields, "metadata", "%zu pairs, at most %d are allowed",
                            json_object_size(metadata), PAIRS_MAX);
    }
    const struct fields pairs = fields_of(fields->call, metadata, "metadata");
    json_object_foreach((json_t *)metadata, key, value) {
        const char *text;
        if (strlen(key) > KEY_BYTES_MAX) {
            return field_refuse(fields, "metadata", "a key of %zu bytes, at most %d are allowed",
                                strlen(key), KEY_BYTES_MAX);
        }
        if (!field_string(&pairs, key, VALUE_BYTES_MAX, &text, NULL)) return false;
    }
    return true;
}

bool responses_options(struct call *call, const json_t *body, struct params *params) {
    const struct fields fields = fields_of(call, body, "");
    const json_t *text = NULL;
    const char *ignored;
    int choice = 0;
    bool parallel, store;
    if (!field_unsupported(&fields, "conversation", false,
                           "is not supported: use previous_response_id"))
        return false;
    if (!field_unsupported(&fields, "background", true, "is not supported: use a stream"))
        return false;
    if (!field_unsupported(&fields, "prompt", false, "is not supported: no prompts are stored")) {
        return false;
    }
    if (!field_choice(&fields, "truncation", "disabled", &choice)) return false;
    if (!field_bool(&fields, "parallel_tool_calls", &parallel)) return false;
    if (!field_bool(&fields, "store", &store)) return false;
    if (!field_object(&fields, "text", &text)) return false;
    if (!field_string(&fields, "prompt_cache_key", SIZE_MAX, &ignored, NULL)) return false;
    if (!metadata_read(&fields)) return false;
    if (!include_read(&fields, &params->logprobs)) return false;
    if (!params->logprobs) params->top_logprobs = 0;
    return true;
}

// ---------------------------------------------------------------- echo

// The field as it was given; `absent` where it was not.
static void echo(const json_t *object, const char *name, const char *absent, struct jbuf *out) {
    const json_t *value = json_object_get(object, name);
    jbuf_key(out, name);
    if (value && !json_is_null(value)) {
        jbuf_json(out, value);
    } else {
        jbuf_text(out, absent);
    }
}

static void echo_given(const json_t *object, const char *name, struct jbuf *out) {
    const json_t *value = json_object_get(object, name);
    if (value && !json_is_null(value)) echo(object, name, "null", out);
}

void responses_echo(const json_t *body, const struct params *params, bool is_kept,
                    struct jbuf *out) {
    const json_t *reasoning = json_object_get(body, "reasoning");
    const json_t *text = json_object_get(body, "text");
    echo(body, "instructions", "null", out);
    echo(body, "metadata", "{}", out);
    echo(body, "max_output_tokens", "null", out);
    echo(body, "parallel_tool_calls", "true", out);
    echo(body, "previous_response_id", "null", out);
    jbuf_key(out, "store");
    jbuf_bool(out, is_kept);
    jbuf_text(out,
              ",\"background\":false,\"truncation\":\"disabled\",\"service_tier\":\"default\"");
    jbuf_key(out, "reasoning");
    jbuf_text(out, "{");
    echo(reasoning, "effort", "null", out);
    echo(reasoning, "summary", "null", out);
    echo_given(reasoning, "generate_summary", out);
    jbuf_text(out, "}");
    jbuf_key(out, "temperature");
    jbuf_real(out, (double)params->sampling.temperature, 4);
    jbuf_key(out, "top_p");
    jbuf_real(out, (double)params->sampling.top_p, 4);
    jbuf_key(out, "top_logprobs");
    jbuf_int(out, params->top_logprobs);
    jbuf_key(out, "text");
    jbuf_text(out, "{");
    echo(text, "format", "{\"type\":\"text\"}", out);
    echo_given(text, "verbosity", out);
    jbuf_text(out, "}");
    echo(body, "tool_choice", "\"auto\"", out);
    echo(body, "tools", "[]", out);
    echo_given(body, "prompt_cache_key", out);
    echo_given(body, "safety_identifier", out);
    echo_given(body, "user", out);
}

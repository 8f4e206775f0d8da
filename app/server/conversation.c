// Builds the messages that a template reads. Every piece is copied once: strings of a message are
// collected in buffers and become JSON when the next message begins.
#include "conversation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "custom_tools.h"
#include "helpers.h"
#include "template_input.h"

void conversation_init(struct conversation *conversation) {
    *conversation = (struct conversation){.messages = json_array(), .call_names = json_object()};
    conversation->failed = !conversation->messages || !conversation->call_names;
}

void conversation_deinit(struct conversation *conversation) {
    json_decref(conversation->messages);
    json_decref(conversation->tools);
    json_decref(conversation->variables);
    json_decref(conversation->custom);
    json_decref(conversation->calls);
    json_decref(conversation->call_names);
    jbuf_deinit(&conversation->text);
    jbuf_deinit(&conversation->reasoning);
    *conversation = (struct conversation){0};
}

// ---------------------------------------------------------------- messages

// Takes value over; NULL means that memory ran out for it.
static void put(struct conversation *conversation, json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value)) conversation->failed = true;
}

static void append(struct conversation *conversation, json_t *array, json_t *value) {
    if (json_array_append_new(array, value)) conversation->failed = true;
}

static json_t *string_of(struct conversation *conversation, const struct jbuf *buf) {
    if (buf->failed) conversation->failed = true;
    return json_stringn(buf->data ? buf->data : "", buf->len);
}

static void flush(struct conversation *conversation) {
    if (!conversation->role) return;
    json_t *message = json_object();
    put(conversation, message, "role", json_string(conversation->role));
    put(conversation, message, "content", string_of(conversation, &conversation->text));
    if (conversation->has_reasoning) {
        put(conversation, message, "reasoning_content",
            string_of(conversation, &conversation->reasoning));
    }
    if (conversation->result_id) {
        json_t *name = json_object_get(conversation->call_names, conversation->result_id);
        put(conversation, message, "tool_call_id", json_string(conversation->result_id));
        if (name) put(conversation, message, "name", json_incref(name));
    }
    if (conversation->calls) put(conversation, message, "tool_calls", conversation->calls);
    append(conversation, conversation->messages, message);
    conversation->calls = NULL;
    conversation->role = conversation->result_id = NULL;
    conversation->has_text = conversation->has_reasoning = false;
    jbuf_clear(&conversation->text);
    jbuf_clear(&conversation->reasoning);
}

void conversation_open(struct conversation *conversation, const char *role) {
    if (conversation->role && !strcmp(conversation->role, role)) return;
    flush(conversation);
    conversation->role = role;
}

bool conversation_open_result(struct conversation *conversation, const struct fields *fields,
                              const char *name) {
    const char *id;
    size_t len;
    if (!conversation_string(fields, name, INPUT_ID_BYTES_MAX, &id, &len)) return false;
    if (!conversation->failed && !json_object_get(conversation->call_names, id)) {
        char shown[JSON_SHOWN_BYTES];
        return field_refuse(fields, name, "%s is the id of no call before this result",
                            json_shown(json_object_get(fields->object, name), shown));
    }
    flush(conversation);
    conversation->role = "tool";
    conversation->result_id = id;
    return true;
}

static void add(struct jbuf *buf, bool *has, const char *text, size_t len) {
    if (*has) jbuf_bytes(buf, "\n", 1);
    jbuf_bytes(buf, text, len);
    *has = true;
}

void conversation_text(struct conversation *conversation, const char *text, size_t len) {
    add(&conversation->text, &conversation->has_text, text, len);
}

void conversation_reasoning(struct conversation *conversation, const char *text, size_t len) {
    add(&conversation->reasoning, &conversation->has_reasoning, text, len);
}

void conversation_call(struct conversation *conversation, const char *id, const char *name,
                       json_t *arguments) {
    json_t *function = json_object(), *call = json_object();
    put(conversation, function, "name", json_string(name));
    put(conversation, function, "arguments", json_incref(arguments));
    put(conversation, call, "id", json_string(id));
    put(conversation, call, "type", json_string("function"));
    put(conversation, call, "function", function);
    if (!conversation->calls) conversation->calls = json_array();
    append(conversation, conversation->calls, call);
    put(conversation, conversation->call_names, id, json_string(name));
}

void conversation_tool(struct conversation *conversation, const char *name, const char *description,
                       json_t *parameters) {
    json_t *function = json_object(), *tool = json_object();
    put(conversation, function, "name", json_string(name));
    if (description) put(conversation, function, "description", json_string(description));
    put(conversation, function, "parameters",
        parameters ? json_incref(parameters)
                   : json_pack("{s:s, s:{}}", "type", "object", "properties"));
    put(conversation, tool, "type", json_string("function"));
    put(conversation, tool, "function", function);
    if (!conversation->tools) conversation->tools = json_array();
    append(conversation, conversation->tools, tool);
}

void conversation_custom(struct conversation *conversation, json_t *function) {
    if (!custom_tool_note(&conversation->custom, function)) conversation->failed = true;
    if (!conversation->tools) conversation->tools = json_array();
    append(conversation, conversation->tools, function);
}

void conversation_variable(struct conversation *conversation, const char *name, json_t *value) {
    if (!conversation->variables) conversation->variables = json_object();
    put(conversation, conversation->variables, name, value);
}

void conversation_effort(struct conversation *conversation, const struct fields *body,
                         const char *name) {
    const json_t *object = json_object_get(body->object, name);
    const char *effort = json_string_value(json_object_get(object, "effort"));
    if (!effort) return;
    conversation_variable(conversation, "reasoning_effort", json_string(effort));
    if (!strcmp(effort, "none"))
        conversation_variable(conversation, "enable_thinking", json_false());
}

bool conversation_close(struct conversation *conversation, struct call *call) {
    flush(conversation);
    if (conversation->failed) return call_refuse_memory(call);
    return !call_refused(call);
}

// ---------------------------------------------------------------- reading

static bool refuse_value(const struct fields *fields, const char *name, const char *expected,
                         const json_t *value) {
    char shown[JSON_SHOWN_BYTES];
    if (!value) return field_refuse(fields, name, "is required: %s", expected);
    return field_refuse(fields, name, "expected %s, got %s", expected, json_shown(value, shown));
}

bool conversation_refuse(const struct fields *fields, const char *name, const char *expected) {
    return refuse_value(fields, name, expected, json_object_get(fields->object, name));
}

bool conversation_item(const struct fields *fields, const char *name, const json_t *array,
                       size_t index, char path[FIELD_PATH_BYTES], struct fields *out) {
    const json_t *item = json_array_get(array, index);
    char field[FIELD_PATH_BYTES / 2];
    snprintf(field, sizeof field, "%s[%zu]", name, index);
    if (!json_is_object(item)) return refuse_value(fields, field, "an object", item);
    const int len =
        snprintf(path, FIELD_PATH_BYTES, "%s%s%s", fields->path, *fields->path ? "." : "", field);
    if (len >= FIELD_PATH_BYTES) path[0] = '\0'; // no path of ours is so long
    *out = fields_of(fields->call, item, path);
    return !call_refused(fields->call);
}

bool conversation_tools(struct conversation *conversation, const struct fields *body,
                        bool (*read)(struct conversation *conversation,
                                     const struct fields *tool)) {
    enum { TOOLS_MAX = 1024 };
    const json_t *tools = NULL;
    if (!field_array(body, "tools", TOOLS_MAX, &tools)) return false;
    for (size_t i = 0; i < json_array_size(tools); i++) {
        char path[FIELD_PATH_BYTES];
        struct fields tool;
        if (!conversation_item(body, "tools", tools, i, path, &tool)) return false;
        if (!read(conversation, &tool)) return false;
    }
    return true;
}

bool conversation_string(const struct fields *fields, const char *name, size_t max,
                         const char **out, size_t *len) {
    *out = NULL;
    if (!field_string(fields, name, max, out, len)) return false;
    if (!*out) return field_refuse(fields, name, "is required: a string");
    if (!**out) return field_refuse(fields, name, "\"\" is empty");
    return true;
}

bool conversation_field(const struct fields *fields, const char *name, const char **out,
                        size_t *len) {
    *out = NULL;
    if (!field_text(fields, name, out, len)) return false;
    return *out || field_refuse(fields, name, "is required: a string");
}

bool conversation_type(const struct fields *fields, const char *types, const char *absent,
                       const char **out) {
    int index;
    *out = absent;
    if (!field_string(fields, "type", SIZE_MAX, out, NULL)) return false;
    if (!*out) return field_refuse(fields, "type", "is required: one of %s", types);
    if (field_is_media(*out)) return field_unsupported(fields, "type", false, CONTENT_TEXT_ALONE);
    return field_choice(fields, "type", types, &index);
}

bool conversation_parts(struct conversation *conversation, const struct fields *fields,
                        const char *name, const char *types) {
    const json_t *value = json_object_get(fields->object, name);
    if (json_is_string(value)) {
        conversation_text(conversation, json_string_value(value), json_string_length(value));
        return true;
    }
    if (!json_is_array(value)) return conversation_refuse(fields, name, "a string or an array");
    for (size_t i = 0; i < json_array_size(value); i++) {
        char path[FIELD_PATH_BYTES];
        struct fields part;
        const char *type, *text;
        size_t len;
        if (!conversation_item(fields, name, value, i, path, &part)) return false;
        if (!conversation_type(&part, types, NULL, &type)) return false;
        if (!conversation_field(&part, "text", &text, &len)) return false;
        conversation_text(conversation, text, len);
    }
    return true;
}

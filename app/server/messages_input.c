// From the body of an Anthropic request to a conversation for the template: blocks become texts,
// reasoning, tool calls and their results. Blocks that the model cannot read are refused, and the
// message names their place.
#include <stdio.h>
#include <string.h>

#include "messages.h"
#include "template_input.h"

enum { ROLE_USER, ROLE_ASSISTANT, ROLE_SYSTEM };
static const char roles[] = "user|assistant|system";
static const char *const role_name[] = {"user", "assistant", "system"};

// ---------------------------------------------------------------- blocks

static bool text_read(struct conversation *conversation, const struct fields *block, int role) {
    const char *text;
    size_t len;
    if (!conversation_field(block, "text", &text, &len)) return false;
    conversation_open(conversation, role_name[role]);
    conversation_text(conversation, text, len);
    return true;
}

static bool thinking_read(struct conversation *conversation, const struct fields *block, int role) {
    const char *text;
    size_t len;
    if (!conversation_field(block, "thinking", &text, &len)) return false;
    conversation_open(conversation, role_name[role]);
    conversation_reasoning(conversation, text, len);
    return true;
}

// Encrypted by its maker: there is nothing to read.
static bool redacted_read(struct conversation *conversation, const struct fields *block, int role) {
    (void)block;
    conversation_open(conversation, role_name[role]);
    return true;
}

static bool use_read(struct conversation *conversation, const struct fields *block, int role) {
    const char *id, *name;
    size_t len;
    json_t *input = json_object_get(block->object, "input");
    if (!conversation_string(block, "id", INPUT_ID_BYTES_MAX, &id, &len)) return false;
    if (!conversation_string(block, "name", INPUT_NAME_BYTES_MAX, &name, &len)) return false;
    if (!input || json_is_null(input)) return conversation_refuse(block, "input", "an object");
    conversation_open(conversation, role_name[role]);
    conversation_call(conversation, id, name, input);
    return true;
}

// ---------------------------------------------------------------- documents

// A field that may be absent, as text of the open message.
static bool note_read(struct conversation *conversation, const struct fields *block,
                      const char *name) {
    const char *text = NULL;
    size_t len;
    if (!field_text(block, name, &text, &len)) return false;
    if (text) conversation_text(conversation, text, len);
    return true;
}

static bool citations_check(const struct fields *block) {
    char place[FIELD_PATH_BYTES + 16];
    const json_t *citations = NULL;
    if (!field_object(block, "citations", &citations)) return false;
    if (!citations) return true;
    snprintf(place, sizeof place, "%s.citations", block->path);
    const struct fields fields = fields_of(block->call, citations, place);
    return field_unsupported(&fields, "enabled", true, "is not supported: ask for quotes in words");
}

static bool source_read(struct conversation *conversation, const struct fields *source) {
    static const char types[] = "text|content|base64|url|file";
    enum { TEXT, CONTENT };
    int type = -1, media = 0;
    const char *text;
    size_t len;
    if (!field_choice(source, "type", types, &type)) return false;
    if (type < 0) return field_refuse(source, "type", "is required: one of %s", types);
    if (type > CONTENT) return field_unsupported(source, "type", false, CONTENT_TEXT_ALONE);
    if (type == CONTENT) return conversation_parts(conversation, source, "content", "text");
    if (!field_choice(source, "media_type", "text/plain", &media)) return false;
    if (!conversation_field(source, "data", &text, &len)) return false;
    conversation_text(conversation, text, len);
    return true;
}

// A document of text, for the open message: its title, its context, its text.
static bool document_text(struct conversation *conversation, const struct fields *block) {
    char path[FIELD_PATH_BYTES + 16];
    const json_t *source = NULL;
    if (!citations_check(block)) return false;
    if (!field_object(block, "source", &source)) return false;
    if (!source) return field_refuse(block, "source", "is required: an object");
    snprintf(path, sizeof path, "%s.source", block->path);
    const struct fields fields = fields_of(block->call, source, path);
    return note_read(conversation, block, "title") && note_read(conversation, block, "context") &&
           source_read(conversation, &fields);
}

static bool document_read(struct conversation *conversation, const struct fields *block, int role) {
    conversation_open(conversation, role_name[role]);
    return document_text(conversation, block);
}

// ---------------------------------------------------------------- results of tools

static bool result_part_read(struct conversation *conversation, const struct fields *part) {
    const char *type, *text;
    size_t len;
    if (!conversation_type(part, "text|document", NULL, &type)) return false;
    if (!strcmp(type, "document")) return document_text(conversation, part);
    if (!conversation_field(part, "text", &text, &len)) return false;
    conversation_text(conversation, text, len);
    return true;
}

static bool result_read(struct conversation *conversation, const struct fields *block, int role) {
    (void)role;
    const json_t *content = json_object_get(block->object, "content");
    if (!conversation_open_result(conversation, block, "tool_use_id")) return false;
    if (!content || json_is_null(content)) return true;
    if (!json_is_array(content)) return conversation_parts(conversation, block, "content", "text");
    for (size_t i = 0; i < json_array_size(content); i++) {
        char path[FIELD_PATH_BYTES];
        struct fields part;
        if (!conversation_item(block, "content", content, i, path, &part)) return false;
        if (!result_part_read(conversation, &part)) return false;
    }
    return true;
}

static const struct block {
    const char *type;
    bool (*read)(struct conversation *conversation, const struct fields *block, int role);
} blocks[] = {
    {"text", text_read},    {"thinking", thinking_read},  {"redacted_thinking", redacted_read},
    {"tool_use", use_read}, {"tool_result", result_read}, {"document", document_read},
};

static bool block_read(struct conversation *conversation, const struct fields *block, int role) {
    static const char *const types[] = {
        [ROLE_USER] = "text|document|tool_result",
        [ROLE_ASSISTANT] = "text|thinking|redacted_thinking|tool_use",
        [ROLE_SYSTEM] = "text",
    };
    const char *type;
    size_t i = 0;
    if (!conversation_type(block, types[role], NULL, &type)) return false;
    while (strcmp(blocks[i].type, type) != 0) i++;
    return blocks[i].read(conversation, block, role);
}

// ---------------------------------------------------------------- messages

static bool message_read(struct conversation *conversation, const struct fields *message) {
    const json_t *content = json_object_get(message->object, "content");
    int role = -1;
    if (!field_choice(message, "role", roles, &role)) return false;
    if (role < 0) return field_refuse(message, "role", "is required: one of %s", roles);
    if (json_is_string(content)) {
        conversation_open(conversation, role_name[role]);
        conversation_text(conversation, json_string_value(content), json_string_length(content));
        return true;
    }
    if (!json_is_array(content)) {
        return conversation_refuse(message, "content", "a string or an array of blocks");
    }
    if (json_array_size(content) == 0) conversation_open(conversation, role_name[role]);
    for (size_t i = 0; i < json_array_size(content); i++) {
        char path[FIELD_PATH_BYTES];
        struct fields block;
        if (!conversation_item(message, "content", content, i, path, &block)) return false;
        if (!block_read(conversation, &block, role)) return false;
    }
    return true;
}

static bool system_read(struct conversation *conversation, const struct fields *body) {
    const json_t *system = json_object_get(body->object, "system");
    if (!system || json_is_null(system)) return true;
    conversation_open(conversation, role_name[ROLE_SYSTEM]);
    return conversation_parts(conversation, body, "system", "text");
}

// `name`: of the list, for refusals.
static bool list_read(struct conversation *conversation, const struct fields *body,
                      const char *name, const json_t *messages) {
    for (size_t i = 0; i < json_array_size(messages); i++) {
        char path[FIELD_PATH_BYTES];
        struct fields message;
        if (!conversation_item(body, name, messages, i, path, &message)) return false;
        if (!message_read(conversation, &message)) return false;
    }
    return true;
}

static bool messages_read(struct conversation *conversation, const struct fields *body,
                          const json_t *before) {
    const json_t *messages = NULL;
    if (!field_array(body, "messages", INPUT_ITEMS_MAX, &messages)) return false;
    if (!messages) return field_refuse(body, "messages", "is required: an array");
    const size_t n = json_array_size(messages);
    if (n == 0 && !before) return field_refuse(body, "messages", "[] is empty");
    if (!list_read(conversation, body, "thread.previous_message_id", before)) return false;
    if (!list_read(conversation, body, "messages", messages)) return false;
    if (conversation->calls) {
        char name[FIELD_PATH_BYTES] = "messages";
        if (n) snprintf(name, sizeof name, "messages[%zu].content", n - 1);
        return field_refuse(body, name, "ends with a tool_use that has no tool_result");
    }
    return true;
}

// ---------------------------------------------------------------- tools

static bool tool_read(struct conversation *conversation, const struct fields *tool) {
    const char *type, *name, *description = NULL;
    const json_t *schema = NULL;
    size_t len;
    if (!conversation_type(tool, "custom", "custom", &type)) return false;
    if (!conversation_string(tool, "name", INPUT_NAME_BYTES_MAX, &name, &len)) return false;
    if (!field_string(tool, "description", SIZE_MAX, &description, &len)) return false;
    if (!field_object(tool, "input_schema", &schema)) return false;
    if (!schema) return field_refuse(tool, "input_schema", "is required: an object");
    conversation_tool(conversation, name, description,
                      json_object_get(tool->object, "input_schema"));
    return true;
}

static bool tools_read(struct conversation *conversation, const struct fields *body) {
    if (!conversation_tools(conversation, body, tool_read)) return false;
    const json_t *choice = json_object_get(body->object, "tool_choice");
    const char *type = json_string_value(json_object_get(choice, "type"));
    if (type && !strcmp(type, "none")) {
        json_decref(conversation->tools);
        conversation->tools = NULL;
    }
    return true;
}

// How templates that know both ways are told.
static bool thinking_config_read(struct conversation *conversation, const struct fields *body) {
    enum { ENABLED, ADAPTIVE, BETWEEN_TOOLS, DISABLED };
    const json_t *thinking = NULL;
    int type = -1;
    if (!field_object(body, "thinking", &thinking)) return false;
    if (!thinking) return true;
    const struct fields fields = fields_of(body->call, thinking, "thinking");
    if (!field_choice(&fields, "type", "enabled|adaptive|between_tools|disabled", &type)) {
        return false;
    }
    if (type < 0) return field_refuse(&fields, "type", "is required: enabled or disabled");
    if (type != BETWEEN_TOOLS) {
        conversation_variable(conversation, "enable_thinking", json_boolean(type != DISABLED));
    }
    return true;
}

bool messages_input(struct call *call, const json_t *body, const json_t *before,
                    struct conversation *out) {
    const struct fields fields = fields_of(call, body, "");
    conversation_init(out);
    conversation_effort(out, &fields, "output_config");
    return system_read(out, &fields) && messages_read(out, &fields, before) &&
           tools_read(out, &fields) && thinking_config_read(out, &fields) &&
           conversation_close(out, call);
}

bool messages_prefill(struct conversation *conversation) {
    const size_t n = json_array_size(conversation->messages);
    const json_t *last = json_array_get(conversation->messages, n - 1);
    if (strcmp(json_string_value(json_object_get(last, "role")), role_name[ROLE_ASSISTANT]) != 0) {
        return false;
    }
    if (json_string_length(json_object_get(last, "content")) > 0) return true;
    if (n > 1) json_array_remove(conversation->messages, n - 1);
    return false;
}

// Checks a conversation and rewrites it for templates. Members that OpenAI's reference does not
// name (reasoning_content, thinking) are passed on as they are: a message is a copy of the client's
// with role, content and tool_calls replaced. Called by the prepare handlers.
#include "chat_messages.h"

#include <stdio.h>
#include <string.h>

#include "conversation.h"
#include "custom_tools.h"
#include "fields.h"
#include "helpers.h"
#include "json_edit.h"
#include "openai.h"
#include "template_input.h"

enum { MESSAGE_PATH_SIZE = 48, PATH_SIZE = 112, PARTS_MAX = 4096, TOOL_CALLS_MAX = 1024 };

static bool refuse_kind(struct call *call, const char *path, const char *expected,
                        const json_t *value) {
    char shown[JSON_SHOWN_BYTES];
    return call_refuse(call, 400, path, "invalid_type", "%s: expected %s, got %s", path, expected,
                       json_shown(value, shown));
}

// "messages[2].content[0]"
static void path_join(char *out, size_t size, const char *parent, const char *name, size_t index) {
    snprintf(out, size, "%s%s%s[%zu]", parent, *parent ? "." : "", name, index);
}

// ---------------------------------------------------------------- content

// Adds the text of a part of a content.
static bool part_read(struct call *call, const json_t *part, const char *path, struct jbuf *out) {
    if (!json_is_object(part)) return refuse_kind(call, path, "an object", part);
    const struct fields fields = fields_of(call, part, path);
    const char *type = NULL, *text = NULL;
    size_t len = 0;
    if (!json_is_given(part, "type")) return field_refuse(&fields, "type", "missing");
    if (!conversation_type(&fields, CONTENT_PART_TYPES, NULL, &type)) return false;
    const char *key = content_part_key(type);
    if (!field_text(&fields, key, &text, &len)) return false;
    if (!text) return field_refuse(&fields, key, "missing");
    jbuf_bytes(out, text, len);
    return true;
}

// The parts as one text, a line for each: most templates take a string only.
static bool parts_read(struct call *call, const json_t *parts, const char *path, json_t *message) {
    struct jbuf text = {0};
    const size_t n = json_array_size(parts);
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        char part_path[PATH_SIZE];
        path_join(part_path, sizeof part_path, path, "content", i);
        if (i) jbuf_bytes(&text, "\n", 1);
        ok = part_read(call, json_array_get(parts, i), part_path, &text);
    }
    if (ok) {
        ok = !text.failed ? json_edit_put(call, message, "content",
                                          json_stringn(text.data ? text.data : "", text.len))
                          : call_refuse_memory(call);
    }
    jbuf_deinit(&text);
    return ok;
}

static bool content_read(struct call *call, const json_t *from, const char *path, bool optional,
                         json_t *message) {
    const struct fields fields = fields_of(call, from, path);
    const json_t *content = json_object_get(from, "content");
    if (!content || json_is_null(content)) {
        if (!optional) return field_refuse(&fields, "content", "missing");
        return json_edit_put(call, message, "content",
                             json_string("")); // templates add it to texts
    }
    if (json_is_array(content)) {
        return field_array(&fields, "content", PARTS_MAX, &content) &&
               parts_read(call, content, path, message);
    }
    if (json_is_string(content)) return true;
    char shown[JSON_SHOWN_BYTES];
    return field_refuse(&fields, "content", "expected a string or an array of parts, got %s",
                        json_shown(content, shown));
}

// ---------------------------------------------------------------- tool calls

// Clients send arguments as JSON text, templates write an object themselves. Text that
// is no object stays as it is.
static bool arguments_read(struct call *call, const struct fields *fields, json_t *function) {
    const json_t *arguments = json_object_get(fields->object, "arguments");
    if (!arguments || json_is_null(arguments)) {
        return json_edit_put(call, function, "arguments", json_object());
    }
    if (json_is_object(arguments)) return true;
    if (!json_is_string(arguments)) {
        char shown[JSON_SHOWN_BYTES];
        return field_refuse(fields, "arguments", "expected a string of JSON, got %s",
                            json_shown(arguments, shown));
    }
    const size_t len = json_string_length(arguments);
    if (!len) return json_edit_put(call, function, "arguments", json_object());
    json_error_t problem;
    json_t *parsed = json_loadb(json_string_value(arguments), len, JSON_ALLOW_NUL, &problem);
    if (!parsed && !*problem.text) return call_refuse_memory(call); // jansson has no message for it
    if (json_is_object(parsed)) return json_edit_put(call, function, "arguments", parsed);
    json_decref(parsed);
    return true;
}

// The call of a custom tool is that of a function with one argument.
static json_t *custom_call_read(const struct fields *fields, const char *id) {
    char path[PATH_SIZE + 16];
    const json_t *custom = NULL;
    const char *name = NULL, *input = NULL;
    size_t len = 0, input_len = 0;
    if (!field_object(fields, "custom", &custom)) return NULL;
    if (!custom) return field_refuse(fields, "custom", "missing"), NULL;
    snprintf(path, sizeof path, "%s.custom", fields->path);
    const struct fields inner = fields_of(fields->call, custom, path);
    if (!field_string(&inner, "name", SIZE_MAX, &name, &len)) return NULL;
    if (!field_text(&inner, "input", &input, &input_len)) return NULL;
    if (!name || !input) return field_refuse(&inner, name ? "input" : "name", "missing"), NULL;
    json_t *call = json_pack("{s:s*, s:s, s:{s:s, s:o}}", "id", id, "type", "function", "function",
                             "name", name, "arguments", custom_tool_arguments(input, input_len));
    if (!call) call_refuse_memory(fields->call);
    return call;
}

// A call as templates take it, a new object; NULL: refused.
static json_t *tool_call_read(struct call *call, const json_t *from, const char *path) {
    if (!json_is_object(from)) return refuse_kind(call, path, "an object", from), NULL;
    const struct fields fields = fields_of(call, from, path);
    const json_t *function = NULL;
    const char *id = NULL, *name = NULL;
    size_t len;
    int type = 0;
    field_choice(&fields, "type", "function|custom", &type);
    field_string(&fields, "id", SIZE_MAX, &id, &len);
    if (call_refused(call)) return NULL;
    if (type == 1) return custom_call_read(&fields, id);
    if (!field_object(&fields, "function", &function)) return NULL;
    if (!function) return field_refuse(&fields, "function", "missing"), NULL;
    char inner_path[PATH_SIZE + 16];
    snprintf(inner_path, sizeof inner_path, "%s.function", path);
    const struct fields inner = fields_of(call, function, inner_path);
    if (!field_string(&inner, "name", SIZE_MAX, &name, &len)) return NULL;
    if (!name) return field_refuse(&inner, "name", "missing"), NULL;
    json_t *copy = json_edit_copy(call, from),
           *inner_copy = copy ? json_edit_copy(call, function) : NULL;
    if (inner_copy && arguments_read(call, &inner, inner_copy) &&
        json_edit_put(call, copy, "function", json_incref(inner_copy))) {
        json_decref(inner_copy);
        return copy;
    }
    json_decref(copy);
    json_decref(inner_copy);
    return NULL;
}

static bool tool_calls_read(struct call *call, const json_t *from, const char *path,
                            json_t *message) {
    const struct fields fields = fields_of(call, from, path);
    const json_t *calls = NULL;
    if (!field_array(&fields, "tool_calls", TOOL_CALLS_MAX, &calls)) return false;
    if (!calls || !json_array_size(calls)) { // templates ask whether the key is there
        json_object_del(message, "tool_calls");
        return true;
    }
    json_t *list = json_array();
    bool ok = list || call_refuse_memory(call);
    for (size_t i = 0; ok && i < json_array_size(calls); i++) {
        char call_path[PATH_SIZE];
        path_join(call_path, sizeof call_path, path, "tool_calls", i);
        json_t *one = tool_call_read(call, json_array_get(calls, i), call_path);
        ok = one && (json_array_append_new(list, one) == 0 || call_refuse_memory(call));
    }
    if (ok) return json_edit_put(call, message, "tool_calls", list);
    json_decref(list);
    return false;
}

// ---------------------------------------------------------------- messages

enum { ROLE_SYSTEM, ROLE_DEVELOPER, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL, ROLE_FUNCTION };
static const char role_choices[] = "system|developer|user|assistant|tool|function";

// Their names in templates.
static const char *const role_names[] = {
    [ROLE_SYSTEM] = "system",       [ROLE_DEVELOPER] = "system", [ROLE_USER] = "user",
    [ROLE_ASSISTANT] = "assistant", [ROLE_TOOL] = "tool",        [ROLE_FUNCTION] = "tool"};

static bool message_fill(struct call *call, const json_t *from, const char *path, json_t *message) {
    const struct fields fields = fields_of(call, from, path);
    const char *text;
    size_t len;
    int role = -1;
    if (!field_choice(&fields, "role", role_choices, &role)) return false;
    if (role < 0) return field_refuse(&fields, "role", "missing");
    if (!field_string(&fields, "name", SIZE_MAX, &text, &len)) return false;
    if (!field_string(&fields, "tool_call_id", SIZE_MAX, &text, &len)) return false;
    if (!field_unsupported(&fields, "function_call", false, "use tool_calls")) return false;
    const bool has_calls =
        role == ROLE_ASSISTANT && json_array_size(json_object_get(from, "tool_calls"));
    if (!content_read(call, from, path, has_calls, message)) return false;
    if (role == ROLE_ASSISTANT && !tool_calls_read(call, from, path, message)) return false;
    return json_edit_put(call, message, "role", json_string(role_names[role]));
}

// ---------------------------------------------------------------- results of calls

// The calls of the messages so far.
struct calls {
    json_t *ids;    // an object
    bool any;       // there is a call
    bool anonymous; // there is one without an id
};

static bool calls_add(struct call *call, const json_t *message, struct calls *calls) {
    const json_t *list = json_object_get(message, "tool_calls");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *id = json_string_value(json_object_get(json_array_get(list, i), "id"));
        calls->any = true;
        calls->anonymous |= !id || !*id;
        if (id && json_object_set_new(calls->ids, id, json_true())) return call_refuse_memory(call);
    }
    return true;
}

// A result without its call is refused, as OpenAI does it. Ollama's results have no ids, and its
// server takes them without their calls. A function's result is the older form, whose calls are
// refused.
static bool result_check(struct call *call, const json_t *message, const char *path,
                         const struct calls *calls) {
    const char *role = json_string_value(json_object_get(message, "role"));
    if (strcmp(role, "tool") != 0 || call_api_of(call) == API_OLLAMA) return true;
    const struct fields fields = fields_of(call, message, path);
    const json_t *value = json_object_get(message, "tool_call_id");
    const char *id = json_string_value(value);
    char shown[JSON_SHOWN_BYTES];
    if (!calls->any)
        return field_refuse(&fields, "role",
                            "messages with role 'tool' must be a response to a preceding message "
                            "with 'tool_calls'"); // OpenAI's words
    if (!id || !*id || calls->anonymous || json_object_get(calls->ids, id)) return true;
    return field_refuse(&fields, "tool_call_id", "%s is the id of no call before this result",
                        json_shown(value, shown));
}

// ---------------------------------------------------------------- all messages

static bool messages_fill(struct call *call, const json_t *from, struct calls *calls, json_t *out) {
    for (size_t i = 0; i < json_array_size(from); i++) {
        char path[MESSAGE_PATH_SIZE];
        path_join(path, sizeof path, "", "messages", i);
        const json_t *one = json_array_get(from, i);
        if (!json_is_object(one)) return refuse_kind(call, path, "an object", one);
        json_t *message = json_edit_copy(call, one);
        if (!message) return false;
        if (!message_fill(call, one, path, message) || !calls_add(call, message, calls) ||
            !result_check(call, one, path, calls)) {
            json_decref(message);
            return false;
        }
        if (json_array_append_new(out, message)) return call_refuse_memory(call);
    }
    return true;
}

static bool messages_read(const struct fields *body, struct chat_messages *out) {
    const json_t *messages = NULL;
    if (!field_array(body, "messages", MESSAGES_MAX, &messages)) return false;
    if (!messages) return field_refuse(body, "messages", "missing");
    if (!json_array_size(messages))
        return field_refuse(body, "messages", "empty, expected at least one");
    out->messages = json_array();
    struct calls calls = {.ids = json_object()};
    const bool ok = (out->messages && calls.ids) || call_refuse_memory(body->call);
    const bool filled = ok && messages_fill(body->call, messages, &calls, out->messages);
    json_decref(calls.ids);
    return filled;
}

// ---------------------------------------------------------------- tools

static bool function_check(const struct fields *fields) {
    const json_t *parameters = NULL;
    const char *name = NULL, *text = NULL;
    size_t len = 0;
    if (!field_string(fields, "name", TOOL_NAME_MAX, &name, &len)) return false;
    if (!name || !*name) return field_refuse(fields, "name", name ? "empty" : "missing");
    return field_string(fields, "description", SIZE_MAX, &text, &len) &&
           field_object(fields, "parameters", &parameters);
}

// Adds the tool to out->tools, a custom one as a function.
static bool tool_read(struct call *call, const json_t *tool, size_t index,
                      struct chat_messages *out) {
    static const char *const types[] = {"function", "custom"};
    char path[MESSAGE_PATH_SIZE], inner_path[PATH_SIZE];
    path_join(path, sizeof path, "", "tools", index);
    if (!json_is_object(tool)) return refuse_kind(call, path, "an object", tool);
    const struct fields fields = fields_of(call, tool, path);
    const json_t *body = NULL;
    json_t *function = NULL;
    int type = -1;
    if (!field_choice(&fields, "type", "function|custom", &type)) return false;
    if (type < 0) return field_refuse(&fields, "type", "missing");
    if (!field_object(&fields, types[type], &body)) return false;
    if (!body) return field_refuse(&fields, types[type], "missing");
    snprintf(inner_path, sizeof inner_path, "%s.%s", path, types[type]);
    const struct fields inner = fields_of(call, body, inner_path);
    if (type == 0) {
        if (!function_check(&inner)) return false;
        function = json_incref((json_t *)tool);
    } else {
        function = custom_tool_function(&inner, TOOL_NAME_MAX);
        if (!function) return false;
        if (!custom_tool_note(&out->custom, function)) {
            json_decref(function);
            return call_refuse_memory(call);
        }
    }
    return json_array_append_new(out->tools, function) == 0 || call_refuse_memory(call);
}

static bool tools_read(const struct fields *body, struct chat_messages *out) {
    const json_t *tools = NULL;
    if (!field_array(body, "tools", TOOLS_MAX, &tools)) return false;
    const size_t n = tools ? json_array_size(tools) : 0;
    out->tools = n ? json_array() : NULL;
    if (n && !out->tools) return call_refuse_memory(body->call);
    for (size_t i = 0; i < n; i++) {
        if (!tool_read(body->call, json_array_get(tools, i), i, out)) return false;
    }
    const char *choice = json_string_value(json_object_get(body->object, "tool_choice"));
    if (choice && !strcmp(choice, "none")) {
        json_decref(out->tools);
        out->tools = NULL;
    }
    return true;
}

// ---------------------------------------------------------------- the template's side

// Whether a tag of the template names the variable; its text may have the word too.
static bool template_reads(const char *source, const char *name) {
    for (const char *at = source; at && (at = strchr(at, '{')); at++) {
        const char *end = at[1] == '%' ? strstr(at, "%}") : at[1] == '{' ? strstr(at, "}}") : NULL;
        const char *word = end ? strstr(at, name) : NULL;
        if (word && word < end) return true;
        if (end) at = end;
    }
    return false;
}

// Texts that the answer is to be based on: for templates that put them into the prompt.
static bool documents_read(const struct fields *body, struct chat_messages *out) {
    const json_t *documents = NULL;
    char item[48], shown[JSON_SHOWN_BYTES];
    if (!field_array(body, "documents", DOCUMENTS_MAX, &documents)) return false;
    if (!json_array_size(documents)) return true;
    if (!template_reads(body->call->served->tmpl_source, "documents"))
        return field_refuse(body, "documents",
                            "the model's chat template takes none: put their texts into a message");
    for (size_t i = 0; i < json_array_size(documents); i++) {
        const json_t *document = json_array_get(documents, i);
        snprintf(item, sizeof item, "documents[%zu]", i);
        if (!json_is_object(document))
            return field_refuse(body, item,
                                "expected an object such as {\"title\": ..., "
                                "\"text\": ...}, got %s",
                                json_shown(document, shown));
    }
    if (json_object_get(out->variables, "documents"))
        return field_refuse(body, "documents", "chat_template_kwargs has documents, too");
    if (!out->variables) out->variables = json_object();
    if (!out->variables) return call_refuse_memory(body->call);
    return json_edit_put(body->call, out->variables, "documents",
                         json_incref((json_t *)(uintptr_t)documents));
}

static bool variables_read(const struct fields *body, struct chat_messages *out) {
    const json_t *given = NULL;
    const char *effort = NULL;
    size_t len;
    if (!field_object(body, "chat_template_kwargs", &given)) return false;
    if (!field_string(body, "reasoning_effort", 32, &effort, &len)) return false;
    const char *taken = template_variables_taken(given);
    if (taken)
        return field_refuse(body, "chat_template_kwargs", "%s has a field of its own", taken);
    if (!given && !effort) return true;
    out->variables = given ? json_edit_copy(body->call, given) : json_object();
    if (!out->variables) return call_refuse_memory(body->call);
    if (!effort || json_object_get(out->variables, "reasoning_effort")) return true;
    if (!strcmp(effort, "none") && !json_object_get(out->variables, "enable_thinking") &&
        !json_edit_put(body->call, out->variables, "enable_thinking", json_false()))
        return false;
    return json_edit_put(body->call, out->variables, "reasoning_effort", json_string(effort));
}

// If a conversation ends with an assistant's text, that text is the start of the answer, unless the
// client says otherwise.
static bool ending_read(const struct fields *body, struct chat_messages *out) {
    const bool says_add = json_is_given(body->object, "add_generation_prompt");
    const bool says_continue = json_is_given(body->object, "continue_final_message");
    bool add = true, go_on = false;
    if (!field_bool(body, "add_generation_prompt", &add)) return false;
    if (!field_bool(body, "continue_final_message", &go_on)) return false;
    const json_t *last = json_array_get(out->messages, json_array_size(out->messages) - 1);
    const bool begun = !strcmp(json_string_value(json_object_get(last, "role")), "assistant") &&
                       !json_object_get(last, "tool_calls");
    if (go_on && says_add && add) {
        return field_refuse(body, "continue_final_message",
                            "true together with add_generation_prompt: true");
    }
    if (go_on && !begun) {
        return field_refuse(body, "continue_final_message",
                            "true, but the last message is not an assistant's text");
    }
    out->continue_final = go_on || (begun && !says_continue && !(says_add && add));
    out->add_generation_prompt = add && !out->continue_final;
    return true;
}

bool chat_messages_read(struct call *call, const json_t *body, struct chat_messages *out) {
    *out = (struct chat_messages){0};
    const struct fields fields = fields_of(call, body, "");
    if (field_unsupported(&fields, "chat_template", false,
                          "is not taken: the server's template is used") &&
        messages_read(&fields, out) && tools_read(&fields, out) && variables_read(&fields, out) &&
        documents_read(&fields, out) && ending_read(&fields, out)) {
        return true;
    }
    chat_messages_deinit(out);
    return false;
}

void chat_messages_deinit(struct chat_messages *chat) {
    json_decref(chat->messages);
    json_decref(chat->tools);
    json_decref(chat->variables);
    json_decref(chat->custom);
    *chat = (struct chat_messages){0};
}

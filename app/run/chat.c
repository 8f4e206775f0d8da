// Messages in, token ids out. Messages are kept as the JSON that templates see. Called by `runnel
// run` and by its conversation.
#include "run/chat.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"
#include "run/templates.h"
#include "server/answer_types.h"
#include "server/jbuf.h"
#include "server/template_input.h"

// ---------------------------------------------------------------- files

static int array_load(const char *path, json_t **out) {
    struct text text;
    const int code = source_read(path, TEXT_LIMIT, &text);
    if (code) return code;
    json_error_t problem;
    json_t *array = json_loadb(text.data, text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &problem);
    text_free(&text);
    if (!array && json_no_memory(&problem)) return app_fail(APP_FAILED, "out of memory");
    if (!array) {
        return app_fail(APP_USAGE, "%s: line %d: %s", err_path(path), problem.line, problem.text);
    }
    if (!json_is_array(array)) {
        app_fail(APP_USAGE, "%s: not a JSON array: it is %s", err_path(path), json_kind(array));
        json_decref(array);
        return APP_USAGE;
    }
    *out = array;
    return APP_OK;
}

static bool is_system(const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && !strcmp(role, "system");
}

// Where a part of a content stands, for messages.
struct part_place {
    const char *path;
    size_t message, part; // from 1
};

// Adds the text of a part.
static int part_read(const struct part_place *at, const json_t *part, struct jbuf *out) {
    const char *type = json_string_value(json_object_get(part, "type"));
    const char *key = type ? content_part_key(type) : NULL;
    const json_t *text = key ? json_object_get(part, key) : NULL;
    char why[160];
    if (json_is_string(text)) {
        jbuf_bytes(out, json_string_value(text), json_string_length(text));
        return APP_OK;
    }
    if (!json_is_object(part))
        snprintf(why, sizeof why, "is %s, not an object", json_kind(part));
    else if (!type)
        snprintf(why, sizeof why, "has no type");
    else if (!key)
        snprintf(why, sizeof why, "type \"%s\" " CONTENT_TEXT_ALONE, app_short(type).text);
    else
        snprintf(why, sizeof why, "has no %s", key);
    return app_fail(APP_USAGE, "%s: message %zu, part %zu of its content: %s", at->path,
                    at->message, at->part, why);
}

// A content of parts becomes one text, a line for each part, as in requests.
static int parts_join(const char *path, size_t number, json_t *message) {
    const json_t *parts = json_object_get(message, "content");
    struct jbuf text = {0};
    int code = APP_OK;
    if (!json_is_array(parts)) return APP_OK;
    for (size_t i = 0; !code && i < json_array_size(parts); i++) {
        const struct part_place at = {path, number, i + 1};
        if (i) jbuf_bytes(&text, "\n", 1);
        code = part_read(&at, json_array_get(parts, i), &text);
    }
    json_t *joined = code || text.failed ? NULL : json_text(text.data ? text.data : "", text.len);
    if (!code && json_object_set_new(message, "content", joined))
        code = app_fail(APP_FAILED, "out of memory");
    jbuf_deinit(&text);
    return code;
}

// Checks the messages, which are counted from 1, and joins the parts of contents.
static int messages_read(const struct chat *chat, const char *path, const json_t *messages) {
    const char *name = err_path(path);
    if (json_array_size(messages) == 0) return app_fail(APP_USAGE, "%s: no messages", name);
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *message = json_array_get(messages, i);
        if (!json_is_object(message)) {
            return app_fail(APP_USAGE, "%s: message %zu is %s, not an object", name, i + 1,
                            json_kind(message));
        }
        if (!json_is_string(json_object_get(message, "role"))) {
            return app_fail(APP_USAGE, "%s: message %zu has no role", name, i + 1);
        }
        const int code = parts_join(name, i + 1, message);
        if (code) return code;
    }
    if (chat_system(chat) && is_system(json_array_get(messages, 0))) {
        return app_fail(APP_USAGE, "%s: message 1 is a system message, and --system gives another",
                        name);
    }
    return APP_OK;
}

int chat_load(struct chat *chat, const char *path) {
    json_t *messages = NULL;
    int code = array_load(path, &messages);
    if (!code) code = messages_read(chat, path, messages);
    if (!code && json_array_extend(chat->messages, messages)) {
        code = app_fail(APP_FAILED, "out of memory");
    }
    json_decref(messages);
    return code;
}

// A file of something else would be tools without names to the template. They are counted from 1.
static int tools_check(const char *path, const json_t *tools) {
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i);
        const json_t *name = json_object_get(json_object_get(tool, "function"), "name");
        if (!json_is_object(tool)) {
            return app_fail(APP_USAGE, "%s: tool %zu is %s, not an object", err_path(path), i + 1,
                            json_kind(tool));
        }
        if (!json_is_string(name)) {
            return app_fail(APP_USAGE, "%s: tool %zu has no function with a name", err_path(path),
                            i + 1);
        }
    }
    return APP_OK;
}

static int tools_load(struct chat *chat, const char *path) {
    json_t *tools = NULL;
    int code = path ? array_load(path, &tools) : APP_OK;
    if (!code) code = tools_check(path, tools);
    if (code || !tools) {
        json_decref(tools);
        return code;
    }
    chat->tools = json_dumps(tools, JSON_COMPACT | JSON_REAL_PRECISION(17));
    chat->types = answer_types_of(tools);
    json_decref(tools);
    return chat->tools && chat->types ? APP_OK : app_fail(APP_FAILED, "out of memory");
}

// ---------------------------------------------------------------- template

// An error of the template, which its file names where it has one.
static int template_fail(const char *path, rn_error *err) {
    if (path) err_prefix(err, err_path(path));
    return app_fail_error(err);
}

// The text of --chat-template: a name of ours, or a file.
static int template_read(const char *name, struct text *out) {
    const char *ours = template_find(name);
    if (ours) {
        out->data = strdup(ours);
        out->len = strlen(ours);
        return out->data ? APP_OK : app_fail(APP_FAILED, "out of memory");
    }
    if (!strpbrk(name, "/.") && access(name, F_OK)) {
        return app_fail(
            APP_USAGE,
            "--chat-template: '%s' is neither a file nor a template of ours: " CHAT_TEMPLATE_NAMES,
            app_short(name).text);
    }
    const int code = source_read(name, TEXT_LIMIT, out);
    if (code) return code;
    if (strlen(out->data) == out->len) return APP_OK;
    text_free(out);
    return app_fail(APP_USAGE, "%s: holds a NUL byte", err_path(name));
}

int chat_template_open(const rn_model *model, const char *name, rn_chat_template **out,
                       char **source) {
    struct text text = {0};
    const int code = name ? template_read(name, &text) : APP_OK;
    if (code) return code;
    rn_error err = {0};
    const rn_status status = rn_chat_template_create(model, text.data, out, &err);
    if (status || !source) text_free(&text);
    if (source) *source = text.data;
    return status == RN_OK ? APP_OK : template_fail(name, &err);
}

// Where a template has no tools, the model would never see them.
static int template_load(struct chat *chat, const char *name, bool needs_tools) {
    chat->template_path = name;
    if (!name && !rn_model_chat_template(chat->model)) {
        return app_fail(APP_USAGE, "%s: the model has no chat template; --chat-template gives one",
                        err_path(rn_model_get_info(chat->model)->path));
    }
    char *source = NULL;
    const int code = chat_template_open(chat->model, name, &chat->tmpl, &source);
    if (code) return code;
    const char *text = source ? source : rn_model_chat_template(chat->model);
    const bool has_tools = strstr(text, "tools") != NULL;
    chat->marks = answer_marks_of(text);
    free(source);
    return !needs_tools || has_tools
               ? APP_OK
               : app_fail(APP_USAGE, "--tools: the chat template knows no tools; --chat-template "
                                     "gives another");
}

int chat_variables_get(const struct options *options, char **out) {
    const char *text = option_text(options, OPT_CHAT_TEMPLATE_KWARGS);
    char buffer[OPTION_NAME_SIZE];
    json_error_t problem;
    *out = NULL;
    if (!text) return APP_OK;
    const char *name = option_name(options, OPT_CHAT_TEMPLATE_KWARGS, buffer);
    json_t *given = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &problem);
    if (!given && json_no_memory(&problem)) return app_fail(APP_FAILED, "out of memory");
    if (!given)
        return app_fail(APP_USAGE, "%s: '%s' is not a JSON object: %s", name, app_short(text).text,
                        problem.text);
    const char *taken = template_variables_taken(given);
    int code = APP_OK;
    if (!json_is_object(given))
        code = app_fail(APP_USAGE, "%s: '%s' is %s, not an object", name, app_short(text).text,
                        json_kind(given));
    else if (taken)
        code = app_fail(APP_USAGE, "%s: %s is set by the program", name, taken);
    else if (!template_variables_text(NULL, given, out))
        code = app_fail(APP_FAILED, "out of memory");
    json_decref(given);
    return code;
}

int chat_open(struct chat *chat, const struct options *options, const rn_model *model) {
    *chat = (struct chat){
        .model = model,
        .messages = json_array(),
        .flags = RN_TOKENIZE_GUARDED | (option_flag(options, OPT_NO_BOS) ? 0 : RN_TOKENIZE_BOS) |
                 (option_flag(options, OPT_NO_SPECIAL) ? 0 : RN_TOKENIZE_SPECIAL),
    };
    const char *system = option_text(options, OPT_SYSTEM);
    const char *tools = option_text(options, OPT_TOOLS);
    int code = template_load(chat, option_text(options, OPT_CHAT_TEMPLATE), tools != NULL);
    if (!code) code = tools_load(chat, tools);
    if (!code) code = chat_variables_get(options, &chat->variables);
    if (!code && (!chat->messages || !chat_set_system(chat, system ? system : ""))) {
        code = app_fail(APP_FAILED, "out of memory");
    }
    if (code) chat_close(chat);
    return code;
}

void chat_close(struct chat *chat) {
    rn_chat_template_destroy(chat->tmpl);
    json_decref(chat->messages);
    free(chat->tools);
    free(chat->variables);
    json_decref(chat->types);
    *chat = (struct chat){0};
}

// ---------------------------------------------------------------- messages

bool chat_append(struct chat *chat, json_t *message) {
    return json_array_append_new(chat->messages, message) == 0;
}

bool chat_add(struct chat *chat, const char *role, const char *text, size_t len) {
    json_t *content = json_text(text, len);
    return chat_append(chat,
                       content ? json_pack("{s:s, s:o}", "role", role, "content", content) : NULL);
}

void chat_drop(struct chat *chat) {
    json_array_remove(chat->messages, json_array_size(chat->messages) - 1);
}

void chat_reset(struct chat *chat) {
    const size_t kept = chat_system(chat) ? 1 : 0;
    while (json_array_size(chat->messages) > kept) chat_drop(chat);
}

static bool is_user(const struct chat *chat, size_t index) {
    const json_t *message = json_array_get(chat->messages, index);
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && !strcmp(role, "user");
}

bool chat_drop_oldest(struct chat *chat) {
    const size_t first = chat_system(chat) ? 1 : 0, n = json_array_size(chat->messages);
    size_t end = first + 1;
    while (end < n && !is_user(chat, end)) end++;
    if (end >= n) return false;
    for (size_t i = first; i < end; i++) json_array_remove(chat->messages, first);
    return true;
}

bool chat_drop_turn(struct chat *chat) {
    if (!chat_turns(chat)) return false;
    while (!is_user(chat, json_array_size(chat->messages) - 1)) chat_drop(chat);
    chat_drop(chat);
    return true;
}

size_t chat_turns(const struct chat *chat) {
    size_t turns = 0;
    for (size_t i = 0; i < json_array_size(chat->messages); i++) turns += is_user(chat, i);
    return turns;
}

bool chat_is_answered(const struct chat *chat) {
    const size_t n = json_array_size(chat->messages);
    return n == 0 || !is_user(chat, n - 1);
}

const json_t *chat_open_call(const struct chat *chat, size_t *left) {
    size_t at = json_array_size(chat->messages), n_results = 0;
    const json_t *calls = NULL;
    for (; at > 0 && !calls; at--) {
        const json_t *message = json_array_get(chat->messages, at - 1);
        const char *role = json_string_value(json_object_get(message, "role"));
        calls = json_object_get(message, "tool_calls");
        if (!calls && (!role || strcmp(role, "tool") != 0)) break;
        n_results += !calls;
    }
    const size_t n = json_array_size(calls);
    *left = n > n_results ? n - n_results : 0;
    return *left ? json_array_get(calls, n_results) : NULL;
}

bool chat_add_result(struct chat *chat, const json_t *call, const char *text) {
    const json_t *function = json_object_get(call, "function");
    const char *id = json_string_value(json_object_get(call, "id"));
    const char *name = json_string_value(json_object_get(function, "name"));
    json_t *content = json_text(text, strlen(text));
    return chat_append(chat, json_pack("{s:s,s:s*,s:s*,s:o}", "role", "tool", "tool_call_id", id,
                                       "name", name, "content", content));
}

const char *chat_system(const struct chat *chat) {
    const json_t *first = json_array_get(chat->messages, 0);
    return is_system(first) ? json_string_value(json_object_get(first, "content")) : NULL;
}

bool chat_set_system(struct chat *chat, const char *text) {
    json_array_clear(chat->messages);
    return !*text || chat_add(chat, "system", text, strlen(text));
}

// Templates that write the date expect the user's local date.
static int64_t local_now(void) {
    const time_t now = time(NULL);
    struct tm local;
    return (int64_t)now + (localtime_r(&now, &local) ? (int64_t)local.tm_gmtoff : 0);
}

int chat_tokens(const struct chat *chat, bool answer, int32_t **ids, size_t *n_ids,
                rn_reasoning *reasoning) {
    char *messages = json_dumps(chat->messages, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (!messages) return app_fail(APP_FAILED, "out of memory");
    const rn_chat request = {.messages = messages,
                             .tools = chat->tools,
                             .variables = chat->variables,
                             .add_generation_prompt = answer,
                             .guard = true,
                             .now = local_now()};
    rn_error err = {0};
    char *text = NULL;
    size_t len = 0;
    rn_status status = rn_chat_render(chat->tmpl, &request, &text, &len, &err);
    free(messages);
    // a template may refuse these messages and still be valid
    if (status == RN_ERR_ARG) return app_fail(APP_FAILED, "%s", err.message);
    if (status) return template_fail(chat->template_path, &err);
    if (reasoning)
        answer_marks_bound(&chat->marks, answer_marks_opened(&chat->marks, text, len),
                           chat->tools != NULL, reasoning);
    status = rn_tokenize(chat->model, text, len, chat->flags, ids, n_ids, &err);
    rn_free(text);
    return status ? app_fail_error(&err) : APP_OK;
}

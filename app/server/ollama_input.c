// From the requests of Ollama's API to prompts. A conversation is rewritten as OpenAI's clients
// send it, and read as theirs are.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generation_shape.h"
#include "json_edit.h"
#include "ollama.h"
#include "prompt_ids.h"
#include "template_input.h"

// ---------------------------------------------------------------- keep_alive

// A duration as Go writes it: "1h30m", "1.5s", "-1m", "0". False: it is none.
static bool duration_read(const char *text, double *seconds) {
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"\xC2\xB5s", 1e-6}, {"ms", 1e-3},
                 {"s", 1},     {"m", 60},    {"h", 3600}};
    const double sign = *text == '-' ? -1 : 1;
    *seconds = 0;
    text += *text == '-' || *text == '+';
    if (!strcmp(text, "0")) return true;
    if (!*text) return false;
    while (*text) {
        char *end;
        const double number = strtod(text, &end);
        const size_t len = strcspn(end, ".0123456789");
        double unit = 0;
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (strlen(units[i].name) == len && !strncmp(units[i].name, end, len))
                unit = units[i].seconds;
        if (end == text || end != text + strspn(text, ".0123456789") || unit == 0) return false;
        *seconds += sign * number * unit;
        text = end + len;
    }
    return true;
}

// Seconds, or a duration. False: it is neither.
static bool keep_alive_read(const json_t *value, double *seconds) {
    if (json_is_string(value)) return duration_read(json_string_value(value), seconds);
    *seconds = json_number_value(value);
    return json_is_number(value);
}

struct served_stay ollama_stay(const json_t *body) {
    struct served_stay stay = {0};
    const json_t *value = json_object_get(body, "keep_alive");
    stay.is_given = value && keep_alive_read(value, &stay.seconds);
    return stay;
}

bool ollama_unloads(const json_t *body) {
    const struct served_stay stay = ollama_stay(body);
    return stay.is_given && stay.seconds == 0;
}

// ---------------------------------------------------------------- think

static bool thinks(const json_t *think) {
    return think && !json_is_null(think) && !json_is_false(think);
}

bool ollama_fields(struct call *call, const json_t *body) {
    const struct fields fields = fields_of(call, body, "");
    const struct answer_marks *marks = &call->served->marks;
    const json_t *keep = json_object_get(body, "keep_alive");
    double seconds;
    if (thinks(json_object_get(body, "think")) && !marks->reasoning.open && !marks->harmony) {
        return call_refuse(call, 400, "think", "unsupported_value",
                           "\"%.200s\" does not support thinking", call->served->name);
    }
    if (keep && !json_is_null(keep) && !keep_alive_read(keep, &seconds)) {
        char shown[JSON_SHOWN_BYTES];
        return field_refuse(&fields, "keep_alive",
                            "expected seconds or a duration such as \"5m\", got %s",
                            json_shown(keep, shown));
    }
    return true;
}

// The template's variables: the request's own, and its `think`. NULL: refused.
static json_t *variables_make(struct call *call, const json_t *body) {
    const struct fields fields = fields_of(call, body, "");
    const json_t *given = NULL, *think = json_object_get(body, "think");
    if (!field_object(&fields, "chat_template_kwargs", &given)) return NULL;
    json_t *variables = given ? json_edit_copy(call, given) : json_object();
    bool ok = variables || call_refuse_memory(call);
    if (ok && think && !json_is_null(think)) {
        ok = json_edit_put(call, variables, "enable_thinking", json_boolean(thinks(think))) &&
             json_edit_put(call, variables, "thinking", json_boolean(thinks(think)));
    }
    if (ok && json_is_string(think)) {
        const char *level = json_string_value(think);
        // harmony knows three levels
        const bool is_high = call->served->marks.harmony && !strcmp(level, "max");
        ok = json_edit_put(call, variables, "reasoning_effort",
                           json_string(is_high ? "high" : level));
    }
    if (ok) return variables;
    json_decref(variables);
    return NULL;
}

// ---------------------------------------------------------------- chat

// The member `from` is called `to` by templates.
static bool rename_member(struct call *call, json_t *message, const char *from, const char *to) {
    json_t *value = json_object_get(message, from);
    if (!json_is_string(value)) return true;
    const bool ok = json_edit_put(call, message, to, json_incref(value));
    json_object_del(message, from);
    return ok;
}

// A message as OpenAI's clients write it; NULL: refused.
static json_t *message_make(struct call *call, const json_t *from, size_t index) {
    char path[48];
    snprintf(path, sizeof path, "messages[%zu]", index);
    const struct fields fields = fields_of(call, from, path);
    if (json_array_size(json_object_get(from, "images"))) {
        field_unsupported(&fields, "images", false, CONTENT_TEXT_ALONE);
        return NULL;
    }
    json_t *message = json_edit_copy(call, from);
    if (!message) return NULL;
    json_object_del(message, "images");
    if (rename_member(call, message, "thinking", "reasoning_content") &&
        rename_member(call, message, "tool_name", "name") &&
        (json_is_given(from, "content") ||
         json_edit_put(call, message, "content", json_string(""))))
        return message;
    json_decref(message);
    return NULL;
}

// The reader of chat messages refuses a list that is none, and items that are no objects.
static json_t *messages_make(struct call *call, json_t *from) {
    if (!json_is_array(from)) return json_incref(from);
    json_t *list = json_array(), *item;
    size_t i;
    bool ok = list || call_refuse_memory(call);
    json_array_foreach(from, i, item) {
        if (!ok) break;
        json_t *message = json_is_object(item) ? message_make(call, item, i) : json_incref(item);
        ok = message && (json_array_append_new(list, message) == 0 || call_refuse_memory(call));
    }
    if (ok) return list;
    json_decref(list);
    return NULL;
}

bool ollama_messages(struct call *call, const json_t *body, struct chat_messages *out) {
    json_t *variables = variables_make(call, body);
    json_t *messages = variables ? messages_make(call, json_object_get(body, "messages")) : NULL;
    json_t *theirs = messages ? json_edit_copy(call, body) : NULL;
    bool ok = theirs && json_edit_put(call, theirs, "messages", json_incref(messages)) &&
              json_edit_put(call, theirs, "chat_template_kwargs", json_incref(variables)) &&
              chat_messages_read(call, theirs, out);
    json_decref(variables);
    json_decref(messages);
    json_decref(theirs);
    return ok;
}

// ---------------------------------------------------------------- generate

// A conversation of one turn through the template.
static bool turn_render(struct call *call, const json_t *body, struct generation *generation) {
    const json_t *system = json_object_get(body, "system");
    const bool has_system = json_string_length(system) > 0;
    json_t *messages =
        has_system
            ? json_pack("[{s:s,s:O},{s:s,s:O}]", "role", "system", "content", system, "role",
                        "user", "content", json_object_get(body, "prompt"))
            : json_pack("[{s:s,s:O}]", "role", "user", "content", json_object_get(body, "prompt"));
    json_t *variables = messages ? variables_make(call, body) : NULL;
    bool ok = messages || call_refuse_memory(call);
    ok = ok && variables &&
         generation_chat(call, generation, messages, NULL, variables, true, false);
    json_decref(messages);
    json_decref(variables);
    return ok;
}

// The prompt as it is, with the control tokens that it spells out.
static bool text_add(struct call *call, const json_t *prompt, struct generation *generation) {
    int32_t *ids;
    size_t n_ids;
    return prompt_ids_of_text(call, json_string_value(prompt), json_string_length(prompt), "prompt",
                              RN_TOKENIZE_BOS | RN_TOKENIZE_SPECIAL, &ids, &n_ids) &&
           generation_add(call, generation, ids, n_ids) &&
           generation_shape_want(call, generation, NULL);
}

// The ids of an earlier answer come before the prompt, whose own start of a text is dropped.
static bool context_add(struct call *call, const json_t *context, struct generation *generation) {
    struct generation_prompt *prompt = &generation->prompt[0];
    int32_t *before;
    size_t n_before;
    if (!prompt_ids_read(call, context, "context", 0, &before, &n_before)) return false;
    const bool has_bos = prompt->n_ids && prompt->ids[0] == rn_token_bos(call->served->model);
    const size_t skip = n_before && has_bos ? 1 : 0, n_own = prompt->n_ids - skip;
    int32_t *ids = realloc(before, (n_before + n_own + 1) * sizeof *ids);
    if (!ids) {
        rn_free(before);
        return call_refuse_memory(call);
    }
    memcpy(ids + n_before, prompt->ids + skip, n_own * sizeof *ids);
    rn_free(prompt->ids);
    prompt->ids = ids;
    prompt->n_ids = n_before + n_own;
    return true;
}

bool ollama_prompt(struct call *call, const json_t *body, struct generation *generation, bool raw) {
    const struct fields fields = fields_of(call, body, "");
    const json_t *context = NULL;
    const char *text = NULL, *system = "";
    size_t len = 0;
    if (!field_text(&fields, "prompt", &text, &len)) return false;
    if (!field_text(&fields, "system", &system, &len)) return false;
    if (!field_array(&fields, "context", PROMPT_IDS_MAX, &context)) return false;
    if (raw && (*system || json_array_size(context)))
        return field_refuse(&fields, "raw",
                            "raw mode does not support template, system, or context");
    if (!call->served->tmpl && *system)
        return field_refuse(&fields, "system", "the model has no chat template");
    const bool is_text = raw || !call->served->tmpl;
    if (is_text ? !text_add(call, json_object_get(body, "prompt"), generation)
                : !turn_render(call, body, generation))
        return false;
    return !json_array_size(context) || context_add(call, context, generation);
}

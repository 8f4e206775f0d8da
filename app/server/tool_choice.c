// Reads which tools may be called. OpenAI's chat nests the name of a tool in an object of its
// type, Responses and Anthropic have it beside the type.
#include "tool_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 96 };

void tool_choice_deinit(struct tool_choice *choice) {
    free(choice->rule);
    *choice = (struct tool_choice){0};
}

// ---------------------------------------------------------------- tools

// The object that has a tool's name and `strict`: the tool, or its member "function" or "custom".
static const json_t *tool_body(const json_t *tool) {
    const json_t *inner = json_object_get(tool, "function");
    if (!inner) inner = json_object_get(tool, "custom");
    return json_is_object(inner) ? inner : tool;
}

static const char *tool_name(const json_t *tool) {
    return json_string_value(json_object_get(tool_body(tool), "name"));
}

// A grammar of a custom tool must be kept, as a strict schema must.
static bool is_strict(const json_t *tool) {
    const json_t *strict = json_object_get(tool_body(tool), "strict");
    if (!strict) strict = json_object_get(tool, "strict");
    const json_t *format = json_object_get(tool_body(tool), "format");
    const char *type = json_string_value(json_object_get(format, "type"));
    return json_is_true(strict) || (type && !strcmp(type, "grammar"));
}

static bool is_loose(const json_t *tool) {
    return json_is_false(json_object_get(tool_body(tool), "strict")) ||
           json_is_false(json_object_get(tool, "strict"));
}

static bool rules_make(struct call *call, const json_t *tools, struct tool_choice *out) {
    const size_t n = json_array_size(tools);
    if (!n) return true;
    out->rule = calloc(n, sizeof *out->rule);
    if (!out->rule) return call_refuse(call, 503, NULL, "out_of_memory", "out of memory");
    out->n = n;
    for (size_t i = 0; i < n; i++) {
        const json_t *tool = json_array_get(tools, i);
        out->rule[i] = (struct tool_rule){true, is_strict(tool), is_loose(tool)};
    }
    return true;
}

// The tool of this name may be called. False: refused, there is none.
static bool allow(const struct fields *fields, const json_t *tools, struct tool_choice *out) {
    const char *name = NULL;
    if (!field_string(fields, "name", SIZE_MAX, &name, NULL)) return false;
    if (!name) return field_refuse(fields, "name", "missing");
    bool found = false;
    for (size_t i = 0; i < out->n; i++) {
        const char *own = tool_name(json_array_get(tools, i));
        if (!own || strcmp(own, name) != 0) continue;
        found = out->rule[i].allowed = true;
    }
    return found || field_refuse(fields, "name", "\"%.64s\" is not one of the tools", name);
}

static void allow_none(struct tool_choice *out) {
    for (size_t i = 0; i < out->n; i++) out->rule[i].allowed = false;
    out->is_narrow = true;
}

// ---------------------------------------------------------------- OpenAI's

// The fields that have the name of {"type": "function", "function": {"name": ...}}, or of
// {"type": "function", "name": ...}.
static bool named_fields(const struct fields *fields, const char *type, char path[PATH_BYTES],
                         struct fields *out) {
    const json_t *inner = NULL;
    *out = *fields;
    if (json_object_get(fields->object, "name")) return true;
    if (!field_object(fields, type, &inner)) return false;
    if (!inner) return field_refuse(fields, type, "missing");
    snprintf(path, PATH_BYTES, "%s.%s", fields->path, type);
    *out = fields_of(fields->call, inner, path);
    return true;
}

static bool named_read(const struct fields *fields, const char *type, const json_t *tools,
                       struct tool_choice *out) {
    char path[PATH_BYTES];
    struct fields named;
    return named_fields(fields, type, path, &named) && allow(&named, tools, out);
}

// {"mode": "auto" or "required", "tools": [...]}, perhaps in a member "allowed_tools".
static bool allowed_read(const struct fields *fields, const json_t *tools,
                         struct tool_choice *out) {
    static const char types[] = "function|custom";
    static const char *const names[] = {"function", "custom"};
    char path[PATH_BYTES], item_path[PATH_BYTES];
    struct fields inner = *fields;
    const json_t *nested = NULL, *list = NULL;
    int mode = -1;
    if (!field_object(fields, "allowed_tools", &nested)) return false;
    if (nested) {
        snprintf(path, sizeof path, "%s.allowed_tools", fields->path);
        inner = fields_of(fields->call, nested, path);
    }
    if (!field_choice(&inner, "mode", "auto|required", &mode)) return false;
    if (mode < 0) return field_refuse(&inner, "mode", "missing");
    if (!field_array(&inner, "tools", SIZE_MAX, &list)) return false;
    if (!json_array_size(list))
        return field_refuse(&inner, "tools", list ? "[] is empty" : "missing");
    out->mode = mode ? TOOLS_REQUIRED : TOOLS_AUTO;
    allow_none(out);
    for (size_t i = 0; i < json_array_size(list); i++) {
        int type = -1;
        snprintf(item_path, sizeof item_path, "%s.tools[%zu]", inner.path, i);
        const struct fields item = fields_of(fields->call, json_array_get(list, i), item_path);
        if (!json_is_object(item.object)) return field_refuse(&inner, "tools", "expected objects");
        if (!field_choice(&item, "type", types, &type)) return false;
        if (type < 0) return field_refuse(&item, "type", "missing");
        if (!named_read(&item, names[type], tools, out)) return false;
    }
    return true;
}

static bool openai_read(const struct fields *body, const json_t *tools, struct tool_choice *out) {
    static const enum tool_mode modes[] = {TOOLS_AUTO, TOOLS_NONE, TOOLS_REQUIRED};
    enum { TYPE_FUNCTION, TYPE_CUSTOM, TYPE_ALLOWED };
    const json_t *choice = json_object_get(body->object, "tool_choice");
    int index = -1;
    if (!field_bool(body, "parallel_tool_calls", &out->parallel)) return false;
    if (!choice || json_is_null(choice)) return true;
    if (!json_is_object(choice)) {
        if (!field_choice(body, "tool_choice", "auto|none|required", &index)) return false;
        out->mode = modes[index];
        return true;
    }
    const struct fields fields = fields_of(body->call, choice, "tool_choice");
    if (!field_choice(&fields, "type", "function|custom|allowed_tools", &index)) return false;
    if (index < 0) return field_refuse(&fields, "type", "missing");
    if (index == TYPE_ALLOWED) return allowed_read(&fields, tools, out);
    out->mode = TOOLS_REQUIRED;
    out->parallel = false; // the named tool is called once
    allow_none(out);
    return named_read(&fields, index == TYPE_CUSTOM ? "custom" : "function", tools, out);
}

// ---------------------------------------------------------------- Anthropic's

static bool messages_read(const struct fields *body, const json_t *tools, struct tool_choice *out) {
    enum { TYPE_AUTO, TYPE_ANY, TYPE_TOOL, TYPE_NONE };
    const json_t *choice = NULL;
    bool single = false;
    int type = -1;
    if (!field_object(body, "tool_choice", &choice)) return false;
    if (!choice) return true;
    const struct fields fields = fields_of(body->call, choice, "tool_choice");
    if (!field_choice(&fields, "type", "auto|any|tool|none", &type)) return false;
    if (type < 0) return field_refuse(&fields, "type", "missing");
    if (!field_bool(&fields, "disable_parallel_tool_use", &single)) return false;
    out->parallel = !single;
    if (type == TYPE_NONE) out->mode = TOOLS_NONE;
    if (type == TYPE_ANY || type == TYPE_TOOL) out->mode = TOOLS_REQUIRED;
    if (type != TYPE_TOOL) return true;
    allow_none(out);
    return allow(&fields, tools, out);
}

// ---------------------------------------------------------------- all of them

bool tool_choice_read(struct call *call, const json_t *body, enum family family,
                      struct tool_choice *out) {
    const struct fields fields = fields_of(call, body, "");
    const json_t *tools = json_object_get(body, "tools");
    *out = (struct tool_choice){.parallel = true};
    bool ok = rules_make(call, tools, out) &&
              (family == FAMILY_MESSAGES ? messages_read : openai_read)(&fields, tools, out);
    if (ok && out->mode == TOOLS_REQUIRED && !out->n)
        ok = field_refuse(&fields, "tool_choice", "a call is asked for, but there are no tools");
    if (!ok) tool_choice_deinit(out);
    return ok;
}

bool tool_choice_is_binding(const struct tool_choice *choice) {
    if (choice->mode == TOOLS_REQUIRED || choice->is_narrow) return true;
    for (size_t i = 0; i < choice->n; i++)
        if (choice->rule[i].strict) return true;
    return false;
}

bool tool_choice_shapes(const struct tool_choice *choice) {
    if (!choice->n || choice->mode == TOOLS_NONE) return false;
    return !choice->parallel || tool_choice_is_binding(choice);
}

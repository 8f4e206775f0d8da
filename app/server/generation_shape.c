// From the wishes of a request to a compiled shape. An answer with tools is calls, or text and
// calls, or a text of the wished shape; an answer without them is the shape, with the template's
// marks around it. An error names the field that the client wrote, never our own source.
#include "generation_shape.h"

#include <stdio.h>
#include <string.h>

#include "tool_shapes.h"

enum {
    PARAM_BYTES = 64,
    ROUNDS_MAX = 4, // refusals of schemas, each of which costs a compilation
};

bool generation_shape_read(struct call *call, struct generation *generation, const json_t *body,
                           enum family family) {
    const bool has_tools =
        family & (FAMILY_CHAT | FAMILY_RESPONSES | FAMILY_MESSAGES | FAMILY_OLLAMA);
    generation->family = family;
    if (!shape_read(call, body, family, &generation->shape)) return false;
    return !has_tools || tool_choice_read(call, body, family, &generation->tool_choice);
}

// ---------------------------------------------------------------- compiling

static bool no_memory(struct call *call) {
    return call_refuse(call, 503, NULL, "out_of_memory", "out of memory");
}

static rn_shape_kind kind_of(enum shape_kind kind) {
    static const rn_shape_kind kinds[] = {
        [SHAPE_SCHEMA] = RN_SHAPE_SCHEMA,   [SHAPE_OBJECT] = RN_SHAPE_OBJECT,
        [SHAPE_REGEX] = RN_SHAPE_REGEX,     [SHAPE_GRAMMAR] = RN_SHAPE_GRAMMAR,
        [SHAPE_CHOICES] = RN_SHAPE_CHOICES, [SHAPE_STRUCTURE] = RN_SHAPE_STRUCTURE,
    };
    return kinds[kind];
}

// Only looks for the shape, until the call has come to a thread for compilations.
static rn_status compile(const struct call *call, struct generation *generation,
                         enum shape_kind kind, const struct jbuf *source, rn_error *err) {
    const rn_model *model = call->served->model;
    const char *text = source->data ? source->data : "";
    if (generation->may_compile)
        return rn_shape_compile(model, kind_of(kind), text, source->len, &generation->compiled,
                                err);
    generation->compiled = rn_shape_find(model, kind_of(kind), text, source->len);
    generation->shape_due = generation->compiled ? 0 : 1 + source->len;
    return RN_OK;
}

// ---------------------------------------------------------------- text

// message: the library's. is_wrapped: of a structure around the client's source, so that our part
// of the pointer is left out.
static bool refuse_shape(struct call *call, const struct shape *shape, const char *message,
                         bool is_wrapped) {
    static const char own[] = "/json_schema";
    const char *const at = is_wrapped && shape->kind == SHAPE_SCHEMA ? strstr(message, own) : NULL;
    return call_refuse(call, 400, shape->field, "invalid_value", "%s: %s", shape->field,
                       at ? at + strlen(own) : message);
}

static bool content_make(struct call *call, struct generation *generation) {
    const struct shape *shape = &generation->shape;
    struct jbuf source = {0};
    rn_error err = {0};
    const bool is_wrapped =
        generation->marks && content_shape_put(generation->marks, shape, &source);
    if (source.failed) {
        jbuf_deinit(&source);
        return no_memory(call);
    }
    const rn_status status = compile(call, generation, is_wrapped ? SHAPE_STRUCTURE : shape->kind,
                                     is_wrapped ? &source : &shape->text, &err);
    jbuf_deinit(&source);
    if (!status) return true;
    if (err.status == RN_ERR_NOMEM) return no_memory(call);
    return refuse_shape(call, shape, err.message, is_wrapped);
}

// ---------------------------------------------------------------- calls

static const char *schema_field(struct call *call, const struct generation *generation,
                                size_t index) {
    const json_t *tool = json_array_get(json_object_get(call_json(call), "tools"), index);
    const char *type = json_string_value(json_object_get(tool, "type"));
    if (generation->custom && type && !strcmp(type, "custom"))
        return generation->family == FAMILY_CHAT ? "custom.format.grammar.definition"
                                                 : "format.definition";
    switch (generation->family) {
    case FAMILY_MESSAGES:
        return "input_schema";
    case FAMILY_RESPONSES:
        return "parameters";
    default:
        return "function.parameters";
    }
}

static bool refuse_tool(struct call *call, size_t index, const char *field, const char *message) {
    char param[PARAM_BYTES];
    snprintf(param, sizeof param, "tools[%zu].%s", index, field);
    return call_refuse(call, 400, param, "invalid_function_parameters", "%s: %s", param, message);
}

// The library's message has the place in our pattern: the expression alone has the client's. That
// of a grammar has the keyword and then the client's place.
static bool refuse_definition(struct call *call, size_t index, const char *field,
                              const char *message) {
    const json_t *tool = json_array_get(json_object_get(call_json(call), "tools"), index);
    static const char keyword[] = "x-lark: ";
    size_t len;
    bool is_lark;
    const char *const definition = custom_tool_definition(tool, &len, &is_lark);
    const char *const own = is_lark ? strstr(message, keyword) : NULL;
    rn_shape *alone = NULL;
    rn_error err = {0};
    if (own) return refuse_tool(call, index, field, own + strlen(keyword));
    if (definition && !is_lark &&
        rn_shape_compile(call->served->model, RN_SHAPE_REGEX, definition, len, &alone, &err)) {
        if (err.status == RN_ERR_NOMEM) return no_memory(call);
        message = err.message;
    }
    rn_shape_release(alone);
    return refuse_tool(call, index, field, message);
}

static bool refuse_calls(struct call *call, const struct generation *generation,
                         const rn_error *err) {
    const struct shape *shape = &generation->shape;
    size_t index;
    const char *rest;
    if (err->status == RN_ERR_NOMEM) return no_memory(call);
    if (tool_shape_place(&generation->tool_choice, err->message, &index, &rest))
        return refuse_definition(call, index, schema_field(call, generation, index), rest);
    if (shape->kind) return refuse_shape(call, shape, err->message, true);
    return call_refuse(call, 400, "tools", "invalid_value", "tools: %s", err->message);
}

// A tool that is not strict, in an answer that need not call it, takes any object where its schema
// is not supported. In the last round all such tools do. True: there was such a tool.
static bool loosen(struct generation *generation, const rn_error *err, int round) {
    struct tool_choice *choice = &generation->tool_choice;
    size_t index;
    const char *rest;
    if (err->status != RN_ERR_ARG || choice->mode != TOOLS_AUTO) return false;
    if (!tool_shape_place(choice, err->message, &index, &rest)) return false;
    if (choice->rule[index].strict || choice->rule[index].loose) return false;
    choice->rule[index].loose = true;
    for (size_t i = 0; round == ROUNDS_MAX && i < choice->n; i++)
        if (!choice->rule[i].strict) choice->rule[i].loose = true;
    return true;
}

// The arguments of a call are an object, whatever else the schema says.
static bool types_check(struct call *call, struct generation *generation, const json_t *tools) {
    struct tool_choice *choice = &generation->tool_choice;
    for (size_t i = 0; i < choice->n; i++) {
        struct tool_rule *rule = &choice->rule[i];
        if (!rule->allowed || rule->loose || tool_takes_object(json_array_get(tools, i))) continue;
        if (rule->strict || choice->mode != TOOLS_AUTO)
            return refuse_tool(call, i, schema_field(call, generation, i),
                               "/type: the arguments of a call are an object");
        rule->loose = true;
    }
    return true;
}

static bool calls_make(struct call *call, struct generation *generation, const json_t *tools) {
    const struct served *served = call->served;
    const struct tool_shape wish = {generation->marks, served->tmpl_source, tools,
                                    &generation->tool_choice, &generation->shape};
    if (!types_check(call, generation, tools)) return false;
    for (int round = 1;; round++) {
        struct jbuf source = {0};
        size_t index = 0;
        rn_error err = {0};
        const bool ok = tool_shape_put(&wish, &source, &index);
        const bool failed = source.failed;
        const rn_status status =
            ok && !failed ? compile(call, generation, SHAPE_STRUCTURE, &source, &err) : RN_OK;
        jbuf_deinit(&source);
        if (failed) return no_memory(call);
        if (!ok)
            return refuse_tool(call, index, "name",
                               "calls of this model can name tools with letters, digits and "
                               "_ - . alone");
        if (!status) return true;
        if (!loosen(generation, &err, round)) return refuse_calls(call, generation, &err);
    }
}

// ---------------------------------------------------------------- both

// A call is asked for in a form that is not known.
static bool refuse_form(struct call *call, const struct tool_choice *choice) {
    static const char why[] = "the model's chat template writes calls in a form that is not known";
    return call_refuse(call, 400, choice->mode == TOOLS_REQUIRED ? "tool_choice" : "tools",
                       "unsupported_value", "%s: %s",
                       choice->mode == TOOLS_REQUIRED ? "tool_choice" : "tools", why);
}

static bool is_old_structure(const struct shape *shape) {
    struct jbuf format = {0};
    const bool is_old = shape->kind == SHAPE_STRUCTURE && !shape_format_put(shape, &format);
    jbuf_deinit(&format);
    return is_old;
}

static bool shape_make(struct call *call, struct generation *generation) {
    return generation->shapes_calls ? calls_make(call, generation, generation->shape_tools)
                                    : content_make(call, generation);
}

bool generation_shape_want(struct call *call, struct generation *generation, const json_t *tools) {
    const struct tool_choice *choice = &generation->tool_choice;
    const struct shape *shape = &generation->shape;
    const struct answer_marks *marks = generation->marks;
    if (call_refused(call)) return false;
    const bool shapes_calls = tools && tool_choice_shapes(choice);
    if (!shape->kind && !shapes_calls) return true;
    const bool is_known = tools && tool_shape_known(marks, call->served->tmpl_source);
    if (shapes_calls && !is_known && tool_choice_is_binding(choice))
        return refuse_form(call, choice);
    if (is_known && is_old_structure(shape) && choice->mode != TOOLS_REQUIRED)
        return call_refuse(call, 400, shape->field, "invalid_value",
                           "%s: a structural tag beside tools needs a format", shape->field);
    generation->shapes_calls = is_known;
    generation->shape_tools = json_incref((json_t *)(uintptr_t)tools);
    return (!is_known && !shape->kind) || shape_make(call, generation);
}

size_t generation_shape_due(const struct call *call) {
    return call->generation && !call_refused(call) ? call->generation->shape_due : 0;
}

void generation_shape_compile(struct call *call) {
    struct generation *generation = call->generation;
    generation->may_compile = true;
    generation->shape_due = 0;
    if (shape_make(call, generation) && generation->on_compiled) generation->on_compiled(call);
}

// The forms of calls. A row of `forms` says how a template writes calls: the text around all of
// them, around one, and the style of the arguments, which the library knows (docs/CONSTRAINTS.md).
// A new form is a row; answer_marks.c has the row that reads it.
#include "tool_shapes.h"

#include <stdlib.h>
#include <string.h>

enum style {
    STYLE_JSON,
    STYLE_TAGS,   // of the marks' tags
    STYLE_PYTHON, // key=value, ...
    STYLE_PAIRS,  // {key:value,...} with the marks' quotes
};

// begin (before NAME middle ARGUMENTS after) between ... end. A '#' in `before` or `middle` is a
// number.
struct form {
    const char *open; // the first mark that opens calls (answer_marks.h)
    const char *sign; // in the template; NULL: any
    const char *begin, *end;
    const char *before, *middle, *after;
    const char *between;
    enum style style;
    const char *inner, *outer; // of tags: line breaks around values, and behind parameters
    bool is_json;              // the name is within a JSON string
    bool single;               // one call
};

#define DSML           "\uFF5CDSML\uFF5C"
#define DEEPSEEK(name) "<\uFF5Ctool\u2581" name "\uFF5C>"
#define JSON_CALL                                                                                  \
    .before = "{\"name\": \"", .middle = "\", \"arguments\": ", .after = "}", .is_json = true
#define JSON_LIST JSON_CALL, .between = ", "

// The first row that fits is the template's.
static const struct form forms[] = {
    // DeepSeek V4, then V3.2
    {.open = "<" DSML "function_calls>",
     .sign = DSML "tool_calls>",
     .begin = "<" DSML "tool_calls>\n",
     .before = "<" DSML "invoke name=\"",
     .middle = "\">\n",
     .after = "</" DSML "invoke>\n",
     .end = "</" DSML "tool_calls>",
     .style = STYLE_TAGS,
     .outer = "\n"},
    {.open = "<" DSML "function_calls>",
     .begin = "<" DSML "function_calls>\n",
     .before = "<" DSML "invoke name=\"",
     .middle = "\">\n",
     .after = "</" DSML "invoke>\n",
     .end = "</" DSML "function_calls>",
     .style = STYLE_TAGS,
     .outer = "\n"},
    // GLM 4.5 and 4.6, then 4.7
    {.open = "<tool_call>",
     .sign = "</arg_key>\n",
     .before = "<tool_call>",
     .middle = "\n",
     .after = "</tool_call>",
     .between = "\n",
     .style = STYLE_TAGS,
     .inner = "\n",
     .outer = "\n"},
    {.open = "<tool_call>",
     .sign = "<arg_key>",
     .before = "<tool_call>",
     .after = "</tool_call>",
     .style = STYLE_TAGS},
    // Seed-OSS
    {.open = "<seed:tool_call>",
     .before = "<seed:tool_call>\n<function=",
     .middle = ">\n",
     .after = "</function>\n</seed:tool_call>",
     .between = "\n",
     .style = STYLE_TAGS,
     .outer = "\n"},
    // Qwen3-Coder, Qwen 3.5, Nemotron 3
    {.open = "<tool_call>",
     .sign = "<function=",
     .before = "<tool_call>\n<function=",
     .middle = ">\n",
     .after = "</function>\n</tool_call>",
     .between = "\n",
     .style = STYLE_TAGS,
     .inner = "\n",
     .outer = "\n"},
    // MiniCPM 5
    {.open = "<function name=\"",
     .before = "<function name=\"",
     .middle = "\">",
     .after = "</function>",
     .between = "\n",
     .style = STYLE_TAGS},
    // Hunyuan, Apriel, MiniMax M1
    {.open = "<tool_calls>", .begin = "<tool_calls>[", .end = "]</tool_calls>", JSON_LIST},
    // Hermes and many others, with line breaks and without
    {.open = "<tool_call>",
     .sign = "<tool_call>\\n",
     .before = "<tool_call>\n{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .after = "}\n</tool_call>",
     .between = "\n",
     .is_json = true},
    {.open = "<tool_call>",
     .before = "<tool_call>{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .after = "}</tool_call>",
     .between = "\n",
     .is_json = true},
    // Mistral, new and old
    {.open = "[TOOL_CALLS]", .sign = "[ARGS]", .before = "[TOOL_CALLS]", .middle = "[ARGS]"},
    {.open = "[TOOL_CALLS]", .begin = "[TOOL_CALLS][", .end = "]", JSON_LIST},
    // DeepSeek R1 and V3, then V3.1
    {.open = DEEPSEEK("calls\u2581begin"),
     .sign = "```json",
     .begin = DEEPSEEK("calls\u2581begin"),
     .before = DEEPSEEK("call\u2581begin") "function" DEEPSEEK("sep"),
     .middle = "\n```json\n",
     .after = "\n```" DEEPSEEK("call\u2581end"),
     .between = "\n",
     .end = DEEPSEEK("calls\u2581end")},
    {.open = DEEPSEEK("calls\u2581begin"),
     .begin = DEEPSEEK("calls\u2581begin"),
     .before = DEEPSEEK("call\u2581begin"),
     .middle = DEEPSEEK("sep"),
     .after = DEEPSEEK("call\u2581end"),
     .end = DEEPSEEK("calls\u2581end")},
    // Kimi K2
    {.open = "<|tool_calls_section_begin|>",
     .begin = "<|tool_calls_section_begin|>",
     .before = "<|tool_call_begin|>functions.",
     .middle = ":#<|tool_call_argument_begin|>",
     .after = "<|tool_call_end|>",
     .end = "<|tool_calls_section_end|>"},
    // MiniMax M2
    {.open = "<minimax:tool_call>",
     .begin = "<minimax:tool_call>\n",
     .before = "<invoke name=\"",
     .middle = "\">\n",
     .after = "</invoke>\n",
     .end = "</minimax:tool_call>",
     .style = STYLE_TAGS,
     .outer = "\n"},
    // Gemma 4, FunctionGemma
    {.open = "<|tool_call>",
     .before = "<|tool_call>call:",
     .after = "<tool_call|>",
     .style = STYLE_PAIRS},
    {.open = "<start_function_call>",
     .before = "<start_function_call>call:",
     .after = "<end_function_call>",
     .style = STYLE_PAIRS},
    // GigaChat 3.1
    {.open = "<|function_call|>",
     .before = "<|function_call|>{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .after = "}",
     .is_json = true},
    // Command A, Command R7B
    {.open = "<|START_ACTION|>",
     .begin = "<|START_ACTION|>[\n    ",
     .before = "{\"tool_call_id\": \"#\", \"tool_name\": \"",
     .middle = "\", \"parameters\": ",
     .after = "}",
     .between = ",\n    ",
     .end = "\n]<|END_ACTION|>",
     .is_json = true},
    // Apertus
    {.open = "<|tools_prefix|>",
     .begin = "<|tools_prefix|>[",
     .before = "{\"",
     .middle = "\": ",
     .after = "}",
     .between = ", ",
     .end = "]<|tools_suffix|>",
     .is_json = true},
    // OLMo 3
    {.open = "<function_calls>",
     .begin = "<function_calls>",
     .middle = "(",
     .after = ")",
     .between = "\n",
     .end = "</function_calls>",
     .style = STYLE_PYTHON},
    // Phi 4 mini, then Granite 3
    {.open = "<|tool_call|>",
     .sign = "<|/tool_call|>",
     .begin = "<|tool_call|>[",
     .end = "]<|/tool_call|>",
     JSON_LIST},
    {.open = "<|tool_call|>", .begin = "<|tool_call|>[", .end = "]", JSON_LIST},
    // Nemotron Nano 2
    {.open = "<TOOLCALL>", .begin = "<TOOLCALL>[", .end = "]</TOOLCALL>", JSON_LIST},
    // LFM2
    {.open = "<|tool_call_start|>",
     .begin = "<|tool_call_start|>[",
     .middle = "(",
     .after = ")",
     .between = ", ",
     .end = "]<|tool_call_end|>",
     .style = STYLE_PYTHON},
    // Llama 4, as Python and as JSON
    {.open = "<|python_start|>",
     .sign = "[func_name1(param",
     .begin = "[",
     .middle = "(",
     .after = ")",
     .between = ", ",
     .end = "]",
     .style = STYLE_PYTHON},
    {.open = "<|python_start|>",
     .before = "{\"name\": \"",
     .middle = "\", \"parameters\": ",
     .after = "}",
     .is_json = true},
    // Llama 3, whose templates take one call
    {.open = "<|python_tag|>",
     .before = "{\"name\": \"",
     .middle = "\", \"parameters\": ",
     .after = "}",
     .is_json = true,
     .single = true},
};
enum { FORM_COUNT = sizeof forms / sizeof *forms };

// gpt-oss: a message to the tool. The token that ends it ends the answer, so there is one call.
static const struct form harmony = {.before = "<|channel|>commentary to=functions.",
                                    .middle = " <|constrain|>json<|message|>",
                                    .after = "<|call|>",
                                    .single = true};
// The prompt ends behind the role; the reasoning is a message of its own, and the role comes again.
#define HARMONY_ROLE  "<|start|>assistant"
#define HARMONY_FINAL "<|channel|>final<|message|>"

static const struct form *form_find(const struct answer_marks *marks, const char *tmpl) {
    const char *const open = marks->tools.open[0];
    if (marks->harmony) return &harmony;
    for (int i = 0; open && i < FORM_COUNT; i++) {
        const bool has_sign = !forms[i].sign || (tmpl && strstr(tmpl, forms[i].sign));
        const bool is_tags = forms[i].style == STYLE_TAGS;
        if (!strcmp(forms[i].open, open) && has_sign && is_tags == (marks->tools.tags != NULL))
            return &forms[i];
    }
    return NULL;
}

bool tool_shape_known(const struct answer_marks *marks, const char *tmpl) {
    return form_find(marks, tmpl) != NULL;
}

bool tool_takes_object(const json_t *tool) {
    const json_t *const schema = json_object_get(json_object_get(tool, "function"), "parameters");
    const json_t *const type = json_object_get(schema, "type");
    const char *const name = json_string_value(type);
    const json_t *item;
    size_t i;
    json_array_foreach(type, i, item) {
        const char *const one = json_string_value(item);
        if (one && !strcmp(one, "object")) return true;
    }
    return !type || (name && !strcmp(name, "object"));
}

// ---------------------------------------------------------------- writing a structure

// A comma, unless a list or an object has just begun.
static void comma(struct jbuf *out) {
    if (out->len && out->data[out->len - 1] != '[' && out->data[out->len - 1] != ':')
        jbuf_text(out, ",");
}

static void list_open(struct jbuf *out, const char *type) {
    comma(out);
    jbuf_printf(out, "{\"type\":\"%s\",\"elements\":[", type);
}

static void list_close(struct jbuf *out) { jbuf_text(out, "]}"); }

static void const_put(struct jbuf *out, const char *text, size_t len) {
    if (!len) return;
    comma(out);
    jbuf_text(out, "{\"type\":\"const_string\",\"value\":");
    jbuf_string(out, text, len);
    jbuf_text(out, "}");
}

static void text_put(struct jbuf *out, const char *text) {
    if (text) const_put(out, text, strlen(text));
}

static void number_put(struct jbuf *out) {
    comma(out);
    jbuf_text(out, "{\"type\":\"regex\",\"pattern\":\"[0-9]{1,3}\"}");
}

// Text in which a '#' stands for a number.
static void numbered_put(struct jbuf *out, const char *text) {
    const char *const number = text ? strchr(text, '#') : NULL;
    if (number) {
        const_put(out, text, (size_t)(number - text));
        number_put(out);
        text = number + 1;
    }
    text_put(out, text);
}

// Any text without the marks that open calls.
static void free_put(struct jbuf *out, const struct answer_marks *marks) {
    comma(out);
    jbuf_text(out, "{\"type\":\"any_text\",\"excludes\":[");
    for (int i = 0; marks->tools.open[i]; i++) {
        comma(out);
        jbuf_cstring(out, marks->tools.open[i]);
    }
    jbuf_text(out, "]}");
}

// ---------------------------------------------------------------- arguments

static void key_put(struct jbuf *out, const char *key, const char *value) {
    if (!value || !*value) return;
    jbuf_key(out, key);
    jbuf_cstring(out, value);
}

static void tags_put(struct jbuf *out, const struct form *form, const struct tag_marks *tags) {
    jbuf_text(out, ",\"style\":\"tags\",\"marks\":{");
    key_put(out, "key_open", tags->key_open);
    key_put(out, "key_close", tags->key_close);
    key_put(out, "text_close", tags->text_close);
    key_put(out, "value_open", tags->value_open);
    key_put(out, "value_close", tags->value_close);
    key_put(out, "inner", form->inner);
    key_put(out, "outer", form->outer);
    jbuf_text(out, "}");
}

// Whether the schema names no property and says nothing else about the object.
static bool is_empty(const json_t *schema) {
    static const char *const plain[] = {"type",    "title", "description", "$comment",
                                        "$schema", "$defs", "definitions", NULL};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, key, value) {
        const char *const *word = plain;
        while (*word && strcmp(*word, key) != 0) word++;
        const bool is_list = !strcmp(key, "properties") || !strcmp(key, "required");
        const bool is_blank = is_list && !json_object_size(value) && !json_array_size(value);
        if (!*word && !is_blank) return false;
    }
    return true;
}

// The schema of an object. Without words on its members it is the empty object: such a tool takes
// no arguments.
static void schema_put(struct jbuf *out, const json_t *schema) {
    if (is_empty(schema)) {
        jbuf_text(out, "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}");
        return;
    }
    json_t *copy = json_copy((json_t *)(uintptr_t)schema);
    if (!copy || json_object_size(copy) != json_object_size(schema) ||
        json_object_set_new(copy, "type", json_string("object")))
        out->failed = true;
    else
        shape_json_put(copy, out);
    json_decref(copy);
}

static void arguments_put(struct jbuf *out, const struct form *form,
                          const struct answer_marks *marks, const json_t *schema, bool loose) {
    comma(out);
    jbuf_text(out, "{\"type\":\"json_schema\",\"json_schema\":");
    if (loose)
        jbuf_text(out, "{\"type\":\"object\"}");
    else
        schema_put(out, schema);
    if (form->style == STYLE_TAGS) tags_put(out, form, marks->tools.tags);
    if (form->style == STYLE_PYTHON) jbuf_text(out, ",\"style\":\"python\"");
    if (form->style == STYLE_PAIRS) {
        jbuf_text(out, ",\"style\":\"pairs\"");
        key_put(out, "quote", marks->tools.quote);
    }
    jbuf_text(out, "}");
}

// ---------------------------------------------------------------- calls

// A name that no mark can be taken for, in any form.
static bool is_plain(const char *name, enum style style) {
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    if (style == STYLE_PYTHON && !strchr(word, *name)) return false;
    for (; *name; name++)
        if (!strchr(word, *name) && !strchr(style == STYLE_PYTHON ? ".-" : ".-:/", *name))
            return false;
    return true;
}

// The name, within JSON's quotes where it stands in them.
static void name_put(struct jbuf *out, const struct form *form, const char *name) {
    struct jbuf quoted = {0};
    if (!form->is_json) {
        jbuf_text(out, name);
        return;
    }
    jbuf_cstring(&quoted, name);
    if (quoted.failed)
        out->failed = true;
    else
        jbuf_bytes(out, quoted.data + 1, quoted.len - 2);
    jbuf_deinit(&quoted);
}

// A tag of one tool's call: all of it is content, which has the parts one after the other.
static void call_put(struct jbuf *out, const struct form *form, const struct tool_shape *shape,
                     const json_t *function, bool loose) {
    const char *const before = form->before ? form->before : "", *const number =
                                                                     strchr(before, '#');
    struct jbuf name = {0};
    jbuf_text(&name, number ? number + 1 : before);
    name_put(&name, form, json_string_value(json_object_get(function, "name")));
    comma(out);
    jbuf_text(out, "{\"type\":\"tag\",\"begin\":");
    jbuf_string(out, number ? before : name.data, number ? (size_t)(number - before) : name.len);
    jbuf_text(out, ",\"content\":{\"type\":\"sequence\",\"elements\":[");
    if (number) {
        number_put(out);
        const_put(out, name.data, name.len);
    }
    numbered_put(out, form->middle);
    arguments_put(out, form, shape->marks, json_object_get(function, "parameters"), loose);
    jbuf_text(out, "]},\"end\":");
    jbuf_cstring(out, form->after ? form->after : "");
    jbuf_text(out, "}");
    if (name.failed) out->failed = true;
    jbuf_deinit(&name);
}

// False: a name cannot be written.
static bool tags_list_put(struct jbuf *out, const struct form *form, const struct tool_shape *shape,
                          size_t *index) {
    for (size_t i = 0; i < shape->choice->n; i++) {
        const struct tool_rule *rule = &shape->choice->rule[i];
        const json_t *function = json_object_get(json_array_get(shape->tools, i), "function");
        if (!rule->allowed) continue;
        *index = i;
        if (!form->is_json &&
            !is_plain(json_string_value(json_object_get(function, "name")), form->style))
            return false;
        call_put(out, form, shape, function, rule->loose);
    }
    return true;
}

// One call or several, with the marks around them.
static bool calls_put(struct jbuf *out, const struct form *form, const struct tool_shape *shape,
                      size_t *index) {
    const bool single = form->single || !shape->choice->parallel;
    list_open(out, "sequence");
    text_put(out, form->begin);
    comma(out);
    jbuf_text(out, "{\"type\":\"tags_with_separator\",\"separator\":");
    jbuf_cstring(out, form->between ? form->between : "");
    jbuf_printf(out, ",\"at_least_one\":true,\"stop_after_first\":%s,\"tags\":[",
                single ? "true" : "false");
    const bool ok = tags_list_put(out, form, shape, index);
    jbuf_text(out, "]}");
    text_put(out, form->end);
    list_close(out);
    return ok;
}

static void optional_open(struct jbuf *out) {
    comma(out);
    jbuf_text(out, "{\"type\":\"optional\",\"content\":");
}

static void optional_text_put(struct jbuf *out, const char *text) {
    if (!text) return;
    optional_open(out);
    text_put(out, text);
    jbuf_text(out, "}");
}

static void format_put(struct jbuf *out, const struct shape *content) {
    comma(out);
    if (content->kind == SHAPE_NONE)
        jbuf_text(out, "{\"type\":\"any_text\",\"excludes\":"
                       "[\"<|start|>\",\"<|channel|>\",\"<|message|>\",\"<|call|>\"]}");
    else if (!shape_format_put(content, out))
        out->failed = true;
}

// The content of an answer, with the marks that may stand around it. A mark that is a token may be
// in the prompt, so that only the closing one is written; others come as a pair. Free text of
// gpt-oss is one message: no other starts in it.
static void content_put(struct jbuf *out, const struct answer_marks *marks,
                        const struct shape *content) {
    const struct wrap_marks *const wrap = &marks->wrap;
    list_open(out, wrap->open && !wrap->is_token ? "or" : "sequence");
    if (wrap->open && !wrap->is_token) {
        list_open(out, "sequence");
        text_put(out, wrap->open);
        format_put(out, content);
        text_put(out, wrap->close);
        list_close(out);
    }
    if (marks->harmony) text_put(out, HARMONY_FINAL);
    if (wrap->is_token) optional_text_put(out, wrap->open);
    format_put(out, content);
    if (wrap->is_token) optional_text_put(out, wrap->close);
    list_close(out);
}

// Free text, perhaps calls behind it. A bare JSON object is a call only where the answer starts.
static bool auto_put(struct jbuf *out, const struct form *form, const struct tool_shape *shape,
                     size_t *index) {
    const struct answer_marks *const marks = shape->marks;
    const bool shaped = shape->content->kind != SHAPE_NONE;
    bool ok;
    if (shaped || marks->tools.bare || marks->harmony) {
        list_open(out, "or");
        ok = calls_put(out, form, shape, index);
        if (shaped || marks->harmony) {
            content_put(out, marks, shape->content);
        } else {
            optional_open(out);
            list_open(out, "sequence");
            comma(out);
            jbuf_text(out, marks->tools.python
                               ? "{\"type\":\"regex\",\"pattern\":\"[^{\\\\[\\\\s]\"}"
                               : "{\"type\":\"regex\",\"pattern\":\"[^{\\\\s]\"}");
            free_put(out, marks);
            list_close(out);
            jbuf_text(out, "}");
        }
        list_close(out);
        return ok;
    }
    list_open(out, "sequence");
    free_put(out, marks);
    optional_open(out);
    ok = calls_put(out, form, shape, index);
    jbuf_text(out, "}");
    list_close(out);
    return ok;
}

#define STRUCTURE "{\"type\":\"structural_tag\",\"format\":"

bool tool_shape_put(const struct tool_shape *shape, struct jbuf *out, size_t *index) {
    const struct form *const form = form_find(shape->marks, shape->tmpl);
    const bool harmony_role = shape->marks->harmony;
    jbuf_text(out, STRUCTURE);
    if (harmony_role) {
        list_open(out, "sequence");
        optional_text_put(out, HARMONY_ROLE);
    }
    const bool ok = shape->choice->mode == TOOLS_REQUIRED ? calls_put(out, form, shape, index)
                                                          : auto_put(out, form, shape, index);
    if (harmony_role) list_close(out);
    jbuf_text(out, "}");
    return ok;
}

bool content_shape_put(const struct answer_marks *marks, const struct shape *content,
                       struct jbuf *out) {
    if (!marks->harmony && !marks->wrap.open) return false;
    jbuf_text(out, STRUCTURE);
    if (marks->harmony) {
        list_open(out, "sequence");
        optional_text_put(out, HARMONY_ROLE);
    }
    content_put(out, marks, content);
    if (marks->harmony) list_close(out);
    jbuf_text(out, "}");
    return true;
}

// ---------------------------------------------------------------- errors

// The tags are those of the allowed tools, in their order.
bool tool_shape_place(const struct tool_choice *choice, const char *pointer, size_t *index,
                      const char **rest) {
    static const char tags[] = "/tags/", schema[] = "/json_schema";
    const char *at = strstr(pointer, tags);
    if (!at) return false;
    unsigned long place = strtoul(at + strlen(tags), NULL, 10);
    at = strstr(at, schema);
    if (!at) return false;
    *rest = at + strlen(schema);
    for (*index = 0; *index < choice->n; ++*index)
        if (choice->rule[*index].allowed && place-- == 0) return true;
    return false;
}

// How values are written. Strings of Python's calls and of tags have no escapes of JSON, so the
// alphabet of their characters is another one.
#include "constraint/schema_form.h"

#include <stdio.h>
#include <string.h>

#include "constraint/freetext.h"
#include "constraint/front.h"
#include "constraint/product.h"
#include "constraint/schema.h"

// --- Python ---

static bool python_escape(uint32_t cp, char out[8]) {
    static const char names[] = "\"'\\nrt", values[] = "\"'\\\n\r\t";
    const char *found = cp && cp < 0x80 ? strchr(values, (int)cp) : NULL;
    if (found)
        snprintf(out, 8, "\\%c", names[found - values]);
    else if (cp < 0x20)
        snprintf(out, 8, "\\x%02x", (unsigned)cp);
    else
        return false;
    return true;
}

// Characters in their one form, which stands in either quotes.
static const struct node *python_class(struct grammar *g, const struct range *range, size_t n) {
    static const struct range plain[] = {{' ', '!'}, {'#', '&'}, {'(', '['}, {']', 0x10FFFF}};
    struct range *cut = grammar_alloc(g, 4 * n, sizeof *cut);
    struct node_list list = {0};
    size_t n_cut = 0;
    if (!cut) return NULL;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < 4; k++) {
            const uint32_t lo = range[i].lo > plain[k].lo ? range[i].lo : plain[k].lo;
            const uint32_t hi = range[i].hi < plain[k].hi ? range[i].hi : plain[k].hi;
            if (lo <= hi) cut[n_cut++] = (struct range){lo, hi};
        }
    }
    if (!node_list_add(g, &list, node_class(g, cut, n_cut))) return NULL;
    for (uint32_t cp = 0; cp < 0x80; cp++) {
        char escape[8];
        bool is_in = false;
        for (size_t i = 0; i < n; i++) is_in |= cp >= range[i].lo && cp <= range[i].hi;
        if (is_in && python_escape(cp, escape) && !node_list_add(g, &list, node_text(g, escape)))
            return NULL;
    }
    return node_alt(g, list.node, list.n);
}

static const struct node *python_text(struct grammar *g, const char *text, size_t len) {
    if (len > SIZE_MAX / 8) return NULL;
    char *out = grammar_alloc(g, 4 * len + 1, 1);
    size_t n = 0;
    if (!out) return NULL;
    for (size_t i = 0; i < len; i++) {
        char escape[8];
        if (python_escape((uint8_t)text[i], escape)) {
            memcpy(out + n, escape, strlen(escape));
            n += strlen(escape);
        } else {
            out[n++] = text[i];
        }
    }
    return node_bytes(g, out, n);
}

static const struct node *python_unit(struct grammar *g, bool is_double) {
    static const char unit[2][40] = {"[^'\\\\\\x00-\\x1f]|\\\\[\\\\'\"nrt]",
                                     "[^\"\\\\\\x00-\\x1f]|\\\\[\\\\'\"nrt]"};
    return regex_node(g, unit[is_double], strlen(unit[is_double]), false, node_class, "");
}

// Strings in either quotes.
static const struct node *python_strings(struct grammar *g, int64_t min, int64_t max) {
    const struct node *mark[2] = {node_text(g, "'"), node_text(g, "\"")};
    const struct node *string[2];
    for (int i = 0; i < 2; i++)
        string[i] = node_seq_of(g, mark[i], node_counted(g, python_unit(g, i), min, max), mark[i]);
    return node_alt(g, string, 2);
}

// --- strings ---

regex_class_fn form_class(const struct form *form) {
    if (form->kind == FORM_JSON) return string_class;
    return form->kind == FORM_PYTHON ? python_class : node_class;
}

static bool has_marks(const struct form *form) {
    return form->kind == FORM_RAW || form->kind == FORM_PAIRS;
}

// Any text that the end of a string is not in.
static const struct node *free_content(struct schema *s, struct form *form) {
    const struct text_mark mark[] = {{.text = form->until.text, .len = form->until.len},
                                     {.text = form->forbid.text, .len = form->forbid.len},
                                     {.text = "\n", .len = form->trims}};
    if (!form->text) form->text = node_free_text(s->g, mark, 3, true, false);
    return form->text;
}

// Contents without "</", where the form asks for it.
static const struct node *guarded(struct schema *s, const struct form *form,
                                  const struct node *content) {
    struct grammar *g = s->g;
    const struct node *any = node_repeat(g, node_byte(g, 0, 255), 0, -1);
    if (!form->guards || !content) return content;
    return node_without(g, content, node_seq_of(g, any, node_text(g, "</"), any));
}

// The characters of a JSON string, as they stand between the quotes.
static const struct node *json_text(struct schema *s, const struct form *form, const char *text,
                                    size_t len) {
    const struct node *quoted = string_text(s->g, text, len);
    if (!quoted) return NULL;
    uint8_t *out = grammar_alloc(s->g, 2 * (size_t)quoted->n, 1);
    size_t n = 0;
    if (!out) return NULL;
    for (uint32_t i = 1; i + 1 < quoted->n; i++) {
        if (form->guards && quoted->byte[i] == '/' && quoted->byte[i - 1] == '<') out[n++] = '\\';
        out[n++] = quoted->byte[i];
    }
    return node_bytes(s->g, out, n);
}

static const struct node *closing(struct schema *s, const struct form *form) {
    return node_seq_of(s->g, node_marked(s->g, form->until.text, form->until.len), form->after);
}

const struct node *form_string(struct schema *s, struct form *form, const struct node *content) {
    struct grammar *g = s->g;
    const struct node *quote = node_text(g, "\"");
    if (!has_marks(form)) return node_seq_of(g, quote, guarded(s, form, content), quote);
    // a text of the content that would end the string is no text of it
    content = node_both(g, content, free_content(s, form));
    return content ? node_seq_of(g, form->open, content, closing(s, form)) : NULL;
}

static const struct node *without(struct grammar *g, const struct range *range, size_t n,
                                  const char *left_out) {
    const struct node *rest = node_class_not(g, range, n);
    if (!rest) return NULL;
    const size_t n_rest = rest->kind == NODE_CLASS ? rest->n : 0;
    struct range *all = grammar_alloc(g, n_rest + 2, sizeof *all);
    if (!all) return NULL;
    if (n_rest) memcpy(all, rest->range, n_rest * sizeof *all);
    size_t n_all = n_rest;
    for (; *left_out; left_out++)
        all[n_all++] = (struct range){(uint8_t)*left_out, (uint8_t)*left_out};
    return node_class_not(g, all, n_all);
}

static const struct node *class_without_mark(struct grammar *g, const struct range *range,
                                             size_t n) {
    return without(g, range, n, "<");
}

static const struct node *line_without_mark(struct grammar *g, const struct range *range,
                                            size_t n) {
    return without(g, range, n, "<\n");
}

const struct node *form_grammar(struct schema *s, struct form *form, const char *text, size_t len) {
    struct grammar *g = s->g;
    const struct form_text *until = &form->until;
    const struct node *quote = node_text(g, "\"");
    if (!has_marks(form)) {
        if (form->guards)
            return grammar_fail(g, RN_ERR_ARG, "a grammar is not supported inside of an argument");
        return node_seq_of(g, quote, lark_node(g, text, len, form_class(form)), quote);
    }
    if (!memchr(until->text, '<', until->len))
        return grammar_fail(g, RN_ERR_ARG, "a grammar is not supported in this form of calls");
    const struct node *content =
        lark_node(g, text, len, form->trims ? line_without_mark : class_without_mark);
    return content ? node_seq_of(g, form->open, content, closing(s, form)) : NULL;
}

const struct node *form_counted(struct schema *s, struct form *form, int64_t min, int64_t max) {
    struct grammar *g = s->g;
    const struct node *quote = node_text(g, "\"");
    if (form->kind == FORM_PYTHON) return python_strings(g, min, max);
    if (form->kind == FORM_JSON && !form->guards)
        return node_seq_of(g, quote, node_counted(g, s->unit, min, max), quote);
    if (form->kind == FORM_JSON) {
        if (!form->text) form->text = guarded(s, form, node_repeat(g, s->unit, 0, -1));
        return node_seq_of(g, quote, node_counted_text(g, form->text, min, max), quote);
    }
    const struct node *content = node_counted_text(g, free_content(s, form), min, max);
    return content ? node_seq_of(g, form->open, content, closing(s, form)) : NULL;
}

// A string up to its end, as one automaton: the first end decides.
static const struct node *any_string(struct schema *s, struct form *form) {
    struct grammar *g = s->g;
    const struct node *quote = node_text(g, "\"");
    if (form->kind == FORM_PYTHON) return python_strings(g, 0, -1);
    if (form->kind == FORM_JSON)
        return node_seq_of(g, quote, guarded(s, form, node_repeat(g, s->unit, 0, -1)), quote);
    const struct text_mark mark[] = {
        {.text = form->until.text, .len = form->until.len, .then = form->after, .is_end = true},
        {.text = form->forbid.text, .len = form->forbid.len}};
    const struct node *text = node_free_text(g, mark, 2, false, false);
    return text ? node_seq_of(g, form->open, text) : NULL;
}

const struct node *form_other(struct schema *s, const struct form *form, const struct node *value) {
    if (form->kind != FORM_RAW || !value || value->kind == NODE_NEVER) return value;
    return node_seq_of(s->g, form->other_open, value, form->other_close);
}

// --- names ---

static bool contains(const char *text, size_t len, struct form_text part) {
    for (size_t i = 0; part.len && i + part.len <= len; i++)
        if (memcmp(text + i, part.text, part.len) == 0) return true;
    return false;
}

static bool is_word(const char *name, size_t len) {
    if (len == 0 || (name[0] >= '0' && name[0] <= '9')) return false;
    for (size_t i = 0; i < len; i++) {
        const char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || (unsigned char)c >= 0x80))
            return false;
    }
    return true;
}

static bool can_write(const struct form *form, const char *name, size_t len) {
    switch (form->kind) {
    case FORM_ARGUMENTS:
        return is_word(name, len);
    case FORM_TAGS:
        return len && !memchr(name, '\n', len) && !contains(name, len, form->key_close) &&
               !contains(name, len, form->text_close);
    case FORM_PAIRS:
        for (size_t i = 0; i < len; i++)
            if (name[i] <= ' ' && name[i] >= 0) return false;
        return len && !contains(name, len, form->until) && !strpbrk(name, ":,{}[]<>");
    case FORM_JSON:
    case FORM_PYTHON:
    case FORM_RAW:
        break;
    }
    return true;
}

const struct node *form_name(struct schema *s, const struct form *form, const char *name,
                             size_t len) {
    struct grammar *g = s->g;
    if (!can_write(form, name, len))
        return grammar_fail(g, RN_ERR_ARG,
                            "the property \"%.100s\" has a name that this style cannot write",
                            name);
    if (form->kind == FORM_PYTHON) return python_text(g, name, len);
    return form->kind == FORM_JSON ? json_text(s, form, name, len) : node_bytes(g, name, len);
}

const struct node *form_any_name(struct schema *s, const struct form *form) {
    static const char word[] = "[A-Za-z_][A-Za-z0-9_]{0,31}";
    const struct range all = {0, 0x10FFFF};
    if (form->kind != FORM_JSON && form->kind != FORM_PYTHON)
        return regex_node(s->g, word, sizeof word - 1, false, node_class, "");
    return guarded(s, form, node_repeat(s->g, form_class(form)(s->g, &all, 1), 0, -1));
}

const struct node *form_key(struct schema *s, const struct form *form, const struct node *name) {
    struct grammar *g = s->g;
    const struct node *quote = node_text(g, "\"");
    switch (form->kind) {
    case FORM_ARGUMENTS:
        return node_seq_of(g, name, node_text(g, "="));
    case FORM_TAGS:
        return node_seq_of(g, node_marked(g, form->key_open.text, form->key_open.len), name);
    case FORM_PAIRS:
        return node_seq_of(g, name, node_text(g, ":"));
    case FORM_JSON:
    case FORM_PYTHON:
    case FORM_RAW:
        break;
    }
    return node_seq_of(g, quote, name, quote, node_text(g, ":"), form->space);
}

const struct node *form_object_text(struct schema *s, const struct form *form, char which) {
    struct grammar *g = s->g;
    if (form->kind == FORM_TAGS) return node_empty(g);
    if (form->kind == FORM_ARGUMENTS) return which == ',' ? node_text(g, ", ") : node_empty(g);
    const struct node *mark = node_bytes(g, &which, 1);
    if (which == '}') return node_seq_of(g, form->space, mark);
    return node_seq_of(g, mark, form->space);
}

// --- values ---

const struct node *form_word(struct schema *s, const struct form *form, const char *word) {
    if (form->kind == FORM_PYTHON)
        word = word[0] == 't' ? "True" : word[0] == 'f' ? "False" : "None";
    return node_text(s->g, word);
}

static const struct node *string_literal(struct schema *s, struct form *form,
                                         const struct json *value) {
    struct grammar *g = s->g;
    const struct node *quote = node_text(g, "\"");
    if (form->kind == FORM_JSON)
        return node_seq_of(g, quote, json_text(s, form, value->text, value->len), quote);
    if (form->kind == FORM_PYTHON)
        return form_string(s, form, python_text(g, value->text, value->len));
    if (contains(value->text, value->len, form->until) ||
        contains(value->text, value->len, form->forbid))
        return node_never(g);
    return node_seq_of(g, form->open, node_bytes(g, value->text, value->len), closing(s, form));
}

const struct node *form_literal(struct schema *s, struct form *form, const struct json *value) {
    struct grammar *g = s->g;
    struct node_list list = {0};
    switch (value->kind) {
    case JREAD_NULL:
        return form_other(s, form, form_word(s, form, "null"));
    case JREAD_BOOL:
        return form_other(s, form, form_word(s, form, value->boolean ? "true" : "false"));
    case JREAD_NUMBER:
        return form_other(s, form, node_bytes(g, value->text, value->len));
    case JREAD_STRING:
        return string_literal(s, form, value);
    case JREAD_ARRAY:
    case JREAD_OBJECT:
        break;
    case JREAD_ERROR:
        return NULL;
    }
    const bool is_object = value->kind == JREAD_OBJECT;
    struct form *inner = form_inner(form);
    node_list_add(g, &list, node_text(g, is_object ? "{" : "["));
    for (size_t i = 0; i < value->len; i++) {
        if (i) node_list_add(g, &list, node_text(g, ","));
        node_list_add(g, &list, inner->space);
        if (is_object)
            node_list_add(g, &list,
                          form_key(s, inner,
                                   form_name(s, inner, value->member[i].key,
                                             value->member[i].len)));
        node_list_add(g, &list,
                      form_literal(s, inner, is_object ? value->member[i].value : value->item[i]));
    }
    node_list_add(g, &list, inner->space);
    node_list_add(g, &list, node_text(g, is_object ? "}" : "]"));
    return g->status ? NULL : form_other(s, form, node_seq(g, list.node, list.n));
}

static const struct node *any_list(struct schema *s, const struct form *form, const char *open,
                                   const struct node *member, const char *close) {
    struct grammar *g = s->g;
    const struct node *comma = node_seq_of(g, node_text(g, ","), form->space, member);
    const struct node *some =
        node_seq_of(g, form->space, member, node_repeat(g, comma, 0, -1), form->space);
    return node_seq_of(g, node_text(g, open), node_alt_of(g, form->space, some),
                       node_text(g, close));
}

static const struct node *blanks(struct grammar *g) {
    enum { MAX_INDENT = 64 }; // blanks behind a line feed
    const struct range blank[] = {{'\t', '\t'}, {' ', ' '}};
    const struct node *indent = node_counted(g, node_class(g, blank, 2), 0, MAX_INDENT);
    return node_alt_of(g, node_empty(g), node_text(g, " "),
                       node_seq_of(g, node_text(g, "\n"), indent));
}

// Values of any kind, in a form that they may be nested in.
static bool nested_rules(struct schema *s, struct form *form) {
    struct grammar *g = s->g;
    form->space = form->kind == FORM_PAIRS ? node_empty(g) : blanks(g);
    form->value = grammar_rule(g, "value", 5);
    form->object = grammar_rule(g, "object", 6);
    form->array = grammar_rule(g, "array", 5);
    if (g->status) return false;
    const struct node *string = node_call(g, form->string), *value = node_call(g, form->value);
    const struct node *key = form->kind == FORM_JSON
                                 ? node_seq_of(g, string, node_text(g, ":"), form->space)
                                 : form_key(s, form, form_any_name(s, form));
    grammar_define(g, form->value,
                   node_alt_of(g, form_word(s, form, "true"), form_word(s, form, "false"),
                               form_word(s, form, "null"), string, node_call(g, s->number),
                               node_call(g, form->object), node_call(g, form->array)));
    grammar_define(g, form->object, any_list(s, form, "{", node_seq_of(g, key, value), "}"));
    grammar_define(g, form->array, any_list(s, form, "[", value, "]"));
    return !g->status;
}

bool form_ready(struct schema *s, struct form *form) {
    struct grammar *g = s->g;
    if (form->is_ready) return true;
    form->is_ready = true;
    if (form->inner && !form_ready(s, form->inner)) return false;
    if (form->kind == FORM_TAGS || form->kind == FORM_ARGUMENTS) return true;
    form->string = grammar_rule(g, "string", 6);
    if (form->string == UINT32_MAX) return false;
    grammar_define(g, form->string, any_string(s, form));
    return form->kind == FORM_RAW ? !g->status : nested_rules(s, form);
}

// Strings of JSON: their alphabet, lengths, patterns and formats.
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "constraint/front.h"
#include "constraint/product.h"
#include "constraint/schema.h"

// Ranges without the characters that JSON escapes.
static const struct node *plain_class(struct grammar *g, const struct range *range, size_t n) {
    static const struct range plain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}};
    struct range *cut = grammar_alloc(g, 3 * n, sizeof *cut);
    if (!cut) return NULL;
    size_t n_cut = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < 3; k++) {
            const uint32_t lo = range[i].lo > plain[k].lo ? range[i].lo : plain[k].lo;
            const uint32_t hi = range[i].hi < plain[k].hi ? range[i].hi : plain[k].hi;
            if (lo <= hi) cut[n_cut++] = (struct range){lo, hi};
        }
    }
    return node_class(g, cut, n_cut);
}

// The escape of a character; false where it stands for itself.
static bool escape_of(uint32_t cp, char out[8]) {
    static const char names[] = "\"\\bfnrt", values[] = "\"\\\b\f\n\r\t";
    const char *found = cp && cp < 0x80 ? strchr(values, (int)cp) : NULL;
    if (found)
        snprintf(out, 8, "\\%c", names[found - values]);
    else if (cp < 0x20)
        snprintf(out, 8, "\\u%04x", (unsigned)cp);
    else
        return false;
    return true;
}

const struct node *string_class(struct grammar *g, const struct range *range, size_t n) {
    struct node_list list = {0};
    if (!node_list_add(g, &list, plain_class(g, range, n))) return NULL;
    for (uint32_t cp = 0; cp < 0x80; cp++) {
        char escape[8];
        if (!escape_of(cp, escape)) continue;
        bool is_in = false;
        for (size_t i = 0; i < n; i++) is_in |= cp >= range[i].lo && cp <= range[i].hi;
        if (is_in && !node_list_add(g, &list, node_text(g, escape))) return NULL;
    }
    return node_alt(g, list.node, list.n);
}

const struct node *string_text(struct grammar *g, const char *text, size_t len) {
    if (len > SIZE_MAX / 8) return NULL;
    char *out = grammar_alloc(g, 6 * len + 3, 1);
    if (!out) return NULL;
    size_t n = 0;
    out[n++] = '"';
    for (size_t i = 0; i < len; i++) {
        char escape[8];
        if (escape_of((uint8_t)text[i], escape)) {
            memcpy(out + n, escape, strlen(escape));
            n += strlen(escape);
        } else {
            out[n++] = text[i];
        }
    }
    out[n++] = '"';
    return node_bytes(g, out, n);
}

const struct node *string_unit(struct grammar *g) {
    static const char rest[] = "\\\\[\"\\\\/bfnrt]"
                               "|\\\\u(?:[0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})"
                               "|\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}";
    const struct range all = {0, 0x10FFFF};
    return node_alt_of(g, plain_class(g, &all, 1),
                       regex_node(g, rest, sizeof rest - 1, false, node_class, ""));
}

// --- keywords ---

// The message of another reader, behind its place.
static const struct node *fail_at(struct schema *s, const struct json *part, const char *keyword) {
    char message[256];
    if (s->g->status != RN_ERR_ARG || !s->g->err) return NULL;
    snprintf(message, sizeof message, "%.255s", s->g->err->message);
    s->g->status = RN_OK;
    return schema_fail(s, part, keyword, "%s", message);
}

static const struct node *pattern_node(struct schema *s, const struct json *part,
                                       const struct json *pattern, regex_class_fn class_node) {
    if (pattern->kind != JREAD_STRING)
        return schema_expected(s, part, "pattern", pattern, "a string");
    const struct node *node = regex_node(s->g, pattern->text, pattern->len, true, class_node, "");
    return node ? node : fail_at(s, part, "pattern");
}

static const struct node *format_node(struct schema *s, const struct json *part,
                                      const struct json *format, regex_class_fn class_node,
                                      bool *is_any) {
    *is_any = false;
    if (format->kind != JREAD_STRING) return schema_expected(s, part, "format", format, "a string");
    bool is_known;
    const char *expression = format_expression(format->text, format->len, &is_known);
    if (expression) return regex_node(s->g, expression, strlen(expression), false, class_node, "");
    if (is_known)
        return schema_fail(s, part, "format", "the format \"%.40s\" is not supported",
                           format->text);
    *is_any = true;
    return node_empty(s->g);
}

// Patterns and formats of all parts together; *found: how many.
static const struct node *expressions(struct schema *s, const struct conjunction *c,
                                      regex_class_fn class_node, int *found) {
    const struct node *all = NULL;
    *found = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct json *pattern = json_get(c->part[i], "pattern");
        const struct json *format = json_get(c->part[i], "format");
        const struct node *node[2] = {NULL, NULL};
        bool is_any = true;
        if (pattern && !(node[0] = pattern_node(s, c->part[i], pattern, class_node))) return NULL;
        if (format && !(node[1] = format_node(s, c->part[i], format, class_node, &is_any)))
            return NULL;
        if (is_any) node[1] = NULL;
        for (int k = 0; k < 2; k++) {
            if (!node[k]) continue;
            all = (*found)++ ? node_both(s->g, all, node[k]) : node[k];
            if (!all) return NULL;
        }
    }
    return all;
}

// A string that is a text of a grammar. Grammars have no products, so no other keyword may restrict
// it.
static const struct node *grammar_string(struct schema *s, const struct conjunction *c,
                                         const struct json *part) {
    static const char keyword[] = "x-lark";
    static const char *const others[] = {"pattern", "format", "minLength", "maxLength"};
    const struct json *text = json_get(part, keyword);
    if (text->kind != JREAD_STRING) return schema_expected(s, part, keyword, text, "a string");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (schema_part_with(c, others[i]))
            return schema_fail(s, part, keyword, "not supported beside \"%s\"", others[i]);
    for (uint32_t i = 0; i < c->n; i++)
        if (c->part[i] != part && json_get(c->part[i], keyword))
            return schema_fail(s, part, keyword, "two grammars for one string");
    const struct node *node = form_grammar(s, c->form, text->text, text->len);
    return node ? node : fail_at(s, part, keyword);
}

const struct node *schema_string(struct schema *s, const struct conjunction *c) {
    struct grammar *g = s->g;
    int64_t min, max;
    int found;
    const struct json *with_grammar = schema_part_with(c, "x-lark");
    if (with_grammar) return grammar_string(s, c, with_grammar);
    if (!schema_bounds(s, c, "minLength", "maxLength", &min, &max)) return NULL;
    const bool is_bounded = min > 0 || max >= 0;
    const int64_t expand_max = g->expand_max;
    bool is_combined =
        is_bounded && (schema_part_with(c, "pattern") || schema_part_with(c, "format"));
    // expressions that are combined may not call a rule
    if (is_combined || c->n > 1 || c->form->guards || c->form->kind == FORM_RAW ||
        c->form->kind == FORM_PAIRS)
        g->expand_max = GRAMMAR_MAX_REPEAT;
    const struct node *content = expressions(s, c, form_class(c->form), &found);
    g->expand_max = expand_max;
    if (g->status) return NULL;
    if (found && is_bounded) {
        const struct range all = {0, 0x10FFFF};
        content = node_both(g, content, node_repeat(g, form_class(c->form)(g, &all, 1), min, max));
    } else if (is_bounded) {
        return form_counted(s, c->form, min, max);
    } else if (!found) {
        return node_call(g, c->form->string);
    }
    return content ? form_string(s, c->form, content) : NULL;
}

bool schema_string_passes(struct schema *s, const struct conjunction *c, const struct json *value) {
    int64_t min, max, n = 0;
    int found;
    const struct json *with_grammar = schema_part_with(c, "x-lark");
    if (with_grammar)
        schema_fail(s, with_grammar, "x-lark", "not supported beside a list of strings");
    if (with_grammar || !schema_bounds(s, c, "minLength", "maxLength", &min, &max)) return false;
    for (size_t i = 0; i < value->len; i++) n += ((uint8_t)value->text[i] & 0xC0) != 0x80;
    if (n < min || (max >= 0 && n > max)) return false;
    const int64_t expand_max = s->g->expand_max;
    s->g->expand_max = GRAMMAR_MAX_REPEAT; // a text is matched without calls
    const struct node *content = expressions(s, c, node_class, &found);
    s->g->expand_max = expand_max;
    return !s->g->status && (!found || node_matches(s->g, content, value->text, value->len));
}

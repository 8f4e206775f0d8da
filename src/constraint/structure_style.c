// Styles of a schema in a structure: the forms in which models write the arguments of their calls.
// Equal styles have one form, so that their rules are made once.
#include "constraint/structure_style.h"

#include <string.h>

#include "constraint/freetext.h"

#define T(literal)                                                                                 \
    { literal, sizeof literal - 1 }
#define DSML "\uFF5CDSML\uFF5C"

// The texts of a style, by the names of their members.
enum { KEY_OPEN, KEY_CLOSE, TEXT_CLOSE, VALUE_OPEN, VALUE_CLOSE, INNER, OUTER, QUOTE, N_TEXTS };
static const char *const text_names[N_TEXTS] = {"key_open",   "key_close",   "text_close",
                                                "value_open", "value_close", "inner",
                                                "outer",      "quote"};

struct style {
    struct style *next;
    enum form_kind kind;
    struct form_text text[N_TEXTS];
    struct form form, raw, json;
};

static const struct preset {
    const char *name;
    enum form_kind kind;
    struct form_text text[N_TEXTS];
} presets[] = {
    {"qwen_xml",
     FORM_TAGS,
     {[KEY_OPEN] = T("<parameter="),
      [KEY_CLOSE] = T(">"),
      [VALUE_CLOSE] = T("</parameter>"),
      [INNER] = T("\n"),
      [OUTER] = T("\n")}},
    {"minimax_xml",
     FORM_TAGS,
     {[KEY_OPEN] = T("<parameter name=\""),
      [KEY_CLOSE] = T("\">"),
      [VALUE_CLOSE] = T("</parameter>"),
      [OUTER] = T("\n")}},
    {"deepseek_xml",
     FORM_TAGS,
     {[KEY_OPEN] = T("<" DSML "parameter name=\""),
      [KEY_CLOSE] = T("\" string=\"false\">"),
      [TEXT_CLOSE] = T("\" string=\"true\">"),
      [VALUE_CLOSE] = T("</" DSML "parameter>"),
      [OUTER] = T("\n")}},
    {"glm_xml",
     FORM_TAGS,
     {[KEY_OPEN] = T("<arg_key>"),
      [KEY_CLOSE] = T("</arg_key>"),
      [VALUE_OPEN] = T("<arg_value>"),
      [VALUE_CLOSE] = T("</arg_value>"),
      [INNER] = T("\n"),
      [OUTER] = T("\n")}},
    {"tags", FORM_TAGS, {[KEY_OPEN] = {0}}},
    {"python", FORM_ARGUMENTS, {[KEY_OPEN] = {0}}},
    {"pairs", FORM_PAIRS, {[KEY_OPEN] = {0}}},
};

// Texts of the source take the place of those of the preset.
static bool read_texts(struct schema *s, const struct json *holder, struct style *style) {
    for (int i = 0; i < N_TEXTS; i++) {
        const struct json *value = json_get(holder, text_names[i]);
        if (!value || value->kind == JREAD_NULL) continue;
        if (value->kind != JREAD_STRING) {
            schema_expected(s, holder, text_names[i], value, "a string");
            return false;
        }
        style->text[i] = (struct form_text){value->text, value->len};
    }
    return true;
}

static bool is_equal(const struct style *a, const struct style *b) {
    if (a->kind != b->kind) return false;
    for (int i = 0; i < N_TEXTS; i++)
        if (a->text[i].len != b->text[i].len ||
            (a->text[i].len && memcmp(a->text[i].text, b->text[i].text, a->text[i].len) != 0))
            return false;
    return true;
}

static struct form_text join(struct grammar *g, struct form_text a, struct form_text b) {
    char *text = grammar_alloc(g, a.len + b.len + 1, 1);
    if (!text) return (struct form_text){0};
    if (a.len) memcpy(text, a.text, a.len);
    if (b.len) memcpy(text + a.len, b.text, b.len);
    return (struct form_text){text, a.len + b.len};
}

static const struct node *marked(struct grammar *g, struct form_text text) {
    const struct node *node = node_marked(g, text.text, text.len);
    if (!node && !g->status)
        grammar_fail(g, RN_ERR_ARG, "the style's \"%.*s\" ends the text", (int)text.len, text.text);
    return node;
}

// Members between tags: the text behind a name belongs to the value, since it may tell a string.
static void make_tags(struct schema *s, struct style *style) {
    struct grammar *g = s->g;
    const struct form_text *t = style->text, none = {0};
    const bool is_apart = t[VALUE_OPEN].len > 0;
    const struct form_text lead = join(g, t[INNER], t[VALUE_OPEN]);
    struct form *raw = &style->raw;
    style->json.guards = t[VALUE_CLOSE].len > 1 && memcmp(t[VALUE_CLOSE].text, "</", 2) == 0;
    *raw = (struct form){.kind = FORM_RAW, .inner = style->json.guards ? &style->json : &s->json};
    raw->open = marked(g, join(g, t[TEXT_CLOSE].len ? t[TEXT_CLOSE] : t[KEY_CLOSE], lead));
    raw->other_open = marked(g, join(g, t[KEY_CLOSE], lead));
    raw->until = join(g, is_apart ? none : t[INNER], t[VALUE_CLOSE]);
    raw->forbid = raw->until.len == t[VALUE_CLOSE].len ? none : t[VALUE_CLOSE];
    raw->after = marked(g, t[OUTER]);
    raw->other_close = marked(g, join(g, raw->until, t[OUTER]));
    raw->trims = !is_apart && t[INNER].len == 0;
    style->form = (struct form){.kind = FORM_TAGS,
                                .inner = raw,
                                .key_open = t[KEY_OPEN],
                                .key_close = t[KEY_CLOSE],
                                .text_close = t[TEXT_CLOSE]};
}

static void make(struct schema *s, struct style *style) {
    style->form.kind = style->kind;
    if (style->kind == FORM_TAGS) {
        make_tags(s, style);
    } else if (style->kind == FORM_ARGUMENTS) {
        style->raw.kind = FORM_PYTHON;
        style->form.inner = &style->raw;
    } else {
        style->form.open = marked(s->g, style->text[QUOTE]);
        style->form.until = style->text[QUOTE];
        style->form.after = node_empty(s->g);
    }
}

static bool check(struct schema *s, const struct json *format, const struct style *style) {
    static const int needed[] = {KEY_OPEN, KEY_CLOSE, VALUE_CLOSE};
    if (style->kind == FORM_PAIRS && !style->text[QUOTE].len)
        schema_fail(s, format, "quote", "expected a string");
    for (size_t i = 0; style->kind == FORM_TAGS && i < sizeof needed / sizeof *needed; i++)
        if (!style->text[needed[i]].len)
            schema_fail(s, format, "marks", "expected \"%s\", a string", text_names[needed[i]]);
    return !s->g->status;
}

bool style_read(struct schema *s, struct style **known, const struct json *format,
                struct form **out) {
    const struct json *name = json_get(format, "style"), *marks = json_get(format, "marks");
    size_t i = 0;
    *out = NULL;
    if (json_is(json_get(format, "type"), "qwen_xml_parameter")) {
        name = NULL;
    } else {
        if (!name || name->kind == JREAD_NULL || json_is(name, "json")) return true;
        while (i < sizeof presets / sizeof *presets && !json_is(name, presets[i].name)) i++;
    }
    if (i == sizeof presets / sizeof *presets) {
        schema_expected(s, format, "style", name, "the name of a style");
        return false;
    }
    struct style *style = grammar_alloc(s->g, 1, sizeof *style);
    if (!style) return false;
    style->kind = presets[i].kind;
    memcpy(style->text, presets[i].text, sizeof style->text);
    if (marks && !read_texts(s, marks, style)) return false;
    if (style->kind == FORM_PAIRS && !read_texts(s, format, style)) return false;
    if (!check(s, format, style)) return false;
    struct style *same = *known;
    while (same && !is_equal(same, style)) same = same->next;
    if (!same) {
        make(s, style);
        style->next = *known;
        *known = same = style;
    }
    *out = &same->form;
    return !s->g->status;
}

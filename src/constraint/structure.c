// Structures: formats inside each other, in the manner of xgrammar's structural tags. A format
// becomes a node. Formats of free text take the strings that end the tag around them along, since
// free text ends with the first of them.
#include <stdio.h>
#include <string.h>

#include "constraint/freetext.h"
#include "constraint/front.h"
#include "constraint/structure_style.h"
#include "constraint/vocab.h"

struct structure {
    struct grammar *g;
    struct schema schema; // also the place of errors
    struct style *styles;
};

// What comes behind a format.
struct ends {
    struct text_mark *mark; // [n]
    size_t n;
    bool may_end; // one of them is empty
    const struct node *node;
};

static const struct node *format_node(struct structure *s, const struct json *format,
                                      const struct ends *ends);

// --- members ---

static const struct json *member(struct structure *s, const struct json *format, const char *key,
                                 enum jread_kind kind, const char *expected) {
    const struct json *value = json_get(format, key);
    if (value && value->kind == kind) return value;
    schema_fail(&s->schema, format, key, "expected %s", expected);
    return NULL;
}

static bool is_set(struct structure *s, const struct json *format, const char *key) {
    const struct json *value = json_get(format, key);
    if (!value || value->kind == JREAD_NULL) return false;
    if (value->kind != JREAD_BOOL) schema_fail(&s->schema, format, key, "expected true or false");
    return value->kind == JREAD_BOOL && value->boolean;
}

// The token of {"type": "token", "token": id or text}; NULL: an error.
static const struct constraint_token *token_of(struct structure *s, const struct json *format) {
    const struct constraint_vocab *vocab = s->g->vocab;
    const struct json *value = json_get(format, "token");
    int64_t id = -1;
    if (value && value->kind == JREAD_STRING && vocab)
        id = vocab_token(vocab, value->text, value->len);
    if (value && value->kind == JREAD_NUMBER && value->len < 10) {
        id = 0;
        for (size_t i = 0; i < value->len && id >= 0; i++)
            id = value->text[i] >= '0' && value->text[i] <= '9' ? id * 10 + (value->text[i] - '0')
                                                                : -1;
    }
    if (vocab && id >= 0 && id < vocab->n_vocab && vocab->token[id].len > 0)
        return &vocab->token[id];
    schema_fail(&s->schema, format, "token", "the vocabulary has no such token");
    return NULL;
}

// A string, or the text of a token.
static bool text_of(struct structure *s, const struct json *holder, const char *key,
                    const struct json *value, const char **text, size_t *len) {
    if (value && value->kind == JREAD_STRING) {
        *text = value->text;
        *len = value->len;
        return true;
    }
    if (value && value->kind == JREAD_OBJECT && json_is(json_get(value, "type"), "token")) {
        const struct constraint_token *token = token_of(s, value);
        if (!token) return false;
        const bool has_brackets = token->is_special && !token->is_end;
        *text = token->data + has_brackets;
        *len = token->len - 2 * has_brackets;
        return true;
    }
    schema_fail(&s->schema, holder, key, "expected a string");
    return false;
}

// A string with special tokens. may_end: a token at its end may end the text.
static const struct node *marked(struct structure *s, const struct json *format, const char *key,
                                 const char *text, size_t len, bool may_end) {
    if (may_end) len = text_without_end(s->g, text, len);
    const struct node *node = node_marked(s->g, text, len);
    if (node || s->g->status) return node;
    return schema_fail(&s->schema, format, key, "a token that ends the text is not at the end");
}

static const struct node *marked_member(struct structure *s, const struct json *format,
                                        const char *key, bool may_end) {
    const char *text;
    size_t len;
    if (!text_of(s, format, key, json_get(format, key), &text, &len)) return NULL;
    return marked(s, format, key, text, len, may_end);
}

// Puts the place before a message of another front end.
static const struct node *at_place(struct structure *s, const struct json *format, const char *key,
                                   const struct node *node) {
    if (node || s->g->status != RN_ERR_ARG || !s->g->err) return node;
    char message[256];
    snprintf(message, sizeof message, "%.255s", s->g->err->message);
    s->g->status = RN_OK;
    return schema_fail(&s->schema, format, key, "%s", message);
}

// --- free text ---

struct marks {
    struct text_mark *at;
    size_t n, capacity;
};

static bool mark_add(struct structure *s, struct marks *marks, struct text_mark mark) {
    if (marks->n == marks->capacity) {
        const size_t capacity = marks->capacity ? 2 * marks->capacity : 8;
        struct text_mark *grown = grammar_alloc(s->g, capacity, sizeof *grown);
        if (!grown) return false;
        if (marks->n) memcpy(grown, marks->at, marks->n * sizeof *grown);
        marks->at = grown;
        marks->capacity = capacity;
    }
    marks->at[marks->n++] = mark;
    return true;
}

static bool marks_add_list(struct structure *s, struct marks *marks, const struct json *format,
                           const char *key) {
    const struct json *list = json_get(format, key);
    if (!list || list->kind == JREAD_NULL) return true;
    if (list->kind != JREAD_ARRAY) {
        schema_fail(&s->schema, format, key, "expected an array of strings");
        return false;
    }
    for (size_t i = 0; i < list->len; i++) {
        struct text_mark mark = {0};
        if (!text_of(s, format, key, list->item[i], &mark.text, &mark.len) ||
            !mark_add(s, marks, mark))
            return false;
    }
    return true;
}

static bool marks_add_ends(struct structure *s, struct marks *marks, const struct ends *ends) {
    for (size_t i = 0; ends && i < ends->n; i++)
        if (!mark_add(s, marks, ends->mark[i])) return false;
    return true;
}

static const struct node *free_text(struct structure *s, const struct marks *marks,
                                    const struct ends *ends) {
    return node_free_text(s->g, marks->at, marks->n, !ends || ends->may_end, true);
}

static const struct node *any_text(struct structure *s, const struct json *format,
                                   const struct ends *ends) {
    struct marks marks = {0};
    if (!marks_add_list(s, &marks, format, "excludes") ||
        !marks_add_list(s, &marks, format, "excluded_str") || !marks_add_ends(s, &marks, ends))
        return NULL;
    return free_text(s, &marks, ends);
}

// --- tags ---

static bool ends_add(struct structure *s, const struct json *tag, const struct json *value,
                     struct ends *ends, struct node_list *nodes) {
    const char *text;
    size_t len;
    if (!text_of(s, tag, "end", value, &text, &len)) return false;
    const struct node *node = marked(s, tag, "end", text, len, true);
    len = text_without_end(s->g, text, len);
    if (!node || !node_list_add(s->g, nodes, node)) return false;
    if (len == 0)
        ends->may_end = true;
    else
        ends->mark[ends->n++] =
            (struct text_mark){.text = text, .len = len, .then = node_empty(s->g), .is_end = true};
    return true;
}

// The strings that end a tag, a string or several.
static bool ends_of(struct structure *s, const struct json *tag, struct ends *ends) {
    const struct json *end = json_get(tag, "end");
    struct node_list nodes = {0};
    const bool is_list = end && end->kind == JREAD_ARRAY;
    const size_t n = is_list ? end->len : 1;
    *ends = (struct ends){.mark = grammar_alloc(s->g, n, sizeof *ends->mark)};
    if (!ends->mark) return false;
    if (n == 0) schema_fail(&s->schema, tag, "end", "expected a string");
    for (size_t i = 0; i < n && !s->g->status; i++)
        if (!ends_add(s, tag, is_list ? end->item[i] : end, ends, &nodes)) return false;
    ends->node = node_alt(s->g, nodes.node, nodes.n);
    return ends->node != NULL;
}

// Content and end of a tag.
static const struct node *tag_rest(struct structure *s, const struct json *tag) {
    struct ends ends;
    if (!ends_of(s, tag, &ends)) return NULL;
    const struct json *content = json_get(tag, "content"), *schema = json_get(tag, "schema");
    if (content) {
        if (content->kind != JREAD_OBJECT)
            return schema_fail(&s->schema, tag, "content", "expected a format: an object");
        return format_node(s, content, &ends);
    }
    if (!schema) return schema_fail(&s->schema, tag, "content", "expected a format: an object");
    const struct node *node = schema_part(&s->schema, schema, tag, "schema", NULL);
    return node ? node_seq_of(s->g, node, ends.node) : NULL;
}

static const struct node *tag_node(struct structure *s, const struct json *tag) {
    const struct node *begin = marked_member(s, tag, "begin", false);
    return begin ? node_seq_of(s->g, begin, tag_rest(s, tag)) : NULL;
}

static const struct json *tags_of(struct structure *s, const struct json *format, const char *key) {
    const struct json *tags = member(s, format, key, JREAD_ARRAY, "an array of tags");
    if (!tags) return NULL;
    if (tags->len == 0) schema_fail(&s->schema, format, key, "expected at least one tag");
    for (size_t i = 0; i < tags->len; i++)
        if (tags->item[i]->kind != JREAD_OBJECT)
            schema_fail(&s->schema, format, key, "expected an array of tags");
    return s->g->status ? NULL : tags;
}

// One of the tags, as a rule.
static const struct node *any_tag(struct structure *s, const struct json *tags) {
    struct node_list list = {0};
    for (size_t i = 0; i < tags->len; i++)
        if (!node_list_add(s->g, &list, tag_node(s, tags->item[i]))) return NULL;
    const uint32_t rule = grammar_rule(s->g, "tags", 4);
    if (rule == UINT32_MAX) return NULL;
    grammar_define(s->g, rule, node_alt(s->g, list.node, list.n));
    return node_call(s->g, rule);
}

// The bytes of a tag's begin up to the end of its trigger; 0: it starts with none. A special token
// is not cut in two.
static size_t trigger_len(struct structure *s, const struct json *triggers, const char *begin,
                          size_t len) {
    size_t trigger = 0;
    if (!grammar_work(s->g, 2 * triggers->len)) return 0;
    for (size_t i = 0; i < triggers->len; i++) {
        const struct json *t = triggers->item[i];
        if (t->kind == JREAD_STRING && t->len && t->len <= len &&
            memcmp(t->text, begin, t->len) == 0 && (!trigger || t->len < trigger))
            trigger = t->len;
    }
    return trigger ? text_boundary(s->g, begin, len, trigger) : 0;
}

static const struct node *triggered_tags(struct structure *s, const struct json *format,
                                         const char *tags_key, const struct ends *ends) {
    const struct json *tags = tags_of(s, format, tags_key);
    const struct json *triggers =
        tags ? member(s, format, "triggers", JREAD_ARRAY, "an array of strings") : NULL;
    const bool at_least_one = is_set(s, format, "at_least_one");
    const bool stops = is_set(s, format, "stop_after_first");
    const struct node *end = ends ? ends->node : node_empty(s->g);
    struct marks marks = {0};
    struct node_list first = {0};
    if (!triggers || s->g->status) return NULL;
    for (size_t i = 0; i < tags->len; i++) {
        const struct json *tag = tags->item[i];
        const char *text;
        size_t len;
        if (!text_of(s, tag, "begin", json_get(tag, "begin"), &text, &len)) return NULL;
        const size_t n = trigger_len(s, triggers, text, len);
        if (n == 0 && !s->g->status)
            return schema_fail(&s->schema, tag, "begin",
                               "the tag starts with none of the triggers");
        const struct node *head = marked(s, tag, "begin", text, n, false);
        const struct node *rest = marked(s, tag, "begin", text + n, len - n, false);
        rest = rest ? node_seq_of(s->g, rest, tag_rest(s, tag)) : NULL;
        if (!head || !rest || !node_list_add(s->g, &first, node_seq_of(s->g, head, rest)))
            return NULL;
        const struct text_mark mark = {.text = text,
                                       .len = n,
                                       .then = stops ? node_seq_of(s->g, rest, end) : rest,
                                       .is_end = stops};
        if (!mark_add(s, &marks, mark)) return NULL;
    }
    const struct node *one = node_alt(s->g, first.node, first.n);
    if (at_least_one && stops) return node_seq_of(s->g, one, end);
    if (!marks_add_list(s, &marks, format, "triggers") ||
        !marks_add_list(s, &marks, format, "excludes") || !marks_add_ends(s, &marks, ends))
        return NULL;
    const struct node *text = free_text(s, &marks, ends);
    return at_least_one ? node_seq_of(s->g, one, text) : text;
}

static const struct node *tags_with_separator(struct structure *s, const struct json *format) {
    struct grammar *g = s->g;
    const struct json *tags = tags_of(s, format, "tags");
    const bool at_least_one = is_set(s, format, "at_least_one");
    const bool stops = is_set(s, format, "stop_after_first");
    const struct node *tag = tags ? any_tag(s, tags) : NULL;
    const struct node *between = tag ? marked_member(s, format, "separator", false) : NULL;
    const struct node *empty = node_empty(g);
    if (!between || !empty) return NULL;
    const struct graph_edge edge[] = {{0, 1, tag}, {1, 0, between}, {1, 2, empty}};
    const struct node *list = stops ? tag : node_graph(g, edge, 3, 3);
    return at_least_one ? list : node_alt_of(g, empty, list);
}

// --- formats inside formats ---

static const struct node *sequence(struct structure *s, const struct json *format,
                                   const struct ends *ends, bool is_or) {
    const struct json *elements = member(s, format, "elements", JREAD_ARRAY, "an array of formats");
    struct node_list list = {0};
    if (!elements) return NULL;
    for (size_t i = 0; i < elements->len; i++) {
        const bool is_last = is_or || i + 1 == elements->len;
        if (elements->item[i]->kind != JREAD_OBJECT)
            return schema_fail(&s->schema, format, "elements", "expected an array of formats");
        if (!node_list_add(s->g, &list, format_node(s, elements->item[i], is_last ? ends : NULL)))
            return NULL;
    }
    if (is_or) return node_alt(s->g, list.node, list.n);
    if (elements->len == 0 && ends) return ends->node;
    return node_seq(s->g, list.node, list.n);
}

static bool count_of(struct structure *s, const struct json *format, const char *key,
                     int64_t *out) {
    const struct json *value = json_get(format, key);
    if (value && value->kind == JREAD_NUMBER && value->len <= 6) {
        const bool negative = value->text[0] == '-';
        int64_t n = 0;
        size_t i = negative;
        for (; i < value->len && value->text[i] >= '0' && value->text[i] <= '9'; i++)
            n = n * 10 + (value->text[i] - '0');
        *out = negative ? -1 : n;
        if (i == value->len) return true;
    }
    schema_fail(&s->schema, format, key, "expected a whole number");
    return false;
}

static const struct node *repeated(struct structure *s, const struct json *format, int64_t min,
                                   int64_t max) {
    const struct json *content = member(s, format, "content", JREAD_OBJECT, "a format: an object");
    return content ? at_place(s, format, NULL,
                              node_repeat(s->g, format_node(s, content, NULL), min, max))
                   : NULL;
}

// --- all of them ---

static const struct node *const_string(struct structure *s, const struct json *format) {
    return marked_member(s, format, json_get(format, "value") ? "value" : "text", true);
}

static const struct node *regex(struct structure *s, const struct json *format) {
    const struct json *pattern = member(s, format, "pattern", JREAD_STRING, "a string");
    if (!pattern) return NULL;
    return at_place(s, format, "pattern",
                    regex_node(s->g, pattern->text, pattern->len, false, node_class, ""));
}

static const struct node *grammar(struct structure *s, const struct json *format) {
    const struct json *text = member(s, format, "grammar", JREAD_STRING, "a string");
    if (!text) return NULL;
    return at_place(s, format, "grammar",
                    lark_is(text->text, text->len)
                        ? lark_node(s->g, text->text, text->len, node_class)
                        : gbnf_node(s->g, text->text, text->len));
}

static const struct node *json_schema(struct structure *s, const struct json *format) {
    const struct json *schema = json_get(format, "json_schema");
    struct form *form;
    if (!schema) return schema_fail(&s->schema, format, "json_schema", "expected a schema");
    if (!style_read(&s->schema, &s->styles, format, &form)) return NULL;
    return schema_part(&s->schema, schema, format, "json_schema", form);
}

static const struct node *token(struct structure *s, const struct json *format) {
    const struct constraint_token *token = token_of(s, format);
    if (!token) return NULL;
    return token->is_end ? node_empty(s->g) : node_bytes(s->g, token->data, token->len);
}

static const struct node *repeat(struct structure *s, const struct json *format) {
    int64_t min, max;
    if (!count_of(s, format, "min", &min) || !count_of(s, format, "max", &max)) return NULL;
    return repeated(s, format, min < 0 ? 0 : min, max);
}

static const struct node *optional(struct structure *s, const struct json *format) {
    return repeated(s, format, 0, 1);
}
static const struct node *star(struct structure *s, const struct json *format) {
    return repeated(s, format, 0, -1);
}
static const struct node *plus(struct structure *s, const struct json *format) {
    return repeated(s, format, 1, -1);
}

// Formats that are followed by the ends as they are.
static const struct {
    const char *name;
    const struct node *(*read)(struct structure *s, const struct json *format);
} plain_formats[] = {
    {"const_string", const_string},
    {"json_schema", json_schema},
    {"qwen_xml_parameter", json_schema},
    {"regex", regex},
    {"grammar", grammar},
    {"token", token},
    {"tag", tag_node},
    {"tags_with_separator", tags_with_separator},
    {"optional", optional},
    {"star", star},
    {"plus", plus},
    {"repeat", repeat},
};

static const struct node *format_node(struct structure *s, const struct json *format,
                                      const struct ends *ends) {
    const struct json *type = json_get(format, "type");
    if (!grammar_work(s->g, 8)) return NULL;
    if (json_is(type, "any_text")) return any_text(s, format, ends);
    if (json_is(type, "triggered_tags")) return triggered_tags(s, format, "tags", ends);
    if (json_is(type, "sequence") || json_is(type, "or"))
        return sequence(s, format, ends, json_is(type, "or"));
    for (size_t i = 0; i < sizeof plain_formats / sizeof *plain_formats; i++) {
        if (!json_is(type, plain_formats[i].name)) continue;
        const struct node *node = plain_formats[i].read(s, format);
        return node && ends ? node_seq_of(s->g, node, ends->node) : node;
    }
    if (!type || type->kind != JREAD_STRING)
        return schema_fail(&s->schema, format, "type", "expected the name of a format");
    return schema_fail(&s->schema, format, "type", "the format \"%.40s\" is not supported",
                       type->text);
}

// {"type": "structural_tag", "format": ...}, its older form, or a format.
static const struct node *root_node(struct structure *s, const struct json *root) {
    const struct json *type = json_get(root, "type"), *format = json_get(root, "format");
    if (json_get(root, "structures")) return triggered_tags(s, root, "structures", NULL);
    if (type && !json_is(type, "structural_tag")) return format_node(s, root, NULL);
    if (!format || format->kind != JREAD_OBJECT)
        return schema_fail(&s->schema, root, "format", "expected a format: an object");
    return format_node(s, format, NULL);
}

void structure_read(struct grammar *g, const char *text, size_t len) {
    struct structure *s = grammar_alloc(g, 1, sizeof *s);
    const struct json *root = json_read(g, "the structure", text, len);
    if (!s || !root) return;
    s->g = g;
    schema_init(&s->schema, g, root);
    if (root->kind != JREAD_OBJECT) {
        grammar_fail(g, RN_ERR_ARG, "the structure: expected an object");
        return;
    }
    const struct node *node = root_node(s, root);
    g->start = grammar_rule(g, "root", 4);
    grammar_define(g, g->start, node);
}

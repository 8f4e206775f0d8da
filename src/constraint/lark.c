// Lark: "name: alternatives", rules in lower case and terminals in upper case; the text is the rule
// "start". The definitions are found first, since they may be used before. Rules that "start" does
// not reach are not read. Terminals are regular; each is read once.
#include "constraint/lark.h"

#include <string.h>

// --- the terminals of Lark's common.lark, as expressions ---

#define INT     "[0-9]+"
#define DECIMAL "(?:" INT "\\.[0-9]*|\\." INT ")"
#define EXP     "[eE][+-]?" INT
#define FLOAT   "(?:" INT EXP "|" DECIMAL "(?:" EXP ")?)"
#define SIGN    "[+-]?"

static const struct {
    const char *name, *expression;
} common[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", INT},
    {"SIGNED_INT", SIGN INT},
    {"DECIMAL", DECIMAL},
    {"_EXP", EXP},
    {"FLOAT", FLOAT},
    {"SIGNED_FLOAT", SIGN FLOAT},
    {"NUMBER", "(?:" FLOAT "|" INT ")"},
    {"SIGNED_NUMBER", SIGN "(?:" FLOAT "|" INT ")"},
    {"ESCAPED_STRING", "\"(?:[^\"\\\\\\n]|\\\\[^\\n])*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[A-Za-z]"},
    {"WORD", "[A-Za-z]+"},
    {"CNAME", "[A-Za-z_][A-Za-z_0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(?:\\r?\\n)+"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"CPP_COMMENT", "//[^\\n]*"},
    {"C_COMMENT", "/\\*(?:[^*]|\\*+[^*/])*\\*+/"},
    {"SQL_COMMENT", "--[^\\n]*"},
};

static const char *common_expression(const char *name, size_t len) {
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (strlen(common[i].name) == len && memcmp(common[i].name, name, len) == 0)
            return common[i].expression;
    return NULL;
}

// --- names ---

static const char *text_of(const struct lark *l, const struct lark_token *token) {
    return (const char *)l->source.text + token->at;
}

// For messages, which are cut where they are too long.
static int len_of(const struct lark_token *token) { return (int)(token->end - token->at); }

static bool is_word(const struct lark *l, const struct lark_token *token, const char *word) {
    return token->end - token->at == strlen(word) &&
           memcmp(text_of(l, token), word, strlen(word)) == 0;
}

static bool is_mark(const struct lark_token *token, uint8_t mark) {
    return token->word == LARK_MARK && token->mark == mark;
}

uint32_t lark_named(struct lark *l, const struct lark_token *token) {
    struct grammar *g = l->source.g;
    const uint32_t index = names_index(g, &l->names, text_of(l, token), token->end - token->at);
    if (index == UINT32_MAX || index < l->n_definition) return index;
    struct lark_definition *grown = grammar_alloc(g, l->names.capacity, sizeof *grown);
    if (!grown) return UINT32_MAX;
    if (l->n_definition) memcpy(grown, l->definition, l->n_definition * sizeof *grown);
    l->definition = grown;
    l->n_definition = l->names.capacity;
    return index;
}

static struct lark_definition *defined(struct lark *l, const struct lark_token *token,
                                       uint32_t *index) {
    *index = lark_named(l, token);
    if (*index == UINT32_MAX) return NULL;
    struct lark_definition *d = &l->definition[*index];
    if (d->is_defined) return d;
    source_fail(&l->source, token->at, "the %s \"%.*s\" is not defined",
                token->word == LARK_TERMINAL ? "terminal" : "rule", len_of(token),
                text_of(l, token));
    return NULL;
}

const struct node *lark_terminal(struct lark *l, const struct lark_token *token) {
    uint32_t index;
    struct lark_definition *d = defined(l, token, &index);
    if (!d || d->node) return d ? d->node : NULL;
    if (d->is_open || l->depth == GRAMMAR_MAX_DEPTH) {
        source_fail(&l->source, token->at,
                    d->is_open ? "the terminal \"%.*s\" has itself in it"
                               : "the terminal \"%.*s\": terminals are nested too deeply",
                    len_of(token), text_of(l, token));
        return NULL;
    }
    d->is_open = true;
    l->depth++;
    const struct node *node = d->expression
                                  ? regex_node(l->source.g, d->expression, strlen(d->expression),
                                               false, l->class_node, "")
                                  : lark_body(l, d->body, 0);
    l->depth--;
    l->definition[index].is_open = false;
    return l->definition[index].node = node;
}

// Literals and classes have no longer text. Each place has a rule of its own, since a terminal is
// greedy where other text may follow it.
const struct node *lark_text(struct lark *l, const struct node *node, const char *name,
                             size_t len) {
    struct grammar *g = l->source.g;
    if (!node || node->kind == NODE_CLASS || node->kind == NODE_BYTES) return node;
    const uint32_t rule = grammar_rule(g, name, len);
    if (rule == UINT32_MAX) return NULL;
    grammar_define(g, rule, node);
    g->rule[rule].greedy = true;
    return node_call(g, rule);
}

// Rules get their bodies later.
const struct node *lark_rule(struct lark *l, const struct lark_token *token) {
    struct grammar *g = l->source.g;
    uint32_t index;
    struct lark_definition *d = defined(l, token, &index);
    if (!d) return NULL;
    if (d->rule) return node_call(g, d->rule - 1);
    const uint32_t rule = grammar_rule(g, text_of(l, token), token->end - token->at);
    if (rule == UINT32_MAX) return NULL;
    d->rule = rule + 1;
    if (l->n_todo == l->todo_capacity) {
        const uint32_t capacity = l->todo_capacity ? 2 * l->todo_capacity : 32;
        uint32_t *grown = grammar_alloc(g, capacity, sizeof *grown);
        if (!grown) return NULL;
        if (l->n_todo) memcpy(grown, l->todo, l->n_todo * sizeof *grown);
        l->todo = grown;
        l->todo_capacity = capacity;
    }
    l->todo[l->n_todo++] = index;
    return node_call(g, rule);
}

// --- statements ---

// Behind the line on which a statement ends.
static bool skip_statement(struct lark *l, struct lark_token *token) {
    int depth = 0;
    do {
        if (!lark_next(&l->source, token->end, token)) return false;
        depth += is_mark(token, '(') || is_mark(token, '[');
        depth -= is_mark(token, ')') || is_mark(token, ']');
    } while (token->word != LARK_END && (token->word != LARK_LINE || depth > 0));
    return true;
}

// "name: ...", "name.2: ..."; a name may have "?" or "!" before it.
static bool read_definition(struct lark *l, struct lark_token *token) {
    const struct source *s = &l->source;
    while (is_mark(token, '?') || is_mark(token, '!'))
        if (!lark_next(s, token->end, token)) return false;
    if (token->word != LARK_RULE && token->word != LARK_TERMINAL)
        return source_fail(s, token->at, "expected the name of a rule or a terminal");
    const struct lark_token name = *token;
    const uint32_t index = lark_named(l, token);
    if (index == UINT32_MAX || !lark_next(s, token->end, token)) return false;
    if (is_mark(token, '{')) return source_fail(s, token->at, "templates are not supported");
    if (is_mark(token, '.')) { // a priority
        if (!lark_next(s, token->end, token)) return false;
        if (is_mark(token, '-') && !lark_next(s, token->end, token)) return false;
        if (token->word != LARK_NUMBER) return source_fail(s, token->at, "expected a priority");
        if (!lark_next(s, token->end, token)) return false;
    }
    if (!is_mark(token, ':'))
        return source_fail(s, token->at, "expected ':' behind \"%.*s\"", len_of(&name),
                           text_of(l, &name));
    struct lark_definition *d = &l->definition[index];
    if (d->is_defined) return source_fail(s, name.at, "a name that is defined already");
    *d = (struct lark_definition){.is_defined = true, .at = name.at, .body = token->end};
    return skip_statement(l, token);
}

// One terminal of common; alias: its name here.
static bool import_one(struct lark *l, const struct lark_token *name,
                       const struct lark_token *alias) {
    const char *const expression = common_expression(text_of(l, name), name->end - name->at);
    if (!expression)
        return source_fail(&l->source, name->at, "common has no terminal \"%.*s\"", len_of(name),
                           text_of(l, name));
    const uint32_t index = lark_named(l, alias);
    if (index == UINT32_MAX) return false;
    struct lark_definition *d = &l->definition[index];
    if (d->is_defined && d->expression != expression)
        return source_fail(&l->source, alias->at, "a name that is defined already");
    *d = (struct lark_definition){.is_defined = true, .at = alias->at, .expression = expression};
    return true;
}

// "(A, B)" behind "%import common"
static bool import_list(struct lark *l, struct lark_token *token) {
    const struct source *s = &l->source;
    do {
        if (!lark_next(s, token->end, token)) return false;
        if (token->word != LARK_TERMINAL)
            return source_fail(s, token->at, "expected the name of a terminal");
        if (!import_one(l, token, token) || !lark_next(s, token->end, token)) return false;
    } while (is_mark(token, ','));
    if (!is_mark(token, ')')) return source_fail(s, token->at, "expected ')'");
    return lark_next(s, token->end, token);
}

// "common.A", "common.A -> B" or "common (A, B)"
static bool read_import(struct lark *l, struct lark_token *token) {
    const struct source *s = &l->source;
    if (!lark_next(s, token->end, token)) return false;
    if (!is_word(l, token, "common"))
        return source_fail(s, token->at,
                           "imports other than those of \"common\" are not supported");
    if (!lark_next(s, token->end, token)) return false;
    if (is_mark(token, '(')) return import_list(l, token);
    if (!is_mark(token, '.')) return source_fail(s, token->at, "expected '.'");
    if (!lark_next(s, token->end, token)) return false;
    const struct lark_token name = *token;
    struct lark_token alias = name;
    if (!lark_next(s, token->end, token)) return false;
    if (token->word == LARK_ARROW) {
        if (!lark_next(s, token->end, &alias) || !lark_next(s, alias.end, token)) return false;
        if (alias.word != LARK_TERMINAL)
            return source_fail(s, alias.at, "expected the name of a terminal");
    }
    return import_one(l, &name, &alias);
}

// The text behind "%ignore" is read once all definitions are known.
static bool note_ignored(struct lark *l, struct lark_token *token) {
    if (l->n_ignored == LARK_MAX_IGNORED)
        return source_fail(&l->source, token->at, "more than %d %%ignore", LARK_MAX_IGNORED);
    l->ignored[l->n_ignored++] = token->end;
    return skip_statement(l, token);
}

static bool read_directive(struct lark *l, struct lark_token *token) {
    const struct source *s = &l->source;
    const struct lark_token directive = *token;
    if (is_word(l, token, "%ignore")) return note_ignored(l, token);
    if (!is_word(l, token, "%import"))
        return source_fail(s, directive.at, "\"%.*s\" is not supported", len_of(&directive),
                           text_of(l, &directive));
    if (!read_import(l, token)) return false;
    if (token->word == LARK_END || token->word == LARK_LINE) return true;
    return source_fail(s, token->at, "expected the end of the line");
}

static bool read_statements(struct lark *l) {
    struct lark_token token = {0};
    do {
        if (!lark_next(&l->source, token.end, &token)) return false;
        if (token.word == LARK_END || token.word == LARK_LINE) continue;
        if (!(token.word == LARK_DIRECTIVE ? read_directive(l, &token)
                                           : read_definition(l, &token)))
            return false;
    } while (token.word != LARK_END);
    return true;
}

// --- grammars ---

static const struct node *ignored_node(struct lark *l) {
    struct node_list list = {0};
    for (uint32_t i = 0; i < l->n_ignored; i++)
        if (!node_list_add(l->source.g, &list, lark_body(l, l->ignored[i], 0))) return NULL;
    return node_alt(l->source.g, list.node, list.n);
}

// The characters of a node that is one of them, or any number of them; false: it is another one.
static bool characters_of(const struct node *node, struct range *out, size_t *n) {
    if (node->kind == NODE_REPEAT && node->min <= 1 && node->max < 0) node = node->part[0];
    if (node->kind == NODE_BYTES && node->n == 1) {
        out[(*n)++] = (struct range){node->byte[0], node->byte[0]};
        return true;
    }
    if (node->kind != NODE_CLASS || *n + node->n > LARK_MAX_IGNORED) return false;
    memcpy(out + *n, node->range, node->n * sizeof *out);
    *n += node->n;
    return true;
}

// Blanks and the like, as the characters that they are; 0: other text is ignored, too.
static size_t ignored_characters(struct lark *l, struct range out[LARK_MAX_IGNORED + 1]) {
    const regex_class_fn class_node = l->class_node;
    size_t n = 0;
    l->class_node = node_class;
    const struct node *node = ignored_node(l);
    l->class_node = class_node;
    for (uint32_t i = 0; i < l->n_definition; i++) l->definition[i].node = NULL;
    if (!node) return 0;
    const size_t n_part = node->kind == NODE_ALT ? node->n : 1;
    for (size_t i = 0; i < n_part; i++)
        if (!characters_of(node->kind == NODE_ALT ? node->part[i] : node, out, &n)) return 0;
    return n;
}

// Ignored characters are bounded, so that a model cannot write blanks without end.
static bool read_ignored(struct lark *l) {
    enum { MAX_BLANKS = 64 };
    struct grammar *g = l->source.g;
    struct range range[LARK_MAX_IGNORED + 1];
    if (!l->n_ignored) return true;
    const size_t n = ignored_characters(l, range);
    if (g->status) return false;
    l->between = n ? node_counted(g, l->class_node(g, range, n), 0, MAX_BLANKS)
                   : node_repeat(g, ignored_node(l), 0, -1);
    return !g->status;
}

const struct node *lark_node(struct grammar *g, const char *text, size_t len,
                             regex_class_fn class_node) {
    static const char start[] = "start";
    struct lark *l = grammar_alloc(g, 1, sizeof *l);
    if (!l) return NULL;
    *l = (struct lark){.source = {g, (const uint8_t *)text, len}, .class_node = class_node};
    if (!read_statements(l)) return NULL;
    const uint32_t index = names_index(g, &l->names, start, sizeof start - 1);
    if (index == UINT32_MAX) return NULL;
    if (index >= l->n_definition || !l->definition[index].is_defined)
        return grammar_fail(g, RN_ERR_ARG, "the grammar has no rule \"start\"");
    const size_t at = l->definition[index].at;
    const struct lark_token token = {.word = LARK_RULE, .at = at, .end = at + sizeof start - 1};
    const struct node *node = read_ignored(l) ? lark_rule(l, &token) : NULL;
    for (uint32_t i = 0; i < l->n_todo && !g->status; i++) {
        const struct lark_definition d = l->definition[l->todo[i]];
        grammar_define(g, d.rule - 1, lark_body(l, d.body, d.rule));
    }
    return g->status ? NULL : node;
}

void lark_read(struct grammar *g, const char *text, size_t len) {
    const struct node *node = lark_node(g, text, len, node_class);
    g->start = grammar_rule(g, "root", 4);
    grammar_define(g, g->start, node);
}

// A grammar in GBNF has a line that starts with a name and "::="; one in Lark has a colon.
bool lark_is(const char *text, size_t len) {
    bool has_colon = false;
    for (size_t i = 0; i < len;) {
        const char *const end = memchr(text + i, '\n', len - i);
        const size_t line_end = end ? (size_t)(end - text) : len;
        size_t at = i;
        while (at < line_end && (text[at] == ' ' || text[at] == '\t')) at++;
        while (at < line_end && !memchr(": \t\"#/|", text[at], 7)) at++;
        while (at < line_end && (text[at] == ' ' || text[at] == '\t')) at++;
        if (line_end - at >= 3 && memcmp(text + at, "::=", 3) == 0) return false;
        has_colon |= memchr(text + i, ':', line_end - i) != NULL;
        i = line_end + 1;
    }
    return has_colon;
}

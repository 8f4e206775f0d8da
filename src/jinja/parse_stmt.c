// Statements and the parser's common parts. Blocks nest by recursion, which the depth bounds; if
// and its elifs are one node.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jinja/parser.h"
#include "jinja/table.h"
#include "unicode/unicode.h"

void jinja_position(const struct template *tmpl, size_t at, size_t *line, size_t *column) {
    *line = 1;
    *column = 1;
    for (size_t i = 0; i < at && i < tmpl->len; i++) {
        if (tmpl->source[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (((uint8_t)tmpl->source[i] & 0xc0) != 0x80) {
            ++*column;
        }
    }
}

struct node *jinja_parse_fail(struct parser *p, uint32_t at, const char *fmt, ...) {
    if (p->has_failed) return NULL;
    p->has_failed = true;
    char message[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    size_t line, column;
    jinja_position(p->tmpl, at, &line, &column);
    p->status = err_set(p->err, RN_ERR_MODEL, "line %zu, column %zu: %s", line, column, message);
    return NULL;
}

// The token in words, for messages.
static void token_describe(const struct token *token, char *out, size_t size) {
    if (token->kind != T_NAME) {
        snprintf(out, size, "%s", jinja_token_name(token->kind));
        return;
    }
    char name[80];
    unicode_quote(token->text, token->len, name, sizeof name);
    snprintf(out, size, "'%s'", name);
}

struct node *jinja_parse_unexpected(struct parser *p, const char *wanted) {
    if (p->current.kind == T_ERROR) {
        return jinja_parse_fail(p, (uint32_t)p->lex.error_at, "%s", p->lex.error);
    }
    char found[96];
    token_describe(&p->current, found, sizeof found);
    return jinja_parse_fail(p, p->current.at, "expected %s, got %s", wanted, found);
}

void *jinja_parse_alloc(struct parser *p, size_t bytes) {
    void *memory = arena_alloc(&p->tmpl->arena, bytes);
    if (!memory && !p->has_failed) {
        p->has_failed = true;
        p->status = err_set(p->err, RN_ERR_NOMEM, "no memory for the template");
    }
    return memory;
}

struct node *jinja_node(struct parser *p, enum node_kind kind, uint32_t at) {
    struct node *node = jinja_parse_alloc(p, sizeof *node);
    if (!node) return NULL;
    node->kind = (uint8_t)kind;
    node->at = at;
    return node;
}

struct str *jinja_parse_str(struct parser *p, const char *data, size_t len) {
    struct str *s = jinja_parse_alloc(p, sizeof *s);
    if (!s) return NULL;
    s->data = len ? data : "";
    s->len = len;
    for (size_t i = 0; i < len; i++) s->n_chars += ((uint8_t)data[i] & 0xc0) != 0x80;
    return s;
}

void jinja_list_add(struct node_list *list, struct node *node) {
    if (list->last) {
        list->last->next = node;
    } else {
        list->head = node;
    }
    list->last = node;
}

void jinja_advance(struct parser *p) {
    p->current = p->has_ahead ? p->ahead : jinja_lexer_next(&p->lex);
    p->has_ahead = false;
}

bool jinja_is_name(const struct token *token, const char *name) {
    const size_t n = strlen(name);
    return token->kind == T_NAME && token->len == n && memcmp(token->text, name, n) == 0;
}

bool jinja_skip_name(struct parser *p, const char *name) {
    if (!jinja_is_name(&p->current, name)) return false;
    jinja_advance(p);
    return true;
}

bool jinja_skip(struct parser *p, enum token_kind kind) {
    if (p->current.kind != kind) return false;
    jinja_advance(p);
    return true;
}

bool jinja_expect(struct parser *p, enum token_kind kind) {
    if (jinja_skip(p, kind)) return true;
    jinja_parse_unexpected(p, jinja_token_name(kind));
    return false;
}

bool jinja_enter(struct parser *p) {
    if (p->depth == TEMPLATE_MAX_DEPTH) {
        jinja_parse_fail(p, p->current.at, "nested deeper than %d", TEMPLATE_MAX_DEPTH);
        return false;
    }
    p->depth++;
    return true;
}

void jinja_leave(struct parser *p) { p->depth--; }

static bool expect_name(struct parser *p, const char *name) {
    if (jinja_skip_name(p, name)) return true;
    char wanted[40];
    snprintf(wanted, sizeof wanted, "'%s'", name);
    jinja_parse_unexpected(p, wanted);
    return false;
}

static struct node *name_take(struct parser *p, enum node_kind kind) {
    const struct token token = p->current;
    if (token.kind != T_NAME) return jinja_parse_unexpected(p, "a name");
    struct node *node = jinja_node(p, kind, token.at);
    struct str *name = jinja_parse_str(p, token.text, token.len);
    if (!node || !name) return NULL;
    node->constant = value_str(name);
    jinja_advance(p);
    return node;
}

static bool is_reserved(const struct token *token) {
    static const char *const words[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (jinja_is_name(token, words[i])) return true;
    }
    return false;
}

static struct node *parse_target(struct parser *p, bool with_namespace);

// A name, an attribute of a namespace, or targets in brackets.
static struct node *parse_target_item(struct parser *p, bool with_namespace) {
    if (p->current.kind == T_LPAREN) {
        if (!jinja_enter(p)) return NULL;
        jinja_advance(p);
        struct node *node = parse_target(p, with_namespace);
        jinja_leave(p);
        return node && jinja_expect(p, T_RPAREN) ? node : NULL;
    }
    if (is_reserved(&p->current)) {
        return jinja_parse_fail(p, p->current.at, "a constant cannot be assigned to");
    }
    struct node *name = name_take(p, N_NAME);
    if (!name || !with_namespace || !jinja_skip(p, T_DOT)) return name;
    name->kind = N_NSREF;
    name->a = name_take(p, N_CONST);
    return name->a ? name : NULL;
}

static struct node *parse_target(struct parser *p, bool with_namespace) {
    struct node *first = parse_target_item(p, with_namespace);
    if (!first || p->current.kind != T_COMMA) return first;
    struct node *tuple = jinja_node(p, N_TUPLE, first->at);
    if (!tuple) return NULL;
    struct node_list items = {0};
    jinja_list_add(&items, first);
    while (jinja_skip(p, T_COMMA)) {
        if (p->current.kind != T_LPAREN && p->current.kind != T_NAME) break;
        if (jinja_is_name(&p->current, "in")) break;
        struct node *item = parse_target_item(p, with_namespace);
        if (!item) return NULL;
        jinja_list_add(&items, item);
    }
    tuple->a = items.head;
    return tuple;
}

static struct node *parse_statement(struct parser *p, const char *awaited);

static bool at_any(const struct parser *p, const char *const *ends) {
    for (; *ends; ends++) {
        if (jinja_is_name(&p->current, *ends)) return true;
    }
    return false;
}

static struct node *parse_output(struct parser *p) {
    struct node *node = jinja_node(p, S_OUTPUT, p->current.at);
    if (!node) return NULL;
    jinja_advance(p);
    node->a = jinja_parse_tuple(p, true, false);
    return node->a && jinja_expect(p, T_VARIABLE_END) ? node : NULL;
}

static struct node *parse_text(struct parser *p) {
    struct node *node = jinja_node(p, S_TEXT, p->current.at);
    if (!node) return NULL;
    struct str *text = jinja_parse_str(p, p->current.text, p->current.len);
    if (!text) return NULL;
    node->constant = value_str(text);
    jinja_advance(p);
    return node;
}

// Text, output and statements up to a tag of `ends` (NULL: up to the end of the template), which
// becomes the current token. False: failed.
static bool parse_body(struct parser *p, const char *const *ends, struct node **out) {
    const char *awaited = NULL; // the last of them, "end...", which messages name
    for (const char *const *end = ends; end && *end; end++) awaited = *end;
    struct node_list list = {0};
    for (;;) {
        struct node *node;
        if (p->current.kind == T_DATA) {
            node = parse_text(p);
        } else if (p->current.kind == T_VARIABLE_BEGIN) {
            node = parse_output(p);
        } else if (p->current.kind == T_BLOCK_BEGIN) {
            jinja_advance(p);
            if (ends && at_any(p, ends)) break;
            node = parse_statement(p, awaited);
            if (node && !jinja_expect(p, T_BLOCK_END)) return false;
        } else if (p->current.kind == T_EOF && !ends) {
            break;
        } else {
            char wanted[40];
            snprintf(wanted, sizeof wanted, "'%s'", awaited ? awaited : "text");
            jinja_parse_unexpected(p, wanted);
            return false;
        }
        if (!node) return false;
        jinja_list_add(&list, node);
    }
    *out = list.head;
    return true;
}

// What follows the head of a block: its end, and the body one level deeper.
static bool parse_block(struct parser *p, const char *const *ends, struct node **out) {
    jinja_skip(p, T_COLON);
    if (!jinja_expect(p, T_BLOCK_END) || !jinja_enter(p)) return false;
    const bool is_ok = parse_body(p, ends, out);
    jinja_leave(p);
    return is_ok;
}

// The same for a block with one end, which is taken.
static bool parse_block_to(struct parser *p, const char *end, struct node **out) {
    const char *const ends[] = {end, NULL};
    if (!parse_block(p, ends, out)) return false;
    jinja_advance(p);
    return true;
}

// A block whose text becomes a value: no break or continue may leave it half way.
static bool parse_captured(struct parser *p, const char *end, struct node **out) {
    const int n_loops = p->n_loops;
    p->n_loops = 0;
    const bool is_ok = parse_block_to(p, end, out);
    p->n_loops = n_loops;
    return is_ok;
}

static struct node *parse_for(struct parser *p, struct node *node) {
    static const char *const ends[] = {"else", "endfor", NULL};
    struct node *parts = jinja_node(p, N_FOR_PARTS, node->at);
    if (!parts) return NULL;
    node->c = parts;
    if (jinja_is_name(&p->current, "loop")) {
        return jinja_parse_fail(p, p->current.at, "'loop' cannot be the variable of a loop");
    }
    node->a = parse_target(p, false);
    if (!node->a || !expect_name(p, "in")) return NULL;
    node->b = jinja_parse_tuple(p, false, false);
    if (!node->b) return NULL;
    if (jinja_skip_name(p, "if")) {
        parts->a = jinja_parse_expression(p, true);
        if (!parts->a) return NULL;
    }
    if (jinja_is_name(&p->current, "recursive")) {
        return jinja_parse_fail(p, p->current.at, "'recursive' loops are not supported");
    }
    p->n_loops++;
    const bool is_ok = parse_block(p, ends, &parts->b);
    p->n_loops--;
    if (!is_ok) return NULL;
    const bool has_else = jinja_is_name(&p->current, "else");
    jinja_advance(p);
    if (has_else && !parse_block_to(p, "endfor", &parts->c)) return NULL;
    return node;
}

static struct node *parse_if(struct parser *p, struct node *node) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct node_list branches = {0};
    for (;;) {
        struct node *branch = jinja_node(p, N_BRANCH, p->current.at);
        if (!branch) return NULL;
        branch->a = jinja_parse_tuple(p, false, false);
        if (!branch->a || !parse_block(p, ends, &branch->b)) return NULL;
        jinja_list_add(&branches, branch);
        if (!jinja_skip_name(p, "elif")) break;
    }
    node->a = branches.head;
    if (jinja_skip_name(p, "else")) return parse_block_to(p, "endif", &node->b) ? node : NULL;
    jinja_advance(p);
    return node;
}

static struct node *parse_set(struct parser *p, struct node *node) {
    node->a = parse_target(p, true);
    if (!node->a) return NULL;
    if (jinja_skip(p, T_ASSIGN)) {
        node->b = jinja_parse_tuple(p, true, false);
        return node->b ? node : NULL;
    }
    node->kind = S_SET_BLOCK;
    node->b = jinja_parse_filters(p, NULL, false);
    if (p->has_failed) return NULL;
    return parse_captured(p, "endset", &node->c) ? node : NULL;
}

static bool parse_signature(struct parser *p, struct node *macro) {
    struct node_list params = {0};
    if (!jinja_expect(p, T_LPAREN)) return false;
    while (p->current.kind != T_RPAREN) {
        if (params.head && !jinja_expect(p, T_COMMA)) return false;
        struct node *param = name_take(p, N_PARAM);
        if (!param) return false;
        if (jinja_skip(p, T_ASSIGN)) {
            param->a = jinja_parse_expression(p, true);
            if (!param->a) return false;
        } else if (params.last && params.last->a) {
            jinja_parse_fail(p, param->at, "a parameter without default follows one with");
            return false;
        }
        jinja_list_add(&params, param);
    }
    jinja_advance(p);
    macro->a = params.head;
    return true;
}

static struct node *parse_macro(struct parser *p, struct node *node) {
    const struct node *name = name_take(p, N_NAME);
    if (!name) return NULL;
    node->constant = name->constant;
    return parse_signature(p, node) && parse_captured(p, "endmacro", &node->b) ? node : NULL;
}

static struct node *parse_filter_block(struct parser *p, struct node *node) {
    node->a = jinja_parse_filters(p, NULL, true);
    return node->a && parse_captured(p, "endfilter", &node->b) ? node : NULL;
}

static struct node *parse_generation(struct parser *p, struct node *node) {
    return parse_block_to(p, "endgeneration", &node->b) ? node : NULL;
}

static struct node *parse_loop_control(struct parser *p, struct node *node) {
    if (p->n_loops) return node;
    return jinja_parse_fail(p, node->at, "'%s' outside of a loop",
                            node->kind == S_BREAK ? "break" : "continue");
}

static const struct {
    const char *name;
    enum node_kind kind;
    struct node *(*parse)(struct parser *p, struct node *node);
} statements[] = {
    {"break", S_BREAK, parse_loop_control},    {"continue", S_CONTINUE, parse_loop_control},
    {"filter", S_FILTER, parse_filter_block},  {"for", S_FOR, parse_for},
    {"generation", S_SCOPE, parse_generation}, {"if", S_IF, parse_if},
    {"macro", N_MACRO, parse_macro},           {"set", S_SET, parse_set},
};

// awaited: the end that the enclosing block wants, or NULL.
static struct node *parse_statement(struct parser *p, const char *awaited) {
    if (p->current.kind != T_NAME) return jinja_parse_unexpected(p, "the name of a tag");
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        if (!jinja_is_name(&p->current, statements[i].name)) continue;
        struct node *node = jinja_node(p, statements[i].kind, p->current.at);
        if (!node) return NULL;
        jinja_advance(p);
        return statements[i].parse(p, node);
    }
    char found[96];
    token_describe(&p->current, found, sizeof found);
    static const char left_out[] = " autoescape block call do extends from import include print "
                                   "trans with ";
    if (jinja_names_have(left_out, p->current.text, p->current.len)) {
        return jinja_parse_fail(p, p->current.at, "the tag %s is not supported", found);
    }
    if (awaited) {
        return jinja_parse_fail(p, p->current.at, "unknown tag %s; expected '%s'", found, awaited);
    }
    return jinja_parse_fail(p, p->current.at, "unknown tag %s", found);
}

rn_status jinja_parse(struct template *tmpl, rn_error *err) {
    struct parser p = {.tmpl = tmpl, .err = err, .status = RN_OK};
    jinja_lexer_init(&p.lex, tmpl->source, tmpl->len);
    jinja_advance(&p);
    parse_body(&p, NULL, &tmpl->body);
    return p.status;
}

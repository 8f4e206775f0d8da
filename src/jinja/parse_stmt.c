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

void jinja_parse_fail(struct parser *p, uint32_t at, const char *fmt, ...) {
    char message[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    size_t line, column;
    jinja_position(p->tmpl, at, &line, &column);
    p->status = err_set(p->err, RN_ERR_MODEL, "line %zu, column %zu: %s", line, column, message);
    longjmp(p->failed, 1);
}

// The token in words, for messages.
static void token_describe(const struct token *token, char *out, size_t size) {
    char name[80];
    unicode_quote(token->text, token->kind == T_NAME ? token->len : 0, name, sizeof name);
    if (token->kind == T_NAME) {
        snprintf(out, size, "'%s'", name);
    } else {
        jinja_token_name(token->kind, out, size);
    }
}

void jinja_parse_unexpected(struct parser *p, const char *wanted) {
    if (p->current.kind == T_ERROR) {
        jinja_parse_fail(p, (uint32_t)p->lex.error_at, "%s", p->lex.error);
    }
    char found[96];
    token_describe(&p->current, found, sizeof found);
    jinja_parse_fail(p, p->current.at, "expected %s, got %s", wanted, found);
}

void *jinja_parse_alloc(struct parser *p, size_t bytes) {
    void *memory = arena_alloc(&p->tmpl->arena, bytes);
    if (memory) return memory;
    p->status = err_set(p->err, RN_ERR_NOMEM, "no memory for the template");
    longjmp(p->failed, 1);
}

struct node *jinja_node(struct parser *p, enum node_kind kind, uint32_t at) {
    struct node *node = jinja_parse_alloc(p, sizeof *node);
    node->kind = (uint8_t)kind;
    node->at = at;
    return node;
}

struct str *jinja_parse_str(struct parser *p, const char *data, size_t len) {
    struct str *s = jinja_parse_alloc(p, sizeof *s);
    s->data = len ? data : "";
    s->len = len;
    for (size_t i = 0; i < len; i++) s->n_chars += ((uint8_t)data[i] & 0xc0) != 0x80;
    return s;
}

void jinja_list_add(struct node_list *list, struct node *node) {
    *(list->last ? &list->last->next : &list->head) = node;
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
    const bool is_there = jinja_is_name(&p->current, name);
    if (is_there) jinja_advance(p);
    return is_there;
}

bool jinja_skip(struct parser *p, int kind) {
    const bool is_there = p->current.kind == kind;
    if (is_there) jinja_advance(p);
    return is_there;
}

void jinja_expect(struct parser *p, int kind) {
    if (jinja_skip(p, kind)) return;
    char wanted[40];
    jinja_token_name(kind, wanted, sizeof wanted);
    jinja_parse_unexpected(p, wanted);
}

void jinja_enter(struct parser *p) {
    if (p->depth++ < TEMPLATE_MAX_DEPTH) return;
    jinja_parse_fail(p, p->current.at, "nested deeper than %d", TEMPLATE_MAX_DEPTH);
}

void jinja_leave(struct parser *p) { p->depth--; }

struct node *jinja_name_node(struct parser *p, enum node_kind kind) {
    const struct token token = p->current;
    if (token.kind != T_NAME) jinja_parse_unexpected(p, "a name");
    struct node *node = jinja_node(p, kind, token.at);
    node->constant = value_str(jinja_parse_str(p, token.text, token.len));
    jinja_advance(p);
    return node;
}

// ---------------------------------------------------------------- targets

static struct node *parse_target(struct parser *p, bool with_namespace);

// A name, an attribute of a namespace, or targets in brackets.
static struct node *parse_target_item(struct parser *p, bool with_namespace) {
    if (jinja_skip(p, '(')) {
        jinja_enter(p);
        struct node *node = parse_target(p, with_namespace);
        jinja_leave(p);
        jinja_expect(p, ')');
        return node;
    }
    const char *reserved = " true false none True False None ";
    if (p->current.kind == T_NAME && jinja_names_have(reserved, p->current.text, p->current.len)) {
        jinja_parse_fail(p, p->current.at, "a constant cannot be assigned to");
    }
    struct node *name = jinja_name_node(p, N_NAME);
    if (!with_namespace || !jinja_skip(p, '.')) return name;
    name->kind = N_NSREF;
    name->a = jinja_name_node(p, N_CONST);
    return name;
}

static struct node *parse_target(struct parser *p, bool with_namespace) {
    struct node *first = parse_target_item(p, with_namespace);
    if (p->current.kind != ',') return first;
    struct node *tuple = jinja_node(p, N_TUPLE, first->at);
    struct node_list items = {0};
    jinja_list_add(&items, first);
    while (jinja_skip(p, ',')) {
        if (p->current.kind != '(' && p->current.kind != T_NAME) break;
        if (jinja_is_name(&p->current, "in")) break;
        jinja_list_add(&items, parse_target_item(p, with_namespace));
    }
    tuple->a = items.head;
    return tuple;
}

// ---------------------------------------------------------------- blocks

static struct node *parse_statement(struct parser *p, const char *awaited);

static bool at_any(const struct parser *p, const char *const *ends) {
    for (; *ends; ends++) {
        if (jinja_is_name(&p->current, *ends)) return true;
    }
    return false;
}

static struct node *parse_output(struct parser *p) {
    struct node *node = jinja_node(p, S_OUTPUT, p->current.at);
    jinja_advance(p);
    node->a = jinja_parse_tuple(p, true, false);
    jinja_expect(p, T_VARIABLE_END);
    return node;
}

static struct node *parse_text(struct parser *p) {
    struct node *node = jinja_node(p, S_TEXT, p->current.at);
    node->constant = value_str(jinja_parse_str(p, p->current.text, p->current.len));
    jinja_advance(p);
    return node;
}

static _Noreturn void fail_awaited(struct parser *p, const char *awaited) {
    char wanted[40];
    snprintf(wanted, sizeof wanted, "'%s'", awaited ? awaited : "text");
    jinja_parse_unexpected(p, wanted);
}

// Text, output and statements up to a tag of `ends` (NULL: up to the end of the template), which
// becomes the current token.
static struct node *parse_body(struct parser *p, const char *const *ends) {
    const char *awaited = NULL; // the last of them, "end...", which messages name
    for (const char *const *end = ends; end && *end; end++) awaited = *end;
    struct node_list list = {0};
    for (;;) {
        if (p->current.kind == T_DATA) {
            jinja_list_add(&list, parse_text(p));
        } else if (p->current.kind == T_VARIABLE_BEGIN) {
            jinja_list_add(&list, parse_output(p));
        } else if (jinja_skip(p, T_BLOCK_BEGIN)) {
            if (ends && at_any(p, ends)) return list.head;
            jinja_list_add(&list, parse_statement(p, awaited));
            jinja_expect(p, T_BLOCK_END);
        } else if (p->current.kind == T_EOF && !ends) {
            return list.head;
        } else {
            fail_awaited(p, awaited);
        }
    }
}

// The rest of a block's first tag, and the body one level deeper.
static struct node *parse_block(struct parser *p, const char *const *ends) {
    jinja_skip(p, ':');
    jinja_expect(p, T_BLOCK_END);
    jinja_enter(p);
    struct node *body = parse_body(p, ends);
    jinja_leave(p);
    return body;
}

// The same for a block with one end, which is taken.
static struct node *parse_block_to(struct parser *p, const char *end) {
    const char *const ends[] = {end, NULL};
    struct node *body = parse_block(p, ends);
    jinja_advance(p);
    return body;
}

// A block whose text becomes a value: no break or continue may leave it half way.
static struct node *parse_captured(struct parser *p, const char *end) {
    const int n_loops = p->n_loops;
    p->n_loops = 0;
    struct node *body = parse_block_to(p, end);
    p->n_loops = n_loops;
    return body;
}

// ---------------------------------------------------------------- statements

static void parse_for(struct parser *p, struct node *node) {
    static const char *const ends[] = {"else", "endfor", NULL};
    struct node *parts = node->c = jinja_node(p, N_FOR_PARTS, node->at);
    if (jinja_is_name(&p->current, "loop")) {
        jinja_parse_fail(p, p->current.at, "'loop' cannot be the variable of a loop");
    }
    node->a = parse_target(p, false);
    if (!jinja_skip_name(p, "in")) jinja_parse_unexpected(p, "'in'");
    node->b = jinja_parse_tuple(p, false, false);
    if (jinja_skip_name(p, "if")) parts->a = jinja_parse_expression(p, true);
    if (jinja_is_name(&p->current, "recursive")) {
        jinja_parse_fail(p, p->current.at, "'recursive' loops are not supported");
    }
    p->n_loops++;
    parts->b = parse_block(p, ends);
    p->n_loops--;
    const bool has_else = jinja_is_name(&p->current, "else");
    jinja_advance(p);
    if (has_else) parts->c = parse_block_to(p, "endfor");
}

static void parse_if(struct parser *p, struct node *node) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct node_list branches = {0};
    do {
        struct node *branch = jinja_node(p, N_BRANCH, p->current.at);
        branch->a = jinja_parse_tuple(p, false, false);
        branch->b = parse_block(p, ends);
        jinja_list_add(&branches, branch);
    } while (jinja_skip_name(p, "elif"));
    node->a = branches.head;
    if (jinja_skip_name(p, "else")) {
        node->b = parse_block_to(p, "endif");
    } else {
        jinja_advance(p);
    }
}

static void parse_set(struct parser *p, struct node *node) {
    node->a = parse_target(p, true);
    if (jinja_skip(p, '=')) {
        node->b = jinja_parse_tuple(p, true, false);
        return;
    }
    node->kind = S_SET_BLOCK;
    node->b = jinja_parse_filters(p, NULL, false);
    node->c = parse_captured(p, "endset");
}

static void parse_macro(struct parser *p, struct node *node) {
    struct node_list params = {0};
    node->constant = jinja_name_node(p, N_NAME)->constant;
    jinja_expect(p, '(');
    while (p->current.kind != ')') {
        if (params.head) jinja_expect(p, ',');
        struct node *param = jinja_name_node(p, N_PARAM);
        if (jinja_skip(p, '=')) {
            param->a = jinja_parse_expression(p, true);
        } else if (params.last && params.last->a) {
            jinja_parse_fail(p, param->at, "a parameter without default follows one with");
        }
        jinja_list_add(&params, param);
    }
    jinja_advance(p);
    node->a = params.head;
    node->b = parse_captured(p, "endmacro");
}

static void parse_filter_block(struct parser *p, struct node *node) {
    node->a = jinja_parse_filters(p, NULL, true);
    node->b = parse_captured(p, "endfilter");
}

static void parse_generation(struct parser *p, struct node *node) {
    node->b = parse_block_to(p, "endgeneration");
}

static void parse_loop_control(struct parser *p, struct node *node) {
    if (p->n_loops) return;
    jinja_parse_fail(p, node->at, "'%s' outside of a loop",
                     node->kind == S_BREAK ? "break" : "continue");
}

static const struct {
    const char *name;
    enum node_kind kind;
    void (*parse)(struct parser *p, struct node *node);
} statements[] = {
    {"break", S_BREAK, parse_loop_control},    {"continue", S_CONTINUE, parse_loop_control},
    {"filter", S_FILTER, parse_filter_block},  {"for", S_FOR, parse_for},
    {"generation", S_SCOPE, parse_generation}, {"if", S_IF, parse_if},
    {"macro", N_MACRO, parse_macro},           {"set", S_SET, parse_set},
};
static const char left_out[] =
    " autoescape block call do extends from import include print trans with ";

// awaited: the end that the enclosing block wants, or NULL.
static struct node *parse_statement(struct parser *p, const char *awaited) {
    if (p->current.kind != T_NAME) jinja_parse_unexpected(p, "the name of a tag");
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        if (!jinja_is_name(&p->current, statements[i].name)) continue;
        struct node *node = jinja_node(p, statements[i].kind, p->current.at);
        jinja_advance(p);
        statements[i].parse(p, node);
        return node;
    }
    char found[96];
    token_describe(&p->current, found, sizeof found);
    if (jinja_names_have(left_out, p->current.text, p->current.len)) {
        jinja_parse_fail(p, p->current.at, "the tag %s is not supported", found);
    }
    if (!awaited) jinja_parse_fail(p, p->current.at, "unknown tag %s", found);
    jinja_parse_fail(p, p->current.at, "unknown tag %s; expected '%s'", found, awaited);
}

// A failure jumps back to here. The parser belongs to the caller: a local variable that changed
// after setjmp would be lost.
static void parse(struct parser *p) {
    if (setjmp(p->failed) != 0) return;
    jinja_advance(p);
    p->tmpl->body = parse_body(p, NULL);
}

rn_status jinja_parse(struct template *tmpl, rn_error *err) {
    struct parser p = {.tmpl = tmpl, .err = err, .status = RN_OK};
    jinja_lexer_init(&p.lex, tmpl->source, tmpl->len);
    parse(&p);
    return p.status;
}

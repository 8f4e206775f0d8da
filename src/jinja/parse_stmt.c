// Statements and the parser's common parts. Blocks nest by recursion, which the depth bounds; if
// and its elifs are one node.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jinja/parser.h"
#include "jinja/table.h"
#include "jinja/text.h"
#include "unicode/unicode.h"

static void position(const struct template *tmpl, size_t at, size_t *line, size_t *column) {
    *line = *column = 1;
    for (size_t i = 0; i < at && i < tmpl->len; i++) {
        if (tmpl->source[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (((uint8_t)tmpl->source[i] & 0xc0) != 0x80) {
            ++*column;
        }
    }
}

rn_status jinja_error(const struct template *tmpl, size_t at, rn_error *err, const char *fmt,
                      va_list args) {
    char message[400], quoted[400];
    size_t line, column;
    vsnprintf(message, sizeof message, fmt, args);
    unicode_quote(message, strlen(message), quoted, sizeof quoted); // a value may be cut anywhere
    position(tmpl, at, &line, &column);
    return err_set(err, RN_ERR_MODEL, "line %zu, column %zu: %s", line, column, quoted);
}

void jinja_parse_fail(struct parser *p, uint32_t at, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    p->status = jinja_error(p->tmpl, at, p->err, fmt, args);
    va_end(args);
    longjmp(p->failed, 1);
}

// The token in words, for messages.
static void token_describe(const struct token *token, char *out, size_t size) {
    static const char *const names[] = {[T_EOF] = "the end of the template",
                                        [T_DATA] = "text",
                                        [T_STRING] = "a string",
                                        [T_INTEGER] = "a number"};
    char text[80];
    unicode_quote(token->text, token->len, text, sizeof text);
    if (names[token->kind]) {
        snprintf(out, size, "%s", names[token->kind]);
    } else {
        snprintf(out, size, "'%s'", text);
    }
}

void jinja_parse_unexpected(struct parser *p, const char *wanted) {
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

struct node *jinja_node(struct parser *p, enum node_kind kind, uint32_t at, struct node *a) {
    struct node *node = jinja_parse_alloc(p, sizeof *node);
    node->kind = (uint8_t)kind;
    node->at = at;
    node->a = a;
    return node;
}

struct str *jinja_parse_str(struct parser *p, const char *data, size_t len) {
    struct str *s = jinja_parse_alloc(p, sizeof *s);
    s->data = len ? data : "";
    s->len = len;
    s->n_chars = SIZE_MAX;
    jinja_n_chars(s);
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

bool jinja_is_text(const struct token *token, const char *text) {
    return token->len == strlen(text) && memcmp(token->text, text, token->len) == 0;
}

bool jinja_at(const struct parser *p, const char *text) { return jinja_is_text(&p->current, text); }

bool jinja_skip(struct parser *p, const char *text) {
    const bool is_there = jinja_at(p, text);
    if (is_there) jinja_advance(p);
    return is_there;
}

void jinja_expect(struct parser *p, const char *text) {
    if (jinja_skip(p, text)) return;
    char wanted[40];
    snprintf(wanted, sizeof wanted, "'%s'", text);
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
    struct node *node = jinja_node(p, kind, token.at, NULL);
    node->constant = value_str(jinja_parse_str(p, token.text, token.len));
    jinja_advance(p);
    return node;
}

// ---------------------------------------------------------------- targets

// A name, or an attribute of a namespace.
static struct node *parse_target_item(struct parser *p, bool with_namespace) {
    struct node *name = jinja_parse_name(p);
    if (name->kind != N_NAME) jinja_parse_fail(p, name->at, "a constant cannot be assigned to");
    if (!with_namespace || !jinja_skip(p, ".")) return name;
    name->kind = N_NSREF;
    name->a = jinja_name_node(p, N_CONST);
    return name;
}

static struct node *parse_target(struct parser *p, bool with_namespace) {
    struct node *first = parse_target_item(p, with_namespace);
    if (!jinja_at(p, ",")) return first;
    struct node_list items = {first, first};
    while (jinja_skip(p, ",")) {
        if (p->current.kind != T_NAME || jinja_at(p, "in")) break;
        jinja_list_add(&items, parse_target_item(p, with_namespace));
    }
    return jinja_node(p, N_TUPLE, items.head->at, items.head);
}

// ---------------------------------------------------------------- blocks

static struct node *parse_statement(struct parser *p, const char *awaited);

static struct node *parse_output(struct parser *p) {
    struct node *node = jinja_node(p, S_OUTPUT, p->current.at, NULL);
    jinja_advance(p);
    node->a = jinja_parse_tuple(p, true, false);
    jinja_expect(p, "}}");
    return node;
}

static struct node *parse_text(struct parser *p) {
    struct node *node = jinja_node(p, S_TEXT, p->current.at, NULL);
    node->constant = value_str(jinja_parse_str(p, p->current.text, p->current.len));
    jinja_advance(p);
    return node;
}

// Text, output and statements up to the tag `end` (NULL: the end of the template) or one of the
// tags of `others` ("a b"), which becomes the current token.
static struct node *parse_body(struct parser *p, const char *end, const char *others) {
    struct node_list list = {0};
    for (;;) {
        if (p->current.kind == T_DATA) {
            jinja_list_add(&list, parse_text(p));
        } else if (p->current.kind == T_OUTPUT) {
            jinja_list_add(&list, parse_output(p));
        } else if (p->current.kind == T_TAG) {
            jinja_advance(p);
            if (end && jinja_at(p, end)) return list.head;
            if (jinja_names_find(others, p->current.text, p->current.len) >= 0) return list.head;
            jinja_list_add(&list, parse_statement(p, end));
            jinja_expect(p, "%}");
        } else if (p->current.kind == T_EOF && !end) {
            return list.head;
        } else {
            jinja_expect(p, end ? end : "text"); // which fails
        }
    }
}

// The rest of a block's first tag, and the body one level deeper.
static struct node *parse_block(struct parser *p, const char *end, const char *others) {
    jinja_skip(p, ":");
    jinja_expect(p, "%}");
    jinja_enter(p);
    struct node *body = parse_body(p, end, others);
    jinja_leave(p);
    return body;
}

// The same for a block with one end, which is taken.
static struct node *parse_block_to(struct parser *p, const char *end) {
    struct node *body = parse_block(p, end, "");
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
    if (jinja_at(p, "loop")) {
        jinja_parse_fail(p, p->current.at, "'loop' cannot be the variable of a loop");
    }
    node->a = parse_target(p, false);
    jinja_expect(p, "in");
    node->b = jinja_parse_tuple(p, false, false);
    if (jinja_skip(p, "if")) node->c = jinja_parse_expression(p, true);
    if (jinja_at(p, "recursive")) {
        jinja_parse_fail(p, p->current.at, "'recursive' loops are not supported");
    }
    p->n_loops++;
    node->d = parse_block_to(p, "endfor");
    p->n_loops--;
}

static void parse_if(struct parser *p, struct node *node) {
    struct node_list branches = {0};
    do {
        const uint32_t at = p->current.at;
        struct node *branch = jinja_node(p, N_BRANCH, at, jinja_parse_tuple(p, false, false));
        branch->b = parse_block(p, "endif", "elif else");
        jinja_list_add(&branches, branch);
    } while (jinja_skip(p, "elif"));
    node->a = branches.head;
    if (jinja_skip(p, "else")) {
        node->b = parse_block_to(p, "endif");
    } else {
        jinja_advance(p);
    }
}

static void parse_set(struct parser *p, struct node *node) {
    node->a = parse_target(p, true);
    if (jinja_skip(p, "=")) {
        node->b = jinja_parse_tuple(p, true, false);
        return;
    }
    node->kind = S_SET_BLOCK;
    node->b = jinja_parse_filters(p, NULL, false);
    node->c = parse_captured(p, "endset");
}

static struct node *parse_param(struct parser *p, const struct node *last) {
    struct node *param = jinja_name_node(p, N_PARAM);
    if (jinja_skip(p, "=")) {
        param->a = jinja_parse_expression(p, true);
    } else if (last && last->a) {
        jinja_parse_fail(p, param->at, "a parameter without default follows one with");
    }
    return param;
}

static void parse_macro(struct parser *p, struct node *node) {
    node->constant = jinja_name_node(p, N_NAME)->constant;
    if (!jinja_at(p, "(")) jinja_parse_unexpected(p, "'('");
    node->a = jinja_parse_items(p, ")", parse_param);
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
    "autoescape block call do else extends from import include print trans with";

// awaited: the end that the enclosing block wants, or NULL.
static struct node *parse_statement(struct parser *p, const char *awaited) {
    if (p->current.kind != T_NAME) jinja_parse_unexpected(p, "the name of a tag");
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        if (!jinja_at(p, statements[i].name)) continue;
        struct node *node = jinja_node(p, statements[i].kind, p->current.at, NULL);
        jinja_advance(p);
        statements[i].parse(p, node);
        return node;
    }
    char found[96];
    token_describe(&p->current, found, sizeof found);
    if (jinja_names_find(left_out, p->current.text, p->current.len) >= 0) {
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
    p->tmpl->body = parse_body(p, NULL, "");
}

rn_status jinja_parse(struct template *tmpl, rn_error *err) {
    struct parser p = {.tmpl = tmpl, .err = err, .status = RN_OK};
    p.lex = (struct lexer){&p, .source = tmpl->source, .len = tmpl->len};
    parse(&p);
    return p.status;
}

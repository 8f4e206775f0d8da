// Expressions: recursive descent with Jinja's precedence. What Jinja nests to the left becomes a
// chain, so depth grows with brackets, unary operators and `not` alone.
#include <string.h>

#include "jinja/number.h"
#include "jinja/parser.h"
#include "jinja/table.h"
#include "unicode/unicode.h"

static struct node *parse_unary(struct parser *p, bool with_filter);

static enum token_kind kind_of(const struct parser *p) { return p->current.kind; }

// Appends to the chain, or makes one of the node.
static struct node *chain_add(struct parser *p, struct node *base, struct node *link) {
    if (!link) return NULL;
    if (base && base->kind == N_CHAIN) {
        base->c->next = link;
        base->c = link;
        return base;
    }
    struct node *chain = jinja_node(p, N_CHAIN, base ? base->at : link->at);
    if (!chain) return NULL;
    chain->a = base;
    chain->b = chain->c = link;
    return chain;
}

static struct node *name_node(struct parser *p, enum node_kind kind, const struct token *token) {
    struct node *node = jinja_node(p, kind, token->at);
    if (!node) return NULL;
    struct str *name = jinja_parse_str(p, token->text, token->len);
    if (!name) return NULL;
    node->constant = value_str(name);
    return node;
}

// ---------------------------------------------------------------- literals

// Up to max digits of the base at text; returns how many.
static size_t digits_read(const char *text, size_t len, uint32_t base, size_t max,
                          uint32_t *value) {
    size_t n = 0;
    *value = 0;
    for (; n < max && n < len; n++) {
        const char c = text[n], low = (char)(c | 0x20);
        const uint32_t digit = c >= '0' && c <= '9'       ? (uint32_t)(c - '0')
                               : low >= 'a' && low <= 'f' ? (uint32_t)(low - 'a') + 10
                                                          : 99;
        if (digit >= base) break;
        *value = *value * base + digit;
    }
    return n;
}

// The escape whose backslash stands before text, as Python's unicode-escape codec reads it: unknown
// ones stay as they are. The number of characters it takes, or 0 when it is wrong.
static size_t escape_add(struct str *s, char *out, const char *text, size_t len) {
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    const char c = text[0];
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        out[s->len++] = to[simple - from];
        return 1;
    }
    if (c == '\n') return 1;
    const bool is_hex = c == 'x' || c == 'u' || c == 'U';
    const size_t want = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 3;
    uint32_t cp;
    const size_t n = digits_read(text + is_hex, len - is_hex, is_hex ? 16 : 8, want, &cp);
    if (c == 'N' || (is_hex && n < want)) return 0;
    if (!is_hex && n == 0) {
        out[s->len++] = '\\';
        out[s->len++] = c;
        return 1;
    }
    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) return 0;
    s->len += unicode_encode(cp, (uint8_t *)out + s->len);
    return n + is_hex;
}

// Strings beside each other are one. No escape is shorter than its character, so the source's
// length is room enough.
static struct node *parse_string(struct parser *p) {
    struct node *node = jinja_node(p, N_CONST, p->current.at);
    const struct token first = p->current;
    char *out = NULL;
    size_t room = 0;
    struct str text = {0};
    while (node && kind_of(p) == T_STRING) {
        const struct token token = p->current;
        if (text.len + token.len > room) {
            room = 2 * text.len + token.len;
            char *grown = jinja_parse_alloc(p, room);
            if (!grown) return NULL;
            if (text.len) memcpy(grown, out, text.len);
            out = grown;
        }
        for (size_t i = 1; i + 1 < token.len;) {
            if (token.text[i] != '\\') {
                out[text.len++] = token.text[i++];
                continue;
            }
            const size_t n = escape_add(&text, out, token.text + i + 1, token.len - i - 2);
            if (n == 0) return jinja_parse_fail(p, token.at, "an escape of the string is wrong");
            i += n + 1;
        }
        jinja_advance(p);
    }
    struct str *s = node ? jinja_parse_str(p, out ? out : first.text, text.len) : NULL;
    if (!s) return NULL;
    node->constant = value_str(s);
    return node;
}

static struct node *parse_number(struct parser *p) {
    const struct token token = p->current;
    struct node *node = jinja_node(p, N_CONST, token.at);
    if (!node) return NULL;
    if (token.kind == T_INTEGER) {
        int64_t i;
        if (number_parse_int(token.text, token.len, &i) != NUMBER_OK) {
            return jinja_parse_fail(p, token.at, "the integer does not fit 64 bits");
        }
        node->constant = value_int(i);
    } else {
        double f;
        if (!number_parse_float(token.text, token.len, &f)) {
            return jinja_parse_fail(p, token.at, "the number cannot be read");
        }
        node->constant = value_float(f);
    }
    jinja_advance(p);
    return node;
}

// Constants, else a variable.
static struct node *parse_name(struct parser *p) {
    static const struct {
        const char *name;
        uint8_t kind;
        bool b;
    } constants[] = {{"true", V_BOOL, true},   {"True", V_BOOL, true},  {"false", V_BOOL, false},
                     {"False", V_BOOL, false}, {"none", V_NONE, false}, {"None", V_NONE, false}};
    const struct token token = p->current;
    jinja_advance(p);
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++) {
        if (!jinja_is_name(&token, constants[i].name)) continue;
        struct node *node = jinja_node(p, N_CONST, token.at);
        if (node) node->constant = (struct value){.kind = constants[i].kind, .b = constants[i].b};
        return node;
    }
    return name_node(p, N_NAME, &token);
}

// The elements of a list or a dictionary, up to the closer.
static struct node *parse_display(struct parser *p, enum node_kind kind, enum token_kind closer) {
    struct node *node = jinja_node(p, kind, p->current.at);
    if (!node) return NULL;
    jinja_advance(p);
    struct node_list items = {0};
    while (kind_of(p) != closer) {
        if (items.head && !jinja_expect(p, T_COMMA)) return NULL;
        if (kind_of(p) == closer) break;
        struct node *item = jinja_parse_expression(p, true);
        if (!item) return NULL;
        if (kind == N_DICT) {
            struct node *pair = jinja_node(p, N_PAIR, item->at);
            if (!pair || !jinja_expect(p, T_COLON)) return NULL;
            pair->a = item;
            pair->b = jinja_parse_expression(p, true);
            if (!pair->b) return NULL;
            item = pair;
        }
        jinja_list_add(&items, item);
    }
    jinja_advance(p);
    node->a = items.head;
    return node;
}

static struct node *parse_primary(struct parser *p) {
    switch (kind_of(p)) {
    case T_NAME:
        return parse_name(p);
    case T_STRING:
        return parse_string(p);
    case T_INTEGER:
    case T_FLOAT:
        return parse_number(p);
    case T_LPAREN: {
        jinja_advance(p);
        struct node *node = jinja_parse_tuple(p, true, true);
        return node && jinja_expect(p, T_RPAREN) ? node : NULL;
    }
    case T_LBRACKET:
        return parse_display(p, N_LIST, T_RBRACKET);
    case T_LBRACE:
        return parse_display(p, N_DICT, T_RBRACE);
    default:
        return jinja_parse_unexpected(p, "an expression");
    }
}

// One part of a slice; NULL with has_failed unset where it is left out.
static struct node *parse_bound(struct parser *p) {
    const enum token_kind kind = kind_of(p);
    if (kind == T_COLON || kind == T_RBRACKET || kind == T_COMMA) return NULL;
    return jinja_parse_expression(p, true);
}

static struct node *parse_subscript(struct parser *p, uint32_t at) {
    struct node *first = parse_bound(p);
    if (p->has_failed) return NULL;
    const bool is_slice = kind_of(p) == T_COLON;
    if (!is_slice && !first) return jinja_parse_unexpected(p, "an expression");
    struct node *link = jinja_node(p, is_slice ? L_SLICE : L_ITEM, at);
    if (!link) return NULL;
    link->a = first;
    if (is_slice) {
        jinja_advance(p);
        link->b = parse_bound(p);
        if (p->has_failed) return NULL;
        if (jinja_skip(p, T_COLON)) link->c = parse_bound(p);
        if (p->has_failed) return NULL;
    }
    return link;
}

static struct node *parse_brackets(struct parser *p) {
    const uint32_t at = p->current.at;
    jinja_advance(p);
    struct node *link = parse_subscript(p, at);
    return link && jinja_expect(p, T_RBRACKET) ? link : NULL;
}

static struct node *parse_dot(struct parser *p) {
    jinja_advance(p);
    const struct token token = p->current;
    if (token.kind == T_NAME) {
        jinja_advance(p);
        return name_node(p, L_ATTR, &token);
    }
    if (token.kind != T_INTEGER) return jinja_parse_unexpected(p, "a name or a number");
    struct node *link = jinja_node(p, L_ITEM, token.at);
    if (!link) return NULL;
    link->a = parse_number(p);
    return link->a ? link : NULL;
}

static void look_ahead(struct parser *p) {
    if (!p->has_ahead) p->ahead = jinja_lexer_next(&p->lex);
    p->has_ahead = true;
}

// One argument: positions come first, then names.
static struct node *parse_argument(struct parser *p, struct node *last) {
    const struct token token = p->current;
    if (token.kind == T_MUL) {
        return jinja_parse_fail(p, token.at, "'*' before an argument is not supported");
    }
    if (token.kind == T_NAME) look_ahead(p);
    if (token.kind != T_NAME || p->ahead.kind != T_ASSIGN) {
        if (!last || last->kind != A_KEYWORD) return jinja_parse_expression(p, true);
        return jinja_parse_fail(p, token.at, "arguments are out of order");
    }
    struct node *node = name_node(p, A_KEYWORD, &token);
    if (!node) return NULL;
    jinja_advance(p);
    jinja_advance(p);
    node->a = jinja_parse_expression(p, true);
    return node->a ? node : NULL;
}

// "(...)" into *out; false when it fails.
static bool parse_args(struct parser *p, struct node **out) {
    struct node_list list = {0};
    jinja_advance(p);
    while (kind_of(p) != T_RPAREN) {
        if (list.head && !jinja_expect(p, T_COMMA)) return false;
        if (list.head && kind_of(p) == T_RPAREN) break;
        struct node *arg = parse_argument(p, list.last);
        if (!arg) return false;
        jinja_list_add(&list, arg);
    }
    jinja_advance(p);
    *out = list.head;
    return true;
}

static struct node *parse_call(struct parser *p) {
    struct node *link = jinja_node(p, L_CALL, p->current.at);
    return link && parse_args(p, &link->a) ? link : NULL;
}

static struct node *parse_postfix(struct parser *p, struct node *node) {
    while (node) {
        const enum token_kind kind = kind_of(p);
        if (kind == T_DOT) {
            node = chain_add(p, node, parse_dot(p));
        } else if (kind == T_LBRACKET) {
            node = chain_add(p, node, parse_brackets(p));
        } else if (kind == T_LPAREN) {
            node = chain_add(p, node, parse_call(p));
        } else {
            break;
        }
    }
    return node;
}

// A link that names a row of a table; an unknown name is an error when it is reached.
static struct node *entry_link(struct parser *p, enum node_kind kind, const struct table *table) {
    if (kind_of(p) != T_NAME) return jinja_parse_unexpected(p, "a name");
    const struct token token = p->current;
    struct node *link = jinja_node(p, kind, token.at);
    if (!link) return NULL;
    link->name = jinja_parse_str(p, token.text, token.len);
    if (!link->name) return NULL;
    link->entry = jinja_table_find(table, token.text, token.len);
    jinja_advance(p);
    return link;
}

struct node *jinja_parse_filters(struct parser *p, struct node *base, bool is_inline) {
    struct node *node = base;
    while (is_inline || kind_of(p) == T_PIPE) {
        if (!is_inline) jinja_advance(p);
        is_inline = false;
        struct node *link = entry_link(p, L_FILTER, &jinja_filters);
        if (!link) return NULL;
        if (kind_of(p) == T_LPAREN && !parse_args(p, &link->a)) return NULL;
        node = chain_add(p, node, link);
        if (!node) return NULL;
    }
    return node;
}

// The argument of a test that stands without brackets: "x is divisibleby 3".
static bool starts_test_argument(const struct token *token) {
    switch (token->kind) {
    case T_NAME:
        return !jinja_is_name(token, "else") && !jinja_is_name(token, "or") &&
               !jinja_is_name(token, "and");
    case T_STRING:
    case T_INTEGER:
    case T_FLOAT:
    case T_LBRACKET:
    case T_LBRACE:
        return true;
    default:
        return false;
    }
}

static struct node *parse_test(struct parser *p) {
    jinja_advance(p);
    const bool is_negated = jinja_skip_name(p, "not");
    struct node *link = entry_link(p, L_TEST, &jinja_tests);
    if (!link) return NULL;
    link->is_negated = is_negated;
    if (kind_of(p) == T_LPAREN) return parse_args(p, &link->a) ? link : NULL;
    if (!starts_test_argument(&p->current)) return link;
    if (jinja_is_name(&p->current, "is")) {
        return jinja_parse_fail(p, p->current.at, "tests cannot follow each other");
    }
    link->a = parse_postfix(p, parse_primary(p));
    return link->a ? link : NULL;
}

static struct node *parse_filter_expr(struct parser *p, struct node *node) {
    while (node) {
        if (kind_of(p) == T_PIPE) {
            node = jinja_parse_filters(p, node, false);
        } else if (jinja_is_name(&p->current, "is")) {
            node = chain_add(p, node, parse_test(p));
        } else if (kind_of(p) == T_LPAREN) {
            node = chain_add(p, node, parse_call(p));
        } else {
            break;
        }
    }
    return node;
}

static struct node *parse_sign(struct parser *p) {
    struct node *node = jinja_node(p, kind_of(p) == T_SUB ? N_NEGATE : N_POSITIVE, p->current.at);
    if (!node || !jinja_enter(p)) return NULL;
    jinja_advance(p);
    node->a = parse_unary(p, false);
    jinja_leave(p);
    return node->a ? node : NULL;
}

static struct node *parse_unary(struct parser *p, bool with_filter) {
    const bool has_sign = kind_of(p) == T_SUB || kind_of(p) == T_ADD;
    struct node *node = parse_postfix(p, has_sign ? parse_sign(p) : parse_primary(p));
    return with_filter ? parse_filter_expr(p, node) : node;
}

// The operators of one level, and the function that parses the level above.
struct level {
    uint8_t token, op;
};
static const struct level level_product[] = {
    {T_MUL, OP_MUL}, {T_DIV, OP_DIV}, {T_FLOORDIV, OP_FLOORDIV}, {T_MOD, OP_MOD}, {0, 0}};
static const struct level level_sum[] = {{T_ADD, OP_ADD}, {T_SUB, OP_SUB}, {0, 0}};
static const struct level level_compare[] = {{T_EQ, OP_EQ}, {T_NE, OP_NE}, {T_LT, OP_LT},
                                             {T_LE, OP_LE}, {T_GT, OP_GT}, {T_GE, OP_GE},
                                             {0, 0}};

static const struct level *level_find(const struct level *level, enum token_kind kind) {
    for (; level->token; level++) {
        if (level->token == kind) return level;
    }
    return NULL;
}

static struct node *parse_binary(struct parser *p, const struct level *level,
                                 struct node *(*above)(struct parser *)) {
    struct node *left = above(p);
    const struct level *found;
    while (left && (found = level_find(level, kind_of(p)))) {
        struct node *link = jinja_node(p, L_BINARY, p->current.at);
        if (!link) return NULL;
        link->op = found->op;
        jinja_advance(p);
        link->a = above(p);
        if (!link->a) return NULL;
        left = chain_add(p, left, link);
    }
    return left;
}

static struct node *parse_unary_full(struct parser *p) { return parse_unary(p, true); }
static struct node *parse_product(struct parser *p) {
    return parse_binary(p, level_product, parse_unary_full);
}

// Operands of one level as a list node, or the only one as it is.
static struct node *operands_finish(struct parser *p, enum node_kind kind, struct node_list *list) {
    if (list->head == list->last) return list->head;
    struct node *node = jinja_node(p, kind, list->head->at);
    if (node) node->a = list->head;
    return node;
}

static struct node *parse_concat(struct parser *p) {
    struct node_list list = {0};
    do {
        struct node *operand = parse_product(p);
        if (!operand) return NULL;
        jinja_list_add(&list, operand);
    } while (jinja_skip(p, T_TILDE));
    return operands_finish(p, N_CONCAT, &list);
}

static struct node *parse_sum(struct parser *p) { return parse_binary(p, level_sum, parse_concat); }

// Takes a comparison operator; false when none comes next.
static bool take_comparison(struct parser *p, uint8_t *op) {
    const struct level *found = level_find(level_compare, kind_of(p));
    if (found) {
        *op = found->op;
        jinja_advance(p);
        return true;
    }
    *op = OP_IN;
    if (jinja_skip_name(p, "in")) return true;
    if (!jinja_is_name(&p->current, "not")) return false;
    look_ahead(p);
    if (!jinja_is_name(&p->ahead, "in")) return false;
    *op = OP_NOT_IN;
    jinja_advance(p);
    jinja_advance(p);
    return true;
}

static struct node *parse_compare(struct parser *p) {
    struct node *first = parse_sum(p);
    struct node_list operands = {0};
    uint8_t op;
    while (first) {
        const uint32_t at = p->current.at;
        if (!take_comparison(p, &op)) break;
        struct node *operand = jinja_node(p, N_OPERAND, at);
        if (!operand) return NULL;
        operand->op = op;
        operand->a = parse_sum(p);
        if (!operand->a) return NULL;
        jinja_list_add(&operands, operand);
    }
    if (!first || !operands.head) return first;
    struct node *node = jinja_node(p, N_COMPARE, operands.head->at);
    if (!node) return NULL;
    node->a = first;
    node->b = operands.head;
    return node;
}

static struct node *parse_not(struct parser *p) {
    if (!jinja_is_name(&p->current, "not")) return parse_compare(p);
    struct node *node = jinja_node(p, N_NOT, p->current.at);
    if (!node || !jinja_enter(p)) return NULL;
    jinja_advance(p);
    node->a = parse_not(p);
    jinja_leave(p);
    return node->a ? node : NULL;
}

static struct node *parse_logic(struct parser *p, const char *word, enum node_kind kind,
                                struct node *(*above)(struct parser *)) {
    struct node_list list = {0};
    do {
        struct node *operand = above(p);
        if (!operand) return NULL;
        jinja_list_add(&list, operand);
    } while (jinja_skip_name(p, word));
    return operands_finish(p, kind, &list);
}

static struct node *parse_and(struct parser *p) { return parse_logic(p, "and", N_AND, parse_not); }
static struct node *parse_or(struct parser *p) { return parse_logic(p, "or", N_OR, parse_and); }

// "x if c else y if d else z" is one node with its branches in order.
static struct node *parse_cond(struct parser *p) {
    struct node *value = parse_or(p);
    if (!value || !jinja_is_name(&p->current, "if")) return value;
    struct node *node = jinja_node(p, N_COND, p->current.at);
    if (!node) return NULL;
    struct node_list branches = {0};
    while (jinja_skip_name(p, "if")) {
        struct node *branch = jinja_node(p, N_BRANCH, value->at);
        if (!branch) return NULL;
        branch->a = parse_or(p);
        branch->b = value;
        if (!branch->a) return NULL;
        jinja_list_add(&branches, branch);
        value = NULL;
        if (!jinja_skip_name(p, "else")) break;
        value = parse_or(p);
        if (!value) return NULL;
    }
    node->a = branches.head;
    node->b = value;
    return node;
}

struct node *jinja_parse_expression(struct parser *p, bool with_cond) {
    if (!jinja_enter(p)) return NULL;
    struct node *node = with_cond ? parse_cond(p) : parse_or(p);
    jinja_leave(p);
    return node;
}

static bool at_tuple_end(const struct parser *p) {
    const enum token_kind kind = kind_of(p);
    return kind == T_VARIABLE_END || kind == T_BLOCK_END || kind == T_RPAREN;
}

struct node *jinja_parse_tuple(struct parser *p, bool with_cond, bool is_bracketed) {
    const uint32_t at = p->current.at;
    struct node_list items = {0};
    bool is_tuple = false;
    while (!at_tuple_end(p)) {
        struct node *item = jinja_parse_expression(p, with_cond);
        if (!item) return NULL;
        jinja_list_add(&items, item);
        if (!jinja_skip(p, T_COMMA)) break;
        is_tuple = true;
    }
    if (!is_tuple && items.head) return items.head;
    if (!is_tuple && !is_bracketed) return jinja_parse_unexpected(p, "an expression");
    struct node *tuple = jinja_node(p, N_TUPLE, at);
    if (tuple) tuple->a = items.head;
    return tuple;
}

// Expressions: recursive descent with Jinja's precedence. Nesting to the left becomes a chain, so
// depth grows with brackets, unary operators and `not` alone.
#include <string.h>

#include "jinja/parser.h"
#include "jinja/table.h"
#include "jinja/text.h"

static enum token_kind kind_of(const struct parser *p) { return p->current.kind; }

// Appends to the chain, or makes one of the node.
static struct node *chain_add(struct parser *p, struct node *base, struct node *link) {
    if (base && base->kind == N_CHAIN) {
        base->c->next = link;
        base->c = link;
        return base;
    }
    struct node *chain = jinja_node(p, N_CHAIN, base ? base->at : link->at, base);
    chain->b = chain->c = link;
    return chain;
}

// ---------------------------------------------------------------- literals

// Writes the character that is escaped by a backslash; returns the number of bytes. As with Python,
// an unknown escape stays as it is, and a line end vanishes.
static size_t escape_write(struct parser *p, uint32_t at, char c, char *out) {
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    const char *known = c ? strchr(from, c) : NULL;
    if (c && strchr("01234567xuUN", c)) {
        jinja_parse_fail(p, at, "the escape '\\%c' is not supported", c);
    }
    if (c == '\n') return 0;
    out[0] = known ? to[known - from] : '\\';
    out[1] = c;
    return known ? 1 : 2;
}

// Strings beside each other are one. No escape is shorter than its character, so the source's
// length is room enough.
static struct node *parse_string(struct parser *p) {
    struct node *node = jinja_node(p, N_CONST, p->current.at, NULL);
    char *out = NULL;
    size_t room = 0, len = 0;
    for (; kind_of(p) == T_STRING; jinja_advance(p)) {
        const struct token token = p->current;
        if (len + token.len > room) {
            room = 2 * len + token.len;
            char *grown = jinja_parse_alloc(p, room);
            if (len) memcpy(grown, out, len);
            out = grown;
        }
        for (size_t i = 1; i + 1 < token.len; i++) {
            if (token.text[i] == '\\') {
                len += escape_write(p, token.at, token.text[++i], out + len);
            } else {
                out[len++] = token.text[i];
            }
        }
    }
    node->constant = value_str(jinja_parse_str(p, out, len));
    return node;
}

static struct node *parse_integer(struct parser *p) {
    struct node *node = jinja_node(p, N_CONST, p->current.at, NULL);
    int64_t i;
    if (number_parse_int(p->current.text, p->current.len, &i) != NUMBER_OK) {
        jinja_parse_fail(p, node->at, "the integer does not fit 64 bits");
    }
    node->constant = value_int(i);
    jinja_advance(p);
    return node;
}

// Constants, else a variable.
struct node *jinja_parse_name(struct parser *p) {
    static const struct {
        const char *name;
        struct value value;
    } constants[] = {
        {"true", {.kind = V_BOOL, .b = true}},
        {"True", {.kind = V_BOOL, .b = true}},
        {"false", {.kind = V_BOOL, .b = false}},
        {"False", {.kind = V_BOOL, .b = false}},
        {"none", {.kind = V_NONE}},
        {"None", {.kind = V_NONE}},
    };
    struct node *node = jinja_name_node(p, N_NAME);
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++) {
        if (!str_equals(node->constant.s, constants[i].name)) continue;
        node->kind = N_CONST;
        node->constant = constants[i].value;
        break;
    }
    return node;
}

struct node *jinja_parse_items(struct parser *p, const char *closer, item_parser *parse) {
    struct node_list items = {0};
    jinja_advance(p);
    while (!jinja_at(p, closer)) {
        if (items.head) jinja_expect(p, ",");
        if (items.head && jinja_at(p, closer)) break;
        jinja_list_add(&items, parse(p, items.last));
    }
    jinja_advance(p);
    return items.head;
}

static struct node *parse_element(struct parser *p, const struct node *last) {
    (void)last;
    return jinja_parse_expression(p, true);
}

static struct node *parse_pair(struct parser *p, const struct node *last) {
    struct node *key = parse_element(p, last);
    struct node *pair = jinja_node(p, N_PAIR, key->at, key);
    jinja_expect(p, ":");
    pair->b = jinja_parse_expression(p, true);
    return pair;
}

static struct node *parse_primary(struct parser *p) {
    const uint32_t at = p->current.at;
    if (kind_of(p) == T_NAME) return jinja_parse_name(p);
    if (kind_of(p) == T_STRING) return parse_string(p);
    if (kind_of(p) == T_INTEGER) return parse_integer(p);
    if (jinja_at(p, "["))
        return jinja_node(p, N_LIST, at, jinja_parse_items(p, "]", parse_element));
    if (jinja_at(p, "{")) return jinja_node(p, N_DICT, at, jinja_parse_items(p, "}", parse_pair));
    if (!jinja_skip(p, "(")) jinja_parse_unexpected(p, "an expression");
    struct node *node = jinja_parse_tuple(p, true, true);
    jinja_expect(p, ")");
    return node;
}

// ---------------------------------------------------------------- links

// One part of a slice; NULL where it is left out.
static struct node *parse_bound(struct parser *p) {
    const bool is_out = jinja_at(p, ":") || jinja_at(p, "]");
    return is_out ? NULL : jinja_parse_expression(p, true);
}

static struct node *parse_brackets(struct parser *p) {
    struct node *link = jinja_node(p, L_ITEM, p->current.at, NULL);
    jinja_advance(p);
    link->a = parse_bound(p);
    if (jinja_skip(p, ":")) {
        link->kind = L_SLICE;
        link->b = parse_bound(p);
        if (jinja_skip(p, ":")) link->c = parse_bound(p);
    } else if (!link->a) {
        jinja_parse_unexpected(p, "an expression");
    }
    jinja_expect(p, "]");
    return link;
}

static struct node *parse_dot(struct parser *p) {
    jinja_advance(p);
    if (kind_of(p) == T_NAME) return jinja_name_node(p, L_ATTR);
    if (kind_of(p) != T_INTEGER) jinja_parse_unexpected(p, "a name or a number");
    const uint32_t at = p->current.at;
    return jinja_node(p, L_ITEM, at, parse_integer(p));
}

static const struct token *look_ahead(struct parser *p) {
    if (!p->has_ahead) p->ahead = jinja_lexer_next(&p->lex);
    p->has_ahead = true;
    return &p->ahead;
}

// One argument: positions come first, then names.
static struct node *parse_argument(struct parser *p, const struct node *last) {
    const uint32_t at = p->current.at;
    if (jinja_at(p, "*")) jinja_parse_fail(p, at, "'*' before an argument is not supported");
    if (kind_of(p) != T_NAME || !jinja_is_text(look_ahead(p), "=")) {
        if (last && last->kind == A_KEYWORD) jinja_parse_fail(p, at, "arguments are out of order");
        return jinja_parse_expression(p, true);
    }
    struct node *node = jinja_name_node(p, A_KEYWORD);
    jinja_advance(p);
    node->a = jinja_parse_expression(p, true);
    return node;
}

static struct node *parse_args(struct parser *p) {
    return jinja_parse_items(p, ")", parse_argument);
}

static struct node *parse_call(struct parser *p) {
    const uint32_t at = p->current.at;
    return jinja_node(p, L_CALL, at, parse_args(p));
}

static struct node *parse_postfix(struct parser *p, struct node *node) {
    for (;;) {
        if (jinja_at(p, ".")) {
            node = chain_add(p, node, parse_dot(p));
        } else if (jinja_at(p, "[")) {
            node = chain_add(p, node, parse_brackets(p));
        } else if (jinja_at(p, "(")) {
            node = chain_add(p, node, parse_call(p));
        } else {
            return node;
        }
    }
}

// A link that names a row of a table; an unknown name is an error when it is reached.
static struct node *parse_row(struct parser *p, enum node_kind kind, const struct table *table) {
    struct node *link = jinja_name_node(p, kind);
    link->name = link->constant.s;
    link->entry = jinja_table_find(table, link->name);
    return link;
}

struct node *jinja_parse_filters(struct parser *p, struct node *base, bool is_inline) {
    while (is_inline || jinja_skip(p, "|")) {
        is_inline = false;
        struct node *link = parse_row(p, L_FILTER, &jinja_filters);
        if (jinja_at(p, "(")) link->a = parse_args(p);
        base = chain_add(p, base, link);
    }
    return base;
}

// Whether a test's argument stands here without brackets: "x is eq 3".
static bool at_test_argument(const struct parser *p) {
    const struct token *token = &p->current;
    if (token->kind == T_NAME) return jinja_names_find("else or and", token->text, token->len) < 0;
    return token->kind == T_STRING || token->kind == T_INTEGER || jinja_at(p, "[") ||
           jinja_at(p, "{");
}

static struct node *parse_test(struct parser *p) {
    const bool is_negated = jinja_skip(p, "not");
    struct node *link = parse_row(p, L_TEST, &jinja_tests);
    link->is_negated = is_negated;
    if (jinja_at(p, "(")) {
        link->a = parse_args(p);
    } else if (jinja_at(p, "is")) {
        jinja_parse_fail(p, p->current.at, "tests cannot follow each other");
    } else if (at_test_argument(p)) {
        link->a = parse_postfix(p, parse_primary(p));
    }
    return link;
}

static struct node *parse_filter_expr(struct parser *p, struct node *node) {
    for (;;) {
        if (jinja_at(p, "|")) {
            node = jinja_parse_filters(p, node, false);
        } else if (jinja_skip(p, "is")) {
            node = chain_add(p, node, parse_test(p));
        } else if (jinja_at(p, "(")) {
            node = chain_add(p, node, parse_call(p));
        } else {
            return node;
        }
    }
}

// ---------------------------------------------------------------- operators

// An operator before its operand.
static struct node *parse_prefix(struct parser *p, enum node_kind kind,
                                 struct node *(*parse)(struct parser *)) {
    struct node *node = jinja_node(p, kind, p->current.at, NULL);
    jinja_enter(p);
    jinja_advance(p);
    node->a = parse(p);
    jinja_leave(p);
    return node;
}

// Without filters, which bind looser than a sign.
static struct node *parse_signed(struct parser *p) {
    if (jinja_at(p, "-")) return parse_postfix(p, parse_prefix(p, N_NEGATE, parse_signed));
    return parse_postfix(p, parse_primary(p));
}

// From the loosest to the tightest. All but `not` and signs stand between two operands.
enum precedence { P_OR, P_AND, P_NOT, P_COMPARE, P_SUM, P_CONCAT, P_PRODUCT, P_SIGN };

static const struct {
    const char *text;
    enum precedence level;
    enum node_op op;
} operators[] = {
    {"or", P_OR, OP_OR},      {"and", P_AND, OP_AND},   {"==", P_COMPARE, OP_EQ},
    {"!=", P_COMPARE, OP_NE}, {"<", P_COMPARE, OP_LT},  {"<=", P_COMPARE, OP_LE},
    {">", P_COMPARE, OP_GT},  {">=", P_COMPARE, OP_GE}, {"in", P_COMPARE, OP_IN},
    {"+", P_SUM, OP_ADD},     {"-", P_SUM, OP_SUB},     {"~", P_CONCAT, OP_CONCAT},
    {"*", P_PRODUCT, OP_MUL}, {"%", P_PRODUCT, OP_MOD}, {"not", P_COMPARE, OP_NOT_IN},
};

// Takes an operator of the level, as a link without its operand; NULL when none comes next.
static struct node *take_operator(struct parser *p, enum precedence level) {
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (operators[i].level != level || !jinja_at(p, operators[i].text)) continue;
        const bool is_pair = operators[i].op == OP_NOT_IN; // two words
        if (is_pair && !jinja_is_text(look_ahead(p), "in")) return NULL;
        struct node *link = jinja_node(p, L_BINARY, p->current.at, NULL);
        link->op = (uint8_t)operators[i].op;
        if (is_pair) jinja_advance(p);
        jinja_advance(p);
        return link;
    }
    return NULL;
}

static struct node *parse_not(struct parser *p);

// Operators of one level, whose operands are of the level above.
static struct node *parse_level(struct parser *p, enum precedence level) {
    if (level == P_SIGN) return parse_filter_expr(p, parse_signed(p));
    if (level == P_NOT) return parse_not(p);
    struct node *left = parse_level(p, level + 1);
    bool is_compared = false;
    for (struct node *link; (link = take_operator(p, level));) {
        if (is_compared) jinja_parse_fail(p, link->at, "comparisons in a chain are not supported");
        is_compared = level == P_COMPARE;
        link->a = parse_level(p, level + 1);
        left = chain_add(p, left, link);
    }
    return left;
}

static struct node *parse_not(struct parser *p) {
    const bool is_not = jinja_at(p, "not");
    return is_not ? parse_prefix(p, N_NOT, parse_not) : parse_level(p, P_COMPARE);
}

// "x if c else y if d else z" is one node with its branches in order.
static struct node *parse_cond(struct parser *p) {
    struct node *value = parse_level(p, P_OR);
    if (!jinja_at(p, "if")) return value;
    struct node *node = jinja_node(p, N_COND, p->current.at, NULL);
    struct node_list branches = {0};
    while (value && jinja_skip(p, "if")) {
        struct node *branch = jinja_node(p, N_BRANCH, value->at, parse_level(p, P_OR));
        branch->b = value;
        jinja_list_add(&branches, branch);
        value = jinja_skip(p, "else") ? parse_level(p, P_OR) : NULL;
    }
    node->a = branches.head;
    node->b = value;
    return node;
}

struct node *jinja_parse_expression(struct parser *p, bool with_cond) {
    jinja_enter(p);
    struct node *node = with_cond ? parse_cond(p) : parse_level(p, P_OR);
    jinja_leave(p);
    return node;
}

struct node *jinja_parse_tuple(struct parser *p, bool with_cond, bool is_bracketed) {
    const uint32_t at = p->current.at;
    struct node_list items = {0};
    bool is_tuple = false;
    while (!jinja_at(p, "}}") && !jinja_at(p, "%}") && !jinja_at(p, ")")) {
        jinja_list_add(&items, jinja_parse_expression(p, with_cond));
        if (!jinja_skip(p, ",")) break;
        is_tuple = true;
    }
    if (!is_tuple && items.head) return items.head;
    if (!is_tuple && !is_bracketed) jinja_parse_unexpected(p, "an expression");
    return jinja_node(p, N_TUPLE, at, items.head);
}

// Expressions: recursive descent with Jinja's precedence. Nesting to the left becomes a chain, so
// depth grows with brackets, unary operators and `not` alone.
#include <string.h>

#include "jinja/number.h"
#include "jinja/parser.h"
#include "jinja/table.h"
#include "unicode/unicode.h"

static struct node *parse_unary(struct parser *p, bool with_filter);

static int kind_of(const struct parser *p) { return p->current.kind; }

// Appends to the chain, or makes one of the node.
static struct node *chain_add(struct parser *p, struct node *base, struct node *link) {
    if (base && base->kind == N_CHAIN) {
        base->c->next = link;
        base->c = link;
        return base;
    }
    struct node *chain = jinja_node(p, N_CHAIN, base ? base->at : link->at);
    chain->a = base;
    chain->b = chain->c = link;
    return chain;
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
    char *out = NULL;
    size_t room = 0;
    struct str text = {0};
    for (; kind_of(p) == T_STRING; jinja_advance(p)) {
        const struct token token = p->current;
        if (text.len + token.len > room) {
            room = 2 * text.len + token.len;
            char *grown = jinja_parse_alloc(p, room);
            if (text.len) memcpy(grown, out, text.len);
            out = grown;
        }
        for (size_t i = 1; i + 1 < token.len;) {
            if (token.text[i] != '\\') {
                out[text.len++] = token.text[i++];
                continue;
            }
            const size_t n = escape_add(&text, out, token.text + i + 1, token.len - i - 2);
            if (n == 0) jinja_parse_fail(p, token.at, "an escape of the string is wrong");
            i += n + 1;
        }
    }
    node->constant = value_str(jinja_parse_str(p, out, text.len));
    return node;
}

static struct node *parse_number(struct parser *p) {
    const struct token token = p->current;
    struct node *node = jinja_node(p, N_CONST, token.at);
    int64_t i = 0;
    double f = 0;
    if (token.kind == T_INTEGER && number_parse_int(token.text, token.len, &i) != NUMBER_OK) {
        jinja_parse_fail(p, token.at, "the integer does not fit 64 bits");
    }
    if (token.kind == T_FLOAT && !number_parse_float(token.text, token.len, &f)) {
        jinja_parse_fail(p, token.at, "the number cannot be read");
    }
    node->constant = token.kind == T_INTEGER ? value_int(i) : value_float(f);
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
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++) {
        if (!jinja_is_name(&p->current, constants[i].name)) continue;
        struct node *node = jinja_node(p, N_CONST, p->current.at);
        node->constant = (struct value){.kind = constants[i].kind, .b = constants[i].b};
        jinja_advance(p);
        return node;
    }
    return jinja_name_node(p, N_NAME);
}

// The elements of a list or a dictionary, up to the closer.
static struct node *parse_display(struct parser *p, enum node_kind kind, int closer) {
    struct node *node = jinja_node(p, kind, p->current.at);
    struct node_list items = {0};
    jinja_advance(p);
    while (kind_of(p) != closer) {
        if (items.head) jinja_expect(p, ',');
        if (kind_of(p) == closer) break;
        struct node *item = jinja_parse_expression(p, true);
        if (kind == N_DICT) {
            struct node *pair = jinja_node(p, N_PAIR, item->at);
            jinja_expect(p, ':');
            pair->a = item;
            pair->b = jinja_parse_expression(p, true);
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
    case '(': {
        jinja_advance(p);
        struct node *node = jinja_parse_tuple(p, true, true);
        jinja_expect(p, ')');
        return node;
    }
    case '[':
        return parse_display(p, N_LIST, ']');
    case '{':
        return parse_display(p, N_DICT, '}');
    default:
        jinja_parse_unexpected(p, "an expression");
    }
}

// ---------------------------------------------------------------- links

// One part of a slice; NULL where it is left out.
static struct node *parse_bound(struct parser *p) {
    const bool is_out = kind_of(p) == ':' || kind_of(p) == ']';
    return is_out ? NULL : jinja_parse_expression(p, true);
}

static struct node *parse_brackets(struct parser *p) {
    struct node *link = jinja_node(p, L_ITEM, p->current.at);
    jinja_advance(p);
    link->a = parse_bound(p);
    if (jinja_skip(p, ':')) {
        link->kind = L_SLICE;
        link->b = parse_bound(p);
        if (jinja_skip(p, ':')) link->c = parse_bound(p);
    } else if (!link->a) {
        jinja_parse_unexpected(p, "an expression");
    }
    jinja_expect(p, ']');
    return link;
}

static struct node *parse_dot(struct parser *p) {
    jinja_advance(p);
    if (kind_of(p) == T_NAME) return jinja_name_node(p, L_ATTR);
    if (kind_of(p) != T_INTEGER) jinja_parse_unexpected(p, "a name or a number");
    struct node *link = jinja_node(p, L_ITEM, p->current.at);
    link->a = parse_number(p);
    return link;
}

static const struct token *look_ahead(struct parser *p) {
    if (!p->has_ahead) p->ahead = jinja_lexer_next(&p->lex);
    p->has_ahead = true;
    return &p->ahead;
}

// One argument: positions come first, then names.
static struct node *parse_argument(struct parser *p, const struct node *last) {
    const uint32_t at = p->current.at;
    if (kind_of(p) == '*') jinja_parse_fail(p, at, "'*' before an argument is not supported");
    if (kind_of(p) != T_NAME || look_ahead(p)->kind != '=') {
        if (last && last->kind == A_KEYWORD) jinja_parse_fail(p, at, "arguments are out of order");
        return jinja_parse_expression(p, true);
    }
    struct node *node = jinja_name_node(p, A_KEYWORD);
    jinja_advance(p);
    node->a = jinja_parse_expression(p, true);
    return node;
}

// "(...)".
static struct node *parse_args(struct parser *p) {
    struct node_list list = {0};
    jinja_advance(p);
    while (kind_of(p) != ')') {
        if (list.head) jinja_expect(p, ',');
        if (list.head && kind_of(p) == ')') break;
        jinja_list_add(&list, parse_argument(p, list.last));
    }
    jinja_advance(p);
    return list.head;
}

static struct node *parse_call(struct parser *p) {
    struct node *link = jinja_node(p, L_CALL, p->current.at);
    link->a = parse_args(p);
    return link;
}

static struct node *parse_postfix(struct parser *p, struct node *node) {
    for (;;) {
        if (kind_of(p) == '.') {
            node = chain_add(p, node, parse_dot(p));
        } else if (kind_of(p) == '[') {
            node = chain_add(p, node, parse_brackets(p));
        } else if (kind_of(p) == '(') {
            node = chain_add(p, node, parse_call(p));
        } else {
            return node;
        }
    }
}

// A link that names a row of a table; an unknown name is an error when it is reached.
static struct node *entry_link(struct parser *p, enum node_kind kind, const struct table *table) {
    struct node *link = jinja_name_node(p, kind);
    struct str *name = link->constant.s;
    link->name = name;
    link->entry = jinja_table_find(table, name->data, name->len);
    return link;
}

struct node *jinja_parse_filters(struct parser *p, struct node *base, bool is_inline) {
    while (is_inline || jinja_skip(p, '|')) {
        is_inline = false;
        struct node *link = entry_link(p, L_FILTER, &jinja_filters);
        if (kind_of(p) == '(') link->a = parse_args(p);
        base = chain_add(p, base, link);
    }
    return base;
}

// The argument of a test that stands without brackets: "x is eq 3".
static bool starts_test_argument(const struct token *token) {
    switch (token->kind) {
    case T_NAME:
        return !jinja_is_name(token, "else") && !jinja_is_name(token, "or") &&
               !jinja_is_name(token, "and");
    case T_STRING:
    case T_INTEGER:
    case T_FLOAT:
    case '[':
    case '{':
        return true;
    default:
        return false;
    }
}

static struct node *parse_test(struct parser *p) {
    const bool is_negated = jinja_skip_name(p, "not");
    struct node *link = entry_link(p, L_TEST, &jinja_tests);
    link->is_negated = is_negated;
    if (kind_of(p) == '(') {
        link->a = parse_args(p);
    } else if (jinja_is_name(&p->current, "is")) {
        jinja_parse_fail(p, p->current.at, "tests cannot follow each other");
    } else if (starts_test_argument(&p->current)) {
        link->a = parse_postfix(p, parse_primary(p));
    }
    return link;
}

static struct node *parse_filter_expr(struct parser *p, struct node *node) {
    for (;;) {
        if (kind_of(p) == '|') {
            node = jinja_parse_filters(p, node, false);
        } else if (jinja_skip_name(p, "is")) {
            node = chain_add(p, node, parse_test(p));
        } else if (kind_of(p) == '(') {
            node = chain_add(p, node, parse_call(p));
        } else {
            return node;
        }
    }
}

// ---------------------------------------------------------------- operators

static struct node *parse_sign(struct parser *p) {
    struct node *node = jinja_node(p, kind_of(p) == '-' ? N_NEGATE : N_POSITIVE, p->current.at);
    jinja_enter(p);
    jinja_advance(p);
    node->a = parse_unary(p, false);
    jinja_leave(p);
    return node;
}

static struct node *parse_unary(struct parser *p, bool with_filter) {
    const bool has_sign = kind_of(p) == '-' || kind_of(p) == '+';
    struct node *node = parse_postfix(p, has_sign ? parse_sign(p) : parse_primary(p));
    return with_filter ? parse_filter_expr(p, node) : node;
}

static const struct {
    int token;
    uint8_t op;
} operators[] = {
    {'+', OP_ADD}, {'-', OP_SUB}, {'*', OP_MUL}, {'%', OP_MOD}, {T_EQ, OP_EQ},
    {T_NE, OP_NE}, {'<', OP_LT},  {T_LE, OP_LE}, {'>', OP_GT},  {T_GE, OP_GE},
};

// Whether the current token is one of the operators from `first` to `last`.
static bool is_operator(const struct parser *p, int first, int last, uint8_t *op) {
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        *op = operators[i].op;
        if (operators[i].token == kind_of(p)) return *op >= first && *op <= last;
    }
    return false;
}

// Operators of one level, whose operands are of the level above.
static struct node *parse_binary(struct parser *p, int first, int last,
                                 struct node *(*above)(struct parser *)) {
    struct node *left = above(p);
    uint8_t op;
    while (is_operator(p, first, last, &op)) {
        struct node *link = jinja_node(p, L_BINARY, p->current.at);
        jinja_advance(p);
        link->op = op;
        link->a = above(p);
        left = chain_add(p, left, link);
    }
    return left;
}

static struct node *parse_operand(struct parser *p) { return parse_unary(p, true); }
static struct node *parse_product(struct parser *p) {
    return parse_binary(p, OP_MUL, OP_MOD, parse_operand);
}

// Operands with a word or a '~' between them, as one node.
static struct node *parse_list(struct parser *p, const char *word, enum node_kind kind,
                               struct node *(*above)(struct parser *)) {
    struct node_list list = {0};
    do {
        jinja_list_add(&list, above(p));
    } while (word ? jinja_skip_name(p, word) : jinja_skip(p, '~'));
    if (list.head == list.last) return list.head;
    struct node *node = jinja_node(p, kind, list.head->at);
    node->a = list.head;
    return node;
}

static struct node *parse_concat(struct parser *p) {
    return parse_list(p, NULL, N_CONCAT, parse_product);
}
static struct node *parse_sum(struct parser *p) {
    return parse_binary(p, OP_ADD, OP_SUB, parse_concat);
}

// Takes a comparison operator; false when none comes next.
static bool take_comparison(struct parser *p, uint8_t *op) {
    if (!is_operator(p, OP_EQ, OP_GE, op)) {
        *op = OP_IN;
        if (jinja_is_name(&p->current, "not") && jinja_is_name(look_ahead(p), "in")) {
            *op = OP_NOT_IN;
            jinja_advance(p);
        }
        if (!jinja_is_name(&p->current, "in")) return false;
    }
    jinja_advance(p);
    return true;
}

static struct node *parse_compare(struct parser *p) {
    struct node *first = parse_sum(p);
    struct node_list operands = {0};
    uint32_t at = p->current.at;
    for (uint8_t op; take_comparison(p, &op); at = p->current.at) {
        struct node *operand = jinja_node(p, N_OPERAND, at);
        operand->op = op;
        operand->a = parse_sum(p);
        jinja_list_add(&operands, operand);
    }
    if (!operands.head) return first;
    struct node *node = jinja_node(p, N_COMPARE, operands.head->at);
    node->a = first;
    node->b = operands.head;
    return node;
}

static struct node *parse_not(struct parser *p) {
    if (!jinja_is_name(&p->current, "not")) return parse_compare(p);
    struct node *node = jinja_node(p, N_NOT, p->current.at);
    jinja_enter(p);
    jinja_advance(p);
    node->a = parse_not(p);
    jinja_leave(p);
    return node;
}

static struct node *parse_and(struct parser *p) { return parse_list(p, "and", N_AND, parse_not); }
static struct node *parse_or(struct parser *p) { return parse_list(p, "or", N_OR, parse_and); }

// "x if c else y if d else z" is one node with its branches in order.
static struct node *parse_cond(struct parser *p) {
    struct node *value = parse_or(p);
    if (!jinja_is_name(&p->current, "if")) return value;
    struct node *node = jinja_node(p, N_COND, p->current.at);
    struct node_list branches = {0};
    while (value && jinja_skip_name(p, "if")) {
        struct node *branch = jinja_node(p, N_BRANCH, value->at);
        branch->a = parse_or(p);
        branch->b = value;
        jinja_list_add(&branches, branch);
        value = jinja_skip_name(p, "else") ? parse_or(p) : NULL;
    }
    node->a = branches.head;
    node->b = value;
    return node;
}

struct node *jinja_parse_expression(struct parser *p, bool with_cond) {
    jinja_enter(p);
    struct node *node = with_cond ? parse_cond(p) : parse_or(p);
    jinja_leave(p);
    return node;
}

static bool at_tuple_end(const struct parser *p) {
    return kind_of(p) == T_VARIABLE_END || kind_of(p) == T_BLOCK_END || kind_of(p) == ')';
}

struct node *jinja_parse_tuple(struct parser *p, bool with_cond, bool is_bracketed) {
    const uint32_t at = p->current.at;
    struct node_list items = {0};
    bool is_tuple = false;
    while (!at_tuple_end(p)) {
        jinja_list_add(&items, jinja_parse_expression(p, with_cond));
        if (!jinja_skip(p, ',')) break;
        is_tuple = true;
    }
    if (!is_tuple && items.head) return items.head;
    if (!is_tuple && !is_bracketed) jinja_parse_unexpected(p, "an expression");
    struct node *tuple = jinja_node(p, N_TUPLE, at);
    tuple->a = items.head;
    return tuple;
}

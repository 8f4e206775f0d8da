// GBNF, the grammars of llama.cpp: "name ::= alternatives", one rule after the other; the text is
// the rule "root". A rule ends at the end of a line, except inside brackets and behind "|".
#include <string.h>

#include "base/utf8.h"
#include "constraint/freetext.h"
#include "constraint/front.h"
#include "constraint/product.h"
#include "constraint/source.h"
#include "constraint/vocab.h"

struct group {
    size_t at;
    struct node_list alt, seq;
};

struct parser {
    struct grammar *g;
    const uint8_t *text;
    size_t len, at;
    struct group group[GRAMMAR_MAX_DEPTH + 1];
    int depth;
    bool can_repeat, is_single;
    struct names names;
    uint32_t *rule, n_rule; // [n_rule] of a name
};

static struct source source_of(const struct parser *p) {
    return (struct source){p->g, p->text, p->len};
}

static bool fail(const struct parser *p, size_t at, const char *what) {
    const struct source source = source_of(p);
    return source_fail(&source, at, "%s", what);
}

static bool is_name(uint8_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static void skip_blanks(struct parser *p, bool lines_too) {
    while (p->at < p->len) {
        const uint8_t c = p->text[p->at];
        if (c == '#') {
            while (p->at < p->len && p->text[p->at] != '\n' && p->text[p->at] != '\r') p->at++;
        } else if (c == ' ' || c == '\t' || (lines_too && (c == '\n' || c == '\r'))) {
            p->at++;
        } else {
            return;
        }
    }
}

// --- names ---

static uint32_t rule_named(struct parser *p, const char *name, size_t len) {
    const uint32_t n = p->names.n, index = names_index(p->g, &p->names, name, len);
    if (index == UINT32_MAX) return UINT32_MAX;
    if (index == n) {
        if (p->n_rule <= n) { // room as the table has it
            uint32_t *grown = grammar_alloc(p->g, p->names.capacity, sizeof *grown);
            if (!grown) return UINT32_MAX;
            if (n) memcpy(grown, p->rule, n * sizeof *grown);
            p->rule = grown;
            p->n_rule = p->names.capacity;
        }
        p->rule[n] = grammar_rule(p->g, name, len);
    }
    return p->rule[index];
}

static uint32_t read_name(struct parser *p) {
    const size_t begin = p->at;
    while (p->at < p->len && is_name(p->text[p->at])) p->at++;
    if (p->at == begin) {
        fail(p, begin, "expected the name of a rule");
        return UINT32_MAX;
    }
    return rule_named(p, (const char *)p->text + begin, p->at - begin);
}

// --- characters ---

static bool read_hex(struct parser *p, int n, uint32_t *out) {
    const size_t begin = p->at;
    *out = 0;
    for (int i = 0; i < n; i++, p->at++) {
        const int digit = p->at < p->len ? hex_digit(p->text[p->at]) : -1;
        if (digit < 0) return fail(p, begin, "expected hexadecimal digits");
        *out = *out * 16 + (uint32_t)digit;
    }
    if (*out > 0x10FFFF || (*out >= 0xD800 && *out <= 0xDFFF))
        return fail(p, begin, "not a character of Unicode");
    return true;
}

static bool read_char(struct parser *p, uint32_t *out) {
    if (p->at == p->len) return fail(p, p->at, "the grammar ends inside a literal");
    if (p->text[p->at] == '\\') {
        if (p->at + 1 == p->len) return fail(p, p->at, "a backslash at the end");
        const uint8_t letter = p->text[p->at + 1];
        p->at += 2;
        switch (letter) {
        case 'x':
            return read_hex(p, 2, out);
        case 'u':
            return read_hex(p, 4, out);
        case 'U':
            return read_hex(p, 8, out);
        case 't':
            *out = '\t';
            return true;
        case 'r':
            *out = '\r';
            return true;
        case 'n':
            *out = '\n';
            return true;
        case '\\':
        case '"':
        case '[':
        case ']':
        case '^':
        case '-':
            *out = letter;
            return true;
        default:
            return fail(p, p->at - 2, "an unknown escape");
        }
    }
    const struct source source = source_of(p);
    const size_t n = source_char(&source, p->at, out);
    p->at += n;
    return n > 0;
}

static bool add_atom(struct parser *p, const struct node *node, bool is_single) {
    p->can_repeat = true;
    p->is_single = is_single;
    return node_list_add(p->g, &p->group[p->depth].seq, node);
}

static bool read_literal(struct parser *p) {
    const size_t begin = p->at++;
    uint8_t *bytes = grammar_alloc(p->g, 64, 1);
    size_t n = 0, capacity = 64;
    while (bytes && p->at < p->len && p->text[p->at] != '"') {
        uint32_t cp;
        if (!read_char(p, &cp)) return false;
        if (n + 4 > capacity) {
            uint8_t *grown = grammar_alloc(p->g, capacity *= 2, 1);
            if (!grown) return false;
            memcpy(grown, bytes, n);
            bytes = grown;
        }
        n += utf8_encode(cp, bytes + n);
    }
    if (!bytes) return false;
    if (p->at == p->len) return fail(p, begin, "a literal without its end");
    p->at++;
    return add_atom(p, node_bytes(p->g, bytes, n), false);
}

static bool read_class(struct parser *p) {
    enum { MAX_RANGES = 512 };
    struct range range[MAX_RANGES];
    size_t n = 0;
    const size_t begin = p->at++;
    const bool negate = p->at < p->len && p->text[p->at] == '^';
    p->at += negate;
    while (p->at < p->len && p->text[p->at] != ']') {
        uint32_t lo, hi;
        const size_t at = p->at;
        if (!read_char(p, &lo)) return false;
        hi = lo;
        if (p->at + 1 < p->len && p->text[p->at] == '-' && p->text[p->at + 1] != ']') {
            p->at++;
            if (!read_char(p, &hi)) return false;
        }
        if (hi < lo) return fail(p, at, "a range whose end is before its start");
        if (n == MAX_RANGES) return fail(p, at, "a class with too many ranges");
        range[n++] = (struct range){lo, hi};
    }
    if (p->at == p->len) return fail(p, begin, "a class without its end");
    p->at++;
    return add_atom(p, negate ? node_class_not(p->g, range, n) : node_class(p->g, range, n), true);
}

// --- repetitions and groups ---

static bool repeat(struct parser *p, int64_t min, int64_t max) {
    struct group *group = &p->group[p->depth];
    if (!p->can_repeat) return fail(p, p->at, "nothing to repeat");
    const struct node *atom = group->seq.node[group->seq.n - 1];
    const bool is_long = min > p->g->expand_max || max > p->g->expand_max;
    const struct node *node = is_long && p->is_single ? node_counted(p->g, atom, min, max)
                                                      : node_repeat(p->g, atom, min, max);
    group->seq.node[group->seq.n - 1] = node;
    p->is_single = false;
    return node != NULL;
}

static bool read_number(struct parser *p, int64_t *out) {
    const size_t begin = p->at;
    *out = 0;
    for (; p->at < p->len && p->text[p->at] >= '0' && p->text[p->at] <= '9'; p->at++)
        if (*out < GRAMMAR_MAX_COUNT) *out = *out * 10 + (p->text[p->at] - '0');
    return p->at > begin;
}

static bool read_bounds(struct parser *p) {
    const size_t begin = p->at++;
    int64_t min = 0, max = -1;
    skip_blanks(p, true);
    const bool has_min = read_number(p, &min);
    skip_blanks(p, true);
    if (p->at < p->len && p->text[p->at] == ',') {
        p->at++;
        skip_blanks(p, true);
        if (!read_number(p, &max)) max = -1;
        skip_blanks(p, true);
    } else {
        if (!has_min) return fail(p, begin, "expected a number of repetitions");
        max = min;
    }
    if (p->at == p->len || p->text[p->at] != '}') return fail(p, p->at, "expected '}'");
    if (max >= 0 && max < min) return fail(p, begin, "a repetition whose end is before its start");
    p->at++;
    return repeat(p, min, max);
}

static bool end_branch(struct parser *p) {
    struct group *group = &p->group[p->depth];
    const struct node *node = node_seq(p->g, group->seq.node, group->seq.n);
    group->seq.n = 0;
    p->can_repeat = false;
    return node_list_add(p->g, &group->alt, node);
}

static bool close_group(struct parser *p) {
    if (p->depth == 0) return fail(p, p->at, "a closing bracket without its opening one");
    p->at++;
    if (!end_branch(p)) return false;
    const struct group *group = &p->group[p->depth--];
    return add_atom(p, node_alt(p->g, group->alt.node, group->alt.n), false);
}

// --- tokens: "<text>", "<[id]>", and any token but this one, "!<text>" ---

// The id of a token; -1: an error.
static int32_t token_id(struct parser *p) {
    const struct constraint_vocab *vocab = p->g->vocab;
    const size_t begin = p->at;
    const bool is_id = p->len - begin > 1 && p->text[begin + 1] == '[';
    int64_t id = -1;
    if (is_id) {
        p->at += 2;
        if (!read_number(p, &id) || p->len - p->at < 2 || memcmp(p->text + p->at, "]>", 2) != 0) {
            fail(p, begin, "expected the number of a token: \"<[1]>\"");
            return -1;
        }
        p->at += 2;
    } else {
        while (p->at < p->len && p->text[p->at] != '>' && p->text[p->at] != '\n') p->at++;
        if (p->at == p->len || p->text[p->at] != '>') {
            fail(p, begin, "expected the text of a token: \"<think>\"");
            return -1;
        }
        p->at++;
        if (vocab) id = vocab_token(vocab, (const char *)p->text + begin, p->at - begin);
    }
    if (vocab && id >= 0 && id < vocab->n_vocab && vocab->token[id].len > 0) return (int32_t)id;
    fail(p, begin, "the vocabulary has no such token");
    return -1;
}

// Text without a string, where the token is no special one.
static bool read_text_without(struct parser *p, const struct constraint_token *token) {
    const struct text_mark mark = {.text = token->data, .len = token->len};
    for (size_t i = 0, n; i < token->len; i += n) {
        n = utf8_length((const uint8_t *)token->data + i, token->len - i);
        if (n == 0) return fail(p, p->at, "a token that is left out has a part of a character");
    }
    const bool some = p->at < p->len && p->text[p->at] == '+';
    if (!some && (p->at == p->len || p->text[p->at] != '*'))
        return fail(p, p->at, "expected * or + behind a token of text that is left out");
    p->at++;
    const struct node *text = node_free_text(p->g, &mark, 1, true, true);
    if (some) text = node_without(p->g, text, node_empty(p->g));
    const bool ok = add_atom(p, text, false);
    p->can_repeat = false;
    return ok;
}

static bool read_token(struct parser *p) {
    struct grammar *g = p->g;
    const struct range all = {0, 0x10FFFF};
    const bool negate = p->text[p->at] == '!';
    p->at += negate;
    if (p->at == p->len || p->text[p->at] != '<') return fail(p, p->at, "expected a token");
    const int32_t id = token_id(p);
    if (id < 0) return false;
    const struct constraint_token *token = &g->vocab->token[id];
    const bool is_special = token->is_special && !token->is_end;
    // a token that ends the text stands for its end
    const struct node *node =
        token->is_end ? node_empty(g) : node_bytes(g, token->data, token->len);
    if (!negate) return add_atom(p, node, false);
    if (!is_special && !token->is_end) return read_text_without(p, token);
    return add_atom(p,
                    node_alt_of(g, node_class(g, &all, 1), node_special_but(g, &node, is_special)),
                    true);
}

static bool read_symbol(struct parser *p) {
    const uint8_t c = p->text[p->at];
    const struct range all = {0, 0x10FFFF};
    switch (c) {
    case '"':
        return read_literal(p);
    case '[':
        return read_class(p);
    case '(':
        if (p->depth == GRAMMAR_MAX_DEPTH) return fail(p, p->at, "groups are nested too deeply");
        p->group[p->depth + 1] = (struct group){.at = p->at++};
        p->depth++;
        p->can_repeat = false;
        return true;
    case ')':
        return close_group(p);
    case '.':
        p->at++;
        return add_atom(p, node_class(p->g, &all, 1), true);
    case '*':
        p->at++;
        return repeat(p, 0, -1);
    case '+':
        p->at++;
        return repeat(p, 1, -1);
    case '?':
        p->at++;
        return repeat(p, 0, 1);
    case '{':
        return read_bounds(p);
    default:
        break;
    }
    if (c == '<' || c == '!') return read_token(p);
    if (!is_name(c)) return fail(p, p->at, "an unexpected character");
    const uint32_t rule = read_name(p);
    return rule != UINT32_MAX && add_atom(p, node_call(p->g, rule), false);
}

static bool read_body(struct parser *p) {
    p->depth = 0;
    p->group[0] = (struct group){.at = p->at};
    p->can_repeat = false;
    skip_blanks(p, true);
    for (;;) {
        skip_blanks(p, p->depth > 0);
        if (p->at == p->len || p->text[p->at] == '\n' || p->text[p->at] == '\r') break;
        if (!grammar_work(p->g, 1)) return false;
        if (p->text[p->at] == '|') {
            p->at++;
            if (!end_branch(p)) return false;
            skip_blanks(p, true);
        } else if (!read_symbol(p)) {
            return false;
        }
    }
    if (p->depth) return fail(p, p->group[p->depth].at, "a group without its end");
    return end_branch(p);
}

static bool read_rule(struct parser *p) {
    const size_t begin = p->at;
    const uint32_t rule = read_name(p);
    if (rule == UINT32_MAX) return false;
    skip_blanks(p, false);
    if (p->len - p->at < 3 || memcmp(p->text + p->at, "::=", 3) != 0)
        return fail(p, p->at, "expected ::=");
    p->at += 3;
    if (p->g->rule[rule].body) return fail(p, begin, "a rule that is defined already");
    if (!read_body(p)) return false;
    const struct group *group = &p->group[0];
    const struct node *body = node_alt(p->g, group->alt.node, group->alt.n);
    grammar_define(p->g, rule, body);
    return body != NULL;
}

// UINT32_MAX: an error.
static uint32_t read_grammar(struct grammar *g, const char *text, size_t len) {
    struct parser *p = grammar_alloc(g, 1, sizeof *p);
    if (!p) return UINT32_MAX;
    *p = (struct parser){.g = g, .text = (const uint8_t *)text, .len = len};
    skip_blanks(p, true);
    while (p->at < len && read_rule(p)) skip_blanks(p, true);
    const uint32_t root = g->status ? UINT32_MAX : rule_named(p, "root", 4);
    if (root != UINT32_MAX && !g->rule[root].body)
        grammar_fail(g, RN_ERR_ARG, "the grammar has no rule \"root\"");
    return g->status ? UINT32_MAX : root;
}

void gbnf_read(struct grammar *g, const char *text, size_t len) {
    g->start = read_grammar(g, text, len);
}

const struct node *gbnf_node(struct grammar *g, const char *text, size_t len) {
    return node_call(g, read_grammar(g, text, len));
}

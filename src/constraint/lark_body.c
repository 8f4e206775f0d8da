// The bodies of rules and terminals. In a rule, ignored text may come before every terminal; a
// terminal is one piece. A rule that starts with itself becomes a loop: "a: a b | c" has the texts
// of "a: c b*".
#include <string.h>

#include "base/utf8.h"
#include "constraint/lark.h"

struct group {
    size_t at;
    uint8_t close; // the bracket that ends it
    struct node_list alt, seq;
};

struct body {
    struct lark *l;
    struct grammar *g;
    struct lark_token token;
    uint32_t self;          // the rule, index + 1; 0: a terminal
    struct node_list again; // what follows the rule itself
    struct group group[GRAMMAR_MAX_DEPTH + 1];
    int depth;
    bool can_repeat, is_single;
};

static bool fail(const struct body *b, const char *what) {
    return source_fail(&b->l->source, b->token.at, "%s", what);
}

static bool next(struct body *b) {
    const struct source *s = &b->l->source;
    return lark_next(s, b->token.end, &b->token);
}

static bool add(struct body *b, const struct node *node, bool is_single) {
    b->can_repeat = true;
    b->is_single = is_single;
    return node_list_add(b->g, &b->group[b->depth].seq, node);
}

// Text of a terminal; in a rule, ignored text may come before it.
static bool add_text(struct body *b, const struct node *node, bool is_single) {
    const struct node *between = b->self ? b->l->between : NULL;
    if (!between) return add(b, node, is_single);
    return node && add(b, node_seq_of(b->g, between, node), false);
}

// --- strings and expressions ---

static bool read_hex(struct body *b, size_t at, size_t end, int n, uint32_t *out) {
    const struct source *s = &b->l->source;
    *out = 0;
    for (int i = 0; i < n; i++) {
        const int digit = at + (size_t)i < end ? hex_digit(s->text[at + (size_t)i]) : -1;
        if (digit < 0) return source_fail(s, at, "expected %d hexadecimal digits", n);
        *out = *out * 16 + (uint32_t)digit;
    }
    if (*out > 0x10FFFF || (*out >= 0xD800 && *out <= 0xDFFF))
        return source_fail(s, at, "not a character of Unicode");
    return true;
}

// The character at *at, before the closing quote at `end`.
static bool read_char(struct body *b, size_t *at, size_t end, uint32_t *out) {
    static const char names[] = "ntrfvab0", values[] = "\n\t\r\f\v\a\b\0";
    const struct source *s = &b->l->source;
    if (s->text[*at] != '\\') {
        const size_t n = source_char(s, *at, out);
        *at += n;
        return n > 0;
    }
    const uint8_t letter = s->text[*at + 1];
    const char *const found = letter ? strchr(names, letter) : NULL;
    const int n = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (n) {
        if (!read_hex(b, *at + 2, end, n, out)) return false;
    } else if (found) {
        *out = (uint8_t)values[found - names];
    } else if (strchr("\\\"'/", letter)) {
        *out = letter;
    } else {
        return source_fail(s, *at, "an unknown escape");
    }
    *at += 2 + (size_t)n;
    return true;
}

static const struct node *char_node(struct body *b, uint32_t cp, bool any_case) {
    const bool is_letter = (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z');
    const struct range range[2] = {{cp, cp}, {cp ^ 0x20, cp ^ 0x20}};
    return b->l->class_node(b->g, range, any_case && is_letter ? 2 : 1);
}

// Literals of the alphabet itself are one node.
static const struct node *string_node(struct body *b, bool *is_single) {
    const struct source *s = &b->l->source;
    const bool any_case = s->text[b->token.end - 1] == 'i';
    const bool is_plain = b->l->class_node == node_class && !any_case;
    const size_t end = b->token.end - 1 - any_case;
    struct node_list list = {0};
    uint8_t *bytes = grammar_alloc(b->g, end - b->token.at, 1);
    size_t n_bytes = 0, n = 0;
    if (!bytes) return NULL;
    for (size_t at = b->token.at + 1; at < end; n++) {
        uint32_t cp;
        if (!read_char(b, &at, end, &cp)) return NULL;
        if (is_plain)
            n_bytes += utf8_encode(cp, bytes + n_bytes);
        else if (!node_list_add(b->g, &list, char_node(b, cp, any_case)))
            return NULL;
    }
    *is_single = n == 1;
    return is_plain ? node_bytes(b->g, bytes, n_bytes) : node_seq(b->g, list.node, list.n);
}

// The one character of a string that is an end of a range.
static bool range_end(struct body *b, uint32_t *out) {
    const struct source *s = &b->l->source;
    size_t at = b->token.at + 1;
    const size_t end = b->token.end - 1;
    if (b->token.word != LARK_STRING || at >= end || s->text[end] != '"' ||
        !read_char(b, &at, end, out) || at != end)
        return fail(b, "expected a range of two characters: \"a\"..\"z\"");
    return true;
}

static bool read_string(struct body *b) {
    const struct lark_token first = b->token;
    struct lark_token behind;
    bool is_single = false;
    if (!lark_next(&b->l->source, b->token.end, &behind)) return false;
    if (behind.word != LARK_RANGE) {
        const struct node *node = string_node(b, &is_single);
        return node && add_text(b, node, is_single);
    }
    struct range range;
    if (!range_end(b, &range.lo)) return false;
    b->token = behind;
    if (!next(b) || !range_end(b, &range.hi)) return false;
    if (range.hi < range.lo)
        return source_fail(&b->l->source, first.at, "a range whose end is before its start");
    return add_text(b, b->l->class_node(b->g, &range, 1), true);
}

static bool read_regexp(struct body *b) {
    const struct source *s = &b->l->source;
    char place[SOURCE_PLACE_BYTES];
    unsigned flags = REGEX_PYTHON;
    size_t end = b->token.end;
    while (s->text[end - 1] != '/') {
        switch (s->text[--end]) {
        case 'i':
            flags |= REGEX_IGNORE_CASE;
            break;
        case 's':
            flags |= REGEX_DOT_ALL;
            break;
        case 'x':
            flags |= REGEX_VERBOSE;
            break;
        case 'm': // anchors stand at the ends alone
        case 'u':
            break;
        default:
            return source_fail(s, end, "the flag \"%c\" is not supported", s->text[end]);
        }
    }
    source_place(s, b->token.at, place);
    const size_t begin = b->token.at + 1;
    const struct node *node = regex_node_with(b->g, (const char *)s->text + begin, end - 1 - begin,
                                              flags, b->l->class_node, place);
    const struct node *text = b->self ? lark_text(b->l, node, "expression", 10) : node;
    return text && add_text(b, text, false);
}

// --- names ---

static bool read_terminal(struct body *b) {
    const struct node *node = lark_terminal(b->l, &b->token);
    if (!node || !b->self) return node && add(b, node, node->kind == NODE_CLASS);
    const char *name = (const char *)b->l->source.text + b->token.at;
    const struct node *text = lark_text(b->l, node, name, b->token.end - b->token.at);
    return text && add_text(b, text, text->kind == NODE_CLASS);
}

static bool read_rule(struct body *b) {
    if (!b->self) return fail(b, "a terminal has no rules in it");
    const struct node *node = lark_rule(b->l, &b->token);
    return node && add(b, node, false);
}

// --- repetitions and groups ---

static bool repeat(struct body *b, int64_t min, int64_t max) {
    struct group *group = &b->group[b->depth];
    if (!b->can_repeat) return fail(b, "nothing to repeat");
    if (max >= 0 && max < min) return fail(b, "a repetition whose end is before its start");
    const struct node *atom = group->seq.node[group->seq.n - 1];
    const bool is_long = min > b->g->expand_max || max > b->g->expand_max;
    const struct node *node = is_long && b->is_single ? node_counted(b->g, atom, min, max)
                                                      : node_repeat(b->g, atom, min, max);
    group->seq.node[group->seq.n - 1] = node;
    b->can_repeat = b->is_single = false;
    return node != NULL;
}

// The number that the body is at.
static bool number_here(struct body *b, int64_t *out) {
    const struct source *s = &b->l->source;
    *out = 0;
    if (b->token.word != LARK_NUMBER) return fail(b, "expected a number of repetitions");
    for (size_t i = b->token.at; i < b->token.end; i++)
        if (*out < GRAMMAR_MAX_COUNT) *out = *out * 10 + (s->text[i] - '0');
    return true;
}

static bool read_number(struct body *b, int64_t *out) { return next(b) && number_here(b, out); }

static bool is_at(const struct body *b, uint8_t mark) {
    return b->token.word == LARK_MARK && b->token.mark == mark;
}

// "{3}", "{1,3}", "{1,}" or "{,3}", as llguidance has them. Other braces are those of templates.
static bool read_braces(struct body *b) {
    const size_t at = b->token.at;
    int64_t min = 0, max;
    if (!next(b)) return false;
    const bool has_min = b->token.word == LARK_NUMBER;
    if (!has_min && !is_at(b, ','))
        return source_fail(&b->l->source, at, "templates are not supported");
    if (has_min && (!number_here(b, &min) || !next(b))) return false;
    max = min;
    if (is_at(b, ',')) {
        if (!next(b)) return false;
        max = -1;
        if (!has_min || !is_at(b, '}'))
            if (!number_here(b, &max) || !next(b)) return false;
    }
    return is_at(b, '}') ? repeat(b, min, max) : fail(b, "expected '}'");
}

// "~ 3" or "~ 1..3"
static bool read_times(struct body *b) {
    struct lark_token behind;
    int64_t min, max;
    if (!read_number(b, &min) || !lark_next(&b->l->source, b->token.end, &behind)) return false;
    max = min;
    if (behind.word == LARK_RANGE) {
        b->token = behind;
        if (!read_number(b, &max)) return false;
    }
    return repeat(b, min, max);
}

// Whether a branch starts with the rule that it belongs to.
static bool starts_with_self(const struct body *b, const struct group *group) {
    if (b->depth || !b->self || group->seq.n == 0) return false;
    const struct node *first = group->seq.node[0];
    return first->kind == NODE_CALL && first->rule == b->self - 1;
}

static bool end_branch(struct body *b) {
    struct group *group = &b->group[b->depth];
    const bool is_again = starts_with_self(b, group);
    const struct node *node =
        node_seq(b->g, is_again ? group->seq.node + 1 : group->seq.node, group->seq.n - is_again);
    group->seq.n = 0;
    b->can_repeat = false;
    return node_list_add(b->g, is_again ? &b->again : &group->alt, node);
}

static bool open_group(struct body *b, uint8_t close) {
    if (b->depth == GRAMMAR_MAX_DEPTH) return fail(b, "groups are nested too deeply");
    b->group[++b->depth] = (struct group){.at = b->token.at, .close = close};
    b->can_repeat = false;
    return true;
}

static bool close_group(struct body *b) {
    if (b->depth == 0 || b->group[b->depth].close != b->token.mark)
        return fail(b, "a closing bracket without its opening one");
    if (!end_branch(b)) return false;
    const struct group *group = &b->group[b->depth--];
    const struct node *node = node_alt(b->g, group->alt.node, group->alt.n);
    return add(b, group->close == ']' ? node_repeat(b->g, node, 0, 1) : node, false);
}

// "-> name" at the end of a branch is for trees.
static bool read_alias(struct body *b) {
    struct lark_token behind;
    if (!next(b)) return false;
    if (b->token.word != LARK_RULE && b->token.word != LARK_TERMINAL)
        return fail(b, "expected the name of an alias");
    if (!lark_next(&b->l->source, b->token.end, &behind)) return false;
    const bool ends = behind.word == LARK_END || behind.word == LARK_LINE ||
                      (behind.word == LARK_MARK && strchr("|)]", behind.mark));
    b->token = ends ? b->token : behind;
    return ends || fail(b, "expected the end of an alternative behind its alias");
}

static bool read_mark(struct body *b) {
    switch (b->token.mark) {
    case '|':
        return end_branch(b);
    case '(':
        return open_group(b, ')');
    case '[':
        return open_group(b, ']');
    case ')':
    case ']':
        return close_group(b);
    case '*':
        return repeat(b, 0, -1);
    case '+':
        return repeat(b, 1, -1);
    case '?':
        return repeat(b, 0, 1);
    case '~':
        return read_times(b);
    case '{':
        return read_braces(b);
    default:
        return fail(b, "an unexpected character");
    }
}

static bool read_word(struct body *b) {
    switch (b->token.word) {
    case LARK_STRING:
        return read_string(b);
    case LARK_REGEXP:
        return read_regexp(b);
    case LARK_RULE:
        return read_rule(b);
    case LARK_TERMINAL:
        return read_terminal(b);
    case LARK_ARROW:
        return read_alias(b);
    case LARK_MARK:
        return read_mark(b);
    case LARK_LINE: // inside of brackets
        return true;
    case LARK_END:
    case LARK_NUMBER:
    case LARK_DIRECTIVE:
    case LARK_RANGE:
        break;
    }
    return fail(b, "an unexpected word");
}

const struct node *lark_body(struct lark *l, size_t at, uint32_t self) {
    struct grammar *g = l->source.g;
    struct body *b = grammar_alloc(g, 1, sizeof *b);
    if (!b) return NULL;
    *b = (struct body){.l = l, .g = g, .token = {.end = at}, .self = self};
    for (;;) {
        if (!next(b)) return NULL;
        const bool is_line = b->token.word == LARK_LINE && b->depth == 0;
        if (is_line || b->token.word == LARK_END) break;
        if (!read_word(b)) return NULL;
    }
    if (b->depth) {
        source_fail(&l->source, b->group[b->depth].at, "a group without its end");
        return NULL;
    }
    if (!end_branch(b)) return NULL;
    const struct node *node = node_alt(g, b->group[0].alt.node, b->group[0].alt.n);
    if (!b->again.n) return node;
    return node_seq_of(g, node, node_repeat(g, node_alt(g, b->again.node, b->again.n), 0, -1));
}

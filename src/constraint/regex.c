// Regular expressions as ECMAScript writes them, for the whole text or for the pattern of a JSON
// Schema. Constructs that no automaton has (lookaround, backreferences) or that are not supported
// are refused with their place. Lazy quantifiers are read as greedy ones: the texts are the same.
#include <string.h>

#include "base/utf8.h"
#include "constraint/front.h"

struct group {
    size_t at;            // offset of its bracket, for messages
    struct node_list alt; // branches that are complete
    struct node_list seq; // the branch so far
    bool starts, ends;    // the branch has ^ or $
};

struct parser {
    struct grammar *g;
    const uint8_t *text;
    size_t len, at;
    size_t begin;   // of the part that is read
    unsigned flags; // REGEX_*
    regex_class_fn class_node;
    const char *place;
    struct group group[GRAMMAR_MAX_DEPTH + 1];
    int depth;
    bool can_repeat; // the last part of the branch is an atom
    bool is_single;  // and one character
};

static bool fail(struct parser *p, size_t at, const char *what) {
    grammar_fail(p->g, RN_ERR_ARG, "%soffset %zu: %s", p->place, at, what);
    return false;
}

// --- characters and classes ---

enum { MAX_RANGES = 512 };

struct class { // too large to be cleared for each character
    struct range range[MAX_RANGES];
    size_t n;
};

static bool class_add(struct parser *p, struct class *class, uint32_t lo, uint32_t hi) {
    if (class->n == MAX_RANGES) return fail(p, p->at, "a class with too many ranges");
    class->range[class->n++] = (struct range){lo, hi};
    return true;
}

static const struct range digits[] = {{'0', '9'}};
static const struct range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct range spaces[] = {{9, 13},          {32, 32},         {0xA0, 0xA0},
                                      {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                      {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
                                      {0xFEFF, 0xFEFF}};
static const struct range lines[] = {{10, 10}, {13, 13}, {0x2028, 0x2029}};

static bool class_add_all(struct parser *p, struct class *class, const struct range *range,
                          size_t n, bool negate) {
    uint32_t from = 0;
    for (size_t i = 0; i < n; i++) {
        if (!negate && !class_add(p, class, range[i].lo, range[i].hi)) return false;
        if (negate && range[i].lo > from && !class_add(p, class, from, range[i].lo - 1))
            return false;
        from = range[i].hi + 1;
    }
    return !negate || class_add(p, class, from, 0x10FFFF);
}

// \d and its like; false where the letter is none of them.
static bool class_escape(struct parser *p, uint8_t letter, struct class *class) {
    switch (letter) {
    case 'd':
    case 'D':
        return class_add_all(p, class, digits, 1, letter == 'D');
    case 'w':
    case 'W':
        return class_add_all(p, class, words, 4, letter == 'W');
    case 's':
    case 'S':
        return class_add_all(p, class, spaces, sizeof spaces / sizeof *spaces, letter == 'S');
    default:
        return false;
    }
}

static bool code_point(struct parser *p, uint32_t *out) {
    const size_t n = utf8_length(p->text + p->at, p->len - p->at);
    if (n == 0) return fail(p, p->at, "bytes that are not UTF-8");
    *out = utf8_decode(p->text + p->at, n);
    p->at += n;
    return true;
}

// n digits at p->at, or up to a closing brace where n is 0.
static bool hex_value(struct parser *p, int n, uint32_t *out) {
    const size_t begin = p->at;
    *out = 0;
    for (int i = 0; n == 0 ? i < 6 : i < n; i++) {
        const int digit = p->at < p->len ? hex_digit(p->text[p->at]) : -1;
        if (digit < 0 && n == 0 && i > 0) break;
        if (digit < 0) return fail(p, begin, "expected hexadecimal digits");
        *out = *out * 16 + (uint32_t)digit;
        p->at++;
    }
    if (n == 0 && (p->at == p->len || p->text[p->at++] != '}'))
        return fail(p, begin, "expected '}' behind the digits");
    if (*out > 0x10FFFF) return fail(p, begin, "a code point past U+10FFFF");
    return true;
}

static bool unicode_escape(struct parser *p, uint32_t *out) {
    const size_t begin = p->at;
    if (p->at < p->len && p->text[p->at] == '{') {
        p->at++;
        return hex_value(p, 0, out);
    }
    if (!hex_value(p, 4, out)) return false;
    if (*out >= 0xD800 && *out <= 0xDBFF && p->at + 1 < p->len && p->text[p->at] == '\\' &&
        p->text[p->at + 1] == 'u') { // a pair
        uint32_t low;
        p->at += 2;
        if (!hex_value(p, 4, &low)) return false;
        if (low < 0xDC00 || low > 0xDFFF) return fail(p, begin, "half of a surrogate pair");
        *out = 0x10000 + ((*out - 0xD800) << 10) + (low - 0xDC00);
    }
    if (*out >= 0xD800 && *out <= 0xDFFF) return fail(p, begin, "half of a surrogate pair");
    return true;
}

// The character of an escape that is no class; p->at is behind the letter.
static bool char_escape(struct parser *p, uint8_t letter, bool in_class, uint32_t *out) {
    static const char names[] = "tnvfr", values[] = "\t\n\v\f\r";
    const char *name = letter ? strchr(names, letter) : NULL;
    if (name) {
        *out = (uint8_t)values[name - names];
        return true;
    }
    const size_t at = p->at - 2;
    const bool digit_follows = p->at < p->len && p->text[p->at] >= '0' && p->text[p->at] <= '9';
    if (letter == '0' && !digit_follows) {
        *out = 0;
        return true;
    }
    if (letter == 'b' && in_class) {
        *out = 8;
        return true;
    }
    if (letter == 'x') return hex_value(p, 2, out);
    if (letter == 'u') return unicode_escape(p, out);
    if (letter == 'b' || letter == 'B') return fail(p, at, "word boundaries are not supported");
    if (letter >= '0' && letter <= '9') return fail(p, at, "backreferences are not supported");
    if (letter == 'k') return fail(p, at, "backreferences are not supported");
    if (letter == 'p' || letter == 'P')
        return fail(p, at, "classes by Unicode property are not supported");
    if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'))
        return fail(p, at, "an unknown escape");
    p->at--;
    return code_point(p, out);
}

// One end of a range, or a class such as \d: then *is_class.
static bool class_item(struct parser *p, struct class *class, uint32_t *out, bool *is_class) {
    *is_class = false;
    if (p->text[p->at] != '\\') return code_point(p, out);
    if (++p->at == p->len) return fail(p, p->at - 1, "a backslash at the end");
    const uint8_t letter = p->text[p->at++];
    *is_class = class_escape(p, letter, class);
    if (p->g->status) return false;
    return *is_class || char_escape(p, letter, true, out);
}

// Adds the other case of ASCII letters.
static bool class_fold(struct parser *p, struct class *class) {
    if (!(p->flags & REGEX_IGNORE_CASE)) return true;
    static const struct range letters[2] = {{'A', 'Z'}, {'a', 'z'}};
    for (size_t i = 0, n = class->n; i < n; i++) {
        for (int upper = 0; upper < 2; upper++) {
            const struct range *of = &letters[upper], r = class->range[i];
            const uint32_t lo = r.lo > of->lo ? r.lo : of->lo, hi = r.hi < of->hi ? r.hi : of->hi;
            if (lo <= hi && !class_add(p, class, lo ^ 0x20, hi ^ 0x20)) return false;
        }
    }
    return true;
}

static const struct node *class_node(struct parser *p, struct class *class) {
    return class_fold(p, class) ? p->class_node(p->g, class->range, class->n) : NULL;
}

static const struct node *read_class(struct parser *p) {
    const size_t begin = p->at++;
    struct class class;
    class.n = 0;
    const bool negate = p->at < p->len && p->text[p->at] == '^';
    p->at += negate;
    while (p->at < p->len && p->text[p->at] != ']') {
        uint32_t lo = 0, hi = 0;
        bool lo_class, hi_class = false;
        const size_t at = p->at;
        if (!grammar_work(p->g, 1) || !class_item(p, &class, &lo, &lo_class)) return NULL;
        const bool is_range =
            p->at + 1 < p->len && p->text[p->at] == '-' && p->text[p->at + 1] != ']';
        hi = lo;
        if (is_range) {
            p->at++;
            if (!class_item(p, &class, &hi, &hi_class)) return NULL;
            if (lo_class || hi_class) { // as without the flag "u": the minus is a character
                if (!class_add(p, &class, '-', '-')) return NULL;
                if (!hi_class && !class_add(p, &class, hi, hi)) return NULL;
                if (hi_class) hi = lo;
            } else if (hi < lo) {
                fail(p, at, "a range whose end is before its start");
                return NULL;
            }
        }
        if (!lo_class && !class_add(p, &class, lo, hi)) return NULL;
    }
    if (p->at == p->len) {
        fail(p, begin, "a class without its end");
        return NULL;
    }
    p->at++;
    if (!negate) return class_node(p, &class);
    if (!class_fold(p, &class)) return NULL;
    const struct node *rest = node_class_not(p->g, class.range, class.n);
    if (!rest || rest->kind == NODE_NEVER) return rest;
    return p->class_node(p->g, rest->range, rest->n);
}

static const struct node *any_text(struct parser *p) {
    const struct range all = {0, 0x10FFFF};
    return node_repeat(p->g, p->class_node(p->g, &all, 1), 0, -1);
}

// --- atoms and quantifiers ---

static bool add_atom(struct parser *p, const struct node *node, bool is_single) {
    struct group *group = &p->group[p->depth];
    if (group->ends) return fail(p, p->begin, "text behind the anchor '$'");
    p->can_repeat = true;
    p->is_single = is_single;
    return node_list_add(p->g, &group->seq, node);
}

static bool add_char(struct parser *p, uint32_t cp) {
    struct class class;
    class.range[0] = (struct range){cp, cp};
    class.n = 1;
    return add_atom(p, class_node(p, &class), true);
}

static bool read_escape(struct parser *p) {
    if (++p->at == p->len) return fail(p, p->at - 1, "a backslash at the end");
    const uint8_t letter = p->text[p->at++];
    struct class class;
    class.n = 0;
    if (class_escape(p, letter, &class)) {
        return add_atom(p, class_node(p, &class), true);
    }
    uint32_t cp;
    return char_escape(p, letter, false, &cp) && add_char(p, cp);
}

// "{2}", "{2,}", "{2,5}"; other braces are text.
static bool read_bounds(const struct parser *p, int64_t *min, int64_t *max, size_t *len) {
    size_t at = p->at + 1;
    int64_t value[2] = {0, -1};
    int n = 0;
    for (;;) {
        const size_t begin = at;
        int64_t v = 0;
        for (; at < p->len && p->text[at] >= '0' && p->text[at] <= '9'; at++)
            if (v < GRAMMAR_MAX_COUNT) v = v * 10 + (p->text[at] - '0');
        const bool is_open = (p->flags & REGEX_PYTHON) && at < p->len && p->text[at] == ',';
        if (at == begin && n == 0 && !is_open) return false;
        if (at > begin) value[n] = v;
        if (at == p->len) return false;
        if (p->text[at] == '}') break;
        if (p->text[at] != ',' || n == 1) return false;
        at++;
        n = 1;
    }
    *min = value[0];
    *max = n ? value[1] : value[0];
    *len = at + 1 - p->at;
    return true;
}

static bool read_quantifier(struct parser *p, int64_t min, int64_t max, size_t len) {
    const size_t begin = p->at;
    struct group *group = &p->group[p->depth];
    if (!p->can_repeat) return fail(p, begin, "nothing to repeat");
    if (max >= 0 && max < min) return fail(p, begin, "a repetition whose end is before its start");
    p->at += len;
    if (p->at < p->len && p->text[p->at] == '?') p->at++; // lazy
    const struct node *atom = group->seq.node[group->seq.n - 1];
    const bool is_long = min > p->g->expand_max || max > p->g->expand_max;
    const struct node *node = is_long && p->is_single ? node_counted(p->g, atom, min, max)
                                                      : node_repeat(p->g, atom, min, max);
    if (!node && !p->g->status) return false;
    group->seq.node[group->seq.n - 1] = node;
    p->can_repeat = false;
    return node != NULL;
}

// --- groups ---

static bool end_branch(struct parser *p) {
    struct group *group = &p->group[p->depth];
    const struct node *node = node_seq(p->g, group->seq.node, group->seq.n);
    if (p->depth == 0 && (p->flags & REGEX_SEARCH)) {
        const struct node *empty = node_empty(p->g), *any = any_text(p);
        node = node_seq_of(p->g, group->starts ? empty : any, node, group->ends ? empty : any);
    }
    group->seq.n = 0;
    group->starts = group->ends = false;
    p->can_repeat = false;
    return node_list_add(p->g, &group->alt, node);
}

static bool open_group(struct parser *p) {
    const size_t begin = p->at++;
    if (p->at < p->len && p->text[p->at] == '?') {
        const uint8_t kind = p->at + 1 < p->len ? p->text[p->at + 1] : 0;
        const uint8_t next = p->at + 2 < p->len ? p->text[p->at + 2] : 0;
        if (kind == '=' || kind == '!' || (kind == '<' && (next == '=' || next == '!')))
            return fail(p, begin, "lookaround is not supported");
        if (kind == ':') {
            p->at += 2;
        } else if (kind == '<' || (kind == 'P' && next == '<')) {
            while (p->at < p->len && p->text[p->at] != '>') p->at++;
            if (p->at++ == p->len) return fail(p, begin, "a group name without its end");
        } else {
            return fail(p, begin, "this kind of group is not supported");
        }
    }
    if (p->group[p->depth].ends) return fail(p, begin, "text behind the anchor '$'");
    if (p->depth == GRAMMAR_MAX_DEPTH) return fail(p, begin, "groups are nested too deeply");
    p->group[++p->depth] = (struct group){.at = begin};
    p->can_repeat = false;
    return true;
}

static bool close_group(struct parser *p) {
    if (p->depth == 0) return fail(p, p->at, "a closing bracket without its opening one");
    p->at++;
    if (!end_branch(p)) return false;
    const struct group *group = &p->group[p->depth--];
    return add_atom(p, node_alt(p->g, group->alt.node, group->alt.n), false);
}

static bool read_anchor(struct parser *p, bool is_start) {
    struct group *group = &p->group[p->depth];
    if (p->depth) return fail(p, p->at, "an anchor inside a group is not supported");
    if (is_start && group->seq.n) return fail(p, p->at, "the anchor '^' behind text");
    if (is_start)
        group->starts = true;
    else
        group->ends = true;
    p->at++;
    p->can_repeat = false;
    return true;
}

static bool read_next(struct parser *p) {
    int64_t min, max;
    size_t len;
    uint32_t cp;
    p->begin = p->at;
    switch (p->text[p->at]) {
    case '(':
        return open_group(p);
    case ')':
        return close_group(p);
    case '|':
        p->at++;
        return end_branch(p);
    case '^':
    case '$':
        return read_anchor(p, p->text[p->at] == '^');
    case '*':
        return read_quantifier(p, 0, -1, 1);
    case '+':
        return read_quantifier(p, 1, -1, 1);
    case '?':
        return read_quantifier(p, 0, 1, 1);
    case '{':
        if (read_bounds(p, &min, &max, &len)) return read_quantifier(p, min, max, len);
        break;
    case '.': {
        struct class class;
        class.n = 0;
        p->at++;
        return class_add_all(p, &class, lines, p->flags & REGEX_DOT_ALL ? 0 : 3, true) &&
               add_atom(p, class_node(p, &class), true);
    }
    case '[': {
        const struct node *node = read_class(p);
        return node && add_atom(p, node, true);
    }
    case '\\':
        return read_escape(p);
    default:
        break;
    }
    return code_point(p, &cp) && add_char(p, cp);
}

// Blanks and comments of an expression that is written with them.
static bool skip_verbose(struct parser *p) {
    const uint8_t c = p->text[p->at];
    if (!(p->flags & REGEX_VERBOSE)) return false;
    if (c == '#')
        while (p->at < p->len && p->text[p->at] != '\n') p->at++;
    else if (c == ' ' || (c >= '\t' && c <= '\r'))
        p->at++;
    else
        return false;
    return true;
}

const struct node *regex_node_with(struct grammar *g, const char *text, size_t len, unsigned flags,
                                   regex_class_fn class, const char *place) {
    struct parser *p = grammar_alloc(g, 1, sizeof *p);
    if (!p) return NULL;
    *p = (struct parser){.g = g,
                         .text = (const uint8_t *)text,
                         .len = len,
                         .flags = flags,
                         .class_node = class,
                         .place = place};
    while (p->at < len)
        if (!grammar_work(g, 1) || (!skip_verbose(p) && !read_next(p))) return NULL;
    if (p->depth) {
        fail(p, p->group[p->depth].at, "a group without its end");
        return NULL;
    }
    if (!end_branch(p)) return NULL;
    return node_alt(g, p->group[0].alt.node, p->group[0].alt.n);
}

const struct node *regex_node(struct grammar *g, const char *text, size_t len, bool is_search,
                              regex_class_fn class, const char *place) {
    return regex_node_with(g, text, len, is_search ? REGEX_SEARCH : 0, class, place);
}

void regex_read(struct grammar *g, const char *text, size_t len) {
    g->start = grammar_rule(g, "root", 4);
    grammar_define(g, g->start, regex_node(g, text, len, false, node_class, ""));
}

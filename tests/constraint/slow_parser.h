// A slow parser that tries everything, and random grammars as trees for it: GBNF's and Lark's.
#ifndef RN_TESTS_CONSTRAINT_SLOW_PARSER_H
#define RN_TESTS_CONSTRAINT_SLOW_PARSER_H

#include "kit.h"

static const char *const pieces[] = {"a",  "b",   "ab",       "ba", "c",  "(", ")",
                                     "()", "aab", "\xc3\xa9", "x",  "(a", "b)"};
enum { N_PIECES = sizeof pieces / sizeof *pieces };

// --- random grammars as trees ---

enum kind { LITERAL, CLASS, SEQ, ALT, REPEAT, CALL, TERMINAL };
struct tree {
    enum kind kind;
    const char *text; // LITERAL; CLASS: its characters, without brackets
    bool negate;
    int min, max; // max -1: no limit
    int rule;     // of a CALL or a TERMINAL
    struct tree *part[4];
    int n;
};
enum { N_RULES = 4, N_TERMINALS = 2, MAX_TREES = 4000, MAX_TEXT = 60 };
static struct tree pool[MAX_TREES];
static int n_pool;
static struct tree *rules[N_RULES];
// Lark's: terminals, which have no calls in them, and a character that may come before each
static struct tree *terminals[N_TERMINALS];
static char ignored; // 0: none

static struct tree *tree_new(enum kind kind) {
    check(n_pool < MAX_TREES, "trees");
    pool[n_pool] = (struct tree){.kind = kind};
    return &pool[n_pool++];
}

// is_rule: it may call rules; has_terminals: and terminals.
static struct tree *random_tree(int depth, bool is_rule, bool has_terminals) {
    static const char *const literals[] = {"a", "b", "(", ")", "ab", "\xc3\xa9", "x", "aab", ""};
    static const char *const classes[] = {"ab", "a", "x\xc3\xa9", "()"};
    const int pick = depth == 0 ? kit_below(3) : kit_below(8);
    struct tree *t;
    if (pick == 0 || pick == 7) {
        t = tree_new(CLASS);
        t->text = classes[kit_below(4)];
        t->negate = kit_below(4) == 0;
    } else if (pick == 1) {
        t = tree_new(LITERAL);
        t->text = literals[kit_below(9)];
    } else if (pick == 2 && is_rule && has_terminals && kit_below(2)) {
        t = tree_new(TERMINAL);
        t->rule = kit_below(N_TERMINALS);
    } else if (pick == 2 && is_rule) {
        t = tree_new(CALL);
        t->rule = kit_below(N_RULES);
    } else if (pick == 2) {
        t = tree_new(LITERAL);
        t->text = "b";
    } else if (pick == 3 || pick == 4) {
        t = tree_new(SEQ);
        t->n = 2 + kit_below(2);
    } else if (pick == 5) {
        t = tree_new(ALT);
        t->n = 2 + kit_below(2);
    } else {
        t = tree_new(REPEAT);
        t->n = 1;
        t->min = kit_below(3);
        t->max = kit_below(3) ? -1 : t->min + kit_below(3);
    }
    for (int i = 0; i < t->n; i++) t->part[i] = random_tree(depth - 1, is_rule, has_terminals);
    return t;
}

// --- the slow parser: the set of ends from a place, as bits ---

static const char *subject;
static int subject_len;
static uint64_t known[N_RULES][MAX_TEXT + 1];
static bool is_known[N_RULES][MAX_TEXT + 1];
static bool is_inside; // of a terminal: nothing is ignored
static bool is_greedy; // a terminal does not end before a character that makes it longer

static uint64_t ends(const struct tree *t, int at);

static uint64_t ends_of_all(const struct tree *t, uint64_t from) {
    uint64_t all = 0;
    for (int at = 0; at <= subject_len; at++)
        if (from >> at & 1) all |= ends(t, at);
    return all;
}

static int char_length(const char *text) {
    const uint8_t c = (uint8_t)*text;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

static uint64_t class_ends(const struct tree *t, int at) {
    if (at == subject_len) return 0;
    const int n = char_length(subject + at);
    bool found = false;
    for (const char *c = t->text; *c; c += char_length(c))
        found |= char_length(c) == n && memcmp(c, subject + at, (size_t)n) == 0;
    return found != t->negate ? UINT64_C(1) << (at + n) : 0;
}

static uint64_t longest_ends(uint64_t all) {
    for (int at = 0; at < subject_len; at++)
        if ((uint8_t)subject[at] < 0x80 && (all >> (at + 1) & 1)) all &= ~(UINT64_C(1) << at);
    return all;
}

// Behind a terminal that starts here, or behind ignored characters.
static uint64_t ends_ignoring(const struct tree *t, int at) {
    uint64_t all = 0;
    const bool was_inside = is_inside;
    is_inside = true;
    do all |= is_greedy ? longest_ends(ends(t, at)) : ends(t, at);
    while (!was_inside && ignored && at < subject_len && subject[at++] == ignored);
    is_inside = was_inside;
    return all;
}

static uint64_t ends(const struct tree *t, int at) {
    uint64_t all = UINT64_C(1) << at;
    if (!is_inside && ignored && (t->kind == LITERAL || t->kind == CLASS))
        return ends_ignoring(t, at);
    const int len = t->text ? (int)strlen(t->text) : 0;
    switch (t->kind) {
    case LITERAL:
        return at + len <= subject_len && memcmp(subject + at, t->text, (size_t)len) == 0
                   ? UINT64_C(1) << (at + len)
                   : 0;
    case CLASS:
        return class_ends(t, at);
    case SEQ:
        for (int i = 0; i < t->n; i++) all = ends_of_all(t->part[i], all);
        return all;
    case ALT:
        all = 0;
        for (int i = 0; i < t->n; i++) all |= ends(t->part[i], at);
        return all;
    case REPEAT: {
        for (int i = 0; i < t->min; i++) all = ends_of_all(t->part[0], all);
        uint64_t reached = all;
        for (int i = t->min; t->max < 0 ? true : i < t->max; i++) {
            all = ends_of_all(t->part[0], all) & ~reached;
            if (!all) break;
            reached |= all;
        }
        return reached;
    }
    case TERMINAL:
        return ends_ignoring(terminals[t->rule], at);
    case CALL:
        if (!is_known[t->rule][at]) {
            is_known[t->rule][at] = true; // a rule that starts with itself uses what was known
            known[t->rule][at] |= ends(rules[t->rule], at);
        }
        return known[t->rule][at];
    }
    return 0;
}

static bool slow_accepts(const char *text, size_t len) {
    subject = text;
    subject_len = (int)len;
    memset(known, 0, sizeof known);
    for (;;) { // until nothing new is found
        static uint64_t before[N_RULES][MAX_TEXT + 1];
        memcpy(before, known, sizeof known);
        memset(is_known, 0, sizeof is_known);
        const bool found = ends(rules[0], 0) >> len & 1;
        if (memcmp(before, known, sizeof known) == 0) return found;
    }
}

// A text of the pieces; its length.
static inline size_t random_subject(char out[MAX_TEXT + 8]) {
    size_t len = 0;
    for (int k = kit_below(8); k > 0; k--) {
        const char *piece = pieces[kit_below(N_PIECES)];
        memcpy(out + len, piece, strlen(piece));
        len += strlen(piece);
    }
    return len;
}

static inline bool ambiguous(struct constraint_run *run) {
    return constraint_failure(run, 0) && strstr(constraint_failure(run, 0), "ambiguous");
}

static inline bool slow_accepts_as(bool greedy, const char *text, size_t len) {
    is_greedy = greedy;
    const bool found = slow_accepts(text, len);
    is_greedy = false;
    return found;
}

// Random texts and sampled ones; what they were is counted. A terminal that could never end where
// it stands is not greedy there, so texts that greedy terminals alone exclude may be accepted.
struct slow_counts {
    int tried, yes, no, sampled;
    int excluded, not_excluded; // by greedy terminals
};
static inline void slow_compare(struct constraint *c, const char *text,
                                struct slow_counts *counts) {
    counts->tried++;
    for (int i = 0; i < 30; i++) {
        char subject_text[MAX_TEXT + 8];
        const size_t len = random_subject(subject_text);
        const bool want = slow_accepts_as(true, subject_text, len);
        const bool may = slow_accepts_as(false, subject_text, len);
        struct constraint_run *run;
        check(!constraint_open(c, 1, &run, NULL), "open");
        const bool got = constraint_feed(run, 0, subject_text, len) && constraint_may_end(run, 0);
        check((got ? may : !want) || ambiguous(run), "%s\"%.*s\": expected %d", text, (int)len,
              subject_text, want);
        if (may && !want) *(got ? &counts->not_excluded : &counts->excluded) += 1;
        constraint_close(run);
        *(want ? &counts->yes : &counts->no) += 1;
    }
    for (int i = 0; i < 3; i++) {
        char sample[256];
        size_t len;
        if (!kit_sample(c, sample, 50, &len, 10)) continue;
        check(slow_accepts(sample, len), "%sgave \"%.*s\"", text, (int)len, sample);
        counts->sampled++;
    }
}

#endif

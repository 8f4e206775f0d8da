// GBNF against a slow parser that tries everything: random grammars, random texts, sampled texts.
// The same grammars check masks against their definition, and rollback against replay.
#include "constraint/front.h"
#include "constraint/matcher.h"
#include "kit.h"

static const char *const pieces[] = {"a",  "b",   "ab",       "ba", "c",  "(", ")",
                                     "()", "aab", "\xc3\xa9", "x",  "(a", "b)"};
enum { N_PIECES = sizeof pieces / sizeof *pieces };

// --- random grammars as trees ---

enum kind { LITERAL, CLASS, SEQ, ALT, REPEAT, CALL };
struct tree {
    enum kind kind;
    const char *text; // LITERAL; CLASS: its characters, without brackets
    bool negate;
    int min, max; // max -1: no limit
    int rule;
    struct tree *part[4];
    int n;
};
enum { N_RULES = 4, MAX_TREES = 4000, MAX_TEXT = 60 };
static struct tree pool[MAX_TREES];
static int n_pool;
static struct tree *rules[N_RULES];

static struct tree *tree_new(enum kind kind) {
    check(n_pool < MAX_TREES, "trees");
    pool[n_pool] = (struct tree){.kind = kind};
    return &pool[n_pool++];
}

static struct tree *random_tree(int depth) {
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
    } else if (pick == 2) {
        t = tree_new(CALL);
        t->rule = kit_below(N_RULES);
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
    for (int i = 0; i < t->n; i++) t->part[i] = random_tree(depth - 1);
    return t;
}

static void print_tree(const struct tree *t, char *out) {
    switch (t->kind) {
    case LITERAL:
        sprintf(out + strlen(out), "\"%s\" ", t->text);
        break;
    case CLASS:
        sprintf(out + strlen(out), "[%s%s] ", t->negate ? "^" : "", t->text);
        break;
    case CALL:
        sprintf(out + strlen(out), t->rule ? "r%d " : "root ", t->rule);
        break;
    case SEQ:
    case ALT:
        strcat(out, "(");
        for (int i = 0; i < t->n; i++) {
            if (i && t->kind == ALT) strcat(out, "|\n ");
            print_tree(t->part[i], out);
        }
        strcat(out, ") ");
        break;
    case REPEAT:
        strcat(out, "(");
        print_tree(t->part[0], out);
        strcat(out, ")");
        if (t->max < 0)
            sprintf(out + strlen(out), t->min == 0 ? "* " : t->min == 1 ? "+ " : "{%d,} ", t->min);
        else
            sprintf(out + strlen(out), "{%d,%d} ", t->min, t->max);
        break;
    }
}

// --- the slow parser: the set of ends from a place, as bits ---

static const char *subject;
static int subject_len;
static uint64_t known[N_RULES][MAX_TEXT + 1];
static bool is_known[N_RULES][MAX_TEXT + 1];

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

static uint64_t ends(const struct tree *t, int at) {
    uint64_t all = UINT64_C(1) << at;
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
    case CALL:
        if (!is_known[t->rule][at]) {
            is_known[t->rule][at] = true; // left recursion was refused, so nothing asks meanwhile
            known[t->rule][at] = ends(rules[t->rule], at);
        }
        return known[t->rule][at];
    }
    return 0;
}

static bool slow_accepts(const char *text, size_t len) {
    subject = text;
    subject_len = (int)len;
    memset(is_known, 0, sizeof is_known);
    return ends(rules[0], 0) >> len & 1;
}

// A random grammar that compiles; NULL: it did not.
static struct constraint *random_grammar(char *text) {
    n_pool = 0;
    text[0] = 0;
    for (int i = 0; i < N_RULES; i++) {
        rules[i] = random_tree(3);
        sprintf(text + strlen(text), i ? "r%d ::= " : "root ::= ", i);
        print_tree(rules[i], text);
        strcat(text, " # a rule\n");
    }
    struct constraint *c;
    rn_error err = {0};
    if (!constraint_compile(kit_vocab, CONSTRAINT_GRAMMAR, text, strlen(text), NULL, &c, &err))
        return c;
    check(strstr(err.message, "starts with itself") || strstr(err.message, "allows no text"),
          "%s: %s", text, err.message);
    return NULL;
}

static bool ambiguous(struct constraint_run *run) {
    return constraint_failure(run, 0) && strstr(constraint_failure(run, 0), "ambiguous");
}

CASE(random_grammars_accept_the_texts_that_a_slow_parser_accepts) {
    static char text[20000];
    int tried = 0, yes = 0, no = 0, sampled = 0;
    const int n = test_scale(200, 600, 20000);
    for (int round = 0; round < n; round++) {
        struct constraint *c = random_grammar(text);
        if (!c) continue;
        tried++;
        for (int i = 0; i < 30; i++) {
            char subject_text[MAX_TEXT + 8];
            size_t len = 0;
            for (int k = kit_below(8); k > 0; k--) {
                const char *piece = pieces[kit_below(N_PIECES)];
                memcpy(subject_text + len, piece, strlen(piece));
                len += strlen(piece);
            }
            const bool want = slow_accepts(subject_text, len);
            struct constraint_run *run;
            check(!constraint_open(c, 1, &run, NULL), "open");
            const bool got =
                constraint_feed(run, 0, subject_text, len) && constraint_may_end(run, 0);
            check(got == want || ambiguous(run), "%s\"%.*s\": expected %d", text, (int)len,
                  subject_text, want);
            constraint_close(run);
            *(want ? &yes : &no) += 1;
        }
        for (int i = 0; i < 3; i++) {
            char sample[256];
            size_t len;
            if (!kit_sample(c, sample, 50, &len, 10)) continue;
            check(slow_accepts(sample, len), "%sgave \"%.*s\"", text, (int)len, sample);
            sampled++;
        }
        constraint_release(c);
    }
    check(tried > n / 4 && yes > n / 4 && no > n && sampled > n / 4, "%d, %d, %d, %d of %d", tried,
          yes, no, sampled, n);
}

CASE(masks_of_random_grammars_are_exact_and_rollback_is_replay) {
    static char text[20000];
    const int n = test_scale(30, 120, 4000);
    for (int round = 0; round < n; round++) {
        struct constraint *c = random_grammar(text);
        if (!c) continue;
        struct constraint_run *run, *replay;
        check(!constraint_open(c, 1, &run, NULL), "open");
        const rn_constraint hook = constraint_hook(run);
        int32_t token[64];
        int n_token = 0;
        for (int step = 0; step < 24 && !ambiguous(run); step++) {
            uint64_t bits[(KIT_MAX_TOKENS + 63) / 64];
            memset(bits, 0xff, sizeof bits);
            hook.mask(hook.ctx, 0, bits, kit.n);
            if (ambiguous(run)) break;
            if (step % 3 == 0) kit_check_mask(run, text);
            int found = 0, pick = -1;
            for (int i = 0; i < kit.n - kit.n_end; i++)
                if (kit_has(bits, i) && kit_below(++found) == 0) pick = i;
            if (pick < 0 || kit_below(4) == 0) { // back by some tokens
                const int back = kit_below(n_token + 1);
                hook.rollback(hook.ctx, 0, back);
                n_token -= back;
            } else {
                hook.advance(hook.ctx, 0, pick);
                token[n_token++] = pick;
            }
            // the same tokens in another run
            check(!constraint_open(c, 1, &replay, NULL), "open");
            const rn_constraint other = constraint_hook(replay);
            for (int i = 0; i < n_token; i++) other.advance(other.ctx, 0, token[i]);
            uint64_t want[(KIT_MAX_TOKENS + 63) / 64];
            memset(bits, 0xff, sizeof bits);
            memset(want, 0xff, sizeof want);
            hook.mask(hook.ctx, 0, bits, kit.n);
            other.mask(other.ctx, 0, want, kit.n);
            check(memcmp(bits, want, (size_t)(kit.n / 64) * 8) == 0, "%s: step %d", text, step);
            constraint_close(replay);
        }
        constraint_close(run);
        constraint_release(c);
    }
}

// The loop of the root is wide, and tokens leave it by two calls.
CASE(masks_of_wide_states_follow_each_way_out) {
    struct constraint *c = kit_compile(
        CONSTRAINT_GRAMMAR,
        "root ::= ([^()] | \"(\" r1 \")\" | \")\" r2 \"x\")*\nr1 ::= [a]*\nr2 ::= [b] [b]?\n");
    struct constraint_run *run;
    check(!constraint_open(c, 1, &run, NULL), "open");
    static const char *const steps[] = {"", "ab", "(", "a", ")c", ")", "b", "x"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        check(constraint_feed(run, 0, steps[i], strlen(steps[i])), "%s", steps[i]);
        kit_check_mask(run, steps[i]);
    }
    constraint_close(run);
    constraint_release(c);
}

// Behind the counted text comes a rule that may be empty.
CASE(masks_of_counted_text_see_behind_empty_rules) {
    struct constraint *c =
        kit_compile(CONSTRAINT_GRAMMAR,
                    "root ::= \"x\" [^x]{40,60} r1 \"x\" \"a\"*\nr1 ::= \"\\n\"?\n");
    struct constraint_run *run;
    check(!constraint_open(c, 1, &run, NULL) && constraint_feed(run, 0, "x", 1), "open");
    for (int n = 0; n <= 60; n++) {
        kit_check_mask(run, "counted");
        if (n < 60) check(constraint_feed(run, 0, "a", 1), "%d", n);
    }
    constraint_close(run);
    constraint_release(c);
}

// Counted text, whose masks are kept by the frame to return to.
static const char counted_grammar[] =
    "root ::= r1* \"x\"\nr1 ::= \"(\" r2 \")\" | \"a\" r1 \"b\"\nr2 ::= r3\n"
    "r3 ::= [^()]{1,900} | r1 [^()]{2,1000}\n";

struct machinery {
    struct grammar g;
    struct machine machine;
    struct share *share[2 * N_RULES];
};

// A matcher that drops its unused frames all the time, and another one that never does.
CASE(collections_change_nothing) {
    static char text[20000];
    const int n = test_scale(20, 60, 1200);
    for (int round = 0; round < n; round++) {
        struct constraint *c = random_grammar(text);
        if (!c) continue;
        constraint_release(c);
        if (round % 4 == 0) strcpy(text, counted_grammar);
        struct machinery k;
        grammar_init(&k.g, 10000000, 64 << 20, NULL);
        gbnf_read(&k.g, text, strlen(text));
        check(!machine_init(&k.machine, &k.g) && k.g.n_rule <= 2 * N_RULES, "machine");
        for (uint32_t i = 0; i < k.g.n_rule; i++)
            k.share[i] = share_acquire(kit_vocab, &k.machine, i);
        struct matcher m[2];
        struct mask_cache cache[2];
        for (int i = 0; i < 2; i++)
            check(mask_cache_init(&cache[i], kit_vocab->n_words) &&
                      !matcher_init(&m[i], kit_vocab, &k.machine, k.share, &cache[i], NULL),
                  "matcher");
        // to begin with, the same text behind two ways
        static const char *const ways[] = {"(", "a(", "aa(", "(("};
        for (int way = 0; round % 4 == 0 && way < 4; way++) {
            uint64_t bits[2][(KIT_MAX_TOKENS + 63) / 64];
            memset(bits, 0xff, sizeof bits);
            for (int i = 0; i < 2; i++) {
                matcher_feed(&m[i], (const uint8_t *)ways[way], strlen(ways[way]));
                matcher_feed(&m[i], (const uint8_t *)"cc", 2);
                m[0].collect_at = 0;
                matcher_mask(&m[i], bits[i], kit.n);
                matcher_rollback(&m[i], 2);
            }
            check(memcmp(bits[0], bits[1], (size_t)(kit.n / 64) * 8) == 0, "%s", ways[way]);
        }
        for (int step = 0; step < 16; step++) {
            uint64_t bits[2][(KIT_MAX_TOKENS + 63) / 64];
            memset(bits, 0xff, sizeof bits);
            for (int i = 0; i < 2; i++) {
                m[0].collect_at = 0;
                matcher_mask(&m[i], bits[i], kit.n);
            }
            if (m[1].failure) break;
            check(memcmp(bits[0], bits[1], (size_t)(kit.n / 64) * 8) == 0, "%s: step %d", text,
                  step);
            int found = 0, pick = -1;
            for (int i = 0; i < kit.n - kit.n_end; i++)
                if (kit_has(bits[0], i) && kit_below(++found) == 0) pick = i;
            const uint32_t back = (uint32_t)kit_below((int)m[1].n_token + 1);
            const bool goes_back = pick < 0 || kit_below(3) == 0;
            for (int i = 0; i < 2; i++) {
                m[0].collect_at = 0;
                if (goes_back)
                    matcher_rollback(&m[i], back);
                else
                    matcher_token(&m[i], pick);
            }
        }
        for (int i = 0; i < 2; i++) {
            matcher_deinit(&m[i]);
            mask_cache_deinit(&cache[i]);
        }
        for (uint32_t i = 0; i < k.g.n_rule; i++) share_release(kit_vocab, k.share[i]);
        machine_deinit(&k.machine);
        grammar_deinit(&k.g);
    }
}

CASE(a_grammar_of_every_construct) {
    struct constraint *c =
        kit_compile(CONSTRAINT_GRAMMAR,
                    "# comment\nroot ::= greeting \" \" name{1,2} (\n  \"!\" | \"?\" # inside\n  "
                    ")* tail |\n  \"-\"\n"
                    "greeting ::= \"h\\x69\" | [^\\n\\]a-z]\nname ::= [a-zA-Z\\u00e9]+ \n\ntail "
                    "::= .? \"\\t\\\"\\\\\" [x]{3} \"y\"{,2}\n");
    static const char *const valid[] = {"-", "hi joe\t\"\\xxx", "H \xc3\xa9!?!\t\"\\xxxyy",
                                        "hi a\xe2\x82\xac\t\"\\xxxy"};
    static const char *const invalid[] = {"", "hi", "] a\t\"\\xxx", "hi joe\t\"\\xx",
                                          "hi joe\t\"\\xxxyyy"};
    for (int i = 0; i < 4; i++) check(kit_accepts(c, valid[i], strlen(valid[i])), "%s", valid[i]);
    for (int i = 0; i < 5; i++)
        check(!kit_accepts(c, invalid[i], strlen(invalid[i])), "%s", invalid[i]);
    constraint_release(c);
}

static const struct refusal {
    const char *grammar, *message;
} refusals[] = {
    {"root ::= root \"a\"", "the rule \"root\" starts with itself"},
    {"root ::= a\na ::= b? a \"x\"\nb ::= \"y\"", "the rule \"a\" starts with itself"},
    {"root ::= a", "the rule \"a\" is not defined"},
    {"r ::= \"a\"", "the grammar has no rule \"root\""},
    {"root ::= \"a\nb", "line 1, column 10: a literal without its end"},
    {"root ::= (\"a\"", "line 1, column 10: a group without its end"},
    {"root = \"a\"", "line 1, column 6: expected ::="},
    {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: a rule that is defined already"},
    {"root ::= *", "line 1, column 11: nothing to repeat"},
    {"root ::= \"a\" root", "the constraint allows no text"},
    {"root ::= [z-a]", "line 1, column 11: a range whose end is before its start"},
};

CASE(bad_grammars_are_refused_by_their_place) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct constraint *c;
        rn_error err = {0};
        const char *text = refusals[i].grammar;
        check(constraint_compile(kit_vocab, CONSTRAINT_GRAMMAR, text, strlen(text), NULL, &c,
                                 &err) == RN_ERR_ARG,
              "%s", text);
        check(strncmp(err.message, refusals[i].message, strlen(refusals[i].message)) == 0,
              "%s: \"%s\"", text, err.message);
    }
}

static int open_kit(void **state) {
    kit_open(pieces, N_PIECES, 900);
    return 0;
}
static int close_kit(void **state) {
    kit_close();
    return 0;
}

TEST_PROGRAM(grammar) { return cases_run(open_kit, close_kit); }

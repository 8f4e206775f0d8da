// GBNF against a slow parser that tries everything: random grammars, random texts, sampled texts.
// The same grammars check masks against their definition, and rollback against replay.
#include "constraint/front.h"
#include "constraint/matcher.h"
#include "kit.h"
#include "slow_parser.h"

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
    case TERMINAL: // Lark's
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

// A random grammar that compiles; NULL: it did not.
static struct constraint *random_grammar(char *text) {
    n_pool = 0;
    text[0] = 0;
    for (int i = 0; i < N_RULES; i++) {
        rules[i] = random_tree(3, true, false);
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

CASE(random_grammars_accept_the_texts_that_a_slow_parser_accepts) {
    static char text[20000];
    struct slow_counts counts = {0};
    const int n = test_scale(200, 600, 20000);
    for (int round = 0; round < n; round++) {
        struct constraint *c = random_grammar(text);
        if (!c) continue;
        slow_compare(c, text, &counts);
        constraint_release(c);
    }
    check(counts.tried > n / 4 && counts.yes > n / 4 && counts.no > n && counts.sampled > n / 4,
          "%d, %d, %d, %d of %d", counts.tried, counts.yes, counts.no, counts.sampled, n);
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
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        kit_refused(CONSTRAINT_GRAMMAR, refusals[i].grammar, refusals[i].message);
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

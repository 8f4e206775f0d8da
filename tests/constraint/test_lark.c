// Lark against the slow parser, and tables: texts of grammars as people write them, refusals.
#include "slow_parser.h"

// --- random grammars ---

static void print_tree(const struct tree *t, char *out);

static void print_parts(const struct tree *t, char *out) {
    strcat(out, "(");
    for (int i = 0; i < t->n; i++) {
        if (i && t->kind == ALT) strcat(out, kit_below(2) ? "\n  | " : " | ");
        print_tree(t->part[i], out);
    }
    strcat(out, ") ");
}

static void print_repeat(const struct tree *t, char *out) {
    const bool is_maybe = t->min == 0 && t->max == 1;
    strcat(out, is_maybe ? "[ " : "(");
    print_tree(t->part[0], out);
    strcat(out, is_maybe ? "] " : ")");
    if (is_maybe) return;
    if (t->max < 0 && t->min < 2)
        strcat(out, t->min ? "+ " : "* ");
    else if (t->max < 0)
        sprintf(out + strlen(out), "~%d ", t->min);
    else if (t->max == t->min)
        sprintf(out + strlen(out), " ~ %d ", t->min);
    else
        sprintf(out + strlen(out), "~%d..%d ", t->min, t->max);
    if (t->max < 0 && t->min > 1) { // Lark has no repetition with a minimum alone
        strcat(out, "(");
        print_tree(t->part[0], out);
        strcat(out, ")* ");
    }
}

static void print_tree(const struct tree *t, char *out) {
    switch (t->kind) {
    case LITERAL:
        sprintf(out + strlen(out), "\"%s\" ", t->text);
        break;
    case CLASS:
        sprintf(out + strlen(out), "/[%s%s]/%s ", t->negate ? "^" : "", t->text,
                kit_below(2) ? "s" : "");
        break;
    case CALL:
        sprintf(out + strlen(out), t->rule ? "r%d " : "start ", t->rule);
        break;
    case TERMINAL:
        sprintf(out + strlen(out), "T%d ", t->rule);
        break;
    case SEQ:
    case ALT:
        print_parts(t, out);
        break;
    case REPEAT:
        print_repeat(t, out);
        break;
    }
}

// A rule that starts with itself in some of its alternatives.
static struct tree *left_recursive(int rule) {
    struct tree *alt = tree_new(ALT);
    alt->n = 2;
    alt->part[0] = random_tree(2, true, true);
    alt->part[1] = tree_new(SEQ);
    alt->part[1]->n = 2;
    alt->part[1]->part[0] = tree_new(CALL);
    alt->part[1]->part[0]->rule = rule;
    alt->part[1]->part[1] = random_tree(2, true, true);
    return alt;
}

static void print_rule(int rule, bool is_left_recursive, char *out) {
    static const char *const marks[] = {"", "?", "!", "!?"};
    sprintf(out + strlen(out), rule ? "%sr%d%s: " : "%sstart%.0d%s: ", marks[kit_below(4)], rule,
            kit_below(4) ? "" : ".2");
    if (is_left_recursive) {
        print_tree(rules[rule]->part[0], out);
        strcat(out, " -> one // an alternative\n   | ");
        print_tree(rules[rule]->part[1]->part[0], out);
        print_tree(rules[rule]->part[1]->part[1], out);
        strcat(out, "-> more");
    } else {
        print_tree(rules[rule], out);
    }
    strcat(out, "\n");
}

// A terminal that most characters make longer.
static struct tree *random_word(void) {
    struct tree *t = tree_new(REPEAT);
    t->n = t->min = 1;
    t->max = kit_below(4) ? -1 : 3;
    t->part[0] = random_tree(1, false, false);
    return t;
}

// Many terminals side by side.
static struct tree *random_words(void) {
    struct tree *t = tree_new(REPEAT), *one = tree_new(ALT);
    t->n = t->min = 1;
    t->max = -1;
    t->part[0] = one;
    one->n = 3;
    one->part[0] = tree_new(TERMINAL);
    one->part[1] = random_tree(1, true, true);
    one->part[2] = random_tree(2, true, true);
    return t;
}

// NULL: it was refused.
static struct constraint *random_lark(char *text) {
    n_pool = 0;
    text[0] = 0;
    ignored = "\0x(a"[kit_below(4)];
    if (ignored) sprintf(text, "%%ignore \"%c\" // between terminals\n\n", ignored);
    for (int i = 0; i < N_RULES; i++) {
        const bool is_left_recursive = kit_below(4) == 0;
        rules[i] = is_left_recursive ? left_recursive(i) : random_tree(3, true, true);
        if (i == 0 && !is_left_recursive && kit_below(2)) rules[i] = random_words();
        print_rule(i, is_left_recursive, text);
    }
    for (int i = 0; i < N_TERMINALS; i++) {
        terminals[i] = i ? random_tree(2, false, false) : random_word();
        sprintf(text + strlen(text), "T%d: ", i);
        print_tree(terminals[i], text);
        strcat(text, "# a terminal\n");
    }
    struct constraint *c;
    rn_error err = {0};
    if (!constraint_compile(kit_vocab, CONSTRAINT_GRAMMAR, text, strlen(text), NULL, &c, &err))
        return c;
    check(strstr(err.message, "starts with itself") || strstr(err.message, "allows no text") ||
              strstr(err.message, "too many ways"),
          "%s: %s", text, err.message);
    return NULL;
}

// The masks along a random text are those of their definition.
static void check_masks(struct constraint *c, const char *text) {
    struct constraint_run *run;
    check(!constraint_open(c, 1, &run, NULL), "open");
    const rn_constraint hook = constraint_hook(run);
    for (int i = 0; i < 6; i++) {
        uint64_t bits[(KIT_MAX_TOKENS + 63) / 64];
        hook.mask(hook.ctx, 0, bits, kit.n);
        if (constraint_failure(run, 0)) break; // too ambiguous
        kit_check_mask(run, text);
        for (int tries = 0; tries < 200; tries++) {
            if (kit_feed(run, kit_below(kit.n - kit.n_end - kit.n_special))) break;
            hook.rollback(hook.ctx, 0, 1);
        }
    }
    constraint_close(run);
}

CASE(random_grammars_accept_the_texts_that_a_slow_parser_accepts) {
    static char text[20000];
    struct slow_counts counts = {0};
    const int n = test_scale(200, 600, 10000);
    for (int round = 0; round < n; round++) {
        struct constraint *c = random_lark(text);
        if (!c) continue;
        slow_compare(c, text, &counts);
        if (round % 4 == 0) check_masks(c, text);
        constraint_release(c);
    }
    ignored = 0;
    check(counts.tried > n / 5 && counts.yes > n / 5 && counts.no > n && counts.sampled > n / 5,
          "%d, %d, %d, %d of %d", counts.tried, counts.yes, counts.no, counts.sampled, n);
    check(counts.excluded > n / 250 && counts.excluded > counts.not_excluded,
          "%d of %d were excluded", counts.excluded, counts.excluded + counts.not_excluded);
}

// --- tables ---

#define CALCULATOR                                                                                 \
    "?start: sum | NAME \"=\" sum -> assign\n"                                                     \
    "?sum: product\n  | sum \"+\" product -> add\n  | sum \"-\" product\n"                         \
    "?product: atom | product \"*\" atom\n"                                                        \
    "?atom: NUMBER -> number\n  | \"-\" atom\n  | NAME\n  | \"(\" sum \")\"\n"                     \
    "%import common.CNAME -> NAME\n%import common (NUMBER, WS_INLINE)\n%ignore WS_INLINE\n"

#define NAMES "\nNAME: /[a-z]+/\n%ignore \" \""

#define BLANKS "                               -\t                               " // 64 characters

static const struct expected {
    const char *grammar, *text;
    bool want;
} texts[] = {
    {CALCULATOR, "x = 3*(4 - -y_1)+2.5e-3", true},
    {CALCULATOR, " \t7", true}, // before the first terminal, too
    {CALCULATOR, "7 ", false},
    {CALCULATOR, "1 + + 2", false},
    {CALCULATOR, "1\n+2", false},
    {"start: \"x\" \"y\"\n%ignore /[ \\t]+/\n%ignore \"-\"", "x" BLANKS "y", true},
    {"start: \"x\" \"y\"\n%ignore /[ \\t]+/\n%ignore \"-\"", "x" BLANKS " y", false},
    {"start: \"x\" \"y\"\n%ignore /[ \\t-]+/\n%ignore /;.*/s", "x" BLANKS " ;;;y", true},
    {"start: \"Select\"i A\nA: \"a\"..\"f\" | \"\\u00e9\" | \"\\x31\"", "sELECTc", true},
    {"start: \"Select\"i A\nA: \"a\"..\"f\" | \"\\u00e9\" | \"\\x31\"", "SELECT\xc3\xa9", true},
    {"start: \"Select\"i A\nA: \"a\"..\"f\" | \"\\u00e9\" | \"\\x31\"", "Select1", true},
    {"start: \"Select\"i A\nA: \"a\"..\"f\" | \"\\u00e9\" | \"\\x31\"", "Selectg", false},
    {"start: /[a-d]x./i", "BX\n", false},
    {"start: /[a-d]x./si", "BX\n", true},
    {"start: /[^a-d]/i", "B", false},
    {"start: / a b  # comment\n [ ]{,2} /x", "ab  ", true},
    {"start: / a b  # comment\n [ ]{,2} /x", "ab   ", false},
    {"start: /a\\/b/ \"//\" // comment\n", "a/b//", true},
    {"start: DIGIT~40..60\n%import common.DIGIT", "0123456789012345678901234567890123456789", true},
    {"start: DIGIT~40..60\n%import common.DIGIT", "012345678901234567890123456789012345678", false},
    {"start: [\"a\" \"b\"] C?\nC.-1: \"c\"", "", true},
    {"start: [\"a\" \"b\"] C?\nC.-1: \"c\"", "abc", true},
    {"start: [\"a\" \"b\"] C?\nC.-1: \"c\"", "ac", false},
    {"start: ESCAPED_STRING\n%import common.ESCAPED_STRING", "\"a\\\"\\\\\"", true},
    {"start: ESCAPED_STRING\n%import common.ESCAPED_STRING", "\"a\\\"", false},
    {"start: C_COMMENT\n%import common.C_COMMENT", "/* a **/", true},
    {"start: C_COMMENT\n%import common.C_COMMENT", "/* */ */", false},
    {"start: SIGNED_NUMBER\n%import common.SIGNED_NUMBER", "-.5e+1", true},
    {"start: SIGNED_NUMBER\n%import common.SIGNED_NUMBER", "1e", false},
    {"start: A | \"::=\"\nA: \"x\"", "::=", true}, // no GBNF
    // terminals are as long as they can be
    {"start: \"if\" NAME \"then\"" NAMES, "if athen", false},
    {"start: \"if\" NAME \"then\"" NAMES, "if a then", true},
    {"start: \"if\" NAME \"then\"" NAMES, "ifa then", true},
    {"start: NUMBER+\n%import common.NUMBER\n%ignore \" \"", "1 2.5 .5", true},
    {"start: NUMBER+ \"x\"\n%import common.NUMBER\n%ignore \" \"", "12.5.5x", true},
    {"start: /-?[0-9]+([.][0-9]+)?/ \".\"", "5.", true}, // "5." is no number
    {"start: (/[a-z]+/ | /[0-9]+/ | \" \")+ \"!\"", "ab12 c!", true},
    // texts that a lexer would cut in other places (docs/CONSTRAINTS.md)
    {"start: /[0-9]+([.][0-9]+)?/ \".\" /[0-9]+/", "1.5", true},
    {"start: /[a-z\u00e0-\u00ff]+/ \"\u00e9\" | \"-\"", "a\xc3\xa9", true},
    {"start: /[a-z]{1,40}/ \"b\" | /[a-z]{1,40}/ \"-\"", "ab", true},
    {"start: \"if\" NAME | NAME \"=\" NAME" NAMES, "ifa", true},
    {"start: \"if\" NAME | NAME \"=\" NAME" NAMES, "if=a", true},
    {"start: NAME NAME" NAMES, "ab", false},
    {"start: NAME NAME" NAMES, "a b", true},
    {"start: NAME NAME\nNAME: /[a-z]+/", "ab", true}, // the first one could never end
    {"start: /.*/ \"end\"", "the end", true},
    {"start: \"if\" \" \" NAME \" \" \"then\"\nNAME: /[a-z]+/", "if athen", false},
    {"start: a-b{2} A-B{,2} \"d\"{1,}\na-b: \"a\"\nA-B: \"b\"{2,3} -> x", "aabbbbbd", true},
    {"start: a-b{2} A-B{,2} \"d\"{1,}\na-b: \"a\"\nA-B: \"b\"{2,3}", "aadd", true},
    {"start: a-b{2} A-B{,2} \"d\"{1,}\na-b: \"a\"\nA-B: \"b\"{2,3}", "aabbbbd",
     false}, // the first takes three
    {"start: a-b{2} A-B{,2} \"d\"{1,}\na-b: \"a\"\nA-B: \"b\"{2,3}", "aabd", false},
    {"start: a-b{2} A-B{,2} \"d\"{1,}\na-b: \"a\"\nA-B: \"b\"{2,3}", "aab", false},
    {"start: a-b{2} A-B{,2} \"d\"{1,}\na-b: \"a\"\nA-B: \"b\"{2,3}", "ad", false},
};

CASE(texts_of_grammars_as_people_write_them) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct constraint *c = kit_compile(CONSTRAINT_GRAMMAR, texts[i].grammar);
        check(kit_accepts(c, texts[i].text, strlen(texts[i].text)) == texts[i].want,
              "%s\n\"%s\": expected %d", texts[i].grammar, texts[i].text, texts[i].want);
        constraint_release(c);
    }
}

// The same grammar inside of a string: escaped in JSON, plain between tags and without '<' there.
CASE(strings_of_a_schema_are_texts_of_a_grammar) {
#define STRING                                                                                     \
    "{\"type\":\"string\",\"x-lark\":\"start: A | \\\"(\\\" start \\\")\\\"\\nA: "                 \
    "/[<-?\\\"\\\\n]/\"}"
    static const char tags[] =
        "{\"type\":\"json_schema\",\"style\":\"qwen_xml\",\"json_schema\":{\"type\":\"object\","
        "\"properties\":{\"t\":" STRING "},\"required\":[\"t\"],\"additionalProperties\":false}}";
    static const struct {
        enum constraint_kind kind;
        const char *source, *text;
        bool want;
    } cases[] = {
        {CONSTRAINT_SCHEMA, STRING, "\"((=))\"", true},
        {CONSTRAINT_SCHEMA, STRING, "\"((=)\"", false},
        {CONSTRAINT_SCHEMA, STRING, "\"(\\\")\"", true},
        {CONSTRAINT_SCHEMA, STRING, "\"\\n\"", true},
        {CONSTRAINT_SCHEMA, STRING, "\"<\"", true},
        {CONSTRAINT_STRUCTURE, tags, "<parameter=t>\n(=)\n</parameter>\n", true},
        {CONSTRAINT_STRUCTURE, tags, "<parameter=t>\n\"\n</parameter>\n", true},
        {CONSTRAINT_STRUCTURE, tags, "<parameter=t>\n<\n</parameter>\n", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct constraint *c = kit_compile(cases[i].kind, cases[i].source);
        check(kit_accepts(c, cases[i].text, strlen(cases[i].text)) == cases[i].want,
              "%s: expected %d", cases[i].text, cases[i].want);
        constraint_release(c);
    }
}

static const struct refusal {
    enum constraint_kind kind;
    const char *source, *message;
} refusals[] = {
    {CONSTRAINT_GRAMMAR, "a: \"x\"", "the grammar has no rule \"start\""},
    {CONSTRAINT_GRAMMAR, "start: b", "line 1, column 8: the rule \"b\" is not defined"},
    {CONSTRAINT_GRAMMAR, "start: B", "line 1, column 8: the terminal \"B\" is not defined"},
    {CONSTRAINT_GRAMMAR, "start: \"a\" (", "line 1, column 12: a group without its end"},
    {CONSTRAINT_GRAMMAR, "start: (\"a\"]", "line 1, column 12: a closing bracket without"},
    {CONSTRAINT_GRAMMAR, "start: \"a\"..", "line 1, column 13: expected a range of two"},
    {CONSTRAINT_GRAMMAR, "start: \"b\"..\"a\"", "line 1, column 8: a range whose end is before"},
    {CONSTRAINT_GRAMMAR, "start: \"a\"\nx{b}: b", "line 2, column 2: templates are not"},
    {CONSTRAINT_GRAMMAR, "start: \"a\"{}", "line 1, column 11: templates are not"},
    {CONSTRAINT_GRAMMAR, "start: \"a\"{,}", "line 1, column 13: expected a number of"},
    {CONSTRAINT_GRAMMAR, "start: \"a\"{2,1}", "line 1, column 15: a repetition whose end"},
    {CONSTRAINT_GRAMMAR, "start: \"a\"{2;", "line 1, column 13: an unexpected character"},
    {CONSTRAINT_GRAMMAR, "start: {2}", "line 1, column 10: nothing to repeat"},
    {CONSTRAINT_GRAMMAR, "start: x{\"a\"}\nx: \"\"", "line 1, column 9: templates are not"},
    {CONSTRAINT_GRAMMAR, "%declare A\nstart: A", "line 1, column 1: \"%declare\" is not supported"},
    {CONSTRAINT_GRAMMAR, "%import python.X\nstart: X", "line 1, column 9: imports other than"},
    {CONSTRAINT_GRAMMAR, "%import common.X\nstart: X", "line 1, column 16: common has no"},
    {CONSTRAINT_GRAMMAR, "start: A\nA: B\nB: A", "line 3, column 4: the terminal \"A\" has itself"},
    {CONSTRAINT_GRAMMAR, "start: A\nA: start", "line 2, column 4: a terminal has no rules"},
    {CONSTRAINT_GRAMMAR, "start: a \"x\"\na: start", "the rule \"start\" starts with itself"},
    {CONSTRAINT_GRAMMAR, "start: start \"x\"", "the constraint allows no text"},
    {CONSTRAINT_GRAMMAR, "start: /a(?=b)/", "line 1, column 8: offset 1: lookaround is not"},
    {CONSTRAINT_GRAMMAR, "start: /a/l", "line 1, column 11: the flag \"l\" is not supported"},
    {CONSTRAINT_GRAMMAR, "start: \"\\q\"", "line 1, column 9: an unknown escape"},
    {CONSTRAINT_GRAMMAR, "start: \"a", "line 1, column 8: a string without its end"},
    {CONSTRAINT_GRAMMAR, "start: \"a\"\nstart: \"b\"", "line 2, column 1: a name that is defined"},
    {CONSTRAINT_GRAMMAR, "start: \"a\"~2..1", "line 1, column 15: a repetition whose end"},
    {CONSTRAINT_GRAMMAR, "start: \"a\" -> b c\nc: \"c\"", "line 1, column 17: expected the end"},
    {CONSTRAINT_GRAMMAR, "start: \"a\" = \"b\"", "line 1, column 12: an unexpected character"},
    {CONSTRAINT_SCHEMA, "{\"type\":\"string\",\"x-lark\":\"a: b\"}",
     "/x-lark: the grammar has no rule \"start\""},
    {CONSTRAINT_SCHEMA, "{\"properties\":{\"a\":{\"x-lark\":\"start: b\"}}}",
     "/properties/a/x-lark: line 1, column 8: the rule \"b\" is not defined"},
    {CONSTRAINT_SCHEMA, "{\"x-lark\":\"start: \\\"b\\\"\",\"maxLength\":3}",
     "/x-lark: not supported beside \"maxLength\""},
    {CONSTRAINT_SCHEMA, "{\"x-lark\":1}", "/x-lark: expected a string, not 1"},
};

CASE(bad_grammars_are_refused_by_their_place) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        kit_refused(refusals[i].kind, refusals[i].source, refusals[i].message);
}

static int open_kit(void **state) {
    kit_open(pieces, N_PIECES, 900);
    return 0;
}
static int close_kit(void **state) {
    kit_close();
    return 0;
}

TEST_PROGRAM(lark) { return cases_run(open_kit, close_kit); }

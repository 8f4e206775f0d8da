// Special tokens as symbols, tokens in grammars, and failures that depend on the text alone. In
// these texts a special token stands between \xff and \xfe.
#include "kit.h"

#define S(text) "\xff" text "\xfe"

static const char *const pieces[] = {"<", ">", "call", "<call>", "</call>", "a", "b", "\xc3\xa9"};

static void expect(const char *grammar, const char *text, bool want) {
    struct constraint *c = kit_compile(CONSTRAINT_GRAMMAR, grammar);
    check(kit_accepts(c, text, strlen(text)) == want, "%s: \"%s\": expected %d", grammar, text,
          want);
    struct constraint_run *run;
    check(!constraint_open(c, 1, &run, NULL), "open");
    kit_check_mask(run, grammar);
    constraint_close(run);
    constraint_release(c);
}

CASE(special_tokens_are_no_text) {
    expect("root ::= .*", S("<call>"), false);
    expect("root ::= .*", "<call>", true);
    expect("root ::= <call> [a-z]*", S("<call>") "ab", true);
    expect("root ::= <call> [a-z]*", "<call>ab", false);
    expect("root ::= \"<call>\"", S("<call>"), false);
    expect("root ::= \"a\" (<call> | </call>){2}", "a" S("</call>") S("<call>"), true);
}

CASE(tokens_may_be_left_out) {
    expect("root ::= !<call>* <call>", "a\xc3\xa9<call>" S("<s>") S("<call>"), true);
    expect("root ::= !<call>* <call>", S("<call>") S("<call>"), false);
    expect("root ::= !<call>{2}", S("<s>") "a", true);
    expect("root ::= !<call>{2}", "a", false);
    expect("root ::= !<call>{1,200}", S("<s>") "ab", true);
    expect("root ::= !</s>+", S("<call>") "b", true); // an end is no symbol
}

CASE(tokens_by_their_number) {
    char grammar[100];
    snprintf(grammar, sizeof grammar, "root ::= <[%d]> <[97]> !<[97]>*", kit.n - 4);
    expect(grammar, S("<call>") "abb" S("<s>"), true);
    expect(grammar, S("<call>") "aba", false);
    snprintf(grammar, sizeof grammar, "root ::= \"a\" <[%d]>", kit.n - 1);
    expect(grammar, "a", true); // the end of the text
    expect("root ::= !<[97]>+", "", false);
    expect("root ::= !<[97]>+", "bb", true);
}

CASE(tokens_that_do_not_exist_are_refused) {
    static const char *const sources[][2] = {
        {"root ::= <nothing>", "line 1, column 10: the vocabulary has no such token"},
        {"root ::= <[100000]>", "line 1, column 10: the vocabulary has no such token"},
        {"root ::= <[255]>", "line 1, column 10: the vocabulary has no such token"},
        {"root ::= <[1>", "line 1, column 10: expected the number of a token: \"<[1]>\""},
        {"root ::= <think", "line 1, column 10: expected the text of a token: \"<think>\""},
        {"root ::= !a", "line 1, column 11: expected a token"},
        {"root ::= !<[195]>*",
         "line 1, column 18: a token that is left out has a part of a character"},
        {"root ::= !<[97]>", "line 1, column 17: expected * or + behind a token of text that is "
                             "left out"},
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct constraint *c;
        rn_error err = {0};
        check(constraint_compile(kit_vocab, CONSTRAINT_GRAMMAR, sources[i][0],
                                 strlen(sources[i][0]), NULL, &c, &err) == RN_ERR_ARG,
              "%s", sources[i][0]);
        assert_string_equal(err.message, sources[i][1]);
    }
}

// A tried text that is too ambiguous leaves no trace.
CASE(failures_go_with_the_text) {
    struct constraint *c =
        kit_compile(CONSTRAINT_GRAMMAR, "root ::= \"a\" | \"b\" .{0,4000} .{0,4000} .{0,4000}");
    struct constraint_run *run;
    check(!constraint_open(c, 1, &run, NULL), "open");
    const rn_constraint hook = constraint_hook(run);
    int n = 1;
    check(constraint_feed(run, 0, "b", 1), "feed");
    for (; n < 2000 && !constraint_failure(run, 0); n++) constraint_feed(run, 0, "c", 1);
    check(n < 2000, "no failure");
    hook.rollback(hook.ctx, 0, 1);
    check(!constraint_failure(run, 0) && !constraint_feed(run, 0, "c", 1) &&
              constraint_failure(run, 0),
          "a failure must come again");
    hook.rollback(hook.ctx, 0, n);
    check(!constraint_failure(run, 0), "a failure of another text");
    kit_check_mask(run, "back");
    check(constraint_feed(run, 0, "a", 1) && constraint_may_end(run, 0), "the end");
    constraint_close(run);
    constraint_release(c);
}

CASE(a_choice_may_start_again) {
    struct constraint *c = kit_compile(CONSTRAINT_REGEX, "ab");
    struct constraint_run *run;
    check(!constraint_open(c, 1, &run, NULL), "open");
    const rn_constraint hook = constraint_hook(run);
    check(constraint_feed(run, 0, "", 0) && !constraint_may_end(run, 0), "nothing");
    check(!constraint_feed(run, 0, "xyz", 3), "another text");
    constraint_restart(run, 0);
    check(constraint_feed(run, 0, "ab", 2) && constraint_may_end(run, 0), "the text");
    hook.rollback(hook.ctx, 0, 3);
    check(constraint_feed(run, 0, "ab", 2) && constraint_may_end(run, 0), "the text again");
    constraint_close(run);
    constraint_release(c);
}

static int open_kit(void **state) {
    kit_open(pieces, sizeof pieces / sizeof *pieces, 200);
    return 0;
}
static int close_kit(void **state) {
    kit_close();
    return 0;
}

TEST_PROGRAM(tokens) { return cases_run(open_kit, close_kit); }

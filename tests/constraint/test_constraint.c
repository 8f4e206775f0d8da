// Constraints as the engine uses them: shared between threads, forced text, long texts, and hostile
// sources that end at a limit.
// label: threads
#include <pthread.h>

#include "kit.h"

static const char *const pieces[] = {"{", "}", "\"", "\":", "\",", "a", "bc",
                                     " ", "[", "]",  ",",   "1",   "0", "x\xc3\xa9"};
enum { N_PIECES = sizeof pieces / sizeof *pieces };

CASE(equal_sources_are_compiled_once) {
    struct constraint *a = kit_compile(CONSTRAINT_REGEX, "a+"),
                      *b = kit_compile(CONSTRAINT_REGEX, "a+");
    struct constraint *c = kit_compile(CONSTRAINT_CHOICES, "[\"a+\"]"),
                      *d = kit_compile(CONSTRAINT_REGEX, "a*");
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, c);
    assert_ptr_not_equal(a, d);
    for (int i = 0; i < 200; i++) { // more than are kept
        char text[16];
        snprintf(text, sizeof text, "b{%d}", i % 150);
        constraint_release(kit_compile(CONSTRAINT_REGEX, text));
    }
    check(kit_accepts(a, "aaa", 3), "a constraint that is not kept any more");
    constraint_release(a);
    constraint_release(b);
    constraint_release(c);
    constraint_release(d);
}

CASE(forced_text_is_what_must_come) {
    struct constraint *c = kit_compile(
        CONSTRAINT_SCHEMA,
        "{\"type\":\"object\",\"properties\":{\"colour\":{\"enum\":[\"red\",\"rose\"]}},"
        "\"required\":[\"colour\"],\"additionalProperties\":false}");
    struct constraint_run *run;
    char text[64];
    check(!constraint_open(c, 2, &run, NULL), "open");
    check(constraint_forced(run, 1, text, sizeof text, UINT64_MAX) == 1 && text[0] == '{',
          "the brace");
    check(constraint_feed(run, 1, "{", 1), "feed");
    assert_int_equal(constraint_forced(run, 1, text, sizeof text, UINT64_MAX),
                     0); // a blank may come
    check(constraint_feed(run, 1, "\"", 1), "feed");
    assert_int_equal(constraint_forced(run, 1, text, sizeof text, UINT64_MAX), 8);
    assert_memory_equal(text, "colour\":", 8);
    assert_int_equal(constraint_forced(run, 1, text, 3, UINT64_MAX), 3);
    check(constraint_feed(run, 1, "colour\":\"r", 10), "feed");
    assert_int_equal(constraint_forced(run, 1, text, sizeof text, UINT64_MAX), 0);
    check(constraint_feed(run, 1, "o", 1), "feed");
    assert_int_equal(constraint_forced(run, 1, text, sizeof text, UINT64_MAX), 3);
    assert_memory_equal(text, "se\"", 3);
    check(constraint_feed(run, 1, "se\"}", 4) && constraint_may_end(run, 1), "the end");
    assert_int_equal(constraint_forced(run, 1, text, sizeof text, UINT64_MAX), 0);
    check(!constraint_may_end(run, 0), "choices are apart");
    constraint_close(run);
    constraint_release(c);
}

CASE(choices_are_the_texts_and_nothing_else) {
    struct constraint *c =
        kit_compile(CONSTRAINT_CHOICES, "[\"yes\",\"no\",\"no way\",\"\\u00e9\\\"\"]");
    static const char *const valid[] = {"yes", "no", "no way", "\xc3\xa9\""};
    static const char *const invalid[] = {"", "ye", "no ", "yesno", "\xc3\xa9"};
    for (int i = 0; i < 4; i++) check(kit_accepts(c, valid[i], strlen(valid[i])), "%s", valid[i]);
    for (int i = 0; i < 5; i++)
        check(!kit_accepts(c, invalid[i], strlen(invalid[i])), "%s", invalid[i]);
    constraint_release(c);
    rn_error err;
    check(constraint_compile(kit_vocab, CONSTRAINT_CHOICES, "[\"a\",1]", 7, NULL, &c, &err) ==
              RN_ERR_ARG,
          "a number");
    assert_string_equal(err.message, "choices: /1: expected a string");
}

// Thousands of tokens make frames and sets that are collected; the mask stays right.
CASE(long_texts_keep_their_masks) {
    struct constraint *c =
        kit_compile(CONSTRAINT_GRAMMAR, "root ::= list\nlist ::= \"[\" ([a-z]{1,100000} | list | "
                                        "[0-9]{40,90})? \"]\" | \"{\" list{2} \"}\"");
    struct constraint_run *run;
    check(!constraint_open(c, 1, &run, NULL), "open");
    const rn_constraint hook = constraint_hook(run);
    check(constraint_feed(run, 0, "{[[", 3), "feed");
    for (int i = 0; i < 40000; i++) {
        check(constraint_feed(run, 0, "a", 1), "feed");
        if (i % 8000 == 0) kit_check_mask(run, "long");
    }
    check(constraint_feed(run, 0, "]][", 3), "feed");
    for (int i = 0; i < 40000; i++) check(constraint_feed(run, 0, "[", 1), "feed");
    kit_check_mask(run, "deep");
    for (int i = 0; i < 40001; i++) check(constraint_feed(run, 0, "]", 1), "feed %d", i);
    kit_check_mask(run, "closed");
    check(constraint_feed(run, 0, "}", 1) && constraint_may_end(run, 0), "the end");
    hook.rollback(hook.ctx, 0, 120000);
    kit_check_mask(run, "back");
    check(!constraint_failure(run, 0), "failure");
    constraint_close(run);
    constraint_release(c);
}

// A vocabulary of x and four digits, some with two digits before the x: thousands of tokens below
// one byte. Then come the digits and an end.
static struct constraint_token digits_token(void *ctx, int32_t id) {
    static char text[10011][8];
    const int n = id < 1000    ? snprintf(text[id], 8, "12x%03d", (int)id)
                  : id < 10000 ? snprintf(text[id], 8, "x%04d", (int)id)
                  : id < 10010 ? snprintf(text[id], 8, "%d", (int)id - 10000)
                               : snprintf(text[id], 8, "<end>");
    (void)ctx;
    return (struct constraint_token){.data = text[id], .len = (size_t)n, .is_end = id == 10010};
}

// Masks that take long are kept for the other runs of a constraint, and of no other one.
CASE(kept_masks_are_those_of_their_configuration) {
    static const char *const sources[][2] = {{"a?x(?:[0-9]{2,500}|)", "x11"},
                                             {"a?x[0-4]{1,500}", "x11"},
                                             {"(?:x[0-9]{1,40}7|y)?", "x11"},
                                             // the count tells the end of the digits
                                             {"[0-9]{2,34}x[0-9]{1,500}",
                                              "11111111111111111111111111111111111"},
                                             // far below the minimum, near it, between
                                             {"[0-9]{20,60}x[0-9]{0,90}",
                                              "1111111111111111111111111111111111111111"
                                              "111111111111111111111x111"}};
    struct constraint_vocab *vocab;
    check(!constraint_vocab_create(10011, digits_token, NULL, &vocab, NULL), "vocab");
    for (int round = 0; round < 10; round++) {
        struct constraint *c;
        struct constraint_run *run;
        const char *source = sources[round % 5][0], *text = sources[round % 5][1];
        check(!constraint_compile(vocab, CONSTRAINT_REGEX, source, strlen(source), NULL, &c, NULL),
              "compile");
        check(!constraint_open(c, 1, &run, NULL), "open");
        const rn_constraint hook = constraint_hook(run);
        for (int step = 0; text[step]; step++) {
            static uint64_t bits[10011 / 64 + 1];
            memset(bits, 0xff, sizeof bits);
            hook.mask(hook.ctx, 0, bits, 10011);
            for (int id = 0; id < 10010; id += id < 10000 ? 9 : 1) {
                const struct constraint_token token = digits_token(NULL, id);
                const bool want = constraint_feed(run, 0, token.data, token.len);
                hook.rollback(hook.ctx, 0, 1);
                check(kit_has(bits, id) == want, "%s: step %d: token %d", source, step, id);
            }
            check(kit_has(bits, 10010) == constraint_may_end(run, 0), "the end");
            constraint_feed(run, 0, text + step, 1);
        }
        constraint_close(run);
        constraint_release(c);
    }
    constraint_vocab_release(vocab);
}

static struct constraint *shared;
static void *sample_texts(void *ctx) {
    struct constraint_run *run;
    if (constraint_open(shared, 1, &run, NULL)) return NULL;
    const rn_constraint hook = constraint_hook(run);
    uint64_t sum = 1;
    static const char *const text[] = {"{", "\"", "a", "a", "\"", ":", "[", "1"};
    for (int i = 0; i < 8; i++) {
        uint64_t bits[(KIT_MAX_TOKENS + 63) / 64];
        memset(bits, 0xff, sizeof bits);
        hook.mask(hook.ctx, 0, bits, kit.n);
        for (int k = 0; k < kit.n / 64; k++) sum = (sum ^ bits[k]) * 0x9FB21C651E98DF25u;
        constraint_feed(run, 0, text[i], strlen(text[i]));
    }
    constraint_close(run);
    *(uint64_t *)ctx = sum;
    return ctx;
}

CASE(threads_share_a_constraint) {
    for (int round = 0; round < 4; round++) {
        const struct constraint_limits small = {.work = 200000}; // most summaries are made later
        char text[100];
        snprintf(text, sizeof text,
                 "{\"type\":\"object\",\"properties\":{\"aa%d\":{\"maxLength\":%d}}}", round,
                 50 + round);
        check(!constraint_compile(kit_vocab, CONSTRAINT_SCHEMA, text, strlen(text), &small, &shared,
                                  NULL),
              "compile");
        pthread_t thread[4];
        uint64_t sum[4] = {0};
        for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, sample_texts, &sum[i]);
        for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
        for (int i = 0; i < 4; i++) check(sum[i] && sum[i] == sum[0], "thread %d", i);
        constraint_release(shared);
    }
}

// --- hostile sources ---

static void check_bounded(enum constraint_kind kind, const char *text, size_t len,
                          const char *what) {
    struct constraint *c = NULL;
    rn_error err = {0};
    const rn_status status = constraint_compile(kit_vocab, kind, text, len, NULL, &c, &err);
    check(status == RN_OK || (status == RN_ERR_ARG && err.message[0]), "%s: status %d", what,
          status);
    if (status) return;
    const struct constraint_size size = constraint_size(c);
    check(size.work <= constraint_limits_default.work + 200000 && size.bytes <= 64 << 20,
          "%s: %llu units, %zu bytes", what, (unsigned long long)size.work, size.bytes);
    struct constraint_run *run;
    check(!constraint_open(c, 1, &run, NULL), "open");
    uint64_t bits[(KIT_MAX_TOKENS + 63) / 64];
    for (int i = 0; i < 20; i++) {
        memset(bits, 0xff, sizeof bits);
        constraint_hook(run).mask(run, 0, bits, kit.n);
        constraint_feed(run, 0, i == 0 ? "{\"" : "a", i == 0 ? 2 : 1);
    }
    constraint_close(run);
    constraint_release(c);
}

// head, part n times, middle, tail n times.
static void repeat_bounded(enum constraint_kind kind, const char *head, const char *part,
                           const char *middle, const char *tail, int n, const char *end) {
    const size_t size =
        strlen(head) + strlen(middle) + strlen(end) + (size_t)n * (strlen(part) + strlen(tail)) + 1;
    char *text = malloc(size);
    strcpy(text, head);
    char *at = text + strlen(text);
    for (int i = 0; i < n; i++) at = stpcpy(at, part);
    at = stpcpy(at, middle);
    for (int i = 0; i < n; i++) at = stpcpy(at, tail);
    strcpy(at, end);
    check_bounded(kind, text, strlen(text), head);
    free(text);
}

CASE(hostile_sources_are_compiled_or_refused_by_counted_work) {
    static const char *const patterns[] = {"(a|aa)*b(a|aa)*b(a|aa)*",
                                           "(.*a){20}",
                                           "(.*.*.*.*)*",
                                           "(a?){2000}a{2000}",
                                           "[ab]*a[ab]{16}",
                                           "([ab]*a[ab]{20})",
                                           "((((a{9}){9}){9}){9}){9}",
                                           ".{0,4000}.{0,4000}",
                                           "(x+x+)+y",
                                           "[\\s\\S]{1000}(foo|[^f]){900}",
                                           "([a-z]{1,30}-){1,400}",
                                           "(a|b|c|d|e){1,4096}",
                                           "((a{0,30}){0,30}b{0,30}){0,4096}"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        check_bounded(CONSTRAINT_REGEX, patterns[i], strlen(patterns[i]), patterns[i]);
    repeat_bounded(CONSTRAINT_REGEX, "", "(", "a", ")", 64, "");
    repeat_bounded(CONSTRAINT_REGEX, "", "(", "a", ")", 100000, "");
    repeat_bounded(CONSTRAINT_REGEX, "", "(a|", "b", ")*", 60, "");
    repeat_bounded(CONSTRAINT_REGEX, "", "[^a]", "", "(b|)", 30000, "");
    repeat_bounded(CONSTRAINT_REGEX, "", "a|b", "", "", 200000, "");
    repeat_bounded(CONSTRAINT_GRAMMAR, "root ::= ", "(", "\"a\"", ")", 50000, "");
    repeat_bounded(CONSTRAINT_GRAMMAR, "root ::= ", "a ", "", "", 100000, "\na ::= [a-z]?");
    repeat_bounded(CONSTRAINT_GRAMMAR, "root ::= ", "(a | ", "a", ")", 60,
                   "\na ::= [a-z] a | a1\na1 ::= [a-z] a1 | \"\"");
    repeat_bounded(CONSTRAINT_GRAMMAR,
                   "root ::= a{1000}\na ::= b{1000}\nb ::= c{1000}\nc ::= \"a\" c? | [a]", "", "",
                   "", 1, "");
    repeat_bounded(CONSTRAINT_SCHEMA, "", "{\"items\":", "{}", "}", 60, "");
    repeat_bounded(CONSTRAINT_SCHEMA, "", "{\"items\":", "{}", "}", 5000, "");
    repeat_bounded(CONSTRAINT_SCHEMA, "{\"anyOf\":[",
                   "{\"anyOf\":[{\"minLength\":1},{\"maxLength\":2}]},", "{}", "", 2000, "]}");
    repeat_bounded(CONSTRAINT_SCHEMA, "{\"allOf\":[",
                   "{\"anyOf\":[{\"minLength\":1},{\"maxLength\":9}]},", "{}", "", 40, "]}");
    repeat_bounded(CONSTRAINT_SCHEMA, "{\"enum\":[", "\"aaaaaaaaaaaaaaaaaaaa\",", "1", ",\"b\"",
                   20000, "]}");
    repeat_bounded(CONSTRAINT_SCHEMA,
                   "{\"$defs\":{\"a\":{\"allOf\":[{\"$ref\":\"#/$defs/"
                   "a\"},{\"items\":{\"$ref\":\"#/$defs/a\"}}]}},\"$ref\":\"#/$defs/a\"}",
                   "", "", "", 1, "");
    repeat_bounded(CONSTRAINT_GRAMMAR, "start: ", "(", "A", ")+", 60, "\nA: /[a-z]/~1..9");
    repeat_bounded(CONSTRAINT_GRAMMAR, "start: start \"a\" ", "| start A ", "| A", "", 20000,
                   "\nA: \"a\"+\n%ignore A");
    repeat_bounded(CONSTRAINT_GRAMMAR, "start: A~4000\nA: B~4000\nB: ", "/x/", "", "", 100000, "");
    repeat_bounded(CONSTRAINT_SCHEMA,
                   "{\"type\":\"string\",\"pattern\":\"([ab]*a[ab]{12})\",\"minLength\":100,"
                   "\"maxLength\":900}",
                   "", "", "", 1, "");
    repeat_bounded(CONSTRAINT_CHOICES, "[\"a\"", ",\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\"", "", "",
                   20000, "]");
    char *text = malloc(1 << 20); // thousands of optional properties that share a prefix
    char *at = text + sprintf(text, "{\"properties\":{");
    for (int i = 0; i < 3000; i++)
        at += sprintf(at, "%s\"property_with_a_long_name_%d\":{\"type\":\"string\"}", i ? "," : "",
                      i);
    strcpy(at, "}}");
    check_bounded(CONSTRAINT_SCHEMA, text, strlen(text), "properties");
    at = text +
         sprintf(
             text,
             "{\"$ref\":\"#/$defs/0\",\"$defs\":{"); // a chain of references, each to the next two
    for (int i = 0; i < 4000; i++)
        at += sprintf(
            at, "\"%d\":{\"prefixItems\":[{\"$ref\":\"#/$defs/%d\"},{\"$ref\":\"#/$defs/%d\"}]},",
            i, i + 1, i + 2);
    strcpy(at, "\"4000\":{},\"4001\":{}}}");
    check_bounded(CONSTRAINT_SCHEMA, text, strlen(text), "references");
    free(text);
}

CASE(large_structures_are_bounded) {
    enum { N = 3000 };
    char *text = malloc(80 * N), *at = text;
    at += sprintf(at, "{\"type\":\"triggered_tags\",\"triggers\":[\"%0*d\"", N, 0);
    for (int i = 0; i < N; i++) at += sprintf(at, ",\"t%d\"", i);
    at += sprintf(at, "],\"tags\":[");
    for (int i = 0; i < N; i++)
        at +=
            sprintf(at, "%s{\"begin\":\"t%dx\",\"content\":{\"type\":\"any_text\"},\"end\":\"y\"}",
                    i ? "," : "", i);
    strcpy(at, "]}");
    check_bounded(CONSTRAINT_STRUCTURE, text, strlen(text), "triggers");
    at = text;
    // rules that stand before those that call them
    at += sprintf(at, "r%d ::= \"x\"\n", N);
    for (int i = N - 1; i >= 0; i--) at += sprintf(at, "r%d ::= r%d\n", i, i + 1);
    strcpy(at, "root ::= r0\n");
    struct constraint *c = kit_compile(CONSTRAINT_GRAMMAR, text);
    check(kit_accepts(c, "x", 1) && !kit_accepts(c, "a", 1), "a chain of rules");
    constraint_release(c);
    free(text);
}

// The rows of rules are kept twice: in the machine, and for other machines with the same rules.
CASE(memory_of_shared_rules_is_counted) {
    enum { N = 240 };
    char *text = malloc(400 * N), *at = text + sprintf(text, "root ::= \"a\"");
    for (int i = 0; i < N; i++) at += sprintf(at, " | \"%d\" r%d", i, i);
    for (int i = 0; i < N; i++) at += sprintf(at, "\nr%d ::= \"%0*d\"", i, 240, i);
    const struct constraint_limits limits = {.work = 1 << 30};
    struct constraint *c;
    rn_error err = {0};
    const rn_status status =
        constraint_compile(kit_vocab, CONSTRAINT_GRAMMAR, text, strlen(text), &limits, &c, &err);
    check(status == RN_ERR_ARG && strstr(err.message, "bytes"), "%s", err.message);
    free(text);
}

// 2^13 ways to write nothing, none of which has a byte.
CASE(empty_rules_that_call_each_other_are_too_ambiguous) {
    enum { N = 13 };
    char text[1000], *at = text + sprintf(text, "root ::= (\"x\" r0)* \"y\"\n");
    for (int i = 0; i < N; i++) at += sprintf(at, "r%d ::= r%d r%d\n", i, i + 1, i + 1);
    sprintf(at, "r%d ::= \"\"\n", N);
    struct constraint *c = kit_compile(CONSTRAINT_GRAMMAR, text);
    struct constraint_run *run;
    check(!constraint_open(c, 1, &run, NULL), "open");
    check(!constraint_feed(run, 0, "x", 1) && constraint_status(run, 0) == RN_ERR_AMBIGUOUS,
          "expected a failure");
    constraint_feed(run, 0, "y", 1);
    constraint_hook(run).rollback(run, 0, 1);
    check(constraint_status(run, 0) == RN_ERR_AMBIGUOUS, "the failure is that of the text");
    constraint_hook(run).rollback(run, 0, 1);
    check(constraint_feed(run, 0, "y", 1) && constraint_may_end(run, 0), "another way");
    constraint_close(run);
    constraint_release(c);
}

CASE(too_ambiguous_texts_end_with_an_error) {
    struct constraint *c = kit_compile(CONSTRAINT_REGEX, ".{0,4000}.{0,4000}.{0,4000}");
    struct constraint_run *run;
    check(!constraint_open(c, 1, &run, NULL), "open");
    uint64_t bits[(KIT_MAX_TOKENS + 63) / 64];
    for (int i = 0; i < 2000 && !constraint_failure(run, 0); i++) constraint_feed(run, 0, "a", 1);
    check(constraint_failure(run, 0), "expected a failure");
    memset(bits, 0xff, sizeof bits);
    constraint_hook(run).mask(run, 0, bits, kit.n);
    for (int i = 0; i < kit.n; i++) check(!kit_has(bits, i), "token %d", i);
    constraint_close(run);
    constraint_release(c);
}

// 257 objects, whose first names differ.
CASE(too_ambiguous_starts_are_refused) {
    char text[20000], *at = text + sprintf(text, "{\"anyOf\":[");
    for (int i = 0; i < 257; i++)
        at +=
            sprintf(at, "%s{\"properties\":{\"a%d\":{\"type\":\"string\"}},\"required\":[\"a%d\"]}",
                    i ? "," : "", i, i);
    strcpy(at, "]}");
    struct constraint *c;
    rn_error err = {0};
    const rn_status status =
        constraint_compile(kit_vocab, CONSTRAINT_SCHEMA, text, strlen(text), NULL, &c, &err);
    check(status == RN_ERR_ARG && !c && strstr(err.message, "ambiguous"), "%d: %s", (int)status,
          err.message);
}

static int open_kit(void **state) {
    kit_open(pieces, N_PIECES, 300);
    return 0;
}
static int close_kit(void **state) {
    kit_close();
    return 0;
}

TEST_PROGRAM(constraint) { return cases_run(open_kit, close_kit); }

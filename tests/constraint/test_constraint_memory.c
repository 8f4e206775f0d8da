// Every allocation fails once: calls fail with a status or a failure, and nothing leaks.
#include "failing_malloc.h"
#include "kit.h"

static const char *const pieces[] = {"{\"", "a", "\":", "\"}", "bc", "[1", "]"};

static const struct source {
    enum constraint_kind kind;
    const char *text;
} sources[] = {
    {CONSTRAINT_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":40},"
     "\"b\":{\"minimum\":2}},\"patternProperties\":{\"^x\":{}}}"},
    {CONSTRAINT_GRAMMAR,
     "start: A | start \"+\" A~40..50\nA: /[a-z]/i | \"1\"..\"9\"\n%ignore \" \""},
    {CONSTRAINT_GRAMMAR, "root ::= \"{\" (root | [a-z]{0,60})? \"}\""},
    {CONSTRAINT_CHOICES, "[\"a\",\"{b\"]"},
    {CONSTRAINT_STRUCTURE, "{\"type\":\"triggered_tags\",\"triggers\":[\"<call>\",\"ab\"],\"tags\":"
                           "[{\"begin\":\"<call>x\","
                           "\"content\":{\"type\":\"json_schema\",\"style\":\"qwen_xml\",\"json_"
                           "schema\":{\"properties\":{"
                           "\"a\":{\"type\":\"string\",\"maxLength\":9}}}},\"end\":\"</call>\"}]}"},
};

// All of a constraint's life; true where something failed.
static bool live_once(const struct source *source) {
    struct constraint_vocab *vocab;
    struct constraint *c;
    struct constraint_run *run;
    rn_error err = {0};
    if (constraint_vocab_create(kit.n, kit_token, NULL, &vocab, &err)) {
        assert_int_equal(err.status, RN_ERR_NOMEM);
        return true;
    }
    bool failed = true;
    if (constraint_compile(vocab, source->kind, source->text, strlen(source->text), NULL, &c,
                           &err)) {
        assert_int_equal(err.status, RN_ERR_NOMEM);
        assert_null(c);
    } else if (constraint_open(c, 2, &run, &err)) {
        assert_int_equal(err.status, RN_ERR_NOMEM);
        constraint_release(c);
    } else {
        constraint_release(c);
        for (int i = 0; i < 4; i++) {
            uint64_t bits[(KIT_MAX_TOKENS + 63) / 64];
            memset(bits, 0xff, sizeof bits);
            constraint_hook(run).mask(run, 1, bits, kit.n);
            constraint_feed(run, 1, "{\"a\"" + i, 1);
        }
        failed = constraint_failure(run, 1) != NULL;
        constraint_close(run);
    }
    constraint_vocab_release(vocab);
    return failed;
}

CASE(every_allocation_may_fail) {
    kit_open(pieces, sizeof pieces / sizeof *pieces, 100);
    kit_close();
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        const long before = live;
        long n = 0;
        for (bool ended = false; !ended; n++) {
            fail_at = n;
            live_once(&sources[i]);
            ended = fail_at >= 0; // none was left to fail
            fail_at = -1;
            check(live == before, "allocation %ld: %ld blocks are left", n, live - before);
        }
        check(!live_once(&sources[i]), "without a failure");
        check(n > 40, "%ld allocations", n);
    }
}

// Unused frames are dropped along the text. Two allocations come before; a third would fail.
CASE(a_collection_takes_no_memory_halfway) {
    static const char source[] = ".{0,200}.{0,200}";
    struct constraint_vocab *vocab;
    struct constraint *c;
    struct constraint_run *run;
    kit_open(pieces, sizeof pieces / sizeof *pieces, 100);
    kit_close();
    check(!constraint_vocab_create(kit.n, kit_token, NULL, &vocab, NULL), "vocab");
    check(!constraint_compile(vocab, CONSTRAINT_REGEX, source, strlen(source), NULL, &c, NULL),
          "compile");
    check(!constraint_open(c, 1, &run, NULL), "open");
    for (int i = 0; i < 400; i++) {
        if (i > 150) fail_at = 2; // tables grow together before
        const bool fits = constraint_feed(run, 0, "a", 1);
        fail_at = -1;
        check(fits && !constraint_failure(run, 0), "character %d", i);
    }
    check(constraint_may_end(run, 0) && !constraint_feed(run, 0, "a", 1), "the end");
    constraint_close(run);
    constraint_release(c);
    constraint_vocab_release(vocab);
}

TEST_PROGRAM(constraint_memory) { return cases_run(NULL, NULL); }

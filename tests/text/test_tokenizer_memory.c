// Every allocation of create and encode is made to fail once: each failure is reported, nothing
// leaks (a leak is seen by count), and the next call works.
#include "check.h"

#include "text/guard.h"
#include "text/vocab_build.h"

#include "failing_malloc.h"

// Everything that takes memory: merges, whole words, added tokens, expressions, normalization.
static struct vocab_build *build_some(enum vocab_model model) {
    struct vocab_build *const build = build_create();
    build->source.model = model;
    if (model == VOCAB_BYTE_LEVEL)
        build_bytes(build);
    else
        build_byte_tokens(build);
    build_scored(build, "ab", -1);                       // 256
    build_token(build, span("<s>"), TOKEN_CONTROL);      // 257
    build_token(build, span("<u>"), TOKEN_USER_DEFINED); // 258
    build_scored(build, "a", -2);                        // 259
    build_scored(build, "b", -3);                        // 260
    build_token(build, span("<n>"), TOKEN_CONTROL);      // 261
    build_merge(build, "a b");
    build_normalizer(build, NORMAL_NFC, "", "");
    build_normalizer(build, NORMAL_REPLACE, "\t", "  ");
    build_normalizer(build, NORMAL_REPLACE_REGEX, "[\\v]", " ");
    build_split(build, SPLIT_LITERAL, SPLIT_ISOLATED, false, "--");
    build_split(build, SPLIT_REGEX, SPLIT_ISOLATED, false, "\\w+|\\W");
    build_added(build, 258, "<u>")->normalized = true;
    struct vocab_added *const added = build_added(build, 261, "<n>");
    added->special = added->normalized = true;
    build->source.bos = build->source.eos = 257;
    build->source.add_bos = build->source.add_eos = true;
    build->source.ignore_merges = true;
    return build;
}

// Some memory is asked for and done without: by the C library's sort, by PCRE2's JIT, for the
// cache.
CASE(create_reports_each_failed_allocation_and_frees_the_rest) {
    for (int model = VOCAB_BYTE_LEVEL; model <= VOCAB_SPM_RANK; model++) {
        struct vocab_build *const build = build_some((enum vocab_model)model);
        const long before = live;
        int failures = 0;
        bool failed = true;
        for (long at = 0; failed; at++) {
            struct tokenizer *tokenizer = NULL;
            rn_error err = {0};
            fail_at = at;
            const rn_status status = tokenizer_create(&build->source, &tokenizer, &err);
            failed = fail_at < 0;
            fail_at = -1;
            if (status == RN_OK) {
                tokenizer_destroy(tokenizer);
            } else {
                failures++;
                assert_null(tokenizer);
                assert_int_equal(status, RN_ERR_NOMEM);
                assert_int_equal(err.status, RN_ERR_NOMEM);
            }
            assert_int_equal(live, before);
        }
        assert_true(failures > 10);
        free(build);
    }
}

static void text_fill(char *text, size_t len) { // long words, more ids than a first list holds
    for (size_t i = 0; i < len; i++) text[i] = "cdefgh"[i % 6];
    memcpy(text + 100, " <s> ", 5);
    memcpy(text + 500, "e\u0301\t--\v", 7);
    memcpy(text + 2000, " <u> ", 5);
    memcpy(text + 2500, " <" GUARD_TEXT "s>\t <" GUARD_TEXT "n>", 14);
    memset(text + 3000, '\xFF', 10);
}

CASE(encode_reports_each_failed_allocation_and_keeps_the_list) {
    for (int model = VOCAB_BYTE_LEVEL; model <= VOCAB_SPM_RANK; model++) {
        struct vocab_build *const build = build_some((enum vocab_model)model);
        struct tokenizer *tokenizer = NULL;
        assert_int_equal(tokenizer_create(&build->source, &tokenizer, NULL), RN_OK);
        char text[4000];
        text_fill(text, sizeof text);
        const long before = live;
        int failures = 0;
        bool failed = true;
        for (long at = 0; failed; at++) {
            struct token_list list = {0};
            assert_int_equal(tokenizer_encode(tokenizer, "ab", 2, 0, &list, NULL), RN_OK);
            fail_at = at;
            const rn_status status =
                tokenizer_encode(tokenizer, text, sizeof text,
                                 ENCODE_BOS | ENCODE_SPECIAL | ENCODE_GUARDED, &list, NULL);
            failed = fail_at < 0;
            fail_at = -1;
            if (status != RN_OK) {
                failures++;
                assert_int_equal(status, RN_ERR_NOMEM);
                assert_int_equal(list.count, 1);
                assert_int_equal(list.id[0], 256);
            }
            token_list_deinit(&list);
            assert_int_equal(live, before);
        }
        assert_true(failures > 8);
        tokenizer_destroy(tokenizer);
        free(build);
    }
}

CASE(guards_report_each_failed_allocation) {
    struct vocab_build *const build = build_some(VOCAB_BYTE_LEVEL);
    struct tokenizer *tokenizer = NULL;
    assert_int_equal(tokenizer_create(&build->source, &tokenizer, NULL), RN_OK);
    char text[4000];
    text_fill(text, sizeof text);
    const long before = live;
    rn_status status = RN_ERR_NOMEM;
    long n = 0;
    for (; status != RN_OK; n++) {
        struct text_buffer out = {0};
        fail_at = n;
        status = guard_put(tokenizer, text, sizeof text, &out, NULL);
        fail_at = -1;
        assert_true(status == RN_OK || status == RN_ERR_NOMEM);
        text_buffer_deinit(&out);
        assert_int_equal(live, before);
    }
    assert_true(n > 4);
    tokenizer_destroy(tokenizer);
    free(build);
}

TEST_PROGRAM(tokenizer_memory) { return cases_run(NULL, NULL); }

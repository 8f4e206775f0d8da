// Every allocation of create and encode is made to fail once: each failure is reported, nothing
// leaks (a leak is seen by count), and the next call works. Sanitizers bring their own allocator;
// under them there is nothing to test here.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "text/vocab_build.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
int main(void) { return 0; }
#else

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void __libc_free(void *memory);

static long fail_at = -1; // allocations until the one that fails; below 0: none does
static long live;         // blocks that are not freed yet

static bool fails(void) { return fail_at >= 0 && fail_at-- == 0; }

void *malloc(size_t bytes) {
    void *const memory = fails() ? NULL : __libc_malloc(bytes);
    live += memory != NULL;
    return memory;
}

void *calloc(size_t count, size_t bytes) {
    void *const memory = fails() ? NULL : __libc_calloc(count, bytes);
    live += memory != NULL;
    return memory;
}

void *realloc(void *memory, size_t bytes) {
    void *const moved = fails() ? NULL : __libc_realloc(memory, bytes);
    live += moved != NULL && memory == NULL;
    return moved;
}

void free(void *memory) {
    live -= memory != NULL;
    __libc_free(memory);
}

static struct vocab_build *build_some(void) {
    struct vocab_build *const build = build_create();
    build_bytes(build);
    build_normal(build, "ab");
    build_token(build, span("<s>"), TOKEN_CONTROL);
    build_token(build, span("<u>"), TOKEN_USER_DEFINED);
    build_merge(build, "a b");
    build->source.bos = build->source.eos = 257;
    build->source.add_bos = build->source.add_eos = true;
    return build;
}

static void create_reports_each_failed_allocation_and_frees_the_rest(void **state) {
    (void)state;
    struct vocab_build *const build = build_some();
    const long before = live;
    rn_status status = RN_ERR_NOMEM;
    int failures = 0;
    for (; status != RN_OK; failures++) {
        struct tokenizer *tokenizer = NULL;
        rn_error err = {0};
        fail_at = failures;
        status = tokenizer_create(&build->source, &tokenizer, &err);
        const bool failed = fail_at < 0;
        fail_at = -1;
        // the C library's sort asks for memory too and does without it
        if (status == RN_OK && failed) status = RN_ERR_FULL;
        if (tokenizer) {
            tokenizer_destroy(tokenizer);
        } else {
            assert_int_equal(status, RN_ERR_NOMEM);
            assert_int_equal(err.status, RN_ERR_NOMEM);
        }
        assert_int_equal(live, before);
    }
    assert_true(failures > 3);
    free(build);
}

static void encode_reports_each_failed_allocation_and_keeps_the_list(void **state) {
    (void)state;
    struct vocab_build *const build = build_some();
    struct tokenizer *tokenizer = NULL;
    assert_int_equal(tokenizer_create(&build->source, &tokenizer, NULL), RN_OK);
    char text[4000]; // long words, specials, more ids than a first list holds
    for (size_t i = 0; i < sizeof text; i++) text[i] = "cdefgh"[i % 6];
    memcpy(text + 100, " <s> ", 5);
    memcpy(text + 2000, " <u> ", 5);
    const long before = live;
    rn_status status = RN_ERR_NOMEM;
    int failures = 0;
    for (; status != RN_OK; failures++) {
        struct token_list list = {0};
        assert_int_equal(tokenizer_encode(tokenizer, "ab", 2, 0, &list, NULL), RN_OK);
        fail_at = failures;
        status = tokenizer_encode(tokenizer, text, sizeof text, ENCODE_BOS | ENCODE_SPECIAL, &list,
                                  NULL);
        fail_at = -1;
        if (status != RN_OK) {
            assert_int_equal(status, RN_ERR_NOMEM);
            assert_int_equal(list.count, 1);
            assert_int_equal(list.id[0], 256);
        }
        token_list_deinit(&list);
        assert_int_equal(live, before);
    }
    assert_true(failures > 3);
    tokenizer_destroy(tokenizer);
    free(build);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_reports_each_failed_allocation_and_frees_the_rest),
        cmocka_unit_test(encode_reports_each_failed_allocation_and_keeps_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif

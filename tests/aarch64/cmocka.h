// A stand-in for the part of cmocka that the backend's tests use, so that their cross build links
// libc alone. First on the include path of that build only; the names and the meaning are cmocka's.
// A failed assertion leaves its test by longjmp, prints where, and makes the exit status the number
// of failed tests.
#ifndef RN_TESTS_AARCH64_CMOCKA_H
#define RN_TESTS_AARCH64_CMOCKA_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

enum { STAND_IN_FAILED = 1, STAND_IN_SKIPPED = 2 };

static jmp_buf stand_in_return; // of the test that runs

#define cmocka_unit_test(function)                                                                 \
    { #function, function }
#define cmocka_unit_test_setup_teardown(function, setup, teardown) cmocka_unit_test(function)
// Not here: the runner was asked for a file, and all its cases run.
#define cmocka_set_test_filter(pattern) ((void)(pattern))
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    stand_in_run(tests, sizeof(tests) / sizeof *(tests))
#define _cmocka_run_group_tests(name, tests, n, setup, teardown)                                   \
    ((void)(name), (void)(setup), (void)(teardown), stand_in_run(tests, n))

#define print_error(...) fprintf(stderr, __VA_ARGS__)
#define fail()           longjmp(stand_in_return, STAND_IN_FAILED)
#define skip()           longjmp(stand_in_return, STAND_IN_SKIPPED)
#define fail_msg(...)                                                                              \
    do {                                                                                           \
        print_error("%s:%d: ", __FILE__, __LINE__);                                                \
        print_error(__VA_ARGS__);                                                                  \
        print_error("\n");                                                                         \
        fail();                                                                                    \
    } while (0)

#define assert_true(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) fail_msg("expected: %s", #condition);                                    \
    } while (0)
#define assert_false(condition)  assert_true(!(condition))
#define assert_null(pointer)     assert_true((pointer) == NULL)
#define assert_non_null(pointer) assert_true((pointer) != NULL)
#define assert_ptr_equal(a, b)   assert_true((const void *)(a) == (const void *)(b))
#define assert_int_equal(a, b)   stand_in_ints((intmax_t)(a), (intmax_t)(b), true, __FILE__, __LINE__)
#define assert_int_not_equal(a, b)                                                                 \
    stand_in_ints((intmax_t)(a), (intmax_t)(b), false, __FILE__, __LINE__)
#define assert_string_equal(a, b)            assert_true(strcmp(a, b) == 0)
#define assert_memory_equal(a, b, bytes)     stand_in_memory(a, b, bytes, true, __FILE__, __LINE__)
#define assert_memory_not_equal(a, b, bytes) stand_in_memory(a, b, bytes, false, __FILE__, __LINE__)

static inline void stand_in_ints(intmax_t a, intmax_t b, bool equal, const char *file, int line) {
    if ((a == b) == equal) return;
    print_error("%s:%d: %jd %s %jd\n", file, line, a, equal ? "is not" : "is", b);
    fail();
}

static inline void stand_in_memory(const void *a, const void *b, size_t bytes, bool equal,
                                   const char *file, int line) {
    if ((memcmp(a, b, bytes) == 0) == equal) return;
    size_t at = 0;
    while (equal && ((const char *)a)[at] == ((const char *)b)[at]) at++;
    print_error("%s:%d: %zu bytes are %s", file, line, bytes, equal ? "not equal" : "equal");
    if (equal) print_error(", from %zu on", at);
    print_error("\n");
    fail();
}

static inline double stand_in_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// 0, or how the test left.
static inline int stand_in_result(void (*run)(void **state)) {
    void *state = NULL;
    switch (setjmp(stand_in_return)) {
    case 0:
        run(&state);
        return 0;
    case STAND_IN_SKIPPED:
        return STAND_IN_SKIPPED;
    default:
        return STAND_IN_FAILED;
    }
}

static inline int stand_in_run(const struct CMUnitTest *tests, size_t n) {
    static const char *const words[] = {"ok", "FAILED", "skipped"};
    int count[3] = {0};
    for (size_t i = 0; i < n; i++) {
        const double begin = stand_in_seconds();
        const int result = stand_in_result(tests[i].run);
        count[result]++;
        printf("%-8s %s (%.1f s)\n", words[result], tests[i].name, stand_in_seconds() - begin);
        fflush(stdout);
    }
    printf("%d passed, %d failed, %d skipped\n", count[0], count[1], count[2]);
    return count[STAND_IN_FAILED];
}

#endif

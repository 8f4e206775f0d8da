// Every test file includes this: cmocka in the order it needs, the head of the file's own function,
// and failure messages that name the case.
#ifndef RN_TESTS_CHECK_H
#define RN_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Few cases use cmocka's `state`, and callbacks of tests have parameters for others.
#pragma GCC diagnostic ignored "-Wunused-parameter"

// The last function of the file test_NAME.c: `TEST_PROGRAM(NAME) { ... }` runs its cases and
// returns how many failed. A runner (runner.c) holds the files of a module.
#define TEST_PROGRAM(name)                                                                         \
    int test_file_##name(void);                                                                    \
    int test_file_##name(void)

// A case: `CASE(pages_come_back) { ... }`. Its parameter is cmocka's state, which most cases do not
// need. `TEST_PROGRAM(NAME) { return cases_run(setup, teardown); }` runs all cases of the file, in
// the order of their lines. CASE_WITH has functions that run before and after the case.
#define CASE(name) CASE_WITH(name, NULL, NULL)
#define CASE_WITH(name, setup, teardown)                                                           \
    static void name(void **state);                                                                \
    static const struct test_case case_of_##name = {__BASE_FILE__, __LINE__,                       \
                                                    cmocka_unit_test_setup_teardown(name, setup,   \
                                                                                    teardown)};    \
    static const struct test_case *const listed_##name                                             \
        __attribute__((used, section("test_cases"))) = &case_of_##name;                            \
    static void name(void **state)

struct test_case {
    const char *file;
    int line;
    struct CMUnitTest test;
};

// The cases of all files of a runner: the linker names the ends of the section.
extern const struct test_case *const __start_test_cases[] __attribute__((weak));
extern const struct test_case *const __stop_test_cases[] __attribute__((weak));

static inline int cases_run_file(const char *file, int (*setup)(void **),
                                 int (*teardown)(void **)) {
    enum { MAX_CASES = 64 };
    struct CMUnitTest tests[MAX_CASES];
    int line[MAX_CASES], n = 0;
    for (const struct test_case *const *at = __start_test_cases; at < __stop_test_cases; at++) {
        if (strcmp((*at)->file, file) != 0) continue;
        if (n == MAX_CASES) {
            print_error("%s: more than %d cases\n", file, MAX_CASES);
            return 1;
        }
        int to = n++;
        for (; to > 0 && line[to - 1] > (*at)->line; to--) {
            line[to] = line[to - 1];
            tests[to] = tests[to - 1];
        }
        line[to] = (*at)->line;
        tests[to] = (*at)->test;
    }
    if (n == 0) {
        print_error("%s: no cases\n", file);
        return 1;
    }
    return _cmocka_run_group_tests(file, tests, (size_t)n, setup, teardown);
}
#define cases_run(setup, teardown) cases_run_file(__BASE_FILE__, setup, teardown)

// Sanitizers and emulators make everything slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(TEST_EMULATED)
enum { TEST_IS_SLOW = 1 };
#else
enum { TEST_IS_SLOW = 0 };
#endif

// The thread sanitizer looks for races: work of one thread, and other numbers in the same code, are
// left to the others.
#if defined(__SANITIZE_THREAD__)
enum { TEST_FOR_RACES = 1 };
#else
enum { TEST_FOR_RACES = 0 };
#endif

// Whether everything is to be tried, as `make test-all` asks for by TEST_ALL; `make test` takes a
// part where a file says so.
static inline bool test_is_whole(void) { return !TEST_IS_SLOW && getenv("TEST_ALL"); }

// A number of cases: where everything is slow, in `make test`, in `make test-all`.
static inline int test_scale(int slow, int quick, int whole) {
    return TEST_IS_SLOW ? slow : test_is_whole() ? whole : quick;
}

// Fails with a formatted message.
#define check(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            print_error("%s:%d: %s: ", __FILE__, __LINE__, #condition);                            \
            print_error(__VA_ARGS__);                                                              \
            print_error("\n");                                                                     \
            fail();                                                                                \
        }                                                                                          \
    } while (0)

static inline void check_near(double got, double want, double within) {
    check(got - want <= within && want - got <= within, "%.17g instead of %.17g", got, want);
}

#endif

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

#include <cmocka.h>

// The last function of the file test_NAME.c: `TEST_PROGRAM(NAME) { ... }` runs its cases and
// returns how many failed. A runner (runner.c) holds the files of a module.
#define TEST_PROGRAM(name)                                                                         \
    int test_file_##name(void);                                                                    \
    int test_file_##name(void)

// Whether everything is to be tried, as `make test-all` asks for by TEST_ALL; `make test` takes a
// part where a file says so. Sanitizers, which make everything slower, take less.
static inline bool test_is_whole(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#else
    return getenv("TEST_ALL") != NULL;
#endif
}

// A number of cases: under a sanitizer, in `make test`, in `make test-all`.
static inline int test_scale(int sanitizer, int quick, int whole) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)quick, (void)whole;
    return sanitizer;
#else
    (void)sanitizer;
    return test_is_whole() ? whole : quick;
#endif
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

#endif

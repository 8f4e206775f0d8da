// Every test file includes this: cmocka in the order it needs, the head of the file's own function,
// and failure messages that name the case.
#ifndef RN_TESTS_CHECK_H
#define RN_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// The last function of the file test_NAME.c: `TEST_PROGRAM(NAME) { ... }` runs its cases and
// returns how many failed. A runner (runner.c) holds the files of a module.
#define TEST_PROGRAM(name)                                                                         \
    int test_file_##name(void);                                                                    \
    int test_file_##name(void)

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

// What every test program includes: cmocka in the order it needs, and failure messages that name
// the case.
#ifndef RN_TESTS_CHECK_H
#define RN_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

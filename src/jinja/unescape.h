// The escapes of string literals, as Python's unicode-escape codec reads them: unknown ones stay as
// they are. Named characters (\N{...}) and halves of surrogate pairs are refused.
#ifndef RN_JINJA_UNESCAPE_H
#define RN_JINJA_UNESCAPE_H

#include "base/arena.h"

#include <stdbool.h>

// Text that grows by doubling; start from {.arena = ...}.
struct unescape {
    struct arena *arena;
    char *data;
    size_t len, cap;
    const char *error; // a literal
};

// Appends the literal between its quotes; false with `error` set when it is wrong.
bool unescape_add(struct unescape *u, const char *text, size_t len);

#endif

// The words of Lark's grammar files. Internal to lark.c and its bodies.
#ifndef RN_CONSTRAINT_LARK_LEX_H
#define RN_CONSTRAINT_LARK_LEX_H

#include "constraint/source.h"

enum lark_word {
    LARK_END,       // of the source
    LARK_LINE,      // the end of a line that no "|" continues
    LARK_STRING,    // with its quotes; a flag may be behind it
    LARK_REGEXP,    // with its slashes and flags
    LARK_RULE,      // a name in lower case
    LARK_TERMINAL,  // a name in upper case
    LARK_NUMBER,    // digits
    LARK_DIRECTIVE, // "%" and a name
    LARK_RANGE,     // ".."
    LARK_ARROW,     // "->"
    LARK_MARK,      // one of the other characters
};

struct lark_token {
    enum lark_word word;
    size_t at, end; // offsets
    uint8_t mark;   // of LARK_MARK
};

// The word at a place or behind it. False: an error.
bool lark_next(const struct source *source, size_t at, struct lark_token *out);

#endif

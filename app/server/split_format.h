// The formats of split.c: what surrounds reasoning and calls, and how a call is written.
#ifndef RN_SERVER_SPLIT_FORMAT_H
#define RN_SERVER_SPLIT_FORMAT_H

#include "split.h"

enum { SPLIT_MAX_MARKS = 4 };

// Arguments one by one, each between tags. The name comes first.
struct tag_style {
    const char *name_open, *name_close; // name_close NULL: the name ends with its line, or at a tag
    const char *key_open, *key_close;
    const char *value_open, *value_close; // value_open "": a line break inside of the tags is not
                                          // part of the value
    const char *end;                      // of the call
};

struct tool_style {
    const char *open[SPLIT_MAX_MARKS];  // a call begins
    const char *inner[SPLIT_MAX_MARKS]; // may follow it before the call's own text
    const char *close[SPLIT_MAX_MARKS]; // dropped behind a call
    const char *separator;              // "name separator {arguments}"; NULL: not written so
    const struct tag_style *tags;       // NULL: not written so
    bool bare; // a JSON object at the answer's beginning is a call, too; several with ';' between
};

struct reasoning_style {
    const char *open, *close; // NULL: the model has none
};

struct split_format {
    const struct reasoning_style *reasoning;
    const struct tool_style *tools;
    bool harmony; // messages with channels; the other two are empty
};

// --- split_call.c ---

enum verdict {
    CALL_MORE, // not complete
    CALL_GOOD, // *end is behind it
    CALL_BAD,  // *end is behind what was looked at
};

// Reads the text behind an opening mark. A good call, or several, are let out.
enum verdict split_call_read(struct split *split, const char *text, size_t len, size_t *end,
                             split_fn fn, void *ctx);
// A call whose name and arguments are known. False: the arguments are not a JSON object.
bool split_call_put(struct split *split, const char *name, size_t name_len, const char *arguments,
                    size_t len, split_fn fn, void *ctx);

static inline bool split_is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

#endif

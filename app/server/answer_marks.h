// The markup of an answer: the marks around reasoning and tool calls, and the form of a call. It
// is found once, from the model's chat template. A struct of zeros is no markup.
#ifndef RN_SERVER_ANSWER_MARKS_H
#define RN_SERVER_ANSWER_MARKS_H

#include <stdbool.h>
#include <stddef.h>

#include "runnel.h"

enum { MARKS_MAX = 6 }; // of a list, which ends with NULL

// Arguments one by one, each between tags. The name comes first.
struct tag_marks {
    const char *name_open, *name_close; // name_close NULL: the name ends with its line, or at a tag
    const char *key_open, *key_close;
    const char *text_close; // in the place of key_close, before a value that is a string; NULL: not
                            // told apart
    const char *value_open, *value_close; // value_open "": a line break inside of the tags is not
                                          // part of the value
    const char *end;                      // of the call
};

struct tool_marks {
    const char *open[MARKS_MAX];  // a call starts
    const char *inner[MARKS_MAX]; // may follow it before the call's own text
    const char *close[MARKS_MAX]; // dropped behind a call
    const char *separator;        // "name separator {arguments}"; NULL: not written so
    const struct tag_marks *tags; // NULL: not written so
    const char *quote; // "name{key:value, ...}", this around strings; NULL: not written so
    bool bare;   // a JSON object at the answer's beginning is a call, too; several with ';' between
    bool python; // "[name(key=value, ...), ...]" with Python's literals is a call, too
    bool lines;  // calls follow each other without a mark, up to close[0]
    bool keyed;  // JSON is {name: arguments}
    bool in_reasoning; // a call may come before the reasoning is closed
};

struct reasoning_marks {
    const char *open, *close;     // NULL: the model has none
    const char *stray[MARKS_MAX]; // dropped within content
    bool again;                   // reasoning may also start within content
};

// Marks around the content. The opening one is dropped where the answer starts, then the closing
// one.
struct wrap_marks {
    const char *open, *close; // NULL: the model has none
    bool is_token;            // the prompt may have the opening one
};

struct answer_marks {
    struct reasoning_marks reasoning;
    struct tool_marks tools;
    struct wrap_marks wrap;
    // the marks that the answer starts with where the model does not close its reasoning: those of
    // calls first, [n_calls] of them
    const char *answer[MARKS_MAX + 2];
    int n_calls;
    bool harmony;      // messages with channels; the others are empty
    bool knows_effort; // the template tells the model how much to think
};

// A template without known markup, or NULL, has no marks: its answers are content alone.
struct answer_marks answer_marks_of(const char *tmpl);
// Whether the engine is to show special tokens: marks are such tokens in many models, and a token
// that is not shown is never found. Other special tokens that a model writes are content then;
// tokens that end an answer are never shown. tools: the request has tools.
bool answer_marks_special(const struct answer_marks *marks, bool tools);
// Whether an answer to this prompt starts inside of the reasoning, as with templates that open it.
bool answer_marks_opened(const struct answer_marks *marks, const char *prompt, size_t len);

// Whether the prompt has closed the reasoning, as templates do that are told not to think.
bool answer_marks_closed(const struct answer_marks *marks, const char *prompt, size_t len);

// The marks that end the reasoning besides the closing one, NULL behind the last. tools: the
// request has tools.
static inline const char *const *answer_marks_ends(const struct answer_marks *marks, bool tools) {
    return marks->answer + (tools ? 0 : marks->n_calls);
}

// The bound on the reasoning of an answer, without its budget; false: the model has no marks for
// it. opened: the prompt has opened the reasoning. The marks are borrowed.
bool answer_marks_bound(const struct answer_marks *marks, bool opened, bool tools,
                        rn_reasoning *out);

static inline bool answer_is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// Where the text goes on behind blanks.
static inline const char *answer_blanks_end(const char *at, const char *end) {
    while (at < end && answer_is_blank(*at)) at++;
    return at;
}

// Takes a character behind blanks; false: another one stands there, or nothing. Blanks are gone.
static inline bool answer_take(const char **at, const char *end, char c) {
    *at = answer_blanks_end(*at, end);
    if (*at == end || **at != c) return false;
    ++*at;
    return true;
}

#endif

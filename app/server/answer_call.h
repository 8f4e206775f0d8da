// One tool call on its way out of an answer: the state that answer_parts.h keeps for the readers of
// calls (answer_calls.h). A reader takes tokens from the front of the held text and puts the JSON
// of the arguments. A call is let out from its first value on: its name, then its arguments in
// pieces. A piece ends behind a value, or behind a character of a string. So the pieces joined are
// always the start of a JSON object, which clients can complete. Text since the last piece is held;
// where it turns out to be no part of a call, it is content.
#ifndef RN_SERVER_ANSWER_CALL_H
#define RN_SERVER_ANSWER_CALL_H

#include "answer_json.h"
#include "jbuf.h"

enum { CALL_NAME_MAX = 256 }; // bytes

enum call_verdict {
    CALL_MORE, // the text ends too early
    CALL_GOOD,
    CALL_BAD, // no call continues so
};

// A value as Python writes it, up to its end (answer_literals.h).
struct literal_scan {
    size_t at; // of its text
    int depth; // of brackets
    bool in_string, escaped, is_triple;
    char quote;
};

// A value in another notation that becomes JSON token by token.
struct literal {
    bool in_string, is_triple;
    char quote;
    bool comma; // one was read; it is put before the next value
    struct literal_scan scan;
};

// A call as an object {"name": ..., "arguments": ...} (answer_objects.h).
struct call_object {
    struct json_walk walk;   // of all that is around the arguments
    char key[CALL_NAME_MAX]; // of the member that is read
    size_t key_len;          // more than it has room for: too long
    int role;                // of that member
    int n_members;
    bool is_list;   // the objects are items of an array
    bool is_nested; // the members are those of {"function": {...}}
    bool is_keyed;  // the call is {name: arguments}
    bool has_arguments;
};

// A value between tags (answer_tags.h).
struct call_tag {
    const json_t *types; // of the function's parameters
    unsigned kinds;      // of the value
    bool is_string;      // it is a string, and is let out as it comes
    bool has_walk;       // a byte of it was no blank
    struct json_walk walk;
};

struct parts_call {
    int form, state; // of answer_calls.c; of the form's reader
    size_t at;       // bytes of the held text that were read
    size_t scan;     // bytes behind them that were looked at, and end no token
    int n_calls;     // let out by this reader
    // the call that is read
    char name[CALL_NAME_MAX];
    size_t name_len;       // 0: not known yet
    struct json_walk walk; // of its arguments
    struct jbuf text;      // of its arguments, not let out yet
    size_t put_at;         // bytes of the held text up to the token that they end with
    size_t safe_text;      // bytes of them that may be let out
    size_t safe_at;        // and the bytes of the held text that they stand for
    int tool;              // its number
    bool is_open;          // its name was let out
    bool is_complete;      // its arguments are whole
    // of the forms
    struct jbuf json; // a token as JSON
    struct literal literal;
    struct call_object object;
    struct call_tag tag;
    bool is_list; // of Python's calls
};

#endif

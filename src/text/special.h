// The tokens that a text is searched for before it is split into words: control, user-defined and
// other added ones. Immutable; borrows the strings.
#ifndef RN_TEXT_SPECIAL_H
#define RN_TEXT_SPECIAL_H

#include "text/tokenizer.h"

enum special_rule {
    SPECIAL_LSTRIP = 1,      // takes the white space before it
    SPECIAL_RSTRIP = 2,      // and behind it
    SPECIAL_SINGLE_WORD = 4, // only where no word character touches it
};

struct special {
    struct text_span text;
    int32_t id;
    unsigned rules;
    bool is_control;
};

// Places in a text that no control token may cover (guard.h).
struct guard_view {
    const size_t *at; // [count] ascending
    size_t count;
    size_t base; // the text begins there
};

struct special_set {
    struct special *item; // sorted by text, no text twice, none empty
    uint32_t first[257];  // items whose text begins with byte b: first[b] up to first[b + 1]
    bool starts[256];     // whether there are any
    size_t count;
};

// Takes count specials in any order and keeps the array; among equal texts the lowest id stays.
void special_init(struct special_set *set, struct special *item, size_t count);

struct special_match {
    size_t begin, end; // with the white space that it takes
    int32_t id;
};

// The first special at `from` or behind it, and the longest at its place; false: none. Never takes
// text before `from`. A control token with a guard inside of it is skipped; if it is a single
// character, it is skipped with two guards behind it.
bool special_next(const struct special_set *set, const char *text, size_t len, size_t from,
                  struct guard_view guards, struct special_match *match);

// The specials of the set at the start of text (len at least 1).
struct special_reach {
    bool is_there;   // a special stands there
    size_t shortest; // its length, of the shortest one
    bool goes_on;    // the text ends inside of a special that begins there
};
struct special_reach special_reach(const struct special_set *set, const char *text, size_t len);

#endif

// The tokens that a text is searched for before it is split into words: control and user-defined
// ones. Immutable; borrows the strings.
#ifndef RN_TEXT_SPECIAL_H
#define RN_TEXT_SPECIAL_H

#include "text/tokenizer.h"

struct special {
    struct text_span text;
    int32_t id;
};

struct special_set {
    struct special *item; // sorted by text, no text twice, none empty
    uint32_t first[257];  // items whose text begins with byte b: first[b] up to first[b + 1]
};

// Takes count specials in any order and keeps the array; of equal texts the lowest id stays.
void special_init(struct special_set *set, struct special *item, size_t count);

// The longest special at the start of text (len at least 1), or NULL.
const struct special *special_find(const struct special_set *set, const char *text, size_t len);

#endif

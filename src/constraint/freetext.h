// Free text and the strings that end it. Strings of a source name special tokens: where a string
// contains the text of a special token of the vocabulary, that token is meant.
#ifndef RN_CONSTRAINT_FREETEXT_H
#define RN_CONSTRAINT_FREETEXT_H

#include "constraint/grammar.h"

// A string that free text runs into.
struct text_mark {
    const char *text;
    size_t len;
    const struct node *then; // what comes behind it; NULL: the string is forbidden
    bool is_end;             // the node ends behind `then`; else the text continues
};

// Any text, and with `specials` any special token, up to the first string of the list. A string
// with special tokens does not come in plain tokens either: a reader of the text cannot tell them
// apart. Empty strings are passed over. Where several strings end at the same place, each of them
// may be meant. may_end: the text may also end before it meets one.
const struct node *node_free_text(struct grammar *g, const struct text_mark *mark, size_t n,
                                  bool may_end, bool specials);

// A string with the special tokens that it names. NULL without an error: it names a token that ends
// the text.
const struct node *node_marked(struct grammar *g, const char *text, size_t len);
// The length of the string without a token at its end that ends the text.
size_t text_without_end(struct grammar *g, const char *text, size_t len);
// The first place from `at` on that is inside of no special token.
size_t text_boundary(struct grammar *g, const char *text, size_t len, size_t at);

const struct node *node_special(struct grammar *g, const char *text, size_t len);
// Any special token but those of the list.
const struct node *node_special_but(struct grammar *g, const struct node *const *but, size_t n);

#endif

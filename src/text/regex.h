// Regular expressions of tokenizer.json that have no hand-written pattern: PCRE2, made to read them
// as Oniguruma does, which the files were written for. A search is bounded: where it would take
// time quadratic in the text, or worse, it fails with an error. A regex is immutable, so any thread
// may search with it. The state of a search belongs to one encode call.
#ifndef RN_TEXT_REGEX_H
#define RN_TEXT_REGEX_H

#include "text/vocab.h"

struct regex;

// RN_ERR_UNSUPPORTED: PCRE2 does not understand the expression, or would read it differently.
rn_status regex_create(struct text_span pattern, struct regex **out, rn_error *err);
void regex_destroy(struct regex *regex);

// The text that is searched, and the memory for it. Zeroed at first; started again for each text.
struct regex_search {
    const struct regex *regex;
    const uint8_t *text; // well-formed; may be a copy in `copy`
    size_t len;
    uint8_t *copy;
    size_t copy_bytes;
    uint64_t work; // steps that may still be taken
    struct regex_memory *memory;
};

// Ill-formed bytes are replaced by a control character in a copy, so that offsets stay.
rn_status regex_search_begin(struct regex_search *search, const struct regex *regex,
                             const uint8_t *text, size_t len, rn_error *err);
void regex_search_deinit(struct regex_search *search);

// The first match that begins at `from` (a character's border, at most len) or behind it; it may be
// empty. *found says whether there is one.
rn_status regex_find(struct regex_search *search, size_t from, size_t *begin, size_t *end,
                     bool *found, rn_error *err);

#endif

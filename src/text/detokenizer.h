// Tokens to text, as a stream: never gives out half a UTF-8 character. One per sequence, no
// allocation. Bytes that can never become valid UTF-8 come out as U+FFFD, one per maximal
// ill-formed part, as decoders with errors="replace" give them. So the sum of the pieces equals the
// decoding of the whole.
#ifndef RN_TEXT_DETOKENIZER_H
#define RN_TEXT_DETOKENIZER_H

#include "text/tokenizer.h"

struct detokenizer {
    uint8_t held[4]; // the start of a character that is not complete yet
    int n_held;
};

// Feeds len bytes and writes the text that is now certain to out; returns its length. out must hold
// 3 * (len + 4).
size_t detokenizer_feed(struct detokenizer *state, const char *bytes, size_t len, char *out);
// At the end: bytes that are still held can never be completed.
size_t detokenizer_finish(struct detokenizer *state, char *out);

#endif

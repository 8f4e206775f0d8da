// Pre-tokenizers cut a text into words; merges never cross a word's border. One is a function and
// a row in the table of pretokenizer.c. Hand-written: no regular expressions at run time.
#ifndef RN_TEXT_PRETOKENIZER_H
#define RN_TEXT_PRETOKENIZER_H

#include "text/tokenizer.h"

// The length of the word at the start of text: 1 to len; len is at least 1. Any bytes may come.
// Calling it over and over on the rest must take time linear in the whole.
typedef size_t (*pretokenizer_fn)(const uint8_t *text, size_t len);

// By tokenizer.ggml.pre; NULL: not known here. An empty name is gpt-2.
pretokenizer_fn pretokenizer_find(struct text_span name);

#endif

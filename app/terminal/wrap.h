// Text of a model on a terminal, broken between words at the edge. Text comes in pieces, so a word
// that turns out too long for its line is erased there and written again on the next one.
#ifndef RN_APP_WRAP_H
#define RN_APP_WRAP_H

#include "terminal/term.h"

enum { WRAP_WORD = 256 }; // bytes of a word that can move; a longer one is broken

struct wrap {
    int column; // of the cursor
    int indent; // blanks before a line that continues another
    char word[WRAP_WORD];
    size_t word_len; // bytes of the last word; WRAP_WORD + 1: it is too long
    int word_width;
};

// As term_write. Zeros are the start of a line.
bool wrap_write(struct wrap *wrap, const struct term *term, const char *text, size_t len);
// The same with a width of the terminal, into a file.
void wrap_put(struct wrap *wrap, FILE *out, int columns, const char *text, size_t len);
// Lines for the user on standard error, dim; lines that continue others have an indent.
void wrap_note(const struct term *term, int indent, const char *text);

#endif

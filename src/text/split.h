// Splits cut a text into words; merges never cross a word's border. A splitter is a list of steps,
// each of which cuts the pieces of the one before. Immutable; the state of a run is in its scratch.
// Made by pretokenizer.c, run by tokenizer.c.
#ifndef RN_TEXT_SPLIT_H
#define RN_TEXT_SPLIT_H

#include "text/pattern.h"
#include "text/regex.h"

enum { SPLIT_MAX_STEPS = 16 };

// One of match, regex and literal is the pattern.
struct split_step {
    pattern_fn match;
    struct regex *regex; // owned
    struct text_span literal;
    enum vocab_split_behavior behavior;
    bool invert;
    bool covers; // a text is nothing but matches, and each is a piece
};

struct splitter {
    struct split_step step[SPLIT_MAX_STEPS];
    size_t n_step;
};
void splitter_deinit(struct splitter *splitter);

struct split_scratch { // zeroed at first
    struct regex_search search[SPLIT_MAX_STEPS];
};
void split_scratch_deinit(struct split_scratch *scratch);

// Gets the words one by one, none of them empty; an error that it returns ends the run.
typedef rn_status (*split_word_fn)(void *context, const uint8_t *word, size_t len);

rn_status split_run(const struct splitter *splitter, struct split_scratch *scratch,
                    const uint8_t *text, size_t len, split_word_fn word, void *context,
                    rn_error *err);

#endif

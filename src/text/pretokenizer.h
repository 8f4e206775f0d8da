// Pre-tokenizers: the splits of a vocabulary become a splitter. A name of tokenizer.ggml.pre stands
// for a list of steps. A known regular expression of tokenizer.json stands for one of the
// hand-written patterns. Both are rows in the tables of pretokenizer.c.
#ifndef RN_TEXT_PRETOKENIZER_H
#define RN_TEXT_PRETOKENIZER_H

#include "text/split.h"

// The traits that come with the splits.
struct pretokenizer_traits {
    bool nfc;              // the name implies normalization to NFC
    bool ignore_merges;    // and that a word which is a token becomes it
    char unsupported[160]; // why the splits cannot be run; empty: they can
};

// literal spans are copied into the arena. A split that is not known here is no failure: it is
// named in traits->unsupported.
rn_status pretokenizer_init(struct splitter *splitter, const struct vocab_source *source,
                            struct arena *arena, struct pretokenizer_traits *traits, rn_error *err);

// Rows of the tables by number, for the test that compares them with PCRE2; false: there are no
// more. The expression of a pattern, as tokenizer.json writes it.
bool pretokenizer_expression(size_t row, const char **expression, pattern_fn *match);

#endif

// The tokenizer of a model and its chat template, from its files: metadata of a GGUF, or
// tokenizer.json and its like in a folder.
#ifndef RN_LOAD_VOCAB_H
#define RN_LOAD_VOCAB_H

#include "text/tokenizer.h"
#include "weights/weights.h"

// n_vocab is the number of tokens that the model has rows for; 0 takes the vocabulary as it is. A
// smaller vocabulary is filled up with unused tokens. A larger one is an error, except that a
// folder's added tokens at the end are left out. *chat_template becomes a text to be
// freed, or NULL where the files have none; chat_template itself may be NULL.
rn_status vocab_load(const struct weights *weights, int32_t n_vocab, struct tokenizer **out,
                     char **chat_template, rn_error *err);

#endif

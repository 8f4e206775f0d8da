// What a tokenizer is made of: filled by tokenizer_create.c, read by tokenizer.c, seen by no one
// else.
#ifndef RN_TEXT_TOKENIZER_DATA_H
#define RN_TEXT_TOKENIZER_DATA_H

#include "base/arena.h"
#include "text/bpe.h"
#include "text/pretokenizer.h"
#include "text/special.h"
#include "text/tokenizer.h"

struct tokenizer {
    struct arena arena; // owns everything below
    int32_t n_token;
    struct text_span *bytes; // [n_token] what a token stands for
    uint8_t *type;           // [n_token] enum token_type
    int32_t bos, eos, eot, eom;
    bool add_bos, add_eos;
    char pre[64];              // the pre-tokenizer's name, for messages
    pretokenizer_fn next_word; // NULL: not known
    struct bpe bpe;
    struct special_set user_defined; // found in every text
    struct special_set special;      // these and control tokens, for ENCODE_SPECIAL
};

#endif

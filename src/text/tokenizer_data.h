// The parts of a tokenizer: filled by tokenizer_create.c and tokenizer_tokens.c, read by
// tokenizer.c, seen by no one else.
#ifndef RN_TEXT_TOKENIZER_DATA_H
#define RN_TEXT_TOKENIZER_DATA_H

#include "base/arena.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "text/special.h"
#include "text/spm.h"
#include "text/tokenizer.h"

// Texts that a guard has to keep from becoming control tokens.
struct guard_texts {
    struct special_set whole;
    struct special_set tail; // their endings, all shorter ones
    size_t max_len;
};

struct tokenizer {
    struct arena arena; // owns all members that have no other owner below
    enum vocab_model model;
    int32_t n_token;
    struct text_span *bytes; // [n_token] the bytes that a token stands for
    uint8_t *type;           // [n_token] enum token_type
    bool *is_end;            // [n_token]
    int32_t bos, eos, eot, pad;
    bool add_bos, add_eos, strip_space;
    char unsupported[256]; // why texts cannot be encoded; empty: they can

    struct normalizer normalizer;
    struct splitter splitter;
    // Tokens found in the text as it is, then in the normalized text; [1] has the control tokens
    // too.
    struct special_set raw[2], normalized[2];
    struct guard_texts
        control[2]; // as they are; of those sought in the normalized text, normalized

    // Words that become the token that has their string: all of them (ignore_merges), or pairs of
    // symbols (by score). Empty: not needed.
    struct text_span *string; // [n_token] the strings that the map refers to
    struct token_map map;
    bool whole_words;
    struct bpe bpe;       // merges by rank
    int32_t byte_id[256]; // byte level: the symbol of each byte, -1: none
    struct spm spm;       // characters
};

// tokenizer_tokens.c: the tokens' types, bytes and ends, every string checked.
rn_status tokenizer_tokens_init(struct tokenizer *tokenizer, const struct vocab_source *source,
                                rn_error *err);
// Whether merges may make a token: ordinary[id] for each. No plain text becomes another.
void tokenizer_tokens_ordinary(const struct tokenizer *tokenizer, const struct vocab_source *source,
                               uint8_t *ordinary);
// The byte that "<0x41>" stands for, -1: the text is nothing of the kind.
int tokenizer_byte_of(struct text_span text);

#endif

// Text to token ids and back: added tokens, normalization, splits into words, then byte-level BPE
// or SentencePiece. Immutable after create, so any thread may use it.
#ifndef RN_TEXT_TOKENIZER_H
#define RN_TEXT_TOKENIZER_H

#include "text/vocab.h"

struct tokenizer;

// Fails on ids out of range, merges that name no token, bad UTF-8 in normal tokens. A pipeline that
// is not known here is no failure: decoding works, and tokenizer_encode refuses with its name.
rn_status tokenizer_create(const struct vocab_source *source, struct tokenizer **out,
                           rn_error *err);
void tokenizer_destroy(struct tokenizer *tokenizer);

int32_t tokenizer_size(const struct tokenizer *tokenizer);
int32_t tokenizer_bos(const struct tokenizer *tokenizer); // -1: none
bool tokenizer_adds_bos(const struct tokenizer *tokenizer);
bool tokenizer_adds_eos(const struct tokenizer *tokenizer);
int32_t tokenizer_eos(const struct tokenizer *tokenizer); // -1: none
int32_t tokenizer_eot(const struct tokenizer *tokenizer); // of a turn; -1: no token of its own
int32_t tokenizer_pad(const struct tokenizer *tokenizer); // -1: none
// Whether the decoding of a whole text takes one space off its front, which encoding put there. A
// text that continues another one keeps it.
bool tokenizer_strips_space(const struct tokenizer *tokenizer);
// End of text, of turn or of message: generation stops there.
bool tokenizer_is_end(const struct tokenizer *tokenizer, int32_t id);
bool tokenizer_is_special(const struct tokenizer *tokenizer,
                          int32_t id); // control or unknown: not shown as text

enum {
    ENCODE_BOS =
        1, // put BOS (and EOS) where the model asks for them, once: not if the text brings its own
    ENCODE_SPECIAL =
        2, // the text of a control token becomes that token (user-defined ones always do)
    ENCODE_GUARDED = 4, // guards are dropped, and no control token is where one stood (guard.h)
};

struct token_list {
    int32_t *id; // owned; free with token_list_deinit
    size_t count, capacity;
};
void token_list_deinit(struct token_list *list);

// Appends the ids of the text; text may hold any bytes (bad UTF-8 is encoded byte by byte).
rn_status tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t len,
                           int flags, struct token_list *out, rn_error *err);

// The bytes a token stands for (borrowed): for special tokens their text. id must be in range.
struct text_span tokenizer_bytes(const struct tokenizer *tokenizer, int32_t id);

#endif

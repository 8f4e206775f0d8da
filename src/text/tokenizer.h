// Text to token ids and back. Byte-level BPE. Immutable after create, so any thread may use it.
#ifndef RN_TEXT_TOKENIZER_H
#define RN_TEXT_TOKENIZER_H

#include "base/status.h"

struct text_span {
    const char *data;
    size_t len;
};

enum token_type { // as GGUF numbers them
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6,
};

// What a model file says about its vocabulary; borrowed during tokenizer_create only.
struct vocab_source {
    struct text_span model;        // "gpt2": byte-level BPE
    struct text_span pre;          // "gpt-2", ...; empty: gpt-2
    const struct text_span *token; // [n_token] in the byte-level alphabet
    const int32_t *type;           // [n_token], or NULL: all normal
    int32_t n_token;
    const struct text_span *merge; // [n_merge] "left right"
    int32_t n_merge;
    int32_t bos, eos, eot, eom; // -1: none
    bool add_bos, add_eos;
};

struct tokenizer;

// Fails on an unknown model, ids out of range, merges that name no token, bad UTF-8 in normal
// tokens. An unknown pre-tokenizer is no failure: decoding works, and tokenizer_encode refuses with
// its name.
rn_status tokenizer_create(const struct vocab_source *source, struct tokenizer **out,
                           rn_error *err);
void tokenizer_destroy(struct tokenizer *tokenizer);

int32_t tokenizer_size(const struct tokenizer *tokenizer);
int32_t tokenizer_bos(const struct tokenizer *tokenizer); // -1: none
bool tokenizer_adds_bos(const struct tokenizer *tokenizer);
bool tokenizer_adds_eos(const struct tokenizer *tokenizer);
int32_t tokenizer_eos(const struct tokenizer *tokenizer); // -1: none
// End of text, of turn or of message: generation stops there.
bool tokenizer_is_end(const struct tokenizer *tokenizer, int32_t id);
bool tokenizer_is_special(const struct tokenizer *tokenizer,
                          int32_t id); // control or unknown: not shown as text

enum {
    ENCODE_BOS =
        1, // put BOS (and EOS) where the model asks for them, once: not if the text brings its own
    ENCODE_SPECIAL =
        2, // the text of a control token becomes that token (user-defined ones always do)
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

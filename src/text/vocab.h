// The description of a vocabulary and its tokenizer, as a model's files give it. Every reader fills
// it: tokenizer.ggml.* by load/vocab_gguf.c, tokenizer.json by vocab_json.c, tokenizer.model by
// vocab_spm.c. tokenizer_create reads it, and checks all of it. Strings are borrowed during
// tokenizer_create only.
#ifndef RN_TEXT_VOCAB_H
#define RN_TEXT_VOCAB_H

#include "base/arena.h"
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

// How strings of normal tokens are written, and how they are merged.
enum vocab_model {
    VOCAB_BYTE_LEVEL, // in the byte-level alphabet (alphabet.h); merges by rank
    VOCAB_SPM_SCORE,  // characters, U+2581 for a space, <0xNN> for bytes; the pair whose joined
                      // token has the best score first (SentencePiece's BPE), ties to the left
    VOCAB_SPM_RANK,   // the same strings; merges by rank, as tokenizer.json has them
};

// Normalization, in order, of each stretch between the added tokens that are not `normalized`.
enum vocab_normal_kind {
    NORMAL_NFC,
    NORMAL_NFD,
    NORMAL_NFKC,
    NORMAL_NFKD,
    NORMAL_LOWERCASE,
    NORMAL_REPLACE,       // every `from` becomes `to`
    NORMAL_REPLACE_REGEX, // `from` is a regular expression
    NORMAL_PREPEND,       // `to` before a text that is not empty
    // A pre-tokenizer's, one at most and behind all others: `to` before each stretch between added
    // tokens of any kind that is not empty and does not begin with it.
    NORMAL_PREPEND_ONCE,
    NORMAL_PREPEND_FIRST, // the same for the stretch that begins the text
    NORMAL_STRIP_LEFT,
    NORMAL_STRIP_RIGHT,
    NORMAL_UNSUPPORTED, // encoding is refused, with `from` as the name in the message
};

struct vocab_normal {
    enum vocab_normal_kind kind;
    struct text_span from, to;
};

// Splits, in order: each cuts the pieces of the one before.
enum vocab_split_kind {
    SPLIT_NAMED,             // `pattern` is a name of pretokenizer.c's table ("llama-bpe")
    SPLIT_REGEX,             // `pattern` is a regular expression; known ones have hand-written code
    SPLIT_LITERAL,           // `pattern` is plain text
    SPLIT_DIGITS,            // runs of numeric characters
    SPLIT_DIGITS_INDIVIDUAL, // each alone
    SPLIT_PUNCTUATION,       // ASCII punctuation or \p{P}
    SPLIT_WHITESPACE,        // \w+|[^\w\s]+, the blanks dropped
    SPLIT_WHITESPACE_ALL,    // between white space, which is dropped
    SPLIT_BYTE_LEVEL,        // no cut: the splits behind it see the byte-level alphabet (Falcon)
    SPLIT_UNSUPPORTED,       // encoding is refused, with `pattern` as the name in the message
};

enum vocab_split_behavior { // the use of the matches, as Hugging Face names it
    SPLIT_ISOLATED,
    SPLIT_REMOVED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS,
};

struct vocab_split {
    enum vocab_split_kind kind;
    enum vocab_split_behavior behavior;
    bool invert; // the pattern describes the pieces instead of the text between them
    struct text_span pattern;
};

// A token that is found in the text before anything else happens to it.
struct vocab_added {
    int32_t id;
    struct text_span text;
    bool special;     // control: found only where specials are parsed
    bool lstrip;      // takes the white space before it
    bool rstrip;      // and behind it
    bool single_word; // only where no word character touches it
    bool normalized;  // sought in the normalized text
};

struct vocab_merge {
    struct text_span left, right;
};

enum { VOCAB_MAX_ENDS = 32 };

struct vocab_source {
    const char *name; // for messages: "tokenizer.ggml", "tokenizer.json"
    enum vocab_model model;
    const struct text_span *token; // [n_token]
    const int32_t *type;           // [n_token], or NULL: all normal
    const float *score;            // [n_token], VOCAB_SPM_SCORE only
    int32_t n_token;
    const struct vocab_merge *merge; // [n_merge] by rank
    int32_t n_merge;
    const struct vocab_normal *normal;
    int32_t n_normal;
    const struct vocab_split *split;
    int32_t n_split;
    const struct vocab_added *added; // [n_added]; control and user-defined tokens that are not here
                                     // are added with no strip rule
    int32_t n_added;
    int32_t bos, eos, unk;       // -1: none
    int32_t eot, pad;            // of a turn's end, of padding; -1: not named
    int32_t end[VOCAB_MAX_ENDS]; // generation stops there, besides eos and the well-known names
    int32_t n_end;
    bool ignore_merges; // a word that is a token becomes it, without regard to merges
    bool byte_fallback; // characters that are no token become their <0xNN>, else unk
    bool fuse_unk;      // several unknown in a row are one
    bool add_bos, add_eos;
    bool strip_space; // decoding takes one space off the front of the whole text (space prefix)
};

// --- readers: the result points into `arena` and the file's bytes, which outlive the source ---

// tokenizer.json of Hugging Face. An unknown part of a pipeline becomes *_UNSUPPORTED where only
// encoding needs it, else RN_ERR_UNSUPPORTED.
rn_status vocab_json_read(const char *json, size_t len, struct arena *arena,
                          struct vocab_source *out, rn_error *err);
// tokenizer.model of SentencePiece (a protocol buffer).
rn_status vocab_spm_read(const void *data, size_t len, struct arena *arena,
                         struct vocab_source *out, rn_error *err);

// The additions of tokenizer_config.json. Tokens are named by their text; "" where the file says
// nothing.
struct vocab_config {
    struct text_span bos, eos, unk, pad;
    int add_bos, add_eos;            // -1: the file says nothing
    struct text_span chat_template;  // the default one
    const struct vocab_added *added; // added_tokens_decoder
    int32_t n_added;
};
rn_status vocab_config_read(const char *json, size_t len, struct arena *arena,
                            struct vocab_config *out, rn_error *err);
// Puts it over the values of the vocabulary's file: ids of the named tokens, added tokens of a
// tokenizer.model.
rn_status vocab_config_apply(const struct vocab_config *config, struct arena *arena,
                             struct vocab_source *source, rn_error *err);

#endif

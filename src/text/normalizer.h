// The changes to a stretch of text before it is split: Unicode forms, replacements, prefixes.
// Immutable after init; the scratch belongs to one encode call. Made by tokenizer_create.c, run by
// tokenizer.c.
#ifndef RN_TEXT_NORMALIZER_H
#define RN_TEXT_NORMALIZER_H

#include "text/regex.h"
#include "text/text_buffer.h"

enum { NORMAL_MAX_STEPS = 32 };

struct normal_step {
    enum vocab_normal_kind kind;
    struct text_span from, to;
    struct regex *regex; // owned; NORMAL_REPLACE_REGEX
};

struct normalizer {
    struct normal_step step[NORMAL_MAX_STEPS];
    size_t n_step;
    struct normal_step prefix; // NORMAL_PREPEND_FIRST or _ONCE; its `to` is empty: there is none
};

// Copies the strings into the arena. Steps that are not known here are no failure: the first one is
// named in `unsupported` (size bytes), which stays as it was if there is none.
rn_status normalizer_init(struct normalizer *normalizer, const struct vocab_source *source,
                          struct arena *arena, char *unsupported, size_t size, rn_error *err);
void normalizer_deinit(struct normalizer *normalizer);

struct normal_scratch { // zeroed at first
    struct text_buffer buffer[2], prefixed;
    struct regex_search search;
};
void normal_scratch_deinit(struct normal_scratch *scratch);

// The kind of text that is normalized.
enum normal_place {
    NORMAL_TEXT, // a stretch of text, or the string of an added token, as Hugging Face does it
    NORMAL_BARE, // the string of a token, without PREPEND
};

// *out is the text itself where nothing changes, else in the scratch, until the next call.
rn_status normalizer_run(const struct normalizer *normalizer, struct normal_scratch *scratch,
                         const uint8_t *text, size_t len, enum normal_place place,
                         const uint8_t **out, size_t *out_len, rn_error *err);

// The prefix of a pre-tokenizer, which comes after normalized tokens were sought: before each
// stretch between them, or before the first stretch of the text. *text may come from normalizer_run
// and becomes the text with the prefix, in the scratch, until the next call.
rn_status normalizer_prefix(const struct normalizer *normalizer, struct normal_scratch *scratch,
                            bool is_first, const uint8_t **text, size_t *len, rn_error *err);

#endif

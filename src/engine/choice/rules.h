// Rules on a request's tokens besides its sampling and its constraint: the tokens that end the
// text, and from when on; words that may not be written; the length of the reasoning. A rule bans
// ids or forces one id. It is a function of the output's tokens before the choice, so it holds for
// drafts, batches and preempted sequences alike. The choices of a request share its rules.
#ifndef RN_ENGINE_CHOICE_RULES_H
#define RN_ENGINE_CHOICE_RULES_H

#include "engine/choice/reasoning.h"

// A sequence of tokens. Its last token is banned behind the others.
struct bad_word {
    int first, n; // in rules->bad_token
};

struct rules {
    int min_tokens;
    int32_t *stop; // [n_stop] the request's own ids that end the text, ascending
    int n_stop;
    int32_t *end; // [n_end] all ids that are banned up to min_tokens
    int n_end;
    struct bad_word *bad; // [n_bad]
    int n_bad;
    int32_t *bad_token;
    bool looks_back; // some bad word has several tokens
    bool has_reasoning;
    struct reasoning_rule reasoning;
};

// Checks the request's fields (RN_ERR_ARG names the value). *out is NULL where the request has
// none of these rules.
rn_status rules_create(const rn_request *request, const struct tokenizer *tokenizer,
                       struct rules **out, rn_error *err);
void rules_destroy(struct rules *rules); // NULL is fine

// Whether the token is one of the request's own that end the text.
bool rules_stops(const struct rules *rules, int32_t token); // NULL: none
// Whether bans depend on the tokens before the choice, not on their number alone.
static inline bool rules_look_back(const struct rules *rules) {
    return rules && (rules->looks_back || rules->has_reasoning);
}
// The token that a bad word bans behind these tokens of the output; -1: none.
int32_t rules_banned(const struct rules *rules, int word, const int32_t *output, int n_output);

#endif

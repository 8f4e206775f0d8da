// Rules on a request's tokens besides its sampling and its constraint: the tokens that end the
// text, and from when on; words that may not be written; the length of the reasoning. A rule bans
// ids or forces one id. It is a function of the output's tokens before the choice, so it holds for
// drafts, batches and preempted sequences alike. The choices of a request share its rules.
#ifndef RN_ENGINE_CHOICE_RULES_H
#define RN_ENGINE_CHOICE_RULES_H

#include "base/status.h"
#include "runnel.h"
#include "text/tokenizer.h"

// A sequence of tokens. Its last token is banned behind the others.
struct bad_word {
    int first, n; // in rules->bad_token
};

// The bound on the reasoning. Marks are found in the tokens' bytes: a model may write a mark in
// other tokens than the tokenizer.
struct reasoning_rule {
    const struct tokenizer *tokenizer;
    int budget; // tokens
    char *open; // n_open 0: the prompt has opened the reasoning
    char *last; // the text that is written when the budget is spent; it starts with the mark
    size_t n_open, n_close, n_last; // n_close: of the mark
    int32_t *token; // [n_last] the token to write where that many bytes of it are written
    int *shorter;   // [n_last + 1] the next shorter start of it that such a start ends with
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
    bool has_budget;
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
    return rules && (rules->looks_back || rules->has_budget);
}
// The token that a bad word bans behind these tokens of the output; -1: none.
int32_t rules_banned(const struct rules *rules, int word, const int32_t *output, int n_output);

// Where the text stands with its reasoning.
enum reasoning_phase { REASONING_BEFORE, REASONING_INSIDE, REASONING_AFTER };
struct reasoning_state {
    enum reasoning_phase phase;
    int n_tokens; // of the reasoning
    int matched;  // bytes of the mark that the text ends with: the opening one, or `last`
};
struct reasoning_state reasoning_begin(const struct rules *rules);
void reasoning_advance(const struct reasoning_rule *rule, struct reasoning_state *state,
                       int32_t token);
// The one token that may come next; -1: any.
int32_t reasoning_forced(const struct reasoning_rule *rule, const struct reasoning_state *state);

#endif

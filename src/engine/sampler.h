// From logits to a token. The steps and their order are the table runnel_sampling.def: edits change
// logits by token id, filters drop candidates; the choice among those that are left is Gumbel-max
// with noise that depends on (seed, choice, position, token id) alone. Nothing is kept between
// choices: what penalties need is counted from the sequence's tokens each time, so a token is
// chosen the same way whatever else is in the batch, and after any rollback. Ties go to the lower
// id.
#ifndef RN_ENGINE_SAMPLER_H
#define RN_ENGINE_SAMPLER_H

#include "base/status.h"
#include "runnel.h"
#include "text/tokenizer.h"

struct sampler_passes;

// Scratch for one choice at a time; allocated once. Choices at the same time need one each, and
// share nothing that changes.
struct sampler {
    const struct sampler_passes *passes; // the machine's fastest
    float *logit;                        // [n_vocab]
    float *peak;                         // of blocks of logits; behind them, their own
    int32_t *id;                         // [n_vocab]
    uint32_t *distance, *units;          // [whole blocks] of what a filter's cut is among
    int32_t *near_id;                    // [whole blocks] and their ids
    int32_t *count;                      // [n_vocab] all zero between choices
    int32_t *match;                      // [SAMPLER_DRY_MATCH]
    uint64_t *allowed; // [token_set_words(n_vocab)] for a constraint's mask; the sampler's steps
                       // read it through the view alone
    int n_vocab;
    uint64_t dry_compares; // of tokens, in the last choice: at most two per token of the history
};

enum { SAMPLER_DRY_MATCH = 1024 }; // tokens; a longer repetition counts as one of this length

rn_status sampler_init(struct sampler *sampler, int n_vocab, rn_error *err);
void sampler_deinit(struct sampler *sampler);

// A set of token ids.
struct token_set {
    uint64_t *bits; // [token_set_words(n_vocab)], or NULL: empty
};
static inline size_t token_set_words(int n_vocab) { return ((size_t)n_vocab + 63) / 64; }
static inline bool token_set_has(const uint64_t *bits, int32_t id) {
    return (bits[id / 64] >> (id % 64) & 1) != 0;
}

// The sequence as the sampler sees it: borrowed.
struct sampler_view {
    const int32_t *token;      // [n_token] prompt, then output; ids in range
    int n_prompt, n_token;     // the new token gets position n_token
    uint32_t choice;           // which of a request's choices this is
    struct token_set breakers; // of DRY
    const uint64_t *allowed;   // [token_set_words(n_vocab)] the tokens that may come; NULL: all
};

// Returns the token, or -1 when no token that may come has a finite logit.
int32_t sampler_choose(struct sampler *sampler, const rn_sampling *sampling,
                       const struct sampler_view *view, const float *logits);

// The noise itself, for tests and for speculation: standard Gumbel.
float sampler_noise(uint64_t seed, uint32_t choice, uint32_t position, uint32_t token);
// XTC's draw, uniform in (0, 1), from a stream of its own.
double sampler_xtc_draw(uint64_t seed, uint32_t choice, uint32_t position);

// --- sampler_params.c: the parameters of a request ---

// Checks ranges; RN_ERR_ARG names the field and the value. Token ids are sampling_dup's.
rn_status sampling_check(const rn_sampling *sampling, rn_error *err);

// Copies checked parameters for the life of a sequence: its logit biases, whose ids are checked,
// and instead of the breakers' texts the tokens whose text contains one of them (empty when DRY is
// off).
rn_status sampling_dup(const rn_sampling *sampling, const struct tokenizer *tokenizer,
                       rn_sampling *out, struct token_set *breakers, rn_error *err);
void sampling_deinit(rn_sampling *sampling, struct token_set *breakers);

#endif

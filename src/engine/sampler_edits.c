// The steps that change logits by token id: mask, bias, penalties, DRY. They write to the sampler's
// copy, made by the first that has something to write; the model's logits stay as they are.
//
// Invariants: a finite logit stays finite; NaN and infinities stay what they are; except that what
// is banned or masked becomes -INFINITY; the sampler's counts are zero again when a step returns.
#include <float.h>
#include <math.h>

#include "engine/sampler_steps.h"

static float *logits_edit(struct choice *choice) {
    struct sampler *sampler = choice->sampler;
    if (choice->logit != sampler->logit) {
        memcpy(sampler->logit, choice->raw, (size_t)sampler->n_vocab * sizeof *sampler->logit);
        choice->logit = sampler->logit;
    }
    return sampler->logit;
}

// Computed in double, so that only the result can leave the range.
static float bounded(double logit) {
    return (float)(logit > (double)FLT_MAX    ? (double)FLT_MAX
                   : logit < (double)-FLT_MAX ? (double)-FLT_MAX
                                              : logit);
}

// The last tokens that a window shows; -1: all of them.
static int window_size(int last_n, int n_token) {
    return last_n < 0 || last_n > n_token ? n_token : last_n;
}

// What a constraint does not allow is no candidate.
void sampler_step_mask(struct choice *choice) {
    const uint64_t *allowed = choice->view->allowed;
    if (!allowed) return;
    const int n_vocab = choice->sampler->n_vocab;
    float *logit = logits_edit(choice);
    for (int begin = 0; begin < n_vocab; begin += 64) {
        const uint64_t word = allowed[begin / 64];
        const int n = n_vocab - begin < 64 ? n_vocab - begin : 64;
        if (word == UINT64_MAX) continue;
        for (int i = 0; i < n; i++)
            logit[begin + i] = (word >> i & 1) != 0 ? logit[begin + i] : -INFINITY;
    }
}

static const float ban = -100;

void sampler_step_bias(struct choice *choice) {
    const rn_sampling *s = choice->sampling;
    if (s->n_logit_bias == 0) return;
    float *logit = logits_edit(choice);
    for (size_t i = 0; i < s->n_logit_bias; i++) {
        const rn_logit_bias *entry = &s->logit_bias[i];
        float *at = &logit[entry->token];
        if (entry->bias <= ban) {
            *at = -INFINITY;
        } else if (isfinite(*at)) {
            *at = bounded((double)*at + (double)entry->bias);
        }
    }
}

// ---------------------------------------------------------------- penalties

// Lists the distinct tokens in the sampler's ids, with how often each is there in its counts.
static int tokens_count(struct sampler *sampler, const int32_t *token, int n_token) {
    int n = 0;
    for (int i = 0; i < n_token; i++)
        if (sampler->count[token[i]]++ == 0) sampler->id[n++] = token[i];
    return n;
}

// As Keskar et al. (2019) and Hugging Face have it: once per token, however often it is there.
static void penalize_repetition(struct choice *choice) {
    const float penalty = choice->sampling->repetition_penalty;
    const struct sampler_view *view = choice->view;
    const int window = window_size(choice->sampling->repeat_last_n, view->n_token);
    if (penalty == 1 || penalty == 0 || window == 0) return;
    struct sampler *sampler = choice->sampler;
    float *logit = logits_edit(choice);
    const int n = tokens_count(sampler, view->token + view->n_token - window, window);
    for (int i = 0; i < n; i++) {
        float *at = &logit[sampler->id[i]];
        const double x = (double)*at, p = (double)penalty;
        if (isfinite(*at)) *at = bounded(x > 0 ? x / p : x * p);
        sampler->count[sampler->id[i]] = 0;
    }
}

static void penalize_output(struct choice *choice) {
    const rn_sampling *s = choice->sampling;
    const struct sampler_view *view = choice->view;
    const int n_output = view->n_token - view->n_prompt;
    if ((s->presence_penalty == 0 && s->frequency_penalty == 0) || n_output == 0) return;
    struct sampler *sampler = choice->sampler;
    float *logit = logits_edit(choice);
    const int n = tokens_count(sampler, view->token + view->n_prompt, n_output);
    for (int i = 0; i < n; i++) {
        float *at = &logit[sampler->id[i]];
        int32_t *count = &sampler->count[sampler->id[i]];
        const double penalty =
            (double)s->presence_penalty + (double)s->frequency_penalty * (double)*count;
        if (isfinite(*at)) *at = bounded((double)*at - penalty);
        *count = 0;
    }
}

void sampler_step_penalties(struct choice *choice) {
    penalize_repetition(choice);
    penalize_output(choice);
}

// ---------------------------------------------------------------- DRY

static bool breaks(const struct token_set *breakers, int32_t id) {
    return breakers->bits && token_set_has(breakers->bits, id);
}

// The longest end of the tokens that a repetition may have: up to the last breaker.
static int suffix_limit(const struct sampler_view *view, int window) {
    const int32_t *last = view->token + view->n_token - 1;
    const int most = window < SAMPLER_DRY_MATCH ? window : SAMPLER_DRY_MATCH;
    int n = 0;
    while (n < most && !breaks(&view->breakers, last[-n])) n++;
    return n;
}

// For each token that once followed what the sequence now ends with, the length of the longest such
// repetition goes into its count; the ids are listed, and their number returned.
//
// The Z algorithm over the tokens backwards: from j tokens before the end, len tokens are the same
// as from the end. Positions from left to right are known to equal the beginning, so what was found
// there serves again, and each token is compared once as the new right end, or fails once. Only the
// first `limit` lengths are ever looked up.
static int repetitions_find(struct sampler *sampler, const struct sampler_view *view, int window,
                            int limit) {
    const int32_t *last = view->token + view->n_token - 1;
    int n = 0, left = 0, right = 0;
    for (int j = 1; j < window; j++) {
        int len = 0;
        if (j < right) {
            const int known = sampler->match[j - left];
            len = known < right - j ? known : right - j;
        }
        if (j + len >= right) {
            for (; len < limit && j + len < window; len++) {
                sampler->dry_compares++;
                if (last[-(j + len)] != last[-len]) break;
            }
            left = j;
            right = j + len;
        }
        if (j < limit) sampler->match[j] = len;
        const int32_t next = last[-(j - 1)];
        int32_t *longest = &sampler->count[next];
        if (len <= *longest || breaks(&view->breakers, next)) continue;
        if (*longest == 0) sampler->id[n++] = next;
        *longest = len;
    }
    return n;
}

// By multiplications alone, so that it is the same everywhere.
static double power(double base, int exponent) {
    double result = 1;
    for (; exponent > 0; exponent /= 2, base *= base)
        if (exponent % 2) result *= base;
    return result;
}

void sampler_step_dry(struct choice *choice) {
    const rn_sampling *s = choice->sampling;
    const struct sampler_view *view = choice->view;
    if (s->dry_multiplier == 0) return;
    const int window = window_size(s->dry_penalty_last_n, view->n_token);
    const int limit = suffix_limit(view, window);
    if (limit == 0 || limit < s->dry_allowed_length) return;
    struct sampler *sampler = choice->sampler;
    const int n = repetitions_find(sampler, view, window, limit);
    float *logit = n > 0 ? logits_edit(choice) : NULL;
    for (int i = 0; i < n; i++) {
        float *at = &logit[sampler->id[i]];
        const int over = sampler->count[sampler->id[i]] - s->dry_allowed_length;
        sampler->count[sampler->id[i]] = 0;
        if (over < 0 || !isfinite(*at)) continue;
        const double penalty = (double)s->dry_multiplier * power((double)s->dry_base, over);
        *at = bounded((double)*at - penalty);
    }
}

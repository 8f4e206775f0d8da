// The requests of the mixes of mix.h: their contents, how they are drawn, and their results.
// Everything follows from a seed.
#ifndef RN_TESTS_MIX_CASE_H
#define RN_TESTS_MIX_CASE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "helpers.h"
#include "mix_shapes.h"
#include "mix_toys.h"
#include "runnel.h"

#ifndef MIX_MAX_OUTPUT
#define MIX_MAX_OUTPUT 40 // tokens of a choice
#endif

enum {
    MIX_MAX_TEXT = 2048,
    MIX_MAX_CHOICES = TOY_MAX_CHOICES,
    MIX_MAX_EMBD = 512,
    MIX_FAMILIES = 4, // of prompts with a common start
    MIX_LONG_PREFIX = 768,
    MIX_PAGE = 32,
    MIX_MAX_CTX = 1024, // positions, where the model has more
    MIX_WORD_BYTES = 64,
};

// Mixes are whole in `make test-all` alone. Smaller mixes need not show every event that many mixes
// show together.
#ifndef MIX_MAX_REQUESTS
#define MIX_MAX_REQUESTS test_scale(14, 45, 90) // of a mix
#endif
#define MIX_IS_SHORT (!test_is_whole())

// ---------------------------------------------------------------- random numbers

struct mix_random {
    uint64_t state;
};

static inline uint64_t mix_hash(uint64_t x) { // splitmix64's finisher
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t mix_next(struct mix_random *r) { return mix_hash(r->state++); }

// 0 to n - 1
static inline int mix_below(struct mix_random *r, int n) {
    return (int)(mix_next(r) % (uint64_t)n);
}

static inline int mix_between(struct mix_random *r, int first, int last) {
    return first + mix_below(r, last - first + 1);
}

static inline bool mix_percent(struct mix_random *r, int percent) {
    return mix_below(r, 100) < percent;
}

static inline float mix_unit(struct mix_random *r) { return (float)(mix_next(r) >> 40) * 0x1p-24f; }

// ---------------------------------------------------------------- a request and what it gives

struct mix_output {
    int32_t ids[MIX_MAX_OUTPUT];
    uint64_t logprobs[MIX_MAX_OUTPUT]; // hashes; 0: none
    int n_ids;
    char text[MIX_MAX_TEXT];
    size_t n_text, n_certain; // certain: without the text of the last event
    rn_finish finish;
    rn_status status;
    char stop[8];
    int32_t stop_token;
    uint64_t prompt_logprobs; // hash; 0: none
    float embedding[MIX_MAX_EMBD];
    bool has_embedding;
    uint64_t seed;
    int n_drafted; // tokens that a drafter had proposed
    rn_timings timings;
};

struct mix_case {
    uint64_t seed; // the request is a function of it, the model and the family's prefixes
    rn_request request;
    int32_t *prompt;
    rn_logit_bias bias[3];
    const char *stop[2];
    int32_t stop_token[2];
    char word[3][MIX_WORD_BYTES];
    const char *bad_word[2];
    enum toy_kind toy;             // its constraint
    bool is_story;                 // its prompt is cut from a text
    const struct mix_case *before; // its prompt continues that one's text; NULL: none's
    bool listens;                  // logits of every position are compared too
    uint64_t *rows;                // [n_ctx] their hashes from the alone run
    int n_limit;                   // positions that it can have
    struct mix_output alone[MIX_MAX_CHOICES];
};

// How engines of mixes draft. The text is not changed by it.
struct mix_how {
    const char *name, *speculate;
    const rn_model *draft;
    bool has_toy; // the toy of mix_toys.h drafts too
    int right;    // percent of its tokens
    int draft_min, draft_max;
};

struct mix_text { // for prompts
    const int32_t *token;
    int n;
};

struct mix_cases {
    const rn_model *model;
    struct mix_text text;              // n 0: none
    const char *page_store;            // a folder that the engines of mixes share; NULL: none
    void (*settle)(rn_engine *engine); // with it: waits until all pages are written
    const struct mix_how *how;         // NULL: as it is by default
    const char *kv_type;
    bool is_hybrid; // requests may continue others' texts, and memory holds a few states
    int most_seqs, most_requests; // of a mix, for many at a time; 0: as mix_draw_options says
    int n_ctx, n_vocab, n_embd;
    rn_shape *shape[MIX_SHAPES];
    int n, n_done; // drawn and run alone
    struct mix_case *at;
};

static inline int mix_choices(const struct mix_case *c) {
    return c->request.n > 1 ? c->request.n : 1;
}

// ---------------------------------------------------------------- drawing a request

static inline int32_t mix_family_token(uint64_t family, int at, int n_vocab) {
    return (int32_t)(mix_hash(family * 1000003u + (uint64_t)at) % (uint64_t)n_vocab);
}

static inline int mix_draw_prefix(struct mix_random *r, int n_ctx) {
    const int kind = mix_below(r, 100);
    int n = 0;
    if (kind >= 35) n = mix_between(r, 1, MIX_PAGE - 1);
    if (kind >= 50) n = MIX_PAGE * mix_between(r, 1, 3);
    if (kind >= 75) n = MIX_PAGE * mix_between(r, 1, 3) + mix_between(r, -1, 5);
    if (kind >= 96) n = MIX_LONG_PREFIX + mix_between(r, -1, 1);
    return n < n_ctx - MIX_MAX_OUTPUT ? n : n_ctx / 2;
}

// A passage of the text; now and then its start follows once more, so that lookup finds something.
static inline void mix_draw_story(struct mix_case *c, struct mix_random *r,
                                  const struct mix_text *text, int n_ctx) {
    const int n_passage = mix_between(r, 4, 64);
    const int n_drawn = n_passage + (mix_percent(r, 40) ? mix_between(r, 2, n_passage) : 0);
    const int n = n_drawn < n_ctx ? n_drawn : n_ctx - 1;
    const int32_t *passage = text->token + mix_below(r, text->n - n_passage);
    c->is_story = true;
    c->prompt = malloc((size_t)n * sizeof *c->prompt);
    assert_non_null(c->prompt);
    for (int i = 0; i < n; i++) c->prompt[i] = passage[i % n_passage];
    c->request.prompt = c->prompt;
    c->request.n_prompt = (size_t)n;
}

static inline void mix_draw_prompt(struct mix_case *c, struct mix_random *r, int n_ctx,
                                   int n_vocab) {
    const uint64_t family = (uint64_t)mix_below(r, MIX_FAMILIES) + 1;
    const int n_prefix = mix_draw_prefix(r, n_ctx);
    int n_tail = mix_between(r, n_prefix ? 0 : 1, 40);
    if (mix_percent(r, 2)) n_tail = mix_between(r, 1, n_ctx - 1 - n_prefix);
    if (mix_percent(r, 1)) n_tail = n_ctx - mix_between(r, 1, MIX_MAX_OUTPUT) - n_prefix;
    const int n = n_prefix + n_tail < n_ctx ? n_prefix + n_tail : n_ctx - 1;
    c->prompt = malloc((size_t)n * sizeof *c->prompt);
    assert_non_null(c->prompt);
    for (int i = 0; i < n; i++)
        c->prompt[i] = mix_family_token(i < n_prefix ? family : c->seed, i, n_vocab);
    c->request.prompt = c->prompt;
    c->request.n_prompt = (size_t)n;
}

// The next turn after an earlier request: its whole text, or a shorter answer, and new tokens.
// False: there is no room for one.
static inline bool mix_draw_turn(struct mix_case *c, struct mix_random *r,
                                 const struct mix_cases *cases) {
    const struct mix_case *before = &cases->at[mix_below(r, cases->n_done)];
    const int n_prompt = (int)before->request.n_prompt, n_ids = before->alone[0].n_ids;
    const int n_kept = mix_percent(r, 70) ? n_ids : mix_below(r, n_ids + 1);
    const int n_new = mix_between(r, 1, 20), n = n_prompt + n_kept + n_new;
    if (n + MIX_MAX_OUTPUT > cases->n_ctx) return false;
    c->prompt = malloc((size_t)n * sizeof *c->prompt);
    assert_non_null(c->prompt);
    memcpy(c->prompt, before->prompt, (size_t)n_prompt * sizeof *c->prompt);
    memcpy(c->prompt + n_prompt, before->alone[0].ids, (size_t)n_kept * sizeof *c->prompt);
    for (int i = n - n_new; i < n; i++) c->prompt[i] = mix_family_token(c->seed, i, cases->n_vocab);
    c->request.prompt = c->prompt;
    c->request.n_prompt = (size_t)n;
    c->before = before;
    return true;
}

static inline void mix_draw_sampling(struct mix_case *c, struct mix_random *r, int n_vocab) {
    rn_sampling *s = &c->request.sampling;
    *s = rn_sampling_neutral();
    s->has_seed = true;
    s->seed = mix_next(r) >> 11;
    s->temperature = mix_percent(r, 30) ? 0 : 1.5f * mix_unit(r);
    if (mix_percent(r, 40)) s->top_k = mix_between(r, 1, 60);
    if (mix_percent(r, 40)) s->top_p = 0.5f + 0.5f * mix_unit(r);
    if (mix_percent(r, 25)) s->min_p = 0.2f * mix_unit(r);
    if (mix_percent(r, 15)) s->typical_p = 0.3f + 0.7f * mix_unit(r);
    if (mix_percent(r, 15)) s->top_n_sigma = 0.5f + mix_unit(r);
    if (mix_percent(r, 20)) s->repetition_penalty = 1 + 0.5f * mix_unit(r);
    if (mix_percent(r, 20)) s->repeat_last_n = mix_between(r, 0, 50);
    if (mix_percent(r, 20)) s->presence_penalty = mix_unit(r);
    if (mix_percent(r, 20)) s->frequency_penalty = mix_unit(r);
    if (mix_percent(r, 20)) s->dry_multiplier = mix_unit(r);
    if (mix_percent(r, 20)) s->xtc_probability = mix_unit(r);
    if (!mix_percent(r, 20)) return;
    for (int i = 0; i < 3; i++)
        c->bias[i] = (rn_logit_bias){mix_below(r, n_vocab), 8 * mix_unit(r) - 4};
    s->logit_bias = c->bias;
    s->n_logit_bias = 3;
}

static inline void mix_draw_ends(struct mix_case *c, struct mix_random *r, int n_ctx) {
    static const char *const stops[] = {"e", "th", ". ", "\n", " a", "he w", "was"};
    rn_request *q = &c->request;
    const int room = n_ctx - (int)q->n_prompt;
    const int percent_long = c->is_story ? 70 : 25;
    q->max_tokens = mix_between(r, 1, mix_percent(r, percent_long) ? MIX_MAX_OUTPUT - 1 : 12);
    q->prompt_only = mix_percent(r, 3);
    if (room < MIX_MAX_OUTPUT && mix_percent(r, 50)) {
        q->max_tokens = mix_percent(r, 50) ? 0 : -1;
        q->prompt_only = false;
    }
    q->ignore_eos = mix_percent(r, 50);
    if (mix_percent(r, 25)) {
        c->stop[0] = stops[mix_below(r, 7)];
        c->stop[1] = stops[mix_below(r, 7)];
        q->stop = c->stop;
        q->n_stop = 2;
    }
    const bool open = q->max_tokens <= 0 || q->max_tokens > room;
    c->n_limit = q->prompt_only ? (int)q->n_prompt
                 : open         ? n_ctx
                                : (int)q->n_prompt + q->max_tokens;
}

// A text of the model's tokens: a common one, or one that a bias makes common. False: the model
// cannot write it.
static inline bool mix_draw_word(const struct mix_case *c, struct mix_random *r,
                                 const rn_model *model, char *out) {
    static const char *const common[] = {"e", "th", ".", " a", "he w", "was", "the", " and"};
    size_t len = 0, at = 0, n_ids = 0;
    const size_t n_bias = c->request.sampling.n_logit_bias;
    const bool biased = n_bias && mix_percent(r, 80);
    const int n_tokens = biased ? mix_between(r, 1, 2) : 0;
    if (!biased) at = (size_t)snprintf(out, MIX_WORD_BYTES, "%s", common[mix_below(r, 8)]);
    for (int i = 0; i < n_tokens; i++) {
        const char *bytes = rn_token_bytes(model, c->bias[mix_below(r, (int)n_bias)].token, &len);
        if (at + len >= MIX_WORD_BYTES || memchr(bytes, 0, len)) return false;
        memcpy(out + at, bytes, len);
        at += len;
    }
    out[at] = 0;
    if (strspn(out, " \t\r\n") == at || !unicode_is_valid(out, at)) return false;
    int32_t *ids = NULL;
    if (rn_tokenize(model, out, at, RN_TOKENIZE_SPECIAL, &ids, &n_ids, NULL)) return false;
    size_t same = 0;
    for (size_t i = 0; i < n_ids && same <= at; i++) {
        const char *bytes = rn_token_bytes(model, ids[i], &len);
        same = same + len <= at && !memcmp(bytes, out + same, len) ? same + len : at + 1;
    }
    rn_free(ids);
    return same == at;
}

// Ends, words and reasoning, by ids and texts that do occur.
static inline void mix_draw_rules(struct mix_case *c, struct mix_random *r,
                                  const struct mix_cases *cases) {
    rn_request *q = &c->request;
    const int most = q->prompt_only ? 0 : q->max_tokens <= 0 ? 12 : q->max_tokens;
    if (mix_percent(r, 25)) q->min_tokens = mix_below(r, most + 1);
    if (mix_percent(r, 15)) {
        const size_t n_bias = q->sampling.n_logit_bias;
        for (int i = 0; i < 2; i++)
            c->stop_token[i] = n_bias && mix_percent(r, 80)
                                   ? c->bias[mix_below(r, (int)n_bias)].token
                                   : mix_below(r, mix_percent(r, 50) ? 300 : cases->n_vocab);
        q->stop_tokens = c->stop_token;
        q->n_stop_tokens = 2;
    }
    q->include_stop = mix_percent(r, 30);
    for (int i = 0; i < 2; i++) {
        if (!mix_percent(r, 20)) continue;
        if (!mix_draw_word(c, r, cases->model, c->word[i])) continue;
        c->bad_word[q->n_bad_words++] = c->word[i];
        q->bad_words = c->bad_word;
    }
    if (mix_percent(r, 15) && mix_draw_word(c, r, cases->model, c->word[2]))
        q->reasoning = (rn_reasoning){.has_budget = true,
                                      .budget = mix_below(r, most + 1),
                                      .close = c->word[2]};
    q->prompt_logprobs = mix_percent(r, 12) && !q->pooling;
    q->prompt_progress = q->n_prompt % 2;
    if (mix_percent(r, 60)) q->top_prompt_logprobs = mix_between(r, 1, RN_MAX_TOP_LOGPROBS);
}

// A shape, in the place of most toys. Marks say where it starts, with or without a budget.
static inline void mix_draw_shape(struct mix_case *c, struct mix_random *r,
                                  const struct mix_cases *cases) {
    rn_request *q = &c->request;
    if (q->pooling || !mix_percent(r, 25)) return;
    q->shape = cases->shape[mix_below(r, MIX_SHAPES)];
    if (mix_percent(r, 80)) c->toy = TOY_NONE;
    if (mix_percent(r, 60)) q->sampling.n_logit_bias = 0;
    if (!q->prompt_only && q->max_tokens > 0 && mix_percent(r, 60)) {
        const int room = cases->n_ctx - (int)q->n_prompt;
        q->max_tokens = room < MIX_MAX_OUTPUT - 1 ? room : MIX_MAX_OUTPUT - 1;
        c->n_limit = (int)q->n_prompt + q->max_tokens;
    }
    if (!q->reasoning.has_budget && mix_percent(r, 15) &&
        mix_draw_word(c, r, cases->model, c->word[2]))
        q->reasoning.close = c->word[2];
    if (q->reasoning.close && mix_percent(r, 50))
        q->reasoning.open = mix_percent(r, 50) ? "T" : "[";
}

// Numbers of the table anywhere in their ranges.
static inline void mix_draw_numbers(rn_sampling *s, struct mix_random *r) {
#define MIX_FLOAT(low, high) (float)((low) + ((high) - (low)) * (double)mix_unit(r))
#define MIX_INT(low, high)   (int)MIX_FLOAT(low, high)
#define SAMPLING_NUMBER(kind, id, field, neutral, min, max, ...)                                   \
    if (mix_percent(r, 30))                                                                        \
        s->field = MIX_##kind((double)(min), (double)(max) < 100 ? (double)(max) : 100);
#include "plan/sampling.def"
#undef MIX_FLOAT
#undef MIX_INT
    if (mix_percent(r, 50)) s->temperature = 1.5f * mix_unit(r);
}

static inline void mix_draw_rest(struct mix_case *c, struct mix_random *r) {
    rn_request *q = &c->request;
    if (mix_percent(r, 15) && !q->pooling) c->toy = (enum toy_kind)mix_between(r, 1, TOY_KINDS - 1);
    if (mix_percent(r, 25)) q->draft_max = mix_between(r, -1, 6);
    q->special_text = mix_percent(r, 25);
    if (mix_percent(r, 20)) mix_draw_numbers(&q->sampling, r);
}

// Hardly any token but three, whose order depends on the whole text: many drafts are right.
static inline void mix_draw_few(struct mix_case *c, struct mix_random *r, int n_vocab) {
    for (int i = 0; i < 3; i++) c->bias[i] = (rn_logit_bias){mix_below(r, n_vocab), 40};
    c->request.sampling.logit_bias = c->bias;
    c->request.sampling.n_logit_bias = mix_between(r, 2, 3);
}

static inline void mix_draw_case(struct mix_case *c, uint64_t seed, const struct mix_cases *cases) {
    static const char *const users[] = {NULL, "a", "b", "c"}, *const salts[] = {NULL, "x", "y"};
    *c = (struct mix_case){.seed = seed};
    struct mix_random r = {mix_hash(seed)};
    const bool is_turn =
        cases->is_hybrid && cases->n_done > 0 && mix_percent(&r, 40) && mix_draw_turn(c, &r, cases);
    if (!is_turn && cases->text.n && mix_percent(&r, cases->is_hybrid ? 25 : 60))
        mix_draw_story(c, &r, &cases->text, cases->n_ctx);
    else if (!is_turn)
        mix_draw_prompt(c, &r, cases->n_ctx, cases->n_vocab);
    mix_draw_sampling(c, &r, cases->n_vocab);
    mix_draw_ends(c, &r, cases->n_ctx);
    rn_request *q = &c->request;
    q->priority = mix_percent(&r, 70) ? 0 : mix_between(&r, -2, 2);
    q->user = users[mix_below(&r, 4)];
    q->cache_salt = mix_percent(&r, 70) ? NULL : salts[mix_below(&r, 3)];
    const int kind = mix_below(&r, 100);
    if (kind < 15) q->n = mix_between(&r, 2, MIX_MAX_CHOICES);
    if (kind >= 94) q->pooling = kind >= 97 ? RN_POOLING_LAST : RN_POOLING_MEAN;
    if (kind >= 94) q->normalize = mix_percent(&r, 50);
    if (kind >= 94) c->n_limit = (int)q->n_prompt;
    c->listens = kind >= 89 && kind < 94;
    q->logprobs = mix_percent(&r, 25);
    if (mix_percent(&r, 50)) q->top_logprobs = mix_between(&r, 1, RN_MAX_TOP_LOGPROBS);
    mix_draw_rest(c, &r);
    if (cases->is_hybrid) {
        if (c->before && mix_percent(&r, 90)) q->cache_salt = c->before->request.cache_salt;
        if (mix_percent(&r, 25)) mix_draw_few(c, &r, cases->n_vocab);
    }
    mix_draw_rules(c, &r, cases);
    mix_draw_shape(c, &r, cases);
}

#endif

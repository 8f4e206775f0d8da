// Creating a sequence: every field of a request is checked here, before anything is queued.
#include "engine/request/seq.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/entropy.h"
#include "base/sized.h"
#include "engine/choice/logprobs.h"
#include "unicode/unicode.h"

static rn_status check_stops(const rn_request *request, rn_error *err) {
    if (request->n_stop > RN_MAX_STOPS)
        return err_set(err, RN_ERR_ARG, "%zu stop strings, expected at most %d", request->n_stop,
                       RN_MAX_STOPS);
    for (size_t i = 0; i < request->n_stop; i++) {
        const size_t len = strnlen(request->stop[i], RN_MAX_STOP_BYTES + 1);
        if (len == 0 || len > RN_MAX_STOP_BYTES)
            return err_set(err, RN_ERR_ARG, "stop string %zu is %s, expected 1 to %d bytes", i,
                           len ? "too long" : "empty", RN_MAX_STOP_BYTES);
        if (!unicode_is_valid(request->stop[i], len))
            return err_set(err, RN_ERR_ARG, "stop string %zu is not valid UTF-8", i);
    }
    return RN_OK;
}

static rn_status check_range(const char *name, int value, int min, int max, rn_error *err) {
    if (value >= min && value <= max) return RN_OK;
    return err_set(err, RN_ERR_ARG, "%s is %d, expected %d to %d", name, value, min, max);
}

static rn_status check_constraint(const rn_request *request, rn_error *err) {
    const rn_constraint *c = &request->constraint;
    if (!c->mask && !c->advance && !c->rollback) return RN_OK;
    if (!c->mask || !c->advance || !c->rollback)
        return err_set(err, RN_ERR_ARG, "the constraint has no %s function",
                       !c->mask      ? "mask"
                       : !c->advance ? "advance"
                                     : "rollback");
    if (request->pooling)
        return err_set(err, RN_ERR_ARG, "a constraint with pooling %d, which gives no text",
                       (int)request->pooling);
    return RN_OK;
}

// How the request is to be served, apart from its text.
static rn_status check_service(const rn_request *request, rn_error *err) {
    const bool single = request->on_logits || request->pooling;
    rn_status s;
    if ((s = check_range("n", request->n, 0, single ? 1 : RN_MAX_CHOICES, err))) return s;
    if ((s = check_range("priority", request->priority, -RN_MAX_PRIORITY, RN_MAX_PRIORITY, err)))
        return s;
    if ((s = check_range("pooling", (int)request->pooling, RN_POOLING_NONE, RN_POOLING_CLS, err)))
        return s;
    if ((s = check_range("draft_max", request->draft_max, -1, RN_MAX_DRAFT, err))) return s;
    if ((s = check_range("top_logprobs", request->top_logprobs, RN_ALL_LOGPROBS,
                         RN_MAX_TOP_LOGPROBS, err)))
        return s;
    if ((s = check_range("top_prompt_logprobs", request->top_prompt_logprobs, RN_ALL_LOGPROBS,
                         RN_MAX_TOP_LOGPROBS, err)))
        return s;
    if (request->prompt_logprobs && request->pooling)
        return err_set(err, RN_ERR_ARG, "prompt_logprobs with pooling %d, which gives none",
                       (int)request->pooling);
    if (!(request->timeout_ms >= 0 && isfinite(request->timeout_ms)))
        return err_set(err, RN_ERR_ARG, "timeout_ms is %g, expected 0 or more",
                       request->timeout_ms);
    if (!(request->ttft_ms >= 0 && isfinite(request->ttft_ms)))
        return err_set(err, RN_ERR_ARG, "ttft_ms is %g, expected 0 or more", request->ttft_ms);
    if (!(request->tpot_ms >= 0 && isfinite(request->tpot_ms)))
        return err_set(err, RN_ERR_ARG, "tpot_ms is %g, expected 0 or more", request->tpot_ms);
    if ((s = check_range("indent_min", request->indent_min, 0, INT_MAX, err))) return s;
    if (!(request->line_ms_max >= 0 && isfinite(request->line_ms_max)))
        return err_set(err, RN_ERR_ARG, "line_ms_max is %g, expected 0 or more",
                       request->line_ms_max);
    if (!(request->cache_share >= 0 && request->cache_share <= 1))
        return err_set(err, RN_ERR_ARG, "cache_share is %g, expected 0 to 1", request->cache_share);
    if (request->cache_salt &&
        strnlen(request->cache_salt, RN_MAX_SALT_BYTES + 1) > RN_MAX_SALT_BYTES)
        return err_set(err, RN_ERR_ARG, "cache_salt is longer than %d bytes", RN_MAX_SALT_BYTES);
    return RN_OK;
}

// A prompt that fills the context may be evaluated, but leaves no room to continue.
static bool is_prompt_only(const rn_request *request) {
    return request->prompt_only || request->pooling;
}

static rn_status check(const rn_request *request, const struct seq_limits *limits, rn_error *err) {
    const int n_vocab = tokenizer_size(limits->tokenizer);
    if (request->n_prompt == 0) return err_set(err, RN_ERR_ARG, "the prompt has no tokens");
    if (request->max_tokens < -1)
        return err_set(err, RN_ERR_ARG, "max_tokens is %d, expected -1 or more",
                       request->max_tokens);
    const size_t room = (size_t)limits->n_ctx - (is_prompt_only(request) ? 0 : 1);
    if (request->n_prompt > room)
        return err_set(err, RN_ERR_CONTEXT, "the prompt has %zu tokens, the context holds %d%s",
                       request->n_prompt, limits->n_ctx,
                       is_prompt_only(request) ? "" : " with at least one to generate");
    for (size_t i = 0; i < request->n_prompt; i++)
        if (request->prompt[i] < 0 || request->prompt[i] >= n_vocab)
            return err_set(err, RN_ERR_ARG, "prompt token %zu is %d, expected 0 to %d", i,
                           request->prompt[i], n_vocab - 1);
    const rn_reasoning *reasoning = &request->reasoning;
    rn_status status = sized_check("reasoning", reasoning->room, sizeof reasoning->room, err);
    if (!status) status = check_service(request, err);
    if (!status) status = sampling_check(&request->sampling, err);
    if (!status) status = check_constraint(request, err);
    return status ? status : check_stops(request, err);
}

// 53 bits, so that the seed survives clients that keep numbers as doubles.
uint64_t seq_seed(const rn_request *request) {
    return request->sampling.has_seed ? request->sampling.seed : entropy_u64() >> 11;
}

// FNV-1a; 0 stands for no user.
static uint64_t user_hash(const char *user) {
    uint64_t hash = user ? 0xcbf29ce484222325u : 0;
    for (; user && *user; user++) hash = (hash ^ (uint8_t)*user) * 0x100000001b3u;
    return hash;
}

// UINT64_MAX if there is no bound.
static uint64_t bound_ns(double ms) {
    const double longest = 1e18; // ns, 30 years
    return ms > 0 && ms * 1e6 < longest ? (uint64_t)(ms * 1e6) : UINT64_MAX;
}

static void fill_service(struct seq *seq, const rn_request *request,
                         const struct seq_limits *limits) {
    const uint64_t timeout_ns = bound_ns(request->timeout_ms);
    seq->data = request->data;
    seq->priority = request->priority;
    seq->user = user_hash(request->user);
    const uint64_t now = limits->now(limits->now_ctx);
    account_init(&seq->account, now);
    seq->deadline_ns = timeout_ns < UINT64_MAX ? now + timeout_ns : UINT64_MAX;
    seq->n_salt = request->cache_salt ? strlen(request->cache_salt) : 0;
    if (seq->n_salt) memcpy(seq->salt, request->cache_salt, seq->n_salt);
    seq->on_logits = request->on_logits;
    seq->on_logits_ctx = request->on_logits_ctx;
    seq->pooling = request->pooling;
    seq->normalize = request->normalize;
    seq->special_text = request->special_text;
    seq->line_ns = bound_ns(request->line_ms_max);
    seq->cache_share = request->cache_share;
    seq->choices.constraint = request->constraint;
    seq->n_told = request->prompt_progress && seq->choices.index == 0 ? -1 : INT_MAX;
}

static rn_status allocate_bound(struct seq *seq, const rn_request *request, rn_error *err) {
    const struct seq_bound bound = {.first_ns = bound_ns(request->ttft_ms),
                                    .token_ns = bound_ns(request->tpot_ms)};
    if (bound.first_ns == UINT64_MAX && bound.token_ns == UINT64_MAX) return RN_OK;
    seq->bound = malloc(sizeof *seq->bound);
    if (!seq->bound) return err_set(err, RN_ERR_NOMEM, "no memory for a bound");
    *seq->bound = bound;
    return RN_OK;
}

// Room for the step's descriptions of choices, and for results that are handed out with events.
static rn_status allocate_results(struct seq *seq, const rn_request *request,
                                  const struct seq_limits *limits, rn_error *err) {
    const int n_tokens = 1 + seq->draft_max; // of a step
    const int n_vocab = tokenizer_size(limits->tokenizer);
    if (seq->pooling) {
        seq->embedding = calloc((size_t)limits->n_embd, sizeof *seq->embedding);
        if (!seq->embedding) return err_set(err, RN_ERR_NOMEM, "no memory for an embedding");
    }
    if (request->logprobs) {
        seq->top_logprobs = logprobs_wanted(request->top_logprobs, n_vocab);
        seq->logprob =
            calloc((size_t)n_tokens * (1 + (size_t)seq->top_logprobs), sizeof *seq->logprob);
        if (!seq->logprob)
            return err_set(err, RN_ERR_NOMEM, "no memory for %d logprobs", seq->top_logprobs);
    }
    if (request->prompt_logprobs && seq->choices.index == 0 && seq->n_prompt > 1) {
        const size_t n = (size_t)seq->n_prompt - 1;
        seq->top_prompt_logprobs = logprobs_wanted(request->top_prompt_logprobs, n_vocab);
        seq->prompt_logprob =
            calloc(n * (1 + (size_t)seq->top_prompt_logprobs), sizeof *seq->prompt_logprob);
        seq->prompt_rank = calloc(n, sizeof *seq->prompt_rank);
        if (!seq->prompt_logprob || !seq->prompt_rank)
            return err_set(err, RN_ERR_NOMEM, "no memory for the logprobs of %zu tokens", n);
    }
    return choices_init(&seq->choices, n_vocab, seq->limit, n_tokens, err);
}

// All logprobs of every token of a draft would take too much memory.
static bool wants_all(const rn_request *request) {
    return request->logprobs && request->top_logprobs == RN_ALL_LOGPROBS;
}

// A request that wants every position's result, or no text, gets nothing drafted.
static rn_status allocate_draft(struct seq *seq, const rn_request *request,
                                const struct seq_limits *limits, rn_error *err) {
    int max = limits->draft_max;
    if (request->draft_max != 0 && request->draft_max < max) max = request->draft_max;
    if (max <= 0 || request->on_logits || request->pooling || wants_all(request) ||
        seq->limit < seq->n_prompt + 2)
        return RN_OK;
    seq->draft_max = max;
    return limits->draft->create(limits->draft_ctx, seq->limit, &seq->draft, err);
}

static rn_status fill(struct seq *seq, const rn_request *request, const struct seq_limits *limits,
                      rn_error *err) {
    struct choices *choices = &seq->choices;
    rn_status status = sampling_dup(&request->sampling, limits->tokenizer, &choices->sampling,
                                    &choices->breakers, err);
    if (status) return status;
    fill_service(seq, request, limits);
    seq->n_prompt = seq->n_token = (int)request->n_prompt;
    const int most = request->max_tokens > 0 ? request->max_tokens : INT_MAX;
    const int more = is_prompt_only(request) ? 0 : most;
    seq->limit = more > limits->n_ctx - seq->n_prompt ? limits->n_ctx : seq->n_prompt + more;
    seq->ignore_eos = request->ignore_eos && !request->shape; // a shape has an end
    seq->timings.prompt_tokens = seq->n_prompt;
    seq->token = malloc((size_t)seq->limit * sizeof *seq->token);
    if (!seq->token) return err_set(err, RN_ERR_NOMEM, "no memory for %d tokens", seq->limit);
    memcpy(seq->token, request->prompt, request->n_prompt * sizeof *seq->token);
    choices->token = seq->token;
    choices->n_prompt = seq->n_prompt;
    status = allocate_draft(seq, request, limits, err);
    if (!status) status = allocate_bound(seq, request, err);
    if (!status) status = allocate_results(seq, request, limits, err);
    if (status) return status;
    status = kv_table_init(&seq->table, limits->n_group, seq->limit, err);
    if (status) return status;
    status = output_init(&seq->output, request->stop, request->n_stop, limits->token_bytes_max,
                         1 + seq->draft_max, err);
    seq->output.keeps_stop = request->include_stop;
    seq->output.indent_min = request->indent_min;
    return status;
}

rn_status seq_create(const rn_request *request, int choice, uint64_t seed,
                     struct seq_family *family, const struct seq_limits *limits, struct seq **out,
                     rn_error *err) {
    rn_status status = choice == 0 ? check(request, limits, err) : RN_OK;
    if (status) return status;
    struct seq *seq = calloc(1, sizeof *seq);
    if (!seq) return err_set(err, RN_ERR_NOMEM, "no memory for a request");
    seq->choices.index = choice;
    seq->choices.rules = family->rules;
    seq->choices.shape = family->shape;
    seq->family = family;
    status = fill(seq, request, limits, err);
    if (status) {
        seq_destroy(seq, limits);
        return status;
    }
    seq->choices.sampling.seed = seed;
    *out = seq;
    return RN_OK;
}

void seq_destroy(struct seq *seq, const struct seq_limits *limits) {
    output_deinit(&seq->output);
    kv_table_deinit(&seq->table);
    choices_deinit(&seq->choices);
    sampling_deinit(&seq->choices.sampling, &seq->choices.breakers);
    if (seq->draft) limits->draft->destroy(seq->draft);
    free(seq->bound);
    free(seq->embedding);
    free(seq->logprob);
    free(seq->prompt_logprob);
    free(seq->prompt_rank);
    free(seq->token);
    free(seq);
}

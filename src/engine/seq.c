// Creating a sequence: every field of a request is checked here, before anything is queued.
#include "engine/seq.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "text/unicode.h"

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

static rn_status check(const rn_request *request, int n_ctx, int n_vocab, rn_error *err) {
    if (request->n_prompt == 0) return err_set(err, RN_ERR_ARG, "the prompt has no tokens");
    if (request->max_tokens < -1)
        return err_set(err, RN_ERR_ARG, "max_tokens is %d, expected -1 or more",
                       request->max_tokens);
    // a prompt that fills the context may be evaluated, but leaves no room to continue
    const size_t room = (size_t)n_ctx - (request->max_tokens == 0 ? 0 : 1);
    if (request->n_prompt > room)
        return err_set(err, RN_ERR_CONTEXT, "the prompt has %zu tokens, the context holds %d%s",
                       request->n_prompt, n_ctx,
                       request->max_tokens == 0 ? "" : " with at least one to generate");
    for (size_t i = 0; i < request->n_prompt; i++)
        if (request->prompt[i] < 0 || request->prompt[i] >= n_vocab)
            return err_set(err, RN_ERR_ARG, "prompt token %zu is %d, expected 0 to %d", i,
                           request->prompt[i], n_vocab - 1);
    const rn_status status = sampling_check(&request->sampling, err);
    return status ? status : check_stops(request, err);
}

// 53 bits, so that the seed survives clients that keep numbers as doubles.
static uint64_t draw_seed(void) { return entropy_u64() >> 11; }

static rn_status fill(struct seq *seq, const rn_request *request, const struct tokenizer *tokenizer,
                      int n_ctx, int n_group, size_t token_bytes_max, rn_error *err) {
    rn_status status =
        sampling_dup(&request->sampling, tokenizer, &seq->sampling, &seq->breakers, err);
    if (status) return status;
    seq->n_prompt = seq->n_token = (int)request->n_prompt;
    seq->limit = request->max_tokens < 0 || request->max_tokens > n_ctx - seq->n_prompt
                     ? n_ctx
                     : seq->n_prompt + request->max_tokens;
    seq->ignore_eos = request->ignore_eos;
    if (!seq->sampling.has_seed) seq->sampling.seed = draw_seed();
    seq->on_logits = request->on_logits;
    seq->on_logits_ctx = request->on_logits_ctx;
    seq->submit_ns = clock_ns();
    seq->timings.prompt_tokens = seq->n_prompt;
    seq->token = malloc((size_t)seq->limit * sizeof *seq->token);
    if (!seq->token) return err_set(err, RN_ERR_NOMEM, "no memory for %d tokens", seq->limit);
    memcpy(seq->token, request->prompt, request->n_prompt * sizeof *seq->token);
    status = kv_table_init(&seq->table, n_group, seq->limit, err);
    if (status) return status;
    return output_init(&seq->output, request->stop, request->n_stop, token_bytes_max, err);
}

rn_status seq_create(const rn_request *request, const struct tokenizer *tokenizer, int n_ctx,
                     int n_group, size_t token_bytes_max, struct seq **out, rn_error *err) {
    rn_status status = check(request, n_ctx, tokenizer_size(tokenizer), err);
    if (status) return status;
    struct seq *seq = calloc(1, sizeof *seq);
    if (!seq) return err_set(err, RN_ERR_NOMEM, "no memory for a request");
    status = fill(seq, request, tokenizer, n_ctx, n_group, token_bytes_max, err);
    if (status) {
        seq_destroy(seq);
        return status;
    }
    *out = seq;
    return RN_OK;
}

void seq_destroy(struct seq *seq) {
    output_deinit(&seq->output);
    kv_table_deinit(&seq->table);
    sampling_deinit(&seq->sampling, &seq->breakers);
    free(seq->token);
    free(seq);
}

// See rules.h. Everything is made at submit; afterwards nothing is written.
#include "engine/choice/rules.h"

#include <stdlib.h>
#include <string.h>

#include "unicode/unicode.h"

static rn_status no_memory(rn_error *err) {
    return err_set(err, RN_ERR_NOMEM, "no memory for the rules of a request");
}

// ---------------------------------------------------------------- ends

static int compare_ids(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static rn_status check_ends(const rn_request *request, int n_vocab, rn_error *err) {
    const int min = request->min_tokens, max = request->max_tokens;
    if (min < 0) return err_set(err, RN_ERR_ARG, "min_tokens is %d, expected 0 or more", min);
    if (request->prompt_only && min > 0)
        return err_set(err, RN_ERR_ARG, "min_tokens is %d, expected 0: no token may be written",
                       min);
    if (max > 0 && min > max && !request->pooling)
        return err_set(err, RN_ERR_ARG, "min_tokens is %d, expected at most max_tokens, %d", min,
                       max);
    if (request->n_stop_tokens > RN_MAX_STOP_TOKENS)
        return err_set(err, RN_ERR_ARG, "%zu stop tokens, expected at most %d",
                       request->n_stop_tokens, RN_MAX_STOP_TOKENS);
    for (size_t i = 0; i < request->n_stop_tokens; i++)
        if (request->stop_tokens[i] < 0 || request->stop_tokens[i] >= n_vocab)
            return err_set(err, RN_ERR_ARG, "stop token %zu is %d, expected 0 to %d", i,
                           request->stop_tokens[i], n_vocab - 1);
    return RN_OK;
}

static rn_status stops_fill(struct rules *rules, const rn_request *request, rn_error *err) {
    const size_t n = request->n_stop_tokens;
    if (n == 0) return RN_OK;
    rules->stop = malloc(n * sizeof *rules->stop);
    if (!rules->stop) return no_memory(err);
    memcpy(rules->stop, request->stop_tokens, n * sizeof *rules->stop);
    qsort(rules->stop, n, sizeof *rules->stop, compare_ids);
    rules->n_stop = (int)n;
    return RN_OK;
}

bool rules_stops(const struct rules *rules, int32_t token) {
    if (!rules || rules->n_stop == 0) return false;
    return bsearch(&token, rules->stop, (size_t)rules->n_stop, sizeof token, compare_ids) != NULL;
}

static bool is_end(const struct rules *rules, const rn_request *request,
                   const struct tokenizer *tokenizer, int32_t id) {
    const bool ignores = request->ignore_eos && !request->shape;
    return (!ignores && tokenizer_is_end(tokenizer, id)) || rules_stops(rules, id);
}

// The ends that min_tokens bans: one pass over the vocabulary to count them, one to keep them.
static rn_status ends_fill(struct rules *rules, const rn_request *request,
                           const struct tokenizer *tokenizer, rn_error *err) {
    const int32_t n_vocab = tokenizer_size(tokenizer);
    int n = 0;
    if (rules->min_tokens == 0) return RN_OK;
    for (int32_t id = 0; id < n_vocab; id++) n += is_end(rules, request, tokenizer, id);
    if (n == 0) return RN_OK;
    rules->end = malloc((size_t)n * sizeof *rules->end);
    if (!rules->end) return no_memory(err);
    for (int32_t id = 0; id < n_vocab; id++)
        if (is_end(rules, request, tokenizer, id)) rules->end[rules->n_end++] = id;
    return RN_OK;
}

// ---------------------------------------------------------------- bad words

static const char *skip_blanks(const char *text) {
    while (reasoning_is_blank(*text)) text++;
    return text;
}

static rn_status check_bad(const rn_request *request, rn_error *err) {
    if (request->n_bad_words > RN_MAX_BAD_WORDS)
        return err_set(err, RN_ERR_ARG, "%zu bad words, expected at most %d", request->n_bad_words,
                       RN_MAX_BAD_WORDS);
    for (size_t i = 0; i < request->n_bad_words; i++) {
        const char *word = request->bad_words[i];
        const size_t len = strnlen(word, RN_MAX_BAD_WORD_BYTES + 1);
        if (len > RN_MAX_BAD_WORD_BYTES || !*skip_blanks(word))
            return err_set(err, RN_ERR_ARG, "bad word %zu is %s, expected 1 to %d bytes", i,
                           len > RN_MAX_BAD_WORD_BYTES ? "too long" : "blank",
                           RN_MAX_BAD_WORD_BYTES);
        if (!unicode_is_valid(word, len))
            return err_set(err, RN_ERR_ARG, "bad word %zu is not valid UTF-8", i);
    }
    return RN_OK;
}

// Whether the tokens end with those of the word before: then that word bans them already.
static bool ends_with_last(const struct rules *rules, const struct token_list *list) {
    const struct bad_word *last = &rules->bad[rules->n_bad - 1];
    const int n = (int)list->count;
    return n >= last->n && memcmp(list->id + n - last->n, rules->bad_token + last->first,
                                  (size_t)last->n * sizeof *list->id) == 0;
}

static rn_status bad_add(struct rules *rules, int *n_token, const struct token_list *list,
                         rn_error *err) {
    const int n = (int)list->count;
    int32_t *grown = realloc(rules->bad_token, (size_t)(*n_token + n) * sizeof *rules->bad_token);
    if (!grown) return no_memory(err);
    rules->bad_token = grown;
    memcpy(grown + *n_token, list->id, (size_t)n * sizeof *grown);
    rules->bad[rules->n_bad++] = (struct bad_word){*n_token, n};
    rules->looks_back |= n > 1;
    *n_token += n;
    return RN_OK;
}

// The word as it is, and behind a space, which is a part of the first token in most vocabularies.
static rn_status bad_encode(struct rules *rules, const struct tokenizer *tokenizer,
                            const char *word, bool spaced, int *n_token, rn_error *err) {
    char text[RN_MAX_BAD_WORD_BYTES + 2];
    const size_t len = strlen(word);
    text[0] = ' ';
    memcpy(text + 1, word, len);
    struct token_list list = {0};
    rn_status status = tokenizer_encode(tokenizer, spaced ? text : text + 1, len + spaced,
                                        ENCODE_SPECIAL, &list, err);
    if (!status && list.count > 0 && !(spaced && ends_with_last(rules, &list)))
        status = bad_add(rules, n_token, &list, err);
    token_list_deinit(&list);
    return status;
}

static rn_status bad_fill(struct rules *rules, const rn_request *request,
                          const struct tokenizer *tokenizer, rn_error *err) {
    int n_token = 0;
    rn_status status = RN_OK;
    if (request->n_bad_words == 0) return RN_OK;
    rules->bad = calloc(2 * request->n_bad_words, sizeof *rules->bad);
    if (!rules->bad) return no_memory(err);
    for (size_t i = 0; i < request->n_bad_words && !status; i++) {
        const char *word = skip_blanks(request->bad_words[i]);
        const int n = rules->n_bad;
        status = bad_encode(rules, tokenizer, word, false, &n_token, err);
        if (!status && rules->n_bad == n)
            status = err_set(err, RN_ERR_ARG, "bad word %zu has no tokens", i);
        if (!status) status = bad_encode(rules, tokenizer, word, true, &n_token, err);
    }
    return status;
}

int32_t rules_banned(const struct rules *rules, int word, const int32_t *output, int n_output) {
    const struct bad_word *bad = &rules->bad[word];
    const int32_t *token = rules->bad_token + bad->first;
    const int before = bad->n - 1;
    if (n_output < before) return -1;
    if (before > 0 &&
        memcmp(output + n_output - before, token, (size_t)before * sizeof *token) != 0)
        return -1;
    return token[before];
}

// ---------------------------------------------------------------- create

// Marks without a budget say where a shape starts.
static bool has_reasoning(const rn_request *request) {
    return request->reasoning.has_budget || (request->shape && request->reasoning.close);
}

static bool has_rules(const rn_request *request) {
    return !request->pooling && (request->min_tokens > 0 || request->n_stop_tokens > 0 ||
                                 request->n_bad_words > 0 || has_reasoning(request));
}

rn_status rules_create(const rn_request *request, const struct tokenizer *tokenizer,
                       struct rules **out, rn_error *err) {
    *out = NULL;
    rn_status status = check_ends(request, tokenizer_size(tokenizer), err);
    if (!status) status = check_bad(request, err);
    if (!status) status = reasoning_check(&request->reasoning, err);
    if (status || !has_rules(request)) return status;
    struct rules *rules = calloc(1, sizeof *rules);
    if (!rules) return no_memory(err);
    rules->min_tokens = request->min_tokens;
    status = stops_fill(rules, request, err);
    if (!status) status = ends_fill(rules, request, tokenizer, err);
    if (!status) status = bad_fill(rules, request, tokenizer, err);
    rules->has_reasoning = has_reasoning(request);
    if (!status && rules->has_reasoning)
        status =
            reasoning_init(&rules->reasoning, &request->reasoning, request->shape, tokenizer, err);
    if (status) {
        rules_destroy(rules);
        return status;
    }
    *out = rules;
    return RN_OK;
}

void rules_destroy(struct rules *rules) {
    if (!rules) return;
    free(rules->stop);
    free(rules->end);
    free(rules->bad);
    free(rules->bad_token);
    reasoning_deinit(&rules->reasoning);
    free(rules);
}

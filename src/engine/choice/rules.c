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
    if (max >= 0 && min > max && !request->pooling)
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
    return (!request->ignore_eos && tokenizer_is_end(tokenizer, id)) || rules_stops(rules, id);
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

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static const char *skip_blanks(const char *text) {
    while (is_blank(*text)) text++;
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

// ---------------------------------------------------------------- reasoning

static rn_status check_mark(const char *name, const char *mark, bool may_lack, rn_error *err) {
    const size_t len = mark ? strnlen(mark, RN_MAX_MARK_BYTES + 1) : 0;
    if ((len > 0 || (may_lack && !mark)) && len <= RN_MAX_MARK_BYTES) return RN_OK;
    return err_set(err, RN_ERR_ARG, "reasoning.%s is %s, expected 1 to %d bytes", name,
                   len ? "too long" : "empty", RN_MAX_MARK_BYTES);
}

static rn_status check_reasoning(const rn_reasoning *reasoning, rn_error *err) {
    if (!reasoning->has_budget) return RN_OK;
    if (reasoning->budget < 0)
        return err_set(err, RN_ERR_ARG, "reasoning.budget is %d, expected 0 or more",
                       reasoning->budget);
    rn_status status = check_mark("open", reasoning->open, true, err);
    if (!status) status = check_mark("close", reasoning->close, false, err);
    if (!status) status = check_mark("last", reasoning->last, true, err);
    if (status || !reasoning->last) return status;
    if (strncmp(reasoning->last, reasoning->close, strlen(reasoning->close)) == 0) return RN_OK;
    return err_set(err, RN_ERR_ARG, "reasoning.last is \"%s\", which does not start with \"%s\"",
                   reasoning->last, reasoning->close);
}

// Where each token of the text begins; false: they are not the tokens of this very text.
static bool place_tokens(struct reasoning_rule *rule, const struct token_list *list, size_t from) {
    size_t at = 0;
    for (size_t i = 0; i < rule->n_last; i++) rule->token[i] = -1;
    for (size_t i = from; i < list->count; i++) {
        const struct text_span bytes = tokenizer_bytes(rule->tokenizer, list->id[i]);
        if (bytes.len == 0 || bytes.len > rule->n_last - at) return false;
        if (memcmp(bytes.data, rule->last + at, bytes.len) != 0) return false;
        rule->token[at] = list->id[i];
        at += bytes.len;
    }
    return at == rule->n_last;
}

// The tokens of the text inside of another one. Some tokenizers put a space before a text's first
// token; then the tokens are those behind a line break.
static rn_status encode_last(struct reasoning_rule *rule, rn_error *err) {
    char text[RN_MAX_MARK_BYTES + 2];
    text[0] = '\n';
    memcpy(text + 1, rule->last, rule->n_last);
    bool fits = false;
    for (int broken = 0; broken < 2 && !fits; broken++) {
        struct token_list list = {0};
        const rn_status status =
            tokenizer_encode(rule->tokenizer, broken ? text : text + 1,
                             rule->n_last + (size_t)broken, ENCODE_SPECIAL, &list, err);
        for (size_t from = 0; !status && !fits && from < list.count; from++)
            fits = place_tokens(rule, &list, from);
        token_list_deinit(&list);
        if (status) return status;
    }
    if (!fits)
        return err_set(err, RN_ERR_ARG, "reasoning: \"%s\" is no row of tokens of the model",
                       rule->last);
    // a start of the text that the model wrote in tokens of its own: the text is written from its
    // beginning
    for (size_t i = 1; i < rule->n_last; i++)
        if (rule->token[i] < 0) rule->token[i] = rule->token[0];
    return RN_OK;
}

// Knuth, Morris and Pratt: after `matched` bytes of the text, what one more byte leaves.
static int match(const struct reasoning_rule *rule, int matched, char c) {
    if ((size_t)matched == rule->n_last) matched = rule->shorter[matched];
    while (matched > 0 && rule->last[matched] != c) matched = rule->shorter[matched];
    return matched + (rule->last[matched] == c);
}

static void fill_shorter(struct reasoning_rule *rule) {
    rule->shorter[0] = 0;
    rule->shorter[1] = 0;
    for (size_t i = 1; i < rule->n_last; i++) {
        int n = rule->shorter[i];
        while (n > 0 && rule->last[n] != rule->last[i]) n = rule->shorter[n];
        rule->shorter[i + 1] = n + (rule->last[n] == rule->last[i]);
    }
}

static rn_status reasoning_fill(struct rules *rules, const rn_reasoning *given,
                                const struct tokenizer *tokenizer, rn_error *err) {
    struct reasoning_rule *rule = &rules->reasoning;
    const char *last = given->last ? given->last : given->close;
    if (!given->has_budget) return RN_OK;
    rules->has_budget = true;
    *rule = (struct reasoning_rule){.tokenizer = tokenizer,
                                    .budget = given->budget,
                                    .open = strdup(given->open ? given->open : ""),
                                    .last = strdup(last),
                                    .n_open = given->open ? strlen(given->open) : 0,
                                    .n_close = strlen(given->close),
                                    .n_last = strlen(last)};
    rule->token = calloc(rule->n_last, sizeof *rule->token);
    rule->shorter = calloc(rule->n_last + 1, sizeof *rule->shorter);
    if (!rule->open || !rule->last || !rule->token || !rule->shorter) return no_memory(err);
    fill_shorter(rule);
    return encode_last(rule, err);
}

struct reasoning_state reasoning_begin(const struct rules *rules) {
    const bool opens = rules && rules->has_budget && rules->reasoning.n_open > 0;
    return (struct reasoning_state){.phase = opens ? REASONING_BEFORE : REASONING_INSIDE};
}

static bool is_spent(const struct reasoning_rule *rule, const struct reasoning_state *state) {
    return state->phase == REASONING_INSIDE && state->n_tokens >= rule->budget;
}

// The opening mark is the first text but blanks, or there is no reasoning.
static void look_for_open(const struct reasoning_rule *rule, struct reasoning_state *state,
                          char c) {
    if (state->matched == 0 && is_blank(c)) return;
    if (rule->open[state->matched] != c) {
        state->phase = REASONING_AFTER;
    } else if ((size_t)++state->matched == rule->n_open) {
        state->phase = REASONING_INSIDE;
        state->matched = 0;
    }
}

void reasoning_advance(const struct reasoning_rule *rule, struct reasoning_state *state,
                       int32_t token) {
    if (state->phase == REASONING_AFTER) return;
    const struct text_span bytes = tokenizer_bytes(rule->tokenizer, token);
    const bool was_inside = state->phase == REASONING_INSIDE;
    const size_t end = is_spent(rule, state) ? rule->n_last : rule->n_close;
    for (size_t i = 0; i < bytes.len && state->phase != REASONING_AFTER; i++) {
        if (state->phase == REASONING_BEFORE) {
            look_for_open(rule, state, bytes.data[i]);
            continue;
        }
        state->matched = match(rule, state->matched, bytes.data[i]);
        if ((size_t)state->matched == end) state->phase = REASONING_AFTER;
    }
    state->n_tokens += was_inside;
}

int32_t reasoning_forced(const struct reasoning_rule *rule, const struct reasoning_state *state) {
    return is_spent(rule, state) ? rule->token[state->matched] : -1;
}

// ---------------------------------------------------------------- create

static bool has_rules(const rn_request *request) {
    return !request->pooling && (request->min_tokens > 0 || request->n_stop_tokens > 0 ||
                                 request->n_bad_words > 0 || request->reasoning.has_budget);
}

rn_status rules_create(const rn_request *request, const struct tokenizer *tokenizer,
                       struct rules **out, rn_error *err) {
    *out = NULL;
    rn_status status = check_ends(request, tokenizer_size(tokenizer), err);
    if (!status) status = check_bad(request, err);
    if (!status) status = check_reasoning(&request->reasoning, err);
    if (status || !has_rules(request)) return status;
    struct rules *rules = calloc(1, sizeof *rules);
    if (!rules) return no_memory(err);
    rules->min_tokens = request->min_tokens;
    status = stops_fill(rules, request, err);
    if (!status) status = ends_fill(rules, request, tokenizer, err);
    if (!status) status = bad_fill(rules, request, tokenizer, err);
    if (!status) status = reasoning_fill(rules, &request->reasoning, tokenizer, err);
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
    free(rules->reasoning.open);
    free(rules->reasoning.last);
    free(rules->reasoning.token);
    free(rules->reasoning.shorter);
    free(rules);
}

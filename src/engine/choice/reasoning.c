// See reasoning.h. Everything is made at submit; afterwards nothing is written.
#include "engine/choice/reasoning.h"

#include <stdlib.h>
#include <string.h>

// ---------------------------------------------------------------- checks

static rn_status check_mark(const char *name, const char *mark, bool may_lack, rn_error *err) {
    const size_t len = mark ? strnlen(mark, RN_MAX_MARK_BYTES + 1) : 0;
    if ((len > 0 || (may_lack && !mark)) && len <= RN_MAX_MARK_BYTES) return RN_OK;
    return err_set(err, RN_ERR_ARG, "reasoning.%s is %s, expected 1 to %d bytes", name,
                   len ? "too long" : "empty", RN_MAX_MARK_BYTES);
}

static rn_status check_answers(const char *const *answer, rn_error *err) {
    int n = 0;
    rn_status status = RN_OK;
    while (!status && answer && answer[n]) {
        status = check_mark("answer", answer[n], false, err);
        if (!status && ++n > RN_MAX_ANSWER_MARKS)
            status = err_set(err, RN_ERR_ARG, "more than %d marks in reasoning.answer",
                             RN_MAX_ANSWER_MARKS);
    }
    return status;
}

rn_status reasoning_check(const rn_reasoning *reasoning, rn_error *err) {
    if (!reasoning->has_budget && !reasoning->close) return RN_OK;
    if (reasoning->has_budget && reasoning->budget < 0)
        return err_set(err, RN_ERR_ARG, "reasoning.budget is %d, expected 0 or more",
                       reasoning->budget);
    rn_status status = check_mark("open", reasoning->open, true, err);
    if (!status) status = check_mark("close", reasoning->close, false, err);
    if (!status) status = check_mark("last", reasoning->last, true, err);
    if (!status) status = check_answers(reasoning->answer, err);
    if (status || !reasoning->last) return status;
    if (strncmp(reasoning->last, reasoning->close, strlen(reasoning->close)) == 0) return RN_OK;
    return err_set(err, RN_ERR_ARG, "reasoning.last is \"%s\", which does not start with \"%s\"",
                   reasoning->last, reasoning->close);
}

// ---------------------------------------------------------------- create

// Where each token of the text begins; false: they are not the tokens of this very text.
static bool place_tokens(struct reasoning_rule *rule, const struct token_list *list, size_t from) {
    size_t at = 0;
    for (size_t i = 0; i < rule->last.len; i++) rule->token[i] = -1;
    for (size_t i = from; i < list->count; i++) {
        const struct text_span bytes = tokenizer_bytes(rule->tokenizer, list->id[i]);
        if (bytes.len == 0 || bytes.len > rule->last.len - at) return false;
        if (memcmp(bytes.data, rule->last.text + at, bytes.len) != 0) return false;
        rule->token[at] = list->id[i];
        at += bytes.len;
    }
    return at == rule->last.len;
}

// The tokens of the text inside of another one. Some tokenizers put a space before a text's first
// token; then the tokens are those behind a line break.
static rn_status encode_last(struct reasoning_rule *rule, rn_error *err) {
    char text[RN_MAX_MARK_BYTES + 2];
    text[0] = '\n';
    memcpy(text + 1, rule->last.text, rule->last.len);
    bool fits = false;
    for (int broken = 0; broken < 2 && !fits; broken++) {
        struct token_list list = {0};
        const rn_status status =
            tokenizer_encode(rule->tokenizer, broken ? text : text + 1,
                             rule->last.len + (size_t)broken, ENCODE_SPECIAL, &list, err);
        for (size_t from = 0; !status && !fits && from < list.count; from++)
            fits = place_tokens(rule, &list, from);
        token_list_deinit(&list);
        if (status) return status;
    }
    if (!fits)
        return err_set(err, RN_ERR_ARG, "reasoning: \"%s\" is no row of tokens of the model",
                       rule->last.text);
    // a start of the text that the model wrote in tokens of its own: the text is written from its
    // beginning
    for (size_t i = 1; i < rule->last.len; i++)
        if (rule->token[i] < 0) rule->token[i] = rule->token[0];
    return RN_OK;
}

// False: no memory; deinit is needed still.
static bool mark_init(struct reasoning_mark *mark, const char *text) {
    mark->len = strlen(text);
    mark->text = strdup(text);
    mark->shorter = calloc(mark->len + 1, sizeof *mark->shorter);
    if (!mark->text || !mark->shorter) return false;
    for (size_t i = 1; i < mark->len; i++) {
        int n = mark->shorter[i];
        while (n > 0 && text[n] != text[i]) n = mark->shorter[n];
        mark->shorter[i + 1] = n + (text[n] == text[i]);
    }
    return true;
}

static void mark_deinit(struct reasoning_mark *mark) {
    free(mark->text);
    free(mark->shorter);
}

static bool answers_init(struct reasoning_rule *rule, const char *const *answer) {
    for (int i = 0; answer && answer[i]; i++) {
        rule->n_answer = i + 1;
        if (!mark_init(&rule->answer[i], answer[i])) return false;
    }
    return true;
}

rn_status reasoning_init(struct reasoning_rule *rule, const rn_reasoning *given, bool to_last,
                         const struct tokenizer *tokenizer, rn_error *err) {
    const char *last = given->last ? given->last : given->close;
    *rule = (struct reasoning_rule){.tokenizer = tokenizer,
                                    .has_budget = given->has_budget,
                                    .budget = given->budget,
                                    .open = strdup(given->open ? given->open : ""),
                                    .n_open = given->open ? strlen(given->open) : 0,
                                    .n_close = strlen(to_last ? last : given->close)};
    rule->token = calloc(strlen(last), sizeof *rule->token);
    if (!rule->open || !rule->token || !mark_init(&rule->last, last) ||
        !answers_init(rule, given->answer))
        return err_set(err, RN_ERR_NOMEM, "no memory for the rules of a request");
    return rule->has_budget ? encode_last(rule, err) : RN_OK;
}

void reasoning_deinit(struct reasoning_rule *rule) {
    free(rule->open);
    free(rule->token);
    mark_deinit(&rule->last);
    for (int i = 0; i < rule->n_answer; i++) mark_deinit(&rule->answer[i]);
    *rule = (struct reasoning_rule){0};
}

// ---------------------------------------------------------------- following a text

struct reasoning_state reasoning_begin(const struct reasoning_rule *rule) {
    return (struct reasoning_state){.phase =
                                        rule->n_open > 0 ? REASONING_BEFORE : REASONING_INSIDE};
}

static bool is_spent(const struct reasoning_rule *rule, const struct reasoning_state *state) {
    return rule->has_budget && state->phase == REASONING_INSIDE && state->n_tokens >= rule->budget;
}

// The opening mark is the first text but blanks, or there is no reasoning.
static void look_for_open(const struct reasoning_rule *rule, struct reasoning_state *state,
                          char c) {
    if (state->matched == 0 && reasoning_is_blank(c)) {
        state->n_blank++;
    } else if (rule->open[state->matched] != c) {
        state->phase = REASONING_AFTER;
    } else if ((size_t)++state->matched == rule->n_open) {
        *state = (struct reasoning_state){.phase = REASONING_INSIDE};
    }
}

// Knuth, Morris and Pratt: after `matched` bytes of the text, what one more byte leaves.
static int match(const struct reasoning_mark *mark, int matched, char c) {
    if ((size_t)matched == mark->len) matched = mark->shorter[matched];
    while (matched > 0 && mark->text[matched] != c) matched = mark->shorter[matched];
    return matched + (mark->text[matched] == c);
}

static void look_for_end(const struct reasoning_rule *rule, struct reasoning_state *state, char c,
                         size_t end) {
    state->matched = match(&rule->last, state->matched, c);
    if ((size_t)state->matched == end) state->phase = REASONING_GAP;
    for (int i = 0; i < rule->n_answer && state->phase == REASONING_INSIDE; i++) {
        state->starts[i] = match(&rule->answer[i], state->starts[i], c);
        if ((size_t)state->starts[i] < rule->answer[i].len) continue;
        state->phase = REASONING_AFTER;
        state->mark = i + 1;
    }
}

// end: bytes of `last` that end the reasoning.
static void advance_byte(const struct reasoning_rule *rule, struct reasoning_state *state, char c,
                         size_t end) {
    switch (state->phase) {
    case REASONING_BEFORE:
        look_for_open(rule, state, c);
        break;
    case REASONING_INSIDE:
        look_for_end(rule, state, c, end);
        break;
    case REASONING_GAP:
        if (!reasoning_is_blank(c) || ++state->n_blank > REASONING_BLANKS)
            state->phase = REASONING_AFTER;
        break;
    case REASONING_AFTER:
        state->n_behind++;
        break;
    }
}

void reasoning_advance(const struct reasoning_rule *rule, struct reasoning_state *state,
                       int32_t token) {
    if (state->phase == REASONING_AFTER) return;
    const struct text_span bytes = tokenizer_bytes(rule->tokenizer, token);
    const bool was_inside = state->phase == REASONING_INSIDE;
    const size_t end = is_spent(rule, state) ? rule->last.len : rule->n_close;
    for (size_t i = 0; i < bytes.len; i++) advance_byte(rule, state, bytes.data[i], end);
    state->n_tokens += was_inside;
}

int32_t reasoning_forced(const struct reasoning_rule *rule, const struct reasoning_state *state) {
    return is_spent(rule, state) ? rule->token[state->matched] : -1;
}

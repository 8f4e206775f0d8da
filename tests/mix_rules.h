// Whether a text of the mixes of mix.h keeps the rules of its request: ends, bad words, scores.
#ifndef RN_TESTS_MIX_RULES_H
#define RN_TESTS_MIX_RULES_H

#include "mix_case.h"

static inline bool mix_has_row(const int32_t *ids, int n_ids, const rn_model *model,
                               const char *word) {
    int32_t *row = NULL;
    size_t n = 0;
    bool found = false;
    assert_int_equal(rn_tokenize(model, word, strlen(word), RN_TOKENIZE_SPECIAL, &row, &n, NULL),
                     RN_OK);
    for (int at = 0; at + (int)n <= n_ids && !found; at++)
        found = memcmp(ids + at, row, n * sizeof *row) == 0;
    rn_free(row);
    return found;
}

// The same of its shape. A stop string or token may cut the text. Behind a reasoning only its end
// is looked at: the shape is that of some end of the text.
static inline const char *mix_shape_complaint(const struct mix_case *c,
                                              const struct mix_output *o) {
    const rn_request *q = &c->request;
    const bool cut = o->stop[0] || o->stop_token >= 0;
    const bool complete = o->finish == RN_FINISH_STOP && !cut;
    if (!q->shape) return NULL;
    if (q->reasoning.close) {
        for (size_t at = 0; complete && at <= o->n_text; at++)
            if (mix_shape_fits(q->shape, o->text + at, o->n_text - at, true)) return NULL;
        return complete ? "no end of the text has the shape" : NULL;
    }
    const bool whole = !(o->stop_token >= 0 && q->include_stop);
    return whole && !mix_shape_fits(q->shape, o->text, o->n_text, complete) ? "the shape" : NULL;
}

// Why a text breaks a rule of its request; NULL: it does not. The reasoning's end is written even
// where it is a bad word. A shape may leave nothing but banned tokens.
static inline const char *mix_rules_complaint(const struct mix_case *c, const struct mix_output *o,
                                              const rn_model *model) {
    const rn_request *q = &c->request;
    const bool forced = q->reasoning.has_budget; // with a token that ends the text, perhaps
    if (!q->shape && !forced && o->finish == RN_FINISH_STOP && !o->has_embedding &&
        o->n_ids < q->min_tokens)
        return "the text is too short";
    for (size_t i = 0; i < q->n_bad_words && !forced && !q->shape; i++)
        if (mix_has_row(o->ids, o->n_ids, model, q->bad_words[i] + strspn(q->bad_words[i], " ")))
            return "a bad word was written";
    for (int i = 0; i < o->n_ids; i++)
        for (size_t j = 0; j < q->n_stop_tokens; j++)
            if (o->ids[i] == q->stop_tokens[j] &&
                (i < o->n_ids - 1 || o->finish != RN_FINISH_STOP || o->stop_token != o->ids[i]))
                return "a stop token did not end the text";
    const bool scored = q->prompt_logprobs && q->n_prompt > 1;
    if (o == &c->alone[0] && scored != (o->prompt_logprobs != 0)) return "prompt logprobs";
    return mix_shape_complaint(c, o);
}

#endif

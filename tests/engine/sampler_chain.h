// From parameters and a history to a token, as the engine and the CPU backend do it together. The
// engine describes the choice; the chooser carries it out.
#ifndef RN_TESTS_SAMPLER_CHAIN_H
#define RN_TESTS_SAMPLER_CHAIN_H

#include <string.h>

#include "backend/cpu/choose_steps.h"
#include "check.h"
#include "choose_view.h"
#include "engine/choice/choice.h"

struct sampler {
    struct chooser chooser;
    struct choice_scratch scratch;
};

static inline void sampler_open(struct sampler *sampler, int n_vocab) {
    const struct cpu_ops *ops;
    assert_int_equal(ops_find(NULL, &ops, NULL), RN_OK);
    assert_int_equal(chooser_init(&sampler->chooser, n_vocab, choose_passes_for(ops->isa), NULL),
                     RN_OK);
    assert_int_equal(choice_scratch_init(&sampler->scratch, n_vocab, NULL), RN_OK);
}

static inline void sampler_close(struct sampler *sampler) {
    chooser_deinit(&sampler->chooser);
    choice_scratch_deinit(&sampler->scratch);
}

// A description and the choices that it is of.
struct sampler_choice {
    struct choices choices;
    rn_logit_bias bias[16]; // in the order of their ids, as submit leaves them
    struct choice choice;
};

static inline void sampler_choice_init(struct sampler_choice *c, struct sampler *sampler,
                                       const rn_sampling *s, const struct sampler_view *view) {
    c->choices = (struct choices){.token = view->token,
                                  .n_prompt = view->n_prompt,
                                  .index = (int)view->choice,
                                  .breakers = view->breakers,
                                  .sampling = *s};
    assert_true(s->n_logit_bias <= sizeof c->bias / sizeof *c->bias);
    for (size_t i = 0; i < s->n_logit_bias; i++) {
        size_t at = i;
        for (; at > 0 && c->bias[at - 1].token > s->logit_bias[i].token; at--)
            c->bias[at] = c->bias[at - 1];
        c->bias[at] = s->logit_bias[i];
    }
    c->choices.sampling.logit_bias = c->bias;
    assert_int_equal(choices_init(&c->choices, sampler->chooser.n_vocab, view->n_token, 1, NULL),
                     RN_OK);
    choice_describe(&sampler->scratch, &c->choices, view->n_token, 0, &c->choice);
    c->choice.allowed = view->allowed;
}

static inline void sampler_choice_deinit(struct sampler_choice *c) { choices_deinit(&c->choices); }

static inline int32_t sampler_choose(struct sampler *sampler, const rn_sampling *s,
                                     const struct sampler_view *view, const float *logits) {
    struct sampler_choice c;
    sampler_choice_init(&c, sampler, s, view);
    const int32_t token = chooser_choose(&sampler->chooser, &c.choice, logits);
    sampler_choice_deinit(&c);
    return token;
}

// The logits after the mask and the edits; returns whether anything was written.
static inline bool sampler_edit(struct sampler *sampler, const rn_sampling *s,
                                const struct sampler_view *view, const float *logits, float *out) {
    struct sampler_choice c;
    sampler_choice_init(&c, sampler, s, view);
    struct cpu_choice choice = {.chooser = &sampler->chooser,
                                .wanted = &c.choice,
                                .raw = logits,
                                .logit = logits};
    choose_edit(&choice);
    const bool is_edited = choice.logit != logits || c.choice.allowed;
    memcpy(out, choice.logit, (size_t)c.choice.n_vocab * sizeof *out);
    if (c.choice.allowed) { // the mask gathers
        struct chooser *chooser = &sampler->chooser;
        const int n = chooser->passes->gather(out, c.choice.n_vocab, c.choice.allowed,
                                              chooser->logit, chooser->id);
        for (int i = 0; i < c.choice.n_vocab; i++) out[i] = -INFINITY;
        for (int i = 0; i < n; i++) out[chooser->id[i]] = chooser->logit[i];
    }
    sampler_choice_deinit(&c);
    return is_edited;
}

#ifdef VOCAB // the including file sets it: one sampler for all its tests, which setup opens
static struct sampler sampler;

static inline int sampler_setup(void **state) {
    (void)state;
    sampler_open(&sampler, VOCAB);
    return 0;
}

static inline int sampler_teardown(void **state) {
    (void)state;
    sampler_close(&sampler);
    return 0;
}
#endif

#endif

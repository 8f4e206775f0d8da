// The public calls that tests/mix.h and streams.h use, over an engine whose inside the test can
// see. Its invariants are tested after every step, it may have the test's own clock, and its model
// need not come from a file. bare_engine.c holds the calls, for the runners of tests/engine/, which
// are not linked with the library's own definitions of them.
#ifndef RN_TESTS_BARE_ENGINE_H
#define RN_TESTS_BARE_ENGINE_H

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "engine/step/engine.h"
#include "load/vocab.h"

#define MIX_NO_THREAD 1 // steps are the caller's

struct rn_model {
    struct weights *weights; // of the tokenizer, and of the model if it is a file's
    struct tokenizer *tokenizer;
    struct model model;
    rn_model_info info;
};

struct rn_engine {
    struct engine engine;
};

// Of engines that are created from now on.
extern struct engine_clock bare_clock;
extern const struct backend_class *bare_class, *bare_draft_class; // NULL: as options say

static inline void bare_fill_info(rn_model *model) {
    model->info = (rn_model_info){.n_vocab = model->model.plan.n_vocab,
                                  .n_embd = model->model.hp.n_embd,
                                  .n_ctx_train = model->model.hp.n_ctx};
}

// A GGUF file's model.
static inline rn_model *bare_open(const char *path) {
    rn_error err = {0};
    rn_model *model = calloc(1, sizeof *model);
    assert_non_null(model);
    check(weights_open(path, &model->weights, &err) == RN_OK, "%s", err.message);
    check(model_init(&model->model, model->weights, &err) == RN_OK, "%s", err.message);
    check(vocab_load(model->weights, model->model.hp.n_vocab, &model->tokenizer, NULL, &err) ==
              RN_OK,
          "%s", err.message);
    bare_fill_info(model);
    return model;
}

static inline void bare_close(rn_model *model) {
    model_deinit(&model->model);
    tokenizer_destroy(model->tokenizer);
    weights_close(model->weights);
    free(model);
}

#endif

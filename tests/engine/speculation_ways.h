// The ways in which an engine can draft, and requests that run in each of them. The text must be
// that of a run without drafts, and drafts must have been verified. For test_speculation*.c.
#ifndef RN_TESTS_SPECULATION_WAYS_H
#define RN_TESTS_SPECULATION_WAYS_H

#define MIX_MAX_OUTPUT   100 // longer than the longest draft, several times
#define MIX_MAX_REQUESTS 24  // each way has a mix or two

#include "bare_engine.h"
#include "data_file.h"
#include "mix.h"

// Events that a way's mixes must show, apart from drafts. They depend on the draft model: the model
// itself or one as large, a smaller relative, or a stranger to a model whose texts repeat nothing.
enum { WAY_ACCEPTS = 1, WAY_REFUSES = 2, WAY_MODEL = 4 }; // model: the draft model is on
enum kin { KIN_SELF, KIN_RELATIVE, KIN_STRANGER };

struct way {
    struct mix_how how;
    int must;
};

// Lengths are the controller's, then forced.
static const struct way ways[] = {
    {{.name = "lookup", .speculate = "lookup"}, WAY_ACCEPTS},
    {{.name = "shared", .speculate = "shared"}, WAY_ACCEPTS},
    {{.name = "model", .speculate = "model"}, WAY_ACCEPTS | WAY_MODEL},
    {{.name = "all", .has_toy = true, .right = 50}, WAY_ACCEPTS | WAY_MODEL},
    {{.name = "never right", .speculate = "custom", .has_toy = true}, 0},
    {{.name = "30%", .speculate = "custom", .has_toy = true, .right = 30}, 0},
    {{.name = "80%", .speculate = "custom", .has_toy = true, .right = 80}, WAY_ACCEPTS},
    {{.name = "always right", .speculate = "custom", .has_toy = true, .right = 100}, WAY_ACCEPTS},
    {{"lookup, 3", "lookup", NULL, false, 0, 3, 3}, WAY_ACCEPTS | WAY_REFUSES},
    {{"shared, 7", "shared", NULL, false, 0, 7, 7}, WAY_ACCEPTS | WAY_REFUSES},
    {{"model, 1", "model", NULL, false, 0, 1, 1}, WAY_ACCEPTS | WAY_REFUSES | WAY_MODEL},
    {{"model, 3", "model", NULL, false, 0, 3, 3}, WAY_ACCEPTS | WAY_REFUSES | WAY_MODEL},
    {{"model, 15", "model", NULL, false, 0, 15, 15}, WAY_ACCEPTS | WAY_REFUSES | WAY_MODEL},
    {{"all, 4 to 8", NULL, NULL, true, 50, 4, 8}, WAY_ACCEPTS | WAY_REFUSES | WAY_MODEL},
    {{"never right, 3", "custom", NULL, true, 0, 3, 3}, WAY_REFUSES},
    {{"30%, 31", "custom", NULL, true, 30, 31, 31}, WAY_ACCEPTS | WAY_REFUSES},
    {{"80%, 1", "custom", NULL, true, 80, 1, 1}, WAY_ACCEPTS | WAY_REFUSES},
    {{"80%, 3", "custom", NULL, true, 80, 3, 3}, WAY_ACCEPTS | WAY_REFUSES},
    {{"80%, 15", "custom", NULL, true, 80, 15, 15}, WAY_ACCEPTS | WAY_REFUSES},
    {{"always right, 31", "custom", NULL, true, 100, 31, 31}, WAY_ACCEPTS},
};
enum { N_WAYS = sizeof ways / sizeof *ways };

// ---------------------------------------------------------------- models

// The tokens of the start of a text that the model was trained for.
static inline struct token_list story_read(const rn_model *model) {
    enum { STORY_BYTES = 60000 };
    const struct data_file file = data_file_read(MODELS_DIR "/val.txt");
    struct token_list list = {0};
    rn_error err = {0};
    assert_true(file.size >= STORY_BYTES);
    check(tokenizer_encode(model->tokenizer, (const char *)file.data, STORY_BYTES, ENCODE_SPECIAL,
                           &list, &err) == RN_OK,
          "%s", err.message);
    free(file.data);
    return list;
}

// For models that were trained for nothing: passages that a prompt repeats can be looked up all the
// same.
static inline struct mix_text noise_fill(int32_t *token, int n, int n_vocab) {
    for (int i = 0; i < n; i++) token[i] = mix_family_token(99, i, n_vocab);
    return (struct mix_text){token, n};
}

// ---------------------------------------------------------------- running

// Time that passes by the look, now slowly, now fast: the controller measures noise, makes choices
// of all kinds, and makes the same ones in every run.
static inline uint64_t noisy_now(void *ctx) {
    struct mix_random *r = ctx;
    return r->state += 1000 + mix_hash(r->state) % (mix_hash(r->state / 100000) % 2 ? 2000 : 30000);
}

static inline void way_check(const struct way *way, const struct mix_totals *t, enum kin kin) {
#ifdef TEST_ASYNC // the choices depend on when steps land
    return;
#endif
    const char *name = way->how.name;
    const bool is_model = (way->must & WAY_MODEL) != 0;
    const bool accepts = way->must & WAY_ACCEPTS && (kin != KIN_STRANGER || way->how.has_toy);
    const bool refuses = way->must & WAY_REFUSES && !(kin == KIN_SELF && is_model);
    // a draft that does not pay need not be tried in this few steps
    const bool pays = accepts && ((kin == KIN_RELATIVE && t->steps >= 200) || !is_model);
    check(t->drafts > 0 || !(pays || way->how.draft_min), "%s: nothing was drafted", name);
    check(t->accepted > 0 || !accepts || t->drafts == 0, "%s: nothing of %lld was accepted", name,
          (long long)t->draft_tokens);
    check(t->accepted < t->draft_tokens || !refuses, "%s: nothing was refused", name);
}

// Mixes of the cases in every stride-th way from `first` on, until each had that many requests.
// Only `make test-all` has time for all.
static inline void ways_run(struct mix_cases *cases, const rn_model *draft, enum kin kin,
                            uint64_t seed, int n_requests, int first, int stride) {
    static struct mix_random time; // outlives engines of tests that fail
    struct mix_totals sum = {0};
    time.state = seed;
    bare_clock = (struct engine_clock){noisy_now, &time};
    for (int i = first; i < N_WAYS; i += test_scale(4, 3, 1) * stride) {
        struct mix_how how = ways[i].how;
        struct mix_totals totals = {0};
        if (ways[i].must & WAY_MODEL) how.draft = draft;
        cases->how = &how;
        mix_run_many(cases, seed + (uint64_t)i, n_requests / test_scale(4, 2, 2) + 1, 0, &totals);
        cases->how = NULL;
        mix_print_totals(how.name, &totals);
        assert_int_equal(totals.mismatches, 0);
        if (!MIX_IS_SHORT) way_check(&ways[i], &totals, kin);
        sum.requests += totals.requests;
        sum.preemptions += totals.preemptions;
        sum.cancelled += totals.cancelled;
        sum.rollbacks += totals.rollbacks;
    }
    bare_clock = (struct engine_clock){0};
    print_message("in all ways: %llu requests, %llu preemptions\n",
                  (unsigned long long)sum.requests, (unsigned long long)sum.preemptions);
    if (MIX_IS_SHORT || stride > 1) return; // all ways together are enough for these
    check(sum.preemptions > 0, "nobody was preempted");
    check(sum.cancelled > 0 && sum.rollbacks > 0, "nobody was cancelled, or no draft taken back");
}

#endif

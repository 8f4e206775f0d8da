// Mixes (mix.h) of hybrid models, with everything on at once: prefixes that are found, choices that
// fork, memory for a few states, and drafts of every kind. For tests/engine/test_hybrid_mix.c,
// test_family_mix.c, whose models have no states, and the program mix_long.c.
#ifndef RN_TESTS_HYBRID_MIXES_H
#define RN_TESTS_HYBRID_MIXES_H

#include "mix.h"
#include "mtp_model.h"

// The ways in which engines of the mixes draft, in turn. Lengths are the controller's or forced.
struct hybrid_way {
    struct mix_how how;
    bool needs_block; // the model has a block that drafts
    bool has_model;   // the model drafts for itself
};

static const struct hybrid_way hybrid_ways[] = {
    {{"all", NULL, NULL, true, 70, 0, 0}, false, true},
    {{"mtp", "mtp", NULL, false, 0, 0, 0}, true, false},
    {{"80%, 3", "custom", NULL, true, 80, 3, 3}, false, false},
    {{"mtp, 3", "mtp", NULL, false, 0, 3, 3}, true, false},
    {{"lookup, 3", "lookup", NULL, false, 0, 3, 3}, false, false},
    {{"shared, 7", "shared", NULL, false, 0, 7, 7}, false, false},
    {{"mtp, 1", "mtp", NULL, false, 0, 1, 1}, true, false},
    {{"model, 3", "model", NULL, false, 0, 3, 3}, false, true},
    {{"all, 2 to 8", NULL, NULL, true, 60, 2, 8}, false, true},
    {{"mtp, 15", "mtp", NULL, false, 0, 15, 15}, true, false},
    {{"90%, 15", "custom", NULL, true, 90, 15, 15}, false, false},
    {{"off", "off", NULL, false, 0, 0, 0}, false, false},
    {{"lookup, shared", "lookup,shared", NULL, false, 0, 0, 0}, false, false},
    {{"97%, 31", "custom", NULL, true, 97, 31, 31}, false, false},
    {{"mtp, lookup, 1 to 5", "mtp,lookup", NULL, false, 0, 1, 5}, true, false},
    {{"never right, 2", "custom", NULL, true, 0, 2, 2}, false, false},
    {{"model, 15", "model", NULL, false, 0, 15, 15}, false, true},
};
enum { HYBRID_WAYS = sizeof hybrid_ways / sizeof *hybrid_ways };

static const char *const hybrid_drafters[RN_DRAFTER_COUNT] = {
    [RN_DRAFTER_MODEL] = "model", [RN_DRAFTER_LOOKUP] = "lookup", [RN_DRAFTER_SHARED] = "shared",
    [RN_DRAFTER_MTP] = "mtp",     [RN_DRAFTER_SHAPE] = "shape",   [RN_DRAFTER_CUSTOM] = "custom"};

// Passages that prompts repeat, so that lookup finds something.
enum { HYBRID_NOISE = 2000 };

static inline struct mix_text hybrid_noise(int32_t *token, int n_vocab) {
    for (int i = 0; i < HYBRID_NOISE; i++) token[i] = mix_family_token(99, i, n_vocab);
    return (struct mix_text){token, HYBRID_NOISE};
}

// Time that passes by the look, so that the controller's choices are the same in every run.
static inline uint64_t hybrid_now(void *ctx) {
    struct mix_random *r = ctx;
    return r->state += 1000 + mix_hash(r->state) % (mix_hash(r->state / 100000) % 2 ? 2000 : 30000);
}

// Mixes of these cases in the ways from `first` on until that many requests were in one. only: the
// seed of the one mix to run; 0: all.
static inline void hybrid_run_cases(struct mix_cases *cases, bool has_block, uint64_t seed,
                                    int first, int n_requests, uint64_t only,
                                    struct mix_totals *totals) {
    struct mix_random r = {mix_hash(seed ^ 0x6d69)};
    for (int done = 0, way = first; done < n_requests; way++) {
        const struct hybrid_way *at = &hybrid_ways[way % HYBRID_WAYS];
        if (at->needs_block && !has_block) continue;
        struct mix_how how = at->how;
        struct mix mix;
        if (at->has_model) how.draft = cases->model;
        cases->how = &how;
        mix_draw(&mix, cases, mix_next(&r));
        done += mix.n;
        if (!only || mix.seed == only)
            mix_run(&mix, totals);
        else
            free(mix.live);
        cases->how = NULL;
    }
}

// Half as many requests are drawn as are in mixes.
static inline void hybrid_run(const rn_model *model, bool has_block, const char *kv_type,
                              uint64_t seed, int first, int n_requests, uint64_t only,
                              struct mix_totals *totals) {
    int32_t noise[HYBRID_NOISE];
    struct mix_cases cases;
    const struct mix_text text = hybrid_noise(noise, rn_model_get_info(model)->n_vocab);
    mix_cases_create_all(&cases, model, kv_type, text, true, seed, n_requests / 2);
    hybrid_run_cases(&cases, has_block, seed, first, n_requests, only, totals);
    mix_cases_destroy(&cases);
}

static inline void hybrid_print(const char *name, const struct mix_totals *t) {
    mix_print_totals(name, t);
    print_message("%s: %llu forks, %llu inside of a block, %llu requests began inside of a block, "
                  "%llu later turns, %llu paused, "
                  "%llu embeddings, %llu with logprobs, %llu with all logits, %llu with a "
                  "constraint\n",
                  name, (unsigned long long)t->forks, (unsigned long long)t->inner_forks,
                  (unsigned long long)t->tails, (unsigned long long)t->turns,
                  (unsigned long long)t->pauses, (unsigned long long)t->embeddings,
                  (unsigned long long)t->logprobs, (unsigned long long)t->listeners,
                  (unsigned long long)t->constrained);
    for (int i = 0; i < RN_DRAFTER_COUNT; i++)
        print_message("%s: drafter %s: %llu drafts, %llu of %llu tokens accepted\n", name,
                      hybrid_drafters[i], (unsigned long long)t->by[i].drafts,
                      (unsigned long long)t->by[i].accepted, (unsigned long long)t->by[i].tokens);
}

// Every event happened, and every drafter had tokens accepted and refused. Only states let a
// request begin inside of a block.
static inline void hybrid_check_events(const char *name, const struct mix_totals *t,
                                       bool has_states, bool has_block) {
    const struct {
        const char *name;
        uint64_t n;
    } events[] = {{"cancelled", t->cancelled},
                  {"preempted", t->preemptions},
                  {"found", t->hits},
                  {"cached", t->cached_tokens},
                  {"evicted", t->evictions},
                  {"forked", t->forks},
                  {"found inside a block", t->tails + !has_states},
                  {"a later turn", t->turns},
                  {"paused", t->pauses},
                  {"an embedding", t->embeddings},
                  {"with logprobs", t->logprobs},
                  {"with all logits", t->listeners},
                  {"constrained", t->constrained},
                  {"ended by a stop token", t->stop_tokens},
                  {"scored", t->scored},
                  {"rolled back", t->rollbacks}};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        check(events[i].n > 0, "%s: nothing was %s", name, events[i].name);
    for (int i = 0; i < RN_DRAFTER_COUNT; i++) {
        if ((i == RN_DRAFTER_MTP && !has_block) || i == RN_DRAFTER_SHAPE) continue;
        check(t->by[i].accepted > 0, "%s: drafter %s: nothing was accepted", name,
              hybrid_drafters[i]);
        // the model itself may always be right, and the block of an echo is
        check(t->by[i].accepted < t->by[i].tokens || i == RN_DRAFTER_MODEL || i == RN_DRAFTER_MTP,
              "%s: drafter %s: nothing was refused", name, hybrid_drafters[i]);
    }
}

#endif

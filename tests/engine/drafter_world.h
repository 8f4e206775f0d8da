// A draft model beside a target engine that only lends its threads, and sequences of
// the test's own for it to follow. The pages' invariants are tested after every call.
#ifndef RN_TESTS_DRAFTER_WORLD_H
#define RN_TESTS_DRAFTER_WORLD_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bare_engine.h"
#include "base/clock.h"
#include "engine/draft/drafter_model.h"
#include "streams.h"

// A sequence, and the text that it is going to have where a test knows it.
struct story {
    struct seq seq;
    struct seq_draft draft;
    int n_text;
    int32_t *text; // [limit]
};

static inline struct story *story_of(const int32_t *token, int n_token, int limit) {
    struct story *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->seq.token = calloc((size_t)limit, sizeof *s->seq.token);
    s->text = calloc((size_t)limit, sizeof *s->text);
    assert_non_null(s->seq.token);
    assert_non_null(s->text);
    memcpy(s->seq.token, token, (size_t)n_token * sizeof *token);
    s->seq.n_token = s->seq.n_prompt = n_token;
    s->seq.limit = limit;
    s->seq.choices.sampling = rn_sampling_neutral();
    s->seq.choices.sampling.temperature = 0;
    s->seq.draft = &s->draft;
    for (int id = 0; id < RN_DRAFTER_COUNT; id++) s->draft.slot[id] = -1;
    return s;
}

static inline uint32_t story_draw(uint64_t *random, uint32_t n) { // below n
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33) % n;
}

static inline struct story *story_random(int n_token, int limit, uint64_t seed, int n_vocab) {
    struct story *s = story_of((const int32_t[]){0}, 1, limit);
    for (int i = 0; i < n_token; i++)
        s->seq.token[i] = (int32_t)story_draw(&seed, (uint32_t)n_vocab);
    s->seq.n_token = s->seq.n_prompt = n_token;
    s->seq.ignore_eos = true;
    return s;
}

// Room for its choices, as submit makes it. Allocates nothing where choices need no history.
static inline void story_room(struct seq *seq, int n_vocab) {
    choices_deinit(&seq->choices);
    seq->choices.token = seq->token;
    seq->choices.n_prompt = seq->n_prompt;
    assert_int_equal(choices_init(&seq->choices, n_vocab, seq->limit, 1, NULL), RN_OK);
}

static inline void story_destroy(struct story *s) {
    choices_deinit(&s->seq.choices);
    free(s->seq.token);
    free(s->text);
    free(s);
}

struct world_config {
    int max_seqs, batch_tokens, n_ctx; // 0: 8, 256, 400
    uint64_t kv_bytes;                 // 0: ample
};

struct world {
    rn_engine *engine;
    struct drafter *drafter;
};

static inline uint64_t world_now(void *ctx) {
    (void)ctx;
    return clock_ns();
}

static inline struct drafter_model *world_model(struct world *w) {
    return (struct drafter_model *)w->drafter;
}

static inline void world_check(struct world *w) {
    struct drafter_model *d = world_model(w);
    bool settled = true;
    kv_check_begin(d->kv);
    for (int i = 0; i < d->max_seqs; i++) {
        const struct drafter_slot *slot = &d->slot[i];
        kv_check_table(d->kv, &slot->table);
        if (slot->seq) assert_int_equal(slot->seq->draft->slot[RN_DRAFTER_MODEL], i);
        if (!slot->seq) assert_int_equal(slot->table.n_page, 0);
        settled &= !slot->table.marked;
    }
    const bool is_valid = kv_check_end(d->kv);
    assert_true(is_valid || !settled); // a mark holds states that the check does not count
}

// Of the KV type that engines have by default.
static inline struct kv_bytes world_pages(const struct plan *plan) {
    const struct backend_sizes sizes = {1, 1, 1, false};
    struct backend_place place;
    struct backend_need need;
    rn_error err = {0};
    check(place_find(&(struct place_wanted){.name = NULL}, &place, &err) == RN_OK, "%s",
          err.message);
    check(place.cls->need(plan, &sizes, place.kv_type, &need, &err) == RN_OK, "%s", err.message);
    return need.kv;
}

static inline void world_init(struct world *w, const rn_model *target, const rn_model *draft,
                              const struct world_config *c) {
    const int n_ctx = c->n_ctx ? c->n_ctx : 400;
    w->engine =
        streams_engine(target,
                       &(rn_engine_options){.speculate = "off", .n_threads = 2, .n_ctx = n_ctx});
    struct engine *engine = &w->engine->engine;
    const struct kv_bytes pages = world_pages(&draft->model.plan);
    const struct kv_config kv = budget_kv_config(&draft->model.plan, &pages);
    const struct drafter_model_config config = {
        .model = &draft->model,
        .tokenizer = draft->tokenizer,
        .target_tokenizer = target->tokenizer,
        .place = &engine->draft_place,
        .pool = engine->pool,
        .n_ctx = n_ctx,
        .max_seqs = c->max_seqs ? c->max_seqs : 8,
        .batch_tokens = c->batch_tokens ? c->batch_tokens : 256,
        .kv_bytes = c->kv_bytes ? c->kv_bytes : 20 * kv_need(&kv, n_ctx, 256),
        .scratch = engine->scratch,
        .now = world_now};
    rn_error err = {0};
    check(drafter_model_create(&config, &w->drafter, &err) == RN_OK, "%s", err.message);
    world_check(w);
}

static inline void world_deinit(struct world *w) {
    w->drafter->cls->destroy(w->drafter);
    rn_engine_destroy(w->engine);
}

static inline struct draft_offer world_offer(struct world *w, struct story *story, int most) {
    int32_t unused[RN_MAX_DRAFT];
    const struct draft_offer offer = w->drafter->cls->offer(w->drafter, &story->seq, most, unused);
    assert_int_equal(offer.source, DRAFT_MODEL);
    assert_in_range(offer.n, 0, most);
    world_check(w);
    return offer;
}

static inline void world_jobs(struct world *w, struct draft_job *jobs, int n) {
    for (int i = 0; i < n; i++) story_room(jobs[i].seq, world_model(w)->n_target);
    w->drafter->cls->draft(w->drafter, jobs, n);
    world_check(w);
}

static inline void world_settle(struct world *w, struct story *story, int n_valid) {
    w->drafter->cls->settle(w->drafter, &story->seq, n_valid);
    world_check(w);
}

static inline void world_leave(struct world *w, struct story *story) {
    w->drafter->cls->leave(w->drafter, &story->seq);
    assert_int_equal(story->draft.slot[RN_DRAFTER_MODEL], -1);
    world_check(w);
}

// The tokens of a draft of one sequence, once it has caught up.
static inline int world_draft(struct world *w, struct story *story, int most) {
    for (int round = 0; round < 100; round++) {
        struct draft_job job = {&story->seq, world_offer(w, story, most).n};
        if (job.n == 0) return 0;
        world_jobs(w, &job, 1);
        if (job.n > 0) return job.n;
    }
    fail_msg("it does not catch up");
    return 0;
}

#endif

// "The tokens of a request depend on the request alone", as a property of random requests. Each
// request runs alone on an engine that shares nothing, then again inside random mixes with other
// requests. Both must give the same tokens, text, vectors, logits and logprobs, all to the bit.
// Everything but the drafts follows from one seed. Alone nothing is drafted. For
// tests/runnel/test_mix.c, test_windows.c, several of tests/engine/, and the program mix_long.c.
//
//   mix_cases_create    draws requests and runs them alone
//   mix_draw, mix_run   one engine of random shape, random arrivals, cancels and pauses
//   mix_totals          what all mixes saw; mismatches were printed with what repeats them
#ifndef RN_TESTS_MIX_H
#define RN_TESTS_MIX_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "account_check.h"
#include "check.h"
#include "mix_case.h"
#include "mix_rules.h"
#include "runnel.h"

// ---------------------------------------------------------------- a run of a request

// The results of one run of a request so far.
struct mix_live {
    const struct mix_case *of;
    uint64_t id;
    int arrival;            // steps
    struct mix_live *after; // steps after that one's end, by then NULL; NULL: after the start
    int cancel_after;       // steps after its arrival; -1: never
    int pause_at, pause_n;  // steps after its arrival, and how many; pause_n 0: never
    bool submitted, ended;
    struct toy_constraint toy;
    int n_open;        // choices without a finish
    int differing_row; // a position whose logits differ; -1: none
    int n_told;        // events of progress
    int prompt_done;   // of the last one
    struct mix_output got[MIX_MAX_CHOICES];
};

struct mix_totals {
    uint64_t mixes, requests, choices, tokens, cancelled, steps, preemptions, lookups, hits;
    uint64_t prompt_tokens, cached_tokens, evictions, mismatches;
    uint64_t drafts, draft_tokens, accepted, rollbacks;
    uint64_t forks, inner_forks; // further choices that began with the prompt; inside of a block
    uint64_t tails;              // first choices that began inside of a block
    uint64_t stored_tokens, stored_pages; // of prompts, from a page store; pages written to it
    uint64_t embeddings, logprobs, listeners, constrained, turns, pauses; // requests
    // choices that a stop token ended; that a bad word or min_tokens was given to; whose reasoning
    // is bounded; requests whose prompt was scored, and those of them that were preempted
    uint64_t stop_tokens, bad_words, least, bounded, scored, scored_again;
    // choices with a shape; with one that is complete; that began behind a reasoning; preempted
    uint64_t shaped, complete, shaped_later, shaped_again;
    rn_draft_stats by[RN_DRAFTER_COUNT];
    int running_max, shared_max, accepted_max; // the longest run of accepted tokens
};

static inline void mix_totals_add(struct mix_totals *sum, const struct mix_totals *t) {
    sum->mixes += t->mixes;
    sum->requests += t->requests;
    sum->choices += t->choices;
    sum->tokens += t->tokens;
    sum->cancelled += t->cancelled;
    sum->steps += t->steps;
    sum->preemptions += t->preemptions;
    sum->lookups += t->lookups;
    sum->hits += t->hits;
    sum->prompt_tokens += t->prompt_tokens;
    sum->cached_tokens += t->cached_tokens;
    sum->evictions += t->evictions;
    sum->mismatches += t->mismatches;
    sum->draft_tokens += t->draft_tokens;
    sum->accepted += t->accepted;
    sum->forks += t->forks;
    sum->shaped += t->shaped;
    sum->complete += t->complete;
    if (t->running_max > sum->running_max) sum->running_max = t->running_max;
    if (t->shared_max > sum->shared_max) sum->shared_max = t->shared_max;
}

struct mix {
    const struct mix_cases *cases;
    uint64_t seed;
    rn_engine_options options;
    bool threaded;    // the engine's own thread steps
    int forget_every; // steps after which cached prefixes are forgotten; 0: never
    int n, n_ended;
    struct mix_live *live; // [n]
    struct toy_drafter drafter;
    rn_engine *engine;
};

// ---------------------------------------------------------------- events

static inline uint64_t mix_logprobs_hash(const rn_event *event) {
    uint64_t hash = 1;
    for (int i = 0; i < event->n_logprobs; i++) {
        uint64_t bits;
        _Static_assert(sizeof bits == sizeof event->logprob[i], "a token and its logprob");
        memcpy(&bits, &event->logprob[i], sizeof bits);
        hash = mix_hash(hash ^ bits);
    }
    return event->n_logprobs ? hash : 0;
}

// Prompt logprobs come once, before the first token of any choice.
static inline void mix_take_scores(struct mix_live *live, const rn_event *event) {
    const rn_request *q = &live->of->request;
    struct mix_output *o = &live->got[0];
    uint64_t hash = 1;
    assert_true(q->prompt_logprobs && event->choice == 0 && event->token < 0 && !event->finish);
    assert_int_equal(event->n_prompt_logprobs, (int)q->n_prompt - 1);
    assert_int_equal(o->prompt_logprobs, 0);
    for (int i = 0; i < mix_choices(live->of); i++) assert_int_equal(live->got[i].n_ids, 0);
    for (int i = 0; i < event->n_prompt_logprobs; i++) {
        const rn_logprob *row = event->prompt_logprob + i * (1 + q->top_prompt_logprobs);
        assert_int_equal(row->token, q->prompt[i + 1]);
        for (int j = 0; j <= q->top_prompt_logprobs; j++) {
            uint64_t bits;
            memcpy(&bits, &row[j], sizeof bits);
            hash = mix_hash(hash ^ bits);
        }
        hash = mix_hash(hash ^ (uint64_t)event->prompt_rank[i]);
    }
    o->prompt_logprobs = hash | 1;
}

// Each tells more than the one before it, the first one the cached tokens alone.
static inline void mix_take_progress(struct mix_live *live, const rn_event *event) {
    const rn_request *q = &live->of->request;
    assert_true(q->prompt_progress && event->choice == 0 && event->token < 0 && !event->finish);
    assert_int_equal(live->got[0].n_ids, 0);
    assert_true(live->n_told == 0 || event->prompt_done > live->prompt_done);
    assert_true(event->prompt_cached <= event->prompt_done && event->prompt_ms >= 0);
    assert_true(event->prompt_done <= (int)q->n_prompt);
    if (!live->n_told) assert_int_equal(event->prompt_cached, event->prompt_done);
    live->n_told++;
    live->prompt_done = event->prompt_done;
}

static inline void mix_take(struct mix_live *live, const rn_event *event, int n_embd) {
    assert_true(event->choice >= 0 && event->choice < mix_choices(live->of));
    struct mix_output *o = &live->got[event->choice];
    assert_int_equal(o->finish, RN_FINISH_NONE); // nothing follows the last event of a choice
    assert_true(o->n_text + event->text_len <= MIX_MAX_TEXT);
    if (event->progress) mix_take_progress(live, event);
    if (event->token >= 0) {
        if (event->choice == 0 && live->of->request.prompt_progress)
            assert_int_equal(live->prompt_done, (int)live->of->request.n_prompt);
        assert_true(o->n_ids < MIX_MAX_OUTPUT);
        o->logprobs[o->n_ids] = mix_logprobs_hash(event);
        o->ids[o->n_ids++] = event->token;
        o->n_drafted += event->drafted;
        assert_int_equal(event->n_logprobs,
                         live->of->request.logprobs ? 1 + live->of->request.top_logprobs : 0);
    }
    o->n_certain = o->n_text;
    if (event->text_len) memcpy(o->text + o->n_text, event->text, event->text_len);
    o->n_text += event->text_len;
    o->finish = event->finish;
    o->status = event->status;
    o->seed = event->seed;
    if (event->prompt_logprob) mix_take_scores(live, event);
    o->stop_token = event->stop_token;
    if (event->stop) snprintf(o->stop, sizeof o->stop, "%s", event->stop);
    if (event->embedding) memcpy(o->embedding, event->embedding, (size_t)n_embd * sizeof(float));
    o->has_embedding = event->embedding != NULL;
    if (event->finish == RN_FINISH_NONE) return;
    assert_non_null(event->timings);
    account_check(event);
    o->timings = *event->timings;
    live->n_open--;
    assert_int_equal(event->last, live->n_open == 0);
    live->ended = event->last;
}

static inline uint64_t mix_row_hash(const float *logits, int n) {
    uint64_t hash = 1;
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3u;
    }
    return hash | 1; // 0 means: not seen
}

// The alone run keeps the hashes, others compare.
static inline void mix_keep_row(void *ctx, int position, const float *logits, int n_vocab) {
    uint64_t *rows = ctx;
    assert_int_equal(rows[position], 0);
    rows[position] = mix_row_hash(logits, n_vocab);
}

static inline void mix_compare_row(void *ctx, int position, const float *logits, int n_vocab) {
    struct mix_live *live = ctx;
    if (live->of->rows[position] != mix_row_hash(logits, n_vocab)) live->differing_row = position;
}

static inline void mix_submit(rn_engine *engine, struct mix_live *live, int n_vocab, bool alone) {
    rn_request request = live->of->request;
    rn_error err = {0};
    request.data = live;
    if (live->of->toy) request.constraint = toy_begin(&live->toy, live->of->toy, n_vocab);
    if (live->of->listens) {
        request.on_logits = alone ? mix_keep_row : mix_compare_row;
        request.on_logits_ctx = alone ? (void *)live->of->rows : live;
    }
    live->n_open = mix_choices(live->of);
    live->differing_row = -1;
    const rn_status status = rn_engine_submit(engine, &request, &live->id, &err);
    check(status == RN_OK, "request %llx: %s", (unsigned long long)live->of->seed, err.message);
    live->submitted = true;
}

// ---------------------------------------------------------------- alone

static inline void mix_run_alone(rn_engine *engine, struct mix_cases *cases, struct mix_case *c) {
    static struct mix_live live;
    live = (struct mix_live){.of = c};
    if (c->listens) {
        c->rows = calloc((size_t)cases->n_ctx, sizeof *c->rows);
        assert_non_null(c->rows);
    }
    mix_submit(engine, &live, cases->n_vocab, true);
    for (bool busy = true; !live.ended;) {
        check(busy, "request %llx makes no progress alone", (unsigned long long)c->seed);
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(engine, &event);)
            mix_take(&live, &event, cases->n_embd);
    }
    memcpy(c->alone, live.got, sizeof c->alone);
    for (int i = 0; i < mix_choices(c); i++) {
        const char *why = mix_rules_complaint(c, &c->alone[i], cases->model);
        check(!why, "request %llx alone: %s", (unsigned long long)c->seed, why);
    }
    for (int i = 0; c->toy && i < mix_choices(c); i++) {
        const char *why = toy_complaint(&live.toy, i, c->alone[i].ids, c->alone[i].n_ids);
        check(!why, "request %llx alone: %s", (unsigned long long)c->seed, why);
    }
}

// Draws n requests and runs each alone: one sequence at a time, one thread, no prefix cache, no
// drafts. The text is not copied.
static inline void mix_cases_create_all(struct mix_cases *cases, const rn_model *model,
                                        const char *kv_type, struct mix_text text, bool is_hybrid,
                                        uint64_t seed, int n) {
    const rn_model_info *info = rn_model_get_info(model);
    const int n_ctx = info->n_ctx_train < MIX_MAX_CTX ? info->n_ctx_train : MIX_MAX_CTX;
    const rn_engine_options options = {.max_seqs = 1,
                                       .n_threads = 1,
                                       .n_ctx = n_ctx,
                                       .kv_type = kv_type,
                                       .no_prefix_cache = true,
                                       .speculate = "off"};
    rn_engine *engine;
    rn_error err = {0};
    check(rn_engine_create(model, &options, &engine, &err) == RN_OK, "%s", err.message);
    *cases = (struct mix_cases){.model = model,
                                .text = text,
                                .kv_type = kv_type,
                                .is_hybrid = is_hybrid,
                                .n_ctx = n_ctx,
                                .n_vocab = info->n_vocab,
                                .n_embd = info->n_embd,
                                .n = n,
                                .at = calloc((size_t)n, sizeof *cases->at)};
    assert_non_null(cases->at);
    assert_true(cases->n_embd <= MIX_MAX_EMBD);
    mix_shapes_create(model, cases->shape);
    for (int i = 0; i < n; i++, cases->n_done++) {
        mix_draw_case(&cases->at[i], mix_hash(seed + (uint64_t)i), cases);
        mix_run_alone(engine, cases, &cases->at[i]);
    }
    rn_engine_destroy(engine);
}

static inline void mix_cases_create_from(struct mix_cases *cases, const rn_model *model,
                                         const char *kv_type, struct mix_text text, uint64_t seed,
                                         int n) {
    mix_cases_create_all(cases, model, kv_type, text, false, seed, n);
}

static inline void mix_cases_create(struct mix_cases *cases, const rn_model *model,
                                    const char *kv_type, uint64_t seed, int n) {
    mix_cases_create_from(cases, model, kv_type, (struct mix_text){NULL, 0}, seed, n);
}

static inline void mix_cases_destroy(struct mix_cases *cases) {
    mix_shapes_release(cases->shape);
    for (int i = 0; i < cases->n; i++) {
        free(cases->at[i].prompt);
        free(cases->at[i].rows);
    }
    free(cases->at);
}

// ---------------------------------------------------------------- comparing

// Why a choice differs from its alone run; NULL: it does not. A cancelled one may be shorter.
static inline const char *mix_difference(const struct mix_output *want,
                                         const struct mix_output *got, int n_embd) {
    const bool cut = got->finish == RN_FINISH_CANCELLED;
    const int n = got->n_ids;
    if (cut ? n > want->n_ids : n != want->n_ids) return "number of tokens";
    if (memcmp(got->ids, want->ids, (size_t)n * sizeof *got->ids) != 0) return "tokens";
    if (memcmp(got->logprobs, want->logprobs, (size_t)n * sizeof *got->logprobs) != 0)
        return "logprobs";
    const size_t n_text = cut ? got->n_certain : got->n_text;
    if (cut ? n_text > want->n_text : n_text != want->n_text) return "length of the text";
    if (memcmp(got->text, want->text, n_text) != 0) return "text";
    if (got->timings.output_tokens != n) return "count of the timings";
    if (got->seed != want->seed) return "seed";
    if (cut ? got->prompt_logprobs && got->prompt_logprobs != want->prompt_logprobs
            : got->prompt_logprobs != want->prompt_logprobs)
        return "prompt logprobs";
    if (cut) return got->status == RN_ERR_CANCELLED ? NULL : "status";
    if (got->finish != want->finish || got->status != want->status) return "finish";
    if (strcmp(got->stop, want->stop) != 0) return "stop string";
    if (got->stop_token != want->stop_token) return "stop token";
    if (got->has_embedding != want->has_embedding) return "whether there is an embedding";
    return memcmp(got->embedding, want->embedding, (size_t)n_embd * sizeof(float)) != 0
               ? "embedding"
               : NULL;
}

// The same about its drafts.
static inline const char *mix_draft_complaint(const struct mix_case *c,
                                              const struct mix_output *got) {
    const rn_timings *t = &got->timings;
    if (t->accepted_tokens != got->n_drafted) return "number of accepted tokens";
    if (t->draft_tokens < t->accepted_tokens || t->draft_tokens < t->draft_steps)
        return "number of drafted tokens";
    return c->request.draft_max < 0 && t->draft_tokens ? "draft, which nobody wanted" : NULL;
}

static inline void mix_print_options(const rn_engine_options *o) {
    print_error("  engine: max_seqs %d, batch_tokens %d, logit_rows %d, kv_pages %u, kv_bytes "
                "%llu, n_ctx %d, "
                "threads %d, kv %s, itl_ms %g%s, speculate %s, drafts %d to %d\n",
                o->max_seqs, o->batch_tokens, o->logit_rows, o->kv_pages,
                (unsigned long long)o->kv_bytes, o->n_ctx, o->n_threads, o->kv_type, o->itl_ms,
                o->no_prefix_cache ? ", no prefix cache" : "", o->speculate ? o->speculate : "auto",
                o->draft_min, o->draft_max);
}

static inline void mix_compare(const struct mix *mix, const struct mix_live *live,
                               struct mix_totals *totals) {
    const struct mix_cases *cases = mix->cases;
    const struct mix_case *c = live->of;
    for (int i = 0; i < mix_choices(c); i++) {
        const struct mix_output *got = &live->got[i];
        const char *why = mix_difference(&c->alone[i], got, cases->n_embd);
        if (!why && live->differing_row >= 0) why = "logits";
        if (!why && c->toy) why = toy_complaint(&live->toy, i, got->ids, got->n_ids);
        if (!why) why = mix_draft_complaint(c, got);
        if (!why && got->finish == RN_FINISH_CANCELLED && live->cancel_after < 0)
            why = "cancelled, which nobody asked for,";
        totals->choices++;
        totals->tokens += (uint64_t)got->n_ids;
        totals->cancelled += got->finish == RN_FINISH_CANCELLED;
        totals->rollbacks += i == 0 ? (uint64_t)live->toy.rollbacks : 0;
        if (!why) continue;
        totals->mismatches++;
        print_error("mix %llx: request %llx (case %td), choice %d of %d: %s\n",
                    (unsigned long long)mix->seed, (unsigned long long)c->seed, c - cases->at, i,
                    mix_choices(c), why);
        print_error("  prompt %zu, limit %d, tokens %d of %d, finish %s of %s, row %d, cached %d, "
                    "preempted %d, drafted %d in %d steps, accepted %d, seen %d, constraint %d\n",
                    c->request.n_prompt, c->n_limit, got->n_ids, c->alone[i].n_ids,
                    rn_finish_text(got->finish), rn_finish_text(c->alone[i].finish),
                    live->differing_row, got->timings.cached_tokens, got->timings.preemptions,
                    got->timings.draft_tokens, got->timings.draft_steps,
                    got->timings.accepted_tokens, got->n_drafted, (int)c->toy);
        mix_print_options(&mix->options);
    }
}

// ---------------------------------------------------------------- a mix

// Requests that fill most of the context only now and then, so that page budgets can be small.
static inline void mix_draw_requests(struct mix *mix, struct mix_random *r) {
    const struct mix_cases *cases = mix->cases;
    const int limit = mix_percent(r, 20) ? cases->n_ctx : 6 * MIX_PAGE;
    const int spread = mix_percent(r, 30) ? 1 : mix_between(r, 2, 200);
    for (int i = 0; i < mix->n;) {
        const struct mix_case *c = &cases->at[mix_below(r, cases->n)];
        if (c->n_limit > limit && !mix_percent(r, 2)) continue;
        struct mix_live *live = &mix->live[i++];
        *live = (struct mix_live){.of = c, .arrival = mix_below(r, spread), .cancel_after = -1};
        if (mix_percent(r, 8)) live->cancel_after = mix_below(r, 40);
        if (mix_percent(r, 8)) {
            live->pause_at = mix_below(r, 20);
            live->pause_n = mix_between(r, 1, 30);
        }
    }
}

static inline struct toy_truth mix_truth(void *data, int choice) {
    const struct mix_case *c = ((const struct mix_live *)data)->of;
    return (struct toy_truth){.prompt = c->prompt,
                              .n_prompt = (int)c->request.n_prompt,
                              .ids = c->alone[choice].ids,
                              .n_ids = c->alone[choice].n_ids};
}

static inline void mix_set_how(struct mix *mix, const struct mix_how *how) {
    rn_engine_options *o = &mix->options;
    o->speculate = how->speculate;
    o->draft = how->draft;
    o->draft_min = how->draft_min;
    o->draft_max = how->draft_max;
    mix->drafter = (struct toy_drafter){.truth = mix_truth,
                                        .right = how->right,
                                        .n_vocab = mix->cases->n_vocab,
                                        .random = mix->seed};
    o->draft_fn = how->has_toy ? toy_draft : NULL;
    o->draft_ctx = &mix->drafter;
}

static inline void mix_draw_options(struct mix *mix, struct mix_random *r) {
    int longest = 1;
    for (int i = 0; i < mix->n; i++)
        if (mix->live[i].of->n_limit > longest) longest = mix->live[i].of->n_limit;
    const int need = (longest + MIX_PAGE - 1) / MIX_PAGE;
    rn_engine_options *o = &mix->options;
    *o = (rn_engine_options){.kv_type = mix->cases->kv_type, .n_ctx = mix->cases->n_ctx};
    o->max_seqs = mix_percent(r, 50) ? mix_between(r, 1, 32) : mix_between(r, 8, 24);
    const int most = mix_percent(r, 30) ? o->max_seqs + 3 : mix_percent(r, 50) ? 64 : 512;
    o->batch_tokens = mix_between(r, o->max_seqs, most > o->max_seqs ? most : o->max_seqs);
    o->logit_rows = mix_percent(r, 50) ? 0 : o->max_seqs + mix_below(r, 9);
    const int n_threads = mix_between(r, 1, 2);
#ifdef MIX_NO_THREAD // a pool of one: its threads are tested elsewhere
    o->n_threads = n_threads > 0;
#else
    o->n_threads = n_threads;
#endif
    o->no_prefix_cache = mix_percent(r, 25);
    if (mix_percent(r, 10)) o->itl_ms = 0.2;
    if (mix_percent(r, 85)) {
        const int more = mix_percent(r, 40) ? 0 : mix_below(r, 2 * need + 8);
        o->kv_pages = (uint32_t)(need + more);
        // the context that was asked for, or what the pages hold
        const int n_ctx = need * MIX_PAGE < o->n_ctx ? need * MIX_PAGE : o->n_ctx;
        o->n_ctx = mix_percent(r, 50) || n_ctx == o->n_ctx ? n_ctx : 0;
    }
    if (mix_percent(r, 20)) mix->forget_every = mix_between(r, 3, 40);
    const bool threaded = mix_percent(r, 20);
#ifndef MIX_NO_THREAD
    mix->threaded = threaded;
#else
    (void)threaded;
#endif
}

// Some requests come after the one that they continue.
static inline void mix_draw_turns(struct mix *mix, struct mix_random *r) {
    const struct mix_cases *cases = mix->cases;
    for (int i = 1; i < mix->n; i++) {
        struct mix_live *first = &mix->live[mix_below(r, i)];
        const int from = mix_below(r, cases->n), longest = 10 * MIX_PAGE;
        if (!mix_percent(r, 50)) continue;
        for (int k = 0; k < cases->n; k++) {
            const struct mix_case *c = &cases->at[(from + k) % cases->n];
            if (c->before != first->of || c->n_limit > longest) continue;
            mix->live[i].of = c;
            mix->live[i].after = mix_percent(r, 80) ? first : NULL;
            mix->live[i].arrival = mix_below(r, 40);
            break;
        }
    }
}

// Bytes that a lone sequence of so many positions needs.
static inline uint64_t mix_lone_bytes(const struct mix *mix, int n_positions) {
    rn_engine_options options = {.kv_type = mix->cases->kv_type, .n_ctx = n_positions};
    rn_memory_plan plan;
    rn_error err = {0};
    check(rn_engine_plan_memory(mix->cases->model, &options, &plan, &err) == RN_OK, "%s",
          err.message);
    return plan.kv_context_bytes;
}

// Two to twelve at a time. Memory is mostly that of the longest sequence, which has two states, and
// a few states more.
static inline void mix_draw_states(struct mix *mix, struct mix_random *r) {
    rn_engine_options *o = &mix->options;
    o->max_seqs = mix_between(r, 2, 12);
    if (o->batch_tokens < o->max_seqs) o->batch_tokens = o->max_seqs;
    if (o->logit_rows) o->logit_rows = o->max_seqs + (mix_percent(r, 40) ? 0 : mix_below(r, 40));
    const struct mix_live *some = &mix->live[mix_below(r, mix->n)];
    if (some->of->request.n > 1 && (int)some->of->request.n_prompt > o->max_seqs)
        o->batch_tokens = (int)some->of->request.n_prompt - 1; // choices part inside of a block
    o->no_prefix_cache &= mix_percent(r, 40);
    if (mix_percent(r, 60)) mix->forget_every = 0;
    if (mix_percent(r, 20)) return;
    int longest = 1;
    for (int i = 0; i < mix->n; i++)
        if (mix->live[i].of->n_limit > longest) longest = mix->live[i].of->n_limit;
    const int n_ctx = (longest + MIX_PAGE - 1) / MIX_PAGE * MIX_PAGE;
    o->n_ctx = n_ctx < mix->cases->n_ctx ? n_ctx : mix->cases->n_ctx;
    o->kv_pages = 0;
    const int most = mix_percent(r, 40) ? 6 : 60;
    const uint64_t n_more = (uint64_t)mix_below(r, most), rest = (uint64_t)mix_below(r, 100);
    o->kv_bytes = mix_lone_bytes(mix, o->n_ctx) + n_more * mix_lone_bytes(mix, MIX_PAGE) + rest;
}

// Up to most_seqs sequences at a time, small numbers as often as large ones. Most requests come at
// the start. Memory has room for all of them, or for a part.
static inline void mix_draw_many(struct mix *mix, struct mix_random *r) {
    rn_engine_options *o = &mix->options;
    const int most = mix->cases->most_seqs, spread = mix_percent(r, 60) ? 1 : mix_between(r, 2, 40);
    int bound = 1;
    while (bound < most && mix_percent(r, 80)) bound *= 2;
    o->max_seqs = mix_percent(r, 50) ? most : mix_between(r, 1, bound < most ? bound : most);
    o->batch_tokens = o->max_seqs + mix_below(r, mix_percent(r, 50) ? 64 : 1024);
    o->logit_rows = mix_percent(r, 50) ? 0 : o->max_seqs + mix_below(r, 64);
    o->n_ctx = mix->cases->n_ctx;
    o->kv_pages = 0;
    o->no_prefix_cache &= mix_percent(r, 40);
    if (mix_percent(r, 60)) mix->forget_every = 0;
    for (int i = 0; i < mix->n; i++)
        if (!mix->live[i].after) mix->live[i].arrival = mix_below(r, spread);
    if (mix_percent(r, 30)) return;
    const int alone = o->n_ctx / MIX_PAGE + 8; // states are in pages too
    o->kv_pages = (uint32_t)(alone + mix_below(r, o->max_seqs * (mix_percent(r, 50) ? 2 : 5)));
}

// Does the arrivals, cancels and pauses of this step. Returns the requests without a last event
// that a step could advance.
static inline int mix_act(struct mix *mix, int step) {
    int n_active = 0;
    if (mix->forget_every && step % mix->forget_every == 0) rn_engine_forget_prefixes(mix->engine);
    for (int i = 0; i < mix->n; i++) {
        struct mix_live *live = &mix->live[i];
        if (live->after && !live->after->ended) continue;
        if (live->after) live->arrival += step;
        live->after = NULL;
        if (live->ended || live->arrival > step) continue;
        if (!live->submitted) mix_submit(mix->engine, live, mix->cases->n_vocab, false);
        const int age = step - live->arrival;
        if (live->pause_n && age == live->pause_at) rn_engine_pause(mix->engine, live->id, true);
        if (live->pause_n && age == live->pause_at + live->pause_n)
            rn_engine_pause(mix->engine, live->id, false);
        if (age == live->cancel_after) rn_engine_cancel(mix->engine, live->id);
        const bool paused =
            live->pause_n && age >= live->pause_at && age < live->pause_at + live->pause_n;
        n_active += !paused;
    }
    return n_active;
}

static inline void mix_event(struct mix *mix, const rn_event *event) {
    struct mix_live *live = event->data;
    assert_true(live >= mix->live && live < mix->live + mix->n);
    assert_int_equal(event->request, live->id);
    assert_false(live->ended);
    mix_take(live, event, mix->cases->n_embd);
    mix->n_ended += live->ended;
}

static inline void mix_note_stats(const struct mix *mix, struct mix_totals *totals) {
    rn_engine_stats stats;
    rn_engine_get_stats(mix->engine, &stats);
    if (stats.running > totals->running_max) totals->running_max = stats.running;
    if ((int)stats.pages_shared > totals->shared_max) totals->shared_max = (int)stats.pages_shared;
    check(stats.running <= mix->options.max_seqs, "%d run, at most %d may", stats.running,
          mix->options.max_seqs);
    check(stats.pages_held <= stats.pages_total, "%u pages of %u are held", stats.pages_held,
          stats.pages_total);
}

static inline void mix_step(struct mix *mix, struct mix_totals *totals) {
    int idle = 0;
    for (int step = 0; mix->n_ended < mix->n; step++) {
        const int n_active = mix_act(mix, step);
        bool busy;
        assert_int_equal(rn_engine_step(mix->engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(mix->engine, &event);) mix_event(mix, &event);
        mix_note_stats(mix, totals);
        idle = busy || !n_active ? 0 : idle + 1;
        if (idle > 2) mix_print_options(&mix->options);
        check(idle <= 2, "mix %llx: %d requests wait and nothing happens",
              (unsigned long long)mix->seed, n_active);
    }
    for (bool busy = true; busy;) // rows past ends land, without events
        assert_int_equal(rn_engine_step(mix->engine, &busy), RN_OK);
}

#ifndef MIX_NO_THREAD
// The same with the engine's thread; a "step" is a round of collecting.
static inline void mix_follow(struct mix *mix, struct mix_totals *totals) {
    rn_event events[16];
    rn_error err = {0};
    int idle = 0;
    check(rn_engine_start(mix->engine, &err) == RN_OK, "%s", err.message);
    for (int step = 0; mix->n_ended < mix->n; step++) {
        const int n_active = mix_act(mix, step);
        const int n = rn_engine_wait(mix->engine, events, 16, step % 3 ? 0 : 1);
        for (int i = 0; i < n; i++) mix_event(mix, &events[i]);
        mix_note_stats(mix, totals);
        idle = n || !n_active ? 0 : idle + 1;
        check(idle < 20000, "mix %llx: %d requests wait and nothing happens",
              (unsigned long long)mix->seed, n_active);
    }
    rn_engine_stop(mix->engine, true);
}
#endif

// The draft figures of all requests add up to the engine's.
static inline void mix_check_drafts(const struct mix *mix, const rn_engine_stats *s,
                                    struct mix_totals *totals) {
    uint64_t drafts = 0, tokens = 0, accepted = 0, placed = 0;
    for (int i = 0; i < mix->n; i++)
        for (int c = 0; c < mix_choices(mix->live[i].of); c++) {
            const rn_timings *t = &mix->live[i].got[c].timings;
            drafts += (uint64_t)t->draft_steps;
            tokens += (uint64_t)t->draft_tokens;
            accepted += (uint64_t)t->accepted_tokens;
        }
    totals->drafts += drafts;
    totals->draft_tokens += tokens;
    totals->accepted += accepted;
    for (int i = 0; i < RN_MAX_DRAFT; i++) {
        placed += s->accepted_at[i];
        if (s->accepted_at[i] && i >= totals->accepted_max) totals->accepted_max = i + 1;
    }
    for (int i = 0; i < RN_DRAFTER_COUNT; i++) {
        totals->by[i].drafts += s->draft[i].drafts;
        totals->by[i].tokens += s->draft[i].tokens;
        totals->by[i].accepted += s->draft[i].accepted;
        drafts -= s->draft[i].drafts;
        tokens -= s->draft[i].tokens;
        accepted -= s->draft[i].accepted;
        placed -= s->draft[i].accepted;
    }
    check(drafts == 0 && tokens == 0 && accepted == 0 && placed == 0,
          "mix %llx: drafts do not add up: %lld, %lld tokens, %lld accepted, %lld in their places",
          (unsigned long long)mix->seed, (long long)drafts, (long long)tokens, (long long)accepted,
          (long long)placed);
    check(mix->drafter.strays == 0, "mix %llx: %llu drafts were asked for with a strange history",
          (unsigned long long)mix->seed, (unsigned long long)mix->drafter.strays);
}

// Counts the kinds of requests, and how they began.
static inline void mix_count_kinds(const struct mix *mix, struct mix_totals *totals) {
    for (int i = 0; i < mix->n; i++) {
        const struct mix_live *live = &mix->live[i];
        const rn_request *q = &live->of->request;
        for (int c = 0; c < mix_choices(live->of); c++) {
            const int cached = live->got[c].timings.cached_tokens;
            totals->forks += c > 0 && cached > 0;
            totals->stored_tokens += (uint64_t)live->got[c].timings.stored_tokens;
            totals->inner_forks += c > 0 && cached % MIX_PAGE != 0;
            totals->tails += c == 0 && cached % MIX_PAGE != 0;
        }
        for (int c = 0; c < mix_choices(live->of); c++)
            totals->stop_tokens += live->got[c].stop_token >= 0 && live->got[c].n_ids > 0;
        for (int c = 0; q->shape && c < mix_choices(live->of); c++) {
            totals->shaped++;
            totals->complete += live->got[c].finish == RN_FINISH_STOP;
            totals->shaped_later += q->reasoning.close != NULL;
            totals->shaped_again += live->got[c].timings.preemptions > 0;
        }
        totals->bad_words += q->n_bad_words > 0;
        totals->least += q->min_tokens > 0;
        totals->bounded += q->reasoning.has_budget;
        totals->scored += live->got[0].prompt_logprobs != 0;
        totals->scored_again += live->got[0].prompt_logprobs && live->got[0].timings.preemptions;
        totals->embeddings += live->got[0].has_embedding;
        totals->logprobs += q->logprobs;
        totals->listeners += live->of->listens;
        totals->constrained += live->of->toy != TOY_NONE;
        totals->turns += live->of->before != NULL;
        totals->pauses += live->pause_n > 0;
    }
}

// After the last event nothing is held, and all that was counted adds up.
static inline void mix_check_rest(struct mix *mix, struct mix_totals *totals) {
    rn_engine_stats s;
    rn_engine_get_stats(mix->engine, &s);
    uint64_t choices = 0, tokens = 0, preemptions = 0, found = 0;
    for (int i = 0; i < mix->n; i++)
        for (int c = 0; c < mix_choices(mix->live[i].of); c++) {
            choices++;
            tokens += (uint64_t)mix->live[i].got[c].n_ids;
            preemptions += (uint64_t)mix->live[i].got[c].timings.preemptions;
            // other choices share the first one's prompt, cache or not
            if (c == 0) found += (uint64_t)mix->live[i].got[c].timings.cached_tokens;
        }
    const char *broken = NULL;
    if (s.pages_held != 0 || s.pages_shared != 0 || s.kv_held_bytes != 0) broken = "pages are held";
    if (s.running != 0 || s.waiting != 0) broken = "somebody runs or waits";
    if (s.submitted != choices) broken = "submitted";
    if (s.stopped + s.lengthy + s.cancelled + s.failed != choices) broken = "ended";
    if (s.output_tokens != tokens) broken = "output_tokens";
    if (s.preemptions != preemptions) broken = "preemptions";
    if (s.hits > s.lookups || s.lookups > choices) broken = "lookups";
    if (mix->options.no_prefix_cache && (found || s.hits || s.kv_cached_bytes)) broken = "cached";
    if (broken) mix_print_options(&mix->options);
    check(!broken, "mix %llx: at the end, %s: held %u, shared %u, running %d, waiting %d",
          (unsigned long long)mix->seed, broken, s.pages_held, s.pages_shared, s.running,
          s.waiting);
    mix_check_drafts(mix, &s, totals);
    mix_count_kinds(mix, totals);
    totals->mixes++;
    totals->requests += (uint64_t)mix->n;
    totals->steps += s.steps;
    totals->preemptions += s.preemptions;
    totals->lookups += s.lookups;
    totals->hits += s.hits;
    totals->prompt_tokens += s.prompt_tokens;
    totals->cached_tokens += s.cached_tokens;
    totals->evictions += s.evictions + s.state_evictions;
    rn_store_stats store;
    if (mix->options.page_store) mix->cases->settle(mix->engine);
    rn_engine_get_store_stats(mix->engine, &store);
    totals->stored_pages += store.written;
    check(store.errors == 0 && store.removed == 0, "mix %llx: the page store failed",
          (unsigned long long)mix->seed);
}

static inline void mix_check_forgets(struct mix *mix) {
    if (mix->threaded) return;
    bool busy;
    rn_engine_stats s;
    rn_engine_forget_prefixes(mix->engine);
    assert_int_equal(rn_engine_step(mix->engine, &busy), RN_OK);
    rn_engine_get_stats(mix->engine, &s);
    check(s.pages_cached == 0 && s.kv_cached_bytes == 0, "mix %llx: %u pages are still cached",
          (unsigned long long)mix->seed, s.pages_cached);
}

// Draws a mix of some of the cases: a function of the seed.
static inline void mix_draw(struct mix *mix, const struct mix_cases *cases, uint64_t seed) {
    struct mix_random r = {mix_hash(seed ^ 0x5eed)};
    const int most = cases->most_requests ? cases->most_requests : MIX_MAX_REQUESTS;
    *mix = (struct mix){.cases = cases, .seed = seed, .n = mix_between(&r, 10, most)};
    if (cases->most_requests && mix_percent(&r, 50)) mix->n = most;
    mix->live = calloc((size_t)mix->n, sizeof *mix->live);
    assert_non_null(mix->live);
    mix_draw_requests(mix, &r);
    if (cases->is_hybrid) mix_draw_turns(mix, &r);
    mix_draw_options(mix, &r);
    if (cases->most_seqs)
        mix_draw_many(mix, &r);
    else if (cases->is_hybrid)
        mix_draw_states(mix, &r);
    if (cases->how) mix_set_how(mix, cases->how);
}

// Runs it, compares, and frees it.
static inline void mix_run(struct mix *mix, struct mix_totals *totals) {
    rn_error err = {0};
    if (!mix->options.no_prefix_cache && mix->cases->page_store) {
        // some with memory in front of it, and some with memory alone
        mix->options.page_store_memory = mix->seed % 3 * 40000;
        if (mix->seed % 9 != 1) mix->options.page_store = mix->cases->page_store;
    }
    const rn_status status = rn_engine_create(mix->cases->model, &mix->options, &mix->engine, &err);
    check(status == RN_OK, "mix %llx: %s", (unsigned long long)mix->seed, err.message);
#ifndef MIX_NO_THREAD
    if (mix->threaded)
        mix_follow(mix, totals);
    else
#endif
        mix_step(mix, totals);
    for (int i = 0; i < mix->n; i++) mix_compare(mix, &mix->live[i], totals);
    mix_check_rest(mix, totals);
    mix_check_forgets(mix);
    rn_engine_destroy(mix->engine);
    free(mix->live);
}

// Mixes until that many requests were in one. only: the seed of the one mix to run; 0: all.
static inline void mix_run_many(const struct mix_cases *cases, uint64_t seed, int n_requests,
                                uint64_t only, struct mix_totals *totals) {
    struct mix_random r = {mix_hash(seed ^ 0x6d69)};
    for (int done = 0; done < n_requests;) {
        struct mix mix;
        mix_draw(&mix, cases, mix_next(&r));
        done += mix.n;
        if (!only || mix.seed == only)
            mix_run(&mix, totals);
        else
            free(mix.live);
    }
}

static inline void mix_print_totals(const char *name, const struct mix_totals *t) {
    print_message("%s: %llu requests in %llu mixes, %llu choices (%llu cancelled), %llu tokens, "
                  "%llu steps, %llu preemptions, %llu hits of %llu, %llu of %llu prompt tokens "
                  "cached, %llu evictions, %d at once, %d pages shared, %llu drafts, %llu of %llu "
                  "drafted tokens accepted, up to %d at once, %llu rollbacks, %llu mismatches\n",
                  name, (unsigned long long)t->requests, (unsigned long long)t->mixes,
                  (unsigned long long)t->choices, (unsigned long long)t->cancelled,
                  (unsigned long long)t->tokens, (unsigned long long)t->steps,
                  (unsigned long long)t->preemptions, (unsigned long long)t->hits,
                  (unsigned long long)t->lookups, (unsigned long long)t->cached_tokens,
                  (unsigned long long)t->prompt_tokens, (unsigned long long)t->evictions,
                  t->running_max, t->shared_max, (unsigned long long)t->drafts,
                  (unsigned long long)t->accepted, (unsigned long long)t->draft_tokens,
                  t->accepted_max, (unsigned long long)t->rollbacks,
                  (unsigned long long)t->mismatches);
    print_message("%s: %llu ended by a stop token, %llu with bad words, %llu with min_tokens, %llu "
                  "with bounded reasoning, %llu scored prompts, %llu of them preempted\n",
                  name, (unsigned long long)t->stop_tokens, (unsigned long long)t->bad_words,
                  (unsigned long long)t->least, (unsigned long long)t->bounded,
                  (unsigned long long)t->scored, (unsigned long long)t->scored_again);
    print_message("%s: %llu choices with a shape, %llu of them complete, %llu behind a reasoning, "
                  "%llu preempted, %llu of %llu tokens that shapes drafted accepted\n",
                  name, (unsigned long long)t->shaped, (unsigned long long)t->complete,
                  (unsigned long long)t->shaped_later, (unsigned long long)t->shaped_again,
                  (unsigned long long)t->by[RN_DRAFTER_SHAPE].accepted,
                  (unsigned long long)t->by[RN_DRAFTER_SHAPE].tokens);
}

#endif

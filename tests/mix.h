// "The tokens of a request depend on the request alone", as a property of random requests: each is
// run alone on an engine that shares nothing, then again inside random mixes with other requests,
// and both must give the same tokens, text, vectors, logits and logprobs, all to the bit.
// Everything follows from one seed.
// For tests/runnel/test_mix*.c, test_windows.c and the program mix_long.c.
//
//   mix_cases_create    draws requests and runs them alone
//   mix_draw, mix_run   one engine of random shape, random arrivals, cancels and pauses
//   mix_totals          what all mixes saw; mismatches were printed with what repeats them
#ifndef RN_TESTS_MIX_H
#define RN_TESTS_MIX_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "runnel.h"

enum {
    MIX_MAX_OUTPUT = 40, // tokens of a choice
    MIX_MAX_TEXT = 2048,
    MIX_MAX_CHOICES = 4,
    MIX_MAX_EMBD = 512,
    MIX_FAMILIES = 4, // of prompts that begin alike
    MIX_LONG_PREFIX = 768,
    MIX_PAGE = 32,
    MIX_MAX_CTX = 1024, // positions, where the model has more
};

// Under sanitizers, where everything is slower, mixes are smaller, and what should happen somewhere
// in many of them need not happen.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MIX_MAX_REQUESTS = 30, MIX_IS_SHORT = 1 };
#else
enum { MIX_MAX_REQUESTS = 90, MIX_IS_SHORT = 0 };
#endif

// ---------------------------------------------------------------- random numbers

struct mix_random {
    uint64_t state;
};

static inline uint64_t mix_hash(uint64_t x) { // splitmix64's finisher
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t mix_next(struct mix_random *r) { return mix_hash(r->state++); }

// 0 to n - 1
static inline int mix_below(struct mix_random *r, int n) {
    return (int)(mix_next(r) % (uint64_t)n);
}

static inline int mix_between(struct mix_random *r, int first, int last) {
    return first + mix_below(r, last - first + 1);
}

static inline bool mix_percent(struct mix_random *r, int percent) {
    return mix_below(r, 100) < percent;
}

static inline float mix_unit(struct mix_random *r) { return (float)(mix_next(r) >> 40) * 0x1p-24f; }

// ---------------------------------------------------------------- a request and what it gives

struct mix_output {
    int32_t ids[MIX_MAX_OUTPUT];
    uint64_t logprobs[MIX_MAX_OUTPUT]; // hashes; 0: none
    int n_ids;
    char text[MIX_MAX_TEXT];
    size_t n_text, n_certain; // certain: without the text of the last event
    rn_finish finish;
    rn_status status;
    char stop[8];
    float embedding[MIX_MAX_EMBD];
    bool has_embedding;
    rn_timings timings;
};

struct mix_case {
    uint64_t seed; // the request is a function of it, the model and the family's prefixes
    rn_request request;
    int32_t *prompt;
    rn_logit_bias bias[3];
    const char *stop[2];
    bool listens;   // logits of every position are compared too
    uint64_t *rows; // [n_ctx] their hashes from the alone run
    int n_limit;    // positions that it can have
    struct mix_output alone[MIX_MAX_CHOICES];
};

struct mix_cases {
    const rn_model *model;
    const char *kv_type;
    int n_ctx, n_vocab, n_embd;
    int n;
    struct mix_case *at;
};

// What one run of a request has so far.
struct mix_live {
    const struct mix_case *of;
    uint64_t id;
    int arrival;           // steps
    int cancel_after;      // steps after its arrival; -1: never
    int pause_at, pause_n; // steps after its arrival, and how many; pause_n 0: never
    bool submitted, ended;
    int n_open;        // choices without a finish
    int differing_row; // a position whose logits differ; -1: none
    struct mix_output got[MIX_MAX_CHOICES];
};

struct mix_totals {
    uint64_t mixes, requests, choices, tokens, cancelled, steps, preemptions, lookups, hits;
    uint64_t prompt_tokens, cached_tokens, evictions, mismatches;
    int running_max, shared_max;
};

struct mix {
    const struct mix_cases *cases;
    uint64_t seed;
    rn_engine_options options;
    bool threaded;    // the engine's own thread steps
    int forget_every; // steps after which cached prefixes are forgotten; 0: never
    int n, n_ended;
    struct mix_live *live; // [n]
    rn_engine *engine;
};

static inline int mix_choices(const struct mix_case *c) {
    return c->request.n > 1 ? c->request.n : 1;
}

// ---------------------------------------------------------------- drawing a request

static inline int32_t mix_family_token(uint64_t family, int at, int n_vocab) {
    return (int32_t)(mix_hash(family * 1000003u + (uint64_t)at) % (uint64_t)n_vocab);
}

static inline int mix_draw_prefix(struct mix_random *r, int n_ctx) {
    const int kind = mix_below(r, 100);
    int n = 0;
    if (kind >= 35) n = mix_between(r, 1, MIX_PAGE - 1);
    if (kind >= 50) n = MIX_PAGE * mix_between(r, 1, 3);
    if (kind >= 75) n = MIX_PAGE * mix_between(r, 1, 3) + mix_between(r, -1, 5);
    if (kind >= 96) n = MIX_LONG_PREFIX + mix_between(r, -1, 1);
    return n < n_ctx - MIX_MAX_OUTPUT ? n : n_ctx / 2;
}

static inline void mix_draw_prompt(struct mix_case *c, struct mix_random *r, int n_ctx,
                                   int n_vocab) {
    const uint64_t family = (uint64_t)mix_below(r, MIX_FAMILIES) + 1;
    const int n_prefix = mix_draw_prefix(r, n_ctx);
    int n_tail = mix_between(r, n_prefix ? 0 : 1, 40);
    if (mix_percent(r, 2)) n_tail = mix_between(r, 1, n_ctx - 1 - n_prefix);
    if (mix_percent(r, 1)) n_tail = n_ctx - mix_between(r, 1, MIX_MAX_OUTPUT) - n_prefix;
    const int n = n_prefix + n_tail < n_ctx ? n_prefix + n_tail : n_ctx - 1;
    c->prompt = malloc((size_t)n * sizeof *c->prompt);
    assert_non_null(c->prompt);
    for (int i = 0; i < n; i++)
        c->prompt[i] = mix_family_token(i < n_prefix ? family : c->seed, i, n_vocab);
    c->request.prompt = c->prompt;
    c->request.n_prompt = (size_t)n;
}

static inline void mix_draw_sampling(struct mix_case *c, struct mix_random *r, int n_vocab) {
    rn_sampling *s = &c->request.sampling;
    *s = rn_sampling_neutral();
    s->has_seed = true;
    s->seed = mix_next(r) >> 11;
    s->temperature = mix_percent(r, 30) ? 0 : 1.5f * mix_unit(r);
    if (mix_percent(r, 40)) s->top_k = mix_between(r, 1, 60);
    if (mix_percent(r, 40)) s->top_p = 0.5f + 0.5f * mix_unit(r);
    if (mix_percent(r, 25)) s->min_p = 0.2f * mix_unit(r);
    if (mix_percent(r, 15)) s->typical_p = 0.3f + 0.7f * mix_unit(r);
    if (mix_percent(r, 15)) s->top_n_sigma = 0.5f + mix_unit(r);
    if (mix_percent(r, 20)) s->repetition_penalty = 1 + 0.5f * mix_unit(r);
    if (mix_percent(r, 20)) s->repeat_last_n = mix_between(r, 0, 50);
    if (mix_percent(r, 20)) s->presence_penalty = mix_unit(r);
    if (mix_percent(r, 20)) s->frequency_penalty = mix_unit(r);
    if (mix_percent(r, 20)) s->dry_multiplier = mix_unit(r);
    if (mix_percent(r, 20)) s->xtc_probability = mix_unit(r);
    if (!mix_percent(r, 20)) return;
    for (int i = 0; i < 3; i++)
        c->bias[i] = (rn_logit_bias){mix_below(r, n_vocab), 8 * mix_unit(r) - 4};
    s->logit_bias = c->bias;
    s->n_logit_bias = 3;
}

static inline void mix_draw_ends(struct mix_case *c, struct mix_random *r, int n_ctx) {
    static const char *const stops[] = {"e", "th", ". ", "\n", " a", "he w", "was"};
    rn_request *q = &c->request;
    const int room = n_ctx - (int)q->n_prompt;
    q->max_tokens = mix_between(r, 1, mix_percent(r, 25) ? MIX_MAX_OUTPUT - 1 : 12);
    if (mix_percent(r, 3)) q->max_tokens = 0;
    if (room < MIX_MAX_OUTPUT && mix_percent(r, 50)) q->max_tokens = -1;
    q->ignore_eos = mix_percent(r, 50);
    if (mix_percent(r, 25)) {
        c->stop[0] = stops[mix_below(r, 7)];
        c->stop[1] = stops[mix_below(r, 7)];
        q->stop = c->stop;
        q->n_stop = 2;
    }
    const bool open = q->max_tokens < 0 || q->max_tokens > room;
    c->n_limit = open ? n_ctx : (int)q->n_prompt + q->max_tokens;
}

static inline void mix_draw_case(struct mix_case *c, uint64_t seed, int n_ctx, int n_vocab) {
    static const char *const users[] = {NULL, "a", "b", "c"}, *const salts[] = {NULL, "x", "y"};
    *c = (struct mix_case){.seed = seed};
    struct mix_random r = {mix_hash(seed)};
    mix_draw_prompt(c, &r, n_ctx, n_vocab);
    mix_draw_sampling(c, &r, n_vocab);
    mix_draw_ends(c, &r, n_ctx);
    rn_request *q = &c->request;
    q->priority = mix_percent(&r, 70) ? 0 : mix_between(&r, -2, 2);
    q->user = users[mix_below(&r, 4)];
    q->cache_salt = mix_percent(&r, 70) ? NULL : salts[mix_below(&r, 3)];
    const int kind = mix_below(&r, 100);
    if (kind < 15) q->n = mix_between(&r, 2, MIX_MAX_CHOICES);
    if (kind >= 94) q->pooling = kind >= 97 ? RN_POOLING_LAST : RN_POOLING_MEAN;
    if (kind >= 94) q->normalize = mix_percent(&r, 50);
    if (kind >= 94) c->n_limit = (int)q->n_prompt;
    c->listens = kind >= 89 && kind < 94;
    q->logprobs = mix_percent(&r, 25);
    if (mix_percent(&r, 50)) q->top_logprobs = mix_between(&r, 1, RN_MAX_TOP_LOGPROBS);
}

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

static inline void mix_take(struct mix_live *live, const rn_event *event, int n_embd) {
    assert_true(event->choice >= 0 && event->choice < mix_choices(live->of));
    struct mix_output *o = &live->got[event->choice];
    assert_int_equal(o->finish, RN_FINISH_NONE); // nothing follows the last event of a choice
    assert_true(o->n_text + event->text_len <= MIX_MAX_TEXT);
    if (event->token >= 0) {
        assert_true(o->n_ids < MIX_MAX_OUTPUT);
        o->logprobs[o->n_ids] = mix_logprobs_hash(event);
        o->ids[o->n_ids++] = event->token;
        assert_int_equal(event->n_logprobs,
                         live->of->request.logprobs ? 1 + live->of->request.top_logprobs : 0);
    }
    o->n_certain = o->n_text;
    if (event->text_len) memcpy(o->text + o->n_text, event->text, event->text_len);
    o->n_text += event->text_len;
    o->finish = event->finish;
    o->status = event->status;
    if (event->stop) snprintf(o->stop, sizeof o->stop, "%s", event->stop);
    if (event->embedding) memcpy(o->embedding, event->embedding, (size_t)n_embd * sizeof(float));
    o->has_embedding = event->embedding != NULL;
    if (event->finish == RN_FINISH_NONE) return;
    assert_non_null(event->timings);
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

static inline void mix_submit(rn_engine *engine, struct mix_live *live, bool alone) {
    rn_request request = live->of->request;
    rn_error err = {0};
    request.data = live;
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
    mix_submit(engine, &live, true);
    for (bool busy = true; !live.ended;) {
        check(busy, "request %llx does not get on alone", (unsigned long long)c->seed);
        assert_int_equal(rn_engine_step(engine, &busy), RN_OK);
        for (rn_event event; rn_engine_next_event(engine, &event);)
            mix_take(&live, &event, cases->n_embd);
    }
    memcpy(c->alone, live.got, sizeof c->alone);
}

// Draws n requests and runs each alone: one sequence at a time, one thread, no prefix cache.
static inline void mix_cases_create(struct mix_cases *cases, const rn_model *model,
                                    const char *kv_type, uint64_t seed, int n) {
    const rn_model_info *info = rn_model_get_info(model);
    const int n_ctx = info->n_ctx_train < MIX_MAX_CTX ? info->n_ctx_train : MIX_MAX_CTX;
    const rn_engine_options options = {
        .max_seqs = 1, .n_threads = 1, .n_ctx = n_ctx, .kv_type = kv_type, .no_prefix_cache = true};
    rn_engine *engine;
    rn_error err = {0};
    check(rn_engine_create(model, &options, &engine, &err) == RN_OK, "%s", err.message);
    *cases = (struct mix_cases){.model = model,
                                .kv_type = kv_type,
                                .n_ctx = n_ctx,
                                .n_vocab = info->n_vocab,
                                .n_embd = info->n_embd,
                                .n = n,
                                .at = calloc((size_t)n, sizeof *cases->at)};
    assert_non_null(cases->at);
    assert_true(cases->n_embd <= MIX_MAX_EMBD);
    for (int i = 0; i < n; i++) {
        mix_draw_case(&cases->at[i], mix_hash(seed + (uint64_t)i), cases->n_ctx, cases->n_vocab);
        mix_run_alone(engine, cases, &cases->at[i]);
    }
    rn_engine_destroy(engine);
}

static inline void mix_cases_destroy(struct mix_cases *cases) {
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
    if (cut) return got->status == RN_ERR_CANCELLED ? NULL : "status";
    if (got->finish != want->finish || got->status != want->status) return "finish";
    if (strcmp(got->stop, want->stop) != 0) return "stop string";
    if (got->has_embedding != want->has_embedding) return "whether there is an embedding";
    return memcmp(got->embedding, want->embedding, (size_t)n_embd * sizeof(float)) != 0
               ? "embedding"
               : NULL;
}

static inline void mix_print_options(const rn_engine_options *o) {
    print_error("  engine: max_seqs %d, batch_tokens %d, logit_rows %d, kv_pages %u, n_ctx %d, "
                "threads %d, kv %s, itl_ms %g%s\n",
                o->max_seqs, o->batch_tokens, o->logit_rows, o->kv_pages, o->n_ctx, o->n_threads,
                o->kv_type, o->itl_ms, o->no_prefix_cache ? ", no prefix cache" : "");
}

static inline void mix_compare(const struct mix *mix, const struct mix_live *live,
                               struct mix_totals *totals) {
    const struct mix_cases *cases = mix->cases;
    const struct mix_case *c = live->of;
    for (int i = 0; i < mix_choices(c); i++) {
        const struct mix_output *got = &live->got[i];
        const char *why = mix_difference(&c->alone[i], got, cases->n_embd);
        if (!why && live->differing_row >= 0) why = "logits";
        if (!why && got->finish == RN_FINISH_CANCELLED && live->cancel_after < 0)
            why = "cancelled, which nobody asked for,";
        totals->choices++;
        totals->tokens += (uint64_t)got->n_ids;
        totals->cancelled += got->finish == RN_FINISH_CANCELLED;
        if (!why) continue;
        totals->mismatches++;
        print_error("mix %llx: request %llx (case %td), choice %d of %d: %s\n",
                    (unsigned long long)mix->seed, (unsigned long long)c->seed, c - cases->at, i,
                    mix_choices(c), why);
        print_error("  prompt %zu, limit %d, tokens %d of %d, finish %s of %s, row %d, cached %d, "
                    "preempted %d\n",
                    c->request.n_prompt, c->n_limit, got->n_ids, c->alone[i].n_ids,
                    rn_finish_text(got->finish), rn_finish_text(c->alone[i].finish),
                    live->differing_row, got->timings.cached_tokens, got->timings.preemptions);
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
    o->n_threads = mix_between(r, 1, 2);
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

// What is due at this step: arrivals, cancels, pauses. Returns the requests without a last event
// that a step could get on with.
static inline int mix_act(struct mix *mix, int step) {
    int n_active = 0;
    if (mix->forget_every && step % mix->forget_every == 0) rn_engine_forget_prefixes(mix->engine);
    for (int i = 0; i < mix->n; i++) {
        struct mix_live *live = &mix->live[i];
        if (live->ended || live->arrival > step) continue;
        if (!live->submitted) mix_submit(mix->engine, live, false);
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
    if (mix->options.no_prefix_cache && (found || s.hits || s.pages_cached)) broken = "cached";
    if (broken) mix_print_options(&mix->options);
    check(!broken, "mix %llx: at the end, %s: held %u, shared %u, running %d, waiting %d",
          (unsigned long long)mix->seed, broken, s.pages_held, s.pages_shared, s.running,
          s.waiting);
    totals->mixes++;
    totals->requests += (uint64_t)mix->n;
    totals->steps += s.steps;
    totals->preemptions += s.preemptions;
    totals->lookups += s.lookups;
    totals->hits += s.hits;
    totals->prompt_tokens += s.prompt_tokens;
    totals->cached_tokens += s.cached_tokens;
    totals->evictions += s.evictions;
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
    *mix = (struct mix){.cases = cases, .seed = seed, .n = mix_between(&r, 10, MIX_MAX_REQUESTS)};
    mix->live = calloc((size_t)mix->n, sizeof *mix->live);
    assert_non_null(mix->live);
    mix_draw_requests(mix, &r);
    mix_draw_options(mix, &r);
}

// Runs it, compares, and frees it.
static inline void mix_run(struct mix *mix, struct mix_totals *totals) {
    rn_error err = {0};
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
                  "cached, %llu evictions, %d at once, %d pages shared, %llu mismatches\n",
                  name, (unsigned long long)t->requests, (unsigned long long)t->mixes,
                  (unsigned long long)t->choices, (unsigned long long)t->cancelled,
                  (unsigned long long)t->tokens, (unsigned long long)t->steps,
                  (unsigned long long)t->preemptions, (unsigned long long)t->hits,
                  (unsigned long long)t->lookups, (unsigned long long)t->cached_tokens,
                  (unsigned long long)t->prompt_tokens, (unsigned long long)t->evictions,
                  t->running_max, t->shared_max, (unsigned long long)t->mismatches);
}

#endif

// The company in which requests of the replay run: the shape of an engine, and the events beside
// them. No hash depends on it.
#ifndef RN_TESTS_REPLAY_COMPANY_H
#define RN_TESTS_REPLAY_COMPANY_H

#include "ask.h"

enum { COMPANY_OTHERS = 12, COMPANY_MAX_STEPS = 100000 };

enum way {
    WAY_TOGETHER,
    WAY_ONE_BY_ONE,
    WAY_CACHED, // the first one alone; all share a prefix, some of them a salt
    WAY_BUSY,   // they come by and by, are paused, and others are cancelled
    WAY_TWICE,  // once without drafts, then with drafts that know the truth
    WAY_THREAD, // the engine's own thread steps
};

// Events that the engines of a company must have had, all together.
enum want { WANT_NOTHING, WANT_PREEMPTIONS, WANT_HITS, WANT_DRAFTS };

struct company {
    const char *name;
    enum way way;
    enum want want;
    struct bend bend;
    rn_engine_options options; // n_threads 0: as many as the run has
};

// The first ROTATION of them take turns; the last is for models that have a draft model.
static const struct company companies[] = {
    {"alone",
     WAY_ONE_BY_ONE,
     WANT_NOTHING,
     {0},
     {.max_seqs = 1, .n_threads = 1, .no_prefix_cache = true, .speculate = "off"}},
    {"scalar",
     WAY_TOGETHER,
     WANT_NOTHING,
     {0},
     {.max_seqs = 6, .n_threads = 1, .isa = "scalar", .speculate = "off"}},
    {"together",
     WAY_TOGETHER,
     WANT_NOTHING,
     {0},
     {.max_seqs = 12, .n_threads = 2, .speculate = "off"}},
    {"chunks",
     WAY_TOGETHER,
     WANT_NOTHING,
     {0},
     {.max_seqs = 8, .batch_tokens = 11, .speculate = "off"}},
    {"tight",
     WAY_TOGETHER,
     WANT_PREEMPTIONS,
     {.longer = true},
     {.max_seqs = 10, .kv_pages = 9, .speculate = "off"}},
    {"cached",
     WAY_CACHED,
     WANT_HITS,
     {.shared = true},
     {.max_seqs = 8, .batch_tokens = 48, .speculate = "off"}},
    {"busy", WAY_BUSY, WANT_PREEMPTIONS, {0}, {.max_seqs = 5, .batch_tokens = 32, .kv_pages = 12}},
    {"lookup",
     WAY_TOGETHER,
     WANT_DRAFTS,
     {0},
     {.max_seqs = 4, .speculate = "lookup,shared", .draft_min = 3}},
    {"custom", WAY_TWICE, WANT_DRAFTS, {0}, {.max_seqs = 9, .speculate = "custom", .draft_min = 2}},
    {"thread", WAY_THREAD, WANT_NOTHING, {0}, {.max_seqs = 16, .n_threads = 2, .batch_tokens = 20}},
    {"model",
     WAY_TOGETHER,
     WANT_DRAFTS,
     {0},
     {.max_seqs = 12, .speculate = "model,lookup", .draft_min = 2, .draft_max = 6}},
};
enum { COMPANIES = sizeof companies / sizeof companies[0], ROTATION = COMPANIES - 1 };

// Events that all engines of a company had.
struct tally {
    uint64_t engines, requests, preemptions, hits, drafted, accepted;
};

// How this run differs from the usual one. The hashes are the same.
struct changes {
    bool alone; // each request by itself, nothing shared, nothing drafted
    int n_threads;
    const char *isa; // for engines that fix none
};

struct room {
    const struct company *company;
    rn_engine *engine;
    struct ask *asks;
    int n, n_vocab;
    bool is_large;   // its model: without the reference kernels, which are slow
    uint64_t random; // of wrong drafts
};

// ---------------------------------------------------------------- steps

static inline void room_submit(struct room *room, struct ask *ask) {
    rn_error err;
    if (rn_engine_submit(room->engine, &ask->request, &ask->id, &err) != RN_OK)
        die("%s: %s", ask->name, err.message);
}

// Events without data are those of others.
static inline bool room_step(struct room *room) {
    bool busy;
    if (rn_engine_step(room->engine, &busy) != RN_OK) die("a step of %s fails", room->asks->name);
    for (rn_event event; rn_engine_next_event(room->engine, &event);)
        if (event.data) ask_take(event.data, &event);
    return busy;
}

static inline void room_drain(struct room *room) {
    int steps = 0;
    while (room_step(room))
        if (++steps == COMPANY_MAX_STEPS) die("%s does not end", room->asks->name);
}

static inline int room_open(const struct room *room) {
    int n = 0;
    for (int i = 0; i < room->n; i++) n += !room->asks[i].ended;
    return n;
}

// ---------------------------------------------------------------- ways

static inline void room_run_together(struct room *room) {
    for (int i = 0; i < room->n; i++) room_submit(room, &room->asks[i]);
    room_drain(room);
}

static inline void room_run_one_by_one(struct room *room) {
    for (int i = 0; i < room->n; i++) {
        room_submit(room, &room->asks[i]);
        room_drain(room);
    }
}

static inline void room_run_cached(struct room *room) {
    for (int i = 0; i < room->n; i++) {
        if (i % 3 == 2) room->asks[i].request.cache_salt = "salt";
        room_submit(room, &room->asks[i]);
        if (i == 0) room_drain(room);
    }
    room_drain(room);
}

// Alternately right and wrong: three of four tokens are those of the run before.
static inline int room_draft(void *ctx, void *data, int choice, const int32_t *token, int n_token,
                             int32_t *out, int most) {
    struct room *room = ctx;
    const struct ask *ask = data;
    const struct choice *c = &ask->choice[choice];
    const int at = n_token - (int)ask->request.n_prompt;
    (void)token;
    for (int i = 0; i < most; i++) {
        const bool right = draw(&room->random, 4) > 0 && at + i >= 0 && at + i < c->n_truth;
        out[i] = right ? c->truth[at + i] : draw(&room->random, room->n_vocab);
    }
    return most;
}

static inline void room_run_twice(struct room *room) {
    for (int i = 0; i < room->n; i++) room->asks[i].request.draft_max = -1;
    room_run_together(room);
    for (int i = 0; i < room->n; i++) {
        room->asks[i].request.draft_max = 0;
        ask_again(&room->asks[i]);
    }
    room_run_together(room);
}

static inline uint64_t room_submit_other(struct room *room, int i) {
    int32_t prompt[40];
    rn_error err;
    uint64_t id;
    for (int j = 0; j < 40; j++) prompt[j] = draw(&room->random, room->n_vocab);
    const rn_request request = {.prompt = prompt,
                                .n_prompt = (size_t)(1 + i * 3),
                                .max_tokens = -1,
                                .ignore_eos = true,
                                .priority = i % 3,
                                .user = "other"};
    if (rn_engine_submit(room->engine, &request, &id, &err) != RN_OK)
        die("%s: %s", room->asks->name, err.message);
    return id;
}

// Every second step one comes. Every fifth step another comes, to be cancelled later. One at a time
// is paused for four steps of seven.
static inline void room_run_busy(struct room *room) {
    uint64_t other[COMPANY_OTHERS];
    int next = 0, n_other = 0, n_cancelled = 0;
    for (int step = 0; next < room->n || room_open(room); step++) {
        if (step == COMPANY_MAX_STEPS) die("%s does not end", room->asks->name);
        if (step % 2 == 0 && next < room->n) {
            struct ask *ask = &room->asks[next++];
            ask->request.priority = next % 4 - 1;
            ask->request.user = next % 2 ? "one" : NULL;
            room_submit(room, ask);
        }
        if (step % 5 == 0 && n_other < COMPANY_OTHERS) {
            other[n_other] = room_submit_other(room, n_other);
            n_other++;
        }
        if (step % 5 == 3 && step > 10 && n_cancelled < n_other)
            rn_engine_cancel(room->engine, other[n_cancelled++]);
        if (step % 7 == 2 || step % 7 == 6)
            rn_engine_pause(room->engine, room->asks[step / 7 % room->n].id, step % 7 == 2);
        room_step(room);
    }
    while (n_cancelled < n_other) rn_engine_cancel(room->engine, other[n_cancelled++]);
    room_drain(room);
}

static inline void room_run_thread(struct room *room) {
    rn_event events[16];
    rn_error err;
    if (rn_engine_start(room->engine, &err) != RN_OK) die("%s", err.message);
    for (int i = 0; i < room->n; i++) room_submit(room, &room->asks[i]);
    while (room_open(room)) {
        const int n = rn_engine_wait(room->engine, events, 16, 60000);
        if (n == 0) die("%s does not end", room->asks->name);
        for (int i = 0; i < n; i++) ask_take(events[i].data, &events[i]);
    }
    rn_engine_stop(room->engine, true);
}

// ---------------------------------------------------------------- an engine

static inline void tally_add(struct tally *tally, const struct room *room) {
    rn_engine_stats stats;
    rn_engine_get_stats(room->engine, &stats);
    tally->engines++;
    tally->requests += (uint64_t)room->n;
    tally->preemptions += stats.preemptions;
    tally->hits += stats.hits;
    for (int i = 0; i < RN_DRAFTER_COUNT; i++) {
        tally->drafted += stats.draft[i].tokens;
        tally->accepted += stats.draft[i].accepted;
    }
}

// Why a company was not what its name says; NULL: it was.
static inline const char *tally_complaint(const struct tally *tally, enum want want) {
    if (want == WANT_PREEMPTIONS && tally->preemptions < tally->engines)
        return "too few preemptions";
    if (want == WANT_HITS && tally->hits < tally->engines) return "too few prefix hits";
    if (want == WANT_DRAFTS && (!tally->accepted || tally->accepted == tally->drafted))
        return "no draft was accepted, or every draft";
    return NULL;
}

static inline rn_engine_options room_options(struct room *room, const rn_model *draft,
                                             const char *kv_type, const struct changes *changes) {
    rn_engine_options options = room->company->options;
    if (changes->alone) options = companies[0].options;
    if (!options.isa || room->is_large) options.isa = changes->isa;
    if (!options.n_threads) options.n_threads = changes->n_threads;
    options.kv_type = kv_type;
    options.n_ctx = ASK_CONTEXT;
    if (!options.speculate || strcmp(options.speculate, "off") != 0) options.draft = draft;
    if (room->company->way == WAY_TWICE && !changes->alone) {
        options.draft_fn = room_draft;
        options.draft_ctx = room;
    }
    return options;
}

// Runs the asks of a room on an engine of its own.
static inline void room_run(struct room *room, const rn_model *model, const rn_model *draft,
                            const char *kv_type, const struct changes *changes,
                            struct tally *tally) {
    static void (*const run[])(struct room *) = {
        [WAY_TOGETHER] = room_run_together, [WAY_ONE_BY_ONE] = room_run_one_by_one,
        [WAY_CACHED] = room_run_cached,     [WAY_BUSY] = room_run_busy,
        [WAY_TWICE] = room_run_twice,       [WAY_THREAD] = room_run_thread};
    const rn_engine_options options = room_options(room, draft, kv_type, changes);
    rn_error err;
    if (rn_engine_create(model, &options, &room->engine, &err) != RN_OK)
        die("%s: %s", room->asks->name, err.message);
    run[changes->alone ? WAY_ONE_BY_ONE : room->company->way](room);
    if (room_open(room)) die("%s: %d requests have no end", room->asks->name, room_open(room));
    tally_add(tally, room);
    rn_engine_destroy(room->engine);
}

#endif

// The engine: requests in, events out, one step at a time. A step is five calls: schedule,
// build_batch, run, sample, publish; around the run, drafts are proposed and settled (step.c). One
// thread owns it; other threads touch the intake alone. After create, a step allocates nothing,
// takes no lock and reads no environment.
//
// Run is submit and wait. Where the backend lets steps be in flight, the next one is scheduled,
// built and submitted before the last one has landed: sample and publish trail by one.
//
//   depth 1   schedule build submit WAIT sample publish | schedule build submit WAIT ...
//   depth 2   schedule build submit                     | schedule build submit WAIT(before) sample
//             publish(before) | schedule ...
//
// A row's token may then be a token that the step in flight chooses (seq_known), unless the host
// must know it first. Where the host must know many of them, the step lands before the next is
// made. No sequence is preempted while a step is in flight: it lands first.
//
// Invariants between steps:
//  1. a sequence is in exactly one place: inbox, waiting, running, leaving, done, grave.
//  2. running is sorted by seniority: priority, then age. Only running and leaving sequences hold
//     pages. Leaving ones are over, and have rows in steps in flight.
//  3. a RUNNING sequence has n_done < n_token <= limit: there is something to evaluate. It is a
//     stream when that is only its last token and the tokens to evaluate again (n_again), else a
//     prompt.
//  4. a lone sequence of n_ctx positions fits the pages, so the most senior one always makes
//     progress.
//  5. the output of a sequence depends on the sequence alone: never on its place, its neighbours,
//     the chunk sizes, cached prefixes, drafts or preemption.
#ifndef RN_ENGINE_STEP_ENGINE_H
#define RN_ENGINE_STEP_ENGINE_H

#include <limits.h>

#include "engine/account/divide.h"
#include "engine/account/step_board.h"
#include "engine/draft/draft.h"
#include "engine/pages/place.h"
#include "engine/price/price.h"
#include "engine/request/intake.h"
#include "engine/request/users.h"
#include "engine/request/work.h"
#include "engine/step/ledger.h"
#include "model/model.h"
#include "plan/cost_rates.h"
#include "text/tokenizer.h"

enum { ENGINE_MAX_WAITING = 1024 }; // by default

// A step from its schedule to its landing.
struct flight {
    struct seq_work *work; // [max_seqs]
    int n_work;
    struct batch_shape shape; // of the works
    uint64_t begin_ns;        // when its schedule began
    uint64_t draft_ns;        // time of draft_propose
    double plain_share; // of the step's time without drafting: the part that it would take without
                        // drafts
};

// A chosen token.
struct pick {
    int32_t token;
    bool ends;              // the text ends with it
    int n_logprobs;         // in the sequence's logprob
    struct text_span bytes; // the bytes that it adds to the text
};

// The facts that decide which sequence goes first.
struct turn {
    uint64_t id;
    int choice, priority, user_at;
};

// A waiting sequence. Its turn is kept beside it, so that looking for the next of a thousand reads
// a few cache lines.
struct waiter {
    struct seq *seq;
    struct turn turn;
    bool is_paused;    // the sequence's
    bool follows;      // ready when the first choice of its request has evaluated the prompt
    bool is_unchecked; // its bounds: it is ready when they were looked at (promise.h)
};

// Admission stops when no waiting sequence is ready, or the next one does not fit. It looks at them
// again after one of these changes, or after a few steps.
enum engine_change {
    CHANGE_WAITING = 1 << 0, // a sequence joined the waiting ones
    CHANGE_RUNNING = 1 << 1, // a running sequence left its place and its pages
    CHANGE_LANDED = 1 << 2,  // steps landed: pages of sequences that left came back, or room may be
                             // made now
    CHANGE_PROMPT = 1 << 3,  // more of a prompt is evaluated, which other choices may share
    CHANGE_FLAGS = 1 << 4,   // sequences were cancelled, paused, resumed or late
};

// Time in which admission lacked places, or pages. Waiting sequences read it when their wait ends,
// so that no step walks along them.
struct block_clock {
    uint64_t ns, since_ns; // up to since_ns; running on from there while blocked
    bool is_blocked;
};

// The statistics when the last step landed.
struct charge_laps {
    uint64_t end_ns, run_ns, draft_ns, sample_ns;
};

struct engine_clock {
    uint64_t (*now)(void *ctx); // ns
    void *ctx;
};

struct engine {
    const struct plan *plan;
    const struct tokenizer *tokenizer;
    struct pool *pool; // the host's threads: lent to backends
    struct backend_place place, draft_place;
    struct backend *backend;
    struct intake intake;
    struct kv_config kv_config;
    struct kv *kv;
    struct users users;
    struct choice_scratch *scratch; // [n_scratch] one for each thread
    int n_scratch;
    struct cost_rates rates; // of the plan
    struct cost_rates class_rates[OPS_COUNT];
    struct divider divider;  // of a step's time
    struct price price;      // of a step
    struct draft *draft;     // NULL: nothing is drafted
    bool has_block;          // the plan's draft block runs
    uint64_t block_kv_bytes; // of its pages; 0: there are none
    uint64_t draft_kv_bytes; // for the pages of a draft model
    struct engine_clock clock;
    struct page_store *store; // NULL: none
    int n_fetching;           // sequences that wait for it
    // prepare.c
    struct mask_maker maker;
    struct mask_units units;  // of the step
    int64_t mask_units;       // as configured; 0: the usual ones
    struct seq **unmasked;    // [max_seqs] scratch
    int n_ordered;            // masks that the maker makes for live sequences
    uint64_t n_masks_ordered; // so far
    unsigned n_prepared;      // steps
    bool is_behind;           // a shape has not followed its text
    bool store_always;        // as configured
    struct kv_bytes kv_bytes; // a page of each group
    int n_ctx, n_embd, max_seqs, max_waiting, batch_tokens, logit_rows;
    uint64_t itl_ns;     // what a step aims at while streams run, below itl_ms; UINT64_MAX: none
    _Atomic bool forget; // prefixes; set by other threads
    bool self_check;     // engine_check runs after every step

    int max_live;         // sequences: the limit of waiting ones, and twice that of running ones,
                          // because the preempted wait beyond the limit
    struct seq **running; // [max_seqs]
    int n_running;
    struct waiter *waiting; // [max_live] in no order
    int n_waiting;
    struct seq *leaving;    // over, with steps in flight; linked by next
    struct seq *done;       // finished; their events may still be read
    unsigned changes;       // since admission stopped: enum engine_change
    int n_unlooked;         // steps since then
    uint64_t next_deadline; // no sequence has an earlier deadline; UINT64_MAX: none has one

    // promise.c
    int n_bounded;       // live sequences with a bound
    bool has_unchecked;  // some of the waiting ones may be unchecked
    double usual_output; // tokens of texts that ended by themselves, smoothed; 0: unknown
    // scratch of a forecast
    struct player *players;       // [max_seqs]
    int *player_chunk;            // [max_seqs]
    struct seq **players_waiting; // [max_live]

    int depth;                               // steps that may be in flight
    struct flight flight[BACKEND_MAX_DEPTH]; // from first_flight on, n_flight of them
    int first_flight, n_flight;
    uint64_t n_flown, n_landed; // steps
    bool land_first;            // nothing is scheduled before all steps have landed
    uint64_t n_overlapped;      // steps that were submitted while another was in flight
    uint64_t landed_ns;         // when the last one landed
    uint64_t run_ns_before;     // the statistics' at the start of the step
    rn_error fault;             // of the backend, the last
    rn_status loss;             // what ended the engine: RN_ERR_DEVICE, the device is lost; or
                                // RN_ERR_IO, a file that steps read was written to
    bool is_busy;               // the last step had something to do, or left something
    _Atomic bool is_lost;       // for other threads: the engine ended for good, as `fault` says

    // the step that is being made, or was last
    struct flight *step;
    struct pick *pick;    // [logit_rows] this step's, by the row that they were chosen from
    struct seq **prompts; // [max_seqs] scratch of the schedule
    struct batch_builder builder;
    struct choice *choice;     // [logit_rows]
    struct step_result result; // of the last step
    struct cost step_cost;     // of the last step

    rn_event *event; // [engine_events_max]
    int n_event, next_event;
    uint64_t event_ns; // the time of events that are made now
    rn_engine_stats stats;

    _Atomic uint64_t begin_ns; // of the step that runs now, for other threads to see; 0: none does

    // where the time went (charge.c)
    struct block_clock block[ACCOUNT_BLOCKS];
    uint64_t page_holder; // the request that held the most pages when pages were missing last
    rn_cause step_cause;  // of sequences that wait while a step like the last one runs
    uint64_t step_prompt_request;
    int step_prompt_tokens;
    struct charge_laps laps;
    struct step_board steps;
};

struct engine_config {
    struct place_wanted place, draft_place; // the draft's own name and class; NULL: the target's
    const char *variant;                    // of the backend's kernels; NULL: the best
    int n_threads;                          // of the host; 0: all cores that this process may use
    bool no_pin;
    bool self_check;           // see engine_check
    int64_t mask_units;        // for tests: of all masks of a step; 0: the usual ones
    struct budget_sizes sizes; // 0: defaults
    backend_progress progress;
    void *progress_ctx;
    int max_waiting;   // 0: ENGINE_MAX_WAITING
    uint64_t kv_bytes; // both 0: the free memory
    uint32_t kv_pages;
    double itl_ms; // 0: no bound
    bool no_prefix;
    struct draft_config draft;
    struct engine_clock clock; // now NULL: the machine's
    struct engine_store {
        const char *path;              // NULL: no files
        uint64_t bytes;                // 0: the default
        uint64_t memory_bytes;         // 0: none; without files there is no store then
        const struct weights *weights; // the model's
        rn_note_fn note;
        void *note_ctx;
        const struct page_io *io; // NULL: the system's
        bool always;              // for tests: pages are read even where computing is faster
    } store;
};

rn_status engine_init(struct engine *engine, const struct model *model,
                      const struct tokenizer *tokenizer, const struct engine_config *config,
                      rn_error *err);
void engine_deinit(struct engine *engine);
// Where an engine of that configuration would run, and its memory.
rn_status engine_plan(const struct model *model, const struct engine_config *config,
                      struct backend_place *place, struct backend_place *draft_place,
                      struct budget *out, rn_error *err);

rn_status engine_step(struct engine *engine, bool *busy);
bool engine_next_event(struct engine *engine, rn_event *out);

// check.c: page accounting and the places of sequences are valid. With self_check every step ends
// with it, and a broken invariant ends the program.
void engine_check(struct engine *engine);

static inline void engine_changed(struct engine *engine, enum engine_change change) {
    engine->changes |= change;
}

// Events of a step: a token each of its rows of logits, an end of each sequence, and two that tell
// how far its prompt is of each running one.
static inline int engine_events_max(const struct engine *engine) {
    return engine->max_live + engine->logit_rows + 2 * engine->max_seqs;
}

static inline uint64_t engine_now(const struct engine *engine) {
    return engine->clock.now(engine->clock.ctx);
}

// --- the parts of a step, one file each; step.c calls them ---
void engine_prepare(struct engine *engine);     // prepare.c: masks of shapes, after the admission
bool engine_schedule(struct engine *engine);    // schedule.c: false when there is nothing to do
void engine_build_batch(struct engine *engine); // batch.c
void engine_describe(struct engine *engine);    // batch.c: the choice of each row of logits
// flight.c: hands the batch over; the flight's sequences are in flight, or have failed.
void engine_submit(struct engine *engine);
// Whether the oldest step in flight lands before another one is made: the host must know the tokens
// of nearly all its streams before it can describe their next ones.
bool engine_waits_for_landing(const struct engine *engine);
// flight.c: the oldest step in flight has landed; NULL: it failed, and its sequences have ended.
struct flight *engine_wait(struct engine *engine);
void engine_sample(struct engine *engine, struct flight *flight);  // sample.c
void engine_publish(struct engine *engine, struct flight *flight); // publish.c
// publish.c: the step failed; its sequences end with that status.
void engine_publish_failure(struct engine *engine, struct flight *flight, rn_status status);
// step.c: the statistics that are states, not sums over steps.
void engine_fill_stats(struct engine *engine);

// admit.c, before the schedule: new and flagged sequences, deadlines, admission.
void engine_admit(struct engine *engine);
struct seq *engine_running_remove(struct engine *engine, int index);
// Ends all choices of a request whose choices wait. The reason outlives the events.
void engine_refuse(struct engine *engine, const struct seq *seq, rn_finish finish, rn_status status,
                   const char *reason);
// Takes the pages of running[index] and lets it wait. request: the one that gets them.
void engine_preempt(struct engine *engine, int index, uint64_t request);
// The running sequence that loses its pages first: the most junior paused one, else the most junior
// from index `from` on. -1: none.
int engine_victim(const struct engine *engine, int from);
// Whether a goes before b: by priority, least served user, age.
bool engine_goes_first(const struct engine *engine, const struct seq *a, const struct seq *b);
// Turns by that order, for lists of which few are taken. After init the first of list[n] is to go
// first. pop moves it behind the others, to list[n - 1], and leaves the turns of the n - 1 others.
void engine_turns_init(const struct engine *engine, struct seq **list, int n);
void engine_turns_pop(const struct engine *engine, struct seq **list, int n);

// prepare.c: whether the next token may be chosen; its mask is not wanted any more.
bool engine_has_mask(const struct seq *seq);
void engine_leave_mask(struct engine *engine, struct seq *seq);

// --- fetch.c: prompts take pages from the store ---
// Positions of a waiting sequence's prompt that the store has, with those before them.
int engine_stored(struct engine *engine, const struct seq *seq);
rn_status engine_store_create(struct engine *engine, const struct engine_store *config,
                              rn_error *err);
// The fetch of a sequence that has one; false: it has not ended yet.
bool engine_fetch_lands(struct engine *engine, struct seq *seq);
// Looks for pages of a prompt; true: it waits for them, or until another fetch has ended.
bool engine_fetch_begin(struct engine *engine, struct seq *seq);
// The sequence loses its pages; false: it has no fetch, and its table is as usual.
bool engine_fetch_leave(struct engine *engine, struct seq *seq);
// admit.c: the empty table of a sequence gets the cached prefix, or the prompt of another choice.
// True: a cached prefix.
bool engine_table_begin(struct engine *engine, struct seq *seq);

// publish.c: ends a sequence of any state, after it was taken from its place: its pages go back,
// its last event is queued. Texts of its other events of this step stay: output_begin is the
// caller's.
void engine_finish(struct engine *engine, struct seq *seq, rn_event *event, rn_finish finish,
                   rn_status status);
// Gives back all its pages, those of a draft in flight included.
void engine_free_table(struct engine *engine, struct seq *seq);
rn_event *engine_new_event(struct engine *engine, const struct seq *seq);

// --- charge.c: time goes to accounts ---
// The requests with the most prompt tokens of the step: two, because one may be that which asks.
struct beside {
    uint64_t request[2];
    int tokens[2];
    int n_streams, n_prompts;
};

// A landed step as its sequences are charged for it.
struct charge {
    struct division division;
    struct beside beside;
    uint64_t run_ns;
};
// The step has landed: the time up to now of every running sequence without work in it is charged.
void engine_charge(struct engine *engine, const struct flight *flight, uint64_t now,
                   struct charge *out);
// The same for the sequence of a work, before anything else happens to it. It runs.
void engine_charge_work(const struct engine *engine, const struct charge *charge,
                        const struct seq_work *work);
// The time of a sequence that changes its state now, up to now. account: its own, or a copy.
void engine_charge_until(const struct engine *engine, const struct seq *seq, uint64_t now,
                         struct account *account);
void engine_prompt_done(const struct engine *engine, struct seq *seq); // of choice 0
void engine_wait_begin(const struct engine *engine, struct seq *seq);  // it joins the waiting ones
// The running request that holds the most pages, other than this one.
uint64_t engine_page_holder(const struct engine *engine, uint64_t except);
// Admission stopped for this reason; ACCOUNT_BLOCKS: it did not.
void engine_block(struct engine *engine, enum account_block block, uint64_t now);

// admit.c: sequences that were submitted since join the waiting ones; every sequence ends, because
// the device is lost.
void engine_take_new(struct engine *engine);
void engine_end_all(struct engine *engine, rn_status status);

// When the time of a landing step begins: earlier time belongs to the step before.
static inline uint64_t engine_step_begin(const struct engine *engine, const struct flight *flight) {
    return flight->begin_ns > engine->landed_ns ? flight->begin_ns : engine->landed_ns;
}

// Whether the results of a work are used: its sequence may have ended meanwhile, or failed in the
// step.
static inline bool engine_is_due(const struct engine *engine, const struct seq_work *work) {
    const rn_status *status = engine->result.seq_status;
    return work->seq->state == SEQ_RUNNING && (!status || status[work->at] == RN_OK);
}

// Whether the token after the next one can be chosen before the host knows the next one.
static inline bool engine_runs_ahead(const struct engine *engine, const struct seq *seq) {
    return engine->depth > 1 && !seq->draft && !choice_needs_history(&seq->choices);
}

// The first position from which on the result of each one is wanted, not the last one's alone;
// INT_MAX: there is none. Such positions are not taken from the prefix cache.
static inline int engine_wanted_from(const struct seq *seq) {
    if (seq->on_logits || seq->pooling == RN_POOLING_MEAN || seq->pooling == RN_POOLING_CLS)
        return 0;
    return seq_is_unscored(seq) ? seq->n_scored : INT_MAX;
}
static inline bool engine_wants_rows(const struct seq *seq) {
    return engine_wanted_from(seq) != INT_MAX;
}

#endif

// The step; see engine.h. Five calls, one file each, with drafts and prices between them:
//
//     engine_admit        new sequences, cancels, places                admit.c
//     engine_prepare      masks of shapes                               prepare.c
//   1 engine_schedule     sequences and their numbers of tokens         schedule.c
//     draft_propose       drafted tokens behind those of streams        ../draft/propose.c
//   2 engine_build_batch  rows, page tables                             batch.c
//     engine_describe     choices, with their constraints               batch.c
//   3 engine_submit/wait  the backend runs it                           flight.c
//   4 engine_sample       the chosen tokens, along the drafts           sample.c
//     draft_settle        positions of refused drafts are taken back    ../draft/settle.c
//   5 engine_publish      text, events, ends                            publish.c
//     engine_charge       its time goes to accounts                     charge.c
//     price_learn         what the step took                            ../price/price.c
//
// make_step has the calls up to submit, land_step those from wait on. The time of each goes to its
// sum in the statistics.
#include <assert.h>

#include "engine/step/engine.h"

// Adds the time since the last call to *sum, and returns it.
static uint64_t lap(const struct engine *engine, uint64_t *at, uint64_t *sum) {
    const uint64_t now = engine_now(engine), ns = now - *at;
    *sum += ns;
    *at = now;
    return ns;
}

// Schedules a step and hands it to the backend; false: there was nothing to do.
static bool make_step(struct engine *engine, uint64_t begin, uint64_t *at) {
    rn_engine_stats *stats = &engine->stats;
    engine_admit(engine);
    lap(engine, at, &stats->schedule_ns);
    engine_prepare(engine);
    lap(engine, at, &stats->sample_ns);
    if (!engine_schedule(engine)) return false;
    lap(engine, at, &stats->schedule_ns);

    struct flight *step = engine->step;
    step->begin_ns = begin;
    step->plain_share =
        draft_propose(engine->draft, &(struct draft_step){step->work, step->n_work, &step->shape});
    step->draft_ns = lap(engine, at, &stats->draft_ns);

    engine_build_batch(engine);
    lap(engine, at, &stats->batch_ns);
    engine_describe(engine);
    lap(engine, at, &stats->sample_ns);

    engine_submit(engine);
    lap(engine, at, &stats->run_ns);
    return true;
}

// Choosing is a part of the run, and is booked as sampling. The two clocks may differ.
static void count_run(struct engine *engine, const struct flight *flight) {
    rn_engine_stats *stats = &engine->stats;
    const uint64_t ns = engine->result.choose_ns, run_ns = stats->run_ns - engine->run_ns_before;
    const uint64_t part = ns < run_ns ? ns : run_ns;
    stats->run_ns -= part;
    stats->sample_ns += part;
    ledger_count(stats, flight->shape.n_tokens);
}

// The positions of the step are evaluated, but for those of refused drafts.
static void settle(struct engine *engine, const struct flight *flight) {
    for (int i = 0; i < flight->n_work; i++) {
        const struct seq_work *work = &flight->work[i];
        if (!engine_is_due(engine, work)) continue;
        assert(work->seq->n_done == work->first_pos);
        work->seq->n_done += work->n_tokens;
        work->seq->n_again = 0;
        draft_observe(engine->draft, work, engine->result.hidden);
        draft_settle(engine->draft, work,
                     work->n_pick > 0 ? engine->pick[work->first_pick].token : -1);
    }
}

// The step's time, from the landing of the step before: earlier time belongs to that step.
static void learn(struct engine *engine, const struct flight *flight, uint64_t now) {
    const uint64_t begin = engine_step_begin(engine, flight), ns = now - begin;
    const uint64_t draft_ns = flight->draft_ns < ns ? flight->draft_ns : ns;
    price_learn(&engine->price, &flight->shape, ns - draft_ns);
    engine->landed_ns = now;
}

// The oldest step in flight: its results, then their consequences.
static void land_step(struct engine *engine, uint64_t *at) {
    rn_engine_stats *stats = &engine->stats;
    struct flight *flight = engine_wait(engine);
    lap(engine, at, &stats->run_ns);
    if (!flight) return; // it failed, and its sequences have ended
    count_run(engine, flight);

    engine_sample(engine, flight);
    lap(engine, at, &stats->sample_ns);

    settle(engine, flight);
    lap(engine, at, &stats->draft_ns);

    engine_publish(engine, flight);
    lap(engine, at, &stats->publish_ns);

    learn(engine, flight, *at);
}

static void step(struct engine *engine, uint64_t begin) {
    uint64_t at = begin;
    const bool flew = engine->n_flight > 0; // its landing may make room for others
    engine->run_ns_before = engine->stats.run_ns;
    // land first: a step made now might end a sequence whose landed token is to be read first
    const bool waits = engine->land_first || engine_waits_for_landing(engine);
    const bool made = !waits && make_step(engine, begin, &at);
    if (engine->n_flight == engine->depth || (engine->n_flight > 0 && !made))
        land_step(engine, &at);
    if (engine->land_first && engine->n_flight == 0) {
        engine->land_first = false;
        engine_changed(engine, CHANGE_LANDED);
    }
    engine->is_busy =
        made || flew || engine->n_event > 0 || engine->has_unchecked || engine->is_behind;
}

// Sequences whose events were read are over. A step without events may have brought some that left
// before: their events may still be on their way to the reader, so they wait for the next ones.
static void bury_done(struct engine *engine) {
    if (engine->n_event == 0) return;
    engine->n_event = engine->next_event = 0;
    intake_bury(&engine->intake, engine->done);
    engine->done = NULL;
}

void engine_fill_stats(struct engine *engine) {
    rn_engine_stats *stats = &engine->stats;
    struct kv_stats kv;
    kv_get_stats(engine->kv, &kv);
    stats->running = engine->n_running;
    stats->waiting = engine->n_waiting;
    stats->evictions = kv.evictions;
    stats->pages_total = kv.pages_total;
    stats->pages_held = kv.pages_held;
    stats->pages_shared = kv.pages_shared;
    stats->pages_cached = kv.pages_cached;
    stats->kv_held_bytes = kv.held_bytes;
    stats->kv_cached_bytes = kv.cached_bytes;
    stats->states_total = kv.states_total;
    stats->states_held = kv.states_held;
    stats->states_cached = kv.states_cached;
    stats->state_held_bytes = kv.state_held_bytes;
    stats->state_cached_bytes = kv.state_cached_bytes;
    stats->state_evictions = kv.state_evictions;
}

static bool is_lost(const struct engine *engine) {
    return atomic_load_explicit(&engine->is_lost, memory_order_relaxed);
}

rn_status engine_step(struct engine *engine, bool *busy) {
    *busy = false;
    if (engine->next_event < engine->n_event) return RN_ERR_ARG; // events would be lost
    bury_done(engine);
    const uint64_t begin = engine_now(engine);
    atomic_store_explicit(&engine->begin_ns, begin, memory_order_relaxed);
    if (is_lost(engine)) {
        engine_take_new(engine);
        engine_end_all(engine, engine->loss);
    } else {
        step(engine, begin);
    }
    kv_tell_settled(engine->kv);
    engine_fill_stats(engine);
    atomic_store_explicit(&engine->begin_ns, 0, memory_order_relaxed);
    if (engine->self_check) engine_check(engine);
    *busy = engine->is_busy;
    if (is_lost(engine)) *busy = engine->n_event > 0 || atomic_load(&engine->intake.inbox);
    return is_lost(engine) ? RN_ERR_DEVICE : RN_OK;
}

bool engine_next_event(struct engine *engine, rn_event *out) {
    if (engine->next_event == engine->n_event) return false;
    *out = engine->event[engine->next_event++];
    return true;
}

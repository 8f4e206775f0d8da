// Steps in flight: from submit to the wait for the oldest one. A step's sequences keep their pages
// while it flies. Called by step.c.
#include <assert.h>

#include "engine/step/engine.h"

// The step that was made goes to the backend, and its sequences with it.
static void take_off(struct engine *engine) {
    struct flight *flight = engine->step;
    engine->n_overlapped += engine->n_flight > 0;
    engine->n_flight++;
    engine->n_flown++;
    for (int i = 0; i < flight->n_work; i++) {
        struct seq_work *work = &flight->work[i];
        struct seq *seq = work->seq;
        seq->n_steps++;
        seq->table.n_flight += work->n_tokens;
        work->is_ahead =
            work->samples && engine_runs_ahead(engine, seq) && seq_known(seq) + 1 < seq->limit;
        seq->n_ahead += work->is_ahead;
        seq->ahead_row = work->first_out + work->n_out - 1;
    }
}

// A sequence that left while the step was in flight: its rows are evaluated all the same, so its
// states stand behind them. A draft's rows may be wrong: its states go back to the mark.
static void left_landed(const struct engine *engine, const struct seq_work *work, bool is_done) {
    struct seq *seq = work->seq;
    const rn_status *status = engine->result.seq_status;
    if (seq->state != SEQ_DONE || seq->table.marked) return;
    if (!is_done || (status && status[work->at])) seq->leaves_state = false;
    seq->n_done += work->n_tokens;
}

// The oldest step in flight has landed, is_done with a result. Sequences that left meanwhile, and
// have no other step in flight, give their pages back.
static void touch_down(struct engine *engine, struct flight *flight, bool is_done) {
    assert(flight == &engine->flight[engine->first_flight]);
    engine->first_flight = (engine->first_flight + 1) % engine->depth;
    engine->n_flight--;
    engine->n_landed++;
    for (int i = 0; i < flight->n_work; i++) {
        const struct seq_work *work = &flight->work[i];
        struct seq *seq = work->seq;
        seq->n_steps--;
        seq->table.n_flight -= work->n_tokens;
        seq->n_ahead -= work->is_ahead;
        left_landed(engine, work, is_done);
    }
    for (struct seq **at = &engine->leaving, *seq; (seq = *at);) {
        if (seq->n_steps > 0) {
            at = &seq->next;
            continue;
        }
        *at = seq->next;
        engine_free_table(engine, seq);
        engine_changed(engine, CHANGE_LANDED);
        seq->next = engine->done;
        engine->done = seq;
    }
}

// The steps in flight will have no result, nor will any later one.
static void lose(struct engine *engine, rn_status status) {
    while (engine->n_flight > 0) touch_down(engine, &engine->flight[engine->first_flight], false);
    engine->loss = status;
    engine_end_all(engine, status);
    atomic_store_explicit(&engine->is_lost, true, memory_order_release);
    intake_refuse(&engine->intake, status);
}

static void fail(struct engine *engine, struct flight *flight, rn_status status) {
    if (status == RN_ERR_DEVICE || status == RN_ERR_IO)
        lose(engine, status);
    else
        engine_publish_failure(engine, flight, status);
}

// Streams whose tokens the host must know first would otherwise run in two halves, one in each step
// in flight, and each half would read all weights. Streams that run ahead do not wait for such
// ones, unless they are few.
bool engine_waits_for_landing(const struct engine *engine) {
    enum { FEW = 8 };
    const struct flight *flight = &engine->flight[engine->first_flight];
    int n_ahead = 0, n_waiting = 0;
    for (int i = 0; engine->n_flight > 0 && i < flight->n_work; i++) {
        const struct seq_work *work = &flight->work[i];
        const struct seq *seq = work->seq;
        if (!work->samples || seq->state != SEQ_RUNNING || seq->is_paused) continue;
        n_ahead += work->is_ahead;
        n_waiting += !work->is_ahead && seq_known(seq) + 1 < seq->limit;
    }
    return n_waiting > FEW * n_ahead;
}

void engine_submit(struct engine *engine) {
    const rn_status status =
        engine->backend->cls->submit(engine->backend, &engine->builder.batch, &engine->fault);
    if (status)
        fail(engine, engine->step, status); // it never was in flight
    else
        take_off(engine);
}

struct flight *engine_wait(struct engine *engine) {
    struct flight *flight = &engine->flight[engine->first_flight];
    const rn_status status =
        engine->backend->cls->wait(engine->backend, &engine->result, &engine->fault);
    touch_down(engine, flight, !status);
    if (!status) return flight;
    fail(engine, flight, status);
    return NULL;
}

// The invariants of engine.h, tested after every step of an engine that checks itself.
#include <assert.h>

#include "engine/step/engine.h"

static void check_running(const struct seq *seq) {
    assert(seq->state == SEQ_RUNNING && seq->n_token <= seq->limit);
    assert((seq->n_steps == 0) == (seq->table.n_flight == 0));
    assert(seq_next(seq) <= seq_known(seq) || seq->table.marked); // marked: a draft is in flight
    assert(seq->n_done + seq->n_again < seq->n_token);
    assert(!seq->table.marked || seq->n_steps > 0);
    (void)seq;
}

static void check_waiting(const struct engine *engine, int index) {
    const struct waiter *waiter = &engine->waiting[index];
    const struct seq *seq = waiter->seq;
    assert(seq->state == SEQ_WAITING && seq->n_token <= seq->limit);
    assert(seq->table.n_page == 0 && seq->n_done == 0 && seq->n_steps == 0);
    assert(seq->waiting_at == index);
    assert(waiter->turn.id == seq->id && waiter->turn.choice == seq->choices.index);
    assert(waiter->is_paused == seq->is_paused);
    assert(waiter->follows == (seq->choices.index > 0 && !seq->was_admitted));
    (void)seq, (void)index;
}

void engine_check(struct engine *engine) {
    kv_check_begin(engine->kv);
    for (int i = 0; i < engine->n_running; i++) {
        const struct seq *seq = engine->running[i];
        check_running(seq);
        assert(i == 0 || engine->running[i - 1]->priority >= seq->priority);
        kv_check_table(engine->kv, &seq->table);
    }
    for (const struct seq *seq = engine->leaving; seq; seq = seq->next) {
        assert(seq->state == SEQ_DONE && seq->n_steps > 0);
        kv_check_table(engine->kv, &seq->table);
    }
    for (int i = 0; i < engine->n_waiting; i++) check_waiting(engine, i);
    const bool is_sound = kv_check_end(engine->kv);
    assert(is_sound);
    (void)is_sound;
}

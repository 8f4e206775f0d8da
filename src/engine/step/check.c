// The invariants of engine.h, tested: after every step of an engine that checks itself, and by
// tests.
#include "engine/step/engine.h"

static bool seq_check(const struct seq *seq, enum seq_state state) {
    if (seq->state != state || seq->n_token > seq->limit) return false;
    if (state == SEQ_WAITING)
        return seq->table.n_page == 0 && seq->n_done == 0 && seq->n_steps == 0;
    if ((seq->n_steps == 0) != (seq->table.n_flight == 0)) return false;
    if (seq_next(seq) > seq_known(seq) && !seq->table.marked) return false; // a draft in flight
    return seq->n_done < seq->n_token && seq->n_done + seq->n_again < seq->n_token &&
           (!seq->table.marked || seq->n_steps > 0);
}

static bool waiter_check(const struct engine *engine, int index) {
    const struct waiter *waiter = &engine->waiting[index];
    const struct seq *seq = waiter->seq;
    return seq_check(seq, SEQ_WAITING) && seq->waiting_at == index && waiter->turn.id == seq->id &&
           waiter->turn.choice == seq->choices.index && waiter->is_paused == seq->is_paused &&
           waiter->follows == (seq->choices.index > 0 && !seq->was_admitted);
}

bool engine_check(struct engine *engine) {
    kv_check_begin(engine->kv);
    for (int i = 0; i < engine->n_running; i++) {
        const struct seq *seq = engine->running[i];
        if (!seq_check(seq, SEQ_RUNNING)) return false;
        if (i > 0 && engine->running[i - 1]->priority < seq->priority) return false;
        kv_check_table(engine->kv, &seq->table);
    }
    for (const struct seq *seq = engine->leaving; seq; seq = seq->next) {
        if (seq->state != SEQ_DONE || seq->n_steps == 0) return false;
        kv_check_table(engine->kv, &seq->table);
    }
    for (int i = 0; i < engine->n_waiting; i++)
        if (!waiter_check(engine, i)) return false;
    return kv_check_end(engine->kv);
}

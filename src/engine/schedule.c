// Who runs in this step, and with how many tokens. Every running sequence gets at least one token,
// so nobody starves; what is left of the step's tokens goes to prompts, in the order of the slots.
// A waiting request is admitted, in its turn, when a slot is free and its pages can be promised up
// to its limit, so a running sequence never runs out of pages.
#include <assert.h>

#include "base/clock.h"
#include "engine/engine.h"

static void drop_cancelled(struct engine *engine) {
    for (int i = 0; i < engine->max_seqs; i++) {
        struct seq *seq = engine->slot[i];
        if (!seq || !seq->cancelled) continue;
        engine->slot[i] = NULL;
        engine_finish(engine, seq, engine_new_event(engine, seq), RN_FINISH_CANCELLED,
                      RN_ERR_CANCELLED);
    }
    struct seq **link = &engine->waiting_first;
    while (*link) {
        struct seq *seq = *link;
        if (seq->cancelled) {
            *link = seq->next;
            engine->n_waiting--;
            engine_finish(engine, seq, engine_new_event(engine, seq), RN_FINISH_CANCELLED,
                          RN_ERR_CANCELLED);
        } else {
            link = &seq->next;
        }
    }
    engine->waiting_end = link;
}

static void admit(struct engine *engine) {
    for (int i = 0; i < engine->max_seqs && engine->waiting_first; i++) {
        if (engine->slot[i]) continue;
        struct seq *seq = engine->waiting_first;
        if (!kv_promise(&engine->kv, &seq->table)) return; // in turn: later ones do not overtake
        engine->waiting_first = seq->next;
        if (!seq->next) engine->waiting_end = &engine->waiting_first;
        engine->n_waiting--;
        seq->next = NULL;
        seq->state = SEQ_RUNNING;
        seq->start_ns = clock_ns();
        engine->slot[i] = seq;
    }
}

// Rows of a chunk that need logits: all if the request listens, else the one that a token is chosen
// from.
static int logits_for(const struct seq *seq, int n_tokens) {
    if (seq->on_logits) return n_tokens;
    const bool chooses = seq->n_done + n_tokens == seq->n_token && seq->n_token < seq->limit;
    return chooses ? 1 : 0;
}

static int min_int(int a, int b) { return a < b ? a : b; }

bool engine_schedule(struct engine *engine) {
    drop_cancelled(engine);
    admit(engine);
    int tokens_left = engine->batch_tokens, rows_left = engine->logit_rows;
    engine->n_work = 0;
    for (int i = 0; i < engine->max_seqs; i++) {
        if (!engine->slot[i]) continue;
        engine->work[engine->n_work++] =
            (struct work){.seq = engine->slot[i], .slot = i, .n_tokens = 1};
        tokens_left--;
        rows_left--;
    }
    for (int i = 0; i < engine->n_work; i++) {
        struct work *work = &engine->work[i];
        struct seq *seq = work->seq;
        int extra = min_int(seq->n_token - seq->n_done - 1, tokens_left);
        if (seq->on_logits) extra = min_int(extra, rows_left);
        work->n_tokens += extra;
        tokens_left -= extra;
        if (seq->on_logits) rows_left -= extra;
        work->n_logits = logits_for(seq, work->n_tokens);
        work->samples = seq->n_done + work->n_tokens == seq->n_token && seq->n_token < seq->limit;
        kv_grow(&engine->kv, &seq->table, seq->n_done + work->n_tokens);
    }
    assert(tokens_left >= 0 && rows_left >= 0);
    return engine->n_work > 0;
}

// Before the schedule: the shapes of running sequences follow their texts, and the masks of their
// next tokens are made, as many as a step has units of work for. A mask that needs more is left to
// the maker (../choice/mask_maker.h). A sequence whose mask is not there gets no row for it: it
// waits alone, and the step runs without it.
//
// A sequence whose last masks were expensive gets no units for its next few ones: these are found,
// or go to the maker at once. So it leaves the units to others. Where no sequence has anything else
// to do than to wait for its mask, the step's threads make them, too, for a few milliseconds.
#include <assert.h>

#include "engine/step/engine.h"

enum {
    STEP_UNITS = 1 << 17, // of all masks of a step: a fraction of a millisecond
    IDLE_UNITS = 1 << 20, // the same where nothing else can run
    MASK_SHARE = 2,       // one mask gets at most the half
    COSTLY_MASKS = 8,     // after an expensive one
};

// Whether its next step that reads its last known token chooses one.
static bool wants_mask(const struct seq *seq) {
    return seq->choices.shape && !seq->is_paused && seq->n_token < seq->limit &&
           seq->mask_at != seq->n_token;
}

bool engine_has_mask(const struct seq *seq) {
    return !seq->choices.shape || seq->mask_at == seq->n_token;
}

// ---------------------------------------------------------------- the maker

static enum mask_state order_state(const struct seq *seq) {
    return atomic_load_explicit(&seq->choices.shape->order[seq->choices.index].state,
                                memory_order_acquire);
}

static void order(struct engine *engine, struct seq *seq) {
    seq->is_ordered = true;
    seq->choices.n_costly = COSTLY_MASKS;
    engine->n_ordered++;
    engine->n_masks_ordered++;
    mask_maker_order(&engine->maker, seq->choices.shape, seq->choices.index);
}

// Whether no order of the sequence is under way any more.
static bool order_lands(struct engine *engine, struct seq *seq) {
    if (!seq->is_ordered) return true;
    if (order_state(seq) != MASK_MADE) return false;
    seq->is_ordered = false;
    engine->n_ordered--;
    return true;
}

void engine_leave_mask(struct engine *engine, struct seq *seq) {
    if (!seq->is_ordered) return;
    atomic_store(&seq->choices.shape->order[seq->choices.index].is_dropped, true);
    seq->is_ordered = false;
    engine->n_ordered--;
}

// ---------------------------------------------------------------- the step

static void prepare_some(void *ctx, int64_t begin, int64_t end, int worker) {
    struct engine *engine = ctx;
    for (int64_t i = begin; i < end; i++) {
        struct seq *seq = engine->unmasked[i];
        const bool is_made =
            choice_prepare(&engine->scratch[worker], &seq->choices, seq->n_token, &seq->is_shaped);
        if (is_made) seq->mask_at = seq->n_token;
    }
}

static void prepare_all(struct engine *engine, int n, int64_t units, int64_t most) {
    atomic_store_explicit(&engine->units.left, units, memory_order_relaxed);
    engine->units.most = most;
    if (n > 1)
        pool_run(engine->pool, prepare_some, engine, n, 1);
    else
        prepare_some(engine, 0, n, 0);
}

// Whether some sequence has rows for a step, or had them for one in flight.
static bool can_run(const struct engine *engine) {
    for (int i = 0; i < engine->n_running; i++) {
        const struct seq *seq = engine->running[i];
        if (seq->is_paused) continue;
        if (engine_has_mask(seq) || seq_known(seq) - seq_next(seq) > 1 + seq->n_again) return true;
    }
    return engine->n_flight > 0;
}

// Sequences without their masks, from another one on in each step, so that all of them get units.
static int find_unmasked(struct engine *engine) {
    int n = 0;
    for (int i = 0; i < engine->n_running; i++) {
        const int at =
            (i + (int)(engine->n_prepared % (unsigned)engine->n_running)) % engine->n_running;
        struct seq *seq = engine->running[at];
        if (seq->choices.shape && order_lands(engine, seq) && wants_mask(seq))
            engine->unmasked[n++] = seq;
    }
    return n;
}

void engine_prepare(struct engine *engine) {
    const int64_t units = engine->mask_units ? engine->mask_units : STEP_UNITS;
    const int n = find_unmasked(engine);
    // a preempted sequence waits with its order, and the engine is busy as long as one is under way
    if (engine->n_ordered > 0 && !can_run(engine))
        for (int i = 0; i < engine->n_waiting; i++) order_lands(engine, engine->waiting[i].seq);
    engine->n_prepared++;
    engine->is_behind = false;
    prepare_all(engine, n, units, 1 + units / MASK_SHARE);
    if (n > 0 && !engine->mask_units && !can_run(engine)) {
        for (int i = 0; i < n; i++) engine->unmasked[i]->choices.n_costly = 0;
        prepare_all(engine, n, IDLE_UNITS, IDLE_UNITS);
    }
    for (int i = 0; i < n; i++) {
        struct seq *seq = engine->unmasked[i];
        if (seq->mask_at == seq->n_token) {
            seq->choices.n_costly -= seq->choices.n_costly > 0;
        } else if (seq->is_shaped) {
            order(engine, seq);
        } else {
            engine->is_behind = true; // its turn comes in another step
        }
    }
}

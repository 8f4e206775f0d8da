// Before the schedule: the shapes of running sequences follow their texts, and the masks of their
// next tokens are made, as many as a step has units of work for. A mask that needs more is left to
// the maker (../choice/mask_maker.h). A sequence whose mask is not there gets no row for it: it
// waits alone, and the step runs without it.
//
// A sequence whose last masks were expensive gets no units for its next few ones: these are found,
// or go to the maker at once. So it leaves the units to others. Where all that runs is one request,
// nobody else waits for a step, and its masks may take longer.
#include <assert.h>

#include "engine/step/engine.h"

enum {
    STEP_UNITS = 1 << 16,  // of all masks of a step: a fraction of a millisecond
    ALONE_UNITS = 1 << 20, // of the masks of one request that runs alone
    MASK_SHARE = 4,        // one mask gets at most the fourth part
    COSTLY_MASKS = 8,      // after an expensive one
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
        if (engine->units.most == ALONE_UNITS) seq->choices.n_costly = 0;
        const bool is_made =
            choice_prepare(&engine->scratch[worker], &seq->choices, seq->n_token, &seq->is_shaped);
        if (is_made) seq->mask_at = seq->n_token;
    }
}

// Whether all running sequences belong to one request.
static bool is_alone(const struct engine *engine) {
    for (int i = 1; i < engine->n_running; i++)
        if (engine->running[i]->family != engine->running[0]->family) return false;
    return true;
}

static void begin_units(struct engine *engine) {
    const int64_t units = engine->mask_units ? engine->mask_units
                          : is_alone(engine) ? ALONE_UNITS
                                             : STEP_UNITS;
    atomic_store_explicit(&engine->units.left, units, memory_order_relaxed);
    engine->units.most = is_alone(engine) ? units : 1 + units / MASK_SHARE;
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
    begin_units(engine);
    const int n = find_unmasked(engine);
    engine->n_prepared++;
    engine->is_behind = false;
    if (n > 1)
        pool_run(engine->pool, prepare_some, engine, n, 1);
    else
        prepare_some(engine, 0, n, 0);
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

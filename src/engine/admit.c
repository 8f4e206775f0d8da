// The first half of the schedule: what other threads left (new sequences, cancels, pauses), whose
// time is up, and who may run. In the order of priority, of the user who was served least, and of
// age, a waiting sequence is admitted when there is a place and its pages fit beside those that the
// running ones will want next; nobody overtakes one that does not fit yet. A sequence of higher
// priority takes the place and the pages of the most junior of a lower one.
#include <assert.h>
#include <string.h>

#include "engine/engine.h"

// ---------------------------------------------------------------- places

static void waiting_add(struct engine *engine, struct seq *seq) {
    assert(engine->n_waiting < engine->max_live);
    seq->state = SEQ_WAITING;
    engine->waiting[engine->n_waiting++] = seq;
    engine->blocked = false;
}

static struct seq *waiting_remove(struct engine *engine, int index) {
    struct seq *seq = engine->waiting[index];
    engine->waiting[index] = engine->waiting[--engine->n_waiting];
    intake_admitted(&engine->intake);
    return seq;
}

static bool is_senior(const struct seq *a, const struct seq *b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    return a->id != b->id ? a->id < b->id : a->choice < b->choice;
}

static void running_add(struct engine *engine, struct seq *seq) {
    int at = engine->n_running++;
    for (; at > 0 && is_senior(seq, engine->running[at - 1]); at--)
        engine->running[at] = engine->running[at - 1];
    engine->running[at] = seq;
    seq->state = SEQ_RUNNING;
}

struct seq *engine_running_remove(struct engine *engine, int index) {
    struct seq *seq = engine->running[index];
    engine->n_running--;
    memmove(engine->running + index, engine->running + index + 1,
            (size_t)(engine->n_running - index) * sizeof(struct seq *));
    engine->blocked = false;
    return seq;
}

void engine_preempt(struct engine *engine, int index) {
    struct seq *seq = engine_running_remove(engine, index);
    kv_release(engine->kv, &seq->table);
    seq->n_done = 0;
    seq->timings.preemptions++;
    engine->stats.preemptions++;
    intake_preempted(&engine->intake);
    waiting_add(engine, seq);
}

int engine_victim(const struct engine *engine, int from) {
    for (int i = engine->n_running - 1; i >= 0; i--)
        if (engine->running[i]->is_paused) return i;
    return engine->n_running > from ? engine->n_running - 1 : -1;
}

// ---------------------------------------------------------------- ends

static void end(struct engine *engine, struct seq *seq, bool cancelled) {
    engine_finish(engine, seq, engine_new_event(engine, seq),
                  cancelled ? RN_FINISH_CANCELLED : RN_FINISH_ERROR,
                  cancelled ? RN_ERR_CANCELLED : RN_ERR_DEADLINE);
}

static bool is_cancelled(const struct seq *seq) {
    return atomic_load_explicit(&seq->cancelled, memory_order_relaxed);
}

// One that goes on: other threads may change its flags in the middle of a step, which looks at
// them here alone.
static void look_at(struct engine *engine, struct seq *seq) {
    seq->is_paused = atomic_load_explicit(&seq->paused, memory_order_relaxed);
    if (seq->deadline_ns < engine->next_deadline) engine->next_deadline = seq->deadline_ns;
}

// Ends what was cancelled or is late, looks at who is paused, and finds the next deadline.
static void look_at_all(struct engine *engine, uint64_t now) {
    engine->next_deadline = UINT64_MAX;
    for (int i = engine->n_running - 1; i >= 0; i--) {
        struct seq *seq = engine->running[i];
        const bool cancelled = is_cancelled(seq);
        if (cancelled || seq->deadline_ns <= now)
            end(engine, engine_running_remove(engine, i), cancelled);
        else
            look_at(engine, seq);
    }
    for (int i = engine->n_waiting - 1; i >= 0; i--) {
        struct seq *seq = engine->waiting[i];
        const bool cancelled = is_cancelled(seq);
        if (cancelled || seq->deadline_ns <= now)
            end(engine, waiting_remove(engine, i), cancelled);
        else
            look_at(engine, seq);
    }
    engine->blocked = false;
}

static void take_new(struct engine *engine) {
    for (struct seq *seq = intake_take(&engine->intake), *next; seq; seq = next) {
        next = seq->next;
        seq->next = NULL;
        seq->user_at = users_enter(&engine->users, seq->user);
        waiting_add(engine, seq);
        look_at(engine, seq);
        engine->stats.submitted++;
        engine->stats.prompt_tokens += (uint64_t)seq->n_prompt;
    }
}

// ---------------------------------------------------------------- admission

bool engine_goes_first(const struct engine *engine, const struct seq *a, const struct seq *b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    const uint64_t served_a = users_served(&engine->users, a->user_at);
    const uint64_t served_b = users_served(&engine->users, b->user_at);
    return served_a != served_b ? served_a < served_b : is_senior(a, b);
}

// The running choice of the same request whose prompt is evaluated, for one that has not begun.
static const struct seq *leader_of(const struct seq *seq) {
    const struct seq *leader = seq->was_admitted ? NULL : seq->family->leader;
    return leader && leader->state == SEQ_RUNNING && leader->n_done >= seq->n_prompt - 1 ? leader
                                                                                         : NULL;
}

// Choices wait until the first has evaluated their prompt.
static bool is_ready(const struct seq *seq) {
    if (seq->is_paused) return false;
    const bool follows = seq->choice > 0 && !seq->was_admitted && seq->family->leader;
    return !follows || leader_of(seq);
}

static int waiting_best(const struct engine *engine) {
    int best = -1;
    for (int i = 0; i < engine->n_waiting; i++)
        if (is_ready(engine->waiting[i]) &&
            (best < 0 || engine_goes_first(engine, engine->waiting[i], engine->waiting[best])))
            best = i;
    return best;
}

// What of the sequence's tokens is there already; true when it was found, not shared by a choice.
static bool table_begin(struct engine *engine, struct seq *seq) {
    seq->n_done = 0;
    if (seq->embedding) memset(seq->embedding, 0, (size_t)engine->n_embd * sizeof(float));
    const struct seq *leader = seq->choice > 0 ? leader_of(seq) : NULL;
    if (leader && seq->n_prompt > 1)
        seq->n_done = kv_fork(engine->kv, &leader->table, &seq->table, seq->n_prompt - 1);
    // who wants the result of every position finds nothing, but can be found by others
    const int n_find = engine_wants_all(seq) ? 1 : seq->n_token;
    if (seq->n_done > 0) return false;
    seq->n_done = kv_hit(engine->kv, &seq->table, seq->token, n_find, seq->salt, seq->n_salt);
    return seq->n_done > 0;
}

// Whether its known tokens and one more fit beside what is held and the next page of everyone.
static bool table_fits(const struct engine *engine, const struct seq *seq) {
    if (engine->n_running == 0) return true;
    const struct kv_config *config = &engine->kv_config;
    const int n = seq->n_token < seq->limit ? seq->n_token + 1 : seq->n_token;
    uint64_t need = kv_need(config, n, n < engine->batch_tokens ? n : engine->batch_tokens);
    uint64_t have = 0;
    for (int g = 0; g < config->n_group; g++) {
        have += (seq->table.n_page - seq->table.first[g]) * config->group[g].page_bytes;
        need += (uint64_t)engine->n_running * config->group[g].page_bytes;
    }
    struct kv_stats stats;
    kv_get_stats(engine->kv, &stats);
    return need <= stats.budget - stats.held_bytes + have;
}

// Somebody who has to make way for it: a paused one, or one of lower priority.
static bool make_way(struct engine *engine, const struct seq *seq) {
    const int victim = engine_victim(engine, 0);
    if (victim < 0) return false;
    const struct seq *other = engine->running[victim];
    if (!other->is_paused && other->priority >= seq->priority) return false;
    engine_preempt(engine, victim);
    return true;
}

static void start(struct engine *engine, struct seq *seq, bool found, uint64_t now) {
    users_chosen(&engine->users, seq->user_at);
    running_add(engine, seq);
    if (seq->was_admitted) return;
    seq->was_admitted = true;
    seq->start_ns = now;
    seq->timings.cached_tokens = seq->n_done;
    engine->stats.cached_tokens += (uint64_t)seq->n_done;
    engine->stats.lookups++;
    engine->stats.hits += found;
}

static void admit(struct engine *engine, uint64_t now) {
    while (engine->n_waiting > 0 && !engine->blocked) {
        const int index = waiting_best(engine);
        if (index < 0) return;
        struct seq *seq = engine->waiting[index];
        if (engine->n_running == engine->max_seqs && !make_way(engine, seq)) {
            engine->blocked = true;
            return;
        }
        const bool found = table_begin(engine, seq);
        while (!table_fits(engine, seq))
            if (!make_way(engine, seq)) {
                kv_release(engine->kv, &seq->table);
                seq->n_done = 0;
                engine->blocked = true;
                return;
            }
        // preempted ones were put behind, so the index still holds
        waiting_remove(engine, index);
        start(engine, seq, found, now);
    }
}

void engine_admit(struct engine *engine) {
    const uint64_t now = engine_now(engine);
    if (atomic_exchange_explicit(&engine->forget, false, memory_order_relaxed))
        kv_forget_prefixes(engine->kv);
    take_new(engine); // before the flags: a cancel follows its submit
    if (intake_take_flag(&engine->intake) || now >= engine->next_deadline) look_at_all(engine, now);
    admit(engine, now);
}

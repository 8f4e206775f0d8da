// The first half of the schedule: new sequences, cancels and pauses of other threads, deadlines,
// and admission. Waiting sequences are admitted by priority, then by least served user, then by
// age. A sequence is admitted when there is a place and its pages fit beside the pages that the
// running ones will want next. Admission is in order: a sequence that does not fit blocks those
// behind it. A sequence of higher priority takes the place and the pages of the most junior
// sequence of a lower one.
#include <assert.h>
#include <string.h>

#include "engine/step/promise.h"

enum {
    MAX_TURNS = 128, // that one pass over the waiting sequences finds
    PROMPT_END = 8,  // tokens of a prompt that the next turn may not share
    LOOK_STEPS = 8,  // from one look at the waiting sequences to the next, without a change
};

// ---------------------------------------------------------------- places

static struct turn turn_of(const struct seq *seq) {
    return (struct turn){.id = seq->id,
                         .choice = seq->choices.index,
                         .priority = seq->priority,
                         .user_at = seq->user_at};
}

static void waiting_add(struct engine *engine, struct seq *seq) {
    assert(engine->n_waiting < engine->max_live);
    seq->state = SEQ_WAITING;
    seq->waiting_at = engine->n_waiting++;
    engine->waiting[seq->waiting_at] =
        (struct waiter){.seq = seq,
                        .turn = turn_of(seq),
                        .is_paused = seq->is_paused,
                        .follows = seq->choices.index > 0 && !seq->was_admitted,
                        .is_unchecked =
                            seq->bound && !seq->bound->is_checked && seq->choices.index == 0};
    engine_wait_begin(engine, seq);
    engine_changed(engine, CHANGE_WAITING);
}

static void waiting_remove(struct engine *engine, const struct seq *seq) {
    const struct waiter last = engine->waiting[--engine->n_waiting];
    engine->waiting[seq->waiting_at] = last;
    last.seq->waiting_at = seq->waiting_at;
    intake_admitted(&engine->intake);
}

static bool is_older(const struct turn *a, const struct turn *b) {
    return a->id != b->id ? a->id < b->id : a->choice < b->choice;
}

static bool is_senior(const struct seq *a, const struct seq *b) {
    const struct turn x = turn_of(a), y = turn_of(b);
    return x.priority != y.priority ? x.priority > y.priority : is_older(&x, &y);
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
    engine_changed(engine, CHANGE_RUNNING);
    return seq;
}

void engine_preempt(struct engine *engine, int index, uint64_t request) {
    struct seq *seq = engine_running_remove(engine, index);
    assert(engine->n_flight == 0);
    draft_leave(engine->draft, seq, false);
    if (!engine_fetch_leave(engine, seq))
        kv_retire(engine->kv, &seq->table, seq->token, seq->n_done);
    engine_charge_until(engine, seq, engine->event_ns, &seq->account);
    seq->account.open.preempt_request = request;
    if (seq->n_done > seq->n_lost) seq->n_lost = seq->n_done;
    seq->n_done = seq->n_again = 0;
    seq->is_starved = false;
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

static void end(struct engine *engine, struct seq *seq, rn_status status) {
    const rn_finish finish = status == RN_ERR_CANCELLED ? RN_FINISH_CANCELLED : RN_FINISH_ERROR;
    output_begin(&seq->output);
    engine_finish(engine, seq, engine_new_event(engine, seq), finish, status);
}

// A cancel or a deadline that ends it now; RN_OK: none does.
static rn_status end_of(const struct seq *seq, uint64_t now) {
    if (atomic_load_explicit(&seq->cancelled, memory_order_relaxed)) return RN_ERR_CANCELLED;
    return seq->deadline_ns <= now ? RN_ERR_DEADLINE : RN_OK;
}

// Takes the flags of a sequence that has not ended. Other threads may change them in the middle of
// a step, which reads them here alone.
static void look_at(struct engine *engine, struct seq *seq) {
    const bool is_paused = atomic_load_explicit(&seq->paused, memory_order_relaxed);
    if (is_paused != seq->is_paused)
        engine_charge_until(engine, seq, engine->event_ns, &seq->account);
    seq->is_paused = is_paused;
    if (seq->state == SEQ_WAITING) engine->waiting[seq->waiting_at].is_paused = seq->is_paused;
    if (seq->deadline_ns < engine->next_deadline) engine->next_deadline = seq->deadline_ns;
}

// Ends sequences that were cancelled or are late, takes the flags of the others, and finds the next
// deadline.
static void look_at_all(struct engine *engine, uint64_t now) {
    engine->next_deadline = UINT64_MAX;
    for (int i = engine->n_running - 1; i >= 0; i--) {
        struct seq *seq = engine->running[i];
        const rn_status status = end_of(seq, now);
        if (status)
            end(engine, engine_running_remove(engine, i), status);
        else
            look_at(engine, seq);
    }
    for (int i = engine->n_waiting - 1; i >= 0; i--) {
        struct seq *seq = engine->waiting[i].seq;
        const rn_status status = end_of(seq, now);
        if (status) {
            waiting_remove(engine, seq);
            end(engine, seq, status);
        } else {
            look_at(engine, seq);
        }
    }
    engine_changed(engine, CHANGE_FLAGS);
}

void engine_take_new(struct engine *engine) {
    for (struct seq *seq = intake_take(&engine->intake), *next; seq; seq = next) {
        next = seq->next;
        seq->next = NULL;
        seq->user_at = users_enter(&engine->users, seq->user);
        waiting_add(engine, seq);
        engine_bound_enter(engine, seq);
        // the step that ran when it came is the last one now, and will not be later
        engine_charge_until(engine, seq, engine->laps.end_ns, &seq->account);
        look_at(engine, seq);
        engine->stats.submitted++;
        engine->stats.prompt_tokens += (uint64_t)seq->n_prompt;
    }
}

void engine_end_all(struct engine *engine, rn_status status) {
    const int first = engine->n_event;
    engine->event_ns = engine_now(engine);
    while (engine->n_running > 0)
        end(engine, engine_running_remove(engine, engine->n_running - 1), status);
    while (engine->n_waiting > 0) {
        struct seq *seq = engine->waiting[engine->n_waiting - 1].seq;
        waiting_remove(engine, seq);
        end(engine, seq, status);
    }
    for (int i = first; status == RN_ERR_IO && i < engine->n_event; i++)
        engine->event[i].reason = engine->fault.message; // which file, and what changed
}

void engine_refuse(struct engine *engine, const struct seq *seq, rn_finish finish, rn_status status,
                   const char *reason) {
    const uint64_t id = seq->id;
    for (int i = engine->n_waiting - 1; i >= 0; i--) {
        struct seq *choice = engine->waiting[i].seq;
        if (choice->id != id) continue;
        waiting_remove(engine, choice);
        output_begin(&choice->output);
        rn_event *event = engine_new_event(engine, choice);
        engine_finish(engine, choice, event, finish, status);
        event->reason = reason;
    }
}

// ---------------------------------------------------------------- admission

static bool goes_first(const struct engine *engine, const struct turn *a, const struct turn *b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    const uint64_t served_a = users_served(&engine->users, a->user_at);
    const uint64_t served_b = users_served(&engine->users, b->user_at);
    return served_a != served_b ? served_a < served_b : is_older(a, b);
}

bool engine_goes_first(const struct engine *engine, const struct seq *a, const struct seq *b) {
    const struct turn x = turn_of(a), y = turn_of(b);
    return goes_first(engine, &x, &y);
}

// Heaps: the sequence at `at` sinks until it goes before those below it.
static void turns_sift(const struct engine *engine, struct seq **list, int n, int at) {
    for (int child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && engine_goes_first(engine, list[child + 1], list[child])) child++;
        if (!engine_goes_first(engine, list[child], list[at])) return;
        struct seq *const seq = list[at];
        list[at] = list[child];
        list[child] = seq;
    }
}

void engine_turns_init(const struct engine *engine, struct seq **list, int n) {
    for (int at = n / 2 - 1; at >= 0; at--) turns_sift(engine, list, n, at);
}

void engine_turns_pop(const struct engine *engine, struct seq **list, int n) {
    struct seq *const first = list[0];
    list[0] = list[n - 1];
    list[n - 1] = first;
    turns_sift(engine, list, n - 1, 0);
}

// For a sequence that was never admitted: the running choice of its request that has evaluated the
// prompt. NULL: there is none.
static const struct seq *leader_of(const struct seq *seq) {
    const struct seq *leader = seq->was_admitted ? NULL : seq->family->leader;
    return leader && leader->state == SEQ_RUNNING && leader->n_done >= seq->n_prompt - 1 ? leader
                                                                                         : NULL;
}

// Choices wait until the first has evaluated their prompt.
static bool is_ready(const struct waiter *waiter) {
    if (waiter->is_paused || waiter->is_unchecked) return false;
    return !waiter->follows || !waiter->seq->family->leader || leader_of(waiter->seq);
}

// The next ready sequences in turn, in order, at most `most`; returns their number.
static int next_in_turn(const struct engine *engine, struct seq **out, int most) {
    const struct waiter *next[MAX_TURNS];
    int n = 0;
    for (int i = 0; i < engine->n_waiting; i++) {
        const struct waiter *waiter = &engine->waiting[i];
        if (!is_ready(waiter)) continue;
        if (n == most && !goes_first(engine, &waiter->turn, &next[n - 1]->turn)) continue;
        int at = n < most ? n++ : n - 1;
        for (; at > 0 && goes_first(engine, &waiter->turn, &next[at - 1]->turn); at--)
            next[at] = next[at - 1];
        next[at] = waiter;
    }
    for (int i = 0; i < n; i++) out[i] = next[i]->seq;
    return n;
}

bool engine_table_begin(struct engine *engine, struct seq *seq) {
    seq->n_done = 0;
    if (seq->embedding) memset(seq->embedding, 0, (size_t)engine->n_embd * sizeof(float));
    const struct seq *leader = seq->choices.index > 0 ? leader_of(seq) : NULL;
    if (leader && seq->n_prompt > 1)
        seq->n_done =
            kv_fork(engine->kv, &leader->table, seq_next(leader), &seq->table, seq->n_prompt - 1);
    // positions whose result is wanted are no part of the prefix that it takes; it registers them
    const int wanted = engine_wanted_from(seq);
    const int n_find = wanted < seq->n_token ? wanted + 1 : seq->n_token;
    const bool forked = seq->n_done > 0;
    if (!forked)
        seq->n_done = kv_hit(engine->kv, &seq->table, seq->token, n_find, seq->salt, seq->n_salt);
    // the next turn has another end: templates change the last tokens of a prompt
    kv_keep(&seq->table, seq->n_prompt - PROMPT_END);
    return !forked && seq->n_done > 0;
}

// ---------------------------------------------------------------- room

// What its known tokens and n_more take together.
static struct kv_amount needed_by(const struct engine *engine, const struct seq *seq, int n_more) {
    const int left = seq->limit - seq->n_token, n = seq->n_token + (n_more < left ? n_more : left);
    const int rest = n - seq->n_done;
    return kv_need_amount(&engine->kv_config, n,
                          rest < engine->batch_tokens ? rest : engine->batch_tokens);
}

static struct kv_amount held_by(const struct engine *engine, const struct seq *seq) {
    return kv_table_amount(&engine->kv_config, &seq->table);
}

uint64_t engine_page_holder(const struct engine *engine, uint64_t except) {
    uint64_t most = 0, request = 0;
    for (int i = 0; i < engine->n_running; i++) {
        const struct seq *seq = engine->running[i];
        const uint64_t bytes =
            seq->id == except ? 0 : kv_table_bytes(&engine->kv_config, &seq->table);
        if (bytes <= most) continue;
        most = bytes;
        request = seq->id;
    }
    return request;
}

// What a running sequence will want: the rest of its prompt, at least the next page of each group.
// Without this, a new sequence would take the pages that a prompt in progress needs. Where groups
// have memory of their own, none of a group that gives a page back for each that it takes.
static struct kv_amount promised_to(const struct engine *engine, const struct seq *seq) {
    const struct kv_config *config = &engine->kv_config;
    const struct kv_amount held = held_by(engine, seq);
    const struct kv_amount later = needed_by(engine, seq, KV_PAGE_TOKENS);
    struct kv_amount want = needed_by(engine, seq, 1);
    uint64_t page_bytes = 0;
    kv_amount_take(&want, &held);
    for (int g = 0; g < config->n_group; g++) {
        page_bytes += config->group[g].page_bytes;
        if (want.pages[g] == 0 && later.pages[g] > held.pages[g]) want.pages[g] = 1;
    }
    if (want.bytes < page_bytes) want.bytes = page_bytes;
    return want;
}

static struct kv_amount promised_to_all(const struct engine *engine) {
    struct kv_amount sum = {0};
    for (int i = 0; i < engine->n_running; i++) {
        const struct kv_amount promised = promised_to(engine, engine->running[i]);
        kv_amount_add(&sum, &promised);
    }
    return sum;
}

// Room for a sequence: beside the held pages, and its own.
static struct kv_amount room_for(const struct engine *engine, const struct seq *seq) {
    struct kv_amount held, room;
    const struct kv_amount own = held_by(engine, seq);
    kv_get_amounts(engine->kv, &held, &room);
    kv_amount_take(&room, &held);
    kv_amount_add(&room, &own);
    return room;
}

static bool needs_fit(const struct engine *engine, const struct seq *seq,
                      const struct kv_amount *promised, const struct kv_amount *room) {
    struct kv_amount wanted = needed_by(engine, seq, 1);
    kv_amount_add(&wanted, promised);
    return kv_amount_fits(&wanted, room);
}

// Whether there is a place for it, and its pages fit beside the held and promised ones.
static bool has_room(const struct engine *engine, const struct seq *seq,
                     const struct kv_amount *promised) {
    if (engine->n_running == 0) return true;
    if (engine->n_running == engine->max_seqs) return false;
    const struct kv_amount room = room_for(engine, seq);
    return needs_fit(engine, seq, promised, &room);
}

// Whether `other` makes way for it: a paused sequence, or one of lower priority.
static bool makes_way(const struct seq *other, const struct seq *seq) {
    return other->is_paused || other->priority < seq->priority;
}

// Whether it has room once every sequence that may make way did, so that none does in vain. Pages
// that those share are counted more than once, so a yes may be wrong; a no is right.
static bool could_have_room(const struct engine *engine, const struct seq *seq,
                            const struct kv_amount *promised) {
    struct kv_amount room = room_for(engine, seq), staying = *promised;
    int n_staying = 0;
    for (int i = 0; i < engine->n_running; i++) {
        const struct seq *other = engine->running[i];
        if (makes_way(other, seq)) {
            const struct kv_amount its = held_by(engine, other), want = promised_to(engine, other);
            kv_amount_add(&room, &its);
            kv_amount_take(&staying, &want);
        } else {
            n_staying++;
        }
    }
    if (n_staying == 0) return true;
    return n_staying < engine->max_seqs && needs_fit(engine, seq, &staying, &room);
}

// Whether all places are taken by sequences that need not make way.
static bool is_full_for(const struct engine *engine, const struct seq *seq) {
    if (engine->n_running < engine->max_seqs) return false;
    return !makes_way(engine->running[engine_victim(engine, 0)], seq);
}

static bool make_room(struct engine *engine, const struct seq *seq, struct kv_amount *promised) {
    if (has_room(engine, seq, promised)) return true;
    if (!could_have_room(engine, seq, promised)) return false;
    engine->land_first = engine->n_flight > 0;
    if (engine->land_first) return false;
    while (!has_room(engine, seq, promised)) {
        const int victim = engine_victim(engine, 0);
        if (victim < 0 || !makes_way(engine->running[victim], seq)) return false;
        const struct kv_amount want = promised_to(engine, engine->running[victim]);
        kv_amount_take(promised, &want);
        engine_preempt(engine, victim, seq->id);
    }
    return true;
}

static void start(struct engine *engine, struct seq *seq, bool found, uint64_t now) {
    engine_charge_until(engine, seq, now, &seq->account);
    users_chosen(&engine->users, seq->user_at);
    running_add(engine, seq);
    seq->n_fetches = 0;
    if (seq->was_admitted) return;
    seq->was_admitted = true;
    seq->account.sum.start_ns = now;
    if (seq->choices.index == 0) {
        seq->family->start_ns = now;
        seq->family->waited = seq->account.open;
    }
    seq->timings.cached_tokens = seq->n_done;
    engine->stats.cached_tokens += (uint64_t)seq->n_done;
    engine->stats.lookups++;
    engine->stats.hits += found;
}

// Whether less of its prompt is cached or stored than it asked for. A choice that follows another
// has its prompt.
static bool lacks_cache(struct engine *engine, const struct seq *seq) {
    if (seq->was_admitted || seq->choices.index > 0) return false;
    const double least = seq->cache_share * seq->n_prompt;
    return seq->n_done < least && engine_stored(engine, seq) < least;
}

// Admits it; false: it does not fit, and every sequence behind it waits too, for what *block says.
static bool admit_one(struct engine *engine, struct seq *seq, uint64_t now,
                      struct kv_amount *promised, enum account_block *block) {
    *block = ACCOUNT_PLACES;
    if (is_full_for(engine, seq)) return false; // spares the search for its prefix
    if (!engine_keeps_promises(engine, seq)) return false;
    const bool found = engine_table_begin(engine, seq);
    if (lacks_cache(engine, seq)) {
        kv_release(engine->kv, &seq->table);
        seq->timings.cached_tokens = seq->n_done;
        seq->n_done = 0;
        engine_refuse(engine, seq, RN_FINISH_CACHE, RN_OK, NULL);
        *block = ACCOUNT_BLOCKS;
        return true;
    }
    if (!make_room(engine, seq, promised)) {
        kv_release(engine->kv, &seq->table);
        seq->n_done = 0;
        if (engine->n_running < engine->max_seqs) *block = ACCOUNT_PAGES;
        return false;
    }
    *block = ACCOUNT_BLOCKS;
    waiting_remove(engine, seq);
    start(engine, seq, found, now);
    const struct kv_amount want = promised_to(engine, seq);
    kv_amount_add(promised, &want);
    return true;
}

// After a change, and now and then. Running sequences give pages back as they go on, and evaluate
// blocks that a waiting one shares. Such room has no change of its own: most of it serves nobody.
static bool is_to_look(struct engine *engine) {
    if (engine->n_waiting == 0) return false;
    return engine->changes || ++engine->n_unlooked >= LOOK_STEPS;
}

// In turn, as many as there are places for, and one more that may take another's place. A sequence
// that was preempted meanwhile may go before the next, and an admitted choice may have made others
// ready. So the turns are looked at again until no sequence is ready or one does not fit.
static void admit(struct engine *engine, uint64_t now) {
    if (engine->n_waiting == 0) engine_block(engine, ACCOUNT_BLOCKS, now);
    if (!is_to_look(engine)) return;
    struct kv_amount promised = promised_to_all(engine);
    enum account_block block = ACCOUNT_BLOCKS;
    for (bool fits = true; fits;) {
        struct seq *next[MAX_TURNS];
        const int places = engine->max_seqs - engine->n_running;
        const int n = next_in_turn(engine, next, places + 1 < MAX_TURNS ? places + 1 : MAX_TURNS);
        const uint64_t preemptions = engine->stats.preemptions;
        fits = n > 0;
        for (int i = 0; i < n && fits && engine->stats.preemptions == preemptions; i++)
            fits = admit_one(engine, next[i], now, &promised, &block);
    }
    engine_block(engine, block, now);
    if (block == ACCOUNT_PAGES) engine->page_holder = engine_page_holder(engine, 0);
    engine->changes = 0;
    engine->n_unlooked = 0;
}

void engine_admit(struct engine *engine) {
    if (atomic_exchange_explicit(&engine->forget, false, memory_order_relaxed)) {
        kv_forget_prefixes(engine->kv);
        draft_forget(engine->draft);
    }
    kv_meet_store(engine->kv);
    engine_take_new(engine);                 // before the flags: a cancel follows its submit
    const uint64_t now = engine_now(engine); // not before any submit
    engine->event_ns = now;
    if (intake_take_flag(&engine->intake) || now >= engine->next_deadline) look_at_all(engine, now);
    engine_check_bounds(engine, now);
    admit(engine, now);
}

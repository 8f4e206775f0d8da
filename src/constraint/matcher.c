// Configurations, steps and the history. masks.c computes masks.
#include "constraint/matcher.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    FRAMES_MAX = 1 << 20,     // of one choice
    CLOSURE_MAX = 1 << 12,    // frames that one byte leads to; frames without bytes are among them
    COLLECT_FRAMES = 1 << 15, // no collection before
    FRAME_UNITS = 8,          // of work, for a frame that is looked at: it is found in a table
};

const char matcher_too_ambiguous[] = "the constraint is too ambiguous for this text";
const char matcher_out_of_memory[] = "out of memory for a constraint";
// The same text: a text with too many frames is tried again without the unused ones.
static const char too_many_frames[] = "the constraint is too ambiguous for this text";

static uint32_t fail(struct matcher *m, const char *why) {
    if (!m->failure) m->failure = why;
    return 0;
}

// Room for `wanted` elements; NULL: out of memory, and the old array is still there.
static void *grow(struct matcher *m, void *array, uint32_t *capacity, uint32_t wanted,
                  size_t size) {
    if (wanted <= *capacity) return array;
    uint32_t next = *capacity ? *capacity : 64;
    while (next < wanted) next *= 2;
    void *grown = realloc(array, next * size);
    if (!grown) {
        fail(m, matcher_out_of_memory);
        return NULL;
    }
    *capacity = next;
    return grown;
}

static bool numbers_grow(struct matcher *m, uint32_t **array, uint32_t *capacity, uint32_t wanted) {
    uint32_t *grown = grow(m, *array, capacity, wanted, sizeof **array);
    if (grown) *array = grown;
    return grown;
}

static bool frames_grow(struct matcher *m, uint32_t wanted) {
    struct frame *grown = grow(m, m->frame, &m->frame_capacity, wanted, sizeof *grown);
    if (grown) m->frame = grown;
    return grown;
}

static bool sets_grow(struct matcher *m, uint32_t wanted) {
    struct frame_set *grown = grow(m, m->set, &m->set_capacity, wanted, sizeof *grown);
    if (grown) m->set = grown;
    return grown;
}

// --- frames and sets, each once ---

static uint32_t hash_frame(struct frame f) {
    uint64_t h = ((uint64_t)f.parent << 32 | f.state) * 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 29 ^ f.count ^ (uint64_t)f.guard << 32) * 0xBF58476D1CE4E5B9u;
    return (uint32_t)(h >> 32);
}

static void frames_enter(const struct matcher *m, uint32_t *slot, uint32_t n_slot) {
    for (uint32_t i = 1; i < m->n_frame; i++) {
        uint32_t at = hash_frame(m->frame[i]) & (n_slot - 1);
        while (slot[at]) at = (at + 1) & (n_slot - 1);
        slot[at] = i;
    }
}

static bool frames_rehash(struct matcher *m, uint32_t n_slot) {
    uint32_t *slot = calloc(n_slot, sizeof *slot);
    if (!slot) return fail(m, matcher_out_of_memory);
    frames_enter(m, slot, n_slot);
    free(m->frame_slot);
    m->frame_slot = slot;
    m->n_frame_slot = n_slot;
    return true;
}

// Its number, without regard to its stamp; 0: failed.
static uint32_t frame_of(struct matcher *m, struct frame f) {
    uint32_t at = hash_frame(f) & (m->n_frame_slot - 1);
    for (; m->frame_slot[at]; at = (at + 1) & (m->n_frame_slot - 1)) {
        const struct frame *old = &m->frame[m->frame_slot[at]];
        if (old->state == f.state && old->count == f.count && old->parent == f.parent &&
            old->guard == f.guard)
            return m->frame_slot[at];
    }
    if (m->n_frame == FRAMES_MAX) return fail(m, too_many_frames);
    if (!frames_grow(m, m->n_frame + 1)) return 0;
    const uint32_t id = m->n_frame++;
    m->frame[id] = f;
    m->frame[id].stamp = 0;
    m->frame_slot[at] = id;
    if (2 * m->n_frame > m->n_frame_slot && !frames_rehash(m, 2 * m->n_frame_slot)) return 0;
    return id;
}

static uint32_t hash_set(const uint32_t *frame, uint32_t n, bool can_end) {
    uint64_t h = n * 2 + can_end;
    for (uint32_t i = 0; i < n; i++) {
        h = (h ^ frame[i]) * 0x9FB21C651E98DF25u;
        h ^= h >> 29;
    }
    return (uint32_t)(h ^ h >> 32);
}

static void sets_enter(const struct matcher *m, uint32_t *slot, uint32_t n_slot) {
    for (uint32_t i = 1; i < m->n_set; i++) {
        const struct frame_set *s = &m->set[i];
        uint32_t at = hash_set(m->pool + s->at, s->n, s->can_end) & (n_slot - 1);
        while (slot[at]) at = (at + 1) & (n_slot - 1);
        slot[at] = i;
    }
}

static bool sets_rehash(struct matcher *m, uint32_t n_slot) {
    uint32_t *slot = calloc(n_slot, sizeof *slot);
    if (!slot) return fail(m, matcher_out_of_memory);
    sets_enter(m, slot, n_slot);
    free(m->set_slot);
    m->set_slot = slot;
    m->n_set_slot = n_slot;
    return true;
}

static int compare_u32(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

// The set of the closure that was found.
static uint32_t set_of_found(struct matcher *m) {
    const uint32_t n = m->n_found;
    if (m->failure || (n == 0 && !m->can_end)) return 0;
    if (n > 1) qsort(m->found, n, sizeof *m->found, compare_u32);
    uint32_t at = hash_set(m->found, n, m->can_end) & (m->n_set_slot - 1);
    for (; m->set_slot[at]; at = (at + 1) & (m->n_set_slot - 1)) {
        const struct frame_set *s = &m->set[m->set_slot[at]];
        if (s->n == n && s->can_end == m->can_end &&
            memcmp(m->pool + s->at, m->found, n * sizeof *m->found) == 0)
            return m->set_slot[at];
    }
    if (!numbers_grow(m, &m->pool, &m->pool_capacity, m->n_pool + n + 1) ||
        !sets_grow(m, m->n_set + 1))
        return 0;
    if (n) memcpy(m->pool + m->n_pool, m->found, n * sizeof *m->pool);
    const uint32_t id = m->n_set++;
    m->set[id] = (struct frame_set){m->n_pool, n, m->can_end};
    m->n_pool += n;
    m->set_slot[at] = id;
    if (2 * m->n_set > m->n_set_slot && !sets_rehash(m, 2 * m->n_set_slot)) return 0;
    return id;
}

// --- closures ---

void matcher_stamp(struct matcher *m) {
    if (++m->now) return;
    for (uint32_t i = 0; i < m->n_frame; i++) m->frame[i].stamp = 0;
    m->now = 1;
}

static void closure_begin(struct matcher *m) {
    matcher_stamp(m);
    m->n_todo = m->n_found = 0;
    m->can_end = false;
}

static void closure_add(struct matcher *m, struct frame f) {
    const uint32_t id = frame_of(m, f);
    if (!id || m->frame[id].stamp == m->now) return;
    m->frame[id].stamp = m->now;
    if (numbers_grow(m, &m->todo, &m->todo_capacity, m->n_todo + 1)) m->todo[m->n_todo++] = id;
}

// Whether a counted rule may end with this count.
static bool count_may_end(const struct machine_rule *rule, uint64_t count) {
    return (int64_t)count >= rule->min && (rule->max < 0 || (int64_t)count <= rule->max);
}

// The frames behind a frame: that it returns to, and those of its calls. A guard stays up to the
// next byte.
static void closure_leave(struct matcher *m, struct frame f) {
    const struct machine *machine = m->machine;
    const struct machine_rule *rule = &machine->rule[machine->rule_of[f.state]];
    const uint8_t flags = machine->flags[f.state];
    if ((flags & STATE_ACCEPT) && (!(flags & STATE_COUNTED) || count_may_end(rule, f.count))) {
        if (!f.parent) {
            m->can_end = true;
        } else {
            struct frame parent = m->frame[f.parent];
            parent.guard = rule->greedy ? f.state : f.guard;
            closure_add(m, parent);
        }
    }
    const uint32_t begin = machine->call_begin[f.state], end = machine->call_begin[f.state + 1];
    m->spent += (uint64_t)(end - begin) * FRAME_UNITS;
    for (uint32_t i = begin; i < end; i++) {
        const struct machine_call *call = &machine->call[i];
        // a call at the end of its rule returns where the rule does
        const struct frame back = {.state = call->to, .parent = f.parent};
        const uint32_t parent =
            machine->flags[call->to] & STATE_TAIL ? f.parent : frame_of(m, back);
        if (m->failure) return;
        closure_add(m, (struct frame){.state = machine->rule[call->rule].start,
                                      .parent = parent,
                                      .guard = f.guard});
    }
}

// Rules that may be empty call each other in a number of ways that doubles with each of them, and
// no frame of theirs has bytes, so visits are bounded, too.
static void closure_run(struct matcher *m) {
    for (uint32_t visits = 0; m->n_todo && !m->failure; visits++) {
        const uint32_t id = m->todo[--m->n_todo];
        const struct frame f = m->frame[id];
        const uint8_t flags = m->machine->flags[f.state];
        const bool has_bytes = (flags & STATE_BYTES) && frame_may_grow(m, f);
        m->work++;
        m->spent += FRAME_UNITS;
        if (visits == CLOSURE_MAX || (has_bytes && m->n_found == MATCHER_SET_MAX)) {
            fail(m, matcher_too_ambiguous);
            return;
        }
        if (has_bytes) m->found[m->n_found++] = id;
        closure_leave(m, f);
    }
}

uint32_t matcher_enter(struct matcher *m, struct frame f) {
    closure_begin(m);
    closure_add(m, f);
    closure_run(m);
    return set_of_found(m);
}

uint32_t matcher_leave(struct matcher *m, uint32_t state, uint32_t count, uint32_t parent) {
    closure_begin(m);
    closure_leave(m, (struct frame){.state = state, .count = count, .parent = parent});
    closure_run(m);
    return set_of_found(m);
}

uint32_t matcher_subset(struct matcher *m, const uint32_t *frame, uint32_t n) {
    assert(n <= MATCHER_SET_MAX);
    m->can_end = false;
    m->n_found = n;
    if (n) memcpy(m->found, frame, n * sizeof *frame);
    return set_of_found(m);
}

struct frame matcher_step_frame(const struct matcher *m, struct frame f, uint8_t byte) {
    const struct machine *machine = m->machine;
    if (f.guard && state_ends_with(m, f.guard, byte)) return (struct frame){0};
    f.guard = 0;
    f.state = machine->next[f.state][byte];
    const uint8_t flags = machine->flags[f.state];
    if ((flags & STATE_COUNTED) && (flags & STATE_ACCEPT)) {
        // without a maximum, counts past the minimum are equal
        const struct machine_rule *rule = &machine->rule[machine->rule_of[f.state]];
        if (rule->max >= 0 || (int64_t)f.count < rule->min) f.count++;
    }
    return f;
}

static uint32_t step(struct matcher *m, uint32_t set, uint8_t byte) {
    closure_begin(m);
    for (uint32_t i = 0; i < m->set[set].n; i++) {
        const struct frame f = matcher_step_frame(m, m->frame[m->pool[m->set[set].at + i]], byte);
        if (f.state) closure_add(m, f);
    }
    m->work += m->set[set].n;
    m->spent += 1 + m->set[set].n;
    closure_run(m);
    return set_of_found(m);
}

uint32_t matcher_next(struct matcher *m, uint32_t set, uint8_t byte) {
    if (!set) return 0;
    const uint32_t h = (set * 0x9E3779B1u ^ byte * 0x85EBCA6Bu) >> 20;
    struct matcher_step *known = &m->step[h & (MATCHER_STEPS - 1)];
    if (known->from == set && known->byte == byte) {
        m->work += known->work;
    } else {
        const uint64_t before = m->work;
        const uint32_t to = step(m, set, byte);
        if (m->failure) return to;
        *known = (struct matcher_step){set, to, (uint32_t)(m->work - before), byte};
    }
    if (m->set[known->to].n > m->widest) m->widest = m->set[known->to].n;
    return known->to;
}

bool matcher_can_end(const struct matcher *m, uint32_t set) { return m->set[set].can_end; }

// --- collection: frames and sets that the history does not use are dropped ---

static void mark_frames(struct matcher *m, const uint32_t *new_set, uint32_t *new_frame) {
    for (uint32_t s = 1; s < m->n_set; s++) {
        if (!new_set[s]) continue;
        for (uint32_t i = 0; i < m->set[s].n; i++) {
            uint32_t f = m->pool[m->set[s].at + i];
            for (; f && !new_frame[f]; f = m->frame[f].parent) new_frame[f] = 1;
        }
    }
}

// Numbers keep their order; a parent is older than its frames.
static void compact(struct matcher *m, uint32_t *new_set, uint32_t *new_frame) {
    uint32_t n_frame = 1, n_set = 1, n_pool = 0;
    for (uint32_t f = 1; f < m->n_frame; f++) {
        if (!new_frame[f]) continue;
        new_frame[f] = n_frame;
        m->frame[n_frame] = m->frame[f];
        m->frame[n_frame].parent = new_frame[m->frame[f].parent];
        n_frame++;
    }
    for (uint32_t s = 1; s < m->n_set; s++) {
        if (!new_set[s]) continue;
        const struct frame_set old = m->set[s];
        for (uint32_t i = 0; i < old.n; i++) m->pool[n_pool + i] = new_frame[m->pool[old.at + i]];
        m->set[n_set] = (struct frame_set){n_pool, old.n, old.can_end};
        n_pool += old.n;
        new_set[s] = n_set++;
    }
    m->n_frame = n_frame;
    m->n_set = n_set;
    m->n_pool = n_pool;
}

// Arrays that grew for one mask are as long as before.
static void shrink(struct matcher *m) {
    if (m->frame_capacity > COLLECT_FRAMES && m->n_frame < m->frame_capacity / 4) {
        struct frame *frame = realloc(m->frame, m->n_frame * sizeof *frame);
        if (frame) m->frame = frame, m->frame_capacity = m->n_frame;
    }
    if (m->pool_capacity > COLLECT_FRAMES && m->n_pool < m->pool_capacity / 4) {
        uint32_t *pool = realloc(m->pool, (m->n_pool + 1) * sizeof *pool);
        if (pool) m->pool = pool, m->pool_capacity = m->n_pool + 1;
    }
}

static void collect(struct matcher *m) {
    matcher_drop_job(m); // its sets have other numbers
    uint32_t *new_set = calloc(m->n_set, sizeof *new_set);
    uint32_t *new_frame = calloc(m->n_frame, sizeof *new_frame);
    if (new_set && new_frame) {
        for (uint32_t i = 0; i <= m->n_token; i++)
            if (m->history[i]) new_set[m->history[i]] = 1;
        mark_frames(m, new_set, new_frame);
        compact(m, new_set, new_frame);
        for (uint32_t i = 0; i <= m->n_token; i++) m->history[i] = new_set[m->history[i]];
        for (uint32_t i = 0; i < MATCHER_MASKS; i++) m->mask[i].set = new_set[m->mask[i].set];
        memset(m->step, 0, MATCHER_STEPS * sizeof *m->step);
        // in place: without memory, slots would keep the old numbers
        memset(m->frame_slot, 0, m->n_frame_slot * sizeof *m->frame_slot);
        memset(m->set_slot, 0, m->n_set_slot * sizeof *m->set_slot);
        frames_enter(m, m->frame_slot, m->n_frame_slot);
        sets_enter(m, m->set_slot, m->n_set_slot);
        shrink(m);
        const uint32_t used = m->n_frame > m->n_pool ? m->n_frame : m->n_pool;
        m->collect_at = 2 * used > COLLECT_FRAMES ? 2 * used : COLLECT_FRAMES;
    }
    free(new_set);
    free(new_frame);
}

void matcher_tidy(struct matcher *m) {
    if (m->n_frame > m->collect_at || m->n_pool > m->collect_at) collect(m);
}

bool matcher_try_again(struct matcher *m) {
    if (m->failure != too_many_frames) return false;
    m->failure = NULL;
    collect(m);
    return true;
}

// --- the history ---

static bool history_push(struct matcher *m, uint32_t set) {
    matcher_drop_job(m);
    if (m->n_lost || !numbers_grow(m, &m->history, &m->history_capacity, m->n_token + 2)) {
        m->n_lost++;
        return false;
    }
    m->history[++m->n_token] = set;
    return true;
}

// Tokens of the text, with those beyond the history.
static uint32_t length_of(const struct matcher *m) { return m->n_token + m->n_lost; }

// Before the text changes: a new failure belongs to the text as it is, and to longer ones.
static void failure_note(struct matcher *m) {
    if (!m->failure)
        m->failed_at = UINT32_MAX;
    else if (m->failed_at == UINT32_MAX)
        m->failed_at = length_of(m);
}

uint32_t matcher_set(const struct matcher *m) { return m->history[m->n_token]; }

// The set behind the bytes. Counted text has another set behind every byte: those of one frame are
// made behind the last byte alone, as long as no byte may leave the rule.
static uint32_t set_behind(struct matcher *m, uint32_t set, const uint8_t *bytes, size_t len) {
    for (size_t i = 0; i < len && set;) {
        struct frame f = {0};
        if (m->set[set].n == 1) f = m->frame[m->pool[m->set[set].at]];
        if (!(m->machine->flags[f.state] & STATE_COUNTED)) {
            set = matcher_next(m, set, bytes[i++]);
            continue;
        }
        do {
            f = frame_may_grow(m, f) ? matcher_step_frame(m, f, bytes[i]) : (struct frame){0};
        } while (++i < len && f.state && !frame_may_leave(m, f, bytes[i]));
        set = f.state ? matcher_enter(m, f) : 0;
    }
    return set;
}

bool matcher_feed(struct matcher *m, const uint8_t *bytes, size_t len) {
    uint32_t set;
    failure_note(m);
    matcher_tidy(m);
    for (int tries = 0;; tries++) {
        set = set_behind(m, matcher_set(m), bytes, len);
        if (tries || !matcher_try_again(m)) break;
    }
    history_push(m, set);
    return set != 0;
}

void matcher_token(struct matcher *m, int32_t id) {
    const struct constraint_token *token = &m->vocab->token[id];
    failure_note(m);
    if (token->is_end || token->len == 0)
        history_push(m, 0);
    else
        matcher_feed(m, (const uint8_t *)token->data, token->len);
}

void matcher_restart(struct matcher *m) {
    failure_note(m);
    history_push(m, m->history[0]);
}

void matcher_rollback(struct matcher *m, uint32_t n) {
    failure_note(m);
    if (n) matcher_drop_job(m);
    const uint32_t lost = n < m->n_lost ? n : m->n_lost;
    m->n_lost -= lost;
    assert(n - lost <= m->n_token);
    m->n_token -= n - lost;
    if (!m->n_lost && length_of(m) < m->failed_at) m->failure = NULL;
}

// The only byte that may come next; -1: several may, or none.
static int only_byte(struct matcher *m, uint32_t set) {
    enum { ROW_UNITS = 32 };
    int only = -1;
    m->spent += (uint64_t)m->set[set].n * ROW_UNITS;
    for (uint32_t i = 0; i < m->set[set].n; i++) {
        const struct frame *f = &m->frame[m->pool[m->set[set].at + i]];
        const uint16_t *next = m->machine->next[f->state];
        for (int byte = 0; byte < 256; byte++) {
            if (!next[byte]) continue;
            if (f->guard && state_ends_with(m, f->guard, (uint8_t)byte)) continue;
            if (only >= 0 && only != byte) return -1;
            only = byte;
        }
    }
    return only;
}

size_t matcher_forced(struct matcher *m, char *out, size_t size, uint64_t units) {
    const char *before = m->failure;
    const uint64_t begin = m->spent;
    size_t n = 0;
    matcher_tidy(m);
    for (uint32_t set = matcher_set(m); n < size && set && !m->set[set].can_end; n++) {
        if (m->spent - begin >= units) break;
        const int byte = only_byte(m, set);
        if (byte < 0) break;
        out[n] = (char)byte;
        set = matcher_next(m, set, (uint8_t)byte);
    }
    m->failure = before; // that of a text which has not come
    return n;
}

rn_status matcher_init(struct matcher *m, struct constraint_vocab *vocab,
                       const struct machine *machine, struct share *const *share,
                       struct mask_cache *cache, rn_error *err) {
    *m = (struct matcher){.vocab = vocab,
                          .machine = machine,
                          .share = share,
                          .cache = cache,
                          .n_frame = 1,
                          .n_set = 1,
                          .collect_at = COLLECT_FRAMES};
    m->step = calloc(MATCHER_STEPS, sizeof *m->step);
    m->cell = calloc(vocab->max_depth + 1, sizeof *m->cell);
    if (m->step && m->cell && frames_grow(m, 1) && sets_grow(m, 1) &&
        numbers_grow(m, &m->history, &m->history_capacity, 1) && frames_rehash(m, 256) &&
        sets_rehash(m, 256)) {
        m->frame[0] = (struct frame){0};
        m->set[0] = (struct frame_set){0};
        closure_begin(m);
        closure_add(m, (struct frame){.state = machine->rule[machine->start].start});
        closure_run(m);
        m->history[0] = set_of_found(m);
    } else {
        fail(m, matcher_out_of_memory);
    }
    const char *failure = m->failure;
    if (!failure) return RN_OK;
    matcher_deinit(m);
    if (failure == matcher_out_of_memory) return err_set(err, RN_ERR_NOMEM, "%s", failure);
    return err_set(err, RN_ERR_ARG, "%s: it may start in too many ways", failure);
}

void matcher_deinit(struct matcher *m) {
    matcher_drop_job(m);
    free(m->frame);
    free(m->frame_slot);
    free(m->set);
    free(m->set_slot);
    free(m->pool);
    free(m->step);
    for (uint32_t i = 0; i < MATCHER_MASKS; i++) kept_mask_release(m->mask[i].mask);
    free(m->history);
    free(m->todo);
    free(m->cell);
    *m = (struct matcher){0};
}

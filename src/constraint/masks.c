// Masks: summaries for wide states, walks over the trie for the others and behind a summary's ends.
//
// A mask is a job, which is made in parts of bounded work, by one thread after the other:
//
//   SORT         which of the set's frames are wide
//   SUMMARIES    wide frames of few states: the summary of each, and a walk behind each leave
//   PRUNED       wide frames of many states, or with a guard: a walk each, which leaves out the
//                parts of the trie whose tokens are all allowed already
//   NARROW       one walk of the narrow frames
//
// Which part a frame is in depends on the set alone, and so does the work that is counted against
// the limits: a step is counted each time, and pruned walks have one order in every run. Summaries
// that are at hand and remembered steps change the time alone.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "constraint/matcher.h"

enum {
    // Frames looked at for one mask. Sentences of words take half of it with 262,144 tokens.
    MASK_WORK = 1 << 20,
    PRUNED_WORK = 1 << 22, // the same in pruned walks, where nodes are not counted
    STATES_MAX = 8,        // wide states of a set that have a summary each
    KEPT_WORK = 64,        // masks that take less are made as fast as they are found
    LONE_NODES = 16,       // fewer nodes are walked by sets
};

enum part { PART_SORT, PART_SUMMARIES, PART_PRUNED, PART_NARROW, PART_DONE };

struct mask_job {
    struct kept_mask *mask;
    uint32_t set;
    bool has_key, is_second; // a second try: frames had run out
    uint32_t n_far;          // counts in the key that stand for others
    enum part part;
    uint32_t at; // frame of the part
    // its frames: wide ones with a summary, other wide ones, narrow ones
    uint32_t wide[MATCHER_SET_MAX], pruned[MATCHER_SET_MAX], narrow[MATCHER_SET_MAX];
    uint32_t n_wide, n_pruned, n_narrow;
    const struct summary *summary;          // of wide[at], while its leaves are walked
    uint32_t leave, leave_state, leave_set; // of the summary; the state and the set of the last one
    uint32_t node, end;                     // nodes that are still to be walked
    bool is_pruned;                         // the walk
    uint64_t pruned_work;
    uint64_t *full; // a bit for each node: all tokens there and below are allowed
};

// --- walks ---

static bool charge(struct matcher *m) {
    if (++m->work > MASK_WORK && !m->failure) m->failure = matcher_too_ambiguous;
    return !m->failure;
}

// Where a walk stands that reached the set with n_below nodes ahead. The states of a set of one
// frame follow each other without sets, as long as bytes cannot leave the rule.
static struct walk_cell cell_of(const struct matcher *m, uint32_t set, uint32_t n_below) {
    if (m->set[set].n != 1 || n_below < LONE_NODES) return (struct walk_cell){.set = set};
    return (struct walk_cell){.frame = m->frame[m->pool[m->set[set].at]], .is_closed = true};
}

// The set after the byte; 0 if there is none.
static uint32_t walk_set(struct matcher *m, struct mask_job *job, const struct walk_cell *from,
                         uint8_t byte) {
    const uint64_t before = m->work;
    const uint32_t set = from->set ? from->set : matcher_enter(m, from->frame);
    const uint32_t to = m->failure ? 0 : matcher_next(m, set, byte);
    if (!job->is_pruned) return to;
    job->pruned_work += m->work - before;
    m->work = before;
    if (job->pruned_work > PRUNED_WORK && !m->failure) m->failure = matcher_too_ambiguous;
    return to;
}

// Begins to add the tokens below the nodes [begin, end) whose bytes the set can step over. base:
// the depth of the node above them.
static void walk_begin(struct matcher *m, struct mask_job *job, uint32_t set, uint32_t begin,
                       uint32_t end, uint32_t base) {
    job->node = begin;
    job->end = end;
    m->cell[base] = cell_of(m, set, end - begin);
}

// False: the limit came first.
static bool walk_run(struct matcher *m, struct mask_job *job, uint64_t limit) {
    const struct constraint_vocab *v = m->vocab;
    uint64_t *bits = job->mask->bits;
    while (job->node < job->end && !m->failure) {
        const struct trie_node *node = &v->node[job->node];
        const struct walk_cell *from = &m->cell[node->depth - 1];
        struct walk_cell to = {0};
        if (m->spent >= limit) return false;
        m->spent++;
        if (job->is_pruned && token_bits_has(job->full, (int32_t)job->node)) {
            job->node = node->skip;
            continue;
        }
        if (!job->is_pruned && !charge(m)) break;
        if (from->set || (!from->is_closed && frame_may_leave(m, from->frame, node->byte))) {
            const uint32_t set = walk_set(m, job, from, node->byte);
            if (set && !m->failure) to = cell_of(m, set, node->skip - job->node - 1);
        } else if (frame_may_grow(m, from->frame)) {
            to.frame = matcher_step_frame(m, from->frame, node->byte);
        }
        if (!to.set && !to.frame.state) {
            job->node = node->skip;
            continue;
        }
        trie_tokens(v, node, bits);
        m->cell[node->depth] = to;
        job->node++;
    }
    return true;
}

// --- summaries ---

static void add_inner(struct matcher *m, const struct summary *s, uint64_t room, uint64_t *bits) {
    if (!s->need_begin || room >= s->need_max) {
        for (size_t i = 0; i < m->vocab->n_words; i++) bits[i] |= s->inner[i];
        return;
    }
    m->spent += s->need_begin[room + 1] / 4;
    for (uint32_t i = 0; i < s->need_begin[room + 1]; i++) token_bits_set(bits, s->by_need[i]);
}

// The next leave that leads anywhere; the walk after it begins. False if there is none.
static bool next_leave(struct matcher *m, struct mask_job *job, struct frame f) {
    const struct summary *s = job->summary;
    const struct machine_rule *rule = &m->machine->rule[m->machine->rule_of[f.state]];
    while (job->leave < s->n_leave && !m->failure) {
        const struct summary_leave *leave = &s->leave[job->leave++];
        const uint64_t count = (uint64_t)f.count + leave->units;
        m->spent++;
        if (rule->counted &&
            ((int64_t)count < rule->min || (rule->max >= 0 && (int64_t)count > rule->max)))
            continue;
        if (leave->state != job->leave_state) { // the same for all tokens that leave there
            job->leave_state = leave->state;
            job->leave_set = matcher_leave(m, rule->base + leave->state, (uint32_t)count, f.parent);
        }
        if (!job->leave_set) continue;
        const struct trie_node *node = &m->vocab->node[leave->node];
        walk_begin(m, job, job->leave_set, leave->node + 1, node->skip, node->depth);
        return true;
    }
    return false;
}

static bool take_summary(struct matcher *m, struct mask_job *job, struct frame f, uint64_t limit) {
    struct share *share = m->share[m->machine->rule_of[f.state]];
    job->summary = summary_find(m->vocab, m->machine, share, f.state);
    if (!job->summary) {
        if (limit - m->spent < matcher_slice(m)) return false;
        job->summary = summary_acquire(m->vocab, m->machine, share, f.state, &m->spent);
        if (!job->summary) m->failure = matcher_out_of_memory;
    }
    return true;
}

static void next_part(struct mask_job *job) {
    job->part++;
    job->at = 0;
}

// Goes on with a wide frame. False: the limit leaves no room for the summary that is to be made.
static bool add_wide(struct matcher *m, struct mask_job *job, uint64_t limit) {
    if (job->at == job->n_wide) {
        next_part(job);
        return true;
    }
    const struct frame f = m->frame[job->wide[job->at]];
    if (!job->summary) {
        if (!take_summary(m, job, f, limit)) return false;
        if (m->failure) return true;
        const struct machine_rule *rule = &m->machine->rule[m->machine->rule_of[f.state]];
        const uint64_t room =
            rule->counted && rule->max >= 0 ? (uint64_t)rule->max - f.count : UINT64_MAX;
        add_inner(m, job->summary, room, job->mask->bits);
        m->spent += m->vocab->n_words / 16;
        job->leave = 0;
        job->leave_state = UINT32_MAX;
    }
    if (next_leave(m, job, f)) return true;
    summary_release(job->summary);
    job->summary = NULL;
    job->at++;
    return true;
}

// --- jobs ---

static bool has_few_states(const struct matcher *m, const struct mask_job *job) {
    uint32_t state[STATES_MAX], n = 0;
    for (uint32_t i = 0; i < job->n_wide; i++) {
        const uint32_t of = m->frame[job->wide[i]].state;
        uint32_t k = 0;
        while (k < n && state[k] != of) k++;
        if (k == STATES_MAX) return false;
        state[k] = of;
        n += k == n;
    }
    return true;
}

// In an order that is the same in every run. Frames are equal where their numbers are.
static bool goes_before(struct matcher *m, uint32_t a, uint32_t b) {
    for (; a != b && a && b; a = m->frame[a].parent, b = m->frame[b].parent) {
        m->spent++;
        const struct frame *x = &m->frame[a], *y = &m->frame[b];
        if (x->state != y->state) return x->state < y->state;
        if (x->count != y->count) return x->count < y->count;
        if (x->guard != y->guard) return x->guard < y->guard;
    }
    return !a && b;
}

static void add_pruned(struct matcher *m, struct mask_job *job, uint32_t id) {
    uint32_t at = job->n_pruned++;
    for (; at > 0 && goes_before(m, id, job->pruned[at - 1]); at--) {
        job->pruned[at] = job->pruned[at - 1];
        m->spent++;
    }
    job->pruned[at] = id;
}

static void sort_frame(struct matcher *m, struct mask_job *job) {
    const struct frame_set *set = &m->set[job->set];
    if (job->at >= set->n) { // all frames were looked at; wide ones of many states follow
        const uint32_t n_moved = job->at++ - set->n;
        const bool stay = n_moved == 0 && has_few_states(m, job);
        if (!stay && n_moved < job->n_wide) {
            add_pruned(m, job, job->wide[n_moved]);
            return;
        }
        if (!stay) job->n_wide = 0;
        next_part(job);
        return;
    }
    const uint32_t id = m->pool[set->at + job->at++];
    const struct frame f = m->frame[id];
    struct share *share = m->share[m->machine->rule_of[f.state]];
    if (!summary_is_wide(m->vocab, m->machine, share, f.state, &m->spent))
        job->narrow[job->n_narrow++] = id;
    else if (f.guard)
        add_pruned(m, job, id);
    else
        job->wide[job->n_wide++] = id;
}

// A walk from the root.
static void walk_frames(struct matcher *m, struct mask_job *job, const uint32_t *frame,
                        uint32_t n) {
    const uint32_t set = matcher_subset(m, frame, n);
    if (set) walk_begin(m, job, set, 0, m->vocab->n_node, 0);
}

static bool is_full(const struct constraint_vocab *v, const struct mask_job *job, uint32_t at) {
    for (int32_t id = v->node[at].token; id >= 0; id = v->same[id])
        if (!token_bits_has(job->mask->bits, id)) return false;
    for (uint32_t i = at + 1; i < v->node[at].skip; i = v->node[i].skip)
        if (!token_bits_has(job->full, (int32_t)i)) return false;
    return true;
}

// Finds the parts of the trie that further walks may leave out.
static void find_full(struct matcher *m, struct mask_job *job) {
    const struct constraint_vocab *v = m->vocab;
    for (uint32_t i = v->n_node; i-- > 0;)
        if (!token_bits_has(job->full, (int32_t)i) && is_full(v, job, i))
            token_bits_set(job->full, (int32_t)i);
    m->spent += v->n_node;
}

// After 1, 4, 16 ... walks they are looked for again. False: the limit leaves no room for that.
static bool walk_pruned(struct matcher *m, struct mask_job *job, uint64_t limit) {
    if (job->at == job->n_pruned) {
        job->is_pruned = false;
        next_part(job);
        return true;
    }
    if (!job->full) job->full = calloc(m->vocab->n_node / 64 + 1, sizeof *job->full);
    if (!job->full) {
        m->failure = matcher_out_of_memory;
        return true;
    }
    if (job->at == 1 || job->at == 4 || job->at == 16 || job->at == 64) {
        if (limit - m->spent < matcher_slice(m)) return false;
        find_full(m, job);
    }
    job->is_pruned = true;
    walk_frames(m, job, &job->pruned[job->at++], 1);
    return true;
}

// False: the limit came first.
static bool job_run(struct matcher *m, struct mask_job *job, uint64_t limit) {
    while (!m->failure) {
        if (!walk_run(m, job, limit)) return false;
        if (job->part == PART_DONE) return true;
        if (m->spent >= limit) return false;
        switch (job->part) {
        case PART_SORT:
            sort_frame(m, job);
            break;
        case PART_SUMMARIES:
            if (!add_wide(m, job, limit)) return false;
            break;
        case PART_PRUNED:
            if (!walk_pruned(m, job, limit)) return false;
            break;
        case PART_NARROW:
            walk_frames(m, job, job->narrow, job->n_narrow);
            next_part(job);
            break;
        case PART_DONE:
            break;
        }
    }
    return true;
}

void matcher_drop_job(struct matcher *m) {
    struct mask_job *job = m->job;
    if (!job) return;
    summary_release(job->summary);
    kept_mask_release(job->mask);
    free(job->full);
    free(job);
    m->job = NULL;
}

// --- keys ---

// Counts far from the bounds of their rule have the same masks: no token has bytes enough to get
// near. A count below the minimum stands for all of these, and one above it for all of those.
enum {
    COUNT_BELOW = UINT32_MAX,
    COUNT_BETWEEN = UINT32_MAX - 1,
    KEY_LINK = 1u << 31,
    KEY_GUARD = 1u << 30, // before a state
};

static uint32_t count_key(const struct matcher *m, const struct machine_rule *rule,
                          uint32_t count) {
    const int64_t near = m->vocab->max_depth;
    if (count + near < rule->min) return COUNT_BELOW;
    if (count >= rule->min && (rule->max < 0 || count + near < rule->max)) return COUNT_BETWEEN;
    return count;
}

// The key in the making.
struct keys {
    struct mask_key *out;
    uint32_t node[MASK_KEY_MAX], n_node; // frames that are in it
    uint32_t n_far;                      // counts that stand for others
};

static bool key_put(struct keys *keys, uint32_t number) {
    if (keys->out->n == MASK_KEY_MAX) return false;
    keys->out->at[keys->out->n++] = number;
    return true;
}

// The frame and those behind it, up to one that is in the key or the end of the text.
static bool key_frame(struct matcher *m, struct keys *keys, uint32_t at) {
    for (; at && m->frame[at].stamp != m->now; at = m->frame[at].parent) {
        struct frame *f = &m->frame[at];
        const struct machine_rule *rule = frame_rule(m, *f);
        f->stamp = m->now;
        if (f->guard && !key_put(keys, KEY_GUARD | f->guard)) return false;
        if (!key_put(keys, f->state)) return false;
        keys->node[keys->n_node++] = at;
        if (!rule->counted) continue;
        const uint32_t count = count_key(m, rule, f->count);
        keys->n_far += count >= COUNT_BETWEEN;
        if (!key_put(keys, count)) return false;
    }
    uint32_t link = 0;
    while (at && keys->node[link++] != at) continue;
    return key_put(keys, KEY_LINK | link);
}

// In the order of states, which is that of every run; nearly sorted.
static void sort_frames(const struct matcher *m, uint32_t *frame, uint32_t n) {
    for (uint32_t i = 1; i < n; i++) {
        const uint32_t moved = frame[i];
        uint32_t at = i;
        for (; at > 0 && m->frame[frame[at - 1]].state > m->frame[moved].state; at--)
            frame[at] = frame[at - 1];
        frame[at] = moved;
    }
}

// Numbers that stand for the mask of a set in every run: states, counts and links of its frames and
// of those behind them. False: there are too many. *n_far: counts that stand for others.
static bool key_of(struct matcher *m, uint32_t set, struct mask_key *out, uint32_t *n_far) {
    uint32_t frame[MATCHER_SET_MAX];
    const uint32_t n = m->set[set].n;
    struct keys keys = {.out = out};
    out->n = 0;
    if (n) memcpy(frame, m->pool + m->set[set].at, n * sizeof *frame);
    sort_frames(m, frame, n);
    matcher_stamp(m);
    for (uint32_t i = 0; i < n; i++)
        if (!key_frame(m, &keys, frame[i])) return false;
    *n_far = keys.n_far;
    return key_put(&keys, m->set[set].can_end);
}

// Whether no set with this key fails: counts that stand for others may have merged frames that are
// apart elsewhere, once for each of them.
static bool is_for_all(const struct matcher *m, const struct mask_job *job) {
    const uint64_t n = 1 + (uint64_t)job->n_far;
    return m->work * n <= MASK_WORK && (!job->n_pruned || !job->n_far) &&
           m->widest * n <= MATCHER_SET_MAX;
}

// --- masks ---

static struct matcher_mask *kept_of(struct matcher *m, uint32_t set) {
    for (uint32_t i = 0; i < MATCHER_MASKS; i++) {
        if (m->mask[i].set != set) continue;
        m->mask[i].used = ++m->mask_clock;
        return &m->mask[i];
    }
    return NULL;
}

// In the place that was used least recently. Takes the reference.
static void keep(struct matcher *m, uint32_t set, struct kept_mask *mask) {
    struct matcher_mask *place = &m->mask[0];
    for (uint32_t i = 1; i < MATCHER_MASKS; i++)
        if (m->mask[i].used < place->used) place = &m->mask[i];
    kept_mask_release(place->mask);
    *place = (struct matcher_mask){.set = set, .used = ++m->mask_clock, .mask = mask};
}

// The job of the current set; false: none, since the mask of its key was found, or for want of
// memory, or of leave.
static bool job_begin(struct matcher *m, bool may_begin) {
    const uint32_t set = matcher_set(m);
    struct mask_key key;
    uint32_t n_far = 0;
    const bool has_key = key_of(m, set, &key, &n_far);
    struct kept_mask *found = has_key ? mask_cache_find(m->cache, &key) : NULL;
    if (found) keep(m, set, found);
    if (found || !may_begin) return false;
    struct mask_job *job = m->job = calloc(1, sizeof *job);
    if (job) job->mask = kept_mask_create(m->vocab->n_words, has_key ? &key : NULL);
    if (!job || !job->mask) {
        matcher_drop_job(m);
        m->failure = matcher_out_of_memory;
        return false;
    }
    job->set = set;
    job->has_key = has_key;
    job->n_far = n_far;
    m->work = m->widest = 0;
    uint64_t *bits = job->mask->bits;
    memset(bits, 0, m->vocab->n_words * sizeof *bits);
    if (m->set[set].can_end)
        for (int32_t i = 0; i < m->vocab->n_end; i++) token_bits_set(bits, m->vocab->end[i]);
    return true;
}

static void job_end(struct matcher *m) {
    struct mask_job *job = m->job;
    if (!m->failure) {
        const bool is_costly = m->work >= KEPT_WORK || job->n_pruned;
        if (job->has_key && is_costly && is_for_all(m, job)) mask_cache_add(m->cache, job->mask);
        keep(m, job->set, job->mask);
        job->mask = NULL;
    }
    matcher_drop_job(m);
    matcher_tidy(m);
}

bool matcher_prepare(struct matcher *m, uint64_t units) {
    if (m->failure || !matcher_set(m)) return true;
    if (!m->job) {
        if (kept_of(m, matcher_set(m))) return true;
        matcher_tidy(m);
        if (!job_begin(m, units > 0)) return m->failure || kept_of(m, matcher_set(m));
    }
    assert(m->job->set == matcher_set(m));
    const uint64_t limit = units < UINT64_MAX - m->spent ? m->spent + units : UINT64_MAX;
    for (bool is_second = m->job->is_second;;) {
        if (!job_run(m, m->job, limit)) return false;
        if (is_second || !m->failure || !matcher_try_again(m)) break;
        matcher_drop_job(m);
        if (!job_begin(m, true)) return true;
        m->job->is_second = is_second = true;
    }
    job_end(m);
    return true;
}

uint64_t matcher_slice(const struct matcher *m) { return 2 * (uint64_t)m->vocab->n_node; }

void matcher_mask(struct matcher *m, uint64_t *allowed, int32_t n_vocab) {
    const size_t n_words = ((size_t)n_vocab + 63) / 64;
    matcher_prepare(m, UINT64_MAX);
    const struct matcher_mask *kept =
        m->failure || !matcher_set(m) ? NULL : kept_of(m, matcher_set(m));
    if (!kept) {
        memset(allowed, 0, n_words * sizeof *allowed);
        return;
    }
    const uint64_t *bits = kept->mask->bits;
    for (size_t i = 0; i < n_words; i++) allowed[i] &= i < m->vocab->n_words ? bits[i] : 0;
}

// Masks: summaries for wide states, walks over the trie for the others and behind a summary's ends.
#include <stdlib.h>
#include <string.h>

#include "constraint/matcher.h"

enum {
    // Frames looked at for one mask: about 3 ms. Sentences of words take half of it with 262,144
    // tokens.
    MASK_WORK = 1 << 20,
    KEPT_WORK = 64, // masks that take less are made as fast as they are found
};

// Walks inside each other: a walk of one frame ends where its rule is left, and the sets behind may
// be one frame again. Deeper ones are walks of sets.
enum { MAX_WALKS = 16, LONE_NODES = 16 };

static void walk(struct matcher *m, uint32_t set, uint32_t begin, uint32_t end, uint32_t base,
                 uint64_t *bits, int depth);

static bool charge(struct matcher *m) {
    if (++m->work > MASK_WORK && !m->failure) m->failure = matcher_too_ambiguous;
    return !m->failure;
}

// The same for a set of one frame, whose states follow each other without sets as long as bytes
// cannot leave the rule.
static void walk_lone(struct matcher *m, struct frame f, uint32_t begin, uint32_t end,
                      uint32_t base, uint64_t *bits, int depth) {
    const struct constraint_vocab *v = m->vocab;
    m->lone[base] = f;
    for (uint32_t i = begin; i < end;) {
        const struct trie_node *node = &v->node[i];
        const struct frame from = m->lone[node->depth - 1];
        if (!charge(m)) return;
        if (node->depth - 1u > base && frame_may_leave(m, from, node->byte)) {
            const uint32_t to = matcher_next(m, matcher_enter(m, from), node->byte);
            if (m->failure) return;
            if (to) {
                trie_tokens(v, node, bits);
                walk(m, to, i + 1, node->skip, node->depth, bits, depth + 1);
            }
            i = node->skip;
            continue;
        }
        const struct frame to =
            frame_may_grow(m, from) ? matcher_step_frame(m, from, node->byte) : (struct frame){0};
        if (!to.state) {
            i = node->skip;
            continue;
        }
        m->lone[node->depth] = to;
        trie_tokens(v, node, bits);
        i++;
    }
}

// Adds the tokens below the nodes [begin, end) whose bytes the set can step over. base: the depth
// of the node above them.
static void walk(struct matcher *m, uint32_t set, uint32_t begin, uint32_t end, uint32_t base,
                 uint64_t *bits, int depth) {
    const struct constraint_vocab *v = m->vocab;
    if (m->set[set].n == 1 && depth < MAX_WALKS && end - begin >= LONE_NODES) {
        walk_lone(m, m->frame[m->pool[m->set[set].at]], begin, end, base, bits, depth);
        return;
    }
    m->path[base] = set;
    for (uint32_t i = begin; i < end;) {
        const struct trie_node *node = &v->node[i];
        const uint32_t to = matcher_next(m, m->path[node->depth - 1], node->byte);
        if (!charge(m)) return;
        if (!to) {
            i = node->skip;
            continue;
        }
        trie_tokens(v, node, bits);
        if (m->set[to].n == 1 && depth < MAX_WALKS && node->skip - i > LONE_NODES) {
            walk(m, to, i + 1, node->skip, node->depth, bits, depth + 1);
            i = node->skip;
        } else {
            m->path[node->depth] = to;
            i++;
        }
    }
}

static void add_inner(const struct matcher *m, const struct summary *s, uint64_t room,
                      uint64_t *bits) {
    if (!s->need_begin || room >= s->need_max) {
        for (size_t i = 0; i < m->vocab->n_words; i++) bits[i] |= s->inner[i];
        return;
    }
    for (uint32_t i = 0; i < s->need_begin[room + 1]; i++) token_bits_set(bits, s->by_need[i]);
}

// Tokens that leave the rule: what is behind a state of the rule is the same for all of them.
static void add_leaves(struct matcher *m, const struct summary *s, struct frame f, uint64_t *bits) {
    const struct machine_rule *rule = &m->machine->rule[m->machine->rule_of[f.state]];
    uint32_t state = UINT32_MAX, set = 0;
    for (uint32_t i = 0; i < s->n_leave && !m->failure; i++) {
        const struct summary_leave *leave = &s->leave[i];
        const uint64_t count = (uint64_t)f.count + leave->units;
        if (rule->counted &&
            ((int64_t)count < rule->min || (rule->max >= 0 && (int64_t)count > rule->max)))
            continue;
        if (leave->state != state) {
            state = leave->state;
            set = matcher_leave(m, rule->base + state, (uint32_t)count, f.parent);
        }
        const struct trie_node *node = &m->vocab->node[leave->node];
        if (set) walk(m, set, leave->node + 1, node->skip, node->depth, bits, 0);
    }
}

static void add_frame(struct matcher *m, const struct summary *s, struct frame f, uint64_t *bits) {
    const struct machine_rule *rule = &m->machine->rule[m->machine->rule_of[f.state]];
    const uint64_t room =
        rule->counted && rule->max >= 0 ? (uint64_t)rule->max - f.count : UINT64_MAX;
    add_inner(m, s, room, bits);
    add_leaves(m, s, f, bits);
}

// A wide state whose summary found no memory, or that a guard narrows. Its work is not counted with
// the others': a text fails with or without summaries.
static void add_wide(struct matcher *m, uint32_t frame, uint64_t *bits) {
    const uint64_t before = m->work;
    m->work = 0;
    walk(m, matcher_subset(m, &frame, 1), 0, m->vocab->n_node, 0, bits, 0);
    m->work = before;
}

static void compute(struct matcher *m, uint32_t set, uint64_t *bits) {
    uint32_t narrow[MATCHER_SET_MAX], n_narrow = 0;
    const uint32_t n = m->set[set].n;
    m->work = m->widest = 0;
    memset(bits, 0, m->vocab->n_words * sizeof *bits);
    if (m->set[set].can_end)
        for (int32_t i = 0; i < m->vocab->n_end; i++) token_bits_set(bits, m->vocab->end[i]);
    for (uint32_t i = 0; i < n && !m->failure; i++) {
        const uint32_t id = m->pool[m->set[set].at + i];
        const struct frame f = m->frame[id];
        const struct summary *s =
            summary_of(m->vocab, m->machine, m->share[m->machine->rule_of[f.state]], f.state, NULL);
        if (s == &summary_narrow)
            narrow[n_narrow++] = id;
        else if (s == &summary_absent || f.guard)
            add_wide(m, id, bits);
        else
            add_frame(m, s, f, bits);
    }
    const uint32_t rest = matcher_subset(m, narrow, n_narrow);
    if (rest) walk(m, rest, 0, m->vocab->n_node, 0, bits, 0);
    if (m->failure) memset(bits, 0, m->vocab->n_words * sizeof *bits);
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

// In the order of states, which is that of every run; few frames.
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
    enum { FEW = 32 };
    uint32_t frame[FEW];
    const uint32_t n = m->set[set].n;
    struct keys keys = {.out = out};
    out->n = 0;
    if (n > FEW) return false;
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
static bool is_for_all(const struct matcher *m, uint32_t n_far) {
    return m->work * (1 + n_far) <= MASK_WORK && m->widest * (1 + n_far) <= MATCHER_SET_MAX;
}

// --- masks ---

// NULL: failed.
static struct kept_mask *make(struct matcher *m, uint32_t set) {
    struct mask_key key;
    uint32_t n_far = 0;
    const bool has_key = key_of(m, set, &key, &n_far);
    struct kept_mask *mask = has_key ? mask_cache_find(m->cache, &key) : NULL;
    if (mask) return mask;
    mask = kept_mask_create(m->vocab->n_words, has_key ? &key : NULL);
    if (!mask) {
        m->failure = matcher_out_of_memory;
        return NULL;
    }
    compute(m, set, mask->bits);
    if (m->failure) {
        kept_mask_release(mask);
        return NULL;
    }
    if (has_key && m->work >= KEPT_WORK && is_for_all(m, n_far)) mask_cache_add(m->cache, mask);
    return mask;
}

static const uint64_t *mask_of(struct matcher *m, uint32_t set) {
    for (uint32_t i = 0; i < MATCHER_MASKS; i++)
        if (m->mask[i].set == set) return m->mask[i].mask->bits;
    struct kept_mask *made = make(m, set);
    if (!made) return NULL;
    struct matcher_mask *mask = &m->mask[m->next_mask++ % MATCHER_MASKS];
    kept_mask_release(mask->mask);
    *mask = (struct matcher_mask){set, made};
    return made->bits;
}

void matcher_mask(struct matcher *m, uint64_t *allowed, int32_t n_vocab) {
    const size_t n_words = ((size_t)n_vocab + 63) / 64;
    if (!m->failure) matcher_tidy(m);
    const uint64_t *bits = NULL;
    for (int tries = 0; tries < 2 && !bits && matcher_set(m) && !m->failure; tries++) {
        bits = mask_of(m, matcher_set(m));
        if (tries || bits || !matcher_try_again(m)) break;
    }
    if (!bits) {
        memset(allowed, 0, n_words * sizeof *allowed);
        return;
    }
    for (size_t i = 0; i < n_words; i++) allowed[i] &= i < m->vocab->n_words ? bits[i] : 0;
}

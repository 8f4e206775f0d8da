// Masks: summaries for wide states, walks over the trie for the others and behind a summary's ends.
#include <stdlib.h>
#include <string.h>

#include "constraint/matcher.h"

enum {
    // Frames looked at for one mask: about 3 ms. Sentences of words take half of it with 262,144
    // tokens.
    MASK_WORK = 1 << 20,
    KEPT_WORK = 4000, // masks that take longer are kept for other runs
};

// Walks inside each other: a walk of one frame ends where its rule is left, and the sets behind may
// be one frame again. Deeper ones are walks of sets.
enum { MAX_WALKS = 16, LONE_NODES = 16 };

static void walk(struct matcher *m, uint32_t set, uint32_t begin, uint32_t end, uint32_t base,
                 uint64_t *bits, int depth);

static bool charge(struct matcher *m) {
    if (++m->work > MASK_WORK && !m->failure)
        m->failure = "the constraint is too ambiguous for this text";
    return !m->failure;
}

static bool may_grow(const struct matcher *m, struct frame f) {
    const uint8_t flags = m->machine->flags[f.state];
    const struct machine_rule *rule = &m->machine->rule[m->machine->rule_of[f.state]];
    return !(flags & STATE_COUNTED) || !(flags & STATE_ACCEPT) || rule->max < 0 ||
           (int64_t)f.count < rule->max;
}

// Whether a byte behind the frame may take another way than its own bytes.
static bool may_leave(const struct matcher *m, struct frame f, uint8_t byte) {
    const uint8_t flags = m->machine->flags[f.state];
    if (flags & STATE_CALLS) return true;
    if (!(flags & STATE_ACCEPT)) return false;
    const struct machine_rule *rule = &m->machine->rule[m->machine->rule_of[f.state]];
    return rule->follow[byte >> 6] >> (byte & 63) & 1;
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
        if (node->depth - 1u > base && may_leave(m, from, node->byte)) {
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
            may_grow(m, from) ? matcher_step_frame(m, from, node->byte) : (struct frame){0};
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

// Whether no token comes near a bound of the frame's rule.
static bool is_far(const struct machine_rule *rule, const struct summary *s, uint32_t count) {
    if (!rule->counted) return true;
    const int64_t most = s->need_max > s->leave_max ? s->need_max : s->leave_max;
    return count >= rule->min && (rule->max < 0 || count + most <= rule->max);
}

static void add_frame(struct matcher *m, const struct summary *s, struct frame f, uint64_t *bits) {
    const struct machine_rule *rule = &m->machine->rule[m->machine->rule_of[f.state]];
    const uint64_t room =
        rule->counted && rule->max >= 0 ? (uint64_t)rule->max - f.count : UINT64_MAX;
    add_inner(m, s, room, bits);
    add_leaves(m, s, f, bits);
}

// Counted text has another set behind every character, and far from its bounds the same tokens.
static void add_summary(struct matcher *m, const struct summary *s, struct frame f,
                        uint64_t *bits) {
    const struct machine_rule *rule = &m->machine->rule[m->machine->rule_of[f.state]];
    const size_t n_words = m->vocab->n_words;
    if (!rule->counted || !is_far(rule, s, f.count)) {
        add_frame(m, s, f, bits);
        return;
    }
    struct matcher_frame_mask *mask = NULL;
    for (uint32_t i = 0; i < MATCHER_MASKS && !mask; i++)
        if (m->frame_mask[i].state == f.state && m->frame_mask[i].parent == f.parent)
            mask = &m->frame_mask[i];
    if (!mask) {
        mask = &m->frame_mask[m->next_frame_mask++ % MATCHER_MASKS];
        mask->state = 0;
        if (!mask->bits) mask->bits = malloc(n_words * sizeof *mask->bits);
        if (!mask->bits) {
            m->failure = "out of memory for a constraint";
            return;
        }
        memset(mask->bits, 0, n_words * sizeof *mask->bits);
        const uint64_t before = m->work;
        add_frame(m, s, f, mask->bits);
        if (m->failure) return;
        mask->state = f.state;
        mask->parent = f.parent;
        mask->work = m->work - before;
    } else {
        m->work += mask->work;
    }
    for (size_t i = 0; i < n_words; i++) bits[i] |= mask->bits[i];
}

// A wide state whose summary found no memory. Its work is not counted with the others': a text
// fails with or without summaries.
static void add_wide(struct matcher *m, uint32_t frame, uint64_t *bits) {
    const uint64_t before = m->work;
    m->work = 0;
    walk(m, matcher_subset(m, &frame, 1), 0, m->vocab->n_node, 0, bits, 0);
    m->work = before;
}

static void compute(struct matcher *m, uint32_t set, uint64_t *bits) {
    uint32_t narrow[MATCHER_SET_MAX], n_narrow = 0;
    const uint32_t n = m->set[set].n;
    m->work = 0;
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
        else if (s == &summary_absent)
            add_wide(m, id, bits);
        else
            add_summary(m, s, f, bits);
    }
    const uint32_t rest = matcher_subset(m, narrow, n_narrow);
    if (rest) walk(m, rest, 0, m->vocab->n_node, 0, bits, 0);
    if (m->failure) memset(bits, 0, m->vocab->n_words * sizeof *bits);
}

// --- masks for all runs ---

void mask_cache_deinit(struct mask_cache *cache) {
    for (int i = 0; i < MASK_CACHE_MAX; i++) free(cache->at[i]);
}

// Numbers that stand for a set in every run: the states of its frames and of those behind them.
// False: too many, or counted ones, whose sets seldom come again.
static bool key_of(const struct matcher *m, uint32_t set, struct kept_mask *out) {
    out->n = 0;
    for (uint32_t i = 0; i < m->set[set].n; i++) {
        uint32_t at = m->pool[m->set[set].at + i];
        for (; at; at = m->frame[at].parent) {
            if (m->frame[at].count || out->n + 2 > MASK_KEY_MAX) return false;
            out->key[out->n++] = m->frame[at].state;
        }
        out->key[out->n++] = 0;
    }
    if (out->n == MASK_KEY_MAX) return false;
    out->key[out->n++] = m->set[set].can_end;
    return true;
}

static const struct kept_mask *cache_find(const struct mask_cache *cache,
                                          const struct kept_mask *key) {
    for (int i = 0; i < MASK_CACHE_MAX; i++) {
        const struct kept_mask *kept = atomic_load_explicit(&cache->at[i], memory_order_acquire);
        if (!kept) return NULL;
        if (kept->n == key->n && memcmp(kept->key, key->key, key->n * sizeof *key->key) == 0)
            return kept;
    }
    return NULL;
}

static void cache_add(struct mask_cache *cache, const struct kept_mask *key, const uint64_t *bits,
                      size_t n_words) {
    struct kept_mask *kept = malloc(sizeof *kept + n_words * sizeof *bits);
    if (!kept) return;
    *kept = *key;
    memcpy(kept->bits, bits, n_words * sizeof *bits);
    for (int i = 0; i < MASK_CACHE_MAX; i++) {
        struct kept_mask *none = NULL;
        if (atomic_compare_exchange_strong(&cache->at[i], &none, kept)) return;
    }
    free(kept);
}

static const uint64_t *mask_of(struct matcher *m, uint32_t set) {
    for (uint32_t i = 0; i < MATCHER_MASKS; i++)
        if (m->mask[i].set == set) return m->mask[i].bits;
    struct matcher_mask *mask = &m->mask[m->next_mask++ % MATCHER_MASKS];
    mask->set = 0;
    if (!mask->bits) mask->bits = malloc(m->vocab->n_words * sizeof *mask->bits);
    if (!mask->bits) {
        m->failure = "out of memory for a constraint";
        return NULL;
    }
    struct kept_mask key;
    const bool has_key = key_of(m, set, &key);
    const struct kept_mask *kept = has_key ? cache_find(m->cache, &key) : NULL;
    if (kept) {
        memcpy(mask->bits, kept->bits, m->vocab->n_words * sizeof *mask->bits);
    } else {
        compute(m, set, mask->bits);
        if (m->failure) return NULL;
        if (has_key && m->work > KEPT_WORK)
            cache_add(m->cache, &key, mask->bits, m->vocab->n_words);
    }
    mask->set = set;
    return mask->bits;
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

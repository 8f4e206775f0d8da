// Masks: summaries for wide states, walks over the trie for the others and behind a summary's ends.
#include <stdlib.h>
#include <string.h>

#include "constraint/matcher.h"

enum { MASK_WORK = 4 << 20 }; // frames looked at for one mask: some tens of milliseconds

// Adds the tokens below the nodes [begin, end) whose bytes the set can step over. base: the depth
// of the node above them.
static void walk(struct matcher *m, uint32_t set, uint32_t begin, uint32_t end, uint32_t base,
                 uint64_t *bits) {
    const struct constraint_vocab *v = m->vocab;
    m->path[base] = set;
    for (uint32_t i = begin; i < end;) {
        const struct trie_node *node = &v->node[i];
        const uint32_t to = matcher_next(m, m->path[node->depth - 1], node->byte);
        if (++m->work > MASK_WORK && !m->failure)
            m->failure = "the constraint is too ambiguous for this text";
        if (m->failure) return;
        if (!to) {
            i = node->skip;
            continue;
        }
        m->path[node->depth] = to;
        trie_tokens(v, node, bits);
        i++;
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
        if (set) walk(m, set, leave->node + 1, node->skip, node->depth, bits);
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
    walk(m, matcher_subset(m, &frame, 1), 0, m->vocab->n_node, 0, bits);
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
    if (rest) walk(m, rest, 0, m->vocab->n_node, 0, bits);
    if (m->failure) memset(bits, 0, m->vocab->n_words * sizeof *bits);
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
    compute(m, set, mask->bits);
    if (m->failure) return NULL;
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

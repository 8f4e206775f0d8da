// The product of two automata: pairs of states that can be reached. Of the second one a pair may
// have none, NOWHERE.
#include "constraint/product.h"

#include <string.h>

enum { NOWHERE = UINT32_MAX };

struct product {
    struct grammar *g;
    struct dfa a, b;
    bool is_difference;
    uint64_t *pair; // [capacity]
    uint32_t n, capacity;
    uint32_t *slot, n_slot; // by hash: index + 1
    struct graph_edge *edge;
    size_t n_edge, edge_capacity;
};

static bool rehash(struct product *p, uint32_t n_slot) {
    uint32_t *slot = grammar_alloc(p->g, n_slot, sizeof *slot);
    if (!slot) return false;
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t at = (uint32_t)(p->pair[i] * 0x9E3779B97F4A7C15u >> 32) & (n_slot - 1);
        while (slot[at]) at = (at + 1) & (n_slot - 1);
        slot[at] = i + 1;
    }
    p->slot = slot;
    p->n_slot = n_slot;
    return true;
}

static uint32_t pair_of(struct product *p, uint32_t a, uint32_t b) {
    if (2 * (p->n + 1) > p->n_slot && !rehash(p, p->n_slot ? 2 * p->n_slot : 256)) return NOWHERE;
    const uint64_t pair = (uint64_t)a << 32 | b;
    uint32_t at = (uint32_t)(pair * 0x9E3779B97F4A7C15u >> 32) & (p->n_slot - 1);
    for (; p->slot[at]; at = (at + 1) & (p->n_slot - 1))
        if (p->pair[p->slot[at] - 1] == pair) return p->slot[at] - 1;
    if (p->n == p->capacity) {
        const uint32_t capacity = p->capacity ? 2 * p->capacity : 256;
        uint64_t *grown = grammar_alloc(p->g, capacity, sizeof *grown);
        if (!grown) return NOWHERE;
        if (p->n) memcpy(grown, p->pair, p->n * sizeof *grown);
        p->pair = grown;
        p->capacity = capacity;
    }
    p->pair[p->n] = pair;
    p->slot[at] = p->n + 1;
    return p->n++;
}

static bool edge_add(struct product *p, uint32_t from, uint32_t to, const struct node *node) {
    if (!node) return false;
    if (p->n_edge == p->edge_capacity) {
        const size_t capacity = p->edge_capacity ? 2 * p->edge_capacity : 256;
        struct graph_edge *grown = grammar_alloc(p->g, capacity, sizeof *grown);
        if (!grown) return false;
        if (p->n_edge) memcpy(grown, p->edge, p->n_edge * sizeof *grown);
        p->edge = grown;
        p->edge_capacity = capacity;
    }
    p->edge[p->n_edge++] = (struct graph_edge){from, to, node};
    return true;
}

// The edge of b's state that holds a byte, and the end of the stretch that behaves alike. *from:
// the edges before it end before the byte; it follows bytes that ascend.
static uint32_t target(const struct dfa *b, uint32_t state, int byte, uint32_t *from, int *end) {
    *end = 255;
    if (state == NOWHERE) return NOWHERE;
    const struct dfa_state *s = &b->state[state];
    for (; *from < s->n_edge; ++*from) {
        const struct dfa_edge *e = &b->edge[s->edge + *from];
        if (e->hi < byte) continue;
        if (e->lo > byte) {
            *end = e->lo - 1;
            return NOWHERE;
        }
        *end = e->hi;
        return e->to;
    }
    return NOWHERE;
}

static bool expand(struct product *p, uint32_t from) {
    const uint32_t a = (uint32_t)(p->pair[from] >> 32), b = (uint32_t)p->pair[from];
    const struct dfa_state *s = &p->a.state[a];
    for (uint32_t i = 0, at = 0; i < s->n_edge; i++) {
        const struct dfa_edge *e = &p->a.edge[s->edge + i];
        for (int lo = e->lo, hi; lo <= e->hi; lo = hi + 1) {
            const uint32_t to_b = target(&p->b, b, lo, &at, &hi);
            if (hi > e->hi) hi = e->hi;
            if (!grammar_work(p->g, 4)) return false;
            if (to_b == NOWHERE && !p->is_difference) continue;
            const uint32_t to = pair_of(p, e->to, to_b);
            if (p->g->status || !edge_add(p, from, to, node_byte(p->g, (uint8_t)lo, (uint8_t)hi)))
                return false;
        }
    }
    return true;
}

static bool is_end(const struct product *p, uint32_t i) {
    const uint32_t b = (uint32_t)p->pair[i];
    const bool in_b = b != NOWHERE && p->b.state[b].accept;
    return p->a.state[p->pair[i] >> 32].accept && in_b != p->is_difference;
}

static const struct node *product(struct grammar *g, const struct node *a, const struct node *b,
                                  bool is_difference) {
    struct product p = {.g = g, .is_difference = is_difference};
    if (!a || !b || !dfa_build(g, a, false, &p.a) || !dfa_build(g, b, false, &p.b)) return NULL;
    if (p.a.n_call || p.b.n_call)
        return grammar_fail(g, RN_ERR_ARG, "a repetition is too long to be combined with others");
    if (pair_of(&p, 0, 0) == NOWHERE) return NULL;
    for (uint32_t i = 0; i < p.n; i++)
        if (!expand(&p, i)) return NULL;
    const struct node *empty = node_empty(g);
    const uint32_t n = p.n;
    for (uint32_t i = 0; i < n; i++)
        if (is_end(&p, i) && !edge_add(&p, i, n, empty)) return NULL;
    return node_graph(g, p.edge, p.n_edge, n + 1);
}

const struct node *node_both(struct grammar *g, const struct node *a, const struct node *b) {
    return product(g, a, b, false);
}

const struct node *node_without(struct grammar *g, const struct node *a, const struct node *b) {
    return product(g, a, b, true);
}

bool node_matches(struct grammar *g, const struct node *node, const char *text, size_t len) {
    struct dfa dfa;
    if (!node || !dfa_build(g, node, false, &dfa)) return false;
    uint32_t state = 0;
    for (size_t i = 0; i < len && state != NOWHERE; i++) {
        uint32_t from = 0;
        int end;
        state = target(&dfa, state, (uint8_t)text[i], &from, &end);
    }
    return state != NOWHERE && dfa.state[state].accept;
}

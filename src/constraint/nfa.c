// Thompson's construction. The trees of front ends are at most a few hundred levels deep, because
// their sources are at most GRAMMAR_MAX_DEPTH deep; deeper ones are refused.
#include "constraint/nfa.h"

#include <string.h>

#include "base/utf8.h"

enum { MAX_NODE_DEPTH = 1000, MAX_NFA_STATES = 1 << 21 };

static void *grow(struct grammar *g, void *old, uint32_t *capacity, uint32_t used, size_t size) {
    const uint32_t wanted = *capacity ? 2 * *capacity : 256;
    void *grown = grammar_alloc(g, wanted, size);
    if (!grown) return NULL;
    if (used) memcpy(grown, old, used * size);
    *capacity = wanted;
    return grown;
}

static uint32_t add_state(struct grammar *g, struct nfa *nfa) {
    if (nfa->n == nfa->capacity) {
        if (nfa->n >= MAX_NFA_STATES) {
            grammar_fail(g, RN_ERR_ARG, "the constraint is too large: more than %d states",
                         MAX_NFA_STATES);
            return UINT32_MAX;
        }
        uint32_t *grown = grow(g, nfa->first, &nfa->capacity, nfa->n, sizeof *grown);
        if (!grown) return UINT32_MAX;
        nfa->first = grown;
    }
    if (!grammar_work(g, 1)) return UINT32_MAX;
    nfa->first[nfa->n] = UINT32_MAX;
    return nfa->n++;
}

static bool add_edge(struct grammar *g, struct nfa *nfa, uint32_t from, struct nfa_edge edge) {
    if (from == UINT32_MAX || edge.to == UINT32_MAX) return false;
    if (nfa->n_edge == nfa->edge_capacity) {
        struct nfa_edge *grown =
            grow(g, nfa->edge, &nfa->edge_capacity, nfa->n_edge, sizeof *grown);
        if (!grown) return false;
        nfa->edge = grown;
    }
    if (!grammar_work(g, 1)) return false;
    edge.next = nfa->first[from];
    nfa->edge[nfa->n_edge] = edge;
    nfa->first[from] = nfa->n_edge++;
    return true;
}

static bool add_empty(struct grammar *g, struct nfa *nfa, uint32_t from, uint32_t to) {
    return add_edge(g, nfa, from, (struct nfa_edge){.to = to, .kind = NFA_EMPTY});
}

static bool add_bytes(struct grammar *g, struct nfa *nfa, uint32_t from, uint8_t lo, uint8_t hi,
                      uint32_t to) {
    return add_edge(g, nfa, from,
                    (struct nfa_edge){.to = to, .kind = NFA_BYTES, .lo = lo, .hi = hi});
}

// --- classes ---

// The state from which n bytes of continuation lead to `to`; shared by the ranges of a class.
static uint32_t tail_state(struct grammar *g, struct nfa *nfa, uint32_t *tail, int n) {
    for (int i = 1; i <= n; i++) {
        if (tail[i] != UINT32_MAX) continue;
        const uint32_t state = add_state(g, nfa);
        if (!add_bytes(g, nfa, state, 0x80, 0xBF, tail[i - 1])) return UINT32_MAX;
        tail[i] = state;
    }
    return tail[n];
}

// Code points whose encodings differ in ranges of bytes only.
static bool add_sequence(struct grammar *g, struct nfa *nfa, uint32_t from, struct range range,
                         uint32_t *tail) {
    uint8_t lo[4], hi[4];
    const int n = (int)utf8_encode(range.lo, lo);
    utf8_encode(range.hi, hi);
    int fixed = n; // bytes before the free ones
    while (fixed > 1 && lo[fixed - 1] == 0x80 && hi[fixed - 1] == 0xBF) fixed--;
    for (int i = 0; i < fixed; i++) {
        const uint32_t to =
            i + 1 == fixed ? tail_state(g, nfa, tail, n - fixed) : add_state(g, nfa);
        if (!add_bytes(g, nfa, from, lo[i], hi[i], to)) return false;
        from = to;
    }
    return true;
}

// Splits a range whose encodings are equally long until each part is such a sequence.
static bool add_range(struct grammar *g, struct nfa *nfa, uint32_t from, struct range range,
                      uint32_t *tail) {
    struct range todo[16];
    int n = 0;
    todo[n++] = range;
    while (n) {
        struct range r = todo[--n];
        uint8_t buffer[4];
        const int length = (int)utf8_encode(r.lo, buffer);
        bool is_split = false;
        for (int i = 1; i < length && !is_split; i++) {
            const uint32_t mask = (1u << (6 * i)) - 1;
            if ((r.lo & ~mask) == (r.hi & ~mask)) continue;
            uint32_t cut = 0;
            if (r.lo & mask)
                cut = (r.lo | mask) + 1;
            else if ((r.hi & mask) != mask)
                cut = r.hi & ~mask;
            if (!cut) continue;
            todo[n++] = (struct range){cut, r.hi};
            todo[n++] = (struct range){r.lo, cut - 1};
            is_split = true;
        }
        if (!is_split && !add_sequence(g, nfa, from, r, tail)) return false;
    }
    return true;
}

static bool add_class(struct grammar *g, struct nfa *nfa, const struct node *node, uint32_t from,
                      uint32_t to) {
    // parts of equal length, without the surrogates
    static const struct range part[] = {
        {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}};
    uint32_t tail[4] = {to, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    for (uint32_t i = 0; i < node->n; i++) {
        for (size_t k = 0; k < sizeof part / sizeof *part; k++) {
            const uint32_t lo = node->range[i].lo > part[k].lo ? node->range[i].lo : part[k].lo;
            const uint32_t hi = node->range[i].hi < part[k].hi ? node->range[i].hi : part[k].hi;
            if (lo <= hi && !add_range(g, nfa, from, (struct range){lo, hi}, tail)) return false;
        }
    }
    return true;
}

// --- nodes ---

static bool add_node(struct grammar *g, struct nfa *nfa, const struct node *node, uint32_t from,
                     uint32_t to, int depth);

static bool add_bytes_node(struct grammar *g, struct nfa *nfa, const struct node *node,
                           uint32_t from, uint32_t to) {
    for (uint32_t i = 0; i < node->n; i++) {
        const uint32_t next = i + 1 == node->n ? to : add_state(g, nfa);
        if (!add_bytes(g, nfa, from, node->byte[i], node->byte[i], next)) return false;
        from = next;
    }
    return true;
}

static bool add_seq(struct grammar *g, struct nfa *nfa, const struct node *node, uint32_t from,
                    uint32_t to, int depth) {
    for (uint32_t i = 0; i < node->n; i++) {
        const uint32_t next = i + 1 == node->n ? to : add_state(g, nfa);
        if (next == UINT32_MAX || !add_node(g, nfa, node->part[i], from, next, depth)) return false;
        from = next;
    }
    return true;
}

// A loop has a state of its own: nothing but the repeat enters or leaves it.
static bool add_repeat(struct grammar *g, struct nfa *nfa, const struct node *node, uint32_t from,
                       uint32_t to, int depth) {
    const struct node *part = node->part[0];
    for (int64_t i = 0; i < node->min; i++) {
        const uint32_t next = add_state(g, nfa);
        if (next == UINT32_MAX || !add_node(g, nfa, part, from, next, depth)) return false;
        from = next;
    }
    if (node->max < 0) {
        const uint32_t loop = add_state(g, nfa);
        return add_empty(g, nfa, from, loop) && add_node(g, nfa, part, loop, loop, depth) &&
               add_empty(g, nfa, loop, to);
    }
    for (int64_t i = node->min; i < node->max; i++) {
        const uint32_t next = add_state(g, nfa);
        if (!add_empty(g, nfa, from, to) || next == UINT32_MAX ||
            !add_node(g, nfa, part, from, next, depth))
            return false;
        from = next;
    }
    return add_empty(g, nfa, from, to);
}

static bool add_graph(struct grammar *g, struct nfa *nfa, const struct node *node, uint32_t from,
                      uint32_t to, int depth) {
    uint32_t *state = grammar_alloc(g, node->graph.n_state, sizeof *state);
    if (!state) return false;
    for (uint32_t i = 0; i < node->graph.n_state; i++) {
        state[i] = add_state(g, nfa);
        if (state[i] == UINT32_MAX) return false;
    }
    if (!add_empty(g, nfa, from, state[0]) ||
        !add_empty(g, nfa, state[node->graph.n_state - 1], to))
        return false;
    for (uint32_t i = 0; i < node->n; i++) {
        const struct graph_edge *edge = &node->graph.edge[i];
        if (!add_node(g, nfa, edge->node, state[edge->from], state[edge->to], depth)) return false;
    }
    return true;
}

static bool add_node(struct grammar *g, struct nfa *nfa, const struct node *node, uint32_t from,
                     uint32_t to, int depth) {
    if (from == UINT32_MAX || to == UINT32_MAX || !grammar_work(g, 1)) return false;
    if (++depth > MAX_NODE_DEPTH) {
        grammar_fail(g, RN_ERR_ARG, "the constraint is nested too deeply");
        return false;
    }
    switch (node->kind) {
    case NODE_EMPTY:
        return add_empty(g, nfa, from, to);
    case NODE_NEVER:
        return true;
    case NODE_CLASS:
        return add_class(g, nfa, node, from, to);
    case NODE_BYTE:
        return add_bytes(g, nfa, from, (uint8_t)node->range->lo, (uint8_t)node->range->hi, to);
    case NODE_BYTES:
        return add_bytes_node(g, nfa, node, from, to);
    case NODE_SEQ:
        return add_seq(g, nfa, node, from, to, depth);
    case NODE_ALT:
        for (uint32_t i = 0; i < node->n; i++)
            if (!add_node(g, nfa, node->part[i], from, to, depth)) return false;
        return true;
    case NODE_REPEAT:
        return add_repeat(g, nfa, node, from, to, depth);
    case NODE_CALL:
        return add_edge(g, nfa, from,
                        (struct nfa_edge){.to = to, .kind = NFA_CALL, .rule = node->rule});
    case NODE_GRAPH:
        return add_graph(g, nfa, node, from, to, depth);
    }
    return false;
}

bool nfa_build(struct grammar *g, const struct node *node, bool counted, struct nfa *nfa) {
    nfa->n = nfa->n_edge = 0;
    nfa->start = add_state(g, nfa);
    nfa->end = counted ? nfa->start : add_state(g, nfa);
    return node && nfa->start != UINT32_MAX && nfa->end != UINT32_MAX &&
           add_node(g, nfa, node, nfa->start, nfa->end, 0);
}

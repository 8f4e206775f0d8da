// The subset construction, with calls as symbols, and Moore's minimization. A set of states is a
// sorted list of those with a byte or a call, and of the end; empty edges are followed before.
#include <stdlib.h>
#include <string.h>

#include "constraint/automaton.h"
#include "constraint/nfa.h"

// Rounds of the minimization may be as many as states, so a long chain is left as it is.
enum { MINIMIZE_WORK = 1 << 20 };

struct subset {
    struct grammar *g;
    struct nfa nfa;
    struct dfa *dfa;
    uint32_t *set_at, *set_n; // [dfa->capacity] of each state, in the pool
    uint32_t *pool;
    uint32_t n_pool, pool_capacity;
    uint32_t *slot; // [n_slot] hash table of sets: index + 1
    uint32_t n_slot;
    uint32_t *stamp, now; // [nfa.n] visited in the closure `now`
    uint32_t *list;       // [nfa.n] the closure
    uint32_t *stack;      // [nfa.n]
    uint32_t n_list;
    struct nfa_edge *out; // the bytes of a set, and its calls
    uint32_t n_out, out_capacity;
    uint32_t *seed; // [out_capacity]
};

static void *grow_to(struct grammar *g, void *old, uint32_t *capacity, uint32_t used,
                     uint32_t wanted, size_t size) {
    if (wanted <= *capacity) return old;
    uint32_t next = *capacity ? *capacity : 64;
    while (next < wanted) next *= 2;
    void *grown = grammar_alloc(g, next, size);
    if (!grown) return NULL;
    if (used) memcpy(grown, old, used * size);
    *capacity = next;
    return grown;
}

static int compare_u32(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static bool is_kept(const struct subset *s, uint32_t state) {
    if (state == s->nfa.end) return true;
    for (uint32_t e = s->nfa.first[state]; e != UINT32_MAX; e = s->nfa.edge[e].next)
        if (s->nfa.edge[e].kind != NFA_EMPTY) return true;
    return false;
}

// The states that empty edges reach from the seeds, into s->list.
static bool closure(struct subset *s, const uint32_t *seed, uint32_t n) {
    uint32_t n_stack = 0, visits = 0;
    s->now++;
    s->n_list = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (s->stamp[seed[i]] == s->now) continue;
        s->stamp[seed[i]] = s->now;
        s->stack[n_stack++] = seed[i];
    }
    while (n_stack) {
        const uint32_t state = s->stack[--n_stack];
        if (is_kept(s, state)) s->list[s->n_list++] = state;
        for (uint32_t e = s->nfa.first[state]; e != UINT32_MAX; e = s->nfa.edge[e].next) {
            visits++;
            const struct nfa_edge *edge = &s->nfa.edge[e];
            if (edge->kind != NFA_EMPTY || s->stamp[edge->to] == s->now) continue;
            s->stamp[edge->to] = s->now;
            s->stack[n_stack++] = edge->to;
        }
    }
    qsort(s->list, s->n_list, sizeof *s->list, compare_u32);
    return grammar_work(s->g, 4 + visits + 4 * s->n_list);
}

static uint64_t hash_list(const uint32_t *list, uint32_t n) {
    uint64_t h = n + 0x9E3779B97F4A7C15u;
    for (uint32_t i = 0; i < n; i++) {
        h = (h ^ list[i]) * 0xFF51AFD7ED558CCDu;
        h ^= h >> 32;
    }
    return h;
}

static bool slots_grow(struct subset *s) {
    const uint32_t n = s->n_slot ? 2 * s->n_slot : 256;
    uint32_t *slot = grammar_alloc(s->g, n, sizeof *slot);
    if (!slot) return false;
    for (uint32_t i = 0; i < s->dfa->n; i++) {
        uint64_t at = hash_list(s->pool + s->set_at[i], s->set_n[i]) & (n - 1);
        while (slot[at]) at = (at + 1) & (n - 1);
        slot[at] = i + 1;
    }
    s->slot = slot;
    s->n_slot = n;
    return true;
}

static bool states_grow(struct subset *s) {
    struct dfa *dfa = s->dfa;
    uint32_t capacity = dfa->capacity, at_capacity = capacity, n_capacity = capacity;
    struct dfa_state *state =
        grow_to(s->g, dfa->state, &capacity, dfa->n, dfa->n + 1, sizeof *state);
    uint32_t *set_at = grow_to(s->g, s->set_at, &at_capacity, dfa->n, dfa->n + 1, sizeof *set_at);
    uint32_t *set_n = grow_to(s->g, s->set_n, &n_capacity, dfa->n, dfa->n + 1, sizeof *set_n);
    if (!state || !set_at || !set_n) return false;
    dfa->state = state;
    dfa->capacity = capacity;
    s->set_at = set_at;
    s->set_n = set_n;
    return true;
}

// The state of the set in s->list; UINT32_MAX: an error.
static uint32_t intern(struct subset *s) {
    if (2 * (s->dfa->n + 1) > s->n_slot && !slots_grow(s)) return UINT32_MAX;
    uint64_t at = hash_list(s->list, s->n_list) & (s->n_slot - 1);
    for (; s->slot[at]; at = (at + 1) & (s->n_slot - 1)) {
        const uint32_t found = s->slot[at] - 1;
        if (s->set_n[found] == s->n_list &&
            memcmp(s->pool + s->set_at[found], s->list, s->n_list * sizeof *s->list) == 0)
            return found;
    }
    if (s->dfa->n >= MACHINE_MAX_STATES) {
        grammar_fail(s->g, RN_ERR_ARG, "the constraint is too large: more than %d states",
                     MACHINE_MAX_STATES);
        return UINT32_MAX;
    }
    uint32_t *pool = grow_to(s->g, s->pool, &s->pool_capacity, s->n_pool, s->n_pool + s->n_list + 1,
                             sizeof *pool);
    if (!pool || !states_grow(s)) return UINT32_MAX;
    s->pool = pool;
    memcpy(pool + s->n_pool, s->list, s->n_list * sizeof *pool);
    const uint32_t state = s->dfa->n++;
    s->set_at[state] = s->n_pool;
    s->set_n[state] = s->n_list;
    s->n_pool += s->n_list;
    s->slot[at] = state + 1;
    bool accept = false;
    for (uint32_t i = 0; i < s->n_list; i++) accept |= s->list[i] == s->nfa.end;
    s->dfa->state[state] = (struct dfa_state){.accept = accept};
    return state;
}

static bool edge_add(struct grammar *g, struct dfa *dfa, struct dfa_edge edge) {
    struct dfa_edge *grown =
        grow_to(g, dfa->edge, &dfa->edge_capacity, dfa->n_edge, dfa->n_edge + 1, sizeof *grown);
    if (!grown) return false;
    dfa->edge = grown;
    dfa->edge[dfa->n_edge++] = edge;
    return true;
}

static bool call_add(struct grammar *g, struct dfa *dfa, struct dfa_call call) {
    struct dfa_call *grown =
        grow_to(g, dfa->call, &dfa->call_capacity, dfa->n_call, dfa->n_call + 1, sizeof *grown);
    if (!grown) return false;
    dfa->call = grown;
    dfa->call[dfa->n_call++] = call;
    return true;
}

static int compare_rule(const void *a, const void *b) {
    const struct nfa_edge *x = a, *y = b;
    return x->rule < y->rule ? -1 : x->rule > y->rule;
}

// The edges of a state's set of one kind, into s->out.
static bool gather(struct subset *s, uint32_t state, enum nfa_kind kind) {
    s->n_out = 0;
    for (uint32_t i = 0; i < s->set_n[state]; i++) {
        const uint32_t member = s->pool[s->set_at[state] + i];
        for (uint32_t e = s->nfa.first[member]; e != UINT32_MAX; e = s->nfa.edge[e].next) {
            if (s->nfa.edge[e].kind != kind) continue;
            uint32_t seeds = s->out_capacity;
            struct nfa_edge *out =
                grow_to(s->g, s->out, &s->out_capacity, s->n_out, s->n_out + 1, sizeof *out);
            if (!out) return false;
            s->out = out;
            if (seeds != s->out_capacity) {
                s->seed = grammar_alloc(s->g, s->out_capacity, sizeof *s->seed);
                if (!s->seed) return false;
            }
            s->out[s->n_out++] = s->nfa.edge[e];
        }
    }
    return grammar_work(s->g, 1 + s->set_n[state] + s->n_out);
}

static bool expand_bytes(struct subset *s, uint32_t state) {
    if (!gather(s, state, NFA_BYTES)) return false;
    bool cut[257] = {false};
    for (uint32_t i = 0; i < s->n_out; i++) cut[s->out[i].lo] = cut[s->out[i].hi + 1] = true;
    s->dfa->state[state].edge = s->dfa->n_edge;
    for (int lo = 0, hi; lo < 256; lo = hi) {
        for (hi = lo + 1; hi < 256 && !cut[hi];) hi++;
        uint32_t n = 0;
        for (uint32_t i = 0; i < s->n_out; i++)
            if (s->out[i].lo <= lo && s->out[i].hi >= lo) s->seed[n++] = s->out[i].to;
        if (!grammar_work(s->g, 1 + s->n_out / 4)) return false;
        if (n == 0) continue;
        if (!closure(s, s->seed, n)) return false;
        const uint32_t to = s->n_list ? intern(s) : UINT32_MAX;
        if (s->g->status) return false;
        if (to == UINT32_MAX) continue; // states that lead nowhere
        struct dfa_edge *last =
            s->dfa->n_edge > s->dfa->state[state].edge ? &s->dfa->edge[s->dfa->n_edge - 1] : NULL;
        if (last && last->to == to && last->hi + 1 == lo)
            last->hi = (uint8_t)(hi - 1);
        else if (!edge_add(s->g, s->dfa, (struct dfa_edge){(uint8_t)lo, (uint8_t)(hi - 1), to}))
            return false;
    }
    s->dfa->state[state].n_edge = s->dfa->n_edge - s->dfa->state[state].edge;
    return true;
}

static bool expand_calls(struct subset *s, uint32_t state) {
    if (!gather(s, state, NFA_CALL)) return false;
    if (s->n_out) qsort(s->out, s->n_out, sizeof *s->out, compare_rule);
    s->dfa->state[state].call = s->dfa->n_call;
    for (uint32_t i = 0, k; i < s->n_out; i = k) {
        for (k = i; k < s->n_out && s->out[k].rule == s->out[i].rule; k++)
            s->seed[k - i] = s->out[k].to;
        if (!closure(s, s->seed, k - i)) return false;
        const uint32_t to = s->n_list ? intern(s) : UINT32_MAX;
        if (s->g->status) return false;
        if (to != UINT32_MAX && !call_add(s->g, s->dfa, (struct dfa_call){s->out[i].rule, to}))
            return false;
    }
    s->dfa->state[state].n_call = s->dfa->n_call - s->dfa->state[state].call;
    return true;
}

static bool construct(struct subset *s) {
    s->stamp = grammar_alloc(s->g, s->nfa.n, sizeof *s->stamp);
    s->list = grammar_alloc(s->g, s->nfa.n, sizeof *s->list);
    s->stack = grammar_alloc(s->g, s->nfa.n, sizeof *s->stack);
    if (!s->stamp || !s->list || !s->stack || !closure(s, &s->nfa.start, 1)) return false;
    if (intern(s) == UINT32_MAX) return false;
    for (uint32_t i = 0; i < s->dfa->n; i++)
        if (!expand_bytes(s, i) || !expand_calls(s, i)) return false;
    return true;
}

// --- minimization ---

static uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9FB21C651E98DF25u;
    return h ^ h >> 29;
}

// A hash of what a state does, with classes for states. Adjacent edges into one class are one edge.
static uint64_t signature(const struct dfa *dfa, uint32_t state, const uint32_t *class) {
    const struct dfa_state *s = &dfa->state[state];
    uint64_t h = mix(0x2545F4914F6CDD1Du, class[state]);
    for (uint32_t i = 0; i < s->n_edge;) {
        const struct dfa_edge *e = &dfa->edge[s->edge + i];
        uint32_t k = i + 1;
        while (k < s->n_edge && dfa->edge[s->edge + k].lo == dfa->edge[s->edge + k - 1].hi + 1 &&
               class[dfa->edge[s->edge + k].to] == class[e->to])
            k++;
        h = mix(h, e->lo | (uint64_t)dfa->edge[s->edge + k - 1].hi << 8 |
                       (uint64_t) class[e->to] << 16);
        i = k;
    }
    for (uint32_t i = 0; i < s->n_call; i++) {
        const struct dfa_call *call = &dfa->call[s->call + i];
        h = mix(h, call->rule | (uint64_t) class[call->to] << 32);
    }
    return h;
}

struct keyed {
    uint64_t key;
    uint32_t state;
};

static int compare_key(const void *a, const void *b) {
    const struct keyed *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->state < y->state ? -1 : x->state > y->state;
}

// Splits classes until none splits; false where that takes too long.
static bool refine(struct grammar *g, const struct dfa *dfa, uint32_t *class, uint32_t *n_class) {
    struct keyed *keyed = grammar_alloc(g, dfa->n, sizeof *keyed);
    if (!keyed) return false;
    uint64_t work = 0;
    const uint64_t round = 8 * (uint64_t)dfa->n + dfa->n_edge + dfa->n_call;
    for (uint32_t n = 0;;) {
        work += round;
        if (work > MINIMIZE_WORK || !grammar_work(g, round)) return false;
        for (uint32_t i = 0; i < dfa->n; i++)
            keyed[i] = (struct keyed){signature(dfa, i, class), i};
        qsort(keyed, dfa->n, sizeof *keyed, compare_key);
        uint32_t found = 0;
        for (uint32_t i = 0; i < dfa->n; i++) {
            if (i && keyed[i].key != keyed[i - 1].key) found++;
            class[keyed[i].state] = found;
        }
        if (++found == n) break;
        n = *n_class = found;
    }
    return true;
}

// Numbers classes in the order of their first states, so that the start stays 0.
static bool merge_classes(struct grammar *g, struct dfa *dfa, uint32_t *class, uint32_t n_class) {
    uint32_t *name = grammar_alloc(g, n_class, sizeof *name);
    if (!name) return false;
    uint32_t n = 0;
    for (uint32_t i = 0; i < dfa->n; i++) {
        const bool is_first = name[class[i]] == 0;
        if (is_first) name[class[i]] = ++n;
        if (is_first) dfa->state[n - 1] = dfa->state[i];
    }
    for (uint32_t i = 0; i < dfa->n_edge; i++) dfa->edge[i].to = name[class[dfa->edge[i].to]] - 1;
    for (uint32_t i = 0; i < dfa->n_call; i++) dfa->call[i].to = name[class[dfa->call[i].to]] - 1;
    dfa->n = n;
    return true;
}

static bool minimize(struct grammar *g, struct dfa *dfa) {
    uint32_t *class = grammar_alloc(g, dfa->n, sizeof *class), n_class = 0;
    if (!class) return false;
    for (uint32_t i = 0; i < dfa->n; i++) class[i] = dfa->state[i].accept;
    if (!refine(g, dfa, class, &n_class)) return !g->status;
    return n_class == dfa->n || merge_classes(g, dfa, class, n_class);
}

bool dfa_build(struct grammar *g, const struct node *node, bool counted, struct dfa *out) {
    struct subset s = {.g = g, .dfa = out};
    *out = (struct dfa){0};
    return nfa_build(g, node, counted, &s.nfa) && construct(&s) && minimize(g, out);
}

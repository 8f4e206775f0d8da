// Rules to one machine: their automata side by side, without states that lead nowhere.
#include "constraint/automaton.h"

#include <stdlib.h>
#include <string.h>

struct assembly {
    struct grammar *g;
    struct machine *machine;
    struct dfa *dfa; // [n_rule]
    bool *live;      // [n_state] the end of the rule can be reached
    bool *null;      // [n_state] without a byte from the start of its rule
};

static uint32_t state_of(const struct assembly *a, uint32_t rule, uint32_t local) {
    return a->machine->rule[rule].base + local;
}

static bool has_text(const struct assembly *a, uint32_t rule);

// Whether the text of a rule can go on behind a state, by the states known to be live so far.
static bool goes_on(const struct assembly *a, uint32_t rule, uint32_t local) {
    const struct dfa *dfa = &a->dfa[rule];
    const struct dfa_state *s = &dfa->state[local];
    for (uint32_t i = 0; i < s->n_edge; i++)
        if (a->live[state_of(a, rule, dfa->edge[s->edge + i].to)]) return true;
    for (uint32_t i = 0; i < s->n_call; i++) {
        const struct dfa_call *call = &dfa->call[s->call + i];
        if (a->live[state_of(a, rule, call->to)] && has_text(a, call->rule)) return true;
    }
    return false;
}

// Whether a rule has a text. The automaton of a counted rule accepts before its first unit; where
// the rule needs units, one has to be possible. A unit calls no counted rule, so this ends.
static bool has_text(const struct assembly *a, uint32_t rule) {
    const struct rule *r = &a->g->rule[rule];
    if (!a->live[state_of(a, rule, 0)]) return false;
    return !r->counted || r->min == 0 || goes_on(a, rule, 0);
}

static bool is_live(const struct assembly *a, uint32_t rule, uint32_t local) {
    return a->dfa[rule].state[local].accept || goes_on(a, rule, local);
}

// States backwards, because they are numbered from the start on, and rules in both directions,
// because they may stand before or behind their callers: few rounds do for most grammars.
static bool find_live(struct assembly *a) {
    const uint32_t n_rule = a->machine->n_rule;
    bool changed = true;
    for (uint32_t round = 0; changed; round++) {
        changed = false;
        for (uint32_t k = 0; k < n_rule; k++) {
            const uint32_t rule = round & 1 ? k : n_rule - 1 - k;
            const struct dfa *dfa = &a->dfa[rule];
            if (!grammar_work(a->g, 1 + 2 * (uint64_t)dfa->n + dfa->n_edge + dfa->n_call))
                return false;
            for (uint32_t i = dfa->n; i-- > 0;) {
                if (a->live[state_of(a, rule, i)] || !is_live(a, rule, i)) continue;
                a->live[state_of(a, rule, i)] = true;
                changed = true;
            }
        }
    }
    if (!has_text(a, a->machine->start))
        grammar_fail(a->g, RN_ERR_ARG, "the constraint allows no text");
    return !a->g->status;
}

// Whether the rule may be empty by what is known so far; marks states reached without a byte.
static bool mark_null(struct assembly *a, uint32_t rule) {
    const struct dfa *dfa = &a->dfa[rule];
    bool nullable = false;
    for (bool changed = true; changed;) {
        changed = false;
        if (!grammar_work(a->g, 1 + dfa->n + dfa->n_call)) return false;
        for (uint32_t i = 0; i < dfa->n; i++) {
            const struct dfa_state *s = &dfa->state[i];
            if (!a->null[state_of(a, rule, i)]) continue;
            nullable |= s->accept;
            for (uint32_t k = 0; k < s->n_call; k++) {
                const struct dfa_call *call = &dfa->call[s->call + k];
                bool *to = &a->null[state_of(a, rule, call->to)];
                if (!a->machine->rule[call->rule].nullable || *to) continue;
                *to = changed = true;
            }
        }
    }
    return nullable && !(a->g->rule[rule].counted && a->g->rule[rule].min > 0);
}

static bool find_nullable(struct assembly *a) {
    struct machine *m = a->machine;
    for (uint32_t i = 0; i < m->n_rule; i++) a->null[state_of(a, i, 0)] = true;
    bool changed = true;
    for (uint32_t round = 0; changed && !a->g->status; round++) {
        changed = false;
        for (uint32_t k = 0; k < m->n_rule; k++) {
            const uint32_t i = round & 1 ? m->n_rule - 1 - k : k;
            const bool nullable = mark_null(a, i);
            if (nullable && !m->rule[i].nullable) m->rule[i].nullable = changed = true;
        }
    }
    return !a->g->status;
}

// A walk in depth over "starts with a call of", with its own stack.
static bool refuse_left_recursion(struct assembly *a) {
    struct machine *m = a->machine;
    struct visit {
        uint32_t rule, state, call;
    } *stack = grammar_alloc(a->g, m->n_rule, sizeof *stack);
    uint8_t *color = grammar_alloc(a->g, m->n_rule, 1); // 1: on the stack, 2: done
    if (!stack || !color) return false;
    for (uint32_t root = 0; root < m->n_rule; root++) {
        if (color[root]) continue;
        uint32_t n = 0;
        stack[n++] = (struct visit){root, 0, 0};
        color[root] = 1;
        while (n) {
            struct visit *top = &stack[n - 1];
            const struct dfa *dfa = &a->dfa[top->rule];
            if (!grammar_work(a->g, 1)) return false;
            if (top->state == dfa->n) {
                color[top->rule] = 2;
                n--;
                continue;
            }
            const struct dfa_state *s = &dfa->state[top->state];
            if (!a->null[state_of(a, top->rule, top->state)] || top->call == s->n_call) {
                top->state++;
                top->call = 0;
                continue;
            }
            const uint32_t to = dfa->call[s->call + top->call++].rule;
            if (color[to] == 1) {
                grammar_fail(a->g, RN_ERR_ARG, "the rule \"%s\" starts with itself",
                             a->g->rule[to].name);
                return false;
            }
            if (color[to]) continue;
            color[to] = 1;
            stack[n++] = (struct visit){to, 0, 0};
        }
    }
    return true;
}

static bool machine_alloc(struct assembly *a, uint32_t n_state, uint32_t n_call) {
    struct machine *m = a->machine;
    const size_t bytes = n_state * (sizeof *m->next + sizeof *m->flags + sizeof *m->rule_of +
                                    sizeof *m->call_begin) +
                         n_call * sizeof *m->call;
    if (bytes > a->g->budget.bytes_max - a->g->budget.bytes) {
        grammar_fail(a->g, RN_ERR_ARG, "the constraint is too large: it needs more than %zu bytes",
                     a->g->budget.bytes_max);
        return false;
    }
    a->g->budget.bytes += bytes;
    m->n_state = n_state;
    m->next = calloc(n_state, sizeof *m->next);
    m->flags = calloc(n_state, sizeof *m->flags);
    m->rule_of = calloc(n_state, sizeof *m->rule_of);
    m->call_begin = calloc(n_state + 1, sizeof *m->call_begin);
    m->call = calloc(n_call + 1, sizeof *m->call);
    if (!m->next || !m->flags || !m->rule_of || !m->call_begin || !m->call) {
        grammar_fail(a->g, RN_ERR_NOMEM, "out of memory for a constraint");
        return false;
    }
    return grammar_work(a->g, 8 * (uint64_t)n_state);
}

static void fill_state(struct assembly *a, uint32_t rule, uint32_t local, uint32_t *n_call) {
    struct machine *m = a->machine;
    const struct dfa *dfa = &a->dfa[rule];
    const struct dfa_state *s = &dfa->state[local];
    const uint32_t state = state_of(a, rule, local);
    m->rule_of[state] = (uint16_t)rule;
    m->call_begin[state] = *n_call;
    if (!a->live[state]) return;
    uint8_t flags = (s->accept ? STATE_ACCEPT : 0) | (m->rule[rule].counted ? STATE_COUNTED : 0);
    for (uint32_t i = 0; i < s->n_edge; i++) {
        const struct dfa_edge *edge = &dfa->edge[s->edge + i];
        const uint32_t to = state_of(a, rule, edge->to);
        if (!a->live[to]) continue;
        for (int byte = edge->lo; byte <= edge->hi; byte++) m->next[state][byte] = (uint16_t)to;
        flags |= STATE_BYTES;
    }
    for (uint32_t i = 0; i < s->n_call; i++) {
        const struct dfa_call *call = &dfa->call[s->call + i];
        const uint32_t to = state_of(a, rule, call->to);
        if (!a->live[to] || !has_text(a, call->rule)) continue;
        m->call[(*n_call)++] = (struct machine_call){call->rule, to};
        flags |= STATE_CALLS;
    }
    if (flags == STATE_ACCEPT) flags |= STATE_TAIL;
    m->flags[state] = flags;
}

static bool build_rules(struct assembly *a, uint32_t *n_state, uint32_t *n_call) {
    struct grammar *g = a->g;
    struct machine *m = a->machine;
    for (uint32_t i = 0; i < g->n_rule; i++) {
        const struct rule *rule = &g->rule[i];
        if (!rule->body) {
            grammar_fail(g, RN_ERR_ARG, "the rule \"%s\" is not defined", rule->name);
            return false;
        }
        if (!dfa_build(g, rule->body, rule->counted && !rule->is_text, &a->dfa[i])) return false;
        m->rule[i] = (struct machine_rule){.name = rule->name,
                                           .base = *n_state,
                                           .n = a->dfa[i].n,
                                           .min = rule->min,
                                           .max = rule->max,
                                           .counted = rule->counted,
                                           .greedy = rule->greedy};
        *n_state += a->dfa[i].n;
        *n_call += a->dfa[i].n_call;
        if (*n_state > MACHINE_MAX_STATES) {
            grammar_fail(g, RN_ERR_ARG, "the constraint is too large: more than %d states",
                         MACHINE_MAX_STATES);
            return false;
        }
    }
    return true;
}

// --- the bytes behind rules ---

struct follow {
    const struct assembly *a;
    uint64_t (*first)[4]; // [n_rule] bytes that a rule may start with
    uint64_t (*after)[4]; // [n_call] bytes that may come behind a call, inside of its rule
    bool *is_last;        // [n_call] the rule may end behind the call
    uint32_t *todo;       // [n_state]
    uint32_t *stamp;      // [n_state]
    uint32_t now;
};

// Whether some bit was new.
static bool bytes_add(uint64_t *to, const uint64_t *more) {
    bool is_new = false;
    for (int i = 0; i < 4; i++) {
        is_new |= (more[i] & ~to[i]) != 0;
        to[i] |= more[i];
    }
    return is_new;
}

static void bytes_of_state(const struct machine *m, uint32_t state, uint64_t *out) {
    if (!(m->flags[state] & STATE_BYTES)) return;
    for (int byte = 0; byte < 256; byte++)
        if (m->next[state][byte]) out[byte >> 6] |= UINT64_C(1) << (byte & 63);
}

// Bytes that may come at a state or behind its calls that may be empty; whether its rule may end.
static bool bytes_at(struct follow *f, uint32_t state, uint64_t *out) {
    const struct machine *m = f->a->machine;
    uint32_t n = 0;
    bool may_end = false;
    f->now++;
    f->stamp[state] = f->now;
    f->todo[n++] = state;
    while (n) {
        const uint32_t at = f->todo[--n];
        bytes_of_state(m, at, out);
        may_end |= m->flags[at] & STATE_ACCEPT;
        grammar_work(f->a->g, 32 + m->call_begin[at + 1] - m->call_begin[at]);
        for (uint32_t i = m->call_begin[at]; i < m->call_begin[at + 1]; i++) {
            const struct machine_call *call = &m->call[i];
            bytes_add(out, f->first[call->rule]);
            if (!m->rule[call->rule].nullable || f->stamp[call->to] == f->now) continue;
            f->stamp[call->to] = f->now;
            f->todo[n++] = call->to;
        }
    }
    return may_end;
}

static bool find_first(struct follow *f) {
    const struct machine *m = f->a->machine;
    bool changed = true;
    for (uint32_t round = 0; changed; round++) {
        changed = false;
        for (uint32_t k = 0; k < m->n_rule; k++) {
            const uint32_t i = round & 1 ? k : m->n_rule - 1 - k;
            if (!m->rule[i].start) continue;
            uint64_t now[4] = {0};
            bytes_at(f, m->rule[i].start, now);
            changed |= bytes_add(f->first[i], now);
            if (f->a->g->status) return false;
        }
    }
    return true;
}

// Text in which a rule may end nearly anywhere: a state that most bytes stay in.
static bool is_open(const struct machine *m, const struct machine_rule *rule) {
    for (uint32_t state = rule->base; state < rule->base + rule->n; state++) {
        int n = 0;
        if (!(m->flags[state] & STATE_ACCEPT)) continue;
        for (int byte = ' '; byte < 127; byte++) n += m->next[state][byte] == state;
        if (n >= 16) return true;
    }
    return false;
}

// Whether a byte may follow the rule that would not make its text longer. A greedy rule without one
// would never end.
static bool may_end_greedily(const struct machine *m, const struct machine_rule *rule) {
    for (uint32_t state = rule->base; state < rule->base + rule->n; state++) {
        if (!(m->flags[state] & STATE_ACCEPT)) continue;
        for (int byte = 0; byte < 256; byte++)
            if ((rule->follow[byte >> 6] >> (byte & 63) & 1) &&
                !(m->flags[m->next[state][byte]] & STATE_ACCEPT))
                return true;
    }
    return false;
}

static bool find_follows(const struct assembly *a) {
    struct machine *m = a->machine;
    const uint32_t n_call = m->call_begin[m->n_state];
    struct follow f = {.a = a};
    f.first = grammar_alloc(a->g, m->n_rule, sizeof *f.first);
    f.after = grammar_alloc(a->g, n_call, sizeof *f.after);
    f.is_last = grammar_alloc(a->g, n_call, sizeof *f.is_last);
    f.todo = grammar_alloc(a->g, m->n_state, sizeof *f.todo);
    f.stamp = grammar_alloc(a->g, m->n_state, sizeof *f.stamp);
    if (!f.first || !f.after || !f.is_last || !f.todo || !f.stamp || !find_first(&f)) return false;
    for (uint32_t i = 0; i < n_call; i++) f.is_last[i] = bytes_at(&f, m->call[i].to, f.after[i]);
    bool changed = true;
    for (uint32_t round = 0; changed; round++) {
        changed = false;
        if (!grammar_work(a->g, 4 * (uint64_t)n_call + 1)) return false;
        for (uint32_t k = 0; k < n_call; k++) {
            const uint32_t i = round & 1 ? n_call - 1 - k : k;
            uint64_t *of_rule = m->rule[m->call[i].rule].follow;
            const struct machine_rule *caller = &m->rule[m->rule_of[m->call[i].to]];
            changed |= bytes_add(of_rule, f.after[i]);
            if (f.is_last[i]) changed |= bytes_add(of_rule, caller->follow);
        }
    }
    for (uint32_t i = 0; i < m->n_rule; i++) {
        m->rule[i].is_open = m->rule[i].counted || is_open(m, &m->rule[i]);
        m->rule[i].greedy &= !m->rule[i].nullable && may_end_greedily(m, &m->rule[i]);
    }
    return !a->g->status;
}

static bool assemble(struct assembly *a) {
    struct machine *m = a->machine;
    uint32_t n_state = 1, n_call = 0; // state 0 is dead
    a->dfa = grammar_alloc(a->g, a->g->n_rule, sizeof *a->dfa);
    m->rule = calloc(a->g->n_rule ? a->g->n_rule : 1, sizeof *m->rule);
    if (!m->rule) grammar_fail(a->g, RN_ERR_NOMEM, "out of memory for a constraint");
    if (!a->dfa || !m->rule || !build_rules(a, &n_state, &n_call)) return false;
    a->live = grammar_alloc(a->g, n_state, sizeof *a->live);
    a->null = grammar_alloc(a->g, n_state, sizeof *a->null);
    if (!a->live || !a->null || !find_nullable(a) || !refuse_left_recursion(a) || !find_live(a))
        return false;
    if (!machine_alloc(a, n_state, n_call)) return false;
    n_call = 0;
    for (uint32_t rule = 0; rule < m->n_rule; rule++) {
        if (a->live[state_of(a, rule, 0)]) m->rule[rule].start = m->rule[rule].base;
        for (uint32_t i = 0; i < a->dfa[rule].n; i++) fill_state(a, rule, i, &n_call);
        m->rule[rule].name = NULL;
    }
    m->call_begin[n_state] = n_call;
    return find_follows(a);
}

rn_status machine_init(struct machine *machine, struct grammar *g) {
    *machine = (struct machine){.n_rule = g->n_rule, .start = g->start};
    if (g->status) return g->status;
    struct assembly a = {.g = g, .machine = machine};
    if (!assemble(&a)) machine_deinit(machine);
    return g->status;
}

void machine_deinit(struct machine *machine) {
    free(machine->next);
    free(machine->flags);
    free(machine->rule_of);
    free(machine->call_begin);
    free(machine->call);
    free(machine->rule);
    *machine = (struct machine){0};
}

size_t machine_bytes(const struct machine *m) {
    return m->n_state *
               (sizeof *m->next + sizeof *m->flags + sizeof *m->rule_of + sizeof *m->call_begin) +
           m->call_begin[m->n_state] * sizeof *m->call + m->n_rule * sizeof *m->rule;
}

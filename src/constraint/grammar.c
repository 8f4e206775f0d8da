// Constructors of nodes. They simplify what costs nothing to simplify: parts that are empty or
// never, lists of one part.
#include "constraint/grammar.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void grammar_init(struct grammar *g, uint64_t work_max, size_t bytes_max, rn_error *err) {
    *g = (struct grammar){.budget = {.work_max = work_max, .bytes_max = bytes_max},
                          .expand_max = 32,
                          .err = err};
}

void grammar_deinit(struct grammar *g) { arena_deinit(&g->arena); }

const struct node *grammar_fail(struct grammar *g, rn_status status, const char *fmt, ...) {
    if (g->status) return NULL;
    char message[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    g->status = err_set(g->err, status, "%s", message);
    return NULL;
}

bool budget_work(struct budget *budget, uint64_t units) {
    if (units > budget->work_max - budget->work) return false;
    budget->work += units;
    return true;
}

bool grammar_work(struct grammar *g, uint64_t units) {
    if (g->status) return false;
    if (budget_work(&g->budget, units)) return true;
    grammar_fail(g, RN_ERR_ARG,
                 "the constraint is too large: it needs more than %llu units of work",
                 (unsigned long long)g->budget.work_max);
    return false;
}

void *grammar_alloc(struct grammar *g, size_t count, size_t size) {
    if (g->status) return NULL;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || __builtin_add_overflow(bytes, 15, &bytes) ||
        (bytes &= ~(size_t)15) > g->budget.bytes_max - g->budget.bytes) { // as the arena rounds
        grammar_fail(g, RN_ERR_ARG, "the constraint is too large: it needs more than %zu bytes",
                     g->budget.bytes_max);
        return NULL;
    }
    g->budget.bytes += bytes;
    if (!grammar_work(g, 1 + bytes / 64)) return NULL;
    void *memory = arena_alloc(&g->arena, bytes);
    if (!memory) grammar_fail(g, RN_ERR_NOMEM, "out of memory for a constraint");
    return memory;
}

static struct node *node_create(struct grammar *g, enum node_kind kind, size_t n) {
    struct node *node = grammar_alloc(g, 1, sizeof *node);
    if (!node) return NULL;
    node->kind = kind;
    node->n = (uint32_t)n;
    return node;
}

const struct node *node_empty(struct grammar *g) { return node_create(g, NODE_EMPTY, 0); }
const struct node *node_never(struct grammar *g) { return node_create(g, NODE_NEVER, 0); }

static int range_compare(const void *a, const void *b) {
    const struct range *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

// Merges sorted ranges that overlap or touch.
static size_t ranges_merge(struct range *range, size_t n) {
    size_t to = 0;
    for (size_t i = 0; i < n; i++) {
        if (range[i].lo > range[i].hi) continue;
        if (to && range[i].lo <= range[to - 1].hi + 1) {
            if (range[i].hi > range[to - 1].hi) range[to - 1].hi = range[i].hi;
        } else {
            range[to++] = range[i];
        }
    }
    return to;
}

size_t ranges_normalize(struct range *range, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (range[i].hi > 0x10FFFF) range[i].hi = 0x10FFFF;
    qsort(range, n, sizeof *range, range_compare);
    return ranges_merge(range, n);
}

const struct node *node_class(struct grammar *g, const struct range *range, size_t n) {
    struct range *copy = grammar_alloc(g, n, sizeof *copy);
    if (!copy || !grammar_work(g, n * 8)) return NULL;
    if (n) memcpy(copy, range, n * sizeof *copy);
    n = ranges_normalize(copy, n);
    struct node *node = node_create(g, n ? NODE_CLASS : NODE_NEVER, n);
    if (node) node->range = copy;
    return node;
}

const struct node *node_class_not(struct grammar *g, const struct range *range, size_t n) {
    struct range *copy = grammar_alloc(g, n, sizeof *copy);
    struct range *rest = grammar_alloc(g, n + 1, sizeof *rest);
    if (!copy || !rest) return NULL;
    if (n) memcpy(copy, range, n * sizeof *copy);
    n = ranges_normalize(copy, n);
    size_t n_rest = 0;
    uint32_t from = 0;
    for (size_t i = 0; i < n; i++) {
        if (copy[i].lo > from) rest[n_rest++] = (struct range){from, copy[i].lo - 1};
        from = copy[i].hi + 1;
    }
    if (from <= 0x10FFFF) rest[n_rest++] = (struct range){from, 0x10FFFF};
    return node_class(g, rest, n_rest);
}

const struct node *node_byte(struct grammar *g, uint8_t lo, uint8_t hi) {
    struct range *range = grammar_alloc(g, 1, sizeof *range);
    struct node *node = range ? node_create(g, NODE_BYTE, 1) : NULL;
    if (!node) return NULL;
    *range = (struct range){lo, hi};
    node->range = range;
    return node;
}

const struct node *node_bytes(struct grammar *g, const void *bytes, size_t n) {
    if (n == 0) return node_empty(g);
    uint8_t *copy = grammar_alloc(g, n, 1);
    struct node *node = copy ? node_create(g, NODE_BYTES, n) : NULL;
    if (!node) return NULL;
    memcpy(copy, bytes, n);
    node->byte = copy;
    return node;
}

const struct node *node_text(struct grammar *g, const char *text) {
    return node_bytes(g, text, strlen(text));
}

static const struct node *node_parts(struct grammar *g, enum node_kind kind,
                                     const struct node *const *part, size_t n,
                                     enum node_kind without) {
    const struct node **copy = grammar_alloc(g, n, sizeof *copy);
    if (!copy) return NULL;
    size_t to = 0;
    for (size_t i = 0; i < n; i++) {
        if (!part[i]) return NULL;
        if (part[i]->kind != without) copy[to++] = part[i];
    }
    if (to == 0) return kind == NODE_SEQ ? node_empty(g) : node_never(g);
    if (to == 1) return copy[0];
    struct node *node = node_create(g, kind, to);
    if (node) node->part = copy;
    return node;
}

const struct node *node_seq(struct grammar *g, const struct node *const *part, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (part[i] && part[i]->kind == NODE_NEVER) return part[i];
    return node_parts(g, NODE_SEQ, part, n, NODE_EMPTY);
}

const struct node *node_alt(struct grammar *g, const struct node *const *part, size_t n) {
    return node_parts(g, NODE_ALT, part, n, NODE_NEVER);
}

const struct node *node_repeat(struct grammar *g, const struct node *part, int64_t min,
                               int64_t max) {
    if (!part) return NULL;
    if (part->kind == NODE_EMPTY || (min == 1 && max == 1)) return part;
    if (max == 0 || (part->kind == NODE_NEVER && min == 0)) return node_empty(g);
    if (part->kind == NODE_NEVER) return part;
    if (max >= 0 && max < min) return node_never(g);
    if (min > GRAMMAR_MAX_REPEAT || max > GRAMMAR_MAX_REPEAT)
        return grammar_fail(g, RN_ERR_ARG, "a repetition of %lld times, expected at most %d",
                            (long long)(max > min ? max : min), GRAMMAR_MAX_REPEAT);
    const struct node **copy = grammar_alloc(g, 1, sizeof *copy);
    struct node *node = copy ? node_create(g, NODE_REPEAT, 1) : NULL;
    if (!node) return NULL;
    copy[0] = part;
    node->part = copy;
    node->min = min;
    node->max = max;
    return node;
}

const struct node *node_call(struct grammar *g, uint32_t rule) {
    if (rule == UINT32_MAX) return NULL;
    struct node *node = node_create(g, NODE_CALL, 0);
    if (node) node->rule = rule;
    return node;
}

const struct node *node_graph(struct grammar *g, const struct graph_edge *edge, size_t n,
                              uint32_t n_state) {
    struct graph_edge *copy = grammar_alloc(g, n, sizeof *copy);
    struct node *node = copy ? node_create(g, NODE_GRAPH, n) : NULL;
    if (!node) return NULL;
    for (size_t i = 0; i < n; i++) {
        if (!edge[i].node) return NULL;
        copy[i] = edge[i];
    }
    node->graph.edge = copy;
    node->graph.n_state = n_state;
    return node;
}

static const struct node *counted(struct grammar *g, const struct node *body, int64_t min,
                                  int64_t max, bool is_text) {
    if (min > GRAMMAR_MAX_COUNT) min = GRAMMAR_MAX_COUNT;
    if (max > GRAMMAR_MAX_COUNT) max = GRAMMAR_MAX_COUNT;
    uint32_t rule = 0;
    while (rule < g->n_rule && !(g->rule[rule].counted && g->rule[rule].body == body &&
                                 g->rule[rule].min == min && g->rule[rule].max == max))
        rule++;
    if (!grammar_work(g, 1 + rule / 4)) return NULL;
    if (rule == g->n_rule) {
        rule = grammar_rule(g, "counted text", 12);
        if (rule == UINT32_MAX) return NULL;
        g->rule[rule].body = body;
        g->rule[rule].counted = true;
        g->rule[rule].is_text = is_text;
        g->rule[rule].min = min;
        g->rule[rule].max = max;
    }
    return node_call(g, rule);
}

const struct node *node_counted(struct grammar *g, const struct node *unit, int64_t min,
                                int64_t max) {
    if (!unit) return NULL;
    if (max >= 0 && max < min) return node_never(g);
    if (max == 0) return node_empty(g);
    if (max < 0 && min == 0) return node_repeat(g, unit, 0, -1);
    return counted(g, unit, min, max, false);
}

const struct node *node_counted_text(struct grammar *g, const struct node *text, int64_t min,
                                     int64_t max) {
    if (!text) return NULL;
    if (max >= 0 && max < min) return node_never(g);
    if (max == 0) return node_empty(g);
    if (max < 0 && min == 0) return text;
    return counted(g, text, min, max, true);
}

uint32_t grammar_rule(struct grammar *g, const char *name, size_t len) {
    if (g->n_rule == GRAMMAR_MAX_RULES) {
        grammar_fail(g, RN_ERR_ARG, "more than %d rules", GRAMMAR_MAX_RULES);
        return UINT32_MAX;
    }
    if (g->n_rule == g->rule_capacity) {
        const uint32_t capacity = g->rule_capacity ? 2 * g->rule_capacity : 32;
        struct rule *rule = grammar_alloc(g, capacity, sizeof *rule);
        if (!rule) return UINT32_MAX;
        if (g->n_rule) memcpy(rule, g->rule, g->n_rule * sizeof *rule);
        g->rule = rule;
        g->rule_capacity = capacity;
    }
    char *copy = grammar_alloc(g, len + 1, 1);
    if (!copy) return UINT32_MAX;
    memcpy(copy, name, len);
    g->rule[g->n_rule] = (struct rule){.name = copy, .max = -1};
    return g->n_rule++;
}

void grammar_define(struct grammar *g, uint32_t rule, const struct node *body) {
    if (rule < g->n_rule) g->rule[rule].body = body;
}

bool node_list_add(struct grammar *g, struct node_list *list, const struct node *node) {
    if (!node) return false;
    if (list->n == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 8;
        const struct node **grown = grammar_alloc(g, capacity, sizeof *grown);
        if (!grown) return false;
        if (list->n) memcpy(grown, list->node, list->n * sizeof *grown);
        list->node = grown;
        list->capacity = capacity;
    }
    list->node[list->n++] = node;
    return true;
}

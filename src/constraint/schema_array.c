// Arrays: items at fixed positions, then others, between minItems and maxItems.
#include "constraint/schema.h"

enum { MAX_POSITIONS = 4096 };

// The items at fixed positions of a part: prefixItems, or items as older drafts have them.
static const struct json *fixed(const struct json *part) {
    const struct json *prefix = json_get(part, "prefixItems"), *items = json_get(part, "items");
    if (prefix) return prefix->kind == JREAD_ARRAY ? prefix : NULL;
    return items && items->kind == JREAD_ARRAY ? items : NULL;
}

// The schema of the items behind them.
static const struct json *rest(const struct json *part, const char **keyword) {
    const struct json *items = json_get(part, "items");
    *keyword = "items";
    if (items && items->kind != JREAD_ARRAY) return items;
    *keyword = "additionalItems";
    return items ? json_get(part, "additionalItems") : NULL;
}

// The value at a position, of all parts.
static const struct node *item_at(struct schema *s, const struct conjunction *c, size_t at) {
    struct conjunction *value = grammar_alloc(s->g, 1, sizeof *value);
    if (!value) return NULL;
    value->form = form_inner(c->form);
    for (uint32_t i = 0; i < c->n; i++) {
        const struct json *first = fixed(c->part[i]);
        const char *keyword = "prefixItems";
        const struct json *schema =
            first && at < first->len ? first->item[at] : rest(c->part[i], &keyword);
        if (schema && !conjunction_add(s, value, schema, c->part[i], keyword)) return NULL;
    }
    return schema_value(s, value);
}

// Positions that some part describes by themselves.
static bool count_fixed(struct schema *s, const struct conjunction *c, size_t *n) {
    *n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct json *prefix = json_get(c->part[i], "prefixItems");
        if (prefix && prefix->kind != JREAD_ARRAY) {
            schema_expected(s, c->part[i], "prefixItems", prefix, "an array");
            return false;
        }
        const struct json *first = fixed(c->part[i]);
        if (first && first->len > *n) *n = first->len;
    }
    return true;
}

const struct node *schema_array(struct schema *s, const struct conjunction *c) {
    struct grammar *g = s->g;
    int64_t min, max;
    size_t n_fixed;
    if (!count_fixed(s, c, &n_fixed) || !schema_bounds(s, c, "minItems", "maxItems", &min, &max))
        return NULL;
    if (max >= 0 && min > max) return node_never(g);
    // positions with a state of their own: fixed ones, and all that are counted
    int64_t n = (int64_t)n_fixed > min ? (int64_t)n_fixed : min;
    if (max >= 0) n = max;
    if (n > MAX_POSITIONS) {
        const char *keyword = max >= 0 ? "maxItems" : "minItems";
        const struct json *part = schema_part_with(c, keyword);
        return schema_fail(s, part, keyword, "more than %d items", MAX_POSITIONS);
    }
    // states: 0 the start, 1 behind the bracket, then one behind each item, the end
    const uint32_t after = 2, end = after + (uint32_t)n + 1;
    struct graph_edge *edge = grammar_alloc(g, 2 * (size_t)n + 8, sizeof *edge);
    if (!edge) return NULL;
    size_t n_edge = 0;
    const struct node *space = form_inner(c->form)->space;
    const struct node *comma = node_seq_of(g, node_text(g, ","), space);
    const struct node *close = node_seq_of(g, space, node_text(g, "]"));
    const struct node *item = item_at(s, c, n_fixed);
    edge[n_edge++] = (struct graph_edge){0, 1, node_text(g, "[")};
    if (min == 0) edge[n_edge++] = (struct graph_edge){1, end, close};
    for (int64_t i = 0; i < n; i++) { // item i, into state after + i + 1 items
        const struct node *here = (size_t)i < n_fixed ? item_at(s, c, (size_t)i) : item;
        const struct node *lead = i ? comma : space;
        const uint32_t from = i ? after + (uint32_t)i : 1;
        edge[n_edge++] =
            (struct graph_edge){from, after + (uint32_t)i + 1, node_seq_of(g, lead, here)};
        if (i + 1 >= min) edge[n_edge++] = (struct graph_edge){after + (uint32_t)i + 1, end, close};
    }
    if (max < 0) { // any number more
        const uint32_t last = after + (uint32_t)n;
        if (n == 0) {
            edge[n_edge++] = (struct graph_edge){1, last, node_seq_of(g, space, item)};
            edge[n_edge++] = (struct graph_edge){last, end, close};
        }
        edge[n_edge++] = (struct graph_edge){last, last, node_seq_of(g, comma, item)};
    }
    if (g->status) return NULL;
    return node_graph(g, edge, n_edge, end + 1);
}

// Loops. Items are tested one by one where they are needed, as a body may change what the test
// sees. loop.last and loop.nextitem look one ahead, loop.length tests all. A body's scope is
// emptied for each item. The else runs when no body came to its end.
#include "jinja/render.h"
#include "jinja/text.h"

struct loop {
    const struct node *node; // S_FOR
    struct scope *outer;
    const struct seq *items;
    size_t pos;                          // of the next item to look at
    bool is_tested;                      // the rest has passed the test
    bool is_ended;                       // `outer` may be in use for something else by now
    int64_t index0, length;              // length: -1 while unknown
    struct value before, current, after; // V_MISSING when there is none
};

// Whether the item passes the loop's test; -1: failed.
static int item_passes(struct render *r, const struct loop *loop, struct value item) {
    const struct node *test = loop->node->c->a;
    if (!test || loop->is_tested) return 1;
    struct scope *back = r->scope, *scope = jinja_scope_push(r, loop->outer);
    if (!scope || !jinja_assign(r, loop->node->a, item)) return -1;
    const struct value v = jinja_eval(r, test);
    jinja_scope_pop(r, scope, back);
    return is_error(v) ? -1 : jinja_is_true(v);
}

// The next item that passes: V_MISSING at the end.
static struct value item_fetch(struct render *r, struct loop *loop) {
    while (!loop->is_ended && loop->pos < loop->items->n) {
        if (!jinja_charge(r, 1)) return value_error();
        const struct value item = loop->items->items[loop->pos++];
        const int passes = item_passes(r, loop, item);
        if (passes < 0) return value_error();
        if (passes) return item;
    }
    return value_missing();
}

static struct value item_peek(struct render *r, struct loop *loop) {
    if (is_missing(loop->after)) loop->after = item_fetch(r, loop);
    return loop->after;
}

// Tests the rest, so that it can be counted. -1: failed.
static int64_t loop_length(struct render *r, struct loop *loop) {
    if (loop->length >= 0) return loop->length;
    struct seq *rest = jinja_seq_new(r, SEQ_LIST, loop->items->n - loop->pos);
    if (!rest) return -1;
    size_t n = 0;
    for (;;) {
        const struct value item = item_fetch(r, loop);
        if (is_error(item)) return -1;
        if (is_missing(item)) break;
        rest->items[n++] = item;
    }
    rest->n = n;
    loop->items = rest;
    loop->pos = 0;
    loop->is_tested = true;
    loop->length = (int64_t)n + loop->index0 + 1 + !is_missing(loop->after);
    return loop->length;
}

struct value jinja_loop_attr(struct render *r, struct loop *loop, const struct str *name) {
    if (str_equals(name, "index")) return value_int(loop->index0 + 1);
    if (str_equals(name, "index0")) return value_int(loop->index0);
    if (str_equals(name, "first")) return value_bool(loop->index0 == 0);
    if (str_equals(name, "previtem")) {
        if (loop->index0 == 0) return jinja_undefined(r, "there is no previous item");
        return loop->before;
    }
    if (str_equals(name, "last") || str_equals(name, "nextitem")) {
        const struct value next = item_peek(r, loop);
        if (is_error(next)) return next;
        if (str_equals(name, "last")) return value_bool(is_missing(next));
        return is_missing(next) ? jinja_undefined(r, "there is no next item") : next;
    }
    int64_t from_end = 0; // the distance of the value from the loop's length
    if (str_equals(name, "revindex")) {
        from_end = loop->index0;
    } else if (str_equals(name, "revindex0")) {
        from_end = loop->index0 + 1;
    } else if (!str_equals(name, "length")) {
        return jinja_fail(r, "'loop.%.*s' is not supported", (int)name->len, name->data);
    }
    const int64_t length = loop_length(r, loop);
    return length < 0 ? value_error() : value_int(length - from_end);
}

static struct value item_next(struct render *r, struct loop *loop) {
    const struct value item = item_peek(r, loop);
    loop->after = value_missing();
    if (is_error(item) || is_missing(item)) return item;
    loop->index0++;
    loop->before = loop->current;
    loop->current = item;
    return item;
}

// The body for each item; *is_done: one came to its end.
static enum flow loop_body(struct render *r, struct loop *loop, struct scope *scope,
                           bool *is_done) {
    static const struct str loop_name = {.data = "loop", .len = 4, .n_chars = 4};
    const struct value self = {.kind = V_LOOP, .loop = loop};
    for (;;) {
        const struct value item = item_next(r, loop);
        if (is_error(item)) return FLOW_ERROR;
        if (is_missing(item)) return FLOW_NEXT;
        r->at = loop->node->at;
        scope->n = 0;
        if (!jinja_scope_set(r, scope, &loop_name, self) || !jinja_assign(r, loop->node->a, item)) {
            return FLOW_ERROR;
        }
        const enum flow flow = jinja_exec(r, loop->node->c->b);
        if (flow == FLOW_ERROR) return flow;
        if (flow == FLOW_BREAK) return FLOW_NEXT;
        if (flow == FLOW_NEXT) *is_done = true;
    }
}

enum flow jinja_exec_for(struct render *r, const struct node *node) {
    const struct value iterable = jinja_eval(r, node->b);
    if (is_error(iterable)) return FLOW_ERROR;
    r->at = node->b->at;
    struct loop *loop = jinja_alloc(r, sizeof *loop);
    const struct seq *items = jinja_iterate(r, iterable);
    if (!loop || !items) return FLOW_ERROR;
    struct scope *const outer = r->scope;
    *loop = (struct loop){.node = node, .outer = outer, .items = items, .index0 = -1};
    loop->length = node->c->a ? -1 : (int64_t)items->n;
    loop->before = loop->current = loop->after = value_missing();

    struct scope *scope = jinja_scope_push(r, outer);
    if (!scope) return FLOW_ERROR;
    bool is_done = false;
    enum flow flow = loop_body(r, loop, scope, &is_done);
    jinja_scope_pop(r, scope, outer);
    loop->is_ended = true;
    if (flow == FLOW_ERROR || is_done || !node->c->c) return flow;

    scope = jinja_scope_push(r, outer);
    if (!scope) return FLOW_ERROR;
    flow = jinja_exec(r, node->c->c);
    jinja_scope_pop(r, scope, outer);
    return flow;
}

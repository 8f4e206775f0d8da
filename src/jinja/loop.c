// Loops. Items are tested one by one where they are needed, because a body may change the variables
// of the test. loop.last and loop.nextitem look one ahead, loop.length tests all. A body's scope is
// emptied for each item. The else runs when no body came to its end.
#include "jinja/render.h"
#include "jinja/text.h"

struct loop {
    const struct node *node; // S_FOR
    struct scope *outer;
    const struct seq *items;
    size_t pos;                          // of the next item to look at
    bool is_tested;                      // the rest has passed the test
    int64_t index0, length;              // length: -1 while unknown
    struct value before, current, after; // V_MISSING when there is none
};

static bool item_passes(struct render *r, const struct loop *loop, struct value item) {
    const struct node *test = loop->node->c->a;
    if (!test || loop->is_tested) return true;
    struct scope *back = r->scope;
    jinja_scope_push(r, loop->outer);
    jinja_assign(r, loop->node->a, item);
    const bool passes = jinja_is_true(jinja_eval(r, test));
    r->scope = back;
    return passes;
}

// The next item that passes: V_MISSING at the end.
static struct value item_fetch(struct render *r, struct loop *loop) {
    while (loop->pos < loop->items->n) {
        jinja_charge(r, 1);
        const struct value item = loop->items->items[loop->pos++];
        if (item_passes(r, loop, item)) return item;
    }
    return value_missing();
}

static struct value item_peek(struct render *r, struct loop *loop) {
    if (is_missing(loop->after)) loop->after = item_fetch(r, loop);
    return loop->after;
}

// Tests the rest, so that it can be counted.
static int64_t loop_length(struct render *r, struct loop *loop) {
    if (loop->length >= 0) return loop->length;
    struct seq *rest = jinja_seq_new(r, SEQ_LIST, loop->items->n - loop->pos);
    rest->n = 0;
    for (struct value item; !is_missing(item = item_fetch(r, loop));) rest->items[rest->n++] = item;
    loop->items = rest;
    loop->pos = 0;
    loop->is_tested = true;
    loop->length = (int64_t)rest->n + loop->index0 + 1 + !is_missing(loop->after);
    return loop->length;
}

struct value jinja_loop_attr(struct render *r, struct loop *loop, const struct str *name) {
    if (str_equals(name, "index")) return value_int(loop->index0 + 1);
    if (str_equals(name, "index0")) return value_int(loop->index0);
    if (str_equals(name, "first")) return value_bool(loop->index0 == 0);
    if (str_equals(name, "last")) return value_bool(is_missing(item_peek(r, loop)));
    if (str_equals(name, "previtem")) {
        return loop->index0 ? loop->before : jinja_undefined(r, "there is no previous item");
    }
    if (str_equals(name, "nextitem")) {
        const struct value next = item_peek(r, loop);
        return is_missing(next) ? jinja_undefined(r, "there is no next item") : next;
    }
    if (str_equals(name, "length")) return value_int(loop_length(r, loop));
    if (str_equals(name, "revindex")) return value_int(loop_length(r, loop) - loop->index0);
    if (str_equals(name, "revindex0")) return value_int(loop_length(r, loop) - loop->index0 - 1);
    jinja_fail(r, "'loop.%.*s' is not supported", (int)name->len, name->data);
}

// The body for each item; whether one came to its end.
static bool loop_body(struct render *r, struct loop *loop, struct scope *scope) {
    static const struct str loop_name = {.data = "loop", .len = 4, .n_chars = 4};
    bool is_done = false;
    for (struct value item; !is_missing(item = item_peek(r, loop));) {
        loop->after = value_missing();
        loop->index0++;
        loop->before = loop->current;
        loop->current = item;
        r->at = loop->node->at;
        scope->n = 0;
        jinja_scope_set(r, scope, &loop_name, (struct value){.kind = V_LOOP, .loop = loop});
        jinja_assign(r, loop->node->a, item);
        const enum flow flow = jinja_exec(r, loop->node->c->b);
        if (flow == FLOW_BREAK) break;
        if (flow == FLOW_NEXT) is_done = true;
    }
    return is_done;
}

enum flow jinja_exec_for(struct render *r, const struct node *node) {
    const struct value iterable = jinja_eval(r, node->b);
    r->at = node->b->at;
    struct loop *loop = jinja_alloc(r, sizeof *loop);
    struct scope *const outer = r->scope;
    *loop = (struct loop){.node = node, .outer = outer, .index0 = -1};
    loop->items = jinja_iterate(r, iterable);
    loop->length = node->c->a ? -1 : (int64_t)loop->items->n;
    loop->before = loop->current = loop->after = value_missing();

    const bool is_done = loop_body(r, loop, jinja_scope_push(r, outer));
    enum flow flow = FLOW_NEXT;
    if (!is_done && node->c->c) {
        jinja_scope_push(r, outer);
        flow = jinja_exec(r, node->c->c);
    }
    r->scope = outer;
    return flow;
}

// Loops. Items are tested one by one where they are needed, because a body may change the variables
// of the test. loop.last and loop.nextitem look one ahead. A body's scope is emptied for each item.
#include "jinja/render.h"
#include "jinja/text.h"

struct loop {
    const struct node *node; // S_FOR
    struct scope *outer;
    const struct seq *items;
    size_t pos; // of the next item to look at
    int64_t index0;
    struct value before, current, after; // V_MISSING when there is none
};

static bool item_passes(struct render *r, const struct loop *loop, struct value item) {
    const struct node *test = loop->node->c;
    if (!test) return true;
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
    const int64_t n = (int64_t)loop->items->n;
    const bool is_counted = !loop->node->c; // else all items would have to be tested first
    if (is_counted && str_equals(name, "length")) return value_int(n);
    if (is_counted && str_equals(name, "revindex")) return value_int(n - loop->index0);
    if (is_counted && str_equals(name, "revindex0")) return value_int(n - loop->index0 - 1);
    jinja_fail(r, "'loop.%.*s' is not supported", jinja_shown(name->len), name->data);
}

enum flow jinja_exec_for(struct render *r, const struct node *node) {
    static const struct str loop_name = {.data = "loop", .len = 4, .n_chars = 4};
    const struct value iterable = jinja_eval(r, node->b);
    r->at = node->b->at;
    struct loop *loop = jinja_alloc(r, sizeof *loop);
    *loop = (struct loop){.node = node, .outer = r->scope, .index0 = -1};
    loop->items = jinja_iterate(r, iterable);
    struct scope *scope = jinja_scope_push(r, loop->outer);
    enum flow flow = FLOW_NEXT;
    for (struct value item; flow != FLOW_BREAK && !is_missing(item = item_peek(r, loop));) {
        loop->after = value_missing();
        loop->index0++;
        loop->before = loop->current;
        loop->current = item;
        r->at = node->at;
        scope->vars.n = 0;
        scope->vars.slots = NULL;
        jinja_scope_set(r, &loop_name, (struct value){.kind = V_LOOP, .loop = loop});
        jinja_assign(r, node->a, item);
        flow = jinja_exec(r, node->d);
    }
    r->scope = loop->outer;
    return FLOW_NEXT;
}

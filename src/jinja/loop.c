// The for statement and its `loop`. Items pass the loop's test one at a time as they are needed, as
// a body may change what the test sees; loop.last and loop.nextitem look one ahead, loop.length
// tests all. A body's scope is emptied for each item. The else runs when no body came to its end.
#include "jinja/render.h"
#include "jinja/template.h"

struct loop {
    const struct node *node; // S_FOR
    struct scope *outer;
    const struct seq *items;
    size_t pos;             // of the next item to look at
    bool is_tested;         // what is left has passed the test
    bool is_ended;          // `outer` may be in use for something else by now
    int64_t index0, length; // length: -1 while unknown
    int64_t depth0;
    struct value before, current, after; // V_MISSING when there is none
    struct value changed;                // what loop.changed was last asked about
};

// Whether the item passes the loop's test; -1: failed.
static int item_passes(struct render *r, const struct loop *loop, struct value item) {
    const struct node *test = loop->node->c->a;
    if (!test || loop->is_tested) return 1;
    struct scope *back = r->scope, *scope = jinja_scope_push(r, loop->outer, NULL);
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

// Tests what is left, so that it can be counted. -1: failed.
static int64_t loop_length(struct render *r, struct loop *loop) {
    if (loop->length >= 0) return loop->length;
    const size_t left = loop->items->n - loop->pos;
    struct seq *rest = jinja_seq_new(r, SEQ_LIST, left);
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

static struct value loop_cycle(struct render *r, struct value self, const struct call *c) {
    if (c->raw->n_pos == 0) return jinja_fail(r, "loop.cycle needs an argument");
    return c->raw->pos[(size_t)self.loop->index0 % c->raw->n_pos];
}

static struct value loop_changed(struct render *r, struct value self, const struct call *c) {
    struct seq *q = jinja_seq_new(r, SEQ_TUPLE, c->raw->n_pos);
    if (!q) return value_error();
    for (size_t i = 0; i < q->n; i++) q->items[i] = c->raw->pos[i];
    const struct value asked = jinja_seq_close(r, q);
    if (is_error(asked)) return asked;
    struct loop *loop = self.loop;
    const int equal = is_missing(loop->changed) ? 0 : jinja_equal(r, loop->changed, asked);
    if (equal < 0) return value_error();
    if (!equal) loop->changed = asked;
    return value_bool(!equal);
}

static const struct entry loop_methods[] = {{"cycle", loop_cycle, "*", 0},
                                            {"changed", loop_changed, "*", 0}};

static struct value loop_method(struct render *r, struct value loop, const struct entry *entry) {
    struct method *method = jinja_alloc(r, sizeof *method);
    if (!method) return value_error();
    *method = (struct method){entry, loop};
    return (struct value){.kind = V_METHOD, .method = method};
}

// Attributes that need to know what comes.
static struct value attr_ahead(struct render *r, struct loop *loop, const struct str *name) {
    const bool is_last = str_equals(name, "last");
    if (is_last || str_equals(name, "nextitem")) {
        const struct value next = item_peek(r, loop);
        if (is_error(next)) return next;
        if (is_last) return value_bool(is_missing(next));
        return is_missing(next) ? jinja_undefined(r, UNDEFINED_HINT, "there is no next item")
                                : next;
    }
    int64_t from_end = -1;
    if (str_equals(name, "length")) from_end = 0;
    if (str_equals(name, "revindex")) from_end = loop->index0;
    if (str_equals(name, "revindex0")) from_end = loop->index0 + 1;
    if (from_end < 0) return value_missing();
    const int64_t length = loop_length(r, loop);
    return length < 0 ? value_error() : value_int(length - from_end);
}

struct value jinja_loop_attr(struct render *r, struct value v, const struct str *name) {
    struct loop *loop = v.loop;
    if (str_equals(name, "index")) return value_int(loop->index0 + 1);
    if (str_equals(name, "index0")) return value_int(loop->index0);
    if (str_equals(name, "first")) return value_bool(loop->index0 == 0);
    if (str_equals(name, "depth")) return value_int(loop->depth0 + 1);
    if (str_equals(name, "depth0")) return value_int(loop->depth0);
    if (str_equals(name, "previtem")) {
        return loop->index0 == 0 ? jinja_undefined(r, UNDEFINED_HINT, "there is no previous item")
                                 : loop->before;
    }
    for (size_t i = 0; i < sizeof loop_methods / sizeof loop_methods[0]; i++) {
        if (str_equals(name, loop_methods[i].name)) return loop_method(r, v, &loop_methods[i]);
    }
    return attr_ahead(r, loop, name);
}

bool jinja_loop_print(struct render *r, struct loop *loop) {
    const int64_t length = loop_length(r, loop);
    return length >= 0 && jinja_write_text(r, "<LoopContext ") &&
           jinja_print(r, value_int(loop->index0 + 1)) && jinja_write_text(r, "/") &&
           jinja_print(r, value_int(length)) && jinja_write_text(r, ">");
}

static struct value item_next(struct render *r, struct loop *loop) {
    const struct value item = is_missing(loop->after) ? item_fetch(r, loop) : loop->after;
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
    static const struct str loop_name = {"loop", 4, 4, NULL};
    const struct value self = {.kind = V_LOOP, .loop = loop};
    for (;;) {
        const struct value item = item_next(r, loop);
        if (is_error(item)) return FLOW_ERROR;
        if (is_missing(item)) return FLOW_NEXT;
        r->at = loop->node->at;
        if (!jinja_scope_reset(r, scope, loop->node->c->shadow) ||
            !jinja_scope_set(r, scope, &loop_name, self) || !jinja_assign(r, loop->node->a, item)) {
            return FLOW_ERROR;
        }
        const enum flow flow = jinja_exec(r, loop->node->c->b);
        if (flow == FLOW_ERROR) return flow;
        if (flow == FLOW_BREAK) return FLOW_NEXT;
        if (flow == FLOW_NEXT) *is_done = true;
    }
}

static enum flow loop_run(struct render *r, const struct node *node, struct scope *outer,
                          struct value iterable, int64_t depth0) {
    struct loop *loop = jinja_alloc(r, sizeof *loop);
    const struct seq *items = jinja_iterate(r, iterable);
    if (!loop || !items) return FLOW_ERROR;
    *loop = (struct loop){.node = node, .outer = outer, .items = items, .index0 = -1};
    loop->length = node->c->a ? -1 : (int64_t)items->n;
    loop->depth0 = depth0;
    loop->before = loop->current = loop->after = loop->changed = value_missing();

    struct scope *back = r->scope, *scope = jinja_scope_push(r, outer, NULL);
    if (!scope) return FLOW_ERROR;
    bool is_done = false;
    enum flow flow = loop_body(r, loop, scope, &is_done);
    jinja_scope_pop(r, scope, back);
    loop->is_ended = true;
    if (flow == FLOW_ERROR || is_done || !node->c->c) return flow;

    scope = jinja_scope_push(r, outer, node->shadow);
    if (!scope) return FLOW_ERROR;
    flow = jinja_exec(r, node->c->c);
    jinja_scope_pop(r, scope, back);
    return flow;
}

enum flow jinja_exec_for(struct render *r, const struct node *node) {
    const struct value iterable = jinja_eval(r, node->b);
    if (is_error(iterable)) return FLOW_ERROR;
    r->at = node->b->at;
    return loop_run(r, node, r->scope, iterable, 0);
}

struct value jinja_loop_call(struct render *r, struct loop *loop, const struct args *args) {
    if (!loop->node->is_recursive) return jinja_fail(r, "the loop is not marked 'recursive'");
    if (loop->is_ended) return jinja_fail(r, "the loop has ended");
    if (args->n_pos != 1 || args->n_named) return jinja_fail(r, "loop() takes one argument");
    if (r->n_calls == TEMPLATE_MAX_DEPTH) {
        return jinja_limit(r, "calls are nested deeper than %d", TEMPLATE_MAX_DEPTH);
    }
    r->n_calls++;
    const size_t mark = r->out_len;
    const enum flow flow = loop_run(r, loop->node, loop->outer, args->pos[0], loop->depth0 + 1);
    r->n_calls--;
    return flow == FLOW_ERROR ? value_error() : jinja_take(r, mark);
}

// Statements. Output goes to the render's buffer; a block whose text becomes a value is captured.
#include "jinja/render.h"

struct value jinja_exec_capture(struct render *r, const struct node *body) {
    const size_t mark = r->out_len;
    jinja_exec(r, body);
    return jinja_take(r, mark);
}

static enum flow exec_scoped(struct render *r, const struct node *body) {
    struct scope *back = r->scope;
    jinja_scope_push(r, back);
    const enum flow flow = jinja_exec(r, body);
    r->scope = back;
    return flow;
}

// A block's text in a scope of its own, through the filters of a chain (NULL: none).
static struct value capture_filtered(struct render *r, const struct node *body,
                                     const struct node *filters) {
    const size_t mark = r->out_len;
    exec_scoped(r, body);
    const struct value v = jinja_take(r, mark);
    return filters ? jinja_eval_links(r, filters->b, v) : v;
}

static void assign_tuple(struct render *r, const struct node *target, struct value value) {
    const struct seq *q = jinja_iterate(r, value);
    size_t n = 0;
    for (const struct node *item = target->a; item; item = item->next) n++;
    if (q->n != n) jinja_fail(r, "cannot unpack %zu values into %zu names", q->n, n);
    n = 0;
    for (const struct node *item = target->a; item; item = item->next) {
        jinja_assign(r, item, q->items[n++]);
    }
}

static void assign_attribute(struct render *r, const struct node *target, struct value value) {
    const struct value ns = jinja_lookup(r, target->constant.s);
    r->at = target->at;
    if (ns.kind != V_NAMESPACE) {
        jinja_fail(r, "attributes can be set on namespaces alone, not on '%s'",
                   jinja_type_name(ns));
    }
    jinja_dict_set(r, ns.d, target->a->constant, value);
}

void jinja_assign(struct render *r, const struct node *target, struct value value) {
    jinja_charge(r, 1);
    if (target->kind == N_TUPLE) {
        assign_tuple(r, target, value);
    } else if (target->kind == N_NSREF) {
        assign_attribute(r, target, value);
    } else {
        jinja_scope_set(r, r->scope, target->constant.s, value);
    }
}

static void exec_macro(struct render *r, const struct node *node) {
    struct macro *macro = jinja_alloc(r, sizeof *macro);
    *macro = (struct macro){node, r->scope};
    const struct value v = {.kind = V_MACRO, .macro = macro};
    jinja_scope_set(r, r->scope, node->constant.s, v);
}

static enum flow exec_if(struct render *r, const struct node *node) {
    for (const struct node *branch = node->a; branch; branch = branch->next) {
        if (jinja_is_true(jinja_eval(r, branch->a))) return jinja_exec(r, branch->b);
    }
    return jinja_exec(r, node->b);
}

static enum flow exec_node(struct render *r, const struct node *node) {
    struct value v;
    switch (node->kind) {
    case S_TEXT:
        jinja_write(r, node->constant.s->data, node->constant.s->len);
        return FLOW_NEXT;
    case S_OUTPUT:
        jinja_print(r, jinja_eval(r, node->a));
        return FLOW_NEXT;
    case S_IF:
        return exec_if(r, node);
    case S_FOR:
        return jinja_exec_for(r, node);
    case S_SET:
        v = jinja_eval(r, node->b);
        r->at = node->at;
        jinja_assign(r, node->a, v);
        return FLOW_NEXT;
    case S_SET_BLOCK:
        jinja_assign(r, node->a, capture_filtered(r, node->c, node->b));
        return FLOW_NEXT;
    case N_MACRO:
        exec_macro(r, node);
        return FLOW_NEXT;
    case S_FILTER:
        jinja_print(r, capture_filtered(r, node->b, node->a));
        return FLOW_NEXT;
    case S_SCOPE:
        return exec_scoped(r, node->b);
    case S_BREAK:
        return FLOW_BREAK;
    default:
        return FLOW_CONTINUE;
    }
}

enum flow jinja_exec(struct render *r, const struct node *body) {
    jinja_frame_enter(r);
    enum flow flow = FLOW_NEXT;
    for (const struct node *node = body; node && flow == FLOW_NEXT; node = node->next) {
        r->at = node->at;
        jinja_charge(r, 1);
        flow = exec_node(r, node);
    }
    jinja_frame_leave(r);
    return flow;
}

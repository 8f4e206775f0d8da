// Statements. Output goes to the render's buffer; a block whose text becomes a value is captured.
#include "jinja/render.h"

struct value jinja_exec_capture(struct render *r, const struct node *body) {
    const size_t mark = r->out_len;
    if (jinja_exec(r, body) == FLOW_ERROR) return value_error();
    return jinja_take(r, mark);
}

// Captures in a scope of its own.
static struct value capture_scoped(struct render *r, const struct node *body) {
    struct scope *back = r->scope, *scope = jinja_scope_push(r, back);
    if (!scope) return value_error();
    const struct value v = jinja_exec_capture(r, body);
    jinja_scope_pop(r, scope, back);
    return v;
}

static bool assign_tuple(struct render *r, const struct node *target, struct value value) {
    const struct seq *q = jinja_iterate(r, value);
    if (!q) return false;
    size_t n = 0;
    for (const struct node *item = target->a; item; item = item->next) n++;
    if (q->n != n) {
        jinja_fail(r, "cannot unpack %zu values into %zu names", q->n, n);
        return false;
    }
    size_t i = 0;
    for (const struct node *item = target->a; item; item = item->next) {
        if (!jinja_assign(r, item, q->items[i++])) return false;
    }
    return true;
}

static bool assign_attribute(struct render *r, const struct node *target, struct value value) {
    const struct value ns = jinja_lookup(r, target->constant.s);
    if (is_error(ns)) return false;
    r->at = target->at;
    if (ns.kind != V_NAMESPACE) {
        jinja_fail(r, "attributes can be set on namespaces alone, not on '%s'",
                   jinja_type_name(ns));
        return false;
    }
    return jinja_dict_set(r, ns.d, target->a->constant, value);
}

bool jinja_assign(struct render *r, const struct node *target, struct value value) {
    if (!jinja_charge(r, 1)) return false;
    if (target->kind == N_TUPLE) return assign_tuple(r, target, value);
    if (target->kind == N_NSREF) return assign_attribute(r, target, value);
    return jinja_scope_set(r, r->scope, target->constant.s, value);
}

static bool exec_set_block(struct render *r, const struct node *node) {
    struct value v = capture_scoped(r, node->c);
    if (node->b && !is_error(v)) v = jinja_eval_links(r, node->b->b, v);
    return !is_error(v) && jinja_assign(r, node->a, v);
}

static bool exec_set(struct render *r, const struct node *node) {
    const struct value v = jinja_eval(r, node->b);
    if (is_error(v)) return false;
    r->at = node->at;
    return jinja_assign(r, node->a, v);
}

static bool exec_output(struct render *r, const struct node *node) {
    const struct value v = jinja_eval(r, node->a);
    return !is_error(v) && jinja_print(r, v);
}

static bool exec_filter(struct render *r, const struct node *node) {
    const struct value v = capture_scoped(r, node->b);
    if (is_error(v)) return false;
    const struct value result = jinja_eval_links(r, node->a->b, v);
    return !is_error(result) && jinja_print(r, result);
}

static bool exec_macro(struct render *r, const struct node *node) {
    struct macro *macro = jinja_alloc(r, sizeof *macro);
    if (!macro) return false;
    *macro = (struct macro){node, r->scope};
    for (struct scope *scope = r->scope; scope; scope = scope->parent) scope->is_captured = true;
    const struct value v = {.kind = V_MACRO, .macro = macro};
    return jinja_scope_set(r, r->scope, node->constant.s, v);
}

static enum flow exec_scoped(struct render *r, const struct node *node) {
    struct scope *back = r->scope, *scope = jinja_scope_push(r, back);
    if (!scope) return FLOW_ERROR;
    const enum flow flow = jinja_exec(r, node->b);
    jinja_scope_pop(r, scope, back);
    return flow;
}

static enum flow exec_if(struct render *r, const struct node *node) {
    for (const struct node *branch = node->a; branch; branch = branch->next) {
        const struct value condition = jinja_eval(r, branch->a);
        if (is_error(condition)) return FLOW_ERROR;
        if (jinja_is_true(condition)) return jinja_exec(r, branch->b);
    }
    return jinja_exec(r, node->b);
}

static enum flow flow_of(bool is_ok) { return is_ok ? FLOW_NEXT : FLOW_ERROR; }

static enum flow exec_node(struct render *r, const struct node *node) {
    switch (node->kind) {
    case S_TEXT:
        return flow_of(jinja_write(r, node->constant.s->data, node->constant.s->len));
    case S_OUTPUT:
        return flow_of(exec_output(r, node));
    case S_IF:
        return exec_if(r, node);
    case S_FOR:
        return jinja_exec_for(r, node);
    case S_SET:
        return flow_of(exec_set(r, node));
    case S_SET_BLOCK:
        return flow_of(exec_set_block(r, node));
    case N_MACRO:
        return flow_of(exec_macro(r, node));
    case S_FILTER:
        return flow_of(exec_filter(r, node));
    case S_SCOPE:
        return exec_scoped(r, node);
    case S_BREAK:
        return FLOW_BREAK;
    default:
        return FLOW_CONTINUE;
    }
}

enum flow jinja_exec(struct render *r, const struct node *body) {
    if (!jinja_frame_enter(r)) return FLOW_ERROR;
    enum flow flow = FLOW_NEXT;
    for (const struct node *node = body; node && flow == FLOW_NEXT; node = node->next) {
        r->at = node->at;
        if (!jinja_charge(r, 1)) return FLOW_ERROR;
        flow = exec_node(r, node);
    }
    jinja_frame_leave(r);
    return flow;
}

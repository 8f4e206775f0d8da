// Statements and the names that they set. Output goes to the render's buffer; a block whose text
// becomes a value is captured. Loops, macros and captured blocks open a scope, if does not.
#include "jinja/render.h"

struct scope *jinja_scope_push(struct render *r, struct scope *parent) {
    struct scope *scope = jinja_alloc(r, sizeof *scope);
    scope->parent = parent;
    r->scope = scope;
    return scope;
}

void jinja_scope_set(struct render *r, const struct str *name, struct value value) {
    jinja_dict_put(r, &r->scope->vars, value_str(name), value);
}

// From the inner scopes to the outer ones, the caller's globals, then our functions.
struct value jinja_lookup(struct render *r, const struct str *name) {
    const struct value *found = NULL;
    for (const struct scope *scope = r->scope; scope && !found; scope = scope->parent) {
        found = jinja_dict_find(r, &scope->vars, value_str(name));
    }
    if (!found) found = jinja_dict_find(r, &r->globals, value_str(name));
    if (found) return *found;
    const struct entry *function = jinja_table_find(&jinja_functions, name);
    if (function) return (struct value){.kind = V_FUNCTION, .function = function};
    if (jinja_names_find(jinja_functions.left_out, name->data, name->len) >= 0) {
        jinja_fail_no_entry(r, &jinja_functions, name);
    }
    return (struct value){.kind = V_UNDEFINED, .flag = UNDEFINED_NAME, .s = (struct str *)name};
}

// ---------------------------------------------------------------- statements

static enum flow exec_scoped(struct render *r, const struct node *body) {
    struct scope *back = r->scope;
    jinja_scope_push(r, back);
    const enum flow flow = jinja_exec(r, body);
    r->scope = back;
    return flow;
}

struct value jinja_exec_capture(struct render *r, const struct node *body,
                                const struct node *filters) {
    const size_t mark = r->out_len;
    exec_scoped(r, body);
    const struct value v = jinja_take(r, mark);
    return filters ? jinja_eval_links(r, filters->b, v) : v;
}

static void assign_tuple(struct render *r, const struct node *target, struct value value) {
    const struct seq *q = jinja_iterate(r, value);
    size_t n = 0;
    for (const struct node *item = target->a; item; item = item->next, n++) {
        if (n < q->n) jinja_assign(r, item, q->items[n]);
    }
    if (q->n != n) jinja_fail(r, "cannot unpack %zu values into %zu names", q->n, n);
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
        jinja_scope_set(r, target->constant.s, value);
    }
}

static void exec_macro(struct render *r, const struct node *node) {
    struct macro *macro = jinja_alloc(r, sizeof *macro);
    *macro = (struct macro){node, r->scope};
    const struct value v = {.kind = V_MACRO, .macro = macro};
    jinja_scope_set(r, node->constant.s, v);
}

static enum flow exec_if(struct render *r, const struct node *node) {
    for (const struct node *branch = node->a; branch; branch = branch->next) {
        if (jinja_is_true(jinja_eval(r, branch->a))) return jinja_exec(r, branch->b);
    }
    return jinja_exec(r, node->b);
}

static enum flow exec_node(struct render *r, const struct node *node) {
    if (node->kind == S_IF) return exec_if(r, node);
    if (node->kind == S_FOR) return jinja_exec_for(r, node);
    if (node->kind == S_SCOPE) return exec_scoped(r, node->b);
    if (node->kind == S_BREAK) return FLOW_BREAK;
    if (node->kind == S_CONTINUE) return FLOW_CONTINUE;
    if (node->kind == S_TEXT) {
        jinja_write(r, node->constant.s->data, node->constant.s->len);
    } else if (node->kind == S_OUTPUT) {
        jinja_print(r, jinja_eval(r, node->a));
    } else if (node->kind == S_SET) {
        const struct value v = jinja_eval(r, node->b);
        r->at = node->at;
        jinja_assign(r, node->a, v);
    } else if (node->kind == S_SET_BLOCK) {
        jinja_assign(r, node->a, jinja_exec_capture(r, node->c, node->b));
    } else if (node->kind == S_FILTER) {
        jinja_print(r, jinja_exec_capture(r, node->b, node->a));
    } else {
        exec_macro(r, node);
    }
    return FLOW_NEXT;
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

// Expressions. Each node costs a step and a frame; the C stack is as deep as the template's
// brackets, times the calls of macros inside each other, both bounded.
#include "jinja/render.h"

static struct args args_eval(struct render *r, const struct node *node) {
    struct args args = {0};
    for (const struct node *arg = node; arg; arg = arg->next) args.n++;
    struct arg *list = jinja_array(r, args.n, sizeof *list);
    args.list = list;
    for (; node; node = node->next, list++) {
        const bool is_named = node->kind == A_KEYWORD;
        list->value = jinja_eval(r, is_named ? node->a : node);
        list->name = is_named ? node->constant.s : NULL;
        args.n_pos += !is_named;
    }
    return args;
}

static struct value eval_call(struct render *r, const struct node *link, struct value v) {
    const struct args args = args_eval(r, link->a);
    r->at = link->at;
    if (link->kind == L_CALL) return jinja_call(r, v, &args);
    const struct table *table = link->kind == L_FILTER ? &jinja_filters : &jinja_tests;
    if (!link->entry) jinja_fail_no_entry(r, table, link->name);
    const struct value result = jinja_entry_call(r, link->entry, v, &args);
    return link->is_negated ? value_bool(!jinja_is_true(result)) : result;
}

static struct value eval_slice(struct render *r, const struct node *link, struct value v) {
    const struct value start = link->a ? jinja_eval(r, link->a) : value_none();
    const struct value stop = link->b ? jinja_eval(r, link->b) : value_none();
    const struct value step = link->c ? jinja_eval(r, link->c) : value_none();
    r->at = link->at;
    return jinja_getslice(r, v, start, stop, step);
}

// An operator or an item: both have one operand.
static struct value eval_binary(struct render *r, const struct node *link, struct value v) {
    const enum node_op op = (enum node_op)link->op;
    const bool is_logic = link->kind == L_BINARY && (op == OP_AND || op == OP_OR);
    if (is_logic && jinja_is_true(v) == (op == OP_OR)) return v;
    const struct value operand = jinja_eval(r, link->a);
    r->at = link->at;
    if (is_logic) return operand;
    if (link->kind == L_ITEM) return jinja_getitem(r, v, operand);
    return op >= OP_EQ ? jinja_compare(r, op, v, operand) : jinja_binary(r, op, v, operand);
}

static struct value eval_link(struct render *r, const struct node *link, struct value v) {
    r->at = link->at;
    if (link->kind == L_ATTR) return jinja_getattr(r, v, link->constant.s);
    if (link->kind == L_SLICE) return eval_slice(r, link, v);
    if (link->kind == L_ITEM || link->kind == L_BINARY) return eval_binary(r, link, v);
    return eval_call(r, link, v);
}

struct value jinja_eval_links(struct render *r, const struct node *link, struct value v) {
    for (; link; link = link->next) {
        jinja_charge(r, 1);
        v = eval_link(r, link, v);
    }
    return v;
}

static struct value eval_items(struct render *r, const struct node *node, enum seq_flavor flavor) {
    struct seq *q = jinja_seq_new(r, flavor, 0);
    for (const struct node *item = node->a; item; item = item->next) {
        jinja_seq_add(r, q, jinja_eval(r, item));
    }
    return jinja_seq_close(r, q);
}

static struct value eval_dict(struct render *r, const struct node *node) {
    struct dict *d = jinja_dict_new(r);
    for (const struct node *pair = node->a; pair; pair = pair->next) {
        const struct value key = jinja_eval(r, pair->a), v = jinja_eval(r, pair->b);
        r->at = pair->at;
        jinja_dict_set(r, d, key, v);
    }
    return value_dict(d);
}

static struct value eval_cond(struct render *r, const struct node *node) {
    for (const struct node *branch = node->a; branch; branch = branch->next) {
        if (jinja_is_true(jinja_eval(r, branch->a))) return jinja_eval(r, branch->b);
    }
    if (node->b) return jinja_eval(r, node->b);
    return jinja_undefined(r, "the condition is false and the expression has no else");
}

static struct value negate(struct render *r, struct value v) {
    if (v.kind == V_UNDEFINED) jinja_fail_undefined(r, v);
    if (!is_number(v)) jinja_fail(r, "'%s' has no sign", jinja_type_name(v));
    return v.kind == V_FLOAT ? value_float(-v.f) : jinja_binary(r, OP_SUB, value_int(0), v);
}

static struct value eval_node(struct render *r, const struct node *node) {
    if (node->kind == N_CONST) return node->constant;
    if (node->kind == N_NAME) return jinja_lookup(r, node->constant.s);
    if (node->kind == N_LIST) return eval_items(r, node, SEQ_LIST);
    if (node->kind == N_TUPLE) return eval_items(r, node, SEQ_TUPLE);
    if (node->kind == N_DICT) return eval_dict(r, node);
    if (node->kind == N_COND) return eval_cond(r, node);
    const struct value v = jinja_eval(r, node->a);
    if (node->kind == N_CHAIN) return jinja_eval_links(r, node->b, v);
    if (node->kind == N_NOT) return value_bool(!jinja_is_true(v));
    r->at = node->at;
    return negate(r, v);
}

struct value jinja_eval(struct render *r, const struct node *node) {
    jinja_frame_enter(r);
    r->at = node->at;
    const struct value v = eval_node(r, node);
    jinja_frame_leave(r);
    return v;
}

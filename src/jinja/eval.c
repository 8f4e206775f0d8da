// Expressions. Each node costs a step and a frame; the C stack is as deep as the template's
// brackets, times the calls of macros inside each other, both bounded.
#include "jinja/render.h"

// The arguments of a call, positions first and then names, as the parser has made sure.
static struct args args_eval(struct render *r, const struct node *node) {
    size_t n_pos = 0, n_named = 0;
    for (const struct node *arg = node; arg; arg = arg->next) {
        ++*(arg->kind == A_KEYWORD ? &n_named : &n_pos);
    }
    struct args args = {0};
    if (n_pos) args.pos = jinja_array(r, n_pos, sizeof *args.pos);
    if (n_named) args.named = jinja_array(r, n_named, sizeof *args.named);
    for (; node; node = node->next) {
        const bool is_named = node->kind == A_KEYWORD;
        const struct value v = jinja_eval(r, is_named ? node->a : node);
        if (is_named) {
            args.named[args.n_named++] = (struct named_arg){node->constant.s, v};
        } else {
            args.pos[args.n_pos++] = v;
        }
    }
    return args;
}

static struct value eval_row(struct render *r, const struct node *link, struct value v) {
    const bool is_filter = link->kind == L_FILTER;
    const struct args args = args_eval(r, link->a);
    r->at = link->at;
    if (!link->entry) {
        jinja_fail_no_entry(r, is_filter ? &jinja_filters : &jinja_tests, link->name);
    }
    const struct value result = jinja_entry_call(r, link->entry, v, &args);
    return link->is_negated ? value_bool(!jinja_is_true(result)) : result;
}

static struct value eval_call(struct render *r, const struct node *link, struct value callee) {
    const struct args args = args_eval(r, link->a);
    r->at = link->at;
    return jinja_call(r, callee, &args);
}

static struct value eval_slice(struct render *r, const struct node *link, struct value v) {
    const struct value start = link->a ? jinja_eval(r, link->a) : value_none();
    const struct value stop = link->b ? jinja_eval(r, link->b) : value_none();
    const struct value step = link->c ? jinja_eval(r, link->c) : value_none();
    r->at = link->at;
    return jinja_getslice(r, v, start, stop, step);
}

static struct value eval_link(struct render *r, const struct node *link, struct value v) {
    r->at = link->at;
    switch (link->kind) {
    case L_ATTR:
        return jinja_getattr(r, v, link->constant.s);
    case L_SLICE:
        return eval_slice(r, link, v);
    case L_CALL:
        return eval_call(r, link, v);
    case L_FILTER:
    case L_TEST:
        return eval_row(r, link, v);
    default: {
        const struct value operand = jinja_eval(r, link->a);
        r->at = link->at;
        return link->kind == L_ITEM ? jinja_getitem(r, v, operand)
                                    : jinja_binary(r, (enum node_op)link->op, v, operand);
    }
    }
}

struct value jinja_eval_links(struct render *r, const struct node *link, struct value v) {
    for (; link; link = link->next) {
        jinja_charge(r, 1);
        v = eval_link(r, link, v);
    }
    return v;
}

static struct value eval_items(struct render *r, const struct node *node, enum seq_flavor flavor) {
    size_t n = 0;
    for (const struct node *item = node->a; item; item = item->next) n++;
    struct seq *q = jinja_seq_new(r, flavor, n);
    n = 0;
    for (const struct node *item = node->a; item; item = item->next) {
        q->items[n++] = jinja_eval(r, item);
    }
    return jinja_seq_close(r, q);
}

static struct value eval_dict(struct render *r, const struct node *node) {
    struct dict *d = jinja_dict_new(r, 4);
    for (const struct node *pair = node->a; pair; pair = pair->next) {
        const struct value key = jinja_eval(r, pair->a), v = jinja_eval(r, pair->b);
        r->at = pair->at;
        jinja_dict_set(r, d, key, v);
    }
    return value_dict(d);
}

static struct value eval_logic(struct render *r, const struct node *node) {
    const bool stops_at = node->kind == N_OR;
    for (const struct node *operand = node->a;; operand = operand->next) {
        const struct value v = jinja_eval(r, operand);
        if (!operand->next || jinja_is_true(v) == stops_at) return v;
    }
}

static struct value eval_compare(struct render *r, const struct node *node) {
    struct value left = jinja_eval(r, node->a), result = left;
    for (const struct node *operand = node->b; operand; operand = operand->next) {
        const struct value right = jinja_eval(r, operand->a);
        r->at = operand->at;
        result = jinja_compare(r, (enum node_op)operand->op, left, right);
        if (!jinja_is_true(result)) return result;
        left = right;
    }
    return result;
}

// All but the first operand are written behind the output and taken off again: the first may be
// long text that grows.
static struct value eval_concat(struct render *r, const struct node *node) {
    const struct value first = jinja_to_str(r, jinja_eval(r, node->a));
    const size_t mark = r->out_len;
    for (const struct node *operand = node->a->next; operand; operand = operand->next) {
        jinja_print(r, jinja_eval(r, operand));
    }
    return jinja_concat(r, first.s, jinja_take(r, mark).s);
}

static struct value eval_cond(struct render *r, const struct node *node) {
    for (const struct node *branch = node->a; branch; branch = branch->next) {
        if (jinja_is_true(jinja_eval(r, branch->a))) return jinja_eval(r, branch->b);
    }
    if (node->b) return jinja_eval(r, node->b);
    return jinja_undefined(r, "the condition is false and the expression has no else");
}

static struct value eval_sign(struct render *r, const struct node *node) {
    const struct value v = jinja_eval(r, node->a);
    const bool is_negative = node->kind == N_NEGATE;
    r->at = node->at;
    if (v.kind == V_UNDEFINED) jinja_fail_undefined(r, v);
    if (v.kind == V_FLOAT) return value_float(is_negative ? -v.f : v.f);
    if (!is_int(v)) jinja_fail(r, "'%s' has no sign", jinja_type_name(v));
    return is_negative ? jinja_binary(r, OP_SUB, value_int(0), v) : value_int(int_of(v));
}

static struct value eval_node(struct render *r, const struct node *node) {
    switch (node->kind) {
    case N_CONST:
        return node->constant;
    case N_NAME:
        return jinja_lookup(r, node->constant.s);
    case N_LIST:
        return eval_items(r, node, SEQ_LIST);
    case N_TUPLE:
        return eval_items(r, node, SEQ_TUPLE);
    case N_DICT:
        return eval_dict(r, node);
    case N_NEGATE:
    case N_POSITIVE:
        return eval_sign(r, node);
    case N_NOT:
        return value_bool(!jinja_is_true(jinja_eval(r, node->a)));
    case N_AND:
    case N_OR:
        return eval_logic(r, node);
    case N_COMPARE:
        return eval_compare(r, node);
    case N_CONCAT:
        return eval_concat(r, node);
    case N_COND:
        return eval_cond(r, node);
    default:
        return jinja_eval_links(r, node->b, jinja_eval(r, node->a));
    }
}

struct value jinja_eval(struct render *r, const struct node *node) {
    jinja_frame_enter(r);
    r->at = node->at;
    const struct value v = eval_node(r, node);
    jinja_frame_leave(r);
    return v;
}

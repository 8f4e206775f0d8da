// Expressions. Each node costs a step and a frame; the C stack is as deep as the template's
// brackets, times the calls of macros inside each other, both bounded.
#include <string.h>

#include "jinja/render.h"

// Arguments while they are collected: the first few in place, more of them in the arena.
enum { ARGS_INLINE = 4 };
struct arg_list {
    struct args args;
    size_t pos_cap, named_cap;
    struct value pos[ARGS_INLINE];
    struct named_arg named[ARGS_INLINE];
};

static void args_init(struct arg_list *list) {
    list->args = (struct args){list->pos, 0, list->named, 0};
    list->pos_cap = list->named_cap = ARGS_INLINE;
}

static bool args_add(struct render *r, struct arg_list *list, struct value v) {
    struct args *args = &list->args;
    if (args->n_pos == list->pos_cap) {
        struct value *pos = jinja_array(r, list->pos_cap * 2, sizeof *pos);
        if (!pos) return false;
        memcpy(pos, args->pos, args->n_pos * sizeof *pos);
        args->pos = pos;
        list->pos_cap *= 2;
    }
    args->pos[args->n_pos++] = v;
    return true;
}

static bool args_add_named(struct render *r, struct arg_list *list, const struct str *name,
                           struct value v) {
    struct args *args = &list->args;
    for (size_t i = 0; i < args->n_named; i++) {
        if (str_same(args->named[i].name, name)) {
            jinja_fail(r, "the argument '%.*s' is given twice", (int)name->len, name->data);
            return false;
        }
    }
    if (!jinja_charge(r, args->n_named / 16)) return false;
    if (args->n_named == list->named_cap) {
        struct named_arg *named = jinja_array(r, list->named_cap * 2, sizeof *named);
        if (!named) return false;
        memcpy(named, args->named, args->n_named * sizeof *named);
        args->named = named;
        list->named_cap *= 2;
    }
    args->named[args->n_named++] = (struct named_arg){name, v};
    return true;
}

static bool args_add_star(struct render *r, struct arg_list *list, struct value v) {
    const struct seq *items = jinja_iterate(r, v);
    if (!items || !jinja_charge(r, items->n)) return false;
    for (size_t i = 0; i < items->n; i++) {
        if (!args_add(r, list, items->items[i])) return false;
    }
    return true;
}

static bool args_add_starstar(struct render *r, struct arg_list *list, struct value v) {
    if (v.kind != V_DICT) {
        jinja_fail(r, "'**' wants a mapping, not '%s'", jinja_type_name(v));
        return false;
    }
    for (size_t i = 0; i < v.d->n; i++) {
        const struct dict_entry *entry = &v.d->entries[i];
        if (entry->key.kind != V_STR) {
            jinja_fail(r, "the names of arguments must be strings");
            return false;
        }
        if (!args_add_named(r, list, entry->key.s, entry->value)) return false;
    }
    return true;
}

static bool args_eval(struct render *r, const struct node *node, struct arg_list *list) {
    args_init(list);
    for (; node; node = node->next) {
        const bool is_wrapped = node->kind >= A_KEYWORD && node->kind <= A_STARSTAR;
        const struct value v = jinja_eval(r, is_wrapped ? node->a : node);
        if (is_error(v)) return false;
        bool is_ok;
        if (!is_wrapped) {
            is_ok = args_add(r, list, v);
        } else if (node->kind == A_KEYWORD) {
            is_ok = args_add_named(r, list, node->constant.s, v);
        } else {
            is_ok =
                node->kind == A_STAR ? args_add_star(r, list, v) : args_add_starstar(r, list, v);
        }
        if (!is_ok) return false;
    }
    return true;
}

// A call; that of a call block hands its body over as `caller`.
static struct value eval_call(struct render *r, const struct node *link, struct value callee) {
    static const struct str caller_name = {"caller", 6, 6, NULL};
    struct arg_list list;
    if (!args_eval(r, link->a, &list)) return value_error();
    if (link->b) {
        struct macro *caller = jinja_alloc(r, sizeof *caller);
        if (!caller) return value_error();
        *caller = (struct macro){link->b, r->scope};
        for (struct scope *scope = r->scope; scope; scope = scope->parent) {
            scope->is_captured = true;
        }
        const struct value v = {.kind = V_MACRO, .macro = caller};
        if (!args_add_named(r, &list, &caller_name, v)) return value_error();
    }
    r->at = link->at;
    return jinja_call(r, callee, &list.args);
}

static struct value eval_row(struct render *r, const struct node *link, struct value v) {
    const bool is_filter = link->kind == L_FILTER;
    struct arg_list list;
    if (!args_eval(r, link->a, &list)) return value_error();
    r->at = link->at;
    if (!link->entry) {
        return jinja_fail(r, "there is no %s '%.*s'", is_filter ? "filter" : "test",
                          (int)link->name->len, link->name->data);
    }
    const struct value result = jinja_entry_call(r, link->entry, v, &list.args);
    if (is_filter || is_error(result)) return result;
    return link->is_negated ? value_bool(!jinja_is_true(result)) : result;
}

static struct value eval_optional(struct render *r, const struct node *node) {
    return node ? jinja_eval(r, node) : value_none();
}

static struct value eval_slice(struct render *r, const struct node *link, struct value v) {
    const struct value start = eval_optional(r, link->a);
    if (is_error(start)) return start;
    const struct value stop = eval_optional(r, link->b);
    if (is_error(stop)) return stop;
    const struct value step = eval_optional(r, link->c);
    if (is_error(step)) return step;
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
        if (is_error(operand)) return operand;
        r->at = link->at;
        return link->kind == L_ITEM ? jinja_getitem(r, v, operand)
                                    : jinja_binary(r, (enum node_op)link->op, v, operand);
    }
    }
}

struct value jinja_eval_links(struct render *r, const struct node *link, struct value v) {
    for (; link && !is_error(v); link = link->next) {
        if (!jinja_charge(r, 1)) return value_error();
        v = eval_link(r, link, v);
    }
    return v;
}

static struct value eval_chain(struct render *r, const struct node *node) {
    return jinja_eval_links(r, node->b, jinja_eval(r, node->a));
}

static struct value eval_items(struct render *r, const struct node *node, enum seq_flavor flavor) {
    size_t n = 0;
    for (const struct node *item = node->a; item; item = item->next) n++;
    struct seq *q = jinja_seq_new(r, flavor, n);
    if (!q) return value_error();
    size_t i = 0;
    for (const struct node *item = node->a; item; item = item->next) {
        const struct value v = jinja_eval(r, item);
        if (is_error(v)) return v;
        q->items[i++] = v;
    }
    return jinja_seq_close(r, q);
}

static struct value eval_dict(struct render *r, const struct node *node) {
    struct dict *d = jinja_dict_new(r, 4);
    if (!d) return value_error();
    for (const struct node *pair = node->a; pair; pair = pair->next) {
        const struct value key = jinja_eval(r, pair->a);
        if (is_error(key)) return key;
        const struct value v = jinja_eval(r, pair->b);
        if (is_error(v)) return v;
        r->at = pair->at;
        if (!jinja_dict_set(r, d, key, v)) return value_error();
    }
    return value_dict(d);
}

static struct value eval_logic(struct render *r, const struct node *node) {
    const bool stops_at = node->kind == N_OR;
    for (const struct node *operand = node->a;; operand = operand->next) {
        const struct value v = jinja_eval(r, operand);
        if (is_error(v) || !operand->next || jinja_is_true(v) == stops_at) return v;
    }
}

static struct value eval_compare(struct render *r, const struct node *node) {
    struct value left = jinja_eval(r, node->a), result = left;
    for (const struct node *operand = node->b; operand && !is_error(left);
         operand = operand->next) {
        const struct value right = jinja_eval(r, operand->a);
        if (is_error(right)) return right;
        r->at = operand->at;
        result = jinja_compare(r, (enum node_op)operand->op, left, right);
        if (is_error(result) || !jinja_is_true(result)) return result;
        left = right;
    }
    return result;
}

// All but the first operand are written behind the output and taken off again: the first may be
// long text that grows.
static struct value eval_concat(struct render *r, const struct node *node) {
    const struct value first = jinja_to_str(r, jinja_eval(r, node->a));
    if (is_error(first)) return first;
    const size_t mark = r->out_len;
    for (const struct node *operand = node->a->next; operand; operand = operand->next) {
        const struct value v = jinja_eval(r, operand);
        if (is_error(v) || !jinja_print(r, v)) return value_error();
    }
    const struct value v = jinja_concat(r, first.s, r->out + mark, r->out_len - mark);
    r->out_len = mark;
    return v;
}

static struct value eval_cond(struct render *r, const struct node *node) {
    for (const struct node *branch = node->a; branch; branch = branch->next) {
        const struct value condition = jinja_eval(r, branch->a);
        if (is_error(condition)) return condition;
        if (jinja_is_true(condition)) return jinja_eval(r, branch->b);
    }
    if (node->b) return jinja_eval(r, node->b);
    return jinja_undefined(r, UNDEFINED_HINT,
                           "the condition is false and the expression has no else");
}

static struct value eval_sign(struct render *r, const struct node *node) {
    const struct value v = jinja_eval(r, node->a);
    const bool is_negative = node->kind == N_NEGATE;
    r->at = node->at;
    switch (v.kind) {
    case V_ERROR:
        return v;
    case V_UNDEFINED:
        return jinja_fail_undefined(r, v);
    case V_FLOAT:
        return value_float(is_negative ? -v.f : v.f);
    case V_BOOL:
    case V_INT: {
        int64_t i = v.kind == V_BOOL ? v.b : v.i;
        if (is_negative && __builtin_sub_overflow(0, i, &i)) {
            return jinja_fail(r, "the integer does not fit 64 bits");
        }
        return value_int(i);
    }
    default:
        return jinja_fail(r, "'%s' has no sign", jinja_type_name(v));
    }
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
    case N_NOT: {
        const struct value v = jinja_eval(r, node->a);
        return is_error(v) ? v : value_bool(!jinja_is_true(v));
    }
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
        return eval_chain(r, node);
    }
}

struct value jinja_eval(struct render *r, const struct node *node) {
    if (!jinja_frame_enter(r)) return value_error();
    r->at = node->at;
    const struct value v = eval_node(r, node);
    jinja_frame_leave(r);
    return v;
}

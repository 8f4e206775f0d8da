// Calls: binding of arguments to the parameters of a row or a macro, and the tables' look-up.
#include <string.h>

#include "jinja/render.h"
#include "jinja/template.h"

const struct entry *jinja_table_find(const struct table *table, const char *name, size_t len) {
    size_t low = 0, high = table->n;
    while (low < high) {
        const size_t mid = (low + high) / 2;
        const char *other = table->entries[mid].name;
        const size_t n = strlen(other);
        int order = memcmp(other, name, n < len ? n : len);
        if (order == 0) order = (n > len) - (n < len);
        if (order == 0) return &table->entries[mid];
        if (order < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return NULL;
}

// The number of the parameter in "a b c", or -1.
static int param_find(const char *params, const struct str *name) {
    for (int i = 0; *params; i++) {
        const size_t n = strcspn(params, " ");
        if (n == name->len && memcmp(params, name->data, n) == 0) return i;
        params += n;
        params += *params == ' ';
    }
    return -1;
}

static int param_count(const char *params) {
    int n = *params != 0;
    for (; *params; params++) n += *params == ' ';
    return n;
}

static bool bind(struct render *r, const struct entry *entry, const struct args *args,
                 struct call *c) {
    const int n = param_count(entry->params);
    for (int i = 0; i < JINJA_MAX_PARAMS; i++) c->arg[i] = value_missing();
    if (args->n_pos > (size_t)n) {
        jinja_fail(r, "%s takes at most %d arguments, got %zu", entry->name, n, args->n_pos);
        return false;
    }
    for (size_t i = 0; i < args->n_pos; i++) c->arg[i] = args->pos[i];
    for (size_t i = 0; i < args->n_named; i++) {
        const struct str *name = args->named[i].name;
        const int at = param_find(entry->params, name);
        if (at < 0 || !is_missing(c->arg[at])) {
            jinja_fail(r, "%s %s argument '%.*s'", entry->name, at < 0 ? "has no" : "got twice the",
                       (int)name->len, name->data);
            return false;
        }
        c->arg[at] = args->named[i].value;
    }
    for (int i = 0; i < entry->n_required; i++) {
        if (!is_missing(c->arg[i])) continue;
        jinja_fail(r, "%s needs %d arguments", entry->name, entry->n_required);
        return false;
    }
    return true;
}

struct value jinja_entry_call(struct render *r, const struct entry *entry, struct value self,
                              const struct args *args) {
    struct call c = {.raw = args, .name = entry->name};
    if (strcmp(entry->params, "*") != 0 && !bind(r, entry, args, &c)) return value_error();
    return entry->fn(r, self, &c);
}

struct value jinja_call_named(struct render *r, const struct table *table, struct value name,
                              struct value self, const struct args *args) {
    if (name.kind != V_STR) {
        return jinja_fail(r, "the name of a filter or test is a string, not '%s'",
                          jinja_type_name(name));
    }
    const struct entry *entry = jinja_table_find(table, name.s->data, name.s->len);
    if (!entry) {
        return jinja_fail(r, "there is no %s '%.*s'", table == &jinja_filters ? "filter" : "test",
                          name.s->len > 80 ? 80 : (int)name.s->len, name.s->data);
    }
    if (!jinja_charge(r, 1)) return value_error();
    return jinja_entry_call(r, entry, self, args);
}

bool jinja_arg_int(struct render *r, const struct call *c, int i, int64_t *out) {
    const struct value v = c->arg[i];
    if (is_absent(v)) return true;
    if (v.kind == V_INT || v.kind == V_BOOL) {
        *out = v.kind == V_INT ? v.i : v.b;
        return true;
    }
    if (v.kind == V_UNDEFINED) {
        jinja_fail_undefined(r, v);
    } else {
        jinja_fail(r, "%s: argument %d must be an integer, not '%s'", c->name, i + 1,
                   jinja_type_name(v));
    }
    return false;
}

bool jinja_arg_bool(struct render *r, const struct call *c, int i, bool *out) {
    (void)r;
    if (!is_missing(c->arg[i])) *out = jinja_is_true(c->arg[i]);
    return true;
}

bool jinja_arg_str(struct render *r, const struct call *c, int i, const struct str **out) {
    const struct value v = c->arg[i];
    if (is_absent(v)) return true;
    if (v.kind != V_STR) {
        jinja_fail(r, "%s: argument %d must be a string, not '%s'", c->name, i + 1,
                   jinja_type_name(v));
        return false;
    }
    *out = v.s;
    return true;
}

// --- macros ---

static const struct named_arg *named_find(const struct args *args, const struct str *name) {
    for (size_t i = 0; i < args->n_named; i++) {
        if (str_same(args->named[i].name, name)) return &args->named[i];
    }
    return NULL;
}

// Whether it is a parameter behind the first n.
static bool is_param(const struct node *macro, const struct str *name, size_t n) {
    for (const struct node *param = macro->a; param; param = param->next) {
        if (n == 0 && str_same(param->constant.s, name)) return true;
        n -= n > 0;
    }
    return false;
}

// Parameters in order: by position, by name, by default (evaluated inside the macro), or undefined.
static bool bind_params(struct render *r, const struct node *macro, const struct args *args,
                        struct scope *scope) {
    size_t i = 0;
    for (const struct node *param = macro->a; param; param = param->next, i++) {
        const struct str *name = param->constant.s;
        const struct named_arg *named = i < args->n_pos ? NULL : named_find(args, name);
        struct value v;
        if (i < args->n_pos) {
            v = args->pos[i];
        } else if (named) {
            v = named->value;
        } else if (param->a) {
            v = jinja_eval(r, param->a);
            if (is_error(v)) return false;
        } else {
            v = (struct value){.kind = V_UNDEFINED, .s = (struct str *)name};
        }
        if (!jinja_scope_set(r, scope, name, v)) return false;
    }
    return true;
}

static bool bind_varargs(struct render *r, const struct node *macro, const struct args *args,
                         struct scope *scope, size_t n_params) {
    static const struct str name = {"varargs", 7, 7, NULL};
    const size_t n = args->n_pos > n_params ? args->n_pos - n_params : 0;
    if (!(macro->op & MACRO_VARARGS) || is_param(macro, &name, 0)) {
        if (n == 0) return true;
        const struct str *own = macro->constant.s;
        jinja_fail(r, "macro '%.*s' takes not more than %zu arguments", (int)own->len, own->data,
                   n_params);
        return false;
    }
    struct seq *q = jinja_seq_new(r, SEQ_TUPLE, n);
    if (!q) return false;
    for (size_t i = 0; i < n; i++) q->items[i] = args->pos[n_params + i];
    const struct value v = jinja_seq_close(r, q);
    return !is_error(v) && jinja_scope_set(r, scope, &name, v);
}

// What was given by name and is no parameter, except `caller`.
static bool bind_kwargs(struct render *r, const struct node *macro, const struct args *args,
                        struct scope *scope) {
    static const struct str name = {"kwargs", 6, 6, NULL};
    const bool catches = macro->op & MACRO_KWARGS && !is_param(macro, &name, 0);
    struct dict *d = catches ? jinja_dict_new(r, args->n_named) : NULL;
    if (catches && !d) return false;
    for (size_t i = 0; i < args->n_named; i++) {
        const struct str *key = args->named[i].name;
        const bool is_caller = str_equals(key, "caller") && macro->op & MACRO_CALLER;
        if (is_caller || is_param(macro, key, args->n_pos)) continue;
        if (!catches) {
            const struct str *own = macro->constant.s;
            jinja_fail(r, "macro '%.*s' takes no keyword argument '%.*s'", (int)own->len, own->data,
                       (int)key->len, key->data);
            return false;
        }
        const struct value v = value_str((struct str *)key);
        if (!jinja_dict_set(r, d, v, args->named[i].value)) return false;
    }
    return !catches || jinja_scope_set(r, scope, &name, value_dict(d));
}

static bool bind_caller(struct render *r, const struct node *macro, const struct args *args,
                        struct scope *scope) {
    static const struct str name = {"caller", 6, 6, NULL};
    if (!(macro->op & MACRO_CALLER) || is_param(macro, &name, 0)) return true;
    const struct named_arg *named = named_find(args, &name);
    const struct value v =
        named ? named->value : jinja_undefined(r, UNDEFINED_HINT, "no caller is defined");
    return !is_error(v) && jinja_scope_set(r, scope, &name, v);
}

struct value jinja_call_macro(struct render *r, const struct macro *macro,
                              const struct args *args) {
    if (r->n_calls == TEMPLATE_MAX_DEPTH) {
        return jinja_limit(r, "calls are nested deeper than %d", TEMPLATE_MAX_DEPTH);
    }
    struct scope *back = r->scope, *scope = jinja_scope_push(r, macro->scope, macro->node->shadow);
    if (!scope) return value_error();
    r->n_calls++;
    size_t n_params = 0;
    for (const struct node *param = macro->node->a; param; param = param->next) n_params++;
    const bool is_bound =
        jinja_charge(r, n_params * args->n_named / 8) && bind_params(r, macro->node, args, scope) &&
        bind_caller(r, macro->node, args, scope) && bind_kwargs(r, macro->node, args, scope) &&
        bind_varargs(r, macro->node, args, scope, n_params);
    const struct value v = is_bound ? jinja_exec_capture(r, macro->node->b) : value_error();
    r->n_calls--;
    jinja_scope_pop(r, scope, back);
    return v;
}

static struct value call_joiner(struct render *r, struct joiner *joiner) {
    if (joiner->is_used) return joiner->separator;
    joiner->is_used = true;
    return jinja_str_literal(r, "");
}

struct value jinja_call(struct render *r, struct value callee, const struct args *args) {
    switch (callee.kind) {
    case V_MACRO:
        return jinja_call_macro(r, callee.macro, args);
    case V_FUNCTION:
        return jinja_entry_call(r, callee.function, value_none(), args);
    case V_METHOD:
        return jinja_entry_call(r, callee.method->entry, callee.method->self, args);
    case V_JOINER:
        return call_joiner(r, callee.joiner);
    case V_LOOP:
        return jinja_loop_call(r, callee.loop, args);
    case V_UNDEFINED:
        return jinja_fail_undefined(r, callee);
    default:
        return jinja_fail(r, "'%s' object is not callable", jinja_type_name(callee));
    }
}

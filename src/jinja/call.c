// Calls: binding of arguments to the parameters of a row or a macro, and the tables' look-up.
#include <string.h>

#include "jinja/render.h"
#include "jinja/text.h"

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

bool jinja_names_have(const char *names, const char *name, size_t len) {
    for (const char *at = names + 1; at[-1] && *at; at += strcspn(at, " ") + 1) {
        if (strcspn(at, " ") == len && memcmp(at, name, len) == 0) return true;
    }
    return false;
}

struct value jinja_fail_no_entry(struct render *r, const struct table *table,
                                 const struct str *name) {
    const char *what = table == &jinja_filters ? "filter"
                       : table == &jinja_tests ? "test"
                                               : "function";
    const int len = name->len > 80 ? 80 : (int)name->len;
    if (jinja_names_have(table->left_out, name->data, name->len)) {
        return jinja_fail(r, "the %s '%.*s' is not supported", what, len, name->data);
    }
    return jinja_fail(r, "there is no %s '%.*s'", what, len, name->data);
}

// The number of the parameter in "a b c", or -1; with name NULL the number of all.
static int param_find(const char *params, const struct str *name) {
    int i = 0;
    for (; *params; i++) {
        const size_t n = strcspn(params, " ");
        if (name && n == name->len && memcmp(params, name->data, n) == 0) return i;
        params += n;
        params += *params == ' ';
    }
    return name ? -1 : i;
}

static bool bind(struct render *r, const struct entry *entry, const struct args *args,
                 struct call *c) {
    const int n = param_find(entry->params, NULL);
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
    if (!entry) return jinja_fail_no_entry(r, table, name.s);
    return jinja_charge(r, 1) ? jinja_entry_call(r, entry, self, args) : value_error();
}

bool jinja_arg_int(struct render *r, const struct call *c, int i, int64_t *out) {
    const struct value v = c->arg[i];
    if (is_int(v)) *out = int_of(v);
    if (is_int(v) || is_absent(v)) return true;
    if (v.kind == V_UNDEFINED) {
        jinja_fail_undefined(r, v);
    } else {
        jinja_fail(r, "%s: argument %d must be an integer, not '%s'", c->name, i + 1,
                   jinja_type_name(v));
    }
    return false;
}

bool jinja_arg_bool(const struct call *c, int i) { return jinja_is_true(c->arg[i]); }

bool jinja_arg_str(struct render *r, const struct call *c, int i, const struct str **out) {
    const struct value v = c->arg[i];
    if (v.kind == V_STR) *out = v.s;
    if (v.kind == V_STR || is_absent(v)) return true;
    jinja_fail(r, "%s: argument %d must be a string, not '%s'", c->name, i + 1, jinja_type_name(v));
    return false;
}

// ---------------------------------------------------------------- macros

static const struct named_arg *named_find(const struct args *args, const struct str *name) {
    for (size_t i = 0; i < args->n_named; i++) {
        if (str_same(args->named[i].name, name)) return &args->named[i];
    }
    return NULL;
}

// A parameter's value: by position, by name, by default (evaluated inside the macro), or undefined.
static struct value param_value(struct render *r, const struct node *param, size_t i,
                                const struct args *args, size_t *n_named) {
    if (i < args->n_pos) return args->pos[i];
    const struct named_arg *named = named_find(args, param->constant.s);
    if (named) ++*n_named;
    if (named) return named->value;
    if (param->a) return jinja_eval(r, param->a);
    return (struct value){.kind = V_UNDEFINED, .s = param->constant.s};
}

static bool bind_params(struct render *r, const struct node *macro, const struct args *args,
                        struct scope *scope) {
    size_t i = 0, n_named = 0;
    for (const struct node *param = macro->a; param; param = param->next, i++) {
        const struct value v = param_value(r, param, i, args, &n_named);
        if (is_error(v) || !jinja_charge(r, args->n_named / 8)) return false;
        if (!jinja_scope_set(r, scope, param->constant.s, v)) return false;
    }
    const struct str *name = macro->constant.s;
    if (args->n_pos > i) {
        jinja_fail(r, "macro '%.*s' takes not more than %zu arguments", (int)name->len, name->data,
                   i);
    } else if (args->n_named > n_named) {
        jinja_fail(r, "macro '%.*s' was given an argument that it does not take", (int)name->len,
                   name->data);
    }
    return r->status == RN_OK;
}

static struct value call_macro(struct render *r, const struct macro *macro,
                               const struct args *args) {
    if (r->n_calls == TEMPLATE_MAX_DEPTH) {
        return jinja_fail(r, "calls are nested deeper than %d", TEMPLATE_MAX_DEPTH);
    }
    struct scope *back = r->scope, *scope = jinja_scope_push(r, macro->scope);
    if (!scope) return value_error();
    r->n_calls++;
    const bool is_bound = bind_params(r, macro->node, args, scope);
    const struct value v = is_bound ? jinja_exec_capture(r, macro->node->b) : value_error();
    r->n_calls--;
    jinja_scope_pop(r, scope, back);
    return v;
}

struct value jinja_call(struct render *r, struct value callee, const struct args *args) {
    switch (callee.kind) {
    case V_MACRO:
        return call_macro(r, callee.macro, args);
    case V_FUNCTION:
        return jinja_entry_call(r, callee.function, value_none(), args);
    case V_METHOD:
        return jinja_entry_call(r, callee.method->entry, callee.method->self, args);
    case V_UNDEFINED:
        return jinja_fail_undefined(r, callee);
    default:
        return jinja_fail(r, "'%s' object is not callable", jinja_type_name(callee));
    }
}

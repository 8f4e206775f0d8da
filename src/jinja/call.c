// Calls: binding of arguments to the parameters of a row or a macro, and the tables' look-up.
#include <string.h>

#include "jinja/render.h"
#include "jinja/text.h"

const struct entry *jinja_table_find(const struct table *table, const struct str *name) {
    for (size_t i = 0; i < table->n; i++) {
        if (str_equals(name, table->entries[i].name)) return &table->entries[i];
    }
    return NULL;
}

static const char *names_next(const char *names) {
    names += strcspn(names, " ");
    return names + (*names == ' ');
}

int jinja_names_find(const char *names, const char *name, size_t len) {
    for (int i = 0; *names; i++, names = names_next(names)) {
        if (strcspn(names, " ") == len && memcmp(names, name, len) == 0) return i;
    }
    return -1;
}

void jinja_fail_no_entry(struct render *r, const struct table *table, const struct str *name) {
    const int len = jinja_shown(name->len);
    if (jinja_names_find(table->left_out, name->data, name->len) >= 0) {
        jinja_fail(r, "the %s '%.*s' is not supported", table->what, len, name->data);
    }
    jinja_fail(r, "there is no %s '%.*s'", table->what, len, name->data);
}

static int names_count(const char *names) {
    int n = 0;
    for (; *names; names = names_next(names)) n++;
    return n;
}

static void bind(struct render *r, const struct args *args, struct call *c) {
    const struct entry *entry = c->entry;
    const int n = names_count(entry->params);
    if (args->n_pos > (size_t)n) {
        jinja_fail(r, "%s takes at most %d arguments, got %zu", entry->name, n, args->n_pos);
    }
    for (size_t i = 0; i < args->n_pos; i++) c->arg[i] = args->list[i].value;
    for (size_t i = args->n_pos; i < args->n; i++) {
        const struct str *name = args->list[i].name;
        const int at = jinja_names_find(entry->params, name->data, name->len);
        if (at < 0 || !is_missing(c->arg[at])) {
            jinja_fail(r, "%s %s argument '%.*s'", entry->name, at < 0 ? "has no" : "got twice the",
                       (int)name->len, name->data);
        }
        c->arg[at] = args->list[i].value;
    }
    for (int i = 0; i < entry->n_required; i++) {
        if (!is_missing(c->arg[i])) continue;
        jinja_fail(r, "%s needs %d arguments", entry->name, entry->n_required);
    }
}

struct value jinja_entry_call(struct render *r, const struct entry *entry, struct value self,
                              const struct args *args) {
    struct call c = {.self = self, .raw = args, .entry = entry};
    if (strcmp(entry->params, "*") != 0) bind(r, args, &c);
    return entry->fn(r, &c);
}

struct value jinja_call_named(struct render *r, const struct table *table, struct value name,
                              struct value self, const struct args *args) {
    if (name.kind != V_STR) {
        jinja_fail(r, "the name of a filter or test is a string, not '%s'", jinja_type_name(name));
    }
    const struct entry *entry = jinja_table_find(table, name.s);
    if (!entry) jinja_fail_no_entry(r, table, name.s);
    jinja_charge(r, 1);
    jinja_frame_enter(r); // map('map', 'map', ...) calls itself
    const struct value v = jinja_entry_call(r, entry, self, args);
    jinja_frame_leave(r);
    return v;
}

static _Noreturn void fail_arg(struct render *r, const struct call *c, int i, const char *wanted) {
    jinja_fail(r, "%s: argument %d must be %s, not '%s'", c->entry->name, i + 1, wanted,
               jinja_type_name(c->arg[i]));
}

int64_t jinja_arg_int(struct render *r, const struct call *c, int i, int64_t fallback) {
    const struct value v = c->arg[i];
    if (is_absent(v)) return fallback;
    if (v.kind == V_UNDEFINED) jinja_fail_undefined(r, v);
    if (is_int(v)) return int_of(v);
    fail_arg(r, c, i, "an integer");
}

bool jinja_arg_bool(const struct call *c, int i) { return jinja_is_true(c->arg[i]); }

const struct str *jinja_arg_str(struct render *r, const struct call *c, int i) {
    const struct value v = c->arg[i];
    if (is_absent(v)) return NULL;
    if (v.kind == V_STR) return v.s;
    fail_arg(r, c, i, "a string");
}

// ---------------------------------------------------------------- macros

// A parameter's value: by position, by name, by default (evaluated inside the macro), or undefined.
static struct value param_value(struct render *r, const struct node *param, size_t i,
                                const struct args *args, size_t *n_named) {
    if (i < args->n_pos) return args->list[i].value;
    jinja_charge(r, args->n / 8);
    for (size_t k = args->n_pos; k < args->n; k++) {
        if (!str_same(args->list[k].name, param->constant.s)) continue;
        ++*n_named;
        return args->list[k].value;
    }
    if (param->a) return jinja_eval(r, param->a);
    return (struct value){.kind = V_UNDEFINED, .s = param->constant.s};
}

// Into the macro's scope.
static void bind_params(struct render *r, const struct node *macro, const struct args *args) {
    const struct str *name = macro->constant.s;
    size_t i = 0, n_named = 0;
    for (const struct node *param = macro->a; param; param = param->next, i++) {
        jinja_scope_set(r, param->constant.s, param_value(r, param, i, args, &n_named));
    }
    if (args->n_pos > i) {
        jinja_fail(r, "macro '%.*s' takes not more than %zu arguments", (int)name->len, name->data,
                   i);
    }
    if (args->n - args->n_pos > n_named) {
        jinja_fail(r, "macro '%.*s' was given an argument that it does not take", (int)name->len,
                   name->data);
    }
}

static struct value call_macro(struct render *r, const struct macro *macro,
                               const struct args *args) {
    if (r->n_calls++ == TEMPLATE_MAX_DEPTH) {
        jinja_fail(r, "calls are nested deeper than %d", TEMPLATE_MAX_DEPTH);
    }
    struct scope *const back = r->scope;
    jinja_scope_push(r, macro->scope);
    bind_params(r, macro->node, args);
    const struct value v = jinja_exec_capture(r, macro->node->b, NULL);
    r->n_calls--;
    r->scope = back;
    return v;
}

struct value jinja_call(struct render *r, struct value callee, const struct args *args) {
    if (callee.kind == V_MACRO) return call_macro(r, callee.macro, args);
    if (callee.kind == V_FUNCTION) {
        return jinja_entry_call(r, callee.function, value_none(), args);
    }
    if (callee.kind == V_METHOD) {
        return jinja_entry_call(r, callee.method->entry, callee.method->self, args);
    }
    if (callee.kind == V_UNDEFINED) jinja_fail_undefined(r, callee);
    jinja_fail(r, "'%s' object is not callable", jinja_type_name(callee));
}

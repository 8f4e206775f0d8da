// Scopes: the names of a block. Loops, macros and captured blocks open one, if does not. A name
// that no scope has is looked up in the caller's globals, then in our functions.
#include "jinja/render.h"
#include "jinja/text.h"

struct scope *jinja_scope_push(struct render *r, struct scope *parent) {
    struct scope *scope = jinja_alloc(r, sizeof *scope);
    scope->parent = parent;
    r->scope = scope;
    return scope;
}

static struct value *find(struct render *r, struct scope *scope, const struct str *name) {
    jinja_charge(r, scope->n / 16);
    for (size_t i = 0; i < scope->n; i++) {
        if (str_same(scope->vars[i].name, name)) return &scope->vars[i].value;
    }
    return NULL;
}

void jinja_scope_set(struct render *r, struct scope *scope, const struct str *name,
                     struct value value) {
    struct value *old = find(r, scope, name);
    if (old) {
        *old = value;
        return;
    }
    if (scope->n == scope->cap) {
        scope->vars = jinja_array_grow(r, scope->vars, scope->n, &scope->cap, sizeof *scope->vars);
    }
    scope->vars[scope->n++] = (struct binding){name, value};
}

struct value jinja_lookup(struct render *r, const struct str *name) {
    for (struct scope *scope = r->scope; scope; scope = scope->parent) {
        const struct value *found = find(r, scope, name);
        if (found) return *found;
    }
    const struct value *global = jinja_dict_find_str(r, r->globals, name);
    if (global) return *global;
    const struct entry *function = jinja_table_find(&jinja_functions, name->data, name->len);
    if (function) return (struct value){.kind = V_FUNCTION, .function = function};
    if (jinja_names_have(jinja_functions.left_out, name->data, name->len)) {
        jinja_fail_no_entry(r, &jinja_functions, name);
    }
    return (struct value){.kind = V_UNDEFINED, .flag = UNDEFINED_NAME, .s = (struct str *)name};
}

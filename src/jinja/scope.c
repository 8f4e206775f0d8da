// Scopes: where names live. Loops, macros and with blocks open one, if does not; what is looked up
// and not found in the chain is a global of the caller, then one of our functions. A scope that no
// macro refers to is used again.
#include <string.h>

#include "jinja/render.h"

static bool bind(struct render *r, struct scope *scope, const struct str *name,
                 struct value value) {
    if (scope->n == scope->cap) {
        const uint32_t cap = scope->cap ? scope->cap * 2 : 8;
        struct binding *vars = jinja_array(r, cap, sizeof *vars);
        if (!vars) return false;
        if (scope->n) memcpy(vars, scope->vars, scope->n * sizeof *vars);
        scope->vars = vars;
        scope->cap = cap;
    }
    scope->vars[scope->n++] = (struct binding){name, value};
    return true;
}

bool jinja_scope_reset(struct render *r, struct scope *scope, const struct shadow *shadow) {
    scope->n = 0;
    for (size_t i = 0; shadow && i < shadow->n; i++) {
        if (!bind(r, scope, shadow->names[i], value_missing())) return false;
    }
    return true;
}

struct scope *jinja_scope_push(struct render *r, struct scope *parent,
                               const struct shadow *shadow) {
    struct scope *scope = r->free_scopes;
    if (scope) {
        r->free_scopes = scope->parent;
    } else {
        scope = jinja_alloc(r, sizeof *scope);
        if (!scope) return NULL;
    }
    scope->parent = parent;
    r->scope = scope;
    return jinja_scope_reset(r, scope, shadow) ? scope : NULL;
}

void jinja_scope_pop(struct render *r, struct scope *scope, struct scope *back) {
    r->scope = back;
    if (scope->is_captured) return;
    scope->parent = r->free_scopes;
    r->free_scopes = scope;
}

static struct value *find(struct scope *scope, const struct str *name) {
    for (uint32_t i = 0; i < scope->n; i++) {
        if (str_same(scope->vars[i].name, name)) return &scope->vars[i].value;
    }
    return NULL;
}

bool jinja_scope_set(struct render *r, struct scope *scope, const struct str *name,
                     struct value value) {
    struct value *old = find(scope, name);
    if (!jinja_charge(r, scope->n / 16)) return false;
    if (old) {
        *old = value;
        return true;
    }
    return bind(r, scope, name, value);
}

static struct value undefined_name(const struct str *name) {
    return (struct value){.kind = V_UNDEFINED, .flag = UNDEFINED_NAME, .s = (struct str *)name};
}

struct value jinja_lookup(struct render *r, const struct str *name) {
    for (struct scope *scope = r->scope; scope; scope = scope->parent) {
        if (!jinja_charge(r, scope->n / 16)) return value_error();
        const struct value *found = find(scope, name);
        if (found && is_missing(*found)) return undefined_name(name);
        if (found) return *found;
    }
    const struct value *global = jinja_dict_find_str(r, r->globals, name);
    if (global) return *global;
    if (r->status != RN_OK) return value_error();
    const struct entry *function = jinja_table_find(&jinja_functions, name->data, name->len);
    if (function) return (struct value){.kind = V_FUNCTION, .function = function};
    return undefined_name(name);
}

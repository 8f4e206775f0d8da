// Attributes, items and slices, as Jinja's immutable sandbox resolves them: x.a tries the attribute
// first and then the key, x['a'] the other way round. A missing attribute is undefined and no
// error, and so are methods that would change a value. Methods that are left out here are an error.
#include "jinja/render.h"
#include "jinja/text.h"

static struct value undefined_attr(struct value object, const struct str *name,
                                   enum undefined_reason reason) {
    return (struct value){.kind = V_UNDEFINED,
                          .flag = (uint8_t)reason,
                          .owner = jinja_type(object),
                          .s = (struct str *)name};
}

static const struct table *methods_of(struct value object) {
    if (object.kind == V_STR) return &jinja_str_methods;
    if (object.kind == V_DICT) return &jinja_dict_methods;
    if (is_seq(object, SEQ_LIST)) return &jinja_list_methods;
    if (is_seq(object, SEQ_TUPLE) || is_seq(object, SEQ_RANGE)) return &jinja_tuple_methods;
    return NULL;
}

static struct value method(struct render *r, struct value object, const struct table *table,
                           const struct str *name) {
    const struct entry *entry = jinja_table_find(table, name);
    if (entry) {
        struct method *bound = jinja_alloc(r, sizeof *bound);
        *bound = (struct method){entry, object};
        return (struct value){.kind = V_METHOD, .method = bound};
    }
    if (jinja_names_find(table->unsafe, name->data, name->len) >= 0) {
        return undefined_attr(object, name, UNDEFINED_UNSAFE);
    }
    if (jinja_names_find(table->left_out, name->data, name->len) < 0) return value_missing();
    jinja_fail(r, "the method '%.*s' of '%s' is not supported", (int)name->len, name->data,
               jinja_type_name(object));
}

// The Python attribute of that name, V_MISSING when there is none.
static struct value attribute(struct render *r, struct value object, const struct str *name) {
    const struct table *methods = methods_of(object);
    if (methods) return method(r, object, methods, name);
    if (object.kind == V_LOOP) return jinja_loop_attr(r, object.loop, name);
    if (object.kind == V_MACRO) jinja_fail(r, "attributes of macros are not supported");
    if (object.kind != V_NAMESPACE) return value_missing();
    const struct value *found = jinja_dict_find(r, object.d, value_str(name));
    return found ? *found : value_missing();
}

struct value jinja_getattr(struct render *r, struct value object, const struct str *name) {
    if (object.kind == V_UNDEFINED) jinja_fail_undefined(r, object);
    const struct value v = attribute(r, object, name);
    if (!is_missing(v)) return v;
    if (object.kind == V_DICT) {
        const struct value *found = jinja_dict_find(r, object.d, value_str(name));
        if (found) return *found;
    }
    return undefined_attr(object, name, UNDEFINED_ATTRIBUTE);
}

static bool is_indexed(struct value v) {
    return v.kind == V_STR || (v.kind == V_SEQ && v.q->flavor < SEQ_ITER);
}

// The element at an index, V_MISSING when there is none.
static struct value element(struct render *r, struct value object, int64_t index) {
    if (!is_indexed(object)) return value_missing();
    const int64_t n = jinja_length(r, object);
    if (index < 0) index += n;
    if (index < 0 || index >= n) return value_missing();
    if (object.kind == V_SEQ) return object.q->items[index];
    if (object.s->n_chars != object.s->len) jinja_work(r, object.s->len);
    const size_t from = jinja_char_offset(object.s, (size_t)index);
    return jinja_substr(r, object.s, from, jinja_char_end(object.s, from));
}

struct value jinja_getitem(struct render *r, struct value object, struct value key) {
    if (object.kind == V_UNDEFINED) jinja_fail_undefined(r, object);
    if (object.kind == V_DICT) {
        const struct value *found = jinja_dict_find(r, object.d, key);
        if (found) return *found;
    } else if (is_int(key)) {
        const struct value v = element(r, object, int_of(key));
        if (!is_missing(v)) return v;
    }
    if (key.kind != V_STR) return jinja_undefined(r, "there is no such element");
    const struct value v = attribute(r, object, key.s);
    return is_missing(v) ? undefined_attr(object, key.s, UNDEFINED_ATTRIBUTE) : v;
}

// ---------------------------------------------------------------- slices

// A bound of a slice of n items, from 0 to n.
static int64_t bound_of(struct render *r, struct value v, int64_t n, int64_t fallback) {
    if (is_absent(v)) return fallback;
    if (v.kind == V_UNDEFINED) jinja_fail_undefined(r, v);
    if (!is_int(v)) {
        jinja_fail(r, "slice indices must be integers, not '%s'", jinja_type_name(v));
    }
    const int64_t i = int_of(v);
    return i < -n ? 0 : i < 0 ? i + n : i > n ? n : i;
}

static struct value slice_str(struct render *r, struct str *s, int64_t first, int64_t count) {
    if (s->n_chars != s->len) jinja_work(r, s->len);
    const size_t from = jinja_char_offset(s, (size_t)first);
    return jinja_substr(r, s, from, jinja_char_offset(s, (size_t)(first + count)));
}

struct value jinja_getslice(struct render *r, struct value object, struct value start,
                            struct value stop, struct value step) {
    if (object.kind == V_UNDEFINED) jinja_fail_undefined(r, object);
    if (!is_indexed(object)) {
        jinja_fail(r, "'%s' object has no slices", jinja_type_name(object));
    }
    const bool is_reverse = is_absent(start) && is_absent(stop) && object.kind == V_SEQ &&
                            is_int(step) && int_of(step) == -1;
    if (!is_absent(step) && !is_reverse) {
        jinja_fail(r, "steps of slices other than [::-1] of lists are not supported");
    }
    const int64_t n = jinja_length(r, object), first = bound_of(r, start, n, 0);
    const int64_t last = bound_of(r, stop, n, n), count = last > first ? last - first : 0;
    if (object.kind == V_STR) return slice_str(r, object.s, first, count);
    struct seq *out = jinja_seq_new(r, (enum seq_flavor)object.q->flavor, (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        out->items[i] = object.q->items[is_reverse ? n - 1 - i : first + i];
    }
    return jinja_seq_close(r, out);
}

// ---------------------------------------------------------------- paths

static struct value part_key(struct render *r, const struct str *path, size_t from, size_t to) {
    int64_t index;
    const bool is_index = from < to && path->data[from] >= '0' && path->data[from] <= '9' &&
                          number_parse_int(path->data + from, to - from, &index) == NUMBER_OK;
    return is_index ? value_int(index) : jinja_substr(r, path, from, to);
}

struct value jinja_getpath(struct render *r, struct value object, struct value path) {
    if (is_absent(path)) return object;
    if (path.kind != V_STR) return jinja_getitem(r, object, path);
    const struct str *s = path.s;
    for (size_t from = 0; from <= s->len;) {
        size_t to = from;
        while (to < s->len && s->data[to] != '.') to++;
        jinja_work_chars(r, to - from);
        object = jinja_getitem(r, object, part_key(r, s, from, to));
        from = to + 1;
    }
    return object;
}

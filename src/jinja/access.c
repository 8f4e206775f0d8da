// Attributes, items and slices, as Jinja's immutable sandbox resolves them: x.a tries the attribute
// first and then the key, x['a'] the other way round; what is missing is undefined and no error;
// methods that would change a value are undefined too.
#include <string.h>

#include "jinja/chars.h"
#include "jinja/number.h"
#include "jinja/render.h"

static struct value undefined_attr(struct value object, const struct str *name,
                                   enum undefined_reason reason) {
    return (struct value){.kind = V_UNDEFINED,
                          .flag = (uint8_t)reason,
                          .owner = object.kind,
                          .owner_flavor = object.kind == V_SEQ ? object.q->flavor : 0,
                          .s = (struct str *)name};
}

static const struct table *methods_of(struct value object) {
    if (object.kind == V_STR) return &jinja_str_methods;
    if (object.kind == V_DICT) return &jinja_dict_methods;
    if (is_seq(object, SEQ_LIST)) return &jinja_list_methods;
    if (is_tuple(object) || is_seq(object, SEQ_RANGE)) return &jinja_tuple_methods;
    return NULL;
}

static struct value method_bind(struct render *r, struct value object, const struct entry *entry) {
    struct method *method = jinja_alloc(r, sizeof *method);
    if (!method) return value_error();
    *method = (struct method){entry, object};
    return (struct value){.kind = V_METHOD, .method = method};
}

static struct value cycler_next(struct render *r, struct value self, const struct call *c) {
    (void)r, (void)c;
    struct cycler *cycler = self.cycler;
    const struct value v = cycler->items[cycler->pos];
    cycler->pos = (cycler->pos + 1) % cycler->n;
    return v;
}

static struct value cycler_reset(struct render *r, struct value self, const struct call *c) {
    (void)r, (void)c;
    self.cycler->pos = 0;
    return value_none();
}

static const struct entry cycler_methods[] = {{"next", cycler_next, "", 0},
                                              {"reset", cycler_reset, "", 0}};

static struct value cycler_attr(struct render *r, struct value object, const struct str *name) {
    if (str_equals(name, "current")) return object.cycler->items[object.cycler->pos];
    for (size_t i = 0; i < 2; i++) {
        if (str_equals(name, cycler_methods[i].name)) {
            return method_bind(r, object, &cycler_methods[i]);
        }
    }
    return value_missing();
}

// The Python attribute of that name, V_MISSING when there is none.
static struct value attribute(struct render *r, struct value object, const struct str *name) {
    const struct table *methods = methods_of(object);
    const struct entry *entry = methods ? jinja_table_find(methods, name->data, name->len) : NULL;
    if (entry) {
        return entry->fn ? method_bind(r, object, entry)
                         : undefined_attr(object, name, UNDEFINED_UNSAFE);
    }
    if (is_seq(object, SEQ_GROUP)) {
        if (str_equals(name, "grouper")) return object.q->items[0];
        if (str_equals(name, "list")) return object.q->items[1];
    }
    if (object.kind == V_NAMESPACE) {
        const struct value *found = jinja_dict_find_str(r, object.d, name);
        if (found) return *found;
    }
    if (object.kind == V_LOOP) return jinja_loop_attr(r, object, name);
    if (object.kind == V_CYCLER) return cycler_attr(r, object, name);
    if (object.kind == V_MACRO && str_equals(name, "name")) {
        return object.macro->node->constant;
    }
    return value_missing();
}

struct value jinja_getattr(struct render *r, struct value object, const struct str *name) {
    if (object.kind == V_UNDEFINED) return jinja_fail_undefined(r, object);
    const struct value v = attribute(r, object, name);
    if (!is_missing(v)) return v;
    if (object.kind == V_DICT) {
        const struct value *found = jinja_dict_find_str(r, object.d, name);
        if (found) return *found;
        if (r->status != RN_OK) return value_error();
    }
    return undefined_attr(object, name, UNDEFINED_ATTRIBUTE);
}

static struct value char_at(struct render *r, struct str *s, size_t n) {
    if (s->n_chars != s->len && !jinja_work(r, s->len)) return value_error();
    const size_t from = jinja_char_offset(s, n);
    size_t to = from + 1;
    while (to < s->len && ((uint8_t)s->data[to] & 0xc0) == 0x80) to++;
    return jinja_substr(r, s, from, to);
}

// What stands at an index, V_MISSING when nothing does or there are no indices.
static struct value element(struct render *r, struct value object, int64_t index) {
    const bool is_indexed =
        object.kind == V_STR || (object.kind == V_SEQ && object.q->flavor < SEQ_ITER);
    if (!is_indexed) return value_missing();
    const int64_t n = jinja_length(r, object);
    if (index < 0) index += n;
    if (index < 0 || index >= n) return value_missing();
    return object.kind == V_STR ? char_at(r, object.s, (size_t)index) : object.q->items[index];
}

static struct value undefined_element(struct render *r, struct value object) {
    if (r->status != RN_OK) return value_error();
    struct value v = jinja_undefined(r, UNDEFINED_HINT, "there is no such element");
    v.owner = object.kind;
    return v;
}

struct value jinja_getitem(struct render *r, struct value object, struct value key) {
    if (object.kind == V_UNDEFINED) return jinja_fail_undefined(r, object);
    if (object.kind == V_DICT) {
        const struct value *found = jinja_dict_find(r, object.d, key);
        if (found) return *found;
        if (r->status != RN_OK) return value_error();
    } else if (key.kind == V_INT || key.kind == V_BOOL) {
        const struct value v = element(r, object, key.kind == V_INT ? key.i : key.b);
        if (!is_missing(v)) return v;
    }
    if (key.kind != V_STR) return undefined_element(r, object);
    const struct value v = attribute(r, object, key.s);
    return is_missing(v) ? undefined_attr(object, key.s, UNDEFINED_ATTRIBUTE) : v;
}

// --- slices ---

struct slice {
    int64_t start, stop, step, count; // element i is start + i * step
};

static bool bound_read(struct render *r, struct value v, bool *is_given, int64_t *out) {
    *is_given = !is_absent(v);
    if (!*is_given) return true;
    if (v.kind != V_INT && v.kind != V_BOOL) {
        if (v.kind == V_UNDEFINED) {
            jinja_fail_undefined(r, v);
        } else {
            jinja_fail(r, "slice indices must be integers, not '%s'", jinja_type_name(v));
        }
        return false;
    }
    *out = v.kind == V_INT ? v.i : v.b;
    return true;
}

static int64_t bound_clip(int64_t i, int64_t n, bool is_down) {
    const int64_t low = is_down ? -1 : 0, high = is_down ? n - 1 : n;
    if (i < 0) i = i < -n ? low : i + n;
    return i < low ? low : i > high ? high : i;
}

static bool slice_read(struct render *r, int64_t n, struct value start, struct value stop,
                       struct value step, struct slice *out) {
    bool has_start, has_stop, has_step;
    int64_t first = 0, last = 0, stride = 1;
    if (!bound_read(r, start, &has_start, &first) || !bound_read(r, stop, &has_stop, &last) ||
        !bound_read(r, step, &has_step, &stride)) {
        return false;
    }
    if (stride == 0) {
        jinja_fail(r, "the step of a slice cannot be zero");
        return false;
    }
    const bool is_down = stride < 0;
    if (stride < -n - 1) stride = -n - 1; // longer steps reach no further
    if (stride > n + 1) stride = n + 1;
    first = has_start ? bound_clip(first, n, is_down) : is_down ? n - 1 : 0;
    last = has_stop ? bound_clip(last, n, is_down) : is_down ? -1 : n;
    const int64_t span = is_down ? first - last : last - first;
    const int64_t size = is_down ? -stride : stride;
    out->start = first;
    out->stop = last;
    out->step = stride;
    out->count = span > 0 ? (span + size - 1) / size : 0;
    return true;
}

static struct value slice_str(struct render *r, struct str *s, const struct slice *cut) {
    if (cut->count == 0) return jinja_str_literal(r, "");
    if (s->n_chars != s->len && !jinja_work(r, s->len)) return value_error();
    if (cut->step == 1) {
        const size_t from = jinja_char_offset(s, (size_t)cut->start);
        const size_t to = jinja_char_offset(s, (size_t)(cut->start + cut->count));
        return jinja_substr(r, s, from, to);
    }
    const struct seq *chars = jinja_iterate(r, value_str(s));
    if (!chars) return value_error();
    const size_t mark = r->out_len;
    for (int64_t i = 0; i < cut->count; i++) {
        const struct str *c = chars->items[cut->start + i * cut->step].s;
        if (!jinja_write(r, c->data, c->len)) return value_error();
    }
    return jinja_take(r, mark);
}

static struct value slice_seq(struct render *r, const struct seq *q, const struct slice *cut) {
    const enum seq_flavor flavor = q->flavor == SEQ_GROUP ? SEQ_TUPLE : (enum seq_flavor)q->flavor;
    struct seq *out = jinja_seq_new(r, flavor, (size_t)cut->count);
    if (!out) return value_error();
    for (int64_t i = 0; i < cut->count; i++) out->items[i] = q->items[cut->start + i * cut->step];
    out->start = q->start + cut->start * q->step;
    out->step = q->step * cut->step;
    out->stop = q->start + cut->stop * q->step;
    return jinja_seq_close(r, out);
}

struct value jinja_getslice(struct render *r, struct value object, struct value start,
                            struct value stop, struct value step) {
    if (object.kind == V_UNDEFINED) return jinja_fail_undefined(r, object);
    const bool is_sliced =
        object.kind == V_STR || (object.kind == V_SEQ && object.q->flavor < SEQ_ITER);
    if (!is_sliced) return jinja_fail(r, "'%s' object has no slices", jinja_type_name(object));
    struct slice cut;
    const int64_t n = jinja_length(r, object);
    if (n < 0 || !slice_read(r, n, start, stop, step, &cut)) return value_error();
    return object.kind == V_STR ? slice_str(r, object.s, &cut) : slice_seq(r, object.q, &cut);
}

// --- paths ---

static struct value part_key(struct render *r, const struct str *path, size_t from, size_t to) {
    const struct value part = jinja_substr(r, path, from, to);
    if (is_error(part)) return part;
    int64_t index;
    for (size_t i = from; i < to; i++) {
        if (path->data[i] < '0' || path->data[i] > '9') return part;
    }
    const bool is_index = number_parse_int(part.s->data, part.s->len, 10, &index) == NUMBER_OK;
    return is_index ? value_int(index) : part;
}

struct value jinja_getpath(struct render *r, struct value object, struct value path,
                           struct value fallback) {
    if (is_absent(path)) return object;
    if (path.kind != V_STR) {
        const struct value v = jinja_getitem(r, object, path);
        return v.kind == V_UNDEFINED && !is_absent(fallback) ? fallback : v;
    }
    const struct str *s = path.s;
    for (size_t from = 0; from <= s->len;) {
        size_t to = from;
        while (to < s->len && s->data[to] != '.') to++;
        const struct value key = part_key(r, s, from, to);
        if (is_error(key)) return key;
        object = jinja_getitem(r, object, key);
        if (is_error(object)) return object;
        if (object.kind == V_UNDEFINED && !is_absent(fallback)) object = fallback;
        from = to + 1;
    }
    return object;
}

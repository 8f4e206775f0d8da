// Global functions: range, dict, namespace, cycler, joiner, and transformers' raise_exception and
// strftime_now.
#include "jinja/render.h"

static bool range_args(struct render *r, const struct call *c, int64_t *start, int64_t *stop,
                       int64_t *step) {
    *start = 0;
    *stop = 0;
    *step = 1;
    const bool has_start = !is_missing(c->arg[1]);
    if (!jinja_arg_int(r, c, 0, has_start ? start : stop) ||
        (has_start && !jinja_arg_int(r, c, 1, stop)) || !jinja_arg_int(r, c, 2, step)) {
        return false;
    }
    if (*step == 0) jinja_fail(r, "range: the step cannot be zero");
    return *step != 0;
}

static struct value function_range(struct render *r, struct value self, const struct call *c) {
    (void)self;
    int64_t start, stop, step;
    if (!range_args(r, c, &start, &stop, &step)) return value_error();
    const bool is_empty = step > 0 ? start >= stop : start <= stop;
    // The distance and the step fit unsigned words whatever their signs.
    const uint64_t span =
        step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    const uint64_t size = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    const uint64_t n = is_empty ? 0 : (span - 1) / size + 1;
    if (n > JINJA_MAX_RANGE) {
        return jinja_limit(r, "the range has more than %d items", JINJA_MAX_RANGE);
    }
    struct seq *q = jinja_seq_new(r, SEQ_RANGE, n);
    if (!q || !jinja_charge(r, n)) return value_error();
    for (uint64_t i = 0; i < n; i++) {
        q->items[i] = value_int((int64_t)((uint64_t)start + i * (uint64_t)step));
    }
    q->start = start;
    q->stop = stop;
    q->step = step;
    return value_seq(q);
}

static bool dict_add_pairs(struct render *r, struct dict *d, struct value from) {
    if (from.kind == V_DICT) {
        for (size_t i = 0; i < from.d->n; i++) {
            if (!jinja_dict_set(r, d, from.d->entries[i].key, from.d->entries[i].value)) {
                return false;
            }
        }
        return true;
    }
    const struct seq *pairs = jinja_iterate(r, from);
    for (size_t i = 0; pairs && i < pairs->n; i++) {
        const struct seq *pair = jinja_iterate(r, pairs->items[i]);
        if (!pair) return false;
        if (pair->n != 2) {
            jinja_fail(r, "a dictionary is made of pairs, not of %zu items", pair->n);
            return false;
        }
        if (!jinja_dict_set(r, d, pair->items[0], pair->items[1])) return false;
    }
    return pairs != NULL;
}

static struct value function_dict(struct render *r, struct value self, const struct call *c) {
    (void)self;
    struct dict *d = jinja_dict_new(r, 4);
    if (!d) return value_error();
    if (c->raw->n_pos > 1) return jinja_fail(r, "%s takes at most one argument", c->name);
    if (c->raw->n_pos && !dict_add_pairs(r, d, c->raw->pos[0])) return value_error();
    for (size_t i = 0; i < c->raw->n_named; i++) {
        const struct value key = value_str((struct str *)c->raw->named[i].name);
        if (!jinja_dict_set(r, d, key, c->raw->named[i].value)) return value_error();
    }
    return value_dict(d);
}

static struct value function_namespace(struct render *r, struct value self, const struct call *c) {
    struct value v = function_dict(r, self, c);
    if (v.kind == V_DICT) v.kind = V_NAMESPACE;
    return v;
}

static struct value function_cycler(struct render *r, struct value self, const struct call *c) {
    (void)self;
    const size_t n = c->raw->n_pos;
    if (n == 0) return jinja_fail(r, "cycler needs an item");
    struct cycler *cycler = jinja_alloc(r, sizeof *cycler);
    if (!cycler) return value_error();
    cycler->n = n;
    cycler->items = jinja_array(r, n, sizeof *cycler->items);
    if (!cycler->items) return value_error();
    for (size_t i = 0; i < n; i++) cycler->items[i] = c->raw->pos[i];
    return (struct value){.kind = V_CYCLER, .cycler = cycler};
}

static struct value function_joiner(struct render *r, struct value self, const struct call *c) {
    (void)self;
    struct joiner *joiner = jinja_alloc(r, sizeof *joiner);
    if (!joiner) return value_error();
    joiner->separator = is_missing(c->arg[0]) ? jinja_str_literal(r, ", ") : c->arg[0];
    if (is_error(joiner->separator)) return value_error();
    return (struct value){.kind = V_JOINER, .joiner = joiner};
}

static struct value function_raise_exception(struct render *r, struct value self,
                                             const struct call *c) {
    (void)self;
    const struct value message = jinja_to_str(r, c->arg[0]);
    return is_error(message) ? message : jinja_raise(r, message.s->data, message.s->len);
}

static struct value function_strftime_now(struct render *r, struct value self,
                                          const struct call *c) {
    (void)self;
    const struct str *format = NULL;
    if (!jinja_arg_str(r, c, 0, &format)) return value_error();
    if (!format) return jinja_fail(r, "strftime_now needs a format");
    return jinja_strftime(r, format);
}

static const struct entry functions[] = {
    {"cycler", function_cycler, "*", 0},
    {"dict", function_dict, "*", 0},
    {"joiner", function_joiner, "sep", 0},
    {"namespace", function_namespace, "*", 0},
    {"raise_exception", function_raise_exception, "message", 1},
    {"range", function_range, "start stop step", 1},
    {"strftime_now", function_strftime_now, "format", 1},
};

const struct table jinja_functions = {functions, sizeof functions / sizeof functions[0]};

// Sums, products, remainders and comparison as Python has them. Integers have 64 bits: a result
// that does not fit is an error. Booleans are 0 and 1.
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "jinja/render.h"

static _Noreturn void fail_types(struct render *r, enum node_op op, struct value a,
                                 struct value b) {
    jinja_fail(r, "'%c' is not supported between '%s' and '%s'", "+-*%"[op], jinja_type_name(a),
               jinja_type_name(b));
}

// The remainder has the sign of b, which is not zero.
static int64_t int_mod(int64_t a, int64_t b) {
    const int64_t rest = b == -1 ? 0 : a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static struct value int_binary(struct render *r, enum node_op op, int64_t a, int64_t b) {
    int64_t result = 0;
    bool fits = true;
    if (op == OP_MOD && b == 0) jinja_fail(r, "division by zero");
    if (op == OP_ADD) fits = !__builtin_add_overflow(a, b, &result);
    if (op == OP_SUB) fits = !__builtin_sub_overflow(a, b, &result);
    if (op == OP_MUL) fits = !__builtin_mul_overflow(a, b, &result);
    if (op == OP_MOD) result = int_mod(a, b);
    if (!fits) jinja_fail(r, "the integer does not fit 64 bits");
    return value_int(result);
}

static struct value number_binary(struct render *r, enum node_op op, struct value a,
                                  struct value b) {
    if (is_int(a) && is_int(b)) return int_binary(r, op, int_of(a), int_of(b));
    const double x = float_of(a), y = float_of(b);
    if (op == OP_MOD) jinja_fail(r, "'%%' of floats is not supported");
    const double result = op == OP_ADD ? x + y : op == OP_SUB ? x - y : x * y;
    if (isnan(result)) jinja_fail(r, "the result is not a number");
    return value_float(result);
}

static void write_escaped(struct render *r, const struct str *s) {
    static const char special[] = "&<>'\"";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    size_t from = 0;
    jinja_work_chars(r, s->len);
    for (size_t i = 0; i < s->len; i++) {
        const char *found = s->data[i] ? strchr(special, s->data[i]) : NULL;
        if (!found) continue;
        const char *entity = entities[found - special];
        jinja_write_str(r, s, from, i);
        jinja_write_as(r, entity, strlen(entity), str_mark(s, i));
        from = i + 1;
    }
    jinja_write_str(r, s, from, s->len);
}

// Text that was marked safe takes the other operand escaped.
static struct value add_safe(struct render *r, struct value a, struct value b) {
    const size_t mark = r->out_len;
    const struct value parts[] = {a, b};
    for (int i = 0; i < 2; i++) {
        if (parts[i].flag) {
            jinja_write_str(r, parts[i].s, 0, parts[i].s->len);
        } else {
            write_escaped(r, parts[i].s);
        }
    }
    struct value v = jinja_take(r, mark);
    v.flag = 1;
    return v;
}

static struct value add(struct render *r, struct value a, struct value b) {
    if (a.kind == V_STR && b.kind == V_STR) {
        if (a.flag || b.flag) return add_safe(r, a, b);
        return jinja_concat(r, a.s, b.s);
    }
    if (!is_list(a) || !is_list(b) || a.q->flavor != b.q->flavor) fail_types(r, OP_ADD, a, b);
    struct seq *q = jinja_seq_new(r, (enum seq_flavor)a.q->flavor, a.q->n + b.q->n);
    for (size_t i = 0; i < a.q->n; i++) q->items[i] = a.q->items[i];
    for (size_t i = 0; i < b.q->n; i++) q->items[a.q->n + i] = b.q->items[i];
    return jinja_seq_close(r, q);
}

// A string, repeated.
static struct value multiply(struct render *r, struct value a, struct value b) {
    const struct value v = is_int(a) ? b : a, count = is_int(a) ? a : b;
    if (!is_int(count) || v.kind != V_STR) fail_types(r, OP_MUL, a, b);
    const uint64_t times = int_of(count) > 0 ? (uint64_t)int_of(count) : 0;
    const size_t mark = r->out_len;
    uint64_t total;
    if (!ck_mul(v.s->len, times, &total)) total = UINT64_MAX;
    jinja_write_check(r, total);
    for (uint64_t i = 0; i < times && v.s->len; i++) jinja_write_str(r, v.s, 0, v.s->len);
    struct value out = jinja_take(r, mark);
    out.flag = v.flag;
    return out;
}

struct value jinja_binary(struct render *r, enum node_op op, struct value a, struct value b) {
    if (op == OP_CONCAT) return jinja_concat(r, jinja_to_str(r, a).s, jinja_to_str(r, b).s);
    if (is_number(a) && is_number(b)) return number_binary(r, op, a, b);
    if (op == OP_MOD && a.kind == V_STR) jinja_fail(r, "'%%' of a string is not supported");
    if (a.kind == V_UNDEFINED) jinja_fail_undefined(r, a);
    if (b.kind == V_UNDEFINED) jinja_fail_undefined(r, b);
    if (op == OP_ADD) return add(r, a, b);
    if (op == OP_MUL) return multiply(r, a, b);
    fail_types(r, op, a, b);
}

struct value jinja_compare(struct render *r, enum node_op op, struct value a, struct value b) {
    if (op == OP_EQ || op == OP_NE) return value_bool(jinja_equal(r, a, b) == (op == OP_EQ));
    if (op == OP_LT || op == OP_GE) return value_bool(jinja_less(r, a, b) == (op == OP_LT));
    if (op == OP_GT || op == OP_LE) return value_bool(jinja_less(r, b, a) == (op == OP_GT));
    return value_bool(jinja_contains(r, b, a) == (op == OP_IN));
}

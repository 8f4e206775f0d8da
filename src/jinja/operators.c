// Arithmetic and comparison as Python has them. Integers have 64 bits: a result that does not fit
// is an error. Booleans count as 0 and 1.
#include <math.h>

#include "base/checked.h"
#include "jinja/escape.h"
#include "jinja/render.h"

static const char *const symbols[] = {
    [OP_ADD] = "+", [OP_SUB] = "-",  [OP_MUL] = "*", [OP_DIV] = "/", [OP_FLOORDIV] = "//",
    [OP_MOD] = "%", [OP_POW] = "**", [OP_EQ] = "==", [OP_NE] = "!=", [OP_LT] = "<",
    [OP_LE] = "<=", [OP_GT] = ">",   [OP_GE] = ">=", [OP_IN] = "in", [OP_NOT_IN] = "not in",
};

static struct value fail_types(struct render *r, enum node_op op, struct value a, struct value b) {
    return jinja_fail(r, "'%s' is not supported between '%s' and '%s'", symbols[op],
                      jinja_type_name(a), jinja_type_name(b));
}

static struct value fail_range(struct render *r) {
    return jinja_fail(r, "the integer does not fit 64 bits");
}

static bool is_int(struct value v) { return v.kind == V_INT || v.kind == V_BOOL; }
static bool is_number(struct value v) { return is_int(v) || v.kind == V_FLOAT; }
static int64_t int_of(struct value v) { return v.kind == V_BOOL ? v.b : v.i; }
static double float_of(struct value v) { return v.kind == V_FLOAT ? v.f : (double)int_of(v); }

static bool int_power(int64_t base, int64_t exponent, int64_t *out) {
    int64_t result = 1;
    while (exponent > 0) {
        if (exponent & 1 && __builtin_mul_overflow(result, base, &result)) return false;
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base)) {
            return false; // base is at least 2 in magnitude: the result overflows too
        }
    }
    *out = result;
    return true;
}

// Rounded towards minus infinity; b is not zero.
static bool int_floordiv(int64_t a, int64_t b, int64_t *quotient, int64_t *rest) {
    if (a == INT64_MIN && b == -1) return false;
    *quotient = a / b;
    *rest = a % b;
    if (*rest != 0 && (*rest < 0) != (b < 0)) {
        --*quotient;
        *rest += b;
    }
    return true;
}

static struct value int_binary(struct render *r, enum node_op op, int64_t a, int64_t b) {
    int64_t result = 0, rest = 0;
    bool fits = true;
    if ((op == OP_FLOORDIV || op == OP_MOD) && b == 0) return jinja_fail(r, "division by zero");
    switch (op) {
    case OP_ADD:
        fits = !__builtin_add_overflow(a, b, &result);
        break;
    case OP_SUB:
        fits = !__builtin_sub_overflow(a, b, &result);
        break;
    case OP_MUL:
        fits = !__builtin_mul_overflow(a, b, &result);
        break;
    case OP_FLOORDIV:
        fits = int_floordiv(a, b, &result, &rest);
        break;
    case OP_MOD:
        if (b == -1) return value_int(0);
        int_floordiv(a, b, &rest, &result);
        break;
    default:
        fits = int_power(a, b, &result);
    }
    return fits ? value_int(result) : fail_range(r);
}

static double float_mod(double a, double b) {
    double rest = fmod(a, b);
    if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
    return rest == 0 ? copysign(0, b) : rest;
}

static struct value float_power(struct render *r, double a, double b) {
    if (a == 0 && b < 0) return jinja_fail(r, "zero cannot be raised to a negative power");
    if (a < 0 && b != floor(b)) return jinja_fail(r, "the power is no real number");
    const double result = pow(a, b);
    if (isinf(result) && isfinite(a) && isfinite(b)) return jinja_fail(r, "the power is too large");
    return value_float(result);
}

static struct value float_binary(struct render *r, enum node_op op, double a, double b) {
    if ((op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD) && b == 0) {
        return jinja_fail(r, "division by zero");
    }
    switch (op) {
    case OP_ADD:
        return value_float(a + b);
    case OP_SUB:
        return value_float(a - b);
    case OP_MUL:
        return value_float(a * b);
    case OP_DIV:
        return value_float(a / b);
    case OP_FLOORDIV: {
        const double quotient = (a - float_mod(a, b)) / b;
        const double whole = floor(quotient);
        return value_float(quotient - whole > 0.5 ? whole + 1 : whole);
    }
    case OP_MOD:
        return value_float(float_mod(a, b));
    default:
        return float_power(r, a, b);
    }
}

static struct value number_binary(struct render *r, enum node_op op, struct value a,
                                  struct value b) {
    const bool is_inexact =
        !is_int(a) || !is_int(b) || op == OP_DIV || (op == OP_POW && int_of(b) < 0);
    return is_inexact ? float_binary(r, op, float_of(a), float_of(b))
                      : int_binary(r, op, int_of(a), int_of(b));
}

// Text that was marked safe takes the other operand escaped.
static struct value add_markup(struct render *r, struct value a, struct value b) {
    const size_t mark = r->out_len;
    const struct value parts[] = {a, b};
    for (int i = 0; i < 2; i++) {
        const struct str *s = parts[i].s;
        const bool is_ok = parts[i].flag ? jinja_write(r, s->data, s->len)
                                         : jinja_write_escaped(r, s->data, s->len);
        if (!is_ok) return value_error();
    }
    struct value v = jinja_take(r, mark);
    v.flag = 1;
    return v;
}

static struct value add_seqs(struct render *r, const struct seq *a, const struct seq *b) {
    struct seq *q = jinja_seq_new(r, a->flavor == SEQ_LIST ? SEQ_LIST : SEQ_TUPLE, a->n + b->n);
    if (!q) return value_error();
    for (size_t i = 0; i < a->n; i++) q->items[i] = a->items[i];
    for (size_t i = 0; i < b->n; i++) q->items[a->n + i] = b->items[i];
    return jinja_seq_close(r, q);
}

static struct value add(struct render *r, struct value a, struct value b) {
    if (a.kind == V_STR && b.kind == V_STR) {
        return a.flag || b.flag ? add_markup(r, a, b) : jinja_concat(r, a.s, b.s->data, b.s->len);
    }
    const bool are_lists = is_seq(a, SEQ_LIST) && is_seq(b, SEQ_LIST);
    if (are_lists || (is_tuple(a) && is_tuple(b))) return add_seqs(r, a.q, b.q);
    return fail_types(r, OP_ADD, a, b);
}

static struct value repeat_str(struct render *r, struct value v, size_t times) {
    const size_t mark = r->out_len;
    uint64_t total;
    if (!ck_mul(v.s->len, times, &total)) total = UINT64_MAX;
    if (!jinja_write_fits(r, total)) return value_error();
    for (size_t i = 0; i < times && v.s->len; i++) {
        if (!jinja_write(r, v.s->data, v.s->len)) return value_error();
    }
    struct value out = jinja_take(r, mark);
    out.flag = v.flag;
    return out;
}

static struct value repeat_seq(struct render *r, const struct seq *q, size_t times) {
    size_t n;
    if (__builtin_mul_overflow(q->n, times, &n)) n = SIZE_MAX;
    struct seq *out = jinja_seq_new(r, q->flavor == SEQ_LIST ? SEQ_LIST : SEQ_TUPLE, n);
    if (!out) return value_error();
    for (size_t i = 0; i < n; i++) out->items[i] = q->items[i % q->n];
    return jinja_seq_close(r, out);
}

static struct value multiply(struct render *r, struct value a, struct value b) {
    if (is_int(a)) {
        const struct value swap = a;
        a = b;
        b = swap;
    }
    if (!is_int(b)) return fail_types(r, OP_MUL, a, b);
    const size_t times = int_of(b) > 0 ? (size_t)int_of(b) : 0;
    if (a.kind == V_STR) return repeat_str(r, a, times);
    if (is_seq(a, SEQ_LIST) || is_tuple(a)) return repeat_seq(r, a.q, times);
    return fail_types(r, OP_MUL, a, b);
}

struct value jinja_binary(struct render *r, enum node_op op, struct value a, struct value b) {
    if (is_number(a) && is_number(b)) return number_binary(r, op, a, b);
    if (op == OP_MOD && a.kind == V_STR) return jinja_percent(r, a.s, b);
    if (a.kind == V_UNDEFINED) return jinja_fail_undefined(r, a);
    if (b.kind == V_UNDEFINED) return jinja_fail_undefined(r, b);
    if (a.kind == V_BIG || b.kind == V_BIG) return fail_range(r);
    if (op == OP_ADD) return add(r, a, b);
    if (op == OP_MUL) return multiply(r, a, b);
    return fail_types(r, op, a, b);
}

static struct value truth(int is_true, bool is_negated) {
    return is_true < 0 ? value_error() : value_bool((is_true == 1) != is_negated);
}

static bool is_nan(struct value v) { return v.kind == V_FLOAT && isnan(v.f); }

struct value jinja_compare(struct render *r, enum node_op op, struct value a, struct value b) {
    if (op >= OP_LT && op <= OP_GE && (is_nan(a) || is_nan(b)) && is_number(a) && is_number(b)) {
        return value_bool(false);
    }
    switch (op) {
    case OP_EQ:
        return truth(jinja_equal(r, a, b), false);
    case OP_NE:
        return truth(jinja_equal(r, a, b), true);
    case OP_LT:
        return truth(jinja_less(r, a, b), false);
    case OP_GE:
        return truth(jinja_less(r, a, b), true);
    case OP_GT:
        return truth(jinja_less(r, b, a), false);
    case OP_LE:
        return truth(jinja_less(r, b, a), true);
    case OP_IN:
        return truth(jinja_contains(r, b, a), false);
    default:
        return truth(jinja_contains(r, b, a), true);
    }
}

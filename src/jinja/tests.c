// Tests: what stands behind `is`. Each gives a boolean.
#include "jinja/render.h"
#include "jinja/text.h"
#include "unicode/unicode.h"

// A test that looks at the value alone.
#define TEST(name, condition)                                                                      \
    static struct value test_##name(struct render *r, struct value v, const struct call *c) {      \
        (void)r, (void)c;                                                                          \
        return value_bool(condition);                                                              \
    }

TEST(boolean, v.kind == V_BOOL)
TEST(defined, v.kind != V_UNDEFINED)
TEST(undefined, v.kind == V_UNDEFINED)
TEST(none, v.kind == V_NONE)
TEST(true, v.kind == V_BOOL && v.b)
TEST(false, v.kind == V_BOOL && !v.b)
TEST(integer, v.kind == V_INT || v.kind == V_BIG)
TEST(float, v.kind == V_FLOAT)
TEST(number, v.kind == V_BOOL || v.kind == V_INT || v.kind == V_FLOAT || v.kind == V_BIG)
TEST(string, v.kind == V_STR)
TEST(mapping, v.kind == V_DICT)
TEST(escaped, v.kind == V_STR && v.flag)
TEST(iterable, v.kind == V_STR || v.kind == V_SEQ || v.kind == V_DICT || v.kind == V_UNDEFINED ||
                   v.kind == V_LOOP)
TEST(sequence, v.kind == V_STR || v.kind == V_DICT || v.kind == V_UNDEFINED ||
                   (v.kind == V_SEQ && v.q->flavor < SEQ_ITER))
TEST(callable, v.kind == V_MACRO || v.kind == V_FUNCTION || v.kind == V_METHOD ||
                   v.kind == V_JOINER || v.kind == V_LOOP || v.kind == V_UNDEFINED)

// Comparison with the argument.
#define COMPARISON(name, op)                                                                       \
    static struct value test_##name(struct render *r, struct value v, const struct call *c) {      \
        return jinja_compare(r, op, v, c->arg[0]);                                                 \
    }

COMPARISON(eq, OP_EQ)
COMPARISON(ne, OP_NE)
COMPARISON(lt, OP_LT)
COMPARISON(le, OP_LE)
COMPARISON(gt, OP_GT)
COMPARISON(ge, OP_GE)
COMPARISON(in, OP_IN)

static struct value rest_is(struct render *r, struct value v, struct value divisor,
                            int64_t wanted) {
    const struct value rest = jinja_binary(r, OP_MOD, v, divisor);
    return is_error(rest) ? rest : jinja_compare(r, OP_EQ, rest, value_int(wanted));
}

static struct value test_divisibleby(struct render *r, struct value v, const struct call *c) {
    return rest_is(r, v, c->arg[0], 0);
}

static struct value test_even(struct render *r, struct value v, const struct call *c) {
    (void)c;
    return rest_is(r, v, value_int(2), 0);
}

static struct value test_odd(struct render *r, struct value v, const struct call *c) {
    (void)c;
    return rest_is(r, v, value_int(2), 1);
}

// The same object; strings and numbers have no identity of their own here, so equal ones are.
static struct value test_sameas(struct render *r, struct value v, const struct call *c) {
    const struct value other = c->arg[0];
    if (v.kind != other.kind) return value_bool(false);
    if (v.kind == V_SEQ || v.kind == V_DICT) return value_bool(v.d == other.d);
    const int equal = jinja_equal(r, v, other);
    return equal < 0 ? value_error() : value_bool(equal);
}

static struct value test_filter(struct render *r, struct value v, const struct call *c) {
    (void)r, (void)c;
    return value_bool(v.kind == V_STR && jinja_table_find(&jinja_filters, v.s->data, v.s->len));
}

static struct value test_test(struct render *r, struct value v, const struct call *c) {
    (void)r, (void)c;
    return value_bool(v.kind == V_STR && jinja_table_find(&jinja_tests, v.s->data, v.s->len));
}

// At least one letter with case, and none of the other case.
static struct value case_is(struct render *r, struct value v, bool is_upper) {
    const struct value s = jinja_to_str(r, v);
    if (is_error(s) || !jinja_work_chars(r, s.s->len)) return value_error();
    bool has_case = false;
    size_t n;
    for (size_t at = 0; at < s.s->len; at += n) {
        const uint8_t *text = (const uint8_t *)s.s->data + at;
        const int32_t cp = unicode_decode(text, s.s->len - at, &n);
        const bool up = chars_is_upper(cp), low = chars_is_lower(cp);
        if ((is_upper ? low : up) || chars_is_title(cp)) return value_bool(false);
        has_case = has_case || up || low;
    }
    return value_bool(has_case);
}

static struct value test_lower(struct render *r, struct value v, const struct call *c) {
    (void)c;
    return case_is(r, v, false);
}

static struct value test_upper(struct render *r, struct value v, const struct call *c) {
    (void)c;
    return case_is(r, v, true);
}

static const struct entry tests[] = {
    {"!=", test_ne, "other", 1},
    {"<", test_lt, "other", 1},
    {"<=", test_le, "other", 1},
    {"==", test_eq, "other", 1},
    {">", test_gt, "other", 1},
    {">=", test_ge, "other", 1},
    {"boolean", test_boolean, "", 0},
    {"callable", test_callable, "", 0},
    {"defined", test_defined, "", 0},
    {"divisibleby", test_divisibleby, "num", 1},
    {"eq", test_eq, "other", 1},
    {"equalto", test_eq, "other", 1},
    {"escaped", test_escaped, "", 0},
    {"even", test_even, "", 0},
    {"false", test_false, "", 0},
    {"filter", test_filter, "", 0},
    {"float", test_float, "", 0},
    {"ge", test_ge, "other", 1},
    {"greaterthan", test_gt, "other", 1},
    {"gt", test_gt, "other", 1},
    {"in", test_in, "seq", 1},
    {"integer", test_integer, "", 0},
    {"iterable", test_iterable, "", 0},
    {"le", test_le, "other", 1},
    {"lessthan", test_lt, "other", 1},
    {"lower", test_lower, "", 0},
    {"lt", test_lt, "other", 1},
    {"mapping", test_mapping, "", 0},
    {"ne", test_ne, "other", 1},
    {"none", test_none, "", 0},
    {"number", test_number, "", 0},
    {"odd", test_odd, "", 0},
    {"sameas", test_sameas, "other", 1},
    {"sequence", test_sequence, "", 0},
    {"string", test_string, "", 0},
    {"test", test_test, "", 0},
    {"true", test_true, "", 0},
    {"undefined", test_undefined, "", 0},
    {"upper", test_upper, "", 0},
};

const struct table jinja_tests = {tests, sizeof tests / sizeof tests[0]};

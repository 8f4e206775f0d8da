// Tests: the names behind `is`. Each gives a boolean.
#include "jinja/render.h"

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
TEST(number, v.kind >= V_BOOL && v.kind <= V_BIG)
TEST(string, v.kind == V_STR)
TEST(mapping, v.kind == V_DICT)
TEST(iterable, v.kind == V_STR || v.kind == V_SEQ || v.kind == V_DICT || v.kind == V_UNDEFINED ||
                   v.kind == V_LOOP)
TEST(sequence, v.kind == V_STR || v.kind == V_DICT || v.kind == V_UNDEFINED ||
                   (v.kind == V_SEQ && v.q->flavor < SEQ_ITER))

// Comparison with the argument.
#define COMPARISON(name, op)                                                                       \
    static struct value test_##name(struct render *r, struct value v, const struct call *c) {      \
        return jinja_compare(r, op, v, c->arg[0]);                                                 \
    }

COMPARISON(eq, OP_EQ)
COMPARISON(ne, OP_NE)
COMPARISON(in, OP_IN)

static struct value rest_is(struct render *r, struct value v, int64_t wanted) {
    const struct value rest = jinja_binary(r, OP_MOD, v, value_int(2));
    return jinja_compare(r, OP_EQ, rest, value_int(wanted));
}

static struct value test_even(struct render *r, struct value v, const struct call *c) {
    (void)c;
    return rest_is(r, v, 0);
}

static struct value test_odd(struct render *r, struct value v, const struct call *c) {
    (void)c;
    return rest_is(r, v, 1);
}

static const struct entry tests[] = {
    {"!=", test_ne, "other", 1},
    {"==", test_eq, "other", 1},
    {"boolean", test_boolean, "", 0},
    {"defined", test_defined, "", 0},
    {"eq", test_eq, "other", 1},
    {"equalto", test_eq, "other", 1},
    {"even", test_even, "", 0},
    {"false", test_false, "", 0},
    {"float", test_float, "", 0},
    {"in", test_in, "seq", 1},
    {"integer", test_integer, "", 0},
    {"iterable", test_iterable, "", 0},
    {"mapping", test_mapping, "", 0},
    {"ne", test_ne, "other", 1},
    {"none", test_none, "", 0},
    {"number", test_number, "", 0},
    {"odd", test_odd, "", 0},
    {"sequence", test_sequence, "", 0},
    {"string", test_string, "", 0},
    {"true", test_true, "", 0},
    {"undefined", test_undefined, "", 0},
};

const struct table jinja_tests = {
    tests, sizeof tests / sizeof tests[0],
    " < <= > >= callable divisibleby escaped filter ge greaterthan gt le lessthan lower lt sameas "
    "test upper ",
    ""};

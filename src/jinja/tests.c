// Tests: the names behind `is`. Each gives a boolean.
#include "jinja/render.h"

// The option is the set of kinds that pass.
static struct value test_kind(struct render *r, const struct call *c) {
    (void)r;
    return value_bool((c->entry->option >> c->self.kind) & 1);
}

static struct value test_bool(struct render *r, const struct call *c) {
    (void)r;
    return value_bool(c->self.kind == V_BOOL && c->self.b == c->entry->option);
}

static struct value test_sequence(struct render *r, const struct call *c) {
    return c->self.kind == V_SEQ ? value_bool(c->self.q->flavor < SEQ_ITER) : test_kind(r, c);
}

// The option is an operator.
static struct value test_compare(struct render *r, const struct call *c) {
    return jinja_compare(r, (enum node_op)c->entry->option, c->self, c->arg[0]);
}

// The option is the remainder of a division by two.
static struct value test_rest(struct render *r, const struct call *c) {
    const struct value rest = jinja_binary(r, OP_MOD, c->self, value_int(2));
    return jinja_compare(r, OP_EQ, rest, value_int(c->entry->option));
}

enum {
    KINDS_NUMBER = 1 << V_BOOL | 1 << V_INT | 1 << V_FLOAT | 1 << V_BIG,
    KINDS_SEQUENCE = 1 << V_STR | 1 << V_DICT | 1 << V_UNDEFINED,
};

static const struct entry tests[] = {
    {"!=", test_compare, "other", 1, OP_NE},
    {"==", test_compare, "other", 1, OP_EQ},
    {"boolean", test_kind, "", 0, 1 << V_BOOL},
    {"defined", test_kind, "", 0, ~(1 << V_UNDEFINED)},
    {"eq", test_compare, "other", 1, OP_EQ},
    {"equalto", test_compare, "other", 1, OP_EQ},
    {"even", test_rest, "", 0, 0},
    {"false", test_bool, "", 0, false},
    {"float", test_kind, "", 0, 1 << V_FLOAT},
    {"in", test_compare, "seq", 1, OP_IN},
    {"integer", test_kind, "", 0, 1 << V_INT | 1 << V_BIG},
    {"iterable", test_kind, "", 0, KINDS_SEQUENCE | 1 << V_SEQ | 1 << V_LOOP},
    {"mapping", test_kind, "", 0, 1 << V_DICT},
    {"ne", test_compare, "other", 1, OP_NE},
    {"none", test_kind, "", 0, 1 << V_NONE},
    {"number", test_kind, "", 0, KINDS_NUMBER},
    {"odd", test_rest, "", 0, 1},
    {"sequence", test_sequence, "", 0, KINDS_SEQUENCE},
    {"string", test_kind, "", 0, 1 << V_STR},
    {"true", test_bool, "", 0, true},
    {"undefined", test_kind, "", 0, 1 << V_UNDEFINED},
};

const struct table jinja_tests = {
    "test", tests, sizeof tests / sizeof tests[0],
    "< <= > >= callable divisibleby escaped filter ge greaterthan gt le lessthan lower lt sameas "
    "test upper",
    ""};

// Values of a render. Functions that take the render may fail, and do not return then (render.h);
// callers outside of src/jinja use those of template.h. A value is two words: numbers in place, the
// rest as pointers into the render's arena, the template's arena (constants) or the variables'
// text. Nothing is freed before the render ends. Everything but namespaces, iterators and loops is
// immutable. Containers know how deep they nest, so recursion over values is bounded when they are
// made.
#ifndef RN_JINJA_VALUE_H
#define RN_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct render;
struct node;
struct scope;
struct entry;

enum value_kind {
    V_MISSING, // an argument that was not given, or nothing
    V_UNDEFINED,
    V_NONE,
    V_BOOL,
    V_INT,
    V_FLOAT, // not NaN
    V_BIG,   // an integer past 64 bits, as its digits: printed and tested for equality alone
    V_STR,
    V_SEQ,
    V_DICT,
    V_NAMESPACE,
    V_MACRO,
    V_FUNCTION,
    V_METHOD,
    V_LOOP,
};

// Why a value is undefined. The string is a name, an attribute, or the whole message.
enum undefined_reason { UNDEFINED_NAME, UNDEFINED_ATTRIBUTE, UNDEFINED_UNSAFE, UNDEFINED_HINT };

struct value {
    uint8_t kind;
    uint8_t flag;  // strings: marked safe by a filter; undefined: the reason
    uint8_t owner; // undefined attributes: the type of the object that lacks them
    union {
        bool b;
        int64_t i;
        double f;
        struct str *s;
        struct seq *q;
        struct dict *d; // also namespaces
        struct macro *macro;
        const struct entry *function;
        struct method *method;
        struct loop *loop;
    };
};

// Room behind a string that was made by concatenation. The newest string that ends at `end` may
// grow in place, so text built piece by piece costs its length and not its square.
struct str_tail {
    char *end, *limit;
    uint8_t *marks; // of the text from its start; NULL: none
};

struct str {
    const char *data;     // valid UTF-8, not NUL-terminated
    size_t len;           // bytes
    size_t n_chars;       // code points; SIZE_MAX until counted; == len: all ASCII
    const uint8_t *marks; // [len] of each byte, as template_read was told; NULL: all are 0
    struct str_tail *tail;
};

enum seq_flavor {
    SEQ_LIST,
    SEQ_TUPLE,
    SEQ_RANGE,
    SEQ_ITER, // a generator: has no length and can be walked once
    SEQ_KEYS,
    SEQ_VALUES,
    SEQ_ITEMS,
};

struct seq {
    struct value *items;
    size_t n, cap;
    size_t pos; // iterators: the number of items that were taken
    uint8_t flavor, depth;
};

struct dict_entry {
    struct value key, value;
};

struct dict {
    struct dict_entry *entries; // in order of insertion
    uint32_t *slots;            // hash table of 2 * cap entry numbers, from 1; NULL: none yet
    size_t n, cap;              // cap: a power of two, or 0
    uint8_t depth;
};

struct macro {
    const struct node *node;
    struct scope *scope; // where it was defined
};

struct method {
    const struct entry *entry;
    struct value self;
};

static inline struct value value_missing(void) { return (struct value){.kind = V_MISSING}; }
static inline struct value value_none(void) { return (struct value){.kind = V_NONE}; }
static inline struct value value_bool(bool b) { return (struct value){.kind = V_BOOL, .b = b}; }
static inline struct value value_int(int64_t i) { return (struct value){.kind = V_INT, .i = i}; }
static inline struct value value_float(double f) { return (struct value){.kind = V_FLOAT, .f = f}; }
static inline struct value value_str(const struct str *s) {
    return (struct value){.kind = V_STR, .s = (struct str *)s};
}
static inline struct value value_seq(struct seq *q) {
    return (struct value){.kind = V_SEQ, .q = q};
}
static inline struct value value_dict(struct dict *d) {
    return (struct value){.kind = V_DICT, .d = d};
}

static inline bool is_missing(struct value v) { return v.kind == V_MISSING; }
// Not given, or given as none: most optional parameters treat both alike.
static inline bool is_absent(struct value v) { return v.kind == V_MISSING || v.kind == V_NONE; }
static inline bool is_seq(struct value v, enum seq_flavor flavor) {
    return v.kind == V_SEQ && v.q->flavor == flavor;
}
static inline bool is_list(struct value v) { // or a tuple
    return v.kind == V_SEQ && v.q->flavor <= SEQ_TUPLE;
}
static inline bool is_int(struct value v) { return v.kind == V_INT || v.kind == V_BOOL; }
static inline int64_t int_of(struct value v) { return v.kind == V_BOOL ? v.b : v.i; }
// A number to compute with.
static inline bool is_number(struct value v) { return is_int(v) || v.kind == V_FLOAT; }
static inline double float_of(struct value v) {
    return v.kind == V_FLOAT ? v.f : (double)int_of(v);
}

// A member of a dictionary; NULL: there is none, or the value is no dictionary. Walks it.
struct value *value_member(struct value v, const char *name);

// The kind, and for sequences also the flavor, as one number; its name and the value's: "str",
// "int", "dict", ... as Python's type(x).__name__.
uint8_t jinja_type(struct value v);
const char *jinja_type_text(uint8_t type);
const char *jinja_type_name(struct value v);
bool jinja_is_true(struct value v);

bool jinja_equal(struct render *r, struct value a, struct value b);
bool jinja_less(struct render *r, struct value a, struct value b); // fails where there is no order
bool jinja_contains(struct render *r, struct value container, struct value needle);

// New values.
struct value jinja_str(struct render *r, const char *data, size_t len);        // copies
struct value jinja_str_borrow(struct render *r, const char *data, size_t len); // does not
struct value jinja_str_literal(struct render *r, const char *text);            // borrows
struct value jinja_substr(struct render *r, const struct str *s, size_t from, size_t to); // bytes
struct value jinja_concat(struct render *r, const struct str *left, const struct str *right);
struct value jinja_undefined(struct render *r, const char *hint);

// A container of n items that the caller fills; jinja_seq_close then sets its depth.
struct seq *jinja_seq_new(struct render *r, enum seq_flavor flavor, size_t n);
void jinja_seq_add(struct render *r, struct seq *q, struct value v);
struct value jinja_seq_close(struct render *r, struct seq *q);
struct value jinja_pair(struct render *r, struct value a, struct value b); // a tuple
// The depth of a container that gets this member; fails when it is too deep.
uint8_t jinja_depth_with(struct render *r, uint8_t depth, struct value member);

struct dict *jinja_dict_new(struct render *r);
// Adds or replaces a member; fails for a value that cannot be a key.
void jinja_dict_set(struct render *r, struct dict *d, struct value key, struct value value);
// The same for dictionaries that are no values (scopes, globals), whose keys are names.
void jinja_dict_put(struct render *r, struct dict *d, struct value key, struct value value);
// NULL when there is none.
struct value *jinja_dict_find(struct render *r, const struct dict *d, struct value key);
// Its keys or its values, for SEQ_KEYS and SEQ_VALUES, else its pairs.
struct value jinja_dict_view(struct render *r, const struct dict *d, enum seq_flavor flavor);
void jinja_check_key(struct render *r, struct value v); // fails for lists and dictionaries

// The items of a sequence, the keys of a dictionary, the characters of a string, as a list; nothing
// for undefined. Takes the rest of an iterator. Fails for other values.
struct seq *jinja_iterate(struct render *r, struct value v);
// The number of items, or -1 for a value that has none.
int64_t jinja_length(struct render *r, struct value v);

// Attributes, items and slices as the sandboxed environment resolves them.
struct value jinja_getattr(struct render *r, struct value object, const struct str *name);
struct value jinja_getitem(struct render *r, struct value object, struct value key);
struct value jinja_getslice(struct render *r, struct value object, struct value start,
                            struct value stop, struct value step);
// The attribute that a path such as "function.name" or "0.id" names, each part as an item.
struct value jinja_getpath(struct render *r, struct value object, struct value path);

#endif

// The form that every front end writes and the automaton reads: rules, each with a tree of nodes
// over code points. Nodes are immutable and may be shared, so a tree may be a graph of trees.
// Errors stick: after the first one every constructor returns NULL, and NULL parts give NULL. The
// status and the message of that error are in the grammar. Work and memory are counted, so that
// hostile sources end at a limit and not at a clock.
#ifndef RN_CONSTRAINT_GRAMMAR_H
#define RN_CONSTRAINT_GRAMMAR_H

#include "base/arena.h"
#include "base/status.h"

enum {
    GRAMMAR_MAX_DEPTH = 64,     // of groups and subschemas in a source
    GRAMMAR_MAX_RULES = 4096,   // with rules that a front end makes
    GRAMMAR_MAX_REPEAT = 4096,  // copies of a body; counted text may be longer
    GRAMMAR_MAX_COUNT = 1 << 30 // of counted text
};

struct range { // of code points, both ends included
    uint32_t lo, hi;
};

enum node_kind {
    NODE_EMPTY,
    NODE_NEVER,
    NODE_CLASS,  // one code point
    NODE_BYTE,   // one byte of a range
    NODE_BYTES,  // a literal
    NODE_SEQ,    // parts one after the other
    NODE_ALT,    // one of the parts
    NODE_REPEAT, // min to max copies of a part
    NODE_CALL,   // a rule
    NODE_GRAPH,  // an automaton with nodes at its edges
};

struct graph_edge {
    uint32_t from, to;
    const struct node *node;
};

struct node {
    enum node_kind kind;
    uint32_t n; // ranges, bytes, parts, edges
    union {
        const struct range *range; // [n] ascending, apart from each other; one of bytes
        const uint8_t *byte;       // [n]
        const struct node **part;  // [n]; a repeat has one
        uint32_t rule;
        struct {
            const struct graph_edge *edge; // [n]
            uint32_t n_state;              // state 0 is the start, n_state - 1 the end
        } graph;
    };
    int64_t min, max; // of a repeat; max -1: no limit
};

// A counted rule is text of min to max units, max -1: without limit. Its body is one unit, which is
// not empty and no prefix of another unit. Or its body is the whole text, whose starts are texts of
// it, too: a unit ends wherever it may end.
struct rule {
    const char *name;
    const struct node *body; // NULL: not defined yet
    bool counted;
    bool is_text; // the body of a counted rule is the whole text
    bool greedy;  // its text does not end before a byte that would be one more of it
    int64_t min, max;
};

// Counted work: a unit is some nanoseconds.
struct budget {
    uint64_t work, work_max;
    size_t bytes, bytes_max;
};

struct constraint_vocab;
struct grammar {
    struct arena arena;
    struct budget budget;
    struct rule *rule; // [n_rule]
    uint32_t n_rule, rule_capacity;
    uint32_t start;
    const struct constraint_vocab *vocab; // whose special tokens a source may name; NULL: none
    int64_t expand_max;                   // copies of a character; more are counted text
    rn_status status;                     // of the first error
    rn_error *err;                        // the caller's; may be NULL
};

void grammar_init(struct grammar *g, uint64_t work_max, size_t bytes_max, rn_error *err);
void grammar_deinit(struct grammar *g);

// The first error is kept. Returns NULL, as node constructors do.
const struct node *grammar_fail(struct grammar *g, rn_status status, const char *fmt, ...)
    RN_PRINTF(3, 4);
bool budget_work(struct budget *budget, uint64_t units);
// Charges work; an error of the grammar where none is left.
bool grammar_work(struct grammar *g, uint64_t units);
void *grammar_alloc(struct grammar *g, size_t count, size_t size); // zeroed

const struct node *node_empty(struct grammar *g);
const struct node *node_never(struct grammar *g);
// The ranges may overlap and be in any order.
const struct node *node_class(struct grammar *g, const struct range *range, size_t n);
const struct node *node_class_not(struct grammar *g, const struct range *range, size_t n);
const struct node *node_byte(struct grammar *g, uint8_t lo, uint8_t hi);
const struct node *node_bytes(struct grammar *g, const void *bytes, size_t n);
const struct node *node_text(struct grammar *g, const char *text);
const struct node *node_seq(struct grammar *g, const struct node *const *part, size_t n);
const struct node *node_alt(struct grammar *g, const struct node *const *part, size_t n);
const struct node *node_repeat(struct grammar *g, const struct node *part, int64_t min,
                               int64_t max);
const struct node *node_call(struct grammar *g, uint32_t rule);
const struct node *node_graph(struct grammar *g, const struct graph_edge *edge, size_t n,
                              uint32_t n_state);
// min to max units, counted while the text is made instead of copied.
const struct node *node_counted(struct grammar *g, const struct node *unit, int64_t min,
                                int64_t max);

// The same for a text with all of its starts at which a unit ends.
const struct node *node_counted_text(struct grammar *g, const struct node *text, int64_t min,
                                     int64_t max);

#define node_seq_of(g, ...)                                                                        \
    node_seq(g, (const struct node *const[]){__VA_ARGS__},                                         \
             sizeof((const struct node *const[]){__VA_ARGS__}) / sizeof(struct node *))
#define node_alt_of(g, ...)                                                                        \
    node_alt(g, (const struct node *const[]){__VA_ARGS__},                                         \
             sizeof((const struct node *const[]){__VA_ARGS__}) / sizeof(struct node *))

// A rule without a body; the name is copied. UINT32_MAX: an error.
uint32_t grammar_rule(struct grammar *g, const char *name, size_t len);
void grammar_define(struct grammar *g, uint32_t rule, const struct node *body);

// Sorts and merges in place; the new number. Values past U+10FFFF are taken out. Surrogates may
// stay: they have no bytes.
size_t ranges_normalize(struct range *range, size_t n);

// A list of nodes that grows, for front ends.
struct node_list {
    const struct node **node;
    size_t n, capacity;
};
bool node_list_add(struct grammar *g, struct node_list *list, const struct node *node);

#endif

// The tables of filters, tests, methods and functions: a row is a name, a C function and the names
// of its parameters. Adding one is a function and a row; rows that share a function differ in their
// option.
#ifndef RN_JINJA_TABLE_H
#define RN_JINJA_TABLE_H

#include "jinja/value.h"

enum { JINJA_MAX_PARAMS = 3 };

struct arg {
    const struct str *name; // NULL: by position
    struct value value;
};

// The arguments of a call as they were written: by position, then by name.
struct args {
    const struct arg *list;
    size_t n, n_pos;
};

struct call {
    struct value self;                  // of a filter, test or method; V_NONE for functions
    struct value arg[JINJA_MAX_PARAMS]; // by parameter, V_MISSING where not given
    const struct args *raw;             // for rows whose parameters are "*"
    const struct entry *entry;
};

typedef struct value entry_fn(struct render *r, const struct call *c);

struct entry {
    const char *name;
    entry_fn *fn;
    const char *params; // separated by blanks, or "*"
    int n_required;
    int option; // for fn
};

struct table {
    const char *what;            // "filter", for messages
    const struct entry *entries; // in order of names, for readers
    size_t n;
    const char *left_out; // names that Jinja or Python has and this table lacks
    const char *unsafe;   // names that the immutable sandbox refuses
};

extern const struct table jinja_filters, jinja_tests, jinja_functions;
extern const struct table jinja_str_methods, jinja_list_methods, jinja_tuple_methods,
    jinja_dict_methods;

const struct entry *jinja_table_find(const struct table *table, const struct str *name);
// The place of a name in a list such as "append clear"; -1: it is not there.
int jinja_names_find(const char *names, const char *name, size_t len);

// Binds the arguments to the row's parameters and calls it.
struct value jinja_entry_call(struct render *r, const struct entry *entry, struct value self,
                              const struct args *args);

#endif

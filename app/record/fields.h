// The members of a record's JSON objects, as tables: the writer and the reader walk the same rows.
// Callers: record.c and record_read.c.
#ifndef RN_RECORD_FIELDS_H
#define RN_RECORD_FIELDS_H

#include "record/record.h"

enum field_kind {
    FIELD_INT,     // int, 0 or more
    FIELD_COUNT,   // uint64_t, up to INT64_MAX
    FIELD_SECONDS, // int64_t, 0 or more
    FIELD_REAL,    // double, 0 or more
    FIELD_TEXT,    // char[]
    FIELD_FINISH,  // rn_finish; null: NONE
    FIELD_CAUSES,  // uint64_t[RN_CAUSE_COUNT], an object; zeros are left out
    FIELD_STRUCT,  // an object with fields of its own
    FIELD_GAPS,    // rn_slow_gap[], an array
    FIELD_SPANS,   // rn_span[], an array of arrays
    FIELD_CHOICES, // of a record
    FIELD_DERIVED, // written, and passed over by the reader: it follows from the rest
};

struct fields;

struct field {
    const char *name;
    enum field_kind kind;
    size_t offset, size; // of the member
    const struct fields *fields;
    void (*derive)(struct jbuf *out, const struct record *record, const void *item);
};

struct fields {
    const struct field *row;
    int n;
};

extern const struct fields record_fields;
extern const struct fields choice_fields;
extern const struct fields gap_fields;

#endif

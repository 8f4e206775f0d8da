// A row of `runnel bench`: a value for each column of the table (columns.def) that its measurement
// fills; all others are null. A row owns its values. Running out of memory is noted in the row, so
// a measurement fills it without checks and asks row_ok() once.
#ifndef RN_APP_BENCH_ROW_H
#define RN_APP_BENCH_ROW_H

#include "terminal/json.h"
#include "tools.h"

enum table_id {
    TABLE_STEPS,
    TABLE_STREAMS,
    TABLE_ARRIVE,
    TABLE_DRAFTS,
    TABLE_KERNELS,
    TABLE_INTENSITY, // the sections of --tour, from here on
    TABLE_HEADS,
    TABLE_SWEEP,
    TABLE_CONTEXTS,
    TABLE_SAVED,
    TABLE_COUNT
};

enum column_id {
#define COLUMN(id, ...) COLUMN_##id,
#include "bench/columns.def"
#undef COLUMN
    COLUMN_COUNT
};

enum column_format {
    FORMAT_TEXT,
    FORMAT_LEFT, // text, flush left
    FORMAT_YES,  // a bool as "yes" or "no", flush left
    FORMAT_WHOLE,
    FORMAT_FIXED1, // digits after the point
    FORMAT_FIXED2,
    FORMAT_DIGITS3, // significant digits
    FORMAT_DIGITS4,
    FORMAT_PERCENT,
    FORMAT_BYTES,      // "21.9 MB"
    FORMAT_MIB,        // "20.75 MiB"
    FORMAT_PARAMS,     // "1.24 B"
    FORMAT_FLOPS,      // "1.24 G"
    FORMAT_PLUS_MINUS, // and the next column, the deviation
    FORMAT_PAIR,       // and the next column
    FORMAT_SPREAD2,    // milliseconds: the median and the next column, the 99th percentile
    FORMAT_SPREAD3,    // and the longest
    FORMAT_SHARE,      // of the bandwidth, or of the cache's
    FORMAT_DRAFTER,    // with its acceptance
    FORMAT_LENGTH,     // of drafts, or "auto"
    FORMAT_SAME,       // "same" or "DIFFERS"
};

struct column {
    const char *key;     // NULL: for the terminal alone
    unsigned tables;     // that have the key: bits 1 << table_id
    const char *heading; // "": never on a terminal
    int width;
    enum column_format format;
};

enum value_kind {
    VALUE_NULL,
    VALUE_TEXT,
    VALUE_WHOLE,
    VALUE_REAL,
    VALUE_BOOL,
    VALUE_WHOLES,
    VALUE_REALS
};

struct value {
    enum value_kind kind;
    int n; // of a list
    union {
        char *text;
        int64_t whole;
        double real;
        bool flag;
        double *list; // [n]
    };
};

struct row {
    enum table_id table;
    bool failed; // memory ran out
    struct value value[COLUMN_COUNT];
    struct tools_stage *stages; // [n_stages] owned; where the time of the steps went
    int n_stages;
    uint64_t stages_ns, n_steps;
};

const struct column *column_at(enum column_id id);

void row_deinit(struct row *row);
bool row_ok(const struct row *row);

// Each replaces the column's value.
void row_text(struct row *row, enum column_id id, const char *text); // copied; NULL: null
void row_whole(struct row *row, enum column_id id, int64_t value);
void row_real(struct row *row, enum column_id id, double value); // not finite: null
void row_bool(struct row *row, enum column_id id, bool value);
// kind: VALUE_WHOLES or VALUE_REALS.
void row_list(struct row *row, enum column_id id, enum value_kind kind, const double *list, int n);

const char *row_text_at(const struct row *row, enum column_id id); // "": none
double row_number_at(const struct row *row, enum column_id id);    // NaN: none
int row_whole_at(const struct row *row, enum column_id id);        // 0: none

// The rows as a JSON array of objects with the keys of their tables. NULL: out of memory.
json_t *rows_json(const struct row *rows, int n_rows, bool stages);

#endif

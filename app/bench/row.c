// Values of rows, and rows as JSON.
#include "bench/row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    T = 1 << TABLE_INTENSITY | 1 << TABLE_SWEEP | 1 << TABLE_CONTEXTS,
    H = 1 << TABLE_HEADS,
    S = 1 << TABLE_STEPS | T,
    B = 1 << TABLE_STREAMS | 1 << TABLE_ARRIVE,
    R = 1 << TABLE_SAVED,
    D = 1 << TABLE_DRAFTS | R,
    K = 1 << TABLE_KERNELS,
};

static const struct column columns[COLUMN_COUNT] = {
#define COLUMN(id, key_, tables_, heading_, width_, format_)                                       \
    [COLUMN_##id] = {.key = key_,                                                                  \
                     .tables = tables_,                                                            \
                     .heading = heading_,                                                          \
                     .width = width_,                                                              \
                     .format = FORMAT_##format_},
#include "bench/columns.def"
#undef COLUMN
};

const struct column *column_at(enum column_id id) { return &columns[id]; }

static void value_free(struct value *value) {
    if (value->kind == VALUE_TEXT) free(value->text);
    if (value->kind == VALUE_WHOLES || value->kind == VALUE_REALS) free(value->list);
}

void row_deinit(struct row *row) {
    for (int i = 0; i < COLUMN_COUNT; i++) value_free(&row->value[i]);
    free(row->stages);
    *row = (struct row){0};
}

bool row_ok(const struct row *row) { return !row->failed; }

// ---------------------------------------------------------------- values

static void value_set(struct row *row, enum column_id id, struct value value) {
    value_free(&row->value[id]);
    row->value[id] = value;
}

void row_text(struct row *row, enum column_id id, const char *text) {
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy) row->failed = true;
    value_set(row, id, (struct value){.kind = copy ? VALUE_TEXT : VALUE_NULL, .text = copy});
}

void row_whole(struct row *row, enum column_id id, int64_t value) {
    value_set(row, id, (struct value){.kind = VALUE_WHOLE, .whole = value});
}

void row_real(struct row *row, enum column_id id, double value) {
    const enum value_kind kind = isfinite(value) ? VALUE_REAL : VALUE_NULL;
    value_set(row, id, (struct value){.kind = kind, .real = value});
}

void row_bool(struct row *row, enum column_id id, bool value) {
    value_set(row, id, (struct value){.kind = VALUE_BOOL, .flag = value});
}

void row_list(struct row *row, enum column_id id, enum value_kind kind, const double *list, int n) {
    double *copy = malloc((n ? (size_t)n : 1) * sizeof *copy);
    if (copy && n) memcpy(copy, list, (size_t)n * sizeof *copy);
    if (!copy) row->failed = true;
    value_set(row, id, (struct value){.kind = copy ? kind : VALUE_NULL, .n = n, .list = copy});
}

const char *row_text_at(const struct row *row, enum column_id id) {
    return row->value[id].kind == VALUE_TEXT ? row->value[id].text : "";
}

double row_number_at(const struct row *row, enum column_id id) {
    const struct value *value = &row->value[id];
    switch (value->kind) {
    case VALUE_WHOLE:
        return (double)value->whole;
    case VALUE_REAL:
        return value->real;
    case VALUE_BOOL:
        return value->flag;
    default:
        return (double)NAN;
    }
}

int row_whole_at(const struct row *row, enum column_id id) {
    return row->value[id].kind == VALUE_WHOLE ? (int)row->value[id].whole : 0;
}

// ---------------------------------------------------------------- JSON

static json_t *value_json(const struct value *value) {
    json_t *list = NULL;
    switch (value->kind) {
    case VALUE_TEXT:
        return json_text(value->text, strlen(value->text));
    case VALUE_WHOLE:
        return json_integer(value->whole);
    case VALUE_REAL:
        return json_real(value->real);
    case VALUE_BOOL:
        return json_boolean(value->flag);
    case VALUE_WHOLES:
    case VALUE_REALS:
        list = json_array();
        for (int i = 0; list && i < value->n; i++) {
            json_t *item = value->kind == VALUE_REALS ? json_number(value->list[i])
                                                      : json_integer((json_int_t)value->list[i]);
            if (json_array_append_new(list, item)) return json_decref(list), NULL;
        }
        return list;
    case VALUE_NULL:
        break;
    }
    return json_null();
}

static json_t *stages_json(const struct row *row) {
    json_t *list = json_array();
    for (int i = 0; list && i < row->n_stages; i++) {
        const struct tools_stage *stage = &row->stages[i];
        const double share = (double)stage->ns / (double)row->stages_ns;
        json_t *item =
            json_pack("{s:s, s:I, s:I, s:o}", "name", stage->name, "ns", (json_int_t)stage->ns,
                      "runs", (json_int_t)stage->runs, "share", json_number(share));
        if (json_array_append_new(list, item)) return json_decref(list), NULL;
    }
    return list;
}

static bool row_json(const struct row *row, bool stages, json_t *object) {
    bool ok = object != NULL;
    for (int i = 0; ok && i < COLUMN_COUNT; i++)
        if (columns[i].tables & 1u << row->table)
            ok = json_put(object, columns[i].key, value_json(&row->value[i]));
    if (ok && stages) ok = json_put(object, "stages", stages_json(row));
    return ok;
}

json_t *rows_json(const struct row *rows, int n_rows, bool stages) {
    json_t *list = json_array();
    for (int i = 0; list && i < n_rows; i++) {
        json_t *object = json_object();
        const bool ok = row_json(&rows[i], stages, object);
        list = json_append(list, object, ok);
    }
    return list;
}

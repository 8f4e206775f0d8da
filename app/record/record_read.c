// The reader of a record's JSON. Strict: every member of a table is there once, no other is, every
// number is in its range, and the causes of a share add up to it. The text comes from a file or a
// server, so nothing in it is trusted. Invariant: after the first fault nothing more is read.
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "helpers.h"
#include "record/fields.h"

enum { CHOICES_MAX = RN_MAX_CHOICES };

struct reader {
    struct jread json;
    const char *name; // of the file
    struct record *record;
    rn_error *err;
    bool failed; // and err says why
};

// ---------------------------------------------------------------- faults

static bool fault(struct reader *r, const char *what, const char *which) {
    if (r->failed) return false;
    r->failed = true;
    const size_t offset = (size_t)(r->json.at - r->json.begin);
    if (r->json.error) {
        jread_status(&r->json, r->name, r->err);
        r->err->status = RN_ERR_ARG;
    } else {
        err_set(r->err, RN_ERR_ARG, "%s: offset %zu: %s%s%s%s", r->name, offset, which ? "'" : "",
                which ? which : "", which ? "' " : "", what);
    }
    return false;
}

// ---------------------------------------------------------------- values

static bool read_whole(struct reader *r, const char *name, int64_t max, int64_t *out) {
    if (!jread_i64(&r->json, out)) return fault(r, "is no whole number", name);
    return (*out >= 0 && *out <= max) || fault(r, "is out of its range", name);
}

static bool read_real(struct reader *r, const char *name, double *out) {
    if (!jread_f64(&r->json, out)) return fault(r, "is no number", name);
    return *out >= 0 || fault(r, "is negative", name);
}

static bool read_text(struct reader *r, const char *name, char *out, size_t size) {
    struct jread_text text;
    if (!jread_string(&r->json, &text)) return fault(r, "is no string", name);
    if (text.len >= size) return fault(r, "is too long", name);
    const size_t len = jread_unescape(&text, out);
    out[len] = '\0';
    return !memchr(out, '\0', len) || fault(r, "has a NUL", name);
}

static bool read_finish(struct reader *r, const char *name, rn_finish *out) {
    struct jread_text text;
    *out = RN_FINISH_NONE;
    if (jread_peek(&r->json) == JREAD_NULL) return jread_null(&r->json);
    if (!jread_string(&r->json, &text)) return fault(r, "is no string", name);
    for (int i = RN_FINISH_NONE + 1; i < RN_FINISH_COUNT; i++) {
        if (!jread_equals(&text, rn_finish_text((rn_finish)i))) continue;
        *out = (rn_finish)i;
        return true;
    }
    return fault(r, "is no way to finish", name);
}

// -1: no cause has that name.
static int cause_of(const struct jread_text *text) {
    for (int i = 0; i < RN_CAUSE_COUNT; i++)
        if (jread_equals(text, rn_cause_name((rn_cause)i))) return i;
    return -1;
}

static bool read_causes(struct reader *r, uint64_t *ns) {
    struct jread_text key;
    bool seen[RN_CAUSE_COUNT] = {0};
    if (!jread_enter_object(&r->json)) return fault(r, "is no object", "causes_ns");
    while (jread_next_key(&r->json, &key)) {
        const int cause = cause_of(&key);
        int64_t value;
        if (cause < 0) return fault(r, "has a cause that is not known", "causes_ns");
        if (seen[cause]) return fault(r, "is there twice", rn_cause_name((rn_cause)cause));
        seen[cause] = true;
        if (!read_whole(r, rn_cause_name((rn_cause)cause), INT64_MAX, &value)) return false;
        ns[cause] = (uint64_t)value;
    }
    return !r->json.error || fault(r, "", NULL);
}

static bool share_check(struct reader *r, const rn_share *share) {
    uint64_t sum = 0;
    for (int i = 0; i < RN_CAUSE_COUNT; i++) {
        if (share->cause_ns[i] > share->ns - sum)
            return fault(r, "has more than its 'ns'", "causes_ns");
        sum += share->cause_ns[i];
    }
    return sum == share->ns || fault(r, "does not add up to its 'ns'", "causes_ns");
}

// ---------------------------------------------------------------- arrays

static bool read_fields(struct reader *r, const struct fields *fields, void *item);

static bool read_gaps(struct reader *r, rn_account *account) {
    if (!jread_enter_array(&r->json)) return fault(r, "is no array", "slowest");
    while (jread_next_item(&r->json)) {
        if (account->n_slow == RN_SLOW_GAPS) return fault(r, "has too many items", "slowest");
        if (!read_fields(r, &gap_fields, &account->slow[account->n_slow++])) return false;
    }
    return !r->json.error || fault(r, "", NULL);
}

static bool read_span(struct reader *r, rn_span *span) {
    uint64_t *const time[] = {&span->end_ns, &span->ns, &span->max_ns};
    struct jread_text text;
    int64_t value;
    static const char wrong[] = "has an item that is not [end_ns, ns, max_ns, tokens, cause]";
    if (!jread_enter_array(&r->json)) return fault(r, wrong, "spans");
    for (int i = 0; i < 4; i++) {
        if (!jread_next_item(&r->json)) return fault(r, wrong, "spans");
        if (!read_whole(r, "spans", i < 3 ? INT64_MAX : INT32_MAX, &value)) return false;
        if (i < 3)
            *time[i] = (uint64_t)value;
        else
            span->n_tokens = (uint32_t)value;
    }
    if (!jread_next_item(&r->json) || !jread_string(&r->json, &text))
        return fault(r, wrong, "spans");
    const int cause = cause_of(&text);
    if (cause < 0) return fault(r, "has a cause that is not known", "spans");
    span->cause = (uint8_t)cause;
    return !jread_next_item(&r->json) || fault(r, wrong, "spans");
}

static bool read_spans(struct reader *r, rn_account *account) {
    if (!jread_enter_array(&r->json)) return fault(r, "is no array", "spans");
    while (jread_next_item(&r->json)) {
        if (account->n_spans == RN_SPANS) return fault(r, "has too many items", "spans");
        if (!read_span(r, &account->span[account->n_spans++])) return false;
    }
    return !r->json.error || fault(r, "", NULL);
}

static bool read_choices(struct reader *r) {
    struct record *record = r->record;
    if (!jread_enter_array(&r->json)) return fault(r, "is no array", "choices");
    while (jread_next_item(&r->json)) {
        if (record->n_choices == CHOICES_MAX) return fault(r, "has too many items", "choices");
        struct record_choice *grown =
            realloc(record->choice, ((size_t)record->n_choices + 1) * sizeof *grown);
        if (!grown) return fault(r, "out of memory", NULL);
        record->choice = grown;
        struct record_choice *choice = &grown[record->n_choices++];
        memset(choice, 0, sizeof *choice);
        if (!read_fields(r, &choice_fields, choice)) return false;
    }
    if (r->json.error) return fault(r, "", NULL);
    return record->n_choices > 0 || fault(r, "is empty", "choices");
}

// ---------------------------------------------------------------- objects

static bool read_field(struct reader *r, const struct field *field, void *item) {
    void *at = (char *)item + field->offset;
    int64_t whole;
    switch (field->kind) {
    case FIELD_INT:
        if (!read_whole(r, field->name, INT_MAX, &whole)) return false;
        *(int *)at = (int)whole;
        return true;
    case FIELD_COUNT:
        if (!read_whole(r, field->name, INT64_MAX, &whole)) return false;
        *(uint64_t *)at = (uint64_t)whole;
        return true;
    case FIELD_SECONDS:
        return read_whole(r, field->name, INT64_MAX, at);
    case FIELD_REAL:
        return read_real(r, field->name, at);
    case FIELD_TEXT:
        return read_text(r, field->name, at, field->size);
    case FIELD_FINISH:
        return read_finish(r, field->name, at);
    case FIELD_CAUSES:
        return read_causes(r, at);
    case FIELD_STRUCT:
        return read_fields(r, field->fields, at);
    case FIELD_GAPS:
        return read_gaps(r, item);
    case FIELD_SPANS:
        return read_spans(r, item);
    case FIELD_CHOICES:
        return read_choices(r);
    case FIELD_DERIVED:
        return jread_skip(&r->json) || fault(r, "", NULL);
    }
    return false;
}

static const struct field *field_find(const struct fields *fields, const struct jread_text *key) {
    for (int i = 0; i < fields->n; i++)
        if (jread_equals(key, fields->row[i].name)) return &fields->row[i];
    return NULL;
}

static bool is_share(const struct fields *fields) {
    return fields->n > 1 && fields->row[1].kind == FIELD_CAUSES;
}

// Members until the object's end; seen: of the rows.
static bool read_members(struct reader *r, const struct fields *fields, void *item, bool is_top) {
    bool seen[32] = {0};
    struct jread_text key;
    while (jread_next_key(&r->json, &key)) {
        if (is_top && (jread_equals(&key, "schema") || jread_equals(&key, "version"))) {
            jread_skip(&r->json);
            continue;
        }
        const struct field *field = field_find(fields, &key);
        char name[40];
        if (!field) {
            const size_t len = key.len < sizeof name ? key.len : sizeof name - 1;
            memcpy(name, key.data, len);
            name[len] = '\0';
            return fault(r, "is no member of this object", name);
        }
        if (seen[field - fields->row]) return fault(r, "is there twice", field->name);
        seen[field - fields->row] = true;
        if (!read_field(r, field, item)) return fault(r, "", NULL);
    }
    if (r->json.error) return fault(r, "", NULL);
    for (int i = 0; i < fields->n; i++)
        if (!seen[i]) return fault(r, "is missing", fields->row[i].name);
    return !is_share(fields) || share_check(r, item);
}

static bool read_fields(struct reader *r, const struct fields *fields, void *item) {
    if (!jread_enter_object(&r->json)) return fault(r, "expected an object", NULL);
    return read_members(r, fields, item, false);
}

// ---------------------------------------------------------------- the document

// Looks for the schema and its version, before anything is read.
static bool schema_check(struct reader *r) {
    struct jread_text key, text = {0};
    int64_t version = -1;
    bool ours = false;
    if (jread_peek(&r->json) == JREAD_ERROR) {
        r->failed = true;
        err_set(r->err, RN_ERR_ARG, "%s: not JSON", r->name);
        return false;
    }
    if (!jread_enter_object(&r->json)) return fault(r, "expected an object", NULL);
    while (jread_next_key(&r->json, &key)) {
        const bool is_schema = jread_equals(&key, "schema") && jread_peek(&r->json) == JREAD_STRING;
        const bool is_version =
            jread_equals(&key, "version") && jread_peek(&r->json) == JREAD_NUMBER;
        if (is_schema) {
            jread_string(&r->json, &text);
            ours = jread_equals(&text, RECORD_SCHEMA);
        } else if (is_version) {
            jread_i64(&r->json, &version);
        } else {
            jread_skip(&r->json);
        }
    }
    if (!jread_finish(&r->json)) return fault(r, "", NULL);
    r->failed = true;
    if (!ours) {
        err_set(r->err, RN_ERR_ARG, "%s: no document of the schema " RECORD_SCHEMA, r->name);
    } else if (version != RECORD_VERSION) {
        err_set(r->err, RN_ERR_ARG, "%s: version %lld of the schema, expected %d", r->name,
                (long long)version, RECORD_VERSION);
    } else {
        r->failed = false;
    }
    return !r->failed;
}

rn_status record_read(const char *name, const char *text, size_t len, struct record *out,
                      rn_error *err) {
    rn_error own;
    struct reader r = {.name = name, .record = out, .err = err ? err : &own};
    *out = (struct record){0};
    jread_init(&r.json, text, len);
    bool ok = schema_check(&r);
    if (ok) {
        jread_init(&r.json, text, len);
        ok = jread_enter_object(&r.json) && read_members(&r, &record_fields, out, true);
    }
    if (ok) return RN_OK;
    record_free(out);
    return RN_ERR_ARG;
}

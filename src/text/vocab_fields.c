// Members of JSON objects by name, for the readers of vocabularies. Owns nothing.
#define _GNU_SOURCE 1
#include "text/vocab_fields.h"

#include <string.h>

rn_status vocab_no_memory(const struct vocab_file *file) {
    return err_set(file->err, RN_ERR_NOMEM, "%s: no memory", file->name);
}

rn_status vocab_missing(const struct vocab_file *file, const struct jread *object,
                        const char *key) {
    return err_set(file->err, RN_ERR_MODEL, "%s: offset %zu: \"%s\" is missing", file->name,
                   (size_t)(object->at - object->begin), key);
}

static struct vocab_field *field_find(const struct jread_text *key, struct vocab_field *field,
                                      int count) {
    for (int i = 0; i < count; i++)
        if (jread_equals(key, field[i].key)) return &field[i];
    return NULL;
}

bool vocab_fields_walk(struct jread *r, struct vocab_field *field, int count,
                       const struct vocab_within *within) {
    uint64_t seen = 0;
    struct jread_text key;
    if (!jread_enter_object(r)) return false;
    while (jread_next_key(r, &key)) {
        struct vocab_field *const found = field_find(&key, field, count);
        if (found) {
            const uint64_t bit = UINT64_C(1) << (found - field);
            if (seen & bit) return jread_fail(r, "a key comes twice");
            seen |= bit;
            found->is_found = jread_peek(r) != JREAD_NULL;
            found->at = *r;
        }
        const bool is_walked = within && found && found->is_found && found->key == within->key;
        if (!(is_walked ? vocab_fields_walk(r, within->field, within->count, NULL) : jread_skip(r)))
            return false;
    }
    return !r->error;
}

rn_status vocab_fields_read(const struct vocab_file *file, struct jread at,
                            struct vocab_field *field, int count) {
    return vocab_fields_walk(&at, field, count, NULL) ? RN_OK
                                                      : jread_status(&at, file->name, file->err);
}

rn_status vocab_field_bool(const struct vocab_file *file, const struct vocab_field *field,
                           bool *out) {
    if (!field->is_found) return RN_OK;
    struct jread r = field->at;
    return jread_bool(&r, out) ? RN_OK : jread_status(&r, file->name, file->err);
}

rn_status vocab_field_span(const struct vocab_file *file, const struct vocab_field *field,
                           struct text_span *out) {
    if (!field->is_found) return RN_OK;
    struct jread r = field->at;
    return vocab_span_read(file, &r, out);
}

rn_status vocab_span_read(const struct vocab_file *file, struct jread *r, struct text_span *out) {
    struct jread_text text;
    if (!jread_string(r, &text)) return jread_status(r, file->name, file->err);
    *out = (struct text_span){text.data, text.len};
    if (!text.has_escape) return RN_OK;
    char *const resolved = arena_alloc(file->arena, text.len);
    if (!resolved) return vocab_no_memory(file);
    *out = (struct text_span){resolved, jread_unescape(&text, resolved)};
    return RN_OK;
}

bool vocab_span_equals(struct text_span span, const char *literal) {
    return span.len == strlen(literal) && memcmp(span.data, literal, span.len) == 0;
}

bool vocab_span_has_marker(struct text_span span) {
    return memmem(span.data, span.len, VOCAB_MARKER, strlen(VOCAB_MARKER)) != NULL;
}

rn_status vocab_span_unmark(const struct vocab_file *file, struct text_span *span) {
    const size_t n_marker = strlen(VOCAB_MARKER);
    if (!vocab_span_has_marker(*span)) return RN_OK;
    char *const out = arena_alloc(file->arena, span->len);
    if (!out) return vocab_no_memory(file);
    size_t n = 0;
    for (size_t i = 0; i < span->len;) {
        const bool is_marker =
            span->len - i >= n_marker && memcmp(span->data + i, VOCAB_MARKER, n_marker) == 0;
        out[n++] = is_marker ? ' ' : span->data[i];
        i += is_marker ? n_marker : 1;
    }
    *span = (struct text_span){out, n};
    return RN_OK;
}

int vocab_span_shown(struct text_span span) {
    if (span.len <= 100) return (int)span.len;
    int len = 100;
    while (len > 0 && ((unsigned char)span.data[len] & 0xc0) == 0x80) len--; // whole characters
    return len;
}

rn_status vocab_added_read(const struct vocab_file *file, struct jread at,
                           struct vocab_added *out) {
    struct vocab_field field[] = {{.key = "content"},     {.key = "special"},
                                  {.key = "lstrip"},      {.key = "rstrip"},
                                  {.key = "single_word"}, {.key = "normalized"}};
    rn_status s = vocab_fields_read(file, at, field, sizeof field / sizeof *field);
    if (s) return s;
    if (!field[0].is_found) return vocab_missing(file, &at, "content");
    if ((s = vocab_field_span(file, &field[0], &out->text))) return s;
    if ((s = vocab_field_bool(file, &field[1], &out->special))) return s;
    if ((s = vocab_field_bool(file, &field[2], &out->lstrip))) return s;
    if ((s = vocab_field_bool(file, &field[3], &out->rstrip))) return s;
    if ((s = vocab_field_bool(file, &field[4], &out->single_word))) return s;
    out->normalized = !out->special; // the library's value where the file gives none
    return vocab_field_bool(file, &field[5], &out->normalized);
}

// Any bytes as JSON text. Reading values one by one and skipping them accept the same texts, end at
// the same place and report the same errors. Strings come out as UTF-8 that is no longer than the
// input.
#include <stdlib.h>
#include <string.h>

#include "base/jread.h"
#include "unicode/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
    if (!holds) abort();
}

static void check_text(const struct jread_text *text) {
    char *const out = malloc(text->len + 1);
    require(out != NULL);
    const size_t len = jread_unescape(text, out);
    require(len <= text->len && unicode_is_valid(out, len));
    require(text->has_escape == (memchr(text->data, '\\', text->len) != NULL));
    require(text->has_escape || (len == text->len && memcmp(out, text->data, len) == 0));
    out[len] = 0;
    require(jread_equals(text, out) == (strlen(out) == len));
    free(out);
}

static bool scalar_read(struct jread *r, enum jread_kind kind) {
    struct jread_text text;
    struct jread number = *r;
    int64_t n;
    double x;
    bool b;
    switch (kind) {
    case JREAD_STRING:
        if (!jread_string(r, &text)) return false;
        check_text(&text);
        return true;
    case JREAD_NUMBER:
        if (jread_i64(&number, &n)) {
            require(jread_f64(r, &x) && r->at == number.at && x == (double)n);
            return true;
        }
        number = *r;
        if (jread_f64(&number, &x)) require(x - x == 0);
        return jread_skip(r); // out of range is no error here
    case JREAD_BOOL:
        return jread_bool(r, &b);
    default:
        return jread_null(r);
    }
}

// Recursion is bounded by the reader's depth.
static bool value_read(struct jread *r) {
    struct jread_text key;
    const enum jread_kind kind = jread_peek(r);
    require(r->depth >= 0 && r->depth <= JREAD_MAX_DEPTH && r->at >= r->begin && r->at <= r->end);
    if (kind == JREAD_OBJECT) {
        if (!jread_enter_object(r)) return false;
        while (jread_next_key(r, &key)) {
            check_text(&key);
            if (!value_read(r)) return false;
        }
        return !r->error;
    }
    if (kind == JREAD_ARRAY) {
        if (!jread_enter_array(r)) return false;
        while (jread_next_item(r) && value_read(r)) {
        }
        return !r->error;
    }
    return kind == JREAD_ERROR ? false : scalar_read(r, kind);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *const copy = malloc(size + !size); // of exactly that size
    require(copy != NULL);
    if (size) memcpy(copy, data, size);
    struct jread read, skipped;
    jread_init(&read, copy, size);
    jread_init(&skipped, copy, size);
    const char *raw;
    size_t len;
    const bool is_read = value_read(&read) && jread_finish(&read);
    const bool is_skipped = jread_raw(&skipped, &raw, &len) && jread_finish(&skipped);
    require(is_read == is_skipped && read.at == skipped.at);
    require(!read.error == is_read && !skipped.error == is_read);
    if (!is_read) {
        require(read.error == skipped.error && read.error_at == skipped.error_at);
        require(read.error_at <= size);
    } else {
        require(raw >= copy && raw + len <= copy + size && read.depth == 0 && !read.is_object);
    }
    free(copy);
    return 0;
}

// Operations on strings that filters and methods share. Bytes are UTF-8; a string whose characters
// are as many as its bytes is ASCII, and places in it need no walk.
#define _GNU_SOURCE // memmem
#include "jinja/text.h"

#include <string.h>

#include "jinja/render.h"
#include "unicode/unicode.h"

bool str_same(const struct str *a, const struct str *b) {
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

bool str_equals(const struct str *s, const char *text) {
    return s->len == strlen(text) && memcmp(s->data, text, s->len) == 0;
}

static bool is_inside(char byte) { return ((uint8_t)byte & 0xc0) == 0x80; } // of a character

size_t jinja_n_chars(struct str *s) {
    if (s->n_chars != SIZE_MAX) return s->n_chars; // always so for the template's constants
    size_t n = 0;
    for (size_t i = 0; i < s->len; i++) n += !is_inside(s->data[i]);
    s->n_chars = n;
    return n;
}

size_t jinja_char_end(const struct str *s, size_t at) {
    for (at++; at < s->len && is_inside(s->data[at]);) at++;
    return at;
}

size_t jinja_char_offset(struct str *s, size_t n) {
    if (jinja_n_chars(s) == s->len) return n;
    size_t at = 0;
    for (; n; n--) at = jinja_char_end(s, at);
    return at;
}

static int32_t char_decode(const struct str *s, size_t at, size_t *n) {
    return unicode_decode((const uint8_t *)s->data + at, s->len - at, n);
}

// Bytes are charged up to the end of the match: many short searches cost no more than a long one.
// memmem is linear in the haystack, though slower than a copy.
size_t jinja_find(struct render *r, const struct str *s, const struct str *needle, size_t from) {
    if (needle->len == 0) return from;
    const size_t rest = s->len - from;
    const char *found = rest ? memmem(s->data + from, rest, needle->data, needle->len) : NULL;
    const size_t end = found ? (size_t)(found - s->data) + needle->len : s->len;
    jinja_work(r, (end - from) * 4);
    return found ? (size_t)(found - s->data) : SIZE_MAX;
}

// ---------------------------------------------------------------- case

static void case_write(struct render *r, const struct str *s, size_t at, int32_t cp,
                       enum chars_case to) {
    uint32_t mapped[3];
    uint8_t bytes[12];
    size_t len = 0;
    if (to == CHARS_LOWER && cp == 0x3a3) { // looks around itself
        jinja_work_chars(r, 8);
        if (chars_is_final_sigma(s->data, s->len, at)) cp = 0x3c2;
    }
    const size_t n = chars_map(to, cp, mapped);
    for (size_t i = 0; i < n; i++) len += unicode_encode(mapped[i], bytes + len);
    jinja_write_as(r, (const char *)bytes, len, str_mark(s, at));
}

struct value jinja_text_case(struct render *r, const struct str *s, enum text_case to) {
    const enum chars_case rest = to == TEXT_UPPER ? CHARS_UPPER : CHARS_LOWER;
    const enum chars_case first = to == TEXT_CAPITALIZE || to == TEXT_TITLE ? CHARS_TITLE : rest;
    const size_t mark = r->out_len;
    bool starts_word = true;
    jinja_work_chars(r, s->len);
    for (size_t at = 0, n; at < s->len; at += n) {
        const int32_t cp = char_decode(s, at, &n);
        case_write(r, s, at, cp, starts_word ? first : rest);
        starts_word = to == TEXT_TITLE && !chars_is_cased(cp);
    }
    return jinja_take(r, mark);
}

// ---------------------------------------------------------------- sides

static bool is_stripped(const struct str *chars, int32_t cp) {
    if (!chars) return chars_is_blank(cp);
    for (size_t at = 0, n; at < chars->len; at += n) {
        if (char_decode(chars, at, &n) == cp) return true;
    }
    return false;
}

struct value jinja_text_strip(struct render *r, const struct str *s, const struct str *chars,
                              int sides) {
    size_t from = 0, to = s->len, n;
    // Each character is compared with all of `chars`.
    const size_t cost = chars ? chars->len : 1;
    while (sides & TEXT_LEFT && from < to) {
        jinja_work_chars(r, cost);
        if (!is_stripped(chars, char_decode(s, from, &n))) break;
        from += n;
    }
    while (sides & TEXT_RIGHT && to > from) {
        size_t start;
        jinja_work_chars(r, cost);
        if (!is_stripped(chars, chars_before(s->data, to, &start))) break;
        to = start;
    }
    return jinja_substr(r, s, from, to);
}

// ---------------------------------------------------------------- parts

struct value jinja_text_replace(struct render *r, const struct str *s, const struct str *from,
                                const struct str *to, int64_t count) {
    const size_t mark = r->out_len;
    size_t at = 0;
    jinja_work(r, s->len);
    for (; count != 0; count -= count > 0) {
        const size_t found = jinja_find(r, s, from, at); // an empty one: everywhere
        if (found == SIZE_MAX) break;
        jinja_write_str(r, s, at, found);
        jinja_write_str(r, to, 0, to->len);
        jinja_work(r, JINJA_STEP_BYTES / 4);
        at = found + from->len;
        if (from->len) continue;
        if (at == s->len) break;
        const size_t end = jinja_char_end(s, at);
        jinja_write_str(r, s, at, end);
        at = end;
    }
    jinja_write_str(r, s, at, s->len);
    return jinja_take(r, mark);
}

// The end of the part that starts at `from`, or SIZE_MAX when no separator follows.
static size_t part_end(struct render *r, const struct str *s, const struct str *separator,
                       size_t from) {
    if (separator) return jinja_find(r, s, separator, from);
    while (from < s->len && !chars_blank_prefix(s->data + from, s->len - from)) {
        from = jinja_char_end(s, from);
    }
    return from;
}

struct value jinja_text_split(struct render *r, const struct str *s, const struct str *separator,
                              int64_t max) {
    size_t from = separator ? 0 : chars_blank_prefix(s->data, s->len);
    struct seq *list = jinja_seq_new(r, SEQ_LIST, 0);
    jinja_work_chars(r, s->len);
    bool has_more = separator || from < s->len;
    while (has_more) {
        const size_t end = max == 0 ? SIZE_MAX : part_end(r, s, separator, from);
        const bool is_cut = end != SIZE_MAX;
        jinja_seq_add(r, list, jinja_substr(r, s, from, is_cut ? end : s->len));
        jinja_charge(r, 1);
        if (is_cut) {
            from = end +
                   (separator ? separator->len : chars_blank_prefix(s->data + end, s->len - end));
        }
        has_more = is_cut && (separator || from < s->len);
        max -= max > 0;
    }
    return jinja_seq_close(r, list);
}

static bool is_newline(int32_t cp) {
    return (cp >= 0x0a && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

size_t jinja_line_end(const struct str *s, size_t from, size_t *next) {
    for (size_t at = from, n; at < s->len; at += n) {
        const int32_t cp = char_decode(s, at, &n);
        if (!is_newline(cp)) continue;
        const bool is_pair = cp == '\r' && (at + 1 == s->len || s->data[at + 1] == '\n');
        *next = at + n + is_pair;
        return at;
    }
    *next = s->len + 1;
    return s->len;
}

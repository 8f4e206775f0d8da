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
size_t jinja_find(struct render *r, const struct str *s, const struct str *needle, size_t from,
                  size_t to) {
    if (needle->len == 0) return from;
    const char *found =
        to > from ? memmem(s->data + from, to - from, needle->data, needle->len) : NULL;
    const size_t end = found ? (size_t)(found - s->data) + needle->len : to;
    jinja_work(r, (end - from) * 4);
    return found ? (size_t)(found - s->data) : SIZE_MAX;
}

// From the end, byte by byte; the comparisons that get past the first byte are charged.
size_t jinja_find_last(struct render *r, const struct str *s, const struct str *needle, size_t to) {
    if (to < needle->len) return SIZE_MAX;
    for (size_t at = to - needle->len + 1; at-- > 0;) {
        const bool is_close = needle->len == 0 || s->data[at] == needle->data[0];
        jinja_work(r, is_close ? needle->len + 4 : 4);
        if (is_close && memcmp(s->data + at, needle->data, needle->len) == 0) return at;
    }
    return SIZE_MAX;
}

// ---------------------------------------------------------------- case

static enum chars_case case_for(enum text_case to, bool starts_word) {
    switch (to) {
    case TEXT_UPPER:
        return CHARS_UPPER;
    case TEXT_LOWER:
        return CHARS_LOWER;
    case TEXT_TITLE_FILTER:
        return starts_word ? CHARS_UPPER : CHARS_LOWER;
    default:
        return starts_word ? CHARS_TITLE : CHARS_LOWER;
    }
}

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
    const size_t mark = r->out_len;
    bool starts_word = true;
    jinja_work_chars(r, s->len);
    for (size_t at = 0, n; at < s->len; at += n) {
        const int32_t cp = char_decode(s, at, &n);
        case_write(r, s, at, cp, case_for(to, starts_word));
        if (to == TEXT_TITLE) {
            starts_word = !chars_is_cased(cp);
        } else if (to == TEXT_TITLE_FILTER) {
            starts_word = chars_is_blank(cp) || (cp < 0x80 && cp && strchr("-({[<", cp));
        } else {
            starts_word = false;
        }
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

// Where the next `from` is; an empty one is found between characters and at both ends.
static size_t replace_find(struct render *r, const struct str *s, const struct str *from,
                           size_t at) {
    if (from->len != 1) return jinja_find(r, s, from, at, s->len);
    const char *found = s->len - at ? memchr(s->data + at, from->data[0], s->len - at) : NULL;
    return found ? (size_t)(found - s->data) : SIZE_MAX;
}

struct value jinja_text_replace(struct render *r, const struct str *s, const struct str *from,
                                const struct str *to, int64_t count) {
    const size_t mark = r->out_len;
    size_t at = 0;
    jinja_work(r, s->len);
    for (; count != 0; count -= count > 0) {
        const size_t found = replace_find(r, s, from, at);
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

struct value jinja_text_join(struct render *r, const struct str *separator, struct value items,
                             struct value attribute) {
    const struct seq *q = jinja_iterate(r, items);
    const size_t mark = r->out_len;
    for (size_t i = 0; i < q->n; i++) {
        if (i) jinja_write_str(r, separator, 0, separator->len);
        jinja_charge(r, 1);
        jinja_print(r, jinja_getpath(r, q->items[i], attribute));
    }
    return jinja_take(r, mark);
}

// One step of a split over [*from, *to): the part that it cuts off, and the rest. False: the rest
// is the last part, or (with blanks) there is none.
static bool part_cut(struct render *r, const struct str *s, const struct str *separator,
                     bool from_right, size_t *from, size_t *to, size_t part[2]) {
    size_t start = *from, end = *to, before;
    if (separator) {
        const size_t at = from_right ? jinja_find_last(r, s, separator, end)
                                     : jinja_find(r, s, separator, start, end);
        if (at == SIZE_MAX) return false;
        part[0] = from_right ? at + separator->len : start;
        part[1] = from_right ? end : at;
        *(from_right ? to : from) = from_right ? at : at + separator->len;
        return true;
    }
    if (from_right) {
        for (start = end; start > 0; start = before) {
            if (chars_is_blank(chars_before(s->data, start, &before))) break;
        }
        *to = start - chars_blank_suffix(s->data, start);
    } else {
        for (end = start; end < s->len && !chars_blank_prefix(s->data + end, s->len - end);) {
            end = jinja_char_end(s, end);
        }
        *from = end + chars_blank_prefix(s->data + end, s->len - end);
    }
    part[0] = start;
    part[1] = end;
    return start < end;
}

struct value jinja_text_split(struct render *r, const struct str *s, const struct str *separator,
                              int64_t max, bool from_right) {
    size_t from = 0, to = s->len, part[2], n = 0, cap = 8;
    struct seq *list = jinja_seq_new(r, SEQ_LIST, cap);
    jinja_work_chars(r, s->len);
    if (!separator && from_right) to -= chars_blank_suffix(s->data, to);
    if (!separator && !from_right) from = chars_blank_prefix(s->data, to);
    bool has_more = separator || from < to;
    while (has_more) {
        const bool is_cut = max != 0 && part_cut(r, s, separator, from_right, &from, &to, part);
        if (n == cap) list->items = jinja_array_grow(r, list->items, n, &cap, sizeof *list->items);
        list->items[n++] = jinja_substr(r, s, is_cut ? part[0] : from, is_cut ? part[1] : to);
        jinja_charge(r, 1);
        has_more = is_cut && (separator || from < to);
        max -= max > 0;
    }
    for (size_t i = 0; from_right && i < n / 2; i++) {
        const struct value swap = list->items[i];
        list->items[i] = list->items[n - 1 - i];
        list->items[n - 1 - i] = swap;
    }
    list->n = n;
    return jinja_seq_close(r, list);
}

bool jinja_text_line(const struct str *s, size_t *at, size_t *from, size_t *to) {
    if (*at >= s->len) return false;
    *from = *at;
    for (size_t pos = *at, n; pos < s->len; pos += n) {
        const int32_t cp = char_decode(s, pos, &n);
        if (!chars_is_newline(cp)) continue;
        *to = pos;
        *at = pos + n + (cp == '\r' && pos + 1 < s->len && s->data[pos + 1] == '\n');
        return true;
    }
    *to = *at = s->len;
    return true;
}

// Strings by characters: counting, finding. Bytes are UTF-8; a string whose characters are as many
// as its bytes is ASCII, and places in it need no walk.
#define _GNU_SOURCE // memmem
#include <string.h>

#include "jinja/render.h"

size_t jinja_n_chars(struct str *s) {
    if (s->n_chars != SIZE_MAX) return s->n_chars; // always so for the template's constants
    size_t n = 0;
    for (size_t i = 0; i < s->len; i++) n += ((uint8_t)s->data[i] & 0xc0) != 0x80;
    s->n_chars = n;
    return n;
}

size_t jinja_char_offset(struct str *s, size_t n) {
    if (jinja_n_chars(s) == s->len) return n;
    size_t at = 0;
    for (; n; n--) {
        at++;
        while (at < s->len && ((uint8_t)s->data[at] & 0xc0) == 0x80) at++;
    }
    return at;
}

bool str_equals(const struct str *s, const char *text) {
    return s->len == strlen(text) && memcmp(s->data, text, s->len) == 0;
}

bool str_same(const struct str *a, const struct str *b) {
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

// What was searched is charged, up to what was found: many short searches cost no more than one
// long one. memmem is linear in the haystack, though slower than a copy.
size_t jinja_find(struct render *r, const struct str *s, const struct str *needle, size_t from,
                  size_t to) {
    if (from > to) return SIZE_MAX;
    if (needle->len == 0) return from;
    const char *found = memmem(s->data + from, to - from, needle->data, needle->len);
    const size_t end = found ? (size_t)(found - s->data) + needle->len : to;
    if (!jinja_work(r, (end - from) * 4)) return SIZE_MAX;
    return found ? (size_t)(found - s->data) : SIZE_MAX;
}

// From the end, byte by byte; the comparisons that get past the first byte are charged.
size_t jinja_find_last(struct render *r, const struct str *s, const struct str *needle, size_t from,
                       size_t to) {
    if (from > to || to - from < needle->len) return SIZE_MAX;
    for (size_t at = to - needle->len + 1; at-- > from;) {
        const bool is_close = needle->len == 0 || s->data[at] == needle->data[0];
        if (!jinja_work(r, is_close ? needle->len + 4 : 4)) return SIZE_MAX;
        if (is_close && memcmp(s->data + at, needle->data, needle->len) == 0) return at;
    }
    return SIZE_MAX;
}

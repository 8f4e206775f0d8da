// Operations on strings that filters and methods share.
#include "jinja/text.h"

#include <string.h>

#include "jinja/render.h"
#include "unicode/unicode.h"

static int32_t char_decode(const struct str *s, size_t at, size_t *n) {
    return unicode_decode((const uint8_t *)s->data + at, s->len - at, n);
}

static enum chars_case case_for(enum text_case to, int32_t cp, bool is_first, bool in_word) {
    switch (to) {
    case TEXT_UPPER:
        return CHARS_UPPER;
    case TEXT_CAPITALIZE:
        return is_first ? CHARS_TITLE : CHARS_LOWER;
    case TEXT_TITLE:
        return in_word ? CHARS_LOWER : CHARS_TITLE;
    case TEXT_FOLD:
        return CHARS_FOLD;
    case TEXT_SWAP:
        if (chars_is_upper(cp)) return CHARS_LOWER;
        return chars_is_title(cp) ? CHARS_TITLE : CHARS_UPPER; // titles stay
    default:
        return CHARS_LOWER;
    }
}

// Text on its way to the output, in blocks.
struct block {
    uint8_t data[256];
    size_t len;
};

static bool block_flush(struct render *r, struct block *block) {
    const size_t len = block->len;
    block->len = 0;
    return jinja_write(r, (const char *)block->data, len);
}

static bool case_add(struct render *r, struct block *block, const struct str *s, size_t at,
                     int32_t cp, enum chars_case to) {
    uint32_t mapped[3];
    if (block->len > sizeof block->data - 12 && !block_flush(r, block)) return false;
    if (to == CHARS_LOWER && cp == 0x3a3) { // looks around itself
        if (!jinja_work_chars(r, 8)) return false;
        cp = chars_is_final_sigma(s->data, s->len, at) ? 0x3c2 : cp;
    }
    const size_t n = chars_map(to, cp, mapped);
    for (size_t i = 0; i < n; i++) {
        block->len += unicode_encode(mapped[i], block->data + block->len);
    }
    return true;
}

struct value jinja_text_case(struct render *r, const struct str *s, enum text_case to) {
    const size_t mark = r->out_len;
    struct block block = {.len = 0};
    bool in_word = false;
    size_t n;
    if (!jinja_work_chars(r, s->len)) return value_error();
    for (size_t at = 0; at < s->len; at += n) {
        const int32_t cp = char_decode(s, at, &n);
        if (!case_add(r, &block, s, at, cp, case_for(to, cp, at == 0, in_word))) {
            return value_error();
        }
        in_word =
            to == TEXT_TITLE && (chars_is_upper(cp) || chars_is_lower(cp) || chars_is_title(cp));
    }
    return block_flush(r, &block) ? jinja_take(r, mark) : value_error();
}

static bool is_stripped(const struct str *chars, int32_t cp) {
    if (!chars) return chars_is_blank(cp);
    size_t n;
    for (size_t at = 0; at < chars->len; at += n) {
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
        if (!jinja_work_chars(r, cost)) return value_error();
        if (!is_stripped(chars, char_decode(s, from, &n))) break;
        from += n;
    }
    while (sides & TEXT_RIGHT && to > from) {
        size_t start;
        if (!jinja_work_chars(r, cost)) return value_error();
        if (!is_stripped(chars, chars_before(s->data, to, &start))) break;
        to = start;
    }
    return jinja_substr(r, s, from, to);
}

// Every place between characters, and both ends.
static struct value replace_empty(struct render *r, const struct str *s, const struct str *to,
                                  int64_t count) {
    const size_t mark = r->out_len;
    size_t at = 0, n = 0;
    for (;; at += n) {
        if (count != 0) {
            if (!jinja_write(r, to->data, to->len) || !jinja_charge(r, 1)) return value_error();
            count -= count > 0;
        }
        if (at == s->len) return jinja_take(r, mark);
        char_decode(s, at, &n);
        if (!jinja_write(r, s->data + at, n)) return value_error();
    }
}

struct value jinja_text_replace(struct render *r, const struct str *s, const struct str *from,
                                const struct str *to, int64_t count) {
    if (from->len == 0) return replace_empty(r, s, to, count);
    const size_t mark = r->out_len;
    size_t at = 0;
    if (!jinja_work(r, s->len)) return value_error();
    while (count != 0) {
        const char *rest = s->data + at;
        const char *found = NULL;
        if (from->len == 1) { // the usual case, without the set-up of a search
            found = s->len - at ? memchr(rest, from->data[0], s->len - at) : NULL;
        } else {
            const size_t place = jinja_find(r, s, from, at, s->len);
            found = place == SIZE_MAX ? NULL : s->data + place;
        }
        if (!found) break;
        if (!jinja_write(r, rest, (size_t)(found - rest)) || !jinja_write(r, to->data, to->len)) {
            return value_error();
        }
        at = (size_t)(found - s->data) + from->len;
        count -= count > 0;
        if (!jinja_work(r, JINJA_STEP_BYTES / 4)) return value_error();
    }
    if (r->status != RN_OK || !jinja_write(r, s->data + at, s->len - at)) return value_error();
    return jinja_take(r, mark);
}

static bool fill_write(struct render *r, uint32_t cp, int64_t n) {
    if (n <= 0) return true;
    if (!jinja_write_fits(r, (uint64_t)n) || !jinja_work_chars(r, (size_t)n)) return false;
    for (; n > 0; n--) {
        if (!jinja_write_char(r, cp)) return false;
    }
    return true;
}

struct value jinja_text_pad(struct render *r, const struct str *s, int64_t width, uint32_t fill,
                            char align) {
    struct str copy = *s;
    const int64_t n = (int64_t)jinja_n_chars(&copy);
    if (!jinja_work(r, s->len)) return value_error();
    const int64_t pad = width > n ? width - n : 0;
    // str.center puts the odd one on the left when the width is odd.
    const int64_t center = pad / 2 + (pad & width & 1);
    const int64_t left = align == '>' ? pad : align == '^' ? center : 0;
    const size_t mark = r->out_len;
    if (!fill_write(r, fill, left) || !jinja_write(r, s->data, s->len) ||
        !fill_write(r, fill, pad - left)) {
        return value_error();
    }
    return jinja_take(r, mark);
}

struct value jinja_text_join(struct render *r, const struct str *separator, struct value items,
                             struct value attribute) {
    const struct seq *q = jinja_iterate(r, items);
    if (!q) return value_error();
    const size_t mark = r->out_len;
    for (size_t i = 0; i < q->n; i++) {
        if (i && !jinja_write(r, separator->data, separator->len)) return value_error();
        const struct value v = jinja_getpath(r, q->items[i], attribute, value_missing());
        if (is_error(v) || !jinja_charge(r, 1) || !jinja_print(r, v)) return value_error();
    }
    return jinja_take(r, mark);
}

bool jinja_text_line(const struct str *s, size_t *at, size_t *from, size_t *to) {
    if (*at >= s->len) return false;
    *from = *at;
    size_t pos = *at, n;
    for (; pos < s->len; pos += n) {
        const int32_t cp = char_decode(s, pos, &n);
        if (!chars_is_newline(cp)) continue;
        *to = pos;
        pos += n;
        if (cp == '\r' && pos < s->len && s->data[pos] == '\n') pos++;
        *at = pos;
        return true;
    }
    *to = *at = s->len;
    return true;
}

// Methods of strings, as Python's str has them.
#include <string.h>

#include "jinja/render.h"
#include "jinja/split.h"
#include "jinja/text.h"
#include "unicode/unicode.h"

static struct value method_unsupported(struct render *r, struct value self, const struct call *c) {
    (void)self;
    return jinja_fail(r, "the method '%s' of strings is not supported", c->name);
}

#define CASE_METHOD(name, to)                                                                      \
    static struct value str_##name(struct render *r, struct value self, const struct call *c) {    \
        (void)c;                                                                                   \
        return jinja_text_case(r, self.s, to);                                                     \
    }
CASE_METHOD(upper, TEXT_UPPER)
CASE_METHOD(lower, TEXT_LOWER)
CASE_METHOD(title, TEXT_TITLE)
CASE_METHOD(capitalize, TEXT_CAPITALIZE)
CASE_METHOD(swapcase, TEXT_SWAP)
CASE_METHOD(casefold, TEXT_FOLD)

#define STRIP_METHOD(name, sides)                                                                  \
    static struct value str_##name(struct render *r, struct value self, const struct call *c) {    \
        const struct str *chars = NULL;                                                            \
        if (!jinja_arg_str(r, c, 0, &chars)) return value_error();                                 \
        return jinja_text_strip(r, self.s, chars, sides);                                          \
    }
STRIP_METHOD(strip, TEXT_LEFT | TEXT_RIGHT)
STRIP_METHOD(lstrip, TEXT_LEFT)
STRIP_METHOD(rstrip, TEXT_RIGHT)

// --- classes of characters ---

static struct value all_are(struct render *r, const struct str *s, bool (*is_one)(int32_t)) {
    size_t n;
    if (!jinja_work_chars(r, s->len)) return value_error();
    for (size_t at = 0; at < s->len; at += n) {
        const int32_t cp = unicode_decode((const uint8_t *)s->data + at, s->len - at, &n);
        if (!is_one(cp)) return value_bool(false);
    }
    return value_bool(true);
}

static bool is_alnum(int32_t cp) { return chars_is_alpha(cp) || chars_is_numeric(cp); }
static bool is_ascii(int32_t cp) { return cp < 0x80; }

#define CLASS_METHOD(name, is_one, if_empty)                                                       \
    static struct value str_##name(struct render *r, struct value self, const struct call *c) {    \
        (void)c;                                                                                   \
        if (self.s->len == 0) return value_bool(if_empty);                                         \
        return all_are(r, self.s, is_one);                                                         \
    }
CLASS_METHOD(isalnum, is_alnum, false)
CLASS_METHOD(isalpha, chars_is_alpha, false)
CLASS_METHOD(isascii, is_ascii, true)
CLASS_METHOD(isdecimal, chars_is_decimal, false)
CLASS_METHOD(isdigit, chars_is_digit, false)
CLASS_METHOD(isnumeric, chars_is_numeric, false)
CLASS_METHOD(isprintable, chars_is_printable, true)
CLASS_METHOD(isspace, chars_is_blank, false)

static struct value case_test(struct render *r, struct value self, const char *name) {
    const struct entry *test = jinja_table_find(&jinja_tests, name, strlen(name));
    const struct args none = {0};
    return jinja_entry_call(r, test, self, &none);
}

static struct value str_islower(struct render *r, struct value self, const struct call *c) {
    (void)c;
    return case_test(r, self, "lower");
}

static struct value str_isupper(struct render *r, struct value self, const struct call *c) {
    (void)c;
    return case_test(r, self, "upper");
}

// Capitals begin the words and stand nowhere else.
static struct value str_istitle(struct render *r, struct value self, const struct call *c) {
    (void)c;
    bool in_word = false, has_word = false;
    size_t n;
    if (!jinja_work_chars(r, self.s->len)) return value_error();
    for (size_t at = 0; at < self.s->len; at += n) {
        const uint8_t *text = (const uint8_t *)self.s->data + at;
        const int32_t cp = unicode_decode(text, self.s->len - at, &n);
        const bool is_capital = chars_is_upper(cp) || chars_is_title(cp);
        const bool is_small = chars_is_lower(cp);
        if ((is_capital && in_word) || (is_small && !in_word)) return value_bool(false);
        in_word = is_capital || is_small;
        has_word = has_word || in_word;
    }
    return value_bool(has_word);
}

// --- finding ---

struct window {
    size_t from, to; // bytes
    bool is_empty;   // the start lies past the end: nothing is found there, not even ""
};

static int64_t place_clip(int64_t i, int64_t n) {
    if (i < 0) i = i < -n ? 0 : i + n;
    return i;
}

// The optional arguments start and end, at i and i + 1.
static bool window_read(struct render *r, struct value self, const struct call *c, int i,
                        struct window *out) {
    int64_t start = 0, end = INT64_MAX;
    if (!jinja_arg_int(r, c, i, &start) || !jinja_arg_int(r, c, i + 1, &end)) return false;
    *out = (struct window){0, self.s->len, false};
    if (start == 0 && end == INT64_MAX) return true;
    if (!jinja_work(r, self.s->len)) return false;
    const int64_t n = (int64_t)jinja_n_chars(self.s);
    start = place_clip(start, n);
    end = place_clip(end, n);
    out->is_empty = start > n || start > end;
    if (out->is_empty) return true;
    out->from = jinja_char_offset(self.s, (size_t)start);
    out->to = jinja_char_offset(self.s, (size_t)(end > n ? n : end));
    return true;
}

// The place in characters, or -1; -2 when the render has failed.
static int64_t find_place(struct render *r, struct value self, const struct call *c, bool is_last) {
    const struct str *needle = NULL;
    struct window w;
    if (!jinja_arg_str(r, c, 0, &needle) || !window_read(r, self, c, 1, &w)) return -2;
    if (!needle) {
        jinja_fail(r, "%s needs a string", c->name);
        return -2;
    }
    if (w.is_empty) return -1;
    const size_t at = is_last ? jinja_find_last(r, self.s, needle, w.from, w.to)
                              : jinja_find(r, self.s, needle, w.from, w.to);
    if (r->status != RN_OK) return -2;
    if (at == SIZE_MAX) return -1;
    if (!jinja_work(r, at)) return -2;
    struct str before = {self.s->data, at, SIZE_MAX, NULL};
    return (int64_t)jinja_n_chars(&before);
}

static struct value find_value(struct render *r, int64_t place, bool must_exist) {
    if (place == -2) return value_error();
    if (place == -1 && must_exist) return jinja_fail(r, "the substring is not found");
    return value_int(place);
}

static struct value str_find(struct render *r, struct value self, const struct call *c) {
    return find_value(r, find_place(r, self, c, false), false);
}
static struct value str_rfind(struct render *r, struct value self, const struct call *c) {
    return find_value(r, find_place(r, self, c, true), false);
}
static struct value str_index(struct render *r, struct value self, const struct call *c) {
    return find_value(r, find_place(r, self, c, false), true);
}
static struct value str_rindex(struct render *r, struct value self, const struct call *c) {
    return find_value(r, find_place(r, self, c, true), true);
}

static struct value str_count(struct render *r, struct value self, const struct call *c) {
    const struct str *needle = NULL;
    struct window w;
    if (!jinja_arg_str(r, c, 0, &needle) || !window_read(r, self, c, 1, &w)) return value_error();
    if (!needle) return jinja_fail(r, "count needs a string");
    if (w.is_empty) return value_int(0);
    if (needle->len == 0) {
        struct str part = {self.s->data + w.from, w.to - w.from, SIZE_MAX, NULL};
        return jinja_work(r, part.len) ? value_int((int64_t)jinja_n_chars(&part) + 1)
                                       : value_error();
    }
    int64_t count = 0;
    for (size_t at = w.from; (at = jinja_find(r, self.s, needle, at, w.to)) != SIZE_MAX;) {
        at += needle->len;
        count++;
    }
    return r->status == RN_OK ? value_int(count) : value_error();
}

static bool affix_fits(const struct str *s, const struct window *w, const struct str *affix,
                       bool is_end) {
    if (w->is_empty || w->to - w->from < affix->len) return false;
    const char *at = s->data + (is_end ? w->to - affix->len : w->from);
    return affix->len == 0 || memcmp(at, affix->data, affix->len) == 0;
}

// One string, or a tuple of several.
static struct value affix_test(struct render *r, struct value self, const struct call *c,
                               bool is_end) {
    struct window w;
    if (!window_read(r, self, c, 1, &w)) return value_error();
    const struct value *affixes = &c->arg[0];
    size_t n = 1;
    if (is_tuple(c->arg[0])) {
        affixes = c->arg[0].q->items;
        n = c->arg[0].q->n;
    }
    for (size_t i = 0; i < n; i++) {
        if (affixes[i].kind != V_STR) {
            return jinja_fail(r, "%s needs a string or a tuple of strings, not '%s'", c->name,
                              jinja_type_name(affixes[i]));
        }
        if (!jinja_charge(r, 1) || !jinja_work(r, affixes[i].s->len)) return value_error();
        if (affix_fits(self.s, &w, affixes[i].s, is_end)) return value_bool(true);
    }
    return value_bool(false);
}

static struct value str_startswith(struct render *r, struct value self, const struct call *c) {
    return affix_test(r, self, c, false);
}
static struct value str_endswith(struct render *r, struct value self, const struct call *c) {
    return affix_test(r, self, c, true);
}

static struct value affix_remove(struct render *r, struct value self, const struct call *c,
                                 bool is_end) {
    const struct str *affix = NULL;
    if (!jinja_arg_str(r, c, 0, &affix)) return value_error();
    if (!affix) return jinja_fail(r, "%s needs a string", c->name);
    const struct window w = {0, self.s->len, false};
    if (!affix_fits(self.s, &w, affix, is_end)) return self;
    const size_t from = is_end ? 0 : affix->len;
    return jinja_substr(r, self.s, from, self.s->len - (is_end ? affix->len : 0));
}

static struct value str_removeprefix(struct render *r, struct value self, const struct call *c) {
    return affix_remove(r, self, c, false);
}
static struct value str_removesuffix(struct render *r, struct value self, const struct call *c) {
    return affix_remove(r, self, c, true);
}

static struct value str_replace(struct render *r, struct value self, const struct call *c) {
    const struct str *from = NULL, *to = NULL;
    int64_t count = -1;
    if (!jinja_arg_str(r, c, 0, &from) || !jinja_arg_str(r, c, 1, &to) ||
        !jinja_arg_int(r, c, 2, &count)) {
        return value_error();
    }
    if (!from || !to) return jinja_fail(r, "replace needs two strings");
    return jinja_text_replace(r, self.s, from, to, count);
}

static struct value str_join(struct render *r, struct value self, const struct call *c) {
    const struct seq *q = jinja_iterate(r, c->arg[0]);
    if (!q) return value_error();
    for (size_t i = 0; i < q->n; i++) {
        if (q->items[i].kind != V_STR) {
            return jinja_fail(r, "join: item %zu is '%s' and no string", i,
                              jinja_type_name(q->items[i]));
        }
    }
    return jinja_text_join(r, self.s, value_seq((struct seq *)q), value_missing());
}

static struct value str_format(struct render *r, struct value self, const struct call *c) {
    return jinja_format(r, self.s, c->raw);
}

// --- padding ---

static struct value pad_method(struct render *r, struct value self, const struct call *c,
                               char align) {
    int64_t width = 0;
    const struct str *fill = NULL;
    if (!jinja_arg_int(r, c, 0, &width) || !jinja_arg_str(r, c, 1, &fill)) return value_error();
    uint32_t cp = ' ';
    if (fill) {
        struct str copy = *fill;
        size_t n;
        if (jinja_n_chars(&copy) != 1) return jinja_fail(r, "the fill must be one character");
        cp = (uint32_t)unicode_decode((const uint8_t *)fill->data, fill->len, &n);
    }
    return jinja_text_pad(r, self.s, width, cp, align);
}

static struct value str_center(struct render *r, struct value self, const struct call *c) {
    return pad_method(r, self, c, '^');
}
static struct value str_ljust(struct render *r, struct value self, const struct call *c) {
    return pad_method(r, self, c, '<');
}
static struct value str_rjust(struct render *r, struct value self, const struct call *c) {
    return pad_method(r, self, c, '>');
}

// Zeros go behind the sign.
static struct value str_zfill(struct render *r, struct value self, const struct call *c) {
    int64_t width = 0;
    if (!jinja_arg_int(r, c, 0, &width)) return value_error();
    const struct str *s = self.s;
    const size_t sign = s->len && (s->data[0] == '-' || s->data[0] == '+');
    const struct str digits = {s->data + sign, s->len - sign, SIZE_MAX, NULL};
    if (width < 0) width = 0;
    const struct value padded =
        jinja_text_pad(r, &digits, width - (int64_t)(sign && width > 0), '0', '>');
    if (is_error(padded) || !sign) return padded;
    const struct str head = {s->data, sign, sign, NULL};
    return jinja_concat(r, &head, padded.s->data, padded.s->len);
}

static const struct entry str_methods[] = {
    {"capitalize", str_capitalize, "", 0},
    {"casefold", str_casefold, "", 0},
    {"center", str_center, "width fillchar", 1},
    {"count", str_count, "sub start end", 1},
    {"encode", method_unsupported, "*", 0},
    {"endswith", str_endswith, "suffix start end", 1},
    {"expandtabs", method_unsupported, "*", 0},
    {"find", str_find, "sub start end", 1},
    {"format", str_format, "*", 0},
    {"format_map", method_unsupported, "*", 0},
    {"index", str_index, "sub start end", 1},
    {"isalnum", str_isalnum, "", 0},
    {"isalpha", str_isalpha, "", 0},
    {"isascii", str_isascii, "", 0},
    {"isdecimal", str_isdecimal, "", 0},
    {"isdigit", str_isdigit, "", 0},
    {"isidentifier", method_unsupported, "*", 0},
    {"islower", str_islower, "", 0},
    {"isnumeric", str_isnumeric, "", 0},
    {"isprintable", str_isprintable, "", 0},
    {"isspace", str_isspace, "", 0},
    {"istitle", str_istitle, "", 0},
    {"isupper", str_isupper, "", 0},
    {"join", str_join, "iterable", 1},
    {"ljust", str_ljust, "width fillchar", 1},
    {"lower", str_lower, "", 0},
    {"lstrip", str_lstrip, "chars", 0},
    {"maketrans", method_unsupported, "*", 0},
    {"partition", jinja_str_partition, "sep", 1},
    {"removeprefix", str_removeprefix, "prefix", 1},
    {"removesuffix", str_removesuffix, "suffix", 1},
    {"replace", str_replace, "old new count", 2},
    {"rfind", str_rfind, "sub start end", 1},
    {"rindex", str_rindex, "sub start end", 1},
    {"rjust", str_rjust, "width fillchar", 1},
    {"rpartition", jinja_str_rpartition, "sep", 1},
    {"rsplit", jinja_str_rsplit, "sep maxsplit", 0},
    {"rstrip", str_rstrip, "chars", 0},
    {"split", jinja_str_split, "sep maxsplit", 0},
    {"splitlines", jinja_str_splitlines, "keepends", 0},
    {"startswith", str_startswith, "prefix start end", 1},
    {"strip", str_strip, "chars", 0},
    {"swapcase", str_swapcase, "", 0},
    {"title", str_title, "", 0},
    {"translate", method_unsupported, "*", 0},
    {"upper", str_upper, "", 0},
    {"zfill", str_zfill, "width", 1},
};
const struct table jinja_str_methods = {str_methods, sizeof str_methods / sizeof str_methods[0]};

// One formatted item: padding, signs, bases, grouping, precision.
#include "jinja/spec.h"

#include <math.h>
#include <string.h>

#include "jinja/number.h"
#include "jinja/render.h"
#include "unicode/unicode.h"

static bool fill_write(struct render *r, uint32_t cp, int64_t n) {
    char block[64 * 4];
    uint8_t bytes[4];
    const size_t len = unicode_encode(cp, bytes);
    for (size_t i = 0; i < 64; i++) memcpy(block + i * len, bytes, len);
    if (n > 0 && !jinja_write_fits(r, (uint64_t)n)) return false;
    for (; n > 0; n -= 64) {
        if (!jinja_write(r, block, (n < 64 ? (size_t)n : 64) * len)) return false;
    }
    return true;
}

// prefix (a sign, "0x") and body, padded; '=' pads between the two.
static bool padded_write(struct render *r, const struct spec *spec, char own_align,
                         const char *prefix, const char *body, size_t len, size_t n_chars) {
    const int64_t room = spec->width - (int64_t)(strlen(prefix) + n_chars);
    const int64_t pad = room > 0 ? room : 0;
    const char align = spec->align ? spec->align : own_align;
    const int64_t left = align == '>' ? pad : align == '^' ? pad / 2 : 0;
    const int64_t middle = align == '=' ? pad : 0;
    return fill_write(r, spec->fill, left) && jinja_write_text(r, prefix) &&
           fill_write(r, spec->fill, middle) && jinja_write(r, body, len) &&
           fill_write(r, spec->fill, pad - left - middle);
}

bool jinja_spec_str(struct render *r, const struct spec *spec, const struct str *s) {
    struct str copy = *s; // counting must not write into a constant
    size_t n = jinja_n_chars(&copy), len = s->len;
    if (!jinja_work(r, s->len)) return false;
    if (spec->precision >= 0 && (size_t)spec->precision < n) {
        n = (size_t)spec->precision;
        len = jinja_char_offset(&copy, n);
    }
    return padded_write(r, spec, '<', "", s->data, len, n);
}

static void sign_add(char *prefix, bool is_negative, char sign) {
    if (is_negative || sign == '+' || sign == ' ') {
        const char text[2] = {is_negative ? '-' : sign, 0};
        strcat(prefix, text);
    }
}

// Digits of the base, most significant first; returns how many.
static size_t digits_write(uint64_t value, unsigned base, bool is_upper, char out[64]) {
    const char *symbols = is_upper ? "0123456789ABCDEF" : "0123456789abcdef";
    char reversed[64];
    size_t n = 0;
    do {
        reversed[n++] = symbols[value % base];
        value /= base;
    } while (value);
    for (size_t i = 0; i < n; i++) out[i] = reversed[n - 1 - i];
    return n;
}

// Separators between groups of the first n_whole characters, which are digits; in place.
static size_t group_digits(char *text, size_t len, size_t n_whole, char separator, size_t size) {
    const size_t n = n_whole ? (n_whole - 1) / size : 0;
    memmove(text + n_whole + n, text + n_whole, len - n_whole);
    size_t from = n_whole, to = n_whole + n;
    for (size_t i = 0; from > 0; i++) {
        if (i && i % size == 0) text[--to] = separator;
        text[--to] = text[--from];
    }
    return len + n;
}

static unsigned base_of(char type) {
    switch (type) {
    case 'x':
    case 'X':
        return 16;
    case 'o':
        return 8;
    case 'b':
        return 2;
    default:
        return 10;
    }
}

bool jinja_spec_int(struct render *r, const struct spec *spec, int64_t i) {
    const unsigned base = base_of(spec->type);
    char prefix[8] = "", body[NUMBER_MAX_PRECISION + 128];
    const uint64_t magnitude = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    sign_add(prefix, i < 0, spec->sign);
    if (spec->is_alt && base != 10) {
        const char mark[3] = {'0', spec->type, 0};
        strcat(prefix, mark);
    }
    char digits[64];
    const size_t n = digits_write(magnitude, base, spec->type == 'X', digits);
    size_t zeros = 0;
    if (spec->precision >= 0 && (size_t)spec->precision > n) zeros = (size_t)spec->precision - n;
    memset(body, '0', zeros);
    memcpy(body + zeros, digits, n);
    size_t len = zeros + n;
    if (spec->group) len = group_digits(body, len, len, spec->group, base == 10 ? 3 : 4);
    return padded_write(r, spec, '>', prefix, body, len, len);
}

static bool print_infinite(struct render *r, const struct spec *spec, const char *prefix,
                           double f) {
    const bool is_upper = spec->type >= 'A' && spec->type <= 'Z';
    const char *text = isnan(f) ? (is_upper ? "NAN" : "nan") : (is_upper ? "INF" : "inf");
    return padded_write(r, spec, '>', prefix, text, 3, 3);
}

bool jinja_spec_float(struct render *r, const struct spec *spec, double f) {
    char prefix[8] = "", body[NUMBER_FORMAT_ROOM * 2];
    const bool is_percent = spec->type == '%';
    sign_add(prefix, signbit(f) && !isnan(f), spec->sign);
    if (is_percent) f *= 100;
    if (!jinja_charge(r, 8)) return false; // conversions of hundreds of digits
    if (!isfinite(f)) return print_infinite(r, spec, prefix, f);
    size_t len;
    if (!spec->type && spec->precision < 0) {
        len = number_float_repr(fabs(f), body);
    } else {
        const char type = is_percent ? 'f' : spec->type ? spec->type : 'g';
        int precision = spec->precision < 0 ? 6 : spec->precision;
        if ((type | 0x20) == 'g' && precision == 0) precision = 1;
        len = number_format(fabs(f), type == 'n' ? 'g' : type, precision, spec->is_alt, body);
    }
    if (spec->group) {
        size_t n_whole = 0;
        while (n_whole < len && body[n_whole] >= '0' && body[n_whole] <= '9') n_whole++;
        len = group_digits(body, len, n_whole, spec->group, 3);
    }
    if (is_percent) body[len++] = '%';
    return padded_write(r, spec, '>', prefix, body, len, len);
}

static bool is_align(int32_t c) { return c == '<' || c == '>' || c == '^' || c == '='; }

static bool number_take(struct render *r, const char *text, size_t len, size_t *at, int64_t *out) {
    const size_t from = *at;
    while (*at < len && text[*at] >= '0' && text[*at] <= '9') ++*at;
    if (number_parse_int(text + from, *at - from, 10, out) == NUMBER_OK) return true;
    jinja_fail(r, "the format's number is missing or too large");
    return false;
}

// The part before the width.
static size_t flags_take(const char *text, size_t len, struct spec *out) {
    size_t at = 0, n = 0;
    const int32_t first = len ? unicode_decode((const uint8_t *)text, len, &n) : 0;
    if (n < len && is_align(text[n])) {
        out->fill = (uint32_t)first;
        out->align = text[n];
        at = n + 1;
    } else if (len && is_align(text[0])) {
        out->align = text[at++];
    }
    if (at < len && (text[at] == '+' || text[at] == '-' || text[at] == ' ')) out->sign = text[at++];
    if (at < len && text[at] == '#') {
        out->is_alt = true;
        at++;
    }
    if (at < len && text[at] == '0') {
        out->is_zero = true;
        if (!out->align) {
            out->fill = '0';
            out->align = '=';
        }
        at++;
    }
    return at;
}

bool jinja_spec_parse(struct render *r, const char *text, size_t len, struct spec *out) {
    *out = (struct spec){.fill = ' ', .sign = '-', .precision = -1};
    size_t at = flags_take(text, len, out);
    const bool has_width = at < len && text[at] >= '0' && text[at] <= '9';
    if (has_width && !number_take(r, text, len, &at, &out->width)) return false;
    if (at < len && (text[at] == ',' || text[at] == '_')) out->group = text[at++];
    if (at < len && text[at] == '.') {
        int64_t precision;
        at++;
        if (!number_take(r, text, len, &at, &precision)) return false;
        out->precision = precision > INT32_MAX ? INT32_MAX : (int)precision;
    }
    if (at < len) out->type = text[at++];
    if (at == len) return true;
    jinja_fail(r, "the format '%.*s' cannot be read", len > 40 ? 40 : (int)len, text);
    return false;
}

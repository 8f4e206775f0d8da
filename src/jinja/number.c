// Numbers as Python reads and prints them. printf and strtod do the exact work; the decimal point,
// which the locale could change, never goes through them unseen.
#include "jinja/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jread.h"
#include "jinja/chars.h"

static void blanks_trim(const char **text, size_t *len) {
    const size_t n = chars_blank_prefix(*text, *len);
    *text += n;
    *len -= n;
    *len -= chars_blank_suffix(*text, *len);
}

// Takes "0x" and the like when the base allows it; leaves the base to use.
static void prefix_take(const char **text, size_t *len, int *base) {
    int prefixed = 0;
    if (*len > 2 && (*text)[0] == '0') {
        const char c = (char)((*text)[1] | 0x20);
        prefixed = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
    }
    if (prefixed && (*base == 0 || *base == prefixed)) {
        *base = prefixed;
        *text += 2;
        *len -= 2;
        if (*len > 1 && **text == '_') {
            ++*text;
            --*len;
        }
    }
    if (*base == 0) *base = 10;
}

enum number_result number_parse_int(const char *text, size_t len, int base, int64_t *out) {
    blanks_trim(&text, &len);
    const bool is_negative = len && text[0] == '-';
    if (len && (text[0] == '-' || text[0] == '+')) {
        text++;
        len--;
    }
    prefix_take(&text, &len, &base);
    bool is_big = false, after_digit = false;
    int64_t value = 0; // negative, as that side has one more
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '_' && after_digit) {
            after_digit = false;
            continue;
        }
        const int digit = chars_digit(text[i]);
        if (digit >= base) return NUMBER_BAD;
        after_digit = true;
        is_big = is_big || __builtin_mul_overflow(value, base, &value) ||
                 __builtin_sub_overflow(value, digit, &value);
    }
    if (!after_digit) return NUMBER_BAD;
    if (is_big || (!is_negative && value == INT64_MIN)) return NUMBER_BIG;
    *out = is_negative ? value : -value;
    return NUMBER_OK;
}

static bool word_is(const char *text, size_t len, const char *word) {
    if (len != strlen(word)) return false;
    for (size_t i = 0; i < len; i++) {
        if ((text[i] | 0x20) != word[i]) return false;
    }
    return true;
}

enum { FLOAT_TEXT = 400 };

// Digits with single underscores between them, copied without those; false when there is none or an
// underscore stands wrong.
static size_t digits_copy(const char *text, size_t len, char *out, size_t *n_out) {
    size_t i = 0;
    for (; i < len; i++) {
        const bool is_digit = text[i] >= '0' && text[i] <= '9';
        const bool is_link = text[i] == '_' && i && i + 1 < len && text[i - 1] != '_' &&
                             text[i + 1] >= '0' && text[i + 1] <= '9';
        if (!is_digit && !is_link) break;
        if (is_digit) out[(*n_out)++] = text[i];
    }
    return i;
}

// Rewrites Python's number as JSON's into out (FLOAT_TEXT + 8 bytes); 0 when it is none.
static size_t json_from_python(const char *text, size_t len, char *out) {
    size_t i = 0, n = 0, whole = 0, fraction = 0, start;
    out[n++] = '0'; // "0" before the digits would be no JSON: dropped below when digits follow
    i = digits_copy(text, len, out + n, &whole);
    n += whole;
    for (start = 0; start + 1 < n && out[start] == '0';) start++;
    memmove(out, out + start, n - start);
    n -= start;
    if (i < len && text[i] == '.') {
        out[n] = '.';
        i += 1 + digits_copy(text + i + 1, len - i - 1, out + n + 1, &fraction);
        if (fraction) n += fraction + 1;
    }
    if (!whole && !fraction) return 0;
    if (i < len && (text[i] | 0x20) == 'e') {
        size_t exponent = 0;
        out[n++] = 'e';
        i++;
        if (i < len && (text[i] == '-' || text[i] == '+')) out[n++] = text[i++];
        i += digits_copy(text + i, len - i, out + n, &exponent);
        if (!exponent) return 0;
        n += exponent;
    }
    return i == len ? n : 0;
}

bool number_parse_float(const char *text, size_t len, double *out) {
    blanks_trim(&text, &len);
    const bool is_negative = len && text[0] == '-';
    if (len && (text[0] == '-' || text[0] == '+')) {
        text++;
        len--;
    }
    double value;
    if (word_is(text, len, "inf") || word_is(text, len, "infinity")) {
        value = HUGE_VAL;
    } else if (word_is(text, len, "nan")) {
        value = (double)NAN;
    } else {
        char json[FLOAT_TEXT + 8];
        const size_t n = len && len <= FLOAT_TEXT ? json_from_python(text, len, json) : 0;
        if (!n) return false;
        struct jread reader;
        jread_init(&reader, json, n);
        if (!jread_f64(&reader, &value)) value = HUGE_VAL; // well-formed, so out of range
    }
    *out = is_negative ? -value : value;
    return true;
}

// The digits and the decimal exponent (of the first digit) of f > 0 rounded to n digits.
struct decimal {
    char digits[20];
    int n, exponent;
};

static double decimal_value(const struct decimal *d) {
    char text[NUMBER_ROOM];
    snprintf(text, sizeof text, "%.*se%d", d->n, d->digits, d->exponent - d->n + 1);
    return strtod(text, NULL);
}

static void decimal_round(double f, int n, struct decimal *d) {
    char text[NUMBER_ROOM];
    snprintf(text, sizeof text, "%.*e", n - 1, f);
    const char *exponent = strchr(text, 'e');
    d->n = 0;
    for (const char *at = text; at < exponent; at++) {
        if (*at >= '0' && *at <= '9') d->digits[d->n++] = *at;
    }
    d->exponent = atoi(exponent + 1);
}

// The next larger decimal of the same length.
static void decimal_bump(struct decimal *d) {
    int i = d->n - 1;
    for (; i >= 0 && d->digits[i] == '9'; i--) d->digits[i] = '0';
    if (i >= 0) {
        d->digits[i]++;
    } else {
        d->digits[0] = '1';
        d->exponent++;
    }
}

// The shortest decimal that reads back as f > 0. At powers of two the gap below is half of that
// above, and the decimal that reads back may be the one above the nearest.
//
// A normal number that reads back from 15 digits has no shorter decimal but these without their
// zeros, since decimals of up to 15 digits survive the way to double and back.
static void decimal_shortest(double f, struct decimal *d) {
    const int first = f < 0x1p-1022 ? 1 : 15;
    for (int n = first; n <= 17; n++) {
        decimal_round(f, n, d);
        if (decimal_value(d) == f) return;
        decimal_bump(d);
        if (decimal_value(d) == f) return;
    }
    decimal_round(f, 17, d);
}

size_t number_float_repr(double f, char out[NUMBER_ROOM]) {
    char *at = out;
    if (signbit(f) && !isnan(f)) {
        *at++ = '-';
        f = -f;
    }
    if (isnan(f) || isinf(f)) {
        memcpy(at, isnan(f) ? "nan" : "inf", 3);
        return (size_t)(at + 3 - out);
    }
    struct decimal d = {.digits = "0", .n = 1, .exponent = 0};
    if (f > 0) decimal_shortest(f, &d);
    while (d.n > 1 && d.digits[d.n - 1] == '0') d.n--;
    const int point = d.exponent + 1; // digits before the point
    if (point > 16 || point < -3) {
        *at++ = d.digits[0];
        if (d.n > 1) {
            *at++ = '.';
            memcpy(at, d.digits + 1, (size_t)d.n - 1);
            at += d.n - 1;
        }
        return (size_t)(at - out) +
               (size_t)sprintf(at, "e%c%02d", d.exponent < 0 ? '-' : '+', abs(d.exponent));
    }
    if (point <= 0) {
        at += sprintf(at, "0.%.*s", -point, "000");
        memcpy(at, d.digits, (size_t)d.n);
        return (size_t)(at + d.n - out);
    }
    for (int i = 0; i < point; i++) *at++ = i < d.n ? d.digits[i] : '0';
    *at++ = '.';
    if (d.n <= point) *at++ = '0';
    for (int i = point; i < d.n; i++) *at++ = d.digits[i];
    return (size_t)(at - out);
}

static int float_print(double f, char conversion, int precision, bool is_alt, char *out) {
    const size_t room = NUMBER_FORMAT_ROOM;
    switch (conversion) {
    case 'e':
        return is_alt ? snprintf(out, room, "%#.*e", precision, f)
                      : snprintf(out, room, "%.*e", precision, f);
    case 'f':
        return is_alt ? snprintf(out, room, "%#.*f", precision, f)
                      : snprintf(out, room, "%.*f", precision, f);
    default:
        return is_alt ? snprintf(out, room, "%#.*g", precision, f)
                      : snprintf(out, room, "%.*g", precision, f);
    }
}

size_t number_format(double f, char conversion, int precision, bool is_alt,
                     char out[NUMBER_FORMAT_ROOM]) {
    const int n = float_print(f, (char)(conversion | 0x20), precision, is_alt, out);
    // The locale's point, whatever it is, becomes '.'.
    size_t to = 0;
    bool has_point = false;
    for (int i = 0; i < n; i++) {
        const char c = out[i];
        const bool is_plain = (c >= '0' && c <= '9') || c == '-' || c == '+' || (c | 0x20) == 'e';
        if (is_plain) {
            out[to++] = c == 'e' && conversion < 'a' ? 'E' : c;
        } else if (!has_point) {
            out[to++] = '.';
            has_point = true;
        }
    }
    return to;
}

double number_round(double f, int precision) {
    if (!isfinite(f) || precision > 300) return f;
    if (precision < -300) return 0 * f;
    char text[NUMBER_FORMAT_ROOM + 8];
    if (precision >= 0) {
        double value = f;
        snprintf(text, sizeof text, "%.*f", precision, f);
        // Digits without the point, and the exponent that stands for it.
        size_t to = 0;
        for (size_t i = 0; text[i]; i++) {
            if ((text[i] >= '0' && text[i] <= '9') || text[i] == '-') text[to++] = text[i];
        }
        snprintf(text + to, sizeof text - to, "e-%d", precision);
        value = strtod(text, NULL);
        return value;
    }
    const double unit = pow(10, -precision);
    const double rounded = nearbyint(f / unit);
    return rounded * unit;
}

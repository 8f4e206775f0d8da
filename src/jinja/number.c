// Numbers as Python reads and prints them. printf and strtod do the exact work; the decimal point,
// which the locale could change, never goes through them unseen.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jinja/text.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

enum number_result number_parse_int(const char *text, size_t len, int64_t *out) {
    size_t i = chars_blank_prefix(text, len);
    len -= chars_blank_suffix(text + i, len - i);
    const bool is_negative = i < len && text[i] == '-';
    i += i < len && (text[i] == '-' || text[i] == '+');
    if (i == len) return NUMBER_BAD;
    bool is_big = false;
    int64_t value = 0; // negative, as that side has one more
    for (; i < len; i++) {
        if (!is_digit(text[i])) return NUMBER_BAD;
        is_big = is_big || __builtin_mul_overflow(value, 10, &value) ||
                 __builtin_sub_overflow(value, text[i] - '0', &value);
    }
    if (is_big || (!is_negative && value == INT64_MIN)) return NUMBER_BIG;
    *out = is_negative ? value : -value;
    return NUMBER_OK;
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
        if (is_digit(*at)) d->digits[d->n++] = *at;
    }
    d->exponent = atoi(exponent + 1);
}

// The next larger decimal of the same length, for powers of two: none is so close to a power of ten
// that its digits are all nines.
static void decimal_bump(struct decimal *d) {
    int i = d->n - 1;
    for (; i > 0 && d->digits[i] == '9'; i--) d->digits[i] = '0';
    d->digits[i]++;
}

// The shortest decimal that reads back as f > 0. At powers of two the gap below is half of the gap
// above, and the decimal that reads back may be the next above the nearest. If a normal number
// reads back from 15 digits, its shortest decimal is these digits without their zeros.
static void decimal_shortest(double f, struct decimal *d) {
    const int first = f < 0x1p-1022 ? 1 : 15;
    for (int n = first; n <= 17; n++) {
        decimal_round(f, n, d);
        if (decimal_value(d) == f) return;
        decimal_bump(d);
        if (decimal_value(d) == f) return;
    }
}

size_t number_float_repr(double f, char out[NUMBER_ROOM]) {
    char *at = out;
    if (signbit(f)) {
        *at++ = '-';
        f = -f;
    }
    if (isinf(f)) return (size_t)(stpcpy(at, "inf") - out);
    struct decimal d = {.digits = "0", .n = 1, .exponent = 0};
    if (f > 0) decimal_shortest(f, &d);
    while (d.n > 1 && d.digits[d.n - 1] == '0') d.n--;
    const int point = d.exponent + 1; // digits before the point
    if (point > 16 || point < -3) {
        at += sprintf(at, "%c%s%.*s", d.digits[0], d.n > 1 ? "." : "", d.n - 1, d.digits + 1);
        at += sprintf(at, "e%c%02d", d.exponent < 0 ? '-' : '+', abs(d.exponent));
    } else if (point <= 0) {
        at += sprintf(at, "0.%.*s%.*s", -point, "000", d.n, d.digits);
    } else {
        for (int i = 0; i < point; i++) *at++ = i < d.n ? d.digits[i] : '0';
        at += d.n > point ? sprintf(at, ".%.*s", d.n - point, d.digits + point) : sprintf(at, ".0");
    }
    return (size_t)(at - out);
}

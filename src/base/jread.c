// A pull reader of JSON text. Owns nothing: the state is the place in the text and two bits for
// each open container. Invariants: begin <= at <= end; the container at nesting d (1 is the
// outermost) has bit d - 1 of the masks; bits above the depth are zero; after an error nothing
// moves. Called by the readers of configurations, vocabularies and tensor headers.
#include "base/jread.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

void jread_init(struct jread *r, const char *text, size_t len) {
    *r = (struct jread){.begin = text, .at = text, .end = text + len};
}

// The state is left as it is, so that a caller's loop over a container ends by next returning
// false.
static bool fail_at(struct jread *r, const char *at, const char *literal) {
    if (r->error) return false;
    r->error = literal;
    r->error_at = (size_t)(at - r->begin);
    return false;
}

bool jread_fail(struct jread *r, const char *literal) { return fail_at(r, r->at, literal); }

rn_status jread_status(const struct jread *r, const char *name, rn_error *err) {
    if (!r->error) return RN_OK;
    return err_set(err, RN_ERR_MODEL, "%s: offset %zu: %s", name, r->error_at, r->error);
}

static void skip_blanks(struct jread *r) {
    const char *at = r->at;
    while (at < r->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    r->at = at;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_constant(const struct jread *r) {
    return r->has_constants && (*r->at == 'I' || *r->at == 'N');
}

enum jread_kind jread_peek(struct jread *r) {
    if (r->error) return JREAD_ERROR;
    skip_blanks(r);
    switch (r->at < r->end ? *r->at : 0) {
    case '{':
        return JREAD_OBJECT;
    case '[':
        return JREAD_ARRAY;
    case '"':
        return JREAD_STRING;
    case 't':
    case 'f':
        return JREAD_BOOL;
    case 'n':
        return JREAD_NULL;
    case '-':
        return JREAD_NUMBER;
    default:
        if (r->at < r->end && (is_digit(*r->at) || is_constant(r))) return JREAD_NUMBER;
        jread_fail(r,
                   r->at < r->end ? "expected a value" : "the text ends where a value should be");
        return JREAD_ERROR;
    }
}

// Whether the value that comes next is of this kind; sets the error where it is not.
static bool expect(struct jread *r, enum jread_kind kind, const char *literal) {
    const enum jread_kind found = jread_peek(r);
    if (found == kind) return true;
    return found == JREAD_ERROR ? false : jread_fail(r, literal);
}

// --- strings ---

enum { PLAIN, QUOTE, ESCAPE, CONTROL, HIGH };

static const uint8_t string_class[256] = {
    [0 ... 0x1f] = CONTROL, ['"'] = QUOTE, ['\\'] = ESCAPE, [0x80 ... 0xff] = HIGH};

static int hex_value(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

// The value of "uXXXX" at `at`, or -1.
static int32_t hex_unit(const char *at, const char *end) {
    if (end - at < 5 || *at != 'u') return -1;
    int32_t unit = 0;
    for (int i = 1; i <= 4; i++) {
        const int digit = hex_value(at[i]);
        if (digit < 0) return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

static bool is_lead(int32_t unit) { return unit >= 0xd800 && unit <= 0xdbff; }
static bool is_trail(int32_t unit) { return unit >= 0xdc00 && unit <= 0xdfff; }

// Length of the escape at `at`, which is a backslash: 2, 6 or 12. 0, with the error set, where it
// is none.
static size_t escape_length(struct jread *r, const char *at) {
    const char *const letter = at + 1;
    if (letter < r->end && *letter != 'u') {
        if (*letter && strchr("\"\\/bfnrt", *letter)) return 2;
        fail_at(r, at, "unknown escape in a string");
        return 0;
    }
    const int32_t unit = hex_unit(letter, r->end);
    if (unit < 0) {
        fail_at(r, at, "a \\u escape needs four hexadecimal digits");
        return 0;
    }
    if (!is_lead(unit) && !is_trail(unit)) return 6;
    if (is_lead(unit) && r->end - at > 6 && at[6] == '\\' && is_trail(hex_unit(at + 7, r->end)))
        return 12;
    fail_at(r, at, "half of a surrogate pair");
    return 0;
}

// r->at is the opening quote; on success it is moved behind the closing one.
static bool string_scan(struct jread *r, struct jread_text *out) {
    const char *const first = r->at + 1;
    const char *at = first;
    const char *const end = r->end;
    bool has_escape = false;
    for (;;) {
        while (at < end && string_class[(unsigned char)*at] == PLAIN) at++;
        if (at == end) return fail_at(r, r->at, "a string without its closing quote");
        size_t n = 0;
        switch (string_class[(unsigned char)*at]) {
        case QUOTE:
            *out = (struct jread_text){first, (size_t)(at - first), has_escape};
            r->at = at + 1;
            return true;
        case ESCAPE:
            n = escape_length(r, at);
            if (!n) return false;
            has_escape = true;
            break;
        case HIGH:
            n = utf8_length((const uint8_t *)at, (size_t)(end - at));
            if (!n) return fail_at(r, at, "a string that is not UTF-8");
            break;
        default:
            return fail_at(r, at, "a control character in a string");
        }
        at += n;
    }
}

bool jread_string(struct jread *r, struct jread_text *out) {
    return expect(r, JREAD_STRING, "expected a string") && string_scan(r, out);
}

// Resolves the escape at *at, which was checked, and moves *at behind it.
static size_t escape_resolve(const char **at, const char *end, char out[4]) {
    const char letter = (*at)[1];
    if (letter != 'u') {
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        const char *const found = strchr(from, letter);
        assert(found);
        out[0] = to[found - from];
        *at += 2;
        return 1;
    }
    int32_t cp = hex_unit(*at + 1, end);
    *at += 6;
    if (is_lead(cp)) {
        cp = 0x10000 + ((cp - 0xd800) << 10) + (hex_unit(*at + 1, end) - 0xdc00);
        *at += 6;
    }
    return utf8_encode((uint32_t)cp, (uint8_t *)out);
}

size_t jread_unescape(const struct jread_text *text, char *out) {
    const char *at = text->data, *const end = text->data + text->len;
    char *to = out;
    while (at < end) {
        const char *const stop = text->has_escape ? memchr(at, '\\', (size_t)(end - at)) : NULL;
        const size_t n = (size_t)((stop ? stop : end) - at);
        memcpy(to, at, n);
        to += n;
        at += n;
        if (!stop) break;
        char resolved[4];
        const size_t n_resolved = escape_resolve(&at, end, resolved);
        memcpy(to, resolved, n_resolved);
        to += n_resolved;
    }
    return (size_t)(to - out);
}

bool jread_equals(const struct jread_text *text, const char *literal) {
    const size_t len = strlen(literal);
    if (!text->has_escape) return text->len == len && memcmp(text->data, literal, len) == 0;
    const char *at = text->data, *const end = text->data + text->len;
    const char *want = literal, *const want_end = literal + len;
    while (at < end) {
        char resolved[4] = {*at};
        size_t n = 1;
        if (*at == '\\') {
            n = escape_resolve(&at, end, resolved);
        } else {
            at++;
        }
        if ((size_t)(want_end - want) < n || memcmp(want, resolved, n) != 0) return false;
        want += n;
    }
    return want == want_end;
}

// --- numbers ---

// The parts of a number in the text; the fraction is empty where there is none.
struct number {
    const char *whole, *whole_end;
    const char *fraction, *fraction_end;
    const char *exponent; // behind the 'e', NULL where there is none
    bool negative;
};

static const char *digits_end(const char *at, const char *end) {
    while (at < end && is_digit(*at)) at++;
    return at;
}

// On success r->at is behind the number.
static bool number_scan(struct jread *r, struct number *out) {
    const char *const end = r->end;
    const char *at = r->at;
    *out = (struct number){.negative = *at == '-'};
    if (*at == '-') at++;
    out->whole = at;
    at = digits_end(at, end);
    out->whole_end = out->fraction = out->fraction_end = at;
    if (at == out->whole) return fail_at(r, r->at, "a number without digits");
    if (at - out->whole > 1 && *out->whole == '0')
        return fail_at(r, r->at, "a number that begins with 0");
    if (at < end && *at == '.') {
        out->fraction = ++at;
        at = out->fraction_end = digits_end(at, end);
        if (at == out->fraction) return fail_at(r, at, "expected a digit behind the point");
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        out->exponent = ++at;
        if (at < end && (*at == '+' || *at == '-')) at++;
        const char *const first = at;
        at = digits_end(at, end);
        if (at == first) return fail_at(r, at, "expected a digit in the exponent");
    }
    r->at = at;
    return true;
}

bool jread_i64(struct jread *r, int64_t *out) {
    struct number n;
    if (!expect(r, JREAD_NUMBER, "expected an integer")) return false;
    const char *const first = r->at;
    if (!number_scan(r, &n)) return false;
    if (n.exponent || n.fraction != n.whole_end) return fail_at(r, first, "expected an integer");
    int64_t value = 0;
    for (const char *at = n.whole; at < n.whole_end; at++) {
        const int digit = *at - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, n.negative ? -digit : digit, &value))
            return fail_at(r, first, "an integer out of range");
    }
    *out = value;
    return true;
}

// Further digits decide nothing but ties, for which a single nonzero digit is enough.
enum { DIGITS_KEPT = 800, EXPONENT_LIMIT = 100000000 };

struct digits {
    char text[DIGITS_KEPT + 32];
    size_t n;
    int64_t exponent; // of ten, of the last digit
    bool is_cut;      // something other than zeros was dropped
};

static void digits_add(struct digits *d, const char *at, const char *end, bool is_fraction) {
    for (; at < end; at++) {
        if (is_fraction) d->exponent--;
        if (d->n == 0 && *at == '0') continue;
        if (d->n < DIGITS_KEPT) {
            d->text[d->n++] = *at;
        } else {
            d->exponent++;
            d->is_cut |= *at != '0';
        }
    }
}

static int64_t exponent_value(const char *at, const char *end) {
    const bool negative = *at == '-';
    if (*at == '-' || *at == '+') at++;
    int64_t value = 0;
    for (; at < end; at++)
        if (value < EXPONENT_LIMIT) value = value * 10 + (*at - '0');
    return negative ? -value : value;
}

static double digits_value(struct digits *d) {
    if (d->n == 0) return 0;
    if (d->is_cut) {
        d->text[d->n++] = '1';
        d->exponent--;
    }
    // Without a decimal point strtod reads the same in every locale.
    int64_t exponent = d->exponent;
    if (exponent > EXPONENT_LIMIT) exponent = EXPONENT_LIMIT;
    if (exponent < -EXPONENT_LIMIT) exponent = -EXPONENT_LIMIT;
    char *at = d->text + d->n;
    *at++ = 'e';
    *at++ = exponent < 0 ? '-' : '+';
    const int64_t magnitude = exponent < 0 ? -exponent : exponent;
    for (int64_t unit = EXPONENT_LIMIT; unit > 0; unit /= 10)
        *at++ = (char)('0' + magnitude / unit % 10);
    *at = 0;
    return strtod(d->text, NULL);
}

bool jread_f64(struct jread *r, double *out) {
    struct number n;
    if (!expect(r, JREAD_NUMBER, "expected a number")) return false;
    const char *const first = r->at;
    if (!number_scan(r, &n)) return false;
    struct digits d;
    d.n = 0;
    d.is_cut = false;
    d.exponent = n.exponent ? exponent_value(n.exponent, r->at) : 0;
    digits_add(&d, n.whole, n.whole_end, false);
    digits_add(&d, n.fraction, n.fraction_end, true);
    const double value = digits_value(&d);
    if (!isfinite(value)) return fail_at(r, first, "a number out of range");
    *out = n.negative ? -value : value;
    return true;
}

// --- literals ---

static bool literal_scan(struct jread *r, const char *literal) {
    const size_t len = strlen(literal);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, literal, len) != 0)
        return jread_fail(r, "expected a value");
    r->at += len;
    return true;
}

bool jread_null(struct jread *r) {
    return expect(r, JREAD_NULL, "expected null") && literal_scan(r, "null");
}

bool jread_bool(struct jread *r, bool *out) {
    if (!expect(r, JREAD_BOOL, "expected true or false")) return false;
    const bool value = *r->at == 't';
    if (!literal_scan(r, value ? "true" : "false")) return false;
    *out = value;
    return true;
}

// --- containers ---

static bool enter(struct jread *r, bool is_object) {
    if (r->depth == JREAD_MAX_DEPTH) return jread_fail(r, "nested too deeply");
    const uint64_t bit = UINT64_C(1) << r->depth++;
    if (is_object) r->is_object |= bit;
    r->at++;
    return true;
}

bool jread_enter_object(struct jread *r) {
    return expect(r, JREAD_OBJECT, "expected an object") && enter(r, true);
}

bool jread_enter_array(struct jread *r) {
    return expect(r, JREAD_ARRAY, "expected an array") && enter(r, false);
}

// Moves to the next member, or behind the closing bracket, which returns false.
static bool next_member(struct jread *r, char closing, const char *literal) {
    if (r->error) return false;
    assert(r->depth > 0);
    const uint64_t bit = UINT64_C(1) << (r->depth - 1);
    assert(!!(r->is_object & bit) == (closing == '}'));
    skip_blanks(r);
    const char found = r->at < r->end ? *r->at : 0;
    if (found == closing) {
        r->at++;
        r->depth--;
        r->is_object &= ~bit;
        r->has_member &= ~bit;
        return false;
    }
    if (!(r->has_member & bit)) {
        r->has_member |= bit;
        return true;
    }
    if (found != ',') return jread_fail(r, literal);
    r->at++;
    skip_blanks(r);
    return true;
}

bool jread_next_key(struct jread *r, struct jread_text *key) {
    if (!next_member(r, '}', "expected ',' or '}'")) return false;
    if (r->at == r->end || *r->at != '"') return jread_fail(r, "expected a key");
    if (!string_scan(r, key)) return false;
    skip_blanks(r);
    if (r->at == r->end || *r->at != ':') return jread_fail(r, "expected ':'");
    r->at++;
    return true;
}

bool jread_next_item(struct jread *r) { return next_member(r, ']', "expected ',' or ']'"); }

static bool skip_constant(struct jread *r) {
    static const char *const names[] = {"Infinity", "-Infinity", "NaN"};
    for (int i = 0; r->has_constants && i < 3; i++) {
        const size_t len = strlen(names[i]);
        if ((size_t)(r->end - r->at) < len || memcmp(r->at, names[i], len) != 0) continue;
        r->at += len;
        return true;
    }
    return false;
}

static bool skip_scalar(struct jread *r, enum jread_kind kind) {
    struct jread_text text;
    struct number number;
    bool value;
    switch (kind) {
    case JREAD_STRING:
        return string_scan(r, &text);
    case JREAD_NUMBER:
        return skip_constant(r) || number_scan(r, &number);
    case JREAD_BOOL:
        return jread_bool(r, &value);
    default:
        return jread_null(r);
    }
}

bool jread_skip(struct jread *r) {
    const int base = r->depth;
    struct jread_text key;
    for (;;) {
        const enum jread_kind kind = jread_peek(r);
        if (kind == JREAD_ERROR) return false;
        if (kind == JREAD_OBJECT || kind == JREAD_ARRAY) {
            if (!enter(r, kind == JREAD_OBJECT)) return false;
        } else if (!skip_scalar(r, kind)) {
            return false;
        }
        // Up through the containers that end here, to the next member inside the value.
        for (;;) {
            if (r->depth == base) return true;
            const bool in_object = r->is_object >> (r->depth - 1) & 1;
            if (in_object ? jread_next_key(r, &key) : jread_next_item(r)) break;
            if (r->error) return false;
        }
    }
}

bool jread_raw(struct jread *r, const char **text, size_t *len) {
    if (r->error) return false;
    skip_blanks(r);
    const char *const first = r->at;
    if (!jread_skip(r)) return false;
    *text = first;
    *len = (size_t)(r->at - first);
    return true;
}

bool jread_finish(struct jread *r) {
    if (r->error) return false;
    assert(r->depth == 0);
    skip_blanks(r);
    return r->at == r->end ? true : jread_fail(r, "text behind the value");
}

// Numbers of JSON: bounds as automata over decimal digits, multiples as automata over remainders.
// A number has at most 20 digits before the point and 20 behind it, and two of exponent, so that it
// is finite for every reader. With bounds or multiples it has no exponent.
#include <string.h>

#include "constraint/front.h"
#include "constraint/product.h"
#include "constraint/schema.h"

enum {
    MAX_DIGITS = 18,   // of a bound, before or behind the point; messages say it, too
    EXACT_DIGITS = 15, // of a double: more of them may round onto a bound
    MAX_REMAINDERS = 4000,
};

struct decimal { // magnitude and sign
    bool negative;
    uint64_t whole;
    uint8_t frac[MAX_DIGITS]; // [n_frac], the last one is not 0
    int n_frac;
};

struct bound {
    bool is_set, is_exclusive;
    struct decimal at;
};

// --- decimals ---

// The digits of a JSON number with its exponent resolved. false: too long.
static bool decimal_parse(const char *text, size_t len, struct decimal *out) {
    uint8_t digit[64];
    int n = 0, point = -1, exponent = 0;
    size_t i = 0;
    *out = (struct decimal){0};
    if (i < len && text[i] == '-') out->negative = text[i++] == '-';
    for (; i < len && text[i] != 'e' && text[i] != 'E'; i++) {
        if (text[i] == '.') {
            point = n;
        } else if (n < (int)sizeof digit) {
            digit[n++] = (uint8_t)(text[i] - '0');
        } else {
            return false;
        }
    }
    if (point < 0) point = n;
    if (i < len) {
        const bool down = text[++i] == '-';
        if (text[i] == '-' || text[i] == '+') i++;
        for (; i < len && exponent < 1000; i++) exponent = exponent * 10 + (text[i] - '0');
        if (down) exponent = -exponent;
    }
    point += exponent;
    while (n && digit[n - 1] == 0) n--;
    int first = 0;
    while (first < n && digit[first] == 0) first++;
    if (first == n) return true; // zero
    if (point - first > MAX_DIGITS || n - point > MAX_DIGITS) return false;
    for (int k = first; k < point; k++) out->whole = out->whole * 10 + (k < n ? digit[k] : 0);
    for (int k = point; k < n; k++) out->frac[out->n_frac++] = k < first || k < 0 ? 0 : digit[k];
    return true;
}

static int compare_magnitude(const struct decimal *a, const struct decimal *b) {
    if (a->whole != b->whole) return a->whole < b->whole ? -1 : 1;
    for (int i = 0; i < a->n_frac || i < b->n_frac; i++) {
        const int x = i < a->n_frac ? a->frac[i] : 0, y = i < b->n_frac ? b->frac[i] : 0;
        if (x != y) return x < y ? -1 : 1;
    }
    return 0;
}

static bool is_zero(const struct decimal *d) { return d->whole == 0 && d->n_frac == 0; }

static int compare(const struct decimal *a, const struct decimal *b) {
    const int sign_a = is_zero(a) ? 0 : a->negative ? -1 : 1;
    const int sign_b = is_zero(b) ? 0 : b->negative ? -1 : 1;
    if (sign_a != sign_b) return sign_a < sign_b ? -1 : 1;
    return sign_a < 0 ? compare_magnitude(b, a) : compare_magnitude(a, b);
}

// --- whole numbers ---

static const struct node *digit_node(struct grammar *g, int lo, int hi) {
    return node_byte(g, (uint8_t)('0' + lo), (uint8_t)('0' + hi));
}

static const struct node *any_digits(struct grammar *g, int min, int max) {
    return node_repeat(g, digit_node(g, 0, 9), min, max);
}

// n digits between those of lo and hi; a bound that is not tight any more does not apply.
static const struct node *digits_between(struct grammar *g, const uint8_t *lo, const uint8_t *hi,
                                         int n) {
    if (n == 0) return node_empty(g);
    if (!lo && !hi) return any_digits(g, n, n);
    const int first = lo ? lo[0] : 0, last = hi ? hi[0] : 9;
    const uint8_t *lo_rest = lo ? lo + 1 : NULL, *hi_rest = hi ? hi + 1 : NULL;
    if (first == last)
        return node_seq_of(g, digit_node(g, first, first),
                           digits_between(g, lo_rest, hi_rest, n - 1));
    const struct node *part[3];
    int n_part = 0;
    if (lo)
        part[n_part++] =
            node_seq_of(g, digit_node(g, first, first), digits_between(g, lo_rest, NULL, n - 1));
    if (first + !!lo <= last - !!hi)
        part[n_part++] =
            node_seq_of(g, digit_node(g, first + !!lo, last - !!hi), any_digits(g, n - 1, n - 1));
    if (hi)
        part[n_part++] =
            node_seq_of(g, digit_node(g, last, last), digits_between(g, NULL, hi_rest, n - 1));
    return node_alt(g, part, (size_t)n_part);
}

static int digits_of(uint64_t value, uint8_t out[20]) {
    uint8_t back[20];
    int n = 0;
    do {
        back[n++] = (uint8_t)(value % 10);
        value /= 10;
    } while (value);
    for (int i = 0; i < n; i++) out[i] = back[n - 1 - i];
    return n;
}

// lo to hi, or from lo on.
static const struct node *whole_between(struct grammar *g, uint64_t lo, uint64_t hi, bool has_hi) {
    if (has_hi && lo > hi) return node_never(g);
    struct node_list list = {0};
    uint8_t a[20], b[20];
    const int n_lo = digits_of(lo, a), n_hi = has_hi ? digits_of(hi, b) : 20;
    if (has_hi && n_lo == n_hi) return digits_between(g, a, b, n_lo);
    node_list_add(g, &list, digits_between(g, a, NULL, n_lo));
    const int n_middle = has_hi ? n_hi - 1 : 20;
    if (n_middle > n_lo)
        node_list_add(g, &list,
                      node_seq_of(g, digit_node(g, 1, 9), any_digits(g, n_lo, n_middle - 1)));
    static const uint8_t power[20] = {1};
    if (has_hi) node_list_add(g, &list, digits_between(g, power, b, n_hi));
    return node_alt(g, list.node, list.n);
}

// --- fractions ---

struct fraction { // bounds of the digits behind the point; NULL: none
    struct grammar *g;
    const struct decimal *lo, *hi;
    bool lo_exclusive, hi_exclusive;
    int max;
};

static bool may_stop(const struct fraction *f, int at, bool lo, bool hi) {
    if (lo && (at < f->lo->n_frac || f->lo_exclusive)) return false;
    return !(hi && at >= f->hi->n_frac && f->hi_exclusive);
}

// One digit or more from position `at` on; lo and hi: the digits so far are those of the bound.
static const struct node *fraction_digits(const struct fraction *f, int at, bool lo, bool hi);

static const struct node *fraction_rest(const struct fraction *f, int at, bool lo, bool hi) {
    struct grammar *g = f->g;
    if (lo && at >= f->lo->n_frac && !f->lo_exclusive) lo = false;
    if (!lo && !hi) return any_digits(g, 0, f->max - at);
    const struct node *more = fraction_digits(f, at, lo, hi);
    return may_stop(f, at, lo, hi) ? node_alt_of(g, node_empty(g), more) : more;
}

static const struct node *fraction_digits(const struct fraction *f, int at, bool lo, bool hi) {
    struct grammar *g = f->g;
    if (at >= f->max) return node_never(g);
    const int first = lo && at < f->lo->n_frac ? f->lo->frac[at] : 0;
    const int last = !hi ? 9 : at < f->hi->n_frac ? f->hi->frac[at] : 0;
    if (first > last) return node_never(g);
    if (first == last)
        return node_seq_of(g, digit_node(g, first, first), fraction_rest(f, at + 1, lo, hi));
    struct node_list list = {0};
    node_list_add(g, &list,
                  node_seq_of(g, digit_node(g, first, first), fraction_rest(f, at + 1, lo, false)));
    if (first + 1 <= last - 1)
        node_list_add(g, &list,
                      node_seq_of(g, digit_node(g, first + 1, last - 1),
                                  fraction_rest(f, at + 1, false, false)));
    node_list_add(g, &list,
                  node_seq_of(g, digit_node(g, last, last), fraction_rest(f, at + 1, false, hi)));
    return node_alt(g, list.node, list.n);
}

// Nothing, or a point and digits.
static const struct node *fraction_node(const struct fraction *f) {
    struct grammar *g = f->g;
    const bool lo = f->lo != NULL, hi = f->hi != NULL;
    const bool lo_applies = lo && (f->lo->n_frac > 0 || f->lo_exclusive);
    const struct node *some =
        node_seq_of(g, node_text(g, "."), fraction_digits(f, 0, lo_applies, hi));
    return may_stop(f, 0, lo, hi) ? node_alt_of(g, node_empty(g), some) : some;
}

// --- magnitudes ---

static int fraction_max(const struct decimal *lo, const struct decimal *hi) {
    uint8_t digit[20];
    int max = EXACT_DIGITS - digits_of(lo->whole, digit);
    if (hi && EXACT_DIGITS - digits_of(hi->whole, digit) < max)
        max = EXACT_DIGITS - digits_of(hi->whole, digit);
    if (max < 1) max = 1;
    if (max < lo->n_frac) max = lo->n_frac;
    return hi && max < hi->n_frac ? hi->n_frac : max;
}

// Numbers from lo to hi, neither of them below 0; hi NULL: no end.
static const struct node *magnitude(struct grammar *g, const struct decimal *lo, bool lo_exclusive,
                                    const struct decimal *hi, bool hi_exclusive, bool integer) {
    if (integer) {
        const uint64_t from = lo->whole + (lo->n_frac > 0 || lo_exclusive);
        if (hi && hi->whole == 0 && hi->n_frac == 0 && hi_exclusive) return node_never(g);
        const uint64_t to = hi ? hi->whole - (hi->n_frac == 0 && hi_exclusive) : 0;
        return whole_between(g, from, to, hi != NULL);
    }
    if (hi && compare_magnitude(lo, hi) > 0) return node_never(g);
    struct fraction f = {.g = g, .max = fraction_max(lo, hi)};
    struct fraction at_lo = f, at_hi = f;
    at_lo.lo = lo;
    at_lo.lo_exclusive = lo_exclusive;
    at_hi.hi = hi;
    at_hi.hi_exclusive = hi_exclusive;
    if (hi && lo->whole == hi->whole) {
        at_lo.hi = hi;
        at_lo.hi_exclusive = hi_exclusive;
        return node_seq_of(g, whole_between(g, lo->whole, lo->whole, true), fraction_node(&at_lo));
    }
    struct node_list list = {0};
    node_list_add(g, &list,
                  node_seq_of(g, whole_between(g, lo->whole, lo->whole, true),
                              fraction_node(&at_lo)));
    if (!hi || hi->whole > lo->whole + 1)
        node_list_add(g, &list,
                      node_seq_of(g, whole_between(g, lo->whole + 1, hi ? hi->whole - 1 : 0, hi),
                                  fraction_node(&f)));
    if (hi)
        node_list_add(g, &list,
                      node_seq_of(g, whole_between(g, hi->whole, hi->whole, true),
                                  fraction_node(&at_hi)));
    return node_alt(g, list.node, list.n);
}

static const struct node *range_node(struct grammar *g, const struct bound *lo,
                                     const struct bound *hi, bool integer) {
    const struct decimal zero = {0};
    struct node_list list = {0};
    const bool lo_negative = !lo->is_set || (lo->at.negative && !is_zero(&lo->at));
    const bool hi_negative = hi->is_set && hi->at.negative && !is_zero(&hi->at);
    if (lo_negative) { // from -lo down to -hi, or down to 0 without it
        const struct node *below =
            magnitude(g, hi_negative ? &hi->at : &zero, hi_negative ? hi->is_exclusive : true,
                      lo->is_set ? &lo->at : NULL, lo->is_exclusive, integer);
        node_list_add(g, &list, node_seq_of(g, node_text(g, "-"), below));
    }
    if (!hi_negative) {
        const bool from_lo = lo->is_set && !lo_negative;
        node_list_add(g, &list,
                      magnitude(g, from_lo ? &lo->at : &zero, from_lo && lo->is_exclusive,
                                hi->is_set ? &hi->at : NULL, hi->is_exclusive, integer));
    }
    return node_alt(g, list.node, list.n);
}

// --- multiples ---

struct multiples {
    struct grammar *g;
    uint32_t p; // the divisor times 10^k
    int k;
    struct graph_edge *edge;
    size_t n;
};

static uint32_t state_at(const struct multiples *m, int frac, uint32_t rem) {
    return 2 + (uint32_t)frac * m->p + rem;
}

static void edge(struct multiples *m, uint32_t from, uint32_t to, const struct node *node) {
    m->edge[m->n++] = (struct graph_edge){from, to, node};
}

// States: the start, behind the sign, then a remainder for each number of fraction digits, then
// remainders behind the point, then the end.
static const struct node *multiples_node(struct grammar *g, uint32_t p, int k) {
    struct multiples m = {.g = g, .p = p, .k = k};
    const uint32_t points = 2 + (uint32_t)(k + 1) * p, end = points + p;
    const struct node *digit[10], *empty = node_empty(g), *point = node_text(g, ".");
    for (int d = 0; d < 10; d++) digit[d] = digit_node(g, d, d);
    m.edge = grammar_alloc(g, 12 * ((size_t)end + 2), sizeof *m.edge);
    if (!m.edge || !empty || !point) return NULL;
    edge(&m, 0, 1, node_text(g, "-"));
    edge(&m, 0, 1, empty);
    for (uint32_t d = 0; d < 10; d++) edge(&m, 1, state_at(&m, 0, d % p), digit[d]);
    for (uint32_t rem = 0; rem < p; rem++) {
        for (uint32_t d = 0; d < 10; d++)
            edge(&m, state_at(&m, 0, rem), state_at(&m, 0, (rem * 10 + d) % p), digit[d]);
        if (k) edge(&m, state_at(&m, 0, rem), points + rem, point);
        for (uint32_t d = 0; k && d < 10; d++)
            edge(&m, points + rem, state_at(&m, 1, (rem * 10 + d) % p), digit[d]);
        uint64_t scale = 1;
        for (int f = k; f >= 0; f--, scale = scale * 10 % p) {
            if (rem * scale % p == 0) edge(&m, state_at(&m, f, rem), end, empty);
            for (uint32_t d = 0; f > 0 && f < k && d < 10; d++)
                edge(&m, state_at(&m, f, rem), state_at(&m, f + 1, (rem * 10 + d) % p), digit[d]);
        }
    }
    return node_graph(g, m.edge, m.n, end + 1);
}

static const struct node *multiples_of(struct schema *s, const struct json *part,
                                       const struct node *base) {
    const struct json *value = json_get(part, "multipleOf");
    struct decimal d;
    if (value->kind != JREAD_NUMBER || !decimal_parse(value->text, value->len, &d) || d.negative ||
        is_zero(&d))
        return schema_expected(s, part, "multipleOf", value,
                               "a number above 0 of at most 18 digits");
    uint64_t p = d.whole;
    for (int i = 0; i < d.n_frac && p <= MAX_REMAINDERS; i++) p = p * 10 + d.frac[i];
    if (p > MAX_REMAINDERS || p * (uint64_t)(d.n_frac + 2) > MAX_REMAINDERS)
        return schema_fail(s, part, "multipleOf", "the divisor %.*s needs more than %d remainders",
                           (int)value->len, value->text, MAX_REMAINDERS);
    return node_both(s->g, base, multiples_node(s->g, (uint32_t)p, d.n_frac));
}

// --- keywords ---

// The bound of a keyword where it is tighter than the one so far; side -1: a minimum.
static bool read_bound(struct schema *s, const struct json *part, const char *keyword,
                       bool is_exclusive, int side, struct bound *bound) {
    const struct json *value = json_get(part, keyword);
    if (!value) return true;
    struct bound read = {.is_set = true, .is_exclusive = is_exclusive};
    if (value->kind != JREAD_NUMBER) {
        schema_expected(s, part, keyword, value, "a number");
        return false;
    }
    if (!decimal_parse(value->text, value->len, &read.at)) {
        schema_expected(s, part, keyword, value,
                        "a number of at most 18 digits before and behind the point");
        return false;
    }
    const int order = bound->is_set ? compare(&read.at, &bound->at) * -side : 1;
    if (order > 0)
        *bound = read;
    else if (order == 0)
        bound->is_exclusive |= is_exclusive;
    return true;
}

static bool read_bounds(struct schema *s, const struct conjunction *c, struct bound *lo,
                        struct bound *hi) {
    for (uint32_t i = 0; i < c->n; i++) {
        const struct json *part = c->part[i];
        if (!read_bound(s, part, "minimum", false, -1, lo) ||
            !read_bound(s, part, "exclusiveMinimum", true, -1, lo) ||
            !read_bound(s, part, "maximum", false, 1, hi) ||
            !read_bound(s, part, "exclusiveMaximum", true, 1, hi))
            return false;
    }
    return true;
}

bool schema_number_passes(struct schema *s, const struct conjunction *c, const struct json *value) {
    struct bound lo = {0}, hi = {0};
    struct decimal d;
    const struct json *part = schema_part_with(c, "multipleOf");
    if (part) schema_fail(s, part, "multipleOf", "not supported beside a list of numbers");
    if (part || !read_bounds(s, c, &lo, &hi)) return false;
    if (!lo.is_set && !hi.is_set) return true;
    if (!decimal_parse(value->text, value->len, &d)) {
        schema_expected(s, value, NULL, value,
                        "a number of at most 18 digits before and behind the point");
        return false;
    }
    const int above = lo.is_set ? compare(&d, &lo.at) : 1;
    const int below = hi.is_set ? compare(&hi.at, &d) : 1;
    return above >= lo.is_exclusive && below >= hi.is_exclusive;
}

const struct node *schema_number(struct schema *s, const struct conjunction *c, bool integer) {
    struct bound lo = {0}, hi = {0};
    const bool has_multiple = schema_part_with(c, "multipleOf");
    if (!read_bounds(s, c, &lo, &hi)) return NULL;
    if (!lo.is_set && !hi.is_set && !has_multiple)
        return node_call(s->g, integer ? s->integer : s->number);
    const struct node *node;
    if (lo.is_set || hi.is_set) {
        node = range_node(s->g, &lo, &hi, integer);
    } else {
        const char *text =
            integer ? "-?(?:0|[1-9]\\d{0,19})" : "-?(?:0|[1-9]\\d{0,19})(?:\\.\\d{1,15})?";
        node = regex_node(s->g, text, strlen(text), false, node_class, "");
    }
    if (has_multiple) { // a longer number may be rounded onto one that is no multiple
        static const char exact[] = "-?\\d{1,13}(?:\\.\\d+)?";
        node =
            node_both(s->g, node, regex_node(s->g, exact, sizeof exact - 1, false, node_class, ""));
    }
    for (uint32_t i = 0; node && i < c->n; i++)
        if (json_get(c->part[i], "multipleOf")) node = multiples_of(s, c->part[i], node);
    return node;
}

// Python's literals, read as far as a model's calls go: strings, numbers, True, False, None, lists,
// tuples and dictionaries, in Python's or in JSON's words.
//
// Models write quotes into strings without escapes ('it's'), since their templates do. So a quote
// ends a string only where a value may end: before a comma, a colon or a closing bracket. Strings
// in triple quotes end as in Python. Strings become JSON as they come. A tuple becomes JSON when it
// is whole, since brackets around one value mean nothing. Scan, reader and tokens agree on the ends
// of strings.
#include "answer_literals.h"

#include <string.h>

#include "answer_calls.h"
#include "helpers.h"

enum {
    WORD_MAX_BYTES = 1024,
    BLANKS_MAX_BYTES = 64, // behind a quote
};

static bool is_quote(char c) { return c == '\'' || c == '"'; }

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-' || c == '+' || (unsigned char)c >= 0x80;
}

// ---------------------------------------------------------------- strings

// Three quotes at the start of text. MORE: the text ends before that is known.
static enum call_verdict is_triple(const char *text, size_t len, char quote) {
    for (size_t i = 0; i < 3; i++) {
        if (i == len) return CALL_MORE;
        if (text[i] != quote) return CALL_BAD;
    }
    return CALL_GOOD;
}

// Whether the quote at the start of text ends a string.
static enum call_verdict is_end(const char *text, size_t len) {
    size_t at = 1;
    while (at < len && at <= BLANKS_MAX_BYTES && answer_is_blank(text[at])) at++;
    if (at == len) return CALL_MORE;
    return text[at] && strchr(",:)]}", text[at]) ? CALL_GOOD : CALL_BAD;
}

// ---------------------------------------------------------------- the end of a tuple

// Within a string. GOOD: it has ended.
static enum call_verdict string_scan(struct literal_scan *scan, const char *text, size_t len) {
    for (; scan->at < len; scan->at++) {
        const char c = text[scan->at];
        if (scan->escaped || c == '\\') {
            scan->escaped = !scan->escaped;
        } else if (c == scan->quote) {
            const enum call_verdict ends = scan->is_triple
                                               ? is_triple(text + scan->at, len - scan->at, c)
                                               : is_end(text + scan->at, len - scan->at);
            if (ends == CALL_MORE) return CALL_MORE;
            if (ends == CALL_BAD) continue;
            scan->at += scan->is_triple ? 3 : 1;
            scan->in_string = false;
            return CALL_GOOD;
        }
    }
    return CALL_MORE;
}

static enum call_verdict string_begin(struct literal_scan *scan, const char *text, size_t len) {
    const char quote = text[scan->at];
    const enum call_verdict triple = is_triple(text + scan->at, len - scan->at, quote);
    if (triple == CALL_MORE) return CALL_MORE;
    scan->is_triple = triple == CALL_GOOD;
    scan->at += scan->is_triple ? 3 : 1;
    scan->quote = quote;
    scan->in_string = true;
    scan->escaped = false;
    return CALL_GOOD;
}

// GOOD: scan->at is behind the bracket that closes the first.
static enum call_verdict brackets_scan(struct literal_scan *scan, const char *text, size_t len) {
    while (scan->at < len) {
        const char c = text[scan->at];
        if (scan->in_string) {
            if (string_scan(scan, text, len) == CALL_MORE) return CALL_MORE;
        } else if (is_quote(c)) {
            if (string_begin(scan, text, len) == CALL_MORE) return CALL_MORE;
        } else if (c == '(' || c == '[' || c == '{') {
            if (++scan->depth > JREAD_MAX_DEPTH) return CALL_BAD;
            scan->at++;
        } else if (c == ')' || c == ']' || c == '}') {
            scan->at++;
            if (--scan->depth == 0) return CALL_GOOD;
        } else {
            if (!c || !(is_word(c) || answer_is_blank(c) || strchr(",:", c))) return CALL_BAD;
            scan->at++;
        }
    }
    return CALL_MORE;
}

// ---------------------------------------------------------------- whole literals

struct reader {
    const char *at, *end;
    int depth;
    struct jbuf *out;
    struct jbuf *text; // of a string, its escapes resolved
};

static void blanks_skip(struct reader *r) { r->at = answer_blanks_end(r->at, r->end); }

static bool take(struct reader *r, char c) { return answer_take(&r->at, r->end, c); }

static size_t word_len(const struct reader *r) {
    size_t n = 0;
    while (r->at + n < r->end && is_word(r->at[n])) n++;
    return n;
}

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
}

// Up to n digits; false: there are fewer than `least`.
static bool digits_read(struct reader *r, int base, int least, int n, uint32_t *value) {
    int count = 0;
    *value = 0;
    for (; count < n && r->at < r->end && digit_of(*r->at) < base; count++)
        *value = *value * (uint32_t)base + (uint32_t)digit_of(*r->at++);
    return count >= least;
}

static bool is_high(uint32_t cp) { return cp >= 0xD800 && cp < 0xDC00; }
static bool is_low(uint32_t cp) { return cp >= 0xDC00 && cp < 0xE000; }

// The second half of a pair; another escape stays where it is.
static uint32_t pair_read(struct reader *r, uint32_t high) {
    const char *const before = r->at;
    uint32_t low;
    if (r->end - r->at > 2 && r->at[0] == '\\' && r->at[1] == 'u') {
        r->at += 2;
        if (digits_read(r, 16, 4, 4, &low) && is_low(low))
            return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    }
    r->at = before;
    return high;
}

static void character_put(struct reader *r, uint32_t cp) {
    uint8_t bytes[4];
    if (cp > 0x10FFFF || is_high(cp) || is_low(cp)) cp = 0xFFFD;
    jbuf_bytes(r->text, (const char *)bytes, unicode_encode(cp, bytes));
}

// \xNN, \uNNNN and \UNNNNNNNN; false: it has too few digits.
static bool code_read(struct reader *r, char kind) {
    const int n = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
    uint32_t cp;
    if (!digits_read(r, 16, n, n, &cp)) return false;
    character_put(r, is_high(cp) ? pair_read(r, cp) : cp);
    return true;
}

static const char escape_names[] = "abfnrtv\\'\"", escape_values[] = "\a\b\f\n\r\t\v\\'\"";

static bool is_escape(char c) {
    return c && (strchr("01234567xuU\n", c) || strchr(escape_names, c));
}

// Behind a backslash. One that starts no escape stays, as in Python.
static bool escape_read(struct reader *r) {
    uint32_t cp;
    const char c = *r->at;
    if (c >= '0' && c <= '7') {
        digits_read(r, 8, 1, 3, &cp);
        character_put(r, cp);
        return true;
    }
    r->at++;
    if (c == '\n') return true; // the line goes on
    if (c == 'x' || c == 'u' || c == 'U') return code_read(r, c);
    const char *const name = c ? strchr(escape_names, c) : NULL;
    if (name) {
        jbuf_bytes(r->text, &escape_values[name - escape_names], 1);
    } else {
        const char both[] = {'\\', c};
        jbuf_bytes(r->text, both, 2);
    }
    return true;
}

// Up to and with the quotes that end it.
static bool string_text(struct reader *r, char quote, bool triple) {
    jbuf_clear(r->text);
    while (r->at < r->end) {
        const size_t rest = (size_t)(r->end - r->at);
        const char *const begin = r->at;
        if (*r->at == '\\') {
            r->at++;
            if (r->at == r->end || !escape_read(r)) return false;
            continue;
        }
        if (*r->at == quote) {
            // at the end of a literal that stands alone there is nothing behind the quote
            if (triple ? is_triple(r->at, rest, quote) == CALL_GOOD
                       : is_end(r->at, rest) != CALL_BAD) {
                r->at += triple ? 3 : 1;
                return true;
            }
            r->at++;
        }
        while (r->at < r->end && *r->at != '\\' && *r->at != quote) r->at++;
        jbuf_bytes(r->text, begin, (size_t)(r->at - begin));
    }
    return false;
}

static bool string_read(struct reader *r) {
    const char quote = *r->at;
    const bool triple = is_triple(r->at, (size_t)(r->end - r->at), quote) == CALL_GOOD;
    r->at += triple ? 3 : 1;
    if (!string_text(r, quote, triple)) return false;
    if (r->text->failed) r->out->failed = true;
    jbuf_string(r->out, r->text->data ? r->text->data : "", r->text->len);
    return true;
}

// A word of n bytes. False: it is no value.
static bool word_put(struct jbuf *out, const char *text, size_t n) {
    static const char *const words[][2] = {
        {"True", "true"}, {"False", "false"}, {"None", "null"},
        {"true", "true"}, {"false", "false"}, {"null", "null"},
    };
    struct jread number;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i][0]) != n || memcmp(words[i][0], text, n) != 0) continue;
        jbuf_text(out, words[i][1]);
        return true;
    }
    jread_init(&number, text, n);
    if (n == 0 || jread_peek(&number) != JREAD_NUMBER || !jread_skip(&number) ||
        !jread_finish(&number))
        return false;
    jbuf_bytes(out, text, n);
    return true;
}

static bool word_read(struct reader *r) {
    const size_t n = word_len(r);
    if (!word_put(r->out, r->at, n)) return false;
    r->at += n;
    return true;
}

static bool value_read(struct reader *r);

// "key": value
static bool member_read(struct reader *r) {
    blanks_skip(r);
    if (r->at == r->end || !is_quote(*r->at) || !string_read(r) || !take(r, ':')) return false;
    jbuf_bytes(r->out, ":", 1);
    return value_read(r);
}

// Items up to a closing bracket, with commas between them and perhaps behind them. *count is how
// many; negative: a comma follows the last.
static bool items_read(struct reader *r, char close, bool (*item)(struct reader *r), int *count) {
    for (*count = 0;; ++*count) {
        if (take(r, close)) return true;
        if (*count && !take(r, ',')) return false;
        if (*count && take(r, close)) {
            *count = -*count;
            return true;
        }
        if (*count) jbuf_bytes(r->out, ",", 1);
        if (!item(r)) return false;
    }
}

// Brackets around one value that no comma follows mean nothing.
static bool tuple_read(struct reader *r) {
    const size_t begin = r->out->len;
    int count;
    jbuf_bytes(r->out, "[", 1);
    if (!items_read(r, ')', value_read, &count) || r->out->failed) return false;
    if (count != 1) {
        jbuf_bytes(r->out, "]", 1);
        return true;
    }
    char *const text = r->out->data + begin;
    memmove(text, text + 1, --r->out->len - begin);
    return true;
}

static bool brackets_read(struct reader *r) {
    const char open = *r->at++;
    int count;
    if (open == '(') return tuple_read(r);
    const char close = open == '[' ? ']' : '}';
    jbuf_bytes(r->out, &open, 1);
    if (!items_read(r, close, open == '[' ? value_read : member_read, &count)) return false;
    jbuf_bytes(r->out, &close, 1);
    return true;
}

static bool value_read(struct reader *r) {
    blanks_skip(r);
    if (r->at == r->end) return false;
    if (is_quote(*r->at)) return string_read(r);
    if (!*r->at || !strchr("([{", *r->at)) return word_read(r);
    if (++r->depth > JREAD_MAX_DEPTH) return false;
    const bool ok = brackets_read(r);
    r->depth--;
    return ok;
}

bool literal_put(struct jbuf *out, const char *text, size_t len) {
    const size_t before = out->len;
    struct jbuf string = {0};
    struct reader r = {.at = text, .end = text + len, .out = out, .text = &string};
    bool ok = value_read(&r);
    blanks_skip(&r);
    ok = ok && r.at == r.end;
    if (!ok) out->len = before;
    jbuf_deinit(&string);
    return ok;
}

// ---------------------------------------------------------------- token by token

// Whether the escape at the start of text is whole. MORE: it may need more.
static enum call_verdict escape_find(const char *text, size_t len) {
    if (len < 2) return CALL_MORE;
    const char c = text[1];
    if (c >= '0' && c <= '7') {
        size_t n = 2;
        while (n < len && n < 4 && digit_of(text[n]) < 8) n++;
        return n == 4 || n < len ? CALL_GOOD : CALL_MORE;
    }
    const size_t most = c == 'x' ? 4 : c == 'u' ? 6 : c == 'U' ? 10 : 2;
    size_t n = 2;
    while (n < len && n < most && digit_of(text[n]) < 16) n++;
    if (n < most) return n < len ? CALL_BAD : CALL_MORE;
    const bool is_half = c == 'u' && (text[2] == 'd' || text[2] == 'D') && digit_of(text[3]) >= 8 &&
                         digit_of(text[3]) < 12;
    if (!is_half) return CALL_GOOD;
    for (int i = 0; i < 2 && n < len; i++) { // the other half may follow
        if (text[n] != "\\u"[i]) return CALL_GOOD;
        n++;
    }
    while (n < len && n < 12 && digit_of(text[n]) < 16) n++;
    return n == 12 || n < len ? CALL_GOOD : CALL_MORE;
}

static enum call_verdict escape_next(const char *text, size_t len, size_t *n, struct jbuf *out) {
    const enum call_verdict verdict = escape_find(text, len);
    if (verdict != CALL_GOOD) return verdict;
    *n = 1;
    if (!is_escape(text[1])) { // the backslash stays
        jbuf_escape(out, text, 1);
        return CALL_GOOD;
    }
    struct jbuf character = {0};
    struct reader r = {.at = text + 1, .end = text + len, .text = &character};
    const bool good = escape_read(&r) && !character.failed;
    jbuf_escape(out, character.data, character.len);
    *n = (size_t)(r.at - text);
    jbuf_deinit(&character);
    return good ? CALL_GOOD : CALL_BAD;
}

// Within a string: an escape, the end, or a character. More characters at once would make the place
// where a text is no call any more depend on its pieces.
static enum call_verdict string_next(struct literal *literal, const char *text, size_t len,
                                     size_t *n, struct jbuf *out) {
    if (text[0] == '\\') return escape_next(text, len, n, out);
    if (text[0] == literal->quote) {
        const enum call_verdict ends =
            literal->is_triple ? is_triple(text, len, text[0]) : is_end(text, len);
        if (ends == CALL_MORE) return CALL_MORE;
        if (ends == CALL_GOOD) {
            *n = literal->is_triple ? 3 : 1;
            literal->in_string = false;
            jbuf_bytes(out, "\"", 1);
            return CALL_GOOD;
        }
    }
    const size_t whole = call_whole_characters(text, len < 4 ? len : 4);
    if (!whole) return CALL_MORE;
    unicode_decode((const uint8_t *)text, whole, n);
    jbuf_escape(out, text, *n);
    return CALL_GOOD;
}

static enum call_verdict string_open(struct literal *literal, const char *text, size_t len,
                                     size_t *n, struct jbuf *out) {
    const enum call_verdict triple = is_triple(text, len, text[0]);
    if (triple == CALL_MORE) return CALL_MORE;
    literal->is_triple = triple == CALL_GOOD;
    literal->quote = text[0];
    literal->in_string = true;
    *n = literal->is_triple ? 3 : 1;
    jbuf_bytes(out, "\"", 1);
    return CALL_GOOD;
}

// A tuple may be long. Bytes of a bad one are not looked at again, however many marks are in them.
static enum call_verdict tuple_next(struct literal *literal, const char *text, size_t len,
                                    size_t *n, struct jbuf *out) {
    const enum call_verdict verdict = brackets_scan(&literal->scan, text, len);
    if (verdict == CALL_MORE) return CALL_MORE;
    *n = literal->scan.at;
    if (verdict == CALL_BAD) return CALL_BAD;
    literal->scan = (struct literal_scan){0};
    return literal_put(out, text, *n) ? CALL_GOOD : CALL_BAD;
}

enum call_verdict literal_name(const char *text, size_t len, size_t *n) {
    for (*n = 0; *n < len && is_word(text[*n]); ++*n)
        if (*n == CALL_NAME_MAX) return CALL_BAD;
    if (*n == len) return CALL_MORE;
    return *n > 0 && !strchr("0123456789.-+", text[0]) ? CALL_GOOD : CALL_BAD;
}

static enum call_verdict word_next(const char *text, size_t len, size_t *n, struct jbuf *out) {
    size_t end = 0;
    while (end < len && end <= WORD_MAX_BYTES && is_word(text[end])) end++;
    if (end > WORD_MAX_BYTES) return CALL_BAD;
    if (end == len) return CALL_MORE;
    *n = end;
    return word_put(out, text, end) ? CALL_GOOD : CALL_BAD;
}

// A comma behind the last value of a list is dropped.
static enum call_verdict comma_next(struct literal *literal, const struct json_walk *walk,
                                    size_t *n) {
    if (literal->comma || !json_walk_is_behind(walk)) return CALL_BAD;
    literal->comma = true;
    *n = 1;
    return CALL_GOOD;
}

enum call_verdict literal_next(struct literal *literal, const struct json_walk *walk,
                               const char *text, size_t len, size_t *n, struct jbuf *out) {
    const char c = len ? text[0] : 0;
    *n = 0;
    if (!len) return CALL_MORE;
    if (literal->in_string) return string_next(literal, text, len, n, out);
    if (answer_is_blank(c)) {
        *n = 1;
        return CALL_GOOD;
    }
    if (c == ',') return comma_next(literal, walk, n);
    const bool comma = literal->comma && c != ']' && c != '}';
    enum call_verdict verdict = CALL_GOOD;
    if (comma) jbuf_bytes(out, ",", 1);
    if (is_quote(c)) {
        verdict = string_open(literal, text, len, n, out);
    } else if (c == '(') {
        verdict = tuple_next(literal, text, len, n, out);
    } else if (c && strchr("[]{}:", c)) {
        jbuf_bytes(out, &c, 1);
        *n = 1;
    } else {
        verdict = word_next(text, len, n, out);
    }
    if (verdict == CALL_GOOD) literal->comma = false;
    return verdict;
}

// Calls of Gemma 4. A value is a string between marks, a number, true, false, null, a list or pairs
// in braces. Keys stand bare or between marks. Within marks any text is a string's, without
// escapes. A bare word that is no JSON value is taken for a string. Values become JSON.
#define _GNU_SOURCE // memmem
#include "answer_pairs.h"

#include <string.h>

#include "helpers.h"

enum { NAME_MAX_BYTES = 256 };

// The mark at the start of text. MORE: the text ends inside of it.
static enum call_verdict is_mark(const char *text, size_t len, const char *mark) {
    const size_t n = strlen(mark);
    if (memcmp(text, mark, len < n ? len : n) != 0) return CALL_BAD;
    return len < n ? CALL_MORE : CALL_GOOD;
}

// ---------------------------------------------------------------- the end of a call

// GOOD: *end is at the first brace.
static enum call_verdict name_find(const char *text, size_t len, size_t begin, size_t *end) {
    for (size_t at = begin; at - begin <= NAME_MAX_BYTES; at++) {
        *end = at;
        if (at == len) return CALL_MORE;
        if (text[at] == '{') return at > begin ? CALL_GOOD : CALL_BAD;
        if ((unsigned char)text[at] <= ' ' || strchr("<>\"'()[]}", text[at])) return CALL_BAD;
    }
    return CALL_BAD;
}

static enum call_verdict braces_scan(struct parts_scan *scan, const char *quote, const char *text,
                                     size_t len, size_t *end) {
    while (scan->at < len) {
        const char c = text[scan->at];
        const enum call_verdict mark =
            c == quote[0] ? is_mark(text + scan->at, len - scan->at, quote) : CALL_BAD;
        *end = scan->at;
        if (mark == CALL_MORE) return CALL_MORE;
        if (mark == CALL_GOOD) {
            scan->in_string = !scan->in_string;
            scan->at += strlen(quote);
            continue;
        }
        scan->at++;
        if (scan->in_string) continue;
        if (c == quote[0] || ((unsigned char)c < ' ' && !answer_is_blank(c))) return CALL_BAD;
        if ((c == '{' || c == '[') && ++scan->depth > JREAD_MAX_DEPTH) return CALL_BAD;
        if ((c == '}' || c == ']') && --scan->depth == 0) {
            *end = scan->at;
            return CALL_GOOD;
        }
    }
    return CALL_MORE;
}

// ---------------------------------------------------------------- values

struct reader {
    const char *at, *end;
    const char *quote;
    struct jbuf *out;
};

static size_t rest(const struct reader *r) { return (size_t)(r->end - r->at); }

static void blanks_skip(struct reader *r) { r->at = answer_blanks_end(r->at, r->end); }

static bool take(struct reader *r, char c) { return answer_take(&r->at, r->end, c); }

static bool is_string(const struct reader *r) {
    return is_mark(r->at, rest(r), r->quote) == CALL_GOOD;
}

static bool string_read(struct reader *r) {
    r->at += strlen(r->quote);
    const char *const close = memmem(r->at, rest(r), r->quote, strlen(r->quote));
    if (!close) return false;
    jbuf_string(r->out, r->at, (size_t)(close - r->at));
    r->at = close + strlen(r->quote);
    return true;
}

// The text up to one of the bytes, without blanks at its end.
static size_t word_len(const struct reader *r, const char *ends) {
    size_t n = 0;
    while (n < rest(r) && r->at[n] && !strchr(ends, r->at[n])) n++;
    while (n > 0 && answer_is_blank(r->at[n - 1])) n--;
    return n;
}

static bool word_read(struct reader *r) {
    const size_t n = word_len(r, ",{}[]");
    struct jread json;
    if (n == 0) return false;
    jread_init(&json, r->at, n);
    if (n == 4 && memcmp(r->at, "None", 4) == 0)
        jbuf_text(r->out, "null");
    else if (jread_skip(&json) && jread_finish(&json))
        jbuf_bytes(r->out, r->at, n);
    else
        jbuf_string(r->out, r->at, n);
    r->at += n;
    return true;
}

static bool key_read(struct reader *r) {
    blanks_skip(r);
    if (is_string(r)) return string_read(r);
    const size_t n = word_len(r, ":,{}[]");
    if (n == 0) return false;
    jbuf_string(r->out, r->at, n);
    r->at += n;
    return true;
}

static bool value_read(struct reader *r);

// Items up to the closing bracket, with commas between them. The scan has bounded the depth.
static bool items_read(struct reader *r, char open, char close, bool is_pair) {
    jbuf_bytes(r->out, &open, 1);
    for (int count = 0; !take(r, close); count++) {
        if (count && !take(r, ',')) return false;
        if (count) jbuf_bytes(r->out, ",", 1);
        if (is_pair) {
            if (!key_read(r) || !take(r, ':')) return false;
            jbuf_bytes(r->out, ":", 1);
        }
        if (!value_read(r)) return false;
    }
    jbuf_bytes(r->out, &close, 1);
    return true;
}

static bool value_read(struct reader *r) {
    blanks_skip(r);
    if (r->at == r->end) return false;
    if (is_string(r)) return string_read(r);
    if (take(r, '{')) return items_read(r, '{', '}', true);
    if (take(r, '[')) return items_read(r, '[', ']', false);
    return word_read(r);
}

enum call_verdict pairs_read(struct answer_parts *parts, const char *text, size_t len, size_t begin,
                             size_t *end, parts_fn fn, void *ctx) {
    const char *const quote = parts->marks.tools.quote;
    size_t brace;
    enum call_verdict verdict = name_find(text, len, begin, &brace);
    *end = brace;
    if (verdict != CALL_GOOD) return verdict;
    if (!parts->scan.in_json)
        parts->scan = (struct parts_scan){.at = brace, .begin = brace, .in_json = true};
    verdict = braces_scan(&parts->scan, quote, text, len, end);
    if (verdict != CALL_GOOD) return verdict;
    jbuf_clear(&parts->scratch);
    struct reader r = {.at = text + brace,
                       .end = text + *end,
                       .quote = quote,
                       .out = &parts->scratch};
    const bool good = value_read(&r) && r.at == r.end && !r.out->failed &&
                      parts_call_put(parts, text + begin, brace - begin, parts->scratch.data,
                                     parts->scratch.len, fn, ctx);
    return good ? CALL_GOOD : CALL_BAD;
}

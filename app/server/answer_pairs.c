// Calls of Gemma 4. A value is a string between marks, a number, true, false, null, a list or pairs
// in braces. Keys stand bare or between marks. Within marks any text is a string's, without
// escapes. A bare word that is no JSON value is taken for a string. Tokens become JSON, whose walk
// knows the structure.
#include "answer_pairs.h"

#include <string.h>

#include "helpers.h"

// The name up to the first brace.
static enum call_verdict name_read(struct call_run *run) {
    struct parts_call *const call = run->call;
    size_t len;
    const char *const text = call_rest(run, &len);
    for (size_t n = 0; n <= CALL_NAME_MAX; n++) {
        if (n == len) return CALL_MORE;
        if (text[n] == '{') {
            if (!call_name(run, text, n)) return CALL_BAD;
            call->at += n;
            return CALL_GOOD;
        }
        if ((unsigned char)text[n] <= ' ' || strchr("<>\"'()[]}", text[n])) return CALL_BAD;
    }
    return CALL_BAD;
}

// ---------------------------------------------------------------- tokens

// Within a string: its end, or text up to a place that may be its end.
static enum call_verdict string_next(const struct call_run *run, const char *text, size_t len,
                                     size_t *n) {
    const char *const quote = run->parts->marks.tools.quote;
    struct parts_call *const call = run->call;
    if (call_starts(text, len, quote)) {
        call->literal.in_string = false;
        jbuf_bytes(&call->json, "\"", 1);
        *n = strlen(quote);
        return CALL_GOOD;
    }
    const size_t edge = call_edge(text, len, quote);
    *n = edge < len && call_starts(text + edge, len - edge, quote)
             ? edge
             : call_whole_characters(text, edge);
    jbuf_escape(&call->json, text, *n);
    return *n ? CALL_GOOD : CALL_MORE;
}

static void word_put(struct jbuf *out, const char *text, size_t n, bool is_key) {
    struct jread json;
    jread_init(&json, text, n);
    if (!is_key && n == 4 && memcmp(text, "None", 4) == 0)
        jbuf_text(out, "null");
    else if (!is_key && jread_skip(&json) && jread_finish(&json))
        jbuf_bytes(out, text, n);
    else
        jbuf_string(out, text, n);
}

// A bare key or value, with the blanks behind it.
static enum call_verdict word_next(const struct call_run *run, const char *text, size_t len,
                                   size_t *n) {
    struct parts_call *const call = run->call;
    const bool is_key = json_walk_wants_key(&call->walk);
    const char mark = run->parts->marks.tools.quote[0];
    for (size_t at = call->scan; at < len; at++) {
        const char c = text[at];
        if (c == mark || ((unsigned char)c < ' ' && !answer_is_blank(c))) return CALL_BAD;
        call->scan = at + 1;
        if (!strchr(is_key ? ":,{}[]" : ",{}[]", c)) continue;
        call->scan = 0;
        *n = at;
        while (at > 0 && answer_is_blank(text[at - 1])) at--;
        word_put(&call->json, text, at, is_key);
        return *n ? CALL_GOOD : CALL_BAD;
    }
    return CALL_MORE;
}

static enum call_verdict token_next(const struct call_run *run, const char *text, size_t len,
                                    size_t *n) {
    const char *const quote = run->parts->marks.tools.quote;
    struct parts_call *const call = run->call;
    if (call->literal.in_string) return string_next(run, text, len, n);
    *n = 1;
    if (call->scan == 0) {
        if (answer_is_blank(text[0])) return CALL_GOOD;
        if (text[0] && strchr("{}[],:", text[0])) {
            jbuf_bytes(&call->json, text, 1);
            return CALL_GOOD;
        }
        if (call_may_start(text, len, quote)) return CALL_MORE;
        if (call_starts(text, len, quote)) {
            call->literal.in_string = true;
            jbuf_bytes(&call->json, "\"", 1);
            *n = strlen(quote);
            return CALL_GOOD;
        }
    }
    return word_next(run, text, len, n);
}

enum call_verdict pairs_read(struct call_run *run) {
    struct parts_call *const call = run->call;
    if (!call->name_len) {
        const enum call_verdict verdict = name_read(run);
        if (verdict != CALL_GOOD) return verdict;
    }
    while (call->at < run->len) {
        size_t len, n;
        const char *const text = call_rest(run, &len);
        jbuf_clear(&call->json);
        const enum call_verdict verdict = token_next(run, text, len, &n);
        if (verdict != CALL_GOOD) return verdict;
        if (call->json.failed || !call_put(run, call->json.data, call->json.len, call->at + n))
            return CALL_BAD;
        call->at += n;
        if (call->is_complete) return CALL_GOOD;
    }
    return CALL_MORE;
}

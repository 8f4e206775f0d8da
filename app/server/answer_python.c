// Python's calls: names and keyword arguments, whose values are literals (answer_literals.h). The
// arguments become a JSON object.
#include "answer_python.h"

#include <string.h>

#include "answer_literals.h"

enum state {
    STATE_FIRST,  // before all calls
    STATE_NAME,   // a call is due
    STATE_OPEN,   // behind its name
    STATE_KEY,    // an argument is due, or the end of the call
    STATE_EQUALS, // behind its key
    STATE_VALUE,
    STATE_BEHIND, // behind its value
    STATE_NEXT,   // behind a call of a list
    STATE_COMMA,  // and the comma
};

// Puts JSON and takes n bytes of the text.
static enum call_verdict take(struct call_run *run, const char *json, size_t n, int state) {
    struct parts_call *const call = run->call;
    if (!call_put(run, json, strlen(json), call->at + n)) return CALL_BAD;
    call->at += n;
    call->state = state;
    return CALL_GOOD;
}

static enum call_verdict name_read(struct call_run *run) {
    size_t len, n;
    const char *const text = call_rest(run, &len);
    const enum call_verdict verdict = literal_name(text, len, &n);
    if (verdict != CALL_GOOD) return verdict;
    call_start(run);
    if (!call_name(run, text, n)) return CALL_BAD;
    return take(run, "", n, STATE_OPEN);
}

static enum call_verdict key_read(struct call_run *run) {
    struct parts_call *const call = run->call;
    size_t len, n;
    const char *const text = call_rest(run, &len);
    const enum call_verdict verdict = literal_name(text, len, &n);
    if (verdict != CALL_GOOD) return verdict;
    jbuf_clear(&call->json);
    if (!json_walk_wants_key(&call->walk)) jbuf_bytes(&call->json, ",", 1);
    jbuf_string(&call->json, text, n);
    jbuf_bytes(&call->json, ":", 1);
    if (call->json.failed || !call_put(run, call->json.data, call->json.len, call->at + n))
        return CALL_BAD;
    return take(run, "", n, STATE_EQUALS);
}

static enum call_verdict value_read(struct call_run *run) {
    struct parts_call *const call = run->call;
    size_t len, n;
    const char *const text = call_rest(run, &len);
    jbuf_clear(&call->json);
    enum call_verdict verdict =
        literal_next(&call->literal, &call->walk, text, len, &n, &call->json);
    if (verdict == CALL_MORE) return CALL_MORE;
    if (call->json.failed ||
        (verdict == CALL_GOOD && !call_put(run, call->json.data, call->json.len, call->at + n)))
        verdict = CALL_BAD;
    if (verdict == CALL_BAD) {
        call->at += n;
        return CALL_BAD;
    }
    const bool ends = call->walk.depth == 1 && json_walk_is_behind(&call->walk);
    return take(run, "", n, ends ? STATE_BEHIND : STATE_VALUE);
}

static enum call_verdict call_end(struct call_run *run) {
    const enum call_verdict verdict = take(run, "}", 1, STATE_NEXT);
    if (verdict == CALL_GOOD) call_flush(run);
    return verdict;
}

static enum call_verdict step(struct call_run *run) {
    struct parts_call *const call = run->call;
    const char c = run->text[call->at];
    switch (call->state) {
    case STATE_FIRST:
        call->is_list = c == '[';
        return take(run, "", call->is_list, STATE_NAME);
    case STATE_NAME:
        return name_read(run);
    case STATE_OPEN:
        return c == '(' ? take(run, "{", 1, STATE_KEY) : CALL_BAD;
    case STATE_KEY:
        return c == ')' ? call_end(run) : key_read(run);
    case STATE_EQUALS:
        return c == '=' ? take(run, "", 1, STATE_VALUE) : CALL_BAD;
    case STATE_BEHIND:
        if (c == ',') return take(run, "", 1, STATE_KEY);
        return c == ')' ? call_end(run) : CALL_BAD;
    case STATE_NEXT:
        return c == ',' ? take(run, "", 1, STATE_COMMA) : CALL_BAD;
    default:
        return take(run, "", 0, STATE_NAME);
    }
}

enum call_verdict python_read(struct call_run *run) {
    struct parts_call *const call = run->call;
    for (;;) {
        if (call->state == STATE_NEXT && !call->is_list) return CALL_GOOD;
        if (!call->literal.in_string) call->at = call_blanks(run->text, run->len, call->at);
        if (call->at == run->len) return CALL_MORE;
        const bool ends = call->state == STATE_NEXT || call->state == STATE_COMMA;
        if (ends && run->text[call->at] == ']') {
            call->at++;
            return CALL_GOOD;
        }
        const enum call_verdict verdict = call->state == STATE_VALUE ? value_read(run) : step(run);
        if (verdict != CALL_GOOD) return verdict;
    }
}

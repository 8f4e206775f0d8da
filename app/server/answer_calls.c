// Tool calls: the text behind an opening mark becomes names and arguments. A call has one of five
// forms. It is one JSON value with name and arguments, or an array of them, perhaps with Python's
// quotes (answer_objects.h); a name, a separator and a JSON object; a name and arguments between
// tags (answer_tags.h); a list of Python's calls (answer_python.h); or a name and pairs
// (answer_pairs.h). A reader looks at no byte twice, except for tokens of bounded length, and never
// depends on where the pieces of a text ended.
#define _GNU_SOURCE // memmem
#include "answer_calls.h"

#include <assert.h>
#include <string.h>

#include "answer_objects.h"
#include "answer_pairs.h"
#include "answer_python.h"
#include "answer_tags.h"
#include "helpers.h"

enum {
    PREFIX_MAX_BYTES = 256, // white space where nothing else is expected
    CALLS_MAX = 128,        // of an answer
};

#define FENCE "```json"

// ---------------------------------------------------------------- text

const char *call_find(const char *text, size_t len, const char *mark) {
    return memmem(text, len, mark, strlen(mark));
}

bool call_starts(const char *text, size_t len, const char *mark) {
    const size_t n = strlen(mark);
    return len >= n && memcmp(text, mark, n) == 0;
}

bool call_may_start(const char *text, size_t len, const char *mark) {
    return len < strlen(mark) && memcmp(text, mark, len) == 0;
}

size_t call_edge(const char *text, size_t len, const char *mark) {
    const char *const found = call_find(text, len, mark);
    if (found) return (size_t)(found - text);
    const size_t n = strlen(mark);
    size_t at = len < n ? 0 : len - n + 1;
    while (at < len && !call_may_start(text + at, len - at, mark)) at++;
    return at;
}

size_t call_blanks(const char *text, size_t len, size_t at) {
    while (at < len && answer_is_blank(text[at])) at++;
    return at;
}

void call_trim(const char **text, size_t *len) {
    while (*len && answer_is_blank(**text)) (*text)++, (*len)--;
    while (*len && answer_is_blank((*text)[*len - 1])) (*len)--;
}

size_t call_whole_characters(const char *text, size_t n) {
    for (size_t i = 1; i <= 3 && i <= n; i++) {
        const unsigned char c = (unsigned char)text[n - i];
        if ((c & 0xC0) == 0x80) continue;
        const size_t length = c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
        return length > i ? n - i : n;
    }
    return n;
}

// ---------------------------------------------------------------- one call

void call_start(struct call_run *run) {
    struct parts_call *const call = run->call;
    call->name_len = 0;
    call->walk = (struct json_walk){0};
    call->is_open = call->is_complete = false;
    jbuf_clear(&call->text);
}

bool call_name(struct call_run *run, const char *name, size_t len) {
    struct parts_call *const call = run->call;
    call_trim(&name, &len);
    if (len == 0 || len > CALL_NAME_MAX || run->parts->n_tools >= CALLS_MAX) return false;
    memmove(call->name, name, len);
    call->name_len = len;
    return true;
}

// The arguments so far, up to `text` of their bytes, stand for the first `at` bytes of the text.
static void safe_set(struct parts_call *call, size_t text, size_t at) {
    if (!call->name_len) return;
    call->safe_text = text;
    call->safe_at = at;
}

static bool byte_put(struct parts_call *call, char c, size_t end) {
    if (call->walk.depth == 0 && !call->is_complete && c != '{' && !answer_is_blank(c))
        return false;
    const unsigned events = json_walk_push(&call->walk, c);
    if (events & JSON_FAULT) return false;
    if (call->walk.depth == 0 && !(events & JSON_END)) return true; // a blank around them
    if (events & JSON_NUMBER_END) safe_set(call, call->text.len, call->put_at);
    jbuf_bytes(&call->text, &c, 1);
    call->put_at = end;
    call->is_complete = call->walk.depth == 0;
    if (events & JSON_END || (events & JSON_CHAR && !call->walk.is_key))
        safe_set(call, call->text.len, end);
    return true;
}

struct call_place call_place_of(const struct parts_call *call) {
    return (struct call_place){.walk = call->walk,
                               .text = call->text.len,
                               .safe_text = call->safe_text,
                               .safe_at = call->safe_at,
                               .is_complete = call->is_complete};
}

void call_return(struct parts_call *call, const struct call_place *place) {
    call->walk = place->walk;
    call->text.len = place->text;
    call->safe_text = place->safe_text;
    call->safe_at = place->safe_at;
    call->is_complete = place->is_complete;
}

bool call_put(struct call_run *run, const char *json, size_t len, size_t end) {
    struct parts_call *const call = run->call;
    const struct call_place before = call_place_of(call);
    for (size_t i = 0; i < len; i++) {
        if (byte_put(call, json[i], end) && !call->text.failed) continue;
        call_return(call, &before); // the held text has the token, from call->at on
        return false;
    }
    return true;
}

bool call_close(struct call_run *run, size_t end) {
    struct parts_call *const call = run->call;
    if (!call->name_len) return false;
    safe_set(call, call->text.len, end);
    call_flush(run);
    return true;
}

void call_flush(struct call_run *run) {
    struct parts_call *const call = run->call;
    if (!call->safe_text) return;
    if (!call->is_open) {
        call->is_open = true;
        call->n_calls++;
        call->tool = run->parts->n_tools++;
        run->fn(run->ctx, PART_TOOL, call->tool, call->name, call->name_len);
    }
    run->fn(run->ctx, PART_TOOL_ARGUMENTS, call->tool, call->text.data, call->safe_text);
    jbuf_drop(&call->text, call->safe_text);
    call->safe_text = 0;
    if (call->is_complete) run->fn(run->ctx, PART_TOOL_END, call->tool, "", 0);
}

// ---------------------------------------------------------------- forms

// The arguments alone, as JSON.
static enum call_verdict arguments_read(struct call_run *run) {
    struct parts_call *const call = run->call;
    for (; call->at < run->len; call->at++) {
        if (!call_put(run, run->text + call->at, 1, call->at + 1)) return CALL_BAD;
        if (!call->is_complete) continue;
        call->at++;
        return CALL_GOOD;
    }
    return CALL_MORE;
}

enum form {
    FORM_NONE,
    FORM_ARGUMENTS,
    FORM_JSON,
    FORM_DICTIONARY,
    FORM_PYTHON,
    FORM_PAIRS,
    FORM_TAGS
};

static enum call_verdict (*const readers[])(struct call_run *run) = {
    [FORM_ARGUMENTS] = arguments_read,
    [FORM_JSON] = objects_read,
    [FORM_DICTIONARY] = objects_read_python,
    [FORM_PYTHON] = python_read,
    [FORM_PAIRS] = pairs_read,
    [FORM_TAGS] = tags_read,
};

// ---------------------------------------------------------------- name, separator, arguments

// "functions.clock:0" and "clock[CALL_ID]x1" are clock.
static void name_clean(const char **name, size_t *len) {
    const char *const id = call_find(*name, *len, "[CALL_ID]");
    if (id) *len = (size_t)(id - *name);
    call_trim(name, len);
    if (call_starts(*name, *len, "functions.")) *name += 10, *len -= 10;
    size_t end = *len;
    while (end > 0 && (*name)[end - 1] >= '0' && (*name)[end - 1] <= '9') end--;
    if (end < *len && end > 0 && (*name)[end - 1] == ':') *len = end - 1;
}

// The mark, not further than a name may be long. GOOD: *at is its place.
static enum call_verdict mark_find(const char *text, size_t len, size_t from, const char *mark,
                                   size_t *at) {
    const size_t most = CALL_NAME_MAX + strlen(mark);
    const size_t n = len - from < most ? len - from : most;
    const char *const found = call_find(text + from, n, mark);
    if (found) {
        *at = (size_t)(found - text);
        return CALL_GOOD;
    }
    return n < most ? CALL_MORE : CALL_BAD;
}

// Blanks behind a mark at *at, which is moved behind them. BAD: there are too many.
static enum call_verdict mark_skip(const char *text, size_t len, const char *mark, size_t *at) {
    const size_t begin = *at;
    *at = call_blanks(text, len, begin + strlen(mark));
    if (*at - begin > PREFIX_MAX_BYTES) return CALL_BAD;
    return *at < len ? CALL_GOOD : CALL_MORE;
}

// The name of the call at call->at. GOOD: call->at is at its arguments.
static enum call_verdict named_find(struct call_run *run) {
    const char *const separator = run->parts->marks.tools.separator, *const text = run->text;
    const size_t len = run->len;
    size_t begin = run->call->at, end, at;
    enum call_verdict verdict = mark_find(text, len, begin, separator, &end);
    if (verdict != CALL_GOOD) return verdict;
    at = end;
    verdict = mark_skip(text, len, separator, &at);
    if (verdict != CALL_GOOD) return verdict;
    if (text[at] != '{') { // the name comes behind the separator, the arguments in a fence
        begin = at;
        verdict = mark_find(text, len, begin, FENCE, &end);
        if (verdict != CALL_GOOD) return verdict;
        at = end;
        verdict = mark_skip(text, len, FENCE, &at);
        if (verdict != CALL_GOOD) return verdict;
        if (text[at] != '{') return CALL_BAD;
    }
    const char *name = text + begin;
    size_t name_len = end - begin;
    name_clean(&name, &name_len);
    if (!call_name(run, name, name_len)) return CALL_BAD;
    run->call->at = at;
    return CALL_GOOD;
}

// ---------------------------------------------------------------- which form

// The first byte from `begin` on that is neither blank nor one of `more`. BAD: it is far away.
static enum call_verdict first_byte(const char *text, size_t len, size_t begin, const char *more,
                                    char *out) {
    for (size_t at = begin; at - begin <= PREFIX_MAX_BYTES; at++) {
        if (at == len) return CALL_MORE;
        *out = text[at];
        if (!answer_is_blank(*out) && (!*out || !strchr(more, *out))) return CALL_GOOD;
    }
    return CALL_BAD;
}

// A name and an opening bracket, perhaps with blanks around the name.
static enum call_verdict is_call(const char *text, size_t len, size_t begin) {
    char next = 0;
    const enum call_verdict verdict = first_byte(text, len, begin, "", &next);
    if (verdict != CALL_GOOD) return verdict;
    const size_t name = call_blanks(text, len, begin);
    size_t at = name;
    while (at < len && at - name <= CALL_NAME_MAX && !answer_is_blank(text[at]) &&
           !strchr("()[]{}<>\"'=,:;", text[at]))
        at++;
    if (at < len && (at == name || at - name > CALL_NAME_MAX)) return CALL_BAD;
    const enum call_verdict bracket = first_byte(text, len, at, "", &next);
    if (bracket != CALL_GOOD) return bracket;
    return next == '(' ? CALL_GOOD : CALL_BAD;
}

// Whether calls of Python's come at `begin`. BAD: other text, JSON perhaps. MORE: not known yet.
static enum call_verdict is_python(const char *text, size_t len, size_t begin) {
    return is_call(text, len, begin + (text[begin] == '['));
}

// Whether a value at `begin` is JSON as Python writes it: its first string has single quotes.
static enum call_verdict is_dictionary(const char *text, size_t len, size_t begin) {
    char first = 0;
    const enum call_verdict verdict = first_byte(text, len, begin, "[{", &first);
    if (verdict != CALL_GOOD) return verdict;
    return first == '\'' ? CALL_GOOD : CALL_BAD;
}

// Moves *at to the call's own text. MORE: the text ends before it. Blanks are bounded before an
// inner mark too: the text is looked at again with each piece.
static enum call_verdict prefix_skip(const struct tool_marks *style, const char *text, size_t len,
                                     size_t *at) {
    const size_t begin = *at;
    *at = call_blanks(text, len, begin);
    for (int i = 0; style->inner[i] && *at - begin <= PREFIX_MAX_BYTES; i++) {
        if (call_may_start(text + *at, len - *at, style->inner[i])) return CALL_MORE;
        if (call_starts(text + *at, len - *at, style->inner[i]))
            *at = call_blanks(text, len, *at + strlen(style->inner[i]));
    }
    if (*at - begin > PREFIX_MAX_BYTES) {
        *at = begin + PREFIX_MAX_BYTES; // however much more has come
        return CALL_BAD;
    }
    return *at < len ? CALL_GOOD : CALL_MORE;
}

static enum call_verdict form_find(struct call_run *run) {
    const struct tool_marks *const style = &run->parts->marks.tools;
    struct parts_call *const call = run->call;
    const char first = run->text[call->at];
    if (style->python) {
        const enum call_verdict verdict = is_python(run->text, run->len, call->at);
        if (verdict == CALL_GOOD) call->form = FORM_PYTHON;
        if (verdict != CALL_BAD) return verdict;
    }
    if (style->quote) {
        call->form = FORM_PAIRS;
    } else if (first == '{' || first == '[') {
        const enum call_verdict verdict = is_dictionary(run->text, run->len, call->at);
        if (verdict == CALL_MORE) return CALL_MORE;
        call->form = verdict == CALL_GOOD ? FORM_DICTIONARY : FORM_JSON;
    } else if (style->tags) {
        call->form = FORM_TAGS;
    } else if (style->separator) {
        const enum call_verdict verdict = named_find(run);
        if (verdict != CALL_GOOD) return verdict;
        call->form = FORM_ARGUMENTS;
    }
    return call->form ? CALL_GOOD : CALL_BAD;
}

// Before the form is known the text is looked at from the mark on again: it is short.
static enum call_verdict form_read(struct call_run *run) {
    struct parts_call *const call = run->call;
    const size_t mark_len = call->at;
    enum call_verdict verdict =
        prefix_skip(&run->parts->marks.tools, run->text, run->len, &call->at);
    if (verdict == CALL_GOOD) verdict = form_find(run);
    if (verdict == CALL_MORE) call->at = mark_len;
    return verdict;
}

// ---------------------------------------------------------------- the entry

void parts_call_begin(struct answer_parts *parts, size_t mark_len) {
    struct parts_call *const call = &parts->call;
    const struct jbuf text = call->text, json = call->json; // their memory stays
    *call = (struct parts_call){.at = mark_len, .text = text, .json = json};
    jbuf_clear(&call->text);
}

bool parts_call_named(struct answer_parts *parts, const char *name, size_t len, size_t mark_len) {
    struct call_run run = {.parts = parts, .call = &parts->call};
    parts_call_begin(parts, mark_len);
    parts->call.form = FORM_ARGUMENTS;
    return call_name(&run, name, len);
}

enum call_verdict parts_call_read(struct answer_parts *parts, const char *text, size_t len,
                                  struct call_read *read, parts_fn fn, void *ctx) {
    struct parts_call *const call = &parts->call;
    struct call_run run = {parts, call, text, len, fn, ctx};
    enum call_verdict verdict = call->form ? CALL_GOOD : form_read(&run);
    if (verdict == CALL_GOOD) verdict = readers[call->form](&run);
    call_flush(&run);
    assert(call->safe_at <= call->at);
    *read = (struct call_read){.done = call->safe_at, .end = call->at};
    call->at -= call->safe_at;
    call->put_at -= call->put_at < call->safe_at ? call->put_at : call->safe_at;
    call->safe_at = 0;
    return verdict;
}

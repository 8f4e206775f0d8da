// Calls between tags: a name, then keys and values. Tags carry no type: the tool declares the kinds
// of a value (answer_types.h). A value that is certain to be a string is let out as it comes;
// another value is held up to its end.
#include "answer_tags.h"

#include <string.h>

#include "answer_literals.h"
#include "answer_types.h"
#include "helpers.h"

enum { KEY_MAX_BYTES = 1024 };

enum state {
    STATE_NAME,
    STATE_GAP,   // a key is due, or the end of the call
    STATE_KEY,   // behind the mark that opens a key
    STATE_OPEN,  // behind the key
    STATE_VALUE, // within the value
};

enum { KIND_STRING = 1u << JREAD_STRING, KIND_NONE = 1u << JREAD_ERROR };

// ---------------------------------------------------------------- names and keys

// Where the name ends. GOOD: *end is there, *next behind its end mark.
static enum call_verdict name_find(const struct tag_marks *tags, const char *text, size_t len,
                                   size_t *end, size_t *next) {
    const size_t mark_len = tags->name_close ? strlen(tags->name_close) : 0;
    for (*end = 0; *end <= CALL_NAME_MAX; ++*end) {
        if (*end == len) return CALL_MORE;
        *next = *end + mark_len;
        const char *const at = text + *end;
        if (tags->name_close && call_may_start(at, len - *end, tags->name_close)) return CALL_MORE;
        if (tags->name_close ? call_starts(at, len - *end, tags->name_close)
                             : *at == '\n' || *at == '<')
            return CALL_GOOD;
    }
    return CALL_BAD;
}

static enum call_verdict name_read(struct call_run *run) {
    const struct tag_marks *const tags = run->parts->marks.tools.tags;
    struct parts_call *const call = run->call;
    size_t len, end, next;
    const char *text = call_rest(run, &len);
    if (!call_starts(text, len, tags->name_open))
        return call_may_start(text, len, tags->name_open) ? CALL_MORE : CALL_BAD;
    const size_t open_len = strlen(tags->name_open);
    text += open_len;
    const enum call_verdict verdict = name_find(tags, text, len - open_len, &end, &next);
    if (verdict != CALL_GOOD) return verdict;
    if (!call_name(run, text, end)) return CALL_BAD;
    call->tag.types = answer_types_function(run->parts->types, call->name, call->name_len);
    call->at += open_len + next;
    call->state = STATE_GAP;
    return call_put(run, "{", 1, call->at) ? CALL_GOOD : CALL_BAD;
}

static enum call_verdict gap_read(struct call_run *run) {
    const struct tag_marks *const tags = run->parts->marks.tools.tags;
    struct parts_call *const call = run->call;
    size_t len;
    call->at = call_blanks(run->text, run->len, call->at);
    const char *const text = call_rest(run, &len);
    if (call_starts(text, len, tags->end)) {
        const size_t end = call->at + strlen(tags->end);
        if (!call_put(run, "}", 1, end)) return CALL_BAD;
        call->at = end;
        return CALL_GOOD;
    }
    if (call_starts(text, len, tags->key_open)) {
        call->at += strlen(tags->key_open);
        call->state = STATE_KEY;
        return CALL_GOOD;
    }
    const bool may =
        call_may_start(text, len, tags->end) || call_may_start(text, len, tags->key_open);
    return may ? CALL_MORE : CALL_BAD;
}

// The key and the mark that ends it, before the call's end. A mark of its own says that a string
// follows.
static enum call_verdict key_find(const struct tag_marks *tags, const char *text, size_t len,
                                  size_t *end, size_t *next, bool *is_text) {
    const size_t n = len < KEY_MAX_BYTES ? len : KEY_MAX_BYTES;
    const char *const close = call_find(text, n, tags->key_close);
    const char *const text_close = tags->text_close ? call_find(text, n, tags->text_close) : NULL;
    *is_text = text_close && (!close || text_close < close);
    const char *const found = *is_text ? text_close : close;
    const char *const call_end = call_find(text, n, tags->end);
    if (call_end && (!found || call_end < found)) return CALL_BAD;
    if (!found) return n < KEY_MAX_BYTES ? CALL_MORE : CALL_BAD;
    *end = (size_t)(found - text);
    *next = *end + strlen(*is_text ? tags->text_close : tags->key_close);
    return CALL_GOOD;
}

static bool json_put(struct call_run *run, size_t end) {
    const struct jbuf *const json = &run->call->json;
    return !json->failed && call_put(run, json->data, json->len, end);
}

static enum call_verdict key_read(struct call_run *run) {
    const struct tag_marks *const tags = run->parts->marks.tools.tags;
    struct parts_call *const call = run->call;
    size_t len, end, next;
    bool is_text;
    const char *const text = call_rest(run, &len);
    const enum call_verdict verdict = key_find(tags, text, len, &end, &next, &is_text);
    if (verdict != CALL_GOOD) return verdict;
    jbuf_clear(&call->json);
    if (!json_walk_wants_key(&call->walk)) jbuf_bytes(&call->json, ",", 1);
    jbuf_string(&call->json, text, end);
    jbuf_bytes(&call->json, ":", 1);
    if (!json_put(run, call->at + next)) return CALL_BAD;
    call->tag.kinds =
        is_text ? (unsigned)KIND_STRING : answer_types_kinds(call->tag.types, text, end);
    call->at += next;
    call->state = STATE_OPEN;
    return CALL_GOOD;
}

// ---------------------------------------------------------------- values

static enum call_verdict open_read(struct call_run *run) {
    const char *const open = run->parts->marks.tools.tags->value_open;
    struct parts_call *const call = run->call;
    size_t len;
    if (open[0]) call->at = call_blanks(run->text, run->len, call->at);
    const char *const text = call_rest(run, &len);
    if (len == 0 || call_may_start(text, len, open)) return CALL_MORE;
    if (!call_starts(text, len, open)) return CALL_BAD;
    call->at += open[0] ? strlen(open) : text[0] == '\n'; // a line break is not part of the value
    call->state = STATE_VALUE;
    call->scan = 0;
    call->tag.is_string = call->tag.has_walk = false;
    call->tag.walk = (struct json_walk){0};
    return CALL_GOOD;
}

static enum jread_kind kind_of(const char *text, size_t len) {
    struct jread r;
    jread_init(&r, text, len);
    const enum jread_kind kind = jread_peek(&r);
    return jread_skip(&r) && jread_finish(&r) ? kind : JREAD_ERROR;
}

// The kinds of JSON that are taken for more than text.
static unsigned kinds_taken(unsigned kinds) {
    return kinds & KIND_STRING ? kinds & ~(unsigned)KIND_STRING
                               : ~(unsigned)(KIND_STRING | KIND_NONE);
}

// A parameter that may be a string takes JSON of its other kinds alone; any other text is a string.
// Else JSON is written as it is, unless it is a string. So is Python's way to write a declared kind
// or null, since templates write such values. kinds 0: not known.
static void value_put(struct jbuf *out, const char *text, size_t len, unsigned kinds) {
    const char *bare = text;
    size_t n = len;
    call_trim(&bare, &n);
    if (1u << kind_of(bare, n) & kinds_taken(kinds)) {
        jbuf_bytes(out, bare, n);
        return;
    }
    const size_t before = out->len;
    if (kinds && !(kinds & KIND_STRING) && literal_put(out, bare, n)) {
        const unsigned good = kinds | 1u << JREAD_NULL;
        if (out->failed || 1u << kind_of(out->data + before, out->len - before) & good) return;
        out->len = before;
    }
    jbuf_string(out, text, len);
}

// Whether the value with this byte cannot be anything but a string.
static bool byte_is_text(struct call_tag *tag, char c) {
    if (answer_is_blank(c) && !tag->has_walk) return false;
    if (!tag->has_walk) {
        struct jread r;
        jread_init(&r, &c, 1);
        if (!(1u << jread_peek(&r) & kinds_taken(tag->kinds))) return true;
    }
    tag->has_walk = true;
    return json_walk_push(&tag->walk, c) & JSON_FAULT;
}

static bool is_text(struct parts_call *call, const char *text, size_t len) {
    const unsigned kinds = call->tag.kinds;
    if (kinds && !(kinds & KIND_STRING)) call->scan = len; // Python's literals may come
    for (; call->scan < len; call->scan++)
        if (byte_is_text(&call->tag, text[call->scan])) return true;
    return false;
}

// A value that is whole, or the rest of a string: n bytes, and the end mark. JSON that is nested
// too deeply within the arguments is a string, too.
static enum call_verdict value_end(struct call_run *run, const char *text, size_t n, size_t end) {
    struct parts_call *const call = run->call;
    jbuf_clear(&call->json);
    if (call->tag.is_string) {
        jbuf_escape(&call->json, text, n);
        jbuf_bytes(&call->json, "\"", 1);
    } else {
        value_put(&call->json, text, n, call->tag.kinds);
    }
    bool good = json_put(run, end);
    if (!good && !call->tag.is_string) {
        jbuf_clear(&call->json);
        jbuf_string(&call->json, text, n);
        good = json_put(run, end);
    }
    if (!good) return CALL_BAD;
    call->at = end;
    call->state = STATE_GAP;
    return CALL_GOOD;
}

// The first n bytes of the value's rest, which are certain. MORE: they are no certain string.
static enum call_verdict value_go(struct call_run *run, const char *text, size_t n) {
    struct parts_call *const call = run->call;
    jbuf_clear(&call->json);
    if (!call->tag.is_string) {
        if (!is_text(call, text, n)) return CALL_MORE;
        call->tag.is_string = true;
        jbuf_bytes(&call->json, "\"", 1);
    }
    n = call_whole_characters(text, n);
    jbuf_escape(&call->json, text, n);
    if (!json_put(run, call->at + n)) return CALL_BAD;
    call->at += n;
    return CALL_MORE;
}

static enum call_verdict value_read(struct call_run *run) {
    const struct tag_marks *const tags = run->parts->marks.tools.tags;
    struct parts_call *const call = run->call;
    size_t len;
    const char *const text = call_rest(run, &len);
    const size_t from = call->tag.is_string ? 0 : call->scan;
    size_t n = from + call_edge(text + from, len - from, tags->value_close);
    const bool ends = call_starts(text + n, len - n, tags->value_close);
    const size_t end = call->at + n + strlen(tags->value_close);
    if (!tags->value_open[0] && n > 0 && text[n - 1] == '\n') n--; // not part of the value
    return ends ? value_end(run, text, n, end) : value_go(run, text, n);
}

enum call_verdict tags_read(struct call_run *run) {
    static enum call_verdict (*const steps[])(struct call_run * run) = {
        [STATE_NAME] = name_read, [STATE_GAP] = gap_read,     [STATE_KEY] = key_read,
        [STATE_OPEN] = open_read, [STATE_VALUE] = value_read,
    };
    enum call_verdict verdict;
    do {
        verdict = steps[run->call->state](run);
    } while (verdict == CALL_GOOD && !run->call->is_complete);
    return verdict;
}

// Tool calls: the text behind an opening mark becomes names and arguments. A call has one of five
// forms. It is one JSON value with name and arguments, or an array of them, perhaps with Python's
// quotes; a name, a separator and a JSON object; a name and arguments between tags; a list of
// Python's calls; or a name and pairs (answer_pairs.h). Called by answer_parts.c, piece by piece.
// The search for the end of a call continues where the last piece ended. A call is read once, when
// it is complete.
#define _GNU_SOURCE // memmem
#include <string.h>

#include "answer_calls.h"
#include "answer_pairs.h"
#include "answer_python.h"
#include "answer_types.h"
#include "helpers.h"

enum {
    NAME_MAX_BYTES = 256,
    PREFIX_MAX_BYTES = 256, // white space where nothing else is expected
    CALLS_MAX = 128,        // of an answer
    TRIES_MAX = 64,         // ends of a call that are inside of a value
};

#define FENCE "```json"

static const char *find(const char *text, size_t len, const char *mark) {
    return memmem(text, len, mark, strlen(mark));
}

static bool starts(const char *text, size_t len, const char *mark) {
    const size_t n = strlen(mark);
    return len >= n && memcmp(text, mark, n) == 0;
}

// The text ends inside of the mark.
static bool may_start(const char *text, size_t len, const char *mark) {
    return len < strlen(mark) && memcmp(text, mark, len) == 0;
}

static size_t skip_blanks(const char *text, size_t len, size_t at) {
    while (at < len && answer_is_blank(text[at])) at++;
    return at;
}

static void trim(const char **text, size_t *len) {
    while (*len && answer_is_blank(**text)) (*text)++, (*len)--;
    while (*len && answer_is_blank((*text)[*len - 1])) (*len)--;
}

// ---------------------------------------------------------------- one call

static bool is_json(const char *text, size_t len, enum jread_kind kind) {
    struct jread r;
    jread_init(&r, text, len);
    return jread_peek(&r) == kind && jread_skip(&r) && jread_finish(&r);
}

bool parts_call_put(struct answer_parts *parts, const char *name, size_t name_len,
                    const char *arguments, size_t len, parts_fn fn, void *ctx) {
    trim(&name, &name_len);
    trim(&arguments, &len);
    if (name_len == 0 || name_len > NAME_MAX_BYTES || parts->n_tools >= CALLS_MAX) return false;
    if (!is_json(arguments, len, JREAD_OBJECT)) return false;
    const int tool = parts->n_tools++;
    fn(ctx, PART_TOOL, tool, name, name_len);
    fn(ctx, PART_TOOL_ARGUMENTS, tool, arguments, len);
    return true;
}

// ---------------------------------------------------------------- calls as JSON

struct call_view {
    struct jread_text name;
    const char *arguments; // NULL: none
    size_t arguments_len;
    struct jread_text last_key; // of the other members, with the value
    const char *last;
    size_t last_len;
    int n_members;
};

static bool is_one_of(const struct jread_text *key, const char *const *names) {
    while (*names && !jread_equals(key, *names)) names++;
    return *names != NULL;
}

// The members of an object that comes next; {"function": {"name": ...}} is looked into.
static void view_members(struct jread *r, struct call_view *view, int nested) {
    static const char *const names[] = {"name", "function", "tool_name", NULL};
    static const char *const arguments[] = {"arguments", "parameters", NULL};
    struct jread_text key;
    jread_enter_object(r);
    while (jread_next_key(r, &key)) {
        const enum jread_kind kind = jread_peek(r);
        if (is_one_of(&key, names) && kind == JREAD_STRING) {
            jread_string(r, &view->name);
        } else if (is_one_of(&key, arguments)) {
            jread_raw(r, &view->arguments, &view->arguments_len);
        } else if (jread_equals(&key, "function") && kind == JREAD_OBJECT && !nested) {
            view_members(r, view, 1);
        } else {
            view->last_key = key;
            jread_raw(r, &view->last, &view->last_len);
        }
        view->n_members++;
    }
}

// {"name": {arguments}}
static void view_keyed(struct call_view *view) {
    if (view->n_members != 1 || !view->last || view->last[0] != '{') return;
    view->name = view->last_key;
    view->arguments = view->last;
    view->arguments_len = view->last_len;
}

static void view_read(const struct answer_parts *parts, struct jread *r, struct call_view *view) {
    *view = (struct call_view){0};
    view_members(r, view, 0);
    if (parts->marks.tools.keyed) view_keyed(view);
}

// Arguments are an object, or a string that holds one. Without a mark before it, an object is a
// call only if it has them.
static bool view_is_valid(struct answer_parts *parts, const struct call_view *view) {
    if (!view->name.data || view->name.len == 0) return false;
    if (!view->arguments) return !parts->marks.tools.bare;
    if (view->arguments[0] != '"') return view->arguments[0] == '{';
    struct jread r;
    struct jread_text text;
    jread_init(&r, view->arguments, view->arguments_len);
    jbuf_clear(&parts->scratch);
    if (!jread_string(&r, &text) || !jbuf_reserve(&parts->scratch, text.len + 1)) return false;
    parts->scratch.len = jread_unescape(&text, parts->scratch.data);
    return is_json(parts->scratch.data, parts->scratch.len, JREAD_OBJECT);
}

static bool view_put(struct answer_parts *parts, const struct call_view *view, parts_fn fn,
                     void *ctx) {
    char name[6 * NAME_MAX_BYTES];
    if (view->name.len > sizeof name || !view_is_valid(parts, view)) return false;
    const size_t name_len = jread_unescape(&view->name, name);
    if (view->arguments && view->arguments[0] == '"')
        return parts_call_put(parts, name, name_len, parts->scratch.data, parts->scratch.len, fn,
                              ctx);
    const char *const arguments = view->arguments ? view->arguments : "{}";
    const size_t len = view->arguments ? view->arguments_len : 2;
    return parts_call_put(parts, name, name_len, arguments, len, fn, ctx);
}

static void count_put(void *ctx, enum answer_part part, int tool, const char *text, size_t len) {
    (void)ctx, (void)part, (void)tool, (void)text, (void)len;
}

// An object, or an array of objects. False: not all of them are calls.
static bool calls_walk(struct answer_parts *parts, const char *text, size_t len, parts_fn fn,
                       void *ctx) {
    struct jread r;
    jread_init(&r, text, len);
    struct call_view view;
    if (text[0] == '{') {
        view_read(parts, &r, &view);
        return jread_finish(&r) && view_put(parts, &view, fn, ctx);
    }
    int count = 0;
    jread_enter_array(&r);
    for (; jread_next_item(&r); count++) {
        if (jread_peek(&r) != JREAD_OBJECT) return false;
        view_read(parts, &r, &view);
        if (r.error || !view_put(parts, &view, fn, ctx)) return false;
    }
    return jread_finish(&r) && count > 0;
}

static bool json_calls_walk(struct answer_parts *parts, const char *text, size_t len, parts_fn fn,
                            void *ctx) {
    return is_json(text, len, text[0] == '{' ? JREAD_OBJECT : JREAD_ARRAY) &&
           calls_walk(parts, text, len, fn, ctx);
}

typedef bool (*walk_fn)(struct answer_parts *parts, const char *text, size_t len, parts_fn fn,
                        void *ctx);

// Nothing is let out unless all are calls, so a first walk only checks.
static bool calls_put(struct answer_parts *parts, walk_fn walk, const char *text, size_t len,
                      parts_fn fn, void *ctx) {
    const int n_tools = parts->n_tools;
    const bool valid = walk(parts, text, len, count_put, NULL);
    parts->n_tools = n_tools;
    return valid && walk(parts, text, len, fn, ctx);
}

// ---------------------------------------------------------------- the end of JSON

// Bytes that JSON may have outside of strings.
static bool is_json_byte(char c) { return c && strchr(" \t\r\n:,0123456789+-.eEtrufalsn", c); }

static enum call_verdict json_scan(struct parts_scan *scan, const char *text, size_t len,
                                   size_t *end) {
    for (; scan->at < len; scan->at++) {
        const char c = text[scan->at];
        *end = scan->at;
        if (scan->in_string) {
            if ((unsigned char)c < 0x20) return CALL_BAD;
            if (!scan->escaped && c == '"') scan->in_string = false;
            scan->escaped = !scan->escaped && c == '\\';
        } else if (c == '"') {
            scan->in_string = true;
        } else if (c == '{' || c == '[') {
            if (++scan->depth > JREAD_MAX_DEPTH) return CALL_BAD;
        } else if (c == '}' || c == ']') {
            if (--scan->depth > 0) continue;
            *end = ++scan->at;
            return CALL_GOOD;
        } else if (!is_json_byte(c)) {
            return CALL_BAD;
        }
    }
    return CALL_MORE;
}

// JSON that starts at `begin`.
static enum call_verdict json_find(struct answer_parts *parts, const char *text, size_t len,
                                   size_t begin, size_t *end) {
    if (!parts->scan.in_json)
        parts->scan = (struct parts_scan){.at = begin, .begin = begin, .in_json = true};
    return json_scan(&parts->scan, text, len, end);
}

// ---------------------------------------------------------------- name, separator, arguments

// "functions.clock:0" and "clock[CALL_ID]x1" are clock.
static void name_clean(const char **name, size_t *len) {
    const char *const id = find(*name, *len, "[CALL_ID]");
    if (id) *len = (size_t)(id - *name);
    trim(name, len);
    if (starts(*name, *len, "functions.")) *name += 10, *len -= 10;
    size_t end = *len;
    while (end > 0 && (*name)[end - 1] >= '0' && (*name)[end - 1] <= '9') end--;
    if (end < *len && end > 0 && (*name)[end - 1] == ':') *len = end - 1;
}

// The mark, not further than a name may be long. GOOD: *at is its place.
static enum call_verdict mark_find(const char *text, size_t len, size_t from, const char *mark,
                                   size_t *at) {
    const size_t most = NAME_MAX_BYTES + strlen(mark);
    const size_t n = len - from < most ? len - from : most;
    const char *const found = find(text + from, n, mark);
    if (found) {
        *at = (size_t)(found - text);
        return CALL_GOOD;
    }
    return n < most ? CALL_MORE : CALL_BAD;
}

static enum call_verdict named_read(struct answer_parts *parts, const char *text, size_t len,
                                    size_t begin, size_t *end, parts_fn fn, void *ctx) {
    const char *const separator = parts->marks.tools.separator;
    size_t name_begin = begin, name_end;
    *end = begin;
    enum call_verdict verdict = mark_find(text, len, begin, separator, &name_end);
    if (verdict != CALL_GOOD) return verdict;
    size_t at = skip_blanks(text, len, name_end + strlen(separator));
    if (at - name_end > PREFIX_MAX_BYTES) return CALL_BAD;
    if (at == len) return CALL_MORE;
    if (text[at] != '{') { // the name comes behind the separator, the arguments in a fence
        name_begin = at;
        verdict = mark_find(text, len, at, FENCE, &name_end);
        if (verdict != CALL_GOOD) return verdict;
        at = skip_blanks(text, len, name_end + strlen(FENCE));
        if (at - name_end > PREFIX_MAX_BYTES) return CALL_BAD;
        if (at == len) return CALL_MORE;
        if (text[at] != '{') return CALL_BAD;
    }
    verdict = json_find(parts, text, len, at, end);
    if (verdict != CALL_GOOD) return verdict;
    const char *name = text + name_begin;
    size_t name_len = name_end - name_begin;
    name_clean(&name, &name_len);
    const bool good = parts_call_put(parts, name, name_len, text + at, *end - at, fn, ctx);
    return good ? CALL_GOOD : CALL_BAD;
}

// ---------------------------------------------------------------- tags

static enum jread_kind kind_of(const char *text, size_t len) {
    struct jread r;
    jread_init(&r, text, len);
    const enum jread_kind kind = jread_peek(&r);
    return jread_skip(&r) && jread_finish(&r) ? kind : JREAD_ERROR;
}

// Tags carry no type. The tool declares the kinds (answer_types.h); 0: it is not known. A
// parameter that may be a string takes JSON of its other kinds alone; any other text is a string.
// Else JSON is written as it is, unless it is a string. So is Python's way to write a declared kind
// or null, since templates write such values.
static void value_put(struct jbuf *out, const char *text, size_t len, unsigned kinds) {
    const unsigned string = 1u << JREAD_STRING, any = ~(string | 1u << JREAD_ERROR);
    const char *bare = text;
    size_t n = len;
    trim(&bare, &n);
    const unsigned kind = 1u << kind_of(bare, n);
    if (kind & (kinds & string ? kinds & ~string : any)) {
        jbuf_bytes(out, bare, n);
        return;
    }
    const size_t before = out->len;
    if (kinds && !(kinds & string) && python_literal_put(out, bare, n)) {
        const unsigned good = kinds | 1u << JREAD_NULL;
        if (out->failed || 1u << kind_of(out->data + before, out->len - before) & good) return;
        out->len = before;
    }
    jbuf_string(out, text, len);
}

// The parameter at *at, which is moved behind it. MORE: its value does not end.
static enum call_verdict parameter_read(const struct tag_marks *tags, const json_t *types,
                                        const char *text, size_t len, size_t *at,
                                        struct jbuf *out) {
    if (!starts(text + *at, len - *at, tags->key_open)) return CALL_BAD;
    const size_t key = *at + strlen(tags->key_open);
    const char *key_end = find(text + key, len - key, tags->key_close);
    const size_t before = key_end ? (size_t)(key_end - text) - key : len - key;
    const char *const text_end =
        tags->text_close ? find(text + key, before, tags->text_close) : NULL;
    if (text_end) key_end = text_end;
    if (!key_end) return CALL_BAD;
    const size_t key_len = (size_t)(key_end - text) - key;
    size_t value = key + key_len + strlen(text_end ? tags->text_close : tags->key_close);
    if (tags->value_open[0]) {
        value = skip_blanks(text, len, value);
        if (!starts(text + value, len - value, tags->value_open)) return CALL_BAD;
        value += strlen(tags->value_open);
    }
    const char *const found = find(text + value, len - value, tags->value_close);
    if (!found) return CALL_MORE;
    size_t value_end = (size_t)(found - text);
    *at = value_end + strlen(tags->value_close);
    if (!tags->value_open[0]) {
        if (value < value_end && text[value] == '\n') value++;
        if (value < value_end && text[value_end - 1] == '\n') value_end--;
    }
    if (out->len > 1) jbuf_bytes(out, ",", 1);
    jbuf_string(out, text + key, key_len);
    jbuf_bytes(out, ":", 1);
    const unsigned kinds =
        text_end ? 1u << JREAD_STRING : answer_types_kinds(types, text + key, key_len);
    value_put(out, text + value, value_end - value, kinds);
    return CALL_GOOD;
}

// Where the name ends. GOOD: *name_end is there, *at behind its end mark.
static enum call_verdict tag_name_find(const struct tag_marks *tags, const char *text, size_t len,
                                       size_t from, size_t *name_end, size_t *at) {
    if (tags->name_close) {
        const enum call_verdict verdict = mark_find(text, len, from, tags->name_close, name_end);
        if (verdict == CALL_GOOD) *at = *name_end + strlen(tags->name_close);
        return verdict;
    }
    for (size_t i = from; i < len; i++) {
        if (i - from > NAME_MAX_BYTES) return CALL_BAD;
        if (text[i] != '\n' && text[i] != '<') continue;
        *name_end = *at = i;
        return CALL_GOOD;
    }
    return CALL_MORE;
}

// A call that ends at len.
static enum call_verdict tags_put(struct answer_parts *parts, const char *text, size_t len,
                                  size_t name, size_t name_end, size_t at, parts_fn fn, void *ctx) {
    const struct tag_marks *const tags = parts->marks.tools.tags;
    const char *bare = text + name;
    size_t bare_len = name_end - name;
    trim(&bare, &bare_len);
    const json_t *const types = answer_types_function(parts->types, bare, bare_len);
    struct jbuf *const out = &parts->scratch;
    jbuf_clear(out);
    jbuf_bytes(out, "{", 1);
    while ((at = skip_blanks(text, len, at)) < len) {
        const enum call_verdict verdict = parameter_read(tags, types, text, len, &at, out);
        if (verdict != CALL_GOOD) return verdict;
    }
    jbuf_bytes(out, "}", 1);
    if (out->failed) return CALL_BAD;
    const bool good =
        parts_call_put(parts, text + name, name_end - name, out->data, out->len, fn, ctx);
    return good ? CALL_GOOD : CALL_BAD;
}

static enum call_verdict tags_read(struct answer_parts *parts, const char *text, size_t len,
                                   size_t begin, size_t *end, parts_fn fn, void *ctx) {
    const struct tag_marks *const tags = parts->marks.tools.tags;
    struct parts_scan *const scan = &parts->scan;
    *end = begin;
    if (!starts(text + begin, len - begin, tags->name_open))
        return may_start(text + begin, len - begin, tags->name_open) ? CALL_MORE : CALL_BAD;
    const size_t name = begin + strlen(tags->name_open), end_len = strlen(tags->end);
    size_t name_end, at;
    enum call_verdict verdict = tag_name_find(tags, text, len, name, &name_end, &at);
    if (verdict != CALL_GOOD) return verdict;
    if (scan->at < at) scan->at = at;
    for (const char *found; (found = find(text + scan->at, len - scan->at, tags->end));) {
        scan->at = (size_t)(found - text) + end_len;
        *end = scan->at;
        verdict = tags_put(parts, text, (size_t)(found - text), name, name_end, at, fn, ctx);
        if (verdict == CALL_MORE && ++scan->tries == TRIES_MAX) verdict = CALL_BAD;
        if (verdict != CALL_MORE) return verdict;
    }
    if (len >= end_len && scan->at < len - end_len + 1) scan->at = len - end_len + 1;
    return CALL_MORE;
}

// ---------------------------------------------------------------- Python

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
    const size_t name = skip_blanks(text, len, begin);
    size_t at = name;
    while (at < len && at - name <= NAME_MAX_BYTES && !answer_is_blank(text[at]) &&
           !strchr("()[]{}<>\"'=,:;", text[at]))
        at++;
    if (at < len && (at == name || at - name > NAME_MAX_BYTES)) return CALL_BAD;
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

static bool dictionary_walk(struct answer_parts *parts, const char *text, size_t len, parts_fn fn,
                            void *ctx) {
    struct jbuf json = {0};
    const bool good = python_literal_put(&json, text, len) && !json.failed &&
                      json_calls_walk(parts, json.data, json.len, fn, ctx);
    jbuf_deinit(&json);
    return good;
}

static enum call_verdict python_read(struct answer_parts *parts, walk_fn walk, const char *text,
                                     size_t len, size_t begin, size_t *end, parts_fn fn,
                                     void *ctx) {
    if (!parts->scan.in_json)
        parts->scan = (struct parts_scan){.at = begin, .begin = begin, .in_json = true};
    const enum call_verdict verdict = python_scan(&parts->scan, text, len, end);
    if (verdict != CALL_GOOD) return verdict;
    const bool good = calls_put(parts, walk, text + begin, *end - begin, fn, ctx);
    return good ? CALL_GOOD : CALL_BAD;
}

// ---------------------------------------------------------------- all of them

// Where the call's own text starts. MORE: the text ends before it.
static enum call_verdict prefix_skip(const struct tool_marks *style, const char *text, size_t len,
                                     size_t *at) {
    *at = skip_blanks(text, len, 0);
    for (int i = 0; style->inner[i]; i++) {
        if (may_start(text + *at, len - *at, style->inner[i])) return CALL_MORE;
        if (starts(text + *at, len - *at, style->inner[i]))
            *at = skip_blanks(text, len, *at + strlen(style->inner[i]));
    }
    if (*at > PREFIX_MAX_BYTES) {
        *at = PREFIX_MAX_BYTES; // however much more has come
        return CALL_BAD;
    }
    return *at < len ? CALL_GOOD : CALL_MORE;
}

static enum call_verdict json_read(struct answer_parts *parts, const char *text, size_t len,
                                   size_t begin, size_t *end, parts_fn fn, void *ctx) {
    enum call_verdict verdict = is_dictionary(text, len, begin);
    if (verdict == CALL_MORE) return CALL_MORE;
    if (verdict == CALL_GOOD)
        return python_read(parts, dictionary_walk, text, len, begin, end, fn, ctx);
    verdict = json_find(parts, text, len, begin, end);
    if (verdict != CALL_GOOD) return verdict;
    const bool good = calls_put(parts, json_calls_walk, text + begin, *end - begin, fn, ctx);
    return good ? CALL_GOOD : CALL_BAD;
}

enum call_verdict parts_call_read(struct answer_parts *parts, const char *text, size_t len,
                                  size_t *end, parts_fn fn, void *ctx) {
    const struct tool_marks *const style = &parts->marks.tools;
    size_t begin;
    enum call_verdict verdict = prefix_skip(style, text, len, &begin);
    *end = begin;
    if (verdict != CALL_GOOD) return verdict;
    if (style->python) {
        verdict = is_python(text, len, begin);
        if (verdict == CALL_MORE) return CALL_MORE;
        if (verdict == CALL_GOOD)
            return python_read(parts, python_calls_walk, text, len, begin, end, fn, ctx);
    }
    if (style->quote) return pairs_read(parts, text, len, begin, end, fn, ctx);
    if (text[begin] == '{' || text[begin] == '[')
        return json_read(parts, text, len, begin, end, fn, ctx);
    if (style->tags) return tags_read(parts, text, len, begin, end, fn, ctx);
    if (style->separator) return named_read(parts, text, len, begin, end, fn, ctx);
    return CALL_BAD;
}

// The states of an answer. Text is taken from the front of the held bytes; a step lets out text
// whose part is certain, or says that it needs more. Invariant: a step depends on the text alone,
// never on where its pieces ended. So it waits for a mark that may still come, and limits are in
// bytes.
//
//   START ─► REASONING (◄─► CALL) ─► ANSWER ─► CONTENT ◄─► CALL ◄─► BETWEEN (behind a call)
//   harmony: HEADER ─► MESSAGE ─► GAP ─► HEADER
#define _GNU_SOURCE // memmem
#include "answer_parts.h"

#include <string.h>

#include "answer_calls.h"

enum state {
    STATE_START,     // before anything but white space
    STATE_REASONING, // up to its end
    STATE_ANSWER,    // behind the reasoning, before anything but white space
    STATE_CONTENT,
    STATE_CALL,
    STATE_BETWEEN,
    STATE_HEADER,  // of a message (harmony), up to its text
    STATE_MESSAGE, // its text
    STATE_GAP,     // between messages
};

enum channel { CHANNEL_CONTENT, CHANNEL_REASONING, CHANNEL_TOOL };

enum {
    CALL_MAX_BYTES = 1 << 20, // of a call that are held back
    BLANK_MAX_BYTES = 1 << 8, // white space that is held back
    HEADER_MAX_BYTES = 512,
};

struct feed {
    struct answer_parts *parts;
    const char *text; // the rest
    size_t len;
    bool final;
    parts_fn fn;
    void *ctx;
};

// ---------------------------------------------------------------- pieces of text

static void drop(struct feed *f, size_t n) {
    f->text += n;
    f->len -= n;
}

// Lets the first n bytes out.
static void put(struct feed *f, enum answer_part part, size_t n) {
    if (n > 0) f->fn(f->ctx, part, 0, f->text, n);
    drop(f, n);
}

static size_t blanks_at(const struct feed *f) {
    size_t n = 0;
    while (n < f->len && answer_is_blank(f->text[n])) n++;
    return n;
}

// At most n bytes of whole characters.
static size_t whole_bytes(const struct feed *f, size_t n) {
    size_t end = n;
    while (end > 0 && n - end < 4 && end < f->len && ((unsigned char)f->text[end] & 0xC0) == 0x80)
        end--;
    return end > 0 ? end : n;
}

// White space at the end of the first n bytes, up to the limit that is held back.
static size_t blanks_before(const struct feed *f, size_t n) {
    size_t blanks = 0;
    while (blanks < n && blanks < BLANK_MAX_BYTES && answer_is_blank(f->text[n - 1 - blanks]))
        blanks++;
    return blanks;
}

// Whether the mark is at `at`, or may be when more text comes.
enum match { MATCH_NONE, MATCH_MAYBE, MATCH_FULL };
static enum match match(const struct feed *f, size_t at, const char *mark) {
    const size_t n = strlen(mark), rest = f->len - at;
    if (memcmp(f->text + at, mark, rest < n ? rest : n) != 0) return MATCH_NONE;
    if (rest >= n) return MATCH_FULL;
    return f->final ? MATCH_NONE : MATCH_MAYBE;
}

// The longest match of several; a longer one that may still come is waited for.
static enum match match_any(const struct feed *f, size_t at, const char *const *marks,
                            const char **which) {
    enum match best = MATCH_NONE;
    size_t longest = 0;
    for (int i = 0; marks[i]; i++) {
        const enum match found = match(f, at, marks[i]);
        const size_t n = strlen(marks[i]);
        if (found == MATCH_NONE || n <= longest) continue;
        best = found;
        longest = n;
        *which = marks[i];
    }
    return best;
}

// The first place where a mark is or may come to be; f->len: none.
static size_t marks_find(const struct feed *f, const char *const *marks, enum match *found,
                         const char **which) {
    *found = MATCH_NONE;
    for (size_t at = 0; at < f->len; at++) {
        bool may = false; // most bytes start no mark
        for (int i = 0; marks[i]; i++) may |= f->text[at] == marks[i][0];
        if (may && (*found = match_any(f, at, marks, which)) != MATCH_NONE) return at;
    }
    return f->len;
}

static bool has_tools(const struct answer_parts *parts) {
    return parts->tools && parts->marks.tools.open[0];
}

// Marks of several lists, with NULL behind the last.
struct mark_list {
    const char *mark[3 * MARKS_MAX];
    int n;
};

static void list_add(struct mark_list *list, const char *mark) {
    if (mark) list->mark[list->n++] = mark;
}

static void list_add_all(struct mark_list *list, const char *const *marks) {
    for (int i = 0; marks[i]; i++) list_add(list, marks[i]);
}

static bool is_in(const char *const *marks, const char *mark) {
    while (*marks && *marks != mark) marks++;
    return *marks != NULL;
}

// A mark that opens a call, with n bytes before it that belong to it.
static void call_begin(struct answer_parts *parts, size_t n, const char *mark) {
    const struct tag_marks *const tags = parts->marks.tools.tags;
    const bool is_own = tags && !strcmp(mark, tags->name_open); // it is the call's own text
    parts->state = STATE_CALL;
    parts->is_open = true;
    parts_call_begin(parts, n + (is_own ? 0 : strlen(mark)));
}

// ---------------------------------------------------------------- reasoning

static bool step_start(struct feed *f) {
    struct answer_parts *const parts = f->parts;
    const char *const open = parts->marks.reasoning.open;
    const size_t blanks = blanks_at(f);
    if (blanks == f->len && !f->final && blanks < BLANK_MAX_BYTES) return false;
    const enum match found =
        open && blanks < f->len && blanks < BLANK_MAX_BYTES ? match(f, blanks, open) : MATCH_NONE;
    if (found == MATCH_MAYBE) return false;
    parts->state = STATE_ANSWER;
    if (found == MATCH_FULL) {
        drop(f, blanks + strlen(open));
        parts->state = STATE_REASONING;
        parts->is_blank = true;
    }
    return true;
}

static bool step_reasoning(struct feed *f) {
    struct answer_parts *const parts = f->parts;
    struct mark_list list = {0};
    list_add(&list, parts->marks.reasoning.close);
    list_add_all(&list, answer_marks_ends(&parts->marks, has_tools(parts)));
    const char *mark = "";
    enum match found;
    if (parts->is_blank) {
        drop(f, blanks_at(f));
        if (f->len == 0) return false;
        parts->is_blank = false;
    }
    const size_t at = marks_find(f, list.mark, &found, &mark);
    const bool ends = f->final && found == MATCH_NONE;
    put(f, PART_REASONING, at - (ends ? 0 : blanks_before(f, at)));
    if (found != MATCH_FULL) return false;
    parts->thinks = is_in(parts->marks.tools.open, mark);
    if (parts->thinks) {
        call_begin(parts, blanks_at(f), mark);
        return true;
    }
    drop(f, blanks_at(f));
    if (mark == parts->marks.reasoning.close) drop(f, strlen(mark));
    parts->state = STATE_ANSWER;
    parts->is_blank = true;
    return true;
}

// Whether all of an answer that starts so may be a call.
static bool is_bare(const struct answer_parts *parts, char first) {
    const struct tool_marks *const style = &parts->marks.tools;
    return has_tools(parts) && style->bare && (first == '{' || (style->python && first == '['));
}

// The answer's first character decides whether all of it may be a call.
static bool step_answer(struct feed *f) {
    struct answer_parts *const parts = f->parts;
    const char *const wrap = parts->marks.wrap.open;
    if (parts->is_blank) drop(f, blanks_at(f));
    const size_t blanks = blanks_at(f);
    const bool is_long = blanks >= BLANK_MAX_BYTES, is_end = blanks == f->len;
    if (is_end && !f->final && !is_long) return false;
    const enum match found = wrap && !is_end && !is_long ? match(f, blanks, wrap) : MATCH_NONE;
    if (found == MATCH_MAYBE) return false;
    if (found == MATCH_FULL) {
        drop(f, blanks + strlen(wrap));
        parts->is_wrapped = parts->is_blank = true;
        return true;
    }
    parts->is_blank = false;
    parts->state = STATE_CONTENT;
    if (!is_end && !is_long && is_bare(parts, f->text[blanks])) {
        parts->state = STATE_CALL;
        parts_call_begin(parts, blanks);
    }
    return true;
}

// ---------------------------------------------------------------- content and calls

// The marks that content may end at.
static struct mark_list content_marks(const struct answer_parts *parts) {
    struct mark_list list = {0};
    if (has_tools(parts)) list_add_all(&list, parts->marks.tools.open);
    if (parts->is_wrapped) list_add(&list, parts->marks.wrap.close);
    if (parts->marks.reasoning.again) list_add(&list, parts->marks.reasoning.open);
    list_add_all(&list, parts->marks.reasoning.stray);
    return list;
}

// A mark behind content, with n blanks before it.
static void content_end(struct feed *f, size_t n, const char *mark) {
    struct answer_parts *const parts = f->parts;
    if (has_tools(parts) && is_in(parts->marks.tools.open, mark)) {
        call_begin(parts, n, mark);
        return;
    }
    if (is_in(parts->marks.reasoning.stray, mark)) {
        put(f, PART_CONTENT, n);
        drop(f, strlen(mark));
        return;
    }
    drop(f, n + strlen(mark));
    parts->is_blank = true;
    if (mark == parts->marks.wrap.close) {
        parts->is_wrapped = false;
        parts->state = STATE_ANSWER;
    } else {
        parts->state = STATE_REASONING;
    }
}

static bool step_content(struct feed *f) {
    const struct mark_list list = content_marks(f->parts);
    if (list.n == 0) {
        put(f, PART_CONTENT, f->len);
        return false;
    }
    const char *mark = "";
    enum match found;
    const size_t at = marks_find(f, list.mark, &found, &mark);
    if (f->final && found == MATCH_NONE) {
        put(f, PART_CONTENT, f->len);
        return false;
    }
    const size_t blanks = blanks_before(f, at);
    put(f, PART_CONTENT, at - blanks);
    if (found != MATCH_FULL) return false;
    content_end(f, blanks, mark);
    return true;
}

// Reads on in a call, up to `len` bytes. What was let out is dropped, and CALL_MAX_BYTES at most
// are held back then: *is_long.
static enum call_verdict call_go(struct feed *f, size_t len, size_t *end, bool *is_long) {
    struct call_read read;
    for (;;) {
        const size_t n = len < CALL_MAX_BYTES ? len : CALL_MAX_BYTES;
        const enum call_verdict verdict =
            parts_call_read(f->parts, f->text, n, &read, f->fn, f->ctx);
        drop(f, read.done);
        len -= read.done;
        *end = read.end - read.done;
        *is_long = verdict == CALL_MORE && n == CALL_MAX_BYTES && read.done == 0;
        if (verdict != CALL_MORE || n < CALL_MAX_BYTES || *is_long) return verdict;
    }
}

// Text that is no call is content, or reasoning that was not closed.
static void put_text(struct feed *f, size_t n) {
    f->parts->state = f->parts->thinks ? STATE_REASONING : STATE_CONTENT;
    put(f, f->parts->thinks ? PART_REASONING : PART_CONTENT, n);
}

// The text of a call ends early, after `len` bytes. The start of a token that was to follow an
// argument is dropped; text that was no part of a call yet is let out.
static void call_cut(struct feed *f, size_t len) {
    const size_t n = f->parts->call.is_open ? len : 0;
    drop(f, n);
    put_text(f, len - n);
}

static bool step_call(struct feed *f) {
    struct answer_parts *const parts = f->parts;
    const struct parts_call *const call = &parts->call;
    size_t end;
    bool is_long;
    const enum call_verdict verdict = call_go(f, f->len, &end, &is_long);
    if (verdict == CALL_GOOD) {
        drop(f, end);
        parts->state = STATE_BETWEEN;
        return true;
    }
    if (verdict == CALL_MORE && !is_long) {
        if (!f->final) return false;
        call_cut(f, f->len);
        return true;
    }
    // The text is no call from `end` on. A whole call before it stays one.
    if (call->is_open && call->is_complete) {
        parts->state = STATE_BETWEEN;
        return true;
    }
    // Before a call was let out, at least the mark's first byte is text, so that it is not taken
    // for a mark again.
    size_t n = is_long ? whole_bytes(f, CALL_MAX_BYTES) : end;
    if (n == 0 && call->n_calls == 0) n = 1;
    put_text(f, n);
    return true;
}

// Whether the whole rest is the start of one of the marks.
static bool is_start_of(const struct feed *f, const char *const *marks) {
    while (*marks && (f->len >= strlen(*marks) || memcmp(f->text, *marks, f->len) != 0)) marks++;
    return *marks != NULL;
}

static bool step_between(struct feed *f) {
    struct answer_parts *const parts = f->parts;
    const struct tool_marks *const style = &parts->marks.tools;
    const char *mark = "";
    drop(f, blanks_at(f));
    if (f->len == 0) return false;
    const enum match close = match_any(f, 0, style->close, &mark);
    if (close == MATCH_FULL) {
        drop(f, strlen(mark));
        if (mark == style->close[0]) parts->is_open = false;
        return true;
    }
    const enum match open = match_any(f, 0, style->open, &mark);
    if (open == MATCH_FULL) {
        call_begin(parts, 0, mark);
        return true;
    }
    if (close == MATCH_MAYBE || open == MATCH_MAYBE) return false;
    if (f->final && (is_start_of(f, style->close) || is_start_of(f, style->open))) {
        // the answer was cut within the mark
        drop(f, f->len);
        return false;
    }
    put_text(f, 0);
    if (style->bare && (f->text[0] == ';' || f->text[0] == '{'))
        call_begin(parts, f->text[0] == ';', "");
    else if (style->lines && parts->is_open)
        call_begin(parts, 0, "");
    return true;
}

// ---------------------------------------------------------------- harmony

static const char *const header_marks[MARKS_MAX] = {"<|message|>"};
static const char *const message_ends[MARKS_MAX] = {"<|end|>", "<|start|>", "<|channel|>",
                                                    "<|call|>"};
#define CHANNEL_MARK   "<|channel|>"
#define RECIPIENT_MARK "to="

static bool is_name_byte(char c) { return !answer_is_blank(c) && c != '<'; }

// The word behind a mark of the header; *len 0: none.
static const char *header_word(const char *header, size_t header_len, const char *mark,
                               size_t *len) {
    const char *word = memmem(header, header_len, mark, strlen(mark));
    *len = 0;
    if (!word) return header;
    word += strlen(mark);
    while (word + *len < header + header_len && is_name_byte(word[*len])) ++*len;
    return word;
}

static enum channel channel_of(const struct answer_parts *parts, const char *header, size_t len) {
    size_t recipient_len, channel_len;
    header_word(header, len, RECIPIENT_MARK, &recipient_len);
    const char *const channel = header_word(header, len, CHANNEL_MARK, &channel_len);
    if (recipient_len > 0 && parts->tools) return CHANNEL_TOOL;
    const bool is_analysis = channel_len == 8 && memcmp(channel, "analysis", 8) == 0;
    return is_analysis ? CHANNEL_REASONING : CHANNEL_CONTENT;
}

// A header starts with a mark or with the recipient, since the prompt ends behind the role.
static bool step_gap(struct feed *f) {
    static const char *const begins[MARKS_MAX] = {"<|start|>", CHANNEL_MARK, "<|message|>",
                                                  RECIPIENT_MARK};
    static const char *const ends[MARKS_MAX] = {"<|end|>", "<|call|>", "<|return|>"};
    struct answer_parts *const parts = f->parts;
    const char *mark = "";
    if (parts->is_blank) drop(f, blanks_at(f));
    if (parts->is_blank && f->len == 0) return false;
    parts->is_blank = false;
    const size_t blanks = blanks_at(f);
    if (blanks == f->len && !f->final && blanks < BLANK_MAX_BYTES) return false;
    const bool none = blanks == f->len || blanks >= BLANK_MAX_BYTES;
    const enum match end = none ? MATCH_NONE : match_any(f, blanks, ends, &mark);
    if (end == MATCH_FULL) {
        drop(f, blanks + strlen(mark));
        return true;
    }
    const enum match begin = none ? MATCH_NONE : match_any(f, blanks, begins, &mark);
    if (begin == MATCH_FULL) {
        drop(f, blanks);
        parts->state = STATE_HEADER;
        return true;
    }
    if (begin == MATCH_MAYBE || end == MATCH_MAYBE) return false;
    if (f->len == 0) return false;
    parts->channel = CHANNEL_CONTENT;
    parts->state = STATE_MESSAGE;
    return true;
}

// The header of a call is held with the arguments: it is content if they are none.
static void harmony_call_begin(struct feed *f, size_t header_len) {
    struct answer_parts *const parts = f->parts;
    size_t len;
    const char *name = header_word(f->text, header_len, RECIPIENT_MARK, &len);
    if (len > 10 && memcmp(name, "functions.", 10) == 0) {
        name += 10;
        len -= 10;
    }
    parts->scan = header_len;
    if (parts_call_named(parts, name, len, header_len)) return;
    put(f, PART_CONTENT, header_len);
    parts->channel = CHANNEL_CONTENT;
}

static bool step_header(struct feed *f) {
    struct answer_parts *const parts = f->parts;
    struct feed view = *f;
    if (view.len > HEADER_MAX_BYTES) view.len = HEADER_MAX_BYTES;
    const char *mark = "";
    enum match found;
    const size_t at = marks_find(&view, header_marks, &found, &mark);
    if (found == MATCH_FULL) {
        const size_t end = at + strlen(mark);
        parts->channel = channel_of(parts, f->text, at);
        parts->state = STATE_MESSAGE;
        if (parts->channel == CHANNEL_TOOL)
            harmony_call_begin(f, end);
        else
            drop(f, end);
        return true;
    }
    if (f->len < HEADER_MAX_BYTES && !f->final) return false;
    put(f, PART_CONTENT, whole_bytes(f, view.len)); // no header
    parts->channel = CHANNEL_CONTENT;
    parts->state = STATE_MESSAGE;
    return true;
}

// The first place where the message ends, or may end. Of a call: searched for from where the last
// piece ended.
static size_t message_end(const struct feed *f, size_t from, enum match *found) {
    const char *mark = "";
    struct feed view = *f;
    drop(&view, from);
    return from + marks_find(&view, message_ends, found, &mark);
}

// The arguments of a call are the message's text.
static bool step_arguments(struct feed *f) {
    struct answer_parts *const parts = f->parts;
    enum match found;
    size_t end;
    bool is_long;
    parts->scan = message_end(f, parts->scan, &found);
    const size_t before = f->len;
    const enum call_verdict verdict = call_go(f, parts->scan, &end, &is_long);
    parts->scan -= before - f->len;
    if (verdict == CALL_GOOD) {
        drop(f, end);
        parts->is_blank = true; // behind a call
        parts->state = STATE_GAP;
        return true;
    }
    if (verdict == CALL_MORE && !is_long) {
        if (found == MATCH_FULL) {
            put(f, PART_CONTENT, parts->scan);
            parts->state = STATE_GAP;
            return true;
        }
        if (f->final) call_cut(f, f->len);
        return false;
    }
    put(f, PART_CONTENT, is_long ? whole_bytes(f, CALL_MAX_BYTES) : end);
    parts->channel = CHANNEL_CONTENT;
    return true;
}

static bool step_message(struct feed *f) {
    struct answer_parts *const parts = f->parts;
    enum match found;
    if (parts->channel == CHANNEL_TOOL) return step_arguments(f);
    const size_t at = message_end(f, 0, &found);
    put(f, parts->channel == CHANNEL_REASONING ? PART_REASONING : PART_CONTENT, at);
    if (found != MATCH_FULL) return false;
    parts->state = STATE_GAP;
    return true;
}

// ---------------------------------------------------------------- the machine

static bool step(struct feed *f) {
    switch ((enum state)f->parts->state) {
    case STATE_START:
        return step_start(f);
    case STATE_REASONING:
        return step_reasoning(f);
    case STATE_ANSWER:
        return step_answer(f);
    case STATE_CONTENT:
        return step_content(f);
    case STATE_CALL:
        return step_call(f);
    case STATE_BETWEEN:
        return step_between(f);
    case STATE_HEADER:
        return step_header(f);
    case STATE_MESSAGE:
        return step_message(f);
    case STATE_GAP:
        return step_gap(f);
    }
    return false;
}

void parts_init(struct answer_parts *parts, struct answer_marks marks, bool tools,
                const json_t *types, bool in_reasoning) {
    *parts = (struct answer_parts){.marks = marks, .tools = tools, .types = types};
    parts->state = in_reasoning ? STATE_REASONING : STATE_START;
    parts->is_blank = in_reasoning;
    parts->is_wrapped = marks.wrap.is_token;
    if (!marks.harmony) return;
    parts->state = in_reasoning ? STATE_MESSAGE : STATE_GAP;
    parts->channel = CHANNEL_REASONING;
    parts->is_blank = false;
}

bool parts_in_content(const struct answer_parts *parts, bool has_text) {
    switch ((enum state)parts->state) {
    case STATE_CONTENT:
        return true;
    case STATE_START:
    case STATE_ANSWER:
        return parts->held.len > 0 || !has_text; // what was dropped is not held
    case STATE_CALL:
        return !parts->call.is_open;
    case STATE_MESSAGE:
        return parts->channel == CHANNEL_CONTENT;
    case STATE_REASONING:
    case STATE_BETWEEN:
    case STATE_HEADER:
    case STATE_GAP:
        return false;
    }
    return false;
}

bool parts_in_call(const struct answer_parts *parts) {
    return parts->state == STATE_CALL || parts->state == STATE_BETWEEN ||
           (parts->state == STATE_MESSAGE && parts->channel == CHANNEL_TOOL);
}

void parts_deinit(struct answer_parts *parts) {
    jbuf_deinit(&parts->held);
    jbuf_deinit(&parts->call.text);
    jbuf_deinit(&parts->call.json);
}

// Without memory to hold text back, all of it is let out as it is.
static void feed_unheld(struct answer_parts *parts, const char *text, size_t len, parts_fn fn,
                        void *ctx) {
    if (parts->held.len) fn(ctx, PART_CONTENT, 0, parts->held.data, parts->held.len);
    if (len) fn(ctx, PART_CONTENT, 0, text, len);
    jbuf_clear(&parts->held);
    parts->state = STATE_CONTENT;
    parts->tools = false;
}

void parts_feed(struct answer_parts *parts, const char *text, size_t len, bool final, parts_fn fn,
                void *ctx) {
    struct feed f = {parts, text, len, final, fn, ctx};
    const bool is_held = parts->held.len > 0;
    if (is_held) { // the held bytes come first
        jbuf_bytes(&parts->held, text, len);
        if (parts->held.failed) {
            feed_unheld(parts, text, len, fn, ctx);
            return;
        }
        f.text = parts->held.data;
        f.len = parts->held.len;
    }
    while (step(&f)) continue;
    if (is_held) {
        if (f.len < parts->held.len) jbuf_drop(&parts->held, parts->held.len - f.len);
    } else {
        jbuf_bytes(&parts->held, f.text, f.len);
        if (parts->held.failed) feed_unheld(parts, f.text, f.len, fn, ctx);
    }
}

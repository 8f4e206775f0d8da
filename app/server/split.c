// The splitter's states. Text is taken from the front of what is held; a step lets out what is
// certain, or says that it needs more. Invariant: what a step does depends on the text alone, never
// on where its pieces ended, so a mark that may still come is waited for, and limits count bytes.
//
//   START ─► REASONING ─► ANSWER ─► CONTENT ◄─► CALL ─► BETWEEN (behind a call)
//   harmony: HEADER ─► MESSAGE ─► GAP ─► HEADER
#define _GNU_SOURCE // memmem
#include "split.h"

#include <string.h>

#include "split_format.h"

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
    CALL_MAX_BYTES = 1 << 20, // of a call, with its marks
    BLANK_MAX_BYTES = 1 << 8, // white space that is held back
    HEADER_MAX_BYTES = 512,
};

struct feed {
    struct split *split;
    const char *text; // what is left
    size_t len;
    bool final;
    split_fn fn;
    void *ctx;
};

// ---------------------------------------------------------------- pieces of text

static void drop(struct feed *f, size_t n) {
    f->text += n;
    f->len -= n;
}

// Lets the first n bytes out.
static void put(struct feed *f, enum part part, size_t n) {
    if (n > 0) f->fn(f->ctx, part, 0, f->text, n);
    drop(f, n);
}

static size_t blanks_at(const struct feed *f) {
    size_t n = 0;
    while (n < f->len && split_is_blank(f->text[n])) n++;
    return n;
}

// At most n bytes of whole characters.
static size_t whole_bytes(const struct feed *f, size_t n) {
    size_t end = n;
    while (end > 0 && n - end < 4 && end < f->len && ((unsigned char)f->text[end] & 0xC0) == 0x80)
        end--;
    return end > 0 ? end : n;
}

// White space at the end of the first n bytes, as much of it as is held back.
static size_t blanks_before(const struct feed *f, size_t n) {
    size_t blanks = 0;
    while (blanks < n && blanks < BLANK_MAX_BYTES && split_is_blank(f->text[n - 1 - blanks]))
        blanks++;
    return blanks;
}

// Whether the mark stands at `at`, or may yet, when more text comes.
enum match { MATCH_NONE, MATCH_MAYBE, MATCH_FULL };
static enum match match(const struct feed *f, size_t at, const char *mark) {
    const size_t n = strlen(mark), rest = f->len - at;
    if (memcmp(f->text + at, mark, rest < n ? rest : n) != 0) return MATCH_NONE;
    if (rest >= n) return MATCH_FULL;
    return f->final ? MATCH_NONE : MATCH_MAYBE;
}

// The best match of several.
static enum match match_any(const struct feed *f, size_t at, const char *const *marks,
                            const char **which) {
    enum match best = MATCH_NONE;
    for (int i = 0; i < SPLIT_MAX_MARKS && marks[i]; i++) {
        const enum match found = match(f, at, marks[i]);
        if (found <= best) continue;
        best = found;
        *which = marks[i];
    }
    return best;
}

// The first place where a mark stands or may yet; f->len: none.
static size_t marks_find(const struct feed *f, const char *const *marks, enum match *found,
                         const char **which) {
    *found = MATCH_NONE;
    for (size_t at = 0; at < f->len; at++) {
        bool may = false; // most bytes begin no mark
        for (int i = 0; i < SPLIT_MAX_MARKS && marks[i]; i++) may |= f->text[at] == marks[i][0];
        if (may && (*found = match_any(f, at, marks, which)) != MATCH_NONE) return at;
    }
    return f->len;
}

static bool has_tools(const struct split *split) {
    return split->tools && split->format->tools->open[0];
}

// ---------------------------------------------------------------- reasoning

static bool step_start(struct feed *f) {
    struct split *const split = f->split;
    const char *const open = split->format->reasoning->open;
    const size_t blanks = blanks_at(f);
    if (blanks == f->len && !f->final && blanks < BLANK_MAX_BYTES) return false;
    const enum match found =
        open && blanks < f->len && blanks < BLANK_MAX_BYTES ? match(f, blanks, open) : MATCH_NONE;
    if (found == MATCH_MAYBE) return false;
    split->state = STATE_ANSWER;
    if (found == MATCH_FULL) {
        drop(f, blanks + strlen(open));
        split->state = STATE_REASONING;
        split->is_blank = true;
    }
    return true;
}

static bool step_reasoning(struct feed *f) {
    struct split *const split = f->split;
    const char *const marks[SPLIT_MAX_MARKS] = {split->format->reasoning->close};
    const char *mark = "";
    enum match found;
    if (split->is_blank) {
        drop(f, blanks_at(f));
        if (f->len == 0) return false;
        split->is_blank = false;
    }
    const size_t at = marks_find(f, marks, &found, &mark);
    const bool ends = f->final && found == MATCH_NONE;
    put(f, PART_REASONING, at - (ends ? 0 : blanks_before(f, at)));
    if (found != MATCH_FULL) return false;
    drop(f, blanks_at(f));
    drop(f, strlen(mark));
    drop(f, blanks_at(f));
    split->state = STATE_ANSWER;
    split->is_blank = true;
    return true;
}

// The answer's first character decides whether all of it may be a call.
static bool step_answer(struct feed *f) {
    struct split *const split = f->split;
    if (split->is_blank) drop(f, blanks_at(f));
    const size_t blanks = blanks_at(f);
    const bool is_long = blanks >= BLANK_MAX_BYTES;
    if (blanks == f->len && !f->final && !is_long) return false;
    split->is_blank = false;
    split->state = STATE_CONTENT;
    if (has_tools(split) && split->format->tools->bare && blanks < f->len && !is_long &&
        f->text[blanks] == '{') {
        split->state = STATE_CALL;
        split->mark_len = blanks;
        split->scan = (struct split_scan){0};
    }
    return true;
}

// ---------------------------------------------------------------- content and calls

// A mark that opens a call, with n bytes before it that belong to it.
static void call_begin(struct split *split, size_t n, const char *mark) {
    const struct tag_style *const tags = split->format->tools->tags;
    const bool is_own = tags && !strcmp(mark, tags->name_open); // it is the call's own text
    split->state = STATE_CALL;
    split->mark_len = n + (is_own ? 0 : strlen(mark));
    split->scan = (struct split_scan){0};
}

static bool step_content(struct feed *f) {
    struct split *const split = f->split;
    if (!has_tools(split)) {
        put(f, PART_CONTENT, f->len);
        return false;
    }
    const char *mark = "";
    enum match found;
    const size_t at = marks_find(f, split->format->tools->open, &found, &mark);
    if (f->final && found == MATCH_NONE) {
        put(f, PART_CONTENT, f->len);
        return false;
    }
    const size_t blanks = blanks_before(f, at);
    put(f, PART_CONTENT, at - blanks);
    if (found != MATCH_FULL) return false;
    call_begin(split, blanks, mark);
    return true;
}

static bool step_call(struct feed *f) {
    struct split *const split = f->split;
    const size_t most = split->mark_len + CALL_MAX_BYTES;
    const size_t len = f->len < most ? f->len : most;
    size_t end = 0;
    const enum verdict verdict = split_call_read(split, f->text + split->mark_len,
                                                 len - split->mark_len, &end, f->fn, f->ctx);
    if (verdict == CALL_GOOD) {
        drop(f, split->mark_len + end);
        split->state = STATE_BETWEEN;
        return true;
    }
    if (verdict == CALL_MORE && len < most && !f->final) return false;
    // No call: all that was looked at is content. At least the mark's first byte, so that it is not
    // taken for a mark again.
    size_t n = verdict == CALL_MORE ? whole_bytes(f, len) : split->mark_len + end;
    if (n == 0) n = 1;
    put(f, PART_CONTENT, n);
    split->state = STATE_CONTENT;
    return true;
}

static bool step_between(struct feed *f) {
    struct split *const split = f->split;
    const struct tool_style *const style = split->format->tools;
    const char *mark = "";
    drop(f, blanks_at(f));
    if (f->len == 0) return false;
    const enum match close = match_any(f, 0, style->close, &mark);
    if (close == MATCH_FULL) {
        drop(f, strlen(mark));
        return true;
    }
    const enum match open = match_any(f, 0, style->open, &mark);
    if (open == MATCH_FULL) {
        call_begin(split, 0, mark);
        return true;
    }
    if (close == MATCH_MAYBE || open == MATCH_MAYBE) return false;
    split->state = STATE_CONTENT;
    if (style->bare && (f->text[0] == ';' || f->text[0] == '{')) {
        call_begin(split, f->text[0] == ';', "");
    }
    return true;
}

// ---------------------------------------------------------------- harmony

static const char *const header_marks[SPLIT_MAX_MARKS] = {"<|message|>"};
static const char *const message_ends[SPLIT_MAX_MARKS] = {"<|end|>", "<|start|>", "<|channel|>",
                                                          "<|call|>"};
#define CHANNEL_MARK   "<|channel|>"
#define RECIPIENT_MARK "to="

static bool is_name_byte(char c) { return !split_is_blank(c) && c != '<'; }

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

static enum channel channel_of(const struct split *split, const char *header, size_t len) {
    size_t recipient_len, channel_len;
    header_word(header, len, RECIPIENT_MARK, &recipient_len);
    const char *const channel = header_word(header, len, CHANNEL_MARK, &channel_len);
    if (recipient_len > 0 && split->tools) return CHANNEL_TOOL;
    const bool is_analysis = channel_len == 8 && memcmp(channel, "analysis", 8) == 0;
    return is_analysis ? CHANNEL_REASONING : CHANNEL_CONTENT;
}

// A header begins with a mark or with the recipient, since the prompt ends behind the role.
static bool step_gap(struct feed *f) {
    static const char *const begins[SPLIT_MAX_MARKS] = {"<|start|>", CHANNEL_MARK, "<|message|>",
                                                        RECIPIENT_MARK};
    static const char *const ends[SPLIT_MAX_MARKS] = {"<|end|>", "<|call|>", "<|return|>"};
    struct split *const split = f->split;
    const char *mark = "";
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
        split->state = STATE_HEADER;
        return true;
    }
    if (begin == MATCH_MAYBE || end == MATCH_MAYBE) return false;
    if (f->len == 0) return false;
    split->channel = CHANNEL_CONTENT;
    split->mark_len = 0;
    split->state = STATE_MESSAGE;
    return true;
}

static bool step_header(struct feed *f) {
    struct split *const split = f->split;
    struct feed view = *f;
    if (view.len > HEADER_MAX_BYTES) view.len = HEADER_MAX_BYTES;
    const char *mark = "";
    enum match found;
    const size_t at = marks_find(&view, header_marks, &found, &mark);
    if (found == MATCH_FULL) {
        const size_t end = at + strlen(mark);
        split->channel = channel_of(split, f->text, at);
        split->mark_len = 0;
        split->state = STATE_MESSAGE;
        split->scan = (struct split_scan){0};
        if (split->channel == CHANNEL_TOOL)
            split->mark_len = end; // held with the arguments: it names the function
        else
            drop(f, end);
        return true;
    }
    if (f->len < HEADER_MAX_BYTES && !f->final) return false;
    put(f, PART_CONTENT, whole_bytes(f, view.len)); // no header
    split->channel = CHANNEL_CONTENT;
    split->mark_len = 0;
    split->state = STATE_MESSAGE;
    return true;
}

// The arguments of a call are the message's text.
static void put_harmony_call(struct feed *f, size_t end) {
    struct split *const split = f->split;
    const size_t begin = split->mark_len;
    size_t name_len;
    const char *name = header_word(f->text, begin, RECIPIENT_MARK, &name_len);
    if (name_len > 10 && memcmp(name, "functions.", 10) == 0) {
        name += 10;
        name_len -= 10;
    }
    const bool good =
        split_call_put(split, name, name_len, f->text + begin, end - begin, f->fn, f->ctx);
    if (good)
        drop(f, end);
    else
        put(f, PART_CONTENT, end);
    split->mark_len = 0;
}

// Searched for from where the last piece ended, less what may be a part of a mark.
static size_t message_end(struct feed *f, size_t len, enum match *found) {
    struct split *const split = f->split;
    const size_t from = split->mark_len + split->scan.at;
    const char *mark = "";
    struct feed view = *f;
    view.text += from;
    view.len = len - from;
    const size_t at = marks_find(&view, message_ends, found, &mark);
    split->scan.at += at;
    return from + at;
}

static bool step_message(struct feed *f) {
    struct split *const split = f->split;
    const bool is_tool = split->channel == CHANNEL_TOOL;
    const size_t most = split->mark_len + CALL_MAX_BYTES;
    const size_t len = is_tool && f->len > most ? most : f->len;
    enum match found;
    if (!is_tool) split->scan.at = 0;
    const size_t at = message_end(f, len, &found);
    if (is_tool) {
        const bool is_long = found != MATCH_FULL && len == most;
        if (found != MATCH_FULL && !f->final && !is_long) return false;
        if (is_long) {
            put(f, PART_CONTENT, whole_bytes(f, len));
            split->channel = CHANNEL_CONTENT;
            split->mark_len = 0;
            return true;
        }
        put_harmony_call(f, found == MATCH_FULL ? at : f->len);
    } else {
        put(f, split->channel == CHANNEL_REASONING ? PART_REASONING : PART_CONTENT, at);
    }
    if (found != MATCH_FULL) return false;
    split->state = STATE_GAP;
    return true;
}

// ---------------------------------------------------------------- the machine

static bool step(struct feed *f) {
    switch ((enum state)f->split->state) {
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

void split_init(struct split *split, const struct split_format *format, bool tools,
                bool in_reasoning) {
    *split = (struct split){.format = format, .tools = tools};
    split->state = in_reasoning ? STATE_REASONING : STATE_START;
    split->is_blank = in_reasoning;
    if (!format->harmony) return;
    split->state = in_reasoning ? STATE_MESSAGE : STATE_GAP;
    split->channel = CHANNEL_REASONING;
}

void split_deinit(struct split *split) {
    jbuf_deinit(&split->held);
    jbuf_deinit(&split->scratch);
}

bool split_prompt_opens_reasoning(const struct split_format *format, const char *prompt,
                                  size_t len) {
    const char *const open =
        format->harmony ? "<|channel|>analysis<|message|>" : format->reasoning->open;
    if (!open) return false;
    while (len > 0 && split_is_blank(prompt[len - 1])) len--;
    const size_t n = strlen(open);
    return len >= n && memcmp(prompt + len - n, open, n) == 0;
}

// Without memory for what is held back, all goes out as it is.
static void feed_unheld(struct split *split, const char *text, size_t len, split_fn fn, void *ctx) {
    if (split->held.len) fn(ctx, PART_CONTENT, 0, split->held.data, split->held.len);
    if (len) fn(ctx, PART_CONTENT, 0, text, len);
    jbuf_clear(&split->held);
    split->state = STATE_CONTENT;
    split->tools = false;
}

void split_feed(struct split *split, const char *text, size_t len, bool final, split_fn fn,
                void *ctx) {
    struct feed f = {split, text, len, final, fn, ctx};
    const bool is_held = split->held.len > 0;
    if (is_held) { // what was held comes first
        jbuf_bytes(&split->held, text, len);
        if (split->held.failed) {
            feed_unheld(split, text, len, fn, ctx);
            return;
        }
        f.text = split->held.data;
        f.len = split->held.len;
    }
    while (step(&f)) continue;
    if (is_held) {
        if (f.len < split->held.len) jbuf_drop(&split->held, split->held.len - f.len);
    } else {
        jbuf_bytes(&split->held, f.text, f.len);
        if (split->held.failed) feed_unheld(split, f.text, f.len, fn, ctx);
    }
}

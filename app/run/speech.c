// See speech.h. Parts are separated by an empty line; a call has a line.
#include "run/speech.h"

#include <string.h>

#include "server/answer_marks.h"

bool speech_is_for(const struct chat *chat) {
    const struct answer_marks *marks = &chat->marks;
    return marks->harmony || marks->reasoning.open || marks->wrap.open ||
           (chat->tools && marks->tools.open[0]);
}

// ---------------------------------------------------------------- on the terminal

static void show(struct speech *s, const char *text, size_t len) {
    if (len) answer_show(s->answer, text, len);
}

static void show_text(struct speech *s, const char *text) { show(s, text, strlen(text)); }

static void color(const struct speech *s, bool dim) {
    const bool wanted = s->answer->term->out_color;
    fputs(dim ? term_dim(wanted) : term_reset(wanted), stdout);
}

// From the part that is on the terminal to another one.
static void turn_to(struct speech *s, enum answer_part part) {
    if (!s->is_empty && s->part == part && part != PART_TOOL) return;
    if (!s->is_empty) {
        if (s->part == PART_REASONING) color(s, false);
        show_text(s, s->answer->last == '\n' ? "" : "\n");
        if (s->part != PART_TOOL || part != PART_TOOL) show_text(s, "\n");
    }
    s->is_empty = false;
    s->part = part;
    if (part == PART_REASONING) {
        color(s, true);
        show_text(s, "Thinking: ");
    }
}

// ---------------------------------------------------------------- parts

static void call_begin(struct speech *s, const char *name, size_t len) {
    turn_to(s, PART_TOOL);
    jbuf_clear(&s->name);
    jbuf_clear(&s->arguments);
    jbuf_bytes(&s->name, name, len);
    show_text(s, "Call: ");
    show(s, name, len);
    show_text(s, "(");
}

// Calls are answered by their ids; some templates ask for nine letters and digits.
static void call_end(struct speech *s) {
    char id[16];
    show_text(s, ")");
    snprintf(id, sizeof id, "call%03zu%02zu", s->n_messages % 1000,
             json_array_size(s->calls) % 100);
    json_t *arguments = json_loadb(s->arguments.data ? s->arguments.data : "", s->arguments.len,
                                   JSON_ALLOW_NUL, NULL);
    if (!arguments) // a number that is out of range
        arguments = json_text(s->arguments.data ? s->arguments.data : "", s->arguments.len);
    json_t *name = json_text(s->name.data, s->name.len);
    json_t *call = json_pack("{s:s,s:s,s:{s:o,s:o}}", "id", id, "type", "function", "function",
                             "name", name, "arguments", arguments);
    if (json_array_append_new(s->calls, call)) s->failed = true;
}

static void on_part(void *ctx, enum answer_part part, int tool, const char *text, size_t len) {
    struct speech *s = ctx;
    (void)tool;
    switch (part) {
    case PART_CONTENT:
    case PART_REASONING:
        turn_to(s, part);
        jbuf_bytes(part == PART_CONTENT ? &s->content : &s->reasoning, text, len);
        show(s, text, len);
        break;
    case PART_TOOL:
        call_begin(s, text, len);
        break;
    case PART_TOOL_ARGUMENTS:
        jbuf_bytes(&s->arguments, text, len);
        show(s, text, len);
        break;
    case PART_TOOL_END:
        call_end(s);
        break;
    }
}

static bool take(void *ctx, const char *text, size_t len, bool final) {
    struct speech *s = ctx;
    if (len || final) parts_feed(&s->parts, text, len, final, on_part, s);
    if (final && !s->is_empty && s->part == PART_REASONING) color(s, false);
    s->failed |= s->content.failed || s->reasoning.failed || s->name.failed || s->arguments.failed;
    return !s->failed;
}

// ---------------------------------------------------------------- life

void speech_init(struct speech *s, const struct chat *chat, bool thinks, struct answer *answer) {
    *s = (struct speech){.answer = answer,
                         .is_empty = true,
                         .n_messages = json_array_size(chat->messages),
                         .calls = json_array()};
    s->failed = !s->calls;
    parts_init(&s->parts, chat->marks, chat->tools != NULL, chat->types, thinks);
    answer->take = take;
    answer->take_ctx = s;
    answer->special_text = answer_marks_special(&chat->marks, chat->tools != NULL);
}

void speech_deinit(struct speech *s) {
    parts_deinit(&s->parts);
    jbuf_deinit(&s->content);
    jbuf_deinit(&s->reasoning);
    jbuf_deinit(&s->name);
    jbuf_deinit(&s->arguments);
    json_decref(s->calls);
}

json_t *speech_message(const struct speech *s) {
    json_t *content = json_text(s->content.data ? s->content.data : "", s->content.len);
    json_t *message = json_pack("{s:s,s:o}", "role", "assistant", "content", content);
    bool ok = message != NULL;
    if (ok && s->reasoning.len)
        ok = json_put(message, "reasoning_content", json_text(s->reasoning.data, s->reasoning.len));
    if (ok && json_array_size(s->calls))
        ok = json_put(message, "tool_calls", json_incref(s->calls));
    if (ok) return message;
    json_decref(message);
    return NULL;
}

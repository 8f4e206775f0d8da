// The conversation: a message in, an answer out, commands that start with a slash. Invariant: the
// chat holds only answered messages, so after any failure the next message continues after the last
// answer.
#include "run/converse.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "helpers.h"
#include "terminal/editor.h"
#include "terminal/interrupt.h"

struct talk {
    struct run *run;
    struct chat *chat;
    struct editor *editor;
    struct report last; // of the last answer; model is NULL: none yet
    bool leaving;
    int code; // of the program's end
};

// ---------------------------------------------------------------- messages to the user

// A dim line on standard error.
static void note(const struct talk *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note(const struct talk *c, const char *fmt, ...) {
    const bool color = c->run->term.err_color;
    va_list args;
    va_start(args, fmt);
    fflush(stdout);
    fputs(term_dim(color), stderr);
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "%s\n", term_reset(color));
    va_end(args);
}

static void greet(const struct talk *c) {
    rn_engine_info engine;
    rn_engine_get_info(c->run->engine, &engine);
    if (c->run->quiet) return;
    const rn_model_info *model = rn_model_get_info(c->run->model);
    fputs(term_dim(c->run->term.err_color), stderr);
    term_print_escaped(stderr, model->path, strlen(model->path), SIZE_MAX);
    note(c, ", %s, context of %d tokens; /help lists the commands", model->format, engine.n_ctx);
}

static void full(const struct talk *c, size_t tokens, int n_ctx) {
    const int n_ctx_max = rn_model_get_info(c->run->model)->n_ctx_train;
    note(c,
         "With this message the conversation has %zu tokens; the context holds %d.\n"
         "It was not sent. /reset starts a new conversation%s.",
         tokens, n_ctx, n_ctx < n_ctx_max ? "; --ctx gives a larger context" : "");
}

// ---------------------------------------------------------------- an answer

// Whether the tokens leave room for one more.
static bool fits(const struct talk *c, size_t n_ids) {
    rn_engine_info engine;
    rn_engine_get_info(c->run->engine, &engine);
    if (n_ids < (size_t)engine.n_ctx) return true;
    full(c, n_ids, engine.n_ctx);
    return false;
}

static void answer_note(struct talk *c, struct answer *answer) {
    struct report *report = &answer->report;
    free(c->last.stop);
    c->last = *report;
    report->stop = NULL; // moved
    if (!c->run->quiet) report_print_line(&c->last, &c->run->term);
    if (c->run->observe->choice) {
        report_measure(&c->last, c->run->engine);
        observe_print(c->run->observe, &c->last, c->run->engine, &c->run->term);
    }
    const rn_timings *timings = &c->last.timings;
    if (timings->prompt_tokens + timings->output_tokens >= c->last.engine.n_ctx) {
        note(c, "The context of %d tokens is full. /reset starts a new conversation.",
             c->last.engine.n_ctx);
    }
}

// The last message is the user's. False: it was not answered.
static bool answer_last(struct talk *c, struct answer *answer) {
    int32_t *ids = NULL;
    size_t n_ids = 0;
    rn_reasoning reasoning;
    if (chat_tokens(c->chat, true, &ids, &n_ids, &reasoning)) return false;
    const bool ok = fits(c, n_ids) && !run_answer(c->run, ids, n_ids, &reasoning, answer);
    rn_free(ids);
    interrupt_forget();
    if (answer->write_error) { // the terminal has gone
        c->leaving = true;
        c->code = APP_FAILED;
    }
    if (!ok) return false;
    answer_note(c, answer);
    if (answer->report.finish == RN_FINISH_CANCELLED && !answer->text.len) {
        note(c, "Nothing was answered, and the message is taken back.");
        return false;
    }
    return true;
}

static void message_send(struct talk *c, const char *text, size_t len) {
    struct answer answer = {.shown = true, .kept = true};
    if (!chat_add(c->chat, "user", text, len)) {
        app_fail(APP_FAILED, "out of memory");
        return;
    }
    if (!answer_last(c, &answer)) {
        chat_drop(c->chat);
    } else if (!chat_add(c->chat, "assistant", answer.text.data ? answer.text.data : "",
                         answer.text.len)) {
        chat_drop(c->chat);
        app_fail(APP_FAILED, "out of memory");
    }
    answer_deinit(&answer);
    putchar('\n');
}

// ---------------------------------------------------------------- commands

static void slash_system(struct talk *c, const char *text) {
    const char *system = chat_system(c->chat);
    if (!*text && system) {
        term_write(&c->run->term, system, strlen(system));
        putchar('\n');
        return;
    }
    if (!*text) {
        note(c, "There is no system message.");
        return;
    }
    const bool none = !strcmp(text, "\"\"");
    if (!chat_set_system(c->chat, none ? "" : text)) {
        app_fail(APP_FAILED, "out of memory");
    } else {
        note(c, "The system message is %s; the conversation starts again.", none ? "gone" : "set");
    }
}

static void slash_reset(struct talk *c, const char *text) {
    (void)text;
    chat_reset(c->chat);
    note(c, "The conversation is empty%s.",
         chat_system(c->chat) ? " but for the system message" : "");
}

// Tokens of the conversation so far; 0 where it is empty. A system message alone is no
// conversation: templates put it before the first message, or refuse it without one.
static int conversation_tokens(const struct talk *c) {
    int32_t *ids = NULL;
    size_t n_ids = 0;
    const size_t n_system = chat_system(c->chat) ? 1 : 0;
    if (json_array_size(c->chat->messages) <= n_system) return 0;
    if (chat_tokens(c->chat, false, &ids, &n_ids, NULL)) return 0;
    rn_free(ids);
    return (int)n_ids;
}

static void slash_stats(struct talk *c, const char *text) {
    (void)text;
    if (!c->last.model) {
        note(c, "Nothing was answered yet.");
        return;
    }
    c->last.conversation_tokens = conversation_tokens(c);
    report_measure(&c->last, c->run->engine);
    report_print(&c->last, &c->run->term);
}

static void slash_help(struct talk *c, const char *text);

static void slash_exit(struct talk *c, const char *text) {
    (void)text;
    c->leaving = true;
}

static const struct {
    const char *name, *argument, *help;
    void (*function)(struct talk *c, const char *text);
} commands[] = {
    {"/system", "[TEXT]", "set the system message and start again (\"\" removes it), or show it",
     slash_system},
    {"/reset", "", "forget the conversation, not the system message", slash_reset},
    {"/stats", "", "figures of the last answer, size of the conversation", slash_stats},
    {"/help", "", "this list", slash_help},
    {"/exit", "", "leave, as Ctrl-D does; /quit too", slash_exit},
    {"/quit", NULL, NULL, slash_exit},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void slash_help(struct talk *c, const char *text) {
    (void)c;
    (void)text;
    for (size_t i = 0; i < COMMANDS; i++) {
        if (!commands[i].help) continue;
        printf("  %-8s%-8s%s\n", commands[i].name, commands[i].argument, commands[i].help);
    }
    puts("\nAnything else is a message to the model. A line that ends in a backslash continues in "
         "the\n"
         "next one; a message that starts with // is sent with one slash. Ctrl-C stops an answer.");
}

static void command_run_line(struct talk *c, const char *line) {
    const size_t len = strcspn(line, " \t\n");
    const char *text = line + len + strspn(line + len, " \t\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strlen(commands[i].name) == len && !memcmp(commands[i].name, line, len)) {
            commands[i].function(c, text);
            return;
        }
    }
    char names[128] = "";
    for (size_t i = 0, at = 0; i < COMMANDS; i++) {
        if (!commands[i].help) continue;
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "",
                               commands[i].name);
    }
    char word[64];
    unicode_quote(line, len, word, sizeof word);
    note(c, "Unknown command %s. There are %s.\n// sends a message that starts with a slash.", word,
         names);
}

// ---------------------------------------------------------------- the loop

static void line_take(struct talk *c, struct text line) {
    while (line.len && strchr(" \t\n", line.data[line.len - 1])) line.data[--line.len] = '\0';
    const size_t blanks = strspn(line.data, " \t\n");
    if (blanks == line.len) return;
    editor_hush(c->editor, true);
    if (line.data[0] == '/' && line.data[1] != '/') {
        command_run_line(c, line.data);
    } else {
        const size_t slash = line.data[0] == '/';
        message_send(c, line.data + slash, line.len - slash);
    }
    editor_hush(c->editor, false);
}

int converse(struct run *run, struct chat *chat) {
    struct talk c = {.run = run, .chat = chat};
    interrupt_notes();
    c.editor = editor_open(&run->term);
    if (!c.editor) return app_fail(APP_FAILED, "out of memory");
    greet(&c);
    for (bool interrupted = false; !c.leaving;) {
        const struct text *line;
        const enum editor_result result = editor_read(c.editor, &line);
        if (result == EDITOR_END) break;
        if (result == EDITOR_NO_MEMORY) {
            c.code = app_fail(APP_FAILED, "out of memory");
            break;
        }
        if (result == EDITOR_MESSAGE) {
            line_take(&c, *line);
            interrupted = false;
        } else if (interrupted && !line->len) {
            break;
        } else {
            note(&c, "(Ctrl-C again or Ctrl-D leaves)");
            interrupted = true;
        }
    }
    editor_close(c.editor);
    free(c.last.stop);
    return c.code;
}

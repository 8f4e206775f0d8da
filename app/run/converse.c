// The conversation: a message in, an answer out, commands that start with a slash. Invariant: the
// chat holds only answered messages, and results of tools that wait for others, so after any
// failure the next message continues after the last answer.
#include "run/converse.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "run/speech.h"
#include "run/talk.h"
#include "terminal/interrupt.h"

// ---------------------------------------------------------------- messages to the user

void talk_note(const struct talk *c, const char *fmt, ...) {
    char text[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    wrap_note(&c->run->term, 0, text);
}

static void greet(const struct talk *c) {
    rn_engine_info engine;
    char *name = NULL;
    size_t len;
    rn_engine_get_info(c->run->engine, &engine);
    FILE *memory = c->run->quiet ? NULL : open_memstream(&name, &len);
    if (!memory) return;
    term_print_escaped(memory, c->run->name.text, strlen(c->run->name.text), SIZE_MAX);
    if (fclose(memory) == 0)
        talk_note(c, "%s, %s, context of %d tokens; /help lists the commands", name,
                  rn_model_get_info(c->run->model)->format, engine.n_ctx);
    free(name);
}

// ---------------------------------------------------------------- the context

static int context_of(const struct talk *c) {
    rn_engine_info engine;
    rn_engine_get_info(c->run->engine, &engine);
    return engine.n_ctx;
}

// Tokens that an answer should have room for: an eighth of the context, or --max-tokens.
static size_t room_wanted(const struct talk *c, int n_ctx) {
    const int most = option_int(c->options, OPT_MAX_TOKENS), room = n_ctx / 8;
    const int wanted = most >= 0 && most < room ? most : room;
    return wanted > 1 ? (size_t)wanted : 1;
}

// Tokens of the last message with the system message alone; turns are dropped for it. 0: unknown.
static size_t message_tokens(const struct talk *c) {
    int32_t *ids = NULL;
    size_t n_ids = 0;
    while (chat_drop_oldest(c->chat)) continue;
    if (chat_tokens(c->chat, true, &ids, &n_ids, NULL)) return 0;
    rn_free(ids);
    return n_ids;
}

// A new conversation helps only if the message fits one.
static void full(const struct talk *c, size_t tokens, int n_ctx) {
    const bool can_grow = n_ctx < rn_model_get_info(c->run->model)->n_ctx_train;
    const char *larger = can_grow ? "; --ctx gives a larger context" : "";
    const size_t alone = message_tokens(c);
    if (alone >= (size_t)n_ctx)
        talk_note(c,
                  "This message alone has %zu tokens; the context holds %d.\n"
                  "It was not sent. Send a shorter one%s.",
                  alone, n_ctx, larger);
    else
        talk_note(c,
                  "With this message the conversation has %zu tokens; the context holds %d.\n"
                  "It was not sent. /reset starts a new conversation%s.",
                  tokens, n_ctx, larger);
}

// The conversation's tokens. Where they leave too little room, the oldest turns are dropped until a
// quarter of the context is free: the turns that stay are evaluated again, so that is to be rare.
// False: they cannot be had or do not fit (printed).
static bool tokens_get(const struct talk *c, int32_t **ids, size_t *n_ids,
                       rn_reasoning *reasoning) {
    const size_t n_ctx = (size_t)context_of(c), most = n_ctx - n_ctx / 4;
    size_t turns = 0;
    if (chat_tokens(c->chat, true, ids, n_ids, reasoning)) return false;
    const size_t before = *n_ids;
    const bool is_trimmed =
        !option_flag(c->options, OPT_NO_TRIM) && *n_ids + room_wanted(c, (int)n_ctx) > n_ctx;
    while (is_trimmed && *n_ids > most && chat_drop_oldest(c->chat)) {
        rn_free(*ids);
        *ids = NULL;
        turns++;
        if (chat_tokens(c->chat, true, ids, n_ids, reasoning)) return false;
    }
    if (*n_ids >= n_ctx) { // not one more fits
        full(c, *n_ids, (int)n_ctx);
        return false;
    }
    if (turns)
        talk_note(c, "The context holds %zu tokens: %zu turn%s of %zu tokens %s dropped.", n_ctx,
                  turns, turns == 1 ? "" : "s", before - *n_ids, turns == 1 ? "is" : "are");
    return true;
}

// ---------------------------------------------------------------- an answer

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
        talk_note(c, "The context of %d tokens is full. %s/reset starts a new conversation.",
                  c->last.engine.n_ctx,
                  option_flag(c->options, OPT_NO_TRIM)
                      ? ""
                      : "The next message drops the oldest turns; ");
    }
}

void talk_calls(const struct talk *c) {
    size_t left;
    const json_t *call = chat_open_call(c->chat, &left);
    const char *name =
        json_string_value(json_object_get(json_object_get(call, "function"), "name"));
    if (call) talk_note(c, "/tool TEXT gives the result of %.64s.", name ? name : "the call");
}

// The last message is the user's, or a tool's. False: it was not answered.
static bool answer_last(struct talk *c, struct answer *answer, struct speech *speech) {
    int32_t *ids = NULL;
    size_t n_ids = 0;
    rn_reasoning reasoning;
    bool ok = tokens_get(c, &ids, &n_ids, &reasoning);
    if (ok && speech_is_for(c->chat))
        speech_init(speech, c->chat, reasoning.close && !reasoning.open, answer);
    ok = ok && !run_answer(c->run, ids, n_ids, &reasoning, answer);
    rn_free(ids);
    interrupt_forget();
    if (answer->write_error) { // the terminal has gone
        c->leaving = true;
        c->code = APP_FAILED;
    }
    if (!ok) return false;
    answer_note(c, answer);
    if (answer->report.finish == RN_FINISH_CANCELLED && !answer->text.len) {
        talk_note(c, "Nothing was answered, and the message is taken back.");
        return false;
    }
    return true;
}

// Another try of a message has another seed.
static void seed_apply(const struct talk *c) {
    rn_sampling *sampling = &c->run->sampling.value;
    sampling->seed = (uint64_t)c->options->value[OPT_SEED].integer + c->retries;
}

static bool answer_add(struct talk *c, const struct answer *answer, const struct speech *speech) {
    if (answer->take) return chat_append(c->chat, speech_message(speech));
    return chat_add(c->chat, "assistant", answer->text.data ? answer->text.data : "",
                    answer->text.len);
}

void talk_answer(struct talk *c, size_t drop) {
    struct answer answer = {.shown = true, .kept = true, .is_waited = !c->run->quiet};
    struct speech speech = {0};
    json_t *kept = json_copy(c->chat->messages);
    seed_apply(c);
    const bool ok = kept && answer_last(c, &answer, &speech) && answer_add(c, &answer, &speech);
    if (!kept) {
        app_fail(APP_FAILED, "out of memory");
    } else if (!ok) { // turns that were dropped come back
        json_decref(c->chat->messages);
        c->chat->messages = json_incref(kept);
    }
    for (; !ok && drop; drop--) chat_drop(c->chat);
    json_decref(kept);
    speech_deinit(&speech);
    answer_deinit(&answer);
    if (ok) talk_calls(c);
    putchar('\n');
}

static void message_send(struct talk *c, const char *text, size_t len) {
    c->retries = 0;
    if (chat_add(c->chat, "user", text, len))
        talk_answer(c, 1);
    else
        app_fail(APP_FAILED, "out of memory");
}

// ---------------------------------------------------------------- the loop

// The text between three quotation marks, as Ollama's users enter several lines.
static struct text quoted(struct text line) {
    const size_t marks = strlen(EDITOR_QUOTE);
    if (line.len < 2 * marks || strncmp(line.data, EDITOR_QUOTE, marks) != 0) return line;
    if (strcmp(line.data + line.len - marks, EDITOR_QUOTE) != 0) return line;
    line.len -= marks;
    line.data[line.len] = '\0';
    const size_t start = marks + (line.data[marks] == '\n');
    return (struct text){line.data + start, line.len > start ? line.len - start : 0};
}

static void line_take(struct talk *c, struct text line) {
    while (line.len && strchr(" \t\n", line.data[line.len - 1])) line.data[--line.len] = '\0';
    line = quoted(line);
    const size_t blanks = strspn(line.data, " \t\n");
    if (blanks == line.len) return;
    editor_hush(c->editor, true);
    if (line.data[0] == '/' && line.data[1] != '/') {
        slash_run(c, line.data);
    } else {
        const size_t slash = line.data[0] == '/';
        message_send(c, line.data + slash, line.len - slash);
    }
    editor_hush(c->editor, false);
}

int converse(struct run *run, struct chat *chat) {
    struct talk c = {.run = run, .chat = chat, .given = run->options};
    interrupt_notes();
    c.options = malloc(sizeof *c.options);
    c.editor = c.options ? editor_open(&run->term, slash_complete, &c) : NULL;
    if (!c.editor) {
        free(c.options);
        return app_fail(APP_FAILED, "out of memory");
    }
    *c.options = *run->options; // its lists stay those of the program
    run->options = c.options;
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
            talk_note(&c, "(Ctrl-C again or Ctrl-D leaves)");
            interrupted = true;
        }
    }
    editor_close(c.editor);
    run->options = c.given;
    free(c.options);
    free(c.file);
    free(c.last.stop);
    return c.code;
}

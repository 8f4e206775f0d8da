// The commands of a conversation: a table of names, help and functions. Each leaves the chat as
// converse.c expects it.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helpers.h"
#include "run/talk.h"

// ---------------------------------------------------------------- messages

// "1 message is", "2 messages are".
static const char *count_of(size_t n, char out[32]) {
    snprintf(out, 32, "%zu message%s", n, n == 1 ? " is" : "s are");
    return out;
}

static void slash_system(struct talk *c, const char *text) {
    const char *system = chat_system(c->chat);
    if (!*text && system) {
        term_write(&c->run->term, system, strlen(system));
        putchar('\n');
        return;
    }
    if (!*text) {
        talk_note(c, "There is no system message.");
        return;
    }
    const bool none = !strcmp(text, "\"\"");
    if (!chat_set_system(c->chat, none ? "" : text)) {
        app_fail(APP_FAILED, "out of memory");
    } else {
        talk_note(c, "The system message is %s; the conversation starts again.",
                  none ? "gone" : "set");
    }
}

static void slash_reset(struct talk *c, const char *text) {
    (void)text;
    chat_reset(c->chat);
    talk_note(c, "The conversation is empty%s.",
              chat_system(c->chat) ? " but for the system message" : "");
}

static void slash_undo(struct talk *c, const char *text) {
    (void)text;
    if (!chat_drop_turn(c->chat)) {
        talk_note(c, "There is no message to take back.");
        return;
    }
    char left[32];
    talk_note(c, "The last message and its answer are taken back; %s left.",
              count_of(chat_turns(c->chat), left));
}

// Tries another seed each time, where one was given.
static void slash_regen(struct talk *c, const char *text) {
    (void)text;
    if (!chat_turns(c->chat)) {
        talk_note(c, "There is no message to answer again.");
        return;
    }
    json_t *kept = json_copy(c->chat->messages);
    if (!kept) {
        app_fail(APP_FAILED, "out of memory");
        return;
    }
    while (chat_is_answered(c->chat)) chat_drop(c->chat);
    c->retries++;
    talk_answer(c, 0);
    if (!chat_is_answered(c->chat)) { // the old answer stays
        json_decref(c->chat->messages);
        c->chat->messages = json_incref(kept);
    }
    json_decref(kept);
}

// The model continues when every call has its result.
static void slash_tool(struct talk *c, const char *text) {
    size_t left;
    const json_t *call = chat_open_call(c->chat, &left);
    if (!call) {
        talk_note(c, "The model has called no tool%s.",
                  c->chat->tools ? "" : "; --tools gives it some");
    } else if (!*text) {
        talk_note(c, "/tool needs the result of the call.");
    } else if (!chat_add_result(c->chat, call, text)) {
        app_fail(APP_FAILED, "out of memory");
    } else if (left > 1) {
        talk_calls(c);
    } else {
        c->retries = 0;
        talk_answer(c, 1);
    }
}

// ---------------------------------------------------------------- files

static bool file_remember(struct talk *c, const char *path) {
    char *copy = strdup(path);
    if (copy) free(c->file);
    if (copy) c->file = copy;
    return copy != NULL;
}

static bool text_put(int fd, const char *text) {
    const size_t len = strlen(text);
    const bool ok = write(fd, text, len) == (ssize_t)len && write(fd, "\n", 1) == 1;
    const int error_number = errno;
    const bool closed = close(fd) == 0;
    if (!ok) errno = error_number;
    return ok && closed;
}

// Removes a file that could not be written or moved. False: errno says why.
static bool undone(bool ok, const char *path) {
    const int error_number = errno;
    if (!ok) unlink(path);
    errno = error_number;
    return ok;
}

static bool file_make(const char *path, const char *text) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_EXCL, 0600);
    return fd >= 0 && undone(text_put(fd, text), path);
}

// The new text is written beside the old one, which stays where that fails.
static bool file_replace(const char *path, const char *text) {
    char at[PATH_MAX], beside[PATH_MAX + 8];
    struct stat old;
    if (!realpath(path, at)) snprintf(at, sizeof at, "%s", path); // of a link the file
    snprintf(beside, sizeof beside, "%s.XXXXXX", at);
    const int fd = mkstemp(beside);
    if (fd < 0) return false;
    if (stat(at, &old) == 0) fchmod(fd, old.st_mode & 0777);
    return undone(text_put(fd, text) && rename(beside, at) == 0, beside);
}

// A file that this conversation did not write or read is not replaced.
static void slash_save(struct talk *c, const char *path) {
    const bool is_own = c->file && !strcmp(c->file, *path ? path : c->file);
    if (!*path && c->file) path = c->file;
    if (!*path) {
        talk_note(c, "/save needs the name of a file.");
        return;
    }
    char *text = json_dumps(c->chat->messages, JSON_INDENT(2));
    if (!text) {
        app_fail(APP_FAILED, "out of memory");
    } else if (!(is_own ? file_replace : file_make)(path, text)) {
        talk_note(c, "%s: %s.", err_path(path),
                  errno == EEXIST && !is_own ? "there is such a file, and it stays as it is"
                                             : strerror(errno));
    } else if (file_remember(c, path)) {
        char saved[32];
        talk_note(c, "%s saved in %s.", count_of(json_array_size(c->chat->messages), saved),
                  err_path(c->file));
    }
    free(text);
}

static void slash_load(struct talk *c, const char *path) {
    if (!*path) {
        talk_note(c, "/load needs the name of a file, as /save writes it.");
        return;
    }
    json_t *kept = c->chat->messages;
    c->chat->messages = json_array();
    if (!c->chat->messages || chat_load(c->chat, path)) { // the error is printed
        json_decref(c->chat->messages);
        c->chat->messages = kept;
        return;
    }
    json_decref(kept);
    file_remember(c, path);
    const bool is_answered = chat_is_answered(c->chat);
    char loaded[32];
    talk_note(c, "%s loaded%s.", count_of(json_array_size(c->chat->messages), loaded),
              is_answered ? "" : "; /regen answers the last one");
}

// ---------------------------------------------------------------- settings

static const enum option_id settable[] = {
    OPT_MAX_TOKENS,
    OPT_SEED,
    OPT_MIN_TOKENS,
    OPT_REASONING_BUDGET,
#define SAMPLING_NUMBER(kind, id, ...) OPT_##id,
#include "plan/sampling.def"
};
enum { SETTABLE = sizeof settable / sizeof *settable };

static const char *settable_name(int index) {
    struct option_row row;
    return option_row_get(COMMAND_RUN, settable[index], &row) ? row.flag : "";
}

// The settings that answers are made with.
static void settings_print(const struct talk *c) {
    const rn_sampling *s = &c->run->sampling.value;
    printf("  %-24s %d\n", "max-tokens", option_int(c->options, OPT_MAX_TOKENS));
    if (s->has_seed)
        printf("  %-24s %llu\n", "seed", (unsigned long long)s->seed);
    else
        printf("  %-24s %s\n", "seed", "drawn for each answer");
    printf("  %-24s %d\n", "min-tokens", option_int(c->options, OPT_MIN_TOKENS));
    printf("  %-24s %d\n", "reasoning-budget", option_int(c->options, OPT_REASONING_BUDGET));
#define SAMPLING_NUMBER(kind, id, field, neutral, min, max, json, flag, help)                      \
    printf("  %-24s %.6g\n", flag, (double)s->field);
#include "plan/sampling.def"
}

// The option of that name, with - or _; -1: none that can be set here.
static int settable_find(const char *name, size_t len) {
    char flag[64];
    if (len >= sizeof flag) return -1;
    for (size_t i = 0; i < len; i++) flag[i] = name[i] == '_' ? '-' : name[i];
    const int id = option_find(COMMAND_RUN, flag, len);
    for (int i = 0; i < SETTABLE; i++)
        if ((int)settable[i] == id) return id;
    return -1;
}

// "default" is the value that the program was started with. False: refused (printed).
static bool setting_apply(struct talk *c, enum option_id id, const char *name, const char *text) {
    struct option_value *value = &c->options->value[id], old = *value;
    const bool is_default = !strcmp(text, "default");
    if (is_default) *value = c->given->value[id];
    const bool ok = is_default || option_set(c->options, id, ORIGIN_COMMAND_LINE, name, text);
    if (!ok) *value = old;
    value->text = c->given->value[id].text; // the line ends; numbers need no text
    return !sampling_get(c->options, rn_model_get_info(c->run->model), &c->run->sampling) && ok;
}

static void slash_set(struct talk *c, const char *text) {
    const size_t len = strcspn(text, " \t=");
    const char *value = text + len + strspn(text + len, " \t=");
    char name[64];
    if (!*text) {
        settings_print(c);
        return;
    }
    unicode_quote(text, len, name, sizeof name);
    const int id = settable_find(text, len);
    if (id < 0) {
        talk_note(c, "%s cannot be set here. /set lists all that can.", name);
    } else if (!*value) {
        talk_note(c, "/set %.*s needs a value, or 'default'.", (int)len, text);
    } else {
        struct option_row row;
        option_row_get(COMMAND_RUN, (enum option_id)id, &row);
        if (setting_apply(c, (enum option_id)id, row.flag, value))
            talk_note(c, "%s is %s.", row.flag, value);
    }
}

// ---------------------------------------------------------------- the rest

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
        talk_note(c, "Nothing was answered yet.");
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

// Without help: another name of the one before.
static const struct {
    const char *name, *argument, *help;
    void (*function)(struct talk *c, const char *text);
} commands[] = {
#define SLASH(function, name, argument, help) {name, argument, help, function},
#define SLASH_TOO(function, name)             {name, NULL, NULL, function},
#include "run/slash.def"
};
enum { COMMANDS = sizeof commands / sizeof *commands };

// As it is in a file or a pipe, broken at the edge of a terminal.
static void help_line(const struct talk *c, int indent, const char *text) {
    struct wrap wrap = {.indent = indent};
    wrap_write(&wrap, &c->run->term, text, strlen(text));
    putchar('\n');
}

static void slash_help(struct talk *c, const char *text) {
    enum { HELP_COLUMN = 23 };
    (void)text;
    for (size_t i = 0; i < COMMANDS; i++) {
        char line[256];
        if (!commands[i].help) continue;
        snprintf(line, sizeof line, "  %-8s%-13s%s", commands[i].name, commands[i].argument,
                 commands[i].help);
        help_line(c, HELP_COLUMN, line);
    }
    help_line(
        c, 0,
        "\nAnything else is a message to the model. A line that ends in a backslash continues "
        "in the next one, and so do lines between two \"\"\". A message that starts with // is "
        "sent with one slash. Ctrl-C stops an answer, Tab completes a command.");
}

void slash_run(struct talk *c, const char *line) {
    const size_t len = strcspn(line, " \t\n");
    const char *text = line + len + strspn(line + len, " \t\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strlen(commands[i].name) == len && !memcmp(commands[i].name, line, len)) {
            commands[i].function(c, text);
            return;
        }
    }
    char names[256] = "";
    for (size_t i = 0, at = 0; i < COMMANDS; i++) {
        if (!commands[i].help) continue;
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "",
                               commands[i].name);
    }
    char word[64];
    unicode_quote(line, len, word, sizeof word);
    talk_note(c, "Unknown command %s. There are %s.\n// sends a message that starts with a slash.",
              word, names);
}

bool slash_complete(void *ctx, const char *line, int index, char out[EDITOR_COMPLETION]) {
    (void)ctx;
    if (!strncmp(line, "/set ", 5)) {
        if (index >= SETTABLE) return false;
        snprintf(out, EDITOR_COMPLETION, "/set %s ", settable_name(index));
        return true;
    }
    if (index >= COMMANDS) return false;
    const bool has_argument = commands[index].argument && *commands[index].argument;
    snprintf(out, EDITOR_COMPLETION, "%s%s", commands[index].name, has_argument ? " " : "");
    return true;
}

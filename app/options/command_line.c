// The command line: flags with their values in any spelling, and the words of other programs
// (peers.c). Arguments without a flag are arguments.c's. Called by options_parse.
#include <string.h>

#include "app.h"
#include "options/peers.h"

// A command line that is being read.
struct line {
    struct options *options;
    int argc, at; // argv[at] is the current argument
    char **argv;
    struct arguments arguments;
    char kv_of; // 'k', 'v': the KV type was given for keys, for values
};

// ---------------------------------------------------------------- unknown flags

// The option's commands as "serve and plan"; false: no command has it.
static bool owners_list(const char *given, char *out, size_t size) {
    const char *owner[COMMAND_COUNT];
    int count = 0;
    size_t used = 0;
    for (int i = 0; i < COMMAND_COUNT; i++) {
        const enum command_id command = (enum command_id)i;
        const bool has = given[1] == '-' ? option_find(command, given + 2, strlen(given + 2)) >= 0
                                         : option_find_alias(command, given, strlen(given)) >= 0;
        if (has) owner[count++] = command_name(command);
    }
    for (int i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s",
                                 i == 0           ? ""
                                 : i == count - 1 ? " and "
                                                  : ", ",
                                 owner[i]);
    return count > 0;
}

static bool unknown(enum command_id command, const char *given) {
    char word[64], owners[128];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(given, "="), given);
    if (owners_list(word, owners, sizeof owners)) {
        app_fail(APP_USAGE, "%s is an option of %s, not of %s", word, owners,
                 command_name(command));
        return false;
    }
    if (word[1] != '-' && word[2] && option_find_short(command, word[1]) >= 0 &&
        !option_nearest(command, word + 1)) {
        app_fail(APP_USAGE, "unknown option %s; as a value of -%c: -%c %s", word, word[1], word[1],
                 word + 2);
        return false;
    }
    const char *name = word + 1 + (word[1] == '-');
    const char *near = strlen(name) > 1 ? option_nearest(command, name) : NULL;
    if (near) {
        app_fail(APP_USAGE, "unknown option %s; did you mean --%s?", word, near);
    } else {
        app_fail(APP_USAGE, "unknown option %s; see 'runnel %s --help'", word,
                 command_name(command));
    }
    return false;
}

// ---------------------------------------------------------------- finding a flag

// "-p=hi" is "-p" with the value "=hi" to some programs and "hi" to others.
static bool equals_refuse(const char *given, const struct option_row *row) {
    const struct app_short value = app_short(given + 3);
    if (row->kind == OPTION_FLAG) {
        app_fail(APP_USAGE, "-%c=%s: write -%c or --%s=%s", given[1], value.text, given[1],
                 row->flag, value.text);
    } else {
        app_fail(APP_USAGE, "-%c=%s: write -%c %s or --%s=%s", given[1], value.text, given[1],
                 value.text, row->flag, value.text);
    }
    return false;
}

static bool is_number(const struct option_row *row) {
    return row->kind == OPTION_INT || row->kind == OPTION_SEED || row->kind == OPTION_FLOAT ||
           !strcmp(row->value, "N,...");
}

// Whether the text behind a letter can be its value: -n5, -mmodel.gguf. Other programs have flags
// of several letters, so a short word is none.
static bool is_attached(const struct option_row *row, const char *text) {
    enum { LONGEST_FLAG = 5 };
    if (row->kind == OPTION_FLAG) return false;
    if (is_number(row)) return strchr("-.0123456789", *text) != NULL;
    return strlen(text) > LONGEST_FLAG || text[strspn(text, "abcdefghijklmnopqrstuvwxyz-")];
}

// "-n5": the letter's option, with the rest as its value; -1: the word is another one.
static int attached_find(enum command_id command, const char *given, const char **value) {
    struct option_row row;
    const int id = option_find_short(command, given[1]);
    if (id < 0 || !option_row_get(command, (enum option_id)id, &row)) return -1;
    if (option_find(command, given + 1, strlen(given + 1)) >= 0) return -1; // -model
    if (given[2] != '=' && !is_attached(&row, given + 2)) return -1;
    *value = given + 2;
    return id;
}

// The option that argv holds at given, -1: unknown. *value is its value in the same argument, or
// NULL.
static int flag_find(enum command_id command, const char *given, const char **value) {
    const char *equals = strchr(given, '=');
    const size_t len = equals ? (size_t)(equals - given) : strlen(given);
    *value = equals ? equals + 1 : NULL;
    if (given[1] == '-') return option_find(command, given + 2, len - 2);
    if (!given[2]) {
        const int id = option_find_short(command, given[1]);
        if (id >= 0) return id;
    }
    const int alias = option_find_alias(command, given, len);
    if (alias >= 0) return alias;
    *value = NULL;
    return given[2] && !peer_find(command, given) ? attached_find(command, given, value) : -1;
}

// ---------------------------------------------------------------- taking a flag

// llama.cpp has a format for keys and one for values; here both have one.
static bool kv_types_agree(struct line *line, const char *name, const char *text) {
    const char of = name[strlen(name) - 1]; // -ctk, --cache-type-v
    const struct option_value *value = &line->options->value[OPT_KV_TYPE];
    if (of != 'k' && of != 'v') return true;
    const char before = line->kv_of;
    line->kv_of = of;
    if (!before || before == of) return true;
    struct options other = {.command = line->options->command};
    if (!option_set(&other, OPT_KV_TYPE, ORIGIN_COMMAND_LINE, name, text)) return false;
    if (!strcmp(other.value[OPT_KV_TYPE].text, value->text)) return true;
    app_fail(APP_USAGE, "%s: '%s' differs from '%s': keys and values have one format", name,
             app_short(text).text, value->text);
    return false;
}

static const char *value_next(struct line *line, enum option_id id) {
    const char *next = line->at + 1 < line->argc ? line->argv[line->at + 1] : NULL;
    if (id == OPT_COLOR && (!next || next[0] == '-')) return "always"; // as elsewhere, a flag
    if (next) line->at++;
    return next;
}

// --compare has a second value: options of a server, which start with a dash as well. An option of
// this command is none.
static bool second_take(struct line *line) {
    const char *ignored, *next = line->at + 1 < line->argc ? line->argv[line->at + 1] : NULL;
    if (!next || !strcmp(next, "--")) return true;
    if (next[0] == '-' && next[1] && !strpbrk(next, " \t") &&
        flag_find(line->options->command, next, &ignored) >= 0)
        return true;
    line->at++;
    line->options->positional = next;
    return true;
}

// The flag at argv[at], with its value there or in the next argument; moves `at` to the last one
// used.
static bool flag_take(struct line *line) {
    struct options *options = line->options;
    const char *given = line->argv[line->at], *inline_value;
    const int id = flag_find(options->command, given, &inline_value);
    struct option_row row;
    if (id < 0 || !option_row_get(options->command, (enum option_id)id, &row)) {
        const struct peer *peer = peer_find(options->command, given);
        return peer ? peer_take(options, peer, line->argc, line->argv, &line->at)
                    : unknown(options->command, given);
    }
    if (given[1] == row.short_flag && given[2] == '=') return equals_refuse(given, &row);
    char name[OPTION_NAME_SIZE];
    if (given[1] == row.short_flag && given[1] != '-') {
        snprintf(name, sizeof name, "-%c", given[1]);
    } else {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(given, "="), given);
    }
    const char *text = inline_value;
    if (!text && row.kind == OPTION_FLAG) text = "yes";
    if (!text) text = value_next(line, (enum option_id)id);
    if (!text) {
        app_fail(APP_USAGE, "%s needs a value: %s", name, row.value);
        return false;
    }
    if (id == OPT_KV_TYPE && !kv_types_agree(line, name, text)) return false;
    if (!option_set(options, (enum option_id)id, ORIGIN_COMMAND_LINE, name, text)) return false;
    return id != OPT_COMPARE || second_take(line);
}

// Whether --help is in the place of a flag, even if other arguments are wrong.
static bool help_wanted(enum command_id command, int argc, char **argv) {
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *arg = argv[i];
        if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) return true;
        if (arg[0] != '-' || !arg[1]) continue;
        const char *inline_value;
        const int id = flag_find(command, arg, &inline_value);
        struct option_row row;
        if (id < 0 || !option_row_get(command, (enum option_id)id, &row)) continue;
        if (row.kind != OPTION_FLAG && !inline_value) i++; // its value
    }
    return false;
}

bool command_line_take(struct options *options, int argc, char **argv) {
    options->help = help_wanted(options->command, argc, argv);
    if (options->help) return true;
    struct line line = {.options = options, .argc = argc, .argv = argv};
    bool only_arguments = false;
    for (; line.at < argc; line.at++) {
        const char *arg = argv[line.at];
        bool ok = true;
        if (only_arguments || arg[0] != '-' || !arg[1]) {
            ok = arguments_add(options, &line.arguments, arg);
        } else if (!strcmp(arg, "--")) {
            only_arguments = true;
        } else {
            ok = flag_take(&line);
        }
        if (!ok) return false;
    }
    return arguments_apply(options, &line.arguments);
}

// Arguments without a flag. In most commands they stand for options: `run MODEL PROMPT` is
// `run -m MODEL -p PROMPT`. They are assigned once all flags are known: an option that a flag gives
// takes no argument. Called by command_line.c.
#include <string.h>
#include <unistd.h>

#include "app.h"

// The options that arguments stand for, in order. `many`: all arguments are the last option's.
static const struct places {
    int count;
    bool many;
    enum option_id id[2];
} places_of[COMMAND_COUNT] = {
    [COMMAND_RUN] = {2, false, {OPT_MODEL, OPT_PROMPT}},
    [COMMAND_SERVE] = {1, false, {OPT_MODEL}},
    [COMMAND_INSPECT] = {1, false, {OPT_MODEL}},
    [COMMAND_TOKENIZE] = {2, false, {OPT_MODEL, OPT_PROMPT}},
    [COMMAND_DETOKENIZE] = {1, false, {OPT_MODEL}},
    [COMMAND_EVAL] = {2, false, {OPT_MODEL, OPT_LOSS}},
    [COMMAND_BENCH] = {1, true, {OPT_MODEL}},
    [COMMAND_BENCH_SERVE] = {1, false, {OPT_MODEL}},
    [COMMAND_PLAN] = {1, false, {OPT_MODEL}},
};

// "'TEXT' is why".
static bool refuse(const char *text, const char *why) {
    app_fail(APP_USAGE, "'%s' %s", app_short(text).text, why);
    return false;
}

static bool too_many(const char *text) {
    app_fail(APP_USAGE, "one argument too many: '%s'", app_short(text).text);
    return false;
}

// ---------------------------------------------------------------- arguments of their own

static bool is_own(enum command_id command) {
    return command == COMMAND_EXPLAIN || command == COMMAND_MODELS || command == COMMAND_HELP ||
           command == COMMAND_COMPLETIONS;
}

static bool own_take(struct options *options, const char *text) {
    if (options->positional && options->command == COMMAND_HELP && !options->second) {
        options->second = text;
        return true;
    }
    if (options->positional) return too_many(text);
    if (options->command == COMMAND_EXPLAIN && !*text) return refuse(text, "is not a file name");
    if (options->command == COMMAND_MODELS && !*text) return refuse(text, "is not a name");
    options->positional = text;
    return true;
}

bool arguments_add(struct options *options, struct arguments *arguments, const char *text) {
    const struct places *places = &places_of[options->command];
    const int most =
        places->many ? (int)(sizeof arguments->word / sizeof *arguments->word) : places->count;
    if (is_own(options->command)) return own_take(options, text);
    if (!places->count) {
        app_fail(APP_USAGE, "unexpected argument '%s'; see 'runnel %s --help'",
                 app_short(text).text, command_name(options->command));
        return false;
    }
    if (arguments->count == most) return too_many(text);
    arguments->word[arguments->count++] = text;
    return true;
}

// ---------------------------------------------------------------- arguments for options

static bool ends_in(const char *text, const char *end) {
    const size_t len = strlen(text), end_len = strlen(end);
    return len > end_len && !strcmp(text + len - end_len, end);
}

static bool is_model_file(const char *text) {
    return ends_in(text, ".gguf") || ends_in(text, ".safetensors");
}

static bool from_command_line(const struct options *options, enum option_id id) {
    return options->value[id].origin == ORIGIN_COMMAND_LINE;
}

// A file's name as a prompt is a mistake: nobody continues it.
static bool prompt_check(const struct options *options, const char *text) {
    static const enum option_id others[] = {OPT_FILE, OPT_PROMPT_IDS, OPT_MESSAGES};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (!from_command_line(options, others[i])) continue;
        app_fail(APP_USAGE, "one argument too many: '%s'; --%s gives the prompt",
                 app_short(text).text, option_flag_name(others[i]));
        return false;
    }
    if (!is_model_file(text)) return true;
    return refuse(
        text, "would be the prompt, because the model is given already; -p takes such a prompt");
}

// A prompt in the place of the model is a common mistake. A model's name may have no file here, so
// only text with blanks is taken for a prompt.
static bool model_check(const struct options *options, const char *text) {
    struct option_row row;
    if (!*text) return refuse(text, "is not a file name");
    if (!option_row_get(options->command, OPT_PROMPT, &row) || !strpbrk(text, " \t\n") ||
        access(text, F_OK) == 0)
        return true;
    return refuse(text, "is not a file; the first argument is the model, and -p gives a prompt");
}

static bool word_set(struct options *options, enum option_id id, const char *text) {
    if (id == OPT_PROMPT && !prompt_check(options, text)) return false;
    if (id == OPT_MODEL && !model_check(options, text)) return false;
    if (id == OPT_LOSS && !*text) return refuse(text, "is not a file name");
    char name[OPTION_NAME_SIZE];
    snprintf(name, sizeof name, "--%s", option_flag_name(id));
    return option_set(options, id, ORIGIN_COMMAND_LINE, name, text);
}

static bool is_open(const struct options *options, const struct places *places, int i) {
    return places->many || !from_command_line(options, places->id[i]);
}

static bool no_place(const struct places *places, const char *text) {
    if (places->count > 1) return too_many(text);
    app_fail(APP_USAGE, "--%s and '%s' exclude each other", option_flag_name(places->id[0]),
             app_short(text).text);
    return false;
}

bool arguments_apply(struct options *options, const struct arguments *arguments) {
    const struct places *places = &places_of[options->command];
    int place = 0;
    // `eval TEXT`: the text is needed, the model is not
    if (options->command == COMMAND_EVAL && arguments->count == 1 && is_open(options, places, 1) &&
        !is_model_file(arguments->word[0]))
        place = 1;
    for (int i = 0; i < arguments->count; i++) {
        while (place < places->count && !is_open(options, places, place)) place++;
        if (place == places->count) return no_place(places, arguments->word[i]);
        if (!word_set(options, places->id[place], arguments->word[i])) return false;
        place += !places->many;
    }
    return true;
}

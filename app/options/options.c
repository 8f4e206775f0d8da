// Parses a command line and its environment twins against the option table. Options that they leave
// open are taken from a file (config.c), then from the table's defaults. Called by main once per
// run. Invariant: a value that options_parse accepted is in its row's range.
#include "options/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "helpers.h"

// Bits under the names that the table uses.
enum {
#define COMMAND(id, ...) id = 1u << COMMAND_##id,
#include "commands.def"
#undef COMMAND
};

#define STRING          .kind = OPTION_STRING
#define PATH            .kind = OPTION_PATH
#define FLAG            .kind = OPTION_FLAG
#define LIST(max)       .kind = OPTION_LIST, .int_max = max
#define SEED_NUMBER     .kind = OPTION_SEED
#define INT(min, max)   .kind = OPTION_INT, .int_min = min, .int_max = max
#define FLOAT(min, max) .kind = OPTION_FLOAT, .float_min = min, .float_max = max
#define CHOICE(words)   .kind = OPTION_CHOICE, .choices = words
#define SIZE            .kind = OPTION_SIZE

#define NONE      .shown = false
#define SAYS(say) .words = say
#define NUMBER(x) .shown = true, .integer = x
#define BYTES(x)  .shown = true, .integer = x
#define REAL(x)   .shown = true, .real = (double)(x)
#define TEXT(x)   .shown = true, .text = x
#define AS(say)   , .words = say
#define PLUS(say) , .more = say

#define NUMERAL_OF(x) #x
#define NUMERAL(x)    NUMERAL_OF(x)

static const struct option_row rows[OPT_COUNT] = {
#define OPTION(id, flag_, short_, kind_, initial_, commands_, value_, help_)                       \
    [OPT_##id] = {.flag = flag_,                                                                   \
                  .short_flag = short_,                                                            \
                  kind_,                                                                           \
                  .initial = {initial_},                                                           \
                  .commands = commands_,                                                           \
                  .value = value_,                                                                 \
                  .help = help_},
#define VARIANT(...)
#define ALIAS(flag, id)
#include "options/options.def"
#undef OPTION
#undef VARIANT
// a model's file may bring them
#define SAMPLING_MODEL(id, field, member, otherwise)                                               \
    [OPT_##id].initial.words = "the model's, else " #otherwise,
#include "plan/sampling.def"
};

// Flags and their short forms are those of the options' rows.
static const struct variant {
    enum option_id id;
    struct option_row row;
} variants[] = {
#define OPTION(...)
#define VARIANT(id_, kind_, initial_, commands_, value_, help_, ...)                               \
    {.id = OPT_##id_,                                                                              \
     .row = {kind_, .initial = {initial_}, .commands = commands_, .value = value_, .help = help_,  \
             __VA_ARGS__}},
#include "options/options.def"
#undef OPTION
#undef VARIANT
#undef ALIAS
};

static const struct {
    const char *flag;
    enum option_id id;
} aliases[] = {
#define OPTION(...)
#define VARIANT(...)
#define ALIAS(flag, id) {flag, OPT_##id},
#include "options/options.def"
#undef OPTION
#undef VARIANT
#undef ALIAS
};

static bool is_for(const struct option_row *row, enum command_id command) {
    return (row->commands >> command & 1u) != 0;
}

bool option_row_get(enum command_id command, enum option_id id, struct option_row *out) {
    *out = rows[id];
    if (is_for(out, command)) return true;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        if (variants[i].id != id || !is_for(&variants[i].row, command)) continue;
        *out = variants[i].row;
        out->flag = rows[id].flag;
        out->short_flag = rows[id].short_flag;
        return true;
    }
    return false;
}

static bool applies(int id, enum command_id command) {
    struct option_row row;
    return option_row_get(command, (enum option_id)id, &row);
}

// ---------------------------------------------------------------- names and defaults

// Of ASCII alone: toupper() depends on the locale, and a Turkish i has a dot.
static char upper(char c) { return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c; }

const char *option_environment(const struct option_row *row, char buffer[OPTION_NAME_SIZE]) {
    if (row->environment) return row->environment;
    int len = snprintf(buffer, OPTION_NAME_SIZE, "RUNNEL_");
    for (const char *c = row->flag; *c && len < OPTION_NAME_SIZE - 1; c++)
        buffer[len++] = *c == '-' ? '_' : upper(*c);
    buffer[len] = '\0';
    return buffer;
}

// A size with the largest suffix that gives a whole number: 16M.
static void size_show(int64_t bytes, char *out, size_t size) {
    static const char suffix[] = {'\0', 'K', 'M', 'G', 'T', '\0'};
    int i = 0;
    for (; bytes && bytes % 1024 == 0 && suffix[i + 1]; i++) bytes /= 1024;
    snprintf(out, size, "%" PRId64 "%c", bytes, suffix[i]);
}

static void value_show(const struct option_row *row, char *out, size_t size) {
    const struct option_initial *initial = &row->initial;
    if (initial->words) {
        snprintf(out, size, "%s", initial->words);
    } else if (initial->text) {
        snprintf(out, size, "%s", initial->text);
    } else if (row->kind == OPTION_FLOAT) {
        snprintf(out, size, "%g", initial->real);
    } else if (row->kind == OPTION_SIZE) {
        size_show(initial->integer, out, size);
    } else {
        snprintf(out, size, "%" PRId64, initial->integer);
    }
}

const char *option_initial_text(const struct option_row *row, char buffer[OPTION_INITIAL_SIZE]) {
    buffer[0] = '\0';
    if (!row->initial.shown && !row->initial.words) return buffer;
    value_show(row, buffer, OPTION_INITIAL_SIZE);
    const size_t len = strlen(buffer);
    if (row->initial.more)
        snprintf(buffer + len, OPTION_INITIAL_SIZE - len, "%s", row->initial.more);
    return buffer;
}

// ---------------------------------------------------------------- values

static bool refuse(const char *name, const char *text, const char *what) {
    app_fail(APP_USAGE, "%s: '%s' is not %s", name, app_short(text).text, what);
    return false;
}

static bool parse_int(const struct option_row *row, const char *name, const char *text,
                      int64_t *out) {
    char what[96];
    snprintf(what, sizeof what, "a whole number from %" PRId64 " to %" PRId64, row->int_min,
             row->int_max);
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    const bool starts_well = (text[0] >= '0' && text[0] <= '9') || text[0] == '-';
    if (!starts_well || end == text || *end || errno || value < row->int_min ||
        value > row->int_max) {
        return refuse(name, text, what);
    }
    *out = value;
    return true;
}

static bool parse_float(const struct option_row *row, const char *name, const char *text,
                        double *out) {
    char what[96];
    snprintf(what, sizeof what, "a number from %g to %g", row->float_min, row->float_max);
    char *end = NULL;
    const double value = strtod(text, &end);
    const bool decimal = text[strspn(text, "0123456789.eE+-")] == '\0' && text[0] != '+';
    if (!decimal || end == text || *end || !isfinite(value) || value < row->float_min ||
        value > row->float_max) {
        return refuse(name, text, what);
    }
    *out = value;
    return true;
}

// Without a sign: 18446744073709551615 has no place among the numbers of parse_int. Kept in its
// bits.
static bool parse_seed(const char *name, const char *text, int64_t *out) {
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno)
        return refuse(name, text, "a whole number from 0 to 18446744073709551615");
    *out = (int64_t)value;
    return true;
}

static bool parse_flag(const char *name, const char *text, bool *out) {
    static const char *const yes[] = {"1", "true", "yes", "on"};
    static const char *const no[] = {"0", "false", "no", "off"};
    for (int i = 0; i < 4; i++) {
        if (!strcmp(text, yes[i]) || !strcmp(text, no[i])) {
            *out = !strcmp(text, yes[i]);
            return true;
        }
    }
    return refuse(name, text, "yes or no");
}

static bool parse_choice(const struct option_row *row, const char *name, const char *text) {
    const size_t len = strlen(text);
    for (const char *word = row->choices; word; word = strchr(word, '|')) {
        word += *word == '|';
        const size_t word_len = strcspn(word, "|");
        if (len == word_len && !memcmp(word, text, len)) return true;
    }
    char what[96];
    snprintf(what, sizeof what, "one of %s", row->choices);
    return refuse(name, text, what);
}

// Our name for llama.cpp's name of a KV cache format.
static const char *kv_type_own_name(const char *text) {
    static const char *const names[][2] = {{"q8_0", "int8"}, {"q4_0", "int4"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(text, names[i][0])) return names[i][1];
    return text;
}

// The factor of a size's suffix, 0: no such suffix. "p", pages, is for the caller.
static double suffix_factor(const char *suffix) {
    static const char letters[] = "kmgt";
    double factor = 1024;
    if (!*suffix) return 1;
    for (int i = 0; letters[i]; i++, factor *= 1024) {
        if ((*suffix | 0x20) != letters[i]) continue;
        return !suffix[1] || !strcmp(suffix + 1, "iB") ? factor : 0;
    }
    return 0;
}

// Bytes, "2G", "1.5GiB", or pages, "4096p". A part of a byte or of a page is no size.
static bool parse_size(const char *name, const char *text, bool pages_allowed, int64_t *out,
                       bool *is_pages) {
    char *suffix = NULL;
    const size_t digits = strspn(text, "0123456789");
    const size_t length = digits + (text[digits] == '.') + // strtod would take an exponent, too
                          (text[digits] == '.' ? strspn(text + digits + 1, "0123456789") : 0);
    const double number = digits ? strtod(text, &suffix) : 0;
    *is_pages = pages_allowed && digits && !strcmp(text + length, "p");
    const double factor = *is_pages ? 1 : suffix_factor(text + length);
    const double value = number * factor;
    const bool is_whole = length == digits || factor > 1;
    if (!digits || suffix != text + length || !is_whole || !(value >= 1) ||
        value >= (*is_pages ? 0x1p32 : 0x1p63))
        return refuse(name, text,
                      pages_allowed ? "a size such as 512M, 1.5G or 4096p (p: pages of 32 tokens)"
                                    : "a size such as 512K or 16M");
    *out = (int64_t)value;
    return true;
}

// Items of a list are counted from 1 in messages.
static bool list_check(const struct option_row *row, int number, const char *name,
                       const char *text) {
    const size_t len = strlen(text);
    const struct app_short shown = app_short(text);
    if (number > row->int_max) {
        app_fail(APP_USAGE, "%s: '%s' is one too many: at most %" PRId64 " are possible", name,
                 shown.text, row->int_max);
    } else if (len == 0) {
        app_fail(APP_USAGE, "%s: text %d, '', is empty", name, number);
    } else if (len > RN_MAX_STOP_BYTES) {
        app_fail(APP_USAGE, "%s: text %d, '%s', has %zu bytes; at most %d are possible", name,
                 number, shown.text, len, RN_MAX_STOP_BYTES);
    } else if (!unicode_is_valid(text, len)) {
        app_fail(APP_USAGE, "%s: text %d, '%s', is not valid UTF-8", name, number, shown.text);
    } else {
        return true;
    }
    return false;
}

static bool list_add(const struct option_row *row, struct option_value *value, const char *name,
                     const char *text) {
    if (!list_check(row, value->n_list + 1, name, text)) return false;
    const char **grown = realloc(value->list, (size_t)(value->n_list + 1) * sizeof *grown);
    if (!grown) {
        app_fail(APP_FAILED, "out of memory");
        return false;
    }
    value->list = grown;
    value->list[value->n_list++] = text;
    return true;
}

bool option_set(struct options *options, enum option_id id, enum option_origin origin,
                const char *name, const char *text) {
    struct option_value *value = &options->value[id];
    struct option_row row;
    if (!option_row_get(options->command, id, &row)) return false;
    value->origin = origin;
    value->text = text;
    switch (row.kind) {
    case OPTION_STRING:
        return true;
    case OPTION_PATH:
        return *text || refuse(name, text, "a file name");
    case OPTION_SEED:
        return parse_seed(name, text, &value->integer);
    case OPTION_INT:
        return parse_int(&row, name, text, &value->integer);
    case OPTION_FLOAT:
        return parse_float(&row, name, text, &value->real);
    case OPTION_FLAG:
        return parse_flag(name, text, &value->flag);
    case OPTION_LIST:
        return list_add(&row, value, name, text);
    case OPTION_CHOICE:
        if (id == OPT_KV_TYPE) value->text = text = kv_type_own_name(text);
        return parse_choice(&row, name, text);
    case OPTION_SIZE:
        return parse_size(name, text, id == OPT_KV_MEMORY, &value->integer, &value->flag);
    }
    return false;
}

// ---------------------------------------------------------------- environment

// A list has one item per line.
static bool environment_list(struct options *options, enum option_id id, const char *name,
                             const char *text) {
    char *lines = options->value[id].lines = strdup(text);
    if (!lines) {
        app_fail(APP_FAILED, "out of memory");
        return false;
    }
    char *rest = NULL;
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (!option_set(options, id, ORIGIN_ENVIRONMENT, name, line)) return false;
    }
    // a list without items is refused as an empty text is
    return options->value[id].n_list || option_set(options, id, ORIGIN_ENVIRONMENT, name, "");
}

// A user who sets one of these wants keys: without them the server would be open to everyone.
static bool means_keys(int id) { return id == OPT_API_KEY || id == OPT_API_KEY_FILE; }

// For options that the command line left open. An empty variable is taken as unset, but for keys.
static bool environment_apply(struct options *options) {
    for (int i = 0; i < OPT_COUNT; i++) {
        const enum option_id id = (enum option_id)i;
        struct option_row row;
        char buffer[OPTION_NAME_SIZE];
        if (!option_row_get(options->command, id, &row) || options->value[id].origin) continue;
        const char *name = option_environment(&row, buffer), *text = getenv(name);
        if (!text || (!*text && !means_keys(id))) continue;
        const bool ok = row.kind == OPTION_LIST
                            ? environment_list(options, id, name, text)
                            : option_set(options, id, ORIGIN_ENVIRONMENT, name, text);
        if (!ok) return false;
    }
    return true;
}

// ---------------------------------------------------------------- defaults

static bool initial_list(struct option_value *value, const char *item) {
    if (!item) return true;
    value->list = malloc(sizeof *value->list);
    if (!value->list) {
        app_fail(APP_FAILED, "out of memory");
        return false;
    }
    value->list[value->n_list++] = item;
    return true;
}

// For options that are still open.
static bool initials_apply(struct options *options) {
    for (int i = 0; i < OPT_COUNT; i++) {
        struct option_value *value = &options->value[i];
        struct option_row row;
        if (!option_row_get(options->command, (enum option_id)i, &row) || value->origin) continue;
        value->integer = row.initial.integer;
        value->real = row.initial.real;
        value->text = row.initial.text;
        if (row.kind == OPTION_LIST && !initial_list(value, row.initial.text)) return false;
    }
    return true;
}

// ---------------------------------------------------------------- command line

int option_find(enum command_id command, const char *flag, size_t len) {
    for (int id = 0; id < OPT_COUNT; id++) {
        if (applies(id, command) && strlen(rows[id].flag) == len &&
            !memcmp(rows[id].flag, flag, len)) {
            return id;
        }
    }
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        if (applies(aliases[i].id, command) && strlen(aliases[i].flag) == len &&
            !memcmp(aliases[i].flag, flag, len)) {
            return aliases[i].id;
        }
    }
    return -1;
}

static int find_short(enum command_id command, char flag) {
    for (int id = 0; id < OPT_COUNT; id++) {
        if (rows[id].short_flag == flag && applies(id, command)) return id;
    }
    return -1;
}

const char *option_nearest(enum command_id command, const char *flag) {
    const char *names[OPT_COUNT];
    int count = 0;
    for (int id = 0; id < OPT_COUNT; id++) {
        if (applies(id, command)) names[count++] = rows[id].flag;
    }
    return nearest_word(flag, names, count);
}

static bool unknown(enum command_id command, const char *given) {
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(given, "="), given);
    const char *near = word[0] == '-' && word[1] == '-' ? option_nearest(command, word + 2) : NULL;
    if (near) {
        app_fail(APP_USAGE, "unknown option %s; did you mean --%s?", word, near);
    } else {
        app_fail(APP_USAGE, "unknown option %s; see 'runnel %s --help'", word,
                 command_name(command));
    }
    return false;
}

static bool positional_take(struct options *options, const char *text) {
    const bool takes_path = options->command == COMMAND_INSPECT ||
                            options->command == COMMAND_PLAN || options->command == COMMAND_EXPLAIN;
    if (!takes_path && options->command != COMMAND_HELP &&
        options->command != COMMAND_BENCH_SERVE && options->command != COMMAND_COMPLETIONS) {
        app_fail(APP_USAGE, "unexpected argument '%s'; see 'runnel %s --help'",
                 app_short(text).text, command_name(options->command));
        return false;
    }
    if (options->positional && options->command == COMMAND_HELP && !options->second) {
        options->second = text;
        return true;
    }
    if (options->positional) {
        app_fail(APP_USAGE, "one argument too many: '%s'", app_short(text).text);
        return false;
    }
    if (takes_path && !*text) {
        app_fail(APP_USAGE, "'' is not a file name");
        return false;
    }
    options->positional = text;
    return true;
}

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

// The option that argv holds at given, -1: unknown. *value is its value in the same argument, or
// NULL.
static int flag_find(enum command_id command, const char *given, const char **value) {
    if (given[1] != '-') {
        *value = given[2] ? given + 2 : NULL;
        return find_short(command, given[1]);
    }
    const char *equals = strchr(given, '=');
    *value = equals ? equals + 1 : NULL;
    return option_find(command, given + 2,
                       equals ? (size_t)(equals - given) - 2 : strlen(given + 2));
}

// --compare has a second value: options of a server, which start with a dash as well. An option of
// this command is none.
static bool second_take(struct options *options, int argc, char **argv, int *at) {
    const char *ignored, *next = *at + 1 < argc ? argv[*at + 1] : NULL;
    if (!next || !strcmp(next, "--")) return true;
    if (next[0] == '-' && next[1] && !strpbrk(next, " \t") &&
        flag_find(options->command, next, &ignored) >= 0)
        return true;
    ++*at;
    return positional_take(options, next);
}

// One flag at argv[*at], with its value there or in the next argument; moves *at to the last one
// used.
static bool flag_take(struct options *options, int argc, char **argv, int *at) {
    const char *given = argv[*at];
    const char *inline_value;
    const int id = flag_find(options->command, given, &inline_value);
    struct option_row row;
    if (id < 0 || !option_row_get(options->command, (enum option_id)id, &row))
        return unknown(options->command, given);
    if (given[1] != '-' && given[2] == '=') return equals_refuse(given, &row);
    char name[OPTION_NAME_SIZE];
    if (given[1] == '-') {
        snprintf(name, sizeof name, "--%s", row.flag);
    } else {
        snprintf(name, sizeof name, "-%c", given[1]);
    }
    const char *text = inline_value;
    if (!text && row.kind == OPTION_FLAG) text = "yes";
    if (!text && *at + 1 < argc) text = argv[++*at];
    if (!text) {
        app_fail(APP_USAGE, "%s needs a value: %s", name, row.value);
        return false;
    }
    if (!option_set(options, (enum option_id)id, ORIGIN_COMMAND_LINE, name, text)) return false;
    return id != OPT_COMPARE || second_take(options, argc, argv, at);
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

bool options_parse(struct options *options, enum command_id command, int argc, char **argv) {
    *options = (struct options){.command = command, .help = help_wanted(command, argc, argv)};
    if (options->help) return true;
    bool only_positional = false;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        bool ok = true;
        if (only_positional || arg[0] != '-' || !arg[1]) {
            ok = positional_take(options, arg);
        } else if (!strcmp(arg, "--")) {
            only_positional = true;
        } else {
            ok = flag_take(options, argc, argv, &i);
        }
        if (!ok) return false;
    }
    if (!environment_apply(options)) return false;
    const char *config = option_text(options, OPT_CONFIG);
    if (config && !config_apply(options, config)) return false;
    return initials_apply(options);
}

void options_deinit(struct options *options) {
    for (int id = 0; id < OPT_COUNT; id++) {
        free(options->value[id].list);
        free(options->value[id].lines);
    }
    free(options->config);
}

// ---------------------------------------------------------------- reading

bool option_given(const struct options *options, enum option_id id) {
    return options->value[id].origin != ORIGIN_NONE;
}

const char *option_name(const struct options *options, enum option_id id,
                        char buffer[OPTION_NAME_SIZE]) {
    const struct option_value *value = &options->value[id];
    struct option_row row;
    if (value->origin == ORIGIN_ENVIRONMENT && option_row_get(options->command, id, &row))
        return option_environment(&row, buffer);
    if (value->origin == ORIGIN_CONFIG) {
        const char *path = option_text(options, OPT_CONFIG), *slash = strrchr(path, '/');
        snprintf(buffer, OPTION_NAME_SIZE, "%.24s:%d: %s", slash ? slash + 1 : path, value->line,
                 rows[id].flag);
    } else {
        snprintf(buffer, OPTION_NAME_SIZE, "--%s", rows[id].flag);
    }
    return buffer;
}

const char *option_text(const struct options *options, enum option_id id) {
    return options->value[id].text;
}

int option_int(const struct options *options, enum option_id id) {
    return (int)options->value[id].integer;
}

double option_real(const struct options *options, enum option_id id) {
    return options->value[id].real;
}

bool option_flag(const struct options *options, enum option_id id) {
    return options->value[id].flag;
}

// ---------------------------------------------------------------- guesses

static int smaller(int a, int b) { return a < b ? a : b; }

// Edits that turn a into b, two neighbours that change places being one; both at most 63 bytes.
static int edit_distance(const char *a, const char *b) {
    const int n = (int)strnlen(a, 63), m = (int)strnlen(b, 63);
    int rows_of[3][64]; // of the last three characters of a
    for (int j = 0; j <= m; j++) rows_of[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *row = rows_of[i % 3];
        const int *above = rows_of[(i + 2) % 3], *before = rows_of[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            row[j] =
                smaller(above[j - 1] + (a[i - 1] != b[j - 1]), 1 + smaller(above[j], row[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = smaller(row[j], before[j - 2] + 1);
        }
    }
    return rows_of[n % 3][m];
}

// Whether the word switches something off. A guess that means the opposite is no help.
static bool is_negative(const char *word) {
    return !strncmp(word, "no-", 3) || !strncmp(word, "disable-", 8) ||
           !strncmp(word, "without-", 8);
}

const char *nearest_word(const char *typed, const char *const *names, int count) {
    const size_t len = strlen(typed);
    const char *best = NULL,
               *begun = NULL; // begun: the shortest name that starts with the typed text
    // beyond this it is another word; short words are near to many
    int best_distance = len < 6 ? 1 : 1 + (int)len / 3;
    for (int i = 0; i < count; i++) {
        if (is_negative(typed) != is_negative(names[i])) continue;
        if (len && !strncmp(typed, names[i], len) && (!begun || strlen(names[i]) < strlen(begun))) {
            begun = names[i];
        }
        const int distance = edit_distance(typed, names[i]);
        if (distance <= best_distance && (!best || distance < best_distance)) {
            best = names[i];
            best_distance = distance;
        }
    }
    return begun ? begun : best;
}

// The option table as rows: what each command takes, under which names, with which default. Called
// by the parsers of values and command lines, and by help, manual pages and completions.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "options/options.h"

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
#define COMMAS          , .has_commas = true
#define SEED_NUMBER     .kind = OPTION_SEED
#define INT(min, max)   .kind = OPTION_INT, .int_min = min, .int_max = max
#define FLOAT(min, max) .kind = OPTION_FLOAT, .float_min = min, .float_max = max
#define CHOICE(words)   .kind = OPTION_CHOICE, .choices = words
#define SIZE            .kind = OPTION_SIZE
#define TWIN(name)      , .environment = name
#define WORDS(text)     , .words = text
#define NAMED(tables)   , .named = tables

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

// Second spellings, with their dashes.
static const struct {
    const char *spelling;
    enum option_id id;
} aliases[] = {
#define OPTION(...)
#define VARIANT(...)
#define ALIAS(spelling, id) {spelling, OPT_##id},
#include "options/options.def"
#undef OPTION
#undef VARIANT
#undef ALIAS
};

// Options and groups in the order of the table.
enum {
#define OPTION(id, ...)  PLACE_##id,
#define GROUP(id, title) PLACE_GROUP_##id,
#define VARIANT(...)
#define ALIAS(...)
#include "options/options.def"
#undef OPTION
};

static const int place_of[OPT_COUNT] = {
#define OPTION(id, ...) [OPT_##id] = PLACE_##id,
#include "options/options.def"
#undef OPTION
};

static const struct {
    int place;
    const char *title;
} groups[] = {
#define OPTION(...)
#define GROUP(id, title) {PLACE_GROUP_##id, title},
#include "options/options.def"
#undef OPTION
#undef VARIANT
#undef ALIAS
};

const char *option_group(int index) {
    return index < (int)(sizeof groups / sizeof *groups) ? groups[index].title : NULL;
}

int option_group_of(enum option_id id) {
    int group = 0;
    for (int i = 0; option_group(i) && groups[i].place < place_of[id]; i++) group = i;
    return group;
}

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

const char *option_flag_name(enum option_id id) { return rows[id].flag; }

const char *option_alias(enum option_id id, int index) {
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (aliases[i].id == id && index-- == 0) return aliases[i].spelling;
    return NULL;
}

// ---------------------------------------------------------------- finding

static bool applies(int id, enum command_id command) {
    struct option_row row;
    return option_row_get(command, (enum option_id)id, &row);
}

static bool is_word(const char *word, const char *text, size_t len) {
    return strlen(word) == len && !memcmp(word, text, len);
}

int option_find_short(enum command_id command, char flag) {
    for (int id = 0; id < OPT_COUNT; id++)
        if (rows[id].short_flag == flag && applies(id, command)) return id;
    return -1;
}

int option_find_alias(enum command_id command, const char *spelling, size_t len) {
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (applies(aliases[i].id, command) && is_word(aliases[i].spelling, spelling, len))
            return aliases[i].id;
    return -1;
}

int option_find(enum command_id command, const char *flag, size_t len) {
    for (int id = 0; id < OPT_COUNT; id++)
        if (applies(id, command) && is_word(rows[id].flag, flag, len)) return id;
    char spelling[OPTION_NAME_SIZE];
    const int n = snprintf(spelling, sizeof spelling, "--%.*s", (int)len, flag);
    return n < (int)sizeof spelling ? option_find_alias(command, spelling, (size_t)n) : -1;
}

const char *option_nearest(enum command_id command, const char *flag) {
    enum { MOST = OPT_COUNT + sizeof aliases / sizeof *aliases };
    const char *names[MOST];
    int count = 0;
    for (int id = 0; id < OPT_COUNT; id++)
        if (applies(id, command)) names[count++] = rows[id].flag;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (applies(aliases[i].id, command) && aliases[i].spelling[1] == '-')
            names[count++] = aliases[i].spelling + 2;
    return nearest_word(flag, names, count);
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

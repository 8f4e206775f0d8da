// The option table (options.def) at run time: parsed values of a command line, its environment
// twins and a configuration file. The command line beats the environment, which beats the file.
// Every value is range-checked here, so commands may use it as it is.
#ifndef RN_APP_OPTIONS_H
#define RN_APP_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "runnel.h"

// The chat templates of our own (templates.c).
#define CHAT_TEMPLATE_NAMES "chatml, llama3, gemma, mistral, zephyr, vicuna, alpaca"

enum command_id {
#define COMMAND(id, ...) COMMAND_##id,
#include "commands.def"
#undef COMMAND
    COMMAND_COUNT
};

enum option_id {
#define OPTION(id, ...) OPT_##id,
#define ALIAS(flag, id)
#include "options/options.def"
#undef OPTION
#undef ALIAS
    OPT_COUNT
};

enum option_kind {
    OPTION_STRING,
    OPTION_PATH,
    OPTION_INT,
    OPTION_SEED,
    OPTION_FLOAT,
    OPTION_FLAG,
    OPTION_LIST,
    OPTION_CHOICE,
    OPTION_SIZE
};

struct option_row {
    const char *flag; // without the dashes
    char short_flag;  // 0: none
    const char *environment;
    enum option_kind kind;
    int64_t int_min, int_max; // of a list: int_max, the most items
    double float_min, float_max;
    const char *choices; // "a|b|c"
    const char *fallback;
    unsigned commands; // bit 1 << command_id
    const char *value, *help;
};

enum option_origin { ORIGIN_NONE, ORIGIN_CONFIG, ORIGIN_ENVIRONMENT, ORIGIN_COMMAND_LINE };

struct option_value {
    enum option_origin origin;
    int line;         // of the configuration file, where it came from there
    const char *text; // as given; borrowed
    int64_t integer;  // of a size: bytes, or pages where flag is set
    double real;
    bool flag;
    int n_list;
    const char **list; // owned
    char *lines;       // owned; what list[] points to when it came from the environment
};

struct options {
    enum command_id command;
    bool help;              // --help was given
    const char *positional; // the argument without a flag, or NULL
    char *config;           // owned; the configuration file, to which values point
    struct option_value value[OPT_COUNT];
};

const struct option_row *option_row_at(enum option_id id);

// argv holds what follows the command's name. False: the error has been printed.
bool options_parse(struct options *options, enum command_id command, int argc, char **argv);
void options_deinit(struct options *options);

// --- for other sources of values ---

// The option of a command by its long name or an alias of that, -1: none.
int option_find(enum command_id command, const char *flag, size_t len);
const char *option_nearest(enum command_id command, const char *flag); // NULL: none is near
// Stores text as the value of an option; name is what a message calls it. False: refused (printed).
bool option_set(struct options *options, enum option_id id, enum option_origin origin,
                const char *name, const char *text);
// Options that are still open, from the file (config.c). False: refused (printed).
bool config_apply(struct options *options, const char *path);

bool option_given(const struct options *options, enum option_id id);
// What to call the option in a message about its value: "--seed", "RUNNEL_SEED" or "runnel.conf:3:
// seed".
const char *option_name(const struct options *options, enum option_id id, char buffer[64]);
const char *option_text(const struct options *options, enum option_id id); // NULL: not given
int option_int(const struct options *options, enum option_id id, int fallback);
float option_float(const struct options *options, enum option_id id, float fallback);
bool option_flag(const struct options *options, enum option_id id);

// The word of names[] that begins with what was typed, else the nearest, or NULL when none is near.
const char *nearest_word(const char *typed, const char *const *names, int count);

#endif

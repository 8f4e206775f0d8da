// The option table (options.def) at run time: values from a command line, its environment twins, a
// configuration file and the table's defaults, in this order of precedence. Every value is checked
// against its row, so commands may use it as it is.
#ifndef RN_APP_OPTIONS_H
#define RN_APP_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "runnel.h"

// The built-in chat templates (templates.c).
#define CHAT_TEMPLATE_NAMES "chatml, llama3, gemma, mistral, zephyr, vicuna, alpaca"

// Times that a test of bench runs where its mode has a default of its own.
#define REPETITIONS_OF_BATCH     1
#define REPETITIONS_OF_SPECULATE 9
#define REPETITIONS_OF_TOUR      5

enum command_id {
#define COMMAND(id, ...) COMMAND_##id,
#include "commands.def"
#undef COMMAND
    COMMAND_COUNT
};

enum option_id {
#define OPTION(id, ...) OPT_##id,
#define VARIANT(...)
#define ALIAS(flag, id)
#include "options/options.def"
#undef OPTION
#undef VARIANT
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

// Tables of names that complete a value.
enum { NAMES_MODELS = 1, NAMES_SHAPES = 2, NAMES_DEVICES = 4 };

// The default of an option; zeros where it has none.
struct option_initial {
    int64_t integer;   // of INT and SIZE
    double real;       // of FLOAT
    const char *text;  // of STRING, PATH and CHOICE; of a LIST, its only item
    bool shown;        // help shows the value
    const char *words; // that help shows instead, or NULL
    const char *more;  // that help shows behind it, or NULL
};

struct option_row {
    const char *flag;        // without the dashes
    char short_flag;         // 0: none
    const char *environment; // NULL: follows from the flag
    enum option_kind kind;
    int64_t int_min, int_max; // of a list: int_max, the most items
    double float_min, float_max;
    const char *choices; // "a|b|c"
    bool has_commas;     // of a list: a value has several items, separated by commas
    // what completes a value beside its choices and files
    const char *words; // "a, b, c"
    unsigned named;    // tables of names
    struct option_initial initial;
    unsigned commands; // bit 1 << command_id
    const char *value, *help;
};

enum option_origin {
    ORIGIN_NONE,
    ORIGIN_CONFIG,
    ORIGIN_ENVIRONMENT,
    ORIGIN_COMMAND_LINE,
    ORIGIN_MODELS, // a section of --models
};

// The items of one value of a list that has commas.
struct option_items {
    struct option_items *next;
    char text[];
};

struct option_value {
    enum option_origin origin;
    int line;         // of the file, where it came from one
    const char *text; // as given; borrowed
    int64_t integer;  // of a size: bytes, or pages where flag is set
    double real;
    bool flag;
    int n_list;
    const char **list;          // owned
    char *lines;                // owned; the text behind list[] when it came from the environment
    char *unescaped;            // owned; the text behind text or list[] after --escape
    struct option_items *items; // owned; list[] points to their texts where values have commas
};

enum { OPTIONS_HARMLESS = 256 }; // more than a command has in peers.def

struct options {
    enum command_id command;
    bool help; // --help was given
    // the argument without a flag that is no option's value: of explain, models, help and
    // completions, and the second value of --compare; or NULL
    const char *positional;
    const char *second; // of help: the second word of a command's name, or NULL
    char *config;       // owned; the configuration file, to which values point
    int n_harmless;     // flags of other programs that change nothing (peers.def): of the command
    const char *harmless[OPTIONS_HARMLESS]; // line, each once; borrowed
    struct option_value value[OPT_COUNT];
};

// The option as this command takes it. False: the command does not have it.
bool option_row_get(enum command_id command, enum option_id id, struct option_row *out);
enum { OPTION_NAME_SIZE = 64, OPTION_INITIAL_SIZE = 96 };
// The name of its environment twin.
const char *option_environment(const struct option_row *row, char buffer[OPTION_NAME_SIZE]);
// The default as help shows it; "" where there is none to show.
const char *option_initial_text(const struct option_row *row, char buffer[OPTION_INITIAL_SIZE]);

// The title of a group of options, NULL: there are no more; the index of an option's group.
const char *option_group(int index);
int option_group_of(enum option_id id);
// Another spelling of the option, such as "-md" or "--ctx-size"; NULL: there are no more.
const char *option_alias(enum option_id id, int index);
const char *option_flag_name(enum option_id id); // without the dashes

// argv holds the arguments behind the command's name. False: the error has been printed.
bool options_parse(struct options *options, enum command_id command, int argc, char **argv);
void options_deinit(struct options *options);
// Values to be changed for one of several models. The copy's texts are those of the original, which
// outlives it. False: out of memory (printed).
bool options_copy(const struct options *from, struct options *out);

// --- for other sources of values ---

// The option of a command by its long name or an alias of that, without dashes; -1: none.
int option_find(enum command_id command, const char *flag, size_t len);
// By an alias with its dashes, by a letter.
int option_find_alias(enum command_id command, const char *spelling, size_t len);
int option_find_short(enum command_id command, char flag);
const char *option_nearest(enum command_id command, const char *flag); // NULL: none is near
// Stores text as the value of an option; name is its name in messages. False: refused (printed).
bool option_set(struct options *options, enum option_id id, enum option_origin origin,
                const char *name, const char *text);
void option_items_free(struct option_items *items); // NULL is fine
// The command line (command_line.c), and its arguments without a flag (arguments.c). False: refused
// (printed).
bool command_line_take(struct options *options, int argc, char **argv);
struct arguments {
    int count;
    const char *word[64];
};
bool arguments_add(struct options *options, struct arguments *arguments, const char *text);
// Once all flags are known: each argument becomes the value of an option.
bool arguments_apply(struct options *options, const struct arguments *arguments);
// A warning for each RUNNEL_ variable that nothing reads (variables.c).
void variables_check(const struct options *options);
// --escape, once all values are there (escapes.c). False: out of memory (printed).
bool escapes_apply(struct options *options);
// Options that are still open, from the file (config.c). False: refused (printed).
bool config_apply(struct options *options, const char *path);

// --- for commands; of an option that the command does not have, the value is 0 or NULL ---

bool option_given(const struct options *options, enum option_id id); // rather than the default
// The option's name in a message about its value: "--seed", "RUNNEL_SEED" or "runnel.conf:3:
// seed".
const char *option_name(const struct options *options, enum option_id id,
                        char buffer[OPTION_NAME_SIZE]);
const char *option_text(const struct options *options, enum option_id id); // NULL: none
int option_int(const struct options *options, enum option_id id);
double option_real(const struct options *options, enum option_id id);
bool option_flag(const struct options *options, enum option_id id);

// The word of names[] that starts with the typed one, else the nearest, or NULL when none is near.
const char *nearest_word(const char *typed, const char *const *names, int count);

#endif

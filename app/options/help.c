// Help, generated from the tables of commands, options and examples. It fits the terminal; the most
// used options come first, the others follow in their groups.
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "terminal/term.h"

enum {
    HELP_COLUMN = 28,
    HELP_WIDTH = 96,
    NARROW = 72, // below this width, texts are under their options
    NARROW_COLUMN = 8,
    NARROWEST = 32,
    EXAMPLE_COLUMN = 58, // where their comments start
    GROUPED_FROM = 14,   // options; fewer are one list
    MOST_USED = 10,
};

static const struct {
    const char *name, *arguments, *summary;
} commands[COMMAND_COUNT] = {
#define COMMAND(id, name, function, arguments, summary) [COMMAND_##id] = {name, arguments, summary},
#include "commands.def"
#undef COMMAND
};

static const struct example examples[] = {
#define EXAMPLE(command, line, what) {COMMAND_##command, line, what},
#include "options/examples.def"
};

// Of the commands with groups.
static const enum option_id most_used[COMMAND_COUNT][MOST_USED] = {
    [COMMAND_RUN] = {OPT_MODEL, OPT_PROMPT, OPT_FILE, OPT_CHAT, OPT_SYSTEM, OPT_MAX_TOKENS,
                     OPT_TEMPERATURE, OPT_SEED, OPT_CTX, OPT_THREADS},
    [COMMAND_SERVE] = {OPT_MODEL, OPT_HOST, OPT_PORT, OPT_API_KEY, OPT_ALIAS, OPT_CTX, OPT_MAX_SEQS,
                       OPT_KV_TYPE, OPT_KV_MEMORY, OPT_THREADS},
    [COMMAND_EVAL] = {OPT_MODEL, OPT_LOSS, OPT_CHUNK, OPT_CHUNKS, OPT_CTX, OPT_THREADS, OPT_BACKEND,
                      OPT_KV_TYPE, OPT_JSON, OPT_QUIET},
    [COMMAND_BENCH] = {OPT_MODEL, OPT_SYNTHETIC, OPT_N_PROMPT, OPT_N_GEN, OPT_N_DEPTH, OPT_STREAMS,
                       OPT_THREADS, OPT_REPETITIONS, OPT_PEER, OPT_OUTPUT},
    [COMMAND_BENCH_SERVE] = {OPT_MODEL, OPT_URL, OPT_CONCURRENCY, OPT_RATE, OPT_RAMP, OPT_REQUESTS,
                             OPT_INPUT_TOKENS, OPT_OUTPUT_TOKENS, OPT_COMPARE, OPT_JSON},
    [COMMAND_PLAN] = {OPT_MODEL, OPT_DEVICE, OPT_USERS, OPT_CTX, OPT_N_PROMPT, OPT_N_GEN, OPT_SPEED,
                      OPT_KV_TYPE, OPT_BACKEND, OPT_JSON},
};

const char *command_name(enum command_id command) { return commands[command].name; }
const char *command_arguments(enum command_id command) { return commands[command].arguments; }
const char *command_summary(enum command_id command) { return commands[command].summary; }

const struct example *example_at(int index) {
    return index < (int)(sizeof examples / sizeof *examples) ? &examples[index] : NULL;
}

// ---------------------------------------------------------------- lines

struct page {
    FILE *out;
    int column, width; // where texts start, where they end
    bool color;
};

static struct page page_make(FILE *out) {
    const struct options automatic = {.value[OPT_COLOR].text = "auto"};
    struct term term;
    term_init(&term, &automatic);
    // A pager behind a pipe has the width of the terminal that stderr still is
    const int own = term_columns(fileno(out)), seen = term_columns(STDERR_FILENO);
    const int columns = own < seen ? own : seen;
    const int width = columns < NARROWEST ? NARROWEST : columns;
    return (struct page){.out = out,
                         .column = width < NARROW ? NARROW_COLUMN : HELP_COLUMN,
                         .width = width < HELP_WIDTH ? width : HELP_WIDTH,
                         .color = (out == stdout && term.out_color) ||
                                  (out == stderr && term.err_color)};
}

// Prints text from `column` on, broken at blanks; the line already holds `used` characters, and is
// left to them where they reach the column.
static void wrapped(const struct page *page, int column, int used, const char *text) {
    const bool beside = used < column || used == 0;
    fprintf(page->out, "%s%*s", beside ? "" : "\n", beside ? column - used : column, "");
    int at = column;
    bool first = true;
    while (*text) {
        const int len = (int)strcspn(text, " ");
        if (!first && at + 1 + len > page->width) {
            fprintf(page->out, "\n%*s", column, "");
            at = column;
            first = true;
        }
        fprintf(page->out, "%s%.*s", first ? "" : " ", len, text);
        at += len + !first;
        first = false;
        text += len;
        while (*text == ' ') text++;
    }
    fputc('\n', page->out);
}

static void heading(const struct page *page, const char *title) {
    fprintf(page->out, "\n%s%s:%s\n", term_bold(page->color), title, term_reset(page->color));
}

// " (also -md, --model-draft)", or "".
static const char *aliases_text(enum option_id id, char *out, size_t size) {
    const char *alias;
    size_t used = 0;
    *out = '\0';
    for (int i = 0; (alias = option_alias(id, i)) && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : " (also ", alias);
    if (used && used < size) snprintf(out + used, size - used, ")");
    return out;
}

static void option_help(const struct page *page, enum option_id id, const struct option_row *row) {
    char left[64], right[1024], initial[OPTION_INITIAL_SIZE], name[OPTION_NAME_SIZE], also[192];
    char short_part[8] = "    ";
    if (row->short_flag) snprintf(short_part, sizeof short_part, "-%c, ", row->short_flag);
    const int used = snprintf(left, sizeof left, "  %s--%s%s%s", short_part, row->flag,
                              *row->value ? " " : "", row->value);
    const char *choices = row->choices ? row->choices : "";
    option_initial_text(row, initial);
    snprintf(right, sizeof right, "%s%s%s%s%s%s%s [%s]", row->help, *choices ? ": " : "", choices,
             aliases_text(id, also, sizeof also), *initial ? " (default: " : "", initial,
             *initial ? ")" : "", option_environment(row, name));
    fputs(left, page->out);
    wrapped(page, page->column, used, right);
}

// ---------------------------------------------------------------- parts of a page

static int options_count(enum command_id command) {
    struct option_row row;
    int n = 0;
    for (int id = 0; id < OPT_COUNT; id++) n += option_row_get(command, (enum option_id)id, &row);
    return n;
}

static bool is_most_used(enum command_id command, int id) {
    for (int i = 0; i < MOST_USED; i++)
        if ((int)most_used[command][i] == id) return true;
    return false;
}

// The options of a group that are not among the most used.
static void group_help(const struct page *page, enum command_id command, int group) {
    bool any = false;
    for (int id = 0; id < OPT_COUNT; id++) {
        struct option_row row;
        if (!option_row_get(command, (enum option_id)id, &row) || is_most_used(command, id) ||
            option_group_of((enum option_id)id) != group)
            continue;
        if (!any) heading(page, option_group(group));
        any = true;
        option_help(page, (enum option_id)id, &row);
    }
}

static void options_help(const struct page *page, enum command_id command) {
    const bool grouped = options_count(command) >= GROUPED_FROM;
    struct option_row row;
    heading(page, grouped ? "most used" : "options");
    for (int i = 0; grouped && i < MOST_USED; i++)
        if (option_row_get(command, most_used[command][i], &row))
            option_help(page, most_used[command][i], &row);
    for (int id = 0; !grouped && id < OPT_COUNT; id++)
        if (option_row_get(command, (enum option_id)id, &row))
            option_help(page, (enum option_id)id, &row);
    for (int group = 0; grouped && option_group(group); group++) group_help(page, command, group);
    fputs("  -h, --help", page->out);
    wrapped(page, page->column, 12, "this help");
}

// command COMMAND_COUNT: the first example of each command.
static void examples_help(const struct page *page, enum command_id command) {
    const struct example *example;
    int n = 0;
    enum command_id before = COMMAND_COUNT;
    for (int i = 0; (example = example_at(i)); i++) {
        const bool wanted =
            command == COMMAND_COUNT ? example->command != before : example->command == command;
        before = example->command;
        if (!wanted) continue;
        if (n++ == 0) heading(page, "examples");
        const int used = fprintf(page->out, "  %s", example->line);
        char what[160];
        snprintf(what, sizeof what, "# %s", example->what);
        const bool fits =
            used < EXAMPLE_COLUMN - 1 && EXAMPLE_COLUMN + (int)strlen(what) <= page->width;
        wrapped(page, fits ? EXAMPLE_COLUMN : NARROW_COLUMN, used, what);
    }
}

// ---------------------------------------------------------------- pages

void help_program(FILE *out) {
    const struct page page = page_make(out);
    fprintf(out, "runnel %s: a decode engine for language models\n\n", RN_VERSION);
    fputs("usage: runnel COMMAND [OPTION...]\n\n", out);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        const int used = fprintf(out, "  %-12s", commands[i].name);
        wrapped(&page, used + 1, used, commands[i].summary);
    }
    examples_help(&page, COMMAND_COUNT);
    fputc('\n', out);
    wrapped(&page, 0, 0,
            "'runnel COMMAND --help' lists a command's options. Without a model the one inside the "
            "program is used.");
}

void help_command(FILE *out, enum command_id command) {
    const struct page page = page_make(out);
    fprintf(out, "usage: runnel %s %s\n\n", commands[command].name, commands[command].arguments);
    wrapped(&page, 0, 0, commands[command].summary);
    examples_help(&page, command);
    if (!options_count(command)) return;
    options_help(&page, command);
    fputc('\n', out);
    wrapped(&page, 0, 0,
            "Each option has the environment variable in brackets. Precedence: the command line, "
            "then the environment, then the file of --config. If an option is given twice, the "
            "last one is used; options that may be repeated add up.");
    wrapped(&page, 0, 0,
            "Exit status: 0 done, 1 failed while running, 2 wrong use or bad model, 130 "
            "interrupted.");
}

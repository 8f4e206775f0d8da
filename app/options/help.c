// Help, generated from the tables of commands and options.
#include <string.h>

#include "app.h"

enum { HELP_COLUMN = 28, HELP_WIDTH = 96 };

static const struct {
    const char *name, *arguments, *summary;
} commands[COMMAND_COUNT] = {
#define COMMAND(id, name, function, arguments, summary) [COMMAND_##id] = {name, arguments, summary},
#include "commands.def"
#undef COMMAND
};

const char *command_name(enum command_id command) { return commands[command].name; }
const char *command_arguments(enum command_id command) { return commands[command].arguments; }
const char *command_summary(enum command_id command) { return commands[command].summary; }

// Prints text from HELP_COLUMN on, broken at blanks; the line already holds `used` characters, and
// is left to them where they reach the column.
static void wrapped(FILE *out, int used, const char *text) {
    const bool beside = used < HELP_COLUMN;
    fprintf(out, "%s%*s", beside ? "" : "\n", beside ? HELP_COLUMN - used : HELP_COLUMN, "");
    int column = HELP_COLUMN;
    bool first = true;
    while (*text) {
        const int len = (int)strcspn(text, " ");
        if (!first && column + 1 + len > HELP_WIDTH) {
            fprintf(out, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
            first = true;
        }
        fprintf(out, "%s%.*s", first ? "" : " ", len, text);
        column += len + !first;
        first = false;
        text += len;
        while (*text == ' ') text++;
    }
    fputc('\n', out);
}

static void option_help(FILE *out, const struct option_row *row) {
    char left[64], right[768], initial[OPTION_INITIAL_SIZE], name[OPTION_NAME_SIZE];
    char short_part[8] = "    ";
    if (row->short_flag) snprintf(short_part, sizeof short_part, "-%c, ", row->short_flag);
    const int used = snprintf(left, sizeof left, "  %s--%s%s%s", short_part, row->flag,
                              *row->value ? " " : "", row->value);
    const char *choices = row->choices ? row->choices : "";
    option_initial_text(row, initial);
    snprintf(right, sizeof right, "%s%s%s%s%s%s [%s]", row->help, *choices ? ": " : "", choices,
             *initial ? " (default: " : "", initial, *initial ? ")" : "",
             option_environment(row, name));
    fputs(left, out);
    wrapped(out, used, right);
}

void help_program(FILE *out) {
    fprintf(out, "runnel %s: a decode engine for language models\n\n", RN_VERSION);
    fputs("usage: runnel COMMAND [OPTION...]\n\n", out);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].summary);
    }
    fputs("\n'runnel COMMAND --help' lists a command's options. Without -m PATH the model inside "
          "the program is used.\n",
          out);
}

void help_command(FILE *out, enum command_id command) {
    fprintf(out, "usage: runnel %s %s\n\n%s\n", commands[command].name, commands[command].arguments,
            commands[command].summary);
    bool any = false;
    for (int id = 0; id < OPT_COUNT; id++) {
        struct option_row row;
        if (!option_row_get(command, (enum option_id)id, &row)) continue;
        if (!any) fputs("\noptions, each with its environment variable:\n", out);
        any = true;
        option_help(out, &row);
    }
    if (any) {
        fputs(
            "  -h, --help                this help\n\n"
            "Precedence: the command line, then the environment, then the file of --config. If an "
            "option\nis given twice, the last one is used; options that may be repeated add "
            "up.\n"
            "Exit status: 0 done, 1 failed while running, 2 wrong use or bad model, 130 "
            "interrupted.\n",
            out);
    }
}

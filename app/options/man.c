// Manual pages, generated from the tables of commands, options, examples, routes and chat commands,
// with the prose of manual.def. The build writes one page for the program and one for each command.
#include <string.h>

#include "app.h"
#include "options/peers.h"

// Bits under the names that the tables use.
enum {
#define COMMAND(id, ...) id = 1u << COMMAND_##id,
#include "commands.def"
#undef COMMAND
    LOADS = RUN | SERVE | INSPECT | TOKENIZE | DETOKENIZE | EVAL | BENCH | BENCH_SERVE | PLAN,
};

// Text for roff, on a line of its own.
static void put_text(FILE *out, const char *text) {
    if (*text == '.' || *text == '\'') fputs("\\&", out);
    for (; *text; text++) {
        switch (*text) {
        case '\\':
            fputs("\\e", out);
            break;
        case '-':
            fputs("\\-", out);
            break;
        case '^':
            fputs("\\(ha", out);
            break;
        case '~':
            fputs("\\(ti", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

enum { PAGE_SIZE = 64 };

// "runnel-bench-serve".
static const char *page_name(const char *command, char out[PAGE_SIZE]) {
    snprintf(out, PAGE_SIZE, "runnel%s%s", *command ? "-" : "", command);
    for (char *c = out; *c; c++)
        if (*c == ' ') *c = '-';
    return out;
}

static void put_title(FILE *out, const char *command) {
    char name[PAGE_SIZE];
    page_name(command, name);
    fputs(".TH ", out);
    for (const char *c = name; *c; c++)
        put_text(out, (char[]){*c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c, 0});
    fprintf(out, " 1 \"\" \"runnel %s\" \"User Commands\"\n.SH NAME\n", RN_VERSION);
    put_text(out, name);
}

static void put_exit_status(FILE *out) {
    fputs(".SH EXIT STATUS\n"
          "0: done; 1: failed while running; 2: wrong use or a bad model; 130: interrupted.\n",
          out);
}

// "a|b|c" as "a, b, c".
static void put_choices(FILE *out, const char *choices) {
    fputs("\nOne of ", out);
    for (; *choices; choices++) {
        if (*choices == '|') {
            fputs(", ", out);
        } else {
            fputc(*choices, out);
        }
    }
    fputc('.', out);
}

// Words in bold, with commas; `separator` is between them in the text.
static void put_words(FILE *out, const char *words, char separator) {
    for (int n = 0; *words; n++) {
        const int len = (int)strcspn(words, (char[]){separator, 0});
        char word[OPTION_NAME_SIZE];
        snprintf(word, sizeof word, "%.*s", len, words);
        fputs(n ? ", \\fB" : "\\fB", out);
        put_text(out, word);
        fputs("\\fR", out);
        words += len + (words[len] == separator);
    }
}

static void put_aliases(FILE *out, enum option_id id) {
    const char *alias;
    for (int i = 0; (alias = option_alias(id, i)); i++) {
        fputs(i ? ", " : "\nAlso ", out);
        put_words(out, alias, '|');
    }
    if (option_alias(id, 0)) fputc('.', out);
}

static void put_option(FILE *out, enum option_id id, const struct option_row *row) {
    char initial[OPTION_INITIAL_SIZE], name[OPTION_NAME_SIZE];
    option_initial_text(row, initial);
    fputs(".TP\n", out);
    if (row->short_flag) fprintf(out, "\\fB\\-%c\\fR, ", row->short_flag);
    fputs("\\fB\\-\\-", out);
    put_text(out, row->flag);
    fputs("\\fR", out);
    if (*row->value) {
        fputs(" \\fI", out);
        put_text(out, row->value);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    put_text(out, row->help);
    fputc('.', out);
    if (row->choices) put_choices(out, row->choices);
    put_aliases(out, id);
    if (*initial) {
        fputs("\nDefault: ", out);
        put_text(out, initial);
        fputc('.', out);
    }
    fputs("\nEnvironment: \\%", out); // not hyphenated
    put_text(out, option_environment(row, name));
    fputs(".\n", out);
}

static void put_configuration(FILE *out) {
    fputs(".SH CONFIGURATION\n"
          "The file that \\fB\\-\\-config\\fR names has lines of\n"
          ".IR NAME \" = \" VALUE ,\n"
          "where NAME is a long option without its dashes and the value of a flag is yes or no.\n"
          "Empty lines and lines that start with # are ignored; an option that may be repeated\n"
          "is repeated there.\n"
          "Precedence: the command line, then the environment, then the file.\n",
          out);
}

// Options by group; a command with one group has no titles.
static void put_options(FILE *out, enum command_id command) {
    int before = -1;
    fputs(".SH OPTIONS\n", out);
    for (int group = 0; option_group(group); group++) {
        for (int id = 0; id < OPT_COUNT; id++) {
            struct option_row row;
            if (!option_row_get(command, (enum option_id)id, &row) ||
                option_group_of((enum option_id)id) != group)
                continue;
            if (group != before) fprintf(out, ".SS \"%s\"\n", option_group(group));
            before = group;
            put_option(out, (enum option_id)id, &row);
        }
    }
    fputs(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nshow a summary.\n", out);
}

// command COMMAND_COUNT: all of them.
static void put_examples(FILE *out, enum command_id command) {
    const struct example *example;
    int n = 0;
    for (int i = 0; (example = example_at(i)); i++) {
        if (command != COMMAND_COUNT && example->command != command) continue;
        fprintf(out, "%s.TP\n\\fB", n++ ? "" : ".SH EXAMPLES\n");
        put_text(out, example->line);
        fputs("\\fR\n", out);
        put_text(out, example->what);
        fputs(".\n", out);
    }
}

// What a row of peers.def does, as a sentence.
static void put_peer(FILE *out, const struct peer *peer) {
    fputs(".TP\n", out);
    put_words(out, peer->spellings, '|');
    fputc('\n', out);
    switch (peer->kind) {
    case PEER_SETS:
        fputs("the same as \\fB\\-\\-", out);
        put_text(out, option_flag_name(peer->id));
        fprintf(out, "=%s\\fR", peer->text);
        break;
    case PEER_LAYERS:
        fputs("0 is \\fB\\-\\-", out);
        put_text(out, option_flag_name(peer->id));
        fputs(" cpu\\fR; \\-1, all, and 99 or more are the default; other numbers are refused",
              out);
        break;
    case PEER_ALWAYS:
    case PEER_WORD:
        fputs("taken, without an effect: ", out);
        put_text(out, peer->text);
        break;
    case PEER_HARMLESS:
        fputs("taken with a note", out);
        if (*peer->values && strcmp(peer->values, PEER_ANY_VALUE) != 0) {
            fputs(" if the value is ", out);
            put_words(out, peer->values, '|');
        }
        fputs(": ", out);
        put_text(out, peer->text);
        break;
    case PEER_INSTEAD:
        fputs("refused: ", out);
        put_text(out, peer->text);
        break;
    }
    fputs(".\n", out);
}

static void put_peers(FILE *out, enum command_id command) {
    const struct peer *peer;
    int n = 0;
    for (int i = 0; (peer = peer_at(i)); i++) {
        if (!(peer->commands >> command & 1u)) continue;
        if (n++ == 0)
            fputs(".SH OPTIONS OF OTHER PROGRAMS\n"
                  "Users of llama.cpp, vLLM and Ollama know these:\n",
                  out);
        put_peer(out, peer);
    }
}

static void put_description(FILE *out, enum command_id command) {
    static const struct {
        enum command_id command;
        const char *text;
    } paragraphs[] = {
#define ABOUT(id, text) {COMMAND_##id, text},
#define VARIABLE(...)
#define PLACE(...)
#include "options/manual.def"
    };
    int n = 0;
    for (size_t i = 0; i < sizeof paragraphs / sizeof *paragraphs; i++) {
        if (paragraphs[i].command != command) continue;
        fputs(n++ ? ".PP\n" : ".SH DESCRIPTION\n", out);
        put_text(out, paragraphs[i].text);
        fputc('\n', out);
    }
}

// An environment variable, or a file.
struct entry {
    unsigned commands; // bit 1 << command_id
    const char *name, *text;
};

// command COMMAND_COUNT: all of them.
static int put_entries(FILE *out, const char *title, const struct entry *entries, size_t n,
                       enum command_id command, char font) {
    int shown = 0;
    for (size_t i = 0; i < n; i++) {
        if (command != COMMAND_COUNT && !(entries[i].commands >> command & 1u)) continue;
        if (shown++ == 0) fprintf(out, ".SH %s\n", title);
        fprintf(out, ".TP\n\\f%c", font);
        put_text(out, entries[i].name);
        fputs("\\fR\n", out);
        put_text(out, entries[i].text);
        fputs(".\n", out);
    }
    return shown;
}

static void put_environment(FILE *out, enum command_id command) {
    static const struct entry variables[] = {
#define ABOUT(...)
#define VARIABLE(commands, name, text) {commands, name, text},
#define PLACE(...)
#include "options/manual.def"
    };
    struct option_row row;
    put_entries(out, "ENVIRONMENT", variables, sizeof variables / sizeof *variables, command, 'B');
    if (command == COMMAND_COUNT || option_row_get(command, OPT_CONFIG, &row))
        fputs(".PP\nEach option has a variable of its own, which the options\\(aq list names.\n"
              "A warning names other variables that start with RUNNEL_.\n",
              out);
}

static void put_files(FILE *out, enum command_id command) {
    static const struct entry places[] = {
#define ABOUT(...)
#define VARIABLE(...)
#define PLACE(commands, path, text) {commands, path, text},
#include "options/manual.def"
    };
    put_entries(out, "FILES", places, sizeof places / sizeof *places, command, 'I');
}

static void put_conversation(FILE *out) {
    static const struct {
        const char *name, *argument, *help;
    } commands[] = {
#define SLASH(function, name, argument, help) {name, argument, help},
#define SLASH_TOO(...)
#include "run/slash.def"
    };
    fputs(".SH CONVERSATION\n"
          "Without a prompt, on a terminal, \\fBrunnel run\\fR holds a conversation.\n"
          "Ctrl\\-C stops an answer and keeps its text; Ctrl\\-D leaves.\n"
          "A line that ends in a backslash continues in the next one, and so do lines between two\n"
          "\"\"\".\n"
          "When the context is full, the oldest turns are dropped, unless "
          "\\fB\\-\\-no\\-trim\\fR is given.\n"
          "A line that starts with a slash is a command:\n",
          out);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        fprintf(out, ".TP\n\\fB%s\\fR", commands[i].name);
        if (*commands[i].argument) {
            fputs(" \\fI", out);
            put_text(out, commands[i].argument);
            fputs("\\fR", out);
        }
        fputc('\n', out);
        put_text(out, commands[i].help);
        fputs(".\n", out);
    }
}

static void put_routes(FILE *out) {
    static const char *const routes[] = {
#define ROUTE_AT_ONCE(method, path, ...) method " " path,
#define ROUTE_PREPARE(method, path, ...) method " " path,
#include "server/routes.def"
#undef ROUTE_AT_ONCE
#undef ROUTE_PREPARE
    };
    fputs(".SH ROUTES\nThe page is served at \\fB/\\fR. OpenAI\\(aqs, Anthropic\\(aqs and "
          "llama.cpp\\(aqs clients know these:\n.nf\n",
          out);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        put_text(out, routes[i]);
        fputc('\n', out);
    }
    fputs(".fi\n", out);
}

void man_command(FILE *out, enum command_id command) {
    const char *name = command_name(command);
    put_title(out, name);
    fputs(" \\- ", out);
    put_text(out, command_summary(command));
    fprintf(out, "\n.SH SYNOPSIS\n.B runnel %s\n", name);
    if (*command_arguments(command)) {
        put_text(out, command_arguments(command));
        fputc('\n', out);
    }
    put_description(out, command);
    put_examples(out, command);
    if (command == COMMAND_RUN) put_conversation(out);
    if (command == COMMAND_SERVE) put_routes(out);
    put_options(out, command);
    struct option_row config;
    if (option_row_get(command, OPT_CONFIG, &config)) put_configuration(out);
    put_peers(out, command);
    put_environment(out, command);
    put_files(out, command);
    put_exit_status(out);
    fputs(".SH SEE ALSO\n.BR runnel (1)\n", out);
}

void man_program(FILE *out) {
    put_title(out, "");
    fputs(" \\- a decode engine for language models\n"
          ".SH SYNOPSIS\n.B runnel\n.I COMMAND\n[\\fIOPTION\\fR...]\n"
          ".SH DESCRIPTION\n"
          "runnel loads a language model and turns prompts into text as fast as the machine's\n"
          "memory can be read.\n"
          "A small model is inside the program; \\fB\\-\\-model\\fR names another one.\n"
          "The same seed gives the same text with any number of threads, instruction set and\n"
          "other requests.\n"
          ".SH COMMANDS\n",
          out);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, ".TP\n\\fB%s\\fR\n", command_name((enum command_id)i));
        put_text(out, command_summary((enum command_id)i));
        fputs(".\n", out);
    }
    put_examples(out, COMMAND_COUNT);
    put_environment(out, COMMAND_COUNT);
    put_files(out, COMMAND_COUNT);
    put_exit_status(out);
    fputs(".SH SEE ALSO\n", out);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        char page[PAGE_SIZE];
        fprintf(out, "%s.BR ", i ? ",\n" : "");
        put_text(out, page_name(command_name((enum command_id)i), page));
        fputs(" (1)", out);
    }
    fputc('\n', out);
}

// Completions of command lines, generated from the tables of commands and options: a script for
// bash, for zsh and for fish. The build writes all three.
#include <string.h>

#include "app.h"

// Words of options that also take other ones: names of templates and drafters.
static const char *words_known(const struct option_row *row) {
    static const struct {
        const char *flag, *value, *words;
    } known[] = {
        {"chat-template", "NAME|FILE", CHAT_TEMPLATE_NAMES},
        {"speculate", "WHO", "auto, off, model, lookup, shared, mtp, shape"},
        {"drafters", "NAME,...", "model, lookup, shared, mtp, auto, synthetic, none"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(row->flag, known[i].flag) && !strcmp(row->value, known[i].value))
            return known[i].words;
    return NULL;
}

// The option with the words that complete its value.
static bool row_get(int command, int id, struct option_row *out) {
    const bool has = option_row_get((enum command_id)command, (enum option_id)id, out);
    if (has && !out->choices) out->choices = words_known(out);
    return has;
}

static bool is_path(const struct option_row *row) {
    return row->kind == OPTION_PATH || !strcmp(row->value, "PATH,...");
}

// A model's file or folder.
static bool is_model(const struct option_row *row) {
    static const char *const flags[] = {"model", "draft", "reference"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (!strcmp(row->flag, flags[i])) return is_path(row);
    return false;
}

// The second word of a command's name, or NULL.
static const char *second_word(int command) {
    const char *blank = strchr(command_name((enum command_id)command), ' ');
    return blank ? blank + 1 : NULL;
}

// The words that a command takes besides options.
static const char *words_of(int command) {
    const char *name = command_name((enum command_id)command);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        const char *other = command_name((enum command_id)i), *second = second_word(i);
        if (second && !strncmp(name, other, (size_t)(second - other) - 1) &&
            strlen(name) == (size_t)(second - other) - 1)
            return second;
    }
    return command == COMMAND_COMPLETIONS ? "bash zsh fish" : NULL;
}

// First words of commands.
static void put_commands(FILE *out) {
    int n = 0;
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (!second_word(i)) fprintf(out, "%s%s", n++ ? " " : "", command_name((enum command_id)i));
}

// Commands of two words, as alternatives of a shell's pattern: '"bench serve"|"..."'.
static void put_pairs(FILE *out) {
    int n = 0;
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (second_word(i))
            fprintf(out, "%s\"%s\"", n++ ? "|" : "", command_name((enum command_id)i));
}

// "a|b|c" or "a, b, c" as "a b c".
static void put_choices(FILE *out, const char *choices) {
    for (; *choices; choices++)
        if (*choices != ',') fputc(*choices == '|' ? ' ' : *choices, out);
}

// The beginning of a help text, up to its first ';', for a quoted place in a script: `escaped` get
// a backslash, a quote is written as `quote`.
static void put_short(FILE *out, const char *text, const char *escaped, const char *quote) {
    for (; *text && *text != ';'; text++) {
        if (*text == '\'') {
            fputs(quote, out);
            continue;
        }
        if (strchr(escaped, *text)) fputc('\\', out);
        fputc(*text, out);
    }
}

// ---------------------------------------------------------------- bash

// "|-md|--model-draft": a value behind another spelling is completed as well.
static void put_aliases(FILE *out, int id) {
    const char *alias;
    for (int i = 0; (alias = option_alias((enum option_id)id, i)); i++) fprintf(out, "|%s", alias);
}

// "-m|--model|..." of the command's options that `wanted` picks; false: there are none.
static bool put_flags(FILE *out, int command, bool (*wanted)(const struct option_row *row)) {
    int n = 0;
    for (int id = 0; id < OPT_COUNT; id++) {
        struct option_row row;
        if (!row_get(command, id, &row) || !wanted(&row)) continue;
        fprintf(out, "%s", n++ ? "|" : "        ");
        if (row.short_flag) fprintf(out, "-%c|", row.short_flag);
        fprintf(out, "--%s", row.flag);
        put_aliases(out, id);
    }
    return n > 0;
}

static bool is_plain_path(const struct option_row *row) {
    return is_path(row) && !is_model(row) && !row->choices;
}

static bool is_other(const struct option_row *row) {
    return !is_path(row) && !row->choices && row->kind != OPTION_FLAG;
}

// As an argument without a flag.
static bool takes_file(int command) {
    struct option_row row;
    return command == COMMAND_EXPLAIN || row_get(command, OPT_MODEL, &row);
}

static void bash_command(FILE *out, int command) {
    fprintf(out, "    \"%s\")\n        case $prev in\n", command_name((enum command_id)command));
    if (put_flags(out, command, is_model)) fputs(") _runnel_models; return ;;\n", out);
    if (put_flags(out, command, is_plain_path)) fputs(") _runnel_files; return ;;\n", out);
    for (int id = 0; id < OPT_COUNT; id++) {
        struct option_row row;
        if (!row_get(command, id, &row) || !row.choices) continue;
        fputs("        ", out);
        if (row.short_flag) fprintf(out, "-%c|", row.short_flag);
        fprintf(out, "--%s", row.flag);
        put_aliases(out, id);
        fprintf(out, ") %s \"", is_path(&row) ? "_runnel_files" : "_runnel_words");
        put_choices(out, row.choices);
        fputs("\"; return ;;\n", out);
    }
    if (put_flags(out, command, is_other)) fputs(") return ;;\n", out);
    fputs("        esac\n", out);
    if (takes_file(command)) {
        // the text of eval, a record of explain
        const bool any_file = command == COMMAND_EVAL || command == COMMAND_EXPLAIN;
        fprintf(out, "        case $cur in -*) ;; *) %s",
                any_file ? "_runnel_files" : "_runnel_models");
        if (words_of(command)) fprintf(out, " \"%s\"", words_of(command));
        fputs("; return ;; esac\n", out);
    }
    fputs("        _runnel_words \"", out);
    if (command == COMMAND_HELP) put_commands(out);
    if (words_of(command)) fputs(words_of(command), out);
    for (int id = 0; id < OPT_COUNT; id++) {
        struct option_row row;
        if (row_get(command, id, &row)) fprintf(out, " --%s", row.flag);
    }
    fputs(" --help\" ;;\n", out);
}

static void bash_write(FILE *out) {
    fputs("# bash completion for runnel; generated by 'runnel completions bash'\n"
          "_runnel_words() { mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\"); }\n"
          "_runnel_files() {\n"
          "    compopt -o filenames 2>/dev/null\n"
          "    mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"; compgen -W \"$1\" -- \"$cur\")\n"
          "}\n"
          "_runnel_models() {\n"
          "    compopt -o filenames 2>/dev/null\n"
          "    mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"\n"
          "        compgen -f -X '!*.gguf' -- \"$cur\"; compgen -W \"$1\" -- \"$cur\")\n"
          "}\n"
          "_runnel() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        _runnel_words \"",
          out);
    put_commands(out);
    fputs(" --help --version\"\n        return\n    fi\n"
          "    # --option=value is three words\n"
          "    if [ \"$cur\" = = ]; then cur=; elif [ \"$prev\" = = ]; then\n"
          "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n    fi\n"
          "    local command=${COMP_WORDS[1]}\n"
          "    [ \"$COMP_CWORD\" -gt 2 ] && case \"$command ${COMP_WORDS[2]}\" in ",
          out);
    put_pairs(out);
    fputs(") command=\"$command ${COMP_WORDS[2]}\" ;; esac\n    case $command in\n", out);
    for (int i = 0; i < COMMAND_COUNT; i++) bash_command(out, i);
    fputs("    esac\n}\ncomplete -F _runnel runnel\n", out);
}

// ---------------------------------------------------------------- zsh

static const char zsh_escaped[] = "\\[]:";

static void zsh_option(FILE *out, const struct option_row *row) {
    const bool many = row->kind == OPTION_LIST;
    fputs("            ", out);
    if (row->short_flag && !many) {
        fprintf(out, "'(-%c --%s)'{-%c,--%s}'", row->short_flag, row->flag, row->short_flag,
                row->flag);
    } else if (row->short_flag) {
        fprintf(out, "'*'{-%c,--%s}'", row->short_flag, row->flag);
    } else {
        fprintf(out, "'%s--%s", many ? "*" : "", row->flag);
    }
    fputc('[', out);
    put_short(out, row->help, zsh_escaped, "'\\''");
    fputc(']', out);
    if (row->kind != OPTION_FLAG) {
        fputc(':', out);
        put_short(out, row->value, zsh_escaped, "'\\''");
        fputc(':', out);
    }
    if (is_path(row) && row->choices) {
        fputs("{compadd ", out);
        put_choices(out, row->choices);
        fputs("; _files}", out);
    } else if (is_model(row)) {
        fputs("_files -g \"*.gguf(-.)\"", out);
    } else if (is_path(row)) {
        fputs("_files", out);
    } else if (row->choices) {
        fputc('(', out);
        put_choices(out, row->choices);
        fputc(')', out);
    }
    fputs("' \\\n", out);
}

static void zsh_write(FILE *out) {
    fputs("#compdef runnel\n# generated by 'runnel completions zsh'\n_runnel() {\n"
          "    local -a commands=(\n",
          out);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (second_word(i)) continue;
        fprintf(out, "        '%s:", command_name((enum command_id)i));
        put_short(out, command_summary((enum command_id)i), zsh_escaped, "'\\''");
        fputs("'\n", out);
    }
    fputs("    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n"
          "        return\n    fi\n    local command=$words[2]\n    shift words\n"
          "    (( CURRENT-- ))\n    (( CURRENT > 2 )) && case \"$command $words[2]\" in ",
          out);
    put_pairs(out);
    fputs(") command=\"$command $words[2]\"; shift words; (( CURRENT-- )) ;; esac\n"
          "    case $command in\n",
          out);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "    \"%s\")\n        _arguments \\\n", command_name((enum command_id)i));
        for (int id = 0; id < OPT_COUNT; id++) {
            struct option_row row;
            if (row_get(i, id, &row)) zsh_option(out, &row);
        }
        if (takes_file(i)) fputs("            '*:FILE:_files' \\\n", out);
        if (words_of(i) && takes_file(i)) {
            fprintf(out, "            '1:FILE:{compadd %s; _files}' \\\n", words_of(i));
        } else if (words_of(i)) {
            fprintf(out, "            '1:WORD:(%s)' \\\n", words_of(i));
        }
        if (i == COMMAND_HELP) {
            fputs("            '1:COMMAND:(", out);
            put_commands(out);
            fputs(")' \\\n", out);
        }
        fputs("            '(-h --help)'{-h,--help}'[show the help]' ;;\n", out);
    }
    fputs("    esac\n}\n_runnel \"$@\"\n", out);
}

// ---------------------------------------------------------------- fish

static const char fish_quote[] = "\\'";

static void fish_option(FILE *out, const char *command, const struct option_row *row) {
    fprintf(out, "complete -c runnel -n '__runnel_is \"%s\"' -l %s", command, row->flag);
    if (row->short_flag) fprintf(out, " -s %c", row->short_flag);
    if (is_path(row)) fputs(" -r -F", out);
    if (row->choices) {
        fputs(is_path(row) ? " -a '" : " -x -a '", out);
        put_choices(out, row->choices);
        fputs("'", out);
    } else if (row->kind != OPTION_FLAG && !is_path(row)) {
        fputs(" -x", out);
    }
    fputs(" -d '", out);
    put_short(out, row->help, "\\", fish_quote);
    fputs("'\n", out);
}

static void fish_command(FILE *out, int command) {
    const char *name = command_name((enum command_id)command);
    if (!second_word(command)) {
        fprintf(out, "complete -c runnel -n __fish_use_subcommand -f -a %s -d '", name);
        put_short(out, command_summary((enum command_id)command), "\\", fish_quote);
        fputs("'\n", out);
    }
    fprintf(out, "complete -c runnel -n '__runnel_is \"%s\"'%s", name,
            takes_file(command) ? " -F" : " -f");
    if (command == COMMAND_HELP) {
        fputs(" -a '", out);
        put_commands(out);
        fputs("'", out);
    }
    if (words_of(command)) fprintf(out, " -a '%s'", words_of(command));
    fputc('\n', out);
    fprintf(out, "complete -c runnel -n '__runnel_is \"%s\"' -l help -s h -d 'show the help'\n",
            name);
    for (int id = 0; id < OPT_COUNT; id++) {
        struct option_row row;
        if (row_get(command, id, &row)) fish_option(out, name, &row);
    }
}

static void fish_write(FILE *out) {
    fputs("# fish completion for runnel; generated by 'runnel completions fish'\n"
          "function __runnel_is -d 'whether the words name this command'\n"
          "    set -l words (commandline -opc)\n"
          "    set -l name \"$words[2]\"\n"
          "    switch \"$words[2] $words[3]\"\n        case",
          out);
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (second_word(i)) fprintf(out, " '%s'", command_name((enum command_id)i));
    fputs("\n            set name \"$words[2] $words[3]\"\n    end\n"
          "    test \"$name\" = \"$argv[1]\"\nend\n",
          out);
    for (int i = 0; i < COMMAND_COUNT; i++) fish_command(out, i);
}

// ---------------------------------------------------------------- the command

int command_completions(const struct options *options) {
    static const struct {
        const char *name;
        void (*write)(FILE *out);
    } shells[] = {{"bash", bash_write}, {"zsh", zsh_write}, {"fish", fish_write}};
    const char *shell = options->positional;
    for (int i = 0; shell && i < 3; i++) {
        if (strcmp(shell, shells[i].name) != 0) continue;
        shells[i].write(stdout);
        return APP_OK;
    }
    if (!shell) return app_fail(APP_USAGE, "completions: name a shell: bash, zsh or fish");
    return app_fail(APP_USAGE, "completions: '%s' is not one of bash, zsh and fish",
                    app_short(shell).text);
}

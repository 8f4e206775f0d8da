// Completions of command lines, generated from the tables of commands and options: a script for
// bash, for zsh and for fish. The build writes all three. A script completes the models of the
// machine on which it runs: it asks `runnel models --names`.
#include <string.h>

#include "app.h"
#include "plan/names.h"

static bool is_path(const struct option_row *row) {
    return row->kind == OPTION_PATH || row->named & NAMES_MODELS;
}

// A model's file or folder, or the name of a model.
static bool is_model(const struct option_row *row) { return row->named & NAMES_MODELS; }

static bool has_words(const struct option_row *row) {
    return row->choices || row->words || row->named & (NAMES_SHAPES | NAMES_DEVICES);
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

// The words that complete an option's value, with blanks between them.
static void put_words(FILE *out, const struct option_row *row) {
    if (row->choices) put_choices(out, row->choices);
    if (row->words) put_choices(out, row->words);
    if (row->named & NAMES_SHAPES) plan_shapes_put(out);
    if (row->named & NAMES_DEVICES) plan_devices_put(out);
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
        if (!option_row_get((enum command_id)command, (enum option_id)id, &row) || !wanted(&row))
            continue;
        fprintf(out, "%s", n++ ? "|" : "        ");
        if (row.short_flag) fprintf(out, "-%c|", row.short_flag);
        fprintf(out, "--%s", row.flag);
        put_aliases(out, id);
    }
    return n > 0;
}

static bool is_plain_path(const struct option_row *row) {
    return is_path(row) && !is_model(row) && !has_words(row);
}

static bool is_other(const struct option_row *row) {
    return !is_path(row) && !has_words(row) && row->kind != OPTION_FLAG;
}

// As an argument without a flag.
static bool takes_model(int command) {
    struct option_row row;
    return command == COMMAND_MODELS || option_row_get((enum command_id)command, OPT_MODEL, &row);
}

// The text of eval, a record of explain.
static bool takes_file(int command) {
    return command == COMMAND_EVAL || command == COMMAND_EXPLAIN;
}

// Words in the place of an argument without a flag.
static void put_arguments(FILE *out, int command) {
    struct option_row row;
    if (words_of(command)) fputs(words_of(command), out);
    if (command == COMMAND_PLAN && option_row_get(COMMAND_PLAN, OPT_MODEL, &row))
        put_words(out, &row);
}

// One of the functions of the script: "_runnel_models", "_runnel_files" or "_runnel_words".
static const char *bash_function(const struct option_row *row) {
    return is_model(row) ? "_runnel_models" : is_path(row) ? "_runnel_files" : "_runnel_words";
}

static bool is_plain_model(const struct option_row *row) {
    return is_model(row) && !has_words(row);
}

static void bash_values(FILE *out, int command) {
    if (put_flags(out, command, is_plain_model)) fputs(") _runnel_models; return ;;\n", out);
    if (put_flags(out, command, is_plain_path)) fputs(") _runnel_files; return ;;\n", out);
    for (int id = 0; id < OPT_COUNT; id++) {
        struct option_row row;
        if (!option_row_get((enum command_id)command, (enum option_id)id, &row) || !has_words(&row))
            continue;
        fputs("        ", out);
        if (row.short_flag) fprintf(out, "-%c|", row.short_flag);
        fprintf(out, "--%s", row.flag);
        put_aliases(out, id);
        fprintf(out, ") %s \"", bash_function(&row));
        put_words(out, &row);
        fputs("\"; return ;;\n", out);
    }
    if (put_flags(out, command, is_other)) fputs(") return ;;\n", out);
}

static void bash_command(FILE *out, int command) {
    fprintf(out, "    \"%s\")\n        case $prev in\n", command_name((enum command_id)command));
    bash_values(out, command);
    fputs("        esac\n", out);
    if (takes_model(command) || takes_file(command)) {
        fprintf(out, "        case $cur in -*) ;; *) %s \"",
                takes_file(command) ? "_runnel_files" : "_runnel_models");
        put_arguments(out, command);
        fputs("\"; return ;; esac\n", out);
    }
    fputs("        _runnel_words \"", out);
    if (command == COMMAND_HELP) put_commands(out);
    if (words_of(command)) fputs(words_of(command), out);
    for (int id = 0; id < OPT_COUNT; id++) {
        struct option_row row;
        if (option_row_get((enum command_id)command, (enum option_id)id, &row))
            fprintf(out, " --%s", row.flag);
    }
    fputs(" --help\" ;;\n", out);
}

// Models have their names, with and without their owner. A name that the shell would split or
// expand is left out.
static const char bash_helpers[] =
    "_runnel_words() { mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\"); }\n"
    "_runnel_files() {\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"; compgen -W \"$1\" -- \"$cur\")\n"
    "}\n"
    "_runnel_names() {\n"
    "    local name\n"
    "    \"${COMP_WORDS[0]/#\\~/$HOME}\" models --names 2>/dev/null | while IFS= read -r name; do\n"
    "        [[ $name == *[!a-zA-Z0-9._:/@+-]* ]] || printf '%s\\n' \"$name\" \"${name##*/}\"\n"
    "    done\n"
    "}\n"
    "_runnel_models() {\n"
    "    mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"; compgen -f -X '!*.gguf' -- \"$cur\")\n"
    "    [ ${#COMPREPLY[@]} -eq 0 ] || compopt -o filenames 2>/dev/null\n"
    "    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(\n"
    "        compgen -W \"$1 $(_runnel_names | sort -u)\" -- \"$cur\")\n"
    "}\n";

// bash splits words at colons, which names of models have. So the words are put together again, and
// the part of an answer that is on the line already is taken off.
static const char bash_start[] =
    "_runnel() {\n"
    "    local words=(\"$1\") i cur prev before\n"
    "    for ((i = 1; i <= COMP_CWORD; i++)); do\n"
    "        if [ $i -gt 1 ] && [[ ${COMP_WORDS[i]} == : || ${COMP_WORDS[i - 1]} == : ]]; then\n"
    "            words[${#words[@]} - 1]+=${COMP_WORDS[i]}\n"
    "        else\n"
    "            words+=(\"${COMP_WORDS[i]}\")\n"
    "        fi\n"
    "    done\n"
    "    cur=${words[${#words[@]} - 1]} prev=${words[${#words[@]} - 2]}\n"
    "    COMPREPLY=()\n"
    "    _runnel_complete\n"
    "    before=${cur%\"${COMP_WORDS[COMP_CWORD]}\"}\n"
    "    [ \"${COMP_WORDS[COMP_CWORD]}\" != : ] || before=$cur\n"
    "    for i in \"${!COMPREPLY[@]}\"; do COMPREPLY[i]=${COMPREPLY[i]#\"$before\"}; done\n"
    "}\n"
    "complete -F _runnel runnel\n";

static void bash_write(FILE *out) {
    fputs("# bash completion for runnel; generated by 'runnel completions bash'\n", out);
    fputs(bash_helpers, out);
    fputs("_runnel_complete() {\n    if [ ${#words[@]} -eq 2 ]; then\n        _runnel_words \"",
          out);
    put_commands(out);
    fputs(" --help --version\"\n        return\n    fi\n"
          "    # --option=value is three words\n"
          "    if [ \"$cur\" = = ]; then cur=; elif [ \"$prev\" = = ]; then\n"
          "        prev=${words[${#words[@]} - 3]}\n    fi\n"
          "    local command=${words[1]}\n"
          "    [ ${#words[@]} -gt 3 ] && case \"$command ${words[2]}\" in ",
          out);
    put_pairs(out);
    fputs(") command=\"$command ${words[2]}\" ;; esac\n    case $command in\n", out);
    for (int i = 0; i < COMMAND_COUNT; i++) bash_command(out, i);
    fputs("    esac\n}\n", out);
    fputs(bash_start, out);
}

// ---------------------------------------------------------------- zsh

static const char zsh_escaped[] = "\\[]:";

// What completes the value of an option.
static void zsh_action(FILE *out, const struct option_row *row) {
    if (is_path(row) && (is_model(row) || has_words(row))) {
        fprintf(out, "{%s ", is_model(row) ? "_runnel_models" : "_files; compadd --");
        put_words(out, row);
        fputs("}", out);
    } else if (is_path(row)) {
        fputs("_files", out);
    } else if (has_words(row)) {
        fputc('(', out);
        put_words(out, row);
        fputc(')', out);
    }
}

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
    zsh_action(out, row);
    fputs("' \\\n", out);
}

static void zsh_write(FILE *out) {
    fputs("#compdef runnel\n# generated by 'runnel completions zsh'\n"
          "_runnel_models() {\n"
          "    local -a names=(${(f)\"$(_call_program models $program models --names "
          "2>/dev/null)\"})\n"
          "    compadd -- $@ $names ${names:t}\n"
          "    _files -g \"*.gguf(-.)\"\n"
          "}\n"
          "_runnel() {\n    local program=$words[1]\n    local -a commands=(\n",
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
            if (option_row_get((enum command_id)i, (enum option_id)id, &row)) zsh_option(out, &row);
        }
        if (takes_file(i)) {
            fputs("            '*:FILE:_files' \\\n", out);
        } else if (takes_model(i)) {
            fputs("            '*:MODEL:{_runnel_models ", out);
            put_arguments(out, i);
            fputs("}' \\\n", out);
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
    if (has_words(row) || is_model(row)) {
        fputs(is_path(row) ? " -a '" : " -x -a '", out);
        put_words(out, row);
        fputs(is_model(row) ? " (__runnel_models)'" : "'", out);
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
            takes_file(command) || takes_model(command) ? " -F" : " -f");
    fputs(" -a '", out);
    if (command == COMMAND_HELP) put_commands(out);
    put_arguments(out, command);
    fputs(takes_model(command) && !takes_file(command) ? " (__runnel_models)'" : "'", out);
    fputc('\n', out);
    fprintf(out, "complete -c runnel -n '__runnel_is \"%s\"' -l help -s h -d 'show the help'\n",
            name);
    for (int id = 0; id < OPT_COUNT; id++) {
        struct option_row row;
        if (option_row_get((enum command_id)command, (enum option_id)id, &row))
            fish_option(out, name, &row);
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
          "    test \"$name\" = \"$argv[1]\"\nend\n"
          "function __runnel_models -d 'names of models, with and without their owner'\n"
          "    set -l words (commandline -opc)\n"
          "    set -l program (string replace -r '^~' $HOME -- $words[1])\n"
          "    set -l names ($program models --names 2>/dev/null)\n"
          "    printf '%s\\n' $names (string replace -r '.*/' '' -- $names)\nend\n",
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

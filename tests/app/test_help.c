// The pages that are generated from the tables: help, manual pages, completions.
#include "app/rows.h"

// Line breaks and runs of blanks become one blank.
static void flatten(char *text) {
    char *to = text;
    for (const char *c = text; *c; c++) {
        const char shown = *c == '\n' ? ' ' : *c;
        if (shown != ' ' || to == text || to[-1] != ' ') *to++ = shown;
    }
    *to = '\0';
}

// roff's escapes as the characters that they stand for.
static void unescape(char *text) {
    static const char *const escapes[][2] = {{"\\-", "-"},   {"\\e", "\\"}, {"\\(ha", "^"},
                                             {"\\(ti", "~"}, {"\\%", ""},   {"\\&", ""}};
    char *to = text;
    for (const char *c = text; *c;) {
        size_t i = 0;
        while (i < 6 && strncmp(c, escapes[i][0], strlen(escapes[i][0])) != 0) i++;
        if (i == 6) {
            *to++ = *c++;
            continue;
        }
        c += strlen(escapes[i][0]);
        to = stpcpy(to, escapes[i][1]);
    }
    *to = '\0';
}

static char *written(void (*write)(FILE *out, enum command_id command), enum command_id command) {
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    write(out, command);
    fclose(out);
    return text;
}

static void holds(const char *text, const char *what, enum command_id command, const char *part) {
    check(strstr(text, part), "%s of %s lacks '%s'", what, command_name(command), part);
}

static void row_is_in_help_and_manual(enum command_id command, enum option_id id,
                                      const struct option_row *row) {
    char name[OPTION_NAME_SIZE], initial[OPTION_INITIAL_SIZE], part[256];
    char *help = written(help_command, command), *page = written(man_command, command);
    flatten(help);
    unescape(page);
    option_initial_text(row, initial);
    snprintf(part, sizeof part, "--%s ", row->flag);
    holds(help, "help", command, part);
    snprintf(part, sizeof part, "\n\\fB--%s\\fR", row->flag);
    if (row->short_flag) snprintf(part, sizeof part, ", \\fB--%s\\fR", row->flag);
    holds(page, "manual", command, part);
    snprintf(part, sizeof part, "%s%s%s[%s]", *initial ? "(default: " : "", initial,
             *initial ? ") " : " ", option_environment(row, name));
    holds(help, "help", command, part);
    snprintf(part, sizeof part, "%s%s%sEnvironment: %s.", *initial ? "Default: " : "", initial,
             *initial ? ".\n" : "", name[0] ? option_environment(row, name) : "");
    holds(page, "manual", command, part);
    holds(page, "manual", command, row->help);
    free(help);
    free(page);
}

CASE(help_and_manual_show_every_row_with_its_default) {
    each_row(row_is_in_help_and_manual);
    char *help = written(help_command, COMMAND_SERVE);
    flatten(help);
    holds(help, "help", COMMAND_SERVE, "(default: 8080) [RUNNEL_PORT]");
    holds(help, "help", COMMAND_SERVE, "(default: 16M) [RUNNEL_MAX_BODY]");
    holds(help, "help", COMMAND_SERVE, "(default: the model's, else 0.8) [RUNNEL_TEMPERATURE]");
    free(help);
    help = written(help_command, COMMAND_BENCH);
    flatten(help);
    holds(help, "help", COMMAND_BENCH, "(default: 5; batch: 1; speculate: 9; tour: 5)");
    free(help);
}

static void aliases_are_in_help_and_manual(enum command_id command, enum option_id id,
                                           const struct option_row *row) {
    const char *alias;
    char part[64];
    if (!option_alias(id, 0)) return;
    char *help = written(help_command, command), *page = written(man_command, command);
    flatten(help);
    unescape(page);
    for (int i = 0; (alias = option_alias(id, i)); i++) {
        snprintf(part, sizeof part, "%s%s", i ? ", " : "(also ", alias);
        holds(help, "help", command, part);
        snprintf(part, sizeof part, "%s\\fB%s\\fR", i ? ", " : "Also ", alias);
        holds(page, "manual", command, part);
    }
    free(help);
    free(page);
}

CASE(help_and_manual_show_other_spellings) { each_row(aliases_are_in_help_and_manual); }

CASE(manuals_name_chat_commands_routes_and_options_of_other_programs) {
    char *page = written(man_command, COMMAND_RUN);
    holds(page, "manual", COMMAND_RUN, ".SH CONVERSATION");
    holds(page, "manual", COMMAND_RUN,
          "\\fB/set\\fR \\fI[NAME VALUE]\\fR\nchange a sampling option");
    holds(page, "manual", COMMAND_RUN, "/runnel/history\\fR\n");
    holds(page, "manual", COMMAND_RUN,
          "\\fB\\-ub\\fR, \\fB\\-\\-ubatch\\-size\\fR\ntaken with a note: ");
    holds(page, "manual", COMMAND_RUN,
          "\\fB\\-\\-tokenizer\\-mode\\fR\ntaken with a note if the value is \\fBauto\\fR, ");
    holds(page, "manual", COMMAND_RUN, "\\fB\\-\\-reverse\\-prompt\\fR\nrefused: ");
    free(page);
    page = written(man_command, COMMAND_SERVE);
    holds(page, "manual", COMMAND_SERVE, "POST /v1/messages\n");
    assert_null(strstr(page, ".SH CONVERSATION"));
    free(page);
}

// Sections in their order, in the pages of all commands.
CASE(manuals_describe_every_command) {
    for (int i = 0; i < COMMAND_COUNT; i++) {
        const enum command_id command = (enum command_id)i;
        char *page = written(man_command, command);
        const char *description = strstr(page, "\n.SH DESCRIPTION\n"),
                   *options = strstr(page, "\n.SH OPTIONS\n"),
                   *status = strstr(page, "\n.SH EXIT STATUS\n");
        check(description && options && status && description < options && options < status,
              "%s: sections", command_name(command));
        if (command != COMMAND_VERSION) holds(page, "manual", command, "\n.SH EXAMPLES\n");
        free(page);
    }
}

// Each option is listed once: the most used first, in commands with many options.
CASE(help_is_grouped) {
    static const struct {
        enum command_id command;
        const char *first[10];
    } cases[] = {{COMMAND_RUN,
                  {"model", "prompt", "file", "chat", "system", "max-tokens", "temperature", "seed",
                   "ctx", "threads"}},
                 {COMMAND_SERVE, {"model", "host", "port"}},
                 {COMMAND_EVAL, {"model", "loss"}},
                 {COMMAND_BENCH, {"model", "synthetic"}},
                 {COMMAND_BENCH_SERVE, {"model", "url"}},
                 {COMMAND_PLAN, {"model", "device"}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *help = written(help_command, cases[i].command);
        const char *end = strstr(strstr(help, "\nmost used:\n") + 2, "\n\n");
        const char *at = strstr(help, "\nmost used:\n");
        int n = 0;
        for (const char *c = at; (c = strstr(c + 1, "\n  ")) && c < end;)
            n += c[3] == '-' || !strncmp(c + 3, "    --", 6);
        check(n == 10, "%s: %d", command_name(cases[i].command), n);
        for (int k = 0; k < 10 && cases[i].first[k]; k++) {
            char part[40];
            snprintf(part, sizeof part, "--%s ", cases[i].first[k]);
            at = strstr(at, part);
            check(at && at < end, "%s: %s", command_name(cases[i].command), part);
        }
        const char *model = strstr(help, "\n  -m, --model ");
        check(model && !strstr(model + 1, "\n  -m, --model "), "%s: listed twice",
              command_name(cases[i].command));
        free(help);
    }
    char *help = written(help_command, COMMAND_SERVE);
    const char *server = strstr(help, "\nserver:\n"),
               *limits = strstr(help, "\nlimits and timeouts:\n");
    assert_true(server && limits && server < limits);
    assert_true(strstr(help, "--tls-cert FILE") > server && strstr(help, "--max-body") > limits);
    assert_null(strstr(help, "\nshape of the answer:\n")); // run's
    free(help);
    help = written(help_command, COMMAND_TOKENIZE); // few options are one list
    assert_non_null(strstr(help, "\noptions:\n"));
    assert_null(strstr(help, "\nmost used:\n"));
    free(help);
}

// Splits at blanks; quotes hold them.
static int words_split(char *line, char **argv) {
    int n = 0;
    while (*line) {
        const bool quoted = *line == '"';
        argv[n++] = line += quoted;
        line += strcspn(line, quoted ? "\"" : " ");
        if (*line) *line++ = '\0';
        line += strspn(line, " ");
    }
    argv[n] = NULL;
    return n;
}

CASE(examples_are_command_lines) {
    const struct example *example;
    for (int i = 0; (example = example_at(i)); i++) {
        char line[128], name[64], *argv[24];
        snprintf(line, sizeof line, "%s", example->line);
        snprintf(name, sizeof name, "runnel %s", command_name(example->command));
        check(!strncmp(line, name, strlen(name)), "%s", example->line);
        words_split(line + strlen(name) + strspn(line + strlen(name), " "), argv);
        struct parsed p;
        parse_list(&p, example->command, argv);
        check(p.ok, "%s: %s", example->line, p.errors.text);
        parsed_free(&p);
        char *help = written(help_command, example->command);
        holds(help, "help", example->command, example->line);
        free(help);
    }
}

CASE(help_fits_100_columns) {
    for (int command = 0; command < COMMAND_COUNT; command++) {
        char *help = written(help_command, (enum command_id)command);
        for (char *rest = help, *line; (line = strsep(&rest, "\n"));)
            check(strlen(line) <= 100, "%s: %s", command_name((enum command_id)command), line);
        free(help);
    }
}

CASE(completions_name_every_option) {
    static const char *const shells[] = {"bash", "zsh", "fish"};
    for (int i = 0; i < 3; i++) {
        const struct options options = {.command = COMMAND_COMPLETIONS, .positional = shells[i]};
        struct caught caught;
        catch_begin(&caught, &stdout);
        const int code = command_completions(&options);
        catch_end(&caught);
        assert_int_equal(code, APP_OK);
        for (int id = 0; id < OPT_COUNT; id++) {
            for (int command = 0; command < COMMAND_COUNT; command++) {
                struct option_row row;
                if (!option_row_get((enum command_id)command, (enum option_id)id, &row)) continue;
                char part[80];
                snprintf(part, sizeof part, "%s%s", i == 2 ? "-l " : "--", row.flag);
                check(strstr(caught.text, part), "%s lacks '%s'", shells[i], part);
            }
        }
        free(caught.text);
    }
}

TEST_PROGRAM(help) { return cases_run(NULL, NULL); }

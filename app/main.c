// The program: finds the command in the table, parses its options, runs it, and makes sure that
// standard output was really written.
#include <locale.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "app.h"
#include "models/advice.h"

static int (*const functions[COMMAND_COUNT])(const struct options *) = {
#define COMMAND(id, name, function, ...) [COMMAND_##id] = function,
#include "commands.def"
#undef COMMAND
};

static int command_find(const char *name) {
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (!strcmp(name, command_name((enum command_id)i))) return i;
    }
    return -1;
}

// The command that the words argv[0 .. argc) start with, -1: none. A name may have two words;
// *used is their number.
static int command_match(int argc, char **argv, int *used) {
    char name[64];
    *used = 2;
    if (argc > 1 && snprintf(name, sizeof name, "%s %s", argv[0], argv[1]) < (int)sizeof name) {
        const int command = command_find(name);
        if (command >= 0) return command;
    }
    *used = 1;
    return command_find(argv[0]);
}

// Commands of other programs, and what does the same here.
static const struct {
    const char *names, *here;
} elsewhere[] = {
    {"chat|cli|llama-cli|main|generate|complete|completion|infer", "'runnel run' does it"},
    {"server|llama-server|start|api", "'runnel serve' does it"},
    {"show|info|gguf-dump", "'runnel inspect' shows a model"},
    {"perplexity|ppl|lm-eval", "'runnel eval FILE' measures it"},
    {"tokens|encode", "'runnel tokenize' does it"},
    {"decode", "'runnel detokenize' does it"},
    {"benchmark|batched-bench|llama-bench", "'runnel bench' does it"},
    {"embed|embedding|embeddings", "'runnel serve' answers POST /v1/embeddings"},
    {"list|ls|tags", "'runnel models' lists the models on this machine"},
    {"ps", "GET /api/ps of a server lists the models that are loaded"},
    {"stop", "POST /models/unload of a server unloads a model"},
    {"pull|push|fetch|download|search|login|cp|rm|create",
     "nothing is downloaded or stored: 'runnel models --help' says how to get a model, which -m "
     "finds by its name"},
    {"quantize|convert|export", "files are taken as they are: use the tools of llama.cpp"},
    {"man", "'runnel help --man COMMAND' prints a manual page"},
};

static const char *elsewhere_find(const char *name) {
    const size_t len = strlen(name);
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        for (const char *word = elsewhere[i].names; word; word = strchr(word, '|')) {
            word += *word == '|';
            if (strcspn(word, "|") == len && !memcmp(word, name, len)) return elsewhere[i].here;
        }
    return NULL;
}

static int command_unknown(const char *name) {
    const struct app_short text = app_short(name);
    const char *here = elsewhere_find(name);
    if (here) return app_fail(APP_USAGE, "unknown command '%s'; %s", text.text, here);
    if (name[0] == '-')
        return app_fail(APP_USAGE, "'%s': a command comes first, such as 'runnel run %s'",
                        text.text, text.text);
    if (access(name, F_OK) == 0)
        return app_fail(APP_USAGE, "'%s' is not a command; did you mean 'runnel run %s'?",
                        text.text, text.text);
    const char *names[COMMAND_COUNT];
    for (int i = 0; i < COMMAND_COUNT; i++) names[i] = command_name((enum command_id)i);
    const char *near = nearest_word(name, names, COMMAND_COUNT);
    return near ? app_fail(APP_USAGE, "unknown command '%s'; did you mean '%s'?", text.text, near)
                : app_fail(APP_USAGE, "unknown command '%s'; see 'runnel --help'", text.text);
}

static void help_print(enum command_id command) {
    help_command(stdout, command);
    if (command == COMMAND_MODELS) advice_help(stdout);
}

int command_help(const struct options *options) {
    const bool man = option_flag(options, OPT_MAN);
    if (!options->positional) {
        (man ? man_program : help_program)(stdout);
        return APP_OK;
    }
    char *words[] = {(char *)(uintptr_t)options->positional, (char *)(uintptr_t)options->second};
    const int n = options->second ? 2 : 1;
    int used;
    const int command = command_match(n, words, &used);
    if (command < 0) return command_unknown(options->positional);
    if (used < n)
        return app_fail(APP_USAGE, "one argument too many: '%s'", app_short(options->second).text);
    if (man)
        man_command(stdout, (enum command_id)command);
    else
        help_print((enum command_id)command);
    return APP_OK;
}

int command_version(const struct options *options) {
    (void)options;
    printf("runnel %s\n", RN_VERSION);
    return APP_OK;
}

static int command_start(int command, int argc, char **argv) {
    struct options options;
    int code = APP_USAGE;
    if (options_parse(&options, (enum command_id)command, argc, argv)) {
        if (options.help) {
            help_print((enum command_id)command);
            code = APP_OK;
        } else {
            code = functions[command](&options);
        }
    }
    options_deinit(&options);
    return code;
}

// glibc sets 64 MB of addresses aside for each thread that allocates: too much where they are
// limited, as by ulimit -v.
static void addresses_spare(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        mallopt(M_ARENA_MAX, 1);
}

int main(int argc, char **argv) {
    setlocale(LC_CTYPE, ""); // whether the terminal takes UTF-8; numbers stay in the C locale
    signal(SIGPIPE, SIG_IGN);
    addresses_spare();
    setenv("HWLOC_HIDE_ERRORS", "2", 0); // hwloc prints warnings on standard error otherwise
    int code;
    if (argc < 2) {
        help_program(stderr);
        code = APP_USAGE;
    } else if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        help_program(stdout);
        code = APP_OK;
    } else if (!strcmp(argv[1], "--version")) {
        code = command_version(NULL);
    } else {
        int used;
        const int command = command_match(argc - 1, argv + 1, &used);
        code = command < 0 ? command_unknown(argv[1])
                           : command_start(command, argc - 1 - used, argv + 1 + used);
    }
    const int flushed = code == APP_FAILED ? APP_OK : app_flush_output();
    return flushed ? flushed : code;
}

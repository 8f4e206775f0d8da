// Variables of the environment that no option reads: a mistyped name would be ignored silently. A
// warning names it, and the variable that was probably meant. It is no error, because a variable
// may be meant for another version of the program. Called by options_parse.
#include <string.h>

#include "app.h"

extern char **environ;

static const char prefix[] = "RUNNEL_";

// Of other parts of the project, and of Kubernetes for a service with the program's name. One that
// ends in _ stands for all names that start so.
static const char *const others[] = {
    "RUNNEL_MODELS",    "RUNNEL_LIBRARY",  "RUNNEL_FAKE",  "RUNNEL_TEST_",
    "RUNNEL_EMULATOR_", "RUNNEL_SERVICE_", "RUNNEL_PORT_",
};

static bool is_other(const char *name) {
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const size_t len = strlen(others[i]);
        const bool is_start = others[i][len - 1] == '_';
        if (is_start ? !strncmp(name, others[i], len) : !strcmp(name, others[i])) return true;
    }
    return false;
}

static bool is_twin(const char *name) {
    for (int i = 0; i < COMMAND_COUNT * OPT_COUNT; i++) {
        struct option_row row;
        char buffer[OPTION_NAME_SIZE];
        if (option_row_get((enum command_id)(i / OPT_COUNT), (enum option_id)(i % OPT_COUNT),
                           &row) &&
            !strcmp(name, option_environment(&row, buffer)))
            return true;
    }
    return false;
}

// "RUNNEL_N_PREDICT" as a flag: "n-predict".
static void flag_of(const char *name, char out[OPTION_NAME_SIZE]) {
    snprintf(out, OPTION_NAME_SIZE, "%s", name + sizeof prefix - 1);
    for (char *c = out; *c; c++) {
        if (*c == '_') *c = '-';
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    }
}

// The variable of the command's option with this flag, an alias of it, or nearly one of them; NULL
// if there is none.
static const char *twin_near(enum command_id command, const char *flag,
                             char buffer[OPTION_NAME_SIZE]) {
    struct option_row row;
    const char *near = option_nearest(command, flag);
    const int id = near ? option_find(command, near, strlen(near)) : -1;
    if (id < 0 || !option_row_get(command, (enum option_id)id, &row)) return NULL;
    return option_environment(&row, buffer);
}

static void warn(enum command_id command, const char *name) {
    char flag[OPTION_NAME_SIZE], buffer[OPTION_NAME_SIZE];
    flag_of(name, flag);
    const char *near = twin_near(command, flag, buffer);
    for (int other = 0; !near && other < COMMAND_COUNT; other++)
        near = twin_near((enum command_id)other, flag, buffer);
    if (near)
        app_fail(APP_OK, "warning: unknown variable %s; did you mean %s?", name, near);
    else
        app_fail(APP_OK, "warning: unknown variable %s", name);
}

// Commands without --config (models, help, completions, version) have no warning: shells and other
// programs call them, for whom it would be noise.
void variables_check(const struct options *options) {
    struct option_row row;
    if (!option_row_get(options->command, OPT_CONFIG, &row)) return;
    for (char **at = environ; *at; at++) {
        char name[OPTION_NAME_SIZE];
        const size_t len = strcspn(*at, "=");
        if (strncmp(*at, prefix, sizeof prefix - 1) != 0 || !(*at)[len] || !(*at)[len + 1])
            continue;
        snprintf(name, sizeof name, "%.*s", (int)len, *at);
        if (!is_other(name) && !is_twin(name)) warn(options->command, name);
    }
}

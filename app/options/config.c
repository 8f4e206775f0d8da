// Options from a file: lines of `name = value`. A name is that of a long option, a flag's value is
// yes or no. Empty lines and lines that start with # are ignored. Only an option that takes a list
// may be repeated. The file may serve several commands: an option of another command is ignored, a
// name that no command knows is an error. Called by options_parse after the environment.
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "helpers.h"

enum { CONFIG_LIMIT = 1 << 20, NAME_SIZE = 384 };

struct config {
    struct options *options;
    const char *path;
    int line;
};

__attribute__((format(printf, 2, 3))) static bool refuse(const struct config *config,
                                                         const char *fmt, ...) {
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    app_fail(APP_USAGE, "%s:%d: %s", err_path(config->path), config->line, text);
    return false;
}

// Without the blanks around it.
static char *trimmed(char *text) {
    static const char blanks[] = " \t\r";
    text += strspn(text, blanks);
    size_t len = strlen(text);
    while (len && strchr(blanks, text[len - 1])) text[--len] = '\0';
    return text;
}

static bool is_known(const char *key) {
    for (int command = 0; command < COMMAND_COUNT; command++) {
        if (option_find((enum command_id)command, key, strlen(key)) >= 0) return true;
    }
    return false;
}

static bool unknown_refuse(const struct config *config, const char *key) {
    const char *near = option_nearest(config->options->command, key);
    if (!near) return refuse(config, "unknown option '%s'", app_short(key).text);
    return refuse(config, "unknown option '%s'; did you mean '%s'?", app_short(key).text, near);
}

// A value is checked even where the command line or the environment overrides it.
static bool beaten_check(const struct config *config, enum option_id id, const char *name,
                         const char *text) {
    struct option_value *value = &config->options->value[id];
    const struct option_value kept = *value;
    *value = (struct option_value){0};
    const bool ok = option_set(config->options, id, ORIGIN_CONFIG, name, text);
    free(value->list);
    *value = kept;
    return ok;
}

static bool value_take(const struct config *config, enum option_id id, const char *key,
                       const char *text) {
    struct option_value *value = &config->options->value[id];
    struct option_row row;
    const bool is_list =
        option_row_get(config->options->command, id, &row) && row.kind == OPTION_LIST;
    char name[NAME_SIZE];
    if (id == OPT_CONFIG) return refuse(config, "%s: cannot be given in such a file", key);
    if (!*text) return refuse(config, "%s: has no value", key);
    if (value->origin == ORIGIN_CONFIG && !is_list)
        return refuse(config, "%s: is given on line %d already", key, value->line);
    snprintf(name, sizeof name, "%s:%d: %s", err_path(config->path), config->line, key);
    if (value->origin > ORIGIN_CONFIG) return beaten_check(config, id, name, text);
    value->line = config->line;
    return option_set(config->options, id, ORIGIN_CONFIG, name, text);
}

static bool line_take(const struct config *config, char *line) {
    char *key = trimmed(line);
    if (!*key || *key == '#') return true;
    char *equals = strchr(key, '=');
    if (!equals) return refuse(config, "'%s': expected NAME = VALUE", app_short(key).text);
    *equals = '\0';
    key = trimmed(key);
    const int id = option_find(config->options->command, key, strlen(key));
    if (id >= 0) return value_take(config, (enum option_id)id, key, trimmed(equals + 1));
    return is_known(key) || unknown_refuse(config, key);
}

bool config_apply(struct options *options, const char *path) {
    struct config config = {.options = options, .path = path};
    struct text file;
    if (text_read(path, CONFIG_LIMIT, &file)) return false;
    options->config = file.data;
    if (strlen(file.data) != file.len) {
        app_fail(APP_USAGE, "%s: holds a NUL byte, so it is not a text file", err_path(path));
        return false;
    }
    char *rest = file.data;
    while (rest) {
        char *line = strsep(&rest, "\n");
        config.line++;
        if (!line_take(&config, line)) return false;
    }
    return true;
}

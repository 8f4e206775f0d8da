// Options from a file: lines of `name = value`. A name is that of a long option, a flag's value is
// yes or no. Empty lines and lines that start with # are ignored. Only an option that takes a list
// may be repeated. The file may serve several commands: an option of another command is ignored, a
// name that no command knows is an error. Called by options_parse after the environment.
#include "options/config.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "helpers.h"

enum { CONFIG_LIMIT = 1 << 20, NAME_SIZE = 384 };

bool config_refuse(const struct config *config, const char *fmt, ...) {
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    app_fail(APP_USAGE, "%s:%d: %s", err_path(config->path), config->line, text);
    return false;
}

char *config_trim(char *text) {
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

bool config_unknown(const struct config *config, const char *key) {
    const char *near = option_nearest(config->options->command, key);
    if (!near) return config_refuse(config, "unknown option '%s'", app_short(key).text);
    return config_refuse(config, "unknown option '%s'; did you mean '%s'?", app_short(key).text,
                         near);
}

// A value is checked even where the command line or the environment overrides it.
static bool beaten_check(const struct config *config, enum option_id id, const char *name,
                         const char *text) {
    struct option_value *value = &config->options->value[id];
    const struct option_value kept = *value;
    *value = (struct option_value){0};
    const bool ok = option_set(config->options, id, config->origin, name, text);
    free(value->list);
    option_items_free(value->items);
    *value = kept;
    return ok;
}

bool config_value_take(const struct config *config, enum option_id id, const char *key,
                       const char *text) {
    struct option_value *value = &config->options->value[id];
    struct option_row row;
    const bool is_list =
        option_row_get(config->options->command, id, &row) && row.kind == OPTION_LIST;
    char name[NAME_SIZE];
    if (id == OPT_CONFIG) return config_refuse(config, "%s: cannot be given in such a file", key);
    if (!*text) return config_refuse(config, "%s: has no value", key);
    const bool is_own = value->origin == config->origin && value->line >= config->first;
    if (is_own && !is_list)
        return config_refuse(config, "%s: is given on line %d already", key, value->line);
    snprintf(name, sizeof name, "%s:%d: %s", err_path(config->path), config->line, key);
    if (value->origin > config->origin) return beaten_check(config, id, name, text);
    if (!is_own) { // a list replaces a weaker one
        free(value->list);
        value->list = NULL;
        value->n_list = 0;
    }
    value->line = config->line;
    return option_set(config->options, id, config->origin, name, text);
}

bool config_cut(const struct config *config, char *line, char **key, char **value) {
    char *start = config_trim(line), *equals = strchr(start, '=');
    *key = *value = NULL;
    if (!*start || *start == '#') return true;
    if (!equals) return config_refuse(config, "'%s': expected NAME = VALUE", app_short(start).text);
    *equals = '\0';
    *key = config_trim(start);
    *value = config_trim(equals + 1);
    return true;
}

static bool line_take(const struct config *config, char *line) {
    char *key, *value;
    if (!config_cut(config, line, &key, &value)) return false;
    if (!key) return true;
    const int id = option_find(config->options->command, key, strlen(key));
    if (id >= 0) return config_value_take(config, (enum option_id)id, key, value);
    return is_known(key) || config_unknown(config, key);
}

bool config_read(const char *path, struct text *out) {
    if (source_read(path, CONFIG_LIMIT, out)) return false;
    if (strlen(out->data) == out->len) return true;
    app_fail(APP_USAGE, "%s: holds a NUL byte, so it is not a text file", err_path(path));
    text_free(out);
    return false;
}

bool config_apply(struct options *options, const char *path) {
    struct config config = {.options = options, .origin = ORIGIN_CONFIG, .path = path};
    struct text file;
    if (!config_read(path, &file)) return false;
    options->config = file.data;
    char *rest = file.data;
    while (rest) {
        char *line = strsep(&rest, "\n");
        config.line++;
        if (!line_take(&config, line)) return false;
    }
    return true;
}

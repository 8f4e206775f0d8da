// See models_file.h.
#include "serve/models_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "helpers.h"
#include "models/find.h"
#include "options/config.h"
#include "server/served.h"

enum { NAME_BYTES = 200 };

struct reading {
    struct config config;
    struct models_file *file;
    struct models_section *section; // NULL: before the first
};

// Options of a model: all of some groups, and three others.
static bool is_of_model(enum option_id id) {
    static const enum option_id of_group[] = {OPT_MODEL, OPT_SEED,  OPT_MAX_TOKENS,
                                              OPT_CTX,   OPT_DRAFT, OPT_MAX_SEQS};
    if (id == OPT_CHAT_TEMPLATE || id == OPT_CHAT_TEMPLATE_KWARGS || id == OPT_ALIAS ||
        id == OPT_POOLING)
        return true;
    for (size_t i = 0; i < sizeof of_group / sizeof *of_group; i++)
        if (option_group_of(id) == option_group_of(of_group[i])) return true;
    return false;
}

// Names that only one model can have.
static bool is_of_section(enum option_id id) {
    return id == OPT_MODEL || id == OPT_ALIAS || id == OPT_SYNTHETIC;
}

// ---------------------------------------------------------------- sections

// Whether a client that says one of them may mean the other.
static bool names_meet(const char *a, const char *b) {
    return served_name_means(a, b) || served_name_means(b, a);
}

bool models_section_is_named(const struct models_section *section, const char *name) {
    const struct option_value *alias = &section->options.value[OPT_ALIAS];
    bool is_named = names_meet(section->name, name);
    for (int i = 0; i < alias->n_list; i++) is_named |= names_meet(alias->list[i], name);
    return is_named;
}

static bool name_is_taken(const struct models_file *file, const struct models_section *before,
                          const char *name) {
    for (const struct models_section *at = file->section; at < before; at++)
        if (models_section_is_named(at, name)) return true;
    return false;
}

static bool section_open(struct reading *reading, char *line) {
    struct models_file *file = reading->file;
    char *end = line + strlen(line) - 1;
    if (*end != ']')
        return config_refuse(&reading->config, "'%s': expected [NAME]", app_short(line).text);
    *end = '\0';
    char *name = config_trim(line + 1);
    const size_t len = strlen(name);
    if (!len || len > NAME_BYTES || !unicode_is_valid(name, len))
        return config_refuse(&reading->config, "'%s': a name has 1 to %d bytes of UTF-8",
                             app_short(name).text, NAME_BYTES);
    if (file->n_sections == MODELS_MAX)
        return config_refuse(&reading->config, "[%s]: more than %d models", app_short(name).text,
                             MODELS_MAX);
    struct models_section *section = &file->section[file->n_sections];
    if (!options_copy(&file->common, &section->options)) return false;
    file->n_sections++;
    section->name = name;
    section->line = reading->config.line;
    // the command line's are the default model's
    section->options.value[OPT_MODEL].text = section->options.value[OPT_SYNTHETIC].text = NULL;
    section->options.value[OPT_ALIAS].n_list = 0;
    reading->section = section;
    reading->config.first = section->line;
    reading->config.options = &section->options;
    return true;
}

// Keys that are no options. *taken: it was one of them.
static bool own_take(const struct reading *reading, const char *key, const char *value,
                     bool *taken) {
    struct models_section *section = reading->section;
    *taken = true;
    if (section && !strcmp(key, "keep")) {
        section->keep = !strcmp(value, "yes");
        return section->keep || !strcmp(value, "no") ||
               config_refuse(&reading->config, "keep: '%s' is not yes or no",
                             app_short(value).text);
    }
    if (section && !strcmp(key, "idle-seconds")) {
        char *end;
        section->idle_s = strtod(value, &end);
        return (*value && !*end && section->idle_s >= 0 && section->idle_s <= 1e7) ||
               config_refuse(&reading->config, "idle-seconds: '%s' is not a number from 0 to 1e7",
                             app_short(value).text);
    }
    *taken = false;
    return true;
}

static bool line_take(struct reading *reading, char *line) {
    const struct config *config = &reading->config;
    char *key, *value, *start = config_trim(line);
    bool taken;
    if (*start == '[') return section_open(reading, start);
    if (!config_cut(config, start, &key, &value)) return false;
    if (!key) return true;
    if (!own_take(reading, key, value, &taken)) return false;
    if (taken) return true;
    const int id = option_find(COMMAND_SERVE, key, strlen(key));
    if (id < 0) return config_unknown(config, key);
    if (!is_of_model((enum option_id)id))
        return config_refuse(config, "%s: is an option of the whole server: runnel serve --%s ...",
                             key, option_flag_name((enum option_id)id));
    if (!reading->section && is_of_section((enum option_id)id))
        return config_refuse(config, "%s: belongs to a section, behind a line [NAME]", key);
    return config_value_take(config, (enum option_id)id, key, value);
}

// ---------------------------------------------------------------- the whole file

// Names are unique, and every model is there.
static bool sections_check(struct reading *reading) {
    struct models_file *file = reading->file;
    for (int i = 0; i < file->n_sections; i++) {
        struct models_section *section = &file->section[i];
        struct option_value *model = &section->options.value[OPT_MODEL];
        const struct option_value *alias = &section->options.value[OPT_ALIAS];
        const char *name = model->text ? model->text : section->name;
        reading->config.line = model->line && model->text ? model->line : section->line;
        if (!section->options.value[OPT_SYNTHETIC].text) {
            if (model_path_find(name, true, &section->path)) return false;
            if (access(section->path, F_OK) != 0)
                return config_refuse(&reading->config,
                                     "'%s' is no file, folder or model on this machine; runnel "
                                     "models lists them",
                                     app_short(name).text);
            model->text = section->path;
            if (!model->origin) model->origin = ORIGIN_MODELS;
        }
        reading->config.line = section->line;
        if (name_is_taken(file, section, section->name))
            return config_refuse(&reading->config, "[%s]: another model has this name",
                                 section->name);
        for (int j = 0; j < alias->n_list; j++)
            if (name_is_taken(file, section, alias->list[j]))
                return config_refuse(&reading->config, "[%s]: another model has the name %s",
                                     section->name, app_short(alias->list[j]).text);
    }
    return true;
}

static bool lines_take(struct reading *reading) {
    char *rest = reading->file->text.data;
    while (rest) {
        char *line = strsep(&rest, "\n");
        reading->config.line++;
        if (!line_take(reading, line)) return false;
    }
    if (reading->file->n_sections) return sections_check(reading);
    app_fail(APP_USAGE, "%s: holds no section; a model is a line [NAME] and its options",
             err_path(reading->config.path));
    return false;
}

bool models_file_read(const struct options *options, const char *path, struct models_file *out) {
    struct reading reading = {
        .config = {.options = &out->common, .origin = ORIGIN_MODELS, .path = path}, .file = out};
    *out = (struct models_file){0};
    if (!config_read(path, &out->text)) return false;
    out->section = calloc(MODELS_MAX, sizeof *out->section);
    if (!out->section) app_fail(APP_FAILED, "out of memory");
    if (out->section && options_copy(options, &out->common) && lines_take(&reading)) return true;
    models_file_free(out);
    return false;
}

void models_file_free(struct models_file *file) {
    for (int i = 0; i < file->n_sections; i++) {
        options_deinit(&file->section[i].options);
        free(file->section[i].path);
    }
    free(file->section);
    options_deinit(&file->common);
    text_free(&file->text);
    *file = (struct models_file){0};
}

// Values of options: each is checked against its row of the table. Options that the command line
// (command_line.c) leaves open are taken from the environment, then from a file (config.c), then
// from the table's defaults. Invariant: an accepted value is in its row's range.
#include "options/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "helpers.h"
#include "options/config.h"
#include "options/peers.h"

// ---------------------------------------------------------------- values

static bool refuse(const char *name, const char *text, const char *what) {
    app_fail(APP_USAGE, "%s: '%s' is not %s", name, app_short(text).text, what);
    return false;
}

static bool parse_int(const struct option_row *row, const char *name, const char *text,
                      int64_t *out) {
    char what[96];
    snprintf(what, sizeof what, "a whole number from %" PRId64 " to %" PRId64, row->int_min,
             row->int_max);
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    const bool starts_well = (text[0] >= '0' && text[0] <= '9') || text[0] == '-';
    if (!starts_well || end == text || *end || errno || value < row->int_min ||
        value > row->int_max) {
        return refuse(name, text, what);
    }
    *out = value;
    return true;
}

static bool parse_float(const struct option_row *row, const char *name, const char *text,
                        double *out) {
    char what[96];
    snprintf(what, sizeof what, "a number from %g to %g", row->float_min, row->float_max);
    char *end = NULL;
    const double value = strtod(text, &end);
    const bool decimal = text[strspn(text, "0123456789.eE+-")] == '\0' && text[0] != '+';
    if (!decimal || end == text || *end || !isfinite(value) || value < row->float_min ||
        value > row->float_max) {
        return refuse(name, text, what);
    }
    *out = value;
    return true;
}

// Without a sign: 18446744073709551615 has no place among the numbers of parse_int. Kept in its
// bits.
static bool parse_seed(const char *name, const char *text, int64_t *out) {
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno)
        return refuse(name, text, "a whole number from 0 to 18446744073709551615");
    *out = (int64_t)value;
    return true;
}

static bool parse_flag(const char *name, const char *text, bool *out) {
    static const char *const yes[] = {"1", "true", "yes", "on"};
    static const char *const no[] = {"0", "false", "no", "off"};
    for (int i = 0; i < 4; i++) {
        if (!strcmp(text, yes[i]) || !strcmp(text, no[i])) {
            *out = !strcmp(text, yes[i]);
            return true;
        }
    }
    return refuse(name, text, "yes or no");
}

static bool parse_choice(enum option_id id, const struct option_row *row, const char *name,
                         const char *text) {
    const size_t len = strlen(text);
    for (const char *word = row->choices; word; word = strchr(word, '|')) {
        word += *word == '|';
        const size_t word_len = strcspn(word, "|");
        if (len == word_len && !memcmp(word, text, len)) return true;
    }
    char what[160];
    snprintf(what, sizeof what, "one of %s%s", row->choices,
             id == OPT_KV_TYPE ? "; llama.cpp's q8_0 is int8, and its q4_0 is int4" : "");
    return refuse(name, text, what);
}

// Our word for another program's word of the same meaning.
static const char *own_word(enum option_id id, const char *text) {
    static const struct {
        enum option_id id;
        const char *theirs, *ours;
    } words[] = {
#define KV_TYPE_WORD(theirs, ours) {OPT_KV_TYPE, theirs, ours},
#include "plan/kv_words.def"
        {OPT_COLOR, "on", "always"},
        {OPT_COLOR, "off", "never"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].id == id && !strcmp(text, words[i].theirs)) return words[i].ours;
    return text;
}

// The factor of a size's suffix, 0: no such suffix. "p", pages, is for the caller.
static double suffix_factor(const char *suffix) {
    static const char letters[] = "kmgt";
    double factor = 1024;
    if (!*suffix) return 1;
    for (int i = 0; letters[i]; i++, factor *= 1024) {
        if ((*suffix | 0x20) != letters[i]) continue;
        return !suffix[1] || !strcmp(suffix + 1, "iB") ? factor : 0;
    }
    return 0;
}

// Bytes, "2G", "1.5GiB", or pages, "4096p". A part of a byte or of a page is no size.
static bool parse_size(const char *name, const char *text, bool pages_allowed, int64_t *out,
                       bool *is_pages) {
    char *suffix = NULL;
    const size_t digits = strspn(text, "0123456789");
    const size_t length = digits + (text[digits] == '.') + // strtod would take an exponent, too
                          (text[digits] == '.' ? strspn(text + digits + 1, "0123456789") : 0);
    const double number = digits ? strtod(text, &suffix) : 0;
    *is_pages = pages_allowed && digits && !strcmp(text + length, "p");
    const double factor = *is_pages ? 1 : suffix_factor(text + length);
    const double value = number * factor;
    const bool is_whole = length == digits || factor > 1;
    if (!digits || suffix != text + length || !is_whole || !(value >= 1) ||
        value >= (*is_pages ? 0x1p32 : 0x1p63))
        return refuse(name, text,
                      pages_allowed ? "a size such as 512M, 1.5G or 4096p (p: pages of 32 tokens)"
                                    : "a size such as 512K or 16M");
    *out = (int64_t)value;
    return true;
}

// Items of a list are counted from 1 in messages.
static bool list_check(const struct option_row *row, int number, const char *name,
                       const char *text) {
    const size_t len = strlen(text);
    const struct app_short shown = app_short(text);
    if (number > row->int_max) {
        app_fail(APP_USAGE, "%s: '%s' is one too many: at most %" PRId64 " are possible", name,
                 shown.text, row->int_max);
    } else if (len == 0) {
        app_fail(APP_USAGE, "%s: text %d, '', is empty", name, number);
    } else if (len > RN_MAX_STOP_BYTES) {
        app_fail(APP_USAGE, "%s: text %d, '%s', has %zu bytes; at most %d are possible", name,
                 number, shown.text, len, RN_MAX_STOP_BYTES);
    } else if (!unicode_is_valid(text, len)) {
        app_fail(APP_USAGE, "%s: text %d, '%s', is not valid UTF-8", name, number, shown.text);
    } else {
        return true;
    }
    return false;
}

static bool list_add(const struct option_row *row, struct option_value *value, const char *name,
                     const char *text) {
    if (!list_check(row, value->n_list + 1, name, text)) return false;
    const char **grown = realloc(value->list, (size_t)(value->n_list + 1) * sizeof *grown);
    if (!grown) {
        app_fail(APP_FAILED, "out of memory");
        return false;
    }
    value->list = grown;
    value->list[value->n_list++] = text;
    return true;
}

// "a, b" is two items, without the blanks around them.
static bool list_split(const struct option_row *row, struct option_value *value, const char *name,
                       const char *text) {
    struct option_items *items = malloc(sizeof *items + strlen(text) + 1);
    if (!items) {
        app_fail(APP_FAILED, "out of memory");
        return false;
    }
    strcpy(items->text, text);
    items->next = value->items;
    value->items = items;
    for (char *item = items->text, *rest; item; item = rest) {
        rest = strchr(item, ',');
        if (rest) *rest++ = '\0';
        if (!list_add(row, value, name, config_trim(item))) return false;
    }
    return true;
}

void option_items_free(struct option_items *items) {
    while (items) {
        struct option_items *next = items->next;
        free(items);
        items = next;
    }
}

bool option_set(struct options *options, enum option_id id, enum option_origin origin,
                const char *name, const char *text) {
    struct option_value *value = &options->value[id];
    struct option_row row;
    if (!option_row_get(options->command, id, &row)) return false;
    value->origin = origin;
    value->text = text;
    switch (row.kind) {
    case OPTION_STRING:
        return true;
    case OPTION_PATH:
        return *text || refuse(name, text, "a file name");
    case OPTION_SEED:
        return parse_seed(name, text, &value->integer);
    case OPTION_INT:
        return parse_int(&row, name, text, &value->integer);
    case OPTION_FLOAT:
        return parse_float(&row, name, text, &value->real);
    case OPTION_FLAG:
        return parse_flag(name, text, &value->flag);
    case OPTION_LIST:
        return (row.has_commas ? list_split : list_add)(&row, value, name, text);
    case OPTION_CHOICE:
        value->text = text = own_word(id, text);
        return parse_choice(id, &row, name, text);
    case OPTION_SIZE:
        return parse_size(name, text, id == OPT_KV_MEMORY, &value->integer, &value->flag);
    }
    return false;
}

// ---------------------------------------------------------------- environment

// A list has one item per line.
static bool environment_list(struct options *options, enum option_id id, const char *name,
                             const char *text) {
    char *lines = options->value[id].lines = strdup(text);
    if (!lines) {
        app_fail(APP_FAILED, "out of memory");
        return false;
    }
    char *rest = NULL;
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (!option_set(options, id, ORIGIN_ENVIRONMENT, name, line)) return false;
    }
    // a list without items is refused as an empty text is
    return options->value[id].n_list || option_set(options, id, ORIGIN_ENVIRONMENT, name, "");
}

// A user who sets one of these wants keys: without them the server would be open to everyone.
static bool means_keys(int id) { return id == OPT_API_KEY || id == OPT_API_KEY_FILE; }

// For options that the command line left open. An empty variable is taken as unset, but for keys.
static bool environment_apply(struct options *options) {
    for (int i = 0; i < OPT_COUNT; i++) {
        const enum option_id id = (enum option_id)i;
        struct option_row row;
        char buffer[OPTION_NAME_SIZE];
        if (!option_row_get(options->command, id, &row) || options->value[id].origin) continue;
        const char *name = option_environment(&row, buffer), *text = getenv(name);
        if (!text || (!*text && !means_keys(id))) continue;
        const bool ok = row.kind == OPTION_LIST
                            ? environment_list(options, id, name, text)
                            : option_set(options, id, ORIGIN_ENVIRONMENT, name, text);
        if (!ok) return false;
    }
    return true;
}

// ---------------------------------------------------------------- defaults

static bool initial_list(struct option_value *value, const char *item) {
    if (!item) return true;
    value->list = malloc(sizeof *value->list);
    if (!value->list) {
        app_fail(APP_FAILED, "out of memory");
        return false;
    }
    value->list[value->n_list++] = item;
    return true;
}

// For options that are still open.
static bool initials_apply(struct options *options) {
    for (int i = 0; i < OPT_COUNT; i++) {
        struct option_value *value = &options->value[i];
        struct option_row row;
        if (!option_row_get(options->command, (enum option_id)i, &row) || value->origin) continue;
        value->integer = row.initial.integer;
        value->real = row.initial.real;
        value->text = row.initial.text;
        if (row.kind == OPTION_LIST && !initial_list(value, row.initial.text)) return false;
    }
    return true;
}

bool options_parse(struct options *options, enum command_id command, int argc, char **argv) {
    *options = (struct options){.command = command};
    if (!command_line_take(options, argc, argv)) return false;
    if (options->help) return true;
    if (!environment_apply(options)) return false;
    const char *config = option_text(options, OPT_CONFIG);
    if (config && !config_apply(options, config)) return false;
    if (!initials_apply(options)) return false;
    if (!option_flag(options, OPT_QUIET)) {
        variables_check(options);
        peer_notes_print(options);
    }
    return !option_flag(options, OPT_ESCAPE) || escapes_apply(options);
}

void options_deinit(struct options *options) {
    for (int id = 0; id < OPT_COUNT; id++) {
        free(options->value[id].list);
        free(options->value[id].lines);
        free(options->value[id].unescaped);
        option_items_free(options->value[id].items);
    }
    free(options->config);
}

bool options_copy(const struct options *from, struct options *out) {
    *out = *from;
    out->config = NULL;
    bool ok = true;
    for (int id = 0; id < OPT_COUNT; id++) {
        struct option_value *value = &out->value[id];
        const size_t bytes = (size_t)value->n_list * sizeof *value->list;
        const char **list = bytes ? malloc(bytes) : NULL;
        if (list) memcpy(list, value->list, bytes);
        if (bytes && !list) value->n_list = 0;
        ok = ok && (list || !bytes);
        value->list = list;
        value->lines = NULL;
        value->items = NULL;
    }
    if (ok) return true;
    options_deinit(out);
    app_fail(APP_FAILED, "out of memory");
    return false;
}

// ---------------------------------------------------------------- reading

bool option_given(const struct options *options, enum option_id id) {
    return options->value[id].origin != ORIGIN_NONE;
}

const char *option_name(const struct options *options, enum option_id id,
                        char buffer[OPTION_NAME_SIZE]) {
    const struct option_value *value = &options->value[id];
    struct option_row row;
    if (value->origin == ORIGIN_ENVIRONMENT && option_row_get(options->command, id, &row))
        return option_environment(&row, buffer);
    if (value->origin == ORIGIN_CONFIG || value->origin == ORIGIN_MODELS) {
        const bool is_models = value->origin == ORIGIN_MODELS;
        const char *path = option_text(options, is_models ? OPT_MODELS : OPT_CONFIG);
        const char *slash = strrchr(path, '/');
        snprintf(buffer, OPTION_NAME_SIZE, "%.24s:%d: %s", slash ? slash + 1 : path, value->line,
                 option_flag_name(id));
    } else {
        snprintf(buffer, OPTION_NAME_SIZE, "--%s", option_flag_name(id));
    }
    return buffer;
}

const char *option_text(const struct options *options, enum option_id id) {
    return options->value[id].text;
}

int option_int(const struct options *options, enum option_id id) {
    return (int)options->value[id].integer;
}

double option_real(const struct options *options, enum option_id id) {
    return options->value[id].real;
}

bool option_flag(const struct options *options, enum option_id id) {
    return options->value[id].flag;
}

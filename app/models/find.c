// See find.h. A name is matched at three levels, and the best level with a match applies:
// 1. the whole name, or the whole name and the file;
// 2. the name without its owner, or the file's name;
// 3. the same without "-GGUF", or without the quantization.
// Letters are compared without case. A tag behind a colon is part of all levels.
#include "models/find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "app.h"
#include "models/advice.h"
#include "models/store.h"
#include "terminal/term.h"

enum { LEVELS = 3, SPEC = 1024, MOST_SHOWN = 20 };

struct wanted {
    const char *whole; // as given
    char name[SPEC];   // without the tag
    const char *tag;   // "": none
    bool is_any_tag;   // no tag does not mean "latest"
};

// ---------------------------------------------------------------- matching

static const char *last_part(const char *name) {
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static bool is_equal(const char *a, size_t len, const char *b) {
    return strlen(b) == len && !strncasecmp(a, b, len);
}

// Length of the text without that ending.
static size_t len_without(const char *text, const char *ending) {
    const size_t len = strlen(text), end = strlen(ending);
    return len > end && !strcasecmp(text + len - end, ending) ? len - end : len;
}

static bool file_is(const struct model_entry *entry, const char *name) {
    return *entry->file && is_equal(name, len_without(name, ".gguf"), entry->file);
}

// "NAME/FILE" or "NAME/FILE.gguf".
static bool name_and_file(const struct model_entry *entry, const char *name) {
    const size_t len = strlen(entry->name);
    return !strncasecmp(name, entry->name, len) && name[len] == '/' &&
           file_is(entry, last_part(name + len));
}

static bool names_match(const struct model_entry *entry, const char *name, int level) {
    const char *part = last_part(entry->name);
    switch (level) {
    case 0:
        return !strcasecmp(name, entry->name) || name_and_file(entry, name);
    case 1:
        return !strcasecmp(name, part) || file_is(entry, name);
    default:
        return is_equal(part, len_without(part, "-GGUF"), name) ||
               is_equal(entry->name, len_without(entry->name, "-GGUF"), name) ||
               (*entry->tag && strlen(entry->file) > strlen(entry->tag) &&
                is_equal(entry->file, strlen(entry->file) - strlen(entry->tag) - 1, name));
    }
}

// The tag of the entry, or the end of its file's name.
static bool tags_match(const struct model_entry *entry, const char *tag) {
    const size_t len = strlen(entry->file), n = strlen(tag);
    if (!n || !strcasecmp(tag, entry->tag)) return true;
    return len > n && !strcasecmp(entry->file + len - n, tag) &&
           strchr("-._", entry->file[len - n - 1]);
}

static bool is_match(const struct model_entry *entry, const struct wanted *wanted, int level) {
    return (names_match(entry, wanted->name, level) && tags_match(entry, wanted->tag)) ||
           names_match(entry, wanted->whole, level);
}

static bool is_same_file(const struct model_entry *a, const struct model_entry *b) {
    return a->inode && a->inode == b->inode && a->device == b->device;
}

// Matches of a level, each file once, in found[]. Ollama's name without a tag means its tag
// "latest", where there is one.
static int matches_get(const struct model_list *list, const struct wanted *wanted, int level,
                       const struct model_entry **found) {
    int n = 0, latest = -1;
    bool is_of_ollama = !*wanted->tag && !wanted->is_any_tag;
    for (int i = 0; i < list->n; i++) {
        const struct model_entry *entry = &list->entry[i];
        int at = 0;
        if (!is_match(entry, wanted, level)) continue;
        while (at < n && !is_same_file(entry, found[at])) at++;
        if (at == n) found[n++] = entry;
        is_of_ollama = is_of_ollama && entry->store == STORE_OLLAMA;
        if (entry->store == STORE_OLLAMA && !strcmp(entry->tag, "latest")) latest = at;
    }
    if (!is_of_ollama || latest < 0) return n;
    found[0] = found[latest];
    return 1;
}

// ---------------------------------------------------------------- messages

static void matches_say(const struct model_list *list, const struct model_entry **found, int n) {
    for (int i = 0; i < n && i < MOST_SHOWN; i++) {
        char spec[SPEC];
        model_entry_spec(list, found[i], spec, sizeof spec);
        fputs("  ", stderr);
        term_print_escaped(stderr, spec, strlen(spec), sizeof spec);
        fprintf(stderr, "  (%s) ", store_title(found[i]->store));
        term_print_escaped(stderr, found[i]->path, strlen(found[i]->path), SPEC);
        fputs("\n", stderr);
    }
    if (n > MOST_SHOWN) fprintf(stderr, "  and %d more\n", n - MOST_SHOWN);
}

static int several_fail(const struct model_list *list, const struct wanted *wanted,
                        const struct model_entry **found, int n) {
    const int code = app_fail(APP_USAGE,
                              "%s: %d models have this name; choose one by its tag, its "
                              "file or its path:",
                              app_short(wanted->whole).text, n);
    matches_say(list, found, n);
    return code;
}

static char *lower_copy(const char *text) {
    char *copy = strdup(text);
    for (char *at = copy; at && *at; at++)
        if (*at >= 'A' && *at <= 'Z') *at = (char)(*at - 'A' + 'a');
    return copy;
}

// An entry's name that the user may have meant, or NULL.
static const char *near_find(const struct model_list *list, const char *name) {
    const int n = 2 * list->n; // with and without the owner
    char **names = calloc((size_t)n + 1, sizeof *names), *typed = lower_copy(name);
    const char *found = NULL;
    bool ok = names && typed;
    for (int i = 0; ok && i < n; i++) {
        const char *whole = list->entry[i / 2].name;
        names[i] = lower_copy(i % 2 ? last_part(whole) : whole);
        ok = names[i] != NULL;
    }
    const char *near = ok ? nearest_word(typed, (const char *const *)names, n) : NULL;
    for (int i = 0; i < n && near && !found; i++)
        if (names[i] == near) found = list->entry[i / 2].name;
    for (int i = 0; i < n && names; i++) free(names[i]);
    free(names);
    free(typed);
    return found;
}

// Matches of the best level that has any.
static int best_get(const struct model_list *list, const struct wanted *wanted,
                    const struct model_entry **found) {
    int n = 0;
    for (int level = 0; level < LEVELS && n == 0; level++)
        n = matches_get(list, wanted, level, found);
    return n;
}

static int none_fail(const struct model_list *list, const struct wanted *wanted,
                     const struct model_entry **found) {
    const struct app_short shown = app_short(wanted->whole);
    struct room room;
    struct wanted untagged = *wanted;
    untagged.tag = "";
    untagged.is_any_tag = true;
    const int others = best_get(list, &untagged, found);
    const char *near = others ? NULL : near_find(list, wanted->name);
    int code;
    if (others) {
        code = app_fail(APP_USAGE,
                        "%s: the model is here, and not with the tag '%s'; there are:", shown.text,
                        app_short(wanted->tag).text);
        matches_say(list, found, others);
    } else if (near) {
        code = app_fail(APP_USAGE,
                        "%s: no such file, and no model of this name is on this "
                        "machine; did you mean '%s'?",
                        shown.text, app_short(near).text);
    } else {
        code = app_fail(APP_USAGE,
                        "%s: no such file, and no model of this name is on this machine "
                        "('runnel models' lists them)",
                        shown.text);
    }
    const struct advice_wanted missing = {wanted->whole, wanted->name, wanted->tag};
    if (!near && !room_get(&room, NULL)) advice_missing(stderr, &room, &missing);
    return code;
}

// ---------------------------------------------------------------- the call

static bool looks_like_path(const char *name) {
    const size_t len = strlen(name);
    return !*name || *name == '/' || *name == '.' || *name == '~' || name[len - 1] == '/' ||
           len >= SPEC;
}

// The tag is behind the last colon of the last part.
static void wanted_read(const char *name, struct wanted *out) {
    const char *colon = strrchr(name, ':');
    const bool has_tag = colon && colon > name && !strchr(colon, '/');
    out->whole = name;
    out->is_any_tag = false;
    out->tag = has_tag ? colon + 1 : "";
    snprintf(out->name, sizeof out->name, "%.*s",
             (int)(has_tag ? (size_t)(colon - name) : strlen(name)), name);
}

static int copy(const char *text, char **out) {
    *out = strdup(text);
    return *out ? APP_OK : app_fail(APP_FAILED, "out of memory");
}

static int list_find(const struct model_list *list, const struct wanted *wanted, bool is_optional,
                     const struct model_entry **found, char **path) {
    const int n = best_get(list, wanted, found);
    if (n > 1) return several_fail(list, wanted, found, n);
    if (n == 1 && found[0]->problem)
        return app_fail(APP_USAGE, "%s: %s", app_short(wanted->whole).text, found[0]->problem);
    if (n == 1) return copy(found[0]->path, path);
    // a file's name has the message of a file
    if (is_optional || len_without(wanted->whole, ".gguf") < strlen(wanted->whole))
        return copy(wanted->whole, path);
    return none_fail(list, wanted, found);
}

int model_path_find(const char *name, bool is_optional, char **path) {
    struct model_list list;
    struct wanted wanted;
    *path = NULL;
    if (access(name, F_OK) == 0 || looks_like_path(name)) return copy(name, path);
    wanted_read(name, &wanted);
    const bool ok = stores_read(&list);
    const struct model_entry **found = calloc((size_t)list.n + 1, sizeof *found);
    const int code = ok && found ? list_find(&list, &wanted, is_optional, found, path)
                                 : app_fail(APP_FAILED, "out of memory");
    free(found);
    model_list_free(&list);
    return code;
}

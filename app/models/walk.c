// See store.h: models in plain folders, and in the snapshots of a hub cache. A split file is one
// entry. Folders are read within a budget, because links may make a small tree endless.
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/store.h"

struct folder {
    const struct walk *walk;
    const struct folder *parent; // NULL: of the root
    dev_t device;
    ino_t inode;
    const char *path;
    const char *below; // its path below the root; "": the root
    int first;         // entry of the walk
    bool has_config;
    uint64_t weight_bytes;       // of safetensors
    int n_weights;               // such files
    int n_gguf;                  // GGUF files of models in it, and not in folders below it
    char problem[PATH_MAX + 64]; // of a file in it that safetensors models need; "": none
};

bool path_is_inside(const char *path, const char *inside, char *to) {
    const size_t len = strlen(inside);
    if (!realpath(path, to)) {
        *to = '\0';
        return false;
    }
    return !strncmp(to, inside, len) && (to[len] == '/' || !to[len]);
}

static bool ends_with(const char *name, const char *end) {
    const size_t len = strlen(name), end_len = strlen(end);
    return len > end_len && !strcasecmp(name + len - end_len, end);
}

// The eyes of a model are in a file of their own, which is no model.
static bool is_projector(const char *stem) {
    for (; *stem; stem++)
        if (!strncasecmp(stem, "mmproj", 6)) return true;
    return false;
}

static int number_of(const char *digits, int count) {
    int value = 0;
    for (int i = 0; i < count; i++) {
        if (digits[i] < '0' || digits[i] > '9') return -1;
        value = 10 * value + digits[i] - '0';
    }
    return value;
}

// Takes "-00001-of-00003" off the stem; false: the file is not a part of one.
static bool part_read(char *stem, int *part, int *parts) {
    enum { SUFFIX = 15 };
    const size_t len = strlen(stem);
    if (len <= SUFFIX) return false;
    char *suffix = stem + len - SUFFIX;
    *part = number_of(suffix + 1, 5);
    *parts = number_of(suffix + 10, 5);
    if (*suffix != '-' || strncasecmp(suffix + 6, "-of-", 4) != 0 || *part < 1 || *parts < *part)
        return false;
    *suffix = '\0';
    return true;
}

// ---------------------------------------------------------------- entries

// The model's name where the walk gives none: the folders, else the file's name without its tag.
static void name_make(const struct folder *folder, const char *stem, const char *tag, char *out,
                      size_t size) {
    if (folder->walk->name) {
        snprintf(out, size, "%s", folder->walk->name);
    } else if (*folder->below) {
        snprintf(out, size, "%s", folder->below);
    } else {
        const size_t cut = *tag ? strlen(tag) + 1 : 0, len = strlen(stem);
        snprintf(out, size, "%.*s", (int)(len - cut), stem);
    }
}

static struct model_entry *split_find(struct model_list *list, const struct folder *folder,
                                      const char *stem, int parts) {
    const size_t len = strlen(folder->path);
    for (int i = folder->first; i < list->n; i++) {
        struct model_entry *entry = &list->entry[i];
        if (entry->parts == parts && !strcmp(entry->file, stem) &&
            !strncmp(entry->path, folder->path, len) && !strchr(entry->path + len + 1, '/'))
            return entry;
    }
    return NULL;
}

// The reason why a file cannot be used, "": none. info is what it leads to.
static void file_check(const struct walk *walk, const char *path, const struct stat *info,
                       char *out, size_t size) {
    char to[PATH_MAX];
    *out = '\0';
    if (!info) {
        ssize_t len = readlink(path, to, sizeof to - 1);
        to[len > 0 ? len : 0] = '\0';
        snprintf(out, size, "%.600s: links to %.300s, which is missing", path, to);
    } else if (!S_ISREG(info->st_mode)) {
        snprintf(out, size, "%.600s: is not a file", path);
    } else if (walk->inside && !path_is_inside(path, walk->inside, to)) {
        snprintf(out, size, "%.400s: links to %.300s, which is outside of the store %.200s", path,
                 to, walk->inside);
    }
}

static void gguf_add(struct model_list *list, struct folder *folder, const char *file,
                     const char *path, const struct stat *info) {
    char stem[NAME_MAX + 1], tag[MODEL_TAG], name[PATH_MAX], problem[1200];
    int part = 1, parts = 0;
    snprintf(stem, sizeof stem, "%s", file);
    stem[strlen(stem) - 5] = '\0';
    if (is_projector(stem)) return;
    folder->n_gguf++;
    if (!part_read(stem, &part, &parts)) parts = 0;
    model_tag_read(stem, tag);
    name_make(folder, stem, tag, name, sizeof name);
    struct model_entry *entry = parts ? split_find(list, folder, stem, parts) : NULL;
    if (!entry) entry = model_list_add(list, folder->walk->store, name, tag, stem, path);
    if (!entry) return;
    entry->parts = parts;
    entry->n_parts++;
    entry->bytes += info ? (uint64_t)info->st_size : 0;
    if (part == 1 && info) {
        model_text_set(list, &entry->path, path);
        entry->device = info->st_dev;
        entry->inode = info->st_ino;
    }
    file_check(folder->walk, path, info, problem, sizeof problem);
    if (*problem) model_problem(list, entry, "%s", problem);
}

static void folder_add(struct model_list *list, const struct folder *folder, bool has_gguf) {
    char name[PATH_MAX];
    const char *slash = strrchr(folder->path, '/');
    struct stat info;
    const bool is_asked = folder->walk->name && !*folder->below; // a repository of that name
    if (!folder->has_config || has_gguf || (!folder->n_weights && !is_asked)) return;
    name_make(folder, slash ? slash + 1 : folder->path, "", name, sizeof name);
    if (folder->walk->name && *folder->below)
        snprintf(name, sizeof name, "%.2000s/%.2000s", folder->walk->name, folder->below);
    struct model_entry *entry =
        model_list_add(list, folder->walk->store, name, "", "", folder->path);
    if (!entry) return;
    entry->is_folder = true;
    entry->bytes = folder->weight_bytes;
    if (stat(folder->path, &info) == 0) {
        entry->device = info.st_dev;
        entry->inode = info.st_ino;
    }
    if (*folder->problem) model_problem(list, entry, "%s", folder->problem);
    if (!folder->n_weights)
        model_problem(list, entry, "%s has config.json, and no weights as safetensors or GGUF",
                      folder->path);
}

// ---------------------------------------------------------------- folders

static void folder_read(struct model_list *list, struct folder *folder, int depth);

// A link to a folder that it is in.
static bool is_loop(const struct folder *folder, const struct stat *info) {
    for (; folder; folder = folder->parent)
        if (folder->device == info->st_dev && folder->inode == info->st_ino) return true;
    return false;
}

static void folder_enter(struct model_list *list, const struct folder *parent, const char *path,
                         const char *file, const struct stat *info, int depth) {
    char below[PATH_MAX], to[PATH_MAX];
    const char *inside = parent->walk->inside;
    if (depth == 0 || is_loop(parent, info) || (inside && !path_is_inside(path, inside, to)))
        return;
    snprintf(below, sizeof below, "%s%s%s", parent->below, *parent->below ? "/" : "", file);
    struct folder folder = {.walk = parent->walk,
                            .parent = parent,
                            .device = info->st_dev,
                            .inode = info->st_ino,
                            .path = path,
                            .below = below,
                            .first = parent->first};
    folder_read(list, &folder, depth - 1);
}

// Whether a safetensors model may read the file. A README may be missing.
static bool is_needed(const char *file) {
    static const char *const ends[] = {".json", ".safetensors", ".jinja", ".model", ".txt"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(file, ends[i])) return true;
    return false;
}

static void name_read(struct model_list *list, struct folder *folder, const char *file, int depth) {
    char path[PATH_MAX];
    struct stat found, *info = &found;
    if (snprintf(path, sizeof path, "%s/%s", folder->path, file) >= (int)sizeof path) return;
    if (stat(path, &found) != 0) info = NULL;
    if (info && S_ISDIR(info->st_mode)) {
        folder_enter(list, folder, path, file, info, depth);
        return;
    }
    if (ends_with(file, ".gguf")) {
        gguf_add(list, folder, file, path, info);
        return;
    }
    if (!*folder->problem && is_needed(file))
        file_check(folder->walk, path, info, folder->problem, sizeof folder->problem);
    if (!strcmp(file, "config.json")) folder->has_config = true;
    if (ends_with(file, ".safetensors")) {
        folder->n_weights++;
        folder->weight_bytes += info ? (uint64_t)info->st_size : 0;
    }
}

static void folder_read(struct model_list *list, struct folder *folder, int depth) {
    const int before = list->n;
    DIR *dir = opendir(folder->path);
    if (!dir) return;
    for (const struct dirent *name; (name = readdir(dir)) && !list->is_no_memory;) {
        if (name->d_name[0] == '.') continue;
        if (list->budget-- <= 0) {
            list->is_cut = true;
            break;
        }
        name_read(list, folder, name->d_name, depth);
    }
    closedir(dir);
    // a folder without weights may have its models in folders below it
    folder_add(list, folder, folder->n_gguf || (!folder->n_weights && list->n > before));
}

void walk_folder(struct model_list *list, const struct walk *walk) {
    const int first = list->n;
    struct stat info;
    if (stat(walk->root, &info) != 0) return;
    struct folder root = {.walk = walk,
                          .device = info.st_dev,
                          .inode = info.st_ino,
                          .path = walk->root,
                          .below = "",
                          .first = first};
    folder_read(list, &root, walk->depth);
    for (int i = first; i < list->n; i++) {
        struct model_entry *entry = &list->entry[i];
        if (entry->n_parts < entry->parts)
            model_problem(list, entry, "%s: %d of its %d parts are missing", entry->path,
                          entry->parts - entry->n_parts, entry->parts);
    }
}

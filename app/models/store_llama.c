// See store.h: llama.cpp's own cache. A file FILE of the repository ORG/NAME is ORG_NAME_FILE, in
// one flat folder; manifest=ORG=NAME=TAG.json says which file a tag means. Newer versions keep
// repositories as Hugging Face's cache does, in the folder of LLAMA_CACHE where that is set.
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "models/store.h"
#include "models/text_file.h"

enum { LARGEST_MANIFEST = 1 << 20 };

// "manifest=ORG=NAME=TAG.json" in its parts; false: another file.
static bool manifest_name(const char *file, char *name, char *tag, size_t size) {
    static const char prefix[] = "manifest=", ending[] = ".json";
    const size_t len = strlen(file), begin = sizeof prefix - 1, end = sizeof ending - 1;
    if (len <= begin + end || strncmp(file, prefix, begin) != 0 ||
        strcmp(file + len - end, ending) != 0)
        return false;
    snprintf(name, size, "%.*s", (int)(len - begin - end), file + begin);
    char *first = strchr(name, '='), *last = strrchr(name, '=');
    if (!first || first == last) return false;
    snprintf(tag, size, "%s", last + 1);
    *last = '\0';
    *first = '/';
    return true;
}

// The entry of the flat file, whose entries start at first.
static struct model_entry *flat_find(struct model_list *list, int first, const char *file) {
    for (int i = first; i < list->n; i++) {
        const char *slash = strrchr(list->entry[i].path, '/');
        if (slash && !strcmp(slash + 1, file)) return &list->entry[i];
    }
    return NULL;
}

static void manifest_read(struct model_list *list, int first, const char *path, const char *name,
                          const char *tag) {
    char problem[300], flat[PATH_MAX];
    json_t *object = text_file_object(path, LARGEST_MANIFEST, problem, sizeof problem);
    const char *file =
        json_string_value(json_object_get(json_object_get(object, "ggufFile"), "rfilename"));
    if (!file) {
        model_problem(list, model_list_add(list, STORE_LLAMA, name, tag, NULL, path), "%s: %s",
                      path, object ? "names no file: ggufFile.rfilename is missing" : problem);
        json_decref(object);
        return;
    }
    snprintf(flat, sizeof flat, "%.250s_%.2000s", name, file);
    for (char *at = flat; *at; at++)
        if (*at == '/') *at = '_';
    struct model_entry *entry = flat_find(list, first, flat);
    if (entry) {
        model_text_set(list, &entry->name, name);
        if (!*entry->tag && strcmp(tag, "latest") != 0) model_text_set(list, &entry->tag, tag);
    } else {
        model_problem(list, model_list_add(list, STORE_LLAMA, name, tag, NULL, path),
                      "%s: names the file %.300s, which is missing", path, flat);
    }
    json_decref(object);
}

void store_llama_read(struct model_list *list, const char *root) {
    char path[PATH_MAX], name[NAME_MAX + 1], tag[NAME_MAX + 1], inside[PATH_MAX];
    const int first = list->n;
    if (!realpath(root, inside)) return;
    const struct walk files = {.store = STORE_LLAMA, .root = root, .inside = inside};
    walk_folder(list, &files);
    DIR *dir = opendir(root);
    for (const struct dirent *at; dir && (at = readdir(dir)) && !list->is_no_memory;) {
        if (manifest_name(at->d_name, name, tag, sizeof name) &&
            snprintf(path, sizeof path, "%s/%s", root, at->d_name) < (int)sizeof path)
            manifest_read(list, first, path, name, tag);
    }
    if (dir) closedir(dir);
    store_hub_read(list, STORE_LLAMA, root);
}

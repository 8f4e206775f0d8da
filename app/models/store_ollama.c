// See store.h: Ollama's store. manifests/HOST/NAMESPACE/MODEL/TAG is JSON with layers; the layer of
// the weights is a GGUF file, blobs/sha256-DIGEST. Templates and parameters of other layers are in
// formats of Ollama's own and are not read.
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/store.h"
#include "models/text_file.h"

enum { LARGEST_MANIFEST = 1 << 20, LEVELS = 4, DIGEST = 64 };
#define LAYER "application/vnd.ollama.image."

struct store {
    struct model_list *list;
    const char *root;
    char inside[PATH_MAX];
    char part[LEVELS][NAME_MAX + 1]; // host, namespace, model, tag
};

// "llama3.2", "user/model" or "hf.co/user/model", as Ollama's own commands take it.
static void name_make(const struct store *store, char *out, size_t size) {
    const bool is_usual_host = !strcmp(store->part[0], "registry.ollama.ai");
    const bool is_library = is_usual_host && !strcmp(store->part[1], "library");
    snprintf(out, size, "%s%s%s%s%s", is_usual_host ? "" : store->part[0], is_usual_host ? "" : "/",
             is_library ? "" : store->part[1], is_library ? "" : "/", store->part[2]);
}

// A digest of 64 hexadecimal digits, or NULL: it becomes a part of a path.
static const char *digest_of(const json_t *layer) {
    const char *text = json_string_value(json_object_get(layer, "digest"));
    if (!text || (strncmp(text, "sha256:", 7) != 0 && strncmp(text, "sha256-", 7) != 0))
        return NULL;
    return strlen(text + 7) == DIGEST && strspn(text + 7, "0123456789abcdef") == DIGEST ? text + 7
                                                                                        : NULL;
}

static void blob_check(const struct store *store, struct model_entry *entry, const json_t *layer,
                       const char *digest) {
    char path[PATH_MAX], to[PATH_MAX];
    struct stat info = {0};
    const json_t *size = json_object_get(layer, "size");
    // before version 0.1.32 there was a colon
    for (int i = 0; i < 2; i++) {
        const int len =
            snprintf(path, sizeof path, "%s/blobs/sha256%c%s", store->root, i ? ':' : '-', digest);
        if (len >= (int)sizeof path) {
            model_problem(store->list, entry, "the path of blobs/sha256-%s has more than %d bytes",
                          digest, PATH_MAX - 1);
            return;
        }
        if (stat(path, &info) == 0) break;
        if (i == 1) {
            model_problem(store->list, entry,
                          "%s/blobs/sha256-%s is missing; 'ollama pull %s:%s' "
                          "brings it back",
                          store->root, digest, entry->name, entry->tag);
            return;
        }
    }
    model_text_set(store->list, &entry->path, path);
    entry->bytes = (uint64_t)info.st_size;
    entry->device = info.st_dev;
    entry->inode = info.st_ino;
    if (!path_is_inside(path, store->inside, to))
        model_problem(store->list, entry, "%s: links to %.300s, which is outside of the store %s",
                      path, to, store->inside);
    else if (!S_ISREG(info.st_mode))
        model_problem(store->list, entry, "%s: is not a file", path);
    else if (json_is_integer(size) && json_integer_value(size) != (json_int_t)info.st_size)
        model_problem(store->list, entry, "%s: has %lld bytes, and the manifest says %lld", path,
                      (long long)info.st_size, (long long)json_integer_value(size));
}

static bool is_layer(const json_t *layer, const char *kind) {
    const char *type = json_string_value(json_object_get(layer, "mediaType"));
    const size_t len = sizeof LAYER - 1;
    return type && !strncmp(type, LAYER, len) && !strncmp(type + len, kind, strlen(kind)) &&
           (!type[len + strlen(kind)] || type[len + strlen(kind)] == ';');
}

static void layers_read(const struct store *store, struct model_entry *entry, const char *path,
                        const json_t *layers) {
    const json_t *found = NULL;
    bool has_adapter = false;
    int n = 0;
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *layer = json_array_get(layers, i);
        has_adapter = has_adapter || is_layer(layer, "adapter");
        if (!is_layer(layer, "model")) continue;
        found = layer;
        n++;
    }
    if (n != 1) {
        model_problem(store->list, entry, "%s: has %d layers of type " LAYER "model, expected 1",
                      path, n);
    } else if (!digest_of(found)) {
        const char *text = json_string_value(json_object_get(found, "digest"));
        model_problem(store->list, entry, "%s: '%.100s' is not a digest", path, text ? text : "");
    } else {
        blob_check(store, entry, found, digest_of(found));
        if (has_adapter)
            model_problem(store->list, entry, "%s: has an adapter (LoRA), which is not supported",
                          path);
    }
}

static void manifest_read(const struct store *store, const char *path) {
    char name[3 * NAME_MAX + 4], problem[300];
    name_make(store, name, sizeof name);
    struct model_entry *entry =
        model_list_add(store->list, STORE_OLLAMA, name, store->part[LEVELS - 1], NULL, path);
    if (!entry) return;
    json_t *object = text_file_object(path, LARGEST_MANIFEST, problem, sizeof problem);
    if (object)
        layers_read(store, entry, path, json_object_get(object, "layers"));
    else
        model_problem(store->list, entry, "%s: %s", path, problem);
    json_decref(object);
}

// The manifests are LEVELS folders deep.
static void level_read(struct store *store, const char *folder, int level) {
    char path[PATH_MAX], to[PATH_MAX];
    DIR *dir = opendir(folder);
    for (const struct dirent *at; dir && (at = readdir(dir)) && !store->list->is_no_memory;) {
        if (at->d_name[0] == '.') continue;
        if (store->list->budget-- <= 0) {
            store->list->is_cut = true;
            break;
        }
        snprintf(store->part[level], sizeof store->part[level], "%s", at->d_name);
        if (snprintf(path, sizeof path, "%s/%s", folder, at->d_name) >= (int)sizeof path) continue;
        if (level < LEVELS - 1) {
            if (path_is_inside(path, store->inside, to)) level_read(store, path, level + 1);
        } else {
            manifest_read(store, path);
        }
    }
    if (dir) closedir(dir);
}

void store_ollama_read(struct model_list *list, const char *root) {
    struct store *store = calloc(1, sizeof *store);
    char manifests[PATH_MAX];
    if (!store) {
        list->is_no_memory = true;
        return;
    }
    store->list = list;
    store->root = root;
    if (realpath(root, store->inside) &&
        snprintf(manifests, sizeof manifests, "%s/manifests", root) < (int)sizeof manifests)
        level_read(store, manifests, 0);
    free(store);
}

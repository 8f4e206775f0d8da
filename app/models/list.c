// See store.h: the list of models, the names of its entries, and the folders of all stores.
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/store.h"
#include "models/text_file.h"

enum { NAMES_READ = 100000, LARGEST_SETTINGS = 1 << 20 };

static const struct {
    const char *title, *key;
} stores[STORE_COUNT] = {
    [STORE_OWN] = {"RUNNEL_MODELS", "own"},       [STORE_HUB] = {"Hugging Face", "huggingface"},
    [STORE_LLAMA] = {"llama.cpp", "llama.cpp"},   [STORE_OLLAMA] = {"Ollama", "ollama"},
    [STORE_LMSTUDIO] = {"LM Studio", "lmstudio"},
};

const char *store_title(enum store_id id) { return stores[id].title; }
const char *store_key(enum store_id id) { return stores[id].key; }

// ---------------------------------------------------------------- entries

void model_text_set(struct model_list *list, char **to, const char *text) {
    free(*to);
    *to = strdup(text ? text : "");
    if (!*to) list->is_no_memory = true;
}

static void entry_free(struct model_entry *entry) {
    free(entry->name);
    free(entry->tag);
    free(entry->file);
    free(entry->path);
    free(entry->problem);
}

struct model_entry *model_list_add(struct model_list *list, enum store_id store, const char *name,
                                   const char *tag, const char *file, const char *path) {
    if (list->n == list->cap) {
        const int cap = list->cap ? 2 * list->cap : 64;
        struct model_entry *bigger = realloc(list->entry, (size_t)cap * sizeof *bigger);
        if (!bigger) {
            list->is_no_memory = true;
            return NULL;
        }
        list->entry = bigger;
        list->cap = cap;
    }
    struct model_entry entry = {.store = store};
    model_text_set(list, &entry.name, name);
    model_text_set(list, &entry.tag, tag);
    model_text_set(list, &entry.file, file);
    model_text_set(list, &entry.path, path);
    if (!entry.name || !entry.tag || !entry.file || !entry.path) {
        entry_free(&entry);
        return NULL;
    }
    list->entry[list->n] = entry;
    return &list->entry[list->n++];
}

void model_problem(struct model_list *list, struct model_entry *entry, const char *fmt, ...) {
    char text[1024];
    va_list args;
    if (!entry || entry->problem) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    model_text_set(list, &entry->problem, text);
}

void model_list_free(struct model_list *list) {
    for (int i = 0; i < list->n; i++) entry_free(&list->entry[i]);
    free(list->entry);
    *list = (struct model_list){0};
}

static int entries_compare(const void *left, const void *right) {
    const struct model_entry *a = left, *b = right;
    int order = (int)a->store - (int)b->store;
    if (!order) order = strcasecmp(a->name, b->name);
    if (!order) order = strcmp(a->tag, b->tag);
    if (!order) order = strcmp(a->file, b->file);
    return order ? order : strcmp(a->path, b->path);
}

// ---------------------------------------------------------------- names

static char ascii_upper(char c) { return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether a word in capitals names a format of weights.
static bool is_format(const char *word) {
    static const char *const whole[] = {"F16", "F32", "BF16", "FP16", "FP32", "FP8", "BF32"};
    static const char *const begun[] = {"Q", "IQ", "TQ", "MXFP", "NVFP"}; // and a digit
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (!strcmp(word, whole[i])) return true;
    for (size_t i = 0; i < sizeof begun / sizeof *begun; i++) {
        const size_t len = strlen(begun[i]);
        if (!strncmp(word, begun[i], len) && is_digit(word[len])) return true;
    }
    return false;
}

void model_tag_read(const char *stem, char out[MODEL_TAG]) {
    const size_t len = strlen(stem);
    size_t begin = len, n;
    *out = '\0';
    while (begin && stem[begin - 1] != '-' && stem[begin - 1] != '.') begin--;
    n = len - begin;
    if (!begin || !n || n + 3 >= MODEL_TAG) return;
    for (size_t i = 0; i < n; i++) out[i] = ascii_upper(stem[begin + i]);
    out[n] = '\0';
    if (!is_format(out)) {
        *out = '\0';
        return;
    }
    // a format of Unsloth's: the same name with UD- is another file
    if (begin < 4 || strncasecmp(stem + begin - 4, "-UD-", 4) != 0) return;
    memmove(out + 3, out, n + 1);
    memcpy(out, "UD-", 3);
}

static bool is_same_spec(const struct model_entry *a, const struct model_entry *b) {
    return a != b && a->store == b->store && !strcasecmp(a->name, b->name) &&
           !strcasecmp(a->tag, b->tag);
}

void model_entry_spec(const struct model_list *list, const struct model_entry *entry, char *out,
                      size_t size) {
    bool is_alone = true;
    for (int i = 0; i < list->n && is_alone; i++) is_alone = !is_same_spec(entry, &list->entry[i]);
    if (is_alone || !*entry->file)
        snprintf(out, size, "%s%s%s", entry->name, *entry->tag ? ":" : "", entry->tag);
    else
        snprintf(out, size, "%s/%s.gguf", entry->name, entry->file);
}

// ---------------------------------------------------------------- folders of the stores

static const char *environment(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

// The same folder is not read twice, whatever leads to it.
static bool root_add(struct store_roots *roots, enum store_id store, const char *path) {
    char *real = realpath(path, NULL);
    for (int i = 0; i < roots->n; i++) {
        char *other = realpath(roots->root[i].path, NULL);
        const bool is_same =
            roots->root[i].store == store &&
            (real && other ? !strcmp(real, other) : !strcmp(path, roots->root[i].path));
        free(other);
        if (is_same) {
            free(real);
            return true;
        }
    }
    struct stat info;
    if (roots->n == STORE_ROOTS) {
        free(real);
        return true;
    }
    roots->root[roots->n] =
        (struct store_root){.store = store,
                            .path = strdup(path),
                            .is_there = real && stat(real, &info) == 0 && S_ISDIR(info.st_mode)};
    free(real);
    return roots->root[roots->n++].path != NULL;
}

// root/below, where root is a value of the environment or the home folder; nothing where it is
// NULL or too long.
static bool root_add_below(struct store_roots *roots, enum store_id store, const char *root,
                           const char *below) {
    char path[PATH_MAX];
    if (!root) return true;
    const int len = snprintf(path, sizeof path, "%s%s%s", root, *below ? "/" : "", below);
    return len >= (int)sizeof path || root_add(roots, store, path);
}

static bool own_roots(struct store_roots *roots) {
    const char *at = environment("RUNNEL_MODELS");
    while (at) {
        const size_t len = strcspn(at, ":");
        char path[PATH_MAX];
        if (len && len < sizeof path) {
            memcpy(path, at, len);
            path[len] = '\0';
            if (!root_add(roots, STORE_OWN, path)) return false;
        }
        at = at[len] ? at + len + 1 : NULL;
    }
    return true;
}

// The caches' folder: XDG's, else ~/.cache.
static bool cache_root(struct store_roots *roots, enum store_id store, const char *below) {
    const char *xdg = environment("XDG_CACHE_HOME");
    char path[PATH_MAX];
    if (xdg) return root_add_below(roots, store, xdg, below);
    snprintf(path, sizeof path, ".cache/%s", below);
    return root_add_below(roots, store, environment("HOME"), path);
}

static bool hub_roots(struct store_roots *roots) {
    const char *cache = environment("HF_HUB_CACHE"), *home = environment("HF_HOME");
    if (!cache) cache = environment("HUGGINGFACE_HUB_CACHE");
    if (cache) return root_add(roots, STORE_HUB, cache);
    if (home) return root_add_below(roots, STORE_HUB, home, "hub");
    return cache_root(roots, STORE_HUB, "huggingface/hub");
}

static bool llama_roots(struct store_roots *roots) {
    const char *cache = environment("LLAMA_CACHE");
    return cache ? root_add(roots, STORE_LLAMA, cache)
                 : cache_root(roots, STORE_LLAMA, "llama.cpp");
}

// The last one is that of the service that Ollama's installer makes on Linux.
static bool ollama_roots(struct store_roots *roots) {
    const char *models = environment("OLLAMA_MODELS");
    if (models) return root_add(roots, STORE_OLLAMA, models);
    return root_add_below(roots, STORE_OLLAMA, environment("HOME"), ".ollama/models") &&
           root_add(roots, STORE_OLLAMA, "/usr/share/ollama/.ollama/models");
}

// LM Studio's folder is in a file where the user moved it; its settings may move the models.
static bool lmstudio_roots(struct store_roots *roots) {
    const char *home = environment("HOME");
    char path[PATH_MAX], folder[PATH_MAX - 32] = "", models[PATH_MAX];
    if (!home) return true;
    if (snprintf(path, sizeof path, "%s/.lmstudio-home-pointer", home) < (int)sizeof path)
        text_file_line(path, folder, sizeof folder);
    if (*folder != '/') snprintf(folder, sizeof folder, "%.4000s/.lmstudio", home);
    snprintf(path, sizeof path, "%s/settings.json", folder);
    text_file_member(path, LARGEST_SETTINGS, "downloadsFolder", models, sizeof models);
    if (*models == '/' && !root_add(roots, STORE_LMSTUDIO, models)) return false;
    return root_add_below(roots, STORE_LMSTUDIO, folder, "models") &&
           root_add_below(roots, STORE_LMSTUDIO, home, ".lmstudio/models") &&
           root_add_below(roots, STORE_LMSTUDIO, home, ".cache/lm-studio/models");
}

bool store_roots_get(struct store_roots *out) {
    *out = (struct store_roots){0};
    return own_roots(out) && hub_roots(out) && llama_roots(out) && ollama_roots(out) &&
           lmstudio_roots(out);
}

void store_roots_free(struct store_roots *roots) {
    for (int i = 0; i < roots->n; i++) free(roots->root[i].path);
    *roots = (struct store_roots){0};
}

// ---------------------------------------------------------------- all stores

static void root_read(struct model_list *list, const struct store_root *root) {
    const struct walk folders = {.store = root->store, .root = root->path, .depth = 4};
    switch (root->store) {
    case STORE_HUB:
        store_hub_read(list, STORE_HUB, root->path);
        break;
    case STORE_LLAMA:
        store_llama_read(list, root->path);
        break;
    case STORE_OLLAMA:
        store_ollama_read(list, root->path);
        break;
    default:
        walk_folder(list, &folders);
    }
}

static bool is_twin(const struct model_entry *a, const struct model_entry *b) {
    return a->inode && a->inode == b->inode && a->device == b->device &&
           !strcmp(a->name, b->name) && !strcmp(a->tag, b->tag);
}

// The cache of llama.cpp may be that of Hugging Face.
static void twins_drop(struct model_list *list) {
    int n = 0;
    for (int i = 0; i < list->n; i++) {
        bool is_known = false;
        for (int k = 0; k < n && !is_known; k++)
            is_known = is_twin(&list->entry[i], &list->entry[k]);
        if (is_known)
            entry_free(&list->entry[i]);
        else
            list->entry[n++] = list->entry[i];
    }
    list->n = n;
}

bool stores_read(struct model_list *out) {
    struct store_roots roots;
    *out = (struct model_list){.budget = NAMES_READ};
    if (!store_roots_get(&roots)) out->is_no_memory = true;
    for (int i = 0; i < roots.n && !out->is_no_memory; i++)
        if (roots.root[i].is_there) root_read(out, &roots.root[i]);
    store_roots_free(&roots);
    if (out->n) qsort(out->entry, (size_t)out->n, sizeof *out->entry, entries_compare);
    twins_drop(out);
    return !out->is_no_memory;
}

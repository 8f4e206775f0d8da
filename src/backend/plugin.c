// See plugin.h. There is no table of the files that were loaded: the system keeps one, so a file
// that is opened again is the same one. Handles are never closed. Classes are borrowed for as long
// as the process lives, and a file that is refused may have started threads when it was loaded.
#define _GNU_SOURCE 1 // dladdr1
#include "backend/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = PATH_MAX + PLUGIN_MAX_NAME + 16 };

// ---------------------------------------------------------------- folders

// A folder that was added before, or does not fit, is left out.
static void add_folder(struct plugin_folders *folders, const char *path, const char *tail) {
    char *out = folders->path[folders->n];
    const int len = snprintf(out, PATH_MAX, "%s%s", path, tail);
    if (len <= 0 || len >= PATH_MAX) return;
    for (int i = 0; i < folders->n; i++)
        if (strcmp(folders->path[i], out) == 0) return;
    folders->n++;
}

// Cuts the last part of a path off, and returns it.
static const char *cut_last(char *path) {
    char *slash = strrchr(path, '/');
    if (!slash) return path;
    *slash = '\0';
    return slash + 1;
}

// The file that holds this function, without links. A program's own name for itself may be a word
// of the command line, and a library's relative to a folder that was left: neither is trusted.
static bool own_file(char out[PATH_MAX]) {
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1((void *)plugin_folders_init, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return false;
    if (map->l_name[0]) return map->l_name[0] == '/' && realpath(map->l_name, out);
    const ssize_t len = readlink("/proc/self/exe", out, PATH_MAX);
    if (len <= 0 || len >= PATH_MAX) return false;
    out[len] = '\0';
    return out[0] == '/';
}

// The folder of plug-ins that belongs to the engine's.
static void add_subfolder(struct plugin_folders *folders, const char *own) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", own);
    if (strcmp(cut_last(path), "bin") == 0)
        add_folder(folders, path, "/lib/runnel");
    else
        add_folder(folders, own, "/runnel");
}

void plugin_folders_init(struct plugin_folders *out) {
    char path[PATH_MAX];
    struct stat info;
    out->n = 0;
    out->owner = geteuid();
    if (own_file(path)) {
        if (stat(path, &info) == 0) out->owner = info.st_uid;
        cut_last(path);
        add_folder(out, path, "");
        add_subfolder(out, path);
    }
#ifdef RUNNEL_PLUGIN_DIR
    add_folder(out, RUNNEL_PLUGIN_DIR, "");
#endif
}

// ---------------------------------------------------------------- loading

// Why the last call of dlopen or dlsym failed, without the file's name.
static const char *load_error(const char *file) {
    const char *text = dlerror();
    const size_t len = strlen(file);
    if (!text) return "the reason is unknown";
    return strncmp(text, file, len) == 0 && text[len] == ':'
               ? text + len + 1 + (text[len + 1] == ' ')
               : text;
}

// The first member that every class has and this one lacks, or NULL.
static const char *missing_member(const struct backend_class *cls) {
#define MEMBER(member)                                                                             \
    if (!cls->member) return #member;
    MEMBER(name)
    MEMBER(kv_types)
    MEMBER(kv_default)
    MEMBER(device)
    MEMBER(need)
    MEMBER(create)
    MEMBER(destroy)
    MEMBER(submit)
    MEMBER(wait)
    MEMBER(describe)
#undef MEMBER
    return NULL;
}

// name NULL: any is right.
static rn_status class_of(void *handle, const char *file, const char *name,
                          const struct backend_class **out, rn_error *err) {
    const char *shown = err_path(file), *kv_type;
    const plugin_entry entry = (plugin_entry)dlsym(handle, "runnel_backend");
    if (!entry) return err_set(err, RN_ERR_IO, "%s has no symbol runnel_backend", shown);
    const struct backend_class *cls = entry(BACKEND_CONTRACT);
    if (!cls)
        return err_set(err, RN_ERR_IO, "%s was built for another contract than %u", shown,
                       BACKEND_CONTRACT);
    const char *missing = missing_member(cls);
    if (missing) return err_set(err, RN_ERR_IO, "%s: its class has no %s", shown, missing);
    if (name ? strcmp(cls->name, name) != 0 : !plugin_is_name(cls->name))
        return err_set(err, RN_ERR_IO, "%s: its class is called '%.64s'", shown, cls->name);
    if (backend_kv_type(cls, cls->kv_default, &kv_type, NULL))
        return err_set(err, RN_ERR_IO, "%s: its default KV type '%.64s' is none of its types",
                       shown, cls->kv_default);
    *out = cls;
    return RN_OK;
}

// The folders are NULL for a file that the caller named by its path. A name is looked for in
// folders that other users may write to, such as that of a program in /tmp.
static rn_status check_file(const char *file, const struct plugin_folders *folders, rn_error *err) {
    struct stat info;
    if (stat(file, &info))
        return err_set(err, RN_ERR_IO, "%s: %s", err_path(file), strerror(errno));
    if (!S_ISREG(info.st_mode)) // opening a pipe would wait for its writer
        return err_set(err, RN_ERR_IO, "%s is not a regular file", err_path(file));
    const uid_t owner = info.st_uid;
    if (folders && owner != 0 && owner != geteuid() && owner != folders->owner)
        return err_set(err, RN_ERR_IO, "%s is not loaded: its owner is user %lu", err_path(file),
                       (unsigned long)owner);
    return RN_OK;
}

// name NULL: the file is the caller's own path.
static rn_status load(const char *file, const char *name, const struct plugin_folders *folders,
                      const struct backend_class **out, rn_error *err) {
    const rn_status status = check_file(file, name ? folders : NULL, err);
    if (status) return status;
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return err_set(err, RN_ERR_IO, "%s cannot be loaded: %s", err_path(file), load_error(file));
    return class_of(handle, file, name, out, err);
}

// A dangling link exists, and so does a file that this process may not look at.
static bool is_there(const char *file) {
    struct stat info;
    return lstat(file, &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

// ---------------------------------------------------------------- search

bool plugin_is_name(const char *text) {
    const size_t len = strlen(text);
    return len > 0 && len <= PLUGIN_MAX_NAME &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-") == len;
}

rn_status plugin_find(const char *text, const struct plugin_folders *folders,
                      const struct backend_class **out, rn_error *err) {
    char file[FILE_MAX];
    *out = NULL;
    if (strchr(text, '/')) return is_there(text) ? load(text, NULL, folders, out, err) : RN_OK;
    if (!plugin_is_name(text))
        return err_set(err, RN_ERR_ARG,
                       "'%.64s' is no name (1 to %d of a-z, 0-9, _ and -, or a path with a '/')",
                       text, PLUGIN_MAX_NAME);
    for (int i = 0; i < folders->n; i++) {
        snprintf(file, sizeof file, "%s/runnel_%s.so", folders->path[i], text);
        if (is_there(file)) return load(file, text, folders, out, err);
    }
    return RN_OK;
}

// See plugin.h. There is no table of the files that were loaded: the system keeps one, so a file
// that is opened again is the same one. Handles are never closed. Classes are borrowed for as long
// as the process lives, and a file that is refused may have started threads when it was loaded.
#define _GNU_SOURCE 1 // dladdr1
#include "backend/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILE_MAX = PATH_MAX + PLUGIN_MAX_NAME + 16,
    LOADER_BYTES = 1 << 20,   // what the system's loader takes beside a file's image
    IMAGE_HEADERS = 64,       // parts of a file that may be mapped; more are not looked at
    DRIVER_BYTES = 128 << 20, // about what a driver's library and its own libraries take
};

// The drivers that plug-ins need, by the library that each plug-in opens. A plug-in is not mapped
// where its driver is missing: its machine code would be of no use there.
static const struct driver {
    const char *plugin, *library, *title;
} drivers[] = {{"cuda", "libcuda.so.1", "NVIDIA driver"}};
enum { N_DRIVERS = sizeof drivers / sizeof *drivers };

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

// Whether the process cannot take so many bytes more. A failed dlopen does not say so itself: its
// words are those of the user's language.
static bool memory_is_short(size_t bytes) {
    void *probe = mmap(NULL, bytes + LOADER_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (probe == MAP_FAILED) return true;
    munmap(probe, bytes + LOADER_BYTES);
    return false;
}

// The addresses that a shared object takes when it is loaded; 0: it is no shared object.
static size_t image_bytes(const char *file) {
    ElfW(Ehdr) head;
    ElfW(Phdr) part[IMAGE_HEADERS];
    size_t end = 0;
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    if (pread(fd, &head, sizeof head, 0) == sizeof head &&
        memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_phentsize == sizeof *part) {
        const ssize_t got = pread(fd, part, sizeof part, (off_t)head.e_phoff);
        for (ssize_t i = 0; i < head.e_phnum && (i + 1) * (ssize_t)sizeof *part <= got; i++)
            if (part[i].p_type == PT_LOAD && part[i].p_vaddr + part[i].p_memsz > end)
                end = part[i].p_vaddr + part[i].p_memsz;
    }
    close(fd);
    return end;
}

// The library stays loaded, since the plug-in opens it next. RN_ERR_UNSUPPORTED: it is not there.
// RN_ERR_DEVICE: it is broken. Containers without a GPU may have an empty file of its name.
static rn_status driver_open(const struct driver *driver, rn_error *err) {
    if (dlopen(driver->library, RTLD_LAZY | RTLD_LOCAL)) return RN_OK;
    const char *text = load_error(driver->library);
    if (strstr(text, strerror(ENOENT)))
        return err_set(err, RN_ERR_UNSUPPORTED, "no device here (no %s)", driver->title);
    return err_set(err, memory_is_short(DRIVER_BYTES) ? RN_ERR_NOMEM : RN_ERR_DEVICE,
                   "the %s cannot be loaded: %s: %s", driver->title, driver->library, text);
}

static rn_status driver_check(const char *plugin, rn_error *err) {
    for (int i = 0; i < N_DRIVERS; i++)
        if (strcmp(drivers[i].plugin, plugin) == 0) return driver_open(&drivers[i], err);
    return RN_OK;
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
    rn_status status = check_file(file, name ? folders : NULL, err);
    if (!status && name) status = driver_check(name, err);
    if (status) return status;
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle) return class_of(handle, file, name, out, err);
    const char *text = load_error(file);
    const size_t bytes = image_bytes(file);
    if (bytes && memory_is_short(bytes))
        return err_set(err, RN_ERR_NOMEM, "%s cannot be loaded: no memory for its %zu bytes (%s)",
                       err_path(file), bytes, text);
    return err_set(err, RN_ERR_IO, "%s cannot be loaded: %s", err_path(file), text);
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

// Folders of page stores: made, walked, removed with all that is in them.
#ifndef RN_TESTS_STORE_FOLDER_H
#define RN_TESTS_STORE_FOLDER_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

struct store_folder {
    char path[40];
};

static inline struct store_folder store_folder_make(void) {
    struct store_folder folder = {"test-store.XXXXXX"};
    check(mkdtemp(folder.path) != NULL, "%s", folder.path);
    return folder;
}

// Calls `each` for every file of a page, with its path; returns their number.
typedef void (*store_each)(void *ctx, const char *path);
static inline int store_folder_pages(const char *root, store_each each, void *ctx) {
    int n = 0;
    DIR *dir = opendir(root);
    assert_non_null(dir);
    for (const struct dirent *part; (part = readdir(dir));) {
        char path[400];
        if (strlen(part->d_name) != 2 || part->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%.2s", root, part->d_name);
        DIR *inner = opendir(path);
        assert_non_null(inner);
        for (const struct dirent *file; (file = readdir(inner));) {
            if (file->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "%s/%.2s/%.255s", root, part->d_name, file->d_name);
            if (each) each(ctx, path);
            n++;
        }
        closedir(inner);
    }
    closedir(dir);
    return n;
}

static inline void store_folder_empty_at(const char *path) {
    DIR *dir = opendir(path);
    if (!dir) return;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        char inner[512];
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        snprintf(inner, sizeof inner, "%.200s/%.255s", path, entry->d_name);
        if (unlink(inner) == 0) continue;
        store_folder_empty_at(inner);
        rmdir(inner);
    }
    closedir(dir);
}

static inline void store_folder_empty(const struct store_folder *folder) {
    store_folder_empty_at(folder->path);
}

static inline void store_folder_remove(const struct store_folder *folder) {
    store_folder_empty(folder);
    rmdir(folder->path);
}

#endif

// A folder of the test's own, for made-up system files: made, filled, removed.
#ifndef RN_TESTS_BASE_ROOT_H
#define RN_TESTS_BASE_ROOT_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[64], self[128]; // the folder, and the file "self" in it

// name: begins the folder's. Not 0: it could not be made.
static inline int root_begin(const char *name) {
    snprintf(root, sizeof root, "%s.XXXXXX", name);
    if (!mkdtemp(root)) return -1;
    snprintf(self, sizeof self, "%s/self", root);
    return 0;
}

static inline int entry_remove(const char *path, const struct stat *info, int flag,
                               struct FTW *walk) {
    (void)info;
    (void)flag;
    (void)walk;
    return remove(path);
}

static inline int root_remove(void **state) {
    return nftw(root, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
}

// Writes root/name, making the folders on the way.
static inline void put(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

#endif

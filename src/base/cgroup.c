// Walks from the process's groups up to the roots of their hierarchies; see cgroup.h.
#define _GNU_SOURCE 1
#include "base/cgroup.h"

#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

bool cgroup_line(const char *folder, const char *name, char *line, int size) {
    char path[PATH_BYTES];
    const int len = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (len < 0 || len >= (int)sizeof path) return false;
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const bool is_read = fgets(line, size, file) != NULL;
    fclose(file);
    return is_read;
}

// From group up to "", the mount itself.
static void ancestors_visit(const char *mount, char *group, int version, cgroup_visit visit,
                            void *ctx) {
    for (;;) {
        char folder[PATH_BYTES];
        const int len = snprintf(folder, sizeof folder, "%s%s", mount, group);
        if (len >= 0 && len < (int)sizeof folder) visit(ctx, version, folder);
        char *slash = strrchr(group, '/');
        if (!slash) return;
        *slash = 0;
    }
}

// Whether the comma-separated list of a version 1 hierarchy names the controller.
static bool list_has(const char *list, const char *end, const char *controller) {
    const size_t len = strlen(controller);
    while (list < end) {
        const char *comma = memchr(list, ',', (size_t)(end - list));
        const char *stop = comma ? comma : end;
        if ((size_t)(stop - list) == len && memcmp(list, controller, len) == 0) return true;
        list = stop + 1;
    }
    return false;
}

void cgroup_walk(const char *root, const char *self, const char *controller, cgroup_visit visit,
                 void *ctx) {
    FILE *file = fopen(self, "re");
    if (!file) return;
    char line[PATH_BYTES];
    while (fgets(line, sizeof line, file)) { // "id:controllers:path"
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        if (path == controllers + 1) {
            ancestors_visit(root, path + 1, 2, visit, ctx);
        } else if (list_has(controllers + 1, path, controller)) {
            char mount[PATH_BYTES];
            const int len = snprintf(mount, sizeof mount, "%s/%s", root, controller);
            if (len >= 0 && len < (int)sizeof mount)
                ancestors_visit(mount, path + 1, 1, visit, ctx);
        }
    }
    fclose(file);
}

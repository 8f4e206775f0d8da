// See store.h: the cache of Hugging Face's tools, which llama.cpp uses too. A repository ORG/NAME
// is the folder models--ORG--NAME: refs/main holds a commit, snapshots/COMMIT the files as links
// into blobs/.
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/store.h"
#include "models/text_file.h"

enum { COMMIT = 40 };

static bool is_commit(const char *text) {
    return strlen(text) == COMMIT && strspn(text, "0123456789abcdef") == COMMIT;
}

// "models--ORG--NAME" as "ORG/NAME"; false: another folder.
static bool repository_name(const char *folder, char *out, size_t size) {
    static const char prefix[] = "models--";
    size_t n = 0;
    if (strncmp(folder, prefix, sizeof prefix - 1) != 0) return false;
    for (const char *at = folder + sizeof prefix - 1; *at && n + 1 < size; at++) {
        const bool is_slash = at[0] == '-' && at[1] == '-';
        out[n++] = is_slash ? '/' : *at;
        at += is_slash;
    }
    out[n] = '\0';
    return n > 0;
}

// The only commit below snapshots, in out; the number of all.
static int snapshots_count(const char *snapshots, char out[COMMIT + 1]) {
    int n = 0;
    DIR *dir = opendir(snapshots);
    for (const struct dirent *name; dir && n < 100 && (name = readdir(dir));) {
        if (!is_commit(name->d_name)) continue;
        memcpy(out, name->d_name, COMMIT + 1);
        n++;
    }
    if (dir) closedir(dir);
    return n;
}

// The snapshot that the branch main names, else the only one. False: problem says why there is
// none.
static bool snapshot_find(const char *repository, char *out, size_t size, char *problem,
                          size_t problem_size) {
    char path[PATH_MAX + 16], line[256], commit[COMMIT + 1] = "";
    snprintf(path, sizeof path, "%s/refs/main", repository);
    const bool has_branch = text_file_line(path, line, sizeof line);
    if (has_branch && !is_commit(line)) {
        snprintf(problem, problem_size, "%.400s: '%.48s' is not a commit of %d digits", path, line,
                 COMMIT);
        return false;
    }
    if (has_branch && snprintf(out, size, "%s/snapshots/%s", repository, line) < (int)size &&
        access(out, F_OK) == 0)
        return true;
    snprintf(path, sizeof path, "%s/snapshots", repository);
    const int n = snapshots_count(path, commit);
    if (n == 1 && snprintf(out, size, "%s/%s", path, commit) < (int)size) return true;
    snprintf(problem, problem_size, "%.400s has %d snapshots, and %s", path, n,
             has_branch ? "none is that of refs/main" : "refs/main names none");
    return false;
}

static void repository_read(struct model_list *list, enum store_id store, const char *path,
                            const char *name, const char *inside) {
    char snapshot[PATH_MAX], problem[600], to[PATH_MAX];
    if (!path_is_inside(path, inside, to)) {
        model_problem(list, model_list_add(list, store, name, NULL, NULL, path),
                      "%.400s: links to %.300s, which is outside of the store %.200s", path, to,
                      inside);
        return;
    }
    if (!snapshot_find(path, snapshot, sizeof snapshot, problem, sizeof problem)) {
        model_problem(list, model_list_add(list, store, name, NULL, NULL, path), "%s", problem);
        return;
    }
    const struct walk walk = {
        .store = store, .root = snapshot, .name = name, .inside = inside, .depth = 3};
    walk_folder(list, &walk);
}

void store_hub_read(struct model_list *list, enum store_id store, const char *root) {
    char path[PATH_MAX], name[NAME_MAX + 1], inside[PATH_MAX];
    DIR *dir = opendir(root);
    if (dir && realpath(root, inside)) {
        for (const struct dirent *at; (at = readdir(dir)) && !list->is_no_memory;) {
            if (repository_name(at->d_name, name, sizeof name) &&
                snprintf(path, sizeof path, "%s/%s", root, at->d_name) < (int)sizeof path)
                repository_read(list, store, path, name, inside);
        }
    }
    if (dir) closedir(dir);
}

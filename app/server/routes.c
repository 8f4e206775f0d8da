// Looking up routes. The table is short: it is walked.
#include "routes.h"

#include <stdio.h>
#include <string.h>

static const struct route routes[] = {
#define ROUTE_AT_ONCE(method, path, access, api, always, handler)                                  \
    {method, path, ROUTE_##access, API_##api, always, handler, NULL},
#define ROUTE_PREPARE(method, path, api, handler)                                                  \
    {method, path, ROUTE_KEY, API_##api, false, NULL, handler},
#include "routes.def"
#undef ROUTE_AT_ONCE
#undef ROUTE_PREPARE
};
enum { ROUTES = sizeof routes / sizeof *routes };

static bool path_matches(const char *pattern, const char *path) {
    const size_t len = strlen(pattern);
    if (pattern[len - 1] == '*') return !strncmp(pattern, path, len - 1) && path[len - 1];
    return !strcmp(pattern, path);
}

const struct route *route_find(const char *method, const char *path, char *allow,
                               size_t allow_size) {
    if (!strcmp(method, "HEAD")) method = "GET";
    size_t used = 0;
    allow[0] = '\0';
    for (int i = 0; i < ROUTES; i++) {
        if (!path_matches(routes[i].path, path)) continue;
        if (!strcmp(routes[i].method, method)) return &routes[i];
        const int n =
            snprintf(allow + used, allow_size - used, "%s%s", used ? ", " : "", routes[i].method);
        if (n > 0 && (size_t)n < allow_size - used) used += (size_t)n;
    }
    return NULL;
}

const char *route_path(const char *path) {
    for (int i = 0; i < ROUTES; i++)
        if (path_matches(routes[i].path, path)) return routes[i].path;
    return NULL;
}

// Why a path that clients of other servers know is not there; NULL if it is not such a path.
const char *route_absent(const char *path) {
    static const struct {
        const char *path, *why;
    } absent[] = {
#define ABSENT(path, why) {path, why},
#include "absent.def"
    };
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        const size_t len = strlen(absent[i].path) - 1;
        const bool is_prefix = absent[i].path[len] == '*';
        if (is_prefix ? !strncmp(path, absent[i].path, len) : !strcmp(path, absent[i].path))
            return absent[i].why;
    }
    return NULL;
}

// See name.h. Called by run, serve, eval and plan.
#include "models/name.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "terminal/term.h"

// "models--OWNER--NAME" in the path of a snapshot of Hugging Face's cache, as "OWNER/NAME". False:
// there is none.
static bool repository_name(const char *path, struct model_name *out) {
    static const char mark[] = "/models--", gap[] = "--";
    const char *at = strstr(path, mark);
    if (!at) return false;
    at += strlen(mark);
    const size_t len = strcspn(at, "/");
    const char *middle = strstr(at, gap);
    if (!middle || middle >= at + len) return false;
    const size_t owner = (size_t)(middle - at);
    snprintf(out->text, sizeof out->text, "%.*s/%.*s", (int)owner, at,
             (int)(len - owner - strlen(gap)), middle + strlen(gap));
    return true;
}

// Whether a store made the name of a content's digest.
static bool is_digest(const char *name, size_t len) {
    static const char digits[] = "0123456789abcdef", sha[] = "sha256-";
    const size_t skipped = strncmp(name, sha, strlen(sha)) ? 0 : strlen(sha);
    return len >= 40 && strspn(name + skipped, digits) >= len - skipped;
}

static struct model_name name_find(const char *given, const rn_model_info *info) {
    struct model_name out;
    const char *path = info->path;
    if (given && access(given, F_OK) != 0) {
        snprintf(out.text, sizeof out.text, "%s", given);
        return out;
    }
    static const char config[] = "/config.json";
    size_t len = strlen(path);
    if (len > sizeof config && !strcmp(path + len - strlen(config), config)) len -= strlen(config);
    while (len > 1 && path[len - 1] == '/') len--;
    size_t begin = len;
    while (begin && path[begin - 1] != '/') begin--;
    if (is_digest(path + begin, len - begin)) {
        if (repository_name(path, &out)) return out;
        if (*info->name) path = info->name, begin = 0, len = strlen(path);
    }
    snprintf(out.text, sizeof out.text, "%.*s", (int)(len - begin), path + begin);
    return out;
}

struct model_name model_name_short(const char *given, const rn_model_info *info) {
    const struct model_name name = name_find(given, info);
    struct model_name shown = {""};
    FILE *out = fmemopen(shown.text, sizeof shown.text - 1, "w");
    if (!out) return shown;
    term_print_escaped(out, name.text, strlen(name.text), SIZE_MAX);
    fclose(out);
    return shown;
}

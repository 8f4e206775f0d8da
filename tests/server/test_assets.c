// The page's files as they are inside the program: each reference is served, nothing points
// elsewhere, and nothing violates the content policy.
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "assets_table.h"
#include "check.h"

static bool holds(const struct asset *asset, const char *text) {
    return memmem(asset->data, asset->size, text, strlen(text)) != NULL;
}

CASE(the_page_is_at_the_root) {
    const struct asset *page = asset_find("/");
    check(page, "there is no /");
    check(!strcmp(page->type, "text/html; charset=utf-8"), "its type is %s", page->type);
    check(page->size > 15 && !memcmp(page->data, "<!doctype html>", 15), "it is no page");
}

CASE(types_and_tags_are_set) {
    for (const struct asset *asset = assets_table; asset->path; asset++) {
        const size_t len = strlen(asset->etag);
        check(asset->size && *asset->type, "%s has no content or no type", asset->path);
        check(len > 10 && asset->etag[0] == '"' && asset->etag[len - 1] == '"', "%s: ETag %s",
              asset->path, asset->etag);
        for (const struct asset *other = assets_table; other < asset; other++) {
            check(strcmp(other->path, asset->path), "%s is there twice", asset->path);
            check(!strcmp(other->etag, asset->etag) == (other->data == asset->data),
                  "%s and %s: equal tags do not mean equal content", other->path, asset->path);
        }
    }
    check(!strcmp(asset_find("/assets/main.js")->type, "text/javascript; charset=utf-8"), "js");
    check(!strcmp(asset_find("/assets/base.css")->type, "text/css; charset=utf-8"), "css");
    check(!strcmp(asset_find("/favicon.ico")->type, "image/svg+xml"), "the icon");
}

CASE(other_paths_are_not_there) {
    static const char *const path[] = {"",
                                       "/index.html",
                                       "/assets",
                                       "/assets/",
                                       "/assets/main",
                                       "/assets/main.jsx",
                                       "//",
                                       "/assets/../assets/main.js",
                                       "/assets/index.html",
                                       "assets/main.js",
                                       "/ASSETS/main.js"};
    for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
        check(!asset_find(path[i]), "%s is found", path[i]);
    }
}

// Every prefix"name" in a file, as a path under /assets/, must be in the table.
static int references_check(const struct asset *asset, const char *before) {
    const char *at = (const char *)asset->data;
    const char *end = at + asset->size;
    int n = 0;
    while ((at = memmem(at, (size_t)(end - at), before, strlen(before)))) {
        at += strlen(before);
        char path[128];
        const size_t len = strcspn(at, "\"'?#");
        snprintf(path, sizeof path, "/assets/%.*s", (int)len, at);
        check(asset_find(path), "%s refers to %s, which is not there", asset->path, path);
        n++;
    }
    return n;
}

CASE(every_reference_is_served) {
    int n = references_check(asset_find("/"), "\"/assets/");
    for (const struct asset *asset = assets_table; asset->path; asset++) {
        n += references_check(asset, "from './");
    }
    check(n > 20, "only %d references were found", n);
}

CASE(nothing_needs_what_the_policy_forbids) {
    static const char *const word[] = {"innerHTML", "outerHTML", "insertAdjacentHTML",
                                       "eval(",     "Function(", "document.write",
                                       " style=\"", "<style",    "javascript:",
                                       "@import",   "url(",      "setTimeout('"};
    for (const struct asset *asset = assets_table; asset->path; asset++) {
        for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
            check(!holds(asset, word[i]), "%s holds %s", asset->path, word[i]);
        }
    }
    const struct asset *page = asset_find("/");
    check(!holds(page, "<script>") && !holds(page, " onclick"), "the page holds a script");
}

// "//" before a name is another server's address; the name of SVG is none.
CASE(nothing_points_to_another_server) {
    for (const struct asset *asset = assets_table; asset->path; asset++) {
        const char *at = (const char *)asset->data;
        const char *end = at + asset->size;
        while ((at = memmem(at, (size_t)(end - at), "://", 3))) {
            const char *name = at + 3;
            const size_t left = (size_t)(end - name);
            const bool known = left > 10 && !memcmp(name, "www.w3.org/2000/svg", 10);
            check(known || name[0] < 'a' || name[0] > 'z', "%s names %.40s", asset->path, at - 5);
            at = name;
        }
    }
}

TEST_PROGRAM(assets) { return cases_run(NULL, NULL); }

// The page at "/" and its files, from the table that the build makes of web/ (tools/assets.cmake).
// No path of a request is ever opened: a file without a row does not exist. Called by the I/O
// thread.
#define _GNU_SOURCE // strcasestr
#include <string.h>

#include "assets_table.h"
#include "call.h"
#include "helpers.h"
#include "routes.h"

const struct asset *asset_find(const char *path) {
    for (const struct asset *asset = assets_table; asset->path; asset++) {
        if (!strcmp(asset->path, path)) return asset;
    }
    return NULL;
}

// If-None-Match: a list of tags, weak ones too, or "*".
static bool tag_listed(const char *list, const char *etag) {
    if (!list) return false;
    const size_t len = strlen(etag);
    for (const char *at = list; *at;) {
        at += strspn(at, " \t,");
        const size_t n = strcspn(at, " \t,");
        if (n == 1 && *at == '*') return true;
        const size_t weak = n > 2 && !strncmp(at, "W/", 2) ? 2 : 0;
        if (n - weak == len && !strncmp(at + weak, etag, len)) return true;
        at += n;
    }
    return false;
}

// Clients of Ollama look for its sentence at "/"; browsers name HTML among the forms that they
// take.
static bool wants_page(const struct call *call) {
    const char *accept = call_header(call, "Accept");
    return accept && (strcasestr(accept, "text/html") || strcasestr(accept, "text/*"));
}

void assets_get(struct call *call) {
    static const char running[] = "Ollama is running";
    call->by_accept = !strcmp(call_path(call), "/");
    if (call->by_accept && !wants_page(call)) {
        call->content_type = "text/plain; charset=utf-8";
        call->immutable = true;
        call->bytes = running;
        call->bytes_len = strlen(running);
        call->status = 200;
        return;
    }
    const struct asset *asset = call->server->config.ui ? asset_find(call_path(call)) : NULL;
    if (!asset) {
        char shown[128];
        const char *path = call_path(call);
        unicode_quote(path, strlen(path), shown, sizeof shown);
        call_refuse(call, 404, NULL, "not_found", "There is no %s", shown);
        return;
    }
    const bool known = tag_listed(call_header(call, "If-None-Match"), asset->etag);
    call->content_type = asset->type;
    call->etag = asset->etag;
    call->immutable = true;
    call->bytes = (const char *)asset->data;
    call->bytes_len = known ? 0 : asset->size;
    call->status = known ? 304 : 200;
}

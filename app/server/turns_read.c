#include "turns_read.h"

#include <stdlib.h>
#include <string.h>

#include "conversation.h"

const struct turn **turns_chain(const struct turn *last, size_t *n) {
    *n = 0;
    for (const struct turn *at = last; at; at = at->previous) ++*n;
    const struct turn **turns = malloc(*n * sizeof *turns);
    size_t i = *n;
    for (const struct turn *at = last; turns && at; at = at->previous) turns[--i] = at;
    return turns;
}

size_t lines_take(const char *at, size_t len, struct line *list) {
    size_t n = 0;
    for (const char *end = at + len, *stop; at < end; at = stop + 1, n++) {
        stop = memchr(at, '\n', (size_t)(end - at));
        if (list) list[n] = (struct line){at, (size_t)(stop - at)};
    }
    return n;
}

static bool lines_read(struct call *call, const struct turn *turn, const char *name,
                       json_t *items) {
    const char *at = turn->text.data, *end = at + turn->input_len + turn->output_len;
    for (const char *stop; at < end; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(end - at));
        json_t *item = call_json_kept(at, (size_t)(stop - at));
        if (!item || json_array_append_new(items, item)) return call_refuse_memory(call);
    }
    if (json_array_size(items) <= INPUT_ITEMS_MAX) return true;
    return call_refuse(call, 400, name, "invalid_value",
                       "%s: the conversation has more than %d items", name, INPUT_ITEMS_MAX);
}

// The same bound as for a request that brings the whole conversation.
static bool size_check(struct call *call, const struct turn **turns, size_t n, const char *name) {
    const size_t most = call->server->config.body_bytes_max;
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += turns[i]->input_len + turns[i]->output_len;
    return bytes <= most ||
           call_refuse(call, 413, name, "body_too_large",
                       "The conversation has %zu bytes, at most %zu are taken", bytes, most);
}

json_t *turns_items(struct call *call, const struct turn *last, const char *name) {
    size_t n;
    const struct turn **turns = turns_chain(last, &n);
    json_t *items = json_array();
    bool ok = (turns && items) || call_refuse_memory(call);
    ok = ok && size_check(call, turns, n, name);
    for (size_t i = 0; ok && i < n; i++) ok = lines_read(call, turns[i], name, items);
    free(turns);
    if (ok) return items;
    json_decref(items);
    return NULL;
}

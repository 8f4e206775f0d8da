// Kept responses: the conversation behind previous_response_id, and the routes that show and delete
// a response. The routes run on the I/O thread; they copy bytes and parse nothing.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "helpers.h"
#include "responses.h"
#include "routes.h"
#include "streams.h"
#include "turns_read.h"

// ---------------------------------------------------------------- a request's items

// A content that is a text becomes a part.
static void content_put(const json_t *content, const char *type, struct jbuf *out) {
    jbuf_text(out, ",\"content\":");
    if (!json_is_string(content)) {
        jbuf_json(out, content);
        return;
    }
    jbuf_printf(out, "[{\"type\":\"%s\",\"text\":", type);
    jbuf_string(out, json_string_value(content), json_string_length(content));
    jbuf_text(out, "}]");
}

static void message_put(const json_t *item, struct jbuf *out) {
    const char *role = json_string_value(json_object_get(item, "role"));
    const bool is_answer = role && !strcmp(role, "assistant");
    jbuf_text(out, ",\"type\":\"message\",\"status\":\"completed\",\"role\":");
    jbuf_cstring(out, role);
    content_put(json_object_get(item, "content"), is_answer ? "output_text" : "input_text", out);
}

// The id comes first, where line_id looks for it.
static void item_put(const struct call *call, const json_t *item, size_t index, struct jbuf *out) {
    const char *type = json_string_value(json_object_get(item, "type")), *key;
    const json_t *id = json_object_get(item, "id"), *value;
    jbuf_text(out, "{\"id\":");
    if (json_string_length(id)) {
        jbuf_json(out, id);
    } else {
        jbuf_printf(out, "\"item_%s_%zu\"", call->id, index);
    }
    if (!type || !strcmp(type, "message")) {
        message_put(item, out);
    } else {
        json_object_foreach((json_t *)(uintptr_t)item, key, value) {
            if (!strcmp(key, "id")) continue;
            jbuf_text(out, ",");
            jbuf_cstring(out, key);
            jbuf_text(out, ":");
            jbuf_json(out, value);
        }
    }
    jbuf_text(out, "}\n");
}

void responses_items_put(const struct call *call, const json_t *body, struct jbuf *out) {
    const json_t *input = json_object_get(body, "input"), *item;
    size_t i;
    if (json_is_string(input)) {
        jbuf_printf(out, "{\"id\":\"item_%s_0\",\"type\":\"message\",\"status\":\"completed\"",
                    call->id);
        jbuf_text(out, ",\"role\":\"user\"");
        content_put(input, "input_text", out);
        jbuf_text(out, "}\n");
        return;
    }
    json_array_foreach(input, i, item) item_put(call, item, i, out);
}

// ---------------------------------------------------------------- conversations

bool responses_previous(struct call *call, const json_t *body, struct turn **out) {
    const struct fields fields = fields_of(call, body, "");
    const char *id = NULL;
    *out = NULL;
    if (!field_string(&fields, "previous_response_id", SIZE_MAX, &id, NULL)) return false;
    if (!id) return true;
    *out = turns_acquire(call->server->turns, TURN_RESPONSE, id, call->owner);
    if (*out) return true;
    char shown[80];
    unicode_quote(id, strlen(id), shown, sizeof shown);
    return call_refuse(call, 404, "previous_response_id", "previous_response_not_found",
                       "Previous response with id '%s' not found.", shown);
}

// ---------------------------------------------------------------- a response

static void response_write(const struct turn *response, struct jbuf *out) {
    const char *output = response->text.data + response->input_len;
    const char *head = output + response->output_len, *tail = head + response->head_len;
    const size_t len = response->output_len ? response->output_len - 1 : 0; // its last line end
    jbuf_bytes(out, head, response->head_len);
    jbuf_text(out, "[");
    const size_t from = out->len;
    jbuf_bytes(out, output, len);
    for (char *at = out->failed ? NULL : out->data + from;
         at && (at = memchr(at, '\n', out->len - (size_t)(at - out->data)));)
        *at = ',';
    jbuf_text(out, "]");
    jbuf_bytes(out, tail, (size_t)(response->text.data + response->text.len - tail));
}

// ---------------------------------------------------------------- its input

// The items that the response was made of: all turns before it, and its own input.
static size_t input_take(const struct turn **turns, size_t n_turns, struct line *list) {
    size_t n = 0;
    for (size_t i = 0; i < n_turns; i++) {
        const size_t output = i + 1 < n_turns ? turns[i]->output_len : 0;
        n += lines_take(turns[i]->text.data, turns[i]->input_len + output, list ? list + n : NULL);
    }
    return n;
}

// The JSON string behind {"id":
static struct line line_id(struct line line) {
    static const size_t skip = sizeof "{\"id\":" - 1;
    size_t len = 1;
    while (line.at[skip + len] != '"') len += line.at[skip + len] == '\\' ? 2 : 1;
    return (struct line){line.at + skip, len + 1};
}

static bool has_id(struct line line, const char *id) {
    const struct line own = line_id(line);
    return own.len == strlen(id) + 2 && !memcmp(own.at + 1, id, own.len - 2);
}

// ---------------------------------------------------------------- items by their ids

// An item's id has the id of the call that kept it: "msg_CALL_0". False if no item of ours has such
// an id.
static bool response_id_of(const char *item, char out[TURN_ID_BYTES]) {
    const char *call = strchr(item, '_'), *end = call ? strchr(call + 1, '_') : NULL;
    if (!end || end - call >= TURN_ID_BYTES - 8) return false;
    snprintf(out, TURN_ID_BYTES, "resp%.*s", (int)(end - call), call);
    return true;
}

// The lines of a response that may have the item: ids of a request's own items start with "item_".
static struct line region_of(const struct turn *response, const char *id) {
    const bool is_input = !strncmp(id, "item_", strlen("item_"));
    return is_input
               ? (struct line){response->text.data, response->input_len}
               : (struct line){response->text.data + response->input_len, response->output_len};
}

// The line of the item; its length is 0 if there is none.
static struct line item_in(struct line region, const char *id) {
    for (const char *end = region.at + region.len, *stop; region.at < end; region.at = stop + 1) {
        stop = memchr(region.at, '\n', (size_t)(end - region.at));
        const struct line line = {region.at, (size_t)(stop - region.at)};
        if (has_id(line, id)) return line;
    }
    return (struct line){0};
}

// Loads the item that the reference names; NULL if it is refused. *bytes is what references may
// still search: all of a request's together search no more than a body may have.
static json_t *item_find(const struct fields *reference, size_t *bytes) {
    struct call *call = reference->call;
    struct turns *store = call->server->turns;
    struct line region = {0}, line = {0};
    char response_id[TURN_ID_BYTES], shown[80];
    const char *id;
    size_t len;
    json_t *item = NULL;
    if (!conversation_string(reference, "id", INPUT_ID_BYTES_MAX, &id, &len)) return NULL;
    struct turn *response = response_id_of(id, response_id)
                                ? turns_acquire(store, TURN_RESPONSE, response_id, call->owner)
                                : NULL;
    if (response) region = region_of(response, id);
    unicode_quote(id, len, shown, sizeof shown);
    if (region.len > *bytes) {
        field_refuse(reference, "id", "\"%s\": the items that are named are too large", shown);
    } else if (!response || !(line = item_in(region, id)).len) {
        call_refuse(call, 404, "input", "item_not_found", "Item with id '%s' not found.", shown);
    } else if (!(item = call_json_kept(line.at, line.len))) {
        call_refuse_memory(call);
    }
    *bytes -= item ? region.len : 0;
    turns_release(store, response);
    return item;
}

// A reference may leave out its type. Then it has an id, and no role as a message has.
static bool is_reference(const json_t *item) {
    const json_t *type = json_object_get(item, "type");
    if (json_is_string(type)) return !strcmp(json_string_value(type), "item_reference");
    return json_object_get(item, "id") && !json_object_get(item, "role");
}

bool responses_references(struct call *call, json_t *body) {
    const struct fields fields = fields_of(call, body, "");
    json_t *input = json_object_get(body, "input"), *item;
    size_t bytes = call->server->config.body_bytes_max, i;
    json_array_foreach(input, i, item) {
        char path[FIELD_PATH_BYTES];
        struct fields reference;
        if (!is_reference(item)) continue;
        if (!conversation_item(&fields, "input", input, i, path, &reference)) return false;
        json_t *found = item_find(&reference, &bytes);
        if (!found) return false;
        if (json_array_set_new(input, i, found)) return call_refuse_memory(call);
    }
    return true;
}

// ---------------------------------------------------------------- pages of input

struct page {
    size_t limit;
    bool is_ascending;
    char after[128]; // "": from the start
};

static bool page_read(struct call *call, struct page *out) {
    char text[16];
    *out = (struct page){.limit = 20};
    const char *limit = call_query(call, "limit", text, sizeof text);
    if (limit) {
        char *end;
        const long value = strtol(limit, &end, 10);
        if (*end || value < 1 || value > 100)
            return call_refuse(call, 400, "limit", "invalid_value", "limit: %s is not 1 to 100",
                               limit);
        out->limit = (size_t)value;
    }
    const char *order = call_query(call, "order", text, sizeof text);
    out->is_ascending = order && !strcmp(order, "asc");
    if (order && !out->is_ascending && strcmp(order, "desc") != 0)
        return call_refuse(call, 400, "order", "invalid_value", "order: %s is not asc or desc",
                           order);
    if (!call_query(call, "after", out->after, sizeof out->after)) out->after[0] = '\0';
    return true;
}

static void id_put(const char *key, size_t n, const struct line *line, struct jbuf *out) {
    jbuf_key(out, key);
    if (n) {
        jbuf_bytes(out, line_id(*line).at, line_id(*line).len);
    } else {
        jbuf_text(out, "null");
    }
}

static void page_write(struct call *call, const struct line *lines, size_t n,
                       const struct page *page) {
    struct jbuf *out = &call->out;
    size_t from = 0, count = 0;
    const struct line *first = NULL, *last = NULL;
    for (size_t i = 0; *page->after && i < n && !from; i++)
        if (has_id(lines[page->is_ascending ? i : n - 1 - i], page->after)) from = i + 1;
    if (*page->after && !from) {
        call_refuse(call, 404, "after", "not_found", "after: there is no such item");
        return;
    }
    jbuf_text(out, "{\"object\":\"list\",\"data\":[");
    for (; count < page->limit && from + count < n; count++) {
        last = &lines[page->is_ascending ? from + count : n - 1 - from - count];
        if (!first) first = last;
        if (count) jbuf_text(out, ",");
        jbuf_bytes(out, last->at, last->len);
    }
    jbuf_text(out, "]");
    id_put("first_id", count, first, out);
    id_put("last_id", count, last, out);
    jbuf_key(out, "has_more");
    jbuf_bool(out, from + count < n);
    jbuf_text(out, "}");
    call_answer(call);
}

static void input_write(struct call *call, const struct turn *response) {
    struct page page;
    size_t n_turns;
    if (!page_read(call, &page)) return;
    const struct turn **turns = turns_chain(response, &n_turns);
    struct line *lines =
        turns ? malloc((input_take(turns, n_turns, NULL) + 1) * sizeof *lines) : NULL;
    if (lines) {
        page_write(call, lines, input_take(turns, n_turns, lines), &page);
    } else {
        call_refuse_memory(call);
    }
    free(lines);
    free(turns);
}

// ---------------------------------------------------------------- routes

// The path from the id on, with /v1 before it or without.
static const char *path_id(const struct call *call) {
    static const char before[] = "/responses/";
    return strstr(call_path(call), before) + strlen(before);
}

// The id in the path; what follows it is *rest.
static void path_split(const struct call *call, char id[TURN_ID_BYTES], const char **rest) {
    const char *path = path_id(call);
    const size_t len = strcspn(path, "/");
    snprintf(id, TURN_ID_BYTES, "%.*s", len < TURN_ID_BYTES ? (int)len : 0, path);
    *rest = path + len;
}

static void refuse_path(struct call *call) {
    char shown[128];
    const char *why = route_absent(call_path(call));
    unicode_quote(call_path(call), strlen(call_path(call)), shown, sizeof shown);
    call_refuse(call, 404, NULL, "not_found", "There is no %s%s%s", shown, why ? ": " : "",
                why ? why : "");
}

static void refuse_id(struct call *call) {
    char shown[80];
    const char *path = path_id(call);
    unicode_quote(path, strcspn(path, "/"), shown, sizeof shown);
    call_refuse(call, 404, NULL, "response_not_found", "Response with id '%s' not found.", shown);
}

void responses_get(struct call *call) {
    char id[TURN_ID_BYTES], stream[8];
    const char *rest;
    path_split(call, id, &rest);
    if (*rest && strcmp(rest, "/input_items") != 0) {
        refuse_path(call);
        return;
    }
    const char *streams = call_query(call, "stream", stream, sizeof stream);
    if (streams && !strcmp(streams, "true")) {
        call_refuse(call, 400, "stream", "unsupported_value",
                    "stream: a kept response is not streamed again");
        return;
    }
    struct turn *response = turns_acquire(call->server->turns, TURN_RESPONSE, id, call->owner);
    if (!response) {
        refuse_id(call);
    } else if (*rest) {
        input_write(call, response);
    } else {
        response_write(response, &call->out);
        call_answer(call);
    }
    turns_release(call->server->turns, response);
}

static bool is_known(const struct call *call, const char *id) {
    struct turn *response = turns_acquire(call->server->turns, TURN_RESPONSE, id, call->owner);
    const bool is_kept = response != NULL;
    turns_release(call->server->turns, response);
    return is_kept || streams_lookup(call->server, call->owner, 0, id);
}

// OpenAI cancels responses with `background` alone. The end of its connection cancels any other
// response.
void responses_cancel(struct call *call) {
    char id[TURN_ID_BYTES];
    const char *rest;
    path_split(call, id, &rest);
    if (strcmp(rest, "/cancel") != 0) {
        refuse_path(call);
    } else if (!is_known(call, id)) {
        refuse_id(call);
    } else {
        call_refuse(call, 400, NULL, "not_cancellable",
                    "Cannot cancel a synchronous response: end the request's connection, which "
                    "cancels it");
    }
}

void responses_remove(struct call *call) {
    char id[TURN_ID_BYTES];
    const char *rest;
    path_split(call, id, &rest);
    if (*rest) {
        refuse_path(call);
    } else if (!turns_delete(call->server->turns, TURN_RESPONSE, id, call->owner)) {
        refuse_id(call);
    } else {
        jbuf_printf(&call->out, "{\"id\":\"%s\",\"object\":\"response\",\"deleted\":true}", id);
        call_answer(call);
    }
}

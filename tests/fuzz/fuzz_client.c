// Bytes of a server: however they are cut into pieces, the client's parser finds the same response,
// and the same events in its body. An error is final, and nothing outside the given bytes is read.
//
// Input: the bytes, as a server would send them before it closes the connection.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/response.h"
#include "client/sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum way { WHOLE, BYTES, PIECES };

// Bodies and events are kept apart: an event's place between pieces of the body depends on the cut.
struct found {
    struct sse sse;
    struct jbuf body, events;
};

static void on_event(void *ctx, const char *data, size_t len) {
    struct found *found = ctx;
    if (data[len] != '\0') abort();
    jbuf_printf(&found->events, "%zu:", len);
    jbuf_bytes(&found->events, data, len);
}

static void on_body(void *ctx, const char *data, size_t len) {
    struct found *found = ctx;
    if (len == 0) abort();
    sse_feed(&found->sse, data, len, on_event, found);
    jbuf_bytes(&found->body, data, len);
}

static size_t piece_len(enum way way, size_t left, uint64_t *hash) {
    if (way == WHOLE) return left;
    if (way == BYTES) return 1;
    *hash = (*hash ^ left) * 0x9E3779B97F4A7C15u;
    const size_t len = 1 + (*hash >> 40) % 23;
    return len < left ? len : left;
}

static bool is_over(const struct response *r) {
    return r->state == RESPONSE_DONE || r->state == RESPONSE_BAD;
}

// An end stays the end.
static void end_check(struct response *r, struct found *found) {
    if ((r->error != NULL) != (r->state == RESPONSE_BAD)) abort();
    if (r->state == RESPONSE_BAD && r->keep_alive) abort();
    if (!is_over(r)) return;
    const enum response_state state = r->state;
    if (response_feed(r, "HTTP/1.1 200 OK\r\n", 17, on_body, found) || r->state != state) abort();
}

static void found_add(struct found *found, struct jbuf *out) {
    jbuf_bytes(out, found->body.data, found->body.len);
    jbuf_bytes(out, found->events.data, found->events.len);
    sse_deinit(&found->sse);
    jbuf_deinit(&found->body);
    jbuf_deinit(&found->events);
}

static void run(const uint8_t *data, size_t size, enum way way, struct jbuf *out) {
    struct response *r = malloc(sizeof *r);
    struct found found = {0};
    uint64_t hash = size;
    size_t at = 0;
    if (!r) abort();
    response_init(r, false);
    sse_init(&found.sse);
    while (at < size && !is_over(r)) {
        const size_t len = piece_len(way, size - at, &hash);
        char *piece = malloc(len); // so that the sanitizers see any read past it
        if (!piece) abort();
        memcpy(piece, data + at, len);
        const size_t used = response_feed(r, piece, len, on_body, &found);
        if (used > len || (used < len && !is_over(r))) abort();
        at += used;
        free(piece);
    }
    end_check(r, &found);
    response_close(r);
    if (!is_over(r)) abort();
    jbuf_printf(out, "%d %d %d %s %s %zu ", (int)r->state, r->status, r->keep_alive, r->type,
                r->error ? r->error : "", r->state == RESPONSE_DONE ? at : 0);
    found_add(&found, out);
    free(r);
}

// The bytes as a stream.
static void run_events(const uint8_t *data, size_t size, enum way way, struct jbuf *out) {
    struct found found = {0};
    uint64_t hash = size;
    sse_init(&found.sse);
    for (size_t at = 0; at < size;) {
        const size_t len = piece_len(way, size - at, &hash);
        sse_feed(&found.sse, (const char *)data + at, len, on_event, &found);
        at += len;
    }
    found_add(&found, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct jbuf whole = {0};
    run(data, size, WHOLE, &whole);
    run_events(data, size, WHOLE, &whole);
    for (enum way way = BYTES; way <= PIECES; way++) {
        struct jbuf cut = {0};
        run(data, size, way, &cut);
        run_events(data, size, way, &cut);
        if (whole.len != cut.len || memcmp(whole.data, cut.data, whole.len) != 0) abort();
        jbuf_deinit(&cut);
    }
    jbuf_deinit(&whole);
    return 0;
}

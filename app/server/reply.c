// Answers: status, headers, and the body as one piece or as a stream that suspends its connection
// whenever there is nothing to send.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http_internal.h"
#include "streams.h"
#include "tools.h"

static void header_add(struct MHD_Response *response, const char *name, const char *value) {
    MHD_add_response_header(response, name, value); // a value that does not fit is left out
}

static void cors_add(struct MHD_Response *response, const struct call *call) {
    const char *origin = call_header(call, "Origin");
    header_add(response, "Vary", "Origin");
    if (!call->io->cors || !origin) return;
    header_add(response, "Access-Control-Allow-Origin", origin);
    header_add(response, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
    if (strcmp(call->io->method, "OPTIONS")) return;
    header_add(response, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    const char *asked = call_header(call, "Access-Control-Request-Headers");
    header_add(response, "Access-Control-Allow-Headers", asked ? asked : "Authorization");
    header_add(response, "Access-Control-Max-Age", "600");
}

// The page needs nothing but its own files and this server.
static const char page_policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src "
    "'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static void headers_add(struct MHD_Response *response, const struct call *call) {
    char number[16];
    header_add(response, "Content-Type",
               call->content_type ? call->content_type : "application/json; charset=utf-8");
    header_add(response, "X-Request-Id", call->id);
    if (call->route && call->route->api == API_ANTHROPIC) // the name that its clients read
        header_add(response, "request-id", call->id);
    header_add(response, "X-Content-Type-Options", "nosniff");
    header_add(response, "Content-Security-Policy", page_policy);
    header_add(response, "Referrer-Policy", "no-referrer");
    header_add(response, "Cache-Control", call->etag ? "no-cache" : "no-store");
    if (call->etag) header_add(response, "ETag", call->etag);
    if (call->status == 401) header_add(response, "WWW-Authenticate", "Bearer");
    if (call->allow[0]) header_add(response, "Allow", call->allow);
    if (call->retry_after_s) {
        snprintf(number, sizeof number, "%d", call->retry_after_s);
        header_add(response, "Retry-After", number);
    }
    if (call->io->close_after || call->io->link->http->draining) {
        header_add(response, "Connection", "close");
    }
    cors_add(response, call);
}

// ---------------------------------------------------------------- streams

// Below this many unsent bytes a paused stream goes on.
static size_t low_water(const struct call *call) {
    return call->server->config.stream_bytes_max / 4;
}

static ssize_t stream_read(void *cls, uint64_t position, char *out, size_t max) {
    struct call *call = cls;
    struct call_io *io = call->io;
    (void)position;
    if (io->gone) return MHD_CONTENT_READER_END_WITH_ERROR;
    const size_t waiting = call->out.len - io->head;
    if (!waiting && io->ended) return MHD_CONTENT_READER_END_OF_STREAM;
    if (!waiting) {
        io->suspended = true;
        MHD_suspend_connection(io->connection);
        return 0;
    }
    const size_t n = waiting < max ? waiting : max;
    memcpy(out, call->out.data + io->head, n);
    io->head += n;
    io->bytes += n;
    io->moved_ns = clock_ns();
    if (io->head == call->out.len) {
        jbuf_clear(&call->out);
        io->head = 0;
    } else if (io->head > call->out.len / 2) {
        jbuf_drop(&call->out, io->head);
        io->head = 0;
    }
    if (io->paused && call->out.len - io->head <= low_water(call)) {
        io->paused = false;
        if (call->generation) streams_pause(call->generation, false);
    }
    return (ssize_t)n;
}

static struct MHD_Response *stream_response(struct call *call) {
    enum { BLOCK = 16 << 10 };
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, stream_read, call, NULL);
    if (!response) return NULL;
    if (!call->content_type) call->content_type = "text/event-stream; charset=utf-8";
    headers_add(response, call);
    header_add(response, "X-Accel-Buffering", "no"); // proxies hand each event on
    return response;
}

// ---------------------------------------------------------------- whole

// When there is no memory for the answer itself.
static void answer_replace(struct call *call) {
    static const char openai[] =
        "{\"error\":{\"type\":\"unavailable_error\",\"message\":\"out of memory\",\"param\":null,"
        "\"code\":\"out_of_memory\"}}";
    static const char anthropic[] = "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
                                    "\"message\":\"out of memory\"}}";
    const bool is_openai = !call->route || call->route->api == API_OPENAI;
    call->status = MHD_HTTP_SERVICE_UNAVAILABLE;
    call->retry_after_s = 1;
    call->content_type = call->etag = NULL;
    call->immutable = true;
    call->bytes = is_openai ? openai : anthropic;
    call->bytes_len = strlen(call->bytes);
}

static struct MHD_Response *whole_response(struct call *call) {
    struct MHD_Response *response;
    if (call->out.failed) answer_replace(call);
    if (call->immutable) {
        call->io->bytes = call->bytes_len;
        response = MHD_create_response_from_buffer(call->bytes_len, (void *)(uintptr_t)call->bytes,
                                                   MHD_RESPMEM_PERSISTENT);
    } else {
        call->io->bytes = call->out.len;
        response =
            MHD_create_response_from_buffer(call->out.len, call->out.data, MHD_RESPMEM_MUST_FREE);
        if (response) call->out = (struct jbuf){0};
    }
    if (response) headers_add(response, call);
    return response;
}

enum MHD_Result reply_queue(struct call *call) {
    struct call_io *io = call->io;
    const bool streams = io->state == CALL_STREAMING;
    struct MHD_Response *response = streams ? stream_response(call) : whole_response(call);
    if (!response) return MHD_NO;
    io->queued = true;
    io->moved_ns = clock_ns();
    const unsigned status = streams ? MHD_HTTP_OK : (unsigned)call->status;
    const enum MHD_Result result = MHD_queue_response(io->connection, status, response);
    MHD_destroy_response(response);
    return result;
}

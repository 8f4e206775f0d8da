// The heads of answers, and answers of streams that wait for their model.
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "conn.h"
#include "routes.h"
#include "routing.h"

static const char *reason(int status) {
    static const struct {
        int status;
        const char *text;
    } reasons[] = {{200, "OK"},
                   {204, "No Content"},
                   {304, "Not Modified"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {413, "Content Too Large"},
                   {414, "URI Too Long"},
                   {415, "Unsupported Media Type"},
                   {417, "Expectation Failed"},
                   {429, "Too Many Requests"},
                   {431, "Request Header Fields Too Large"},
                   {500, "Internal Server Error"},
                   {501, "Not Implemented"},
                   {503, "Service Unavailable"},
                   {504, "Gateway Timeout"},
                   {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (reasons[i].status == status) return reasons[i].text;
    }
    return "Other";
}

// Values are the server's own, or were read by the reader: neither holds a line end.
static void put(struct jbuf *out, const char *name, const char *value) {
    jbuf_text(out, name);
    jbuf_bytes(out, ": ", 2);
    jbuf_text(out, value);
    jbuf_bytes(out, "\r\n", 2);
}

static void put_number(struct jbuf *out, const char *name, uint64_t value) {
    jbuf_text(out, name);
    jbuf_bytes(out, ": ", 2);
    jbuf_uint(out, value);
    jbuf_bytes(out, "\r\n", 2);
}

static void put_date(struct jbuf *out) {
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    jbuf_printf(out, "Date: %s, %02d %s %d %02d:%02d:%02d GMT\r\n", days[tm.tm_wday], tm.tm_mday,
                months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

static void put_cors(struct jbuf *out, const struct call *call) {
    const char *origin = call_header(call, "Origin");
    put(out, "Vary", call->by_accept ? "Origin, Accept" : "Origin");
    if (!call->cors || !origin) return;
    put(out, "Access-Control-Allow-Origin", origin);
    put(out, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
    if (strcmp(head_method(&call->head), "OPTIONS")) return;
    put(out, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    const char *asked = call_header(call, "Access-Control-Request-Headers");
    put(out, "Access-Control-Allow-Headers", asked ? asked : "Authorization");
    put(out, "Access-Control-Max-Age", "600");
}

// The page needs nothing but its own files and this server.
static const char page_policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src "
    "'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static void put_about(struct jbuf *out, const struct call *call, bool streams) {
    const char *usual =
        streams ? "text/event-stream; charset=utf-8" : "application/json; charset=utf-8";
    put(out, "Content-Type", call->content_type ? call->content_type : usual);
    put(out, "X-Request-Id", routing_id(call));
    if (call_api_of(call) == API_ANTHROPIC) // the name that its clients read
        put(out, "request-id", routing_id(call));
    put(out, "X-Content-Type-Options", "nosniff");
    put(out, "Content-Security-Policy", page_policy);
    put(out, "Referrer-Policy", "no-referrer");
    put(out, "Cache-Control", call->etag ? "no-cache" : "no-store");
    if (call->etag) put(out, "ETag", call->etag);
    if (call->status == 401) put(out, "WWW-Authenticate", "Bearer");
    if (call->allow[0]) put(out, "Allow", call->allow);
    if (call->status == 415) put(out, "Accept-Encoding", "identity");
    if (call->retry_after_s) put_number(out, "Retry-After", (uint64_t)call->retry_after_s);
    if (streams) put(out, "X-Accel-Buffering", "no"); // proxies hand each event on
}

void reply_begin(struct jbuf *out) { jbuf_text(out, "HTTP/1.1 "); }

void reply_head(const struct call *call, enum framing framing, size_t length, bool keep,
                struct jbuf *out) {
    // a stream that waits for its model has no status of its own yet
    const bool streams = call->state == CALL_STREAMING || call->state == CALL_LOADING;
    const int status = call->state == CALL_LOADING ? 200 : call->status;
    jbuf_printf(out, "%d %s\r\n", status, reason(status));
    put_date(out);
    put_about(out, call, streams);
    if (framing == FRAMING_LENGTH) put_number(out, "Content-Length", length);
    if (framing == FRAMING_CHUNKED) put(out, "Transfer-Encoding", "chunked");
    if (!keep) {
        put(out, "Connection", "close");
    } else if (!call->head.minor) {
        put(out, "Connection", "keep-alive");
    }
    put_cors(out, call);
    jbuf_bytes(out, "\r\n", 2);
}

void reply_starved(struct call *call) {
    static const char *const bodies[] = {
        [API_OPENAI] = "{\"error\":{\"type\":\"unavailable_error\",\"message\":\"out of memory\","
                       "\"param\":null,\"code\":\"out_of_memory\"}}",
        [API_ANTHROPIC] = "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
                          "\"message\":\"out of memory\"}}",
        [API_OLLAMA] = "{\"error\":\"out of memory\"}",
    };
    call->status = 503;
    call->retry_after_s = 1;
    call->content_type = call->etag = NULL;
    call->immutable = true;
    call->more = NULL;
    call_state_set(call, CALL_ENDED); // a stream, too: its sequences end with the call
    call->failed = false;
    jbuf_deinit(&call->out);
    call->taken = 0;
    call->bytes = bodies[call_api_of(call)];
    call->bytes_len = strlen(call->bytes);
}

// ---------------------------------------------------------------- streams that wait

void conn_comment(struct conn *conn) {
    static const char comment[] = ": keep-alive\n\n";
    const struct call *call = conn->call;
    if (conn->out_at < conn->out.len) return; // the reader has not taken the last one
    jbuf_clear(&conn->out);
    conn->out_at = 0;
    if (!conn->is_early) {
        conn->is_early = true;
        conn->framed = false;
        conn->framing = call->head.minor ? FRAMING_CHUNKED : FRAMING_CLOSE;
        conn->keep = call->head.keep_alive && conn->framing == FRAMING_CHUNKED;
        if (!conn->probed) reply_begin(&conn->out);
        reply_head(call, conn->framing, 0, conn->keep, &conn->out);
    }
    if (conn->framing == FRAMING_CHUNKED) {
        jbuf_printf(&conn->out, "%zx\r\n%s\r\n", sizeof comment - 1, comment);
    } else {
        jbuf_text(&conn->out, comment);
    }
    conn_run(conn);
}

void reply_late_refusal(struct call *call) {
    struct jbuf event = {0};
    if (call->out.failed) return; // the connection is cut
    if (call_api_of(call) == API_ANTHROPIC) jbuf_text(&event, "event: error\n");
    jbuf_text(&event, "data: ");
    jbuf_bytes(&event, call->out.data, call->out.len);
    jbuf_text(&event, "\n\n");
    jbuf_deinit(&call->out);
    call->out = event;
    call_count_out(call);
    call->close_after = true;
}

// The event stream's grammar (WHATWG HTML, 9.2.6): lines end in CR, LF or CRLF; "data:" adds a line
// to the event; an empty line ends it. An event that the stream's end cuts off is dropped.
#include "client/sse.h"

#include <string.h>

void sse_init(struct sse *sse) {
    *sse = (struct sse){.line.most = SSE_EVENT_MAX, .data.most = SSE_EVENT_MAX};
}

void sse_deinit(struct sse *sse) {
    jbuf_deinit(&sse->line);
    jbuf_deinit(&sse->data);
}

static void append(struct sse *sse, struct jbuf *to, const char *bytes, size_t len) {
    jbuf_bytes(to, bytes, len);
    if (to->failed && !sse->error) sse->error = to->full ? "an event is too long" : "out of memory";
}

static void event_end(struct sse *sse, sse_event_fn on_event, void *ctx) {
    if (!sse->has_data) return;
    const size_t len = sse->data.len;
    append(sse, &sse->data, "", 1);
    if (!sse->error) on_event(ctx, sse->data.data, len);
    jbuf_clear(&sse->data);
    sse->has_data = false;
}

// A line without its end; an empty one may have no memory.
static void line_take(struct sse *sse, const char *line, size_t len, sse_event_fn on_event,
                      void *ctx) {
    static const char mark[] = "\xEF\xBB\xBF";
    if (!sse->started && len >= 3 && !memcmp(line, mark, 3)) {
        line += 3;
        len -= 3;
    }
    sse->started = true;
    if (len == 0) {
        event_end(sse, on_event, ctx);
        return;
    }
    if (len < 4 || memcmp(line, "data", 4) != 0 || (len > 4 && line[4] != ':')) return;
    size_t skip = len > 4 ? 5 : 4;
    if (len > skip && line[skip] == ' ') skip++;
    if (sse->has_data) append(sse, &sse->data, "\n", 1);
    append(sse, &sse->data, line + skip, len - skip);
    sse->has_data = true;
}

bool sse_feed(struct sse *sse, const char *bytes, size_t len, sse_event_fn on_event, void *ctx) {
    size_t at = 0;
    while (at < len && !sse->error) {
        if (sse->after_cr && bytes[at] == '\n') at++;
        sse->after_cr = false;
        size_t end = at;
        while (end < len && bytes[end] != '\n' && bytes[end] != '\r') end++;
        if (end == len) {
            append(sse, &sse->line, bytes + at, end - at);
        } else if (sse->line.len) {
            append(sse, &sse->line, bytes + at, end - at);
            if (!sse->error) line_take(sse, sse->line.data, sse->line.len, on_event, ctx);
            jbuf_clear(&sse->line);
        } else {
            line_take(sse, bytes + at, end - at, on_event, ctx);
        }
        sse->after_cr = end < len && bytes[end] == '\r';
        at = end + 1;
    }
    return !sse->error;
}

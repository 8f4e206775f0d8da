// Handlers that are not written yet.
#include "assets.h"
#include "live.h"
#include "metrics.h"
#include "routes.h"

#define WEAK __attribute__((weak))
#define ROUTE_AT_ONCE(method, path, access, api, always, handler)                                  \
    ROUTE_PREPARE(method, path, api, handler)
#define ROUTE_PREPARE(method, path, api, handler) WEAK void handler(struct call *call);
#include "routes.def"
#undef ROUTE_PREPARE
#define PENDING(handler)                                                                           \
    WEAK void handler(struct call *call) { call_refuse(call, 501, NULL, NULL, "not written yet"); }
PENDING(assets_get)
PENDING(live_get)
PENDING(live_stream) PENDING(native_props) PENDING(native_slots) PENDING(native_prepare)

    WEAK struct live *live_create(struct server *server) {
    (void)server;
    return (struct live *)1;
}
WEAK void live_destroy(struct live *live) { (void)live; }
WEAK void live_token(struct live *live, const struct call *call, const struct choice *choice,
                     const rn_event *event) {
    (void)live;
    (void)call;
    (void)choice;
    (void)event;
}
WEAK uint64_t live_tick(struct live *live, uint64_t now_ns) {
    (void)live;
    (void)now_ns;
    return 0;
}
WEAK const struct split_format *split_format_of(const char *tmpl) {
    (void)tmpl;
    return NULL;
}
WEAK bool split_needs_special(const struct split_format *format) {
    (void)format;
    return false;
}
WEAK bool split_prompt_opens_reasoning(const struct split_format *format, const char *prompt,
                                       size_t len) {
    (void)format;
    (void)prompt;
    (void)len;
    return false;
}
WEAK void split_init(struct split *split, const struct split_format *format, bool tools,
                     bool in_reasoning) {
    *split = (struct split){.format = format, .tools = tools, .state = in_reasoning};
}
WEAK void split_deinit(struct split *split) { (void)split; }
WEAK void split_feed(struct split *split, const char *text, size_t len, bool final, split_fn fn,
                     void *ctx) {
    (void)split;
    (void) final;
    if (len) fn(ctx, PART_CONTENT, 0, text, len);
}

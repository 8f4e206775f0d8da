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
PENDING(live_stream)
PENDING(native_props) PENDING(native_slots) PENDING(native_prepare)

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

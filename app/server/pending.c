// Handlers that are not written yet.
#include "live.h"
#include "routes.h"

#define PENDING(handler)                                                                           \
    __attribute__((weak)) void handler(struct call *call) {                                        \
        call_refuse(call, 501, NULL, NULL, "not written yet");                                     \
    }
PENDING(live_get)
PENDING(live_stream)
__attribute__((weak)) struct live *live_create(struct server *server) {
    (void)server;
    return (struct live *)1;
}
__attribute__((weak)) void live_destroy(struct live *live) { (void)live; }
__attribute__((weak)) void live_token(struct live *live, const struct call *call,
                                      const struct choice *choice, const rn_event *event) {
    (void)live;
    (void)call;
    (void)choice;
    (void)event;
}
__attribute__((weak)) uint64_t live_tick(struct live *live, uint64_t now_ns) {
    (void)live;
    (void)now_ns;
    return 0;
}

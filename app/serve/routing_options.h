// The options of a replica behind a router, for the server's configuration.
#ifndef RN_SERVE_ROUTING_OPTIONS_H
#define RN_SERVE_ROUTING_OPTIONS_H

#include "options/options.h"
#include "server/routing.h"

struct routing_options {
    struct routing_objective objective[ROUTING_OBJECTIVES_MAX];
};

// Publishes the engine's blocks, where the options ask for it; *out NULL: they do not. port, model:
// for the usual topic. Before the engine's first step. Returns an exit status.
struct kv_events;
int routing_events_open(const struct options *options, rn_engine *engine, int port,
                        const char *model, struct kv_events **out);
// Fills config from the options; `kept` outlives the server. Returns an exit status.
int routing_get(const struct options *options, struct routing_options *kept,
                struct server_config *config);

#endif

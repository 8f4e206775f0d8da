// The options of a replica behind a router, for the server's configuration.
#ifndef RN_SERVE_ROUTING_OPTIONS_H
#define RN_SERVE_ROUTING_OPTIONS_H

#include "options/options.h"
#include "server/routing.h"

struct routing_options {
    struct routing_objective objective[ROUTING_OBJECTIVES_MAX];
};

// Fills config from the options; `kept` outlives the server. Returns an exit status.
int routing_get(const struct options *options, struct routing_options *kept,
                struct server_config *config);

#endif

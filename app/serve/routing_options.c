// Reads --objective.
#include "serve/routing_options.h"

#include <string.h>

#include "app.h"
#include "helpers.h"

static int objectives_get(const struct options *options, struct routing_options *kept,
                          struct server_config *config) {
    const struct option_value *given = &options->value[OPT_OBJECTIVE];
    char name[64];
    for (int i = 0; i < given->n_list; i++) {
        if (routing_objective_parse(given->list[i], &kept->objective[i])) continue;
        char shown[80];
        unicode_quote(given->list[i], strlen(given->list[i]), shown, sizeof shown);
        return app_fail(APP_USAGE, "%s: '%s' is not NAME=N with N from -%d to %d",
                        option_name(options, OPT_OBJECTIVE, name), shown, RN_MAX_PRIORITY,
                        RN_MAX_PRIORITY);
    }
    config->objectives = kept->objective;
    config->n_objectives = given->n_list;
    return APP_OK;
}

int routing_get(const struct options *options, struct routing_options *kept,
                struct server_config *config) {
    return objectives_get(options, kept, config);
}

// Reads --objective and the options of KV events.
#include "serve/routing_options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "helpers.h"
#include "server/kv_events.h"

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

// Before a model is loaded.
static int events_check(const struct options *options) {
    const char *endpoint = option_text(options, OPT_KV_EVENTS_ENDPOINT);
    char name[64];
    if (!endpoint && option_text(options, OPT_KV_EVENTS_REPLAY_ENDPOINT))
        return app_fail(APP_USAGE, "%s needs --kv-events-endpoint",
                        option_name(options, OPT_KV_EVENTS_REPLAY_ENDPOINT, name));
    if (endpoint && option_flag(options, OPT_NO_PREFIX_CACHE))
        return app_fail(APP_USAGE, "%s: --no-prefix-cache leaves no blocks to publish",
                        option_name(options, OPT_KV_EVENTS_ENDPOINT, name));
    return APP_OK;
}

int routing_get(const struct options *options, struct routing_options *kept,
                struct server_config *config) {
    const int code = events_check(options);
    return code ? code : objectives_get(options, kept, config);
}

int routing_events_open(const struct options *options, rn_engine *engine, int port,
                        const char *model, struct kv_events **out) {
    enum { TOPIC_BYTES = 512 };
    char topic[TOPIC_BYTES], host[64] = "localhost", name[64];
    struct kv_events_config config = {.endpoint = option_text(options, OPT_KV_EVENTS_ENDPOINT),
                                      .replay = option_text(options, OPT_KV_EVENTS_REPLAY_ENDPOINT),
                                      .topic = option_text(options, OPT_KV_EVENTS_TOPIC),
                                      .arrays = !strcmp(option_text(options, OPT_KV_EVENTS_FORMAT),
                                                        "array")};
    rn_error err = {0};
    *out = NULL;
    if (!config.endpoint) return APP_OK;
    gethostname(host, sizeof host - 1);
    snprintf(topic, sizeof topic, "kv@%s:%d@%s", host, port, model);
    if (!config.topic) config.topic = topic;
    config.n_groups = (int)rn_engine_block_groups(engine, config.group);
    if (kv_events_create(&config, out, &err))
        return app_fail(APP_USAGE, "%s: %s", option_name(options, OPT_KV_EVENTS_ENDPOINT, name),
                        err.message);
    rn_engine_on_blocks(engine, kv_events_take, *out);
    return APP_OK;
}

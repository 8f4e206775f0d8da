// A served model's life: its names from the start, its parts while it is loaded.
#include "served.h"

#include <stdio.h>
#include <string.h>

#include "helpers.h"
#include "live.h"
#include "metrics.h"
#include "requests.h"
#include "server_state.h"

bool served_init(struct served *served, struct server *server, const char *name,
                 const char *const *aliases, int n_aliases) {
    *served = (struct served){.server = server,
                              .name = name,
                              .aliases = aliases,
                              .n_aliases = n_aliases,
                              .answer_s = 1,
                              .metrics = model_metrics_create()};
    return served->metrics != NULL;
}

void served_deinit(struct served *served) {
    live_destroy(served->live);
    requests_destroy(served->requests);
    model_metrics_destroy(served->metrics);
}

// Clients of Ollama add the tag ":latest" to a name without a tag.
static bool is_name(const char *own, const char *name) {
    const size_t len = strlen(own);
    if (strncmp(own, name, len) != 0) return false;
    return !name[len] || (!strchr(own, ':') && !strcmp(name + len, ":latest"));
}

bool served_is_named(const struct served *served, const char *name) {
    bool is_named = served->name && is_name(served->name, name);
    for (int i = 0; i < served->n_aliases; i++) is_named |= is_name(served->aliases[i], name);
    return is_named;
}

// A short hash of everything that a text depends on, for clients that compare.
static void fingerprint(struct served *served) {
    const rn_model_info *info = served->info;
    uint64_t hash = 0xcbf29ce484222325u;
    char text[512];
    snprintf(text, sizeof text, "%s %s %s %s %llu %llu %s", RN_VERSION, info->name,
             info->architecture, info->format, (unsigned long long)info->n_params,
             (unsigned long long)info->weight_bytes, served->engine_info.kv_type);
    for (const char *at = text; *at; at++) hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    snprintf(served->fingerprint, sizeof served->fingerprint, "runnel-%08x",
             (unsigned)(hash ^ hash >> 32));
}

rn_status served_attach(struct served *served, const struct server_model *parts, rn_error *err) {
    served->model = parts->model;
    served->info = rn_model_get_info(parts->model);
    served->engine = parts->engine;
    served->tmpl = parts->tmpl;
    served->tmpl_source = parts->tmpl_source;
    served->marks = answer_marks_of(parts->tmpl_source);
    served->sampling = parts->sampling;
    served->max_tokens = parts->max_tokens;
    served->bandwidth = parts->bandwidth;
    served->peak = parts->peak;
    served->kv_events = parts->kv_events;
    rn_engine_get_info(parts->engine, &served->engine_info);
    fingerprint(served);
    served->live = live_create(served);
    served->requests = requests_create(served);
    if (!served->live || !served->requests) return err_set(err, RN_ERR_NOMEM, "out of memory");
    served->state = SERVED_READY;
    return RN_OK;
}

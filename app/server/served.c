// A served model's life: its names from the start, its parts while it is loaded.
#include "served.h"

#include <stdio.h>
#include <string.h>

#include "call.h"
#include "helpers.h"
#include "live.h"
#include "metrics.h"
#include "requests.h"
#include "server_state.h"
#include "slots.h"
#include "streams.h"

enum { LOOK_NS = 2000000000 }; // between two looks at a model's files

bool served_init(struct served *served, struct server *server, const char *name,
                 const char *const *aliases, int n_aliases, const struct server_source *source) {
    *served = (struct served){.server = server,
                              .name = name,
                              .aliases = aliases,
                              .n_aliases = n_aliases,
                              .source = source,
                              .answer_s = 1,
                              .metrics = model_metrics_create()};
    return served->metrics != NULL;
}

static void views_destroy(struct served *served) {
    live_destroy(served->live);
    requests_destroy(served->requests);
    slots_destroy(served->slots);
    served->live = NULL;
    served->requests = NULL;
    served->slots = NULL;
}

void served_deinit(struct served *served) {
    views_destroy(served);
    model_metrics_destroy(served->metrics);
}

bool served_name_means(const char *own, const char *name) {
    const size_t len = strlen(own);
    if (strncmp(own, name, len) != 0) return false;
    return !name[len] || (!strchr(own, ':') && !strcmp(name + len, ":latest"));
}

bool served_is_named(const struct served *served, const char *name) {
    bool is_named = served->name && served_name_means(served->name, name);
    for (int i = 0; i < served->n_aliases; i++)
        is_named |= served_name_means(served->aliases[i], name);
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

struct served *served_find(const struct server *server, const char *name) {
    for (int i = 0; i < server->n_served; i++)
        if (served_is_named(&server->served[i], name)) return &server->served[i];
    return NULL;
}

bool served_is_idle(const struct served *served) {
    return !served->users && !served->load && !served->streams;
}

bool served_refuse_lost(struct call *call) {
    rn_error err = {0};
    if (rn_engine_health(call->served->engine, &err) == RN_ERR_IO)
        return call_refuse(call, 503, NULL, "model_changed", "%s", err.message);
    return call_refuse(call, 503, NULL, "device_lost", "The device was lost");
}

uint64_t served_end_ns(const struct served *served) {
    const struct server_source *source = served->source;
    const double longest_s = 1e9; // 30 years
    if (!source || source->keep) return 0;
    const double idle_s = source->idle_s > 0 ? source->idle_s : -1;
    const double stay_s = served->stay.is_given ? served->stay.seconds : idle_s;
    if (stay_s < 0 || stay_s > longest_s) return 0;
    return served->used_ns + (uint64_t)(stay_s * 1e9);
}

rn_status served_attach(struct served *served, const struct server_model *parts, rn_error *err) {
    served->model = parts->model;
    served->info = rn_model_get_info(parts->model);
    served->engine = parts->engine;
    served->tmpl = parts->tmpl;
    served->tmpl_source = parts->tmpl_source;
    served->variables = parts->variables;
    served->marks = answer_marks_of(parts->tmpl_source);
    served->sampling = parts->sampling;
    served->pooling = parts->pooling;
    served->max_tokens = parts->max_tokens;
    served->bandwidth = parts->bandwidth;
    served->peak = parts->peak;
    served->kv_events = parts->kv_events;
    rn_engine_get_info(parts->engine, &served->engine_info);
    fingerprint(served);
    served->live = live_create(served);
    served->requests = requests_create(served);
    served->slots = slots_create(served->engine_info.max_seqs);
    if (!served->live || !served->requests || !served->slots) {
        served_detach(served);
        return err_set(err, RN_ERR_NOMEM, "out of memory");
    }
    served->state = SERVED_READY;
    atomic_store(&served->look_ns, clock_ns() + LOOK_NS);
    return RN_OK;
}

void served_look_at_files(struct served *served) {
    const struct server_config *config = &served->server->config;
    const uint64_t now = clock_ns();
    uint64_t due = atomic_load(&served->look_ns);
    if (!config->note || now < due) return;
    // a file system may never answer: then it has one thread, and not all of them
    if (!atomic_compare_exchange_strong(&served->look_ns, &due, UINT64_MAX)) return;
    rn_error err = {0};
    char line[sizeof err.message + 128];
    if (rn_model_check_files(served->model, &err) == RN_OK) {
        atomic_store(&served->look_ns, clock_ns() + LOOK_NS);
        return;
    }
    snprintf(line, sizeof line, "%s; requests get what was loaded, until it is loaded again",
             err.message);
    config->note(config->note_ctx, line);
}

// An engine without requests sleeps, so its thread ends at once.
void served_detach(struct served *served) {
    rn_engine_stop(served->engine, false);
    served_stats_keep(served);
    views_destroy(served);
    served->model = NULL;
    served->info = NULL;
    served->engine = NULL;
    served->engine_info = (rn_engine_info){0};
    served->tmpl = NULL;
    served->tmpl_source = NULL;
    served->variables = NULL;
    served->pooling = NULL;
    served->bandwidth = served->peak = 0;
}

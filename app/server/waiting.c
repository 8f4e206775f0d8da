// See waiting.h.
#include "waiting.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "conn.h"
#include "fields.h"
#include "helpers.h"
#include "loader.h"
#include "ollama.h"
#include "otlp_span.h"
#include "params.h"
#include "routes.h"
#include "workers.h"

enum { PAUSE_S = 5 };          // until a model that failed is tried again
enum { RESERVE_DIVISOR = 20 }; // of the free memory, which an engine leaves as well

// ---------------------------------------------------------------- names

// Whether the answer is to be a stream of server-sent events, which may have comments. Ollama's are
// lines.
static bool wants_events(const struct call *call, const json_t *body) {
    const char *operation = otlp_operation(call->route);
    return operation && strcmp(operation, "embeddings") != 0 && call_api_of(call) != API_OLLAMA &&
           json_is_true(json_object_get(body, "stream"));
}

// Of a query that names a model. False: refused.
static bool query_find(struct call *call, struct served **found) {
    char name[256];
    if (!call_query(call, "model", name, sizeof name) || !*name) return true;
    *found = served_find(call->server, name);
    return *found || params_no_model(call, name);
}

// Of a body that names a model. False: refused.
static bool body_find(struct call *call, const json_t *body, struct served **found) {
    const struct fields fields = fields_of(call, body, "");
    void (*const route)(struct call *) = call->route->prepare;
    const char *name = "";
    if (!field_string(&fields, "model", SIZE_MAX, &name, NULL)) return false;
    if (!*name && route == ollama_show && // as older clients of Ollama call it
        !field_string(&fields, "name", SIZE_MAX, &name, NULL))
        return false;
    if (!*name && (route == models_load || route == models_unload))
        return field_refuse(&fields, "model", "missing");
    if (*name) *found = served_find(call->server, name);
    return *found || params_no_model(call, name);
}

bool waiting_find(struct call *call) {
    const bool is_bare = call->route->prepare == slots_prepare && !call->body_len;
    const json_t *body = is_bare ? NULL : call_json(call);
    struct served *found = &call->server->served[0];
    if (!body && !is_bare) return false;
    if (call->route->prepare == ollama_pull) { // it is answered without a model
        ollama_pull(call);
        return false;
    }
    if (is_bare ? !query_find(call, &found) : !body_find(call, body, &found)) return false;
    call->served = found;
    call->wants_events = wants_events(call, body);
    call->dismisses = call->route->prepare == models_unload || ollama_dismisses(call, body);
    call->is_use = otlp_operation(call->route) != NULL;
    if (call_api_of(call) == API_OLLAMA) call->stay = ollama_stay(body);
    return true;
}

bool waiting_pick(struct call *call) {
    const struct server *server = call->server;
    struct served *last = &server->served[0], *named = NULL;
    if (!query_find(call, &named)) return false;
    for (int i = 0; !named && i < server->n_served; i++) {
        struct served *at = &server->served[i];
        if (at->state == SERVED_READY &&
            (last->state != SERVED_READY || at->used_ns > last->used_ns))
            last = at;
    }
    call->served = named ? named : last;
    return true;
}

bool waiting_refuse(struct call *call) {
    return call_refuse(call, 503, NULL, "model_not_loaded",
                       "The model `%.200s` is not loaded; a request for it loads it",
                       call->served->name);
}

bool waiting_needs(struct call *call) {
    return call->served->state == SERVED_READY || waiting_refuse(call);
}

// ---------------------------------------------------------------- the list of a model

static void list_add(struct served *served, struct call *call) {
    struct call **at = &served->waiting;
    while (*at) at = &(*at)->waits;
    *at = call;
    call->waits = NULL;
    served->n_waiting++;
}

static void list_remove(struct served *served, struct call *call) {
    struct call **at = &served->waiting;
    while (*at != call) at = &(*at)->waits;
    *at = call->waits;
    served->n_waiting--;
}

// It was refused.
static void refused_end(struct call *call) {
    if (call->state == CALL_LOADING) list_remove(call->served, call);
    call_end(call);
}

static void failure_refuse(struct call *call) {
    const struct served *served = call->served;
    call->retry_after_s = PAUSE_S;
    call_refuse(call, served->fail_status, NULL, "model_failed",
                "The model `%.200s` cannot be loaded: %s", served->name, served->reason);
    if (served->fail_status != 503) call->retry_after_s = 0;
}

// Gives the call to a worker, whose handler finds the model loaded.
static void bind(struct call *call) {
    struct served *served = call->served;
    if (call->state == CALL_LOADING) {
        list_remove(served, call);
        call->load_ns = clock_ns() - call->start_ns;
    }
    call->is_bound = true; // which the worker sees
    if (!workers_push(call->server->workers, call)) {
        call->is_bound = false;
        call_refuse_full(call);
        call_end(call);
        return;
    }
    served->users++;
    served->used_ns = clock_ns();
    if (call->is_use) served->stay = call->stay;
    served->preparing++;
    call->server->counts.preparing++;
    call_state_set(call, CALL_WORKING);
}

// Gives the call to a worker, whose handler reads the model's files. Nothing is loaded for it, and
// no model makes room.
static void describe(struct call *call) {
    call->describes = true; // which the worker sees
    if (!workers_push(call->server->workers, call)) {
        call_refuse_full(call);
        call_end(call);
        return;
    }
    call->server->counts.preparing++;
    call_state_set(call, CALL_WORKING);
}

static void want(struct served *served, uint64_t now_ns) {
    if (served->wanted_ns) return;
    served->wanted_ns = now_ns;
    served->is_planned = false;
    if (served->state == SERVED_UNLOADED || served->state == SERVED_FAILED)
        served->state = SERVED_LOADING;
}

void waiting_begin(struct server *server) {
    for (int i = 0; i < server->n_served; i++) {
        struct served *served = &server->served[i];
        if (!served->source->at_start && !served->source->keep) continue;
        served->is_asked = true;
        want(served, 1 + (uint64_t)i); // in the order of the file
    }
}

static void dismiss(struct call *call) {
    struct served *served = call->served;
    if (served->source->keep) {
        call_refuse(call, 400, "model", "model_is_kept", "The model `%.200s` is kept (keep = yes)",
                    served->name);
    } else {
        served->is_dismissed = served->state == SERVED_READY || served->state == SERVED_LOADING;
        if (call_api_of(call) == API_OLLAMA)
            ollama_dismissed(call);
        else
            jbuf_text(&call->out, "{\"success\":true}");
        call_answer(call);
    }
    call_end(call);
}

void waiting_take(struct call *call) {
    struct served *served = call->served;
    const uint64_t now = clock_ns();
    const bool is_draining = atomic_load(&call->server->phase) == PHASE_DRAINING;
    const bool is_there = served->state == SERVED_READY && !served->yields;
    if (call->dismisses) {
        dismiss(call);
    } else if (call->route->prepare == ollama_show && !is_there) {
        describe(call);
    } else if (served->fails || (served->state == SERVED_FAILED &&
                                 now - served->failed_ns < PAUSE_S * 1000000000ull)) {
        failure_refuse(call);
        call_end(call);
    } else if (!served_has_room(served)) {
        call_refuse_full(call);
        call_end(call);
    } else if (is_draining && served->state != SERVED_READY) {
        call_refuse(call, 503, NULL, NULL, "Draining");
        call_end(call);
    } else if (is_there) {
        bind(call);
    } else {
        list_add(served, call);
        call_state_set(call, CALL_LOADING);
        call->written_ns = now;
        if (served->state != SERVED_READY) want(served, now);
    }
}

void waiting_end(struct call *call) {
    struct served *served = call->served;
    if (!served->source) return;
    if (call->state == CALL_LOADING) list_remove(served, call);
    if (!call->is_bound) return;
    served->users--;
    served->used_ns = clock_ns();
}

// ---------------------------------------------------------------- models

static void reason_set(struct served *served, const char *reason) {
    snprintf(served->reason, sizeof served->reason, "%.*s", SERVED_REASON_SIZE - 1, reason);
}

// reason NULL: it is known.
static void fail(struct served *served, int status, const char *reason) {
    if (reason) reason_set(served, reason);
    served->state = SERVED_FAILED;
    served->fails = false;
    served->fail_status = status;
    served->failed_ns = clock_ns();
    served->wanted_ns = 0;
    served->is_asked = served->is_dismissed = false;
    while (served->waiting) {
        struct call *call = served->waiting;
        failure_refuse(call);
        refused_end(call);
    }
}

// Its parts go; with `fails` the model is FAILED afterwards.
static void unload(struct served *served) {
    struct server *server = served->server;
    if (served->engine) {
        epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, rn_engine_event_fd(served->engine), NULL);
        served_detach(served);
    }
    served->state = SERVED_UNLOADING;
    served->wanted_ns = 0;
    served->is_dismissed = served->yields = false;
    loader_start(server->loader, (struct lineup_step){LINEUP_UNLOAD, served});
}

static rn_status ready(struct served *served, const struct server_model *parts, rn_error *err) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = served};
    rn_status status = served_attach(served, parts, err);
    if (!status) status = rn_engine_start(served->engine, err);
    if (!status && epoll_ctl(served->server->epoll_fd, EPOLL_CTL_ADD,
                             rn_engine_event_fd(served->engine), &event))
        status = err_set(err, RN_ERR_IO, "epoll: %s", strerror(errno));
    served->wanted_ns = 0;
    served->is_asked = false;
    served->used_ns = clock_ns();
    served->stay = (struct served_stay){0};
    return status;
}

// Of all loaded models of the device: as much as was free there before the first one.
static uint64_t bytes_max(const struct served *served) {
    const struct server *server = served->server;
    if (server->config.loading.bytes_max) return server->config.loading.bytes_max;
    for (int i = 0; i < server->n_served; i++) {
        const struct served *at = &server->served[i];
        if (at->bytes_max && !strcmp(at->need.device, served->need.device)) return at->bytes_max;
    }
    return served->need.available - served->need.available / RESERVE_DIVISOR;
}

static void planned(struct served *served, const struct loader_result *result) {
    if (result->status && result->status != RN_ERR_NOMEM) {
        fail(served, 500, result->err.message);
        return;
    }
    served->need = result->need;
    served->is_planned = true;
    served->is_short = result->status != RN_OK;
    if (served->is_short) reason_set(served, result->err.message);
    if (!served->bytes_max) served->bytes_max = bytes_max(served);
}

static void loaded(struct served *served, const struct loader_result *result) {
    rn_error err = result->err;
    rn_status status = result->status;
    if (status) {
        fail(served, status == RN_ERR_NOMEM ? 503 : 500, err.message);
        return;
    }
    status = ready(served, &result->parts, &err);
    if (!status) return;
    served->fails = true;
    served->fail_status = 503;
    reason_set(served, err.message);
    unload(served);
}

static void unloaded(struct served *served) {
    struct server *server = served->server;
    workers_tidy(server->workers);
    for (int i = 0; i < server->n_served; i++) server->served[i].is_planned = false;
    if (served->fails) {
        fail(served, served->fail_status, NULL);
        return;
    }
    served->state = served->wanted_ns ? SERVED_LOADING : SERVED_UNLOADED;
    if (served->waiting) want(served, clock_ns());
}

static void result_take(struct server *server) {
    struct loader_result result;
    if (!loader_take(server->loader, &result)) return;
    struct served *served = result.step.served;
    if (result.step.act == LINEUP_PLAN) {
        planned(served, &result);
    } else if (result.step.act == LINEUP_LOAD) {
        loaded(served, &result);
    } else {
        unloaded(served);
    }
}

static uint64_t act(struct server *server, uint64_t now_ns) {
    uint64_t due_ns = 0;
    if (loader_is_busy(server->loader) || atomic_load(&server->phase) == PHASE_DRAINING) return 0;
    const struct lineup_step step = lineup_next(server->served, server->n_served, now_ns, &due_ns);
    switch (step.act) {
    case LINEUP_NOTHING:
        return due_ns;
    case LINEUP_PLAN:
    case LINEUP_LOAD:
        loader_start(server->loader, step);
        break;
    case LINEUP_FAIL:
        step.served->fails = true;
        step.served->fail_status = 503;
        unload(step.served);
        break;
    case LINEUP_UNLOAD:
        unload(step.served);
        break;
    }
    return due_ns;
}

void waiting_lost(struct served *served) {
    rn_error err = {0};
    const rn_status status = rn_engine_health(served->engine, &err);
    served->fails = served->is_dismissed = true;
    served->fail_status = 503;
    reason_set(served, status == RN_ERR_IO ? err.message : "The device was lost");
}

// ---------------------------------------------------------------- time

// Returns when the call is due again.
static uint64_t call_look(struct call *call, uint64_t now_ns) {
    const struct server_config *config = &call->server->config;
    const uint64_t silence_ns = (uint64_t)(config->keepalive_s * 1e9);
    const uint64_t end_ns =
        config->request_s > 0 ? call->start_ns + (uint64_t)(config->request_s * 1e9) : 0;
    if (end_ns && now_ns >= end_ns) {
        call_refuse(call, 504, NULL, "timeout",
                    "The request took longer than the server's --request-timeout allows");
        refused_end(call);
        return 0;
    }
    if (!call->wants_events) return end_ns;
    if (now_ns >= call->written_ns + silence_ns) {
        call->written_ns = now_ns;
        conn_comment(call->conn); // which may end the call
        return server_sooner(end_ns, now_ns + silence_ns);
    }
    return server_sooner(end_ns, call->written_ns + silence_ns);
}

static uint64_t calls_look(struct served *served, uint64_t now_ns) {
    uint64_t due_ns = 0;
    for (struct call *call = served->waiting, *next; call; call = next) {
        next = call->waits;
        due_ns = server_sooner(due_ns, call_look(call, now_ns));
    }
    return due_ns;
}

uint64_t waiting_turn(struct server *server, uint64_t now_ns) {
    if (!server->loader) return 0;
    result_take(server);
    uint64_t due_ns = act(server, now_ns);
    for (int i = 0; i < server->n_served; i++) {
        struct served *served = &server->served[i];
        while (served->waiting && served->state == SERVED_READY && !served->yields)
            bind(served->waiting);
        due_ns = server_sooner(due_ns, calls_look(served, now_ns));
    }
    return due_ns;
}

void waiting_drain(struct server *server) {
    for (int i = 0; i < server->n_served; i++) {
        struct served *served = &server->served[i];
        while (served->waiting) {
            struct call *call = served->waiting;
            call_refuse(call, 503, NULL, NULL, "Draining");
            refused_end(call);
        }
        served->wanted_ns = 0;
        served->yields = false; // nothing is loaded any more
    }
}

// A served model: its names, and while it is loaded its engine and everything that belongs to it.
// The I/O thread owns it. A worker reads it through call->served, which does not change while the
// worker has the call.
//
// A handler finds its model in call->served. server->served[n_served] are all models of the server;
// the first one is the default.
#ifndef RN_SERVER_SERVED_H
#define RN_SERVER_SERVED_H

#include <stdatomic.h>

#include "answer_marks.h"
#include "server.h"

struct live;
struct model_metrics;
struct requests;
struct stream;

enum served_state {
    SERVED_UNLOADED,
    SERVED_READY,
};

struct served {
    struct server *server;
    const char *name;           // for clients
    const char *const *aliases; // further names; `name` may be among them
    int n_aliases;
    enum served_state state;
    // Constant while it is READY.
    const rn_model *model;
    const rn_model_info *info;
    rn_engine *engine; // NULL: not loaded
    rn_engine_info engine_info;
    const rn_chat_template *tmpl;      // NULL: the model cannot chat
    const char *tmpl_source;           // NULL: none
    struct answer_marks marks;         // how the model marks reasoning and tool calls
    rn_sampling sampling;              // for requests that give none
    int max_tokens;                    // the same; -1: up to the context
    double bandwidth;                  // bytes/s; 0: unknown
    double peak;                       // operations/s; 0: unknown
    char fingerprint[32];              // system_fingerprint
    const struct kv_events *kv_events; // NULL: none
    // I/O thread
    int load;                      // choices that the engine has
    int preparing;                 // calls that workers have
    double answer_s;               // how long a generation takes, smoothed
    struct stream *streams;        // all engine requests, also of calls that are gone
    struct model_metrics *metrics; // always there
    struct live *live;
    struct requests *requests;
};

// False: out of memory.
bool served_init(struct served *served, struct server *server, const char *name,
                 const char *const *aliases, int n_aliases);
void served_deinit(struct served *served); // its engine, if any, has no request and no thread
// The model is there: all but its thread. The caller keeps the parts until served_deinit.
rn_status served_attach(struct served *served, const struct server_model *parts, rn_error *err);
// Whether this is one of its names.
bool served_is_named(const struct served *served, const char *name);

// Choices that it takes at a time, running or waiting. The engine's queue has room for all of them:
// until a step takes them, choices that are about to run wait there too.
static inline int served_places(const struct served *served) {
    return served->engine_info.max_waiting;
}

// Whether tokens are drafted.
static inline bool served_drafts(const struct served *served) {
    return served->engine_info.drafters && *served->engine_info.drafters;
}

// The number of choices that may wait when all others run.
static inline int served_waiting_max(const rn_engine_info *info) {
    return info->max_waiting > info->max_seqs ? info->max_waiting - info->max_seqs : 0;
}

#endif

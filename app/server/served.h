// A served model: its names, and while it is loaded its engine and everything that belongs to it.
// The I/O thread owns it. A worker reads it through call->served, which stays loaded until the call
// has ended.
//
//   UNLOADED ─► LOADING ─► READY ─► UNLOADING ─► UNLOADED    lineup.c decides, waiting.c acts
//                  └──► FAILED ─► LOADING                    a later request tries again
//
// A server of one model has no other state than READY once its phase is READY. A handler finds its
// model in call->served. server->served[n_served] are all models; the first one is the default.
#ifndef RN_SERVER_SERVED_H
#define RN_SERVER_SERVED_H

#include <stdatomic.h>

#include "answer_marks.h"
#include "server.h"

struct call;
struct live;
struct model_metrics;
struct requests;
struct slots;
struct stream;

enum served_state {
    SERVED_UNLOADED,
    SERVED_LOADING, // also while it waits for memory
    SERVED_READY,
    SERVED_UNLOADING,
    SERVED_FAILED, // `reason` says why
};

enum { SERVED_REASON_SIZE = 256 };

// How long an unused model stays loaded. Not given: as its source says.
struct served_stay {
    bool is_given;
    double seconds; // negative: until another model needs its memory
};

struct served {
    struct server *server;
    const char *name;           // for clients
    const char *const *aliases; // further names; `name` may be among them
    int n_aliases;
    const struct server_source *source; // how it is loaded; NULL: the server's only model
    enum served_state state;
    // Constant while it is READY.
    const rn_model *model;
    const rn_model_info *info;
    rn_engine *engine; // NULL: not loaded
    rn_engine_info engine_info;
    const rn_chat_template *tmpl;      // NULL: the model cannot chat
    const char *tmpl_source;           // NULL: none
    const char *variables;             // of the template: JSON defaults of requests' own, or NULL
    struct answer_marks marks;         // how the model marks reasoning and tool calls
    rn_sampling sampling;              // for requests that give none
    int max_tokens;                    // the same; -1: up to the context
    const char *pooling;               // of embeddings, the same; NULL if the model's files say it
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
    struct slots *slots;
    // workers
    _Atomic uint64_t look_ns; // when its files are compared next; UINT64_MAX while a worker
                              // compares them, and after a difference
    int users;                // calls that it was given and that have not ended
    struct call *waiting;     // calls that wait for it, the oldest first
    int n_waiting;
    uint64_t wanted_ns;      // since when it is to be loaded; 0: it is not
    bool is_asked;           // it is to be loaded even if no call waits
    bool yields;             // another model needs its memory: new calls wait
    bool is_dismissed;       // it is to be unloaded as soon as it is idle
    uint64_t used_ns;        // when a call of it last began or ended
    struct served_stay stay; // since used_ns
    bool is_planned;         // `need` is known
    bool is_short;           // too little memory was free when it was planned
    struct server_need need;
    uint64_t bytes_max; // of all loaded models of its device; 0: unknown
    bool fails;         // it is being unloaded because of a failure
    int fail_status;    // of the answers that tell `reason`
    uint64_t failed_ns; // when it became FAILED
    char reason[SERVED_REASON_SIZE];
    rn_engine_stats past; // counters of its engines that are gone
    rn_store_stats past_store;
};

// source NULL: none. False: out of memory.
bool served_init(struct served *served, struct server *server, const char *name,
                 const char *const *aliases, int n_aliases, const struct server_source *source);
void served_deinit(struct served *served); // its engine, if any, has no request and no thread
// The model is there. Its engine is started; the caller keeps the parts until served_detach.
rn_status served_attach(struct served *served, const struct server_model *parts, rn_error *err);
// The engine has no request any more. Its counters stay.
void served_detach(struct served *served);
// Whether a client that says `name` means `own`: clients of Ollama add the tag ":latest" to a name
// without a tag.
bool served_name_means(const char *own, const char *name);
// Whether this is one of its names.
bool served_is_named(const struct served *served, const char *name);
// The model of that name; NULL: none.
struct served *served_find(const struct server *server, const char *name);
// Tells the operator once if a file of the model was written to after it was opened. Looks every
// few seconds at most. A worker's: the file system may be slow.
void served_look_at_files(struct served *served);
// Whether nothing is running or on its way: it may be unloaded.
bool served_is_idle(const struct served *served);
// Its engine has ended (rn_engine_health). False.
bool served_refuse_lost(struct call *call);
// When it is to be unloaded unless a call comes before; 0: never.
uint64_t served_end_ns(const struct served *served);
// The counters of all its engines, and the present figures of the one that is there.
void served_stats(const struct served *served, rn_engine_stats *out);
// The same of its page store. False: it has none now.
bool served_store_stats(const struct served *served, rn_store_stats *out);
void served_stats_keep(struct served *served); // its engine goes

// Choices that it takes at a time, running or waiting. The engine's queue has room for all of them:
// until a step takes them, choices that are about to run wait there too.
static inline int served_places(const struct served *served) {
    return served->source ? served->source->places : served->engine_info.max_waiting;
}

// Whether it takes one more call.
static inline bool served_has_room(const struct served *served) {
    return served->load + served->preparing + served->n_waiting < served_places(served);
}

// Whether tokens are drafted.
static inline bool served_drafts(const struct served *served) {
    return served->engine_info.drafters && *served->engine_info.drafters;
}

// The name of the pooling of embeddings whose request names none.
static inline const char *served_pooling(const struct served *served) {
    return served->pooling         ? served->pooling
           : served->info->pooling ? served->info->pooling
                                   : "mean";
}

// The number of choices that may wait when all others run.
static inline int served_waiting_max(const rn_engine_info *info) {
    return info->max_waiting > info->max_seqs ? info->max_waiting - info->max_seqs : 0;
}

#endif

// The state that the server's files share. Constant after server_ready unless a comment says
// otherwise.
#ifndef RN_SERVER_SERVER_STATE_H
#define RN_SERVER_SERVER_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "answer_marks.h"
#include "server.h"

enum server_phase { PHASE_LOADING, PHASE_READY, PHASE_DRAINING };

struct call;
struct http;
struct kept;
struct live;
struct metrics;
struct requests;
struct stream;
struct workers;

// The present load, for /metrics and for limits. An idle server has zeros.
struct server_counts {
    int connections;
    int active;          // calls past READING
    int preparing;       // calls that workers have
    size_t body_bytes;   // of requests, of parsed ones the parsed size
    size_t answer_bytes; // kept for answers that come in one piece
};

struct server {
    struct server_config config;
    _Atomic int phase;     // enum server_phase
    _Atomic bool stopping; // the I/O thread is to end at once
    // set by server_ready, before PHASE_READY
    const rn_model *model;
    const rn_model_info *info;
    rn_engine *engine;
    rn_engine_info engine_info;
    const rn_chat_template *tmpl; // NULL: the model cannot chat
    const char *tmpl_source;      // NULL: none
    struct answer_marks marks;    // how the model marks reasoning and tool calls
    double bandwidth;             // bytes/s; 0: unknown
    double peak;                  // operations/s; 0: unknown
    int64_t created;              // seconds since 1970
    char fingerprint[32];         // system_fingerprint

    int epoll_fd, wake_fd, signal_fd;
    bool hangs_up; // it had a terminal, and SIGHUP was not ignored (nohup)
    int port;
    pthread_t thread;
    bool has_thread;
    // I/O thread
    int load;        // choices that the engine has
    double answer_s; // how long a generation takes, smoothed
    struct server_counts counts;
    struct call *calls;     // past READING
    struct stream *streams; // all engine requests, also of calls that are gone
    struct call *woken;     // whose connections have something to do
    int end_signal;         // that began the drain, or SERVER_LOST; 0: none
    bool cut_short;         // a second signal ended streams before their end
    uint64_t drain_until;   // ns; 0: no limit
    bool drain_late;        // that was reached once
    struct metrics *metrics;
    struct workers *workers;
    struct http *http;
    struct live *live;
    struct kept *kept;
    struct requests *requests;
};

// Choices that the server takes at a time, running or waiting. The engine's queue has room for all
// of them: until a step takes them, choices that are about to run wait there too.
static inline int server_places(const struct server *server) {
    return server->engine_info.max_waiting;
}

// Whether tokens are drafted.
static inline bool server_drafts(const struct server *server) {
    return server->engine_info.drafters && *server->engine_info.drafters;
}

// The number of them that may wait when all others run.
static inline int server_waiting_max(const rn_engine_info *info) {
    return info->max_waiting > info->max_seqs ? info->max_waiting - info->max_seqs : 0;
}

#endif

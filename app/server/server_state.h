// The state that the server's files share; served.h has the models'. Constant after server_ready
// unless a comment says otherwise.
#ifndef RN_SERVER_SERVER_STATE_H
#define RN_SERVER_SERVER_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "served.h"

enum server_phase { PHASE_LOADING, PHASE_READY, PHASE_DRAINING };

struct call;
struct http;
struct kept;
struct loader;
struct metrics;
struct turns;
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
    int64_t created;       // seconds since 1970
    struct served *served; // [n_served], the models; the first is the default
    int n_served;

    int epoll_fd, wake_fd, signal_fd;
    bool hangs_up; // it had a terminal, and SIGHUP was not ignored (nohup)
    int port;
    pthread_t thread;
    bool has_thread;
    // I/O thread
    struct server_counts counts;
    uint64_t n_requests;  // that engines got; counted where there are several
    struct call *calls;   // past READING
    struct call *woken;   // whose connections have something to do
    int end_signal;       // that began the drain, or SERVER_LOST; 0: none
    bool cut_short;       // a second signal ended streams before their end
    uint64_t drain_until; // ns; 0: no limit
    bool drain_late;      // that was reached once
    struct metrics *metrics;
    struct workers *workers;
    struct http *http;
    struct kept *kept;
    struct loader *loader; // NULL: there is one model alone
    struct turns *turns;   // any thread
};

// The earlier one of two times; 0: none.
static inline uint64_t server_sooner(uint64_t a, uint64_t b) { return !a || (b && b < a) ? b : a; }

#endif

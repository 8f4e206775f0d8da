// What the server's own files share. Constant after server_ready, but for what says otherwise.
#ifndef RN_SERVER_SERVER_STATE_H
#define RN_SERVER_SERVER_STATE_H

#include <stdatomic.h>

#include "server.h"

enum server_phase { PHASE_LOADING, PHASE_READY, PHASE_DRAINING };

struct metrics;

struct server {
    struct server_config config;
    _Atomic int phase; // enum server_phase
    // set by server_ready, before PHASE_READY
    const rn_model *model;
    const rn_model_info *info;
    rn_engine *engine;
    rn_engine_info engine_info;
    const rn_chat_template *tmpl; // NULL: the model cannot chat
    const char *tmpl_source;      // NULL: unknown
    double bandwidth;             // bytes/s; 0: unknown
    int64_t created;              // seconds since 1970
    char fingerprint[32];         // system_fingerprint

    struct metrics *metrics; // I/O thread
    struct http *http;       // I/O thread
    struct live *live;       // I/O thread
};

#endif

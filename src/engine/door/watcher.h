// Pictures of the engine for other threads. A watcher has the memory of one picture. The picture
// belongs to the step's thread from ask until it is taken, and to the watcher's thread otherwise;
// the state hands it over. The step's thread takes no lock and no memory for it.
//
//   EMPTY, TAKEN --- watcher_ask: the watcher's thread ---> ASKED
//   ASKED --- watcher_take_all: the step's thread, between two steps ---> TAKEN
#ifndef RN_ENGINE_DOOR_WATCHER_H
#define RN_ENGINE_DOOR_WATCHER_H

#include <stdatomic.h>

#include "base/status.h"
#include "runnel.h"

struct driver;

enum watcher_state { WATCHER_EMPTY, WATCHER_ASKED, WATCHER_TAKEN };

struct watcher {
    struct driver *driver;
    struct watcher *next; // of the driver's
    _Atomic int state;
    rn_stream_view *stream; // [max_live]
    rn_page_view *page;     // [kv_view_pages]
    _Atomic uint64_t followed;
    rn_account account; // of the followed request
    rn_engine_stats stats;
    rn_view view; // points to these
};

// Any thread, also while the engine runs.
rn_status watcher_init(struct watcher *watcher, struct driver *driver, rn_error *err);
// Not while the engine's thread runs, nor during a step.
void watcher_deinit(struct watcher *watcher);

// --- the watcher's thread ---

void watcher_ask(struct watcher *watcher);
void watcher_follow(struct watcher *watcher, uint64_t request);
const rn_view *watcher_view(struct watcher *watcher);

// --- the step's thread ---

void watcher_take_all(struct driver *driver); // the pictures that were asked for

#endif

// The driver of the steps: the caller, or a thread of the engine's own that puts events into a ring
// for one reader. The thread takes no lock; it sleeps while there is nothing to do, and while the
// ring has no room for the events of its last step.
//
//   IDLE --- start ---> RUNNING --- stop: the thread has ended ---> STOPPED --- start ---> RUNNING
//
// The steps belong to the caller in IDLE, to the thread in RUNNING, and to the holder of `life` in
// STOPPED. That is the reader, for events that the thread could not deliver any more.
#ifndef RN_ENGINE_DOOR_DRIVER_H
#define RN_ENGINE_DOOR_DRIVER_H

#include <pthread.h>

#include "base/bell.h"
#include "engine/door/event_ring.h"
#include "engine/door/stats_board.h"
#include "engine/door/watcher.h"
#include "engine/step/engine.h"

enum driver_state { DRIVER_IDLE, DRIVER_RUNNING, DRIVER_STOPPED };

struct driver {
    struct engine *engine;
    struct stats_board board;
    _Atomic int state;
    _Atomic bool draining;              // end when every request has
    _Atomic bool halting;               // end at once
    struct bell bell;                   // the thread sleeps here
    _Atomic bool starved;               // it waits for room in the ring
    _Atomic(struct watcher *) watchers; // linked by next
    struct event_ring ring;
    int fd;               // eventfd, readable while events wait; -1: never started
    bool is_told;         // that the device was lost, by the descriptor; the step's
    _Atomic bool raised;  // it was written to since the reader found the ring empty
    pthread_mutex_t life; // start, stop, and the reader when there is no thread
    pthread_t thread;
    bool has_thread; // that was not joined; under life
};

rn_status driver_init(struct driver *driver, struct engine *engine, rn_error *err);
void driver_deinit(struct driver *driver); // ends the thread at once; before the engine goes

// --- any thread ---

static inline bool driver_is_running(const struct driver *driver) {
    return atomic_load(&driver->state) == DRIVER_RUNNING;
}
void driver_get_stats(const struct driver *driver, rn_engine_stats *out);
void driver_forget_prefixes(struct driver *driver);
rn_status driver_start(struct driver *driver, rn_error *err);
void driver_stop(struct driver *driver, bool drain);

// --- the reader ---

int driver_wait(struct driver *driver, rn_event *out, int max, int timeout_ms);

// --- the caller that runs the steps itself ---

// Whether the steps are the caller's, no request is known, and all events were collected.
bool driver_is_idle(const struct driver *driver);
rn_status driver_step(struct driver *driver, bool *busy);
bool driver_next_event(struct driver *driver, rn_event *out);

#endif

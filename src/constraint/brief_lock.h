// Locks that the step's thread shares with threads of lower priority, for moments. One of these may
// lose its core while it holds a lock. So nobody sleeps at such a lock: a caller that finds it
// taken for longer than a moment does without what it guards.
#ifndef RN_CONSTRAINT_BRIEF_LOCK_H
#define RN_CONSTRAINT_BRIEF_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#include "base/pause.h"

static inline bool brief_lock(pthread_mutex_t *mutex) {
    enum { TRIES = 500 }; // a few microseconds
    for (int i = 0; i < TRIES; i++) {
        if (pthread_mutex_trylock(mutex) == 0) return true;
        cpu_pause();
    }
    return false;
}

#endif

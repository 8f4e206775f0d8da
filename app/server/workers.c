// Two rings under one lock that is held for a few instructions. The I/O thread pushes and pops,
// workers take and give back.
#include "workers.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "helpers.h"
#include "routes.h"
#include "waiting.h"

struct ring {
    struct call **item; // [capacity]
    int first, count;
};

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t some;    // there is work, or the end
    struct ring todo, done; // together at most capacity calls, and those in work
    int capacity, in_hand;
    bool untidy; // there is memory to give back
    bool ending;
    int wake_fd;
    int n_threads;
    pthread_t thread[];
};

static void ring_put(struct ring *ring, int capacity, struct call *call) {
    ring->item[(ring->first + ring->count++) % capacity] = call;
}

static struct call *ring_take(struct ring *ring, int capacity) {
    if (!ring->count) return NULL;
    struct call *call = ring->item[ring->first];
    ring->first = (ring->first + 1) % capacity;
    ring->count--;
    return call;
}

// The allocator keeps freed memory between blocks that are in use; the lock is not held.
static void tidy(struct workers *workers) {
    workers->untidy = false;
    pthread_mutex_unlock(&workers->lock);
    malloc_trim(0);
    pthread_mutex_lock(&workers->lock);
}

static void *work(void *ctx) {
    struct workers *workers = ctx;
    pthread_mutex_lock(&workers->lock);
    for (;;) {
        while (!workers->ending && !workers->todo.count && !workers->untidy) {
            pthread_cond_wait(&workers->some, &workers->lock);
        }
        if (workers->ending) break;
        if (!workers->todo.count) {
            tidy(workers);
            continue;
        }
        struct call *call = ring_take(&workers->todo, workers->capacity);
        pthread_mutex_unlock(&workers->lock);
        // a call of several models comes twice
        if (call->is_bound || call->describes)
            call->route->prepare(call);
        else
            waiting_find(call);
        pthread_mutex_lock(&workers->lock);
        ring_put(&workers->done, workers->capacity, call);
        const uint64_t one = 1;
        const ssize_t written = write(workers->wake_fd, &one, sizeof one);
        (void)written; // a full counter is readable all the same
    }
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

// Signals are the I/O thread's.
static bool threads_start(struct workers *workers, int n_threads) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (workers->n_threads < n_threads &&
           !pthread_create(&workers->thread[workers->n_threads], NULL, work, workers)) {
        workers->n_threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return workers->n_threads == n_threads;
}

rn_status workers_create(int n_threads, int capacity, int wake_fd, struct workers **out,
                         rn_error *err) {
    struct workers *workers =
        calloc(1, sizeof *workers + (size_t)n_threads * sizeof *workers->thread);
    *out = NULL;
    if (!workers) return err_set(err, RN_ERR_NOMEM, "out of memory");
    workers->capacity = capacity;
    workers->wake_fd = wake_fd;
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->some, NULL);
    workers->todo.item = calloc((size_t)capacity, sizeof(struct call *));
    workers->done.item = calloc((size_t)capacity, sizeof(struct call *));
    if (!workers->todo.item || !workers->done.item || !threads_start(workers, n_threads)) {
        workers_destroy(workers);
        return err_set(err, RN_ERR_NOMEM, "out of memory");
    }
    *out = workers;
    return RN_OK;
}

void workers_destroy(struct workers *workers) {
    if (!workers) return;
    pthread_mutex_lock(&workers->lock);
    workers->ending = true;
    pthread_cond_broadcast(&workers->some);
    pthread_mutex_unlock(&workers->lock);
    for (int i = 0; i < workers->n_threads; i++) pthread_join(workers->thread[i], NULL);
    pthread_cond_destroy(&workers->some);
    pthread_mutex_destroy(&workers->lock);
    free(workers->todo.item);
    free(workers->done.item);
    free(workers);
}

void workers_tidy(struct workers *workers) {
    if (!workers) return;
    pthread_mutex_lock(&workers->lock);
    workers->untidy = true;
    pthread_cond_signal(&workers->some);
    pthread_mutex_unlock(&workers->lock);
}

bool workers_push(struct workers *workers, struct call *call) {
    pthread_mutex_lock(&workers->lock);
    const bool room = workers->in_hand < workers->capacity;
    if (room) {
        workers->in_hand++;
        ring_put(&workers->todo, workers->capacity, call);
        pthread_cond_signal(&workers->some);
    }
    pthread_mutex_unlock(&workers->lock);
    return room;
}

struct call *workers_pop(struct workers *workers) {
    pthread_mutex_lock(&workers->lock);
    struct call *call = ring_take(&workers->done, workers->capacity);
    workers->in_hand -= call != NULL;
    pthread_mutex_unlock(&workers->lock);
    return call;
}

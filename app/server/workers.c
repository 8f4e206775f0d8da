// Queues under one lock that is held for a few instructions. The I/O thread pushes and pops,
// workers take and give back.
#include "workers.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "generation_shape.h"
#include "helpers.h"
#include "routes.h"
#include "waiting.h"

enum { SMALL_BYTES = 64 << 10, TIDY_NS = 1000000000 };

struct queue {
    struct call *first, *last;
};

struct lane {
    struct workers *workers;
    struct queue small, large;
    pthread_cond_t some; // there is work, or the end
    bool compiles;
};

struct workers {
    pthread_mutex_t lock;
    struct lane handlers, compilers;
    struct queue done;
    int capacity, in_hand;
    uint64_t n_tickets;
    uint64_t tidy_ns; // when to give memory back; 0: there is none
    bool ending;
    int wake_fd;
    int n_threads;
    pthread_t thread[];
};

static void queue_put(struct queue *queue, struct call *call) {
    call->queued = NULL;
    *(queue->first ? &queue->last->queued : &queue->first) = call;
    queue->last = call;
}

static struct call *queue_take(struct queue *queue) {
    struct call *call = queue->first;
    if (call) queue->first = call->queued;
    return call;
}

static void lane_put(struct lane *lane, struct call *call, size_t bytes) {
    call->ticket = lane->workers->n_tickets++;
    queue_put(bytes <= SMALL_BYTES ? &lane->small : &lane->large, call);
    pthread_cond_broadcast(&lane->some);
}

static struct call *lane_take(struct lane *lane, bool small_alone) {
    const struct call *small = lane->small.first, *large = lane->large.first;
    if (small_alone || !large || (small && small->ticket < large->ticket))
        return queue_take(&lane->small);
    return queue_take(&lane->large);
}

// The allocator keeps freed memory between blocks that are in use. Giving it back locks the
// allocator, so no thread of low priority does it. The workers' lock is not held.
static void tidy(struct workers *workers) {
    workers->tidy_ns = 0;
    pthread_mutex_unlock(&workers->lock);
    malloc_trim(0);
    pthread_mutex_lock(&workers->lock);
}

// Until there is work, the end, or something to be given back.
static void rest(struct lane *lane) {
    struct workers *workers = lane->workers;
    const uint64_t due = workers->tidy_ns;
    if (!due || lane->compiles) {
        pthread_cond_wait(&lane->some, &workers->lock);
    } else if (clock_ns() >= due) {
        tidy(workers);
    } else {
        const struct timespec until = {.tv_sec = (time_t)(due / 1000000000),
                                       .tv_nsec = (long)(due % 1000000000)};
        pthread_cond_timedwait(&lane->some, &workers->lock, &until);
    }
}

// A call of several models comes twice. Returns the bytes of a shape that is to be compiled.
static size_t handle(struct call *call) {
    if (call->is_bound) served_look_at_files(call->served);
    if (call->is_bound || call->describes)
        call->route->prepare(call);
    else
        waiting_find(call);
    return generation_shape_due(call);
}

// The call is this thread's.
static void run(struct lane *lane, struct call *call) {
    struct workers *workers = lane->workers;
    size_t due = 0;
    pthread_mutex_unlock(&workers->lock);
    if (!lane->compiles)
        due = handle(call);
    else if (!call->is_gone)
        generation_shape_compile(call);
    pthread_mutex_lock(&workers->lock);
    if (due) {
        lane_put(&workers->compilers, call, due);
        return;
    }
    queue_put(&workers->done, call);
    const uint64_t one = 1;
    const ssize_t written = write(workers->wake_fd, &one, sizeof one);
    (void)written; // a full counter is readable all the same
}

static void work(struct lane *lane, bool small_alone) {
    struct workers *workers = lane->workers;
    pthread_mutex_lock(&workers->lock);
    while (!workers->ending) {
        struct call *call = lane_take(lane, small_alone);
        if (call)
            run(lane, call);
        else
            rest(lane);
    }
    pthread_mutex_unlock(&workers->lock);
}

static void *handle_any(void *lane) {
    work(lane, false);
    return NULL;
}

static void *handle_small(void *lane) {
    work(lane, true);
    return NULL;
}

static void *compile_any(void *lane) {
    background_begin();
    work(lane, false);
    return NULL;
}

static void *compile_small(void *lane) {
    background_begin();
    work(lane, true);
    return NULL;
}

static bool thread_start(struct workers *workers, void *(*run_thread)(void *), struct lane *lane) {
    if (pthread_create(&workers->thread[workers->n_threads], NULL, run_thread, lane)) return false;
    workers->n_threads++;
    return true;
}

// Signals are the I/O thread's.
static bool threads_start(struct workers *workers, int n_threads) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = thread_start(workers, handle_small, &workers->handlers) &&
              thread_start(workers, compile_small, &workers->compilers);
    for (int i = 0; ok && i < n_threads; i++)
        ok = thread_start(workers, handle_any, &workers->handlers) &&
             thread_start(workers, compile_any, &workers->compilers);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

static void lane_init(struct lane *lane, struct workers *workers, bool compiles) {
    lane->workers = workers;
    lane->compiles = compiles;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&lane->some, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

rn_status workers_create(int n_threads, int capacity, int wake_fd, struct workers **out,
                         rn_error *err) {
    const size_t n_all = 2 * ((size_t)n_threads + 1);
    struct workers *workers = calloc(1, sizeof *workers + n_all * sizeof *workers->thread);
    *out = NULL;
    if (!workers) return err_set(err, RN_ERR_NOMEM, "out of memory");
    workers->capacity = capacity;
    workers->wake_fd = wake_fd;
    pthread_mutex_init(&workers->lock, NULL);
    lane_init(&workers->handlers, workers, false);
    lane_init(&workers->compilers, workers, true);
    if (!threads_start(workers, n_threads)) {
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
    pthread_cond_broadcast(&workers->handlers.some);
    pthread_cond_broadcast(&workers->compilers.some);
    pthread_mutex_unlock(&workers->lock);
    for (int i = 0; i < workers->n_threads; i++) pthread_join(workers->thread[i], NULL);
    pthread_cond_destroy(&workers->handlers.some);
    pthread_cond_destroy(&workers->compilers.some);
    pthread_mutex_destroy(&workers->lock);
    free(workers);
}

void workers_tidy(struct workers *workers) {
    if (!workers) return;
    pthread_mutex_lock(&workers->lock);
    if (!workers->tidy_ns) {
        workers->tidy_ns = clock_ns() + TIDY_NS;
        pthread_cond_broadcast(&workers->handlers.some);
    }
    pthread_mutex_unlock(&workers->lock);
}

bool workers_push(struct workers *workers, struct call *call) {
    pthread_mutex_lock(&workers->lock);
    const bool room = workers->in_hand < workers->capacity;
    if (room) {
        workers->in_hand++;
        lane_put(&workers->handlers, call, call->body_len);
    }
    pthread_mutex_unlock(&workers->lock);
    return room;
}

struct call *workers_pop(struct workers *workers) {
    pthread_mutex_lock(&workers->lock);
    struct call *call = queue_take(&workers->done);
    workers->in_hand -= call != NULL;
    pthread_mutex_unlock(&workers->lock);
    return call;
}

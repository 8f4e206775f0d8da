// The thread pool of the step. Invariants:
// 1. `remaining` hands out chunks: whoever takes it from r > 0 to r - 1 owns chunk n_chunks - r of
//    the current run. There is no other claim, so a helper that wakes late takes nothing, or a
//    chunk of the run that is current by then: both are right.
// 2. A run ends only when `done` counts every chunk, and a worker counts a chunk after its last use
//    of `job`. So `job` is written only while nobody can own a chunk, and needs no atomics.
// 3. A helper sleeps only after it has announced itself in `sleepers` and then seen no chunk; the
//    caller looks at `sleepers` only after it has offered chunks. Both in one total order
//    (seq_cst): one of them sees the other.
#define _GNU_SOURCE 1
#include "base/pool.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

enum { CACHE_LINE = 64, SPIN_NS = 40000, SPIN_CHECK = 32 };

struct pool_job {
    pool_fn fn;
    void *ctx;
    int64_t n_items, chunk, n_chunks;
};

struct pool_worker {
    struct pool *pool;
    pthread_t thread;
    int index;
};

struct pool {
    alignas(CACHE_LINE) _Atomic int64_t remaining; // chunks not yet claimed; below 0 means none
    alignas(CACHE_LINE) _Atomic int64_t done;      // chunks that helpers have finished in this run
    alignas(CACHE_LINE) _Atomic uint32_t epoch;    // the futex word: moves before every wake
    _Atomic int sleepers;
    _Atomic bool stop;
    alignas(CACHE_LINE) struct pool_job job;
    int n_threads;
    struct pool_worker *helpers; // [n_threads - 1]
};

static void cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// The kernel reads the word itself, so a change between our look and the call is not missed.
static void futex_wait(_Atomic uint32_t *word, uint32_t expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

// Works until no chunk is left; returns how many this worker did.
static int64_t chunks_work(struct pool *pool, int worker) {
    int64_t n_done = 0;
    for (;;) {
        // Acquire: pairs with the store in pool_run, directly or through others' claims.
        const int64_t left = atomic_fetch_sub_explicit(&pool->remaining, 1, memory_order_acquire);
        if (left <= 0) return n_done;
        const struct pool_job *job = &pool->job;
        const int64_t begin = (job->n_chunks - left) * job->chunk;
        const int64_t rest = job->n_items - begin;
        job->fn(job->ctx, begin, begin + (rest < job->chunk ? rest : job->chunk), worker);
        n_done++;
    }
}

static bool work_is_offered(struct pool *pool) {
    return atomic_load(&pool->remaining) > 0 || atomic_load(&pool->stop);
}

static bool work_spin(struct pool *pool) {
    const uint64_t end = clock_ns() + SPIN_NS;
    do {
        for (int i = 0; i < SPIN_CHECK; i++) {
            if (work_is_offered(pool)) return true;
            cpu_pause();
        }
    } while (clock_ns() < end);
    return false;
}

static void work_wait(struct pool *pool) {
    while (!work_spin(pool)) {
        // The epoch is read first: if a wake comes after this line, the wait returns at once.
        const uint32_t epoch = atomic_load(&pool->epoch);
        atomic_fetch_add(&pool->sleepers, 1);
        if (!work_is_offered(pool)) futex_wait(&pool->epoch, epoch);
        atomic_fetch_sub(&pool->sleepers, 1);
    }
}

static void *helper_main(void *arg) {
    const struct pool_worker *self = arg;
    struct pool *pool = self->pool;
    char name[16];
    snprintf(name, sizeof name, "runnel-%d", self->index);
    pthread_setname_np(pthread_self(), name);
    for (;;) {
        work_wait(pool);
        if (atomic_load(&pool->stop)) return NULL;
        const int64_t n_done = chunks_work(pool, self->index);
        if (n_done) atomic_fetch_add_explicit(&pool->done, n_done, memory_order_release);
    }
}

// Signals belong to the program's own threads: helpers are born with all of them blocked.
static int helper_start(struct pool_worker *helper) {
    sigset_t all, saved;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    const int code = pthread_create(&helper->thread, NULL, helper_main, helper);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    return code;
}

rn_status pool_create(int n_threads, struct pool **out, rn_error *err) {
    *out = NULL;
    if (n_threads < 1 || n_threads > POOL_MAX_THREADS) {
        return err_set(err, RN_ERR_ARG, "threads: %d is not between 1 and %d", n_threads,
                       POOL_MAX_THREADS);
    }
    struct pool *pool = aligned_alloc(alignof(struct pool), sizeof *pool);
    if (!pool) return err_set(err, RN_ERR_NOMEM, "thread pool: out of memory");
    memset(pool, 0, sizeof *pool);
    pool->n_threads = 1;
    pool->helpers = calloc((size_t)n_threads, sizeof *pool->helpers);
    if (!pool->helpers) {
        pool_destroy(pool);
        return err_set(err, RN_ERR_NOMEM, "thread pool: out of memory");
    }
    for (int i = 1; i < n_threads; i++) {
        struct pool_worker *helper = &pool->helpers[i - 1];
        *helper = (struct pool_worker){.pool = pool, .index = i};
        const int code = helper_start(helper);
        if (code != 0) {
            pool_destroy(pool);
            char text[128];
            return err_set(err, RN_ERR_NOMEM, "thread pool: thread %d of %d: %s", i + 1, n_threads,
                           strerror_r(code, text, sizeof text));
        }
        pool->n_threads++;
    }
    *out = pool;
    return RN_OK;
}

void pool_destroy(struct pool *pool) {
    if (!pool) return;
    atomic_store(&pool->stop, true);
    atomic_fetch_add(&pool->epoch, 1);
    futex_wake(&pool->epoch, INT_MAX);
    for (int i = 1; i < pool->n_threads; i++) pthread_join(pool->helpers[i - 1].thread, NULL);
    free(pool->helpers);
    free(pool);
}

int pool_size(const struct pool *pool) { return pool->n_threads; }

static void run_inline(pool_fn fn, void *ctx, int64_t n_items, int64_t chunk) {
    for (int64_t begin = 0; begin < n_items;) {
        const int64_t rest = n_items - begin;
        const int64_t end = begin + (rest < chunk ? rest : chunk);
        fn(ctx, begin, end, 0);
        begin = end;
    }
}

// A helper holds the last chunks. It may have lost its core to somebody, so after a short spin the
// caller offers its own.
static void done_wait(struct pool *pool, int64_t expected) {
    const uint64_t end = clock_ns() + SPIN_NS;
    bool is_late = false;
    for (;;) {
        for (int i = 0; i < SPIN_CHECK; i++) {
            if (atomic_load_explicit(&pool->done, memory_order_acquire) == expected) return;
            cpu_pause();
        }
        if (is_late) sched_yield();
        if (!is_late) is_late = clock_ns() >= end;
    }
}

void pool_run(struct pool *pool, pool_fn fn, void *ctx, int64_t n_items, int64_t chunk) {
    assert(n_items >= 0 && chunk > 0);
    if (n_items <= chunk || pool->n_threads == 1) {
        run_inline(fn, ctx, n_items, chunk);
        return;
    }
    const int64_t n_chunks = n_items / chunk + (n_items % chunk != 0);
    pool->job = (struct pool_job){fn, ctx, n_items, chunk, n_chunks};
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    atomic_store(&pool->remaining, n_chunks); // from here on the chunks are up for grabs
    if (atomic_load(&pool->sleepers) > 0) {
        atomic_fetch_add(&pool->epoch, 1);
        futex_wake(&pool->epoch, n_chunks - 1 < INT_MAX ? (int)(n_chunks - 1) : INT_MAX);
    }
    const int64_t n_own = chunks_work(pool, 0);
    done_wait(pool, n_chunks - n_own);
}

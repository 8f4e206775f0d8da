// The thread pool of the step. Invariants:
// 1. A share's `range` hands out its chunks, and there is no other claim. The owner moves `begin`,
//    a thief moves `end`, both while begin < end. The thread that moved it owns the chunk passed
//    over.
// 2. A share's job is read only between a claim on it and the count of that chunk in the claimant's
//    `done`. A run ends when all `done` add up to all chunks ever offered. Between runs no thread
//    owns a chunk, all ranges are empty, and the caller writes jobs without atomics.
// 3. Hence a late helper that saw an old run claims nothing, or a chunk of the current run and then
//    reads the current run's job: both are right.
// 4. A helper announces itself in `sleepers`, then sleeps if it sees no new `run`; the caller moves
//    `run`, then looks at `sleepers`. Both in one total order (seq_cst): one sees the other.
#define _GNU_SOURCE 1
#include "base/pool.h"

#include <assert.h>
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
#include "base/topology.h"

enum { CACHE_LINE = 64, SPIN_NS = 40000, SPIN_CHECK = 32 };

// A worker's part of a run. Without thieves a worker touches only this one line: the caller's
// stores to it are both the work and the signal.
struct pool_share {
    alignas(CACHE_LINE) _Atomic uint64_t range; // unclaimed chunks: end << 32 | begin
    _Atomic int64_t done;  // chunks that the owner of the share has finished since the pool began
    _Atomic uint32_t run;  // the newest run that was offered to the owner
    _Atomic bool is_ahead; // the owner is inside the function ahead, or about to look for one
    pool_fn fn;
    void *ctx;
    int64_t n_items, chunk; // of the whole run
};
_Static_assert(sizeof(struct pool_share) == CACHE_LINE, "one line");

struct pool_helper {
    struct pool *pool;
    pthread_t thread;
    int index;
};

struct pool_ahead {
    pool_ahead_fn fn;
    void *ctx;
};

struct pool {
    // the caller's, but for helpers on their way to sleep
    alignas(CACHE_LINE) _Atomic uint32_t run; // moves with every run: the futex word
    _Atomic int sleepers;
    int64_t offered; // chunks since the pool began
    // seldom written
    alignas(CACHE_LINE) int n_threads;
    _Atomic bool stop;
    struct pool_share *share;                 // [n_threads]
    struct pool_helper *helper;               // [n_threads], without the first
    _Atomic(const struct pool_ahead *) ahead; // &ahead_set, or NULL
    struct pool_ahead ahead_set; // written only while `ahead` is NULL and no helper is_ahead
    struct pool_caches caches;
    _Atomic(const void *) slot;
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

// ---------------------------------------------------------------- chunks

static uint64_t range_of(uint32_t begin, uint32_t end) { return (uint64_t)end << 32 | begin; }
static uint32_t range_begin(uint64_t range) { return (uint32_t)range; }
static uint32_t range_end(uint64_t range) { return (uint32_t)(range >> 32); }
static bool range_has(uint64_t range) { return range_begin(range) < range_end(range); }

// The next chunk of one's own share, -1: none. The look first keeps begin from running away: it
// passes end by one at most, when a thief comes between the two lines. Acquire: pairs with the
// store in share_offer, directly or through others' claims.
static int64_t chunk_take(struct pool_share *own) {
    if (!range_has(atomic_load_explicit(&own->range, memory_order_relaxed))) return -1;
    const uint64_t range = atomic_fetch_add_explicit(&own->range, 1, memory_order_acquire);
    return range_has(range) ? (int64_t)range_begin(range) : -1;
}

// The last chunk of another's share, where the owner comes last.
static int64_t chunk_steal(struct pool_share *share) {
    uint64_t range = atomic_load_explicit(&share->range, memory_order_relaxed);
    while (range_has(range)) {
        const uint32_t last = range_end(range) - 1;
        if (atomic_compare_exchange_weak_explicit(&share->range, &range,
                                                  range_of(range_begin(range), last),
                                                  memory_order_acquire, memory_order_relaxed))
            return last;
    }
    return -1;
}

// One's own chunk, or one of the next worker that has any: neighbours first, who share a cache.
static int64_t chunk_find(struct pool *pool, int worker, struct pool_share **from) {
    *from = &pool->share[worker];
    int64_t index = chunk_take(*from);
    for (int i = 1, victim = worker; index < 0 && i < pool->n_threads; i++) {
        victim = victim + 1 < pool->n_threads ? victim + 1 : 0;
        *from = &pool->share[victim];
        index = chunk_steal(*from);
    }
    return index;
}

// Works until no chunk is left. Each chunk is counted at once, so that no thread waits for a worker
// that only looks for more.
static void chunks_work(struct pool *pool, int worker) {
    struct pool_share *own = &pool->share[worker], *from;
    int64_t done = atomic_load_explicit(&own->done, memory_order_relaxed), index;
    while ((index = chunk_find(pool, worker, &from)) >= 0) {
        const int64_t begin = index * from->chunk, rest = from->n_items - begin;
        from->fn(from->ctx, begin, begin + (rest < from->chunk ? rest : from->chunk), worker);
        atomic_store_explicit(&own->done, ++done, memory_order_release);
    }
}

// ---------------------------------------------------------------- helpers

// Announce first, then look: with pool_set_ahead, which takes fn away first and then looks for
// is_ahead, one sees the other.
static bool ahead_step(struct pool *pool, struct pool_share *own, int worker, int64_t step) {
    atomic_store(&own->is_ahead, true);
    const struct pool_ahead *ahead = atomic_load(&pool->ahead);
    const bool is_more = ahead && ahead->fn(ahead->ctx, worker, step);
    atomic_store_explicit(&own->is_ahead, false, memory_order_release);
    return is_more;
}

static bool run_is_new(struct pool_share *own, uint32_t seen) {
    return atomic_load_explicit(&own->run, memory_order_acquire) != seen;
}

static bool run_spin(struct pool_share *own, uint32_t seen) {
    const uint64_t end = clock_ns() + SPIN_NS;
    do {
        for (int i = 0; i < SPIN_CHECK; i++) {
            if (run_is_new(own, seen)) return true;
            cpu_pause();
        }
    } while (clock_ns() < end);
    return false;
}

// Returns when a run newer than `seen` is offered, with its number.
static uint32_t run_wait(struct pool *pool, int worker, uint32_t seen) {
    struct pool_share *own = &pool->share[worker];
    if (atomic_load_explicit(&pool->ahead, memory_order_relaxed)) {
        for (int64_t step = 0; !run_is_new(own, seen); step++)
            if (!ahead_step(pool, own, worker, step)) break;
    }
    while (!run_spin(own, seen)) {
        atomic_fetch_add(&pool->sleepers, 1);
        if (atomic_load(&pool->run) == seen) futex_wait(&pool->run, seen);
        atomic_fetch_sub(&pool->sleepers, 1);
    }
    return atomic_load_explicit(&own->run, memory_order_acquire);
}

static void *helper_main(void *arg) {
    const struct pool_helper *self = arg;
    struct pool *pool = self->pool;
    char name[16];
    snprintf(name, sizeof name, "runnel-%d", self->index);
    pthread_setname_np(pthread_self(), name);
    for (uint32_t seen = 0;;) {
        seen = run_wait(pool, self->index, seen);
        if (atomic_load_explicit(&pool->stop, memory_order_relaxed)) return NULL;
        chunks_work(pool, self->index);
    }
}

// Signals belong to the program's own threads: helpers are born with all of them blocked.
static int helper_start(struct pool_helper *helper) {
    sigset_t all, saved;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    const int code = pthread_create(&helper->thread, NULL, helper_main, helper);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    return code;
}

// Where a bound helper may run: the cores of one domain (a last-level cache, a memory node), never
// a single core. A helper that is bound to one core waits behind other threads there while another
// core idles. Such a thread may be the caller, which stays free, or the helper of a second process
// that numbered the cores alike. Inside a domain the system finds a free core. The gain that is
// left: a worker stays near the memory and cache of its share. A pool of fewer threads than cores
// is not bound at all, because two such pools would choose the same domain. A pool of more threads
// is not bound either. The caller's domain comes first: worker 0 is there.
void pool_bind(struct pool *pool, const struct topology *topology) {
    if (topology->n_domains < 2 || pool->n_threads != topology->n_cores) return;
    int domain = topology_domain_of(topology, sched_getcpu()), worker = 0;
    for (int i = 0; i < topology->n_domains; i++) {
        for (int k = 0; k < topology->domain[domain].n_cores; k++, worker++)
            if (worker > 0) topology_bind(topology, domain, pool->helper[worker].thread);
        domain = (domain + 1) % topology->n_domains;
    }
}

// ---------------------------------------------------------------- create, destroy

static struct pool *pool_alloc(int n_threads) {
    struct pool *pool = aligned_alloc(alignof(struct pool), sizeof *pool);
    if (!pool) return NULL;
    memset(pool, 0, sizeof *pool);
    const size_t share_bytes = (size_t)n_threads * sizeof *pool->share;
    pool->n_threads = 1;
    pool->share = aligned_alloc(alignof(struct pool_share), share_bytes);
    pool->helper = calloc((size_t)n_threads, sizeof *pool->helper);
    if (pool->share) memset(pool->share, 0, share_bytes);
    if (pool->share && pool->helper) return pool;
    pool_destroy(pool);
    return NULL;
}

rn_status pool_create(int n_threads, struct pool **out, rn_error *err) {
    *out = NULL;
    if (n_threads < 1 || n_threads > POOL_MAX_THREADS) {
        return err_set(err, RN_ERR_ARG, "threads: %d is not between 1 and %d", n_threads,
                       POOL_MAX_THREADS);
    }
    struct pool *pool = pool_alloc(n_threads);
    if (!pool) return err_set(err, RN_ERR_NOMEM, "thread pool: out of memory");
    for (int i = 1; i < n_threads; i++) {
        pool->helper[i] = (struct pool_helper){.pool = pool, .index = i};
        const int code = helper_start(&pool->helper[i]);
        if (code != 0) {
            pool_destroy(pool);
            char text[128];
            return err_set(err, RN_ERR_NOMEM, "thread pool: thread %d of %d: %s", i + 1, n_threads,
                           strerror_r(code, text, sizeof text));
        }
        pool->n_threads++; // helpers read it only when a run has been offered
    }
    *out = pool;
    return RN_OK;
}

void pool_destroy(struct pool *pool) {
    if (!pool) return;
    const uint32_t run = atomic_load_explicit(&pool->run, memory_order_relaxed) + 1;
    atomic_store_explicit(&pool->stop, true, memory_order_relaxed);
    for (int i = 1; i < pool->n_threads; i++)
        atomic_store_explicit(&pool->share[i].run, run, memory_order_release);
    atomic_store(&pool->run, run);
    futex_wake(&pool->run, INT_MAX);
    for (int i = 1; i < pool->n_threads; i++) pthread_join(pool->helper[i].thread, NULL);
    free(pool->share);
    free(pool->helper);
    free(pool);
}

int pool_size(const struct pool *pool) { return pool->n_threads; }

rn_status pool_create_here(int n_threads, bool no_pin, struct pool **out, rn_error *err) {
    struct topology *topology;
    *out = NULL;
    rn_status status = topology_create(NULL, &topology, err);
    if (status) return status;
    status = pool_create(n_threads ? n_threads : topology->n_threads, out, err);
    if (!status) {
        if (!no_pin) pool_bind(*out, topology);
        (*out)->caches = (struct pool_caches){topology->cache_bytes, topology->cache_bytes_all};
    }
    topology_destroy(topology);
    return status;
}

struct pool_caches pool_caches(const struct pool *pool) {
    return pool->caches;
}

_Atomic(const void *) *pool_slot(struct pool *pool) { return &pool->slot; }

void pool_set_ahead(struct pool *pool, pool_ahead_fn fn, void *ctx) {
    atomic_store(&pool->ahead, NULL);
    for (int i = 1; i < pool->n_threads; i++)
        while (atomic_load(&pool->share[i].is_ahead)) sched_yield();
    pool->ahead_set = (struct pool_ahead){fn, ctx};
    atomic_store(&pool->ahead, fn ? &pool->ahead_set : NULL);
}

// ---------------------------------------------------------------- a run

static void run_inline(pool_fn fn, void *ctx, int64_t n_items, int64_t chunk) {
    for (int64_t begin = 0; begin < n_items;) {
        const int64_t rest = n_items - begin;
        const int64_t end = begin + (rest < chunk ? rest : chunk);
        fn(ctx, begin, end, 0);
        begin = end;
    }
}

// A helper holds the last chunks. It may have lost its core to another thread, so after a short
// spin the caller offers its own. Counts only grow and never pass the number offered. So reading
// them one after the other may give a sum that is too small, but never the full sum too early.
static void done_wait(struct pool *pool) {
    uint64_t end = 0;
    bool is_late = false;
    for (;;) {
        for (int i = 0; i < SPIN_CHECK; i++) {
            int64_t done = 0;
            for (int w = 0; w < pool->n_threads; w++)
                done += atomic_load_explicit(&pool->share[w].done, memory_order_acquire);
            if (done == pool->offered) return;
            cpu_pause();
        }
        if (is_late) {
            sched_yield();
        } else {
            const uint64_t now = clock_ns();
            if (end == 0) end = now + SPIN_NS;
            is_late = now >= end;
        }
    }
}

// The job is complete before the range offers it, and both before the signal.
static void share_offer(struct pool_share *share, const struct pool_share *job, uint64_t range,
                        uint32_t run) {
    share->fn = job->fn;
    share->ctx = job->ctx;
    share->n_items = job->n_items;
    share->chunk = job->chunk;
    atomic_store_explicit(&share->range, range, memory_order_release);
    atomic_store_explicit(&share->run, run, memory_order_release);
}

// The first chunk of a worker's share; of worker n_threads: where all end. The first workers take
// the chunks that do not divide evenly: worker 0 is awake for sure.
static int64_t share_begin(int64_t n_chunks, int n_threads, int worker) {
    const int64_t extra = n_chunks % n_threads;
    return n_chunks / n_threads * worker + (worker < extra ? worker : extra);
}

int64_t pool_share_first(const struct pool *pool, int64_t n_items, int64_t chunk, int worker) {
    const int64_t n_chunks = n_items / chunk + (n_items % chunk != 0);
    return share_begin(n_chunks, pool->n_threads, worker) * chunk;
}

void pool_run(struct pool *pool, pool_fn fn, void *ctx, int64_t n_items, int64_t chunk) {
    assert(n_items >= 0 && chunk > 0);
    const int n_threads = pool->n_threads;
    if (n_items <= chunk || n_threads == 1) {
        run_inline(fn, ctx, n_items, chunk);
        return;
    }
    const int64_t n_chunks = n_items / chunk + (n_items % chunk != 0);
    assert(n_chunks <= INT32_MAX);
    uint32_t end = (uint32_t)n_chunks;
    const struct pool_share job = {.fn = fn, .ctx = ctx, .n_items = n_items, .chunk = chunk};
    const uint32_t run = atomic_load_explicit(&pool->run, memory_order_relaxed) + 1;
    pool->offered += n_chunks;
    for (int w = n_threads - 1; w >= 0; w--) {
        const uint32_t begin = (uint32_t)share_begin(n_chunks, n_threads, w);
        share_offer(&pool->share[w], &job, range_of(begin, end), run);
        end = begin;
    }
    atomic_store(&pool->run, run);
    if (atomic_load(&pool->sleepers) > 0) futex_wake(&pool->run, (int)(n_chunks - 1));
    chunks_work(pool, 0);
    done_wait(pool);
}

// The thread pool of the step. Workers form clusters of 1 (the caller), 1, 2, 4, 8, 8, ... workers.
// A run takes whole clusters, the first ones. No line is written by more threads than a cluster
// has, except where threads steal or go to sleep. Invariants:
// 1. A share's `range` hands out its claims, and there is no other claim. It names its run. The
//    first claim of a run, by the owner or a thief, replaces the range of an older run. The owner
//    takes from the front, a thief from the back. The thread that moved a range owns the claim.
// 2. A run ends when the `done` of its workers add up to all of its claims. So a claim that
//    succeeded, and that is not counted yet, proves that its run is not over: its ctx is alive.
// 3. A job is read without a lock: `begun` moves, then the job is written, then `run` moves. A
//    reader that finds `begun` unchanged after the job has read all of it. If the run ended since,
//    every share that has claims was begun and is empty: the late reader claims nothing.
// 4. A range is replaced only after its cluster's `run` was seen to be the claimant's run. A thread
//    that sees the new range also sees this `run`, so one that is late never puts an old run back.
// 5. A helper announces itself in `sleepers`, then sleeps if it sees no new `run`; the caller moves
//    `run`, then looks at `sleepers`. Both change that one word, so one sees the other.
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
#include "base/pause.h"
#include "base/topology.h"

enum {
    LINE_BYTES = 128, // two cache lines, because prefetchers fetch them in pairs
    SPIN_NS = 40000,
    SPIN_CHECK = 32,
    CLUSTER_MAX = 8,    // workers
    SCAN_MAX = 8,       // threads of a pool whose thieves look at every share
    CLAIMS_MAX = 65535, // of a share
};

// A run as its workers know it.
struct pool_job {
    uint32_t run;
    int n_workers;
    pool_fn fn;
    void *ctx;
    int64_t n_items, chunk;
    int claim;       // chunks of a claim
    int each, extra; // claims of each share, and shares that have one more
};

// A worker's part of a run. Without thieves only the worker writes it.
struct pool_share {
    alignas(LINE_BYTES) _Atomic uint64_t range; // run << 32 | taken from the back << 16 | the front
    _Atomic bool is_ahead; // the worker is inside the function ahead, or about to look for one
    alignas(LINE_BYTES) _Atomic int64_t done; // claims that the worker has finished, of all runs
};

struct pool_cluster {
    // the caller writes it once for a run, and all workers of the cluster wait for it
    alignas(LINE_BYTES) _Atomic uint32_t run; // the newest run that was offered: the futex word
    _Atomic uint32_t begun;                   // the newest run whose job is being written
    _Atomic int n_workers;
    _Atomic(pool_fn) fn;
    _Atomic(void *) ctx;
    _Atomic int64_t n_items, chunk;
    _Atomic int claim, each, extra;
    // written by the claim that empties a share; in large pools only
    alignas(LINE_BYTES) _Atomic uint64_t open; // run << 32 | shares that may have unclaimed chunks
    // seldom written
    alignas(LINE_BYTES) _Atomic int sleepers;
    int first, end; // its workers
};

struct pool_helper {
    struct pool *pool;
    pthread_t thread;
    int index;
    int node; // of its domain; -1: it is not bound
};

struct pool_ahead {
    pool_ahead_fn fn;
    void *ctx;
};

struct pool {
    // the caller's, but for helpers on their way to sleep
    alignas(LINE_BYTES) uint32_t run; // the newest
    _Atomic int sleepers;
    // seldom written
    alignas(LINE_BYTES) int n_threads;
    int n_clusters;
    bool has_open; // `open` is kept: the pool is too large for looks at all shares
    _Atomic bool stop;
    struct pool_share *share;     // [n_threads]
    struct pool_cluster *cluster; // [n_clusters]
    struct pool_helper *helper;   // [n_threads]; of the first the node alone
    uint64_t nodes;
    _Atomic(const struct pool_ahead *) ahead; // &ahead_set, or NULL
    struct pool_ahead ahead_set; // written only while `ahead` is NULL and no helper is_ahead
    struct pool_caches caches;
    struct pool_price price;
    _Atomic(const void *) slot;
};

// Takes the line from the threads that looked at it, while there is other work to do.
static void line_own(const void *line) {
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line)); // nothing, where it is unknown
#else
    __builtin_prefetch(line, 1);
#endif
}

// The kernel reads the word itself, so a change between our look and the call is not missed.
static void futex_wait(_Atomic uint32_t *word, uint32_t expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

// ---------------------------------------------------------------- clusters

static int cluster_of(int worker) {
    if (worker >= CLUSTER_MAX) return 3 + worker / CLUSTER_MAX;
    return worker == 0 ? 0 : worker == 1 ? 1 : worker < 4 ? 2 : 3;
}

static int cluster_first(int cluster) {
    return cluster < 4 ? (1 << cluster) / 2 : (cluster - 3) * CLUSTER_MAX;
}

// The workers of the fewest clusters that have n.
static int clusters_round(const struct pool *pool, int64_t n) {
    if (n >= pool->n_threads) return pool->n_threads;
    const int end = cluster_first(cluster_of(n < 1 ? 0 : (int)n - 1) + 1);
    return end < pool->n_threads ? end : pool->n_threads;
}

// ---------------------------------------------------------------- claims

static uint64_t range_of(uint32_t run, uint32_t front, uint32_t back) {
    return (uint64_t)run << 32 | back << 16 | front;
}
static uint32_t range_run(uint64_t range) { return (uint32_t)(range >> 32); }
static uint32_t range_front(uint64_t range) { return (uint32_t)range & 0xffff; }
static uint32_t range_back(uint64_t range) { return (uint32_t)range >> 16; }

// A worker's share of a run: claims [begin, end).
struct pool_part {
    int worker;
    int64_t begin, end;
};

// The first workers take the claims that do not divide evenly: worker 0 is awake for sure.
static struct pool_part part_of(const struct pool_job *job, int worker) {
    const int before = worker < job->extra ? worker : job->extra;
    const int64_t begin = (int64_t)job->each * worker + before;
    return (struct pool_part){worker, begin, begin + job->each + (worker < job->extra)};
}

// A claim on a share, from its front or its back; -1: none is left, or the run is over, or it was
// not offered to that worker yet.
static int64_t claim_take(struct pool *pool, const struct pool_job *job,
                          const struct pool_part *part, bool front) {
    struct pool_share *share = &pool->share[part->worker];
    struct pool_cluster *cluster = &pool->cluster[cluster_of(part->worker)];
    uint64_t range = atomic_load_explicit(&share->range, memory_order_acquire);
    for (;;) {
        const bool is_begun = range_run(range) == job->run;
        const uint32_t head = is_begun ? range_front(range) : 0;
        const uint32_t tail = is_begun ? range_back(range) : 0;
        const int64_t left = part->end - part->begin - head - tail;
        if (left <= 0) return -1;
        if (!is_begun && atomic_load_explicit(&cluster->run, memory_order_acquire) != job->run)
            return -1;
        const uint64_t next = range_of(job->run, head + front, tail + !front);
        if (!atomic_compare_exchange_weak_explicit(&share->range, &range, next,
                                                   memory_order_acq_rel, memory_order_acquire))
            continue;
        if (pool->has_open && left == 1)
            atomic_fetch_sub_explicit(&cluster->open, 1, memory_order_relaxed);
        return front ? part->begin + head : part->end - 1 - tail;
    }
}

static void claim_run(const struct pool_job *job, int64_t claim, int worker) {
    int64_t begin = claim * job->claim * job->chunk;
    for (int i = 0; i < job->claim && begin < job->n_items; i++) {
        const int64_t rest = job->n_items - begin;
        const int64_t end = begin + (rest < job->chunk ? rest : job->chunk);
        job->fn(job->ctx, begin, end, worker);
        begin = end;
    }
}

// Takes all that is left of a share. Each claim is counted at once, so that no thread waits for a
// thief that only looks for more.
static void share_steal(struct pool *pool, const struct pool_job *job, int victim, int worker) {
    _Atomic int64_t *done = &pool->share[worker].done;
    const struct pool_part part = part_of(job, victim);
    for (int64_t claim; (claim = claim_take(pool, job, &part, false)) >= 0;) {
        claim_run(job, claim, worker);
        atomic_store_explicit(done, atomic_load_explicit(done, memory_order_relaxed) + 1,
                              memory_order_release);
    }
}

// Whether a share of the cluster may have unclaimed chunks of the run.
static bool cluster_is_open(const struct pool *pool, const struct pool_job *job, int cluster) {
    if (!pool->has_open) return true;
    const uint64_t open = atomic_load_explicit(&pool->cluster[cluster].open, memory_order_relaxed);
    return open > (uint64_t)job->run << 32 && range_run(open) == job->run;
}

// Works until no claim is left: one's own share, then the others', neighbours first, who share a
// cache.
static void job_work(struct pool *pool, const struct pool_job *job, int worker) {
    struct pool_share *own = &pool->share[worker];
    const int home = cluster_of(worker), n_clusters = cluster_of(job->n_workers - 1) + 1;
    const struct pool_part part = part_of(job, worker);
    int64_t done = 0;
    for (int64_t claim; (claim = claim_take(pool, job, &part, true)) >= 0; done++)
        claim_run(job, claim, worker);
    if (done > 0) {
        done += atomic_load_explicit(&own->done, memory_order_relaxed);
        atomic_store_explicit(&own->done, done, memory_order_release);
    }
    for (int i = 0, c = home; i < n_clusters; i++, c = c + 1 < n_clusters ? c + 1 : 0) {
        if (!cluster_is_open(pool, job, c)) continue;
        const int first = pool->cluster[c].first, n = pool->cluster[c].end - first;
        for (int k = 0; k < n; k++) {
            // in one's own cluster the next worker comes first
            const int victim = first + (c == home ? (worker - first + 1 + k) % n : k);
            if (victim != worker) share_steal(pool, job, victim, worker);
        }
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

static bool run_is_new(struct pool_cluster *cluster, uint32_t seen) {
    return atomic_load_explicit(&cluster->run, memory_order_acquire) != seen;
}

static bool run_spin(struct pool_cluster *cluster, uint32_t seen) {
    uint64_t end = 0;
    for (;;) {
        for (int i = 0; i < SPIN_CHECK; i++) {
            if (run_is_new(cluster, seen)) return true;
            cpu_pause();
        }
        const uint64_t now = clock_ns();
        if (end == 0) end = now + SPIN_NS;
        if (now >= end) return false;
    }
}

static void run_sleep(struct pool *pool, struct pool_cluster *cluster, uint32_t seen) {
    atomic_fetch_add_explicit(&cluster->sleepers, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&pool->sleepers, 1, memory_order_acq_rel);
    if (!run_is_new(cluster, seen)) futex_wait(&cluster->run, seen);
    atomic_fetch_sub_explicit(&pool->sleepers, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&cluster->sleepers, 1, memory_order_relaxed);
}

// Returns when a run newer than `seen` is offered, with its number.
static uint32_t run_wait(struct pool *pool, int worker, uint32_t seen) {
    struct pool_cluster *cluster = &pool->cluster[cluster_of(worker)];
    if (atomic_load_explicit(&pool->ahead, memory_order_relaxed)) {
        for (int64_t step = 0; !run_is_new(cluster, seen); step++)
            if (!ahead_step(pool, &pool->share[worker], worker, step)) break;
    }
    while (!run_spin(cluster, seen)) run_sleep(pool, cluster, seen);
    return atomic_load_explicit(&cluster->run, memory_order_acquire);
}

// False: a newer run is being offered. Acquire: pairs with job_write's stores. A value of a newer
// job brings its `begun` along.
static bool job_read(struct pool_cluster *cluster, uint32_t run, struct pool_job *out) {
    *out = (struct pool_job){
        .run = run,
        .n_workers = atomic_load_explicit(&cluster->n_workers, memory_order_acquire),
        .fn = atomic_load_explicit(&cluster->fn, memory_order_acquire),
        .ctx = atomic_load_explicit(&cluster->ctx, memory_order_acquire),
        .n_items = atomic_load_explicit(&cluster->n_items, memory_order_acquire),
        .chunk = atomic_load_explicit(&cluster->chunk, memory_order_acquire),
        .claim = atomic_load_explicit(&cluster->claim, memory_order_acquire),
        .each = atomic_load_explicit(&cluster->each, memory_order_acquire),
        .extra = atomic_load_explicit(&cluster->extra, memory_order_acquire),
    };
    return atomic_load_explicit(&cluster->begun, memory_order_relaxed) == run;
}

static void job_write(struct pool_cluster *cluster, const struct pool_job *job) {
    atomic_store_explicit(&cluster->begun, job->run, memory_order_relaxed);
    atomic_store_explicit(&cluster->n_workers, job->n_workers, memory_order_release);
    atomic_store_explicit(&cluster->fn, job->fn, memory_order_release);
    atomic_store_explicit(&cluster->ctx, job->ctx, memory_order_release);
    atomic_store_explicit(&cluster->n_items, job->n_items, memory_order_release);
    atomic_store_explicit(&cluster->chunk, job->chunk, memory_order_release);
    atomic_store_explicit(&cluster->claim, job->claim, memory_order_release);
    atomic_store_explicit(&cluster->each, job->each, memory_order_release);
    atomic_store_explicit(&cluster->extra, job->extra, memory_order_release);
}

static void *helper_main(void *arg) {
    const struct pool_helper *self = arg;
    struct pool *pool = self->pool;
    struct pool_cluster *cluster = &pool->cluster[cluster_of(self->index)];
    char name[16];
    snprintf(name, sizeof name, "runnel-%d", self->index);
    pthread_setname_np(pthread_self(), name);
    for (uint32_t seen = 0;;) {
        struct pool_job job;
        seen = run_wait(pool, self->index, seen);
        if (atomic_load_explicit(&pool->stop, memory_order_relaxed)) return NULL;
        line_own(&pool->share[self->index].range);
        if (job_read(cluster, seen, &job)) job_work(pool, &job, self->index);
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
        for (int k = 0; k < topology->domain[domain].n_cores; k++, worker++) {
            if (worker > 0) topology_bind(topology, domain, pool->helper[worker].thread);
            pool->helper[worker].node = topology->domain[domain].node;
        }
        domain = (domain + 1) % topology->n_domains;
    }
}

void pool_nodes_set(struct pool *pool, const struct topology *topology) {
    uint64_t nodes = 0;
    for (int d = 0; d < topology->n_domains; d++) {
        const int node = topology->domain[d].node;
        if (node < 0 || node >= 64) return;
        nodes |= (uint64_t)1 << node;
    }
    if (nodes & (nodes - 1)) pool->nodes = nodes;
}

uint64_t pool_nodes(const struct pool *pool) { return pool->nodes; }

int pool_node(const struct pool *pool, int worker) {
    return pool->nodes ? pool->helper[worker].node : -1;
}

// ---------------------------------------------------------------- create, destroy

static void *lines_alloc(size_t count, size_t size) {
    void *lines = aligned_alloc(LINE_BYTES, count * size);
    if (lines) memset(lines, 0, count * size);
    return lines;
}

static struct pool *pool_alloc(int n_threads) {
    struct pool *pool = lines_alloc(1, sizeof *pool);
    if (!pool) return NULL;
    pool->n_threads = 1;
    pool->n_clusters = cluster_of(n_threads - 1) + 1;
    pool->has_open = n_threads > SCAN_MAX;
    pool->share = lines_alloc((size_t)n_threads, sizeof *pool->share);
    pool->cluster = lines_alloc((size_t)pool->n_clusters, sizeof *pool->cluster);
    pool->helper = calloc((size_t)n_threads, sizeof *pool->helper);
    for (int c = 0; pool->cluster && c < pool->n_clusters; c++) {
        const int end = cluster_first(c + 1);
        pool->cluster[c].first = cluster_first(c);
        pool->cluster[c].end = end < n_threads ? end : n_threads;
    }
    for (int i = 0; pool->helper && i < n_threads; i++) pool->helper[i].node = -1;
    if (pool->share && pool->cluster && pool->helper) return pool;
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
        pool->helper[i] = (struct pool_helper){.pool = pool, .index = i, .node = -1};
        const int code = helper_start(&pool->helper[i]);
        if (code != 0) {
            pool_destroy(pool);
            char text[128];
            return err_set(err, RN_ERR_NOMEM, "thread pool: thread %d of %d: %s", i + 1, n_threads,
                           strerror_r(code, text, sizeof text));
        }
        pool->n_threads++; // helpers read it only when a run has been offered
    }
    pool_price_guess(pool);
    *out = pool;
    return RN_OK;
}

// Never 0: a cluster without a run has that.
static uint32_t run_after(uint32_t run) { return run + 1 ? run + 1 : 1; }

void pool_destroy(struct pool *pool) {
    if (!pool) return;
    atomic_store_explicit(&pool->stop, true, memory_order_relaxed);
    for (int c = 1; pool->n_threads > 1 && c < pool->n_clusters; c++) {
        atomic_store_explicit(&pool->cluster[c].run, run_after(pool->run), memory_order_release);
        futex_wake(&pool->cluster[c].run, INT_MAX);
    }
    for (int i = 1; i < pool->n_threads; i++) pthread_join(pool->helper[i].thread, NULL);
    free(pool->share);
    free(pool->cluster);
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
        pool_nodes_set(*out, topology);
        if (!no_pin) pool_bind(*out, topology);
        pool_measure(*out, topology->n_threads);
        (*out)->caches = (struct pool_caches){topology->cache_bytes, topology->cache_bytes_all};
    }
    topology_destroy(topology);
    return status;
}

struct pool_caches pool_caches(const struct pool *pool) {
    return pool->caches;
}

struct pool_price *pool_price(struct pool *pool) {
    return &pool->price;
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

static int64_t done_sum(struct pool *pool, int n_workers) {
    int64_t done = 0;
    for (int w = 0; w < n_workers; w++)
        done += atomic_load_explicit(&pool->share[w].done, memory_order_acquire);
    return done;
}

// A helper holds the last chunks. It may have lost its core to another thread, so after a short
// spin the caller offers its own. Counts only grow and never pass the number offered. So reading
// them one after the other may give a sum that is too small, but never the full sum too early.
static void done_wait(struct pool *pool, int n_workers, int64_t all) {
    uint64_t end = 0;
    bool is_late = false;
    for (;;) {
        for (int i = 0; i < SPIN_CHECK; i++) {
            if (done_sum(pool, n_workers) == all) return;
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

// There are at most INT32_MAX chunks, and n_workers of them or more where that is possible.
static struct pool_job job_make(const struct pool *pool, int n_workers, int64_t n_items,
                                int64_t chunk) {
    assert((n_items - 1) / chunk < INT32_MAX);
    const uint32_t n_chunks = (uint32_t)((n_items - 1) / chunk + 1);
    const int wanted = clusters_round(pool, n_workers), most = clusters_round(pool, n_chunks);
    struct pool_job job = {.n_workers = wanted < most ? wanted : most,
                           .n_items = n_items,
                           .chunk = chunk,
                           .claim = 1};
    uint32_t n_claims = n_chunks;
    for (; n_claims / (uint32_t)job.n_workers >= CLAIMS_MAX; n_claims = (n_claims + 1) / 2)
        job.claim *= 2;
    job.each = (int)(n_claims / (uint32_t)job.n_workers);
    job.extra = (int)(n_claims % (uint32_t)job.n_workers);
    return job;
}

int64_t pool_share_first(const struct pool *pool, int n_workers, int64_t n_items, int64_t chunk,
                         int worker) {
    const struct pool_job job = job_make(pool, n_workers, n_items, chunk);
    const int64_t first = part_of(&job, worker).begin * job.claim * chunk;
    return worker < job.n_workers && first < n_items ? first : n_items;
}

static int64_t job_claims(const struct pool_job *job) {
    return (int64_t)job->each * job->n_workers + job->extra;
}

// The first workers have a claim each, where there are not enough for all.
static uint64_t open_of(const struct pool_job *job, const struct pool_cluster *cluster) {
    const int64_t rest = job_claims(job) - cluster->first, size = cluster->end - cluster->first;
    return (uint64_t)job->run << 32 | (uint64_t)(rest < 0 ? 0 : rest < size ? rest : size);
}

// The job is complete before the run offers it. The caller's own cluster waits for nothing.
static void job_offer(struct pool *pool, const struct pool_job *job, int n_clusters) {
    for (int c = n_clusters - 1; c >= 0; c--) {
        struct pool_cluster *cluster = &pool->cluster[c];
        if (pool->has_open)
            atomic_store_explicit(&cluster->open, open_of(job, cluster), memory_order_relaxed);
        if (c > 0) job_write(cluster, job);
        atomic_store_explicit(&cluster->run, job->run, memory_order_release);
    }
    // adds nothing, but comes before or after each helper's change
    if (atomic_fetch_add_explicit(&pool->sleepers, 0, memory_order_acq_rel) == 0) return;
    for (int c = 1; c < n_clusters; c++)
        if (atomic_load_explicit(&pool->cluster[c].sleepers, memory_order_relaxed) > 0)
            futex_wake(&pool->cluster[c].run, INT_MAX);
}

void pool_run_on(struct pool *pool, int n_workers, pool_fn fn, void *ctx, int64_t n_items,
                 int64_t chunk) {
    assert(n_items >= 0 && chunk > 0);
    if (n_items <= chunk || n_workers <= 1 || pool->n_threads == 1) {
        run_inline(fn, ctx, n_items, chunk);
        return;
    }
    line_own(&pool->share[0].range);
    struct pool_job job = job_make(pool, n_workers, n_items, chunk);
    pool->run = run_after(pool->run);
    job.run = pool->run;
    job.fn = fn;
    job.ctx = ctx;
    const int64_t all = done_sum(pool, job.n_workers) + job_claims(&job);
    job_offer(pool, &job, cluster_of(job.n_workers - 1) + 1);
    job_work(pool, &job, 0);
    done_wait(pool, job.n_workers, all);
}

void pool_run(struct pool *pool, pool_fn fn, void *ctx, int64_t n_items, int64_t chunk) {
    pool_run_on(pool, pool->n_threads, fn, ctx, n_items, chunk);
}

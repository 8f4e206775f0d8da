// A pool of threads for the step: one caller, n - 1 helpers. A run cuts [0, n_items) into chunks
// and gives each worker a share of neighbouring chunks, so that a worker reads one stream. A worker
// whose share is empty takes chunks from the end of another's. So a core that the system took away
// slows a run and never stalls it. A run (pool_run) allocates nothing and takes no lock on its fast
// path: helpers spin briefly for work, then sleep on a futex. A run may leave the last workers
// alone: little work ends soonest on few.
#ifndef RN_BASE_POOL_H
#define RN_BASE_POOL_H

#include <stdatomic.h>

#include "base/status.h"

struct topology;

// Works on items [begin, end); worker is 0 for the caller and below pool_size for all.
typedef void (*pool_fn)(void *ctx, int64_t begin, int64_t end, int worker);

// Fetches something that the next runs will read; false: there is nothing more to fetch.
typedef bool (*pool_ahead_fn)(void *ctx, int worker, int64_t step);

struct pool;

enum { POOL_MAX_THREADS = 1024 };

rn_status pool_create(int n_threads, struct pool **out, rn_error *err);
// As most programs want it: threads as the machine has cores to use (or n_threads, where that is
// not 0), kept near their memory unless no_pin.
rn_status pool_create_here(int n_threads, bool no_pin, struct pool **out, rn_error *err);
void pool_destroy(struct pool *pool);
int pool_size(const struct pool *pool);

// Of a pool made by pool_create_here: the last-level cache in bytes, one and all; 0: unknown.
struct pool_caches {
    uint64_t one, all;
};
struct pool_caches pool_caches(const struct pool *pool);

// A word that the borrowers of the threads share: the function ahead of one borrower may serve
// another.
_Atomic(const void *) *pool_slot(struct pool *pool);

// Calls fn over all items in chunks of `chunk` (the last may be shorter) and returns when all are
// done. Only one thread may call it at a time. One chunk or one thread: runs inline, in order,
// without waking anyone.
void pool_run(struct pool *pool, pool_fn fn, void *ctx, int64_t n_items, int64_t chunk);
// The same on the first n_workers, or a few more. The others are not disturbed.
void pool_run_on(struct pool *pool, int n_workers, pool_fn fn, void *ctx, int64_t n_items,
                 int64_t chunk);

// The first item of the share that a worker begins such a run with; n_items: it has none.
int64_t pool_share_first(const struct pool *pool, int n_workers, int64_t n_items, int64_t chunk,
                         int worker);

// The number of workers that end soonest with work that takes one thread work_ns. More of them
// divide the work, but cost more to start and to wait for. 1: the caller alone.
int pool_workers_for(struct pool *pool, double work_ns);

// The cost of a run on the first n_workers beside its work. pool_price.c fills the table: by a
// guess at create, and by a measurement of about a millisecond in pool_create_here.
enum { POOL_PRICES = 16 };
struct pool_price {
    int n;
    struct {
        int n_workers; // ascending, above 1
        double ns;
    } run[POOL_PRICES];
};
struct pool_price *pool_price(struct pool *pool);
void pool_price_guess(struct pool *pool);
void pool_measure(struct pool *pool, int n_cores); // that the pool may use

// Keeps helpers near the memory and the cache of their share, where that cannot hurt; see pool.c.
// Called once after create, from the thread that will run; its own binding is not touched.
void pool_bind(struct pool *pool, const struct topology *topology);

// The memory node that is near a worker: of a pool that is bound, on a machine with several; else
// -1.
int pool_node(const struct pool *pool, int worker);
// The memory nodes of the machine's cores, node n as bit n; 0: unknown, or one, or more than 64.
uint64_t pool_nodes(const struct pool *pool);
void pool_nodes_set(struct pool *pool, const struct topology *topology);

// The number of cores this process may really use, at least 1: topology.h's n_threads.
int pool_default_threads(void);
// Bytes of addresses that the stacks of n_threads threads take; 0: of the default number.
uint64_t pool_stack_bytes(int n_threads);

// Work for helpers that wait for the next run, before they sleep. A helper without chunks calls
// fn(ctx, worker, step) with step = 0, 1, 2, ... until fn returns false or a run is offered. The
// caller's thread never calls fn. A call should take about a microsecond: a helper looks for work
// only between two calls. Inline runs do not interrupt it.
//
// Only the thread that calls pool_run calls pool_set_ahead, and not while pool_run works. When it
// returns no helper is inside the former fn, and none will enter it: its ctx may be freed. fn NULL:
// none. A helper that is waiting already may take the new fn up at a step above 0, or only in its
// next wait.
//
// Helpers call fn at any moment, also while others still work on a run. So data behind ctx must be
// constant while fn is set, or atomic. The owner publishes the next value with one atomic store
// (release; fn loads it with acquire), best before the run that precedes its use. A helper may use
// the former value for one more call. That must be harmless: its memory stays mapped while fn is
// set, and fn only prefetches.
void pool_set_ahead(struct pool *pool, pool_ahead_fn fn, void *ctx);

#endif

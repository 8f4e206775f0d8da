// A pool of threads for the step: one caller, n - 1 helpers. A run hands out chunks of [0, n_items)
// from an atomic counter, so a core that the system took away slows the run and never stalls it.
// pool_run allocates nothing and takes no lock on its fast path: helpers spin briefly for work,
// then sleep on a futex.
#ifndef RN_BASE_POOL_H
#define RN_BASE_POOL_H

#include "base/status.h"

// Works on items [begin, end); worker is 0 for the caller and below pool_size for all.
typedef void (*pool_fn)(void *ctx, int64_t begin, int64_t end, int worker);

struct pool;

enum { POOL_MAX_THREADS = 1024 };

rn_status pool_create(int n_threads, struct pool **out, rn_error *err);
void pool_destroy(struct pool *pool);
int pool_size(const struct pool *pool);

// Calls fn over all items in chunks of `chunk` (the last may be shorter) and returns when all are
// done. Only one thread may call it at a time. One chunk or one thread: runs inline without waking
// anyone.
void pool_run(struct pool *pool, pool_fn fn, void *ctx, int64_t n_items, int64_t chunk);

// The number of cores this process may really use: affinity mask and cgroup cpu.max (rounded up),
// at least 1.
int pool_default_threads(void);

#endif

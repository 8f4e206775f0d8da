// The cost of a run of the thread pool, as a table: nanoseconds per pool_run, the median of several
// rounds of runs back to back. Columns "empty" do nothing in N chunks for each thread; the caller
// may take all of them itself. In "meet" each worker has one chunk and waits in it until all have
// started. Such a run is a full round trip to every helper, and an upper bound for the cost of a
// barrier between two stages. Run by hand on a quiet machine: bench_pool [MOST THREADS]
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/pool.h"
#include "base/topology.h"

enum { N_ROUNDS = 21, N_RUNS = 2000 };

static void do_nothing(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)ctx;
    (void)begin;
    (void)end;
    (void)worker;
}

struct meeting {
    _Atomic int64_t arrived; // since the first run
    int64_t expected;
};

static void meet(void *ctx, int64_t begin, int64_t end, int worker) {
    struct meeting *meeting = ctx;
    (void)begin;
    (void)end;
    (void)worker;
    atomic_fetch_add(&meeting->arrived, 1);
    while (atomic_load(&meeting->arrived) < meeting->expected) continue;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double run_ns(struct pool *pool, pool_fn fn, int64_t n_chunks) {
    struct meeting meeting = {0};
    double round[N_ROUNDS];
    for (int i = 0; i < N_ROUNDS; i++) {
        const uint64_t start = clock_ns();
        for (int k = 0; k < N_RUNS; k++) {
            meeting.expected += n_chunks;
            pool_run(pool, fn, &meeting, n_chunks, 1);
        }
        round[i] = (double)(clock_ns() - start) / N_RUNS;
    }
    qsort(round, N_ROUNDS, sizeof *round, compare);
    return round[N_ROUNDS / 2];
}

int main(int argc, char **argv) {
    static const int per_thread[] = {1, 4, 16, 64};
    struct topology *topology;
    if (topology_create(NULL, &topology, NULL)) return 1;
    const int most = argc > 1 ? atoi(argv[1]) : topology->n_threads;
    printf("%d cores, %d hardware threads, %d domains, %d memory nodes, caches of %llu KiB (core) "
           "and %llu KiB\n",
           topology->n_cores, topology->n_cpus, topology->n_domains, topology->n_nodes,
           (unsigned long long)topology->core_cache_bytes >> 10,
           (unsigned long long)topology->cache_bytes >> 10);
    printf("ns per run\nthreads");
    for (size_t i = 0; i < sizeof per_thread / sizeof *per_thread; i++)
        printf("  empty x %-2d", per_thread[i]);
    printf("        meet\n");
    for (int n_threads = 1; n_threads <= most; n_threads++) {
        struct pool *pool;
        if (pool_create(n_threads, &pool, NULL)) return 1;
        pool_bind(pool, topology);
        printf("%7d", n_threads);
        for (size_t i = 0; i < sizeof per_thread / sizeof *per_thread; i++)
            printf("  %10.0f", run_ns(pool, do_nothing, per_thread[i] * n_threads));
        printf("  %10.0f\n", run_ns(pool, meet, n_threads));
        pool_destroy(pool);
    }
    topology_destroy(topology);
    return 0;
}

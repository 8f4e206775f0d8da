// The price of a run beside its work, by the number of workers, and the choice of that number. Only
// speed depends on it: a chunk gives the same result on any worker. See pool.h.
#include "base/clock.h"
#include "base/pool.h"

enum {
    TRIALS = 12,
    BUDGET_NS = 1000000, // of all trials; the first one is made in any case
    WORK_NS = 4000,      // of a chunk in a trial: long enough that its owner comes before a thief
};

// Powers of two, and all threads.
static void counts_fill(struct pool_price *price, int n_threads) {
    price->n = 0;
    for (int n = 2; n < n_threads && price->n < POOL_PRICES - 1; n *= 2)
        price->run[price->n++].n_workers = n;
    if (n_threads > 1) price->run[price->n++].n_workers = n_threads;
}

void pool_price_guess(struct pool *pool) {
    struct pool_price *price = pool_price(pool);
    counts_fill(price, pool_size(pool));
    for (int i = 0; i < price->n; i++) price->run[i].ns = 1000 + 50.0 * price->run[i].n_workers;
}

static void wait_some(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)ctx, (void)begin, (void)end, (void)worker;
    const uint64_t until = clock_ns() + WORK_NS;
    while (clock_ns() < until) continue;
}

// The best of the trials: others' load on the machine makes a trial longer, never shorter. Each
// worker has a chunk. A helper that sleeps or lost its core is robbed, so a trial ends soon.
static double trial_best(struct pool *pool, int n_workers, uint64_t end) {
    double best = 0;
    for (int i = 0; i < TRIALS; i++) {
        const uint64_t start = clock_ns();
        pool_run_on(pool, n_workers, wait_some, NULL, n_workers, 1);
        const double ns = (double)(clock_ns() - start) - WORK_NS;
        if (i == 0 || ns < best) best = ns;
        if (clock_ns() > end) break;
    }
    return best > 0 ? best : 0;
}

// Threads that share cores all take part in a run, or none: idle ones would spin on the cores of
// the others. Numbers that the budget leaves out keep their guess.
void pool_measure(struct pool *pool, int n_cores) {
    struct pool_price *price = pool_price(pool);
    const uint64_t end = clock_ns() + BUDGET_NS;
    if (pool_size(pool) > n_cores && price->n > 0) {
        price->run[0] = price->run[price->n - 1];
        price->n = 1;
    }
    for (int i = 0; i < price->n; i++) {
        const bool has_time = i == 0 || clock_ns() < end;
        const double ns =
            has_time ? trial_best(pool, price->run[i].n_workers, end) : price->run[i].ns;
        price->run[i].ns = i > 0 && ns < price->run[i - 1].ns ? price->run[i - 1].ns : ns;
    }
}

int pool_workers_for(struct pool *pool, double work_ns) {
    const struct pool_price *price = pool_price(pool);
    double best = work_ns;
    int n_workers = 1;
    for (int i = 0; i < price->n; i++) {
        const double ns = work_ns / price->run[i].n_workers + price->run[i].ns;
        if (ns >= best) continue;
        best = ns;
        n_workers = price->run[i].n_workers;
    }
    return n_workers;
}

// The thread pool: every item runs exactly once, late helpers are harmless, and results are visible
// to the caller. Threads take from each other's shares as specified. Meant to be run under the
// thread sanitizer too. Waits that could hang end by alarm.
// label: threads
#define _GNU_SOURCE 1
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/topology.h"

static struct pool *pool_make(int n_threads) {
    struct pool *pool;
    assert_int_equal(pool_create(n_threads, &pool, NULL), RN_OK);
    assert_int_equal(pool_size(pool), n_threads);
    return pool;
}

// Plain counters, not atomic: an item that two workers touch, or that the caller cannot see, is a
// race that the sanitizer reports.
struct count_ctx {
    uint8_t count[2000];
    int64_t n_items, chunk;
    int n_workers;
    _Atomic int n_bad;
};

static void count_items(void *arg, int64_t begin, int64_t end, int worker) {
    struct count_ctx *ctx = arg;
    const bool is_last = end == ctx->n_items;
    if (begin % ctx->chunk != 0 || begin >= end) ctx->n_bad++;
    if (end - begin != ctx->chunk && !(is_last && end - begin < ctx->chunk)) ctx->n_bad++;
    if (worker < 0 || worker >= ctx->n_workers) ctx->n_bad++;
    for (int64_t i = begin; i < end; i++) ctx->count[i]++;
}

static void count_check(const struct count_ctx *ctx) {
    assert_int_equal(ctx->n_bad, 0);
    for (int64_t i = 0; i < (int64_t)sizeof ctx->count; i++)
        check(ctx->count[i] == (i < ctx->n_items), "item %d: %d times", (int)i, ctx->count[i]);
}

static void check_once(struct pool *pool, int64_t n_items, int64_t chunk) {
    struct count_ctx ctx = {.n_items = n_items, .chunk = chunk, .n_workers = pool_size(pool)};
    pool_run(pool, count_items, &ctx, n_items, chunk);
    count_check(&ctx);
}

CASE(every_item_runs_exactly_once) {
    const int64_t items[] = {0, 1, 2, 3, 7, 64, 65, 1000, 2000};
    const int64_t chunks[] = {1, 2, 3, 16, 1000, 5000, INT64_MAX};
    for (int n_threads = 1; n_threads <= 5; n_threads++) {
        struct pool *pool = pool_make(n_threads);
        for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
            for (size_t k = 0; k < sizeof chunks / sizeof *chunks; k++) {
                check_once(pool, items[i], chunks[k]);
            }
        }
        pool_destroy(pool);
    }
}

struct sum_ctx {
    int64_t value[8];
    int64_t add;
};

static void add_items(void *arg, int64_t begin, int64_t end, int worker) {
    struct sum_ctx *ctx = arg;
    for (int64_t i = begin; i < end; i++) ctx->value[i] += ctx->add;
}

static void poison_items(void *arg, int64_t begin, int64_t end, int worker) {
    int64_t *value = arg;
    for (int64_t i = begin; i < end; i++) value[i] = -1;
}

// The context dies and the shape changes from run to run: a helper that used a finished run's
// description would write to dead memory or out of range.
CASE(late_helpers_do_no_harm) {
    struct pool *pool = pool_make(4);
    for (int run = 0; run < 20000; run++) {
        const int64_t n_items = 2 + run % 7;
        if (run % 2) {
            struct sum_ctx ctx = {.add = run};
            pool_run(pool, add_items, &ctx, n_items, 1);
            for (int i = 0; i < 8; i++) assert_int_equal(ctx.value[i], i < n_items ? run : 0);
        } else {
            int64_t value[16] = {0};
            pool_run(pool, poison_items, value, n_items, 1 + run % 3);
            for (int i = 0; i < 16; i++) assert_int_equal(value[i], i < n_items ? -1 : 0);
        }
    }
    pool_destroy(pool);
}

CASE(pool_works_after_its_helpers_went_to_sleep) {
    struct pool *pool = pool_make(3);
    for (int run = 0; run < 50; run++) {
        usleep(run % 5 * 100); // around the time after which a helper sleeps
        check_once(pool, 500, 7);
    }
    pool_destroy(pool);
}

struct meet_ctx {
    _Atomic int arrived;
    int expected;
    pthread_t threads[4];
};

static void meet_others(void *arg, int64_t begin, int64_t end, int worker) {
    struct meet_ctx *ctx = arg;
    ctx->threads[begin] = pthread_self();
    atomic_fetch_add(&ctx->arrived, 1);
    while (atomic_load(&ctx->arrived) < ctx->expected) usleep(10);
}

// Each chunk waits until all have begun, which needs that many threads; alarm ends a hang.
CASE(all_threads_take_part) {
    struct pool *pool = pool_make(4);
    alarm(60);
    for (int run = 0; run < 20; run++) {
        struct meet_ctx ctx = {.expected = 4};
        usleep(run % 2 * 300);
        pool_run(pool, meet_others, &ctx, 4, 1);
        for (int i = 0; i < 4; i++) {
            for (int k = 0; k < i; k++) assert_false(pthread_equal(ctx.threads[i], ctx.threads[k]));
        }
    }
    alarm(0);
    pool_destroy(pool);
}

static void check_thread(void *arg, int64_t begin, int64_t end, int worker) {
    assert_int_equal(worker, 0);
    assert_true(pthread_equal(pthread_self(), *(pthread_t *)arg));
}

CASE(one_thread_or_one_chunk_runs_on_the_caller) {
    pthread_t self = pthread_self();
    struct pool *one = pool_make(1);
    pool_run(one, check_thread, &self, 1000, 1);
    pool_destroy(one);
    struct pool *four = pool_make(4);
    for (int run = 0; run < 100; run++) pool_run(four, check_thread, &self, 1000, 1000);
    pool_destroy(four);
}

CASE(pool_can_be_destroyed_at_any_moment_between_runs) {
    for (int run = 0; run < 100; run++) {
        struct pool *pool = pool_make(1 + run % 4);
        if (run % 3) check_once(pool, 100, 3);
        if (run % 10 == 0) usleep(200);
        pool_destroy(pool);
    }
    pool_destroy(NULL);
}

CASE(bad_thread_counts_are_refused_by_value) {
    const int counts[] = {0, -1, 1025, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct pool *pool = (struct pool *)&pool;
        rn_error err;
        assert_int_equal(pool_create(counts[i], &pool, &err), RN_ERR_ARG);
        assert_null(pool);
        char value[16];
        snprintf(value, sizeof value, "%d", counts[i]);
        assert_non_null(strstr(err.message, value));
    }
}

// ---------------------------------------------------------------- random mixes

static uint32_t random_next(uint32_t *state, uint32_t below) {
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(*state >> 8) * below >> 24);
}

static void add_bytes(void *arg, int64_t begin, int64_t end, int worker) {
    uint8_t *count = arg;
    for (int64_t i = begin; i < end; i++) count[i]++;
}

struct mix_ctx {
    struct count_ctx count;
    int stalled_worker;
    _Atomic int n_stalls; // left
};

static void mix_items(void *arg, int64_t begin, int64_t end, int worker) {
    struct mix_ctx *ctx = arg;
    count_items(&ctx->count, begin, end, worker);
    if (worker == ctx->stalled_worker && atomic_fetch_sub(&ctx->n_stalls, 1) > 0) usleep(300);
}

// Runs of random shapes back to back; now and then a worker loses its core in the middle of a
// chunk.
CASE(random_mixes_run_each_item_once) {
    // one cluster and several, some of them not full
    static const int counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 17, 33};
    uint32_t seed = 1;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const int n_threads = counts[i];
        struct pool *pool = pool_make(n_threads);
        for (int run = 0; run < (n_threads > 8 ? 60 : 300); run++) {
            const int64_t n_items = random_next(&seed, run % 2 ? 2001 : 30);
            const int64_t chunk = 1 + random_next(&seed, run % 3 ? 8 : 200);
            struct mix_ctx ctx = {.count = {.n_items = n_items,
                                            .chunk = chunk,
                                            .n_workers = n_threads},
                                  .stalled_worker = (int)random_next(&seed, (uint32_t)n_threads),
                                  .n_stalls = random_next(&seed, 10) == 0};
            const int n_workers = (int)random_next(&seed, (uint32_t)n_threads + 2);
            pool_run_on(pool, run % 4 ? n_workers : n_threads, mix_items, &ctx, n_items, chunk);
            count_check(&ctx.count);
        }
        pool_destroy(pool);
    }
}

CASE(hundred_thousand_runs_back_to_back) {
    struct pool *pool = pool_make(2);
    struct sum_ctx ctx = {.add = 1};
    int64_t expected[8] = {0};
    for (int run = 0; run < 100000; run++) {
        const int64_t n_items = 1 + run % 8, chunk = 1 + run / 8 % 3;
        pool_run(pool, add_items, &ctx, n_items, chunk);
        for (int64_t i = 0; i < n_items; i++) expected[i]++;
        if (ctx.value[run % 8] != expected[run % 8]) break;
    }
    assert_memory_equal(ctx.value, expected, sizeof expected);
    pool_destroy(pool);
}

// A share has fewer claims than this run has chunks.
CASE(very_many_chunks_run_once_each) {
    static uint8_t count[300000];
    for (int n_threads = 2; n_threads <= 3; n_threads++) {
        struct pool *pool = pool_make(n_threads);
        for (int64_t n = (int64_t)sizeof count - 2; n <= (int64_t)sizeof count; n++) {
            memset(count, 0, sizeof count);
            pool_run(pool, add_bytes, count, n, 1);
            for (int64_t i = 0; i < (int64_t)sizeof count; i++)
                check(count[i] == (i < n), "item %d of %d", (int)i, (int)n);
        }
        pool_destroy(pool);
    }
}

// ---------------------------------------------------------------- the number of workers

struct seen_ctx {
    _Atomic int highest; // worker
    _Atomic int n_late;  // chunks of workers that should have none
    int most;
};

static void note_worker(void *arg, int64_t begin, int64_t end, int worker) {
    struct seen_ctx *ctx = arg;
    usleep(20); // time for the others to come
    if (worker >= ctx->most) ctx->n_late++;
    int highest = atomic_load(&ctx->highest);
    while (worker > highest && !atomic_compare_exchange_weak(&ctx->highest, &highest, worker))
        continue;
}

// Clusters have 1, 1, 2, 4, 8, 8, ... workers.
CASE(run_on_some_workers_leaves_the_others_alone) {
    const struct {
        int wanted, most;
    } cases[] = {{-1, 1}, {0, 1}, {1, 1}, {2, 2},  {3, 4},
                 {4, 4},  {5, 8}, {8, 8}, {9, 11}, {99, 11}};
    struct pool *pool = pool_make(11);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct seen_ctx ctx = {.most = cases[i].most};
        for (int run = 0; run < 5; run++)
            pool_run_on(pool, cases[i].wanted, note_worker, &ctx, 40, 1);
        assert_int_equal(ctx.n_late, 0);
    }
    struct seen_ctx few = {.most = 4}; // three chunks need no more than four workers
    for (int run = 0; run < 20; run++) pool_run(pool, note_worker, &few, 3, 1);
    assert_int_equal(few.n_late, 0);
    pool_destroy(pool);
}

// Small and large runs in turn: helpers sleep through the small ones, and wake for the large.
CASE(helpers_that_slept_through_small_runs_come_back) {
    struct pool *pool = pool_make(4);
    alarm(60);
    for (int round = 0; round < 20; round++) {
        for (int run = 0; run < 50; run++) {
            struct count_ctx ctx = {.n_items = 100, .chunk = 3, .n_workers = 2};
            pool_run_on(pool, 2, count_items, &ctx, 100, 3);
            count_check(&ctx);
        }
        usleep(200);
        struct meet_ctx meet = {.expected = 4};
        pool_run(pool, meet_others, &meet, 4, 1);
    }
    alarm(0);
    pool_destroy(pool);
}

CASE(workers_are_as_many_as_end_soonest) {
    struct pool *pool = pool_make(11);
    struct pool_price *price = pool_price(pool);
    assert_int_equal(price->n, 4);
    const int counts[] = {2, 4, 8, 11};
    const double ns[] = {100, 600, 1000, 4000};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(price->run[i].n_workers, counts[i]);
        assert_true(price->run[i].ns > 0); // the guess
        price->run[i].ns = ns[i];
    }
    const struct {
        double work_ns;
        int workers;
    } cases[] = {{0, 1},    {190, 1},  {210, 2},   {1990, 2},   {2010, 4},
                 {3190, 4}, {3210, 8}, {80000, 8}, {90000, 11}, {1e9, 11}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(pool_workers_for(pool, cases[i].work_ns) == cases[i].workers, "%g ns: %d workers",
              cases[i].work_ns, pool_workers_for(pool, cases[i].work_ns));
    pool_measure(pool, 11);
    for (int i = 1; i < 4; i++) assert_true(price->run[i].ns >= price->run[i - 1].ns);
    assert_int_equal(pool_workers_for(pool, 1e12), 11);
    pool_measure(pool, 10); // threads share cores: all of them, or the caller
    assert_int_equal(price->n, 1);
    price->run[0].ns = 1000;
    assert_int_equal(pool_workers_for(pool, 1090), 1);
    assert_int_equal(pool_workers_for(pool, 1110), 11);
    pool_destroy(pool);
    struct pool *one = pool_make(1);
    pool_measure(one, 1);
    pool_measure(one, 0);
    assert_int_equal(pool_workers_for(one, 1e12), 1);
    pool_destroy(one);
}

// ---------------------------------------------------------------- shares

enum { ORDER_MAX = 64, ORDER_WORKERS = 10 };

struct order_ctx {
    int n_threads, stalled_worker; // -1: no thread is stalled
    int64_t n_chunks;
    _Atomic int n_begun; // workers
    _Atomic int64_t n_done;
    int64_t chunk[ORDER_WORKERS][ORDER_MAX]; // by worker, in the order taken
    int n_chunk[ORDER_WORKERS];
};

// Everybody waits in his first chunk until all have begun; the stalled one until the others have
// done all chunks but this one.
static void note_order(void *arg, int64_t begin, int64_t end, int worker) {
    struct order_ctx *ctx = arg;
    const bool is_first = ctx->n_chunk[worker] == 0;
    ctx->chunk[worker][ctx->n_chunk[worker]++] = begin;
    if (is_first) {
        atomic_fetch_add(&ctx->n_begun, 1);
        while (atomic_load(&ctx->n_begun) < ctx->n_threads) usleep(10);
        if (worker == ctx->stalled_worker)
            while (atomic_load(&ctx->n_done) < ctx->n_chunks - 1) usleep(10);
    }
    atomic_fetch_add(&ctx->n_done, 1);
}

static void order_run(struct order_ctx *ctx) {
    struct pool *pool = pool_make(ctx->n_threads);
    alarm(60);
    pool_run(pool, note_order, ctx, ctx->n_chunks, 1);
    alarm(0);
    pool_destroy(pool);
    assert_int_equal(ctx->n_done, ctx->n_chunks);
}

CASE(workers_begin_with_a_share_of_their_own) {
    for (int n_threads = 2; n_threads <= 6; n_threads++) {
        for (int64_t n_chunks = n_threads; n_chunks <= 3 * n_threads; n_chunks++) {
            struct order_ctx ctx = {.n_threads = n_threads,
                                    .stalled_worker = -1,
                                    .n_chunks = n_chunks};
            order_run(&ctx);
            int64_t first = 0;
            for (int w = 0; w < n_threads; w++) {
                assert_int_equal(ctx.chunk[w][0], first);
                first += n_chunks / n_threads + (w < n_chunks % n_threads);
            }
        }
    }
}

// Also with few chunks: the others do all of the stalled worker's share but the chunk it is in.
CASE(stalled_worker_keeps_nothing_but_its_chunk) {
    static const int counts[] = {2, 3, 4, 5, ORDER_WORKERS};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const int n_threads = counts[i];
        for (int stalled = 0; stalled < n_threads; stalled++) {
            for (int64_t n_chunks = n_threads; n_chunks <= 4 * n_threads; n_chunks += 3) {
                struct order_ctx ctx = {.n_threads = n_threads,
                                        .stalled_worker = stalled,
                                        .n_chunks = n_chunks};
                order_run(&ctx);
                assert_int_equal(ctx.n_chunk[stalled], 1);
            }
        }
    }
}

CASE(share_of_a_worker_begins_where_the_pool_says) {
    struct pool *pool = pool_make(11);
    assert_int_equal(pool_share_first(pool, 11, 1000, 10, 0), 0);
    assert_int_equal(pool_share_first(pool, 11, 1000, 10, 1), 100); // 100 chunks: 10 for the first
    assert_int_equal(pool_share_first(pool, 11, 1000, 10, 10), 910);
    assert_int_equal(pool_share_first(pool, 2, 1000, 10, 1), 500);
    assert_int_equal(pool_share_first(pool, 2, 1000, 10, 2), 1000); // takes no part
    assert_int_equal(pool_share_first(pool, 11, 30, 10, 2), 20);
    assert_int_equal(pool_share_first(pool, 11, 30, 10, 3), 30);
    assert_int_equal(pool_share_first(pool, 11, 30, 10, 10), 30);
    pool_destroy(pool);
}

CASE(own_share_goes_forwards_and_theft_begins_at_the_end) {
    for (int stalled = 0; stalled < 2; stalled++) {
        struct order_ctx ctx = {.n_threads = 2, .stalled_worker = stalled, .n_chunks = 10};
        const int64_t by_1[] = {5, 6, 7, 8, 9, 4, 3, 2, 1}, by_0[] = {0, 1, 2, 3, 4, 9, 8, 7, 6};
        order_run(&ctx);
        assert_int_equal(ctx.n_chunk[!stalled], 9);
        assert_memory_equal(ctx.chunk[!stalled], stalled ? by_0 : by_1, sizeof by_0);
    }
}

// ---------------------------------------------------------------- the work ahead

struct ahead_ctx {
    _Atomic int64_t next[8]; // by worker
    int64_t n_steps;
    int n_workers;
    pthread_t owner;
    _Atomic int n_bad;
};

static bool count_steps(void *arg, int worker, int64_t step) {
    struct ahead_ctx *ctx = arg;
    if (worker < 1 || worker >= ctx->n_workers || pthread_equal(pthread_self(), ctx->owner) ||
        (step != 0 && step != ctx->next[worker]) || step >= ctx->n_steps) {
        ctx->n_bad++;
        return false;
    }
    ctx->next[worker] = step + 1;
    return step + 1 < ctx->n_steps;
}

CASE(waiting_helpers_step_until_nothing_is_left) {
    for (int n_threads = 1; n_threads <= 4; n_threads++) {
        struct pool *pool = pool_make(n_threads);
        struct ahead_ctx ctx = {.n_steps = 5, .n_workers = n_threads, .owner = pthread_self()};
        pool_set_ahead(pool, count_steps, &ctx);
        for (int run = 0; run < 300; run++) {
            check_once(pool, 100, 3);
            if (run % 50 == 0) usleep(300);
        }
        alarm(60); // an undisturbed wait runs to its end
        for (int w = 1; w < n_threads; w++)
            while (atomic_load(&ctx.next[w]) < ctx.n_steps) usleep(100);
        alarm(0);
        pool_set_ahead(pool, NULL, NULL);
        assert_int_equal(ctx.n_bad, 0);
        pool_destroy(pool);
    }
}

static bool never_ends(void *arg, int worker, int64_t step) {
    atomic_fetch_add((_Atomic int *)arg, 1);
    return true;
}

CASE(run_that_is_offered_ends_the_steps) {
    struct pool *pool = pool_make(3);
    _Atomic int n_calls = 0;
    pool_set_ahead(pool, never_ends, &n_calls);
    alarm(60);
    for (int run = 0; run < 20; run++) {
        struct meet_ctx ctx = {.expected = 3};
        pool_run(pool, meet_others, &ctx, 3, 1);
        const int before = atomic_load(&n_calls);
        while (atomic_load(&n_calls) < before + 2) usleep(10);
    }
    alarm(0);
    pool_destroy(pool); // with helpers in the middle of it
}

static bool read_plain(void *arg, int worker, int64_t step) {
    const int *value = arg;
    return value[worker] == 7 && step < 100;
}

// The address and thread sanitizers see a helper that still uses what was taken away.
CASE(context_may_be_freed_after_it_was_taken_away) {
    struct pool *pool = pool_make(3);
    struct ahead_ctx other = {.n_workers = 0};
    for (int round = 0; round < 2000; round++) {
        int *value = malloc(3 * sizeof *value);
        assert_non_null(value);
        for (int i = 0; i < 3; i++) value[i] = 7;
        pool_set_ahead(pool, read_plain, value);
        if (round % 4) check_once(pool, 60, 5);
        pool_set_ahead(pool, round % 2 ? count_steps : NULL, &other);
        for (int i = 0; i < 3; i++) value[i] = 0;
        free(value);
        pool_set_ahead(pool, NULL, NULL);
    }
    pool_destroy(pool);
}

struct slow_ctx {
    _Atomic bool was_inside, is_inside;
};

static bool step_slowly(void *arg, int worker, int64_t step) {
    struct slow_ctx *ctx = arg;
    atomic_store(&ctx->is_inside, true);
    atomic_store(&ctx->was_inside, true);
    usleep(20000);
    atomic_store(&ctx->is_inside, false);
    return true;
}

CASE(taking_a_function_away_waits_for_who_is_inside) {
    struct pool *pool = pool_make(2);
    struct slow_ctx ctx = {false, false};
    pool_set_ahead(pool, step_slowly, &ctx);
    struct meet_ctx meet = {.expected = 2};
    pool_run(pool, meet_others, &meet, 2, 1);
    alarm(60);
    while (!atomic_load(&ctx.was_inside)) usleep(10);
    alarm(0);
    pool_set_ahead(pool, NULL, NULL);
    assert_false(atomic_load(&ctx.is_inside));
    pool_destroy(pool);
}

struct matrix {
    int rows;
    uint8_t data[64];
};

struct next_ctx {
    _Atomic(const struct matrix *) next;
    _Atomic uint64_t sum;
};

static bool fetch_next(void *arg, int worker, int64_t step) {
    struct next_ctx *ctx = arg;
    const struct matrix *matrix = atomic_load_explicit(&ctx->next, memory_order_acquire);
    if (step >= matrix->rows) return false;
    atomic_fetch_add_explicit(&ctx->sum, matrix->data[step], memory_order_relaxed);
    return true;
}

// The rule of pool.h: matrices are written before they are published, and stay.
CASE(owner_publishes_what_comes_next_by_one_store) {
    static struct matrix matrices[200];
    struct pool *pool = pool_make(3);
    struct next_ctx ctx = {.next = &matrices[0]};
    pool_set_ahead(pool, fetch_next, &ctx);
    for (int i = 1; i < 200; i++) {
        matrices[i].rows = i % 65;
        memset(matrices[i].data, i, sizeof matrices[i].data);
        atomic_store_explicit(&ctx.next, &matrices[i], memory_order_release);
        check_once(pool, 200, 7);
    }
    pool_set_ahead(pool, NULL, NULL);
    pool_destroy(pool);
}

// ---------------------------------------------------------------- binding

struct mask_ctx {
    struct meet_ctx meet;
    cpu_set_t mask[4]; // by worker
};

static void note_mask(void *arg, int64_t begin, int64_t end, int worker) {
    struct mask_ctx *ctx = arg;
    sched_getaffinity(0, sizeof ctx->mask[worker], &ctx->mask[worker]);
    meet_others(&ctx->meet, begin, end, worker);
}

static struct mask_ctx bound_masks(int n_threads, const struct topology *topology) {
    struct mask_ctx ctx = {.meet.expected = n_threads};
    struct pool *pool = pool_make(n_threads);
    pool_bind(pool, topology);
    alarm(60);
    pool_run(pool, note_mask, &ctx, n_threads, 1);
    alarm(0);
    pool_destroy(pool);
    return ctx;
}

// Two domains with one hardware thread each, both available to this process.
CASE(full_pool_is_bound_by_domain_and_the_caller_is_not) {
    cpu_set_t all;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    int cpu[2] = {0}, n = 0;
    for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
        if (CPU_ISSET(i, &all)) cpu[n++] = i;
    if (n < 2) skip();
    struct topology_domain domain[2] = {{1, 1, &cpu[0], 0}, {1, 1, &cpu[1], 0}};
    struct topology topology = {.n_cores = 2, .n_domains = 2, .domain = domain};
    struct mask_ctx ctx = bound_masks(2, &topology);
    assert_true(CPU_EQUAL(&ctx.mask[0], &all));
    assert_int_equal(CPU_COUNT(&ctx.mask[1]), 1);
    assert_true(CPU_ISSET(cpu[0], &ctx.mask[1]) || CPU_ISSET(cpu[1], &ctx.mask[1]));

    ctx = bound_masks(3, &topology); // more threads than cores
    for (int w = 0; w < 3; w++) assert_true(CPU_EQUAL(&ctx.mask[w], &all));
    topology.n_cores = 3; // fewer
    domain[1].n_cores = 2;
    ctx = bound_masks(2, &topology);
    for (int w = 0; w < 2; w++) assert_true(CPU_EQUAL(&ctx.mask[w], &all));
    topology = (struct topology){.n_cores = 2, .n_domains = 1, .domain = domain}; // all are near
    ctx = bound_masks(2, &topology);
    for (int w = 0; w < 2; w++) assert_true(CPU_EQUAL(&ctx.mask[w], &all));
}

// Nodes are known wherever there are several, and those of the workers where they are bound.
CASE(workers_know_the_memory_that_is_near) {
    int cpu[4] = {0, 1, 2, 3};
    struct topology_domain domain[3] = {{2, 2, &cpu[0], 5}, {1, 1, &cpu[2], 5}, {1, 1, &cpu[3], 2}};
    struct topology topology = {.n_cores = 4, .n_domains = 3, .domain = domain};
    struct pool *pool = pool_make(4);
    assert_int_equal(pool_nodes(pool), 0);
    pool_nodes_set(pool, &topology);
    assert_int_equal(pool_nodes(pool), 1 << 5 | 1 << 2);
    for (int w = 0; w < 4; w++) assert_int_equal(pool_node(pool, w), -1);
    pool_bind(pool, &topology);
    int n_far = 0;
    for (int w = 0; w < 4; w++) n_far += pool_node(pool, w) == 2;
    assert_int_equal(n_far, 1);
    for (int w = 0; w < 4; w++) assert_true(pool_node(pool, w) == 2 || pool_node(pool, w) == 5);
    pool_destroy(pool);

    static const int odd[][3] = {{5, 5, 5}, {5, -1, 2}, {5, 64, 2}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) { // one, an unknown, one too high
        pool = pool_make(4);
        for (int d = 0; d < 3; d++) domain[d].node = odd[i][d];
        pool_nodes_set(pool, &topology);
        pool_bind(pool, &topology);
        assert_int_equal(pool_nodes(pool), 0);
        for (int w = 0; w < 4; w++) assert_int_equal(pool_node(pool, w), -1);
        pool_destroy(pool);
    }
}

TEST_PROGRAM(pool) { return cases_run(NULL, NULL); }

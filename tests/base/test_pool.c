// The thread pool: every item exactly once, late helpers harmless, results visible to the caller.
// Meant to be run under the thread sanitizer too.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/pool.h"

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

static void check_once(struct pool *pool, int64_t n_items, int64_t chunk) {
    struct count_ctx ctx = {.n_items = n_items, .chunk = chunk, .n_workers = pool_size(pool)};
    pool_run(pool, count_items, &ctx, n_items, chunk);
    assert_int_equal(ctx.n_bad, 0);
    for (int64_t i = 0; i < (int64_t)sizeof ctx.count; i++) {
        assert_int_equal(ctx.count[i], i < n_items);
    }
}

static void every_item_runs_exactly_once(void **state) {
    (void)state;
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
    (void)worker;
    for (int64_t i = begin; i < end; i++) ctx->value[i] += ctx->add;
}

static void poison_items(void *arg, int64_t begin, int64_t end, int worker) {
    int64_t *value = arg;
    (void)worker;
    for (int64_t i = begin; i < end; i++) value[i] = -1;
}

// The context dies and the shape changes from run to run: a helper that used a finished run's
// description would write to dead memory or out of range.
static void late_helpers_do_no_harm(void **state) {
    (void)state;
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

static void pool_works_after_its_helpers_went_to_sleep(void **state) {
    (void)state;
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
    (void)end;
    (void)worker;
    ctx->threads[begin] = pthread_self();
    atomic_fetch_add(&ctx->arrived, 1);
    while (atomic_load(&ctx->arrived) < ctx->expected) usleep(10);
}

// Each chunk waits until all have begun, which needs that many threads; alarm ends a hang.
static void all_threads_take_part(void **state) {
    (void)state;
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
    (void)begin;
    (void)end;
    assert_int_equal(worker, 0);
    assert_true(pthread_equal(pthread_self(), *(pthread_t *)arg));
}

static void one_thread_or_one_chunk_runs_on_the_caller(void **state) {
    (void)state;
    pthread_t self = pthread_self();
    struct pool *one = pool_make(1);
    pool_run(one, check_thread, &self, 1000, 1);
    pool_destroy(one);
    struct pool *four = pool_make(4);
    for (int run = 0; run < 100; run++) pool_run(four, check_thread, &self, 1000, 1000);
    pool_destroy(four);
}

static void pool_can_be_destroyed_at_any_moment_between_runs(void **state) {
    (void)state;
    for (int run = 0; run < 100; run++) {
        struct pool *pool = pool_make(1 + run % 4);
        if (run % 3) check_once(pool, 100, 3);
        if (run % 10 == 0) usleep(200);
        pool_destroy(pool);
    }
    pool_destroy(NULL);
}

static void bad_thread_counts_are_refused_by_value(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_runs_exactly_once),
        cmocka_unit_test(late_helpers_do_no_harm),
        cmocka_unit_test(pool_works_after_its_helpers_went_to_sleep),
        cmocka_unit_test(all_threads_take_part),
        cmocka_unit_test(one_thread_or_one_chunk_runs_on_the_caller),
        cmocka_unit_test(pool_can_be_destroyed_at_any_moment_between_runs),
        cmocka_unit_test(bad_thread_counts_are_refused_by_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

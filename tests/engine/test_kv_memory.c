// Every allocation of the page manager's and of a table's creation is made to fail once: each
// failure is reported, nothing leaks, and the next call works. And nothing else allocates.
#include <stdlib.h>

#include "check.h"
#include "engine/pages/kv.h"

#include "failing_malloc.h"

static void forget(struct backend *backend, int group, uint32_t page) {
    (void)backend, (void)group, (void)page;
}
static const struct backend_class fake_class = {.name = "fake", .page_release = forget};

static const struct kv_config config = {.n_group = 3,
                                        .group = {{KV_FULL, 0, 100, 0, 0},
                                                  {KV_WINDOW, 40, 70, 0, 0},
                                                  {KV_RECURRENT, 0, 30, 0, 0}},
                                        .budget = 5000,
                                        .max_tables = 4,
                                        .max_page_ops = 100};

CASE(each_failed_allocation_of_create_is_reported) {
    struct backend backend = {&fake_class};
    const long before = live;
    int failures = 0;
    for (bool failed = true; failed;) {
        struct kv *kv = NULL;
        rn_error err = {0};
        fail_at = failures;
        const rn_status status = kv_create(&config, &backend, &kv, &err);
        failed = fail_at < 0;
        fail_at = -1;
        if (failed) {
            check(status == RN_ERR_NOMEM, "allocation %d: %s", failures, rn_status_text(status));
            check(kv == NULL && err.message[0], "allocation %d: no message", failures);
            failures++;
        } else {
            assert_int_equal(status, RN_OK);
            kv_destroy(kv);
        }
        check(live == before, "allocation %d: %ld blocks are left", failures, live - before);
    }
    assert_int_equal(failures, 1 + 3 * 3 + 3 + 1);
}

CASE(each_failed_allocation_of_a_table_is_reported) {
    const long before = live;
    for (int at = 0; at < 3; at++) {
        struct kv_table table;
        rn_error err = {0};
        fail_at = at;
        assert_int_equal(kv_table_init(&table, 3, 100, &err), RN_ERR_NOMEM);
        fail_at = -1;
        assert_non_null(err.message);
        assert_true(err.message[0] != '\0');
        assert_int_equal(live, before);
    }
    struct kv_table table;
    assert_int_equal(kv_table_init(&table, 3, 100, NULL), RN_OK);
    kv_table_deinit(&table);
    assert_int_equal(live, before);
}

CASE(nothing_allocates_after_create) {
    struct backend backend = {&fake_class};
    struct kv *kv;
    struct kv_table table[2];
    static int32_t token[300];
    for (int i = 0; i < 300; i++) token[i] = i;
    assert_int_equal(kv_create(&config, &backend, &kv, NULL), RN_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(kv_table_init(&table[i], 3, 300, NULL), RN_OK);
    const long before = live;
    fail_at = 0; // the next one would fail, and be seen
    for (int round = 0; round < 4; round++) {
        token[0] = round;
        int n = kv_hit(kv, &table[0], token, 300, "salt", 4);
        while (n < 300 && kv_grow(kv, &table[0], n, 20)) {
            kv_take_ops(kv, &(int){0});
            kv_commit(kv, &table[0], token, n += 20);
        }
        assert_true(kv_fork(kv, &table[0], n, &table[1], n) > 0);
        kv_check_begin(kv);
        for (int i = 0; i < 2; i++) kv_check_table(kv, &table[i]);
        assert_true(kv_check_end(kv));
        kv_retire(kv, &table[0], token, n);
        kv_release(kv, &table[1]);
        if (round == 2) kv_forget_prefixes(kv);
    }
    assert_int_equal(fail_at, 0);
    fail_at = -1;
    assert_int_equal(live, before);
    for (int i = 0; i < 2; i++) kv_table_deinit(&table[i]);
    kv_destroy(kv);
}

TEST_PROGRAM(kv_memory) { return cases_run(NULL, NULL); }

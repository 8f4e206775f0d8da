// The page manager under random promises, growth and release: its invariants hold at every moment.
#include "engine/kv.h"

#include <stdlib.h>

#include "check.h"

enum { PAGES = 40, TABLES = 8, GROUPS = 2 };

static uint8_t cleared[GROUPS][PAGES];
static void note_clear(struct backend *backend, const struct batch *batch) {
    (void)backend;
    for (int i = 0; i < batch->n_pages; i++) cleared[batch->page[i].group][batch->page[i].page]++;
}

static const struct backend_class fake_class = {.name = "fake", .run = note_clear};

static bool check_all(const struct kv *kv, const struct kv_table *const *tables, int n) {
    struct kv_tally tally;
    kv_check_begin(kv, &tally);
    for (int i = 0; i < n; i++)
        if (!kv_check_table(kv, &tally, tables[i])) return false;
    return kv_check_end(kv, &tally);
}

static void random_use_keeps_the_invariants(void **state) {
    (void)state;
    struct backend fake = {&fake_class};
    struct kv kv;
    const uint32_t pages[GROUPS] = {PAGES, PAGES};
    assert_int_equal(kv_init(&kv, GROUPS, pages, &fake, NULL), RN_OK);
    struct kv_table table[TABLES];
    bool held[TABLES] = {false};
    int grown[TABLES] = {0}, limit[TABLES] = {0}, refused = 0;
    srand(7);
    for (int round = 0; round < 20000; round++) {
        const int t = rand() % TABLES;
        if (!held[t]) {
            limit[t] = 1 + rand() % (12 * KV_PAGE_TOKENS);
            assert_int_equal(kv_table_init(&table[t], GROUPS, limit[t], NULL), RN_OK);
            held[t] = kv_promise(&kv, &table[t]);
            grown[t] = 0;
            if (!held[t]) {
                kv_table_deinit(&table[t]);
                refused++;
            }
        } else if (rand() % 4) {
            grown[t] += rand() % (limit[t] - grown[t] + 1);
            kv_grow(&kv, &table[t], grown[t]);
            assert_int_equal(table[t].n_page, kv_pages_for(grown[t]));
        } else {
            kv_release(&kv, &table[t]);
            kv_table_deinit(&table[t]);
            held[t] = false;
        }
        const struct kv_table *live[TABLES];
        int n = 0;
        for (int i = 0; i < TABLES; i++)
            if (held[i]) live[n++] = &table[i];
        assert_true(check_all(&kv, live, n));
    }
    assert_true(refused > 0); // the pool was really short at times
    for (int i = 0; i < TABLES; i++) {
        if (!held[i]) continue;
        kv_release(&kv, &table[i]);
        kv_table_deinit(&table[i]);
    }
    for (int g = 0; g < GROUPS; g++) assert_int_equal(kv.group[g].n_free, PAGES);
    kv_deinit(&kv);
}

static void a_page_is_cleared_each_time_it_gets_an_owner(void **state) {
    (void)state;
    struct backend fake = {&fake_class};
    struct kv kv;
    const uint32_t pages[1] = {4};
    assert_int_equal(kv_init(&kv, 1, pages, &fake, NULL), RN_OK);
    for (int i = 0; i < 4; i++) cleared[0][i] = 0;
    for (int round = 1; round <= 3; round++) {
        struct kv_table table;
        assert_int_equal(kv_table_init(&table, 1, 4 * KV_PAGE_TOKENS, NULL), RN_OK);
        assert_true(kv_promise(&kv, &table));
        kv_grow(&kv, &table, 4 * KV_PAGE_TOKENS);
        for (int i = 0; i < 4; i++) assert_int_equal(cleared[0][i], round);
        kv_release(&kv, &table);
        kv_table_deinit(&table);
    }
    kv_deinit(&kv);
}

static void the_checker_sees_a_page_with_two_owners(void **state) {
    (void)state;
    struct backend fake = {&fake_class};
    struct kv kv;
    const uint32_t pages[1] = {4};
    assert_int_equal(kv_init(&kv, 1, pages, &fake, NULL), RN_OK);
    struct kv_table table;
    assert_int_equal(kv_table_init(&table, 1, 2 * KV_PAGE_TOKENS, NULL), RN_OK);
    assert_true(kv_promise(&kv, &table));
    kv_grow(&kv, &table, 2 * KV_PAGE_TOKENS);
    const struct kv_table *live[1] = {&table};
    assert_true(check_all(&kv, live, 1));
    const uint32_t page = table.page[0][1];
    table.page[0][1] = table.page[0][0];
    assert_false(check_all(&kv, live, 1));
    table.page[0][1] = page;
    assert_true(check_all(&kv, live, 1));
    kv_release(&kv, &table);
    kv_table_deinit(&table);
    kv_deinit(&kv);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_use_keeps_the_invariants),
        cmocka_unit_test(a_page_is_cleared_each_time_it_gets_an_owner),
        cmocka_unit_test(the_checker_sees_a_page_with_two_owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The order in which a page store gives up its pages: by the time that a byte saves and by the last
// use; never a page that others continue. Random pages against a list that is searched as a whole.
#include <stdlib.h>

#include "check.h"
#include "engine/store/page_index.h"

static struct page_key key_of(int chain, int n) {
    struct page_key key = {{0}};
    for (int i = 0; i <= n; i++) key = page_key_block(&key, (const int32_t[]){chain, i}, 2);
    return key;
}

static struct page_facts facts_of(int chain, int n, uint64_t bytes, uint64_t cost_ns) {
    struct page_facts facts = {.name = {.key = key_of(chain, n)},
                               .bytes = bytes,
                               .cost_ns = cost_ns};
    if (n > 0) facts.parent = key_of(chain, n - 1);
    return facts;
}

static void add(struct page_index *index, const struct page_facts *facts) {
    assert_true(page_index_add(index, &facts->name, facts->bytes, facts) != PAGE_NONE);
}

static struct page_index *make(void) {
    static struct page_index index;
    rn_error err = {0};
    assert_int_equal(page_index_init(&index, &err), RN_OK);
    return &index;
}

static void expect_victim(struct page_index *index, int chain, int n) {
    const uint32_t at = page_index_victim(index);
    assert_true(at != PAGE_NONE);
    const struct page_key want = key_of(chain, n);
    assert_true(page_key_equal(&index->entry[at].name.key, &want));
    page_index_remove(index, at);
}

CASE(the_cheapest_page_goes_first) {
    struct page_index *index = make();
    for (int i = 0; i < 5; i++) {
        const struct page_facts facts = facts_of(i, 0, 100, (uint64_t)(500 - 100 * i));
        add(index, &facts);
    }
    for (int i = 5; i-- > 0;) expect_victim(index, i, 0);
    assert_int_equal(page_index_victim(index), PAGE_NONE);
    assert_int_equal(index->bytes, 0);
    page_index_deinit(index);
}

CASE(a_used_page_stays_longer) {
    struct page_index *index = make();
    struct page_facts facts[4];
    for (int i = 0; i < 4; i++) {
        facts[i] = facts_of(i, 0, 100, 1000 + (uint64_t)i);
        add(index, &facts[i]);
    }
    expect_victim(index, 0, 0); // the floor rises to its rank
    page_index_use(index, page_index_find(index, &facts[1].name));
    expect_victim(index, 2, 0);
    expect_victim(index, 3, 0);
    expect_victim(index, 1, 0);
    page_index_deinit(index);
}

CASE(a_chain_goes_from_its_end) {
    struct page_index *index = make();
    for (int n = 0; n < 50; n++) { // the end is the most expensive
        const struct page_facts facts = facts_of(0, n, 100, (uint64_t)(1000 * (n + 1)));
        add(index, &facts);
    }
    for (int n = 50; n-- > 0;) expect_victim(index, 0, n);
    page_index_deinit(index);
}

CASE(pages_that_were_found_rank_by_worth_and_age) {
    struct page_index *index = make();
    struct page_facts facts[6];
    for (int i = 0; i < 6; i++) {
        facts[i] = facts_of(i, 0, 100, 1000);
        const uint32_t at = page_index_add(index, &facts[i].name, 100, NULL);
        index->entry[at].used_ns = 100 - i; // the last one is the oldest
        page_index_learn(index, at, &facts[i]);
    }
    page_index_order(index);
    const struct page_facts later = facts_of(9, 0, 100, 1000);
    add(index, &later);
    for (int i = 6; i-- > 0;) expect_victim(index, i, 0);
    expect_victim(index, 9, 0);
    page_index_deinit(index);
}

// Whether it is the lowest of all pages that nobody continues.
static bool is_lowest(const struct page_index *index, uint32_t at) {
    for (uint32_t i = 0; i < index->n_entry; i++) {
        const struct page_entry *entry = &index->entry[i];
        if (entry->is_used && entry->n_child == 0 && entry->rank < index->entry[at].rank)
            return false;
    }
    return index->entry[at].is_used && index->entry[at].n_child == 0;
}

CASE(random_pages) {
    enum { CHAINS = 12, LENGTH = 20 };
    struct page_index *index = make();
    bool is_there[CHAINS][LENGTH] = {{0}};
    static struct page_key keys[CHAINS][LENGTH];
    uint64_t bytes = 0, n_page = 0;
    for (int i = 0; i < CHAINS * LENGTH; i++)
        keys[i / LENGTH][i % LENGTH] = key_of(i / LENGTH, i % LENGTH);
    srand(5);
    for (int round = 0; round < test_scale(500, 3000, 20000); round++) {
        const int chain = rand() % CHAINS, n = rand() % LENGTH, what = rand() % 10;
        const struct page_facts facts =
            facts_of(chain, n, 100 + (uint64_t)(n * 7), (uint64_t)(rand() % 100000));
        const uint32_t at = page_index_find(index, &facts.name);
        assert_int_equal(at != PAGE_NONE, is_there[chain][n]);
        if (what < 6) {
            if (at == PAGE_NONE) bytes += facts.bytes, n_page++;
            add(index, &facts);
            is_there[chain][n] = true;
        } else if (what < 7 && at != PAGE_NONE) {
            bytes -= index->entry[at].bytes, n_page--;
            page_index_remove(index, at);
            is_there[chain][n] = false;
        } else if (what < 9) {
            const uint32_t victim = page_index_victim(index);
            if (victim == PAGE_NONE) continue;
            assert_true(is_lowest(index, victim));
            for (int i = 0; i < CHAINS * LENGTH; i++)
                if (page_key_equal(&keys[i / LENGTH][i % LENGTH], &index->entry[victim].name.key))
                    is_there[i / LENGTH][i % LENGTH] = false;
            bytes -= index->entry[victim].bytes, n_page--;
            page_index_remove(index, victim);
        } else if (at != PAGE_NONE) {
            page_index_use(index, at);
        }
        assert_true(index->bytes == bytes && index->n_page == n_page);
    }
    while (page_index_victim(index) != PAGE_NONE) continue;
    page_index_deinit(index);
}

TEST_PROGRAM(page_index) { return cases_run(NULL, NULL); }

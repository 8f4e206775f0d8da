// Stored pages in the host's memory: alone, and in front of the folder. They are right or missing,
// their size is kept, and pages that are expensive to compute stay.
// label: threads memory
#include "store_world.h"

static rn_store_stats stats_of(const struct page_store *store) {
    rn_store_stats stats;
    page_store_get_stats(store, &stats);
    return stats;
}

static void offer_all(struct store_world *w, struct page_store *store, int chain, int n) {
    for (int i = 0; i < n; i++) assert_true(world_offer(w, store, chain, i, (uint32_t)i) > 0);
    world_drain(store);
}

static void expect_pages(struct store_world *w, struct page_store *store, int chain, int n) {
    assert_int_equal(world_fetch(w, store, chain, n), FETCH_DONE);
    for (int i = 0; i < n; i++) {
        const struct page_name name = world_name(store, chain, i);
        assert_true(world_is_right(&name, w->page[name.group][i]));
    }
}

CASE(memory_alone_has_pages_until_it_ends) {
    struct store_world *w = world_make(1);
    struct page_store *store = world_open_with(w, "toy", 0, 1 << 20, NULL);
    assert_true(page_store_is_ready(store)); // no model is hashed
    offer_all(w, store, 0, 20);
    expect_pages(w, store, 0, 20);
    const rn_store_stats stats = stats_of(store);
    check(stats.hits == 20 && stats.memory_hits == 20 && stats.memory_pages == 20 &&
              stats.memory_bytes == 20 * world_bytes[0] && stats.max_bytes == 0 &&
              stats.pages == 0 && stats.written == 0 && stats.errors == 0,
          "%d hits, %d pages", (int)stats.hits, (int)stats.memory_pages);
    char got[8];
    assert_int_equal(page_store_save(store, NULL, "a", "1", 1), ENOTSUP); // texts need files
    assert_int_equal(page_store_load(store, NULL, "a", got, sizeof got), -1);
    assert_int_equal(store_folder_pages(w->folder.path, NULL, NULL), 0);
    page_store_destroy(store);
    store = world_open_with(w, "toy", 0, 1 << 20, NULL);
    assert_int_equal(world_fetch(w, store, 0, 1), FETCH_FAILED);
    page_store_destroy(store);
    world_free(w);
}

// Pages that take ten times as long to compute stay, although they are older.
CASE(cheap_pages_make_room_and_the_size_is_kept) {
    struct store_world *w = world_make(2);
    struct page_store *store = world_open_with(w, "toy", 0, 10 * world_bytes[0] + 1, NULL);
    for (int i = 0; i < 40; i++) {
        const struct page_facts facts = world_facts(store, 2 * i, 0, i < 4 ? 10000000 : 1000000);
        world_fill(&facts.name, w->page[0][0]);
        assert_true(page_store_offer(store, &facts, 0) > 0);
        world_drain(store);
        assert_true(stats_of(store).memory_bytes <= 10 * world_bytes[0]);
    }
    assert_int_equal(stats_of(store).memory_pages, 10);
    assert_int_equal(stats_of(store).memory_evictions, 30);
    for (int i = 0; i < 40; i++) {
        const struct page_name name = world_name(store, 2 * i, 0);
        assert_int_equal(page_store_has(store, &name), i < 4 || i >= 34);
    }
    page_store_destroy(store);
    world_free(w);
}

CASE(pages_of_files_come_to_memory_when_they_are_read) {
    struct store_world *w = world_make(3);
    struct page_store *store = world_open_with(w, "toy", 1 << 20, 1 << 20, NULL);
    offer_all(w, store, 0, 8);
    assert_int_equal(stats_of(store).written, 8);
    expect_pages(w, store, 0, 8);
    assert_int_equal(stats_of(store).memory_hits, 8);
    page_store_destroy(store);
    store = world_open_with(w, "toy", 1 << 20, 1 << 20, NULL);
    expect_pages(w, store, 0, 8);
    assert_int_equal(stats_of(store).memory_hits, 0);
    store_folder_empty(&w->folder); // memory has them now
    expect_pages(w, store, 0, 8);
    assert_true(stats_of(store).memory_hits == 8 && stats_of(store).hits == 16);
    page_store_destroy(store);
    world_free(w);
}

CASE(pages_that_memory_gave_up_are_read_from_files) {
    struct store_world *w = world_make(4);
    struct page_store *store = world_open_with(w, "toy", 1 << 20, 3 * world_bytes[0], NULL);
    offer_all(w, store, 0, 8);
    expect_pages(w, store, 0, 8);
    assert_true(stats_of(store).memory_pages <= 3 && stats_of(store).memory_evictions > 0);
    page_store_destroy(store);
    store = world_open_with(w, "toy", 1 << 20, 10, NULL); // less than a page
    offer_all(w, store, 2, 8);
    expect_pages(w, store, 2, 8);
    assert_int_equal(stats_of(store).memory_pages, 0);
    page_store_destroy(store);
    world_free(w);
}

CASE(a_bit_that_changed_in_memory_is_noticed) {
    struct store_world *w = world_make(5);
    struct page_store *store = world_open_with(w, "toy", 1 << 20, 1 << 20, NULL);
    offer_all(w, store, 0, 4);
    const struct page_name name = world_name(store, 0, 2);
    struct page_blob *blob = page_host_get(&store->host, &name);
    blob->bytes[77] ^= 4;
    page_blob_release(blob);
    expect_pages(w, store, 0, 4); // from its file
    assert_true(stats_of(store).removed == 1 && stats_of(store).memory_hits == 3);
    page_store_destroy(store);
    store = world_open_with(w, "toy", 0, 1 << 20, NULL);
    offer_all(w, store, 0, 4);
    const struct page_name again = world_name(store, 0, 2);
    blob = page_host_get(&store->host, &again);
    blob->bytes[77] ^= 4;
    page_blob_release(blob);
    assert_int_equal(world_fetch(w, store, 0, 4), FETCH_FAILED);
    assert_false(page_store_has(store, &again));
    page_store_destroy(store);
    world_free(w);
}

CASE(memory_goes_on_where_the_disk_is_full) {
    struct store_world *w = world_make(6);
    struct bad_system bad;
    bad_init(&bad, LONG_MAX);
    struct page_store *store = world_open_with(w, "toy", 1 << 20, 1 << 20, &bad.io);
    atomic_store(&bad.is_full, true);
    offer_all(w, store, 0, 1); // the writer meets it
    offer_all(w, store, 0, 12);
    const rn_store_stats stats = stats_of(store);
    assert_true(stats.is_stopped && stats.errors == 1 && stats.written == 0);
    assert_int_equal(w->n_notes, 1);
    expect_pages(w, store, 0, 12);
    page_store_destroy(store);
    world_free(w);
}

// A page may be evicted while another thread reads it.
CASE(pages_come_and_go_while_they_are_read) {
    struct store_world *w = world_make(7);
    struct page_store *store = world_open_with(w, "toy", 0, 6 * world_bytes[0], NULL);
    int n_done = 0;
    for (int round = 0; round < test_scale(50, 200, 1000); round++) {
        const int chain = 2 * (int)(world_random(w) % 4);
        world_drain(store); // the slots are free
        for (int n = 0; n < 3; n++) world_offer(w, store, chain, n, 32 + (uint32_t)n);
        if (world_random(w) % 2) world_drain(store);
        if (world_fetch(w, store, chain, 3) != FETCH_DONE) continue;
        n_done++;
        for (int n = 0; n < 3; n++) {
            const struct page_name name = world_name(store, chain, n);
            assert_true(world_is_right(&name, w->page[0][n]));
        }
    }
    assert_true(n_done > 0);
    page_store_destroy(store);
    world_free(w);
}

TEST_PROGRAM(page_host) { return cases_run(NULL, NULL); }

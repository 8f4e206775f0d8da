// Texts by name in a page store: each owner has names of its own, names are no paths, and the text
// that was used least recently makes room.
#include <time.h>

#include "store_world.h"

static bool has(struct page_store *store, const char *owner, const char *name) {
    char got[100];
    return page_store_load(store, owner, name, got, sizeof got) >= 0;
}

// The times of files have steps of some ms.
static void later(void) { nanosleep(&(struct timespec){.tv_nsec = 25000000}, NULL); }

static void save(struct page_store *store, const char *owner, const char *name) {
    assert_int_equal(page_store_save(store, owner, name, name, strlen(name) + 1), 0);
    later();
}

CASE(a_text_is_found_by_its_name_which_is_no_path) {
    struct store_world *w = world_make(12);
    struct page_store *store = world_open(w);
    static const char name[] = "../../etc/passwd", data[] = "tokens";
    char got[100];
    assert_int_equal(page_store_load(store, NULL, name, got, sizeof got), -1);
    assert_int_equal(page_store_save(store, NULL, name, data, sizeof data), 0);
    assert_int_equal(page_store_load(store, NULL, name, got, 3), -1); // too long
    assert_int_equal(page_store_load(store, NULL, name, got, sizeof got), sizeof data);
    assert_string_equal(got, data);
    page_store_destroy(store);
    store = world_open(w);
    assert_int_equal(page_store_load(store, NULL, name, got, sizeof got), sizeof data);
    assert_true(page_store_erase(store, NULL, name));
    assert_false(page_store_erase(store, NULL, name));
    page_store_destroy(store);
    world_free(w);
}

CASE(owners_do_not_see_each_others_texts) {
    struct store_world *w = world_make(20);
    struct page_store *store = world_open(w);
    static const char *const owners[] = {NULL, "", "a", "../a", "ab"};
    enum { N_OWNERS = sizeof owners / sizeof *owners };
    char got[100];
    for (int i = 0; i < N_OWNERS; i++) {
        assert_false(has(store, owners[i], "name") || page_store_erase(store, owners[i], "name"));
        assert_int_equal(page_store_save(store, owners[i], "name", owners + i, 1 + (size_t)i), 0);
    }
    page_store_destroy(store);
    store = world_open(w);
    for (int i = 0; i < N_OWNERS; i++) {
        assert_int_equal(page_store_load(store, owners[i], "name", got, sizeof got), 1 + i);
        assert_true(page_store_erase(store, owners[i], "name"));
    }
    page_store_destroy(store);
    world_free(w);
}

CASE(the_text_used_least_recently_makes_room) {
    struct store_world *w = world_make(17);
    struct page_store *store = world_open(w);
    store->max_texts = 3;
    save(store, NULL, "a");
    save(store, NULL, "b");
    save(store, NULL, "c");
    assert_true(has(store, NULL, "a")); // a use
    later();
    save(store, NULL, "d");
    assert_true(has(store, NULL, "a") && has(store, NULL, "c") && has(store, NULL, "d"));
    assert_false(has(store, NULL, "b"));
    save(store, NULL, "d"); // the same name needs no room
    assert_true(has(store, NULL, "a") && has(store, NULL, "c") && has(store, NULL, "d"));
    store->max_texts = 2; // as after a start with a smaller limit
    save(store, NULL, "e");
    assert_true(has(store, NULL, "e"));
    assert_int_equal(has(store, NULL, "a") + has(store, NULL, "c") + has(store, NULL, "d"), 1);
    page_store_destroy(store);
    world_free(w);
}

CASE(an_owner_at_its_limit_loses_texts_of_its_own) {
    struct store_world *w = world_make(18);
    struct page_store *store = world_open(w);
    char name[16];
    store->max_owner_texts = 4;
    store->max_texts = 7;
    save(store, "anna", "old");
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "flood %d", i);
        save(store, "bert", name);
    }
    assert_true(has(store, "anna", "old"));
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "flood %d", i);
        check(has(store, "bert", name) == (i >= 6), "%s", name);
    }
    page_store_destroy(store);
    world_free(w);
}

CASE(all_owners_together_have_a_limit) {
    struct store_world *w = world_make(19);
    struct page_store *store = world_open(w);
    store->max_owner_texts = 2;
    store->max_texts = 4;
    save(store, "a", "1");
    save(store, "b", "1");
    save(store, NULL, "1");
    save(store, "a", "2");
    save(store, "c", "1"); // the first of all goes
    assert_true(has(store, "b", "1") && has(store, NULL, "1") && has(store, "a", "2"));
    assert_true(has(store, "c", "1"));
    assert_false(has(store, "a", "1"));
    page_store_destroy(store);
    world_free(w);
}

TEST_PROGRAM(page_texts) { return cases_run(NULL, NULL); }

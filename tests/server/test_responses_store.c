// The store of responses: its limits, who owns a response, and conversations whose turns share
// their texts. At the end nothing is left: the store's destruction asserts it.
#include "check.h"
#include "responses_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct owner owner_at(uint64_t key) { return (struct owner){key}; }

static void keep(struct responses *store, const char *id, uint64_t key, struct response *previous,
                 size_t bytes) {
    struct response response = {.owner = owner_at(key), .previous = previous, .input_len = bytes};
    snprintf(response.id, sizeof response.id, "%s", id);
    for (size_t i = 0; i < bytes; i++) jbuf_bytes(&response.text, "x", 1);
    responses_keep(store, &response);
}

static bool has(struct responses *store, const char *id, uint64_t key) {
    struct response *response = responses_acquire(store, id, owner_at(key));
    responses_release(store, response);
    return response != NULL;
}

static void count_expect(struct responses *store, int want) {
    int count;
    size_t bytes;
    responses_count(store, &count, &bytes);
    assert_int_equal(count, want);
}

static size_t bytes_of(struct responses *store) {
    int count;
    size_t bytes;
    responses_count(store, &count, &bytes);
    return bytes;
}

CASE(a_response_is_its_keys) {
    struct responses *store = responses_create(4, 1 << 20);
    keep(store, "a", 0, NULL, 10);
    keep(store, "b", 1, NULL, 10);
    assert_true(has(store, "a", 0) && has(store, "b", 1));
    assert_false(has(store, "a", 1) || has(store, "b", 0) || has(store, "c", 0));
    assert_false(responses_delete(store, "a", owner_at(1)));
    assert_true(responses_delete(store, "a", owner_at(0)));
    assert_false(responses_delete(store, "a", owner_at(0)) || has(store, "a", 0));
    responses_destroy(store);
}

CASE(the_one_not_used_for_longest_leaves) {
    struct responses *store = responses_create(3, 1 << 20);
    keep(store, "a", 0, NULL, 10);
    keep(store, "b", 0, NULL, 10);
    keep(store, "c", 0, NULL, 10);
    assert_true(has(store, "a", 0)); // a use
    keep(store, "d", 0, NULL, 10);
    assert_true(has(store, "a", 0) && has(store, "c", 0) && has(store, "d", 0));
    assert_false(has(store, "b", 0));
    count_expect(store, 3);
    responses_destroy(store);
}

CASE(bytes_are_bounded) {
    enum { MOST = 8000 };
    struct responses *store = responses_create(1000, MOST);
    for (int i = 0; i < 100; i++) {
        char id[16];
        snprintf(id, sizeof id, "r%d", i);
        keep(store, id, 0, NULL, 900);
        assert_true(has(store, id, 0) && bytes_of(store) <= MOST);
    }
    keep(store, "large", 0, NULL, 2 * MOST);
    assert_true(!has(store, "large", 0) && has(store, "r99", 0));
    responses_destroy(store);
}

// Of a conversation the first turns leave first. Their texts stay as long as a later turn does.
CASE(a_conversation_longer_than_the_table_continues) {
    struct responses *store = responses_create(4, 1 << 20);
    struct response *last = NULL;
    keep(store, "stale", 0, NULL, 10);
    for (int i = 0; i < 20; i++) {
        char id[16];
        snprintf(id, sizeof id, "t%d", i);
        keep(store, id, 0, last, 10);
        responses_release(store, last);
        last = responses_acquire(store, id, owner_at(0));
        assert_non_null(last);
    }
    count_expect(store, 4);
    assert_false(has(store, "stale", 0) || has(store, "t15", 0));
    assert_true(has(store, "t16", 0));
    int turns = 0;
    for (const struct response *at = last; at; at = at->previous) turns++;
    assert_int_equal(turns, 20);
    assert_true(responses_delete(store, "t19", owner_at(0))); // still referred to
    assert_int_equal(last->input_len, 10);
    const size_t before = bytes_of(store);
    responses_release(store, last);
    assert_true(bytes_of(store) < before);
    responses_destroy(store);
}

// A use of the last turn is one of its whole conversation.
CASE(the_oldest_conversation_leaves_as_a_whole) {
    struct responses *store = responses_create(4, 1 << 20);
    keep(store, "a1", 0, NULL, 10);
    struct response *first = responses_acquire(store, "a1", owner_at(0));
    keep(store, "b1", 0, NULL, 10);
    keep(store, "a2", 0, first, 10);
    responses_release(store, first);
    assert_true(has(store, "a2", 0));
    keep(store, "c1", 0, NULL, 10);
    keep(store, "c2", 0, NULL, 10);
    assert_true(has(store, "a1", 0) && has(store, "a2", 0));
    assert_false(has(store, "b1", 0));
    responses_destroy(store);
}

CASE(a_store_of_none_keeps_none) {
    struct responses *store = responses_create(0, 1 << 20);
    assert_false(responses_keeps(store) || has(store, "a", 0) ||
                 responses_delete(store, "a", owner_at(0)));
    responses_destroy(store);
    assert_false(responses_keeps(NULL));
}

TEST_PROGRAM(responses_store) { return cases_run(NULL, NULL); }

// The store of turns: its limits, who owns a turn, and conversations whose turns share
// their texts. At the end nothing is left: the store's destruction asserts it.
#include "check.h"
#include "turns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct owner owner_at(uint64_t key) { return (struct owner){key}; }

static void keep(struct turns *store, const char *id, uint64_t key, struct turn *previous,
                 size_t bytes) {
    struct turn turn = {.owner = owner_at(key), .previous = previous, .input_len = bytes};
    snprintf(turn.id, sizeof turn.id, "%s", id);
    for (size_t i = 0; i < bytes; i++) jbuf_bytes(&turn.text, "x", 1);
    turns_keep(store, &turn);
}

static bool has(struct turns *store, const char *id, uint64_t key) {
    struct turn *turn = turns_acquire(store, TURN_RESPONSE, id, owner_at(key));
    turns_release(store, turn);
    return turn != NULL;
}

static void count_expect(struct turns *store, int want) {
    int count;
    size_t bytes;
    turns_count(store, &count, &bytes);
    assert_int_equal(count, want);
}

static size_t bytes_of(struct turns *store) {
    int count;
    size_t bytes;
    turns_count(store, &count, &bytes);
    return bytes;
}

CASE(a_response_is_its_keys) {
    struct turns *store = turns_create(4, 1 << 20);
    keep(store, "a", 0, NULL, 10);
    keep(store, "b", 1, NULL, 10);
    assert_true(has(store, "a", 0) && has(store, "b", 1));
    assert_false(has(store, "a", 1) || has(store, "b", 0) || has(store, "c", 0));
    assert_false(turns_delete(store, TURN_RESPONSE, "a", owner_at(1)));
    assert_true(turns_delete(store, TURN_RESPONSE, "a", owner_at(0)));
    assert_false(turns_delete(store, TURN_RESPONSE, "a", owner_at(0)) || has(store, "a", 0));
    turns_destroy(store);
}

CASE(the_one_not_used_for_longest_leaves) {
    struct turns *store = turns_create(3, 1 << 20);
    keep(store, "a", 0, NULL, 10);
    keep(store, "b", 0, NULL, 10);
    keep(store, "c", 0, NULL, 10);
    assert_true(has(store, "a", 0)); // a use
    keep(store, "d", 0, NULL, 10);
    assert_true(has(store, "a", 0) && has(store, "c", 0) && has(store, "d", 0));
    assert_false(has(store, "b", 0));
    count_expect(store, 3);
    turns_destroy(store);
}

CASE(bytes_are_bounded) {
    enum { MOST = 8000 };
    struct turns *store = turns_create(1000, MOST);
    for (int i = 0; i < 100; i++) {
        char id[16];
        snprintf(id, sizeof id, "r%d", i);
        keep(store, id, 0, NULL, 900);
        assert_true(has(store, id, 0) && bytes_of(store) <= MOST);
    }
    keep(store, "large", 0, NULL, 2 * MOST);
    assert_true(!has(store, "large", 0) && has(store, "r99", 0));
    turns_destroy(store);
}

// Of a conversation the first turns leave first. Their texts stay as long as a later turn does.
CASE(a_conversation_longer_than_the_table_continues) {
    struct turns *store = turns_create(4, 1 << 20);
    struct turn *last = NULL;
    keep(store, "stale", 0, NULL, 10);
    for (int i = 0; i < 20; i++) {
        char id[16];
        snprintf(id, sizeof id, "t%d", i);
        keep(store, id, 0, last, 10);
        turns_release(store, last);
        last = turns_acquire(store, TURN_RESPONSE, id, owner_at(0));
        assert_non_null(last);
    }
    count_expect(store, 4);
    assert_false(has(store, "stale", 0) || has(store, "t15", 0));
    assert_true(has(store, "t16", 0));
    int turns = 0;
    for (const struct turn *at = last; at; at = at->previous) turns++;
    assert_int_equal(turns, 20);
    assert_true(turns_delete(store, TURN_RESPONSE, "t19", owner_at(0))); // still referred to
    assert_int_equal(last->input_len, 10);
    const size_t before = bytes_of(store);
    turns_release(store, last);
    assert_true(bytes_of(store) < before);
    turns_destroy(store);
}

// A use of the last turn is one of its whole conversation.
CASE(the_oldest_conversation_leaves_as_a_whole) {
    struct turns *store = turns_create(4, 1 << 20);
    keep(store, "a1", 0, NULL, 10);
    struct turn *first = turns_acquire(store, TURN_RESPONSE, "a1", owner_at(0));
    keep(store, "b1", 0, NULL, 10);
    keep(store, "a2", 0, first, 10);
    turns_release(store, first);
    assert_true(has(store, "a2", 0));
    keep(store, "c1", 0, NULL, 10);
    keep(store, "c2", 0, NULL, 10);
    assert_true(has(store, "a1", 0) && has(store, "a2", 0));
    assert_false(has(store, "b1", 0));
    turns_destroy(store);
}

static void message_keep(struct turns *store, const char *id, struct turn *previous) {
    struct turn turn = {.kind = TURN_MESSAGE, .previous = previous, .output_len = 1};
    snprintf(turn.id, sizeof turn.id, "%s", id);
    jbuf_bytes(&turn.text, "x", 1);
    turns_keep(store, &turn);
}

// One message follows a message. A request that fails leaves it open.
CASE(a_message_is_continued_once) {
    struct turns *store = turns_create(8, 1 << 20);
    enum turn_next why = TURN_CLAIMED;
    assert_null(turns_claim(store, "m1", owner_at(0), &why));
    assert_int_equal(why, TURN_OPEN);
    message_keep(store, "m1", NULL);
    assert_null(turns_claim(store, "m1", owner_at(1), &why));
    assert_int_equal(why, TURN_OPEN);
    struct turn *first = turns_claim(store, "m1", owner_at(0), &why);
    assert_non_null(first);
    assert_null(turns_claim(store, "m1", owner_at(0), &why));
    assert_int_equal(why, TURN_CLAIMED);
    turns_unclaim(store, first);
    first = turns_claim(store, "m1", owner_at(0), &why);
    assert_non_null(first);
    message_keep(store, "m2", first);
    turns_unclaim(store, first);
    assert_null(turns_claim(store, "m1", owner_at(0), &why));
    assert_int_equal(why, TURN_CONTINUED);
    turns_unclaim(store, turns_claim(store, "m2", owner_at(0), &why));
    turns_destroy(store);
}

CASE(a_response_is_no_message) {
    struct turns *store = turns_create(8, 1 << 20);
    enum turn_next why;
    keep(store, "a", 0, NULL, 10);
    message_keep(store, "m", NULL);
    assert_null(turns_claim(store, "a", owner_at(0), &why));
    assert_false(has(store, "m", 0) || turns_delete(store, TURN_RESPONSE, "m", owner_at(0)));
    assert_true(turns_delete(store, TURN_MESSAGE, "m", owner_at(0)));
    turns_destroy(store);
}

CASE(a_store_of_none_keeps_none) {
    struct turns *store = turns_create(0, 1 << 20);
    assert_false(turns_keeps(store) || has(store, "a", 0) ||
                 turns_delete(store, TURN_RESPONSE, "a", owner_at(0)));
    turns_destroy(store);
    assert_false(turns_keeps(NULL));
}

TEST_PROGRAM(turns) { return cases_run(NULL, NULL); }

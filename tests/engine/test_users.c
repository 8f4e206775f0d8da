// Fair share: users get equal service for any requests, and an absent user saves nothing up.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "check.h"

#include "engine/request/users.h"

static int pick(struct users *users, const int *user, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (users_served(users, user[i]) < users_served(users, user[best])) best = i;
    users_chosen(users, user[best]);
    return best;
}

CASE(users_with_the_same_key_are_one) {
    struct users users;
    assert_int_equal(users_init(&users, 4, NULL), RN_OK);
    const int a = users_enter(&users, 7), b = users_enter(&users, 7);
    assert_int_equal(a, b);
    users_leave(&users, a);
    users_charge(&users, b, 5);
    assert_int_equal(users_enter(&users, 7), b);
    assert_int_equal(users_served(&users, b), 5);
    users_deinit(&users);
}

CASE(service_is_shared_equally_whatever_a_turn_costs) {
    struct users users;
    assert_int_equal(users_init(&users, 8, NULL), RN_OK);
    int user[3];
    const int cost[3] = {1, 10, 100};
    for (int i = 0; i < 3; i++) user[i] = users_enter(&users, (uint64_t)i + 1);
    for (int turn = 0; turn < 10000; turn++) {
        const int i = pick(&users, user, 3);
        users_charge(&users, user[i], cost[i]);
    }
    for (int i = 1; i < 3; i++) {
        const int64_t gap =
            (int64_t)users_served(&users, user[i]) - (int64_t)users_served(&users, user[0]);
        assert_in_range(gap + 100, 0, 200); // one turn of the most expensive
    }
    users_deinit(&users);
}

CASE(who_comes_later_neither_pays_nor_collects) {
    struct users users;
    assert_int_equal(users_init(&users, 8, NULL), RN_OK);
    int user[2] = {users_enter(&users, 1), -1};
    for (int turn = 0; turn < 100; turn++) users_charge(&users, user[pick(&users, user, 1)], 10);
    user[1] = users_enter(&users, 2);
    int turns[2] = {0};
    for (int turn = 0; turn < 100; turn++) {
        const int i = pick(&users, user, 2);
        turns[i]++;
        users_charge(&users, user[i], 10);
    }
    assert_in_range(turns[1], 49, 52);
    users_leave(&users, user[1]); // and comes back much later
    for (int turn = 0; turn < 100; turn++) users_charge(&users, user[pick(&users, user, 1)], 10);
    user[1] = users_enter(&users, 2);
    turns[0] = turns[1] = 0;
    for (int turn = 0; turn < 100; turn++) {
        const int i = pick(&users, user, 2);
        turns[i]++;
        users_charge(&users, user[i], 10);
    }
    assert_in_range(turns[1], 49, 52);
    users_deinit(&users);
}

// Entries are reused, also those whose keys fall into one bucket.
CASE(the_table_holds_as_many_as_it_was_made_for_again_and_again) {
    enum { N = 16 };
    struct users users;
    assert_int_equal(users_init(&users, N, NULL), RN_OK);
    for (int round = 0; round < 50; round++) {
        int at[N];
        for (int i = 0; i < N; i++) {
            const uint64_t key = (uint64_t)(round * N + i) * (round % 2 ? 64 : 1);
            at[i] = users_enter(&users, key);
            users_charge(&users, at[i], i);
        }
        for (int i = 0; i < N; i++) {
            const uint64_t key = (uint64_t)(round * N + i) * (round % 2 ? 64 : 1);
            assert_int_equal(users_enter(&users, key), at[i]);
            assert_int_equal(users_served(&users, at[i]), users.now + (uint64_t)i);
            users_leave(&users, at[i]);
        }
        for (int i = 0; i < N; i++) users_leave(&users, at[(i * 5 + round) % N]);
    }
    users_deinit(&users);
}

TEST_PROGRAM(users) { return cases_run(NULL, NULL); }

// The record of the last steps, also while it is written: a reader gets whole steps in order.
// label: threads
#include <pthread.h>

#include "check.h"
#include "engine/account/step_board.h"

enum { N_WRITES = 30000 };

CASE(the_board_keeps_the_last_steps) {
    struct step_board board = {0};
    static rn_step out[RN_STEPS_KEPT + 10];
    assert_int_equal(step_board_init(&board, NULL), RN_OK);
    assert_int_equal(step_board_read(&board, 0, out, 5), 0);
    for (uint64_t i = 1; i <= RN_STEPS_KEPT + 100; i++)
        step_board_write(&board, &(rn_step){.index = i, .run_ns = i * 3});
    const size_t n = step_board_read(&board, 0, out, RN_STEPS_KEPT + 10);
    assert_int_equal(n, RN_STEPS_KEPT);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(out[i].index, 101 + i);
        assert_int_equal(out[i].run_ns, 3 * out[i].index);
    }
    assert_int_equal(step_board_read(&board, RN_STEPS_KEPT + 98, out, 5), 2);
    assert_int_equal(step_board_read(&board, 200, out, 5), 5);
    assert_int_equal(out[0].index, 201);
    assert_int_equal(step_board_read(&board, UINT64_MAX, out, 5), 0);
    step_board_deinit(&board);
}

static void *write_many(void *arg) {
    for (uint64_t i = 1; i <= N_WRITES; i++)
        step_board_write(arg, &(rn_step){.index = i, .run_ns = 2 * i, .prompt_request = 3 * i});
    return NULL;
}

CASE(readers_see_whole_steps_in_order) {
    struct step_board board = {0};
    static rn_step step[64];
    pthread_t writer;
    assert_int_equal(step_board_init(&board, NULL), RN_OK);
    assert_int_equal(pthread_create(&writer, NULL, write_many, &board), 0);
    for (uint64_t last = 0; last < N_WRITES;) {
        const size_t n = step_board_read(&board, last, step, 64);
        for (size_t i = 0; i < n; i++) {
            const uint64_t index = step[i].index;
            check(index > last, "%llu after %llu", (unsigned long long)index,
                  (unsigned long long)last);
            check(step[i].run_ns == 2 * index && step[i].prompt_request == 3 * index,
                  "mixed at %llu", (unsigned long long)index);
            last = index;
        }
    }
    pthread_join(writer, NULL);
    step_board_deinit(&board);
}

TEST_PROGRAM(step_board) { return cases_run(NULL, NULL); }

// Statistics read while they are written: whole snapshots, never older than one seen before. Steps
// by their size.
// label: threads
#include <pthread.h>
#include <string.h>

#include "check.h"
#include "engine/door/stats_board.h"
#include "engine/step/ledger.h"

enum { N_WRITES = 50000 };

static void *write_many(void *arg) {
    for (uint64_t i = 1; i <= N_WRITES; i++) {
        const rn_engine_stats stats = {.steps = i,
                                       .running = (int)i,
                                       .output_tokens = 2 * i,
                                       .kv_bytes = 3 * i};
        stats_board_write(arg, &stats);
    }
    return NULL;
}

CASE(readers_see_whole_snapshots_in_order) {
    struct stats_board board;
    memset(&board, 0, sizeof board);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, write_many, &board), 0);
    uint64_t last = 0;
    while (last < N_WRITES) {
        rn_engine_stats stats;
        stats_board_read(&board, &stats);
        check(stats.steps >= last, "%llu after %llu", (unsigned long long)stats.steps,
              (unsigned long long)last);
        last = stats.steps;
        check(stats.running == (int)last && stats.output_tokens == 2 * last &&
                  stats.kv_bytes == 3 * last,
              "mixed at %llu", (unsigned long long)last);
    }
    pthread_join(writer, NULL);
}

CASE(what_is_written_is_read) {
    struct stats_board board;
    memset(&board, 0, sizeof board);
    rn_engine_stats stats, out;
    memset(&stats, 0x5a, sizeof stats);
    stats_board_write(&board, &stats);
    stats_board_read(&board, &out);
    assert_memory_equal(&stats, &out, sizeof stats);
}

CASE(steps_are_counted_by_their_size) {
    static const struct {
        int64_t n_tokens;
        int size;
    } step[] = {{1, 0},     {2, 1},     {8, 1},      {9, 2},      {16, 2},      {17, 3},
                {32, 3},    {33, 4},    {64, 4},     {65, 5},     {256, 6},     {257, 7},
                {8192, 11}, {8193, 12}, {16384, 12}, {16385, 13}, {1 << 20, 13}};
    for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
        rn_engine_stats stats = {0};
        ledger_count(&stats, step[i].n_tokens);
        check(stats.steps_of[step[i].size] == 1 && stats.steps == 1, "%lld",
              (long long)step[i].n_tokens);
        assert_int_equal(stats.step_tokens, step[i].n_tokens);
    }
}

TEST_PROGRAM(stats_board) { return cases_run(NULL, NULL); }

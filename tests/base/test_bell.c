// The bell: a sleeper misses no ring that came after it read the bell. A missed ring hangs the
// test.
// label: threads
#include <pthread.h>

#include "base/bell.h"
#include "base/clock.h"
#include "check.h"

enum { N_TURNS = 5000 };

struct game {
    struct bell bell[2];
    _Atomic int turn; // whose it is: turn % 2
};

static void play(struct game *game, int player) {
    for (;;) {
        const uint32_t seen = bell_read(&game->bell[player]);
        const int turn = game->turn;
        if (turn >= N_TURNS) break;
        if (turn % 2 != player) {
            bell_wait(&game->bell[player], seen, UINT64_MAX);
            continue;
        }
        game->turn = turn + 1;
        bell_ring(&game->bell[1 - player]);
    }
    bell_ring(&game->bell[1 - player]);
}

static void *play_second(void *arg) {
    play(arg, 1);
    return NULL;
}

CASE(two_threads_take_turns) {
    struct game game = {0};
    pthread_t second;
    assert_int_equal(pthread_create(&second, NULL, play_second, &game), 0);
    play(&game, 0);
    pthread_join(second, NULL);
    assert_int_equal(game.turn, N_TURNS);
}

CASE(a_ring_before_the_wait_is_not_slept_over) {
    struct bell bell = {0};
    const uint32_t seen = bell_read(&bell);
    bell_ring(&bell);
    bell_wait(&bell, seen, UINT64_MAX);
    assert_int_equal(bell.sleepers, 0);
}

CASE(a_wait_ends_with_its_time) {
    struct bell bell = {0};
    const uint64_t begin = clock_ns();
    while (clock_ns() - begin < 2000000) bell_wait(&bell, bell_read(&bell), 2000000);
    bell_wait(&bell, bell_read(&bell), 0);
}

TEST_PROGRAM(bell) { return cases_run(NULL, NULL); }

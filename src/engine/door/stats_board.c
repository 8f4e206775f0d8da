// See stats_board.h. A reader that sees a word of a write also sees the odd version before it (the
// word's release), so it cannot find the version unchanged at its end.
#include "engine/door/stats_board.h"

#include <sched.h>
#include <string.h>

void stats_board_write(struct stats_board *board, const rn_engine_stats *stats) {
    uint64_t word[STATS_WORDS] = {0};
    memcpy(word, stats, sizeof *stats);
    const uint64_t version = atomic_load_explicit(&board->version, memory_order_relaxed);
    atomic_store_explicit(&board->version, version + 1, memory_order_relaxed);
    for (int i = 0; i < STATS_WORDS; i++)
        atomic_store_explicit(&board->word[i], word[i], memory_order_release);
    atomic_store_explicit(&board->version, version + 2, memory_order_release);
}

void stats_board_read(const struct stats_board *board, rn_engine_stats *out) {
    uint64_t word[STATS_WORDS];
    for (;;) {
        const uint64_t version = atomic_load_explicit(&board->version, memory_order_acquire);
        for (int i = 0; i < STATS_WORDS; i++)
            word[i] = atomic_load_explicit(&board->word[i], memory_order_acquire);
        if (version % 2 == 0 &&
            atomic_load_explicit(&board->version, memory_order_relaxed) == version)
            break;
        sched_yield(); // the writer may have lost its core in the middle
    }
    memcpy(out, word, sizeof *out);
}

// Statistics that the step's thread writes and any thread reads, without a lock: a reader that met
// a write reads again. Words are atomic, stored with release and read with acquire, which orders
// them with the version as fences would.
#ifndef RN_ENGINE_DOOR_STATS_BOARD_H
#define RN_ENGINE_DOOR_STATS_BOARD_H

#include <stdatomic.h>

#include "runnel.h"

enum { STATS_WORDS = (sizeof(rn_engine_stats) + 7) / 8 };

struct stats_board {
    _Atomic uint64_t version; // odd while words are written
    _Atomic uint64_t word[STATS_WORDS];
};

void stats_board_write(struct stats_board *board, const rn_engine_stats *stats); // one thread
void stats_board_read(const struct stats_board *board, rn_engine_stats *out);

#endif

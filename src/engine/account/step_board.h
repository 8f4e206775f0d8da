// The last steps, written by the step's thread and read by any thread, without a lock. A slot's
// version names its step: a reader that finds another version before or after its copy drops it.
// Words are atomic, stored with release and read with acquire, as in door/stats_board.h.
#ifndef RN_ENGINE_ACCOUNT_STEP_BOARD_H
#define RN_ENGINE_ACCOUNT_STEP_BOARD_H

#include <stdatomic.h>

#include "base/status.h"
#include "runnel.h"

enum { STEP_WORDS = (sizeof(rn_step) + 7) / 8 };

struct step_board {
    struct step_slot {
        _Atomic uint64_t version; // 2 * index; odd while step (version + 1) / 2 is written; 0: none
        _Atomic uint64_t word[STEP_WORDS];
    } * slot;              // [RN_STEPS_KEPT]
    _Atomic uint64_t last; // index of the last step; 0: none
};

rn_status step_board_init(struct step_board *board, rn_error *err);
void step_board_deinit(struct step_board *board);
// One thread. Indices are 1, 2, ... without holes.
void step_board_write(struct step_board *board, const rn_step *step);
// The kept steps after that index, at most max; returns their number.
size_t step_board_read(const struct step_board *board, uint64_t after, rn_step *out, size_t max);

#endif

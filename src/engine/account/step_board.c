// See step_board.h.
#include "engine/account/step_board.h"

#include <stdlib.h>
#include <string.h>

rn_status step_board_init(struct step_board *board, rn_error *err) {
    board->slot = calloc(RN_STEPS_KEPT, sizeof *board->slot);
    if (board->slot) return RN_OK;
    return err_set(err, RN_ERR_NOMEM, "no memory for the records of %d steps", RN_STEPS_KEPT);
}

void step_board_deinit(struct step_board *board) { free(board->slot); }

void step_board_write(struct step_board *board, const rn_step *step) {
    struct step_slot *slot = &board->slot[step->index % RN_STEPS_KEPT];
    uint64_t word[STEP_WORDS] = {0};
    memcpy(word, step, sizeof *step);
    atomic_store_explicit(&slot->version, 2 * step->index - 1, memory_order_relaxed);
    for (size_t i = 0; i < STEP_WORDS; i++)
        atomic_store_explicit(&slot->word[i], word[i], memory_order_release);
    atomic_store_explicit(&slot->version, 2 * step->index, memory_order_release);
    atomic_store_explicit(&board->last, step->index, memory_order_release);
}

// False: it was overwritten meanwhile.
static bool read_one(const struct step_slot *slot, uint64_t index, rn_step *out) {
    uint64_t word[STEP_WORDS];
    if (atomic_load_explicit(&slot->version, memory_order_acquire) != 2 * index) return false;
    for (size_t i = 0; i < STEP_WORDS; i++)
        word[i] = atomic_load_explicit(&slot->word[i], memory_order_acquire);
    if (atomic_load_explicit(&slot->version, memory_order_relaxed) != 2 * index) return false;
    memcpy(out, word, sizeof *out);
    return true;
}

size_t step_board_read(const struct step_board *board, uint64_t after, rn_step *out, size_t max) {
    const uint64_t last = atomic_load_explicit(&board->last, memory_order_acquire);
    const uint64_t kept = last > RN_STEPS_KEPT ? last - RN_STEPS_KEPT : 0;
    size_t n = 0;
    if (after >= last) return 0;
    for (uint64_t index = (after > kept ? after : kept) + 1; index <= last && n < max; index++)
        if (read_one(&board->slot[index % RN_STEPS_KEPT], index, &out[n])) n++;
    return n;
}

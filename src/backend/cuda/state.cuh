// Where a sequence's states are: the pages of recurrent groups, as plan/batch.h has them. A row at
// position p reads the page of p - 1 and leaves the state in that of p. Kernels keep the state
// while they walk the rows, and store it where the page of the next row is another one.
#ifndef RN_BACKEND_CUDA_STATE_CUH
#define RN_BACKEND_CUDA_STATE_CUH

#include "clock.cuh"
#include "rmath.cuh"
#include "state.h"

enum : uint32_t { STATE_NONE = UINT32_MAX }; // as a page: zeros

// The page with the state before the first row.
DEV uint32_t state_before(const struct step &step, const struct step_seq &seq, int group) {
    if (seq.first_pos == 0) return STATE_NONE;
    if (seq.state_from[group] != UINT32_MAX) return seq.state_from[group];
    return step.tables[seq.table[group] + (seq.first_pos - 1) / PAGE_TOKENS];
}

// A row of the sequence whose state is stored, and its page.
struct state_end {
    int row;
    uint32_t page;
};

// The first such row from `row` on. Rows of the snapshot leave their state there alone.
DEV struct state_end state_end_from(const struct step &step, const struct step_seq &seq, int group,
                                    int row) {
    if (row < seq.n_snapshot) return {seq.n_snapshot - 1, seq.snapshot[group]};
    const uint32_t *table = step.tables + seq.table[group];
    const int last = seq.first_pos + seq.n_tokens - 1;
    int block = (seq.first_pos + row) / PAGE_TOKENS;
    const uint32_t page = table[block];
    while (block < last / PAGE_TOKENS && table[block + 1] == page) block++;
    const int end = block * PAGE_TOKENS + PAGE_TOKENS - 1;
    return {(end < last ? end : last) - seq.first_pos, page};
}

DEV uint8_t *state_at(const struct stage_state &s, uint32_t page) {
    return s.pages + page * s.page_bytes;
}

#endif

// See choose_scratch.h.
#include "backend/cuda/choose_scratch.h"

#include <stddef.h>

enum { SCRATCH_ALIGN = 256 };

static uint64_t aligned(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

static void *take(uint8_t *memory, uint64_t *at, uint64_t bytes) {
    void *taken = memory ? memory + *at : NULL;
    *at += aligned(bytes, SCRATCH_ALIGN);
    return taken;
}

// Lays the arrays out; memory NULL: only their bytes are wanted.
static uint64_t scratch_lay(struct choose_scratch *s, int max_rows, int n_vocab, uint8_t *memory) {
    const uint64_t rows = (uint64_t)max_rows;
    const uint64_t n_parts = ((uint64_t)n_vocab + CHOOSE_PART_IDS - 1) / CHOOSE_PART_IDS;
    uint64_t at = 0;
    s->stride = (int64_t)aligned((uint64_t)n_vocab, CHOOSE_PEAK_IDS);
    s->peaks = s->stride / CHOOSE_PEAK_IDS;
    s->parts = (int64_t)n_parts;
    const uint64_t row_bytes = CHOOSE_STEPS * sizeof *s->mass +
                               (uint64_t)s->peaks * sizeof *s->peak +
                               (uint64_t)s->stride * (sizeof *s->value + sizeof *s->id);
    uint64_t few = CHOOSE_ROOM / row_bytes;
    if (few < CHOOSE_ROWS_LEAST) few = CHOOSE_ROWS_LEAST;
    if (few > rows) few = rows;
    s->room = (int64_t)few;
    s->arrived = take(memory, &at, rows * sizeof *s->arrived);
    s->top = take(memory, &at, rows * n_parts * sizeof *s->top);
    s->drawn = take(memory, &at, rows * n_parts * sizeof *s->drawn);
    s->count = take(memory, &at, rows * n_parts * sizeof *s->count);
    s->mass = take(memory, &at, few * CHOOSE_STEPS * sizeof *s->mass);
    s->peak = take(memory, &at, few * (uint64_t)s->peaks * sizeof *s->peak);
    s->value = take(memory, &at, few * (uint64_t)s->stride * sizeof *s->value);
    s->id = take(memory, &at, few * (uint64_t)s->stride * sizeof *s->id);
    return at;
}

uint64_t choose_scratch_bytes(int max_rows, int n_vocab) {
    struct choose_scratch scratch;
    return scratch_lay(&scratch, max_rows, n_vocab, NULL);
}

void choose_scratch_init(struct choose_scratch *scratch, int max_rows, int n_vocab,
                         uint8_t *memory) {
    scratch_lay(scratch, max_rows, n_vocab, memory);
}

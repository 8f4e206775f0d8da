// Choosing tokens on the device: the description of a step's choices as plain data, and the host's
// side of it. plan/choice.h says what a choice is; choose.cu has the kernels. submit.c writes a
// description into its upload buffer, copies it to the device with the rest and launches.
//
// Invariants: offsets in a description are from its start, so it may be copied anywhere. A token
// depends on its own row and its own choice alone. The scratch memory is all zero at first, and
// its counters are zero between launches.
#ifndef RN_BACKEND_CUDA_CHOOSE_H
#define RN_BACKEND_CUDA_CHOOSE_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "choose_scratch.h"

#ifdef __cplusplus
#define _Static_assert static_assert
#endif
#include "plan/choice.h"
#ifdef __cplusplus
#undef _Static_assert
#endif

#ifndef CHOOSE_THREADS
#define CHOOSE_THREADS 1024 // of the block that carries out a row's filters; a power of two
#endif

enum {
    CHOOSE_FEW = CHOOSE_THREADS, // candidates that one block sorts
    CHOOSE_PART_THREADS = 256,
    CHOOSE_MASS_IDS = 8192, // ids of a block that measures
    CHOOSE_MASS_THREADS = 512,
    CHOOSE_MAX_VOCAB = 1 << 22, // bits of an id in the keys of a sort

    // bytes of a block's shared memory
    CHOOSE_HEAD_SHARED = 1024,
    CHOOSE_TOPS_SHARED = CHOOSE_HEAD_SHARED + CHOOSE_PART_IDS * 12, // with edits
    CHOOSE_MASS_SHARED = CHOOSE_HEAD_SHARED + CHOOSE_STEPS * 8,
    CHOOSE_DRAW_SHARED = CHOOSE_HEAD_SHARED,
    CHOOSE_FILTER_SHARED = CHOOSE_HEAD_SHARED + CHOOSE_STEPS * 8 + CHOOSE_THREADS * 12,
};

enum choose_flags {
    CHOOSE_WANTED = 1,   // the row has a choice
    CHOOSE_GREEDY = 2,   // temperature 0
    CHOOSE_EDITED = 4,   // a mask or edits
    CHOOSE_PLAIN = 8,    // no filter drops a candidate
    CHOOSE_FILTERS = 16, // some do
    CHOOSE_MEASURE = 32, // its first filter is top-p: all blocks of the row measure the mass
    CHOOSE_XTC = 64,     // XTC's draw says that it drops tokens
    // that the launches of a step depend on
    CHOOSE_LAUNCHES = CHOOSE_EDITED | CHOOSE_PLAIN | CHOOSE_FILTERS | CHOOSE_MEASURE,
};

// The choice of one row.
struct choose_row {
    uint64_t key;
    uint64_t edit_at;    // [n_edit] struct choice_edit
    uint64_t allowed_at; // words of the mask; 0: all ids are allowed
    struct choice_numbers numbers;
    int32_t n_vocab, n_edit;
    uint32_t flags; // enum choose_flags
};

// What the launches need to know of a description.
struct choose_plan {
    uint64_t bytes;
    int n_rows, max_vocab;
    uint32_t flags; // of all rows together
};

// The one argument of every kernel.
struct choose_args {
    const uint8_t *base;          // of the description
    const struct choose_row *row; // the launch's first
    const float *logits;          // of that row
    int64_t ld;
    int32_t *chosen; // of that row
    uint64_t *clock; // nanoseconds of the device when a choice was made; NULL: not wanted
    struct choose_scratch at;
    int32_t n_parts, pad; // n_parts: blocks of a row
};

#ifdef __cplusplus
extern "C" {
#endif

// --- the description ---

// Its bytes. choice: [n_choices], or NULL: nothing is chosen. n_rows: of the launches, n_choices or
// more; nothing is chosen from the others.
uint64_t choose_bytes(const struct choice *choice, int n_choices, int n_rows);
// Writes it. `to` is aligned to 16 bytes, and so is its copy on the device. All that the choices
// point to was read when this returns.
void choose_write(const struct choice *choice, int n_choices, int n_rows, uint8_t *to,
                  struct choose_plan *out);

// --- the launches ---

// Chooses a token for each row: chosen[row], -1: none is possible, or none is wanted. base: the
// description's copy on the device. All pointers are the device's. n_rows is the plan's. clock:
// struct choose_args; overlaps: launch.h.
cudaError_t choose_launch(const struct choose_plan *plan, const uint8_t *base, const float *logits,
                          int64_t ld, int n_rows, const struct choose_scratch *scratch,
                          int32_t *chosen, uint64_t *clock, bool overlaps, cudaStream_t stream);

// The kernels, for cudaLaunchKernel; each takes a struct choose_args.
const void *choose_tops(void);
const void *choose_mass(void);
const void *choose_draw(void);
const void *choose_filter(void);

#ifdef __cplusplus
}
#endif

#endif

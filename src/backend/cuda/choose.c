// The host's side of choosing: it writes the description of a step's choices and launches kernels
// that carry them out. The description says for each row which kernels have work there, so a step
// launches only the kernels that some row needs.
#include "backend/cuda/choose.h"

#include <assert.h>
#include <string.h>

#include "backend/cuda/launch.h"
#include "plan/noise.h"

enum { ALIGN = 16 };

static uint64_t aligned(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

static uint64_t parts(int n_vocab, int ids) {
    return ((uint64_t)n_vocab + ids - 1) / (uint64_t)ids;
}

static uint64_t edit_bytes(const struct choice *choice) {
    return aligned((uint64_t)choice->n_edit * sizeof *choice->edit, ALIGN);
}

static uint64_t mask_bytes(const struct choice *choice) {
    if (!choice->allowed) return 0;
    return aligned(token_set_words(choice->n_vocab) * sizeof *choice->allowed, ALIGN);
}

// ---------------------------------------------------------------- the description

uint64_t choose_bytes(const struct choice *choice, int n_choices, int n_rows) {
    uint64_t bytes = aligned((uint64_t)n_rows * sizeof(struct choose_row), ALIGN);
    for (int i = 0; choice && i < n_choices; i++)
        if (choice[i].numbers) bytes += edit_bytes(&choice[i]) + mask_bytes(&choice[i]);
    return bytes;
}

static bool is_share(float share) { return share > 0 && share < 1; }

// The filters that may drop a candidate of this row. A top_k of all ids or more drops none.
static uint32_t filter_flags(const struct choice *choice) {
    const struct choice_numbers *s = choice->numbers;
    const bool top_k = s->top_k > 0 && s->top_k < choice->n_vocab;
    const bool before = s->top_n_sigma > 0 || top_k || is_share(s->typical_p);
    const bool xtc = s->xtc_probability != 0 && noise_xtc(choice->key) < (double)s->xtc_probability;
    const bool measure = !before && s->top_p < 1 && choice->n_vocab > CHOOSE_FEW;
    const bool any = before || s->top_p < 1 || s->min_p > 0 || xtc;
    return (any ? CHOOSE_FILTERS : CHOOSE_PLAIN) | (measure ? CHOOSE_MEASURE : 0u) |
           (xtc ? CHOOSE_XTC : 0u);
}

static uint32_t flags_of(const struct choice *choice) {
    return CHOOSE_WANTED | (choice->n_edit > 0 || choice->allowed ? CHOOSE_EDITED : 0u) |
           (choice->numbers->temperature == 0 ? (uint32_t)CHOOSE_GREEDY : filter_flags(choice));
}

void choose_write(const struct choice *choice, int n_choices, int n_rows, uint8_t *to,
                  struct choose_plan *out) {
    struct choose_row *row = (struct choose_row *)to;
    uint64_t at = aligned((uint64_t)n_rows * sizeof *row, ALIGN);
    *out = (struct choose_plan){.n_rows = n_rows};
    memset(row, 0, (size_t)n_rows * sizeof *row);
    for (int i = 0; choice && i < n_choices; i++) {
        const struct choice *from = &choice[i];
        if (!from->numbers) continue;
        assert(from->n_vocab > 0 && from->n_vocab <= CHOOSE_MAX_VOCAB);
        row[i] = (struct choose_row){.key = from->key,
                                     .numbers = *from->numbers,
                                     .n_vocab = from->n_vocab,
                                     .n_edit = from->n_edit,
                                     .flags = flags_of(from)};
        if (from->n_edit > 0) {
            row[i].edit_at = at;
            memcpy(to + at, from->edit, (size_t)from->n_edit * sizeof *from->edit);
            at += edit_bytes(from);
        }
        if (from->allowed) {
            row[i].allowed_at = at;
            memcpy(to + at, from->allowed, token_set_words(from->n_vocab) * sizeof *from->allowed);
            at += mask_bytes(from);
        }
        out->flags |= row[i].flags;
        if (from->n_vocab > out->max_vocab) out->max_vocab = from->n_vocab;
    }
    out->bytes = at;
}

// ---------------------------------------------------------------- the launches

static cudaError_t launch(const void *kernel, int n_rows, uint64_t blocks, int threads,
                          uint64_t shared, struct choose_args *args, bool overlaps,
                          cudaStream_t stream) {
    args->n_parts = (int32_t)blocks;
    return cuda_launch(kernel, (uint64_t)n_rows * blocks, threads, shared, args, overlaps, stream);
}

// The kernels of some rows, in their order; each leaves rows alone that it has no work for.
static cudaError_t launch_rows(const struct choose_plan *plan, int n_rows, struct choose_args *args,
                               bool overlaps, cudaStream_t stream) {
    const uint64_t n_parts = parts(plan->max_vocab, CHOOSE_PART_IDS);
    const int tops_shared = plan->flags & CHOOSE_EDITED ? CHOOSE_TOPS_SHARED : CHOOSE_HEAD_SHARED;
    cudaError_t code = launch(choose_tops(), n_rows, n_parts > 0 ? n_parts : 1, CHOOSE_PART_THREADS,
                              (uint64_t)tops_shared, args, overlaps, stream);
    if (!code && plan->flags & CHOOSE_MEASURE)
        code = launch(choose_mass(), n_rows, parts(plan->max_vocab, CHOOSE_MASS_IDS),
                      CHOOSE_MASS_THREADS, CHOOSE_MASS_SHARED, args, overlaps, stream);
    if (!code && plan->flags & CHOOSE_FILTERS)
        code = launch(choose_filter(), n_rows, 1, CHOOSE_THREADS, CHOOSE_FILTER_SHARED, args,
                      overlaps, stream);
    if (!code && plan->flags & CHOOSE_PLAIN)
        code = launch(choose_draw(), n_rows, n_parts, CHOOSE_PART_THREADS, CHOOSE_DRAW_SHARED, args,
                      overlaps, stream);
    return code;
}

cudaError_t choose_launch(const struct choose_plan *plan, const uint8_t *base, const float *logits,
                          int64_t ld, int n_rows, const struct choose_scratch *scratch,
                          int32_t *chosen, uint64_t *clock, bool overlaps, cudaStream_t stream) {
    assert(n_rows == plan->n_rows && n_rows > 0);
    const struct choose_row *row = (const struct choose_row *)base;
    // only lists of candidates and edited logits need room of their own
    const bool needs_room = (plan->flags & CHOOSE_FILTERS) ||
                            ((plan->flags & CHOOSE_PLAIN) && (plan->flags & CHOOSE_EDITED));
    const int n_turns = needs_room ? (n_rows + (int)scratch->room - 1) / (int)scratch->room : 1;
    const int at_once = (n_rows + n_turns - 1) / n_turns;
    for (int first = 0; first < n_rows; first += at_once) {
        const int n = n_rows - first < at_once ? n_rows - first : at_once;
        struct choose_args args = {.base = base,
                                   .row = row + first,
                                   .logits = logits + first * ld,
                                   .ld = ld,
                                   .chosen = chosen + first,
                                   .clock = clock,
                                   .at = *scratch};
        const cudaError_t code = launch_rows(plan, n, &args, overlaps, stream);
        if (code) return code;
    }
    return cudaSuccess;
}

// Experts of small steps, for the host: two launches take the place of a route, its products and
// their sum.
#ifndef RN_BACKEND_CUDA_EXPERTS_H
#define RN_BACKEND_CUDA_EXPERTS_H

#include "route.h"

enum {
    EXPERTS_USED = 16,  // of a row at most
    EXPERTS_MOST = 512, // in all
    // Of a step of one row: items whose sums of slices are kept, and the floats of an item. The
    // padding puts neighbours into other banks.
    ONE_TURNS = EXPERTS_USED,
    ONE_PARTS = N_SLICES * UNIT_ROWS + 8,
};

struct experts_args {
    struct stage_experts stage;
    const struct step *step;
    struct launch_clock clock;
    int32_t n_rows;
    int32_t is_staged;           // a block brings its input to shared memory
    int32_t n_slots, slot_bytes; // of a warp's ring
};

// Bytes of shared memory: the list of experts, see experts.cuh.
#define EXPERTS_LIST_BYTES(n_expert, n_pairs)                                                      \
    (16 + (n_pairs) * (4 * 4 + 8 * 2) + ((n_expert) + 7) / 8 * 16)
static inline uint32_t experts_shared_bytes(const struct experts_args *args, bool is_down) {
    const struct stage_product *s = &args->stage.product;
    const struct route_table *t = &args->stage.route.table;
    const int n_pairs = args->n_rows * t->n_used;
    const int x_rows = !args->is_staged ? 0 : is_down ? n_pairs : args->n_rows;
    return product_shared_bytes(args->n_slots, args->slot_bytes, 1,
                                (uint32_t)(s->n_units * x_rows * 64)) +
           (uint32_t)EXPERTS_LIST_BYTES(t->n_expert, n_pairs) +
           (is_down ? (uint32_t)n_pairs * 64 : 0);
}

static inline uint32_t experts_one_shared_bytes(const struct experts_args *args, bool is_down) {
    const int x_rows = !args->is_staged ? 0 : is_down ? args->stage.route.table.n_used : 1;
    return (uint32_t)(PRODUCT_HEAD + N_WARPS * args->n_slots * args->slot_bytes +
                      ONE_TURNS * (ONE_PARTS + UNIT_ROWS) * 4 + 2 * EXPERTS_USED * 4 +
                      args->stage.product.n_units * x_rows * 64);
}

#ifdef __cplusplus
extern "C" {
#endif
// codec: enum codec_id.
const void *experts_kernel(int codec, int is_down);
const void *experts_one_kernel(int codec, int is_down); // of steps of one row
#ifdef __cplusplus
}
#endif

#endif

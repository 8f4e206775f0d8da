// Launches of routers, and of the rows before and behind experts.
#include <assert.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.h"

cudaError_t cuda_route_launch(struct cuda_backend *b, const struct stage *s, int n_rows,
                              const struct cuda_shape *shape, struct launch_clock clock) {
    const struct route_table *t = &s->route.table;
    const int threads = n_rows <= SMALL_ROWS ? (int)BLOCK_THREADS : (int)ROUTE_THREADS;
    const int blocks = (n_rows + threads / 32 - 1) / (threads / 32), most = 2 * b->n_sm;
    struct router_args args = {.stage = s->route,
                               .step = (const struct step *)(const void *)shape->upload,
                               .clock = clock,
                               .rows = s->rows,
                               .n_rows = n_rows};
    args.n_counting = route_counting(t->n_expert, n_rows * t->n_used, threads);
    return cuda_launch(route_kernel(t->n_expert), (uint64_t)(blocks < most ? blocks : most),
                       threads, route_shared_bytes(t->n_expert, args.n_counting), &args,
                       b->overlaps, b->stream);
}

// Tuning; no bits depend on it. Shared memory of a block: two of the first launch and one of the
// second are on a multiprocessor together. Long tiles have little beside their input otherwise; of
// one row, weights that are asked for early are worth more than blocks that begin early.
enum {
    SHARED_BLOCK = 74 << 10,
    SHARED_LONG = 106 << 10,
    STAGED_DOWN = 48 << 10, // of the second launch's input
};

static uint32_t launch_shared_bytes(const struct experts_args *args, bool is_down) {
    return args->n_rows == 1 ? experts_one_shared_bytes(args, is_down)
                             : experts_shared_bytes(args, is_down);
}

cudaError_t cuda_experts_launch(struct cuda_backend *b, const struct stage *stage, int n_rows,
                                const struct cuda_shape *shape, struct launch_clock clock) {
    const bool is_down = stage->kind == STAGE_DOWN;
    struct experts_args args = {.stage = stage->experts,
                                .step = (const struct step *)(const void *)shape->upload,
                                .clock = clock,
                                .n_rows = n_rows};
    struct stage_product *s = &args.stage.product;
    const int unit = s->product[0].unit_bytes, most = SLOT_UNITS(unit);
    const int slice = (s->n_units + N_SLICES - 1) / N_SLICES;
    const int pairs = n_rows * args.stage.route.table.n_used;
    args.is_staged = is_down ? s->n_units * pairs * 64 <= STAGED_DOWN
                             : cuda_is_staged(b, s->input, s->cols, n_rows);
    if (!args.is_staged) s->input = INPUT_16; // written so, or prepared
    args.slot_bytes = (slice < most ? slice : most) * unit;
    const bool is_long = n_rows == 1 || slice > most || unit >= 1024;
    uint32_t budget = is_long ? SHARED_LONG : SHARED_BLOCK;
    if (budget > b->shared_most) budget = b->shared_most;
    const int left = (int)budget - (int)launch_shared_bytes(&args, is_down);
    args.n_slots = left / (N_WARPS * args.slot_bytes);
    if (args.n_slots > RING_SLOTS_MAX) args.n_slots = RING_SLOTS_MAX;
    if (args.n_slots < 2) args.n_slots = 2;
    while (args.n_slots > 1 && launch_shared_bytes(&args, is_down) > b->shared_most)
        args.n_slots--; // of other GPUs
    const uint32_t shared = launch_shared_bytes(&args, is_down);
    assert(shared <= b->shared_most);
    const int items = is_down ? s->n_tiles : s->n_tiles * pairs;
    const int blocks = PRODUCT_BLOCKS * b->n_sm;
    const int codec = s->product[0].codec;
    return cuda_launch(n_rows == 1 ? experts_one_kernel(codec, is_down)
                                   : experts_kernel(codec, is_down),
                       (uint64_t)(items < blocks ? items : blocks), PRODUCT_THREADS, shared, &args,
                       b->overlaps, b->stream);
}

cudaError_t cuda_weigh_launch(struct cuda_backend *b, const struct stage *s, int n_rows,
                              const struct cuda_shape *shape, struct launch_clock clock) {
    struct prepare_args args = {.stage = s->row,
                                .clock = clock,
                                .n_rows = n_rows,
                                .step = (const struct step *)(const void *)shape->upload,
                                .rows = s->rows};
    const int64_t pairs = (int64_t)n_rows * s->row.n_used, most = 4 * (int64_t)b->n_sm;
    return cuda_launch(weigh_kernel(s->row.input), (uint64_t)(pairs < most ? pairs : most),
                       BLOCK_THREADS, 2 * N_WARPS * sizeof(float), &args, b->overlaps, b->stream);
}

cudaError_t cuda_combine_launch(struct cuda_backend *b, const struct stage *s, int n_rows,
                                struct launch_clock clock) {
    struct prepare_args args = {.stage = s->row, .clock = clock, .n_rows = n_rows};
    const int64_t quads = (int64_t)n_rows * ((s->row.width + 3) / 4);
    const int64_t blocks = (quads + COMBINE_THREADS - 1) / COMBINE_THREADS;
    const int64_t most = 8 * (int64_t)b->n_sm;
    return cuda_launch(combine_kernel(), (uint64_t)(blocks < most ? blocks : most), COMBINE_THREADS,
                       0, &args, b->overlaps, b->stream);
}

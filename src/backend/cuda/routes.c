// Launches of routers, and of the rows before and behind experts.
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

cudaError_t cuda_weigh_launch(struct cuda_backend *b, const struct stage *s, int n_rows,
                              struct launch_clock clock) {
    struct prepare_args args = {.stage = s->row, .clock = clock, .n_rows = n_rows};
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

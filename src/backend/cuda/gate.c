// Launches of gates: see gate.cuh.
#include "backend/cuda/gate.h"

#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.h"

bool cuda_gate_is_alone(const struct stage *s, bool is_small) {
    if (s->kind == STAGE_NORM_GATE) return true;
    return s->kind == STAGE_GATE && !is_small && !s->row.is_factor && s->row.gate != GATE_XIELU;
}

cudaError_t cuda_gate_launch(struct cuda_backend *b, const struct stage *s, int n_rows,
                             const struct cuda_shape *shape, struct launch_clock clock) {
    enum { BLOCKS = 8 }; // of a multiprocessor, at most
    const bool is_normed = s->kind == STAGE_NORM_GATE;
    struct gate_args args = {.stage = s->row,
                             .step = (const struct step *)(const void *)shape->upload,
                             .clock = clock,
                             .rows = s->rows};
    const int64_t rows = (int64_t)n_rows * s->row.slots, most = (int64_t)BLOCKS * b->n_sm;
    const int64_t blocks =
        is_normed ? (rows * (s->row.width / s->row.group) + N_WARPS - 1) / N_WARPS
                  : (rows * ((s->row.width + 3) / 4) + BLOCK_THREADS - 1) / BLOCK_THREADS;
    return cuda_launch(is_normed ? norm_gate_kernel(s->row.group) : gate_kernel(),
                       (uint64_t)(blocks < most ? blocks : most), BLOCK_THREADS, 0, &args,
                       b->overlaps, b->stream);
}

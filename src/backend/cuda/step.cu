// The kernels of a step. `step_kernel` runs stages one after the other, with a barrier of the whole
// grid between two: all stages of a small step in one cooperative launch, or one stage of a larger
// step in each launch. Blocks differ only in their share of the work.
#include "step.h"

#include "attention.cuh"
#include "product.cuh"
#include "rows.cuh"

// A barrier of the grid has two halves: the block says that it has arrived, and later waits until
// the counter has reached the epoch. In between it asks for the weights of the next stages. One
// thread adds and watches, so that the others' caches stay as they are.
DEV void grid_arrive(uint32_t *arrived) {
    if (threadIdx.x == 0) add_release(arrived, 1);
}

DEV void grid_wait(uint32_t *arrived, uint32_t epoch) {
    if (threadIdx.x == 0) {
        uint32_t tries = 0;
        while ((int32_t)(load_acquire(arrived) - epoch) < 0) {
            spin();
            if (++tries > 1u << 24) give_up();
        }
    }
}

// What the next stage reads besides weights and activations comes into the L2 cache.
DEV void stage_prefetch(const struct stage &s) {
    if (s.kind != STAGE_PRODUCT || !s.product.norm.weight) return;
    const int at = (int)threadIdx.x * 32; // floats of a line
    if (at < s.product.cols) prefetch_l2(s.product.norm.weight + at);
}

template <int NT>
DEV void stage_run(const struct stage &s, const struct step &step, const struct block_memory &m,
                   int current, int n_rows) {
    switch (s.kind) {
    case STAGE_PAGES:
        pages_run(step);
        break;
    case STAGE_EMBED:
        embed_run(s.row, step, n_rows);
        break;
    case STAGE_GATHER:
        gather_run(s.row, step, n_rows);
        break;
    case STAGE_NORM:
        norm_run(s.row, n_rows, m.norm);
        break;
    case STAGE_PREPARE:
        prepare_run(s.row, n_rows, m.norm);
        break;
    case STAGE_PRODUCT:
        product_run<NT>(s, m, current, n_rows);
        break;
    case STAGE_ROPE_TABLE:
        rope_table_run(s.row, step, n_rows);
        break;
    case STAGE_ROPE:
        rope_run(s.row, step, s.rows, n_rows);
        break;
    case STAGE_APPEND:
        append_run(s.attention, step, n_rows, m.x);
        break;
    case STAGE_ATTENTION:
        attention_run(s.attention, step, s.rows, m.x);
        break;
    case STAGE_RECUR:
        recur_run(s.row, step, s.rows);
        break;
    case STAGE_GATE:
        gate_run(s.row, n_rows);
        break;
    case STAGE_ROUTE:
        route_run(s.row, step, n_rows);
        break;
    case STAGE_COMBINE:
        combine_run(s.row, n_rows);
        break;
    case STAGE_SOFTCAP:
        softcap_run(s.row, n_rows);
        break;
    default:
        break;
    }
}

// A stage's description into its place in shared memory: a warp asks for it and goes on.
DEV void stage_fetch(struct stage *to, const struct stage *from, int lane) {
    for (int i = lane; i < (int)(sizeof(struct stage) / 16); i += 32)
        copy_16(shared_address((uint4 *)to + i), (const uint4 *)from + i);
    copies_commit();
}

// The arrays of a small step: copies in shared memory, since each stage of attention reads them,
// and the weights that were streamed since have pushed them out of the L2 cache.
struct step_arrays {
    struct step_seq seq[SMALL_ROWS];
    int32_t token[SMALL_ROWS], pos[SMALL_ROWS], out_row[SMALL_ROWS], row_seq[SMALL_ROWS];
    uint32_t tables[STEP_TABLES];
};

// The whole block; ends with a barrier.
DEV void step_copy(struct step *step, struct step_arrays *to) {
    const int thread = (int)threadIdx.x;
    const bool has_tables = step->n_tables <= STEP_TABLES;
    if (thread < step->n_tokens) {
        to->token[thread] = step->token[thread];
        to->pos[thread] = step->pos[thread];
        to->row_seq[thread] = step->row_seq[thread];
    }
    if (thread < step->n_out) to->out_row[thread] = step->out_row[thread];
    if (thread < step->n_seqs) to->seq[thread] = step->seq[thread];
    if (has_tables)
        for (int i = thread; i < (int)step->n_tables; i += BLOCK_THREADS)
            to->tables[i] = step->tables[i];
    __syncthreads();
    if (thread == 0) {
        step->token = to->token;
        step->pos = to->pos;
        step->out_row = to->out_row;
        step->row_seq = to->row_seq;
        step->seq = to->seq;
        if (has_tables) step->tables = to->tables;
    }
    __syncthreads();
}

template <int NT> DEV void step_run(const struct step_args &args, uint8_t *shared) {
    static_assert(sizeof(struct stage) % 16 == 0, "descriptions are copied 16 bytes at a time");
    static_assert(128 + STAGE_SLOTS * sizeof(struct stage) + sizeof(struct step) +
                          N_WARPS * (sizeof(struct warp_stream) + RING_SLOTS_MAX * 8) +
                          N_WARPS * 4 + N_TEAMS * sizeof(struct team_plan) +
                          sizeof(struct stream_limit) + sizeof(struct step_arrays) <=
                      SHARED_HEAD,
                  "the head has room");
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    // the division is in shared memory too: functions that are called read it there
    struct block_memory &m = *(struct block_memory *)shared;
    if (threadIdx.x == 0) {
        m.stages = (struct stage *)(shared + 128);
        m.step = (struct step *)(m.stages + STAGE_SLOTS);
        m.stream = (struct warp_stream *)(m.step + 1);
        m.full = (uint64_t *)(m.stream + N_WARPS);
        m.norm = (float *)(m.full + N_WARPS * RING_SLOTS_MAX);
        m.plan = (struct team_plan *)(m.norm + N_WARPS);
        m.limit = (struct stream_limit *)(m.plan + N_TEAMS);
        m.ring = shared + SHARED_HEAD;
        m.sums = (float4 *)(m.ring + N_WARPS * args.n_slots * args.slot_bytes);
        m.x = (uint8_t *)(m.sums + N_TEAMS * 2 * N_SLICES * NT * 32);
        m.n_slots = args.n_slots;
        m.slot_bytes = args.slot_bytes;
    }
    __syncthreads();
    if (warp < STAGE_SLOTS && warp < args.n_stages)
        stage_fetch(m.stages + warp, args.stages + args.first + warp, lane);
    for (int i = (int)threadIdx.x; i < (int)(sizeof(struct step) / 8); i += BLOCK_THREADS)
        ((uint64_t *)m.step)[i] = ((const uint64_t *)args.step)[i];
    if (lane < args.n_slots) fetch_init(&m.full[warp * args.n_slots + lane]);
    if (lane == 0) {
        struct warp_stream w = {};
        w.now.n_free = args.n_slots;
        m.stream[warp] = w;
    }
    if (threadIdx.x == 0) {
        *m.limit = {args.n_stages, 8 * NT};
        for (int t = 0; t < N_TEAMS; t++) {
            m.plan[t].n[0] = m.plan[t].n[1] = 0;
            m.plan[t].next_stage = m.plan[t].rot = m.plan[t].rot_now = 0;
        }
    }
    fetch_init_done();
    copies_wait<0>();
    __syncthreads();
    if (NT == 1) step_copy(m.step, (struct step_arrays *)(m.limit + 1));
    const bool is_clock = blockIdx.x == 0 && threadIdx.x == 0;
    if (args.clock_begin && is_clock) *args.clock_begin = device_ns();
    if (args.times && is_clock) args.times[0] = cycles_now();

    uint32_t epoch = args.epoch;
    if (lane == 0 && warp % N_SLICES == 1) runs_plan(&m, -1, warp / N_SLICES);
    __syncthreads();
    stream_fill(&m, 0, warp, lane);
    for (int i = 0; i < args.n_stages; i++) {
        const struct stage &s = m.stages[i % STAGE_SLOTS];
        const int flags = s.flags;
        const int n_rows = stage_rows_of(s, *m.step);
        const bool runs = s.kind == STAGE_PAGES ? m.step->n_pages > 0 : n_rows > 0;
        if (runs) stage_run<NT>(s, *m.step, m, i, n_rows);
        if (i + 1 < args.n_stages) {
            const bool meets = runs && !(flags & STAGE_NO_BARRIER);
            if (warp == N_WARPS - 1) copies_wait<0>(); // asked for at the end of the stage before
            __syncthreads();
            if (meets) grid_arrive(args.arrived);
            stage_prefetch(m.stages[(i + 1) % STAGE_SLOTS]);
            stream_fill(&m, i, warp, lane);
            if (lane == 0 && warp % N_SLICES == 1) runs_plan(&m, i, warp / N_SLICES);
            if (meets) grid_wait(args.arrived, epoch += gridDim.x);
            if (threadIdx.x == 0) {
                const bool moves = runs && s.kind == STAGE_PRODUCT && !s.product.is_routed;
                int rot = m.plan[0].rot_now + (moves ? s.product.n_tiles_rest : 0);
                if (rot >= (int)gridDim.x) rot -= (int)gridDim.x;
                m.plan[0].rot_now = m.plan[1].rot_now = rot;
            }
            __syncthreads();
            // no warp reads the old description any more
            if (i + STAGE_SLOTS < args.n_stages && warp == N_WARPS - 1)
                stage_fetch(m.stages + i % STAGE_SLOTS, args.stages + args.first + i + STAGE_SLOTS,
                            lane);
        }
        if (args.times && is_clock) args.times[i + 1] = cycles_now();
    }
    if (args.clock_end) {
        __syncthreads();
        if (is_clock) *args.clock_end = device_ns();
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    step_kernel_small(const __grid_constant__ struct step_args args) {
    SHARED_MEMORY(shared);
    step_run<1>(args, shared);
}

__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    step_kernel_wide(const __grid_constant__ struct step_args args) {
    SHARED_MEMORY(shared);
    step_run<WIDE_ROWS / 8>(args, shared);
}

// Reads memory, for its bandwidth: 16 bytes a thread, eight of them in flight.
__global__ void __launch_bounds__(1024) read_all(const uint4 *from, uint64_t n, uint32_t *out) {
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t sum = 0;
    for (; i + 7 * step < n; i += 8 * step) {
        uint4 v[8];
        UNROLL for (int j = 0; j < 8; j++) v[j] = load_once(from + i + j * step);
        UNROLL for (int j = 0; j < 8; j++) sum ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
    }
    for (; i < n; i += step) {
        const uint4 v = load_once(from + i);
        sum ^= v.x ^ v.y ^ v.z ^ v.w;
    }
    if (sum == 0x12345678u) *out = sum; // so that the loads stay
}

KERNEL_ENTRY(step_small, step_kernel_small, (struct step_args))
KERNEL_ENTRY(step_wide, step_kernel_wide, (struct step_args))
KERNEL_ENTRY(read_kernel, read_all, (const uint4 *, uint64_t, uint32_t *))

// Matrix products. One arithmetic at every number of rows: a tile of 16 output rows meets 8 rows of
// the batch in mma.m16n8k16; a slice of the tile is a chain of them over ascending columns that
// starts at 0; the 8 slices are added in order. A column of the mma never depends on the others, so
// a row has the same bits alone and in any batch, whatever the grid.
//
// A team works on a tile, a warp of it on a slice. Each warp streams its weights through a ring of
// its own in shared memory: the copies run ahead of the arithmetic and never wait for activations,
// not even at the barrier between two stages. The sums of slices meet in shared memory.
#ifndef RN_BACKEND_CUDA_PRODUCT_CUH
#define RN_BACKEND_CUDA_PRODUCT_CUH

#include "activation.cuh"
#include "codec.cuh"
#include "input.cuh"
#include "walk.cuh"

// The weights of a warp: where its copies are. The warp's registers have the current run
// (stream_now); here is what finds the next one, and between stages the registers.
struct stream_now {
    const uint8_t *from;                  // the rest of the slice that is being copied
    const uint8_t *next;                  // the slice after it
    int units;                            // that are left of the slice
    int slice_units;                      // of each slice of the run
    int stride;                           // bytes from tile to tile of the run
    int left;                             // slices of the run that follow: tiles times groups
    int group, n_groups;                  // of rows, of the slice after
    int unit_bytes, slot_units;           // of the run; slot_units: of a slot
    int from_unit_bytes, from_slot_units; // the same of the slice that is being copied
    int slot_in, slot_out;                // slots to be filled and read next
    int n_free;                           // slots that were read
    uint32_t parity;                      // of slot_out
};

struct warp_stream {
    struct stream_now now;
    int n_runs;           // that were taken from the plan
    struct run_walk walk; // of a stage of experts, which is walked by each warp
    int is_walking;
};

// The runs that a team will go through. Weights never change, so a team's runs are planned some
// stages ahead, by one thread, while the grid waits. Runs of experts are one entry: they are known
// when their stage begins.
struct planned_run {
    const uint8_t *weight; // of the first tile
    int stride, n;         // bytes from tile to tile; tiles
    int n_units, n_groups; // of a tile; of rows
    int unit_bytes, stage;
    int is_routed, rot;
};

enum { RUN_SLOTS = 32 }; // enough for MAX_PRODUCTS runs of each stage that is described

struct team_plan {
    struct planned_run run[RUN_SLOTS];
    int n[2];            // runs that were planned, seen from even and odd stages
    int next_stage, rot; // the next stage to plan, and where it begins
    int rot_now;         // where the stage that is computed begins
};

// How far copies may run ahead: descriptions must be in shared memory, and experts are known only
// when their stage begins.
struct stream_limit {
    int n_stages; // of the list
    int group_rows;
};

// The shared memory of a block.
struct block_memory {
    struct stage *stages; // [STAGE_SLOTS]
    struct step *step;
    struct stream_limit *limit;
    struct warp_stream *stream; // [N_WARPS]
    struct team_plan *plan;     // [N_TEAMS]
    uint64_t *full;             // [N_WARPS, n_slots] barriers of the rings
    uint8_t *ring;              // [N_WARPS, n_slots, slot_bytes]
    float4 *sums;               // [N_TEAMS, 2, N_SLICES, tiles of rows, 32]
    float *norm;                // [N_WARPS] partial sums of norms
    uint8_t *x;                 // the staged input
    int n_slots, slot_bytes;
};

DEV int slice_first(int slice, int n_units) { return slice * n_units / N_SLICES; }

// Plans the runs of the stages that are described. One thread of the team.
DEV_CALL void runs_plan(const struct block_memory *memory, int current, int team) {
    const struct block_memory &m = *memory;
    struct team_plan &plan = m.plan[team];
    const struct stream_limit limit = *m.limit;
    int n = plan.n[current & 1];
    for (; plan.next_stage < limit.n_stages && plan.next_stage < current + STAGE_SLOTS - 1;
         plan.next_stage++) {
        const struct stage &s = m.stages[plan.next_stage % STAGE_SLOTS];
        const int n_rows = s.kind == STAGE_PRODUCT ? stage_rows_of(s, *m.step) : 0;
        if (n_rows == 0) continue;
        if (s.product.is_routed) {
            struct planned_run &to = plan.run[n++ % RUN_SLOTS];
            to.stage = plan.next_stage;
            to.is_routed = 1;
            to.rot = plan.rot; // tiles of experts do not move the next stage
            continue;
        }
        struct run_walk walk;
        struct run r;
        walk.begin(s.product, plan.next_stage, team, plan.rot);
        while (walk.next(s.product, n_rows, limit.group_rows, r)) {
            const struct product &p = s.product.product[r.product];
            struct planned_run &to = plan.run[n++ % RUN_SLOTS];
            const int tile_bytes = s.product.n_units * p.unit_bytes;
            to.weight = p.weight + (uint64_t)r.tile * (uint64_t)tile_bytes;
            to.stride = r.step * tile_bytes;
            to.n = r.n;
            to.n_units = s.product.n_units;
            to.n_groups = r.n_groups;
            to.unit_bytes = p.unit_bytes;
            to.stage = plan.next_stage;
            to.is_routed = 0;
        }
        plan.rot = walk.rot_after(s.product, plan.rot);
    }
    plan.n[(current + 1) & 1] = n; // other warps read the other one until the next barrier
}

// The next run of experts. Whole warps, whose lanes walk together.
DEV_CALL void experts_next(const struct block_memory *memory, int warp, int lane) {
    const struct block_memory &m = *memory;
    const int team = warp / N_SLICES, slice = warp % N_SLICES;
    struct warp_stream w = m.stream[warp];
    __syncwarp();
    const struct planned_run &run = m.plan[team].run[w.n_runs % RUN_SLOTS];
    const struct stage &s = m.stages[run.stage % STAGE_SLOTS];
    if (!w.is_walking) w.walk.begin(s.product, run.stage, team, run.rot);
    w.is_walking = 1;
    struct run r;
    w.now.left = -1;
    while (w.now.left < 0) {
        if (!w.walk.next(s.product, stage_rows_of(s, *m.step), m.limit->group_rows, r)) {
            w.is_walking = 0;
            w.n_runs++;
            break;
        }
        const struct product &p = s.product.product[r.product];
        const int n_units = s.product.n_units, first = slice_first(slice, n_units);
        w.now.slice_units = slice_first(slice + 1, n_units) - first;
        if (w.now.slice_units == 0) continue;
        w.now.next = p.expert[r.expert] + ((uint64_t)r.tile * (uint64_t)n_units + (uint64_t)first) *
                                              (uint64_t)p.unit_bytes;
        w.now.stride = r.step * n_units * p.unit_bytes;
        w.now.left = r.n * r.n_groups;
        w.now.group = 0;
        w.now.n_groups = r.n_groups;
        w.now.unit_bytes = p.unit_bytes;
        w.now.slot_units = m.slot_bytes / p.unit_bytes;
    }
    if (lane == 0) m.stream[warp] = w;
    __syncwarp();
}

// A slice that follows in the run becomes this one.
DEV void slice_take(struct stream_now &now) {
    now.from = now.next;
    now.units = now.slice_units;
    now.from_unit_bytes = now.unit_bytes;
    now.from_slot_units = now.slot_units;
    now.left--;
    if (++now.group == now.n_groups) {
        now.group = 0;
        now.next += now.stride;
    }
}

// One piece of this slice into a free slot.
DEV void piece_ask(struct stream_now &now, uint8_t *ring, uint64_t *full, int n_slots,
                   int slot_bytes, int lane) {
    const int n = now.units < now.from_slot_units ? now.units : now.from_slot_units;
    fetch(ring + now.slot_in * slot_bytes, now.from, (uint32_t)(n * now.from_unit_bytes),
          full + now.slot_in, lane);
    now.from += n * now.from_unit_bytes;
    now.units -= n;
    now.slot_in = now.slot_in + 1 == n_slots ? 0 : now.slot_in + 1;
    now.n_free--;
}

DEV uint8_t *ring_of(const struct block_memory &m, int warp) {
    return m.ring + warp * m.n_slots * m.slot_bytes;
}

// The run after this one; left is -1 where none is known. n_runs: of the stream.
DEV void run_take(struct stream_now &now, int &n_runs, const struct block_memory &m, int current,
                  int warp, int lane) {
    const int slice = warp % N_SLICES;
    const struct team_plan &plan = m.plan[warp / N_SLICES];
    for (;;) {
        now.left = -1;
        if (n_runs >= plan.n[current & 1]) return;
        const struct planned_run &run = plan.run[n_runs % RUN_SLOTS];
        if (run.is_routed) {
            if (run.stage > current) return;
            __syncwarp();
            if (lane == 0) {
                m.stream[warp].n_runs = n_runs;
                m.stream[warp].now = now;
            }
            __syncwarp();
            experts_next(&m, warp, lane);
            now = m.stream[warp].now;
            n_runs = m.stream[warp].n_runs;
            if (now.left >= 0) return;
            continue;
        }
        const int first = slice_first(slice, run.n_units);
        n_runs++;
        now.slice_units = slice_first(slice + 1, run.n_units) - first;
        if (now.slice_units == 0) continue;
        now.next = run.weight + first * run.unit_bytes;
        now.stride = run.stride;
        now.left = run.n * run.n_groups;
        now.group = 0;
        now.n_groups = run.n_groups;
        now.unit_bytes = run.unit_bytes;
        now.slot_units = m.slot_bytes / run.unit_bytes;
        return;
    }
}

// Asks for pieces as long as slots are free: at the start of a launch, and between stages, when a
// stage that could not be walked before may have come nearer.
DEV_CALL void stream_fill(const struct block_memory *memory, int current, int warp, int lane) {
    const struct block_memory &m = *memory;
    struct stream_now now = m.stream[warp].now;
    int n_runs = m.stream[warp].n_runs;
    if (now.left < 0) now.left = 0;
    for (;;) {
        if (now.left == 0) run_take(now, n_runs, m, current, warp, lane);
        if (now.n_free == 0 || (now.units == 0 && now.left < 0)) break;
        if (now.units == 0) slice_take(now);
        piece_ask(now, ring_of(m, warp), m.full + warp * m.n_slots, m.n_slots, m.slot_bytes, lane);
    }
    __syncwarp();
    if (lane == 0) {
        m.stream[warp].now = now;
        m.stream[warp].n_runs = n_runs;
    }
    __syncwarp();
}

// Where the input rows of an item are, for this lane.
template <int NT> struct item_input {
    uint32_t shared;         // staged: the lane's first 16 bytes; 0: in memory
    uint32_t step;           // staged: bytes from unit to unit
    const uint16_t *row[NT]; // the row of the lane's column in each tile of 8 rows, at its elements
};

template <int CODEC> DEV void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if constexpr (codec_is_bf16<CODEC>())
        mma_bf16(c, a, b0, b1);
    else
        mma_f16(c, a, b0, b1);
}

// The operands of a unit.
template <int NT> struct unit_operands {
    uint32_t a[2][4];
    uint4 b[NT];
};

template <int CODEC, int NT>
DEV void unit_load(struct unit_operands<NT> &to, uint32_t slot, int u, int unit,
                   const struct item_input<NT> &in, int lane) {
    if (NT == 1 && in.shared)
        to.b[0] = shared_u128(in.shared + (uint32_t)unit * in.step);
    else
        UNROLL for (int i = 0; i < NT; i++) to.b[i] =
            *(const uint4 *)(in.row[i] + unit * UNIT_COLS);
    codec_fragments<CODEC>(shared_unit{slot + (uint32_t)(u * codec_unit_bytes<CODEC>())}, lane,
                           to.a);
}

template <int CODEC, int NT>
DEV void unit_multiply(float (&acc)[NT][4], const struct unit_operands<NT> &of) {
    UNROLL for (int i = 0; i < NT; i++) mma<CODEC>(acc[i], of.a[0], of.b[i].x, of.b[i].y);
    UNROLL for (int i = 0; i < NT; i++) mma<CODEC>(acc[i], of.a[1], of.b[i].z, of.b[i].w);
}

// n units of a slot; the first one is unit `first` of the tile. The operands of a unit are loaded
// while the one before is multiplied.
template <int CODEC, int NT>
DEV void units_multiply(float (&acc)[NT][4], uint32_t slot, int first, int n,
                        const struct item_input<NT> &in, int lane) {
    struct unit_operands<NT> even, odd;
    unit_load<CODEC, NT>(even, slot, 0, first, in, lane);
#pragma unroll 1
    for (int u = 0; u < n; u += 2) {
        const int next = u + 1 < n ? u + 1 : u, after = u + 2 < n ? u + 2 : u;
        unit_load<CODEC, NT>(odd, slot, next, first + next, in, lane);
        unit_multiply<CODEC, NT>(acc, even);
        unit_load<CODEC, NT>(even, slot, after, first + after, in, lane);
        if (u + 1 < n) unit_multiply<CODEC, NT>(acc, odd);
    }
}

// The warp's slice of an item, from 0, units in order. A slot that was read is asked for again at
// once.
template <int CODEC, int NT>
DEV void slice_multiply(float (&acc)[NT][4], struct stream_now &now, const struct block_memory &m,
                        const struct item_input<NT> &in, int n_units, int warp, int lane) {
    const int slice = warp % N_SLICES, end = slice_first(slice + 1, n_units);
    const int n_slots = m.n_slots, slot_bytes = m.slot_bytes;
    const int most = slot_bytes / codec_unit_bytes<CODEC>();
    uint8_t *ring = ring_of(m, warp);
    uint64_t *full = m.full + warp * n_slots;
#pragma unroll 1
    for (int unit = slice_first(slice, n_units); unit < end; unit += most) {
        const int n = end - unit < most ? end - unit : most;
        fetch_wait(full + now.slot_out, now.parity);
        units_multiply<CODEC, NT>(acc, shared_address(ring) + (uint32_t)(now.slot_out * slot_bytes),
                                  unit, n, in, lane);
        __syncwarp();
        if (++now.slot_out == n_slots) {
            now.slot_out = 0;
            now.parity ^= 1;
        }
        now.n_free++;
        if (now.units == 0 && now.left > 0) slice_take(now);
        if (now.units > 0) piece_ask(now, ring, full, n_slots, slot_bytes, lane);
    }
}

template <int NT>
DEV void slice_of_codec(int codec, float (&acc)[NT][4], struct stream_now &now,
                        const struct block_memory &m, const struct item_input<NT> &in, int n_units,
                        int warp, int lane) {
    switch (codec) {
#define X(id, unit_bytes, is_bf16)                                                                 \
    case CODEC_##id:                                                                               \
        slice_multiply<CODEC_##id, NT>(acc, now, m, in, n_units, warp, lane);                      \
        break;
        CODEC_LIST(X)
#undef X
    }
}

// ---------------------------------------------------------------- the end of a tile

// A tile and a group of rows.
struct item {
    int tile, group;
    int expert, first_pair, n_pairs; // of experts
};

struct item_out {
    const struct product *p;
    const struct stage_product *stage;
    struct item at;
    int n_rows; // of the stage
    int group_rows;
};

// The row of the output for a column of the item; -1: none.
DEV int out_row_of(const struct item_out &o, int column) {
    const int index = o.at.group * o.group_rows + column;
    if (!o.stage->is_routed) return index < o.n_rows ? index : -1;
    return index < o.at.n_pairs ? load_l2(o.stage->route.pair + o.at.first_pair + index) : -1;
}

DEV float product_end(const struct product &p, const float *bias, float y, int row) {
    if (p.scale != 1.0f) y = y * p.scale;
    if (bias) y = y + bias[row];
    if (p.softcap > 0.0f) y = p.softcap * rmath_tanh(y / p.softcap);
    return y;
}

// What the outputs of a lane are added to, asked for before the arithmetic: tile rows g and g + 8
// of two batch rows.
template <int NT> struct tile_residual { float4 at[NT]; };

template <int NT>
DEV void residual_load(struct tile_residual<NT> &r, const struct item_out &o, int lane) {
    const struct product &p = *o.p;
    const int row = o.at.tile * UNIT_ROWS + (lane >> 2);
    UNROLL for (int i = 0; i < NT; i++) {
        const int column = i * 8 + 2 * (lane & 3);
        const int first = out_row_of(o, column), second = out_row_of(o, column + 1);
        const float *a = p.out + (int64_t)first * p.ld + row,
                    *b = p.out + (int64_t)second * p.ld + row;
        r.at[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (first >= 0 && row < p.n_rows) r.at[i].x = load_l2(a);
        if (second >= 0 && row < p.n_rows) r.at[i].y = load_l2(b);
        if (first >= 0 && row + 8 < p.n_rows) r.at[i].z = load_l2(a + 8);
        if (second >= 0 && row + 8 < p.n_rows) r.at[i].w = load_l2(b + 8);
    }
}

// Two outputs of one batch row: tile rows g and g + 8; r0 and r1 are what they are added to.
DEV void tile_store(const struct item_out &o, int out_row, float y0, float y1, float r0, float r1,
                    int g) {
    const struct product &p = *o.p;
    const float *bias = p.bias;
    if (out_row < 0) return;
    if (bias && o.stage->is_routed) bias += (int64_t)o.at.expert * p.n_rows * (p.gate ? 2 : 1);
    if (p.gate) {
        const int row = o.at.tile * 8 + g;
        if (row >= p.n_rows) return;
        // the biases of gates come first, then those of the factors
        y0 = product_end(p, bias, y0, row);
        y1 = product_end(p, bias ? bias + p.n_rows : bias, y1, row);
        const float y = gate_of(p.gate - 1, y0, y1, true);
        p.out16[(int64_t)out_row * p.ld + row] = p.out_is_bf16 ? bf16_of(y) : f16_of(y);
        return;
    }
    const int row = o.at.tile * UNIT_ROWS + g;
    float *out = p.out + (int64_t)out_row * p.ld + row;
    if (row < p.n_rows) {
        y0 = product_end(p, bias, y0, row);
        out[0] = p.add ? r0 + y0 : y0;
    }
    if (row + 8 < p.n_rows) {
        y1 = product_end(p, bias, y1, row + 8);
        out[8] = p.add ? r1 + y1 : y1;
    }
}

// Adds the slices in order and stores the tile. One warp.
template <int NT>
DEV void tile_finish(const struct item_out &o, const struct tile_residual<NT> &r,
                     const float4 *sums, int lane) {
    UNROLL for (int i = 0; i < NT; i++) {
        float4 y = sums[i * 32 + lane];
        UNROLL for (int s = 1; s < N_SLICES; s++) {
            const float4 part = sums[(s * NT + i) * 32 + lane];
            y.x = y.x + part.x;
            y.y = y.y + part.y;
            y.z = y.z + part.z;
            y.w = y.w + part.w;
        }
        const int column = i * 8 + 2 * (lane & 3), g = lane >> 2;
        tile_store(o, out_row_of(o, column), y.x, y.z, r.at[i].x, r.at[i].z, g);
        tile_store(o, out_row_of(o, column + 1), y.y, y.w, r.at[i].y, r.at[i].w, g);
    }
}

// ---------------------------------------------------------------- a stage

template <int NT>
DEV struct item_input<NT> item_input_of(const struct stage_product &s, const struct item &at,
                                        const uint8_t *x, bool is_staged, int n_rows, int lane) {
    struct item_input<NT> in = {};
    const int g = lane >> 2, t = lane & 3;
    if (is_staged) {
        in.step = (uint32_t)n_rows * 64;
        in.shared =
            shared_address(x) + (uint32_t)(g < n_rows ? g : n_rows - 1) * 64 + (uint32_t)t * 16;
        return in;
    }
    UNROLL for (int i = 0; i < NT; i++) {
        int row = (at.group * NT + i) * 8 + g;
        if (s.is_routed) {
            row = row < at.n_pairs ? row : at.n_pairs - 1;
            row = load_l2(s.route.pair + at.first_pair + row);
            if (!s.slots_in) row /= s.route.n_used;
        } else if (row >= n_rows) {
            row = n_rows - 1;
        }
        in.row[i] = s.x16 + (int64_t)row * s.ldx16 + 8 * t;
    }
    return in;
}

// The team's tiles of a stage, in the order of the stream.
template <int NT>
DEV void tiles_run(const struct stage *stage, const struct block_memory &m, int current, int n_rows,
                   bool is_staged) {
    const struct stage_product &s = stage->product;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int team = warp / N_SLICES, slice = warp % N_SLICES;
    struct stream_now now = m.stream[warp].now;
    int n_runs = m.stream[warp].n_runs;
    struct run_walk walk;
    struct run r;
    walk.begin(s, current, team, m.plan[team].rot_now);
    float4 *sums = m.sums + team * 2 * N_SLICES * NT * 32;
    int turn = 0;
    while (walk.next(s, n_rows, 8 * NT, r)) {
        const struct product &p = s.product[r.product];
        const int codec = p.codec, n_units = s.n_units;
        struct item at = {r.tile, 0, r.expert, r.first_pair, r.n_pairs};
        struct item_input<NT> in = item_input_of<NT>(s, at, m.x, is_staged, n_rows, lane);
        for (int left = r.n * r.n_groups; left > 0; left--) {
            if (now.left == 0) run_take(now, n_runs, m, current, warp, lane);
            // the warps take turns at the end of a tile
            const bool finishes = turn % N_SLICES == slice;
            const struct item_out o = {&p, &s, at, n_rows, 8 * NT};
            struct tile_residual<NT> residual;
            if (finishes && p.add) residual_load<NT>(residual, o, lane);
            float acc[NT][4];
            UNROLL for (int i = 0; i < NT; i++) UNROLL for (int j = 0; j < 4; j++) acc[i][j] = 0.0f;
            slice_of_codec<NT>(codec, acc, now, m, in, n_units, warp, lane);
            float4 *mine = sums + (turn & 1) * N_SLICES * NT * 32;
            UNROLL for (int i = 0; i < NT; i++) mine[(slice * NT + i) * 32 + lane] =
                make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
            barrier_sync(1 + team, TEAM_THREADS);
            // the sums of an item stay until the barrier of the next but one
            if (finishes) tile_finish<NT>(o, residual, mine, lane);
            turn++;
            if (++at.group == r.n_groups) {
                at.group = 0;
                at.tile += r.step;
            }
            if (r.n_groups > 1) in = item_input_of<NT>(s, at, m.x, is_staged, n_rows, lane);
        }
    }
    __syncwarp();
    if (lane == 0) {
        m.stream[warp].now = now;
        m.stream[warp].n_runs = n_runs;
    }
    __syncwarp();
}

// A stage of products. Its first weights were asked for before.
template <int NT>
DEV void product_run(const struct stage &stage, const struct block_memory &m, int current,
                     int n_rows) {
    const struct stage_product &s = stage.product;
    const bool is_staged =
        NT == 1 && !s.is_routed && STAGE_FITS(s.n_units, n_rows, m.step->x_bytes);
    // experts are known only now
    if (s.is_routed) stream_fill(&m, current, (int)threadIdx.x / 32, (int)threadIdx.x % 32);
    if (is_staged) input_stage(s, n_rows, m.x, m.norm);
    tiles_run<NT>(&stage, m, current, n_rows, is_staged);
}

#endif

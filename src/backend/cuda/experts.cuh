// Experts of a small step, in two launches. The first one chooses the experts of the rows, each
// block for itself, and multiplies the gated pairs. In the second one a block has a tile of output
// rows and goes through all experts; its last warp adds their rows in the order of rank. So neither
// the choice, the input's norm nor the sum is a launch.
//
// The arithmetic is that of route.cuh, input.cuh, product.cuh and combine.cuh, to the bit.
//
// A row has an expert once, so an expert has at most 8 of the step's rows: a matrix instruction.
#ifndef RN_BACKEND_CUDA_EXPERTS_CUH
#define RN_BACKEND_CUDA_EXPERTS_CUH

#include "clock.cuh"
#include "experts.h"
#include "product.cuh"
#include "route.cuh"

// ---------------------------------------------------------------- the list of experts

// In shared memory: experts by their first pair.
struct experts_list {
    int *n_active;
    int *id;       // [pairs] the pairs' experts
    float *weight; // [pairs]
    int *expert;   // [n_active]
    int *count;    // [n_active] pairs
    int16_t *pair; // [n_active, 8]
    int16_t *of;   // [n_expert] the place of an expert; -1: none
};

DEV struct experts_list list_at(uint8_t *shared, int n_pairs) {
    struct experts_list l;
    l.n_active = (int *)shared;
    l.id = l.n_active + 4;
    l.weight = (float *)(l.id + n_pairs);
    l.expert = (int *)(l.weight + n_pairs);
    l.count = l.expert + n_pairs;
    l.pair = (int16_t *)(l.count + n_pairs);
    l.of = l.pair + 8 * n_pairs;
    return l;
}

// A warp.
DEV void list_make(const struct experts_list &l, int n_expert, int n_pairs, int lane) {
    int n_active = 0;
    for (int e = lane; e < n_expert; e += 32) l.of[e] = -1;
    __syncwarp();
    for (int first = 0; first < n_pairs; first += 32) {
        const int p = first + lane;
        const bool is_here = p < n_pairs;
        const int id = is_here ? l.id[p] : -1;
        const uint32_t same = __match_any_sync(ALL_LANES, id), below = (1u << lane) - 1;
        const bool is_first = is_here && (same & below) == 0;
        const uint32_t added = __ballot_sync(ALL_LANES, is_first && l.of[id] < 0);
        if (added >> lane & 1) {
            const int at = n_active + __popc(added & below);
            l.of[id] = (int16_t)at;
            l.expert[at] = id;
            l.count[at] = 0;
        }
        n_active += __popc(added);
        __syncwarp();
        if (is_here) l.pair[8 * l.of[id] + l.count[l.of[id]] + __popc(same & below)] = (int16_t)p;
        __syncwarp();
        if (is_first) l.count[l.of[id]] += __popc(same);
        __syncwarp();
    }
    if (lane == 0) *l.n_active = n_active;
}

// The experts of a row, by a warp. Called, so that the products have the registers.
template <int PER>
DEV_CALL void row_choose(const struct stage_route &s, const struct experts_list &l, int row,
                         int lane) {
    const struct ranks r = ranks_of<PER>(s, s.logit + (int64_t)row * s.ld_in, lane);
    UNROLL for (int h = 0; h < 2; h++) {
        const int rank = h * 32 + lane;
        if (rank < s.table.n_used) l.id[row * s.table.n_used + rank] = r.id[h];
    }
    if (blockIdx.x == 0) ranks_store(s, r, row, lane);
}

enum { LIST_BARRIER = 14 }; // of all threads

// Behind the wait. All threads of the block.
template <bool IS_DOWN>
DEV void list_fill(const struct experts_args &args, const struct experts_list &l, int lane) {
    const struct stage_route &s = args.stage.route;
    const int thread = (int)threadIdx.x, warp = thread / 32, n_used = s.table.n_used;
    const int n_pairs = args.n_rows * n_used;
    if (IS_DOWN) {
        for (int p = thread; p < n_pairs; p += PRODUCT_THREADS) {
            const float *row = s.out + (int64_t)(p / n_used) * s.ld_out + p % n_used;
            const float id = load_l2(row), weight = load_l2(row + n_used);
            l.id[p] = (int)id;
            l.weight[p] = weight;
        }
    } else if (warp < args.n_rows) {
        if (s.table.n_expert <= 128)
            row_choose<4>(s, l, warp, lane);
        else if (s.table.n_expert <= 256)
            row_choose<8>(s, l, warp, lane);
        else
            row_choose<EXPERTS_MOST / 32>(s, l, warp, lane);
    }
    barrier_sync(LIST_BARRIER, PRODUCT_THREADS);
    if (warp == 0) list_make(l, s.table.n_expert, n_pairs, lane);
    barrier_sync(LIST_BARRIER, PRODUCT_THREADS);
    if (!IS_DOWN && blockIdx.x == 0 && thread == 0)
        *args.step->touched += (uint64_t)(uint32_t)*l.n_active * s.expert_bytes;
}

// ---------------------------------------------------------------- the work of a block

struct expert_item {
    int active, expert, tile;
};

// The block's item `turn`. Up: tiles of all experts, dealt out to the blocks. Down: of each tile of
// the block all experts.
template <bool IS_DOWN>
DEV struct expert_item expert_item_at(const struct stage_product &s, const struct experts_list &l,
                                      int n_active, int turn) {
    struct expert_item w;
    const int index = IS_DOWN ? turn : (int)blockIdx.x + turn * (int)gridDim.x;
    const int n = IS_DOWN ? n_active : s.n_tiles;
    w.active = IS_DOWN ? index % n : index / n;
    w.tile = IS_DOWN ? (int)blockIdx.x + index / n * (int)gridDim.x : index % n;
    w.expert = l.expert[w.active];
    return w;
}

template <bool IS_DOWN> DEV int expert_turns(const struct stage_product &s, int n_active) {
    const int n = IS_DOWN ? s.n_tiles : s.n_tiles * n_active;
    const int turns = (n - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    return IS_DOWN ? turns * n_active : turns;
}

// The copies of a warp, as struct stream has them.
struct expert_stream {
    const uint8_t *at;
    int units;
    int turn, n_turns; // the next item
};

// The stream goes to the warp's slice of an item.
template <int CODEC>
DEV void expert_stream_at(struct expert_stream &c, const struct stage_product &s,
                          const struct expert_item &w, int slice) {
    const int first = slice_first(slice, s.n_units);
    const uint64_t tile = (uint64_t)w.expert * (uint32_t)s.n_tiles + (uint32_t)w.tile;
    c.units = slice_first(slice + 1, s.n_units) - first;
    c.at = s.product[0].weight +
           (tile * (uint32_t)s.n_units + (uint32_t)first) * codec_unit_bytes<CODEC>();
}

// Asks for a piece of what is left of the slice.
template <int CODEC>
DEV void expert_piece(struct expert_stream &c, const struct ring &ring, int slot, int lane) {
    constexpr int UNIT = codec_unit_bytes<CODEC>(), MOST = SLOT_UNITS(UNIT);
    const int n = c.units < MOST ? c.units : MOST;
    fetch<true>(ring.at + slot * ring.slot_bytes, c.at, (uint32_t)(n * UNIT), ring.full + slot,
                lane);
    c.at += n * UNIT;
    c.units -= n;
}

// Asks for the next piece; false: there is none.
template <int CODEC, bool IS_DOWN>
DEV bool expert_ask(struct expert_stream &c, const struct ring &ring, int slot,
                    const struct stage_product &s, const struct experts_list &l, int n_active,
                    int slice, int lane) {
    if (c.units == 0) {
        if (c.turn >= c.n_turns) return false;
        const struct expert_item w = expert_item_at<IS_DOWN>(s, l, n_active, c.turn++);
        expert_stream_at<CODEC>(c, s, w, slice);
        if (c.units == 0) return false;
    }
    expert_piece<CODEC>(c, ring, slot, lane);
    return true;
}

// ---------------------------------------------------------------- a slice

// The input of a column of an item: the lane's elements of each unit.
struct expert_input {
    uint32_t shared, step; // staged
    const uint16_t *row;
};

template <bool IS_DOWN>
DEV struct expert_input expert_input_of(const struct experts_args &args,
                                        const struct experts_list &l, int active, const uint8_t *x,
                                        int lane) {
    const struct stage_product &s = args.stage.product;
    const int n_used = args.stage.route.table.n_used, t = lane & 3;
    const int column = min(lane >> 2, l.count[active] - 1);
    const int pair = l.pair[8 * active + column], row = IS_DOWN ? pair : pair / n_used;
    struct expert_input in = {0, 0, nullptr};
    if (args.is_staged) {
        in.step = (uint32_t)(args.n_rows * (IS_DOWN ? n_used : 1)) * 64;
        in.shared = shared_address(x) + (uint32_t)row * 64 + (uint32_t)t * 16;
    } else {
        in.row = s.x16.at + (int64_t)row * s.x16.ld + 8 * t;
    }
    return in;
}

// The warp's slice of an item, units in order. ask(slot): the slot was read.
template <int CODEC, class ASK>
DEV void expert_slice(float (&acc)[1][4], const struct ring &ring, int &slot, uint32_t &parity,
                      const struct expert_input &in, bool is_staged, int first, int end, int lane,
                      const ASK &ask) {
    constexpr int MOST = SLOT_UNITS(codec_unit_bytes<CODEC>());
#pragma unroll 1
    for (int unit = first; unit < end; unit += MOST) {
        const int n = end - unit < MOST ? end - unit : MOST;
        uint4 b[MOST][1]; // without the [1] two kernels spill more registers
        UNROLL for (int i = 0; i < MOST; i++) {
            if (i >= n) break;
            b[i][0] = is_staged ? shared_u128(in.shared + (uint32_t)(unit + i) * in.step)
                                : *(const uint4 *)(in.row + (unit + i) * UNIT_COLS);
        }
        const uint32_t at = shared_address(ring.at) + (uint32_t)(slot * ring.slot_bytes);
        fetch_wait(ring.full + slot, parity);
        if (n == MOST) {
            UNROLL for (int i = 0; i < MOST; i++) unit_multiply<CODEC>(acc, at, i, b[i][0], lane);
        } else {
            UNROLL for (int i = 0; i < MOST - 1; i++) {
                if (i >= n) break;
                unit_multiply<CODEC>(acc, at, i, b[i][0], lane);
            }
        }
        __syncwarp();
        ask(slot);
        if (++slot == ring.n_slots) {
            slot = 0;
            parity ^= 1;
        }
    }
}

// ---------------------------------------------------------------- the end of an item

// Two outputs of a pair: tile rows g and g + 8. Down: to `slots`, [pairs, 16].
template <bool IS_DOWN>
DEV void expert_store(const struct product &p, const struct expert_item &w, int pair, float y0,
                      float y1, float *slots, int g) {
    const float *bias = p.bias;
    if (bias) bias += (int64_t)w.expert * p.n_rows * (IS_DOWN ? 1 : 2);
    if (IS_DOWN) {
        const int row = w.tile * UNIT_ROWS + g;
        if (row < p.n_rows) slots[pair * UNIT_ROWS + g] = product_end(p, bias, y0, row);
        if (row + 8 < p.n_rows) slots[pair * UNIT_ROWS + g + 8] = product_end(p, bias, y1, row + 8);
        return;
    }
    const int row = w.tile * 8 + g;
    if (row >= p.n_rows) return;
    y0 = product_end(p, bias, y0, row);
    y1 = product_end(p, bias ? bias + p.n_rows : bias, y1, row);
    rows16_put(p.out16, pair, row, gate_of(p.gate - 1, y0, y1, true));
}

// The sums of the tile's 16 columns, in the order of rank. old: what they are added to; lane has
// column lane % 16 of rows lane / 16, + 2, ...
enum { SUM_ROWS = SMALL_ROWS / 2 };
DEV void sum_load(float (&old)[SUM_ROWS], const struct experts_args &args, int tile, int lane) {
    const int column = tile * UNIT_ROWS + lane % 16;
    UNROLL for (int i = 0; i < SUM_ROWS; i++) {
        const int row = 2 * i + lane / 16;
        old[i] = 0.0f;
        if (args.stage.add && row < args.n_rows && column < args.stage.product.product[0].n_rows)
            old[i] = load_l2(args.stage.sum + (int64_t)row * args.stage.ld_sum + column);
    }
}
DEV void sum_store(const float (&old)[SUM_ROWS], const struct experts_args &args,
                   const struct experts_list &l, const float *slots, int tile, int lane) {
    const int column = tile * UNIT_ROWS + lane % 16, n_used = args.stage.route.table.n_used;
    if (column >= args.stage.product.product[0].n_rows) return;
    UNROLL for (int i = 0; i < SUM_ROWS; i++) {
        const int row = 2 * i + lane / 16;
        if (row >= args.n_rows) break;
        float y = 0.0f;
        for (int p = row * n_used; p < (row + 1) * n_used; p++)
            y = fmaf(l.weight[p], slots[p * UNIT_ROWS + lane % 16], y);
        args.stage.sum[(int64_t)row * args.stage.ld_sum + column] = old[i] + y;
    }
}

// The ends of the block's items. The ninth warp.
template <bool IS_DOWN>
DEV void experts_end(const struct experts_args &args, const struct experts_list &l, int n_active,
                     int n_turns, const float4 *sums, float *slots, int lane) {
    const struct stage_product &s = args.stage.product;
    float old[SUM_ROWS];
#pragma unroll 1
    for (int turn = 0; turn < n_turns; turn++) {
        const struct expert_item w = expert_item_at<IS_DOWN>(s, l, n_active, turn);
        const int place = turn % N_SUMS;
        if (IS_DOWN && w.active == 0) sum_load(old, args, w.tile, lane);
        barrier_sync(SUMS_FULL + place, PRODUCT_THREADS);
        const float4 y = slices_sum(sums + place * SUMS_SIZE, lane);
        __syncwarp();
        if (turn + N_SUMS < n_turns) barrier_arrive(SUMS_EMPTY + place, PRODUCT_THREADS);
        const int column = 2 * (lane & 3), n = l.count[w.active];
#pragma unroll 1
        for (int c = 0; c < 2; c++)
            if (column + c < n)
                expert_store<IS_DOWN>(s.product[0], w, l.pair[8 * w.active + column + c],
                                      c ? y.y : y.x, c ? y.w : y.z, slots, lane >> 2);
        if (!IS_DOWN || w.active + 1 < n_active) continue;
        __syncwarp();
        sum_store(old, args, l, slots, w.tile, lane);
        __syncwarp();
    }
}

// ---------------------------------------------------------------- a stage

template <int CODEC, bool IS_DOWN> DEV void experts_run(const struct experts_args &args) {
    SHARED_MEMORY(shared);
    const struct stage_product &s = args.stage.product;
    const struct route_table &t = args.stage.route.table;
    const int slice = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int n_pairs = args.n_rows * t.n_used;
    [[maybe_unused]] float *norm = norm_sums_at(shared);
    float4 *sums = (float4 *)rings_end(args, shared);
    const struct experts_list l = list_at((uint8_t *)(sums + N_SUMS * SUMS_SIZE), n_pairs);
    float *slots = (float *)((uint8_t *)l.n_active + EXPERTS_LIST_BYTES(t.n_expert, n_pairs));
    uint8_t *x = (uint8_t *)(slots + (IS_DOWN ? n_pairs * UNIT_ROWS : 0));
    if (slice == N_SLICES) {
        dependents_launch();
        dependency_wait();
        list_fill<IS_DOWN>(args, l, lane);
        experts_end<IS_DOWN>(args, l, *l.n_active, expert_turns<IS_DOWN>(s, *l.n_active), sums,
                             slots, lane);
        clock_end(args.clock);
        return;
    }
    const struct ring ring = ring_at(args, shared, slice);
    struct expert_stream c = {nullptr, 0, 0, 0};
    int n_active = 0;
    if (lane < args.n_slots) fetch_init(ring.full + lane);
    fetch_init_done();
    __syncwarp();
    dependents_launch();
    auto ask = [&](int slot) {
        return expert_ask<CODEC, IS_DOWN>(c, ring, slot, s, l, n_active, slice, lane);
    };
    // the input is on its way
    auto begin = [&] {
        list_fill<IS_DOWN>(args, l, lane);
        n_active = *l.n_active;
        c.n_turns = expert_turns<IS_DOWN>(s, n_active);
        for (int i = 0; i < args.n_slots && ask(i);) i++;
    };
    if (args.is_staged) { // waits
        if constexpr (IS_DOWN) {
            rows16_stage(s, n_pairs, x, begin);
            input_sync();
        } else {
            struct norm_weights weights;
            if (s.input == INPUT_RMS) norm_weights_load(weights, s.norm.weight, s.cols);
            input_stage<codec_is_bf16<CODEC>()>(s, weights, args.n_rows, x, norm, begin);
        }
    } else {
        dependency_wait();
        begin();
    }
    const int first = slice_first(slice, s.n_units), end = slice_first(slice + 1, s.n_units);
    const int n_turns = c.n_turns;
    int slot = 0;
    uint32_t parity = 0;
#pragma unroll 1
    for (int turn = 0; turn < n_turns; turn++) {
        const struct expert_item w = expert_item_at<IS_DOWN>(s, l, n_active, turn);
        const struct expert_input in = expert_input_of<IS_DOWN>(args, l, w.active, x, lane);
        float acc[1][4] = {};
        expert_slice<CODEC>(acc, ring, slot, parity, in, args.is_staged != 0, first, end, lane,
                            ask);
        const int place = turn % N_SUMS;
        if (turn >= N_SUMS) barrier_sync(SUMS_EMPTY + place, PRODUCT_THREADS);
        sums[place * SUMS_SIZE + slice * 32 + lane] =
            make_float4(acc[0][0], acc[0][1], acc[0][2], acc[0][3]);
        barrier_arrive(SUMS_FULL + place, PRODUCT_THREADS);
    }
    clock_end(args.clock);
}

#endif

// Experts of a step of one row, in the two launches of experts.cuh and with its arithmetic, to the
// bit. One row has an expert once, which leaves less to wait for:
//   The ninth warp chooses the experts while the others bring the input. The weights of the chosen
//   are a matter of the second launch.
//   The second launch chooses again, from the same logits, and asks for its weights before it waits
//   for the first one. It may: the first one lets it begin behind its own wait, so the logits are
//   complete.
//   The sums of slices of many items meet in shared memory, and all threads end them together.
#ifndef RN_BACKEND_CUDA_EXPERTS_ONE_CUH
#define RN_BACKEND_CUDA_EXPERTS_ONE_CUH

#include "experts.cuh"

// ---------------------------------------------------------------- the choice

struct one_list {
    int *id;       // [n_used]
    float *weight; // [n_used], of the second launch
};

// The ninth warp. Called, so that the products have the registers.
template <int PER, bool IS_DOWN>
DEV_CALL void one_choose(const struct stage_route &s, const struct one_list &l, int lane) {
    struct softmax all;
    struct ranks r = ranks_choose<PER>(s, s.logit, all, lane);
    if (lane < s.table.n_used) l.id[lane] = r.id[0];
    if (!IS_DOWN) barrier_arrive(LIST_BARRIER, PRODUCT_THREADS);
    if (!IS_DOWN && blockIdx.x != 0) return;
    ranks_weigh(s, s.logit, all, r, lane);
    if (!IS_DOWN) return ranks_store(s, r, 0, lane);
    if (lane < s.table.n_used) l.weight[lane] = r.weight[0];
    barrier_arrive(LIST_BARRIER, PRODUCT_THREADS);
}

template <bool IS_DOWN>
DEV void one_choose_of(const struct stage_route &s, const struct one_list &l, int lane) {
    if (s.table.n_expert <= 128)
        one_choose<4, IS_DOWN>(s, l, lane);
    else if (s.table.n_expert <= 256)
        one_choose<8, IS_DOWN>(s, l, lane);
    else
        one_choose<EXPERTS_MOST / 32, IS_DOWN>(s, l, lane);
}

// ---------------------------------------------------------------- the work of a block

// The block's item `turn`, as expert_item_at has them.
template <bool IS_DOWN>
DEV struct expert_item one_item_at(const struct stage_product &s, const struct one_list &l,
                                   int n_used, int turn) {
    struct expert_item w;
    const int index = IS_DOWN ? turn : (int)blockIdx.x + turn * (int)gridDim.x;
    const int n = IS_DOWN ? n_used : s.n_tiles;
    w.active = index / n;
    w.tile = index - w.active * n;
    if (IS_DOWN) {
        const int round = w.active;
        w.active = w.tile;
        w.tile = (int)blockIdx.x + round * (int)gridDim.x;
    }
    w.expert = l.id[w.active];
    return w;
}

// Asks for the next piece; false: there is none.
template <int CODEC, bool IS_DOWN>
DEV bool one_ask(struct expert_stream &c, const struct ring &ring, int slot,
                 const struct stage_product &s, const struct one_list &l, int n_used, int slice,
                 int lane) {
    if (c.units == 0) {
        if (c.turn >= c.n_turns) return false;
        const struct expert_item w = one_item_at<IS_DOWN>(s, l, n_used, c.turn++);
        expert_stream_at<CODEC>(c, s, w, slice);
        if (c.units == 0) return false;
    }
    expert_piece<CODEC>(c, ring, slot, lane);
    return true;
}

template <bool IS_DOWN>
DEV struct expert_input one_input_of(const struct experts_args &args, int active, const uint8_t *x,
                                     int lane) {
    const struct stage_product &s = args.stage.product;
    const int row = IS_DOWN ? active : 0, t = lane & 3;
    struct expert_input in = {0, 0, nullptr};
    if (args.is_staged) {
        in.step = (uint32_t)(IS_DOWN ? args.stage.route.table.n_used : 1) * 64;
        in.shared = shared_address(x) + (uint32_t)row * 64 + (uint32_t)t * 16;
    } else {
        in.row = s.x16.at + (int64_t)row * s.x16.ld + 8 * t;
    }
    return in;
}

// ---------------------------------------------------------------- the ends of items

// The sum of an item's slices in order: row `row` of its tile. parts: [N_SLICES, 16].
DEV float parts_sum(const float *parts, int row) {
    float y = parts[row];
    UNROLL for (int s = 1; s < N_SLICES; s++) y = y + parts[s * UNIT_ROWS + row];
    return y;
}

// The ends of n items from `turn` on: gated pairs. The block's first 256 threads.
DEV void ups_end(const struct stage_product &s, const struct one_list &l, int turn, int n,
                 const float *parts) {
    const struct product &p = s.product[0];
    const int i = (int)threadIdx.x / 8, g = (int)threadIdx.x % 8;
    if (i >= n) return;
    const struct expert_item w = one_item_at<false>(s, l, 0, turn + i);
    const float y0 = parts_sum(parts + i * ONE_PARTS, g);
    const float y1 = parts_sum(parts + i * ONE_PARTS, g + 8);
    expert_store<false>(p, w, w.active, y0, y1, nullptr, g);
}

// The same: tiles of all experts, and their sums in the order of rank. `old`: of the thread's
// column, see olds_load.
DEV void downs_end(const struct experts_args &args, const struct one_list &l, int turn, int n,
                   const float *parts, float *slots, float old) {
    const struct stage_product &s = args.stage.product;
    const struct product &p = s.product[0];
    const int i = (int)threadIdx.x / 16, row = (int)threadIdx.x % 16;
    const int n_used = args.stage.route.table.n_used;
    if (i < n) {
        const struct expert_item w = one_item_at<true>(s, l, n_used, turn + i);
        const float *bias = p.bias ? p.bias + (int64_t)w.expert * p.n_rows : nullptr;
        const int column = w.tile * UNIT_ROWS + row;
        if (column < p.n_rows)
            slots[threadIdx.x] =
                product_end(p, bias, parts_sum(parts + i * ONE_PARTS, row), column);
    }
    input_sync();
    if (i >= n / n_used) return;
    const int column = one_item_at<true>(s, l, n_used, turn + i * n_used).tile * UNIT_ROWS + row;
    if (column >= p.n_rows) return;
    float y = 0.0f;
    for (int r = 0; r < n_used; r++)
        y = fmaf(l.weight[r], slots[(i * n_used + r) * UNIT_ROWS + row], y);
    args.stage.sum[column] = old + y;
}

// What the sums of the tiles from item `turn` on are added to.
DEV float old_load(const struct experts_args &args, const struct one_list &l, int turn, int n) {
    const struct stage_product &s = args.stage.product;
    const int i = (int)threadIdx.x / 16, n_used = args.stage.route.table.n_used;
    if (!args.stage.add || i >= n / n_used) return 0.0f;
    const int tile = one_item_at<true>(s, l, n_used, turn + i * n_used).tile;
    const int column = tile * UNIT_ROWS + (int)threadIdx.x % 16;
    return column < s.product[0].n_rows ? load_l2(args.stage.sum + column) : 0.0f;
}

// ---------------------------------------------------------------- a stage

template <bool IS_DOWN> DEV int one_turns(const struct stage_product &s, int n_used) {
    const int n = IS_DOWN ? s.n_tiles : s.n_tiles * n_used;
    const int turns = (n - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    return IS_DOWN ? turns * n_used : turns;
}

template <int CODEC, bool IS_DOWN> DEV void one_run(const struct experts_args &args) {
    SHARED_MEMORY(shared);
    const struct stage_product &s = args.stage.product;
    const struct route_table &t = args.stage.route.table;
    const int slice = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, n_used = t.n_used;
    [[maybe_unused]] float *norm = norm_sums_at(shared);
    float *parts = (float *)rings_end(args, shared);
    float *slots = parts + ONE_TURNS * ONE_PARTS;
    const struct one_list l = {(int *)(slots + ONE_TURNS * UNIT_ROWS),
                               slots + ONE_TURNS * UNIT_ROWS + EXPERTS_USED};
    uint8_t *x = (uint8_t *)(l.weight + EXPERTS_USED);
    if (slice == N_SLICES) {
        if (!IS_DOWN) dependency_wait();
        dependents_launch();
        one_choose_of<IS_DOWN>(args.stage.route, l, lane);
        if (!IS_DOWN && blockIdx.x == 0 && lane == 0)
            *args.step->touched += (uint64_t)(uint32_t)n_used * args.stage.route.expert_bytes;
        clock_end(args.clock);
        return;
    }
    const struct ring ring = ring_at(args, shared, slice);
    const int n_turns = one_turns<IS_DOWN>(s, n_used);
    struct expert_stream c = {nullptr, 0, 0, n_turns};
    if (lane < args.n_slots) fetch_init(ring.full + lane);
    fetch_init_done();
    __syncwarp();
    auto ask = [&](int slot) {
        return one_ask<CODEC, IS_DOWN>(c, ring, slot, s, l, n_used, slice, lane);
    };
    auto begin = [&] {
        barrier_sync(LIST_BARRIER, PRODUCT_THREADS);
        for (int i = 0; i < args.n_slots && ask(i);) i++;
    };
    if constexpr (IS_DOWN) {
        begin();
        if (args.is_staged) { // waits
            rows16_stage(s, n_used, x, [] {});
            input_sync();
        } else {
            dependency_wait();
        }
    } else if (args.is_staged) { // waits
        struct norm_weights weights;
        if (s.input == INPUT_RMS) norm_weights_load(weights, s.norm.weight, s.cols);
        input_stage<codec_is_bf16<CODEC>()>(s, weights, 1, x, norm, begin);
    } else {
        dependency_wait();
        begin();
    }
    const int first = slice_first(slice, s.n_units), end = slice_first(slice + 1, s.n_units);
    const int most = IS_DOWN ? ONE_TURNS / n_used * n_used : (int)ONE_TURNS;
    int slot = 0;
    uint32_t parity = 0;
#pragma unroll 1
    for (int turn = 0; turn < n_turns; turn += most) {
        const int n = n_turns - turn < most ? n_turns - turn : most;
        [[maybe_unused]] float old = 0.0f;
        if (IS_DOWN) old = old_load(args, l, turn, n);
        if (turn > 0) input_sync(); // the parts were read
#pragma unroll 1
        for (int i = 0; i < n; i++) {
            const struct expert_item w = one_item_at<IS_DOWN>(s, l, n_used, turn + i);
            const struct expert_input in = one_input_of<IS_DOWN>(args, w.active, x, lane);
            float acc[1][4] = {};
            expert_slice<CODEC>(acc, ring, slot, parity, in, args.is_staged != 0, first, end, lane,
                                ask);
            float *to = parts + i * ONE_PARTS + slice * UNIT_ROWS + lane / 4;
            if (lane % 4 == 0) to[0] = acc[0][0];
            if (lane % 4 == 0) to[8] = acc[0][2];
        }
        input_sync();
        if (IS_DOWN)
            downs_end(args, l, turn, n, parts, slots, old);
        else
            ups_end(s, l, turn, n, parts);
    }
    clock_end(args.clock);
}

#endif

// Matrix products. One arithmetic at every number of rows: a tile of 16 output rows meets 8 rows of
// the batch in mma.m16n8k16; a slice of the tile is a chain of them over ascending columns that
// starts at 0; the 8 slices are added in order. A column of the mma never depends on the others, so
// a row has the same bits alone and in any batch, whatever the grid.
//
// A block works on a tile, a warp of it on a slice. Each warp streams its weights through a ring of
// its own in shared memory. The first copies are asked for before the launch waits for the one
// before it: weights never change. So the memory is busy while launches follow each other. The
// other copies are asked for behind the input, which would stand behind them in the memory's queue.
// The sums of slices meet in shared memory, where a ninth warp adds and stores them. The others go
// on with the next tile meanwhile, and none of them waits for another.
//
// Stages of small units are bound by instructions. Where they are long, a tenth warp asks for all
// weights. Where they are very long, a block works on two tiles at a time, which share the loads of
// the input.
#ifndef RN_BACKEND_CUDA_PRODUCT_CUH
#define RN_BACKEND_CUDA_PRODUCT_CUH

#include "activation.cuh"
#include "clock.cuh"
#include "codec.cuh"
#include "input.cuh"
#include "step.h"

// The codec of a kernel that takes any: it asks each product. Only such a kernel has experts.
enum { CODEC_ANY = CODEC_COUNT };

DEV int slice_first(int slice, int n_units) { return slice * n_units / N_SLICES; }

// ---------------------------------------------------------------- the work of a block

// Tiles that follow each other, and the rows that they meet: all rows of the stage, or those of an
// expert. A step has at most 8 rows here, and a row has an expert once: they are the columns of one
// mma.
struct item {
    const struct product *p;
    int tile;                        // the first one
    int expert, first_pair, n_pairs; // of experts
};

// Item `index` of a stage: TILES tiles of one product after the other; of experts those of each
// active one.
template <int CODEC, int TILES>
DEV struct item item_at(const struct stage_product &s, int n_items, int index) {
    struct item w = {s.product, index, 0, 0, 0};
    if (CODEC == CODEC_ANY && s.is_routed) {
        const int active = index / n_items;
        w.tile -= active * n_items;
        w.expert = load_l2(s.route.active + active);
        w.first_pair = load_l2(s.route.first + w.expert);
        w.n_pairs = load_l2(s.route.first + w.expert + 1) - w.first_pair;
    }
    if (s.n_products > 1) {
        UNROLL for (int i = 0; i < MAX_PRODUCTS - 1; i++) {
            const int n = (w.p->n_tiles + TILES - 1) / TILES;
            if (i + 1 >= s.n_products || w.tile < n) break;
            w.tile -= n;
            w.p++;
        }
    }
    w.tile *= TILES;
    return w;
}

template <int CODEC> DEV int unit_bytes_of(const struct product &p) {
    return CODEC == CODEC_ANY ? p.unit_bytes : codec_unit_bytes<CODEC>();
}

template <int CODEC>
DEV const uint8_t *item_weight(const struct stage_product &s, const struct item &w, int unit) {
    const bool is_expert = CODEC == CODEC_ANY && s.is_routed;
    const uint8_t *weight = is_expert ? w.p->expert[w.expert] : w.p->weight;
    const uint32_t units = (uint32_t)w.tile * (uint32_t)s.n_units + (uint32_t)unit;
    return weight + (uint64_t)units * (uint32_t)unit_bytes_of<CODEC>(*w.p);
}

// ---------------------------------------------------------------- the stream of weights

// The copies of a slice: they go through the block's items in the order of the arithmetic. A slot
// is asked for again when it was read.
struct stream {
    const uint8_t *at; // the rest of the slice
    uint64_t step;     // of two tiles: bytes to the second one's
    int units;
    int unit_bytes;
    int item, n_items; // the next item
};

// Of a slice. A slot has SLOT_UNITS units of each tile. empty: where another warp asks.
struct ring {
    uint8_t *at;
    uint64_t *full, *empty;
    int n_slots, slot_bytes;
};

// A block's shared memory: barriers [full and empty, slice, slot], sums of norms, the rings.
template <class ARGS> DEV struct ring ring_at(const ARGS &args, uint8_t *shared, int slice) {
    uint64_t *full = (uint64_t *)shared + slice * RING_SLOTS_MAX;
    return {shared + PRODUCT_HEAD + slice * args.n_slots * args.slot_bytes, full,
            full + N_SLICES * RING_SLOTS_MAX, args.n_slots, args.slot_bytes};
}
DEV float *norm_sums_at(uint8_t *shared) {
    return (float *)((uint64_t *)shared + 2 * N_SLICES * RING_SLOTS_MAX);
}
template <class ARGS> DEV uint8_t *rings_end(const ARGS &args, uint8_t *shared) {
    return shared + PRODUCT_HEAD + N_SLICES * args.n_slots * args.slot_bytes;
}

// The next slice; false: there is none.
template <int CODEC, int TILES>
DEV bool slice_next(struct stream &c, const struct product_args &args, int slice) {
    const struct stage_product &s = args.stage;
    if (c.item >= c.n_items) return false;
    const struct item w = item_at<CODEC, TILES>(s, args.n_items, c.item);
    const int first = slice_first(slice, s.n_units);
    c.item += (int)gridDim.x;
    c.unit_bytes = unit_bytes_of<CODEC>(*w.p);
    c.units = slice_first(slice + 1, s.n_units) - first;
    c.at = item_weight<CODEC>(s, w, first);
    // the last tile of an odd number is taken twice
    if (TILES > 1)
        c.step = w.tile + 1 < w.p->n_tiles ? (uint64_t)s.n_units * (uint32_t)c.unit_bytes : 0;
    return c.units > 0;
}

// Asks for the next piece of a tile; false: there is none.
template <int CODEC>
DEV bool piece_ask(struct stream &c, const struct ring &ring, int slot,
                   const struct product_args &args, int slice, int lane) {
    if (c.units == 0 && !slice_next<CODEC, 1>(c, args, slice)) return false;
    const int unit = CODEC == CODEC_ANY ? c.unit_bytes : codec_unit_bytes<CODEC>();
    const int most = SLOT_UNITS(unit), n = c.units < most ? c.units : most;
    fetch<true>(ring.at + slot * ring.slot_bytes, c.at, (uint32_t)(n * unit), ring.full + slot,
                lane);
    c.at += n * unit;
    c.units -= n;
    return true;
}

// The tenth warp: asks for the weights of all slices; a lane has a slice.
enum { ASK_BARRIER = 13 }; // the rings' barriers are there
template <int CODEC, int TILES>
DEV void slices_ask(const struct product_args &args, uint8_t *shared, int lane) {
    constexpr int UNIT = codec_unit_bytes<CODEC>(), MOST = SLOT_UNITS(UNIT);
    const int slice = lane % N_SLICES;
    const struct ring ring = ring_at(args, shared, slice);
    struct stream c = {};
    c.item = (int)blockIdx.x;
    c.n_items = lane < N_SLICES ? args.n_items : 0;
    if (lane < N_SLICES)
        for (int i = 0; i < ring.n_slots; i++) {
            fetch_init(ring.full + i);
            meet_init(ring.empty + i, 1);
        }
    fetch_init_done();
    __syncwarp();
    barrier_arrive(ASK_BARRIER, PRODUCT_THREADS);
    int slot = 0, n_asked = 0;
    uint32_t parity = 1;
    // all slices of an item, then the next item: slices may have unequal numbers of pieces
#pragma unroll 1
    while (__any_sync(0xffffffffu, slice_next<CODEC, TILES>(c, args, slice))) {
#pragma unroll 1
        do {
            if (n_asked++ == args.n_early) dependency_wait();
            const int n = c.units < MOST ? c.units : MOST;
            if (n > 0) fetch_wait(ring.empty + slot, parity);
            fetch_each<TILES>(ring.at + slot * ring.slot_bytes, MOST * UNIT, c.at, c.step,
                              (uint32_t)(n * UNIT), ring.full + slot, lane);
            c.at += n * UNIT;
            c.units -= n;
            if (n > 0 && ++slot == ring.n_slots) slot = 0, parity ^= 1;
        } while (__any_sync(0xffffffffu, c.units > 0));
    }
}

// ---------------------------------------------------------------- a slice

// Where the input rows of an item are, for this lane.
struct item_input {
    uint32_t shared;     // staged: the lane's first 16 bytes
    uint32_t step;       // staged: bytes from unit to unit
    const uint16_t *row; // the row of the lane's column, at its elements
};

template <int CODEC> DEV void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if constexpr (codec_is_bf16<CODEC>())
        mma_bf16(c, a, b0, b1);
    else
        mma_f16(c, a, b0, b1);
}

// The input of unit `unit` of the tile.
template <bool IS_STAGED> DEV uint4 input_load(const struct item_input &in, int unit) {
    return IS_STAGED ? shared_u128(in.shared + (uint32_t)unit * in.step)
                     : *(const uint4 *)(in.row + unit * UNIT_COLS);
}

// Unit `u` of a slot, of all tiles.
template <int CODEC, int TILES>
DEV void unit_multiply(float (&acc)[TILES][4], uint32_t slot, int u, const uint4 &b, int lane) {
    constexpr int UNIT = codec_unit_bytes<CODEC>(), TILE = SLOT_UNITS(UNIT) * UNIT;
    uint32_t a[TILES][2][4];
    UNROLL for (int i = 0; i < TILES; i++)
        codec_fragments<CODEC>(shared_unit{slot + (uint32_t)(i * TILE + u * UNIT)}, lane, a[i]);
    UNROLL for (int i = 0; i < TILES; i++) mma<CODEC>(acc[i], a[i][0], b.x, b.y);
    UNROLL for (int i = 0; i < TILES; i++) mma<CODEC>(acc[i], a[i][1], b.z, b.w);
}

// Where a warp reads its ring.
struct ring_place {
    int slot;
    uint32_t parity;
};

// The warp's slice of an item, from 0, units in order. KERNEL: CODEC, or CODEC_ANY. Where the input
// is in memory, its part for a slot is asked for while the slot before is multiplied. read(slot):
// the slot was read.
template <int KERNEL, int CODEC, bool IS_STAGED, int TILES, class READ>
DEV void slice_multiply(float (&acc)[TILES][4], const struct ring &ring, struct ring_place &place,
                        const struct item_input &in, int n_units, int slice, int lane,
                        const READ &read) {
    constexpr int MOST = SLOT_UNITS(codec_unit_bytes<CODEC>()); // one piece of code: loads overlap
    constexpr bool IS_AHEAD = !IS_STAGED && KERNEL != CODEC_ANY;
    const int first = slice_first(slice, n_units), end = slice_first(slice + 1, n_units);
    uint4 ahead[IS_AHEAD ? MOST : 1];
    if (IS_AHEAD)
        UNROLL for (int i = 0; i < MOST; i++) if (first + i < end) ahead[i] =
            input_load<false>(in, first + i);
#pragma unroll 1
    for (int unit = first; unit < end; unit += MOST) {
        const uint32_t at = shared_address(ring.at) + (uint32_t)(place.slot * ring.slot_bytes);
        fetch_wait(ring.full + place.slot, place.parity);
        if (unit + MOST <= end) {
            uint4 b[MOST];
            UNROLL for (int i = 0; i < MOST; i++) {
                if (!IS_AHEAD) {
                    b[i] = input_load<IS_STAGED>(in, unit + i);
                    continue;
                }
                b[i] = ahead[i];
                const int next = unit + MOST + i;
                if (next < end) ahead[i] = input_load<false>(in, next);
            }
            UNROLL for (int i = 0; i < MOST; i++)
                unit_multiply<CODEC, TILES>(acc, at, i, b[i], lane);
        } else {
#pragma unroll 1
            for (int i = 0; unit + i < end; i++)
                unit_multiply<CODEC, TILES>(acc, at, i, input_load<IS_STAGED>(in, unit + i), lane);
        }
        read(place.slot);
        if (++place.slot == ring.n_slots) {
            place.slot = 0;
            place.parity ^= 1;
        }
    }
}

// CODEC_ANY: the codec of the item's product.
template <int CODEC, bool IS_STAGED, int TILES, class READ>
DEV void slice_of(int codec, float (&acc)[TILES][4], const struct ring &ring,
                  struct ring_place &place, const struct item_input &in, int n_units, int slice,
                  int lane, const READ &read) {
    if constexpr (CODEC != CODEC_ANY) {
        slice_multiply<CODEC, CODEC, IS_STAGED>(acc, ring, place, in, n_units, slice, lane, read);
    } else {
        switch (codec) {
#define X(id, unit_bytes, is_bf16)                                                                 \
    case CODEC_##id:                                                                               \
        slice_multiply<CODEC_ANY, CODEC_##id, IS_STAGED>(acc, ring, place, in, n_units, slice,     \
                                                         lane, read);                              \
        break;
            CODEC_LIST(X)
#undef X
        }
    }
}

// ---------------------------------------------------------------- the end of a tile

struct item_out {
    const struct stage_product *stage;
    struct item at;
    int n_rows; // of the stage
};

// The row of the output for a column of the item; -1: none.
template <int CODEC> DEV int out_row_of(const struct item_out &o, int column) {
    if (CODEC != CODEC_ANY || !o.stage->is_routed) return column < o.n_rows ? column : -1;
    return column < o.at.n_pairs ? load_l2(o.stage->route.pair + o.at.first_pair + column) : -1;
}

DEV float product_end(const struct product &p, const float *bias, float y, int row) {
    if (p.scale != 1.0f) y = y * p.scale;
    if (bias) y = y + bias[row];
    if (p.softcap > 0.0f) y = rmath_capped(y, p.softcap);
    return y;
}

// What the outputs of a lane are added to, asked for before the arithmetic: tile rows g and g + 8
// of two batch rows.
template <int CODEC> DEV float4 residual_load(const struct item_out &o, int lane) {
    const struct product &p = *o.at.p;
    const int row = o.at.tile * UNIT_ROWS + (lane >> 2), column = 2 * (lane & 3);
    const int first = out_row_of<CODEC>(o, column), second = out_row_of<CODEC>(o, column + 1);
    const float *a = p.out + (int64_t)first * p.ld + row, *b = p.out + (int64_t)second * p.ld + row;
    float4 r = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (first >= 0 && row < p.n_rows) r.x = load_l2(a);
    if (second >= 0 && row < p.n_rows) r.y = load_l2(b);
    if (first >= 0 && row + 8 < p.n_rows) r.z = load_l2(a + 8);
    if (second >= 0 && row + 8 < p.n_rows) r.w = load_l2(b + 8);
    return r;
}

// Two outputs of one batch row: tile rows g and g + 8; r0 and r1 are what they are added to.
template <int CODEC>
DEV void tile_store(const struct item_out &o, int out_row, float y0, float y1, float r0, float r1,
                    int g) {
    const struct product &p = *o.at.p;
    const float *bias = p.bias;
    if (out_row < 0) return;
    if (CODEC == CODEC_ANY && bias && o.stage->is_routed)
        bias += (int64_t)o.at.expert * p.n_rows * (p.gate ? 2 : 1);
    if (p.gate) {
        const int row = o.at.tile * 8 + g;
        if (row >= p.n_rows) return;
        // the biases of gates come first, then those of the factors
        y0 = product_end(p, bias, y0, row);
        y1 = product_end(p, bias ? bias + p.n_rows : bias, y1, row);
        const float y = gate_of(p.gate - 1, y0, y1, true);
        rows16_put(p.out16, out_row, row, y);
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

// The sum of the slices, in order.
DEV float4 slices_sum(const float4 *sums, int lane) {
    float4 y = sums[lane];
    UNROLL for (int s = 1; s < N_SLICES; s++) {
        const float4 part = sums[s * 32 + lane];
        y.x = y.x + part.x;
        y.y = y.y + part.y;
        y.z = y.z + part.z;
        y.w = y.w + part.w;
    }
    return y;
}

// Adds the slices and stores the tile. One warp.
template <int CODEC>
DEV void tile_finish(const struct item_out &o, const float4 &r, const float4 *sums, int lane) {
    const float4 y = slices_sum(sums, lane);
#pragma unroll 1
    for (int c = 0; c < 2; c++)
        tile_store<CODEC>(o, out_row_of<CODEC>(o, 2 * (lane & 3) + c), c ? y.y : y.x, c ? y.w : y.z,
                          c ? r.y : r.x, c ? r.w : r.z, lane >> 2);
}

// ---------------------------------------------------------------- a stage

template <int CODEC>
DEV struct item_input item_input_of(const struct stage_product &s, const struct item &at,
                                    const uint8_t *x, bool is_staged, int n_rows, int lane) {
    struct item_input in = {};
    const int g = lane >> 2, t = lane & 3;
    if (is_staged) {
        in.step = (uint32_t)n_rows * 64;
        in.shared =
            shared_address(x) + (uint32_t)(g < n_rows ? g : n_rows - 1) * 64 + (uint32_t)t * 16;
        return in;
    }
    int row = g;
    if (CODEC == CODEC_ANY && s.is_routed) {
        row = row < at.n_pairs ? row : at.n_pairs - 1;
        row = load_l2(s.route.pair + at.first_pair + row);
        if (!s.slots_in) row /= s.route.n_used;
    } else if (row >= n_rows) {
        row = n_rows - 1;
    }
    in.row = s.x16.at + (int64_t)row * s.x16.ld + 8 * t;
    return in;
}

// Sums of items in shared memory: [N_SUMS, tiles, N_SLICES, 32 lanes]. A barrier for each place
// says that it is full, another that it is empty.
enum { N_SUMS = 2, SUMS_SIZE = N_SLICES * 32, SUMS_FULL = 1, SUMS_EMPTY = SUMS_FULL + N_SUMS };

// The block's items, a slice of each. A warp of the first eight.
template <int CODEC, bool IS_STAGED, int TILES, class READ>
DEV void slices_run(const struct product_args &args, const struct ring &ring, int n_items,
                    float4 *sums, const uint8_t *x, int slice, int lane, const READ &read) {
    const struct stage_product &s = args.stage;
    struct ring_place ring_place = {};
    int turn = 0;
#pragma unroll 1
    for (int index = (int)blockIdx.x; index < n_items; index += (int)gridDim.x, turn++) {
        const struct item at = item_at<CODEC, TILES>(s, args.n_items, index);
        const struct item_input in = item_input_of<CODEC>(s, at, x, IS_STAGED, args.n_rows, lane);
        float acc[TILES][4] = {};
        slice_of<CODEC, IS_STAGED>(at.p->codec, acc, ring, ring_place, in, s.n_units, slice, lane,
                                   read);
        const int place = turn % N_SUMS;
        if (turn >= N_SUMS) barrier_sync(SUMS_EMPTY + place, PRODUCT_THREADS);
        UNROLL for (int i = 0; i < TILES; i++)
            sums[(place * TILES + i) * SUMS_SIZE + slice * 32 + lane] =
                make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
        barrier_arrive(SUMS_FULL + place, PRODUCT_THREADS);
    }
}

// The ends of the block's items. The ninth warp.
template <int CODEC, int TILES>
DEV void tiles_end(const struct product_args &args, int n_items, const float4 *sums, int lane) {
    const struct stage_product &s = args.stage;
    const int n_turns = (n_items - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    int turn = 0;
#pragma unroll 1
    for (int index = (int)blockIdx.x; index < n_items; index += (int)gridDim.x, turn++) {
        struct item_out o = {&s, item_at<CODEC, TILES>(s, args.n_items, index), args.n_rows};
        const int place = turn % N_SUMS, first = o.at.tile;
        float4 residual[TILES] = {};
        UNROLL for (int i = 0; i < TILES; i++) {
            o.at.tile = first + i;
            if (o.at.p->add) residual[i] = residual_load<CODEC>(o, lane);
        }
        barrier_sync(SUMS_FULL + place, PRODUCT_THREADS);
        UNROLL for (int i = 0; i < TILES; i++) {
            o.at.tile = first + i;
            if (o.at.tile < o.at.p->n_tiles)
                tile_finish<CODEC>(o, residual[i], sums + (place * TILES + i) * SUMS_SIZE, lane);
        }
        __syncwarp();
        if (turn + N_SUMS < n_turns) barrier_arrive(SUMS_EMPTY + place, PRODUCT_THREADS);
    }
}

// A warp of the first eight: its own weights, then the input, then its slices.
template <int CODEC, bool IS_STAGED>
DEV void tiles_run(const struct product_args &args, uint8_t *shared, int n_items, float4 *sums,
                   uint8_t *x, int slice, int lane) {
    const struct stage_product &s = args.stage;
    const struct ring ring = ring_at(args, shared, slice);
    const bool is_routed = CODEC == CODEC_ANY && s.is_routed;
    struct stream c = {};
    c.item = (int)blockIdx.x;
    c.n_items = n_items;
    struct norm_weights weights;
    if (IS_STAGED && s.input == INPUT_RMS) norm_weights_load(weights, s.norm.weight, s.cols);
    if (lane < args.n_slots) fetch_init(ring.full + lane);
    fetch_init_done();
    __syncwarp();
    int i = 0;
    auto ask = [&](int end) {
        for (; i < end; i++)
            if (!piece_ask<CODEC>(c, ring, i, args, slice, lane)) break;
    };
    ask(args.n_early);
    if (!is_routed) dependents_launch();
    if (IS_STAGED) // waits
        input_stage<codec_is_bf16<CODEC>()>(s, weights, args.n_rows, x, norm_sums_at(shared),
                                            [&] { ask(args.n_slots); });
    else if (!is_routed)
        dependency_wait();
    slices_run<CODEC, IS_STAGED, 1>(args, ring, n_items, sums, x, slice, lane, [&](int slot) {
        __syncwarp();
        piece_ask<CODEC>(c, ring, slot, args, slice, lane);
    });
}

// The same, where a tenth warp asks.
template <int CODEC, int TILES>
DEV void asked_run(const struct product_args &args, uint8_t *shared, float4 *sums, uint8_t *x,
                   int slice, int lane) {
    const struct stage_product &s = args.stage;
    const struct ring ring = ring_at(args, shared, slice);
    struct norm_weights weights;
    if (s.input == INPUT_RMS) norm_weights_load(weights, s.norm.weight, s.cols);
    dependents_launch();
    input_stage<codec_is_bf16<CODEC>()>(s, weights, args.n_rows, x, norm_sums_at(shared), [] {});
    barrier_sync(ASK_BARRIER, PRODUCT_THREADS);
    slices_run<CODEC, true, TILES>(args, ring, args.n_items, sums, x, slice, lane,
                                   [&](int slot) { meet_arrive(ring.empty + slot, lane); });
}

// FORM: enum product_form.
template <int CODEC, int FORM> DEV void product_run(const struct product_args &args) {
    constexpr int TILES = FORM == PRODUCT_PAIRS ? 2 : 1;
    SHARED_MEMORY(shared);
    const struct stage_product &s = args.stage;
    const int slice = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    float4 *sums = (float4 *)rings_end(args, shared);
    uint8_t *x = (uint8_t *)(sums + N_SUMS * TILES * SUMS_SIZE);
    const bool is_routed = CODEC == CODEC_ANY && s.is_routed;
    int n_items = args.n_items;
    if (is_routed) { // the experts are known behind the wait
        dependents_launch();
        dependency_wait();
        n_items *= load_l2(s.route.n_active);
    }
    if (slice == N_SLICES) {
        if (!is_routed) dependents_launch();
        dependency_wait();
        tiles_end<CODEC, TILES>(args, n_items, sums, lane);
    } else if constexpr (FORM == PRODUCT_READ || FORM == PRODUCT_STAGED) {
        tiles_run<CODEC, FORM == PRODUCT_STAGED>(args, shared, n_items, sums, x, slice, lane);
    } else if (slice < N_SLICES) {
        asked_run<CODEC, TILES>(args, shared, sums, x, slice, lane);
    } else {
        dependents_launch();
        slices_ask<CODEC, TILES>(args, shared, lane);
    }
    clock_end(args.clock);
}

#endif

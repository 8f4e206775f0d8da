// Matrix products of larger steps. The arithmetic is that of product.cuh, so a row has the bits
// that it has alone: matrix instructions of a warpgroup give the bits of chains of mma.m16n8k16.
//
// A block has 8 tiles of 16 output rows, one for each warp of two warpgroups, and FORM::COLUMNS
// rows of the batch, the columns of the instructions. Four warps more ask for weights and input, a
// stage of the ring each in turn: one warp takes longer for the copies of a stage than the others
// for its products. Weights go from shared memory through registers, where they become 16-bit
// numbers, into the instructions. The input is read from shared memory, in the order of struct
// rows16. A warpgroup has two groups of instructions on their way, with registers of their own, so
// the next weights are decoded meanwhile.
//
// The sums of slices are added in order, in registers. Where the last items would leave blocks
// idle, their slices are cut into parts. A part's sums go to memory, and the part that is last
// there adds all of them, in order.
#ifndef RN_BACKEND_CUDA_PRODUCT_MANY_CUH
#define RN_BACKEND_CUDA_PRODUCT_MANY_CUH

#include "product.cuh"

constexpr int codec_bytes(int codec) {
#define X(id, unit_bytes, is_bf16)                                                                 \
    if (codec == CODEC_##id) return unit_bytes;
    CODEC_LIST(X)
#undef X
    return 0;
}

template <int CODEC_, int COLUMNS_> struct many_form {
    static constexpr int CODEC = CODEC_, COLUMNS = COLUMNS_;
    static constexpr int UNIT_BYTES = codec_bytes(CODEC_);
    static constexpr int UNITS = MANY_UNITS(COLUMNS, UNIT_BYTES);
    static constexpr int WEIGHT_BYTES = MANY_TILES * UNITS * UNIT_BYTES;
    static constexpr int STAGE_BYTES = WEIGHT_BYTES + UNITS * COLUMNS * 64;
    static constexpr int N = COLUMNS / 2; // sums of a thread
    static_assert(UNITS % 2 == 0, "units take turns in the registers");
    static_assert(MANY_TILES + UNITS <= 32, "a lane has a copy of a stage");
};

// ---------------------------------------------------------------- the work of a block

struct many_item {
    int tile;           // the first one, of all products together
    int part;           // of the slices
    int parts_log;      // a part has 8 >> parts_log of them
    int row, n;         // the first row of the input, and how many are wanted
    int sums;           // the place of its sums, where there are parts
    int expert, column; // routed: the expert, and the first of its rows
};

// Tiles of columns that the experts before `active` have, and those of the expert itself. A warp.
DEV int expert_tiles(const struct stage_product &s, int columns, int active) {
    const int e = load_l2(s.route.active + active);
    const int n = load_l2(s.route.first + e + 1) - load_l2(s.route.first + e);
    return (n + columns - 1) / columns;
}

// All tiles of columns. A warp.
DEV int column_tiles(const struct stage_product &s, int n_rows, int columns, int lane) {
    if (!s.is_routed) return (n_rows + columns - 1) / columns;
    const int n_active = load_l2(s.route.n_active);
    int sum = 0;
    for (int i = lane; i < n_active; i += 32) sum += expert_tiles(s, columns, i);
    UNROLL for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    return sum;
}

// The expert that has a tile of columns, and its first one. A warp.
DEV int expert_of(const struct stage_product &s, int columns, int tile, int *first, int lane) {
    const int n_active = load_l2(s.route.n_active);
    int before = 0;
    for (int i0 = 0; i0 < n_active; i0 += 32) {
        const int i = i0 + lane;
        int end = i < n_active ? expert_tiles(s, columns, i) : 0;
        const int own = end;
        UNROLL for (int o = 1; o < 32; o *= 2) {
            const int other = __shfl_up_sync(0xffffffffu, end, (unsigned)o);
            if (lane >= o) end += other;
        }
        const uint32_t behind = __ballot_sync(0xffffffffu, before + end > tile);
        if (behind) {
            const int at = __ffs((int)behind) - 1;
            *first = before + __shfl_sync(0xffffffffu, end - own, at);
            return load_l2(s.route.active + i0 + at);
        }
        before += __shfl_sync(0xffffffffu, end, 31);
    }
    *first = 0;
    return 0;
}

DEV int items_of(const struct many_args &args, int n_columns) {
    const int n = (args.stage.n_tiles + MANY_TILES - 1) / MANY_TILES * n_columns;
    return args.n_whole >= n ? n : args.n_whole + ((n - args.n_whole) << args.parts_log);
}

// Items with the same weights follow each other, and so do the parts of one. A warp.
template <class FORM>
DEV struct many_item many_item_at(const struct many_args &args, int index, int n_columns,
                                  int lane) {
    const struct stage_product &s = args.stage;
    struct many_item w = {};
    if (s.is_routed) {
        const int n_blocks = (s.n_tiles + MANY_TILES - 1) / MANY_TILES;
        const int column = index / n_blocks;
        int first;
        w.expert = expert_of(s, FORM::COLUMNS, column, &first, lane);
        w.tile = index % n_blocks * MANY_TILES;
        w.column = (column - first) * FORM::COLUMNS;
        const int begin = load_l2(s.route.first + w.expert);
        w.n = load_l2(s.route.first + w.expert + 1) - begin - w.column;
        w.row = load_l2(s.route.first_padded + w.expert) + w.column;
        w.column += begin;
    } else {
        if (index >= args.n_whole) {
            const int rest = index - args.n_whole;
            w.parts_log = args.parts_log;
            w.part = rest & ((1 << w.parts_log) - 1);
            w.sums = rest >> w.parts_log;
            index = args.n_whole + w.sums;
        }
        w.tile = index / n_columns * MANY_TILES;
        w.row = index % n_columns * FORM::COLUMNS;
        w.n = args.n_rows - w.row;
    }
    if (w.n > FORM::COLUMNS) w.n = FORM::COLUMNS;
    return w;
}

// A tile of the stage: its product, and its number there. A tile behind the last is the last one.
struct many_tile {
    const struct product *p;
    int tile;
    bool is_there;
};
DEV struct many_tile many_tile_at(const struct stage_product &s, int tile) {
    struct many_tile w = {s.product, tile, tile < s.n_tiles};
    if (!w.is_there) w.tile = s.n_tiles - 1;
    UNROLL for (int i = 0; i < MAX_PRODUCTS - 1; i++) {
        if (i + 1 >= s.n_products || w.tile < w.p->n_tiles) break;
        w.tile -= w.p->n_tiles;
        w.p++;
    }
    return w;
}

// ---------------------------------------------------------------- copies

enum { MANY_ASKS = 4 };

struct many_ring {
    uint64_t *full; // [n_stages] weights are there, input is there
    uint64_t *read; // [n_stages] all warps have read the stage
    uint8_t *at;    // [n_stages] weights [TILES][UNITS], input [UNITS][COLUMNS]
    int n_stages;
};

struct many_place {
    int stage;
    uint32_t parity;
};
DEV void place_next(struct many_place &p, int n_stages) {
    if (++p.stage < n_stages) return;
    p.stage = 0;
    p.parity ^= 1;
}

// What a lane copies of each stage of an item: a tile's weights, or a unit's input.
struct many_source {
    const uint8_t *at; // of unit 0
    uint32_t to;       // in a stage
    uint32_t step;     // from unit to unit
    uint32_t bytes;    // weights: of a unit; input: of the lane's unit
    int unit;          // input: the lane's unit of a stage; weights: -1; none: UNITS
};

template <class FORM>
DEV struct many_source source_of(const struct many_args &args, const struct many_item &w,
                                 int lane) {
    const struct stage_product &s = args.stage;
    struct many_source from = {};
    from.unit = lane < MANY_TILES ? -1 : lane - MANY_TILES;
    if (lane < MANY_TILES) {
        const struct many_tile t = many_tile_at(s, w.tile + lane);
        from.at = (s.is_routed ? t.p->expert[w.expert] : t.p->weight) +
                  (uint64_t)((uint32_t)t.tile * (uint32_t)s.n_units) * FORM::UNIT_BYTES;
        from.to = (uint32_t)(lane * FORM::UNITS * FORM::UNIT_BYTES);
        from.step = from.bytes = FORM::UNIT_BYTES;
    } else if (from.unit < FORM::UNITS) {
        from.step = (uint32_t)s.x16.n_groups * GROUP_BYTES;
        from.at = (const uint8_t *)s.x16.at + (int64_t)(w.row / 8) * GROUP_BYTES +
                  (uint64_t)(uint32_t)from.unit * from.step;
        from.to = (uint32_t)(FORM::WEIGHT_BYTES + from.unit * (FORM::COLUMNS * 64));
        from.bytes = (uint32_t)((w.n + 7) / 8 * GROUP_BYTES);
    }
    return from;
}

// Units [unit, unit + n) of the item into a stage.
template <class FORM>
DEV void weights_ask(const struct many_ring &ring, int stage, const struct many_source &from,
                     int unit, int n, bool is_once, int lane) {
    uint8_t *to = ring.at + stage * FORM::STAGE_BYTES + from.to;
    const uint8_t *at = from.at + (uint64_t)(uint32_t)unit * from.step;
    const uint32_t bytes = from.unit < 0 ? (uint32_t)n * from.bytes : 0;
    if (is_once)
        fetch_all<true>(to, at, bytes, ring.full + 2 * stage, lane);
    else
        fetch_all<false>(to, at, bytes, ring.full + 2 * stage, lane);
}
template <class FORM>
DEV void input_ask(const struct many_ring &ring, int stage, const struct many_source &from,
                   int unit, int n, int lane) {
    fetch_all(ring.at + stage * FORM::STAGE_BYTES + from.to,
              from.at + (uint64_t)(uint32_t)unit * from.step,
              from.unit >= 0 && from.unit < n ? from.bytes : 0, ring.full + 2 * stage + 1, lane);
}

// The slices of an item.
DEV int part_first(const struct many_item &w) { return w.part << (3 - w.parts_log); }
DEV int part_end(const struct many_item &w) { return (w.part + 1) << (3 - w.parts_log); }

// The stages of an item, in order: DO(index, unit, units).
template <class FORM, class DO>
DEV void stages_each(const struct many_args &args, const struct many_item &w, const DO &step) {
    const int n_units = args.stage.n_units, end = part_end(w);
    int n = 0;
#pragma unroll 1
    for (int slice = part_first(w); slice < end; slice++) {
        const int last = slice_first(slice + 1, n_units);
#pragma unroll 1
        for (int unit = slice_first(slice, n_units); unit < last; unit += FORM::UNITS, n++)
            step(n, unit, last - unit < FORM::UNITS ? last - unit : FORM::UNITS);
    }
}

// One of the four warps that ask: it has every fourth stage. The weights of the first stages are
// asked for before the launch waits.
template <class FORM>
DEV void many_ask(const struct many_args &args, const struct many_ring &ring, int ask, int lane) {
    const struct stage_product &s = args.stage;
    if (s.is_routed) dependency_wait();
    const int n_columns = column_tiles(s, args.n_rows, FORM::COLUMNS, lane);
    const int n_items = items_of(args, n_columns);
    const bool is_once = n_columns == 1;
    // a warp's stage before is at most a ring behind, so a parity tells the uses of a stage apart
    const int n_asks = ring.n_stages < MANY_ASKS ? ring.n_stages : MANY_ASKS;
    struct many_place p = {0, 0};
    int n_asked = 0, turn = 0;
    bool is_first = !s.is_routed;
#pragma unroll 1
    for (int index = (int)blockIdx.x; index < n_items; index += (int)gridDim.x) {
        const struct many_item w = many_item_at<FORM>(args, index, n_columns, lane);
        const struct many_source from = source_of<FORM>(args, w, lane);
        if (is_first) {
            stages_each<FORM>(args, w, [&](int i, int unit, int n) {
                if (i < ring.n_stages && i % n_asks == ask)
                    weights_ask<FORM>(ring, i, from, unit, n, is_once, lane);
            });
            dependency_wait();
        }
        stages_each<FORM>(args, w, [&](int i, int unit, int n) {
            if (turn == ask) {
                if (n_asked >= ring.n_stages) fetch_wait(ring.read + p.stage, p.parity ^ 1);
                if (!is_first || i >= ring.n_stages)
                    weights_ask<FORM>(ring, p.stage, from, unit, n, is_once, lane);
                input_ask<FORM>(ring, p.stage, from, unit, n, lane);
            }
            n_asked++;
            if (++turn == n_asks) turn = 0;
            place_next(p, ring.n_stages);
        });
        is_first = false;
    }
    if (is_first) dependency_wait();
}

// ---------------------------------------------------------------- the end of an item

DEV float4 float4_add(const float4 &a, const float4 &b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Where a tile goes, for a lane. It is made once: each field of a product is far away. There are no
// calls here: the sums would go to memory, and the first-level cache is small beside so much shared
// memory.
struct many_out {
    const int32_t *pair; // routed: the rows of f32 outputs; NULL: row + column
    int row, n;          // of the item
    float *out;          // at the lane's rows
    const float *bias;   // at the tile's rows; NULL: none
    struct rows16 out16; // of gates
    int64_t ld;
    int first, n_rows; // the lane's first row, and all that are stored
    int tile_first;    // the tile's
    int gate, adds;
    float scale, softcap;
};

DEV struct many_out many_out_of(const struct stage_product &s, const struct many_item &w,
                                const struct many_tile &t, int lane) {
    const struct product &p = *t.p;
    struct many_out o;
    o.pair = s.is_routed && !p.gate ? s.route.pair + w.column : nullptr;
    o.row = w.row, o.n = w.n;
    o.tile_first = t.tile * (p.gate ? 8 : UNIT_ROWS);
    o.first = o.tile_first + lane % 4 * (p.gate ? 2 : 4);
    o.n_rows = p.n_rows, o.gate = p.gate, o.adds = p.add, o.scale = p.scale;
    o.softcap = p.softcap, o.out16 = p.out16, o.ld = p.ld;
    o.out = p.out + o.first;
    o.bias = p.bias;
    if (o.bias) {
        if (s.is_routed) o.bias += (int64_t)w.expert * p.n_rows * (p.gate ? 2 : 1);
        o.bias += o.tile_first;
    }
    return o;
}

// The ends of a tile go through shared memory, some columns at a time: [columns][16 rows, padded].
enum { END_COLUMNS = 32, END_LD = 20, END_BYTES = END_COLUMNS * END_LD * 4 };
static_assert(MANY_ENDS == N_WARPS * END_BYTES, "each warp has its place");

// Scale, bias and soft cap, in place. Of gates rows 8 to 15 are the factors.
DEV void ends_finish(const struct many_out &o, float *ends, int lane) {
    if (o.scale == 1.0f && !o.bias && !(o.softcap > 0.0f)) return;
    const int row = lane % 16, at = o.gate ? row % 8 : row;
    float bias = 0.0f;
    if (o.bias && o.tile_first + at < o.n_rows)
        bias = o.bias[o.gate && row >= 8 ? o.n_rows + at : at];
#pragma unroll 1
    for (int column = lane / 16; column < END_COLUMNS; column += 2) {
        float *x = ends + column * END_LD + row, y = *x;
        if (o.scale != 1.0f) y = y * o.scale;
        if (o.bias) y = y + bias;
        if (o.softcap > 0.0f) y = rmath_capped(y, o.softcap);
        *x = y;
    }
    __syncwarp();
}

// Tile rows g and g + 8 are a gate and its factor. A lane has two neighbours of a column.
DEV void gates_store(const struct many_out &o, const float *ends, int first, int lane) {
    uint16_t *out = o.out16.at + rows16_at(o.out16, o.row + first + lane / 4, o.first);
#pragma unroll 1
    for (int column = lane / 4; column < END_COLUMNS; column += 8, out += 256) {
        if (first + column >= o.n) break;
        const float *x = ends + column * END_LD + lane % 4 * 2;
        const float2 a = *(const float2 *)x, b = *(const float2 *)(x + 8);
        const uint32_t pair = pair_of(gate_value(o.gate - 1, a.x, b.x, true),
                                      gate_value(o.gate - 1, a.y, b.y, true), o.out16.is_bf16);
        if (o.first + 1 < o.n_rows)
            *(uint32_t *)out = pair;
        else if (o.first < o.n_rows)
            *out = (uint16_t)pair;
    }
}

// A lane has four rows of a column.
DEV void quads_store(const struct many_out &o, const float *ends, int first, int lane) {
    constexpr int N = END_COLUMNS / 8;
    float *at[N];
    float4 r[N];
    UNROLL for (int i = 0; i < N; i++) {
        const int column = first + lane / 4 + 8 * i;
        int to = o.row + column;
        if (o.pair && column < o.n) to = load_l2(o.pair + column);
        at[i] = column < o.n ? o.out + to * o.ld : nullptr;
        r[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (o.adds && at[i] && o.first < o.n_rows) r[i] = load_l2((const float4 *)at[i]);
    }
    UNROLL for (int i = 0; i < N; i++) {
        float4 y = *(const float4 *)(ends + (lane / 4 + 8 * i) * END_LD + lane % 4 * 4);
        if (o.adds) y = float4_add(r[i], y);
        if (!at[i]) continue;
        if (o.first + 3 < o.n_rows) {
            *(float4 *)at[i] = y;
            continue;
        }
        if (o.first < o.n_rows) at[i][0] = y.x;
        if (o.first + 1 < o.n_rows) at[i][1] = y.y;
        if (o.first + 2 < o.n_rows) at[i][2] = y.z;
    }
}

// The warp's tile.
template <int N>
DEV void tile_end(const struct stage_product &s, const struct many_item &w, const float (&y)[N],
                  float *ends, int warp, int lane) {
    const struct many_tile t = many_tile_at(s, w.tile + warp);
    if (!t.is_there) return;
    const struct many_out o = many_out_of(s, w, t, lane);
    UNROLL for (int first = 0; first < N / 4; first += END_COLUMNS / 8) {
        if (8 * first >= w.n) break;
        UNROLL for (int i = 0; i < END_COLUMNS / 8; i++) UNROLL for (int e = 0; e < 4; e++) {
            const int column = 8 * i + 2 * (lane % 4) + e % 2;
            ends[column * END_LD + lane / 4 + e / 2 * 8] = y[4 * (first + i) + e];
        }
        __syncwarp();
        ends_finish(o, ends, lane);
        if (o.gate)
            gates_store(o, ends, 8 * first, lane);
        else
            quads_store(o, ends, 8 * first, lane);
        __syncwarp();
    }
}

// A thread's sums of a slice in memory: [8 slices][N / 4] of 256 threads.
template <class FORM>
DEV float4 *sums_at(const struct many_args &args, const struct many_item &w, int slice) {
    const int64_t place = ((int64_t)w.sums * N_SLICES + slice) * (FORM::N / 4);
    return (float4 *)args.sums + place * BLOCK_THREADS + threadIdx.x;
}
template <class FORM>
DEV void sums_put(const struct many_args &args, const struct many_item &w, int slice,
                  const float (&y)[FORM::N]) {
    float4 *out = sums_at<FORM>(args, w, slice);
    UNROLL for (int i = 0; i < FORM::N / 4; i++) if (8 * i < w.n) out[i * BLOCK_THREADS] =
        make_float4(y[4 * i], y[4 * i + 1], y[4 * i + 2], y[4 * i + 3]);
}
DEV void quad_of(float *y, const float4 &v) { y[0] = v.x, y[1] = v.y, y[2] = v.z, y[3] = v.w; }
DEV float4 quad_at(const float *y) { return make_float4(y[0], y[1], y[2], y[3]); }

// The total of all parts: that of the first part, then the other slices in order. Many sums are
// asked for together: those of a slice, or those of few columns of all slices.
template <class FORM>
DEV void sums_get(const struct many_args &args, const struct many_item &w, float (&y)[FORM::N]) {
    const int from = N_SLICES >> w.parts_log;
    if constexpr (FORM::N / 4 > N_SLICES) {
#pragma unroll 1
        for (int slice = from - 1; slice < N_SLICES; slice++) {
            const bool is_first = slice == from - 1;
            const float4 *in = sums_at<FORM>(args, w, is_first ? 0 : slice);
            float4 v[FORM::N / 4];
            UNROLL for (int i = 0; i < FORM::N / 4; i++) v[i] =
                load_l2(in + (8 * i < w.n ? i : 0) * BLOCK_THREADS);
            UNROLL for (int i = 0; i < FORM::N / 4; i++)
                quad_of(y + 4 * i, is_first ? v[i] : float4_add(quad_at(y + 4 * i), v[i]));
        }
    } else {
        UNROLL for (int i = 0; i < FORM::N / 4; i += 2) {
            if (8 * i >= w.n) continue;
            float4 v[N_SLICES][2];
            UNROLL for (int slice = 0; slice < N_SLICES; slice++) if (slice == 0 || slice >= from)
                UNROLL for (int k = 0; k < 2; k++) v[slice][k] =
                    load_l2(sums_at<FORM>(args, w, slice) + (i + k) * BLOCK_THREADS);
            UNROLL for (int slice = 1; slice < N_SLICES; slice++) if (slice >= from)
                UNROLL for (int k = 0; k < 2; k++) v[0][k] = float4_add(v[0][k], v[slice][k]);
            UNROLL for (int k = 0; k < 2; k++) quad_of(y + 4 * (i + k), v[0][k]);
        }
    }
}

// The item's part is in memory: whether all parts are. A warpgroup.
enum { MANY_GROUP = 14 }; // the barriers of the two warpgroups
DEV bool parts_arrive(const struct many_args &args, const struct many_item &w, int group,
                      uint32_t *flag) {
    __threadfence();
    barrier_sync(MANY_GROUP + group, 128);
    if (threadIdx.x % 128 == 0) {
        uint32_t *counter = args.counters + w.sums * 2 + group;
        const bool is_last = add_acq_rel(counter, 1) == (1u << w.parts_log) - 1;
        if (is_last) *counter = 0;
        flag[group] = is_last;
    }
    barrier_sync(MANY_GROUP + group, 128);
    const bool is_last = flag[group] != 0;
    if (is_last) __threadfence();
    return is_last;
}

// ---------------------------------------------------------------- slices

// N units of a stage: all of them are decoded, then multiplied by one group of instructions. The
// registers of a are free. Returns when the group before has ended.
template <class FORM, int N>
DEV void units_multiply(float (&acc)[FORM::N], uint32_t (&a)[FORM::UNITS][2][4], uint32_t stage,
                        int first, int n_live, int warp, int lane) {
    const uint32_t unit = (uint32_t)(warp * FORM::UNITS + first);
    const uint32_t x = stage + (uint32_t)(FORM::WEIGHT_BYTES + first * FORM::COLUMNS * 64);
    UNROLL for (int u = 0; u < N; u++)
        codec_fragments<FORM::CODEC>(shared_unit{stage + (unit + (uint32_t)u) * FORM::UNIT_BYTES},
                                     lane, a[u]);
    warpgroup_begin();
    UNROLL for (int u = 0; u < N; u++) UNROLL for (int h = 0; h < 2; h++)
        warpgroup_mma<codec_is_bf16<FORM::CODEC>(), FORM::COLUMNS>(
            acc, a[u][h], x + (uint32_t)(u * FORM::COLUMNS * 64 + h * 256), true, n_live);
    warpgroup_end();
    warpgroup_wait<1>();
}

DEV void stage_wait(const struct many_ring &ring, const struct many_place &p) {
    fetch_wait(ring.full + 2 * p.stage, p.parity);
    fetch_wait(ring.full + 2 * p.stage + 1, p.parity);
}

// One slice of the item: acc = the sum from 0. Two stages have registers of their own. Zeros are
// written and added to: a first instruction that ignored acc would still keep its registers busy
// through the end of the item before.
template <class FORM>
DEV void many_slice(float (&acc)[FORM::N], const struct many_ring &ring, struct many_place &p,
                    int n_units, int n_live, int warp, int lane) {
    uint32_t a[2][FORM::UNITS][2][4];
    int unit = 0, before = -1; // a stage whose instructions may run
    const auto stage_at = [&] {
        return shared_address(ring.at) + (uint32_t)(p.stage * FORM::STAGE_BYTES);
    };
    UNROLL for (int i = 0; i < FORM::N; i++) acc[i] = 0.0f;
#pragma unroll 1
    while (unit + FORM::UNITS <= n_units) {
        UNROLL for (int i = 0; i < 2; i++) {
            if (unit + FORM::UNITS > n_units) continue;
            stage_wait(ring, p);
            units_multiply<FORM, FORM::UNITS>(acc, a[i], stage_at(), 0, n_live, warp, lane);
            if (before >= 0) meet_arrive(ring.read + before, lane);
            before = p.stage;
            place_next(p, ring.n_stages);
            unit += FORM::UNITS;
        }
    }
    warpgroup_wait<0>();
    if (before >= 0) meet_arrive(ring.read + before, lane);
    if (unit < n_units) { // units of a last stage, one by one
        stage_wait(ring, p);
#pragma unroll 1
        for (int u = 0; unit < n_units; u++, unit++) {
            units_multiply<FORM, 1>(acc, a[0], stage_at(), u, n_live, warp, lane);
            warpgroup_wait<0>();
        }
        meet_arrive(ring.read + p.stage, lane);
        place_next(p, ring.n_stages);
    }
    warpgroup_hold(acc);
}

// The eight warps that multiply.
template <class FORM>
DEV void many_consume(const struct many_args &args, const struct many_ring &ring, uint32_t *flag,
                      float *ends, int warp, int lane) {
    const struct stage_product &s = args.stage;
    dependency_wait();
    const int n_columns = column_tiles(s, args.n_rows, FORM::COLUMNS, lane);
    const int n_items = items_of(args, n_columns);
    struct many_place p = {0, 0};
#pragma unroll 1
    for (int index = (int)blockIdx.x; index < n_items; index += (int)gridDim.x) {
        const struct many_item w = many_item_at<FORM>(args, index, n_columns, lane);
        const int begin = part_first(w), end = part_end(w);
        float total[FORM::N];
#pragma unroll 1
        for (int slice = begin; slice < end; slice++) {
            float acc[FORM::N];
            const int n = slice_first(slice + 1, s.n_units) - slice_first(slice, s.n_units);
            many_slice<FORM>(acc, ring, p, n, (w.n + 7) / 8, warp, lane);
            if (w.part > 0)
                sums_put<FORM>(args, w, slice, acc);
            else
                UNROLL for (int i = 0; i < FORM::N; i++) total[i] =
                    slice == 0 ? acc[i] : total[i] + acc[i];
        }
        if (w.parts_log > 0) {
            if (w.part == 0) sums_put<FORM>(args, w, 0, total);
            if (!parts_arrive(args, w, warp / 4, flag)) continue;
            sums_get<FORM>(args, w, total);
        }
        tile_end(s, w, total, ends, warp, lane);
    }
}

// GIVEN, TAKEN: registers of a thread, in the warpgroup that asks and in the two that multiply.
template <class FORM, int GIVEN, int TAKEN>
DEV void product_many_run(const struct many_args &args) {
    SHARED_MEMORY(shared);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    uint64_t *full = (uint64_t *)shared;
    const struct many_ring ring = {full, full + 2 * args.n_stages, shared + MANY_HEAD,
                                   args.n_stages};
    uint32_t *flag = (uint32_t *)(shared + MANY_HEAD - MANY_ENDS) - 4;
    float *ends = (float *)(shared + MANY_HEAD - MANY_ENDS);
    for (int i = (int)threadIdx.x; i < 2 * args.n_stages; i += MANY_THREADS)
        fetch_init(ring.full + i);
    if ((int)threadIdx.x < args.n_stages) meet_init(ring.read + threadIdx.x, N_WARPS);
    fetch_init_done();
    dependents_launch();
    __syncthreads();
    if (warp >= N_WARPS) {
        registers_give<GIVEN>();
        many_ask<FORM>(args, ring, warp - N_WARPS, lane);
    } else {
        registers_take<TAKEN>();
        many_consume<FORM>(args, ring, flag, ends + warp * (END_BYTES / 4), warp, lane);
    }
    clock_end(args.clock);
}

#endif

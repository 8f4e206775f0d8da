// Heads with a state [dim_k, dim_v]: the delta rule and the scan (docs/HYBRID.md). Rows go in
// order, by the same operations in every batch, so the bits do not depend on how a prompt was cut.
//
// A warp has 8 columns of a head. It reads them once, keeps them in registers while it walks the
// rows, and stores them where the page changes. Lane 4 p + c has the columns 2 c and 2 c + 1, and
// the rows 32 j + 4 p + e of the state for all j and e < 4. A tile of 8 columns is stored in that
// order: 16 bytes of each lane follow those of the lane before, so loads and stores are whole
// lines.
//
// A fifth warp brings the rows of the block's head to shared memory, a chunk after the other: k and
// q, or B and C; the block's columns of v or x; the gates. It norms keys and queries. The others
// wait for nothing but these chunks.
//
// Delta: `known = S^T k` and `seen = S^T q` are sums over the state before the row. Then
//   delta = beta (v - decay known);  y = decay seen + (k q) delta;  S = decay S + k delta.
// Scan: S = decay S + B (dt x);  y = S^T C + D x.
// A sum over rows of the state is a chain of fmaf in each lane, in the order of j and e; then
// shuffles 16, 8, 4. A sum over k or q is one over four elements of each lane, then shuffles 16
// to 1.
#ifndef RN_BACKEND_CUDA_STATE_HEADS_CUH
#define RN_BACKEND_CUDA_STATE_HEADS_CUH

#include "state.cuh"

enum {
    STATE_FULL = 1,                        // barriers: a slot has its chunk
    STATE_EMPTY = STATE_FULL + STATE_SLOTS // it was read
};
enum { GATE_DECAY, GATE_INPUT, GATE_KQ }; // INPUT: beta or dt

// A chunk of rows in shared memory.
template <int UNITS> struct state_slot {
    enum { DIM = UNITS * STATE_UNIT, ROW = 2 * DIM + STATE_BLOCK_COLS };
    float *at;
    float *gates; // [GATE_*][STATE_CHUNK]

    DEV state_slot(uint8_t *shared, int slot, int chunk) {
        at = (float *)(shared + slot * (int)STATE_SLOT_BYTES(UNITS, chunk));
        gates = at + chunk * ROW;
    }
    DEV float *k(int row) const { return at + row * ROW; }
    DEV float *q(int row) const { return k(row) + DIM; }
    DEV float *v(int row) const { return q(row) + DIM; }
    DEV float &gate(int which, int row) const { return gates[which * STATE_CHUNK + row]; }
};

// The work of a block.
struct state_item {
    int head, part;
    int n_tokens, first_row; // of the sequence
    const struct step_seq *seq;
};

// Long prompts begin first: where the last sequence is longer than the first one, backwards.
DEV struct state_item state_item_at(const struct state_args &args, const struct step &step) {
    const int index = (int)blockIdx.x, n_seqs = step.n_seqs;
    struct state_item w;
    w.part = index % args.n_parts;
    w.head = index / args.n_parts % args.stage.n_head;
    const int at = index / args.n_parts / args.stage.n_head;
    w.n_tokens = w.first_row = 0;
    if (at >= n_seqs) return w; // of a recorded step
    const bool is_back = step.seq[n_seqs - 1].n_tokens > step.seq[0].n_tokens;
    w.seq = &step.seq[is_back ? n_seqs - 1 - at : at];
    w.n_tokens = w.seq->n_tokens;
    w.first_row = w.seq->first_row;
    return w;
}

// ---------------------------------------------------------------- the warp that prepares rows

template <bool IS_DELTA, int UNITS> struct state_rows {
    using slot = state_slot<UNITS>;
    const struct stage_state &s;
    const struct state_item &item;
    const int lane;
    const float *k, *q, *v, *time, *beta; // of the first row
    int n_cols;                           // of v that there are
    bool is_aligned;
    float raw_time, raw_beta; // of the chunk that is on its way, a row for each lane

    DEV state_rows(const struct stage_state &stage, const struct state_item &w, int own)
        : s(stage), item(w), lane(own) {
        const int ratio = s.n_head / s.n_key;
        const int key = IS_DELTA && s.is_tiled ? item.head % s.n_key : item.head / ratio;
        const float *in = s.in + (int64_t)item.first_row * s.ld_in;
        const int keys = s.n_key * s.dim_k, column = item.part * STATE_BLOCK_COLS;
        v = in + (IS_DELTA ? 2 * keys : 0) + item.head * s.dim_v + column;
        k = in + (IS_DELTA ? keys : s.n_head * s.dim_v) + key * s.dim_k;
        q = IS_DELTA ? in + key * s.dim_k : k + keys;
        time = s.time + (int64_t)item.first_row * s.ld_time + item.head;
        beta = IS_DELTA ? s.beta + (int64_t)item.first_row * s.ld_beta + item.head : time;
        n_cols = min((int)STATE_BLOCK_COLS, s.dim_v - column);
        is_aligned = s.dim_k % 4 == 0 && s.dim_v % 4 == 0;
        raw_time = raw_beta = 0.0f;
    }

    // What no row brings stays zero.
    DEV void clear(uint8_t *shared, int n_slots, int chunk) const {
        if (s.dim_k == slot::DIM && n_cols == STATE_BLOCK_COLS) return;
        const int n = n_slots * (int)STATE_SLOT_BYTES(UNITS, chunk) / 4;
        for (int i = lane; i < n; i += 32) ((float *)shared)[i] = 0.0f;
        __syncwarp();
    }

    DEV void part_copy(float *to, const float *from, int n) const {
        if (is_aligned)
            for (int i = 4 * lane; i < n; i += 128) copy_16(shared_address(to + i), from + i);
        else
            for (int i = lane; i < n; i += 32) to[i] = load_l2(from + i);
    }

    // Starts the copies of rows [first, first + n).
    DEV void copy(const slot &to, int first, int n) {
        for (int row = 0; row < n; row++) {
            const int64_t at = (int64_t)(first + row) * s.ld_in;
            part_copy(to.k(row), k + at, s.dim_k);
            part_copy(to.q(row), q + at, s.dim_k);
            if (!is_aligned) part_copy(to.v(row), v + at, n_cols);
        }
        // a quarter of the warp has a row
        for (int row = lane / 8; is_aligned && row < n; row += 4)
            if (lane % 8 * 4 < n_cols)
                copy_16(shared_address(to.v(row) + lane % 8 * 4),
                        v + (int64_t)(first + row) * s.ld_in + lane % 8 * 4);
        copies_commit();
        if (lane >= n) return;
        raw_time = load_l2(time + (int64_t)(first + lane) * s.ld_time);
        if (IS_DELTA) raw_beta = load_l2(beta + (int64_t)(first + lane) * s.ld_beta);
    }

    // The gates of the rows that copy asked for last.
    DEV void gates(const slot &to, float raw, float raw_b, int n) const {
        if (lane >= n) return;
        float step = rmath_softplus(raw + s.bias[item.head]);
        const float a = s.weight[item.head];
        if (IS_DELTA) {
            to.gate(GATE_DECAY, lane) = rmath_exp(a * step);
            to.gate(GATE_INPUT, lane) = rmath_sigmoid(raw_b);
            return;
        }
        step = step < s.dt_min ? s.dt_min : step;
        step = step > s.dt_max ? s.dt_max : step;
        to.gate(GATE_DECAY, lane) = rmath_exp(step * a);
        to.gate(GATE_INPUT, lane) = step;
    }

    // Keys and queries of length 1, in place, and their products. Two rows at a time: shuffles of
    // one row wait for each other.
    DEV void lengths(const slot &to, int n) const {
        enum { QUADS = (slot::DIM + 127) / 128, AT_ONCE = 2 };
        const float scale = 1.0f / sqrtf((float)s.dim_k);
        for (int first = 0; first < n; first += AT_ONCE) {
            float4 a[AT_ONCE][QUADS], b[AT_ONCE][QUADS];
            float kk[AT_ONCE], qq[AT_ONCE], kq[AT_ONCE];
            UNROLL for (int r = 0; r < AT_ONCE; r++) {
                const int row = min(first + r, n - 1);
                kk[r] = qq[r] = kq[r] = 0.0f;
                UNROLL for (int m = 0; m < QUADS; m++) {
                    const int at = 4 * lane + 128 * m;
                    a[r][m] = b[r][m] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (at >= slot::DIM) continue;
                    a[r][m] = *(const float4 *)(to.k(row) + at);
                    b[r][m] = *(const float4 *)(to.q(row) + at);
                }
                UNROLL for (int m = 0; m < QUADS; m++) {
                    kk[r] = product_add(kk[r], a[r][m], a[r][m]);
                    qq[r] = product_add(qq[r], b[r][m], b[r][m]);
                    kq[r] = product_add(kq[r], a[r][m], b[r][m]);
                }
            }
            UNROLL for (int o = 16; o > 0; o /= 2) {
                UNROLL for (int r = 0; r < AT_ONCE; r++) {
                    kk[r] = kk[r] + __shfl_xor_sync(0xffffffffu, kk[r], o);
                    qq[r] = qq[r] + __shfl_xor_sync(0xffffffffu, qq[r], o);
                    kq[r] = kq[r] + __shfl_xor_sync(0xffffffffu, kq[r], o);
                }
            }
            UNROLL for (int r = 0; r < AT_ONCE; r++) {
                const int row = first + r;
                if (row >= n) break;
                const float by_k = 1.0f / sqrtf(kk[r] + s.eps);
                const float by_q = 1.0f / sqrtf(qq[r] + s.eps) * scale;
                UNROLL for (int m = 0; m < QUADS; m++) {
                    const int at = 4 * lane + 128 * m;
                    if (at >= slot::DIM) continue;
                    *(float4 *)(to.k(row) + at) = scaled(a[r][m], by_k);
                    *(float4 *)(to.q(row) + at) = scaled(b[r][m], by_q);
                }
                if (lane == 0) to.gate(GATE_KQ, row) = kq[r] * by_k * by_q;
            }
        }
    }

    DEV static float product_add(float sum, float4 a, float4 b) {
        return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
    }
    DEV static float4 scaled(float4 v, float by) {
        return make_float4(v.x * by, v.y * by, v.z * by, v.w * by);
    }

    DEV void run(const struct state_args &args, uint8_t *shared) {
        const int chunk = args.chunk, n_tokens = item.n_tokens;
        const int n_chunks = (n_tokens + chunk - 1) / chunk;
        float last_time = 0.0f, last_beta = 0.0f; // of the chunk before
        clear(shared, args.n_slots, chunk);
        for (int i = 0; i <= n_chunks; i++) {
            if (i < n_chunks) {
                const int at = i % args.n_slots;
                if (i >= args.n_slots) barrier_sync(STATE_EMPTY + at, STATE_THREADS);
                copy(slot(shared, at, chunk), i * chunk, min(chunk, n_tokens - i * chunk));
            }
            if (i > 0) {
                const int at = (i - 1) % args.n_slots, n = min(chunk, n_tokens - (i - 1) * chunk);
                const slot to(shared, at, chunk);
                gates(to, last_time, last_beta, n);
                if (i < n_chunks)
                    copies_wait<1>();
                else
                    copies_wait<0>();
                __syncwarp();
                if (IS_DELTA) lengths(to, n);
                barrier_arrive(STATE_FULL + at, STATE_THREADS);
            }
            last_time = raw_time, last_beta = raw_beta;
        }
    }
};

// ---------------------------------------------------------------- a warp with columns

template <bool IS_DELTA, int UNITS, bool IS_BF16> struct state_tile {
    using slot = state_slot<UNITS>;
    enum { ENTRIES = IS_BF16 ? UNITS : 2 * UNITS }; // of 16 bytes, of a lane
    const int lane, column;                         // column: of the block, of lane 0
    float s[UNITS][4][2];

    DEV state_tile(int own, int warp) : lane(own), column(warp * STATE_COLS) {}

    DEV void load(const uint8_t *from) {
        uint4 raw[ENTRIES];
        UNROLL for (int i = 0; i < ENTRIES; i++) raw[i] =
            from ? load_l2((const uint4 *)from + i * 32 + lane) : make_uint4(0, 0, 0, 0);
        UNROLL for (int j = 0; j < UNITS; j++) {
            UNROLL for (int e = 0; e < 4; e++) {
                const uint4 &v = raw[IS_BF16 ? j : 2 * j + e / 2];
                if (IS_BF16) {
                    const uint32_t pair = e == 0 ? v.x : e == 1 ? v.y : e == 2 ? v.z : v.w;
                    s[j][e][0] = __uint_as_float(pair << 16);
                    s[j][e][1] = __uint_as_float(pair & 0xffff0000u);
                } else {
                    s[j][e][0] = __uint_as_float(e % 2 ? v.z : v.x);
                    s[j][e][1] = __uint_as_float(e % 2 ? v.w : v.y);
                }
            }
        }
    }

    DEV void store(uint8_t *to) const {
        UNROLL for (int i = 0; i < ENTRIES; i++) {
            uint4 v;
            if (IS_BF16) {
                v = make_uint4(bf16x2_of(s[i][0][0], s[i][0][1]), bf16x2_of(s[i][1][0], s[i][1][1]),
                               bf16x2_of(s[i][2][0], s[i][2][1]),
                               bf16x2_of(s[i][3][0], s[i][3][1]));
            } else {
                const int j = i / 2, e = i % 2 * 2;
                v = make_uint4(__float_as_uint(s[j][e][0]), __float_as_uint(s[j][e][1]),
                               __float_as_uint(s[j][e + 1][0]), __float_as_uint(s[j][e + 1][1]));
            }
            *((uint4 *)to + i * 32 + lane) = v;
        }
    }

    // A number of the next state: rounded as it is stored.
    DEV static float next(float old, float decay, float by, float in) {
        const float x = fmaf(by, in, old * decay);
        return IS_BF16 ? f32_of_bf16(bf16_of(x)) : x;
    }

    DEV static float element(const float4 &v, int e) {
        return e == 0 ? v.x : e == 1 ? v.y : e == 2 ? v.z : v.w;
    }

    // A row of the delta rule. Its output is that of column out_column, in some lanes.
    DEV float delta_row(const slot &in, int row) {
        const float4 *k4 = (const float4 *)in.k(row) + lane / 4;
        const float4 *q4 = (const float4 *)in.q(row) + lane / 4;
        const float decay = in.gate(GATE_DECAY, row);
        const bool is_q = lane & 16, is_odd = lane & 8;
        float4 k[UNITS];
        float known[2] = {0.0f, 0.0f}, seen[2] = {0.0f, 0.0f};
        UNROLL for (int j = 0; j < UNITS; j++) {
            const float4 q = q4[j * 8];
            k[j] = k4[j * 8];
            UNROLL for (int e = 0; e < 4; e++) {
                UNROLL for (int i = 0; i < 2; i++) {
                    known[i] = fmaf(s[j][e][i], element(k[j], e), known[i]);
                    seen[i] = fmaf(s[j][e][i], element(q, e), seen[i]);
                }
            }
        }
        // of the four sums each lane keeps one: half of the others at every step
        float own[2];
        UNROLL for (int i = 0; i < 2; i++) {
            const float sent = is_q ? known[i] : seen[i];
            own[i] = (is_q ? seen[i] : known[i]) + __shfl_xor_sync(0xffffffffu, sent, 16);
        }
        float sum =
            (is_odd ? own[1] : own[0]) + __shfl_xor_sync(0xffffffffu, is_odd ? own[0] : own[1], 8);
        sum = sum + __shfl_xor_sync(0xffffffffu, sum, 4);
        const float v = in.v(row)[column + lane % 4 * 2 + is_odd];
        const float delta = in.gate(GATE_INPUT, row) * (v - decay * sum); // where it is known
        const float d[2] = {__shfl_sync(0xffffffffu, delta, lane % 4),
                            __shfl_sync(0xffffffffu, delta, lane % 4 + 8)};
        UNROLL for (int j = 0; j < UNITS; j++) {
            UNROLL for (int e = 0; e < 4; e++) {
                UNROLL for (int i = 0; i < 2; i++) s[j][e][i] =
                    next(s[j][e][i], decay, element(k[j], e), d[i]);
            }
        }
        return fmaf(decay, sum, in.gate(GATE_KQ, row) * (is_odd ? d[1] : d[0]));
    }

    // The state behind a row of the scan, and this lane's part of its sums.
    DEV void scan_row(const slot &in, int row, float (&sum)[2]) {
        const float4 *b4 = (const float4 *)in.k(row) + lane / 4;
        const float4 *c4 = (const float4 *)in.q(row) + lane / 4;
        const float decay = in.gate(GATE_DECAY, row), dt = in.gate(GATE_INPUT, row);
        const float2 x = *(const float2 *)(in.v(row) + column + lane % 4 * 2);
        const float scaled[2] = {dt * x.x, dt * x.y};
        sum[0] = sum[1] = 0.0f;
        UNROLL for (int j = 0; j < UNITS; j++) {
            const float4 b = b4[j * 8], c = c4[j * 8];
            UNROLL for (int e = 0; e < 4; e++) {
                UNROLL for (int i = 0; i < 2; i++) {
                    // the sum is over numbers that are not rounded
                    const float x_new = fmaf(element(b, e), scaled[i], s[j][e][i] * decay);
                    sum[i] = fmaf(x_new, element(c, e), sum[i]);
                    s[j][e][i] = IS_BF16 ? f32_of_bf16(bf16_of(x_new)) : x_new;
                }
            }
        }
    }

    // Two rows of the scan together, of which the second may be missing. Lanes from 16 on have its
    // output.
    DEV float scan_rows(const slot &in, int row, bool has_two, float skip) {
        float first[2], second[2] = {0.0f, 0.0f}, own[2];
        const bool is_second = lane & 16, is_odd = lane & 8;
        scan_row(in, row, first);
        if (has_two) scan_row(in, row + 1, second);
        UNROLL for (int i = 0; i < 2; i++) {
            const float sent = is_second ? first[i] : second[i];
            own[i] = (is_second ? second[i] : first[i]) + __shfl_xor_sync(0xffffffffu, sent, 16);
        }
        float sum =
            (is_odd ? own[1] : own[0]) + __shfl_xor_sync(0xffffffffu, is_odd ? own[0] : own[1], 8);
        sum = sum + __shfl_xor_sync(0xffffffffu, sum, 4);
        const int of = is_second && has_two ? row + 1 : row;
        return fmaf(skip, in.v(of)[column + lane % 4 * 2 + is_odd], sum);
    }
};

// Where a warp reads and stores its tile.
struct state_place {
    const struct stage_state &s;
    const struct step &step;
    const struct step_seq &seq;
    uint64_t at; // of a page
    struct state_end end;

    DEV state_place(const struct stage_state &stage, const struct step &own,
                    const struct state_item &item, int tile, uint32_t tile_bytes)
        : s(stage), step(own), seq(*item.seq) {
        const int n_tiles = (s.dim_v + STATE_COLS - 1) / STATE_COLS;
        at = ((uint64_t)item.head * n_tiles + tile) * tile_bytes;
        end = state_end_from(step, seq, s.group, 0);
    }

    DEV const uint8_t *first() const {
        const uint32_t page = state_before(step, seq, s.group);
        return page == STATE_NONE ? nullptr : state_at(s, page) + at;
    }

    // Behind each row, in order.
    template <class TILE> DEV void keep(const TILE &tile, int row) {
        if (row != end.row) return;
        tile.store(state_at(s, end.page) + at);
        if (row + 1 < seq.n_tokens) end = state_end_from(step, seq, s.group, row + 1);
    }
};

template <bool IS_DELTA, int UNITS, bool IS_BF16>
DEV void state_columns(const struct state_args &args, const struct state_item &item,
                       uint8_t *shared, int warp, int lane) {
    using tile_of = state_tile<IS_DELTA, UNITS, IS_BF16>;
    const struct stage_state &s = args.stage;
    const int n_tokens = item.n_tokens, chunk = args.chunk;
    const int n_chunks = (n_tokens + chunk - 1) / chunk;
    const int number = item.part * STATE_WARPS + warp;
    const bool is_idle = number * STATE_COLS >= s.dim_v; // a warp behind the last column
    state_place place(s, *args.step, item, number, STATE_TILE_BYTES(UNITS, IS_BF16));
    tile_of tile(lane, warp);
    if (!is_idle && args.is_early) tile.load(place.first());
    dependency_wait();
    if (!is_idle && !args.is_early) tile.load(place.first());
    const int own = number * STATE_COLS + lane % 4 * 2 + (lane >> 3 & 1); // the column of an output
    const bool has_column = own < s.dim_v && !(lane & 4);
    float *out = s.out + (int64_t)item.first_row * s.ld_out + item.head * s.dim_v + own;
    const float skip = IS_DELTA ? 0.0f : s.skip[item.head];
    for (int i = 0; i < n_chunks; i++) {
        const int at = i % args.n_slots, n = min(chunk, n_tokens - i * chunk);
        const state_slot<UNITS> in(shared, at, chunk);
        barrier_sync(STATE_FULL + at, STATE_THREADS);
        for (int r = 0; r < n && !is_idle;) {
            const int row = i * chunk + r;
            if constexpr (IS_DELTA) {
                const float y = tile.delta_row(in, r);
                if (has_column && (lane & 16)) out[(int64_t)row * s.ld_out] = y;
                place.keep(tile, row);
                r++;
            } else {
                const bool has_two = r + 1 < n && row != place.end.row;
                const float y = tile.scan_rows(in, r, has_two, skip);
                if (has_column && (has_two || !(lane & 16)))
                    out[(int64_t)(row + (lane >> 4)) * s.ld_out] = y;
                r += has_two ? 2 : 1;
                place.keep(tile, i * chunk + r - 1);
            }
        }
        if (i + args.n_slots < n_chunks) barrier_arrive(STATE_EMPTY + at, STATE_THREADS);
    }
}

template <bool IS_DELTA, int UNITS, bool IS_BF16>
DEV void state_heads_run(const struct state_args &args, uint8_t *shared) {
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const struct state_item item = state_item_at(args, *args.step);
    if (item.n_tokens == 0) { // every launch waits for the one before
        dependency_wait();
    } else if (warp < STATE_WARPS) {
        state_columns<IS_DELTA, UNITS, IS_BF16>(args, item, shared, warp, lane);
    } else {
        dependency_wait();
        state_rows<IS_DELTA, UNITS>(args.stage, item, lane).run(args, shared);
    }
}

#endif

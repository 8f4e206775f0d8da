// The input of a product as 16-bit rows: normed where the stage asks for it, then rounded. A step
// of few rows makes it in shared memory, each block for itself (input_stage); a larger one makes it
// once, in memory (STAGE_PREPARE). Both perform the same operations:
//   a block has a row. Thread v of its 256 sums the elements 4v .. 4v + 3 of each 1024 in order, by
//   fmaf; then a warp by shuffles (16, 8, 4, 2, 1); then the eight warps in order.
//   RMS: y = (x * (1 / sqrt(sum / n + eps))) * w. Layer: y = fmaf(d * r, w, bias), d = x - mean.
#ifndef RN_BACKEND_CUDA_INPUT_CUH
#define RN_BACKEND_CUDA_INPUT_CUH

#include "rows16.cuh"

enum {
    INPUT_STEP = 4 * BLOCK_THREADS, // elements that a block has at a time
    INPUT_HELD = 4,                 // quadruples of a row that a thread keeps in registers
};

DEV float4 quad_load(const float *row, int at, int cols) {
    if (at + 3 < cols) return load_l2((const float4 *)(row + at));
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (at < cols) v.x = load_l2(row + at);
    if (at + 1 < cols) v.y = load_l2(row + at + 1);
    if (at + 2 < cols) v.z = load_l2(row + at + 2);
    return v;
}

// Of the threads that have rows: the block's first 256.
enum { INPUT_BARRIER = 15 };
DEV void input_sync() { barrier_sync(INPUT_BARRIER, BLOCK_THREADS); }

// The sum over the block. norm: [N_WARPS].
DEV float block_total(float sum, float *norm) {
    UNROLL for (int o = 16; o > 0; o /= 2) sum = sum + __shfl_xor_sync(0xffffffffu, sum, o);
    if (threadIdx.x % 32 == 0) norm[threadIdx.x / 32] = sum;
    input_sync();
    sum = norm[0];
    UNROLL for (int w = 1; w < N_WARPS; w++) sum = sum + norm[w];
    return sum;
}

DEV float square_add(float sum, float4 v, float mean, int at, int cols) {
    const float d0 = v.x - mean, d1 = v.y - mean, d2 = v.z - mean, d3 = v.w - mean;
    if (at < cols) sum = fmaf(d0, d0, sum);
    if (at + 1 < cols) sum = fmaf(d1, d1, sum);
    if (at + 2 < cols) sum = fmaf(d2, d2, sum);
    if (at + 3 < cols) sum = fmaf(d3, d3, sum);
    return sum;
}

// What a row is multiplied with, and its mean (0 for RMS).
struct row_scale {
    float r, mean;
};

DEV float normed_by(float x, const struct row_scale &k, bool is_layer, float weight, float bias) {
    return is_layer ? fmaf((x - k.mean) * k.r, weight, bias) : (x * k.r) * weight;
}

DEV float normed(float x, const struct row_scale &k, const struct norm_by &norm, int at) {
    return normed_by(x, k, norm.is_layer != 0, norm.weight[at],
                     norm.is_layer ? norm.bias[at] : 0.0f);
}

DEV uint32_t pair_of(float lo, float hi, bool is_bf16) {
    return is_bf16 ? (uint32_t)bf16_of(lo) | (uint32_t)bf16_of(hi) << 16
                   : (uint32_t)f16_of(lo) | (uint32_t)f16_of(hi) << 16;
}

// A thread's weights of a norm, of the elements that it holds. They never change, so they are asked
// for before a launch waits, and before the weights of a product: behind those they would be late.
struct norm_weights {
    float4 at[INPUT_HELD];
};
DEV void norm_weights_load(struct norm_weights &w, const float *weight, int cols) {
    UNROLL for (int j = 0; j < INPUT_HELD; j++) {
        const int at = j * INPUT_STEP + (int)threadIdx.x * 4;
        if (at + 3 < cols) w.at[j] = *(const float4 *)(weight + at);
    }
}

// One row by the block. norm_sums: [2, N_WARPS], not read by other threads any more. store(at,
// quad): elements at .. at + 3 of the normed row, zeros from cols on to padded.
template <int INPUT, class STORE>
DEV void row_prepare(const float *row, int cols, int padded, const struct norm_by &norm,
                     const struct norm_weights &weights, float *norm_sums, const STORE &store) {
    constexpr bool IS_NORMED = INPUT == INPUT_RMS || INPUT == INPUT_LAYER;
    float4 held[INPUT_HELD];
    struct row_scale k = {1.0f, 0.0f};
    const int first = (int)threadIdx.x * 4, rest = INPUT_HELD * INPUT_STEP + first;
    UNROLL for (int j = 0; j < INPUT_HELD; j++) {
        const int at = j * INPUT_STEP + first;
        if (at < cols) held[j] = quad_load(row, at, cols);
    }
    if constexpr (INPUT == INPUT_LAYER) {
        float sum = 0.0f;
        UNROLL for (int j = 0; j < INPUT_HELD; j++) if (j * INPUT_STEP + first < cols) sum =
            (((sum + held[j].x) + held[j].y) + held[j].z) + held[j].w; // zeros from cols on
        for (int at = rest; at < cols; at += INPUT_STEP) {
            const float4 v = quad_load(row, at, cols);
            sum = (((sum + v.x) + v.y) + v.z) + v.w;
        }
        k.mean = block_total(sum, norm_sums + N_WARPS) / (float)cols;
    }
    if constexpr (IS_NORMED) {
        float sum = 0.0f;
        UNROLL for (int j = 0; j < INPUT_HELD; j++) if (j * INPUT_STEP + first < cols) sum =
            square_add(sum, held[j], k.mean, j * INPUT_STEP + first, cols);
        for (int at = rest; at < cols; at += INPUT_STEP)
            sum = square_add(sum, quad_load(row, at, cols), k.mean, at, cols);
        sum = block_total(sum, norm_sums);
        k.r = 1.0f / sqrtf(sum / (float)cols + norm.eps);
    }
    auto finish = [&](float4 v, int at, const float4 &w) {
        if constexpr (IS_NORMED) {
            float4 b = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (at + 3 < cols) {
                if (INPUT == INPUT_LAYER) b = *(const float4 *)(norm.bias + at);
                v.x = normed_by(v.x, k, INPUT == INPUT_LAYER, w.x, b.x);
                v.y = normed_by(v.y, k, INPUT == INPUT_LAYER, w.y, b.y);
                v.z = normed_by(v.z, k, INPUT == INPUT_LAYER, w.z, b.z);
                v.w = normed_by(v.w, k, INPUT == INPUT_LAYER, w.w, b.w);
            } else {
                if (at < cols) v.x = normed(v.x, k, norm, at);
                if (at + 1 < cols) v.y = normed(v.y, k, norm, at + 1);
                if (at + 2 < cols) v.z = normed(v.z, k, norm, at + 2);
            }
        }
        store(at, v);
    };
    UNROLL for (int j = 0; j < INPUT_HELD; j++) {
        const int at = j * INPUT_STEP + first;
        if (at < padded)
            finish(at < cols ? held[j] : make_float4(0.0f, 0.0f, 0.0f, 0.0f), at, weights.at[j]);
    }
    for (int at = rest; at < padded; at += INPUT_STEP) {
        float4 w = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (IS_NORMED && at + 3 < cols) w = *(const float4 *)(norm.weight + at);
        finish(at < cols ? quad_load(row, at, cols) : make_float4(0.0f, 0.0f, 0.0f, 0.0f), at, w);
    }
}

// ---------------------------------------------------------------- in shared memory

// Rows by RMS norm, as row_prepare has them. cols is a multiple of 4, and a thread holds its part
// of a row.
template <bool IS_BF16, class THEN>
DEV void rms_stage(const struct stage_product &s, const struct norm_weights &weights, int n_rows,
                   uint8_t *x, float *norm_sums, const THEN &then) {
    const int first = (int)threadIdx.x * 4, cols = s.cols;
    dependency_wait();
    float4 next[INPUT_HELD]; // of the row behind this one: on its way
    auto ask = [&](int r) {
        UNROLL for (int j = 0; j < INPUT_HELD; j++) {
            next[j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            const float *at = s.x + (int64_t)r * s.ldx + (j * INPUT_STEP + first);
            if (j * INPUT_STEP + first < cols) next[j] = load_l2((const float4 *)at);
        }
    };
    ask(0);
    then();
#pragma unroll 1
    for (int r = 0; r < n_rows; r++) {
        float4 v[INPUT_HELD];
        float sum = 0.0f;
        UNROLL for (int j = 0; j < INPUT_HELD; j++) v[j] = next[j];
        if (r + 1 < n_rows) ask(r + 1);
        UNROLL for (int j = 0; j < INPUT_HELD; j++) if (j * INPUT_STEP + first < cols) sum =
            square_add(sum, v[j], 0.0f, 0, 4);
        // sums of neighbouring rows are in different places, so one barrier is enough
        sum = block_total(sum, norm_sums + (r & 1) * N_WARPS);
        const struct row_scale k = {1.0f / sqrtf(sum / (float)cols + s.norm.eps), 0.0f};
        UNROLL for (int j = 0; j < INPUT_HELD; j++) {
            const int at = j * INPUT_STEP + first;
            if (at >= s.n_units * UNIT_COLS) continue;
            uint2 pair = {0, 0};
            if (at < cols) {
                const float4 w = weights.at[j];
                pair.x = pair_of(normed_by(v[j].x, k, false, w.x, 0.0f),
                                 normed_by(v[j].y, k, false, w.y, 0.0f), IS_BF16);
                pair.y = pair_of(normed_by(v[j].z, k, false, w.z, 0.0f),
                                 normed_by(v[j].w, k, false, w.w, 0.0f), IS_BF16);
            }
            *(uint2 *)(x + (at / UNIT_COLS * n_rows + r) * 64 + at % UNIT_COLS * 2) = pair;
        }
    }
}

// Rows that are 16 bits in memory.
template <class THEN>
DEV void rows16_stage(const struct stage_product &s, int n_rows, uint8_t *x, const THEN &then) {
    // rows in turn, so that all of their loads are on their way together
    const int n = s.n_units * 4 * n_rows;
    auto row_of = [&](int i) { return i % n_rows; };
    auto load = [&](int i) {
        const uint4 *row = (const uint4 *)(s.x16.at + (int64_t)row_of(i) * s.x16.ld);
        return load_l2(row + i / n_rows);
    };
    auto store = [&](int i, const uint4 &v) {
        const int at = i / n_rows;
        *(uint4 *)(x + (at / 4 * n_rows + row_of(i)) * 64 + at % 4 * 16) = v;
    };
    uint4 held[INPUT_HELD];
    dependency_wait();
    UNROLL for (int j = 0; j < INPUT_HELD; j++) {
        const int i = j * BLOCK_THREADS + (int)threadIdx.x;
        if (i < n) held[j] = load(i);
    }
    then();
    UNROLL for (int j = 0; j < INPUT_HELD; j++) {
        const int i = j * BLOCK_THREADS + (int)threadIdx.x;
        if (i < n) store(i, held[j]);
    }
#pragma unroll 4
    for (int i = INPUT_HELD * BLOCK_THREADS + (int)threadIdx.x; i < n; i += BLOCK_THREADS)
        store(i, load(i));
}

// The rows at x: [unit, row, 32 elements of 16 bits]. The block's first 256 threads; waits for the
// launch before, and ends with a barrier. norm_sums: [2, N_WARPS]. The input is INPUT_16 or
// INPUT_RMS. then(): called when the first of the input is on its way.
template <bool IS_BF16, class THEN>
DEV void input_stage(const struct stage_product &s, const struct norm_weights &weights, int n_rows,
                     uint8_t *x, float *norm_sums, const THEN &then) {
    if (s.input == INPUT_RMS) {
        rms_stage<IS_BF16>(s, weights, n_rows, x, norm_sums, then);
    } else {
        rows16_stage(s, n_rows, x, then);
    }
    input_sync();
}

// ---------------------------------------------------------------- in memory

// Rows of a stage, with those of each slot.
DEV int rows_with_slots(const struct stage_rows_op &s, int n_rows) {
    return s.slots > 1 ? n_rows * s.slots : n_rows;
}

// Four columns of a row, to each place that it has.
DEV void quad_put(const struct stage_rows_op &s, int row, int column, const uint2 &pair) {
    if (s.out16.n_groups == 0) {
        *(uint2 *)(s.out16.at + rows16_at(s.out16, row, column)) = pair;
        return;
    }
    for (int i = 0; i < (s.position ? s.n_position : 1); i++) {
        const int to = s.position ? load_l2(s.position + row * s.n_position + i) : row;
        uint16_t *out = s.out16.at + rows16_at(s.out16, to, column);
        *(uint32_t *)out = pair.x; // the next part of the four has the other two
        *(uint32_t *)(out + 64) = pair.y;
    }
}

// STAGE_PREPARE: rows of f32 to 16-bit rows, padded with zeros to whole units.
// Waits for the launch before.
template <int INPUT>
DEV void prepare_run(const struct stage_rows_op &s, int n_rows, float *norm_sums) {
    const int padded = (s.width + UNIT_COLS - 1) / UNIT_COLS * UNIT_COLS;
    const bool is_bf16 = s.out16.is_bf16 != 0;
    struct norm_weights weights;
    if (INPUT != INPUT_F32) norm_weights_load(weights, s.norm.weight, s.width);
    n_rows = rows_with_slots(s, n_rows);
    dependency_wait();
    for (int r = (int)blockIdx.x; r < n_rows; r += (int)gridDim.x) {
        row_prepare<INPUT>(s.in + (int64_t)r * s.ld_in, s.width, padded, s.norm, weights, norm_sums,
                           [&](int at, float4 v) {
                               uint2 pair;
                               pair.x = pair_of(v.x, v.y, is_bf16);
                               pair.y = pair_of(v.z, v.w, is_bf16);
                               quad_put(s, r, at, pair);
                           });
        __syncthreads(); // the sums were read
    }
}

// A normed number behind the sum and the factor of STAGE_NORM.
DEV float norm_ended(const struct stage_rows_op &s, float y, const float *out) {
    if (s.add) y = load_l2(out) + y;
    return s.scale != 0.0f ? y * s.scale : y;
}

// STAGE_NORM of whole rows, to f32.
template <int INPUT>
DEV void norm_rows_as(const struct stage_rows_op &s, int n_rows, float *norm_sums) {
    struct norm_weights weights;
    norm_weights_load(weights, s.norm.weight, s.width);
    n_rows = rows_with_slots(s, n_rows);
    for (int r = (int)blockIdx.x; r < n_rows; r += (int)gridDim.x) {
        float *out = s.out + (int64_t)r * s.ld_out;
        row_prepare<INPUT>(s.in + (int64_t)r * s.ld_in, s.width, s.width, s.norm, weights,
                           norm_sums, [&](int at, float4 v) {
                               const float y[4] = {v.x, v.y, v.z, v.w};
                               UNROLL for (int e = 0; e < 4; e++) {
                                   if (at + e >= s.width) break;
                                   out[at + e] = norm_ended(s, y[e], out + at + e);
                               }
                           });
        __syncthreads(); // the sums were read
    }
}
DEV void norm_rows_run(const struct stage_rows_op &s, int n_rows, float *norm_sums) {
    if (s.input == INPUT_RMS)
        norm_rows_as<INPUT_RMS>(s, n_rows, norm_sums);
    else
        norm_rows_as<INPUT_LAYER>(s, n_rows, norm_sums);
}

#endif

// The input of a product as 16-bit rows: normed where the stage asks for it, then rounded. A small
// step makes it in shared memory, each block for itself (input_stage); a larger one makes it once,
// in memory (STAGE_PREPARE). Both perform the same operations:
//   eight warps have a row. Lane v of their 256 sums the elements 4v .. 4v + 3 of each 1024 in
//   order, by fmaf; then a warp by shuffles (16, 8, 4, 2, 1); then the eight warps in order.
//   RMS: y = (x * (1 / sqrt(sum / n + eps))) * w. Layer: y = fmaf(d * r, w, bias), d = x - mean.
#ifndef RN_BACKEND_CUDA_INPUT_CUH
#define RN_BACKEND_CUDA_INPUT_CUH

#include "device.cuh"
#include "stage.h"

enum {
    INPUT_GROUPS = N_TEAMS, // rows at a time
    INPUT_WARPS = N_WARPS / INPUT_GROUPS,
    INPUT_THREADS = 32 * INPUT_WARPS,
    INPUT_STEP = 4 * INPUT_THREADS, // elements that a group has at a time
    INPUT_HELD = 2,                 // quadruples of a row that a lane keeps in registers
};

DEV float4 quad_load(const float *row, int at, int cols) {
    if (at + 3 < cols) return load_l2((const float4 *)(row + at));
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (at < cols) v.x = load_l2(row + at);
    if (at + 1 < cols) v.y = load_l2(row + at + 1);
    if (at + 2 < cols) v.z = load_l2(row + at + 2);
    return v;
}

// The sum over the warps of a group. norm: INPUT_WARPS floats of the group.
DEV float group_sum(float sum, float *norm, int group, int in_group) {
    UNROLL for (int o = 16; o > 0; o /= 2) sum = sum + __shfl_xor_sync(0xffffffffu, sum, o);
    barrier_sync(1 + group, INPUT_THREADS); // the last sum was read
    if (in_group % 32 == 0) norm[in_group / 32] = sum;
    barrier_sync(1 + group, INPUT_THREADS);
    sum = norm[0];
    UNROLL for (int w = 1; w < INPUT_WARPS; w++) sum = sum + norm[w];
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

// One row by the warps of a group. store(at, quad): elements at .. at + 3 of the normed row,
// zeros from cols on to padded.
template <int INPUT, class STORE>
DEV void row_prepare_as(const float *row, int cols, int padded, const struct norm_by &norm,
                        float *norm_sums, int group, int in_group, const STORE &store) {
    constexpr bool IS_NORMED = INPUT == INPUT_RMS || INPUT == INPUT_LAYER;
    float4 held[INPUT_HELD], weight[INPUT_HELD]; // both are asked for before the first sum
    struct row_scale k = {1.0f, 0.0f};
    const int first = in_group * 4, rest = INPUT_HELD * INPUT_STEP + first;
    UNROLL for (int j = 0; j < INPUT_HELD; j++) {
        const int at = j * INPUT_STEP + first;
        if (at < cols) held[j] = quad_load(row, at, cols);
        if (IS_NORMED && at + 3 < cols) weight[j] = *(const float4 *)(norm.weight + at);
    }
    if constexpr (INPUT == INPUT_LAYER) {
        float sum = 0.0f;
        UNROLL for (int j = 0; j < INPUT_HELD; j++) if (j * INPUT_STEP + first < cols) sum =
            (((sum + held[j].x) + held[j].y) + held[j].z) + held[j].w; // zeros from cols on
        for (int at = rest; at < cols; at += INPUT_STEP) {
            const float4 v = quad_load(row, at, cols);
            sum = (((sum + v.x) + v.y) + v.z) + v.w;
        }
        k.mean = group_sum(sum, norm_sums, group, in_group) / (float)cols;
    }
    if constexpr (IS_NORMED) {
        float sum = 0.0f;
        UNROLL for (int j = 0; j < INPUT_HELD; j++) if (j * INPUT_STEP + first < cols) sum =
            square_add(sum, held[j], k.mean, j * INPUT_STEP + first, cols);
        for (int at = rest; at < cols; at += INPUT_STEP)
            sum = square_add(sum, quad_load(row, at, cols), k.mean, at, cols);
        sum = group_sum(sum, norm_sums, group, in_group);
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
            finish(at < cols ? held[j] : make_float4(0.0f, 0.0f, 0.0f, 0.0f), at, weight[j]);
    }
    for (int at = rest; at < padded; at += INPUT_STEP) {
        float4 w = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (IS_NORMED && at + 3 < cols) w = *(const float4 *)(norm.weight + at);
        finish(at < cols ? quad_load(row, at, cols) : make_float4(0.0f, 0.0f, 0.0f, 0.0f), at, w);
    }
}

template <class STORE>
DEV void row_prepare(const float *row, int cols, int padded, int input, const struct norm_by &norm,
                     float *norm_sums, int group, int in_group, const STORE &store) {
    if (input == INPUT_RMS)
        row_prepare_as<INPUT_RMS>(row, cols, padded, norm, norm_sums, group, in_group, store);
    else if (input == INPUT_LAYER)
        row_prepare_as<INPUT_LAYER>(row, cols, padded, norm, norm_sums, group, in_group, store);
    else
        row_prepare_as<INPUT_F32>(row, cols, padded, norm, norm_sums, group, in_group, store);
}

// ---------------------------------------------------------------- in shared memory

// The rows at x: [unit, row, 32 elements of 16 bits]. The whole block; ends with a barrier.
DEV void input_stage(const struct stage_product &s, int n_rows, uint8_t *x, float *norm_sums) {
    const int padded = s.n_units * UNIT_COLS;
    if (s.input == INPUT_16) {
        const int n = s.n_units * n_rows * 4; // pieces of 16 bytes
        for (int i = (int)threadIdx.x; i < n; i += BLOCK_THREADS) {
            const int unit = i / (4 * n_rows), rest = i % (4 * n_rows);
            const uint16_t *row = s.x16 + (int64_t)(rest / 4) * s.ldx16;
            ((uint4 *)x)[i] = load_l2((const uint4 *)(row + unit * UNIT_COLS + rest % 4 * 8));
        }
    } else {
        const int group = (int)threadIdx.x / INPUT_THREADS;
        const int in_group = (int)threadIdx.x % INPUT_THREADS;
        const bool is_bf16 = s.is_bf16 != 0;
        for (int r = group; r < n_rows; r += INPUT_GROUPS)
            row_prepare(s.x + (int64_t)r * s.ldx, s.cols, padded, s.input, s.norm,
                        norm_sums + group * INPUT_WARPS, group, in_group, [&](int at, float4 v) {
                            uint2 pair;
                            pair.x = pair_of(v.x, v.y, is_bf16);
                            pair.y = pair_of(v.z, v.w, is_bf16);
                            const int place =
                                (at / UNIT_COLS * n_rows + r) * 64 + at % UNIT_COLS * 2;
                            *(uint2 *)(x + place) = pair;
                        });
    }
    __syncthreads();
}

// ---------------------------------------------------------------- in memory

// STAGE_PREPARE: rows of f32 to 16-bit rows of ld_out elements, padded with zeros to whole units;
// or, as STAGE_NORM of whole rows, to f32 rows.
DEV_CALL void prepare_run(const struct stage_rows_op &s, int n_rows, float *norm_sums) {
    const int group = (int)threadIdx.x / INPUT_THREADS;
    const int in_group = (int)threadIdx.x % INPUT_THREADS;
    const int padded = (s.width + UNIT_COLS - 1) / UNIT_COLS * UNIT_COLS;
    const bool is_bf16 = s.is_bf16 != 0;
    if (s.slots > 1) n_rows *= s.slots;
    for (int r = (int)blockIdx.x * INPUT_GROUPS + group; r < n_rows;
         r += (int)gridDim.x * INPUT_GROUPS) {
        const float *row = s.in + (int64_t)r * s.ld_in;
        if (s.out16) {
            uint16_t *out = s.out16 + (int64_t)r * s.ld_out;
            row_prepare(row, s.width, padded, s.input, s.norm, norm_sums + group * INPUT_WARPS,
                        group, in_group, [&](int at, float4 v) {
                            uint2 pair;
                            pair.x = pair_of(v.x, v.y, is_bf16);
                            pair.y = pair_of(v.z, v.w, is_bf16);
                            *(uint2 *)(out + at) = pair;
                        });
        } else {
            float *out = s.out + (int64_t)r * s.ld_out;
            row_prepare(row, s.width, s.width, s.input, s.norm, norm_sums + group * INPUT_WARPS,
                        group, in_group, [&](int at, float4 v) {
                            const float y[4] = {v.x, v.y, v.z, v.w};
                            UNROLL for (int e = 0; e < 4; e++) {
                                if (at + e >= s.width) break;
                                out[at + e] = s.add ? load_l2(out + at + e) + y[e] : y[e];
                            }
                        });
        }
    }
}

#endif

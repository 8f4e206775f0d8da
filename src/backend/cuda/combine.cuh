// Rows before and behind experts: inputs that are multiplied by the weights of experts, and the
// sums of experts' rows.
#ifndef RN_BACKEND_CUDA_COMBINE_CUH
#define RN_BACKEND_CUDA_COMBINE_CUH

#include "input.cuh"

// STAGE_WEIGH: the 16-bit input of each pair is its row, normed or not, times the expert's weight.
// A block has a pair.
template <int INPUT>
DEV void weigh_run(const struct stage_rows_op &s, int n_rows, float *norm_sums) {
    const int padded = (s.width + UNIT_COLS - 1) / UNIT_COLS * UNIT_COLS;
    struct norm_weights weights;
    if (INPUT != INPUT_F32) norm_weights_load(weights, s.norm.weight, s.width);
    dependency_wait();
    for (int p = (int)blockIdx.x; p < n_rows * s.n_used; p += (int)gridDim.x) {
        const int row = p / s.n_used, rank = p % s.n_used;
        const float by = load_l2(s.in2 + (int64_t)row * s.ld_in2 + s.n_used + rank);
        row_prepare<INPUT>(s.in + (int64_t)row * s.ld_in, s.width, padded, s.norm, weights,
                           norm_sums, [&](int at, float4 v) {
                               float y[4] = {v.x * by, v.y * by, v.z * by, v.w * by};
                               UNROLL for (int e = 0; e < 4; e++) // zeros behind the row
                                   if (at + e >= s.width) y[e] = 0.0f;
                               const bool is_bf16 = s.out16.is_bf16 != 0;
                               uint2 pair;
                               pair.x = pair_of(y[0], y[1], is_bf16);
                               pair.y = pair_of(y[2], y[3], is_bf16);
                               quad_put(s, p, at, pair);
                           });
        __syncthreads(); // the sums were read
    }
}

// STAGE_COMBINE: the slots of a row, times the weights of their experts, in the order of rank. A
// thread has four columns.
DEV void combine_run(const struct stage_rows_op &s, int n_rows) {
    enum { AHEAD = 8 }; // slots on their way
    const int quads = (s.width + 3) / 4;
    const int64_t n = (int64_t)n_rows * quads;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t row = i / quads;
        const int at = (int)(i % quads) * 4;
        const float *slot = s.in + row * s.n_used * s.ld_in;
        const float *weight = s.in2 ? s.in2 + row * s.ld_in2 + s.n_used : nullptr;
        float *out = s.out + row * s.ld_out;
        float4 y = make_float4(0.0f, 0.0f, 0.0f, 0.0f), old = y;
        if (s.add) old = quad_load(out, at, s.width);
        for (int first = 0; first < s.n_used; first += AHEAD) {
            float4 x[AHEAD];
            float w[AHEAD];
            UNROLL for (int k = 0; k < AHEAD; k++) {
                if (first + k >= s.n_used) break;
                x[k] = quad_load(slot + (int64_t)(first + k) * s.ld_in, at, s.width);
                w[k] = weight ? load_l2(weight + first + k) : 1.0f;
            }
            UNROLL for (int k = 0; k < AHEAD; k++) {
                if (first + k >= s.n_used) break;
                y.x = fmaf(w[k], x[k].x, y.x);
                y.y = fmaf(w[k], x[k].y, y.y);
                y.z = fmaf(w[k], x[k].z, y.z);
                y.w = fmaf(w[k], x[k].w, y.w);
            }
        }
        y = make_float4(old.x + y.x, old.y + y.y, old.z + y.z, old.w + y.w);
        if (at + 3 < s.width) {
            *(float4 *)(out + at) = y;
            continue;
        }
        out[at] = y.x;
        if (at + 1 < s.width) out[at + 1] = y.y;
        if (at + 2 < s.width) out[at + 2] = y.z;
    }
}

#endif

// Gates of larger steps, and norms of heads that gates multiply. The operations are those of
// gate_run and norm_parts_run (rows.cuh), in the same order, so the bits are theirs. The kernel of
// all row stages has few threads on a multiprocessor; these are bound by memory.
#ifndef RN_BACKEND_CUDA_GATE_CUH
#define RN_BACKEND_CUDA_GATE_CUH

#include "activation.cuh"
#include "clock.cuh"
#include "gate.h"
#include "rows16.cuh"
#include "step.cuh"

// Two neighbours from column `at` on, of which the second may be missing.
DEV void gate_pair(const struct stage_rows_op &s, int64_t row, int at) {
    const float *in = s.in + row * s.ld_in + at;
    const float *in2 = s.in2 ? s.in2 + row * s.ld_in2 + at : nullptr;
    const bool has_two = at + 1 < s.width;
    const float none = 0.0f;
    const float g[2] = {load_l2(in), has_two ? load_l2(in + 1) : none};
    const float u[2] = {in2 ? load_l2(in2) : none, in2 && has_two ? load_l2(in2 + 1) : none};
    UNROLL for (int i = 0; i < 2; i++) {
        if (i == 1 && !has_two) break;
        const float y = gate_of(s.gate, g[i], u[i], in2 != nullptr);
        if (s.out16.at)
            rows16_put(s.out16, row, at + i, y);
        else
            s.out[row * s.ld_out + at + i] = y;
    }
}

DEV uint32_t gate_bits(const struct rows16 &r, float low, float high) {
    const uint32_t a = r.is_bf16 ? bf16_of(low) : f16_of(low);
    return a | (uint32_t)(r.is_bf16 ? bf16_of(high) : f16_of(high)) << 16;
}

// Four elements of a row, by loads of 16 bytes. A pair of columns is two neighbours of 16-bit rows.
DEV void gate_quad(const struct stage_rows_op &s, int64_t row, int at) {
    const float4 g = load_l2((const float4 *)(s.in + row * s.ld_in + at));
    float4 u = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (s.in2) u = load_l2((const float4 *)(s.in2 + row * s.ld_in2 + at));
    const bool has_up = s.in2 != nullptr;
    const float4 y =
        make_float4(gate_of(s.gate, g.x, u.x, has_up), gate_of(s.gate, g.y, u.y, has_up),
                    gate_of(s.gate, g.z, u.z, has_up), gate_of(s.gate, g.w, u.w, has_up));
    if (!s.out16.at) {
        *(float4 *)(s.out + row * s.ld_out + at) = y;
        return;
    }
    *(uint32_t *)(s.out16.at + rows16_at(s.out16, row, at)) = gate_bits(s.out16, y.x, y.y);
    *(uint32_t *)(s.out16.at + rows16_at(s.out16, row, at + 2)) = gate_bits(s.out16, y.z, y.w);
}

// A thread has four neighbours of a row.
DEV void gate_many_run(const struct gate_args &args) {
    const struct stage_rows_op &s = args.stage;
    dependency_wait();
    const int n_rows = step_rows(*args.step, args.rows) * s.slots, n_quads = (s.width + 3) / 4;
    const int64_t n = (int64_t)n_rows * n_quads, step = (int64_t)gridDim.x * BLOCK_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * BLOCK_THREADS + threadIdx.x; i < n; i += step) {
        const int64_t row = i / n_quads;
        const int at = (int)(i - row * n_quads) * 4;
        if (at + 3 < s.width) {
            gate_quad(s, row, at);
        } else {
            gate_pair(s, row, at);
            if (at + 2 < s.width) gate_pair(s, row, at + 2);
        }
    }
}

// HELD: elements of a part that a lane has, at most.
template <int HELD> DEV void norm_gate_run(const struct gate_args &args) {
    const struct stage_rows_op &s = args.stage;
    const int lane = (int)threadIdx.x % 32, n_parts = s.width / s.group;
    float weight[HELD]; // it never changes
    UNROLL for (int j = 0; j < HELD; j++) {
        const int d = lane + 32 * j;
        weight[j] = d < s.group ? s.norm.weight[d] : 0.0f;
    }
    dependency_wait();
    const int n_rows = step_rows(*args.step, args.rows);
    const int64_t n = (int64_t)n_rows * n_parts, step = (int64_t)gridDim.x * N_WARPS;
    for (int64_t i = (int64_t)blockIdx.x * N_WARPS + threadIdx.x / 32; i < n; i += step) {
        const int64_t row = i / n_parts;
        const int first = (int)(i % n_parts) * s.group;
        const float *in = s.in2 + row * s.ld_in2 + first, *gate = s.in + row * s.ld_in + first;
        float x[HELD], g[HELD], sum = 0.0f;
        UNROLL for (int j = 0; j < HELD; j++) {
            const int d = lane + 32 * j;
            x[j] = d < s.group ? load_l2(in + d) : 0.0f;
            g[j] = d < s.group ? load_l2(gate + d) : 0.0f;
        }
        UNROLL for (int j = 0; j < HELD; j++) if (lane + 32 * j < s.group) sum =
            fmaf(x[j], x[j], sum);
        UNROLL for (int o = 16; o > 0; o /= 2) sum = sum + __shfl_xor_sync(0xffffffffu, sum, o);
        const float r = 1.0f / sqrtf(sum / (float)s.group + s.norm.eps);
        UNROLL for (int j = 0; j < HELD; j++) {
            const int d = lane + 32 * j;
            if (d >= s.group) break;
            const float y = gate_of(s.gate, g[j], (x[j] * r) * weight[j], true);
            if (s.out16.at)
                rows16_put(s.out16, row, first + d, y);
            else
                s.out[row * s.ld_out + first + d] = y;
        }
    }
}

#endif

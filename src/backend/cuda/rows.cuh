// The ops that work on rows and elements: tables, gathers, norms of parts of rows, rope and
// gates. Every block takes some rows or elements; no result depends on which.
#ifndef RN_BACKEND_CUDA_ROWS_CUH
#define RN_BACKEND_CUDA_ROWS_CUH

#include "activation.cuh"
#include "codec.cuh"
#include "input.cuh"
#include "step.cuh"

DEV int64_t grid_thread() { return (int64_t)blockIdx.x * BLOCK_THREADS + threadIdx.x; }
DEV int64_t grid_threads() { return (int64_t)gridDim.x * BLOCK_THREADS; }
DEV int64_t grid_warp() { return grid_thread() / 32; }
DEV int64_t grid_warps() { return grid_threads() / 32; }

// ---------------------------------------------------------------- tables

// The token of a row: given, or chosen by the step before.
DEV int token_of(const struct step &step, int row) {
    const int token = step.token[row];
    if (token >= 0) return token;
    const int chosen = load_l2(step.before + (-1 - token));
    return chosen >= 0 ? chosen : 0; // its sequence has failed
}

template <int CODEC>
DEV void embed_unit(const struct stage_rows_op &s, const uint8_t *unit, int in_tile, int at,
                    float *out, int lane) {
    uint32_t a[2][4];
    codec_fragments<CODEC>(global_unit{unit}, lane, a);
    if (lane / 4 != in_tile % 8) return;
    UNROLL for (int h = 0; h < 2; h++) {
        UNROLL for (int j = 0; j < 4; j++) {
            if ((j & 1) != in_tile / 8) continue;
            const int first = at + 8 * (lane % 4) + 4 * h + 2 * (j >> 1);
            UNROLL for (int e = 0; e < 2; e++) {
                const uint16_t bits = (uint16_t)(a[h][j] >> (16 * e));
                float y = codec_is_bf16<CODEC>() ? f32_of_bf16(bits) : f32_of_f16(bits);
                if (first + e >= s.width) continue;
                if (s.scale != 1.0f) y = y * s.scale;
                out[first + e] = s.add ? load_l2(out + first + e) + y : y;
            }
        }
    }
}

// A warp decodes a unit, and keeps one of its rows.
template <int CODEC>
DEV void embed_rows(const struct stage_rows_op &s, const struct step &step, int n_rows) {
    const int lane = (int)threadIdx.x % 32;
    for (int64_t i = grid_warp(); i < (int64_t)n_rows * s.n_units; i += grid_warps()) {
        const int row = (int)(i / s.n_units), u = (int)(i % s.n_units);
        int id = s.positions ? step.pos[row] : token_of(step, row);
        if (id >= s.n_rows_table) id = s.n_rows_table - 1;
        const uint8_t *unit = s.table + ((int64_t)(id / UNIT_ROWS) * s.n_units + u) * s.unit_bytes;
        embed_unit<CODEC>(s, unit, id % UNIT_ROWS, u * UNIT_COLS, s.out + (int64_t)row * s.ld_out,
                          lane);
    }
}

DEV_CALL void embed_run(const struct stage_rows_op &s, const struct step &step, int n_rows) {
    switch (s.codec) {
#define X(id, unit_bytes, is_bf16)                                                                 \
    case CODEC_##id:                                                                               \
        embed_rows<CODEC_##id>(s, step, n_rows);                                                   \
        break;
        CODEC_LIST(X)
#undef X
    }
}

// ---------------------------------------------------------------- rows

DEV_CALL void gather_run(const struct stage_rows_op &s, const struct step &step, int n_rows) {
    for (int64_t i = grid_thread(); i < (int64_t)n_rows * s.width; i += grid_threads()) {
        const int64_t row = i / s.width, at = i % s.width;
        s.out[row * s.ld_out + at] = load_l2(s.in + (int64_t)step.out_row[row] * s.ld_in + at);
    }
}

DEV_CALL void input_run(const struct stage_rows_op &s, const struct step &step, int n_rows) {
    for (int64_t i = grid_thread(); i < (int64_t)n_rows * s.width; i += grid_threads())
        s.out[i / s.width * s.ld_out + i % s.width] = step.input[i];
}

// Norms of parts of a row, one by one: a warp has a part. The order of its sums is that of the
// heads in attention: lane, lane + 32, ..., then shuffles.
DEV void norm_parts_run(const struct stage_rows_op &s, int n_rows) {
    const int lane = (int)threadIdx.x % 32, n_parts = s.width / s.group;
    for (int64_t i = grid_warp(); i < (int64_t)n_rows * n_parts; i += grid_warps()) {
        const int64_t row = i / n_parts, first = i % n_parts * s.group;
        const float *in = s.in + row * s.ld_in + first;
        float *out = s.out + row * s.ld_out + first;
        const int weights = (int)(i % n_parts) * s.weight_step;
        float sum = 0.0f, mean = 0.0f;
        if (s.norm.is_layer) {
            for (int d = lane; d < s.group; d += 32) sum = sum + load_l2(in + d);
            UNROLL for (int o = 16; o > 0; o /= 2) sum = sum + __shfl_xor_sync(0xffffffffu, sum, o);
            mean = sum / (float)s.group;
            sum = 0.0f;
        }
        for (int d = lane; d < s.group; d += 32) {
            const float x = load_l2(in + d) - mean;
            sum = fmaf(x, x, sum);
        }
        UNROLL for (int o = 16; o > 0; o /= 2) sum = sum + __shfl_xor_sync(0xffffffffu, sum, o);
        const struct row_scale k = {1.0f / sqrtf(sum / (float)s.group + s.norm.eps), mean};
        for (int d = lane; d < s.group; d += 32) {
            const float y = normed(load_l2(in + d), k, s.norm, weights + d);
            out[d] = norm_ended(s, y, out + d);
        }
    }
}

DEV_CALL void norm_run(const struct stage_rows_op &s, int n_rows, float *norm_sums) {
    if (s.group == s.width)
        norm_rows_run(s, n_rows, norm_sums);
    else
        norm_parts_run(s, n_rows);
}

// In place, by the table of the step, which has a row for each token; a thread has a pair.
DEV_CALL void rope_run(const struct stage_rows_op &s, const struct step &step, int rows,
                       int n_rows) {
    const float2 *table = (const float2 *)s.in2;
    const int n_pairs = s.n_rot / 2;
    const int64_t n = (int64_t)n_rows * s.n_head * n_pairs;
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) {
        const int64_t row = i / (s.n_head * n_pairs);
        const int rest = (int)(i % (s.n_head * n_pairs)), head = rest / n_pairs, p = rest % n_pairs;
        float *x = s.out + row * s.ld_out + head * s.dim + s.from;
        float *x0 = x + (s.halves ? p : 2 * p), *x1 = s.halves ? x0 + n_pairs : x0 + 1;
        const int64_t token = rows == STAGE_TOKENS ? row : step.out_row[row];
        const float2 cs = load_l2(table + token * n_pairs + p);
        const float a = load_l2(x0), b = load_l2(x1);
        *x0 = fmaf(a, cs.x, -(b * cs.y));
        *x1 = fmaf(a, cs.y, b * cs.x);
    }
}

DEV_CALL void gate_run(const struct stage_rows_op &s, int n_rows) {
    const int64_t n = (int64_t)n_rows * s.slots * s.width;
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) {
        const int64_t row = i / s.width, at = i % s.width;
        const float g = load_l2(s.in + row * s.ld_in + (s.is_factor ? 0 : at));
        const float u = s.in2 ? load_l2(s.in2 + row * s.ld_in2 + at) : 0.0f;
        float y;
        if (s.gate == GATE_KIND_XIELU)
            y = xielu_of(s.xielu, g);
        else if (s.is_factor) // the activation is rounded, then multiplies
            y = gate_of(s.gate, g, 0.0f, false) * u;
        else
            y = gate_of(s.gate, g, u, s.in2 != nullptr);
        if (s.out16.at)
            rows16_put(s.out16, row, (int)at, y);
        else
            s.out[row * s.ld_out + at] = y;
    }
}

// Columns of each part of a row to another place.
DEV_CALL void columns_run(const struct stage_rows_op &s, int n_rows) {
    const int width = s.n_parts * s.len;
    for (int64_t i = grid_thread(); i < (int64_t)n_rows * width; i += grid_threads()) {
        const int64_t row = i / width;
        const int at = (int)(i % width), part = at / s.len, column = at % s.len;
        s.out[row * s.ld_out + part * s.dim + column] =
            load_l2(s.in + row * s.ld_in + part * s.ld_in2 + column);
    }
}

DEV_CALL void softcap_run(const struct stage_rows_op &s, int n_rows) {
    for (int64_t i = grid_thread(); i < (int64_t)n_rows * s.width; i += grid_threads()) {
        float *x = s.out + i / s.width * s.ld_out + i % s.width;
        *x = rmath_capped(load_l2(x), s.cap);
    }
}

// In place. The factor is 1 up to the first length.
DEV_CALL void temper_run(const struct stage_rows_op &s, const struct step &step, int n_rows) {
    for (int64_t i = grid_thread(); i < (int64_t)n_rows * s.width; i += grid_threads()) {
        const int64_t row = i / s.width, periods = ((int64_t)step.pos[row] + s.offset) / s.length;
        if (periods == 0) continue;
        float *x = s.out + row * s.ld_out + i % s.width;
        const double factor = rmath_log((double)(periods + 1)) * (double)s.scale + 1;
        *x = load_l2(x) * (float)factor;
    }
}

#endif

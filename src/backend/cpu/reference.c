// The scalar reference. Readable first: no blocking, no sharing between rows. Called through
// ops_scalar by the program, and directly by the parity tests. Every loop order here is part of the
// numerics contract: do not reorder a sum.
#include "backend/cpu/reference.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/rmath.h"

float reference_fold(float lane[REFERENCE_LANES]) {
    for (int half = REFERENCE_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) lane[i] += lane[i + half];
    return lane[0];
}

void reference_norm_rms(const float *x, const float *w, float *y, int n, float eps, bool add) {
    float lane[REFERENCE_LANES] = {0};
    for (int i = 0; i < n; i++) {
        float *sum = &lane[i % REFERENCE_LANES];
        *sum = fmaf(x[i], x[i], *sum);
    }
    const float r = 1.0f / sqrtf(reference_fold(lane) / (float)n + eps);
    for (int i = 0; i < n; i++) {
        const float v = (x[i] * r) * w[i];
        y[i] = add ? y[i] + v : v;
    }
}

void reference_norm_layer(const float *x, const float *w, const float *bias, float *y, int n,
                          float eps, bool add) {
    float lane[REFERENCE_LANES] = {0}, square[REFERENCE_LANES] = {0};
    for (int i = 0; i < n; i++) lane[i % REFERENCE_LANES] += x[i];
    const float mean = reference_fold(lane) / (float)n;
    for (int i = 0; i < n; i++) {
        const float d = x[i] - mean;
        square[i % REFERENCE_LANES] = fmaf(d, d, square[i % REFERENCE_LANES]);
    }
    const float r = 1.0f / sqrtf(reference_fold(square) / (float)n + eps);
    for (int i = 0; i < n; i++) {
        const float v = fmaf((x[i] - mean) * r, w[i], bias[i]);
        y[i] = add ? y[i] + v : v;
    }
}

// Where pair i's two elements are, in a head and in the table alike.
static void pair_at(const struct plan_rope *rope, int i, int *a, int *b) {
    const bool halves = rope->style == ROPE_HALVES;
    *a = halves ? i : 2 * i;
    *b = halves ? i + rope->n_rot / 2 : 2 * i + 1;
}

void reference_rope_table(const struct plan_rope *rope, int32_t pos, float *table) {
    for (int i = 0; i < rope->n_rot / 2; i++) {
        const float angle = (float)pos * rope->inv_freq[i];
        double s, c;
        rmath_sincos((double)angle, &s, &c);
        int a, b;
        pair_at(rope, i, &a, &b);
        table[a] = (float)c * rope->magnitude;
        table[b] = (float)s * rope->magnitude;
    }
}

void reference_rope(const struct plan_rope *rope, const float *table, int n_head, int dim,
                    float *x) {
    for (int h = 0; h < n_head; h++, x += dim) {
        for (int i = 0; i < rope->n_rot / 2; i++) {
            int a, b;
            pair_at(rope, i, &a, &b);
            const float c = table[a], s = table[b], x0 = x[a], x1 = x[b];
            x[a] = fmaf(x0, c, -(x1 * s));
            x[b] = fmaf(x0, s, x1 * c);
        }
    }
}

void reference_gate_silu(const float *g, const float *u, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float v = g[i] / (1.0f + rmath_exp(-g[i]));
        y[i] = u ? v * u[i] : v;
    }
}

void reference_gate_gelu(const float *g, const float *u, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float inner = fmaf(GELU_CUBE * (g[i] * g[i]), g[i], g[i]), half = 0.5f * g[i];
        const float v = fmaf(half, rmath_tanh(GELU_SCALE * inner), half);
        y[i] = u ? v * u[i] : v;
    }
}

void reference_gate_swiglu_oai(const float *g, const float *u, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float a = g[i] > GATE_OAI_LIMIT ? GATE_OAI_LIMIT : g[i];
        const float v = a / (1.0f + rmath_exp(-(GATE_OAI_ALPHA * a)));
        if (!u) {
            y[i] = v;
            continue;
        }
        float b = u[i] > GATE_OAI_LIMIT ? GATE_OAI_LIMIT : u[i];
        b = b < -GATE_OAI_LIMIT ? -GATE_OAI_LIMIT : b;
        y[i] = v * (b + 1.0f);
    }
}

void reference_gate_sigmoid(const float *g, const float *u, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float v = rmath_sigmoid(g[i]);
        y[i] = u ? v * u[i] : v;
    }
}

void reference_gate_relu2(const float *g, const float *u, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float a = g[i] < 0.0f ? 0.0f : g[i], v = a * a; // a NaN stays
        y[i] = u ? v * u[i] : v;
    }
}

void reference_gate_none(const float *g, const float *u, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = u ? g[i] * u[i] : g[i];
}

void reference_xielu(const struct gate_xielu *gate, const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i], low = v < gate->eps ? v : gate->eps, linear = gate->linear * v;
        const float below = fmaf(gate->below, rmath_expm1(low) - v, linear);
        y[i] = v > 0.0f ? fmaf(gate->above, v * v, linear) : below; // a NaN stays
    }
}

void reference_combine(const float *const *x, const float *w, int k, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int j = 0; j < k; j++) sum = fmaf(w[j], x[j][i], sum);
        y[i] = y[i] + sum;
    }
}

void reference_softcap(float *x, float cap, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = cap * rmath_tanh(x[i] / cap);
}

void reference_temper(float *x, float factor, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] *= factor;
}

void reference_embed(const struct plan_weight *weight, int32_t row, float scale, float *y) {
    assert(row >= 0 && row < weight->rows);
    const uint64_t row_bytes = format_row_bytes(weight->format, weight->cols);
    const uint8_t *data = (const uint8_t *)weight->data + (uint64_t)row * row_bytes;
    format_decode(weight->format, data, y, weight->cols);
    if (scale == 1.0f) return;
    for (int64_t i = 0; i < weight->cols; i++) y[i] *= scale;
}

// Block by block, so that no row has to be held.
void reference_embed_add(const struct plan_weight *weight, int32_t row, float scale, float *y) {
    assert(row >= 0 && row < weight->rows);
    const struct format *format = format_at(weight->format);
    const uint8_t *data = (const uint8_t *)weight->data +
                          (uint64_t)row * format_row_bytes(weight->format, weight->cols);
    float block[FORMAT_MAX_BLOCK];
    for (int64_t k = 0; k < weight->cols; k += format->block, data += format->block_bytes) {
        format_decode(weight->format, data, block, format->block);
        for (int i = 0; i < format->block; i++)
            y[k + i] = y[k + i] + (scale == 1.0f ? block[i] : block[i] * scale);
    }
}

static bool scalar_is_here(void) { return true; }

static uint64_t scalar_stream_read(const void *data, int64_t bytes, int64_t ahead) {
    const uint64_t *at = data;
    uint64_t sum[8] = {0};
    for (int64_t i = 0; i < bytes / 64; i++, at += 8) {
        if (ahead) __builtin_prefetch((const char *)at + ahead);
        for (int j = 0; j < 8; j++) sum[j] ^= at[j];
    }
    for (int j = 1; j < 8; j++) sum[0] ^= sum[j];
    return sum[0];
}

const struct cpu_ops ops_scalar = {
    .isa = ISA_SCALAR,
    .name = "scalar",
    .is_here = scalar_is_here,
    .quantize = quantize_reference,
    .norm_rms = reference_norm_rms,
    .norm_layer = reference_norm_layer,
    .rope_table = reference_rope_table,
    .rope = reference_rope,
    .gate = {[GATE_SILU] = reference_gate_silu,
             [GATE_GELU] = reference_gate_gelu,
             [GATE_SWIGLU_OAI] = reference_gate_swiglu_oai,
             [GATE_SIGMOID] = reference_gate_sigmoid,
             [GATE_RELU2] = reference_gate_relu2,
             [GATE_NONE] = reference_gate_none},
    .xielu = reference_xielu,
    .combine = reference_combine,
    .softcap = reference_softcap,
    .conv = reference_conv,
    .delta = reference_delta,
    .scan = reference_scan,
    .kv_append = reference_kv_append,
    .attention = reference_attention,
    .stream_read = scalar_stream_read,
};

// The searches behind the encoders. All start from the obvious scale, which puts the ends of the
// span on the ends of the levels, and try others around it. Each try fits scale and offset to its
// levels by weighted least squares, and the best is kept. A stored scale is rounded afterwards, and
// the levels are chosen for the scale as stored. Sums are floats: encode_span's limits keep every
// product in range.
#include "quant/encode.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include "base/half.h"

enum { SEARCH_STEPS = 10, SCALE_TOP = 63, SPANS = 8, SPAN = 32, LANES = 4 };
enum { K6_SPANS = 16, K6_SPAN = 16, K6_HALF = 32 };

// Levels by which the obvious scale is stretched or shrunk, per step of the search.
static const float search_step = 0.1f;

// Beyond every format's largest value; below half of every format's smallest (2^-24).
static const float x_max = 0x1p28f, x_min = 0x1p-30f, f16_max = 65504.0f;

static float value_load(float x) {
    const float magnitude = fabsf(x);
    if (!(magnitude >= x_min)) return 0.0f; // and NaN
    return copysignf(magnitude > x_max ? x_max : magnitude, x);
}

void encode_span_load(const float *src, int n, struct encode_span *span) {
    assert(n == 16 || n == 32);
    span->n = n;
    float squares = 0.0f;
    for (int i = 0; i < n; i++) {
        span->x[i] = value_load(src[i]);
        squares += span->x[i] * span->x[i];
    }
    const float rms = sqrtf(squares / (float)n);
    for (int i = 0; i < n; i++) span->weight[i] = rms + fabsf(span->x[i]);
}

uint16_t encode_f16(float scale) {
    const float magnitude = fabsf(scale);
    if (magnitude >= f16_max) return scale < 0.0f ? 0xfbff : 0x7bff;
    const uint16_t bits = f32_to_f16(scale);
    return magnitude < 0x1p-14f && fabsf(f16_to_f32(bits)) < magnitude ? (uint16_t)(bits + 1)
                                                                       : bits;
}

// The nearest integer in [low, high], ties to even: past the magic number a float has no fraction.
static inline float level_of(float v, float low, float high) {
    const float raised = v > low ? v : low, bounded = raised < high ? raised : high;
    return (bounded + 0x1.8p23f) - 0x1.8p23f;
}

// Sums over a span of weight times: level, level^2, level * x.
struct sums {
    float q, qq, qx;
};

// Inlined with a constant n, so that the compiler makes vectors of the loops.
#define UNROLLED static inline __attribute__((always_inline))

UNROLLED float dot_of(const float *a, const float *b, const int n) {
    float lane[LANES] = {0};
    for (int i = 0; i < n; i += LANES) {
        for (int l = 0; l < LANES; l++) lane[l] += a[i + l] * b[i + l];
    }
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

UNROLLED struct sums sums_n(const struct encode_span *span, float base, float factor, float low,
                            float high, const int n) {
    float x[ENCODE_MAX_SPAN], q[ENCODE_MAX_SPAN], wq[ENCODE_MAX_SPAN];
    for (int i = 0; i < n; i++) {
        x[i] = span->x[i] - base;
        q[i] = level_of(x[i] * factor, low, high);
        wq[i] = span->weight[i] * q[i];
    }
    return (struct sums){dot_of(span->weight, q, n), dot_of(wq, q, n), dot_of(wq, x, n)};
}

// With levels q = (x - base) * factor, rounded, and x - base for x.
static struct sums sums_of(const struct encode_span *span, float base, float factor, float low,
                           float high) {
    return span->n == 32 ? sums_n(span, base, factor, low, high, 32)
                         : sums_n(span, base, factor, low, high, 16);
}

UNROLLED float error_n(const struct encode_span *span, float scale, float offset, float low,
                       float high, const int n) {
    const float factor = scale != 0.0f ? 1.0f / scale : 0.0f;
    float error[ENCODE_MAX_SPAN], weighted[ENCODE_MAX_SPAN];
    for (int i = 0; i < n; i++) {
        const float x = span->x[i] - offset;
        error[i] = x - scale * level_of(x * factor, low, high);
        weighted[i] = span->weight[i] * error[i];
    }
    return dot_of(weighted, error, n);
}

float encode_error(const struct encode_span *span, float scale, float offset, int low, int high) {
    return span->n == 32 ? error_n(span, scale, offset, (float)low, (float)high, 32)
                         : error_n(span, scale, offset, (float)low, (float)high, 16);
}

void encode_levels(const struct encode_span *span, float scale, float offset, int low, int high,
                   uint8_t *level) {
    const float factor = scale != 0.0f ? 1.0f / scale : 0.0f;
    for (int i = 0; i < span->n; i++) {
        const float q = level_of((span->x[i] - offset) * factor, (float)low, (float)high);
        level[i] = (uint8_t)((int)q - low);
    }
}

static float extreme_of(const struct encode_span *span) {
    float extreme = 0.0f;
    for (int i = 0; i < span->n; i++) {
        if (fabsf(span->x[i]) > fabsf(extreme)) extreme = span->x[i];
    }
    return extreme;
}

float encode_symmetric_scale(const struct encode_span *span, int half) {
    const float extreme = extreme_of(span), low = (float)-half, high = (float)(half - 1);
    if (extreme == 0.0f) return 0.0f;
    float best_scale = extreme / low,
          best_error = encode_error(span, best_scale, 0.0f, -half, half - 1);
    for (int step = -SEARCH_STEPS; step <= SEARCH_STEPS; step++) {
        const float factor = (low + search_step * (float)step) / extreme;
        const struct sums sums = sums_of(span, 0.0f, factor, low, high);
        if (!(sums.qq > 0.0f)) continue;
        const float scale = sums.qx / sums.qq;
        const float error = encode_error(span, scale, 0.0f, -half, half - 1);
        if (error < best_error) best_error = error, best_scale = scale;
    }
    return best_scale;
}

static float clamp(float v, float min, float max) { return v < min ? min : v > max ? max : v; }

// Scale and offset by least squares for the levels behind `sums`; false: there is no such scale.
static bool affine_fit(const struct sums *sums, float w, float wx, float base, float min, float max,
                       float *scale, float *offset) {
    const float det = w * sums->qq - sums->q * sums->q;
    if (!(det > 0.0f)) return false;
    const float free_offset = base + (sums->qq * wx - sums->q * sums->qx) / det;
    *offset = clamp(free_offset, min, max);
    *scale = *offset == free_offset ? (w * sums->qx - wx * sums->q) / det
                                    : (sums->qx - (*offset - base) * sums->q) / sums->qq;
    return *scale > 0.0f;
}

void encode_affine_scale(const struct encode_span *span, int top, float min, float max,
                         float *scale, float *offset) {
    float low = span->x[0], high = span->x[0], w = 0.0f, wx = 0.0f;
    for (int i = 1; i < span->n; i++) {
        low = span->x[i] < low ? span->x[i] : low;
        high = span->x[i] > high ? span->x[i] : high;
    }
    const float base = clamp(low, min, max), range = high - base;
    *scale = 0.0f, *offset = base;
    if (!(range > 0.0f)) return;
    for (int i = 0; i < span->n; i++) {
        w += span->weight[i];
        wx += span->weight[i] * (span->x[i] - base);
    }
    *scale = range / (float)top;
    float best = encode_error(span, *scale, base, 0, top);
    for (int step = -SEARCH_STEPS; step <= SEARCH_STEPS; step++) {
        const float factor = ((float)top + search_step * (float)step) / range;
        const struct sums sums = sums_of(span, base, factor, 0.0f, (float)top);
        float s, o;
        if (!affine_fit(&sums, w, wx, base, min, max, &s, &o)) continue;
        const float error = encode_error(span, s, o, 0, top);
        if (error < best) best = error, *scale = s, *offset = o;
    }
}

uint16_t encode_symmetric_block(const float *src, int half, uint8_t level[32]) {
    struct encode_span span;
    encode_span_load(src, SPAN, &span);
    const uint16_t d = encode_f16(encode_symmetric_scale(&span, half));
    encode_levels(&span, f16_to_f32(d), 0.0f, -half, half - 1, level);
    return d;
}

void encode_affine_block(const float *src, int top, struct encode_affine *out) {
    struct encode_span span;
    float scale, offset;
    encode_span_load(src, SPAN, &span);
    encode_affine_scale(&span, top, -f16_max, f16_max, &scale, &offset);
    out->d = encode_f16(scale);
    out->m = f32_to_f16(offset);
    encode_levels(&span, f16_to_f32(out->d), f16_to_f32(out->m), 0, top, out->level);
}

// Rounding scale and minimum to 6 bits one by one is not the best that the pair can be: looks
// around them too.
static void k_span_choose(const struct encode_span *span, int top, float d, float dmin, float scale,
                          float offset, uint8_t *sc, uint8_t *m) {
    const float sc_near = d > 0.0f ? level_of(scale / d, 0.0f, SCALE_TOP) : 0.0f;
    const float m_near = dmin > 0.0f ? level_of(-offset / dmin, 0.0f, SCALE_TOP) : 0.0f;
    float best = INFINITY;
    for (int i = -1; i <= 1; i++) {
        for (int j = -1; j <= 1; j++) {
            const float sc_try = sc_near + (float)i, m_try = m_near + (float)j;
            if (sc_try < 0 || sc_try > SCALE_TOP || m_try < 0 || m_try > SCALE_TOP) continue;
            const float error = encode_error(span, d * sc_try, -(dmin * m_try), 0, top);
            if (error < best) best = error, *sc = (uint8_t)sc_try, *m = (uint8_t)m_try;
        }
    }
}

void encode_k_block(const float *src, int top, struct encode_k *out) {
    struct encode_span span[SPANS];
    float scale[SPANS], offset[SPANS], scale_max = 0.0f, min_max = 0.0f;
    for (int i = 0; i < SPANS; i++) {
        encode_span_load(src + i * SPAN, SPAN, &span[i]);
        encode_affine_scale(&span[i], top, -f16_max * SCALE_TOP, 0.0f, &scale[i], &offset[i]);
        scale_max = scale[i] > scale_max ? scale[i] : scale_max;
        min_max = -offset[i] > min_max ? -offset[i] : min_max;
    }
    out->d = encode_f16(scale_max / SCALE_TOP);
    out->dmin = encode_f16(min_max / SCALE_TOP);
    const float d = f16_to_f32(out->d), dmin = f16_to_f32(out->dmin);
    for (int i = 0; i < SPANS; i++) {
        k_span_choose(&span[i], top, d, dmin, scale[i], offset[i], &out->sc[i], &out->m[i]);
        encode_levels(&span[i], d * (float)out->sc[i], -(dmin * (float)out->m[i]), 0, top,
                      out->level + i * SPAN);
    }
}

static int8_t k6_span_choose(const struct encode_span *span, float d, float scale) {
    const float near = d != 0.0f ? level_of(scale / d, INT8_MIN, INT8_MAX) : 0.0f;
    float best = INFINITY, sc = 0.0f;
    for (float try = near - 1.0f; try <= near + 1.0f; try += 1.0f) {
        if (try < INT8_MIN || try > INT8_MAX) continue;
        const float error = encode_error(span, d * try, 0.0f, -K6_HALF, K6_HALF - 1);
        if (error < best) best = error, sc = try;
    }
    return (int8_t)sc;
}

void encode_k6_block(const float *src, struct encode_k6 *out) {
    struct encode_span span[K6_SPANS];
    float scale[K6_SPANS], extreme = 0.0f;
    for (int i = 0; i < K6_SPANS; i++) {
        encode_span_load(src + i * K6_SPAN, K6_SPAN, &span[i]);
        scale[i] = encode_symmetric_scale(&span[i], K6_HALF);
        extreme = fabsf(scale[i]) > fabsf(extreme) ? scale[i] : extreme;
    }
    out->d = encode_f16(extreme / INT8_MIN); // int8 reaches one further below than above
    const float d = f16_to_f32(out->d);
    for (int i = 0; i < K6_SPANS; i++) {
        out->sc[i] = k6_span_choose(&span[i], d, scale[i]);
        encode_levels(&span[i], d * (float)out->sc[i], 0.0f, -K6_HALF, K6_HALF - 1,
                      out->level + i * K6_SPAN);
    }
}

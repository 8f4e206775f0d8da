// The definition of the matrix product and of activation quantization: scalar, in the order of the
// numerics contract (docs/NUMERICS.md). Every tuned kernel gives these bits; so does a machine
// without one, which runs this code.
//
// Invariant: the operations on one (row, token) and their order do not depend on n or on the range
// of groups. Tokens are tiled only so that a block of weights is decoded once for many of them.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/matmul.h"
#include "base/fma.h"
#include "base/half.h"

enum { TOKEN_TILE = 64, FLOAT_CHUNK = 256, SUM_SPAN = 16 };

static int dot_int8(const int8_t *a, const int8_t *b, int n) {
    int dot = 0;
    for (int i = 0; i < n; i++) dot += a[i] * b[i];
    return dot;
}

static int sum_int16(const int16_t *v, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += v[i];
    return sum;
}

static inline __attribute__((always_inline)) void row_float_add(const struct format *format,
                                                                const struct matmul_args *args,
                                                                const uint8_t *row, int token,
                                                                int n, float *acc) {
    float w[FLOAT_CHUNK];
    for (int64_t k = 0; k < args->cols; k += FLOAT_CHUNK) {
        const int64_t left = args->cols - k, count = left < FLOAT_CHUNK ? left : FLOAT_CHUNK;
        format->to_f32(row + k * format->block_bytes, w, count);
        for (int t = 0; t < n; t++) {
            const float *x = args->x + (token + t) * args->ldx + k;
            float sum = acc[t];
            for (int64_t i = 0; i < count; i++) sum = fmaf(w[i], x[i], sum);
            acc[t] = sum;
        }
    }
}

static void row_float(const struct format *format, const struct matmul_args *args,
                      const uint8_t *row, int token, int n, float *acc) {
    row_float_add(format, args, row, token, n, acc);
}

FMA_TARGET static void row_float_fma(const struct format *format, const struct matmul_args *args,
                                     const uint8_t *row, int token, int n, float *acc) {
    row_float_add(format, args, row, token, n, acc);
}

// One block of one row with one token: the spans in order.
static float block_accumulate(const struct format *format, const struct matmul_args *args,
                              int token, int64_t k, const int8_t *q, const float *scale,
                              const float *offset, float acc) {
    const struct matmul_x x = matmul_x_of(args->n, token, args->cols);
    for (int begin = 0; begin < format->block; begin += format->span) {
        const int span = begin / format->span, within = begin % MATMUL_SPAN;
        const int64_t at = x.first + (k + begin) / MATMUL_SPAN * x.stride;
        const float d = args->xd[at];
        const int dot = dot_int8(q + begin, args->xq + at * MATMUL_SPAN + within, format->span);
        acc = fmaf((float)dot, scale[span] * d, acc);
        if (format->has_offset) {
            const int16_t *halves = args->xsum + at * 2 + within / SUM_SPAN;
            const int sum = sum_int16(halves, format->span / SUM_SPAN);
            acc = fmaf(offset[span], d * (float)sum, acc);
        }
    }
    return acc;
}

static void row_block(const struct format *format, const struct matmul_args *args,
                      const uint8_t *row, int token, int n, float *acc) {
    int8_t q[FORMAT_MAX_BLOCK];
    float scale[FORMAT_MAX_SPANS], offset[FORMAT_MAX_SPANS];
    for (int64_t k = 0; k < args->cols; k += format->block, row += format->block_bytes) {
        format->unpack(row, q, scale, offset);
        for (int t = 0; t < n; t++) {
            acc[t] = block_accumulate(format, args, token + t, k, q, scale, offset, acc[t]);
        }
    }
}

static void result_store(const struct matmul_args *args, int64_t row, int token, float y) {
    float *out = args->y + token * args->ldy + row;
    if (args->scale != 1.0f) y = y * args->scale;
    if (args->bias) y = y + args->bias[row];
    *out = args->add ? *out + y : y;
}

void matmul_reference(enum format_id format_id, const struct matmul_args *args, int64_t group_begin,
                      int64_t group_end) {
    const struct format *format = format_at(format_id);
    assert(format->span == 0 || args->cols % format->block == 0);
    const int64_t row_bytes = args->cols / format->block * format->block_bytes;
    const int64_t end = group_end * MATMUL_GROUP;
    void (*const row_fn)(const struct format *, const struct matmul_args *, const uint8_t *, int,
                         int, float *) = format->span ? row_block
                                         : has_fma()  ? row_float_fma
                                                      : row_float;
    for (int64_t row = group_begin * MATMUL_GROUP; row < end && row < args->rows; row++) {
        const uint8_t *w = (const uint8_t *)args->w + row * row_bytes;
        for (int token = 0; token < args->n; token += TOKEN_TILE) {
            const int left = args->n - token, n = left < TOKEN_TILE ? left : TOKEN_TILE;
            float acc[TOKEN_TILE] = {0};
            row_fn(format, args, w, token, n, acc);
            for (int t = 0; t < n; t++) result_store(args, row, token + t, acc[t]);
        }
    }
}

static uint32_t magnitude_bits(float x) { return f32_to_bits(x) & 0x7fffffffu; }

// d and the factor that quantizes, for a block whose largest magnitude is amax (as bits).
static float block_scale(uint32_t amax_bits, float *factor) {
    *factor = 0.0f;
    if (amax_bits >= 0x7f800000u) return NAN; // reaches the logits, where it is reported
    const float amax = f32_from_bits(amax_bits);
    const float id = amax > 0.0f ? 127.0f / amax : 0.0f;
    if (id == INFINITY) return 0.0f; // amax below 127 / FLT_MAX
    *factor = id;
    return amax / 127.0f;
}

void quantize_reference(const float *x, int64_t n, int8_t *q, float *d, int16_t *sum,
                        int64_t stride) {
    assert(n % MATMUL_SPAN == 0);
    for (int64_t begin = 0; begin < n; begin += MATMUL_SPAN, x += MATMUL_SPAN) {
        uint32_t amax = 0;
        for (int i = 0; i < MATMUL_SPAN; i++) {
            const uint32_t magnitude = magnitude_bits(x[i]);
            if (magnitude > amax) amax = magnitude;
        }
        float factor;
        *d = block_scale(amax, &factor);
        sum[0] = sum[1] = 0;
        for (int i = 0; i < MATMUL_SPAN; i++) {
            // A factor of 0 stands for "all zero" and must not meet the NaN or infinity.
            q[i] = factor == 0.0f ? 0 : (int8_t)rintf(x[i] * factor);
            sum[i / SUM_SPAN] = (int16_t)(sum[i / SUM_SPAN] + q[i]);
        }
        q += MATMUL_SPAN * stride, d += stride, sum += 2 * stride;
    }
}

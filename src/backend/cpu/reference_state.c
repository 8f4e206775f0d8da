// The scalar reference of the ops with a state: convolution, delta rule, scan. Called and compared
// as reference.c is. Every loop order here is part of the numerics contract: do not reorder a sum.
#include <math.h>
#include <string.h>

#include "backend/cpu/reference.h"
#include "backend/cpu/state.h"

// Input `row` of a channel; negative rows are those of the state, of which -1 is the last.
static float conv_input(const struct conv_args *args, int row, int channel) {
    if (row >= 0) return args->x[row * args->ldx + channel];
    return args->before ? args->before[(args->taps - 1 + row) * args->ld + channel] : 0.0f;
}

void reference_conv(const struct conv_args *args) {
    const int past = args->taps - 1;
    for (int c = 0; c < args->n; c++) {
        for (int r = 0; r < args->n_rows; r++) {
            float sum = args->bias ? args->bias[c] : 0.0f;
            for (int t = 0; t < args->taps; t++)
                sum = fmaf(args->w[t * args->ld + c], conv_input(args, r - past + t, c), sum);
            args->y[r * args->ldy + c] = args->silu ? sum / (1.0f + rmath_exp(-sum)) : sum;
        }
        // ascending: a row of the state is read before it is written
        for (int t = 0; t < past; t++)
            args->after[t * args->ld + c] = conv_input(args, args->n_rows - past + t, c);
    }
}

// 1 / the length of x.
static float length_inverse(const float *x, int n, float eps) {
    float lane[REFERENCE_LANES] = {0};
    for (int i = 0; i < n; i++) {
        float *sum = &lane[i % REFERENCE_LANES];
        *sum = fmaf(x[i], x[i], *sum);
    }
    return 1.0f / sqrtf(reference_fold(lane) + eps);
}

void reference_delta(const struct delta_args *args) {
    const int dim = args->dim_k;
    const float scale = 1.0f / sqrtf((float)dim);
    float *k = args->scratch, *q = k + dim;
    for (int r = 0; r < args->n_rows; r++) {
        const struct delta_gates g = delta_gates_of(args, r);
        const float *row_k = args->k + r * args->ld, *row_q = args->q + r * args->ld;
        const void *from = r ? args->after : args->before;
        const float by_k = length_inverse(row_k, dim, args->eps);
        const float by_q = length_inverse(row_q, dim, args->eps) * scale;
        for (int i = 0; i < dim; i++) {
            k[i] = row_k[i] * by_k;
            q[i] = row_q[i] * by_q;
        }
        for (int c = 0; c < args->n; c++) {
            float known = 0, out = 0;
            for (int i = 0; i < dim; i++) {
                const float old = state_get(from, i * args->lds + c, args->is_bf16) * g.decay;
                known = fmaf(old, k[i], known);
            }
            const float delta = g.beta * (args->v[r * args->ld + c] - known);
            for (int i = 0; i < dim; i++) {
                const float old = state_get(from, i * args->lds + c, args->is_bf16) * g.decay;
                const float s = fmaf(k[i], delta, old);
                state_put(args->after, i * args->lds + c, s, args->is_bf16);
                out = fmaf(s, q[i], out);
            }
            args->y[r * args->ldy + c] = out;
        }
    }
}

void reference_scan(const struct scan_args *args) {
    for (int r = 0; r < args->n_rows; r++) {
        const struct scan_gates g = scan_gates_of(args, r);
        const float *b = args->b + r * args->ld, *c = args->c + r * args->ld;
        const float *x = args->x + r * args->ld;
        const void *from = r ? args->after : args->before;
        for (int j = 0; j < args->n; j++) {
            const float input = g.dt * x[j];
            float out = 0;
            for (int i = 0; i < args->dim_k; i++) {
                const float old = state_get(from, i * args->lds + j, args->is_bf16) * g.decay;
                const float s = fmaf(b[i], input, old);
                state_put(args->after, i * args->lds + j, s, args->is_bf16);
                out = fmaf(s, c[i], out);
            }
            args->y[r * args->ldy + j] = fmaf(args->skip, x[j], out);
        }
    }
}

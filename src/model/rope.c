// The frequencies of rotary positions: base^(-2i / n_rot), then scaled as the file says: linear,
// by divisors that the file lists for each frequency (Llama 3.1, Phi-3's long form), or yarn.
#include <math.h>
#include <stdlib.h>

#include "base/rmath.h"
#include "model/arch.h"

static const double pi = 3.14159265358979323846;

// The dimension whose frequency turns `rotations` times over the original context.
static double yarn_dimension(const struct hparams_rope *rope, double rotations) {
    return rope->n_rot * rmath_log(rope->n_ctx_original / (rotations * 2 * pi)) /
           (2 * rmath_log((double)rope->base));
}

// The share of interpolation: 0 for the fast frequencies, 1 for the slow ones, a ramp between.
static double yarn_share(const struct hparams_rope *rope, int i) {
    double low = yarn_dimension(rope, (double)rope->beta_fast);
    double high = yarn_dimension(rope, (double)rope->beta_slow);
    if (rope->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low < 0 ? 0 : low;
    high = high > rope->n_rot - 1 ? rope->n_rot - 1 : high;
    const double width = high - low < 0.001 ? 0.001 : high - low, share = (i - low) / width;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

static void frequencies(const struct hparams_rope *rope, float *inv_freq) {
    for (int i = 0; i < rope->n_rot / 2; i++) {
        const double plain =
            rmath_exp_double(-2.0 * i / rope->n_rot * rmath_log((double)rope->base));
        if (rope->scaling == ROPE_SCALING_YARN) {
            const double share = yarn_share(rope, i);
            inv_freq[i] = (float)(plain * (1 - share) + plain / (double)rope->factor * share);
        } else {
            inv_freq[i] = (float)plain / rope->factor;
        }
    }
}

static float magnitude(const struct hparams_rope *rope) {
    if (rope->scaling != ROPE_SCALING_YARN || rope->factor <= 1) return rope->magnitude;
    return rope->magnitude * (float)(0.1 * rmath_log((double)rope->factor) + 1);
}

// The divisors of the file; ones where it has none. Of Phi-3's two lists the long one is used where
// the model's context is longer than the original. The model decides, not a request's length, so
// that a text does not depend on the context that it was given.
static void divide(struct builder *b, const struct hparams_rope *rope, float *inv_freq,
                   float *divisor) {
    const bool is_long = rope->n_ctx_original && b->model->hp.n_ctx > rope->n_ctx_original;
    const int n = rope->n_rot / 2;
    const char *const names[] = {"rope_freqs",
                                 is_long ? "rope_factors_long" : "rope_factors_short"};
    for (int k = 0; k < 2 && !rope->is_undivided; k++) {
        if (!bind_values(b, names[k], divisor, n)) continue;
        for (int i = 0; i < n; i++) inv_freq[i] /= divisor[i];
    }
}

int build_frequencies(struct builder *b, const struct hparams_rope *rope) {
    const int n = rope->n_rot / 2, n_ctx = (b->target ? b->target : b->model)->hp.n_ctx;
    if (b->status || b->plan->failed) return PLAN_NONE;
    float *inv_freq = calloc((size_t)n * 2, sizeof *inv_freq);
    if (!inv_freq) {
        b->status = err_set(b->err, RN_ERR_NOMEM, "no memory for the plan");
        return PLAN_NONE;
    }
    frequencies(rope, inv_freq);
    divide(b, rope, inv_freq, inv_freq + n);
    for (int i = 0; i < n && !b->status; i++) {
        // sine and cosine are exact enough up to this angle; real models stay far below
        if (!(fabsf(inv_freq[i]) * (float)n_ctx <= 1e8f))
            b->status = err_set(
                b->err, RN_ERR_MODEL,
                "%s: rope frequency %d is %g (rope_freqs.weight or rope.scaling.factor): its "
                "angle at position %d is out of range",
                weights_name(b->weights), i, (double)inv_freq[i], n_ctx);
    }
    const struct plan_rope added = {.style = rope->style,
                                    .n_rot = rope->n_rot,
                                    .inv_freq = inv_freq,
                                    .magnitude = magnitude(rope),
                                    .ahead = b->target != NULL};
    const int index = b->status ? PLAN_NONE : plan_add_rope(b->plan, &added);
    free(inv_freq);
    return index;
}

// The rope parameters of config.json in GGUF's form: keys, and for two kinds of scaling tensors of
// divisors. Both styles are read: old (rope_theta, rope_scaling) and new (rope_parameters, for each
// kind of layer where they differ). The magnitude of yarn's cos and sin is 0.1 ln(factor) + 1,
// which GGUF does not write; where the config gives another, `rope.scaling.attn_factor` is the
// ratio of the two. Beside GGUF's keys: `rope.scaling.yarn_truncate`. Called by hf_config.c.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jread.h"
#include "base/rmath.h"
#include "weights/hf.h"

enum { TYPE_MAX = 32 };

// The value of the rope's own object, or else the one beside it.
static double number_near(struct hf_config *c, const char *key, double min, double max,
                          double fallback) {
    return hf_number(c, hf_has(c, &c->rope, key) ? &c->rope : &c->root, key, min, max, fallback);
}

static void type_read(struct hf_config *c, const struct hf_object *rope, char type[TYPE_MAX]) {
    hf_string(c, rope, hf_has(c, rope, "rope_type") ? "rope_type" : "type", type, TYPE_MAX);
    if (!type[0]) snprintf(type, TYPE_MAX, "default");
}

// Fills c->rope and, where local layers have their own, c->rope_local.
static void objects_read(struct hf_config *c) {
    const char *key = hf_has(c, &c->root, "rope_parameters") ? "rope_parameters" : "rope_scaling";
    if (!hf_has(c, &c->root, key)) return;
    struct hf_object outer = {0};
    hf_object_read(c, hf_find(c, &c->root, key), &outer);
    if (!hf_has(c, &outer, "full_attention") && !hf_has(c, &outer, "sliding_attention")) {
        c->rope = outer;
        return;
    }
    if (hf_has(c, &outer, "full_attention"))
        hf_object_read(c, hf_find(c, &outer, "full_attention"), &c->rope);
    if (hf_has(c, &outer, "sliding_attention"))
        hf_object_read(c, hf_find(c, &outer, "sliding_attention"), &c->rope_local);
}

// A fallback of 0: the factor must be there.
static double factor_read(struct hf_config *c, double fallback) {
    if (fallback == 0 && !hf_has(c, &c->rope, "factor"))
        hf_fail(c, RN_ERR_MODEL, "rope scaling: factor is missing");
    return hf_number(c, &c->rope, "factor", 1e-6, 1e6, fallback);
}

int64_t hf_original_context(struct hf_config *c) {
    const char *key = "original_max_position_embeddings";
    return hf_int(c, hf_has(c, &c->rope, key) ? &c->rope : &c->root, key, 2, INT32_MAX, c->n_ctx);
}

static double yarn_mscale(double factor, double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * rmath_log(factor) + 1;
}

// Factors that transformers does not read and other engines multiply by.
static void need_one(struct hf_config *c, const char *key) {
    if (hf_number(c, &c->rope, key, 0, 1e6, 1) != 1)
        hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->rope, key, "1");
}

void hf_scaling_yarn(struct hf_config *c, double theta) {
    (void)theta;
    const double factor = factor_read(c, 0);
    if (c->status != RN_OK) return;
    hf_put_string(c, "rope.scaling.type", "yarn");
    hf_put_f32(c, "rope.scaling.factor", factor);
    hf_put_u32(c, "rope.scaling.original_context_length", hf_original_context(c));
    if (hf_has(c, &c->rope, "beta_fast"))
        hf_put_f32(c, "rope.scaling.yarn_beta_fast",
                   hf_number(c, &c->rope, "beta_fast", 1e-6, 1e6, 0));
    if (hf_has(c, &c->rope, "beta_slow"))
        hf_put_f32(c, "rope.scaling.yarn_beta_slow",
                   hf_number(c, &c->rope, "beta_slow", 1e-6, 1e6, 0));
    if (hf_has(c, &c->rope, "truncate"))
        hf_put_bool(c, "rope.scaling.yarn_truncate", hf_bool(c, &c->rope, "truncate", true));
    need_one(c, "attn_factor");
    need_one(c, "extrapolation_factor");
    if (hf_has(c, &c->rope, "attention_factor")) {
        hf_put_f32(c, "rope.scaling.attn_factor",
                   hf_number(c, &c->rope, "attention_factor", 1e-6, 1e6, 1) /
                       yarn_mscale(factor, 1));
        return;
    }
    const double mscale = hf_number(c, &c->rope, "mscale", 0, 1e6, 0);
    const double all = hf_number(c, &c->rope, "mscale_all_dim", 0, 1e6, 0);
    if (mscale > 0 && all > 0)
        hf_put_f32(c, "rope.scaling.attn_factor",
                   yarn_mscale(factor, mscale) / yarn_mscale(factor, all) / yarn_mscale(factor, 1));
}

// Divisors of the frequencies: 1 for short waves, the factor for long ones, smooth between. In f32,
// step by step as the converter computes them, so that the tensor equals a converted file's.
void hf_scaling_llama3(struct hf_config *c, double theta) {
    const float factor = (float)factor_read(c, 8);
    const float low = (float)hf_number(c, &c->rope, "low_freq_factor", 1e-6, 1e6, 1);
    const float high = (float)hf_number(c, &c->rope, "high_freq_factor", 1e-6, 1e6, 4);
    const float context =
        (float)hf_int(c, &c->rope, "original_max_position_embeddings", 2, INT32_MAX, 8192);
    const float long_wave = context / low, short_wave = context / high;
    if (c->status == RN_OK && high < low)
        hf_fail(c, RN_ERR_MODEL, "rope scaling: high_freq_factor %g is below low_freq_factor %g",
                (double)high, (double)low);
    const int64_t n = c->n_rot / 2;
    float *divisor;
    if (c->status != RN_OK ||
        hf_tensor_new(c, "rope_freqs.weight", FORMAT_F32, 1, &n, (void **)&divisor) != RN_OK)
        return;
    for (int64_t i = 0; i < n; i++) {
        const float exponent = (float)(2 * i) / (float)c->n_rot;
        const float freq = 1 / (float)rmath_exp_double((double)exponent * rmath_log(theta));
        const float wave = 1 / freq * 6.283185307179586f;
        // Llama 4 has one bound of both, and so no wave between
        const float smooth = high > low ? (1 / wave * context - low) / (high - low) : 0;
        divisor[i] = wave < short_wave  ? 1
                     : wave > long_wave ? factor
                                        : 1 / ((1 - smooth) / factor + smooth);
    }
}

static void factors_read(struct hf_config *c, const char *key, const char *name) {
    const struct hf_value value = hf_find(c, &c->rope, key);
    const int64_t n = c->n_rot / 2;
    float *out;
    if (c->status != RN_OK || hf_tensor_new(c, name, FORMAT_F32, 1, &n, (void **)&out) != RN_OK)
        return;
    struct jread json;
    double factor;
    int64_t count = 0;
    bool ok = hf_has(c, &c->rope, key);
    if (ok) jread_init(&json, value.text, value.len);
    ok = ok && jread_enter_array(&json);
    while (ok && jread_next_item(&json)) {
        ok = jread_f64(&json, &factor) && factor >= 1e-6 && factor <= 1e9 && count < n;
        if (ok) out[count++] = (float)factor;
    }
    char expected[64];
    snprintf(expected, sizeof expected, "an array of %lld positive numbers", (long long)n);
    if (!ok || count != n) hf_fail_value(c, RN_ERR_MODEL, &c->rope, key, expected);
}

// PhiMoE gives the magnitude itself, once for each list of divisors.
static double mscale_read(struct hf_config *c) {
    const double of_long = hf_number(c, &c->rope, "long_mscale", 1e-6, 1e6, 1);
    const double of_short = hf_number(c, &c->rope, "short_mscale", 1e-6, 1e6, of_long);
    if (c->status == RN_OK && of_long != of_short)
        hf_fail(c, RN_ERR_UNSUPPORTED,
                "rope scaling: short_mscale %g is not supported beside long_mscale %g", of_short,
                of_long);
    return of_long;
}

void hf_scaling_longrope(struct hf_config *c, double theta) {
    (void)theta;
    const double original = (double)hf_original_context(c);
    const double scale = (double)c->n_ctx / original;
    factors_read(c, "long_factor", "rope_factors_long.weight");
    factors_read(c, "short_factor", "rope_factors_short.weight");
    double computed = scale > 1 ? sqrt(1 + rmath_log(scale) / rmath_log(original)) : 1;
    if (hf_has(c, &c->rope, "long_mscale")) computed = mscale_read(c);
    hf_put_f32(c, "rope.scaling.attn_factor",
               hf_number(c, &c->rope, "attention_factor", 1e-6, 1e6, computed));
}

void hf_scaling_linear(struct hf_config *c, double theta) {
    (void)theta;
    const double factor = factor_read(c, 0);
    hf_put_string(c, "rope.scaling.type", "linear");
    hf_put_f32(c, "rope.scaling.factor", factor);
}

// As converters write it: divisors that are 1, or so large that nothing turns.
void hf_scaling_proportional(struct hf_config *c, double theta) {
    (void)theta;
    const float factor = (float)factor_read(c, 1);
    const double part = hf_number(c, &c->rope, "partial_rotary_factor", 0, 1, 1);
    const int64_t n = c->n_rot / 2, turned = (int64_t)((double)c->n_rot * part / 2);
    float *divisor;
    if (c->status != RN_OK ||
        hf_tensor_new(c, "rope_freqs.weight", FORMAT_F32, 1, &n, (void **)&divisor) != RN_OK)
        return;
    for (int64_t i = 0; i < n; i++) divisor[i] = i < turned ? factor : 1e30f;
}

// Of that kind the part is not one of the head, but of its frequencies.
static bool is_proportional(struct hf_config *c) {
    char type[TYPE_MAX];
    type_read(c, &c->rope, type);
    return strcmp(type, "proportional") == 0;
}

const struct hf_scaling hf_scalings[] = {
    {"linear", hf_scaling_linear},
    {"yarn", hf_scaling_yarn},
    {"llama3", hf_scaling_llama3},
    {0},
};

static void scaling_read(struct hf_config *c, double theta) {
    const struct hf_scaling *known = c->class->rope.scalings;
    char type[TYPE_MAX];
    type_read(c, &c->rope, type);
    if (c->status != RN_OK || strcmp(type, "default") == 0) return;
    for (known = known ? known : hf_scalings; known->type; known++) {
        if (strcmp(type, known->type) != 0) continue;
        known->read(c, theta);
        return;
    }
    hf_fail(c, RN_ERR_UNSUPPORTED, "rope scaling: type \"%s\" is not supported for %s", type,
            c->arch);
}

// Local layers have a base of their own, and no scaling.
static void local_read(struct hf_config *c, double part) {
    char type[TYPE_MAX];
    double theta =
        hf_number(c, &c->root, "rope_local_base_freq", 1, 1e15, c->class->rope.theta_local);
    theta = hf_number(c, &c->rope_local, "rope_theta", 1, 1e15, theta);
    type_read(c, &c->rope_local, type);
    if (strcmp(type, "default") != 0)
        hf_fail(c, RN_ERR_UNSUPPORTED,
                "rope scaling: type \"%s\" of sliding_attention is not supported", type);
    const double own = hf_number(c, &c->rope_local, "partial_rotary_factor", 1e-6, 1, part);
    if (own != part)
        hf_fail(c, RN_ERR_UNSUPPORTED,
                "partial_rotary_factor %g of sliding_attention is not supported, only %g", own,
                part);
    if (theta > 0) hf_put_f32(c, "rope.freq_base_swa", theta);
}

void hf_rope_read(struct hf_config *c) {
    if (c->status != RN_OK || c->class->rope.theta == 0) return;
    objects_read(c);
    const double theta = number_near(c, "rope_theta", 1, 1e15, c->class->rope.theta);
    const double whole = c->class->rope.part > 0 ? c->class->rope.part : 1;
    const double part =
        is_proportional(c) ? 1 : number_near(c, "partial_rotary_factor", 1e-6, 1, whole);
    if (c->status != RN_OK) return;
    if (part != 1 && !c->class->rope.is_partial) {
        hf_fail(c, RN_ERR_UNSUPPORTED, "partial_rotary_factor %g is not supported for %s", part,
                c->arch);
        return;
    }
    c->n_rot = (int64_t)((double)c->head_dim * part);
    if (c->n_rot < 2 || c->n_rot % 2 != 0) {
        hf_fail(c, RN_ERR_MODEL,
                "%lld of a head's %lld elements are rotated, expected an even number",
                (long long)c->n_rot, (long long)c->head_dim);
        return;
    }
    hf_put_u32(c, "rope.dimension_count", c->n_rot);
    hf_put_f32(c, "rope.freq_base", c->class->rope.base ? c->class->rope.base(c, theta) : theta);
    if (c->class->rope.more) c->class->rope.more(c);
    local_read(c, part);
    scaling_read(c, theta);
    if (c->class->rope.is_permuted) hf_put_bool(c, "rope.halves", true);
}

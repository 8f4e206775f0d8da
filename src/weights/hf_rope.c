// The rope parameters of config.json, old style (rope_theta, rope_scaling) and new
// (rope_parameters, for each kind of layer where they differ), as GGUF has them: keys, and for two
// kinds of scaling tensors of divisors. The magnitude of yarn's cos and sin is 0.1 ln(factor) + 1,
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

static double theta_default(enum hf_family family) {
    switch (family) {
    case HF_MIXTRAL:
    case HF_GEMMA3:
        return 1e6;
    case HF_SMOLLM3:
        return 2e6;
    case HF_GPTOSS:
        return 150000;
    default:
        return 10000;
    }
}

// The value of the rope's own object, or else the one beside it.
static double number_near(struct hf_config *c, enum hf_field field, double min, double max,
                          double fallback) {
    return hf_number(c, hf_has(&c->rope, field) ? &c->rope : &c->root, field, min, max, fallback);
}

static void type_read(struct hf_config *c, const struct hf_object *rope, char type[TYPE_MAX]) {
    hf_string(c, rope, hf_has(rope, HF_rope_type) ? HF_rope_type : HF_type, type, TYPE_MAX);
    if (!type[0]) snprintf(type, TYPE_MAX, "default");
}

// Fills c->rope and, where local layers have their own, c->rope_local.
static void objects_read(struct hf_config *c) {
    const enum hf_field field =
        hf_has(&c->root, HF_rope_parameters) ? HF_rope_parameters : HF_rope_scaling;
    if (!hf_has(&c->root, field)) return;
    struct hf_object outer = {0};
    hf_object_read(c, c->root.value[field], &outer);
    if (!hf_has(&outer, HF_full_attention) && !hf_has(&outer, HF_sliding_attention)) {
        c->rope = outer;
        return;
    }
    if (hf_has(&outer, HF_full_attention))
        hf_object_read(c, outer.value[HF_full_attention], &c->rope);
    if (hf_has(&outer, HF_sliding_attention))
        hf_object_read(c, outer.value[HF_sliding_attention], &c->rope_local);
}

// A fallback of 0: the factor must be there.
static double factor_read(struct hf_config *c, double fallback) {
    if (fallback == 0 && !hf_has(&c->rope, HF_factor))
        hf_fail(c, RN_ERR_MODEL, "rope scaling: factor is missing");
    return hf_number(c, &c->rope, HF_factor, 1e-6, 1e6, fallback);
}

static int64_t original_context(struct hf_config *c) {
    const enum hf_field field = HF_original_max_position_embeddings;
    return hf_int(c, hf_has(&c->rope, field) ? &c->rope : &c->root, field, 2, INT32_MAX, c->n_ctx);
}

static double yarn_mscale(double factor, double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * rmath_log(factor) + 1;
}

static void yarn_read(struct hf_config *c) {
    const double factor = factor_read(c, 0);
    if (c->status != RN_OK) return;
    hf_put_string(c, "rope.scaling.type", "yarn");
    hf_put_f32(c, "rope.scaling.factor", factor);
    hf_put_u32(c, "rope.scaling.original_context_length", original_context(c));
    if (hf_has(&c->rope, HF_beta_fast))
        hf_put_f32(c, "rope.scaling.yarn_beta_fast",
                   hf_number(c, &c->rope, HF_beta_fast, 1e-6, 1e6, 0));
    if (hf_has(&c->rope, HF_beta_slow))
        hf_put_f32(c, "rope.scaling.yarn_beta_slow",
                   hf_number(c, &c->rope, HF_beta_slow, 1e-6, 1e6, 0));
    if (hf_has(&c->rope, HF_truncate))
        hf_put_bool(c, "rope.scaling.yarn_truncate", hf_bool(c, &c->rope, HF_truncate, true));
    const enum hf_field given =
        hf_has(&c->rope, HF_attention_factor) ? HF_attention_factor : HF_attn_factor;
    if (hf_has(&c->rope, given)) {
        hf_put_f32(c, "rope.scaling.attn_factor",
                   hf_number(c, &c->rope, given, 1e-6, 1e6, 1) / yarn_mscale(factor, 1));
        return;
    }
    const double mscale = hf_number(c, &c->rope, HF_mscale, 0, 1e6, 0);
    const double all = hf_number(c, &c->rope, HF_mscale_all_dim, 0, 1e6, 0);
    if (mscale > 0 && all > 0)
        hf_put_f32(c, "rope.scaling.attn_factor",
                   yarn_mscale(factor, mscale) / yarn_mscale(factor, all) / yarn_mscale(factor, 1));
}

// Divisors of the frequencies: 1 for short waves, the factor for long ones, smooth between. In f32,
// step by step as the converter computes them, so that the tensor equals a converted file's.
static void llama3_read(struct hf_config *c, double theta) {
    const float factor = (float)factor_read(c, 8);
    const float low = (float)hf_number(c, &c->rope, HF_low_freq_factor, 1e-6, 1e6, 1);
    const float high = (float)hf_number(c, &c->rope, HF_high_freq_factor, 1e-6, 1e6, 4);
    const float context =
        (float)hf_int(c, &c->rope, HF_original_max_position_embeddings, 2, INT32_MAX, 8192);
    const float long_wave = context / low, short_wave = context / high;
    if (c->status == RN_OK && !(high > low))
        hf_fail(c, RN_ERR_MODEL,
                "rope scaling: high_freq_factor %g is not above low_freq_factor %g", (double)high,
                (double)low);
    const int64_t n = c->n_rot / 2;
    float *divisor;
    if (c->status != RN_OK ||
        hf_tensor_new(c, "rope_freqs.weight", FORMAT_F32, 1, &n, (void **)&divisor) != RN_OK)
        return;
    for (int64_t i = 0; i < n; i++) {
        const float exponent = (float)(2 * i) / (float)c->n_rot;
        const float freq = 1 / (float)rmath_exp_double((double)exponent * rmath_log(theta));
        const float wave = 1 / freq * 6.283185307179586f;
        const float smooth = (1 / wave * context - low) / (high - low);
        divisor[i] = wave < short_wave  ? 1
                     : wave > long_wave ? factor
                                        : 1 / ((1 - smooth) / factor + smooth);
    }
}

static void factors_read(struct hf_config *c, enum hf_field field, const char *name) {
    const struct hf_value *value = &c->rope.value[field];
    const int64_t n = c->n_rot / 2;
    float *out;
    if (c->status != RN_OK || hf_tensor_new(c, name, FORMAT_F32, 1, &n, (void **)&out) != RN_OK)
        return;
    struct jread json;
    double factor;
    int64_t count = 0;
    bool ok = hf_has(&c->rope, field);
    if (ok) jread_init(&json, value->text, value->len);
    ok = ok && jread_enter_array(&json);
    while (ok && jread_next_item(&json)) {
        ok = jread_f64(&json, &factor) && factor >= 1e-6 && factor <= 1e9 && count < n;
        if (ok) out[count++] = (float)factor;
    }
    char expected[64];
    snprintf(expected, sizeof expected, "an array of %lld positive numbers", (long long)n);
    if (!ok || count != n) hf_fail_value(c, RN_ERR_MODEL, &c->rope, field, expected);
}

static void longrope_read(struct hf_config *c) {
    const double original = (double)original_context(c);
    const double scale = (double)c->n_ctx / original;
    factors_read(c, HF_long_factor, "rope_factors_long.weight");
    factors_read(c, HF_short_factor, "rope_factors_short.weight");
    const double computed = scale > 1 ? sqrt(1 + rmath_log(scale) / rmath_log(original)) : 1;
    hf_put_f32(c, "rope.scaling.attn_factor",
               hf_number(c, &c->rope, HF_attention_factor, 1e-6, 1e6, computed));
}

static void scaling_read(struct hf_config *c, double theta) {
    char type[TYPE_MAX];
    type_read(c, &c->rope, type);
    if (c->status != RN_OK || strcmp(type, "default") == 0) return;
    if (strcmp(type, "linear") == 0) {
        const double factor = factor_read(c, 0);
        hf_put_string(c, "rope.scaling.type", "linear");
        hf_put_f32(c, "rope.scaling.factor", factor);
    } else if (strcmp(type, "yarn") == 0 && c->family != HF_PHI3) {
        yarn_read(c);
    } else if (strcmp(type, "llama3") == 0) {
        llama3_read(c, theta);
    } else if ((strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0) && c->family == HF_PHI3) {
        longrope_read(c);
    } else {
        hf_fail(c, RN_ERR_UNSUPPORTED, "rope scaling: type \"%s\" is not supported for %s", type,
                c->arch);
    }
}

// Local layers have a base of their own, and no scaling.
static void local_read(struct hf_config *c) {
    char type[TYPE_MAX];
    double theta = hf_number(c, &c->root, HF_rope_local_base_freq, 1, 1e15,
                             c->family == HF_GEMMA3 ? 10000 : 0);
    theta = hf_number(c, &c->rope_local, HF_rope_theta, 1, 1e15, theta);
    type_read(c, &c->rope_local, type);
    if (strcmp(type, "default") != 0)
        hf_fail(c, RN_ERR_UNSUPPORTED,
                "rope scaling: type \"%s\" of sliding_attention is not supported", type);
    if (theta > 0) hf_put_f32(c, "rope.freq_base_swa", theta);
}

void hf_rope_read(struct hf_config *c) {
    if (c->status != RN_OK || c->family == HF_GPT2) return;
    objects_read(c);
    const double theta = number_near(c, HF_rope_theta, 1, 1e15, theta_default(c->family));
    const double part = number_near(c, HF_partial_rotary_factor, 1e-6, 1, 1);
    if (c->status != RN_OK) return;
    if (part != 1 && c->family != HF_PHI3) {
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
    hf_put_f32(c, "rope.freq_base", theta);
    if (c->family == HF_PHI3)
        hf_put_u32(c, "rope.scaling.original_context_length", original_context(c));
    local_read(c);
    scaling_read(c, theta);
}

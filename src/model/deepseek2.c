// DeepSeek V2, V3 and R1, Kimi K2, GLM-4.7-Flash: attention over a latent, experts behind the first
// layers, a shared expert.
#include <math.h>

#include "base/rmath.h"
#include "model/deepseek2.h"

enum { MAX_RANK = 1 << 16, GLM_VOCAB = 154880 };

static rn_status read_latent(struct hparams *hp, const struct weights *weights, rn_error *err) {
    struct latent t = {0};
    int dim = 0, rank = 0;
    rn_status s;
    if (!hparams_has(weights, "attention.key_length_mla"))
        return hparams_fail(weights, "attention.key_length_mla", err,
                            "is missing: the file is from before attn_kv_b became attn_k_b and "
                            "attn_v_b, and must be converted again");
    if ((s = hparams_int(weights, "attention.key_length_mla", 1, KV_DIM_MAX, true, &dim, err)))
        return s;
    if ((s = hparams_int(weights, "attention.value_length_mla", 1, KV_DIM_MAX, true, &t.dim_v,
                         err)))
        return s;
    if ((s = hparams_int(weights, "attention.kv_lora_rank", 1, KV_DIM_MAX, true, &rank, err)))
        return s;
    if ((s = hparams_int(weights, "attention.q_lora_rank", 0, MAX_RANK, false, &t.n_q, err)))
        return s;
    if ((s = hparams_int(weights, "rope.dimension_count", 2, dim - 1, true, &t.dim_rot, err)))
        return s;
    t.dim_nope = dim - t.dim_rot;
    const struct layer *l = &hp->layer[0];
    if (l->n_head_kv != 1)
        return hparams_fail(weights, "attention.head_count_kv", err, "is %d, expected 1",
                            l->n_head_kv);
    if (l->dim_v != rank)
        return hparams_fail(weights, "attention.value_length", err,
                            "is %d, expected %d as of "
                            "attention.kv_lora_rank",
                            l->dim_v, rank);
    if (l->dim_k != rank + t.dim_rot)
        return hparams_fail(weights, "attention.key_length", err,
                            "is %d, expected %d, the latent "
                            "and the rotated part",
                            l->dim_k, rank + t.dim_rot);
    for (int i = 0; i < hp->n_layer; i++) {
        hp->layer[i].latent = t;
        hp->layer[i].attn_scale = 1.0f / sqrtf((float)dim);
    }
    return RN_OK;
}

// The factor that yarn has for cos and sin goes into the scores instead, squared: files state a
// tenth of mscale_all_dim. Published models have mscale like it, so nothing is left for cos and
// sin.
static rn_status read_yarn(struct hparams *hp, const struct weights *weights, rn_error *err) {
    struct hparams_rope *rope = &hp->rope[0];
    const char *key = "rope.scaling.yarn_log_multiplier";
    float multiplier = 0;
    rn_status s;
    if ((s = hparams_float(weights, key, 0, 1e3, false, &multiplier, err))) return s;
    if (rope->scaling != ROPE_SCALING_YARN || multiplier == 0 || rope->factor <= 1) return RN_OK;
    const double log_factor = rmath_log((double)rope->factor), own = 0.1 * log_factor + 1;
    if (hparams_has(weights, "rope.scaling.attn_factor") &&
        fabs((double)rope->magnitude * own - 1) > 1e-5)
        return hparams_fail(weights, "rope.scaling.attn_factor", err,
                            "is %g: a factor of cos and sin (mscale other than mscale_all_dim) is "
                            "not supported here",
                            (double)rope->magnitude);
    rope->magnitude = hp->rope[1].magnitude = (float)(1 / own);
    const double mscale = (double)multiplier * log_factor + 1;
    for (int i = 0; i < hp->n_layer; i++)
        hp->layer[i].attn_scale = (float)((double)hp->layer[i].attn_scale * mscale * mscale);
    return RN_OK;
}

// Files from before groups had keys. The published models of these sizes have groups.
static void read_unnamed_groups(struct hparams *hp) {
    static const struct {
        int n_expert, n_vocab, n_used;
    } published[] = {{160, 102400, 3}, {256, 129280, 4}}; // DeepSeek V2 and V3
    for (int i = 0; i < hp->n_layer; i++) {
        struct layer *l = &hp->layer[i];
        for (size_t k = 0; k < sizeof published / sizeof *published; k++) {
            const int kept = l->n_expert / 8 * published[k].n_used;
            if (l->n_expert != published[k].n_expert || hp->n_vocab != published[k].n_vocab ||
                l->n_expert_used > kept) // another model
                continue;
            l->n_expert_group = 8;
            l->n_expert_group_used = published[k].n_used;
            l->expert_group_best = l->score == ROUTE_SIGMOID ? 2 : 1;
        }
    }
}

static rn_status read_experts(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const bool is_glm = hp->n_vocab == GLM_VOCAB; // its first files do not name the sigmoid
    const rn_status s = hparams_router(hp, weights, is_glm ? ROUTE_SIGMOID : ROUTE_SOFTMAX, err);
    if (s) return s;
    hparams_plain_weights(hp, weights);
    if (!hparams_has(weights, "expert_group_count")) read_unnamed_groups(hp);
    return hparams_need_ff(hp, weights, err);
}

static rn_status deepseek2_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_INTERLEAVED};
    rn_status s;
    if ((s = read_latent(hp, weights, err))) return s;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = read_yarn(hp, weights, err))) return s;
    if (hparams_has(weights, "attention.temperature_scale"))
        return hparams_fail(weights, "attention.temperature_scale", err,
                            "is not supported: queries whose scale depends on the position");
    return read_experts(hp, weights, err);
}

static void deepseek2_layer(struct builder *b, const struct layer *l) {
    int h = block_norm(b, NORM_RMS, "attn_norm");
    block_add(b, block_latent(b, l, h), "attn_output");
    h = block_norm(b, NORM_RMS, "ffn_norm");
    block_feed_forward_shared(b, l, h, GATE_SILU);
}

// Keys of heads as a converted file has them: one KV head of the latent and the rotated part.
void deepseek2_heads(struct hf_config *c) {
    const int64_t rank = hf_int(c, &c->root, "kv_lora_rank", 1, KV_DIM_MAX, 512);
    const int64_t rotated = hf_int(c, &c->root, "qk_rope_head_dim", 2, KV_DIM_MAX, 64);
    c->n_latent = rank;
    c->dim_nope = hf_int(c, &c->root, "qk_nope_head_dim", 1, KV_DIM_MAX, 128);
    c->dim_value = hf_int(c, &c->root, "v_head_dim", 1, KV_DIM_MAX, 128);
    c->head_dim = rotated; // all of which rope rotates
    hf_put_u32(c, "attention.head_count_kv", 1);
    hf_put_u32(c, "attention.key_length", rank + rotated);
    hf_put_u32(c, "attention.value_length", rank);
    hf_put_u32(c, "attention.kv_lora_rank", rank);
    hf_put_u32(c, "attention.key_length_mla", c->dim_nope + rotated);
    hf_put_u32(c, "attention.value_length_mla", c->dim_value);
}

const struct arch arch_deepseek2 = {
    .name = "deepseek2",
    .has_nextn = true,
    .read = deepseek2_read,
    .layer = deepseek2_layer,
    .build = stack_build,
    .classes = deepseek2_classes,
};

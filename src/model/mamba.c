// Mamba-2 layers in metadata and folders, for the architectures that have some. See docs/HYBRID.md.
#include "model/mamba.h"

#include <math.h>
#include <string.h>

// Beyond these no model is known; a state of all of them would still be counted in 64 bits.
enum { MAX_HEADS = 4096, MAX_INNER = 1 << 19, MAX_STATE = KV_DIM_MAX };

static rn_status check_parts(const struct recurrence *r, int inner, const struct weights *weights,
                             rn_error *err) {
    if (inner % r->n_head != 0)
        return err_set(err, RN_ERR_MODEL,
                       "%s: ssm.inner_size %d is not a multiple of ssm.time_step_rank %d",
                       weights_name(weights), inner, r->n_head);
    if (r->n_head % r->n_key != 0)
        return err_set(err, RN_ERR_MODEL,
                       "%s: ssm.time_step_rank %d is not a multiple of ssm.group_count %d",
                       weights_name(weights), r->n_head, r->n_key);
    if (inner / r->n_head > KV_DIM_MAX)
        return err_set(err, RN_ERR_UNSUPPORTED,
                       "%s: ssm.inner_size %d gives each of %d heads %d elements, expected at most "
                       "%d",
                       weights_name(weights), inner, r->n_head, inner / r->n_head, KV_DIM_MAX);
    if (!(r->dt_min <= r->dt_max))
        return err_set(err, RN_ERR_MODEL, "%s: ssm.time_step_low %g is above ssm.time_step_high %g",
                       weights_name(weights), (double)r->dt_min, (double)r->dt_max);
    return RN_OK;
}

rn_status mamba_read(const struct weights *weights, struct recurrence *out, rn_error *err) {
    struct recurrence r = {.n_key = 1, .dt_max = INFINITY, .is_normed = true};
    int inner = 0;
    rn_status s;
    if ((s = hparams_int(weights, "ssm.conv_kernel", 2, PLAN_MAX_TAPS, true, &r.taps, err)))
        return s;
    if ((s = hparams_int(weights, "ssm.inner_size", 1, MAX_INNER, true, &inner, err))) return s;
    if ((s = hparams_int(weights, "ssm.state_size", 1, MAX_STATE, true, &r.dim_k, err))) return s;
    if ((s = hparams_int(weights, "ssm.time_step_rank", 1, MAX_HEADS, true, &r.n_head, err)))
        return s;
    if ((s = hparams_int(weights, "ssm.group_count", 1, MAX_HEADS, false, &r.n_key, err))) return s;
    if ((s = hparams_float(weights, "ssm.time_step_low", 0, 1e30, false, &r.dt_min, err))) return s;
    if ((s = hparams_float(weights, "ssm.time_step_high", 0, 1e30, false, &r.dt_max, err)))
        return s;
    if ((s = check_parts(&r, inner, weights, err))) return s;
    r.dim_v = inner / r.n_head;
    r.n_channel = inner + 2 * r.n_key * r.dim_k;
    *out = r;
    return RN_OK;
}

rn_status mamba_read_rest(struct hparams *hp, const struct weights *weights, rn_error *err) {
    struct recurrence r = {0};
    for (int i = 0; i < hp->n_layer; i++) {
        if (hp->layer[i].n_head_kv > 0) continue;
        const rn_status s = r.taps == 0 ? mamba_read(weights, &r, err) : RN_OK;
        if (s) return s;
        hp->layer[i].recurrence = r;
    }
    return RN_OK;
}

#define MAMBA_TENSORS(of)                                                                          \
    {"layers.#." of ".in_proj.weight", "blk.#.ssm_in.weight", hf_map_view},                        \
        {"layers.#." of ".in_proj.bias", "blk.#.ssm_in.bias", hf_map_view},                        \
        {"layers.#." of ".conv1d.weight", "blk.#.ssm_conv1d.weight", hf_map_taps},                 \
        {"layers.#." of ".conv1d.bias", "blk.#.ssm_conv1d.bias", hf_map_view},                     \
        {"layers.#." of ".dt_bias", "blk.#.ssm_dt.bias", hf_map_view},                             \
        {"layers.#." of ".A_log", "blk.#.ssm_a", hf_map_minus_exp},                                \
        {"layers.#." of ".D", "blk.#.ssm_d", hf_map_view},                                         \
        {"layers.#." of ".norm.weight", "blk.#.ssm_norm.weight", hf_map_view},                     \
        {"layers.#." of ".out_proj.weight", "blk.#.ssm_out.weight", hf_map_view},                  \
        {"layers.#." of ".out_proj.bias", "blk.#.ssm_out.bias", hf_map_view},

const struct hf_tensor mamba_tensors_mixer[] = {MAMBA_TENSORS("mixer"){0}};
const struct hf_tensor mamba_tensors[] = {MAMBA_TENSORS("mamba"){0}};

const struct hf_tensor mamba_tensors_frame[] = {
    {"embeddings.weight", "token_embd.weight", hf_map_view},
    {"embedding.weight", "token_embd.weight", hf_map_view},
    {"norm_f.weight", "output_norm.weight", hf_map_view},
    {"lm_head.weight", "output.weight", hf_map_head},
    {"layers.#.norm.weight", "blk.#.attn_norm.weight", hf_map_view},
    {0},
};

const struct hf_key mamba_keys[] = {
    {"mamba_d_conv", NULL, "ssm.conv_kernel", HF_INT, 2, PLAN_MAX_TAPS, 4, 0, 0},
    {"mamba_d_state", NULL, "ssm.state_size", HF_INT, 1, MAX_STATE, 256, 0, 0},
    {"mamba_n_groups", NULL, "ssm.group_count", HF_INT, 1, MAX_HEADS, 1, 0, 0},
    {"mamba_n_heads", NULL, "ssm.time_step_rank", HF_INT, 1, MAX_HEADS, 128, 0, 0},
    {0},
};

static void limits_put(struct hf_config *c) {
    double limit[2];
    if (!hf_numbers(c, "time_step_limit", 0, HUGE_VAL, limit, 2)) return;
    if (limit[0] > 0) hf_put_f32(c, "ssm.time_step_low", limit[0]);
    if (limit[1] < HUGE_VAL) hf_put_f32(c, "ssm.time_step_high", limit[1]);
}

void mamba_put(struct hf_config *c, const char *heads, const char *head_dim) {
    const int64_t n = hf_int(c, &c->root, heads, 1, MAX_HEADS, 128);
    hf_put_u32(c, "ssm.inner_size", n * hf_int(c, &c->root, head_dim, 1, KV_DIM_MAX, 64));
    limits_put(c);
}

// The width of x: mamba_d_ssm, or the model's times mamba_expand. Heads of size "auto" divide it.
static int64_t expanded_width(struct hf_config *c) {
    if (hf_has(c, &c->root, "mamba_d_ssm"))
        return hf_int(c, &c->root, "mamba_d_ssm", 1, MAX_INNER, 0);
    return c->n_embd * hf_int(c, &c->root, "mamba_expand", 1, 64, 2);
}

void mamba_put_expanded(struct hf_config *c) {
    const struct hf_value dim = hf_find(c, &c->root, "mamba_d_head");
    if (dim.text && !(dim.len == 6 && memcmp(dim.text, "\"auto\"", 6) == 0)) {
        mamba_put(c, "mamba_n_heads", "mamba_d_head");
        return;
    }
    hf_put_u32(c, "ssm.inner_size", expanded_width(c));
    limits_put(c);
}

// The convolution is linear in each channel.
void mamba_scale_taps(struct hf_config *c, const double of_part[3]) {
    const int64_t heads = hf_int(c, &c->root, "mamba_n_heads", 1, 1 << 12, 128);
    const int64_t dim = hf_int(c, &c->root, "mamba_d_head", 1, KV_DIM_MAX, 64);
    const int64_t groups = hf_int(c, &c->root, "mamba_n_groups", 1, 1 << 12, 1);
    const int64_t state = hf_int(c, &c->root, "mamba_d_state", 1, KV_DIM_MAX, 256);
    const int64_t width[3] = {heads * dim, groups * state, groups * state};
    hf_taps_scale(c, of_part, width, 3);
}

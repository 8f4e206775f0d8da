// Mistral Small 3, Ministral 3 and Devstral 2: Llama with yarn. Ministral 3 and Devstral 2 scale
// queries by a factor that grows with each original context. Images are left out.
#include <string.h>

#include "base/rmath.h"
#include "model/blocks.h"
#include "model/hf_rows.h"

enum { TYPE_MAX = 32, WINDOW_SMALL_3 = 4096 };

// The multiplier is mscale_all_dim: yarn's magnitude is divided by its own.
static rn_status read_multiplier(struct hparams_rope *rope, const struct weights *weights,
                                 rn_error *err) {
    float multiplier = 0;
    const rn_status s =
        hparams_float(weights, "rope.scaling.yarn_log_multiplier", 0, 1e3, false, &multiplier, err);
    if (s || rope->scaling != ROPE_SCALING_YARN || rope->factor <= 1) return s;
    rope->magnitude /= (float)(0.1 * (double)multiplier * rmath_log((double)rope->factor) + 1);
    return RN_OK;
}

static rn_status mistral3_read(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct hparams_defaults defaults = {.rope_style = ROPE_INTERLEAVED, .window_period = 1};
    rn_status s;
    if ((s = hparams_decoder(hp, weights, &defaults, err))) return s;
    if ((s = hparams_refuse_experts(hp, weights, err))) return s;
    if ((s = read_multiplier(&hp->rope[0], weights, err))) return s;
    hp->rope[1] = hp->rope[0];
    struct temper temper = {.length = hp->rope[0].n_ctx_original};
    if ((s = hparams_temper(weights, &temper, err))) return s;
    if (temper.factor > 0 && temper.length == 0)
        return hparams_fail(weights, "attention.temperature_scale", err,
                            "needs a rope.scaling.original_context_length");
    for (int i = 0; i < hp->n_layer; i++) hp->layer[i].temper = temper;
    return RN_OK;
}

// The text model may be of another family: Mistral Small 4 has the same class.
static void read_type(struct hf_config *c) {
    static const char *const known[] = {"mistral3", "mistral", "ministral3"};
    char type[TYPE_MAX];
    size_t i = 0;
    hf_string(c, &c->root, "model_type", type, sizeof type);
    while (i < sizeof known / sizeof *known && strcmp(type, known[i]) != 0) i++;
    if (i == sizeof known / sizeof *known)
        hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, "model_type", "mistral or ministral3");
    // the text class of Small 3 has a window unless its config says null
    if (strcmp(type, "ministral3") != 0 && !hf_find(c, &c->root, "sliding_window").text)
        hf_put_u32(c, "attention.sliding_window", WINDOW_SMALL_3);
}

// The factor of queries is among the numbers of rope.
static void read_temper(struct hf_config *c) {
    const char *const beta = "llama_4_scaling_beta";
    const char *const original = "original_max_position_embeddings";
    char type[TYPE_MAX];
    hf_string(c, &c->root, "model_type", type, sizeof type);
    const bool has_beta = hf_has(c, &c->rope, beta);
    if (!has_beta && strcmp(type, "ministral3") == 0)
        hf_fail(c, RN_ERR_MODEL, "rope_parameters: %s is missing", beta);
    if (!has_beta || c->status != RN_OK) return;
    const int64_t length = hf_int(c, &c->rope, original, 1, INT32_MAX, 0);
    if (length == 0) hf_fail(c, RN_ERR_MODEL, "%s is missing, %s needs it", original, beta);
    hf_put_u32(c, "attention.temperature_length", length);
    hf_put_f32(c, "attention.temperature_scale", hf_number(c, &c->rope, beta, 0, 1e3, 0));
}

#define MISTRAL3_CLASS                                                                             \
    .keys = {hf_keys_size, hf_keys_decoder, hf_keys_kv}, .activation = &hf_silu,                   \
    .window = {.mark = hf_window_all},                                                             \
    .rope = {.theta = 10000, .is_permuted = true, .more = read_temper}, .read = read_type,         \
    .tensors = {hf_tensors_decoder, hf_tensors_norms, hf_tensors_mlp, hf_tensors_mlp_bias,         \
                hf_tensors_towers}

static const struct hf_class mistral3_classes[] = {
    {.name = "Mistral3ForConditionalGeneration", .model_type = "mistral3", MISTRAL3_CLASS},
    {.name = "Ministral3ForCausalLM", .model_type = "ministral3", MISTRAL3_CLASS},
    {0},
};

const struct arch arch_mistral3 = {
    .name = "mistral3",
    .read = mistral3_read,
    .layer = layer_llama,
    .build = stack_build,
    .classes = mistral3_classes,
};

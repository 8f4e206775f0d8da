// Hyper-parameters from metadata. Every wrong value is refused here with its key; after this the
// numbers are safe. Called by model.c and the architectures' files.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/rmath.h"
#include "model/arch.h"
#include "model/hparams.h"

// Limits of sane models: products of any three of them fit 64 bits, rows of buffers fit int.
enum {
    MAX_EMBD = 1 << 17,
    MAX_FF = 1 << 19,
    MAX_HEAD = 1024,
    MAX_HEAD_DIM = KV_DIM_MAX,
    MAX_CTX = 1 << 26,
    MAX_EXPERT = PLAN_MAX_EXPERT,
};

static const struct meta_view *find(const struct weights *weights, const char *key, char *name,
                                    size_t size) {
    const char *arch = "";
    size_t len = 0;
    const struct meta_view *meta = weights_meta_find(weights, "general.architecture");
    if (meta) meta_get_string(meta, &arch, &len);
    snprintf(name, size, "%.*s.%s", (int)len, arch, key);
    return weights_meta_find(weights, name);
}

static rn_status missing(const struct weights *weights, const char *name, rn_error *err) {
    return err_set(err, RN_ERR_MODEL, "%s: key %s is missing", weights_name(weights), name);
}

// " (at offset 42)"; nothing where the value came from no file of its own.
static const char *place_text(const struct meta_view *meta, char out[40]) {
    out[0] = 0;
    if (meta->offset) snprintf(out, 40, " (at offset %llu)", (unsigned long long)meta->offset);
    return out;
}

bool hparams_has(const struct weights *weights, const char *key) {
    char name[160];
    return find(weights, key, name, sizeof name) != NULL;
}

rn_status hparams_fail(const struct weights *weights, const char *key, rn_error *err,
                       const char *fmt, ...) {
    char name[160], text[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    find(weights, key, name, sizeof name);
    return err_set(err, RN_ERR_MODEL, "%s: key %s %s", weights_name(weights), name, text);
}

// Some converters write one number per layer where all layers are equal.
static rn_status read_layers(const struct weights *weights, const struct meta_view *meta,
                             int64_t *out, rn_error *err) {
    if (meta->count == 0 || meta->count > MODEL_MAX_LAYER)
        return err_set(err, RN_ERR_MODEL, "%s: key %s has %llu items, expected 1 to %d",
                       weights_name(weights), meta->key, (unsigned long long)meta->count,
                       MODEL_MAX_LAYER);
    for (uint64_t i = 0; i < meta->count; i++) {
        int64_t item;
        if (!meta_item_i64(meta, i, &item))
            return err_set(err, RN_ERR_MODEL, "%s: key %s: item %llu is not an integer",
                           weights_name(weights), meta->key, (unsigned long long)i);
        if (i > 0 && item != *out)
            return err_set(err, RN_ERR_UNSUPPORTED,
                           "%s: key %s: item %llu is %lld and those before it %lld: layers that "
                           "differ are not supported",
                           weights_name(weights), meta->key, (unsigned long long)i, (long long)item,
                           (long long)*out);
        *out = item;
    }
    return RN_OK;
}

rn_status hparams_int(const struct weights *weights, const char *key, int min, int max,
                      bool required, int *out, rn_error *err) {
    char name[160], place[40];
    const struct meta_view *meta = find(weights, key, name, sizeof name);
    if (!meta) return required ? missing(weights, name, err) : RN_OK;
    int64_t value = 0;
    if (meta->type == META_ARRAY) {
        const rn_status status = read_layers(weights, meta, &value, err);
        if (status) return status;
    } else if (!meta_get_i64(meta, &value)) {
        return err_set(err, RN_ERR_MODEL, "%s: key %s at offset %llu is not an integer",
                       weights_name(weights), name, (unsigned long long)meta->offset);
    }
    if (value < min || value > max)
        return err_set(err, RN_ERR_MODEL, "%s: key %s is %lld, expected %d to %d%s",
                       weights_name(weights), name, (long long)value, min, max,
                       place_text(meta, place));
    *out = (int)value;
    return RN_OK;
}

rn_status hparams_layers(const struct hparams *hp, const struct weights *weights, const char *key,
                         int min, int max, bool required, int *out, rn_error *err) {
    char name[160], place[40];
    const struct meta_view *meta = find(weights, key, name, sizeof name);
    if (!meta || meta->type != META_ARRAY) {
        int all = out[0];
        const rn_status s = hparams_int(weights, key, min, max, required, &all, err);
        for (int i = 0; i < hp->n_layer; i++) out[i] = all;
        return s;
    }
    if (meta->count < (uint64_t)hp->n_layer)
        return err_set(err, RN_ERR_MODEL, "%s: key %s has %llu items, expected %d",
                       weights_name(weights), name, (unsigned long long)meta->count, hp->n_layer);
    for (int i = 0; i < hp->n_layer; i++) {
        int64_t item;
        if (!meta_item_i64(meta, (uint64_t)i, &item))
            return err_set(err, RN_ERR_MODEL, "%s: key %s: item %d is not an integer",
                           weights_name(weights), name, i);
        if (item < min || item > max)
            return err_set(err, RN_ERR_MODEL, "%s: key %s: item %d is %lld, expected %d to %d%s",
                           weights_name(weights), name, i, (long long)item, min, max,
                           place_text(meta, place));
        out[i] = (int)item;
    }
    return RN_OK;
}

rn_status hparams_flags(const struct hparams *hp, const struct weights *weights, const char *key,
                        int *out, rn_error *err) {
    if (!hparams_has(weights, key)) return RN_OK;
    return hparams_layers(hp, weights, key, 0, 1, true, out, err);
}

rn_status hparams_float(const struct weights *weights, const char *key, double min, double max,
                        bool required, float *out, rn_error *err) {
    char name[160], place[40];
    const struct meta_view *meta = find(weights, key, name, sizeof name);
    if (!meta) return required ? missing(weights, name, err) : RN_OK;
    double value;
    if (!meta_get_f64(meta, &value))
        return err_set(err, RN_ERR_MODEL, "%s: key %s at offset %llu is not a number",
                       weights_name(weights), name, (unsigned long long)meta->offset);
    if (!(value >= min && value <= max))
        return err_set(err, RN_ERR_MODEL, "%s: key %s is %g, expected %g to %g%s",
                       weights_name(weights), name, value, min, max, place_text(meta, place));
    *out = (float)value;
    return RN_OK;
}

rn_status hparams_bool(const struct weights *weights, const char *key, bool *out, rn_error *err) {
    char name[160];
    const struct meta_view *meta = find(weights, key, name, sizeof name);
    if (!meta || meta_get_bool(meta, out)) return RN_OK;
    return err_set(err, RN_ERR_MODEL, "%s: key %s at offset %llu is not a bool",
                   weights_name(weights), name, (unsigned long long)meta->offset);
}

// The vocabulary is as long as the embedding table has rows; the token list must agree with it.
static rn_status read_vocab(struct hparams *hp, const struct weights *weights, rn_error *err) {
    const struct tensor_view *embd = weights_tensor_find(weights, "token_embd.weight");
    if (!embd)
        return err_set(err, RN_ERR_MODEL, "%s: tensor token_embd.weight is missing",
                       weights_name(weights));
    if (embd->dim[1] > MODEL_MAX_VOCAB)
        return err_set(err, RN_ERR_MODEL,
                       "%s: tensor token_embd.weight: %lld rows, expected at most %d",
                       weights_name(weights), (long long)embd->dim[1], MODEL_MAX_VOCAB);
    hp->n_vocab = (int)embd->dim[1];
    const struct meta_view *tokens = weights_meta_find(weights, "tokenizer.ggml.tokens");
    if (tokens && tokens->type == META_ARRAY && tokens->count != (uint64_t)hp->n_vocab)
        return err_set(
            err, RN_ERR_MODEL,
            "%s: key tokenizer.ggml.tokens has %llu items, token_embd.weight has %d rows",
            weights_name(weights), (unsigned long long)tokens->count, hp->n_vocab);
    return RN_OK;
}

// Of layers that have attention: of a model in which all layers are alike, this is layer 0.
static rn_status check_heads(const struct hparams *hp, const struct weights *weights,
                             const struct layer *l, rn_error *err) {
    if (l->n_head % l->n_head_kv != 0)
        return err_set(err, RN_ERR_MODEL, "%s: %d heads are not a multiple of %d key/value heads",
                       weights_name(weights), l->n_head, l->n_head_kv);
    if (l->dim_k < 1 || l->dim_v < 1)
        return err_set(err, RN_ERR_MODEL, "%s: a width of %d leaves nothing for each of %d heads",
                       weights_name(weights), hp->n_embd, l->n_head);
    if (l->dim_k > MAX_HEAD_DIM || l->dim_v > MAX_HEAD_DIM)
        return err_set(err, RN_ERR_MODEL,
                       "%s: head sizes of %d (keys) and %d (values), expected at most %d",
                       weights_name(weights), l->dim_k, l->dim_v, MAX_HEAD_DIM);
    return RN_OK;
}

// Layers of a hybrid may differ; other models have one value, and a list of equal ones is the same.
static rn_status read_each(const struct hparams *hp, const struct weights *weights, const char *key,
                           bool is_hybrid, int max, bool required, int *out, rn_error *err) {
    if (is_hybrid) return hparams_layers(hp, weights, key, 0, max, required, out, err);
    const rn_status s = hparams_int(weights, key, 1, max, required, out, err);
    for (int i = 1; i < hp->n_layer; i++) out[i] = out[0];
    return s;
}

static rn_status read_heads(struct hparams *hp, const struct weights *weights, bool is_hybrid,
                            rn_error *err) {
    int n_head[MODEL_MAX_LAYER] = {0}, n_head_kv[MODEL_MAX_LAYER];
    const struct layer *before = NULL; // with attention
    rn_status s;
    if ((s = read_each(hp, weights, "attention.head_count", is_hybrid, MAX_HEAD, true, n_head,
                       err)))
        return s;
    memcpy(n_head_kv, n_head, sizeof n_head_kv);
    if ((s = read_each(hp, weights, "attention.head_count_kv", is_hybrid, MAX_HEAD, false,
                       n_head_kv, err)))
        return s;
    for (int i = 0; i < hp->n_layer; i++) {
        struct layer *l = &hp->layer[i];
        l->n_head = n_head[i];
        l->n_head_kv = n_head[i] ? n_head_kv[i] : 0;
        if (l->n_head_kv == 0) continue;
        l->dim_k = l->dim_v = hp->n_embd / l->n_head;
        if ((s = hparams_int(weights, "attention.key_length", 1, MAX_HEAD_DIM, false, &l->dim_k,
                             err)))
            return s;
        if ((s = hparams_int(weights, "attention.value_length", 1, MAX_HEAD_DIM, false, &l->dim_v,
                             err)))
            return s;
        if ((s = check_heads(hp, weights, l, err))) return s;
        if (before && l->dim_k != before->dim_k) // rope and the scale of scores are for all layers
            return hparams_fail(weights, "attention.key_length", err,
                                "is missing: heads of layer %d have %d elements, those before %d",
                                i, l->dim_k, before->dim_k);
        l->attn_scale = 1.0f / sqrtf((float)l->dim_k);
        before = l;
    }
    return RN_OK;
}

// Blocks behind the last layer predict further tokens. block_count includes them in GGUF files, and
// not in folders.
static rn_status read_nextn(struct hparams *hp, const struct weights *weights, rn_error *err) {
    int behind = 0;
    rn_status s;
    if ((s = hparams_int(weights, "nextn_predict_layers", 0, hp->n_layer - 1, false, &hp->n_nextn,
                         err)))
        return s;
    if ((s = hparams_int(weights, "nextn_behind", 0, MODEL_MAX_LAYER - hp->n_layer, false, &behind,
                         err)))
        return s;
    hp->n_layer -= hp->n_nextn;
    hp->n_nextn += behind;
    return RN_OK;
}

// Embedding models may let a token see later ones. Their files name architectures that write text.
static rn_status need_causal(const struct weights *weights, rn_error *err) {
    const char *key = "attention.causal";
    bool is_causal = true;
    const rn_status s = hparams_bool(weights, key, &is_causal, err);
    if (s || is_causal) return s;
    return hparams_fail(weights, key, err,
                        "is false: tokens that see later ones are not supported");
}

rn_status hparams_common(struct hparams *hp, const struct weights *weights, const struct arch *arch,
                         rn_error *err) {
    const bool is_hybrid = arch->is_hybrid;
    int n_ff[MODEL_MAX_LAYER] = {0};
    rn_status s;
    if ((s = need_causal(weights, err))) return s;
    *hp = (struct hparams){.embd_scale = 1, .residual_scale = 1, .logit_scale = 1};
    if ((s = hparams_int(weights, "block_count", 1, MODEL_MAX_LAYER, true, &hp->n_layer, err)))
        return s;
    if (arch->has_nextn && (s = read_nextn(hp, weights, err))) return s;
    if ((s = hparams_int(weights, "context_length", 1, MAX_CTX, true, &hp->n_ctx, err))) return s;
    if ((s = hparams_int(weights, "embedding_length", 1, MAX_EMBD, true, &hp->n_embd, err)))
        return s;
    if ((s = read_each(hp, weights, "feed_forward_length", is_hybrid, MAX_FF, !is_hybrid, n_ff,
                       err)))
        return s;
    for (int i = 0; i < hp->n_layer; i++)
        hp->layer[i] = (struct layer){.kind = KV_FULL, .rope = PLAN_NONE, .n_ff = n_ff[i]};
    if ((s = read_heads(hp, weights, is_hybrid, err))) return s;
    return read_vocab(hp, weights, err);
}

static rn_status read_scaling_type(const struct weights *weights, enum rope_scaling *out,
                                   rn_error *err) {
    static const struct {
        const char *name;
        enum rope_scaling scaling;
    } types[] = {
        {"none", ROPE_SCALING_NONE},
        {"linear", ROPE_SCALING_LINEAR},
        {"yarn", ROPE_SCALING_YARN},
        {"longrope", ROPE_SCALING_NONE}, // by divisors alone
    };
    char name[160];
    const struct meta_view *meta = find(weights, "rope.scaling.type", name, sizeof name);
    const char *type = "linear"; // the kind of a factor alone
    size_t len = strlen(type);
    if (meta && !meta_get_string(meta, &type, &len))
        return err_set(err, RN_ERR_MODEL, "%s: key %s is not a string", weights_name(weights),
                       name);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strlen(types[i].name) != len || memcmp(types[i].name, type, len) != 0) continue;
        *out = types[i].scaling;
        return RN_OK;
    }
    return err_set(err, RN_ERR_UNSUPPORTED,
                   "%s: key %s: '%.*s' is not supported (known: none, linear, yarn, longrope)",
                   weights_name(weights), name, (int)(len < 64 ? len : 64), type);
}

// The converter writes a config's attention_factor as it is: the whole magnitude, yarn's own
// included. Mostly the two are equal up to a rounding.
static rn_status read_yarn_magnitude(struct hparams_rope *rope, const struct weights *weights,
                                     rn_error *err) {
    float whole = 0;
    const rn_status s =
        hparams_float(weights, "rope.scaling.yarn_attn_factor", 1e-3, 1e3, false, &whole, err);
    if (s || whole == 0) return s;
    const double own = rope->factor > 1 ? 0.1 * rmath_log((double)rope->factor) + 1 : 1;
    if (fabs((double)whole / own - 1) > 1e-5) rope->magnitude = (float)((double)whole / own);
    return RN_OK;
}

static rn_status read_yarn(struct hparams_rope *rope, const struct weights *weights,
                           rn_error *err) {
    rn_status s;
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    rope->truncate = true; // GGUF files mean it, and cannot say otherwise
    if ((s = hparams_float(weights, "rope.scaling.yarn_beta_fast", 1e-3, 1e6, false,
                           &rope->beta_fast, err)))
        return s;
    if ((s = hparams_float(weights, "rope.scaling.yarn_beta_slow", 1e-3, 1e6, false,
                           &rope->beta_slow, err)))
        return s;
    if ((s = read_yarn_magnitude(rope, weights, err))) return s;
    return hparams_bool(weights, "rope.scaling.yarn_truncate", &rope->truncate, err);
}

// Files from before there were kinds of scaling have `rope.scale_linear`.
static rn_status read_scaling(struct hparams_rope *rope, const struct weights *weights,
                              rn_error *err) {
    rn_status s;
    if ((s = read_scaling_type(weights, &rope->scaling, err))) return s;
    const bool yarn = rope->scaling == ROPE_SCALING_YARN;
    if (rope->scaling == ROPE_SCALING_LINEAR)
        if ((s = hparams_float(weights, "rope.scale_linear", 1e-3, 1e6, false, &rope->factor, err)))
            return s;
    if (rope->scaling != ROPE_SCALING_NONE)
        if ((s = hparams_float(weights, "rope.scaling.factor", 1e-3, 1e6, yarn, &rope->factor,
                               err)))
            return s;
    if ((s = hparams_int(weights, "rope.scaling.original_context_length", 1, MAX_CTX, yarn,
                         &rope->n_ctx_original, err)))
        return s;
    if (yarn && (s = read_yarn(rope, weights, err))) return s;
    if (yarn && rope->base <= 1)
        return err_set(err, RN_ERR_MODEL, "%s: yarn with a rope.freq_base of %g",
                       weights_name(weights), (double)rope->base);
    return hparams_float(weights, "rope.scaling.attn_factor", 1e-3, 1e3, false, &rope->magnitude,
                         err);
}

// The layer that stands for all of them until an architecture makes them differ: the first one, or
// the first with attention.
static struct layer *spoken_for(struct hparams *hp) {
    for (int i = 0; i < hp->n_layer; i++)
        if (hp->layer[i].n_head_kv > 0) return &hp->layer[i];
    return &hp->layer[0];
}

// rope[0] is that of layers that see everything, rope[1] that of layers with a window: the same, or
// without scaling where its base is another or the architecture says so.
static rn_status read_rope(struct hparams *hp, const struct weights *weights,
                           const struct hparams_defaults *defaults, rn_error *err) {
    struct hparams_rope *rope = &hp->rope[0], *local = &hp->rope[1];
    const int dim_k = spoken_for(hp)->dim_k;
    bool halves = false;
    rn_status s;
    *rope = (struct hparams_rope){.n_rot = dim_k, .base = 10000, .factor = 1, .magnitude = 1};
    if ((s = hparams_int(weights, "rope.dimension_count", 2, dim_k, false, &rope->n_rot, err)))
        return s;
    if (rope->n_rot % 2 != 0)
        return err_set(err, RN_ERR_MODEL,
                       "%s: %d rotated elements of a head (rope.dimension_count, else the "
                       "head size), expected an even number",
                       weights_name(weights), rope->n_rot);
    if ((s = hparams_float(weights, "rope.freq_base", 1, 1e12, false, &rope->base, err))) return s;
    float base_local = defaults->rope_base_local != 0 ? defaults->rope_base_local : rope->base;
    if ((s = hparams_float(weights, "rope.freq_base_swa", 1, 1e12, false, &base_local, err)))
        return s;
    if ((s = hparams_bool(weights, "rope.halves", &halves, err))) return s;
    rope->style = halves ? ROPE_HALVES : defaults->rope_style;
    *local = *rope;
    local->base = base_local;
    if ((s = read_scaling(rope, weights, err))) return s;
    local->n_ctx_original = rope->n_ctx_original;
    if (local->base == rope->base && !defaults->is_local_unscaled) *local = *rope;
    return RN_OK;
}

static rn_status read_experts(struct layer *l, const struct weights *weights, rn_error *err) {
    rn_status s;
    if ((s = hparams_int(weights, "expert_count", 0, MAX_EXPERT, false, &l->n_expert, err)))
        return s;
    if (l->n_expert == 0) return RN_OK;
    const int most = l->n_expert < PLAN_MAX_USED ? l->n_expert : PLAN_MAX_USED;
    if ((s = hparams_int(weights, "expert_used_count", 1, most, true, &l->n_expert_used, err)))
        return s;
    l->n_ff_expert = l->n_ff;
    l->normalize_experts = true;
    if ((s = hparams_bool(weights, "expert_weights_norm", &l->normalize_experts, err))) return s;
    return hparams_int(weights, "expert_feed_forward_length", 1, MAX_FF, l->n_ff == 0,
                       &l->n_ff_expert, err);
}

static void set_window(struct hparams *hp, int layer, int window) {
    hp->layer[layer].kind = KV_WINDOW;
    hp->layer[layer].window = window;
    hp->layer[layer].rope = 1;
}

// One bool per layer: true for a layer with the window.
static rn_status read_pattern(struct hparams *hp, const struct weights *weights,
                              const struct meta_view *meta, int window, rn_error *err) {
    if (meta->count != (uint64_t)hp->n_layer)
        return err_set(err, RN_ERR_MODEL, "%s: key %s has %llu items, expected %d",
                       weights_name(weights), meta->key, (unsigned long long)meta->count,
                       hp->n_layer);
    for (int i = 0; i < hp->n_layer; i++) {
        int64_t item;
        if (!meta_item_i64(meta, (uint64_t)i, &item))
            return err_set(err, RN_ERR_MODEL, "%s: key %s: item %d is not a bool",
                           weights_name(weights), meta->key, i);
        if (item != 0) set_window(hp, i, window);
    }
    return RN_OK;
}

static rn_status read_window(struct hparams *hp, const struct weights *weights,
                             const struct hparams_defaults *defaults, rn_error *err) {
    char name[160];
    int window = defaults->window, period = defaults->window_period;
    rn_status s;
    if ((s = hparams_int(weights, "attention.sliding_window", 0, MAX_CTX, false, &window, err)))
        return s;
    if (window == 0) return RN_OK;
    const struct meta_view *meta =
        find(weights, "attention.sliding_window_pattern", name, sizeof name);
    if (meta && meta->type == META_ARRAY) return read_pattern(hp, weights, meta, window, err);
    if ((s = hparams_int(weights, "attention.sliding_window_pattern", 1, MODEL_MAX_LAYER, false,
                         &period, err)))
        return s;
    // a file's own period of 1 means that no layer has the window
    for (int i = 0; i < hp->n_layer; i++)
        if ((!meta && period == 1) || (i + 1) % period != 0) set_window(hp, i, window);
    return RN_OK;
}

// Where the architecture has none (files of OLMo 3 say olmo2), leaving it out would give wrong
// text.
static rn_status refuse_window(const struct weights *weights, rn_error *err) {
    char name[160];
    int window = 0;
    const rn_status s =
        hparams_int(weights, "attention.sliding_window", 0, MAX_CTX, false, &window, err);
    if (s || window == 0) return s;
    find(weights, "attention.sliding_window", name, sizeof name);
    return err_set(err, RN_ERR_UNSUPPORTED, "%s: key %s is %d: a window is not supported here",
                   weights_name(weights), name, window);
}

static rn_status read_attention(struct hparams *hp, const struct weights *weights,
                                const struct hparams_defaults *defaults, rn_error *err) {
    struct layer *l = spoken_for(hp);
    rn_status s;
    l->attn_softcap = defaults->attn_softcap;
    hp->logit_softcap = defaults->logit_softcap;
    const char *eps = defaults->norm == NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                                 : "attention.layer_norm_epsilon";
    if ((s = hparams_float(weights, eps, 0, 1, true, &hp->norm_eps, err))) return s;
    if ((s = hparams_float(weights, "attention.scale", 1e-6, 1e3, false, &l->attn_scale, err)))
        return s;
    if ((s = hparams_float(weights, "attn_logit_softcapping", 0, 1e6, false, &l->attn_softcap,
                           err)))
        return s;
    return hparams_float(weights, "final_logit_softcapping", 0, 1e6, false, &hp->logit_softcap,
                         err);
}

// The numbers that hparams_decoder read of one layer become those of all.
static void spread(struct hparams *hp, const struct layer *from, bool no_rope) {
    for (int i = 0; i < hp->n_layer; i++) {
        struct layer *l = &hp->layer[i];
        l->attn_scale = from->attn_scale;
        l->attn_softcap = from->attn_softcap;
        l->rope = l->n_head_kv > 0 && !no_rope ? 0 : PLAN_NONE;
        l->n_expert = from->n_expert;
        l->n_expert_used = from->n_expert_used;
        l->n_ff_expert = from->n_ff_expert;
        l->normalize_experts = from->normalize_experts;
    }
}

rn_status hparams_decoder(struct hparams *hp, const struct weights *weights,
                          const struct hparams_defaults *defaults, rn_error *err) {
    struct layer *l = spoken_for(hp);
    rn_status s;
    if ((s = read_attention(hp, weights, defaults, err))) return s;
    if (l->n_head_kv > 0 && !defaults->no_rope && (s = read_rope(hp, weights, defaults, err)))
        return s;
    if ((s = read_experts(l, weights, err))) return s;
    spread(hp, l, defaults->no_rope);
    return defaults->window_period ? read_window(hp, weights, defaults, err)
                                   : refuse_window(weights, err);
}

rn_status hparams_temper(const struct weights *weights, struct temper *out, rn_error *err) {
    rn_status s;
    if ((s = hparams_int(weights, "attention.temperature_length", 1, MAX_CTX, false, &out->length,
                         err)))
        return s;
    return hparams_float(weights, "attention.temperature_scale", 0, 1e3, false, &out->factor, err);
}

void hparams_rope_windows(struct hparams *hp) {
    for (int i = 0; i < hp->n_layer; i++)
        if (hp->layer[i].kind != KV_WINDOW) hp->layer[i].rope = PLAN_NONE;
}

// Most routers add this to the sum of their scores.
#define ROUTE_LEAST 1e-20f

// As files name the score of a router: 1 a softmax, 2 sigmoids.
static rn_status read_score(const struct weights *weights, enum route_score *out, rn_error *err) {
    int score = *out == ROUTE_SIGMOID ? 2 : 1;
    const rn_status s = hparams_int(weights, "expert_gating_func", 1, 2, false, &score, err);
    *out = score == 2 ? ROUTE_SIGMOID : ROUTE_SOFTMAX;
    return s;
}

// Groups of experts of which the best are kept. One group, or all of them, is none.
static rn_status read_groups(struct layer *l, const struct weights *weights, rn_error *err) {
    int n = 1, kept = 0;
    rn_status s;
    if ((s = hparams_int(weights, "expert_group_count", 0, MAX_EXPERT, false, &n, err))) return s;
    if (n <= 1) return RN_OK;
    if ((s = hparams_int(weights, "expert_group_used_count", 1, n, true, &kept, err))) return s;
    if (kept == n) return RN_OK;
    const int best = l->score == ROUTE_SIGMOID ? 2 : 1;
    if (l->n_expert % n != 0 || l->n_expert / n < best)
        return hparams_fail(weights, "expert_group_count", err,
                            "is %d: %d experts are not groups of one size, each of at least %d", n,
                            l->n_expert, best);
    if (l->n_expert / n * kept < l->n_expert_used)
        return hparams_fail(weights, "expert_group_used_count", err,
                            "is %d: these groups have %d experts, and a token uses %d", kept,
                            l->n_expert / n * kept, l->n_expert_used);
    l->n_expert_group = n;
    l->n_expert_group_used = kept;
    l->expert_group_best = best;
    return RN_OK;
}

// A width, or a number of experts as wide as the others.
static rn_status read_shared(struct layer *l, const struct weights *weights, rn_error *err) {
    int n = 0;
    if (hparams_has(weights, "expert_shared_feed_forward_length"))
        return hparams_int(weights, "expert_shared_feed_forward_length", 0, MAX_FF, false,
                           &l->n_ff_shared, err);
    const rn_status s = hparams_int(weights, "expert_shared_count", 0, 64, false, &n, err);
    l->n_ff_shared = n * l->n_ff_expert;
    return s;
}

rn_status hparams_router(struct hparams *hp, const struct weights *weights, enum route_score score,
                         rn_error *err) {
    int n_dense = 0;
    float scale = 0;
    rn_status s;
    if ((s = read_score(weights, &score, err))) return s;
    if ((s = hparams_float(weights, "expert_weights_scale", 0, 1e6, false, &scale, err))) return s;
    if ((s = hparams_int(weights, "leading_dense_block_count", 0, MODEL_MAX_LAYER, false, &n_dense,
                         err)))
        return s;
    for (int i = 0; i < hp->n_layer; i++) {
        struct layer *l = &hp->layer[i];
        if (i < n_dense) l->n_expert = 0;
        if (l->n_expert == 0) continue;
        l->score = score;
        l->expert_scale = scale == 1 ? 0 : scale;
        l->expert_least = ROUTE_LEAST;
        if ((s = read_shared(l, weights, err))) return s;
        if ((s = read_groups(l, weights, err))) return s;
    }
    return RN_OK;
}

void hparams_plain_weights(struct hparams *hp, const struct weights *weights) {
    if (hparams_has(weights, "expert_weights_norm")) return;
    for (int i = 0; i < hp->n_layer; i++) hp->layer[i].normalize_experts = false;
}

rn_status hparams_need_ff(const struct hparams *hp, const struct weights *weights, rn_error *err) {
    char name[160];
    for (int i = 0; i < hp->n_layer; i++) {
        const struct layer *l = &hp->layer[i];
        if (l->n_expert > 0 ? l->n_ff_expert > 0 : l->n_ff > 0) continue;
        find(weights, l->n_expert > 0 ? "expert_feed_forward_length" : "feed_forward_length", name,
             sizeof name);
        return err_set(err, RN_ERR_MODEL, "%s: key %s is missing or 0, layer %d needs it",
                       weights_name(weights), name, i);
    }
    return RN_OK;
}

rn_status hparams_refuse(const struct weights *weights, const char *key, const char *thing,
                         rn_error *err) {
    char name[160];
    int value = 0;
    const rn_status s = hparams_int(weights, key, 0, INT32_MAX, false, &value, err);
    if (s || value == 0) return s;
    find(weights, key, name, sizeof name);
    return err_set(err, RN_ERR_UNSUPPORTED, "%s: key %s is %d: %s is not supported",
                   weights_name(weights), name, value, thing);
}

// Experts of the layers that have some.
static int experts_of_some(const struct hparams *hp) {
    for (int i = 0; i < hp->n_layer; i++)
        if (hp->layer[i].n_expert > 0) return hp->layer[i].n_expert;
    return 0;
}

rn_status hparams_need_experts(const struct hparams *hp, const struct weights *weights,
                               rn_error *err) {
    char name[160];
    if (experts_of_some(hp) > 0) return RN_OK;
    find(weights, "expert_count", name, sizeof name);
    return err_set(err, RN_ERR_MODEL, "%s: key %s is missing or 0", weights_name(weights), name);
}

rn_status hparams_refuse_experts(const struct hparams *hp, const struct weights *weights,
                                 rn_error *err) {
    char name[160];
    if (experts_of_some(hp) == 0) return RN_OK;
    find(weights, "expert_count", name, sizeof name);
    return err_set(err, RN_ERR_UNSUPPORTED, "%s: key %s is %d: experts are not supported here",
                   weights_name(weights), name, experts_of_some(hp));
}

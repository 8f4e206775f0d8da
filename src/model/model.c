// Hyper-parameters from metadata, and the call into the architecture that builds the plan.
// Everything a file can say wrong is refused here with the key and the value; after model_init the
// numbers are safe.
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/arch.h"

// Limits of sane models: products of any three of them fit 64 bits, rows of buffers fit int.
enum {
    MAX_LAYER = 1024,
    MAX_EMBD = 1 << 17,
    MAX_FF = 1 << 19,
    MAX_HEAD = 1024,
    MAX_HEAD_DIM = 1024,
    MAX_CTX = 1 << 26,
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

// Some converters write one number per layer where all layers are equal.
static rn_status read_layers(const struct weights *weights, const struct meta_view *meta,
                             int64_t *out, rn_error *err) {
    if (meta->count == 0 || meta->count > MAX_LAYER)
        return err_set(err, RN_ERR_MODEL, "%s: key %s has %llu items, expected 1 to %d",
                       weights_name(weights), meta->key, (unsigned long long)meta->count,
                       MAX_LAYER);
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
    char name[160];
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
        return err_set(err, RN_ERR_MODEL, "%s: key %s is %lld, expected %d to %d (at offset %llu)",
                       weights_name(weights), name, (long long)value, min, max,
                       (unsigned long long)meta->offset);
    *out = (int)value;
    return RN_OK;
}

rn_status hparams_float(const struct weights *weights, const char *key, double min, double max,
                        bool required, float *out, rn_error *err) {
    char name[160];
    const struct meta_view *meta = find(weights, key, name, sizeof name);
    if (!meta) return required ? missing(weights, name, err) : RN_OK;
    double value;
    if (!meta_get_f64(meta, &value))
        return err_set(err, RN_ERR_MODEL, "%s: key %s at offset %llu is not a number",
                       weights_name(weights), name, (unsigned long long)meta->offset);
    if (!(value >= min && value <= max))
        return err_set(err, RN_ERR_MODEL, "%s: key %s is %g, expected %g to %g (at offset %llu)",
                       weights_name(weights), name, value, min, max,
                       (unsigned long long)meta->offset);
    *out = (float)value;
    return RN_OK;
}

// The vocabulary is as long as the embedding table has rows; "<arch>.vocab_size" and the token list
// must agree with it.
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

static rn_status read_heads(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    if ((s = hparams_int(weights, "attention.head_count", 1, MAX_HEAD, true, &hp->n_head, err)))
        return s;
    hp->n_head_kv = hp->n_head;
    if ((s = hparams_int(weights, "attention.head_count_kv", 1, MAX_HEAD, false, &hp->n_head_kv,
                         err)))
        return s;
    if (hp->n_head % hp->n_head_kv != 0)
        return err_set(err, RN_ERR_MODEL, "%s: %d heads are not a multiple of %d key/value heads",
                       weights_name(weights), hp->n_head, hp->n_head_kv);
    hp->dim_k = hp->n_embd / hp->n_head;
    if ((s = hparams_int(weights, "attention.key_length", 1, MAX_HEAD_DIM, false, &hp->dim_k, err)))
        return s;
    hp->dim_v = hp->n_embd / hp->n_head;
    if ((s = hparams_int(weights, "attention.value_length", 1, MAX_HEAD_DIM, false, &hp->dim_v,
                         err)))
        return s;
    if (hp->dim_k < 1 || hp->dim_v < 1)
        return err_set(err, RN_ERR_MODEL, "%s: a width of %d leaves nothing for each of %d heads",
                       weights_name(weights), hp->n_embd, hp->n_head);
    if (hp->dim_k > MAX_HEAD_DIM || hp->dim_v > MAX_HEAD_DIM)
        return err_set(err, RN_ERR_MODEL,
                       "%s: head sizes of %d (keys) and %d (values), expected at most %d",
                       weights_name(weights), hp->dim_k, hp->dim_v, MAX_HEAD_DIM);
    hp->n_rot = hp->dim_k;
    if ((s = hparams_int(weights, "rope.dimension_count", 2, hp->dim_k, false, &hp->n_rot, err)))
        return s;
    if (hp->n_rot % 2 != 0)
        return err_set(err, RN_ERR_MODEL,
                       "%s: %d rotated elements of a head (rope.dimension_count, else the "
                       "head size), expected an even number",
                       weights_name(weights), hp->n_rot);
    return RN_OK;
}

static rn_status read_common(struct hparams *hp, const struct weights *weights, rn_error *err) {
    rn_status s;
    *hp = (struct hparams){.rope_base = 10000, .rope_linear = 1};
    if ((s = hparams_int(weights, "block_count", 1, MAX_LAYER, true, &hp->n_layer, err))) return s;
    if ((s = hparams_int(weights, "context_length", 1, MAX_CTX, true, &hp->n_ctx, err))) return s;
    if ((s = hparams_int(weights, "embedding_length", 1, MAX_EMBD, true, &hp->n_embd, err)))
        return s;
    if ((s = hparams_int(weights, "feed_forward_length", 1, MAX_FF, true, &hp->n_ff, err)))
        return s;
    if ((s = read_heads(hp, weights, err))) return s;
    if ((s = hparams_float(weights, "rope.freq_base", 1, 1e12, false, &hp->rope_base, err)))
        return s;
    return read_vocab(hp, weights, err);
}

static rn_status find_arch(const struct weights *weights, const struct arch **out, rn_error *err) {
    const struct meta_view *meta = weights_meta_find(weights, "general.architecture");
    const char *name;
    size_t len;
    if (!meta) return missing(weights, "general.architecture", err);
    if (!meta_get_string(meta, &name, &len))
        return err_set(err, RN_ERR_MODEL, "%s: key general.architecture is not a string",
                       weights_name(weights));
    *out = arch_find(name, len);
    if (!*out) {
        char known[256] = "";
        arch_known(known, sizeof known);
        return err_set(err, RN_ERR_UNSUPPORTED,
                       "%s: architecture '%.*s' is not supported (known: %s)",
                       weights_name(weights), (int)(len < 64 ? len : 64), name, known);
    }
    return RN_OK;
}

rn_status model_init(struct model *model, const struct weights *weights, rn_error *err) {
    memset(model, 0, sizeof *model);
    plan_init(&model->plan);
    rn_status s;
    if ((s = find_arch(weights, &model->arch, err))) return s;
    if ((s = read_common(&model->hp, weights, err))) return s;
    if ((s = model->arch->read(&model->hp, weights, err))) return s;
    struct builder b = {
        .weights = weights, .model = model, .plan = &model->plan, .err = err, .layer = -1};
    model->plan.n_vocab = model->hp.n_vocab;
    model->arch->build(&b);
    if (!b.status) b.status = plan_finish(&model->plan, err);
    if (b.status) {
        plan_deinit(&model->plan);
        return b.status;
    }
    for (int i = 0; i < weights_tensor_count(weights); i++) {
        const struct tensor_view *t = weights_tensor_at(weights, i);
        model->n_params += (uint64_t)(t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3]);
    }
    return RN_OK;
}

void model_deinit(struct model *model) { plan_deinit(&model->plan); }

const char *model_arch_name(const struct model *model) { return model->arch->name; }

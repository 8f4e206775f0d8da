// Reads tokenizer.ggml.* of a file into a vocab_source. Every key is checked for its type here; the
// tokenizer checks ids, merges and strings.
#include "engine/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "model/model.h"

struct loader {
    const struct weights *weights;
    rn_error *err;
    struct vocab_source source;
    struct text_span *token, *merge;
    int32_t *type;
};

static rn_status bad_type(const struct loader *l, const struct meta_view *meta,
                          const char *wanted) {
    return err_set(l->err, RN_ERR_MODEL, "%s: key %s at offset %llu is not %s",
                   weights_name(l->weights), meta->key, (unsigned long long)meta->offset, wanted);
}

static rn_status missing(const struct loader *l, const char *key) {
    return err_set(l->err, RN_ERR_MODEL, "%s: key %s is missing", weights_name(l->weights), key);
}

static rn_status read_string(struct loader *l, const char *key, struct text_span *out) {
    const struct meta_view *meta = weights_meta_find(l->weights, key);
    if (!meta) return RN_OK;
    return meta_get_string(meta, &out->data, &out->len) ? RN_OK : bad_type(l, meta, "a string");
}

static rn_status read_id(struct loader *l, const char *key, int32_t *out) {
    const struct meta_view *meta = weights_meta_find(l->weights, key);
    int64_t value;
    *out = -1;
    if (!meta) return RN_OK;
    if (!meta_get_i64(meta, &value)) return bad_type(l, meta, "an integer below 2^63");
    // some files write 2^32 - 1 for "none"
    if (value == -1 || value == UINT32_MAX) return RN_OK;
    if (value < 0 || value >= l->source.n_token)
        return err_set(l->err, RN_ERR_MODEL, "%s: key %s is %lld, expected 0 to %d",
                       weights_name(l->weights), key, (long long)value, l->source.n_token - 1);
    *out = (int32_t)value;
    return RN_OK;
}

static rn_status read_bool(struct loader *l, const char *key, bool *out) {
    const struct meta_view *meta = weights_meta_find(l->weights, key);
    if (!meta) return RN_OK;
    return meta_get_bool(meta, out) ? RN_OK : bad_type(l, meta, "a bool");
}

static rn_status read_strings(struct loader *l, const char *key, struct text_span **out,
                              int32_t *count) {
    const struct meta_view *meta = weights_meta_find(l->weights, key);
    struct meta_cursor cursor;
    if (!meta) return missing(l, key);
    if (!meta_strings_begin(meta, &cursor)) return bad_type(l, meta, "a list of strings");
    if (meta->count > MODEL_MAX_VOCAB)
        return err_set(l->err, RN_ERR_MODEL, "%s: key %s has %llu items, expected at most %d",
                       weights_name(l->weights), key, (unsigned long long)meta->count,
                       MODEL_MAX_VOCAB);
    *count = (int32_t)meta->count;
    *out = calloc(meta->count ? meta->count : 1, sizeof **out);
    if (!*out) return err_set(l->err, RN_ERR_NOMEM, "no memory for %d tokens", *count);
    for (int32_t i = 0; i < *count; i++)
        if (!meta_strings_next(&cursor, &(*out)[i].data, &(*out)[i].len))
            return bad_type(l, meta, "a list of strings");
    return RN_OK;
}

static rn_status read_types(struct loader *l) {
    static const char key[] = "tokenizer.ggml.token_type";
    const struct meta_view *meta = weights_meta_find(l->weights, key);
    if (!meta) return RN_OK;
    if (meta->type != META_ARRAY) return bad_type(l, meta, "a list");
    if (meta->count != (uint64_t)l->source.n_token)
        return err_set(l->err, RN_ERR_MODEL, "%s: key %s has %llu items, expected %d",
                       weights_name(l->weights), key, (unsigned long long)meta->count,
                       l->source.n_token);
    l->type = calloc((size_t)l->source.n_token + 1, sizeof *l->type);
    if (!l->type)
        return err_set(l->err, RN_ERR_NOMEM, "no memory for %d tokens", l->source.n_token);
    for (int32_t i = 0; i < l->source.n_token; i++) {
        int64_t value;
        if (!meta_item_i64(meta, (uint64_t)i, &value))
            return bad_type(l, meta, "a list of integers");
        // the tokenizer checks the value; what does not fit is as wrong as -1
        l->type[i] = value < INT32_MIN || value > INT32_MAX ? -1 : (int32_t)value;
    }
    return RN_OK;
}

static rn_status read_source(struct loader *l) {
    struct vocab_source *source = &l->source;
    rn_status s;
    if (!weights_meta_find(l->weights, "tokenizer.ggml.model"))
        return missing(l, "tokenizer.ggml.model");
    if ((s = read_string(l, "tokenizer.ggml.model", &source->model))) return s;
    if ((s = read_string(l, "tokenizer.ggml.pre", &source->pre))) return s;
    if ((s = read_strings(l, "tokenizer.ggml.tokens", &l->token, &source->n_token))) return s;
    if ((s = read_types(l))) return s;
    if (weights_meta_find(l->weights, "tokenizer.ggml.merges"))
        if ((s = read_strings(l, "tokenizer.ggml.merges", &l->merge, &source->n_merge))) return s;
    source->token = l->token;
    source->merge = l->merge;
    source->type = l->type;
    if ((s = read_id(l, "tokenizer.ggml.bos_token_id", &source->bos))) return s;
    if ((s = read_id(l, "tokenizer.ggml.eos_token_id", &source->eos))) return s;
    if ((s = read_id(l, "tokenizer.ggml.eot_token_id", &source->eot))) return s;
    if ((s = read_id(l, "tokenizer.ggml.eom_token_id", &source->eom))) return s;
    if ((s = read_bool(l, "tokenizer.ggml.add_bos_token", &source->add_bos))) return s;
    return read_bool(l, "tokenizer.ggml.add_eos_token", &source->add_eos);
}

rn_status vocab_load(const struct weights *weights, struct tokenizer **out, rn_error *err) {
    struct loader l = {.weights = weights, .err = err};
    rn_status status = read_source(&l);
    if (!status) {
        status = tokenizer_create(&l.source, out, err);
        if (status) err_prefix(err, weights_name(weights));
    }
    free(l.token);
    free(l.merge);
    free(l.type);
    return status;
}

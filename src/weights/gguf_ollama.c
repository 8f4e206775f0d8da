// gpt-oss as Ollama converted it, until it took llama.cpp's names: the architecture is gptoss, some
// tensors have other names, and keys are missing. The tables become like those in llama.cpp's
// files, so that nothing above knows the difference. Nothing of a tensor's bytes changes. Called by
// weights.c after a GGUF file was read.
#include <stdlib.h>
#include <string.h>

#include "weights/store.h"

#define OLLAMA "gptoss"
#define OURS   "gpt-oss"

enum { NAME_SIZE = 192 };

static bool is_ollama(const struct weights *weights) {
    const struct meta_view *meta = weights_meta_find(weights, "general.architecture");
    const char *name;
    size_t len;
    return meta && meta_get_string(meta, &name, &len) && len == strlen(OLLAMA) &&
           memcmp(name, OLLAMA, len) == 0;
}

static rn_status nomem(const struct weights *weights, rn_error *err) {
    return err_set(err, RN_ERR_NOMEM, "%s: out of memory", weights->name);
}

// --- tensors ---

// The first files have gate and up by turns in one tensor, which the architecture does not read.
static rn_status first_refuse(const struct weights *weights, rn_error *err) {
    for (int i = 0; i < weights->n_tensors; i++) {
        const char *name = weights->tensors[i].name;
        if (!strstr(name, ".ffn_gate_up_exps.")) continue;
        return err_set(err, RN_ERR_UNSUPPORTED,
                       "%s: tensor %s: Ollama wrote gpt-oss so at first: 'ollama pull' brings the "
                       "form that is supported",
                       weights->name, name);
    }
    return RN_OK;
}

// With the start of a layer's name before them.
static const char *const endings[][2] = {
    {".attn_out.weight", ".attn_output.weight"},
    {".attn_out.bias", ".attn_output.bias"},
    {".attn_sinks", ".attn_sinks.weight"},
    {".ffn_norm.weight", ".post_attention_norm.weight"},
};

// NULL if memory ran out.
static const char *tensor_name(struct weights *weights, const char *name) {
    const size_t len = strlen(name);
    char text[NAME_SIZE];
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t end = strlen(endings[i][0]), more = strlen(endings[i][1]);
        if (len < end || strcmp(name + len - end, endings[i][0]) != 0) continue;
        if (len - end + more >= sizeof text) continue;
        memcpy(text, name, len - end);
        memcpy(text + len - end, endings[i][1], more);
        return arena_strdup(&weights->arena, text, len - end + more);
    }
    return name;
}

static rn_status tensors_rename(struct weights *weights, rn_error *err) {
    for (int i = 0; i < weights->n_tensors; i++) {
        const char *name = tensor_name(weights, weights->tensors[i].name);
        if (!name) return nomem(weights, err);
        weights->tensors[i].name = name;
    }
    return store_tensors_index(weights, err);
}

// --- keys ---

static rn_status keys_index(struct weights *weights, rn_error *err) {
    free(weights->metas.names);
    weights->metas.names = NULL;
    return store_metas_index(&weights->metas, weights->name, err);
}

// In place of the key's value, or a new one.
static rn_status string_put(struct weights *weights, const char *key, const char *value,
                            rn_error *err) {
    const struct meta_view *old = weights_meta_find(weights, key);
    const size_t len = strlen(value);
    const char *copy = arena_strdup(&weights->arena, value, len);
    struct meta_view *meta = old    ? &weights->metas.items[old - weights->metas.items]
                             : copy ? store_meta_push(&weights->metas)
                                    : NULL;
    if (!copy || !meta) return nomem(weights, err);
    *meta = (struct meta_view){.key = old ? old->key : key,
                               .type = META_STRING,
                               .count = len,
                               .data = (const uint8_t *)copy,
                               .bytes = len};
    return keys_index(weights, err);
}

static rn_status keys_rename(struct weights *weights, rn_error *err) {
    const size_t from = strlen(OLLAMA "."), to = strlen(OURS ".");
    for (int i = 0; i < weights->metas.n; i++) {
        struct meta_view *meta = &weights->metas.items[i];
        if (strncmp(meta->key, OLLAMA ".", from) != 0) continue;
        const size_t len = strlen(meta->key) - from;
        char *key = arena_alloc(&weights->arena, to + len + 1);
        if (!key) return nomem(weights, err);
        memcpy(key, OURS ".", to);
        memcpy(key + to, meta->key + from, len + 1);
        meta->key = key;
    }
    return keys_index(weights, err);
}

// The pre-tokenizer of these files is Ollama's default, not the model's.
static rn_status keys_complete(struct weights *weights, rn_error *err) {
    rn_status s = string_put(weights, "general.architecture", OURS, err);
    if (s == RN_OK) s = string_put(weights, "tokenizer.ggml.pre", "gpt-4o", err);
    if (s == RN_OK && !weights_meta_find(weights, OLLAMA ".rope.scaling.type"))
        s = string_put(weights, OLLAMA ".rope.scaling.type", "yarn", err);
    return s == RN_OK ? keys_rename(weights, err) : s;
}

rn_status gguf_ollama_adopt(struct weights *weights, rn_error *err) {
    if (!is_ollama(weights)) return RN_OK;
    rn_status status = first_refuse(weights, err);
    if (status == RN_OK) status = tensors_rename(weights, err);
    return status == RN_OK ? keys_complete(weights, err) : status;
}

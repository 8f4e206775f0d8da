// Poolings of embeddings: THE table of their names, and the pooling that a model's files declare.
// GGUF files have a number for it. Folders have a name, which hf_pooling.c finds, or the fault of
// the file that should say it.
#include <stdio.h>
#include <string.h>

#include "runnel_model.h"

#define FAULT "pooling_fault"

static const struct {
    const char *name;
    int gguf;           // its number in GGUF files; -1 if it has none
    rn_pooling pooling; // RN_POOLING_NONE if it is not computed
    const char *why;    // it is not
} poolings[] = {
    {"mean", 1, RN_POOLING_MEAN, NULL},
    {"last", 3, RN_POOLING_LAST, NULL},
    {"cls", 2, RN_POOLING_CLS, NULL},
    {"none", 0, RN_POOLING_NONE, "it gives a vector for each token"},
    {"rank", 4, RN_POOLING_NONE, "reranking needs the model's classifier, which is not computed"},
    {"max", -1, RN_POOLING_NONE, "it takes the largest of all tokens"},
    {"mean_sqrt_len", -1, RN_POOLING_NONE, "it divides by the root of the length"},
    {"weightedmean", -1, RN_POOLING_NONE, "it weighs tokens by their position"},
    {"Dense", -1, RN_POOLING_NONE, "its layer after the pooling is not computed"},
};
enum { N_POOLINGS = sizeof poolings / sizeof *poolings };

static const struct meta_view *find(const rn_model *model, const char *key) {
    char name[160];
    const char *arch = "";
    size_t len = 0;
    const struct meta_view *meta = weights_meta_find(model->weights, "general.architecture");
    if (meta) meta_get_string(meta, &arch, &len);
    snprintf(name, sizeof name, "%.*s.%s", len < 100 ? (int)len : 100, arch, key);
    return weights_meta_find(model->weights, name);
}

// A number that no pooling has stands for itself.
static void number_write(int64_t number, char out[static 32]) {
    for (int i = 0; i < N_POOLINGS; i++) {
        if (poolings[i].gguf != number) continue;
        snprintf(out, 32, "%s", poolings[i].name);
        return;
    }
    snprintf(out, 32, "%lld", (long long)number);
}

void model_pooling_read(rn_model *model) {
    const struct meta_view *name = find(model, "pooling"), *type = find(model, "pooling_type"),
                           *norm = find(model, "normalize_embeddings");
    const char *text = NULL;
    size_t len = 0;
    int64_t number;
    bool normalizes;
    if (find(model, FAULT))
        snprintf(model->pooling, sizeof model->pooling, "damaged");
    else if (name && meta_get_string(name, &text, &len))
        snprintf(model->pooling, sizeof model->pooling, "%.*s", len < 31 ? (int)len : 31, text);
    else if (type && meta_get_i64(type, &number) && number >= 0) // -1: it is not said
        number_write(number, model->pooling);
    model->info.pooling = *model->pooling ? model->pooling : NULL;
    model->info.normalizes = norm && meta_get_bool(norm, &normalizes) ? normalizes : -1;
}

// "mean, last, cls"
static void supported_write(char *out, size_t size) {
    size_t at = 0;
    for (int i = 0; i < N_POOLINGS; i++)
        if (poolings[i].pooling && at < size)
            at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", poolings[i].name);
}

// The refusal of a pooling that no file says, with the message of the file's reader.
static rn_status damaged(const struct meta_view *fault, const char *supported, rn_error *err) {
    const char *text = "";
    size_t len = 0;
    meta_get_string(fault, &text, &len);
    return err_set(err, RN_ERR_UNSUPPORTED,
                   "the model's pooling is unknown, since a file is damaged: %.*s (name one: %s)",
                   (int)len, text, supported);
}

rn_status rn_model_pooling(const rn_model *model, const char *name, rn_pooling *out,
                           rn_error *err) {
    const bool is_own = !name;
    const struct meta_view *fault = is_own ? find(model, FAULT) : NULL;
    char supported[64];
    supported_write(supported, sizeof supported);
    if (fault) return damaged(fault, supported, err);
    if (is_own) name = model->info.pooling ? model->info.pooling : "mean";
    const char *whose = is_own ? ", which the model's files declare," : "", *why = NULL;
    for (int i = 0; i < N_POOLINGS; i++) {
        if (strcmp(poolings[i].name, name) != 0) continue;
        *out = poolings[i].pooling;
        if (*out) return RN_OK;
        why = poolings[i].why;
    }
    const rn_status status = is_own ? RN_ERR_UNSUPPORTED : RN_ERR_ARG;
    return err_set(err, status, "'%.64s'%s is not supported%s%s (supported: %s)", name, whose,
                   why ? ": " : "", why ? why : "", supported);
}

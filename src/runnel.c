// Models and tokens of the public interface: a thin file that owns the pieces of a model and hands
// calls on.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "load/vocab.h"
#include "runnel_model.h"
#include "text/detokenizer.h"
#include "tools.h"
#include "weights/synthetic.h"

const char *rn_version(void) { return RN_VERSION; }

// ---------------------------------------------------------------- model

// A sampling setting of the file; the default stays where it is absent or out of its range.
static void read_setting(const struct weights *weights, const char *key, double min, double max,
                         float *out) {
    const struct meta_view *meta = weights_meta_find(weights, key);
    double value;
    if (meta && meta_get_f64(meta, &value) && value >= min && value <= max) *out = (float)value;
}

static const char *main_format(const struct weights *weights) {
    uint64_t bytes[FORMAT_COUNT] = {0};
    int best = -1;
    for (int i = 0; i < weights_tensor_count(weights); i++) {
        const struct tensor_view *tensor = weights_tensor_at(weights, i);
        bytes[tensor->format] += tensor->bytes;
        if (best < 0 || bytes[tensor->format] > bytes[best]) best = (int)tensor->format;
    }
    return best < 0 ? "" : format_at((enum format_id)best)->name;
}

static void fill_info(rn_model *model) {
    const struct weights *weights = model->weights;
    rn_model_info *info = &model->info;
    const struct meta_view *name = weights_meta_find(weights, "general.name");
    const char *text = "";
    size_t len = 0;
    if (name) meta_get_string(name, &text, &len);
    snprintf(model->name, sizeof model->name, "%.*s", (int)(len < 127 ? len : 127), text);
    *info = (rn_model_info){
        .path = weights_path(weights),
        .name = model->name,
        .architecture = "",
        .container = weights_container(weights),
        .format = main_format(weights),
        .n_vocab = model->tokenizer ? tokenizer_size(model->tokenizer) : model->model.hp.n_vocab,
        .file_bytes = weights_bytes(weights),
#define SAMPLING_MODEL(id, field, member, otherwise) .member = otherwise,
#include "plan/sampling.def"
    };
    for (int i = 0; i < weights_tensor_count(weights); i++)
        info->weight_bytes += weights_tensor_at(weights, i)->bytes;
    float top_k = 0;
    read_setting(weights, "general.sampling.temp", 0, 100, &info->temperature);
    read_setting(weights, "general.sampling.top_p", 0, 1, &info->top_p);
    read_setting(weights, "general.sampling.min_p", 0, 1, &info->min_p);
    read_setting(weights, "general.sampling.top_k", 0, 1 << 22, &top_k);
    read_setting(weights, "general.sampling.penalty_repeat", 0, 100, &info->repeat_penalty);
    info->top_k = (int)top_k;
    model_pooling_read(model);
    if (!model->has_plan) return;
    const struct hparams *hp = &model->model.hp;
    info->architecture = model_arch_name(&model->model);
    info->n_ctx_train = hp->n_ctx;
    info->n_embd = hp->n_embd;
    info->n_layer = hp->n_layer;
    int attends = 0; // the first layer with attention, else the last layer
    while (attends < hp->n_layer - 1 && hp->layer[attends].n_head_kv == 0) attends++;
    info->n_head = hp->layer[attends].n_head;
    info->n_head_kv = hp->layer[attends].n_head_kv;
    info->n_params = model->model.n_params;
}

enum { WITH_PLAN = 1, WITH_VOCAB = 2, WITH_ALL = WITH_PLAN | WITH_VOCAB };

// Takes over weights, also when it fails.
static rn_status open_model(struct weights *weights, int parts, rn_model **out, rn_error *err) {
    const bool with_plan = parts & WITH_PLAN;
    rn_model *model = calloc(1, sizeof *model);
    if (!model) {
        weights_close(weights);
        return err_set(err, RN_ERR_NOMEM, "no memory for a model");
    }
    model->weights = weights;
    rn_status status = model_shapes_create(&model->shapes, err);
    if (!status && with_plan) {
        status = model_init(&model->model, weights, err);
        model->has_plan = !status;
        if (status == RN_ERR_MODEL && weights_tensor_count(weights) == 0)
            status = err_set(err, status, "%s: holds no tensors: it can tokenize, not generate",
                             weights_name(weights));
    }
    if (!status && parts & WITH_VOCAB) {
        status = vocab_load(weights, with_plan ? model->model.hp.n_vocab : 0, &model->tokenizer,
                            &model->chat_template, err);
    }
    if (status) {
        rn_model_close(model);
        return status;
    }
    fill_info(model);
    *out = model;
    return RN_OK;
}

static rn_status open_path(const char *path, bool with_plan, rn_model **out, rn_error *err) {
    struct weights *weights;
    *out = NULL;
    const rn_status status = with_plan ? model_weights_open(path, &weights, err)
                                       : model_weights_open_vocab(path, &weights, err);
    return status ? status : open_model(weights, with_plan ? WITH_ALL : WITH_VOCAB, out, err);
}

rn_status rn_model_open(const char *path, rn_model **out, rn_error *err) {
    return open_path(path, true, out, err);
}

rn_status rn_model_open_vocab(const char *path, rn_model **out, rn_error *err) {
    return open_path(path, false, out, err);
}

rn_status rn_model_open_memory(const char *name, const void *data, size_t size, rn_model **out,
                               rn_error *err) {
    struct weights *weights;
    *out = NULL;
    const rn_status status = weights_open_memory(name, data, size, &weights, err);
    return status ? status : open_model(weights, WITH_ALL, out, err);
}

rn_status rn_model_attach(rn_model *model, const char *path, rn_error *err) {
    struct weights *weights;
    if (!model->has_plan)
        return err_set(err, RN_ERR_ARG, "the model was opened for its vocabulary alone");
    rn_status status = model_weights_open(path, &weights, err);
    if (status) return status;
    status = model_attach(&model->model, weights, err);
    if (status) {
        weights_close(weights);
        return status;
    }
    model->block = weights;
    model->info.block_path = weights_path(weights);
    return RN_OK;
}

bool rn_model_is_block(const char *path) {
    struct weights *weights;
    if (model_weights_open_vocab(path, &weights, NULL)) return false;
    const bool is_block = model_is_draft_block(weights);
    weights_close(weights);
    return is_block;
}

rn_status tools_model_open_synthetic(const char *spec, rn_model **out, rn_error *err) {
    struct weights *weights;
    *out = NULL;
    const rn_status status = weights_open_synthetic(spec, &weights, err);
    return status ? status : open_model(weights, WITH_ALL, out, err);
}

static bool ends_with(const char *text, const char *end) {
    const size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && !strcmp(text + len - end_len, end);
}

static rn_status describe_shape(const char *name, const char *format, struct weights **out,
                                rn_error *err) {
    char spec[128];
    if (format && strchr(name, ':'))
        return err_set(err, RN_ERR_ARG, "'%.64s' has a format of its own beside %.32s", name,
                       format);
    if (strchr(name, ':')) return weights_describe_synthetic(name, out, err);
    snprintf(spec, sizeof spec, "%.64s:%.48s", name, format ? format : weights_shape_format(name));
    return weights_describe_synthetic(spec, out, err);
}

static rn_status neither_fail(const char *name, rn_error *err) {
    char known[SHAPES_LIST];
    weights_shapes_list(known, sizeof known);
    return err_set(err, RN_ERR_ARG, "'%.64s' is neither a file nor a known shape (known: %s)", name,
                   known);
}

// A folder before the download of its weights: a plan needs its config.json alone.
static bool folder_has_config_alone(const char *folder, char config[PATH_MAX]) {
    static const char *const files[] = {"model.safetensors", "model.safetensors.index.json",
                                        "config.json"};
    bool has[3];
    for (int i = 0; i < 3; i++) {
        const int len = snprintf(config, PATH_MAX, "%s/%s", folder, files[i]);
        has[i] = len < PATH_MAX && access(config, F_OK) == 0;
    }
    return has[2] && !has[0] && !has[1];
}

rn_status tools_model_describe(const char *name, const char *format, rn_model **out,
                               rn_error *err) {
    char config[PATH_MAX];
    if (folder_has_config_alone(name, config)) name = config;
    const bool is_config = ends_with(name, ".json");
    struct weights *weights = NULL;
    rn_status status;
    *out = NULL;
    if (access(name, F_OK) != 0 && (weights_is_shape(name) || !strchr(name, '/'))) {
        status = weights_is_shape(name) ? describe_shape(name, format, &weights, err)
                                        : neither_fail(name, err);
        return status ? status : open_model(weights, WITH_PLAN, out, err);
    }
    status = is_config ? model_weights_describe(name, &weights, err)
                       : model_weights_open(name, &weights, err);
    if (status) return status;
    if (is_config && !format) format = TOOLS_CONFIG_FORMAT;
    if (format) status = weights_reformat(weights, format, err);
    if (!status) return open_model(weights, WITH_PLAN, out, err);
    weights_close(weights);
    return status;
}

rn_status tools_weights_open(const char *path, struct weights **out, rn_error *err) {
    return model_weights_open(path, out, err);
}

void rn_model_close(rn_model *model) {
    if (!model) return;
    if (model->has_plan) model_deinit(&model->model);
    model_shapes_destroy(model->shapes);
    if (model->tokenizer) tokenizer_destroy(model->tokenizer);
    free(model->chat_template);
    weights_close(model->weights);
    if (model->block) weights_close(model->block);
    free(model);
}

const rn_model_info *rn_model_get_info(const rn_model *model) { return &model->info; }

rn_status rn_model_check_files(const rn_model *model, rn_error *err) {
    const rn_status status = weights_check_files(model->weights, err);
    return status || !model->block ? status : weights_check_files(model->block, err);
}

rn_sampling rn_sampling_defaults(const rn_model *model) {
    rn_sampling sampling = rn_sampling_neutral();
#define SAMPLING_MODEL(id, field, member, otherwise) sampling.field = model->info.member;
#include "plan/sampling.def"
    return sampling;
}

const struct weights *tools_weights(const rn_model *model) { return model->weights; }
const struct plan *tools_plan(const rn_model *model) {
    return model->has_plan ? &model->model.plan : NULL;
}
const struct tokenizer *tools_tokenizer(const rn_model *model) { return model->tokenizer; }
const char *rn_model_chat_template(const rn_model *model) { return model->chat_template; }

// ---------------------------------------------------------------- tokens

const char *rn_token_bytes(const rn_model *model, int32_t id, size_t *len) {
    const bool known = id >= 0 && id < tokenizer_size(model->tokenizer);
    const struct text_span span =
        known ? tokenizer_bytes(model->tokenizer, id) : (struct text_span){"", 0};
    *len = span.len;
    return span.data;
}

int32_t rn_token_bos(const rn_model *model) { return tokenizer_bos(model->tokenizer); }

int32_t rn_token_eos(const rn_model *model) { return tokenizer_eos(model->tokenizer); }
int32_t rn_token_eot(const rn_model *model) { return tokenizer_eot(model->tokenizer); }
int32_t rn_token_pad(const rn_model *model) { return tokenizer_pad(model->tokenizer); }

// The second key of a part is that of older files.
int32_t rn_token_fim(const rn_model *model, rn_fim part) {
    static const char *const keys[][2] = {
        [RN_FIM_PREFIX] = {"tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"},
        [RN_FIM_SUFFIX] = {"tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"},
        [RN_FIM_MIDDLE] = {"tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"},
        [RN_FIM_PAD] = {"tokenizer.ggml.fim_pad_token_id"},
        [RN_FIM_REPOSITORY] = {"tokenizer.ggml.fim_rep_token_id"},
        [RN_FIM_FILE] = {"tokenizer.ggml.fim_sep_token_id"},
    };
    if ((size_t)part >= sizeof keys / sizeof *keys) return -1;
    for (int i = 0; i < 2 && keys[part][i]; i++) {
        const struct meta_view *meta = weights_meta_find(model->weights, keys[part][i]);
        int64_t id;
        if (meta && meta_get_i64(meta, &id) && id >= 0 && id < tokenizer_size(model->tokenizer))
            return (int32_t)id;
    }
    return -1;
}

bool rn_token_is_special(const rn_model *model, int32_t id) {
    const bool known = id >= 0 && id < tokenizer_size(model->tokenizer);
    return known && tokenizer_is_special(model->tokenizer, id);
}

bool rn_token_is_end(const rn_model *model, int32_t id) {
    return tokenizer_is_end(model->tokenizer, id);
}

rn_status rn_tokenize(const rn_model *model, const char *text, size_t len, int flags, int32_t **ids,
                      size_t *n_ids, rn_error *err) {
    struct token_list list = {0};
    const int encode = (flags & RN_TOKENIZE_BOS ? ENCODE_BOS : 0) |
                       (flags & RN_TOKENIZE_SPECIAL ? ENCODE_SPECIAL : 0) |
                       (flags & RN_TOKENIZE_GUARDED ? ENCODE_GUARDED : 0);
    const rn_status status = tokenizer_encode(model->tokenizer, text, len, encode, &list, err);
    if (status) {
        token_list_deinit(&list);
        err_prefix(err, err_path(model->info.path));
        return status;
    }
    *ids = list.id;
    *n_ids = list.count;
    return RN_OK;
}

rn_status rn_detokenize(const rn_model *model, const int32_t *ids, size_t n_ids, bool special,
                        char **text, size_t *len, rn_error *err) {
    size_t bytes = 0;
    for (size_t i = 0; i < n_ids; i++) {
        if (ids[i] < 0 || ids[i] >= tokenizer_size(model->tokenizer))
            return err_set(err, RN_ERR_ARG, "token %zu is %d, expected 0 to %d", i, ids[i],
                           tokenizer_size(model->tokenizer) - 1);
        bytes += tokenizer_bytes(model->tokenizer, ids[i]).len;
    }
    char *out = malloc(3 * (bytes + 4 * (n_ids + 1)) + 1);
    if (!out) return err_set(err, RN_ERR_NOMEM, "no memory for %zu bytes of text", bytes);
    struct detokenizer detok = {0};
    size_t at = 0;
    for (size_t i = 0; i < n_ids; i++) {
        if (!special && tokenizer_is_special(model->tokenizer, ids[i])) continue;
        const struct text_span piece = tokenizer_bytes(model->tokenizer, ids[i]);
        at += detokenizer_feed(&detok, piece.data, piece.len, out + at);
    }
    at += detokenizer_finish(&detok, out + at);
    if (at > 0 && out[0] == ' ' && tokenizer_strips_space(model->tokenizer))
        memmove(out, out + 1, --at); // the space that encoding puts before a text
    out[at] = 0;
    *text = out;
    *len = at;
    return RN_OK;
}

void rn_free(void *memory) { free(memory); }

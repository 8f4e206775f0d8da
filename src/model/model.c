// A model from its files: the architecture is found, hyper-parameters are read, the plan is built.
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/arch.h"
#include "model/hparams.h"

static rn_status open_any(const char *path, bool is_vocab, struct weights **out, rn_error *err) {
    struct hf_arch folders[ARCH_COUNT + 1];
    arch_folders(folders);
    return weights_open_any(path, folders, is_vocab, out, err);
}

rn_status model_weights_open(const char *path, struct weights **out, rn_error *err) {
    return open_any(path, false, out, err);
}

rn_status model_weights_open_vocab(const char *path, struct weights **out, rn_error *err) {
    return open_any(path, true, out, err);
}

// What a file is that makes no text, and what to do, by general.type or general.architecture.
static const char *no_model(const char *name, size_t len) {
    static const struct {
        const char *name, *what;
    } files[] = {
        {"adapter", "it is an adapter (LoRA), not a model: merge it into its model first, as by "
                    "llama-export-lora, and give the result"},
        {"controlvector", "it is a control vector, which steers a model: give the model's file"},
        {"imatrix", "it is an importance matrix, which quantizing reads: give the model's file"},
#define PROJECTOR                                                                                  \
    "it reads images or sound for another file, which has the language model: give that one"
        {"mmproj", PROJECTOR},
        {"clip", PROJECTOR},
#undef PROJECTOR
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (len == strlen(files[i].name) && memcmp(name, files[i].name, len) == 0)
            return files[i].what;
    return NULL;
}

// Adapters name the architecture of the model that they are for, and importance matrices name none.
static rn_status check_type(const struct weights *weights, rn_error *err) {
    const struct meta_view *meta = weights_meta_find(weights, "general.type");
    const char *type, *what;
    size_t len;
    if (!meta || !meta_get_string(meta, &type, &len)) return RN_OK;
    what = no_model(type, len);
    return what ? err_set(err, RN_ERR_UNSUPPORTED, "%s: %s", weights_name(weights), what) : RN_OK;
}

static rn_status find_arch(const struct weights *weights, const struct arch **out, rn_error *err) {
    const struct meta_view *meta = weights_meta_find(weights, "general.architecture");
    const char *name;
    size_t len;
    const rn_status status = check_type(weights, err);
    if (status) return status;
    if (!meta)
        return err_set(err, RN_ERR_MODEL, "%s: key general.architecture is missing",
                       weights_name(weights));
    if (!meta_get_string(meta, &name, &len))
        return err_set(err, RN_ERR_MODEL, "%s: key general.architecture is not a string",
                       weights_name(weights));
    *out = arch_find(name, len);
    if (no_model(name, len))
        return err_set(err, RN_ERR_UNSUPPORTED, "%s: architecture '%.*s' is not supported: %s",
                       weights_name(weights), (int)len, name, no_model(name, len));
    if (!*out)
        return err_set(err, RN_ERR_UNSUPPORTED,
                       "%s: architecture '%.*s' is not supported; 'runnel inspect --architectures' "
                       "lists the %d that are",
                       weights_name(weights), (int)(len < 64 ? len : 64), name, ARCH_COUNT);
    return RN_OK;
}

static rn_status find_model(const struct weights *weights, const struct arch **out, rn_error *err) {
    const rn_status status = find_arch(weights, out, err);
    if (status || !(*out)->drafts_for) return status;
    return err_set(err, RN_ERR_UNSUPPORTED,
                   "%s: '%s' is no model of its own: it drafts for models of '%s', whose keys and "
                   "values it reads",
                   weights_name(weights), (*out)->name, (*out)->drafts_for);
}

// Tensors that take part in every model; others (of images, of rope at another length) may be left.
static bool is_essential(const char *name) {
    static const char *const starts[] = {"blk.",          "output",     "token_embd",
                                         "position_embd", "per_layer_", "nextn."};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(name, starts[i], strlen(starts[i])) == 0) return true;
    return false;
}

// Whether the tensor is of a block behind the last layer, which the plan leaves out.
static bool is_nextn(const struct hparams *hp, const char *name) {
    int layer;
    return hp->n_nextn > 0 && sscanf(name, "blk.%4d.", &layer) == 1 && layer >= hp->n_layer &&
           layer < hp->n_layer + hp->n_nextn;
}

// One that the architecture knows nothing of means that the text would be wrong.
static rn_status check_all_used(const struct builder *b) {
    for (int i = 0; i < weights_tensor_count(b->weights); i++) {
        const struct tensor_view *tensor = weights_tensor_at(b->weights, i);
        if (b->used[i] || !is_essential(tensor->name)) continue;
        if (strstr(tensor->name, ".attn_rot_embd.")) continue; // old files; computed here
        if (is_nextn(&b->model->hp, tensor->name)) continue;
        return err_set(b->err, RN_ERR_UNSUPPORTED, "%s: tensor %s is unknown to architecture '%s'",
                       weights_name(b->weights), tensor->name, b->model->arch->name);
    }
    return RN_OK;
}

// Where the bytes of a plan's weights are: the model's files, and those of a block that was
// attached (NULL: none). Owned by the plan's arena.
struct sources {
    const struct weights *model, *block;
};

static rn_status fetch_weights(const void *ctx, const void *data, uint64_t bytes, void *buffer,
                               const void **at, rn_error *err) {
    const struct sources *sources = ctx;
    const rn_status status = weights_read(sources->model, data, bytes, buffer, at, err);
    if (status || *at != data || !sources->block) return status;
    return weights_read(sources->block, data, bytes, buffer, at, err);
}

static rn_status check_sources(const void *ctx, rn_error *err) {
    const struct sources *sources = ctx;
    const rn_status status = weights_check_files(sources->model, err);
    return status || !sources->block ? status : weights_check_files(sources->block, err);
}

static rn_status set_sources(struct plan *plan, const struct weights *model,
                             const struct weights *block, rn_error *err) {
    struct sources *sources = arena_alloc(&plan->arena, sizeof *sources);
    if (!sources) return err_set(err, RN_ERR_NOMEM, "no memory for the plan");
    *sources = (struct sources){model, block};
    plan->fetch = fetch_weights;
    plan->check = check_sources;
    plan->fetch_ctx = sources;
    return RN_OK;
}

// describe: as in struct builder.
static rn_status build_plan(struct model *model, const struct weights *weights,
                            struct weights *describe, rn_error *err) {
    struct builder b = {.weights = weights,
                        .model = model,
                        .plan = &model->plan,
                        .err = err,
                        .layer = -1,
                        .describe = describe};
    b.used = calloc((size_t)weights_tensor_count(weights) + 1, sizeof *b.used);
    if (!b.used) return err_set(err, RN_ERR_NOMEM, "no memory for the plan");
    model->plan.n_vocab = model->hp.n_vocab;
    b.status = set_sources(&model->plan, weights, NULL, err);
    if (!b.status) stack_begin(&b);
    if (!b.status) model->arch->build(&b);
    if (model->arch->has_nextn && !describe) stack_draft(&b);
    if (!b.status) b.status = plan_finish(&model->plan, err);
    if (!b.status && !describe) b.status = check_all_used(&b);
    free(b.used);
    return b.status;
}

rn_status model_init_arch(struct model *model, const struct arch *arch,
                          const struct weights *weights, rn_error *err) {
    memset(model, 0, sizeof *model);
    plan_init(&model->plan);
    model->arch = arch;
    rn_status s;
    if ((s = hparams_common(&model->hp, weights, arch, err))) return s;
    if ((s = arch->read(&model->hp, weights, err))) return s;
    if ((s = build_plan(model, weights, NULL, err))) {
        plan_deinit(&model->plan);
        return s;
    }
    for (int i = 0; i < weights_tensor_count(weights); i++) {
        const struct tensor_view *t = weights_tensor_at(weights, i);
        model->n_params += (uint64_t)(t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3]);
    }
    return RN_OK;
}

rn_status model_init(struct model *model, const struct weights *weights, rn_error *err) {
    const struct arch *arch = NULL;
    const rn_status status = find_model(weights, &arch, err);
    return status ? status : model_init_arch(model, arch, weights, err);
}

bool model_is_draft_block(const struct weights *weights) {
    const struct arch *arch = NULL;
    return find_arch(weights, &arch, NULL) == RN_OK && arch->drafts_for;
}

static rn_status check_target(const struct model *model, const struct arch *arch,
                              const struct weights *weights, rn_error *err) {
    if (!arch->drafts_for)
        return err_set(err, RN_ERR_ARG, "%s: a model of '%s' is no draft block",
                       weights_name(weights), arch->name);
    if (strcmp(arch->drafts_for, model->arch->name) != 0)
        return err_set(err, RN_ERR_MODEL, "%s drafts for models of '%s', not of '%s'",
                       weights_name(weights), arch->drafts_for, model->arch->name);
    if (plan_has_block(&model->plan))
        return err_set(err, RN_ERR_ARG, "%s: the model has a draft block already",
                       weights_name(weights));
    return RN_OK;
}

// The block's own numbers are needed only while its ops are made.
static rn_status attach(struct model *model, struct model *block, const struct weights *weights,
                        rn_error *err) {
    struct builder b = {.weights = weights,
                        .model = block,
                        .target = model,
                        .plan = &model->plan,
                        .err = err,
                        .layer = -1};
    b.used = calloc((size_t)weights_tensor_count(weights) + 1, sizeof *b.used);
    if (!b.used) return err_set(err, RN_ERR_NOMEM, "no memory for the plan");
    const struct sources *sources = model->plan.fetch_ctx;
    struct plan before = model->plan;
    b.status = set_sources(&model->plan, sources->model, weights, err);
    plan_begin_draft(&model->plan);
    if (!b.status) stack_ropes(&b);
    if (!b.status) block->arch->build(&b);
    if (!b.status) b.status = plan_finish(&model->plan, err);
    if (!b.status) b.status = check_all_used(&b);
    free(b.used);
    if (!b.status) return RN_OK;
    before.arena = model->plan.arena; // its arrays are as they were, with more behind their ends
    model->plan = before;
    return b.status;
}

rn_status model_attach(struct model *model, const struct weights *weights, rn_error *err) {
    struct model *block = calloc(1, sizeof *block);
    if (!block) return err_set(err, RN_ERR_NOMEM, "no memory for a draft block");
    rn_status s = find_arch(weights, &block->arch, err);
    if (!s) s = check_target(model, block->arch, weights, err);
    if (!s) s = hparams_common(&block->hp, weights, block->arch, err);
    if (!s) s = block->arch->read(&block->hp, weights, err);
    if (!s) s = attach(model, block, weights, err);
    free(block);
    return s;
}

// The plan is built once for the shapes of its tensors, and thrown away.
static rn_status describe_tensors(struct weights *weights, rn_error *err) {
    struct model *model = calloc(1, sizeof *model);
    const struct arch *arch = NULL;
    if (!model) return err_set(err, RN_ERR_NOMEM, "no memory for a model");
    plan_init(&model->plan);
    rn_status s = find_model(weights, &arch, err);
    if (!s) s = hparams_common(&model->hp, weights, arch, err);
    if (!s) s = arch->read(&model->hp, weights, err);
    if (!s) {
        model->arch = arch;
        s = build_plan(model, weights, weights, err);
    }
    plan_deinit(&model->plan);
    free(model);
    return s ? s : weights_describe_end(weights, err);
}

rn_status model_weights_describe(const char *path, struct weights **out, rn_error *err) {
    struct hf_arch folders[ARCH_COUNT + 1];
    arch_folders(folders);
    rn_status status = weights_describe_config(path, folders, out, err);
    if (status) return status;
    status = describe_tensors(*out, err);
    if (status) {
        weights_close(*out);
        *out = NULL;
    }
    return status;
}

void model_deinit(struct model *model) { plan_deinit(&model->plan); }

const char *model_arch_name(const struct model *model) { return model->arch->name; }

// A Hugging Face folder: config.json, the tensors in model.safetensors or in the files that
// model.safetensors.index.json names, and generation_config.json where there is one. Finds and
// opens them, calls their readers, and adds the metadata that come from no config: the name and the
// sampling defaults. The JSON files are in memory for the time of the opening alone. No name that
// comes out of a file is used as a path before safetensors.c has checked it. Called by weights.c.
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/jread.h"
#include "weights/hf.h"

enum { JSON_MAX = HF_JSON_MAX, INDEX_MAX = 64 << 20 };

void hf_part_close(struct hf_part *part) {
    file_image_close(&part->image);
    free(part->path);
    *part = (struct hf_part){0};
}

rn_status hf_part_open(const struct weights *weights, const char *file, size_t max,
                       struct hf_part *out, rn_error *err) {
    *out = (struct hf_part){0};
    if (asprintf(&out->path, "%s/%s", weights->folder, file) < 0) {
        out->path = NULL;
        return err_set(err, RN_ERR_NOMEM, "%s: out of memory", weights->name);
    }
    out->name = err_path(out->path);
    return file_image_open_optional(out->path, max, &out->image, err);
}

struct hf_config hf_part_config(struct weights *weights, const struct hf_part *part,
                                rn_error *err) {
    return (struct hf_config){.weights = weights,
                              .err = err,
                              .path = part->name,
                              .text = (const char *)part->image.data};
}

// --- metadata of no config ---

// The last name of the path; where that is none, as in "." and "/", the resolved path's.
static rn_status name_put(struct weights *weights, rn_error *err) {
    const char *slash = strrchr(weights->folder, '/');
    const char *base = slash ? slash + 1 : weights->folder;
    char *resolved = NULL;
    if (base[0] == 0 || strcmp(base, ".") == 0 || strcmp(base, "..") == 0) {
        resolved = realpath(weights->folder, NULL);
        slash = resolved ? strrchr(resolved, '/') : NULL;
        base = slash && slash[1] ? slash + 1 : "model";
    }
    const rn_status status = hf_put(weights, "general.name", META_STRING, base, strlen(base), err);
    free(resolved);
    return status;
}

// A value out of its range is left out: the file is advice.
static bool sampling_value(struct hf_config *c, const struct hf_object *object, const char *name,
                           double min, double max, double *out) {
    const struct hf_value value = hf_find(c, object, name);
    struct jread json;
    if (!hf_has(c, object, name)) return false;
    jread_init(&json, value.text, value.len);
    return jread_peek(&json) == JREAD_NUMBER && jread_f64(&json, out) && *out >= min && *out <= max;
}

static rn_status sampling_put(struct weights *weights, const struct hf_part *part, rn_error *err) {
    static const struct {
        const char *name, *key;
        double min, max;
    } floats[] = {
        {"temperature", "general.sampling.temp", 0, 100},
        {"top_p", "general.sampling.top_p", 1e-6, 1},
        {"min_p", "general.sampling.min_p", 0, 1},
        {"repetition_penalty", "general.sampling.penalty_repeat", 1e-6, 100},
    };
    struct hf_config c = hf_part_config(weights, part, err);
    struct hf_object object;
    hf_object_read(&c, (struct hf_value){c.text, part->image.size}, &object);
    double value;
    for (size_t i = 0; c.status == RN_OK && i < sizeof floats / sizeof *floats; i++) {
        if (!sampling_value(&c, &object, floats[i].name, floats[i].min, floats[i].max, &value))
            continue;
        const float stored = (float)value;
        c.status = hf_put(weights, floats[i].key, META_F32, &stored, sizeof stored, err);
    }
    if (c.status == RN_OK && sampling_value(&c, &object, "top_k", 0, INT32_MAX, &value)) {
        const int32_t stored = (int32_t)value;
        c.status = hf_put(weights, "general.sampling.top_k", META_I32, &stored, sizeof stored, err);
    }
    return c.status;
}

static rn_status sampling_read(struct weights *weights, rn_error *err) {
    struct hf_part part;
    rn_status status = hf_part_open(weights, "generation_config.json", JSON_MAX, &part, err);
    if (status == RN_OK && part.image.data) status = sampling_put(weights, &part, err);
    hf_part_close(&part);
    return status;
}

// --- tensors ---

// Of the index that names the tensors' files.
static rn_status index_read(struct st_table *table, rn_error *err) {
    const struct weights *weights = table->weights;
    struct hf_part index;
    rn_status status =
        hf_part_open(weights, "model.safetensors.index.json", INDEX_MAX, &index, err);
    const bool is_missing = status == RN_OK && !index.image.data;
    if (is_missing) status = hf_foreign_check(weights, err);
    if (is_missing && status == RN_OK)
        status = err_set(err, RN_ERR_MODEL,
                         "%s: neither model.safetensors nor model.safetensors.index.json is in the "
                         "folder",
                         weights->name);
    if (status == RN_OK)
        status = st_index_read(table, weights->folder, index.name, (const char *)index.image.data,
                               index.image.size, err);
    hf_part_close(&index);
    return status;
}

// Fills the table from the one file, or from those of the index.
static rn_status table_read(struct st_table *table, rn_error *err) {
    struct weights *weights = table->weights;
    struct stat info;
    char *single;
    if (asprintf(&single, "%s/model.safetensors", weights->folder) < 0)
        return err_set(err, RN_ERR_NOMEM, "%s: out of memory", weights->name);
    const bool is_single = lstat(single, &info) == 0 || errno != ENOENT;
    rn_status status = is_single ? store_file_open(weights, single, err) : index_read(table, err);
    free(single);
    for (int i = 0; status == RN_OK && i < weights->n_files; i++)
        status = st_file_read(table, i, err);
    return status == RN_OK ? st_finish(table, err) : status;
}

static rn_status tensors_read(struct hf_config *c) {
    struct st_table table = {.weights = c->weights};
    c->status = table_read(&table, c->err);
    if (c->status == RN_OK) hf_tensors_map(c, &table);
    st_deinit(&table);
    return c->status;
}

// --- all of it ---

static rn_status config_read(struct weights *weights, const struct hf_part *part,
                             const struct hf_arch *archs, bool is_vocab, rn_error *err) {
    struct hf_config c = hf_part_config(weights, part, err);
    const char *text = c.text;
    const size_t len = part->image.size;
    c.archs = archs;
    if (is_vocab) {
        hf_config_class(&c, text, len);
    } else {
        hf_config_read(&c, text, len);
    }
    if (c.status == RN_OK && !is_vocab) c.status = hf_pooling_read(&c);
    return c.status == RN_OK && !is_vocab ? tensors_read(&c) : c.status;
}

static rn_status folder_read(struct weights *weights, const struct hf_arch *archs, bool is_vocab,
                             rn_error *err) {
    struct hf_part config;
    rn_status status = hf_part_open(weights, "config.json", JSON_MAX, &config, err);
    const bool is_missing = status == RN_OK && !config.image.data && !is_vocab;
    if (is_missing) status = hf_foreign_check(weights, err);
    if (is_missing && status == RN_OK)
        status = err_set(err, RN_ERR_MODEL,
                         "%s: is missing; a folder is a model if it has config.json and "
                         "safetensors files",
                         config.name);
    if (status == RN_OK) status = name_put(weights, err);
    if (status == RN_OK && config.image.data)
        status = config_read(weights, &config, archs, is_vocab, err);
    if (status == RN_OK) status = sampling_read(weights, err);
    hf_part_close(&config);
    return status;
}

rn_status hf_open(struct weights *weights, const struct hf_arch *archs, bool is_vocab,
                  rn_error *err) {
    size_t len = strlen(weights->path);
    while (len > 1 && weights->path[len - 1] == '/') len--;
    weights->folder = arena_strdup(&weights->arena, weights->path, len);
    if (!weights->folder) return err_set(err, RN_ERR_NOMEM, "%s: out of memory", weights->name);
    snprintf(weights->container, sizeof weights->container, "safetensors");
    rn_status status = folder_read(weights, archs, is_vocab, err);
    if (status == RN_OK) status = store_metas_index(&weights->metas, weights->name, err);
    return status;
}

// --- a config alone ---

// The tensors whose shapes only the config says: the rest follows from the architecture.
static void embedding_describe(struct hf_config *c) {
    const int64_t n_vocab = hf_int(c, &c->root, "vocab_size", 1, INT32_MAX, 0);
    static const char *const names[] = {"token_embd.weight", "output.weight"};
    if (c->status == RN_OK && n_vocab == 0) hf_fail(c, RN_ERR_MODEL, "vocab_size is missing");
    for (int i = 0; c->status == RN_OK && i < (c->is_tied ? 1 : 2); i++)
        if (!store_tensor_describe(c->weights, names[i], c->n_embd, n_vocab, 1))
            c->status = err_set(c->err, RN_ERR_NOMEM, "%s: out of memory", c->weights->name);
}

rn_status hf_describe(struct weights *weights, const struct hf_arch *archs, rn_error *err) {
    struct file_image image = {0};
    rn_status status = file_image_open(weights->path, JSON_MAX, &image, err);
    if (status) return status;
    struct hf_config c = {.weights = weights,
                          .err = err,
                          .archs = archs,
                          .path = weights->name,
                          .text = (const char *)image.data,
                          .is_alone = true};
    snprintf(weights->container, sizeof weights->container, "config.json");
    hf_config_read(&c, c.text, image.size);
    if (c.status == RN_OK) embedding_describe(&c);
    status = c.status;
    file_image_close(&image);
    if (status == RN_OK) status = store_metas_index(&weights->metas, weights->name, err);
    return status == RN_OK ? store_tensors_index(weights, err) : status;
}

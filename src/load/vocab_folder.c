// Reads the files of a Hugging Face folder that describe its vocabulary: tokenizer.json or
// tokenizer.model, tokenizer_config.json, the chat template, and where generation ends. Their
// images stay in vocab_files, because the source points into them.
#include <stdio.h>
#include <string.h>

#include "base/jread.h"
#include "load/vocab_files.h"

enum {
    MAX_JSON = 256 << 20,
    MAX_MODEL = 64 << 20,
    MAX_CONFIG = 32 << 20,
    // a template as JSON may be all escapes
    MAX_TEMPLATE_JSON = 6 * VOCAB_MAX_TEMPLATE + 4096,
};

struct folder {
    struct vocab_files *files;
    const char *path;
};

static rn_status fail_in_folder(const struct folder *f, rn_status status) {
    err_prefix(f->files->err, weights_name(f->files->weights));
    return status;
}

// Reads a file of the folder; *out is NULL where there is none.
static rn_status file_open(const struct folder *f, const char *name, size_t size_max,
                           const struct file_image **out) {
    struct vocab_files *const files = f->files;
    char path[4096];
    *out = NULL;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", f->path, name) >= sizeof path)
        return err_set(files->err, RN_ERR_IO, "%s: the path is too long",
                       weights_name(files->weights));
    struct file_image *const image = &files->image[files->n_image];
    const rn_status s = file_image_open_optional(path, size_max, image, files->err);
    if (s || !image->data) return s;
    files->n_image++;
    *out = image;
    return RN_OK;
}

static rn_status read_vocabulary(const struct folder *f) {
    struct vocab_files *const files = f->files;
    const struct file_image *image;
    rn_status s = file_open(f, "tokenizer.json", MAX_JSON, &image);
    if (s) return s;
    if (image) {
        s = vocab_json_read((const char *)image->data, image->size, &files->arena, &files->source,
                            files->err);
        return s ? fail_in_folder(f, s) : RN_OK;
    }
    if ((s = file_open(f, "tokenizer.model", MAX_MODEL, &image))) return s;
    if (image) {
        s = vocab_spm_read(image->data, image->size, &files->arena, &files->source, files->err);
        return s ? fail_in_folder(f, s) : RN_OK;
    }
    return err_set(files->err, RN_ERR_MODEL,
                   "%s: the folder has neither tokenizer.json nor tokenizer.model",
                   weights_name(files->weights));
}

static rn_status read_config(const struct folder *f) {
    struct vocab_files *const files = f->files;
    const struct file_image *image;
    struct vocab_config config;
    rn_status s = file_open(f, "tokenizer_config.json", MAX_CONFIG, &image);
    if (s || !image) return s;
    s = vocab_config_read((const char *)image->data, image->size, &files->arena, &config,
                          files->err);
    if (!s) s = vocab_config_apply(&config, &files->arena, &files->source, files->err);
    if (config.chat_template.len) files->chat_template = config.chat_template;
    return s ? fail_in_folder(f, s) : RN_OK;
}

// chat_template.json is {"chat_template": ...}, as tokenizer_config.json has it.
static rn_status read_template(const struct folder *f) {
    struct vocab_files *const files = f->files;
    const struct file_image *image;
    struct vocab_config config;
    rn_status s = file_open(f, "chat_template.jinja", VOCAB_MAX_TEMPLATE, &image);
    if (s) return s;
    if (image) {
        files->chat_template = (struct text_span){(const char *)image->data, image->size};
        return RN_OK;
    }
    if ((s = file_open(f, "chat_template.json", MAX_TEMPLATE_JSON, &image)) || !image) return s;
    s = vocab_config_read((const char *)image->data, image->size, &files->arena, &config,
                          files->err);
    if (s) return fail_in_folder(f, s);
    if (config.chat_template.len) files->chat_template = config.chat_template;
    return RN_OK;
}

// --- where generation ends ---

static bool end_add(struct jread *r, struct vocab_source *source) {
    int64_t id;
    if (!jread_i64(r, &id)) return false;
    if (id == -1) return true; // none
    if (id < 0 || id >= source->n_token)
        return jread_fail(r, "eos_token_id is no token of the vocabulary");
    if (source->n_end == VOCAB_MAX_ENDS) return jread_fail(r, "more than 32 ends");
    source->end[source->n_end++] = (int32_t)id;
    return true;
}

// null, a number or a list of them.
static bool ends_read(struct jread *r, struct vocab_source *source) {
    if (jread_peek(r) == JREAD_NULL) return jread_null(r);
    if (jread_peek(r) != JREAD_ARRAY) return end_add(r, source);
    if (!jread_enter_array(r)) return false;
    while (jread_next_item(r) && end_add(r, source)) {
    }
    return !r->error;
}

static rn_status read_ends(const struct folder *f, const char *name, bool *is_found) {
    struct vocab_files *const files = f->files;
    const struct file_image *image;
    struct jread r;
    struct jread_text key;
    const rn_status s = file_open(f, name, MAX_CONFIG, &image);
    if (s || !image) return s;
    jread_init(&r, (const char *)image->data, image->size);
    const int32_t n_before = files->source.n_end;
    if (jread_enter_object(&r))
        while (jread_next_key(&r, &key))
            if (!(jread_equals(&key, "eos_token_id") ? ends_read(&r, &files->source)
                                                     : jread_skip(&r)))
                break;
    if (!jread_finish(&r)) return fail_in_folder(f, jread_status(&r, name, files->err));
    *is_found = files->source.n_end > n_before;
    return RN_OK;
}

rn_status vocab_read_folder(struct vocab_files *files, const char *folder) {
    const struct folder f = {files, folder};
    rn_status s;
    if ((s = read_vocabulary(&f))) return s;
    if ((s = read_config(&f))) return s;
    return read_template(&f);
}

rn_status vocab_read_folder_ends(struct vocab_files *files, const char *folder) {
    const struct folder f = {files, folder};
    bool has_ends = false;
    rn_status s;
    if ((s = read_ends(&f, "generation_config.json", &has_ends))) return s;
    // The model's own configuration is older, and often wrong in models made from others.
    if (!has_ends && (s = read_ends(&f, "config.json", &has_ends))) return s;
    if (files->source.eos < 0 && has_ends) files->source.eos = files->source.end[0];
    return RN_OK;
}

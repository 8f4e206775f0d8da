// How embeddings are made of a model, as sentence-transformers writes it into a folder.
// modules.json lists the steps after the model, and 1_Pooling/config.json has the kind of pooling.
// Two keys come of it, which GGUF files lack: "pooling", a name, and "normalize_embeddings". An
// unknown step is the name: embeddings would be wrong without it, and the model's text is not
// touched by it. If a file is damaged, the one key is "pooling_fault", the message. Called by
// hf_folder.c.
#include <stdio.h>
#include <string.h>

#include "base/jread.h"
#include "weights/hf.h"

enum { NAME_SIZE = 32 };

struct pooling {
    char name[NAME_SIZE]; // "": not said
    bool has_modules, normalizes;
};

// The kinds that are on, with + between them: their vectors stand one after another.
static void kinds_read(struct hf_config *c, const struct hf_object *object,
                       char out[static NAME_SIZE]) {
    static const struct {
        const char *key, *name;
    } kinds[] = {
        {"pooling_mode_cls_token", "cls"},
        {"pooling_mode_max_tokens", "max"},
        {"pooling_mode_mean_tokens", "mean"},
        {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len"},
        {"pooling_mode_weightedmean_tokens", "weightedmean"},
        {"pooling_mode_lasttoken", "last"},
    };
    size_t len = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!hf_bool(c, object, kinds[i].key, false)) continue;
        const int n = snprintf(out + len, NAME_SIZE - len, "%s%s", len ? "+" : "", kinds[i].name);
        len += (size_t)n < NAME_SIZE - len ? (size_t)n : NAME_SIZE - 1 - len;
    }
    if (len > 0) return;
    hf_string(c, object, "pooling_mode", out, NAME_SIZE); // newer files have its name
    if (strcmp(out, "lasttoken") == 0) snprintf(out, NAME_SIZE, "last");
}

static rn_status pooling_read(const struct hf_config *config, struct pooling *pooling,
                              rn_error *err) {
    struct hf_part part;
    rn_status status =
        hf_part_open(config->weights, "1_Pooling/config.json", HF_JSON_MAX, &part, err);
    if (status == RN_OK && part.image.data) {
        struct hf_config c = hf_part_config(config->weights, &part, err);
        struct hf_object object;
        hf_object_read(&c, (struct hf_value){c.text, part.image.size}, &object);
        if (c.status == RN_OK) kinds_read(&c, &object, pooling->name);
        status = c.status;
    }
    hf_part_close(&part);
    return status;
}

// One step, such as "sentence_transformers.models.Normalize".
static void step_read(struct hf_config *c, struct hf_value value, struct pooling *pooling) {
    struct hf_object object;
    char type[160];
    hf_object_read(c, value, &object);
    if (c->status != RN_OK) return;
    hf_string(c, &object, "type", type, sizeof type);
    const char *dot = strrchr(type, '.'), *name = dot ? dot + 1 : type;
    if (strcmp(name, "Normalize") == 0) {
        pooling->normalizes = true;
    } else if (strcmp(name, "Transformer") != 0 && strcmp(name, "Pooling") != 0) {
        snprintf(pooling->name, sizeof pooling->name, "%.*s", NAME_SIZE - 1, name);
    }
}

static rn_status modules_read(const struct hf_config *config, struct pooling *pooling,
                              rn_error *err) {
    struct hf_part part;
    rn_status status = hf_part_open(config->weights, "modules.json", HF_JSON_MAX, &part, err);
    if (status == RN_OK && part.image.data) {
        struct hf_config c = hf_part_config(config->weights, &part, err);
        struct hf_value step;
        struct jread json;
        jread_init(&json, c.text, part.image.size);
        jread_enter_array(&json);
        while (c.status == RN_OK && jread_next_item(&json) &&
               jread_raw(&json, &step.text, &step.len))
            step_read(&c, step, pooling);
        status = c.status;
        if (status == RN_OK && !jread_finish(&json)) status = jread_status(&json, part.name, err);
        pooling->has_modules = true;
    }
    hf_part_close(&part);
    return status;
}

rn_status hf_pooling_read(const struct hf_config *config) {
    struct pooling pooling = {0};
    struct hf_config c = *config;
    rn_error fault = {0};
    rn_status status = pooling_read(config, &pooling, &fault);
    if (status == RN_OK) status = modules_read(config, &pooling, &fault);
    if (status == RN_ERR_NOMEM) return err_set(c.err, status, "%s", fault.message);
    if (status != RN_OK) {
        hf_put_string(&c, "pooling_fault", fault.message);
        return c.status;
    }
    if (pooling.name[0]) hf_put_string(&c, "pooling", pooling.name);
    if (pooling.has_modules) hf_put_bool(&c, "normalize_embeddings", pooling.normalizes);
    return c.status;
}

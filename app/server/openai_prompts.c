// Prompts as OpenAI's clients send them: text or token ids, one or several; also both in one
// prompt, and {"prompt_string": text}, as llama.cpp takes them. Called on workers.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "helpers.h"
#include "openai.h"
#include "prompt_ids.h"

enum { PATH_SIZE = 64 };

// The text that an answer echoes; of ids their text.
static bool text_keep(struct call *call, struct generation_prompt *prompt, const json_t *from,
                      const char *path) {
    if (json_is_string(from)) {
        prompt->text_len = json_string_length(from);
        prompt->text = malloc(prompt->text_len + 1);
        if (!prompt->text) return call_refuse_memory(call);
        memcpy(prompt->text, json_string_value(from), prompt->text_len + 1);
        return true;
    }
    return prompt_text_of(call, prompt->ids, prompt->n_ids, path, &prompt->text, &prompt->text_len);
}

// A text that gives no token still has the token that every text starts with, where there is one.
static bool ids_of_text(struct call *call, const json_t *text, const char *path, int32_t **ids,
                        size_t *n_ids) {
    const rn_model *model = call->served->model;
    rn_error err = {0};
    const rn_status status = rn_tokenize(model, json_string_value(text), json_string_length(text),
                                         RN_TOKENIZE_BOS | RN_TOKENIZE_SPECIAL, ids, n_ids, &err);
    if (status) return call_refuse_error(call, path, &err);
    if (*n_ids) return true;
    rn_free(*ids);
    *ids = NULL;
    const int32_t bos = rn_token_bos(model);
    if (bos < 0) {
        return call_refuse(call, 400, path, "invalid_value",
                           "%s: \"\" is empty, and the model has no token that starts a text",
                           path);
    }
    *ids = malloc(sizeof **ids);
    if (!*ids) return call_refuse_memory(call);
    **ids = bos;
    *n_ids = 1;
    return true;
}

static bool refuse_id(struct call *call, const char *path, size_t index, const json_t *value) {
    char param[PATH_SIZE + 64], shown[JSON_SHOWN_BYTES];
    snprintf(param, sizeof param, "%s[%zu]", path, index);
    return call_refuse(call, 400, param, json_is_integer(value) ? "invalid_value" : "invalid_type",
                       "%s: %s is not a token id, an integer from 0 to %d", param,
                       json_shown(value, shown), call->served->info->n_vocab - 1);
}

static bool ids_of_array(struct call *call, const json_t *array, const char *path, int32_t **ids,
                         size_t *n_ids) {
    const size_t n = json_array_size(array);
    if (!n) return call_refuse(call, 400, path, "invalid_value", "%s: [] is empty", path);
    *ids = calloc(n, sizeof **ids);
    if (!*ids) return call_refuse_memory(call);
    *n_ids = n;
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(array, i);
        const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= call->served->info->n_vocab) return refuse_id(call, path, i, value);
        (*ids)[i] = (int32_t)id;
    }
    return true;
}

static bool has_text(const json_t *list) {
    bool found = false;
    for (size_t i = 0; i < json_array_size(list) && !found; i++)
        found = json_is_string(json_array_get(list, i));
    return found;
}

static bool ids_of(struct call *call, const json_t *from, const char *path, int32_t **ids,
                   size_t *n_ids) {
    char shown[JSON_SHOWN_BYTES];
    if (json_is_string(from)) return ids_of_text(call, from, path, ids, n_ids);
    if (has_text(from)) // llama.cpp's: texts and ids
        return prompt_ids_read(call, from, path, RN_TOKENIZE_BOS | RN_TOKENIZE_SPECIAL, ids, n_ids);
    if (json_is_array(from)) return ids_of_array(call, from, path, ids, n_ids);
    return call_refuse(call, 400, path, "invalid_type",
                       "%s: expected a string or an array of token ids, got %s", path,
                       json_shown(from, shown));
}

static bool prompt_read(struct call *call, const json_t *from, const char *name, bool keep_text) {
    struct generation *generation = call->generation;
    int32_t *ids = NULL;
    size_t n_ids = 0;
    char path[PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s", name);
    if ((json_object_get(from, "prompt_string") &&
         !prompt_ids_unwrap(call, &from, path, sizeof path)) ||
        !ids_of(call, from, path, &ids, &n_ids)) {
        rn_free(ids);
        return false;
    }
    if (!generation_add(call, generation, ids, n_ids)) return false;
    return !keep_text ||
           text_keep(call, &generation->prompt[generation->n_prompts - 1], from, path);
}

bool openai_prompts(struct call *call, const json_t *body, const char *name, bool keep_text) {
    const struct fields fields = fields_of(call, body, "");
    const json_t *given = json_object_get(body, name);
    if (call_refused(call)) return false;
    if (!given || json_is_null(given)) return field_refuse(&fields, name, "missing");
    const json_t *first = json_array_get(given, 0);
    const bool many = json_is_string(first) || json_is_array(first) || json_is_object(first);
    if (!many || (!json_is_array(first) && prompt_ids_are_one(given)))
        return prompt_read(call, given, name, keep_text);
    if (!field_array(&fields, name, PROMPTS_MAX, &given)) return false;
    for (size_t i = 0; i < json_array_size(given); i++) {
        char path[PATH_SIZE];
        snprintf(path, sizeof path, "%.32s[%zu]", name, i);
        if (!prompt_read(call, json_array_get(given, i), path, keep_text)) return false;
    }
    return true;
}

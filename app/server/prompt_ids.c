// Reads prompts that are texts, ids or both. Workers call it, for tokenize and for completions.
// Invariant: an id that was let through is in the vocabulary.
#include "prompt_ids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "helpers.h"
#include "template_input.h"

// A value for a message.
static const char *shown(const json_t *value, char out[64]) {
    char text[48];
    switch (json_typeof(value)) {
    case JSON_STRING:
        unicode_quote(json_string_value(value), json_string_length(value), text, sizeof text);
        snprintf(out, 64, "\"%s\"", text);
        return out;
    case JSON_INTEGER:
    case JSON_REAL:
        snprintf(out, 64, "%.17g", json_number_value(value));
        return out;
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    default:
        return json_is_true(value) ? "true" : json_is_false(value) ? "false" : "null";
    }
}

static bool refuse_kind(struct call *call, const char *path, const char *expected,
                        const json_t *value) {
    char text[64];
    return call_refuse(call, 400, path, "invalid_type", "%s: expected %s, got %s", path, expected,
                       shown(value, text));
}

static bool too_many(struct call *call, const char *path, size_t n) {
    return call_refuse(call, 400, path, NULL, "%s: %zu tokens; at most %d are possible", path, n,
                       PROMPT_IDS_MAX);
}

bool prompt_ids_of_text(struct call *call, const char *text, size_t len, const char *path,
                        int flags, int32_t **ids, size_t *n_ids) {
    rn_error err = {0};
    if (len > PROMPT_TEXT_MAX)
        return call_refuse(call, 400, path, NULL, "%s: %zu bytes; at most %d are possible", path,
                           len, PROMPT_TEXT_MAX);
    if (rn_tokenize(call->served->model, text, len, flags, ids, n_ids, &err))
        return call_refuse_error(call, path, &err);
    if (*n_ids <= PROMPT_IDS_MAX) return true;
    rn_free(*ids);
    *ids = NULL;
    return too_many(call, path, *n_ids);
}

bool token_id_read(struct call *call, const json_t *value, const char *path, int32_t *out) {
    const int n_vocab = call->served->info->n_vocab;
    if (!json_is_integer(value)) return refuse_kind(call, path, "a token id", value);
    const json_int_t id = json_integer_value(value);
    if (id < 0 || id >= n_vocab)
        return call_refuse(call, 400, path, NULL,
                           "%s: %" JSON_INTEGER_FORMAT " is not a token id, expected 0 to %d", path,
                           id, n_vocab - 1);
    *out = (int32_t)id;
    return true;
}

struct ids {
    int32_t *id;
    size_t n, capacity;
};

static bool ids_reserve(struct ids *ids, size_t n) {
    if (n <= ids->capacity - ids->n) return true;
    const size_t capacity = 2 * ids->capacity > ids->n + n ? 2 * ids->capacity : ids->n + n;
    int32_t *grown = realloc(ids->id, capacity * sizeof *grown);
    if (!grown) return false;
    ids->id = grown;
    ids->capacity = capacity;
    return true;
}

static bool item_add(struct call *call, const json_t *item, const char *path, int flags,
                     struct ids *ids) {
    int32_t id, *more = &id;
    size_t n_more = 1;
    if (json_is_string(item)) {
        if (!prompt_ids_of_text(call, json_string_value(item), json_string_length(item), path,
                                flags, &more, &n_more))
            return false;
    } else if (!json_is_integer(item)) {
        return refuse_kind(call, path, "a string or a token id", item);
    } else if (!token_id_read(call, item, path, &id)) {
        return false;
    }
    bool ok = true;
    if (ids->n + n_more > PROMPT_IDS_MAX) {
        ok = too_many(call, path, ids->n + n_more);
    } else if (!ids_reserve(ids, n_more)) {
        ok = call_refuse_memory(call);
    } else if (n_more) {
        memcpy(ids->id + ids->n, more, n_more * sizeof *more);
        ids->n += n_more;
    }
    if (more != &id) rn_free(more);
    return ok;
}

bool prompt_ids_read(struct call *call, const json_t *value, const char *path, int flags,
                     int32_t **ids, size_t *n_ids) {
    struct ids list = {0};
    *ids = NULL;
    *n_ids = 0;
    if (json_is_string(value))
        return prompt_ids_of_text(call, json_string_value(value), json_string_length(value), path,
                                  flags, ids, n_ids);
    if (!json_is_array(value))
        return refuse_kind(call, path, "a string, or a list of strings and token ids", value);
    const json_t *item;
    size_t i;
    json_array_foreach(value, i, item) {
        char item_path[128];
        snprintf(item_path, sizeof item_path, "%s[%zu]", path, i);
        if (!item_add(call, item, item_path, i ? flags & ~RN_TOKENIZE_BOS : flags, &list)) {
            free(list.id);
            return false;
        }
    }
    *ids = list.id;
    *n_ids = list.n;
    return true;
}

bool prompt_ids_are_one(const json_t *list) {
    const json_t *item;
    size_t i;
    json_array_foreach(list, i, item) {
        if (json_is_number(item)) return true;
    }
    return json_array_size(list) == 0;
}

bool prompt_ids_unwrap(struct call *call, const json_t **value, char *path, size_t path_size) {
    if (!json_is_object(*value)) return true;
    const struct fields fields = fields_of(call, *value, path);
    const json_t *media = json_object_get(*value, "multimodal_data");
    if (json_array_size(media) || json_string_length(media))
        return field_unsupported(&fields, "multimodal_data", false, CONTENT_TEXT_ALONE);
    *value = json_object_get(*value, "prompt_string");
    if (!json_is_string(*value)) return field_refuse(&fields, "prompt_string", "expected a string");
    const size_t len = strlen(path);
    snprintf(path + len, path_size - len, ".prompt_string");
    return true;
}

bool prompt_ids_of_list(struct call *call, const json_t *list, const char *path, int32_t **ids,
                        size_t *n_ids) {
    const size_t n = json_array_size(list);
    const json_t *item;
    size_t i;
    if (!json_is_array(list)) return refuse_kind(call, path, "a list of token ids", list);
    if (!n) return call_refuse(call, 400, path, "invalid_value", "%s: [] is empty", path);
    if (n > PROMPT_IDS_MAX) return too_many(call, path, n);
    *ids = malloc(n * sizeof **ids);
    if (!*ids) return call_refuse_memory(call);
    json_array_foreach(list, i, item) {
        char item_path[128];
        snprintf(item_path, sizeof item_path, "%s[%zu]", path, i);
        if (token_id_read(call, item, item_path, &(*ids)[i])) continue;
        free(*ids);
        *ids = NULL;
        return false;
    }
    *n_ids = n;
    return true;
}

bool prompt_text_of(struct call *call, const int32_t *ids, size_t n_ids, const char *path,
                    char **text, size_t *len) {
    const rn_model *model = call->served->model;
    rn_error err = {0};
    size_t sum = 0;
    for (size_t i = 0; i < n_ids; i++) {
        size_t bytes;
        rn_token_bytes(model, ids[i], &bytes);
        sum += bytes;
    }
    if (sum > PROMPT_TEXT_MAX)
        return call_refuse(call, 400, path, NULL,
                           "%s: their text has %zu bytes; at most %d are possible", path, sum,
                           PROMPT_TEXT_MAX);
    return rn_detokenize(model, ids, n_ids, true, text, len, &err) == RN_OK ||
           call_refuse_error(call, path, &err);
}

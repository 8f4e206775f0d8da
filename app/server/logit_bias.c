// A key of digits is an id, any other key is a text. In pairs the JSON type says which.
#include "logit_bias.h"

#include <string.h>

#include "helpers.h"
#include "json_edit.h"

struct biases {
    const struct fields *fields;
    const char *name;
    size_t max;
    struct params *out;
};

static bool token_add(struct biases *biases, int32_t token, float bias) {
    rn_sampling *sampling = &biases->out->sampling;
    if (sampling->n_logit_bias == biases->max)
        return field_refuse(biases->fields, biases->name,
                            "its texts have more than %zu tokens, the most that are allowed",
                            biases->max);
    biases->out->bias[sampling->n_logit_bias++] = (rn_logit_bias){token, bias};
    return true;
}

// Every token of the text as it is alone: without the token that starts texts, and marks in it are
// letters.
static bool text_add(struct biases *biases, const char *path, const char *text, size_t len,
                     float bias) {
    int32_t *ids = NULL;
    size_t n = 0;
    rn_error err = {0};
    if (rn_tokenize(biases->fields->call->served->model, text, len, 0, &ids, &n, &err))
        return call_refuse_error(biases->fields->call, path, &err);
    bool ok = n || field_refuse(biases->fields, path, "\"\" is not a token's id or its text");
    for (size_t i = 0; ok && i < n; i++) ok = token_add(biases, ids[i], bias);
    rn_free(ids);
    return ok;
}

// -100 to 100, or false, which bans the token. A null asks for nothing.
static bool bias_value(const struct fields *fields, const char *name, float *out) {
    double value = 0;
    const bool is_ban = json_is_false(json_object_get(fields->object, name));
    if (!is_ban && !field_real(fields, name, -100, 100, &value)) return false;
    *out = is_ban ? -100 : (float)value;
    return true;
}

static bool is_number(const char *key) {
    key += *key == '-';
    return *key && key[strspn(key, "0123456789")] == '\0';
}

static bool key_add(struct biases *biases, const char *key, float bias) {
    const int n_vocab = params_vocab(biases->fields->call);
    const size_t len = strlen(key);
    if (!is_number(key)) return text_add(biases, biases->name, key, len, bias);
    int64_t id = *key != '-' && len <= 10 ? 0 : -1;
    for (size_t i = 0; i < len && id >= 0; i++) id = id * 10 + (key[i] - '0');
    if (id >= 0 && id < n_vocab) return token_add(biases, (int32_t)id, bias);
    char shown[40];
    unicode_quote(key, len, shown, sizeof shown);
    return field_refuse(biases->fields, biases->name, "\"%s\" is not the id of a token, 0 to %d",
                        shown, n_vocab - 1);
}

static bool object_read(struct biases *biases, json_t *object) {
    const struct fields entries = fields_of(biases->fields->call, object, biases->name);
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        float bias;
        if (!bias_value(&entries, key, &bias) || !key_add(biases, key, bias)) return false;
    }
    return true;
}

// A pair as an object, so that the readers of fields serve here too.
static bool pair_add(struct biases *biases, const char *path, const json_t *entry) {
    const struct fields entries = fields_of(biases->fields->call, entry, path);
    const json_t *token = json_object_get(entry, "id");
    float bias;
    if (json_is_null(token))
        return field_refuse(biases->fields, path, "expected a token's id, got null");
    if (!bias_value(&entries, "bias", &bias)) return false;
    if (json_is_string(token))
        return text_add(biases, path, json_string_value(token), json_string_length(token), bias);
    int64_t id = -1;
    return field_int(&entries, "id", 0, params_vocab(biases->fields->call) - 1, &id) &&
           token_add(biases, (int32_t)id, bias);
}

static bool array_read(struct biases *biases, const json_t *array) {
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *pair = json_array_get(array, i);
        char path[64];
        snprintf(path, sizeof path, "%s[%zu]", biases->name, i);
        if (!json_is_array(pair) || json_array_size(pair) != 2)
            return field_refuse(biases->fields, path, "expected a token's id and a number");
        json_t *entry =
            json_pack("{s:O,s:O}", "id", json_array_get(pair, 0), "bias", json_array_get(pair, 1));
        if (!entry) return call_refuse_memory(biases->fields->call);
        const bool ok = pair_add(biases, path, entry);
        json_decref(entry);
        if (!ok) return false;
    }
    return true;
}

bool logit_bias_read(const struct fields *fields, const char *name, size_t max,
                     struct params *out) {
    if (!json_is_given(fields->object, name)) return true;
    json_t *value = json_object_get(fields->object, name);
    const size_t n = json_is_array(value) ? json_array_size(value) : json_object_size(value);
    if (n > max) return field_refuse(fields, name, "%zu tokens, at most %zu are allowed", n, max);
    struct biases biases = {fields, name, max, out};
    out->sampling.logit_bias = out->bias;
    out->sampling.n_logit_bias = 0;
    if (json_is_array(value)) return array_read(&biases, value);
    const json_t *object = NULL;
    return field_object(fields, name, &object) && object_read(&biases, value);
}

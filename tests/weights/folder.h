// Model folders for tests: JSON files and safetensors images in a temporary folder (data_file.h),
// good ones and bad ones. In JSON that tests write, single quotes stand for double ones.
#ifndef RN_TESTS_FOLDER_H
#define RN_TESTS_FOLDER_H

#include "data_file.h"
#include "model/model.h"

static inline void folder_text(const struct data_folder *folder, const char *name,
                               const char *text) {
    char *json = strdup(text);
    assert_non_null(json);
    for (char *at = json; (at = strchr(at, '\''));) *at = '"';
    data_file_write(folder->path, name, json, strlen(json));
    free(json);
}

// A safetensors image: entries are added to header, data behind one another.
struct st_image {
    char header[16384];
    uint8_t data[65536];
    size_t header_len, data_len;
};

static inline void st_entry(struct st_image *image, const char *name, const char *dtype,
                            const char *shape, const void *data, size_t bytes) {
    check(image->data_len + bytes <= sizeof image->data, "%s", name);
    image->header_len +=
        (size_t)snprintf(image->header + image->header_len,
                         sizeof image->header - image->header_len,
                         "%s'%s':{'dtype':'%s','shape':[%s],'data_offsets':[%zu,%zu]}",
                         image->header_len ? "," : "", name, dtype, shape, image->data_len,
                         image->data_len + bytes);
    check(image->header_len < sizeof image->header, "%s", name);
    if (data) memcpy(image->data + image->data_len, data, bytes);
    image->data_len += bytes;
}

// Writes a file of this header, without the braces that st_entry leaves out.
static inline void st_write_raw(const struct data_folder *folder, const char *name,
                                const char *header, const void *data, size_t data_len) {
    const uint64_t len = strlen(header);
    uint8_t *bytes = malloc(8 + len + data_len + 1);
    check(bytes, "%s", name);
    memcpy(bytes, &len, 8);
    for (uint64_t i = 0; i < len; i++) bytes[8 + i] = header[i] == '\'' ? '"' : (uint8_t)header[i];
    if (data) {
        memcpy(bytes + 8 + len, data, data_len);
    } else {
        memset(bytes + 8 + len, 0, data_len);
    }
    data_file_write(folder->path, name, bytes, 8 + len + data_len);
    free(bytes);
}

static inline void st_write(const struct data_folder *folder, const char *name,
                            const struct st_image *image) {
    char header[sizeof image->header + 2];
    snprintf(header, sizeof header, "{%s}", image->header);
    st_write_raw(folder, name, header, image->data, image->data_len);
}

static inline struct weights *folder_open(const struct data_folder *folder) {
    struct weights *weights = NULL;
    rn_error err = {0};
    check(model_weights_open(folder->path, &weights, &err) == RN_OK, "%s", err.message);
    return weights;
}

// Expects a refusal whose one line begins with the folder and has `part` in it.
static inline void folder_refused(const struct data_folder *folder, rn_status status,
                                  const char *part) {
    struct weights *weights = (struct weights *)&status;
    rn_error err = {0};
    const rn_status actual = model_weights_open(folder->path, &weights, &err);
    check(actual == status && strstr(err.message, part), "%s: %s, expected %s: %s",
          rn_status_text(actual), err.message, rn_status_text(status), part);
    check(!weights && err.status == status, "%s", err.message);
    check(strncmp(err.message, folder->path, strlen(folder->path)) == 0, "%s", err.message);
    check(model_weights_open(folder->path, &weights, NULL) == status, "%s", err.message);
}

// --- configs ---

// A config of this class: small numbers that suit every class, then `more` (", 'key': value").
static inline void config_write(const struct data_folder *folder, const char *class_name,
                                const char *more) {
    char text[8192];
    const bool is_gpt2 = strcmp(class_name, "GPT2LMHeadModel") == 0;
    const int len = snprintf(text, sizeof text, "{'architectures': ['%s'], %s%s}", class_name,
                             is_gpt2 ? "'n_layer': 2, 'n_positions': 64, 'n_embd': 4, 'n_head': 2"
                                     : "'num_hidden_layers': 2, 'max_position_embeddings': 64, "
                                       "'hidden_size': 8, 'intermediate_size': 6, "
                                       "'num_attention_heads': 2, 'rms_norm_eps': 1e-5",
                             more);
    check(len > 0 && (size_t)len < sizeof text, "%s", class_name);
    folder_text(folder, "config.json", text);
}

// --- what an opened folder says ---

static inline double meta_number(const struct weights *weights, const char *key) {
    const struct meta_view *meta = weights_meta_find(weights, key);
    double value;
    bool flag;
    check(meta, "%s is missing", key);
    if (meta_get_bool(meta, &flag)) return flag;
    check(meta_get_f64(meta, &value), "%s is no number", key);
    return value;
}

static inline void check_number(const struct weights *weights, const char *key, double expected) {
    const double value = meta_number(weights, key);
    check(value == expected || value == (double)(float)expected, "%s is %.9g, expected %.9g", key,
          value, expected);
}

static inline void check_string(const struct weights *weights, const char *key,
                                const char *expected) {
    const struct meta_view *meta = weights_meta_find(weights, key);
    const char *text;
    size_t len;
    check(meta && meta_get_string(meta, &text, &len), "%s", key);
    check(len == strlen(expected) && memcmp(text, expected, len) == 0, "%s is %.*s", key, (int)len,
          text);
}

// "101" for an array of bools.
static inline void check_bools(const struct weights *weights, const char *key,
                               const char *expected) {
    const struct meta_view *meta = weights_meta_find(weights, key);
    check(meta && meta->type == META_ARRAY && meta->item_type == META_BOOL, "%s", key);
    check(meta->count == strlen(expected), "%s has %llu items", key,
          (unsigned long long)meta->count);
    for (uint64_t i = 0; i < meta->count; i++)
        check(meta->data[i] == (uint8_t)(expected[i] - '0'), "%s: item %llu", key,
              (unsigned long long)i);
}

#endif

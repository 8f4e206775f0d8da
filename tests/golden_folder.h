// The reference models as Hugging Face folders: the weights and configuration of one, and the
// tokenizer that several share, in a temporary folder.
#ifndef RN_TESTS_GOLDEN_FOLDER_H
#define RN_TESTS_GOLDEN_FOLDER_H

#include "data_file.h"

// The model.safetensors of a reference model. The caller frees data.
static inline struct data_file golden_safetensors(const char *name) {
    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.safetensors", name);
    return data_file_read(path);
}

// A folder with everything but the weights, in the model's own form.
static inline struct data_folder golden_folder_begin(const char *name, const char *tokenizer) {
    static const char *const own[] = {"config.json", "generation_config.json"};
    static const char *const shared[] = {"tokenizer.json", "tokenizer_config.json",
                                         "tokenizer.model"};
    char path[DATA_PATH_BYTES];
    const struct data_folder folder = data_folder_make();
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, TEST_DATA "/golden/%s/%s", name, own[i]);
        check(data_file_copy(path, folder.path, own[i]), "%s", path);
    }
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, TEST_DATA "/golden/tokenizers/%s/%s", tokenizer, shared[i]);
        const bool there = data_file_copy(path, folder.path, shared[i]);
        check(there || i == 2, "%s", path); // not every one has a tokenizer.model
    }
    return folder;
}

static inline struct data_folder golden_folder_make(const char *name, const char *tokenizer) {
    const struct data_folder folder = golden_folder_begin(name, tokenizer);
    const struct data_file file = golden_safetensors(name);
    data_file_write(folder.path, "model.safetensors", file.data, file.size);
    free(file.data);
    return folder;
}

#endif

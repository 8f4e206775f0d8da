// Fuzzes a folder: the bytes up to the first NUL are config.json, the bytes behind it the
// safetensors file. They either are refused with a message, or give metadata and tensors that can
// be read.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "folder_walk.h"
#include "model/arch.h"
#include "weights/hf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static rn_status folder_read(struct hf_config *c, const uint8_t *data, size_t size,
                             struct st_table *table) {
    const uint8_t *nul = memchr(data, 0, size);
    const size_t config_size = nul ? (size_t)(nul - data) : size;
    hf_config_read(c, (const char *)data, config_size);
    if (c->status != RN_OK || !nul) return c->status;
    c->status = store_file_add(c->weights, "fuzz", nul + 1, size - config_size - 1, c->err);
    if (c->status == RN_OK) c->status = st_file_read(table, 0, c->err);
    if (c->status == RN_OK) c->status = st_finish(table, c->err);
    return hf_tensors_map(c, table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[] = "fuzz";
    struct weights weights = {.path = path, .name = path};
    struct st_table table = {.weights = &weights};
    rn_error err = {0};
    struct hf_arch folders[ARCH_COUNT + 1];
    arch_folders(folders);
    struct hf_config config = {.weights = &weights,
                               .err = &err,
                               .archs = folders,
                               .path = path,
                               .text = (const char *)data};
    if (size == 0) return 0;
    rn_status status = folder_read(&config, data, size, &table);
    if (status == RN_OK) status = store_metas_index(&weights.metas, path, &err);
    if (status == RN_OK)
        status = weights.n_files ? RN_OK : store_file_add(&weights, path, "", 0, &err);
    if (status == RN_OK && !weights.tensor_names) status = store_tensors_index(&weights, &err);
    if (status != RN_OK && (err.status != status || strncmp(err.message, "fuzz", 4) != 0)) abort();
    if (status == RN_OK && folder_walk(&weights)) abort();
    st_deinit(&table);
    store_reset(&weights);
    return 0;
}

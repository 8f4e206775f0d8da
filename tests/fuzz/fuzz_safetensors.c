// Fuzzes the safetensors reader. If the bytes start with '{' and have a NUL, they are an index that
// may place tensors in two files; each file is the bytes behind the NUL. Other bytes are one file.
// They either are refused with a message, or every view is inside them.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "weights/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct st_table *table, const uint8_t *data, size_t size) {
    for (int i = 0; i < table->n; i++) {
        const struct st_tensor *tensor = &table->tensors[i];
        if (tensor->offset > size || tensor->bytes > size - tensor->offset) abort();
        if (tensor->data != data + tensor->offset) abort();
        if (tensor->name[0] == 0 || strlen(tensor->name) > ST_NAME_MAX) abort();
        if (st_find(table, tensor->name) != tensor) abort();
        if (memchr(tensor->dtype_name, 0, sizeof tensor->dtype_name) == NULL) abort();
        for (int k = 0; k < WEIGHTS_MAX_DIMS; k++)
            if (tensor->dim[k] < 0 || (k >= tensor->n_dims && tensor->dim[k] != 1)) abort();
    }
}

static rn_status read_all(struct st_table *table, rn_error *err) {
    rn_status status = RN_OK;
    for (int i = 0; status == RN_OK && i < table->weights->n_files; i++)
        status = st_file_read(table, i, err);
    return status == RN_OK ? st_finish(table, err) : status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[] = "fuzz";
    struct weights weights = {.path = path, .name = path};
    struct st_table table = {.weights = &weights};
    rn_error err = {0};
    rn_status status = RN_OK;
    const uint8_t *nul = size && data[0] == '{' ? memchr(data, 0, size) : NULL;
    const uint8_t *file = nul ? nul + 1 : data;
    const size_t file_size = size - (size_t)(file - data);
    store_file_add(&weights, "fuzz/a.safetensors", file, file_size, NULL);
    if (nul) {
        store_file_add(&weights, "fuzz/b.safetensors", file, file_size, NULL);
        status =
            st_index_read(&table, "fuzz", "fuzz", (const char *)data, (size_t)(nul - data), &err);
    }
    if (status == RN_OK) status = read_all(&table, &err);
    if (status == RN_OK) {
        walk(&table, file, file_size);
    } else if (err.status != status || err.message[0] == 0) {
        abort();
    }
    st_deinit(&table);
    store_reset(&weights);
    return 0;
}

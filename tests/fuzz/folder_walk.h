// Visits everything that opened weights of any container offer: shapes fit the bytes, every slice
// can be read, find agrees with at. Returns NULL, or the fault. For the fuzzers.
#ifndef RN_TESTS_FOLDER_WALK_H
#define RN_TESTS_FOLDER_WALK_H

#include <stdint.h>
#include <string.h>

#include "weights/weights.h"

// Reads both ends, so that a sanitizer sees them.
static inline void walk_ends(const void *at, uint64_t bytes) {
    const volatile uint8_t *ends = at;
    if (bytes == 0) return;
    (void)ends[0];
    (void)ends[bytes - 1];
}

// The same of a part of a tensor. Codes cannot be read in place.
static inline void walk_part(const struct weights *weights, const struct tensor_view *tensor,
                             const void *at, uint64_t bytes) {
    const void *there;
    uint8_t block[64];
    const uint64_t one = (uint64_t)format_at(tensor->format)->block_bytes;
    if (tensor->codes == CODES_NONE) {
        walk_ends(at, bytes);
        return;
    }
    weights_read(weights, at, one, block, &there, NULL);
    weights_read(weights, (const uint8_t *)at + bytes - one, one, block, &there, NULL);
}

static inline const char *walk_view(const struct weights *weights, int index) {
    const struct tensor_view *tensor = weights_tensor_at(weights, index);
    const struct format *format = format_at(tensor->format);
    uint64_t rows = 1;
    if (tensor->n_dims < 1 || tensor->n_dims > WEIGHTS_MAX_DIMS) return "n_dims";
    for (int i = 0; i < WEIGHTS_MAX_DIMS; i++) {
        if (tensor->dim[i] < 1 || (i >= tensor->n_dims && tensor->dim[i] != 1)) return "dim";
        if (i > 0) rows *= (uint64_t)tensor->dim[i];
    }
    if (tensor->dim[0] % format->block) return "row";
    const uint64_t row_bytes = format_row_bytes(tensor->format, tensor->dim[0]);
    if (rows * row_bytes != tensor->bytes) return "bytes";
    if (!tensor->data == !tensor->parts) return "data or parts";
    const uint64_t slice = tensor->bytes / (uint64_t)tensor->dim[2];
    for (int64_t i = 0; tensor->parts && i < tensor->dim[2]; i++)
        walk_part(weights, tensor, tensor->parts[i], slice);
    if (tensor->data) walk_part(weights, tensor, tensor->data, tensor->bytes);
    if (weights_tensor_find(weights, tensor->name) != tensor) return "tensor find";
    if (tensor->file < 0 || tensor->file >= weights_file_count(weights)) return "file";
    if (tensor->offset > weights_bytes(weights)) return "offset";
    return NULL;
}

static inline const char *walk_value(const struct weights *weights, int index) {
    const struct meta_view *meta = weights_meta_at(weights, index);
    int64_t integer;
    double real;
    bool flag;
    const char *text;
    size_t len;
    if (meta->key[0] == 0 || weights_meta_find(weights, meta->key) != meta) return "key find";
    walk_ends(meta->data, meta->bytes);
    const int n_kinds = meta_get_i64(meta, &integer) + meta_get_f64(meta, &real) +
                        meta_get_bool(meta, &flag) + meta_get_string(meta, &text, &len);
    if (meta->type != META_ARRAY) return n_kinds ? NULL : "value of no kind";
    for (uint64_t i = 0; i < meta->count; i++)
        if (!meta_item_i64(meta, i, &integer)) return "item";
    return meta_item_i64(meta, meta->count, &integer) ? "item past the end" : NULL;
}

static inline const char *folder_walk(const struct weights *weights) {
    const char *problem = NULL;
    for (int i = 0; !problem && i < weights_meta_count(weights); i++)
        problem = walk_value(weights, i);
    for (int i = 0; !problem && i < weights_tensor_count(weights); i++)
        problem = walk_view(weights, i);
    return problem;
}

#endif

// Visits everything that an opened file offers, through every accessor, and checks the invariants
// of weights.h: views are inside the file, strings inside their value, find agrees with at. Returns
// NULL, or the fault. For tests and the fuzzer.
#ifndef RN_TESTS_GGUF_WALK_H
#define RN_TESTS_GGUF_WALK_H

#include <stdint.h>
#include <string.h>

#include "weights/weights.h"

// [at, at + bytes) is inside [data, data + size); reads both ends so that a sanitizer sees them
// too.
static inline bool walk_inside(const uint8_t *data, size_t size, const void *at, uint64_t bytes) {
    const uintptr_t start = (uintptr_t)data, from = (uintptr_t)at;
    if (from < start || from - start > size || bytes > size - (from - start)) return false;
    if (bytes) {
        const volatile uint8_t *ends = at;
        (void)ends[0];
        (void)ends[bytes - 1];
    }
    return true;
}

static inline const char *walk_tensor(const struct weights *weights, int index, const uint8_t *data,
                                      size_t size) {
    const struct tensor_view *tensor = weights_tensor_at(weights, index);
    const struct format *format = format_at(tensor->format);
    if (!walk_inside(data, size, tensor->data, tensor->bytes)) return "tensor outside the file";
    if ((const uint8_t *)tensor->data != data + tensor->offset) return "tensor offset";
    if (tensor->n_dims < 1 || tensor->n_dims > WEIGHTS_MAX_DIMS) return "tensor n_dims";
    uint64_t rows = 1;
    for (int i = 0; i < WEIGHTS_MAX_DIMS; i++) {
        if (tensor->dim[i] < 1 || (i >= tensor->n_dims && tensor->dim[i] != 1)) return "tensor dim";
        if (i > 0) rows *= (uint64_t)tensor->dim[i];
    }
    if (tensor->dim[0] % format->block) return "row of a tensor";
    if (rows * format_row_bytes(tensor->format, tensor->dim[0]) != tensor->bytes) return "bytes";
    if (tensor->dim[0] <= 4096) { // the last row
        float row[4096];
        const uint64_t row_bytes = format_row_bytes(tensor->format, tensor->dim[0]);
        format_decode(tensor->format, (const uint8_t *)tensor->data + tensor->bytes - row_bytes,
                      row, tensor->dim[0]);
    }
    if (tensor->name[0] == 0 || strlen(tensor->name) > 127) return "tensor name";
    if (weights_tensor_find(weights, tensor->name) != tensor) return "tensor find";
    return NULL;
}

static inline const char *walk_array(const struct meta_view *meta) {
    struct meta_cursor cursor;
    const char *text;
    size_t len;
    int64_t integer;
    double real;
    if (meta_strings_begin(meta, &cursor)) {
        uint64_t count = 0;
        for (; meta_strings_next(&cursor, &text, &len); count++) {
            if (!walk_inside(meta->data, meta->bytes, text, len)) return "string outside its array";
        }
        if (count != meta->count || cursor.at != cursor.end) return "strings left over";
        return NULL;
    }
    for (uint64_t i = 0; i < meta->count && i < 1000; i++) {
        const bool has_i64 = meta_item_i64(meta, i, &integer);
        const bool has_f64 = meta_item_f64(meta, i, &real);
        if (!has_i64 && !has_f64) return "item that is no number";
        if (meta->item_type == META_BOOL && (integer < 0 || integer > 1)) return "bool item";
    }
    if (meta->count) meta_item_f64(meta, meta->count - 1, &real);
    if (meta_item_i64(meta, meta->count, &integer)) return "item past the end";
    if (meta_item_f64(meta, UINT64_MAX, &real)) return "item past the end";
    return NULL;
}

static inline const char *walk_meta(const struct weights *weights, int index, const uint8_t *data,
                                    size_t size) {
    const struct meta_view *meta = weights_meta_at(weights, index);
    if (!walk_inside(data, size, meta->data, meta->bytes)) return "value outside the file";
    if (meta->data != data + meta->offset) return "value offset";
    if (meta->key[0] == 0 || weights_meta_find(weights, meta->key) != meta) return "key find";
    int64_t integer;
    double real;
    bool flag;
    const char *text;
    size_t len;
    const int n_kinds = meta_get_i64(meta, &integer) + meta_get_f64(meta, &real) +
                        meta_get_bool(meta, &flag) + meta_get_string(meta, &text, &len);
    if (meta->type == META_ARRAY) return n_kinds ? "array as a scalar" : walk_array(meta);
    if (n_kinds == 0) return "value of no kind";
    if (meta->type == META_STRING && !walk_inside(data, size, text, len)) return "string value";
    struct meta_cursor cursor;
    if (meta_strings_begin(meta, &cursor) || meta_item_i64(meta, 0, &integer)) return "no array";
    return NULL;
}

static inline const char *gguf_walk(const struct weights *weights, const void *data, size_t size) {
    if (weights_bytes(weights) != size) return "size";
    if (strncmp(weights_container(weights), "GGUF v", 6) != 0) return "container";
    for (int i = 0; i < weights_meta_count(weights); i++) {
        const char *problem = walk_meta(weights, i, data, size);
        if (problem) return problem;
    }
    for (int i = 0; i < weights_tensor_count(weights); i++) {
        const char *problem = walk_tensor(weights, i, data, size);
        if (problem) return problem;
    }
    if (weights_meta_find(weights, "") || weights_tensor_find(weights, "")) return "found nothing";
    return NULL;
}

#endif

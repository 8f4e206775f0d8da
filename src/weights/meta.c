// Reading of metadata values. A view was range-checked when the file was opened, so nothing here
// checks lengths again except the cursor, which is cheap and guards against a wrong view. Values
// have any alignment: all loads are memcpy. The engine's hosts are little-endian, as the files are.
#include <string.h>

#include "weights/store.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF is read by plain loads");

#define LOAD(type, at)                                                                             \
    ({                                                                                             \
        type loaded;                                                                               \
        memcpy(&loaded, at, sizeof loaded);                                                        \
        loaded;                                                                                    \
    })

const uint8_t store_type_bytes[META_TYPE_COUNT] = {
    [META_U8] = 1,  [META_I8] = 1,     [META_U16] = 2,   [META_I16] = 2, [META_U32] = 4,
    [META_I32] = 4, [META_F32] = 4,    [META_BOOL] = 1,  [META_U64] = 8, [META_I64] = 8,
    [META_F64] = 8, [META_STRING] = 0, [META_ARRAY] = 0,
};

static bool load_i64(enum meta_type type, const uint8_t *at, int64_t *out) {
    switch (type) {
    case META_U8:
    case META_BOOL:
        *out = *at;
        return true;
    case META_I8:
        *out = LOAD(int8_t, at);
        return true;
    case META_U16:
        *out = LOAD(uint16_t, at);
        return true;
    case META_I16:
        *out = LOAD(int16_t, at);
        return true;
    case META_U32:
        *out = LOAD(uint32_t, at);
        return true;
    case META_I32:
        *out = LOAD(int32_t, at);
        return true;
    case META_I64:
        *out = LOAD(int64_t, at);
        return true;
    case META_U64: {
        const uint64_t value = LOAD(uint64_t, at);
        if (value > INT64_MAX) return false;
        *out = (int64_t)value;
        return true;
    }
    case META_F32:
    case META_F64:
    case META_STRING:
    case META_ARRAY:
        return false;
    }
    return false;
}

static bool load_f64(enum meta_type type, const uint8_t *at, double *out) {
    int64_t integer;
    switch (type) {
    case META_F32:
        *out = (double)LOAD(float, at);
        return true;
    case META_F64:
        *out = LOAD(double, at);
        return true;
    case META_U64:
        *out = (double)LOAD(uint64_t, at);
        return true;
    case META_BOOL:
        return false;
    default:
        if (!load_i64(type, at, &integer)) return false;
        *out = (double)integer;
        return true;
    }
}

bool meta_get_i64(const struct meta_view *meta, int64_t *out) {
    return load_i64(meta->type, meta->data, out);
}

bool meta_get_f64(const struct meta_view *meta, double *out) {
    return load_f64(meta->type, meta->data, out);
}

bool meta_get_bool(const struct meta_view *meta, bool *out) {
    if (meta->type != META_BOOL) return false;
    *out = *meta->data != 0;
    return true;
}

bool meta_get_string(const struct meta_view *meta, const char **text, size_t *len) {
    if (meta->type != META_STRING) return false;
    *text = (const char *)meta->data;
    *len = (size_t)meta->bytes;
    return true;
}

bool meta_strings_begin(const struct meta_view *meta, struct meta_cursor *cursor) {
    if (meta->type != META_ARRAY || meta->item_type != META_STRING) return false;
    *cursor = (struct meta_cursor){meta->data, meta->data + meta->bytes, meta->count};
    return true;
}

bool meta_strings_next(struct meta_cursor *cursor, const char **text, size_t *len) {
    if (cursor->left == 0 || (uint64_t)(cursor->end - cursor->at) < sizeof(uint64_t)) return false;
    const uint64_t bytes = LOAD(uint64_t, cursor->at);
    const uint8_t *start = cursor->at + sizeof bytes;
    if (bytes > (uint64_t)(cursor->end - start)) return false;
    *text = (const char *)start;
    *len = (size_t)bytes;
    cursor->at = start + bytes;
    cursor->left--;
    return true;
}

static const uint8_t *item_at(const struct meta_view *meta, uint64_t index) {
    if (meta->type != META_ARRAY || index >= meta->count) return NULL;
    const uint64_t size = store_type_bytes[meta->item_type];
    return size ? meta->data + index * size : NULL;
}

bool meta_item_i64(const struct meta_view *meta, uint64_t index, int64_t *out) {
    const uint8_t *at = item_at(meta, index);
    return at && load_i64(meta->item_type, at, out);
}

bool meta_item_f64(const struct meta_view *meta, uint64_t index, double *out) {
    const uint8_t *at = item_at(meta, index);
    return at && load_f64(meta->item_type, at, out);
}

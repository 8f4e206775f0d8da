// `runnel inspect --json`: everything but the arrays' later items, as one object. An array of
// metadata is {"type", "count", "first"}; bad UTF-8 becomes U+FFFD.
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "inspect.h"
#include "report.h"

// A string of the file; jansson takes sound UTF-8 only.
static json_t *string_json(const char *data, size_t len) {
    struct text text;
    if (!text_sound(data, len, &text)) return NULL;
    json_t *value = json_stringn(text.data, text.len);
    text_free(&text);
    return value;
}

// Keys may hold anything as well.
static void set_key(json_t *object, const char *key, json_t *value) {
    struct text text;
    if (!text_sound(key, strlen(key), &text)) {
        json_decref(value);
        return;
    }
    json_object_set_new(object, text.data, value);
    text_free(&text);
}

static json_t *number_json(const struct meta_view *meta, enum meta_type type, uint64_t index) {
    int64_t integer;
    double real;
    const bool single = meta->type != META_ARRAY;
    const bool whole = type != META_F32 && type != META_F64;
    if (whole && (single ? meta_get_i64(meta, &integer) : meta_item_i64(meta, index, &integer))) {
        return type == META_BOOL ? json_boolean(integer != 0) : json_integer(integer);
    }
    if (type == META_U64) { // beyond 63 bits: as text, so that no digit is lost
        char digits[24];
        snprintf(digits, sizeof digits, "%" PRIu64, inspect_u64(meta, index));
        return json_string(digits);
    }
    if (single ? meta_get_f64(meta, &real) : meta_item_f64(meta, index, &real)) {
        return json_number(type == META_F32 ? inspect_shortest((float)real) : real);
    }
    return json_null();
}

static json_t *array_json(const struct meta_view *meta) {
    json_t *first = json_array();
    struct meta_cursor cursor;
    const bool strings = meta_strings_begin(meta, &cursor);
    for (uint64_t i = 0; i < meta->count && i < INSPECT_ITEMS && meta->item_type != META_ARRAY;
         i++) {
        const char *text;
        size_t len;
        if (!strings) {
            json_array_append_new(first, number_json(meta, meta->item_type, i));
        } else if (meta_strings_next(&cursor, &text, &len)) {
            json_array_append_new(first, string_json(text, len));
        }
    }
    return json_pack("{s:s, s:I, s:o}", "type", inspect_type_name(meta->item_type), "count",
                     (json_int_t)meta->count, "first", first);
}

static json_t *meta_json(const struct weights *weights) {
    json_t *object = json_object();
    for (int i = 0; i < weights_meta_count(weights); i++) {
        const struct meta_view *meta = weights_meta_at(weights, i);
        const char *text;
        size_t len;
        json_t *value;
        if (meta_get_string(meta, &text, &len)) {
            value = string_json(text, len);
        } else if (meta->type == META_ARRAY) {
            value = array_json(meta);
        } else {
            value = number_json(meta, meta->type, 0);
        }
        set_key(object, meta->key, value);
    }
    return object;
}

static json_t *tensors_json(const struct weights *weights) {
    json_t *array = json_array();
    for (int i = 0; i < weights_tensor_count(weights); i++) {
        const struct tensor_view *tensor = weights_tensor_at(weights, i);
        json_t *shape = json_array();
        for (int j = 0; j < tensor->n_dims; j++) {
            json_array_append_new(shape, json_integer(tensor->dim[j]));
        }
        json_array_append_new(array,
                              json_pack("{s:o, s:o, s:s, s:I, s:I}", "name",
                                        string_json(tensor->name, strlen(tensor->name)), "shape",
                                        shape, "format", format_at(tensor->format)->name, "bytes",
                                        (json_int_t)tensor->bytes, "offset",
                                        (json_int_t)tensor->offset));
    }
    return array;
}

static json_t *format_json(const struct inspect_format *format) {
    return json_pack("{s:I, s:I, s:I}", "tensors", (json_int_t)format->tensors, "params",
                     (json_int_t)format->params, "bytes", (json_int_t)format->bytes);
}

static json_t *totals_json(const struct inspect *inspect) {
    json_t *formats = json_object();
    for (int i = 0; i < FORMAT_COUNT; i++) {
        if (inspect->format[i].tensors) {
            set_key(formats, format_at((enum format_id)i)->name, format_json(&inspect->format[i]));
        }
    }
    json_t *totals = format_json(&inspect->total);
    json_object_set_new(totals, "formats", formats);
    return totals;
}

static void model_json(const struct inspect *inspect, json_t *object) {
    if (!inspect->plan) {
        json_object_set_new(object, "supported", json_false());
        json_object_set_new(object, "reason",
                            string_json(inspect->reason, strlen(inspect->reason)));
        return;
    }
    const rn_model_info *model = inspect->model;
    json_t *memory = json_object();
    for (int kv = 0; kv < KV_TYPE_COUNT; kv++) {
        struct inspect_cost cost;
        inspect_cost(inspect, (enum kv_type)kv, &cost);
        set_key(memory, kv_type_name((enum kv_type)kv),
                json_pack("{s:I, s:I, s:I, s:I}", "kv_token_bytes", (json_int_t)cost.token_bytes,
                          "kv_context_bytes", (json_int_t)cost.context_bytes, "decode_bytes_empty",
                          (json_int_t)cost.first_step, "decode_bytes_full",
                          (json_int_t)cost.last_step));
    }
    json_object_set_new(object, "supported", json_true());
    json_object_set_new(object, "architecture", json_string(model->architecture));
    json_object_set_new(object, "context", json_integer(model->n_ctx_train));
    json_object_set_new(object, "vocabulary", json_integer(model->n_vocab));
    json_object_set_new(object, "layers", json_integer(model->n_layer));
    json_object_set_new(object, "memory", memory);
}

int inspect_json_print(const struct inspect *inspect) {
    const struct weights *weights = inspect->weights;
    const char *name = weights_name(weights);
    json_t *object =
        json_pack("{s:o, s:s, s:I}", "file", string_json(name, strlen(name)), "container",
                  weights_container(weights), "file_bytes", (json_int_t)weights_bytes(weights));
    if (!object) return app_fail(APP_FAILED, "out of memory");
    model_json(inspect, object);
    json_object_set_new(object, "totals", totals_json(inspect));
    json_object_set_new(object, "metadata", meta_json(weights));
    json_object_set_new(object, "tensors", tensors_json(weights));
    json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    putchar('\n');
    json_decref(object);
    return APP_OK;
}

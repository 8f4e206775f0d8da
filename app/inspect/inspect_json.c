// `runnel inspect --json`: everything but the arrays' later items, as one object. An array of
// metadata is {"type", "count", "first"}; bad UTF-8 becomes U+FFFD.
#include <inttypes.h>
#include <string.h>

#include "inspect/inspect.h"
#include "terminal/json.h"

// Keys may hold anything as well.
static bool put_key(json_t *object, const char *key, json_t *value) {
    struct text text;
    if (!text_sound(key, strlen(key), &text)) {
        json_decref(value);
        return false;
    }
    const bool ok = json_put(object, text.data, value);
    text_free(&text);
    return ok;
}

// value, or NULL when something of it is missing for want of memory.
static json_t *whole(json_t *value, bool ok) {
    if (ok) return value;
    json_decref(value);
    return NULL;
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
    bool ok = true;
    for (uint64_t i = 0; i < meta->count && i < INSPECT_ITEMS && meta->item_type != META_ARRAY;
         i++) {
        const char *text;
        size_t len;
        if (!strings) {
            ok &= json_array_append_new(first, number_json(meta, meta->item_type, i)) == 0;
        } else if (meta_strings_next(&cursor, &text, &len)) {
            ok &= json_array_append_new(first, json_text(text, len)) == 0;
        }
    }
    return json_pack("{s:s, s:I, s:o}", "type", inspect_type_name(meta->item_type), "count",
                     (json_int_t)meta->count, "first", whole(first, ok));
}

static json_t *meta_json(const struct weights *weights) {
    json_t *object = json_object();
    bool ok = true;
    for (int i = 0; ok && i < weights_meta_count(weights); i++) {
        const struct meta_view *meta = weights_meta_at(weights, i);
        const char *text;
        size_t len;
        json_t *value;
        if (meta_get_string(meta, &text, &len)) {
            value = json_text(text, len);
        } else if (meta->type == META_ARRAY) {
            value = array_json(meta);
        } else {
            value = number_json(meta, meta->type, 0);
        }
        ok = put_key(object, meta->key, value);
    }
    return whole(object, ok);
}

static json_t *tensor_json(const struct inspect *inspect, const struct tensor_view *tensor) {
    json_t *shape = json_array();
    bool ok = true;
    for (int i = 0; i < tensor->n_dims; i++) {
        ok &= json_array_append_new(shape, json_integer(tensor->dim[i])) == 0;
    }
    return json_pack("{s:o, s:o, s:s, s:I, s:i, s:I, s:b}", "name",
                     json_text(tensor->name, strlen(tensor->name)), "shape", whole(shape, ok),
                     "format", format_at(tensor->format)->name, "bytes", (json_int_t)tensor->bytes,
                     "file", tensor->file, "offset", (json_int_t)tensor->offset, "mtp",
                     inspect_is_block(inspect, tensor));
}

static json_t *tensors_json(const struct inspect *inspect) {
    const struct weights *weights = inspect->weights;
    json_t *array = json_array();
    bool ok = true;
    for (int i = 0; ok && i < weights_tensor_count(weights); i++) {
        ok = json_array_append_new(array, tensor_json(inspect, weights_tensor_at(weights, i))) == 0;
    }
    return whole(array, ok);
}

static json_t *left_out_json(const struct weights *weights) {
    json_t *array = json_array();
    const struct weights_left_out *left;
    bool ok = true;
    for (int i = 0; ok && (left = weights_left_out_at(weights, i)); i++)
        ok = json_array_append_new(array, json_pack("{s:s, s:i}", "pattern", left->pattern,
                                                    "tensors", left->n_tensors)) == 0;
    return whole(array, ok);
}

static json_t *format_json(const struct inspect_format *format) {
    return json_pack("{s:I, s:I, s:I}", "tensors", (json_int_t)format->tensors, "params",
                     (json_int_t)format->params, "bytes", (json_int_t)format->bytes);
}

static json_t *totals_json(const struct inspect *inspect) {
    json_t *formats = json_object();
    bool ok = true;
    for (int i = 0; i < FORMAT_COUNT; i++) {
        if (inspect->format[i].tensors) {
            ok &= json_put(formats, format_at((enum format_id)i)->name,
                           format_json(&inspect->format[i]));
        }
    }
    json_t *totals = format_json(&inspect->total);
    return whole(totals, json_put(totals, "formats", whole(formats, ok)));
}

static json_t *memory_json(const struct inspect *inspect) {
    json_t *memory = json_object();
    bool ok = true;
    const char *kv;
    for (int i = 0; (kv = inspect->device.kv_types[i]); i++) {
        struct inspect_cost cost;
        inspect_cost(inspect, kv, &cost);
        ok &= json_put(memory, kv,
                       json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:i}", "kv_token_bytes",
                                 (json_int_t)cost.token_bytes, "kv_page_bytes",
                                 (json_int_t)cost.page_bytes, "kv_context_bytes",
                                 (json_int_t)cost.context_bytes, "decode_bytes_empty",
                                 (json_int_t)cost.first_step, "decode_bytes_full",
                                 (json_int_t)cost.last_step, "state_bytes",
                                 (json_int_t)cost.state_bytes, "state_interval",
                                 cost.state_interval));
    }
    return whole(memory, ok);
}

// A type that does not fit has a message instead of figures.
static json_t *here_json(const struct inspect *inspect) {
    json_t *here = json_object();
    bool ok = true;
    const char *kv;
    for (int i = 0; (kv = inspect->device.kv_types[i]); i++) {
        rn_memory_plan plan;
        rn_error err = {0};
        uint64_t n_contexts;
        json_t *figures =
            inspect_here(inspect, kv, &plan, &n_contexts, &err)
                ? json_pack("{s:o}", "error", json_text(err.message, strlen(err.message)))
                : json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:I}", "total_bytes",
                            (json_int_t)plan.total, "available_bytes", (json_int_t)plan.available,
                            "weight_bytes", (json_int_t)plan.weight_bytes, "step_bytes",
                            (json_int_t)plan.step_bytes, "kv_bytes", (json_int_t)plan.kv_bytes,
                            "kv_context_bytes", (json_int_t)plan.kv_context_bytes, "mtp_kv_bytes",
                            (json_int_t)plan.mtp_kv_bytes, "context", plan.n_ctx, "contexts",
                            (json_int_t)n_contexts);
        ok &= json_put(here, kv, figures);
    }
    return whole(here, ok);
}

static json_t *reads_json(const struct inspect *inspect) {
    struct inspect_read read[OP_COUNT];
    inspect_reads(inspect, read);
    json_t *kinds = json_object();
    bool ok = true;
    for (int kind = 0; kind < OP_COUNT; kind++) {
        if (!read[kind].weight_bytes && !read[kind].kv_bytes && !read[kind].state_bytes) continue;
        ok &= json_put(kinds, op_name((enum op_kind)kind),
                       json_pack("{s:i, s:I, s:I, s:I, s:f}", "ops", read[kind].ops, "weight_bytes",
                                 (json_int_t)read[kind].weight_bytes, "kv_bytes",
                                 (json_int_t)read[kind].kv_bytes, "state_bytes",
                                 (json_int_t)read[kind].state_bytes, "share", read[kind].share));
    }
    return json_pack("{s:s, s:i, s:o}", "kv_type", inspect->device.kv_default, "context",
                     inspect->model->n_ctx_train, "kinds", whole(kinds, ok));
}

// null: the file has no block that drafts.
static json_t *block_json(const struct inspect *inspect) {
    struct inspect_block block;
    inspect_block(inspect, &block);
    if (!block.n_tensors) return json_null();
    return json_pack("{s:i, s:I, s:b}", "tensors", block.n_tensors, "bytes",
                     (json_int_t)block.bytes, "used", block.is_used);
}

// False: out of memory.
static bool model_json(const struct inspect *inspect, json_t *object) {
    if (!inspect->plan) {
        return json_put(object, "supported", json_false()) &&
               json_put(object, "reason", json_text(inspect->reason, strlen(inspect->reason)));
    }
    const rn_model_info *model = inspect->model;
    return json_put(object, "supported", json_true()) &&
           json_put(object, "architecture", json_string(model->architecture)) &&
           json_put(object, "context", json_integer(model->n_ctx_train)) &&
           json_put(object, "vocabulary", json_integer(model->n_vocab)) &&
           json_put(object, "layers", json_integer(model->n_layer)) &&
           json_put(object, "pooling",
                    model->pooling ? json_text(model->pooling, strlen(model->pooling))
                                   : json_null()) &&
           json_put(object, "mtp", block_json(inspect)) &&
           json_put(object, "backend", json_string(inspect->device.backend)) &&
           json_put(object, "device",
                    *inspect->device.name ? json_string(inspect->device.name) : json_null()) &&
           json_put(object, "memory", memory_json(inspect)) &&
           json_put(object, "memory_here", here_json(inspect)) &&
           json_put(object, "decode_reads", reads_json(inspect));
}

static json_t *files_json(const struct weights *weights) {
    json_t *array = json_array();
    bool ok = true;
    for (int i = 0; ok && i < weights_file_count(weights); i++) {
        const char *name = weights_file_at(weights, i);
        ok = json_array_append_new(array, json_text(name, strlen(name))) == 0;
    }
    return whole(array, ok);
}

static json_t *codes_json(const struct weights *weights, enum tensor_codes codes) {
    return json_integer(inspect_codes_count(weights, codes));
}

static json_t *template_json(const char *text) {
    return text ? json_text(text, strlen(text)) : json_null();
}

int inspect_json_print(const struct inspect *inspect) {
    const struct weights *weights = inspect->weights;
    const char *name = weights_name(weights);
    json_t *object =
        json_pack("{s:o, s:s, s:I}", "file", json_text(name, strlen(name)), "container",
                  weights_container(weights), "file_bytes", (json_int_t)weights_bytes(weights));
    const bool ok = object && json_put(object, "files", files_json(weights)) &&
                    model_json(inspect, object) &&
                    json_put(object, "chat_template", template_json(inspect->chat_template)) &&
                    json_put(object, "totals", totals_json(inspect)) &&
                    json_put(object, "metadata", meta_json(weights)) &&
                    json_put(object, "tensors", tensors_json(inspect)) &&
                    json_put(object, "fp8_tensors", codes_json(weights, CODES_FP8)) &&
                    json_put(object, "integer_tensors", codes_json(weights, CODES_INTEGERS)) &&
                    json_put(object, "left_out", left_out_json(weights));
    return json_print(whole(object, ok), JSON_INDENT(2) | JSON_REAL_PRECISION(15));
}

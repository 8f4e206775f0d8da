// Values out of JSON objects, and metadata out of values. An object is walked once, and the text of
// each member is kept. The text is read when a value is wanted, so a message about a wrong value
// can name its place. Called by the other hf_*.c files and by src/model/.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/jread.h"
#include "weights/hf.h"

enum { MAX_MEMBERS = 1 << 16 };

struct hf_member {
    struct jread_text key;
    struct hf_value value;
};

void hf_fail(struct hf_config *c, rn_status status, const char *fmt, ...) {
    if (c->status != RN_OK) return;
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    c->status = err_set(c->err, status, "%s: %s", c->path, text);
}

void hf_fail_value(struct hf_config *c, rn_status status, const struct hf_object *object,
                   const char *key, const char *expected) {
    const struct hf_value value = hf_find(c, object, key);
    if (!value.text) {
        hf_fail(c, status, "%s is missing, expected %s", key, expected);
        return;
    }
    const int shown = value.len < 60 ? (int)value.len : 60;
    hf_fail(c, status, "offset %zu: %s is %.*s, expected %s", (size_t)(value.text - c->text), key,
            shown, value.text, expected);
}

// Reports the JSON reader's error, at its place in the file rather than in the value.
static void fail_json(struct hf_config *c, const struct jread *json) {
    hf_fail(c, RN_ERR_MODEL, "offset %zu: %s", (size_t)(json->begin - c->text) + json->error_at,
            json->error);
}

// Walks the object: returns the number of its members, and keeps them where there is room (NULL:
// none).
static int members_walk(struct hf_config *c, struct hf_value value, struct hf_member *out) {
    struct jread json;
    struct hf_member member;
    int n = 0;
    jread_init(&json, value.text, value.len);
    json.has_constants = true; // configs are written by Python
    jread_enter_object(&json);
    while (!json.error && n <= MAX_MEMBERS && jread_next_key(&json, &member.key)) {
        if (!jread_raw(&json, &member.value.text, &member.value.len)) break;
        if (out) out[n] = member;
        n++;
    }
    if (n > MAX_MEMBERS) {
        hf_fail(c, RN_ERR_MODEL, "an object has more than %d keys", MAX_MEMBERS);
        return 0;
    }
    if (!json.error) jread_finish(&json);
    if (json.error) fail_json(c, &json);
    return n;
}

void hf_object_read(struct hf_config *c, struct hf_value value, struct hf_object *out) {
    *out = (struct hf_object){0};
    if (c->status != RN_OK) return;
    const int n = members_walk(c, value, NULL);
    if (c->status != RN_OK) return;
    struct hf_member *member = arena_array(&c->weights->arena, (size_t)n + 1, sizeof *member);
    if (!member) {
        hf_fail(c, RN_ERR_NOMEM, "out of memory");
        return;
    }
    out->n = members_walk(c, value, member);
    out->member = member;
}

struct hf_value hf_find(struct hf_config *c, const struct hf_object *object, const char *key) {
    struct hf_value found = {0};
    for (; object && !found.text; object = object->under) {
        for (int i = 0; i < object->n; i++) {
            const struct hf_member *member = &object->member[i];
            if (!jread_equals(&member->key, key)) continue;
            if (found.text)
                hf_fail(c, RN_ERR_MODEL, "offset %zu: %s is there twice",
                        (size_t)(member->value.text - c->text), key);
            found = member->value;
        }
    }
    return found;
}

struct hf_value hf_member_at(const struct hf_object *object, int index) {
    return index < object->n ? object->member[index].value : (struct hf_value){0};
}

static bool is_null(struct hf_value value) {
    return value.len == 4 && memcmp(value.text, "null", 4) == 0;
}

bool hf_has(struct hf_config *c, const struct hf_object *object, const char *key) {
    const struct hf_value value = hf_find(c, object, key);
    return value.text && !is_null(value);
}

// Whether there is something to read; sets up the reader.
static bool begin(struct hf_config *c, const struct hf_object *object, const char *key,
                  struct jread *json) {
    const struct hf_value value = hf_find(c, object, key);
    if (c->status != RN_OK || !value.text || is_null(value)) return false;
    jread_init(json, value.text, value.len);
    return true;
}

int64_t hf_int(struct hf_config *c, const struct hf_object *object, const char *key, int64_t min,
               int64_t max, int64_t fallback) {
    struct jread json;
    int64_t value;
    if (!begin(c, object, key, &json)) return fallback;
    if (jread_i64(&json, &value) && value >= min && value <= max) return value;
    char expected[96];
    snprintf(expected, sizeof expected, "an integer from %lld to %lld", (long long)min,
             (long long)max);
    hf_fail_value(c, RN_ERR_MODEL, object, key, expected);
    return fallback;
}

double hf_number(struct hf_config *c, const struct hf_object *object, const char *key, double min,
                 double max, double fallback) {
    struct jread json;
    double value;
    if (!begin(c, object, key, &json)) return fallback;
    if (jread_f64(&json, &value) && value >= min && value <= max) return value;
    char expected[96];
    snprintf(expected, sizeof expected, "a number from %g to %g", min, max);
    hf_fail_value(c, RN_ERR_MODEL, object, key, expected);
    return fallback;
}

bool hf_bool(struct hf_config *c, const struct hf_object *object, const char *key, bool fallback) {
    struct jread json;
    bool value;
    if (!begin(c, object, key, &json)) return fallback;
    if (jread_bool(&json, &value)) return value;
    hf_fail_value(c, RN_ERR_MODEL, object, key, "true or false");
    return fallback;
}

void hf_string(struct hf_config *c, const struct hf_object *object, const char *key, char *out,
               size_t size) {
    struct jread json;
    struct jread_text text;
    out[0] = 0;
    if (!begin(c, object, key, &json)) return;
    if (!jread_string(&json, &text)) {
        hf_fail_value(c, RN_ERR_MODEL, object, key, "a string");
        return;
    }
    snprintf(out, size, "%.*s", (int)(text.len < size ? text.len : size), text.data);
}

double hf_measure(struct hf_config *c, const struct hf_object *object, const char *key,
                  double fallback) {
    struct jread json;
    bool flag;
    if (!begin(c, object, key, &json)) return fallback;
    switch (jread_peek(&json)) {
    case JREAD_BOOL:
        return jread_bool(&json, &flag) && flag ? 1 : 0;
    case JREAD_NUMBER:
        return hf_number(c, object, key, -HUGE_VAL, HUGE_VAL, fallback);
    case JREAD_ARRAY: {
        double count = 0;
        jread_enter_array(&json);
        while (jread_next_item(&json) && jread_skip(&json)) count++;
        return count;
    }
    default:
        hf_fail_value(c, RN_ERR_MODEL, object, key, "a number, true or false, or an array");
        return fallback;
    }
}

int64_t hf_count(struct hf_config *c, const char *key) {
    struct jread json;
    if (!begin(c, &c->root, key, &json)) return 0;
    if (jread_peek(&json) == JREAD_ARRAY) return (int64_t)hf_measure(c, &c->root, key, 0);
    hf_fail_value(c, RN_ERR_MODEL, &c->root, key, "an array");
    return 0;
}

// A number of any size. Infinity is written as Python does, or as an object that names the float.
static bool item_read(struct hf_value item, double *out) {
    struct jread json;
    struct jread_text key, text;
    jread_init(&json, item.text, item.len);
    if (item.len == 8 && memcmp(item.text, "Infinity", 8) == 0) {
        *out = HUGE_VAL;
        return true;
    }
    if (jread_peek(&json) == JREAD_NUMBER) return jread_f64(&json, out);
    if (jread_peek(&json) != JREAD_OBJECT || !jread_enter_object(&json)) return false;
    if (!jread_next_key(&json, &key) || !jread_equals(&key, "__float__")) return false;
    *out = HUGE_VAL;
    return jread_string(&json, &text) && jread_equals(&text, "Infinity") &&
           !jread_next_key(&json, &key) && !json.error;
}

bool hf_numbers(struct hf_config *c, const char *key, double min, double max, double *out, int n) {
    struct jread json;
    struct hf_value item;
    int count = 0;
    if (!begin(c, &c->root, key, &json)) return false;
    json.has_constants = true;
    bool ok = jread_enter_array(&json);
    while (ok && jread_next_item(&json)) {
        double value = 0;
        ok = count < n && jread_raw(&json, &item.text, &item.len) && item_read(item, &value) &&
             value >= min && value <= max;
        if (ok) out[count++] = value;
    }
    if (ok && count == n) return true;
    char expected[80];
    snprintf(expected, sizeof expected, "%d numbers from %g to %g", n, min, max);
    hf_fail_value(c, RN_ERR_MODEL, &c->root, key, expected);
    return false;
}

// --- metadata ---

static rn_status put(struct weights *weights, const struct meta_view *meta, rn_error *err) {
    void *copy = arena_alloc(&weights->arena, meta->bytes);
    const char *key = arena_strdup(&weights->arena, meta->key, strlen(meta->key));
    struct meta_view *slot = copy && key ? store_meta_push(&weights->metas) : NULL;
    if (!slot) return err_set(err, RN_ERR_NOMEM, "%s: out of memory", weights->name);
    if (meta->bytes) memcpy(copy, meta->data, meta->bytes);
    *slot = *meta;
    slot->key = key;
    slot->data = copy;
    return RN_OK;
}

rn_status hf_put(struct weights *weights, const char *key, enum meta_type type, const void *data,
                 size_t bytes, rn_error *err) {
    const struct meta_view meta = {.key = key,
                                   .type = type,
                                   .count = type == META_STRING ? bytes : 1,
                                   .data = data,
                                   .bytes = bytes};
    return put(weights, &meta, err);
}

static void put_suffix(struct hf_config *c, const char *suffix, struct meta_view meta) {
    if (c->status != RN_OK) return;
    char key[128];
    snprintf(key, sizeof key, "%s.%s", c->arch, suffix);
    meta.key = key;
    c->status = put(c->weights, &meta, c->err);
}

void hf_put_u32(struct hf_config *c, const char *suffix, int64_t value) {
    const uint32_t stored = (uint32_t)value;
    put_suffix(c, suffix,
               (struct meta_view){.type = META_U32,
                                  .count = 1,
                                  .data = (const uint8_t *)&stored,
                                  .bytes = sizeof stored});
}

void hf_put_f32(struct hf_config *c, const char *suffix, double value) {
    const float stored = (float)value;
    put_suffix(c, suffix,
               (struct meta_view){.type = META_F32,
                                  .count = 1,
                                  .data = (const uint8_t *)&stored,
                                  .bytes = sizeof stored});
}

void hf_put_bool(struct hf_config *c, const char *suffix, bool value) {
    const uint8_t stored = value;
    put_suffix(
        c, suffix,
        (struct meta_view){.type = META_BOOL, .count = 1, .data = &stored, .bytes = sizeof stored});
}

void hf_put_string(struct hf_config *c, const char *suffix, const char *value) {
    const size_t len = strlen(value);
    put_suffix(c, suffix,
               (struct meta_view){.type = META_STRING,
                                  .count = len,
                                  .data = (const uint8_t *)value,
                                  .bytes = len});
}

void hf_put_u32s(struct hf_config *c, const char *suffix, const uint32_t *values, int64_t count) {
    put_suffix(c, suffix,
               (struct meta_view){.type = META_ARRAY,
                                  .item_type = META_U32,
                                  .count = (uint64_t)count,
                                  .data = (const uint8_t *)values,
                                  .bytes = (uint64_t)count * sizeof *values});
}

void hf_put_bools(struct hf_config *c, const char *suffix, const uint8_t *values, int64_t count) {
    put_suffix(c, suffix,
               (struct meta_view){.type = META_ARRAY,
                                  .item_type = META_BOOL,
                                  .count = (uint64_t)count,
                                  .data = values,
                                  .bytes = (uint64_t)count});
}

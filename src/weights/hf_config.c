// config.json becomes the metadata that a converted GGUF file would have: the class is found in the
// architectures' tables (hf_arch.h), and its rows are run. Two keys are not GGUF's. `rope.halves`
// is true if the rows of q and k are in rotate-half order, where GGUF's are permuted.
// `attention.sliding_window_pattern` has one bool for each layer (true: local). A missing value
// takes the default that the class has in transformers, whose behaviour decides throughout. Called
// by hf_folder.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jread.h"
#include "weights/hf.h"

enum { CLASS_NAME_MAX = 64 };

// --- the class ---

// The first of architectures; "" where there is none.
static void architecture_read(struct hf_config *c, char name[CLASS_NAME_MAX]) {
    const struct hf_value value = hf_find(c, &c->root, "architectures");
    struct jread json;
    struct jread_text text;
    name[0] = 0;
    if (c->status != RN_OK || !hf_has(c, &c->root, "architectures")) return;
    jread_init(&json, value.text, value.len);
    if (!jread_enter_array(&json)) {
        hf_fail_value(c, RN_ERR_MODEL, &c->root, "architectures", "an array of strings");
    } else if (jread_next_item(&json)) {
        if (!jread_string(&json, &text)) {
            hf_fail_value(c, RN_ERR_MODEL, &c->root, "architectures", "an array of strings");
            return;
        }
        snprintf(name, CLASS_NAME_MAX, "%.*s",
                 (int)(text.len < CLASS_NAME_MAX ? text.len : CLASS_NAME_MAX), text.data);
    }
}

static void class_unknown(struct hf_config *c, const char *what, const char *name) {
    if (c->status != RN_OK) return;
    c->status = err_set(c->err, RN_ERR_UNSUPPORTED,
                        "%s: %s %s is not supported; 'runnel inspect --architectures' lists the "
                        "supported ones",
                        c->path, what, name);
}

// By its name, or without one by the model's type.
static void class_find(struct hf_config *c, const char *name, const char *type) {
    for (const struct hf_arch *arch = c->archs; arch->name; arch++) {
        for (const struct hf_class *class = arch->classes; class->name; class ++) {
            if (strcmp(name[0] ? name : type, name[0] ? class->name : class->model_type) != 0)
                continue;
            if (class->is_for && !class->is_for(c)) continue;
            c->class = class;
            c->arch = arch->name;
            return;
        }
    }
}

static void class_read(struct hf_config *c) {
    char name[CLASS_NAME_MAX], type[CLASS_NAME_MAX];
    architecture_read(c, name);
    hf_string(c, &c->root, "model_type", type, sizeof type);
    if (c->status != RN_OK) return;
    if (!name[0] && !type[0]) {
        hf_fail(c, RN_ERR_MODEL, "has neither architectures nor model_type");
        return;
    }
    class_find(c, name, type);
    if (!c->class) {
        class_unknown(c, name[0] ? "architecture" : "model_type", name[0] ? name : type);
        return;
    }
    c->status =
        hf_put(c->weights, "general.architecture", META_STRING, c->arch, strlen(c->arch), c->err);
}

// --- values ---

static int64_t *number_at(struct hf_config *c, size_t offset) {
    return (int64_t *)(void *)((char *)c + offset);
}

static void key_read(struct hf_config *c, const struct hf_key *key) {
    const bool is_other =
        key->other && !hf_has(c, &c->root, key->name) && hf_has(c, &c->root, key->other);
    const char *name = is_other ? key->other : key->name;
    const bool is_there = hf_has(c, &c->root, name);
    const double fallback = key->like ? (double)*number_at(c, key->like) : key->fallback;
    if (c->status != RN_OK || (!is_there && fallback == HF_ABSENT)) return;
    if (!is_there && fallback == HF_REQUIRED) {
        hf_fail(c, RN_ERR_MODEL, "%s is missing", name);
        return;
    }
    if (key->type == HF_BOOL) {
        hf_put_bool(c, key->gguf, hf_bool(c, &c->root, name, fallback != 0));
    } else if (key->type == HF_FLOAT) {
        hf_put_f32(c, key->gguf, hf_number(c, &c->root, name, key->min, key->max, fallback));
    } else {
        const int64_t value = hf_int(c, &c->root, name, (int64_t)key->min, (int64_t)key->max,
                                     is_there ? 0 : (int64_t)fallback);
        if (key->number) *number_at(c, key->number) = value;
        hf_put_u32(c, key->gguf, value);
    }
}

static void keys_read(struct hf_config *c) {
    for (int i = 0; i < HF_MAX_TABLES && c->class->keys[i]; i++)
        for (const struct hf_key *key = c->class->keys[i]; key->name; key++) key_read(c, key);
}

static void settings_check(struct hf_config *c) {
    if (!hf_bool(c, &c->root, "is_causal", true)) // models of embeddings
        hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, "is_causal", "true");
    for (const struct hf_setting *set = c->class->settings; set && set->name; set++)
        if (hf_measure(c, &c->root, set->name, set->fallback) != set->value)
            hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, set->name, set->expected);
}

static void activation_check(struct hf_config *c) {
    const struct hf_activation *activation = c->class->activation;
    char name[CLASS_NAME_MAX];
    hf_string(c, &c->root, activation->key, name, sizeof name);
    if (!name[0]) return;
    for (int i = 0; i < HF_MAX_ACTIVATIONS && activation->names[i]; i++)
        if (strcmp(name, activation->names[i]) == 0) return;
    hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, activation->key, activation->expected);
}

static void head_dim_read(struct hf_config *c) {
    if (c->class->heads) {
        c->class->heads(c);
        return;
    }
    c->head_dim = hf_int(c, &c->root, "head_dim", 1, 1 << 16, c->class->head_dim);
    if (c->status != RN_OK || c->n_head == 0) return; // a head of another kind
    if (c->head_dim) {
        hf_put_u32(c, "attention.key_length", c->head_dim);
        hf_put_u32(c, "attention.value_length", c->head_dim);
    } else if (c->n_head > 0) {
        c->head_dim = c->n_embd / c->n_head;
    }
}

static void experts_check(struct hf_config *c) {
    if (c->n_ff_expert == 0) c->n_ff_expert = c->n_ff;
    if (c->n_expert > 0 && c->n_expert_used > c->n_expert)
        hf_fail(c, RN_ERR_MODEL, "num_experts_per_tok is %lld, there are %lld experts",
                (long long)c->n_expert_used, (long long)c->n_expert);
}

// --- windows ---

uint32_t *hf_layers_new(struct hf_config *c) {
    if (c->status != RN_OK) return NULL;
    uint32_t *layers = arena_array(&c->weights->arena, (size_t)c->n_layer, sizeof *layers);
    if (!layers) hf_fail(c, RN_ERR_NOMEM, "out of memory");
    return layers;
}

void hf_taps_scale(struct hf_config *c, const double *scale, const int64_t *count, int n) {
    if (c->status != RN_OK) return;
    for (int i = 0; i < n; i++) c->n_tap_scale += count[i];
    float *out = arena_array(&c->weights->arena, (size_t)c->n_tap_scale, sizeof *out);
    if (!out) {
        hf_fail(c, RN_ERR_NOMEM, "out of memory");
        return;
    }
    c->tap_scale = out;
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < count[i]; k++) *out++ = (float)scale[i];
}

int64_t hf_ints(struct hf_config *c, const char *key, int64_t most, int64_t *out, int64_t max) {
    const struct hf_value value = hf_find(c, &c->root, key);
    struct jread json;
    int64_t count = 0;
    if (c->status != RN_OK) return 0;
    jread_init(&json, value.text, value.len);
    bool ok = value.text && jread_enter_array(&json);
    while (ok && jread_next_item(&json)) {
        int64_t item = 0;
        ok = count < max && jread_i64(&json, &item) && item >= 0 && item <= most;
        if (ok) out[count++] = item;
    }
    if (ok) return count;
    char expected[80];
    snprintf(expected, sizeof expected, "at most %lld integers of 0 to %lld", (long long)max,
             (long long)most);
    hf_fail_value(c, RN_ERR_MODEL, &c->root, key, expected);
    return 0;
}

int64_t hf_int_each(struct hf_config *c, const char *key, int64_t min, int64_t max,
                    int64_t fallback) {
    const struct hf_value value = hf_find(c, &c->root, key);
    int64_t items[HF_MAX_LAYER];
    struct jread json;
    if (c->status != RN_OK || !value.text) return fallback;
    jread_init(&json, value.text, value.len);
    if (jread_peek(&json) != JREAD_ARRAY) return hf_int(c, &c->root, key, min, max, fallback);
    const int64_t n = hf_ints(c, key, max, items, HF_MAX_LAYER);
    bool ok = n >= c->n_layer && items[0] >= min;
    for (int64_t i = 1; ok && i < c->n_layer; i++) ok = items[i] == items[0];
    if (ok) return items[0];
    hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, key, "one value for all layers");
    return fallback;
}

void hf_rotated_layers(struct hf_config *c, uint8_t *rotated) {
    int64_t flags[HF_MAX_LAYER];
    const int64_t every = hf_int(c, &c->root, "no_rope_layer_interval", 1, INT32_MAX, 4);
    const int64_t n = hf_count(c, "no_rope_layers"); // none: by the interval
    for (int64_t i = 0; i < c->n_layer; i++) rotated[i] = (i + 1) % every != 0;
    if (n == 0) return;
    hf_ints(c, "no_rope_layers", 1, flags, HF_MAX_LAYER);
    if (n < c->n_layer)
        hf_fail(c, RN_ERR_MODEL, "no_rope_layers has %lld items, num_hidden_layers is %lld",
                (long long)n, (long long)c->n_layer);
    for (int64_t i = 0; i < c->n_layer && c->status == RN_OK; i++) rotated[i] = flags[i] == 1;
}

static int index_of(const struct jread_text *text, const char *const *names) {
    int i = 0;
    while (names[i] && !jread_equals(text, names[i])) i++;
    return names[i] ? i : -1;
}

bool hf_layer_types(struct hf_config *c, const char *const *names, uint8_t *out) {
    return hf_layer_names(c, "layer_types", names, out);
}

bool hf_layer_names(struct hf_config *c, const char *key, const char *const *names, uint8_t *out) {
    if (!hf_has(c, &c->root, key)) return false;
    const struct hf_value value = hf_find(c, &c->root, key);
    struct jread json;
    struct jread_text text;
    int64_t count = 0;
    jread_init(&json, value.text, value.len);
    bool ok = jread_enter_array(&json);
    while (ok && jread_next_item(&json)) {
        ok = jread_string(&json, &text);
        if (!ok) break;
        const int index = index_of(&text, names);
        if (index < 0) {
            hf_fail(c, RN_ERR_UNSUPPORTED, "%s: \"%.*s\" is not supported", key,
                    (int)(text.len < 40 ? text.len : 40), text.data);
            return false;
        }
        if (count < c->n_layer) out[count] = (uint8_t)index;
        count++;
    }
    if (!ok) {
        hf_fail_value(c, RN_ERR_MODEL, &c->root, key, "an array of strings");
    } else if (count != c->n_layer) {
        hf_fail(c, RN_ERR_MODEL, "%s has %lld items, num_hidden_layers is %lld", key,
                (long long)count, (long long)c->n_layer);
    }
    return c->status == RN_OK;
}

void hf_window_all(struct hf_config *c, uint8_t *is_local) {
    memset(is_local, 1, (size_t)c->n_layer);
}

void hf_window_alternate(struct hf_config *c, uint8_t *is_local) {
    for (int64_t i = 0; i < c->n_layer; i += 2) is_local[i] = 1;
}

void hf_window_upper(struct hf_config *c, uint8_t *is_local) {
    const int64_t from = hf_int(c, &c->root, "max_window_layers", 0, INT32_MAX, 28);
    for (int64_t i = from; i < c->n_layer; i++) is_local[i] = 1;
}

// L is a layer with the window, G one without; the word repeats.
static void mark_word(struct hf_config *c, const char *word, uint8_t *is_local) {
    const size_t len = strlen(word);
    if (strspn(word, "LG") != len)
        hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, "sliding_window_pattern",
                      "a number, or a word of L and G");
    for (int64_t i = 0; i < c->n_layer; i++) is_local[i] = word[(size_t)i % len] == 'L';
}

static bool is_text(struct hf_config *c, const char *key) {
    struct jread json;
    const struct hf_value value = hf_find(c, &c->root, key);
    if (!value.text) return false;
    jread_init(&json, value.text, value.len);
    return jread_peek(&json) == JREAD_STRING;
}

void hf_window_period(struct hf_config *c, uint8_t *is_local) {
    char word[HF_MAX_LAYER + 1] = "";
    if (is_text(c, "sliding_window_pattern"))
        hf_string(c, &c->root, "sliding_window_pattern", word, sizeof word);
    if (word[0]) {
        mark_word(c, word, is_local);
        return;
    }
    int64_t period = c->class->window.period;
    period = hf_int(c, &c->root, "_sliding_window_pattern", 1, INT32_MAX, period);
    period = hf_int(c, &c->root, "sliding_window_pattern", 1, INT32_MAX, period);
    for (int64_t i = 0; i < c->n_layer; i++) is_local[i] = (i + 1) % period != 0;
}

// The class's window where the config has no key of it: null means that there is none.
static int64_t window_size(struct hf_config *c) {
    const bool is_told = hf_find(c, &c->root, "sliding_window").text != NULL;
    return hf_int(c, &c->root, "sliding_window", 1, INT32_MAX, is_told ? 0 : c->class->window.size);
}

static void window_put(struct hf_config *c, const uint8_t *is_local) {
    const bool has_types = hf_has(c, &c->root, "layer_types");
    int64_t count = 0;
    for (int64_t i = 0; i < c->n_layer; i++) count += is_local[i];
    if (c->status != RN_OK) return;
    if (count == 0) {
        if (c->class->window.is_always) hf_put_u32(c, "attention.sliding_window", 0);
        return;
    }
    const int64_t window = window_size(c);
    if (window == 0) {
        hf_fail(c, RN_ERR_MODEL, "sliding_window is missing, layer_types has sliding_attention");
        return;
    }
    hf_put_u32(c, "attention.sliding_window", window);
    if (has_types || count < c->n_layer)
        hf_put_bools(c, "attention.sliding_window_pattern", is_local, c->n_layer);
}

static void window_read(struct hf_config *c) {
    const struct hf_window *window = &c->class->window;
    const bool has_types = hf_has(c, &c->root, "layer_types");
    if (c->status != RN_OK || !window->mark) return;
    if (window->flag && !hf_bool(c, &c->root, window->flag, false)) return;
    if (!has_types && !window->size && !hf_find(c, &c->root, "sliding_window").text) return;
    uint8_t *is_local = calloc((size_t)c->n_layer, 1);
    if (!is_local) {
        hf_fail(c, RN_ERR_NOMEM, "out of memory");
        return;
    }
    if (has_types) {
        static const char *const names[] = {"full_attention", "sliding_attention", NULL};
        hf_layer_types(c, names, is_local);
    } else if (window_size(c) > 0) {
        window->mark(c, is_local);
    }
    window_put(c, is_local);
    free(is_local);
}

// --- all of it ---

static void root_read(struct hf_config *c, const char *text, size_t len) {
    c->text = text;
    hf_object_read(c, (struct hf_value){text, len}, &c->root);
}

bool hf_config_class(struct hf_config *c, const char *text, size_t len) {
    root_read(c, text, len);
    if (c->status != RN_OK) return false;
    rn_error *err = c->err;
    c->err = NULL; // an unknown class is no error here
    class_read(c);
    const bool is_known = c->status == RN_OK;
    c->status = RN_OK;
    c->err = err;
    return is_known;
}

// A model that also reads images has the text's part in an object of its own.
static void text_config_read(struct hf_config *c) {
    if (!hf_has(c, &c->root, "text_config")) return;
    c->outer = c->root;
    hf_object_read(c, hf_find(c, &c->outer, "text_config"), &c->root);
    c->root.under = &c->outer;
}

void hf_config_read(struct hf_config *c, const char *text, size_t len) {
    root_read(c, text, len);
    class_read(c);
    if (c->status != RN_OK) return;
    text_config_read(c);
    settings_check(c);
    hf_quant_read(c);
    activation_check(c);
    keys_read(c);
    if (c->status != RN_OK) return;
    experts_check(c);
    head_dim_read(c);
    if (c->status == RN_OK && c->class->read) c->class->read(c);
    window_read(c);
    hf_rope_read(c);
    c->is_tied = hf_bool(c, &c->root, "tie_word_embeddings", c->class->is_tied);
}

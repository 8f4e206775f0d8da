// config.json becomes the metadata that a converted GGUF file would have, table by table: classes,
// families, keys, and values that only one setting of is supported. Beside GGUF's keys, where GGUF
// has none: `rope.halves` (true: the rows of q and k are in rotate-half order, where GGUF's are
// permuted), `attention.scale` for Gemma, `attention.sliding_window_pattern` as one bool for each
// layer (true: local), `no_rope_layer_interval`. A missing value takes the default that the class
// has in transformers, whose behaviour decides throughout. Called by hf_folder.c.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jread.h"
#include "weights/hf.h"

enum { CLASS_NAME_MAX = 64, MAX_LAYER = 4096 };

static const struct hf_class {
    const char *name;       // in architectures
    const char *model_type; // where there are no architectures
    enum hf_family family;
} classes[] = {
    {"LlamaForCausalLM", "llama", HF_LLAMA},
    {"MistralForCausalLM", "mistral", HF_MISTRAL},
    {"MixtralForCausalLM", "mixtral", HF_MIXTRAL},
    {"Qwen2ForCausalLM", "qwen2", HF_QWEN2},
    {"Qwen3ForCausalLM", "qwen3", HF_QWEN3},
    {"Qwen3MoeForCausalLM", "qwen3_moe", HF_QWEN3MOE},
    {"GemmaForCausalLM", "gemma", HF_GEMMA},
    {"Gemma2ForCausalLM", "gemma2", HF_GEMMA2},
    {"Gemma3ForCausalLM", "gemma3_text", HF_GEMMA3},
    {"Gemma3ForConditionalGeneration", "gemma3", HF_GEMMA3},
    {"Phi3ForCausalLM", "phi3", HF_PHI3},
    {"GPT2LMHeadModel", "gpt2", HF_GPT2},
    {"GraniteForCausalLM", "granite", HF_GRANITE},
    {"Olmo2ForCausalLM", "olmo2", HF_OLMO2},
    {"SmolLM3ForCausalLM", "smollm3", HF_SMOLLM3},
    {"GptOssForCausalLM", "gpt_oss", HF_GPTOSS},
};
enum { CLASS_COUNT = sizeof classes / sizeof *classes };

// Which layers are local when layer_types does not say it.
enum window_kind {
    WINDOW_NONE,      // the class knows no window
    WINDOW_ALL,       // every layer
    WINDOW_ALTERNATE, // 0, 2, 4 and on
    WINDOW_PERIOD,    // all but each sliding_window_pattern'th
    WINDOW_UPPER,     // from max_window_layers on, if use_sliding_window
    WINDOW_FLAG,      // every layer, if use_sliding_window
};

static const struct family {
    enum hf_family id;
    const char *arch;
    int head_dim; // default; 0: width / heads
    bool is_tied; // default
    enum window_kind window;
} families[] = {
    {HF_LLAMA, "llama", 0, false, WINDOW_NONE},
    {HF_MISTRAL, "llama", 0, false, WINDOW_ALL},
    {HF_MIXTRAL, "llama", 0, false, WINDOW_ALL},
    {HF_QWEN2, "qwen2", 0, false, WINDOW_UPPER},
    {HF_QWEN3, "qwen3", 128, false, WINDOW_UPPER},
    {HF_QWEN3MOE, "qwen3moe", 0, false, WINDOW_FLAG},
    {HF_GEMMA, "gemma", 256, true, WINDOW_NONE},
    {HF_GEMMA2, "gemma2", 256, true, WINDOW_ALTERNATE},
    {HF_GEMMA3, "gemma3", 256, true, WINDOW_PERIOD},
    {HF_PHI3, "phi3", 0, false, WINDOW_ALL},
    {HF_GPT2, "gpt2", 0, true, WINDOW_NONE},
    {HF_GRANITE, "granite", 0, false, WINDOW_NONE},
    {HF_OLMO2, "olmo2", 0, false, WINDOW_NONE},
    {HF_SMOLLM3, "smollm3", 0, true, WINDOW_NONE},
    {HF_GPTOSS, "gpt-oss", 64, false, WINDOW_ALTERNATE},
};

// A value that becomes a key. The first of the two fields that is there counts.
struct key {
    enum hf_field field, other;
    const char *suffix;
    uint32_t families;
    double fallback; // REQUIRED, ABSENT (no key then), or the class's default
    double min, max;
    size_t number; // offset of an int64_t in struct hf_config, 0: the value is a float
};
#define REQUIRED     -1.0
#define ABSENT       -2.0
#define NUMBER(name) offsetof(struct hf_config, name)
#define POSITIVE     1e-30, 1e30

static const struct key keys[] = {
    {HF_num_hidden_layers, HF_n_layer, "block_count", HF_ALL, REQUIRED, 1, MAX_LAYER,
     NUMBER(n_layer)},
    {HF_max_position_embeddings, HF_n_positions, "context_length", HF_ALL & ~HF_GEMMA3, REQUIRED, 1,
     INT32_MAX, NUMBER(n_ctx)},
    {HF_max_position_embeddings, HF_n_ctx, "context_length", HF_GEMMA3, 131072, 1, INT32_MAX,
     NUMBER(n_ctx)},
    {HF_hidden_size, HF_n_embd, "embedding_length", HF_ALL, REQUIRED, 1, 1 << 20, NUMBER(n_embd)},
    {HF_intermediate_size, HF_intermediate_size, "feed_forward_length", HF_ALL & ~HF_GPT2, REQUIRED,
     1, 1 << 24, NUMBER(n_ff)},
    {HF_num_attention_heads, HF_n_head, "attention.head_count", HF_ALL & ~HF_GEMMA3, REQUIRED, 1,
     1 << 16, NUMBER(n_head)},
    {HF_num_attention_heads, HF_n_head, "attention.head_count", HF_GEMMA3, 8, 1, 1 << 16,
     NUMBER(n_head)},
    {HF_rms_norm_eps, HF_rms_norm_eps, "attention.layer_norm_rms_epsilon",
     HF_ALL & ~HF_GPT2 & ~HF_GEMMA3, REQUIRED, 0, 1, 0},
    {HF_rms_norm_eps, HF_rms_norm_eps, "attention.layer_norm_rms_epsilon", HF_GEMMA3, 1e-6, 0, 1,
     0},
    {HF_layer_norm_epsilon, HF_layer_norm_epsilon, "attention.layer_norm_epsilon", HF_GPT2, 1e-5, 0,
     1, 0},
    {HF_num_local_experts, HF_num_experts, "expert_count", HF_ALL_MOE, REQUIRED, 1, 65536,
     NUMBER(n_expert)},
    {HF_num_experts_per_tok, HF_experts_per_token, "expert_used_count", HF_ALL_MOE, REQUIRED, 1,
     65536, NUMBER(n_expert_used)},
    {HF_moe_intermediate_size, HF_moe_intermediate_size, "expert_feed_forward_length", HF_QWEN3MOE,
     REQUIRED, 1, 1 << 24, NUMBER(n_ff_expert)},
    {HF_intermediate_size, HF_intermediate_size, "expert_feed_forward_length", HF_GPTOSS, REQUIRED,
     1, 1 << 24, NUMBER(n_ff_expert)},
    {HF_attention_multiplier, HF_attention_multiplier, "attention.scale", HF_GRANITE, 1, POSITIVE,
     0},
    {HF_embedding_multiplier, HF_embedding_multiplier, "embedding_scale", HF_GRANITE, 1, POSITIVE,
     0},
    {HF_residual_multiplier, HF_residual_multiplier, "residual_scale", HF_GRANITE, 1, POSITIVE, 0},
    {HF_logits_scaling, HF_logits_scaling, "logit_scale", HF_GRANITE, 1, POSITIVE, 0},
    {HF_final_logit_softcapping, HF_final_logit_softcapping, "final_logit_softcapping", HF_GEMMA3,
     ABSENT, POSITIVE, 0},
};

// Settings of which one alone is supported.
static const struct {
    enum hf_field field;
    uint32_t families;
    double fallback, value; // see hf_measure
    const char *expected;
} settings[] = {
    {HF_use_bidirectional_attention, HF_ALL_GEMMA, 0, 0, "false"},
    {HF_attn_logit_softcapping, HF_GEMMA3, 0, 0, "null"},
    {HF_use_sliding_window, HF_SMOLLM3, 0, 0, "false"},
    {HF_decoder_sparse_step, HF_QWEN3MOE, 1, 1, "1"},
    {HF_mlp_only_layers, HF_QWEN3MOE, 0, 0, "[]"},
    {HF_swiglu_limit, HF_GPTOSS, 7, 7, "7.0"},
    {HF_scale_attn_weights, HF_GPT2, 1, 1, "true"},
    {HF_scale_attn_by_inverse_layer_idx, HF_GPT2, 0, 0, "false"},
    {HF_add_cross_attention, HF_GPT2, 0, 0, "false"},
};

// --- the class ---

// The first of architectures; "" where there is none.
static void architecture_read(struct hf_config *c, char name[CLASS_NAME_MAX]) {
    const struct hf_value *value = &c->root.value[HF_architectures];
    struct jread json;
    struct jread_text text;
    name[0] = 0;
    if (c->status != RN_OK || !hf_has(&c->root, HF_architectures)) return;
    jread_init(&json, value->text, value->len);
    if (!jread_enter_array(&json)) {
        hf_fail_value(c, RN_ERR_MODEL, &c->root, HF_architectures, "an array of strings");
    } else if (jread_next_item(&json)) {
        if (!jread_string(&json, &text)) {
            hf_fail_value(c, RN_ERR_MODEL, &c->root, HF_architectures, "an array of strings");
            return;
        }
        snprintf(name, CLASS_NAME_MAX, "%.*s",
                 (int)(text.len < CLASS_NAME_MAX ? text.len : CLASS_NAME_MAX), text.data);
    }
}

static void class_unknown(struct hf_config *c, const char *what, const char *name) {
    char known[400];
    size_t len = 0;
    for (int i = 0; i < CLASS_COUNT && len < sizeof known; i++)
        len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", i ? ", " : "",
                                classes[i].name);
    // Not through hf_fail, whose line is shorter than the list.
    if (c->status != RN_OK) return;
    c->status = err_set(c->err, RN_ERR_UNSUPPORTED, "%s: %s %s is not supported, only %s", c->path,
                        what, name, known);
}

static void class_read(struct hf_config *c) {
    char name[CLASS_NAME_MAX], type[CLASS_NAME_MAX];
    architecture_read(c, name);
    hf_string(c, &c->root, HF_model_type, type, sizeof type);
    if (c->status != RN_OK) return;
    const struct hf_class *found = NULL;
    for (int i = 0; i < CLASS_COUNT && !found; i++)
        if (strcmp(name[0] ? name : type, name[0] ? classes[i].name : classes[i].model_type) == 0)
            found = &classes[i];
    if (!found && !name[0] && !type[0]) {
        hf_fail(c, RN_ERR_MODEL, "has neither architectures nor model_type");
    } else if (!found) {
        class_unknown(c, name[0] ? "architecture" : "model_type", name[0] ? name : type);
    }
    if (c->status != RN_OK) return;
    c->family = found->family;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (families[i].id == c->family) c->arch = families[i].arch;
    c->status =
        hf_put(c->weights, "general.architecture", META_STRING, c->arch, strlen(c->arch), c->err);
}

static const struct family *family_of(const struct hf_config *c) {
    const struct family *family = families;
    while (family->id != c->family) family++;
    return family;
}

// --- values ---

static void key_read(struct hf_config *c, const struct key *key) {
    const enum hf_field field =
        !hf_has(&c->root, key->field) && hf_has(&c->root, key->other) ? key->other : key->field;
    const bool is_there = hf_has(&c->root, field);
    if (!is_there && key->fallback == ABSENT) return;
    if (!is_there && key->fallback == REQUIRED) {
        hf_fail(c, RN_ERR_MODEL, "%s is missing", hf_field_name(field));
        return;
    }
    if (key->number) {
        const int64_t value = hf_int(c, &c->root, field, (int64_t)key->min, (int64_t)key->max,
                                     is_there ? 0 : (int64_t)key->fallback);
        memcpy((char *)c + key->number, &value, sizeof value);
        hf_put_u32(c, key->suffix, value);
    } else {
        hf_put_f32(c, key->suffix,
                   hf_number(c, &c->root, field, key->min, key->max, is_there ? 0 : key->fallback));
    }
}

static void settings_check(struct hf_config *c) {
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (!(settings[i].families & c->family)) continue;
        const double value = hf_measure(c, &c->root, settings[i].field, settings[i].fallback);
        if (value != settings[i].value)
            hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, settings[i].field, settings[i].expected);
    }
    if (!hf_has(&c->root, HF_quantization_config)) return;
    struct hf_object quantization = {0};
    char method[CLASS_NAME_MAX];
    hf_object_read(c, c->root.value[HF_quantization_config], &quantization);
    hf_string(c, &quantization, HF_quant_method, method, sizeof method);
    if (c->family == HF_GPTOSS && strcmp(method, "mxfp4") == 0) return;
    hf_fail(c, RN_ERR_UNSUPPORTED, "quantization_config: quant_method %s is not supported",
            method[0] ? method : "(none)");
}

// Gemma's hidden_act is a leftover: hidden_activation counts, and is the tanh form when it is null.
static void activation_check(struct hf_config *c) {
    static const char *const silu[] = {"silu", "swish", NULL};
    static const char *const gelu[] = {"gelu_new", "gelu_pytorch_tanh", "gelu_tanh", NULL};
    const bool is_gemma = c->family & HF_ALL_GEMMA, is_gpt2 = c->family == HF_GPT2;
    const enum hf_field field = is_gemma  ? HF_hidden_activation
                                : is_gpt2 ? HF_activation_function
                                          : HF_hidden_act;
    char name[CLASS_NAME_MAX];
    hf_string(c, &c->root, field, name, sizeof name);
    if (!name[0]) return;
    for (const char *const *known = is_gemma || is_gpt2 ? gelu : silu; *known; known++)
        if (strcmp(name, *known) == 0) return;
    hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, field,
                  is_gemma || is_gpt2 ? "the tanh form of gelu" : "silu");
}

static void heads_read(struct hf_config *c) {
    const struct family *family = family_of(c);
    if (c->family != HF_GPT2) {
        c->n_head_kv = hf_int(c, &c->root, HF_num_key_value_heads, 1, 1 << 16,
                              c->family == HF_GEMMA3 ? 4 : c->n_head);
        hf_put_u32(c, "attention.head_count_kv", c->n_head_kv);
    }
    c->head_dim = hf_int(c, &c->root, HF_head_dim, 1, 1 << 16, family->head_dim);
    if (c->status != RN_OK) return;
    if (c->head_dim) {
        hf_put_u32(c, "attention.key_length", c->head_dim);
        hf_put_u32(c, "attention.value_length", c->head_dim);
    } else {
        c->head_dim = c->n_embd / c->n_head;
    }
}

static void experts_read(struct hf_config *c) {
    if (c->n_ff_expert == 0) c->n_ff_expert = c->n_ff;
    if (c->n_expert_used > c->n_expert)
        hf_fail(c, RN_ERR_MODEL, "num_experts_per_tok is %lld, there are %lld experts",
                (long long)c->n_expert_used, (long long)c->n_expert);
    if (c->family == HF_QWEN3MOE)
        hf_put_bool(c, "expert_weights_norm", hf_bool(c, &c->root, HF_norm_topk_prob, false));
}

static void gpt2_read(struct hf_config *c) {
    if (c->family != HF_GPT2) return;
    c->n_ff = hf_int(c, &c->root, HF_n_inner, 1, 1 << 24, 4 * c->n_embd);
    hf_put_u32(c, "feed_forward_length", c->n_ff);
}

static void gemma_read(struct hf_config *c) {
    if (!(c->family & (HF_GEMMA2 | HF_GEMMA3))) return;
    const double scalar = hf_number(c, &c->root, HF_query_pre_attn_scalar, 1e-6, 1e9, 256);
    hf_put_f32(c, "attention.scale", 1 / sqrt(scalar));
    if (c->family != HF_GEMMA2) return;
    // Here null is not the same as missing: it takes the cap away, which GGUF says by 0.
    static const struct {
        enum hf_field field;
        const char *suffix;
        double fallback;
    } caps[] = {{HF_attn_logit_softcapping, "attn_logit_softcapping", 50},
                {HF_final_logit_softcapping, "final_logit_softcapping", 30}};
    for (int i = 0; i < 2; i++) {
        const bool is_null = c->root.value[caps[i].field].text && !hf_has(&c->root, caps[i].field);
        hf_put_f32(c, caps[i].suffix,
                   hf_number(c, &c->root, caps[i].field, POSITIVE, is_null ? 0 : caps[i].fallback));
    }
}

// --- windows ---

static void layer_types_read(struct hf_config *c, uint8_t *is_local) {
    const struct hf_value *value = &c->root.value[HF_layer_types];
    struct jread json;
    struct jread_text text;
    int64_t count = 0;
    jread_init(&json, value->text, value->len);
    bool ok = jread_enter_array(&json);
    while (ok && jread_next_item(&json)) {
        ok = jread_string(&json, &text);
        if (!ok) break;
        const bool local = jread_equals(&text, "sliding_attention");
        if (!local && !jread_equals(&text, "full_attention")) {
            hf_fail(c, RN_ERR_UNSUPPORTED, "layer_types: \"%.*s\" is not supported",
                    (int)(text.len < 40 ? text.len : 40), text.data);
            return;
        }
        if (count < c->n_layer) is_local[count] = local;
        count++;
    }
    if (!ok) {
        hf_fail_value(c, RN_ERR_MODEL, &c->root, HF_layer_types, "an array of strings");
    } else if (count != c->n_layer) {
        hf_fail(c, RN_ERR_MODEL, "layer_types has %lld items, num_hidden_layers is %lld",
                (long long)count, (long long)c->n_layer);
    }
}

// Marks the local layers as the class does it when nothing else is said.
static void layers_default(struct hf_config *c, enum window_kind kind, uint8_t *is_local) {
    int64_t from = 0, period = 0;
    if (kind == WINDOW_UPPER) from = hf_int(c, &c->root, HF_max_window_layers, 0, INT32_MAX, 28);
    if (kind == WINDOW_PERIOD) {
        period = hf_int(c, &c->root, HF__sliding_window_pattern, 1, INT32_MAX, 6);
        period = hf_int(c, &c->root, HF_sliding_window_pattern, 1, INT32_MAX, period);
    }
    for (int64_t i = 0; i < c->n_layer; i++)
        is_local[i] = kind == WINDOW_ALTERNATE ? i % 2 == 0
                      : kind == WINDOW_PERIOD  ? (i + 1) % period != 0
                                               : i >= from;
}

static void window_put(struct hf_config *c, const uint8_t *is_local) {
    const bool has_types = hf_has(&c->root, HF_layer_types);
    int64_t count = 0;
    for (int64_t i = 0; i < c->n_layer; i++) count += is_local[i];
    if (c->status != RN_OK) return;
    if (count == 0) { // gemma2 has a window where GGUF does not say
        if (c->family == HF_GEMMA2) hf_put_u32(c, "attention.sliding_window", 0);
        return;
    }
    const int64_t window = hf_int(c, &c->root, HF_sliding_window, 1, INT32_MAX, 0);
    if (window == 0) {
        hf_fail(c, RN_ERR_MODEL, "sliding_window is missing, layer_types has sliding_attention");
        return;
    }
    hf_put_u32(c, "attention.sliding_window", window);
    if (has_types || count < c->n_layer)
        hf_put_bools(c, "attention.sliding_window_pattern", is_local, c->n_layer);
}

static void window_read(struct hf_config *c) {
    const enum window_kind kind = family_of(c)->window;
    const bool needs_flag = kind == WINDOW_UPPER || kind == WINDOW_FLAG;
    const bool has_types = hf_has(&c->root, HF_layer_types);
    if (c->status != RN_OK || kind == WINDOW_NONE) return;
    if (needs_flag && !hf_bool(c, &c->root, HF_use_sliding_window, false)) return;
    if (!has_types && !c->root.value[HF_sliding_window].text) return;
    uint8_t *is_local = calloc((size_t)c->n_layer, 1);
    if (!is_local) {
        hf_fail(c, RN_ERR_NOMEM, "out of memory");
        return;
    }
    if (has_types) {
        layer_types_read(c, is_local);
    } else if (hf_has(&c->root, HF_sliding_window)) {
        layers_default(c, kind, is_local);
    }
    window_put(c, is_local);
    free(is_local);
}

// --- layers without rope ---

// The place of the first 0 of no_rope_layers, counted from 1, when there is one at each of its
// multiples and nowhere else; 0 when all have rope.
static int64_t no_rope_period(struct hf_config *c) {
    const struct hf_value *value = &c->root.value[HF_no_rope_layers];
    int64_t first = 0, count = 0, flag = 1;
    bool is_periodic = true;
    struct jread json;
    jread_init(&json, value->text, value->len);
    bool ok = jread_enter_array(&json);
    while (ok && jread_next_item(&json)) {
        ok = jread_i64(&json, &flag) && (flag == 0 || flag == 1);
        count++;
        if (!first && flag == 0) first = count;
        if (first && (flag == 0) != (count % first == 0)) is_periodic = false;
    }
    if (!ok || count != c->n_layer) {
        hf_fail_value(c, RN_ERR_MODEL, &c->root, HF_no_rope_layers,
                      "an array of 0 and 1, one for each layer");
    } else if (!is_periodic) {
        hf_fail_value(c, RN_ERR_UNSUPPORTED, &c->root, HF_no_rope_layers,
                      "a 0 at every n'th place alone");
    }
    return first;
}

// Every interval'th layer has none; with an interval above the number of layers all have it.
static void no_rope_read(struct hf_config *c) {
    if (c->family != HF_SMOLLM3 || c->status != RN_OK) return;
    int64_t interval = hf_int(c, &c->root, HF_no_rope_layer_interval, 1, INT32_MAX, 4);
    if (c->status == RN_OK && hf_has(&c->root, HF_no_rope_layers)) {
        const int64_t period = no_rope_period(c);
        if (period) interval = period;
        if (!period && interval <= c->n_layer) interval = c->n_layer + 1;
    }
    hf_put_u32(c, "no_rope_layer_interval", interval);
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

void hf_config_read(struct hf_config *c, const char *text, size_t len) {
    root_read(c, text, len);
    class_read(c);
    if (c->status != RN_OK) return;
    if (hf_has(&c->root, HF_text_config))
        hf_object_read(c, c->root.value[HF_text_config], &c->root);
    settings_check(c);
    activation_check(c);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (c->status == RN_OK && (keys[i].families & c->family)) key_read(c, &keys[i]);
    if (c->status != RN_OK) return;
    experts_read(c);
    heads_read(c);
    gpt2_read(c);
    gemma_read(c);
    window_read(c);
    no_rope_read(c);
    hf_rope_read(c);
    c->is_tied = hf_bool(c, &c->root, HF_tie_word_embeddings, family_of(c)->is_tied);
    if (c->family & HF_ALL_LLAMA) hf_put_bool(c, "rope.halves", true);
}

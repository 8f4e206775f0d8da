// config.json of a folder: which metadata it becomes for each class, in the old and the new style,
// and how wrong values are refused, by key and value. The files have no tensors here.
// label: memory
#include <math.h>

#include "folder.h"

// A folder with this config.json.
static struct data_folder text_folder(const char *text) {
    const struct data_folder folder = data_folder_make();
    folder_text(&folder, "config.json", text);
    st_write_raw(&folder, "model.safetensors", "{}", NULL, 0);
    return folder;
}

// A folder whose config is of this class with `more` at its end.
static struct data_folder config_folder(const char *class_name, const char *more) {
    const struct data_folder folder = text_folder("");
    config_write(&folder, class_name, more);
    return folder;
}

static struct weights *config_open(const char *class_name, const char *more) {
    const struct data_folder folder = config_folder(class_name, more);
    struct weights *weights = folder_open(&folder);
    data_folder_remove(&folder);
    return weights;
}

static void config_refused(const char *class_name, const char *more, rn_status status,
                           const char *message) {
    const struct data_folder folder = config_folder(class_name, more);
    folder_refused(&folder, status, message);
    data_folder_remove(&folder);
}

static void text_refused(const char *text, rn_status status, const char *message) {
    const struct data_folder folder = text_folder(text);
    folder_refused(&folder, status, message);
    data_folder_remove(&folder);
}

// The metadata that a config becomes. wanted: "key value, key value", the keys behind the name of
// the architecture; "key -": there is none.
static void config_gives(const char *class_name, const char *more, const char *arch,
                         const char *wanted) {
    struct weights *weights = config_open(class_name, more);
    check_string(weights, "general.architecture", arch);
    for (const char *at = wanted; at; at = strchr(at + 1, ',')) {
        char name[64], value[32], key[128], *end;
        check(sscanf(at, *at == ',' ? ", %63s %31[^,]" : "%63s %31[^,]", name, value) == 2, "%s",
              at);
        snprintf(key, sizeof key, "%s.%s", arch, name);
        const double number = strtod(value, &end);
        if (strcmp(value, "-") == 0)
            check(!weights_meta_find(weights, key), "%s: %s", more, key);
        else if (*end)
            check_string(weights, key, value);
        else
            check_number(weights, key, number);
    }
    weights_close(weights);
}

static const char *const moe =
    ", 'num_local_experts': 4, 'num_experts_per_tok': 2, 'moe_intermediate_size': 5";

CASE(every_class_has_its_architecture) {
    static const struct {
        const char *class_name, *arch;
        bool is_permuted, is_moe;
    } cases[] = {
        {"LlamaForCausalLM", "llama", true, false},
        {"MistralForCausalLM", "llama", true, false},
        {"MixtralForCausalLM", "llama", true, true},
        {"Qwen2ForCausalLM", "qwen2", false, false},
        {"Qwen3ForCausalLM", "qwen3", false, false},
        {"Qwen3MoeForCausalLM", "qwen3moe", false, true},
        {"GemmaForCausalLM", "gemma", false, false},
        {"Gemma2ForCausalLM", "gemma2", false, false},
        {"Gemma3ForCausalLM", "gemma3", false, false},
        {"Gemma3ForConditionalGeneration", "gemma3", false, false},
        {"Phi3ForCausalLM", "phi3", false, false},
        {"GPT2LMHeadModel", "gpt2", false, false},
        {"GraniteForCausalLM", "granite", true, false},
        {"Olmo2ForCausalLM", "olmo2", false, false},
        {"SmolLM3ForCausalLM", "smollm3", true, false},
        {"GptOssForCausalLM", "gpt-oss", false, true},
        {"SeedOssForCausalLM", "seed_oss", false, false},
        {"Ernie4_5ForCausalLM", "ernie4_5", false, false},
        {"Ernie4_5_ForCausalLM", "ernie4_5", false, false},
        {"Glm4ForCausalLM", "glm4", false, false},
        {"Exaone4ForCausalLM", "exaone4", false, false},
        {"Olmo3ForCausalLM", "olmo2", false, false},
        {"HunYuanDenseV1ForCausalLM", "hunyuan-dense", false, false},
        {"Starcoder2ForCausalLM", "starcoder2", false, false},
        {"Cohere2ForCausalLM", "cohere2", false, false},
        {"Qwen3VLForConditionalGeneration", "qwen3vl", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weights *weights =
            config_open(cases[i].class_name, cases[i].is_moe ? moe : ", 'extra': [1, {}]");
        char key[64];
        check_string(weights, "general.architecture", cases[i].arch);
        snprintf(key, sizeof key, "%s.block_count", cases[i].arch);
        check_number(weights, key, 2);
        snprintf(key, sizeof key, "%s.context_length", cases[i].arch);
        check_number(weights, key, 64);
        snprintf(key, sizeof key, "%s.rope.halves", cases[i].arch);
        if (cases[i].is_permuted) {
            check_number(weights, key, 1);
        } else {
            check(!weights_meta_find(weights, key), "%s", key);
        }
        snprintf(key, sizeof key, "%s.expert_count", cases[i].arch);
        check(!weights_meta_find(weights, key) == !cases[i].is_moe, "%s", key);
        weights_close(weights);
    }
}

CASE(the_folder_gives_the_name) {
    const struct data_folder folder = data_folder_make();
    config_write(&folder, "LlamaForCausalLM", "");
    st_write_raw(&folder, "model.safetensors", "{}", NULL, 0);
    char path[128], expected[64];
    struct weights *weights;
    snprintf(expected, sizeof expected, "%s", folder.path);
    for (int i = 0; i < 3; i++) {
        static const char *const tails[] = {"", "/", "//."};
        rn_error err = {0};
        snprintf(path, sizeof path, "./%s%s", folder.path, tails[i]);
        check(model_weights_open(path, &weights, &err) == RN_OK, "%s", err.message);
        check_string(weights, "general.name", expected);
        assert_string_equal(weights_path(weights), path);
        weights_close(weights);
    }
    data_folder_remove(&folder);
}

CASE(model_type_stands_in_for_the_class) {
    const struct data_folder folder = data_folder_make();
    st_write_raw(&folder, "model.safetensors", "{}", NULL, 0);
    folder_text(&folder, "config.json",
                "{'model_type': 'qwen2', 'architectures': null, 'num_hidden_layers': 1, "
                "'max_position_embeddings': 9, 'hidden_size': 8, 'intermediate_size': 3, "
                "'num_attention_heads': 2, 'rms_norm_eps': 0.5}");
    struct weights *weights = folder_open(&folder);
    check_string(weights, "general.architecture", "qwen2");
    check_number(weights, "qwen2.attention.head_count_kv", 2);
    check_number(weights, "qwen2.attention.layer_norm_rms_epsilon", 0.5);
    check(!weights_meta_find(weights, "qwen2.attention.key_length"), "no head_dim was given");
    weights_close(weights);
    folder_text(&folder, "config.json", "{'model_type': 'bert'}");
    folder_refused(&folder, RN_ERR_UNSUPPORTED, "model_type bert is not supported");
    folder_text(&folder, "config.json", "{}");
    folder_refused(&folder, RN_ERR_MODEL, "has neither architectures nor model_type");
    data_folder_remove(&folder);
}

CASE(unknown_classes_are_named) {
    config_refused("MambaForCausalLM", "", RN_ERR_UNSUPPORTED,
                   "config.json: architecture MambaForCausalLM is not supported; 'runnel inspect "
                   "--architectures' lists the supported ones");
}

// --- rope ---

CASE(old_and_new_style_of_rope_agree) {
    static const char *const styles[] = {
        ", 'rope_theta': 12345.5, 'rope_scaling': null",
        ", 'rope_parameters': {'rope_theta': 12345.5, 'rope_type': 'default'}",
        ", 'rope_theta': 12345.5, 'rope_scaling': {'type': 'default'}",
    };
    for (int i = 0; i < 3; i++)
        config_gives("LlamaForCausalLM", styles[i], "llama",
                     "rope.freq_base 12345.5, rope.dimension_count 4, rope.scaling.type -");
    config_gives("LlamaForCausalLM", "", "llama", "rope.freq_base 10000");
    config_gives("LlamaForCausalLM",
                 ", 'rope_theta': 5e5, 'rope_scaling': {'type': 'linear', 'factor': 2.5}", "llama",
                 "rope.freq_base 5e5, rope.scaling.type linear, rope.scaling.factor 2.5");
}

CASE(yarn_keeps_its_parameters) {
    struct weights *weights =
        config_open("Qwen3ForCausalLM",
                    ", 'rope_scaling': {'rope_type': 'yarn', 'factor': 4.0, "
                    "'original_max_position_embeddings': 32, 'beta_fast': 30, 'beta_slow': 2, "
                    "'truncate': false, 'attention_factor': 1.5}");
    check_string(weights, "qwen3.rope.scaling.type", "yarn");
    check_number(weights, "qwen3.rope.scaling.factor", 4);
    check_number(weights, "qwen3.rope.scaling.original_context_length", 32);
    check_number(weights, "qwen3.rope.scaling.yarn_beta_fast", 30);
    check_number(weights, "qwen3.rope.scaling.yarn_beta_slow", 2);
    check_number(weights, "qwen3.rope.scaling.yarn_truncate", 0);
    // GGUF's factor comes on top of yarn's own magnitude, the config's is the whole.
    const double own = 0.1 * log(4.0) + 1;
    check_near(meta_number(weights, "qwen3.rope.scaling.attn_factor"), 1.5 / own, 1e-6);
    weights_close(weights);
    weights = config_open("Qwen3ForCausalLM", ", 'rope_scaling': {'rope_type': 'yarn', 'factor': "
                                              "4.0, 'mscale': 0.5, 'mscale_all_dim': 0.25}");
    check_number(weights, "qwen3.rope.scaling.original_context_length", 64); // the context's
    check_near(meta_number(weights, "qwen3.rope.scaling.attn_factor"),
               (0.05 * log(4.0) + 1) / (0.025 * log(4.0) + 1) / own, 1e-6);
    check(!weights_meta_find(weights, "qwen3.rope.scaling.yarn_truncate"), "not given");
    weights_close(weights);
    // transformers has no attn_factor; elsewhere it multiplies yarn's own magnitude
    weights = config_open("Qwen3ForCausalLM",
                          ", 'rope_scaling': {'rope_type': 'yarn', 'factor': 4.0, 'attn_factor': "
                          "1.0, 'extrapolation_factor': 1.0}");
    check(!weights_meta_find(weights, "qwen3.rope.scaling.attn_factor"), "yarn's own");
    weights_close(weights);
    config_refused("Qwen3ForCausalLM",
                   ", 'rope_scaling': {'rope_type': 'yarn', 'factor': 4.0, 'attn_factor': 2.0}",
                   RN_ERR_UNSUPPORTED, "attn_factor is 2.0, expected 1");
    config_refused(
        "Qwen3ForCausalLM",
        ", 'rope_scaling': {'rope_type': 'yarn', 'factor': 4.0, 'extrapolation_factor': 0.5}",
        RN_ERR_UNSUPPORTED, "extrapolation_factor is 0.5, expected 1");
}

CASE(llama3_scaling_becomes_a_tensor_of_divisors) {
    struct weights *weights =
        config_open("LlamaForCausalLM",
                    ", 'head_dim': 8, 'rope_theta': 10000.0, 'rope_scaling': {'rope_type': "
                    "'llama3', 'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0, "
                    "'original_max_position_embeddings': 128}");
    const struct tensor_view *tensor = weights_tensor_find(weights, "rope_freqs.weight");
    check(tensor && tensor->n_dims == 1 && tensor->dim[0] == 4, "shape");
    const float *divisor = tensor->data;
    // Wave lengths 2 pi 10^i: below 32 nothing changes, above 128 the factor is whole.
    assert_true(divisor[0] == 1 && divisor[2] == 8 && divisor[3] == 8);
    const double wave = 2 * 3.14159265358979 * 10, smooth = (128 / wave - 1) / 3;
    check_near((double)divisor[1], 1 / ((1 - smooth) / 8 + smooth), 1e-6);
    weights_close(weights);
}

CASE(longrope_becomes_two_tensors) {
    struct weights *weights =
        config_open("Phi3ForCausalLM",
                    ", 'original_max_position_embeddings': 16, 'rope_scaling': {'type': 'su', "
                    "'long_factor': [1.5, 2], 'short_factor': [1, 1.25]}");
    const float *factors = weights_tensor_find(weights, "rope_factors_long.weight")->data;
    assert_true(factors[0] == 1.5f && factors[1] == 2.0f);
    factors = weights_tensor_find(weights, "rope_factors_short.weight")->data;
    assert_true(factors[0] == 1.0f && factors[1] == 1.25f);
    check_number(weights, "phi3.rope.scaling.original_context_length", 16);
    check_near(meta_number(weights, "phi3.rope.scaling.attn_factor"),
               sqrt(1 + log(4.0) / log(16.0)), 1e-6);
    weights_close(weights);
    config_gives("Phi3ForCausalLM", ", 'partial_rotary_factor': 0.75, 'head_dim': 16", "phi3",
                 "rope.dimension_count 12");
    config_refused(
        "Phi3ForCausalLM",
        ", 'rope_scaling': {'type': 'longrope', 'long_factor': [1], 'short_factor': [1, 1]}",
        RN_ERR_MODEL, "long_factor is [1], expected an array of 2 positive numbers");
    config_refused("Phi3ForCausalLM",
                   ", 'rope_scaling': {'type': 'longrope', 'long_factor': [1, 1]}", RN_ERR_MODEL,
                   "short_factor is missing");
}

CASE(scaling_of_other_kinds_is_refused_by_name) {
    config_refused("LlamaForCausalLM", ", 'rope_scaling': {'type': 'dynamic', 'factor': 2.0}",
                   RN_ERR_UNSUPPORTED, "rope scaling: type \"dynamic\" is not supported for llama");
    config_refused("LlamaForCausalLM", ", 'rope_scaling': {'type': 'longrope'}", RN_ERR_UNSUPPORTED,
                   "\"longrope\" is not supported for llama");
    config_refused("LlamaForCausalLM", ", 'rope_scaling': {'type': 'yarn'}", RN_ERR_MODEL,
                   "rope scaling: factor is missing");
    config_refused("LlamaForCausalLM", ", 'rope_scaling': {'type': 4}", RN_ERR_MODEL,
                   "type is 4, expected a string");
    config_refused("LlamaForCausalLM", ", 'rope_scaling': [1]", RN_ERR_MODEL, "expected an object");
    config_refused("LlamaForCausalLM", ", 'partial_rotary_factor': 0.5", RN_ERR_UNSUPPORTED,
                   "partial_rotary_factor 0.5 is not supported for llama");
}

// --- windows ---

CASE(windows_are_those_of_transformers) {
    static const struct {
        const char *class_name, *more, *arch, *pattern; // NULL: no window; "": a window everywhere
    } cases[] = {
        {"LlamaForCausalLM", ", 'sliding_window': 9", "llama", NULL},
        {"MistralForCausalLM", ", 'sliding_window': 9", "llama", ""},
        {"MistralForCausalLM", ", 'sliding_window': null", "llama", NULL},
        {"MistralForCausalLM", "", "llama", ""},
        {"Mistral3ForConditionalGeneration", ", 'model_type': 'mistral3'", "mistral3", ""},
        {"Mistral3ForConditionalGeneration", ", 'model_type': 'mistral', 'sliding_window': 9",
         "mistral3", ""},
        {"Mistral3ForConditionalGeneration", ", 'model_type': 'mistral', 'sliding_window': null",
         "mistral3", NULL},
        {"Ministral3ForCausalLM",
         ", 'model_type': 'ministral3', 'rope_parameters': {'rope_type': 'yarn', 'factor': 2, "
         "'original_max_position_embeddings': 16, 'llama_4_scaling_beta': 0.1}",
         "mistral3", NULL},
        {"Phi3ForCausalLM", ", 'sliding_window': 9", "phi3", ""},
        {"Phi3ForCausalLM", "", "phi3", NULL},
        {"Gemma2ForCausalLM", ", 'sliding_window': 9", "gemma2", "10"},
        {"Gemma2ForCausalLM",
         ", 'sliding_window': 9, 'layer_types': ['full_attention', 'sliding_attention']", "gemma2",
         "01"},
        {"Gemma2ForCausalLM", "", "gemma2", NULL}, // GGUF's default is the class's
        {"Gemma3ForCausalLM", ", 'sliding_window': 9", "gemma3", ""},
        {"Gemma3ForCausalLM", ", 'sliding_window': 9, 'sliding_window_pattern': 2", "gemma3", "10"},
        {"Gemma3ForCausalLM", ", 'sliding_window': 9, '_sliding_window_pattern': 1", "gemma3",
         NULL},
        {"Qwen2ForCausalLM",
         ", 'sliding_window': 9, 'use_sliding_window': false, 'max_window_layers': 1", "qwen2",
         NULL},
        {"Qwen2ForCausalLM",
         ", 'sliding_window': 9, 'use_sliding_window': true, 'max_window_layers': 1", "qwen2",
         "01"},
        {"Qwen2ForCausalLM", ", 'sliding_window': 9, 'use_sliding_window': true", "qwen2", NULL},
        {"Qwen3ForCausalLM",
         ", 'sliding_window': 9, 'use_sliding_window': true, 'layer_types': ['sliding_attention', "
         "'sliding_attention']",
         "qwen3", "11"},
        {"Qwen3ForCausalLM",
         ", 'sliding_window': null, 'use_sliding_window': true, 'layer_types': ['full_attention', "
         "'full_attention']",
         "qwen3", NULL},
        {"GptOssForCausalLM",
         ", 'sliding_window': 9, 'num_local_experts': 4, 'num_experts_per_tok': 2", "gpt-oss",
         "10"},
        {"Starcoder2ForCausalLM", ", 'sliding_window': 9", "starcoder2", ""},
        {"Starcoder2ForCausalLM", "", "starcoder2", NULL},
        {"Olmo3ForCausalLM", ", 'sliding_window': 9", "olmo2", ""}, // of 4 layers the first 3
        {"Olmo3ForCausalLM", ", 'sliding_window': null", "olmo2", NULL},
        {"Exaone4ForCausalLM", ", 'sliding_window': 9, 'sliding_window_pattern': 2", "exaone4",
         "10"},
        {"Exaone4ForCausalLM", ", 'sliding_window': 9, 'sliding_window_pattern': 'GL'", "exaone4",
         "01"},
        {"Exaone4ForCausalLM", ", 'sliding_window': 9, 'sliding_window_pattern': 'L'", "exaone4",
         ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weights *weights = config_open(cases[i].class_name, cases[i].more);
        char window[64], pattern[80];
        snprintf(window, sizeof window, "%s.attention.sliding_window", cases[i].arch);
        snprintf(pattern, sizeof pattern, "%s_pattern", window);
        check(!weights_meta_find(weights, window) == !cases[i].pattern, "case %zu", i);
        const double size = strstr(cases[i].more, "sliding_window'") ? 9 : 4096; // the class's
        if (cases[i].pattern) check_number(weights, window, size);
        if (cases[i].pattern && cases[i].pattern[0]) {
            check_bools(weights, pattern, cases[i].pattern);
        } else {
            check(!weights_meta_find(weights, pattern), "case %zu", i);
        }
        weights_close(weights);
    }
    static const char *const none[] = {
        ", 'sliding_window': null",
        ", 'sliding_window': 9, 'layer_types': ['full_attention', 'full_attention']"};
    for (int i = 0; i < 2; i++) {
        config_gives("Gemma2ForCausalLM", none[i], "gemma2", "attention.sliding_window 0");
        config_gives("Exaone4ForCausalLM", none[i], "exaone4", "attention.sliding_window 0");
    }
    config_gives("Exaone4ForCausalLM", "", "exaone4", "attention.sliding_window 4096");
    config_gives("Glm4ForCausalLM", "", "glm4", "rope.dimension_count 64");
    config_gives("Cohere2ForCausalLM", "", "cohere2",
                 "attention.sliding_window 4096, logit_scale 0.0625");
    config_refused("Gemma2ForCausalLM", ", 'layer_types': ['full_attention']", RN_ERR_MODEL,
                   "layer_types has 1 items, num_hidden_layers is 2");
    config_refused("Gemma2ForCausalLM", ", 'layer_types': ['full_attention', 'linear_attention']",
                   RN_ERR_UNSUPPORTED, "layer_types: \"linear_attention\" is not supported");
    config_refused("Gemma2ForCausalLM", ", 'layer_types': ['full_attention', 1]", RN_ERR_MODEL,
                   "expected an array of strings");
    config_refused("Gemma2ForCausalLM", ", 'layer_types': ['full_attention', 'sliding_attention']",
                   RN_ERR_MODEL, "sliding_window is missing");
}

CASE(layers_without_rope_are_a_period) {
    static const char *const cases[][2] = {
        {"", "no_rope_layer_interval 4"},
        {", 'no_rope_layer_interval': 3", "no_rope_layer_interval 3"},
        {", 'no_rope_layers': [1, 0]", "no_rope_layer_interval 2"},
        {", 'no_rope_layers': [0, 0]", "no_rope_layer_interval 1"},
        {", 'no_rope_layers': [1, 1]", "no_rope_layer_interval 4"},
        // rope everywhere
        {", 'no_rope_layers': [1, 1], 'no_rope_layer_interval': 2", "no_rope_layer_interval 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        config_gives("SmolLM3ForCausalLM", cases[i][0], "smollm3", cases[i][1]);
    config_refused("SmolLM3ForCausalLM", ", 'no_rope_layers': [0, 1]", RN_ERR_UNSUPPORTED,
                   "no_rope_layers is [0, 1], expected a 0 at every n'th place alone");
    config_refused("SmolLM3ForCausalLM", ", 'no_rope_layers': [1]", RN_ERR_MODEL,
                   "one for each layer");
    config_refused("SmolLM3ForCausalLM", ", 'no_rope_layers': [1, 2]", RN_ERR_MODEL,
                   "an array of 0 and 1");
}

// --- what single classes have ---

CASE(gemma_has_scales_and_caps) {
    // The final cap is the class's default; null takes the other one away.
    config_gives("Gemma2ForCausalLM",
                 ", 'query_pre_attn_scalar': 256, 'head_dim': 16, 'attn_logit_softcapping': null",
                 "gemma2",
                 "attention.scale 0.0625, attention.key_length 16, final_logit_softcapping 30, "
                 "attn_logit_softcapping 0");
    config_gives("Gemma3ForConditionalGeneration",
                 ", 'vision_config': {}, 'text_config': {'hidden_size': 16, 'model_type': "
                 "'gemma3_text', 'rope_scaling': {'factor': 8.0, 'rope_type': 'linear'}, "
                 "'sliding_window': 4, 'num_attention_heads': null}",
                 "gemma3",
                 "embedding_length 16, attention.head_count 8, attention.head_count_kv 4, "
                 "attention.key_length 256, attention.scale 0.0625, rope.freq_base 1e6, "
                 "rope.freq_base_swa 1e4, rope.scaling.type linear, rope.scaling.factor 8");
    config_gives("Gemma3ForCausalLM",
                 ", 'rope_parameters': {'full_attention': {'rope_type': 'linear', 'factor': 2.0, "
                 "'rope_theta': 7e5}, 'sliding_attention': {'rope_type': 'default', "
                 "'rope_theta': 9e3}}",
                 "gemma3", "rope.freq_base 7e5, rope.freq_base_swa 9e3, rope.scaling.factor 2");
    config_refused("Gemma3ForCausalLM", ", 'use_bidirectional_attention': true", RN_ERR_UNSUPPORTED,
                   "use_bidirectional_attention is true, expected false");
    config_refused("Gemma3ForCausalLM", ", 'attn_logit_softcapping': 5.0", RN_ERR_UNSUPPORTED,
                   "attn_logit_softcapping is 5.0, expected null");
}

CASE(granite_has_multipliers) {
    config_gives("GraniteForCausalLM",
                 ", 'attention_multiplier': 0.25, 'embedding_multiplier': 12, 'logits_scaling': 8",
                 "granite",
                 "attention.scale 0.25, embedding_scale 12, residual_scale 1, logit_scale 8");
}

// --- Mamba-2 ---

CASE(limits_of_time_steps_may_be_infinite) {
    static const char *const cases[][2] = {
        {"", "ssm.time_step_low -, ssm.time_step_high -"},
        {", 'time_step_limit': null", "ssm.time_step_low -, ssm.time_step_high -"},
        {", 'time_step_limit': [0.0, Infinity]", "ssm.time_step_low -, ssm.time_step_high -"},
        {", 'time_step_limit': [0.5, {'__float__': 'Infinity'}]",
         "ssm.time_step_low 0.5, ssm.time_step_high -"},
        {", 'time_step_limit': [0, 0.25]", "ssm.time_step_low -, ssm.time_step_high 0.25"},
        {", 'unused': [NaN, {'a': -Infinity}]", "ssm.time_step_low -"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        config_gives("Mamba2ForCausalLM", cases[i][0], "mamba2", cases[i][1]);
    static const char *const wrong[] = {"[0]",      "[0, 1, 2]",       "[-1, 1]",
                                        "[0, NaN]", "[-Infinity, 1]",  "[0, {'__float__': 'NaN'}]",
                                        "[0, {}]",  "[0, 'Infinity']", "Infinity",
                                        "3"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char more[64];
        snprintf(more, sizeof more, ", 'time_step_limit': %s", wrong[i]);
        config_refused("Mamba2ForCausalLM", more, RN_ERR_MODEL, "expected 2 numbers from 0 to inf");
    }
    config_refused("Mamba2ForCausalLM", ", 'hidden_size': Infinity", RN_ERR_MODEL, "hidden_size");
    config_refused("Mamba2ForCausalLM", ", 'a': Infinityx", RN_ERR_MODEL, "expected ',' or '}'");
    config_refused("Mamba2ForCausalLM", ", 'a': Inf", RN_ERR_MODEL, "a number without digits");
}

CASE(mamba2_has_no_attention) {
    config_gives("Mamba2ForCausalLM",
                 ", 'num_heads': 4, 'head_dim': 4, 'state_size': 32, 'conv_kernel': 3", "mamba2",
                 "ssm.inner_size 16, ssm.time_step_rank 4, ssm.group_count 8, ssm.state_size 32, "
                 "ssm.conv_kernel 3, attention.head_count 0, feed_forward_length 0, "
                 "context_length 1048576, attention.key_length -");
}

CASE(nemotron_has_a_pattern_of_layers) {
    config_gives("NemotronHForCausalLM", ", 'hybrid_override_pattern': 'M*'", "nemotron_h",
                 "block_count 2, ssm.inner_size 8192, attention.key_length 128");
    const struct data_folder folder =
        text_folder("{'architectures': ['NemotronHForCausalLM'], 'hidden_size': 8, "
                    "'num_attention_heads': 2, 'intermediate_size': 6, "
                    "'layers_block_type': ['mamba', 'mlp', 'attention']}");
    struct weights *weights = folder_open(&folder); // the list alone says how many layers there are
    check_number(weights, "nemotron_h.block_count", 3);
    weights_close(weights);
    data_folder_remove(&folder);
    static const char experts[] = ", 'n_routed_experts': 4, 'num_experts_per_tok': 2, "
                                  "'moe_intermediate_size': 5, 'routed_scaling_factor': 2.5, "
                                  "'moe_shared_expert_intermediate_size': 7";
    char more[400];
    snprintf(more, sizeof more, "%s, 'hybrid_override_pattern': 'ME'", experts);
    config_gives("NemotronHForCausalLM", more, "nemotron_h_moe",
                 "expert_count 4, expert_weights_scale 2.5, expert_weights_norm 1, "
                 "expert_shared_feed_forward_length 7, expert_feed_forward_length 5");
    snprintf(more, sizeof more, "%s, 'layers_block_type': ['moe', 'mamba']", experts);
    config_gives("NemotronHForCausalLM", more, "nemotron_h_moe", "block_count 2");
    snprintf(more, sizeof more, "%s, 'hybrid_override_pattern': 'E-'", experts);
    config_refused("NemotronHForCausalLM", more, RN_ERR_UNSUPPORTED,
                   "layer 1 has another kind of feed-forward");
    snprintf(more, sizeof more, "%s, 'hybrid_override_pattern': 'ME', 'moe_latent_size': 4",
             experts);
    config_refused("NemotronHForCausalLM", more, RN_ERR_UNSUPPORTED, "moe_latent_size is 4");
    static const struct {
        const char *more;
        rn_status status;
        const char *message;
    } wrong[] = {
        {"", RN_ERR_MODEL, "neither hybrid_override_pattern nor layers_block_type is there"},
        {", 'hybrid_override_pattern': 'M'", RN_ERR_MODEL, "has 1 letters, expected 2"},
        {", 'hybrid_override_pattern': 'Mx'", RN_ERR_UNSUPPORTED, "expected letters of M*-E"},
        {", 'hybrid_override_pattern': 1", RN_ERR_MODEL, "hybrid_override_pattern has"},
        {", 'hybrid_override_pattern': [1,2]", RN_ERR_MODEL, "hybrid_override_pattern has"},
        {", 'layers_block_type': ['mamba']", RN_ERR_MODEL, "layers_block_type has 1 items"},
        {", 'layers_block_type': ['mamba', 'gru']", RN_ERR_UNSUPPORTED, "\"gru\""},
        {", 'layers_block_type': 3", RN_ERR_MODEL, "expected an array"},
        {", 'hybrid_override_pattern': 'M*', 'sliding_window': 64", RN_ERR_UNSUPPORTED,
         "sliding_window is 64, expected null"},
        {", 'hybrid_override_pattern': 'M*', 'mlp_hidden_act': 'silu'", RN_ERR_UNSUPPORTED,
         "expected relu2"},
        {", 'hybrid_override_pattern': 'M*', 'mamba_hidden_act': 'relu'", RN_ERR_UNSUPPORTED,
         "mamba_hidden_act is \"relu\", expected silu"},
        {", 'hybrid_override_pattern': 'ME'", RN_ERR_MODEL, "n_routed_experts is missing"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        config_refused("NemotronHForCausalLM", wrong[i].more, wrong[i].status, wrong[i].message);
}

CASE(granite_hybrids_are_rotated_where_they_say_so) {
    config_gives("GraniteMoeHybridForCausalLM",
                 ", 'num_local_experts': 0, 'num_experts_per_tok': 0, 'shared_intermediate_size': "
                 "9, 'mamba_n_heads': 4, 'mamba_d_head': 'auto', 'position_embedding_type': 'nope'",
                 "granitehybrid",
                 "rope.scaling.finetuned 0, feed_forward_length 9, ssm.inner_size 16, "
                 "expert_count 0");
    config_gives("GraniteMoeHybridForCausalLM",
                 ", 'position_embedding_type': 'rope', 'mamba_n_heads': 4, 'mamba_d_head': 8",
                 "granitehybrid",
                 "rope.scaling.finetuned 1, rope.halves 1, feed_forward_length 6, "
                 "ssm.inner_size 32, expert_count 8");
    config_refused("GraniteMoeHybridForCausalLM", ", 'layer_types': ['mamba', 'sliding']",
                   RN_ERR_UNSUPPORTED, "layer_types: \"sliding\" is not supported");
}

CASE(falcon_has_multipliers) {
    config_gives("FalconH1ForCausalLM",
                 ", 'attention_in_multiplier': 2, 'attention_out_multiplier': 0.5, "
                 "'key_multiplier': 0.5, 'ssm_in_multiplier': 4, 'ssm_out_multiplier': 3, "
                 "'ssm_multipliers': [0.5, 1, 1, 1, 2], 'mlp_multipliers': [0.25, 8], "
                 "'embedding_multiplier': 5, 'lm_head_multiplier': 0.125, 'head_dim': 4",
                 "falcon-h1",
                 "attention.scale 1, attention.output_scale 1, ssm.gate_scale 2, "
                 "ssm.time_step_scale 8, ssm.output_scale 3, feed_forward_gate_scale 0.25, "
                 "feed_forward_output_scale 8, embedding_scale 5, logit_scale 0.125");
    static const char *const wrong[][2] = {
        {"'ssm_multipliers': [1, 1, 1, 1]", "expected 5 numbers"},
        {"'mlp_multipliers': [1, 0]", "expected 2 numbers"},
        {"'key_multiplier': 0", "key_multiplier is 0"},
        {"'attention_bias': true", "attention_bias is true, expected false"},
        {"'mamba_proj_bias': true", "mamba_proj_bias is true, expected false"},
        {"'mamba_rms_norm': true", "mamba_norm_before_gate is missing, expected false"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char more[128];
        snprintf(more, sizeof more, ", %s", wrong[i][0]);
        config_refused("FalconH1ForCausalLM", more, i < 3 ? RN_ERR_MODEL : RN_ERR_UNSUPPORTED,
                       wrong[i][1]);
    }
}

CASE(experts_are_counted) {
    config_gives("MixtralForCausalLM", moe, "llama",
                 "expert_count 4, expert_used_count 2, expert_feed_forward_length -");
    config_gives("Qwen3MoeForCausalLM",
                 ", 'num_experts': 4, 'num_experts_per_tok': 2, 'moe_intermediate_size': 5, "
                 "'norm_topk_prob': true, 'decoder_sparse_step': 1, 'mlp_only_layers': []",
                 "qwen3moe",
                 "expert_count 4, expert_feed_forward_length 5, feed_forward_length 6, "
                 "expert_weights_norm 1");
    config_gives("GptOssForCausalLM", moe, "gpt-oss", "expert_feed_forward_length 6");
    config_refused("MixtralForCausalLM", "", RN_ERR_MODEL, "num_local_experts is missing");
    config_refused("MixtralForCausalLM", ", 'num_local_experts': 4, 'num_experts_per_tok': 5",
                   RN_ERR_MODEL, "num_experts_per_tok is 5, there are 4 experts");
    char more[256];
    snprintf(more, sizeof more, "%s, 'mlp_only_layers': [1]", moe);
    config_refused("Qwen3MoeForCausalLM", more, RN_ERR_UNSUPPORTED,
                   "mlp_only_layers is [1], expected []");
}

CASE(activations_are_checked) {
    static const struct {
        const char *class_name, *more, *message; // NULL: taken
    } cases[] = {
        {"LlamaForCausalLM", ", 'hidden_act': 'silu'", NULL},
        {"LlamaForCausalLM", ", 'hidden_act': 'relu'", "hidden_act is \"relu\", expected silu"},
        {"LlamaForCausalLM", ", 'hidden_act': 3", "hidden_act is 3, expected a string"},
        {"GemmaForCausalLM", ", 'hidden_act': 'gelu', 'hidden_activation': null", NULL},
        {"GemmaForCausalLM", ", 'hidden_activation': 'gelu_pytorch_tanh'", NULL},
        {"GemmaForCausalLM", ", 'hidden_activation': 'silu'", "expected the tanh form of gelu"},
        {"GPT2LMHeadModel", ", 'activation_function': 'gelu_new'", NULL},
        {"GPT2LMHeadModel", ", 'activation_function': 'gelu'",
         "activation_function is \"gelu\", expected the tanh form of gelu"},
        {"GPT2LMHeadModel", ", 'scale_attn_by_inverse_layer_idx': true", "expected false"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bool is_type = cases[i].message && strstr(cases[i].message, "a string");
        if (cases[i].message) {
            config_refused(cases[i].class_name, cases[i].more,
                           is_type ? RN_ERR_MODEL : RN_ERR_UNSUPPORTED, cases[i].message);
        } else {
            weights_close(config_open(cases[i].class_name, cases[i].more));
        }
    }
}

CASE(gpt2_has_its_own_names) {
    config_gives("GPT2LMHeadModel", ", 'n_inner': null", "gpt2",
                 "embedding_length 4, attention.head_count 2, feed_forward_length 16, "
                 "attention.layer_norm_epsilon 1e-5, rope.freq_base -");
    config_gives("GPT2LMHeadModel", ", 'n_inner': 7", "gpt2", "feed_forward_length 7");
}

CASE(quantized_folders_are_refused_by_method) {
    config_refused("LlamaForCausalLM", ", 'quantization_config': {'quant_method': 'hqq'}",
                   RN_ERR_UNSUPPORTED, "quant_method hqq is not supported");
    config_refused("LlamaForCausalLM", ", 'quantization_config': {}", RN_ERR_UNSUPPORTED,
                   "quant_method (none) is not supported");
    char more[256];
    snprintf(more, sizeof more, "%s, 'quantization_config': {'quant_method': 'mxfp4'}", moe);
    weights_close(config_open("GptOssForCausalLM", more));
}

CASE(configs_of_models_of_embeddings_are_refused) {
    config_refused("Qwen2ForCausalLM", ", 'is_causal': false", RN_ERR_UNSUPPORTED,
                   "is_causal is false, expected true");
    weights_close(config_open("Qwen2ForCausalLM", ", 'is_causal': true"));
}

// --- bad configs ---

CASE(bad_json_is_refused_with_its_offset) {
    text_refused("{'architectures': ", RN_ERR_MODEL, "config.json: offset 18: ");
    text_refused("[1]", RN_ERR_MODEL, "config.json: offset 0: expected an object");
    text_refused("{'model_type': 'llama'} {}", RN_ERR_MODEL,
                 "config.json: offset 24: text behind the value");
    text_refused("{'a': '\xff'}", RN_ERR_MODEL, "config.json: offset 7: ");
    text_refused("{'model_type': 'llama', 'model_type': 'llama'}", RN_ERR_MODEL,
                 "config.json: offset 38: model_type is there twice");
    text_refused("{'architectures': 'LlamaForCausalLM'}", RN_ERR_MODEL,
                 "architectures is \"LlamaForCausalLM\", expected an array of strings");
    text_refused("{'architectures': [5]}", RN_ERR_MODEL, "expected an array of strings");
    char deep[4096];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{'a':", 5);
    deep[sizeof deep - 1] = 0;
    text_refused(deep, RN_ERR_MODEL, "nested too deeply");
    for (size_t i = 5; i + 6 < sizeof deep; i += 5) memcpy(deep + i, "{'a':", 5);
    text_refused(deep, RN_ERR_MODEL, "nested too deeply");
}

CASE(numbers_out_of_range_are_refused_by_value) {
    static const char *const values[] = {"-1",
                                         "0",
                                         "1e300",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "18446744073709551616",
                                         "1.5",
                                         "\"8\"",
                                         "[8]",
                                         "{}",
                                         "true",
                                         "1e999"};
    static const char *const keys[] = {"num_hidden_layers", "max_position_embeddings",
                                       "hidden_size", "intermediate_size", "num_attention_heads"};
    const struct data_folder folder = data_folder_make();
    st_write_raw(&folder, "model.safetensors", "{}", NULL, 0);
    for (size_t k = 0; k < 5; k++) {
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            char text[1024], message[128];
            size_t len =
                (size_t)snprintf(text, sizeof text,
                                 "{'architectures': ['LlamaForCausalLM'], 'rms_norm_eps': 1e-5");
            for (size_t i = 0; i < 5; i++)
                len += (size_t)snprintf(text + len, sizeof text - len, ", '%s': %s", keys[i],
                                        i == k ? values[v] : "8");
            snprintf(text + len, sizeof text - len, "}");
            folder_text(&folder, "config.json", text);
            snprintf(message, sizeof message, "%s is %s, expected an integer from 1 to ", keys[k],
                     values[v]);
            folder_refused(&folder, RN_ERR_MODEL, message);
        }
    }
    data_folder_remove(&folder);
    config_refused("LlamaForCausalLM", ", 'rope_theta': 1e300", RN_ERR_MODEL,
                   "rope_theta is 1e300, expected a number from 1 to 1e+15");
    config_refused("LlamaForCausalLM", ", 'rope_theta': -1", RN_ERR_MODEL, "rope_theta is -1");
    config_refused("LlamaForCausalLM", ", 'head_dim': 3", RN_ERR_MODEL,
                   "3 of a head's 3 elements are rotated, expected an even number");
    config_refused("LlamaForCausalLM", ", 'head_dim': 1000000", RN_ERR_MODEL,
                   "head_dim is 1000000, expected an integer from 1 to 65536");
    config_refused("LlamaForCausalLM", ", 'num_key_value_heads': -2", RN_ERR_MODEL,
                   "num_key_value_heads is -2");
    config_refused("LlamaForCausalLM", ", 'tie_word_embeddings': 1", RN_ERR_MODEL,
                   "tie_word_embeddings is 1, expected true or false");
}

CASE(missing_configs_are_named) {
    const struct data_folder folder = data_folder_make();
    folder_refused(&folder, RN_ERR_MODEL, "config.json: is missing");
    char path[256];
    snprintf(path, sizeof path, "%s/config.json", folder.path);
    assert_int_equal(mkdir(path, 0700), 0);
    folder_refused(&folder, RN_ERR_IO, "config.json: is a directory");
    rmdir(path);
    folder_text(&folder, "config.json", "");
    folder_refused(&folder, RN_ERR_MODEL, "config.json: is empty");
    data_folder_remove(&folder);
}

// --- beside the config ---

CASE(sampling_defaults_come_from_generation_config) {
    const struct data_folder folder = data_folder_make();
    config_write(&folder, "LlamaForCausalLM", "");
    st_write_raw(&folder, "model.safetensors", "{}", NULL, 0);
    folder_text(&folder, "generation_config.json",
                "{'do_sample': false, 'temperature': 0.5, 'top_p': 0.25, 'top_k': 20, 'min_p': "
                "0.125, 'repetition_penalty': 1.5}");
    struct weights *weights = folder_open(&folder);
    check_number(weights, "general.sampling.temp", 0.5);
    check_number(weights, "general.sampling.top_p", 0.25);
    check_number(weights, "general.sampling.top_k", 20);
    check_number(weights, "general.sampling.min_p", 0.125);
    check_number(weights, "general.sampling.penalty_repeat", 1.5);
    weights_close(weights);
    // Advice that makes no sense is not followed.
    folder_text(&folder, "generation_config.json",
                "{'temperature': -1, 'top_p': 'x', 'top_k': 1e300, 'min_p': null, "
                "'repetition_penalty': [2]}");
    weights = folder_open(&folder);
    check(!weights_meta_find(weights, "general.sampling.temp"), "temp");
    check(!weights_meta_find(weights, "general.sampling.top_p"), "top_p");
    check(!weights_meta_find(weights, "general.sampling.top_k"), "top_k");
    check(!weights_meta_find(weights, "general.sampling.min_p"), "min_p");
    check(!weights_meta_find(weights, "general.sampling.penalty_repeat"), "penalty");
    weights_close(weights);
    folder_text(&folder, "generation_config.json", "{'temperature': }");
    folder_refused(&folder, RN_ERR_MODEL, "generation_config.json: offset 16: ");
    data_folder_remove(&folder);
}

CASE(a_vocabulary_needs_no_config) {
    const struct data_folder folder = data_folder_make();
    struct weights *weights;
    rn_error err = {0};
    check(model_weights_open_vocab(folder.path, &weights, &err) == RN_OK, "%s", err.message);
    assert_string_equal(weights_folder(weights), folder.path);
    assert_int_equal(weights_tensor_count(weights), 0);
    assert_int_equal(weights_file_count(weights), 0);
    check_string(weights, "general.name", folder.path);
    weights_close(weights);
    folder_text(&folder, "config.json", "{'architectures': ['NobodyForCausalLM']}");
    check(model_weights_open_vocab(folder.path, &weights, &err) == RN_OK, "%s", err.message);
    check(!weights_meta_find(weights, "general.architecture"), "unknown");
    weights_close(weights);
    folder_text(&folder, "config.json", "{'architectures': ['Qwen2ForCausalLM']}");
    check(model_weights_open_vocab(folder.path, &weights, &err) == RN_OK, "%s", err.message);
    check_string(weights, "general.architecture", "qwen2");
    weights_close(weights);
    folder_text(&folder, "config.json", "{");
    assert_int_equal(model_weights_open_vocab(folder.path, &weights, &err), RN_ERR_MODEL);
    data_folder_remove(&folder);
}

TEST_PROGRAM(hf_config) { return cases_run(NULL, NULL); }

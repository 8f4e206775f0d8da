// A folder's tensors under GGUF's names: views, parts, and the copies in another layout, element by
// element; and how tensors that do not fit are refused, by name.
// label: memory
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "folder.h"
#include "tensor_bytes.h"

enum { EMBD = 8, FF = 6, EXPERTS = 3 }; // hidden_size and intermediate_size of config_write

static const char *const experts =
    ", 'num_local_experts': 3, 'num_experts_per_tok': 2, 'moe_intermediate_size': 6";

// A folder of this class whose files come from the image, which is emptied.
static struct data_folder create(const char *class_name, const char *more, struct st_image *image) {
    const struct data_folder folder = data_folder_make();
    config_write(&folder, class_name, more);
    st_write(&folder, "model.safetensors", image);
    memset(image, 0, sizeof *image);
    return folder;
}

static struct weights *open_image(const char *class_name, const char *more,
                                  struct st_image *image) {
    const struct data_folder folder = create(class_name, more, image);
    struct weights *weights = folder_open(&folder);
    data_folder_remove(&folder);
    return weights;
}

static void refused(const char *class_name, const char *more, struct st_image *image,
                    rn_status status, const char *message) {
    const struct data_folder folder = create(class_name, more, image);
    folder_refused(&folder, status, message);
    data_folder_remove(&folder);
}

// Adds a tensor of `count` elements that are first, first + 1 and on.
static void add(struct st_image *image, const char *name, const char *dtype, const char *shape,
                int count, float first) {
    float f32[1024];
    uint16_t f16[1024];
    check(count <= 1024, "%s", name);
    const bool is_bf16 = strcmp(dtype, "BF16") == 0, is_f16 = strcmp(dtype, "F16") == 0;
    for (int i = 0; i < count; i++) {
        f32[i] = first + (float)i;
        f16[i] = is_bf16 ? f32_to_bf16(f32[i]) : f32_to_f16(f32[i]);
    }
    const bool is_short = is_bf16 || is_f16;
    st_entry(image, name, dtype, shape, is_short ? (const void *)f16 : f32,
             (size_t)count * (is_short ? 2 : 4));
}

// The tensor, which must have this shape, as floats; dims below 1 are not there.
static void get(const struct weights *weights, const char *name, int64_t d0, int64_t d1, int64_t d2,
                float *out) {
    const struct tensor_view *tensor = weights_tensor_find(weights, name);
    check(tensor, "%s is missing", name);
    const int64_t want[] = {d0, d1 ? d1 : 1, d2 ? d2 : 1, 1};
    check(memcmp(tensor->dim, want, sizeof want) == 0, "%s: shape %d %d %d", name,
          (int)tensor->dim[0], (int)tensor->dim[1], (int)tensor->dim[2]);
    check(tensor->n_dims == 1 + (d1 > 0) + (d2 > 0), "%s: %d dimensions", name, tensor->n_dims);
    check(!tensor->data == !!tensor->parts, "%s: data or parts", name);
    const int64_t rows = want[1];
    const uint64_t row_bytes = format_row_bytes(tensor->format, d0);
    check(tensor->bytes == row_bytes * (uint64_t)(rows * want[2]), "%s: bytes", name);
    for (int64_t s = 0; s < want[2]; s++) {
        const uint64_t bytes = (uint64_t)rows * row_bytes;
        const uint8_t *slice =
            bytes_brought(weights,
                          tensor->parts ? tensor->parts[s]
                                        : (const uint8_t *)tensor->data + (uint64_t)s * bytes,
                          bytes);
        for (int64_t r = 0; r < rows; r++)
            format_decode(tensor->format, slice + (uint64_t)r * row_bytes,
                          out + (s * rows + r) * d0, d0);
    }
}

static struct st_image image; // large; emptied by create

CASE(gemma_norms_have_one_added) {
    static const char *const classes[] = {"GemmaForCausalLM", "Gemma2ForCausalLM",
                                          "Gemma3ForCausalLM"};
    static const char *const dtypes[] = {"F32", "F16", "BF16"};
    float out[EMBD];
    for (int i = 0; i < 3; i++) {
        add(&image, "model.norm.weight", dtypes[i], "8", EMBD, 3);
        add(&image, "model.layers.1.input_layernorm.weight", dtypes[i], "8", EMBD, -2);
        struct weights *weights = open_image(classes[i], "", &image);
        get(weights, "output_norm.weight", EMBD, 0, 0, out);
        for (int k = 0; k < EMBD; k++) assert_true(out[k] == (float)(k + 4));
        get(weights, "blk.1.attn_norm.weight", EMBD, 0, 0, out);
        for (int k = 0; k < EMBD; k++) assert_true(out[k] == (float)(k - 1));
        const struct tensor_view *tensor = weights_tensor_find(weights, "blk.1.attn_norm.weight");
        assert_int_equal(tensor->format, FORMAT_F32);
        assert_int_equal(tensor->offset, 0);
        weights_close(weights);
    }
    add(&image, "model.norm.weight", "BF16", "8", EMBD, 3);
    struct weights *weights = open_image("LlamaForCausalLM", "", &image);
    get(weights, "output_norm.weight", EMBD, 0, 0, out);
    assert_true(out[0] == 3); // and of nobody else
    assert_int_equal(weights_tensor_find(weights, "output_norm.weight")->format, FORMAT_BF16);
    weights_close(weights);
}

CASE(names_of_norms_differ_by_class) {
    static const struct {
        const char *class_name, *post_attention;
    } cases[] = {{"LlamaForCausalLM", "blk.0.ffn_norm.weight"},
                 {"GemmaForCausalLM", "blk.0.ffn_norm.weight"},
                 {"Qwen3ForCausalLM", "blk.0.ffn_norm.weight"},
                 {"Gemma2ForCausalLM", "blk.0.post_attention_norm.weight"},
                 {"Olmo2ForCausalLM", "blk.0.post_attention_norm.weight"},
                 {"GptOssForCausalLM", "blk.0.post_attention_norm.weight"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        add(&image, "model.layers.0.post_attention_layernorm.weight", "F32", "8", EMBD, 0);
        struct weights *weights = open_image(cases[i].class_name, experts, &image);
        check(weights_tensor_find(weights, cases[i].post_attention), "%s", cases[i].class_name);
        weights_close(weights);
    }
}

CASE(prefixes_of_image_models_are_taken_off) {
    static const char *const prefixes[] = {"model.", "language_model.model.",
                                           "model.language_model.", ""};
    for (int i = 0; i < 4; i++) {
        char name[128];
        snprintf(name, sizeof name, "%slayers.1.self_attn.q_proj.weight", prefixes[i]);
        add(&image, name, "F32", "2,8", 16, 5);
        add(&image, "vision_tower.x.weight", "F32", "2,8", 16, 0);
        add(&image, "model.multi_modal_projector.y", "F32", "2,8", 16, 0);
        struct weights *weights = open_image("Gemma3ForConditionalGeneration", "", &image);
        float out[16];
        get(weights, "blk.1.attn_q.weight", 8, 2, 0, out);
        assert_true(out[15] == 20);
        assert_int_equal(weights_tensor_count(weights), 1);
        weights_close(weights);
    }
    add(&image, "vision_tower.x.weight", "F32", "2,8", 16, 0);
    refused("LlamaForCausalLM", "", &image, RN_ERR_UNSUPPORTED,
            "model.safetensors: tensor vision_tower.x.weight: no tensor of this name is known for "
            "llama");
}

// Tensors of layers have their GGUF names; towers are counted.
CASE(towers_of_gemma_4_are_left_out) {
    static const char *const towers[] = {"model.vision_tower.a", "model.audio_tower.b",
                                         "model.embed_vision.c", "model.embed_audio.d",
                                         "model.vision_embedder.e"};
    for (int i = 0; i < 5; i++) add(&image, towers[i], "F32", "2,8", 16, 0);
    add(&image, "model.language_model.layers.1.layer_scalar", "F32", "1", 1, 3);
    add(&image, "model.language_model.embed_tokens_per_layer.weight", "F32", "5,8", 40, 2);
    struct weights *weights = open_image(
        "Gemma4ForConditionalGeneration",
        ", 'rope_parameters': {'full_attention': {'rope_type': 'proportional'}}, 'layer_types': "
        "['sliding_attention', 'full_attention'], 'hidden_size_per_layer_input': 4",
        &image);
    assert_non_null(weights_tensor_find(weights, "blk.1.layer_output_scale.weight"));
    assert_non_null(weights_tensor_find(weights, "per_layer_token_embd.weight"));
    assert_int_equal(weights_tensor_count(weights), 3); // with rope_freqs
    weights_close(weights);
}

CASE(a_tied_head_is_left_out) {
    for (int tied = 0; tied < 2; tied++) {
        add(&image, "lm_head.weight", "F32", "5,8", 40, 0);
        add(&image, "model.embed_tokens.weight", "F32", "5,8", 40, 1);
        struct weights *weights =
            open_image("LlamaForCausalLM",
                       tied ? ", 'tie_word_embeddings': true" : ", 'tie_word_embeddings': false",
                       &image);
        check((weights_tensor_find(weights, "output.weight") == NULL) == tied, "tied %d", tied);
        check_number(weights, "llama.vocab_size", 5);
        weights_close(weights);
    }
}

// With a dimension and without.
CASE(numbers_are_tensors_of_one) {
    static const char *const shapes[] = {"1", "", "1,1"}, *const dtypes[] = {"F32", "BF16", "F16"};
    const char *more = ", 'rope_scaling': {'type': 'default'}, 'hidden_act': 'xielu'";
    float out[1];
    for (int i = 0; i < 3; i++) {
        add(&image, "model.layers.1.mlp.act_fn.alpha_p", dtypes[i], shapes[i], 1, 3);
        struct weights *weights = open_image("ApertusForCausalLM", more, &image);
        get(weights, "blk.1.xielu_alpha_p.weight", 1, 0, 0, out);
        assert_true(out[0] == 3);
        weights_close(weights);
    }
    add(&image, "model.layers.1.mlp.act_fn.eps", "F32", "2", 2, 0);
    refused("ApertusForCausalLM", more, &image, RN_ERR_MODEL, "8 bytes, expected one number");
    add(&image, "model.layers.1.mlp.act_fn.beta", "I32", "1", 1, 0);
    refused("ApertusForCausalLM", more, &image, RN_ERR_UNSUPPORTED, "dtype I32 is not supported");
}

CASE(conv1d_is_transposed) {
    static const char *const dtypes[] = {"F32", "F16"};
    static const char *const prefixes[] = {"transformer.", ""};
    enum { IN = 4, OUT = 12 };
    float out[IN * OUT];
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "%sh.1.attn.c_attn.weight", prefixes[i]);
        add(&image, name, dtypes[i], "4,12", IN * OUT, 0);
        snprintf(name, sizeof name, "%sh.1.attn.bias", prefixes[i]);
        add(&image, name, "F32", "1,1,2,2", 4, 0); // a mask
        struct weights *weights = open_image("GPT2LMHeadModel", "", &image);
        get(weights, "blk.1.attn_qkv.weight", IN, OUT, 0, out);
        for (int r = 0; r < OUT; r++)
            for (int c = 0; c < IN; c++) assert_true(out[r * IN + c] == (float)(c * OUT + r));
        assert_int_equal(weights_tensor_count(weights), 1);
        weights_close(weights);
    }
}

CASE(experts_become_one_tensor_of_parts) {
    static const struct {
        const char *class_name, *before, *behind, *name;
    } cases[] = {
        {"MixtralForCausalLM", "model.layers.1.block_sparse_moe.experts.", ".w1.weight",
         "blk.1.ffn_gate_exps.weight"},
        {"MixtralForCausalLM", "model.layers.1.block_sparse_moe.experts.", ".w3.weight",
         "blk.1.ffn_up_exps.weight"},
        {"Qwen3MoeForCausalLM", "model.layers.1.mlp.experts.", ".gate_proj.weight",
         "blk.1.ffn_gate_exps.weight"},
        {"Qwen3MoeForCausalLM", "model.layers.1.mlp.experts.", ".up_proj.weight",
         "blk.1.ffn_up_exps.weight"},
    };
    float out[EXPERTS * FF * EMBD];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int e = EXPERTS - 1; e >= 0; e--) { // in any order
            char name[128];
            snprintf(name, sizeof name, "%s%d%s", cases[i].before, e, cases[i].behind);
            add(&image, name, "BF16", "6,8", FF * EMBD, (float)(e * FF * EMBD));
        }
        struct weights *weights = open_image(cases[i].class_name, experts, &image);
        get(weights, cases[i].name, EMBD, FF, EXPERTS, out);
        for (int k = 0; k < EXPERTS * FF * EMBD; k++) assert_true(out[k] == (float)k);
        check(weights_tensor_find(weights, cases[i].name)->parts, "no copy");
        weights_close(weights);
    }
}

CASE(experts_that_do_not_fit_are_refused) {
    const char *first = "model.layers.0.mlp.experts.0.up_proj.weight";
    const char *second = "model.layers.0.mlp.experts.1.up_proj.weight";
    add(&image, first, "F32", "6,8", FF * EMBD, 0);
    refused("Qwen3MoeForCausalLM", experts, &image, RN_ERR_MODEL,
            "the files have too few tensors for 3 experts");
    add(&image, first, "F32", "6,8", FF * EMBD, 0);
    add(&image, second, "F32", "6,8", FF * EMBD, 0);
    add(&image, "model.norm.weight", "F32", "8", 8, 0);
    refused("Qwen3MoeForCausalLM", experts, &image, RN_ERR_MODEL,
            "tensor blk.0.ffn_up_exps.weight: expert 2 is missing");
    add(&image, first, "F32", "6,8", FF * EMBD, 0);
    add(&image, second, "F32", "8,6", FF * EMBD, 0);
    add(&image, "model.norm.weight", "F32", "8", 8, 0);
    refused("Qwen3MoeForCausalLM", experts, &image, RN_ERR_MODEL,
            "experts.1.up_proj.weight: F32 [8, 6], other experts have F32 [6, 8]");
    add(&image, first, "F32", "6,8", FF * EMBD, 0);
    add(&image, second, "F16", "6,8", FF * EMBD, 0);
    add(&image, "model.norm.weight", "F32", "8", 8, 0);
    refused("Qwen3MoeForCausalLM", experts, &image, RN_ERR_MODEL, "F16 [6, 8], other experts");
    add(&image, "model.layers.0.mlp.experts.3.up_proj.weight", "F32", "6,8", FF * EMBD, 0);
    refused("Qwen3MoeForCausalLM", experts, &image, RN_ERR_MODEL, "expert 3, the config has 3");
    add(&image, first, "F32", "6,8", FF * EMBD, 0);
    add(&image, first + strlen("model."), "F32", "6,8", FF * EMBD, 0);
    add(&image, "model.norm.weight", "F32", "8", 8, 0);
    refused("Qwen3MoeForCausalLM", experts, &image, RN_ERR_MODEL, "expert 0 is there twice");
}

CASE(fused_experts_are_views) {
    float out[EXPERTS * 2 * FF * EMBD];
    add(&image, "model.layers.0.mlp.experts.gate_up_proj", "F32", "3,12,8", EXPERTS * 2 * FF * EMBD,
        0);
    add(&image, "model.layers.0.mlp.experts.down_proj", "F32", "3,8,6", EXPERTS * FF * EMBD, 7);
    struct weights *weights = open_image("Qwen3MoeForCausalLM", experts, &image);
    for (int up = 0; up < 2; up++) {
        get(weights, up ? "blk.0.ffn_up_exps.weight" : "blk.0.ffn_gate_exps.weight", EMBD, FF,
            EXPERTS, out);
        for (int e = 0; e < EXPERTS; e++)
            for (int k = 0; k < FF * EMBD; k++)
                assert_true(out[e * FF * EMBD + k] == (float)((2 * e + up) * FF * EMBD + k));
    }
    get(weights, "blk.0.ffn_down_exps.weight", FF, EMBD, EXPERTS, out);
    for (int k = 0; k < EXPERTS * FF * EMBD; k++) assert_true(out[k] == (float)(k + 7));
    weights_close(weights);
    // The other order of the axes is not guessed at.
    add(&image, "model.layers.0.mlp.experts.gate_up_proj", "F32", "3,8,12", EXPERTS * 2 * FF * EMBD,
        0);
    refused("Qwen3MoeForCausalLM", experts, &image, RN_ERR_MODEL,
            "gate_up_proj: shape [3, 8, 12], expected [3, 12, 8]");
    add(&image, "model.layers.0.mlp.experts.down_proj", "F32", "3,8,8", EXPERTS * 64, 0);
    refused("Qwen3MoeForCausalLM",
            ", 'num_experts': 3, 'num_experts_per_tok': 2, 'moe_intermediate_size': 8", &image,
            RN_ERR_UNSUPPORTED, "the two axes are of one length");
}

// Published folders of Qwen3-VL with experts: inputs first, the gate's columns before those of up.
CASE(experts_with_their_inputs_first_are_transposed) {
    float out[EXPERTS * FF * EMBD];
    add(&image, "model.language_model.layers.0.mlp.experts.gate_up_proj", "F32", "3,8,12",
        EXPERTS * 2 * FF * EMBD, 0);
    add(&image, "model.language_model.layers.0.mlp.experts.down_proj", "F32", "3,6,8",
        EXPERTS * FF * EMBD, 7);
    struct weights *weights = open_image("Qwen3VLMoeForConditionalGeneration", experts, &image);
    for (int up = 0; up < 2; up++) {
        get(weights, up ? "blk.0.ffn_up_exps.weight" : "blk.0.ffn_gate_exps.weight", EMBD, FF,
            EXPERTS, out);
        for (int k = 0; k < EXPERTS * FF * EMBD; k++) {
            const int e = k / (FF * EMBD), f = k / EMBD % FF, in = k % EMBD;
            assert_true(out[k] == (float)(e * 2 * FF * EMBD + in * 2 * FF + up * FF + f));
        }
    }
    get(weights, "blk.0.ffn_down_exps.weight", FF, EMBD, EXPERTS, out);
    for (int k = 0; k < EXPERTS * FF * EMBD; k++) {
        const int e = k / (FF * EMBD), to = k / FF % EMBD, f = k % FF;
        assert_true(out[k] == (float)(7 + e * FF * EMBD + f * EMBD + to));
    }
    weights_close(weights);
}

CASE(gpt_oss_experts_are_taken_apart) {
    static const char *const dtypes[] = {"F32", "BF16"};
    float out[EXPERTS * FF * EMBD];
    for (int i = 0; i < 2; i++) {
        // Numbers that bf16 has are below 257, so only they are compared in that case.
        const int limit = i ? 257 : 1024;
        add(&image, "model.layers.1.mlp.experts.gate_up_proj", dtypes[i], "3,8,12",
            EXPERTS * EMBD * 2 * FF, 0);
        add(&image, "model.layers.1.mlp.experts.gate_up_proj_bias", dtypes[i], "3,12",
            EXPERTS * 2 * FF, 0);
        add(&image, "model.layers.1.mlp.experts.down_proj", dtypes[i], "3,6,8", EXPERTS * FF * EMBD,
            0);
        add(&image, "model.layers.1.mlp.experts.down_proj_bias", dtypes[i], "3,8", EXPERTS * EMBD,
            0);
        struct weights *weights = open_image("GptOssForCausalLM", experts, &image);
        for (int up = 0; up < 2; up++) {
            get(weights, up ? "blk.1.ffn_up_exps.weight" : "blk.1.ffn_gate_exps.weight", EMBD, FF,
                EXPERTS, out);
            for (int e = 0; e < EXPERTS; e++)
                for (int r = 0; r < FF; r++)
                    for (int c = 0; c < EMBD; c++) {
                        const int from = (e * EMBD + c) * 2 * FF + 2 * r + up;
                        if (from < limit) assert_true(out[(e * FF + r) * EMBD + c] == (float)from);
                    }
            get(weights, up ? "blk.1.ffn_up_exps.bias" : "blk.1.ffn_gate_exps.bias", FF, EXPERTS, 0,
                out);
            for (int k = 0; k < EXPERTS * FF; k++) assert_true(out[k] == (float)(2 * k + up));
        }
        get(weights, "blk.1.ffn_down_exps.weight", FF, EMBD, EXPERTS, out);
        for (int e = 0; e < EXPERTS; e++)
            for (int r = 0; r < EMBD; r++)
                for (int c = 0; c < FF; c++) {
                    const int from = (e * FF + c) * EMBD + r;
                    assert_true(out[(e * EMBD + r) * FF + c] == (float)from);
                }
        get(weights, "blk.1.ffn_down_exps.bias", EMBD, EXPERTS, 0, out);
        assert_true(out[EXPERTS * EMBD - 1] == (float)(EXPERTS * EMBD - 1));
        weights_close(weights);
    }
}

// --- MXFP4 as it is published ---

enum { MX_EMBD = 64, MX_FF = 32, MX_EXPERTS = 2 };

// The value of element k of a row: its nibble's value times its block's scale.
static float mx_value(const uint8_t *nibbles, const uint8_t *scales, int k) {
    static const float values[] = {0,  0.5f,  1,  1.5f,  2,  3,  4,  6,
                                   -0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    const int nibble = nibbles[k / 2] >> (4 * (k % 2)) & 15;
    return values[nibble] * f32_from_bits((uint32_t)scales[k / 32] << 23);
}

static void mx_add(struct st_image *to, const char *stem, const char *shape, uint8_t *nibbles,
                   uint8_t *scales, int n_blocks) {
    char name[128], shape_blocks[64];
    for (int i = 0; i < n_blocks * 16; i++) nibbles[i] = (uint8_t)(i * 37 + i / 16 * 11);
    for (int i = 0; i < n_blocks; i++) scales[i] = (uint8_t)(120 + i % 13);
    snprintf(name, sizeof name, "model.layers.0.mlp.experts.%s_blocks", stem);
    snprintf(shape_blocks, sizeof shape_blocks, "%s,16", shape);
    st_entry(to, name, "U8", shape_blocks, nibbles, (size_t)n_blocks * 16);
    snprintf(name, sizeof name, "model.layers.0.mlp.experts.%s_scales", stem);
    st_entry(to, name, "U8", shape, scales, (size_t)n_blocks);
}

// A config of these sizes: config_write's have rows of less than one block.
static struct data_folder mx_create(void) {
    const struct data_folder folder = data_folder_make();
    folder_text(&folder, "config.json",
                "{'architectures': ['GptOssForCausalLM'], 'num_hidden_layers': 1, "
                "'max_position_embeddings': 64, 'hidden_size': 64, 'intermediate_size': 32, "
                "'num_attention_heads': 2, 'rms_norm_eps': 1e-5, 'num_local_experts': 2, "
                "'num_experts_per_tok': 1, 'quantization_config': {'quant_method': 'mxfp4'}}");
    st_write(&folder, "model.safetensors", &image);
    memset(&image, 0, sizeof image);
    return folder;
}

CASE(mxfp4_keeps_every_value) {
    enum { UP_BLOCKS = MX_EXPERTS * 2 * MX_FF * 2, DOWN_BLOCKS = MX_EXPERTS * MX_EMBD };
    static uint8_t up_nibbles[UP_BLOCKS * 16], up_scales[UP_BLOCKS];
    static uint8_t down_nibbles[DOWN_BLOCKS * 16], down_scales[DOWN_BLOCKS];
    static float out[MX_EXPERTS * MX_FF * MX_EMBD];
    mx_add(&image, "gate_up_proj", "2,64,2", up_nibbles, up_scales, UP_BLOCKS);
    mx_add(&image, "down_proj", "2,64,1", down_nibbles, down_scales, DOWN_BLOCKS);
    const struct data_folder folder = mx_create();
    struct weights *weights = folder_open(&folder);
    for (int up = 0; up < 2; up++) {
        const char *name = up ? "blk.0.ffn_up_exps.weight" : "blk.0.ffn_gate_exps.weight";
        get(weights, name, MX_EMBD, MX_FF, MX_EXPERTS, out);
        assert_int_equal(weights_tensor_find(weights, name)->format, FORMAT_MXFP4);
        for (int r = 0; r < MX_FF * MX_EXPERTS; r++) {
            const int row = 2 * r + up;
            for (int c = 0; c < MX_EMBD; c++)
                assert_true(out[r * MX_EMBD + c] ==
                            mx_value(up_nibbles + row * 32, up_scales + row * 2, c));
        }
    }
    get(weights, "blk.0.ffn_down_exps.weight", MX_FF, MX_EMBD, MX_EXPERTS, out);
    for (int r = 0; r < MX_EMBD * MX_EXPERTS; r++)
        for (int c = 0; c < MX_FF; c++)
            assert_true(out[r * MX_FF + c] == mx_value(down_nibbles + r * 16, down_scales + r, c));
    weights_close(weights);
    data_folder_remove(&folder);
}

CASE(mxfp4_that_does_not_fit_is_refused) {
    const char *blocks = "model.layers.0.mlp.experts.down_proj_blocks";
    const char *scales = "model.layers.0.mlp.experts.down_proj_scales";
    const struct {
        const char *blocks_dtype, *blocks_shape, *scales_shape, *message;
        rn_status status;
    } cases[] = {
        {"U8", "2,64,1,16", NULL, "its model.layers.0.mlp.experts.down_proj_scales is missing",
         RN_ERR_MODEL},
        {NULL, NULL, "2,64,1", "its model.layers.0.mlp.experts.down_proj_blocks is missing",
         RN_ERR_MODEL},
        {"I8", "2,64,1,16", "2,64,1", "dtype I8, scales U8: expected U8", RN_ERR_UNSUPPORTED},
        {"U8", "2,32,2,16", "2,64,1", "shape [2, 32, 2, 16], expected [2, 64, 1, 16]",
         RN_ERR_MODEL},
        {"U8", "2,64,1,16", "2,32,2", "shape [2, 32, 2], expected [2, 64, 1]", RN_ERR_MODEL},
        {"U8", "2048", "2,64,1", "1 dimensions, expected 4", RN_ERR_MODEL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].blocks_shape)
            st_entry(&image, blocks, cases[i].blocks_dtype, cases[i].blocks_shape, NULL, 2048);
        if (cases[i].scales_shape) st_entry(&image, scales, "U8", cases[i].scales_shape, NULL, 128);
        const struct data_folder folder = mx_create();
        folder_refused(&folder, cases[i].status, cases[i].message);
        data_folder_remove(&folder);
    }
    st_entry(&image, blocks, "U8", "2,8,1,16", NULL, 256);
    refused("GptOssForCausalLM", experts, &image, RN_ERR_MODEL,
            "rows of 6 elements are not whole blocks of 32");
}

// --- refusals ---

CASE(tensors_that_nobody_knows_are_refused_by_name) {
    static const char *const names[] = {"model.layers.0.self_attn.q_proj.weight_scale",
                                        "model.layers.0.self_attn.q_norm.weight",
                                        "model.layers.00.self_attn.q_proj.weight",
                                        "model.layers..self_attn.q_proj.weight",
                                        "model.layers.-1.self_attn.q_proj.weight",
                                        "model.layers.0.self_attn.q_proj",
                                        "lm_head.bias",
                                        "transformer.h.0.ln_1.weight",
                                        "model.layers.99999999999.input_layernorm.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char message[160];
        add(&image, names[i], "F32", "8", 8, 0);
        snprintf(message, sizeof message, "model.safetensors: tensor %s: no tensor of this name",
                 names[i]);
        refused("LlamaForCausalLM", "", &image, RN_ERR_UNSUPPORTED, message);
    }
    add(&image, "model.layers.2.input_layernorm.weight", "F32", "8", 8, 0);
    refused("LlamaForCausalLM", "", &image, RN_ERR_MODEL, "layer 2, the config has 2");
}

CASE(types_and_shapes_that_cannot_be_views_are_refused) {
    static const struct {
        const char *dtype, *shape;
        size_t bytes;
        rn_status status;
        const char *message;
    } cases[] = {
        {"F8_E4M3", "8", 8, RN_ERR_UNSUPPORTED,
         "tensor model.norm.weight: dtype F8_E4M3 is not supported, only F32, F16 and BF16"},
        {"I64", "8", 64, RN_ERR_UNSUPPORTED, "dtype I64 is not supported"},
        {"U8", "8", 8, RN_ERR_UNSUPPORTED, "dtype U8 is not supported"},
        {"WHAT_IS_THIS_TYPE", "8", 8, RN_ERR_UNSUPPORTED, "dtype WHAT_IS_THI is not supported"},
        {"F32", "", 4, RN_ERR_MODEL, "0 dimensions"},
        {"F32", "1,1,1,1,8", 32, RN_ERR_MODEL, "5 dimensions"},
        {"F32", "8,0", 0, RN_ERR_MODEL, "or an empty one"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        st_entry(&image, "model.norm.weight", cases[i].dtype, cases[i].shape, NULL, cases[i].bytes);
        refused("LlamaForCausalLM", "", &image, cases[i].status, cases[i].message);
    }
    add(&image, "model.norm.weight", "F32", "2,4", 8, 0);
    refused("GemmaForCausalLM", "", &image, RN_ERR_MODEL, "2 dimensions, expected 1");
    add(&image, "h.0.mlp.c_fc.weight", "F32", "8", 8, 0);
    refused("GPT2LMHeadModel", "", &image, RN_ERR_MODEL, "1 dimensions, expected 2");
}

TEST_PROGRAM(hf_tensors) { return cases_run(NULL, NULL); }

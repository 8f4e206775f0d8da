// Llama 4 and Mistral 3: config.json as published gives a model of the published size, with chunks,
// rope, norms and scaled queries on the layers that have them. Files and configs that need anything
// else are refused by name.
#include <math.h>

#include "described.h"
#include "model/hparams.h"

// ---------------------------------------------------------------- published configs

#define VISION                                                                                     \
    "'vision_config':{'hidden_act':'gelu','hidden_size':1408,'image_size':336,'intermediate_size'" \
    ":5632,'model_type':'llama4_vision_model','num_attention_heads':16,'num_hidden_layers':34,"    \
    "'patch_size':14,'pixel_shuffle_ratio':0.5,'rope_theta':10000}"

#define SCOUT(more)                                                                                \
    "{'architectures':['Llama4ForConditionalGeneration'],'boi_token_index':200080,"                \
    "'eoi_token_index':200081,'image_token_index':200092,'model_type':'llama4','text_config':{"    \
    "'attention_bias':false,'attention_chunk_size':8192,'attention_dropout':0.0,'bos_token_id':"   \
    "200000,'eos_token_id':[200001,200007,200008],'for_llm_compressor':false,'head_dim':128,"      \
    "'hidden_act':'silu','hidden_size':5120,'interleave_moe_layer_step':1,'intermediate_size':"    \
    "8192,'intermediate_size_mlp':16384,'max_position_embeddings':10485760,'model_type':"          \
    "'llama4_text','no_rope_layers':[],'num_attention_heads':40,'num_experts_per_tok':1,"          \
    "'num_hidden_layers':48,'num_key_value_heads':8,'num_local_experts':16,"                       \
    "'output_router_logits':false,'pad_token_id':200018,'rms_norm_eps':1e-05,'rope_scaling':{"     \
    "'factor':16.0,'high_freq_factor':1.0,'low_freq_factor':1.0,"                                  \
    "'original_max_position_embeddings':8192,'rope_type':'llama3'},'rope_theta':500000.0,"         \
    "'router_aux_loss_coef':0.001,'router_jitter_noise':0.0,'use_cache':true,'use_qk_norm':true,"  \
    "'vocab_size':202048" more "},'tie_word_embeddings':false," VISION "}"

static const char maverick[] =
    "{'architectures':['Llama4ForConditionalGeneration'],'model_type':'llama4','text_config':{"
    "'attention_bias':false,'attention_chunk_size':8192,'attn_scale':0.1,"
    "'attn_temperature_tuning':4,'floor_scale':8192,'head_dim':128,'hidden_act':'silu',"
    "'hidden_size':5120,'interleave_moe_layer_step':2,'intermediate_size':8192,"
    "'intermediate_size_mlp':16384,'max_position_embeddings':1048576,'model_type':'llama4_text',"
    "'moe_layers':[1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,33,35,37,39,41,43,45,47],"
    "'no_rope_layer_interval':4,'no_rope_layers':[1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,"
    "1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0],'num_attention_heads':40,"
    "'num_experts_per_tok':1,'num_hidden_layers':48,'num_key_value_heads':8,'num_local_experts':"
    "128,"
    "'rms_norm_eps':1e-05,'rope_scaling':null,'rope_theta':500000.0,'use_qk_norm':false,"
    "'vocab_size':202048}," VISION "}";

#define PIXTRAL                                                                                    \
    "'vision_config':{'attention_dropout':0.0,'head_dim':64,'hidden_act':'silu','hidden_size':"    \
    "1024,'image_size':1540,'intermediate_size':4096,'model_type':'pixtral',"                      \
    "'num_attention_heads':16,'num_channels':3,'num_hidden_layers':24,'patch_size':14,"            \
    "'rope_theta':10000.0},'vision_feature_layer':-1"

static const char mistral_small[] =
    "{'architectures':['Mistral3ForConditionalGeneration'],'image_token_index':10,'model_type':"
    "'mistral3','multimodal_projector_bias':false,'projector_hidden_act':'gelu',"
    "'spatial_merge_size':2,'text_config':{'attention_dropout':0.0,'head_dim':128,'hidden_act':"
    "'silu','hidden_size':5120,'initializer_range':0.02,'intermediate_size':32768,"
    "'max_position_embeddings':131072,'model_type':'mistral','num_attention_heads':32,"
    "'num_hidden_layers':40,'num_key_value_heads':8,'rms_norm_eps':1e-05,'rope_theta':"
    "1000000000.0,'sliding_window':null,'use_cache':true,'vocab_size':131072},"
    "'torch_dtype':'bfloat16'," PIXTRAL "}";

static const char ministral[] =
    "{'architectures':['Mistral3ForConditionalGeneration'],'dtype':'bfloat16','image_token_index':"
    "10,'model_type':'mistral3','multimodal_projector_bias':false,'projector_hidden_act':'gelu',"
    "'spatial_merge_size':2,'text_config':{'attention_dropout':0.0,'head_dim':128,'hidden_act':"
    "'silu','hidden_size':4096,'initializer_range':0.02,'intermediate_size':14336,"
    "'max_position_embeddings':262144,'model_type':'ministral3','num_attention_heads':32,"
    "'num_hidden_layers':34,'num_key_value_heads':8,'rms_norm_eps':1e-05,'rope_parameters':{"
    "'beta_fast':32.0,'beta_slow':1.0,'factor':16.0,'llama_4_scaling_beta':0.1,'mscale':1.0,"
    "'mscale_all_dim':1.0,'original_max_position_embeddings':16384,'rope_theta':1000000.0,"
    "'rope_type':'yarn','type':'yarn'},'sliding_window':null,'tie_word_embeddings':false,"
    "'use_cache':true,'vocab_size':131072}," PIXTRAL "}";

static struct described described_fine(const char *name, const char *text, double params) {
    struct described d = describe(text);
    check(d.status == RN_OK, "%s: %s", name, d.err.message);
    const double is = (double)d.model->n_params / 1e9;
    check(fabs(is / params - 1) < 0.001, "%s: %.3f", name, is);
    return d;
}

// Every fourth layer sees everything and is not rotated; the others have chunks.
static void check_llama4(const char *name, const struct model *model, bool is_normed, int step) {
    const struct hparams *hp = &model->hp;
    for (int i = 0; i < hp->n_layer; i++) {
        const struct layer *l = &hp->layer[i];
        const bool is_rotated = i % 4 != 3, is_sparse = (i + 1) % step == 0;
        check(l->kind == (is_rotated ? KV_CHUNK : KV_FULL), "%s: layer %d", name, i);
        check(l->window == (is_rotated ? 8192 : 0), "%s: layer %d", name, i);
        check((l->rope != PLAN_NONE) == is_rotated, "%s: layer %d", name, i);
        check(l->has_bare_norms == (is_rotated && is_normed), "%s: layer %d", name, i);
        check(l->temper.length == (is_rotated ? 0 : 8192), "%s: layer %d", name, i);
        check(is_rotated || (l->temper.offset == 1 && l->temper.factor == 0.1f), "%s", name);
        check((l->n_expert > 0) == is_sparse, "%s: layer %d", name, i);
        check(!is_sparse || (l->n_ff_shared == 8192 && l->experts_weigh_input), "%s", name);
        check(l->score == ROUTE_SIGMOID && !l->normalize_experts, "%s: layer %d", name, i);
    }
    assert_int_equal(model->plan.n_group, 2);
    assert_int_equal(model->plan.group[1].kind, KV_CHUNK);
    assert_int_equal(model->plan.group[1].n_layer, 36);
}

CASE(scout_has_the_published_layers) {
    struct described d = described_fine("Scout", SCOUT(""), 107.77);
    check_llama4("Scout", d.model, true, 1);
    assert_int_equal(d.model->hp.n_ctx, 10485760);
    assert_int_equal(d.model->plan.rope[0].style, ROPE_INTERLEAVED);
    described_close(&d);
}

CASE(maverick_has_the_published_layers) {
    struct described d = described_fine("Maverick", maverick, 400.71);
    check_llama4("Maverick", d.model, false, 2);
    assert_int_equal(d.model->hp.layer[0].n_ff, 16384);
    assert_int_equal(d.model->hp.layer[1].n_expert, 128);
    described_close(&d);
}

CASE(queries_that_do_not_grow_have_no_op) {
    static const char *const texts[] = {SCOUT(",'attn_temperature_tuning':false"),
                                        SCOUT(",'attn_temperature_tuning':0"),
                                        SCOUT(",'attn_scale':0")};
    for (int i = 0; i < 3; i++) {
        struct described d = described_fine("Scout", texts[i], 107.77);
        for (int k = 0; k < d.model->plan.n_op; k++)
            check(d.model->plan.op[k].kind != OP_TEMPER, "%d", i);
        described_close(&d);
    }
}

CASE(mistral_small_is_llama_without_scaled_queries) {
    struct described d = described_fine("Mistral Small 3.2", mistral_small, 23.572);
    assert_string_equal(model_arch_name(d.model), "mistral3");
    for (int i = 0; i < d.model->plan.n_op; i++) assert_true(d.model->plan.op[i].kind != OP_TEMPER);
    assert_true(d.model->hp.rope[0].base == 1e9f);
    described_close(&d);
}

CASE(ministral_scales_the_queries_of_all_layers) {
    struct described d = described_fine("Ministral 3 8B", ministral, 8.489);
    int n = 0;
    for (int i = 0; i < d.model->plan.n_op; i++) {
        const struct op *op = &d.model->plan.op[i];
        if (op->kind != OP_TEMPER) continue;
        assert_int_equal(op->temper.length, 16384);
        assert_int_equal(op->temper.offset, 0);
        assert_true(op->temper.factor == 0.1f);
        n++;
    }
    assert_int_equal(n, 34);
    assert_true(fabsf(d.model->plan.rope[0].magnitude - 1) < 1e-6f); // mscale is mscale_all_dim
    assert_int_equal(d.model->hp.rope[0].scaling, ROPE_SCALING_YARN);
    described_close(&d);
}

// The factor is 1 up to the length, and log(n + 1) behind n of them.
CASE(the_factor_of_queries_grows_with_each_length) {
    struct op op = {.kind = OP_TEMPER};
    op.temper.length = 16, op.temper.factor = 0.1f;
    for (int offset = 0; offset < 2; offset++) {
        op.temper.offset = offset;
        for (int pos = 0; pos < 1000; pos++) {
            const double want = log(floor((pos + offset) / 16.0) + 1) * (double)0.1f + 1;
            check(fabs((double)op_temper_factor(&op, pos) - want) < 1e-6, "position %d", pos);
        }
        assert_true(op_temper_factor(&op, 14) == 1.0f);
        assert_true((op_temper_factor(&op, 15) == 1.0f) == (offset == 0));
    }
    assert_true(isfinite(op_temper_factor(&op, INT32_MAX)));
}

// ---------------------------------------------------------------- configs of other models

#define SIZES                                                                                      \
    "'num_hidden_layers':4,'hidden_size':64,'max_position_embeddings':128,'intermediate_size':24," \
    "'vocab_size':32,'num_attention_heads':2,'num_key_value_heads':1,'rms_norm_eps':1e-6,"         \
    "'head_dim':16,'num_local_experts':4,'num_experts_per_tok':1"

CASE(configs_of_other_models_are_refused_by_key) {
    static const struct {
        const char *class_name, *more, *message; // NULL: it is fine
    } cases[] = {
        {"Llama4ForCausalLM", "", NULL},
        {"Llama4ForCausalLM", ",'no_rope_layers':[1,0,0,1,1,1]", NULL},
        {"Llama4ForCausalLM", ",'no_rope_layers':[1,0,0]",
         "no_rope_layers has 3 items, num_hidden_layers is 4"},
        {"Llama4ForCausalLM", ",'no_rope_layers':[1,0,0,2]",
         "no_rope_layers is [1,0,0,2], expected at most 4096 integers of 0 to 1"},
        {"Llama4ForCausalLM", ",'attention_chunk_size':null",
         "attention_chunk_size is null, expected a number"},
        {"Llama4ForCausalLM", ",'attention_chunk_size':0", "attention_chunk_size is 0"},
        {"Llama4ForCausalLM", ",'floor_scale':0", "floor_scale is 0"},
        {"Llama4ForCausalLM", ",'attn_scale':-1", "attn_scale is -1"},
        {"Llama4ForCausalLM", ",'moe_layers':[1,4]", "moe_layers is [1,4]"},
        {"Llama4ForCausalLM", ",'moe_layers':[]", NULL}, // all of them are dense
        {"Llama4ForCausalLM",
         ",'layer_types':['chunked_attention','full_attention','sliding_attention','full_attention'"
         "]",
         "layer_types: \"sliding_attention\" is not supported"},
        {"Llama4ForCausalLM", ",'hidden_act':'gelu'", "hidden_act is \"gelu\", expected silu"},
        {"Llama4ForCausalLM",
         ",'rope_scaling':{'rope_type':'llama3','low_freq_factor':4.0,"
         "'high_freq_factor':1.0}",
         "high_freq_factor 1 is below low_freq_factor 4"},
        {"Llama4ForCausalLM", ",'quantization_config':{'quant_method':'compressed-tensors'}", NULL},
        {"Ministral3ForCausalLM", ",'model_type':'ministral3'",
         "rope_parameters: llama_4_scaling_beta is missing"},
        {"Ministral3ForCausalLM",
         ",'model_type':'ministral3','rope_parameters':{'rope_type':'default',"
         "'llama_4_scaling_beta':0.1}",
         "original_max_position_embeddings is missing, llama_4_scaling_beta needs it"},
        {"Ministral3ForCausalLM",
         ",'model_type':'ministral3','rope_parameters':{'rope_type':'yarn','factor':2.0,"
         "'original_max_position_embeddings':64,'llama_4_scaling_beta':-0.1}",
         "llama_4_scaling_beta is -0.1"},
        {"Mistral3ForConditionalGeneration", ",'text_config':{'model_type':'mistral4'}",
         "model_type is \"mistral4\", expected mistral or ministral3"},
        {"Mistral3ForConditionalGeneration", ",'text_config':{'model_type':'mistral'}", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text, "{'architectures':['%s'],%s%s}", cases[i].class_name, SIZES,
                 cases[i].more);
        struct described d = describe(text);
        if (cases[i].message)
            check(d.status != RN_OK && strstr(d.err.message, cases[i].message),
                  "%s%s: status %d, '%s'", cases[i].class_name, cases[i].more, d.status,
                  d.err.message);
        else
            check(d.status == RN_OK, "%s: %s", cases[i].more, d.err.message);
        described_close(&d);
    }
}

// A list may be longer than the layers; chunks follow rope unless layer_types says otherwise.
CASE(chunks_and_rope_are_told_apart) {
    struct described d = describe("{'architectures':['Llama4ForCausalLM']," SIZES
                                  ",'attention_chunk_size':40,'no_rope_layers':[1,0,0,1,1],"
                                  "'layer_types':['full_attention','chunked_attention',"
                                  "'full_attention','chunked_attention']}");
    check(d.status == RN_OK, "%s", d.err.message);
    for (int i = 0; i < 4; i++) {
        const struct layer *l = &d.model->hp.layer[i];
        assert_int_equal(l->rope == PLAN_NONE, i == 1 || i == 2);
        assert_int_equal(l->temper.length, i == 1 || i == 2 ? 8192 : 0);
        assert_int_equal(l->kind, i % 2 ? KV_CHUNK : KV_FULL);
        assert_int_equal(l->window, i % 2 ? 40 : 0);
    }
    described_close(&d);
}

// ---------------------------------------------------------------- GGUF

CASE(files_that_need_something_else_are_refused_by_name) {
    static const struct {
        const char *name;
        struct change change;
        const char *message; // NULL: it is fine
    } cases[] = {
        {"llama4-8192", {0}, NULL},
        {"llama4-8192",
         {.key = "llama4.attention.sliding_window"},
         "key llama4.attention.sliding_window is not supported"},
        {"llama4-8192",
         {.key = "llama4.attention.sliding_window", .value = 8192},
         "key llama4.attention.sliding_window is not supported"},
        {"llama4-8192",
         {.key = "llama4.attention.chunk_size"},
         "key llama4.attention.chunk_size is 0"},
        {"llama4-8192",
         {.key = "llama4.attention.chunk_pattern", .items = 4, .value = 1},
         "key llama4.attention.chunk_pattern: item 0 is not an integer"},
        {"llama4-8192",
         {.without = "llama4.expert_count"},
         "key llama4.expert_count is missing or 0"},
        {"llama4-8192",
         {.without = "llama4.interleave_moe_layer_step"},
         "key llama4.interleave_moe_layer_step is missing"},
        {"llama4-8192",
         {.without = "blk.2.ffn_up_shexp.weight"},
         "tensor blk.2.ffn_up_shexp.weight is missing"},
        {"llama4-8192", {.tensor = "blk.0.attn_q_norm.weight"}, "blk.0.attn_q_norm.weight"},
        {"ministral3", {0}, NULL},
        {"ministral3",
         {.key = "mistral3.expert_count", .value = 2},
         "key mistral3.expert_used_count is missing"},
        {"ministral3",
         {.key = "mistral3.attention.temperature_length"},
         "key mistral3.attention.temperature_length is 0"},
        {"ministral3",
         {.without = "mistral3.rope.scaling.original_context_length"},
         "key mistral3.rope.scaling.original_context_length is missing"},
        {"ministral3", {.without = "mistral3.rope.scaling.type"}, NULL}, // linear
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model model;
        struct weights *weights;
        uint8_t *image;
        rn_error err = {0};
        const rn_status status =
            changed_open(cases[i].name, cases[i].change, &model, &weights, &image, &err);
        check(cases[i].message ? status != RN_OK && strstr(err.message, cases[i].message)
                               : status == RN_OK,
              "%s %zu: status %d, '%s'", cases[i].name, i, status, err.message);
        if (status == RN_OK) model_deinit(&model);
        weights_close(weights);
        free(image);
    }
}

// Of the published models the one with 128 experts has no norms of q and k; files do not say it.
CASE(files_with_128_experts_have_no_norms_behind_rope) {
    static const int experts[] = {4, 128};
    for (int i = 0; i < 2; i++) {
        const struct change change = {.without = "llama4.expert_count",
                                      .key = "llama4.expert_count",
                                      .value = (uint32_t)experts[i]};
        struct hparams *hp = calloc(1, sizeof *hp);
        struct weights *weights;
        size_t size;
        rn_error err = {0};
        assert_non_null(hp);
        uint8_t *image = changed_image("llama4-8192", change, &size);
        const struct arch *arch = arch_find("llama4", strlen("llama4"));
        check(weights_open_memory("m.gguf", image, size, &weights, &err) == RN_OK, "%s",
              err.message);
        check(hparams_common(hp, weights, arch, &err) == RN_OK, "%s", err.message);
        check(arch->read(hp, weights, &err) == RN_OK, "%s", err.message);
        assert_int_equal(hp->layer[0].has_bare_norms, experts[i] != 128);
        weights_close(weights);
        free(image);
        free(hp);
    }
}

// A window does not change the magnitude of rope.
CASE(layers_with_a_window_are_rotated_as_the_others) {
    const struct change change = {.key = "mistral3.attention.sliding_window", .value = 20};
    struct model model;
    struct weights *weights;
    uint8_t *image;
    rn_error err = {0};
    check(changed_open("ministral3", change, &model, &weights, &image, &err) == RN_OK, "%s",
          err.message);
    assert_int_equal(model.plan.group[0].kind, KV_WINDOW);
    for (int i = 0; i < model.plan.n_rope; i++)
        assert_true(fabsf(model.plan.rope[i].magnitude - 1) < 1e-6f);
    model_deinit(&model);
    weights_close(weights);
    free(image);
}

TEST_PROGRAM(llama4) { return cases_run(NULL, NULL); }

// Dense families that differ in attention options and norms: config.json as published gives a model
// of the published size, and GGUF files that need what is missing are refused by name.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "model/described.h"
#include "model/hparams.h"
#include "tensor_bytes.h"

// ---------------------------------------------------------------- published configs

#define WINDOWS_OF_4  "'sliding_attention','sliding_attention','sliding_attention','full_attention'"
#define WINDOWS_OF_16 WINDOWS_OF_4 "," WINDOWS_OF_4 "," WINDOWS_OF_4 "," WINDOWS_OF_4
#define WINDOWS_OF_32 WINDOWS_OF_16 "," WINDOWS_OF_16
#define FULL_OF_6                                                                                  \
    "'full_attention','full_attention','full_attention','full_attention','full_attention',"        \
    "'full_attention'"
#define ONES_OF_8  "1,1,1,1,1,1,1,1"
#define ONES_OF_48 ONES_OF_8 "," ONES_OF_8 "," ONES_OF_8 "," ONES_OF_8 "," ONES_OF_8 "," ONES_OF_8

static const struct {
    const char *name, *arch;
    double params;  // 10^9, as published; without biases
    int window;     // of the layers that have one
    char kind[5];   // of the first four layers: W has a window
    char rope[5];   // R is rotated
    int n_rot;      // of the first layer that is rotated
    double inverse; // the first frequency's magnitude: yarn's factor of cos and sin
    const char *text;
} published[] = {
    {"Command A", "cohere2", 111.06, 4096, "WWW-", "RRR-", 128, 1,
     "{'architectures':['Cohere2ForCausalLM'],'attention_bias':false,'cache_implementation':"
     "'hybrid','hidden_act':'silu','hidden_size':12288,'intermediate_size':36864,'layer_norm_eps':"
     "1e-05,'layer_switch':4,'logit_scale':0.25,'max_position_embeddings':131072,'model_type':"
     "'cohere2','num_attention_heads':96,'num_hidden_layers':64,'num_key_value_heads':8,"
     "'order_of_interleaved_layers':'local_attn_first','position_embedding_type':'rope_gptj',"
     "'rope_scaling':null,'rope_theta':50000,'rotary_pct':1.0,'sliding_window':4096,"
     "'sliding_window_pattern':4,'use_embedding_sharing':true,'use_gated_activation':true,"
     "'use_parallel_block':true,'use_parallel_embedding':false,'vocab_size':256000}"},
    {"Command R7B, without the pattern", "cohere2", 8.03, 4096, "WWW-", "RRR-", 128, 1,
     "{'architectures':['Cohere2ForCausalLM'],'head_dim':128,'hidden_act':'silu','hidden_size':"
     "4096,'intermediate_size':14336,'layer_norm_eps':1e-05,'logit_scale':0.25,"
     "'max_position_embeddings':132096,'num_attention_heads':32,'num_hidden_layers':32,"
     "'num_key_value_heads':8,'rope_theta':50000,'vocab_size':256000}"},
    {"OLMo 3 7B", "olmo2", 7.298, 4096, "WWW-", "RRRR", 128, 1.2079441541679836,
     "{'architectures':['Olmo3ForCausalLM'],'attention_bias':false,'hidden_act':'silu',"
     "'hidden_size':4096,'intermediate_size':11008,'layer_types':[" WINDOWS_OF_32 "],"
     "'max_position_embeddings':65536,'model_type':'olmo3','num_attention_heads':32,"
     "'num_hidden_layers':32,'num_key_value_heads':32,'rms_norm_eps':1e-06,'rope_scaling':{"
     "'attention_factor':1.2079441541679836,'beta_fast':32.0,'beta_slow':1.0,'factor':8.0,"
     "'original_max_position_embeddings':8192,'rope_type':'yarn'},'rope_theta':500000,"
     "'sliding_window':4096,'tie_word_embeddings':false,'vocab_size':100278}"},
    {"OLMo 3 7B, as saved today", "olmo2", 7.298, 4096, "WWW-", "RRRR", 128, 1.2079441541679836,
     "{'architectures':['Olmo3ForCausalLM'],'hidden_act':'silu','hidden_size':4096,"
     "'intermediate_size':11008,'max_position_embeddings':65536,'num_attention_heads':32,"
     "'num_hidden_layers':32,'rms_norm_eps':1e-06,'rope_parameters':{'full_attention':{"
     "'attention_factor':1.2079441541679836,'factor':8.0,'original_max_position_embeddings':8192,"
     "'rope_theta':500000.0,'rope_type':'yarn'},'sliding_attention':{'rope_theta':500000.0,"
     "'rope_type':'default'}},'tie_word_embeddings':false,'vocab_size':100278}"},
    {"EXAONE 4.0 32B", "exaone4", 32.0, 4096, "WWW-", "RRR-", 128, 1,
     "{'architectures':['Exaone4ForCausalLM'],'head_dim':128,'hidden_act':'silu','hidden_size':"
     "5120,'intermediate_size':27392,'layer_types':[" WINDOWS_OF_32 "," WINDOWS_OF_32 "],"
     "'max_position_embeddings':131072,'model_type':'exaone4','num_attention_heads':40,"
     "'num_hidden_layers':64,'num_key_value_heads':8,'rms_norm_eps':1e-05,'rope_scaling':{"
     "'factor':16.0,'high_freq_factor':4.0,'low_freq_factor':1.0,"
     "'original_max_position_embeddings':8192,'rope_type':'llama3'},'rope_theta':1000000,"
     "'sliding_window':4096,'sliding_window_pattern':'LLLG','tie_word_embeddings':false,"
     "'vocab_size':102400}"},
    {"EXAONE 4.0 32B, the pattern alone", "exaone4", 32.0, 4096, "WWW-", "RRR-", 128, 1,
     "{'architectures':['Exaone4ForCausalLM'],'head_dim':128,'hidden_size':5120,"
     "'intermediate_size':27392,'max_position_embeddings':131072,'num_attention_heads':40,"
     "'num_hidden_layers':64,'num_key_value_heads':8,'rms_norm_eps':1e-05,'rope_theta':1000000,"
     "'sliding_window':4096,'sliding_window_pattern':'LLLG','vocab_size':102400}"},
    {"EXAONE 4.0 1.2B", "exaone4", 1.279, 0, "----", "RRRR", 64, 1,
     "{'architectures':['Exaone4ForCausalLM'],'head_dim':64,'hidden_act':'silu','hidden_size':2048,"
     "'intermediate_size':4096,'layer_types':[" FULL_OF_6 "," FULL_OF_6 "," FULL_OF_6 "," FULL_OF_6
     "," FULL_OF_6 "],'max_position_embeddings':65536,'num_attention_heads':32,"
     "'num_hidden_layers':30,'num_key_value_heads':8,'rms_norm_eps':1e-05,'rope_scaling':{"
     "'factor':16.0,'high_freq_factor':4.0,'low_freq_factor':1.0,"
     "'original_max_position_embeddings':8192,'rope_type':'llama3'},'rope_theta':1000000,"
     "'sliding_window':null,'sliding_window_pattern':null,'tie_word_embeddings':true,"
     "'vocab_size':102400}"},
    {"GLM-4 9B 0414", "glm4", 9.4, 0, "----", "RRRR", 64, 1,
     "{'architectures':['Glm4ForCausalLM'],'attention_bias':true,'head_dim':128,'hidden_act':"
     "'silu','hidden_size':4096,'intermediate_size':13696,'max_position_embeddings':32768,"
     "'model_type':'glm4','num_attention_heads':32,'num_hidden_layers':40,'num_key_value_heads':2,"
     "'partial_rotary_factor':0.5,'rms_norm_eps':1e-05,'rope_theta':10000.0,"
     "'tie_word_embeddings':false,'vocab_size':151552}"},
    {"Seed-OSS 36B", "seed_oss", 36.15, 0, "----", "RRRR", 128, 1,
     "{'architectures':['SeedOssForCausalLM'],'attention_bias':true,'attention_dropout':0.1,"
     "'attention_out_bias':false,'head_dim':128,'hidden_act':'silu','hidden_size':5120,"
     "'intermediate_size':27648,'max_position_embeddings':524288,'mlp_bias':false,'model_type':"
     "'seed_oss','num_attention_heads':80,'num_hidden_layers':64,'num_key_value_heads':8,"
     "'residual_dropout':0.1,'rms_norm_eps':1e-06,'rope_scaling':{'rope_type':'default'},"
     "'rope_theta':10000000.0,'tie_word_embeddings':false,'vocab_size':155136}"},
    {"ERNIE 4.5 0.3B", "ernie4_5", 0.361, 0, "----", "RRRR", 128, 1,
     "{'architectures':['Ernie4_5ForCausalLM'],'head_dim':128,'hidden_act':'silu','hidden_size':"
     "1024,'intermediate_size':3072,'max_position_embeddings':131072,'model_type':'ernie4_5',"
     "'num_attention_heads':16,'num_hidden_layers':18,'num_key_value_heads':2,'rms_norm_eps':1e-05,"
     "'rope_scaling':null,'rope_theta':500000.0,'tie_word_embeddings':true,'use_bias':false,"
     "'vocab_size':103424}"},
    {"Hunyuan 7B", "hunyuan-dense", 7.505, 0, "----", "RRRR", 128, 1,
     "{'architectures':['HunYuanDenseV1ForCausalLM'],'add_classification_head':false,"
     "'attention_bias':false,'attention_head_dim':128,'cla_share_factor':2,'dense_list':[4096,0],"
     "'head_dim':128,'hidden_act':'silu','hidden_size':4096,'intermediate_size':14336,"
     "'max_position_embeddings':32768,'mlp_bias':false,'model_type':'hunyuan_v1_dense',"
     "'norm_type':'rms','num_attention_heads':32,'num_hidden_layers':32,'num_key_value_heads':8,"
     "'position_embedding_xdrope':false,'rms_norm_eps':1e-05,'rope_scaling':{'alpha':1000.0,"
     "'beta_fast':32,'beta_slow':1,'factor':1.0,'mscale':1.0,'mscale_all_dim':1.0,'type':"
     "'dynamic'},'rope_theta':10000.0,'tie_word_embeddings':true,'use_cla':false,'use_qk_norm':"
     "true,'use_rotary_pos_emb':true,'vocab_size':128167}"},
    {"StarCoder 2 3B", "starcoder2", 3.03, 4096, "WWWW", "RRRR", 128, 1,
     "{'architectures':['Starcoder2ForCausalLM'],'attention_softmax_in_fp32':true,'hidden_act':"
     "'gelu_pytorch_tanh','hidden_size':3072,'intermediate_size':12288,"
     "'max_position_embeddings':16384,'mlp_type':'default','model_type':'starcoder2',"
     "'norm_epsilon':1e-05,'norm_type':'layer_norm','num_attention_heads':24,'num_hidden_layers':"
     "30,'num_key_value_heads':2,'rope_theta':999999.4420358813,'sliding_window':4096,"
     "'use_bias':true,'vocab_size':49152}"},
    {"Apertus 8B", "apertus", 8.053, 0, "----", "RRRR", 128, 1,
     "{'architectures':['ApertusForCausalLM'],'attention_bias':false,'hidden_act':'xielu',"
     "'hidden_size':4096,'intermediate_size':21504,'max_position_embeddings':65536,'mlp_bias':"
     "false,'model_type':'apertus','num_attention_heads':32,'num_hidden_layers':32,"
     "'num_key_value_heads':8,'post_norm':false,'qk_norm':true,'rms_norm_eps':1e-05,"
     "'rope_scaling':{'factor':8.0,'high_freq_factor':4.0,'low_freq_factor':1.0,"
     "'original_max_position_embeddings':8192,'rope_type':'llama3','type':'llama3'},"
     "'rope_theta':12000000,'tie_word_embeddings':false,'vocab_size':131072}"},
    {"Phi-4", "phi3", 14.66, 0, "----", "RRRR", 128, 1,
     "{'architectures':['Phi3ForCausalLM'],'attention_bias':false,'hidden_act':'silu',"
     "'hidden_size':5120,'intermediate_size':17920,'max_position_embeddings':16384,'model_type':"
     "'phi3','num_attention_heads':40,'num_hidden_layers':40,'num_key_value_heads':10,"
     "'original_max_position_embeddings':16384,'rms_norm_eps':1e-05,'rope_scaling':null,"
     "'rope_theta':250000,'sliding_window':null,'tie_word_embeddings':false,'vocab_size':100352}"},
    {"Phi-4 mini", "phi3", 3.836, 262144, "WWWW", "RRRR", 96, 1.1902380714238083,
     "{'architectures':['Phi3ForCausalLM'],'attention_bias':false,'hidden_act':'silu',"
     "'hidden_size':3072,'intermediate_size':8192,'max_position_embeddings':131072,'model_type':"
     "'phi3','num_attention_heads':24,'num_hidden_layers':32,'num_key_value_heads':8,"
     "'original_max_position_embeddings':4096,'partial_rotary_factor':0.75,'rms_norm_eps':1e-05,"
     "'rope_scaling':{'long_factor':[" ONES_OF_48 "],'short_factor':[" ONES_OF_48 "],'type':"
     "'longrope'},'rope_theta':10000.0,'sliding_window':262144,'tie_word_embeddings':true,"
     "'vocab_size':200064}"},
    {"Qwen3-VL 4B", "qwen3vl", 4.022, 0, "----", "RRRR", 128, 1,
     "{'architectures':['Qwen3VLForConditionalGeneration'],'image_token_id':151655,'model_type':"
     "'qwen3_vl','text_config':{'attention_bias':false,'head_dim':128,'hidden_act':'silu',"
     "'hidden_size':2560,'intermediate_size':9728,'max_position_embeddings':262144,'model_type':"
     "'qwen3_vl_text','num_attention_heads':32,'num_hidden_layers':36,'num_key_value_heads':8,"
     "'rms_norm_eps':1e-06,'rope_scaling':{'mrope_interleaved':true,'mrope_section':[24,20,20],"
     "'rope_type':'default'},'rope_theta':5000000,'tie_word_embeddings':true,'vocab_size':151936},"
     "'tie_word_embeddings':true,'vision_config':{'deepstack_visual_indexes':[5,11,17],'depth':24,"
     "'hidden_size':1024,'model_type':'qwen3_vl'},'vision_end_token_id':151653}"},
    {"Qwen3-VL 30B-A3B", "qwen3vlmoe", 30.53, 0, "----", "RRRR", 128, 1,
     "{'architectures':['Qwen3VLMoeForConditionalGeneration'],'image_token_id':151655,'model_type':"
     "'qwen3_vl_moe','text_config':{'attention_bias':false,'decoder_sparse_step':1,'head_dim':128,"
     "'hidden_act':'silu','hidden_size':2048,'intermediate_size':6144,"
     "'max_position_embeddings':262144,'mlp_only_layers':[],'model_type':'qwen3_vl_moe_text',"
     "'moe_intermediate_size':768,'norm_topk_prob':true,'num_attention_heads':32,'num_experts':128,"
     "'num_experts_per_tok':8,'num_hidden_layers':48,'num_key_value_heads':4,'rms_norm_eps':1e-06,"
     "'rope_scaling':{'mrope_interleaved':true,'mrope_section':[24,20,20],'rope_type':'default'},"
     "'rope_theta':5000000,'vocab_size':151936},'tie_word_embeddings':false,'vision_config':{"
     "'deepstack_visual_indexes':[8,16,24],'depth':27,'hidden_size':1152}}"},
};

CASE(published_configs_have_the_published_sizes_and_layers) {
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        struct described d = describe(published[i].text);
        const char *name = published[i].name;
        check(d.status == RN_OK, "%s: %s", name, d.err.message);
        const struct hparams *hp = &d.model->hp;
        const double params = (double)d.model->n_params / 1e9;
        assert_string_equal(model_arch_name(d.model), published[i].arch);
        check(fabs(params / published[i].params - 1) < 0.003, "%s: %.3f", name, params);
        for (int k = 0; k < hp->n_layer; k++) {
            const struct layer *l = &hp->layer[k];
            const bool is_window = published[i].kind[k % 4] == 'W';
            const bool is_rotated = published[i].rope[k % 4] == 'R';
            check((l->kind == KV_WINDOW) == is_window, "%s: layer %d", name, k);
            check(l->window == (is_window ? published[i].window : 0), "%s: layer %d", name, k);
            check((l->rope != PLAN_NONE) == is_rotated, "%s: layer %d", name, k);
        }
        double most = 0; // a layer with a window may be rotated without scaling
        for (int r = 0; r < d.model->plan.n_rope; r++) {
            const struct plan_rope *rope = &d.model->plan.rope[r];
            check(rope->n_rot == published[i].n_rot, "%s: %d", name, rope->n_rot);
            most = fmax(most, (double)rope->magnitude);
        }
        check(fabs(most - published[i].inverse) < 1e-6, "%s: %g", name, most);
        described_close(&d);
    }
}

// A letter for each layer, and more of them than the name of a class has.
CASE(a_pattern_may_be_a_word_for_all_layers) {
    char word[80 + 1] = {0}, text[1024];
    for (int i = 0; i < 80; i++) word[i] = i == 70 ? 'L' : 'G';
    snprintf(text, sizeof text,
             "{'architectures':['Exaone4ForCausalLM'],'num_hidden_layers':80,'hidden_size':64,"
             "'max_position_embeddings':128,'intermediate_size':96,'vocab_size':32,"
             "'num_attention_heads':2,'num_key_value_heads':1,'rms_norm_eps':1e-6,"
             "'sliding_window':16,'sliding_window_pattern':'%s'}",
             word);
    struct described d = describe(text);
    check(d.status == RN_OK, "%s", d.err.message);
    for (int i = 0; i < 80; i++) {
        assert_int_equal(d.model->hp.layer[i].window, i == 70 ? 16 : 0);
        assert_true((d.model->hp.layer[i].rope != PLAN_NONE) == (i == 70));
    }
    described_close(&d);
}

// Hunyuan's base is rope_theta alpha^(d / (d - 2)).
CASE(hunyuans_base_is_scaled_by_alpha) {
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        if (strcmp(published[i].arch, "hunyuan-dense") != 0) continue;
        struct described d = describe(published[i].text);
        check(d.status == RN_OK, "%s", d.err.message);
        const double want = 10000 * pow(1000, 128.0 / 126);
        assert_true(fabs((double)d.model->hp.rope[0].base / want - 1) < 1e-6);
        described_close(&d);
    }
}

// OLMo 3 scales the layers without a window alone, with the same base.
CASE(olmo3_scales_layers_without_a_window_alone) {
    struct described d = describe(published[2].text);
    check(d.status == RN_OK, "%s", d.err.message);
    const struct hparams *hp = &d.model->hp;
    assert_int_equal(hp->rope[hp->layer[0].rope].scaling, ROPE_SCALING_NONE);
    assert_int_equal(hp->rope[hp->layer[3].rope].scaling, ROPE_SCALING_YARN);
    assert_true(hp->rope[0].base == hp->rope[1].base);
    described_close(&d);
}

#define SIZES                                                                                      \
    "'num_hidden_layers':2,'hidden_size':64,'max_position_embeddings':128,'intermediate_size':96," \
    "'vocab_size':32,'num_attention_heads':2,'num_key_value_heads':1,'rms_norm_eps':1e-6"

CASE(configs_of_other_models_are_refused_by_key) {
    static const struct {
        const char *class_name, *more, *message;
    } cases[] = {
        {"Cohere2ForCausalLM", ",'use_qk_norm':true", "use_qk_norm is true, expected false"},
        {"Cohere2ForCausalLM", ",'use_parallel_block':false", "use_parallel_block is false"},
        {"Cohere2ForCausalLM", ",'rotary_pct':0.5", "rotary_pct is 0.5, expected 1"},
        {"Cohere2ForCausalLM", ",'logit_scale':0", "logit_scale is 0"},
        {"Cohere2ForCausalLM", ",'hidden_act':'gelu'", "hidden_act is \"gelu\", expected silu"},
        {"Exaone4ForCausalLM", ",'sliding_window_pattern':'LLXG'",
         "sliding_window_pattern is \"LLXG\", expected a number, or a word of L and G"},
        {"Exaone4ForCausalLM", ",'sliding_window_pattern':0", "sliding_window_pattern is 0"},
        {"Exaone4ForCausalLM", ",'sliding_window':0", "sliding_window is 0"},
        {"Olmo3ForCausalLM", ",'layer_types':['full_attention']", "layer_types has 1 items"},
        {"Olmo3ForCausalLM",
         ",'rope_parameters':{'sliding_attention':{'rope_type':'yarn','factor':2}}",
         "type \"yarn\" of sliding_attention is not supported"},
        {"Glm4ForCausalLM", ",'partial_rotary_factor':0.01", "1 of a head's 128 elements"},
        {"HunYuanDenseV1ForCausalLM", ",'use_qk_norm':false", "use_qk_norm is false"},
        {"HunYuanDenseV1ForCausalLM", ",'use_cla':true", "use_cla is true"},
        {"HunYuanDenseV1ForCausalLM", ",'rope_scaling':{'type':'dynamic','factor':2}",
         "type \"dynamic\" without alpha"},
        {"HunYuanDenseV1ForCausalLM", ",'rope_scaling':{'type':'yarn','factor':2}",
         "type \"yarn\" is not supported for hunyuan-dense"},
        {"Starcoder2ForCausalLM", ",'hidden_act':'gelu'",
         "hidden_act is \"gelu\", expected the tanh form of gelu"},
        {"ApertusForCausalLM", "", "rope_scaling is missing"},
        {"ApertusForCausalLM", ",'rope_scaling':{'type':'default'},'hidden_act':'silu'",
         "expected xielu"},
        {"ApertusForCausalLM", ",'rope_scaling':{'type':'default'},'qk_norm':false",
         "qk_norm is false"},
        {"SeedOssForCausalLM", ",'hidden_act':'relu'", "expected silu"},
        {"Ernie4_5_ForCausalLM", ",'compression_ratio':2", "compression_ratio is 2, expected 1"},
        {"Qwen3VLMoeForConditionalGeneration",
         ",'num_experts':4,'num_experts_per_tok':2,'moe_intermediate_size':8,'norm_topk_prob':"
         "false",
         "norm_topk_prob is false, expected true"},
        {"Qwen3VLMoeForConditionalGeneration", "", "num_local_experts is missing"},
        {"Phi3ForCausalLM", ",'partial_rotary_factor':2", "partial_rotary_factor is 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text, "{'architectures':['%s'],%s%s}", cases[i].class_name, SIZES,
                 cases[i].more);
        struct described d = describe(text);
        check(d.status != RN_OK && strstr(d.err.message, cases[i].message), "%s%s: status %d, '%s'",
              cases[i].class_name, cases[i].more, d.status, d.err.message);
        described_close(&d);
    }
}

// ---------------------------------------------------------------- GGUF

CASE(files_that_need_more_are_refused_by_name) {
    static const struct changed_case cases[] = {
        {"glm4",
         {.key = "glm4.nextn_predict_layers", .value = 1},
         RN_ERR_UNSUPPORTED,
         "glm4.nextn_predict_layers is 1: a block that predicts further tokens"},
        {"glm4",
         {.key = "glm4.rope.dimension_sections", .items = 4, .value = 8},
         RN_ERR_MODEL,
         "glm4.rope.dimension_sections is not supported"},
        {"glm4",
         {.key = "glm4.attention.sliding_window", .value = 8},
         RN_ERR_UNSUPPORTED,
         "glm4.attention.sliding_window is 8"},
        {"glm4",
         {.without = "blk.1.post_ffw_norm.weight"},
         RN_ERR_MODEL,
         "blk.1.post_ffw_norm.weight is missing"},
        {"exaone4-full",
         {.key = "exaone4.nextn_predict_layers", .value = 1},
         RN_ERR_UNSUPPORTED,
         "exaone4.nextn_predict_layers is 1"},
        {"cohere2",
         {.without = "cohere2.logit_scale"},
         RN_ERR_MODEL,
         "cohere2.logit_scale is missing"},
        {"cohere2",
         {.without = "cohere2.attention.sliding_window"},
         RN_ERR_MODEL,
         "cohere2.attention.sliding_window is missing"},
        {"cohere2",
         {.without = "cohere2.attention.layer_norm_epsilon"},
         RN_ERR_MODEL,
         "cohere2.attention.layer_norm_epsilon is missing"},
        {"cohere2",
         {.tensor = "blk.2.attn_norm.bias"},
         RN_ERR_UNSUPPORTED,
         "blk.2.attn_norm.bias is unknown"},
        {"cohere2",
         {.tensor = "blk.0.ffn_norm.weight"},
         RN_ERR_UNSUPPORTED,
         "blk.0.ffn_norm.weight is unknown"},
        {"starcoder2",
         {.without = "blk.1.ffn_norm.bias"},
         RN_ERR_MODEL,
         "blk.1.ffn_norm.bias is missing"},
        {"starcoder2",
         {.without = "output_norm.bias"},
         RN_ERR_MODEL,
         "output_norm.bias is missing"},
        {"seed_oss",
         {.tensor = "blk.0.attn_sinks.weight"},
         RN_ERR_UNSUPPORTED,
         "blk.0.attn_sinks.weight is unknown"},
        {"seed_oss",
         {.key = "seed_oss.attention.sliding_window", .value = 8},
         RN_ERR_UNSUPPORTED,
         "seed_oss.attention.sliding_window is 8"},
        {"ernie4_5",
         {.key = "ernie4_5.expert_count", .value = 0, .tensor = "blk.0.attn_q_norm.weight"},
         RN_ERR_UNSUPPORTED,
         "blk.0.attn_q_norm.weight is unknown"},
        {"hunyuan_v1_dense",
         {.without = "blk.0.attn_k_norm.weight"},
         RN_ERR_MODEL,
         "blk.0.attn_k_norm.weight is missing"},
        {"olmo3",
         {.key = "olmo2.expert_count", .value = 1},
         RN_ERR_MODEL,
         "olmo2.expert_used_count is missing"},
        {"qwen3_vl",
         {.tensor = "blk.0.attn_sinks.weight"},
         RN_ERR_UNSUPPORTED,
         "blk.0.attn_sinks.weight is unknown"},
        {"apertus", {.without = "xielu.alpha_p"}, RN_ERR_MODEL, "xielu.alpha_p"},
        {"apertus", {.without = "xielu.alpha_n"}, RN_ERR_MODEL, "xielu.alpha_n"},
        {"apertus",
         {.without = "xielu.beta", .key = "xielu.beta", .items = 2, .value = 1},
         RN_ERR_MODEL,
         "layer 2 has no number of xIELU within 10000, neither under key xielu.beta"},
        {"apertus",
         {.without = "xielu.eps", .key = "xielu.eps", .items = 3, .value = 100000},
         RN_ERR_MODEL,
         "xielu.eps"},
    };
    changed_cases_check(cases, sizeof cases / sizeof *cases);
}

// As a model of embeddings has it.
CASE(files_whose_tokens_see_later_ones_are_refused) {
    for (uint32_t is_causal = 0; is_causal < 2; is_causal++) {
        const struct change change = {.key = "seed_oss.attention.causal",
                                      .value = is_causal,
                                      .is_bool = true};
        struct model *model = calloc(1, sizeof *model);
        struct weights *weights;
        uint8_t *image;
        rn_error err = {0};
        assert_non_null(model);
        const rn_status status = changed_open("seed_oss", change, model, &weights, &image, &err);
        check(status == (is_causal ? RN_OK : RN_ERR_MODEL), "status %d", status);
        check(is_causal || strstr(err.message, "key seed_oss.attention.causal is false"), "'%s'",
              err.message);
        if (status == RN_OK) model_deinit(model);
        weights_close(weights);
        free(image);
        free(model);
    }
}

// The file of a reference model under the name of another architecture.
static uint8_t *renamed_image(const char *name, const char *from, const char *to, size_t *size) {
    char path[DATA_PATH_BYTES];
    struct weights *gguf;
    rn_error err = {0};
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", name);
    check(weights_open(path, &gguf, &err) == RN_OK, "%s", err.message);
    struct writer writer = writer_begin(3);
    writer_kv_str(&writer, "general.architecture", to);
    for (int i = 0; i < weights_meta_count(gguf); i++) {
        struct meta_view meta = *weights_meta_at(gguf, i);
        char key[160];
        if (strcmp(meta.key, "general.architecture") == 0) continue;
        const bool is_own = strncmp(meta.key, from, strlen(from)) == 0;
        snprintf(key, sizeof key, "%s%s", is_own ? to : "", meta.key + (is_own ? strlen(from) : 0));
        meta.key = key;
        writer_kv_copy(&writer, &meta);
    }
    for (int i = 0; i < weights_tensor_count(gguf); i++) {
        const struct tensor_view *tensor = weights_tensor_at(gguf, i);
        const uint64_t dims[] = {(uint64_t)tensor->dim[0], (uint64_t)tensor->dim[1],
                                 (uint64_t)tensor->dim[2]};
        writer_tensor(&writer, tensor->name, (uint32_t)tensor->n_dims, dims, 0,
                      tensor_bytes(gguf, tensor), tensor->bytes);
    }
    weights_close(gguf);
    return writer_finish(&writer, size);
}

// Ops, their operands and frequencies are the same.
CASE(qwen3vlmoe_has_the_plan_of_qwen3moe) {
    static const char *const to[] = {"qwen3moe", "qwen3vlmoe"};
    struct model *model[2];
    struct weights *weights[2];
    uint8_t *image[2];
    for (int i = 0; i < 2; i++) {
        rn_error err = {0};
        size_t size;
        model[i] = calloc(1, sizeof *model[i]);
        assert_non_null(model[i]);
        image[i] = renamed_image("qwen3moe", "qwen3moe", to[i], &size);
        assert_int_equal(weights_open_memory("m.gguf", image[i], size, &weights[i], &err), RN_OK);
        check(model_init(model[i], weights[i], &err) == RN_OK, "%s", err.message);
    }
    const struct plan *a = &model[0]->plan, *b = &model[1]->plan;
    assert_int_equal(a->n_op, b->n_op);
    for (int i = 0; i < a->n_op; i++) {
        const struct op *x = &a->op[i], *y = &b->op[i];
        assert_true(x->kind == y->kind && x->rows == y->rows && x->layer == y->layer);
        assert_true(x->in[0] == y->in[0] && x->in[1] == y->in[1] && x->out == y->out);
        assert_true(x->weight == y->weight && x->bias == y->bias);
    }
    assert_memory_equal(a->rope[0].inv_freq, b->rope[0].inv_freq,
                        (size_t)a->rope[0].n_rot / 2 * sizeof(float));
    for (int i = 0; i < 2; i++) {
        model_deinit(model[i]);
        weights_close(weights[i]);
        free(image[i]);
        free(model[i]);
    }
}

// The key is honoured whatever the number of layers: three of four layers have the window, and
// these alone are rotated. Other engines apply it to models of 64 layers only.
CASE(a_window_of_exaone4_is_that_of_its_folder) {
    for (int has_window = 0; has_window < 2; has_window++) {
        const struct change change = {.key = "exaone4.attention.sliding_window",
                                      .value = has_window ? 12 : 0};
        struct model *model = calloc(1, sizeof *model);
        struct weights *weights;
        uint8_t *image;
        rn_error err = {0};
        assert_non_null(model);
        check(changed_open("exaone4-full", change, model, &weights, &image, &err) == RN_OK, "%s",
              err.message);
        for (int i = 0; i < model->hp.n_layer; i++) {
            assert_int_equal(model->hp.layer[i].window, change.value);
            assert_true(model->hp.layer[i].rope != PLAN_NONE);
        }
        model_deinit(model);
        weights_close(weights);
        free(image);
        free(model);
    }
}

// The hyper-parameters alone, of a file with another number of layers.
CASE(the_largest_exaone4_has_a_window_where_a_file_does_not_say) {
    for (int n_layer = 63; n_layer <= 64; n_layer++) {
        const struct change change = {"exaone4.block_count", .key = "exaone4.block_count",
                                      .value = (uint32_t)n_layer};
        const struct arch *arch = arch_find("exaone4", 7);
        struct hparams *hp = calloc(1, sizeof *hp);
        struct weights *weights;
        rn_error err = {0};
        size_t size;
        uint8_t *image = changed_image("exaone4-full", change, &size);
        assert_non_null(hp);
        assert_int_equal(weights_open_memory("m.gguf", image, size, &weights, &err), RN_OK);
        check(!hparams_common(hp, weights, arch, &err) && !arch->read(hp, weights, &err), "%s",
              err.message);
        for (int i = 0; i < n_layer; i++) {
            const bool is_local = n_layer == 64 && (i + 1) % 4 != 0;
            assert_int_equal(hp->layer[i].window, is_local ? 4096 : 0);
            assert_true((hp->layer[i].rope != PLAN_NONE) == (is_local || n_layer == 63));
        }
        weights_close(weights);
        free(image);
        free(hp);
    }
}

// A file without a list of layers: all but each fourth.
CASE(olmo3_has_the_window_in_three_of_four_layers) {
    const struct change change = {.without = "olmo2.attention.sliding_window_pattern"};
    struct model *model = calloc(1, sizeof *model);
    struct weights *weights;
    uint8_t *image;
    rn_error err = {0};
    assert_non_null(model);
    check(changed_open("olmo3", change, model, &weights, &image, &err) == RN_OK, "%s", err.message);
    for (int i = 0; i < model->hp.n_layer; i++)
        assert_int_equal(model->hp.layer[i].window, i % 4 == 3 ? 0 : 12);
    model_deinit(model);
    weights_close(weights);
    free(image);
    free(model);
}

// Phi-4 rotates whole heads, Phi-4 mini three quarters of them. A window of 0 is none.
CASE(phi4_rotates_as_much_of_a_head_as_its_file_says) {
    static const struct {
        struct change change;
        int n_rot;
    } cases[] = {
        {{.without = "phi3.rope.dimension_count"}, 32},
        {{.without = "phi3.attention.sliding_window"}, 32},
        {{"phi3.rope.dimension_count", .key = "phi3.rope.dimension_count", .value = 24}, 24},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model *model = calloc(1, sizeof *model);
        struct weights *weights;
        uint8_t *image;
        rn_error err = {0};
        assert_non_null(model);
        check(changed_open("phi3", cases[i].change, model, &weights, &image, &err) == RN_OK, "%s",
              err.message);
        assert_int_equal(model->plan.n_rope, 1);
        assert_int_equal(model->plan.rope[0].n_rot, cases[i].n_rot);
        assert_int_equal(model->plan.n_group, 1);
        assert_int_equal(model->plan.group[0].kind, KV_FULL);
        model_deinit(model);
        weights_close(weights);
        free(image);
        free(model);
    }
}

// One number stands for all layers.
CASE(a_number_of_xielu_may_be_that_of_all_layers) {
    const struct change change = {.without = "xielu.beta", .key = "xielu.beta", .value = 2};
    struct model *model = calloc(1, sizeof *model);
    struct weights *weights;
    uint8_t *image;
    rn_error err = {0};
    int gates = 0;
    assert_non_null(model);
    check(changed_open("apertus", change, model, &weights, &image, &err) == RN_OK, "%s",
          err.message);
    for (int i = 0; i < model->plan.n_op; i++) {
        const struct op *op = &model->plan.op[i];
        if (op->kind != OP_GATE) continue;
        assert_int_equal(op->gate, GATE_XIELU);
        assert_true(op->xielu.linear == 2 && op->xielu.below > 2);
        gates++;
    }
    assert_int_equal(gates, model->hp.n_layer);
    model_deinit(model);
    weights_close(weights);
    free(image);
    free(model);
}

TEST_PROGRAM(dense) { return cases_run(NULL, NULL); }

// Families with experts: config.json as published gives a model of the published size and its
// router, and files or configs that need what is missing are refused by name.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "model/described.h"
#include "tensor_bytes.h"

// ---------------------------------------------------------------- published configs

#define EIGHT(x)      x "," x "," x "," x "," x "," x "," x "," x
#define THIRTY_TWO(x) EIGHT(x) "," EIGHT(x) "," EIGHT(x) "," EIGHT(x)

static const struct {
    const char *name, *arch;
    double params; // 10^9, without biases and drafting blocks
    int n_dense;   // layers before the experts
    int n_expert, n_used, n_ff_expert, n_ff_shared;
    enum route_score score;
    bool normalize;
    float scale;  // 0: none
    int n_rot;    // of a head
    double theta; // base of rope, in the file's model
    const char *text;
} published[] = {
    {"Qwen1.5 MoE A2.7B", "qwen2moe", 14.316, 0, 60, 4, 1408, 5632, ROUTE_SOFTMAX, false, 0, 128,
     1e6,
     "{'architectures':['Qwen2MoeForCausalLM'],'attention_dropout':0.0,'decoder_sparse_step':1,"
     "'hidden_act':'silu','hidden_size':2048,'intermediate_size':5632,'max_position_embeddings'"
     ":"
     "8192,'max_window_layers':21,'model_type':'qwen2_moe','moe_intermediate_size':1408,"
     "'norm_topk_prob':false,'num_attention_heads':16,'num_experts':60,'num_experts_per_tok':4,"
     "'num_hidden_layers':24,'num_key_value_heads':16,'output_router_logits':false,'rms_norm_"
     "eps':"
     "1e-06,'rope_theta':1000000.0,'shared_expert_intermediate_size':5632,'sliding_window':"
     "32768,"
     "'tie_word_embeddings':false,'use_sliding_window':false,'vocab_size':151936}"},
    {"Qwen2 57B A14B", "qwen2moe", 57.41, 0, 64, 8, 2560, 20480, ROUTE_SOFTMAX, false, 0, 128, 1e6,
     "{'architectures':['Qwen2MoeForCausalLM'],'decoder_sparse_step':1,'hidden_act':'silu',"
     "'hidden_size':3584,'intermediate_size':18944,'max_position_embeddings':32768,'mlp_only_"
     "layers'"
     ":[],'moe_intermediate_size':2560,'norm_topk_prob':false,'num_attention_heads':28,"
     "'num_experts':64,'num_experts_per_tok':8,'num_hidden_layers':28,'num_key_value_heads':4,"
     "'rms_norm_eps':1e-06,'rope_theta':1000000.0,'shared_expert_intermediate_size':20480,"
     "'sliding_window':65536,'use_sliding_window':false,'vocab_size':151936}"},
    {"OLMoE 1B 7B", "olmoe", 6.919, 0, 64, 8, 1024, 0, ROUTE_SOFTMAX, false, 0, 128, 1e4,
     "{'architectures':['OlmoeForCausalLM'],'attention_bias':false,'clip_qkv':null,'hidden_act'"
     ":"
     "'silu','hidden_size':2048,'intermediate_size':1024,'max_position_embeddings':4096,"
     "'model_type':'olmoe','norm_topk_prob':false,'num_attention_heads':16,'num_experts':64,"
     "'num_experts_per_tok':8,'num_hidden_layers':16,'num_key_value_heads':16,'rms_norm_eps':"
     "1e-05,"
     "'rope_scaling':null,'rope_theta':10000.0,'tie_word_embeddings':false,'vocab_size':"
     "50304}"},
    {"Granite 3.0 1B A400M", "granitemoe", 1.335, 0, 32, 8, 512, 0, ROUTE_SOFTMAX, true, 0, 64, 1e4,
     "{'architectures':['GraniteMoeForCausalLM'],'attention_bias':false,'attention_multiplier':"
     "0.015625,'embedding_multiplier':12.0,'hidden_act':'silu','hidden_size':1024,"
     "'intermediate_size':512,'logits_scaling':6.0,'max_position_embeddings':4096,'model_type':"
     "'granitemoe','num_attention_heads':16,'num_experts_per_tok':8,'num_hidden_layers':24,"
     "'num_key_value_heads':8,'num_local_experts':32,'residual_multiplier':0.22,'rms_norm_eps':"
     "1e-06,'rope_scaling':null,'rope_theta':10000,'tie_word_embeddings':true,'vocab_size':"
     "49155}"},
    {"Granite 3.1 3B A800M", "granitemoe", 3.299, 0, 40, 8, 512, 0, ROUTE_SOFTMAX, true, 0, 64, 1e7,
     "{'architectures':['GraniteMoeForCausalLM'],'attention_multiplier':0.015625,"
     "'embedding_multiplier':12.0,'hidden_act':'silu','hidden_size':1536,'intermediate_size':"
     "512,"
     "'logits_scaling':6.0,'max_position_embeddings':131072,'num_attention_heads':24,"
     "'num_experts_per_tok':8,'num_hidden_layers':32,'num_key_value_heads':8,'num_local_"
     "experts':40,"
     "'residual_multiplier':0.22,'rms_norm_eps':1e-06,'rope_theta':10000000,'tie_word_"
     "embeddings':"
     "true,'vocab_size':49155}"},
    {"Phi-3.5 MoE", "phimoe", 41.87, 0, 16, 2, 6400, 0, ROUTE_SPARSEMIXER, false, 0, 128, 1e4,
     "{'architectures':['PhiMoEForCausalLM'],'attention_bias':true,'hidden_act':'silu',"
     "'hidden_dropout':0.0,'hidden_size':4096,'input_jitter_noise':0.01,'intermediate_size':"
     "6400,"
     "'lm_head_bias':true,'max_position_embeddings':131072,'model_type':'phimoe',"
     "'num_attention_heads':32,'num_experts_per_tok':2,'num_hidden_layers':32,"
     "'num_key_value_heads':8,'num_local_experts':16,'original_max_position_embeddings':4096,"
     "'rms_norm_eps':1e-05,'rope_scaling':{'long_factor':[" THIRTY_TWO("2") "," THIRTY_TWO(
         "3") "],'long_mscale':1.243163121016122,'original_max_position_embeddings':4096,'"
              "short_factor':[" THIRTY_TWO("1") "," THIRTY_TWO("1") "],'short_mscale':1."
                                                                    "243163121016122,'type':'"
                                                                    "longrope'},"
                                                                    "'rope_theta':10000.0,'"
                                                                    "router_jitter_noise':0.01,"
                                                                    "'sliding_window':131072,"
                                                                    "'tie_word_embeddings':"
                                                                    "false,'vocab_size':"
                                                                    "32064}"},
    {"GLM 4.5 Air", "glm4moe", 106.85, 1, 128, 8, 1408, 1408, ROUTE_SIGMOID, true, 0, 64, 1e6,
     "{'architectures':['Glm4MoeForCausalLM'],'attention_bias':true,'first_k_dense_replace':1,"
     "'head_dim':128,'hidden_act':'silu','hidden_size':4096,'intermediate_size':10944,"
     "'max_position_embeddings':131072,'model_type':'glm4_moe','moe_intermediate_size':1408,"
     "'n_group':1,'n_routed_experts':128,'n_shared_experts':1,'norm_topk_prob':true,"
     "'num_attention_heads':96,'num_experts_per_tok':8,'num_hidden_layers':46,"
     "'num_key_value_heads':8,'num_nextn_predict_layers':1,'partial_rotary_factor':0.5,"
     "'rms_norm_eps':1e-05,'rope_scaling':null,'rope_theta':1000000,'routed_scaling_factor':1."
     "0,"
     "'tie_word_embeddings':false,'topk_group':1,'use_qk_norm':false,'vocab_size':151552}"},
    {"GLM 4.6", "glm4moe", 352.7, 3, 160, 8, 1536, 1536, ROUTE_SIGMOID, true, 2.5f, 64, 1e6,
     "{'architectures':['Glm4MoeForCausalLM'],'attention_bias':true,'first_k_dense_replace':3,"
     "'head_dim':128,'hidden_act':'silu','hidden_size':5120,'intermediate_size':12288,"
     "'max_position_embeddings':202752,'moe_intermediate_size':1536,'n_group':1,"
     "'n_routed_experts':160,'n_shared_experts':1,'norm_topk_prob':true,'num_attention_heads':"
     "96,"
     "'num_experts_per_tok':8,'num_hidden_layers':92,'num_key_value_heads':8,"
     "'num_nextn_predict_layers':1,'partial_rotary_factor':0.5,'rms_norm_eps':1e-05,'rope_"
     "theta':"
     "1000000,'routed_scaling_factor':2.5,'tie_word_embeddings':false,'topk_group':1,"
     "'use_qk_norm':true,'vocab_size':151552}"},
    {"MiniMax M2", "minimax-m2", 228.69, 0, 256, 8, 1536, 0, ROUTE_SIGMOID, true, 0, 64, 5e6,
     "{'architectures':['MiniMaxM2ForCausalLM'],'attn_type_list':[" THIRTY_TWO("1") "," EIGHT(
         "1") "," EIGHT("1") "," EIGHT("1") ",1,1,1,1,1,1],'head_dim':128,'hidden_act':'silu',"
                                            "'hidden_size':3072,'intermediate_size':1536,'max_"
                                            "position_embeddings':196608,'model_type':"
                                            "'minimax_m2','mtp_transformer_layers':1,'num_"
                                            "attention_heads':48,'num_experts_per_tok':8,"
                                            "'num_hidden_layers':62,'num_key_value_heads':8,'"
                                            "num_local_experts':256,'num_mtp_modules':3,"
                                            "'qk_norm_type':'per_layer','rms_norm_eps':1e-06,'"
                                            "rope_theta':5000000,'rotary_dim':64,"
                                            "'router_aux_loss_coef':0.001,'router_jitter_noise'"
                                            ":0.0,'scoring_func':'sigmoid',"
                                            "'shared_intermediate_size':0,'shared_moe_mode':'"
                                            "sigmoid','sliding_window':null,"
                                            "'tie_word_embeddings':false,'use_mtp':true,'use_"
                                            "qk_norm':true,'use_routing_bias':true,"
                                            "'vocab_size':200064}"},
    {"ERNIE 4.5 21B A3B", "ernie4_5-moe", 21.83, 1, 64, 6, 1536, 3072, ROUTE_SOFTMAX, true, 0, 128,
     5e5,
     "{'architectures':['Ernie4_5_MoeForCausalLM'],'hidden_act':'silu','hidden_size':2560,"
     "'intermediate_size':12288,'max_position_embeddings':131072,'model_type':'ernie4_5_moe',"
     "'moe_capacity':[64,64,64],'moe_gate':'topk','moe_intermediate_size':1536,'moe_k':6,"
     "'moe_layer_end_index':27,'moe_layer_interval':1,'moe_layer_start_index':1,"
     "'moe_norm_gate_logits':true,'moe_num_experts':64,'moe_num_shared_experts':2,"
     "'moe_use_aux_free':true,'num_attention_heads':20,'num_hidden_layers':28,"
     "'num_key_value_heads':4,'num_nextn_predict_layers':1,'rms_norm_eps':1e-05,'rope_scaling':"
     "null,'rope_theta':500000.0,'tie_word_embeddings':true,'use_bias':false,'vocab_size':"
     "103424}"},
    {"ERNIE 4.5 300B A47B", "ernie4_5-moe", 299.5, 3, 64, 8, 3584, 0, ROUTE_SOFTMAX, true, 0, 128,
     5e5,
     "{'architectures':['Ernie4_5_MoeForCausalLM'],'hidden_size':8192,'intermediate_size':"
     "28672,"
     "'max_position_embeddings':131072,'moe_intermediate_size':3584,'moe_k':8,"
     "'moe_layer_end_index':53,'moe_layer_interval':1,'moe_layer_start_index':3,'moe_num_"
     "experts':"
     "64,'moe_num_shared_experts':0,'num_attention_heads':64,'num_hidden_layers':54,"
     "'num_key_value_heads':8,'rms_norm_eps':1e-05,'rope_theta':500000.0,'tie_word_embeddings':"
     "false,'vocab_size':103424}"},
    {"Hunyuan A13B", "hunyuan-moe", 80.39, 0, 64, 8, 3072, 3072, ROUTE_SOFTMAX, true, 0, 128,
     11158840.0,
     "{'architectures':['HunYuanMoEV1ForCausalLM'],'attention_bias':false,'attention_head_dim':"
     "128,"
     "'cla_share_factor':2,'dense_list':[4096,0],'group_limited_greedy':false,'hidden_act':'"
     "silu',"
     "'hidden_size':4096,'intermediate_size':3072,'max_position_embeddings':32768,'mlp_bias':"
     "false,"
     "'model_type':'hunyuan_v1_moe','moe_drop_tokens':false,'moe_intermediate_size':"
     "[" THIRTY_TWO("3072") "],'moe_layer_num_skipped':0,'moe_topk':[" THIRTY_TWO(
         "8") "],'norm_topk_prob':true,'norm_type':'rms','num_attention_heads':32,'num_experts'"
              ":64,"
              "'num_hidden_layers':32,'num_key_value_heads':8,'num_shared_expert':[" THIRTY_TWO(
                  "1") "],'position_embedding_xdrope':false,'rms_norm_eps':1e-05,'rope_scaling'"
                       ":{'alpha':1000.0,"
                       "'beta_fast':32,'beta_slow':1,'factor':1.0,'mscale':1.0,'mscale_all_dim'"
                       ":1.0,'type':"
                       "'dynamic'},'rope_theta':10000.0,'tie_word_embeddings':true,'use_cla':"
                       "false,"
                       "'use_mixed_mlp_moe':true,'use_mla':false,'use_qk_norm':true,'use_"
                       "rotary_pos_emb':true,"
                       "'vocab_size':128167}"},
};
enum { N_PUBLISHED = sizeof published / sizeof *published };

static void check_layer(int i, int index, const struct layer *l) {
    const char *name = published[i].name;
    if (index < published[i].n_dense) {
        check(l->n_expert == 0 && l->n_ff > 0, "%s: layer %d", name, index);
        return;
    }
    check(l->n_expert == published[i].n_expert && l->n_expert_used == published[i].n_used,
          "%s: layer %d has %d of %d", name, index, l->n_expert_used, l->n_expert);
    check(l->n_ff_expert == published[i].n_ff_expert && l->n_ff_shared == published[i].n_ff_shared,
          "%s: layer %d: %d and %d wide", name, index, l->n_ff_expert, l->n_ff_shared);
    check(l->score == published[i].score && l->normalize_experts == published[i].normalize &&
              l->expert_scale == published[i].scale && l->n_expert_group == 0,
          "%s: layer %d", name, index);
}

CASE(published_configs_have_the_published_sizes_and_routers) {
    for (int i = 0; i < N_PUBLISHED; i++) {
        struct described d = describe(published[i].text);
        check(d.status == RN_OK, "%s: %s", published[i].name, d.err.message);
        const double params = (double)d.model->n_params / 1e9;
        assert_string_equal(model_arch_name(d.model), published[i].arch);
        check(fabs(params / published[i].params - 1) < 0.001, "%s: %.3f", published[i].name,
              params);
        const struct hparams *hp = &d.model->hp;
        for (int k = 0; k < hp->n_layer; k++) check_layer(i, k, &hp->layer[k]);
        check(hp->rope[0].n_rot == published[i].n_rot &&
                  fabs((double)hp->rope[0].base / published[i].theta - 1) < 1e-4,
              "%s: %d elements, base %g", published[i].name, hp->rope[0].n_rot,
              (double)hp->rope[0].base);
        described_close(&d);
    }
}

static struct described described_of(const char *name) {
    int i = 0;
    while (strcmp(published[i].name, name) != 0) i++;
    struct described d = describe(published[i].text);
    check(d.status == RN_OK, "%s: %s", name, d.err.message);
    return d;
}

static int norms_of_heads(const struct plan *plan) {
    int n = 0;
    for (int i = 0; i < plan->n_op; i++)
        n += plan->op[i].kind == OP_NORM && plan->op[i].layer == 0 && plan->op[i].norm.group == 128;
    return n;
}

CASE(glm_norms_q_and_k_where_its_config_says_so) {
    struct described air = described_of("GLM 4.5 Air"), large = described_of("GLM 4.6");
    assert_int_equal(norms_of_heads(&air.model->plan), 0);
    assert_int_equal(norms_of_heads(&large.model->plan), 2);
    described_close(&air);
    described_close(&large);
}

// PhiMoE gives the magnitude of cos and sin itself, and its router's closeness.
CASE(phimoe_has_its_own_numbers) {
    struct described d = described_of("Phi-3.5 MoE");
    assert_true(fabs((double)d.model->plan.rope[0].magnitude - 1.243163121016122) < 1e-6);
    assert_true(d.model->hp.layer[0].expert_jitter == 0.01f);
    const struct op *head = &d.model->plan.op[d.model->plan.n_op - 1];
    assert_true(head->kind == OP_MATMUL && head->bias != PLAN_NONE);
    described_close(&d);
}

#define SIZES                                                                                      \
    "'num_hidden_layers':2,'hidden_size':64,'max_position_embeddings':128,'intermediate_size':96," \
    "'vocab_size':32,'num_attention_heads':2,'num_key_value_heads':1,'rms_norm_eps':1e-6"
#define EXPERTS ",'num_experts':4,'num_experts_per_tok':2"
#define GLM     ",'n_routed_experts':8,'num_experts_per_tok':2,'moe_intermediate_size':32"
#define ERNIE   ",'moe_num_experts':4,'moe_k':2,'moe_intermediate_size':32"

CASE(configs_of_other_models_are_refused_by_key) {
    static const struct {
        const char *class_name, *more, *message;
    } cases[] = {
        {"Qwen2MoeForCausalLM", EXPERTS ",'mlp_only_layers':[0]", "mlp_only_layers is [0]"},
        {"Qwen2MoeForCausalLM", EXPERTS ",'decoder_sparse_step':2", "decoder_sparse_step is 2"},
        {"Qwen2MoeForCausalLM", EXPERTS ",'use_sliding_window':true", "use_sliding_window is true"},
        {"Qwen2MoeForCausalLM", EXPERTS ",'partial_rotary_factor':0.5", "partial_rotary_factor"},
        {"OlmoeForCausalLM", EXPERTS ",'clip_qkv':8.0", "clip_qkv is 8.0, expected null"},
        {"OlmoeForCausalLM", ",'num_experts':4,'num_experts_per_tok':5",
         "num_experts_per_tok is 5"},
        {"GraniteMoeForCausalLM", EXPERTS ",'hidden_act':'gelu'", "expected silu"},
        {"PhimoeForCausalLM", EXPERTS ",'num_local_experts':4,'num_experts_per_tok':3",
         "num_experts_per_tok"},
        {"PhimoeForCausalLM",
         ",'num_local_experts':4,'rope_scaling':{'type':'longrope','long_factor':[" EIGHT(
             "1") "," EIGHT("1") "],'short_factor':[" EIGHT("1") "," EIGHT("1") "],'long_mscale':2,"
                                                                                "'short_mscale':1}",
         "short_mscale 1 is not supported beside long_mscale 2"},
        {"PhimoeForCausalLM", ",'num_local_experts':4,'rope_scaling':{'type':'yarn','factor':2}",
         "type \"yarn\" is not supported for phimoe"},
        {"Glm4MoeForCausalLM", GLM ",'n_group':3,'topk_group':1",
         "expert_group_count is 3: 8 experts are not groups of one size"},
        {"Glm4MoeForCausalLM", GLM ",'n_group':8,'topk_group':2", "each of at least 2"},
        {"Glm4MoeForCausalLM", GLM ",'n_group':4,'topk_group':5", "expert_group_used_count is 5"},
        {"Glm4MoeForCausalLM",
         ",'n_routed_experts':8,'num_experts_per_tok':3,'moe_intermediate_size':32,'n_group':4,"
         "'topk_group':1",
         "expert_group_used_count is 1: these groups have 2 experts, and a token uses 3"},
        {"Glm4MoeForCausalLM", GLM ",'first_k_dense_replace':2", "expert_count"},
        {"MiniMaxM2ForCausalLM", EXPERTS ",'scoring_func':'softmax'",
         "scoring_func is \"softmax\", expected sigmoid"},
        {"MiniMaxM2ForCausalLM", EXPERTS ",'qk_norm_type':'per_head'", "expected per_layer"},
        {"MiniMaxM2ForCausalLM", EXPERTS ",'attn_type_list':[0,1]", "attn_type_list"},
        {"MiniMaxM2ForCausalLM", EXPERTS ",'use_qk_norm':false", "use_qk_norm is false"},
        {"MiniMaxM2ForCausalLM", EXPERTS ",'shared_intermediate_size':64",
         "shared_intermediate_size is 64"},
        {"MiniMaxM2ForCausalLM", EXPERTS ",'rotary_dim':32",
         "rotary_dim is not the 64 elements that partial_rotary_factor gives"},
        {"Ernie4_5_MoeForCausalLM", ERNIE ",'moe_layer_end_index':0", "moe_layer_end_index is 0"},
        {"Ernie4_5_MoeForCausalLM", ERNIE ",'moe_norm_min':0.1", "moe_norm_min is 0.1"},
        {"Ernie4_5_MoeForCausalLM", ERNIE ",'moe_layer_start_index':2", "expert_count"},
        {"HunYuanMoEV1ForCausalLM", ",'num_experts':4,'moe_topk':[2,1]",
         "moe_topk is [2,1], expected one value for all layers"},
        {"HunYuanMoEV1ForCausalLM", ",'num_experts':4,'moe_topk':[2]", "moe_topk is [2]"},
        {"HunYuanMoEV1ForCausalLM", ",'num_experts':4,'num_shared_expert':[2,2]",
         "num_shared_expert"},
        {"HunYuanMoEV1ForCausalLM", ",'num_experts':4,'use_cla':true", "use_cla is true"},
        {"HunYuanMoEV1ForCausalLM", ",'num_experts':4,'use_mla':true", "use_mla is true"},
        {"HunYuanMoEV1ForCausalLM", ",'num_experts':4,'moe_layer_num_skipped':1",
         "moe_layer_num_skipped is 1"},
        {"HunYuanMoEV1ForCausalLM", ",'num_experts':4,'use_qk_norm':false", "use_qk_norm is false"},
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

static const struct op *first_route(const struct plan *plan) {
    for (int i = 0; i < plan->n_op; i++)
        if (plan->op[i].kind == OP_ROUTE) return &plan->op[i];
    return NULL;
}

// ERNIE's experts in each n-th layer, GLM's groups.
CASE(settings_of_the_router_reach_the_plan) {
    struct described d = describe("{'architectures':['Ernie4_5_MoeForCausalLM']," SIZES ERNIE
                                  ",'moe_layer_interval':2,'moe_layer_start_index':0}");
    check(d.status == RN_OK, "%s", d.err.message);
    assert_true(d.model->hp.layer[0].n_expert == 0 && d.model->hp.layer[1].n_expert == 4);
    assert_true(first_route(&d.model->plan)->route.least == 1e-12f);
    described_close(&d);
    d = describe("{'architectures':['Glm4MoeForCausalLM']," SIZES GLM
                 ",'n_group':4,'topk_group':2,'norm_topk_prob':false,'routed_scaling_factor':2.5}");
    check(d.status == RN_OK, "%s", d.err.message);
    const struct op *op = first_route(&d.model->plan);
    assert_true(op->route.n_group == 4 && op->route.n_group_used == 2 && op->route.group_best == 2);
    assert_true(!op->route.normalize && op->route.scale == 2.5f && op->route.least == 1e-20f);
    described_close(&d);
}

// ---------------------------------------------------------------- GGUF

CASE(files_that_need_more_are_refused_by_name) {
    static const struct changed_case cases[] = {
        {"qwen2_moe",
         {.key = "qwen2moe.attention.sliding_window", .value = 8},
         RN_ERR_UNSUPPORTED,
         "qwen2moe.attention.sliding_window is 8"},
        {"qwen2_moe",
         {.without = "blk.1.ffn_up_shexp.weight"},
         RN_ERR_MODEL,
         "blk.1.ffn_up_shexp.weight is missing"},
        {"qwen2_moe",
         {.without = "blk.1.ffn_gate_inp_shexp.weight"},
         RN_ERR_MODEL,
         "blk.1.ffn_gate_inp_shexp.weight is missing"},
        {"glm4_moe",
         {.without = "blk.1.exp_probs_b.bias"},
         RN_ERR_MODEL,
         "blk.1.exp_probs_b.bias is missing"},
        {"minimax_m2",
         {.without = "blk.0.exp_probs_b.bias"},
         RN_ERR_MODEL,
         "blk.0.exp_probs_b.bias is missing"},
        {"mixtral",
         {.key = "llama.expert_gating_func", .value = 4},
         RN_ERR_MODEL,
         "llama.expert_gating_func is 4, expected 1 to 2"},
        {"qwen3moe",
         {.key = "qwen3moe.expert_group_count", .value = 3},
         RN_ERR_MODEL,
         "qwen3moe.expert_group_used_count is missing"},
        {"olmoe",
         {.key = "olmoe.expert_gating_func", .value = 4},
         RN_ERR_MODEL,
         "olmoe.expert_gating_func is 4, expected 1 to 2"},
        {"olmoe",
         {.tensor = "blk.0.ffn_gate_shexp.weight"},
         RN_ERR_UNSUPPORTED,
         "blk.0.ffn_gate_shexp.weight is unknown"},
        {"olmoe", {.without = "olmoe.expert_count"}, RN_ERR_MODEL, "olmoe.expert_count is missing"},
        {"granitemoe",
         {.key = "granitemoe.expert_shared_feed_forward_length", .value = 16},
         RN_ERR_MODEL,
         "blk.0.ffn_gate_shexp.weight is missing"},
        {"glm4_moe",
         {.without = "glm4moe.expert_group_count", .key = "glm4moe.expert_group_count", .value = 4},
         RN_ERR_MODEL,
         "glm4moe.expert_group_count is 4: 6 experts are not groups of one size"},
        {"glm4_moe",
         {.without = "blk.1.attn_k_norm.weight"},
         RN_ERR_MODEL,
         "blk.1.attn_k_norm.weight is missing"},
        {"glm4_moe",
         {.without = "glm4moe.leading_dense_block_count"},
         RN_ERR_MODEL,
         "blk.0.ffn_gate_inp.weight is missing"},
        {"minimax_m2",
         {.tensor = "blk.0.ffn_gate_inp_shexp.weight"},
         RN_ERR_UNSUPPORTED,
         "blk.0.ffn_gate_inp_shexp.weight is unknown"},
        {"ernie4_5_moe",
         {.without = "ernie4_5-moe.interleave_moe_layer_step",
          .key = "ernie4_5-moe.interleave_moe_layer_step",
          .value = 2},
         RN_ERR_MODEL,
         "blk.2.ffn_gate.weight is missing"},
        {"ernie4_5_moe",
         {.without = "ernie4_5-moe.expert_shared_feed_forward_length"},
         RN_OK,
         ""}, // the number of shared experts says it
        {"hunyuan_v1_moe",
         {.key = "hunyuan-moe.attention.sliding_window", .value = 8},
         RN_ERR_UNSUPPORTED,
         "hunyuan-moe.attention.sliding_window is 8"},
        {"hunyuan_v1_moe", {.tensor = "output.bias"}, RN_ERR_UNSUPPORTED, "output.bias is unknown"},
    };
    changed_cases_check(cases, sizeof cases / sizeof *cases);
}

// A GGUF of PhiMoE: two experts of which a token uses so many, and one tensor more. jitter: whether
// the file has the router's.
static void phimoe_check(bool jitter, uint32_t used, const char *more, const char *message) {
    enum { N = 8 };
    static const struct {
        const char *name;
        uint32_t n_dims;
    } tensors[] = {{"token_embd.weight", 2},          {"output_norm.weight", 1},
                   {"output_norm.bias", 1},           {"blk.0.attn_norm.weight", 1},
                   {"blk.0.attn_norm.bias", 1},       {"blk.0.attn_q.weight", 2},
                   {"blk.0.attn_k.weight", 2},        {"blk.0.attn_v.weight", 2},
                   {"blk.0.attn_output.weight", 2},   {"blk.0.ffn_norm.weight", 1},
                   {"blk.0.ffn_norm.bias", 1},        {"blk.0.ffn_gate_inp.weight", 2},
                   {"blk.0.ffn_gate_exps.weight", 3}, {"blk.0.ffn_up_exps.weight", 3},
                   {"blk.0.ffn_down_exps.weight", 3}};
    static const char *const sizes[] = {"embedding_length", "feed_forward_length", "expert_count"};
    static const uint64_t dims[] = {N, N, N}, bytes[] = {0, N * 4, N * N * 4, N * N * N * 4};
    struct writer writer = writer_begin(3);
    struct model *model = calloc(1, sizeof *model);
    struct weights *weights;
    rn_error err = {0};
    size_t size;
    assert_non_null(model);
    writer_kv_str(&writer, "general.architecture", "phimoe");
    writer_kv_u32(&writer, "phimoe.block_count", 1);
    writer_kv_u32(&writer, "phimoe.context_length", 64);
    writer_kv_u32(&writer, "phimoe.attention.head_count", 1);
    writer_kv_u32(&writer, "phimoe.expert_used_count", used);
    writer_kv_f32(&writer, "phimoe.attention.layer_norm_epsilon", 1e-5f);
    if (jitter) writer_kv_f32(&writer, "phimoe.router_jitter", 0.01f);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char key[64];
        snprintf(key, sizeof key, "phimoe.%s", sizes[i]);
        writer_kv_u32(&writer, key, N);
    }
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        writer_tensor(&writer, tensors[i].name, tensors[i].n_dims, dims, 0, NULL,
                      bytes[tensors[i].n_dims]);
    if (more) writer_tensor(&writer, more, 1, dims, 0, NULL, bytes[1]);
    uint8_t *image = writer_finish(&writer, &size);
    check(weights_open_memory("m.gguf", image, size, &weights, &err) == RN_OK, "%s", err.message);
    const rn_status status = model_init(model, weights, &err);
    check((status != RN_OK) == (message != NULL) && (!message || strstr(err.message, message)),
          "status %d, '%s'", status, err.message);
    if (status == RN_OK) model_deinit(model);
    weights_close(weights);
    free(image);
    free(model);
}

// Other readers give another text than the model's makers.
CASE(a_gguf_of_phimoe_is_refused) {
    phimoe_check(false, 2, NULL, "phimoe.router_jitter is missing");
}

// Its weights are those of two experts, whose choice has no bias.
CASE(a_gguf_of_phimoe_with_a_jitter_has_two_experts_and_no_bias_of_the_choice) {
    phimoe_check(true, 2, NULL, NULL);
    phimoe_check(true, 1, NULL, "key phimoe.expert_used_count is 1, expected 2");
    phimoe_check(true, 3, NULL, "key phimoe.expert_used_count is 3, expected 2");
    phimoe_check(true, 2, "blk.0.exp_probs_b.bias", "tensor blk.0.exp_probs_b.bias is unknown");
}

// ---------------------------------------------------------------- gate and up in one tensor

// The tensor of both: for each expert the gate's rows, then up's.
static void fused_write(struct writer *writer, const struct weights *from, int layer) {
    char name[64];
    snprintf(name, sizeof name, "blk.%d.ffn_gate_exps.weight", layer);
    const struct tensor_view *gate = weights_tensor_find(from, name);
    snprintf(name, sizeof name, "blk.%d.ffn_up_exps.weight", layer);
    const struct tensor_view *up = weights_tensor_find(from, name);
    const size_t n = (size_t)gate->dim[2], one = gate->bytes / n;
    const uint8_t *gates = tensor_bytes(from, gate), *ups = tensor_bytes(from, up);
    uint8_t *both = malloc(2 * gate->bytes);
    assert_non_null(both);
    for (size_t e = 0; e < n; e++) {
        memcpy(both + 2 * e * one, gates + e * one, one);
        memcpy(both + (2 * e + 1) * one, ups + e * one, one);
    }
    snprintf(name, sizeof name, "blk.%d.ffn_gate_up_exps.weight", layer);
    writer_tensor(writer, name, 3,
                  (const uint64_t[]){(uint64_t)gate->dim[0], 2 * (uint64_t)gate->dim[1], n}, 0,
                  both, 2 * gate->bytes);
    free(both);
}

static uint8_t *fused_image(const struct weights *from, int n_layer, size_t *size) {
    struct writer writer = writer_begin(3);
    for (int i = 0; i < weights_meta_count(from); i++)
        writer_kv_copy(&writer, weights_meta_at(from, i));
    for (int i = 0; i < weights_tensor_count(from); i++) {
        const struct tensor_view *t = weights_tensor_at(from, i);
        const uint64_t dims[] = {(uint64_t)t->dim[0], (uint64_t)t->dim[1], (uint64_t)t->dim[2]};
        if (strstr(t->name, "ffn_gate_exps") || strstr(t->name, "ffn_up_exps")) continue;
        writer_tensor(&writer, t->name, (uint32_t)t->n_dims, dims, 0, tensor_bytes(from, t),
                      t->bytes);
    }
    for (int i = 0; i < n_layer; i++) fused_write(&writer, from, i);
    return writer_finish(&writer, size);
}

// Every product with experts has the bytes of the file with two tensors.
CASE(gate_and_up_of_experts_may_be_one_tensor) {
    struct model *two = calloc(1, sizeof *two), *one = calloc(1, sizeof *one);
    struct weights *from, *fused;
    size_t size;
    rn_error err = {0};
    assert_true(two && one);
    assert_int_equal(weights_open(TEST_DATA "/golden/olmoe/model.gguf", &from, NULL), RN_OK);
    assert_int_equal(model_init(two, from, NULL), RN_OK);
    uint8_t *image = fused_image(from, two->hp.n_layer, &size);
    check(weights_open_memory("m.gguf", image, size, &fused, &err) == RN_OK, "%s", err.message);
    check(model_init(one, fused, &err) == RN_OK, "%s", err.message);
    assert_int_equal(one->plan.n_op, two->plan.n_op);
    int n = 0;
    for (int i = 0; i < one->plan.n_op; i++) {
        if (one->plan.op[i].kind != OP_EXPERTS) continue;
        const struct plan_weight *a = &two->plan.weight[two->plan.op[i].weight];
        const struct plan_weight *b = &one->plan.weight[one->plan.op[i].weight];
        assert_true(a->rows == b->rows && a->cols == b->cols && a->bytes == b->bytes);
        for (int e = 0; e < a->n_expert; e++, n++)
            assert_memory_equal(bytes_brought(from, a->expert_data[e],
                                              a->bytes / (uint64_t)a->n_expert),
                                b->expert_data[e], a->bytes / (uint64_t)a->n_expert);
    }
    assert_int_equal(n, 3 * 3 * 8); // layers, products, experts
    model_deinit(one);
    model_deinit(two);
    weights_close(fused);
    weights_close(from);
    free(image);
    free(one);
    free(two);
}

TEST_PROGRAM(mixtures) { return cases_run(NULL, NULL); }

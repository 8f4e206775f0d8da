// Models over a latent: config.json as published gives a model of the published size, with its
// latent, groups and score scale. A config or a file that needs more is refused by name.
#include <math.h>

#include "model/described.h"

#define V2                                                                                         \
    "'architectures':['DeepseekV2ForCausalLM'],'attention_bias':false,'attention_dropout':0.0,"    \
    "'auto_map':{'AutoConfig':'configuration_deepseek.DeepseekV2Config'},'aux_loss_alpha':0.001,"  \
    "'hidden_act':'silu','kv_lora_rank':512,'max_position_embeddings':163840,'model_type':"        \
    "'deepseek_v2','moe_layer_freq':1,'norm_topk_prob':false,'num_experts_per_tok':6,"             \
    "'n_shared_experts':2,'pretraining_tp':1,'qk_nope_head_dim':128,'qk_rope_head_dim':64,"        \
    "'rms_norm_eps':1e-06,'rope_scaling':{'beta_fast':32,'beta_slow':1,'factor':40,'mscale':"      \
    "0.707,'mscale_all_dim':0.707,'original_max_position_embeddings':4096,'type':'yarn'},"         \
    "'rope_theta':10000,'scoring_func':'softmax','seq_aux':true,'tie_word_embeddings':false,"      \
    "'v_head_dim':128,'vocab_size':102400"
#define V3                                                                                         \
    "'architectures':['DeepseekV3ForCausalLM'],'attention_bias':false,'attention_dropout':0.0,"    \
    "'ep_size':1,'hidden_act':'silu','hidden_size':7168,'intermediate_size':18432,'kv_lora_rank':" \
    "512,'moe_intermediate_size':2048,'moe_layer_freq':1,'n_shared_experts':1,'norm_topk_prob':"   \
    "true,'num_experts_per_tok':8,'num_hidden_layers':61,'q_lora_rank':1536,'qk_nope_head_dim':"   \
    "128,'qk_rope_head_dim':64,'rms_norm_eps':1e-06,'scoring_func':'sigmoid',"                     \
    "'tie_word_embeddings':false,'topk_method':'noaux_tc','v_head_dim':128"
#define YARN(fast, factor)                                                                         \
    "'rope_scaling':{'beta_fast':" fast ",'beta_slow':1,'factor':" factor ",'mscale':1.0,"         \
    "'mscale_all_dim':1.0,'original_max_position_embeddings':4096,'type':'yarn'}"
#define FP8                                                                                        \
    "'quantization_config':{'activation_scheme':'dynamic','fmt':'e4m3','quant_method':'fp8',"      \
    "'weight_block_size':[128,128]}"

static const char v3_text[] =
    "{" V3 ",'first_k_dense_replace':3,'max_position_embeddings':163840,'model_type':'deepseek_v3',"
    "'n_group':8,'n_routed_experts':256,'num_attention_heads':128,'num_key_value_heads':128,"
    "'num_nextn_predict_layers':1," YARN(
        "32", "40") ",'rope_theta':10000,"
                    "'routed_scaling_factor':2.5,'topk_group':4,'vocab_size':129280," FP8 "}";

static const struct {
    const char *name;
    double params;             // in 1e9
    int n_dense, n_head, n_q;  // leading layers without experts; heads; rank of queries
    int nope, value;           // of a head
    int n_group, n_group_used; // of experts
    double scale;              // of the experts' weights
    double mscale;             // of yarn, in the score scale
    const char *text;
} published[] = {
    {"DeepSeek V2 Lite", 15.706, 1, 16, 0, 128, 128, 0, 0, 0, 1.2608,
     "{" V2 ",'first_k_dense_replace':1,'hidden_size':2048,'intermediate_size':10944,"
     "'moe_intermediate_size':1408,'n_group':1,'n_routed_experts':64,'num_attention_heads':16,"
     "'num_hidden_layers':27,'num_key_value_heads':16,'q_lora_rank':null,"
     "'routed_scaling_factor':1.0,'topk_group':1,'topk_method':'greedy'}"},
    {"DeepSeek V2", 235.74, 1, 128, 1536, 128, 128, 8, 3, 16, 1.2608,
     "{" V2 ",'first_k_dense_replace':1,'hidden_size':5120,'intermediate_size':12288,"
     "'moe_intermediate_size':1536,'n_group':8,'n_routed_experts':160,'num_attention_heads':128,"
     "'num_hidden_layers':60,'num_key_value_heads':128,'q_lora_rank':1536,"
     "'routed_scaling_factor':16.0,'topk_group':3,'topk_method':'group_limited_greedy'}"},
    {"DeepSeek V3 and R1", 671.03, 3, 128, 1536, 128, 128, 8, 4, 2.5, 1.36889, v3_text},
    {"Kimi K2", 1026.4, 1, 64, 1536, 128, 128, 0, 0, 2.827, 1.34657,
     "{" V3 ",'first_k_dense_replace':1,'max_position_embeddings':131072,'model_type':'kimi_k2',"
     "'n_group':1,'n_routed_experts':384,'num_attention_heads':64,'num_key_value_heads':64,"
     "'num_nextn_predict_layers':0," YARN(
         "1.0", "32.0") ",'rope_theta':50000.0,"
                        "'routed_scaling_factor':2.827,'topk_group':1,'vocab_size':163840}"},
    {"GLM-4.7-Flash", 29.94, 1, 20, 768, 192, 256, 0, 0, 1.8, 1,
     "{'architectures':['Glm4MoeLiteForCausalLM'],'attention_bias':false,'attention_dropout':0.0,"
     "'dtype':'bfloat16','first_k_dense_replace':1,'hidden_act':'silu','hidden_size':2048,"
     "'intermediate_size':10240,'kv_lora_rank':512,'max_position_embeddings':202752,"
     "'model_type':'glm4_moe_lite','moe_intermediate_size':1536,'n_group':1,'n_routed_experts':64,"
     "'n_shared_experts':1,'norm_topk_prob':true,'num_attention_heads':20,'num_experts_per_tok':4,"
     "'num_hidden_layers':47,'num_key_value_heads':20,'num_nextn_predict_layers':1,"
     "'partial_rotary_factor':1.0,'q_lora_rank':768,'qk_nope_head_dim':192,'qk_rope_head_dim':64,"
     "'rms_norm_eps':1e-05,'rope_scaling':null,'rope_theta':1000000,'routed_scaling_factor':1.8,"
     "'tie_word_embeddings':false,'topk_group':1,'topk_method':'noaux_tc','v_head_dim':256,"
     "'vocab_size':154880}"},
};

static void check_layer(const char *name, const struct layer *l, size_t i, bool is_dense) {
    const int dim = published[i].nope + 64;
    const double scale = published[i].mscale * published[i].mscale / sqrt(dim);
    check(l->n_head == published[i].n_head && l->n_head_kv == 1, "%s: %d heads", name, l->n_head);
    check(l->dim_k == 576 && l->dim_v == 512 && l->latent.dim_rot == 64, "%s: %d", name, l->dim_k);
    check(l->latent.n_q == published[i].n_q && l->latent.dim_nope == published[i].nope &&
              l->latent.dim_v == published[i].value,
          "%s: %d", name, l->latent.dim_nope);
    check(fabs((double)l->attn_scale / scale - 1) < 1e-4, "%s: %g", name, (double)l->attn_scale);
    check((l->n_expert == 0) == is_dense, "%s: %d experts", name, l->n_expert);
    if (is_dense) return;
    check(l->n_expert_group == published[i].n_group &&
              l->n_expert_group_used == published[i].n_group_used,
          "%s: %d groups", name, l->n_expert_group);
    check(fabs((double)l->expert_scale - published[i].scale) < 1e-6, "%s: %g", name,
          (double)l->expert_scale);
    check(l->normalize_experts == (l->score == ROUTE_SIGMOID), "%s", name);
}

CASE(published_configs_have_the_published_sizes_and_latents) {
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        struct described d = describe(published[i].text);
        const char *name = published[i].name;
        check(d.status == RN_OK, "%s: %s", name, d.err.message);
        const double params = (double)d.model->n_params / 1e9;
        assert_string_equal(model_arch_name(d.model), "deepseek2");
        check(fabs(params / published[i].params - 1) < 0.003, "%s: %.3f", name, params);
        for (int k = 0; k < d.model->hp.n_layer; k++)
            check_layer(name, &d.model->hp.layer[k], i, k < published[i].n_dense);
        const struct plan *plan = &d.model->plan;
        assert_true(plan->n_group == 1 && plan->group[0].is_latent);
        check(plan->rope[0].n_rot == 64 && plan->rope[0].style == ROPE_INTERLEAVED, "%s", name);
        check(fabs((double)plan->rope[0].magnitude - 1) < 1e-6, "%s: %g", name,
              (double)plan->rope[0].magnitude);
        described_close(&d);
    }
}

// used: experts of a token; 0: those of the config.
static struct described without_groups(const char *text, uint32_t used) {
    struct described d = describe(text);
    check(d.status == RN_OK, "%s", d.err.message);
    model_deinit(d.model);
    const struct meta_view *meta = weights_meta_find(d.weights, "deepseek2.expert_group_count");
    assert_non_null(meta);
    // behind all other keys of the prefix, so that their order stays
    ((char *)(uintptr_t)meta->key)[strlen("deepseek2.expert_group_coun")] = '~';
    assert_null(weights_meta_find(d.weights, "deepseek2.expert_group_count"));
    const struct meta_view *count = weights_meta_find(d.weights, "deepseek2.expert_used_count");
    if (used) memcpy((void *)(uintptr_t)count->data, &used, sizeof used);
    memset(d.model, 0, sizeof *d.model);
    d.status = model_init(d.model, d.weights, &d.err);
    check(d.status == RN_OK, "%s", d.err.message);
    return d;
}

// As files of DeepSeek V2 and V3 were until converters named groups.
CASE(files_without_a_key_of_groups_have_those_of_the_published_model) {
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        struct described d = without_groups(published[i].text, 0);
        const int n = d.model->hp.n_layer;
        for (int k = 0; k < n; k++)
            check_layer(published[i].name, &d.model->hp.layer[k], i, k < published[i].n_dense);
        const struct layer *l = &d.model->hp.layer[n - 1];
        check(l->n_expert_group == 0 || l->expert_group_best == (l->score == ROUTE_SIGMOID ? 2 : 1),
              "%s: the best %d of a group", published[i].name, l->expert_group_best);
        described_close(&d);
    }
}

// Three of eight groups of V2 have 60 experts: a file whose tokens use more is another model's.
CASE(groups_that_no_key_names_hold_the_experts_of_a_token) {
    static const char text[] =
        "{" V2 ",'first_k_dense_replace':1,'hidden_size':5120,'intermediate_size':12288,"
        "'moe_intermediate_size':1536,'n_routed_experts':160,'num_attention_heads':128,"
        "'num_hidden_layers':3,'topk_method':'greedy'}";
    for (uint32_t used = 60; used <= 61; used++) {
        struct described d = without_groups(text, used);
        const struct layer *l = &d.model->hp.layer[d.model->hp.n_layer - 1];
        assert_int_equal(l->n_expert_used, used);
        check(l->n_expert_group == (used == 60 ? 8 : 0), "%u: %d groups", used, l->n_expert_group);
        described_close(&d);
    }
}

CASE(a_folder_of_one_group_has_none) {
    static const char *const texts[] = {
        "{" V3 ",'max_position_embeddings':128,'first_k_dense_replace':3,'n_routed_experts':256,"
        "'num_attention_heads':128,'n_group':1,'topk_group':1,'vocab_size':129280}",
        "{" V2 ",'first_k_dense_replace':1,'hidden_size':5120,'intermediate_size':12288,"
        "'moe_intermediate_size':1536,'n_routed_experts':160,'num_attention_heads':128,"
        "'num_hidden_layers':3,'topk_method':'greedy'}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct described d = describe(texts[i]);
        check(d.status == RN_OK, "%s", d.err.message);
        const struct layer *l = &d.model->hp.layer[d.model->hp.n_layer - 1];
        check(l->n_expert > 0 && l->n_expert_group == 0, "case %zu: %d groups", i,
              l->n_expert_group);
        described_close(&d);
    }
}

#define SIZES                                                                                      \
    "'num_hidden_layers':2,'hidden_size':64,'max_position_embeddings':128,'intermediate_size':96," \
    "'vocab_size':32,'num_attention_heads':2,'rms_norm_eps':1e-5,'kv_lora_rank':32,"               \
    "'qk_rope_head_dim':8,'qk_nope_head_dim':16,'v_head_dim':16,'n_routed_experts':8,"             \
    "'num_experts_per_tok':2,'moe_intermediate_size':32"

CASE(latents_are_normed_with_an_epsilon_of_their_own) {
    struct described d =
        describe("{'architectures':['Glm4MoeLiteForCausalLM'],'q_lora_rank':24," SIZES "}");
    check(d.status == RN_OK, "%s", d.err.message);
    int n_own = 0;
    for (int i = 0; i < d.model->plan.n_op; i++) {
        const struct op *op = &d.model->plan.op[i];
        if (op->kind != OP_NORM) continue;
        const char *name = d.model->plan.weight[op->weight].name;
        const bool is_own = strstr(name, "_a_norm") != NULL;
        check(op->norm.eps == (is_own ? 1e-6f : 1e-5f), "%s: %g", name, (double)op->norm.eps);
        n_own += is_own;
    }
    assert_int_equal(n_own, 4);
    described_close(&d);
}

CASE(a_folder_may_rotate_halves) {
    struct described d = describe("{'architectures':['DeepseekV3ForCausalLM'],'n_group':1,"
                                  "'rope_interleave':false," SIZES "}");
    check(d.status == RN_OK, "%s", d.err.message);
    assert_int_equal(d.model->plan.rope[0].style, ROPE_HALVES);
    described_close(&d);
}

CASE(configs_that_need_more_are_refused_by_key) {
    static const struct {
        const char *class_name, *more, *message;
    } cases[] = {
        {"DeepseekV32ForCausalLM", "", "DeepseekV32ForCausalLM is not supported"},
        {"GlmMoeDsaForCausalLM", "", "GlmMoeDsaForCausalLM is not supported"},
        {"DeepseekV3ForCausalLM", ",'attention_bias':true", "attention_bias is true"},
        {"DeepseekV3ForCausalLM", ",'moe_layer_freq':2", "moe_layer_freq is 2, expected 1"},
        {"DeepseekV3ForCausalLM", ",'scoring_func':'softmax'", "expected sigmoid"},
        {"DeepseekV3ForCausalLM", ",'topk_method':'greedy'", "expected noaux_tc"},
        {"DeepseekV3ForCausalLM", ",'n_group':3,'topk_group':1", "expert_group_count is 3"},
        {"DeepseekV3ForCausalLM", ",'n_group':1,'rope_scaling':{'type':'linear','factor':2}",
         "type \"linear\" is not supported for deepseek2"},
        {"DeepseekV3ForCausalLM",
         ",'n_group':1,'rope_scaling':{'type':'yarn','factor':4,'mscale':0.5,'mscale_all_dim':1,"
         "'original_max_position_embeddings':32}",
         "mscale other than mscale_all_dim"},
        {"DeepseekV2ForCausalLM", ",'scoring_func':'sigmoid'", "expected softmax"},
        {"DeepseekV2ForCausalLM", ",'norm_topk_prob':true", "norm_topk_prob is true"},
        {"DeepseekV2ForCausalLM", ",'topk_method':'noaux_tc'", "topk_method is \"noaux_tc\""},
        {"Glm4MoeLiteForCausalLM", ",'mlp_layer_types':['sparse','dense']",
         "layer 1 is dense behind experts"},
        {"Glm4MoeLiteForCausalLM", ",'partial_rotary_factor':0.5",
         "partial_rotary_factor 0.5 is not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text, "{'architectures':['%s']%s,%s}", cases[i].class_name,
                 cases[i].more, SIZES);
        struct described d = describe(text);
        check(d.status != RN_OK && strstr(d.err.message, cases[i].message), "%s%s: status %d, '%s'",
              cases[i].class_name, cases[i].more, d.status, d.err.message);
        described_close(&d);
    }
}

// ---------------------------------------------------------------- GGUF

CASE(files_that_need_more_are_refused_by_name) {
    static const struct changed_case cases[] = {
        {"deepseek_v2",
         {.without = "deepseek2.attention.key_length_mla"},
         RN_ERR_MODEL,
         "the file is from before attn_kv_b became attn_k_b and attn_v_b"},
        {"deepseek_v2",
         {.without = "blk.3.attn_k_b.weight"},
         RN_ERR_MODEL,
         "blk.3.attn_k_b.weight is missing"},
        {"deepseek_v2",
         {.without = "deepseek2.attention.head_count_kv"},
         RN_ERR_MODEL,
         "attention.head_count_kv is 2, expected 1"},
        {"deepseek_v2",
         {.without = "deepseek2.attention.kv_lora_rank",
          .key = "deepseek2.attention.kv_lora_rank",
          .value = 8},
         RN_ERR_MODEL,
         "attention.value_length is 16, expected 8"},
        {"deepseek_v2",
         {.without = "deepseek2.rope.dimension_count",
          .key = "deepseek2.rope.dimension_count",
          .value = 4},
         RN_ERR_MODEL,
         "attention.key_length is 24, expected 20"},
        {"deepseek_v2",
         {.key = "deepseek2.attention.temperature_scale", .value = 1},
         RN_ERR_MODEL,
         "attention.temperature_scale is not supported"},
        {"deepseek_v2",
         {.key = "deepseek2.attention.sliding_window", .value = 8},
         RN_ERR_UNSUPPORTED,
         "attention.sliding_window is 8"},
        {"deepseek_v3",
         {.tensor = "blk.0.indexer.k_norm.weight"},
         RN_ERR_UNSUPPORTED,
         "blk.0.indexer.k_norm.weight is unknown"},
        {"deepseek_v3",
         {.without = "blk.0.attn_q_a_norm.weight"},
         RN_ERR_MODEL,
         "blk.0.attn_q_a_norm.weight is missing"},
    };
    changed_cases_check(cases, sizeof cases / sizeof *cases);
}

TEST_PROGRAM(latent) { return cases_run(NULL, NULL); }

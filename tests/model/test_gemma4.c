// Gemma 4: published configs with their towers, layers that read an earlier layer's keys and
// values, the table that stays in its file, and files that are refused.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "gguf_writer.h"
#include "model/arch.h"
#include "plan/cost.h"
#include "weights/folder.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

// ---------------------------------------------------------------- published configs

struct published {
    const char *name, *type;
    int n_layer, period, n_embd, n_ff, n_head, n_kv, full_kv, shared, input, window;
    bool k_eq_v, is_double, has_experts;
};

static const struct published published[] = {
    {"E2B", "Gemma4", 35, 5, 1536, 6144, 8, 1, 0, 20, 256, 512, false, true, false},
    {"E4B", "Gemma4", 42, 6, 2560, 10240, 8, 2, 0, 18, 256, 512, false, false, false},
    {"12B", "Gemma4Unified", 48, 6, 3840, 15360, 16, 8, 1, 0, 0, 1024, true, false, false},
    {"26B-A4B", "Gemma4", 30, 6, 2816, 2112, 16, 8, 2, 0, 0, 1024, true, false, true},
    {"31B", "Gemma4", 60, 6, 5376, 21504, 32, 16, 4, 0, 0, 1024, true, false, false},
};

static const char *text_of(bool is_true) { return is_true ? "true" : "false"; }

// As the folders have it. swap: this part of the text becomes `with`; NULL: none does.
static void published_write(const struct published *p, const struct data_folder *folder,
                            const char *swap, const char *with) {
    char types[2048] = "", kv[16] = "null", text[6144], changed[6400];
    for (int i = 0; i < p->n_layer; i++)
        snprintf(types + strlen(types), sizeof types - strlen(types), "%s'%s_attention'",
                 i ? "," : "", (i + 1) % p->period ? "sliding" : "full");
    if (p->full_kv) snprintf(kv, sizeof kv, "%d", p->full_kv);
    snprintf(
        text, sizeof text,
        "{'architectures':['%sForConditionalGeneration'],'audio_config':{'hidden_size':1024,"
        "'num_hidden_layers':12},'image_token_id':258880,'text_config':{'attention_bias':false,"
        "'attention_k_eq_v':%s,'enable_moe_block':%s,'final_logit_softcapping':30.0,"
        "'global_head_dim':512,'head_dim':256,'hidden_activation':'gelu_pytorch_tanh',"
        "'hidden_size':%d,'hidden_size_per_layer_input':%d,'intermediate_size':%d,"
        "'layer_types':[%s],'max_position_embeddings':131072,'moe_intermediate_size':%s,"
        "'num_attention_heads':%d,'num_experts':%s,'num_global_key_value_heads':%s,"
        "'num_hidden_layers':%d,'num_key_value_heads':%d,'num_kv_shared_layers':%d,"
        "'rms_norm_eps':1e-06,'rope_parameters':{'full_attention':{'partial_rotary_factor':0.25,"
        "'rope_theta':1000000.0,'rope_type':'proportional'},'sliding_attention':{'rope_theta':"
        "10000.0,'rope_type':'default'}},'sliding_window':%d,'tie_word_embeddings':true,"
        "'top_k_experts':%s,'use_bidirectional_attention':%s,'use_double_wide_mlp':%s,"
        "'vocab_size':262144,'vocab_size_per_layer_input':262144},'vision_config':{'head_dim':64,"
        "'hidden_size':768,'num_hidden_layers':16}}",
        p->type, text_of(p->k_eq_v), text_of(p->has_experts), p->n_embd, p->input, p->n_ff, types,
        p->has_experts ? "704" : "null", p->n_head, p->has_experts ? "128" : "null", kv, p->n_layer,
        p->n_kv, p->shared, p->window, p->has_experts ? "8" : "null",
        p->k_eq_v ? "'vision'" : "null", text_of(p->is_double));
    const char *at = swap ? strstr(text, swap) : NULL;
    check(!swap || at, "no %s", swap);
    snprintf(changed, sizeof changed, "%.*s%s%s", at ? (int)(at - text) : 0, text, at ? with : "",
             at ? at + strlen(swap) : text);
    folder_text(folder, "config.json", changed);
}

struct described {
    struct weights *weights;
    struct model *model;
};

static rn_status config_describe(const struct published *p, const char *swap, const char *with,
                                 struct weights **out, rn_error *err) {
    char path[DATA_PATH_BYTES];
    const struct data_folder folder = data_folder_make();
    published_write(p, &folder, swap, with);
    snprintf(path, sizeof path, "%s/config.json", folder.path);
    const rn_status status = model_weights_describe(path, out, err);
    data_folder_remove(&folder);
    return status;
}

static struct described describe(const struct published *p, const char *swap, const char *with) {
    struct described d = {.model = calloc(1, sizeof *d.model)};
    rn_error err = {0};
    assert_non_null(d.model);
    check(config_describe(p, swap, with, &d.weights, &err) == RN_OK, "%s: %s", p->name,
          err.message);
    check(model_init(d.model, d.weights, &err) == RN_OK, "%s: %s", p->name, err.message);
    return d;
}

static void described_free(struct described *d) {
    model_deinit(d->model);
    weights_close(d->weights);
    free(d->model);
}

static void config_refused(const struct published *p, const char *swap, const char *with,
                           const char *message) {
    struct weights *weights = NULL;
    rn_error err = {0};
    const rn_status status = config_describe(p, swap, with, &weights, &err);
    check(status != RN_OK && strstr(err.message, message), "expected '%s': '%s'", message,
          err.message);
}

// Layers that keep keys and values, of each kind.
static void check_groups(const struct published *p, const struct plan *plan) {
    const int own = p->n_layer - p->shared, full = own / p->period;
    assert_int_equal(plan->n_group, 2);
    const struct plan_kv_group *g = plan->group;
    check(g[0].kind == KV_FULL && g[0].n_layer == full, "%s: %d full", p->name, g[0].n_layer);
    assert_int_equal(g[0].n_head_kv, p->full_kv ? p->full_kv : p->n_kv);
    assert_int_equal(g[0].dim_k, 512);
    assert_int_equal(g[0].dim_v, 512);
    check(g[1].kind == KV_WINDOW && g[1].n_layer == own - full, "%s: %d", p->name, g[1].n_layer);
    assert_int_equal(g[1].n_head_kv, p->n_kv);
    assert_int_equal(g[1].dim_k, 256);
    assert_int_equal(g[1].window, p->window);
}

CASE(published_configs_open) {
    static const double billions[] = {4.63, 7.46, 11.9, 25.2, 30.7}; // without the towers
    for (int i = 0; i < COUNT(published); i++) {
        const struct published *p = &published[i];
        struct described d = describe(p, NULL, NULL);
        const struct hparams *hp = &d.model->hp;
        check_groups(p, &d.model->plan);
        check_near((double)d.model->n_params / 1e9, billions[i], 0.05);
        const struct layer *last = &hp->layer[p->n_layer - 1];
        assert_int_equal(last->n_ff, p->is_double ? 2 * p->n_ff : p->n_ff);
        assert_int_equal(hp->layer[0].n_ff, p->n_ff);
        assert_int_equal(last->k_is_v, p->k_eq_v);
        assert_int_equal(hp->layer[0].k_is_v, false);
        assert_int_equal(last->n_expert, p->has_experts ? 128 : 0);
        assert_int_equal(hp->n_embd_layer, p->input);
        check_near((double)last->attn_scale, 1, 0);
        check_near((double)hp->logit_softcap, 30, 0);
        described_free(&d);
    }
}

// A quarter of the frequencies of the whole head; layers with a window have all of theirs.
CASE(full_layers_turn_a_quarter_of_their_frequencies) {
    struct described d = describe(&published[0], NULL, NULL);
    const struct plan_rope *full = &d.model->plan.rope[0], *local = &d.model->plan.rope[1];
    assert_int_equal(d.model->plan.n_rope, 2);
    assert_int_equal(full->n_rot, 512);
    assert_int_equal(local->n_rot, 256);
    check_near((double)full->inv_freq[1], 0.9474635, 1e-6); // 1e6^(-2/512)
    for (int i = 0; i < 256; i++)
        check((full->inv_freq[i] > 1e-20f) == (i < 64), "%d: %g", i, (double)full->inv_freq[i]);
    check_near((double)local->inv_freq[127], 1.0746078e-4, 1e-9); // 1e4^(-254/256)
    described_free(&d);
}

// Newer configs have an object for each full layer instead of two keys.
CASE(a_config_may_have_an_object_for_each_layer) {
    const struct published toy = {"toy", "Gemma4", 4, 2,  64,   96,    4,    2,
                                  0,     0,        0, 64, true, false, false};
    static const char key[] = "'global_head_dim':512";
    struct described d = describe(
        &toy, key,
        "'per_layer_config':{'01':{'head_dim':128,'num_key_value_heads':1},'03':{'head_dim':128,"
        "'num_key_value_heads':1}}");
    assert_int_equal(d.model->hp.layer[3].dim_k, 128);
    assert_int_equal(d.model->hp.layer[3].n_head_kv, 1);
    assert_int_equal(d.model->hp.layer[2].dim_k, 256);
    assert_int_equal(d.model->hp.layer[2].n_head_kv, 2);
    described_free(&d);
    config_refused(&toy, key, "'per_layer_config':{'1':{'head_dim':128}}",
                   "per_layer_config: layer 3 has a head_dim of 256");
    config_refused(&toy, key,
                   "'per_layer_config':{'0':{'head_dim':64},'1':{'head_dim':128},'3':{'head_dim':"
                   "128}}",
                   "per_layer_config: layer 0 has a head_dim of 64");
}

CASE(settings_that_are_not_honoured_are_refused) {
    static const char *const rows[][3] = {
        {"'use_bidirectional_attention':null", "'use_bidirectional_attention':'all'",
         "use_bidirectional_attention is \"all\""},
        {"'rope_type':'proportional'", "'rope_type':'default'",
         "partial_rotary_factor 0.25 is not supported"},
        {"'partial_rotary_factor':0.25,'rope_theta':1000000.0,'rope_type':'proportional'",
         "'rope_type':'yarn','factor':2", "rope scaling: type \"yarn\" is not supported"},
        {"'rope_type':'default'", "'rope_type':'default','partial_rotary_factor':0.5",
         "partial_rotary_factor 0.5 of sliding_attention is not supported"},
        {"'rope_parameters'", "'rope_other'", "rope_parameters is missing"},
        {"'attention_bias':false", "'attention_bias':true", "attention_bias is true"},
        {"'gelu_pytorch_tanh'", "'silu'", "hidden_activation is \"silu\""},
        {"'full_attention'],", "'sliding_attention'],", "the last layer has a window"},
        {"'enable_moe_block':false", "'enable_moe_block':true", "enable_moe_block needs"},
        {"'intermediate_size'", "'other_size'", "intermediate_size is missing"},
        {"'num_kv_shared_layers':20", "'num_kv_shared_layers':34",
         "key gemma4.attention.shared_kv_layers is 34: layer 4 finds no layer of its kind"},
        {"Gemma4ForConditional", "Gemma4AssistantForConditional", "Gemma4AssistantForConditional"},
    };
    for (int i = 0; i < COUNT(rows); i++)
        config_refused(&published[0], rows[i][0], rows[i][1], rows[i][2]);
}

// ---------------------------------------------------------------- shared keys and values

static int count_ops(const struct plan *plan, enum op_kind kind) {
    int n = 0;
    for (int i = 0; i < plan->n_op; i++) n += plan->op[i].kind == kind;
    return n;
}

static const struct op *attention_of(const struct plan *plan, int layer) {
    const struct op *op = plan->op;
    while (op->kind != OP_ATTENTION || op->layer != layer) op++;
    return op;
}

// The last layer of each kind with keys of its own is 23 and 22 of E4B, 14 and 13 of E2B.
CASE(the_last_layers_read_an_earlier_layers_keys) {
    for (int i = 0; i < 2; i++) {
        const struct published *p = &published[i];
        struct described d = describe(p, NULL, NULL);
        const struct plan *plan = &d.model->plan;
        const int own = p->n_layer - p->shared;
        assert_int_equal(count_ops(plan, OP_ATTENTION), p->n_layer);
        assert_int_equal(count_ops(plan, OP_KV_APPEND), own);
        for (int l = own; l < p->n_layer; l++) {
            const int from = (l + 1) % p->period ? own - 2 : own - 1;
            const struct op *op = attention_of(plan, l), *like = attention_of(plan, from);
            assert_int_equal(op->kv.group, like->kv.group);
            assert_int_equal(op->kv.layer, like->kv.layer);
        }
        described_free(&d);
    }
}

// Nothing behind the last append is computed for rows without a result.
CASE(rows_without_a_result_end_at_the_last_append) {
    struct described d = describe(&published[0], NULL, NULL);
    const struct plan *plan = &d.model->plan;
    const int own = published[0].n_layer - published[0].shared;
    const struct kv_bytes kv = {.page = {196608, 393216}};
    const struct batch_shape silent = {.n_tokens = 64, .n_seqs = 1};
    uint64_t before = 0;
    for (int i = 0; i < plan->n_op; i++) {
        const struct op *op = &plan->op[i];
        const struct cost cost = op_cost(plan, op, &kv, &silent);
        if (op->layer >= own)
            check(op->rows == ROWS_OUT && cost.weight_bytes == 0, "op %d of layer %d", i,
                  op->layer);
        before += cost.weight_bytes;
    }
    // layers 0 to 13, layer 14 without its last product and feed-forward, and the product of the
    // inputs: far less than half
    struct batch_shape one;
    batch_shape_decode(plan, 100, &one);
    const uint64_t all = plan_cost(plan, &kv, &one).weight_bytes;
    check(before * 100 > all * 15 && before * 100 < all * 35, "%llu of %llu",
          (unsigned long long)before, (unsigned long long)all);
    // a token is kept once, in 15 layers: 3 x 1 x 1024 + 12 x 1 x 512 numbers of 2 bytes
    assert_int_equal(plan_kv_token_bytes(plan, &kv), 2 * (3 * 1024 + 12 * 512));
    assert_int_equal(plan_cost(plan, &kv, &one).kv_write_bytes, 2 * (3 * 1024 + 12 * 512));
    described_free(&d);
}

// ---------------------------------------------------------------- the table

CASE(the_table_costs_a_row) {
    struct described d = describe(&published[1], NULL, NULL);
    const struct plan *plan = &d.model->plan;
    const struct kv_bytes kv = {.page = {1, 1}};
    const uint64_t row = 42 * 256 * 2; // BF16
    struct batch_shape one;
    int n = 0;
    batch_shape_decode(plan, 100, &one);
    assert_int_equal(plan_cold_bytes(plan), 262144 * row);
    for (int i = 0; i < plan->n_op; i++) {
        const struct op *op = &plan->op[i];
        if (op->weight == PLAN_NONE || !plan->weight[op->weight].is_cold) continue;
        assert_int_equal(op->kind, OP_EMBED);
        assert_int_equal(op_cost(plan, op, &kv, &one).weight_bytes, row);
        n++;
    }
    assert_int_equal(n, 1);
    // 2.0 billion weights are read for a token: all but the table and the rows of the embedding,
    // which is the head as well
    check_near((double)plan_cost(plan, &kv, &one).weight_bytes / 1e9, 2 * (7.463 - 2.819), 0.01);
    described_free(&d);
}

// ---------------------------------------------------------------- files

enum { EMBD = 32, VOCAB = 8, FF = 48 };
enum { GGUF_F32 = 0, GGUF_TYPE_U32 = 4, GGUF_TYPE_BOOL = 7 };

// Two layers with a window, one without, and one of each that reads their keys. `key` has `value`
// instead; -1: it is absent. absent: so is this one.
static struct writer file_begin_without(const char *arch, const char *key, int value,
                                        const char *absent) {
    static const struct {
        const char *key;
        int value;
    } keys[] = {
        {"block_count", 5},
        {"context_length", 64},
        {"embedding_length", EMBD},
        {"feed_forward_length", FF},
        {"attention.head_count", 2},
        {"attention.head_count_kv", 1},
        {"attention.key_length", 16},
        {"attention.value_length", 16},
        {"attention.key_length_swa", 8},
        {"attention.value_length_swa", 8},
        {"attention.sliding_window", 4},
        {"attention.shared_kv_layers", 2},
        {"embedding_length_per_layer_input", 0},
        {"rope.dimension_count_swa", 8},
        {"expert_shared_feed_forward_length", 0},
    };
    struct writer w = writer_begin(3);
    char name[128];
    writer_kv_str(&w, "general.architecture", arch);
    writer_kv_f32(&w, "gemma4.attention.layer_norm_rms_epsilon", 1e-6f);
    for (int i = 0; i < COUNT(keys); i++) {
        const int own = key && strcmp(key, keys[i].key) == 0 ? value : keys[i].value;
        snprintf(name, sizeof name, "gemma4.%s", keys[i].key);
        if (own >= 0 && (!absent || strcmp(absent, keys[i].key) != 0))
            writer_kv_u32(&w, name, (uint32_t)own);
    }
    if (!key || strcmp(key, "attention.sliding_window_pattern") != 0) {
        writer_kv_array(&w, "gemma4.attention.sliding_window_pattern", GGUF_TYPE_BOOL, 5);
        writer_put(&w.kv, "\1\1\0\1", 5);
    }
    return w;
}

static struct writer file_begin(const char *arch, const char *key, int value) {
    return file_begin_without(arch, key, value, NULL);
}

static void put_tensor(struct writer *w, const char *name, uint64_t cols, uint64_t rows,
                       const void *data) {
    const uint64_t dims[] = {cols, rows};
    writer_tensor(w, name, rows ? 2 : 1, dims, GGUF_F32, data,
                  cols * (rows ? rows : 1) * sizeof(float));
}

// scale: of layer 3. more: keys of the layers without their own.
static void put_tensors(struct writer *w, float scale, bool more) {
    static const char *const norms[] = {"attn_norm", "post_attention_norm", "ffn_norm",
                                        "post_ffw_norm"};
    char name[64];
    put_tensor(w, "token_embd.weight", EMBD, VOCAB, NULL);
    put_tensor(w, "output_norm.weight", EMBD, 0, NULL);
    for (int i = 0; i < 5; i++) {
        const uint64_t dim = i == 2 || i == 4 ? 16 : 8;
        const struct {
            const char *name;
            uint64_t cols, rows;
            bool is_there;
        } rows[] = {
            {"attn_q.weight", EMBD, 2 * dim, true},
            {"attn_output.weight", 2 * dim, EMBD, true},
            {"attn_q_norm.weight", dim, 0, true},
            {"attn_k.weight", EMBD, dim, i < 3 || more},
            {"attn_v.weight", EMBD, dim, i < 2 || (i > 2 && more)},
            {"attn_k_norm.weight", dim, 0, i < 3 || more},
            {"ffn_gate.weight", EMBD, FF, true},
            {"ffn_up.weight", EMBD, FF, true},
            {"ffn_down.weight", FF, EMBD, true},
        };
        for (int k = 0; k < COUNT(norms); k++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", i, norms[k]);
            put_tensor(w, name, EMBD, 0, NULL);
        }
        for (int k = 0; k < COUNT(rows); k++) {
            snprintf(name, sizeof name, "blk.%d.%s", i, rows[k].name);
            if (rows[k].is_there) put_tensor(w, name, rows[k].cols, rows[k].rows, NULL);
        }
    }
    put_tensor(w, "blk.3.layer_output_scale.weight", 1, 0, &scale);
}

static void file_check(struct writer *w, const char *message,
                       void (*look)(const struct model *model)) {
    struct model *model = calloc(1, sizeof *model);
    struct weights *weights;
    rn_error err = {0};
    size_t size;
    assert_non_null(model);
    uint8_t *image = writer_finish(w, &size);
    check(weights_open_memory("m.gguf", image, size, &weights, &err) == RN_OK, "%s", err.message);
    const rn_status status = model_init(model, weights, &err);
    if (message)
        check(status != RN_OK && strstr(err.message, message), "expected '%s': '%s'", message,
              err.message);
    else
        check(status == RN_OK, "%s", err.message);
    if (look) look(model);
    if (status == RN_OK) model_deinit(model);
    weights_close(weights);
    free(model);
    free(image);
}

// The layer without attn_v norms the keys' product twice: for the values first.
static void look_at_values(const struct model *model) {
    const struct plan *plan = &model->plan;
    const struct op *append = plan->op;
    while (append->kind != OP_KV_APPEND || append->layer != 2) append++;
    const struct op *v = NULL, *k = NULL;
    for (const struct op *op = append; op->layer == 2; op--) {
        if (op->kind != OP_NORM) continue;
        if (op->out == append->in[1]) v = op;
        if (op->out == append->in[0]) k = op;
    }
    assert_true(v && k && v < k);
    assert_int_equal(v->in[0], append->in[0]);
    assert_int_equal(v->weight, PLAN_NONE);
    assert_true(k->weight != PLAN_NONE);
    assert_true(model->hp.layer[2].k_is_v && !model->hp.layer[0].k_is_v);
}

// The factor behind layer 3 is in its last norm.
static void look_at_factor(const struct model *model) {
    const struct plan *plan = &model->plan;
    for (int i = 0; i < plan->n_op; i++) {
        const struct op *op = &plan->op[i];
        if (op->kind != OP_NORM) continue;
        const bool is_last = op->weight != PLAN_NONE && strcmp(plan->weight[op->weight].name,
                                                               "blk.3.post_ffw_norm.weight") == 0;
        check_near((double)op->norm.scale, is_last ? 0.75 : 0, 0);
    }
}

CASE(a_missing_attn_v_means_the_keys) {
    struct writer w = file_begin("gemma4", NULL, 0);
    put_tensors(&w, 0.75f, false);
    file_check(&w, NULL, look_at_values);
}

CASE(the_factor_of_a_layer_is_behind_its_last_norm) {
    struct writer w = file_begin("gemma4", NULL, 0);
    put_tensors(&w, 0.75f, false);
    file_check(&w, NULL, look_at_factor);
    static const float wrong[] = {0, (float)INFINITY};
    for (int i = 0; i < COUNT(wrong); i++) {
        w = file_begin("gemma4", NULL, 0);
        put_tensors(&w, wrong[i], false);
        file_check(&w, "tensor blk.3.layer_output_scale is", NULL);
    }
}

// Published files have them; the model does not use them.
CASE(keys_of_layers_that_read_others_are_ignored) {
    struct writer w = file_begin("gemma4", NULL, 0);
    put_tensors(&w, 1, true);
    file_check(&w, NULL, NULL);
    w = file_begin("gemma4", NULL, 0);
    put_tensors(&w, 1, true);
    put_tensor(&w, "blk.3.attn_other.weight", EMBD, 0, NULL);
    file_check(&w, "tensor blk.3.attn_other.weight is unknown", NULL);
    w = file_begin("gemma4", NULL, 0);
    put_tensors(&w, 1, true);
    put_tensor(&w, "per_layer_token_embd.weight", EMBD, VOCAB, NULL); // the keys say that none is
    file_check(&w, "tensor per_layer_token_embd.weight is unknown", NULL);
}

CASE(keys_that_are_missing_or_wrong_are_named) {
    static const struct {
        const char *key;
        int value;
        const char *message;
    } rows[] = {
        {"attention.sliding_window", -1, "key gemma4.attention.sliding_window is missing"},
        {"attention.sliding_window_pattern", -1,
         "key gemma4.attention.sliding_window_pattern is missing"},
        {"attention.key_length_swa", -1, "key gemma4.attention.key_length_swa is missing"},
        {"attention.value_length_swa", 4, "key gemma4.attention.value_length_swa is 4"},
        {"attention.value_length", 8, "key gemma4.attention.value_length is 8, keys have 16"},
        {"attention.head_count_kv", 0, "key gemma4.attention.head_count_kv is 0 for layer 0"},
        {"attention.shared_kv_layers", 4, "key gemma4.attention.shared_kv_layers is 4: layer 2"},
        {"attention.shared_kv_layers", 5, "key gemma4.attention.shared_kv_layers is 5"},
        {"rope.dimension_count_swa", 7, "key gemma4.rope.dimension_count_swa is 7"},
        {"feed_forward_length", 0, "key gemma4.feed_forward_length is missing for layer 0"},
        {"expert_shared_feed_forward_length", 8, "a shared expert is not supported"},
        {"embedding_length_per_layer_input", 8, "tensor per_layer_model_proj.weight is missing"},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        struct writer w = file_begin("gemma4", rows[i].key, rows[i].value);
        put_tensors(&w, 1, false);
        file_check(&w, rows[i].message, NULL);
    }
}

// Without a size of heads it follows from their number: one rope and one scale would not fit all.
CASE(heads_of_several_sizes_are_refused) {
    static const uint32_t heads[] = {2, 2, 4, 2, 2};
    struct writer w = file_begin("gemma4", "attention.head_count", -1);
    writer_kv_array(&w, "gemma4.attention.head_count", GGUF_TYPE_U32, COUNT(heads));
    writer_put(&w.kv, heads, sizeof heads);
    put_tensors(&w, 1, false);
    file_check(&w, "tensor blk.2.attn_q.weight", NULL); // a size is told: it is that of all layers
    w = file_begin_without("gemma4", "attention.key_length", -1, "attention.head_count");
    writer_kv_array(&w, "gemma4.attention.head_count", GGUF_TYPE_U32, COUNT(heads));
    writer_put(&w.kv, heads, sizeof heads);
    put_tensors(&w, 1, false);
    file_check(&w, "key gemma4.attention.key_length is missing: heads of layer 2 have", NULL);
}

CASE(files_that_make_no_text_are_refused_by_their_type) {
    static const char *const rows[][2] = {
        {"adapter", "m.gguf: it is an adapter (LoRA), not a model: merge it into its model first"},
        {"mmproj", "m.gguf: it reads images or sound for another file"},
        {"imatrix", "m.gguf: it is an importance matrix, which quantizing reads"},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        struct writer w = writer_begin(3); // a matrix names no architecture, an adapter another's
        writer_kv_str(&w, "general.type", rows[i][0]);
        if (i == 0) writer_kv_str(&w, "general.architecture", "llama");
        put_tensor(&w, "blk.0.attn_q.weight.lora_a", EMBD, 1, NULL);
        file_check(&w, rows[i][1], NULL);
    }
    struct writer w = file_begin("gemma4", NULL, 0);
    writer_kv_str(&w, "general.type", "model");
    put_tensors(&w, 1, false);
    file_check(&w, NULL, NULL);
}

CASE(parts_of_other_models_are_refused_by_name) {
    static const char *const rows[][2] = {
        {"gemma4-assistant", "'gemma4-assistant' is no model of its own: it drafts for models of"},
        {"clip", "'clip' is not supported: it reads images or sound for another file"},
        {"controlvector", "'controlvector' is not supported: it is a control vector"},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        struct writer w = file_begin(rows[i][0], NULL, 0);
        put_tensors(&w, 1, false);
        file_check(&w, rows[i][1], NULL);
    }
}

TEST_PROGRAM(gemma4) { return cases_run(NULL, NULL); }

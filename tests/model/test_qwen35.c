// Files of Qwen 3.5, its mixtures and Qwen3-Next that others made. Keys may be missing, lists may
// name the recurrent layers, blocks may follow the last layer. A wrong file is refused with the key
// or tensor that is wrong.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "gguf_writer.h"
#include "model/arch.h"
#include "weights/folder.h"

enum {
    EMBD = 32,
    HEADS = 2,
    DIM = 8,
    FF = 64,
    VOCAB = 8,
    TAPS = 4,
    KEYS = 2,
    VALUES = 4,
    STATE = 8
};
enum { CHANNELS = 2 * KEYS * STATE + VALUES * STATE };
enum { GGUF_F32 = 0, ABSENT = -1 };

// One difference from a good file. Layer 0 is recurrent, layer 1 has attention.
struct change {
    const char *key;     // without the architecture
    int64_t value;       // ABSENT: no such key
    const char *without; // this tensor is missing
};

struct file {
    struct writer writer;
    const char *arch;
    struct change change;
    bool is_changed; // the key is among those of a good file
};

static void put_key(struct file *file, const char *suffix, int64_t value) {
    char name[128];
    if (file->change.key && strcmp(file->change.key, suffix) == 0) {
        value = file->change.value;
        file->is_changed = true;
    }
    if (value == ABSENT) return;
    snprintf(name, sizeof name, "%s.%s", file->arch, suffix);
    writer_kv_u32(&file->writer, name, (uint32_t)value);
}

static void put_tensor(struct file *file, const char *name, uint64_t cols, uint64_t rows) {
    const uint64_t dims[] = {cols, rows};
    if (file->change.without && strcmp(file->change.without, name) == 0) return;
    writer_tensor(&file->writer, name, rows ? 2 : 1, dims, GGUF_F32, NULL,
                  cols * (rows ? rows : 1) * sizeof(float));
}

static const struct row {
    const char *name;
    int cols, rows;
} rows[] = {
    {"token_embd.weight", EMBD, VOCAB},
    {"output_norm.weight", EMBD, 0},
    {"blk.0.attn_norm.weight", EMBD, 0},
    {"blk.0.attn_qkv.weight", EMBD, CHANNELS},
    {"blk.0.attn_gate.weight", EMBD, VALUES *STATE},
    {"blk.0.ssm_alpha.weight", EMBD, VALUES},
    {"blk.0.ssm_beta.weight", EMBD, VALUES},
    {"blk.0.ssm_conv1d.weight", TAPS, CHANNELS},
    {"blk.0.ssm_a", VALUES, 0},
    {"blk.0.ssm_dt.bias", VALUES, 0},
    {"blk.0.ssm_norm.weight", STATE, 0},
    {"blk.0.ssm_out.weight", VALUES *STATE, EMBD},
    {"blk.0.post_attention_norm.weight", EMBD, 0},
    {"blk.0.ffn_gate.weight", EMBD, FF},
    {"blk.0.ffn_up.weight", EMBD, FF},
    {"blk.0.ffn_down.weight", FF, EMBD},
    {"blk.1.attn_norm.weight", EMBD, 0},
    {"blk.1.attn_q.weight", EMBD, 2 * HEADS *DIM},
    {"blk.1.attn_k.weight", EMBD, HEADS *DIM},
    {"blk.1.attn_v.weight", EMBD, HEADS *DIM},
    {"blk.1.attn_q_norm.weight", DIM, 0},
    {"blk.1.attn_k_norm.weight", DIM, 0},
    {"blk.1.attn_output.weight", HEADS *DIM, EMBD},
    {"blk.1.post_attention_norm.weight", EMBD, 0},
    {"blk.1.ffn_gate.weight", EMBD, FF},
    {"blk.1.ffn_up.weight", EMBD, FF},
    {"blk.1.ffn_down.weight", FF, EMBD},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static struct file file_begin(const char *arch, struct change change) {
    struct file file = {writer_begin(3), arch, change, false};
    char eps[64];
    writer_kv_str(&file.writer, "general.architecture", arch);
    snprintf(eps, sizeof eps, "%s.attention.layer_norm_rms_epsilon", arch);
    writer_kv_f32(&file.writer, eps, 1e-6f);
    put_key(&file, "block_count", 2);
    put_key(&file, "context_length", 64);
    put_key(&file, "embedding_length", EMBD);
    put_key(&file, "feed_forward_length", FF);
    put_key(&file, "attention.head_count", HEADS);
    put_key(&file, "attention.key_length", DIM);
    put_key(&file, "attention.value_length", DIM);
    put_key(&file, "rope.dimension_count", DIM / 2);
    put_key(&file, "ssm.conv_kernel", TAPS);
    put_key(&file, "ssm.state_size", STATE);
    put_key(&file, "ssm.group_count", KEYS);
    put_key(&file, "ssm.time_step_rank", VALUES);
    put_key(&file, "ssm.inner_size", VALUES * STATE);
    put_key(&file, "full_attention_interval", 2);
    for (int i = 0; i < N_ROWS; i++)
        put_tensor(&file, rows[i].name, (uint64_t)rows[i].cols, (uint64_t)rows[i].rows);
    return file;
}

// With the changed key, also where a good file has none.
static struct file file_changed(const char *arch, struct change change) {
    struct file file = file_begin(arch, change);
    if (change.key && !file.is_changed) put_key(&file, change.key, change.value);
    return file;
}

struct opened {
    uint8_t *image;
    struct weights *weights;
    struct model *model;
    rn_error err;
    rn_status status;
};

static struct opened file_open(struct file *file) {
    struct opened o = {.model = calloc(1, sizeof *o.model)};
    size_t size;
    assert_non_null(o.model);
    o.image = writer_finish(&file->writer, &size);
    const rn_status status = weights_open_memory("m.gguf", o.image, size, &o.weights, &o.err);
    check(status == RN_OK, "%s", o.err.message);
    o.status = model_init(o.model, o.weights, &o.err);
    return o;
}

static void file_close(struct opened *o) {
    if (o->status == RN_OK) model_deinit(o->model);
    weights_close(o->weights);
    free(o->model);
    free(o->image);
}

static struct opened file_good(struct file *file) {
    struct opened o = file_open(file);
    check(o.status == RN_OK, "%s", o.err.message);
    return o;
}

static void file_refused(struct file *file, rn_status status, const char *message) {
    struct opened o = file_open(file);
    check(o.status == status && strstr(o.err.message, message), "expected '%s', status %d: '%s'",
          message, o.status, o.err.message);
    file_close(&o);
}

// ---------------------------------------------------------------- good files

CASE(layers_are_those_of_the_interval) {
    struct file file = file_begin("qwen35", (struct change){0});
    struct opened o = file_good(&file);
    const struct hparams *hp = &o.model->hp;
    const struct recurrence *r = &hp->layer[0].recurrence;
    assert_int_equal(hp->layer[0].n_head_kv, 0);
    assert_int_equal(hp->layer[1].n_head_kv, HEADS);
    assert_int_equal(hp->layer[1].recurrence.taps, 0);
    assert_int_equal(r->taps, TAPS);
    assert_int_equal(r->n_channel, CHANNELS);
    assert_int_equal(r->dim_v, STATE);
    assert_true(r->is_tiled);
    assert_int_equal(hp->rope[0].n_rot, DIM / 2);
    assert_int_equal(o.model->plan.n_group, 2);
    assert_int_equal(o.model->plan.group[1].state, (TAPS - 1) * CHANNELS + VALUES * STATE * STATE);
    file_close(&o);
}

CASE(lists_may_name_the_recurrent_layers) {
    static const int32_t kv_heads[] = {0, HEADS};
    struct file file =
        file_begin("qwen35", (struct change){"full_attention_interval", ABSENT, NULL});
    writer_kv_i32_array(&file.writer, "qwen35.attention.head_count_kv", kv_heads, 2);
    struct opened o = file_good(&file);
    file_close(&o);
    file = file_begin("qwen35", (struct change){"full_attention_interval", ABSENT, NULL});
    writer_kv_array(&file.writer, "qwen35.attention.recurrent_layers", META_BOOL, 2);
    writer_put(&file.writer.kv, "\1", 2);
    o = file_good(&file);
    file_close(&o);
    // a layer without KV heads that the list does not have
    file = file_begin("qwen35", (struct change){0});
    writer_kv_i32_array(&file.writer, "qwen35.attention.head_count_kv", kv_heads, 2);
    writer_kv_array(&file.writer, "qwen35.attention.recurrent_layers", META_BOOL, 2);
    writer_put(&file.writer.kv, "\0\1", 2);
    file_refused(&file, RN_ERR_MODEL,
                 "key qwen35.attention.head_count_kv has no heads for layer 0");
}

CASE(a_missing_inner_size_is_that_of_square_states) {
    struct file file = file_begin("qwen35", (struct change){"ssm.inner_size", ABSENT, NULL});
    struct opened o = file_good(&file);
    assert_int_equal(o.model->hp.layer[0].recurrence.dim_v, STATE);
    file_close(&o);
}

// block_count has them, the layers are without them. A block that has no eh_proj is left out.
CASE(blocks_behind_the_layers_may_draft) {
    struct file file = file_begin("qwen35", (struct change){"block_count", 3, NULL});
    put_key(&file, "nextn_predict_layers", 1);
    put_tensor(&file, "blk.2.attn_norm.weight", EMBD, 0);
    struct opened o = file_good(&file);
    assert_int_equal(o.model->hp.n_layer, 2);
    assert_int_equal(o.model->hp.n_nextn, 1);
    assert_int_equal(o.model->plan.n_op_all, o.model->plan.n_op);
    file_close(&o);
    // one that is not whole
    file = file_begin("qwen35", (struct change){"block_count", 3, NULL});
    put_key(&file, "nextn_predict_layers", 1);
    put_tensor(&file, "blk.2.nextn.eh_proj.weight", 2 * EMBD, EMBD);
    put_tensor(&file, "blk.2.nextn.enorm.weight", EMBD, 0);
    file_refused(&file, RN_ERR_MODEL, "tensor blk.2.nextn.hnorm.weight is missing");
    // a block behind these
    file = file_begin("qwen35", (struct change){"block_count", 3, NULL});
    put_key(&file, "nextn_predict_layers", 1);
    put_tensor(&file, "blk.3.attn_norm.weight", EMBD, 0);
    file_refused(&file, RN_ERR_UNSUPPORTED, "tensor blk.3.attn_norm.weight is unknown");
}

// ---------------------------------------------------------------- wrong files

CASE(wrong_keys_are_refused_by_name) {
    static const struct {
        const char *key;
        int64_t value;
        const char *message;
    } cases[] = {
        {"ssm.conv_kernel", ABSENT, "key qwen35.ssm.conv_kernel is missing"},
        {"ssm.conv_kernel", 1, "key qwen35.ssm.conv_kernel is 1, expected 2 to 16"},
        {"ssm.conv_kernel", 17, "key qwen35.ssm.conv_kernel is 17, expected 2 to 16"},
        {"ssm.conv_kernel", 5, "tensor blk.0.ssm_conv1d.weight"},
        {"ssm.state_size", ABSENT, "key qwen35.ssm.state_size is missing"},
        {"ssm.state_size", 0, "key qwen35.ssm.state_size is 0, expected 1 to 1024"},
        {"ssm.state_size", 1025, "key qwen35.ssm.state_size is 1025, expected 1 to 1024"},
        {"ssm.state_size", 16, "tensor blk.0.attn_qkv.weight"},
        {"ssm.group_count", 0, "key qwen35.ssm.group_count is 0, expected 1 to 1024"},
        {"ssm.group_count", 4, "tensor blk.0.attn_qkv.weight"},
        {"ssm.group_count", 3, "key qwen35.ssm.time_step_rank is 4, expected a multiple of 3"},
        {"ssm.time_step_rank", 0, "key qwen35.ssm.time_step_rank is 0"},
        {"ssm.time_step_rank", 5, "key qwen35.ssm.time_step_rank is 5, expected a multiple of 2"},
        {"ssm.time_step_rank", 0x7fffffff, "key qwen35.ssm.time_step_rank is 2147483647"},
        {"ssm.inner_size", 33, "key qwen35.ssm.inner_size is 33, expected a multiple of 4 heads"},
        {"ssm.inner_size", 8192, "key qwen35.ssm.inner_size is 8192, expected a multiple of 4"},
        {"ssm.inner_size", 64, "tensor blk.0.attn_qkv.weight"},
        {"full_attention_interval", 0, "key qwen35.full_attention_interval is 0"},
        {"full_attention_interval", 1, "tensor blk.0.attn_q.weight is missing"},
        {"full_attention_interval", ABSENT, "tensor blk.1.attn_qkv.weight is missing"},
        {"attention.value_length", 16, "key qwen35.attention.value_length is 16, expected 8"},
        {"feed_forward_length", ABSENT, "key qwen35.feed_forward_length is missing"},
        {"nextn_predict_layers", 2, "key qwen35.nextn_predict_layers is 2, expected 0 to 1"},
        {"block_count", 3, "tensor blk.2.attn_norm.weight is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct file file =
            file_changed("qwen35", (struct change){cases[i].key, cases[i].value, NULL});
        file_refused(&file, RN_ERR_MODEL, cases[i].message);
    }
}

CASE(missing_tensors_are_refused_by_name) {
    for (int i = 0; i < N_ROWS; i++) {
        char message[128];
        struct file file = file_begin("qwen35", (struct change){.without = rows[i].name});
        snprintf(message, sizeof message, "tensor %s is missing", rows[i].name);
        file_refused(&file, RN_ERR_MODEL, message);
    }
}

CASE(an_unknown_tensor_is_refused) {
    struct file file = file_begin("qwen35", (struct change){0});
    put_tensor(&file, "blk.0.ssm_d", VALUES, 0);
    file_refused(&file, RN_ERR_UNSUPPORTED, "tensor blk.0.ssm_d is unknown");
}

CASE(mixtures_need_their_keys) {
    struct file file = file_begin("qwen35moe", (struct change){0});
    file_refused(&file, RN_ERR_MODEL, "key qwen35moe.expert_count is missing or 0");
    file = file_begin("qwen3next", (struct change){"feed_forward_length", ABSENT, NULL});
    put_key(&file, "expert_count", 4);
    put_key(&file, "expert_used_count", 2);
    file_refused(&file, RN_ERR_MODEL, "key qwen3next.expert_feed_forward_length is missing");
    file = file_begin("qwen3next", (struct change){"feed_forward_length", ABSENT, NULL});
    put_key(&file, "expert_count", 4);
    put_key(&file, "expert_used_count", 2);
    put_key(&file, "expert_feed_forward_length", 16);
    file_refused(&file, RN_ERR_MODEL,
                 "key qwen3next.expert_shared_feed_forward_length is missing or 0");
    file = file_begin("qwen35", (struct change){0});
    put_key(&file, "expert_count", 4);
    put_key(&file, "expert_used_count", 2);
    file_refused(&file, RN_ERR_UNSUPPORTED, "key qwen35.expert_count is 4");
}

// ---------------------------------------------------------------- folders

#define CONFIG                                                                                     \
    "{'architectures':['Qwen3_5ForConditionalGeneration'],'text_config':{'num_hidden_layers':4,"   \
    "'hidden_size':64,'max_position_embeddings':128,'intermediate_size':96,'vocab_size':32,"       \
    "'num_attention_heads':2,'num_key_value_heads':1,'head_dim':64"

static void describe(const char *more, struct weights **out, rn_status *status, rn_error *err) {
    char text[1024], path[DATA_PATH_BYTES];
    const struct data_folder folder = data_folder_make();
    snprintf(text, sizeof text, "%s%s}}", CONFIG, more);
    folder_text(&folder, "config.json", text);
    snprintf(path, sizeof path, "%s/config.json", folder.path);
    *status = model_weights_describe(path, out, err);
    data_folder_remove(&folder);
}

// The defaults of the class: heads of 128, 16 of keys and 32 of values, every fourth layer with
// attention, a quarter of a head rotated.
CASE(a_config_has_the_defaults_of_its_class) {
    struct weights *weights;
    struct model *model = calloc(1, sizeof *model);
    rn_error err = {0};
    rn_status status;
    assert_non_null(model);
    describe("", &weights, &status, &err);
    check(status == RN_OK, "%s", err.message);
    check(model_init(model, weights, &err) == RN_OK, "%s", err.message);
    const struct recurrence *r = &model->hp.layer[2].recurrence;
    assert_int_equal(r->taps, 4);
    assert_int_equal(r->dim_k, 128);
    assert_int_equal(r->dim_v, 128);
    assert_int_equal(r->n_key, 16);
    assert_int_equal(r->n_head, 32);
    assert_false(r->is_tiled);
    assert_int_equal(model->hp.layer[3].n_head_kv, 1);
    assert_int_equal(model->hp.rope[0].n_rot, 16);
    model_deinit(model);
    weights_close(weights);
    free(model);
}

CASE(wrong_configs_are_refused_by_key) {
    static const struct {
        const char *more, *message;
    } cases[] = {
        {",'linear_num_value_heads':24", "qwen35.ssm.time_step_rank is 24"},
        {",'linear_num_value_heads':0", "linear_num_value_heads is 0"},
        {",'linear_num_key_heads':100000", "linear_num_key_heads is 100000"},
        {",'linear_key_head_dim':4096", "linear_key_head_dim is 4096"},
        {",'linear_value_head_dim':4096", "linear_value_head_dim is 4096"},
        {",'linear_conv_kernel_dim':99", "linear_conv_kernel_dim is 99"},
        {",'full_attention_interval':0", "full_attention_interval is 0"},
        {",'layer_types':['linear_attention']", "layer_types has 1 items"},
        {",'layer_types':['conv','conv','conv','conv']", "layer_types: \"conv\" is not supported"},
        {",'attn_output_gate':false", "attn_output_gate"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weights *weights;
        rn_error err = {0};
        rn_status status;
        describe(cases[i].more, &weights, &status, &err);
        check(status != RN_OK && strstr(err.message, cases[i].message), "%s: status %d, '%s'",
              cases[i].more, status, err.message);
    }
}

TEST_PROGRAM(qwen35) { return cases_run(NULL, NULL); }

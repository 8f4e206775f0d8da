// Models with Mamba-2 layers that a file describes wrongly are refused with the key or tensor.
// Cases are made from the reference models by changing bytes of their headers. Where rows cross to
// the out rows in a layer with two mixers is pinned here too.
#define _GNU_SOURCE 1 // memmem
#include "data_file.h"
#include "model/model.h"

static struct data_file load(const char *name) {
    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", name);
    return data_file_read(path);
}

static rn_status try_model(const struct data_file *file, rn_error *err) {
    struct weights *weights;
    struct model *model = calloc(1, sizeof *model);
    assert_non_null(model);
    rn_status status = weights_open_memory("m.gguf", file->data, file->size, &weights, err);
    check(status == RN_OK, "%s", err->message);
    status = model_init(model, weights, err);
    if (!status) model_deinit(model);
    weights_close(weights);
    free(model);
    return status;
}

// Where `text` is as a whole name: behind its length.
static uint8_t *find_name(const struct data_file *file, const char *text) {
    const uint64_t len = strlen(text);
    uint8_t *at = (uint8_t *)file->data;
    while ((at = memmem(at, file->size - (size_t)(at - (uint8_t *)file->data), text, len))) {
        if (memcmp(at - 8, &len, 8) == 0) return at;
        at++;
    }
    fail_msg("%s is not in the file", text);
    return NULL;
}

static void refused(const char *name, const char *text, size_t offset, const void *bytes, size_t n,
                    rn_status status, const char *part) {
    struct data_file file = load(name);
    rn_error err = {0};
    memcpy(find_name(&file, text) + offset, bytes, n);
    const rn_status got = try_model(&file, &err);
    check(got == status && strstr(err.message, part), "%s, %s: %s: %s", name, text,
          rn_status_text(got), err.message);
    free(file.data);
}

// A number: behind the key is its type, then the value.
static void key_refused(const char *name, const char *key, uint32_t value, rn_status status,
                        const char *part) {
    refused(name, key, strlen(key) + 4, &value, 4, status, part);
}

// An item of a list: behind the key are its type, the items' type and their count.
static void item_refused(const char *name, const char *key, int item, uint32_t value,
                         rn_status status, const char *part) {
    refused(name, key, strlen(key) + 16 + 4 * (size_t)item, &value, 4, status, part);
}

// The name is spoilt, so that nobody finds it.
static void missing_refused(const char *name, const char *text, const char *part) {
    refused(name, text, strlen(text) - 1, "?", 1, RN_ERR_MODEL, part);
}

static const struct {
    const char *name, *arch;
} models[] = {
    {"mamba2", "mamba2"},
    {"nemotron_h", "nemotron_h"},
    {"nemotron_h-moe", "nemotron_h_moe"},
    {"granitemoehybrid", "granitehybrid"},
    {"granitemoehybrid-dense", "granitehybrid"},
    {"falcon_h1", "falcon-h1"},
};
enum { N_MODELS = sizeof models / sizeof *models };

CASE(sizes_of_the_state_are_checked) {
    static const struct {
        const char *key;
        uint32_t value;
        const char *part;
    } cases[] = {
        {"ssm.conv_kernel", 0, "ssm.conv_kernel is 0, expected 2 to 16"},
        {"ssm.conv_kernel", 17, "ssm.conv_kernel is 17"},
        {"ssm.inner_size", 0, "ssm.inner_size is 0"},
        {"ssm.inner_size", 65, "ssm.inner_size 65 is not a multiple of ssm.time_step_rank"},
        {"ssm.inner_size", 0x7fffffff, "ssm.inner_size is 2147483647"},
        {"ssm.state_size", 0, "ssm.state_size is 0"},
        {"ssm.state_size", 1025, "ssm.state_size is 1025"},
        {"ssm.state_size", 17, "ssm_in.weight"},
        {"ssm.time_step_rank", 0, "ssm.time_step_rank is 0"},
        {"ssm.time_step_rank", 0xffffffff, "ssm.time_step_rank is 4294967295"},
        {"ssm.group_count", 0, "ssm.group_count is 0"},
        {"ssm.group_count", 3, "is not a multiple of ssm.group_count 3"},
    };
    for (int m = 0; m < N_MODELS; m++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            char key[64];
            snprintf(key, sizeof key, "%s.%s", models[m].arch, cases[i].key);
            key_refused(models[m].name, key, cases[i].value, RN_ERR_MODEL, cases[i].part);
        }
    }
    key_refused("mamba2", "mamba2.ssm.inner_size", 16384, RN_ERR_UNSUPPORTED,
                "gives each of 8 heads 2048 elements, expected at most 1024");
}

CASE(missing_keys_and_tensors_are_named) {
    static const char *const keys[] = {"ssm.conv_kernel", "ssm.inner_size", "ssm.state_size",
                                       "ssm.time_step_rank"};
    static const char *const tensors[] = {"blk.0.ssm_in.weight", "blk.0.ssm_conv1d.weight",
                                          "blk.0.ssm_dt.bias",   "blk.0.ssm_a",
                                          "blk.0.ssm_d",         "blk.0.ssm_out.weight"};
    for (int m = 0; m < N_MODELS; m++) {
        for (int i = 0; i < 4; i++) {
            char key[64];
            snprintf(key, sizeof key, "%s.%s", models[m].arch, keys[i]);
            missing_refused(models[m].name, key, keys[i]);
        }
        for (int i = 0; i < 6; i++) missing_refused(models[m].name, tensors[i], tensors[i]);
        if (strcmp(models[m].name, "falcon_h1") != 0)
            missing_refused(models[m].name, "blk.0.ssm_norm.weight", "blk.0.ssm_norm.weight");
    }
    missing_refused("falcon_h1", "blk.2.ffn_norm", "blk.2.ffn_norm.weight is missing");
    missing_refused("falcon_h1", "falcon-h1.feed_forward_length", "feed_forward_length");
    missing_refused("granitemoehybrid-dense", "granitehybrid.feed_forward_length",
                    "feed_forward_length is missing or 0, layer 0 needs it");
}

CASE(unsupported_parts_are_named) {
    key_refused("mamba2", "mamba2.attention.head_count", 4, RN_ERR_UNSUPPORTED,
                "attention.head_count is 4: attention is not supported");
    key_refused("mamba2", "mamba2.feed_forward_length", 32, RN_ERR_UNSUPPORTED,
                "feed_forward_length is 32");
    item_refused("nemotron_h", "nemotron_h.feed_forward_length", 3, 96, RN_ERR_UNSUPPORTED,
                 "layer 3 has both attention and a feed-forward");
    item_refused("nemotron_h", "nemotron_h.feed_forward_length", 1, 0, RN_ERR_MODEL,
                 "blk.1.ssm_in.weight is missing");
    item_refused("nemotron_h", "nemotron_h.attention.head_count_kv", 3, 3, RN_ERR_MODEL,
                 "4 heads are not a multiple of 3 key/value heads");
    key_refused("nemotron_h-moe", "nemotron_h_moe.expert_group_count", 3, RN_ERR_MODEL,
                "is 3: 8 experts are not groups of one size, each of at least 2");
    key_refused("nemotron_h-moe", "nemotron_h_moe.expert_group_count", 8, RN_ERR_MODEL,
                "is 8: 8 experts are not groups of one size, each of at least 2");
    key_refused("nemotron_h-moe", "nemotron_h_moe.expert_count", 0, RN_ERR_MODEL,
                "expert_count is missing or 0");
    key_refused("nemotron_h-moe", "nemotron_h_moe.expert_used_count", 9, RN_ERR_MODEL,
                "expert_used_count is 9");
    key_refused("falcon_h1", "falcon-h1.attention.head_count_kv", 0, RN_ERR_UNSUPPORTED,
                "layer 0 has no attention");
}

// Values that a file may have anywhere: a refusal or a plan, whatever the numbers are.
CASE(no_number_stops_the_reader) {
    static const uint32_t values[] = {0, 1, 2, 5, 63, 1024, 1 << 19, 0x7fffffff, 0xffffffff};
    static const char *const keys[] = {"block_count",
                                       "context_length",
                                       "embedding_length",
                                       "feed_forward_length",
                                       "attention.head_count",
                                       "attention.head_count_kv",
                                       "attention.key_length",
                                       "attention.value_length",
                                       "expert_count",
                                       "expert_used_count",
                                       "expert_feed_forward_length",
                                       "expert_shared_feed_forward_length",
                                       "expert_weights_scale",
                                       "residual_scale",
                                       "rope.dimension_count",
                                       "rope.freq_base",
                                       "ssm.conv_kernel",
                                       "ssm.inner_size",
                                       "ssm.state_size",
                                       "ssm.time_step_rank",
                                       "ssm.group_count"};
    for (int m = 0; m < N_MODELS; m++) {
        const struct data_file file = load(models[m].name);
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            char key[64];
            snprintf(key, sizeof key, "%s.%s", models[m].arch, keys[k]);
            if (!memmem(file.data, file.size, key, strlen(key))) continue;
            // of a list, its first items
            uint8_t *at = find_name(&file, key) + strlen(key);
            uint32_t type, was;
            memcpy(&type, at, 4);
            at += type == META_ARRAY ? 16 : 4;
            memcpy(&was, at, 4);
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                rn_error err = {0};
                memcpy(at, &values[v], 4);
                const rn_status s = try_model(&file, &err);
                check(s == RN_OK || err.message[0], "%s: %s %u", models[m].name, key, values[v]);
            }
            memcpy(at, &was, 4);
        }
        free(file.data);
    }
}

// The last layer has a recurrence and attention: the first works on all rows, the second leaves the
// out rows behind its keys.
CASE(a_layer_with_two_mixers_crosses_once) {
    const struct data_file file = load("falcon_h1");
    struct weights *weights;
    struct model *model = calloc(1, sizeof *model);
    rn_error err = {0};
    assert_non_null(model);
    check(weights_open_memory("m.gguf", file.data, file.size, &weights, &err) == RN_OK, "%s",
          err.message);
    check(model_init(model, weights, &err) == RN_OK, "%s", err.message);
    int last_append = 0, gathers = 0;
    for (int i = 0; i < model->plan.n_op; i++) {
        if (model->plan.op[i].kind == OP_KV_APPEND) last_append = i;
        gathers += model->plan.op[i].kind == OP_GATHER;
    }
    assert_int_equal(gathers, 2);
    for (int i = 0; i < model->plan.n_op; i++)
        assert_int_equal(model->plan.op[i].rows, i == model->plan.n_op - 1 ? ROWS_LOGITS
                                                 : i > last_append         ? ROWS_OUT
                                                                           : ROWS_TOKENS);
    model_deinit(model);
    weights_close(weights);
    free(model);
    free(file.data);
}

TEST_PROGRAM(mamba) { return cases_run(NULL, NULL); }

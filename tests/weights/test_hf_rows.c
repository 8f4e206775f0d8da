// The reader of folders runs any rows. Here they are those of a class that no architecture of
// runnel has, with keys, settings, a window, a rope and tensors of its own. It becomes metadata and
// tensors as its rows say.
// label: memory
#include "folder.h"
#include "weights/hf_arch.h"

static const struct hf_key keys[] = {
    {"depth", "n_blocks", "block_count", HF_INT, 1, HF_MAX_LAYER, HF_REQUIRED, HF_NUMBER(n_layer),
     0},
    {"width", NULL, "embedding_length", HF_INT, 1, 64, 8, HF_NUMBER(n_embd), 0},
    {"heads", NULL, "attention.head_count", HF_INT, 1, 64, 2, HF_NUMBER(n_head), 0},
    {"context", NULL, "context_length", HF_INT, 1, 4096, 64, HF_NUMBER(n_ctx), 0},
    {"experts", NULL, "expert_count", HF_INT, 1, 64, HF_REQUIRED, HF_NUMBER(n_expert), 0},
    {0},
};

static const struct hf_key more_keys[] = {
    {"kv_heads", NULL, "attention.head_count_kv", HF_INT, 1, 64, 0, HF_NUMBER(n_head_kv),
     HF_NUMBER(n_head)},
    {"rarely", NULL, "rare", HF_FLOAT, HF_POSITIVE, HF_ABSENT, 0, 0},
    {"flag", NULL, "flag", HF_BOOL, 0, 1, true, 0, 0},
    {0},
};

static const struct hf_setting settings[] = {{"strange", 0, 0, "false"}, {0}};
static const struct hf_activation activation = {"act", {"relu"}, "relu"};

static void mark_first(struct hf_config *c, uint8_t *is_local) { is_local[0] = 1; }

static void read_more(struct hf_config *c) {
    hf_put_u32(c, "doubled", 2 * hf_int(c, &c->root, "single", 0, 100, 21));
}

static void scaling_own(struct hf_config *c, double theta) {
    hf_put_f32(c, "rope.own", theta * hf_number(c, &c->rope, "factor", 0, 10, 1));
}
static const struct hf_scaling scalings[] = {{"own", scaling_own}, {0}};

static const struct hf_tensor tensors[] = {
    {"embed.weight", "token_embd.weight", hf_map_view},
    {"head.weight", "output.weight", hf_map_head},
    {"block.#.norm", "blk.#.attn_norm.weight", hf_map_add_one},
    {"block.#.expert.#.up", "blk.#.ffn_up_exps.weight", hf_map_expert},
    {"block.#.expert.#.other_up", "blk.#.ffn_up_exps.weight", hf_map_expert},
    {0},
};
static const struct hf_tensor more_tensors[] = {{"eyes.*", NULL, hf_map_ignore}, {0}};

static const struct hf_class classes[] = {
    {
        .name = "NobodysModel",
        .model_type = "nobodys",
        .keys = {keys, more_keys},
        .settings = settings,
        .activation = &activation,
        .window = {.mark = mark_first, .flag = "has_window"},
        .rope = {.theta = 500, .scalings = scalings},
        .is_tied = true,
        .read = read_more,
        .tensors = {tensors, more_tensors},
    },
    {0},
};
static const struct hf_arch archs[] = {{"nobody", classes}, {0}};

static rn_status rows_open(const struct data_folder *folder, struct weights **out, rn_error *err) {
    return weights_open_any(folder->path, archs, false, out, err);
}

static struct data_folder folder_of(const char *more, const struct st_image *image) {
    const struct data_folder folder = data_folder_make();
    char text[1024];
    snprintf(text, sizeof text,
             "{'architectures': ['NobodysModel'], 'n_blocks': 3, 'experts': 2%s}", more);
    folder_text(&folder, "config.json", text);
    st_write(&folder, "model.safetensors", image);
    return folder;
}

CASE(values_become_what_the_rows_say) {
    const struct st_image empty = {0};
    const struct data_folder folder =
        folder_of(", 'has_window': true, 'sliding_window': 16, 'act': 'relu', 'single': 4, "
                  "'rope_parameters': {'rope_type': 'own', 'factor': 3}",
                  &empty);
    struct weights *weights;
    rn_error err = {0};
    check(rows_open(&folder, &weights, &err) == RN_OK, "%s", err.message);
    check_string(weights, "general.architecture", "nobody");
    check_number(weights, "nobody.block_count", 3);
    check_number(weights, "nobody.embedding_length", 8);
    check_number(weights, "nobody.attention.head_count_kv", 2); // like the heads
    check_number(weights, "nobody.flag", 1);
    check(!weights_meta_find(weights, "nobody.rare"), "rare");
    check_number(weights, "nobody.doubled", 8);
    check_number(weights, "nobody.attention.sliding_window", 16);
    check_bools(weights, "nobody.attention.sliding_window_pattern", "100");
    check_number(weights, "nobody.rope.freq_base", 500);
    check_number(weights, "nobody.rope.own", 1500);
    weights_close(weights);
    data_folder_remove(&folder);
}

CASE(tensors_become_what_the_rows_say) {
    static const float norm[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct st_image image = {0};
    st_entry(&image, "model.embed.weight", "F32", "3,8", NULL, 96);
    st_entry(&image, "head.weight", "F32", "3,8", NULL, 96); // tied
    st_entry(&image, "block.1.norm", "F32", "8", norm, sizeof norm);
    st_entry(&image, "block.2.expert.1.up", "F32", "4,8", NULL, 128);
    st_entry(&image, "block.2.expert.0.other_up", "F32", "4,8", NULL, 128);
    st_entry(&image, "eyes.left.iris", "I64", "1", NULL, 8);
    const struct data_folder folder = folder_of("", &image);
    struct weights *weights;
    rn_error err = {0};
    check(rows_open(&folder, &weights, &err) == RN_OK, "%s", err.message);
    assert_int_equal(weights_tensor_count(weights), 3);
    assert_non_null(weights_tensor_find(weights, "token_embd.weight"));
    const struct tensor_view *added = weights_tensor_find(weights, "blk.1.attn_norm.weight");
    const struct tensor_view *up = weights_tensor_find(weights, "blk.2.ffn_up_exps.weight");
    assert_true(added && ((const float *)added->data)[7] == 9);
    assert_true(up && up->dim[2] == 2 && up->parts[0] && up->parts[1]);
    weights_close(weights);
    data_folder_remove(&folder);
}

static void rows_refused(const char *more, rn_status status, const char *message) {
    const struct st_image empty = {0};
    const struct data_folder folder = folder_of(more, &empty);
    struct weights *weights;
    rn_error err = {0};
    check(rows_open(&folder, &weights, &err) == status && strstr(err.message, message), "%s",
          err.message);
    data_folder_remove(&folder);
}

CASE(what_the_rows_do_not_allow_is_refused) {
    rows_refused(", 'width': 65", RN_ERR_MODEL, "width is 65, expected an integer from 1 to 64");
    rows_refused(", 'strange': true", RN_ERR_UNSUPPORTED, "strange is true, expected false");
    rows_refused(", 'act': 'silu'", RN_ERR_UNSUPPORTED, "act is \"silu\", expected relu");
    rows_refused(", 'rope_parameters': {'rope_type': 'yarn'}", RN_ERR_UNSUPPORTED,
                 "type \"yarn\" is not supported for nobody");
    rows_refused(", 'quantization_config': {'quant_method': 'mxfp4'}", RN_ERR_UNSUPPORTED,
                 "quant_method mxfp4 is not supported");
    rows_refused(", 'width': 8, 'width': 8", RN_ERR_MODEL, "width is there twice");
}

// A folder's classes come from above: the same folder is unknown to other rows.
CASE(other_rows_do_not_know_the_class) {
    const struct st_image empty = {0};
    const struct data_folder folder = folder_of("", &empty);
    folder_refused(&folder, RN_ERR_UNSUPPORTED, "architecture NobodysModel is not supported; ");
    data_folder_remove(&folder);
}

TEST_PROGRAM(hf_rows) { return cases_run(NULL, NULL); }

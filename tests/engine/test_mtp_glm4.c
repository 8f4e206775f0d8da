// A drafting block that is a layer with experts: GLM's, with heads of its own or over a latent. A
// file says that its last layer predicts further tokens, in a GGUF by the number of such layers, in
// a folder by a layer behind the last one. Texts are those without drafts, and both forms draft the
// same.
#include "bare_engine.h"
#include "glm4_block.h"
#include "golden_folder.h"
#include "weights/folder.h"

static void config_change(const struct data_folder *folder, int n_layer, int n_nextn) {
    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, "%s/config.json", folder->path);
    json_t *config = data_json_read(path);
    json_object_set_new(config, "num_hidden_layers", json_integer(n_layer));
    json_object_set_new(config, "num_nextn_predict_layers", json_integer(n_nextn));
    json_object_del(config, "mlp_layer_types"); // of the layers as they were
    assert_int_equal(json_dump_file(config, path, 0), 0);
    json_decref(config);
}

// Two files: the model's own, and that of the tensors which the third layer has more.
static struct data_folder folder_make(struct which which, int n_layer, int n_nextn) {
    static struct st_image image;
    const struct data_folder folder = golden_folder_make(which.name, "glm4");
    const struct data_file file = golden_safetensors(which.name);
    char path[DATA_PATH_BYTES];
    uint64_t len;
    memset(&image, 0, sizeof image);
    memcpy(&len, file.data, sizeof len);
    json_t *header = json_loadb((char *)file.data + 8, len, 0, NULL), *map = json_object();
    json_t *index = json_pack("{s:o}", "weight_map", map), *value;
    const char *name;
    json_object_foreach(header, name, value) if (name[0] != '_')
        json_object_set_new(map, name, json_string("a.safetensors"));
    for (int i = 0; i < N_EXTRA; i++) {
        char shape[32];
        snprintf(shape, sizeof shape, extra[i].rows ? "%d,%d" : "%d",
                 extra[i].rows ? extra[i].rows : extra[i].cols, extra[i].cols);
        st_entry(&image, extra[i].folder, "F32", shape, extra_data[i], extra_bytes(i));
        json_object_set_new(map, extra[i].folder, json_string("b.safetensors"));
    }
    st_write(&folder, "b.safetensors", &image);
    data_file_write(folder.path, "a.safetensors", file.data, file.size);
    snprintf(path, sizeof path, "%s/model.safetensors", folder.path);
    assert_int_equal(remove(path), 0);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder.path);
    assert_int_equal(json_dump_file(index, path, 0), 0);
    config_change(&folder, n_layer, n_nextn);
    json_decref(index);
    json_decref(header);
    free(file.data);
    return folder;
}

static struct stream of_gguf[N_TEXTS], of_folder[N_TEXTS];

static void check_forms(struct which which) {
    const rn_draft_stats gguf = check_gguf(which, false, of_gguf);
    const struct data_folder folder = folder_make(which, LAYERS, 1);
    const rn_draft_stats same = check_texts(folder.path, of_folder);
    for (int i = 0; i < N_TEXTS; i++) streams_check_same(&of_gguf[i], &of_folder[i]);
    assert_true(gguf.tokens > 60 && gguf.tokens == same.tokens && gguf.accepted == same.accepted);
    data_folder_remove(&folder);
}

CASE(a_block_with_experts_drafts_from_a_gguf_and_from_a_folder) { check_forms(whole); }

CASE(a_block_over_a_latent_drafts_from_a_gguf_and_from_a_folder) { check_forms(latent); }

static void check_echo(struct which which) {
    const rn_draft_stats stats = check_gguf(which, true, of_gguf);
    check(stats.tokens > 60 && stats.accepted == stats.tokens, "%llu of %llu",
          (unsigned long long)stats.accepted, (unsigned long long)stats.tokens);
}

CASE(right_drafts_of_a_block_with_experts_are_accepted) { check_echo(whole); }

CASE(right_drafts_of_a_block_over_a_latent_are_accepted) { check_echo(latent); }

CASE(a_layer_that_the_config_does_not_count_is_refused) {
    static const struct {
        int n_layer, n_nextn;
        const char *part;
    } cases[] = {{2, 0, "layer 2, the config has 2"}, {1, 1, "layer 2, the config has 1"}};
    for (int i = 0; i < 2; i++) {
        const struct data_folder folder = folder_make(whole, cases[i].n_layer, cases[i].n_nextn);
        folder_refused(&folder, RN_ERR_MODEL, cases[i].part);
        data_folder_remove(&folder);
    }
}

// Copies of published folders often have the number without the layers.
CASE(a_folder_without_the_block_has_no_drafter) {
    struct data_folder folder = golden_folder_make("glm4_moe", "glm4");
    config_change(&folder, 3, 1);
    rn_model *model = bare_open(folder.path);
    rn_engine *engine = streams_engine(model, &(rn_engine_options){.max_seqs = 2});
    rn_engine_info info;
    rn_engine_get_info(engine, &info);
    check(!strstr(info.drafters, "mtp"), "drafters: %s", info.drafters);
    rn_engine_destroy(engine);
    rn_model_close(model);
    data_folder_remove(&folder);
}

TEST_PROGRAM(mtp_glm4) { return cases_run(NULL, NULL); }

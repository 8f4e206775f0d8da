// A model in several files is the same model. A split GGUF opened by any of its parts, and a folder
// with two shards, give the bits of a single file.
#include "gguf_copy.h"
#include "golden.h"

static void generate(struct golden *g, struct golden_run *run) {
    golden_generate(g, &(rn_engine_options){.kv_type = "f32", .logit_rows = 512}, run);
    golden_check_ids(g, run);
    rn_model_close(g->model);
    g->model = NULL;
}

// ---------------------------------------------------------------- GGUF

// The first part has the metadata and no tensors, as one way to split writes it; the others have
// turns of the tensors.
static void write_part(const struct weights *gguf, int part, int n_parts, const char *folder) {
    struct writer writer = writer_begin(3);
    const uint16_t no = (uint16_t)part, count = (uint16_t)n_parts;
    const int32_t tensors = weights_tensor_count(gguf);
    if (part == 0)
        for (int i = 0; i < weights_meta_count(gguf); i++)
            writer_kv_copy(&writer, weights_meta_at(gguf, i));
    writer_kv(&writer, "split.no", WRITER_U16, &no, sizeof no);
    writer_kv(&writer, "split.count", WRITER_U16, &count, sizeof count);
    writer_kv(&writer, "split.tensors.count", WRITER_I32, &tensors, sizeof tensors);
    for (int i = 0; i < tensors; i++) {
        const struct tensor_view *tensor = weights_tensor_at(gguf, i);
        if (part != 1 + i % (n_parts - 1)) continue;
        uint64_t dims[WEIGHTS_MAX_DIMS];
        for (int d = 0; d < tensor->n_dims; d++) dims[d] = (uint64_t)tensor->dim[d];
        assert_int_equal(tensor->format, FORMAT_F32);
        writer_tensor(&writer, tensor->name, (uint32_t)tensor->n_dims, dims, 0, tensor->data,
                      tensor->bytes);
    }
    size_t size;
    uint8_t *image = writer_finish(&writer, &size);
    char name[64];
    snprintf(name, sizeof name, "part-%05d-of-%05d.gguf", part + 1, n_parts);
    data_file_write(folder, name, image, size);
    free(image);
}

CASE(split_gguf_gives_the_bits_of_the_whole_from_any_part) {
    struct golden g = golden_load("llama-spm");
    struct golden_run whole, split;
    golden_open_gguf(&g);
    generate(&g, &whole);

    rn_error err;
    struct weights *gguf;
    const char *path = TEST_DATA "/golden/llama-spm/model.gguf";
    check(weights_open(path, &gguf, &err) == RN_OK, "%s", err.message);
    const struct data_folder folder = data_folder_make();
    for (int part = 0; part < 3; part++) write_part(gguf, part, 3, folder.path);
    weights_close(gguf);
    for (int part = 1; part <= 3; part++) {
        char file[96];
        snprintf(file, sizeof file, "%s/part-%05d-of-00003.gguf", folder.path, part);
        golden_open(&g, file);
        generate(&g, &split);
        golden_check_same_bits(&whole, &split, file);
        golden_run_free(&split);
    }
    data_folder_remove(&folder);
    golden_run_free(&whole);
    golden_unload(&g);
}

// ---------------------------------------------------------------- folder

struct shard {
    char name[64];
    json_t *header;
    struct writer_buffer data;
};

static void write_shard(struct shard *shard, const char *folder) {
    char *header = json_dumps(shard->header, JSON_COMPACT);
    assert_non_null(header);
    struct writer_buffer file = {0};
    writer_put_u64(&file, 0);
    writer_put(&file, header, strlen(header));
    while (file.size % 8) writer_put(&file, " ", 1); // as the format's own writer does
    const uint64_t header_bytes = file.size - 8;
    memcpy(file.data, &header_bytes, sizeof header_bytes);
    writer_put(&file, shard->data.data, shard->data.size);
    data_file_write(folder, shard->name, file.data, file.size);
    free(header);
    free(file.data);
    free(shard->data.data);
    json_decref(shard->header);
}

// Tensors take turns, so that the experts of a layer are in both files.
static void write_shards(const struct data_file *file, const char *folder) {
    uint64_t header_bytes;
    memcpy(&header_bytes, file->data, sizeof header_bytes);
    json_t *header = json_loadb((const char *)file->data + 8, header_bytes, 0, NULL);
    assert_non_null(header);
    struct shard shards[2] = {{.name = "model-00001-of-00002.safetensors"},
                              {.name = "model-00002-of-00002.safetensors"}};
    for (int i = 0; i < 2; i++)
        shards[i].header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    json_t *map = json_object();
    const char *name;
    json_t *info;
    int turn = 0;
    json_object_foreach(header, name, info) {
        if (strcmp(name, "__metadata__") == 0) continue;
        struct shard *shard = &shards[turn++ % 2];
        json_t *range = json_object_get(info, "data_offsets");
        const size_t from = (size_t)json_integer_value(json_array_get(range, 0));
        const size_t to = (size_t)json_integer_value(json_array_get(range, 1));
        json_array_set_new(range, 0, json_integer((json_int_t)shard->data.size));
        writer_put(&shard->data, file->data + 8 + header_bytes + from, to - from);
        json_array_set_new(range, 1, json_integer((json_int_t)shard->data.size));
        json_object_set(shard->header, name, info);
        json_object_set_new(map, name, json_string(shard->name));
    }
    json_t *index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size",
                              (json_int_t)(file->size - 8 - header_bytes), "weight_map", map);
    char *text = json_dumps(index, JSON_INDENT(2));
    assert_non_null(text);
    data_file_write(folder, "model.safetensors.index.json", text, strlen(text));
    for (int i = 0; i < 2; i++) write_shard(&shards[i], folder);
    free(text);
    json_decref(index);
    json_decref(header);
}

CASE(sharded_folder_gives_the_bits_of_one_file) {
    struct golden g = golden_load("qwen3moe");
    struct golden_run whole, sharded;
    golden_open_folder(&g);
    generate(&g, &whole);

    const struct data_folder folder = golden_folder_begin(g.name, g.tokenizer);
    const struct data_file file = golden_safetensors(g.name);
    write_shards(&file, folder.path);
    free(file.data);
    golden_open(&g, folder.path);
    generate(&g, &sharded);
    golden_check_same_bits(&whole, &sharded, "two shards");
    data_folder_remove(&folder);
    golden_run_free(&whole);
    golden_run_free(&sharded);
    golden_unload(&g);
}

TEST_PROGRAM(golden_split) { return cases_run(NULL, NULL); }

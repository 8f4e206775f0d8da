// A model in several files is the same model. A split GGUF opened by any of its parts, and a folder
// with shards, give the bits of a single file. So do a hundred files, with the experts of a layer
// spread over them.
#include "gguf_copy.h"
#include "golden.h"
#include "tensor_bytes.h"

static void generate(struct golden *g, struct golden_run *run) {
    golden_generate(g, &(rn_engine_options){.kv_type = "f32", .logit_rows = 512}, run);
    golden_check_ids(g, run);
    rn_model_close(g->model);
    g->model = NULL;
}

// ---------------------------------------------------------------- GGUF

// The tensors as one way to split writes them: the first part has the metadata alone, the others
// have turns of the tensors.
struct split {
    const struct weights *gguf;
    bool is_separate; // experts are tensors of their own, as the first files of Mixtral have
    int part, n_parts, n_tensors;
};

static void put_tensor(struct split *split, struct writer *writer, const char *name, int n_dims,
                       const struct tensor_view *tensor, int expert) {
    const uint64_t bytes = expert < 0 ? tensor->bytes : tensor->bytes / (uint64_t)tensor->dim[2];
    uint64_t dims[WEIGHTS_MAX_DIMS];
    if (split->part != 1 + split->n_tensors++ % (split->n_parts - 1)) return;
    for (int d = 0; d < n_dims; d++) dims[d] = (uint64_t)tensor->dim[d];
    assert_int_equal(tensor->format, FORMAT_F32);
    writer_tensor(writer, name, (uint32_t)n_dims, dims, 0,
                  (const uint8_t *)tensor_bytes(split->gguf, tensor) +
                      (expert < 0 ? 0 : (uint64_t)expert * bytes),
                  bytes);
}

static void put_tensors(struct split *split, struct writer *writer) {
    split->n_tensors = 0;
    for (int i = 0; i < weights_tensor_count(split->gguf); i++) {
        const struct tensor_view *tensor = weights_tensor_at(split->gguf, i);
        const char *stacked = strstr(tensor->name, "_exps.weight");
        if (!split->is_separate || !stacked) {
            put_tensor(split, writer, tensor->name, tensor->n_dims, tensor, -1);
            continue;
        }
        for (int e = 0; e < tensor->dim[2]; e++) {
            char name[128];
            snprintf(name, sizeof name, "%.*s.%d.weight", (int)(stacked - tensor->name),
                     tensor->name, e);
            put_tensor(split, writer, name, 2, tensor, e);
        }
    }
}

static void write_part(struct split *split, const char *folder) {
    struct writer writer = writer_begin(3);
    const uint16_t no = (uint16_t)split->part, count = (uint16_t)split->n_parts;
    if (split->part == 0)
        for (int i = 0; i < weights_meta_count(split->gguf); i++)
            writer_kv_copy(&writer, weights_meta_at(split->gguf, i));
    put_tensors(split, &writer);
    const int32_t tensors = split->n_tensors;
    writer_kv(&writer, "split.no", WRITER_U16, &no, sizeof no);
    writer_kv(&writer, "split.count", WRITER_U16, &count, sizeof count);
    writer_kv(&writer, "split.tensors.count", WRITER_I32, &tensors, sizeof tensors);
    size_t size;
    uint8_t *image = writer_finish(&writer, &size);
    char name[64];
    snprintf(name, sizeof name, "part-%05d-of-%05d.gguf", split->part + 1, split->n_parts);
    data_file_write(folder, name, image, size);
    free(image);
}

// given: the parts that it is opened by, up to a 0.
static void check_split(const char *name, int n_parts, bool is_separate, const int *given) {
    struct golden g = golden_load(name);
    struct golden_run whole, again;
    golden_open_gguf(&g);
    generate(&g, &whole);

    rn_error err;
    struct weights *gguf;
    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", name);
    check(weights_open(path, &gguf, &err) == RN_OK, "%s", err.message);
    const struct data_folder folder = data_folder_make();
    struct split split = {gguf, is_separate, 0, n_parts, 0};
    for (; split.part < n_parts; split.part++) write_part(&split, folder.path);
    weights_close(gguf);
    for (; *given; given++) {
        char file[96];
        snprintf(file, sizeof file, "%s/part-%05d-of-%05d.gguf", folder.path, *given, n_parts);
        golden_open(&g, file);
        generate(&g, &again);
        golden_check_same_bits(&whole, &again, file);
        golden_run_free(&again);
    }
    data_folder_remove(&folder);
    golden_run_free(&whole);
    golden_unload(&g);
}

CASE(split_gguf_gives_the_bits_of_the_whole_from_any_part) {
    check_split("llama-spm", 3, false, (const int[]){1, 2, 3, 0});
}

CASE(a_hundred_parts_with_spread_experts_give_the_bits_of_the_whole) {
    check_split("qwen3moe", 100, false, (const int[]){100, 0});
    check_split("qwen3moe", 100, true, (const int[]){57, 0});
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

enum { MAX_SHARDS = 60 };

// Tensors take turns, so that the experts of a layer are in different files.
static void write_shards(const struct data_file *file, int n_shards, const char *folder) {
    uint64_t header_bytes;
    memcpy(&header_bytes, file->data, sizeof header_bytes);
    json_t *header = json_loadb((const char *)file->data + 8, header_bytes, 0, NULL);
    assert_non_null(header);
    static struct shard shards[MAX_SHARDS];
    for (int i = 0; i < n_shards; i++) {
        shards[i] =
            (struct shard){.header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt")};
        snprintf(shards[i].name, sizeof shards[i].name, "model-%05d-of-%05d.safetensors", i + 1,
                 n_shards);
    }
    json_t *map = json_object();
    const char *name;
    json_t *info;
    int turn = 0;
    json_object_foreach(header, name, info) {
        if (strcmp(name, "__metadata__") == 0) continue;
        struct shard *shard = &shards[turn++ % n_shards];
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
    check(turn >= n_shards, "%d tensors", turn);
    for (int i = 0; i < n_shards; i++) write_shard(&shards[i], folder);
    free(text);
    json_decref(index);
    json_decref(header);
}

CASE(sharded_folder_gives_the_bits_of_one_file) {
    struct golden g = golden_load("qwen3moe");
    struct golden_run whole, sharded;
    golden_open_folder(&g);
    generate(&g, &whole);

    const struct data_file file = golden_safetensors(g.name);
    for (int n_shards = 2; n_shards <= MAX_SHARDS; n_shards += MAX_SHARDS - 2) {
        const struct data_folder folder = golden_folder_begin(g.name, g.tokenizer);
        write_shards(&file, n_shards, folder.path);
        golden_open(&g, folder.path);
        generate(&g, &sharded);
        golden_check_same_bits(&whole, &sharded, n_shards == 2 ? "two shards" : "many shards");
        golden_run_free(&sharded);
        data_folder_remove(&folder);
    }
    free(file.data);
    golden_run_free(&whole);
    golden_unload(&g);
}

TEST_PROGRAM(golden_split) { return cases_run(NULL, NULL); }

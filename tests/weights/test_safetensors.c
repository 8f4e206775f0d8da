// Safetensors files and their index: the contents of a good file, and the refusal of each kind of
// bad one, by file, tensor and value.
// label: memory
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "tensor_bytes.h"

// An entry of model.norm.weight, which every test's model may have.
#define NORM "'model.norm.weight':{'dtype':'F32','shape':[8],'data_offsets':[0,32]}"

static struct data_folder llama_create(void) {
    const struct data_folder folder = data_folder_make();
    config_write(&folder, "LlamaForCausalLM", "");
    return folder;
}

CASE(tensors_have_the_files_bytes) {
    const struct data_folder folder = llama_create();
    static struct st_image image;
    float norm[8];
    uint16_t half[8 * 4];
    for (int i = 0; i < 8; i++) norm[i] = (float)i;
    for (int i = 0; i < 32; i++) half[i] = (uint16_t)(i * 257);
    st_entry(&image, "model.norm.weight", "F32", "8", norm, sizeof norm);
    st_entry(&image, "model.layers.1.self_attn.k_proj.weight", "BF16", "4,8", half, sizeof half);
    st_entry(&image, "model.layers.0.self_attn.k_proj.weight", "F16", "4,8", half, sizeof half);
    st_write(&folder, "model.safetensors", &image);
    struct weights *weights = folder_open(&folder);
    assert_string_equal(weights_container(weights), "safetensors");
    assert_string_equal(weights_folder(weights), folder.path);
    assert_int_equal(weights_file_count(weights), 1);
    assert_string_equal(weights_file_at(weights, 0), "model.safetensors");
    const struct tensor_view *tensor = weights_tensor_find(weights, "blk.1.attn_k.weight");
    check(tensor && tensor->format == FORMAT_BF16 && tensor->n_dims == 2, "shape");
    assert_int_equal(tensor->dim[0], 8);
    assert_int_equal(tensor->dim[1], 4);
    assert_memory_equal(tensor_bytes(weights, tensor), half, sizeof half);
    assert_int_equal(tensor->offset, weights_bytes(weights) - 2 * sizeof half);
    assert_int_equal(weights_tensor_find(weights, "blk.0.attn_k.weight")->format, FORMAT_F16);
    tensor = weights_tensor_find(weights, "output_norm.weight");
    assert_memory_equal(tensor_bytes(weights, tensor), norm, sizeof norm);
    assert_int_equal(weights_tensor_count(weights), 3);
    weights_close(weights);
    data_folder_remove(&folder);
}

CASE(metadata_order_and_unknown_types_do_not_matter) {
    const struct data_folder folder = llama_create();
    // Unused tensors may be scalars, empty, of five dimensions, or of any type.
    st_write_raw(&folder, "model.safetensors",
                 "{'__metadata__':{'format':'pt'},'rotary_emb.inv_freq':{'data_offsets':[32,36],'"
                 "shape':[],'extra':[{}],'dtype':'F32'},'model.layers.0.self_attn.rotary_emb.inv_"
                 "freq':{'dtype':'F11','shape':[1,1,1,1,3],'data_offsets':[36,40]}," NORM "}  ",
                 NULL, 40);
    struct weights *weights = folder_open(&folder);
    assert_int_equal(weights_tensor_count(weights), 1);
    weights_close(weights);
    data_folder_remove(&folder);
}

CASE(bad_headers_are_refused_by_value) {
    static const struct {
        const char *header;
        size_t data;
        const char *message;
    } cases[] = {
        {"{", 0, "model.safetensors: header: offset 9: "},
        {"[]", 0, "header: offset 8: expected an object"},
        {"{} x", 0, "header: offset 11: text behind the value"},
        {"{'a':3}", 0, "header: offset 13: expected an object"},
        {"{'':{}}", 0, "a name that is empty or too long"},
        {"{'a\\u0000b':{}}", 0, "a name with a NUL"},
        {"{'a':{}}", 0, "a tensor without dtype, shape or data_offsets"},
        {"{'a':{'dtype':7}}", 0, "expected a string"},
        {"{'a':{'dtype':'F32','dtype':'F32'}}", 0, "a key that was there before"},
        {"{'a':{'dtype':'F32','shape':[1.5],'data_offsets':[0,4]}}", 4, "an integer"},
        {"{'a':{'dtype':'F32','shape':[-1],'data_offsets':[0,4]}}", 4, "negative"},
        {"{'a':{'dtype':'F32','shape':[1,1,1,1,1,1,1,1,1],'data_offsets':[0,4]}}", 4,
         "more than 8 dimensions"},
        {"{'a':{'dtype':'F32','shape':[1],'data_offsets':[0,4,8]}}", 4,
         "more than two data_offsets"},
        {"{'a':{'dtype':'F32','shape':[1],'data_offsets':[0]}}", 4, "not two numbers"},
        {"{'a':{'dtype':'F32','shape':[1],'data_offsets':[4,0]}}", 4, "not in order"},
        {"{'a':{'dtype':'F32','shape':[1],'data_offsets':[-4,0]}}", 4, "negative"},
        {"{'a':{'dtype':'F32','shape':[1],'data_offsets':[0,9223372036854775808]}}", 4,
         "an integer out of range"},
        {"{'a':{'dtype':'F32','shape':[1],'data_offsets':[0,4]}}", 3,
         "tensor a: data_offsets 0 to 4 are past the end of the data, 3"},
        {"{'a':{'dtype':'F32','shape':[1],'data_offsets':[0,9223372036854775807]}}", 4,
         "tensor a: data_offsets 0 to 9223372036854775807 are past the end of the data, 4"},
        {"{'a':{'dtype':'F32','shape':[2],'data_offsets':[0,4]}}", 4,
         "tensor a: data_offsets 0 to 4 are not the 8 bytes of its shape"},
        {"{'a':{'dtype':'F32','shape':[],'data_offsets':[0,8]}}", 8,
         "are not the 4 bytes of its shape"},
        {"{'a':{'dtype':'F32','shape':[4611686018427387904,4],'data_offsets':[0,4]}}", 4,
         "tensor a: the bytes of its shape overflow"},
        {"{'a':{'dtype':'F32','shape':[9223372036854775807,2],'data_offsets':[0,4]}}", 4,
         "tensor a: the bytes of its shape overflow"},
        {"{" NORM ",'model.layers.0.input_layernorm.weight':{'dtype':'F32','shape':[8],'data_"
         "offsets':[28,60]}}",
         60,
         "tensor model.layers.0.input_layernorm.weight: offset 198 is inside tensor "
         "model.norm.weight, 170 + 32 bytes"},
        {"{" NORM "," NORM "}", 32, "offset"},
    };
    const struct data_folder folder = llama_create();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        st_write_raw(&folder, "model.safetensors", cases[i].header, NULL, cases[i].data);
        folder_refused(&folder, RN_ERR_MODEL, cases[i].message);
    }
    data_folder_remove(&folder);
}

CASE(header_lengths_beyond_the_file_are_refused_by_value) {
    const struct data_folder folder = llama_create();
    const uint64_t lengths[] = {17,         100 << 20,  (100 << 20) + 1,
                                1ull << 63, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char bytes[24] = {0}, message[64];
        memcpy(bytes, &lengths[i], 8);
        bytes[8] = '{';
        data_file_write(folder.path, "model.safetensors", bytes, sizeof bytes);
        snprintf(message, sizeof message, "model.safetensors: header of %llu bytes",
                 (unsigned long long)lengths[i]);
        folder_refused(&folder, RN_ERR_MODEL, message);
    }
    data_file_write(folder.path, "model.safetensors", "1234567", 7);
    folder_refused(&folder, RN_ERR_MODEL, "truncated: 7 bytes");
    data_folder_remove(&folder);
}

CASE(every_truncation_is_refused) {
    const struct data_folder folder = llama_create();
    st_write_raw(&folder, "model.safetensors", "{" NORM "}", NULL, 32);
    char path[256];
    snprintf(path, sizeof path, "%s/model.safetensors", folder.path);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    for (off_t size = info.st_size - 1; size > 0; size--) {
        assert_int_equal(truncate(path, size), 0);
        folder_refused(&folder, RN_ERR_MODEL, "model.safetensors: ");
    }
    data_folder_remove(&folder);
}

CASE(duplicates_are_refused) {
    const struct data_folder folder = llama_create();
    st_write_raw(&folder, "model.safetensors",
                 "{" NORM
                 ",'model.norm.weight':{'dtype':'F32','shape':[8],'data_offsets':[32,64]}}",
                 NULL, 64);
    folder_refused(&folder, RN_ERR_MODEL,
                   "model.safetensors: tensor model.norm.weight: the name is there twice");
    // Two names that mean the same tensor.
    st_write_raw(&folder, "model.safetensors",
                 "{" NORM ",'norm.weight':{'dtype':'F32','shape':[8],'data_offsets':[32,64]}}",
                 NULL, 64);
    folder_refused(&folder, RN_ERR_MODEL, "tensor output_norm.weight: the name is there twice");
    data_folder_remove(&folder);
}

// --- shards ---

static void shards_write(const struct data_folder *folder, const char *index) {
    static struct st_image first, second;
    const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    st_entry(&first, "model.norm.weight", "F32", "8", NULL, 32);
    st_entry(&first, "model.layers.0.input_layernorm.weight", "F32", "8", NULL, 32);
    st_entry(&second, "model.layers.1.input_layernorm.weight", "F32", "8", ones, 32);
    st_write(folder, "model-1.safetensors", &first);
    st_write(folder, "model-2.safetensors", &second);
    folder_text(folder, "model.safetensors.index.json", index);
}

#define MAP_REST                                                                                   \
    "'model.layers.0.input_layernorm.weight':'model-1.safetensors',"                               \
    "'model.layers.1.input_layernorm.weight':'model-2.safetensors'}}"
#define MAP(norm) "{'metadata':{},'weight_map':{'model.norm.weight':'" norm "'," MAP_REST

CASE(tensors_come_from_all_shards) {
    const struct data_folder folder = llama_create();
    shards_write(&folder, MAP("model-1.safetensors"));
    struct weights *weights = folder_open(&folder);
    assert_int_equal(weights_file_count(weights), 2);
    assert_int_equal(weights_tensor_count(weights), 3);
    const struct tensor_view *tensor = weights_tensor_find(weights, "blk.1.attn_norm.weight");
    assert_string_equal(weights_file_at(weights, tensor->file), "model-2.safetensors");
    const float one = 1;
    assert_memory_equal((const uint8_t *)tensor_bytes(weights, tensor) + 28, &one, sizeof one);
    weights_close(weights);
    // Tensors that the index does not name are passed over.
    shards_write(&folder, "{'weight_map':{" MAP_REST);
    weights = folder_open(&folder);
    assert_int_equal(weights_tensor_count(weights), 2);
    weights_close(weights);
    data_folder_remove(&folder);
}

CASE(names_never_lead_out_of_the_folder) {
    static const char *const names[] = {
        "../../etc/passwd",   "/etc/passwd",    "../x.safetensors",
        "a/b.safetensors",    "..safetensors",  "a..b.safetensors",
        ".safetensors",       ".x.safetensors", "x.bin",
        "a\\\\b.safetensors", "config.json",    "model-1.safetensors/",
    };
    const struct data_folder folder = llama_create();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char index[1024];
        snprintf(index, sizeof index, "{'weight_map':{'model.norm.weight':'%s'," MAP_REST,
                 names[i]);
        shards_write(&folder, index);
        folder_refused(&folder, RN_ERR_MODEL,
                       "model.safetensors.index.json: weight_map names the file");
    }
    data_folder_remove(&folder);
}

CASE(bad_indexes_are_refused_by_value) {
    static const struct {
        const char *index;
        rn_status status;
        const char *message;
    } cases[] = {
        {MAP("model-2.safetensors"), RN_ERR_MODEL,
         "model-2.safetensors: has no tensor model.norm.weight, which the index says it has"},
        {MAP("model-3.safetensors"), RN_ERR_IO, "model-3.safetensors: No such file or directory"},
        {"{'weight_map':{'x':'model-1.safetensors','x':'model-1.safetensors'}}", RN_ERR_MODEL,
         "weight_map names tensor x twice"},
        {"{'weight_map':{'x':7}}", RN_ERR_MODEL,
         "model.safetensors.index.json: offset 19: expected a string"},
        {"{'weight_map':[]}", RN_ERR_MODEL, "expected an object"},
        {"{'weight_map':{}}", RN_ERR_MODEL, "weight_map is missing or empty"},
        {"{}", RN_ERR_MODEL, "weight_map is missing or empty"},
        {"{'weight_map':{'x'", RN_ERR_MODEL, "index.json: offset 18: expected ':'"},
    };
    const struct data_folder folder = llama_create();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shards_write(&folder, cases[i].index);
        folder_refused(&folder, cases[i].status, cases[i].message);
    }
    data_folder_remove(&folder);
}

CASE(a_folder_without_tensors_says_what_is_missing) {
    const struct data_folder folder = llama_create();
    folder_refused(&folder, RN_ERR_MODEL,
                   "neither model.safetensors nor model.safetensors.index.json is in the folder");
    data_folder_remove(&folder);
}

// With a config.json and without: the message is that of what is there.
CASE(folders_in_another_form_say_what_to_do) {
    static const char *const cases[][3] = {
        {"pytorch_model.bin", "",
         "pytorch_model.bin has the weights as a pickle, which may run "
         "code: convert the model to safetensors"},
        {"pytorch_model-00001-of-00002.bin", "",
         "pytorch_model-00001-of-00002.bin has the weights"},
        {"consolidated.00.pth", "", "consolidated.00.pth has the weights as a pickle"},
        {"consolidated.safetensors", "", "consolidated.safetensors has the weights in Mistral's"},
        {"tf_model.h5", "", "tf_model.h5 has the weights for another framework"},
        {"a-Q4_K_M.gguf", "",
         "a-Q4_K_M.gguf is a GGUF file: give its path instead of the folder's"},
        {"adapter_config.json", "{'base_model_name_or_path':'org/base'}",
         "is an adapter (LoRA) of 'org/base', not a model: merge it into that model first"},
        {"adapter_config.json", "{}", "is an adapter (LoRA) of another model, not a model"},
        {"adapter_config.json", "[", "is an adapter (LoRA) of another model, not a model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int has_config = 0; has_config <= 1; has_config++) {
            const struct data_folder folder = has_config ? llama_create() : data_folder_make();
            folder_text(&folder, "training_args.pt", "");
            folder_text(&folder, cases[i][0], cases[i][1]);
            folder_refused(&folder, RN_ERR_UNSUPPORTED, cases[i][2]);
            data_folder_remove(&folder);
        }
    }
}

CASE(a_pointer_of_git_lfs_is_named) {
    const struct data_folder folder = llama_create();
    folder_text(&folder, "model.safetensors",
                "version https://git-lfs.github.com/spec/v1\nsize 5\n");
    folder_refused(&folder, RN_ERR_MODEL, "model.safetensors: no safetensors file but the pointer");
    data_folder_remove(&folder);
}

CASE(files_of_a_folder_point_to_the_folder) {
    static const char *const names[] = {"model.safetensors", "config.json",
                                        "model.safetensors.index.json"};
    const struct data_folder folder = llama_create();
    shards_write(&folder, MAP("model-1.safetensors"));
    st_write_raw(&folder, "model.safetensors", "{" NORM "}", NULL, 32);
    for (int i = 0; i < 3; i++) {
        char path[256];
        struct weights *weights;
        rn_error err = {0};
        snprintf(path, sizeof path, "%s/%s", folder.path, names[i]);
        assert_int_equal(weights_open(path, &weights, &err), RN_ERR_MODEL);
        check(strstr(err.message, "give the folder"), "%s", err.message);
    }
    data_folder_remove(&folder);
}

TEST_PROGRAM(safetensors) { return cases_run(NULL, NULL); }

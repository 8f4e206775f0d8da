// Models of many and of large files: a hundred parts or shards, and tensors behind a terabyte. The
// large files are holes, so they take no room on the disk.
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

#include "folder.h"
#include "gguf_writer.h"
#include "weights/weights.h"

enum { N_PARTS = 100, N_SHARDS = 120, N_VALUES = 8 };
static const uint64_t terabyte = 1ull << 40;

// ---------------------------------------------------------------- a hundred parts

static void part_path(const struct data_folder *folder, int part, char path[128]) {
    snprintf(path, 128, "%s/m-%05d-of-%05d.gguf", folder->path, part + 1, N_PARTS);
}

// Tensors 2 * part and 2 * part + 1, whose values are their numbers. key: a further one, or NULL.
static void part_write(const struct data_folder *folder, int part, const char *key,
                       const char *value) {
    struct writer writer = writer_begin(3);
    const int32_t tensors = 2 * N_PARTS;
    if (part == 0) {
        writer_kv_str(&writer, "general.architecture", "llama");
        writer_kv_str(&writer, "general.name", "one");
    }
    writer_kv_u32(&writer, "split.no", (uint32_t)part);
    writer_kv_u32(&writer, "split.count", N_PARTS);
    writer_kv(&writer, "split.tensors.count", WRITER_I32, &tensors, sizeof tensors);
    if (key) writer_kv_str(&writer, key, value);
    for (int t = 2 * part; t < 2 * part + 2; t++) {
        float values[N_VALUES];
        char name[16];
        for (int i = 0; i < N_VALUES; i++) values[i] = (float)t;
        snprintf(name, sizeof name, "t%d", t);
        writer_tensor(&writer, name, 1, (const uint64_t[]){N_VALUES}, 0, values, sizeof values);
    }
    size_t size;
    uint8_t *image = writer_finish(&writer, &size);
    char path[128];
    part_path(folder, part, path);
    data_file_write(folder->path, strrchr(path, '/') + 1, image, size);
    free(image);
}

static struct data_folder parts_write(void) {
    const struct data_folder folder = data_folder_make();
    for (int part = 0; part < N_PARTS; part++) part_write(&folder, part, NULL, NULL);
    return folder;
}

static void check_values(const struct weights *weights, const char *name, float value) {
    const struct tensor_view *tensor = weights_tensor_find(weights, name);
    check(tensor && tensor->bytes == N_VALUES * sizeof value, "%s", name);
    float copy[N_VALUES];
    const void *at;
    rn_error err = {0};
    check(weights_read(weights, tensor->data, sizeof copy, copy, &at, &err) == RN_OK, "%s",
          err.message);
    for (int i = 0; i < N_VALUES; i++)
        check(((const float *)at)[i] == value, "%s: %g, expected %g", name, (double)copy[i],
              (double)value);
}

CASE(a_hundred_parts_are_one_model) {
    const struct data_folder folder = parts_write();
    static const int given[] = {0, 56, N_PARTS - 1};
    for (int g = 0; g < 3; g++) {
        struct weights *weights;
        rn_error err = {0};
        char path[128];
        part_path(&folder, given[g], path);
        check(weights_open(path, &weights, &err) == RN_OK, "%s", err.message);
        assert_int_equal(weights_file_count(weights), N_PARTS);
        assert_int_equal(weights_tensor_count(weights), 2 * N_PARTS);
        for (int t = 0; t < 2 * N_PARTS; t++) {
            char name[16];
            snprintf(name, sizeof name, "t%d", t);
            check_values(weights, name, (float)t);
            assert_int_equal(weights_tensor_find(weights, name)->file, t / 2);
        }
        weights_close(weights);
    }
    data_folder_remove(&folder);
}

// Opens the first part, and expects a refusal that names the part and says `text`.
static void parts_refused(const struct data_folder *folder, rn_status status, int part,
                          const char *text) {
    struct weights *weights = NULL;
    rn_error err = {0};
    char path[128], name[128];
    part_path(folder, 0, path);
    part_path(folder, part, name);
    const rn_status actual = weights_open(path, &weights, &err);
    check(actual == status && !weights, "%s: %s", rn_status_text(actual), err.message);
    check(strstr(err.message, name) && strstr(err.message, text), "%s, expected %s: %s",
          err.message, name, text);
}

CASE(one_wrong_part_of_a_hundred_is_named) {
    const struct data_folder folder = parts_write();
    char a[128], b[128], c[160];
    part_path(&folder, 41, a);
    part_path(&folder, 77, b);
    snprintf(c, sizeof c, "%s/c", folder.path);
    assert_true(!rename(a, c) && !rename(b, a) && !rename(c, b));
    parts_refused(&folder, RN_ERR_MODEL, 41,
                  "split.no is 77 and split.count 100, by its name they are 41 and 100");
    assert_true(!rename(a, c) && !rename(b, a) && !rename(c, b));
    assert_int_equal(unlink(b), 0);
    parts_refused(&folder, RN_ERR_MODEL, 77,
                  "No such file or directory: part 78 of 100 of the model");
    part_write(&folder, 77, "general.name", "two");
    parts_refused(&folder, RN_ERR_MODEL, 77,
                  "key general.name is another one than in the first part");
    part_write(&folder, 77, "llama.rope.scaling.type", "yarn");
    parts_refused(&folder, RN_ERR_MODEL, 77,
                  "key llama.rope.scaling.type is not in the first part");
    part_write(&folder, 77, "general.name", "one"); // repeated as it is
    struct weights *weights;
    part_path(&folder, 0, a);
    assert_int_equal(weights_open(a, &weights, NULL), RN_OK);
    weights_close(weights);
    data_folder_remove(&folder);
}

static int lowest_free(const struct data_folder *folder) {
    const int fd = open(folder->path, O_RDONLY | O_DIRECTORY);
    close(fd);
    return fd;
}

CASE(a_limit_of_open_files_is_named) {
    const struct data_folder folder = parts_write();
    const int free_before = lowest_free(&folder);
    struct rlimit before, less;
    struct weights *weights;
    rn_error err = {0};
    char path[128];
    part_path(&folder, 0, path);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    less = before;
    less.rlim_cur = 60;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    const rn_status status = weights_open(path, &weights, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    check(status == RN_ERR_MODEL && !weights, "%s", rn_status_text(status));
    check(strstr(err.message, "-of-00100.gguf: Too many open files: the limit of this process is "
                              "60 (ulimit -n): part "),
          "%s", err.message);
    assert_int_equal(lowest_free(&folder), free_before);
    data_folder_remove(&folder);
}

// ---------------------------------------------------------------- behind a terabyte

// Puts the bytes at the offset, behind a hole. The test is skipped where there is no such file.
static void put_behind(const char *path, uint64_t offset, const void *data, size_t size) {
    const int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    if (ftruncate(fd, (off_t)(offset + size)) != 0) {
        print_message("skipped: no file of %llu bytes here: %s\n", (unsigned long long)offset,
                      strerror(errno));
        close(fd);
        skip();
    }
    assert_int_equal(pwrite(fd, data, size, (off_t)offset), size);
    close(fd);
}

// Two tensors, a at the start of the data and b behind a terabyte; the image ends before the data.
static uint8_t *hole_image(uint64_t far, size_t *size) {
    struct writer writer = writer_begin(3);
    const uint64_t dims[] = {N_VALUES};
    writer_kv_str(&writer, "general.architecture", "llama");
    writer_tensor_raw(&writer, "a", 1, 1, dims, 0, 0);
    writer_tensor_raw(&writer, "b", 1, 1, dims, 0, far);
    uint8_t *image = writer_finish(&writer, size);
    return image;
}

static void hole_write(const struct data_folder *folder, char path[128], uint64_t *start) {
    size_t size;
    uint8_t *image = hole_image(terabyte, &size);
    float values[N_VALUES];
    data_file_write(folder->path, "m.gguf", image, size);
    free(image);
    snprintf(path, 128, "%s/m.gguf", folder->path);
    *start = (size + 31) / 32 * 32;
    for (int i = 0; i < N_VALUES; i++) values[i] = 7;
    put_behind(path, *start + terabyte, values, sizeof values);
}

CASE(tensors_behind_a_terabyte_are_read) {
    const struct data_folder folder = data_folder_make();
    char path[128];
    uint64_t start;
    struct weights *weights;
    rn_error err = {0};
    hole_write(&folder, path, &start);
    check(weights_open(path, &weights, &err) == RN_OK, "%s", err.message);
    check_values(weights, "a", 0);
    check_values(weights, "b", 7);
    assert_true(weights_tensor_find(weights, "b")->offset == start + terabyte);
    assert_true(weights_bytes(weights) == start + terabyte + N_VALUES * sizeof(float));
    weights_close(weights);

    // One byte less: the values of the message have all their digits.
    char want[160];
    snprintf(want, sizeof want,
             "tensor b: offset %llu + 32 bytes is past the end of the file, %llu",
             (unsigned long long)(start + terabyte), (unsigned long long)(start + terabyte + 31));
    assert_int_equal(truncate(path, (off_t)(start + terabyte + 31)), 0);
    assert_int_equal(weights_open(path, &weights, &err), RN_ERR_MODEL);
    check(strstr(err.message, want), "%s, expected %s", err.message, want);
    data_folder_remove(&folder);
}

// Sanitizers map more than that themselves.
#ifndef __SANITIZE_ADDRESS__
CASE(a_file_that_cannot_be_mapped_is_named_with_its_size) {
    const struct data_folder folder = data_folder_make();
    char path[128], want[160];
    uint64_t start;
    struct weights *weights;
    struct rlimit before, less;
    rn_error err = {0};
    hole_write(&folder, path, &start);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    less = before;
    less.rlim_cur = terabyte / 2;
    assert_int_equal(setrlimit(RLIMIT_AS, &less), 0);
    const rn_status status = weights_open(path, &weights, &err);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    snprintf(want, sizeof want, "m.gguf: its %llu bytes cannot be mapped: Cannot allocate memory",
             (unsigned long long)(start + terabyte + N_VALUES * sizeof(float)));
    check(status == RN_ERR_NOMEM && !weights, "%s", rn_status_text(status));
    check(strstr(err.message, want), "%s, expected %s", err.message, want);
    data_folder_remove(&folder);
}
#endif

// Headers are read into memory, so a file must not claim much of it.
CASE(a_header_of_more_than_256_mib_is_refused) {
    enum { LIMIT = 256 << 20 };
    const struct data_folder folder = data_folder_make();
    struct writer writer = writer_begin(3);
    struct weights *weights;
    rn_error err = {0};
    char path[128];
    size_t size;
    writer_kv_str(&writer, "general.architecture", "llama");
    writer_kv_array(&writer, "bytes", WRITER_U8, LIMIT);
    uint8_t *image = writer_finish(&writer, &size);
    data_file_write(folder.path, "m.gguf", image, size);
    snprintf(path, sizeof path, "%s/m.gguf", folder.path);
    if (truncate(path, (off_t)size + 2 * (off_t)LIMIT) != 0) skip();
    check(weights_open(path, &weights, &err) == RN_ERR_MODEL && !weights, "it is open");
    check(strstr(err.message, "m.gguf: the header takes over 268435456 bytes"), "%s", err.message);
    free(image);
    data_folder_remove(&folder);
}

static struct data_folder llama_create(void) {
    const struct data_folder folder = data_folder_make();
    config_write(&folder, "LlamaForCausalLM", "");
    return folder;
}

CASE(safetensors_behind_a_terabyte_are_read) {
    const struct data_folder folder = llama_create();
    char header[512], path[128];
    float values[N_VALUES];
    snprintf(header, sizeof header,
             "{'model.norm.weight':{'dtype':'F32','shape':[8],'data_offsets':[%llu,%llu]},"
             "'model.layers.0.input_layernorm.weight':{'dtype':'F32','shape':[8],'data_offsets':"
             "[0,32]}}",
             (unsigned long long)terabyte, (unsigned long long)terabyte + 32);
    st_write_raw(&folder, "model.safetensors", header, NULL, 0);
    snprintf(path, sizeof path, "%s/model.safetensors", folder.path);
    for (int i = 0; i < N_VALUES; i++) values[i] = 9;
    put_behind(path, 8 + strlen(header) + terabyte, values, sizeof values);
    struct weights *weights = folder_open(&folder);
    check_values(weights, "output_norm.weight", 9);
    check_values(weights, "blk.0.attn_norm.weight", 0);
    assert_true(weights_tensor_find(weights, "output_norm.weight")->offset ==
                8 + strlen(header) + terabyte);
    weights_close(weights);
    assert_int_equal(truncate(path, (off_t)(8 + strlen(header) + terabyte + 31)), 0);
    folder_refused(&folder, RN_ERR_MODEL,
                   "tensor model.norm.weight: data_offsets 1099511627776 to 1099511627808 are past "
                   "the end of the data, 1099511627807");
    data_folder_remove(&folder);
}

// ---------------------------------------------------------------- many shards

// Experts of one layer, in turns over the shards: gate, up and down of each. The values of a matrix
// are its number.
enum { EMBD = 8, FF = 2, N_EXPERT = N_SHARDS / 3 };

static void matrix_name(int index, char name[96]) {
    static const char *const which[] = {"gate", "up", "down"};
    snprintf(name, 96, "model.layers.0.mlp.experts.%d.%s_proj.weight", index / 3, which[index % 3]);
}

// moved: a matrix that is in the shard behind its own; -1: none.
static void shard_write(const struct data_folder *folder, int shard, int moved) {
    static struct st_image image;
    uint16_t values[EMBD * FF];
    char name[96], file[64];
    image.header_len = image.data_len = 0;
    for (int m = 0; m < N_SHARDS; m++) {
        if ((m == moved ? m + 1 : m) != shard) continue;
        for (int i = 0; i < EMBD * FF; i++) values[i] = (uint16_t)m;
        matrix_name(m, name);
        st_entry(&image, name, "BF16", m % 3 == 2 ? "8,2" : "2,8", values, sizeof values);
    }
    snprintf(file, sizeof file, "model-%05d-of-%05d.safetensors", shard + 1, N_SHARDS);
    if (!image.header_len) st_entry(&image, "rotary_emb.inv_freq", "F32", "1", values, 4);
    st_write(folder, file, &image);
}

static struct data_folder shards_write(void) {
    const struct data_folder folder = data_folder_make();
    static char index[N_SHARDS * 160];
    char name[96];
    size_t len = 0;
    config_write(&folder, "Qwen3MoeForCausalLM",
                 ", 'num_experts': 40, 'num_experts_per_tok': 2, 'moe_intermediate_size': 2, "
                 "'norm_topk_prob': true, 'num_key_value_heads': 2, 'head_dim': 4, "
                 "'decoder_sparse_step': 1, 'mlp_only_layers': []");
    for (int m = 0; m < N_SHARDS; m++) {
        matrix_name(m, name);
        len += (size_t)snprintf(index + len, sizeof index - len,
                                "%s'%s':'model-%05d-of-%05d.safetensors'", m ? "," : "", name,
                                m + 1, N_SHARDS);
        shard_write(&folder, m, -1);
    }
    static char text[sizeof index + 64];
    snprintf(text, sizeof text, "{'weight_map':{%s}}", index);
    folder_text(&folder, "model.safetensors.index.json", text);
    return folder;
}

CASE(experts_are_spread_over_many_shards) {
    const struct data_folder folder = shards_write();
    struct weights *weights = folder_open(&folder);
    static const char *const names[] = {"blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight",
                                        "blk.0.ffn_down_exps.weight"};
    assert_int_equal(weights_file_count(weights), N_SHARDS);
    for (int w = 0; w < 3; w++) {
        const struct tensor_view *tensor = weights_tensor_find(weights, names[w]);
        check(tensor && tensor->parts && tensor->dim[2] == N_EXPERT, "%s", names[w]);
        assert_int_equal(tensor->bytes, N_EXPERT * EMBD * FF * 2);
        for (int e = 0; e < N_EXPERT; e++) {
            uint16_t copy[EMBD * FF];
            const void *at;
            assert_int_equal(weights_read(weights, tensor->parts[e], sizeof copy, copy, &at, NULL),
                             RN_OK);
            for (int i = 0; i < EMBD * FF; i++)
                check(((const uint16_t *)at)[i] == 3 * e + w, "%s: expert %d", names[w], e);
        }
    }
    weights_close(weights);
    data_folder_remove(&folder);
}

CASE(one_wrong_shard_of_many_is_named) {
    const struct data_folder folder = shards_write();
    char path[128];
    shard_write(&folder, 99, 99); // without its matrix
    folder_refused(&folder, RN_ERR_MODEL,
                   "model-00100-of-00120.safetensors: has no tensor "
                   "model.layers.0.mlp.experts.33.gate_proj.weight, which the index says it has");
    shard_write(&folder, 99, -1);
    snprintf(path, sizeof path, "%s/model-00111-of-00120.safetensors", folder.path);
    assert_int_equal(unlink(path), 0);
    folder_refused(&folder, RN_ERR_IO,
                   "model-00111-of-00120.safetensors: No such file or directory");
    data_folder_remove(&folder);
}

TEST_PROGRAM(large) { return cases_run(NULL, NULL); }

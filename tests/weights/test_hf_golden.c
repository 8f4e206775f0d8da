// The reference models as folders and as GGUF files, which a converter made of them. Their common
// metadata are equal, and so are all tensors, name by name and byte by byte. Exceptions are the
// rows of q and k where GGUF permutes them.
// label: memory
#include "golden_folder.h"
#include "model/model.h"
#include "tensor_bytes.h"

// Keys that a folder need not have, or has otherwise.
static bool is_excepted(const char *key) {
    static const char *const keys[] = {
        "general.name", // the folder's name
        "general.type", // only a converter knows this and the following
        "general.size_label",
        "general.file_type",
        "general.quantization_version",
        "phi3.attention.sliding_window", // 0 for no window, where a folder has no key
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return strncmp(key, "tokenizer.", strlen("tokenizer.")) == 0;
}

static void compare_metas(const struct weights *folder, const struct weights *gguf) {
    for (int i = 0; i < weights_meta_count(gguf); i++) {
        const struct meta_view *want = weights_meta_at(gguf, i);
        if (is_excepted(want->key)) continue;
        const struct meta_view *have = weights_meta_find(folder, want->key);
        check(have, "%s is missing", want->key);
        check(have->type == want->type && have->count == want->count, "%s: type", want->key);
        check(have->bytes == want->bytes && memcmp(have->data, want->data, want->bytes) == 0,
              "%s: value", want->key);
    }
}

// Row r of the permuted matrix is the folder's row `row_source`: pairs of a head are side by side.
static int64_t row_source(int64_t r, int64_t head_rows) {
    const int64_t at = r % head_rows;
    return r - at + at / 2 + (at % 2 ? head_rows / 2 : 0);
}

static void compare_permuted(const struct tensor_view *have, const struct tensor_view *want,
                             int64_t n_head) {
    const size_t row = (size_t)want->dim[0] * 4;
    for (int64_t r = 0; r < want->dim[1]; r++) {
        const int64_t from = row_source(r, want->dim[1] / n_head);
        check(memcmp((const char *)have->data + (size_t)from * row,
                     (const char *)want->data + (size_t)r * row, row) == 0,
              "%s: row %lld", want->name, (long long)r);
    }
}

static void compare_bytes(const struct weights *folder, const struct tensor_view *have,
                          const struct tensor_view *want) {
    const uint64_t slice = want->bytes / (uint64_t)want->dim[2];
    for (int64_t i = 0; i < want->dim[2]; i++) {
        const void *from =
            have->parts ? have->parts[i] : (const char *)have->data + slice * (uint64_t)i;
        const void *at = bytes_brought(folder, from, slice);
        check(memcmp(at, (const char *)want->data + slice * (uint64_t)i, slice) == 0,
              "%s: bytes of slice %lld", want->name, (long long)i);
    }
}

static int64_t head_count(const struct weights *gguf, const char *arch, size_t len,
                          const char *key) {
    char name[128];
    int64_t value = 0;
    snprintf(name, sizeof name, "%.*s.attention.%s", (int)len, arch, key);
    const struct meta_view *meta = weights_meta_find(gguf, name);
    if (meta) assert_true(meta_get_i64(meta, &value));
    return value;
}

// Heads of q and k; zero where GGUF has the folder's order of rows.
struct permuted_heads {
    int64_t query, key;
};

static struct permuted_heads permuted_heads_read(const struct weights *gguf) {
    static const char *const permuted[] = {"llama", "granite", "smollm3"};
    struct permuted_heads heads = {0};
    const char *arch;
    size_t len;
    const struct meta_view *meta = weights_meta_find(gguf, "general.architecture");
    assert_true(meta && meta_get_string(meta, &arch, &len));
    for (int i = 0; i < 3; i++) {
        if (len != strlen(permuted[i]) || memcmp(arch, permuted[i], len) != 0) continue;
        heads.query = head_count(gguf, arch, len, "head_count");
        heads.key = head_count(gguf, arch, len, "head_count_kv");
    }
    return heads;
}

static void compare_tensors(const struct weights *folder, const struct weights *gguf) {
    const struct permuted_heads heads = permuted_heads_read(gguf);
    assert_int_equal(weights_tensor_count(folder), weights_tensor_count(gguf));
    for (int i = 0; i < weights_tensor_count(gguf); i++) {
        const struct tensor_view brought = tensor_brought(gguf, i), *want = &brought;
        const struct tensor_view *have = weights_tensor_find(folder, want->name);
        check(have, "%s is missing", want->name);
        check(have->format == want->format && have->n_dims == want->n_dims &&
                  memcmp(have->dim, want->dim, sizeof want->dim) == 0 && have->bytes == want->bytes,
              "%s: format or shape", want->name);
        const bool is_query = strstr(want->name, ".attn_q.weight");
        const bool is_key = strstr(want->name, ".attn_k.weight");
        if (heads.query && (is_query || is_key)) {
            struct tensor_view rows = *have;
            rows.data = tensor_bytes(folder, have);
            compare_permuted(&rows, want, is_query ? heads.query : heads.key);
        } else {
            compare_bytes(folder, have, want);
        }
    }
}

static void folder_says_what_its_gguf_says(void **state) {
    const char *name = *state;
    const struct data_folder folder = golden_folder_make(name, "spm");
    char path[DATA_PATH_BYTES];
    struct weights *from_folder, *from_gguf;
    rn_error err = {0};
    check(model_weights_open(folder.path, &from_folder, &err) == RN_OK, "%s", err.message);
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", name);
    check(weights_open(path, &from_gguf, &err) == RN_OK, "%s", err.message);
    compare_metas(from_folder, from_gguf);
    compare_tensors(from_folder, from_gguf);
    weights_close(from_folder);
    weights_close(from_gguf);
    data_folder_remove(&folder);
}

static bool has_gguf(const json_t *entry) { return json_is_true(json_object_get(entry, "gguf")); }

TEST_PROGRAM(hf_golden) {
    return data_run_tests(TEST_DATA "/golden/models.json", "folder_says_what_its_gguf_says",
                          folder_says_what_its_gguf_says, has_gguf);
}

// Folders with changed bytes, in the config and in the header of the tensors: they are refused with
// a message that names the file, or everything that they give can be read.
#include "fuzz/folder_walk.h"
#include "integers_folder.h"
#include "model/arch.h"
#include "model/model.h"
#include "weights/hf.h"

struct folder {
    struct data_file config, tensors;
    uint64_t header; // bytes of the tensors' file that are not data
};

static struct folder folder_load_path(const char *at) {
    struct folder folder;
    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, "%s/config.json", at);
    folder.config = data_file_read(path);
    snprintf(path, sizeof path, "%s/model.safetensors", at);
    folder.tensors = data_file_read(path);
    memcpy(&folder.header, folder.tensors.data, 8);
    folder.header += 8;
    return folder;
}

static struct folder folder_load(const char *name) {
    char path[DATA_PATH_BYTES];
    snprintf(path, sizeof path, TEST_DATA "/golden/%s", name);
    return folder_load_path(path);
}

static rn_status folder_read(const struct folder *folder, struct hf_config *c,
                             struct st_table *table) {
    hf_config_read(c, c->text, folder->config.size);
    if (c->status == RN_OK)
        c->status =
            store_file_add(c->weights, c->path, folder->tensors.data, folder->tensors.size, c->err);
    if (c->status == RN_OK) c->status = st_file_read(table, 0, c->err);
    if (c->status == RN_OK) c->status = st_finish(table, c->err);
    if (c->status == RN_OK) hf_tensors_map(c, table);
    if (c->status == RN_OK) c->status = store_metas_index(&c->weights->metas, c->path, c->err);
    return c->status;
}

// Whether the model opens.
static bool folder_check(const struct folder *folder, const char *name) {
    static struct model model;
    char path[] = "here";
    struct weights weights = {.path = path, .name = path};
    struct st_table table = {.weights = &weights};
    rn_error err = {0};
    struct hf_arch archs[ARCH_COUNT + 1];
    arch_folders(archs);
    struct hf_config c = {.weights = &weights,
                          .err = &err,
                          .archs = archs,
                          .path = path,
                          .text = (const char *)folder->config.data};
    rn_status status = folder_read(folder, &c, &table);
    check(status == RN_OK || (err.status == status && strncmp(err.message, path, 4) == 0),
          "%s: %s, %s", name, rn_status_text(status), err.message);
    const char *fault = status == RN_OK ? folder_walk(&weights) : NULL;
    check(!fault, "%s: %s", name, fault);
    if (status == RN_OK) {
        status = model_init(&model, &weights, &err);
        check(status == RN_OK || err.message[0], "%s: refused without a word", name);
        if (status == RN_OK) model_deinit(&model);
    }
    st_deinit(&table);
    store_reset(&weights);
    return status == RN_OK;
}

// Mostly characters that leave it JSON, and digits for digits.
static uint8_t changed(uint8_t byte) {
    static const char chars[] = "0123456789-.e,:[]{}\" ";
    if (rand() % 4 == 0) return (uint8_t)(byte ^ (1 + rand() % 255));
    if (byte >= '0' && byte <= '9' && rand() % 2) return (uint8_t)('0' + rand() % 10);
    return (uint8_t)chars[rand() % (int)(sizeof chars - 1)];
}

// Frees the folder.
static void check_changed_folder(const char *name, struct folder folder) {
    int opened = 0, refused = 0;
    check(folder_check(&folder, name), "%s", name);
    for (int round = 0; round < test_scale(60, 300, 1000); round++) {
        uint8_t *at[2], was[2];
        const int n = 1 + rand() % 2;
        for (int i = 0; i < n; i++) {
            at[i] = rand() % 4 ? folder.config.data + (size_t)rand() % folder.config.size
                               : folder.tensors.data + (size_t)rand() % folder.header;
            was[i] = *at[i];
            *at[i] = changed(was[i]);
        }
        const bool is_good = folder_check(&folder, name);
        opened += is_good;
        refused += !is_good;
        for (int i = n - 1; i >= 0; i--) *at[i] = was[i];
    }
    check(opened > 0 && refused > 0, "%s: %d opened, %d refused", name, opened, refused);
    free(folder.config.data);
    free(folder.tensors.data);
}

static void check_changed_bytes(const char *name) { check_changed_folder(name, folder_load(name)); }

CASE(changed_bytes_of_hybrids_never_crash) {
    srand(8);
#define HYBRID(name) check_changed_bytes(name);
#include "hybrids.def"
#undef HYBRID
}

CASE(changed_bytes_of_families_never_crash) {
    srand(9);
#define FAMILY(name) check_changed_bytes(name);
#include "families.def"
#undef FAMILY
}

CASE(changed_bytes_of_folders_in_codes_never_crash) {
    static const char *const names[] = {"qwen3", "deepseek_v3", "qwen3_5_moe", "llama4"};
    srand(10);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct data_folder folder[2];
        fp8_folders_make(names[i], folder);
        check_changed_folder(names[i], folder_load_path(folder[0].path));
        for (int k = 0; k < 2; k++) data_folder_remove(&folder[k]);
    }
}

CASE(changed_bytes_of_folders_in_integers_never_crash) {
    static const struct {
        const char *name;
        struct integers_way way;
    } cases[] = {
        {"qwen3", {.kind = KIND_GPTQ, .bits = 4, .group = 32, .has_order = true}},
        {"deepseek_v3", {.kind = KIND_AWQ, .bits = 4, .group = 16, .has_zeros = true}},
        {"qwen3moe", {.kind = KIND_PACKED, .bits = 4, .group = 32, .has_zeros = true}},
        {"mixtral", {.kind = KIND_BYTES, .bits = 8}},
    };
    srand(11);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct data_folder folder[2];
        integers_folders_make(cases[i].name, &cases[i].way, false, folder);
        check_changed_folder(cases[i].name, folder_load_path(folder[0].path));
        for (int k = 0; k < 2; k++) data_folder_remove(&folder[k]);
    }
}

// A config that says nothing of experts, with tensors that have all of them.
CASE(experts_of_a_config_without_them_are_refused) {
    static const struct {
        const char *name, *key, *other; // key: replaced in the config by another of its length
    } cases[] = {
        {"gemma4-moe", "\"enable_moe_block\": true", "\"enable_moe_block\":false"},
        {"gptoss", "\"num_local_experts\": 4", "\"num_local_experts\": 0"},
        {"qwen3_5_moe", "\"num_experts\": 8", "\"num_experts\": 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct folder folder = folder_load(cases[i].name);
        char *at = strstr((char *)folder.config.data, cases[i].key);
        check(at, "%s: %s", cases[i].name, cases[i].key);
        memcpy(at, cases[i].other, strlen(cases[i].other));
        check(!folder_check(&folder, cases[i].name), "%s opens", cases[i].name);
        free(folder.config.data);
        free(folder.tensors.data);
    }
}

TEST_PROGRAM(folder_damage) { return cases_run(NULL, NULL); }

// GGUF in several files: any part opens all of them, and a part that is missing, misnamed or of
// another model is refused by name and value.
// label: memory
#include "folder.h"
#include "gguf_writer.h"
#include "tensor_bytes.h"
#include "weights/weights.h"

enum { N_PARTS = 3 };

// A part's own metadata; the tests change one thing at a time.
struct part {
    int number, count, tensors_count;
    const char *tensor; // besides t<number>
    bool has_meta;
    int type; // of split.no
};

static void writer_save(struct writer *writer, const struct data_folder *folder, const char *file) {
    size_t size;
    uint8_t *image = writer_finish(writer, &size);
    data_file_write(folder->path, file, image, size);
    free(image);
}

static void part_write(const struct data_folder *folder, const char *file,
                       const struct part *part) {
    const uint64_t dims[] = {4, 2};
    float values[8];
    char name[16];
    struct writer writer = writer_begin(3);
    for (int i = 0; i < 8; i++) values[i] = (float)(100 * part->number + i);
    if (part->has_meta) {
        writer_kv_str(&writer, "general.architecture", "llama");
        writer_kv_u32(&writer, "llama.block_count", 7);
    }
    const uint16_t number = (uint16_t)part->number, count = (uint16_t)part->count;
    const int32_t tensors_count = part->tensors_count;
    writer_kv(&writer, "split.no", (uint32_t)part->type, &number, 2);
    writer_kv(&writer, "split.count", WRITER_U16, &count, 2);
    writer_kv(&writer, "split.tensors.count", WRITER_I32, &tensors_count, 4);
    snprintf(name, sizeof name, "t%d", part->number);
    writer_tensor(&writer, name, 2, dims, 0, values, sizeof values);
    if (part->tensor) writer_tensor(&writer, part->tensor, 2, dims, 0, values, sizeof values);
    writer_save(&writer, folder, file);
}

static struct part part_good(int number) {
    return (struct part){number, N_PARTS, N_PARTS, NULL, number == 0, WRITER_U16};
}

static const char *file_name(int number) {
    static const char *const names[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                                        "m-00003-of-00003.gguf"};
    return names[number];
}

static struct data_folder parts_write(void) {
    const struct data_folder folder = data_folder_make();
    for (int i = 0; i < N_PARTS; i++) {
        const struct part part = part_good(i);
        part_write(&folder, file_name(i), &part);
    }
    return folder;
}

static void path_of(const struct data_folder *folder, const char *file, char path[256]) {
    snprintf(path, 256, "%s/%s", folder->path, file);
}

CASE(any_part_opens_all) {
    const struct data_folder folder = parts_write();
    for (int given = 0; given < N_PARTS; given++) {
        char path[256];
        struct weights *weights;
        rn_error err = {0};
        path_of(&folder, file_name(given), path);
        check(weights_open(path, &weights, &err) == RN_OK, "%s", err.message);
        assert_string_equal(weights_path(weights), path);
        assert_string_equal(weights_container(weights), "GGUF v3");
        assert_int_equal(weights_tensor_count(weights), N_PARTS);
        assert_int_equal(weights_file_count(weights), N_PARTS);
        check_number(weights, "llama.block_count", 7);
        uint64_t bytes = 0;
        for (int i = 0; i < N_PARTS; i++) {
            char name[4] = {'t', (char)('0' + i), 0};
            const struct tensor_view *tensor = weights_tensor_find(weights, name);
            check(tensor && tensor->file == i, "%s", name);
            assert_string_equal(weights_file_at(weights, i), file_name(i));
            const float *values = tensor_bytes(weights, tensor);
            for (int k = 0; k < 8; k++) assert_true(values[k] == (float)(100 * i + k));
            char part[256];
            path_of(&folder, file_name(i), part);
            FILE *file = fopen(part, "rb");
            check(file && fseek(file, 0, SEEK_END) == 0, "%s", part);
            bytes += (uint64_t)ftell(file);
            fclose(file);
        }
        assert_int_equal(weights_bytes(weights), bytes);
        weights_close(weights);
    }
    data_folder_remove(&folder);
}

// Opens the given part of the folder and expects a refusal.
static void refused(const struct data_folder *folder, const char *file, const char *part) {
    char path[256];
    struct weights *weights = NULL;
    rn_error err = {0};
    path_of(folder, file, path);
    const rn_status status = weights_open(path, &weights, &err);
    check(status == RN_ERR_MODEL && !weights, "%s: %s", rn_status_text(status), err.message);
    check(strstr(err.message, part), "%s, expected %s", err.message, part);
    check(strncmp(err.message, folder->path, strlen(folder->path)) == 0, "%s", err.message);
}

CASE(a_missing_part_is_named) {
    for (int missing = 0; missing < N_PARTS; missing++) {
        const struct data_folder folder = parts_write();
        char path[256], part[256];
        path_of(&folder, file_name(missing), path);
        unlink(path);
        snprintf(part, sizeof part, "%s: No such file or directory: part %d of 3 of the model",
                 file_name(missing), missing + 1);
        refused(&folder, file_name((missing + 1) % N_PARTS), part);
        data_folder_remove(&folder);
    }
}

CASE(a_renamed_part_says_how_it_should_be_named) {
    const struct data_folder folder = parts_write();
    const struct part part = part_good(1);
    part_write(&folder, "model.gguf", &part);
    refused(&folder, "model.gguf",
            "model.gguf: part 2 of 3 of a split file (split.no is 1, split.count is 3): its name "
            "must end in -00002-of-00003.gguf");
    part_write(&folder, "m-00001-of-00004.gguf", &part);
    refused(&folder, "m-00001-of-00004.gguf", "must end in -00002-of-00003.gguf");
    data_folder_remove(&folder);
}

// One part is replaced by another; the model is opened by the name of the first.
CASE(foreign_parts_are_refused_by_value) {
    static const struct {
        int replaced;
        struct part part;
        const char *message;
    } cases[] = {
        {1,
         {2, 3, 3, NULL, false, WRITER_U16},
         "m-00002-of-00003.gguf: split.no is 2 and split.count 3, by its name they are 1 and 3"},
        {2,
         {2, 4, 3, NULL, false, WRITER_U16},
         "m-00003-of-00003.gguf: split.no is 2 and split.count 4"},
        {1,
         {1, 3, 9, NULL, false, WRITER_U16},
         "m-00002-of-00003.gguf: split.tensors.count is 9, in the first part it is 3"},
        {2,
         {2, 3, 3, "t1", false, WRITER_U16},
         "tensor t1: the name is there twice, in m-00002-of-00003.gguf and in "
         "m-00003-of-00003.gguf"},
        {2,
         {2, 3, 3, "more", false, WRITER_U16},
         "split.tensors.count is 3, the 3 parts have 4 tensors"},
        // the second byte of a bool becomes part of the next key
        {1, {1, 3, 3, NULL, false, WRITER_BOOL}, "m-00002-of-00003.gguf: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct data_folder folder = parts_write();
        part_write(&folder, file_name(cases[i].replaced), &cases[i].part);
        refused(&folder, file_name(0), cases[i].message);
        data_folder_remove(&folder);
    }
}

CASE(a_damaged_part_is_named) {
    const struct data_folder folder = parts_write();
    char path[256];
    path_of(&folder, file_name(2), path);
    assert_int_equal(truncate(path, 150), 0);
    refused(&folder, file_name(0), "m-00003-of-00003.gguf: ");
    folder_text(&folder, file_name(2), "no model at all, but long enough to look at");
    refused(&folder, file_name(1), "m-00003-of-00003.gguf: not a GGUF file");
    data_folder_remove(&folder);
}

CASE(keys_of_the_wrong_type_are_refused) {
    const struct data_folder folder = data_folder_make();
    struct writer writer = writer_begin(3);
    writer_kv_str(&writer, "split.count", "3");
    writer_save(&writer, &folder, "a.gguf");
    refused(&folder, "a.gguf", "key split.count at offset 55 is not an integer");
    writer = writer_begin(3);
    writer_kv_u32(&writer, "split.count", 3);
    writer_save(&writer, &folder, "a.gguf");
    refused(&folder, "a.gguf", "key split.no is missing");
    writer = writer_begin(3);
    writer_kv_u32(&writer, "split.count", UINT32_MAX);
    writer_save(&writer, &folder, "a.gguf");
    refused(&folder, "a.gguf", "is 4294967295, expected 0 to 4096");
    data_folder_remove(&folder);
}

CASE(one_part_of_one_is_a_plain_file) {
    const struct data_folder folder = data_folder_make();
    for (int count = 0; count <= 1; count++) {
        const struct part part = {0, count, 1, NULL, true, WRITER_U16};
        char path[256];
        struct weights *weights;
        part_write(&folder, "any.gguf", &part);
        path_of(&folder, "any.gguf", path);
        assert_int_equal(weights_open(path, &weights, NULL), RN_OK);
        assert_int_equal(weights_tensor_count(weights), 1);
        assert_int_equal(weights_file_count(weights), 1);
        weights_close(weights);
    }
    data_folder_remove(&folder);
}

CASE(memory_holds_no_split_file) {
    struct writer writer = writer_begin(3);
    size_t size;
    writer_kv_u32(&writer, "split.count", 2);
    uint8_t *image = writer_finish(&writer, &size);
    struct weights *weights;
    rn_error err = {0};
    assert_int_equal(weights_open_memory("m", image, size, &weights, &err), RN_ERR_UNSUPPORTED);
    check(strstr(err.message, "m: one part of a split file (split.count is 2)"), "%s", err.message);
    assert_null(weights);
    free(image);
}

TEST_PROGRAM(split) { return cases_run(NULL, NULL); }

// weights_read: bytes of a file come through the buffer, bytes in memory stay where they are, and a
// file that was cut after open is an error.
// label: memory
#define _GNU_SOURCE 1
#include "folder.h"
#include "gguf_writer.h"
#include "weights/weights.h"

enum { ROWS = 512, COLS = 64 };

// Two tensors of random floats.
static uint8_t *image_make(size_t *size) {
    static float values[ROWS * COLS];
    const uint64_t dims[] = {COLS, ROWS};
    struct writer writer = writer_begin(3);
    writer_kv_str(&writer, "general.architecture", "llama");
    for (int i = 0; i < ROWS * COLS; i++) values[i] = (float)i;
    writer_tensor(&writer, "a", 2, dims, 0, values, sizeof values);
    for (int i = 0; i < ROWS * COLS; i++) values[i] = (float)-i;
    writer_tensor(&writer, "b", 2, dims, 0, values, sizeof values);
    return writer_finish(&writer, size);
}

// The image as a file that is open.
struct file {
    struct data_folder folder;
    char path[256];
    uint8_t *image;
    size_t size;
    struct weights *weights;
};

static struct file file_make(void) {
    struct file file = {.folder = data_folder_make()};
    rn_error err = {0};
    file.image = image_make(&file.size);
    data_file_write(file.folder.path, "m.gguf", file.image, file.size);
    snprintf(file.path, sizeof file.path, "%s/m.gguf", file.folder.path);
    check(weights_open(file.path, &file.weights, &err) == RN_OK, "%s", err.message);
    return file;
}

static void file_remove(struct file *file) {
    weights_close(file->weights);
    free(file->image);
    data_folder_remove(&file->folder);
}

CASE(bytes_of_a_file_come_through_the_buffer) {
    struct file file = file_make();
    rn_error err = {0};
    for (int i = 0; i < weights_tensor_count(file.weights); i++) {
        const struct tensor_view *tensor = weights_tensor_at(file.weights, i);
        const uint8_t *data = (const uint8_t *)tensor->data + 12;
        uint8_t buffer[5000] = {0};
        const void *at = NULL;
        check(weights_read(file.weights, data, 4999, buffer, &at, &err) == RN_OK, "%s",
              err.message);
        check(at == buffer, "tensor %s", tensor->name);
        check(memcmp(buffer, file.image + tensor->offset + 12, 4999) == 0, "tensor %s",
              tensor->name);
        check(buffer[4999] == 0, "tensor %s", tensor->name);
    }
    file_remove(&file);
}

CASE(bytes_of_memory_stay_where_they_are) {
    size_t size;
    uint8_t *image = image_make(&size);
    struct weights *weights;
    rn_error err = {0};
    check(weights_open_memory("m", image, size, &weights, &err) == RN_OK, "%s", err.message);
    const struct tensor_view *tensor = weights_tensor_find(weights, "b");
    const void *at = NULL;
    check(weights_read(weights, tensor->data, tensor->bytes, NULL, &at, &err) == RN_OK, "b");
    check(at == tensor->data, "b");
    weights_close(weights);
    free(image);
}

CASE(a_file_that_was_cut_is_named) {
    struct file file = file_make();
    rn_error err = {0};
    check(truncate(file.path, (off_t)file.size - 8192) == 0, "%s", file.path);
    const struct tensor_view *tensor = weights_tensor_find(file.weights, "b");
    uint8_t *buffer = malloc(tensor->bytes);
    const void *at;
    check(weights_read(file.weights, tensor->data, 16, buffer, &at, &err) == RN_OK, "%s",
          err.message);
    check(weights_read(file.weights, tensor->data, tensor->bytes, buffer, &at, &err) == RN_ERR_IO,
          "b");
    char want[64];
    snprintf(want, sizeof want, "m.gguf: ends at %zu, before %llu + %llu bytes", file.size - 8192,
             (unsigned long long)tensor->offset, (unsigned long long)tensor->bytes);
    check(strstr(err.message, want), "%s, not %s", err.message, want);
    free(buffer);
    file_remove(&file);
}

TEST_PROGRAM(read) { return cases_run(NULL, NULL); }

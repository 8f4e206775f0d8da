// weights_read: bytes of a file come through the buffer, bytes in memory stay where they are, and a
// file that was cut after open is an error.
// label: memory
#define _GNU_SOURCE 1
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static void bytes_of_a_file_come_through_the_buffer(void **state) {
    (void)state;
    const struct folder folder = folder_create();
    size_t size;
    uint8_t *image = image_make(&size);
    folder_bytes(&folder, "m.gguf", image, size);
    char path[256];
    snprintf(path, sizeof path, "%s/m.gguf", folder.path);
    struct weights *weights;
    rn_error err = {0};
    check(weights_open(path, &weights, &err) == RN_OK, "%s", err.message);
    for (int i = 0; i < weights_tensor_count(weights); i++) {
        const struct tensor_view *tensor = weights_tensor_at(weights, i);
        const uint8_t *data = (const uint8_t *)tensor->data + 12;
        uint8_t buffer[5000] = {0};
        const void *at = NULL;
        check(weights_read(weights, data, 4999, buffer, &at, &err) == RN_OK, "%s", err.message);
        check(at == buffer, "tensor %s", tensor->name);
        check(memcmp(buffer, image + tensor->offset + 12, 4999) == 0, "tensor %s", tensor->name);
        check(buffer[4999] == 0, "tensor %s", tensor->name);
    }
    weights_close(weights);
    free(image);
    folder_remove(&folder);
}

static void bytes_of_memory_stay_where_they_are(void **state) {
    (void)state;
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

static void a_file_that_was_cut_is_named(void **state) {
    (void)state;
    const struct folder folder = folder_create();
    size_t size;
    uint8_t *image = image_make(&size);
    folder_bytes(&folder, "m.gguf", image, size);
    char path[256];
    snprintf(path, sizeof path, "%s/m.gguf", folder.path);
    struct weights *weights;
    rn_error err = {0};
    check(weights_open(path, &weights, &err) == RN_OK, "%s", err.message);
    check(truncate(path, (off_t)size - 8192) == 0, "%s", path);
    const struct tensor_view *tensor = weights_tensor_find(weights, "b");
    uint8_t *buffer = malloc(tensor->bytes);
    const void *at;
    check(weights_read(weights, tensor->data, 16, buffer, &at, &err) == RN_OK, "%s", err.message);
    check(weights_read(weights, tensor->data, tensor->bytes, buffer, &at, &err) == RN_ERR_IO, "b");
    char want[64];
    snprintf(want, sizeof want, "m.gguf: ends at %zu, before %llu + %llu bytes", size - 8192,
             (unsigned long long)tensor->offset, (unsigned long long)tensor->bytes);
    check(strstr(err.message, want), "%s, not %s", err.message, want);
    free(buffer);
    weights_close(weights);
    free(image);
    folder_remove(&folder);
}

TEST_PROGRAM(read) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_a_file_come_through_the_buffer),
        cmocka_unit_test(bytes_of_memory_stay_where_they_are),
        cmocka_unit_test(a_file_that_was_cut_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

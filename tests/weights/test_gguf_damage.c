// GGUF under damage: a real file cut at every byte of its header and at many of its data, bytes
// flipped, and files made to waste memory. Images have exactly their size on the heap, so that the
// address sanitizer sees any overread.
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gguf_walk.h"
#include "gguf_writer.h"
#include "weights/weights.h"

struct file_image {
    uint8_t *data;
    size_t size, header; // header: where the first tensor's data begins
    size_t end;          // of the last tensor's data
};

static struct file_image image_read(const char *path) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    struct file_image image = {.size = (size_t)ftell(file)};
    rewind(file);
    image.data = malloc(image.size);
    assert_int_equal(fread(image.data, 1, image.size, file), image.size);
    fclose(file);
    struct weights *weights;
    assert_int_equal(weights_open_memory("m", image.data, image.size, &weights, NULL), RN_OK);
    assert_null(gguf_walk(weights, image.data, image.size));
    image.header = image.size;
    for (int i = 0; i < weights_tensor_count(weights); i++) {
        const struct tensor_view *tensor = weights_tensor_at(weights, i);
        if (tensor->offset < image.header) image.header = tensor->offset;
        if (tensor->offset + tensor->bytes > image.end) image.end = tensor->offset + tensor->bytes;
    }
    weights_close(weights);
    return image;
}

static void expect_cut_refused(const struct file_image *image, size_t size, const char *part) {
    uint8_t *cut = malloc(size ? size : 1);
    memcpy(cut, image->data, size);
    struct weights *weights;
    rn_error err = {0};
    const rn_status status = weights_open_memory("m", size ? cut : NULL, size, &weights, &err);
    if (status != RN_ERR_MODEL || weights || !strstr(err.message, part)) {
        fail_msg("cut at %zu: %s: %s", size, rn_status_text(status), err.message);
    }
    free(cut);
}

CASE(file_cut_anywhere_in_its_header_is_refused) {
    struct file_image image = image_read(TEST_DATA "/golden/llama/model.gguf");
    for (size_t size = 0; size + 32 <= image.header; size++) {
        expect_cut_refused(&image, size, "truncated at offset ");
    }
    // In the padding before the data the header is whole, and the first tensor is missing.
    for (size_t size = image.header - 31; size <= image.header; size++) {
        expect_cut_refused(&image, size, "");
    }
    free(image.data);
}

CASE(file_cut_in_its_data_is_refused_by_tensor) {
    struct file_image image = image_read(TEST_DATA "/golden/llama/model.gguf");
    const size_t span = image.end - image.header;
    for (size_t i = 0; i < 256; i++) {
        expect_cut_refused(&image, image.header + span * i / 256, " is past the end of the file, ");
    }
    expect_cut_refused(&image, image.end - 1, " is past the end of the file, ");
    free(image.data);
}

// Opens the file; if that works, every view must still be inside it.
static bool open_and_walk(const uint8_t *data, size_t size) {
    struct weights *weights;
    rn_error err = {0};
    const rn_status status = weights_open_memory("m", data, size, &weights, &err);
    if (status != RN_OK) {
        assert_null(weights);
        assert_int_equal(err.status, status);
        assert_memory_equal(err.message, "m: ", 3);
        return false;
    }
    const char *problem = gguf_walk(weights, data, size);
    if (problem) fail_msg("%s", problem);
    weights_close(weights);
    return true;
}

CASE(flipped_bytes_never_leave_the_file) {
    struct file_image image = image_read(TEST_DATA "/golden/llama/model.gguf");
    srand(7);
    int n_opened = 0, n_refused = 0;
    for (int i = 0; i < test_scale(4000, 10000, 10000); i++) {
        // Most bytes of the header are the tokens' text: half of the flips go to the two ends.
        const size_t span = i % 2 ? image.header : 1500;
        size_t at = (size_t)rand() % span;
        if (i % 4 == 0) at = image.header - 1 - at;
        const uint8_t saved = image.data[at];
        image.data[at] ^= (uint8_t)(1 + rand() % 255);
        if (open_and_walk(image.data, image.size)) {
            n_opened++;
        } else {
            n_refused++;
        }
        image.data[at] = saved;
    }
    assert_true(n_opened > 100 && n_refused > 100);
    free(image.data);
}

// Eight bytes at once, with values around the edges where sums and products wrap.
CASE(edge_values_in_the_header_never_leave_the_file) {
    const uint64_t edges[] = {0,          1,          UINT64_MAX,       1ull << 63,
                              1ull << 62, 1ull << 61, UINT64_MAX - 31,  (1ull << 63) - 1,
                              UINT32_MAX, 1ull << 32, UINT64_MAX - 127, 0x0000000900000009};
    struct writer writer = writer_begin(3);
    const char *const tokens[] = {"a", "bb", "", "ccc"};
    writer_kv_str(&writer, "name", "text");
    writer_kv_u32(&writer, "general.alignment", 64);
    writer_kv_str_array(&writer, "tokens", tokens, 4);
    writer_kv_f32_array(&writer, "scores", (float[]){1, 2, 3}, 3);
    writer.alignment = 64;
    writer_tensor(&writer, "t", 3, (uint64_t[]){32, 2, 3}, 8, NULL, 34 * 6);
    writer_tensor(&writer, "u", 1, (uint64_t[]){7}, 1, NULL, 14);
    size_t size;
    uint8_t *image = writer_finish(&writer, &size);
    assert_true(open_and_walk(image, size));
    for (size_t at = 0; at + 8 <= size; at++) {
        for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
            for (size_t width = 4; width <= 8; width += 4) {
                uint8_t saved[8];
                memcpy(saved, image + at, 8);
                memcpy(image + at, &edges[i], width);
                open_and_walk(image, size);
                memcpy(image + at, saved, 8);
            }
        }
    }
    free(image);
}

// A sanitizer's memory beside each allocation and after each free is not the reader's growth.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { GROWTH_KB_MAX = 256 * 1024 };
#else
enum { GROWTH_KB_MAX = 64 * 1024 };
#endif

static long peak_kb(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

// The peak of a process never falls, so each file is tried in a process of its own.
static void expect_small_growth(uint8_t *image, size_t size, rn_status expected) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        volatile uint8_t sum = 0; // the image's own pages are not growth
        for (size_t i = 0; i < size; i += 4096) sum = (uint8_t)(sum + image[i]);
        const long before = peak_kb();
        struct weights *weights;
        const rn_status status = weights_open_memory("m", image, size, &weights, NULL);
        const long growth = peak_kb() - before;
        _exit(status != expected ? 100 : growth > GROWTH_KB_MAX ? 101 : 0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 0);
    free(image);
}

CASE(absurd_counts_cost_no_memory) {
    size_t size;
    struct writer writer = writer_begin(3);
    writer.n_kv = 65536;
    writer.n_tensors = 262144;
    uint8_t *image = writer_finish(&writer, &size);
    expect_small_growth(image, size, RN_ERR_MODEL);
    writer = writer_begin(3);
    writer_kv_array(&writer, "tokens", WRITER_STRING, 1 << 24);
    image = writer_finish(&writer, &size);
    expect_small_growth(image, size, RN_ERR_MODEL);
    writer = writer_begin(3);
    writer_kv_array(&writer, "scores", WRITER_F32, 1ull << 40);
    image = writer_finish(&writer, &size);
    expect_small_growth(image, size, RN_ERR_MODEL);
}

// As many tensors as are taken, with names as long as are taken together, the last one a duplicate.
CASE(largest_table_costs_at_most_64_mb) {
    struct writer writer = writer_begin(3);
    char name[128];
    for (int i = 0; i < 262144; i++) {
        snprintf(name, sizeof name, "%0*d", 63, i % 262143);
        writer_tensor_raw(&writer, name, strlen(name), 1, (uint64_t[]){1}, 0, 0);
    }
    size_t size;
    uint8_t *image = writer_finish(&writer, &size);
    expect_small_growth(image, size, RN_ERR_MODEL);
}

CASE(names_that_take_too_much_are_refused) {
    struct writer writer = writer_begin(3);
    char *key = malloc(65535);
    memset(key, 'k', 65535);
    for (int i = 0; i < 1000; i++) {
        for (int k = 0; k < 4; k++) key[k] = (char)('a' + (i >> (4 * k) & 15));
        writer_kv_raw(&writer, key, 65535, WRITER_U8, "", 1);
    }
    free(key);
    size_t size;
    uint8_t *image = writer_finish(&writer, &size);
    struct weights *weights;
    rn_error err;
    assert_int_equal(weights_open_memory("m", image, size, &weights, &err), RN_ERR_MODEL);
    assert_non_null(strstr(err.message, "over the limit of 16777216"));
    expect_small_growth(image, size, RN_ERR_MODEL);
}

// A valid vocabulary as large as real ones: nothing per token is allocated.
CASE(large_vocabulary_opens_without_memory_per_token) {
    struct writer writer = writer_begin(3);
    writer_kv_array(&writer, "tokens", WRITER_STRING, 400000);
    char token[32];
    for (int i = 0; i < 400000; i++) {
        writer_put_string(&writer.kv, token, (size_t)snprintf(token, sizeof token, "token-%d", i));
    }
    size_t size;
    uint8_t *image = writer_finish(&writer, &size);
    assert_true(open_and_walk(image, size));
    expect_small_growth(image, size, RN_OK);
}

TEST_PROGRAM(gguf_damage) { return cases_run(NULL, NULL); }

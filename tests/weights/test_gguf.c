// GGUF: the contents of a good file, and the refusal of each kind of bad file, by name and value.
// label: memory
#include "check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gguf_walk.h"
#include "gguf_writer.h"
#include "weights/weights.h"

enum { TYPE_F32 = 0, TYPE_F16 = 1, TYPE_IQ2_XXS = 16, TYPE_Q8_0 = 8, TYPE_Q4_K = 12 };

static const uint64_t dims_4x2[] = {4, 2};

// Finishes the image and expects this refusal. `part` is in the message.
static void expect_refusal(struct writer *writer, rn_status status, const char *part) {
    size_t size;
    uint8_t *image = writer_finish(writer, &size);
    struct weights *weights = (struct weights *)&size;
    rn_error err = {0};
    const rn_status actual = weights_open_memory("m.gguf", image, size, &weights, &err);
    if (actual != status || !strstr(err.message, part)) {
        fail_msg("%s: %s, expected %s", rn_status_text(actual), err.message, part);
    }
    assert_null(weights);
    assert_int_equal(err.status, status);
    assert_memory_equal(err.message, "m.gguf: ", 8);
    assert_int_equal(weights_open_memory("m.gguf", image, size, &weights, NULL), status);
    free(image);
}

static struct weights *expect_open(struct writer *writer, uint8_t **image, size_t *size) {
    *image = writer_finish(writer, size);
    struct weights *weights;
    rn_error err = {0};
    if (weights_open_memory("m.gguf", *image, *size, &weights, &err) != RN_OK) {
        fail_msg("%s", err.message);
    }
    const char *problem = gguf_walk(weights, *image, *size);
    if (problem) fail_msg("%s", problem);
    return weights;
}

static void write_good(struct writer *writer, uint32_t version) {
    const char *const tokens[] = {"<s>", "", "hello"};
    const int32_t types[] = {-3, 1, 6};
    const float scores[] = {0.5f, -1.0f, 0.0f};
    const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const uint64_t dims_q8[] = {64, 1, 3};
    *writer = writer_begin(version);
    writer_kv_str(writer, "general.architecture", "llama");
    writer_kv_u32(writer, "llama.block_count", 3);
    writer_kv_f32(writer, "llama.epsilon", 0.25f);
    writer_kv_bool(writer, "add_bos", true);
    writer_kv_u64(writer, "large", UINT64_MAX);
    writer_kv_str_array(writer, "tokens", tokens, 3);
    writer_kv_i32_array(writer, "types", types, 3);
    writer_kv_f32_array(writer, "scores", scores, 3);
    writer_kv_array(writer, "none", WRITER_STRING, 0);
    writer_tensor(writer, "b.weight", 2, dims_4x2, TYPE_F32, values, sizeof values);
    writer_tensor(writer, "a.weight", 3, dims_q8, TYPE_Q8_0, NULL, 2 * 3 * 34);
}

CASE(tensors_are_found_with_their_bytes) {
    for (uint32_t version = 2; version <= 3; version++) {
        struct writer writer;
        uint8_t *image;
        size_t size;
        write_good(&writer, version);
        struct weights *weights = expect_open(&writer, &image, &size);
        assert_string_equal(weights_container(weights), version == 2 ? "GGUF v2" : "GGUF v3");
        assert_string_equal(weights_name(weights), "m.gguf");
        assert_int_equal(weights_tensor_count(weights), 2);
        const struct tensor_view *tensor = weights_tensor_find(weights, "b.weight");
        assert_ptr_equal(tensor, weights_tensor_at(weights, 0)); // the file's order
        assert_int_equal(tensor->format, FORMAT_F32);
        assert_int_equal(tensor->n_dims, 2);
        assert_int_equal(tensor->dim[0], 4);
        assert_int_equal(tensor->dim[1], 2);
        assert_int_equal(tensor->bytes, 32);
        const float expected[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        assert_memory_equal(tensor->data, expected, sizeof expected);
        tensor = weights_tensor_find(weights, "a.weight");
        assert_int_equal(tensor->bytes, 2 * 3 * 34);
        assert_int_equal(tensor->dim[3], 1);
        assert_null(weights_tensor_find(weights, "c.weight"));
        assert_null(weights_tensor_find(weights, "a.weigh"));
        weights_close(weights);
        free(image);
    }
}

CASE(metadata_is_read_by_type) {
    struct writer writer;
    uint8_t *image;
    size_t size, len;
    write_good(&writer, 3);
    struct weights *weights = expect_open(&writer, &image, &size);
    int64_t integer;
    double real;
    bool flag;
    const char *text;
    const struct meta_view *meta = weights_meta_find(weights, "llama.block_count");
    assert_true(meta_get_i64(meta, &integer) && integer == 3);
    assert_true(meta_get_f64(meta, &real) && real == 3.0);
    assert_false(meta_get_bool(meta, &flag) || meta_get_string(meta, &text, &len));
    meta = weights_meta_find(weights, "llama.epsilon");
    assert_true(meta_get_f64(meta, &real) && real == 0.25);
    assert_false(meta_get_i64(meta, &integer));
    meta = weights_meta_find(weights, "add_bos");
    assert_true(meta_get_bool(meta, &flag) && flag);
    assert_true(meta_get_i64(meta, &integer) && integer == 1);
    meta = weights_meta_find(weights, "large");
    assert_false(meta_get_i64(meta, &integer)); // does not fit
    assert_true(meta_get_f64(meta, &real) && real == 0x1p64);
    meta = weights_meta_find(weights, "general.architecture");
    assert_true(meta_get_string(meta, &text, &len) && len == 5 && memcmp(text, "llama", 5) == 0);
    assert_null(weights_meta_find(weights, "general"));
    weights_close(weights);
    free(image);
}

CASE(arrays_are_walked_and_indexed) {
    struct writer writer;
    uint8_t *image;
    size_t size, len;
    write_good(&writer, 3);
    struct weights *weights = expect_open(&writer, &image, &size);
    struct meta_cursor cursor;
    const char *text;
    int64_t integer;
    double real;
    const struct meta_view *meta = weights_meta_find(weights, "tokens");
    assert_true(meta_strings_begin(meta, &cursor));
    assert_true(meta_strings_next(&cursor, &text, &len) && len == 3 && !memcmp(text, "<s>", 3));
    assert_true(meta_strings_next(&cursor, &text, &len) && len == 0);
    assert_true(meta_strings_next(&cursor, &text, &len) && len == 5 && !memcmp(text, "hello", 5));
    assert_false(meta_strings_next(&cursor, &text, &len));
    assert_false(meta_item_i64(meta, 0, &integer));
    meta = weights_meta_find(weights, "types");
    assert_true(meta_item_i64(meta, 0, &integer) && integer == -3);
    assert_true(meta_item_f64(meta, 2, &real) && real == 6.0);
    assert_false(meta_item_i64(meta, 3, &integer));
    assert_false(meta_strings_begin(meta, &cursor));
    meta = weights_meta_find(weights, "scores");
    assert_true(meta_item_f64(meta, 1, &real) && real == -1.0);
    assert_false(meta_item_i64(meta, 1, &integer));
    assert_true(meta_strings_begin(weights_meta_find(weights, "none"), &cursor));
    assert_false(meta_strings_next(&cursor, &text, &len));
    weights_close(weights);
    free(image);
}

CASE(every_scalar_type_keeps_its_sign_and_width) {
    struct writer writer = writer_begin(3);
    const uint8_t ones[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    const int types[] = {WRITER_U8,  WRITER_I8,  WRITER_U16, WRITER_I16,
                         WRITER_U32, WRITER_I32, WRITER_I64};
    const size_t sizes[] = {1, 1, 2, 2, 4, 4, 8};
    const int64_t values[] = {255, -1, 65535, -1, UINT32_MAX, -1, -1};
    const double pi = 3.14159;
    for (size_t i = 0; i < 7; i++) {
        char key[2] = {(char)('a' + i), 0};
        writer_kv(&writer, key, (uint32_t)types[i], ones, sizes[i]);
    }
    writer_kv(&writer, "pi", WRITER_F64, &pi, sizeof pi);
    uint8_t *image;
    size_t size;
    struct weights *weights = expect_open(&writer, &image, &size);
    for (int i = 0; i < 7; i++) {
        int64_t integer;
        double real;
        const struct meta_view *meta = weights_meta_at(weights, i);
        assert_true(meta_get_i64(meta, &integer) && integer == values[i]);
        assert_true(meta_get_f64(meta, &real) && real == (double)values[i]);
    }
    double real;
    assert_true(meta_get_f64(weights_meta_find(weights, "pi"), &real) && real == pi);
    weights_close(weights);
    free(image);
}

CASE(file_without_tensors_opens) {
    struct writer writer = writer_begin(3);
    writer_kv_u32(&writer, "a", 1);
    uint8_t *image;
    size_t size;
    struct weights *weights = expect_open(&writer, &image, &size);
    assert_int_equal(weights_tensor_count(weights), 0);
    assert_null(weights_tensor_find(weights, "a"));
    weights_close(weights);
    free(image);
    writer = writer_begin(2); // and without anything
    weights = expect_open(&writer, &image, &size);
    assert_int_equal(size, 24);
    assert_null(weights_meta_find(weights, "a"));
    weights_close(weights);
    free(image);
}

CASE(stated_alignment_is_used) {
    const uint32_t alignments[] = {1, 2, 64, 4096, 1 << 20};
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
        struct writer writer = writer_begin(3);
        const float values[8] = {9};
        writer.alignment = alignments[i];
        writer_kv_u32(&writer, "general.alignment", alignments[i]);
        writer_tensor(&writer, "odd", 1, &(uint64_t){3}, TYPE_F16, values, 6);
        writer_tensor(&writer, "w", 2, dims_4x2, TYPE_F32, values, sizeof values);
        uint8_t *image;
        size_t size;
        struct weights *weights = expect_open(&writer, &image, &size);
        const struct tensor_view *tensor = weights_tensor_find(weights, "w");
        assert_int_equal(tensor->offset % alignments[i], 0);
        assert_memory_equal(tensor->data, values, sizeof values);
        weights_close(weights);
        free(image);
    }
}

CASE(bad_alignment_is_refused_by_value) {
    const uint32_t alignments[] = {0, 3, 1 << 21, UINT32_MAX, 1u << 31};
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
        struct writer writer = writer_begin(3);
        writer_kv_u32(&writer, "general.alignment", alignments[i]);
        char part[100];
        snprintf(part, sizeof part, "key general.alignment: %u at offset", alignments[i]);
        expect_refusal(&writer, RN_ERR_MODEL, part);
    }
    struct writer writer = writer_begin(3);
    writer_kv_str(&writer, "general.alignment", "32");
    expect_refusal(&writer, RN_ERR_MODEL, "key general.alignment: value type 8");
}

CASE(wrong_magic_and_versions_are_refused) {
    struct writer writer = writer_begin(3);
    writer.magic = 0x67676d65;
    expect_refusal(&writer, RN_ERR_MODEL,
                   "m.gguf: not a GGUF file: magic is 0x67676d65, expected 0x46554747 (\"GGUF\")");
    writer = writer_begin(1);
    expect_refusal(&writer, RN_ERR_UNSUPPORTED, "version at offset 4 is 1:");
    writer = writer_begin(4);
    expect_refusal(&writer, RN_ERR_UNSUPPORTED, "version at offset 4 is 4:");
    writer = writer_begin(0x03000000);
    expect_refusal(&writer, RN_ERR_UNSUPPORTED, "big-endian GGUF v3");
}

CASE(files_that_people_take_for_a_model_are_named) {
    static const char *const files[][2] = {
        {"PK\3\4", "m.gguf: not a GGUF file: it is a ZIP file, as PyTorch writes weights"},
        {"vers", "it is the pointer of Git LFS to a file: 'git lfs pull' brings the file itself"},
        {"lmgg", "it is a file in a form before GGUF"},
        {"tjgg", "it is a file in a form before GGUF"},
        {"<!DO", "it is a web page"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct writer writer = writer_begin(3);
        memcpy(&writer.magic, files[i][0], sizeof writer.magic);
        expect_refusal(&writer, RN_ERR_MODEL, files[i][1]);
    }
}

CASE(absurd_counts_are_refused_by_value) {
    const uint64_t counts[] = {262145, UINT32_MAX, 1ull << 61, 1ull << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        char part[100];
        struct writer writer;
        write_good(&writer, 3);
        writer.n_kv = counts[i];
        snprintf(part, sizeof part, "n_kv at offset 16 is %llu", (unsigned long long)counts[i]);
        expect_refusal(&writer, RN_ERR_MODEL, part);
        write_good(&writer, 3);
        writer.n_tensors = counts[i];
        snprintf(part, sizeof part, "n_tensors at offset 8 is %llu", (unsigned long long)counts[i]);
        expect_refusal(&writer, RN_ERR_MODEL, part);
    }
    struct writer writer = writer_begin(3);
    writer.n_kv = 65536;
    expect_refusal(&writer, RN_ERR_MODEL, "truncated at offset 24 while reading key 0: 8 bytes");
    writer = writer_begin(3);
    writer.n_tensors = 262144;
    expect_refusal(&writer, RN_ERR_MODEL, "truncated at offset 24 while reading tensor 0");
}

CASE(absurd_lengths_are_refused_by_value) {
    const uint64_t counts[] = {1000, 1ull << 61, 1ull << 63, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        char value[32];
        snprintf(value, sizeof value, "%llu ", (unsigned long long)counts[i]);
        struct writer writer = writer_begin(3);
        writer_put_u64(&writer.kv, counts[i]); // the length of a key
        writer.n_kv = 1;
        expect_refusal(&writer, RN_ERR_MODEL, value);
        writer = writer_begin(3);
        writer_kv(&writer, "text", WRITER_STRING, &counts[i], 8);
        expect_refusal(&writer, RN_ERR_MODEL, value);
        writer = writer_begin(3);
        writer_kv_array(&writer, "numbers", WRITER_U8, counts[i]);
        expect_refusal(&writer, RN_ERR_MODEL, value);
        writer = writer_begin(3);
        writer_kv_array(&writer, "strings", WRITER_STRING, 1);
        writer_put_u64(&writer.kv, counts[i]);
        expect_refusal(&writer, RN_ERR_MODEL, value);
        writer = writer_begin(3);
        writer_put_u64(&writer.infos, counts[i]); // the length of a tensor's name
        writer.n_tensors = 1;
        expect_refusal(&writer, RN_ERR_MODEL, value);
    }
    struct writer writer = writer_begin(3);
    writer_kv_array(&writer, "numbers", WRITER_U64, (1ull << 61) + 1); // * 8 wraps to 8
    writer_put_u64(&writer.kv, 0);
    expect_refusal(&writer, RN_ERR_MODEL, "key numbers: 2305843009213693953 items of 8 bytes");
    writer = writer_begin(3);
    writer_kv_array(&writer, "strings", WRITER_STRING, 1ull << 62);
    expect_refusal(&writer, RN_ERR_MODEL, "key strings: array of 4611686018427387904 items");
}

CASE(nested_arrays_and_unknown_types_are_refused) {
    struct writer writer = writer_begin(3);
    writer_kv_array(&writer, "deep", WRITER_ARRAY, 1);
    expect_refusal(&writer, RN_ERR_MODEL, "key deep: array of arrays at offset");
    writer = writer_begin(3);
    writer_kv(&writer, "odd", 13, "12345678", 8);
    expect_refusal(&writer, RN_ERR_MODEL, "key odd: value type 13 at offset 35 is unknown");
    writer = writer_begin(3);
    writer_kv_array(&writer, "odd", 0xffffffff, 0);
    expect_refusal(&writer, RN_ERR_MODEL, "key odd: value type 4294967295 at offset 39 is unknown");
}

CASE(bools_other_than_0_and_1_are_refused) {
    struct writer writer = writer_begin(3);
    writer_kv(&writer, "flag", WRITER_BOOL, "\x02", 1);
    expect_refusal(&writer, RN_ERR_MODEL, "key flag: bool at offset 40 is 2");
    writer = writer_begin(3);
    writer_kv_array(&writer, "flags", WRITER_BOOL, 3);
    writer_put(&writer.kv, "\0\1\xff", 3);
    expect_refusal(&writer, RN_ERR_MODEL, "key flags: bool at offset 55 is 255");
}

CASE(tensors_that_share_bytes_are_refused) {
    const uint64_t dims[1] = {32};
    const float data[64] = {0};
    struct writer writer = writer_begin(3);
    writer_tensor_raw(&writer, "a", 1, 1, dims, 0 /* F32 */, 0);
    writer_tensor_raw(&writer, "b", 1, 1, dims, 0 /* F32 */, 96);
    writer_put(&writer.data, data, sizeof data);
    expect_refusal(&writer, RN_ERR_MODEL,
                   "m.gguf: tensor b: offset 192 is inside tensor a, 96 + 128 bytes");
    writer = writer_begin(3);
    writer_tensor_raw(&writer, "a", 1, 1, dims, 0 /* F32 */, 128);
    writer_tensor_raw(&writer, "b", 1, 1, dims, 0 /* F32 */, 0);
    writer_put(&writer.data, data, sizeof data);
    uint8_t *image;
    size_t size;
    struct weights *weights = expect_open(&writer, &image, &size); // in any order, side by side
    weights_close(weights);
    free(image);
}

CASE(bad_names_are_refused) {
    static char text[70000];
    memset(text, 'n', sizeof text);
    struct writer writer = writer_begin(3);
    writer_kv_raw(&writer, text, 65536, WRITER_U8, "", 1);
    expect_refusal(&writer, RN_ERR_MODEL, "key 0 at offset 24: a name of 65536 bytes");
    writer = writer_begin(3);
    writer_kv_raw(&writer, text, 0, WRITER_U8, "", 1);
    expect_refusal(&writer, RN_ERR_MODEL, "key 0 at offset 24: a name of 0 bytes");
    writer = writer_begin(3);
    writer_kv_raw(&writer, "a\0b", 3, WRITER_U8, "", 1);
    expect_refusal(&writer, RN_ERR_MODEL, "key 0 at offset 24: NUL at byte 1");
    writer = writer_begin(3);
    writer_tensor_raw(&writer, text, 128, 2, dims_4x2, TYPE_F32, 0);
    expect_refusal(&writer, RN_ERR_MODEL, "tensor 0 at offset 24: a name of 128 bytes");
    writer = writer_begin(3);
    writer_tensor_raw(&writer, "a\0", 2, 2, dims_4x2, TYPE_F32, 0);
    expect_refusal(&writer, RN_ERR_MODEL, "tensor 0 at offset 24: NUL at byte 1");

    writer = writer_begin(3); // the longest that are taken
    writer_kv_raw(&writer, text, 65535, WRITER_U8, "", 1);
    writer_tensor_raw(&writer, text, 127, 2, dims_4x2, TYPE_F32, 0);
    for (int i = 0; i < 4; i++) writer_put_u64(&writer.data, 0);
    uint8_t *image;
    size_t size;
    weights_close(expect_open(&writer, &image, &size));
    free(image);
}

CASE(hostile_names_stay_on_one_line) {
    struct writer writer = writer_begin(3);
    writer_tensor_raw(&writer, "a\n\x1b[2J", 6, 0, NULL, TYPE_F32, 0);
    expect_refusal(&writer, RN_ERR_MODEL, "tensor a??[2J: 0 dimensions");
}

CASE(duplicates_are_refused_by_name) {
    struct writer writer;
    write_good(&writer, 3);
    writer_kv_u32(&writer, "tokens", 1);
    expect_refusal(&writer, RN_ERR_MODEL, "key tokens: the name is there twice, as key 5 and 9");
    write_good(&writer, 3);
    writer_tensor(&writer, "b.weight", 2, dims_4x2, TYPE_F32, NULL, 32);
    expect_refusal(&writer, RN_ERR_MODEL,
                   "tensor b.weight: the name is there twice, as tensor 0 and 2");
}

CASE(bad_dimensions_are_refused_by_value) {
    const struct {
        uint32_t n_dims;
        uint64_t dims[5];
        const char *part;
    } cases[] = {
        {0, {0}, "tensor t: 0 dimensions"},
        {5, {1, 1, 1, 1, 1}, "tensor t: 5 dimensions"},
        {1, {0}, "tensor t: dimension 0 at offset 37 is 0: it must"},
        {4, {4, 4, 4, 0}, "tensor t: dimension 3 at offset 61 is 0: it must"},
        {1, {1ull << 63}, "dimension 0 at offset 37 is 9223372036854775808: the number"},
        {2, {1ull << 32, 1ull << 32}, "dimension 1 at offset 45 is 4294967296: the number"},
        {4, {1ull << 20, 1ull << 20, 1ull << 20, 16}, "dimension 3 at offset 61 is 16: the number"},
        {2, {UINT64_MAX, 1}, "dimension 0 at offset 37 is 18446744073709551615: the number"},
        {2, {1ull << 62, 1}, "the bytes of 4611686018427387904 x 1 x 1 x 1 elements of F32"},
        {1, {(1ull << 62) - 8}, "tensor t: offset 64 + 0 + 18446744073709551584 bytes overflows"},
        {1, {1ull << 40}, "tensor t: offset 64 + 4398046511104 bytes is past the end of the file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct writer writer = writer_begin(3);
        writer_tensor_raw(&writer, "t", 1, cases[i].n_dims, cases[i].dims, TYPE_F32, 0);
        expect_refusal(&writer, RN_ERR_MODEL, cases[i].part);
    }
    struct writer writer = writer_begin(3);
    writer_tensor_raw(&writer, "t", 1, 1, (uint64_t[]){48}, TYPE_Q8_0, 0);
    expect_refusal(&writer, RN_ERR_MODEL,
                   "tensor t: row length 48 is not a multiple of 32, the block of Q8_0");
    writer = writer_begin(3); // a whole number of blocks, but not in a row
    writer_tensor_raw(&writer, "t", 1, 2, (uint64_t[]){128, 2}, TYPE_Q4_K, 0);
    expect_refusal(&writer, RN_ERR_MODEL, "tensor t: row length 128 is not a multiple of 256");
}

CASE(formats_that_cannot_be_read_are_named) {
    struct writer writer = writer_begin(3);
    writer_tensor_raw(&writer, "blk.3.ffn_up.weight", 19, 1, (uint64_t[]){256}, TYPE_IQ2_XXS, 0);
    expect_refusal(&writer, RN_ERR_UNSUPPORTED, "tensor blk.3.ffn_up.weight: format IQ2_XXS (16)");
    const struct {
        uint32_t number;
        const char *part;
    } cases[] = {
        {17, "tensor t: format IQ2_XS (17) at offset 45 is not supported: requantize the model to "
             "Q2_K, or take a file of it in Q2_K"},
        {21,
         "tensor t: format IQ3_S (21) at offset 45 is not supported: requantize the model to Q3"},
        {25, "tensor t: format I16 (25) at offset 45 is not supported"},
        {4, "tensor t: format 4 at offset 45 is unknown: Ollama wrote gpt-oss so at first"},
        {4711, "tensor t: format 4711 at offset 45 is unknown: the file is damaged, or newer than"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        writer = writer_begin(3);
        writer_tensor_raw(&writer, "t", 1, 1, (uint64_t[]){256}, cases[i].number, 0);
        expect_refusal(&writer, RN_ERR_UNSUPPORTED, cases[i].part);
    }
}

CASE(offsets_outside_the_file_are_refused_by_value) {
    // The data begins at 96: 24 + (8 + 1 + 4 + 16 + 4 + 8) = 65, padded. 32 bytes follow.
    const struct {
        uint64_t offset;
        const char *part;
    } cases[] = {
        {16, "tensor t: offset 16 is not a multiple of the alignment, 32"},
        {32, "tensor t: offset 128 + 32 bytes is past the end of the file, 128"},
        {1ull << 63, "tensor t: offset 9223372036854775904 + 32 bytes is past the end"},
        {UINT64_MAX - 31, "tensor t: offset 96 + 18446744073709551584 + 32 bytes overflows"},
        {UINT64_MAX - 127, "+ 18446744073709551488 + 32 bytes overflows"}, // to exactly 0
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct writer writer = writer_begin(3);
        writer_tensor_raw(&writer, "t", 1, 2, dims_4x2, TYPE_F32, cases[i].offset);
        for (int k = 0; k < 4; k++) writer_put_u64(&writer.data, 0);
        expect_refusal(&writer, RN_ERR_MODEL, cases[i].part);
    }
}

CASE(opening_a_file_reads_the_same_and_names_the_path) {
    struct writer writer;
    size_t size;
    write_good(&writer, 3);
    uint8_t *image = writer_finish(&writer, &size);
    char path[] = "test_gguf.XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, image, size), size);
    struct weights *weights;
    rn_error err;
    assert_int_equal(weights_open(path, &weights, &err), RN_OK);
    assert_string_equal(weights_name(weights), path);
    assert_int_equal(weights_bytes(weights), size);
    assert_int_equal(weights_file_count(weights), 1);
    assert_string_equal(weights_file_at(weights, 0), path);
    assert_null(weights_folder(weights));
    const float expected[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    assert_memory_equal(weights_tensor_find(weights, "b.weight")->data, expected, 32);
    weights_close(weights);

    assert_int_equal(ftruncate(fd, (off_t)size - 1), 0);
    assert_int_equal(weights_open(path, &weights, &err), RN_ERR_MODEL);
    assert_null(weights);
    assert_memory_equal(err.message, path, strlen(path));
    assert_non_null(strstr(err.message, "tensor a.weight: offset"));
    close(fd);
    unlink(path);
    assert_int_equal(weights_open(path, &weights, &err), RN_ERR_IO);
    assert_memory_equal(err.message, path, strlen(path));
    free(image);
}

TEST_PROGRAM(gguf) { return cases_run(NULL, NULL); }

// Folders of packed integers that do not fit: parts, numbers and configs are refused by name, and
// files that were cut are errors.
// label: memory
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "integers_image.h"

struct fault {
    const struct integers_way *way;
    const char *end;           // of the entry's name
    const char *dtype, *shape; // that it has instead; NULL: its own. Both NULL: it is not there
    rn_status status;
    const char *message;
};

static void check_fault(const struct fault *fault) {
    static struct fp8_image image;
    struct fp8_entry *entry;
    const struct data_folder folder = data_folder_make();
    config_of(&folder, fault->way, "Qwen3ForCausalLM", "");
    image_make(&image, fault->way);
    entry_data(&image, fault->end, &entry);
    if (fault->dtype) snprintf(entry->dtype, sizeof entry->dtype, "%s", fault->dtype);
    if (fault->shape) snprintf(entry->shape, sizeof entry->shape, "%s", fault->shape);
    if (fault->shape && strncmp(fault->shape, "0,", 2) == 0) entry->bytes = 0;
    if (!fault->dtype && !fault->shape)
        snprintf(entry->name, sizeof entry->name, "model.rotary_emb.inv_freq");
    fp8_image_write(&image, &folder);
    folder_refused(&folder, fault->status, fault->message);
    data_folder_remove(&folder);
}

CASE(parts_that_do_not_fit_are_refused_by_name) {
    static const struct integers_way order = {.kind = KIND_GPTQ,
                                              .bits = 4,
                                              .group = 64,
                                              .has_order = true};
    static const struct integers_way awq = {.kind = KIND_AWQ, .bits = 4, .group = 64};
    static const struct integers_way bytes = {.kind = KIND_BYTES, .bits = 8};
    static const struct fault faults[] = {
        {&gptq_way, ".scales", NULL, NULL, RN_ERR_MODEL, "qweight: its scales are missing"},
        {&gptq_way, ".qzeros", NULL, NULL, RN_ERR_MODEL, "qweight: its zero points are missing"},
        {&awq, ".qzeros", NULL, NULL, RN_ERR_MODEL, "qweight: its zero points are missing"},
        {&order, ".g_idx", NULL, NULL, RN_ERR_MODEL, "qweight: its g_idx is missing"},
        {&packed_way, ".weight_shape", NULL, NULL, RN_ERR_MODEL, "its shape is missing"},
        {&packed_way, ".weight_scale", NULL, NULL, RN_ERR_MODEL, "its scales are missing"},
        {&bytes, ".weight_scale", NULL, NULL, RN_ERR_MODEL, "its scales are missing"},
        {&gptq_way, ".scales", "I16", NULL, RN_ERR_UNSUPPORTED, "scales: scales are expected in"},
        {&gptq_way, ".scales", NULL, "120", RN_ERR_UNSUPPORTED, "neither 2, 4 nor 8 bits"},
        {&gptq_way, ".scales", NULL, "3,40,1", RN_ERR_MODEL, "scales are expected to be a matrix"},
        {&gptq_way, ".scales", NULL, "1,120", RN_ERR_UNSUPPORTED, "neither 2, 4 nor 8 bits"},
        {&gptq_way, ".scales", NULL, "40,3", RN_ERR_UNSUPPORTED, "neither 2, 4 nor 8 bits"},
        {&gptq_way, ".scales", NULL, "5,24", RN_ERR_UNSUPPORTED, "neither 2, 4 nor 8 bits"},
        {&gptq_way, ".qzeros", NULL, "5,3", RN_ERR_MODEL, "shape [5, 3] of 2"},
        {&gptq_way, ".qzeros", NULL, "15", RN_ERR_UNSUPPORTED, "neither 2, 4 nor 8 bits"},
        {&gptq_way, ".qzeros", "F32", NULL, RN_ERR_UNSUPPORTED, "packed integers are expected in"},
        {&gptq_way, ".qzeros", NULL, "0,9223372036854775807", RN_ERR_UNSUPPORTED,
         "9223372036854775807 words for 40 outputs"},
        {&gptq_way, ".qzeros", NULL, "0,5", RN_ERR_MODEL, "shape [0, 5] of 2 dimensions"},
        {&gptq_way, ".qweight", NULL, "40,24", RN_ERR_MODEL, "shape [40, 24] of 2 dimensions"},
        {&gptq_way, ".qweight", NULL, "960", RN_ERR_MODEL, "qweight: shape"},
        {&gptq_way, ".qweight", NULL, "24,40,1", RN_ERR_MODEL, "qweight: shape"},
        {&gptq_way, ".qweight", "U32", NULL, RN_ERR_UNSUPPORTED, "qweight: packed integers are"},
        {&gptq_way, ".g_idx", NULL, "192,1", RN_ERR_MODEL, "a group in I32 is expected for each"},
        {&gptq_way, ".g_idx", "F32", NULL, RN_ERR_MODEL, "a group in I32 is expected for each"},
        {&awq, ".qweight", NULL, "96,10", RN_ERR_MODEL, "qweight: shape [96, 10]"},
        {&awq, ".scales", NULL, "30,4", RN_ERR_MODEL, "outputs are expected in words of 8"},
        {&awq, ".qzeros", NULL, "5,3", RN_ERR_MODEL, "qzeros: shape [5, 3]"},
        {&packed_way, ".weight_shape", NULL, "2,1", RN_ERR_MODEL, "two numbers are expected"},
        {&packed_way, ".weight_shape", "F64", NULL, RN_ERR_UNSUPPORTED, "expected in I64 or I32"},
        {&packed_way, ".weight_scale", NULL, "3,40", RN_ERR_MODEL, "weight_scale: shape [3, 40]"},
        {&packed_way, ".weight_scale", NULL, "40,3,1", RN_ERR_MODEL, "expected to be a matrix"},
        {&packed_way, ".weight_scale", NULL, "120", RN_ERR_MODEL, "weight_scale: shape"},
        {&packed_way, ".weight_packed", NULL, "20,48", RN_ERR_MODEL, "does not fit the 20 rows"},
        {&packed_way, ".weight_packed", "F32", NULL, RN_ERR_UNSUPPORTED, "expected in I32"},
        {&packed_way, ".weight_zero_point", NULL, "3,5", RN_ERR_MODEL, "zero_point: shape [3, 5]"},
        {&bytes, ".weight_scale", NULL, "1,40", RN_ERR_MODEL, "weight_scale: shape [1, 40]"},
        {&bytes, ".weight", NULL, "7680", RN_ERR_UNSUPPORTED, "I8 is supported for matrices"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) check_fault(&faults[i]);
}

static void refused_as(struct fp8_image *image, const struct integers_way *way, rn_status status,
                       const char *message) {
    const struct data_folder folder = data_folder_make();
    config_of(&folder, way, "Qwen3ForCausalLM", "");
    fp8_image_write(image, &folder);
    folder_refused(&folder, status, message);
    data_folder_remove(&folder);
}

static void refused(struct fp8_image *image, const struct integers_way *way, const char *message) {
    refused_as(image, way, RN_ERR_MODEL, message);
}

CASE(numbers_that_cannot_be_are_refused) {
    static struct fp8_image image;
    struct fp8_entry *entry;
    image_make(&image, &gptq_way);
    ((uint16_t *)entry_data(&image, ".scales", NULL))[7] = 0x7e00;
    refused(&image, &gptq_way, "q_proj.scales: scale 7 is nan");
    image_make(&image, &gptq_way);
    ((uint16_t *)entry_data(&image, ".scales", NULL))[119] = 0xfc00;
    refused(&image, &gptq_way, "q_proj.scales: scale 119 is -inf");
    const struct integers_way many = {.kind = KIND_GPTQ, .bits = 4, .group = 16};
    image_make(&image, &many);
    ((uint16_t *)entry_data(&image, ".scales", NULL))[479] = 0x7c00;
    refused(&image, &many, "q_proj.scales: scale 479 is inf");
    image_make(&image, &gptq_way);
    ((int32_t *)entry_data(&image, ".g_idx", NULL))[9] = 3;
    refused(&image, &gptq_way, "g_idx: input 9 is of group 3, there are 3");
    image_make(&image, &gptq_way);
    ((int32_t *)entry_data(&image, ".g_idx", NULL))[9] = -2;
    refused(&image, &gptq_way, "g_idx: input 9 is of group -2");
    image_make(&image, &gptq_way);
    ((int32_t *)entry_data(&image, ".g_idx", NULL))[COLS - 1] = -1;
    refused(&image, &gptq_way, "g_idx: input 191 is of group -1");
    for (int i = 0; i < 2; i++) {
        image_make(&image, &packed_way);
        ((int64_t *)entry_data(&image, ".weight_shape", NULL))[i] = i ? -1 : INT64_MAX;
        refused(&image, &packed_way, "weight_shape: [");
    }
    image_make(&image, &packed_way);
    ((int64_t *)entry_data(&image, ".weight_shape", NULL))[1] = 1 << 30;
    refused(&image, &packed_way, "weight_packed: shape");
    image_make(&image, &gptq_way); // 3 groups of what?
    entry_data(&image, ".qweight", &entry);
    snprintf(entry->shape, sizeof entry->shape, "23,40");
    entry->bytes = (size_t)23 * 40 * 4;
    refused(&image, &gptq_way, "a group in I32 is expected for each");
    image_make(&image, &gptq_way);
    entry_data(&image, ".qweight", &entry);
    snprintf(entry->shape, sizeof entry->shape, "7,40");
    entry->bytes = (size_t)7 * 40 * 4;
    refused(&image, &gptq_way, "3 groups do not fit 56 inputs and group_size 64");
    for (int i = 0; i < 2; i++) { // AWQ has no order
        const struct integers_way awq = {.kind = KIND_AWQ, .bits = 4, .group = 64};
        const int32_t group[COLS] = {0};
        image_make(&image, &awq);
        fp8_entry_add(&image, STEM, i ? ".g_idx" : "", "I32", "192", group, sizeof group);
        refused_as(&image, &awq, RN_ERR_UNSUPPORTED, "no tensor of this name is known");
    }
    image_make(&image, &gptq_way);
    fp8_entry_add(&image, STEM, ".weight", "F32", "40,192", numbers, sizeof numbers);
    refused(&image, &gptq_way, "qweight: its NAME.weight is there too");
}

static struct data_folder folder_of(const char *quant, struct fp8_image *image) {
    const struct data_folder folder = data_folder_make();
    char text[512];
    snprintf(text, sizeof text, ", 'quantization_config': {%s}", quant);
    config_write(&folder, "Qwen3ForCausalLM", text);
    fp8_image_write(image, &folder);
    return folder;
}

static struct data_folder told_folder(const char *quant, const struct integers_way *way) {
    static struct fp8_image image;
    image_make(&image, way);
    return folder_of(quant, &image);
}

static void told_fault(const char *quant, const struct integers_way *way, rn_status status,
                       const char *message) {
    const struct data_folder folder = told_folder(quant, way);
    folder_refused(&folder, status, message);
    data_folder_remove(&folder);
}

static void config_fault(const char *quant, rn_status status, const char *message) {
    told_fault(quant, &gptq_way, status, message);
}

#define SCHEME(name, bits, group)                                                                  \
    "'" name "': {'weights': {'num_bits': " bits ", 'group_size': " group "}}"
#define SCHEMES(list)                                                                              \
    "'quant_method': 'compressed-tensors', 'format': 'pack-quantized', 'config_groups': {" list "}"

// The config's groups and bits are believed where the shapes can be those of others.
CASE(sizes_that_the_config_denies_are_refused) {
    const struct integers_way short_last = {.kind = KIND_GPTQ, .bits = 4, .group = 128};
    struct integers_way packed = packed_way;
    told_fault("'quant_method': 'awq'",
               &(struct integers_way){.kind = KIND_AWQ, .bits = 4, .group = 128}, RN_ERR_MODEL,
               "2 groups do not fit 192 inputs and group_size 0");
    told_fault("'quant_method': 'gptq', 'group_size': 32", &short_last, RN_ERR_MODEL,
               "2 groups do not fit 192 inputs and group_size 32");
    told_fault(SCHEMES(SCHEME("a", "4", "32")), &packed, RN_ERR_MODEL,
               "3 groups do not fit 192 inputs and group_size 32");
    told_fault(SCHEMES(SCHEME("a", "4", "0")), &packed, RN_ERR_MODEL, "group_size is 0");
    told_fault(SCHEMES(SCHEME("a", "8", "64")), &packed, RN_ERR_MODEL, "expected [40, 48]");
    packed.group = 128;
    told_fault(SCHEMES(SCHEME("a", "4", "128") ", " SCHEME("b", "8", "64")), &packed, RN_ERR_MODEL,
               "2 groups do not fit 192 inputs and group_size 0");
    static const char *const fine[] = {
        SCHEMES(SCHEME("a", "4", "128") ", " SCHEME("b", "4", "-1")),
        SCHEMES(SCHEME("a", "8", "null") ", " SCHEME("b", "4", "128")),
        SCHEMES(SCHEME("a", "4", "128") ", 'b': {'weights': {'type': 'float', 'group_size': 16}}"),
    };
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        const struct data_folder folder = told_folder(fine[i], &packed);
        weights_close(folder_open(&folder));
        data_folder_remove(&folder);
    }
}

CASE(methods_that_are_not_known_are_refused_by_name) {
    static const struct {
        const char *quant, *message;
    } cases[] = {
        {"'quant_method': 'gptq', 'bits': 3", "gptq with bits 3"},
        {"'quant_method': 'gptq', 'bits': 32", "gptq with bits 32"},
        {"'quant_method': 'gptq', 'checkpoint_format': 'marlin'", "checkpoint_format marlin"},
        {"'quant_method': 'gptq', 'is_marlin_format': true", "is_marlin_format true"},
        {"'quant_method': 'awq', 'version': 'gemv'", "awq with version gemv"},
        {"'quant_method': 'awq', 'checkpoint_format': 'gemv_fast'", "checkpoint_format gemv_fast"},
        {"'quant_method': 'awq', 'bits': 8", "awq with bits 8"},
        {"'quant_method': 'auto-round', 'packing_format': 'auto_round:llm_compressor'",
         "auto-round with packing_format auto_round:llm_compressor"},
        {"'quant_method': 'bitsandbytes'", "quant_method bitsandbytes is not"},
        {"'quant_method': 'compressed-tensors'", "compressed-tensors with format (none)"},
        {"'quant_method': 'compressed-tensors', 'format': 'marlin-24'", "format marlin-24"},
        {"'quant_method': 'compressed-tensors', 'format': 'pack-quantized', 'config_groups': {'a': "
         "{'weights': null}, 'b': {'weights': {'type': 'int', 'num_bits': 7}}}",
         "num_bits 7"},
        {"'quant_method': 'compressed-tensors', 'format': 'pack-quantized', 'config_groups': {'a': "
         "{'weights': {'num_bits': 2}}}",
         "num_bits 2"},
        {"'quant_method': 'compressed-tensors', 'format': 'pack-quantized', 'transform_config': "
         "{'config_groups': {}}",
         "transform_config of rotations"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        config_fault(cases[i].quant, RN_ERR_UNSUPPORTED, cases[i].message);
    config_fault("'quant_method': 'gptq', 'group_size': 0", RN_ERR_MODEL, "group_size is 0");
    config_fault("'quant_method': 'gptq', 'group_size': -2", RN_ERR_MODEL, "group_size is -2");
    config_fault("'quant_method': 'gptq', 'group_size': 99999999999", RN_ERR_MODEL,
                 "group_size is 99999999999");
    // of another method the tensors are unknown
    config_fault("'quant_method': 'compressed-tensors', 'format': 'pack-quantized'",
                 RN_ERR_UNSUPPORTED, "no tensor of this name is known");
}

// The inputs of one group need no groups, whatever the config says.
CASE(groups_in_an_order_of_their_own_are_needed) {
    static struct fp8_image image;
    for (int i = 0; i < 2; i++) {
        const struct integers_way way = {.kind = KIND_GPTQ, .bits = 4, .group = i ? 0 : 64};
        struct fp8_entry *entry;
        image_make(&image, &way);
        entry_data(&image, ".g_idx", &entry);
        snprintf(entry->name, sizeof entry->name, "model.rotary_emb.inv_freq");
        const struct data_folder folder =
            folder_of("'quant_method': 'gptq', 'desc_act': true", &image);
        if (i == 0)
            folder_refused(&folder, RN_ERR_MODEL, "qweight: its g_idx is missing");
        else
            weights_close(folder_open(&folder));
        data_folder_remove(&folder);
    }
}

// A file that was cut since it was opened is an error, wherever it ends.
CASE(a_cut_file_is_an_error) {
    static struct fp8_image image;
    static uint8_t room[ROOM];
    const struct integers_way all[] = {gptq_way, packed_way};
    for (int i = 0; i < 2; i++) {
        const struct data_folder folder = data_folder_make();
        char path[DATA_PATH_BYTES];
        const void *at;
        config_of(&folder, &all[i], "Qwen3ForCausalLM", "");
        image_make(&image, &all[i]);
        fp8_image_write(&image, &folder);
        struct weights *weights = folder_open(&folder);
        const struct tensor_view *t = weights_tensor_find(weights, TENSOR);
        snprintf(path, sizeof path, "%s/model.safetensors", folder.path);
        assert_int_equal(truncate(path, 64), 0);
        assert_int_equal(weights_read(weights, t->data, t->bytes, room, &at, NULL), RN_ERR_IO);
        weights_close(weights);
        data_folder_remove(&folder);
    }
}

// The same of scales and of zero points, which may be in files of their own.
CASE(a_cut_file_of_another_part_is_an_error) {
    static struct fp8_image image, other;
    static uint8_t room[ROOM];
    static const char *const ends[] = {".scales", ".qzeros"};
    for (int i = 0; i < 2; i++) {
        const struct data_folder folder = data_folder_make();
        char from[DATA_PATH_BYTES], path[DATA_PATH_BYTES], map[1024] = "";
        struct fp8_entry *entry;
        const void *at;
        config_of(&folder, &gptq_way, "Qwen3ForCausalLM", "");
        image_make(&image, &gptq_way);
        for (int k = 0; k < image.n; k++)
            snprintf(map + strlen(map), sizeof map - strlen(map), "%s'%s': '%s.safetensors'",
                     k ? ", " : "", image.entry[k].name,
                     strstr(image.entry[k].name, ends[i]) ? "other" : "most");
        entry_data(&image, ends[i], &entry);
        other.entry[other.n++] = *entry;
        *entry = image.entry[--image.n];
        fp8_image_write(&image, &folder);
        snprintf(from, sizeof from, "%s/model.safetensors", folder.path);
        snprintf(path, sizeof path, "%s/most.safetensors", folder.path);
        assert_int_equal(rename(from, path), 0);
        fp8_image_write(&other, &folder);
        snprintf(path, sizeof path, "%s/other.safetensors", folder.path);
        assert_int_equal(rename(from, path), 0);
        char index[1200];
        snprintf(index, sizeof index, "{'weight_map': {%s}}", map);
        folder_text(&folder, "model.safetensors.index.json", index);
        struct weights *weights = folder_open(&folder);
        const struct tensor_view *t = weights_tensor_find(weights, TENSOR);
        assert_int_equal(weights_read(weights, t->data, t->bytes, room, &at, NULL), RN_OK);
        assert_int_equal(truncate(path, 64), 0);
        assert_int_equal(weights_read(weights, t->data, t->bytes, room, &at, NULL), RN_ERR_IO);
        weights_close(weights);
        data_folder_remove(&folder);
    }
}

TEST_PROGRAM(integers_faults) { return cases_run(NULL, NULL); }

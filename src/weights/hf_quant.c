// quantization_config of a folder: which codes its tensors may have, and the numbers that no shape
// tells. The tensors themselves say which of them are quantized, so lists of modules need not be
// read. What is not known is refused by its name. Called by hf_config.c.
#include <string.h>

#include "weights/hf.h"

enum { WORD_MAX = 64, FP8_BLOCK = 128, GROUP_MAX = 1 << 24 };

static void refuse(struct hf_config *c, const char *method, const char *key, const char *value) {
    if (!key)
        hf_fail(c, RN_ERR_UNSUPPORTED,
                "quantization_config: quant_method %s is not supported; a folder in BF16 or a GGUF "
                "file is",
                method[0] ? method : "(none)");
    else
        hf_fail(c, RN_ERR_UNSUPPORTED,
                "quantization_config: quant_method %s with %s %s is not supported; a folder in "
                "BF16 or a GGUF file is",
                method, key, value[0] ? value : "(none)");
}

// ---------------------------------------------------------------- 8-bit floats

// The size of the blocks that have a scale each, where the config says it.
static void fp8_read_block(struct hf_config *c, const struct hf_object *quant) {
    const struct hf_object root = c->root;
    double size[2];
    c->quant.has_fp8 = true;
    c->quant.fp8_rows = c->quant.fp8_cols = FP8_BLOCK;
    if (!hf_has(c, quant, "weight_block_size")) return;
    c->root = *quant;
    if (hf_numbers(c, "weight_block_size", 1, 1 << 20, size, 2)) {
        c->quant.fp8_rows = (int64_t)size[0];
        c->quant.fp8_cols = (int64_t)size[1];
    }
    c->root = root;
}

static void fp8_method(struct hf_config *c, const struct hf_object *quant, const char *method) {
    char format[WORD_MAX];
    hf_string(c, quant, "fmt", format, sizeof format);
    if (format[0] && strcmp(format, "e4m3") != 0 && strcmp(format, "float8_e4m3fn") != 0)
        refuse(c, method, "fmt", format);
    else
        fp8_read_block(c, quant);
}

static void fbgemm_method(struct hf_config *c, const struct hf_object *quant, const char *method) {
    (void)method;
    fp8_read_block(c, quant);
}

static void modelopt_method(struct hf_config *c, const struct hf_object *quant,
                            const char *method) {
    char algo[WORD_MAX];
    hf_string(c, quant, "quant_algo", algo, sizeof algo);
    if (strcmp(algo, "FP8") == 0)
        fp8_read_block(c, quant);
    else
        refuse(c, method, "quant_algo", algo);
}

// ---------------------------------------------------------------- integers

// 0: a group is a row, or nothing is said.
static int64_t group_read(struct hf_config *c, const struct hf_object *quant) {
    const int64_t group = hf_int(c, quant, "group_size", -1, GROUP_MAX, -1);
    if (group == 0) hf_fail_value(c, RN_ERR_MODEL, quant, "group_size", "-1 or a positive integer");
    return group > 0 ? group : 0;
}

// all: the digits that are known.
static void bits_check(struct hf_config *c, const struct hf_object *quant, const char *method,
                       const char *all) {
    const int64_t bits = hf_int(c, quant, "bits", 1, 32, 4);
    if (bits > 9 || !strchr(all, '0' + (int)bits))
        hf_fail(c, RN_ERR_UNSUPPORTED,
                "quantization_config: quant_method %s with bits %lld is not supported; a folder in "
                "BF16 or a GGUF file is",
                method, (long long)bits);
}

// The first of two keys that the config has.
static const char *either(struct hf_config *c, const struct hf_object *quant, const char *key,
                          const char *other) {
    return hf_has(c, quant, key) ? key : other;
}

static void gptq_method(struct hf_config *c, const struct hf_object *quant, const char *method) {
    char format[WORD_MAX];
    const char *key = either(c, quant, "checkpoint_format", "format");
    hf_string(c, quant, key, format, sizeof format);
    const bool is_second = strcmp(format, "gptq_v2") == 0;
    if (hf_bool(c, quant, "is_marlin_format", false)) refuse(c, method, "is_marlin_format", "true");
    if (format[0] && strcmp(format, "gptq") != 0 && !is_second) refuse(c, method, key, format);
    bits_check(c, quant, method, "248");
    c->quant.group = group_read(c, quant);
    c->quant.integers = HF_INTEGERS_GPTQ;
    c->quant.is_less_one = !is_second;
    c->quant.needs_order = hf_bool(c, quant, "desc_act", false);
}

static void awq_method(struct hf_config *c, const struct hf_object *quant, const char *method) {
    char format[WORD_MAX];
    const char *key = either(c, quant, "version", either(c, quant, "checkpoint_format", "format"));
    hf_string(c, quant, key, format, sizeof format);
    if (format[0] && strcmp(format, "gemm") != 0 && strcmp(format, "GEMM") != 0)
        refuse(c, method, key, format);
    bits_check(c, quant, method, "4");
    c->quant.group = group_read(c, quant);
    c->quant.integers = HF_INTEGERS_AWQ;
}

// AutoRound writes what the others read.
static void autoround_method(struct hf_config *c, const struct hf_object *quant,
                             const char *method) {
    char format[WORD_MAX];
    hf_string(c, quant, "packing_format", format, sizeof format);
    if (strcmp(format, "auto_round:auto_gptq") == 0)
        gptq_method(c, quant, method);
    else if (strcmp(format, "auto_round:auto_awq") == 0)
        awq_method(c, quant, method);
    else
        refuse(c, method, "packing_format", format);
}

// A positive number that schemes may share.
struct shared {
    int64_t value;
    bool differs;
};

static void shared_add(struct shared *shared, int64_t value) {
    if (value == 0) return;
    shared->differs |= shared->value && shared->value != value;
    shared->value = value;
}

// Packed codes of another width would have the offset of another.
static void scheme_read(struct hf_config *c, struct hf_value value, const char *method,
                        struct shared *widths, struct shared *groups) {
    struct hf_object group, weights;
    char type[WORD_MAX];
    hf_object_read(c, value, &group);
    if (!hf_has(c, &group, "weights")) return;
    hf_object_read(c, hf_find(c, &group, "weights"), &weights);
    hf_string(c, &weights, "type", type, sizeof type);
    const int64_t bits = hf_int(c, &weights, "num_bits", 1, 32, 8);
    if (type[0] && strcmp(type, "int") != 0) return;
    if (bits != 4 && bits != 8)
        hf_fail(c, RN_ERR_UNSUPPORTED,
                "quantization_config: quant_method %s with num_bits %lld is not supported; a "
                "folder in BF16 or a GGUF file is",
                method, (long long)bits);
    shared_add(widths, bits);
    shared_add(groups, group_read(c, &weights));
}

static void schemes_read(struct hf_config *c, const struct hf_object *quant, const char *method) {
    struct hf_object groups;
    struct shared width = {0}, group = {0};
    if (hf_has(c, quant, "config_groups")) {
        hf_object_read(c, hf_find(c, quant, "config_groups"), &groups);
        for (int i = 0; c->status == RN_OK && hf_member_at(&groups, i).text; i++)
            scheme_read(c, hf_member_at(&groups, i), method, &width, &group);
    }
    c->quant.bits = width.differs ? 0 : (int)width.value;
    c->quant.group = group.differs ? 0 : group.value;
    if (!hf_has(c, quant, "transform_config")) return;
    hf_object_read(c, hf_find(c, quant, "transform_config"), &groups);
    if (groups.n > 0) refuse(c, method, "transform_config", "of rotations");
}

static void compressed_method(struct hf_config *c, const struct hf_object *quant,
                              const char *method) {
    static const struct {
        const char *format;
        bool has_fp8, has_integers;
    } formats[] = {
        {"float-quantized", true, false}, {"naive-quantized", true, true},
        {"pack-quantized", false, true},  {"int-quantized", false, true},
        {"mixed-precision", true, true},
    };
    char format[WORD_MAX];
    hf_string(c, quant, "format", format, sizeof format);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(format, formats[i].format) != 0) continue;
        if (formats[i].has_fp8) fp8_read_block(c, quant);
        if (formats[i].has_integers) c->quant.integers = HF_INTEGERS_PACKED;
        schemes_read(c, quant, method);
        return;
    }
    refuse(c, method, "format", format);
}

// ---------------------------------------------------------------- methods

void hf_quant_read(struct hf_config *c) {
    static const struct {
        const char *method;
        void (*read)(struct hf_config *c, const struct hf_object *quant, const char *method);
    } methods[] = {
        {"fp8", fp8_method},
        {"fbgemm_fp8", fbgemm_method},
        {"gptq", gptq_method},
        {"modelopt", modelopt_method},
        {"awq", awq_method},
        {"compressed-tensors", compressed_method},
        {"auto-round", autoround_method},
    };
    if (c->is_alone || !hf_has(c, &c->root, "quantization_config")) return;
    struct hf_object quant;
    char method[WORD_MAX];
    hf_object_read(c, hf_find(c, &c->root, "quantization_config"), &quant);
    hf_string(c, &quant, "quant_method", method, sizeof method);
    if (c->class->quant_method && strcmp(method, c->class->quant_method) == 0) return;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(methods[i].method, method) != 0) continue;
        methods[i].read(c, &quant, method);
        return;
    }
    refuse(c, method, NULL, NULL);
}

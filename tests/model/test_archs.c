// The architectures on the reference files: each makes the plan of its description, and a file that
// contradicts it is refused by name.
#define _GNU_SOURCE 1 // memmem
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "model/arch.h"

struct image {
    uint8_t *bytes;
    size_t size, header; // header: up to the tensors' data
};

static struct image load(const char *name) {
    struct image image = {0};
    char path[512];
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    image.size = (size_t)ftell(file);
    rewind(file);
    image.bytes = malloc(image.size);
    assert_int_equal(fread(image.bytes, 1, image.size, file), image.size);
    fclose(file);
    return image;
}

static struct weights *open_image(struct image *image) {
    struct weights *weights;
    rn_error err = {0};
    const rn_status status =
        weights_open_memory("m.gguf", image->bytes, image->size, &weights, &err);
    check(status == RN_OK, "%s", err.message);
    image->header = image->size;
    for (int i = 0; i < weights_tensor_count(weights); i++) {
        const uint64_t offset = weights_tensor_at(weights, i)->offset;
        if (offset < image->header) image->header = (size_t)offset;
    }
    return weights;
}

static int count_ops(const struct plan *plan, enum op_kind kind) {
    int n = 0;
    for (int i = 0; i < plan->n_op; i++) n += plan->op[i].kind == kind;
    return n;
}

struct expectation {
    const char *file, *arch;
    int n_layer;
    int groups[2], window; // layers of each KV group, full first; window: of the second
    int norms, ropes, experts, matmuls;
    enum rope_style style;
    enum gate_kind gate;
};

// By hand from the architectures: per layer, then once.
static const struct expectation expected[] = {
    {"llama", "llama", 3, {3, 0}, 0, 7, 6, 0, 22, ROPE_INTERLEAVED, GATE_SILU},
    {"mixtral", "llama", 2, {2, 0}, 0, 5, 4, 6, 11, ROPE_INTERLEAVED, GATE_SILU},
    {"qwen2", "qwen2", 3, {3, 0}, 0, 7, 6, 0, 22, ROPE_HALVES, GATE_SILU},
    {"qwen3", "qwen3", 3, {3, 0}, 0, 13, 6, 0, 22, ROPE_HALVES, GATE_SILU},
    {"qwen3moe", "qwen3moe", 2, {2, 0}, 0, 9, 4, 6, 11, ROPE_HALVES, GATE_SILU},
    {"gemma2", "gemma2", 4, {2, 2}, 12, 17, 8, 0, 29, ROPE_HALVES, GATE_GELU},
    {"gemma3", "gemma3", 7, {1, 6}, 8, 43, 14, 0, 50, ROPE_HALVES, GATE_GELU},
    {"phi3", "phi3", 2, {2, 0}, 0, 5, 4, 0, 15, ROPE_HALVES, GATE_SILU},
    {"gpt2", "gpt2", 3, {3, 0}, 0, 7, 0, 0, 19, ROPE_HALVES, GATE_GELU},
    {"granite", "granite", 3, {3, 0}, 0, 7, 6, 0, 22, ROPE_INTERLEAVED, GATE_SILU},
    {"olmo2", "olmo2", 3, {3, 0}, 0, 13, 6, 0, 22, ROPE_HALVES, GATE_SILU},
    {"smollm3", "smollm3", 4, {4, 0}, 0, 9, 6, 0, 29, ROPE_INTERLEAVED, GATE_SILU},
    {"gptoss", "gpt-oss", 2, {1, 1}, 16, 5, 4, 6, 11, ROPE_HALVES, GATE_SWIGLU_OAI},
};
enum { N_EXPECTED = sizeof expected / sizeof *expected };

static void check_groups(const struct plan *plan, const struct expectation *e) {
    int at = 0;
    for (int local = 0; local < 2; local++) {
        if (e->groups[local] == 0) continue;
        assert_int_equal(plan->group[at].kind, local ? KV_WINDOW : KV_FULL);
        assert_int_equal(plan->group[at].n_layer, e->groups[local]);
        assert_int_equal(plan->group[at].window, local ? e->window : 0);
        at++;
    }
    assert_int_equal(plan->n_group, at);
}

CASE(each_architecture_makes_its_plan) {
    for (int i = 0; i < N_EXPECTED; i++) {
        const struct expectation *e = &expected[i];
        struct image image = load(e->file);
        struct weights *weights = open_image(&image);
        struct model model;
        rn_error err = {0};
        const rn_status status = model_init(&model, weights, &err);
        check(status == RN_OK, "%s: %s", e->file, err.message);
        const struct plan *plan = &model.plan;
        assert_string_equal(model_arch_name(&model), e->arch);
        assert_int_equal(model.hp.n_layer, e->n_layer);
        check_groups(plan, e);
        check(count_ops(plan, OP_NORM) == e->norms, "%s: %d norms", e->file,
              count_ops(plan, OP_NORM));
        check(count_ops(plan, OP_ROPE) == e->ropes, "%s: %d ropes", e->file,
              count_ops(plan, OP_ROPE));
        check(count_ops(plan, OP_EXPERTS) == e->experts, "%s: %d experts", e->file,
              count_ops(plan, OP_EXPERTS));
        check(count_ops(plan, OP_MATMUL) == e->matmuls, "%s: %d matmuls", e->file,
              count_ops(plan, OP_MATMUL));
        for (int r = 0; r < plan->n_rope; r++) assert_int_equal(plan->rope[r].style, e->style);
        for (int op = 0; op < plan->n_op; op++)
            if (plan->op[op].kind == OP_GATE) assert_int_equal(plan->op[op].gate, e->gate);
        model_deinit(&model);
        weights_close(weights);
        free(image.bytes);
    }
}

// Replaces the bytes `offset` after the first occurrence of `text`.
static void expect_refusal(const char *file, const char *text, size_t offset, const void *bytes,
                           size_t n, rn_status status, const char *a, const char *b) {
    struct image image = load(file);
    uint8_t *at = memmem(image.bytes, image.size, text, strlen(text));
    assert_non_null(at);
    memcpy(at + offset, bytes, n);
    struct weights *weights = open_image(&image);
    struct model model;
    rn_error err = {0};
    const rn_status got = model_init(&model, weights, &err);
    check(got == status && strstr(err.message, a) && strstr(err.message, b),
          "%s, %s: status %d, message '%s'", file, text, got, err.message);
    weights_close(weights);
    free(image.bytes);
}

static void expect_key(const char *file, const char *key, uint32_t value, const char *names) {
    // after the key: its type (u32), then the value
    expect_refusal(file, key, strlen(key) + 4, &value, 4, RN_ERR_MODEL, key, names);
}

// The file's factor is the whole magnitude of cos and sin, not one beside yarn's own.
CASE(yarns_own_magnitude_is_part_of_a_files_factor) {
    const char *key = "olmo2.rope.scaling.yarn_attn_factor";
    for (int times = 1; times <= 2; times++) {
        struct image image = load("olmo3");
        uint8_t *at = memmem(image.bytes, image.size, key, strlen(key));
        assert_non_null(at);
        const float factor = (float)times * 1.1386294f; // 1 + 0.1 ln 4
        memcpy(at + strlen(key) + 4, &factor, sizeof factor);
        struct weights *weights = open_image(&image);
        struct model model;
        rn_error err = {0};
        check(model_init(&model, weights, &err) == RN_OK, "%s", err.message);
        float most = 0;
        for (int i = 0; i < model.plan.n_rope; i++)
            if (model.plan.rope[i].magnitude > most) most = model.plan.rope[i].magnitude;
        check(most > 0.99999f * factor && most < 1.00001f * factor, "%g, expected %g", (double)most,
              (double)factor);
        model_deinit(&model);
        weights_close(weights);
        free(image.bytes);
    }
}

CASE(a_layers_tensor_that_no_one_uses_is_refused) {
    // without output.weight the head is tied, and the renamed tensor is left over
    expect_refusal("llama", "output.weight", 0, "blk.0.strange", 13, RN_ERR_UNSUPPORTED,
                   "blk.0.strange", "llama");
}

CASE(particulars_out_of_range_are_refused) {
    expect_key("mixtral", "llama.expert_used_count", 5, "5, expected 1 to 4");
    expect_key("mixtral", "llama.expert_used_count", 0, "0, expected 1 to 4");
    expect_key("mixtral", "llama.expert_count", 0x7fffffffu, "2147483647");
    expect_key("qwen3moe", "qwen3moe.expert_count", 0, "missing or 0");
    expect_key("gptoss", "gpt-oss.expert_count", 0, "missing or 0");
    expect_key("gptoss", "gpt-oss.rope.scaling.factor", 0, "0, expected");
    expect_key("gptoss", "gpt-oss.rope.scaling.original_context_length", 0, "0, expected");
    expect_key("gptoss", "gpt-oss.rope.scaling.yarn_beta_fast", 0x7fc00000u, "nan");
    const float one = 1;
    expect_refusal("gptoss", "gpt-oss.rope.freq_base", strlen("gpt-oss.rope.freq_base") + 4, &one,
                   4, RN_ERR_MODEL, "yarn", "rope.freq_base of 1");
    expect_key("gemma2", "gemma2.attention.sliding_window", 0xffffffffu, "4294967295");
    expect_key("gemma2", "gemma2.final_logit_softcapping", 0xff800000u, "-inf");
    expect_key("granite", "granite.logit_scale", 0, "0, expected");
    expect_key("gpt2", "gpt2.attention.layer_norm_epsilon", 0x7f800000u, "inf");
    expect_refusal("gptoss", "gpt-oss.rope.scaling.type", strlen("gpt-oss.rope.scaling.type") + 12,
                   "yurn", 4, RN_ERR_UNSUPPORTED, "yurn", "rope.scaling.type");
}

CASE(missing_parts_are_named) {
    expect_refusal("gptoss", "blk.1.attn_sinks.weight", 6, "x", 1, RN_ERR_MODEL,
                   "blk.1.attn_sinks.weight", "missing");
    expect_refusal("qwen3", "blk.2.attn_q_norm.weight", 6, "x", 1, RN_ERR_MODEL,
                   "blk.2.attn_q_norm.weight", "missing");
    expect_refusal("gpt2", "blk.0.attn_norm.bias", 6, "x", 1, RN_ERR_MODEL, "blk.0.attn_norm.bias",
                   "missing");
    expect_refusal("gpt2", "position_embd.weight", 0, "x", 1, RN_ERR_MODEL, "position_embd.weight",
                   "missing");
    expect_refusal("mixtral", "blk.1.ffn_down_exps.weight", 6, "x", 1, RN_ERR_MODEL,
                   "blk.1.ffn_down_exps.weight", "missing");
}

CASE(wrong_numbers_of_experts_are_named_with_both_shapes) {
    const uint64_t dims[3] = {64, 96, 3};
    expect_refusal("mixtral", "blk.0.ffn_gate_exps.weight",
                   strlen("blk.0.ffn_gate_exps.weight") + 4, dims, 24, RN_ERR_MODEL,
                   "blk.0.ffn_gate_exps.weight", "[64, 96, 3], expected [64, 96, 4]");
}

CASE(flipped_header_bytes_never_crash) {
    srand(5);
    for (int i = 0; i < N_EXPECTED; i++) {
        struct image image = load(expected[i].file);
        weights_close(open_image(&image));
        for (int round = 0; round < 400; round++) {
            const size_t at = (size_t)rand() % image.header;
            const uint8_t was = image.bytes[at];
            image.bytes[at] ^= (uint8_t)(1 + rand() % 255);
            rn_error err = {0};
            struct weights *weights;
            struct model model;
            if (weights_open_memory("m.gguf", image.bytes, image.size, &weights, &err) == RN_OK) {
                if (model_init(&model, weights, &err) == RN_OK) model_deinit(&model);
                weights_close(weights);
            }
            image.bytes[at] = was;
        }
        free(image.bytes);
    }
}

// Flips bytes of the first keys and of the shapes of tensors. A model without a GGUF is left out.
static void check_flipped_bytes(const char *name) {
    static const size_t near_max = 1500;
    char path[512];
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", name);
    if (access(path, R_OK) != 0) return;
    struct image image = load(name);
    weights_close(open_image(&image));
    int opened = 0, refused = 0;
    for (int round = 0; round < test_scale(200, 1500, 2500); round++) {
        const size_t near = image.header < near_max ? image.header : near_max;
        const size_t at =
            rand() % 2 ? (size_t)rand() % near : image.header - 1 - (size_t)rand() % (2 * near);
        const uint8_t was = image.bytes[at];
        image.bytes[at] ^= (uint8_t)(1 + rand() % 255);
        rn_error err = {0};
        struct weights *weights;
        static struct model model;
        if (weights_open_memory("m.gguf", image.bytes, image.size, &weights, &err) == RN_OK) {
            const rn_status status = model_init(&model, weights, &err);
            if (status == RN_OK) model_deinit(&model);
            opened += status == RN_OK;
            refused += status != RN_OK;
            check(status == RN_OK || err.message[0], "%s: refused without a word", name);
            weights_close(weights);
        }
        image.bytes[at] = was;
    }
    assert_true(opened > 0 && refused > 0);
    free(image.bytes);
}

// Sizes of states and kinds of layers are in the first keys and in the shapes of tensors.
CASE(flipped_header_bytes_of_hybrids_never_crash) {
    srand(6);
#define HYBRID(name) check_flipped_bytes(name);
#include "hybrids.def"
#undef HYBRID
}

CASE(flipped_header_bytes_of_families_never_crash) {
    srand(7);
#define FAMILY(name) check_flipped_bytes(name);
#include "families.def"
#undef FAMILY
}

TEST_PROGRAM(archs) { return cases_run(NULL, NULL); }

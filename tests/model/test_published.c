// Published files that omit values, use old forms, or need unsupported features: the model either
// means what its authors meant, or is refused by name. The files here are of zeroes.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "gguf_writer.h"
#include "model/arch.h"

enum { EMBD = 32, HEADS = 2, DIM = 8, FF = 64, VOCAB = 8, EXPERTS = 3 };
enum { GGUF_F32 = 0, GGUF_Q8_0 = 8 };

// A file in the making: its keys begin with the architecture.
struct file {
    struct writer writer;
    const char *arch;
    int n_layer;
};

static void key(const struct file *file, const char *suffix, char out[128]) {
    snprintf(out, 128, "%s.%s", file->arch, suffix);
}

static void put_u32(struct file *file, const char *suffix, uint32_t value) {
    char name[128];
    key(file, suffix, name);
    writer_kv_u32(&file->writer, name, value);
}

static void put_f32(struct file *file, const char *suffix, float value) {
    char name[128];
    key(file, suffix, name);
    writer_kv_f32(&file->writer, name, value);
}

static void put_tensor(struct file *file, const char *name, uint64_t cols, uint64_t rows,
                       uint64_t depth) {
    const uint64_t dims[] = {cols, rows, depth};
    writer_tensor(&file->writer, name,
                  depth  ? 3
                  : rows ? 2
                         : 1,
                  dims, GGUF_F32, NULL,
                  cols * (rows ? rows : 1) * (depth ? depth : 1) * sizeof(float));
}

// In every layer; rows 0: a vector.
static void put_layers(struct file *file, const char *name, uint64_t cols, uint64_t rows) {
    for (int i = 0; i < file->n_layer; i++) {
        char full[128];
        snprintf(full, sizeof full, "blk.%d.%s", i, name);
        put_tensor(file, full, cols, rows, 0);
    }
}

// Everything but the norms of the layers and the feed-forward block.
static struct file file_begin(const char *arch, int n_layer) {
    struct file file = {writer_begin(3), arch, n_layer};
    writer_kv_str(&file.writer, "general.architecture", arch);
    put_u32(&file, "block_count", (uint32_t)n_layer);
    put_u32(&file, "context_length", 64);
    put_u32(&file, "embedding_length", EMBD);
    put_u32(&file, "feed_forward_length", FF);
    put_u32(&file, "attention.head_count", HEADS);
    put_u32(&file, "attention.key_length", DIM);
    put_u32(&file, "attention.value_length", DIM);
    put_f32(&file, "attention.layer_norm_rms_epsilon", 1e-5f);
    put_tensor(&file, "token_embd.weight", EMBD, VOCAB, 0);
    put_tensor(&file, "output_norm.weight", EMBD, 0, 0);
    put_layers(&file, "attn_q.weight", EMBD, HEADS * DIM);
    put_layers(&file, "attn_k.weight", EMBD, HEADS * DIM);
    put_layers(&file, "attn_v.weight", EMBD, HEADS * DIM);
    put_layers(&file, "attn_output.weight", HEADS * DIM, EMBD);
    return file;
}

static void put_dense(struct file *file) {
    put_layers(file, "ffn_gate.weight", EMBD, FF);
    put_layers(file, "ffn_up.weight", EMBD, FF);
    put_layers(file, "ffn_down.weight", FF, EMBD);
}

static struct file llama_begin(const char *arch) {
    struct file file = file_begin(arch, 2);
    put_layers(&file, "attn_norm.weight", EMBD, 0);
    put_layers(&file, "ffn_norm.weight", EMBD, 0);
    return file;
}

static struct file gemma_begin(const char *arch, int n_layer) {
    struct file file = file_begin(arch, n_layer);
    static const char *const norms[] = {"attn_norm.weight", "post_attention_norm.weight",
                                        "ffn_norm.weight", "post_ffw_norm.weight"};
    for (int i = 0; i < 4; i++) put_layers(&file, norms[i], EMBD, 0);
    if (strcmp(arch, "gemma3") == 0) {
        put_layers(&file, "attn_q_norm.weight", DIM, 0);
        put_layers(&file, "attn_k_norm.weight", DIM, 0);
    }
    put_dense(&file);
    return file;
}

struct opened {
    uint8_t *image;
    struct weights *weights;
    struct model model;
    rn_error err;
    rn_status status;
};

static struct opened *file_open(struct file *file) {
    struct opened *o = calloc(1, sizeof *o);
    size_t size;
    assert_non_null(o);
    o->image = writer_finish(&file->writer, &size);
    const rn_status status = weights_open_memory("m.gguf", o->image, size, &o->weights, &o->err);
    check(status == RN_OK, "%s", o->err.message);
    o->status = model_init(&o->model, o->weights, &o->err);
    return o;
}

static void file_close(struct opened *o) {
    if (o->status == RN_OK) model_deinit(&o->model);
    weights_close(o->weights);
    free(o->image);
    free(o);
}

static struct opened *file_good(struct file *file) {
    struct opened *o = file_open(file);
    check(o->status == RN_OK, "%s", o->err.message);
    return o;
}

static void file_refused(struct file *file, rn_status status, const char *message) {
    struct opened *o = file_open(file);
    check(o->status == status && strstr(o->err.message, message), "status %d, message '%s'",
          o->status, o->err.message);
    file_close(o);
}

CASE(the_largest_gemmas_scale_by_width_and_heads) {
    static const struct {
        const char *arch;
        int n_layer;
        float own;       // attention.scale; 0: the file does not say
        double expected; // its inverse, squared
    } cases[] = {
        {"gemma2", 2, 0, DIM},  {"gemma2", 46, 0, EMBD / HEADS}, {"gemma2", 46, 0.5f, 4},
        {"gemma2", 62, 0, DIM}, {"gemma3", 62, 0, EMBD / HEADS}, {"gemma3", 46, 0, DIM},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct file file = gemma_begin(cases[i].arch, cases[i].n_layer);
        if (cases[i].own > 0) put_f32(&file, "attention.scale", cases[i].own);
        struct opened *o = file_good(&file);
        const double scale = (double)o->model.hp.layer[0].attn_scale;
        check(fabs(1 / (scale * scale) - cases[i].expected) < 1e-4, "case %zu: %g", i, scale);
        file_close(o);
    }
}

CASE(gemma2_has_its_caps_and_window_where_a_file_does_not_say) {
    struct file file = gemma_begin("gemma2", 3);
    struct opened *o = file_good(&file);
    assert_true(o->model.hp.layer[0].attn_softcap == 50 && o->model.hp.logit_softcap == 30);
    assert_int_equal(o->model.hp.layer[0].window, 4096);
    for (int i = 0; i < 3; i++)
        assert_int_equal(o->model.hp.layer[i].kind, i == 1 ? KV_FULL : KV_WINDOW);
    file_close(o);
    file = gemma_begin("gemma2", 3);
    put_f32(&file, "attn_logit_softcapping", 0);
    put_f32(&file, "final_logit_softcapping", 7);
    put_u32(&file, "attention.sliding_window", 0);
    o = file_good(&file);
    assert_true(o->model.hp.layer[0].attn_softcap == 0 && o->model.hp.logit_softcap == 7);
    assert_int_equal(o->model.plan.n_group, 1);
    assert_int_equal(o->model.plan.group[0].kind, KV_FULL);
    file_close(o);
}

CASE(a_files_own_period_of_one_means_no_window) {
    struct file file = gemma_begin("gemma3", 3);
    put_u32(&file, "attention.sliding_window", 16);
    put_u32(&file, "attention.sliding_window_pattern", 1);
    struct opened *o = file_good(&file);
    assert_int_equal(o->model.plan.n_group, 1);
    assert_int_equal(o->model.plan.group[0].kind, KV_FULL);
    file_close(o);
}

CASE(a_rope_factor_alone_is_linear) {
    static const struct {
        const char *key, *type;
        float factor, expected; // expected: of the first frequency
    } cases[] = {
        {"rope.scaling.factor", NULL, 4, 0.25f},    {"rope.scale_linear", NULL, 4, 0.25f},
        {"rope.scaling.factor", "linear", 2, 0.5f}, {"rope.scaling.factor", "none", 4, 1},
        {"rope.freq_base", NULL, 500000, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct file file = llama_begin("llama");
        put_dense(&file);
        put_f32(&file, cases[i].key, cases[i].factor);
        if (cases[i].type) writer_kv_str(&file.writer, "llama.rope.scaling.type", cases[i].type);
        struct opened *o = file_good(&file);
        check(o->model.plan.rope[0].inv_freq[0] == cases[i].expected, "case %zu: %g", i,
              (double)o->model.plan.rope[0].inv_freq[0]);
        file_close(o);
    }
}

// Gemma 3 stretches the layers without a window alone; the others keep their own base, unscaled.
CASE(gemma3_scales_the_rope_of_layers_without_a_window) {
    struct file file = gemma_begin("gemma3", 6);
    put_u32(&file, "attention.sliding_window", 16);
    put_f32(&file, "rope.freq_base", 1e6f);
    writer_kv_str(&file.writer, "gemma3.rope.scaling.type", "linear");
    put_f32(&file, "rope.scaling.factor", 8);
    struct opened *o = file_good(&file);
    const struct plan *plan = &o->model.plan;
    assert_int_equal(plan->n_rope, 2);
    for (int i = 0; i < plan->n_op; i++) {
        if (plan->op[i].kind != OP_ROPE) continue;
        const bool local = o->model.hp.layer[plan->op[i].layer].kind == KV_WINDOW;
        const float *freq = plan->rope[plan->op[i].rope.rope].inv_freq;
        assert_true(local == (plan->op[i].layer != 5));
        assert_true(freq[0] == (local ? 1.0f : 0.125f));
        const double base = local ? 1e4 : 1e6; // second of DIM / 2 frequencies
        assert_true(fabs((double)freq[1] - pow(base, -0.25) / (local ? 1 : 8)) < 1e-7);
    }
    file_close(o);
}

CASE(windows_that_an_architecture_has_not_are_refused) {
    struct file file = llama_begin("granite");
    put_dense(&file);
    put_u32(&file, "attention.sliding_window", 4096);
    file_refused(&file, RN_ERR_UNSUPPORTED, "granite.attention.sliding_window is 4096");
}

CASE(experts_that_an_architecture_has_not_are_refused) {
    struct file file = gemma_begin("gemma2", 2);
    put_u32(&file, "expert_count", EXPERTS);
    put_u32(&file, "expert_used_count", 2);
    file_refused(&file, RN_ERR_UNSUPPORTED, "gemma2.expert_count is 3");
}

// The weights of the route carry it.
CASE(experts_have_the_residual_scale) {
    for (int scaled = 0; scaled < 2; scaled++) {
        struct file file = llama_begin("granite");
        if (scaled) put_f32(&file, "residual_scale", 0.25f);
        put_u32(&file, "expert_count", EXPERTS);
        put_u32(&file, "expert_used_count", 2);
        put_layers(&file, "ffn_gate_inp.weight", EMBD, EXPERTS);
        for (int i = 0; i < file.n_layer; i++) {
            static const char *const names[] = {"gate", "up", "down"};
            for (int k = 0; k < 3; k++) {
                char name[64];
                snprintf(name, sizeof name, "blk.%d.ffn_%s_exps.weight", i, names[k]);
                put_tensor(&file, name, k == 2 ? FF : EMBD, k == 2 ? EMBD : FF, EXPERTS);
            }
        }
        struct opened *o = file_good(&file);
        int routes = 0;
        for (int i = 0; i < o->model.plan.n_op; i++) {
            const struct op *op = &o->model.plan.op[i];
            if (op->kind != OP_ROUTE) continue;
            routes++;
            assert_true(op->route.scale == (scaled ? 0.25f : 0));
        }
        assert_int_equal(routes, file.n_layer);
        file_close(o);
    }
}

CASE(biases_that_a_residual_scale_would_miss_are_refused) {
    for (int scaled = 0; scaled < 2; scaled++) {
        struct file file = llama_begin("granite");
        put_dense(&file);
        put_layers(&file, "attn_output.bias", EMBD, 0);
        if (scaled) {
            put_f32(&file, "residual_scale", 0.25f);
            file_refused(&file, RN_ERR_UNSUPPORTED, "blk.0.attn_output.bias");
        } else {
            file_close(file_good(&file));
        }
    }
}

CASE(tensors_around_the_layers_that_no_one_uses_are_refused) {
    static const char *const names[] = {"output.bias", "output_norm.bias", "position_embd.weight",
                                        "token_embd_norm.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct file file = llama_begin("llama");
        put_dense(&file);
        put_tensor(&file, names[i], EMBD, 0, 0);
        file_refused(&file, RN_ERR_UNSUPPORTED, names[i]);
    }
    struct file file = llama_begin("llama");
    put_dense(&file);
    put_tensor(&file, "rope_factors_short.weight", DIM / 2, 0, 0); // of another length
    put_tensor(&file, "rope_factors_long.weight", DIM / 2, 0, 0);
    struct opened *o = file_open(&file); // divisors of 0
    check(o->status == RN_ERR_MODEL && strstr(o->err.message, "rope frequency"), "%s",
          o->err.message);
    file_close(o);
}

// A tensor for each expert, as the first files of Mixtral have; expert `odd` of ffn_up in another
// format.
static struct file separate_begin(int n_experts, int odd) {
    struct file file = llama_begin("llama");
    put_u32(&file, "expert_count", EXPERTS);
    put_u32(&file, "expert_used_count", 2);
    put_layers(&file, "ffn_gate_inp.weight", EMBD, EXPERTS);
    for (int e = 0; e < n_experts; e++) {
        char name[64];
        snprintf(name, sizeof name, "ffn_gate.%d.weight", e);
        put_layers(&file, name, EMBD, FF);
        snprintf(name, sizeof name, "ffn_down.%d.weight", e);
        put_layers(&file, name, FF, EMBD);
        for (int i = 0; i < file.n_layer; i++) {
            snprintf(name, sizeof name, "blk.%d.ffn_up.%d.weight", i, e);
            if (e == odd) {
                writer_tensor(&file.writer, name, 2, (const uint64_t[]){EMBD, FF}, GGUF_Q8_0, NULL,
                              FF * 34);
            } else {
                put_tensor(&file, name, EMBD, FF, 0);
            }
        }
    }
    return file;
}

CASE(experts_may_be_tensors_of_their_own) {
    struct file file = separate_begin(EXPERTS, -1);
    struct opened *o = file_good(&file);
    int n = 0;
    for (int i = 0; i < o->model.plan.n_op; i++) {
        const struct op *op = &o->model.plan.op[i];
        if (op->kind != OP_EXPERTS) continue;
        const struct plan_weight *weight = &o->model.plan.weight[op->weight];
        static const char *const stems[] = {"ffn_gate", "ffn_up", "ffn_down"};
        assert_int_equal(weight->bytes, EXPERTS * FF * EMBD * sizeof(float));
        for (int e = 0; e < EXPERTS; e++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s.%d.weight", op->layer, stems[n % 3], e);
            assert_ptr_equal(weight->expert_data[e], weights_tensor_find(o->weights, name)->data);
        }
        n++;
    }
    assert_int_equal(n, 6);
    file_close(o);
    file = separate_begin(EXPERTS - 1, -1);
    file_refused(&file, RN_ERR_MODEL, "blk.0.ffn_gate.2.weight is missing");
    file = separate_begin(EXPERTS + 1, -1);
    file_refused(&file, RN_ERR_UNSUPPORTED, "blk.0.ffn_gate.3.weight");
    file = separate_begin(EXPERTS, 1);
    file_refused(&file, RN_ERR_UNSUPPORTED, "blk.0.ffn_up.1.weight: format is Q8_0, expected F32");
}

TEST_PROGRAM(published) { return cases_run(NULL, NULL); }

// The folder's tensors under GGUF's names. One table says what each name becomes: a view of the
// file's bytes, one part of an expert tensor, a copy in another layout, or nothing. A tensor that
// no row knows is refused, so that no part of a model is left out in silence. Rows of q and k stay
// as they are (see rope.halves in hf_config.c). Called by hf_folder.c, after the config was read.
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "weights/hf.h"

enum { GGUF_NAME_MAX = 64 };

enum action {
    VIEW,
    NORM,             // a view; of Gemma a copy with 1 added
    HEAD,             // a view, unless the head is tied to the embedding
    IGNORE,           // buffers that are computed, and what reads images
    TRANSPOSE,        // [in, out] as Conv1D has it
    PART,             // one expert's matrix
    FUSED_GATE_UP,    // [experts, 2 ff, in], the gate's rows first
    FUSED_DOWN,       // [experts, out, ff]
    OSS_GATE_UP,      // [experts, in, 2 ff], gate and up by turns
    OSS_GATE_UP_BIAS, // [experts, 2 ff], by turns
    OSS_DOWN,         // [experts, ff, out]
    OSS_GATE_UP_MX,   // nibbles [experts, 2 ff, in / 32, 16], rows of gate and up by turns
    OSS_DOWN_MX,      // nibbles [experts, out, ff / 32, 16]
    OSS_SCALES,       // read with the nibbles
};

// Names without "model.", "language_model." and "transformer.". # is a number; @ is gate or up.
#define LIKE_LLAMA (HF_ALL & ~HF_GPT2)
#define SANDWICH   (HF_GEMMA2 | HF_GEMMA3)
#define POST_NORM  (SANDWICH | HF_OLMO2 | HF_GPTOSS)
#define QK_NORM    (HF_QWEN3 | HF_QWEN3MOE | HF_GEMMA3 | HF_OLMO2)
#define FUSED_MOE  (HF_MIXTRAL | HF_QWEN3MOE)
#define MLP        (LIKE_LLAMA & ~HF_ALL_MOE)

static const struct rule {
    const char *pattern, *name;
    uint32_t families;
    enum action action;
} rules[] = {
    {"embed_tokens.weight", "token_embd.weight", LIKE_LLAMA, VIEW},
    {"norm.weight", "output_norm.weight", LIKE_LLAMA, NORM},
    {"lm_head.weight", "output.weight", HF_ALL, HEAD},
    {"layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", LIKE_LLAMA, VIEW},
    {"layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", LIKE_LLAMA, VIEW},
    {"layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight", LIKE_LLAMA, VIEW},
    {"layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", LIKE_LLAMA, VIEW},
    {"layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias", LIKE_LLAMA, VIEW},
    {"layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias", LIKE_LLAMA, VIEW},
    {"layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias", LIKE_LLAMA, VIEW},
    {"layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias", LIKE_LLAMA, VIEW},
    {"layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", QK_NORM, NORM},
    {"layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", QK_NORM, NORM},
    {"layers.#.self_attn.qkv_proj.weight", "blk.#.attn_qkv.weight", HF_PHI3, VIEW},
    {"layers.#.self_attn.sinks", "blk.#.attn_sinks.weight", HF_GPTOSS, VIEW},
    {"layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", LIKE_LLAMA & ~HF_OLMO2, NORM},
    {"layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", POST_NORM,
     NORM},
    {"layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight", LIKE_LLAMA & ~POST_NORM,
     NORM},
    {"layers.#.pre_feedforward_layernorm.weight", "blk.#.ffn_norm.weight", SANDWICH, NORM},
    {"layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight",
     SANDWICH | HF_OLMO2, NORM},
    {"layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight", MLP & ~HF_PHI3, VIEW},
    {"layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight", MLP & ~HF_PHI3, VIEW},
    {"layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", MLP, VIEW},
    {"layers.#.mlp.gate_proj.bias", "blk.#.ffn_gate.bias", HF_ALL_LLAMA, VIEW},
    {"layers.#.mlp.up_proj.bias", "blk.#.ffn_up.bias", HF_ALL_LLAMA, VIEW},
    {"layers.#.mlp.down_proj.bias", "blk.#.ffn_down.bias", HF_ALL_LLAMA, VIEW},
    {"layers.#.mlp.gate_up_proj.weight", "blk.#.ffn_up.weight", HF_PHI3, VIEW},
    {"layers.#.block_sparse_moe.gate.weight", "blk.#.ffn_gate_inp.weight", HF_MIXTRAL, VIEW},
    {"layers.#.block_sparse_moe.experts.#.w1.weight", "blk.#.ffn_gate_exps.weight", HF_MIXTRAL,
     PART},
    {"layers.#.block_sparse_moe.experts.#.w2.weight", "blk.#.ffn_down_exps.weight", HF_MIXTRAL,
     PART},
    {"layers.#.block_sparse_moe.experts.#.w3.weight", "blk.#.ffn_up_exps.weight", HF_MIXTRAL, PART},
    {"layers.#.mlp.gate.weight", "blk.#.ffn_gate_inp.weight", FUSED_MOE, VIEW},
    {"layers.#.mlp.experts.#.gate_proj.weight", "blk.#.ffn_gate_exps.weight", FUSED_MOE, PART},
    {"layers.#.mlp.experts.#.down_proj.weight", "blk.#.ffn_down_exps.weight", FUSED_MOE, PART},
    {"layers.#.mlp.experts.#.up_proj.weight", "blk.#.ffn_up_exps.weight", FUSED_MOE, PART},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_@_exps.weight", FUSED_MOE, FUSED_GATE_UP},
    {"layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", FUSED_MOE, FUSED_DOWN},
    {"layers.#.mlp.router.weight", "blk.#.ffn_gate_inp.weight", HF_GPTOSS, VIEW},
    {"layers.#.mlp.router.bias", "blk.#.ffn_gate_inp.bias", HF_GPTOSS, VIEW},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_@_exps.weight", HF_GPTOSS, OSS_GATE_UP},
    {"layers.#.mlp.experts.gate_up_proj_bias", "blk.#.ffn_@_exps.bias", HF_GPTOSS,
     OSS_GATE_UP_BIAS},
    {"layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", HF_GPTOSS, OSS_DOWN},
    {"layers.#.mlp.experts.down_proj_bias", "blk.#.ffn_down_exps.bias", HF_GPTOSS, VIEW},
    {"layers.#.mlp.experts.gate_up_proj_blocks", "blk.#.ffn_@_exps.weight", HF_GPTOSS,
     OSS_GATE_UP_MX},
    {"layers.#.mlp.experts.down_proj_blocks", "blk.#.ffn_down_exps.weight", HF_GPTOSS, OSS_DOWN_MX},
    {"layers.#.mlp.experts.gate_up_proj_scales", NULL, HF_GPTOSS, OSS_SCALES},
    {"layers.#.mlp.experts.down_proj_scales", NULL, HF_GPTOSS, OSS_SCALES},
    {"wte.weight", "token_embd.weight", HF_GPT2, VIEW},
    {"wpe.weight", "position_embd.weight", HF_GPT2, VIEW},
    {"ln_f.weight", "output_norm.weight", HF_GPT2, VIEW},
    {"ln_f.bias", "output_norm.bias", HF_GPT2, VIEW},
    {"h.#.ln_1.weight", "blk.#.attn_norm.weight", HF_GPT2, VIEW},
    {"h.#.ln_1.bias", "blk.#.attn_norm.bias", HF_GPT2, VIEW},
    {"h.#.ln_2.weight", "blk.#.ffn_norm.weight", HF_GPT2, VIEW},
    {"h.#.ln_2.bias", "blk.#.ffn_norm.bias", HF_GPT2, VIEW},
    {"h.#.attn.c_attn.weight", "blk.#.attn_qkv.weight", HF_GPT2, TRANSPOSE},
    {"h.#.attn.c_attn.bias", "blk.#.attn_qkv.bias", HF_GPT2, VIEW},
    {"h.#.attn.c_proj.weight", "blk.#.attn_output.weight", HF_GPT2, TRANSPOSE},
    {"h.#.attn.c_proj.bias", "blk.#.attn_output.bias", HF_GPT2, VIEW},
    {"h.#.mlp.c_fc.weight", "blk.#.ffn_up.weight", HF_GPT2, TRANSPOSE},
    {"h.#.mlp.c_fc.bias", "blk.#.ffn_up.bias", HF_GPT2, VIEW},
    {"h.#.mlp.c_proj.weight", "blk.#.ffn_down.weight", HF_GPT2, TRANSPOSE},
    {"h.#.mlp.c_proj.bias", "blk.#.ffn_down.bias", HF_GPT2, VIEW},
    {"h.#.attn.bias", NULL, HF_GPT2, IGNORE},
    {"h.#.attn.masked_bias", NULL, HF_GPT2, IGNORE},
    {"rotary_emb.inv_freq", NULL, HF_ALL, IGNORE},
    {"layers.#.self_attn.rotary_emb.inv_freq", NULL, HF_ALL, IGNORE},
};

// The parts of the expert tensors of a layer, by what they are.
enum { GROUP_GATE, GROUP_DOWN, GROUP_UP, GROUP_COUNT };

struct mapper {
    struct hf_config *c;
    const struct st_table *table;
    int *groups;     // [n_layer][GROUP_COUNT]: index of the tensor, -1: none yet
    int64_t n_parts; // that the groups so far have room for
    // What is being mapped.
    const struct st_tensor *tensor;
    const struct rule *rule;
    int64_t number[2]; // layer, expert
};

// In messages the file and the tensor's own name, which is what the user can look for.
static void fail(struct mapper *m, rn_status status, const char *fmt, ...) RN_PRINTF(3, 4);
static void fail(struct mapper *m, rn_status status, const char *fmt, ...) {
    if (m->c->status != RN_OK) return;
    char text[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    m->c->status = err_set(m->c->err, status, "%s: tensor %.128s: %s",
                           m->c->weights->files[m->tensor->file].path, m->tensor->name, text);
}

// --- names ---

static bool starts_with(const char **text, const char *prefix) {
    const size_t len = strlen(prefix);
    if (strncmp(*text, prefix, len) != 0) return false;
    *text += len;
    return true;
}

// The text model of one that also reads images has "language_model." before or behind "model.".
static const char *name_bare(const char *name) {
    starts_with(&name, "model.");
    starts_with(&name, "language_model.");
    starts_with(&name, "model.");
    starts_with(&name, "transformer.");
    return name;
}

static bool is_image_part(const char *name) {
    return starts_with(&name, "vision_tower.") || starts_with(&name, "vision_model.") ||
           starts_with(&name, "multi_modal_projector.");
}

// A number as one is written, so that no two names mean the same.
static bool number_read(const char **text, int64_t *out) {
    const char *at = *text;
    int64_t value = 0;
    while (*at >= '0' && *at <= '9' && at - *text < 9) value = value * 10 + (*at++ - '0');
    if (at == *text || (**text == '0' && at - *text > 1)) return false;
    *text = at;
    *out = value;
    return true;
}

static bool matches(const char *pattern, const char *text, int64_t number[2]) {
    int n = 0;
    for (; *pattern; pattern++) {
        if (*pattern == '#') {
            if (!number_read(&text, &number[n++])) return false;
        } else if (*pattern != *text++) {
            return false;
        }
    }
    return *text == 0;
}

static const struct rule *rule_find(struct mapper *m, const char *name) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if ((rules[i].families & m->c->family) && matches(rules[i].pattern, name, m->number))
            return &rules[i];
    return NULL;
}

// `which` stands for @.
static void gguf_name(const struct mapper *m, const char *which, char out[GGUF_NAME_MAX]) {
    size_t len = 0;
    for (const char *at = m->rule->name; *at; at++) {
        const size_t left = GGUF_NAME_MAX - len;
        if (*at == '#') {
            len += (size_t)snprintf(out + len, left, "%" PRId64, m->number[0]);
        } else if (*at == '@') {
            len += (size_t)snprintf(out + len, left, "%s", which);
        } else {
            out[len++] = *at;
        }
    }
    out[len] = 0;
}

// --- checks ---

static const enum format_id formats[] = {
    [ST_F32] = FORMAT_F32, [ST_F16] = FORMAT_F16, [ST_BF16] = FORMAT_BF16};

static enum format_id format_of(const struct st_tensor *tensor) { return formats[tensor->dtype]; }

static size_t element_bytes(const struct st_tensor *tensor) {
    return (size_t)format_at(format_of(tensor))->block_bytes;
}

// A float tensor of one to four dimensions, none empty.
static bool check_float(struct mapper *m) {
    const struct st_tensor *t = m->tensor;
    if (t->dtype != ST_F32 && t->dtype != ST_F16 && t->dtype != ST_BF16) {
        fail(m, RN_ERR_UNSUPPORTED, "dtype %s is not supported, only F32, F16 and BF16",
             t->dtype_name);
        return false;
    }
    bool ok = t->n_dims >= 1 && t->n_dims <= WEIGHTS_MAX_DIMS && t->bytes > 0;
    for (int i = 0; i < WEIGHTS_MAX_DIMS; i++) ok = ok && t->dim[i] > 0;
    if (!ok)
        fail(m, RN_ERR_MODEL, "%d dimensions, or an empty one, expected 1 to %d", t->n_dims,
             WEIGHTS_MAX_DIMS);
    return ok;
}

// The tensor must have these dimensions, slowest first as the files write them; 0 is any.
static bool check_shape(struct mapper *m, const struct st_tensor *t, int n_dims, int64_t a,
                        int64_t b, int64_t c, int64_t d) {
    const int64_t want[4] = {a, b, c, d};
    bool ok = t->n_dims == n_dims && t->bytes > 0;
    char have_text[100] = "", want_text[100] = "";
    size_t have_len = 0, want_len = 0;
    for (int i = 0; i < n_dims; i++) {
        const int64_t have = t->n_dims == n_dims ? t->dim[n_dims - 1 - i] : 0;
        ok = ok && have > 0 && (want[i] == 0 || have == want[i]);
        have_len += (size_t)snprintf(have_text + have_len, sizeof have_text - have_len,
                                     "%s%" PRId64, i ? ", " : "", have);
        want_len += (size_t)snprintf(want_text + want_len, sizeof want_text - want_len,
                                     "%s%" PRId64, i ? ", " : "", want[i]);
    }
    if (!ok && t->n_dims != n_dims) {
        fail(m, RN_ERR_MODEL, "%d dimensions, expected %d", t->n_dims, n_dims);
    } else if (!ok) {
        fail(m, RN_ERR_MODEL, "shape [%s], expected [%s]", have_text, want_text);
    }
    return ok;
}

// --- actions ---

static struct tensor_view *view_push(struct mapper *m, const char *name) {
    struct hf_config *c = m->c;
    const char *copy = arena_strdup(&c->weights->arena, name, strlen(name));
    struct tensor_view *view = copy ? store_tensor_push(c->weights) : NULL;
    if (!view) {
        fail(m, RN_ERR_NOMEM, "out of memory");
        return NULL;
    }
    const struct st_tensor *t = m->tensor;
    *view = (struct tensor_view){.name = copy,
                                 .format = format_of(t),
                                 .n_dims = t->n_dims,
                                 .dim = {t->dim[0], t->dim[1], t->dim[2], t->dim[3]},
                                 .data = t->data,
                                 .bytes = t->bytes,
                                 .offset = t->offset,
                                 .file = t->file};
    return view;
}

static void map_view(struct mapper *m) {
    char name[GGUF_NAME_MAX];
    if (!check_float(m)) return;
    gguf_name(m, "", name);
    if (view_push(m, name) && strcmp(name, "token_embd.weight") == 0) {
        if (m->tensor->dim[1] > UINT32_MAX)
            fail(m, RN_ERR_MODEL, "%" PRId64 " rows are more than a vocabulary can have",
                 m->tensor->dim[1]);
        hf_put_u32(m->c, "vocab_size", m->tensor->dim[1]);
    }
}

static void map_norm(struct mapper *m) {
    if (!(m->c->family & HF_ALL_GEMMA)) {
        map_view(m);
        return;
    }
    char name[GGUF_NAME_MAX];
    void *data;
    if (!check_float(m) || !check_shape(m, m->tensor, 1, 0, 0, 0, 0)) return;
    gguf_name(m, "", name);
    if (hf_tensor_new(m->c, name, FORMAT_F32, 1, m->tensor->dim, &data) == RN_OK)
        hf_copy_add_one(data, m->tensor, format_of(m->tensor));
}

static void map_transposed(struct mapper *m) {
    const struct st_tensor *t = m->tensor;
    char name[GGUF_NAME_MAX];
    void *data;
    if (!check_float(m) || !check_shape(m, t, 2, 0, 0, 0, 0)) return;
    const int64_t rows = t->dim[0], cols = t->dim[1];
    gguf_name(m, "", name);
    if (hf_tensor_new(m->c, name, format_of(t), 2, (const int64_t[]){cols, rows}, &data) == RN_OK)
        hf_copy_transposed(data, t->data, rows, cols, rows, 0, 1, element_bytes(t));
}

static int group_of(const struct rule *rule) {
    return strstr(rule->name, "ffn_gate_")   ? GROUP_GATE
           : strstr(rule->name, "ffn_down_") ? GROUP_DOWN
                                             : GROUP_UP;
}

// A tensor whose slices of the third dimension are given one by one.
static struct tensor_view *parts_push(struct mapper *m, const char *name, int64_t cols,
                                      int64_t rows, const void ***parts) {
    struct hf_config *c = m->c;
    uint64_t bytes = format_row_bytes(format_of(m->tensor), cols);
    const bool fits =
        ck_mul(bytes, (uint64_t)rows, &bytes) && ck_mul(bytes, (uint64_t)c->n_expert, &bytes);
    *parts = arena_array(&c->weights->arena, (size_t)c->n_expert, sizeof **parts);
    if (!fits || !*parts) {
        fail(m, RN_ERR_NOMEM, "out of memory for %" PRId64 " experts", c->n_expert);
        return NULL;
    }
    struct tensor_view *view = view_push(m, name);
    if (!view) return NULL;
    view->n_dims = 3;
    view->dim[0] = cols;
    view->dim[1] = rows;
    view->dim[2] = c->n_expert;
    view->dim[3] = 1;
    view->data = NULL;
    view->parts = *parts;
    view->bytes = bytes;
    return view;
}

static void map_part(struct mapper *m) {
    struct hf_config *c = m->c;
    const struct st_tensor *t = m->tensor;
    if (m->number[1] >= c->n_expert) {
        fail(m, RN_ERR_MODEL, "expert %" PRId64 ", the config has %" PRId64, m->number[1],
             c->n_expert);
        return;
    }
    if (!check_float(m) || !check_shape(m, t, 2, 0, 0, 0, 0)) return;
    int *group = &m->groups[m->number[0] * GROUP_COUNT + group_of(m->rule)];
    if (*group < 0) {
        char name[GGUF_NAME_MAX];
        const void **parts;
        gguf_name(m, "", name);
        // Each part is a tensor of the files; a few of them must not claim room for many.
        m->n_parts += c->n_expert;
        if (m->n_parts > m->table->n) {
            fail(m, RN_ERR_MODEL, "the files have too few tensors for %" PRId64 " experts",
                 c->n_expert);
            return;
        }
        if (!parts_push(m, name, t->dim[0], t->dim[1], &parts)) return;
        *group = c->weights->n_tensors - 1;
    }
    const struct tensor_view *view = &c->weights->tensors[*group];
    if (view->format != format_of(t) || view->dim[0] != t->dim[0] || view->dim[1] != t->dim[1]) {
        fail(m, RN_ERR_MODEL,
             "%s [%" PRId64 ", %" PRId64 "], other experts have %s [%" PRId64 ", %" PRId64 "]",
             t->dtype_name, t->dim[1], t->dim[0], format_at(view->format)->name, view->dim[1],
             view->dim[0]);
        return;
    }
    const void **slot = (const void **)(uintptr_t)&view->parts[m->number[1]];
    if (*slot) fail(m, RN_ERR_MODEL, "expert %" PRId64 " is there twice", m->number[1]);
    *slot = t->data;
}

// Rows of width and of 2 ff must differ: otherwise the shape does not tell which axis is which.
static void map_fused_gate_up(struct mapper *m) {
    const struct hf_config *c = m->c;
    const struct st_tensor *t = m->tensor;
    static const char *const which[] = {"gate", "up"};
    if (!check_float(m) || !check_shape(m, t, 3, c->n_expert, 2 * c->n_ff_expert, c->n_embd, 0))
        return;
    if (2 * c->n_ff_expert == c->n_embd) {
        fail(m, RN_ERR_UNSUPPORTED, "the two axes are of one length, so their order is unknown");
        return;
    }
    const uint64_t slice = t->bytes / (uint64_t)c->n_expert;
    for (int i = 0; i < 2; i++) {
        char name[GGUF_NAME_MAX];
        const void **parts;
        gguf_name(m, which[i], name);
        if (!parts_push(m, name, t->dim[0], c->n_ff_expert, &parts)) return;
        for (int64_t e = 0; e < c->n_expert; e++)
            parts[e] = t->data + (uint64_t)e * slice + (uint64_t)i * (slice / 2);
    }
}

static void map_fused_down(struct mapper *m) {
    const struct hf_config *c = m->c;
    if (!check_float(m) || !check_shape(m, m->tensor, 3, c->n_expert, c->n_embd, c->n_ff_expert, 0))
        return;
    if (c->n_ff_expert == c->n_embd) {
        fail(m, RN_ERR_UNSUPPORTED, "the two axes are of one length, so their order is unknown");
        return;
    }
    map_view(m);
}

static void map_oss_gate_up(struct mapper *m) {
    const struct hf_config *c = m->c;
    const struct st_tensor *t = m->tensor;
    static const char *const which[] = {"gate", "up"};
    const int64_t ff = c->n_ff_expert, in = c->n_embd;
    if (!check_float(m) || !check_shape(m, t, 3, c->n_expert, in, 2 * ff, 0)) return;
    const size_t size = element_bytes(t);
    for (int i = 0; i < 2; i++) {
        char name[GGUF_NAME_MAX];
        void *data;
        gguf_name(m, which[i], name);
        const int64_t dim[] = {in, ff, c->n_expert};
        if (hf_tensor_new(m->c, name, format_of(t), 3, dim, &data) != RN_OK) return;
        for (int64_t e = 0; e < c->n_expert; e++)
            hf_copy_transposed((char *)data + (size_t)(e * ff * in) * size,
                               t->data + (size_t)(e * in * 2 * ff) * size, ff, in, 2 * ff, i, 2,
                               size);
    }
}

static void map_oss_gate_up_bias(struct mapper *m) {
    const struct hf_config *c = m->c;
    const struct st_tensor *t = m->tensor;
    static const char *const which[] = {"gate", "up"};
    if (!check_float(m) || !check_shape(m, t, 2, c->n_expert, 2 * c->n_ff_expert, 0, 0)) return;
    for (int i = 0; i < 2; i++) {
        char name[GGUF_NAME_MAX];
        void *data;
        gguf_name(m, which[i], name);
        const int64_t dim[] = {c->n_ff_expert, c->n_expert};
        if (hf_tensor_new(m->c, name, format_of(t), 2, dim, &data) == RN_OK)
            hf_copy_strided(data, t->data, c->n_ff_expert * c->n_expert, i, 2, element_bytes(t));
    }
}

static void map_oss_down(struct mapper *m) {
    const struct hf_config *c = m->c;
    const struct st_tensor *t = m->tensor;
    const int64_t ff = c->n_ff_expert, out = c->n_embd;
    char name[GGUF_NAME_MAX];
    void *data;
    if (!check_float(m) || !check_shape(m, t, 3, c->n_expert, ff, out, 0)) return;
    const size_t size = element_bytes(t);
    gguf_name(m, "", name);
    if (hf_tensor_new(m->c, name, format_of(t), 3, (const int64_t[]){ff, out, c->n_expert},
                      &data) != RN_OK)
        return;
    for (int64_t e = 0; e < c->n_expert; e++)
        hf_copy_transposed((char *)data + (size_t)(e * ff * out) * size,
                           t->data + (size_t)(e * ff * out) * size, out, ff, out, 0, 1, size);
}

// The scales of the nibbles, checked, or NULL. `rows` of `blocks` blocks for each expert.
static const uint8_t *mx_scales(struct mapper *m, int64_t rows, int64_t blocks) {
    const struct st_tensor *t = m->tensor;
    char name[ST_NAME_MAX + 1];
    const size_t stem = strlen(t->name) - strlen("blocks");
    snprintf(name, sizeof name, "%.*sscales", (int)stem, t->name);
    const struct st_tensor *scales = st_find(m->table, name);
    if (!scales) {
        fail(m, RN_ERR_MODEL, "its %.100s is missing", name);
        return NULL;
    }
    if (t->dtype != ST_U8 || scales->dtype != ST_U8) {
        fail(m, RN_ERR_UNSUPPORTED, "dtype %s, scales %s: expected U8", t->dtype_name,
             scales->dtype_name);
        return NULL;
    }
    if (!check_shape(m, t, 4, m->c->n_expert, rows, blocks, 16) ||
        !check_shape(m, scales, 3, m->c->n_expert, rows, blocks, 0))
        return NULL;
    return scales->data;
}

// Whether a row's length is whole blocks.
static bool check_blocks(struct mapper *m, int64_t cols) {
    if (cols % 32 == 0) return true;
    fail(m, RN_ERR_MODEL, "rows of %" PRId64 " elements are not whole blocks of 32", cols);
    return false;
}

static void map_oss_gate_up_mx(struct mapper *m) {
    const struct hf_config *c = m->c;
    static const char *const which[] = {"gate", "up"};
    const int64_t ff = c->n_ff_expert, in = c->n_embd, blocks = in / 32;
    if (!check_blocks(m, in)) return;
    const uint8_t *scales = mx_scales(m, 2 * ff, blocks);
    if (!scales) return;
    for (int i = 0; i < 2; i++) {
        char name[GGUF_NAME_MAX];
        void *data;
        gguf_name(m, which[i], name);
        const int64_t dim[] = {in, ff, c->n_expert};
        if (hf_tensor_new(m->c, name, FORMAT_MXFP4, 3, dim, &data) != RN_OK) return;
        for (int64_t row = 0; row < ff * c->n_expert; row++) {
            const int64_t from = (2 * row + i) * blocks;
            hf_copy_mxfp4((uint8_t *)data + row * blocks * 17, m->tensor->data + from * 16,
                          scales + from, blocks);
        }
    }
}

static void map_oss_down_mx(struct mapper *m) {
    const struct hf_config *c = m->c;
    const int64_t ff = c->n_ff_expert, out = c->n_embd, blocks = ff / 32;
    char name[GGUF_NAME_MAX];
    void *data;
    if (!check_blocks(m, ff)) return;
    const uint8_t *scales = mx_scales(m, out, blocks);
    if (!scales) return;
    gguf_name(m, "", name);
    const int64_t dim[] = {ff, out, c->n_expert};
    if (hf_tensor_new(m->c, name, FORMAT_MXFP4, 3, dim, &data) == RN_OK)
        hf_copy_mxfp4(data, m->tensor->data, scales, out * c->n_expert * blocks);
}

static void map_oss_scales(struct mapper *m) {
    char name[ST_NAME_MAX + 1];
    const size_t stem = strlen(m->tensor->name) - strlen("scales");
    snprintf(name, sizeof name, "%.*sblocks", (int)stem, m->tensor->name);
    if (!st_find(m->table, name)) fail(m, RN_ERR_MODEL, "its %.100s is missing", name);
}

// --- all of them ---

static void map_ignored(struct mapper *m) { (void)m; }

static void map_head(struct mapper *m) {
    if (!m->c->is_tied) map_view(m);
}

static void (*const actions[])(struct mapper *m) = {
    [VIEW] = map_view,
    [NORM] = map_norm,
    [HEAD] = map_head,
    [IGNORE] = map_ignored,
    [TRANSPOSE] = map_transposed,
    [PART] = map_part,
    [FUSED_GATE_UP] = map_fused_gate_up,
    [FUSED_DOWN] = map_fused_down,
    [OSS_GATE_UP] = map_oss_gate_up,
    [OSS_GATE_UP_BIAS] = map_oss_gate_up_bias,
    [OSS_DOWN] = map_oss_down,
    [OSS_GATE_UP_MX] = map_oss_gate_up_mx,
    [OSS_DOWN_MX] = map_oss_down_mx,
    [OSS_SCALES] = map_oss_scales,
};

static void map_one(struct mapper *m) {
    const char *name = name_bare(m->tensor->name);
    if (m->c->family == HF_GEMMA3 && is_image_part(name)) return;
    m->number[0] = m->number[1] = 0;
    m->rule = rule_find(m, name);
    if (!m->rule) {
        fail(m, RN_ERR_UNSUPPORTED, "no tensor of this name is known for %s", m->c->arch);
    } else if (m->number[0] >= m->c->n_layer) {
        fail(m, RN_ERR_MODEL, "layer %" PRId64 ", the config has %" PRId64, m->number[0],
             m->c->n_layer);
    } else {
        actions[m->rule->action](m);
    }
}

// Every expert of a tensor in parts must have come.
static void check_parts(struct mapper *m) {
    struct hf_config *c = m->c;
    for (int64_t i = 0; c->status == RN_OK && i < c->n_layer * GROUP_COUNT; i++) {
        if (m->groups[i] < 0) continue;
        const struct tensor_view *view = &c->weights->tensors[m->groups[i]];
        for (int64_t e = 0; c->status == RN_OK && e < c->n_expert; e++)
            if (!view->parts[e])
                c->status =
                    err_set(c->err, RN_ERR_MODEL, "%s: tensor %s: expert %" PRId64 " is missing",
                            c->weights->name, view->name, e);
    }
}

rn_status hf_tensors_map(struct hf_config *c, const struct st_table *table) {
    if (c->status != RN_OK) return c->status;
    struct mapper m = {.c = c, .table = table};
    const size_t n_groups = (size_t)c->n_layer * GROUP_COUNT;
    m.groups = malloc(n_groups * sizeof *m.groups);
    if (!m.groups) return err_set(c->err, RN_ERR_NOMEM, "%s: out of memory", c->weights->name);
    memset(m.groups, 0xff, n_groups * sizeof *m.groups); // -1
    for (int i = 0; c->status == RN_OK && i < table->n; i++) {
        m.tensor = &table->tensors[i];
        map_one(&m);
    }
    check_parts(&m);
    free(m.groups);
    if (c->status == RN_OK) c->status = store_tensors_index(c->weights, c->err);
    return c->status;
}

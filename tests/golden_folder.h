// The Hugging Face folders of the reference models, rebuilt from their GGUF files so that the
// weights are carried once: every tensor of the true safetensors header gets the bytes of its GGUF
// tensor, with what the converter did to them undone. golden_safetensors gives the file's exact
// bytes (models.json holds their checksum).
#ifndef RN_TESTS_GOLDEN_FOLDER_H
#define RN_TESTS_GOLDEN_FOLDER_H

#include "data_file.h"
#include "weights/weights.h"

// What the converter did to a tensor's elements.
enum golden_change {
    GOLDEN_SAME,
    GOLDEN_QUERY,       // llama family: rows in pairs of neighbours instead of halves of a head
    GOLDEN_KEY,         // the same, with the KV heads
    GOLDEN_TRANSPOSED,  // [n][m] became [m][n], for each expert
    GOLDEN_EXPERT,      // one of the slices of a stacked tensor
    GOLDEN_INTERLEAVED, // columns were gate, up, gate, up, ...; then transposed for each expert
};

struct golden_name {
    const char *hf;   // behind the layer's number; '*' is an expert's
    const char *gguf; // behind the layer's number
    enum golden_change change;
};

// Of several lines with one name the first whose tensor is there counts.
static const struct golden_name golden_names[] = {
    {"input_layernorm.weight", "attn_norm.weight", GOLDEN_SAME},
    {"post_attention_layernorm.weight", "post_attention_norm.weight", GOLDEN_SAME},
    {"post_attention_layernorm.weight", "ffn_norm.weight", GOLDEN_SAME},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight", GOLDEN_SAME},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight", GOLDEN_SAME},
    {"self_attn.q_proj.weight", "attn_q.weight", GOLDEN_QUERY},
    {"self_attn.k_proj.weight", "attn_k.weight", GOLDEN_KEY},
    {"self_attn.v_proj.weight", "attn_v.weight", GOLDEN_SAME},
    {"self_attn.o_proj.weight", "attn_output.weight", GOLDEN_SAME},
    {"self_attn.qkv_proj.weight", "attn_qkv.weight", GOLDEN_SAME},
    {"self_attn.q_proj.bias", "attn_q.bias", GOLDEN_SAME},
    {"self_attn.k_proj.bias", "attn_k.bias", GOLDEN_SAME},
    {"self_attn.v_proj.bias", "attn_v.bias", GOLDEN_SAME},
    {"self_attn.o_proj.bias", "attn_output.bias", GOLDEN_SAME},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", GOLDEN_SAME},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", GOLDEN_SAME},
    {"self_attn.sinks", "attn_sinks.weight", GOLDEN_SAME},
    {"mlp.gate_proj.weight", "ffn_gate.weight", GOLDEN_SAME},
    {"mlp.up_proj.weight", "ffn_up.weight", GOLDEN_SAME},
    {"mlp.down_proj.weight", "ffn_down.weight", GOLDEN_SAME},
    {"mlp.gate_up_proj.weight", "ffn_up.weight", GOLDEN_SAME},
    {"mlp.gate.weight", "ffn_gate_inp.weight", GOLDEN_SAME},
    {"mlp.experts.*.gate_proj.weight", "ffn_gate_exps.weight", GOLDEN_EXPERT},
    {"mlp.experts.*.up_proj.weight", "ffn_up_exps.weight", GOLDEN_EXPERT},
    {"mlp.experts.*.down_proj.weight", "ffn_down_exps.weight", GOLDEN_EXPERT},
    {"block_sparse_moe.gate.weight", "ffn_gate_inp.weight", GOLDEN_SAME},
    {"block_sparse_moe.experts.*.w1.weight", "ffn_gate_exps.weight", GOLDEN_EXPERT},
    {"block_sparse_moe.experts.*.w2.weight", "ffn_down_exps.weight", GOLDEN_EXPERT},
    {"block_sparse_moe.experts.*.w3.weight", "ffn_up_exps.weight", GOLDEN_EXPERT},
    {"mlp.router.weight", "ffn_gate_inp.weight", GOLDEN_SAME},
    {"mlp.router.bias", "ffn_gate_inp.bias", GOLDEN_SAME},
    {"mlp.experts.gate_up_proj", "ffn_*_exps.weight", GOLDEN_INTERLEAVED},
    {"mlp.experts.gate_up_proj_bias", "ffn_*_exps.bias", GOLDEN_INTERLEAVED},
    {"mlp.experts.down_proj", "ffn_down_exps.weight", GOLDEN_TRANSPOSED},
    {"mlp.experts.down_proj_bias", "ffn_down_exps.bias", GOLDEN_SAME},
    {"ln_1.weight", "attn_norm.weight", GOLDEN_SAME},
    {"ln_1.bias", "attn_norm.bias", GOLDEN_SAME},
    {"ln_2.weight", "ffn_norm.weight", GOLDEN_SAME},
    {"ln_2.bias", "ffn_norm.bias", GOLDEN_SAME},
    {"attn.c_attn.weight", "attn_qkv.weight", GOLDEN_TRANSPOSED},
    {"attn.c_attn.bias", "attn_qkv.bias", GOLDEN_SAME},
    {"attn.c_proj.weight", "attn_output.weight", GOLDEN_TRANSPOSED},
    {"attn.c_proj.bias", "attn_output.bias", GOLDEN_SAME},
    {"mlp.c_fc.weight", "ffn_up.weight", GOLDEN_TRANSPOSED},
    {"mlp.c_fc.bias", "ffn_up.bias", GOLDEN_SAME},
    {"mlp.c_proj.weight", "ffn_down.weight", GOLDEN_TRANSPOSED},
    {"mlp.c_proj.bias", "ffn_down.bias", GOLDEN_SAME},
};

// Tensors that belong to no layer.
static const struct golden_name golden_global_names[] = {
    {"model.embed_tokens.weight", "token_embd.weight", GOLDEN_SAME},
    {"model.norm.weight", "output_norm.weight", GOLDEN_SAME},
    {"lm_head.weight", "output.weight", GOLDEN_SAME},
    {"transformer.wte.weight", "token_embd.weight", GOLDEN_SAME},
    {"transformer.wpe.weight", "position_embd.weight", GOLDEN_SAME},
    {"transformer.ln_f.weight", "output_norm.weight", GOLDEN_SAME},
    {"transformer.ln_f.bias", "output_norm.bias", GOLDEN_SAME},
};

struct golden_source {
    const struct weights *gguf;
    bool paired; // rows of q and k are in llama's order
    int64_t n_head, n_head_kv;
    struct data_file norms; // gemma's norm weights one after another: adding 1 lost bits of them
    size_t norms_used;
};

// ---------------------------------------------------------------- elements

// Each head's rows: neighbours 2j, 2j + 1 become j of the first half and j of the second.
static inline void golden_unpair(float *out, const float *in, int64_t rows, int64_t cols,
                                 int64_t heads) {
    const int64_t size = rows / heads, half = size / 2;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t at = row % size;
        const int64_t from = row - at + (at < half ? 2 * at : 2 * (at - half) + 1);
        memcpy(out + row * cols, in + from * cols, (size_t)cols * sizeof *out);
    }
}

// in is [rows][cols]; element [c][r] of the result goes to c * step + r * stride.
static inline void golden_transpose(float *out, const float *in, int64_t rows, int64_t cols,
                                    int64_t step, int64_t stride) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) out[c * step + r * stride] = in[r * cols + c];
}

static inline const struct tensor_view *golden_tensor(const struct golden_source *source,
                                                      const char *name) {
    const struct tensor_view *tensor = weights_tensor_find(source->gguf, name);
    check(tensor != NULL, "no tensor %s", name);
    assert_int_equal(tensor->format, FORMAT_F32);
    assert_non_null(tensor->data);
    return tensor;
}

// The gate's and the up's columns (their rows in GGUF), alternating. A bias has no columns of its
// own: it is one row per expert.
static inline void golden_interleave(const struct golden_source *source, const char *pattern,
                                     float *out, size_t bytes) {
    const char *star = strchr(pattern, '*');
    for (int part = 0; part < 2; part++) {
        char name[128];
        snprintf(name, sizeof name, "%.*s%s%s", (int)(star - pattern), pattern,
                 part ? "up" : "gate", star + 1);
        const struct tensor_view *tensor = golden_tensor(source, name);
        assert_int_equal(2 * tensor->bytes, bytes);
        const float *in = tensor->data;
        if (tensor->n_dims == 2) {
            for (size_t i = 0; i < tensor->bytes / sizeof *in; i++)
                out[2 * i + (size_t)part] = in[i];
            continue;
        }
        const int64_t cols = tensor->dim[0], rows = tensor->dim[1];
        for (int64_t e = 0; e < tensor->dim[2]; e++)
            golden_transpose(out + 2 * e * rows * cols + part, in + e * rows * cols, rows, cols,
                             2 * rows, 2);
    }
}

// ---------------------------------------------------------------- names

// The GGUF name behind a name of the folder, and which expert it is of.
static inline enum golden_change golden_find_name(const struct golden_source *source,
                                                  const char *hf, char out[128], int *expert) {
    for (size_t i = 0; i < sizeof golden_global_names / sizeof *golden_global_names; i++)
        if (strcmp(hf, golden_global_names[i].hf) == 0) {
            snprintf(out, 128, "%s", golden_global_names[i].gguf);
            return GOLDEN_SAME;
        }
    int layer = -1, used = 0, digits = 0;
    if (sscanf(hf, "model.layers.%d.%n", &layer, &used) != 1 || !used)
        sscanf(hf, "transformer.h.%d.%n", &layer, &used);
    check(layer >= 0 && used > 0, "%s", hf);
    char rest[128];
    snprintf(rest, sizeof rest, "%s", hf + used);
    char *number = strstr(rest, ".experts.");
    if (number && sscanf(number += strlen(".experts."), "%d%n", expert, &digits) == 1) {
        number[0] = '*';
        memmove(number + 1, number + digits, strlen(number + digits) + 1);
    }
    for (size_t i = 0; i < sizeof golden_names / sizeof *golden_names; i++) {
        if (strcmp(rest, golden_names[i].hf) != 0) continue;
        snprintf(out, 128, "blk.%d.%s", layer, golden_names[i].gguf);
        if (strchr(out, '*') || weights_tensor_find(source->gguf, out))
            return golden_names[i].change;
    }
    fail_msg("%s: no tensor of the GGUF file fits", hf);
    return GOLDEN_SAME;
}

static inline void golden_fill(struct golden_source *source, const char *hf, uint8_t *bytes,
                               size_t size) {
    const size_t len = strlen(hf);
    if (source->norms.data && len > 11 && strcmp(hf + len - 11, "norm.weight") == 0) {
        assert_true(source->norms_used + size <= source->norms.size);
        memcpy(bytes, source->norms.data + source->norms_used, size);
        source->norms_used += size;
        return;
    }
    char name[128];
    int expert = 0;
    enum golden_change change = golden_find_name(source, hf, name, &expert);
    float *out = malloc(size); // tensors of the file lie at any address
    assert_non_null(out);
    if (change == GOLDEN_INTERLEAVED) {
        golden_interleave(source, name, out, size);
    } else {
        const struct tensor_view *tensor = golden_tensor(source, name);
        const float *in = tensor->data;
        const int64_t cols = tensor->dim[0], rows = tensor->dim[1], slices = tensor->dim[2];
        check(size * (size_t)(change == GOLDEN_EXPERT ? slices : 1) == tensor->bytes, "%s", hf);
        if (change == GOLDEN_TRANSPOSED) {
            for (int64_t i = 0; i < slices; i++)
                golden_transpose(out + i * rows * cols, in + i * rows * cols, rows, cols, rows, 1);
        } else if (source->paired && (change == GOLDEN_QUERY || change == GOLDEN_KEY)) {
            golden_unpair(out, in, rows, cols,
                          change == GOLDEN_QUERY ? source->n_head : source->n_head_kv);
        } else {
            memcpy(out, in + (change == GOLDEN_EXPERT ? expert * rows * cols : 0), size);
        }
    }
    memcpy(bytes, out, size);
    free(out);
}

// ---------------------------------------------------------------- files

static inline int64_t golden_meta(const struct weights *gguf, const char *arch, size_t arch_len,
                                  const char *key) {
    char name[128];
    int64_t value = 0;
    snprintf(name, sizeof name, "%.*s.%s", (int)arch_len, arch, key);
    const struct meta_view *meta = weights_meta_find(gguf, name);
    if (meta) assert_true(meta_get_i64(meta, &value));
    return value;
}

static inline void golden_source_read_meta(struct golden_source *source) {
    static const char *const paired[] = {"llama", "granite", "smollm3"};
    const char *arch;
    size_t len;
    const struct meta_view *meta = weights_meta_find(source->gguf, "general.architecture");
    assert_true(meta && meta_get_string(meta, &arch, &len));
    for (int i = 0; i < 3; i++)
        source->paired |= len == strlen(paired[i]) && memcmp(arch, paired[i], len) == 0;
    source->n_head = golden_meta(source->gguf, arch, len, "attention.head_count");
    source->n_head_kv = golden_meta(source->gguf, arch, len, "attention.head_count_kv");
}

// The data behind a header, whose tensors are in the order of their offsets.
static inline void golden_fill_all(struct golden_source *source, const json_t *header,
                                   uint8_t *data, size_t size) {
    const char *name;
    json_t *info;
    json_object_foreach((json_t *)header, name, info) {
        if (strcmp(name, "__metadata__") == 0) continue;
        const json_t *range = json_object_get(info, "data_offsets");
        const size_t from = (size_t)json_integer_value(json_array_get(range, 0));
        const size_t to = (size_t)json_integer_value(json_array_get(range, 1));
        assert_true(from <= to && to <= size);
        golden_fill(source, name, data + from, to - from);
    }
}

static inline size_t golden_data_bytes(const json_t *header) {
    size_t bytes = 0;
    const char *name;
    json_t *info;
    json_object_foreach((json_t *)header, name, info) {
        const json_t *end = json_array_get(json_object_get(info, "data_offsets"), 1);
        const size_t to = (size_t)json_integer_value(end);
        if (to > bytes) bytes = to;
    }
    return bytes;
}

// The model.safetensors of a reference model: carried, or rebuilt. The caller frees data.
static inline struct data_file golden_safetensors(const char *name) {
    char path[DATA_PATH_BYTES];
    rn_error err;
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.safetensors", name);
    const struct data_file carried = data_file_find(path);
    if (carried.data) return carried;
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.safetensors.header", name);
    const struct data_file text = data_file_read(path);
    json_t *header = json_loadb((const char *)text.data, text.size, 0, NULL);
    assert_non_null(header);
    struct weights *gguf;
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", name);
    check(weights_open(path, &gguf, &err) == RN_OK, "%s", err.message);
    struct golden_source source = {.gguf = gguf};
    golden_source_read_meta(&source);
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/norms.bin", name);
    source.norms = data_file_find(path);

    const size_t bytes = golden_data_bytes(header);
    struct data_file file = {.size = 8 + text.size + bytes};
    file.data = calloc(1, file.size);
    assert_non_null(file.data);
    for (int i = 0; i < 8; i++) file.data[i] = (uint8_t)(text.size >> 8 * i);
    memcpy(file.data + 8, text.data, text.size);
    golden_fill_all(&source, header, file.data + 8 + text.size, bytes);
    assert_int_equal(source.norms_used, source.norms.size);
    free(source.norms.data);
    weights_close(gguf);
    json_decref(header);
    free(text.data);
    return file;
}

// A folder with everything but the weights, in the model's own form.
static inline struct data_folder golden_folder_begin(const char *name, const char *tokenizer) {
    static const char *const own[] = {"config.json", "generation_config.json"};
    static const char *const shared[] = {"tokenizer.json", "tokenizer_config.json",
                                         "tokenizer.model"};
    char path[DATA_PATH_BYTES];
    const struct data_folder folder = data_folder_make();
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, TEST_DATA "/golden/%s/%s", name, own[i]);
        check(data_file_copy(path, folder.path, own[i]), "%s", path);
    }
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, TEST_DATA "/golden/tokenizers/%s/%s", tokenizer, shared[i]);
        const bool there = data_file_copy(path, folder.path, shared[i]);
        check(there || i == 2, "%s", path); // not every one has a tokenizer.model
    }
    return folder;
}

static inline struct data_folder golden_folder_make(const char *name, const char *tokenizer) {
    const struct data_folder folder = golden_folder_begin(name, tokenizer);
    const struct data_file file = golden_safetensors(name);
    data_file_write(folder.path, "model.safetensors", file.data, file.size);
    free(file.data);
    return folder;
}

#endif

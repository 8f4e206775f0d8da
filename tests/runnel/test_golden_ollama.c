// gpt-oss in the form of Ollama's converter, made of the reference model: the same logits and
// tokens as from llama.cpp's form.
#include "golden.h"

#include "gguf_copy.h"

#define OLLAMA "gptoss"

// The copy's name of a tensor or a key; `out` has room.
static const char *tensor_name(const char *name, char out[128]) {
    static const char *const endings[][2] = {
        {".attn_output.weight", ".attn_out.weight"},
        {".attn_output.bias", ".attn_out.bias"},
        {".attn_sinks.weight", ".attn_sinks"},
        {".post_attention_norm.weight", ".ffn_norm.weight"},
    };
    const size_t len = strlen(name);
    for (size_t i = 0; i < 4; i++) {
        const size_t end = strlen(endings[i][0]);
        if (len < end || strcmp(name + len - end, endings[i][0]) != 0) continue;
        snprintf(out, 128, "%.*s%s", (int)(len - end), name, endings[i][1]);
        return out;
    }
    return name;
}

// with_type: the kind of the rope's scaling is told, as later files do.
static void keys_copy(struct writer *w, const struct weights *weights, bool with_type) {
    char name[128];
    for (int i = 0; i < weights_meta_count(weights); i++) {
        struct meta_view meta = *weights_meta_at(weights, i);
        const char *own = strncmp(meta.key, "gpt-oss.", 8) == 0 ? meta.key + 8 : NULL;
        if (!strcmp(meta.key, "general.architecture") || !strcmp(meta.key, "tokenizer.ggml.pre"))
            continue;
        if (own && (!strcmp(own, "expert_feed_forward_length") ||
                    (!strcmp(own, "rope.scaling.type") && !with_type)))
            continue;
        if (own) {
            snprintf(name, sizeof name, OLLAMA ".%s", own);
            meta.key = name;
        }
        writer_kv_copy(w, &meta);
    }
    writer_kv_str(w, "general.architecture", OLLAMA);
    if (with_type) writer_kv_str(w, "tokenizer.ggml.pre", "default");
}

// q, k and v of a layer, one after another; `kind` is "weight" or "bias".
static void qkv_copy(struct writer *w, const struct weights *weights, int layer, const char *kind) {
    static const char *const parts[] = {"q", "k", "v"};
    struct writer_buffer all = {0};
    uint64_t dim[2] = {0};
    char name[64];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "blk.%d.attn_%s.%s", layer, parts[i], kind);
        const struct tensor_view *tensor = weights_tensor_find(weights, name);
        assert_true(tensor && tensor->format == FORMAT_F32);
        writer_put(&all, tensor->data, tensor->bytes);
        dim[0] = tensor->n_dims == 2 ? (uint64_t)tensor->dim[0] : all.size / sizeof(float);
        dim[1] = all.size / sizeof(float) / dim[0];
    }
    snprintf(name, sizeof name, "blk.%d.attn_qkv.%s", layer, kind);
    writer_tensor(w, name, dim[1] > 1 ? 2 : 1, dim, 0, all.data, all.size);
    free(all.data);
}

// Whether the tensor is q, k or v of a layer; q's is then written for all three.
static bool qkv_take(struct writer *w, const struct weights *weights, const char *name) {
    int layer;
    char part, kind[8];
    if (sscanf(name, "blk.%d.attn_%c.%7s", &layer, &part, kind) != 3 || !strchr("qkv", part))
        return false;
    if (part == 'q') qkv_copy(w, weights, layer, kind);
    return true;
}

// later: as its files are now, with q, k and v in one tensor. fused: as the first files have the
// experts, which are refused.
static uint8_t *copy_make(const struct golden *g, bool later, bool fused, size_t *size) {
    char path[DATA_PATH_BYTES], name[128];
    struct weights *weights;
    rn_error err = {0};
    snprintf(path, sizeof path, TEST_DATA "/golden/%s/model.gguf", g->name);
    const struct data_file file = data_file_read(path);
    check(!weights_open_memory("m.gguf", file.data, file.size, &weights, &err), "%s", err.message);
    struct writer w = writer_begin(3);
    keys_copy(&w, weights, later);
    for (int i = 0; i < weights_tensor_count(weights); i++) {
        const struct tensor_view *tensor = weights_tensor_at(weights, i);
        if (later && qkv_take(&w, weights, tensor->name)) continue;
        uint64_t dim[WEIGHTS_MAX_DIMS];
        for (int d = 0; d < tensor->n_dims; d++) dim[d] = (uint64_t)tensor->dim[d];
        const bool is_gate = fused && !strcmp(tensor->name, "blk.0.ffn_gate_exps.weight");
        writer_tensor(&w,
                      is_gate ? "blk.0.ffn_gate_up_exps.weight" : tensor_name(tensor->name, name),
                      (uint32_t)tensor->n_dims, dim, format_at(tensor->format)->gguf_type,
                      tensor->data, tensor->bytes);
    }
    weights_close(weights);
    free(file.data);
    return writer_finish(&w, size);
}

static int32_t *words(const rn_model *model, size_t *n) {
    static const char text[] = "It's THE helloWorld, 12345 times\n";
    int32_t *ids;
    assert_int_equal(rn_tokenize(model, text, strlen(text), 0, &ids, n, NULL), RN_OK);
    return ids;
}

CASE(a_file_of_ollama_equals_the_reference) {
    for (int later = 0; later <= 1; later++) {
        struct golden g = golden_load("gptoss");
        size_t size, n_own, n_copy;
        rn_error err = {0};
        golden_open_gguf(&g);
        int32_t *own = words(g.model, &n_own);
        rn_model_close(g.model);
        uint8_t *image = copy_make(&g, later, false, &size);
        check(!rn_model_open_memory("copy", image, size, &g.model, &err), "%s", err.message);
        assert_string_equal(rn_model_get_info(g.model)->architecture, "gpt-oss");
        int32_t *copy = words(g.model, &n_copy);
        assert_int_equal(n_own, n_copy);
        assert_memory_equal(own, copy, n_own * sizeof *own);
        golden_check_reference(&g, "Ollama's form");
        golden_unload(&g);
        rn_free(own);
        rn_free(copy);
        free(image);
    }
}

CASE(the_form_of_its_first_files_is_refused_with_what_to_do) {
    struct golden g = golden_load("gptoss");
    size_t size;
    rn_model *model;
    rn_error err = {0};
    uint8_t *image = copy_make(&g, false, true, &size);
    assert_int_equal(rn_model_open_memory("m.gguf", image, size, &model, &err), RN_ERR_UNSUPPORTED);
    check(strstr(err.message, "tensor blk.0.ffn_gate_up_exps.weight: Ollama wrote gpt-oss so at "
                              "first: 'ollama pull' brings"),
          "%s", err.message);
    free(image);
    golden_unload(&g);
}

TEST_PROGRAM(golden_ollama) { return cases_run(NULL, NULL); }

// Writes a GGUF model again with its matrices in other formats, encoded by src/quant. Metadata and
// the order of tensors stay; general.file_type becomes the form's.
//   convert_model IN FORM OUT    FORM is f16 or q4_k_m
// The build makes those forms of the embedded models that the repository does not have.
#define PROGRAM "convert_model"
#include "die.h"

#include "../gguf_copy.h"

// A form is a format for most matrices. The head and half of two matrices may have another.
struct form {
    const char *name;
    uint32_t file_type; // as llama.cpp numbers the forms
    enum format_id base, better;
};

static const struct form forms[] = {
    {"f16", 1, FORMAT_F16, FORMAT_F16},
    {"q4_k_m", 15, FORMAT_Q4_K, FORMAT_Q6_K},
};

static const struct form *form_find(const char *name) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (!strcmp(forms[i].name, name)) return &forms[i];
    die("%s is no form: f16 or q4_k_m", name);
}

// ---------------------------------------------------------------- formats

static int layer_count(const struct weights *model) {
    int layer, n = 0;
    for (int i = 0; i < weights_tensor_count(model); i++)
        if (sscanf(weights_tensor_at(model, i)->name, "blk.%d.", &layer) == 1 && layer >= n)
            n = layer + 1;
    return n;
}

// llama.cpp's choice: the first and the last eighth of the layers, and every third between them.
static bool layer_is_better(int layer, int n) {
    return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
}

static enum format_id tensor_format(const struct form *form, const struct tensor_view *tensor,
                                    int n_layer) {
    int layer;
    if (tensor->n_dims < 2) return tensor->format;
    if (!strcmp(tensor->name, "token_embd.weight")) return form->better; // the head, too
    const bool is_open = strstr(tensor->name, ".attn_v.") || strstr(tensor->name, ".ffn_down.");
    if (is_open && sscanf(tensor->name, "blk.%d.", &layer) == 1 && layer_is_better(layer, n_layer))
        return form->better;
    return form->base;
}

// ---------------------------------------------------------------- writing

static void put_tensor(struct writer *writer, const struct weights *model,
                       const struct tensor_view *tensor, enum format_id format) {
    uint64_t dims[WEIGHTS_MAX_DIMS];
    int64_t rows = 1;
    for (int i = 0; i < tensor->n_dims; i++) dims[i] = (uint64_t)tensor->dim[i];
    for (int i = 1; i < tensor->n_dims; i++) rows *= tensor->dim[i];
    const uint64_t from = format_row_bytes(tensor->format, tensor->dim[0]);
    const uint64_t to = format_row_bytes(format, tensor->dim[0]);
    float *values = must(malloc((size_t)tensor->dim[0] * sizeof *values));
    uint8_t *out = must(malloc((size_t)rows * to)), *in = must(malloc(tensor->bytes));
    const void *at;
    rn_error err;
    if (weights_read(model, tensor->data, tensor->bytes, in, &at, &err)) die("%s", err.message);
    for (int64_t i = 0; i < rows; i++) {
        format_decode(tensor->format, (const uint8_t *)at + (uint64_t)i * from, values,
                      tensor->dim[0]);
        format_encode(format, values, out + (uint64_t)i * to, tensor->dim[0]);
    }
    writer_tensor(writer, tensor->name, (uint32_t)tensor->n_dims, dims,
                  format_at(format)->gguf_type, out, (size_t)rows * to);
    free(in);
    free(out);
    free(values);
}

static void put_metas(struct writer *writer, const struct weights *model, const struct form *form) {
    for (int i = 0; i < weights_meta_count(model); i++) {
        const struct meta_view *meta = weights_meta_at(model, i);
        if (!strcmp(meta->key, "general.file_type"))
            writer_kv_u32(writer, meta->key, form->file_type);
        else
            writer_kv_copy(writer, meta);
    }
}

int main(int argc, char **argv) {
    if (argc != 4) die("usage: convert_model IN FORM OUT");
    const struct form *form = form_find(argv[2]);
    struct weights *model;
    rn_error err;
    if (weights_open(argv[1], &model, &err)) die("%s", err.message);
    struct writer writer = writer_begin(3);
    const int n_layer = layer_count(model);
    put_metas(&writer, model, form);
    for (int i = 0; i < weights_tensor_count(model); i++) {
        const struct tensor_view *tensor = weights_tensor_at(model, i);
        put_tensor(&writer, model, tensor, tensor_format(form, tensor, n_layer));
    }
    size_t size;
    uint8_t *image = writer_finish(&writer, &size);
    file_write(argv[3], image, size);
    free(image);
    weights_close(model);
    return 0;
}

// Writes a llama of random f16 weights for the scripts: `gguf_make FILE LAYERS` gives about 26 MB a
// layer. Its head is its embedding, whose number of rows is odd. The largest tensor has 6291456
// bytes. `gguf_make FILE LAYERS WIDTH` gives the width instead of 1024, and the weights are a hole
// in the file: a terabyte takes no room.
#define _FILE_OFFSET_BITS 64
#include <stdio.h>
#include <unistd.h>

#include "../gguf_writer.h"

enum { EMBD = 1024, VOCAB = 2003, ALIGN = 32, MAX_TENSORS = 1024 };

struct maker {
    struct writer writer;
    uint64_t width;
    uint64_t offset;
    uint64_t count[MAX_TENSORS]; // elements
    int type[MAX_TENSORS];       // 0: f32, 1: f16
    int n;
};

static void put_keys(struct writer *w, uint32_t width, int layers) {
    static const char *const keys[] = {"llama.embedding_length", "llama.feed_forward_length",
                                       "llama.attention.head_count", "llama.context_length"};
    const uint32_t values[] = {width, 3 * width, width / 64, 4096};
    writer_kv_str(w, "general.architecture", "llama");
    writer_kv_u32(w, "llama.block_count", (uint32_t)layers);
    for (int i = 0; i < 4; i++) writer_kv_u32(w, keys[i], values[i]);
    writer_kv_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    writer_kv_str(w, "tokenizer.ggml.model", "gpt2");
    writer_kv_str(w, "tokenizer.ggml.pre", "gpt-2");
    writer_kv_array(w, "tokenizer.ggml.tokens", WRITER_STRING, VOCAB);
    for (int i = 0; i < VOCAB; i++) { // printable characters, one merge, words
        char text[16];
        if (i < 94) snprintf(text, sizeof text, "%c", 33 + i);
        if (i == 94) snprintf(text, sizeof text, "xy");
        if (i > 94) snprintf(text, sizeof text, "w%04d", i);
        writer_put_string(&w->kv, text, strlen(text));
    }
    writer_kv_str_array(w, "tokenizer.ggml.merges", (const char *const[]){"x y"}, 1);
    writer_kv_u32(w, "tokenizer.ggml.bos_token_id", 0);
    writer_kv_u32(w, "tokenizer.ggml.eos_token_id", 1);
}

static void add(struct maker *m, int layer, const char *name, uint64_t cols, uint64_t rows) {
    const uint64_t dims[] = {cols, rows};
    const int type = rows > 1;
    char full[64];
    if (layer < 0) snprintf(full, sizeof full, "%s.weight", name);
    if (layer >= 0) snprintf(full, sizeof full, "blk.%d.%s.weight", layer, name);
    writer_tensor_raw(&m->writer, full, strlen(full), rows > 1 ? 2 : 1, dims, (uint32_t)type,
                      m->offset);
    m->count[m->n] = cols * rows;
    m->type[m->n++] = type;
    m->offset += (cols * rows * (type ? 2 : 4) + ALIGN - 1) / ALIGN * ALIGN;
}

static void add_layer(struct maker *m, int layer) {
    const uint64_t n = m->width;
    add(m, layer, "attn_norm", n, 1);
    add(m, layer, "attn_q", n, n);
    add(m, layer, "attn_k", n, n);
    add(m, layer, "attn_v", n, n);
    add(m, layer, "attn_output", n, n);
    add(m, layer, "ffn_norm", n, 1);
    add(m, layer, "ffn_gate", n, 3 * n);
    add(m, layer, "ffn_up", n, 3 * n);
    add(m, layer, "ffn_down", 3 * n, n);
}

// Norms are 1; the rest is between 1/64 and 1/32 in size.
static void write_values(FILE *file, uint64_t count, int type, uint64_t *state) {
    static const float one = 1;
    for (uint64_t i = 0; i < count; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        const uint32_t random = (uint32_t)(*state >> 32);
        const uint16_t half = (uint16_t)(random >> 31 << 15 | 9 << 10 | (random & 0x3ff));
        fwrite(type ? (const void *)&half : (const void *)&one, type ? 2 : 4, 1, file);
    }
    while (ftell(file) % ALIGN) fputc(0, file);
}

static int usage(void) {
    fputs("usage: gguf_make FILE LAYERS [WIDTH]\n", stderr);
    return 125;
}

int main(int argc, char **argv) {
    struct maker m = {.writer = writer_begin(3), .width = EMBD};
    const bool is_hole = argc == 4;
    const int layers = argc == 3 || is_hole ? atoi(argv[2]) : 0;
    if (is_hole) m.width = (uint64_t)atoi(argv[3]);
    if (layers < 1 || layers > 100 || m.width < 64 || m.width > 65536) return usage();
    put_keys(&m.writer, (uint32_t)m.width, layers);
    add(&m, -1, "token_embd", m.width, VOCAB);
    add(&m, -1, "output_norm", m.width, 1);
    for (int layer = 0; layer < layers; layer++) add_layer(&m, layer);
    size_t size;
    uint64_t state = 1;
    uint8_t *header = writer_finish(&m.writer, &size);
    FILE *file = fopen(argv[1], "wb");
    if (!file) {
        perror(argv[1]);
        return 125;
    }
    fwrite(header, 1, size, file);
    free(header);
    while (ftell(file) % ALIGN) fputc(0, file);
    for (int i = 0; i < m.n && !is_hole; i++) write_values(file, m.count[i], m.type[i], &state);
    const off_t start = ftello(file);
    if (is_hole && (fflush(file) || ftruncate(fileno(file), start + (off_t)m.offset))) return 125;
    return fclose(file) == 0 ? 0 : 125;
}

// Synthetic models: which shapes and formats there are, and the keys and tensors of one, laid out
// as a GGUF file would have them. Owns one anonymous mapping that stands in for the file, so that
// closing is weights_close. The values are synthetic_fill.c's. Called by runnel.c for the bench.
#define _GNU_SOURCE 1
#include "weights/synthetic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "weights/store.h"

enum { N_CTX = 131072, TENSOR_ALIGN = 64, HUGE_BYTES = 2 << 20, N_BYTE_TOKENS = 256 };

// ---------------------------------------------------------------- shapes

enum shape_flag {
    SHAPE_TIED = 1,    // the head is the embedding
    SHAPE_QK_NORM = 2, // q and k are normed head by head
    SHAPE_OSS = 4,     // gpt-oss: biases, sinks, a window, yarn
    SHAPE_HIDDEN = 8,  // for tests and measurements, in no list
    SHAPE_DELTA = 16,  // Qwen 3.5: see struct delta
    SHAPE_4 = 32,      // Gemma 4: see struct gemma
    SHAPE_LATENT = 64, // DeepSeek, GLM-4.7-Flash: see struct latent
    SHAPE_GEMMA = SHAPE_4 | SHAPE_TIED | SHAPE_QK_NORM,
};

struct shape {
    const char *name, *arch;
    int n_layer, n_embd, n_ff, n_head, n_head_kv, head_dim, n_vocab;
    int flags;
    float rope_base;
    int n_expert, n_expert_used; // n_ff is the width of one expert then
};

// The models that people have: SmolLM2, Llama 2, 3, 3.1 and 3.2, Mistral, Mixtral, Qwen 3, 3.5 and
// 3.6, LFM2, Nemotron Nano 2, Granite 4, Gemma 4, gpt-oss, DeepSeek V2 Lite, GLM-4.7-Flash. One is
// the first layers of a model alone, for machines that the whole does not fit.
// The tiny ones are for tests; the rates of kernels are measured on matrices of "probe".
static const struct shape shapes[] = {
    {"135m", "llama", 30, 576, 1536, 9, 3, 64, 49152, SHAPE_TIED, 1e5f, 0, 0},
    {"360m", "llama", 32, 960, 2560, 15, 5, 64, 49152, SHAPE_TIED, 1e5f, 0, 0},
    {"0.6b", "qwen3", 28, 1024, 3072, 16, 8, 128, 151936, SHAPE_TIED | SHAPE_QK_NORM, 1e6f, 0, 0},
    {"1b", "llama", 16, 2048, 8192, 32, 8, 64, 128256, SHAPE_TIED, 5e5f, 0, 0},
    {"1.7b", "qwen3", 28, 2048, 6144, 16, 8, 128, 151936, SHAPE_TIED | SHAPE_QK_NORM, 1e6f, 0, 0},
    {"3b", "llama", 28, 3072, 8192, 24, 8, 128, 128256, SHAPE_TIED, 5e5f, 0, 0},
    {"4b", "qwen3", 36, 2560, 9728, 32, 8, 128, 151936, SHAPE_TIED | SHAPE_QK_NORM, 1e6f, 0, 0},
    {"7b", "llama", 32, 4096, 14336, 32, 8, 128, 32768, 0, 1e6f, 0, 0},
    {"8b", "llama", 32, 4096, 14336, 32, 8, 128, 128256, 0, 5e5f, 0, 0},
    {"13b", "llama", 40, 5120, 13824, 40, 40, 128, 32000, 0, 1e4f, 0, 0},
    {"14b", "qwen3", 40, 5120, 17408, 40, 8, 128, 151936, SHAPE_QK_NORM, 1e6f, 0, 0},
    {"32b", "qwen3", 64, 5120, 25600, 64, 8, 128, 151936, SHAPE_QK_NORM, 1e6f, 0, 0},
    {"70b", "llama", 80, 8192, 28672, 64, 8, 128, 128256, 0, 5e5f, 0, 0},
    {"405b", "llama", 126, 16384, 53248, 128, 8, 128, 128256, 0, 5e5f, 0, 0},
    {"mixtral-8x7b", "llama", 32, 4096, 14336, 32, 8, 128, 32000, 0, 1e6f, 8, 2},
    {"qwen3-30b-a3b", "qwen3moe", 48, 2048, 768, 32, 4, 128, 151936, SHAPE_QK_NORM, 1e6f, 128, 8},
    {"qwen3-235b-a22b", "qwen3moe", 94, 4096, 1536, 64, 4, 128, 151936, SHAPE_QK_NORM, 1e6f, 128,
     8},
    {"qwen3.5-4b", "qwen35", 32, 2560, 9216, 16, 4, 256, 248320,
     SHAPE_TIED | SHAPE_QK_NORM | SHAPE_DELTA, 1e7f, 0, 0},
    {"qwen3.5-27b", "qwen35", 64, 5120, 17408, 24, 4, 256, 248320, SHAPE_QK_NORM | SHAPE_DELTA,
     1e7f, 0, 0},
    {"qwen3.6-35b-a3b", "qwen35moe", 40, 2048, 512, 16, 2, 256, 248320, SHAPE_QK_NORM | SHAPE_DELTA,
     1e7f, 256, 8},
    {"lfm2-1.2b", "lfm2", 16, 2048, 8192, 32, 8, 64, 65536, SHAPE_TIED | SHAPE_QK_NORM, 1e6f, 0, 0},
    {"nemotron-nano-9b", "nemotron_h", 56, 4480, 15680, 40, 8, 128, 131072, 0, 1e4f, 0, 0},
    {"granite4-h-tiny", "granitehybrid", 40, 1536, 512, 12, 4, 128, 100352, SHAPE_TIED, 1e4f, 64,
     6},
    {"gemma4-e2b", "gemma4", 35, 1536, 6144, 8, 1, 256, 262144, SHAPE_GEMMA, 1e6f, 0, 0},
    {"gemma4-e4b", "gemma4", 42, 2560, 10240, 8, 2, 256, 262144, SHAPE_GEMMA, 1e6f, 0, 0},
    {"gemma4-26b-a4b", "gemma4", 30, 2816, 704, 16, 8, 256, 262144, SHAPE_GEMMA, 1e6f, 128, 8},
    {"gemma4-31b", "gemma4", 60, 5376, 21504, 32, 16, 256, 262144, SHAPE_GEMMA, 1e6f, 0, 0},
    {"deepseek-v2-lite", "deepseek2", 27, 2048, 1408, 16, 1, 576, 102400, SHAPE_LATENT, 1e4f, 64,
     6},
    {"glm-4.7-flash", "deepseek2", 47, 2048, 1536, 20, 1, 576, 154880, SHAPE_LATENT, 1e6f, 64, 4},
    {"glm-4.7-flash-12l", "deepseek2", 12, 2048, 1536, 20, 1, 576, 154880, SHAPE_LATENT, 1e6f, 64,
     4},
    {"gpt-oss-20b", "gpt-oss", 24, 2880, 2880, 64, 8, 64, 201088, SHAPE_OSS, 1.5e5f, 32, 4},
    {"gpt-oss-120b", "gpt-oss", 36, 2880, 2880, 64, 8, 64, 201088, SHAPE_OSS, 1.5e5f, 128, 4},
    {"probe", "llama", 1, 2048, 4096, 4, 1, 64, 384, SHAPE_TIED | SHAPE_HIDDEN, 1e4f, 0, 0},
    {"tiny", "llama", 2, 256, 512, 4, 2, 64, 384, SHAPE_TIED | SHAPE_HIDDEN, 1e4f, 0, 0},
    {"tiny-moe", "qwen3moe", 2, 256, 256, 4, 2, 64, 384, SHAPE_QK_NORM | SHAPE_HIDDEN, 1e4f, 8, 2},
    {"tiny-oss", "gpt-oss", 2, 288, 288, 4, 2, 64, 384, SHAPE_OSS | SHAPE_HIDDEN, 1e4f, 4, 2},
    {"tiny-delta", "qwen35moe", 4, 256, 256, 4, 2, 64, 384,
     SHAPE_QK_NORM | SHAPE_DELTA | SHAPE_HIDDEN, 1e4f, 8, 2},
    {"tiny-nemotron", "nemotron_h", 4, 256, 512, 4, 2, 64, 384, SHAPE_HIDDEN, 1e4f, 0, 0},
    {"tiny-granite", "granitehybrid", 3, 256, 256, 4, 2, 64, 384, SHAPE_TIED | SHAPE_HIDDEN, 1e4f,
     8, 2},
    {"tiny-gemma4", "gemma4", 6, 256, 256, 4, 2, 32, 384, SHAPE_GEMMA | SHAPE_HIDDEN, 1e4f, 4, 2},
    {"tiny-latent", "deepseek2", 3, 256, 256, 4, 1, 160, 384, SHAPE_LATENT | SHAPE_HIDDEN, 1e4f, 8,
     2},
    {"tiny-lfm2", "lfm2", 3, 256, 512, 4, 2, 64, 384, SHAPE_TIED | SHAPE_QK_NORM | SHAPE_HIDDEN,
     1e4f, 0, 0},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

// Attention over a latent: head_dim of the shape is the latent and the rotated part. The first
// layer is dense; the others have experts, and a shared one as wide as several.
enum { LATENT_ROT = 64, TINY_ROT = 32 };
struct latent {
    const char *shape;
    int n_q;         // rank of the queries; 0: they have one matrix
    int nope, value; // of a head
    int n_ff;        // of the dense layer
    int n_shared;
    float scale; // of the experts' weights, by sigmoids; 0: by a softmax, and yarn for positions
    bool has_block;
};

static const struct latent latents[] = {
    {"deepseek-v2-lite", 0, 128, 128, 10944, 2, 0, false},
    {"glm-4.7-flash", 768, 192, 256, 10240, 1, 1.8f, true},
    {"glm-4.7-flash-12l", 768, 192, 256, 10240, 1, 1.8f, true},
    {"tiny-latent", 96, 64, 64, 512, 1, 2, true},
};

static const struct latent *latent_of(const struct shape *shape) {
    const struct latent *latent = latents;
    if (!(shape->flags & SHAPE_LATENT)) return NULL;
    while (strcmp(latent->shape, shape->name) != 0) latent++; // every shape with the flag has a row
    return latent;
}

static int latent_rotated(const struct shape *shape) {
    return shape->flags & SHAPE_HIDDEN ? TINY_ROT : LATENT_ROT;
}

// Layers with a state, all but each DELTA_INTERVAL-th. The other layers have gated attention that
// rotates a quarter of a head. The shared expert is as wide as the others.
enum { DELTA_INTERVAL = 4, DELTA_TAPS = 4 };
struct delta {
    const char *shape;
    int n_key, n_value, dim; // heads of keys and of values, and their size
};

static const struct delta deltas[] = {
    {"qwen3.5-4b", 16, 32, 128},
    {"qwen3.5-27b", 16, 48, 128},
    {"qwen3.6-35b-a3b", 16, 32, 128},
    {"tiny-delta", 2, 4, 32},
};

static const struct delta *delta_of(const struct shape *shape) {
    const struct delta *delta = deltas;
    if (!(shape->flags & SHAPE_DELTA)) return NULL;
    while (strcmp(delta->shape, shape->name) != 0) delta++; // every shape with the flag has a row
    return delta;
}

// Layers with a window, all but each period-th. The others have heads of twice the size. The last
// `shared` layers have no keys and values.
struct gemma {
    const char *shape;
    int window, period, shared;
    int full_kv;    // KV heads of layers without a window
    bool k_is_v;    // these have no attn_v
    bool is_double; // layers without keys have twice the feed-forward
    int n_input;    // width of a layer's own input; 0: none
    int n_ff;       // of the feed-forward beside experts
};

static const struct gemma gemmas[] = {
    {"gemma4-e2b", 512, 5, 20, 1, false, true, 256, 0},
    {"gemma4-e4b", 512, 6, 18, 2, false, false, 256, 0},
    {"gemma4-26b-a4b", 1024, 6, 0, 2, true, false, 0, 2112},
    {"gemma4-31b", 1024, 6, 0, 4, true, false, 0, 0},
    {"tiny-gemma4", 32, 3, 2, 1, true, true, 32, 128},
};

static const struct gemma *gemma_of(const struct shape *shape) {
    const struct gemma *gemma = gemmas;
    if (!(shape->flags & SHAPE_4)) return NULL;
    while (strcmp(gemma->shape, shape->name) != 0) gemma++; // every shape with the flag has a row
    return gemma;
}

static bool is_windowed(const struct gemma *g, int layer) { return (layer + 1) % g->period != 0; }

// Shapes whose layers differ, with a letter for each layer: M is Mamba-2, C a short convolution, *
// attention, - a feed-forward. Where some layer is a feed-forward alone, the others have none.
struct pattern {
    const char *shape, *layers;
    int taps;
    int n_state, n_group, n_head, dim; // of Mamba-2
    int n_ff_shared;                   // width of the expert of all tokens; 0: none
};

static const struct pattern patterns[] = {
    {"lfm2-1.2b", "CC*CC*CC*C*C*C*C", 3, 0, 0, 0, 0, 0},
    {"nemotron-nano-9b", "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-", 4, 128, 8, 128,
     80, 0},
    {"granite4-h-tiny", "MMMMM*MMMMMMMMM*MMMMMMMMM*MMMMMMMMM*MMMM", 4, 128, 1, 48, 64, 1024},
    {"tiny-nemotron", "M*-M", 4, 32, 2, 8, 32, 0},
    {"tiny-granite", "M*M", 4, 32, 1, 8, 64, 128},
    {"tiny-lfm2", "C*C", 3, 0, 0, 0, 0, 0},
};

// NULL: all layers are alike.
static const struct pattern *pattern_of(const struct shape *shape) {
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(patterns[i].shape, shape->name) == 0) return &patterns[i];
    return NULL;
}

static bool is_single(const struct pattern *p) { return strchr(p->layers, '-') != NULL; }

// ---------------------------------------------------------------- formats

// Which layers of a model a rule of a mix is for.
enum where {
    NOWHERE,
    EVERYWHERE,
    FIRST_2,
    FIRST_4,
    FIRST_16TH, // of the layers
    FIRST_8TH,
    HALF,    // the first and the last eighth, and every third between them
    GROUPED, // everywhere, where 4 query heads and more share a KV head
};

struct rule {
    enum where where;
    enum format_id format;
};
enum { MAX_RULES = 2 };

// A mix is a format for most matrices, and rules for the matrices that lose most by few bits; the
// first rule that fits applies. These are llama.cpp's mixes, without its exceptions for single
// models (8 experts, 70B).
struct mix {
    const char *name;
    enum format_id base;
    struct rule head; // a tied one is the embedding
    struct rule attn_v[MAX_RULES], attn_output, ffn_down[MAX_RULES];
    struct rule experts;
};

static const struct mix mixes[] = {
    {.name = "Q2_K_S",
     .base = FORMAT_Q2_K,
     .head = {EVERYWHERE, FORMAT_Q6_K},
     .attn_v = {{GROUPED, FORMAT_Q4_K}},
     .ffn_down = {{FIRST_8TH, FORMAT_Q4_K}}},
    {.name = "Q3_K_S", .base = FORMAT_Q3_K, .head = {EVERYWHERE, FORMAT_Q6_K}},
    {.name = "Q3_K_M",
     .base = FORMAT_Q3_K,
     .head = {EVERYWHERE, FORMAT_Q6_K},
     .attn_v = {{FIRST_2, FORMAT_Q5_K}, {EVERYWHERE, FORMAT_Q4_K}},
     .attn_output = {EVERYWHERE, FORMAT_Q4_K},
     .ffn_down = {{FIRST_16TH, FORMAT_Q5_K}, {EVERYWHERE, FORMAT_Q4_K}}},
    {.name = "Q3_K_L",
     .base = FORMAT_Q3_K,
     .head = {EVERYWHERE, FORMAT_Q6_K},
     .attn_v = {{EVERYWHERE, FORMAT_Q5_K}},
     .attn_output = {EVERYWHERE, FORMAT_Q5_K},
     .ffn_down = {{EVERYWHERE, FORMAT_Q5_K}}},
    {.name = "Q4_K_S",
     .base = FORMAT_Q4_K,
     .head = {EVERYWHERE, FORMAT_Q6_K},
     .attn_v = {{FIRST_4, FORMAT_Q5_K}},
     .ffn_down = {{FIRST_8TH, FORMAT_Q5_K}}},
    {.name = "Q4_K_M",
     .base = FORMAT_Q4_K,
     .head = {EVERYWHERE, FORMAT_Q6_K},
     .attn_v = {{HALF, FORMAT_Q6_K}},
     .ffn_down = {{HALF, FORMAT_Q6_K}}},
    {.name = "Q5_K_S", .base = FORMAT_Q5_K, .head = {EVERYWHERE, FORMAT_Q6_K}},
    {.name = "Q5_K_M",
     .base = FORMAT_Q5_K,
     .head = {EVERYWHERE, FORMAT_Q6_K},
     .attn_v = {{HALF, FORMAT_Q6_K}},
     .ffn_down = {{HALF, FORMAT_Q6_K}}},
    {.name = "MXFP4_MOE", .base = FORMAT_Q8_0, .experts = {EVERYWHERE, FORMAT_MXFP4}},
};
enum { N_MIXES = sizeof mixes / sizeof *mixes };

// Where a matrix is: its layer, -1 outside of them, and the facts of the model that rules ask for.
struct spot {
    int layer, n_layer;
    int queries; // heads that share a KV head
};

static bool rule_applies(enum where where, const struct spot *spot) {
    const int n = spot->n_layer, layer = spot->layer;
    switch (where) {
    case EVERYWHERE:
        return true;
    case FIRST_2:
        return layer < 2;
    case FIRST_4:
        return layer < 4;
    case FIRST_16TH:
        return layer < n / 16;
    case FIRST_8TH:
        return layer < n / 8;
    case HALF:
        return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
    case GROUPED:
        return spot->queries >= 4;
    default:
        return false;
    }
}

// The format of the first rule that applies, or the base.
static enum format_id rules_choose(enum format_id base, const struct rule *rules, int n_rules,
                                   const struct spot *spot) {
    enum format_id format = base;
    for (int i = n_rules - 1; i >= 0; i--)
        if (rule_applies(rules[i].where, spot)) format = rules[i].format;
    return format;
}

// What llama.cpp takes for rows that are not whole blocks of the format.
static enum format_id format_fit(enum format_id format, int64_t cols) {
    if (cols % format_at(format)->block == 0) return format;
    if (cols % format_at(FORMAT_Q8_0)->block != 0) return FORMAT_F16;
    switch (format) {
    case FORMAT_Q4_K:
        return FORMAT_Q5_0;
    case FORMAT_Q5_K:
        return FORMAT_Q5_1;
    case FORMAT_Q6_K:
        return FORMAT_Q8_0;
    default:
        return FORMAT_IQ4_NL;
    }
}

// ---------------------------------------------------------------- making one

// The model in the making. The first error is kept in status and stops the rest.
struct maker {
    struct weights *weights;
    const struct shape *shape;
    struct mix mix; // a plain format is one without rules: every matrix has it
    int layer;
    uint64_t bytes; // of the tensors so far
    rn_status status;
    rn_error *err;
};

static void no_memory(struct maker *m) {
    m->status = err_set(m->err, RN_ERR_NOMEM, "%s: out of memory", m->weights->name);
}

static void put(struct maker *m, struct meta_view meta, const void *data) {
    if (m->status) return;
    struct arena *arena = &m->weights->arena;
    void *copy = arena_alloc(arena, (size_t)meta.bytes);
    const char *key = arena_strdup(arena, meta.key, strlen(meta.key));
    struct meta_view *slot = copy && key ? store_meta_push(&m->weights->metas) : NULL;
    if (!slot) {
        no_memory(m);
        return;
    }
    memcpy(copy, data, (size_t)meta.bytes);
    meta.key = key;
    meta.data = copy;
    *slot = meta;
}

static void put_string(struct maker *m, const char *key, const char *value) {
    const size_t len = strlen(value);
    put(m, (struct meta_view){.key = key, .type = META_STRING, .count = len, .bytes = len}, value);
}

// Under "<arch>.<suffix>".
static void put_number(struct maker *m, const char *suffix, enum meta_type type,
                       const void *value) {
    char key[128];
    snprintf(key, sizeof key, "%s.%s", m->shape->arch, suffix);
    put(m, (struct meta_view){.key = key, .type = type, .count = 1, .bytes = 4}, value);
}

static void put_u32(struct maker *m, const char *suffix, int value) {
    put_number(m, suffix, META_U32, &value);
}

static void put_f32(struct maker *m, const char *suffix, float value) {
    put_number(m, suffix, META_F32, &value);
}

// A number for each layer: `value` where the letter is one of `letters`, else 0.
static void put_layers(struct maker *m, const char *suffix, const char *letters, int value) {
    const char *layers = pattern_of(m->shape)->layers;
    uint32_t items[64];
    char key[128];
    const size_t n = strlen(layers);
    for (size_t i = 0; i < n; i++) items[i] = strchr(letters, layers[i]) ? (uint32_t)value : 0;
    snprintf(key, sizeof key, "%s.%s", m->shape->arch, suffix);
    put(m,
        (struct meta_view){.key = key,
                           .type = META_ARRAY,
                           .item_type = META_U32,
                           .count = n,
                           .bytes = n * sizeof *items},
        items);
}

static void put_pattern(struct maker *m, const struct pattern *p) {
    const struct shape *s = m->shape;
    put_layers(m, "attention.head_count_kv", "*", s->n_head_kv);
    put_layers(m, "feed_forward_length", is_single(p) ? "-" : "MC*", s->n_ff);
    if (strchr(p->layers, 'C')) put_u32(m, "shortconv.l_cache", p->taps);
    if (p->n_ff_shared) put_u32(m, "expert_shared_feed_forward_length", p->n_ff_shared);
    if (p->n_head == 0) return;
    put_u32(m, "ssm.conv_kernel", p->taps);
    put_u32(m, "ssm.state_size", p->n_state);
    put_u32(m, "ssm.group_count", p->n_group);
    put_u32(m, "ssm.time_step_rank", p->n_head);
    put_u32(m, "ssm.inner_size", p->n_head * p->dim);
}

// Items of 4 bytes, or bools.
static void put_list(struct maker *m, const char *suffix, enum meta_type type, const void *items,
                     int n) {
    char key[128];
    snprintf(key, sizeof key, "%s.%s", m->shape->arch, suffix);
    put(m,
        (struct meta_view){.key = key,
                           .type = META_ARRAY,
                           .item_type = type,
                           .count = (uint64_t)n,
                           .bytes = (uint64_t)n * (type == META_BOOL ? 1 : 4)},
        items);
}

static int64_t gemma_ff(const struct shape *s, const struct gemma *g, int layer) {
    const bool is_double = g->is_double && layer >= s->n_layer - g->shared;
    return (int64_t)(s->n_expert ? g->n_ff : s->n_ff) * (is_double ? 2 : 1);
}

static void put_gemma(struct maker *m, const struct gemma *g) {
    const struct shape *s = m->shape;
    uint32_t heads[64], width[64];
    uint8_t is_local[64];
    for (int i = 0; i < s->n_layer; i++) {
        is_local[i] = is_windowed(g, i);
        heads[i] = (uint32_t)(is_local[i] ? s->n_head_kv : g->full_kv);
        width[i] = (uint32_t)gemma_ff(s, g, i);
    }
    put_list(m, "attention.head_count_kv", META_U32, heads, s->n_layer);
    put_list(m, "feed_forward_length", META_U32, width, s->n_layer);
    put_list(m, "attention.sliding_window_pattern", META_BOOL, is_local, s->n_layer);
    put_u32(m, "attention.sliding_window", g->window);
    put_u32(m, "attention.shared_kv_layers", g->shared);
    put_u32(m, "attention.key_length_swa", s->head_dim);
    put_u32(m, "attention.value_length_swa", s->head_dim);
    put_u32(m, "embedding_length_per_layer_input", g->n_input);
    put_f32(m, "final_logit_softcapping", 30);
}

static void put_latent(struct maker *m, const struct latent *t) {
    const struct shape *s = m->shape;
    const int n_rot = latent_rotated(s), rank = s->head_dim - n_rot;
    char key[64];
    put_u32(m, "attention.key_length", s->head_dim);
    put_u32(m, "attention.value_length", rank);
    put_u32(m, "attention.kv_lora_rank", rank);
    if (t->n_q) put_u32(m, "attention.q_lora_rank", t->n_q);
    put_u32(m, "attention.key_length_mla", t->nope + n_rot);
    put_u32(m, "attention.value_length_mla", t->value);
    put_u32(m, "rope.dimension_count", n_rot);
    put_u32(m, "leading_dense_block_count", 1);
    put_u32(m, "expert_shared_count", t->n_shared);
    put_u32(m, "expert_gating_func", t->scale > 0 ? 2 : 1);
    put_u32(m, "nextn_predict_layers", t->has_block);
    if (t->scale > 0) {
        const uint32_t yes = 1;
        snprintf(key, sizeof key, "%s.expert_weights_norm", s->arch);
        put(m, (struct meta_view){.key = key, .type = META_BOOL, .count = 1, .bytes = 1}, &yes);
        put_f32(m, "expert_weights_scale", t->scale);
        return;
    }
    snprintf(key, sizeof key, "%s.rope.scaling.type", s->arch);
    put_string(m, key, "yarn");
    put_f32(m, "rope.scaling.factor", 40);
    put_u32(m, "rope.scaling.original_context_length", 4096);
    put_f32(m, "rope.scaling.yarn_log_multiplier", 0.0707f);
}

static void put_hparams(struct maker *m) {
    const struct shape *s = m->shape;
    const struct latent *latent = latent_of(s);
    const struct delta *delta = delta_of(s);
    const struct pattern *p = pattern_of(s);
    const struct gemma *gemma = gemma_of(s);
    const int dim = gemma ? 2 * s->head_dim : s->head_dim;
    put_u32(m, "block_count", s->n_layer + (delta || (latent && latent->has_block) ? 1 : 0));
    put_u32(m, "context_length", N_CTX);
    put_u32(m, "embedding_length", s->n_embd);
    if (!p && !gemma) put_u32(m, "feed_forward_length", latent ? latent->n_ff : s->n_ff);
    put_u32(m, "attention.head_count", s->n_head);
    if (!p && !gemma) put_u32(m, "attention.head_count_kv", s->n_head_kv);
    if (latent) put_latent(m, latent);
    if (!latent) put_u32(m, "attention.key_length", dim);
    if (!latent) put_u32(m, "attention.value_length", dim);
    if (!latent) put_u32(m, "rope.dimension_count", delta ? dim / 4 : dim);
    put_f32(m, "rope.freq_base", s->rope_base);
    put_f32(m, "attention.layer_norm_rms_epsilon", 1e-5f);
    if (s->n_expert) {
        put_u32(m, "expert_count", s->n_expert);
        put_u32(m, "expert_used_count", s->n_expert_used);
        put_u32(m, "expert_feed_forward_length", s->n_ff);
    }
    if (delta) {
        put_u32(m, "nextn_predict_layers", 1);
        put_u32(m, "full_attention_interval", DELTA_INTERVAL);
        put_u32(m, "ssm.conv_kernel", DELTA_TAPS);
        put_u32(m, "ssm.state_size", delta->dim);
        put_u32(m, "ssm.group_count", delta->n_key);
        put_u32(m, "ssm.time_step_rank", delta->n_value);
        put_u32(m, "ssm.inner_size", delta->n_value * delta->dim);
        if (s->n_expert) put_u32(m, "expert_shared_feed_forward_length", s->n_ff);
    }
    if (p) put_pattern(m, p);
    if (gemma) put_gemma(m, gemma);
    if (s->flags & SHAPE_OSS) {
        char key[64];
        snprintf(key, sizeof key, "%s.rope.scaling.type", s->arch);
        put_string(m, key, "yarn");
        put_f32(m, "rope.scaling.factor", 32);
        put_u32(m, "rope.scaling.original_context_length", 4096);
        put_u32(m, "attention.sliding_window", 128);
    }
}

// The token's text in the byte-level alphabet of gpt-2: one for each byte, then made-up words.
// Bytes that do not print are numbered from U+0100 in their order. Without merges a prompt has as
// many tokens as bytes.
static int token_text(int id, int *n_hidden, char out[16]) {
    if (id >= N_BYTE_TOKENS) return snprintf(out, 16, "\xc4\xa0w%d", id); // U+0120 is a space
    const bool prints = (id > 32 && id < 127) || (id > 160 && id != 173);
    const int code = prints ? id : 256 + (*n_hidden)++;
    if (code < 128) return snprintf(out, 16, "%c", code);
    return snprintf(out, 16, "%c%c", 0xc0 | code >> 6, 0x80 | (code & 0x3f));
}

static void put_vocab(struct maker *m) {
    const int n = m->shape->n_vocab;
    uint8_t *items = malloc((size_t)n * (8 + 16));
    size_t bytes = 0;
    int n_hidden = 0;
    if (!items) {
        no_memory(m);
        return;
    }
    for (int id = 0; id < n; id++) {
        char text[16];
        const uint64_t len = (uint64_t)token_text(id, &n_hidden, text);
        memcpy(items + bytes, &len, sizeof len);
        memcpy(items + bytes + sizeof len, text, (size_t)len);
        bytes += sizeof len + (size_t)len;
    }
    put(m,
        (struct meta_view){.key = "tokenizer.ggml.tokens",
                           .type = META_ARRAY,
                           .item_type = META_STRING,
                           .count = (uint64_t)n,
                           .bytes = bytes},
        items);
    free(items);
    put_string(m, "tokenizer.ggml.model", "gpt2");
}

// Places a tensor behind the present ones. In a layer the name gets "blk.N." in front.
static void add(struct maker *m, const char *name, enum format_id format, int64_t cols,
                int64_t rows, int64_t n_expert) {
    if (m->status) return;
    char text[64];
    if (m->layer < 0) {
        snprintf(text, sizeof text, "%s", name);
    } else {
        snprintf(text, sizeof text, "blk.%d.%s", m->layer, name);
    }
    const char *copy = arena_strdup(&m->weights->arena, text, strlen(text));
    struct tensor_view *tensor = copy ? store_tensor_push(m->weights) : NULL;
    if (!tensor) {
        no_memory(m);
        return;
    }
    *tensor = (struct tensor_view){.name = copy,
                                   .format = format,
                                   .n_dims = n_expert   ? 3
                                             : rows > 1 ? 2
                                                        : 1,
                                   .dim = {cols, rows, n_expert ? n_expert : 1, 1},
                                   .bytes = format_row_bytes(format, cols) *
                                            (uint64_t)(rows * (n_expert ? n_expert : 1)),
                                   .offset = m->bytes};
    m->bytes = (m->bytes + tensor->bytes + TENSOR_ALIGN - 1) / TENSOR_ALIGN * TENSOR_ALIGN;
}

static void add_vector(struct maker *m, const char *name, int64_t n) {
    add(m, name, FORMAT_F32, n, 1, 0);
}

// A matrix in the mix's format, or in that of the first rule that applies.
static void add_matrix(struct maker *m, const char *name, int64_t cols, int64_t rows,
                       int64_t n_expert, const struct rule *rules, int n_rules) {
    const struct spot spot = {m->layer, m->shape->n_layer, m->shape->n_head / m->shape->n_head_kv};
    add(m, name, format_fit(rules_choose(m->mix.base, rules, n_rules, &spot), cols), cols, rows,
        n_expert);
}

static void add_attention(struct maker *m) {
    const struct shape *s = m->shape;
    const int64_t n_q = (int64_t)s->n_head * s->head_dim,
                  n_kv = (int64_t)s->n_head_kv * s->head_dim;
    const bool has_gate = s->flags & SHAPE_DELTA; // as wide as the queries, beside them
    add_vector(m, "attn_norm.weight", s->n_embd);
    add_matrix(m, "attn_q.weight", s->n_embd, has_gate ? 2 * n_q : n_q, 0, NULL, 0);
    add_matrix(m, "attn_k.weight", s->n_embd, n_kv, 0, NULL, 0);
    add_matrix(m, "attn_v.weight", s->n_embd, n_kv, 0, m->mix.attn_v, MAX_RULES);
    add_matrix(m, "attn_output.weight", n_q, s->n_embd, 0, &m->mix.attn_output, 1);
    if (s->flags & SHAPE_QK_NORM) {
        add_vector(m, "attn_q_norm.weight", s->head_dim);
        add_vector(m, "attn_k_norm.weight", s->head_dim);
    }
    if (s->flags & SHAPE_OSS) {
        add_vector(m, "attn_q.bias", n_q);
        add_vector(m, "attn_k.bias", n_kv);
        add_vector(m, "attn_v.bias", n_kv);
        add_vector(m, "attn_output.bias", s->n_embd);
        add_vector(m, "attn_sinks.weight", s->n_head);
    }
}

// The convolution and the numbers of each head stay in F32 in every mix.
static void add_delta(struct maker *m) {
    const struct shape *s = m->shape;
    const struct delta *d = delta_of(s);
    const int64_t values = (int64_t)d->n_value * d->dim;
    const int64_t channels = 2 * (int64_t)d->n_key * d->dim + values;
    add_vector(m, "attn_norm.weight", s->n_embd);
    add_matrix(m, "attn_qkv.weight", s->n_embd, channels, 0, NULL, 0);
    add_matrix(m, "attn_gate.weight", s->n_embd, values, 0, NULL, 0);
    add_matrix(m, "ssm_alpha.weight", s->n_embd, d->n_value, 0, NULL, 0);
    add_matrix(m, "ssm_beta.weight", s->n_embd, d->n_value, 0, NULL, 0);
    add(m, "ssm_conv1d.weight", FORMAT_F32, DELTA_TAPS, channels, 0);
    add_vector(m, "ssm_a", d->n_value);
    add_vector(m, "ssm_dt.bias", d->n_value);
    add_vector(m, "ssm_norm.weight", d->dim);
    add_matrix(m, "ssm_out.weight", values, s->n_embd, 0, NULL, 0);
}

static void add_mixer(struct maker *m) {
    const bool is_delta = (m->shape->flags & SHAPE_DELTA) && (m->layer + 1) % DELTA_INTERVAL != 0;
    (is_delta ? add_delta : add_attention)(m);
}

static void add_shared_expert(struct maker *m) {
    const struct shape *s = m->shape;
    add(m, "ffn_gate_inp_shexp.weight", FORMAT_F32, s->n_embd, 1, 0);
    add_matrix(m, "ffn_gate_shexp.weight", s->n_embd, s->n_ff, 0, NULL, 0);
    add_matrix(m, "ffn_up_shexp.weight", s->n_embd, s->n_ff, 0, NULL, 0);
    add_matrix(m, "ffn_down_shexp.weight", s->n_ff, s->n_embd, 0, m->mix.ffn_down, MAX_RULES);
}

static void add_dense(struct maker *m) {
    const struct shape *s = m->shape;
    add_matrix(m, "ffn_gate.weight", s->n_embd, s->n_ff, 0, NULL, 0);
    add_matrix(m, "ffn_up.weight", s->n_embd, s->n_ff, 0, NULL, 0);
    add_matrix(m, "ffn_down.weight", s->n_ff, s->n_embd, 0, m->mix.ffn_down, MAX_RULES);
}

// Routers stay in F32 in every mix.
static void add_experts(struct maker *m) {
    const struct shape *s = m->shape;
    const bool own = m->mix.experts.where != NOWHERE;
    const struct rule *rules = &m->mix.experts, *down = own ? rules : m->mix.ffn_down;
    add(m, "ffn_gate_inp.weight", FORMAT_F32, s->n_embd, s->n_expert, 0);
    add_matrix(m, "ffn_gate_exps.weight", s->n_embd, s->n_ff, s->n_expert, rules, 1);
    add_matrix(m, "ffn_up_exps.weight", s->n_embd, s->n_ff, s->n_expert, rules, 1);
    add_matrix(m, "ffn_down_exps.weight", s->n_ff, s->n_embd, s->n_expert, down,
               own ? 1 : MAX_RULES);
    if (s->flags & SHAPE_DELTA) add_shared_expert(m);
    if (s->flags & SHAPE_OSS) {
        add_vector(m, "ffn_gate_inp.bias", s->n_expert);
        add(m, "ffn_gate_exps.bias", FORMAT_F32, s->n_ff, s->n_expert, 0);
        add(m, "ffn_up_exps.bias", FORMAT_F32, s->n_ff, s->n_expert, 0);
        add(m, "ffn_down_exps.bias", FORMAT_F32, s->n_embd, s->n_expert, 0);
    }
}

// The convolution and the numbers of each head stay in F32 in every mix.
static void add_mamba(struct maker *m, const struct pattern *p) {
    const struct shape *s = m->shape;
    const int64_t inner = (int64_t)p->n_head * p->dim;
    const int64_t channels = inner + 2 * (int64_t)p->n_group * p->n_state;
    add_vector(m, "attn_norm.weight", s->n_embd);
    add_matrix(m, "ssm_in.weight", s->n_embd, inner + channels + p->n_head, 0, NULL, 0);
    add(m, "ssm_conv1d.weight", FORMAT_F32, p->taps, channels, 0);
    add_vector(m, "ssm_conv1d.bias", channels);
    add_vector(m, "ssm_dt.bias", p->n_head);
    add_vector(m, "ssm_a", p->n_head);
    add_vector(m, "ssm_d", p->n_head);
    add_vector(m, "ssm_norm.weight", inner);
    add_matrix(m, "ssm_out.weight", inner, s->n_embd, 0, NULL, 0);
}

static void add_short_conv(struct maker *m, const struct pattern *p) {
    const struct shape *s = m->shape;
    add_vector(m, "attn_norm.weight", s->n_embd);
    add_matrix(m, "shortconv.in_proj.weight", s->n_embd, 3 * (int64_t)s->n_embd, 0, NULL, 0);
    add(m, "shortconv.conv.weight", FORMAT_F32, p->taps, s->n_embd, 0);
    add_matrix(m, "shortconv.out_proj.weight", s->n_embd, s->n_embd, 0, NULL, 0);
}

// Without a gate.
static void add_plain(struct maker *m) {
    const struct shape *s = m->shape;
    add_vector(m, "attn_norm.weight", s->n_embd);
    add_matrix(m, "ffn_up.weight", s->n_embd, s->n_ff, 0, NULL, 0);
    add_matrix(m, "ffn_down.weight", s->n_ff, s->n_embd, 0, m->mix.ffn_down, MAX_RULES);
}

static void add_letter(struct maker *m, const struct pattern *p) {
    const struct shape *s = m->shape;
    const char letter = p->layers[m->layer];
    if (letter == 'M') add_mamba(m, p);
    if (letter == 'C') add_short_conv(m, p);
    if (letter == '*') add_attention(m);
    if (letter == '-') add_plain(m);
    if (is_single(p)) return;
    add_vector(m, "ffn_norm.weight", s->n_embd);
    (s->n_expert ? add_experts : add_dense)(m);
    if (p->n_ff_shared == 0) return;
    add_matrix(m, "ffn_gate_shexp.weight", s->n_embd, p->n_ff_shared, 0, NULL, 0);
    add_matrix(m, "ffn_up_shexp.weight", s->n_embd, p->n_ff_shared, 0, NULL, 0);
    add_matrix(m, "ffn_down_shexp.weight", p->n_ff_shared, s->n_embd, 0, m->mix.ffn_down,
               MAX_RULES);
}

static void add_gemma_attention(struct maker *m, const struct gemma *g) {
    const struct shape *s = m->shape;
    const bool is_local = is_windowed(g, m->layer), has_keys = m->layer < s->n_layer - g->shared;
    const int64_t dim = is_local ? s->head_dim : 2 * s->head_dim, n_q = s->n_head * dim;
    const int64_t n_kv = (is_local ? s->n_head_kv : g->full_kv) * dim;
    add_vector(m, "attn_norm.weight", s->n_embd);
    add_matrix(m, "attn_q.weight", s->n_embd, n_q, 0, NULL, 0);
    add_vector(m, "attn_q_norm.weight", dim);
    if (has_keys) add_matrix(m, "attn_k.weight", s->n_embd, n_kv, 0, NULL, 0);
    if (has_keys) add_vector(m, "attn_k_norm.weight", dim);
    if (has_keys && (is_local || !g->k_is_v))
        add_matrix(m, "attn_v.weight", s->n_embd, n_kv, 0, m->mix.attn_v, MAX_RULES);
    add_matrix(m, "attn_output.weight", n_q, s->n_embd, 0, &m->mix.attn_output, 1);
    add_vector(m, "post_attention_norm.weight", s->n_embd);
}

// Without the factor behind the layer, which would be as small as other weights here.
static void add_gemma(struct maker *m, const struct gemma *g) {
    const struct shape *s = m->shape;
    const int64_t n_ff = gemma_ff(s, g, m->layer);
    add_gemma_attention(m, g);
    add_vector(m, "ffn_norm.weight", s->n_embd);
    add_matrix(m, "ffn_gate.weight", s->n_embd, n_ff, 0, NULL, 0);
    add_matrix(m, "ffn_up.weight", s->n_embd, n_ff, 0, NULL, 0);
    add_matrix(m, "ffn_down.weight", n_ff, s->n_embd, 0, m->mix.ffn_down, MAX_RULES);
    add_vector(m, "post_ffw_norm.weight", s->n_embd);
    if (s->n_expert) {
        add_experts(m);
        add_vector(m, "ffn_gate_inp.scale", s->n_embd);
        add_vector(m, "ffn_down_exps.scale", s->n_expert);
        add_vector(m, "pre_ffw_norm_2.weight", s->n_embd);
        add_vector(m, "post_ffw_norm_1.weight", s->n_embd);
        add_vector(m, "post_ffw_norm_2.weight", s->n_embd);
    }
    if (g->n_input == 0) return;
    add_matrix(m, "inp_gate.weight", s->n_embd, g->n_input, 0, NULL, 0);
    add_matrix(m, "proj.weight", g->n_input, s->n_embd, 0, NULL, 0);
    add_vector(m, "post_norm.weight", s->n_embd);
}

static void add_gemma_inputs(struct maker *m, const struct gemma *g) {
    const struct shape *s = m->shape;
    const int64_t n = (int64_t)s->n_layer * g->n_input;
    if (n == 0) return;
    add_matrix(m, "per_layer_token_embd.weight", n, s->n_vocab, 0, NULL, 0);
    add_matrix(m, "per_layer_model_proj.weight", s->n_embd, n, 0, NULL, 0);
    add_vector(m, "per_layer_proj_norm.weight", g->n_input);
}

static void add_latent_attention(struct maker *m, const struct latent *t) {
    const struct shape *s = m->shape;
    const int64_t n_rot = latent_rotated(s), rank = s->head_dim - n_rot;
    const int64_t n_q = s->n_head * (t->nope + n_rot), n_v = (int64_t)s->n_head * t->value;
    add_vector(m, "attn_norm.weight", s->n_embd);
    if (t->n_q) {
        add_matrix(m, "attn_q_a.weight", s->n_embd, t->n_q, 0, NULL, 0);
        add_vector(m, "attn_q_a_norm.weight", t->n_q);
        add_matrix(m, "attn_q_b.weight", t->n_q, n_q, 0, NULL, 0);
    } else {
        add_matrix(m, "attn_q.weight", s->n_embd, n_q, 0, NULL, 0);
    }
    add_matrix(m, "attn_kv_a_mqa.weight", s->n_embd, s->head_dim, 0, NULL, 0);
    add_vector(m, "attn_kv_a_norm.weight", rank);
    add_matrix(m, "attn_k_b.weight", t->nope, rank, s->n_head, NULL, 0);
    add_matrix(m, "attn_v_b.weight", rank, t->value, s->n_head, m->mix.attn_v, MAX_RULES);
    add_matrix(m, "attn_output.weight", n_v, s->n_embd, 0, &m->mix.attn_output, 1);
    add_vector(m, "ffn_norm.weight", s->n_embd);
}

static void add_latent(struct maker *m, const struct latent *t) {
    const struct shape *s = m->shape;
    const bool is_dense = m->layer == 0;
    const char *const names[2][3] = {{"ffn_gate_shexp.weight", "ffn_up_shexp.weight",
                                      "ffn_down_shexp.weight"},
                                     {"ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"}};
    const int64_t n_ff = is_dense ? t->n_ff : (int64_t)t->n_shared * s->n_ff;
    add_latent_attention(m, t);
    add_matrix(m, names[is_dense][0], s->n_embd, n_ff, 0, NULL, 0);
    add_matrix(m, names[is_dense][1], s->n_embd, n_ff, 0, NULL, 0);
    add_matrix(m, names[is_dense][2], n_ff, s->n_embd, 0, m->mix.ffn_down, MAX_RULES);
    if (is_dense) return;
    add_experts(m);
    if (t->scale > 0) add_vector(m, "exp_probs_b.bias", s->n_expert);
}

// The block behind the layers, which drafts; m->layer is its number.
static void add_nextn(struct maker *m) {
    const struct shape *s = m->shape;
    add_matrix(m, "nextn.eh_proj.weight", 2 * (int64_t)s->n_embd, s->n_embd, 0, NULL, 0);
    add_vector(m, "nextn.enorm.weight", s->n_embd);
    add_vector(m, "nextn.hnorm.weight", s->n_embd);
    add_vector(m, "nextn.shared_head_norm.weight", s->n_embd);
    if (latent_of(s)) {
        add_latent(m, latent_of(s));
        return;
    }
    add_attention(m);
    add_vector(m, "post_attention_norm.weight", s->n_embd);
    (s->n_expert ? add_experts : add_dense)(m);
}

static void add_tensors(struct maker *m) {
    const struct shape *s = m->shape;
    const struct pattern *p = pattern_of(s);
    const struct gemma *gemma = gemma_of(s);
    const struct latent *latent = latent_of(s);
    const bool tied = s->flags & SHAPE_TIED, is_alike = !p && !gemma && !latent;
    m->layer = -1;
    add_matrix(m, "token_embd.weight", s->n_embd, s->n_vocab, 0, &m->mix.head, tied);
    if (gemma) add_gemma_inputs(m, gemma);
    for (m->layer = 0; p && m->layer < s->n_layer; m->layer++) add_letter(m, p);
    for (m->layer = 0; gemma && m->layer < s->n_layer; m->layer++) add_gemma(m, gemma);
    for (m->layer = 0; latent && m->layer < s->n_layer; m->layer++) add_latent(m, latent);
    for (m->layer = 0; is_alike && m->layer < s->n_layer; m->layer++) {
        add_mixer(m);
        add_vector(m,
                   s->flags & (SHAPE_OSS | SHAPE_DELTA) ? "post_attention_norm.weight"
                                                        : "ffn_norm.weight",
                   s->n_embd);
        (s->n_expert ? add_experts : add_dense)(m);
    }
    m->layer = s->n_layer;
    if (s->flags & SHAPE_DELTA || (latent && latent->has_block)) add_nextn(m);
    m->layer = -1;
    add_vector(m, strcmp(s->arch, "lfm2") ? "output_norm.weight" : "token_embd_norm.weight",
               s->n_embd);
    if (!tied) add_matrix(m, "output.weight", s->n_embd, s->n_vocab, 0, &m->mix.head, 1);
}

// ---------------------------------------------------------------- memory

// No file is behind these weights, so they stay in memory beside the backend's packed copy.
static rn_status check_room(const char *name, uint64_t bytes, rn_error *err) {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const uint64_t there = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
    if (bytes <= there / 2) return RN_OK;
    return err_set(err, RN_ERR_NOMEM,
                   "%s: takes twice %llu bytes, as made and as packed; the machine has %llu", name,
                   (unsigned long long)bytes, (unsigned long long)there);
}

// The memory that stands in for the file, for tensors that have no data yet; aligned to huge pages:
// packing the weights reads it faster. Without the right to write, it costs nothing. No file is
// behind it: dropped bytes are lost.
static rn_status map_tensors(struct weights *weights, uint64_t bytes, int rights, rn_error *err) {
    uint8_t *raw =
        mmap(NULL, bytes + HUGE_BYTES, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED)
        return err_set(err, RN_ERR_NOMEM, "%s: no memory for %llu bytes", weights->name,
                       (unsigned long long)bytes);
    const size_t before = (HUGE_BYTES - (uintptr_t)raw % HUGE_BYTES) % HUGE_BYTES;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (bytes + page - 1) / page * page;
    if (before) munmap(raw, before);
    munmap(raw + before + size, bytes + HUGE_BYTES - before - size);
    madvise(raw + before, size, MADV_HUGEPAGE); // a wish
    const rn_status status =
        store_file_add(weights, weights->path, raw + before, (size_t)bytes, err);
    if (status) {
        munmap(raw + before, size);
        return status;
    }
    const int file = weights->n_files - 1;
    weights->files[file].map = (struct file_map){raw + before, size};
    for (int i = 0; i < weights->n_tensors; i++) {
        struct tensor_view *tensor = &weights->tensors[i];
        if (tensor->data) continue;
        tensor->data = raw + before + tensor->offset;
        tensor->file = file;
    }
    return RN_OK;
}

static rn_status make(struct maker *m, bool is_filled) {
    char name[96];
    snprintf(name, sizeof name, "synthetic %s %s", m->shape->name, m->mix.name);
    snprintf(m->weights->container, sizeof m->weights->container, "synthetic");
    put_string(m, "general.architecture", m->shape->arch);
    put_string(m, "general.name", name);
    put_hparams(m);
    put_vocab(m);
    add_tensors(m);
    rn_status status = m->status;
    if (!status) status = store_metas_index(&m->weights->metas, m->weights->name, m->err);
    if (!status) status = store_tensors_index(m->weights, m->err);
    if (!status && is_filled) status = check_room(m->weights->name, m->bytes, m->err);
    if (!status)
        status = map_tensors(m->weights, m->bytes, is_filled ? PROT_READ | PROT_WRITE : PROT_READ,
                             m->err);
    if (!status && is_filled) status = synthetic_fill(m->weights, m->err);
    return status;
}

// ---------------------------------------------------------------- the spec

// Appends to a list for a message.
static void list_add(char *list, size_t size, const char *name) {
    const size_t len = strlen(list);
    snprintf(list + len, size - len, "%s%s", len ? ", " : "", name);
}

void weights_shapes_list(char *out, size_t size) {
    *out = '\0';
    for (int i = 0; i < N_SHAPES; i++)
        if (!(shapes[i].flags & SHAPE_HIDDEN)) list_add(out, size, shapes[i].name);
}

static rn_status unknown_shape(const char *name, int len, rn_error *err) {
    char known[SHAPES_LIST];
    weights_shapes_list(known, sizeof known);
    return err_set(err, RN_ERR_ARG, "shape '%.*s' is unknown (known: %s)", len < 64 ? len : 64,
                   name, known);
}

bool weights_is_shape(const char *spec) {
    const size_t len = strcspn(spec, ":");
    for (int i = 0; i < N_SHAPES; i++)
        if (strlen(shapes[i].name) == len && strncasecmp(shapes[i].name, spec, len) == 0)
            return true;
    return false;
}

static rn_status unknown_format(const char *name, rn_error *err) {
    char known[300] = "";
    for (int i = 0; i < FORMAT_COUNT; i++)
        list_add(known, sizeof known, format_at((enum format_id)i)->name);
    for (int i = 0; i < N_MIXES; i++) list_add(known, sizeof known, mixes[i].name);
    return err_set(err, RN_ERR_ARG, "format '%.64s' is unknown (known: %s)", name, known);
}

static bool find_mix(const char *name, struct mix *out) {
    for (int i = 0; i < FORMAT_COUNT; i++) {
        const char *known = format_at((enum format_id)i)->name;
        *out = (struct mix){.name = known, .base = (enum format_id)i};
        if (strcasecmp(name, known) == 0) return true;
    }
    for (int i = 0; i < N_MIXES; i++) {
        *out = mixes[i];
        if (strcasecmp(name, mixes[i].name) == 0) return true;
    }
    return false;
}

static rn_status parse(const char *spec, struct maker *m) {
    const char *colon = strchr(spec, ':');
    const size_t len = colon ? (size_t)(colon - spec) : strlen(spec);
    for (int i = 0; i < N_SHAPES; i++)
        if (strlen(shapes[i].name) == len && strncasecmp(shapes[i].name, spec, len) == 0)
            m->shape = &shapes[i];
    if (!m->shape) return unknown_shape(spec, (int)(len < 64 ? len : 64), m->err);
    if (!colon)
        return err_set(m->err, RN_ERR_ARG,
                       "synthetic model '%.64s' has no format, expected as in %s:Q4_0", spec,
                       m->shape->name);
    return find_mix(colon + 1, &m->mix) ? RN_OK : unknown_format(colon + 1, m->err);
}

static rn_status open_spec(const char *spec, bool is_filled, struct weights **out, rn_error *err) {
    struct maker m = {.err = err};
    *out = NULL;
    rn_status status = parse(spec, &m);
    if (status) return status;
    m.weights = calloc(1, sizeof *m.weights);
    char *path = strdup(spec);
    if (!m.weights || !path) {
        free(m.weights);
        free(path);
        return err_set(err, RN_ERR_NOMEM, "%s: out of memory", err_path(spec));
    }
    m.weights->path = path;
    m.weights->name = err_path(path);
    status = make(&m, is_filled);
    if (status) {
        weights_close(m.weights);
        return status;
    }
    *out = m.weights;
    return RN_OK;
}

rn_status weights_open_synthetic(const char *spec, struct weights **out, rn_error *err) {
    return open_spec(spec, true, out, err);
}

rn_status weights_describe_synthetic(const char *spec, struct weights **out, rn_error *err) {
    return open_spec(spec, false, out, err);
}

rn_status weights_check_synthetic(const char *spec, rn_error *err) {
    struct weights *weights;
    rn_status status = weights_describe_synthetic(spec, &weights, err);
    if (status) return status;
    status = check_room(weights->name, weights_bytes(weights), err);
    weights_close(weights);
    return status;
}

// ---------------------------------------------------------------- other formats

// "<arch>.<suffix>", or the fallback.
static int arch_number(const struct weights *weights, const char *suffix, int fallback) {
    const struct meta_view *arch = weights_meta_find(weights, "general.architecture");
    const char *name = "";
    size_t len = 0;
    char key[160];
    int64_t value;
    if (!arch || !meta_get_string(arch, &name, &len)) return fallback;
    snprintf(key, sizeof key, "%.*s.%s", (int)(len < 64 ? len : 64), name, suffix);
    const struct meta_view *meta = weights_meta_find(weights, key);
    return meta && meta_get_i64(meta, &value) && value > 0 && value < INT32_MAX ? (int)value
                                                                                : fallback;
}

// "attn_v.weight" of "blk.3.attn_v.weight", whose layer is 3; -1: a tensor outside the layers.
static const char *layer_name(const char *name, int *layer) {
    int end = 0;
    *layer = -1;
    if (sscanf(name, "blk.%d.%n", layer, &end) == 1 && end > 0) return name + end;
    *layer = -1;
    return name;
}

static enum format_id mix_format(const struct mix *mix, const char *full, struct spot spot,
                                 bool is_tied) {
    const char *name = layer_name(full, &spot.layer);
    const bool is_expert = strstr(name, "_exps.") != NULL;
    if (!strcmp(name, "output.weight") || (!strcmp(name, "token_embd.weight") && is_tied))
        return rules_choose(mix->base, &mix->head, 1, &spot);
    if (is_expert && mix->experts.where != NOWHERE)
        return rules_choose(mix->base, &mix->experts, 1, &spot);
    if (!strcmp(name, "attn_v.weight"))
        return rules_choose(mix->base, mix->attn_v, MAX_RULES, &spot);
    if (!strcmp(name, "attn_output.weight"))
        return rules_choose(mix->base, &mix->attn_output, 1, &spot);
    if (!strncmp(name, "ffn_down", 8))
        return rules_choose(mix->base, mix->ffn_down, MAX_RULES, &spot);
    return mix->base;
}

// Vectors, columns, norms by group, biases, routers and convolutions stay floats in every mix.
static bool is_matrix(const struct tensor_view *tensor) {
    if (tensor->n_dims == 1 || tensor->dim[0] == 1 || strstr(tensor->name, "norm.")) return false;
    const size_t len = strlen(tensor->name);
    const bool is_bias = len > 5 && !strcmp(tensor->name + len - 5, ".bias");
    const bool is_conv = strstr(tensor->name, "ssm_conv1d") || strstr(tensor->name, ".conv.");
    return !is_bias && !is_conv && !strstr(tensor->name, "ffn_gate_inp");
}

rn_status weights_reformat(struct weights *weights, const char *format, rn_error *err) {
    struct mix mix;
    if (!find_mix(format, &mix)) return unknown_format(format, err);
    const int n_head = arch_number(weights, "attention.head_count", 1);
    const struct spot spot = {.layer = -1,
                              .n_layer = arch_number(weights, "block_count", 1),
                              .queries =
                                  n_head / arch_number(weights, "attention.head_count_kv", n_head)};
    const bool is_tied = !weights_tensor_find(weights, "output.weight");
    uint64_t bytes = 0;
    for (int i = 0; i < weights->n_tensors; i++) {
        struct tensor_view *t = &weights->tensors[i];
        if (is_matrix(t)) {
            t->data = NULL;
            t->parts = NULL;
            t->format = format_fit(mix_format(&mix, t->name, spot, is_tied), t->dim[0]);
        } else if (!t->data) {
            t->format = FORMAT_F32;
        }
        t->bytes =
            format_row_bytes(t->format, t->dim[0]) * (uint64_t)(t->dim[1] * t->dim[2] * t->dim[3]);
        if (t->data) continue; // vectors keep their values: rope's frequencies depend on them
        t->offset = bytes;
        bytes = (bytes + t->bytes + TENSOR_ALIGN - 1) / TENSOR_ALIGN * TENSOR_ALIGN;
    }
    return map_tensors(weights, bytes, PROT_READ, err);
}

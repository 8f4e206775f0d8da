// See synthetic_shapes.h. A new shape is a row here; its family's part has a row of the same name.
#include "weights/synthetic_shapes.h"

#include <string.h>
#include <strings.h>

// The models that people have: SmolLM2, Llama 2, 3, 3.1 and 3.2, Mistral, Mixtral, Qwen 3, 3.5 and
// 3.6, LFM2, Nemotron Nano 2, Granite 4, Gemma 4, gpt-oss, DeepSeek V2 Lite and V3, Kimi K2, GLM
// 4.6, GLM-4.7-Flash, MiniMax M2. Some are the first layers of a model alone, for machines that the
// whole does not fit. The tiny ones are for tests; the rates of kernels are measured on matrices of
// "probe".
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
    {"qwen3-30b-a3b-24l", "qwen3moe", 24, 2048, 768, 32, 4, 128, 151936, SHAPE_QK_NORM | SHAPE_PART,
     1e6f, 128, 8},
    {"qwen3-30b-a3b-8l", "qwen3moe", 8, 2048, 768, 32, 4, 128, 151936, SHAPE_QK_NORM | SHAPE_PART,
     1e6f, 128, 8},
    {"qwen3-235b-a22b", "qwen3moe", 94, 4096, 1536, 64, 4, 128, 151936, SHAPE_QK_NORM, 1e6f, 128,
     8},
    {"qwen3.5-4b", "qwen35", 32, 2560, 9216, 16, 4, 256, 248320,
     SHAPE_TIED | SHAPE_QK_NORM | SHAPE_DELTA, 1e7f, 0, 0},
    {"qwen3.5-27b", "qwen35", 64, 5120, 17408, 24, 4, 256, 248320, SHAPE_QK_NORM | SHAPE_DELTA,
     1e7f, 0, 0},
    {"qwen3.6-35b-a3b", "qwen35moe", 40, 2048, 512, 16, 2, 256, 248320, SHAPE_QK_NORM | SHAPE_DELTA,
     1e7f, 256, 8},
    {"qwen3.6-35b-a3b-12l", "qwen35moe", 12, 2048, 512, 16, 2, 256, 248320,
     SHAPE_QK_NORM | SHAPE_DELTA | SHAPE_PART, 1e7f, 256, 8},
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
    {"deepseek-v3", "deepseek2", 61, 7168, 2048, 128, 1, 576, 129280, SHAPE_LATENT, 1e4f, 256, 8},
    {"kimi-k2", "deepseek2", 61, 7168, 2048, 64, 1, 576, 163840, SHAPE_LATENT, 5e4f, 384, 8},
    {"glm-4.6", "glm4moe", 92, 5120, 1536, 96, 8, 128, 151552, SHAPE_SPARSE | SHAPE_QK_NORM, 1e6f,
     160, 8},
    {"minimax-m2", "minimax-m2", 62, 3072, 1536, 48, 8, 128, 200064, SHAPE_SPARSE | SHAPE_QK_NORM,
     5e6f, 256, 8},
    {"glm-4.7-flash", "deepseek2", 47, 2048, 1536, 20, 1, 576, 154880, SHAPE_LATENT, 1e6f, 64, 4},
    {"glm-4.7-flash-12l", "deepseek2", 12, 2048, 1536, 20, 1, 576, 154880,
     SHAPE_LATENT | SHAPE_PART, 1e6f, 64, 4},
    {"gpt-oss-20b", "gpt-oss", 24, 2880, 2880, 64, 8, 64, 201088, SHAPE_OSS, 1.5e5f, 32, 4},
    {"gpt-oss-20b-8l", "gpt-oss", 8, 2880, 2880, 64, 8, 64, 201088, SHAPE_OSS | SHAPE_PART, 1.5e5f,
     32, 4},
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
    {"tiny-glm", "glm4moe", 3, 256, 256, 4, 2, 64, 384, SHAPE_SPARSE | SHAPE_QK_NORM | SHAPE_HIDDEN,
     1e4f, 8, 2},
    {"tiny-minimax", "minimax-m2", 2, 256, 256, 4, 2, 64, 384,
     SHAPE_SPARSE | SHAPE_QK_NORM | SHAPE_HIDDEN, 1e4f, 8, 2},
    {"tiny-lfm2", "lfm2", 3, 256, 512, 4, 2, 64, 384, SHAPE_TIED | SHAPE_QK_NORM | SHAPE_HIDDEN,
     1e4f, 0, 0},
};
const struct shape *shape_at(int index) {
    return index < (int)(sizeof shapes / sizeof *shapes) ? &shapes[index] : NULL;
}

// Models with the sizes of another one.
static const struct {
    const char *name, *shape;
} twins[] = {
    {"deepseek-r1", "deepseek-v3"},
    {"deepseek-v3.1", "deepseek-v3"},
    {"glm-4.7", "glm-4.6"},
    {"minimax-m2.1", "minimax-m2"},
};

static bool is_named(const char *own, const char *name, size_t len) {
    return strlen(own) == len && strncasecmp(own, name, len) == 0;
}

const struct shape *shape_named(const char *name, size_t len) {
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++)
        if (is_named(twins[i].name, name, len))
            return shape_named(twins[i].shape, strlen(twins[i].shape));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (is_named(shapes[i].name, name, len)) return &shapes[i];
    return NULL;
}

// gpt-oss is published with experts in MXFP4, and with rows that the usual mix has no blocks for.
const char *shape_format(const struct shape *shape) {
    return shape->flags & SHAPE_OSS ? "MXFP4_MOE" : "Q4_K_M";
}

static const struct latent latents[] = {
    {"deepseek-v2-lite", 0, 128, 128, 1, 10944, 2, 0, 0, 0, false},
    {"deepseek-v3", 1536, 128, 128, 3, 18432, 1, 8, 4, 2.5f, false},
    {"kimi-k2", 1536, 128, 128, 1, 18432, 1, 0, 0, 2.827f, false},
    {"glm-4.7-flash", 768, 192, 256, 1, 10240, 1, 0, 0, 1.8f, true},
    {"glm-4.7-flash-12l", 768, 192, 256, 1, 10240, 1, 0, 0, 1.8f, true},
    {"tiny-latent", 96, 64, 64, 1, 512, 1, 0, 0, 2, true},
};

const struct latent *latent_of(const struct shape *shape) {
    const struct latent *latent = latents;
    if (!(shape->flags & SHAPE_LATENT)) return NULL;
    while (strcmp(latent->shape, shape->name) != 0) latent++; // every shape with the flag has a row
    return latent;
}

int latent_rotated(const struct shape *shape) {
    return shape->flags & SHAPE_HIDDEN ? TINY_ROT : LATENT_ROT;
}

static const struct sparse sparses[] = {
    {"glm-4.6", 3, 12288, 1, 64, 2.5f, true, false, true},
    {"minimax-m2", 0, 1536, 0, 64, 1, false, true, false},
    {"tiny-glm", 1, 512, 1, 32, 2, true, false, true},
    {"tiny-minimax", 0, 256, 0, 32, 1, false, true, false},
};

const struct sparse *sparse_of(const struct shape *shape) {
    const struct sparse *sparse = sparses;
    if (!(shape->flags & SHAPE_SPARSE)) return NULL;
    while (strcmp(sparse->shape, shape->name) != 0) sparse++; // every shape with the flag has a row
    return sparse;
}

static const struct delta deltas[] = {
    {"qwen3.5-4b", 16, 32, 128},      {"qwen3.5-27b", 16, 48, 128},
    {"qwen3.6-35b-a3b", 16, 32, 128}, {"qwen3.6-35b-a3b-12l", 16, 32, 128},
    {"tiny-delta", 2, 4, 32},
};

const struct delta *delta_of(const struct shape *shape) {
    const struct delta *delta = deltas;
    if (!(shape->flags & SHAPE_DELTA)) return NULL;
    while (strcmp(delta->shape, shape->name) != 0) delta++; // every shape with the flag has a row
    return delta;
}

static const struct gemma gemmas[] = {
    {"gemma4-e2b", 512, 5, 20, 1, false, true, 256, 0},
    {"gemma4-e4b", 512, 6, 18, 2, false, false, 256, 0},
    {"gemma4-26b-a4b", 1024, 6, 0, 2, true, false, 0, 2112},
    {"gemma4-31b", 1024, 6, 0, 4, true, false, 0, 0},
    {"tiny-gemma4", 32, 3, 2, 1, true, true, 32, 128},
};

const struct gemma *gemma_of(const struct shape *shape) {
    const struct gemma *gemma = gemmas;
    if (!(shape->flags & SHAPE_4)) return NULL;
    while (strcmp(gemma->shape, shape->name) != 0) gemma++; // every shape with the flag has a row
    return gemma;
}

int64_t gemma_ff(const struct shape *s, const struct gemma *g, int layer) {
    const bool is_double = g->is_double && layer >= s->n_layer - g->shared;
    return (int64_t)(s->n_expert ? g->n_ff : s->n_ff) * (is_double ? 2 : 1);
}

bool gemma_is_windowed(const struct gemma *g, int layer) { return (layer + 1) % g->period != 0; }

static const struct pattern patterns[] = {
    {"lfm2-1.2b", "CC*CC*CC*C*C*C*C", 3, 0, 0, 0, 0, 0},
    {"nemotron-nano-9b", "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-", 4, 128, 8, 128,
     80, 0},
    {"granite4-h-tiny", "MMMMM*MMMMMMMMM*MMMMMMMMM*MMMMMMMMM*MMMM", 4, 128, 1, 48, 64, 1024},
    {"tiny-nemotron", "M*-M", 4, 32, 2, 8, 32, 0},
    {"tiny-granite", "M*M", 4, 32, 1, 8, 64, 128},
    {"tiny-lfm2", "C*C", 3, 0, 0, 0, 0, 0},
};

const struct pattern *pattern_of(const struct shape *shape) {
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(patterns[i].shape, shape->name) == 0) return &patterns[i];
    return NULL;
}

bool pattern_is_single(const struct pattern *p) { return strchr(p->layers, '-') != NULL; }

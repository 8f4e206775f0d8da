// Small vocabularies for tests: tokens are added one by one, bytes by their alphabet characters.
#ifndef TEST_VOCAB_BUILD_H
#define TEST_VOCAB_BUILD_H

#include <stdlib.h>
#include <string.h>

#include "text/alphabet.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

enum { BUILD_MAX = 2048 };

struct vocab_build {
    struct text_span token[BUILD_MAX], merge[BUILD_MAX];
    int32_t type[BUILD_MAX];
    char byte_text[256][4];
    struct vocab_source source;
};

static inline struct vocab_build *build_create(void) {
    struct vocab_build *const build = calloc(1, sizeof *build);
    if (!build) abort();
    build->source = (struct vocab_source){
        .model = {"gpt2", 4},
        .token = build->token,
        .type = build->type,
        .merge = build->merge,
        .bos = -1,
        .eos = -1,
        .eot = -1,
        .eom = -1,
    };
    return build;
}

static inline struct text_span span(const char *text) {
    return (struct text_span){text, strlen(text)};
}

// Returns the new token's id.
static inline int32_t build_token(struct vocab_build *build, struct text_span text, int32_t type) {
    const int32_t id = build->source.n_token++;
    if (id >= BUILD_MAX) abort();
    build->token[id] = text;
    build->type[id] = type;
    return id;
}

static inline int32_t build_normal(struct vocab_build *build, const char *text) {
    return build_token(build, span(text), TOKEN_NORMAL);
}

static inline void build_merge(struct vocab_build *build, const char *merge) {
    if (build->source.n_merge >= BUILD_MAX) abort();
    build->merge[build->source.n_merge++] = span(merge);
}

// All 256 bytes; in a new vocabulary a byte's id is its value.
static inline void build_bytes(struct vocab_build *build) {
    for (int byte = 0; byte < 256; byte++) {
        uint8_t *const text = (uint8_t *)build->byte_text[byte];
        const size_t n = unicode_encode(alphabet_char((uint8_t)byte), text);
        build_token(build, (struct text_span){build->byte_text[byte], n}, TOKEN_NORMAL);
    }
}

#endif

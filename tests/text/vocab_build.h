// Small vocabularies for tests: tokens are added one by one, bytes by their alphabet characters.
// Then build_tokenizer or build_finish makes the tokenizer.
#ifndef TEST_VOCAB_BUILD_H
#define TEST_VOCAB_BUILD_H

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "text/alphabet.h"
#include "text/tokenizer.h"
#include "unicode/unicode.h"

enum { BUILD_MAX = 2048 };

struct vocab_build {
    struct text_span token[BUILD_MAX];
    struct vocab_merge merge[BUILD_MAX];
    int32_t type[BUILD_MAX];
    float score[BUILD_MAX];
    struct vocab_normal normal[8];
    struct vocab_split split[8];
    struct vocab_added added[64];
    char byte_text[256][8];
    struct vocab_source source;
};

// Byte level, and no splits: a text is one word.
static inline struct vocab_build *build_create(void) {
    struct vocab_build *const build = calloc(1, sizeof *build);
    if (!build) abort();
    build->source = (struct vocab_source){
        .name = "test",
        .token = build->token,
        .type = build->type,
        .score = build->score,
        .merge = build->merge,
        .normal = build->normal,
        .split = build->split,
        .added = build->added,
        .bos = -1,
        .eos = -1,
        .unk = -1,
        .eot = -1,
        .pad = -1,
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

// "left right"
static inline void build_merge(struct vocab_build *build, const char *merge) {
    if (build->source.n_merge >= BUILD_MAX) abort();
    const char *const space = strchr(merge + 1, ' ');
    if (!space) abort();
    build->merge[build->source.n_merge++] =
        (struct vocab_merge){{merge, (size_t)(space - merge)}, span(space + 1)};
}

static inline void build_split(struct vocab_build *build, enum vocab_split_kind kind,
                               enum vocab_split_behavior behavior, bool invert,
                               const char *pattern) {
    if (build->source.n_split == 8) abort();
    build->split[build->source.n_split++] =
        (struct vocab_split){kind, behavior, invert, span(pattern)};
}

static inline void build_pre(struct vocab_build *build, const char *name) {
    build_split(build, SPLIT_NAMED, SPLIT_ISOLATED, false, name);
}

static inline void build_normalizer(struct vocab_build *build, enum vocab_normal_kind kind,
                                    const char *from, const char *to) {
    if (build->source.n_normal == 8) abort();
    build->normal[build->source.n_normal++] = (struct vocab_normal){kind, span(from), span(to)};
}

static inline struct vocab_added *build_added(struct vocab_build *build, int32_t id,
                                              const char *text) {
    if (build->source.n_added == 64) abort();
    struct vocab_added *const added = &build->added[build->source.n_added++];
    *added = (struct vocab_added){.id = id, .text = span(text)};
    return added;
}

// A token with a score, for vocabularies of characters.
static inline int32_t build_scored(struct vocab_build *build, const char *text, float score) {
    const int32_t id = build_token(build, span(text), TOKEN_NORMAL);
    build->score[id] = score;
    return id;
}

// The 256 tokens <0x00> to <0xFF>.
static inline void build_byte_tokens(struct vocab_build *build) {
    static const char digit[] = "0123456789ABCDEF";
    for (int byte = 0; byte < 256; byte++) {
        char *const text = build->byte_text[byte];
        memcpy(text, "<0x__>", 7);
        text[3] = digit[byte >> 4];
        text[4] = digit[byte & 15];
        build_token(build, span(text), TOKEN_BYTE);
    }
    build->source.byte_fallback = true;
}

// All 256 bytes in the byte-level alphabet; in a new vocabulary a byte's id is its value.
static inline void build_bytes(struct vocab_build *build) {
    for (int byte = 0; byte < 256; byte++) {
        uint8_t *const text = (uint8_t *)build->byte_text[byte];
        const size_t n = unicode_encode(alphabet_char((uint8_t)byte), text);
        build_token(build, (struct text_span){build->byte_text[byte], n}, TOKEN_NORMAL);
    }
}

static inline struct tokenizer *build_tokenizer(const struct vocab_build *build) {
    rn_error err = {0};
    struct tokenizer *tokenizer = NULL;
    check(tokenizer_create(&build->source, &tokenizer, &err) == RN_OK, "%s", err.message);
    return tokenizer;
}

// The same; the vocabulary is freed.
static inline struct tokenizer *build_finish(struct vocab_build *build) {
    struct tokenizer *const tokenizer = build_tokenizer(build);
    free(build);
    return tokenizer;
}

#endif

// Weights of every format from random bytes: quants of any bits, with scales of ordinary size.
#ifndef RN_TESTS_RANDOM_BLOCKS_H
#define RN_TESTS_RANDOM_BLOCKS_H

#include <stddef.h>
#include <string.h>

#include "base/half.h"
#include "check.h"
#include "quant/format.h"
#include "quant/iq4_nl.h"
#include "quant/iq4_xs.h"
#include "quant/mxfp4.h"
#include "quant/q2_k.h"
#include "quant/q3_k.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q4_k.h"
#include "quant/q5_0.h"
#include "quant/q5_1.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"

static inline uint64_t random_next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state ^ *state >> 31) * 0x9e3779b97f4a7c15u >> 16;
}

// The state behind n calls of random_next.
static inline void random_skip(uint64_t *state, uint64_t n) {
    uint64_t a = 6364136223846793005u, c = 1442695040888963407u;
    for (; n; n >>= 1) {
        if (n & 1) *state = *state * a + c;
        c *= a + 1;
        a *= a;
    }
}

static inline int random_below(uint64_t *state, int n) {
    return (int)(random_next(state) % (uint64_t)n);
}

// Uniform in [-1, 1].
static inline float random_unit(uint64_t *state) {
    return (float)((int)(random_next(state) & 0xffffff) - 0x800000) * 0x1p-23f;
}

static inline void half_set(void *field, float value) {
    const uint16_t bits = f32_to_f16(value);
    memcpy(field, &bits, sizeof bits);
}

// Where a block format keeps its floats: f16 scale and, where it is not -1, f16 offset or minimum.
struct scale_fields {
    int d, m;
};

static const struct scale_fields scale_fields[FORMAT_COUNT] = {
    [FORMAT_Q8_0] = {offsetof(struct q8_0_block, d), -1},
    [FORMAT_Q4_0] = {offsetof(struct q4_0_block, d), -1},
    [FORMAT_Q4_1] = {offsetof(struct q4_1_block, d), offsetof(struct q4_1_block, m)},
    [FORMAT_Q5_0] = {offsetof(struct q5_0_block, d), -1},
    [FORMAT_Q5_1] = {offsetof(struct q5_1_block, d), offsetof(struct q5_1_block, m)},
    [FORMAT_Q2_K] = {offsetof(struct q2_k_block, d), offsetof(struct q2_k_block, dmin)},
    [FORMAT_Q3_K] = {offsetof(struct q3_k_block, d), -1},
    [FORMAT_Q4_K] = {offsetof(struct q4_k_block, d), offsetof(struct q4_k_block, dmin)},
    [FORMAT_Q5_K] = {offsetof(struct q5_k_block, d), offsetof(struct q5_k_block, dmin)},
    [FORMAT_Q6_K] = {offsetof(struct q6_k_block, d), -1},
    [FORMAT_IQ4_NL] = {offsetof(struct iq4_nl_block, d), -1},
    [FORMAT_IQ4_XS] = {offsetof(struct iq4_xs_block, d), -1},
};

// Gives a block of random bytes ordinary scales.
static inline void block_tame(enum format_id format, uint8_t *block, uint64_t *state) {
    const struct scale_fields *fields = &scale_fields[format];
    if (format == FORMAT_MXFP4) {
        block[offsetof(struct mxfp4_block, e)] = (uint8_t)(120 + random_below(state, 8));
        return;
    }
    if (fields->d == 0 && fields->m == 0) { // not in the table
        fail_msg("a block format without known scales: %s", format_at(format)->name);
    }
    half_set(block + fields->d, random_unit(state) * 0.1f);
    if (fields->m >= 0) half_set(block + fields->m, random_unit(state) * 0.1f);
}

static inline void element_tame(enum format_id format, uint8_t *element, uint64_t *state) {
    const float value = random_unit(state);
    const uint16_t half = format == FORMAT_F16 ? f32_to_f16(value) : f32_to_bf16(value);
    if (format == FORMAT_F32) {
        memcpy(element, &value, sizeof value);
    } else {
        memcpy(element, &half, sizeof half);
    }
}

// Bytes of that format, a multiple of its block.
static inline void blocks_fill(enum format_id format, uint8_t *data, uint64_t bytes,
                               uint64_t *state) {
    const struct format *f = format_at(format);
    if (f->span)
        for (uint64_t i = 0; i < bytes; i++) data[i] = (uint8_t)random_next(state);
    else
        random_skip(state, bytes); // every byte is an element's
    for (uint64_t at = 0; at < bytes; at += (uint64_t)f->block_bytes) {
        if (f->span)
            block_tame(format, data + at, state);
        else
            element_tame(format, data + at, state);
    }
}

#endif

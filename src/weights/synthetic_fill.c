// The values of synthetic models: norms are 1, the decays of states are -1, all else is like N(0,
// 0.02), so that activations stay finite through any number of layers and positions. A million
// random values are made once per format and copied again and again, by all threads. The pattern is
// a prime number of blocks and each tensor begins at another one, so rows of a matrix differ. The
// same on every machine.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "quant/iq4_nl.h"
#include "quant/iq4_xs.h"
#include "quant/mxfp4.h"
#include "quant/q2_k.h"
#include "quant/q3_k.h"
#include "weights/synthetic.h"

enum { SLAB_BYTES = 4 << 20, TENSOR_STEP = 7919 };

static const float spread = 0.02f; // the weights' standard deviation

struct pattern {
    uint8_t *data; // NULL: not made yet
    uint64_t bytes;
};

// --- random values (splitmix64) ---

static uint64_t random_bits(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

// Nearly normal: the sum of four even ones, which has no long tails.
static float random_weight(uint64_t *state) {
    const uint64_t z = random_bits(state);
    const int sum =
        (int)(z & 0xffff) + (int)(z >> 16 & 0xffff) + (int)(z >> 32 & 0xffff) + (int)(z >> 48);
    return ((float)sum - 131070.0f) * (spread / 37837.0f);
}

// --- formats that cannot be encoded: random bits, with scales put right. Comments give the spread
// of the codes that are multiplied with the scale. ---

static void tame_q2_k(void *data) {
    struct q2_k_block *block = data; // (q - 1.5) * sc: 1.12 * 11.7
    const float d = spread / (1.12f * 11.7f);
    for (int i = 0; i < 16; i++) {
        const int sc = 8 + (block->scales[i] & 7);
        block->scales[i] = (uint8_t)(sc | sc << 4);
    }
    block->d = f32_to_f16(d);
    block->dmin = f32_to_f16(1.5f * d);
}

static void tame_q3_k(void *data) {
    struct q3_k_block *block = data; // q * sc: 2.35 * 18.5
    block->d = f32_to_f16(spread / (2.35f * 18.5f));
}

static void tame_iq4_nl(void *data) {
    struct iq4_nl_block *block = data; // level: 67
    block->d = f32_to_f16(spread / 67.0f);
}

static void tame_iq4_xs(void *data) {
    struct iq4_xs_block *block = data; // level * sc: 67 * 18.5
    block->d = f32_to_f16(spread / (67.0f * 18.5f));
}

static void tame_mxfp4(void *data) {
    struct mxfp4_block *block = data; // level: 5.9
    block->e = block->e & 3 ? 120 : 119;
}

static void (*const tame[FORMAT_COUNT])(void *block) = {
    [FORMAT_Q2_K] = tame_q2_k,     [FORMAT_Q3_K] = tame_q3_k,   [FORMAT_IQ4_NL] = tame_iq4_nl,
    [FORMAT_IQ4_XS] = tame_iq4_xs, [FORMAT_MXFP4] = tame_mxfp4,
};

static void block_make(enum format_id id, uint64_t *state, uint8_t *out) {
    const struct format *format = format_at(id);
    if (format->encode) {
        float values[FORMAT_MAX_BLOCK];
        for (int i = 0; i < format->block; i++) values[i] = random_weight(state);
        format->encode(values, out);
        return;
    }
    for (int i = 0; i < format->block_bytes; i++) out[i] = (uint8_t)random_bits(state);
    tame[id](out);
}

struct pattern_job {
    enum format_id format;
    uint8_t *data;
};

static void make_blocks(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct pattern_job *job = ctx;
    const int bytes = format_at(job->format)->block_bytes;
    for (int64_t i = begin; i < end; i++) {
        uint64_t state = ((uint64_t)job->format << 32 | (uint64_t)i) * 0xd1342543de82ef95u;
        block_make(job->format, &state, job->data + i * bytes);
    }
}

static rn_status pattern_make(enum format_id id, struct pool *pool, const struct weights *weights,
                              struct pattern *out, rn_error *err) {
    const struct format *format = format_at(id);
    // the primes below 2^20, 2^15 and 2^12
    const int64_t n_blocks = format->block == 1 ? 1048573 : format->block == 32 ? 32749 : 4093;
    if (!format->encode && !tame[id])
        return err_set(err, RN_ERR_UNSUPPORTED, "%s: no random values for format %s",
                       weights_name(weights), format->name);
    out->bytes = (uint64_t)n_blocks * (uint64_t)format->block_bytes;
    out->data = malloc((size_t)out->bytes);
    if (!out->data) return err_set(err, RN_ERR_NOMEM, "%s: out of memory", weights_name(weights));
    struct pattern_job job = {id, out->data};
    pool_run(pool, make_blocks, &job, n_blocks, 64);
    return RN_OK;
}

// --- tensors ---

struct fill_job {
    const struct pattern *pattern;
    uint8_t *data;
    uint64_t bytes;
    uint64_t first; // byte of the pattern that the tensor begins with
};

static void fill_slabs(void *ctx, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const struct fill_job *job = ctx;
    uint64_t at = (uint64_t)begin * SLAB_BYTES;
    const uint64_t limit = (uint64_t)end * SLAB_BYTES;
    const uint64_t stop = limit < job->bytes ? limit : job->bytes;
    while (at < stop) {
        const uint64_t from = (job->first + at) % job->pattern->bytes;
        const uint64_t there = job->pattern->bytes - from;
        const uint64_t n = stop - at < there ? stop - at : there;
        memcpy(job->data + at, job->pattern->data + from, (size_t)n);
        at += n;
    }
}

static bool is_norm(const char *name) {
    return strstr(name, "norm.weight") || strstr(name, "norm_1.weight") ||
           strstr(name, "norm_2.weight");
}

static bool is_decay(const char *name) {
    const size_t len = strlen(name);
    return len > 6 && strcmp(name + len - 6, ".ssm_a") == 0;
}

static rn_status tensor_fill(const struct weights *weights, int index, struct pattern *patterns,
                             struct pool *pool, rn_error *err) {
    const struct tensor_view *tensor = weights_tensor_at(weights, index);
    struct pattern *pattern = &patterns[tensor->format];
    void *data = (void *)(uintptr_t)tensor->data;
    if (is_norm(tensor->name) || is_decay(tensor->name)) {
        assert(tensor->format == FORMAT_F32);
        const float value = is_norm(tensor->name) ? 1 : -1;
        for (int64_t i = 0; i < tensor->dim[0]; i++) ((float *)data)[i] = value;
        return RN_OK;
    }
    if (!pattern->data) {
        const rn_status status = pattern_make(tensor->format, pool, weights, pattern, err);
        if (status) return status;
    }
    const uint64_t block_bytes = (uint64_t)format_at(tensor->format)->block_bytes;
    struct fill_job job = {.pattern = pattern,
                           .data = data,
                           .bytes = tensor->bytes,
                           .first = (uint64_t)index * TENSOR_STEP * block_bytes % pattern->bytes};
    pool_run(pool, fill_slabs, &job, (int64_t)((tensor->bytes + SLAB_BYTES - 1) / SLAB_BYTES), 1);
    return RN_OK;
}

rn_status synthetic_fill(const struct weights *weights, rn_error *err) {
    struct pattern patterns[FORMAT_COUNT] = {{NULL, 0}};
    struct pool *pool;
    rn_status status = pool_create(pool_default_threads(), &pool, err);
    if (status) return status;
    for (int i = 0; !status && i < weights_tensor_count(weights); i++)
        status = tensor_fill(weights, i, patterns, pool, err);
    for (int i = 0; i < FORMAT_COUNT; i++) free(patterns[i].data);
    pool_destroy(pool);
    return status;
}

// See derived.h.
#define _GNU_SOURCE 1
#include "weights/derived.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"

enum { ALIGN = 4096 }; // of a tensor's addresses

struct derived *derived_push(struct weights *weights, struct st_tensor *t,
                             enum tensor_codes codes) {
    struct derived *grown = store_table_grow(weights->derived, weights->n_derived,
                                             &weights->cap_derived, sizeof *grown);
    if (!grown) return NULL;
    weights->derived = grown;
    t->codes = codes;
    t->derived = weights->n_derived++;
    struct derived *derived = &grown[t->derived];
    *derived = (struct derived){.code = t->data, .file = t->file, .codes = codes};
    if (codes == CODES_INTEGERS) derived->held = integers_held_create();
    return codes == CODES_INTEGERS && !derived->held ? NULL : derived;
}

static bool ends_with(const char *name, const char *end) {
    const size_t len = strlen(name), end_len = strlen(end);
    return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

// Scales and zero points of activations and of stored keys and values, which stay in higher
// precision here.
static bool is_other(const char *name) {
    static const char *const ends[] = {
        ".input_scale",           ".k_scale",           ".v_scale",          ".q_scale",
        ".output_scale",          ".activation_scale",  "_proj_input_scale", ".input_scale_ub",
        "_proj_activation_scale", ".input_zero_point",  ".k_zero_point",     ".v_zero_point",
        ".q_zero_point",          ".output_zero_point",
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(name, ends[i])) return true;
    return false;
}

rn_status derived_adopt(struct hf_config *c, struct st_table *table) {
    if (!c->quant.has_fp8 && c->quant.integers == HF_INTEGERS_NONE) return RN_OK;
    for (int i = 0; i < table->n; i++)
        table->tensors[i].is_known |= is_other(table->tensors[i].name);
    const rn_status status = fp8_adopt(c, table);
    return status ? status : integers_adopt(c, table);
}

// Where each tensor is behind the base; false: the sum is too large.
static bool places_sum(struct weights *weights, const struct st_table *table, uint64_t *sum) {
    for (int i = 0; i < table->n; i++) {
        const struct st_tensor *t = &table->tensors[i];
        if (t->codes != CODES_NONE && !ck_pad(t->bytes, ALIGN, &weights->derived[t->derived].bytes))
            return false;
    }
    for (int i = 0; i < weights->n_derived; i++) {
        weights->derived[i].at = (const uint8_t *)(uintptr_t)*sum;
        if (!ck_add(*sum, weights->derived[i].bytes, sum)) return false;
    }
    return true;
}

rn_status derived_place(struct hf_config *c, struct st_table *table) {
    struct weights *weights = c->weights;
    uint64_t sum = 0;
    if (!places_sum(weights, table, &sum))
        return err_set(c->err, RN_ERR_MODEL, "%s: the quantized tensors are too large",
                       weights->name);
    if (sum == 0) return RN_OK;
    void *base = mmap(NULL, sum, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return err_set(c->err, RN_ERR_NOMEM,
                       "%s: no addresses for %" PRIu64 " bytes of quantized tensors", weights->name,
                       sum);
    weights->derived_base = base;
    weights->derived_bytes = sum;
    for (int i = 0; i < table->n; i++) {
        struct st_tensor *t = &table->tensors[i];
        if (t->codes == CODES_NONE) continue;
        struct derived *derived = &weights->derived[t->derived];
        t->data = derived->at = (const uint8_t *)base + (uintptr_t)derived->at;
    }
    return RN_OK;
}

void derived_close(struct weights *weights) {
    if (weights->derived_bytes) munmap(weights->derived_base, weights->derived_bytes);
    for (int i = 0; i < weights->n_derived; i++) integers_held_destroy(weights->derived[i].held);
}

const struct derived *derived_of(const struct weights *weights, const void *data) {
    const uint8_t *at = data;
    if ((uintptr_t)at - (uintptr_t)weights->derived_base >= weights->derived_bytes) return NULL;
    int lo = 0, hi = weights->n_derived - 1; // the last one that begins at the address or before
    while (lo < hi) {
        const int middle = lo + (hi - lo + 1) / 2;
        if (weights->derived[middle].at <= at)
            lo = middle;
        else
            hi = middle - 1;
    }
    return &weights->derived[lo];
}

rn_status derived_read(const struct weights *weights, const struct derived *derived,
                       const void *data, uint64_t bytes, void *out, rn_error *err) {
    const uint64_t at = (uint64_t)((const uint8_t *)data - derived->at);
    assert(at + bytes <= derived->bytes);
    return derived->codes == CODES_FP8 ? fp8_read(weights, derived, at, bytes, out, err)
                                       : integers_read(weights, derived, at, bytes, out, err);
}

void derived_numbers(const struct derived *derived, uint64_t out[DERIVED_NUMBERS]) {
    for (int i = 0; i < DERIVED_NUMBERS; i++) out[i] = 0;
    out[0] = derived->codes;
    if (derived->codes == CODES_FP8)
        fp8_numbers(&derived->fp8, out + 1);
    else
        integers_numbers(&derived->integers, out + 1);
}

// The table of KV types and the bytes of a page; see kv.h.
#include "backend/cuda/kv.h"

#include <string.h>

#include "backend/cuda/attention_latent.h"

_Static_assert((int)PAGE_TOKENS == (int)KV_PAGE_TOKENS, "a page is the engine's page");

static const struct {
    uint32_t element_bytes;
    uint32_t scale_bytes; // of a head: a scale of each position's key and value
} kv_types[KV_TYPES] = {
    [KV_F16] = {2, 0},
    [KV_BF16] = {2, 0},
    [KV_INT8] = {1, 2 * PAGE_TOKENS * 2},
    [KV_FP8] = {1, 0},
};

const char *const cuda_kv_names[KV_TYPES + 1] = {
    [KV_F16] = "f16", [KV_BF16] = "bf16", [KV_INT8] = "int8", [KV_FP8] = "fp8"};

int kv_type_of(const char *name) {
    for (int i = 0; i < KV_TYPES; i++)
        if (strcmp(cuda_kv_names[i], name) == 0) return i;
    return -1;
}

rn_status kv_group_check(const struct plan_kv_group *group, int type, rn_error *err) {
    if (type < 0 || type >= KV_TYPES)
        return err_set(err, RN_ERR_ARG, "KV type %d, expected 0 to %d", type, KV_TYPES - 1);
    if (group->kind == KV_RECURRENT) return RN_OK; // the layout refuses ops
    if (group->is_latent && (group->dim_k > LATENT_DIM_K || group->dim_v > LATENT_DIM_V))
        return err_set(err, RN_ERR_UNSUPPORTED,
                       "cuda: a latent of %d elements, of which %d are values, expected at most %d "
                       "and %d",
                       group->dim_k, group->dim_v, (int)LATENT_DIM_K, (int)LATENT_DIM_V);
    if (group->dim_k < 2 || group->dim_k > KV_DIM_MAX || group->dim_k % 2 || group->dim_v < 2 ||
        group->dim_v > KV_DIM_MAX || group->dim_v % 2)
        return err_set(err, RN_ERR_UNSUPPORTED,
                       "cuda: heads of %d and %d elements, expected even numbers of 2 to %d",
                       group->dim_k, group->dim_v, KV_DIM_MAX);
    return RN_OK;
}

uint64_t kv_head_bytes(int dim_k, int dim_v, int type) {
    const uint64_t padded = (uint64_t)(dim_k + 31) / 32 * 32 + (uint64_t)(dim_v + 15) / 16 * 16;
    return padded * PAGE_TOKENS * kv_types[type].element_bytes + kv_types[type].scale_bytes;
}

uint64_t cuda_page_bytes(const struct plan_kv_group *group, int type) {
    const uint64_t head = group->is_latent ? LATENT_PAGE_BYTES((group->dim_k + 31) / 32, type)
                                           : kv_head_bytes(group->dim_k, group->dim_v, type);
    return (uint64_t)group->n_layer * (uint64_t)group->n_head_kv * head;
}

uint64_t kv_parts_bytes(const struct plan_kv_group *group, int n_head,
                        const struct backend_sizes *sizes) {
    uint64_t parts = sizes->max_tokens < PROMPT_PARTS_ROWS ? ATTENTION_PARTS : PROMPT_PARTS;
    if (group->is_latent) {
        const uint64_t split = (uint64_t)n_head * (uint64_t)(group->dim_v + 16) * sizeof(float);
        if (LATENT_SPLITS_MOST * split > parts) parts = LATENT_SPLITS_MOST * split;
    }
    return (uint64_t)ATTENTION_STATES + parts;
}

uint64_t kv_counters_bytes(const struct plan_kv_group *group, int n_head,
                           const struct backend_sizes *sizes) {
    (void)group, (void)n_head, (void)sizes;
    return (uint64_t)ATTENTION_COUNTERS * sizeof(uint32_t);
}

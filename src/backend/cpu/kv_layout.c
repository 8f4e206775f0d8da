// The table of KV types and the layout of a head; see kv_layout.h.
#include "backend/cpu/kv_layout.h"

#include <assert.h>
#include <string.h>

static const struct {
    uint32_t bits;             // of an element
    uint32_t align_k, align_v; // elements that a token's keys and values are padded to
    bool is_coded;
} kv_types[KV_TYPE_COUNT] = {
    [KV_F32] = {32, 1, 1, false},
    [KV_F16] = {16, 1, 1, false},
    [KV_INT8] = {8, 4, 16, true},
    [KV_INT4] = {4, 8, KV_BLOCK, true},
};

const char *const kv_type_names[KV_TYPE_COUNT + 1] = {
    [KV_F32] = "f32", [KV_F16] = "f16", [KV_INT8] = "int8", [KV_INT4] = "int4"};

int kv_type_find(const char *name) {
    for (int i = 0; i < KV_TYPE_COUNT; i++)
        if (strcmp(kv_type_names[i], name) == 0) return i;
    return -1;
}

static uint32_t scales_bytes(int dim, int block) {
    return (uint32_t)((dim + block - 1) / block) * KV_PAGE_TOKENS * 2;
}

static uint32_t row_bytes(int dim, uint32_t align, uint32_t bits) {
    return ((uint32_t)dim + align - 1) / align * align * bits / 8;
}

struct kv_layout kv_layout_of(enum kv_type type, int dim_k, int dim_v) {
    assert(dim_k > 0 && dim_k <= KV_DIM_MAX && dim_v > 0 && dim_v <= KV_DIM_MAX);
    const uint32_t bits = kv_types[type].bits;
    const bool is_coded = kv_types[type].is_coded, in_blocks = type == KV_INT4;
    struct kv_layout layout = {.is_coded = is_coded};
    layout.block_k = in_blocks ? KV_BLOCK : dim_k;
    layout.block_v = in_blocks ? KV_BLOCK : dim_v;
    layout.row_v = row_bytes(dim_v, kv_types[type].align_v, bits);
    layout.scale_k = row_bytes(dim_k, kv_types[type].align_k, bits) * KV_PAGE_TOKENS;
    layout.v = layout.scale_k + (is_coded ? scales_bytes(dim_k, layout.block_k) : 0);
    layout.scale_v = layout.v + layout.row_v * KV_PAGE_TOKENS;
    layout.bytes = layout.scale_v + (is_coded ? scales_bytes(dim_v, layout.block_v) : 0);
    return layout;
}

struct kv_layout kv_layout_latent(enum kv_type type, int dim_k) {
    assert(dim_k > 0 && dim_k <= KV_DIM_MAX);
    struct kv_layout layout = {.is_coded = kv_types[type].is_coded, .is_latent = true};
    layout.block_k = type == KV_INT4 ? KV_BLOCK : type == KV_INT8 ? KV_LATENT_BLOCK : dim_k;
    layout.block_v = layout.block_k;
    layout.scale_k = row_bytes(dim_k, kv_types[type].align_k, kv_types[type].bits) * KV_PAGE_TOKENS;
    layout.scale_v = layout.scale_k;
    layout.bytes = layout.scale_k + (layout.is_coded ? scales_bytes(dim_k, layout.block_k) : 0);
    return layout;
}

uint64_t kv_page_bytes(const struct plan_kv_group *group, enum kv_type type, bool bf16_states) {
    const uint64_t n_layer = (uint64_t)group->n_layer;
    if (group->kind == KV_RECURRENT) {
        const uint64_t exact = (uint64_t)group->exact, rest = (uint64_t)group->state - exact;
        const uint64_t small = (rest * sizeof(uint16_t) + 3) / 4 * 4; // layers begin on floats
        return n_layer * (exact * sizeof(float) + (bf16_states ? small : rest * sizeof(float)));
    }
    const struct kv_layout layout = group->is_latent
                                        ? kv_layout_latent(type, group->dim_k)
                                        : kv_layout_of(type, group->dim_k, group->dim_v);
    return n_layer * (uint64_t)group->n_head_kv * layout.bytes;
}

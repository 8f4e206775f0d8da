// The bytes that a plan takes on a GPU; see layout.h.
#include "backend/cuda/kv.h"
#include "backend/cuda/layout.h"
#include "backend/cuda/stage.h"

rn_status cuda_layout_check(const struct plan *plan, const struct backend_sizes *sizes,
                            const char *kv_type, struct arena *arena, struct cuda_layout *out,
                            rn_error *err) {
    rn_status status = cuda_layout_make(plan, sizes, arena, out, err);
    for (int g = 0; g < plan->n_group_all && !status; g++)
        status = kv_group_check(&plan->group[g], kv_type_of(kv_type), err);
    return status;
}

uint64_t cuda_group_bytes(const struct plan *plan, int group, const struct backend_sizes *sizes,
                          int kv_type) {
    const struct plan_kv_group *own = &plan->group[group];
    if (own->kind != KV_RECURRENT) return cuda_page_bytes(own, kv_type);
    return (uint64_t)own->n_layer * cuda_state_bytes(plan, group, sizes->bf16_states);
}

void cuda_stored(double out[FORMAT_COUNT]) {
    for (int i = 0; i < FORMAT_COUNT; i++) {
        const enum format_id id = (enum format_id)i;
        const int64_t cols = FORMAT_MAX_BLOCK; // whole blocks of all formats, and whole units
        out[i] = (double)codec_tile_bytes(codec_of(id), cols) /
                 (double)(UNIT_ROWS * format_row_bytes(id, cols));
    }
}

rn_status cuda_need(const struct plan *plan, const struct backend_sizes *sizes, const char *kv_type,
                    struct backend_need *out, rn_error *err) {
    struct arena arena = {0};
    struct cuda_layout layout;
    const rn_status status = cuda_layout_check(plan, sizes, kv_type, &arena, &layout, err);
    *out = (struct backend_need){.weights = layout.weight_bytes, .step = layout.step_bytes};
    for (int g = 0; g < plan->n_group_all && !status; g++)
        out->kv.page[g] = cuda_group_bytes(plan, g, sizes, kv_type_of(kv_type));
    arena_deinit(&arena);
    return status;
}

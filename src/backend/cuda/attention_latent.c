// Launches of attention over latents, and the shared memory that its blocks need.
#include "backend/cuda/attention_latent.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.h"

// The division of a block's memory; the bytes, or 0 where two pages do not fit into `most`.
uint32_t cuda_latent_divide(struct latent_args *args, uint32_t most) {
    const struct stage_attention *a = &args->stage;
    const int n_blocks = (a->dim_k + 31) / 32;
    const bool is_wide = a->kv_type == KV_F16 || a->kv_type == KV_BF16;
    const uint32_t page = LATENT_PAGE_BYTES(n_blocks, a->kv_type);
    const uint32_t kept = LATENT_DIM_V * LATENT_QUERIES * 4;
    uint32_t at = LATENT_HEAD + (uint32_t)(n_blocks * 32 * LATENT_QUERIES * 2);
    if (!is_wide) {
        args->wide_at = at;
        at += 2 * LATENT_PAGE_BYTES(n_blocks, KV_F16);
    }
    args->kept_at = at;
    if (at + kept + (is_wide ? 3 : 2) * page <= most)
        at += kept;
    else
        args->kept_at = 0;
    args->slots_at = at;
    if (at + 2 * page > most) return 0;
    args->n_slots = (int32_t)((most - at) / page);
    if (args->n_slots > LATENT_SLOTS_MAX) args->n_slots = LATENT_SLOTS_MAX;
    return at + (uint32_t)args->n_slots * page;
}

rn_status cuda_latent_prepare(struct cuda_backend *b, rn_error *err) {
    for (int g = 0; g < b->plan->n_group_all; g++) {
        const struct plan_kv_group *group = &b->plan->group[g];
        if (!group->is_latent) continue;
        struct latent_args args = {.stage = {.dim_k = group->dim_k, .kv_type = b->kv_type}};
        if (cuda_latent_divide(&args, b->shared_most) == 0)
            return err_set(err, RN_ERR_UNSUPPORTED,
                           "%s: a block has %u bytes of shared memory, too few for a latent of %d "
                           "elements; --backend cpu has no such bound",
                           b->prop.name, b->shared_most, group->dim_k);
        const cudaError_t code =
            cudaFuncSetAttribute(latent_attention(b->kv_type, group->dim_k, group->dim_v),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, (int)b->shared_most);
        if (code) return cuda_fault(code, RN_ERR_UNSUPPORTED, "shared memory of latents", err);
    }
    return RN_OK;
}

cudaError_t cuda_latent_launch(struct cuda_backend *b, const struct stage *s, int n_rows,
                               const struct cuda_shape *shape, struct launch_clock clock) {
    struct latent_args args = {.stage = s->attention,
                               .step = (const struct step *)(const void *)shape->upload,
                               .clock = clock,
                               .rows = s->rows,
                               .n_workers = b->n_sm,
                               .run = 1,
                               .is_early = !shape->has_pages && !b->profiling,
                               .n_parts = s->attention.parts_bytes / 32};
    if (s->kind == STAGE_APPEND) {
        const uint64_t n = ((uint64_t)n_rows * (uint64_t)args.stage.n_head_kv + 7) / 8;
        return cuda_launch(latent_append(b->kv_type), n < 4096 ? n : 4096, BLOCK_THREADS, 0, &args,
                           b->overlaps, b->stream);
    }
    const uint32_t shared = cuda_latent_divide(&args, b->shared_most);
    if (shape->has_long) args.clock = (struct launch_clock){0};
    const cudaError_t code =
        cuda_launch(latent_attention(b->kv_type, args.stage.dim_k, args.stage.dim_v),
                    (uint64_t)b->n_sm, LATENT_THREADS, shared, &args, b->overlaps, b->stream);
    if (code || !shape->has_long) return code; // sequences of up to two splits have no parts
    args.clock = clock;
    return cuda_launch(latent_fold(), 4 * (uint64_t)b->n_sm, LATENT_FOLD_THREADS, LATENT_HEAD,
                       &args, b->overlaps, b->stream);
}

// Launches of attention over latents. sizes/latent_room.c has the shared memory of their blocks.
#include "backend/cuda/attention_latent.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.h"

rn_status cuda_latent_prepare(struct cuda_backend *b, rn_error *err) {
    for (int g = 0; g < b->plan->n_group_all; g++) {
        const struct plan_kv_group *group = &b->plan->group[g];
        if (!group->is_latent) continue;
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

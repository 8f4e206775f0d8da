// The shared memory of a block that reads latents; see attention_latent.h and layout.h.
#include "backend/cuda/attention_latent.h"
#include "backend/cuda/kv.h"
#include "backend/cuda/layout.h"

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

rn_status cuda_block_check(const struct plan *plan, const char *kv_type, uint32_t block_bytes,
                           const char *device, rn_error *err) {
    for (int g = 0; g < plan->n_group_all; g++) {
        const struct plan_kv_group *group = &plan->group[g];
        struct latent_args args = {
            .stage = {.dim_k = group->dim_k, .kv_type = kv_type_of(kv_type)}};
        if (group->is_latent && cuda_latent_divide(&args, block_bytes) == 0)
            return err_set(err, RN_ERR_UNSUPPORTED,
                           "%s: a block has %u bytes of shared memory, too few for a latent of %d "
                           "elements in %s",
                           device, block_bytes, group->dim_k, kv_type);
    }
    return RN_OK;
}

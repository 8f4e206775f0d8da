// The public plan of memory: the options' sizes, resolved as the engine resolves them, and its
// budget.
#include <string.h>

#include "base/sized.h"
#include "runnel_model.h"
#include "tools.h"

static rn_status plan_memory(const rn_model *model, const rn_engine_options *o, rn_memory_plan *out,
                             rn_error *err) {
    const rn_model_info *info = rn_model_get_info(model);
    const struct plan *plan = tools_plan(model);
    *out = (rn_memory_plan){0};
    if (!plan) return err_set(err, RN_ERR_ARG, "%s: opened for its vocabulary alone", info->path);
    struct engine_config config;
    struct backend_place place, draft_place;
    struct budget budget;
    rn_status status = model_engine_config(o, &config, err);
    if (!status) status = engine_plan(&model->model, &config, &place, &draft_place, &budget, err);
    if (status) return status;
    *out = (rn_memory_plan){
        .total = place.device.memory_total,
        .available = place.device.memory_free,
        .weight_bytes = budget.weight_bytes,
        .step_bytes = budget.step_bytes,
        .free_bytes = budget.free_bytes,
        .kv_bytes = budget.kv_bytes,
        .kv_tokens = budget.block_bytes ? budget.kv_bytes / budget.block_bytes * KV_PAGE_TOKENS : 0,
        .kv_token_bytes = plan_kv_token_bytes(plan, &budget.kv),
        .kv_context_bytes = budget.context_bytes,
        .n_contexts = budget.context_bytes ? budget.kv_bytes / budget.context_bytes : 0,
        .n_ctx = budget.sizes.n_ctx,
        .kv_type = place.kv_type,
        .state_bytes = plan_state_bytes(plan, &budget.kv),
        .state_interval = budget_state_interval(plan, &budget.kv),
        .mtp_kv_bytes = budget.block_kv_bytes,
        .draft_weight_bytes = budget.beside.weight_bytes,
        .draft_step_bytes = budget.beside.step_bytes,
        .draft_kv_bytes = budget.beside.kv_bytes,
    };
    strcpy(out->device, place_device_name(&place)); // both have RN_DEVICE_NAME bytes
    return RN_OK;
}

rn_status rn_engine_plan_memory_sized(const rn_model *model, const rn_engine_options *options,
                                      size_t options_size, rn_memory_plan *out, size_t out_size,
                                      rn_error *err) {
    rn_engine_options own;
    rn_memory_plan plan = {0};
    rn_status status = model_engine_options(options, options_size, &own, err);
    if (!status) status = plan_memory(model, &own, &plan, err);
    sized_write(&plan, sizeof plan, out, out_size);
    return status;
}

// The public plan of memory: the options' sizes, resolved as the engine resolves them, and its
// budget.
#include "base/memory.h"
#include "base/pool.h"
#include "engine/budget.h"
#include "runnel_model.h"
#include "tools.h"

// The draft model, where it would be used.
static struct budget_beside beside_of(const struct speculation_config *spec, enum kv_type kv_type) {
    if (!(spec->drafters & 1u << RN_DRAFTER_MODEL)) return (struct budget_beside){0};
    return (struct budget_beside){.plan = &spec->model->plan,
                                  .n_ctx_max = spec->model->hp.n_ctx,
                                  .kv_type = kv_type};
}

rn_status rn_engine_plan_memory(const rn_model *model, const rn_engine_options *options,
                                rn_memory_plan *out, rn_error *err) {
    static const rn_engine_options defaults;
    const rn_engine_options *o = options ? options : &defaults;
    const rn_model_info *info = rn_model_get_info(model);
    const struct plan *plan = tools_plan(model);
    *out = (rn_memory_plan){0};
    if (!plan) return err_set(err, RN_ERR_ARG, "%s: opened for its vocabulary alone", info->path);
    enum kv_type kv_type;
    rn_status status = model_kv_type(o->kv_type, &kv_type, err);
    if (status) return status;
    struct speculation_config spec;
    status = model_speculation(o, &spec, err);
    if (status) return status;
    const uint64_t address_room = memory_address_room();
    const struct budget_request request = {.plan = plan,
                                           .n_ctx_max = info->n_ctx_train,
                                           .kv_type = kv_type,
                                           .wanted = {.n_ctx = o->n_ctx,
                                                      .max_seqs = o->max_seqs,
                                                      .batch_tokens = o->batch_tokens,
                                                      .logit_rows = o->logit_rows},
                                           .draft_rows = speculation_rows(&spec, o->max_seqs),
                                           .kv_bytes = o->kv_bytes,
                                           .kv_pages = o->kv_pages,
                                           .total = memory_total(),
                                           .available = memory_available(),
                                           .address_room = address_room,
                                           .stack_bytes =
                                               address_room ? pool_stack_bytes(o->n_threads) : 0,
                                           .beside = beside_of(&spec, kv_type)};
    struct budget budget;
    status = budget_choose(&request, &budget, err);
    if (status) return status;
    *out = (rn_memory_plan){
        .total = request.total,
        .available = request.available,
        .weight_bytes = budget.weight_bytes,
        .step_bytes = budget.step_bytes,
        .free_bytes = budget.free_bytes,
        .kv_bytes = budget.kv_bytes,
        .kv_tokens = budget.page_bytes ? budget.kv_bytes / budget.page_bytes * KV_PAGE_TOKENS : 0,
        .kv_token_bytes = plan_kv_token_bytes(plan, request.kv_type),
        .kv_context_bytes = budget.context_bytes,
        .n_contexts = budget.context_bytes ? budget.kv_bytes / budget.context_bytes : 0,
        .n_ctx = budget.sizes.n_ctx,
        .kv_type = kv_type_name(request.kv_type),
        .draft_weight_bytes = budget.beside.weight_bytes,
        .draft_step_bytes = budget.beside.step_bytes,
        .draft_kv_bytes = budget.beside.kv_bytes,
    };
    return RN_OK;
}

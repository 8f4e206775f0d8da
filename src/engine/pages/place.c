// See place.h.
#include "engine/pages/place.h"

#include "backend/table.h"
#include "base/memory.h"

static rn_status planned_class(const char *name, struct backend_place *out, rn_error *err) {
    out->cls = backend_planned(name);
    if (!out->cls) return err_set(err, RN_ERR_ARG, "backend '%.64s' cannot be planned for", name);
    return out->cls->device(0, &out->device, err);
}

static rn_status find_class(const struct place_wanted *wanted, struct backend_place *out,
                            rn_error *err) {
    if (wanted->cls) return wanted->cls->device(wanted->device, &out->device, err);
    if (wanted->is_absent) return planned_class(wanted->name, out, err);
    if (backend_is_auto(wanted->name))
        return backend_best_for(wanted->plan, wanted->device, &out->cls, &out->device, out->note,
                                err);
    return backend_find(wanted->name, wanted->device, &out->cls, &out->device, err);
}

rn_status place_find(const struct place_wanted *wanted, struct backend_place *out, rn_error *err) {
    *out = (struct backend_place){.cls = wanted->cls,
                                  .index = wanted->device,
                                  .bf16_states = wanted->bf16_states};
    if (wanted->device < 0)
        return err_set(err, RN_ERR_ARG, "device is %d, expected 0 or more", wanted->device);
    const rn_status status = find_class(wanted, out, err);
    return status ? status : backend_kv_type(out->cls, wanted->kv_type, &out->kv_type, err);
}

rn_status place_find_draft(const struct place_wanted *wanted, const struct backend_place *target,
                           struct backend_place *out, rn_error *err) {
    *out = *target;
    if (!wanted->name && !wanted->cls) return RN_OK;
    const struct place_wanted place = {.name = wanted->name,
                                       .cls = wanted->cls,
                                       .device = wanted->device,
                                       .plan = wanted->plan};
    const rn_status status = place_find(&place, out, err);
    if (status) return status;
    const char *same;
    if (!backend_kv_type(out->cls, target->kv_type, &same, NULL)) out->kv_type = same;
    return RN_OK;
}

bool place_is_same(const struct backend_place *a, const struct backend_place *b) {
    return a->cls == b->cls && a->index == b->index;
}

const char *place_device_name(const struct backend_place *place) {
    return place->device.on_host ? "" : place->device.name;
}

rn_status place_budget(const struct backend_place *place, const struct model *model,
                       const struct backend_place *draft_place, const struct model *draft,
                       const struct place_sizes *wanted, struct budget *out, rn_error *err) {
    const uint64_t address_room = place->device.on_host ? memory_address_room() : 0;
    const uint64_t stored = place->device.on_host ? wanted->store_bytes : 0;
    const uint64_t available = place->device.memory_free;
    struct budget_request request = {.cls = place->cls,
                                     .device = place_device_name(place),
                                     .plan = &model->plan,
                                     .n_ctx_max = model->hp.n_ctx,
                                     .kv_type = place->kv_type,
                                     .bf16_states = place->bf16_states,
                                     .wanted = wanted->sizes,
                                     .step_tokens = place->device.step_tokens,
                                     .draft_rows = wanted->draft_rows,
                                     .no_block = wanted->no_block,
                                     .kv_bytes = wanted->kv_bytes,
                                     .kv_pages = wanted->kv_pages,
                                     .total = place->device.memory_total,
                                     // 0 says that it is unknown
                                     .available =
                                         available > stored ? available - stored : available > 0,
                                     .address_room = address_room,
                                     .stack_bytes =
                                         address_room ? pool_stack_bytes(wanted->n_threads) : 0};
    if (draft)
        request.beside = (struct budget_beside){.plan = &draft->plan,
                                                .n_ctx_max = draft->hp.n_ctx,
                                                .cls = draft_place->cls,
                                                .kv_type = draft_place->kv_type,
                                                .is_apart = !place_is_same(place, draft_place),
                                                .device = place_device_name(draft_place),
                                                .available = draft_place->device.memory_free};
    return budget_choose(&request, out, err);
}

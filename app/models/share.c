// See share.h.
#include "models/share.h"

#include <stdio.h>

#include "tools.h"

enum { KV_DIVISOR = 4, KV_CONTEXTS = 2 };

static rn_status memory_of(const rn_model *model, const rn_engine_options *wanted,
                           const struct tools_device *device, struct tools_memory *out,
                           rn_error *err) {
    const int n_ctx_train = rn_model_get_info(model)->n_ctx_train;
    const int step = device->step_tokens ? device->step_tokens : RN_DEFAULT_BATCH_TOKENS;
    const struct tools_memory_wanted sizes = {
        // a plug-in that was given by its path is not found by its name
        .place = {.backend = wanted->backend ? wanted->backend : device->backend,
                  .device = wanted->device},
        .kv_type = wanted->kv_type,
        .n_ctx = wanted->n_ctx && wanted->n_ctx < n_ctx_train ? wanted->n_ctx : n_ctx_train,
        .users = 1,
        .batch_tokens = wanted->batch_tokens ? wanted->batch_tokens : step};
    return tools_memory(model, &sizes, out, err);
}

static uint64_t kv_given(const rn_engine_options *wanted, const struct tools_memory *memory) {
    return wanted->kv_pages ? (uint64_t)wanted->kv_pages * RN_PAGE_TOKENS * memory->kv_token_bytes
                            : wanted->kv_bytes;
}

static uint64_t kv_usual(const rn_engine_options *wanted, uint64_t most,
                         const struct tools_memory *memory) {
    const uint64_t rest = memory->weight_bytes + memory->step_bytes;
    uint64_t bytes = KV_CONTEXTS * (uint64_t)wanted->max_seqs * memory->user_bytes;
    if (most && bytes > most / KV_DIVISOR) bytes = most / KV_DIVISOR;
    if (most > rest && bytes > most - rest) bytes = most - rest;
    return bytes;
}

rn_status model_share_get(const rn_model *model, uint64_t bytes_max, rn_engine_options *wanted,
                          struct model_share *out, rn_error *err) {
    const struct tools_place place = {.backend = wanted->backend, .device = wanted->device};
    struct tools_device device;
    struct tools_memory memory, draft = {0};
    rn_memory_plan plan;
    rn_status status = tools_device_find(&place, &device, err);
    if (!status) status = memory_of(model, wanted, &device, &memory, err);
    if (!status && wanted->draft) status = memory_of(wanted->draft, wanted, &device, &draft, err);
    if (status) return status;
    uint64_t kv = kv_given(wanted, &memory);
    if (!kv)
        kv = wanted->kv_bytes =
            kv_usual(wanted, bytes_max ? bytes_max : device.memory_total, &memory);
    *out = (struct model_share){.bytes = memory.weight_bytes + memory.step_bytes +
                                         memory.mtp_bytes + kv + draft.total_bytes +
                                         (*device.name ? 0 : wanted->page_store_memory),
                                .free_bytes = device.memory_free};
    snprintf(out->device, sizeof out->device, "%s", device.name);
    return rn_engine_plan_memory(model, wanted, &plan, err);
}

rn_status model_head_check(const char *path, const char *shape, rn_error *err) {
    rn_model *model = NULL;
    if (shape) return tools_synthetic_check(shape, err);
    struct weights *weights = NULL;
    rn_status status = tools_weights_open(path, &weights, err); // a config.json alone is no model
    weights_close(weights);
    if (!status) status = tools_model_describe(path, NULL, &model, err);
    rn_model_close(model);
    return status;
}

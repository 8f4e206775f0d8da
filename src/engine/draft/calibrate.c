// See calibrate.h. Each run evaluates n tokens of one sequence, from its start on.
#include "engine/draft/calibrate.h"

struct bench {
    const struct calibration *on;
    struct kv_table *table;
};

static void set_tokens(const struct calibration *on, int n) {
    for (uint32_t i = 0; i < (uint32_t)n; i++)
        on->builder->token[i] = (int32_t)((i + 1) * 2654435761u % (uint32_t)on->plan->n_vocab);
}

static rn_status run(void *ctx, int n, struct batch_shape *shape, uint64_t *ns, rn_error *err) {
    const struct bench *bench = ctx;
    const struct calibration *on = bench->on;
    struct batch *batch = &on->builder->batch;
    struct step_result result;
    const int n_out = n < on->max_logits ? n : on->max_logits;
    *ns = 0;
    *shape = (struct batch_shape){.n_tokens = n, .n_out = n_out, .n_logits = n_out};
    if (!kv_grow(on->kv, bench->table, 0, n)) return RN_OK;
    batch_begin(on->builder, NULL);
    batch->page = kv_take_ops(on->kv, &batch->n_pages);
    batch->is_draft = on->block_input != NULL;
    batch->input = on->block_input;
    batch_add(on->builder, &(struct batch_rows){.page_table = bench->table->page,
                                                .n_tokens = n,
                                                .n_out = n_out});
    set_tokens(on, n);
    if (!on->no_attention) {
        *shape = (struct batch_shape){0};
        batch_shape_add(on->plan, shape, 0, n, n_out);
    }
    const rn_status status = backend_run(on->backend, batch, &result, err);
    if (!status) *ns = result.run_ns;
    return status;
}

rn_status calibrate_price(const struct calibration *on, struct kv_table *table, struct price *price,
                          int most, uint64_t budget_ns, rn_error *err) {
    struct bench bench = {on, table};
    const rn_status status = price_calibrate(price, run, &bench, most, budget_ns, err);
    kv_release(on->kv, table);
    return status;
}

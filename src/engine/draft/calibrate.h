// Measures steps of a backend before the first request, for its price. Both backends of the draft
// room are measured here: the engine's and the draft model's.
#ifndef RN_ENGINE_DRAFT_CALIBRATE_H
#define RN_ENGINE_DRAFT_CALIBRATE_H

#include "backend/backend.h"
#include "engine/pages/kv.h"
#include "engine/price/price.h"

struct calibration {
    const struct plan *plan;
    struct kv *kv;
    struct backend *backend;
    struct batch_builder *builder;
    int max_logits;                  // rows that may want logits
    bool no_attention;               // shapes are those of drafter_model_shape
    const float *const *block_input; // rows for the plan's draft block; NULL: the model is run
};

// As price_calibrate. The table is empty, with room for `most` positions, and is empty again
// afterwards.
rn_status calibrate_price(const struct calibration *on, struct kv_table *table, struct price *price,
                          int most, uint64_t budget_ns, rn_error *err);

#endif

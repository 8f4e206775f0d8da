// The parts that Qwen 3.5, its mixtures and Qwen3-Next share: qwen35.c, qwen35moe.c, qwen3next.c.
#ifndef RN_MODEL_QWEN35_H
#define RN_MODEL_QWEN35_H

#include "model/blocks.h"
#include "model/hf_rows.h"

enum { QWEN35_INTERVAL = 4, QWEN35_MAX_HEADS = 1024 };

// qwen35_hybrid.c. is_tiled: the order of value heads in GGUF files of the architecture.
rn_status qwen35_hybrid(struct hparams *hp, const struct weights *weights, bool is_tiled,
                        rn_error *err);
// Behind it, of a mixture: the router and the shared expert.
rn_status qwen35_experts(struct hparams *hp, const struct weights *weights, rn_error *err);
void qwen35_layer(struct builder *b, const struct layer *l);

// Keys: heads and epsilon of a mixture, its experts, the recurrence.
extern const struct hf_key qwen35_keys_heads[], qwen35_keys_experts[], qwen35_keys_state[];
// A mixture has experts in every layer.
extern const struct hf_setting qwen35_settings_experts[];
// Tensors: norms, linear attention, parts that text does not need; the shared expert.
extern const struct hf_tensor qwen35_tensors[], qwen35_tensors_shared[];
void qwen35_config(struct hf_config *c); // kinds of layers, width and order of the values

#endif

// The rows and multipliers that models of Granite share: granite.c, granitemoe.c, granitehybrid.c.
#ifndef RN_MODEL_GRANITE_H
#define RN_MODEL_GRANITE_H

#include "model/arch.h"

// Of the embedding, the residual additions and the logits. That of the scores is common to all
// decoders.
rn_status granite_read_scales(struct hparams *hp, const struct weights *weights, rn_error *err);

extern const struct hf_key granite_keys[];
extern const struct hf_tensor granite_tensors_experts[]; // and of the shared expert

#endif

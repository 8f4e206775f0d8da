// The parts that LFM2 and its mixtures share: lfm2.c, lfm2moe.c.
#ifndef RN_MODEL_LFM2_H
#define RN_MODEL_LFM2_H

#include "model/blocks.h"
#include "model/hf_rows.h"

rn_status lfm2_read(struct hparams *hp, const struct weights *weights, rn_error *err);
void lfm2_layer(struct builder *b, const struct layer *l);
void lfm2_build(struct builder *b);

extern const struct hf_key lfm2_keys[];
extern const struct hf_setting lfm2_settings[];
extern const struct hf_tensor lfm2_tensors[];
void lfm2_layers(struct hf_config *c); // attention.head_count_kv of each layer

#endif

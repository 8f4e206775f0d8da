// The parts that Nemotron-H and its mixtures share: nemotron_h.c, nemotron_h_moe.c. Those of
// folders are in nemotron_h_folder.c.
#ifndef RN_MODEL_NEMOTRON_H_H
#define RN_MODEL_NEMOTRON_H_H

#include "model/mamba.h"

// A layer with a feed-forward length has a feed-forward, one with key/value heads attention, and
// the others a recurrence.
rn_status nemotron_h_read(struct hparams *hp, const struct weights *weights, rn_error *err);
void nemotron_h_layer(struct builder *b, const struct layer *l);

extern const struct hf_key nemotron_h_keys[];
extern const struct hf_setting nemotron_h_settings[];
extern const struct hf_activation nemotron_h_activation;
extern const struct hf_tensor nemotron_h_tensors[];

// Whether the pattern of the layers has experts.
bool nemotron_h_has_experts(struct hf_config *c);
// The layers of the pattern, and the metadata of each; width is the feed-forward's.
void nemotron_h_put(struct hf_config *c, const char *width);

#endif

// The parts that models with Mamba-2 layers share: the ssm.* keys, and the rows about folders.
#ifndef RN_MODEL_MAMBA_H
#define RN_MODEL_MAMBA_H

#include "model/blocks.h"
#include "model/hf_rows.h"

// The recurrence that ssm.* describes, with a norm behind its gate.
rn_status mamba_read(const struct weights *weights, struct recurrence *out, rn_error *err);
// The same, for the layers without attention.
rn_status mamba_read_rest(struct hparams *hp, const struct weights *weights, rn_error *err);

// Tensors of layers whose recurrence is called mixer, and mamba.
extern const struct hf_tensor mamba_tensors_mixer[], mamba_tensors[];
// Embedding, head and norms of models whose layers have one mixer each.
extern const struct hf_tensor mamba_tensors_frame[];
// Keys that begin with "mamba_".
extern const struct hf_key mamba_keys[];

// ssm.inner_size from the keys of heads and their size, and the bounds of dt.
void mamba_put(struct hf_config *c, const char *heads, const char *head_dim);
// The same where the head size may be left to mamba_expand.
void mamba_put_expanded(struct hf_config *c);
// Multiplies the channels of x, B and C by these factors, in the taps of the convolution.
void mamba_scale_taps(struct hf_config *c, const double of_part[3]);

#endif

// Shared by the Gemmas; defined in gemma.c.
#ifndef RN_MODEL_GEMMA_H
#define RN_MODEL_GEMMA_H

#include "model/blocks.h"
#include "model/hf_rows.h"

// The factors of embedding and scores. GGUF files do not say the latter: it is that of the head's
// size, but in the largest model (known by its layers) that of width / heads.
void gemma_scales(struct hparams *hp, int n_layer_largest);

// Folders. Norms have 1 less than GGUF's. hidden_act is a leftover: hidden_activation is used, and
// is the tanh form when it is null.
extern const struct hf_setting gemma_settings[];
extern const struct hf_activation gemma_gelu;
extern const struct hf_tensor gemma_sandwich_norms[]; // before and after both blocks
void gemma_read_scale(struct hf_config *c);           // query_pre_attn_scalar

#endif

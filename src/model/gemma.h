// What the Gemmas share; defined in gemma.c.
#ifndef RN_MODEL_GEMMA_H
#define RN_MODEL_GEMMA_H

#include "model/blocks.h"

// The factors of embedding and scores. GGUF files do not say the latter: it is that of the head's
// size, but in the largest model (known by its layers) that of width / heads.
void gemma_scales(struct hparams *hp, int n_layer_largest);

#endif

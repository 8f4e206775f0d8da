// The parts that Hunyuan's models share: hunyuan_dense.c, hunyuan_moe.c.
#ifndef RN_MODEL_HUNYUAN_H
#define RN_MODEL_HUNYUAN_H

#include "model/blocks.h"
#include "model/hf_rows.h"

// Llama's layer, in which q and k are rotated first and then normed head by head.
void hunyuan_layer(struct builder *b, const struct layer *l);

// The base for long contexts, and the kind of scaling that it is written as.
double hunyuan_base(struct hf_config *c, double theta);
extern const struct hf_scaling hunyuan_scalings[];

extern const struct hf_tensor hunyuan_tensors[]; // norms of q and k

#endif

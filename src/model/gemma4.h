// The parts of Gemma 4: gemma4.c, gemma4_layer.c and gemma4_folder.c.
#ifndef RN_MODEL_GEMMA4_H
#define RN_MODEL_GEMMA4_H

#include "model/gemma.h"

// The inputs of all layers side by side; PLAN_NONE: there are none.
int gemma4_inputs(struct builder *b);
void gemma4_layer(struct builder *b, const struct layer *l);

extern const struct hf_class gemma4_classes[];

#endif

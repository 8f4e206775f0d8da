// The parts of Gemma 4: gemma4.c, gemma4_layer.c; its folders: gemma4_folder.c, gemma4_config.c.
#ifndef RN_MODEL_GEMMA4_H
#define RN_MODEL_GEMMA4_H

#include "model/gemma.h"

// The inputs of all layers side by side; PLAN_NONE: there are none.
int gemma4_inputs(struct builder *b);
void gemma4_layer(struct builder *b, const struct layer *l);

extern const struct hf_class gemma4_classes[];
// Its own keys, and the layers with a window where the config does not say them.
void gemma4_read_config(struct hf_config *c);
void gemma4_mark_window(struct hf_config *c, uint8_t *is_local);

#endif

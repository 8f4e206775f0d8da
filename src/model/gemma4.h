// The parts of Gemma 4: gemma4.c, gemma4_layer.c; its folders: gemma4_folder.c, gemma4_config.c;
// the model that drafts for it: gemma4_assistant.c.
#ifndef RN_MODEL_GEMMA4_H
#define RN_MODEL_GEMMA4_H

#include "model/gemma.h"

// The layers' windows, heads and ropes, and the factor of the embedding.
rn_status gemma4_read_layers(struct hparams *hp, const struct weights *weights, rn_error *err);
// The inputs of all layers side by side; PLAN_NONE: there are none.
int gemma4_inputs(struct builder *b);
void gemma4_layer(struct builder *b, const struct layer *l);

extern const struct hf_class gemma4_classes[];
// Its own keys, and the layers with a window where the config does not say them.
void gemma4_read_config(struct hf_config *c);
void gemma4_mark_window(struct hf_config *c, uint8_t *is_local);

// What the rows of its classes share, but for `read` and `tensors`.
#define GEMMA4_ROWS(own_window)                                                                    \
    .keys = {hf_keys_size, gemma4_keys}, .settings = gemma4_settings, .activation = &gemma_gelu,   \
    .window = {.mark = gemma4_mark_window, .size = own_window},                                    \
    .rope = {.theta = 1e6, .theta_local = 10000, .scalings = gemma4_scalings}, .head_dim = 256,    \
    .is_tied = true
extern const struct hf_key gemma4_keys[];
extern const struct hf_setting gemma4_settings[];
extern const struct hf_scaling gemma4_scalings[];
extern const struct hf_tensor gemma4_tensors[];

#endif

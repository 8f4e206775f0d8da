// The two parts of the architecture deepseek2: deepseek2.c has its layers and the keys of
// heads, deepseek2_folder.c the rows of its Hugging Face classes.
#ifndef RN_MODEL_DEEPSEEK2_H
#define RN_MODEL_DEEPSEEK2_H

#include "model/blocks.h"

extern const struct hf_class deepseek2_classes[];
// The keys of heads that a folder's config gives.
void deepseek2_heads(struct hf_config *c);

#endif

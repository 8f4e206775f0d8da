// The two parts of the architecture deepseek2: deepseek2.c has its layers, deepseek2_folder.c the
// rows of its Hugging Face classes.
#ifndef RN_MODEL_DEEPSEEK2_H
#define RN_MODEL_DEEPSEEK2_H

#include "model/blocks.h"

extern const struct hf_class deepseek2_classes[];

#endif

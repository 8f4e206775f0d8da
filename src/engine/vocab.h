// The tokenizer of a model file: metadata in, tokenizer out.
#ifndef RN_ENGINE_VOCAB_H
#define RN_ENGINE_VOCAB_H

#include "text/tokenizer.h"
#include "weights/weights.h"

rn_status vocab_load(const struct weights *weights, struct tokenizer **out, rn_error *err);

#endif

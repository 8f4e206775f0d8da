// Internal interface for the program's tools (inspect, eval, and later bench, plan, quantize): what
// the public header does not promise. Linked statically into the program.
#ifndef RN_TOOLS_H
#define RN_TOOLS_H

#include "base/clock.h"
#include "plan/cost.h"
#include "runnel.h"
#include "text/unicode.h"
#include "weights/weights.h"

// The file behind a model, and its plan (NULL when opened for the vocabulary alone). Borrowed.
const struct weights *tools_weights(const rn_model *model);
const struct plan *tools_plan(const rn_model *model);
const struct tokenizer *tools_tokenizer(const rn_model *model);

#endif
